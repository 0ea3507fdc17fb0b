"""Floats that are not below what they stand for."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import LaplaceMechanism
from skdirdp.numerics.rounding import product_up, quotient_up, round_up


def test_products_and_quotients_are_the_least_floats_above_the_exact_ones():
    rng = np.random.default_rng(0)
    for a, b in rng.lognormal(sigma=30, size=(500, 2)).tolist():
        for value, exact in (
            (product_up(a, b), Fraction(a) * Fraction(b)),
            (quotient_up(a, b), Fraction(a) / Fraction(b)),
        ):
            assert Fraction(math.nextafter(value, 0)) < exact <= Fraction(value)


def test_what_is_beyond_floats_is_infinite():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert product_up(1e200, 1e200) == math.inf
    assert product_up(math.inf, 2.0) == math.inf


@pytest.mark.parametrize(("epsilon", "releases"), [(0.3, 3), (0.1, 10), (0.7, 1000)])
def test_losses_that_add_up_are_claimed_in_full(epsilon, releases):
    claimed = Composition([(PureDP(epsilon), releases)]).epsilon(1e-300)
    assert Fraction(claimed) >= releases * Fraction(epsilon)
    assert claimed <= releases * epsilon * (1 + 1e-15)


def test_laplace_noise_claims_its_whole_loss():
    claimed = LaplaceMechanism(3.0, adjacency="add_remove").epsilon(1e-300)
    assert Fraction(claimed) >= Fraction(1, 3)
