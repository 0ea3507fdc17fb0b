"""PyArrow datasets, counted batch by batch with little memory."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from .._messages import errors_without_data
from . import in_memory
from .in_memory import ColumnRoles, Counter, FailedCount

_BATCH_ROWS = 1 << 18
# Counting takes longer than reading, and batches that are read ahead need memory.
_READ_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}
# pandas can mark missing values of these types only in its own arrays.
_NULLABLE: dict[str, Any] = {"bool": pd.BooleanDtype()} | {
    f"{sign}int{bits}": pd.api.types.pandas_dtype(f"{sign.upper()}Int{bits}")
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}


class ArrowTable:
    """Dataset in files, or stream of record batches."""

    in_memory = False
    kind = "a PyArrow dataset"

    def __init__(self, X: Any, given: dict[str, Any]):
        self._X = X
        self._roles = ColumnRoles.from_names(list(X.schema.names), given, names_only=True)
        self.given = set(self._roles.named)  # parameters of `fit` that were given
        # Empty frame with the same columns.
        self.sample = X.schema.empty_table().to_pandas()[self._roles.features]

    def select_features(self, features: list[Any]) -> "ArrowTable":
        """Restrict the table to some of the features."""
        self._roles = replace(self._roles, features=features)
        return self

    def count(self, counter: Counter) -> Any:
        """Return the counts of all batches."""
        total, previous = None, None
        with errors_without_data():
            for frame in self._frames():
                part = self._roles.split(frame)
                total = in_memory.add_counts([total, in_memory.count_part(counter, part, previous)])
                if isinstance(total, FailedCount):
                    break
                if "groups" in self.given:
                    previous = in_memory.count_per_person(previous, part.groups, counter.max_rows)
        return in_memory.check_total(total)

    def _frames(self) -> Iterator[pd.DataFrame]:
        columns, total = self._roles.columns, None
        batches: Iterable[Any]
        if hasattr(self._X, "to_batches"):
            batches = _batches(self._X, columns=columns, batch_size=_BATCH_ROWS, **_READ_AHEAD)
            total = -(-self._X.count_rows() // _BATCH_ROWS)
        else:
            batches = (batch.select(columns) for batch in self._X)
        for batch in in_memory.with_progress(batches, total, "batch"):
            yield _to_pandas(batch)


def _to_pandas(batch: Any) -> pd.DataFrame:
    """Convert a batch; integers and booleans keep their type if some values are missing."""
    frame = batch.to_pandas()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and str(column.type) in _NULLABLE:
            frame[name] = column.to_pandas(types_mapper=lambda kind: _NULLABLE[str(kind)])
    return frame


def _batches(dataset: Any, **options: Any) -> Iterator[Any]:
    """Iterate over the batches of a dataset, file by file."""
    # The memory of a scan of all files at once grows with the number of files.
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # filtered datasets have no list of fragments
        yield from dataset.to_batches(**options)
        return
    for fragment in fragments:
        yield from fragment.to_batches(schema=dataset.schema, **options)
