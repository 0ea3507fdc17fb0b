"""Noisy tables, and tables that agree on the margins that they have in common.

Sets of variables that tables share are processed in turn, smaller ones first. For each set the
margins of the tables are averaged, weighted by their precision, and each table is moved to the
average by equal amounts in all cells that add up to a cell of the margin. Margins that agree
already stay equal: on a larger set the tables differ by values that sum to 0 over the smaller one.

The noise of a table splits into independent effects, one for each set of its variables. Each
effect has the noise of the first average that contains it, or of the table itself.

Records that are drawn from a model and satisfy constraints are weighted to keep its margins.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..mechanisms.tables import Noise

_Variables = frozenset[Hashable]
_Mask = tuple[bool, ...]
# The variance of a public margin due to rounding, relative to that of a cell.
_ROUNDING = 1e-9
# Counts that are multiplied must not be 0.
_TINY = 1e-12
# Sweeps end when no margin changes by more than this share of the records, which is far below any
# noise. All pairs of the data sets shopper and thyroid need 9 to 33 sweeps at epsilon 0.1 to 10.
_TOLERANCE = 1e-6
_MAX_SWEEPS = 100
#: The largest weight of a record.
MAX_WEIGHT = 8.0
# Bins of numbers whose shares weights keep; a bin has at least this many records.
_RAKING_BINS, _MIN_COUNT = 100, 0.5
# Raking ends after this many sweeps, or when each margin is this close. Logarithms of factors
# change by at most 1 in a step. The cost of slopes, and standardised values of at most 3, keep
# slopes small if means cannot be met.
_MAX_RAKING_SWEEPS, _RAKING_TOLERANCE = 30, 1e-3
_MAX_RAKING_STEP, _RAKING_COST, _MAX_VALUE = 1.0, 1e-2, 3.0


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """Counts with unbiased noise, one dimension for each variable.

    Attributes
    ----------
    counts : ndarray
        Some may be negative. The last dimension is the variable whose conditional distribution,
        given the other variables, is to be estimated.
    noise : Noise
        Variance of the noise, which is independent from cell to cell.
    axes : tuple
        The variable of each dimension. Tables that share a variable count the same records.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable
    >>> NoisyTable(np.array([[12.5, -3.0], [7.5, 3.0]]), Noise(4.0, 0.5), ("class", "x")).variance
    6.5
    """

    counts: np.ndarray
    noise: Noise
    axes: tuple[Hashable, ...]

    def __post_init__(self):
        if len(self.axes) != self.counts.ndim or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"axes must name each of the {self.counts.ndim} dimensions once; got {self.axes}"
            )

    @property
    def variance(self) -> float:
        """Mean variance of the noise of a cell."""
        return float(self.noise.variance_at(max(self.counts.sum() / self.counts.size, 0.0)))


@dataclass(frozen=True, slots=True)
class ConsistentTable:
    """A noisy table that agrees with other tables on common margins.

    Attributes
    ----------
    counts : ndarray
    table : NoisyTable
        The released table.
    shared : tuple of tuples of bool
        For each average, in turn, which of the table's variables it has.
    variances : tuple of float
        Variances of a cell of each average, and of a cell of the released table.
    """

    counts: np.ndarray
    table: NoisyTable
    shared: tuple[_Mask, ...]
    variances: tuple[float, ...]


def margin_variances(
    shape: tuple[int, ...], kept: _Mask, shared: tuple[_Mask, ...], variances: Any
) -> np.ndarray:
    """Return the variances of a cell of a margin of several tables of one shape."""
    all_variances = np.asarray(variances)
    margin = all_variances @ np.array(_noise_shares(shape, kept, shared))
    return np.maximum(margin, _ROUNDING * all_variances[:, -1])


def make_consistent(
    tables: Sequence[NoisyTable], total: float | None = None
) -> list[ConsistentTable]:
    """Make tables agree on all common margins.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records in each table. If None, it is estimated.

    Returns
    -------
    list of ConsistentTable

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, make_consistent
    >>> by_class = NoisyTable(np.array([60.0, 40.0]), Noise(1.0), ("class",))
    >>> table = NoisyTable(np.array([[30.0, 34.0], [21.0, 21.0]]), Noise(1.0), ("class", "x"))
    >>> first, second = make_consistent([by_class, table])
    >>> bool(np.allclose(first.counts, second.counts.sum(axis=1)))
    True
    """
    counts = [np.asarray(table.counts, dtype=float) for table in tables]
    own_variances = [table.variance for table in tables]
    # Tuples of plain values cost nothing in garbage collection, unlike lists.
    shared: list[tuple[_Mask, ...]] = [()] * len(tables)
    variances: list[tuple[float, ...]] = [()] * len(tables)
    for variables in _shared_sets(tables, total is not None):
        holders = [i for i, table in enumerate(tables) if variables.issubset(table.axes)]
        stacks = _stacks(variables, holders, tables, counts)
        margins = [stack.margins() for stack in stacks]
        if not variables and total is not None:
            average, variance = np.array(total), 0.0
        else:
            average, variance = _weighted_average(stacks, margins, own_variances)
        for stack, margin in zip(stacks, margins, strict=True):
            stack.add(average - margin)
            for index, adjusted in zip(stack.indices, stack.counts, strict=True):
                counts[index] = adjusted
                shared[index] += (stack.mask,)
                variances[index] += (variance,)
    return [
        ConsistentTable(count, table, masks, (*of_averages, own))
        for count, table, masks, of_averages, own in zip(
            counts, tables, shared, variances, own_variances, strict=True
        )
    ]


def _project_margins(
    stacks: Sequence["_Stack"], weighting: Sequence[np.ndarray], total: float | None
) -> float:
    """Move counts of stacks towards a common margin; return their largest previous difference."""
    margins = [stack.margins() for stack in stacks]
    slopes = [
        stack.margins(stack.turned * inverse)
        for stack, inverse in zip(stacks, weighting, strict=True)
    ]
    if total is not None:
        target = np.array(total)
    else:
        precisions = 1 / np.concatenate(slopes)
        target = (precisions * np.concatenate(margins)).sum(axis=0) / precisions.sum(axis=0)
    exponents = [
        stack.spread((target - margin) / slope) * inverse
        for stack, margin, slope, inverse in zip(stacks, margins, slopes, weighting, strict=True)
    ]
    # A Newton step that is too long would overflow.
    step = 1 / max(1.0, *(float(np.abs(exponent).max()) for exponent in exponents))
    for stack, exponent in zip(stacks, exponents, strict=True):
        np.multiply(stack.turned, np.exp(step * exponent), out=stack.turned)
    return max(float(np.abs(target - margin).max()) for margin in margins)


def reconcile_tables(tables: Sequence[NoisyTable], total: float | None = None) -> list[np.ndarray]:
    """Make tables of positive estimates agree on all common margins, and keep them positive.

    Of all consistent tables, these minimise ``sum(w * (x log(x / e) - x + e))`` over all cells,
    where e is the estimate. With the weight ``w = e / v`` this is nearly ``sum((x - e)^2 / 2v)``,
    and keeps counts positive. With the variance ``v = s^2 e / (s + e)``, where s^2 is that of the
    noise, large counts of a margin are moved by equal amounts, as noise with equal variances
    requires, and small counts by equal factors, as their errors are those of a common prior.

    Sets of variables that tables share are processed in turn, repeatedly. In a Bregman projection
    on the tables that agree on a set, each count is multiplied by ``exp(l / w)`` with a multiplier
    l of its margin cell. Projections on linear conditions converge to the minimum (Bregman 1967).
    Here a projection is one Newton step. The remaining differences are distributed evenly.

    Parameters
    ----------
    tables : sequence of NoisyTable
        Positive estimates, with the noise of the counts that they are based on.
    total : float, optional
        The public number of records in each table. If None, it is estimated.

    Returns
    -------
    list of ndarray
        Counts of at least 0. All common margins agree up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, reconcile_tables
    >>> by_class = NoisyTable(np.array([60.0, 40.0]), Noise(1.0), ("class",))
    >>> table = NoisyTable(np.array([[30.0, 34.0], [0.1, 41.0]]), Noise(1.0), ("class", "x"))
    >>> first, second = reconcile_tables([by_class, table], total=100)
    >>> bool(np.allclose(first, second.sum(axis=1)) and (second > 0).all())
    True
    """
    counts = [np.maximum(table.counts, _TINY) for table in tables]
    inverse_weights = [
        table.variance / (np.sqrt(table.variance) + count)
        for table, count in zip(tables, counts, strict=True)
    ]
    _project_counts(tables, counts, inverse_weights, total)
    exact = make_consistent(
        [
            NoisyTable(count, Noise(table.variance), table.axes)
            for count, table in zip(counts, tables, strict=True)
        ],
        total,
    )
    return _mix_with_uniform([table.counts for table in exact])


def _project_counts(
    tables: Sequence[NoisyTable],
    counts: list[np.ndarray],
    inverse_weights: list[np.ndarray],
    total: float | None,
) -> None:
    """Project the counts on each shared set of variables in turn, until they agree."""
    shared = []
    for variables in _shared_sets(tables, total is not None):
        holders = [i for i, table in enumerate(tables) if variables.issubset(table.axes)]
        weighting = [stack.turned for stack in _stacks(variables, holders, tables, inverse_weights)]
        shared.append((variables, holders, weighting))
    scale = max(float(count.sum()) for count in counts)
    for _ in range(_MAX_SWEEPS):
        largest = 0.0
        for variables, holders, weighting in shared:
            stacks = _stacks(variables, holders, tables, counts)
            known = None if variables else total
            largest = max(largest, _project_margins(stacks, weighting, known))
            for stack in stacks:
                for index, adjusted in zip(stack.indices, stack.counts, strict=True):
                    counts[index] = adjusted
        if largest <= _TOLERANCE * scale:
            break


def _mix_with_uniform(tables: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return consistent tables without negative counts, the nearest on the line to uniform ones."""
    share = 0.0
    for table in tables:
        least, uniform = float(table.min()), float(table.sum()) / table.size
        share = max(share, -least / (uniform - least) if least < 0 else 0.0)
    return [np.maximum((1 - share) * table + share * table.mean(), 0.0) for table in tables]


class _Stack(NamedTuple):
    """Tables of one shape that have the shared variables in the same dimensions."""

    indices: list[int]  # indices of the tables
    counts: np.ndarray  # the tables along the first dimension
    turned: np.ndarray  # a view of them, with the dimensions of shared variables first
    mask: _Mask  # dimensions of the shared variables

    def margins(self, turned: np.ndarray | None = None) -> np.ndarray:
        """Return the sums over all other variables, of the tables or of arrays of their shape."""
        turned = self.turned if turned is None else turned
        return turned.sum(axis=tuple(range(1 + sum(self.mask), turned.ndim)))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of margins with a dimension for each variable."""
        return values.reshape(values.shape + (1,) * (self.turned.ndim - values.ndim))

    def add(self, difference: np.ndarray) -> None:
        """Add to the margins, by equal amounts in all cells."""
        others = self.turned.shape[1 + sum(self.mask) :]
        np.add(self.turned, self.spread(difference) / prod(others), out=self.turned)


def _stacks(
    variables: _Variables,
    holders: Sequence[int],
    tables: Sequence[NoisyTable],
    counts: Sequence[np.ndarray],
) -> list[_Stack]:
    """Stack the tables that have some variables, whose order is then the same in all margins."""
    order = [name for name in tables[holders[0]].axes if name in variables]
    groups: dict[Any, list[int]] = {}
    for index in holders:
        axes = tables[index].axes
        key = (counts[index].shape, *[axes.index(name) for name in order])
        groups.setdefault(key, []).append(index)
    stacks = []
    for (shape, *shared), indices in groups.items():
        stack = np.array([counts[index] for index in indices])
        others = [axis for axis in range(len(shape)) if axis not in shared]
        turned = stack.transpose([0, *(axis + 1 for axis in (*shared, *others))])
        mask = tuple([axis in shared for axis in range(len(shape))])
        stacks.append(_Stack(indices, stack, turned, mask))
    return stacks


def _weighted_average(
    stacks: Sequence[_Stack], margins: Sequence[np.ndarray], variances: Sequence[float]
) -> tuple[np.ndarray, float]:
    """Average margins, weighted by their precision, and return the variance of a cell."""
    size = margins[0][0].size
    spreads = [
        variances[index] * stack.counts[0].size / size
        for stack in stacks
        for index in stack.indices
    ]
    precisions = 1 / np.array(spreads)
    variance = float(1 / precisions.sum())
    return np.tensordot(precisions * variance, np.concatenate(margins), axes=1), variance


@lru_cache(maxsize=1 << 12)
def _noise_shares(
    shape: tuple[int, ...], kept: _Mask, shared: tuple[_Mask, ...]
) -> tuple[float, ...]:
    """Return the weights of the variances of all averages, and of the table, in a margin."""
    all_masks = (*shared, (True,) * len(shape))
    kept_axes = [axis for axis, keeps in enumerate(kept) if keeps]
    size = prod(shape[axis] for axis in kept_axes)
    shares = [0.0] * len(all_masks)
    for effect in chain.from_iterable(
        combinations(kept_axes, n) for n in range(len(kept_axes) + 1)
    ):
        # The first average that contains an effect determines its noise.
        index = next(i for i, has in enumerate(all_masks) if all(has[axis] for axis in effect))
        dof = prod(shape[axis] - 1 for axis in effect)
        cells = prod(n for n, has in zip(shape, all_masks[index], strict=True) if has)
        # Its sum of squares is spread over the cells of the margin.
        shares[index] += dof * cells / size**2
    return tuple(shares)


def _shared_sets(tables: Sequence[NoisyTable], with_total: bool) -> list[_Variables]:
    """Return all intersections of sets of variables of tables, smaller ones first."""
    if len(tables) == 1:
        return [frozenset()] if with_total else []
    occurrences = Counter(name for table in tables for name in table.axes)
    # Variables of one table cannot be shared, and without them many tables are alike.
    multiplicities = Counter(
        frozenset(name for name in table.axes if occurrences[name] > 1) for table in tables
    )
    shared = {variables for variables, count in multiplicities.items() if count > 1}
    shared |= {first & second for first, second in combinations(multiplicities, 2)}
    while more := {first & second for first, second in combinations(shared, 2)} - shared:
        shared |= more
    if with_total:
        shared.add(frozenset())
    elif not any(shared):
        shared.discard(frozenset())
    return sorted(shared, key=lambda variables: (len(variables), sorted(map(repr, variables))))


# Weights of records -----------------------------------------------------------------------


def bounded_weights(scores: np.ndarray) -> np.ndarray:
    """Return weights between 0 and `MAX_WEIGHT`, near exp(score) for small scores."""
    exponents = np.clip(MAX_WEIGHT / (MAX_WEIGHT - 1) * scores, -500, 500)
    return MAX_WEIGHT / (1 + (MAX_WEIGHT - 1) * np.exp(-exponents))


def choose_records(
    weights: np.ndarray, n_samples: int, generator: np.random.Generator
) -> np.ndarray:
    """Return positions of records, chosen by their weights in systematic order."""
    cumulated = np.cumsum(weights)
    places = (np.arange(n_samples) + generator.random()) / max(n_samples, 1) * cumulated[-1]
    # Rounding may lead beyond the last record.
    chosen = np.minimum(np.searchsorted(cumulated, places, side="right"), len(weights) - 1)
    return generator.permutation(chosen)


def standardise(centres: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the standardised number of each cell with these counts, and 0 for missing values."""
    shares = counts / max(float(counts.sum()), 1e-300)
    excess = centres - shares @ centres
    deviation = float(np.sqrt(shares @ excess**2))
    return np.append(excess / deviation if deviation > 0 else np.zeros(len(excess)), 0.0)


def _rake_records(
    codes: Sequence[np.ndarray], totals: Sequence[np.ndarray], features: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return logarithms of factors of codes, and slopes of features, for weights of records.

    With the weights, which are at most `MAX_WEIGHT` and have a mean of 1, the codes have the given
    totals, and features have means of 0. Codes that no record has are left out. This is iterative
    proportional fitting (Deming and Stephan 1940), with a step of Newton's method for features.
    """
    n_records, n_features = features.shape
    scores, slopes, wanted = np.zeros(n_records), np.zeros(n_features), []
    for each, total in zip(codes, totals, strict=True):
        found = np.where(np.bincount(each, minlength=len(total)) > 0, total, 0.0)
        wanted.append(found * n_records / max(float(found.sum()), _TINY))
    factors = [np.zeros(len(each)) for each in wanted]
    for _ in range(_MAX_RAKING_SWEEPS):
        weights = bounded_weights(scores)
        slope = weights * (1 - weights / MAX_WEIGHT)
        curvature = (features * slope[:, np.newaxis]).T @ features / n_records
        gradient = weights @ features / n_records + _RAKING_COST * slopes
        step = np.linalg.solve(curvature + _RAKING_COST * np.eye(n_features), gradient)
        step = np.clip(step, -_MAX_RAKING_STEP, _MAX_RAKING_STEP)
        slopes -= step
        scores -= features @ step
        error = float(np.abs(step).sum()) * n_records
        for factor, each, counts in zip(factors, codes, wanted, strict=True):
            found = np.bincount(each, bounded_weights(scores), minlength=len(counts))
            ratios = np.where(counts > 0, counts, 1.0) / np.where(counts > 0, found, 1.0)
            change = np.clip(np.log(ratios), -_MAX_RAKING_STEP, _MAX_RAKING_STEP)
            factor += change
            scores += change[each]
            error = max(error, float(np.abs(found - counts).sum()))
        if error <= _RAKING_TOLERANCE * n_records:
            break
    return factors, slopes


@dataclass(frozen=True)
class Raking:
    """Weights with which allowed records have the margins of all drawn records.

    They keep the share of each value, or of each hundredth of numbers, and the mean products of
    two numbers. Values that no allowed record has are left out. Weights depend on drawn records
    only, so they are post-processing.
    """

    bins: Mapping[Hashable, np.ndarray]  # bin of each cell, by column
    values: Sequence[tuple[Hashable, np.ndarray]]  # standardised number of each cell
    centre: np.ndarray  # mean products of the first draw
    factors: Sequence[np.ndarray]  # logarithm of the factor of each bin
    slopes: np.ndarray  # of the logarithms of weights on the products

    @classmethod
    def fit(
        cls,
        sizes: Mapping[Hashable, int],
        centres: Mapping[Hashable, np.ndarray],
        drawn: Mapping[Hashable, np.ndarray],
        allowed: Mapping[Hashable, np.ndarray],
    ) -> "Raking":
        """Find the weights of allowed records from cells of columns.

        Columns have these numbers of cells. For numbers, these are the centres of all cells but the
        last, which is for missing values.
        """
        bins, values, totals = {}, [], []
        for name, size in sizes.items():
            counts = np.bincount(drawn[name], minlength=size)
            bins[name] = np.arange(size)
            if name in centres:
                places = (np.cumsum(counts) - counts / 2) / counts.sum()
                bins[name] = np.floor(_RAKING_BINS * places).astype(np.intp)
                bins[name][-1] = _RAKING_BINS
                value = standardise(centres[name], counts[:-1])
                values.append((name, np.clip(value, -_MAX_VALUE, _MAX_VALUE)))
            totals.append(np.maximum(np.bincount(bins[name], counts), _MIN_COUNT))
        raking = cls(bins, values, np.zeros(1), [], np.zeros(0))
        raking = replace(raking, centre=raking._products(drawn).mean(axis=0))
        found = raking._codes(allowed), totals, raking._products(allowed)
        factors, slopes = _rake_records(*found)
        return replace(raking, factors=factors, slopes=slopes)

    def _codes(self, cells: Mapping[Hashable, np.ndarray]) -> list[np.ndarray]:
        return [bins[cells[name]] for name, bins in self.bins.items()]

    def _products(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        found = np.array([each[cells[name]] for name, each in self.values])
        first, second = np.triu_indices(len(found), 1)
        if not len(first):
            return np.zeros((len(next(iter(cells.values()))), 0))
        return (found[first] * found[second]).T - self.centre

    def weights(self, cells: Mapping[Hashable, np.ndarray]) -> np.ndarray:
        """Return the weight of each record."""
        scores = self._products(cells) @ self.slopes
        for factor, codes in zip(self.factors, self._codes(cells), strict=True):
            scores += factor[codes]
        return bounded_weights(scores)

    def choose(
        self,
        cells: Mapping[Hashable, np.ndarray],
        n_samples: int,
        generator: np.random.Generator,
        *,
        even: bool,
    ) -> np.ndarray:
        """Return positions of records, chosen by their weights; shares hardly vary with `even`."""
        weights = self.weights(cells)
        order = generator.permutation(len(weights))
        if even:
            order = order[np.lexsort([each[order] for each in reversed(self._codes(cells))])]
        return generator.permutation(order[choose_records(weights[order], n_samples, generator)])
