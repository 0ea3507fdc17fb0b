"""Cumulants of many pairs as one power series.

All pairs of this package have cumulants that are analytic around ``t = -1/2``, the centre
between the two zeros 0 and -1 that every cumulant has. With ``s = t + 1/2``:

- gamma pairs of step r and prior alpha, with ``m = alpha + r / 2``: ``lnGamma(m + r s)`` or
  ``lnGamma(m - r s)`` without its value and slope at the centre, ``sum of
  zeta(k, m) (-+ r s)^k / k`` over k >= 2; a beta pair is one of each, so that odd powers
  cancel;
- Gaussian pairs: ``mu^2 s^2 / 2``;
- randomised response: ``ln cosh(epsilon s)``;
- Laplace noise: ``ln(cosh(a s) + sinh(a s) / (2 s))``;

each up to a constant that makes it vanish at 0 (docs/theory.md, "Many kinds"). Series add
up, so that any number of pairs is a few dozen numbers, and one more pair is a sum of vectors.

A series is used where ``|s|`` is at most `CLOSE` of its radius of convergence. Even and odd
coefficients, each among themselves, then shrink by ``CLOSE^2`` or faster from one to the
next, so that all that are left out are together below the last that is kept.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import zeta

from .pairs import Floats

#: The part of its radius of convergence in which a series is used.
CLOSE = 0.7
TERMS = 52  # CLOSE ** (2 * 52) is 1e-16
# Kinds whose series is used in a small part of its disc need fewer terms.
_SHORTER = ((0.1, 10), (0.35, 20), (CLOSE, TERMS))
_BLOCK = 1 << 12
# Beyond this the expansion of zeta for large arguments is exact to double precision, for
# powers that have weight; and far beyond it SciPy's is not.
_LARGE = 64.0
# B_2j / (2j)! of the Euler-Maclaurin formula
_EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
_POWERS = np.arange(1, TERMS + 1)


@dataclass(frozen=True, eq=False)
class Series:
    """``K(t) = sum of (even_k + odd_k s / scale) ((s / scale)^2k - (1 / (2 scale))^2k)``.

    Attributes
    ----------
    scale : the largest modulus of s = t + 1/2 at which it may be used.
    even, odd : coefficients for k = 1, 2, ..., of which there are `TERMS`.
    error : a bound on what was left out, for every s in reach.
    """

    zero: ClassVar[Floats] = np.zeros(TERMS)

    scale: float
    even: Floats
    odd: Floats
    error: float

    @classmethod
    def empty(cls, scale: float) -> "Series":
        return cls(scale, cls.zero, cls.zero, 0.0)

    def __add__(self, other: "Series") -> "Series":
        assert self.scale == other.scale
        return Series(
            self.scale, self.even + other.even, self.odd + other.odd, self.error + other.error
        )

    def __call__(self, tilt: np.ndarray) -> np.ndarray:
        """The cumulant; relatively accurate for small real tilts too."""
        s = (tilt + 0.5) / self.scale
        w, least = s * s, 0.25 / self.scale**2
        # w^k - least^k is w - least times a polynomial of positive terms, and
        # w - least = t (1 + t) / scale^2. Horner's rule, for both sums at once.
        even, odd = np.zeros_like(w), np.zeros_like(w)
        even_tail = odd_tail = 0.0
        with_odd = self.odd.any()
        for k in range(TERMS - 1, -1, -1):
            even_tail = self.even[k] + least * even_tail
            even = even * w + even_tail
            if with_odd:
                odd_tail = self.odd[k] + least * odd_tail
                odd = odd * w + odd_tail
        return tilt * (1 + tilt) / self.scale**2 * (even + s * odd)

    def curvature(self, tilt: float) -> float:
        """The second derivative at a real tilt: the variance of the tilted loss."""
        s = (tilt + 0.5) / self.scale
        powers = s ** (2 * _POWERS - 2.0)
        even = self.even * (2 * _POWERS) * (2 * _POWERS - 1) * powers
        odd = self.odd * (2 * _POWERS + 1) * (2 * _POWERS) * powers * s
        return float((even.sum() + odd.sum()) / self.scale**2)


def gaussian_series(squares: float, scale: float) -> Series:
    """Of Gaussian pairs whose squared mu add up to `squares`."""
    even = np.zeros(TERMS)
    even[0] = squares * scale**2 / 2
    return Series(scale, even, Series.zero, 0.0)


def gamma_series(r: Floats, alpha: Floats, counts: Floats, scale: float, sign: int) -> Series:
    """Of gamma pairs: sign 1 for "remove", -1 for "add", and 0 for beta pairs.

    Only for those whose `gamma_reach` times the scale is at most `CLOSE`.
    """
    total = Series.empty(scale)
    centre = alpha + r / 2
    ratio = r / centre * scale
    for block, terms in _blocks(ratio):
        x, m = ratio[block] ** 2, centre[block]
        weights = counts[block] * (2.0 if sign == 0 else 1.0)
        k = _POWERS[:terms, np.newaxis]
        even, odd = np.zeros(TERMS), np.zeros(TERMS)
        values = weights * x**k * _scaled_zeta(2 * k, m) / (2 * k)
        even[:terms] = values.sum(axis=1)
        error = 2 * even[terms - 1]
        if sign:
            values = weights * x**k * ratio[block] * _scaled_zeta(2 * k + 1, m) / (2 * k + 1)
            odd[:terms] = sign * values.sum(axis=1)
            error += 2 * abs(odd[terms - 1])
        total = total + Series(scale, even, odd, error)
    return total


def gamma_reach(r: Floats, alpha: Floats) -> Floats:
    """The inverse radius of convergence: the nearest pole of the gamma function."""
    return r / (alpha + r / 2)


def response_series(epsilon: Floats, counts: Floats, scale: float) -> Series:
    """Of randomised response. The nearest zeros of cosh are at i pi / 2 and -i pi / 2."""
    total = Series.empty(scale)
    # ln cosh x = sum over n of ln(1 + (x / (pi (n - 1/2)))^2)
    coefficients = (-1.0) ** (_POWERS + 1) * zeta(2.0 * _POWERS, 0.5) / (np.pi ** (2.0 * _POWERS))
    for block, terms in _blocks(bounded_reach(epsilon) * scale):
        x = (epsilon[block] * scale) ** 2
        k = _POWERS[:terms, np.newaxis]
        even = np.zeros(TERMS)
        even[:terms] = (counts[block] * x**k).sum(axis=1) * (coefficients / _POWERS)[:terms]
        total = total + Series(scale, even, Series.zero, 2 * abs(even[terms - 1]))
    return total


def laplace_series(shift: Floats, counts: Floats, scale: float) -> Series:
    """Of Laplace noise. All zeros of cosh(x) + shift sinh(x) / (2 x) are imaginary and
    beyond pi / 2: they are the eigenvalues of a string with an elastic end."""
    total = Series.empty(scale)
    for block, terms in _blocks(bounded_reach(shift) * scale):
        a = shift[block]
        x = (a * scale) ** 2
        # The power series of the argument, with 1 in front, and of its logarithm.
        argument, power = [np.ones_like(a)], np.ones_like(a)
        for k in range(1, terms + 1):
            power = power * x / ((2 * k) * (2 * k - 1))
            argument.append(power * (1 + a / (2 * (2 * k + 1))) / (1 + a / 2))
        logarithm = [np.zeros_like(a)]
        even = np.zeros(TERMS)
        for k in range(1, terms + 1):
            inner = sum((j * logarithm[j] * argument[k - j] for j in range(1, k)), np.zeros(()))
            logarithm.append(argument[k] - inner / k)
            even[k - 1] = float(counts[block] @ logarithm[k])
        total = total + Series(scale, even, Series.zero, 2 * abs(even[terms - 1]))
    return total


def bounded_reach(max_loss: Floats) -> Floats:
    """The inverse radius of convergence of randomised response and of Laplace noise."""
    return max_loss / (np.pi / 2)


def _blocks(ratio: Floats):
    """Kinds that need about the same number of terms, in blocks, and that number."""
    assert np.all(ratio <= CLOSE)
    above = -1.0
    for at_most, terms in _SHORTER:
        (chosen,) = np.nonzero((ratio > above) & (ratio <= at_most))
        for start in range(0, chosen.size, _BLOCK):
            yield chosen[start : start + _BLOCK], terms
        above = at_most


def _scaled_zeta(power: np.ndarray, m: Floats) -> np.ndarray:
    """``m^power zeta(power, m)`` of Hurwitz, for all positive m.

    At least 1, at most ``1 + m / (power - 1)``, and falling with the power.
    """
    small, large = m < 1, m > _LARGE
    middle = np.where(small | large, 1.0, m)
    values = middle**power * zeta(power.astype(float), middle)
    if small.any():
        tiny = m[small]
        values[:, small] = 1 + tiny**power * zeta(power.astype(float), 1 + tiny)
    if large.any():
        x = m[large]
        rising = power / x
        series = x / (power - 1) + 0.5
        for j, coefficient in enumerate(_EULER_MACLAURIN, 1):
            series = series + coefficient * rising
            rising = rising * ((power + 2 * j - 1) / x) * ((power + 2 * j) / x)
        values[:, large] = series
    return values
