"""The power U^(1 / shape) for shapes below 1, as ``2^-halvings`` times a factor.

Its logarithm, -log2(U) / shape, is taken apart so that small shapes need no more bits
than others: the halvings are integers and exact, the factor a number in [1/2, 1].
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, fmpq

from .bits import BitStream, Uniform
from .exact import decide, floor, is_positive
from .margins import LOST_BITS

_LOG2 = float(np.log(2))

#: Whether it is accepted, the halvings, the factor as a function of a ball, its uniform.
Exact = tuple[bool, int, Callable[[Any], Any], tuple[Uniform, ...]]


class Fractions:
    """By inversion: the whole logarithm from one uniform. For shapes down to 2^-8.

    Parameters
    ----------
    numerators : ndarray of int64
    places : int
        Shapes are ``numerators / 2^places``.
    stream : BitStream
    margin : float

    Attributes
    ----------
    halvings : ndarray of int64
    low, high : ndarray of float
        Between which the factor lies.
    accepted, open : ndarray of bool
        What of the proposals is accepted, and what is not decided.
    """

    LEAST_SHAPE = 8

    def __init__(self, numerators: np.ndarray, places: int, stream: BitStream, margin: float):
        size = numerators.size
        self._numerators, self._places = numerators, places
        self._u = stream.draw(size)
        unit = self._u.on_unit()
        relative = LOST_BITS / unit
        relative += margin
        rate = numerators.astype(float)
        np.divide(-(2.0**places) / _LOG2, rate, out=rate)
        length = np.log(unit, out=unit)
        length *= rate
        rate *= -2
        rate += length
        relative *= rate  # from here on the absolute error of the length
        # Any integer does: what it leaves to the factor is computed from it.
        whole = np.floor(length)
        self.halvings = whole.astype(np.int64)
        length -= whole
        length *= -_LOG2
        factor = np.exp(length, out=length)
        relative += margin
        relative *= factor
        self.low, self.high = factor - relative, factor + relative
        self.accepted = np.ones(size, bool)
        self.open = np.zeros(size, bool)

    def exact(self, i: int) -> Exact:
        """The i-th in exact terms."""
        shape = fmpq(int(self._numerators[i]), 1 << self._places)
        halvings = int(self.halvings[i]) if np.isfinite(self.low[i]) else 0

        def factor(u):
            return (u.log() / shape).exp() * arb(2) ** halvings

        return True, halvings, factor, (self._u.unit(i),)


class Halvings:
    """By parts, for shapes below 2^-8, where one uniform had too few bits.

    With t = 2^s and b = shape * t in [2^-9, 2^-8) the length is ``t I + T``, where I is
    geometric, ``floor(-log2(U) / b)``, and T in [0, t) has a density proportional to
    ``2^(-shape T)``: it is uniform, accepted with that probability. They are independent,
    since an exponential variable forgets. The integer part of T is s bits of a word.

    Parameters and attributes are those of `Fractions`.
    """

    def __init__(self, numerators: np.ndarray, places: int, stream: BitStream, margin: float):
        size = numerators.size
        self._numerators, self._places = numerators, places
        shapes = numerators.astype(float)
        shapes *= 2.0**-places
        rate, exponents = np.frexp(shapes)
        np.divide(-(2.0**Fractions.LEAST_SHAPE) / _LOG2, rate, out=rate)
        self._doublings = (-Fractions.LEAST_SHAPE - exponents).astype(np.int64)
        self._i, words, self._f, self._v = (stream.draw(size) for _ in range(4))

        unit = self._i.on_unit()
        relative = LOST_BITS / unit
        relative += margin
        length = np.log(unit, out=unit)
        length *= rate
        rate *= -2
        rate += length
        relative *= rate
        whole = np.floor(length - relative)
        length += relative
        self.open = ~(whole == np.floor(length, out=length))
        self.halvings = whole.astype(np.int64) << self._doublings

        # In two steps: a shift by all 64 places is not defined.
        shift = (63 - self._doublings).view(np.uint64)
        self._low_part = ((words.words >> np.uint64(1)) >> shift).view(np.int64)
        self.halvings += self._low_part
        fraction = self._f.on_unit()
        # 2^(-shape T) is above 1 - 2^-8, so that few have to be looked at.
        v = self._v.on_unit()
        self.accepted = v < 1 - (2.0**-Fractions.LEAST_SHAPE + margin)
        rest = np.flatnonzero(~self.accepted)
        power = (fraction[rest] + self._low_part[rest]) * shapes[rest]
        slack = np.exp(-_LOG2 * power) - v[rest]
        self.accepted[rest] = slack > margin
        self.open[rest] |= ~(np.abs(slack) > margin)
        fraction *= -_LOG2
        factor = np.exp(fraction, out=fraction)
        error = margin * factor
        self.low, self.high = factor - error, factor + error

    def exact(self, i: int) -> Exact:
        """The i-th in exact terms."""
        shape = fmpq(int(self._numerators[i]), 1 << self._places)
        doublings, low_part = int(self._doublings[i]), int(self._low_part[i])
        rate = shape * 2**doublings
        f = self._f.unit(i)

        def is_accepted(f, v):
            return is_positive(arb(2) ** (-(f + low_part) * shape) - v)

        def geometric(u):
            return floor(-u.log() / (arb(2).log() * rate))

        def factor(f):
            return arb(2) ** -f

        if not decide(is_accepted, f, self._v.unit(i)):
            return False, 0, factor, (f,)
        halvings = (decide(geometric, self._i.unit(i)) << doublings) + low_part
        return True, halvings, factor, (f,)
