"""Columns of a table: encoded as cells, grouped into states of a network, and drawn again.

The cell of a value depends on that value alone. Cells whose counts do not stand out from the
noise are grouped, which keeps tables small: all rare categories together, and adjacent bins of
numbers. Within a group, records are distributed as the released counts of the column. The second
moments of numbers are released too, and drawn records are weighted to meet them.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..postprocessing.estimates import project_counts
from ..postprocessing.margins import (
    MAX_WEIGHT,
    Raking,
    bounded_weights,
    choose_records,
    standardise,
)
from ..schema import (
    MISSING_STATE,
    OUTSIDE,
    Categories,
    Constraint,
    distinct_cells,
    plain_cells,
    satisfied,
)
from ..schema import Cells as ConstraintCells
from ..schema.bins import BinCells
from .base import check_kept, even_uniforms, state_numbers
from .clique_tree import shrink_counts

# Cells with at most half a record count as empty, even without noise.
_MIN_COUNT = 0.5
# Missing values of numbers count as absent below this many standard deviations.
_MIN_SIGNAL = 3.0
# Missing and other values are drawn if their count is this many standard deviations above 0:
# among a thousand columns without any, a false detection is unlikely.
_MIN_DEVIATIONS = 5.0

# The constants below were chosen on six tables: DoctorVisits, CPS1988 (AER), ames, lending_club
# (modeldata), BudgetFood (Ecdat) and shopper.
# Numeric columns have about this many groups at most, with about equal weights.
_MAX_NUMERIC_GROUPS = 16
# Share of the number of records in the weight of a cell; the rest is its part of the variance.
_COUNT_SHARE = 0.8
# Groups below this share of the mean weight join their neighbours.
_MIN_GROUP_WEIGHT = 0.25
# Numbers between frequent values have this many groups, if each has so many times the least count.
# Without, the AUC of adult fell with epsilon, and the errors of its pairs were half as large again.
_MIN_RUNS, _MIN_RUN_COUNT = 4, 4.0
# A run of fine bins is empty if its count is below this many standard deviations, and its density
# below this share of the mean density.
_EMPTY_DEVIATIONS, _EMPTY_DENSITY = 1.5, 0.2
#: Vectors of standardised values are clipped to this squared norm for each column.
SQUARED_NORM = 3.0
# Tails start this many standard deviations from the mean. Squares are released of columns with this
# share of their variance in the tails, if the noise of one is less than another share of it.
_TAIL_START, _MIN_TAIL, _MAX_SQUARE_ERROR = 3.0, 0.15, 0.6
# Columns beyond this number are too many for the weights of records.
MAX_MOMENT_COLUMNS = 24
# Share of the records in groups of several categories above which associations are lost. With 21
# categories, 1000 records and the noise of epsilon = 1, shares of .17 to .25 left intervals for a
# slope valid; with that of epsilon = 0.3, shares above .36 made its interval one around 0.
_MAX_MERGED = 0.25
# The cost of weights in units of the noise of moments, and the relative cost without noise.
_NOISE_COST, _MIN_COST = 4.0, 1e-3
# Share of drawn records that constraints reject above which there is a warning.
_MOST_REJECTED = 0.5
_TAIL_STEPS, _WEIGHT_STEPS, _WEIGHT_TOLERANCE = 100, 30, 1e-7


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
    def numbers(self) -> np.ndarray:
        """Number of each cell, NaN for other values and missing values."""
        return np.append(state_numbers(self.states)[0], np.nan)

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
    cell_shares: np.ndarray  # share of each cell within its group, which is positive
    counts: np.ndarray  # estimated count of each cell, which may be 0
    # False for missing and other values whose count does not stand out from the noise.
    can_draw: np.ndarray
    has_tail: bool = False  # whether the counts have a released mean square

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
        counts = _estimate_counts(domain, noisy, total, sigma)
        min_count = max(min_count, _MIN_COUNT)
        can_draw = np.ones(len(counts), dtype=bool)
        threshold = max(min_count, _MIN_DEVIATIONS * sigma)
        can_draw[domain.optional] = counts[domain.optional] >= threshold
        can_draw[-1] &= domain.kind.missing
        can_draw[0] |= not can_draw.any()
        groups = np.empty(len(counts), dtype=np.intp)
        if isinstance(domain, CategoryCells):
            floor = 0.0 if keep_all else min_count
            groups[can_draw] = _group_rare(counts[can_draw], floor, max_groups)
            rest = np.argmin(np.bincount(groups[can_draw], counts[can_draw]))
        else:
            max_runs = max(1, min((max_groups - 2) // 2, _MAX_NUMERIC_GROUPS))
            weights = _cell_weights(domain.centres, counts[:-1])
            groups[:-1] = _group_adjacent(counts[:-1], weights, min_count, max_runs)
            groups[-1] = rest = groups[-2] + can_draw[-1]
        groups[~can_draw] = rest
        return cls(domain, groups, *_compute_shares(groups, counts), counts, can_draw)

    def update_shares(self, noisy: np.ndarray, total: float, sigma: float) -> "ReleasedColumn":
        """Return the same groups, with shares from more precise counts."""
        counts = _estimate_counts(self.domain, noisy, total, sigma)
        shares = _compute_shares(self.groups, counts)
        return replace(self, group_shares=shares[0], cell_shares=shares[1], counts=counts)

    def draw_shares(self, counts: np.ndarray, generator: np.random.Generator) -> "ReleasedColumn":
        """Return the same groups, with shares of cells drawn given true counts."""
        drawn = generator.standard_gamma(counts + _MIN_COUNT)
        return replace(self, cell_shares=drawn / np.bincount(self.groups, drawn)[self.groups])

    @property
    def has_grouped_categories(self) -> bool:
        """Whether several categories share a group, so clique tables do not separate them."""
        return isinstance(self.domain, CategoryCells) and self.n_groups < self.can_draw.sum()

    @property
    def merges_values(self) -> bool:
        """Whether the categories of many records share a group, or all bins of numbers do."""
        sizes = np.bincount(self.groups[self.can_draw], minlength=self.n_groups)
        if isinstance(self.domain, CategoryCells):
            return float(self.group_shares[sizes > 1].sum()) > _MAX_MERGED
        return self.n_groups == 1 and sizes[0] > 1

    def group_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the numbers in each group, NaN and 0 without numbers."""
        numbers = self.domain.numbers
        known = ~np.isnan(numbers)
        values, shares = np.where(known, numbers, 0.0), np.where(known, self.drawn_shares, 0.0)

        def add(weights: np.ndarray) -> np.ndarray:
            return np.bincount(self.groups, weights, minlength=self.n_groups)

        sums = add(shares)
        means = np.divide(add(shares * values), sums, out=np.zeros(len(sums)), where=sums > 0)
        squares = add(shares * (values - means[self.groups]) ** 2)
        variances = np.divide(squares, sums, out=np.zeros(len(sums)), where=sums > 0)
        return np.where(sums > 0, means, np.nan), variances

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
        """Return estimated counts of the groups, with standard deviations; few bins are used."""
        is_used = np.ones(len(noisy))
        if isinstance(self.domain, BinCells) and sigma > 0:
            bins = noisy[:-1]
            if self.has_tail:
                bins = self.counts[:-1]
            else:
                bins = _estimate_bins(bins, max(bins.sum(), 0.0), sigma)
            noisy = np.append(bins, noisy[-1])
            is_used = noisy != 0  # empty runs add no noise
        counts = np.bincount(self.groups, noisy, minlength=self.n_groups)
        n_used = np.bincount(self.groups, is_used, minlength=self.n_groups)
        return counts, sigma * np.sqrt(np.maximum(n_used, 1.0))

    def add_groups(self, noisy: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return noisy counts of the groups, with the standard deviations of their noise."""
        counts = np.bincount(self.groups, noisy, minlength=self.n_groups)
        return counts, sigma * np.sqrt(np.bincount(self.groups, minlength=self.n_groups))

    def condition_weights(self, name: Hashable, given: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        weights = self.domain.condition_weights(name, given)
        if not (weights * self._possible_shares).any():
            raise ValueError(f"given for {name!r} leaves nothing to draw")
        return weights

    def group_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the probability that a record of each group meets a condition."""
        return np.bincount(self.groups, weights * self._possible_shares, minlength=self.n_groups)

    def draw_cells(
        self,
        codes: np.ndarray,
        weights: Any,
        generator: np.random.Generator,
        *,
        even: bool = False,
    ) -> np.ndarray:
        """Draw a cell for each state code, from the cells of its group.

        With `even`, counts hardly vary, as in `sample_codes`.
        """
        shares = self.drawn_shares if weights is None else weights * self._possible_shares
        order = np.argsort(self.groups, kind="stable")
        cumulated = np.cumsum(shares[order])
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        stops = cumulated[ends - 1]
        starts = np.concatenate([[0.0], stops[:-1]])
        if even:
            uniform = even_uniforms(codes, self.n_groups, generator)
        else:
            uniform = generator.random(len(codes))
        place = starts[codes] + uniform * (stops - starts)[codes]
        found = np.searchsorted(cumulated, place, side="right")
        # Rounding may leave the group: the last cell of it that has a share is taken then.
        possible = np.maximum.accumulate(np.where(shares[order] > 0, np.arange(len(order)), 0))
        return order[np.minimum(found, possible[ends - 1][codes])]

    @cached_property
    def marginal(self) -> np.ndarray:
        """Share of each cell in all records; 0 for empty bins of numbers."""
        return self.drawn_shares * self.group_shares[self.groups]

    def with_tail(self, tail: "Tail", group_shares: np.ndarray | None = None) -> "ReleasedColumn":
        """Return a column whose cells have the mean square of a tail, as far as possible.

        Records are added far from the mean, with a density that falls with the third power of the
        distance, or are removed there. With given shares of groups, these are kept.
        """
        if group_shares is None:
            groups, totals, shares = np.zeros_like(self.groups), np.ones(1), self.marginal
        else:
            groups, totals = self.groups, group_shares
            shares = self.drawn_shares * totals[groups]
        squares, mean = tail.squares, float(shares @ tail.squares)
        assert isinstance(self.domain, BinCells)
        widths = np.append(np.diff(self.domain.edges), 0.0)
        far = (squares > _TAIL_START**2 * mean) & (widths > 0)
        added = np.where(far, widths * np.where(far, squares, 1.0) ** -1.5, 0.0)
        added /= max(float(added.sum()), 1e-300)

        def change(factor: float) -> np.ndarray:
            rarer = 1 + factor * squares / max(mean, 1e-300)
            changed = shares + factor * added if tail.mean > mean else shares / rarer
            sums = np.bincount(groups, changed)[groups]
            return changed * np.where(sums > 0, totals[groups] / np.where(sums > 0, sums, 1.0), 0.0)

        low, high = 1e-9, 1e9
        for _ in range(_TAIL_STEPS):
            middle = np.sqrt(low * high)
            if (float(change(middle) @ squares) < tail.mean) == (tail.mean > mean):
                low = middle
            else:
                high = middle
        counts = change(low) * self.counts.sum()
        own_shares, cell_shares = _compute_shares(self.groups, counts)
        changed = replace(self, counts=counts, cell_shares=cell_shares, has_tail=True)
        return replace(changed, group_shares=own_shares) if group_shares is None else changed

    @cached_property
    def _possible_shares(self) -> np.ndarray:
        """Share of each cell within its group, positive for all cells that can be drawn."""
        return np.where(self.can_draw, self.cell_shares, 0.0)

    @cached_property
    def drawn_shares(self) -> np.ndarray:
        """Share of each cell within its group without conditions; 0 for empty bins of numbers."""
        if isinstance(self.domain, CategoryCells):
            return self._possible_shares
        counts = np.where(self.can_draw, self.counts, 0.0)
        sums = np.bincount(self.groups, counts, minlength=self.n_groups)[self.groups]
        return np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), self._possible_shares)


def _estimate_counts(domain: Cells, noisy: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Return non-negative counts of the given total from noisy ones."""
    if isinstance(domain, CategoryCells) or sigma == 0:
        return project_counts(shrink_counts(noisy, total, sigma), total)
    missing = min(float(noisy[-1]), total)
    missing = missing if missing >= _MIN_SIGNAL * sigma else 0.0
    return np.append(_estimate_bins(noisy[:-1], total - missing, sigma), missing)


def _estimate_bins(noisy: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Return counts of adjacent bins from noisy ones, with many zeros if bins are empty.

    Runs of bins are halved. A half is empty if its sum does not stand out from the noise and its
    density is low. Otherwise, the difference of both halves from equal densities is shrunk by the
    non-negative garrote (Gao 1998).
    """
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    counts = np.zeros(len(noisy))
    low_density = _EMPTY_DENSITY * total / len(noisy)
    runs = [(0, len(noisy), float(total))]
    while runs:
        start, stop, count = runs.pop()
        size = stop - start
        if size == 1 or count <= 0:
            counts[start:stop] = count / size
            continue
        half = (start + stop) // 2
        left, right = float(sums[half] - sums[start]), float(sums[stop] - sums[half])
        sizes = half - start, stop - half
        stands_out = [
            each > _EMPTY_DEVIATIONS * sigma * np.sqrt(n)
            for each, n in zip((left, right), sizes, strict=True)
        ]
        part = sizes[0] / size
        if stands_out == [False, True] and left < low_density * sizes[0]:
            share = 0.0
        elif stands_out == [True, False] and right < low_density * sizes[1]:
            share = 1.0
        else:
            excess = left - (left + right) * part
            variance = sigma**2 * size * part * (1 - part)
            excess *= max(0.0, 1 - variance / excess**2) if excess else 0.0
            share = min(max(part + excess / count, 0.0), 1.0)
        runs += [(start, half, share * count), (half, stop, (1 - share) * count)]
    return counts


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


def _cell_weights(centres: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the weights of bins in groups: shares of the records, and of their variance."""
    total = max(float(counts.sum()), 1e-300)
    spread = counts * (centres - counts @ centres / total) ** 2
    spread /= max(float(spread.sum()), 1e-300)
    return _COUNT_SHARE * counts / total + (1 - _COUNT_SHARE) * spread


def _group_adjacent(
    counts: np.ndarray, weights: np.ndarray, min_count: float, max_runs: int
) -> np.ndarray:
    """Return groups of adjacent cells with about equal weights.

    A cell with enough records and weight, such as a value that many share, has its own group.
    There are at most ``2 * max_runs + 1`` groups.
    """
    alone = (weights * max_runs >= 1) & (counts >= min_count)
    other = np.where(alone, 0.0, weights)
    share = max(float(other.sum()), 1e-300)
    most = min(max_runs - alone.sum(), counts[~alone].sum() / (_MIN_RUN_COUNT * min_count))
    n_runs = max(share * max_runs, min(_MIN_RUNS, most))
    quantiles = np.floor((np.cumsum(other) - other / 2) / share * n_runs)
    starts = np.diff(quantiles, prepend=-1) > 0
    starts |= alone
    starts[1:] |= alone[:-1]
    starts[0] = True
    first = np.flatnonzero(starts)
    groups = [
        _Group(int(size), float(count), float(weight), bool(is_alone))
        for size, count, weight, is_alone in zip(
            np.diff(first, append=len(counts)),
            np.add.reduceat(counts, first),
            np.add.reduceat(weights / share, first),
            alone[first],
            strict=True,
        )
    ]
    while (pair := _find_small(groups, min_count, _MIN_GROUP_WEIGHT / n_runs)) is not None:
        groups[pair : pair + 2] = [groups[pair].join(groups[pair + 1])]
    return np.repeat(np.arange(len(groups)), [group.size for group in groups])


@dataclass(frozen=True)
class _Group:
    """Adjacent cells: how many, their count and weight, and whether they must stay alone."""

    size: int
    count: float
    weight: float
    is_alone: bool

    def join(self, other: "_Group") -> "_Group":
        """Return both groups as one."""
        return _Group(
            self.size + other.size, self.count + other.count, self.weight + other.weight, False
        )


def _find_small(groups: Sequence[_Group], min_count: float, min_weight: float) -> int | None:
    """Return the first position of a group that is too small and the neighbour that it joins."""
    small = [
        i
        for i, group in enumerate(groups)
        if not group.is_alone and (group.count < min_count or group.weight < min_weight)
    ]
    for i in sorted(small, key=lambda i: groups[i].count):
        near = [j for j in (i - 1, i + 1) if 0 <= j < len(groups)]
        free = [j for j in near if not groups[j].is_alone]
        if free or (near and groups[i].count < min_count):
            return min(i, min(free or near, key=lambda j: groups[j].weight))
    return None


# Moments -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Second moments of columns of numbers and dates, and weights of records that meet them.

    The vector of a record contains its standardised values, 0 for missing ones, and is clipped to
    a length of 1. Its products of all pairs of entries are a vector of length at most 1 too.
    """

    values: Mapping[Hashable, np.ndarray]  # scaled value of each cell, by column
    # Columns with long tails, and the wanted means of their squares relative to drawn records.
    tails: Mapping[Hashable, "Tail"]
    slopes: np.ndarray | None = None  # of the logarithm of the weight, None for equal weights
    intercept: float = 0.0

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[Hashable, ReleasedColumn],
        tails: Mapping[Hashable, "Tail"],
    ) -> "Moments":
        """Standardise the columns by their released counts."""
        values = {
            name: standardise(column.domain.centres, column.marginal[:-1])
            for name, column in columns.items()
            if isinstance(column.domain, BinCells)
        }
        radius = np.sqrt(SQUARED_NORM * len(values))
        return cls({name: each / radius for name, each in values.items()}, tails)

    def vectors(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        """Return the clipped vector of each record."""
        return _clip_lengths(self.values, cells)

    def products(self, vectors: np.ndarray) -> np.ndarray:
        """Return the products of all pairs of entries of each vector, and their squares.

        Products of different entries are multiplied by the root of 2. The scalar product of two
        results is the square of the scalar product of the vectors, so it is not negative.
        """
        first, second = np.triu_indices(vectors.shape[1])
        scale = np.where(first == second, 1.0, np.sqrt(2.0))
        return vectors[:, first] * vectors[:, second] * scale

    def _features(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        vectors = self.vectors(cells)
        return np.hstack([vectors, self._squares(cells), self.products(vectors)])

    def _squares(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        n_records = len(next(iter(cells.values())))
        squares = [tail.squares[cells[name]] for name, tail in self.tails.items()]
        return np.array(squares).T.reshape(n_records, len(squares))

    def fit(
        self,
        columns: Mapping[Hashable, ReleasedColumn],
        codes: Mapping[Hashable, np.ndarray],
        released: np.ndarray,
        sigma: float,
    ) -> "Moments | None":
        """Return weights with which drawn records meet the released mean products, if noise allows.

        `codes` are the states of drawn records, and `sigma` is the standard deviation of the noise.
        Means stay as drawn. Weights lie between 0 and `MAX_WEIGHT`, as in the logit method of
        Deville and Särndal (1992), and their cost grows with the noise. They are post-processing:
        they depend on the releases and on a fixed seed.
        """
        # Not the seed of the states, on which cells must not depend.
        generator = np.random.default_rng(1)
        features = self._features(
            {
                name: columns[name].draw_cells(codes[name], None, generator, even=True)
                for name in self.values
            }
        )
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale[scale < 1e-12] = np.inf
        features = np.column_stack([(features - centre) / scale, np.ones(len(features))])
        wanted = np.zeros(features.shape[1])
        n_values, n_means = len(self.values), len(self.values) + len(self.tails)
        factors = np.array([tail.mean for tail in self.tails.values()])
        wanted[n_values:n_means] = (factors - 1) * (centre / scale)[n_values:n_means]
        wanted[n_means:-1] = (released - centre[n_means:]) / scale[n_means:]
        wanted[-1] = 1.0
        noise = np.zeros(len(wanted))
        noise[n_means:-1] = (sigma / scale[n_means:]) ** 2
        # Average square of the errors of the drawn records, without the noise.
        signal = float(np.mean((wanted**2 - noise)[n_means:-1]))
        if signal <= 0:
            return None
        cost = _NOISE_COST * noise / signal + _MIN_COST
        cost[-1] = 1e-9
        solution = _fit_weights(features, wanted, cost)
        slopes = solution[:-1] / scale
        return replace(self, slopes=slopes, intercept=float(solution[-1] - slopes @ centre))

    def _scores(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        """Return the logarithms of weights, as a quadratic form that needs little memory."""
        assert self.slopes is not None
        vectors = self.vectors(cells)
        n_columns = vectors.shape[1]
        linear, tails, products = np.split(self.slopes, [n_columns, n_columns + len(self.tails)])
        first, second = np.triu_indices(n_columns)
        form = np.zeros((n_columns, n_columns))
        form[first, second] = np.where(first == second, 1.0, np.sqrt(2.0)) * products
        scores = np.einsum("ij,ij->i", vectors @ form + linear, vectors)
        return scores + self._squares(cells) @ tails + self.intercept

    def choose(
        self, cells: Mapping[Hashable, np.ndarray], n_samples: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Return positions of drawn records, chosen by their weights in systematic order."""
        return choose_records(self.weights(cells), n_samples, generator)

    def weights(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        """Return the weight of each record."""
        return bounded_weights(self._scores(cells))


@dataclass(frozen=True)
class Tail:
    """Squares of a column of which few records contribute much to the variance."""

    squares: np.ndarray  # squared distance of each cell from the mean, relative to the largest
    mean: float = 0.0  # released mean of the squares, or relative to that of drawn records


def find_tails(
    columns: Mapping[Hashable, ReleasedColumn], sigma: float, total: float
) -> dict[Hashable, Tail]:
    """Return columns with long tails by their released counts; none if noise hides all squares."""
    found, signals = {}, [0.0]
    for name, column in columns.items():
        if isinstance(column.domain, BinCells):
            centres, shares = column.domain.centres, column.marginal[:-1]
            squares = (centres - shares @ centres / max(float(shares.sum()), 1e-300)) ** 2
            squares /= max(float(squares.max()), 1e-300)
            mean = float(shares @ squares)
            far = squares > _TAIL_START**2 * mean
            in_tail = float(shares[far] @ squares[far])
            if in_tail > _MIN_TAIL * mean:
                found[name] = Tail(np.append(squares, 0.0))
                signals.append(mean * total)
    return found if sigma < _MAX_SQUARE_ERROR * max(signals) else {}


def extend_tails(
    columns: dict[Hashable, ReleasedColumn],
    tails: Mapping[Hashable, Tail],
    codes: Mapping[Hashable, np.ndarray],
) -> dict[Hashable, Tail]:
    """Extend the tails of columns within the groups of drawn records, with these state codes.

    The result has the factors by which weights of records should increase the mean squares.
    """
    extended = {}
    for name, tail in tails.items():
        column = columns[name]
        shares = np.bincount(codes[name], minlength=column.n_groups) / len(codes[name])
        columns[name] = changed = column.with_tail(tail, shares)
        reached = float((changed.drawn_shares * shares[column.groups]) @ tail.squares)
        extended[name] = replace(tail, mean=tail.mean / max(reached, 1e-300))
    return extended


def clipped_squares(
    tails: Mapping[Hashable, Tail], cells: Mapping[Hashable, np.ndarray]
) -> np.ndarray:
    """Return the squares of each record in columns with long tails, clipped to length 1."""
    return _clip_lengths({name: tail.squares for name, tail in tails.items()}, cells)


def _clip_lengths(
    entries: Mapping[Hashable, np.ndarray], cells: Mapping[Hashable, np.ndarray]
) -> np.ndarray:
    """Return the vector of each record, which has an entry for each column, clipped to length 1."""
    vectors = np.column_stack([each[cells[name]] for name, each in entries.items()])
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    return vectors / np.maximum(lengths, 1.0)


def _fit_weights(features: np.ndarray, wanted: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return coefficients whose weights give the wanted mean features, by Newton's method."""
    growth = MAX_WEIGHT / (MAX_WEIGHT - 1)

    def loss(solution: np.ndarray) -> tuple[float, np.ndarray]:
        scores = features @ solution
        integral = np.logaddexp(np.log(MAX_WEIGHT - 1), growth * scores) * (MAX_WEIGHT - 1)
        value = integral.mean() - solution @ wanted + cost @ solution**2 / 2
        return float(value), bounded_weights(scores)

    solution = np.zeros(len(wanted))
    value, weights = loss(solution)
    for _ in range(_WEIGHT_STEPS):
        gradient = weights @ features / len(features) - wanted + cost * solution
        slope = growth * weights * (1 - weights / MAX_WEIGHT)
        curvature = (features * slope[:, np.newaxis]).T @ features / len(features)
        step = np.linalg.solve(curvature + np.diag(cost), gradient)
        size, decrease = 1.0, 0.0
        while size > 1e-4:
            candidate, new_weights = loss(solution - size * step)
            decrease = value - candidate
            if decrease >= 1e-4 * size * float(gradient @ step):
                solution, value, weights = solution - size * step, candidate, new_weights
                break
            size /= 2
        if decrease < _WEIGHT_TOLERANCE:
            break
    return solution


# Constraints ---------------------------------------------------------------------------


def draw_values(
    columns: Mapping[Hashable, ReleasedColumn],
    cells: Mapping[Hashable, np.ndarray],
    given: Mapping[Hashable, Any],
    generator: np.random.Generator,
) -> pd.DataFrame:
    """Return a value of each cell that meets the conditions."""
    drawn = {n: columns[n].domain.draw(each, given.get(n), generator) for n, each in cells.items()}
    return pd.DataFrame(drawn, columns=list(cells))


@dataclass(frozen=True)
class Candidates:
    """Drawn records, and those of them and of further ones that satisfy the constraints."""

    first: Mapping[Hashable, np.ndarray]  # cells of the first draw, by column
    kept: np.ndarray  # mask of its allowed records
    cells: Mapping[Hashable, np.ndarray]  # cells of the allowed records of all draws
    values: pd.DataFrame  # values of their columns in constraints
    rejected: float  # share of all drawn records that are not allowed

    @classmethod
    def draw(
        cls,
        columns: Mapping[Hashable, ReleasedColumn],
        constraints: Sequence[Constraint],
        draw_cells: Callable[[int], Mapping[Hashable, np.ndarray]],
        size: int,
        n_allowed: int,
        given: Mapping[Hashable, Any],
        generator: np.random.Generator,
    ) -> "Candidates":
        """Draw `size` records at a time until `n_allowed` satisfy the constraints of a schema."""
        names: list[Hashable] = list(
            dict.fromkeys(n for c in constraints for n in sorted(c.columns))
        )
        kinds = {name: columns[name].domain.kind for name in names}
        parts: list[tuple[Mapping[Hashable, np.ndarray], np.ndarray, pd.DataFrame]] = []
        n_kept, n_drawn = 0, 0
        while n_kept < n_allowed or not parts:
            cells = draw_cells(size)
            drawn = draw_values(columns, {name: cells[name] for name in names}, given, generator)
            values = {
                name: cells[name] if isinstance(kind, Categories) else plain_cells(drawn[name])
                for name, kind in kinds.items()
            }
            kept = satisfied(constraints, ConstraintCells(kinds, values), size)
            parts.append((cells, kept, drawn))
            n_kept, n_drawn = n_kept + int(kept.sum()), n_drawn + size
            check_kept(n_kept, n_drawn)
            size = min(size, 1000 + (n_allowed - n_kept) * n_drawn // max(n_kept, 1))
        joined = {name: np.concatenate([c[name][kept] for c, kept, _ in parts]) for name in cells}
        frame = pd.concat([found[kept] for _, kept, found in parts], ignore_index=True)
        return cls(*parts[0][:2], joined, frame, 1 - n_kept / n_drawn)

    @property
    def warnings(self) -> list[str]:
        """Warnings of constraints that the network hardly knows."""
        if self.rejected <= _MOST_REJECTED:
            return []
        return [
            "The constraints of the schema reject more than half of the records that the network "
            "draws. Dependences of the columns in constraints may be wrong."
        ]

    def rake(self, columns: Mapping[Hashable, ReleasedColumn]) -> Raking:
        """Return weights of allowed records that keep the margins of columns in constraints."""
        domains = {name: columns[name].domain for name in self.values}
        sizes = {name: domain.n_cells for name, domain in domains.items()}
        centres = {n: each.centres for n, each in domains.items() if isinstance(each, BinCells)}
        return Raking.fit(sizes, centres, self.first, self.cells)
