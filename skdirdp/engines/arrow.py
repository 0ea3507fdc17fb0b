"""PyArrow datasets, counted batch by batch with little memory."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from ..schema import BLOCK_ROWS, block_frame, empty_table, table_blocks
from . import in_memory
from .in_memory import ColumnRoles, Counter


class ArrowTable:
    """Dataset in files, or stream of record batches."""

    in_memory = False
    kind = "a PyArrow dataset"

    def __init__(self, X: Any, given: dict[str, Any]):
        self._X = X
        self._roles = ColumnRoles.from_names(list(X.schema.names), given, names_only=True)
        self.given = set(self._roles.named)  # parameters of `fit` that were given
        # Empty frame with the same columns.
        self.empty = empty_table(X)[self._roles.features]

    def select_features(self, features: list[Any]) -> "ArrowTable":
        """Restrict the table to some of the features."""
        self._roles = replace(self._roles, features=features)
        return self

    def count(self, counter: Counter) -> Any:
        """Return the counts of all batches."""
        parts = map(self._roles.split, self._frames())
        return in_memory.count_blocks(counter, parts, "groups" in self.given)

    def _frames(self) -> Iterator[pd.DataFrame]:
        total = None
        if hasattr(self._X, "count_rows"):
            total = -(-self._X.count_rows() // BLOCK_ROWS)
        blocks = table_blocks(self._X, self._roles.columns)
        for block in in_memory.with_progress(blocks, total, "batch"):
            yield block_frame(block)
