"""Exact samples of Laplace, normal and discrete distributions.

Continuous samples are rounded to a grid, a power of two; their scale is used exactly. The Laplace
distribution uses inversion, the normal distribution uses the Box-Muller method, and indices are
drawn by rejection.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from .bits import (
    BLOCK,
    LOST_BITS,
    MARGIN,
    BitStream,
    Size,
    Source,
    Uniform,
    as_stream,
    check_platform,
    decide,
    fill,
    floor,
    is_positive,
)
from .grids import check_noise

_MAGNITUDE_MASK = np.uint64(2**63 - 1)

_WEIGHT_BITS = 40
# Absolute error of a uniform near 0: bits beyond its first word, and rounding.
_UNIFORM_ERROR = 2.0**-60


def _floors(value, error, steps, offset) -> tuple[np.ndarray, np.ndarray]:
    """Return floors of ``steps * value + offset``, and a mask of uncertain ones, including nan."""
    error *= steps
    value *= steps
    value += offset
    low = np.floor(value - error)
    value += error
    return low, low != np.floor(value, out=value)


def laplace_cells(
    scale: float, grid: float, size: Size, generator: Source, *, _margin: float = MARGIN
) -> np.ndarray:
    """Draw Laplace noise of density ``exp(-|x| / scale) / (2 scale)``, rounded to the grid.

    The result is k if the noise lies in ``[k - 1/2, k + 1/2) * grid``.
    """
    magnitudes, negative = _exponential_floors(scale, grid, 0.5, size, generator, _margin)
    return np.negative(magnitudes, out=magnitudes, where=negative)


def floored_laplace_cells(
    scale: float, grid: float, size: Size, generator: Source, *, _margin: float = MARGIN
) -> np.ndarray:
    """Draw Laplace noise, rounded down to the grid: k if it lies in ``[k, k + 1) * grid``."""
    magnitudes, negative = _exponential_floors(scale, grid, 0.0, size, generator, _margin)
    # The floor of -x is -1 - floor(x), except for integers x, which have probability zero.
    return np.invert(magnitudes, out=magnitudes, where=negative)


def _exponential_floors(
    scale, grid, offset, size, generator, margin
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the floor of ``scale E / grid + offset`` and a fair sign, from one word each."""
    check_platform()
    steps = check_noise(scale, grid)
    stream = as_stream(generator)
    cells = np.empty(size, np.int64)
    negative = np.empty(size, bool)
    flat, signs = cells.reshape(-1), negative.reshape(-1)

    def exact_floor(u):
        return floor(-u.log() * arb(steps) + arb(offset))

    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        uniforms = stream.draw(block.size)
        np.less(uniforms.words.view(np.int64), 0, out=signs[start : start + BLOCK])
        unit = (uniforms.words & _MAGNITUDE_MASK).view(np.int64).astype(float)
        unit *= 2.0**-63
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            block[:], undecided = _floors(*negative_log(unit, margin), steps, offset)
        for i in np.flatnonzero(undecided).tolist():
            block[i] = decide(exact_floor, uniforms.magnitude(i))
        stream.undecided += int(np.count_nonzero(undecided))
    return cells, negative


def negative_log(unit: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``-log(U)`` with a bound on its error; overwrites `unit`."""
    error = LOST_BITS / unit
    error += margin
    value = np.log(unit, out=unit)
    np.negative(value, out=value)
    error *= value + 2
    return value, error


def normal_cells(
    scale: float, grid: float, size: Size, generator: Source, *, _margin: float = MARGIN
) -> np.ndarray:
    """Draw normal noise of standard deviation `scale`, rounded to the grid.

    The result is k if the noise lies in ``[k - 1/2, k + 1/2) * grid``.
    """
    check_platform()
    steps = check_noise(scale, grid)
    stream = as_stream(generator)
    cells = np.empty(size, np.int64)
    flat = cells.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        with np.errstate(all="ignore"):
            normals = Normals(stream, block.size, _margin)
            block[:], undecided = _floors(normals.values, normals.errors, steps, 0.5)
        for i in np.flatnonzero(undecided).tolist():
            z, uniforms = normals.exact(i)
            block[i] = decide(lambda u, w: floor(z(u, w) * arb(steps) + arb(0.5)), *uniforms)  # noqa: B023
        stream.undecided += int(np.count_nonzero(undecided))
    return cells


class Normals:
    """Standard normal variables by the Box-Muller method.

    Each pair of uniforms gives two variables, ``sqrt(-2 log U) (cos, sin)(pi W)``. Each lies in
    ``[value - error, value + error]``.
    """

    def __init__(self, stream: BitStream, size: int, margin: float):
        half = (size + 1) // 2
        self._half, self._size, self._margin = half, size, margin
        self._u, self._w = stream.draw(half), stream.draw(half)
        self._unit = self._u.unit_floats()
        radius = np.log(self._unit)
        radius *= -2
        self._radius = np.sqrt(radius, out=radius)
        # Cosine and sine from the tangent of the half angle: one function call instead of two.
        tangent = self._w.symmetric_floats()
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
        np.abs(error, out=error)  # the radius may be a negative zero
        error += self._radius
        error *= relative
        return np.concatenate([error, error[: self._size - self._half]])

    @property
    def largest(self) -> float:
        """Upper bound on all absolute values, up to rounding."""
        return float(self._radius.max(initial=0.0))

    @property
    def largest_error(self) -> float:
        """Upper bound on all errors; infinite or nan if there is none."""
        relative = LOST_BITS / self._unit.min(initial=1.0) + self._margin
        return float(relative * (2 / np.abs(self._radius.min(initial=np.inf)) + self.largest))

    def exact(self, i: int) -> tuple[Callable[[Any, Any], Any], tuple[Uniform, Uniform]]:
        """Return variable `i` as a function of two balls, and the corresponding uniforms."""
        pair, is_sine = i % self._half, i >= self._half

        def value(u, w):
            return (-2 * u.log()).sqrt() * (w.sin_pi() if is_sine else w.cos_pi())

        return value, (self._u.unit(pair), self._w.symmetric(pair))


def choose(
    log_weights: ArrayLike, size: Size, generator: Source, *, _margin: float = MARGIN
) -> np.ndarray:
    """Draw indices with probabilities proportional to ``exp(L_i)``, for up to 2^20 doubles L_i.

    Index i is proposed with probability proportional to an integer Q_i, and accepted if
    ``V Q_i < q_i`` with ``q_i = 2^40 exp(L_i - max L) <= Q_i``. Exact arithmetic is needed only
    for a proposed index, never for the sum of all weights.
    """
    check_platform()
    logs = np.asarray(log_weights, dtype=float)
    if logs.ndim != 1 or not 1 <= logs.size <= 1 << 20 or not np.isfinite(logs).all():
        raise ValueError("log_weights must be from 1 to 2^20 finite numbers")
    stream, largest = as_stream(generator), float(logs.max())
    weights = np.exp(logs - largest)
    weights *= 2.0**_WEIGHT_BITS
    # Only weights below 1 may have a larger relative rounding error than this.
    integers = np.floor(weights * (1 + 2.0**-40)).astype(np.int64) + 1
    cumulative = np.cumsum(integers)
    ratios = weights / integers
    total = int(cumulative[-1])
    # Words beyond the last multiple of the total would favour small remainders.
    last = np.uint64((1 << 64) // total * total - 1)

    def remainders(cells):
        words = stream.draw(_n_cells(cells)).words
        return words <= last, (words % np.uint64(total),)

    def is_accepted(i, v):
        log_integer = arb(int(integers[i])).log() - _WEIGHT_BITS * arb(2).log()
        return is_positive(arb(float(logs[i])) - arb(largest) - v.log() - log_integer)

    def propose(cells):
        position = np.empty(_n_cells(cells), np.uint64)
        fill(position.size, remainders, position)
        index = np.searchsorted(cumulative, position.view(np.int64), side="right")
        v = stream.draw(position.size)
        ratio = ratios[index]
        slack = ratio - v.unit_floats()
        tolerance = ratio * _margin + (_UNIFORM_ERROR + _margin)
        accepted = slack > tolerance
        undecided = ~(accepted | (slack < -tolerance))
        for j in np.flatnonzero(undecided).tolist():
            accepted[j] = decide(partial(is_accepted, int(index[j])), v.unit(j))
        stream.undecided += int(np.count_nonzero(undecided))
        return accepted, (index,)

    drawn = np.empty(size, np.int64)
    fill(drawn.size, propose, drawn.reshape(-1))
    return drawn


def _n_cells(cells: slice | np.ndarray) -> int:
    return cells.stop - cells.start if isinstance(cells, slice) else cells.size


def bernoulli(probability: float, size: Size, generator: Source) -> np.ndarray:
    """Draw booleans that are True with exactly the given probability, from 0 to 1."""
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be from 0 to 1; got {probability}")
    stream = as_stream(generator)
    result = np.ones(size, bool)
    if probability == 1:
        return result
    numerator, denominator = float(probability).as_integer_ratio()
    threshold = (numerator << 64) // denominator
    uniforms = stream.draw(result.size)
    flat = result.reshape(-1)
    np.less(uniforms.words, np.uint64(threshold), out=flat)
    # The first word decides unless it equals the first word of the probability.
    undecided = np.flatnonzero(uniforms.words == np.uint64(threshold)).tolist()
    for i in undecided:
        flat[i] = decide(lambda u: is_positive(arb(probability) - u), uniforms.unit(i))
    stream.undecided += len(undecided)
    return result
