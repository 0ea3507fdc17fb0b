"""Names that nobody could list beforehand, found by how many records hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm

from .._validation import store_real
from ..accounting import ApproximateDP
from ..accounting.worst_case import WorstCase
from .additive import GaussianMechanism
from .calibration import _gaussian_mu
from .contribution import ContributionBound
from .sampling import noise_grid

# The part of delta that is for names which one record alone holds. Less raises the threshold,
# more raises the noise; both move by a few percent over most of the range.
_PART_OF_DELTA = 0.25


@dataclass(frozen=True, repr=False)
class SelectionMechanism(GaussianMechanism):
    """Gaussian noise on the counts of names, of which those above a threshold are published.

    Names that several records hold are hidden by the noise, and a name that one record alone
    holds is published with a probability that `failure` bounds for all names of a record
    together (docs/theory.md, "Names that nobody could list").

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count; 0 for none, and no threshold.
    smoothing : float, default=0
        Not used.
    failure : float in (0, 1)
        The probability that a name of one record alone is published, at most.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        A record adds `max_count` to a name at most, and `max_total` to all names together,
        in whole numbers.

    Examples
    --------
    >>> from skdirdp.mechanisms.selection import SelectionMechanism
    >>> mechanism = SelectionMechanism(sigma=30.0, failure=1e-6, max_total=50)
    >>> round(mechanism.threshold, 1)
    165.7
    >>> mechanism.delta(10.0) >= mechanism.failure
    True
    """

    name: ClassVar[str] = "selection"

    failure: float = 1e-6

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "failure", above=0, below=1)

    @classmethod
    def within(
        cls, epsilon: float, delta: float, adjacency: str, contribution: ContributionBound
    ) -> "SelectionMechanism":
        """The mechanism of a budget, which it uses up.

        Parameters
        ----------
        epsilon, delta : float
            The budget; infinite epsilon for no noise.
        adjacency : {"replace", "add_remove"}
        contribution : ContributionBound
            Of a record to the counts of all names.

        Returns
        -------
        SelectionMechanism
        """
        failure = _PART_OF_DELTA * delta
        sigma = 0.0
        if np.isfinite(epsilon):
            # The two compose to failure + (1 - failure) rest, which is delta.
            rest = (delta - failure) / (1 - failure) * (1 - 1e-12)
            mu = _gaussian_mu(ApproximateDP(float(epsilon), rest, adjacency))
            sigma = float(np.sqrt(contribution.squared_norm(adjacency)) / mu * (1 + 1e-12))
        return cls(
            sigma,
            failure=failure,
            adjacency=adjacency,
            max_count=contribution.max_count,
            max_total=contribution.max_total,
        )

    @property
    def threshold(self) -> float:
        """The noisy count that a name needs to be published."""
        if self.is_exact:
            return 0.0
        # Noise is rounded to a grid, which can lift it by one step.
        step = noise_grid(self.sigma, at_most=self.contribution.grid)
        # Counts are whole, so that a record gives no more names than its total.
        names = max(1.0, self.contribution.total("add_remove"))
        # All names of a record stay hidden with probability (1 - p)^names, or more.
        p = -np.expm1(np.log1p(-self.failure) / names) * (1 - 1e-9)
        return float((self.contribution.largest + self.sigma * norm.isf(p) + step) * (1 + 1e-9))

    @classmethod
    def _draw(cls, requests, generator):
        """Noisy counts of the names that are published, and 0 for the others."""
        published = []
        for request in requests:
            mechanism = request.mechanism
            noisy = mechanism.noisy(request.counts, generator, request.grid)
            published.append(np.where(noisy >= mechanism.threshold, noisy, 0.0))
        return (np.concatenate(published),)

    def _prepared(self, *drawn):
        return drawn

    @staticmethod
    def _probabilities(*prepared):
        (counts,) = prepared
        return counts

    def _released_without_noise(self, counts):
        return counts

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        return {
            direction: replace(case, failure=self.failure)
            for direction, case in super()._noisy_worst_cases().items()
        }

    def _limits(self, release, first, stop, n_samples, confidence):
        raise ValueError("there are no error bars of a selection: names are missing in it")

    def _with_precision(self, precision: float) -> Any:
        return replace(self, sigma=self.sigma / precision)
