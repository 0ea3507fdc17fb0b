"""Composition, against published values, closed forms and dp-accounting."""

import math
import re
import time
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.special import betainc, gammaln
from scipy.stats import norm

from skdirdp.accounting import (
    ApproximateDP,
    Composition,
    NoPrivacy,
    ProfiledDP,
    PureDP,
    RenyiDP,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    SimplexMechanism,
)

DELTA = 1e-5


def compose(*parts):
    return Composition(parts)


# --- References -----------------------------------------------------------------


def beta_delta(r, alpha, epsilon):
    """The closed-form profile; accurate to 1e-12 or so while r is not small."""
    q = 1 / (1 + np.exp(epsilon / r))
    return betainc(alpha, alpha + r, q) - np.exp(epsilon) * betainc(alpha + r, alpha, q)


def gaussian_delta(mu, epsilon):
    """Balle and Wang (2018), Theorem 8."""
    tail = np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    return norm.cdf(mu / 2 - epsilon / mu) - tail


def discretised(delta, reach, interval=2e-4):
    """dp-accounting's pessimistic loss distribution of a pair with this profile."""
    top = math.ceil(reach / interval)
    grid = np.arange(-2 * top, top + 1)
    deltas = np.minimum.accumulate(np.clip(delta(grid * interval), 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas).to_dense_pmf()


def optimal_composition(epsilon, delta, releases, total_delta):
    """The least epsilon of k (epsilon, delta)-DP releases, among those of its closed form.

    Kairouz, Oh and Viswanath (2015), Theorem 3: ((k - 2 i) epsilon, 1 - (1 - delta)^k
    (1 - delta_i))-DP, with delta_i a sum over binomials.
    """
    return [
        ((releases - 2 * i) * epsilon, optimal_delta(epsilon, delta, releases, i))
        for i in range(releases // 2 + 1)
        if optimal_delta(epsilon, delta, releases, i) <= total_delta
    ][-1][0]


def optimal_delta(epsilon, delta, releases, i):
    k = releases
    terms = sum(
        math.comb(k, j) * (math.exp((k - j) * epsilon) - math.exp((k - 2 * i + j) * epsilon))
        for j in range(i)
    )
    return 1 - (1 - delta) ** k * (1 - terms / (1 + math.exp(epsilon)) ** k)


def inverted_delta(cumulant, tilt, deviation, epsilon):
    """Bromwich's integral along Re t = tilt, by mpmath; see `inverted_log_delta`."""

    def integrand(u):
        t = tilt + 1j * u
        return mpmath.re(mpmath.exp(cumulant(t) - t * epsilon) / (t * (1 + t)))

    cuts = {mpmath.mpf(0), tilt, 4 * tilt, *(k / deviation for k in (1, 2, 4, 7, 11, 16))}
    return mpmath.quad(integrand, sorted(cuts)) / mpmath.pi


# --- Dirichlet releases ---------------------------------------------------------


@pytest.mark.parametrize(
    ("r", "alpha", "releases", "exact", "by_renyi"),
    [
        (0.05, 2.0, 14, 0.7865, 0.8697),
        (1.0, 40.0, 14, 3.5701, 3.8645),
        (0.01, 1.1, 65, 0.4806, 0.5300),
    ],
)
def test_the_cost_of_identical_dirichlet_releases_agrees_with_stored_values(
    r, alpha, releases, exact, by_renyi
):
    total = compose((DirichletMechanism(r=r, alpha=alpha), releases))
    assert total.epsilon(DELTA) == pytest.approx(exact, rel=0.01)
    orders = 1 + np.geomspace(0.1, alpha / r, 20_000)
    curve = releases * DirichletMechanism(r=r, alpha=alpha).rdp(orders)
    converted = curve + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
    assert np.min(converted) == pytest.approx(by_renyi, rel=0.01)


def test_dirichlet_releases_agree_with_a_fine_loss_distribution():
    r, alpha, releases = 0.5, 8.0, 6
    pmf = discretised(lambda e: beta_delta(r, alpha, e), reach=6.0).self_compose(releases)
    total = compose((DirichletMechanism(r=r, alpha=alpha), releases))
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        claim, reference = total.delta(epsilon), pmf.get_delta_for_epsilon(epsilon)
        # The reference is pessimistic by its interval, and carries rounding near 1e-10.
        assert claim <= reference * (1 + 1e-6) + 1e-9
        assert claim == pytest.approx(reference, rel=2e-3, abs=1e-9)


def test_dirichlet_and_gaussian_releases_mix():
    r, alpha, mu = 0.5, 8.0, np.sqrt(2) / 4.0
    dirichlet = discretised(lambda e: beta_delta(r, alpha, e), reach=6.0).self_compose(3)
    gaussian = discretised(lambda e: gaussian_delta(mu, e), reach=4.0).self_compose(2)
    pmf = dirichlet.compose(gaussian)
    total = compose(
        (DirichletMechanism(r=r, alpha=alpha), 3), (GaussianMechanism(sigma=4.0), 1),
        (GaussianMechanism(sigma=4.0), 1),
    )  # fmt: skip
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        reference = pmf.get_delta_for_epsilon(epsilon)
        assert total.delta(epsilon) == pytest.approx(reference, rel=2e-3, abs=1e-9)


def test_dirichlet_and_laplace_releases_mix():
    r, alpha = 0.5, 8.0
    dirichlet = discretised(lambda e: beta_delta(r, alpha, e), reach=6.0, interval=1e-3)
    laplace = privacy_loss_distribution.from_laplace_mechanism(
        5.0, sensitivity=1.0, value_discretization_interval=1e-3
    )._pmf_remove.to_dense_pmf()
    pmf = dirichlet.self_compose(3).compose(laplace.self_compose(2))  # two cells move
    total = compose((DirichletMechanism(r=r, alpha=alpha), 3), (LaplaceMechanism(scale=5.0), 1))
    for epsilon in (0.0, 0.5, 1.5):
        reference = pmf.get_delta_for_epsilon(epsilon)
        assert total.delta(epsilon) == pytest.approx(reference, rel=5e-3)


@pytest.mark.parametrize("r", [0.5, 5.0])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_the_convolution_route_is_pessimistic_and_bounded(r, adjacency):
    # Laplace noise has atoms: with it losses are convolved, without it inverted. It adds a
    # loss between nothing and 2 / scale at most.
    mechanism = DirichletMechanism(r=r, alpha=2.0, adjacency=adjacency)
    smooth = compose((mechanism, 2))
    scale = 50 / smooth.epsilon(1e-5)
    mixed = compose((mechanism, 2), (LaplaceMechanism(scale=scale, adjacency=adjacency), 1))
    for epsilon in smooth.epsilon(1e-5) * np.array([0.2, 1.0, 1.5]):
        claim = mixed.delta(epsilon)
        assert smooth.delta(epsilon) * (1 - 1e-9) <= claim
        assert claim <= smooth.delta(epsilon - 2 / scale) * 1.01 + 1e-11


@pytest.mark.parametrize(
    ("r", "alpha", "releases", "epsilon"),
    [(0.0829, 0.095, 4, 8.859), (5.07, 0.2167, 2, 175.3), (0.0412, 0.103, 4, 4.697)],
)
def test_additions_that_lose_next_to_nothing_do_not_hide_removals(r, alpha, releases, epsilon):
    mechanism = DirichletMechanism(r=r, alpha=alpha, adjacency="add_remove")
    claim = compose((mechanism, releases)).delta(epsilon)
    assert mechanism.delta(epsilon) <= claim <= 1


def test_add_and_remove_compose_separately_and_the_worse_counts():
    mechanism = DirichletMechanism(r=1.5, alpha=2.0, adjacency="add_remove")
    rng = np.random.default_rng(0)
    n, epsilon = 400_000, 2.0
    ratio = gammaln(3.5) - gammaln(2.0)
    deltas, errors = [], []
    for shape, sign in ((3.5, 1), (2.0, -1)):
        loss = sign * (1.5 * np.log(rng.gamma(shape, size=(n, 3))) - ratio).sum(axis=1)
        values = np.maximum(0, -np.expm1(epsilon - loss))
        deltas.append(values.mean())
        errors.append(values.std() / np.sqrt(n))
    worse = int(np.argmax(deltas))
    claim = compose((mechanism, 3)).delta(epsilon)
    assert abs(claim - deltas[worse]) < 5 * errors[worse]


def test_one_release_inverted_agrees_with_its_own_profile():
    # Twice the same release at half the concentration squared is a different pair, so the
    # check is of the route: a mix in which the second mechanism hides almost everything.
    quiet = GaussianMechanism(sigma=1e12)
    for mechanism in (DirichletMechanism(r=0.3, alpha=4.0), DirichletMechanism(r=2.0, alpha=3.0)):
        mixed = compose((mechanism, 1), (quiet, 1))
        for epsilon in (0.0, 0.2, 1.0, 5.0, 20.0):
            assert mixed.delta(epsilon) == pytest.approx(mechanism.delta(epsilon), rel=1e-5)


# --- Gaussian and Laplace releases ----------------------------------------------


@pytest.mark.parametrize("sigma", [0.8, 3.0, 40.0])
@pytest.mark.parametrize("releases", [1, 12])
def test_gaussian_releases_agree_with_dp_accounting(sigma, releases):
    mechanism = GaussianMechanism(sigma=sigma, adjacency="add_remove")
    reference = privacy_loss_distribution.from_gaussian_mechanism(
        sigma / np.sqrt(releases), value_discretization_interval=1e-4
    )
    total = compose((mechanism, releases))
    claim = total.epsilon(DELTA)
    assert claim == pytest.approx(reference.get_epsilon_for_delta(DELTA), rel=1e-3)
    assert claim <= reference.get_epsilon_for_delta(DELTA) * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1.5, 8.0])
@pytest.mark.parametrize("releases", [1, 2, 12])
def test_laplace_releases_agree_with_dp_accounting(scale, releases):
    mechanism = LaplaceMechanism(scale=scale, adjacency="add_remove")
    reference = privacy_loss_distribution.from_laplace_mechanism(
        scale, value_discretization_interval=1e-4
    ).self_compose(releases)
    claim = compose((mechanism, releases)).epsilon(DELTA)
    assert claim == pytest.approx(reference.get_epsilon_for_delta(DELTA), rel=2e-3)


def test_renyi_curves_and_their_compositions_agree_with_dp_accounting():
    orders = [1.5, 2.0, 5.0, 32.0]
    accountant = rdp_privacy_accountant.RdpAccountant(orders)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(3.0), 4))
    accountant.compose(SelfComposedDpEvent(LaplaceDpEvent(5.0), 2))
    total = compose(
        (GaussianMechanism(sigma=3.0, adjacency="add_remove"), 4),
        (LaplaceMechanism(scale=5.0, adjacency="add_remove"), 2),
    )
    np.testing.assert_allclose(total.rdp(orders), accountant._rdp, rtol=1e-10)
    assert total.epsilon(DELTA) < accountant.get_epsilon(DELTA)


def test_conversion_from_renyi_agrees_with_dp_accounting():
    reference, _ = rdp_privacy_accountant.compute_epsilon([5.0], [0.1], DELTA)
    assert RenyiDP(5.0, 0.1).to_approximate(DELTA).epsilon == pytest.approx(reference, rel=1e-12)
    assert compose((RenyiDP(5.0, 0.1), 1)).epsilon(DELTA) == pytest.approx(reference, rel=1e-9)


@pytest.mark.parametrize("releases", [10_000, 100_000])
def test_the_claim_for_many_laplace_releases_is_at_least_the_normal_limit(releases):
    # The loss of many releases is normal up to relative errors of order 1/sqrt(k) in
    # the far tail; below the limit by half of it would be a fault of the convolutions.
    scale = np.sqrt(releases)
    total = compose((LaplaceMechanism(scale=scale, adjacency="add_remove"), releases))
    epsilon = 6.5
    claim = total.delta(epsilon)
    assert claim >= 0.5 * gaussian_delta(1.0, epsilon)
    assert claim <= 1e-8


@pytest.mark.parametrize(("epsilon", "delta"), [(2.1119, 1.5435568805e-12), (2.2185, 1.4736e-13)])
def test_the_convolutions_of_many_releases_never_round_a_claim_down(epsilon, delta):
    # 100 000 Laplace releases of scale 1000. The truth is Bromwich's integral of
    # exp(K(t) - t epsilon) / (t (1 + t)) along Re t = 20, by mpmath at 30 digits, with K the
    # cumulant of Mironov (2017), Proposition 6.
    total = compose((LaplaceMechanism(scale=1000.0, adjacency="add_remove"), 100_000))
    assert delta * (1 - 1e-4) <= total.delta(epsilon) <= 1e-9


@pytest.mark.parametrize("cells", [1_000_000, 10_000_000])
def test_a_row_of_millions_of_cells_is_composed_quickly_and_never_below_the_truth(cells):
    # One record may add 1 to each of the cells, so that twice as many Laplace pairs of shift
    # 1 / scale compose. The cumulant is that of Mironov (2017), Proposition 6.
    mechanism = LaplaceMechanism(scale=5 * np.sqrt(cells), max_total=cells)
    start = time.perf_counter()
    claim = mechanism.delta(1.0)
    assert time.perf_counter() - start < 10
    with mpmath.workdps(30):
        a = 1 / mpmath.mpf(mechanism.scale)

        def cumulant(t):
            ratio = (1 + t) * mpmath.exp(t * a) + t * mpmath.exp(-(1 + t) * a)
            return 2 * cells * mpmath.log(ratio / (1 + 2 * t))

        truth = inverted_delta(cumulant, mpmath.mpf(15), mpmath.sqrt(2 * cells) * a, 1)
    assert truth <= claim <= 1.1 * truth


# --- Guarantees -----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.4])
@pytest.mark.parametrize("releases", [2, 10, 40])
def test_pure_releases_compose_as_well_as_any_can(epsilon, releases):
    total = compose((PureDP(epsilon), releases))
    for i in range(releases // 2 + 1):
        reference = optimal_delta(epsilon, 0.0, releases, i)
        claim = total.delta((releases - 2 * i) * epsilon)
        assert claim >= reference - 1e-12
        assert claim <= reference * 1.01 + 1e-9


@pytest.mark.parametrize("releases", [1, 2, 10, 40])
def test_approximate_releases_compose_as_well_as_any_can(releases):
    epsilon, delta = 0.3, 1e-7
    total = compose((ApproximateDP(epsilon, delta), releases))
    for i in range(releases // 2 + 1):
        reference = optimal_delta(epsilon, delta, releases, i)
        claim = total.delta((releases - 2 * i) * epsilon)
        assert claim >= reference - 1e-12
        assert claim <= reference * 1.01 + 1e-9
    target = 1e-5
    assert total.epsilon(target) <= optimal_composition(epsilon, delta, releases, target) + 1e-9


@pytest.mark.parametrize("delta", [1e-9, 1e-14, 1e-20, 1e-300])
def test_a_small_probability_of_failure_is_not_rounded_away(delta):
    for releases in (1, 1000):
        total = compose((ApproximateDP(0.1, delta), releases))
        assert total.delta(0.1 * releases) == pytest.approx(releases * delta, rel=1e-5)
        assert total.delta(0.1 * releases) >= releases * delta * (1 - releases * delta)
        assert total.epsilon(0.5 * delta) == np.inf


def test_approximate_guarantees_mix_with_mechanisms():
    mechanism = DirichletMechanism(r=0.5, alpha=8.0)
    mixed = compose((mechanism, 3), (ApproximateDP(0.0, 1e-3), 2))
    alone = compose((mechanism, 3)).delta(0.7)
    survival = (1 - 1e-3) ** 2
    assert mixed.delta(0.7) == pytest.approx(1 - survival * (1 - alone), rel=1e-9)
    assert mixed.rdp(2.0) == np.inf


def test_concentrated_guarantees_follow_their_formulas():
    rho, omega = 0.02, 30.0
    orders = np.array([1.5, 4.0, 29.0, 31.0])
    zero = compose((ZeroConcentratedDP(rho), 3))
    truncated = compose((TruncatedConcentratedDP(rho, omega), 3))
    one = compose((RenyiDP(4.0, 0.3), 3))
    np.testing.assert_allclose(zero.rdp(orders), 3 * rho * orders, rtol=1e-12)
    np.testing.assert_allclose(truncated.rdp(orders)[:3], 3 * rho * orders[:3], rtol=1e-12)
    assert truncated.rdp(31.0) == np.inf
    np.testing.assert_allclose(one.rdp([1.5, 4.0]), 0.9, rtol=1e-12)
    assert one.rdp(4.1) == np.inf

    def best(limit, curve):
        order = 1 + np.geomspace(1e-3, limit - 1, 200_000)
        return np.min(curve(order) + np.log1p(-1 / order) - np.log(DELTA * order) / (order - 1))

    assert zero.epsilon(DELTA) == pytest.approx(best(1e4, lambda o: 3 * rho * o), rel=1e-4)
    short = compose((TruncatedConcentratedDP(rho, 8.0), 3))
    assert short.epsilon(DELTA) == pytest.approx(best(8.0, lambda o: 3 * rho * o), rel=1e-4)
    assert one.epsilon(DELTA) == pytest.approx(best(4.0, lambda o: 0.9 + 0 * o), rel=1e-4)
    # The papers' conversions are valid and looser.
    single = compose((ZeroConcentratedDP(rho), 1)).epsilon(DELTA)
    by_paper = rho + 2 * np.sqrt(rho * np.log(1 / DELTA))
    assert ZeroConcentratedDP(rho).to_approximate(DELTA).epsilon == pytest.approx(by_paper)
    assert single <= by_paper
    assert PureDP(0.4).to_zcdp().rho == pytest.approx(0.08)


def test_renyi_guarantees_mix_with_mechanisms_through_their_curves():
    mechanism = DirichletMechanism(r=0.05, alpha=2.0)
    mixed = compose((mechanism, 14), (ZeroConcentratedDP(0.01), 1))
    assert mixed.rdp(5.0) == pytest.approx(14 * mechanism.rdp(5.0) + 0.05, rel=1e-12)
    assert mixed.epsilon(DELTA) > compose((mechanism, 14)).epsilon(DELTA)


def test_no_privacy_is_a_guarantee_that_costs_everything():
    for adjacency in ("replace", "add_remove"):
        nothing = NoPrivacy(adjacency)
        assert nothing.epsilon(0.999) == np.inf
        assert nothing.delta(1e9) == 1
        assert nothing.rdp(2.0) == np.inf
        exact = DirichletMechanism(r=np.inf, alpha=np.inf, adjacency=adjacency)
        assert nothing.worst_cases() == exact.worst_cases()
        assert compose((PureDP(0.1, adjacency), 3), (nothing, 1)).epsilon(0.5) == np.inf


EVERY_KIND = [
    ApproximateDP(0.1, 1e-7),
    DirichletMechanism(r=0.3, alpha=4.0),
    GaussianMechanism(sigma=3.0),
    JointMechanism(((DirichletMechanism(r=0.3, alpha=4.0), 2), (LaplaceMechanism(scale=5.0), 1))),
    LaplaceMechanism(scale=3.0),
    NoPrivacy(),
    ProfiledDP((0.0, 0.2, 0.4), (0.3, 0.4, 0.3)),
    PureDP(0.3),
    RenyiDP(8.0, 0.1),
    SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05),
    TruncatedConcentratedDP(0.01, 20.0),
    ZeroConcentratedDP(0.02),
]


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: type(kind).__name__)
def test_mechanisms_guarantees_and_compositions_have_the_same_curves(kind):
    alone = compose((kind, 1))
    assert kind.rdp(3.0) == alone.rdp(3.0)
    assert kind.log_delta(0.2) == alone.log_delta(0.2)
    # A guarantee's own parameter keeps its name.
    for name, argument in (("delta", 0.2), ("epsilon", 1e-4)):
        if callable(curve := getattr(kind, name)):
            assert curve(argument) == getattr(alone, name)(argument)
    assert compose((alone, 2)).rdp(3.0) == compose((kind, 2)).rdp(3.0)


def test_a_pure_guarantee_has_the_profile_of_randomised_response():
    # Kairouz, Oh and Viswanath (2015): the largest delta at epsilon of any 0.3-DP release.
    truth = (math.exp(0.3) - math.exp(0.1)) / (1 + math.exp(0.3))
    assert PureDP(0.3).delta(0.1) == pytest.approx(truth, rel=1e-9)
    assert PureDP(0.3).delta(0.1) >= truth


@pytest.mark.parametrize("seed", range(20))
def test_a_profile_from_points_bounds_all_profiles_through_them(seed):
    # A pair that is its own mirror image: any distribution, and the same backwards.
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(7, 0.7)) + 1e-3
    p /= p.sum()
    q = p[::-1]

    def true_delta(epsilon):
        return np.maximum(p - np.exp(epsilon) * q, 0).sum()

    largest = np.log(p / q).max() * (1 + 1e-12)
    points = np.concatenate([[0], np.sort(rng.uniform(0, largest, rng.integers(0, 9))), [largest]])
    deltas = [true_delta(epsilon) for epsilon in points[:-1]]
    guarantee = ProfiledDP.from_points(points, [*np.maximum(deltas, 1e-12), 0.0])
    assert guarantee.epsilons[-1] == largest
    for epsilon in np.linspace(0, largest, 50):
        assert guarantee.delta(epsilon) >= true_delta(epsilon) * (1 - 1e-12)
        assert guarantee.delta(epsilon) <= PureDP(largest).delta(epsilon) * (1 + 1e-9)
    np.testing.assert_allclose(guarantee.delta(points[:-1]), deltas, atol=1e-11)
    # And of three of them, by all their losses.
    losses = np.add.outer(np.add.outer(np.log(p / q), np.log(p / q)), np.log(p / q)).ravel()
    masses = np.multiply.outer(np.multiply.outer(p, p), p).ravel()
    for epsilon in (0.1, largest, 2 * largest):
        truth = masses @ np.maximum(0, -np.expm1(epsilon - losses))
        assert compose((guarantee, 3)).delta(epsilon) >= truth * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [
        ([0.0, 1.0], [0.9, 0.0]),  # above randomised response
        ([0.1, 1.0], [0.2, 0.0]),
        ([0.0, 1.0, 0.5], [0.3, 0.1, 0.0]),
        ([0.0, 1.0], [0.3, 0.1]),
        ([0.0], [0.0]),
        ([0.0, 1.0], [np.nan, 0.0]),
        ([0.0, np.inf], [0.3, 0.0]),
        ([0.0, 1.0], [-0.1, 0.0]),
    ],
)
def test_invalid_points_of_a_profile_are_refused_or_dropped(epsilons, deltas):
    try:
        guarantee = ProfiledDP.from_points(epsilons, deltas)
    except ValueError as error:
        assert re.match(r"(epsilons|deltas)", str(error))  # noqa: PT017
    else:
        assert guarantee.weights == pytest.approx((0, 1), abs=1e-15)


@pytest.mark.parametrize(
    ("epsilons", "weights"),
    [((), ()), ((1.0,), (0.5,)), ((0.0,), (1.0,)), ((1.0, 0.5), (0.5, 0.5)), ((1.0,), (-1.0, 2.0))],
)
def test_weights_that_are_no_mixture_are_refused(epsilons, weights):
    with pytest.raises(ValueError, match=r"^(epsilons|weights) must"):
        ProfiledDP(epsilons, weights)


THEORY = (Path(__file__).parents[1] / "docs" / "theory.md").read_text()


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: type(kind).__name__)
def test_every_guarantee_and_mechanism_cites_its_proof(kind):
    text = " ".join(type(kind).__doc__.split())
    sections = re.findall(r"docs/theory\.md, section (\d+(?:\.\d+)?)", text)
    for section in sections:
        assert re.search(rf"^#+ {re.escape(section)}\.? ", THEORY, flags=re.MULTILINE), section
    references = THEORY[THEORY.index("## References") :].split("\n- ")
    citations = re.findall(r"([A-Z]\w+)(?:(?:, [A-Z]\w+)* and [A-Z]\w+)? \((\d{4})\)", text)
    for author, year in citations:
        assert any(author in entry and year in entry for entry in references), (author, year)
    assert sections or citations


# --- All compositions -----------------------------------------------------------

COMPOSITIONS = {
    "dirichlet": [(DirichletMechanism(r=0.05, alpha=2.0), 14)],
    "add_remove": [(DirichletMechanism(r=0.4, alpha=3.0, adjacency="add_remove"), 5)],
    "mixed": [(DirichletMechanism(r=0.3, alpha=4.0), 3), (GaussianMechanism(sigma=5.0), 2)],
    "laplace": [(LaplaceMechanism(scale=6.0), 4)],
    "pure": [(PureDP(0.2), 7)],
    "approximate": [(ApproximateDP(0.2, 1e-8), 7)],
    "renyi": [(RenyiDP(9.0, 0.2), 2)],
    "spread": [(DirichletMechanism(r=0.05, alpha=1.0, max_count=2.0, max_total=7.0), 3)],
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_delta_falls_as_epsilon_grows(name):
    total = Composition(COMPOSITIONS[name])
    deltas = total.delta(np.linspace(0.0, 6.0, 40))
    assert np.all(deltas >= 0)
    assert np.all(deltas <= 1)
    assert np.all(np.diff(deltas) <= 1e-9 * deltas[:-1] + 1e-13)


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("delta", [0.02, 1e-3, 1e-6])
def test_epsilon_inverts_delta(name, delta):
    total = Composition(COMPOSITIONS[name])
    epsilon = total.epsilon(delta)
    assert total.delta(epsilon) <= delta * (1 + 1e-11)  # delta is rounded up by 1e-12
    if epsilon > 0:
        assert total.delta(epsilon * (1 - 1e-4)) > delta


@pytest.mark.parametrize("name", ["dirichlet", "add_remove", "mixed"])
@pytest.mark.parametrize("delta", [1e-12, 1e-30, 1e-100])
def test_tiny_deltas_stay_between_two_bounds(name, delta):
    parts = COMPOSITIONS[name]
    total = Composition(parts)
    epsilon = total.epsilon(delta)
    orders = 1 + np.geomspace(0.01, 1e5, 4000)
    with np.errstate(invalid="ignore"):
        curve = total.rdp(orders)
    renyi = np.min(curve + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1))
    assert epsilon <= renyi * (1 + 1e-9)
    # One release alone is no more than all of them.
    alone = parts[0][0].epsilon(delta)
    assert alone <= epsilon
    # Renyi's bound is off by a small factor of delta only (about 1/sqrt(log(1/delta))).
    assert epsilon >= 0.8 * renyi


def test_thousands_of_releases_approach_a_gaussian():
    # k losses of variance v each, and mean v/2: the central limit.
    r, alpha, releases = 1e-3, 4.0, 1_000_000
    order = 1 + 1e-4
    mu = np.sqrt(2 * releases * DirichletMechanism(r=r, alpha=alpha).rdp(order) / order)
    total = compose((DirichletMechanism(r=r, alpha=alpha), releases))
    for epsilon in (0.0, 0.5, 2.0):
        assert total.delta(epsilon) == pytest.approx(gaussian_delta(mu, epsilon), rel=2e-3)


@pytest.mark.parametrize(
    ("r", "alpha", "releases", "deviations"),
    [(3.0, 90.0, 10**5, -1), (9.0, 90.0, 10**7, -1), (20.0, 70.0, 10**7, 1)],
)
def test_the_rounding_of_many_releases_never_lowers_delta(r, alpha, releases, deviations):
    mechanism = DirichletMechanism(r=r, alpha=alpha)
    mean = releases * mechanism.rdp(1 + 1e-6)
    epsilon = mean + deviations * np.sqrt(2 * mean)
    with mpmath.workdps(40):
        a, step = mpmath.mpf(alpha), mpmath.mpf(r)

        def cumulant(t):
            ends = mpmath.loggamma(a + (1 + t) * step) + mpmath.loggamma(a - t * step)
            return releases * (ends - mpmath.loggamma(a + step) - mpmath.loggamma(a))

        truth = inverted_delta(cumulant, 1 / mpmath.sqrt(mean), mpmath.sqrt(2 * mean), epsilon)
    claim = compose((mechanism, releases)).delta(epsilon)
    assert 0 <= claim / truth - 1 <= 1e-8


# --- Extremes -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numbers_of_releases_from_numpy_do_not_overflow(kind):
    mechanism = DirichletMechanism(r=0.02, alpha=2.0)
    total = compose((mechanism, kind(100)), (mechanism, kind(100)))
    assert total.epsilon(DELTA) == compose((mechanism, 200)).epsilon(DELTA) > 1


def test_parameters_of_guarantees_may_come_from_numpy_in_low_precision():
    half = np.float16(0.1)
    assert PureDP(half).to_zcdp().rho == float(half) ** 2 / 2
    assert RenyiDP(5.0, 0.1).to_approximate(half) == RenyiDP(5.0, 0.1).to_approximate(float(half))
    for guarantee in (ZeroConcentratedDP(0.01), TruncatedConcentratedDP(0.01, 70_000.0)):
        assert guarantee.to_approximate(half) == guarantee.to_approximate(float(half))
        # 60 000 times 0.01 is 600; the square of the order would pass the largest half.
        assert guarantee.to_renyi(np.float16(60_000)).epsilon == 0.01 * float(np.float16(60_000))


def test_more_releases_than_a_ledger_can_hold_are_refused():
    with pytest.raises(ValueError, match="releases must be at most 9223372036854775807"):
        compose((PureDP(0.1), 2**63))


@pytest.mark.parametrize(
    "extreme",
    [
        DirichletMechanism(r=947, alpha=5e-15, adjacency="add_remove", max_count=10.3),
        ApproximateDP(1e-20, 1e-7),
        DirichletMechanism(r=5.5e9, alpha=0.0196, adjacency="add_remove", max_count=1.36e52),
        GaussianMechanism(sigma=1e-300),
        GaussianMechanism(sigma=1e300, max_count=1e-90),
        LaplaceMechanism(scale=1e-3, max_count=1e-9, max_total=1e4),
        TruncatedConcentratedDP(0.8, 8e159),
    ],
    ids=repr,
)
@pytest.mark.parametrize("releases", [1, 100, 2**62])
def test_extreme_charges_have_a_total(extreme, releases):
    start = time.perf_counter()
    total = compose((extreme, releases))
    delta, epsilon = total.delta(1.0), total.epsilon(0.01)
    assert time.perf_counter() - start < 30
    assert 0 <= delta <= 1
    assert epsilon >= 0
    assert not np.isnan(total.rdp([1 + 1e-9, 2.0, 1e9])).any()
    assert total.delta(1.0) >= compose((extreme, 1)).delta(1.0) * (1 - 1e-9)


def extreme_number(rng, low=-300, high=200):
    """Of any size: half of them as in use, the others as floats go."""
    ends = (-3, 3) if rng.random() < 0.5 else (low, high)
    return float(10.0 ** rng.uniform(*ends))


def random_kind(rng, adjacency):
    """A mechanism or guarantee, and a delta that its release surely reaches at epsilon."""
    x, y = extreme_number(rng), extreme_number(rng)
    bounds = {"max_count": extreme_number(rng), "adjacency": adjacency}
    if rng.random() < 0.5:
        bounds["max_total"] = bounds["max_count"] * 10.0 ** rng.uniform(-1, 15)
    one_cell = min(bounds["max_count"], bounds.get("max_total", np.inf))

    def pure(epsilon, loss=x):
        # e^x - e^epsilon over 1 + e^x, of randomised response
        loss, epsilon = mpmath.mpf(loss), mpmath.mpf(epsilon)
        return (1 - mpmath.exp(epsilon - loss)) / (1 + mpmath.exp(-loss)) if loss > epsilon else 0

    def laplace(epsilon):
        gap = mpmath.mpf(one_cell) / mpmath.mpf(x) - mpmath.mpf(epsilon)
        return -mpmath.expm1(-gap / 2) if gap > 0 else 0

    def gaussian(epsilon):
        mu, epsilon = mpmath.mpf(one_cell) / mpmath.mpf(x), mpmath.mpf(epsilon)
        if mu > 1e6 or epsilon / mu > 1e6:  # beyond the range of subtraction
            return 1 - mpmath.mpf(2) ** -40 if epsilon < mu * (mu / 2 - 9) else 0
        ends = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return ends[0] - mpmath.exp(epsilon) * ends[1]

    def nothing(epsilon):
        return 0

    kinds = {
        "pure": lambda: (PureDP(x, adjacency), pure),
        "approximate": lambda: (ApproximateDP(x, 1 / (1 + y), adjacency), lambda e: 1 / (1 + y)),
        "renyi": lambda: (RenyiDP(1 + x, y, adjacency), nothing),
        "zero": lambda: (ZeroConcentratedDP(x, adjacency), nothing),
        "truncated": lambda: (TruncatedConcentratedDP(x, 1 + y, adjacency), nothing),
        "gaussian": lambda: (GaussianMechanism(x, **bounds), gaussian),
        "laplace": lambda: (LaplaceMechanism(x, **bounds), laplace),
        "dirichlet": lambda: (DirichletMechanism(x, y, **bounds), nothing),
    }
    return kinds[rng.choice(list(kinds))]()


@pytest.mark.parametrize("seed", range(60))
def test_admitted_charges_compose_in_bounded_time_and_not_below_one_release(seed):
    rng = np.random.default_rng(seed)
    adjacency = str(rng.choice(["replace", "add_remove"]))
    parts, reached = [], []
    while not parts or (len(parts) < 3 and rng.random() < 0.4):
        try:
            kind, least = random_kind(rng, adjacency)
        except ValueError as error:
            assert re.match(r"(\w+) must be ", str(error))  # noqa: PT017
            continue
        parts.append((kind, int(10 ** rng.uniform(0, rng.choice([1, 4, 18])))))
        reached.append(least)
    start = time.perf_counter()
    total = Composition(parts)
    epsilon, delta = extreme_number(rng, -20, 20), min(extreme_number(rng, -200, 0), 0.5)
    claims = {"delta": total.delta(epsilon), "epsilon": total.epsilon(delta)}
    assert time.perf_counter() - start < 30
    assert 0 <= claims["delta"] <= 1
    assert claims["epsilon"] >= 0
    with mpmath.workdps(400):
        for least in reached:
            assert claims["delta"] >= least(epsilon) * (1 - mpmath.mpf(10) ** -11)
            if np.isfinite(claims["epsilon"]):
                # A hair further, for the rounding of epsilon itself.
                assert least(claims["epsilon"] * (1 + 1e-11)) <= delta * (1 + 1e-6)
    orders = np.array([1 + 1e-9, 1.5, 20.0, 1e8])
    assert np.all(total.rdp(orders) >= np.max([kind.rdp(orders) for kind, _ in parts], axis=0))


def test_infinite_epsilon_costs_no_delta():
    assert compose((DirichletMechanism(r=0.3, alpha=4.0), 3)).delta(np.inf) == 0
    assert compose((ApproximateDP(0.2, 1e-3), 1)).delta(np.inf) == pytest.approx(1e-3)


def test_a_release_without_noise_reveals_all():
    exact = DirichletMechanism(r=np.inf, alpha=np.inf)
    total = compose((DirichletMechanism(r=0.3, alpha=4.0), 3), (exact, 1))
    assert total.delta(100.0) == 1
    assert total.epsilon(0.999) == np.inf
    assert total.rdp(2.0) == np.inf


def test_nothing_costs_nothing():
    nothing = Composition([])
    assert nothing.epsilon(DELTA) == 0
    assert nothing.delta(0.0) == 0
    assert nothing.rdp(3.0) == 0


def test_adjacencies_never_mix():
    with pytest.raises(ValueError, match=r"adjacency .*add_remove.*replace"):
        compose((PureDP(0.1), 1), (PureDP(0.1, "add_remove"), 1))


@pytest.mark.parametrize("releases", [0, -1, 1.5, "2", True])
def test_the_number_of_releases_is_checked(releases):
    with pytest.raises((TypeError, ValueError), match="releases"):
        compose((PureDP(0.1), releases))


def test_curves_broadcast_over_arrays():
    total = compose((DirichletMechanism(r=0.3, alpha=4.0), 2))
    assert np.shape(total.rdp(np.full((2, 3), 2.0))) == (2, 3)
    assert np.shape(total.delta(np.full((2, 3), 0.5))) == (2, 3)
    assert isinstance(total.rdp(2.0), float)
    assert isinstance(total.delta(0.5), float)
