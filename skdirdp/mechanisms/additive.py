"""Gaussian and Laplace noise on counts, turned into smooth probabilities.

Noise leaves negative counts and empty rows. Both mechanisms therefore publish the
mean of each count given what was observed, under a flat prior on the non-negative
numbers: it is positive, close to the observation where that is large, and never
smaller than the noise can tell from 0. All of it is post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import erfcx

from .._validation import store_real
from ..accounting.pairs import DominatingPair, GaussianPair, LaplacePair
from ..accounting.worst_case import WorstCase, in_every_direction
from .base import Mechanism, normalise
from .reference import entry_quadrature, row_total

_NOISE_NODES = 64


@cache
def _normal_nodes() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.hermite_e.hermegauss(_NOISE_NODES)


@cache
def _exponential_nodes() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.laguerre.laggauss(_NOISE_NODES // 2)


@dataclass(frozen=True, repr=False)
class _AdditiveMechanism(Mechanism):
    """Noise of a public scale on every count."""

    def _draw(self, counts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        estimate = self._posterior_mean(counts + self._noise(generator, counts.shape))
        estimate += self.smoothing
        return normalise(np.maximum(estimate, np.finfo(float).tiny, out=estimate))

    def _noise(self, generator, shape) -> np.ndarray:
        raise NotImplementedError

    def _posterior_mean(self, noisy: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _noise_quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def expected_divergence(self, n_samples: float, n_categories: int, n_rows: int = 1) -> float:
        """By quadrature over the noise, and to second order in the row's sum.

        Parameters
        ----------
        n_samples : float
            Records that the table counts.
        n_categories, n_rows : int
            Cells per row, and rows.

        Returns
        -------
        float
        """
        if n_categories < 2:
            return 0.0
        total = row_total(n_samples, n_rows)
        z, noise_weights = self._noise_quadrature()

        def estimates(p):
            noisy = total * p[:, np.newaxis] + z
            clean = np.maximum(noisy, 0.0) if self.is_exact else self._posterior_mean(noisy)
            return np.maximum(clean + self.smoothing, np.finfo(float).tiny)

        p, weights = entry_quadrature(n_categories, size_biased=True)
        log_estimate = np.log(estimates(p)) @ noise_weights
        # E log of the row's sum, to second order around its mean.
        q, sum_weights = entry_quadrature(n_categories, size_biased=False)
        cells = estimates(q)
        means = cells @ noise_weights
        variances = (cells - means[:, np.newaxis]) ** 2 @ noise_weights
        mean = n_categories * (sum_weights @ means)
        variance = n_categories * (sum_weights @ variances)
        log_sum = np.log(mean) - variance / (2 * mean**2)
        return float(weights @ (np.log(p) - log_estimate) + log_sum)


@dataclass(frozen=True, repr=False)
class GaussianMechanism(_AdditiveMechanism):
    """Gaussian noise on counts, then smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count; 0 for none.
    smoothing : float, default=0
        Added to every estimated count.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell.

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> round(GaussianMechanism(sigma=10.0).rdp(2.0), 6)
    0.02
    """

    name: ClassVar[str] = "gaussian"

    sigma: float
    smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "sigma", at_least=0)
        store_real(self, "smoothing", at_least=0)

    @property
    def is_exact(self) -> bool:
        return self.sigma == 0

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        mu = np.sqrt(self.contribution.squared_norm(self.adjacency)) / self.sigma
        pairs: tuple[tuple[DominatingPair, int], ...] = ((GaussianPair(float(mu)), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    def _noise(self, generator, shape):
        return self.sigma * generator.standard_normal(shape)

    def _posterior_mean(self, noisy):
        # y + sigma * phi(y / sigma) / Phi(y / sigma), the ratio through the scaled
        # error function, which does not underflow
        z = noisy / self.sigma
        return noisy + self.sigma * np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))

    def _noise_quadrature(self):
        x, weights = _normal_nodes()
        return self.sigma * x, weights / weights.sum()


@dataclass(frozen=True, repr=False)
class LaplaceMechanism(_AdditiveMechanism):
    """Laplace noise on counts, then smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    scale : float
        Scale b of the noise on each count, of density ``exp(-|z| / b) / (2 b)``; 0 for none.
    smoothing : float, default=0
        Added to every estimated count.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell.

    Examples
    --------
    >>> from skdirdp.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(scale=2.0).delta(1.0)
    0.0
    """

    name: ClassVar[str] = "laplace"

    scale: float
    smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "scale", at_least=0)
        store_real(self, "smoothing", at_least=0)

    @property
    def is_exact(self) -> bool:
        return self.scale == 0

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # A record that fills its cells is the worst. For two cells with shifts a <= b
        # (in scales) and x = (a + b - epsilon) / 2, delta = 1 - e^-x (1 + min(x, a) / 2)
        # for 0 <= epsilon <= a + b, which grows as the smaller shift gives to the larger;
        # domination survives composition, so transfer by transfer all cells follow.
        records = 2 if self.adjacency == "replace" else 1
        pairs: tuple[tuple[DominatingPair, int], ...] = tuple(
            (LaplacePair(entry / self.scale), records * count)
            for entry, count in self.contribution.entries
        )
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    def _noise(self, generator, shape):
        return generator.laplace(scale=self.scale, size=shape)

    def _posterior_mean(self, noisy):
        # integral of x exp(-|x - y| / b) over x >= 0, divided by that without x
        y = np.maximum(noisy, 0.0)
        decay = np.exp(-y / self.scale)
        return (2 * y + self.scale * decay) / (2 - decay)

    def _noise_quadrature(self):
        x, weights = _exponential_nodes()
        return self.scale * np.concatenate([-x, x]), np.concatenate([weights, weights]) / 2
