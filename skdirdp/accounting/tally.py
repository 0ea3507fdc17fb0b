"""What releases add up to in one direction, whatever route composes them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import isnan

import numpy as np

from .many import Many, many
from .pairs import Floats, GaussianPair
from .worst_case import RenyiCurve, WorstCase

_LOG_ROUNDING = 1e-12
#: Up to so many kinds are composed one by one: those whose losses have densities by their
#: cumulants, and those with atoms by loss distributions.
FEW = 4


class Direction(ABC):
    """All-replace, all-add or all-remove: one product of pairs.

    Attributes
    ----------
    failure : the probability with which everything is revealed.
    max_loss : the largest loss of all releases together.
    """

    failure: float
    max_loss: float

    def rdp(self, order: Floats) -> Floats:
        """Renyi divergences; infinite where an event of positive probability reveals all."""
        return np.full(order.shape, np.inf) if self.failure > 0 else self._rdp(order)

    def rdp_at(self, order: float) -> float:
        return float(self.rdp(np.array([order]))[0])

    def log_delta(self, epsilon: Floats) -> Floats:
        finite = np.isfinite(epsilon)
        log_delta = np.full(epsilon.shape, -np.inf)
        if self.failure < 1:
            log_delta[finite] = self._log_delta(epsilon[finite]) + np.log1p(-self.failure)
        if self.failure > 0:
            log_delta = np.logaddexp(log_delta, np.log(self.failure)) + _LOG_ROUNDING
        return np.minimum(log_delta, 0.0)

    def epsilon(self, delta: float) -> float:
        if delta < self.failure or self.failure == 1:
            return np.inf
        delta = (delta - self.failure) / (1 - self.failure)
        return self.max_loss if delta == 0 else self._epsilon(delta)

    @abstractmethod
    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (epsilon, delta)-DP is known to hold, by one look at the profile."""

    @abstractmethod
    def _rdp(self, order: Floats) -> Floats: ...

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """The smallest bound on log delta of all routes, at finite epsilons."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float: ...


class Tally(Direction):
    """Many releases, to which more can be added without composing all again.

    Parameters
    ----------
    renyi : the curves whose divergences add up.
    profile : the pairs whose product dominates, or None if only `renyi` is known. The same
        object as `renyi` where these are the same curves.
    log_survival : the logarithm of the probability that not everything is revealed.
    """

    def __init__(self, renyi: Many, profile: Many | None, log_survival: float):
        self._renyi = renyi
        self._profile = profile
        self._log_survival = log_survival
        self.failure = float(-np.expm1(log_survival))
        self.max_loss = np.inf if profile is None else profile.max_loss

    @classmethod
    def of(cls, case: WorstCase) -> "Tally | None":
        """None where numbers are too odd for it, and the slower routes have to do."""
        nothing = many([])
        assert nothing is not None
        return cls(nothing, nothing, 0.0).plus([(case, 1)])

    def plus(self, cases: Iterable[tuple[WorstCase, int]]) -> "Tally | None":
        """The tally with more releases, each a number of times; None as in `of`."""
        cases = list(cases)
        log_survival = self._log_survival
        for case, times in cases:
            log_survival += times * (np.log1p(-case.failure) if case.failure < 1 else -np.inf)
        renyi = self._renyi.with_curves(
            (curve, count * times) for case, times in cases for curve, count in case.renyi
        )
        if renyi is None or isnan(log_survival):
            return None
        if self._profile is None or any(case.profile is None for case, _ in cases):
            return Tally(renyi, None, log_survival)
        if self._profile is self._renyi and all(case.renyi == case.profile for case, _ in cases):
            return Tally(renyi, renyi, log_survival)
        profile = self._profile.with_curves(
            (pair, count * times)
            for case, times in cases
            if case.profile is not None
            for pair, count in case.profile
        )
        return None if profile is None else Tally(renyi, profile, log_survival)

    @property
    def is_many(self) -> bool:
        """As `is_many` of its pairs, if all have some."""
        return self._profile is None or self._profile.size > FEW

    def holds(self, epsilon: float, delta: float) -> bool:
        if delta < self.failure or self.failure == 1:
            return False
        delta = (delta - self.failure) / (1 - self.failure)
        if epsilon >= self.max_loss:
            return True
        if delta == 0:
            return False
        log_delta = np.log(delta) - (_LOG_ROUNDING if self.failure > 0 else 0.0)
        if self._profile is not None and self._profile.fits(epsilon, log_delta):
            return True
        if self._profile is self._renyi:
            return False
        return self._renyi.renyi_log_delta(epsilon) <= log_delta

    def rdp_at(self, order: float) -> float:
        return np.inf if self.failure > 0 else self._renyi.rdp_at(order)

    def _rdp(self, order: Floats) -> Floats:
        return self._renyi.rdp(order)

    def _log_delta(self, epsilon: Floats) -> Floats:
        flat = [self._log_delta_at(float(x)) for x in epsilon.ravel()]
        return np.array(flat, dtype=float).reshape(epsilon.shape)

    def _log_delta_at(self, epsilon: float) -> float:
        exact, tight = 0.0, False
        if self._profile is not None:
            exact, tight = self._profile.log_delta(epsilon)
        if tight and self._profile is self._renyi:
            return exact
        return min(exact, self._renyi.renyi_log_delta(epsilon))

    def _epsilon(self, delta: float) -> float:
        exact, tight = np.inf, False
        if self._profile is not None:
            exact, tight = self._profile.epsilon(delta)
        if tight and self._profile is self._renyi:
            return exact
        return min(exact, self._renyi.renyi_epsilon(delta))


def is_many(curves: tuple[tuple[RenyiCurve, int], ...]) -> bool:
    """Whether so many kinds are composed that a tally is the quicker route."""
    # Gaussian pairs are one, however many they are.
    return sum(not isinstance(curve, GaussianPair) for curve, _ in curves) > FEW
