"""Bound and aggregate the contributions of records.

All counting is done here. Each function checks the contributions right before it adds them, and
raises an error if one exceeds its bound. Records are copied block by block, and the copy is checked
and added, because another process may write to the records at the same time. Sums that an engine
computed elsewhere are checked by `Weights.with_group_totals`, `RowBounds.check_sums` and
`check_given_counts`. ``docs/theory.md``, "Where the data enter", proves the bounds in
floating-point arithmetic.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from math import isnan, prod
from typing import Any

import numpy as np

from ._validation import LARGEST, check_real_array
from .mechanisms.tables import ContributionBound
from .numerics.conservative import product_up
from .numerics.rows import (
    EXACT,
    GroupSums,
    Rows,
    blocks_of_rows,
    is_whole,
    largest_of,
    row_blocks,
    scaled_rows,
    whole_rows,
)

# Approximate number of entries in a block of categories, which fits into the processor's cache.
_ENTRIES = 1 << 17
# Minimum number of records in a block of `count_cells`, which has at least one for each cell.
_BLOCK_RECORDS = 1 << 15
# `_bincount` counts pairs if there are at most this many, and enough records.
_MAX_PAIRS = 1 << 12
# Columns are counted together up to this number of combinations of their states, which affects
# only the speed.
_MAX_BLOCK_CELLS = 128

_ULP = float(np.finfo(float).eps)
# Vectors are shortened by this fraction, so that rounding errors never exceed their bound.
_NORM_SLACK = 2.0**-30


class ContributionError(AssertionError):
    """A contribution exceeds its bound: a bug of this package."""


def check_exact(sums: np.ndarray, grid: float | None) -> None:
    """Raise an error for sums so large that not all multiples of the grid are floats."""
    if sums.max(initial=0.0) >= EXACT * (grid or 1.0):
        raise ValueError(
            "X is too large to be summed without rounding, which the privacy guarantee requires; "
            "lower the bounds, or count fewer records"
        )


def _check_bounds_from_data(*bounds: float) -> None:
    """Raise an error for invalid bounds that were taken from the data, without showing them."""
    if not all(1 / LARGEST <= bound <= LARGEST for bound in bounds):
        raise ValueError(
            "X must have finite row totals, and entries and weights within "
            f"[{1 / LARGEST:g}, {LARGEST:g}], if their bounds are not given; some are not"
        )


def _is_on_grid(values: np.ndarray, grid: float) -> bool:
    # Whole numbers are on every grid. Division by a power of two is exact.
    return is_whole(values) or is_whole(values / grid)


def _check(condition: Any) -> None:
    # An assert statement would be removed by `python -O`.
    if not condition:
        raise ContributionError("a record would contribute more than its bound")


@dataclass(frozen=True)
class Weights:
    """Weights of the records."""

    values: np.ndarray | None  # shape (n_records,); None if all weights are 1
    bound: float  # upper bound, declared or taken from the data
    missing: bool = False  # whether the bound was taken from the data
    grid: float | None = None  # the weights are multiples of it; None if not rounded
    exact: bool = False  # sum without bounds or grid, because no noise is added
    grouped: bool = False  # values are totals of equal records, checked one by one before

    def __post_init__(self) -> None:
        if self.values is None:
            _check(self.bound >= 1)
        elif self.values.size:
            _check(self.values.min() >= 0)
            _check(self.grouped or self.values.max() <= self.bound)

    @classmethod
    def from_values(
        cls, values: np.ndarray | None, max_weight: float | None, *, exact: bool = False
    ) -> "Weights":
        """Return weights, rounded down to the grid of their bound unless `exact`.

        If `max_weight` is None, the bound is 1 or the largest weight, whichever is larger.
        """
        if values is None:
            bound = 1.0 if max_weight is None else max(1.0, float(max_weight))
            return cls(None, bound, exact=exact)
        largest = float(values.max(initial=0.0))
        bound = max(1.0, largest) if max_weight is None else float(max_weight)
        if not largest <= bound:
            raise ValueError(
                f"sample_weight must be at most max_weight={bound:g}, on which the privacy "
                "guarantee is based; some weights are larger"
            )
        missing = max_weight is None and largest > 1
        if exact:
            return cls(values, bound, missing, exact=True)
        if missing:
            _check_bounds_from_data(bound)
        grid = ContributionBound(bound).grid
        # Division and multiplication by a power of two are exact.
        return cls(np.floor(values / grid) * grid, bound, missing, grid)

    def with_group_totals(self, totals: np.ndarray) -> "Weights":
        """Return a copy with the total weights of groups of equal records as values."""
        totals = np.asarray(totals, dtype=np.float64)
        _check(np.isfinite(totals).all())
        _check(self.exact or _is_on_grid(totals, self.grid or 1.0))
        return replace(self, values=totals, grouped=True)

    @property
    def steps(self) -> float:
        """Largest possible weight as a multiple of the grid."""
        return 1.0 if self.grid is None else self.bound / self.grid

    def __getitem__(self, rows: slice) -> np.ndarray | None:
        return None if self.values is None else self.values[rows]


UNWEIGHTED = Weights(None, 1.0)


def _copy_groups(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Return a copy of valid group numbers; others would write outside the table."""
    unsigned = np.array(groups, dtype=np.uintp)  # negative numbers become large ones
    _check(unsigned.max(initial=0) < n_groups)
    return unsigned.view(np.intp)


def _bincount(cells: np.ndarray, n_cells: int) -> np.ndarray:
    """Count valid cells, pairs of them if there are many records and few cells.

    Additions to the same cell wait for each other, and pairs repeat less often.
    """
    if n_cells**2 > _MAX_PAIRS or len(cells) < 2 * _MAX_PAIRS:
        return np.bincount(cells, minlength=n_cells)
    half = len(cells) // 2
    pairs = cells[:half] * n_cells
    pairs += cells[half : 2 * half]
    table = _bincount(pairs, n_cells**2).reshape(n_cells, n_cells)
    counts = table.sum(axis=0) + table.sum(axis=1)
    counts[cells[2 * half :]] += 1
    return counts


def count_cells(cells: np.ndarray, n_cells: int, weights: Weights = UNWEIGHTED) -> np.ndarray:
    """Count the records, or sum their weights, by cell; each record is in one cell."""
    counts = np.zeros(n_cells)
    for rows in row_blocks(len(cells), 1, max(_BLOCK_RECORDS, n_cells)):
        block, weight = _copy_groups(cells[rows], n_cells), weights[rows]
        counts += (
            _bincount(block, n_cells) if weight is None else np.bincount(block, weight, n_cells)
        )
    check_exact(counts, weights.grid)
    return counts


def count_categories(
    X: np.ndarray, sizes: np.ndarray, groups: np.ndarray, n_groups: int, weights: Weights
) -> list[np.ndarray]:
    """Return a table of shape (n_groups, size) for each column, which counts the records.

    X has the category of each record in each column, from 0 to the size of the column minus 1.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    counts = np.zeros(starts[-1] * n_groups)
    _check(groups.shape == X.shape[:1])
    for rows in row_blocks(len(X), len(sizes), _ENTRIES):
        cells = X[rows] + starts[:-1]  # a copy
        # Each record is in one cell of each table, and in no cell of another column.
        _check(np.all(cells >= starts[:-1]) and np.all(cells < starts[1:]))
        cells *= n_groups
        cells += _copy_groups(groups[rows], n_groups)[:, np.newaxis]
        weight = weights[rows]
        repeated = None if weight is None else np.repeat(weight, X.shape[1])
        block_counts = np.bincount(cells.ravel(), repeated, minlength=counts.size)
        _check(block_counts.size == counts.size)
        counts += block_counts
    check_exact(counts, weights.grid)
    return [table.T for table in np.split(counts.reshape(-1, n_groups), starts[1:-1])]


@dataclass(frozen=True)
class ColumnBlock:
    """Columns that are counted together: codes of the combinations of their states."""

    start: int  # position of the first column
    sizes: list[int]
    codes: np.ndarray

    @cached_property
    def n_cells(self) -> int:
        return prod(self.sizes)

    @cached_property
    def _states(self) -> list[np.ndarray]:
        """State of each column in each combination."""
        codes, states = np.arange(self.n_cells), []
        for size in reversed(self.sizes):  # arrays have at most 64 axes, columns may be more
            codes, state = np.divmod(codes, size)
            states.append(state)
        return states[::-1]

    @cached_property
    def _has_state(self) -> np.ndarray:
        """1 where a combination has a state of a column."""
        pairs = zip(self.sizes, self._states, strict=True)
        return np.hstack([np.eye(size)[states] for size, states in pairs])

    def join(self, other: "ColumnBlock") -> "ColumnBlock":
        n_cells = self.n_cells * other.n_cells
        codes = np.empty(len(self.codes), dtype=np.min_scalar_type(n_cells))
        for rows in row_blocks(len(codes), 1, _BLOCK_RECORDS):
            block = self.codes[rows].astype(np.intp)
            block *= other.n_cells
            block += other.codes[rows]
            codes[rows] = block
        return ColumnBlock(self.start, [*self.sizes, *other.sizes], codes)

    def merge_states(self, groups: Sequence[np.ndarray], start: int) -> "ColumnBlock":
        """Return a block with the group of each state, without columns that have one group."""
        sizes = [int(group.max()) + 1 for group in groups]
        codes = np.zeros(self.n_cells, dtype=np.intp)
        for group, states, size in zip(groups, self._states, sizes, strict=True):
            codes = codes * size + group[states]
        codes = codes.astype(np.min_scalar_type(prod(sizes)))
        return ColumnBlock(start, [size for size in sizes if size > 1], codes.take(self.codes))

    def add_effects(self, effects: Sequence[np.ndarray]) -> np.ndarray:
        return reduce(
            np.add, (effect[states] for effect, states in zip(effects, self._states, strict=True))
        )

    def sum_states(self, table: np.ndarray) -> np.ndarray:
        """Return counts of the states of each column, from rows that are combinations."""
        return table if len(self.sizes) == 1 else self._has_state.T @ table

    def count_pairs(self, other: "ColumnBlock", weights: Weights = UNWEIGHTED) -> np.ndarray:
        """Return the exact counts of all pairs of states; multiples of a grid add up exactly."""
        if other is self:
            joint = np.diag(count_cells(self.codes, self.n_cells, weights))
        else:
            both = self.join(other)
            joint = count_cells(both.codes, both.n_cells, weights).reshape(self.n_cells, -1)
        counts = other.sum_states(self.sum_states(joint).T).T
        check_exact(counts, weights.grid)
        return counts


def join_blocks(
    blocks: Sequence[ColumnBlock], max_cells: int = _MAX_BLOCK_CELLS
) -> list[ColumnBlock]:
    """Join adjacent blocks while they have few combinations of states."""
    joined: list[ColumnBlock] = []
    for block in blocks:
        if joined and joined[-1].n_cells * block.n_cells <= max_cells:
            block = joined.pop().join(block)
        joined.append(block)
    return joined


def column_blocks(
    codes: Sequence[np.ndarray], sizes: Sequence[int], max_cells: int = _MAX_BLOCK_CELLS
) -> list[ColumnBlock]:
    """Group adjacent columns into blocks with few combinations of states."""
    pairs = zip(codes, sizes, strict=True)
    singles = [ColumnBlock(start, [int(n)], states) for start, (states, n) in enumerate(pairs)]
    return join_blocks(singles, max_cells)


def sum_vectors(
    vectors: Iterable[tuple[slice, np.ndarray]],
    n_entries: int,
    blocks: Sequence[ColumnBlock],
    norm: float,
    weights: Weights,
) -> np.ndarray:
    """Return the sums of the records' vectors, by the state of each column.

    `vectors` has slices of records, in their order, and an array of shape (n_records, n_entries)
    for each. A vector has an l2 norm of at most `norm`, before weighting, and is added to one state
    of each column. Entries are rounded towards 0 to the grid of the weights, so that the sums are
    exact. The result has a row for each state of the first column, then of the second, ...
    """
    grid = ContributionBound(weights.bound).grid
    sizes = [block.n_cells for block in blocks]
    starts = np.cumsum([0, *sizes])
    sums, stop = np.zeros((n_entries, starts[-1])), 0
    for part, values in vectors:
        _check(part.start >= stop)  # no record is added twice
        stop = part.stop
        for rows in row_blocks(len(values), n_entries, _ENTRIES):
            counted = slice(part.start + rows.start, part.start + rows.stop)
            # A copy with one row for each entry of the vectors.
            block, weight = np.array(values[rows].T, dtype=np.float64, order="C"), weights[counted]
            if weight is not None:
                block *= weight
            if not weights.exact:
                # Far more than the rounding errors of norms and products, far below any effect.
                block *= (1 - _NORM_SLACK) / grid
                np.trunc(block, out=block)  # in steps of the grid
                norms = np.einsum("ij,ij->j", block, block).max(initial=0.0)
                _check(norms <= (norm * weights.bound / grid) ** 2)  # False for NaN
            for columns, start, size in zip(blocks, starts, sizes, strict=False):
                cells = _copy_groups(columns.codes[counted], size)
                for total, entries in zip(sums, block, strict=True):
                    total[start : start + size] += np.bincount(cells, entries, size)
    if not weights.exact:
        sums *= grid  # a power of two
    pairs = zip(blocks, np.split(sums.T, starts[1:-1]), strict=True)
    table = np.vstack([columns.sum_states(part) for columns, part in pairs])
    check_exact(np.abs(table), None if weights.exact else grid)
    return table


def check_given_counts(
    name: str,
    counts: Any,
    shape: tuple[int, ...],
    n_samples: int,
    max_contribution: float = 1.0,
    *,
    one_cell: bool = True,
) -> np.ndarray:
    """Return a table that the user counted over `n_samples` records, as floats.

    The contributions of single records, `max_contribution` at most, cannot be checked. The counts
    must be whole numbers, which are on every grid, and their total must be possible. If
    `one_cell`, each record is in exactly one cell.
    """
    table = check_real_array(name, counts)
    if table.shape != shape:
        raise ValueError(f"{name} must be of shape {shape}; got {table.shape}")
    if not (np.isfinite(table).all() and table.min(initial=0.0) >= 0 and _is_on_grid(table, 1.0)):
        raise ValueError(
            f"{name} must contain non-negative whole numbers; some are not. Sums of numbers that "
            "were not rounded to a public grid have no bound that noise could be calibrated to"
        )
    check_exact(table, None)
    total, limit = table.sum(), product_up(n_samples, max_contribution)
    must_be_equal = one_cell and max_contribution == 1
    if total > limit or (must_be_equal and total != limit):
        wanted = "n_samples" if must_be_equal else f"at most n_samples times {max_contribution:g}"
        raise ValueError(f"{name} must have a total of {wanted}; it does not")
    return table


def count_names(records: Iterable[Iterable[Any]], limit: int) -> Counter[Any]:
    """Count the records that contain each name, using the first `limit` distinct names of each."""
    counts = Counter[Any]()
    for names in records:
        given = list(islice(dict.fromkeys(names), limit))
        _check(len(given) <= limit and len(set(given)) == len(given))
        counts.update(given)
    return counts


@dataclass(frozen=True)
class RowSums:
    """Sums of bounded rows by group."""

    table: np.ndarray  # shape (n_groups, n_columns)
    bound: ContributionBound  # bound on the contribution of one record
    missing: tuple[str, ...]  # bounds that were taken from the data

    def __add__(self, other: "RowSums") -> "RowSums":
        # A record is in one of the two, so the larger bound holds for it.
        table, bound = self.table + other.table, self.bound | other.bound
        check_exact(table, bound.grid)
        return RowSums(table, bound, tuple(dict.fromkeys((*self.missing, *other.missing))))


def sum_rows(
    X: Any,
    groups: np.ndarray,
    n_groups: int,
    weights: Weights,
    max_count: float | None,
    max_total: float | None,
    n_columns: int | None = None,
) -> RowSums:
    """Sum the rows of each group, after bounding each row.

    X is an array or CSR matrix of any dtype, finite and non-negative. Entries are clipped to
    `max_count`. Then a row with a larger total is scaled to `max_total` and rounded down to a
    grid. Bounds that are None are taken from the data. With exact weights the rows are summed
    unchanged. The bound holds for `n_columns` columns, if X has fewer.
    """
    _check(groups.shape == X.shape[:1])
    largest = 0.0
    if max_count is None or weights.exact:
        largest = max((block.largest for _, block in _valid_blocks(X)), default=0.0)
    columns = max(X.shape[1], n_columns or 0)
    bounds = RowBounds.from_limits(weights, columns, max_count, max_total, largest)
    sums = GroupSums(n_groups, X.shape[1])
    largest_total = 0.0
    for rows, block in _valid_blocks(X):
        block, total, whole = bounds.apply(block, rows)
        bounds.check(block.largest, total)
        sums.add(block, _copy_groups(groups[rows], n_groups), whole=whole)
        largest_total = max(largest_total, total)
    return bounds.check_sums(sums.table(), largest_total)


def _valid_blocks(X: Any) -> Iterator[tuple[slice, Rows]]:
    """Yield the blocks of X; raise an error if entries are negative or not finite."""
    for rows, block in blocks_of_rows(X):
        _check(not isnan(block.largest))
        yield rows, block


@dataclass(frozen=True)
class RowBounds:
    """Public bounds on the entries and the total of a row, applied to each row by itself.

    For a row of n entries and unit roundoff u, the relative error of the computed total is at most
    n u, and that of factors and products at most 5 u. Rows are scaled by slightly more than that,
    unless they contain only whole numbers, whose sums are exact.
    """

    clip: float  # largest entry, before weighting
    limit: float  # largest total, before weighting
    weights: Weights
    grid: float | None  # contributions are multiples of it; None leaves rows unchanged
    entry_bound: float  # bound on the weighted entries
    total_bound: float  # bound on the weighted totals
    missing: tuple[str, ...]  # bounds that are taken from the data

    @classmethod
    def from_limits(
        cls,
        weights: Weights,
        n_columns: int,
        max_count: float | None,
        max_total: float | None,
        largest: float = 0.0,
    ) -> "RowBounds":
        """Return the bounds; `largest` is the largest entry, used if `max_count` is None."""
        exact = weights.exact
        clip = largest if max_count is None or exact else float(max_count)
        # Public upper bound on the total of any row.
        limit = product_up(clip, n_columns)
        if max_total is not None and not exact:
            limit = min(limit, float(max_total))
        # If all entries are 0, any bound holds.
        entry_bound = product_up(clip, weights.bound) or 1.0
        total_bound = product_up(limit, weights.bound) or 1.0
        if weights.missing or max_count is None:
            _check_bounds_from_data(entry_bound, min(total_bound, LARGEST))
        grid = None if exact else ContributionBound(min(entry_bound, total_bound)).grid
        given = {"max_count": max_count, "max_total": max_total}
        missing = tuple(name for name, value in given.items() if value is None)
        return cls(clip, limit, weights, grid, entry_bound, total_bound, missing)

    @staticmethod
    def slack(n_columns: int) -> float:
        """Upper bound on the relative error of a total of `n_columns` numbers."""
        return (n_columns + 8) * _ULP

    def whole_limit(self) -> float:
        """Total below which sums of weighted whole numbers are exact."""
        return EXACT / self.weights.steps

    def check(self, largest: float, total: float, least: float = 0.0) -> None:
        """Raise an error if entries or totals of bounded rows exceed the bounds."""
        # `largest` is NaN, and fails, if some entries are negative or not finite.
        if self.grid is None:
            return
        _check(least >= 0 and largest <= self.entry_bound and total <= self.total_bound)

    def check_sums(self, sums: np.ndarray, largest_total: float) -> RowSums:
        """Return checked sums of bounded rows; `largest_total` is the largest row total."""
        check_exact(sums, self.grid)
        _check(self.grid is None or _is_on_grid(sums, self.grid))
        total_bound = self.total_bound
        if "max_total" in self.missing:
            total_bound = largest_total or 1.0
            _check_bounds_from_data(total_bound)
        bound = ContributionBound(self.entry_bound, total_bound, self.grid or 1.0)
        return RowSums(sums, bound, self.missing)

    def apply(self, block: Rows, rows: slice) -> tuple[Rows, float, bool]:
        """Return bounded and weighted rows, the largest total, and whether all are known whole."""
        weight = self.weights[rows]
        if self.grid is None:
            total = largest_of(block.totals())
            return (block if weight is None else scaled_rows(block, weight)), total, False
        if block.largest > self.clip:
            # The bits of positive doubles, as integers, have their order, and compare faster.
            bits = np.minimum(block.entries.view(np.int64), np.float64(self.clip).view(np.int64))
            block = replace(block, entries=bits.view(np.float64))
        whole = whole_rows(block)
        all_whole = bool(whole.all())
        totals = block.totals(exact_below=EXACT if all_whole else 0.0)
        # Whole rows within the limit are on the grid and stay unchanged.
        whole_limit, largest = self.whole_limit(), largest_of(totals)
        if all_whole and weight is None and largest <= self.limit and largest < whole_limit:
            return block, largest, True
        whole &= totals < whole_limit
        slack = self.slack(block.n_columns)
        over = totals > np.where(whole, self.limit, self.limit * (1 - slack))
        changed = over | ~whole if weight is None else np.ones(len(totals), dtype=bool)
        factor = np.ones(len(totals)) if weight is None else weight.copy()
        factor[over] *= self.limit * (1 - 2 * slack) / totals[over]
        # Sums of multiples of the grid are exact, and a factor of 1 leaves them unchanged.
        exact_below = EXACT * self.grid
        if 2 * np.count_nonzero(changed) > len(changed):
            block = scaled_rows(block, factor, self.grid)
            return block, largest_of(block.totals(exact_below=exact_below)), False
        part = scaled_rows(block.take(changed), factor[changed], self.grid)
        kept = largest_of(totals[~changed])
        scaled = largest_of(part.totals(exact_below=exact_below))
        return block.with_rows(changed, part), max(kept, scaled), False
