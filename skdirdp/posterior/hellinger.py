"""Hellinger distances between Dirichlet posteriors, their sensitivities, and the candidates.

The posterior of counts x under the prior Dir(alpha) is Dir(alpha + x). Two data sets
that differ in one record share the counts y of the others, and their posteriors
are those of ``y + e_i`` and ``y + e_j``. Their affinity ``1 - H**2`` is
``rho(alpha_i + y_i) * rho(alpha_j + y_j)`` with
``rho(a) = Gamma(a + 1/2) / sqrt(Gamma(a) Gamma(a + 1))``, which increases in a: the
fewer records two cells contain, the larger the distance of the posteriors. All sensitivities
follow from this, without enumerating the possible data sets.

A `PosteriorLattice` enumerates all posteriors of n records over k categories, identified by
their counts. There are ``C(n + k - 1, k - 1)``, numbered in colexicographic order of their
cumulative counts. Neighbours differ by one record that moves from one cell to another.
"""

from functools import cached_property, lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_array, check_integer, check_real, check_real_array
from ..numerics.log_gamma import LiftedGap, entropy_excess, log_gamma_gap

__all__ = [
    "global_sensitivity",
    "hellinger_distance",
    "local_sensitivity",
    "smooth_sensitivity",
]

# The recurrence of the gamma function shifts arguments by this amount, into the range of
# Stirling's series.
_LIFT = 10
_GRID_CELLS = 1 << 20
# From here on floats do not represent all integers.
_TOO_MANY_RECORDS = 1 << 53

_BLOCK = 1 << 16  # points per evaluation, to limit memory


def hellinger_distance(a: ArrayLike, b: ArrayLike) -> float | np.ndarray:
    """Hellinger distance between Dirichlet distributions (Beta, for two entries).

    ``H**2 = 1 - B((a + b) / 2) / sqrt(B(a) B(b))`` with B the multivariate beta
    function, computed without cancellation of its logarithms.

    Parameters
    ----------
    a, b : array-like of shape (..., n_categories)
        Positive parameters; leading axes broadcast.

    Returns
    -------
    float or ndarray
        In [0, 1].

    Examples
    --------
    >>> from skdirdp.posterior import hellinger_distance
    >>> round(hellinger_distance([1, 1], [1, 2]), 6)
    0.239146
    >>> round(hellinger_distance([1e12, 1e12], [1e12 + 1, 1e12 - 1]) * 1e6, 9)
    0.5
    """
    a, b = _check_parameters("a", a), _check_parameters("b", b)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"a and b must have the same number of categories; got {a.shape[-1]} and {b.shape[-1]}"
        )
    distance = distance_from_log_affinity(-0.5 * _beta_gap(*np.broadcast_arrays(a, b)))
    return float(distance) if distance.ndim == 0 else distance


def distance_from_log_affinity(log_affinity: np.ndarray) -> np.ndarray:
    return np.sqrt(np.abs(np.expm1(np.minimum(log_affinity, 0.0))))


def _beta_gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute ``lnB(a) + lnB(b) - 2 lnB((a + b) / 2)`` along the last axis.

    This is a sum of gaps of lnGamma over the entries, minus the gap of their totals. The leading
    terms, of the size of the parameters, are a Jensen gap: a weighted sum of Bregman
    divergences, which are all positive, so there is no cancellation.
    """
    # Differences of nearby arguments are exact; differences of shifted arguments or of totals
    # would not be.
    half = (b - a) / 2
    total_half = half.sum(axis=-1)
    total_a, total_b = a.sum(axis=-1), b.sum(axis=-1)
    middle, total_middle = (a + b) / 2, (total_a + total_b) / 2
    lift = _LIFT * a.shape[-1]  # so that the shifted entries sum to the shifted total
    entries = LiftedGap(1.0, middle, half, b, a, _LIFT).beyond_entropy()
    total = LiftedGap(1.0, total_middle, total_half, total_b, total_a, lift).beyond_entropy()

    weight, total_weight = middle + _LIFT, (total_middle + lift)[..., np.newaxis]
    # Ratios of b and of a to their mean, for each entry and for the total.
    high = (b + _LIFT) / weight, (total_b[..., np.newaxis] + lift) / total_weight
    low = (a + _LIFT) / weight, (total_a[..., np.newaxis] + lift) / total_weight
    excess = half / weight - total_half[..., np.newaxis] / total_weight
    # If one of the two is much larger, use the smaller ratio, which is more accurate.
    excess = np.where(high[1] < 0.5, high[0] - high[1], excess)
    excess = np.where(low[1] < 0.5, low[1] - low[0], excess)
    bregman = high[1] * entropy_excess(excess / high[1], high[0] / high[1])
    bregman += low[1] * entropy_excess(-excess / low[1], low[0] / low[1])
    return (entries + weight * bregman).sum(axis=-1) - total


def global_sensitivity(prior: ArrayLike, n_samples: int) -> float:
    """Largest distance between the posteriors of two neighbours, over all data sets.

    The papers' constant ``sqrt(1 - pi / 4)`` holds for a uniform prior only.

    Parameters
    ----------
    prior : array-like of shape (n_categories,)
        Positive parameters.
    n_samples : int
        Records in the data set.

    Returns
    -------
    float
        In (0, 1).

    Examples
    --------
    >>> from skdirdp.posterior import global_sensitivity
    >>> round(global_sensitivity([1, 1, 1], 60), 6), round(global_sensitivity([1, 1], 60), 6)
    (0.463251, 0.340026)
    """
    prior = _check_prior(prior)
    n = check_integer("n_samples", n_samples, at_least=1)
    if prior.size > 2 or n == 1:
        # All other records may be in a third cell.
        log_affinity = log_step_affinity(np.sort(prior)[:2]).sum()
    else:
        first = np.arange(n)
        log_affinity = np.min(
            log_step_affinity(prior[0] + first) + log_step_affinity(prior[1] + first[::-1])
        )
    return float(distance_from_log_affinity(log_affinity))


def local_sensitivity(counts: ArrayLike, prior: ArrayLike) -> float:
    """Largest distance between the posteriors of these counts and of a neighbour.

    By the triangle inequality it bounds the difference of their distances to any candidate.

    Parameters
    ----------
    counts, prior : array-like of shape (n_categories,)
        Integer numbers of records, and positive parameters.

    Returns
    -------
    float
        In (0, 1). It depends on the data, so noise scaled to it is not private.

    Examples
    --------
    >>> from skdirdp.posterior import local_sensitivity
    >>> round(local_sensitivity([30, 30], [1, 1]), 6)
    0.090361
    """
    counts, prior = _check_data(counts, prior)
    return float(distance_from_log_affinity(_least_log_affinity(counts, prior)))


def _least_log_affinity(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Smallest log-affinity over the neighbours of each row of counts."""
    joined = log_step_affinity(prior + counts)
    left = np.where(counts > 0, log_step_affinity(prior + np.maximum(counts - 1, 0)), 0.0)
    size = counts.shape[-1]
    sums = left[..., :, np.newaxis] + joined[..., np.newaxis, :]
    possible = (counts > 0)[..., :, np.newaxis] & ~np.eye(size, dtype=bool)
    return np.where(possible, sums, 0.0).min(axis=(-2, -1))


def smooth_sensitivity(counts: ArrayLike, prior: ArrayLike, gamma: float = 1.0) -> float:
    """Gamma-smooth upper bound S on the local sensitivity: Definition 3 of the paper.

    ``1 / S(x)`` is the minimum of ``1 / LS(x'') + gamma d(x, x'')`` over all data sets
    x'', where d is the number of records that differ: half the l1 distance of the counts.

    Parameters
    ----------
    counts, prior : array-like of shape (n_categories,)
        Integer numbers of records, and positive parameters.
    gamma : float, default=1.0
        The largest change of ``1 / S`` per record.

    Returns
    -------
    float
        At least the local sensitivity.

    Examples
    --------
    >>> from skdirdp.posterior import local_sensitivity, smooth_sensitivity
    >>> counts, prior = [2, 5, 53], [1, 1, 1]
    >>> round(local_sensitivity(counts, prior), 6), round(smooth_sensitivity(counts, prior), 6)
    (0.281732, 0.281732)
    >>> round(smooth_sensitivity(counts, prior, gamma=0.1), 6)
    0.362495
    """
    counts, prior = _check_data(counts, prior)
    gamma = check_real("gamma", gamma, above=0)
    n, reach = int(counts.sum()), _reach(counts, prior, gamma)
    if prior.size == 2:
        first = np.arange(
            max(int(counts[0]) - 1 - reach, 0), min(int(counts[0]) + reach, n - 1) + 1
        )
        levels = [first, n - 1 - first]
    else:
        # More records in a cell reduce the distance, so only smaller counts are considered.
        levels = [np.arange(max(int(count) - reach, 0), int(count) + 1) for count in counts]
    flat = np.concatenate([value + level for value, level in zip(prior, levels, strict=True)])
    ends = np.cumsum([level.size for level in levels])
    steps = np.split(log_step_affinity(flat), ends[:-1])
    if prior.size == 2:
        return 1 / _least_inverse(counts, levels, steps, gamma)
    best = np.inf
    for i, j in combinations(range(prior.size), 2):
        blocks = max(1, levels[i].size * levels[j].size // _GRID_CELLS)
        for rows in np.array_split(np.arange(levels[i].size), blocks):
            row, column = np.meshgrid(rows, np.arange(levels[j].size), indexing="ij")
            fits = levels[i][row] + levels[j][column] < n
            row, column = row[fits], column[fits]
            best = min(
                best,
                _least_inverse(
                    counts[[i, j]],
                    [levels[i][row], levels[j][column]],
                    [steps[i][row], steps[j][column]],
                    gamma,
                ),
            )
    return 1 / best


def _reach(counts, prior, gamma) -> int:
    """Number of moved records beyond which the minimum cannot be attained."""
    here = 1 / distance_from_log_affinity(_least_log_affinity(counts, prior))
    return int(min(np.ceil(here / gamma) + 1, counts.sum()))


def _least_inverse(counts, levels, steps, gamma) -> float:
    """Minimum of ``1 / H + gamma d`` over neighbours with these shared counts in two cells."""
    p, q = levels
    if p.size == 0:
        return np.inf
    distance = distance_from_log_affinity(steps[0] + steps[1])
    moves = np.inf
    for first, second in ((p + 1, q), (p, q + 1)):
        rise = np.maximum(first - counts[0], 0) + np.maximum(second - counts[1], 0)
        fall = np.maximum(counts[0] - first, 0) + np.maximum(counts[1] - second, 0)
        moves = np.minimum(moves, np.maximum(rise, fall))
    return float(np.min(1 / distance + gamma * moves))


def log_step_affinity(a: ArrayLike) -> np.ndarray:
    """Compute ``log rho(a)``, the log-affinity when one record is added to a cell."""
    a = np.asarray(a, dtype=float)
    return -0.5 * log_gamma_gap(a, a + 1)


def _check_parameters(name: str, values: ArrayLike) -> np.ndarray:
    values = check_array(name, values, above=0)
    if values.ndim == 0 or values.shape[-1] < 2:
        raise ValueError(f"{name} must have at least 2 categories; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite")
    return values


def _check_prior(prior: ArrayLike) -> np.ndarray:
    prior = _check_parameters("prior", prior)
    if prior.ndim != 1:
        raise ValueError(f"prior must be a vector; got shape {prior.shape}")
    return prior


def _check_data(counts: ArrayLike, prior: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    prior = _check_prior(prior)
    return check_count_vector(counts, prior.size), prior


def check_count_vector(counts: ArrayLike, n_categories: int) -> np.ndarray:
    """Check integer counts of at least one record; errors do not show the counts."""
    counts = check_real_array("counts", counts)
    if counts.shape != (n_categories,):
        raise ValueError(f"counts must have shape ({n_categories},); got {counts.shape}")
    if not np.isfinite(counts).all() or (counts < 0).any() or (counts % 1 != 0).any():
        raise ValueError("counts must be non-negative integers")
    if counts.sum() < 1:
        raise ValueError("counts must contain at least 1 record; got 0")
    if counts.sum() >= _TOO_MANY_RECORDS:
        raise ValueError(f"counts must contain fewer than {_TOO_MANY_RECORDS} records; got more")
    return counts.astype(np.int64)


def n_candidates(n_samples: int, n_categories: int) -> int:
    return comb(n_samples + n_categories - 1, n_categories - 1)


class PosteriorLattice:
    """All candidate posteriors for a prior and a number of records, with their distances.

    Attributes
    ----------
    counts : ndarray of shape (n_candidates, n_categories)
        The counts of each candidate.
    """

    def __init__(self, prior: tuple[float, ...], n_samples: int):
        self.prior = np.asarray(prior, dtype=float)
        self.n_samples = n_samples
        self.counts = all_counts(n_samples, self.prior.size)
        # Second differences of lnGamma in half-integer steps from each prior entry. They are
        # accurate for any number of records, and all other quantities are sums of them.
        points = 0.5 * np.arange(2 * n_samples - 1)
        blocks = np.array_split(points, 1 + points.size // _BLOCK)
        seconds = {
            value: np.concatenate([log_gamma_gap(value + x, value + x + 1) for x in blocks])
            for value in set(self.prior.tolist())
        }
        self._differences = {
            value: np.cumsum(np.append(0.0, second)) for value, second in seconds.items()
        }
        #: Log-affinity when one record is added to a cell, by cell and count.
        self.log_step_affinities = [-0.5 * seconds[value][::2] for value in self.prior.tolist()]

    @property
    def symmetric(self) -> bool:
        """Whether the prior is invariant under relabelling of the categories."""
        return bool(np.all(self.prior == self.prior[0]))

    def rank(self, counts: np.ndarray) -> np.ndarray:
        """Indices of the candidates with these counts, along the last axis."""
        k = self.prior.size
        marks = np.cumsum(counts[..., :-1], axis=-1) + np.arange(k - 1)
        binomials = _binomials(self.n_samples, k)
        return sum(
            (binomials[j][marks[..., j]] for j in range(k - 1)),
            np.zeros(counts.shape[:-1], dtype=np.int64),
        )

    def distances(self, counts: np.ndarray) -> np.ndarray:
        """Hellinger distances from the posterior of these counts to every candidate."""
        log_affinity = np.zeros(len(self.counts))
        for cell, count in enumerate(counts):
            log_affinity -= 0.5 * self._gaps(cell, int(count))[self.counts[:, cell]]
        return distance_from_log_affinity(log_affinity)

    def _gaps(self, cell: int, count: int) -> np.ndarray:
        """Compute `log_gamma_gap` of the parameters of a cell at this count and at every other.

        With E the first differences of lnGamma on a grid of half-integers, the gap
        increases from count b to b + 1 by ``E[2b] + E[2b + 1] - 2 E[count + b]``. The sum
        starts at the count itself, in both directions, so that all terms have the same sign.
        """
        differences = self._differences[self.prior[cell]]
        growth = differences[0::2] + differences[1::2]
        growth -= 2 * differences[count : count + self.n_samples]
        gaps = np.zeros(self.n_samples + 1)
        np.cumsum(growth[count:], out=gaps[count + 1 :])
        gaps[:count] = -np.cumsum(growth[:count][::-1])[::-1]
        return gaps

    def inverse_local_sensitivities(self) -> np.ndarray:
        """Compute ``1 / LS`` of every candidate."""
        k = self.prior.size
        joins, leaves = [], []
        for cell, steps in enumerate(self.log_step_affinities):
            # A cell with all records cannot gain one, and an empty cell cannot lose one.
            joins.append(np.append(steps, np.inf)[self.counts[:, cell]])
            leaves.append(np.append(np.inf, steps)[self.counts[:, cell]])
        least = np.zeros(len(self.counts))
        for i in range(k):
            for j in range(k):
                if i != j:
                    np.minimum(least, leaves[i] + joins[j], out=least)
        return 1 / distance_from_log_affinity(least)

    def inverse_smooth_sensitivities(self, gamma: float) -> np.ndarray:
        """Compute ``1 / S`` of every candidate, the largest gamma-Lipschitz minorant of ``1 / LS``.

        d is the distance in the graph of neighbours, so values propagate along its edges.
        """
        inverse = self.inverse_local_sensitivities()
        edges = self.edges()
        while True:
            spread = inverse.copy()
            for first, second in edges:
                # No candidate occurs twice in `first` or in `second`.
                spread[first] = np.minimum(spread[first], inverse[second] + gamma)
                spread[second] = np.minimum(spread[second], inverse[first] + gamma)
            if np.array_equal(spread, inverse):
                return inverse
            inverse = spread

    @cached_property
    def cell_pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.prior.size), 2))

    def edges(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """All pairs of neighbours, by the two cells between which a record moves."""
        groups = []
        for i, j in self.cell_pairs:
            first = np.flatnonzero(self.counts[:, i])
            moved = self.counts[first]
            moved[:, i] -= 1
            moved[:, j] += 1
            groups.append((first, self.rank(moved)))
        return groups

    def edge_distances(self, edges: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Distances between the neighbours of all groups, concatenated."""
        steps = self.log_step_affinities
        log_affinity = [
            steps[i][self.counts[first, i] - 1] + steps[j][self.counts[first, j]]
            for (i, j), (first, _) in zip(self.cell_pairs, edges, strict=True)
        ]
        return distance_from_log_affinity(np.concatenate(log_affinity))


@lru_cache(maxsize=4)
def posterior_lattice(prior: tuple[float, ...], n_samples: int) -> PosteriorLattice:
    """Return the lattice, cached for further releases of the same public sizes."""
    return PosteriorLattice(prior, n_samples)


def all_counts(n_samples: int, n_categories: int) -> np.ndarray:
    """List every vector of counts with the given total, in the order of `rank`."""
    totals = np.arange(n_samples + 1)[:, np.newaxis]
    for _ in range(n_categories - 2):
        sizes = totals[:, 0] + 1
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        smaller = np.arange(sizes.sum()) - starts
        totals = np.column_stack([smaller, np.repeat(totals, sizes, axis=0)])
    return np.diff(totals, axis=1, prepend=0, append=n_samples)


@lru_cache(maxsize=8)
def _binomials(n_samples: int, n_categories: int) -> list[np.ndarray]:
    """Compute ``C(c, j)`` for c < n + k and j = 1 .. k - 1."""
    size = n_samples + n_categories
    return [
        np.array([comb(c, j) for c in range(size)], dtype=np.int64) for j in range(1, n_categories)
    ]
