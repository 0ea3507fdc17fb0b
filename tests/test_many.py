"""Many different pairs as one series, against mpmath, enumeration and dp-accounting."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from skdirdp.accounting import (
    ApproximateDP,
    Composition,
    NoPrivacy,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    cumulants,
)
from skdirdp.accounting.composition import _SmallProduct
from skdirdp.accounting.cumulants import MAX_RADIUS_FRACTION, N_TERMS, _scaled_zeta, condense
from skdirdp.accounting.pairs import (
    BetaPair,
    DominatingPair,
    GammaPair,
    GaussianPair,
    LaplacePair,
    PureDPPair,
)
from skdirdp.accounting.products import LargeProduct, PairProduct, _parse
from skdirdp.accounting.worst_case import WorstCase
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism
from tests.test_composition import inverted_delta

DELTA = 1e-5


@pytest.fixture(autouse=True)
def _quiet():
    # As in `PrivacyCurves`: every nan is looked for, and read as the bound that always holds.
    with np.errstate(all="ignore"):
        yield


def sizes(n, variance, seed=0):
    """Steps of n different losses whose variances add up to about this."""
    generator = np.random.default_rng(seed)
    return math.sqrt(variance / n) * generator.uniform(0.5, 1.5, n)


def betas(n, variance=0.05, seed=0):
    priors = np.random.default_rng(seed + 1).uniform(0.3, 6.0, n)
    steps = sizes(n, variance, seed) * np.sqrt(priors / 2)
    return [(BetaPair(float(r), float(a)), 1) for r, a in zip(steps, priors, strict=True)]


def gammas(n, direction, variance=0.05):
    return [(GammaPair(pair.r, pair.alpha, direction), 2) for pair, _ in betas(n, variance)]


def responses(n, variance=0.05, seed=0):
    return [(PureDPPair(float(x)), 1) for x in sizes(n, variance, seed)]


def laplaces(n, variance=0.05, seed=3):
    return [(LaplacePair(float(x)), 1) for x in sizes(n, variance, seed)]


def mp_cumulant(pair, t):
    """The definitions, without any of the forms that the package has for them."""
    t = mpmath.mpmathify(t)
    if isinstance(pair, (BetaPair, GammaPair)):
        r, a = mpmath.mpf(pair.r), mpmath.mpf(pair.alpha)
        gain = (
            t * mpmath.loggamma(a) + mpmath.loggamma(a + (1 + t) * r)
            - (1 + t) * mpmath.loggamma(a + r)
        )  # fmt: skip
        loss = (
            t * mpmath.loggamma(a + r) + mpmath.loggamma(a - t * r) - (1 + t) * mpmath.loggamma(a)
        )
        if isinstance(pair, BetaPair):
            return gain + loss
        return gain if pair.direction == "add" else loss
    if isinstance(pair, GaussianPair):
        return mpmath.mpf(pair.mu) ** 2 * t * (1 + t) / 2
    if isinstance(pair, PureDPPair):
        e = mpmath.mpf(pair.epsilon)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        return mpmath.log(p * mpmath.exp(t * e) + (1 - p) * mpmath.exp(-t * e))
    # Laplace: atoms at both ends, and a density exp((l - a) / 2) / 4 between them
    a = mpmath.mpf(pair.shift)
    middle = mpmath.exp(-a / 2) / 4 * (
        mpmath.exp((t + 0.5) * a) - mpmath.exp(-(t + 0.5) * a)
    ) / (t + 0.5)  # fmt: skip
    return mpmath.log(mpmath.exp(t * a) / 2 + mpmath.exp(-a) / 2 * mpmath.exp(-t * a) + middle)


def series_of(pair, scale):
    kinds, squares, _ = _parse([(pair, 1)])
    condensed = condense(kinds, squares, scale)
    assert not condensed.residual_pairs
    return condensed.smooth + condensed.bounded


SERIES = [
    *(BetaPair(0.02, 1.5), BetaPair(0.3, 20.0), BetaPair(30.0, 2500.0)),
    *(GammaPair(0.3, 20.0, "add"), GammaPair(1e-5, 2e-3, "remove"), GammaPair(0.02, 1.2, "remove")),
    *(GaussianPair(0.3), PureDPPair(0.027), PureDPPair(1e-9)),
    *(LaplacePair(0.027), LaplacePair(1e-4)),
]


@pytest.mark.parametrize("pair", SERIES, ids=str)
def test_a_series_is_the_cumulant_to_its_last_digits(pair):
    series = series_of(pair, 40.0)
    tilts = [1e-6, 0.01, 1.0, 17.0, 39.0, 0.5 + 1j, 12 + 30j, 1 + 39j]
    with mpmath.workdps(60):
        for tilt in tilts:
            exact = mp_cumulant(pair, tilt)
            computed = mpmath.mpmathify(complex(series(np.array(tilt))))
            size = abs(mp_cumulant(pair, abs(tilt))) if isinstance(tilt, complex) else abs(exact)
            assert abs(computed - exact) <= 3e-14 * size + series.error
        # The second derivative, as a variance of the tilted loss.
        curvature = mpmath.diff(lambda t: mp_cumulant(pair, t), 3, 2)
    assert series.curvature(3.0) == pytest.approx(float(curvature), rel=1e-12)


def test_the_omitted_terms_of_a_series_are_below_its_bound():
    # At the very edge of the disc in which it is used.
    pair = BetaPair(0.7, 40.0)
    edge = 0.7 * (pair.alpha + pair.r / 2) / pair.r
    series = series_of(pair, edge * (1 - 1e-12))
    assert 0 < series.error < 1e-13 * float(series(np.array(edge - 0.51)))
    short = replace(series, even=np.where(np.arange(N_TERMS) < 20, series.even, 0.0))
    dropped = 2 * series.even[19]  # the bound for a series of 20 terms
    with mpmath.workdps(40):
        for angle in np.linspace(0, np.pi / 2, 7):
            s = (edge - 1e-9) * np.exp(1j * angle)
            exact = mp_cumulant(pair, mpmath.mpmathify(complex(s)) - 0.5)
            gap = abs(mpmath.mpmathify(complex(short(np.array(s - 0.5)))) - exact)
            assert gap <= dropped
            assert gap > dropped * 1e-3  # the bound is not idle


def test_scaled_zeta_functions_agree_with_mpmath():
    arguments = np.array([1e-30, 1e-3, 0.3, 0.999, 1.0, 1.7, 10.0, 63.9, 64.1, 300.0, 5e4])
    powers = np.array([[2], [3], [4], [7], [12], [25], [105]])
    computed = _scaled_zeta(powers, arguments)
    with mpmath.workdps(40):
        for i, power in enumerate(powers[:, 0]):
            for j, m in enumerate(map(mpmath.mpf, arguments)):
                exact = m ** int(power) * mpmath.zeta(int(power), m)
                # The weight of a power beside the first in a series, at the edge of its disc.
                weight = MAX_RADIUS_FRACTION ** (power - 2) * 2 / (power * (power - 1))
                assert abs(computed[i, j] / exact - 1) * weight <= 2e-15


@pytest.mark.parametrize(
    "pairs",
    [
        betas(30),
        betas(12, variance=2.0) + [(GaussianPair(0.2), 3)],
        betas(50, 0.02) + [(BetaPair(0.3, 3.0), 2), (BetaPair(1.0, 40.0), 1)],
        gammas(30, "add"),
        gammas(30, "remove") + [(GammaPair(0.3, 0.9, "remove"), 1)],
        [(pair, 100_000) for pair, _ in betas(10, 5e-7)],
    ],
    ids=["small", "large", "uneven", "add", "remove", "often"],
)
def test_large_and_small_products_of_smooth_pairs_agree(pairs):
    case = WorstCase(renyi=tuple(pairs), profile=tuple(pairs))
    small, large = _SmallProduct(case), LargeProduct.nothing().plus([(case, 1)])
    epsilon = small.epsilon(DELTA)
    assert large.epsilon(DELTA) == pytest.approx(epsilon, rel=1e-9)
    for part in (0.3, 1.0, 1.5):
        at = np.array([part * epsilon])
        assert large.log_delta(at) == pytest.approx(small.log_delta(at), abs=3e-9)
    orders = np.array([1.01, 2.0, 5.0, 1e3])
    assert large.rdp(orders) == pytest.approx(small.rdp(orders), rel=1e-11)
    assert [large.rdp_at(float(order)) for order in orders] == pytest.approx(
        small.rdp(orders), rel=1e-11
    )


def test_delta_of_a_product_is_a_tight_upper_bound():
    pairs = [*betas(3), *gammas(1, "add"), (GaussianPair(0.1), 2), (BetaPair(0.2, 1.0), 1)]
    product = PairProduct().with_curves(pairs)
    for epsilon in (0.1, 2.0):
        log_delta, tight = product.log_delta(epsilon)
        tilt = mpmath.mpf(product._updated_contour().tilt)
        with mpmath.workdps(25):
            exact = mpmath.log(
                inverted_delta(
                    lambda t: sum(count * mp_cumulant(pair, t) for pair, count in pairs),
                    tilt,
                    mpmath.mpf("0.25"),
                    mpmath.mpf(epsilon),
                )
            )
        assert tight
        assert exact <= log_delta <= exact + 3e-9


def lattice_delta(kinds, unit, epsilon):
    """Randomised responses of whole multiples of a unit, by enumerating their sum."""
    total = np.ones(1)
    reach = 0
    for multiple in kinds:
        up = 1 / (1 + math.exp(-multiple * unit))
        spread = np.zeros(2 * multiple + 1)
        spread[0], spread[-1] = 1 - up, up
        total = np.convolve(total, spread)
        reach += multiple
    losses = unit * np.arange(-reach, reach + 1)
    return float(total @ np.maximum(-np.expm1(epsilon - losses), 0.0))


@pytest.mark.parametrize("kinds", [range(1, 25), [3, 5, 7, *range(10, 40)], [1] * 60 + [40]])
def test_delta_of_losses_with_atoms_is_a_tight_upper_bound(kinds):
    unit = 0.004
    product = PairProduct().with_curves([(PureDPPair(k * unit), 1) for k in kinds])
    deviation = unit * math.sqrt(sum(k * k for k in kinds))
    for epsilon in (0.5 * deviation, 2 * deviation, 4 * deviation):
        exact = lattice_delta(kinds, unit, epsilon)
        delta = math.exp(product.log_delta(epsilon)[0])
        assert exact <= delta * (1 + 1e-12)
        assert delta <= exact * (1 + 5e-3)


def test_laplace_noise_lies_between_the_bounds_of_dp_accounting():
    scales = np.linspace(18.0, 30.0, 24)
    product = PairProduct().with_curves([(LaplacePair(float(1 / scale)), 1) for scale in scales])
    bounds = []
    for pessimistic in (False, True):
        whole = privacy_loss_distribution.identity(1e-4, pessimistic_estimate=pessimistic)
        for scale in scales:
            whole = whole.compose(
                privacy_loss_distribution.from_laplace_mechanism(
                    scale,
                    value_discretization_interval=1e-4,
                    pessimistic_estimate=pessimistic,
                )
            )
        bounds.append(whole)
    for epsilon in (0.1, 0.5, 0.9):
        least, most = (bound.get_delta_for_epsilon(epsilon) for bound in bounds)
        assert least * (1 - 1e-9) <= math.exp(product.log_delta(epsilon)[0]) <= most * (1 + 1e-3)


def test_a_gaussian_pair_makes_the_profile_of_losses_with_atoms_exact():
    # The Gaussian pair's own modulus ends the integral: by mpmath to the last digits.
    pairs = [*responses(6, 0.01), *laplaces(6, 0.01), (GaussianPair(0.15), 1)]
    product = PairProduct().with_curves(pairs)
    log_delta, tight = product.log_delta(0.8)
    assert tight
    with mpmath.workdps(25):
        exact = mpmath.log(
            inverted_delta(
                lambda t: sum(count * mp_cumulant(pair, t) for pair, count in pairs),
                mpmath.mpf(product._updated_contour().tilt),
                mpmath.mpf("0.15"),
                mpmath.mpf("0.8"),
            )
        )
    assert exact <= log_delta <= exact + 3e-9


def test_far_from_the_axis_a_bounded_loss_is_bounded_by_its_variance():
    for pair in (PureDPPair(0.3), LaplacePair(0.3)):
        for tilt in (0.5, 5.0, 30.0):
            with mpmath.workdps(30):
                variance = mpmath.diff(lambda t, p=pair: mp_cumulant(p, t), tilt, 2)
                for u in np.linspace(0.1, np.pi / (2 * pair.max_loss), 9):
                    moved = mp_cumulant(pair, mpmath.mpc(tilt, u)) - mp_cumulant(pair, tilt)
                    bound = -2 / mpmath.pi**2 * u**2 * variance
                    assert mpmath.re(moved) <= bound


@pytest.mark.parametrize(
    "pairs",
    [betas(60), responses(60), betas(20) + responses(20) + laplaces(20) + [(GaussianPair(0.1), 1)]],
    ids=["smooth", "atoms", "mixed"],
)
def test_adding_pairs_one_by_one_gives_the_same_epsilon(pairs):
    grown = PairProduct().with_curves(pairs[:20])
    grown.epsilon(DELTA)  # from here on there is a contour to carry along
    for pair in pairs[20:]:
        grown = grown.with_curves([pair])
        assert grown._contour is not None
    once = PairProduct().with_curves(pairs)
    epsilon = once.epsilon(DELTA)[0]
    carried = grown._updated_contour().log_delta(epsilon)[0]
    # A contour that is not at its saddle may be loose, and is still a bound.
    assert carried >= once.log_delta(epsilon)[0] - 1e-5
    assert grown.epsilon(DELTA)[0] == pytest.approx(epsilon, rel=1e-5)
    fresh = grown.log_delta(epsilon)[0]
    assert fresh == pytest.approx(once.log_delta(epsilon)[0], abs=3e-5)
    if all(pair.smooth for pair, _ in pairs):
        assert fresh == pytest.approx(once.log_delta(epsilon)[0], abs=3e-9)
        assert carried >= fresh - 3e-9


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
@pytest.mark.parametrize("pairs", [betas(60), responses(60)], ids=["smooth", "atoms"])
def test_the_same_number_of_pairs_fits_one_by_one_and_at_once(pairs, delta):
    log_delta = math.log(delta)
    epsilon = PairProduct().with_curves(pairs[:41]).epsilon(delta)[0] * (1 + 1e-6)
    grown, fitting = PairProduct().with_curves(pairs[:20]), 20
    assert grown.fits(epsilon, log_delta)
    for pair in pairs[20:]:
        more = grown.with_curves([pair])
        if not more.fits(epsilon, log_delta):
            break
        grown, fitting = more, fitting + 1
    assert fitting == 41
    # A refusal changes nothing, and a smaller charge may still be admitted.
    assert grown.fits(epsilon, log_delta)
    assert not grown.with_curves([pairs[41]]).fits(epsilon, log_delta)
    assert grown.with_curves([pairs[41]]).fits(1.2 * epsilon, log_delta)


def test_equal_pairs_are_counted_together():
    product = PairProduct().with_curves(
        [(BetaPair(0.01, 2.0), 3), (BetaPair(0.01, 2.0), 4), (PureDPPair(0.1), 1)]
    )
    for _ in range(50):
        product = product.with_curves([(BetaPair(0.01, 2.0), 2), (PureDPPair(0.1), 1)])
    assert product.size == 2
    whole = PairProduct().with_curves([(BetaPair(0.01, 2.0), 107), (PureDPPair(0.1), 51)])
    assert product.epsilon(DELTA)[0] == pytest.approx(whole.epsilon(DELTA)[0], rel=1e-12)


def test_many_gaussian_pairs_compose_to_one():
    deviations = np.linspace(50.0, 90.0, 40)
    parts = [(GaussianMechanism(sigma=float(sigma)), 1) for sigma in deviations]
    mu = math.sqrt(sum(2 / sigma**2 for sigma in deviations))
    together = GaussianMechanism(sigma=math.sqrt(2) / mu)
    parts += [(DirichletMechanism(r=1e-9, alpha=1.0 + i), 1) for i in range(10)]
    assert Composition(parts).epsilon(DELTA) == pytest.approx(together.epsilon(DELTA), rel=1e-7)


def test_epsilon_is_consistent_where_the_method_changes():
    pairs = tuple((LaplacePair(1 / (30.0 + i)), 2) for i in range(17))
    case = WorstCase(renyi=pairs, profile=pairs)
    assert LargeProduct.nothing().plus([(case, 1)]).epsilon(DELTA) == pytest.approx(
        _SmallProduct(case).epsilon(DELTA), rel=1e-5
    )
    parts = [(LaplaceMechanism(scale=30.0 + i), 1) for i in range(17)]
    costs = [Composition(parts[:n]).epsilon(DELTA) for n in (15, 16, 17)]
    assert 0.01 < costs[2] - costs[1] < costs[1] - costs[0] < 0.015


def test_guarantees_without_pairs_compose_by_the_best_order_of_many():
    parts = [(ZeroConcentratedDP(1e-4 * (1 + i)), 1) for i in range(20)]
    parts += [(RenyiDP(order=30.0 + i, epsilon=0.001), 2) for i in range(10)]
    parts += [(DirichletMechanism(r=0.01, alpha=1.0 + i), 1) for i in range(10)]
    total = Composition(parts)
    order = np.linspace(1.001, 30.0, 20_001)
    divergence = 1e-4 * order * sum(range(1, 21)) + 20 * 0.001
    for i in range(10):
        divergence = divergence + BetaPair(0.01, 1.0 + i).rdp(order)
    cost = np.log1p(-1 / order) - (np.log(DELTA) + np.log(order)) / (order - 1)
    assert total.epsilon(DELTA) == pytest.approx(np.min(divergence + cost), rel=1e-7)
    assert total.rdp(20.0) == pytest.approx(np.interp(20.0, order, divergence), rel=1e-7)
    assert total.rdp(31.0) == np.inf
    assert total.holds(total.epsilon(DELTA) * (1 + 1e-6), DELTA)
    assert not total.holds(total.epsilon(DELTA) * (1 - 1e-3), DELTA)


@pytest.mark.parametrize("kinds", [3, 8])
def test_a_bound_holds_at_its_own_order_among_many(kinds):
    parts = [(RenyiDP(order=4.0, epsilon=0.01 * (1 + i)), 1) for i in range(kinds)]
    total = Composition([*parts, *((GaussianMechanism(sigma=9.0 + i), 1) for i in range(kinds))])
    claimed = math.fsum(0.01 * (1 + i) for i in range(kinds))
    noise = math.fsum(4.0 / (9.0 + i) ** 2 for i in range(kinds))  # order * 2 / (2 sigma^2)
    assert total.rdp(4.0) == pytest.approx(claimed + noise, rel=1e-11)
    assert total.rdp(np.array([4.0]))[0] >= claimed
    assert total.rdp(np.nextafter(4.0, 5.0)) == np.inf


@pytest.mark.parametrize("kinds", [3, 8])
def test_the_divergence_of_an_infinite_order_is_the_largest_loss_of_many(kinds):
    responses = [(PureDP(0.1 * (1 + i)), 1) for i in range(kinds)]
    largest = sum(Fraction(part.epsilon) for part, _ in responses)
    found = Fraction(float(Composition(responses).rdp(np.inf)))
    assert largest <= found <= largest * (1 + Fraction(1, 10**12))
    smooth = [(DirichletMechanism(r=0.1 * (1 + i), alpha=2.0), 1) for i in range(kinds)]
    assert Composition(smooth).rdp(np.inf) == np.inf
    assert Composition([*responses, (ZeroConcentratedDP(0.1), 1)]).rdp(np.inf) == np.inf


def test_failure_probabilities_are_composed():
    parts = [(ApproximateDP(0.01 + 1e-4 * i, 1e-8 * (1 + i)), 1) for i in range(30)]
    failure = -math.expm1(sum(math.log1p(-1e-8 * (1 + i)) for i in range(30)))
    responses_alone = Composition([(PureDP(0.01 + 1e-4 * i), 1) for i in range(30)])
    total = Composition(parts)
    for epsilon in (0.0, 0.1, 0.25):
        rest = responses_alone.delta(epsilon)
        assert total.delta(epsilon) == pytest.approx(failure + (1 - failure) * rest, rel=1e-9)
    assert total.epsilon(failure / 2) == np.inf
    assert not total.holds(100.0, failure / 2)
    assert total.rdp(2.0) == np.inf
    assert Composition([*parts, (NoPrivacy(), 1)]).epsilon(0.5) == np.inf
    assert not Composition([*parts, (NoPrivacy(), 1)]).holds(100.0, 0.5)


def test_losses_that_are_bounded_add_up_to_their_sum_at_most():
    epsilons = [0.001 * (i + 1) for i in range(30)]
    total = Composition([(PureDP(e), 1) for e in epsilons])
    assert total.epsilon(1e-300) == pytest.approx(sum(epsilons), rel=1e-12)
    assert total.epsilon(1e-300) >= math.fsum(epsilons)
    assert total.delta(math.fsum(epsilons) * (1 + 1e-12)) == 0
    assert total.holds(math.fsum(epsilons) * (1 + 1e-12), 1e-300)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
def test_holds_agrees_with_epsilon(delta):
    total = Composition([(DirichletMechanism(r=0.03, alpha=1.0 + i / 7), 1) for i in range(30)])
    epsilon = total.epsilon(delta)
    assert total.holds(epsilon * (1 + 1e-7) + 1e-12, delta)
    assert epsilon == 0 or not total.holds(epsilon * (1 - 1e-7), delta)


class Unknown(DominatingPair):
    """Pair of a user, with only the abstract methods of the base class."""

    smooth = True
    max_tilt = np.inf

    def cumulant(self, tilt, rough=False):
        tilt = np.asarray(tilt)
        return 0.5 * 0.01 * tilt * (1 + tilt)

    def log_delta(self, epsilon):
        return GaussianPair(0.1).log_delta(epsilon)


def test_pairs_without_a_series_are_composed_one_by_one():
    pairs = [*betas(8), (Unknown(), 1)]
    assert PairProduct().with_curves(pairs) is None
    case = WorstCase(renyi=tuple(pairs), profile=tuple(pairs))
    assert LargeProduct.nothing().plus([(case, 1)]) is None


@pytest.mark.parametrize(
    "extreme",
    [
        (BetaPair(1e-90, 1.0), 1),
        (BetaPair(1e9, 1e-9), 1),
        (BetaPair(1.0, 1e90), 2**62),
        (PureDPPair(1e-80), 10**18),
        (PureDPPair(700.0), 5),
        (GaussianPair(1e20), 3),
        (LaplacePair(1e5), 1),
        (GammaPair(5.0, 1e-12, "remove"), 2**40),
    ],
    ids=str,
)
@pytest.mark.parametrize("others", [betas(20), responses(20)], ids=["smooth", "atoms"])
def test_extreme_pairs_among_ordinary_ones_give_bounds_and_no_errors(extreme, others):
    product = PairProduct().with_curves([*others, extreme])
    alone = _SmallProduct(WorstCase(renyi=(extreme,), profile=(extreme,)))
    least = max(
        alone.epsilon(DELTA), PairProduct().with_curves(others).epsilon(DELTA)[0] * (1 - 1e-4)
    )
    assert product.epsilon(DELTA)[0] >= least * (1 - 1e-6)
    log_delta = product.log_delta(1.0)[0]
    assert not np.isnan(log_delta)
    assert log_delta >= float(alone.log_delta(np.array([1.0]))[0]) - 1e-6
    assert not np.isnan(product.rdp(np.array([1.5, 50.0]))).any()


def test_a_truncated_contour_is_not_tight(monkeypatch):
    # With no room for nodes nothing is tight, and the bound still holds.
    pairs = betas(20)
    exact = PairProduct().with_curves(pairs).log_delta(1.0)[0]
    monkeypatch.setattr(cumulants, "_MAX_NODES", 3)
    log_delta, tight = PairProduct().with_curves(pairs).log_delta(1.0)
    assert not tight
    assert log_delta >= exact - 3e-9
