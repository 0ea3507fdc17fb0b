"""Gamma variables: the first bits of each, and their exponent.

Shapes above 1 by the method of Marsaglia and Tsang, shape 1 by inversion, and shapes below
1 as a gamma variable of shape + 1 times the power of a uniform (`halvings`).
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from flint import arb, fmpq
from numpy.typing import ArrayLike

from .bits import BitStream, as_stream
from .cells import cells_of_interval
from .dyadic import MAX_NUMERATOR, MAX_PLACES
from .exact import decide, is_positive, leading_bits
from .exponential import unit_shape_cells
from .halvings import Fractions, Halvings
from .margins import LOST_BITS, MARGIN, check_platform
from .normal import Normals
from .rejection import BLOCK, fill

BITS = 20

# The envelope needs c >= 1 / (3 sqrt(d)); this is more than doubles can miss it by.
_OUTWARD = 1 + 2.0**-40
# Where a bound shows that a proposal is accepted, by this much at least.
_SQUEEZE = 1 - 2.0**-20
_SQUEEZE_ERROR = 2.0**-36
_SQUEEZE_BASE = 1 / 16


def gamma_cells(
    numerators: ArrayLike,
    places: int,
    generator: np.random.Generator | BitStream,
    *,
    _bits: int = BITS,
    _margin: float = MARGIN,
) -> tuple[np.ndarray, np.ndarray]:
    """Standard gamma variables, rounded down to their first 20 bits.

    Parameters
    ----------
    numerators : array of int
        Shapes are ``numerators / 2^places``; from 1 to below 2^62.
    places : int
        From 0 to 50. `gamma_shapes` makes both.
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    mantissa, exponent : ndarray of int64
        The variable lies in ``[mantissa, mantissa + 1) * 2^exponent``, with the mantissa in
        ``[2^19, 2^20)``. Every such pair is possible for every shape.
    """
    check_platform()
    numerators = np.asarray(numerators)
    if not np.issubdtype(numerators.dtype, np.integer):
        raise TypeError(f"numerators must be integers; got {numerators.dtype}")
    if not 0 <= places <= MAX_PLACES:
        raise ValueError(f"places must be from 0 to {MAX_PLACES}; got {places}")
    if numerators.size and not 1 <= numerators.min() <= numerators.max() < MAX_NUMERATOR:
        raise ValueError("numerators must be from 1 to below 2^62; some are not")
    flat, one = numerators.astype(np.int64, copy=False).reshape(-1), 1 << places
    mantissa, exponent = np.empty((2, flat.size), np.int64)
    settings = _Settings(as_stream(generator), places, _bits, _margin)
    tiny = max(one >> Fractions.LEAST_SHAPE, 1)
    kinds = (
        (flat > one, _fill_large),
        (flat == one, _fill_unit),
        ((flat < one) & (flat >= tiny), partial(_fill_small, Fractions)),
        (flat < tiny, partial(_fill_small, Halvings)),
    )
    for chosen, sample in kinds:
        if chosen.all():
            sample(flat, settings, mantissa, exponent)
        elif chosen.any():
            part = np.empty((2, np.count_nonzero(chosen)), np.int64)
            sample(flat[chosen], settings, *part)
            mantissa[chosen], exponent[chosen] = part
    return mantissa.reshape(numerators.shape), exponent.reshape(numerators.shape)


class _Settings(NamedTuple):
    stream: BitStream
    places: int
    bits: int
    margin: float


def _fill_unit(numerators, settings, mantissa, exponent):
    for start in range(0, mantissa.size, BLOCK):
        part = slice(start, min(start + BLOCK, mantissa.size))
        mantissa[part], exponent[part] = unit_shape_cells(
            part.stop - start, settings.stream, settings.bits, settings.margin
        )


def _fill_large(numerators, settings, mantissa, exponent):
    fill(numerators.size, partial(_propose_large, numerators, settings), mantissa, exponent)


def _fill_small(powers, numerators, settings, mantissa, exponent):
    propose = partial(_propose_small, powers, numerators, settings)
    fill(numerators.size, propose, mantissa, exponent)


def _propose_large(numerators, settings, cells):
    with np.errstate(all="ignore"):
        cubes = _Cubes(numerators[cells], settings)
        mantissa, exponent, open_ = cells_of_interval(cubes.low, cubes.high, settings.bits)
    accepted = cubes.accepted
    open_ &= accepted
    open_ |= cubes.open
    for i in np.flatnonzero(open_).tolist():
        accepted[i], value, uniforms = cubes.exact(i)
        if accepted[i]:
            question = partial(_cell, settings.bits, value)
            mantissa[i], exponent[i] = decide(question, *uniforms)
    settings.stream.undecided += int(np.count_nonzero(open_))
    return accepted, (mantissa, exponent)


def _cell(bits, value, *balls):
    return leading_bits(value(*balls), bits)


def _propose_small(powers, numerators, settings, cells):
    numerators = numerators[cells]
    with np.errstate(all="ignore"):
        cubes = _Cubes(numerators + (1 << settings.places), settings)
        power = powers(numerators, settings.places, settings.stream, settings.margin)
        low, high = cubes.low, cubes.high
        low *= power.low
        high *= power.high
        mantissa, exponent, open_ = cells_of_interval(low, high, settings.bits)
    accepted = cubes.accepted & power.accepted
    open_ &= accepted
    # A proposal that one of the two refuses is refused, whatever the other leaves open.
    open_ |= cubes.open & (power.accepted | power.open)
    open_ |= power.open & (cubes.accepted | cubes.open)
    exponent -= power.halvings
    for i in np.flatnonzero(open_).tolist():
        accepted[i], value, uniforms = cubes.exact(i)
        if not accepted[i]:
            continue
        accepted[i], halvings, factor, others = power.exact(i)
        if accepted[i]:
            question = partial(_product_cell, settings.bits, value, factor)
            mantissa[i], exponent[i] = decide(question, *uniforms, *others)
            exponent[i] -= halvings
    settings.stream.undecided += int(np.count_nonzero(open_))
    return accepted, (mantissa, exponent)


def _product_cell(bits, value, factor, u, w, other):
    return leading_bits(value(u, w) * factor(other), bits)


class _Cubes:
    """A proposal ``d (1 + c z)^3`` per cell, for shapes above 1.

    With ``d = shape - 1/3`` and z normal it is accepted if ``1 + y > 0``, ``y = c z``, and
    ``-log U + z^2 / 2 + d (3 log(1 + y) - 3 y - 3 y^2 - y^3) >= 0``.
    """

    def __init__(self, numerators: np.ndarray, settings: _Settings):
        size, margin = numerators.size, settings.margin
        self._numerators, self._places, self._margin = numerators, settings.places, margin
        self._normals = Normals(settings.stream, size, margin)
        z, z_error = self._normals.values, self._normals.errors
        self._u = settings.stream.draw(size)
        d = numerators.astype(float)
        d *= 2.0**-settings.places
        d -= 1 / 3
        c = np.sqrt(d)
        np.divide(_OUTWARD / 3, c, out=c)
        self._c = c

        y = c * z
        base = 1 + y
        self._accept(d, c, z, z_error, y, base)

        base_error = np.abs(y, out=y)
        base_error += 1
        base_error *= margin
        z_error *= c
        base_error += z_error
        base_error *= 4
        base_error /= base
        base_error += margin
        value = base * base
        value *= base
        value *= d
        base_error *= value
        self.low, self.high = value - base_error, value + base_error

    def _accept(self, d, c, z, z_error, y, base):
        """Decide by a bound that needs no logarithm, and the rest by the inequality itself.

        The slack is at least ``1 - U - 3/4 d y^4 / min(1, 1 + y) - 2^-39 z^2``.
        """
        unit = self._u.on_unit()
        bound = y * y
        bound *= bound
        bound *= d
        bound *= 0.75
        bound /= np.minimum(base, 1)
        bound += unit
        self.accepted = bound < _SQUEEZE
        self.accepted &= z_error < _SQUEEZE_ERROR
        self.accepted &= base > _SQUEEZE_BASE
        self.open = np.zeros(unit.size, bool)
        rest = np.flatnonzero(~self.accepted)
        if rest.size:
            parts = (x[rest] for x in (unit, d, c, z, z_error, y, base))
            self.accepted[rest], self.open[rest] = _decide_slack(*parts, self._margin)

    def exact(self, i: int):
        """Whether it is accepted, and the value as a function of the balls of uniforms."""
        one = 1 << self._places
        d = fmpq(3 * int(self._numerators[i]) - one, 3 * one)
        c = arb(float(self._c[i]))
        normal, uniforms = self._normals.exact(i)

        def value(u, w):
            return d * (1 + c * normal(u, w)) ** 3

        def is_accepted(u, w, v):
            z = normal(u, w)
            y = c * z
            if not y > -1:
                return False if y < -1 else None
            growth = 3 * y.log1p() - y * (3 + y * (3 + y))
            return is_positive(z * z / 2 + d * growth - v.log())

        return decide(is_accepted, *uniforms, self._u.unit(i)), value, uniforms


def _decide_slack(unit, d, c, z, z_error, y, base, margin):
    """Which proposals are accepted, and which are left open; the others are refused."""
    cube = y * (3 + y * (3 + y))  # (1 + y)^3 - 1
    growth = 3 * np.log1p(np.maximum(y, -1 + 2.0**-53))
    height = -np.log(unit)
    square = z * z
    slack = square / 2 + d * (growth - cube) + height
    growth, cube, y = np.abs(growth), np.abs(cube), np.abs(y)
    # The slack moves with z by z - ((1 + y)^3 - 1) / (3 c (1 + y)).
    slope = 1 + np.abs(z) + cube / (c * base)
    tolerance = (1 + height + square + d * (growth + cube)) * (margin + LOST_BITS / unit)
    tolerance += 2 * z_error * slope
    # The bound on the slope needs a base that is off 0, and not too wide an interval.
    clear = np.abs(base) > 256 * (c * z_error + margin * (1 + y))
    clear &= z_error < 1 / 8
    positive = clear & (base > 0)
    accepted = positive & (slack > tolerance)
    refused = (positive & (slack < -tolerance)) | (clear & (base < 0))
    return accepted, ~(accepted | refused)
