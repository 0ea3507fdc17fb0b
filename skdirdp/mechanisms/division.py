"""Parts of one Gaussian release, spent one after the other.

Gaussian noise of deviation ``sigma`` on a table may be spent as several releases of larger
deviations: they are dominated by the one as long as the inverses of their variances add up to
no more, whatever is counted next and however the parts that are left are divided by looking at
what was drawn before (docs/theory.md, Theorem 7 and section 17). So one charge, made before
anything is drawn, pays for a sequence of steps of which each depends on the one before.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..accounting import ApproximateDP, RenyiDP
from .additive import GaussianMechanism
from .calibration import _gaussian_mu
from .contribution import ContributionBound
from .selection import SelectionMechanism

# Far above what square roots and quotients are rounded by, and far below any effect.
_UP = 1 + 1e-12
# The part of delta that is for names which one record alone holds, of all columns together.
_PART_OF_DELTA = 0.25


def gaussian_within(
    epsilon: float,
    delta: float,
    order: float | None,
    adjacency: str,
    contribution: ContributionBound,
    failure: float = 0.0,
) -> GaussianMechanism:
    """One Gaussian release of a table that uses up a budget.

    Parameters
    ----------
    epsilon, delta : float
        The budget; infinite epsilon for no noise.
    order : float or None
        Given, the budget is (order, epsilon)-RDP, and delta is not used.
    adjacency : str
        A relation of records or of persons.
    contribution : ContributionBound
        Of a record to the table, or of a person.
    failure : float, default=0.0
        A probability that everything is revealed otherwise, which delta is to cover too.

    Returns
    -------
    GaussianMechanism
    """
    sigma = 0.0
    if np.isfinite(epsilon):
        # The two compose to failure + (1 - failure) rest, which is delta.
        rest = (delta - failure) / (1 - failure) * (1 - 1e-12)
        budget: ApproximateDP | RenyiDP = (
            RenyiDP(float(order), float(epsilon), adjacency)
            if order is not None
            else ApproximateDP(float(epsilon), rest, adjacency)
        )
        sigma = float(np.sqrt(contribution.squared_norm(adjacency)) / _gaussian_mu(budget) * _UP)
    return GaussianMechanism(
        sigma,
        adjacency=adjacency,
        max_count=contribution.max_count,
        max_total=contribution.max_total,
    )


def divided(whole: GaussianMechanism, weights: Sequence[float]) -> list[GaussianMechanism]:
    """Mechanisms for one table each that cost no more together than the whole for one.

    Parameters
    ----------
    whole : GaussianMechanism
    weights : sequence of float
        Positive: the parts of the budget, up to a common factor.

    Returns
    -------
    list of GaussianMechanism

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> from skdirdp.mechanisms.division import divided
    >>> parts = divided(GaussianMechanism(sigma=3.0), [1, 1, 2])
    >>> [round(part.sigma, 3) for part in parts]
    [6.0, 6.0, 4.243]
    """
    total = float(np.sum(weights))
    return [
        replace(whole, sigma=float(whole.sigma * np.sqrt(total / weight) * _UP))
        for weight in weights
    ]


def for_distances(whole: GaussianMechanism, number: int) -> GaussianMechanism:
    """The noise for several distances of tables from public ones, at the cost of the whole.

    A distance is the sum of the absolute differences of a table of counts and a table that is
    the same for all data. By the triangle inequality it changes by no more than the counts do
    in l1 norm, so that all of them change by the root of their number times that, in l2 norm.

    Parameters
    ----------
    whole : GaussianMechanism
    number : int
        Of the distances.

    Returns
    -------
    GaussianMechanism
        For `noisy` alone: what it would claim of a table says nothing here.
    """
    each = whole.contribution.total(whole.adjacency)
    one = np.sqrt(whole.contribution.squared_norm(whole.adjacency))
    return replace(whole, sigma=float(whole.sigma * each * np.sqrt(number) / one * _UP))


def with_names(
    epsilon: float,
    delta: float,
    adjacency: str,
    contribution: ContributionBound,
    n_columns: int,
    part: float,
) -> tuple[GaussianMechanism, list[SelectionMechanism]]:
    """One budget for a Gaussian release, and for finding the names of some columns.

    Parameters
    ----------
    epsilon, delta : float
    adjacency : str
    contribution : ContributionBound
        Of a record to a table, and to the names of a column: one count in each.
    n_columns : int
        The columns whose names are sought, at least 1.
    part : float
        What all of these get of the budget.

    Returns
    -------
    tuple of (GaussianMechanism, list of SelectionMechanism)
    """
    failure = _PART_OF_DELTA * delta
    whole = gaussian_within(epsilon, delta, None, adjacency, contribution, failure)
    *finding, rest = divided(whole, [*[part / n_columns] * n_columns, 1 - part])
    # Failures of all columns together have a probability of at most their sum.
    selections = [
        SelectionMechanism(
            each.sigma,
            failure=failure / n_columns,
            adjacency=adjacency,
            max_count=each.max_count,
            max_total=each.max_total,
        )
        for each in finding
    ]
    return rest, selections
