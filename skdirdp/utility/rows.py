"""Whole numbers of rows at which a bound reaches a target."""

from collections.abc import Callable

import numpy as np

from .._validation import check_real


def rows_until(target: float, bound: Callable[[int], float]) -> int:
    """The least number of rows at which a bound that falls with it is within the target."""
    target = check_real("target", target, above=0)
    high = 1
    while bound(high) > target:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle) > target else (low, middle)
    return high


def whole_rows(rows: float) -> int:
    """The number rounded up, but for what rounding errors added to it; at least 1."""
    return max(int(np.ceil(rows * (1 - 1e-12))), 1)
