"""Privacy guarantees and the conversions between them.

Each holds under an adjacency relation: "replace" (one record is replaced by another), "add_remove"
(one record is added or removed), either with "_person", or `SimplexMechanism.adjacency`.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validation import LARGEST, check_real, store_reals
from .composition import PrivacyCurves
from .pairs import PureDPPair, ResponseMixturePair
from .worst_case import (
    REVEALS_ALL,
    RenyiBound,
    WorstCase,
    check_relation,
    in_every_direction,
    renyi_epsilon,
)

_WEIGHT_ROUNDING = 1e-9  # rounding error of the sum of weights


@dataclass(frozen=True)
class Guarantee(PrivacyCurves):
    """Base class of guarantees with the same worst case in every direction.

    The limits of a parameter are the metadata of its field.
    """

    def __post_init__(self):
        store_reals(self, **{each.name: each.metadata for each in fields(self) if each.metadata})
        check_relation(self.adjacency)

    @abstractmethod
    def _worst_case(self) -> WorstCase: ...

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return in_every_direction(self.adjacency, self._worst_case())


@dataclass(frozen=True)
class PureDP(Guarantee):
    """epsilon-differential privacy: Dwork, McSherry, Nissim and Smith (2006).

    Randomised response dominates it: Kairouz, Oh and Viswanath (2015), Theorem 3.

    Parameters
    ----------
    epsilon : float
        Positive.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import PureDP
    >>> PureDP(1.0).to_zcdp().rho
    0.5
    """

    # The parameter has the same name as the method of the base class; `field` prevents the
    # method from becoming the default value.
    epsilon: float = field(metadata={"above": 0})  # type: ignore[assignment]
    adjacency: str = "replace"

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Convert to zCDP: Bun and Steinke (2016), Proposition 1.4.

        Returns
        -------
        ZeroConcentratedDP
        """
        return ZeroConcentratedDP(self.epsilon**2 / 2, self.adjacency)

    def _worst_case(self) -> WorstCase:
        return WorstCase.from_pair(PureDPPair(self.epsilon))


@dataclass(frozen=True)
class ProfiledDP(Guarantee):
    """Pure DP with a known privacy profile, as a mixture of randomised responses.

    The release is dominated by randomised response whose epsilon is drawn from an increasing
    public list with given probabilities (docs/theory.md, section 7.1).
    """

    epsilons: tuple[float, ...]
    weights: tuple[float, ...]
    adjacency: str = "replace"

    def __post_init__(self):
        epsilons, weights = (
            tuple(check_real(name, value, at_least=0, at_most=LARGEST) for value in values)
            for name, values in (("epsilons", self.epsilons), ("weights", self.weights))
        )
        increasing = all(low < high for low, high in pairwise(epsilons))
        if not epsilons or not increasing or epsilons[-1] == 0:
            raise ValueError("epsilons must be increasing from 0 or more, to more than 0")
        if len(weights) != len(epsilons) or not abs(math.fsum(weights) - 1) < _WEIGHT_ROUNDING:
            raise ValueError(
                "weights must have the length of epsilons and sum to 1; got "
                f"{len(weights)} weights with sum {math.fsum(weights):g}"
            )
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "weights", weights)
        super().__post_init__()

    @classmethod
    def from_points(
        cls, epsilons: Sequence[float], deltas: Sequence[float], adjacency: str = "replace"
    ) -> "ProfiledDP":
        """Create the worst guarantee that is (epsilon, delta)-DP at all given points.

        The epsilons increase from 0. The deltas are 0 at the last epsilon and positive before.
        """
        y, delta = np.exp(np.asarray(epsilons, dtype=float)), np.asarray(deltas, dtype=float)
        if y.ndim != 1 or y.shape != delta.shape or y.size < 2:
            raise ValueError("epsilons and deltas must be vectors of the same length, at least 2")
        if not (y[0] == 1 and np.all(np.diff(y) > 0) and np.all(np.isfinite(y))):
            raise ValueError("epsilons must start at 0 and increase, with finite exponentials")
        if not (np.all(delta[:-1] > 0) and delta[0] < 1 and delta[-1] == 0):
            raise ValueError("deltas must be in (0, 1), and 0 at the last epsilon")
        # A profile is convex in exp(epsilon) and determines its values at -epsilon, so it lies on
        # or below the convex hull of all these points.
        mirrored = np.concatenate([[0.0], 1 / y[:0:-1], y])
        values = np.concatenate([[1.0], 1 - 1 / y[:0:-1] + delta[:0:-1] / y[:0:-1], delta])
        hull = lower_hull(mirrored, values)
        knots = hull[mirrored[hull] >= 1]
        if mirrored[knots[0]] > 1:  # the hull passes below the point at epsilon 0
            knots = np.concatenate([[len(y)], knots])
            values[len(y)] = np.interp(1.0, mirrored[hull], values[hull])
        y, delta = mirrored[knots], values[knots]
        slopes = -np.diff(delta) / np.diff(y)
        weights = np.maximum(-np.diff(slopes, append=0.0) * (1 + y[1:]), 0.0)
        # The hull is convex at epsilon 0, so the weights sum to at most 1, up to rounding.
        if math.fsum(weights) > 1 + _WEIGHT_ROUNDING:
            raise ValueError("deltas must be values of a privacy profile; they are too large")
        weights /= max(1.0, math.fsum(weights))
        weight_at_zero = max(0.0, 1 - math.fsum(weights))
        # Use the original values, because logarithms of their exponentials may be smaller.
        given = np.asarray(epsilons, dtype=float)[knots - len(epsilons)]
        return cls(tuple(given.tolist()), (weight_at_zero, *weights.tolist()), adjacency)

    def _worst_case(self) -> WorstCase:
        return WorstCase.from_pair(ResponseMixturePair(self.epsilons, self.weights))

    def __repr__(self) -> str:
        return f"ProfiledDP(epsilon={self.epsilons[-1]!r}, points={len(self.epsilons)})"


def lower_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indices of the points, sorted by x, that are vertices of the lower convex hull."""
    corners: list[tuple[int, float, float]] = []
    for point, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        while len(corners) > 1:
            (_, ax, ay), (_, bx, by) = corners[-2:]
            if (by - ay) * (px - ax) < (py - ay) * (bx - ax):
                break
            corners.pop()
        corners.append((point, px, py))
    return np.array([point for point, _, _ in corners])


@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """(epsilon, delta)-differential privacy: Dwork and Roth (2014), Definition 2.4.

    Its worst case reveals everything with probability delta, and is randomised response
    otherwise: Kairouz, Oh and Viswanath (2015), Theorem 3.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float in (0, 1)
        The probability that everything may be revealed.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import ApproximateDP, Composition
    >>> Composition([(ApproximateDP(0.1, 1e-6), 10)]).epsilon(1.1e-5) < 1
    True
    """

    epsilon: float = field(metadata={"at_least": 0})  # type: ignore[assignment]
    delta: float = field(metadata={"above": 0, "below": 1})  # type: ignore[assignment]
    adjacency: str = "replace"

    def _worst_case(self) -> WorstCase:
        pairs = ((PureDPPair(self.epsilon), 1),) if self.epsilon > 0 else ()
        return WorstCase(renyi=pairs, profile=pairs, failure=self.delta)


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """(order, epsilon)-Renyi differential privacy: Mironov (2017).

    Parameters
    ----------
    order : float
        Greater than 1.
    epsilon : float
        At least 0.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import RenyiDP
    >>> round(RenyiDP(order=5.0, epsilon=0.1).to_approximate(1e-5).epsilon, 4)
    2.3527
    """

    order: float = field(metadata={"above": 1})
    epsilon: float = field(metadata={"at_least": 0})  # type: ignore[assignment]
    adjacency: str = "replace"

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Convert to (epsilon, delta)-DP: Canonne et al. (2020), Proposition 12.

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of the result.

        Returns
        -------
        ApproximateDP
        """
        delta = check_real("delta", delta, above=0, below=1)
        epsilon = renyi_epsilon(self.order, self.epsilon, delta)
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def _worst_case(self) -> WorstCase:
        # Renyi divergences increase in the order, so the bound holds at lower orders too.
        return WorstCase.from_bound(RenyiBound(0.0, self.epsilon, self.order - 1))


class _ConcentratedDP(Guarantee):
    """Renyi divergence of at most ``rho * order`` below order omega."""

    rho: float
    omega: float

    def to_renyi(self, order: float) -> RenyiDP:
        """Return the guarantee at one Renyi order.

        Parameters
        ----------
        order : float
            Greater than 1 and less than omega, if that is finite.

        Returns
        -------
        RenyiDP
        """
        order = check_real("order", order, above=1, below=self.omega)
        return RenyiDP(order, self.rho * order, self.adjacency)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Convert to (epsilon, delta)-DP; `Composition` is tighter.

        Bun and Steinke (2016), Proposition 1.3; for a finite omega, Lemma 1 of "Differential
        Privacy of Dirichlet Posterior Sampling".

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of the result.

        Returns
        -------
        ApproximateDP
        """
        delta = check_real("delta", delta, above=0, below=1)
        epsilon = truncated_epsilon(self.rho, self.omega, delta)
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def _worst_case(self) -> WorstCase:
        return WorstCase.from_bound(RenyiBound(self.rho, 0.0, self.omega - 1))


def truncated_epsilon(rho: ArrayLike, omega: ArrayLike, delta: float) -> np.ndarray:
    """Compute the epsilon at delta of (rho, omega)-tCDP."""
    rho, omega = np.asarray(rho, dtype=float), np.asarray(omega, dtype=float)
    cost = np.log(1 / delta)
    untruncated = rho + 2 * np.sqrt(rho * cost)
    with np.errstate(invalid="ignore"):
        truncated = rho * omega + cost / (omega - 1)
        return np.where(cost <= (omega - 1) ** 2 * rho, untruncated, truncated)


@dataclass(frozen=True)
class ZeroConcentratedDP(_ConcentratedDP):
    """rho-zCDP, a Renyi divergence of at most ``rho * order``: Bun and Steinke (2016).

    Parameters
    ----------
    rho : float
        Positive.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import ZeroConcentratedDP
    >>> ZeroConcentratedDP(0.02).to_renyi(5.0).epsilon
    0.1
    """

    rho: float = field(metadata={"above": 0})
    adjacency: str = "replace"
    omega: ClassVar[float] = math.inf  # type: ignore[misc]


@dataclass(frozen=True)
class TruncatedConcentratedDP(_ConcentratedDP):
    """(rho, omega)-tCDP: the Renyi divergence is at most ``rho * order`` below order omega.

    Bun, Dwork, Rothblum and Steinke (2018).

    Parameters
    ----------
    rho : float
        Positive.
    omega : float
        Greater than 1; infinite for zCDP.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import TruncatedConcentratedDP
    >>> round(TruncatedConcentratedDP(rho=0.01, omega=20.0).to_approximate(1e-5).epsilon, 4)
    0.8059
    """

    rho: float = field(metadata={"above": 0})
    omega: float = field(metadata={"above": 1, "allow_infinite": True})
    adjacency: str = "replace"


@dataclass(frozen=True)
class NoPrivacy(Guarantee):
    """No guarantee at all: everything may be revealed (docs/theory.md, section 1).

    It is charged for a release without noise, and makes the epsilon of a composition infinite.

    Parameters
    ----------
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is replaced by another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import NoPrivacy
    >>> NoPrivacy().epsilon(0.5), NoPrivacy().delta(100.0)
    (inf, 1.0)
    """

    adjacency: str = "replace"

    def _worst_case(self) -> WorstCase:
        return REVEALS_ALL
