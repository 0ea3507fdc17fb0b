"""Renyi divergences and profiles of the dominating pairs, against mpmath.

The references are the formulas of the literature at high precision: log-gamma
functions for the divergences, incomplete beta and gamma functions for the profiles.
Those functions are slow for large shapes; there the profile is integrated from the
definition, ``integral of max(0, p - e^epsilon q)``, with break points around its peak.
"""

import itertools

import numpy as np
import pytest
from mpmath import mp, mpf

from skdirdp.accounting.pairs import (
    BetaPair,
    FractionalPair,
    GammaPair,
    GaussianPair,
    LaplacePair,
    PureDPPair,
    ResponseMixturePair,
)

RENYI_TOLERANCE = 1e-9
PROFILE_TOLERANCE = 1e-6
SMALLEST_LOG_DELTA = -200 * np.log(10)


# --- References -----------------------------------------------------------------


def true_renyi(kind, r, alpha, order):
    """Spec formulas, with `order` exactly as given."""
    with mp.workdps(60):
        t, r, alpha = mpf(order) - 1, mpf(r), mpf(alpha)
        if kind != "add" and t * r >= alpha:
            return mp.inf
        low, high = mp.loggamma(alpha), mp.loggamma(alpha + r)
        if kind == "replace":
            return (mp.loggamma(alpha + (1 + t) * r) + mp.loggamma(alpha - t * r) - high - low) / t
        if kind == "add":
            return (t * low + mp.loggamma(alpha + (1 + t) * r) - (1 + t) * high) / t
        return (t * high + mp.loggamma(alpha - t * r) - (1 + t) * low) / t


def make_pair(kind, r, alpha):
    return BetaPair(r, alpha) if kind == "replace" else GammaPair(r, alpha, kind)


def closed_form_delta(kind, r, alpha, epsilon):
    with mp.workdps(60):
        r, alpha, epsilon = mpf(r), mpf(alpha), mpf(epsilon)
        if kind == "replace":
            q = 1 / (1 + mp.exp(epsilon / r))
            first = mp.betainc(alpha, alpha + r, 0, q, regularized=True)
            return first - mp.exp(epsilon) * mp.betainc(alpha + r, alpha, 0, q, regularized=True)
        c = mp.loggamma(alpha) - mp.loggamma(alpha + r)
        if kind == "add":
            t = mp.exp((epsilon - c) / r)
            first = mp.gammainc(alpha + r, t, mp.inf, regularized=True)
            return first - mp.exp(epsilon) * mp.gammainc(alpha, t, mp.inf, regularized=True)
        t = mp.exp(-(epsilon + c) / r)
        first = mp.gammainc(alpha, 0, t, regularized=True)
        return first - mp.exp(epsilon) * mp.gammainc(alpha + r, 0, t, regularized=True)


def integrated_log_delta(kind, r, alpha, epsilon):
    """log of the integral over t > t0 of p(t) (1 - exp(epsilon - loss(t))).

    t is the logit of the beta variable, or plus or minus the log of the gamma one;
    the loss is then r t plus a constant.
    """
    with mp.workdps(40):
        r, alpha, epsilon = mpf(r), mpf(alpha), mpf(epsilon)
        low, high = mp.loggamma(alpha), mp.loggamma(alpha + r)
        if kind == "replace":
            constant = high + low - mp.loggamma(2 * alpha + r)
            start = epsilon / r

            def log_density(t):
                softplus = mp.log1p(mp.exp(-abs(t))) + max(t, 0)
                return (alpha + r) * t - (2 * alpha + r) * softplus - constant

            def score(t):
                return alpha + r - (2 * alpha + r) / (1 + mp.exp(-t))
        else:
            sign = 1 if kind == "add" else -1
            shape, constant = (alpha + r, high) if kind == "add" else (alpha, low)
            start = (epsilon + sign * (high - low)) / r

            def log_density(t):
                return sign * shape * t - mp.exp(sign * t) - constant

            def score(t):
                return sign * (shape - mp.exp(sign * t))

        def log_integrand(x):
            return log_density(start + x) + mp.log(-mp.expm1(-r * x))

        # The logarithm of the integrand is concave: bisect for its peak, then for the
        # places where it has dropped by given amounts.
        peak = mp.exp(
            bisect(lambda u: score(start + mp.exp(u)) + r / mp.expm1(r * mp.exp(u)) > 0, -3000, 200)
        )
        top = log_integrand(peak)
        points = {mpf(0), peak}
        for side, drop in itertools.product((-1, 1), (0.3, 2, 6, 15, 35, 75)):

            def inside(u, side=side, drop=drop):
                x = peak + side * mp.exp(u)
                return x > 0 and log_integrand(x) > top - drop

            upper = mp.log(peak) if side < 0 else mpf(300)
            x = peak + side * mp.exp(bisect(inside, -3000, upper))
            if x > 0:
                points.add(x)
        total = mp.quad(
            lambda x: mp.exp(log_integrand(x) - top),
            sorted(points),
            method="gauss-legendre",
            maxdegree=5,
        )
        return top + mp.log(total)


def bisect(holds, low, high):
    low, high = mpf(low), mpf(high)
    for _ in range(60):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def assert_just_above(log_claim, log_truth, tolerance):
    """The claim is at least the truth, and exceeds it by the tolerance at most."""
    with mp.workdps(60):
        excess = float(mp.expm1(mpf(float(log_claim)) - mpf(log_truth)))
    # exp(claim) itself is a double: a claim of exactly 1 may stand for 1 - 1e-20.
    assert -1e-16 <= excess <= tolerance


# --- Renyi divergences ----------------------------------------------------------

SHAPES = list(
    itertools.product([1e-6, 1e-3, 0.04, 0.7, 1.0, 30.0, 1e3], [1e-3, 0.3, 1.0, 12.0, 1e4, 1e9])
)


@pytest.mark.parametrize("kind", ["replace", "add", "remove"])
@pytest.mark.parametrize(("r", "alpha"), SHAPES)
def test_renyi_divergence_is_exact_and_never_below_the_truth(kind, r, alpha):
    limit = alpha / r
    tilts = {1e-4, 0.5, 1.0, 7.3, 200.0}
    tilts |= {limit * share for share in (1e-3, 0.1, 0.5, 0.9, 0.999)}
    tilts |= {limit * (1 - distance) for distance in (1e-6, 1e-9, 1e-12)}
    orders = sorted(1 + tilt for tilt in tilts if 1 + tilt >= 1.0001)
    claims = make_pair(kind, r, alpha).rdp(np.array(orders))
    for order, claim in zip(orders, claims, strict=True):
        truth = true_renyi(kind, r, alpha, order)
        if truth == mp.inf:
            assert claim == np.inf
        else:
            assert truth <= mpf(float(claim)) <= truth * (1 + RENYI_TOLERANCE)


@pytest.mark.parametrize("kind", ["replace", "remove"])
@pytest.mark.parametrize(("r", "alpha"), SHAPES)
def test_renyi_divergence_is_infinite_at_and_beyond_its_limit(kind, r, alpha):
    limit = 1 + alpha / r
    orders = np.array([np.nextafter(limit, np.inf), 1.5 * limit, 1e6 * limit, 1e20 * limit])
    assert np.all(np.isposinf(make_pair(kind, r, alpha).rdp(orders)))


def test_renyi_divergence_is_infinite_exactly_at_a_representable_limit():
    for kind in ("replace", "remove"):
        assert make_pair(kind, 0.5, 2.0).rdp(5.0) == np.inf
        assert np.isfinite(make_pair(kind, 0.5, 2.0).rdp(np.nextafter(5.0, 0.0)))


@pytest.mark.parametrize(
    "pair",
    [
        BetaPair(0.3, 2.0),
        GammaPair(0.3, 2.0, "add"),
        GammaPair(0.3, 2.0, "remove"),
        GaussianPair(0.3),
        LaplacePair(0.3),
        PureDPPair(0.3),
    ],
    ids=repr,
)
def test_renyi_divergence_is_a_number_at_every_order(pair):
    orders = np.concatenate([1 + np.logspace(-4, 300, 400), [np.inf]])
    claims = pair.rdp(orders)
    assert not np.any(np.isnan(claims))
    # Renyi divergences grow with the order (up to rounding).
    assert np.all(claims[1:] >= claims[:-1] * (1 - 1e-11))


def test_renyi_divergence_has_the_values_known_by_hand():
    assert float(BetaPair(1.0, 3.0).rdp(2.0)) == pytest.approx(np.log(2), rel=1e-11)
    assert float(BetaPair(0.2776, 5.441).rdp(5.0)) == pytest.approx(0.07638732397, rel=1e-9)
    assert float(BetaPair(0.001, 1e9).rdp(5.0)) == pytest.approx(5.0000000025e-15, rel=1e-10)
    assert float(BetaPair(1.0, 1e8).rdp(20.0)) == pytest.approx(2.0e-7, rel=1e-6)


@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_laplace_divergence_agrees_with_mironov_and_is_never_below(size, order):
    # Mironov (2017), Proposition 6, for noise of scale 1 and a shift of this size.
    with mp.workdps(60):
        a, o = mpf(size), mpf(order)
        moment = o / (2 * o - 1) * mp.exp((o - 1) * a) + (o - 1) / (2 * o - 1) * mp.exp(-o * a)
        truth = mp.log(moment) / (o - 1)
        assert truth <= mpf(float(LaplacePair(size).rdp(order))) <= truth * (1 + RENYI_TOLERANCE)


@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_randomised_response_has_its_divergence_and_never_below_it(size, order):
    with mp.workdps(60):
        e, o = mpf(size), mpf(order)
        p, q = mp.exp(e) / (1 + mp.exp(e)), 1 / (1 + mp.exp(e))
        truth = mp.log(p**o * q ** (1 - o) + q**o * p ** (1 - o)) / (o - 1)
        assert truth <= mpf(float(PureDPPair(size).rdp(order))) <= truth * (1 + RENYI_TOLERANCE)


@pytest.mark.parametrize("mu", [1e-8, 0.01, 1.0, 30.0])
def test_gaussian_divergence_is_linear_in_the_order(mu):
    for order in (1.0001, 2.0, 50.0):
        truth = mpf(order) * mpf(mu) ** 2 / 2
        claim = mpf(float(GaussianPair(mu).rdp(order)))
        assert truth <= claim <= truth * (1 + RENYI_TOLERANCE)


# --- Profiles -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "r", "alpha", "epsilon", "delta"),
    [
        ("replace", 0.04294, 0.07214, 1.61, 0.01552532935),
        ("replace", 0.001, 0.001, 1.0, 0.1226268829),
        ("replace", 0.001, 0.005, 1.0, 6.12570624e-4),
        ("replace", 1.0, 10.0, 1.0, 0.003559549457),
        ("add", 1.5, 2.0, 1.0, 0.08722114881),
        ("remove", 1.5, 2.0, 1.0, 0.1599229866),
    ],
)
def test_profile_has_the_values_known_by_hand(kind, r, alpha, epsilon, delta):
    claim = np.exp(make_pair(kind, r, alpha).log_delta(epsilon))
    assert claim == pytest.approx(delta, rel=5e-9)


@pytest.mark.parametrize("kind", ["replace", "add", "remove"])
@pytest.mark.parametrize("r", [1e-3, 0.04, 0.9, 3.0])
@pytest.mark.parametrize("alpha", [1e-3, 0.2, 1.0, 17.5])
def test_profile_is_the_difference_of_incomplete_functions(kind, r, alpha):
    pair = make_pair(kind, r, alpha)
    for epsilon in (0.0, 0.03, 1.0, 9.0):
        claim = pair.log_delta(epsilon)
        if claim < SMALLEST_LOG_DELTA:
            continue
        truth = closed_form_delta(kind, r, alpha, epsilon)
        with mp.workdps(60):
            assert_just_above(claim, mp.log(truth), PROFILE_TOLERANCE)


# log delta by `integrated_log_delta` above, which takes about half a second each; at all
# corners of the parameters, then in each regime between them.
PROFILE_VALUES = [
    ("replace", 1e-06, 0.001, 0.0, "-7.601400692210313890297"),
    ("add", 1e-06, 0.001, 0.0, "-7.908254289911014550658"),
    ("remove", 1e-06, 0.001, 0.0, "-7.908254289911014550666"),
    ("replace", 1e-06, 0.001, 50.0, "-50007.60140069041196768"),
    ("remove", 1e-06, 0.001, 50.0, "-50007.90825428991431798"),
    ("replace", 1e-06, 0.001, 0.3, "-307.6014006904086729719"),
    ("remove", 1e-06, 0.001, 0.3, "-307.908254289911023269"),
    ("replace", 1000.0, 0.001, 0.0, "-6.055633076251097908433e-16"),
    ("add", 1000.0, 0.001, 0.0, "-7.64654024257609334417e-35"),
    ("remove", 1000.0, 0.001, 0.0, "-6.049939136275001407734e-16"),
    ("replace", 1000.0, 0.001, 50.0, "-6.055633076250993029888e-16"),
    ("add", 1000.0, 0.001, 50.0, "-7.646544834350901243731e-35"),
    ("remove", 1000.0, 0.001, 50.0, "-6.049939136274776734908e-16"),
    ("replace", 1e-06, 1000000000.0, 0.0, "-24.74950841915384673117"),
    ("add", 1e-06, 1000000000.0, 0.0, "-25.09608200943381938587"),
    ("remove", 1e-06, 1000000000.0, 0.0, "-25.09608200943381938588"),
    ("replace", 1e-06, 1000000000.0, 1e-10, "-29.25490120160828809646"),
    ("add", 1e-06, 1000000000.0, 1e-10, "-32.63188383753295308968"),
    ("remove", 1e-06, 1000000000.0, 1e-10, "-32.63146304104089737435"),
    ("replace", 1000.0, 1000000000.0, 0.0, "-4.026326162721322554219"),
    ("add", 1000.0, 1000000000.0, 0.0, "-4.372858088438733700931"),
    ("remove", 1000.0, 1000000000.0, 0.0, "-4.372858088438733700931"),
    ("replace", 1000.0, 1000000000.0, 1.0, "-259.7471733998810164694"),
    ("add", 1000.0, 1000000000.0, 1.0, "-510.9511437433733974277"),
    ("remove", 1000.0, 1000000000.0, 1.0, "-510.6168122960122511197"),
    ("replace", 1000.0, 100000.0, 50.0, "-44.53498624691850492924"),
    ("add", 1000.0, 100000.0, 50.0, "-109.2910893443615987111"),
    ("remove", 1000.0, 100000.0, 50.0, "-105.09431126087103533"),
    ("replace", 0.02, 0.4, 1.0, "-23.53855965508597757604"),
    ("add", 0.02, 0.4, 1.0, "-429561017383429128981.3"),
    ("remove", 0.02, 0.4, 1.0, "-23.92119133502644432774"),
    ("replace", 0.0001, 2.0, 0.01, "-208.804841931090222762"),
    ("remove", 0.0001, 2.0, 0.01, "-209.7510515695894953106"),
    ("replace", 5.0, 10000.0, 1.5, "-233.1373151410985647513"),
    ("add", 5.0, 10000.0, 1.5, "-508.8159375132365869167"),
    ("remove", 5.0, 10000.0, 1.5, "-418.0927143880870527702"),
    ("replace", 0.5, 300.0, 1.0, "-269.960498257941164571"),
    ("add", 0.5, 300.0, 1.0, "-1327.997167403327418881"),
    ("remove", 0.5, 300.0, 1.0, "-350.6979533493975636983"),
    ("replace", 0.002, 1000000.0, 5e-05, "-175.6946292440173252073"),
    ("add", 0.002, 1000000.0, 5e-05, "-335.6166811247820464623"),
    ("remove", 0.002, 1000000.0, 5e-05, "-330.3832667476071145858"),
    ("replace", 80.0, 0.05, 20.0, "-2.918822793941782957467e-23"),
    ("add", 80.0, 0.05, 20.0, "-3.638502432813417970534e-10"),
    ("remove", 80.0, 0.05, 20.0, "-1.25125360854432109577e-12"),
    ("replace", 7.0, 2.0, 35.0, "-6.488886446884763770764"),
    ("add", 7.0, 2.0, 35.0, "-638.1978656303299274459"),
    ("remove", 7.0, 2.0, 35.0, "-7.932943194451492783918"),
    ("replace", 677.0, 306564706.8, 0.978, "-169.0559402363280441535"),
    ("add", 677.0, 306564706.8, 0.978, "-330.1878689445947259389"),
    ("remove", 677.0, 306564706.8, 0.978, "-329.8783571560337190474"),
    ("replace", 1.28e-06, 144175107.5, 3.7e-09, "-331.1114086150414802569"),
    ("add", 1.28e-06, 144175107.5, 3.7e-09, "-633.9024615258753211285"),
    ("remove", 1.28e-06, 144175107.5, 3.7e-09, "-632.7388102236295200653"),
    ("replace", 30.0, 100000000.0, 0.05, "-80.75571084696168514336"),
    ("add", 30.0, 100000000.0, 0.05, "-151.3075007333535096695"),
    ("remove", 30.0, 100000000.0, 0.05, "-151.1515247443367642151"),
]


@pytest.mark.parametrize(("kind", "r", "alpha", "epsilon", "log_delta"), PROFILE_VALUES)
def test_profile_is_exact_and_never_below_the_truth(kind, r, alpha, epsilon, log_delta):
    claim = make_pair(kind, r, alpha).log_delta(epsilon)
    truth = mpf(log_delta)
    if truth < SMALLEST_LOG_DELTA:
        assert claim >= truth * (1 + mpf(1e-9))  # the truth is negative
        assert claim < -400
    else:
        assert_just_above(claim, truth, PROFILE_TOLERANCE)


@pytest.mark.parametrize("epsilon", [0.3, 50.0])
def test_an_addition_hardly_ever_loses_much(epsilon):
    # The loss passes epsilon only if g > exp(epsilon / r), far beyond exp(60).
    assert GammaPair(1e-6, 1e-3, "add").log_delta(epsilon) < SMALLEST_LOG_DELTA


def test_the_two_references_agree():
    for kind, epsilon in (("replace", 0.4), ("add", 0.4), ("remove", 0.4)):
        closed = mp.log(closed_form_delta(kind, 0.7, 3.3, epsilon))
        assert abs(integrated_log_delta(kind, 0.7, 3.3, epsilon) - closed) < 1e-14


@pytest.mark.parametrize("mu", [1e-7, 0.01, 0.5, 1.0, 7.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.3, 1.0, 10.0, 50.0])
def test_gaussian_profile_is_the_analytic_one_and_never_below_it(mu, epsilon):
    # Balle and Wang (2018), Theorem 8, with Phi(x) = erfc(-x / sqrt 2) / 2.
    claim = float(GaussianPair(mu).log_delta(epsilon))
    with mp.workdps(400):
        m, e = mpf(mu), mpf(epsilon)
        tails = [mp.erfc(-(sign * m / 2 - e / m) / mp.sqrt(2)) / 2 for sign in (1, -1)]
        truth = mp.log(tails[0] - mp.exp(e) * tails[1])
        if truth < SMALLEST_LOG_DELTA:
            assert claim < SMALLEST_LOG_DELTA * (1 - 1e-9)
        else:
            assert_just_above(claim, truth, PROFILE_TOLERANCE)


@pytest.mark.parametrize("size", [1e-6, 0.1, 1.0, 12.0])
@pytest.mark.parametrize("share", [-1.5, -0.5, 0.0, 0.3, 0.999])
def test_laplace_and_randomised_response_profiles_are_elementary(size, share):
    epsilon = share * size
    with mp.workdps(50):
        a, e = mpf(size), mpf(epsilon)
        # The Laplace loss is +a with probability 1/2, -a with probability exp(-a)/2, and
        # between them has the density exp((x - a)/2) / 4.
        knots = [max(-a, e), a]
        inner = mp.quad(lambda x: mp.exp((x - a) / 2) / 4 * (1 - mp.exp(e - x)), knots)
        laplace = (1 - mp.exp(e - a)) / 2 + max(0, 1 - mp.exp(e + a)) * mp.exp(-a) / 2 + inner
        p = mp.exp(a) / (1 + mp.exp(a))
        response = p * (1 - mp.exp(e - a)) + (1 - p) * max(0, 1 - mp.exp(e + a))
        for pair, truth in ((LaplacePair(size), laplace), (PureDPPair(size), response)):
            assert_just_above(pair.log_delta(epsilon), mp.log(truth), PROFILE_TOLERANCE)


@pytest.mark.parametrize(
    "pair",
    [
        BetaPair(0.3, 2.0),
        BetaPair(1e-6, 1e-3),
        GammaPair(0.3, 2.0, "add"),
        GammaPair(0.3, 2.0, "remove"),
        GaussianPair(0.7),
        GaussianPair(1e-300),
        LaplacePair(0.3),
        PureDPPair(0.3),
    ],
    ids=repr,
)
def test_profile_falls_from_one_to_zero_and_is_a_number_everywhere(pair):
    epsilon = np.concatenate([-np.geomspace(1e3, 1e-3, 30), [0.0], np.geomspace(1e-3, 1e6, 60)])
    log_delta = pair.log_delta(epsilon)
    assert not np.any(np.isnan(log_delta))
    assert np.all(log_delta <= 0)
    assert np.all(np.diff(log_delta[np.isfinite(log_delta)]) <= 3e-9)
    assert log_delta[0] == pytest.approx(0.0, abs=1e-12)
    assert log_delta[-1] < -1e3


@pytest.mark.parametrize("pair", [BetaPair(0.3, 2.0), GaussianPair(0.7), LaplacePair(0.4)])
def test_pairs_that_equal_their_reversal_have_a_symmetric_profile(pair):
    # delta_PQ(-e) = 1 - exp(-e) (1 - delta_QP(e)) for every pair.
    for epsilon in (0.01, 0.2, 1.0):
        there, back = np.exp(pair.log_delta(epsilon)), np.exp(pair.log_delta(-epsilon))
        assert back == pytest.approx(1 - np.exp(-epsilon) * (1 - there), rel=1e-8)


def test_add_is_the_reversal_of_remove():
    for epsilon in (-0.5, 0.01, 0.2, 1.0):
        add = np.exp(GammaPair(0.8, 1.3, "add").log_delta(epsilon))
        remove = np.exp(GammaPair(0.8, 1.3, "remove").log_delta(-epsilon))
        assert remove == pytest.approx(1 - np.exp(-epsilon) * (1 - add), rel=1e-8)


@pytest.mark.parametrize(("r", "alpha"), [(0.5, 2.0), (5.0, 2.0), (0.05, 2.0), (3.0, 0.1)])
@pytest.mark.parametrize("kind", ["replace", "add", "remove"])
def test_profile_at_negative_epsilon_is_never_below_the_truth(kind, r, alpha):
    # Loss distributions are discretised from both sides of 0.
    mirrored = {"replace": "replace", "add": "remove", "remove": "add"}[kind]
    epsilon = np.array([0.1, 1.0, 5.0, 20.0, 100.0])
    back = make_pair(mirrored, r, alpha).log_delta(epsilon)
    truth = 1 - np.exp(-epsilon) * (1 - np.exp(back - 1e-9))
    claim = np.exp(make_pair(kind, r, alpha).log_delta(-epsilon))
    assert np.all(claim >= truth * (1 - 1e-12))
    assert np.all(claim <= truth * (1 + PROFILE_TOLERANCE))


def test_as_r_vanishes_at_fixed_smoothing_the_profile_tends_to_its_floor():
    for s, epsilon in ((1.0, 1.0), (5.0, 0.4), (0.5, 3.0)):
        claim = np.exp(BetaPair(1e-7, s * 1e-7).log_delta(epsilon))
        assert claim == pytest.approx(np.exp(-s * epsilon) / (2 * s + 1), rel=1e-5)


# --- Extremes -------------------------------------------------------------------


@pytest.mark.parametrize("mu", [20.0, 120.0, 1414.0, 2e4, 1e7, 1e15, 1e150, 1e300])
def test_noise_far_below_the_sensitivity_hides_nothing(mu):
    # Whether the output is nearer to mu than to 0 is mistaken with probability Phi(-mu / 2).
    with np.errstate(all="ignore"):
        log_delta = GaussianPair(mu).log_delta(np.array([0.0, mu / 100]))
    assert np.all(log_delta >= -1e-20)


@pytest.mark.parametrize("mu", [1e7, 1e10, 1e12])
@pytest.mark.parametrize("deviations", [-2.0, 1.0, 10.0])
def test_the_rounding_of_large_losses_never_lowers_delta(mu, deviations):
    epsilon = mu * mu / 2 + deviations * mu
    with mp.workdps(60):
        m, e = mpf(mu), mpf(epsilon)
        log_truth = mp.log(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))
    claim = float(GaussianPair(mu).log_delta(np.array([epsilon]))[0])
    assert log_truth <= claim <= log_truth + 0.02


@pytest.mark.parametrize("r", [1e4, 1e8, 1e20, 1e60])
@pytest.mark.parametrize("kind", ["replace", "add", "remove"])
def test_steps_far_above_the_prior_hide_nothing(kind, r):
    # Whether b > 1/2, or g > r/2, distinguishes P and Q except with a probability of
    # 2**-(r + 1), or exp(-r / 8) at most.
    with np.errstate(all="ignore"):
        log_delta = make_pair(kind, r, 1.0).log_delta(np.array([0.0, 1.0]))
    assert np.all(log_delta >= -1e-20)


@pytest.mark.parametrize("alpha", [1e12, 1e30, 8e35])
def test_priors_beyond_the_precision_of_floats_have_the_profile_of_gaussian_noise(alpha):
    # r logit(b) is normal up to 1/sqrt(alpha), with variance 2 r^2 / alpha.
    mu = 2e-5
    pair = BetaPair(mu * np.sqrt(alpha / 2), alpha)
    expected = GaussianPair(mu).log_delta(np.array([0.0, mu, 5 * mu]))
    np.testing.assert_allclose(pair.log_delta(np.array([0.0, mu, 5 * mu])), expected, atol=1e-5)


def test_changes_too_small_for_floats_are_rounded_up():
    assert GaussianPair(0.0).mu == GaussianPair(1e-200).mu == 1e-100
    assert BetaPair(1e-200, 1e150) == BetaPair(1e-100, 1e100)
    assert GammaPair(1e-200, 1e150, "add") == GammaPair(1e-100, 1e100, "add")


# --- Powers and mixtures --------------------------------------------------------


@pytest.mark.parametrize("kind", ["replace", "add", "remove"])
def test_a_power_of_a_pair_has_the_profile_and_divergence_of_as_many(kind):
    one = make_pair(kind, 0.3, 0.8)
    halves = FractionalPair(((one, 0.5), (one, 0.5)))
    epsilons = np.array([-3.0, -0.4, 0.0, 0.4, 2.0])
    log_delta, exact = halves.log_delta(epsilons), one.log_delta(epsilons)
    assert np.all(log_delta >= exact - 1e-11)
    np.testing.assert_allclose(log_delta, exact, atol=1e-6)
    orders = np.array([1.001, 1.5, 3.0])
    np.testing.assert_allclose(halves.rdp(orders), one.rdp(orders), rtol=1e-12)
    # Broken powers lie between whole ones.
    powers = [FractionalPair(((one, power),)).log_delta(epsilons) for power in (1.0, 1.4, 2.0)]
    assert np.all(np.diff(powers, axis=0)[:, 1:] > 0)


@pytest.mark.parametrize(
    ("epsilons", "weights"),
    [
        ((0.0, 0.5, 2.0), (0.2, 0.5, 0.3)),
        ((1e-7, 1e-3), (0.5, 0.5)),
        ((0.0, 700.0), (0.999, 0.001)),
    ],
)
def test_mixed_responses_have_the_mean_of_their_profiles(epsilons, weights):
    pair = ResponseMixturePair(epsilons, weights)
    assert pair.max_loss == epsilons[-1]
    with mp.workdps(400):
        for order in (1 + 1e-6, 1.3, 6.0, 301.0):
            t = mpf(order) - 1
            exponents = [(mpf(e), mp.exp(mpf(e))) for e in epsilons]
            moments = [(mp.exp((t + 1) * e) + mp.exp(-t * e)) / (1 + odds) for e, odds in exponents]
            truth = mp.log(mp.fdot(map(mpf, weights), moments)) / t
            assert_just_above(np.log(pair.rdp(order)), mp.log(truth), 1e-8)
        for epsilon in (-800.0, -1.0, -1e-4, 0.0, 1e-4, 0.4, 1.99, 600.0):
            delta = mpf(0)
            for e, weight in zip(map(mpf, epsilons), map(mpf, weights), strict=True):
                p, q = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
                factor = mp.exp(mpf(epsilon))
                delta += weight * (max(p - factor * q, 0) + max(q - factor * p, 0))
            found = pair.log_delta(np.array(epsilon))
            if delta == 0:
                assert found == -np.inf
            else:
                assert_just_above(found, mp.log(delta), 1e-9)
