"""Dominating pairs: the worst-case output distributions P and Q of a release.

For every pair of neighbours, the output of the mechanism is a post-processing of a sample from P
or from Q. With the privacy loss ``L = log(dP/dQ)`` under P, the cumulant is
``K(t) = log E exp(t L)``, the Renyi divergence of order ``t + 1`` is ``K(t) / t``, and the profile
is ``delta(epsilon) = E max(0, 1 - exp(epsilon - L))``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr

from .._validation import LARGEST
from ..numerics.conservative import inverted_log_delta, log_hockey_stick
from ..numerics.log_gamma import (
    HALF_LOG_2PI,
    expm1_excess,
    gamma_add_cumulant,
    gamma_remove_cumulant,
    log1p_excess,
    mean_digamma_excess,
    stirling_error,
)

Floats = NDArray[np.float64]

# Renyi divergences are rounded up by this relative amount, and logarithms of delta by this amount
# more than the quadrature needs. Cumulants are accurate to about 1e-15 (tested against mpmath).
RENYI_ROUNDING = LOG_ROUNDING = 1e-12


def map_values(function: Callable[[float], float], values: Floats) -> Floats:
    """Apply a function of one number to each element of an array."""
    flat = [float(function(float(value))) for value in values.ravel()]
    return np.array(flat, dtype=float).reshape(values.shape)


class DominatingPair(ABC):
    """Two distributions that are at least as easy to distinguish as any neighbours."""

    #: Whether the loss has a density, and a characteristic function whose modulus decreases
    #: along every vertical line, so that it can be inverted.
    smooth: ClassVar[bool]

    @property
    def multiplicity(self) -> float:
        """Number of releases whose rounding errors the cumulant may contain."""
        return 1.0

    @property
    def max_loss(self) -> float:
        """Largest loss; if it is finite the pair satisfies pure DP."""
        return np.inf

    @property
    def losses(self) -> tuple[Floats, Floats] | None:
        """Losses and their probabilities under P, if there are finitely many."""
        return None

    @property
    @abstractmethod
    def max_tilt(self) -> float:
        """Supremum of the tilts t at which K(t) is finite."""

    @abstractmethod
    def cumulant(self, tilt: ArrayLike, rough: bool = False) -> np.ndarray:
        """Evaluate K(t) for t with a positive real part; errors are 1e-14 (1 + |t|) if rough."""

    @abstractmethod
    def log_delta(self, epsilon: ArrayLike) -> Floats:
        """Natural logarithm of the profile at each real epsilon, rounded up."""

    def rdp(self, order: ArrayLike) -> Floats:
        """Renyi divergence of each order > 1, rounded up; infinite beyond 1 + max_tilt."""
        tilt = np.asarray(order, dtype=float) - 1
        finite = np.where(np.isinf(tilt), 1.0, tilt)
        divergence = self.cumulant(finite) / finite * (1 + RENYI_ROUNDING)
        return np.where(np.isinf(tilt), self.max_loss, divergence)


#: Pairs with their multiplicities.
Pairs = tuple[tuple[DominatingPair, int], ...]


def _round_up(log_delta: Floats) -> Floats:
    return np.minimum(log_delta + LOG_ROUNDING, 0.0)


def _reflect(epsilon, reversed_log_delta):
    """Compute log delta at a negative epsilon from that of the reversed pair at -epsilon."""
    # delta(-e) = 1 - exp(-e) + exp(-e) * (delta(e) of the reversed pair)
    return np.logaddexp(np.log(-np.expm1(epsilon)), epsilon + reversed_log_delta)


class _LogConcavePair(DominatingPair):
    """Pair whose loss is linear in a variable with a log-concave density under P."""

    smooth = True

    @abstractmethod
    def _threshold(self, epsilon: Floats) -> tuple[float, Floats]:
        """Slope of the loss, and the value of the variable at which the loss equals epsilon."""

    @abstractmethod
    def _log_density(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _score(self, t: Floats) -> Floats: ...

    @property
    def _reversed(self) -> Any:
        """The reversed pair: Q against P."""
        return self

    def log_delta(self, epsilon: ArrayLike) -> Floats:
        epsilon = np.asarray(epsilon, dtype=float)
        log_delta = np.empty(epsilon.shape)
        negative = epsilon < 0
        log_delta[~negative] = self._log_upper_delta(epsilon[~negative])
        if negative.any():
            below = epsilon[negative]
            log_delta[negative] = _reflect(below, self._reversed._log_upper_delta(-below))
        return _round_up(log_delta)

    def _log_upper_delta(self, epsilon: Floats) -> Floats:
        slope, threshold = self._threshold(epsilon)
        # Rounding the threshold down rounds delta up.
        loss = epsilon / slope
        threshold = threshold - 4e-16 * (loss + np.abs(loss - threshold))
        return log_hockey_stick(threshold, slope, self._log_density, self._score)


@dataclass(frozen=True)
class _DirichletPair(_LogConcavePair):
    """Pair of a Dirichlet release with the change r of a count and the prior alpha."""

    r: float
    alpha: float
    direction: ClassVar[str]

    def __post_init__(self):
        # Rounded to numbers whose squares are floats: a larger change dominates a smaller one, and
        # a smaller prior a larger one (docs/theory.md, 2.2 and "Floors").
        object.__setattr__(self, "r", max(self.r, 1 / LARGEST))
        object.__setattr__(self, "alpha", min(self.alpha, LARGEST))

    @property
    def max_tilt(self):
        return np.inf if self.direction == "add" else self.alpha / self.r

    def cumulant(self, tilt, rough=False):
        return dirichlet_cumulant(self.direction, tilt, self.r, self.alpha, rough)


def dirichlet_cumulant(direction, tilt, r, alpha, rough):
    """Cumulant of a beta pair ("replace") or of a gamma pair ("add" or "remove")."""
    if direction == "add":
        return gamma_add_cumulant(tilt, r, alpha, rough)
    loss = gamma_remove_cumulant(tilt, r, alpha, rough)
    # Under replacement one cell gains and another loses; each part is non-negative.
    return loss if direction == "remove" else gamma_add_cumulant(tilt, r, alpha, rough) + loss


@dataclass(frozen=True)
class BetaPair(_DirichletPair):
    """Pair of Beta(alpha + r, alpha) and Beta(alpha, alpha + r), which equals its reversal.

    The worst case of a Dirichlet release under replacement: one count moves from one cell to
    another, and both cells are otherwise empty. The loss is ``r logit(b)``.
    """

    direction: ClassVar[str] = "replace"

    def _threshold(self, epsilon):
        # The variable is logit(b) minus its mode log((alpha + r) / alpha).
        return self.r, epsilon / self.r - np.log1p(self.r / self.alpha)

    def _log_density(self, t):
        a, b = self.alpha + self.r, self.alpha
        total = a + b
        share = a / total
        # total * (log(1 + share (e^t - 1)) - share t), without cancellation or overflow
        near = np.clip(t, -1, 1)
        deviance = log1p_excess(share * np.expm1(near)) + share * expm1_excess(near)
        right, left = np.maximum(t, 1), np.minimum(t, -1)
        far_right = b * right + total * (np.log(share) + np.log1p(b / a * np.exp(-right)))
        far_left = -a * left + total * (np.log(b / total) + np.log1p(a / b * np.exp(left)))
        deviance = np.where(t > 1, far_right, np.where(t < -1, far_left, total * deviance))
        peak = 0.5 * np.log(a / total * b) - HALF_LOG_2PI
        corrections = stirling_error(total) - stirling_error(a) - stirling_error(b)
        return peak + corrections - deviance

    def _score(self, t):
        # a - (a + b) * expit(t + log(a / b)), without the difference of two large numbers
        a, b = self.alpha + self.r, self.alpha
        share = a / (a + b)
        fall = np.expm1(-np.abs(t))
        right, left = -fall / (1 + fall - share * fall), fall / (1 + share * fall)
        return -share * b * np.where(t > 0, right, left)


@dataclass(frozen=True)
class GammaPair(_DirichletPair):
    """Pair of Gamma(alpha + r) and Gamma(alpha) ("add"), or its reversal ("remove").

    The worst case of a Dirichlet release over all totals of the other cells.
    """

    direction: Literal["add", "remove"]  # type: ignore[misc]

    @property
    def _reversed(self):
        return GammaPair(self.r, self.alpha, "remove" if self.direction == "add" else "add")

    @property
    def _sign(self):
        # The variable is log(g / shape) for g drawn from P; the sign makes the loss increase.
        return 1 if self.direction == "add" else -1

    @property
    def _shape(self):
        return self.alpha + self.r if self.direction == "add" else self.alpha

    def _threshold(self, epsilon):
        offset = mean_digamma_excess(self.alpha, self.r)
        if self.direction == "remove":
            offset += np.log1p(self.r / self.alpha)
        return self.r, epsilon / self.r + self._sign * offset

    def _log_density(self, t):
        peak = 0.5 * np.log(self._shape) - HALF_LOG_2PI - stirling_error(self._shape)
        return peak - self._shape * expm1_excess(self._sign * t)

    def _score(self, t):
        with np.errstate(over="ignore"):
            return -self._sign * self._shape * np.expm1(self._sign * t)


@dataclass(frozen=True)
class FractionalPair(DominatingPair):
    """Product of beta or gamma pairs of one direction, with positive real exponents.

    The loss of a pair is a compensated Poisson process of jumps (docs/theory.md, 2.2). A power
    multiplies its intensity, and therefore its cumulant.
    """

    parts: tuple[tuple[BetaPair | GammaPair, float], ...]
    # The modulus of a product decreases if that of each factor does, for any exponents.
    smooth: ClassVar[bool] = True

    @property
    def max_tilt(self) -> float:
        return min(pair.max_tilt for pair, _ in self.parts)

    @property
    def multiplicity(self) -> float:
        return sum(exponent for _, exponent in self.parts if exponent <= self._max_rough_exponent)

    @property
    def _max_rough_exponent(self) -> float:
        """Largest exponent of a rough cumulant, since the exponent multiplies its error."""
        return max(16.0, self.parts[0][1])

    def cumulant(self, tilt, rough=False):
        limit = self._max_rough_exponent if rough else 0.0
        return np.sum([n * pair.cumulant(tilt, n <= limit) for pair, n in self.parts], axis=0)

    def log_delta(self, epsilon):
        return _round_up(map_values(self._log_delta, np.asarray(epsilon, dtype=float)))

    def _log_delta(self, epsilon: float) -> float:
        if epsilon >= 0:
            releases = int(np.ceil(self.multiplicity))
            return inverted_log_delta(self.cumulant, self.max_tilt, epsilon, releases)[0]
        parts = tuple((pair._reversed, exponent) for pair, exponent in self.parts)
        return float(_reflect(epsilon, FractionalPair(parts)._log_delta(-epsilon)))


@dataclass(frozen=True)
class GaussianPair(_LogConcavePair):
    """Pair of N(mu, 1) and N(0, 1), with `mu` the sensitivity over the standard deviation.

    k releases are equivalent to one with ``sqrt(k) mu``. The pair equals its reversal.
    """

    mu: float
    max_tilt: ClassVar[float] = np.inf

    def __post_init__(self):
        object.__setattr__(self, "mu", max(self.mu, 1 / LARGEST))

    def cumulant(self, tilt, rough=False):
        tilt = np.asarray(tilt)
        with np.errstate(over="ignore"):
            return 0.5 * np.square(self.mu) * tilt * (1 + tilt)

    def _threshold(self, epsilon):
        return self.mu, epsilon / self.mu - self.mu / 2

    def _log_density(self, t):
        return -0.5 * t * t - HALF_LOG_2PI

    def _score(self, t):
        return -t


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float | None:
    """Approximate `GaussianPair.mu` for (epsilon, delta)-DP, for initial guesses only."""
    # It may be too large or too small, and is None where double precision is insufficient.

    def excess(log_mu: float) -> float:
        mu = np.exp(log_mu)
        above = log_ndtr(mu / 2 - epsilon / mu)
        below = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(above + np.log(-np.expm1(min(below - above, -1e-300))) - np.log(delta))

    low, high = np.log(1e-6), np.log(1e2)
    if not excess(low) < 0 < excess(high):
        return None
    return float(np.exp(brentq(excess, low, high)))


def gaussian_slope(epsilon: float, delta: float, mu: float) -> float:
    """Approximate derivative of log delta with respect to log mu, for initial guesses."""
    # The derivative of delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) is a density.
    log_density = -((mu / 2 - epsilon / mu) ** 2) / 2 - np.log(2 * np.pi) / 2
    return float(mu * np.exp(log_density - np.log(delta)))


class _BoundedPair(DominatingPair):
    """Pair whose largest loss is finite and has an atom."""

    smooth = False
    max_tilt = np.inf

    @abstractmethod
    def _log_inside(self, epsilon: Floats) -> Floats:
        """Logarithm of the profile between the smallest and the largest loss."""

    def log_delta(self, epsilon):
        epsilon = np.asarray(epsilon, dtype=float)
        with np.errstate(divide="ignore"):
            below = np.log(-np.expm1(np.minimum(epsilon, 0)))
            inside = self._log_inside(epsilon)
        return _round_up(np.where(epsilon < -self.max_loss, below, inside))


@dataclass(frozen=True)
class LaplacePair(_BoundedPair):
    """Pair of Laplace distributions of scale 1 with locations 0 and `shift`.

    Its Renyi divergence is Proposition 6 of Mironov (2017); the profile is elementary.
    """

    shift: float

    @property
    def max_loss(self) -> float:
        return self.shift

    def cumulant(self, tilt, rough=False):
        # log(w e^{ta} + (1 - w) e^{-(1 + t) a}). The linear terms cancel, and for small shifts
        # only the other terms are computed; otherwise the larger exponent is factored out.
        a, tilt = self.shift, np.asarray(tilt)
        other = tilt / (1 + 2 * tilt)
        up = np.minimum(tilt * a, 1.0)
        small = (1 - other) * expm1_excess(up) + other * expm1_excess(-(1 + tilt) * a)
        large = tilt * a + np.log1p(other * np.expm1(-(1 + 2 * tilt) * a))
        return np.where(tilt * a < 1, np.log1p(small), large)

    def _log_inside(self, epsilon):
        return np.log(-np.expm1(np.minimum((epsilon - self.shift) / 2, 0)))


@dataclass(frozen=True)
class PureDPPair(_BoundedPair):
    """Randomised response, the worst epsilon-DP mechanism: Kairouz et al. (2015), Theorem 3."""

    epsilon: float

    @property
    def max_loss(self) -> float:
        return self.epsilon

    def cumulant(self, tilt, rough=False):
        exponent = np.asarray(tilt) * self.epsilon
        small, large = _response_moment(self.epsilon, exponent)
        return np.where(exponent < 1, np.log1p(small), large)

    @property
    def losses(self) -> tuple[Floats, Floats]:
        return _response_losses(np.array([self.epsilon]), np.ones(1))

    def _log_inside(self, epsilon):
        inside = np.log(-np.expm1(np.minimum(epsilon - self.epsilon, 0)))
        return inside + np.log(expit(self.epsilon))


def _response_losses(epsilons: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the losses of a mixture of randomised responses, with their probabilities."""
    signed = np.concatenate([epsilons, -epsilons])
    probabilities = np.concatenate([weights, weights]) * expit(signed)
    return signed, np.maximum(probabilities, np.finfo(float).tiny)


def _response_moment(epsilon, exponent):
    """Compute ``E exp(t L) - 1`` for small exponents, and its logarithm for large ones."""
    # The loss L is +epsilon with probability e^epsilon / (1 + e^epsilon), else -epsilon.
    up, other = np.minimum(exponent, 1.0), expit(-epsilon)
    small = (1 - other) * expm1_excess(up) + other * expm1_excess(-up) + up * np.tanh(epsilon / 2)
    return small, exponent + np.log1p(other * np.expm1(-2 * exponent))


@dataclass(frozen=True)
class ResponseMixturePair(DominatingPair):
    """Mixture of randomised responses: epsilon is drawn with public weights.

    The epsilons increase, and a missing probability is assigned to the largest.
    """

    epsilons: tuple[float, ...]
    weights: tuple[float, ...]
    smooth: ClassVar[bool] = False
    max_tilt: ClassVar[float] = np.inf

    @property
    def max_loss(self) -> float:
        return self.epsilons[-1]

    @cached_property
    def _columns(self) -> tuple[Floats, Floats]:
        """Epsilons of positive weight, as a column, and their weights."""
        epsilons, weights = np.array(self.epsilons), np.array(self.weights)
        weights[-1] = max(weights[-1], 1 - weights[:-1].sum())
        return epsilons[weights > 0, np.newaxis], weights[weights > 0]

    @property
    def losses(self) -> tuple[Floats, Floats]:
        epsilons, weights = self._columns
        return _response_losses(epsilons[:, 0], weights)

    def cumulant(self, tilt, rough=False):
        epsilons, weights = self._columns
        tilt = np.asarray(tilt)
        exponent = epsilons * tilt.ravel()
        small, logs = _response_moment(epsilons, exponent)
        largest = logs.max(axis=0)
        with np.errstate(invalid="ignore"):
            large = largest + np.log(weights @ np.exp(logs - largest))
        value = np.where(exponent.max(axis=0) < 1, np.log1p(weights @ small), large)
        return value.reshape(tilt.shape)

    def log_delta(self, epsilon):
        epsilons, weights = self._columns
        epsilon = np.asarray(epsilon, dtype=float)
        flat = epsilon.ravel()
        inside = -np.expm1(np.minimum(flat - epsilons, 0.0)) * expit(epsilons)
        below = -np.expm1(np.minimum(flat, 0.0))
        with np.errstate(divide="ignore"):
            log_delta = np.log(weights @ np.where(flat < -epsilons, below, inside))
        return _round_up(log_delta.reshape(epsilon.shape))
