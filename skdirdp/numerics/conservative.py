"""Root finding and rounding whose errors are on the safe side.

Privacy losses are rounded up, and noise parameters are roots at which a budget is not exceeded.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import brentq

# Excesses are clipped to this size, because infinite ones have no slope.
_LARGEST_EXCESS = 1e3
# Brent's method falls back to bisection, which may need one iteration per bit of the exponent.
_MAX_ITERATIONS = 2000
# `root_nearby` gives up after this number of secant steps, or at a longer step.
_MAX_SECANTS, _MAX_STEP = 8, 0.01
# The slope is updated only after a step of more margins, which exceeds rounding errors.
_MIN_SLOPE_STEP = 100.0

# A product of whole numbers whose float is below this is exact.
_EXACT = 2.0**53


def safe_root(
    excess: Callable[[float], float],
    start: float,
    step: float,
    *,
    tolerance: float,
    margin: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """Find a root of an excess, approximated from the safe side, where the excess is at most 0.

    The excess is positive on one side of the root, and may be infinite. Steps from `start`, each
    twice as long as the last, find two points between which the sign changes; the sign of
    `step` is the direction away from the safe side. Brent's method then finds the root up to
    the tolerance, on either side. Further doubling steps lead back to the safe side.

    Returns a point at which the excess was evaluated and is not positive, at least `margin`
    away from the root. If the excess is positive nowhere within the limits, returns the limit
    on that side. If it is positive everywhere, returns nan.
    """

    @cache
    def clipped(x: float) -> float:
        value = float(excess(x))
        if np.isnan(value):  # comparisons with nan would treat any point as safe
            raise FloatingPointError(f"the excess could not be computed at {x}")
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
    """Find a point on the safe side of a root close to the start, with few evaluations.

    The excess is positive above the root, and `slope` is its approximate slope there. The point
    is at most three margins below the root, or equal to `most`, the largest allowed point.
    Returns None if the secant method does not find such a point.
    """
    here, value = start, excess(start)
    for _ in range(_MAX_SECANTS):
        if value <= 0 and (here == most or margin <= -value / slope <= 3 * margin):
            return here
        following = min(here - value / slope - 2 * margin, most)
        step = following - here
        if not 0 < abs(step) <= _MAX_STEP:
            return None
        before, here = value, following
        value = excess(here)
        if abs(step) > _MIN_SLOPE_STEP * margin:
            slope = max((value - before) / step, slope / 2)
    return None


def round_up(exact: Fraction) -> float:
    """Return the smallest float that is at least an exact number; may be infinite."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def product_up(a: float, b: float) -> float:
    """Compute ``a * b``, rounded up."""
    if abs(a * b) < _EXACT and a % 1 == b % 1 == 0:
        return float(a * b)  # exact for whole numbers
    return round_up(Fraction(a) * Fraction(b)) if math.isfinite(a * b) else a * b


def quotient_up(a: float, b: float) -> float:
    """Compute ``a / b`` of positive numbers, rounded up."""
    return round_up(Fraction(a) / Fraction(b)) if math.isfinite(a / b) else a / b
