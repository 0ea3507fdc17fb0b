"""Normal variables by the method of Box and Muller."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from .bits import BitStream, Uniform, as_stream
from .dyadic import check_noise
from .exact import decide, floor
from .margins import LOST_BITS, MARGIN, check_platform
from .rejection import BLOCK


def normal_cells(
    scale: float,
    grid: float,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Normal noise of a standard deviation, rounded to the nearest multiple of a grid.

    Parameters
    ----------
    scale : float
        Standard deviation; exactly this double.
    grid : float
        A power of two.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of int64
        Multiples of the grid: k where ``scale * Z`` lies in ``[k - 1/2, k + 1/2) * grid``.
    """
    check_platform()
    steps = check_noise(scale, grid)
    stream = as_stream(generator)
    cells = np.empty(size, np.int64)
    flat = cells.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        _round(steps, stream, _margin, flat[start : start + BLOCK])
    return cells


def _round(steps: float, stream: BitStream, margin: float, cells: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        normals = Normals(stream, cells.size, margin)
        value, error = normals.values, normals.errors
        value *= steps
        value += 0.5
        error *= steps
        low = np.floor(value - error)
        value += error
        # "not equal" would take NaN for decided
        open_ = ~(low == np.floor(value, out=value))
        cells[:] = low
    for i in np.flatnonzero(open_).tolist():
        z, uniforms = normals.exact(i)
        cells[i] = decide(lambda u, w: floor(z(u, w) * arb(steps) + arb(0.5)), *uniforms)  # noqa: B023
    stream.undecided += int(np.count_nonzero(open_))


class Normals:
    """Standard normal variables ``sqrt(-2 log U) (cos, sin)(pi W)``, two from each pair.

    Parameters
    ----------
    stream : BitStream
    size : int
    margin : float

    Attributes
    ----------
    values, errors : ndarray of float
        Each variable lies in ``[value - error, value + error]``.
    """

    def __init__(self, stream: BitStream, size: int, margin: float):
        half = (size + 1) // 2
        self._half, self._size, self._margin = half, size, margin
        self._u, self._w = stream.draw(half), stream.draw(half)
        self._unit = self._u.on_unit()
        radius = np.log(self._unit)
        radius *= -2
        self._radius = np.sqrt(radius, out=radius)
        # Cosine and sine from the tangent of half the angle: one function instead of two.
        tangent = self._w.on_symmetric()
        tangent *= np.pi / 2
        np.tan(tangent, out=tangent)
        square = tangent * tangent
        values = np.empty(2 * half)
        np.subtract(1, square, out=values[:half])
        square += 1
        scale = np.divide(radius, square, out=square)
        values[:half] *= scale
        tangent *= 2
        np.multiply(tangent, scale, out=values[half:])
        self.values = values[:size]

    @cached_property
    def errors(self) -> np.ndarray:
        relative = LOST_BITS / self._unit
        relative += self._margin
        error = 2 / self._radius
        np.abs(error, out=error)  # the radius may be a zero with a sign
        error += self._radius
        error *= relative
        return np.concatenate([error, error[: self._size - self._half]])

    @property
    def largest(self) -> float:
        """No absolute value is larger, roundings aside."""
        return float(self._radius.max(initial=0.0))

    @property
    def largest_error(self) -> float:
        """No error is larger; infinite or nan where there is no bound."""
        relative = LOST_BITS / self._unit.min(initial=1.0) + self._margin
        return float(relative * (2 / np.abs(self._radius.min(initial=np.inf)) + self.largest))

    def exact(self, i: int) -> tuple[Callable[[Any, Any], Any], tuple[Uniform, Uniform]]:
        """The i-th as a function of two balls, and the uniforms they are balls of."""
        pair, is_sine = i % self._half, i >= self._half

        def value(u, w):
            return (-2 * u.log()).sqrt() * (w.sin_pi() if is_sine else w.cos_pi())

        return value, (self._u.unit(pair), self._w.symmetric(pair))
