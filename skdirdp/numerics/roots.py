"""Roots that are approached from one side."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq

# Excesses are clipped to this size: infinite ones have no slope to follow.
_LARGEST_EXCESS = 1e3
# Brent falls back to bisection, which may need one for each bit of the exponent.
_MAX_ITERATIONS = 2000
# Secants, and the length of a step, after which a root is not nearby.
_SECANTS, _LONGEST_STEP = 8, 0.01
# A step of fewer margins tells of rounding errors more than of the slope.
_TELLING_STEP = 100.0


def safe_root(
    excess: Callable[[float], float],
    start: float,
    step: float,
    *,
    tolerance: float,
    margin: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """The point at which an excess turns positive, from the side where it is not.

    A walk from `start`, in steps that double, finds two points between which the sign
    changes; Brent's method finds the root, which may lie on either side of the
    change by its tolerance; then steps that double lead back to the safe side.

    Parameters
    ----------
    excess : callable
        Positive on one side of the root, which is not allowed, and at most 0 on the
        other, the safe side. It may be infinite.
    start : float
        Any point; the nearest within the limits is taken.
    step : float
        The first step of the walk. Its sign says where the safe side is: a step leads
        away from it.
    tolerance : float
        The largest error of the root, in its own units.
    margin : float, default=0.0
        The distance from the root that is kept at least, to the safe side.
    limits : (float, float)
        The interval in which the root is sought.

    Returns
    -------
    float
        A point at which the excess was evaluated and is not positive. If it is
        positive nowhere, the limit on that side; nan if it is positive everywhere.
    """

    @cache
    def clipped(x: float) -> float:
        value = float(excess(x))
        if np.isnan(value):  # a comparison with nan would call anything safe
            raise FloatingPointError(f"an excess could not be computed at {x}")
        return min(max(value, -_LARGEST_EXCESS), _LARGEST_EXCESS)

    here = float(np.clip(start, *limits))
    start_is_safe = clipped(here) <= 0
    stride = float(step if start_is_safe else -step)
    while True:
        there = float(np.clip(here + stride, *limits))
        if there == here:
            return here if start_is_safe else np.nan
        if (clipped(there) <= 0) != start_is_safe:
            break
        here, stride = there, 2 * stride
    safe, unsafe = (here, there) if start_is_safe else (there, here)

    back = np.copysign(tolerance, safe - unsafe)
    found = brentq(clipped, safe, unsafe, xtol=tolerance, maxiter=_MAX_ITERATIONS)
    root = float(found) + np.copysign(margin, back)
    while clipped(root) > 0:
        root, back = root + back, 2 * back
        if (root - safe) * back > 0:
            return safe
    return float(root)


def root_nearby(
    excess: Callable[[float], float], start: float, slope: float, margin: float, most: float
) -> float | None:
    """A point on the safe side of a root next to the start, in as few looks as possible.

    Parameters
    ----------
    excess : callable
        Positive above the root, which is not allowed, and at most 0 below.
    start : float
        At most `most`.
    slope : float
        Of the excess at the root, about.
    margin : float
        The distance from the root that is kept at least, as far as the slope tells.
    most : float
        The largest point that is sought.

    Returns
    -------
    float or None
        A point at which the excess was evaluated and is not positive, and at most three
        margins below the root, or the largest. None where secants do not lead to one.
    """
    here, value = start, excess(start)
    for _ in range(_SECANTS):
        if value <= 0 and (here == most or margin <= -value / slope <= 3 * margin):
            return here
        following = min(here - value / slope - 2 * margin, most)
        step = following - here
        if not 0 < abs(step) <= _LONGEST_STEP:
            return None
        before, here = value, following
        value = excess(here)
        if abs(step) > _TELLING_STEP * margin:
            slope = max((value - before) / step, slope / 2)
    return None
