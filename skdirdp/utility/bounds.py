"""The papers' bounds, each with its inverses at fixed noise."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import polygamma

from .._validation import check_integer, check_real
from .checks import checked_beta, checked_distribution, checked_noise

#: The least prior for which Theorem 2 of paper A is proved.
LEAST_ALPHA = 0.5


# The KL divergence of a release ----------------------------------------------------


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
        return np.log(total * _kl_rate(np.exp(log_eta))) - np.log(log_inverse)

    # The rate tends to 1/6 for large eta: with too few rows no eta is enough.
    if total / 6 <= log_inverse:
        return np.inf
    high = 0.0
    while excess(high) < 0:
        high += 1.0
    return float(max(condition, np.exp(brentq(excess, -60.0, high)))) * (1 + 1e-12)


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
    return _whole_rows(max(condition, -np.log(checked_beta(beta)) / _kl_rate(eta)) / r)


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
    return _whole_rows(_inverse_sum(p) * extra**2 / target - 1)


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


# The largest error of a histogram --------------------------------------------------


def linf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """What ``max |Y - p|`` exceeds with probability beta at most: (13) of paper B.

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
    return _beta_deviation(size, total, beta) + size * alpha / total


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
    return _rows_until(target, lambda n: linf_bound(n, n_categories, alpha, beta, r))


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

    low, high = -40.0, 40.0
    if excess(low) > 0:
        return float("nan")
    return float(np.exp(brentq(excess, low, high))) if excess(high) > 0 else np.inf


def linf_rows_order(
    target: float,
    n_categories: int,
    rho: float,
    beta: float,
    *,
    gamma: float = 1.0,
    squared_sensitivity: float = 2.0,
) -> float:
    """What (14) and (15) of paper B say of the rows for a target: an order of growth.

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


def tcdp_alpha(rho: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """The prior at which posterior sampling is rho-tCDP: (2) of paper B, inverted.

    Parameters
    ----------
    rho : float
        The budget, of tCDP.
    gamma : float, default=1.0
        The claim is of tCDP up to the order gamma + 1, for counts that a record moves by 1.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import tcdp_alpha, tcdp_rho
    >>> round(tcdp_rho(tcdp_alpha(0.1)), 12)
    0.1
    """
    wanted = 2 * check_real("rho", rho, above=0) / squared_sensitivity
    root = brentq(lambda u: np.log(polygamma(1, np.exp(u)) / wanted), -40.0, 60.0, xtol=1e-14)
    return float(np.exp(root) + gamma)


def tcdp_rho(alpha: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """(2) of paper B: ``D^2 trigamma(alpha - gamma) / 2``.

    Parameters
    ----------
    alpha : float
        The prior of every cell, above gamma.
    gamma : float, default=1.0
        The claim is of tCDP up to the order gamma + 1, for counts that a record moves by 1.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float
        Posterior sampling is rho-tCDP.

    Examples
    --------
    >>> from skdirdp.utility import tcdp_rho
    >>> round(tcdp_rho(20.0), 6)
    0.054041
    """
    alpha = check_real("alpha", alpha, above=gamma)
    return float(0.5 * squared_sensitivity * polygamma(1, alpha - gamma))


def gaussian_linf_bound(
    n_samples: float, n_categories: int, rho: float, beta: float, squared_sensitivity: float = 2.0
) -> float:
    """What Gaussian noise of rho-zCDP on p exceeds with probability beta at most: (16).

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
    return _whole_rows(
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


# Quantiles -------------------------------------------------------------------------


def cdf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """What the error of the CDF read from a histogram exceeds with probability beta at most.

    With ``s = alpha / r``, ``Y (1 + d s / N) - s / N`` has mean p. A sum of its entries
    is a beta variable, stretched, and those are sub-Gaussian, as in (13) of paper B but
    without the bias: for all d - 1 sums at once the error is within
    ``(1 + d s / N) sqrt(log(2 (d - 1) / beta) / (2 (r N + d alpha + 1)))``. Isotonic
    regression, which makes the CDF monotone, does not enlarge it.

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
    >>> from skdirdp.utility import cdf_bound
    >>> round(cdf_bound(10_000, 512, alpha=3.15, beta=0.05, r=0.272), 4)
    0.0539
    """
    size = check_integer("n_categories", n_categories, at_least=2)
    r, alpha = checked_noise(r, alpha)
    counts = r * check_real("n_samples", n_samples, above=0)
    total = counts + size * alpha
    return total / counts * _beta_deviation(size - 1, total, beta)


def cdf_rows(target: float, n_categories: int, alpha: float, beta: float, r: float = 1.0) -> int:
    """The rows at which `cdf_bound` reaches a target.

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
    >>> from skdirdp.utility import cdf_rows
    >>> cdf_rows(0.05, 512, alpha=3.15, beta=0.05, r=0.272)
    11170
    """
    return _rows_until(target, lambda n: cdf_bound(n, n_categories, alpha, beta, r))


# Common to all -------------------------------------------------------------------


def _beta_deviation(events: int, total: float, beta: float) -> float:
    # A Beta(a, b) variable is sub-Gaussian with variance proxy 1 / (4 (a + b + 1)).
    return float(np.sqrt(np.log(2 * events / checked_beta(beta)) / (2 * (total + 1))))


def _rows_until(target: float, bound) -> int:
    target = check_real("target", target, above=0)
    high = 1
    while bound(high) > target:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle) > target else (low, middle)
    return high


def _whole_rows(rows: float) -> int:
    return max(int(np.ceil(rows * (1 - 1e-12))), 1)
