"""Differences of log-gamma functions, against mpmath at fifty digits."""

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from skdirdp.numerics.log_gamma import (
    expm1_excess,
    gamma_add_cumulant,
    gamma_remove_cumulant,
    log1p_excess,
    log_gamma_gap,
    mean_digamma,
    stirling_error,
)

CLOSE = 4e-15  # a handful of units in the last place


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def relative_error(value, truth):
    return float(abs((mpmath.mpmathify(complex(value)) - truth) / truth))


def true_add_cumulant(tilt, r, alpha):
    tilt, r, alpha = (mpmath.mpmathify(x) for x in (tilt, r, alpha))
    lift = (1 + tilt) * mp.loggamma(alpha + r)
    return tilt * mp.loggamma(alpha) + mp.loggamma(alpha + (1 + tilt) * r) - lift


def true_remove_cumulant(tilt, r, alpha):
    tilt, r, alpha = (mpmath.mpmathify(x) for x in (tilt, r, alpha))
    lift = (1 + tilt) * mp.loggamma(alpha)
    return tilt * mp.loggamma(alpha + r) + mp.loggamma(alpha - tilt * r) - lift


@pytest.mark.parametrize("size", 10.0 ** np.arange(-150, 9, 7))
def test_log1p_excess_is_accurate_at_every_size(size):
    arguments = [size] if size >= 1 else [size, -size]
    with mp.workdps(400):  # z and its square must both fit
        for z in arguments:
            assert relative_error(log1p_excess(z), mp.log1p(mpf(z)) - mpf(z)) < 10 * CLOSE


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.05, 0.19, 0.21, 0.5, 3.0, 1e4])
@pytest.mark.parametrize("angle", [0.3, 1.5, 2.5, -2.0])
def test_log1p_excess_holds_for_complex_arguments(size, angle):
    z = size * np.exp(1j * angle)
    truth = mp.log(1 + mpmath.mpmathify(z)) - mpmath.mpmathify(z)
    assert relative_error(log1p_excess(z), truth) < 20 * CLOSE


def test_log1p_excess_uses_the_more_precise_argument_near_minus_one():
    one_plus_z = 1e-20
    truth = mp.log(mpf(one_plus_z)) - (mpf(one_plus_z) - 1)
    assert relative_error(log1p_excess(-1.0, one_plus_z), truth) < CLOSE


@pytest.mark.parametrize("size", [1e-150, 1e-20, 1e-8, 1e-3, 0.1, 0.7, 0.999, 1.001, 5.0, 40.0])
def test_expm1_excess_is_accurate_at_every_size(size):
    with mp.workdps(400):
        for x in (size, -size):
            assert relative_error(expm1_excess(x), mp.exp(mpf(x)) - 1 - mpf(x)) < CLOSE


def test_expm1_excess_overflows_to_infinity_without_a_warning(recwarn):
    assert expm1_excess(800.0) == np.inf
    assert expm1_excess(-800.0) == pytest.approx(799.0, rel=1e-15)
    assert not recwarn.list


@pytest.mark.parametrize("x", [1e-12, 1e-3, 0.5, 1.0, 3.0, 9.99, 10.0, 10.01, 50.0, 1e4, 1e9])
def test_stirling_error_is_the_error_of_stirlings_formula(x):
    argument = mpf(x)
    formula = (argument - 0.5) * mp.log(argument) - argument + mp.log(2 * mp.pi) / 2
    truth = mp.loggamma(argument) - formula
    # It is used as an exponent, so its absolute error matters. Above 10 both are small.
    assert abs(float(mpf(float(stirling_error(x))) - truth)) < 1e-14
    if x > 10:
        assert relative_error(stirling_error(x), truth) < 1e-13


@pytest.mark.parametrize("start", [1e-3, 0.4, 2.0, 77.0, 1e5, 1e9])
@pytest.mark.parametrize("length", [1e-6, 1e-2, 1.0, 30.0, 1e3])
def test_mean_digamma_is_the_difference_quotient_of_log_gamma(start, length):
    a, n = mpf(start), mpf(length)
    truth = (mp.loggamma(a + n) - mp.loggamma(a)) / n
    # Near the zero of digamma only the absolute error can be small.
    assert abs(float(mpf(float(mean_digamma(start, length))) - truth)) < 1e-13 * (1 + abs(truth))


@pytest.mark.parametrize("a", [1e-100, 1e-3, 0.7, 3.0, 50.0, 1e7])
@pytest.mark.parametrize("ratio", [1 + 2**-52, 1 + 1e-12, 1.001, 1.5, 40.0, 1e40])
def test_the_gap_of_log_gamma_is_accurate_at_every_distance(a, ratio):
    b = a * ratio
    with mp.workdps(200):
        truth = mp.loggamma(a) + mp.loggamma(b) - 2 * mp.loggamma((mpf(a) + mpf(b)) / 2)
        assert relative_error(log_gamma_gap(a, b), truth) < 20 * CLOSE
        assert relative_error(log_gamma_gap(b, a), truth) < 20 * CLOSE


# Some are close to the thresholds of the series.
@pytest.mark.parametrize(
    "alpha", [1e-3, 0.07, 0.5, 3.0, 10.1, 15.0, 41.0, 1024.1, 1500.0, 1e4, 1e9]
)
@pytest.mark.parametrize("r", [1e-6, 1e-3, 0.3, 4.0, 1e3])
def test_cumulants_are_accurate_on_the_real_line(alpha, r):
    limit = alpha / r
    for tilt in [1e-4, 0.5, 3.0, 100.0]:
        add = gamma_add_cumulant(tilt, r, alpha)
        assert relative_error(add, true_add_cumulant(tilt, r, alpha)) < 20 * CLOSE
    for share in [1e-4, 0.3, 0.9, 1 - 1e-6]:
        tilt = share * limit
        remove = gamma_remove_cumulant(tilt, r, alpha)
        assert relative_error(remove, true_remove_cumulant(tilt, r, alpha)) < 20 * CLOSE


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 26.0, 41.0, 2600.0, 1e6])
@pytest.mark.parametrize("r", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("height", [0.01, 1.0, 30.0, 1e3])
def test_cumulants_are_accurate_above_the_real_line(alpha, r, height):
    limit = alpha / r
    tilt = complex(0.6 * limit, height * limit)
    remove = gamma_remove_cumulant(tilt, r, alpha)
    add = gamma_add_cumulant(tilt, r, alpha)
    # Branches of the logarithm may differ by multiples of 2 pi i, which exp ignores.
    for value, truth in (
        (remove, true_remove_cumulant(tilt, r, alpha)),
        (add, true_add_cumulant(tilt, r, alpha)),
    ):
        difference = mpmath.mpmathify(complex(value)) - truth
        turns = mp.nint(difference.imag / (2 * mp.pi))
        error = abs(difference - 2j * mp.pi * turns)
        assert float(error) < 40 * CLOSE * (1 + float(abs(truth)))


@pytest.mark.parametrize("distance", [1e-3, 1e-8, 1e-12, 1e-15])
def test_the_removal_cumulant_is_accurate_up_to_its_largest_tilt(distance):
    # r is not a power of two, so the product tilt * r is rounded and would lose all digits.
    r, alpha = 0.3, 7.1
    tilt = alpha / r * (1 - distance)
    truth = true_remove_cumulant(tilt, r, alpha)
    assert mpf(alpha) - mpf(tilt) * mpf(r) > 0
    assert relative_error(gamma_remove_cumulant(tilt, r, alpha), truth) < 20 * CLOSE


def test_the_removal_cumulant_is_infinite_from_its_largest_tilt_on():
    assert np.all(np.isinf(gamma_remove_cumulant(np.array([2.0, 2.5, 1e9]), 0.5, 1.0)))
    assert np.isinf(gamma_remove_cumulant(np.nextafter(2.0, 3.0), 0.5, 1.0))
    assert np.isfinite(gamma_remove_cumulant(np.nextafter(2.0, 0.0), 0.5, 1.0))
