"""Bounds on the error of doubles, and exact decisions where doubles are not precise enough.

A decision is taken in doubles if it holds by a relative distance of `MARGIN`. The proofs
(docs/sampling.md) need less than half of this margin, assuming IEEE 754 operations with an
error of 2^-53 and elementary functions with an error of at most `MAX_ULPS`.

All other decisions use ball arithmetic. A ball is an interval that contains the true value
at any precision. A result that holds for all numbers in the balls is therefore the true one.
If the balls are too wide, the precision is increased and further bits are drawn.

Quantities in such a decision other than its uniforms must be exact: doubles or rationals
(`fmpq`), converted to balls at the current precision. A precomputed ball would never become
narrower, and the decision would never end.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np
from flint import arb, ctx

from .bits import WORD, Uniform

#: Relative error allowed for in decisions in doubles.
MARGIN = 2.0**-44
#: A uniform u differs from its first word by at most this over u, relative.
LOST_BITS = 2.0**-62
#: Largest error of numpy's elementary functions, in units in the last place (2^-50, relative).
MAX_ULPS = 4

_N_POINTS = 307  # odd, so that vectorised loops have a scalar remainder
_MAX_PRECISION = 1 << 14

Result = TypeVar("Result")


# The platform's elementary functions ---------------------------------------------------


def _points() -> dict[str, np.ndarray]:
    """Return test arguments for each function, from the range that the samplers use."""
    rng = np.random.default_rng(20)
    fine = rng.random(_N_POINTS)
    near = 2.0 ** -rng.uniform(1, 52, _N_POINTS)
    return {
        "log": np.concatenate([fine, 2.0 ** -rng.uniform(0, 64, _N_POINTS), 1 - near]),
        "log1p": np.concatenate([-fine, 4 * fine, near, -near, near - 1]),
        "exp": -np.concatenate([fine, near]),
        "tan": np.pi / 2 * np.concatenate([2 * fine - 1, near, near - 1]),
    }


def measured_error(name: str, function: Callable, points: np.ndarray) -> float:
    """Measure the largest error of an elementary function, in units in the last place.

    Parameters
    ----------
    name : str
        Name of the true function in `flint.arb`.
    function : callable
        Maps doubles to doubles.
    points : ndarray of float

    Returns
    -------
    float
    """
    # A single number takes numpy's scalar loop, several take the vectorised loop.
    values = np.concatenate([function(points[:1]), function(points[1:])])
    true_function, before = getattr(arb, name), ctx.prec
    # At this precision the balls are about 2^-40 ulps wide, so their midpoints suffice.
    ctx.prec = 96
    try:
        true = [true_function(arb(x)) for x in points.tolist()]
        errors = [float(arb(x) - y) for x, y in zip(values.tolist(), true, strict=True)]
    finally:
        ctx.prec = before
    _, sizes = np.frexp([float(y) for y in true])
    return float(np.max(np.abs(np.ldexp(errors, 53 - sizes))))


def check_functions(functions: Mapping[str, Callable]) -> None:
    """Raise an error if elementary functions are less precise than the proofs assume.

    Parameters
    ----------
    functions : dict of callable
        Implementations of "log", "log1p", "exp" and "tan".
    """
    for name, points in _points().items():
        error = measured_error(name, functions[name], points)
        if not error <= MAX_ULPS:
            raise RuntimeError(
                f"exact sampling needs {name} with an error of at most {MAX_ULPS} units in the "
                f"last place; numpy's error on this platform is {error:.3g}"
            )


@cache
def check_platform() -> None:
    """Raise an error if numpy is less precise on this platform than the proofs assume.

    Runs once per process. It tests a fixed set of points, which detects imprecise builds of
    numpy but does not prove that the error is small at every point.
    """
    check_functions({name: getattr(np, name) for name in _points()})


# Ball arithmetic -----------------------------------------------------------------------


def decide(function: Callable[..., Result | None], *uniforms: Uniform) -> Result:
    """Evaluate a function of uniforms at increasing precision until its result is certain.

    Parameters
    ----------
    function : callable
        Maps the balls of the uniforms to a result, or to None if the balls are too wide.
    *uniforms : Uniform
        Extended in place, so that later decisions see the same real numbers.

    Returns
    -------
    object
        The result. The loop ends with probability one: decisions are inequalities between
        continuous functions of the uniforms, and equality has probability zero.

    Raises
    ------
    RuntimeError
        If 2^14 bits are not enough. This happens if a ball does not become narrower, and
        otherwise with a probability of about 2^-8000.
    """
    # All threads share the context. A precision set by another thread makes balls wider or
    # narrower, but never wrong.
    before = ctx.prec
    precision = 2 * WORD
    try:
        while precision <= _MAX_PRECISION:
            ctx.prec = precision
            result = function(*(uniform.ball() for uniform in uniforms))
            if result is not None:
                return result
            for uniform in uniforms:
                uniform.extend()
            precision += 2 * WORD
    finally:
        ctx.prec = before
    raise RuntimeError(
        f"{_MAX_PRECISION} bits are not enough for a decision; a ball does not become narrower"
    )


def is_positive(ball: Any) -> bool | None:
    """Return whether a number is positive, or None if its ball contains both signs.

    Parameters
    ----------
    ball : arb

    Returns
    -------
    bool or None
    """
    if ball > 0:
        return True
    return False if ball < 0 else None


def floor(ball: Any) -> int | None:
    """Return the floor of a number, or None if its ball has no unique floor.

    Parameters
    ----------
    ball : arb

    Returns
    -------
    int or None
    """
    integer = ball.floor().unique_fmpz()
    return None if integer is None else int(integer)


def leading_bits(ball: Any, bits: int) -> tuple[int, int] | None:
    """Return the leading bits of a positive number and their exponent.

    Parameters
    ----------
    ball : arb
    bits : int
        Number of leading bits.

    Returns
    -------
    (mantissa, exponent) or None
        ``mantissa * 2^exponent`` is the number rounded down, with mantissa in
        ``[2^(bits - 1), 2^bits)``. None if the ball meets several such cells.
    """
    if not ball > 0:
        return None
    mantissa, exponent = ball.mid().man_exp()
    exponent = int(exponent) + int(mantissa).bit_length() - bits
    # A ball that extends below the power of two under its midpoint has no unique floor.
    integer = floor(ball * arb(2) ** -exponent)
    return None if integer is None else (integer, exponent)
