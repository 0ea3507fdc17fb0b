"""What the release of a posterior guarantees, and how its noise is chosen for that."""

from dataclasses import dataclass

import numpy as np

from ..accounting import NoPrivacy, PureDP
from ..base import PrivacyReport
from .lattice import n_candidates
from .mechanisms import (
    LAPLACE,
    MAX_CANDIDATES,
    exact_exponent,
    laplace_loss,
    paper_exponent,
)

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
    "replace". `composition` is that of the claim alone, randomised response: the release
    itself may be better.

    Parameters
    ----------
    epsilon : float
        The release is epsilon-DP; infinite if it is not private.
    delta, order, adjacency, mechanisms, not_covered
        As in `skdirdp.PrivacyReport`; `mechanisms` holds the claim, a
        `skdirdp.accounting.PureDP` or `skdirdp.accounting.NoPrivacy`.
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
) -> PosteriorPrivacy:
    """The guarantee of a release; it depends on public sizes and parameters only."""
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
    claimed = np.inf if mechanism == "ehdl" else epsilon
    claim = NoPrivacy() if np.isinf(claimed) else PureDP(claimed)
    return PosteriorPrivacy(
        epsilon=claimed,
        delta=0.0,
        order=None,
        adjacency=claim.adjacency,
        mechanisms=((claim, 1),),
        not_covered=not_covered,
        name=mechanism,
        calibration=method,
        loss=loss,
        exponent=scale,
    )


def _check_candidates(mechanism: str, n_samples: int, n_categories: int) -> None:
    size = n_candidates(n_samples, n_categories)
    if size > MAX_CANDIDATES:
        raise ValueError(
            f"{n_samples} records in {n_categories} categories have {size} possible posteriors; "
            f"{mechanism!r} lists at most {MAX_CANDIDATES}. Use mechanism='lshist', which "
            "lists none."
        )
