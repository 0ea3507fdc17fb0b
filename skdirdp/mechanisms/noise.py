"""What is known of the noise in a table, and how well the table can be read through it."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from .reference import entry_quadrature, row_total
from .table import CountTable

_ENTRY_NODES = 40
_NOISE_NODES = 12
_POSTERIOR_NODES = 28
# Noise beyond so many deviations is left out, and entries rarer than this.
_REACH = 7.0
_RARE = 1e-10


class Noise(NamedTuple):
    """The variance of a noisy count, whose mean is the count.

    Attributes
    ----------
    variance : float
        Of a cell that holds nothing.
    per_count : float
        What every count in the cell adds to it.
    is_laplace : bool
        Whether it has Laplace's heavier tails; else those of a normal variable, nearly.

    Examples
    --------
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> noise = DirichletMechanism(r=0.5, alpha=4.0).noise
    >>> noise.of(0), noise.of(10)  # alpha / r**2, and 1 / r more for every count
    (16.0, 36.0)
    """

    variance: float
    per_count: float = 0.0
    is_laplace: bool = False

    def of(self, counts):
        """The variance of cells that hold so much.

        Parameters
        ----------
        counts : float or ndarray

        Returns
        -------
        float or ndarray
        """
        return self.variance + self.per_count * counts

    def reach(self, confidence: float) -> float:
        """How many deviations noise stays within, on either side, with this probability.

        Sums of Laplace variables have lighter tails than one of them; the larger of both
        quantiles is taken.

        Parameters
        ----------
        confidence : float in (0, 1)

        Returns
        -------
        float
        """
        normal = float(ndtri((1 + confidence) / 2))
        return max(normal, -np.log1p(-confidence) / np.sqrt(2)) if self.is_laplace else normal


@lru_cache(maxsize=4096)
def divergence_of_reading(n_categories: int, total: float, noise: Noise, smoothing: float) -> float:
    """Expected KL divergence of a row that is read under the very prior it was drawn from.

    A row is imagined as for every other calibration (`mechanisms.reference`), and every cell
    is read as its mean given the noisy count, which is taken as normal: the best that any
    reading can do that looks at one cell at a time. By Gauss's quadrature, over the entry,
    the noise, and the count given both.
    """
    d = n_categories
    if d < 2 or total <= 0:
        return 0.0
    p, weights = entry_quadrature(d, size_biased=True, nodes=_ENTRY_NODES)
    z, noise_weights = np.polynomial.hermite_e.hermegauss(_NOISE_NODES)
    deviation = np.sqrt(noise.of(total * p))[:, np.newaxis]
    noisy = total * p[:, np.newaxis] + deviation * z
    ratio = (_posterior_mean(noisy, deviation, d, total) + smoothing) / p[:, np.newaxis]
    weights = np.multiply.outer(weights, noise_weights / noise_weights.sum())
    # What rows are divided by is a mean over the same nodes: by Jensen's inequality the
    # difference is then never negative, however coarse they are.
    return float(np.log(np.sum(weights * ratio)) - np.sum(weights * np.log(ratio)))


def _posterior_mean(noisy: np.ndarray, deviation: np.ndarray, d: int, total: float) -> np.ndarray:
    """The mean of a count given a noisy one, where its share is Beta(1/2, (d - 1) / 2).

    In terms of the root u of the count, in which the prior's density at 0 is finite.
    """
    most = np.sqrt(total * betaincinv(0.5, (d - 1) / 2, 1 - _RARE))
    low = np.minimum(np.sqrt(np.maximum(noisy - _REACH * deviation, 0.0)), most / 2)
    high = np.minimum(np.sqrt(np.maximum(noisy, 0.0) + _REACH * deviation), most)
    x, weights = np.polynomial.legendre.leggauss(_POSTERIOR_NODES)
    u = low[..., np.newaxis] + (high - low)[..., np.newaxis] * (1 + x) / 2
    log_density = (d - 3) / 2 * np.log1p(-np.minimum(u**2 / total, 1 - _RARE))
    log_density -= ((noisy[..., np.newaxis] - u**2) / deviation[..., np.newaxis]) ** 2 / 2
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True)) * weights
    return (density * u**2).sum(axis=-1) / density.sum(axis=-1)


def expected_divergence_of_reading(table: CountTable, noise: Noise) -> float:
    """`divergence_of_reading`, of a table by its public description."""
    return divergence_of_reading(table.n_categories, row_total(table), noise, table.min_smoothing)
