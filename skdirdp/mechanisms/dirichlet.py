"""Dirichlet mechanism for tables of counts: its worst case, and published bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isinf
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq, linprog, minimize_scalar
from scipy.special import betainc, betaincc, digamma, polygamma

from .._random import NoiseGenerator
from .._validation import LARGEST, NON_NEGATIVE, store_reals
from ..accounting import RenyiDP, TruncatedConcentratedDP
from ..accounting.guarantees import truncated_epsilon
from ..accounting.pairs import BetaPair, FractionalPair, GammaPair
from ..accounting.worst_case import DIRECTIONS, WorstCase
from ..numerics.conservative import quotient_up, safe_root
from ..numerics.rows import is_whole
from .base import Mechanism, normalise, remove_smoothing, sums_of_runs
from .sampling import grids
from .sampling.gamma import gamma_cells, gamma_cells_of_all
from .tables import ContributionBound, CountTable, Noise, entry_quadrature

_SCALE = {"above": 0, "at_most": LARGEST, "allow_infinite": True}
# Number of bits of r and alpha in a release, and minimum number of bits of an alpha that is much
# smaller than r.
_PARAMETER_BITS = 16
_MIN_ALPHA_BITS = 4

_N_BISECTIONS = 45

#: If alpha is at least this large, intensities are convex: 1/2 + 1 / sqrt(12), rounded up.
CONVEX_ALPHA = 0.7886751345948130
#: If alpha is at least this large, intensities per count increase with the count.
INCREASING_ALPHA = 0.5
# Ratios of successive cell sizes, and of successive drops at which intensities are compared.
_STEP_RATIO, _DROP_RATIO = 0.6, 1.03
# Range of alpha for which a linear program finds dominating cells.
_MIN_LP_ALPHA, _MAX_LP_ALPHA = 1e-3, 0.499
# Below this alpha the number of dominating cells is too large to be useful.
_MIN_ALPHA = 1e-30
_MARGIN = 1e-9


@dataclass(frozen=True, repr=False)
class DirichletMechanism(Mechanism):
    """Release ``Y ~ Dirichlet(r x + alpha)`` for each row x of a table of counts.

    The privacy curves are exact: they are the worst case over all data sets and all neighbours
    (docs/theory.md, section 2).

    Parameters
    ----------
    r : float
        Concentration per count. Infinite for no noise.
    alpha : float
        Prior concentration of every cell. Infinite if and only if r is.
    floor : float, default=0.0
        Public lower bound on every count. The guarantee then holds between data sets that both
        satisfy it.
    exact_smoothing : float, default=0.0
        Smoothing in counts if r is infinite. Otherwise the smoothing is ``alpha / r``.
    claim : RenyiDP or TruncatedConcentratedDP, optional
        Guarantee of one release according to the paper whose calibration chose the parameters.
        The privacy curves do not depend on it.
    adjacency, max_count, max_total
        As in `Mechanism`.

    Examples
    --------
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> mechanism = DirichletMechanism(r=1.0, alpha=10.0)
    >>> round(mechanism.delta(1.0), 9)
    0.003559549
    >>> mechanism.release([[12, 0, 5], [3, 3, 0]]).sum(axis=1).round(12)
    array([1., 1.])
    """

    name: ClassVar[str] = "dirichlet"

    r: float
    alpha: float
    floor: float = 0.0
    exact_smoothing: float = 0.0
    claim: RenyiDP | TruncatedConcentratedDP | None = None

    def __post_init__(self):
        super().__post_init__()
        store_reals(self, r=_SCALE, alpha=_SCALE, floor=NON_NEGATIVE, exact_smoothing=NON_NEGATIVE)
        if isinf(self.r) != isinf(self.alpha):
            raise ValueError(
                "r and alpha must be both finite, or both infinite for no noise; "
                f"got r={self.r}, alpha={self.alpha}"
            )

    @property
    def is_exact(self) -> bool:
        return isinf(self.r)

    @property
    def smoothing(self) -> float:
        return self.exact_smoothing if self.is_exact else self.alpha / self.r

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # A floor acts as a part of the prior.
        alpha = self.alpha + self.r * self.floor
        return {
            direction: worst_row(self.contribution, self.r, alpha, direction)
            for direction in DIRECTIONS[self.adjacency]
        }

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        if self.floor > 0 and counts.min() < self.floor:
            raise ValueError(f"counts must be at least the public floor {self.floor}; some are not")
        # Raises an error if a shape has too many bits. If some counts are not whole numbers, this
        # includes shapes of whole ones.
        self._shapes(counts.max(), grid, whole=whole)

    def _shapes(self, counts: np.ndarray, grid: float, *, whole: bool) -> tuple[np.ndarray, int]:
        """Return ``r x + alpha`` as integers over a power of two."""
        r, alpha = short_parameters(self.r, self.alpha, grid)
        # The representation of a count does not matter, and whole numbers need fewer bits.
        places = 0 if whole else -int(np.log2(grid))
        if r == 0:
            counts, r = np.zeros_like(counts), 1.0
        return grids.gamma_shapes(counts, r, alpha, places)

    @classmethod
    def _draw(cls, requests, generator):
        shapes = [
            mechanism._shapes(counts, grid, whole=is_whole(counts))
            for mechanism, counts, grid, _ in requests
        ]
        return gamma_cells_of_all(shapes, generator)

    def _noisy_counts(self, grid, *drawn):
        # The guarantee is proved for the gamma variables, before they are divided by their sum.
        # Their mean and their variance are r x + alpha.
        r, alpha = short_parameters(self.r, self.alpha, grid)
        noisy = grids.midpoints(*drawn)
        noisy -= alpha
        noisy /= r or self.r
        return noisy

    @staticmethod
    def _probabilities(*drawn):
        return normalise(grids.relative_weights(*drawn))

    @property
    def noise(self) -> Noise:
        if self.is_exact:
            return Noise(0.0)
        return Noise(self.smoothing / self.r, 1 / self.r)

    def _divergence_as_drawn(self, table: CountTable) -> float:
        d = table.n_categories
        if d < 2:
            return 0.0
        total = table.row_total
        p, weights = entry_quadrature(d, size_biased=True)
        if self.is_exact:
            s = self.smoothing
            with np.errstate(divide="ignore"):
                terms = np.log(p) - np.log(total * p + s)
            return float(weights @ terms + np.log(total + d * s))
        # E log Y_i = digamma(r x_i + alpha) - digamma(r n + d alpha)
        terms = np.log(p) - digamma(self.r * total * p + self.alpha)
        return float(weights @ terms + digamma(self.r * total + d * self.alpha))

    def _with_precision(self, precision: float) -> "DirichletMechanism":
        # A paper's claim holds only for its own parameters.
        return replace(self, r=self.r * precision, claim=None)

    def _unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        # E Y is the smoothed mean: (x + s) / (N + d s)
        return remove_smoothing(release, self.smoothing, n_samples, len(release))

    def _limits(self, release, first, stop, n_samples, confidence):
        released = np.minimum(sums_of_runs(release, first, stop), 1.0)
        counts = self.r * n_samples
        total = counts + len(release) * self.alpha
        prior = (stop - first) * self.alpha
        tail = (1 - confidence) / (2 * max(len(released), 1))
        # The probability of a run is Beta(a, total - a) with a = r x + prior, and increases with
        # x. Counts for which the released probability is unlikely are excluded.
        lower = _last_true(lambda a: betaincc(a, total - a, released) <= tail, prior, counts)
        upper = _last_true(lambda a: betainc(a, total - a, released) >= tail, prior, counts)
        return (lower - prior) / counts, (upper - prior) / counts

    def _limits_with_total(self, noisy, first, stop, n_samples, confidence):
        # The gamma variables divided by their sum are a release.
        drawn = self.r * noisy + self.alpha
        return self._limits(drawn / drawn.sum(), first, stop, n_samples, confidence)

    def _count_limits(self, sums, n_cells, tail):
        # A gamma variable of shape a is below a - sqrt(2 a t), and above a + sqrt(2 a t) + t,
        # with probability at most e^-t each (Boucheron, Lugosi and Massart, section 2.4).
        prior = n_cells * self.alpha
        drawn, t = np.maximum(self.r * sums + prior, 0.0), -np.log(tail)
        root = np.sqrt(np.maximum(drawn - t / 2, 0.0)) - np.sqrt(t / 2)
        least = np.maximum(root, 0.0) ** 2
        most = (np.sqrt(2 * t) + np.sqrt(2 * t + 4 * drawn)) ** 2 / 4
        least, most = (np.maximum(shape - prior, 0.0) / self.r for shape in (least, most))
        return least, most


def draw_dirichlet(numerators: np.ndarray, places: int, generator: NoiseGenerator) -> np.ndarray:
    """Draw a Dirichlet variable with shapes ``numerators / 2**places`` for each row.

    All of its entries are positive.
    """
    return normalise(grids.relative_weights(*gamma_cells(numerators, places, generator)))


@lru_cache(maxsize=1024)
def short_parameters(r: float, alpha: float, grid: float) -> tuple[float, float]:
    """Round r down and alpha up to few bits, so that shapes of counts on the grid are exact.

    A smaller r and a larger alpha are more private, so the guarantee for r and alpha holds for the
    rounded ones, which depend on public parameters only.
    """
    count_places = -int(np.log2(grid))
    r_places = min(grids.places_for(r, _PARAMETER_BITS), grids.MAX_PLACES - count_places)
    # An alpha much smaller than r has little effect, and may have fewer bits.
    least = max(r_places + count_places, grids.places_for(alpha, _MIN_ALPHA_BITS))
    alpha_places = min(grids.places_for(alpha, _PARAMETER_BITS), least, grids.MAX_PLACES)
    return grids.round_down(r, r_places), grids.round_up(alpha, alpha_places)


def dirichlet_variance(mean: np.ndarray, concentration: float) -> np.ndarray:
    """Return the variances of a Dirichlet vector from its means and the sum of its shapes."""
    return mean * (1 - mean) / (concentration + 1)


def _last_true(
    condition: Callable[[np.ndarray], np.ndarray], low: np.ndarray, length: float
) -> np.ndarray:
    """Return the last point of [low, low + length] up to which a condition is true."""
    end = low + length
    everywhere = condition(end)
    low, high = np.array(low, dtype=float), end
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        true = condition(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(everywhere, end, low)


# Neighbours change the cells of a table by z_i / r counts within public bounds: each z_i is at
# most L, their sum is at most T. By docs/theory.md, 2.2, such a change is a Poisson process of
# drops u of the loss. Its intensity is the sum of the intensities nu_z(u) of its cells, and a
# change whose intensity is larger at every u dominates it. The worst change depends on alpha:
#
# - from CONVEX_ALPHA on, nu_z is convex in z: full cells, and one with the remainder (Theorem 5);
# - from INCREASING_ALPHA on, nu_z / z increases with z: T / L full cells, maybe broken (Theorem 3);
# - below, a row spread over many cells has more small drops: T times the largest nu_z / z, or
#   slightly more (Theorem 6).


def worst_row(bound: ContributionBound, r: float, alpha: float, direction: str) -> WorstCase:
    """Return the worst case of neighbours in one direction: "replace", "add" or "remove"."""

    def pair(entry: float, way: str = direction) -> BetaPair | GammaPair:
        if way == "replace":
            return BetaPair(r * entry, alpha)
        return GammaPair(r * entry, alpha, "add" if way == "add" else "remove")

    filled = tuple((pair(entry), count) for entry, count in bound.entries)
    if bound.max_total is None or alpha >= CONVEX_ALPHA:
        return WorstCase(renyi=filled, profile=filled)
    cells = quotient_up(bound.max_total, bound.largest)
    if alpha >= INCREASING_ALPHA:
        if len(filled) == 1:
            return WorstCase(renyi=filled, profile=filled)
        fractional = FractionalPair(((pair(bound.largest), cells),))
        return WorstCase(renyi=filled, profile=((fractional, 1),))
    # The divergence of removal is convex in the entry for every alpha, and larger than that of
    # addition, which it therefore bounds.
    sides = 2 if direction == "replace" else 1
    renyi = tuple((pair(entry, "remove"), sides * count) for entry, count in bound.entries)
    if alpha < _MIN_ALPHA:
        return WorstCase(renyi=renyi, profile=None)
    steps = dominating_cells(alpha)
    parts = tuple((pair(step * bound.largest), cells * number) for step, number in steps)
    return WorstCase(renyi=renyi, profile=((FractionalPair(parts), 1),))


@lru_cache(maxsize=256)
def dominating_cells(alpha: float) -> tuple[tuple[float, float], ...]:
    """Return cells that dominate every row of total 1, for alpha below 1/2.

    With ``k(w) = w exp(-alpha w) / (1 - exp(-w))``, which increases from 1 to its maximum k* at
    w* and then decreases, ``nu_z(u) / z`` is proportional to ``k(u / z)``. In units of L, c_j
    cells of each size s_j dominate all rows of total 1 if at every drop v

        sum over j of c_j s_j k(v / s_j)  >=  k*  for v < w*,  and  k(v)  beyond.

    One cell of size 1 suffices beyond w*. Below, a linear program adds smaller cells such that
    the variance of the loss is smallest. The condition is checked at the ends of intervals of v,
    because k has a single peak. The result has (size, number) pairs, of decreasing size.
    """
    if alpha < _MIN_LP_ALPHA:
        # w / (1 - e^-w) is at most 1 + w, and the peak of (1 + w) e^(-alpha w) is this.
        return ((1.0, float(np.exp(alpha - 1) / alpha) * (1 + _MARGIN)),)
    # k is larger for a smaller alpha. Close to 1/2, rounding errors hide the peak.
    rounded = min(alpha, _MAX_LP_ALPHA)
    peak = brentq(lambda w: 1 / w + np.exp(-w) / np.expm1(-w) - rounded, 1e-3, 2 / rounded)
    most = float(_intensity_per_count(peak, rounded)) * (1 + _MARGIN)
    least = 0.02 / max(peak, 1.0)
    steps = _STEP_RATIO ** np.arange(1 + np.ceil(np.log(least) / np.log(_STEP_RATIO)))
    first = 0.01 * steps[-1]
    n_drops = 1 + np.ceil(np.log(peak / first) / np.log(_DROP_RATIO))
    drops = np.concatenate([[0.0], first * _DROP_RATIO ** np.arange(n_drops)])
    values = _intensity_per_count(drops[:, np.newaxis] / steps, alpha)
    within = np.minimum(values[:-1], values[1:])
    bounds = [(1, None)] + [(0, None)] * (len(steps) - 1)
    solution = linprog(steps, A_ub=-within, b_ub=np.full(len(within), -most), bounds=bounds)
    amounts = solution.x if solution.success else most * (steps == 1)
    amounts = np.where(amounts > 1e-12, amounts, 0.0)
    # Correct the tolerance of the solver with cells of size 1, which suffice on their own.
    shortfall = max(0.0, 1 - float(np.min(within @ amounts)) / most)
    amounts[0] += shortfall * most
    amounts *= 1 + _MARGIN
    sizes = zip(steps, amounts, strict=True)
    return tuple((float(step), float(amount / step)) for step, amount in sizes if amount)


def _intensity_per_count(w: np.ndarray | float, alpha: float) -> np.ndarray:
    """Compute ``w exp(-alpha w) / (1 - exp(-w))``, which is 1 at 0."""
    w = np.asarray(w, dtype=float)
    safe = np.where(w > 0, w, 1.0)
    return np.where(w > 0, safe * np.exp(-alpha * safe) / -np.expm1(-safe), 1.0)


# Paper A is "Dirichlet Mechanism for Differentially Private KL Divergence Minimization" with its
# Algorithm 1, paper B is "Differential Privacy of Dirichlet Posterior Sampling" with Theorems 1
# and 2. Both bounds are valid and loose.


class Sensitivity(NamedTuple):
    """Bounds on the difference of neighbouring count vectors, in squared l2 and l-infinity norm."""

    squared_l2: float
    linf: float

    @classmethod
    def from_bound(cls, bound: ContributionBound, adjacency: str) -> "Sensitivity":
        return cls(bound.squared_norm(adjacency), bound.largest)


def algorithm1_divergence(
    order: float, r: float, sensitivity: Sensitivity, floor: float = 0.0
) -> float:
    """Return the Renyi divergence that Algorithm 1 claims; with a floor, that of Remark 2."""
    argument = 1 + r * floor + 3 * (order - 1) * r * sensitivity.linf
    return float(0.5 * order * r**2 * sensitivity.squared_l2 * polygamma(1, argument))


def algorithm1(
    order: float, epsilon: float, sensitivity: Sensitivity, floor: float = 0.0
) -> tuple[float, float]:
    """Return r and alpha of Algorithm 1 for (order, epsilon)-RDP of one release."""

    def excess(log_r):
        return np.log(algorithm1_divergence(order, np.exp(log_r), sensitivity, floor) / epsilon)

    r = np.exp(safe_root(excess, 0.0, 4.0, tolerance=1e-14, limits=(-60.0, 60.0)))
    return float(r), float(1 + 4 * (order - 1) * r * sensitivity.linf)


def algorithm1_budget(epsilon: float, delta: float) -> tuple[int, float]:
    """Return the order, and the divergence at it, that paper A's code uses for (epsilon, delta).

    The order is the smallest integer at which the cost of the conversion,
    ``-log(delta order) / (order - 1)``, is within epsilon, so that the divergence is positive.
    """

    def remaining(order):
        return epsilon + (np.log(delta) + np.log(order)) / (order - 1)

    high = 2
    while remaining(high) < 0:
        high *= 2
    low = max(high // 2, 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if remaining(middle) >= 0 else (middle + 1, high)
    divergence = epsilon - np.log1p(-1 / high) + (np.log(delta) + np.log(high)) / (high - 1)
    return high, float(divergence)


def tcdp_rho(r: float, alpha: float, gamma, sensitivity: Sensitivity):
    """Return rho of Theorem 1 of paper B, for 0 < gamma < alpha.

    A release is (rho, gamma / (r linf) + 1)-tCDP.
    """
    return 0.5 * r**2 * sensitivity.squared_l2 * polygamma(1, alpha - gamma)


def tcdp_alpha(rho: float, gamma: float, sensitivity: Sensitivity) -> float:
    """Return the alpha for which Theorem 1 gives this rho at r = 1."""
    target = 2 * rho / sensitivity.squared_l2

    def excess(log_x):
        return np.log(polygamma(1, np.exp(log_x)) / target)

    # A larger alpha is conservative.
    log_x = safe_root(excess, 0.0, -4.0, tolerance=1e-14, limits=(-40.0, 60.0))
    return float(np.exp(log_x)) + gamma


def tcdp_epsilon(
    r: float, alpha: float, delta: float, sensitivity: Sensitivity, releases: int = 1
) -> tuple[float, float]:
    """Return the smallest epsilon of Theorem 2 of paper B at delta, and its gamma."""

    def epsilon(gamma):
        rho = releases * tcdp_rho(r, alpha, gamma, sensitivity)
        return float(truncated_epsilon(rho, gamma / (r * sensitivity.linf) + 1, delta))

    # Start from a grid: epsilon grows without bound at both ends.
    grid = alpha / (1 + np.exp(-np.linspace(-12, 12, 97)))
    values = [epsilon(gamma) for gamma in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    result = minimize_scalar(epsilon, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return min((float(result.fun), float(result.x)), (values[best], float(grid[best])))


def tcdp_for_approximate(
    epsilon: float, delta: float, releases: int, sensitivity: Sensitivity
) -> tuple[float, float]:
    """Return the alpha of Theorem 2 for (epsilon, delta)-DP at r = 1, and its gamma."""

    def excess(log_alpha):
        bound, _ = tcdp_epsilon(1.0, np.exp(log_alpha), delta, sensitivity, releases)
        return np.log(bound / epsilon)

    # A larger alpha is conservative.
    log_alpha = safe_root(excess, 0.0, -2.0, tolerance=1e-10, limits=(-20.0, 60.0))
    alpha = float(np.exp(log_alpha))
    return alpha, tcdp_epsilon(1.0, alpha, delta, sensitivity, releases)[1]
