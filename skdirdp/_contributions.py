"""The door for data: whatever is counted passes here, and is bounded here.

A privacy claim is a promise about every record that reaches a count. Input comes in many
containers and types, so one module turns it into contributions that keep the promise, and
only its functions add them up:

- `count_cells`: records that fall into one cell of a table each;
- `count_categories`: records that fall into one cell of each of several tables;
- `count_names`: records that hold some names each, of which none is known beforehand;
- `sum_rows`: records that add a whole row each, clipped and scaled to public bounds.

Each looks at what it is about to add, however that came, and refuses a contribution
beyond its bound. Records are copied once, and the copy is checked and added: another process
may write to the records at the same time. What was added up elsewhere, by an engine beside the
data, passes here as well: `Weights.with_group_totals`, `RowBounds.admit` and
`check_given_counts` look at it.
Why the bounds hold in floating point, and not only for real numbers, is shown in
``docs/theory.md``, "Where the data enter".
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ._validation import LARGEST, check_real_array
from .mechanisms.contribution import ContributionBound
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

# Categories are counted in blocks of about this many entries, which stay in cache.
_ENTRIES = 1 << 17
# The same of records that fall into one cell each, unless there are more cells.
_CELLS = 1 << 15

_ULP = float(np.finfo(float).eps)


class ContributionError(AssertionError):
    """A record was about to be counted beyond its bound: a fault of this package."""


def check_exact(sums: np.ndarray, grid: float | None) -> None:
    """Refuse sums that are too large for all multiples of the grid to be floats."""
    if sums.max(initial=0.0) >= EXACT * (grid or 1.0):
        raise ValueError(
            "X holds more than can be added without rounding, on which the privacy guarantee "
            "rests; lower the bounds, or count fewer records"
        )


def _check_found(*bounds: float) -> None:
    """Refuse bounds that were taken from the data and are none, without showing them."""
    if not all(1 / LARGEST <= bound <= LARGEST for bound in bounds):
        raise ValueError(
            "X must have finite row totals, and entries and weights within "
            f"[{1 / LARGEST:g}, {LARGEST:g}], where their bounds are not given; some are not"
        )


def _is_on(values: np.ndarray, grid: float) -> bool:
    # Whole numbers are on every grid. Division by a power of two is exact.
    return is_whole(values) or is_whole(values / grid)


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
    grid : what they are multiples of; None if they are left as they are.
    exact : whether records are added as they are, without bounds or grid, because no noise
        is to hide them.
    grouped : whether each entry is of equal records together, whose own weights were looked
        at before they were added up.
    """

    values: np.ndarray | None
    bound: float
    missing: bool = False
    grid: float | None = None
    exact: bool = False
    grouped: bool = False

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
        """Weights within a declared bound; without one, within 1 or the largest of them.

        They are rounded down to the bound's grid, unless `exact`.
        """
        if values is None:  # every record counts 1, whatever was declared
            bound = 1.0 if max_weight is None else max(1.0, float(max_weight))
            return cls(None, bound, exact=exact)
        largest = float(values.max(initial=0.0))
        bound = max(1.0, largest) if max_weight is None else float(max_weight)
        if not largest <= bound:
            raise ValueError(
                f"sample_weight must be at most max_weight={bound:g}, on which the privacy "
                "guarantee rests; some weights are larger"
            )
        missing = max_weight is None and largest > 1
        if exact:
            return cls(values, bound, missing, exact=True)
        if missing:
            _check_found(bound)
        grid = ContributionBound(bound).grid
        # Division and multiplication by a power of two are exact.
        return cls(np.floor(values / grid) * grid, bound, missing, grid)

    def with_group_totals(self, totals: np.ndarray) -> "Weights":
        """What groups of equal records count for: these totals of their weights.

        `self` has the terms, and no values: the records are where they were added up.
        """
        totals = np.asarray(totals, dtype=np.float64)
        _check(np.isfinite(totals).all())
        _check(self.exact or _is_on(totals, self.grid or 1.0))
        return replace(self, values=totals, grouped=True)

    @property
    def steps(self) -> float:
        """How many multiples of the grid a weight can be, at most."""
        return 1.0 if self.grid is None else self.bound / self.grid

    def __getitem__(self, rows: slice) -> np.ndarray | None:
        return None if self.values is None else self.values[rows]


UNWEIGHTED = Weights(None, 1.0)


def _own(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """A copy of the groups of some records, all of which exist.

    A record of another group would be added to memory that is not the table's.
    """
    groups = np.array(groups)
    _check(groups.min(initial=0) >= 0 and groups.max(initial=0) < n_groups)
    return groups


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
    counts = np.zeros(n_cells)
    for rows in row_blocks(len(cells), 1, max(_CELLS, n_cells)):
        found = np.bincount(np.array(cells[rows]), weights[rows], minlength=n_cells)
        _check(found.size == n_cells)
        counts += found
    check_exact(counts, weights.grid)
    return counts


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
    _check(groups.shape == X.shape[:1])
    for rows in row_blocks(len(X), len(sizes), _ENTRIES):
        cells = X[rows] + starts[:-1]  # a copy
        # So that a record has one cell of each table, and none of another column's.
        _check(np.all(cells >= starts[:-1]) and np.all(cells < starts[1:]))
        cells *= n_groups
        cells += _own(groups[rows], n_groups)[:, np.newaxis]
        weight = weights[rows]
        repeated = None if weight is None else np.repeat(weight, X.shape[1])
        found = np.bincount(cells.ravel(), repeated, minlength=counts.size)
        _check(found.size == counts.size)
        counts += found
    check_exact(counts, weights.grid)
    return [table.T for table in np.split(counts.reshape(-1, n_groups), starts[1:-1])]


def check_given_counts(
    name: str,
    counts: Any,
    shape: tuple[int, ...],
    n_samples: int,
    most: float = 1.0,
    *,
    one_cell: bool = True,
) -> np.ndarray:
    """A table that was counted elsewhere: whole numbers, which are on every grid.

    What a record added to it is what the user says, and cannot be seen in the sums; but that
    all of them together added more than they may, can.

    Parameters
    ----------
    name : str
        What errors call it.
    counts : array-like
    shape : tuple of int
    n_samples : int
        How many records were counted.
    most : float, default=1.0
        What each of them added at most.
    one_cell : bool, default=True
        Whether each is in one cell; it has added 1 then, unless it may have added more.

    Returns
    -------
    ndarray of float of that shape
    """
    table = check_real_array(name, counts)
    if table.shape != shape:
        raise ValueError(f"{name} must be of shape {shape}; got {table.shape}")
    if not (np.isfinite(table).all() and table.min(initial=0.0) >= 0 and _is_on(table, 1.0)):
        raise ValueError(
            f"{name} must hold whole numbers, at least 0; some are not. Sums of what was rounded "
            "by no public rule have no bound that noise could be chosen for"
        )
    check_exact(table, None)
    total, limit = table.sum(), product_up(n_samples, most)
    once = one_cell and most == 1
    if total > limit or (once and total != limit):
        amount = "n_samples" if once else f"at most n_samples times {most:g}"
        raise ValueError(f"{name} must hold {amount} in all, by what each record adds; it does not")
    return table


def count_names(records: Iterable[Iterable[Any]], limit: int) -> Counter[Any]:
    """How many records hold each name, where each gives its first different ones.

    Parameters
    ----------
    records : iterable of iterables of hashables
        The names that each record holds, in its own order.
    limit : int
        How many names a record gives at most.

    Returns
    -------
    Counter
    """
    counts = Counter[Any]()
    for names in records:
        given = list(islice(dict.fromkeys(names), limit))
        _check(len(given) <= limit and len(set(given)) == len(given))
        counts.update(given)
    return counts


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
    """The sum of the rows of each group, each row within public bounds.

    Entries are clipped to `max_count`; then, where the total is larger, the row is scaled
    down to `max_total`, and rounded down to a grid. A bound that is not given is taken from
    the data. None of this is done where the weights are exact.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_records, n_columns)
        Finite and non-negative, of any type; sparse in CSR format.
    groups : ndarray of int of shape (n_records,)
    n_groups : int
    weights : Weights
    max_count, max_total : float or None
    n_columns : int, optional
        A public number of columns, of which X may have fewer, that the bound is to hold for.

    Returns
    -------
    RowSums
    """
    _check(groups.shape == X.shape[:1])
    largest = 0.0
    if max_count is None or weights.exact:
        largest = max((largest_of(block.entries) for _, block in blocks_of_rows(X)), default=0.0)
    columns = max(X.shape[1], n_columns or 0)
    rule = RowBounds.from_limits(weights, columns, max_count, max_total, largest)
    sums = GroupSums(n_groups, X.shape[1])
    largest_total = 0.0
    for rows, block in blocks_of_rows(X):
        block, total, whole = rule.apply(block, rows)
        rule.check(block.largest, total)
        sums.add(block, _own(groups[rows], n_groups), whole=whole)
        largest_total = max(largest_total, total)
    return rule.admit(sums.table(), largest_total)


@dataclass(frozen=True)
class RowBounds:
    """How a row is held to its bounds, by looking at that row alone.

    With a row of n entries, and u the unit roundoff, its total as computed is off by a part
    of n u at most, and factors and products by 5 u. Rows are shrunk by a little more than
    that, unless they are of whole numbers, which add up exactly.

    Attributes
    ----------
    clip : the largest entry, before weights.
    limit : the largest total, before weights.
    weights : the weights of all rows.
    grid : what contributions are multiples of; None to leave the rows as they are.
    entry_bound, total_bound : what a row may add to a cell, and to all, weights included.
    missing : names of the bounds that are taken from the data.
    """

    clip: float
    limit: float
    weights: Weights
    grid: float | None
    entry_bound: float
    total_bound: float
    missing: tuple[str, ...]

    @classmethod
    def from_limits(
        cls,
        weights: Weights,
        n_columns: int,
        max_count: float | None,
        max_total: float | None,
        largest: float = 0.0,
    ) -> "RowBounds":
        """The rule for public bounds; `largest` is the largest entry, where it has a say."""
        exact = weights.exact
        clip = largest if max_count is None or exact else float(max_count)
        # No row can have a larger total than the first of these, and that is public.
        limit = product_up(clip, n_columns)
        if max_total is not None and not exact:
            limit = min(limit, float(max_total))
        # Where nothing but zeros is counted, any bound holds.
        entry_bound = product_up(clip, weights.bound) or 1.0
        total_bound = product_up(limit, weights.bound) or 1.0
        if weights.missing or max_count is None:
            _check_found(entry_bound, min(total_bound, LARGEST))
        grid = None if exact else ContributionBound(min(entry_bound, total_bound)).grid
        given = {"max_count": max_count, "max_total": max_total}
        missing = tuple(name for name, value in given.items() if value is None)
        return cls(clip, limit, weights, grid, entry_bound, total_bound, missing)

    @staticmethod
    def slack(n_columns: int) -> float:
        """The part by which a total of so many numbers may be off, and more."""
        return (n_columns + 8) * _ULP

    def whole_limit(self) -> float:
        """The total below which whole numbers, weights included, are added exactly."""
        return EXACT / self.weights.steps

    def check(self, largest: float, total: float, least: float = 0.0) -> None:
        """Refuse contributions of rows whose entries or totals are beyond the bounds.

        A largest entry that is nan is of entries that are not all finite and at least 0.
        """
        if self.grid is None:
            return
        _check(least >= 0 and largest <= self.entry_bound and total <= self.total_bound)

    def admit(self, sums: np.ndarray, largest_total: float) -> RowSums:
        """Sums of rows that were held to this rule, of which none had a larger total."""
        check_exact(sums, self.grid)
        _check(self.grid is None or _is_on(sums, self.grid))
        total_bound = self.total_bound
        if "max_total" in self.missing:
            total_bound = largest_total or 1.0
            _check_found(total_bound)
        bound = ContributionBound(self.entry_bound, total_bound, self.grid or 1.0)
        return RowSums(sums, bound, self.missing)

    def apply(self, block: Rows, rows: slice) -> tuple[Rows, float, bool]:
        """What these rows contribute, weights included, and the largest of their totals.

        At last, whether all of it is known to be whole numbers.
        """
        weight = self.weights[rows]
        if self.grid is None:
            total = largest_of(block.totals())
            return (block if weight is None else scaled_rows(block, weight)), total, False
        if block.largest > self.clip:
            block = block.with_entries(np.minimum(block.entries, self.clip))
        whole = whole_rows(block)
        all_whole = bool(whole.all())
        totals = block.totals(exact_below=EXACT if all_whole else 0.0)
        # Whole rows within the limit are on the grid, and contribute what they are.
        whole_limit, largest = self.whole_limit(), largest_of(totals)
        if all_whole and weight is None and largest <= self.limit and largest < whole_limit:
            return block, largest, True
        whole &= totals < whole_limit
        slack = self.slack(block.n_columns)
        over = totals > np.where(whole, self.limit, self.limit * (1 - slack))
        changed = over | ~whole if weight is None else np.ones(len(totals), dtype=bool)
        factor = np.ones(len(totals)) if weight is None else weight.copy()
        factor[over] *= self.limit * (1 - 2 * slack) / totals[over]
        # What is on the grid adds up exactly, and stays what it is times 1.
        exact_below = EXACT * self.grid
        if 2 * np.count_nonzero(changed) > len(changed):
            block = scaled_rows(block, factor, self.grid)
            return block, largest_of(block.totals(exact_below=exact_below)), False
        part = scaled_rows(block.take(changed), factor[changed], self.grid)
        kept = largest_of(totals[~changed])
        scaled = largest_of(part.totals(exact_below=exact_below))
        return block.with_rows(changed, part), max(kept, scaled), False
