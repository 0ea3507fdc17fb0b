"""Split one privacy budget over the tables of a model, several models, or several steps.

All splits depend only on public sizes, and none exceeds the budget. A table of
precision s gets noise that is s times smaller, at about s squared times the cost.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..accounting import RenyiDP
from .additive import GaussianMechanism, SelectionMechanism
from .base import Mechanism
from .calibration import (
    BudgetGuarantee,
    Problem,
    largest_allowed,
    largest_gaussian_mu,
    make_guarantee,
)
from .dirichlet import DirichletMechanism
from .tables import ContributionBound, CountTable, changed_records

SPLITS = ("even", "optimised")

# Precisions from 1/4 to 4. A grid keeps the number of different mechanisms small, and their
# composition fast.
_PRECISIONS = 2.0 ** (np.arange(-8, 9) / 4)
_BISECTIONS = 60
# Squared sensitivity of an additional table, relative to the mean of the others. With equal noise
# it would be cheap and inaccurate if the others are much more sensitive.
_RELATIVE_SENSITIVITY = 0.1

# Largest share of preprocessing steps. Shares are fractions of the variance of the loss, which add
# up. The fraction of epsilon is about the square root, a quarter.
_MAX_PREPROCESSING_SHARE = 1 / 12
# A value that most records have is visible through almost any noise.
_MIN_PREPROCESSING_SHARE = 1 / 300
#: Share of steps that select names, such as words. By Zipf's law, docs/theory.md, section 12.
SELECTION_SHARE = 1 / 2
# Preprocessing should distinguish about this many groups of records.
_N_GROUPS = 10
# Tolerance of the logarithm of the common precision; the unused part of the budget is of this
# order.
_TOLERANCE = 1e-6

# Far above the rounding error of square roots and quotients, and far below any effect.
_ROUND_UP = 1 + 1e-12
# Part of delta for names of a single record. A smaller part increases the threshold, a larger one
# the noise. Both change by a few percent over most of the range.
_SELECTION_DELTA = 0.25


def calibrate_split(
    tables: Sequence[CountTable], calibrate: Callable[[Sequence[CountTable]], list[Mechanism]]
) -> list[Mechanism]:
    """Return mechanisms within one budget, the better one of an even and an optimised split."""
    even = calibrate(tables)
    precisions = _precisions(tuple(tables), tuple(even))
    pairs = zip(tables, precisions, strict=True)
    uneven = calibrate([replace(table, precision=precision) for table, precision in pairs])
    return min((even, uneven), key=lambda found: expected_divergence(tables, found))


def expected_divergence(tables: Sequence[CountTable], mechanisms: Sequence[Mechanism]) -> float:
    """Return the expected loss of log-likelihood per record due to the noise."""
    pairs = zip(tables, mechanisms, strict=True)
    return sum(mechanism.expected_divergence(table) for table, mechanism in pairs)


def relative_precision(
    tables: Sequence[CountTable], contribution: ContributionBound, adjacency: str
) -> float:
    """Return the precision, at least 1, of an additional table that is less sensitive than others.

    An example is the class prior next to a table of word counts.
    """
    if not tables:
        return 1.0
    norms = [table.precision**2 * table.contribution.squared_norm(adjacency) for table in tables]
    others = sum(norms) / len(norms)
    own = contribution.squared_norm(adjacency)
    return max(1.0, float(np.sqrt(_RELATIVE_SENSITIVITY * others / own)))


@lru_cache(maxsize=256)
def _precisions(
    tables: tuple[CountTable, ...], mechanisms: tuple[Mechanism, ...]
) -> tuple[float, ...]:
    """Return precisions of least expected divergence at about the cost of an even split.

    With a price on squared precisions the tables can be optimised one by one, each on a grid.
    Bisection finds the price at which they cost as much as before.
    """
    kinds = Counter(zip(tables, mechanisms, strict=True))
    divergence = [
        [
            count * mechanism.with_precision(precision).expected_divergence(table)
            for precision in _PRECISIONS.tolist()
        ]
        for (table, mechanism), count in kinds.items()
    ]
    counts = np.array(list(kinds.values()))

    def chosen(price):
        cost = divergence + price * counts[:, np.newaxis] * _PRECISIONS**2
        return _PRECISIONS[np.argmin(cost, axis=1)]

    low, high = -60.0, 60.0  # logarithms of the price
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if counts @ chosen(np.exp(middle)) ** 2 > len(tables):
            low = middle
        else:
            high = middle
    precisions = dict(zip(kinds, chosen(np.exp(high)).tolist(), strict=True))
    return tuple(precisions[kind] for kind in zip(tables, mechanisms, strict=True))


def calibrate_shares(
    models: Sequence[tuple[float, Sequence[CountTable], Callable[[float], Sequence[Mechanism]]]],
    *,
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
) -> list[list[Mechanism]]:
    """Return mechanisms for the tables of several models, which compose to one budget.

    Each model is a tuple (share, tables, calibrate). `calibrate` returns mechanisms for the tables
    within an epsilon. Shares are defined for Gaussian losses, whose variances add up. The noise of
    all models is then scaled by a common factor, so that they compose exactly to the budget.
    """
    if np.isinf(epsilon):
        return [list(calibrate(np.inf)) for _, _, calibrate in models]
    budget = make_guarantee(epsilon, delta, order, adjacency)
    whole = sum(share for share, _, _ in models)
    pairs_of_models = [
        list(zip(tables, calibrate(_epsilon_of_share(budget, share / whole)), strict=True))
        for share, tables, calibrate in models
    ]
    if len(models) == 1:
        return [[mechanism for _, mechanism in pairs_of_models[0]]]
    kinds = Counter(pair for pairs in pairs_of_models for pair in pairs)
    precision = _common_precision(tuple(kinds.items()), budget, adjacency)
    return [[_scaled(*pair, precision) for pair in pairs] for pairs in pairs_of_models]


def preprocessing_share(
    tables: Sequence[CountTable],
    *,
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
) -> float:
    """Return the share of a budget, from 1/300 to 1/12, for the tables of preprocessing steps.

    The share is the optimal one for many records, and smaller if it would not suffice for accurate
    tables (docs/theory.md, section 12).
    """
    if np.isinf(epsilon):
        return _MAX_PREPROCESSING_SHARE
    budget = make_guarantee(epsilon, delta, order, adjacency)
    squared_norm = sum(table.contribution.squared_norm(adjacency) for table in tables)
    # Variance of one cell if the whole budget were spent on these tables.
    variance = squared_norm / largest_gaussian_mu(budget) ** 2
    errors = [
        variance * (_N_GROUPS / table.n_samples) ** 2 if table.n_samples else np.inf
        for table in tables
    ]
    return max(_MIN_PREPROCESSING_SHARE, _MAX_PREPROCESSING_SHARE - float(np.mean(errors)))


@lru_cache(maxsize=256)
def _common_precision(
    kinds: tuple[tuple[tuple[CountTable, Mechanism], int], ...],
    budget: BudgetGuarantee,
    adjacency: str,
) -> float:
    """Return the factor of all precisions at which everything composes to the budget."""
    problem = Problem(tuple((table, count) for (table, _), count in kinds), budget, adjacency)

    def excess(log_precision: float) -> float:
        precision = float(np.exp(log_precision))
        return problem.excess([_scaled(*kind, precision) for kind, _ in kinds])

    return float(np.exp(largest_allowed(excess, 0.0, _TOLERANCE, problem.slope)))


def _epsilon_of_share(budget: BudgetGuarantee, share: float) -> float:
    """Return the epsilon of a Gaussian release with this share of the variance of the loss."""
    if isinstance(budget, RenyiDP) or share == 1:
        return budget.epsilon * share
    mu = largest_gaussian_mu(budget) * np.sqrt(share)
    alone = GaussianMechanism(1 / float(mu), adjacency="add_remove")
    # The epsilon is 0 if delta alone allows the release.
    return max(alone.epsilon(budget.delta), budget.epsilon * share)


def _scaled(table: CountTable, mechanism: Mechanism, precision: float) -> Mechanism:
    """Divide the noise by the precision, with at least the smallest smoothing."""
    scaled = mechanism.with_precision(precision)
    if isinstance(scaled, DirichletMechanism):
        return replace(scaled, alpha=max(scaled.alpha, table.min_smoothing * scaled.r))
    return scaled


# A Gaussian release of deviation sigma can be replaced by several releases of larger deviations.
# The single release dominates them if the inverses of their variances sum to at most its own.
# This is true even if each table, and the split of the remaining budget, depend on earlier
# results (docs/theory.md, Theorem 7 and section 17). A single charge, made before anything is
# drawn, therefore covers a sequence of adaptive steps.


def calibrate_gaussian(
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
    contribution: ContributionBound,
    failure: float = 0.0,
) -> GaussianMechanism:
    """Return the Gaussian mechanism that uses a whole budget for one table.

    `failure` is the probability of another event that reveals everything, and is part of delta.
    """
    sigma = 0.0
    if np.isfinite(epsilon):
        # The two compose to failure + (1 - failure) rest, which is delta.
        rest = (delta - failure) / (1 - failure) * (1 - 1e-12)
        mu = largest_gaussian_mu(make_guarantee(epsilon, rest, order, adjacency))
        sigma = float(np.sqrt(contribution.squared_norm(adjacency)) / mu * _ROUND_UP)
    count, total = contribution.max_count, contribution.max_total
    return GaussianMechanism(sigma, adjacency=adjacency, max_count=count, max_total=total)


def split_gaussian(whole: GaussianMechanism, weights: Sequence[float]) -> list[GaussianMechanism]:
    """Return one mechanism per weight, whose releases together cost at most one by `whole`.

    Weights are the shares of the budget, up to a common factor.
    """
    total = float(np.sum(weights))
    sigmas = [whole.sigma * np.sqrt(total / weight) * _ROUND_UP for weight in weights]
    return [replace(whole, sigma=float(sigma)) for sigma in sigmas]


def noise_for_share(
    whole: GaussianMechanism, share: float, norm: float = 1.0, *, signed: bool = False
) -> GaussianMechanism:
    """Return the noise for vectors that cost at most `share` of a release by `whole`.

    A record adds a vector of l2 norm at most `norm` times the largest entry of `whole`, for
    example `norm` squared counts of 1 in different tables. Vectors of two records have an angle
    of at most 90 degrees, unless they are `signed`: then they may be opposite. The result is for
    `GaussianMechanism.noisy` only; its privacy curves do not apply.
    """
    changed = changed_records(whole.adjacency)
    distance = whole.contribution.largest * norm * (changed if signed else np.sqrt(changed))
    one = np.sqrt(whole.contribution.squared_norm(whole.adjacency))
    sigma = whole.sigma * distance / one / np.sqrt(share) * _ROUND_UP
    return replace(whole, sigma=float(sigma))


def noise_for_distances(whole: GaussianMechanism, n_distances: int) -> GaussianMechanism:
    """Return the noise for several l1 distances between tables and public tables, at one cost.

    By the triangle inequality a distance changes by at most the l1 change of the counts. The l2
    change of all distances is at most this times the root of their number. The result is for
    `GaussianMechanism.noisy` only; its privacy curves do not apply.
    """
    each = whole.contribution.total(whole.adjacency)
    one = np.sqrt(whole.contribution.squared_norm(whole.adjacency))
    sigma = whole.sigma * each * np.sqrt(n_distances) / one * _ROUND_UP
    return replace(whole, sigma=float(sigma))


def calibrate_selection(
    epsilon: float, delta: float, adjacency: str, contribution: ContributionBound
) -> SelectionMechanism:
    """Return the selection mechanism that uses a whole budget for the names of one column."""
    failure = _SELECTION_DELTA * delta
    whole = calibrate_gaussian(epsilon, delta, None, adjacency, contribution, failure)
    return SelectionMechanism(**vars(whole), failure=failure)


def split_with_selection(
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
    contribution: ContributionBound,
    n_columns: int,
    share: float,
    names: ContributionBound | None = None,
) -> tuple[GaussianMechanism, list[SelectionMechanism]]:
    """Split one budget over a Gaussian release and the selection of names in some columns.

    `contribution` bounds a record in the table, and `names` in the names of each column; if None,
    they are equal. The selections of all `n_columns` columns get `share` of the budget together.
    """
    if not n_columns:
        return calibrate_gaussian(epsilon, delta, order, adjacency, contribution), []
    if order is not None and not np.isinf(epsilon):
        raise ValueError(
            "order must be None if any column has no public values: a value that occurs in one "
            "record is published with a small probability, which makes every Renyi divergence "
            "infinite. Use delta instead of order, or declare the values"
        )
    failure = _SELECTION_DELTA * delta
    shares = [*[share / n_columns] * n_columns, 1 - share]
    # Both have the same loss with the whole budget, so shares of either add up.
    counts, table = (
        split_gaussian(calibrate_gaussian(epsilon, delta, None, adjacency, each, failure), shares)
        for each in (contribution if names is None else names, contribution)
    )
    # The probability that some column fails is at most the sum of their probabilities.
    each_failure = failure / n_columns
    selections = [SelectionMechanism(**vars(each), failure=each_failure) for each in counts[:-1]]
    return table[-1], selections
