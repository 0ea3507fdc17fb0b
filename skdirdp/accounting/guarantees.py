"""Guarantees as values, and the conversions between them.

Each states how well one record is hidden, and under which `adjacency`: "replace"
(one record is exchanged for another) or "add_remove" (one is added or removed).
"""

from dataclasses import dataclass

import numpy as np

from .._validation import check_choice, check_real, store_real
from .pairs import Floats, PureDPPair
from .worst_case import ADJACENCIES, REVEALS_ALL, RenyiBound, WorstCase, in_every_direction


@dataclass(frozen=True)
class NoPrivacy:
    """The guarantee of a release that guarantees nothing.

    Parameters
    ----------
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import Composition, NoPrivacy
    >>> Composition([(NoPrivacy(), 1)]).epsilon(1e-5)
    inf
    """

    adjacency: str = "replace"

    def __post_init__(self):
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def worst_cases(self) -> dict[str, WorstCase]:
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        return in_every_direction(self.adjacency, REVEALS_ALL)


@dataclass(frozen=True)
class PureDP:
    """epsilon-differential privacy: Dwork, McSherry, Nissim and Smith (2006).

    Parameters
    ----------
    epsilon : float
        Positive.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import PureDP
    >>> PureDP(1.0).to_zcdp().rho
    0.5
    """

    epsilon: float
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "epsilon", above=0)
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Bun and Steinke (2016), Proposition 1.4.

        Returns
        -------
        ZeroConcentratedDP
        """
        return ZeroConcentratedDP(self.epsilon**2 / 2, self.adjacency)

    def worst_cases(self) -> dict[str, WorstCase]:
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        pairs = ((PureDPPair(self.epsilon), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))


@dataclass(frozen=True)
class ApproximateDP:
    """(epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float in (0, 1)
        The probability with which everything may be revealed.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import ApproximateDP, Composition
    >>> Composition([(ApproximateDP(0.1, 1e-6), 10)]).epsilon(1.1e-5) < 1
    True
    """

    epsilon: float
    delta: float
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "epsilon", at_least=0)
        store_real(self, "delta", above=0, below=1)
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def worst_cases(self) -> dict[str, WorstCase]:
        # With probability delta all is revealed, else randomised response: this
        # dominates every (epsilon, delta)-DP mechanism (Kairouz et al. 2015, Theorem 3).
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        pairs = ((PureDPPair(self.epsilon), 1),) if self.epsilon > 0 else ()
        case = WorstCase(renyi=pairs, profile=pairs, failure=self.delta)
        return in_every_direction(self.adjacency, case)


@dataclass(frozen=True)
class RenyiDP:
    """(order, epsilon)-Renyi differential privacy: Mironov (2017).

    Parameters
    ----------
    order : float
        Greater than 1.
    epsilon : float
        At least 0.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import RenyiDP
    >>> round(RenyiDP(order=5.0, epsilon=0.1).to_approximate(1e-5).epsilon, 4)
    2.3527
    """

    order: float
    epsilon: float
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "order", above=1)
        store_real(self, "epsilon", at_least=0)
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Canonne, Kamath and Steinke (2020), Proposition 12.

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of the result.

        Returns
        -------
        ApproximateDP
        """
        check_real("delta", delta, above=0, below=1)
        return ApproximateDP(
            float(renyi_epsilon(self.order, self.epsilon, delta)), delta, self.adjacency
        )

    def worst_cases(self) -> dict[str, WorstCase]:
        # Renyi divergences grow with the order, so the bound holds below it too.
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        bound = RenyiBound(slope=0.0, offset=self.epsilon, max_tilt=self.order - 1)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


@dataclass(frozen=True)
class ZeroConcentratedDP:
    """rho-zCDP, a Renyi divergence of at most ``rho * order`` at every order.

    Bun and Steinke (2016).

    Parameters
    ----------
    rho : float
        Positive.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import ZeroConcentratedDP
    >>> ZeroConcentratedDP(0.02).to_renyi(5.0).epsilon
    0.1
    """

    rho: float
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "rho", above=0)
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def to_renyi(self, order: float) -> RenyiDP:
        """What it says of one order.

        Parameters
        ----------
        order : float
            Greater than 1.

        Returns
        -------
        RenyiDP
        """
        return RenyiDP(order, self.rho * order, self.adjacency)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Bun and Steinke (2016), Proposition 1.3; `Composition` is tighter.

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of the result.

        Returns
        -------
        ApproximateDP
        """
        check_real("delta", delta, above=0, below=1)
        epsilon = self.rho + 2 * np.sqrt(self.rho * np.log(1 / delta))
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def worst_cases(self) -> dict[str, WorstCase]:
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        bound = RenyiBound(slope=self.rho, offset=0.0, max_tilt=np.inf)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


@dataclass(frozen=True)
class TruncatedConcentratedDP:
    """(rho, omega)-tCDP, a Renyi divergence of at most ``rho * order`` below order omega.

    Bun, Dwork, Rothblum and Steinke (2018).

    Parameters
    ----------
    rho : float
        Positive.
    omega : float
        Greater than 1; infinite for zCDP.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import TruncatedConcentratedDP
    >>> round(TruncatedConcentratedDP(rho=0.01, omega=20.0).to_approximate(1e-5).epsilon, 4)
    0.8059
    """

    rho: float
    omega: float
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "rho", above=0)
        store_real(self, "omega", above=1, allow_infinite=True)
        check_choice("adjacency", self.adjacency, ADJACENCIES)

    def to_renyi(self, order: float) -> RenyiDP:
        """What it says of one order.

        Parameters
        ----------
        order : float
            Greater than 1 and less than omega.

        Returns
        -------
        RenyiDP
        """
        check_real("order", order, above=1, below=self.omega)
        return RenyiDP(order, self.rho * order, self.adjacency)

    def to_approximate(self, delta: float) -> ApproximateDP:
        """Lemma 1 of "Differential Privacy of Dirichlet Posterior Sampling".

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of the result.

        Returns
        -------
        ApproximateDP
        """
        check_real("delta", delta, above=0, below=1)
        epsilon = truncated_epsilon(self.rho, self.omega, delta)
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def worst_cases(self) -> dict[str, WorstCase]:
        """The pairs and bounds of it, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        bound = RenyiBound(slope=self.rho, offset=0.0, max_tilt=self.omega - 1)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


def renyi_epsilon(order: Floats | float, divergence: Floats | float, delta: float) -> Floats:
    """The epsilon at delta that a Renyi divergence of one order implies.

    Canonne, Kamath and Steinke (2020), Proposition 12; Lemma 3 of "Dirichlet
    Mechanism for Differentially Private KL Divergence Minimization".
    """
    order = np.asarray(order, dtype=float)
    epsilon = divergence + np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
    return np.maximum(epsilon, 0.0)


def renyi_log_delta(order: Floats | float, divergence: Floats | float, epsilon: float) -> Floats:
    """The inverse of `renyi_epsilon`: log delta at epsilon."""
    order = np.asarray(order, dtype=float)
    return (order - 1) * (divergence - epsilon) + (order - 1) * np.log1p(-1 / order) - np.log(order)


def truncated_epsilon(rho: Floats | float, omega: Floats | float, delta: float) -> Floats:
    """The epsilon at delta of (rho, omega)-tCDP."""
    rho, omega = np.asarray(rho, dtype=float), np.asarray(omega, dtype=float)
    cost = np.log(1 / delta)
    untruncated = rho + 2 * np.sqrt(rho * cost)
    with np.errstate(invalid="ignore"):
        truncated = rho * omega + cost / (omega - 1)
        return np.where(cost <= (omega - 1) ** 2 * rho, untruncated, truncated)
