"""Exact gamma samples, given by their leading bits and an exponent.

Shapes above 1 use the method of Marsaglia and Tsang, and shape 1 uses inversion. A variable of
shape a below 1 is a gamma variable of shape a + 1 times a power of a uniform, ``U^(1 / a)``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import ArrayLike

from .bits import (
    BLOCK,
    LOST_BITS,
    MARGIN,
    WORD,
    BitStream,
    Source,
    Uniform,
    as_stream,
    check_platform,
    decide,
    fill,
    floor,
    is_positive,
    leading_bits,
)
from .distributions import Normals, negative_log
from .grids import MAX_NUMERATOR, MAX_PLACES, interval_cells

BITS = 20

# The envelope needs c >= 1 / (3 sqrt(d)). This factor exceeds the rounding error of c.
_OUTWARD = 1 + 2.0**-40
# Thresholds for accepting a proposal without a logarithm, see docs/sampling.md.
_SQUEEZE = 1 - 2.0**-20
_SQUEEZE_ERROR = 2.0**-36
_SQUEEZE_BASE = 1 / 16
# Below this c, bounds for a whole block are nearly as good as bounds for each cell.
_SMALL_C = 2.0**-8
_SMALL_C_ERROR = 2.0**-30

# Shapes from 2^-8 to 1 use `PowerByInversion`, smaller ones `PowerByParts`.
_INVERSION_BITS = 8
_LOG2 = float(np.log(2))


def gamma_cells(
    numerators: ArrayLike,
    places: int,
    generator: Source,
    *,
    _bits: int = BITS,
    _margin: float = MARGIN,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw standard gamma variables, rounded down to their first 20 bits.

    The shapes are ``numerators / 2^places``, as `gamma_shapes` computes them. A variable lies in
    ``[mantissa, mantissa + 1) * 2^exponent``, with mantissa in ``[2^19, 2^20)``. Every such pair is
    possible for every shape.
    """
    check_platform()
    numerators = check_shapes(numerators, places)
    flat, one = numerators.reshape(-1), 1 << places
    least, most = (int(flat.min()), int(flat.max())) if flat.size else (1, 1)
    mantissa, exponent = np.empty((2, flat.size), np.int64)
    settings = as_stream(generator), places, _bits, _margin
    tiny = max(one >> _INVERSION_BITS, 1)
    ranges = (
        (one + 1, most, partial(_fill, None)),
        (one, one, _fill_unit_shapes),
        (tiny, one - 1, partial(_fill, PowerByInversion)),
        (1, tiny - 1, partial(_fill, PowerByParts)),
    )
    for low, high, sample in ranges:
        if low <= least and most <= high:
            sample(flat, settings, mantissa, exponent)
        elif least <= high and low <= most:
            chosen = (flat >= low) & (flat <= high)
            part = np.empty((2, np.count_nonzero(chosen)), np.int64)
            sample(flat[chosen], settings, *part)
            mantissa[chosen], exponent[chosen] = part
    return mantissa.reshape(numerators.shape), exponent.reshape(numerators.shape)


def check_shapes(numerators: ArrayLike, places: int) -> np.ndarray:
    """Return the numerators as an array, if ``numerators / 2^places`` can be shapes."""
    numerators = np.asarray(numerators)
    if not np.issubdtype(numerators.dtype, np.integer):
        raise TypeError(f"numerators must be integers; got {numerators.dtype}")
    if not 0 <= places <= MAX_PLACES:
        raise ValueError(f"places must be from 0 to {MAX_PLACES}; got {places}")
    if numerators.size and not 1 <= int(numerators.min()) <= int(numerators.max()) < MAX_NUMERATOR:
        raise ValueError("numerators must be from 1 to below 2^62; some are not")
    return numerators.astype(np.int64, copy=False)


def gamma_cells_of_all(
    shapes: Sequence[tuple[np.ndarray, int]], generator: Source
) -> tuple[np.ndarray, np.ndarray]:
    """Draw `gamma_cells` of several pairs (numerators, places) of vectors, concatenated.

    One call draws all of them if their shapes fit a common power of two.
    """
    finest = max(places for _, places in shapes)
    largest = [int(numerators.max(initial=1)) << (finest - places) for numerators, places in shapes]
    if max(largest) < MAX_NUMERATOR:
        common = [numerators << (finest - places) for numerators, places in shapes]
        return gamma_cells(np.concatenate(common), finest, generator)
    drawn = [gamma_cells(numerators, places, generator) for numerators, places in shapes]
    mantissas, exponents = zip(*drawn, strict=True)
    return np.concatenate(mantissas), np.concatenate(exponents)


def _fill_unit_shapes(numerators, settings, mantissa, exponent):
    stream, _, bits, margin = settings
    for start in range(0, mantissa.size, BLOCK):
        part = slice(start, min(start + BLOCK, mantissa.size))
        uniforms = stream.draw(part.stop - start)
        with np.errstate(all="ignore"):
            value, error = negative_log(uniforms.unit_floats(), margin)
            cells = interval_cells(value - error, value + error, bits)
        mantissa[part], exponent[part], undecided = cells
        for i in np.flatnonzero(undecided).tolist():
            exact = decide(lambda u: leading_bits(-u.log(), bits), uniforms.unit(i))
            mantissa[start + i], exponent[start + i] = exact
        stream.undecided += int(np.count_nonzero(undecided))


def _fill(power_class, numerators, settings, mantissa, exponent):
    propose = partial(_propose, power_class, numerators, settings)
    fill(numerators.size, propose, mantissa, exponent)


def _propose(power_class, numerators, settings, cells):
    """Propose variables of shapes above 1, or below 1 if a class of powers is given."""
    numerators = numerators[cells]
    stream, places, bits, margin = settings
    powers = None
    with np.errstate(all="ignore"):
        if power_class is None:
            gammas = MarsagliaTsang(numerators, places, stream, margin)
            accepted, undecided = gammas.accepted, gammas.undecided
        else:
            gammas = MarsagliaTsang(numerators + (1 << places), places, stream, margin)
            powers = power_class(numerators, places, stream, margin)
            gammas.low *= powers.low
            gammas.high *= powers.high
            accepted = gammas.accepted & powers.accepted
            # A proposal is rejected if either part is rejected, even if the other is undecided.
            undecided = gammas.undecided & (powers.accepted | powers.undecided)
            undecided |= powers.undecided & (gammas.accepted | gammas.undecided)
        mantissa, exponent, unclear = interval_cells(gammas.low, gammas.high, bits)
    unclear &= accepted
    undecided |= unclear
    if powers is not None:
        exponent -= powers.halvings
    for i in np.flatnonzero(undecided).tolist():
        accepted[i], value, uniforms = gammas.exact(i)
        halvings, factor = 0, lambda: 1
        if powers is not None and accepted[i]:
            accepted[i], halvings, factor, others = powers.exact(i)
            uniforms += others
        if accepted[i]:
            mantissa[i], exponent[i] = decide(
                lambda u, w, *f: leading_bits(value(u, w) * factor(*f), bits),  # noqa: B023
                *uniforms,
            )
            exponent[i] -= halvings
    stream.undecided += int(np.count_nonzero(undecided))
    return accepted, (mantissa, exponent)


class MarsagliaTsang:
    """Proposals ``d (1 + c z)^3`` of Marsaglia and Tsang for gamma variables of shape above 1.

    With ``d = shape - 1/3``, z normal and ``y = c z``, a proposal is accepted if ``1 + y > 0`` and
    ``-log U + z^2 / 2 + d (3 log(1 + y) - 3 y - 3 y^2 - y^3) >= 0``. `low` and `high` are bounds on
    the proposed values. `accepted` and `undecided` are masks of accepted proposals and of those
    that need exact arithmetic.
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
        error = self._accept_block(c, base)
        if error is None:
            error = self._accept_each(c, z, y, base)
        self.undecided = np.zeros(size, bool)
        rest = np.flatnonzero(~self.accepted)
        if rest.size:
            parts = [part[rest] for part in (d, c, z, self._normals.errors, y, base)]
            self.accepted[rest], self.undecided[rest] = _accept_by_slack(
                margin, self._u.unit_floats(rest), *parts
            )

        value = base * base
        value *= base
        value *= d
        error = error * value
        self.low, self.high = value - error, value + error

    def _accept_block(self, c: np.ndarray, base: np.ndarray) -> float | None:
        """Accept proposals by one bound for the whole block, which suffices for large shapes.

        Return a bound on the relative errors of the values, or None if nothing is accepted,
        because each proposal needs a bound of its own.
        """
        largest_c, margin = float(c.max(initial=0.0)), self._margin
        if not largest_c < _SMALL_C:
            return None
        largest, z_error = self._normals.largest, self._normals.largest_error
        least_base = float(base.min(initial=1.0))
        bound = (largest_c * largest * largest) ** 2 / 12
        error = (4 * largest_c * z_error + margin) / least_base + margin
        # The negation also covers nan.
        if not (z_error < _SMALL_C_ERROR and least_base > 1 / 2 and error < 4 * margin):
            return None
        # If the first word is below this integer, the uniform is below the bound.
        most = int((_SQUEEZE - bound / least_base) * 2.0**WORD)
        self.accepted = self._u.words < np.uint64(most)
        return error

    def _accept_each(self, c, z, y, base):
        """Accept proposals by bounds without a logarithm; return relative errors of the values.

        The slack is at least ``1 - U - 3/4 d y^4 / min(1, 1 + y) - 2^-39 z^2``.
        """
        bound = y * z
        bound *= bound
        bound *= 1 / 12  # 3/4 d c^2
        bound /= np.minimum(base, 1)
        bound += self._u.unit_floats()
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

    def exact(self, i: int) -> tuple[bool, Callable[..., Any], tuple[Uniform, ...]]:
        """Decide proposal `i`; return its value as a function of balls, and their uniforms."""
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
    """Return the slack of the acceptance inequality as a ball; positive means accepted."""
    y = c * z
    return z * z / 2 + d * (3 * y.log1p() - y * (3 + y * (3 + y))) - v.log()


def _accept_by_slack(margin, unit, d, c, z, z_error, y, base):
    """Return masks of accepted and of undecided proposals; all others are rejected."""
    slack, tolerance = slack_and_tolerance(margin, unit, d, c, z, z_error, y, base)
    # The tolerance is valid if the base is not close to 0 and the interval is not too wide.
    clear = np.abs(base) > 256 * (c * z_error + margin * (1 + np.abs(y)))
    clear &= z_error < 1 / 8
    positive = clear & (base > 0)
    accepted = positive & (slack > tolerance)
    rejected = (positive & (slack < -tolerance)) | (clear & (base < 0))
    return accepted, ~(accepted | rejected)


def slack_and_tolerance(margin, unit, d, c, z, z_error, y, base):
    """Return the slack of the acceptance inequality and a bound on its error, as arrays."""
    cube = y * (3 + y * (3 + y))  # (1 + y)^3 - 1
    growth = 3 * np.log1p(np.maximum(y, -1 + 2.0**-53))
    height = -np.log(unit)
    square = z * z
    slack = square / 2 + d * (growth - cube) + height
    growth, cube = np.abs(growth), np.abs(cube)
    # The derivative of the slack by z is z - ((1 + y)^3 - 1) / (3 c (1 + y)).
    slope = 1 + np.abs(z) + cube / (c * base)
    tolerance = (1 + height + square + d * (growth + cube)) * (margin + LOST_BITS / unit)
    return slack, tolerance + 2 * z_error * slope


#: Whether a power is accepted, its halvings, its factor as a function of a ball, its uniform.
ExactPower = tuple[bool, int, Callable[[Any], Any], tuple[Uniform, ...]]


class PowerByInversion:
    """Powers ``U^(1 / shape)`` by inversion, from one uniform; for shapes from 2^-8 to 1.

    The power is ``2^-halvings`` times a factor between `low` and `high`. The halvings are exact
    integers, so that small shapes need no more bits than others. `accepted` and `undecided` are
    masks of accepted proposals and of those that need exact arithmetic.
    """

    def __init__(self, numerators: np.ndarray, places: int, stream: BitStream, margin: float):
        size = numerators.size
        self._numerators, self._places = numerators, places
        self._u = stream.draw(size)
        rate = numerators.astype(float)
        np.divide(-(2.0**places) / _LOG2, rate, out=rate)
        length, error = _binary_length(self._u, rate, margin)
        # Any integer is valid, because the factor is computed from it.
        whole = np.floor(length)
        self.halvings = whole.astype(np.int64)
        length -= whole
        length *= -_LOG2
        factor = np.exp(length, out=length)
        error += margin
        error *= factor
        self.low, self.high = factor - error, factor + error
        self.accepted = np.ones(size, bool)
        self.undecided = np.zeros(size, bool)

    def exact(self, i: int) -> ExactPower:
        shape = fmpq(int(self._numerators[i]), 1 << self._places)
        halvings = int(self.halvings[i]) if np.isfinite(self.low[i]) else 0

        def factor(u):
            return (u.log() / shape).exp() * arb(2) ** halvings

        return True, halvings, factor, (self._u.unit(i),)


class PowerByParts:
    """Powers ``U^(1 / shape)`` from several uniforms, for shapes below 2^-8.

    One uniform would have too few bits. Let ``t = 2^s`` with ``b = shape * t`` in [2^-9, 2^-8).
    Then ``-log2(U) / shape`` is ``t I + T``, where I is geometric, ``floor(-log2(U) / b)``, and T
    in [0, t) has a density proportional to ``2^(-shape T)``. T is drawn uniformly and accepted with
    that probability. I and T are independent, because the exponential distribution is memoryless.
    The integer part of T consists of s bits of a word. Attributes are those of `PowerByInversion`.
    """

    def __init__(self, numerators: np.ndarray, places: int, stream: BitStream, margin: float):
        size = numerators.size
        self._numerators, self._places = numerators, places
        shapes = numerators.astype(float)
        shapes *= 2.0**-places
        rate, exponents = np.frexp(shapes)
        np.divide(-(2.0**_INVERSION_BITS) / _LOG2, rate, out=rate)
        self._doublings = (-_INVERSION_BITS - exponents).astype(np.int64)
        self._i, words, self._f, self._v = (stream.draw(size) for _ in range(4))

        length, error = _binary_length(self._i, rate, margin)
        whole = np.floor(length - error)
        length += error
        self.undecided = whole != np.floor(length, out=length)
        self.halvings = whole.astype(np.int64) << self._doublings

        # Two shifts, because a shift by all 64 bits is undefined.
        shift = (63 - self._doublings).view(np.uint64)
        self._low_part = ((words.words >> np.uint64(1)) >> shift).view(np.int64)
        self.halvings += self._low_part
        fraction = self._f.unit_floats()
        # 2^(-shape T) is above 1 - 2^-8, so few cells need the comparison below.
        v = self._v.unit_floats()
        self.accepted = v < 1 - (2.0**-_INVERSION_BITS + margin)
        rest = np.flatnonzero(~self.accepted)
        power = (fraction[rest] + self._low_part[rest]) * shapes[rest]
        slack = np.exp(-_LOG2 * power) - v[rest]
        self.accepted[rest] = slack > margin
        self.undecided[rest] |= ~(np.abs(slack) > margin)
        fraction *= -_LOG2
        factor = np.exp(fraction, out=fraction)
        error = margin * factor
        self.low, self.high = factor - error, factor + error

    def exact(self, i: int) -> ExactPower:
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


def _binary_length(uniforms, rate: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``rate * log(U)`` for negative rates, and a bound on its error; overwrites `rate`."""
    unit = uniforms.unit_floats()
    error = LOST_BITS / unit
    error += margin
    length = np.log(unit, out=unit)
    length *= rate
    rate *= -2
    rate += length
    error *= rate
    return length, error
