"""What is known exactly of a Dirichlet release."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, xlogy

from .._validation import check_real
from ._checks import checked_distribution, checked_noise, checked_row


def expected_kl(counts: ArrayLike, r: float, alpha: float) -> float:
    """The expectation of KL(p || Y), in closed form.

    Examples
    --------
    >>> from skdirdp.utility import expected_kl
    >>> round(expected_kl([70, 20, 10], r=0.5, alpha=2.0), 6)
    0.020627
    """
    counts = checked_row(counts)
    r, alpha = checked_noise(r, alpha)
    p = counts / counts.sum()
    log_ratio = xlogy(p, p) - p * digamma(r * counts + alpha)
    return float(log_ratio.sum() + digamma(r * counts.sum() + counts.size * alpha))


def bias(counts: ArrayLike, r: float, alpha: float) -> np.ndarray:
    """``E[Y] - p``; its size is (3) of paper A."""
    counts = checked_row(counts)
    r, alpha = checked_noise(r, alpha)
    total, size = counts.sum(), counts.size
    return alpha * (total - size * counts) / (total * (r * total + size * alpha))


def variance(counts: ArrayLike, r: float, alpha: float) -> np.ndarray:
    """The variance of each entry of Y."""
    counts = checked_row(counts)
    r, alpha = checked_noise(r, alpha)
    shapes = r * counts + alpha
    mean, total = shapes / shapes.sum(), shapes.sum()
    return mean * (1 - mean) / (total + 1)


def simplex_variance(p: ArrayLike, k: float) -> np.ndarray:
    """The variance of each entry of ``Dirichlet(k p)``, whose mean is p.

    Proposition 1 of "The Dirichlet Mechanism for Differential Privacy on the Unit
    Simplex".
    """
    p = checked_distribution(p)
    return p * (1 - p) / (check_real("k", k, above=0) + 1)


def concentration_for_variance(target: float) -> float:
    """The k at which no entry of ``Dirichlet(k p)`` has a larger variance, whatever p.

    Examples
    --------
    >>> from skdirdp.utility import concentration_for_variance
    >>> concentration_for_variance(0.01)
    24.0
    """
    return max(0.25 / check_real("target", target, above=0) - 1, 0.0)


def dirichlet_kl(first: ArrayLike, second: ArrayLike) -> float:
    """KL divergence between two Dirichlet distributions, (20) of paper B."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    normaliser = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
    return float(normaliser - (b - a) @ (digamma(a) - digamma(a.sum())))


def dirichlet_renyi(first: ArrayLike, second: ArrayLike, order: float) -> float:
    """Renyi divergence between two Dirichlet distributions, (3) of paper B; may be infinite."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    order = check_real("order", order, above=1)
    tilted = a + (order - 1) * (a - b)
    if tilted.min() <= 0:
        return np.inf

    def log_beta(shapes):
        return gammaln(shapes).sum() - gammaln(shapes.sum())

    return float((log_beta(b) - log_beta(a)) + (log_beta(tilted) - log_beta(a)) / (order - 1))
