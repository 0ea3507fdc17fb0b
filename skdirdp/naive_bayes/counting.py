"""What a naive Bayes model counts of a table that is not in memory."""

from dataclasses import dataclass, replace
from typing import Any

from .._persons import CountedRows
from ..engines import Part


@dataclass(frozen=True)
class NaiveBayesCounter:
    """Counts of a model whose classes and columns are known, and which has not paid for any.

    Attributes
    ----------
    model : the copy of a model that `CountingEstimator._for_workers` makes.
    """

    model: Any

    @property
    def max_rows(self) -> int:
        return self.model.max_rows

    def count_part(self, part: Part, before: CountedRows | None) -> Any:
        # A copy: threads share the model, and checks of records set attributes.
        tally = self.model._for_workers()._tally(
            *part[:2], None, *part[2:], before=before, is_part=True
        )
        # Who has had how many records counted is for the parts that follow, and not for others.
        return replace(tally, counted=replace(tally.counted, rows=None, kept={}))

    def count_frame(self, frame: Any) -> Any:
        return self.model._tally_frame(frame)
