"""The worst rows of a Dirichlet release: what neighbours may do to several cells at once.

Neighbours change the cells of a table by ``z_i / r`` counts, within public bounds: each z_i
at most L, their sum at most T. By docs/theory.md, 2.2, such a change is a Poisson process of
drops u of the loss, with the sum of the intensities ``nu_z(u)`` of its cells, and whatever has
a larger intensity at every u dominates it. What is largest depends on the prior alpha:

- from `CONVEX_PRIOR` on nu_z is convex in z: full cells and one of the rest (Theorem 5);
- from `SPREAD_PRIOR` on nu_z / z grows with z: T / L full cells, also a broken number (Theorem 3);
- below, a row that is spread thinly has more of the small drops: T times the largest
  nu_z / z, or a little more than that (Theorem 6).
"""

from functools import lru_cache

import numpy as np
from scipy.optimize import brentq, linprog

from ..accounting.pairs import BetaPair, FractionalPair, GammaPair
from ..accounting.worst_case import WorstCase
from ..numerics.conservative import quotient_up
from .contribution import ContributionBound

#: 1/2 + 1 / sqrt(12), rounded up.
CONVEX_PRIOR = 0.7886751345948130
SPREAD_PRIOR = 0.5

# Steps of the cells that stand for thin rows, each so much smaller than the one before.
_STEP_RATIO = 0.6
# Drops at which intensities are compared, each so much larger than the one before.
_DROP_RATIO = 1.03
# Priors for which thin rows are looked at in detail.
_FEWEST_PRIOR, _MOST_PRIOR = 1e-3, 0.499
# With a smaller prior the number of cells is beyond reason.
_LEAST_PRIOR = 1e-30
_MARGIN = 1e-9


def worst_row(rows: ContributionBound, r: float, alpha: float, direction: str) -> WorstCase:
    """The worst case of neighbours within bounds, read in one direction.

    Parameters
    ----------
    rows : ContributionBound
        What is added or removed at most; under replacement, what either side of it is.
    r, alpha : float
        The concentration per count, and the prior.
    direction : {"replace", "add", "remove"}

    Returns
    -------
    WorstCase
    """

    def pair(entry: float, way: str = direction) -> BetaPair | GammaPair:
        if way == "replace":
            return BetaPair(r * entry, alpha)
        return GammaPair(r * entry, alpha, "add" if way == "add" else "remove")

    filled = tuple((pair(entry), count) for entry, count in rows.entries)
    if rows.max_total is None or alpha >= CONVEX_PRIOR:
        return WorstCase(renyi=filled, profile=filled)
    cells = quotient_up(rows.max_total, rows.largest)
    if alpha >= SPREAD_PRIOR:
        if rows.remainder == 0:
            return WorstCase(renyi=filled, profile=filled)
        broken = FractionalPair(((pair(rows.largest), cells),))
        return WorstCase(renyi=filled, profile=((broken, 1),))
    # Removal's divergence is convex in the entry at every prior and is the larger one; it
    # stands in for addition.
    sides = 2 if direction == "replace" else 1
    renyi = tuple((pair(entry, "remove"), sides * count) for entry, count in rows.entries)
    if alpha < _LEAST_PRIOR:
        return WorstCase(renyi=renyi, profile=None)
    thin = FractionalPair(
        tuple((pair(step * rows.largest), cells * number) for step, number in thin_cells(alpha))
    )
    return WorstCase(renyi=renyi, profile=((thin, 1),))


@lru_cache(maxsize=256)
def thin_cells(alpha: float) -> tuple[tuple[float, float], ...]:
    """Cells whose drops together are at least those of any row of total 1, alpha below 1/2.

    With ``k(w) = w exp(-alpha w) / (1 - exp(-w))``, which rises from 1 to its largest k* at w*
    and falls from there, ``nu_z(u) / z`` is proportional to ``k(u / z)``. In units of L, cells
    of steps s_j, c_j of each, dominate all rows of total 1 if at every drop v

        sum over j of c_j s_j k(v / s_j)  >=  k*  for v < w*,  and  k(v)  beyond.

    One cell of step 1 does it beyond w*. Below, smaller ones help out: a linear program with
    the least variance of the loss. It is checked over intervals of v, at whose ends k is
    smaller than in between, since it has a single peak.

    Returns
    -------
    tuple of (step, number)
        Steps from 1 down, in units of the largest entry; numbers of such cells.
    """
    if alpha < _FEWEST_PRIOR:
        # w / (1 - e^-w) is at most 1 + w, and the peak of (1 + w) e^(-alpha w) is this.
        return ((1.0, float(np.exp(alpha - 1) / alpha) * (1 + _MARGIN)),)
    # A smaller prior has the larger k, and next to 1/2 its peak is lost in rounding errors.
    rounded = min(alpha, _MOST_PRIOR)
    peak = brentq(lambda w: 1 / w + np.exp(-w) / np.expm1(-w) - rounded, 1e-3, 2 / rounded)
    most = float(_thinness(peak, rounded)) * (1 + _MARGIN)
    least = 0.02 / max(peak, 1.0)
    steps = _STEP_RATIO ** np.arange(1 + np.ceil(np.log(least) / np.log(_STEP_RATIO)))
    first = 0.01 * steps[-1]
    drops = first * _DROP_RATIO ** np.arange(
        1 + np.ceil(np.log(peak / first) / np.log(_DROP_RATIO))
    )
    drops = np.concatenate([[0.0], drops])
    values = _thinness(drops[:, np.newaxis] / steps, alpha)
    within = np.minimum(values[:-1], values[1:])
    found = linprog(
        steps,
        A_ub=-within,
        b_ub=np.full(len(within), -most),
        bounds=[(1, None)] + [(0, None)] * (len(steps) - 1),
    )
    amounts = found.x if found.success else most * (steps == 1)
    amounts = np.where(amounts > 1e-12, amounts, 0.0)
    # What a solver leaves open is made up for: the largest step is enough by itself.
    lacking = max(0.0, 1 - float(np.min(within @ amounts)) / most)
    amounts[0] += lacking * most
    amounts *= 1 + _MARGIN
    return tuple(
        (float(step), float(amount / step))
        for step, amount in zip(steps, amounts, strict=True)
        if amount
    )


def _thinness(w: np.ndarray | float, alpha: float) -> np.ndarray:
    """``w exp(-alpha w) / (1 - exp(-w))``, which is 1 at 0."""
    w = np.asarray(w, dtype=float)
    safe = np.where(w > 0, w, 1.0)
    return np.where(w > 0, safe * np.exp(-alpha * safe) / -np.expm1(-safe), 1.0)
