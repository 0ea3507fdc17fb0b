"""Accuracy bounds for releases that are calibrated to a budget."""

from collections.abc import Callable

import numpy as np

from .._validation import check_choice, check_real
from ..mechanisms import DirichletMechanism
from ..numerics.roots import safe_root
from .cdf import cdf_bound
from .kl import LEAST_ALPHA, kl_tail_error
from .linf import linf_bound

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
        Histograms within the one budget.

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
        Histograms within the one budget.

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
        Histograms within the one budget.

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


def _first_within(
    excess: Callable[[float], float], start: float, least: float, most: float
) -> float:
    """The least logarithm from which on a falling `excess` is at most 0; infinite if none is."""
    found = safe_root(excess, start, -_STRIDE, tolerance=_LOG_TOLERANCE / 4, limits=(least, most))
    return np.inf if np.isnan(found) else found
