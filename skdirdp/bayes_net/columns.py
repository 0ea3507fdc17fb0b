"""Columns of a table: encoded as cells, grouped into states of a network, and drawn again.

The cell of a value depends on that value alone. Cells whose counts do not stand out from the
noise are grouped, which keeps tables small: all rare categories together, and adjacent bins of
numbers. Within a group, records are distributed as the released counts of the column.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..postprocessing.estimates import project_counts
from ..schema import MISSING_STATE, OUTSIDE, Categories, Dates, Numbers, distinct_cells
from .clique_tree import shrink_counts

# Numeric columns are counted in at most this many bins, which are grouped later.
_N_FINE_BINS = 128
# Logarithmic borders become evenly spaced below this fraction of the larger bound.
_SMALLEST_SCALE = 1 / 4096
# The smallest positive float: the bin from 0 to here contains only 0.
_AFTER_ZERO = float(np.nextafter(0.0, 1.0))
# Cells with at most half a record count as empty, even without noise.
_MIN_COUNT = 0.5
# Missing and other values are drawn if their count is this many standard deviations above 0:
# among a thousand columns without any, a false detection is unlikely.
_MIN_DEVIATIONS = 5.0
# Numeric columns have about this many groups at most, with about equally many records each.
_MAX_NUMERIC_GROUPS = 16


# Cells ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CategoryCells:
    """Cells of a categorical column: one for each state, and the last for missing values."""

    kind: Categories
    is_categorical: bool = False  # whether values are drawn as a pandas categorical

    @property
    def states(self) -> tuple[Hashable, ...]:
        return self.kind.states

    @property
    def n_cells(self) -> int:
        return len(self.states) + 1

    @property
    def optional(self) -> list[int]:
        """Cells that may be absent: other values and missing values."""
        has_other = self.kind.other is not None
        return [len(self.states) - 1] * has_other + [len(self.states)]

    def from_codes(self, codes: np.ndarray) -> np.ndarray:
        """Return the cells of encoded values."""
        return codes

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
        cells = self.kind.encode_distinct(*distinct_cells(wanted, self.states))
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
        return self.kind.decode(cells)


@dataclass(frozen=True)
class BinCells:
    """Cells of a column of numbers or dates: fine bins, and the last for missing values.

    Values beyond the edges are in the first or the last bin. Edges of whole numbers lie
    between them.
    """

    kind: Numbers | Dates
    edges: tuple[float, ...]  # edges on the axis of the kind

    @classmethod
    def from_kind(cls, kind: Numbers | Dates) -> "BinCells":
        """Return bins between the bounds.

        Half of the borders are evenly spaced, and half follow the logarithm of the distance
        from 0. The value 0 has its own bin, because many records may share it. Borders of dates
        are evenly spaced.
        """
        low, high = kind.axis_bounds
        whole = kind.is_discrete
        if whole and high - low < _N_FINE_BINS:
            return cls(kind, tuple(np.arange(low, high + 2) - 0.5))
        if isinstance(kind, Dates):
            inner = np.linspace(low, high, _N_FINE_BINS + 1)[1:-1]
            return cls(kind, (low - 0.5, *(np.floor(inner) + 0.5).tolist(), high + 0.5))
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
        return cls(kind, (low, *np.unique(inner).tolist(), high))

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

    def from_codes(self, codes: np.ndarray) -> np.ndarray:
        """Return the cells of encoded values."""
        values = self.kind.to_axis(codes)
        found = np.searchsorted(self._edges[1:-1], values, side="right")
        found[np.isnan(values)] = self.n_cells - 1
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        """Return the range of a group of cells, without missing values."""
        bins = [cell for cell in cells if cell < self.n_cells - 1]
        if not bins:
            return MISSING_STATE
        low, high = self.edges[min(bins)], self.edges[max(bins) + 1]
        if not self.kind.is_discrete:
            is_zero = low == 0 and high == _AFTER_ZERO
            return low if is_zero else pd.Interval(low, high, closed="left")
        ends = self.kind.from_axis(np.array([np.ceil(low), np.floor(high)]))
        low, high = self.kind.decode(ends).tolist()
        return low if low == high else pd.Interval(low, high, closed="both")

    def condition_weights(self, name: Hashable, condition: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        weights = np.zeros(self.n_cells)
        if condition is None or condition is pd.NA or condition != condition:
            weights[-1] = 1.0
            return weights
        low, high = self._parse_condition(name, condition)
        if low > self.edges[-1] or high < self.edges[0]:
            raise ValueError(f"given must be within the bounds of {name!r}; it is beyond them")
        if low == high:
            weights[np.searchsorted(self._edges[1:-1], low, side="right")] = 1.0
            return weights
        left, right = self._edges[:-1], self._edges[1:]
        if self.kind.is_discrete:
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        inside = np.minimum(right, high) - np.maximum(left, low)
        weights[:-1] = np.clip(inside / (right - left), 0.0, 1.0)
        return weights

    def draw(self, cells: np.ndarray, condition: Any, generator: np.random.Generator) -> Any:
        """Return a uniform value from each cell, within a condition or None."""
        missing = cells == self.n_cells - 1
        cells = np.where(missing, 0, cells)
        left, right = self._edges[cells], self._edges[cells + 1]
        if condition is not None and not missing.all():
            low, high = self._parse_condition("", condition)
            if self.kind.is_discrete and low < high:
                low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
            left, right = np.maximum(left, low), np.minimum(right, high)
        # The bin of 0 contains only 0.
        right = np.where(right == _AFTER_ZERO, left, right)
        return self.kind.draw(left, right, missing, generator)

    def _parse_condition(self, name: Hashable, condition: Any) -> tuple[float, float]:
        """Return a range on the axis: a pair, or one value twice."""
        pair = condition if isinstance(condition, tuple) else (condition, condition)
        if len(pair) != 2:
            raise ValueError(f"given must be a value or a pair (low, high) for {name!r}")
        try:
            low, high = map(self.kind.parse_axis, pair)
        except ValueError as error:
            raise ValueError(f"given for {name!r}: {error}") from None
        if low > high:
            raise ValueError(f"given must have low <= high for {name!r}")
        return low, high


Cells = CategoryCells | BinCells


def as_mask(answers: Any) -> np.ndarray:
    """Return the answers of a constraint as truth values; a missing answer is False."""
    if isinstance(answers, pd.Series):
        answers = answers.astype("boolean").fillna(False)
    return np.asarray(answers, dtype=bool)


def encode_cells(kind: Any, codes: np.ndarray, is_categorical: bool) -> tuple[Cells, np.ndarray]:
    """Return the cells of a column of a declared kind, and the cell of each encoded value."""
    by_category = isinstance(kind, Categories)
    cells: Cells = CategoryCells(kind, is_categorical) if by_category else BinCells.from_kind(kind)
    return cells, cells.from_codes(codes)


# Groups --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleasedColumn:
    """Groups of cells, which are the states of a column in the network, and their shares."""

    domain: Cells
    groups: np.ndarray  # group of each cell
    group_shares: np.ndarray  # released share of each group
    cell_shares: np.ndarray  # share of each cell within its group
    # False for missing and other values whose count does not stand out from the noise.
    can_draw: np.ndarray

    @classmethod
    def from_counts(
        cls,
        domain: Cells,
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
        can_draw[-1] &= domain.kind.missing
        if not can_draw.any():
            can_draw[0] = True
        groups = np.empty(len(counts), dtype=np.intp)
        if isinstance(domain, CategoryCells):
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

    def draw_shares(self, counts: np.ndarray, generator: np.random.Generator) -> "ReleasedColumn":
        """Return the same groups, with shares of cells drawn given true counts."""
        drawn = generator.standard_gamma(counts + _MIN_COUNT)
        return replace(self, cell_shares=drawn / np.bincount(self.groups, drawn)[self.groups])

    @property
    def has_grouped_categories(self) -> bool:
        """Whether several categories share a group, so clique tables do not separate them."""
        return isinstance(self.domain, CategoryCells) and self.n_groups < self.can_draw.sum()

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

    def group(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the group and the cell of each encoded value."""
        cells = self.domain.from_codes(codes)
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
    # The remaining cells join the last group if they contain too few records.
    if held < min_count and groups[-1] == group > 0:
        groups[groups == group] = group - 1
    return groups
