"""Accuracy at a privacy budget, and exact moments and divergences of Dirichlet releases."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, xlogy

from .._validation import check_choice, check_counts, check_real
from ..mechanisms import DirichletMechanism, SimplexMechanism
from ..mechanisms.dirichlet import dirichlet_variance
from ..numerics.conservative import safe_root
from . import bounds


def accuracy_from_budget(
    measure: str,
    n_samples: int,
    n_categories: int,
    *,
    epsilon: float,
    delta: float = 1e-5,
    beta: float = 0.05,
    releases: int = 1,
) -> float:
    """Compute an error that a calibrated Dirichlet release exceeds with probability at most beta.

    Parameters
    ----------
    measure : {"linf", "cdf", "kl"}
        The error bounded by `linf_bound`, `cdf_bound` or `kl_tail_error`. "kl" is infinite if the
        calibrated alpha is too small for the theorem behind `kl_tail_error`.
    n_samples, n_categories : int
        Number of records and number of categories, both public.
    epsilon, delta : float
        The privacy budget of all releases together.
    beta : float, default=0.05
        Largest probability that the error exceeds the returned bound.
    releases : int, default=1
        Number of histograms that share the budget.

    Examples
    --------
    >>> from skdirdp.utility import accuracy_from_budget
    >>> round(accuracy_from_budget("linf", 5000, 20, epsilon=1.0), 3)
    0.092
    """
    check_choice("measure", measure, ("linf", "cdf", "kl"))
    mechanism = DirichletMechanism.calibrate(
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        n_samples=n_samples,
        n_categories=n_categories,
        min_smoothing=0.0,
    )
    if measure == "kl":
        if mechanism.alpha < bounds.MIN_ALPHA:
            return np.inf
        return bounds.kl_tail_error(beta, n_samples, n_categories, mechanism.r, mechanism.alpha)
    bound = bounds.linf_bound if measure == "linf" else bounds.cdf_bound
    return bound(n_samples, n_categories, mechanism.alpha, beta, mechanism.r)


def budget_for_accuracy(
    measure: str,
    target: float,
    n_samples: int,
    n_categories: int,
    *,
    delta: float = 1e-5,
    beta: float = 0.05,
    releases: int = 1,
) -> float:
    """Find the smallest epsilon for which `accuracy_from_budget` reaches a target.

    The result is accurate to within 0.1%, or infinite if an epsilon of 1000 is not enough.

    Parameters
    ----------
    measure, target, n_samples, n_categories, delta, beta, releases
        `target` is the largest acceptable error. See `accuracy_from_budget` for the others.

    Examples
    --------
    >>> from skdirdp.utility import accuracy_from_budget, budget_for_accuracy
    >>> error = accuracy_from_budget("linf", 5000, 20, epsilon=1.0)
    >>> bool(0.98 < budget_for_accuracy("linf", error, 5000, 20) < 1.02)
    True
    """
    options: dict[str, Any] = {"delta": delta, "beta": beta, "releases": releases}

    def error(epsilon: float) -> float:
        return accuracy_from_budget(measure, n_samples, n_categories, epsilon=epsilon, **options)

    return _smallest_reaching(target, error, 1.0, 1e-3, 1e3)


def rows_for_accuracy(
    measure: str,
    target: float,
    n_categories: int,
    *,
    epsilon: float,
    delta: float = 1e-5,
    beta: float = 0.05,
    releases: int = 1,
) -> float:
    """Find the smallest number of rows for which `accuracy_from_budget` reaches a target.

    The result is a whole number, accurate to 0.1%, or infinite if 10^12 rows are not enough.

    Parameters
    ----------
    measure, target, n_categories, epsilon, delta, beta, releases
        `target` is the largest acceptable error. See `accuracy_from_budget` for the others.

    Examples
    --------
    >>> from skdirdp.utility import rows_for_accuracy
    >>> bool(11_000 < rows_for_accuracy("linf", 0.05, 20, epsilon=1.0) < 12_000)
    True
    """
    options: dict[str, Any] = {"delta": delta, "beta": beta, "releases": releases}

    def error(rows: float) -> float:
        return accuracy_from_budget(measure, round(rows), n_categories, epsilon=epsilon, **options)

    return float(np.ceil(_smallest_reaching(target, error, 1e4, 1.0, 1e12)))


def _smallest_reaching(
    target: float, error: Callable[[float], float], start: float, lower: float, upper: float
) -> float:
    """Find the smallest value (to 0.1%) at which a decreasing error reaches target, or infinity."""
    target = check_real("target", target, above=0)

    def excess(log_value: float) -> float:
        return np.log(error(float(np.exp(log_value))) / target)

    limits = (np.log(lower), np.log(upper))
    root = safe_root(excess, np.log(start), -np.log(4.0), tolerance=1e-3 / 4, limits=limits)
    return np.inf if np.isnan(root) else float(np.exp(root))


def _check_release(counts: ArrayLike, r: float, alpha: float) -> tuple[np.ndarray, float, float]:
    counts = check_counts(counts)
    if counts.ndim != 1 or counts.sum() == 0:
        raise ValueError(f"counts must be a vector with a positive sum; got shape {counts.shape}")
    return counts, *bounds.check_r_alpha(r, alpha)


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
    return dirichlet_variance(concentration / concentration.sum(), concentration.sum())


def simplex_variance(p: ArrayLike, k: float) -> np.ndarray:
    """Compute the variance of each entry of ``Dirichlet(k p)``, which has mean p.

    Proposition 1 of "The Dirichlet Mechanism for Differential Privacy on the Unit Simplex".

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
    return dirichlet_variance(bounds.check_distribution(p), check_real("k", k, above=0))


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
    log_normalizer_ratio = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
    return float(log_normalizer_ratio - (b - a) @ (digamma(a) - digamma(a.sum())))


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

    def log_beta(concentration):
        return gammaln(concentration).sum() - gammaln(concentration.sum())

    # Equation (3) of paper B in docs/theory.md.
    return float((log_beta(b) - log_beta(a)) + (log_beta(tilted) - log_beta(a)) / (order - 1))
