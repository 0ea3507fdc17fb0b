"""The door for data: whatever is counted passes here, and is bounded here.

A privacy claim is a promise about every record that reaches a count. Input comes in many
containers and types, so one module turns it into contributions that keep the promise, and
only its functions add them up:

- `count_cells`: records that fall into one cell of a table each;
- `count_categories`: records that fall into one cell of each of several tables;
- `sum_rows`: records that add a whole row each, clipped and scaled to public bounds.

Each looks at what it is about to add, however that came, and refuses a contribution
beyond its bound. Why the bounds hold in floating point, and not only for real numbers, is
shown in ``docs/theory.md``, "Where the data enter".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .mechanisms.contribution import ContributionBound
from .numerics.blocks import row_blocks

# Dense rows are worked on in blocks of about this many entries, which stay in cache, and
# sparse rows in larger ones: each block passes once over the whole table of sums.
_DENSE_ENTRIES = 1 << 17
_SPARSE_ENTRIES = 1 << 21

_ULP = float(np.finfo(float).eps)
# Whole numbers up to this are added and multiplied without rounding.
_EXACT = 2.0**53


class ContributionError(AssertionError):
    """A record was about to be counted beyond its bound: a fault of this package."""


def _check(holds: Any) -> None:
    # Not an assert statement, which `python -O` leaves out.
    if not holds:
        raise ContributionError("a record would contribute more than the bound it is charged for")


@dataclass(frozen=True)
class Weights:
    """What each record counts for: 1, or a weight of its own.

    Attributes
    ----------
    values : ndarray of shape (n_records,), or None for 1 each.
    bound : the largest that any weight may be, as declared or else as found.
    missing : whether the bound had to be taken from the data.
    """

    values: np.ndarray | None
    bound: float
    missing: bool = False

    @classmethod
    def of(cls, values: np.ndarray | None, max_weight: float | None) -> "Weights":
        """Weights within a declared bound; without one, within 1 or the largest of them."""
        if values is None:  # every record counts 1, whatever was declared
            return cls(None, 1.0 if max_weight is None else max(1.0, float(max_weight)))
        largest = float(values.max(initial=0.0))
        if max_weight is None:
            return cls(values, max(1.0, largest), missing=largest > 1)
        bound = float(max_weight)
        if not largest <= bound:
            raise ValueError(
                f"sample_weight must be at most max_weight={bound:g}, on which the privacy "
                "guarantee rests; some weights are larger"
            )
        return cls(values, bound)

    def __post_init__(self) -> None:
        if self.values is None:
            _check(self.bound >= 1)
        elif self.values.size:
            _check(self.values.min() >= 0 and self.values.max() <= self.bound)

    def __getitem__(self, rows: slice) -> np.ndarray | None:
        return None if self.values is None else self.values[rows]


UNWEIGHTED = Weights(None, 1.0)


def count_cells(cells: np.ndarray, n_cells: int, weights: Weights = UNWEIGHTED) -> np.ndarray:
    """How many records, or what weight of them, fall into each cell of a table.

    Parameters
    ----------
    cells : ndarray of int of shape (n_records,)
        The one cell that each record falls into.
    n_cells : int
    weights : Weights

    Returns
    -------
    ndarray of float of shape (n_cells,)
    """
    counts = np.bincount(cells, weights.values, minlength=n_cells)
    _check(counts.size == n_cells)
    return counts.astype(float, copy=False)


def count_categories(
    X: np.ndarray, sizes: np.ndarray, groups: np.ndarray, n_groups: int, weights: Weights
) -> list[np.ndarray]:
    """How many records of each group fall into each category, for every column.

    Parameters
    ----------
    X : ndarray of int of shape (n_records, n_columns)
        Categories, from 0 to below the column's size.
    sizes : ndarray of int of shape (n_columns,)
    groups : ndarray of int of shape (n_records,)
    n_groups : int
    weights : Weights

    Returns
    -------
    list of ndarray of shape (n_groups, size of the column)
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    counts = np.zeros(starts[-1] * n_groups)
    for rows in row_blocks(len(X), len(sizes), _DENSE_ENTRIES):
        block = X[rows]
        # So that a record has one cell of each table, and none of another column's.
        _check(block.min(initial=0) >= 0 and np.all(block < sizes))
        cells = (block + starts[:-1]) * n_groups + groups[rows, np.newaxis]
        weight = weights[rows]
        repeated = None if weight is None else np.repeat(weight, X.shape[1])
        found = np.bincount(cells.ravel(), repeated, minlength=counts.size)
        _check(found.size == counts.size)
        counts += found
    return [table.T for table in np.split(counts.reshape(-1, n_groups), starts[1:-1])]


@dataclass(frozen=True)
class RowSums:
    """Sums of bounded rows, by group.

    Attributes
    ----------
    table : ndarray of shape (n_groups, n_columns)
    bound : what one record may have added.
    missing : names of the bounds that had to be taken from the data.
    """

    table: np.ndarray
    bound: ContributionBound
    missing: tuple[str, ...]

    def __add__(self, other: "RowSums") -> "RowSums":
        # A record lies in one of the two, so the larger of their bounds holds for it.
        missing = dict.fromkeys((*self.missing, *other.missing))
        return RowSums(self.table + other.table, self.bound | other.bound, tuple(missing))


def sum_rows(
    X: Any,
    groups: np.ndarray,
    n_groups: int,
    weights: Weights,
    max_count: float | None,
    max_total: float | None,
) -> RowSums:
    """The sum of the rows of each group, each row within public bounds.

    Entries are clipped to `max_count`; then, where the total is larger, the row is scaled
    down to `max_total`. A bound that is not given is taken from the data.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_records, n_columns)
        Finite and non-negative, of any type.
    groups : ndarray of int of shape (n_records,)
    n_groups : int
    weights : Weights
    max_count, max_total : float or None

    Returns
    -------
    RowSums
    """
    n_columns = X.shape[1]
    clip = np.inf if max_count is None else float(max_count)
    # No row can have a larger total than the first of these, and that is public.
    limit = min(_product_up(clip, n_columns), np.inf if max_total is None else float(max_total))

    sums = np.zeros((n_groups, n_columns))
    largest_entry = largest_total = 0.0
    for rows, block in _float_blocks(X):
        block, entry = _clipped(block, clip)
        factor, total = _scaled(block, weights[rows], limit)
        _check(entry <= clip and total <= limit)
        _check(factor is None or factor.max(initial=0.0) <= weights.bound)
        sums += _sum_by_group(block, groups[rows], n_groups, factor)
        largest_entry, largest_total = max(largest_entry, entry), max(largest_total, total)
    if not np.isfinite(largest_total):
        raise ValueError("X must have finite row totals; some are too large for a float")
    # Where nothing but zeros was counted, any bound holds.
    entry_bound = (largest_entry or 1.0) if max_count is None else clip
    total_bound = (largest_total or 1.0) if max_total is None else limit
    given = {"max_count": max_count, "max_total": max_total}
    return RowSums(
        sums,
        ContributionBound(
            _product_up(entry_bound, weights.bound), _product_up(total_bound, weights.bound)
        ),
        tuple(name for name, value in given.items() if value is None),
    )


def _float_blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    """Blocks of rows as float64, in which every cell occurs once."""
    n_rows, n_columns = X.shape
    if not sparse.issparse(X):
        for rows in row_blocks(n_rows, n_columns, _DENSE_ENTRIES):
            yield rows, np.asarray(X[rows], dtype=np.float64)
        return
    # A new object, since flags that the old one remembers may be stale. Entries of one cell
    # are added before they are bounded, as floats since small integers would overflow, and
    # in copies since scipy adds them in place.
    fresh = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not fresh.has_canonical_format:
        parts = (X.data.astype(np.float64), X.indices.copy(), X.indptr.copy())
        fresh = sparse.csr_array(parts, shape=X.shape)
        fresh.sum_duplicates()
    X = fresh
    # Blocks of rows with about as many entries each.
    blocks = max(1, X.nnz // _SPARSE_ENTRIES)
    edges = np.searchsorted(X.indptr, np.linspace(0, X.nnz, blocks + 1)).clip(0, n_rows)
    edges[0], edges[-1] = 0, n_rows
    for start, stop in pairwise(edges.tolist()):
        entries = slice(X.indptr[start], X.indptr[stop])
        data = np.asarray(X.data[entries], dtype=np.float64)
        ends = X.indptr[start : stop + 1] - X.indptr[start]
        yield (
            slice(start, stop),
            sparse.csr_array((data, X.indices[entries], ends), shape=(stop - start, n_columns)),
        )


def _clipped(block: Any, clip: float) -> tuple[Any, float]:
    """The block with no entry above the limit, and its largest entry."""
    entries = block.data if sparse.issparse(block) else block
    largest = float(entries.max(initial=0.0))
    if largest <= clip:
        return block, largest
    entries = np.minimum(entries, clip)  # a copy: the records are not ours to change
    if sparse.issparse(block):
        block = sparse.csr_array((entries, block.indices, block.indptr), shape=block.shape)
        return block, clip
    return entries, clip


def _scaled(block: Any, weight: np.ndarray | None, limit: float) -> tuple[np.ndarray | None, float]:
    """Factors for the rows, weights included, and a bound on the totals before weights.

    With a row of n entries, and u the unit roundoff, its total as computed is off by a part
    of n u at most, and the factors and products by 5 u. Rows are shrunk by a little more
    than that, unless all is whole numbers, which add up exactly.
    """
    is_sparse = sparse.issparse(block)
    entries = block.data if is_sparse else block
    length = int(np.diff(block.indptr).max(initial=0)) if is_sparse else block.shape[1]
    slack = (length + 8) * _ULP
    with np.errstate(over="ignore"):
        totals = block @ np.ones(block.shape[1])
    largest = float(totals.max(initial=0.0))
    exact = largest < _EXACT and _are_whole(entries) and (weight is None or _are_whole(weight))
    # The largest computed total that cannot stand for one above the limit.
    safe = limit if exact else limit * (1 - slack)
    if largest <= safe:
        return weight, largest if exact else min(largest * (1 + 2 * slack), limit)
    over = totals > safe
    shrink = np.ones(len(totals))
    shrink[over] = limit * (1 - 2 * slack) / totals[over]
    return shrink if weight is None else weight * shrink, limit


def _are_whole(values: np.ndarray) -> bool:
    return bool(np.all(values == np.rint(values)))


def _sum_by_group(
    block: Any, groups: np.ndarray, n_groups: int, factor: np.ndarray | None
) -> np.ndarray:
    n_rows, n_columns = block.shape
    if not sparse.issparse(block):
        factor = np.ones(n_rows) if factor is None else factor
        members = sparse.csr_array((factor, (groups, np.arange(n_rows))), (n_groups, n_rows))
        return members @ block
    per_row = np.diff(block.indptr)
    cells = np.repeat(groups * n_columns, per_row) + block.indices
    values = block.data if factor is None else block.data * np.repeat(factor, per_row)
    sums = np.bincount(cells, values, minlength=n_groups * n_columns)
    return sums.reshape(n_groups, n_columns)


def _product_up(a: float, b: float) -> float:
    """The product, or the next float above it where it had to be rounded down."""
    product = a * float(b)
    if np.isinf(product) or Fraction(product) >= Fraction(a) * Fraction(b):
        return product
    return float(np.nextafter(product, np.inf))
