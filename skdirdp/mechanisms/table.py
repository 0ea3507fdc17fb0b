"""The public description of a table of counts."""

from dataclasses import dataclass, field

from .._validation import check_integer, store_real
from .contribution import ContributionBound


@dataclass(frozen=True)
class CountTable:
    """The public description of a table of counts that is to be released.

    Attributes
    ----------
    n_samples : the total that the table is expected to hold.
    n_categories, n_rows : its size; each row is normalised over its categories.
    contribution : what one record may change.
    precision : by how much less noise than others the table gets. The noise of all
        tables has one common scale, divided by this.
    min_smoothing : the least smoothing, in counts.
    floor : a public lower bound on every count.
    """

    n_samples: float
    n_categories: int
    n_rows: int = 1
    contribution: ContributionBound = field(default_factory=ContributionBound)
    precision: float = 1.0
    min_smoothing: float = 1.0
    floor: float = 0.0

    def __post_init__(self):
        store_real(self, "n_samples", at_least=0)
        check_integer("n_categories", self.n_categories, at_least=1)
        check_integer("n_rows", self.n_rows, at_least=1)
        store_real(self, "precision", above=0)
        store_real(self, "min_smoothing", at_least=0)
        store_real(self, "floor", at_least=0)
