"""The proposals of Marsaglia and Tsang for gamma variables of shape above 1."""

import numpy as np
from flint import arb, fmpq

from .bits import BitStream
from .exact import decide, is_positive
from .margins import LOST_BITS
from .normal import Normals

# The envelope needs c >= 1 / (3 sqrt(d)); this is more than doubles can miss it by.
_OUTWARD = 1 + 2.0**-40
# Where a bound shows that a proposal is accepted, by this much at least.
_SQUEEZE = 1 - 2.0**-20
_SQUEEZE_ERROR = 2.0**-36
_SQUEEZE_BASE = 1 / 16


class Cubes:
    """A proposal ``d (1 + c z)^3`` per cell, for shapes above 1.

    With ``d = shape - 1/3`` and z normal it is accepted if ``1 + y > 0``, ``y = c z``, and
    ``-log U + z^2 / 2 + d (3 log(1 + y) - 3 y - 3 y^2 - y^3) >= 0``.

    Parameters
    ----------
    numerators : ndarray of int64
    places : int
        Shapes are ``numerators / 2^places``, above 1.
    stream : BitStream
    margin : float

    Attributes
    ----------
    low, high : ndarray of float
        Between which the proposal lies.
    accepted, open : ndarray of bool
        Which proposals are accepted, and which are not decided.
    """

    def __init__(self, numerators: np.ndarray, places: int, stream: BitStream, margin: float):
        size = numerators.size
        self._numerators, self._places, self._margin = numerators, places, margin
        self._normals = Normals(stream, size, margin)
        z, z_error = self._normals.values, self._normals.errors
        self._u = stream.draw(size)
        d = numerators.astype(float)
        d *= 2.0**-places
        d -= 1 / 3
        c = np.sqrt(d)
        np.divide(_OUTWARD / 3, c, out=c)
        self._c = c

        y = c * z
        base = 1 + y
        self._accept(d, c, z, z_error, y, base)

        value = base * base
        value *= base
        value *= d
        error = np.multiply(z_error, c, out=z_error)
        error *= 4
        error += margin
        error /= base
        error += margin
        error *= value
        self.low, self.high = value - error, value + error

    def _accept(self, d, c, z, z_error, y, base):
        """Decide by a bound that needs no logarithm, and the rest by the inequality itself.

        The slack is at least ``1 - U - 3/4 d y^4 / min(1, 1 + y) - 2^-39 z^2``.
        """
        unit = self._u.on_unit()
        bound = y * z
        bound *= bound
        bound *= 1 / 12  # 3/4 d c^2
        bound /= np.minimum(base, 1)
        bound += unit
        self.accepted = bound < _SQUEEZE
        self.accepted &= z_error < _SQUEEZE_ERROR
        self.accepted &= base > _SQUEEZE_BASE
        self.open = np.zeros(unit.size, bool)
        rest = np.flatnonzero(~self.accepted)
        if rest.size:
            parts = [x[rest] for x in (unit, d, c, z, z_error, y, base)]
            self.accepted[rest], self.open[rest] = _decide_slack(self._margin, *parts)

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
            if not c * z > -1:
                return False if c * z < -1 else None
            return is_positive(exact_slack(d, c, z, v))

        return decide(is_accepted, *uniforms, self._u.unit(i)), value, uniforms


def exact_slack(d, c, z, v):
    """What has to be positive for a proposal to be accepted, as a ball."""
    y = c * z
    return z * z / 2 + d * (3 * y.log1p() - y * (3 + y * (3 + y))) - v.log()


def _decide_slack(margin, unit, d, c, z, z_error, y, base):
    """Which proposals are accepted, and which are left open; the others are refused."""
    slack, tolerance = slack_and_tolerance(margin, unit, d, c, z, z_error, y, base)
    # The tolerance holds for a base that is off 0, and not too wide an interval.
    clear = np.abs(base) > 256 * (c * z_error + margin * (1 + np.abs(y)))
    clear &= z_error < 1 / 8
    positive = clear & (base > 0)
    accepted = positive & (slack > tolerance)
    refused = (positive & (slack < -tolerance)) | (clear & (base < 0))
    return accepted, ~(accepted | refused)


def slack_and_tolerance(margin, unit, d, c, z, z_error, y, base):
    """The slack of the inequality, and what it may be off by; all arguments are arrays."""
    cube = y * (3 + y * (3 + y))  # (1 + y)^3 - 1
    growth = 3 * np.log1p(np.maximum(y, -1 + 2.0**-53))
    height = -np.log(unit)
    square = z * z
    slack = square / 2 + d * (growth - cube) + height
    growth, cube = np.abs(growth), np.abs(cube)
    # The slack moves with z by z - ((1 + y)^3 - 1) / (3 c (1 + y)).
    slope = 1 + np.abs(z) + cube / (c * base)
    tolerance = (1 + height + square + d * (growth + cube)) * (margin + LOST_BITS / unit)
    return slack, tolerance + 2 * z_error * slope
