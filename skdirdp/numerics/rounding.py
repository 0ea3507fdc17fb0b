"""Floats that are not below the number they stand for, and those that are whole numbers."""

import math
from fractions import Fraction

import numpy as np

# A product of whole numbers that is found to be below this is exact.
_EXACT = 2.0**53
# Entries that are looked at at once, so that what is made of them stays in the cache.
_BLOCK = 1 << 15


def round_up(exact: Fraction) -> float:
    """The least float that is at least an exact number; infinite beyond the largest."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def product_up(a: float, b: float) -> float:
    """``a * b``, rounded up."""
    if abs(a * b) < _EXACT and a % 1 == b % 1 == 0:
        return float(a * b)  # of whole numbers, and not rounded
    return round_up(Fraction(a) * Fraction(b)) if math.isfinite(a * b) else a * b


def quotient_up(a: float, b: float) -> float:
    """``a / b`` of positive numbers, rounded up."""
    return round_up(Fraction(a) / Fraction(b)) if math.isfinite(a / b) else a / b


def is_whole(values: np.ndarray) -> bool:
    """Whether all are whole numbers."""
    if values.size <= _BLOCK:
        return bool((values == np.rint(values)).all())
    flat = values.reshape(-1)
    blocks = (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))
    return all(bool((block == np.rint(block)).all()) for block in blocks)
