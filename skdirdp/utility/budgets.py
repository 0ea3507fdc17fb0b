"""The same bounds for releases that are calibrated to a budget."""

from functools import cache

import numpy as np
from scipy.optimize import brentq

from .._validation import check_choice, check_real
from ..mechanisms import DirichletMechanism
from .bounds import LEAST_ALPHA, cdf_bound, kl_tail_error, linf_bound

_LOG_TOLERANCE = 1e-3
_STRIDE = np.log(4.0)
_MEASURES = ("linf", "cdf", "kl")


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
    """The error that a calibrated Dirichlet release exceeds with probability beta at most.

    Parameters
    ----------
    measure : {"linf", "cdf", "kl"}
        `linf_bound` of the release, `cdf_bound`, or `kl_tail_error`, which is infinite
        where the calibrated prior is too small for its theorem.
    n_samples, n_categories : int
        The public size of the histogram.
    epsilon, delta : float
        The budget, of all releases together.
    beta : float, default=0.05
        The probability that the bound may fail.
    releases : int, default=1
        Histograms that share the budget.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import accuracy_from_budget
    >>> round(accuracy_from_budget("linf", 5000, 20, epsilon=1.0), 3)
    0.092
    """
    check_choice("measure", measure, _MEASURES)
    found = DirichletMechanism.calibrate(
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        n_samples=n_samples,
        n_categories=n_categories,
        min_smoothing=0.0,
    )
    if measure == "kl":
        if found.alpha < LEAST_ALPHA:
            return np.inf
        return kl_tail_error(beta, n_samples, n_categories, found.r, found.alpha)
    bound = linf_bound if measure == "linf" else cdf_bound
    return bound(n_samples, n_categories, found.alpha, beta, found.r)


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
    """The epsilon from which on `accuracy_from_budget` is within a target, to 0.1%.

    Parameters
    ----------
    measure : {"linf", "cdf", "kl"}
        As for `accuracy_from_budget`.
    target : float
        The largest error.
    n_samples, n_categories : int
        The public size of the histogram.
    delta : float, default=1e-5
        The budget's delta, of all releases together.
    beta : float, default=0.05
        The probability that the bound may fail.
    releases : int, default=1
        Histograms that share the budget.

    Returns
    -------
    float
        Infinite if none up to 1000 is enough.

    Examples
    --------
    >>> from skdirdp.utility import accuracy_from_budget, budget_for_accuracy
    >>> error = accuracy_from_budget("linf", 5000, 20, epsilon=1.0)
    >>> bool(0.98 < budget_for_accuracy("linf", error, 5000, 20) < 1.02)
    True
    """
    target = check_real("target", target, above=0)

    @cache
    def excess(log_epsilon):
        return np.log(
            accuracy_from_budget(
                measure,
                n_samples,
                n_categories,
                epsilon=float(np.exp(log_epsilon)),
                delta=delta,
                beta=beta,
                releases=releases,
            )
            / target
        )

    return float(np.exp(_first_within(excess, 0.0, np.log(1e-3), np.log(1e3))))


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
    """The rows from which on `accuracy_from_budget` is within a target, to 0.1%.

    Parameters
    ----------
    measure : {"linf", "cdf", "kl"}
        As for `accuracy_from_budget`.
    target : float
        The largest error.
    n_categories : int
        d.
    epsilon, delta : float
        The budget, of all releases together.
    beta : float, default=0.05
        The probability that the bound may fail.
    releases : int, default=1
        Histograms that share the budget.

    Returns
    -------
    float
        A whole number, infinite if none up to 10^12 are enough.

    Examples
    --------
    >>> from skdirdp.utility import rows_for_accuracy
    >>> bool(11_000 < rows_for_accuracy("linf", 0.05, 20, epsilon=1.0) < 12_000)
    True
    """
    target = check_real("target", target, above=0)

    @cache
    def excess(log_rows):
        return np.log(
            accuracy_from_budget(
                measure,
                round(np.exp(log_rows)),
                n_categories,
                epsilon=epsilon,
                delta=delta,
                beta=beta,
                releases=releases,
            )
            / target
        )

    return float(np.ceil(np.exp(_first_within(excess, np.log(1e4), 0.0, np.log(1e12)))))


def _first_within(excess, start: float, least: float, most: float) -> float:
    """Where `excess`, falling, passes 0, from above; logarithms throughout."""
    low = high = start
    if excess(start) > 0:
        while excess(high) > 0:
            if high >= most:
                return np.inf
            low, high = high, min(high + _STRIDE, most)
    else:
        while excess(low) <= 0:
            if low <= least:
                return least
            low, high = max(low - _STRIDE, least), low
    # An infinite bound has no slope to follow: halve until there is one.
    while not np.isfinite(excess(low)):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        if high - low < _LOG_TOLERANCE:
            return high
    root = brentq(excess, low, high, xtol=_LOG_TOLERANCE / 2)
    return min(root + _LOG_TOLERANCE / 2, high)
