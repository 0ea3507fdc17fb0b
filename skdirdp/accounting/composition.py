"""The composition of any mix of mechanisms and guarantees.

Three routes lead from worst cases to (epsilon, delta), and each is valid by itself:

- Renyi divergences add at every order, and the best order is converted;
- where all losses have densities, their cumulants add and are inverted exactly;
- otherwise privacy-loss distributions are discretised pessimistically and convolved.

The answer is the smallest of those that apply.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_array, check_integer, check_real
from ..numerics.roots import safe_root
from .guarantees import renyi_epsilon, renyi_log_delta
from .inversion import log_delta as inverted_log_delta
from .loss_distribution import fft_allowance, loss_distribution
from .pairs import DominatingPair, Floats, GaussianPair
from .worst_case import Accountable, RenyiCurve, WorstCase, combine

_ORDERS = 96
_ZOOMS = 3
_EPSILON_ROUNDING = 1e-12
_LOG_ROUNDING = 1e-12


class Composition:
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

    def __init__(self, parts: Iterable[tuple[Accountable, int]]):
        self.adjacency: str | None = None
        cases: dict[str, list[tuple[WorstCase, int]]] = {}
        for part, releases in parts:
            check_integer("releases", releases, at_least=1)
            if self.adjacency not in (None, part.adjacency):
                raise ValueError(
                    "adjacency must be the same for all that is composed; "
                    f"got {part.adjacency!r} after {self.adjacency!r}"
                )
            self.adjacency = part.adjacency
            for direction, case in part.worst_cases().items():
                cases.setdefault(direction, []).append((case, releases))
        self._directions = [_Direction(combine(several)) for several in cases.values()]

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
        values = [direction.rdp(order) for direction in self._directions]
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
        log_delta = np.asarray(self.log_delta(epsilon))
        # A positive delta too small for a float is rounded up, not to 0.
        smallest = np.where(np.isneginf(log_delta), 0.0, np.finfo(float).smallest_subnormal)
        return _unwrap(np.maximum(np.exp(log_delta), smallest))

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
        values = [direction.log_delta(epsilon) for direction in self._directions]
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
        return max((direction.epsilon(delta) for direction in self._directions), default=0.0)


class _Direction:
    """All-replace, all-add or all-remove: one product of pairs."""

    def __init__(self, case: WorstCase):
        self.renyi = case.renyi
        self.profile = None if case.profile is None else _merge_gaussians(case.profile)
        self.failure = case.failure
        # Otherwise the Renyi curve may know more than the profile does.
        self.renyi_is_profile = case.renyi == case.profile

    def rdp(self, order: Floats) -> Floats:
        if self.failure > 0:  # an event of positive probability reveals everything
            return np.full(order.shape, np.inf)
        return sum((count * curve.rdp(order) for curve, count in self.renyi), np.zeros(order.shape))

    def log_delta(self, epsilon: Floats) -> Floats:
        finite = np.isfinite(epsilon)
        log_delta = np.full(epsilon.shape, -np.inf)
        if self.failure < 1:
            log_delta[finite] = self._log_delta(epsilon[finite]) + np.log1p(-self.failure)
        if self.failure > 0:
            log_delta = np.logaddexp(log_delta, np.log(self.failure)) + _LOG_ROUNDING
        if np.isnan(log_delta).any():  # a comparison with nan would admit anything
            raise FloatingPointError("delta could not be computed for these parameters")
        return np.minimum(log_delta, 0.0)

    def epsilon(self, delta: float) -> float:
        if delta < self.failure or self.failure == 1:
            return np.inf
        delta = (delta - self.failure) / (1 - self.failure)
        if delta == 0:
            return self.max_loss
        bound = min(_renyi_bound(self.renyi, delta), self.max_loss)
        if self.profile is None or bound == 0:
            return bound
        target = np.log(delta)

        def excess(epsilon):
            return float(self._log_delta(np.array([epsilon]))[0]) - target

        if excess(0.0) <= 0:
            return 0.0
        if not np.isfinite(bound):
            bound = 1.0
            while excess(bound) > 0:
                bound *= 2
        elif excess(bound) > 0:
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

    @property
    def max_loss(self) -> float:
        """The largest loss of all releases together."""
        if self.profile is None:
            return np.inf
        return sum(count * pair.max_loss for pair, count in self.profile)

    def _log_delta(self, epsilon: Floats) -> Floats:
        """The smallest bound on log delta of all routes, at finite epsilons."""
        match self.profile:
            case ():
                return np.full(epsilon.shape, -np.inf)
            case ((pair, 1),):
                return pair.log_delta(epsilon)
        return np.where(epsilon >= self.max_loss, -np.inf, _each(self._composed_log_delta, epsilon))

    def _composed_log_delta(self, epsilon: float) -> float:
        exact, tight = 0.0, False
        if self.profile is not None:
            if all(pair.smooth for pair, _ in self.profile):
                limit = min(pair.max_tilt for pair, _ in self.profile)
                releases = sum(count for _, count in self.profile)
                exact, tight = inverted_log_delta(self._cumulant, limit, epsilon, releases)
            else:
                pmf = loss_distribution(self.profile, _renyi_bound)
                delta = max(float(pmf.get_delta_for_epsilon(epsilon)), 0.0)
                exact = np.log(delta + fft_allowance(self.profile))
        if tight and self.renyi_is_profile:
            return exact
        return min(exact, _best_order(self.renyi, renyi_log_delta, epsilon))

    def _cumulant(self, tilt: np.ndarray, rough: bool) -> np.ndarray:
        assert self.profile is not None
        parts = [count * pair.cumulant(tilt, rough) for pair, count in self.profile]
        return np.sum(parts, axis=0)


def _merge_gaussians(
    profile: tuple[tuple[DominatingPair, int], ...],
) -> tuple[tuple[DominatingPair, int], ...]:
    """Gaussian pairs compose to one Gaussian pair, exactly."""
    others = tuple(part for part in profile if not isinstance(part[0], GaussianPair))
    squares = sum(count * pair.mu**2 for pair, count in profile if isinstance(pair, GaussianPair))
    return (*others, (GaussianPair(float(np.sqrt(squares))), 1)) if squares else others


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
    low, high = -30.0, 30.0
    least = np.inf
    for _ in range(_ZOOMS):
        x = np.linspace(low, high, _ORDERS)
        # tilts from 0 to the limit, dense at both ends
        order = 1 + (np.exp(x) if np.isinf(limit) else limit / (1 + np.exp(-x)))
        order = order[order > 1]
        if order.size == 0:  # no order is finite in floating point
            return np.inf
        x = x[-order.size :]
        with np.errstate(invalid="ignore", over="ignore"):
            divergence = np.sum([count * curve.rdp(order) for curve, count in curves], axis=0)
            value = convert(order, divergence, argument)
        value = np.where(np.isnan(value), np.inf, value)
        best = int(np.argmin(value))
        least = min(least, float(value[best]))
        low, high = x[max(best - 1, 0)], x[min(best + 1, x.size - 1)]
    return least


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    flat = [float(function(float(value))) for value in values.ravel()]
    return np.array(flat, dtype=float).reshape(values.shape)


def _unwrap(values: Floats) -> Floats | float:
    return float(values) if values.ndim == 0 else values
