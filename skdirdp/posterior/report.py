"""What the release of a posterior guarantees, and how its noise is chosen for that."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .._persons import RECORD, Unit
from ..accounting import NoPrivacy, ProfiledDP, PureDP
from ..accounting.worst_case import OF_PERSONS
from ..base import PrivacyReport
from .lattice import n_candidates
from .mechanisms import (
    LAPLACE,
    MAX_CANDIDATES,
    exact_exponent,
    laplace_loss,
    paper_exponent,
)
from .profile import enumerated_profile

# By more than a loss that was computed may be too small.
_LOSS_ROUNDING = 1e-8

# How the noise was chosen, for a reader.
_MEANS = {
    "exact": "the largest loss of all was computed",
    "bounded": "by a proven bound",
    "paper": "as in the paper",
}


@dataclass(frozen=True, kw_only=True)
class PosteriorPrivacy(PrivacyReport):
    """What the release of a posterior guarantees.

    A `skdirdp.PrivacyReport` of one release, with `delta` 0, `order` None and `adjacency`
    "replace". `composition` is that of the claim: of "ehd" and "ehds" the profile over all
    neighbours where there are few enough to list, else randomised response.

    Parameters
    ----------
    epsilon : float
        The release is epsilon-DP; infinite if it is not private.
    delta, order, adjacency, mechanisms, not_covered
        As in `skdirdp.PrivacyReport`; `mechanisms` holds the claim, a
        `skdirdp.accounting.ProfiledDP`, `PureDP` or `NoPrivacy`.
    unit, n_records
        As in `skdirdp.PrivacyReport`.
    name : str
        The name of the mechanism; also called `mechanism`.
    calibration : {"exact", "bounded", "paper", "none"}
        How the noise was chosen. "exact": the largest log-ratio over all neighbours
        was computed and is epsilon. "bounded": there are too many to follow them all,
        and a bound shows that none exceeds epsilon.
    loss : float or None
        The largest log-ratio over all neighbours and outcomes, where it is known.
        With Laplace noise it is attained as soon as the clamp leaves room.
    exponent : float or None
        The factor of distance over sensitivity in an exponential mechanism.

    Examples
    --------
    >>> from skdirdp import PrivateDirichletPosterior
    >>> posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
    >>> posterior.privacy_.epsilon, posterior.privacy_.delta
    (1.0, 0.0)
    >>> bool(posterior.privacy_.composition().delta(0.5) < 0.3)
    True
    """

    name: str
    calibration: str
    loss: float | None
    exponent: float | None = None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.name

    @property
    def is_private(self) -> bool:
        """False for "ehdl" and for an infinite epsilon."""
        return bool(np.isfinite(self.epsilon))

    def __str__(self) -> str:
        if not self.is_private:
            return f"no privacy: mechanism {self.name!r} at this epsilon guarantees nothing"
        return super().__str__()

    def _means(self) -> str:
        return f"by mechanism {self.name!r}, {_MEANS[self.calibration]}"


def posterior_privacy(
    mechanism: str,
    calibration: str,
    prior: tuple[float, ...],
    n_samples: int,
    epsilon: float,
    gamma: float,
    not_covered: tuple[str, ...] = (),
    unit: Unit = RECORD,
) -> PosteriorPrivacy:
    """The guarantee of a release; it depends on public sizes and parameters only.

    A person with m records is m records apart from any other, since their number stays: what
    is epsilon / m-DP for records is epsilon-DP for persons.
    """
    per_person, epsilon = epsilon, share_of_record(epsilon, unit)
    scale: float | None = None
    loss: float | None
    if np.isinf(epsilon):
        method, loss = "none", np.inf
    elif mechanism in LAPLACE:
        method, loss = "paper", laplace_loss(mechanism, len(prior), epsilon)
    else:
        _check_candidates(mechanism, n_samples, len(prior))
        exact = calibration == "exact" and mechanism != "ehdl"
        choose = exact_exponent if exact else paper_exponent
        exponent = choose(mechanism, prior, n_samples, epsilon, gamma)
        method = "paper" if not exact else "bounded" if exponent.loss is None else "exact"
        loss, scale = exponent.loss, exponent.scale
    claimed = np.inf if mechanism == "ehdl" else per_person
    adjacency = OF_PERSONS["replace"] if unit.is_person else "replace"
    claim: NoPrivacy | PureDP | ProfiledDP | None = None
    if np.isinf(claimed):
        claim = NoPrivacy(adjacency)
    elif loss is not None and scale is not None and unit.max_rows == 1:
        largest = min(claimed, loss * (1 + _LOSS_ROUNDING))
        claim = enumerated_profile(mechanism, prior, n_samples, scale, gamma, largest, adjacency)
    if claim is None:
        claim = PureDP(claimed, adjacency)
    return PosteriorPrivacy(
        epsilon=claimed,
        delta=0.0,
        order=None,
        adjacency="replace",
        mechanisms=((claim, 1),),
        not_covered=not_covered,
        name=mechanism,
        calibration=method,
        loss=loss if unit.max_rows == 1 else None,
        exponent=scale,
        unit=unit,
        n_records=n_samples,
    )


def share_of_record(epsilon: float, unit: Unit) -> float:
    """The part of a person's epsilon that one of the person's records may cost, rounded down."""
    share = epsilon / unit.max_rows
    if np.isfinite(share) and Fraction(share) * unit.max_rows > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return share


def _check_candidates(mechanism: str, n_samples: int, n_categories: int) -> None:
    size = n_candidates(n_samples, n_categories)
    if size > MAX_CANDIDATES:
        raise ValueError(
            f"{n_samples} records in {n_categories} categories have more than {MAX_CANDIDATES} "
            f"possible posteriors, the most that {mechanism!r} lists. Use mechanism='lshist', "
            "which lists none."
        )
