"""Points of a privacy profile, where there is one to look at."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# A profile ends where delta has fallen to the first of these that it ever falls to.
_LEAST_DELTAS = 10.0 ** np.arange(-10, 0)


def profile_epsilons(
    curves: Sequence[Any], budget: tuple[float, float] | None, points: int
) -> np.ndarray:
    """Epsilons from 0 until delta is negligible, and past the budget.

    A curve is what has ``epsilon(delta)`` and ``delta(epsilon)``.
    """
    for least in _LEAST_DELTAS:
        end = max(curve.epsilon(float(least)) for curve in curves)
        if np.isfinite(end):
            break
    else:
        raise ValueError(
            "what is drawn must have a delta below 0.1 at some epsilon; something was released "
            "without noise"
        )
    if end == 0 and budget is None:
        raise ValueError("there must be something that was released or charged; got nothing")
    return np.linspace(0.0, max(end, 1.1 * budget[0] if budget else 0.0), points)


def profile_deltas(curves: Sequence[Any], epsilons: np.ndarray) -> np.ndarray:
    """The smallest delta that holds for all of them, at each epsilon."""
    return np.max([np.asarray(each.delta(epsilons)) for each in curves], axis=0)
