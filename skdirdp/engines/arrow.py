"""PyArrow datasets: read and counted batch by batch, within the memory of a few batches."""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from .._messages import errors_without_data
from .parts import Counter, Refusal, Roles, added, count_part, outcome, persons_after
from .progress import shown

_BATCH_ROWS = 1 << 18
# Counting takes longer than reading, and what is read ahead lies in memory.
# Types that pandas has no missing value for, but for an array of its own.
_NULLABLE: dict[str, Any] = {"bool": pd.BooleanDtype()} | {
    f"{sign}int{bits}": pd.api.types.pandas_dtype(f"{sign.upper()}Int{bits}")
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
_READ_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}


class ArrowTable:
    """A dataset in files, or a stream of record batches.

    Attributes
    ----------
    sample : an empty frame of the same columns.
    given : parameters of `fit` that were given.
    """

    in_memory = False
    kind = "a PyArrow dataset"

    def __init__(self, X: Any, given: dict[str, Any]):
        self._X = X
        self.given = check_named(given)
        self._roles = Roles.of(list(X.schema.names), given)
        self.sample = X.schema.empty_table().to_pandas()[self._roles.features]

    def select_features(self, features: list[Any]) -> "ArrowTable":
        """The same where only some of the columns are read."""
        self._roles = self._roles.of_features(features)
        return self

    def count(self, counter: Counter) -> Any:
        """The counts of all batches, in their order."""
        total, before = None, None
        with errors_without_data():
            for frame in self._frames():
                part = self._roles.split(frame)
                total = added([total, count_part(counter, part, before)])
                if isinstance(total, Refusal):
                    break
                if "groups" in self.given:
                    before = persons_after(before, part.groups, counter.max_rows)
        return outcome(total)

    def _frames(self) -> Iterator[pd.DataFrame]:
        columns, total = self._roles.columns, None
        batches: Iterable[Any]
        if hasattr(self._X, "to_batches"):
            batches = _batches(self._X, columns=columns, batch_size=_BATCH_ROWS, **_READ_AHEAD)
            total = -(-self._X.count_rows() // _BATCH_ROWS)
        else:
            batches = (batch.select(columns) for batch in self._X)
        for batch in shown(batches, total, "batch"):
            yield _frame(batch)


def _frame(batch: Any) -> pd.DataFrame:
    """The records of a batch, with integers and truth values as they are.

    PyArrow would turn a column of integers into floats where one record has none.
    """
    frame = batch.to_pandas()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and str(column.type) in _NULLABLE:
            frame[name] = column.to_pandas(types_mapper=lambda kind: _NULLABLE[str(kind)])
    return frame


def _batches(dataset: Any, **options: Any) -> Iterator[Any]:
    """The batches of a dataset, one file after the other.

    A scan of all files at once holds on to more memory the more files it has read.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # filtered datasets do not say what they are made of
        yield from dataset.to_batches(**options)
        return
    for fragment in fragments:
        yield from fragment.to_batches(schema=dataset.schema, **options)


def check_named(given: dict[str, Any]) -> set[str]:
    """The parameters of `fit` that are given, each by the name of a column."""
    for role, value in given.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(
                f"{role} must be the name of a column of X where X is not in memory; got "
                f"{type(value).__name__}"
            )
    return {role for role, value in given.items() if value is not None}
