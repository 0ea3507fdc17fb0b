"""Privacy curves of mechanisms, guarantees and their compositions (docs/theory.md, section 3).

Renyi divergences add at every order. Cumulants of losses with densities add and are inverted. The
total losses of a few randomised responses are enumerated. Other losses are discretised
pessimistically (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022) and convolved. Many kinds of
pairs are a `LargeProduct`. The smallest bound is returned.
Floating-point warnings are ignored, because every nan is detected.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import ceil, comb, prod

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import gammaln, logsumexp

from .._validation import check_array, check_integer, check_real
from ..numerics.conservative import inverted_log_delta, round_up, safe_root, zoomed_search
from .attacks import AttackBounds, Profile, both_directions
from .pairs import (
    LOG_ROUNDING,
    DominatingPair,
    Floats,
    FractionalPair,
    GaussianPair,
    Pairs,
    map_values,
)
from .products import FEW, DirectionCurves, LargeProduct
from .worst_case import Curves, WorstCase, combine, renyi_epsilon, renyi_log_delta

#: The largest number of releases that a ledger can store.
MAX_RELEASES = 2**63 - 1

_N_ORDERS = 96
_MAX_LOG_TILT = 30.0  # orders above exp(30) are not tried
_N_ZOOMS = 3
_QUICK_ORDERS = 1 + np.geomspace(1e-2, 1e4, 48)
_EPSILON_ROUNDING = 1e-13
_MIN_EPSILON = 1e-290

_N_CELLS, _MAX_CELLS = 4000, 1 << 18  # over the range of the total loss
# Lengths of a Fourier transform: up to the first, no unlikely losses are left out.
_SHORT_LENGTH, _MAX_LENGTH = 1 << 17, 1 << 21
_MAX_POINTS = 1 << 14  # points at which the profile of a pair is evaluated
_TAIL = 1e-12
_INFLATION = 0.005
# Maximum numbers of total losses of randomised responses that are enumerated: alone or with
# another pair whose profile is elementary, and with one whose profile is a quadrature.
_MAX_LOSSES, _MAX_QUADRATURES = 1 << 14, 256
_CHERNOFF_ORDERS = np.geomspace(1 / 64, 64, 49)  # factors of the best order for a normal sum


class PrivacyCurves(AttackBounds):
    """Renyi divergence, delta and epsilon, computed from worst cases.

    A parameter with the name of a curve, such as `PureDP.epsilon`, hides the curve. Use that of
    ``Composition([(guarantee, 1)])`` instead.
    """

    @property
    @abstractmethod
    def adjacency(self) -> str:
        """The relation between neighbours."""

    @abstractmethod
    def _worst_cases(self) -> Mapping[str, WorstCase]: ...

    def worst_cases(self) -> Mapping[str, WorstCase]:
        """Dominating pairs by direction.

        Returns
        -------
        dict of WorstCase
            For "replace" or "replace_vector", or for "add" and "remove".
        """
        with np.errstate(all="ignore"):
            return self._worst_cases()

    def _directions(self) -> Sequence[DirectionCurves]:
        return [direction_curves(case) for case in self.worst_cases().values()]

    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        return both_directions([direction.log_delta for direction in self._directions()])

    def rdp(self, order: ArrayLike) -> Floats | float:
        """Renyi divergence of each order > 1, of the worst direction.

        Parameters
        ----------
        order : float or array of floats
            Greater than 1.

        Returns
        -------
        float or ndarray
            Infinite at orders where the divergence is.
        """
        order = check_array("order", order, above=1)
        with np.errstate(all="ignore"):
            values = [direction.rdp(order) for direction in self._directions()]
        return _unwrap(np.max(values, axis=0) if values else np.zeros(order.shape))

    def delta(self, epsilon: ArrayLike) -> Floats | float:
        """Smallest delta known to hold at each epsilon.

        Parameters
        ----------
        epsilon : float or array of floats
            At least 0.

        Returns
        -------
        float or ndarray
        """
        return _unwrap(_delta(np.asarray(self.log_delta(epsilon))))

    def log_delta(self, epsilon: ArrayLike) -> Floats | float:
        """Natural logarithm of `delta`, also for deltas that underflow.

        Parameters
        ----------
        epsilon : float or array of floats
            At least 0.

        Returns
        -------
        float or ndarray
        """
        epsilon = check_array("epsilon", epsilon, at_least=0)
        with np.errstate(all="ignore"):
            values = [direction.log_delta(epsilon) for direction in self._directions()]
        return _unwrap(np.max(values, axis=0) if values else np.full(epsilon.shape, -np.inf))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon known to hold at delta.

        Parameters
        ----------
        delta : float in (0, 1)
            The probability that the loss may be larger.

        Returns
        -------
        float
            Infinite if everything is revealed with a larger probability.
        """
        delta = check_real("delta", delta, above=0, below=1)
        with np.errstate(all="ignore"):
            return max((direction.epsilon(delta) for direction in self._directions()), default=0.0)


def same_adjacency(part: PrivacyCurves, earlier: str | None) -> str:
    """Return the adjacency of a part; raise an error if earlier parts have another."""
    if earlier not in (None, part.adjacency):
        raise ValueError(
            "adjacency must be the same for all parts of a composition; "
            f"got {part.adjacency!r} after {earlier!r}"
        )
    return part.adjacency


class Composition(PrivacyCurves):
    """Composition of independent releases of one data set.

    Parameters
    ----------
    parts : iterable of (mechanism or guarantee, number of releases)
        All under the same adjacency.

    Examples
    --------
    >>> from skdirdp.accounting import Composition, PureDP
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> both = Composition([(DirichletMechanism(r=0.05, alpha=2.0), 14), (PureDP(0.1), 1)])
    >>> both.epsilon(1e-5) < 0.7865 + 0.1
    True
    """

    adjacency: str | None = None  # type: ignore[assignment]

    def __init__(self, parts: Iterable[tuple[PrivacyCurves, int]]):
        cases: dict[str, list[tuple[WorstCase, int]]] = {}
        for part, releases in parts:
            releases = check_integer("releases", releases, at_least=1, at_most=MAX_RELEASES)
            self.adjacency = same_adjacency(part, self.adjacency)
            for direction, case in part.worst_cases().items():
                cases.setdefault(direction, []).append((case, releases))
        self._cases = {direction: combine(several) for direction, several in cases.items()}
        self._cached_directions: Sequence[DirectionCurves] | None = None

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return self._cases

    def _directions(self) -> Sequence[DirectionCurves]:
        # Cached, because even the lookup is slow for many kinds.
        if self._cached_directions is None:
            self._cached_directions = super()._directions()
        return self._cached_directions

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether all releases together are known to be (epsilon, delta)-DP.

        Faster than ``self.epsilon(delta) <= epsilon``, with the same result up to rounding.

        Parameters
        ----------
        epsilon : float
            At least 0.
        delta : float in (0, 1)
            The probability that the loss may be larger.
        """
        epsilon = check_real("epsilon", epsilon, at_least=0)
        delta = check_real("delta", delta, above=0, below=1)
        with np.errstate(all="ignore"):
            return all(direction.holds(epsilon, delta) for direction in self._directions())


class _SmallProduct(DirectionCurves):
    """Product of a few kinds of pairs, each evaluated by itself."""

    def __init__(self, case: WorstCase):
        self.renyi = case.renyi
        self.profile = None if case.profile is None else _merge_gaussians(case.profile)
        self.failure = case.failure
        # Otherwise the Renyi curve may imply more than the profile.
        self.renyi_is_profile = case.renyi == case.profile
        self._epsilons: dict[float, float] = {}
        self.max_loss = np.inf
        if self.profile is not None and all(np.isfinite(pair.max_loss) for pair, _ in self.profile):
            losses = (count * Fraction(pair.max_loss) for pair, count in self.profile)
            self.max_loss = round_up(sum(losses, Fraction(0)))

    def holds(self, epsilon: float, delta: float) -> bool:
        # A Renyi bound is fast, and sufficient while delta is far from its limit.
        if self.failure == 0:
            bounds = renyi_log_delta(_QUICK_ORDERS, self.rdp(_QUICK_ORDERS), epsilon)
            if np.min(bounds) <= np.log(delta):
                return True
        return float(_delta(self.log_delta(np.array([epsilon])))[0]) <= delta

    def _rdp(self, order: Floats) -> Floats:
        return _sum_of_divergences(self.renyi, order)

    def _epsilon(self, delta: float) -> float:
        if delta not in self._epsilons:  # repeated fits ask again
            self._epsilons[delta] = self._find_epsilon(delta)
        return self._epsilons[delta]

    def _find_epsilon(self, delta: float) -> float:
        bound = min(_renyi_bound(self.renyi, delta), self.max_loss)
        if self.profile is None or bound == 0:
            return bound
        target = np.log(delta)

        def excess(epsilon):
            # If losses are bounded, log delta falls to -inf, which has no slope.
            return max(float(self._log_delta(np.array([epsilon]))[0]) - target, target)

        if excess(0.0) <= 0:
            return 0.0
        if not np.isfinite(bound):
            bound = _power_of_two(lambda x: excess(x) <= 0)
        if not np.isfinite(bound) or excess(bound) > 0 or bound < _MIN_EPSILON:
            return bound
        tolerance = _EPSILON_ROUNDING * bound
        return safe_root(excess, bound, -bound, tolerance=tolerance, limits=(0.0, bound))

    def _log_delta(self, epsilon: Floats) -> Floats:
        match self.profile:
            case ():
                return np.full(epsilon.shape, -np.inf)
            case ((pair, 1),) if not isinstance(pair, FractionalPair):
                log_delta = pair.log_delta(epsilon)
                lost = np.isnan(log_delta)
                log_delta[lost] = map_values(self._renyi_log_delta, epsilon[lost])
                return log_delta
        exact = None if self.profile is None else _enumerated_log_delta(self.profile, epsilon)
        if exact is None:
            exact = map_values(self._composed_log_delta, epsilon)
        elif not self.renyi_is_profile:
            exact = np.minimum(exact, map_values(self._renyi_log_delta, epsilon))
        return np.where(epsilon >= self.max_loss, -np.inf, exact)

    def _renyi_log_delta(self, epsilon: float) -> float:
        return min(_best_order(self.renyi, renyi_log_delta, epsilon), 0.0)

    def _composed_log_delta(self, epsilon: float) -> float:
        exact, tight, profile = 0.0, False, self.profile
        if profile is not None and all(pair.smooth for pair, _ in profile):

            def cumulant(tilt: np.ndarray, rough: bool) -> np.ndarray:
                return np.sum([n * pair.cumulant(tilt, rough) for pair, n in profile], axis=0)

            limit = min(pair.max_tilt for pair, _ in profile)
            releases = sum(int(np.ceil(n * pair.multiplicity)) for pair, n in profile)
            exact, tight = inverted_log_delta(cumulant, limit, epsilon, releases)
        elif profile is not None:
            losses = _loss_distribution(profile)
            exact = 0.0 if losses is None else np.log(losses.delta(epsilon))
        if tight and self.renyi_is_profile:
            return exact
        return min(exact, self._renyi_log_delta(epsilon))


def _enumerated_log_delta(profile: Pairs, epsilon: Floats) -> Floats | None:
    """Sum a profile over the total losses of randomised responses: docs/theory.md, section 3."""
    # Return None without responses, with too many, or if there is more than one other pair.
    responses = tuple(part for part in profile if part[0].losses is not None)
    others = [part for part in profile if part[0].losses is None]
    if not responses or sum(count for _, count in others) > 1:
        return None
    slow = any(pair.smooth for pair, _ in others)
    totals = _response_totals(responses, _MAX_QUADRATURES if slow else _MAX_LOSSES)
    if totals is None:
        return None
    losses, log_probabilities = totals
    remaining = epsilon[..., np.newaxis] - losses
    log_delta = np.log(-np.expm1(np.minimum(remaining, 0.0)))
    if others:
        log_delta = others[0][0].log_delta(remaining)
    # A comparison with nan would make any epsilon valid.
    log_delta = np.where(np.isnan(log_delta), 0.0, log_delta)
    return np.minimum(logsumexp(log_delta + log_probabilities, axis=-1) + LOG_ROUNDING, 0.0)


@lru_cache(maxsize=64)
def _response_totals(responses: Pairs, max_outcomes: int) -> tuple[Floats, Floats] | None:
    """Return the total losses and log-probabilities of all outcomes, or None if they are many."""
    known = [(pair.losses or ((), ()), count) for pair, count in responses]
    # The number of ways to distribute k responses over n losses; the first test avoids huge ones.
    sizes = [(len(losses), count) for (losses, _), count in known]
    if (
        max(k for _, k in sizes) > max_outcomes
        or prod(comb(n + k - 1, k) for n, k in sizes) > max_outcomes
    ):
        return None
    losses, logs = np.zeros(1), np.zeros(1)
    for (values, probabilities), k in known:
        n_slots = len(values) + k - 1
        bars = np.array([*combinations(range(n_slots), len(values) - 1)])
        numbers = np.diff(bars, axis=1, prepend=-1, append=n_slots) - 1
        log_probability = numbers @ np.log(probabilities)
        log_multinomial = gammaln(k + 1) - gammaln(numbers + 1).sum(axis=1)
        # Bounds the rounding errors of all terms.
        rounding = 1e-15 * len(values) * (2 * gammaln(k + 1) - log_probability + 1)
        losses = np.add.outer(losses, numbers @ np.asarray(values)).ravel()
        logs = np.add.outer(logs, log_multinomial + log_probability + rounding).ravel()
    return losses + 1e-15 * sum(n for n, _ in sizes) * np.max(np.abs(losses)), logs


_small_product = lru_cache(maxsize=256)(_SmallProduct)


def direction_curves(case: WorstCase) -> DirectionCurves:
    curves = case.renyi if case.profile is None else case.profile
    # All Gaussian pairs together are one Gaussian pair, and a few randomised responses are
    # enumerated.
    many = sum(not isinstance(curve, GaussianPair) for curve, _ in curves) > FEW
    if many and case.profile is not None:
        many = _enumerated_log_delta(_merge_gaussians(case.profile), np.empty(0)) is None
    product = LargeProduct.nothing().plus([(case, 1)]) if many else None
    return product or _small_product(case)


def _merge_gaussians(profile: Pairs) -> Pairs:
    """Replace all Gaussian pairs by one Gaussian pair, their exact composition."""
    others = tuple(part for part in profile if not isinstance(part[0], GaussianPair))
    gaussians = [(pair.mu, count) for pair, count in profile if isinstance(pair, GaussianPair)]
    if not gaussians:
        return others
    # Computed in units of the largest mu, so that no square underflows or overflows.
    unit = max(mu for mu, _ in gaussians)
    squares = sum(count * (mu / unit) ** 2 for mu, count in gaussians)
    return (*others, (GaussianPair(float(unit * np.sqrt(squares))), 1))


def _sum_of_divergences(curves: Curves, order: Floats) -> Floats:
    """Renyi divergence of all curves together; infinite where it cannot be computed."""
    total = sum((count * curve.rdp(order) for curve, count in curves), np.zeros(order.shape))
    # A comparison with nan would admit any release.
    return np.where(np.isnan(total), np.inf, total)


@lru_cache(maxsize=512)
def _renyi_bound(curves: Curves, delta: float) -> float:
    """Smallest epsilon at delta implied by the Renyi curves."""
    return max(_best_order(curves, renyi_epsilon, delta), 0.0)


def _best_order(curves: Curves, convert: Callable[..., Floats], argument: float) -> float:
    """Smallest value of ``convert(order, divergence, argument)`` over many valid orders."""
    if not curves:
        return -np.inf
    log_limit = min(float(np.log(min(curve.max_tilt for curve, _ in curves))), _MAX_LOG_TILT)

    def evaluate(x: Floats) -> tuple[Floats, Floats]:
        # tilts from 0 to the limit, dense at both ends
        order = 1 + np.exp(log_limit) / (1 + np.exp(-x))
        value = convert(order, _sum_of_divergences(curves, order), argument)
        return order, np.where(order > 1, value, np.inf)

    low = -_MAX_LOG_TILT - max(log_limit, 0.0)
    return float(np.min(zoomed_search(evaluate, low, _MAX_LOG_TILT, _N_ZOOMS, _N_ORDERS)[1]))


def _power_of_two(holds: Callable[[float], bool]) -> float:
    """Smallest power of two, at least 1, from which on a condition holds."""
    low, high = -1, 0
    while not holds(2.0**high):
        low, high = high, max(1, 2 * high)
        if high >= np.finfo(float).maxexp:
            return np.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(2.0**middle) else (middle, high)
    return 2.0**high


def _delta(log_delta: Floats) -> Floats:
    # A positive delta that underflows is rounded up instead of to 0.
    smallest = np.where(np.isneginf(log_delta), 0.0, np.finfo(float).smallest_subnormal)
    return np.maximum(np.exp(log_delta), smallest)


def _unwrap(values: Floats) -> Floats | float:
    return float(values) if values.ndim == 0 else values


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Discrete distribution of the total privacy loss, on multiples of the interval."""

    interval: float
    lowest: int  # the smallest loss, in intervals
    probabilities: np.ndarray
    infinite: float  # probability of an infinite loss, with an allowance for rounding

    def delta(self, epsilon: float) -> float:
        losses = (self.lowest + np.arange(self.probabilities.size)) * self.interval
        is_above = losses > epsilon
        finite = np.dot(-np.expm1(epsilon - losses[is_above]), self.probabilities[is_above])
        return max(float(finite), 0.0) + self.infinite


@lru_cache(maxsize=64)
def _loss_distribution(pairs: Pairs) -> LossDistribution | None:
    """Compute a pessimistic distribution of the total loss, or None if floats do not suffice."""
    pairs = _whole_pairs(pairs)
    releases = sum(count for _, count in pairs)

    def reach_of(part: Pairs, tail: float) -> float:
        largest = sum(count * pair.max_loss for pair, count in part)
        return min(_renyi_bound(part, tail) or largest, largest)

    reach = reach_of(pairs, _TAIL)
    spans = [reach_of(((pair, 1),), _TAIL / releases) for pair, _ in pairs]
    # Discretisation adds at most span * interval to a variance, which stays small by comparison.
    total_span = sum(count * span for (_, count), span in zip(pairs, spans, strict=True))
    if not (np.isfinite(total_span) and reach > 0 and total_span > 0):
        return None
    interval = min(reach / _N_CELLS, _INFLATION * (reach / 6) * (reach / 6 / total_span))
    # Only the largest losses of a pair are nearly on the grid.
    if any(pair.losses is not None and len(pair.losses[0]) > 2 for pair, _ in pairs):
        interval /= 4
    interval = max(interval, 2 * reach / _MAX_CELLS)
    if interval == 0 or max(spans) / interval > _MAX_LENGTH:
        return None
    interval = _aligned_interval([pair.max_loss for pair, _ in pairs], interval)
    parts = zip(pairs, spans, strict=True)
    return _convolve([_discretise(*part, span, interval) for part, span in parts], interval)


def _whole_pairs(pairs: Pairs) -> Pairs:
    """Round fractional exponents up to whole numbers, which can be convolved."""
    whole: Counter[DominatingPair] = Counter()
    for pair, count in pairs:
        parts = pair.parts if isinstance(pair, FractionalPair) else ((pair, 1),)
        for part, exponent in parts:
            whole[part] += ceil(Fraction(exponent) * count)
    return tuple(whole.items())


def _aligned_interval(losses: Iterable[float], interval: float) -> float:
    """Return an interval, smaller by at most half, that nearly divides all finite largest losses.

    A pair with a finite largest loss has an atom there, which is exact only on the grid.
    """
    finite = np.array([loss for loss in losses if np.isfinite(loss)])
    if not finite.size or np.max(finite) / interval > _MAX_CELLS:
        return interval
    fewest = ceil(np.max(finite) / interval)
    cells = np.arange(fewest, 2 * fewest + 1)
    places = np.outer(cells, finite / np.max(finite))
    errors = np.max(np.abs(places - np.round(places)), axis=1)
    return float(np.max(finite) / cells[np.argmin(errors)])


# Discretised loss of a pair: cells, their probabilities, that of an infinite loss, repetitions.
_Losses = tuple[np.ndarray, np.ndarray, float, int]


def _discretise(pair: DominatingPair, times: int, span: float, interval: float) -> _Losses:
    top = int(np.ceil(span / interval))
    stride = max(1, 3 * top // _MAX_POINTS) if pair.smooth else 1
    cells = np.arange(-2 * top, top + stride, stride)
    deltas = np.exp(pair.log_delta(cells * interval))
    # A profile decreases. Where rounding makes it increase, the larger value is used.
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    # Between two cells delta is linear in exp(epsilon), and the probabilities follow from its
    # slopes.
    drops, step = -np.diff(deltas), stride * interval
    probabilities = np.append(1 - deltas[0], drops / -np.expm1(-step))
    probabilities[:-1] -= drops / np.expm1(step)
    return cells, np.maximum(probabilities, 0.0), float(deltas[-1]), times


def _convolve(parts: list[_Losses], interval: float) -> LossDistribution | None:
    low, high = (sum(float(cells[end]) * times for cells, *_, times in parts) for end in (0, -1))
    if not high - low < _SHORT_LENGTH:
        low, high = _likely_range(parts)
    # Floats must distinguish adjacent cell numbers; a nan fails this test.
    if not (low < high < low + _MAX_LENGTH and max(abs(low), abs(high)) < 2.0**52):
        return None
    length = next_fast_len(int(high - low) + 1, real=True)
    transform = np.ones(length // 2 + 1, dtype=complex)
    survival = 0.0  # logarithm of the probability
    for cells, probabilities, infinite, times in parts:
        # The transform determines sums modulo the length, so cells may be reduced too.
        transform *= rfft(np.bincount(cells % length, probabilities, length)) ** times
        survival += times * np.log1p(-infinite) if infinite < 1 else -np.inf
    lowest = int(low)
    probabilities = np.roll(irfft(transform, length), -(lowest % length))
    if not np.all(np.isfinite(probabilities)):
        return None
    # Allowance for errors of the convolution, fifty times the measured error of 2e-17 per
    # release (against mpmath, up to twenty million releases).
    allowance = 1e-12 + 1e-15 * sum(times for *_, times in parts)
    infinite = float(-np.expm1(survival)) + _TAIL / 100 + allowance
    return LossDistribution(interval, lowest, probabilities, infinite)


def _likely_range(parts: list[_Losses]) -> tuple[float, float]:
    """Compute cells between which the sum lies, except with probability `_TAIL` / 100."""
    mean = variance = 0.0
    for cells, probabilities, _, count in parts:
        first = float(cells @ probabilities)
        mean += count * first
        variance += count * float((cells - first) ** 2 @ probabilities)
    cost = np.log(200 / _TAIL)
    orders = _CHERNOFF_ORDERS * np.sqrt(2 * cost / max(variance, 1.0))
    bounds = []
    for sign in (-1, 1):
        # log E exp(order (sum - mean)); centred, to avoid cancellation of large terms
        cumulants = np.zeros(())
        for cells, probabilities, _, count in parts:
            exponents = (sign * orders)[:, np.newaxis] * cells
            cumulants = cumulants + count * logsumexp(exponents, b=probabilities, axis=1)
        bounds.append(float(np.min((cumulants - sign * orders * mean + cost) / orders)))
    return float(np.floor(mean - bounds[0])), float(np.ceil(mean + bounds[1]))
