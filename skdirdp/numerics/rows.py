"""Rows of numbers, dense or sparse, in blocks: their totals, multiples, and sums by group."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .._scipy_compat import add_columns, add_rows
from .._validation import largest_count
from .blocks import row_blocks
from .rounding import is_whole

#: Whole numbers up to this are added and multiplied without rounding.
EXACT = 2.0**53
# The same of floats in single precision.
_EXACT_IN_SINGLE = 2.0**24

# Blocks have about this many entries, which stay in cache.
_DENSE_ENTRIES = 1 << 17
_SPARSE_ENTRIES = 1 << 16


class Rows(Protocol):
    """A block of rows as float64; nothing in it is changed in place."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def entries(self) -> np.ndarray:
        """All entries, or all but zeros."""

    @property
    def largest(self) -> float:
        """The largest entry, or nan where some are not finite and at least 0."""

    def with_entries(self, entries: np.ndarray) -> Any:
        """Rows with these in the places of their entries."""

    def some(self, chosen: np.ndarray) -> Any:
        """The rows where a mask is true."""

    def replaced(self, chosen: np.ndarray, others: Any) -> Any:
        """The rows with others where a mask is true."""

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of the rows, as factors of their entries."""

    def totals(self, *, exact_below: float = 0.0) -> np.ndarray:
        """Row totals, added in an order that the row's size alone decides.

        A product with ones, or `sum`, takes an order that depends on the layout of the array
        and on where a row stands in it: then one record decides how the totals of others are
        rounded. Numbers whose sums are not rounded, as long as those are below a limit, are
        added in any order: whole ones below 2**53, and multiples of a grid below 2**53 of it.
        """

    def add_to(self, sums: np.ndarray, groups: np.ndarray) -> None:
        """Add each row to the row of the sums that its group has."""


@dataclass(frozen=True)
class DenseRows:
    entries: np.ndarray

    @property
    def n_rows(self) -> int:
        return self.entries.shape[0]

    @property
    def n_columns(self) -> int:
        return self.entries.shape[1]

    def with_entries(self, entries: np.ndarray) -> "DenseRows":
        return DenseRows(entries)

    def some(self, chosen: np.ndarray) -> "DenseRows":
        return DenseRows(self.entries[chosen])

    def replaced(self, chosen: np.ndarray, others: "DenseRows") -> "DenseRows":
        entries = self.entries.copy()
        entries[chosen] = others.entries
        return DenseRows(entries)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return values[:, np.newaxis]

    @cached_property
    def largest(self) -> float:
        return largest_count(self.entries)

    def totals(self, *, exact_below: float = 0.0) -> np.ndarray:
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
        add_rows(groups, self.entries, sums)


@dataclass(frozen=True)
class SparseRows:
    """Rows of a sparse matrix.

    Attributes
    ----------
    entries, columns : ndarray, row by row.
    ends : ndarray, from 0: where each row starts and the last one ends.
    n_columns : int
    """

    entries: np.ndarray
    columns: np.ndarray
    ends: np.ndarray
    n_columns: int

    @property
    def n_rows(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.ends)

    def canonical(self) -> "SparseRows":
        """The rows with their columns in order, and the entries of one cell added up.

        A column that does not exist is refused: it would count in another group.
        """
        columns = self.columns
        if columns.min(initial=0) < 0 or columns.max(initial=-1) >= self.n_columns:
            raise ValueError("X.indices must be columns of X; some are not")
        if self._is_sorted():
            return self
        shape = (self.n_rows, self.n_columns)
        ordered = sparse.csr_array((self.entries, columns, self.ends), shape=shape, copy=True)
        ordered.has_sorted_indices = False
        ordered.sort_indices()
        found = replace(self, entries=ordered.data, columns=ordered.indices)
        if found._is_sorted():
            return found
        # Entries of one cell are added in the order in which the row has them. scipy may
        # exchange them, and whether it does depends on other rows.
        cells = self.spread(np.arange(self.n_rows) * self.n_columns) + columns
        cells, places = np.unique(cells, return_inverse=True)
        entries = np.bincount(places, self.entries, len(cells))
        ends = np.searchsorted(cells, np.arange(self.n_rows + 1) * self.n_columns)
        return SparseRows(entries, cells % self.n_columns, ends, self.n_columns)

    def _is_sorted(self) -> bool:
        """Whether the columns of each row rise, so that none is there twice."""
        rises = self.columns[1:] > self.columns[:-1]
        inner = self.ends[1:-1]
        rises[inner[(inner > 0) & (inner < len(self.columns))] - 1] = True
        return bool(rises.all())

    def with_entries(self, entries: np.ndarray) -> "SparseRows":
        return replace(self, entries=entries)

    def some(self, chosen: np.ndarray) -> "SparseRows":
        of_entries = self.spread(chosen)
        ends = np.concatenate([[0], np.cumsum(self._lengths[chosen])])
        entries, columns = self.entries[of_entries], self.columns[of_entries]
        return SparseRows(entries, columns, ends, self.n_columns)

    def replaced(self, chosen: np.ndarray, others: "SparseRows") -> "SparseRows":
        entries = self.entries.copy()
        entries[self.spread(chosen)] = others.entries
        return self.with_entries(entries)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self._lengths)

    @cached_property
    def largest(self) -> float:
        return largest_count(self.entries)

    def totals(self, *, exact_below: float = 0.0) -> np.ndarray:
        with np.errstate(over="ignore"):
            if exact_below > 0 and self.entries.size:
                totals = np.zeros(self.n_rows)
                filled = np.flatnonzero(self._lengths)
                totals[filled] = np.add.reduceat(self.entries, self.ends[filled])
                if largest_of(totals) < exact_below:
                    return totals
            # Entry by entry, row by row.
            rows = self.spread(np.arange(self.n_rows))
            return np.bincount(rows, self.entries, self.n_rows)

    def add_to(self, sums: np.ndarray, groups: np.ndarray) -> None:
        cells = self.spread(groups * self.n_columns)
        cells += self.columns
        add_columns(self.ends, cells, self.entries.astype(sums.dtype, copy=False), sums.reshape(-1))


class GroupSums:
    """Sums of rows by group, to which blocks are added one after another.

    Whole numbers of sparse rows are added in single precision as long as that is exact: the
    sums, at places all over the table, then take half as much of the cache.

    Parameters
    ----------
    n_groups, n_columns : int
    """

    def __init__(self, n_groups: int, n_columns: int):
        self._sums = np.zeros((n_groups, n_columns))
        self._whole: np.ndarray | None = None
        self._most = 0.0  # that a sum of whole numbers can be

    def add(self, block: Rows, groups: np.ndarray, *, whole: bool) -> None:
        """Add each row to those of its group; `whole` only if all entries are whole numbers."""
        most = block.n_rows * block.largest
        if not (whole and isinstance(block, SparseRows) and most < _EXACT_IN_SINGLE):
            block.add_to(self._sums, groups)
            return
        if self._most + most >= _EXACT_IN_SINGLE:
            self._move()
        if self._whole is None:
            self._whole = np.zeros(self._sums.shape, np.float32)
        block.add_to(self._whole, groups)
        self._most += most

    def _move(self) -> None:
        if self._whole is not None:
            self._sums += self._whole
        self._whole, self._most = None, 0.0

    def table(self) -> np.ndarray:
        """The sums of all blocks."""
        self._move()
        return self._sums


def blocks_of_rows(X: Any) -> Iterator[tuple[slice, Rows]]:
    """Blocks of rows that stay in the processor's cache, with one entry for each cell.

    Each block is a copy. Another process may write to the records, and the numbers that are
    checked must be the numbers that are added.

    Parameters
    ----------
    X : ndarray or sparse matrix in CSR format, of shape (n_rows, n_columns)

    Yields
    ------
    tuple of (slice, Rows)
    """
    n_rows, n_columns = X.shape
    if not sparse.issparse(X):
        for rows in row_blocks(n_rows, n_columns, _DENSE_ENTRIES):
            yield rows, DenseRows(np.array(X[rows], dtype=np.float64, order="C"))
        return
    entries, columns, ends = X.data, X.indices, np.array(X.indptr, dtype=np.intp)
    if len(ends) != n_rows + 1 or ends[0] != 0 or np.diff(ends).min(initial=0) < 0:
        raise ValueError("X.indptr must start at 0 and not decrease; it does not")
    if ends[-1] > min(len(entries), len(columns)):
        raise ValueError("X.indptr must not end beyond X.indices and X.data; it does")
    # Blocks of rows with about as many entries each.
    blocks = max(1, int(ends[-1]) // _SPARSE_ENTRIES)
    edges = np.searchsorted(ends, np.linspace(0, ends[-1], blocks + 1)).clip(0, n_rows)
    edges[0], edges[-1] = 0, n_rows
    for start, stop in pairwise(edges.tolist()):
        part = slice(ends[start], ends[stop])
        block = SparseRows(
            np.array(entries[part], dtype=np.float64),
            np.array(columns[part]),
            ends[start : stop + 1] - ends[start],
            n_columns,
        )
        yield slice(start, stop), block.canonical()


def largest_of(values: np.ndarray) -> float:
    """The largest of non-negative numbers, 0 of none."""
    return float(values.max(initial=0.0))


def scaled_rows(block: Rows, factor: np.ndarray, grid: float | None = None) -> Rows:
    """The rows times factors, rounded down to the grid where there is one."""
    if grid is None:
        return block.with_entries(block.entries * block.spread(factor))
    # In units of the grid, a power of two, by which nothing is rounded.
    entries = block.entries * block.spread(factor / grid)
    np.floor(entries, out=entries)
    entries *= grid
    return block.with_entries(entries)


def whole_rows(block: Rows) -> np.ndarray:
    """Which rows hold whole numbers only."""
    if is_whole(block.entries):
        return np.ones(block.n_rows, dtype=bool)
    broken = block.entries != np.rint(block.entries)
    return block.with_entries(broken.astype(float)).totals(exact_below=EXACT) == 0
