"""Several models within one budget, each with a share of it.

Every model calibrates its own tables to its share, with the mechanism of its choice. Shares
are compared as Gaussian losses are, whose variances add up; other losses compose to a
little more or less than that. So the noise of all models is then scaled by one common
factor, the one at which they compose exactly to the budget.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..accounting import ApproximateDP, RenyiDP
from .additive import GaussianMechanism
from .base import Mechanism
from .calibration import Problem, _gaussian_mu, _last_allowed
from .dirichlet import DirichletMechanism
from .table import CountTable

# What steps before the last get of the budget, in terms in which budgets add up. Their part of
# epsilon is about the square root: a quarter.
_PART_BEFORE = 1 / 12
# What they get at least: a value that most records share shows through almost any noise.
_LEAST_BEFORE = 1 / 300
# What the steps get that find names, such as words. A half, by Zipf's law: section 12.
PART_OF_SELECTION = 1 / 2
# About so many groups of records have to be told apart by what they release.
_GROUPS = 10

# Of the logarithm of the common factor. What is left unused of the budget is of this order.
_TOLERANCE = 1e-6

#: Mechanisms for the tables of one model, within an epsilon.
CalibrateShare = Callable[[float], Sequence[Mechanism]]


def calibrate_shares(
    models: Sequence[tuple[float, Sequence[CountTable], CalibrateShare]],
    *,
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
) -> list[list[Mechanism]]:
    """Mechanisms for the tables of several models, which together compose to one budget.

    Parameters
    ----------
    models : sequence of (share, tables, calibrate)
        Shares are positive and need not add up to 1. `calibrate` gives mechanisms for the
        tables that are within an epsilon, at the delta or the order of the whole budget.
    epsilon : float
        The budget of all models together; infinite for no noise.
    delta, order, adjacency
        As for `calibrate_tables`.

    Returns
    -------
    list of list of Mechanism
        For each model, a mechanism for each table.
    """
    if np.isinf(epsilon):
        return [list(calibrate(np.inf)) for _, _, calibrate in models]
    budget = _budget(epsilon, delta, order, adjacency)
    whole = sum(share for share, _, _ in models)
    found = [
        list(calibrate(_epsilon_of_share(budget, share / whole))) for share, _, calibrate in models
    ]
    if len(models) == 1:
        return found
    pairs = [
        pair
        for (_, tables, _), mechanisms in zip(models, found, strict=True)
        for pair in zip(tables, mechanisms, strict=True)
    ]
    precision = _common_precision(tuple(Counter(pairs).items()), budget, adjacency)
    scaled = iter([_scaled(*pair, precision) for pair in pairs])
    return [[next(scaled) for _ in mechanisms] for mechanisms in found]


def part_before(
    tables: Sequence[CountTable],
    *,
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
) -> float:
    """The part of a budget for models that only prepare the data of another one.

    As much as is best where there are many records; less, the less could be told with it.
    Section 12 of the theory says why. It follows from public sizes alone.

    Parameters
    ----------
    tables : sequence of CountTable
        All that the models before the last release.
    epsilon, delta, order, adjacency
        The budget of all models together.

    Returns
    -------
    float
        Between 1/300 and 1/12.

    Examples
    --------
    Histograms of five columns, of many records and of few:

    >>> from skdirdp.mechanisms.shares import part_before
    >>> from skdirdp.mechanisms.table import CountTable
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "order": None, "adjacency": "replace"}
    >>> for n_samples in (30_000, 500, 100):
    ...     print(round(part_before([CountTable(n_samples, 512)] * 5, **budget), 4))
    0.0833
    0.0277
    0.0033
    """
    if np.isinf(epsilon):
        return _PART_BEFORE
    budget = _budget(epsilon, delta, order, adjacency)
    squared_norm = sum(table.contribution.squared_norm(adjacency) for table in tables)
    # Of one cell, were all of the budget spent here.
    variance = squared_norm / _gaussian_mu(budget) ** 2
    errors = [
        variance * (_GROUPS / table.n_samples) ** 2 if table.n_samples else np.inf
        for table in tables
    ]
    return max(_LEAST_BEFORE, _PART_BEFORE - float(np.mean(errors)))


def _budget(
    epsilon: float, delta: float, order: float | None, adjacency: str
) -> ApproximateDP | RenyiDP:
    if order is None:
        return ApproximateDP(float(epsilon), float(delta), adjacency)
    return RenyiDP(float(order), float(epsilon), adjacency)


@lru_cache(maxsize=256)
def _common_precision(
    kinds: tuple[tuple[tuple[CountTable, Mechanism], int], ...],
    budget: ApproximateDP | RenyiDP,
    adjacency: str,
) -> float:
    """The factor of all noise at which everything composes to the budget."""
    problem = Problem(tuple((table, count) for (table, _), count in kinds), budget, adjacency)

    def excess(log_precision: float) -> float:
        precision = float(np.exp(log_precision))
        return problem.excess([_scaled(*kind, precision) for kind, _ in kinds])

    return float(np.exp(_last_allowed(excess, 0.0, _TOLERANCE, problem.slope)))


def _epsilon_of_share(budget: ApproximateDP | RenyiDP, share: float) -> float:
    """The epsilon of a Gaussian release with this share of the budget's variance."""
    if isinstance(budget, RenyiDP) or share == 1:
        return budget.epsilon * share
    mu = _gaussian_mu(budget) * np.sqrt(share)
    alone = GaussianMechanism(1 / float(mu), adjacency="add_remove")
    # Where delta alone allows the release there is no epsilon to be found.
    return max(alone.epsilon(budget.delta), budget.epsilon * share)


def _scaled(table: CountTable, mechanism: Mechanism, precision: float) -> Mechanism:
    """The mechanism with noise so many times smaller, and never less than the least smoothing."""
    scaled = mechanism.with_precision(precision)
    if isinstance(scaled, DirichletMechanism):
        return replace(scaled, alpha=max(scaled.alpha, table.min_smoothing * scaled.r))
    return scaled
