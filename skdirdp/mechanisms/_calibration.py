"""From a budget and public sizes to a mechanism.

Calibration inverts composition: among all parameters with which the releases
together stay within the budget, it takes those of least expected divergence
(`Mechanism.expected_divergence`, which sees no data). Results are cached.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from .._validation import check_choice, check_integer, check_real
from ..accounting import ApproximateDP, Composition, RenyiDP, TruncatedConcentratedDP
from ..accounting.pairs import GaussianPair
from ..accounting.worst_case import ADJACENCIES
from . import _papers
from ._additive import GaussianMechanism, LaplaceMechanism
from ._base import Mechanism
from ._dirichlet import DirichletMechanism
from ._rows import RowBound

CALIBRATIONS = ("exact", "algorithm1", "tcdp")
MECHANISMS = ("dirichlet", "gaussian", "laplace", "auto")

_COARSE, _FINE = 1e-3, 1e-10  # tolerances on the logarithm of a parameter
_FIRST_ALPHA, _STRIDE, _MAX_STRIDES = 4.0, np.log(4.0), 24

AnyMechanism = TypeVar("AnyMechanism", bound=Mechanism)


@dataclass(frozen=True)
class Problem:
    """What is to be released, and within what budget."""

    budget: ApproximateDP | RenyiDP | None  # None: no privacy, no noise
    releases: int
    n_samples: float
    shapes: tuple[tuple[int, int], ...]  # (categories, rows), once per kind of table
    weights: tuple[int, ...]  # how many tables there are of each kind
    min_smoothing: float
    adjacency: str
    rows: RowBound
    floor: float

    def excess(self, mechanism: Mechanism) -> float:
        """Positive where the releases pass the budget; continuous in the parameters."""
        total = Composition([(mechanism, self.releases)])
        if isinstance(self.budget, RenyiDP):
            with np.errstate(divide="ignore"):
                return float(np.log(total.rdp(self.budget.order)) - np.log(self.budget.epsilon))
        assert self.budget is not None
        return float(total.log_delta(self.budget.epsilon)) - np.log(self.budget.delta)

    def divergence(self, mechanism: Mechanism) -> float:
        """The expected KL divergence of all tables together."""
        return sum(
            weight * mechanism.expected_divergence(self.n_samples, categories, rows)
            for (categories, rows), weight in zip(self.shapes, self.weights, strict=True)
        )


@lru_cache(maxsize=1024)
def _gaussian_mu(budget: ApproximateDP | RenyiDP) -> float:
    """Sensitivity over deviation of one Gaussian release that uses up the budget."""
    if isinstance(budget, RenyiDP):
        return float(np.sqrt(2 * budget.epsilon / budget.order))

    def excess(log_mu):
        return float(GaussianPair(np.exp(log_mu)).log_delta(budget.epsilon)) - np.log(budget.delta)

    return float(np.exp(_last_allowed(excess, 0.0, _FINE)))


def calibrate(mechanism: str = "dirichlet", **budget_and_sizes: Any) -> Mechanism:
    """The named mechanism within a budget, or with "auto" the best of the three.

    The best is the one of least expected KL divergence for the public sizes and the
    budget: no data is seen.

    Parameters
    ----------
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}
    **budget_and_sizes
        The parameters of `DirichletMechanism.calibrate`.

    Examples
    --------
    >>> from skdirdp.mechanisms import calibrate
    >>> sizes = dict(epsilon=1.0, delta=1e-5, releases=14, n_categories=10, n_rows=2)
    >>> type(calibrate("auto", n_samples=30_000, **sizes)).__name__
    'GaussianMechanism'
    """
    check_choice("mechanism", mechanism, MECHANISMS)
    makers: dict[str, Callable[..., Mechanism]] = {
        "dirichlet": calibrate_dirichlet,
        "gaussian": calibrate_gaussian,
        "laplace": calibrate_laplace,
    }
    if mechanism != "auto":
        return makers[mechanism](**budget_and_sizes)
    problem, _ = _problem(**budget_and_sizes)
    candidates = [make(**budget_and_sizes) for make in makers.values()]
    return min(candidates, key=problem.divergence)


def calibrate_dirichlet(**budget_and_sizes: Any) -> DirichletMechanism:
    problem, calibration = _problem(**budget_and_sizes)
    if problem.budget is None:
        return replace(_dirichlet(problem, np.inf, np.inf), exact_smoothing=problem.min_smoothing)
    return {"exact": _exact, "algorithm1": _algorithm1, "tcdp": _tcdp}[calibration](problem)


def calibrate_gaussian(**budget_and_sizes: Any) -> GaussianMechanism:
    problem, calibration = _problem(sizes_needed=False, **budget_and_sizes)
    _only_exact("gaussian", calibration)
    return _gaussian(problem)


def calibrate_laplace(**budget_and_sizes: Any) -> LaplaceMechanism:
    problem, calibration = _problem(sizes_needed=False, **budget_and_sizes)
    _only_exact("laplace", calibration)
    return _laplace(problem)


def _only_exact(mechanism: str, calibration: str) -> None:
    if calibration != "exact":
        raise ValueError(
            f"calibration must be 'exact' for mechanism {mechanism!r}; got {calibration!r}, "
            "which is defined for 'dirichlet' only"
        )


def _problem(
    *,
    epsilon: float,
    delta: float = 1e-5,
    order: float | None = None,
    releases: int = 1,
    n_samples: float | None = None,
    n_categories: int | Sequence[int] | None = None,
    n_rows: int | Sequence[int] = 1,
    min_smoothing: float = 1.0,
    adjacency: str = "replace",
    calibration: str = "exact",
    max_count: float = 1.0,
    max_total: float | None = None,
    floor: float = 0.0,
    sizes_needed: bool = True,
) -> tuple[Problem, str]:
    check_real("epsilon", epsilon, above=0, allow_infinite=True)
    check_choice("adjacency", adjacency, ADJACENCIES)
    check_choice("calibration", calibration, CALIBRATIONS)
    check_integer("releases", releases, at_least=1)
    check_real("min_smoothing", min_smoothing, at_least=0)
    check_real("floor", floor, at_least=0)
    budget: ApproximateDP | RenyiDP | None = None
    if order is not None:
        check_real("order", order, above=1)
    else:
        check_real("delta", delta, above=0, below=1)
    if np.isfinite(epsilon):
        if order is not None:
            budget = RenyiDP(float(order), float(epsilon), adjacency)
        else:
            budget = ApproximateDP(float(epsilon), float(delta), adjacency)
    if sizes_needed and (n_samples is None or n_categories is None):
        missing = "n_samples" if n_samples is None else "n_categories"
        raise TypeError(
            f"{missing} must be given: the mechanism is chosen for the table's public size"
        )
    n_samples = check_real("n_samples", 1 if n_samples is None else n_samples, at_least=0)
    shapes = _table_shapes(2 if n_categories is None else n_categories, n_rows, releases)
    kinds = tuple(sorted(set(shapes)))
    problem = Problem(
        budget=budget,
        releases=int(releases),
        n_samples=n_samples,
        shapes=kinds,
        weights=tuple(shapes.count(kind) for kind in kinds),
        min_smoothing=float(min_smoothing),
        adjacency=adjacency,
        rows=RowBound(float(max_count), None if max_total is None else float(max_total)),
        floor=float(floor),
    )
    return problem, calibration


def _table_shapes(n_categories, n_rows, releases: int) -> list[tuple[int, int]]:
    columns = []
    for name, value in (("n_categories", n_categories), ("n_rows", n_rows)):
        if np.ndim(value) == 0:
            columns.append([check_integer(name, value, at_least=1)] * releases)
            continue
        sizes = [check_integer(name, size, at_least=1) for size in value]
        if len(sizes) != releases:
            raise ValueError(
                f"{name} must have one entry per release, {releases}; got {len(sizes)}"
            )
        columns.append(sizes)
    return list(zip(*columns, strict=True))


def _dirichlet(problem: Problem, r: float, alpha: float, claim=None) -> DirichletMechanism:
    return DirichletMechanism(
        r=float(r),
        alpha=float(alpha),
        floor=problem.floor,
        claim=claim,
        adjacency=problem.adjacency,
        max_count=problem.rows.max_count,
        max_total=problem.rows.max_total,
    )


@lru_cache(maxsize=1024)
def _exact(problem: Problem) -> DirichletMechanism:
    """The best point on the frontier: for each alpha, the largest r within the budget.

    At a fixed alpha a larger r only brings the release closer to the counts, and the
    loss of privacy grows with it from none to all, so that r is unique.
    """
    least = 0.5 if problem.rows.max_total is not None else 0.0

    @cache
    def divergence(log_alpha: float) -> float:
        alpha = max(np.exp(log_alpha), least)
        return problem.divergence(_on_frontier(problem, alpha, _COARSE))

    log_alpha = _walk_downhill(divergence, np.log(_FIRST_ALPHA))
    found = minimize_scalar(
        divergence,
        bounds=(log_alpha - _STRIDE, log_alpha + _STRIDE),
        method="bounded",
        options={"xatol": 0.02},
    )
    log_alpha = min(log_alpha, float(found.x), key=divergence)
    # Never worse than Algorithm 1: its alpha, with the r that is truly allowed there.
    candidates = [max(np.exp(log_alpha), least), max(_algorithm1(problem).alpha, least)]
    return min(
        (_on_frontier(problem, alpha, _FINE) for alpha in candidates), key=problem.divergence
    )


def _walk_downhill(function: Callable[[float], float], start: float) -> float:
    """The first local minimum on a grid of strides from the start."""
    direction = _STRIDE if function(start + _STRIDE) < function(start) else -_STRIDE
    for _ in range(_MAX_STRIDES):
        if function(start + direction) >= function(start):
            break
        start += direction
    return start


def _on_frontier(problem: Problem, alpha: float, tolerance: float) -> DirichletMechanism:
    """The largest r at this alpha that the budget and the least smoothing allow."""
    ceiling = alpha / problem.min_smoothing if problem.min_smoothing > 0 else np.inf

    def excess(log_r):
        return problem.excess(_dirichlet(problem, np.exp(log_r), alpha))

    if np.isfinite(ceiling) and excess(np.log(ceiling)) <= 0:
        r = ceiling
    else:
        r = np.exp(_last_allowed(excess, _guess_log_r(problem, alpha), tolerance))
    return _dirichlet(problem, r, alpha)


def _guess_log_r(problem: Problem, alpha: float) -> float:
    """Near the frontier: a Gaussian loss of the same variance, or the loss's tail."""
    budget = problem.budget
    effective = problem.releases * problem.rows.squared_norm(problem.adjacency)
    bulk = _gaussian_mu(problem.budget) * np.sqrt(alpha / effective) * np.sqrt(alpha / (1 + alpha))
    if isinstance(budget, RenyiDP):
        tail = alpha / (budget.order - 1)
    else:
        assert budget is not None
        tail = alpha * budget.epsilon / np.log(1 / budget.delta)
    return float(np.log(min(bulk, tail / problem.rows.largest)))


def _last_allowed(excess: Callable[[float], float], guess: float, tolerance: float) -> float:
    """The largest argument with ``excess <= 0``, from below; excess grows through 0."""

    def clipped(x):
        return float(np.clip(excess(x), -1e3, 1e3))

    step, low, high = 0.25, guess, guess
    while clipped(low) > 0:
        low, high, step = low - step, low, 2 * step
    if high == guess:
        while clipped(high) <= 0:
            low, high, step = high, high + step, 2 * step
    root = brentq(clipped, low, high, xtol=tolerance, rtol=1e-15)
    step = tolerance
    while clipped(root) > 0:
        root, step = root - step, 2 * step
    return float(root)


def _sensitivity(problem: Problem) -> _papers.Sensitivity:
    return _papers.Sensitivity(problem.rows.squared_norm(problem.adjacency), problem.rows.largest)


@lru_cache(maxsize=1024)
def _algorithm1(problem: Problem) -> DirichletMechanism:
    """Paper A: the budget split evenly over the releases, then Algorithm 1 for each."""
    budget = problem.budget
    if isinstance(budget, RenyiDP):
        order, share = budget.order, budget.epsilon / problem.releases
    else:
        assert budget is not None
        order, share = _papers.algorithm1_budget(
            budget.epsilon / problem.releases, budget.delta / problem.releases
        )
    r, alpha = _papers.algorithm1(order, share, _sensitivity(problem), problem.floor)
    claim = RenyiDP(float(order), float(share), problem.adjacency)
    return _dirichlet(problem, r, max(alpha, problem.min_smoothing * r), claim)


@lru_cache(maxsize=1024)
def _tcdp(problem: Problem) -> DirichletMechanism:
    """Paper B: posterior sampling (r = 1) with the prior that its bound asks for."""
    budget, sensitivity = problem.budget, _sensitivity(problem)
    if isinstance(budget, RenyiDP):
        share = budget.epsilon / problem.releases
        alpha, rho = _papers.tcdp_for_renyi(budget.order, share, sensitivity, problem.floor)
        omega = budget.order
    else:
        assert budget is not None
        alpha, rho, omega = _papers.tcdp_for_approximate(
            budget.epsilon, budget.delta, problem.releases, sensitivity, problem.floor
        )
    claim = TruncatedConcentratedDP(rho, omega, problem.adjacency)
    return _dirichlet(problem, 1.0, max(alpha, problem.min_smoothing), claim)


@lru_cache(maxsize=1024)
def _gaussian(problem: Problem) -> GaussianMechanism:
    common = _additive_parameters(problem)
    if problem.budget is None:
        return GaussianMechanism(0.0, **common)
    # k releases are one whose sensitivity is sqrt(k) times as large.
    variance = problem.releases * problem.rows.squared_norm(problem.adjacency)
    sigma = float(np.sqrt(variance)) / _gaussian_mu(problem.budget) * (1 + 1e-12)
    return GaussianMechanism(sigma, **common)


@lru_cache(maxsize=1024)
def _laplace(problem: Problem) -> LaplaceMechanism:
    common = _additive_parameters(problem)
    if problem.budget is None:
        return LaplaceMechanism(0.0, **common)
    pure = problem.releases * problem.rows.total(problem.adjacency) / problem.budget.epsilon

    def excess(log_inverse_scale):
        return problem.excess(LaplaceMechanism(float(np.exp(-log_inverse_scale)), **common))

    variance = problem.releases * problem.rows.squared_norm(problem.adjacency)
    guess = np.log(_gaussian_mu(problem.budget) / np.sqrt(2 * variance))
    scale = np.exp(-_last_allowed(excess, float(guess), 1e-6))
    # At this scale the releases are epsilon-DP outright, and so within either budget.
    return LaplaceMechanism(float(min(scale, pure)), **common)


def _additive_parameters(problem: Problem) -> dict[str, Any]:
    return {
        "smoothing": problem.min_smoothing,
        "adjacency": problem.adjacency,
        "max_count": problem.rows.max_count,
        "max_total": problem.rows.max_total,
    }
