"""Bounds on the error of releases, each with its inverses, and exact errors.

Paper A is "Dirichlet Mechanism for Differentially Private KL Divergence Minimization", paper B
"Differential Privacy of Dirichlet Posterior Sampling". A release of the counts x of N records in
d categories is ``Y ~ Dirichlet(r x + alpha)``, and ``p = x / N``. Functions of `counts` return
results that are as private as these counts; other functions need no data.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, xlogy

from .._validation import check_counts, check_integer, check_real
from ..mechanisms import SimplexMechanism, dirichlet
from ..numerics.conservative import safe_root

#: Smallest prior for which Theorem 2 of paper A is proved.
MIN_ALPHA = 0.5
_LOG_ALPHAS = (-40.0, 40.0)


def _check_release(counts: ArrayLike, r: float, alpha: float) -> tuple[np.ndarray, float, float]:
    counts = check_counts(counts)
    if counts.ndim != 1 or counts.sum() == 0:
        raise ValueError(f"counts must be a vector with a positive sum; got shape {counts.shape}")
    return counts, *_check_r_alpha(r, alpha)


def expected_kl(counts: ArrayLike, r: float, alpha: float) -> float:
    """Compute the expectation of KL(p || Y) in closed form.

    Parameters
    ----------
    counts : array-like of shape (n_categories,)
        True counts, x in the formula below.
    r, alpha : float
        Parameters of the release ``Y ~ Dirichlet(r x + alpha)``.

    Examples
    --------
    >>> from skdirdp.utility import expected_kl
    >>> round(expected_kl([70, 20, 10], r=0.5, alpha=2.0), 6)
    0.020627
    """
    counts, r, alpha = _check_release(counts, r, alpha)
    p = counts / counts.sum()
    log_ratio = xlogy(p, p) - p * digamma(r * counts + alpha)
    return float(log_ratio.sum() + digamma(r * counts.sum() + counts.size * alpha))


def bias(counts: ArrayLike, r: float, alpha: float) -> np.ndarray:
    """Compute the bias ``E[Y] - p``; its norm is equation (3) of paper A in docs/theory.md.

    Parameters
    ----------
    counts, r, alpha
        As in `expected_kl`.

    Examples
    --------
    >>> from skdirdp.utility import bias
    >>> bias([70, 20, 10], r=0.5, alpha=2.0).round(4)
    array([-0.0393,  0.0143,  0.025 ])
    """
    counts, r, alpha = _check_release(counts, r, alpha)
    total, size = counts.sum(), counts.size
    return alpha * (total - size * counts) / (total * (r * total + size * alpha))


def variance(counts: ArrayLike, r: float, alpha: float) -> np.ndarray:
    """Compute the variance of each entry of Y.

    Parameters
    ----------
    counts, r, alpha
        As in `expected_kl`.

    Examples
    --------
    >>> from skdirdp.utility import variance
    >>> variance([70, 20, 10], r=0.5, alpha=2.0).round(6)
    array([0.003933, 0.002954, 0.001919])
    """
    counts, r, alpha = _check_release(counts, r, alpha)
    concentration = r * counts + alpha
    return dirichlet.dirichlet_variance(concentration / concentration.sum(), concentration.sum())


def simplex_variance(p: ArrayLike, k: float) -> np.ndarray:
    """Compute the variance of each entry of ``Dirichlet(k p)``, which has mean p.

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Probabilities.
    k : float
        Concentration.

    Examples
    --------
    >>> from skdirdp.utility import simplex_variance
    >>> simplex_variance([0.5, 0.3, 0.2], k=24).round(6)
    array([0.01  , 0.0084, 0.0064])
    """
    return dirichlet.dirichlet_variance(_check_distribution(p), check_real("k", k, above=0))


def concentration_for_variance(target: float) -> float:
    """Find the smallest k for which no variance of ``Dirichlet(k p)`` exceeds a target, for any p.

    Parameters
    ----------
    target : float
        Largest acceptable variance of an entry.

    Examples
    --------
    >>> from skdirdp.utility import concentration_for_variance
    >>> concentration_for_variance(0.01)
    24.0
    """
    target = check_real("target", target, above=0)
    return 0.0 if target >= 0.25 else SimplexMechanism.k_for_variance(target)


def dirichlet_kl(first: ArrayLike, second: ArrayLike) -> float:
    """Compute the KL divergence D(first || second) of two Dirichlet distributions.

    Parameters
    ----------
    first, second : array-like of shape (n_categories,)
        Concentration parameters; all positive.

    Examples
    --------
    >>> from skdirdp.utility import dirichlet_kl
    >>> round(dirichlet_kl([1, 1], [2, 1]), 6)
    0.306853
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    # Equation (20) of paper B in docs/theory.md.
    expected_change = (b - a) @ (digamma(a) - digamma(a.sum()))
    return float(_log_beta(b) - _log_beta(a) - expected_change)


def dirichlet_renyi(first: ArrayLike, second: ArrayLike, order: float) -> float:
    """Compute the Renyi divergence D(first || second) of two Dirichlet distributions.

    Parameters
    ----------
    first, second : array-like of shape (n_categories,)
        Concentration parameters; all positive.
    order : float
        Order of the divergence, greater than 1.

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
    # Equation (3) of paper B in docs/theory.md.
    change = _log_beta(b) - _log_beta(a)
    return float(change + (_log_beta(tilted) - _log_beta(a)) / (order - 1))


def _log_beta(concentration: np.ndarray) -> float:
    return gammaln(concentration).sum() - gammaln(concentration.sum())


def linf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """Bound ``max |Y - p|`` except with probability beta, by (13) of paper B.

    Parameters
    ----------
    n_samples, n_categories : float and int
        N and d, the numbers of records and of categories.
    alpha : float
        Prior of every cell.
    beta : float in (0, 1)
        Largest probability that the bound fails.
    r : float, default=1.0
        Weight of a record.

    Examples
    --------
    >>> from skdirdp.utility import linf_bound
    >>> round(linf_bound(10_000, 100, alpha=3.0, beta=0.05), 4)
    0.0492
    """
    size = check_integer("n_categories", n_categories, at_least=1)
    r, alpha = _check_r_alpha(r, alpha)
    total = r * check_real("n_samples", n_samples, at_least=0) + size * alpha
    return _beta_deviation(size, total, beta) + size * alpha / total


def linf_rows(target: float, n_categories: int, alpha: float, beta: float, r: float = 1.0) -> int:
    """Find the smallest number of rows for which `linf_bound` reaches a target.

    Parameters
    ----------
    target, n_categories, alpha, beta, r
        Largest error, and parameters of `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import linf_rows
    >>> linf_rows(0.05, 100, alpha=3.0, beta=0.05)
    9792
    """
    return _smallest_rows(target, lambda n: linf_bound(n, n_categories, alpha, beta, r))


def linf_alpha(
    target: float, n_samples: float, n_categories: int, beta: float, r: float = 1.0
) -> float:
    """Find the largest prior for which `linf_bound` is within a target; nan if there is none.

    Parameters
    ----------
    target, n_samples, n_categories, beta, r
        Largest error, and parameters of `linf_bound`.

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
    """Compute the order of growth of the rows for a target, (14) and (15) of paper B.

    The order omits the paper's constant. `linf_rows` is exact.

    Parameters
    ----------
    target, n_categories, rho, beta, gamma, squared_sensitivity
        Largest error, and parameters of `linf_bound` and `tcdp_alpha`.

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
    return float(np.log(2 * size / _check_beta(beta)) / target**2 + size * prior / target)


def gaussian_linf_bound(
    n_samples: float, n_categories: int, rho: float, beta: float, squared_sensitivity: float = 2.0
) -> float:
    """Bound rho-zCDP Gaussian noise on p except with probability beta, by (16) of paper B.

    Parameters
    ----------
    n_samples, n_categories, beta
        As in `linf_bound`.
    rho : float
        Budget of zCDP.
    squared_sensitivity : float, default=2.0
        D^2, the largest squared l2 norm of the change of the counts by one record.

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_bound
    >>> round(gaussian_linf_bound(10_000, 100, rho=0.1, beta=0.05), 6)
    0.001288
    """
    size = check_integer("n_categories", n_categories, at_least=1)
    n_samples, rho = check_real("n_samples", n_samples, above=0), check_real("rho", rho, above=0)
    variance = np.log(2 * size / _check_beta(beta)) * squared_sensitivity / rho
    return float(np.sqrt(variance)) / n_samples


def gaussian_linf_rows(
    target: float, n_categories: int, rho: float, beta: float, squared_sensitivity: float = 2.0
) -> int:
    """Find the smallest number of rows for which `gaussian_linf_bound` reaches a target.

    Parameters
    ----------
    target, n_categories, rho, beta, squared_sensitivity
        Largest error, and parameters of `gaussian_linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_rows
    >>> gaussian_linf_rows(0.001, 100, rho=0.1, beta=0.05)
    12880
    """
    of_one_row = gaussian_linf_bound(1.0, n_categories, rho, beta, squared_sensitivity)
    return _round_up_rows(of_one_row / check_real("target", target, above=0))


def gaussian_linf_rho(
    target: float,
    n_samples: float,
    n_categories: int,
    beta: float,
    squared_sensitivity: float = 2.0,
) -> float:
    """Find the rho for which `gaussian_linf_bound` reaches a target.

    Parameters
    ----------
    target, n_samples, n_categories, beta, squared_sensitivity
        Largest error, and parameters of `gaussian_linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import gaussian_linf_rho
    >>> round(gaussian_linf_rho(0.001, 10_000, 100, beta=0.05), 4)
    0.1659
    """
    at_one = gaussian_linf_bound(n_samples, n_categories, 1.0, beta, squared_sensitivity)
    return (at_one / check_real("target", target, above=0)) ** 2


def cdf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """Bound the error of a histogram's CDF; the bound fails with probability at most beta.

    With ``s = alpha / r``, ``Y (1 + d s / N) - s / N`` has mean p, and a sum of its entries is a
    scaled beta variable, which is sub-Gaussian, as in (13) of paper B. Isotonic regression, which
    makes the CDF monotone, does not increase the error.

    Parameters
    ----------
    n_samples, n_categories, alpha, beta, r
        As in `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import cdf_bound
    >>> round(cdf_bound(10_000, 512, alpha=3.15, beta=0.05, r=0.272), 4)
    0.0539
    """
    size = check_integer("n_categories", n_categories, at_least=2)
    r, alpha = _check_r_alpha(r, alpha)
    counts = r * check_real("n_samples", n_samples, above=0)
    total = counts + size * alpha
    return total / counts * _beta_deviation(size - 1, total, beta)


def cdf_rows(target: float, n_categories: int, alpha: float, beta: float, r: float = 1.0) -> int:
    """Find the smallest number of rows for which `cdf_bound` reaches a target.

    Parameters
    ----------
    target, n_categories, alpha, beta, r
        Largest error, and parameters of `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import cdf_rows
    >>> cdf_rows(0.05, 512, alpha=3.15, beta=0.05, r=0.272)
    11170
    """
    return _smallest_rows(target, lambda n: cdf_bound(n, n_categories, alpha, beta, r))


def kl_tail(eta: float, n_samples: float, n_categories: int, r: float, alpha: float) -> float:
    """Bound the probability that KL(p || Y) exceeds eta, by Theorem 2 of paper A.

    The theorem needs ``r N >= d alpha / (exp(eta / 2) - 1)``; otherwise 1 is returned. Its proof
    uses alpha >= 1/2. A smaller alpha raises an error.

    Parameters
    ----------
    eta : float
        Divergence.
    n_samples, n_categories, r, alpha
        As in `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import kl_tail
    >>> round(kl_tail(0.5, n_samples=10_000, n_categories=10, r=0.2, alpha=2.0), 11)
    1.27e-08
    """
    eta = check_real("eta", eta, above=0)
    total = check_real("n_samples", n_samples, above=0) * _check_r_alpha(r, alpha)[0]
    if total < _total_prior(n_categories, alpha) / np.expm1(eta / 2):
        return 1.0
    return float(np.exp(-total * _kl_rate(eta)))


def kl_tail_error(
    beta: float, n_samples: float, n_categories: int, r: float, alpha: float
) -> float:
    """Find the eta that KL(p || Y) exceeds with probability at most beta; infinite for few rows.

    Parameters
    ----------
    beta, n_samples, n_categories, r, alpha
        As in `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import kl_tail_error
    >>> round(kl_tail_error(0.05, n_samples=10_000, n_categories=10, r=0.2, alpha=2.0), 4)
    0.1714
    """
    cost = -np.log(_check_beta(beta))
    total = check_real("n_samples", n_samples, above=0) * _check_r_alpha(r, alpha)[0]
    condition = 2 * np.log1p(_total_prior(n_categories, alpha) / total)
    # The rate tends to 1/6 as eta grows, so with too few rows no eta is large enough.
    rest = total - 6 * cost
    if rest <= 0:
        return np.inf
    # The positive root of rest eta^2 - 20 cost eta - 16 cost, at which total * rate is the cost.
    eta = (10 * cost + np.sqrt((10 * cost) ** 2 + 16 * cost * rest)) / rest
    return float(max(condition, eta)) * (1 + 1e-12)


def kl_tail_rows(eta: float, beta: float, n_categories: int, r: float, alpha: float) -> int:
    """Find the number of rows for which KL(p || Y) exceeds eta with probability at most beta.

    Parameters
    ----------
    eta, beta, n_categories, r, alpha
        As in `kl_tail` and `linf_bound`.

    Examples
    --------
    >>> from skdirdp.utility import kl_tail_rows
    >>> kl_tail_rows(0.1, beta=0.05, n_categories=10, r=0.2, alpha=2.0)
    27052
    """
    eta = check_real("eta", eta, above=0)
    r, alpha = _check_r_alpha(r, alpha)
    condition = _total_prior(n_categories, alpha) / np.expm1(eta / 2)
    return _round_up_rows(max(condition, -np.log(_check_beta(beta)) / _kl_rate(eta)) / r)


def _kl_rate(eta: float) -> float:
    return eta**2 / (2 * (2 + eta) * (4 + 3 * eta))


def _total_prior(n_categories: int, alpha: float) -> float:
    check_real("alpha", alpha, at_least=MIN_ALPHA)
    return check_integer("n_categories", n_categories, at_least=1) * alpha


def posterior_kl_bound(p: ArrayLike, n_samples: float, extra: float) -> float:
    """Bound the expected divergence of posteriors with different priors, (10) and (11) of paper B.

    The bound is ``G(p) s^2 / (N + 1)`` with ``G(p) = sum(1 / p)``. It holds for the expected
    KL divergence of ``Dirichlet(X + alpha + s)``, the distribution of a private sample, from
    ``Dirichlet(X + alpha)``, for X multinomial with probabilities p and every alpha >= 1.

    Parameters
    ----------
    p : array-like of shape (n_categories,)
        Positive probabilities.
    n_samples : float
        N, the number of records.
    extra : float
        s, the increase of the prior of every cell.

    Examples
    --------
    >>> from skdirdp.utility import posterior_kl_bound
    >>> round(posterior_kl_bound([0.5, 0.3, 0.2], n_samples=999, extra=2.0), 6)
    0.041333
    """
    extra = check_real("extra", extra, at_least=0)
    return _inverse_sum(p) * extra**2 / (check_real("n_samples", n_samples, at_least=0) + 1)


def posterior_kl_rows(p: ArrayLike, extra: float, target: float) -> int:
    """Find the smallest number of rows for which `posterior_kl_bound` reaches a target.

    Parameters
    ----------
    p, extra, target
        Parameters of `posterior_kl_bound`, and its largest value.

    Examples
    --------
    >>> from skdirdp.utility import posterior_kl_rows
    >>> posterior_kl_rows([0.5, 0.3, 0.2], extra=2.0, target=0.01)
    4133
    """
    extra, target = check_real("extra", extra, at_least=0), check_real("target", target, above=0)
    return _round_up_rows(_inverse_sum(p) * extra**2 / target - 1)


def posterior_kl_extra(p: ArrayLike, n_samples: float, target: float) -> float:
    """Find the largest increase of the prior for which `posterior_kl_bound` is within a target.

    Parameters
    ----------
    p, n_samples, target
        Parameters of `posterior_kl_bound`, and its largest value.

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
    p = _check_distribution(p)
    if p.min() <= 0:
        raise ValueError(f"p must be positive; got {p.min()}")
    return float((1 / p).sum())


def tcdp_alpha(rho: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """Find the prior for which posterior sampling is rho-tCDP, by (2) of paper B.

    Parameters
    ----------
    rho : float
        Budget of tCDP.
    gamma : float, default=1.0
        The tCDP guarantee holds up to the order gamma + 1, for counts that a record changes
        by at most 1.
    squared_sensitivity : float, default=2.0
        D^2, the largest squared l2 norm of the change of the counts by one record.

    Examples
    --------
    >>> from skdirdp.utility import tcdp_alpha, tcdp_rho
    >>> round(tcdp_rho(tcdp_alpha(0.1)), 12)
    0.1
    """
    rho = check_real("rho", rho, above=0)
    return dirichlet.tcdp_alpha(rho, gamma, dirichlet.Sensitivity(squared_sensitivity, 1.0))


def tcdp_rho(alpha: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """Compute the rho for which posterior sampling is rho-tCDP, by (2) of paper B.

    Parameters
    ----------
    alpha : float
        Prior of every cell, greater than gamma.
    gamma, squared_sensitivity
        As in `tcdp_alpha`.

    Examples
    --------
    >>> from skdirdp.utility import tcdp_rho
    >>> round(tcdp_rho(20.0), 6)
    0.054041
    """
    alpha = check_real("alpha", alpha, above=gamma)
    sensitivity = dirichlet.Sensitivity(squared_sensitivity, 1.0)
    return float(dirichlet.tcdp_rho(1.0, alpha, gamma, sensitivity))


def _beta_deviation(events: int, total: float, beta: float) -> float:
    # A Beta(a, b) variable is sub-Gaussian with variance proxy 1 / (4 (a + b + 1)).
    return float(np.sqrt(np.log(2 * events / _check_beta(beta)) / (2 * (total + 1))))


def _smallest_rows(target: float, bound: Callable[[int], float]) -> int:
    """Find the smallest number of rows for which a decreasing bound is within the target."""
    target = check_real("target", target, above=0)
    high = 1
    while bound(high) > target:
        high *= 2
    rows = range(high // 2 + 1, high)
    return rows.start + bisect_left(rows, True, key=lambda n: bound(n) <= target)


def _round_up_rows(rows: float) -> int:
    """Round a number of rows up, ignoring its rounding error; return at least 1."""
    return max(int(np.ceil(rows * (1 - 1e-12))), 1)


def _check_distribution(p: ArrayLike) -> np.ndarray:
    p = np.asarray(p, dtype=float)
    if p.ndim != 1 or not np.all(p >= 0) or abs(p.sum() - 1) > 1e-9:
        raise ValueError("p must be a vector of probabilities that sum to 1")
    return p


def _check_r_alpha(r: float, alpha: float) -> tuple[float, float]:
    return check_real("r", r, above=0), check_real("alpha", alpha, above=0)


def _check_beta(beta: float) -> float:
    return check_real("beta", beta, above=0, below=1)
