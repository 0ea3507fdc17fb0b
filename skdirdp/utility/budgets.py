"""Budgets and numbers of rows for a target, and the accuracy of a budget."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._validation import check_choice, check_integer, check_real
from ..accounting import Composition
from ..mechanisms import DirichletMechanism, Mechanism, calibrate
from ..numerics.conservative import safe_root
from .bounds import MIN_ALPHA, cdf_bound, kl_tail_error, linf_bound


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
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "releases": releases}
    sizes = {"n_samples": n_samples, "n_categories": n_categories}
    mechanism = DirichletMechanism.calibrate(**budget, **sizes, min_smoothing=0.0)
    r, alpha = mechanism.r, mechanism.alpha
    if measure == "kl":
        too_small = alpha < MIN_ALPHA
        return np.inf if too_small else kl_tail_error(beta, n_samples, n_categories, r, alpha)
    bound = linf_bound if measure == "linf" else cdf_bound
    return bound(n_samples, n_categories, alpha, beta, r)


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
    error = partial(accuracy_from_budget, delta=delta, beta=beta, releases=releases)
    return _smallest_reaching(
        target, lambda x: error(measure, n_samples, n_categories, epsilon=x), 1.0, 1e-3, 1e3
    )


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
    error = partial(accuracy_from_budget, epsilon=epsilon, delta=delta, beta=beta)
    rows = _smallest_reaching(
        target, lambda n: error(measure, round(n), n_categories, releases=releases), 1e4, 1.0, 1e12
    )
    return float(np.ceil(rows))


# Epsilons that are searched.
_EPSILONS = (1e-3, 1e3)
# A count at which additive noise never reaches 0, the lower limit of an interval.
_LARGE_COUNT = 1e9


def epsilon_for(
    *,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    interval_width: float | None = None,
    accuracy: float | None = None,
    false_positive_rate: float = 0.01,
    confidence: float = 0.95,
    mechanism: str = "gaussian",
    delta: float = 1e-5,
    adjacency: str = "replace",
    releases: int = 1,
    n_samples: int | None = None,
    n_categories: int | None = None,
) -> float:
    """Find the largest epsilon for a privacy target, or the smallest for an accuracy target.

    The result depends on the mechanism: noise that is calibrated to (epsilon, delta) protects
    better than the two numbers alone say. It is accurate to 0.1%, and on the safe side.

    Parameters
    ----------
    advantage, true_positive_rate : float in (0, 1), default=None
        Privacy target: the largest acceptable success of attacks, see
        `PrivacyReport.advantage` and `PrivacyReport.true_positive_rate`.
    interval_width : float, default=None
        Accuracy target: the width of a confidence interval for one count, in records. With the
        Dirichlet mechanism, which needs `n_samples` and `n_categories`, it is for a count of
        ``n_samples / n_categories``.
    accuracy : float, default=None
        Accuracy target: the largest error of all shares of a histogram. It needs `n_samples` and
        `n_categories`. Exactly one target is given.
    false_positive_rate : float in [0, 1], default=0.01
        Rate at which `true_positive_rate` is meant.
    confidence : float in (0, 1), default=0.95
        Probability with which an accuracy target is met.
    mechanism, delta, adjacency, releases, n_samples, n_categories
        As in `skdirdp.mechanisms.calibrate`. `releases` is the number of tables that share the
        budget.

    Returns
    -------
    float
        Infinite if an accuracy target needs more than 1000, or if a privacy target allows it.

    Examples
    --------
    >>> from skdirdp.utility import epsilon_for
    >>> round(epsilon_for(advantage=0.2, delta=1e-5), 2)
    2.02
    >>> round(epsilon_for(interval_width=40, delta=1e-5), 2)
    0.49
    """
    targets = {"advantage": advantage, "true_positive_rate": true_positive_rate}
    targets |= {"interval_width": interval_width, "accuracy": accuracy}
    given = [name for name, target in targets.items() if target is not None]
    if len(given) != 1:
        raise TypeError(
            f"exactly one of {', '.join(targets)} must be given; got {', '.join(given) or 'none'}"
        )
    check_choice("mechanism", mechanism, ("gaussian", "laplace", "dirichlet"))
    tail = (1 - check_real("confidence", confidence, above=0, below=1)) / 2
    count, unit = _LARGE_COUNT, 1.0
    if accuracy is not None or mechanism == "dirichlet":
        rows = check_integer("n_samples", n_samples, at_least=1)
        cells = check_integer("n_categories", n_categories, at_least=1)
        if accuracy is not None and mechanism == "dirichlet":
            more: dict[str, Any] = {"delta": delta, "beta": 2 * tail, "releases": releases}
            return budget_for_accuracy("linf", accuracy, rows, cells, **more)
        if accuracy is not None:
            tail, unit = tail / cells, 2.0 * rows
        else:
            count = rows / cells

    def noise(epsilon: float) -> Mechanism:
        sizes: dict[str, Any] = {"n_samples": n_samples, "n_categories": n_categories}
        sizes |= {"delta": delta, "releases": releases, "adjacency": adjacency}
        return calibrate(mechanism, epsilon=epsilon, **sizes)

    def error(epsilon: float) -> float:
        lower, upper = noise(epsilon)._count_limits(np.array([count]), np.array([1]), tail)
        return float(upper[0] - lower[0]) / unit

    def attack(epsilon: float) -> float:
        released = Composition([(noise(epsilon), releases)])
        if advantage is not None:
            return released.advantage()
        return float(released.true_positive_rate(false_positive_rate))

    name, target = given[0], float(targets[given[0]])  # type: ignore[arg-type]
    if name in ("interval_width", "accuracy"):
        return _smallest_reaching(target, error, 1.0, *_EPSILONS)
    target = check_real(name, target, above=0, below=1)

    def excess(log_epsilon: float) -> float:
        return float(np.log(attack(float(np.exp(log_epsilon)))) - np.log(target))

    limits = tuple(np.log(_EPSILONS))
    root = safe_root(excess, 0.0, np.log(4.0), tolerance=1e-3 / 4, limits=limits)
    if np.isnan(root):
        least = _EPSILONS[0]
        raise ValueError(f"{name} must be larger: epsilon {least} allows more than {target}")
    return np.inf if root == limits[1] else float(np.exp(root))


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
