"""Bounds on the KL divergence of a release, each with its inverses at fixed noise."""

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_integer, check_real
from ..numerics.roots import safe_root
from .checks import checked_beta, checked_distribution, checked_noise
from .rows import whole_rows

#: The least prior for which Theorem 2 of paper A is proved.
LEAST_ALPHA = 0.5


def kl_tail(eta: float, n_samples: float, n_categories: int, r: float, alpha: float) -> float:
    """A bound on P[KL(p || Y) > eta]: Theorem 2 of paper A.

    It needs ``r N >= d alpha / (exp(eta / 2) - 1)``; where that fails, 1 is returned.
    The paper states it for every alpha, but its proof uses alpha >= 1/2, and less is
    refused here.

    Parameters
    ----------
    eta : float
        The divergence.
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    float
        A probability.

    Examples
    --------
    >>> from skdirdp.utility import kl_tail
    >>> round(kl_tail(0.5, n_samples=10_000, n_categories=10, r=0.2, alpha=2.0), 11)
    1.27e-08
    """
    eta = check_real("eta", eta, above=0)
    total = check_real("n_samples", n_samples, above=0) * checked_noise(r, alpha)[0]
    if total < _prior(n_categories, alpha) / np.expm1(eta / 2):
        return 1.0
    return float(np.exp(-total * _kl_rate(eta)))


def kl_tail_error(
    beta: float, n_samples: float, n_categories: int, r: float, alpha: float
) -> float:
    """The eta that KL(p || Y) exceeds with probability beta at most, by `kl_tail`.

    Parameters
    ----------
    beta : float in (0, 1)
        The probability that the bound may fail.
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    float
        Infinite if there are too few rows for any.

    Examples
    --------
    >>> from skdirdp.utility import kl_tail_error
    >>> round(kl_tail_error(0.05, n_samples=10_000, n_categories=10, r=0.2, alpha=2.0), 4)
    0.1714
    """
    log_inverse = -np.log(checked_beta(beta))
    total = check_real("n_samples", n_samples, above=0) * checked_noise(r, alpha)[0]
    condition = 2 * np.log1p(_prior(n_categories, alpha) / total)

    def excess(log_eta):
        return np.log(log_inverse) - np.log(total * _kl_rate(np.exp(log_eta)))

    # The rate tends to 1/6 for large eta: with too few rows no eta is enough.
    if total / 6 <= log_inverse:
        return np.inf
    log_eta = safe_root(excess, 0.0, -1.0, tolerance=1e-13, limits=(-60.0, np.inf))
    return float(max(condition, np.exp(log_eta))) * (1 + 1e-12)


def kl_tail_rows(eta: float, beta: float, n_categories: int, r: float, alpha: float) -> int:
    """The rows from which on KL(p || Y) exceeds eta with probability beta at most.

    Parameters
    ----------
    eta : float
        The divergence.
    beta : float in (0, 1)
        The probability that the bound may fail.
    n_categories : int
        d.
    r, alpha : float
        The noise: ``Y ~ Dirichlet(r x + alpha)``.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdirdp.utility import kl_tail_rows
    >>> kl_tail_rows(0.1, beta=0.05, n_categories=10, r=0.2, alpha=2.0)
    27052
    """
    eta = check_real("eta", eta, above=0)
    r, alpha = checked_noise(r, alpha)
    condition = _prior(n_categories, alpha) / np.expm1(eta / 2)
    return whole_rows(max(condition, -np.log(checked_beta(beta)) / _kl_rate(eta)) / r)


def _kl_rate(eta):
    return eta**2 / (2 * (2 + eta) * (4 + 3 * eta))


def _prior(n_categories: int, alpha: float) -> float:
    check_real("alpha", alpha, at_least=LEAST_ALPHA)
    return check_integer("n_categories", n_categories, at_least=1) * alpha


# Posterior sampling with a larger prior --------------------------------------------


def posterior_kl_bound(p: ArrayLike, n_samples: float, extra: float) -> float:
    """(10) and (11) of paper B: ``G(p) s^2 / (N + 1)`` with ``G(p) = sum(1 / p)``.

    It bounds the expected KL divergence of ``Dirichlet(X + alpha + s)``, from which a
    private sample is drawn, from ``Dirichlet(X + alpha)``, for X multinomial with
    probabilities p and every alpha of at least 1.

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Positive probabilities.
    n_samples : float
        N, the records counted.
    extra : float
        s, by which the prior of every cell is raised.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import posterior_kl_bound
    >>> round(posterior_kl_bound([0.5, 0.3, 0.2], n_samples=999, extra=2.0), 6)
    0.041333
    """
    extra = check_real("extra", extra, at_least=0)
    return _inverse_sum(p) * extra**2 / (check_real("n_samples", n_samples, at_least=0) + 1)


def posterior_kl_rows(p: ArrayLike, extra: float, target: float) -> int:
    """The rows at which `posterior_kl_bound` reaches a target.

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Positive probabilities.
    extra : float
        s, by which the prior of every cell is raised.
    target : float
        The largest bound.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdirdp.utility import posterior_kl_rows
    >>> posterior_kl_rows([0.5, 0.3, 0.2], extra=2.0, target=0.01)
    4133
    """
    extra, target = check_real("extra", extra, at_least=0), check_real("target", target, above=0)
    return whole_rows(_inverse_sum(p) * extra**2 / target - 1)


def posterior_kl_extra(p: ArrayLike, n_samples: float, target: float) -> float:
    """The largest prior added at which `posterior_kl_bound` is within a target.

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Positive probabilities.
    n_samples : float
        N, the records counted.
    target : float
        The largest bound.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import posterior_kl_extra
    >>> round(posterior_kl_extra([0.5, 0.3, 0.2], n_samples=999, target=0.01), 4)
    0.9837
    """
    target = check_real("target", target, above=0)
    rows = check_real("n_samples", n_samples, at_least=0) + 1
    return float(np.sqrt(target * rows / _inverse_sum(p)))


def _inverse_sum(p: ArrayLike) -> float:
    p = checked_distribution(p)
    if p.min() <= 0:
        raise ValueError(f"p must be positive; got {p.min()}")
    return float((1 / p).sum())
