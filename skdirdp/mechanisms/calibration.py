"""Calibration: the mechanisms for a budget and public sizes.

Calibration inverts composition: among all noise levels at which the tables of a
fit, released together, stay within the budget, it takes the one of least expected
divergence (`Mechanism.expected_divergence`, which sees no data). Results are cached.
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
from . import papers
from .additive import GaussianMechanism, LaplaceMechanism
from .base import Mechanism
from .contribution import ContributionBound
from .dirichlet import DirichletMechanism
from .table import CountTable

CALIBRATIONS = ("exact", "algorithm1", "tcdp")
MECHANISMS = ("dirichlet", "gaussian", "laplace", "auto")

_COARSE, _FINE = 1e-3, 1e-10  # tolerances on the logarithm of a parameter
_SECANTS, _LONGEST_STEP = 8, 4.0  # before a search that never fails, and is slower
_FIRST_ALPHA, _STRIDE, _MAX_STRIDES = 4.0, np.log(4.0), 24
# The prior of a table that is read without it, as a power of two.
_LOG2_ALPHA = 20
# No parameter is sought beyond these logarithms.
_LEAST_LOG, _LARGEST_LOG = -300.0, 225.0
_TOO_SMALL = "epsilon is too small: floating-point numbers hold no such noise"


@dataclass(frozen=True)
class Problem:
    """Tables of several kinds, to be released within one budget."""

    tables: tuple[tuple[CountTable, int], ...]  # kinds, and how many there are of each
    budget: ApproximateDP | RenyiDP
    adjacency: str

    def excess(self, mechanisms: Sequence[Mechanism]) -> float:
        """Positive where the releases pass the budget; continuous in the noise."""
        counts = [count for _, count in self.tables]
        total = Composition(zip(mechanisms, counts, strict=True))
        if isinstance(self.budget, RenyiDP):
            with np.errstate(divide="ignore"):
                excess = np.log(total.rdp(self.budget.order)) - np.log(self.budget.epsilon)
        else:
            excess = total.log_delta(self.budget.epsilon) - np.log(self.budget.delta)
        return float(excess)

    def divergence(self, mechanisms: Sequence[Mechanism]) -> float:
        """The expected KL divergence of all tables together."""
        return sum(
            count * mechanism.expected_divergence(table)
            for (table, count), mechanism in zip(self.tables, mechanisms, strict=True)
        )

    @property
    def slope(self) -> float:
        """About how fast `excess` grows with the logarithm of the inverse noise."""
        return _slope(self.budget)

    @property
    def releases(self) -> int:
        return sum(count for _, count in self.tables)

    @property
    def squared_norm(self) -> float:
        """The squared l2 sensitivity of all tables together, in units of the common noise."""
        return sum(
            count * table.precision**2 * table.contribution.squared_norm(self.adjacency)
            for table, count in self.tables
        )


def _slope(budget: ApproximateDP | RenyiDP, mu: float | None = None) -> float:
    """Of a Gaussian loss; more exactly, where the mu that uses up the budget is known."""
    if isinstance(budget, RenyiDP):
        return 2.0
    if mu is not None:
        return gaussian_slope(budget.epsilon, budget.delta, mu)
    # The logarithm of delta falls by the square of epsilon over the deviation.
    return 2 * np.log(1 / budget.delta) + 2


#: One mechanism for each kind of table of a problem.
Solution = tuple[Mechanism, ...]


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
    """The named mechanism within a budget, or with "auto" the best of the three.

    The best is the one of least expected KL divergence for the public sizes and the
    budget: no data is seen.

    Parameters
    ----------
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}
    epsilon : float
        The budget of all releases together; infinite for no noise.
    delta : float, default=1e-5
        The releases together are (epsilon, delta)-DP.
    order : float, optional
        Given, they are (order, epsilon)-RDP instead, and delta is not used.
    releases : int, default=1
        The number of tables released with this mechanism.
    n_samples : float
        Records in the data set: public under replacement, a guess otherwise.
    n_categories : int or sequence of int
        Cells per row, of all tables or of each. Both sizes are needed but for Gaussian
        and Laplace noise, which do not depend on them.
    n_rows : int or sequence of int, default=1
        Rows per table.
    min_smoothing : float, default=1.0
        The least smoothing, in counts.
    adjacency : {"replace", "add_remove"}, default="replace"
    calibration : {"exact", "algorithm1", "tcdp"}, default="exact"
        The last two choose a Dirichlet mechanism as the papers do, from their bounds.
    max_count, max_total, floor : float
        As for `DirichletMechanism`.

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
        if size is None and mechanism not in ("gaussian", "laplace"):
            raise TypeError(
                f"{name} must be given: the noise is chosen for the table's public size"
            )
    n_samples = 1.0 if n_samples is None else n_samples
    n_categories = 2 if n_categories is None else n_categories
    rows = ContributionBound(max_count, max_total)
    tables = [
        CountTable(n_samples, categories, table_rows, rows, 1.0, min_smoothing, floor)
        for categories, table_rows in zip(
            _per_release("n_categories", n_categories, releases),
            _per_release("n_rows", n_rows, releases),
            strict=True,
        )
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


# `DirichletMechanism.calibrate(...)` and its like are shorthands for the above.
Mechanism._calibrator = staticmethod(calibrate)


def _per_release(name: str, sizes: int | Sequence[int], releases: int) -> Sequence[int]:
    each = [sizes] * releases if np.ndim(sizes) == 0 else [*sizes]  # type: ignore[misc]
    if len(each) != releases:
        raise ValueError(f"{name} must have one entry per release, {releases}; got {len(each)}")
    return [check_integer(name, size, at_least=1) for size in each]


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
    """A mechanism for each table, all within one budget."""
    tables = list(tables)
    check_choice("mechanism", mechanism, MECHANISMS)
    check_choice("adjacency", adjacency, ADJACENCIES)
    check_choice("calibration", calibration, CALIBRATIONS)
    if calibration != "exact" and mechanism != "dirichlet":
        raise ValueError(
            f"calibration must be 'exact' for mechanism {mechanism!r}; got {calibration!r}, "
            "which is defined for 'dirichlet' only"
        )
    check_real("epsilon", epsilon, above=0, allow_infinite=True)
    if order is None:
        check_real("delta", delta, at_least=0, below=1)
        if delta == 0 and mechanism not in ("laplace", "auto"):
            raise ValueError(
                f"delta must be positive for mechanism {mechanism!r}, whose loss has no bound; "
                "'laplace' takes delta=0"
            )
    else:
        check_real("order", order, above=1)
    if not tables:
        return []
    if np.isinf(epsilon):
        return [_without_noise(table, mechanism, adjacency) for table in tables]
    if order is None and delta == 0:
        return _pure_laplace(tables, float(epsilon), adjacency)
    budget: ApproximateDP | RenyiDP
    if order is None:
        budget = ApproximateDP(float(epsilon), float(delta), adjacency)
    else:
        budget = RenyiDP(float(order), float(epsilon), adjacency)
    problem = Problem(tuple(Counter(tables).items()), budget, adjacency)
    solution = _solve(problem, mechanism, calibration)
    chosen = {table: found for (table, _), found in zip(problem.tables, solution, strict=True)}
    return [chosen[table] for table in tables]


def _solve(problem: Problem, mechanism: str, calibration: str) -> Solution:
    if mechanism == "auto":
        candidates = [solve(problem) for solve in (_exact_dirichlet, _gaussian, _laplace)]
        return min(candidates, key=problem.divergence)
    solve = {
        ("dirichlet", "exact"): _exact_dirichlet,
        ("dirichlet", "algorithm1"): _algorithm1,
        ("dirichlet", "tcdp"): _tcdp,
        ("gaussian", "exact"): _gaussian,
        ("laplace", "exact"): _laplace,
    }[mechanism, calibration]
    return solve(problem)


def _common(table: CountTable, adjacency: str) -> dict[str, Any]:
    return {
        "adjacency": table.relation(adjacency),
        "max_count": table.contribution.max_count,
        "max_total": table.contribution.max_total,
    }


def _without_noise(table: CountTable, mechanism: str, adjacency: str) -> Mechanism:
    common = _common(table, adjacency)
    if mechanism == "gaussian":
        return GaussianMechanism(0.0, table.min_smoothing, **common)
    if mechanism == "laplace":
        return LaplaceMechanism(0.0, table.min_smoothing, **common)
    smoothing = table.min_smoothing
    return DirichletMechanism(np.inf, np.inf, exact_smoothing=smoothing, **common)


def _dirichlet(
    table: CountTable,
    adjacency: str,
    r: float,
    alpha: float,
    claim: RenyiDP | TruncatedConcentratedDP | None = None,
) -> DirichletMechanism:
    common = _common(table, adjacency)
    return DirichletMechanism(float(r), float(alpha), table.floor, claim=claim, **common)


def _dirichlets(problem: Problem, r: float, alpha: float) -> Solution:
    return tuple(
        _dirichlet(table, problem.adjacency, r * table.precision, alpha)
        for table, _ in problem.tables
    )


@lru_cache(maxsize=1024)
def _exact_dirichlet(problem: Problem) -> Solution:
    """The best point on the frontier: for each alpha, the largest r within the budget.

    At a fixed alpha a larger r only brings the release closer to the counts, and the
    loss of privacy grows with it from none to all, so that r is unique.
    """
    frontier = _Frontier(problem)
    if all(table.postprocess for table, _ in problem.tables):
        # With a prior as large as this, the loss is nearly that of Gaussian noise.
        return frontier.at(_subtracted_alpha(problem), like_gaussian=True)
    # No pair is known to dominate a record spread thinly under a smaller prior.
    spread = any(table.contribution.max_total is not None for table, _ in problem.tables)
    least = 0.5 if spread else 0.0

    @cache
    def divergence(log_alpha: float) -> float:
        return problem.divergence(frontier.near(max(np.exp(log_alpha), least)))

    log_alpha = _walk_downhill(divergence, np.log(_FIRST_ALPHA))
    found = minimize_scalar(
        divergence,
        bounds=(log_alpha - _STRIDE, log_alpha + _STRIDE),
        method="bounded",
        options={"xatol": 0.1},
    )
    # Never worse than Algorithm 1: its alpha, with the r that is truly allowed there.
    papers = _algorithm1(problem)[0]
    assert isinstance(papers, DirichletMechanism)
    log_alpha = min(log_alpha, float(found.x), np.log(papers.alpha), key=divergence)
    return frontier.at(max(np.exp(log_alpha), least))


def _subtracted_alpha(problem: Problem) -> float:
    """The prior where it is subtracted again, so that it does not smooth.

    The larger, the better: at a fixed budget the variance of ``(G - alpha) / r`` falls to that
    of Gaussian noise, which differs by less than a percent from 2^14 on, and what a count adds
    to it, 1/r, falls to 0. Shapes are held in 62 bits, of which a fine grid of counts, or much
    noise, may leave fewer for the prior.
    """
    places = max(-np.log2(table.contribution.grid) for table, _ in problem.tables)
    sigma = np.sqrt(problem.squared_norm) / _about_gaussian_mu(problem.budget)
    # r is about the root of alpha over sigma, and has 16 bits.
    return float(2.0 ** np.clip(np.floor(2 * (42 - places - np.log2(sigma))), 4, _LOG2_ALPHA))


def _walk_downhill(function: Callable[[float], float], start: float) -> float:
    """The first local minimum on a grid of strides from the start."""
    direction = _STRIDE if function(start + _STRIDE) < function(start) else -_STRIDE
    for _ in range(_MAX_STRIDES):
        if function(start + direction) >= function(start):
            break
        start += direction
    return start


class _Frontier:
    """For each alpha, the largest r that the budget and the least smoothing allow.

    What is found at some alphas tells how far the guess at another is off, and how steep the
    excess is.
    """

    def __init__(self, problem: Problem):
        self._problem = problem
        scale = max(table.precision * table.min_smoothing for table, _ in problem.tables)
        self._per_alpha = 1 / scale if scale > 0 else np.inf
        self._slope: float | None = None  # None while nothing is known of it
        self._offsets: dict[float, float] = {}  # of the guesses, by the logarithm of alpha

    def at(self, alpha: float, *, like_gaussian: bool = False) -> Solution:
        """The mechanisms there, on the safe side; guessed by Gaussian noise, or from others."""
        problem = self._problem
        guess, log_ceiling = self._guess(alpha)
        slope = self._slope or problem.slope
        if like_gaussian:
            mu = _about_gaussian_mu(problem.budget)
            guess = min(float(np.log(mu * np.sqrt(alpha / problem.squared_norm))), log_ceiling)
            slope = _slope(problem.budget, mu)
        log_r = _last_allowed(self._excess(alpha), guess, _FINE, slope, log_ceiling)
        return self._mechanisms(log_r, alpha)

    def near(self, alpha: float) -> Solution:
        """Mechanisms close by, on either side: to compare one alpha with another."""
        guess, log_ceiling = self._guess(alpha)
        excess, slope = self._excess(alpha), self._slope or self._problem.slope
        log_r, value = guess, excess(guess)
        for _ in range(_SECANTS):
            following = min(log_r - value / slope, log_ceiling)
            if not abs(following - log_r) <= _LONGEST_STEP:
                break  # an infinite excess has no slope to follow
            # A slope that was found nearby is off by a tenth or so, and what it leads to too.
            if abs(following - log_r) < (_COARSE if self._slope is None else 10 * _COARSE):
                # A steeper one than expected is that of a cliff, and not for other places.
                self._slope = slope if slope < self._problem.slope else None
                self._offsets[float(np.log(alpha))] = following - _guess_log_r(self._problem, alpha)
                return self._mechanisms(following, alpha)
            before, log_r = (log_r, value), following
            value = excess(log_r)
            steeper = (value - before[1]) / (log_r - before[0])
            slope = steeper if steeper > 0 else slope
        log_r = _last_allowed(excess, guess, _COARSE, self._problem.slope, log_ceiling)
        return self._mechanisms(log_r, alpha)

    def _excess(self, alpha: float) -> Callable[[float], float]:
        return lambda log_r: self._problem.excess(self._mechanisms(log_r, alpha))

    def _mechanisms(self, log_r: float, alpha: float) -> Solution:
        return _dirichlets(self._problem, min(np.exp(log_r), alpha * self._per_alpha), alpha)

    def _guess(self, alpha: float) -> tuple[float, float]:
        log_ceiling = float(np.log(alpha * self._per_alpha))
        guess = _guess_log_r(self._problem, alpha) + self._offset(float(np.log(alpha)))
        return min(guess, log_ceiling), log_ceiling

    def _offset(self, log_alpha: float) -> float:
        """How far a guess is off, on the line through the two nearest that were found."""
        nearest = sorted(self._offsets, key=lambda known: abs(known - log_alpha))[:2]
        if not nearest:
            return 0.0
        offset = self._offsets[nearest[0]]
        if len(nearest) == 2:
            first, second = nearest
            rise = (self._offsets[second] - offset) / (second - first)
            offset += rise * (log_alpha - first)
        return offset


def _guess_log_r(problem: Problem, alpha: float) -> float:
    """Near the frontier: a Gaussian loss of the same variance, or the loss's tail."""
    budget = problem.budget
    if isinstance(budget, RenyiDP):
        mu = np.sqrt(2 * budget.epsilon / budget.order)
        tail = alpha / (budget.order - 1)
    else:
        # Where the Gaussian tail's exponent is the logarithm of delta.
        log_delta = -np.log(budget.delta)
        mu = np.sqrt(2 * log_delta + 2 * budget.epsilon) - np.sqrt(2 * log_delta)
        tail = alpha * budget.epsilon / log_delta
    bulk = mu * alpha / np.sqrt((1 + alpha) * problem.squared_norm)
    largest = max(table.precision * table.contribution.largest for table, _ in problem.tables)
    guess = min(bulk, tail / largest)
    if not guess > np.exp(_LEAST_LOG):
        raise ValueError(_TOO_SMALL)
    return float(np.log(guess))


def _last_allowed(
    excess: Callable[[float], float],
    guess: float,
    tolerance: float,
    slope: float,
    most: float = np.inf,
) -> float:
    """The largest logarithm up to `most` with ``excess <= 0``; excess grows through 0.

    `slope` is about how fast it grows there.
    """
    excess = cache(excess)
    # A hair below, so that no other way of computing the total rounds past the budget.
    margin = 10 * tolerance
    limits = (_LEAST_LOG, min(most, _LARGEST_LOG))
    guess = float(np.clip(guess, *limits))
    nearby = root_nearby(excess, guess, slope, margin, limits[1])
    if nearby is not None:
        return nearby
    # A little beyond where the slope leads to, so that the root lies in between.
    step = min(1.1 * abs(excess(guess)) / slope + tolerance, 4.0)
    allowed = safe_root(excess, guess, step, tolerance=tolerance, margin=margin, limits=limits)
    if np.isnan(allowed):
        raise ValueError(_TOO_SMALL)
    return allowed


@lru_cache(maxsize=1024)
def _gaussian_mu(budget: ApproximateDP | RenyiDP) -> float:
    """Sensitivity over deviation of one Gaussian release that uses up the budget."""
    if isinstance(budget, RenyiDP):
        return float(np.sqrt(2 * budget.epsilon / budget.order))

    def excess(log_mu):
        return float(GaussianPair(np.exp(log_mu)).log_delta(budget.epsilon)) - np.log(budget.delta)

    return float(np.exp(_last_allowed(excess, 0.0, _FINE, _slope(budget))))


def _about_gaussian_mu(budget: ApproximateDP | RenyiDP) -> float:
    """The same to many digits, in a hundredth of the time, but on either side."""
    if isinstance(budget, ApproximateDP) and (mu := gaussian_mu(budget.epsilon, budget.delta)):
        return mu
    return _gaussian_mu(budget)


@lru_cache(maxsize=1024)
def _algorithm1(problem: Problem) -> Solution:
    """Paper A: the budget split evenly over the releases, then Algorithm 1 for each."""
    budget = problem.budget
    if isinstance(budget, RenyiDP):
        order, divergence = budget.order, budget.epsilon / problem.releases
    else:
        order, divergence = papers.algorithm1_budget(
            budget.epsilon / problem.releases, budget.delta / problem.releases
        )
    solution = []
    for table, _ in problem.tables:
        claim = RenyiDP(float(order), float(divergence), table.relation(problem.adjacency))
        sensitivity = _sensitivity(table, problem.adjacency)
        r, alpha = papers.algorithm1(order, divergence, sensitivity, table.floor)
        alpha = max(alpha, table.min_smoothing * r)
        solution.append(_dirichlet(table, problem.adjacency, r, alpha, claim))
    return tuple(solution)


@lru_cache(maxsize=1024)
def _tcdp(problem: Problem) -> Solution:
    """Paper B: posterior sampling (r = 1) with the prior that its bound asks for."""
    budget = problem.budget
    solution = []
    for table, _ in problem.tables:
        sensitivity = _sensitivity(table, problem.adjacency)
        if isinstance(budget, RenyiDP):
            divergence = budget.epsilon / problem.releases
            alpha, rho, omega = papers.tcdp_for_renyi(
                budget.order, divergence, sensitivity, table.floor
            )
        else:
            alpha, rho, omega = papers.tcdp_for_approximate(
                budget.epsilon, budget.delta, problem.releases, sensitivity, table.floor
            )
        claim = TruncatedConcentratedDP(rho, omega, table.relation(problem.adjacency))
        alpha = max(alpha, table.min_smoothing)
        solution.append(_dirichlet(table, problem.adjacency, 1.0, alpha, claim))
    return tuple(solution)


def _sensitivity(table: CountTable, adjacency: str) -> papers.Sensitivity:
    return papers.Sensitivity(
        table.contribution.squared_norm(adjacency), table.contribution.largest
    )


@lru_cache(maxsize=1024)
def _gaussian(problem: Problem) -> Solution:
    # Independent Gaussian releases are one whose squared sensitivities add up.
    sigma = np.sqrt(problem.squared_norm) / _gaussian_mu(problem.budget) * (1 + 1e-12)
    return tuple(
        GaussianMechanism(
            float(sigma / table.precision), table.min_smoothing, **_common(table, problem.adjacency)
        )
        for table, _ in problem.tables
    )


def _pure_laplace(tables: Sequence[CountTable], epsilon: float, adjacency: str) -> list[Mechanism]:
    """Laplace noise whose losses add up to epsilon, whatever is drawn."""
    total = sum(table.precision * table.contribution.total(adjacency) for table in tables)
    scale = total / epsilon * (1 + 1e-12)
    return [
        LaplaceMechanism(
            float(scale / table.precision), table.min_smoothing, **_common(table, adjacency)
        )
        for table in tables
    ]


@lru_cache(maxsize=1024)
def _laplace(problem: Problem) -> Solution:
    def solution(scale):
        return tuple(
            LaplaceMechanism(
                float(scale / table.precision),
                table.min_smoothing,
                **_common(table, problem.adjacency),
            )
            for table, _ in problem.tables
        )

    def excess(log_inverse_scale):
        return problem.excess(solution(np.exp(-log_inverse_scale)))

    # Of many small shifts the losses add up to those of Gaussian noise: Laplace noise of
    # scale 1 has the Fisher information of a normal distribution of deviation 1.
    guess = np.log(_gaussian_mu(problem.budget) / np.sqrt(problem.squared_norm))
    scale = np.exp(-_last_allowed(excess, float(guess), 1e-6, problem.slope))
    # At this scale all releases together are epsilon-DP outright: within either budget.
    pure = sum(
        count * table.precision * table.contribution.total(problem.adjacency)
        for table, count in problem.tables
    )
    return solution(min(scale, pure / problem.budget.epsilon))
