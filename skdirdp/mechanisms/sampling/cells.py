"""Positive numbers by their first bits: the grid that gamma variables fall onto."""

import numpy as np
from numpy.typing import ArrayLike

_MANTISSA = 52  # stored bits of a double's mantissa
_BIAS = 1023
_LEAST = 2.0**-1000  # far from where doubles lose bits


def cells_of_interval(
    low: np.ndarray, high: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells of intervals that lie in one cell.

    Parameters
    ----------
    low, high : ndarray of float
        The ends.
    bits : int
        Leading bits that make a cell.

    Returns
    -------
    mantissa, exponent : ndarray of int64
        ``mantissa * 2^exponent`` is the lower end, rounded down to its first bits.
    open_ : ndarray of bool
        Where the ends lie in different cells, or are no ordinary positive numbers.
    """
    # A positive double, read as an integer, grows with its value, and without its last
    # bits it is its exponent and the first of its mantissa: the cell.
    stored = bits - 1
    code = low.view(np.int64) >> (_MANTISSA - stored)
    decided = code == (high.view(np.int64) >> (_MANTISSA - stored))
    # One look at all, before one at each; nan passes neither.
    if not (low.min(initial=1.0) > _LEAST and high.max(initial=1.0) < np.inf):
        decided &= low > _LEAST
        decided &= high < np.inf
    exponent = code >> stored
    exponent -= _BIAS + stored
    code &= (1 << stored) - 1
    code |= 1 << stored
    return code, exponent, ~decided


def relative_weights(mantissa: ArrayLike, exponent: ArrayLike, axis: int = -1) -> np.ndarray:
    """Numbers ``mantissa * 2^exponent``, over the largest of their row.

    What is made of cells is post-processing, so floats may do it.

    Parameters
    ----------
    mantissa, exponent : array of int
    axis : int, default=-1
        Along which a row runs.

    Returns
    -------
    ndarray of float
        At most 1, and 1 at the largest; 0 from about 2^-1022 down.
    """
    mantissa, exponent = np.asarray(mantissa), np.asarray(exponent, dtype=np.int64)
    # All mantissas have as many bits, so the largest is among the largest exponents.
    shift = exponent - exponent.max(axis=axis, keepdims=True)
    # What is below all normal doubles is below the smallest of them beside the largest
    # weight, and becomes 0.
    np.maximum(shift, -_BIAS, out=shift)
    weights = mantissa.astype(float)
    weights *= _powers_of_two(shift)
    weights /= weights.max(axis=axis, keepdims=True)
    return weights


def middles(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """The middles of cells, ``(mantissa + 1/2) * 2^exponent``.

    Parameters
    ----------
    mantissa, exponent : ndarray of int64

    Returns
    -------
    ndarray of float
        Exact, but below all normal doubles and beyond the largest.
    """
    values = mantissa + 0.5
    if exponent.min(initial=0) > -_BIAS and exponent.max(initial=0) <= _BIAS:
        values *= _powers_of_two(exponent)
        return values
    return np.ldexp(values, exponent, out=values)


def _powers_of_two(exponent: np.ndarray) -> np.ndarray:
    """``2^exponent`` by its bits, many times faster than ldexp; 0 where it is -1023, the least."""
    bits = exponent + _BIAS
    bits <<= _MANTISSA
    return bits.view(np.float64)


def log_weights(mantissa: ArrayLike, exponent: ArrayLike, axis: int = -1) -> np.ndarray:
    """Natural logarithms of `relative_weights`, finite whatever the exponents.

    Parameters
    ----------
    mantissa, exponent : array of int
    axis : int, default=-1
        Along which a row runs.

    Returns
    -------
    ndarray of float
        At most 0, and 0 at the largest.
    """
    mantissa, exponent = np.asarray(mantissa), np.asarray(exponent, dtype=np.int64)
    shift = exponent - exponent.max(axis=axis, keepdims=True)
    logs = np.log(mantissa.astype(float)) + np.log(2) * shift
    logs -= logs.max(axis=axis, keepdims=True)
    return logs
