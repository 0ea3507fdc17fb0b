"""Calibrate mechanisms to a privacy budget and public table sizes.

Calibration inverts composition. Among all noise levels at which the tables of a fit, released
together, stay within the budget, it selects the one with the smallest expected divergence
(`Mechanism.expected_divergence`, which does not depend on data). Results are cached.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from .._validation import check_choice, check_integer, check_real
from ..accounting import ApproximateDP, Composition, RenyiDP, TruncatedConcentratedDP
from ..accounting.pairs import GaussianPair, gaussian_mu, gaussian_slope
from ..accounting.worst_case import ADJACENCIES
from ..numerics.conservative import root_nearby, safe_root
from .additive import GaussianMechanism, LaplaceMechanism
from .base import Mechanism
from .dirichlet import (
    DirichletMechanism,
    Sensitivity,
    algorithm1,
    algorithm1_budget,
    tcdp_alpha,
    tcdp_for_approximate,
    tcdp_rho,
)
from .tables import ContributionBound, CountTable

CALIBRATIONS = ("exact", "algorithm1", "tcdp")
MECHANISMS = ("dirichlet", "gaussian", "laplace", "auto")
_ADDITIVE = {"gaussian": GaussianMechanism, "laplace": LaplaceMechanism}

_COARSE, _FINE = 1e-3, 1e-10  # tolerances for the logarithm of a parameter
_MAX_SECANTS, _MAX_STEP = 8, 4.0  # limits of the secant search; `largest_allowed` is the fallback
_FIRST_ALPHA, _STRIDE, _MAX_STRIDES = 4.0, np.log(4.0), 24
# Base-2 logarithm of the alpha of post-processed tables, which is subtracted after the release.
_LOG2_ALPHA = 20
# Limits of the logarithms of all parameters.
_MIN_LOG, _MAX_LOG = -300.0, 225.0
_TOO_SMALL = "epsilon is too small: the noise exceeds the range of floating-point numbers"

BudgetGuarantee = ApproximateDP | RenyiDP
#: One mechanism for each kind of table of a problem.
Solution = tuple[Mechanism, ...]


@dataclass(frozen=True)
class Problem:
    """Tables to release within one budget: distinct tables and their multiplicities."""

    tables: tuple[tuple[CountTable, int], ...]
    budget: BudgetGuarantee
    adjacency: str

    def excess(self, mechanisms: Sequence[Mechanism]) -> float:
        """Return the logarithm of the ratio of the cost to the budget.

        It is positive if the budget is exceeded, and a continuous function of the noise scale.
        """
        counts = [count for _, count in self.tables]
        total = Composition(zip(mechanisms, counts, strict=True))
        if isinstance(self.budget, RenyiDP):
            with np.errstate(divide="ignore"):
                return float(np.log(total.rdp(self.budget.order)) - np.log(self.budget.epsilon))
        return float(total.log_delta(self.budget.epsilon) - np.log(self.budget.delta))

    def divergence(self, mechanisms: Sequence[Mechanism]) -> float:
        """Return the expected KL divergence of all tables together."""
        pairs = zip(self.tables, mechanisms, strict=True)
        return sum(
            count * mechanism.expected_divergence(table) for (table, count), mechanism in pairs
        )

    @property
    def slope(self) -> float:
        """Approximate derivative of `excess` with respect to the log of the inverse noise scale."""
        return _slope(self.budget)

    def additive(self, kind: Any, scale: float) -> Solution:
        return tuple(_additive(kind, table, self.adjacency, scale) for table, _ in self.tables)

    @property
    def squared_l2_sensitivity(self) -> float:
        """Squared l2 sensitivity of all tables together, relative to the common noise scale."""
        return sum(
            count * table.precision**2 * table.contribution.squared_norm(self.adjacency)
            for table, count in self.tables
        )


def _slope(budget: BudgetGuarantee, mu: float | None = None) -> float:
    """Return the slope of `excess` for Gaussian noise; it is more precise if mu is given."""
    if isinstance(budget, RenyiDP):
        return 2.0
    if mu is not None:
        return gaussian_slope(budget.epsilon, budget.delta, mu)
    # For small mu, log(delta) is about -((epsilon / mu) ** 2) / 2. Its derivative with respect to
    # log(mu) is therefore about 2 log(1 / delta).
    return 2 * np.log(1 / budget.delta) + 2


def make_guarantee(
    epsilon: float, delta: float, order: float | None, adjacency: str
) -> BudgetGuarantee:
    """Return the budget as a guarantee: (epsilon, delta)-DP, or RDP if an order is given."""
    if order is None:
        return ApproximateDP(float(epsilon), float(delta), adjacency)
    return RenyiDP(float(order), float(epsilon), adjacency)


def calibrate(
    mechanism: str = "dirichlet",
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
) -> Mechanism:
    """Calibrate a mechanism to a privacy budget.

    Parameters
    ----------
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}, default="dirichlet"
        Noise distribution. "auto" selects the mechanism with the smallest expected KL
        divergence for the public table sizes and the budget.
    epsilon : float
        Privacy budget of all releases together. If infinite, no noise is added.
    delta : float, default=1e-5
        All releases together are (epsilon, delta)-differentially private.
    order : float, optional
        If given, all releases together satisfy (order, epsilon)-Renyi differential privacy
        instead, and `delta` is ignored.
    releases : int, default=1
        Number of tables that are released with the mechanism.
    n_samples : float, optional
        Number of records, public if `adjacency="replace"`; otherwise a data-independent estimate.
    n_categories : int or sequence of int, optional
        Number of cells per row, for all tables or for each table. Gaussian and Laplace noise need
        neither `n_samples` nor `n_categories`; the other mechanisms need both.
    n_rows : int or sequence of int, default=1
        Number of rows, for all tables or for each table.
    min_smoothing : float, default=1.0
        Minimum smoothing, in units of counts.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether neighbouring data sets differ by replacing one record, or by adding or removing
        one.
    calibration : {"exact", "algorithm1", "tcdp"}, default="exact"
        How the noise is calibrated. "algorithm1" and "tcdp" reproduce published methods.
    max_count, max_total, floor : float
        As in `DirichletMechanism`.

    Returns
    -------
    Mechanism

    Examples
    --------
    >>> from skdirdp.mechanisms import calibrate
    >>> sizes = dict(releases=14, n_samples=30_000, n_categories=10, n_rows=2)
    >>> type(calibrate("auto", epsilon=1.0, delta=1e-5, **sizes)).__name__
    'GaussianMechanism'
    """
    check_integer("releases", releases, at_least=1)
    for name, size in (("n_samples", n_samples), ("n_categories", n_categories)):
        if size is None and mechanism not in _ADDITIVE:
            raise TypeError(f"{name} must be given: the noise depends on the table's public size")
    n_samples = 1.0 if n_samples is None else n_samples
    categories = _per_release("n_categories", 2 if n_categories is None else n_categories, releases)
    rows = _per_release("n_rows", n_rows, releases)
    bound = ContributionBound(max_count, max_total)
    tables = [
        CountTable(n_samples, *size, bound, 1.0, min_smoothing, floor)
        for size in zip(categories, rows, strict=True)
    ]
    return calibrate_tables(
        tables,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        order=order,
        adjacency=adjacency,
        calibration=calibration,
    )[0]


# Used by `Mechanism.calibrate`, which cannot import this module.
Mechanism._calibrator = staticmethod(calibrate)


def _per_release(name: str, sizes: Any, releases: int) -> list[int]:
    sizes = [sizes] * releases if np.ndim(sizes) == 0 else [*sizes]
    if len(sizes) != releases:
        raise ValueError(f"{name} must have one entry per release ({releases}); got {len(sizes)}")
    return sizes


def calibrate_tables(
    tables: Iterable[CountTable],
    *,
    mechanism: str,
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
    calibration: str,
) -> list[Mechanism]:
    """Return a mechanism for each table, all within one budget."""
    tables = list(tables)
    _check_parameters(mechanism, epsilon, delta, order, adjacency, calibration)
    if not tables:
        return []
    if np.isinf(epsilon):
        if mechanism in _ADDITIVE:
            return [_additive(_ADDITIVE[mechanism], table, adjacency, 0.0) for table in tables]
        return [
            _make(DirichletMechanism, table, adjacency, np.inf, np.inf, 0.0, table.min_smoothing)
            for table in tables
        ]
    if order is None and delta == 0:
        # The privacy losses of Laplace noise add up to epsilon.
        total = sum(table.precision * table.contribution.total(adjacency) for table in tables)
        scale = total / epsilon * (1 + 1e-12)
        return [_additive(LaplaceMechanism, table, adjacency, scale) for table in tables]
    budget = make_guarantee(epsilon, delta, order, adjacency)
    problem = Problem(tuple(Counter(tables).items()), budget, adjacency)
    solution = _solve(problem, mechanism, calibration)
    distinct = [table for table, _ in problem.tables]
    chosen = dict(zip(distinct, solution, strict=True))
    return [chosen[table] for table in tables]


def _check_parameters(mechanism, epsilon, delta, order, adjacency, calibration) -> None:
    check_choice("mechanism", mechanism, MECHANISMS)
    check_choice("adjacency", adjacency, ADJACENCIES)
    check_choice("calibration", calibration, CALIBRATIONS)
    if calibration != "exact" and mechanism != "dirichlet":
        raise ValueError(
            f"calibration must be 'exact' for mechanism {mechanism!r}; got {calibration!r}, "
            "which is defined for 'dirichlet' only"
        )
    check_real("epsilon", epsilon, above=0, allow_infinite=True)
    if order is not None:
        check_real("order", order, above=1)
        return
    check_real("delta", delta, at_least=0, below=1)
    if delta == 0 and mechanism not in ("laplace", "auto"):
        raise ValueError(
            f"delta must be positive for mechanism {mechanism!r}, whose privacy loss is "
            "unbounded; use 'laplace' or 'auto' for delta=0"
        )


@lru_cache(maxsize=4096)
def _solve(problem: Problem, mechanism: str, calibration: str) -> Solution:
    if mechanism == "auto":
        additive = [_solve(problem, name, "exact") for name in _ADDITIVE]
        if all(table.postprocess for table, _ in problem.tables):
            # The variances of the two solutions differ by the same factor for all tables. Dirichlet
            # noise has the variance of Gaussian noise plus x / r (`_subtracted_alpha`).
            return min(additive, key=lambda solution: solution[0].noise.variance)
        return min([_solve(problem, "dirichlet", "exact"), *additive], key=problem.divergence)
    solve = {
        ("dirichlet", "exact"): _exact_dirichlet,
        ("dirichlet", "algorithm1"): _algorithm1,
        ("dirichlet", "tcdp"): _tcdp,
        ("gaussian", "exact"): _gaussian,
        ("laplace", "exact"): _laplace,
    }[mechanism, calibration]
    return solve(problem)


def _make(kind: Any, table: CountTable, adjacency: str, *parameters: Any, **more: Any) -> Any:
    count, total = table.contribution.max_count, table.contribution.max_total
    relation = table.relation(adjacency)
    return kind(*parameters, adjacency=relation, max_count=count, max_total=total, **more)


def _additive(kind: Any, table: CountTable, adjacency: str, scale: float) -> Mechanism:
    return _make(kind, table, adjacency, float(scale / table.precision), table.min_smoothing)


def _dirichlet(
    table: CountTable, adjacency: str, r: float, alpha: float, claim: Any = None
) -> DirichletMechanism:
    parameters = float(r), float(alpha), table.floor
    return _make(DirichletMechanism, table, adjacency, *parameters, claim=claim)


def _exact_dirichlet(problem: Problem) -> Solution:
    """Return the solution for the best alpha, with the largest r that the budget allows for it.

    For a fixed alpha, the release approaches the counts as r increases, and the privacy loss
    increases from zero to infinity. The largest r is therefore unique.
    """
    frontier = _Frontier(problem)
    if all(table.postprocess for table, _ in problem.tables):
        return frontier.at(_subtracted_alpha(problem), like_gaussian=True)
    # For alpha below 1/2, the worst-case record with a bounded total is spread over many cells with
    # small counts.
    has_bounded_total = any(table.contribution.max_total is not None for table, _ in problem.tables)
    min_alpha = 0.5 if has_bounded_total else 0.0

    @cache
    def divergence(log_alpha: float) -> float:
        return problem.divergence(frontier.near(max(np.exp(log_alpha), min_alpha)))

    # Find the first local minimum on a grid, and refine it.
    log_alpha = np.log(_FIRST_ALPHA)
    downhill = divergence(log_alpha + _STRIDE) < divergence(log_alpha)
    direction = _STRIDE if downhill else -_STRIDE
    for _ in range(_MAX_STRIDES):
        if divergence(log_alpha + direction) >= divergence(log_alpha):
            break
        log_alpha += direction
    bounds = (log_alpha - _STRIDE, log_alpha + _STRIDE)
    best = minimize_scalar(divergence, bounds=bounds, method="bounded", options={"xatol": 0.1})
    # The alpha of Algorithm 1 is tried too, so that the result is never worse.
    published = _algorithm1(problem)[0]
    assert isinstance(published, DirichletMechanism)
    log_alpha = min(log_alpha, float(best.x), np.log(published.alpha), key=divergence)
    return frontier.at(max(np.exp(log_alpha), min_alpha))


def _subtracted_alpha(problem: Problem) -> float:
    """Return the alpha of post-processed tables, which is subtracted after the release.

    At a fixed budget, the variance of ``(G - alpha) / r`` decreases towards that of Gaussian noise
    as alpha increases, and differs from it by less than 1% if alpha is at least 2^14. Shape
    parameters have 62 bits; a fine grid of counts or a large noise scale leaves fewer bits for
    alpha.
    """
    places = max(-np.log2(table.contribution.grid) for table, _ in problem.tables)
    sigma = np.sqrt(problem.squared_l2_sensitivity) / _approximate_gaussian_mu(problem.budget)
    # r is about sqrt(alpha) / sigma, and has 16 bits.
    return float(2.0 ** np.clip(np.floor(2 * (42 - places - np.log2(sigma))), 4, _LOG2_ALPHA))


class _Frontier:
    """Largest r for each alpha within the budget and with at least the minimum smoothing."""

    def __init__(self, problem: Problem):
        self._problem = problem
        scale = max(table.precision * table.min_smoothing for table, _ in problem.tables)
        self._max_r_per_alpha = 1 / scale if scale > 0 else np.inf
        self._slope: float | None = None  # None if unknown
        self._offsets: dict[float, float] = {}  # maps log(alpha) to the error of the guess

    def at(self, alpha: float, *, like_gaussian: bool = False) -> Solution:
        """Return the mechanisms at alpha, within the budget."""
        problem = self._problem
        guess, log_ceiling = self._guess(alpha)
        slope = self._slope or problem.slope
        if like_gaussian:
            mu = _approximate_gaussian_mu(problem.budget)
            guess = min(
                float(np.log(mu * np.sqrt(alpha / problem.squared_l2_sensitivity))), log_ceiling
            )
            slope = _slope(problem.budget, mu)
        log_r = largest_allowed(self._excess(alpha), guess, _FINE, slope, log_ceiling)
        return self._mechanisms(log_r, alpha)

    def near(self, alpha: float) -> Solution:
        """Return mechanisms near the frontier, possibly slightly over budget, to compare alphas."""
        guess, log_ceiling = self._guess(alpha)
        excess, slope = self._excess(alpha), self._slope or self._problem.slope
        log_r, value = guess, excess(guess)
        for _ in range(_MAX_SECANTS):
            next_log_r = min(log_r - value / slope, log_ceiling)
            if not abs(next_log_r - log_r) <= _MAX_STEP:
                break  # the step is too long, or not finite because the excess is infinite
            # A slope from a nearby alpha has a relative error of about a tenth.
            if abs(next_log_r - log_r) < (_COARSE if self._slope is None else 10 * _COARSE):
                # A slope steeper than expected is local: do not use it at other alphas.
                self._slope = slope if slope < self._problem.slope else None
                offset = next_log_r - _guess_log_r(self._problem, alpha)
                self._offsets[float(np.log(alpha))] = offset
                return self._mechanisms(next_log_r, alpha)
            previous, log_r = (log_r, value), next_log_r
            value = excess(log_r)
            secant_slope = (value - previous[1]) / (log_r - previous[0])
            slope = secant_slope if secant_slope > 0 else slope
        log_r = largest_allowed(excess, guess, _COARSE, self._problem.slope, log_ceiling)
        return self._mechanisms(log_r, alpha)

    def _excess(self, alpha: float) -> Callable[[float], float]:
        return lambda log_r: self._problem.excess(self._mechanisms(log_r, alpha))

    def _mechanisms(self, log_r: float, alpha: float) -> Solution:
        r, adjacency = min(np.exp(log_r), alpha * self._max_r_per_alpha), self._problem.adjacency
        tables = [table for table, _ in self._problem.tables]
        return tuple(_dirichlet(table, adjacency, r * table.precision, alpha) for table in tables)

    def _guess(self, alpha: float) -> tuple[float, float]:
        """Return the initial guess of log r at alpha, and the upper limit of log r."""
        log_alpha, log_ceiling = float(np.log(alpha)), float(np.log(alpha * self._max_r_per_alpha))
        # Extrapolate the error of the guess linearly from the two nearest alphas.
        nearest = sorted(self._offsets, key=lambda known: abs(known - log_alpha))[:2]
        offset = self._offsets[nearest[0]] if nearest else 0.0
        if len(nearest) == 2:
            first, second = nearest
            slope = (self._offsets[second] - offset) / (second - first)
            offset += slope * (log_alpha - first)
        return min(_guess_log_r(self._problem, alpha) + offset, log_ceiling), log_ceiling


def _guess_log_r(problem: Problem, alpha: float) -> float:
    """Guess log r from a Gaussian loss with the same variance, and from the tail of the loss."""
    budget = problem.budget
    if isinstance(budget, RenyiDP):
        mu = np.sqrt(2 * budget.epsilon / budget.order)
        tail = alpha / (budget.order - 1)
    else:
        # The exponent of the Gaussian tail is -log(1 / delta).
        log_inverse_delta = -np.log(budget.delta)
        mu = np.sqrt(2 * log_inverse_delta + 2 * budget.epsilon) - np.sqrt(2 * log_inverse_delta)
        tail = alpha * budget.epsilon / log_inverse_delta
    bulk = mu * alpha / np.sqrt((1 + alpha) * problem.squared_l2_sensitivity)
    largest = max(table.precision * table.contribution.largest for table, _ in problem.tables)
    guess = min(bulk, tail / largest)
    if not guess > np.exp(_MIN_LOG):
        raise ValueError(_TOO_SMALL)
    return float(np.log(guess))


def largest_allowed(
    excess: Callable[[float], float], guess: float, tolerance: float, slope: float, upper=np.inf
) -> float:
    """Return the largest log-parameter, up to `upper`, at which `excess` is at most 0.

    The function `excess` must be increasing.
    """
    excess = cache(excess)
    # The margin keeps the total within the budget even if other rounding errors occur.
    margin = 10 * tolerance
    limits = (_MIN_LOG, min(upper, _MAX_LOG))
    guess = float(np.clip(guess, *limits))
    nearby = root_nearby(excess, guess, slope, margin, limits[1])
    if nearby is not None:
        return nearby
    # The step is slightly longer than the slope suggests, so that it passes the root.
    step = min(1.1 * abs(excess(guess)) / slope + tolerance, 4.0)
    allowed = safe_root(excess, guess, step, tolerance=tolerance, margin=margin, limits=limits)
    if np.isnan(allowed):
        raise ValueError(_TOO_SMALL)
    return allowed


def _algorithm1(problem: Problem) -> Solution:
    """Split the budget evenly over the releases, and apply Algorithm 1 (`dirichlet.py`) to each."""
    budget, releases = problem.budget, sum(count for _, count in problem.tables)
    if isinstance(budget, RenyiDP):
        order, divergence = budget.order, budget.epsilon / releases
    else:
        order, divergence = algorithm1_budget(budget.epsilon / releases, budget.delta / releases)
    solution = []
    for table, _ in problem.tables:
        claim = RenyiDP(float(order), float(divergence), table.relation(problem.adjacency))
        sensitivity = Sensitivity.from_bound(table.contribution, problem.adjacency)
        r, alpha = algorithm1(order, divergence, sensitivity, table.floor)
        alpha = max(alpha, table.min_smoothing * r)
        solution.append(_dirichlet(table, problem.adjacency, r, alpha, claim))
    return tuple(solution)


def _tcdp(problem: Problem) -> Solution:
    """Use posterior sampling (r = 1) with the alpha that the tCDP bound requires."""
    budget, releases = problem.budget, sum(count for _, count in problem.tables)
    solution = []
    for table, _ in problem.tables:
        sensitivity = Sensitivity.from_bound(table.contribution, problem.adjacency)
        if isinstance(budget, RenyiDP):
            rho, omega = budget.epsilon / releases / budget.order, budget.order
            alpha = tcdp_alpha(rho, (omega - 1) * sensitivity.linf, sensitivity)
        else:
            alpha, gamma = tcdp_for_approximate(budget.epsilon, budget.delta, releases, sensitivity)
            rho = float(tcdp_rho(1.0, alpha, gamma, sensitivity))
            omega = gamma / sensitivity.linf + 1
        claim = TruncatedConcentratedDP(rho, omega, table.relation(problem.adjacency))
        alpha = max(alpha - table.floor, 1e-12, table.min_smoothing)
        solution.append(_dirichlet(table, problem.adjacency, 1.0, alpha, claim))
    return tuple(solution)


@lru_cache(maxsize=1024)
def largest_gaussian_mu(budget: BudgetGuarantee) -> float:
    """Return the largest mu (sensitivity / sigma) of one Gaussian release within a budget."""
    if isinstance(budget, RenyiDP):
        return float(np.sqrt(2 * budget.epsilon / budget.order))

    def excess(log_mu):
        return float(GaussianPair(np.exp(log_mu)).log_delta(budget.epsilon)) - np.log(budget.delta)

    return float(np.exp(largest_allowed(excess, 0.0, _FINE, _slope(budget))))


def _approximate_gaussian_mu(budget: BudgetGuarantee) -> float:
    """Approximate `largest_gaussian_mu` 100 times faster; may slightly exceed the budget."""
    if isinstance(budget, ApproximateDP) and (mu := gaussian_mu(budget.epsilon, budget.delta)):
        return mu
    return largest_gaussian_mu(budget)


def _gaussian(problem: Problem) -> Solution:
    # Independent Gaussian releases are equivalent to one release whose squared sensitivity is the
    # sum of theirs.
    sigma = (
        np.sqrt(problem.squared_l2_sensitivity) / largest_gaussian_mu(problem.budget) * (1 + 1e-12)
    )
    return problem.additive(GaussianMechanism, sigma)


def _laplace(problem: Problem) -> Solution:
    def excess(log_inverse_scale):
        return problem.excess(problem.additive(LaplaceMechanism, np.exp(-log_inverse_scale)))

    # The total loss of many small shifts is nearly that of Gaussian noise: Laplace noise of scale 1
    # has the same Fisher information as a normal distribution with standard deviation 1.
    guess = np.log(largest_gaussian_mu(problem.budget) / np.sqrt(problem.squared_l2_sensitivity))
    scale = np.exp(-largest_allowed(excess, float(guess), 1e-6, problem.slope))
    # At this scale all releases together are epsilon-DP, which satisfies either budget.
    pure = sum(
        count * table.precision * table.contribution.total(problem.adjacency)
        for table, count in problem.tables
    )
    return problem.additive(LaplaceMechanism, min(scale, pure / problem.budget.epsilon))
