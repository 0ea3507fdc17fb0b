"""How far doubles are trusted, and the check that the platform's deserve it.

A decision is taken in doubles where it stands at a distance of `MARGIN`, relative to the
numbers that enter it. The proofs (docs/sampling.md) need less than half of that, for
operations of IEEE 754 that err by 2^-53 and functions that err by at most `MAX_ULPS`.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from flint import arb, ctx

#: Relative error that decisions in doubles allow for.
MARGIN = 2.0**-44
#: The part of a uniform u that its first word leaves out is at most this over u, relative.
LOST_BITS = 2.0**-62
#: What numpy's elementary functions may err by, in units of the last place: 2^-50, relative.
MAX_ULPS = 4

_POINTS = 307  # odd, so that a rest is left to the scalar end of vectorised loops


def _points() -> dict[str, np.ndarray]:
    """Arguments from the ranges that the samplers have, by function."""
    rng = np.random.default_rng(20)
    fine = rng.random(_POINTS)
    near = 2.0 ** -rng.uniform(1, 52, _POINTS)
    return {
        "log": np.concatenate([fine, 2.0 ** -rng.uniform(0, 64, _POINTS), 1 - near]),
        "log1p": np.concatenate([-fine, 4 * fine, near, -near, near - 1]),
        "exp": -np.concatenate([fine, near]),
        "tan": np.pi / 2 * np.concatenate([2 * fine - 1, near, near - 1]),
    }


def measured_error(name: str, function: Callable, points: np.ndarray) -> float:
    """The largest error of an elementary function, in units of the last place.

    Parameters
    ----------
    name : str
        Which one it should be.
    function : callable
        From doubles to doubles.
    points : ndarray of float

    Returns
    -------
    float
    """
    # A single number goes through the scalar loop, many through the vectorised one.
    values = np.concatenate([function(points[:1]), function(points[1:])])
    true_function, before = getattr(arb, name), ctx.prec
    # With so many bits the balls are about 2^-40 units wide, and their middles will do.
    ctx.prec = 96
    try:
        true = [true_function(arb(x)) for x in points.tolist()]
        errors = [float(arb(x) - y) for x, y in zip(values.tolist(), true, strict=True)]
    finally:
        ctx.prec = before
    _, sizes = np.frexp([float(y) for y in true])
    return float(np.max(np.abs(np.ldexp(errors, 53 - sizes))))


def check_functions(functions: Mapping[str, Callable]) -> None:
    """Refuse elementary functions that err by more than the proofs assume.

    Parameters
    ----------
    functions : dict of callable
        What stands for numpy's "log", "log1p", "exp" and "tan".
    """
    for name, points in _points().items():
        error = measured_error(name, functions[name], points)
        if not error <= MAX_ULPS:
            raise RuntimeError(
                f"exact sampling needs {name} to err by at most {MAX_ULPS} units of the last "
                f"place; numpy's on this platform errs by {error:.3g}"
            )


@cache
def check_platform() -> None:
    """Refuse a platform whose numpy errs by more than the proofs assume.

    Runs once per process. It looks at a fixed set of points, so that it finds functions
    that are built less precisely, and proves nothing about the points between.
    """
    check_functions({name: getattr(np, name) for name in _points()})
