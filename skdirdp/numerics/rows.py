"""Blocks of rows, dense or sparse: totals, scaling, and sums by group."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .._validation import largest_count
from .conservative import EXACT

try:
    # Private names of scipy, imported nowhere else.
    from scipy.sparse._sparsetools import coo_todense, csc_matvecs
except ImportError:
    coo_todense = csc_matvecs = None

# Sums of whole numbers up to this are exact in single precision.
_EXACT_IN_SINGLE = 2.0**24
# Approximate number of entries per block. A block fits into the processor's cache.
_ENTRIES = 1 << 17
_WHOLE_ENTRIES = 1 << 15


def row_blocks(n_rows: int, n_columns: int, entries: int) -> Iterator[slice]:
    """Split the rows of a table into slices of one or more rows and about `entries` entries."""
    rows = max(1, entries // max(n_columns, 1))
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))


def stacks_by_shape(arrays: Sequence[np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield the positions of the arrays of each shape, and these arrays as one stacked array."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, array in enumerate(arrays):
        by_shape.setdefault(array.shape, []).append(index)
    for indices in by_shape.values():
        yield indices, np.array([arrays[index] for index in indices])


def is_whole(values: np.ndarray) -> bool:
    flat = values.reshape(-1)
    blocks = (flat[rows] for rows in row_blocks(flat.size, 1, _WHOLE_ENTRIES))
    return all(bool((block == np.rint(block)).all()) for block in blocks)


@dataclass(frozen=True)
class DenseRows:
    """Rows of a dense array in float64, a copy that belongs to the block."""

    entries: np.ndarray

    @property
    def n_rows(self) -> int:
        return self.entries.shape[0]

    @property
    def n_columns(self) -> int:
        return self.entries.shape[1]

    @cached_property
    def largest(self) -> float:
        """Largest entry; nan unless all entries are finite and non-negative."""
        return largest_count(self.entries)

    def take(self, mask: np.ndarray) -> "DenseRows":
        return DenseRows(self.entries[mask])

    def with_rows(self, mask: np.ndarray, rows: Any) -> "DenseRows":
        """Return the block with the rows of a mask replaced; its memory is reused."""
        self.entries[mask] = rows.entries
        return DenseRows(self.entries)

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        """Broadcast one value per row to the entries."""
        return values[:, np.newaxis]

    def totals(self, *, exact_below: float = 0.0) -> np.ndarray:
        """Return row totals whose rounding depends on no other row.

        The order of summation depends only on the length of the row. In a matrix product or
        in `sum` it depends on the memory layout and on the position of the row, so that one
        record could change how the totals of others are rounded. Totals below `exact_below`
        are exact in any order, as for multiples of a grid below 2**53 times the grid.
        """
        block = self.entries
        with np.errstate(over="ignore"):
            if exact_below > 0:
                totals = block @ np.ones(block.shape[1])
                if largest_of(totals) < exact_below:
                    return totals
            while block.shape[1] > 1:
                half = block.shape[1] // 2
                sums = block[:, :half] + block[:, half : 2 * half]
                if block.shape[1] % 2:
                    sums[:, 0] += block[:, -1]
                block = sums
            return block[:, 0]

    def add_to(self, sums: np.ndarray, groups: np.ndarray) -> None:
        if csc_matvecs is None:
            np.add.at(sums, groups, self.entries)
            return
        # A product with a sparse matrix of ones, which takes as long to create as to multiply.
        n_rows, n_columns = self.entries.shape
        indptr, ones = np.arange(n_rows + 1, dtype=groups.dtype), np.ones(n_rows, sums.dtype)
        entries = np.ascontiguousarray(self.entries).reshape(-1)
        csc_matvecs(len(sums), n_rows, n_columns, indptr, groups, ones, entries, sums.reshape(-1))


@dataclass(frozen=True)
class SparseRows:
    """Rows of a sparse matrix in CSR format, with the methods of `DenseRows`.

    Row i has the entries from ``indptr[i]`` to ``indptr[i + 1]``.
    """

    entries: np.ndarray
    columns: np.ndarray
    indptr: np.ndarray
    n_columns: int

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def largest(self) -> float:
        return largest_count(self.entries)

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.indptr)

    def canonical(self) -> "SparseRows":
        """Return the rows with sorted columns, and with duplicate entries summed."""
        # Raise an error for invalid columns, which would be counted in another group.
        columns = self.columns
        unsigned = columns.view(f"u{columns.itemsize}")  # negative numbers become large ones
        if columns.size and unsigned.max() >= self.n_columns:
            raise ValueError("X.indices must be columns of X; some are not")
        if self._is_sorted():
            return self
        shape = (self.n_rows, self.n_columns)
        ordered = sparse.csr_array((self.entries, columns, self.indptr), shape=shape, copy=True)
        ordered.has_sorted_indices = False
        ordered.sort_indices()
        result = replace(self, entries=ordered.data, columns=ordered.indices)
        if result._is_sorted():
            return result
        # Entries of one cell are added in the order in which the row has them. scipy may
        # exchange them, and whether it does depends on other rows.
        cells = self.broadcast(np.arange(self.n_rows) * self.n_columns) + columns
        cells, places = np.unique(cells, return_inverse=True)
        entries = np.bincount(places, self.entries, len(cells))
        # A sum beyond the largest float is finite, too, so that it can be clipped.
        np.minimum(entries, np.finfo(float).max, out=entries)
        indptr = np.searchsorted(cells, np.arange(self.n_rows + 1) * self.n_columns)
        return SparseRows(entries, cells % self.n_columns, indptr, self.n_columns)

    def _is_sorted(self) -> bool:
        """Whether the columns of each row increase, without duplicates."""
        rises = self.columns[1:] > self.columns[:-1]
        inner = self.indptr[1:-1]
        rises[inner[(inner > 0) & (inner < len(self.columns))] - 1] = True
        return bool(rises.all())

    def take(self, mask: np.ndarray) -> "SparseRows":
        kept = self.broadcast(mask)
        indptr = np.concatenate([[0], np.cumsum(self._lengths[mask])])
        return SparseRows(self.entries[kept], self.columns[kept], indptr, self.n_columns)

    def with_rows(self, mask: np.ndarray, rows: Any) -> "SparseRows":
        self.entries[self.broadcast(mask)] = rows.entries
        return replace(self)

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self._lengths)

    def totals(self, *, exact_below: float = 0.0) -> np.ndarray:
        with np.errstate(over="ignore"):
            if exact_below > 0 and self.entries.size:
                totals = np.zeros(self.n_rows)
                filled = np.flatnonzero(self._lengths)
                totals[filled] = np.add.reduceat(self.entries, self.indptr[filled])
                if largest_of(totals) < exact_below:
                    return totals
            # Sums the entries of each row in their order.
            rows = self.broadcast(np.arange(self.n_rows))
            return np.bincount(rows, self.entries, self.n_rows)

    def add_to(self, sums: np.ndarray, groups: np.ndarray) -> None:
        columns, entries = self.columns, self.entries.astype(sums.dtype, copy=False)
        rows = self.broadcast(groups.astype(columns.dtype, copy=False))
        if coo_todense is None:
            np.add.at(sums, (rows, columns), entries)
        else:
            coo_todense(*sums.shape, len(entries), rows, columns, entries, sums.reshape(-1), 0)


Rows = DenseRows | SparseRows


class GroupSums:
    """Sums of rows by group, accumulated block by block.

    Whole numbers of sparse rows are summed in single precision as long as this is exact. It halves
    the memory of the sums, which sparse rows access in random order.
    """

    def __init__(self, n_groups: int, n_columns: int):
        self._sums = np.zeros((n_groups, n_columns))
        self._whole: np.ndarray | None = None
        self._max_sum = 0.0  # upper bound on the sums in single precision

    def add(self, block: Rows, groups: np.ndarray, *, whole: bool) -> None:
        """Add each row to its group; `whole` states whether all entries are whole numbers."""
        max_sum = block.n_rows * block.largest
        if not (whole and isinstance(block, SparseRows) and max_sum < _EXACT_IN_SINGLE):
            block.add_to(self._sums, groups)
            return
        if self._max_sum + max_sum >= _EXACT_IN_SINGLE:
            self._move()
        if self._whole is None:
            self._whole = np.zeros(self._sums.shape, np.float32)
        block.add_to(self._whole, groups)
        self._max_sum += max_sum

    def _move(self) -> None:
        if self._whole is not None:
            self._sums += self._whole
        self._whole, self._max_sum = None, 0.0

    def table(self) -> np.ndarray:
        self._move()
        return self._sums


def blocks_of_rows(X: Any) -> Iterator[tuple[slice, Rows]]:
    """Split an array or CSR matrix into blocks that fit into the processor's cache."""
    # Each block is a copy with at most one entry per cell. Copies ensure that the numbers that are
    # checked are the numbers that are added, even if another process changes the records.
    # `largest` of a block is NaN if some of its entries are negative or not finite.
    n_rows, n_columns = X.shape
    if not sparse.issparse(X):
        for rows in row_blocks(n_rows, n_columns, _ENTRIES):
            yield rows, DenseRows(np.array(X[rows], dtype=np.float64, order="C"))
        return
    entries, columns, indptr = X.data, X.indices, np.array(X.indptr, dtype=np.intp)
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or np.diff(indptr).min(initial=0) < 0:
        raise ValueError("X.indptr must start at 0 and not decrease; it does not")
    if indptr[-1] > min(len(entries), len(columns)):
        raise ValueError("X.indptr must not end beyond X.indices and X.data; it does")
    # Blocks with about the same number of entries each.
    blocks = max(1, int(indptr[-1]) // _ENTRIES)
    edges = np.searchsorted(indptr, np.linspace(0, indptr[-1], blocks + 1)).clip(0, n_rows)
    edges[0], edges[-1] = 0, n_rows
    for start, stop in pairwise(edges.tolist()):
        part = slice(indptr[start], indptr[stop])
        copies = np.array(entries[part], dtype=np.float64), np.array(columns[part])
        block = SparseRows(*copies, indptr[start : stop + 1] - indptr[start], n_columns)
        # A sum of duplicate entries could hide that some are invalid.
        yield slice(start, stop), block if math.isnan(block.largest) else block.canonical()


def largest_of(values: np.ndarray) -> float:
    """Return the largest of non-negative numbers; 0 if there are none."""
    return float(values.max(initial=0.0))


def scaled_rows(block: Rows, factor: np.ndarray, grid: float | None = None) -> Rows:
    """Multiply each row by a factor, and round down to a multiple of the grid if there is one."""
    if grid is None:
        return replace(block, entries=block.entries * block.broadcast(factor))
    # The grid is a power of two, so dividing and multiplying by it is exact.
    entries = block.entries * block.broadcast(factor / grid)
    np.floor(entries, out=entries)
    entries *= grid
    return replace(block, entries=entries)


def whole_rows(block: Rows) -> np.ndarray:
    """Return a mask of the rows that have only whole numbers."""
    if is_whole(block.entries):
        return np.ones(block.n_rows, dtype=bool)
    fractional = block.entries != np.rint(block.entries)
    return replace(block, entries=fractional.astype(float)).totals(exact_below=EXACT) == 0
