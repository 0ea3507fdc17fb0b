"""Hellinger distances between Dirichlet posteriors, and exponential mechanisms scored by them.

The posterior of counts x under the prior Dir(alpha) is Dir(alpha + x). The exponential mechanisms
(Algorithms 4 to 6 of "Differentially Private Bayesian Inference", docs/theory.md, section 7) draw
the candidate r for counts x with probability proportional to
``exp(-scale * inverse_sensitivity(x) * H(x, r))``. The sensitivity is the global one ("ehd"), the
gamma-smooth one of x ("ehds"), or the local one of x ("ehdl"), which is not private.
"""

from functools import lru_cache
from itertools import combinations, permutations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from .._random import NoiseGenerator
from .._validation import check_array, check_integer, check_real, check_real_array
from ..accounting import ProfiledDP
from ..mechanisms.sampling.distributions import choose
from ..numerics.conservative import safe_root
from ..numerics.log_gamma import entropy_excess, lifted_gap, log_gamma_gap

_LIFT = 10  # shift of arguments into the range of Stirling's series
_GRID_CELLS = 1 << 20
_TOO_MANY_RECORDS = 1 << 53  # from here on floats do not represent all integers
_BLOCK = 1 << 16  # points per evaluation, to limit memory

EXPONENTIAL = ("ehd", "ehdl", "ehds")
_MAX_CANDIDATES = 500_000  # that are enumerated
# To calibrate the exponent, at most _MAX_WORK pairs of neighbours are listed. If pairs times
# candidates exceed _MAX_WORK, only _PARTIAL_WORK of them are evaluated.
_MAX_WORK = 1 << 22
_PARTIAL_WORK = 1 << 21
# The exponent is slightly reduced so that rounding cannot raise a loss above epsilon.
_ROUNDING = 1e-9

# Privacy profiles: the largest product of the numbers of pairs of neighbours and of candidates,
# the same in one block, and the number of epsilons between 0 and the largest loss.
_MAX_PROFILE_WORK, _PROFILE_BLOCK, _POINTS = 1 << 20, 1 << 18, 64
# Allowance for errors of the probabilities, which are accurate to about 1e-13.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-11
# Outside this range the allowance, or rounding errors near 1, would dominate.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 16.0


def hellinger_distance(a: ArrayLike, b: ArrayLike) -> float | np.ndarray:
    """Hellinger distance between Dirichlet distributions.

    ``H**2 = 1 - B((a + b) / 2) / sqrt(B(a) B(b))`` with B the multivariate beta function.

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
    """Compute ``lnB(a) + lnB(b) - 2 lnB((a + b) / 2)`` along the last axis, without cancellation.

    This is a sum of gaps of lnGamma over the entries, minus the gap of their totals. The leading
    terms are a weighted sum of positive Bregman divergences.
    """
    # Differences of nearby arguments are exact; differences of shifted arguments or of totals
    # would not be.
    half = (b - a) / 2
    total_half = half.sum(axis=-1)
    total_a, total_b = a.sum(axis=-1), b.sum(axis=-1)
    middle, total_middle = (a + b) / 2, (total_a + total_b) / 2
    lift = _LIFT * a.shape[-1]  # so that the shifted entries sum to the shifted total
    _, entries = lifted_gap(1.0, middle, half, b, a, _LIFT)
    _, total = lifted_gap(1.0, total_middle, total_half, total_b, total_a, lift)

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
    >>> round(global_sensitivity([1, 1, 1], 60), 6)
    0.463251
    """
    prior = _check_prior(prior)
    n = check_integer("n_samples", n_samples, at_least=1)
    if prior.size > 2 or n == 1:
        # All other records may be in a third cell.
        log_affinity = log_step_affinity(np.sort(prior)[:2]).sum()
    else:
        cells = np.array([np.arange(n), np.arange(n)[::-1]]) + prior[:, np.newaxis]
        log_affinity = log_step_affinity(cells).sum(axis=0).min()
    return float(distance_from_log_affinity(log_affinity))


def local_sensitivity(counts: ArrayLike, prior: ArrayLike) -> float:
    """Largest distance between the posteriors of these counts and of a neighbour.

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
    prior = _check_prior(prior)
    counts = check_count_vector(counts, prior.size)
    return float(distance_from_log_affinity(_least_log_affinity(counts, prior)))


def _least_log_affinity(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Smallest log-affinity over the neighbours of a vector of counts."""
    joined = log_step_affinity(prior + counts)
    left = np.where(counts > 0, log_step_affinity(prior + np.maximum(counts - 1, 0)), 0.0)
    possible = (counts > 0)[:, np.newaxis] & ~np.eye(counts.size, dtype=bool)
    return np.where(possible, left[:, np.newaxis] + joined, 0.0).min()


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
    >>> from skdirdp.posterior import smooth_sensitivity
    >>> round(smooth_sensitivity([2, 5, 53], [1, 1, 1], gamma=0.1), 6)
    0.362495
    """
    prior = _check_prior(prior)
    counts = check_count_vector(counts, prior.size)
    gamma = check_real("gamma", gamma, above=0)
    n = int(counts.sum())
    # The minimum is attained within this number of moved records.
    inverse = 1 / distance_from_log_affinity(_least_log_affinity(counts, prior))
    reach = int(np.minimum(np.ceil(inverse / gamma) + 1, n))
    if prior.size == 2:
        here = int(counts[0])
        first = np.arange(max(here - 1 - reach, 0), min(here + reach, n - 1) + 1)
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
            shared = [levels[i][row], levels[j][column]]
            affinities = [steps[i][row], steps[j][column]]
            best = min(best, _least_inverse(counts[[i, j]], shared, affinities, gamma))
    return 1 / best


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


def check_candidates(mechanism: str, n_samples: int, n_categories: int) -> None:
    """Raise an error if there are too many possible posteriors to enumerate."""
    if n_candidates(n_samples, n_categories) > _MAX_CANDIDATES:
        raise ValueError(
            f"{n_samples} records in {n_categories} categories have more than {_MAX_CANDIDATES} "
            f"possible posteriors, too many to list for {mechanism!r}. Use mechanism='lshist'"
        )


class PosteriorLattice:
    """All posteriors of n records over k categories, in colexicographic order of cumulative counts.

    Neighbours differ by one record that moves from one cell to another.
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
        self._differences = {x: np.cumsum(np.append(0.0, y)) for x, y in seconds.items()}
        #: Log-affinity when one record is added to a cell, by cell and count.
        self.log_step_affinities = [-0.5 * seconds[value][::2] for value in self.prior.tolist()]

    def rank(self, counts: np.ndarray) -> np.ndarray:
        """Indices of the candidates with these counts, along the last axis."""
        k = self.prior.size
        marks = np.cumsum(counts[..., :-1], axis=-1) + np.arange(k - 1)
        ranks = np.zeros(counts.shape[:-1], dtype=np.int64)
        for j in range(k - 1):
            binomials = np.array([comb(c, j + 1) for c in range(self.n_samples + k)], np.int64)
            ranks += binomials[marks[..., j]]
        return ranks

    def distances(self, counts: np.ndarray) -> np.ndarray:
        """Hellinger distances from the posterior of these counts to every candidate."""
        log_affinity = np.zeros(len(self.counts))
        for cell, count in enumerate(counts):
            log_affinity -= 0.5 * self._gaps(cell, int(count))[self.counts[:, cell]]
        return distance_from_log_affinity(log_affinity)

    def _gaps(self, cell: int, count: int) -> np.ndarray:
        """Compute `log_gamma_gap` of the parameters of a cell at this count and at every other."""
        # With E the first differences of lnGamma on a grid of half-integers, the gap increases from
        # count b to b + 1 by ``E[2b] + E[2b + 1] - 2 E[count + b]``, summed from the count itself.
        differences = self._differences[self.prior[cell]]
        growth = differences[0::2] + differences[1::2]
        growth -= 2 * differences[count : count + self.n_samples]
        gaps = np.zeros(self.n_samples + 1)
        np.cumsum(growth[count:], out=gaps[count + 1 :])
        gaps[:count] = -np.cumsum(growth[:count][::-1])[::-1]
        return gaps

    def inverse_sensitivities(self, mechanism: str, gamma: float) -> np.ndarray:
        """Compute the inverse sensitivity that a mechanism uses at every candidate."""
        if mechanism == "ehd":
            sensitivity = _cached_global_sensitivity(tuple(self.prior.tolist()), self.n_samples)
            return np.full(len(self.counts), 1 / sensitivity)
        # A cell with all records cannot gain one, and an empty cell cannot lose one.
        each = list(zip(self.log_step_affinities, self.counts.T, strict=True))
        joins = [np.append(steps, np.inf)[counts] for steps, counts in each]
        leaves = [np.append(np.inf, steps)[counts] for steps, counts in each]
        least = np.zeros(len(self.counts))
        for i, j in permutations(range(self.prior.size), 2):
            np.minimum(least, leaves[i] + joins[j], out=least)
        inverse = 1 / distance_from_log_affinity(least)
        # 1 / S is the largest gamma-Lipschitz minorant of 1 / LS in the graph of neighbours.
        edges = self.edges() if mechanism == "ehds" else []
        while True:
            spread = inverse.copy()
            for first, second in edges:
                # No candidate occurs twice in `first` or in `second`.
                spread[first] = np.minimum(spread[first], inverse[second] + gamma)
                spread[second] = np.minimum(spread[second], inverse[first] + gamma)
            if np.array_equal(spread, inverse):
                return inverse
            inverse = spread

    def edges(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """List all pairs of neighbours, by the two cells between which a record moves."""
        groups = []
        for i, j in combinations(range(self.prior.size), 2):
            first = np.flatnonzero(self.counts[:, i])
            moved = self.counts[first]
            moved[:, i] -= 1
            moved[:, j] += 1
            groups.append((first, self.rank(moved)))
        return groups

    def neighbours(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List pairs of neighbours and distances, up to relabelling if the prior is symmetric."""
        edges, steps = self.edges(), self.log_step_affinities
        first, second = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        cells = combinations(range(self.prior.size), 2)
        log_affinity = [
            steps[i][self.counts[x, i] - 1] + steps[j][self.counts[x, j]]
            for (i, j), (x, _) in zip(cells, edges, strict=True)
        ]
        distance = distance_from_log_affinity(np.concatenate(log_affinity))
        if np.any(self.prior != self.prior[0]):
            return first, second, distance
        # By relabelling, one of the two count vectors of a pair decreases.
        decreasing = np.all(np.diff(self.counts, axis=1) <= 0, axis=1)
        kept = decreasing[first] | decreasing[second]
        return first[kept], second[kept], distance[kept]


# Cached for further releases of the same public sizes.
posterior_lattice = lru_cache(maxsize=4)(PosteriorLattice)
_cached_global_sensitivity = lru_cache(maxsize=64)(global_sensitivity)


def all_counts(n_samples: int, n_categories: int) -> np.ndarray:
    """List every vector of counts with the given total, in the order of `rank`."""
    totals = np.arange(n_samples + 1)[:, np.newaxis]
    for _ in range(n_categories - 2):
        sizes = totals[:, 0] + 1
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        smaller = np.arange(sizes.sum()) - starts
        totals = np.column_stack([smaller, np.repeat(totals, sizes, axis=0)])
    return np.diff(totals, axis=1, prepend=0, append=n_samples)


def inverse_sensitivity(name: str, counts: np.ndarray, prior: np.ndarray, gamma: float) -> float:
    """Compute one over the sensitivity that a mechanism uses at these counts."""
    if name == "ehd":
        return 1 / _cached_global_sensitivity(tuple(prior.tolist()), int(counts.sum()))
    if name == "ehdl":
        return 1 / local_sensitivity(counts, prior)
    return 1 / smooth_sensitivity(counts, prior, gamma)


def log_weights(
    mechanism: str, counts: np.ndarray, lattice: PosteriorLattice, scale: float, gamma: float
) -> np.ndarray:
    """Logarithms of the unnormalised probabilities of all candidates."""
    rate = inverse_sensitivity(mechanism, counts, lattice.prior, gamma)
    return -scale * (rate * lattice.distances(counts))


def draw_candidate(counts: np.ndarray, logs: np.ndarray, generator: NoiseGenerator) -> np.ndarray:
    """Draw a candidate by the logarithms of unnormalised probabilities."""
    # Exact for these logarithms. The margin of the exponent covers their error of about 1e-12.
    (drawn,) = choose(logs, 1, generator)
    return counts[drawn]


class Exponent(NamedTuple):
    """Factor of ``inverse_sensitivity(x) * H(x, r)``, and the largest log-ratio it causes.

    The loss is None if there are too many pairs to evaluate, and it is only proved to be at most
    epsilon.
    """

    scale: float
    loss: float | None


@lru_cache(maxsize=256)
def paper_exponent(
    mechanism: str, prior: tuple[float, ...], n_samples: int, epsilon: float, gamma: float
) -> Exponent:
    """Return the exponent of Algorithms 4 to 6, with its loss if it can be computed quickly."""
    scale = epsilon / (2 * (1 + gamma)) if mechanism == "ehds" else epsilon / 2
    neighbours = _neighbours(mechanism, prior, n_samples, gamma)
    loss = neighbours.loss(scale) if neighbours is not None and neighbours.complete else None
    return Exponent(scale, loss)


@lru_cache(maxsize=256)
def exact_exponent(
    mechanism: str, prior: tuple[float, ...], n_samples: int, epsilon: float, gamma: float
) -> Exponent:
    """Compute the largest exponent with losses of at most epsilon."""
    # The log-ratio of neighbours x and x' at r is ``scale * g(r)`` plus the logarithm of the ratio
    # of their normalisers, which lies between the extremes of ``scale * g``. So the loss is at most
    # scale times the range of g, see `_range_bound`. Pairs for which this bound exceeds epsilon are
    # evaluated exactly, as long as there are not too many.
    neighbours = _neighbours(mechanism, prior, n_samples, gamma)
    if neighbours is None:
        # In `_range_bound` c h is at most 1, and the two c differ by at most gamma
        # (Theorem 4.1), or not at all.
        change = gamma if mechanism == "ehds" else 0.0
        bound = 1 + min(1 + change, np.sqrt(1 + 2 * change**2))
        return Exponent(float(epsilon / bound * (1 - _ROUNDING)), None)
    target = epsilon * (1 - _ROUNDING)
    # Up to this scale the loss of all pairs not evaluated is at most the target.
    rest = np.inf if neighbours.complete else target / neighbours.next_bound
    if np.isfinite(rest) and neighbours.loss(rest) <= target:
        return Exponent(rest, None)
    # No loss exceeds the target up to the lower scale, and some loss does beyond the higher one.
    low, high = target / neighbours.largest_bound, 2 * target / neighbours.largest_sum
    high = min(high * (1 + _ROUNDING), rest)
    tolerance = 1e-12 * high
    scale = low

    def excess(x: float) -> float:
        return neighbours.loss(x) / target - 1

    if 0 < tolerance < np.inf:  # false for extremely small or large epsilons
        scale = safe_root(excess, low, high - low, tolerance=tolerance, limits=(low, high))
    # For a tiny epsilon, rounding errors may exceed the loss even at the safe scale.
    scale = low if np.isnan(scale) else scale
    return Exponent(scale, min(neighbours.loss(scale), epsilon))


def _range_bound(rate: np.ndarray, other: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Bound the range over r of ``g(r) = c(x') H(x', r) - c(x) H(x, r)``, with h = H(x, x')."""
    # c is the inverse sensitivity. ``H = sqrt(2) sin(t / 2)`` with t the angle between square roots
    # of densities, a metric of at most pi / 2. So g is at most the largest
    # ``sqrt(2) (c(x') sin((t + t_h) / 2) - c(x) sin(t / 2))``, and -g with c exchanged.
    half = np.arcsin(np.minimum(distance / np.sqrt(2), 1.0))  # t_h / 2

    def largest(up, down):
        cosine, sine = up * np.sin(half), up * np.cos(half) - down
        best = np.clip(np.arctan2(sine, cosine), 0, np.pi / 4 - half)
        return np.sqrt(2) * (cosine * np.cos(best) + sine * np.sin(best))

    return (largest(other, rate) + largest(rate, other)) * (1 + 1e-12)


def _neighbours(mechanism, prior, n_samples, gamma) -> "_NeighbourPairs | None":
    k = len(prior)
    size = n_candidates(n_samples, k)
    if size > _MAX_CANDIDATES or size * k * (k - 1) // 2 > _MAX_WORK:
        return None
    lattice = posterior_lattice(prior, n_samples)
    return _NeighbourPairs(lattice, lattice.inverse_sensitivities(mechanism, gamma))


class _NeighbourPairs:
    """Pairs of neighbours, sorted by a bound on their loss; the first ones are evaluated."""

    def __init__(self, lattice: PosteriorLattice, rates: np.ndarray):
        first, second, distance = lattice.neighbours()
        both = (rates[first] + rates[second]) * distance
        bound = _range_bound(rates[first], rates[second], distance)
        self.largest_bound = float(bound.max())
        self.largest_sum = float(both.max())
        # For r = x and r = x' the log-ratios sum to scale * (c(x) + c(x')) h, so some loss is
        # at least half of that. Pairs with a smaller bound are never the worst.
        eligible = np.flatnonzero(bound >= self.largest_sum / 2)
        order = eligible[np.argsort(-bound[eligible], kind="stable")]
        self.complete = order.size * len(lattice.counts) <= _MAX_WORK
        followed, self.next_bound = order, 0.0
        if not self.complete:
            followed = order[: max(1, _PARTIAL_WORK // len(lattice.counts))]
            self.next_bound = float(bound[order[followed.size]])

        both_ends = np.concatenate([first[followed], second[followed]])
        ends, index = np.unique(both_ends, return_inverse=True)
        self._first, self._second = index[: followed.size], index[followed.size :]
        self._scores = scores = np.empty((ends.size, len(lattice.counts)))
        for row, end in enumerate(ends):
            scores[row] = rates[end] * lattice.distances(lattice.counts[end])
        self._highest, self._lowest = np.empty(followed.size), np.empty(followed.size)
        for pair, (x, y) in enumerate(zip(self._first, self._second, strict=True)):
            difference = scores[y] - scores[x]
            self._highest[pair], self._lowest[pair] = difference.max(), difference.min()

    def loss(self, scale: float) -> float:
        """Largest log-ratio over the evaluated pairs."""
        log_normaliser = np.log(np.exp(-scale * self._scores).sum(axis=1))
        change = log_normaliser[self._second] - log_normaliser[self._first]
        highest, lowest = scale * self._highest + change, -scale * self._lowest - change
        return float(max(np.max(highest), np.max(lowest)))


@lru_cache(maxsize=256)
def enumerated_profile(
    mechanism: str,
    prior: tuple[float, ...],
    n_samples: int,
    scale: float,
    gamma: float,
    epsilon: float,
    adjacency: str,
) -> ProfiledDP | None:
    """Compute the profile of a release with loss at most epsilon; None if it takes too long."""
    # It is the maximum over all pairs of neighbours, in both orders, of a sum over all candidates.
    k, size = len(prior), n_candidates(n_samples, len(prior))
    too_long = size * size * k * (k - 1) // 2 > _MAX_PROFILE_WORK
    if too_long or not _LEAST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        return None
    lattice = posterior_lattice(prior, n_samples)
    each = zip(lattice.inverse_sensitivities(mechanism, gamma), lattice.counts, strict=True)
    logs = np.stack([-scale * rate * lattice.distances(counts) for rate, counts in each])
    probabilities = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    first, second, _ = lattice.neighbours()
    first, second = np.concatenate([first, second]), np.concatenate([second, first])
    epsilons = np.linspace(0.0, epsilon, _POINTS)
    deltas = np.zeros(_POINTS)
    rows = max(1, _PROFILE_BLOCK // size)
    for start in range(0, len(first), rows):
        p, q = (probabilities[ends[start : start + rows]] for ends in (first, second))
        for point, factor in enumerate(np.exp(epsilons)):
            found = np.maximum(p - factor * q, 0.0).sum(axis=1).max()
            deltas[point] = max(deltas[point], float(found))
    # The profile is at most the value of randomised response at 0.
    deltas = np.minimum(deltas * (1 + _RELATIVE) + _ABSOLUTE, np.tanh(epsilon / 2))
    deltas[-1] = 0.0
    return ProfiledDP.from_points(epsilons.tolist(), deltas.tolist(), adjacency)
