"""Roots and rounding: within tolerance, and always on the safe side."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import LaplaceMechanism
from skdirdp.numerics.conservative import product_up, quotient_up, round_up, safe_root

ROOTS = np.concatenate([[0.0], np.random.default_rng(0).uniform(-30, 30, 40)])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", [1e-6, 0.7, 50.0])
def test_a_root_is_found_from_the_safe_side(sign, step):
    for root in ROOTS:
        seen = []

        def excess(x, root=root, seen=seen):
            seen.append(x)
            return np.expm1(np.clip(sign * (x - root), -50, 50))

        found = safe_root(excess, 1.0, sign * step, tolerance=1e-9)
        assert excess(found) <= 0
        assert found in seen[:-1]
        assert 0 <= sign * (root - found) <= 4e-9


@pytest.mark.parametrize("sign", [1, -1])
def test_a_jump_from_minus_to_plus_infinity_is_found_from_the_safe_side(sign):
    for root in ROOTS:
        found = safe_root(
            lambda x, root=root: np.inf if sign * (x - root) > 0 else -np.inf,
            0.0,
            sign * 1.0,
            tolerance=1e-6,
        )
        assert 0 <= sign * (root - found) <= 4e-6


def test_rounding_errors_do_not_lead_to_the_unsafe_side():
    # Noise of 1e-6 makes the sign change back and forth around the root.
    def excess(x):
        return x + 1e-6 * np.sin(1e9 * x)

    for start in np.linspace(-3, 3, 20):
        found = safe_root(excess, start, 1.0, tolerance=1e-12)
        assert excess(found) <= 0
        assert abs(found) < 1e-5


def test_a_margin_is_kept():
    assert safe_root(lambda x: x - 2, 0.0, 1.0, tolerance=1e-9, margin=1e-3) == pytest.approx(
        2 - 1e-3, abs=1e-8
    )
    assert safe_root(lambda x: 2 - x, 0.0, -1.0, tolerance=1e-9, margin=1e-3) == pytest.approx(
        2 + 1e-3, abs=1e-8
    )


def test_without_a_root_the_result_is_a_limit_or_nan():
    assert safe_root(lambda x: -1.0, 0.0, 1.0, tolerance=1e-9, limits=(-5, 7)) == 7
    assert safe_root(lambda x: -1.0, 0.0, -1.0, tolerance=1e-9, limits=(-5, 7)) == -5
    assert np.isnan(safe_root(lambda x: 1.0, 0.0, 1.0, tolerance=1e-9, limits=(-5, 7)))
    assert safe_root(lambda x: x - 7, 7.0, 1.0, tolerance=1e-9, limits=(-5, 7)) == 7


def test_an_excess_of_nan_raises_an_error():
    with pytest.raises(FloatingPointError, match="could not be computed"):
        safe_root(lambda x: np.nan, 0.0, 1.0, tolerance=1e-9)


# Rounding up -------------------------------------------------------------------------


def test_products_and_quotients_are_the_least_floats_above_the_exact_ones():
    rng = np.random.default_rng(0)
    for a, b in rng.lognormal(sigma=30, size=(500, 2)).tolist():
        for value, exact in (
            (product_up(a, b), Fraction(a) * Fraction(b)),
            (quotient_up(a, b), Fraction(a) / Fraction(b)),
        ):
            assert Fraction(math.nextafter(value, 0)) < exact <= Fraction(value)


def test_numbers_beyond_the_largest_float_are_rounded_to_infinity():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert product_up(1e200, 1e200) == math.inf
    assert product_up(math.inf, 2.0) == math.inf


@pytest.mark.parametrize(("epsilon", "releases"), [(0.3, 3), (0.1, 10), (0.7, 1000)])
def test_the_sum_of_losses_is_rounded_up(epsilon, releases):
    claimed = Composition([(PureDP(epsilon), releases)]).epsilon(1e-300)
    assert Fraction(claimed) >= releases * Fraction(epsilon)
    assert claimed <= releases * epsilon * (1 + 1e-15)


def test_the_loss_of_laplace_noise_is_rounded_up():
    claimed = LaplaceMechanism(3.0, adjacency="add_remove").epsilon(1e-300)
    assert Fraction(claimed) >= Fraction(1, 3)
