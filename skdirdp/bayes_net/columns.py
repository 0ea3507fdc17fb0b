"""Columns of a table: encoded as cells, grouped into states of a network, and drawn again.

The cell of a value depends on that value alone. Cells whose counts do not stand out from the
noise are grouped, which keeps tables small: all rare categories together, and adjacent bins of
numbers. Within a group, records are distributed as the released counts of the column.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from .._messages import errors_without_data
from .._validation import are_hashable, check_real
from ..schema import (
    MISSING,
    OUTSIDE,
    UNKNOWN,
    column_numbers,
    factorise,
    rebuild,
    sort_values,
)
from ..schema import Categories as DeclaredCategories
from .clique_tree import project_counts, shrink_counts

#: State of missing values in a network.
MISSING_STATE = "(missing)"

# Numeric columns are counted in at most this many bins, which are grouped later.
_N_FINE_BINS = 128
# Logarithmic borders become evenly spaced below this fraction of the larger bound.
_SMALLEST_SCALE = 1 / 4096
# The smallest positive float: the bin from 0 to here holds 0 alone.
_AFTER_ZERO = float(np.nextafter(0.0, 1.0))
# Cells with at most half a record count as empty, even without noise.
_MIN_COUNT = 0.5
# Missing and other values are drawn if their count is this many standard deviations above 0:
# among a thousand columns without any, a false detection is unlikely.
_MIN_DEVIATIONS = 5.0
# Numeric columns have about this many groups at most, with about equally many records each.
_MAX_NUMERIC_GROUPS = 16


# States --------------------------------------------------------------------------------


def check_states(states: Mapping, nodes: Iterable[Hashable]) -> dict[Hashable, list]:
    """Return the public states of each node as lists.

    If a node has no states, a name that is no node is probably misspelt.
    """
    nodes = dict.fromkeys(nodes)
    lacking = [node for node in nodes if node not in states]
    unknown = [name for name in states if name not in nodes]
    if unknown and lacking:
        raise ValueError(
            f"states must name nodes of the structure; {unknown[0]!r} is not one, and "
            f"{lacking[0]!r} has no states"
        )
    return {name: _check_state_list(name, given) for name, given in states.items() if name in nodes}


def _check_state_list(name: Hashable, given: Any) -> list:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ValueError(
            f"states must be a list for each variable; for {name!r} got {type(given).__name__}"
        )
    states = [_plain_state(state) for state in given]
    if not states:
        raise ValueError(f"states must have at least one entry; for {name!r} got none")
    if any(state is np.nan for state in states):
        raise ValueError(f"states must hold no missing values; for {name!r} some are")
    if not are_hashable(states):
        raise TypeError(f"states must be values that can be hashed; for {name!r} some cannot")
    if len(set(states)) < len(states):
        raise ValueError(f"states must be distinct; for {name!r} some are duplicates")
    return states


def _plain_state(state: Any) -> Any:
    plain = rebuild(state)
    # A time keeps its zone.
    return state if plain is UNKNOWN or isinstance(plain, datetime) else plain


def factorise_column(
    name: Hashable, values: Any, rows: np.ndarray | None = None, states: Sequence[Any] = ()
) -> tuple[np.ndarray, list]:
    """Return codes of the values in the counted rows, and the distinct values."""
    with errors_without_data(**{f"column {name!r} of X": values}):
        return factorise(values, rows)


def find_states(codes: np.ndarray, distinct: list, states: Sequence[Any]) -> np.ndarray:
    """Return the position of each value among the states, or `MISSING` or `OUTSIDE`."""
    with errors_without_data(X=distinct):
        return DeclaredCategories(tuple(states)).encode_distinct(codes, distinct)


def encode_observed(
    name: Hashable, values: Any, rows: np.ndarray | None
) -> tuple[list, np.ndarray]:
    """Return the observed values of a column as sorted states, and the codes of its values."""
    codes, distinct = factorise_column(name, values, rows)
    if (codes == OUTSIDE).any():
        raise ValueError(
            f"X must hold values that can be states; column {name!r} has some that cannot be "
            "hashed or rebuilt"
        )
    states = sort_values(distinct)
    found = find_states(codes, distinct, states)
    _check_found(name, found)
    return states, found


def encode(
    name: Hashable,
    values: Any,
    states: Sequence[Any],
    rows: np.ndarray | None = None,
    *,
    allow_missing: bool = False,
) -> np.ndarray:
    """Return the position among its states of each value of a column, in the counted rows."""
    found = find_states(*factorise_column(name, values, rows, states), states)
    _check_found(name, found, allow_missing=allow_missing)
    return found


def _check_found(name: Hashable, found: np.ndarray, *, allow_missing: bool = False) -> None:
    """Refuse missing values and values that are no states, without showing them."""
    if found.min(initial=0) >= 0:
        return
    if (found == OUTSIDE).any():
        raise ValueError(
            f"X must hold only values in states; column {name!r} has others. Values that cannot "
            "be hashed are no states"
        )
    if not allow_missing:
        raise ValueError(f"X must hold no missing values; column {name!r} has some")


# Cells ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Categories:
    """Cells of a categorical column: one for each state, and the last for missing values."""

    states: tuple[Hashable, ...]
    has_other: bool = False  # whether the last state stands for all values without a state
    is_categorical: bool = False  # whether values are drawn as a pandas categorical

    @property
    def n_cells(self) -> int:
        return len(self.states) + 1

    @property
    def optional(self) -> list[int]:
        """Cells that may be absent: other values and missing values."""
        return [len(self.states) - 1] * self.has_other + [len(self.states)]

    def encode(self, name: Hashable, values: Any, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the cell of each value in the counted rows."""
        return self.encode_codes(name, *factorise_column(name, values, rows, self.states))

    def encode_codes(self, name: Hashable, codes: np.ndarray, distinct: list) -> np.ndarray:
        """Return the cell of each value, given its code among distinct values."""
        found = find_states(codes, distinct, self.states)
        if self.has_other:
            found[found == OUTSIDE] = len(self.states) - 1
        _check_found(name, found, allow_missing=True)
        found[found == MISSING] = len(self.states)
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        """Return the name of a group of cells, without missing values."""
        named = [self.states[cell] for cell in cells if cell < len(self.states)]
        if len(named) == 1:
            return named[0]
        return tuple(named) if named else MISSING_STATE

    def condition_weights(self, name: Hashable, condition: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        several = isinstance(condition, list | tuple | set | frozenset | np.ndarray)
        wanted = list(condition) if several else [condition]
        cells = find_states(*factorise_column(name, wanted, states=self.states), self.states)
        if (cells == OUTSIDE).any():
            raise ValueError(f"given must name states of {name!r}; some are not")
        weights = np.zeros(self.n_cells)
        weights[cells] = 1.0  # the code of a missing value, -1, is the last cell
        return weights

    def draw(self, cells: np.ndarray, condition: Any, generator: np.random.Generator) -> Any:
        """Return the value of each cell."""
        if self.is_categorical:
            codes = np.where(cells < len(self.states), cells, -1)
            return pd.Categorical.from_codes(codes, categories=list(self.states))
        labels = np.empty(self.n_cells, dtype=object)  # the last is None, for a missing value
        labels[:-1] = self.states
        with suppress(UnicodeEncodeError):  # pandas 3 refuses lone surrogates in texts
            if (cells < len(self.states)).all():
                return pd.Index(self.states, tupleize_cols=False).take(cells).array
            return pd.Series(labels[cells]).array
        return pd.Series(labels[cells], dtype=object)


@dataclass(frozen=True)
class Numbers:
    """Cells of a numeric column: fine bins, and the last for missing values.

    Values beyond the edges are in the first or the last bin. Edges of whole numbers lie
    between them.
    """

    edges: tuple[float, ...]
    whole: bool

    @classmethod
    def from_bounds(cls, name: Hashable, bounds: Any) -> "Numbers":
        """Return bins between bounds: of whole numbers if both bounds are integers.

        Half of the borders are evenly spaced, and half follow the logarithm of the distance
        from 0. The value 0 has its own bin, because many records may share it.
        """
        low, high, whole = _check_bounds(name, bounds)
        if whole and high - low < _N_FINE_BINS:
            return cls(tuple(np.arange(low, high + 2) - 0.5), True)
        unit = max(abs(low), abs(high)) * _SMALLEST_SCALE
        even = np.linspace(low, high, _N_FINE_BINS // 2 + 1)
        start, stop = np.arcsinh(low / unit), np.arcsinh(high / unit)
        curved = unit * np.sinh(np.linspace(start, stop, _N_FINE_BINS // 2 + 1))
        inner = np.concatenate([even[1:-1], curved[1:-1]])
        if whole:
            inner = np.concatenate([np.floor(inner) + 0.5, [-0.5, 0.5]])
            low, high = low - 0.5, high + 0.5
        else:
            inner = np.concatenate([inner, [0.0, _AFTER_ZERO]])
        inner = inner[(inner > low) & (inner < high)]
        return cls((low, *np.unique(inner).tolist(), high), whole)

    @cached_property
    def _edges(self) -> np.ndarray:
        return np.array(self.edges)

    @property
    def n_cells(self) -> int:
        return len(self.edges)

    @property
    def optional(self) -> list[int]:
        """Cells that may be absent: missing values."""
        return [len(self.edges) - 1]

    def encode(self, name: Hashable, values: Any, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the cell of each value in the counted rows."""
        with errors_without_data(**{f"column {name!r} of X": values}):
            numbers, wrong = column_numbers(values)
            if rows is not None:
                numbers, wrong = numbers[rows], wrong[rows]
            if wrong.any():
                raise ValueError(f"cells of column {name!r} must be numbers; some are not")
        found = np.searchsorted(self._edges[1:-1], numbers, side="right")
        found[np.isnan(numbers)] = self.n_cells - 1
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        """Return the range of a group of cells, without missing values."""
        bins = [cell for cell in cells if cell < self.n_cells - 1]
        if not bins:
            return MISSING_STATE
        low, high = self.edges[min(bins)], self.edges[max(bins) + 1]
        if not self.whole:
            is_zero = low == 0 and high == _AFTER_ZERO
            return low if is_zero else pd.Interval(low, high, closed="left")
        low, high = round(low + 0.5), round(high - 0.5)
        return low if low == high else pd.Interval(low, high, closed="both")

    def condition_weights(self, name: Hashable, condition: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        weights = np.zeros(self.n_cells)
        if condition is None or condition is pd.NA or condition != condition:
            weights[-1] = 1.0
            return weights
        low, high = _check_condition(name, condition)
        if low > self.edges[-1] or high < self.edges[0]:
            raise ValueError(f"given must be within the bounds of {name!r}; it is beyond them")
        if low == high:
            weights[np.searchsorted(self._edges[1:-1], low, side="right")] = 1.0
            return weights
        left, right = self._edges[:-1], self._edges[1:]
        if self.whole:
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        inside = np.minimum(right, high) - np.maximum(left, low)
        weights[:-1] = np.clip(inside / (right - left), 0.0, 1.0)
        return weights

    def draw(self, cells: np.ndarray, condition: Any, generator: np.random.Generator) -> Any:
        """Return a uniform value from each cell, within a condition or None."""
        missing = cells == self.n_cells - 1
        cells = np.where(missing, 0, cells)
        left, right = self._edges[cells], self._edges[cells + 1]
        if isinstance(condition, Real | tuple):
            low, high = _check_condition("", condition)
            if self.whole and low < high:
                low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
            left, right = np.maximum(left, low), np.minimum(right, high)
        uniform = generator.random(len(cells))
        if not self.whole:
            drawn = np.where(right == _AFTER_ZERO, 0.0, left + uniform * (right - left))
            return np.where(missing, np.nan, drawn)
        # Borders are halves; the first and the last whole number lie between them.
        first, last = np.ceil(left), np.floor(right)
        drawn = (first + np.floor(uniform * (last - first + 1))).astype(np.int64)
        if not missing.any():
            return drawn
        values = pd.array(drawn, dtype="Int64")
        values[missing] = pd.NA
        return values


Domain = Categories | Numbers


def _check_bounds(name: Hashable, bounds: Any) -> tuple[float, float, bool]:
    """Return the bounds, and whether both are integers."""
    pair = [] if isinstance(bounds, str | bytes) or not isinstance(bounds, Iterable) else [*bounds]
    if len(pair) != 2:
        raise ValueError(f"bounds must be a pair (low, high) per column; for {name!r} it is not")
    low, high = (check_real(f"bounds of {name!r}", bound) for bound in pair)
    if not low < high:
        raise ValueError(f"bounds must have low < high; for {name!r} got {low:g} and {high:g}")
    return low, high, all(isinstance(bound, Integral) for bound in pair)


def _check_condition(name: Hashable, condition: Any) -> tuple[float, float]:
    """Return a range of numbers: a pair, or one number twice."""
    pair = condition if isinstance(condition, tuple) else (condition, condition)
    if len(pair) != 2:
        raise ValueError(f"given must be a number or a pair (low, high) for {name!r}")
    low, high = (check_real(f"given for {name!r}", bound) for bound in pair)
    if low > high:
        raise ValueError(f"given must have low <= high; for {name!r} got {low:g} and {high:g}")
    return low, high


# Groups --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleasedColumn:
    """Groups of cells, which are the states of a column in the network, and their shares."""

    domain: Domain
    groups: np.ndarray  # group of each cell
    group_shares: np.ndarray  # released share of each group
    cell_shares: np.ndarray  # share of each cell within its group
    # False for missing and other values whose count does not stand out from the noise.
    can_draw: np.ndarray

    @classmethod
    def from_counts(
        cls,
        domain: Domain,
        noisy: np.ndarray,
        total: float,
        *,
        sigma: float,
        min_count: float,
        max_groups: int,
        keep_all: bool = False,
    ) -> "ReleasedColumn":
        """Group cells with noisy counts below `min_count`, or no categories if `keep_all`."""
        counts = _estimate_counts(noisy, total, sigma)
        min_count = max(min_count, _MIN_COUNT)
        can_draw = np.ones(len(counts), dtype=bool)
        threshold = max(min_count, _MIN_DEVIATIONS * sigma)
        can_draw[domain.optional] = counts[domain.optional] >= threshold
        if not can_draw.any():
            can_draw[0] = True
        groups = np.empty(len(counts), dtype=np.intp)
        if isinstance(domain, Categories):
            floor = 0.0 if keep_all else min_count
            groups[can_draw] = _group_rare(counts[can_draw], floor, max_groups)
            rest = np.argmin(np.bincount(groups[can_draw], counts[can_draw]))
        else:
            max_runs = max(1, min((max_groups - 2) // 2, _MAX_NUMERIC_GROUPS))
            groups[:-1] = _group_adjacent(counts[:-1], min_count, max_runs)
            groups[-1] = rest = groups[-2] + can_draw[-1]
        groups[~can_draw] = rest
        return cls(domain, groups, *_compute_shares(groups, counts), can_draw)

    def update_shares(self, noisy: np.ndarray, total: float, sigma: float) -> "ReleasedColumn":
        """Return the same groups, with shares from more precise counts."""
        shares = _compute_shares(self.groups, _estimate_counts(noisy, total, sigma))
        return replace(self, group_shares=shares[0], cell_shares=shares[1])

    @property
    def has_grouped_categories(self) -> bool:
        """Whether several categories share a group, so clique tables do not separate them."""
        return isinstance(self.domain, Categories) and self.n_groups < self.can_draw.sum()

    @property
    def n_groups(self) -> int:
        return len(self.group_shares)

    @cached_property
    def states(self) -> list[Hashable]:
        """Names of the groups: values, ranges of numbers, or tuples of rare values."""
        members: list[list[int]] = [[] for _ in range(self.n_groups)]
        for cell in np.flatnonzero(self.can_draw).tolist():
            members[self.groups[cell]].append(cell)
        return [self.domain.label(cells) for cells in members]

    def encode(self, name: Hashable, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the group and the cell of each value."""
        cells = self.domain.encode(name, values)
        return self.groups[cells], cells

    def sum_groups(self, noisy: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return noisy counts of the groups, with the standard deviations of their noise."""
        counts = np.bincount(self.groups, noisy, minlength=self.n_groups)
        return counts, sigma * np.sqrt(np.bincount(self.groups, minlength=self.n_groups))

    def condition_weights(self, name: Hashable, given: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        weights = self.domain.condition_weights(name, given)
        if not (weights * self._drawn_shares).any():
            raise ValueError(f"given for {name!r} leaves nothing to draw")
        return weights

    def group_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the probability that a record of each group meets a condition."""
        return np.bincount(self.groups, weights * self._drawn_shares, minlength=self.n_groups)

    def draw(
        self, codes: np.ndarray, given: Any, weights: Any, generator: np.random.Generator
    ) -> Any:
        """Draw a value for each state code, from the cells of its group."""
        shares = self._drawn_shares if weights is None else weights * self._drawn_shares
        order = np.argsort(self.groups, kind="stable")
        cumulated = np.cumsum(shares[order])
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        stops = cumulated[ends - 1]
        starts = np.concatenate([[0.0], stops[:-1]])
        place = starts[codes] + generator.random(len(codes)) * (stops - starts)[codes]
        found = np.searchsorted(cumulated, place, side="right")
        # Rounding may leave the group: the last cell of it that has a share is taken then.
        possible = np.maximum.accumulate(np.where(shares[order] > 0, np.arange(len(order)), 0))
        cells = order[np.minimum(found, possible[ends - 1][codes])]
        return self.domain.draw(cells, given if weights is not None else None, generator)

    @cached_property
    def _drawn_shares(self) -> np.ndarray:
        return np.where(self.can_draw, self.cell_shares, 0.0)


def _estimate_counts(noisy: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Return non-negative counts of the given total from noisy ones."""
    return project_counts(shrink_counts(noisy, total, sigma), total)


def _compute_shares(groups: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of groups, and of cells within their groups."""
    # One record more in all, so that every cell is possible.
    smooth = counts + 1 / len(counts)
    sums = np.bincount(groups, smooth)
    return sums / sums.sum(), smooth / sums[groups]


def _group_rare(counts: np.ndarray, min_count: float, max_groups: int) -> np.ndarray:
    """Return groups of categories: one for all rare ones, and one for each other."""
    rare = counts < min_count
    if np.sum(~rare) + rare.any() > max_groups:
        rare = np.ones(len(counts), dtype=bool)
        rare[np.argsort(-counts, kind="stable")[: max_groups - 1]] = False
    if rare.sum() < 2:
        return np.arange(len(counts))
    return np.where(rare, np.sum(~rare), np.cumsum(~rare) - 1)


def _group_adjacent(counts: np.ndarray, min_count: float, max_runs: int) -> np.ndarray:
    """Return groups of adjacent cells with about equally many records.

    A cell with enough records, such as a value that many share, has its own group. There are
    at most ``2 * max_runs + 1`` groups.
    """
    enough = max(counts.sum() / max_runs, min_count)
    groups = np.empty(len(counts), dtype=np.intp)
    group, held = 0, 0.0
    for cell, count in enumerate(counts.tolist()):
        if count >= enough and held >= min_count:
            group, held = group + 1, 0.0
        groups[cell] = group
        held += count
        if held >= enough:
            group, held = group + 1, 0.0
    # The remaining cells join the last group if they hold too few records.
    if held < min_count and groups[-1] == group > 0:
        groups[groups == group] = group - 1
    return groups
