"""Privacy guarantee of a released posterior, and the calibration of its noise.

The loss of an exponential mechanism is at most epsilon, but usually much smaller, and the cost
of several releases depends on its distribution. `enumerated_profile` computes the privacy profile
``delta(epsilon)`` as a maximum over all pairs of neighbours, in both orders, of a sum over all
candidates.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from .._persons import RECORD, Unit
from ..accounting import NoPrivacy, ProfiledDP, PureDP
from ..accounting.worst_case import OF_PERSONS
from ..base import PrivacyReport
from .hellinger import PosteriorLattice, n_candidates, posterior_lattice
from .mechanisms import (
    LAPLACE,
    MAX_CANDIDATES,
    exact_exponent,
    inverse_sensitivities,
    laplace_loss,
    paper_exponent,
)

# Upper bound on the relative error of a computed loss.
_LOSS_ROUNDING = 1e-8

# Descriptions of the calibration methods in reports.
_CALIBRATION_TEXTS = {
    "exact": "the largest loss of all was computed",
    "bounded": "by a proven bound",
    "paper": "as in the paper",
}

# The largest product of the numbers of pairs of neighbours and of candidates.
_MAX_WORK = 1 << 20
_BLOCK = 1 << 18
# Number of points between 0 and the largest loss at which the profile is evaluated.
_POINTS = 64
# Allowance for errors of the probabilities, which are accurate to about 1e-13.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-11
# Outside this range the allowance, or rounding errors near 1, would dominate.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 16.0


@dataclass(frozen=True, kw_only=True)
class PosteriorPrivacy(PrivacyReport):
    """Privacy report of a released posterior.

    A `skdirdp.PrivacyReport` of one release, with `delta` 0, `order` None and `adjacency`
    "replace". `composition` uses the exact profile of "ehd" and "ehds" if there are few enough
    neighbours to enumerate, and randomised response otherwise.

    Parameters
    ----------
    epsilon : float
        The release is epsilon-DP; infinite if it is not private.
    delta, order, adjacency, mechanisms, not_covered
        As in `skdirdp.PrivacyReport`; `mechanisms` contains the guarantee, a
        `skdirdp.accounting.ProfiledDP`, `PureDP` or `NoPrivacy`.
    unit, n_records
        As in `skdirdp.PrivacyReport`.
    name : str
        The name of the mechanism; also called `mechanism`.
    calibration : {"exact", "bounded", "paper", "none"}
        The calibration of the noise. "exact": the largest log-ratio over all neighbours
        was computed and equals epsilon. "bounded": there are too many neighbours to evaluate,
        and a bound shows that no log-ratio exceeds epsilon.
    loss : float or None
        The largest log-ratio over all neighbours and outcomes, if known. With Laplace noise
        it is attained unless clamping prevents it.
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
        """Whether the release is private; false for "ehdl" and for an infinite epsilon."""
        return bool(np.isfinite(self.epsilon))

    def __str__(self) -> str:
        if not self.is_private:
            return f"no privacy: mechanism {self.name!r} at this epsilon guarantees nothing"
        return super().__str__()

    def _means(self) -> str:
        return f"by mechanism {self.name!r}, {_CALIBRATION_TEXTS[self.calibration]}"


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
    """Compute the guarantee of a release from public sizes and parameters.

    The number of records is public, so replacing a person with m records replaces m records: a
    release that is (epsilon / m)-DP for records is epsilon-DP for persons.
    """
    per_person, epsilon = epsilon, per_record_epsilon(epsilon, unit)
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
    guarantee: NoPrivacy | PureDP | ProfiledDP | None = None
    if np.isinf(claimed):
        guarantee = NoPrivacy(adjacency)
    elif loss is not None and scale is not None and unit.max_rows == 1:
        largest = min(claimed, loss * (1 + _LOSS_ROUNDING))
        guarantee = enumerated_profile(
            mechanism, prior, n_samples, scale, gamma, largest, adjacency
        )
    if guarantee is None:
        guarantee = PureDP(claimed, adjacency)
    return PosteriorPrivacy(
        epsilon=claimed,
        delta=0.0,
        order=None,
        adjacency="replace",
        mechanisms=((guarantee, 1),),
        not_covered=not_covered,
        name=mechanism,
        calibration=method,
        loss=loss if unit.max_rows == 1 else None,
        exponent=scale,
        unit=unit,
        n_records=n_samples,
    )


def per_record_epsilon(epsilon: float, unit: Unit) -> float:
    """Divide the epsilon of a person by the number of records, rounded down."""
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


@lru_cache(maxsize=256)
def enumerated_profile(
    mechanism: str,
    prior: tuple[float, ...],
    n_samples: int,
    scale: float,
    gamma: float,
    epsilon: float,
    adjacency: str,
) -> ProfiledDP | None:
    """Compute the profile of a release with loss at most epsilon; None if it takes too long."""
    k, size = len(prior), n_candidates(n_samples, len(prior))
    if size * size * k * (k - 1) // 2 > _MAX_WORK:
        return None
    if not _LEAST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        return None
    lattice = posterior_lattice(prior, n_samples)
    rates = inverse_sensitivities(mechanism, lattice, gamma)
    logs = np.stack(
        [
            -scale * rate * lattice.distances(counts)
            for rate, counts in zip(rates, lattice.counts, strict=True)
        ]
    )
    probabilities = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    first, second = _ordered_neighbours(lattice)
    epsilons = np.linspace(0.0, epsilon, _POINTS)
    deltas = np.zeros(_POINTS)
    rows = max(1, _BLOCK // size)
    for start in range(0, len(first), rows):
        p, q = (probabilities[ends[start : start + rows]] for ends in (first, second))
        for point, factor in enumerate(np.exp(epsilons)):
            found = np.maximum(p - factor * q, 0.0).sum(axis=1).max()
            deltas[point] = max(deltas[point], float(found))
    # At most the value of randomised response at 0.
    deltas = np.minimum(deltas * (1 + _RELATIVE) + _ABSOLUTE, np.tanh(epsilon / 2))
    deltas[-1] = 0.0
    return ProfiledDP.from_points(epsilons.tolist(), deltas.tolist(), adjacency)


def _ordered_neighbours(lattice: PosteriorLattice) -> tuple[np.ndarray, np.ndarray]:
    """List all pairs of neighbours in both orders, up to relabelling if it is a symmetry."""
    edges = lattice.edges()
    first = np.concatenate([x for x, _ in edges])
    second = np.concatenate([x for _, x in edges])
    if lattice.symmetric:
        # By relabelling, one of the two count vectors of a pair is decreasing.
        decreasing = np.all(np.diff(lattice.counts, axis=1) <= 0, axis=1)
        kept = decreasing[first] | decreasing[second]
        first, second = first[kept], second[kept]
    return np.concatenate([first, second]), np.concatenate([second, first])
