"""Points of a privacy profile, where there is one to look at."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# A profile ends where delta has fallen to the first of these that it ever falls to.
_LEAST_DELTAS = 10.0 ** np.arange(-10, 0)
# And this far below the least delta that is marked.
_BELOW_MARKS = 1e-2


def profile_epsilons(
    curves: Sequence[Any],
    budget: tuple[float, float] | None,
    points: int,
    total: tuple[float, float] | None = None,
) -> np.ndarray:
    """Epsilons from 0 until delta is negligible, also beside what is marked.

    A curve is what has ``epsilon(delta)`` and ``delta(epsilon)``.
    """
    marked = [_BELOW_MARKS * mark[1] for mark in (budget, total) if mark and mark[1] > 0]
    for least in [*(each for each in marked if each < _LEAST_DELTAS[0]), *_LEAST_DELTAS]:
        end = max(curve.epsilon(float(least)) for curve in curves)
        if np.isfinite(end):
            break
    else:
        raise ValueError(
            "what is drawn must have a delta below 0.1 at some epsilon; something was released "
            "without noise"
        )
    if end == 0:
        if budget is None:
            raise ValueError("there must be something that was released or charged; got nothing")
        end = budget[0]
    return np.linspace(0.0, end, points)


def profile_deltas(curves: Sequence[Any], epsilons: np.ndarray) -> np.ndarray:
    """The smallest delta that holds for all of them, at each epsilon."""
    return np.max([np.asarray(each.delta(epsilons)) for each in curves], axis=0)
