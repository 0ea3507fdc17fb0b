"""Differences of log-gamma and related functions, without cancellation.

They are computed as sums of terms of one sign, so the relative error stays near machine precision
even if the prior is large and the log-gamma functions nearly cancel.
"""

import numpy as np
from scipy.special import digamma, gammaln, loggamma

# Coefficients B_2j / (2j (2j - 1)) of Stirling's series, for odd powers 1, 3, 5, ...
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
#: Above this argument the series is exact to double precision.
STIRLING_FROM = 10
# Above this argument its first terms suffice, because the next one is below 2^-60 of the first.
_N_FEW_TERMS, _FEW_TERMS_FROM, _N_TERMS = 3, 1 << 10, len(_SERIES)

_SERIES_RADIUS = 0.1
_ATANH_COEFFICIENTS = 1 / np.arange(3, 19, 2)
_EXP_COEFFICIENTS = 1 / np.cumprod(np.arange(1.0, 20.0))[1:]
# Below this argument plain log-gamma functions have an absolute error near 1e-14.
_MAX_ROUGH = 100
# Squares of larger tilts overflow. Cumulants are set to infinity there.
_MAX_TILT = 1e100
_MEAN_NODES, _MEAN_WEIGHTS = np.polynomial.legendre.leggauss(24)

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def log1p_excess(z, one_plus_z=None):
    """Compute ``log(1 + z) - z`` for real or complex `z`, accurately for small `z`.

    Pass `one_plus_z` if it is known more precisely than ``1 + z``, that is, if z is near -1.
    """
    z = np.asarray(z)
    one_plus_z = 1 + z if one_plus_z is None else one_plus_z
    half = z / (2 + z)
    small = np.abs(half) < _SERIES_RADIUS
    half = np.where(small, half, 0.0)
    square = half * half
    # log(1 + z) = 2 atanh(half), and 2 half - z = -half z, exactly.
    series = 2 * half * square * _polynomial(square, _ATANH_COEFFICIENTS)
    return np.where(small, series - half * z, np.log(one_plus_z) - z)


def expm1_excess(x):
    """Compute ``exp(x) - 1 - x`` for real `x`, accurately for small `x`."""
    x = np.asarray(x, dtype=float)
    small = np.abs(x) < 1
    clipped = np.where(small, x, 0.0)
    series = clipped**2 * _polynomial(clipped, _EXP_COEFFICIENTS)
    with np.errstate(over="ignore"):
        return np.where(small, series, np.expm1(x) - x)


def _polynomial(x, coefficients):
    """Evaluate a polynomial by Horner's rule, with less overhead than numpy.polynomial."""
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def stirling_series(x):
    """Compute `stirling_error` of arguments of at least `STIRLING_FROM`, without log-gamma."""
    reciprocal = 1 / x
    return _polynomial(reciprocal * reciprocal, _SERIES) * reciprocal


def stirling_error(x):
    """Compute ``lnGamma(x)`` minus Stirling's formula ``(x - 1/2) ln x - x + ln(2 pi)/2``."""
    x = np.asarray(x, dtype=float)
    series = stirling_series(np.maximum(x, STIRLING_FROM))
    small = np.minimum(x, STIRLING_FROM)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + HALF_LOG_2PI)
    return np.where(x > STIRLING_FROM, series, direct)


def mean_digamma(start, length):
    """Compute ``(lnGamma(start + length) - lnGamma(start)) / length``."""
    if length > start:
        return (gammaln(start + length) - gammaln(start)) / length
    # Gauss-Legendre: the pole at 0 is at least three half-lengths away from the centre.
    nodes = start + 0.5 * length * (1 + _MEAN_NODES)
    return float(np.dot(_MEAN_WEIGHTS, digamma(nodes)) / 2)


def mean_digamma_excess(start, length):
    """Compute `mean_digamma` minus ``log(start + length)``, which tends to 0 for large starts."""
    if start < STIRLING_FROM:
        return mean_digamma(start, length) - np.log(start + length)
    ratio = length / start
    correction = stirling_error(start + length) - stirling_error(start)
    return float((start * log1p_excess(ratio) - 0.5 * np.log1p(ratio) + correction) / length)


def _residue(alpha, tilt, step):
    """Compute ``alpha - tilt * step`` without the rounding error of the product."""
    # Near the largest finite order, a rounded product would lose all precision of the difference.
    product = tilt * step
    return (alpha - product) - _product_error(tilt, step, product)


def _product_error(a, b, product):
    """Compute the rounding error of ``product = a * b`` by Dekker's algorithm."""
    if np.iscomplexobj(a):
        real = _product_error(a.real, b, product.real)
        return real + 1j * _product_error(a.imag, b, product.imag)
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return np.where(np.isfinite(error), error, 0.0)


def _split(a):
    """Split a double into two parts of at most 26 bits each."""
    scaled = 134217729.0 * a  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def log_gamma_gap(a, b):
    """Compute ``lnGamma(a) + lnGamma(b) - 2 lnGamma((a + b) / 2)`` for positive reals."""
    return _log_gamma_gap(1.0, (a + b) / 2, (b - a) / 2, b, a)


def _log_gamma_gap(tilt, centre, shift, near, far):
    """Compute ``tilt f(near) + f(far) - (1 + tilt) f(centre)`` with ``f = lnGamma``."""
    # The three points are centre, near = centre + shift and far = centre - tilt * shift, so that
    # the linear part of f cancels. If one of them is small, the recurrence of the gamma function
    # increases all three by ten, where Stirling's series is accurate.
    smallest = min(np.min(np.real(point), initial=np.inf) for point in (centre, near, far))
    steps = 0 if smallest >= STIRLING_FROM else STIRLING_FROM
    terms = _N_FEW_TERMS if smallest >= _FEW_TERMS_FROM else _N_TERMS
    leading, remainder = lifted_gap(tilt, centre, shift, near, far, steps, terms)
    return leading + remainder


def lifted_gap(tilt, centre, shift, near, far, steps, terms=_N_TERMS):
    """Compute the gap of the leading term of Stirling's formula, and the remainder of the gap.

    The arguments are increased by a number of steps. Each term of the sum is the Jensen gap of a
    convex function.
    """
    lift = np.arange(steps + 1)
    tilt, centre, shift, near, far = (
        np.asarray(a)[..., np.newaxis] for a in (tilt, centre, shift, near, far)
    )
    x, near, far = centre + lift, near + lift, far + lift
    a = shift / x
    b = -tilt * a
    excess_a, excess_b = log1p_excess(a, near / x), log1p_excess(b, far / x)
    excess = tilt * excess_a + excess_b
    recurrence = -excess[..., :-1].sum(axis=-1)
    tilt, x, near, far, a, b, excess_a, excess_b, excess = (
        values[..., -1] for values in (tilt, x, near, far, a, b, excess_a, excess_b, excess)
    )
    gap_a = entropy_excess(a, near / x, excess_a)
    leading = x * (tilt * gap_a + entropy_excess(b, far / x, excess_b))
    series = term_a = term_b = 0.0
    power = np.ones_like(x)
    square_a, square_b = a * a, b * b
    for degree in range(1, 2 * terms):
        # ((1 + a)**-degree - 1 + degree * a) / x**degree, by a recurrence with positive terms
        power_of_degree = degree * power
        term_a = (term_a + square_a * power_of_degree) / near
        term_b = (term_b + square_b * power_of_degree) / far
        power = power / x
        if degree % 2:
            series = series + _SERIES[degree // 2] * (tilt * term_a + term_b)
    return leading, recurrence - 0.5 * excess + series


def entropy_excess(z, one_plus_z, log_excess=None):
    """Compute ``(1 + z) log(1 + z) - z``, optionally from a known `log1p_excess` of z."""
    if log_excess is None:
        log_excess = log1p_excess(z, one_plus_z)
    small = one_plus_z * log_excess + z * z
    return np.where(np.abs(z) < 0.5, small, one_plus_z * np.log(one_plus_z) - z)


def gamma_add_cumulant(tilt, r, alpha, rough=False):
    """Compute ``log E exp(tilt L)`` for the loss L of Gamma(alpha + r) against Gamma(alpha)."""
    # The real part of the tilt is above -1. If `rough`, an absolute error of about 1e-16 times the
    # tilt is allowed.
    tilt = np.asarray(tilt)
    finite = tilt.real < _MAX_TILT
    tilt = np.where(finite, tilt, 0.0)
    far = alpha + (1 + tilt) * r
    if rough and np.all(alpha + r < _MAX_ROUGH):
        value = tilt * gammaln(alpha) + loggamma(far) - (1 + tilt) * gammaln(alpha + r)
    else:
        value = _log_gamma_gap(tilt, alpha + r, -r, alpha, far)
    return np.where(finite, value, np.inf)


def gamma_remove_cumulant(tilt, r, alpha, rough=False):
    """Compute ``log E exp(tilt L)`` for the loss L of Gamma(alpha) against Gamma(alpha + r)."""
    # The result is infinite if the real part of the tilt is at least alpha / r.
    tilt = np.asarray(tilt)
    far = _residue(alpha, tilt, r)
    finite = far.real > 0
    tilt, far = np.where(finite, tilt, 0.0), np.where(finite, far, alpha)
    if rough and np.all(alpha + r < _MAX_ROUGH):
        value = tilt * gammaln(alpha + r) + loggamma(far) - (1 + tilt) * gammaln(alpha)
    else:
        value = _log_gamma_gap(tilt, alpha, r, alpha + r, far)
    return np.where(finite, value, np.inf)
