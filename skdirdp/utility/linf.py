"""Bounds on the largest error of a histogram, each with its inverses at fixed noise."""

import numpy as np

from .._validation import check_integer, check_real
from ..numerics.roots import safe_root
from .checks import checked_beta, checked_noise
from .rows import rows_until, whole_rows

_LOG_ALPHAS = (-40.0, 40.0)


def linf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """A bound on ``max |Y - p|`` that fails with probability beta at most: (13) of paper B.

    Parameters
    ----------
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    alpha : float
        The prior of every cell.
    beta : float in (0, 1)
        The probability that the bound may fail.
    r : float, default=1.0
        The weight of a record.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import linf_bound
    >>> round(linf_bound(10_000, 100, alpha=3.0, beta=0.05), 4)
    0.0492
    """
    size = check_integer("n_categories", n_categories, at_least=1)
    r, alpha = checked_noise(r, alpha)
    total = r * check_real("n_samples", n_samples, at_least=0) + size * alpha
    return beta_deviation(size, total, beta) + size * alpha / total


def linf_rows(target: float, n_categories: int, alpha: float, beta: float, r: float = 1.0) -> int:
    """The rows at which `linf_bound` reaches a target.

    Parameters
    ----------
    target : float
        The largest error.
    n_categories : int
        d.
    alpha : float
        The prior of every cell.
    beta : float in (0, 1)
        The probability that the bound may fail.
    r : float, default=1.0
        The weight of a record.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdirdp.utility import linf_rows
    >>> linf_rows(0.05, 100, alpha=3.0, beta=0.05)
    9792
    """
    return rows_until(target, lambda n: linf_bound(n, n_categories, alpha, beta, r))


def linf_alpha(
    target: float, n_samples: float, n_categories: int, beta: float, r: float = 1.0
) -> float:
    """The largest prior at which `linf_bound` is within a target, nan if none is.

    Parameters
    ----------
    target : float
        The largest error.
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    beta : float in (0, 1)
        The probability that the bound may fail.
    r : float, default=1.0
        The weight of a record.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import linf_alpha
    >>> round(linf_alpha(0.05, 10_000, 100, beta=0.05), 4)
    3.0868
    """
    check_real("target", target, above=0)

    def excess(log_alpha):
        return linf_bound(n_samples, n_categories, np.exp(log_alpha), beta, r) - target

    log_alpha = safe_root(excess, 0.0, 4.0, tolerance=1e-12, limits=_LOG_ALPHAS)
    return np.inf if log_alpha == _LOG_ALPHAS[1] else float(np.exp(log_alpha))


def linf_rows_order(
    target: float,
    n_categories: int,
    rho: float,
    beta: float,
    *,
    gamma: float = 1.0,
    squared_sensitivity: float = 2.0,
) -> float:
    """The order of growth of the rows for a target: (14) and (15) of paper B.

    ``log(2 d / beta) / t^2 + (d / t) (c + gamma)`` with ``c = D^2 / (2 rho)`` where
    privacy is high (c > 1), else ``D / sqrt(2 rho)``. The constant is left out there;
    `linf_rows` is exact.

    Parameters
    ----------
    target : float
        The largest error.
    n_categories : int
        d.
    rho : float
        The budget, of tCDP.
    beta : float in (0, 1)
        The probability that the bound may fail.
    gamma : float, default=1.0
        The claim is of tCDP up to the order gamma + 1, for counts that a record moves by 1.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import linf_rows_order
    >>> halved = linf_rows_order(0.05, 100, rho=0.1, beta=0.05)
    >>> bool(halved > 2 * linf_rows_order(0.1, 100, rho=0.1, beta=0.05))
    True
    """
    size = check_integer("n_categories", n_categories, at_least=1)
    target, rho = check_real("target", target, above=0), check_real("rho", rho, above=0)
    spread = squared_sensitivity / (2 * rho)
    prior = (spread if spread > 1 else np.sqrt(spread)) + gamma
    return float(np.log(2 * size / checked_beta(beta)) / target**2 + size * prior / target)


def gaussian_linf_bound(
    n_samples: float, n_categories: int, rho: float, beta: float, squared_sensitivity: float = 2.0
) -> float:
    """A bound on Gaussian noise of rho-zCDP on p, failing with probability beta at most: (16).

    Parameters
    ----------
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    rho : float
        The budget, of zCDP.
    beta : float in (0, 1)
        The probability that the bound may fail.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_bound
    >>> round(gaussian_linf_bound(10_000, 100, rho=0.1, beta=0.05), 6)
    0.001288
    """
    size = check_integer("n_categories", n_categories, at_least=1)
    n_samples, rho = check_real("n_samples", n_samples, above=0), check_real("rho", rho, above=0)
    return float(np.sqrt(np.log(2 * size / checked_beta(beta)) * squared_sensitivity / rho)) / (
        n_samples
    )


def gaussian_linf_rows(
    target: float, n_categories: int, rho: float, beta: float, squared_sensitivity: float = 2.0
) -> int:
    """The rows at which `gaussian_linf_bound` reaches a target.

    Parameters
    ----------
    target : float
        The largest error.
    n_categories : int
        d.
    rho : float
        The budget, of zCDP.
    beta : float in (0, 1)
        The probability that the bound may fail.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_rows
    >>> gaussian_linf_rows(0.001, 100, rho=0.1, beta=0.05)
    12880
    """
    target = check_real("target", target, above=0)
    return whole_rows(
        gaussian_linf_bound(1.0, n_categories, rho, beta, squared_sensitivity) / target
    )


def gaussian_linf_rho(
    target: float,
    n_samples: float,
    n_categories: int,
    beta: float,
    squared_sensitivity: float = 2.0,
) -> float:
    """The rho at which `gaussian_linf_bound` reaches a target.

    Parameters
    ----------
    target : float
        The largest error.
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    beta : float in (0, 1)
        The probability that the bound may fail.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_rho
    >>> round(gaussian_linf_rho(0.001, 10_000, 100, beta=0.05), 4)
    0.1659
    """
    target = check_real("target", target, above=0)
    at_one = gaussian_linf_bound(n_samples, n_categories, 1.0, beta, squared_sensitivity)
    return (at_one / target) ** 2


def beta_deviation(events: int, total: float, beta: float) -> float:
    # A Beta(a, b) variable is sub-Gaussian with variance proxy 1 / (4 (a + b + 1)).
    return float(np.sqrt(np.log(2 * events / checked_beta(beta)) / (2 * (total + 1))))
