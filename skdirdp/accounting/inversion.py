"""The profile of a composition, from its cumulant, by inverting a Laplace transform.

Losses of independent releases add, so their cumulants ``K(t) = log E exp(t L)`` add
too, and all pairs of this package have theirs in closed form. The profile follows
from Bromwich's integral: for every c with 0 < c < max_tilt,

    delta(epsilon) = 1/pi * integral over u > 0 of
                     Re[ exp(K(t) - t epsilon) / (t (1 + t)) ] du,   t = c + i u,

because ``max(0, 1 - exp(-x))`` has the two-sided Laplace transform 1 / (t (1 + t)).
At the saddle point c the integrand hardly oscillates and a few dozen nodes suffice.

The answer is never below the truth. By Poisson's summation formula the
trapezoidal rule with nodes at multiples of h returns exactly

    sum over all integers m of exp(m c T) * delta(epsilon + m T),   T = 2 pi / h,

whose terms are all non-negative and of which m = 0 is the one wanted. The nodes left
out beyond the last, u_J, are bounded by ``|exp K(c + i u_J)| / u_J``, for the modulus
falls with u (for gamma functions, |Gamma(x + i u)| does; for the Gaussian it is
plain), and this bound is added. So is an allowance for rounding.
"""

from collections.abc import Callable

import numpy as np

_ALIASING = 32.0  # other terms of the sum are below exp(-32) of the wanted one
_TRUNCATION = 1e-12
_TIGHT = 1e-6
_BLOCK = 64
_MAX_NODES = 1 << 14
_GRID = 48
_ZOOMS = 2
_ROUNDING = 1e-9
_ROUGH_TILT = 3000.0


def log_delta(
    cumulant: Callable[[np.ndarray, bool], np.ndarray],
    max_tilt: float,
    epsilon: float,
    releases: int = 1,
) -> tuple[float, bool]:
    """Natural logarithm of the profile at epsilon, rounded up, and whether it is tight.

    It is not tight when the integrand falls too slowly to be followed to its end;
    the bound on the rest then dominates, and other routes may do better. The number of
    releases tells how rounding errors of their cumulants add up.
    """
    grid, action = _saddle_search(cumulant, max_tilt, epsilon)
    best = int(np.argmin(action))
    c = float(grid[best])
    # Roughly computed cumulants do while their error stays below the allowance: it is
    # some 1e-13 per release and unit of 1 + c, at worst.
    rough = releases * (1 + c) < _ROUGH_TILT
    growth = float(cumulant(np.asarray(c), rough)) - c * epsilon
    # Far above 1 the integrand would have to cancel.
    if not (np.isfinite(action[best]) and abs(growth) < np.inf and growth < _ALIASING and c > 0):
        return 0.0, False
    allowance = _ROUNDING + 1e-14 * (abs(growth) + c * abs(epsilon))
    # Chernoff's bound at the tilt c: max(0, 1 - e^-x) is at most e^(cx) c^c / (1 + c)^(1 + c).
    chernoff = growth + c * np.log(c) - (1 + c) * np.log1p(c) + allowance
    if allowance > 1:
        return float(min(chernoff, 0.0)), False

    # Terms m < 0 are at most exp(-c T); terms m > 0 obey Chernoff's bound at any
    # tilt above c. The period T makes both small beside the wanted term.
    wanted = min(action[best], 0.0) - _ALIASING
    period = -wanted / c
    above = grid > c * (1 + 1e-6)
    if above.any():
        bound = action[above] + np.log(grid[above]) + np.log1p(grid[above]) - wanted
        period = max(period, float(np.min(bound / (grid[above] - c))))
    step = 2 * np.pi / period

    total, magnitude, last, start = 0.5 / (c * (1 + c)), 0.5 / (c * (1 + c)), np.inf, 1
    while start < _MAX_NODES:
        u = step * np.arange(start, start + _BLOCK * (1 + start // (4 * _BLOCK)))
        t = c + 1j * u
        log_values = cumulant(t, rough) - t * epsilon - growth
        values = np.exp(log_values) / (t * (1 + t))
        total += float(values.real.sum())
        magnitude += float(np.abs(values).sum())
        last = float(np.exp(log_values[-1].real) / (u[-1] * step))
        start += u.size
        # The logarithm falls by the square of u at most.
        fall = -float(log_values[-1].real)
        out_of_reach = not fall > -np.log(_TRUNCATION) * (start / _MAX_NODES) ** 2
        if last < _TRUNCATION * abs(total) or out_of_reach:
            break
    total += last + 1e-15 * magnitude
    if not 0 < total < np.inf:  # lost to rounding
        return float(min(chernoff, 0.0)), False
    inverted = growth + np.log(step / np.pi * total) + allowance
    return float(min(inverted, chernoff, 0.0)), last < _TIGHT * total


def _saddle_search(cumulant, max_tilt, epsilon):
    """Tilts around the minimum of the convex K(c) - c epsilon - log(c (1 + c))."""
    grids, actions = [], []
    # A tilt is written as max_tilt * x / (1 + x), or as x when there is no limit to speak of.
    unlimited = max_tilt > np.exp(60.0)
    low, high = (-60.0, 60.0) if unlimited else (-40.0 - max(np.log(max_tilt), 0.0), 40.0)
    for _ in range(_ZOOMS):
        x = np.linspace(low, high, _GRID)
        tilt = np.exp(x) if unlimited else max_tilt / (1 + np.exp(-x))
        with np.errstate(over="ignore", invalid="ignore"):
            action = cumulant(tilt, True) - tilt * epsilon - np.log(tilt) - np.log1p(tilt)
        action = np.where(np.isnan(action), np.inf, action)
        grids.append(tilt)
        actions.append(action)
        best = int(np.argmin(action))
        low, high = x[max(best - 1, 0)], x[min(best + 1, _GRID - 1)]
    order = np.argsort(np.concatenate(grids))
    return np.concatenate(grids)[order], np.concatenate(actions)[order]
