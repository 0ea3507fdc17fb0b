"""Guarantees as values, and the conversions between them.

Each states how well one record is hidden, and under which `adjacency`: "replace"
(one record is exchanged for another) or "add_remove" (one is added or removed). For
vectors of probabilities the relation is that of a `SimplexMechanism`, by its
`adjacency`. Guarantees of different relations never add up.
"""

from dataclasses import dataclass, field

import numpy as np

from .._validation import check_real, store_real
from .composition import PrivacyCurves
from .conversions import renyi_epsilon, truncated_epsilon
from .pairs import PureDPPair
from .worst_case import REVEALS_ALL, RenyiBound, WorstCase, check_relation, in_every_direction


@dataclass(frozen=True)
class PureDP(PrivacyCurves):
    """epsilon-differential privacy: Dwork, McSherry, Nissim and Smith (2006).

    Randomised response dominates it: Kairouz, Oh and Viswanath (2015), Theorem 3.

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

    # The parameter takes the name of the curve: `field()` keeps the method from being
    # its default.
    epsilon: float = field()  # type: ignore[assignment]
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "epsilon", above=0)
        check_relation(self.adjacency)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Bun and Steinke (2016), Proposition 1.4.

        Returns
        -------
        ZeroConcentratedDP
        """
        return ZeroConcentratedDP(self.epsilon**2 / 2, self.adjacency)

    def _worst_cases(self) -> dict[str, WorstCase]:
        pairs = ((PureDPPair(self.epsilon), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))


@dataclass(frozen=True)
class ApproximateDP(PrivacyCurves):
    """(epsilon, delta)-differential privacy: Dwork and Roth (2014), Definition 2.4.

    Its worst case reveals everything with probability delta, and answers by randomised
    response otherwise: Kairouz, Oh and Viswanath (2015), Theorem 3.

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

    epsilon: float = field()  # type: ignore[assignment]
    delta: float = field()  # type: ignore[assignment]
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "epsilon", at_least=0)
        store_real(self, "delta", above=0, below=1)
        check_relation(self.adjacency)

    def _worst_cases(self) -> dict[str, WorstCase]:
        # With probability delta all is revealed, else randomised response.
        pairs = ((PureDPPair(self.epsilon), 1),) if self.epsilon > 0 else ()
        case = WorstCase(renyi=pairs, profile=pairs, failure=self.delta)
        return in_every_direction(self.adjacency, case)


@dataclass(frozen=True)
class RenyiDP(PrivacyCurves):
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
    epsilon: float = field()  # type: ignore[assignment]
    adjacency: str = "replace"

    def __post_init__(self):
        store_real(self, "order", above=1)
        store_real(self, "epsilon", at_least=0)
        check_relation(self.adjacency)

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
        delta = check_real("delta", delta, above=0, below=1)
        return ApproximateDP(
            float(renyi_epsilon(self.order, self.epsilon, delta)), delta, self.adjacency
        )

    def _worst_cases(self) -> dict[str, WorstCase]:
        # Renyi divergences grow with the order, so the bound holds below it too.
        bound = RenyiBound(slope=0.0, offset=self.epsilon, max_tilt=self.order - 1)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


@dataclass(frozen=True)
class ZeroConcentratedDP(PrivacyCurves):
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
        check_relation(self.adjacency)

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
        order = check_real("order", order, above=1)
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
        delta = check_real("delta", delta, above=0, below=1)
        epsilon = self.rho + 2 * np.sqrt(self.rho * np.log(1 / delta))
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def _worst_cases(self) -> dict[str, WorstCase]:
        bound = RenyiBound(slope=self.rho, offset=0.0, max_tilt=np.inf)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


@dataclass(frozen=True)
class TruncatedConcentratedDP(PrivacyCurves):
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
        check_relation(self.adjacency)

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
        order = check_real("order", order, above=1, below=self.omega)
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
        delta = check_real("delta", delta, above=0, below=1)
        epsilon = truncated_epsilon(self.rho, self.omega, delta)
        return ApproximateDP(float(epsilon), delta, self.adjacency)

    def _worst_cases(self) -> dict[str, WorstCase]:
        bound = RenyiBound(slope=self.rho, offset=0.0, max_tilt=self.omega - 1)
        return in_every_direction(self.adjacency, WorstCase(renyi=((bound, 1),), profile=None))


@dataclass(frozen=True)
class NoPrivacy(PrivacyCurves):
    """No guarantee at all: everything may be revealed (docs/theory.md, section 1).

    What is charged for a release without noise, or one whose noise is known not to
    hide a record. Every total that holds it is infinite.

    Parameters
    ----------
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed.

    Examples
    --------
    >>> from skdirdp.accounting import NoPrivacy
    >>> NoPrivacy().epsilon(0.5), NoPrivacy().delta(100.0)
    (inf, 1.0)
    """

    adjacency: str = "replace"

    def __post_init__(self):
        check_relation(self.adjacency)

    def _worst_cases(self) -> dict[str, WorstCase]:
        return in_every_direction(self.adjacency, REVEALS_ALL)
