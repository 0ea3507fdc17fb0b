"""The proposals of Marsaglia and Tsang for gamma variables of shape above 1."""

import numpy as np
from flint import arb, fmpq

from .bits import WORD, BitStream
from .exact import decide, is_positive
from .margins import LOST_BITS
from .normal import Normals

# The envelope needs c >= 1 / (3 sqrt(d)); this is more than doubles can miss it by.
_OUTWARD = 1 + 2.0**-40
# Where a bound shows that a proposal is accepted, by this much at least.
_SQUEEZE = 1 - 2.0**-20
_SQUEEZE_ERROR = 2.0**-36
_SQUEEZE_BASE = 1 / 16
# Below this c bounds that hold for a whole block are hardly larger than those for each.
_SMALL_C = 2.0**-8
_SMALL_C_ERROR = 2.0**-30


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
        z = self._normals.values
        self._u = stream.draw(size)
        d = numerators.astype(float)
        d *= 2.0**-places
        d -= 1 / 3
        c = np.sqrt(d)
        np.divide(_OUTWARD / 3, c, out=c)
        self._c = c

        y = c * z
        base = 1 + y
        error = self._accept_at_once(c, base)
        if error is None:
            error = self._accept_one_by_one(c, z, y, base)
        self.open = np.zeros(size, bool)
        rest = np.flatnonzero(~self.accepted)
        if rest.size:
            parts = [part[rest] for part in (d, c, z, self._normals.errors, y, base)]
            self.accepted[rest], self.open[rest] = _decide_slack(
                margin, self._u.on_unit(rest), *parts
            )

        value = base * base
        value *= base
        value *= d
        error = error * value
        self.low, self.high = value - error, value + error

    def _accept_at_once(self, c: np.ndarray, base: np.ndarray) -> float | None:
        """Accept by one bound for all proposals, which is enough for nearly all of large shapes.

        Returns the relative error of the values, of which none is larger; None, and nothing is
        accepted, where bounds for each are needed.
        """
        largest_c, margin = float(c.max(initial=0.0)), self._margin
        if not largest_c < _SMALL_C:
            return None
        largest, z_error = self._normals.largest, self._normals.largest_error
        least_base = float(base.min(initial=1.0))
        bound = (largest_c * largest * largest) ** 2 / 12
        error = (4 * largest_c * z_error + margin) / least_base + margin
        # Written so that nan is refused.
        if not (z_error < _SMALL_C_ERROR and least_base > 1 / 2 and error < 4 * margin):
            return None
        # A word below this is the first of a uniform that is below.
        most = int((_SQUEEZE - bound / least_base) * 2.0**WORD)
        self.accepted = self._u.words < np.uint64(most)
        return error

    def _accept_one_by_one(self, c, z, y, base):
        """Accept by a bound that needs no logarithm; the relative errors of the values.

        The slack is at least ``1 - U - 3/4 d y^4 / min(1, 1 + y) - 2^-39 z^2``.
        """
        bound = y * z
        bound *= bound
        bound *= 1 / 12  # 3/4 d c^2
        bound /= np.minimum(base, 1)
        bound += self._u.on_unit()
        z_error = self._normals.errors
        self.accepted = bound < _SQUEEZE
        self.accepted &= z_error < _SQUEEZE_ERROR
        self.accepted &= base > _SQUEEZE_BASE
        error = z_error * c
        error *= 4
        error += self._margin
        error /= base
        error += self._margin
        return error

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
