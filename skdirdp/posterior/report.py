"""What the release of a posterior guarantees, and how its noise is chosen for that."""

from dataclasses import dataclass

import numpy as np

from .._messages import beyond_the_guarantee, exactly
from ..accounting import Composition, PureDP
from .lattice import n_candidates
from .mechanisms import (
    LAPLACE,
    MAX_CANDIDATES,
    exact_exponent,
    laplace_loss,
    paper_exponent,
)


@dataclass(frozen=True)
class PosteriorPrivacy:
    """What the release of a posterior guarantees.

    Parameters
    ----------
    mechanism : str
        Its name.
    epsilon : float
        The release is epsilon-DP; infinite if it is not private.
    calibration : {"exact", "bounded", "paper", "none"}
        How the noise was chosen. "exact": the largest log-ratio over all neighbours
        was computed and is epsilon. "bounded": there are too many to follow them all,
        and a bound shows that none exceeds epsilon.
    loss : float or None
        The largest log-ratio over all neighbours and outcomes, where it is known.
        With Laplace noise it is attained as soon as the clamp leaves room.
    exponent : float or None
        The factor of distance over sensitivity in an exponential mechanism.
    is_private : bool
        False for "ehdl" and for an infinite epsilon.
    delta, adjacency, releases, not_covered
        As in `skdirdp.base.PrivacyReport`; the first three always 0, "replace" and 1.

    Examples
    --------
    >>> from skdirdp import PrivateDirichletPosterior
    >>> posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
    >>> posterior.privacy_.epsilon, posterior.privacy_.delta
    (1.0, 0.0)
    >>> bool(posterior.privacy_.composition().delta(0.5) < 0.3)
    True
    """

    mechanism: str
    epsilon: float
    calibration: str
    loss: float | None
    exponent: float | None = None
    is_private: bool = True
    delta: float = 0.0
    adjacency: str = "replace"
    releases: int = 1
    not_covered: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.is_private:
            return f"no privacy: mechanism {self.mechanism!r} at this epsilon guarantees nothing"
        told = f"({exactly(self.epsilon)}, 0)-differentially private against replacing one record"
        how = {"exact": "the largest loss of all was computed", "bounded": "by a proven bound"}
        means = how.get(self.calibration, "as in the paper")
        return f"{told}; by mechanism {self.mechanism!r}, {means}" + beyond_the_guarantee(
            self.not_covered
        )

    def composition(self) -> Composition:
        """What the claim of epsilon-DP alone says: randomised response, the worst there is.

        Returns
        -------
        Composition
            The release itself may be better.
        """
        if not self.is_private:
            raise ValueError("epsilon must be finite to be composed; the release is not private")
        return Composition([(PureDP(self.epsilon, self.adjacency), 1)])


def posterior_privacy(
    mechanism: str,
    calibration: str,
    prior: tuple[float, ...],
    n_samples: int,
    epsilon: float,
    gamma: float,
) -> PosteriorPrivacy:
    """The guarantee of a release; it depends on public sizes and parameters only."""
    if np.isinf(epsilon):
        return PosteriorPrivacy(mechanism, np.inf, "none", np.inf, is_private=False)
    if mechanism in LAPLACE:
        loss = laplace_loss(mechanism, len(prior), epsilon)
        return PosteriorPrivacy(mechanism, epsilon, "paper", loss)
    size = n_candidates(n_samples, len(prior))
    if size > MAX_CANDIDATES:
        raise ValueError(
            f"{n_samples} records in {len(prior)} categories have {size} possible posteriors; "
            f"{mechanism!r} lists at most {MAX_CANDIDATES}. Use mechanism='lshist', which "
            "lists none."
        )
    exact = calibration == "exact" and mechanism != "ehdl"
    choose = exact_exponent if exact else paper_exponent
    exponent = choose(mechanism, prior, n_samples, epsilon, gamma)
    method = "paper" if not exact else "bounded" if exponent.loss is None else "exact"
    is_private = mechanism != "ehdl"
    return PosteriorPrivacy(
        mechanism,
        epsilon if is_private else np.inf,
        method,
        exponent.loss,
        exponent.scale,
        is_private,
    )
