"""What a histogram counts of a table: cells of categories, and fine bins of numbers."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from .._contributions import count_cells
from .._persons import CountedRows, select_rows
from ..engines import Part, TableCounts
from .grid import FineGrid, count_fine_bins
from .inputs import check_categories

# What an engine gives for numbers that lie in no cell, and what stands for them.
_NO_CELLS = {-1: np.nan, -2: np.inf}


def count_columns(
    X: np.ndarray, sizes: list[int | None], grids: list[FineGrid | None]
) -> list[np.ndarray]:
    """Exact counts between the fine edges; one empty cell for constant features."""
    counts = [np.zeros(1) for _ in sizes]
    for k, size in enumerate(sizes):
        if size is not None:
            counts[k] = count_cells(X[:, k].astype(np.intp), size)
    numeric = [k for k, grid in enumerate(grids) if grid is not None]
    if numeric:
        found = count_fine_bins(X, numeric, [grids[k] for k in numeric])  # type: ignore[misc]
        for k, cells in zip(numeric, found, strict=True):
            counts[k] = cells
    return counts


@dataclass(frozen=True)
class BinCounter:
    """Counts of the columns of a table on grids that are declared.

    Attributes
    ----------
    model : the copy of a transformer that `CountingEstimator._for_workers` makes.
    sizes : the number of categories of each feature, or None.
    grids : the fine bins of each other feature.
    """

    model: Any
    sizes: list[int | None]
    grids: list[FineGrid | None]

    @property
    def max_rows(self) -> int:
        return self.model.max_rows

    def count_part(self, part: Part, before: CountedRows | None) -> TableCounts:
        # A copy: threads share the model, and checks of records set attributes.
        X = self.model._for_workers()._validated(part.X, reset=False)
        counted = select_rows(part.groups, len(X), self.max_rows, before)
        X = counted.take(X)
        if len(X):
            check_categories(X, self.sizes)
        tables = count_columns(X, self.sizes, self.grids)
        return TableCounts(CountedRows(counted.unit, counted.n_rows), tables)

    def count_frame(self, frame: Any) -> TableCounts:
        numbers = frame.numbers()
        if not numbers.are_numeric:
            self._check(numbers.extreme_rows(None))
        tables = []
        for k, name in enumerate(frame.with_progress(frame.names)):
            size, grid = self.sizes[k], self.grids[k]
            if grid is None:
                assert size is not None
                found = frame.group([name], size, partial(self._categories, k))
                tables.append(count_cells(found.codes, size, found.weights))
            else:
                n_cells = grid.n_cells + 1
                found = frame.group_cells(
                    name, grid.low, grid.high, grid.width, grid.first, n_cells, self._cells
                )
                tables.append(grid.binned(count_cells(found.codes, n_cells, found.weights)))
        return TableCounts(frame.counted(found.n_rows, self.max_rows), tables)

    def _categories(self, feature: int, records: pd.DataFrame) -> np.ndarray:
        X = self._check(records)
        check_categories(X, [self.sizes[feature]], feature)
        return X[:, 0].astype(np.intp)

    def _cells(self, records: pd.DataFrame) -> np.ndarray:
        self._check(records.astype(np.float64).replace(_NO_CELLS))
        return records.iloc[:, 0].to_numpy(dtype=np.intp)

    def _check(self, records: pd.DataFrame) -> np.ndarray:
        return self.model._for_workers()._validated(records, reset=True)
