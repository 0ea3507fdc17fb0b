"""Exponential variables by inversion, and what is made of them.

All are floors: of an exponential on a grid, of its Laplace counterpart with a fair sign,
and, for gamma variables of shape 1, its first bits.
"""

from functools import partial

import numpy as np
from flint import arb

from .bits import BitStream, as_stream
from .cells import cells_of_interval
from .dyadic import check_noise
from .exact import decide, floor, leading_bits
from .margins import LOST_BITS, MARGIN, check_platform
from .rejection import BLOCK

_MAGNITUDE = np.uint64(2**63 - 1)


def exponential_cells(
    scale: float,
    grid: float,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Exponential noise of a mean, rounded down to a multiple of a grid.

    With a grid of 1 that is the geometric variable with ``P(k or more) = exp(-k / scale)``.

    Parameters
    ----------
    scale : float
        Mean; exactly this double.
    grid : float
        A power of two.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of int64
        Multiples of the grid: k where ``scale * E`` lies in ``[k, k + 1) * grid``.
    """
    magnitudes, _ = _floors(scale, grid, 0.0, size, generator, _margin)
    return magnitudes


def laplace_cells(
    scale: float,
    grid: float,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Laplace noise of a scale, rounded to the nearest multiple of a grid.

    Parameters
    ----------
    scale : float
        The b of the density ``exp(-|x| / b) / (2 b)``; exactly this double.
    grid : float
        A power of two.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of int64
        Multiples of the grid: k where the noise lies in ``[k - 1/2, k + 1/2) * grid``.
    """
    magnitudes, negative = _floors(scale, grid, 0.5, size, generator, _margin)
    return np.negative(magnitudes, out=magnitudes, where=negative)


def floored_laplace_cells(
    scale: float,
    grid: float,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Laplace noise of a scale, rounded down to a multiple of a grid.

    Parameters
    ----------
    scale : float
        The b of the density ``exp(-|x| / b) / (2 b)``; exactly this double.
    grid : float
        A power of two.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of int64
        Multiples of the grid: k where the noise lies in ``[k, k + 1) * grid``.
    """
    magnitudes, negative = _floors(scale, grid, 0.0, size, generator, _margin)
    # The floor of -x is -1 - floor(x), but for integers x, which have probability zero.
    return np.invert(magnitudes, out=magnitudes, where=negative)


def _floors(scale, grid, offset, size, generator, margin) -> tuple[np.ndarray, np.ndarray]:
    """The floor of ``scale E / grid + offset``, and a fair sign, from one word each."""
    check_platform()
    steps = check_noise(scale, grid)
    stream = as_stream(generator)
    cells = np.empty(size, np.int64)
    negative = np.empty(size, bool)
    flat, signs = cells.reshape(-1), negative.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = slice(start, start + BLOCK)
        _invert(steps, offset, stream, margin, flat[part], signs[part])
    return cells, negative


def _invert(steps, offset, stream, margin, cells, signs) -> None:
    uniforms = stream.draw(cells.size)
    np.less(uniforms.words.view(np.int64), 0, out=signs)
    unit = (uniforms.words & _MAGNITUDE).view(np.int64).astype(float)
    unit *= 2.0**-63
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = LOST_BITS / unit
        error += margin
        value = np.log(unit, out=unit)
        np.negative(value, out=value)
        error *= value + 2
        error *= steps
        value *= steps
        value += offset
        low = np.floor(value - error)
        value += error
        # not "differ": NaN, from a unit of 0, is not equal to itself
        open_ = ~(low == np.floor(value, out=value))
        cells[:] = low
    for i in np.flatnonzero(open_).tolist():
        question = partial(_floor, steps, offset)
        cells[i] = decide(question, uniforms.magnitude(i))
    stream.undecided += int(np.count_nonzero(open_))


def _floor(steps, offset, u):
    return floor(-u.log() * arb(steps) + arb(offset))


def unit_shape_cells(size: int, stream: BitStream, bits: int, margin: float):
    """The first bits of standard exponentials, and their exponents.

    Parameters
    ----------
    size : int
        At most a block.
    stream : BitStream
    bits : int
    margin : float

    Returns
    -------
    mantissa, exponent : ndarray of int64
    """
    uniforms = stream.draw(size)
    unit = uniforms.on_unit()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = LOST_BITS / unit
        error += margin
        value = np.log(unit, out=unit)
        np.negative(value, out=value)
        error *= value + 2
        mantissa, exponent, open_ = cells_of_interval(value - error, value + error, bits)
    for i in np.flatnonzero(open_).tolist():
        question = partial(_leading_bits, bits)
        mantissa[i], exponent[i] = decide(question, uniforms.unit(i))
    stream.undecided += int(np.count_nonzero(open_))
    return mantissa, exponent


def _leading_bits(bits, u):
    return leading_bits(-u.log(), bits)
