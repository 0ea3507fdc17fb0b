"""Floats that are not below the number they stand for."""

import math
from fractions import Fraction


def round_up(exact: Fraction) -> float:
    """The least float that is at least an exact number; infinite beyond the largest."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def product_up(a: float, b: float) -> float:
    """``a * b``, rounded up."""
    return round_up(Fraction(a) * Fraction(b)) if math.isfinite(a * b) else a * b


def quotient_up(a: float, b: float) -> float:
    """``a / b`` of positive numbers, rounded up."""
    return round_up(Fraction(a) / Fraction(b)) if math.isfinite(a / b) else a / b
