"""The privacy curves of mechanisms, guarantees and their compositions.

Three routes lead from worst cases to (epsilon, delta), and each is valid by itself:

- Renyi divergences add at every order, and the best order is converted;
- where all losses have densities, their cumulants add and are inverted exactly;
- otherwise privacy-loss distributions are discretised pessimistically and convolved.

Where there are many kinds, a `Tally` does the second for all of them at once. The answer is
the smallest of those that apply. A route whose numbers leave the range of
floating point says nothing: its divergence is infinite, its delta 1, and both are valid.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_array, check_integer, check_real
from ..numerics.conservative import round_up, safe_root
from .conversions import renyi_epsilon, renyi_log_delta
from .inversion import log_delta as inverted_log_delta
from .loss_distribution import loss_distribution
from .pairs import DominatingPair, Floats, FractionalPair, GaussianPair
from .tally import Direction, Tally, is_many
from .worst_case import RenyiCurve, WorstCase, combine

#: More releases than this no ledger can hold.
MAX_RELEASES = 2**63 - 1

_ORDERS = 96
_LOG_TILT = 30.0  # beyond exp(30) no order is looked at
_ZOOMS = 3
_QUICK_ORDERS = 1 + np.geomspace(1e-2, 1e4, 48)
_EPSILON_ROUNDING = 1e-13
_LEAST_EPSILON = 1e-290


class PrivacyCurves(ABC):
    """Renyi divergence, delta and epsilon of whatever knows its worst cases.

    Mechanisms, guarantees and compositions are such. Where a guarantee has a parameter of
    the same name as a curve, as `PureDP.epsilon`, the name is the parameter's, and the
    curve is that of ``Composition([(guarantee, 1)])``.
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
        with _beyond_floats_is_handled():
            return self._worst_cases()

    def _directions(self) -> Sequence[Direction]:
        return [_direction(case) for case in self.worst_cases().values()]

    def rdp(self, order: ArrayLike) -> Floats | float:
        """Renyi divergence of each order > 1, of the worse direction.

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
        with _beyond_floats_is_handled():
            values = [direction.rdp(order) for direction in self._directions()]
        return _unwrap(np.max(values, axis=0) if values else np.zeros(order.shape))

    def delta(self, epsilon: ArrayLike) -> Floats | float:
        """The smallest delta known to hold at each epsilon.

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
        """Natural logarithm of `delta`, for values that no float can hold.

        Parameters
        ----------
        epsilon : float or array of floats
            At least 0.

        Returns
        -------
        float or ndarray
        """
        epsilon = check_array("epsilon", epsilon, at_least=0)
        with _beyond_floats_is_handled():
            values = [direction.log_delta(epsilon) for direction in self._directions()]
        return _unwrap(np.max(values, axis=0) if values else np.full(epsilon.shape, -np.inf))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon known to hold at delta.

        Parameters
        ----------
        delta : float in (0, 1)
            The probability that the loss may be larger.

        Returns
        -------
        float
            Infinite if something is revealed with a larger probability.
        """
        delta = check_real("delta", delta, above=0, below=1)
        with _beyond_floats_is_handled():
            return max((direction.epsilon(delta) for direction in self._directions()), default=0.0)


def same_adjacency(part: PrivacyCurves, before: str | None) -> str:
    """The relation of a part, or an error if those before it are under another."""
    if before not in (None, part.adjacency):
        raise ValueError(
            "adjacency must be the same for all that is composed; "
            f"got {part.adjacency!r} after {before!r}"
        )
    return part.adjacency


class Composition(PrivacyCurves):
    """The joint privacy of independent releases of one data set.

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
        self._known_directions: Sequence[Direction] | None = None
        self._cases = {direction: combine(several) for direction, several in cases.items()}

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return self._cases

    def _directions(self) -> Sequence[Direction]:
        # Kept, since even to look up many kinds takes its time.
        if self._known_directions is None:
            self._known_directions = super()._directions()
        return self._known_directions

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether the releases are known to be (epsilon, delta)-DP together.

        Quicker than ``self.epsilon(delta) <= epsilon``, and the same but for the last digits.

        Parameters
        ----------
        epsilon : float
            At least 0.
        delta : float in (0, 1)
            The probability that the loss may be larger.

        Returns
        -------
        bool

        Examples
        --------
        >>> from skdirdp.accounting import Composition, PureDP
        >>> Composition([(PureDP(0.1), 10)]).holds(1.0, 1e-5)
        True
        """
        epsilon = check_real("epsilon", epsilon, at_least=0)
        delta = check_real("delta", delta, above=0, below=1)
        with _beyond_floats_is_handled():
            return all(direction.holds(epsilon, delta) for direction in self._directions())


class _Few(Direction):
    """A product of a few kinds of pairs, each evaluated by itself."""

    def __init__(self, case: WorstCase):
        self.renyi = case.renyi
        self.profile = None if case.profile is None else _merge_gaussians(case.profile)
        self.failure = case.failure
        # Otherwise the Renyi curve may know more than the profile does.
        self.renyi_is_profile = case.renyi == case.profile
        self.max_loss = np.inf if self.profile is None else _total_loss(self.profile)

    def holds(self, epsilon: float, delta: float) -> bool:
        # A Renyi bound is quick, and enough while delta is far from its limit.
        if self.failure == 0:
            divergence = self.rdp(_QUICK_ORDERS)
            bounds = renyi_log_delta(_QUICK_ORDERS, divergence, epsilon)
            if np.min(bounds) <= np.log(delta):
                return True
        return float(_delta(self.log_delta(np.array([epsilon])))[0]) <= delta

    def _rdp(self, order: Floats) -> Floats:
        return _sum_of_divergences(self.renyi, order)

    def _epsilon(self, delta: float) -> float:
        bound = min(_renyi_bound(self.renyi, delta), self.max_loss)
        if self.profile is None or bound == 0:
            return bound
        target = np.log(delta)

        def excess(epsilon):
            return float(self._log_delta(np.array([epsilon]))[0]) - target

        if excess(0.0) <= 0:
            return 0.0
        if not np.isfinite(bound):
            bound = _power_of_two(lambda x: excess(x) <= 0)
            if not np.isfinite(bound):
                return bound
        elif excess(bound) > 0 or bound < _LEAST_EPSILON:
            return bound
        # log delta falls from excess(0) to -inf, where losses are bounded; its size there
        # says nothing of the root, and is cut.
        return safe_root(
            lambda x: max(excess(x), target),
            bound,
            -bound,
            tolerance=_EPSILON_ROUNDING * bound,
            limits=(0.0, bound),
        )

    def _log_delta(self, epsilon: Floats) -> Floats:
        match self.profile:
            case ():
                return np.full(epsilon.shape, -np.inf)
            case ((pair, 1),) if not isinstance(pair, FractionalPair):
                log_delta = pair.log_delta(epsilon)
                lost = np.isnan(log_delta)
                log_delta[lost] = _each(self._renyi_log_delta, epsilon[lost])
                return log_delta
        return np.where(epsilon >= self.max_loss, -np.inf, _each(self._composed_log_delta, epsilon))

    def _renyi_log_delta(self, epsilon: float) -> float:
        return min(_best_order(self.renyi, renyi_log_delta, epsilon), 0.0)

    def _composed_log_delta(self, epsilon: float) -> float:
        exact, tight = 0.0, False
        if self.profile is not None:
            if all(pair.smooth for pair, _ in self.profile):
                limit = min(pair.max_tilt for pair, _ in self.profile)
                releases = sum(
                    int(np.ceil(count * pair.multiplicity)) for pair, count in self.profile
                )
                exact, tight = inverted_log_delta(self._cumulant, limit, epsilon, releases)
            else:
                losses = loss_distribution(_whole_numbers(self.profile), _renyi_bound)
                exact = 0.0 if losses is None else np.log(losses.delta(epsilon))
        if tight and self.renyi_is_profile:
            return exact
        return min(exact, self._renyi_log_delta(epsilon))

    def _cumulant(self, tilt: np.ndarray, rough: bool) -> np.ndarray:
        assert self.profile is not None
        parts = [count * pair.cumulant(tilt, rough) for pair, count in self.profile]
        return np.sum(parts, axis=0)


_few = lru_cache(maxsize=256)(_Few)


def _direction(case: WorstCase) -> Direction:
    if is_many(case.renyi if case.profile is None else case.profile):
        tally = Tally.of(case)
        if tally is not None:
            return tally
    return _few(case)


def _total_loss(profile: tuple[tuple[DominatingPair, int], ...]) -> float:
    if not all(np.isfinite(pair.max_loss) for pair, _ in profile):
        return np.inf
    return round_up(sum((count * Fraction(pair.max_loss) for pair, count in profile), Fraction(0)))


def _merge_gaussians(
    profile: tuple[tuple[DominatingPair, int], ...],
) -> tuple[tuple[DominatingPair, int], ...]:
    """Gaussian pairs compose to one Gaussian pair, exactly."""
    others = tuple(part for part in profile if not isinstance(part[0], GaussianPair))
    gaussians = [(pair.mu, count) for pair, count in profile if isinstance(pair, GaussianPair)]
    if not gaussians:
        return others
    # In units of the largest, so that no square underflows or overflows.
    unit = max(mu for mu, _ in gaussians)
    squares = sum(count * (mu / unit) ** 2 for mu, count in gaussians)
    return (*others, (GaussianPair(float(unit * np.sqrt(squares))), 1))


def _whole_numbers(
    profile: tuple[tuple[DominatingPair, int], ...],
) -> tuple[tuple[DominatingPair, int], ...]:
    """The same or more, without broken numbers of pairs, which cannot be convolved."""
    whole: Counter[DominatingPair] = Counter()
    for pair, count in profile:
        if isinstance(pair, FractionalPair):
            for part, exponent in pair.parts:
                whole[part] += ceil(Fraction(exponent) * count)
        else:
            whole[pair] += count
    return tuple(whole.items())


def _sum_of_divergences(curves: tuple[tuple[RenyiCurve, int], ...], order: Floats) -> Floats:
    """The Renyi divergence of all curves together; infinite where it cannot be computed."""
    total = np.zeros(order.shape)
    for curve, count in curves:
        total = total + count * curve.rdp(order)
    # A comparison with nan would admit anything.
    return np.where(np.isnan(total), np.inf, total)


@lru_cache(maxsize=512)
def _renyi_bound(curves: tuple[tuple[RenyiCurve, int], ...], delta: float) -> float:
    """The smallest epsilon at delta that the Renyi curves imply."""
    if not curves:
        return 0.0
    return max(_best_order(curves, renyi_epsilon, delta), 0.0)


def _best_order(
    curves: tuple[tuple[RenyiCurve, int], ...],
    convert: Callable[[Floats, Floats, float], Floats],
    argument: float,
) -> float:
    """The least value of ``convert(order, divergence, argument)`` over the orders.

    Any order gives a valid bound, so the search need not find the very best.
    """
    if not curves:
        return -np.inf
    limit = min(curve.max_tilt for curve, _ in curves)
    log_limit = min(float(np.log(limit)), _LOG_TILT)
    low, high = -_LOG_TILT - max(log_limit, 0.0), _LOG_TILT
    least = np.inf
    for _ in range(_ZOOMS):
        x = np.linspace(low, high, _ORDERS)
        # tilts from 0 to the limit, dense at both ends
        order = 1 + np.exp(log_limit) / (1 + np.exp(-x))
        order = order[order > 1]
        if order.size == 0:  # no order is finite in floating point
            return np.inf
        x = x[-order.size :]
        value = convert(order, _sum_of_divergences(curves, order), argument)
        value = np.where(np.isnan(value), np.inf, value)
        best = int(np.argmin(value))
        least = min(least, float(value[best]))
        low, high = x[max(best - 1, 0)], x[min(best + 1, x.size - 1)]
    return least


def _power_of_two(holds: Callable[[float], bool]) -> float:
    """The least power of two, from 1 on, at which a condition holds from there on."""
    low, high = -1, 0
    while not holds(2.0**high):
        low, high = high, max(1, 2 * high)
        if high >= np.finfo(float).maxexp:
            return np.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(2.0**middle) else (middle, high)
    return 2.0**high


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    flat = [float(function(float(value))) for value in values.ravel()]
    return np.array(flat, dtype=float).reshape(values.shape)


def _beyond_floats_is_handled() -> np.errstate:
    # Every nan is looked for, and read as the bound that always holds.
    return np.errstate(all="ignore")


def _delta(log_delta: Floats) -> Floats:
    # A positive delta too small for a float is rounded up, not to 0.
    smallest = np.where(np.isneginf(log_delta), 0.0, np.finfo(float).smallest_subnormal)
    return np.maximum(np.exp(log_delta), smallest)


def _unwrap(values: Floats) -> Floats | float:
    return float(values) if values.ndim == 0 else values
