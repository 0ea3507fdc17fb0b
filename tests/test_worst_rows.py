"""Rows that change several cells: claims, compared with possible rows.

The references are rows of two or three cells, whose profile is an integral over all losses
but one, of the closed form of the last; and the intensities of the drops, in mpmath.
"""

import itertools

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.special import betainc, betaln, gammainc, gammaincc, gammaln

from skdirdp.accounting import Composition
from skdirdp.accounting.worst_case import renyi_epsilon
from skdirdp.mechanisms import DirichletMechanism, LaplaceMechanism
from skdirdp.mechanisms.dirichlet import CONVEX_ALPHA, dominating_cells
from skdirdp.mechanisms.tables import ContributionBound

# --- References -----------------------------------------------------------------


def drops(u, z, alpha):
    """The intensity of drops of the loss, from docs/theory.md, 2.2."""
    w = u / z
    return mp.exp(-u) / u * mp.exp(-alpha * w) / (1 - mp.exp(-w))


@np.errstate(over="ignore")
def one_cell(direction, step, alpha, epsilon):
    """The profile of one cell, at any real epsilon, by incomplete gamma and beta functions."""
    if direction == "replace":
        q = 1 / (1 + np.exp(epsilon / step))
        tails = betainc(alpha, alpha + step, q), betainc(alpha + step, alpha, q)
    else:
        c = gammaln(alpha) - gammaln(alpha + step)
        if direction == "add":
            t = np.exp((epsilon - c) / step)
            tails = gammaincc(alpha + step, t), gammaincc(alpha, t)
        else:
            t = np.exp(-(epsilon + c) / step)
            tails = gammainc(alpha, t), gammainc(alpha + step, t)
    return tails[0] - np.exp(epsilon) * tails[1]


def density(direction, step, alpha, t):
    """Density of the logarithm of the gamma variable, or of the logit of the beta one, under P."""
    if direction == "replace":
        softplus = np.logaddexp(0, t)
        return np.exp(
            (alpha + step) * t - (2 * alpha + step) * softplus - betaln(alpha + step, alpha)
        )
    shape = alpha + step if direction == "add" else alpha
    return np.exp(shape * t - np.exp(t) - gammaln(shape))


def loss(direction, step, alpha, t):
    c = gammaln(alpha) - gammaln(alpha + step)
    return {"replace": step * t, "add": step * t + c, "remove": -step * t - c}[direction]


def row_delta(direction, steps, alpha, epsilon):
    """The profile of a row: cell by cell, the last in closed form."""
    first, *others = steps
    if not others:
        return one_cell(direction, first, alpha, epsilon)

    def integrand(t):
        left = epsilon - loss(direction, first, alpha, t)
        return density(direction, first, alpha, t) * row_delta(direction, others, alpha, left)

    ends = (-60 / alpha, 60 / alpha if direction == "replace" else 8)
    breaks = [x for x in (-30, -10, -5, -2, 0, 2, 5) if ends[0] < x < ends[1]]
    # Three cells are integrated twice, which takes its time.
    return quad(integrand, *ends, points=breaks, limit=200, epsabs=1e-13, epsrel=1e-6)[0]


# --- Full cells and the rest ----------------------------------------------------


@pytest.mark.parametrize(
    ("max_count", "max_total", "r", "alpha", "before", "now"),
    [(1, 1.5, 0.2, 3, 0.947, 0.803), (10, 11, 0.02, 2, 1.278, 1.039)],
)
def test_a_remainder_costs_less_than_a_full_cell(max_count, max_total, r, alpha, before, now):
    mechanism = DirichletMechanism(r, alpha, max_count=max_count, max_total=max_total)
    # Two full cells, or the divergences of a full one and the rest: the better of these two.
    orders = 1 + alpha / (r * max_count) * np.linspace(0.01, 0.999, 2000)
    by_renyi = renyi_epsilon(orders, mechanism.rdp(orders), 1e-5).min()
    full = Composition([(DirichletMechanism(r * max_count, alpha), 2)]).epsilon(1e-5)
    assert min(by_renyi, full) == pytest.approx(before, abs=1e-3)
    assert mechanism.epsilon(1e-5) == pytest.approx(now, abs=1e-3)
    steps = [r * max_count, r * (max_total - max_count)]
    truth = row_delta("replace", steps, alpha, mechanism.epsilon(1e-5))
    assert 0.999e-5 <= truth <= 1e-5 * (1 + 1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.45, 0.5, 0.7, CONVEX_ALPHA, 1.0, 5.0])
@pytest.mark.parametrize("direction", ["replace", "add", "remove"])
def test_no_row_of_two_cells_is_above_the_claim(alpha, direction):
    r, max_total = 0.4, 1.5
    adjacency = "replace" if direction == "replace" else "add_remove"
    mechanism = DirichletMechanism(r, alpha, max_count=1, max_total=max_total, adjacency=adjacency)
    case = mechanism.worst_cases()[direction]
    ((pair, count), *rest) = case.profile
    for epsilon in (0.1, 1.0, 3.0):
        # The integral is not more accurate than that.
        claim = float(mechanism.delta(epsilon)) * (1 + 1e-6) + 1e-12
        for first in (1.0, 0.9, 0.75):
            assert (
                row_delta(direction, [r * first, r * (max_total - first)], alpha, epsilon) <= claim
            )
    # Which is the sum over a direction's own cells, from the convex prior on to the last digit.
    if alpha >= CONVEX_ALPHA:
        assert [(pair.r, count), *((other.r, n) for other, n in rest)] == [(r, 1), (r / 2, 1)]


@pytest.mark.parametrize(
    ("alpha", "direction"), [(0.3, "replace"), (0.3, "remove"), (0.6, "remove")]
)
def test_no_row_of_three_cells_is_above_the_claim(alpha, direction):
    r = 0.4
    adjacency = "replace" if direction == "replace" else "add_remove"
    mechanism = DirichletMechanism(r, alpha, max_count=1, max_total=1.5, adjacency=adjacency)
    claim = float(mechanism.delta(1.0))
    assert row_delta(direction, [r / 2] * 3, alpha, 1.0) <= claim * (1 + 1e-5)


def test_convex_prior_is_the_prior_from_which_intensities_are_convex():
    with mp.workdps(50):
        exact = (3 + mp.sqrt(3)) / 6
        assert 0 <= mpf(CONVEX_ALPHA) - exact < 1e-15
        sizes = [mpf(10) ** (mpf(k) / 4) for k in range(-12, 9)]

        def bend(w, alpha):
            """The second derivative of w e^(-alpha w) / (1 - e^-w), which has nu's sign."""
            return mp.diff(lambda x: x * mp.exp(-alpha * x) / (1 - mp.exp(-x)), w, 2)

        for alpha in (mpf(CONVEX_ALPHA), mpf(1), mpf(7)):
            assert all(bend(w, alpha) > 0 for w in sizes)
        assert bend(mpf("1e-3"), exact - mpf("1e-3")) < 0
        # That is the convexity of the intensity in the change of a cell.
        for u, z in itertools.product((0.01, 0.7, 9), (0.05, 0.5, 4)):
            middle = drops(mpf(u), mpf(z), CONVEX_ALPHA)
            ends = (
                drops(mpf(u), mpf(z) / 2, CONVEX_ALPHA),
                drops(mpf(u), 3 * mpf(z) / 2, CONVEX_ALPHA),
            )
            assert 2 * middle < sum(ends)


# --- Thin rows ------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [5e-4, 1e-3, 0.01, 0.1, 0.25, 0.4, 0.49, 0.4995, 0.5 - 1e-13])
def test_dominating_cells_have_more_drops_of_every_size_than_any_row(alpha):
    cells = dominating_cells(alpha)
    assert cells[0][0] == 1
    assert cells[0][1] >= 1
    for u in np.geomspace(1e-7, 50 / alpha, 60):
        u = mpf(float(u))
        claim = sum(number * drops(u, mpf(step), mpf(alpha)) for step, number in cells)
        for z in np.geomspace(1e-5, 1, 41):
            assert drops(u, mpf(float(z)), mpf(alpha)) / float(z) <= claim


@pytest.mark.parametrize(("max_total", "r", "alpha"), [(3, 0.05, 0.3), (10, 0.01, 0.2)])
def test_below_one_half_the_profile_of_a_spread_row_is_far_below_its_renyi_bound(
    max_total, r, alpha
):
    mechanism = DirichletMechanism(r, alpha, max_count=1, max_total=max_total)
    orders = 1 + alpha / r * np.linspace(0.01, 0.999, 2000)
    converted = renyi_epsilon(orders, mechanism.rdp(orders), 1e-5).min()
    full = Composition([(DirichletMechanism(r, alpha), max_total)]).epsilon(1e-5)
    # Full cells are one of the rows, so that less cannot be claimed.
    assert full <= mechanism.epsilon(1e-5) <= 1.03 * full
    assert mechanism.epsilon(1e-5) < 0.8 * converted


@pytest.mark.parametrize("alpha", [0.3, 0.6])
def test_broken_numbers_of_cells_mix_with_laplace_noise_and_round_up(alpha):
    row = DirichletMechanism(0.05, alpha, max_count=1, max_total=1.5)
    noise = LaplaceMechanism(20.0)
    both = Composition([(row, 2), (noise, 1)]).epsilon(1e-5)
    assert both >= Composition([(row, 2)]).epsilon(1e-5)
    full = DirichletMechanism(0.05, alpha)
    assert both >= Composition([(full, 2), (noise, 1)]).epsilon(1e-5) * (1 - 1e-3)
    by_renyi = renyi_epsilon(
        orders := 1 + alpha / 0.05 * np.linspace(0.01, 0.99, 500),
        2 * row.rdp(orders) + noise.rdp(orders),
        1e-5,
    ).min()
    assert both < by_renyi


def test_remainders_are_those_of_the_floats_that_were_given():
    for max_total, max_count in ((0.3, 0.1), (1e13 + 0.5, 0.1), (7.0, 0.7), (1.1, 1.1)):
        rows = ContributionBound(max_count, max_total)
        whole = sum(mpf(entry) * count for entry, count in rows.entries)
        assert whole == mpf(max_total)
        assert all(0 < entry <= rows.largest for entry, _ in rows.entries)
        assert all(entry < rows.largest for entry, _ in rows.entries[1:])
