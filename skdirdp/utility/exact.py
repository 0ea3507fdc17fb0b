"""Exact moments and divergences of Dirichlet releases."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, xlogy

from .._validation import check_real
from ..mechanisms import SimplexMechanism
from ..mechanisms.dirichlet import dirichlet_variance
from .checks import checked_distribution, checked_noise, checked_row


def expected_kl(counts: ArrayLike, r: float, alpha: float) -> float:
    """The expectation of KL(p || Y), in closed form.

    Parameters
    ----------
    counts : array-like of shape (n_categories,)
        x, the true counts.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    float

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
    """``E[Y] - p``; its size is (3) of paper A.

    Parameters
    ----------
    counts : array-like of shape (n_categories,)
        x, the true counts.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    ndarray of shape (n_categories,)

    Examples
    --------
    >>> from skdirdp.utility import bias
    >>> bias([70, 20, 10], r=0.5, alpha=2.0).round(4)
    array([-0.0393,  0.0143,  0.025 ])
    """
    counts = checked_row(counts)
    r, alpha = checked_noise(r, alpha)
    total, size = counts.sum(), counts.size
    return alpha * (total - size * counts) / (total * (r * total + size * alpha))


def variance(counts: ArrayLike, r: float, alpha: float) -> np.ndarray:
    """The variance of each entry of Y.

    Parameters
    ----------
    counts : array-like of shape (n_categories,)
        x, the true counts.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    ndarray of shape (n_categories,)

    Examples
    --------
    >>> from skdirdp.utility import variance
    >>> variance([70, 20, 10], r=0.5, alpha=2.0).round(6)
    array([0.003933, 0.002954, 0.001919])
    """
    counts = checked_row(counts)
    r, alpha = checked_noise(r, alpha)
    shapes = r * counts + alpha
    return dirichlet_variance(shapes / shapes.sum(), shapes.sum())


def simplex_variance(p: ArrayLike, k: float) -> np.ndarray:
    """The variance of each entry of ``Dirichlet(k p)``, whose mean is p.

    Proposition 1 of "The Dirichlet Mechanism for Differential Privacy on the Unit
    Simplex".

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Probabilities.
    k : float
        Concentration.

    Returns
    -------
    ndarray of shape (n_categories,)

    Examples
    --------
    >>> from skdirdp.utility import simplex_variance
    >>> simplex_variance([0.5, 0.3, 0.2], k=24).round(6)
    array([0.01  , 0.0084, 0.0064])
    """
    p = checked_distribution(p)
    return dirichlet_variance(p, check_real("k", k, above=0))


def concentration_for_variance(target: float) -> float:
    """The k at which no entry of ``Dirichlet(k p)`` has a larger variance, whatever p.

    Parameters
    ----------
    target : float
        The largest variance.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import concentration_for_variance
    >>> concentration_for_variance(0.01)
    24.0
    """
    target = check_real("target", target, above=0)
    return 0.0 if target >= 0.25 else SimplexMechanism.k_for_variance(target)


def dirichlet_kl(first: ArrayLike, second: ArrayLike) -> float:
    """KL divergence between two Dirichlet distributions, (20) of paper B.

    Parameters
    ----------
    first, second : array-like of shape (n_categories,)
        Positive parameters.

    Returns
    -------
    float
        Of the first from the second.

    Examples
    --------
    >>> from skdirdp.utility import dirichlet_kl
    >>> round(dirichlet_kl([1, 1], [2, 1]), 6)
    0.306853
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    normaliser = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
    return float(normaliser - (b - a) @ (digamma(a) - digamma(a.sum())))


def dirichlet_renyi(first: ArrayLike, second: ArrayLike, order: float) -> float:
    """Renyi divergence between two Dirichlet distributions, (3) of paper B; may be infinite.

    Parameters
    ----------
    first, second : array-like of shape (n_categories,)
        Positive parameters.
    order : float
        Greater than 1.

    Returns
    -------
    float
        Of the first from the second.

    Examples
    --------
    >>> from skdirdp.utility import dirichlet_renyi
    >>> round(dirichlet_renyi([2, 1], [1, 1], order=2.0), 6)
    0.287682
    >>> dirichlet_renyi([1, 1], [2, 1], order=2.0)
    inf
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    order = check_real("order", order, above=1)
    tilted = a + (order - 1) * (a - b)
    if tilted.min() <= 0:
        return np.inf

    def log_beta(shapes):
        return gammaln(shapes).sum() - gammaln(shapes.sum())

    return float((log_beta(b) - log_beta(a)) + (log_beta(tilted) - log_beta(a)) / (order - 1))
