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
    budget: ApproximateDP | RenyiDP
    if order is None:
        budget = ApproximateDP(float(epsilon), float(delta), adjacency)
    else:
        budget = RenyiDP(float(order), float(epsilon), adjacency)
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
