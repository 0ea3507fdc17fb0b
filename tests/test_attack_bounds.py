"""Bounds on attacks agree with independent computations, and are never too small."""

import itertools
import json
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from skdirdp import DirichletCategoricalNB, DirichletNB, PrivacyAccountant
from skdirdp.accounting import (
    ApproximateDP,
    Composition,
    NoPrivacy,
    ProfiledDP,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from skdirdp.command import main
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    SimplexMechanism,
    calibrate,
)
from skdirdp.mechanisms.base import Request
from skdirdp.reporting.statements import percent_up
from skdirdp.utility import epsilon_for

RATES = (1e-6, 0.001, 0.01, 0.1, 0.5, 0.9)
R, ALPHA = 1.5, 2.0
SIMPLEX = SimplexMechanism(k=24, protected=(0, 1), eta=0.05, eta_bar=0.05)


def assert_tight(bound, exact, tolerance=1e-6):
    """Check that a bound is at least the exact value, and larger by at most the tolerance."""
    assert float(exact) <= bound <= float(exact) + tolerance


def upper_tail(shape, x):
    return mpmath.gammainc(shape, x, regularized=True)


def gamma_quantile(shape, tail):
    """Solve P(X > x) = tail for a gamma variable."""
    start = stats.gamma.isf(float(tail), shape)
    return mpmath.findroot(lambda x: upper_tail(shape, x) - tail, start)


def presence_and_absence(rate):
    """True-positive rates of the two threshold tests of Gamma(alpha + r) against Gamma(alpha)."""
    presence = upper_tail(ALPHA + R, gamma_quantile(ALPHA, mpmath.mpf(rate)))
    absence = 1 - upper_tail(ALPHA, gamma_quantile(ALPHA + R, 1 - mpmath.mpf(rate)))
    return presence, absence


# --- Mechanisms -----------------------------------------------------------------


def test_presence_and_absence_have_the_rates_of_the_specification():
    presence, absence = presence_and_absence(0.01)
    assert float(presence) == pytest.approx(0.0657, abs=1e-4)
    assert float(absence) == pytest.approx(0.1284, abs=5e-5)


@pytest.mark.parametrize("rate", RATES)
def test_dirichlet_add_remove(rate):
    mechanism = DirichletMechanism(R, ALPHA, adjacency="add_remove")
    assert_tight(mechanism.true_positive_rate(rate), max(presence_and_absence(rate)))


@pytest.mark.parametrize("rate", RATES)
def test_dirichlet_replace(rate):
    # The ratio of two cells is sufficient: Beta(alpha + r, alpha) against Beta(alpha, alpha + r).
    exact = stats.beta.sf(stats.beta.isf(rate, ALPHA, ALPHA + R), ALPHA + R, ALPHA)
    assert_tight(DirichletMechanism(R, ALPHA).true_positive_rate(rate), exact)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
def test_two_dirichlet_releases(rate):
    # The product of the two gamma variables is sufficient.
    def tail(shape, x):
        first = stats.gamma(shape)
        return quad(lambda u: first.pdf(u) * first.sf(x / u), 0, np.inf, epsabs=1e-11, limit=200)[0]

    low, high = ALPHA, ALPHA + 0.5
    both = Composition([(DirichletMechanism(0.5, ALPHA, adjacency="add_remove"), 2)])
    x = brentq(lambda x: tail(low, x) - rate, 1e-3, 1e3, xtol=1e-10)
    y = brentq(lambda y: tail(high, y) - (1 - rate), 1e-6, 1e3, xtol=1e-10)
    assert_tight(both.true_positive_rate(rate), max(tail(high, x), 1 - tail(low, y)))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_gaussian(rate, sigma):
    mu = mpmath.sqrt(2) / sigma
    quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1)
    exact = mpmath.ncdf(quantile + mu)
    mechanism = GaussianMechanism(sigma)
    assert_tight(mechanism.true_positive_rate(rate), exact)
    assert_tight(mechanism.advantage(), 2 * mpmath.ncdf(mu / 2) - 1)
    prior = 0.2
    posterior = prior * exact / (prior * exact + (1 - prior) * mpmath.mpf(rate))
    assert_tight(mechanism.posterior(prior, rate), posterior, 1e-6 / rate)


@pytest.mark.parametrize("rate", RATES)
def test_laplace(rate):
    # A threshold test is the best one: the likelihood ratio increases with the output.
    loss = 0.7
    exact = stats.laplace.sf(stats.laplace.isf(rate) - loss)
    mechanism = LaplaceMechanism(1 / loss, adjacency="add_remove")
    assert_tight(mechanism.true_positive_rate(rate), exact)
    assert_tight(mechanism.advantage(), 1 - math.exp(-loss / 2))


def outcomes(*parts):
    """All outcomes of (losses, their probabilities, k) together, from the largest loss down."""
    losses, first = np.zeros(1), np.ones(1)
    for values, probabilities, k in parts:
        for _ in range(k):
            losses = np.round(np.add.outer(losses, values).ravel(), 12)
            first = np.multiply.outer(first, probabilities).ravel()
            losses, places = np.unique(losses, return_inverse=True)
            first = np.bincount(places, first)
    order = np.argsort(-losses)
    return losses[order], first[order], (first * np.exp(-losses))[order]


def response(epsilon, k):
    share = math.exp(epsilon) / (1 + math.exp(epsilon))
    return [epsilon, -epsilon], [share, 1 - share], k


def assert_best_tests(together, first, second):
    """Compare with the tests that accept the outcomes of the largest losses."""
    false, true = (np.append(0, np.cumsum(each)) for each in (first, second)[::-1])
    for rate in (1e-4, 0.01, 0.05, 0.3):
        assert_tight(together.true_positive_rate(rate), np.interp(rate, false, true) - 1e-11)
    assert_tight(together.advantage(), np.abs(first - second).sum() / 2 - 1e-11)


@pytest.mark.parametrize(
    "parts",
    [
        [(0.8, 1)],
        [(0.8, 3)],
        [(0.1, 100)],
        [(0.8, 2), (0.3, 3), (0.11, 2)],
        [(0.1 * i, 1) for i in range(1, 8)],
        [(0.01, 20_000)],  # too many to enumerate
        [(0.5, 100), (0.3, 200)],
    ],
    ids=str,
)
def test_randomised_responses_by_enumeration(parts):
    if parts[0][1] > 1000:
        ((epsilon, k),) = parts
        wins, share = np.arange(k, -1, -1), 1 / (1 + math.exp(-epsilon))
        first, second = (stats.binom.pmf(wins, k, each) for each in (share, 1 - share))
    else:
        _, first, second = outcomes(*(response(*each) for each in parts))
    together = Composition([(PureDP(epsilon), k) for epsilon, k in parts])
    assert_best_tests(together, first, second)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_mixtures_of_randomised_responses_by_enumeration(k):
    epsilons, weights = np.linspace(0.1, 0.7, 7), np.full(7, 1 / 7)
    shares = 1 / (1 + np.exp(-epsilons))
    single = [*epsilons, *-epsilons], [*(weights * shares), *(weights * (1 - shares))], k
    mixture = ProfiledDP(tuple(epsilons), tuple(weights))
    assert_best_tests(Composition([(mixture, k)]), *outcomes(single)[1:])


@pytest.mark.parametrize("k", [1, 2, 200])
def test_gaussian_noise_with_randomised_responses(k):
    # For each outcome of the responses, a threshold on the Gaussian variable. One value for all
    # outcomes is the smallest loss that is accepted.
    mu, epsilon = 0.5, 0.05
    losses, first, second = outcomes(response(epsilon, k))
    mechanism = GaussianMechanism(1 / mu, adjacency="add_remove")
    together = Composition([(mechanism, 1), (PureDP(epsilon, "add_remove"), k)])

    def rates(least):
        threshold = (least - losses) / mu + mu / 2
        return second @ stats.norm.sf(threshold), first @ stats.norm.sf(threshold - mu)

    for rate in (1e-4, 0.01, 0.3):
        least = brentq(lambda x, rate=rate: rates(x)[0] - rate, -50, 50, xtol=1e-13)
        assert_tight(together.true_positive_rate(rate), rates(least)[1])
    assert_tight(together.advantage(), rates(0.0)[1] - rates(0.0)[0])


def laplace_advantage(shifts, epsilon=0.0):
    """Profile of Laplace releases, by integration over the loss of the first one."""
    a, *rest = shifts
    if not rest:
        return 1 - math.exp(epsilon) if epsilon < -a else max(0.0, 1 - math.exp((epsilon - a) / 2))
    corners = {0.0}
    for shift in rest:
        corners = {sum(each) for each in itertools.product(corners, (shift, -shift))}
    ends = sorted({0.0, a, *(min(max((a - epsilon + each) / 2, 0), a) for each in corners)})
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total = 0.5 * laplace_advantage(rest, epsilon - a)
    total += 0.5 * math.exp(-a) * laplace_advantage(rest, epsilon + a)
    for low, high in itertools.pairwise(ends):
        for node, weight in zip(nodes, weights, strict=True):
            x = (low + high + (high - low) * node) / 2
            inside = laplace_advantage(rest, epsilon - a + 2 * x)
            total += (high - low) / 4 * weight * math.exp(-x) * inside
    return total


@pytest.mark.parametrize("shifts", [(0.5, 0.5), (0.7, 0.3), (0.5, 0.5, 0.5), (0.7, 0.2, 0.2)])
def test_laplace_releases_together(shifts):
    # Their losses have atoms and densities. A line of the bound is attained at every epsilon.
    kinds = Counter(LaplaceMechanism(1 / shift, adjacency="add_remove") for shift in shifts)
    together = Composition(kinds.items())
    for epsilon in (0.0, 0.3, max(shifts)):
        assert_tight(together.delta(epsilon), laplace_advantage(shifts, epsilon) - 1e-12)


@pytest.mark.parametrize("rate", RATES)
def test_the_two_numbers_alone_give_their_own_trade_off(rate):
    epsilon, delta = 1.0, 1e-5
    lines = math.exp(epsilon) * rate + delta, 1 - math.exp(-epsilon) * (1 - delta - rate)
    guarantee = ApproximateDP(epsilon, delta)
    assert_tight(guarantee.true_positive_rate(rate), min(lines))
    exact = (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)
    assert_tight(guarantee.advantage(), exact)
    # Noise that is calibrated to them allows much less.
    assert calibrate("gaussian", epsilon=1.0, delta=1e-5).advantage() < 0.107


def test_a_renyi_bound_is_never_below_a_mechanism_that_satisfies_it():
    sigma = 3.0
    mechanism, bound = GaussianMechanism(sigma), ZeroConcentratedDP(1 / sigma**2)
    for rate in RATES:
        assert bound.true_positive_rate(rate) >= mechanism.true_positive_rate(rate)
    assert mechanism.advantage() <= bound.advantage() < 0.5


def test_no_release_and_no_privacy():
    nothing, everything = Composition([]), NoPrivacy()
    assert (nothing.true_positive_rate(0.01), nothing.advantage()) == (0.01, 0.0)
    assert nothing.posterior(0.3) == pytest.approx(0.3)
    assert (everything.true_positive_rate(0.0), everything.advantage()) == (1.0, 1.0)
    assert everything.posterior(0.3, 0.0) == 1.0


def test_extreme_rates_and_noise():
    for mechanism in (GaussianMechanism(1e-3), GaussianMechanism(1e9), SIMPLEX):
        found = mechanism.true_positive_rate([0.0, 1e-300, 1.0])
        assert np.all((found >= [0.0, 1e-300, 1.0]) & (found <= 1))
        rates, bounds = mechanism.trade_off()
        assert np.all(np.diff(bounds) >= -1e-12)
        assert np.all(bounds >= rates)
    assert GaussianMechanism(1e9).advantage() < 1e-6
    assert PureDP(1.0).true_positive_rate(0.0) == 0.0


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan, "0.1x"])
def test_wrong_rates_are_refused(rate):
    with pytest.raises((ValueError, TypeError), match="false_positive_rate"):
        PureDP(1.0).true_positive_rate(rate)


def test_the_curve_bounds_the_rate_from_above():
    mechanism = DirichletMechanism(R, ALPHA, adjacency="add_remove")
    rates, bounds = mechanism.trade_off(9)
    exact = mechanism.true_positive_rate(rates)
    assert np.all(exact <= bounds + 1e-12)
    assert np.all(bounds <= exact + 0.02)


def test_odds_may_change_by_more_than_the_factor_with_a_larger_probability_than_delta():
    # The loss of Gamma(alpha + r) against Gamma(alpha) exceeds 1 above a threshold.
    constant = mpmath.loggamma(ALPHA + R) - mpmath.loggamma(ALPHA)
    threshold = mpmath.exp((constant + 1) / R)
    exceeds = upper_tail(ALPHA + R, threshold)
    delta = exceeds - mpmath.e * upper_tail(ALPHA, threshold)
    assert float(exceeds) == pytest.approx(0.277, abs=5e-4)
    assert float(delta) == pytest.approx(0.087, abs=5e-4)
    # The profile bounds the probability: delta(e') / (1 - exp(e' - 1)) for every e' below 1.
    mechanism = DirichletMechanism(R, ALPHA, adjacency="add_remove")
    below = np.linspace(0, 0.9, 10)
    assert np.all(mechanism.delta(below) / -np.expm1(below - 1) >= float(exceeds))


# --- Real draws -----------------------------------------------------------------

DRAWS = 200_000


def noisy_counts(mechanism, count, generator):
    counts = np.full((DRAWS, 1), float(count))
    request = Request(mechanism, counts, mechanism.contribution.grid, as_counts=True)
    return Mechanism.draw_all([request], generator)[0].ravel()


@pytest.mark.parametrize(
    "mechanism",
    [
        DirichletMechanism(R, ALPHA, adjacency="add_remove"),
        GaussianMechanism(1.0, adjacency="add_remove"),
        LaplaceMechanism(0.5, adjacency="add_remove"),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_the_best_test_on_draws_reaches_the_claimed_rate(mechanism):
    # The likelihood ratio increases with the noisy count, so thresholds are the best tests
    # (Neyman and Pearson). Thresholds are taken from one half of the draws on one data set.
    generator, rate = np.random.default_rng(0), 0.01
    absent, present = (noisy_counts(mechanism, count, generator) for count in (0, 1))
    found = max(
        np.mean(present > np.quantile(absent, 1 - rate)),
        np.mean(absent < np.quantile(present, rate)),
    )
    claim = mechanism.true_positive_rate(rate)
    # The threshold varies too: its false-positive rate has a relative error of (rate * n)^-1/2.
    error = 4 * claim * math.sqrt(1 / (claim * DRAWS) + 1 / (rate * DRAWS))
    assert abs(found - claim) < error < 0.12 * claim


# --- Fits, ledgers and reports ----------------------------------------------------


def fitted(**parameters):
    X, y = np.zeros((50, 2), dtype=int), np.arange(50) % 2
    return DirichletCategoricalNB(classes=[0, 1], n_categories=3, **parameters).fit(X, y)


def test_a_fit_has_the_rates_of_its_mechanisms():
    privacy = fitted(epsilon=1.0, adjacency="add_remove", n_samples=50).privacy_
    released = privacy.composition()
    assert privacy.true_positive_rate(0.02) == released.true_positive_rate(0.02)
    assert privacy.advantage() == released.advantage() < 0.2
    assert fitted(epsilon=math.inf).privacy_.advantage() == 1.0


def test_an_adaptive_ledger_claims_what_its_limit_admits_and_not_what_is_spent():
    charge = DirichletMechanism(0.05, 2.0)
    accountant = PrivacyAccountant(epsilon=1.0)
    assert accountant.true_positive_rate(0.01) == 0.01
    accountant.charge(charge)
    before = accountant.true_positive_rate(0.01)
    accountant.charge(charge, releases=5)
    assert accountant.true_positive_rate(0.01) == before
    assert before > 1.2 * Composition([(charge, 6)]).true_positive_rate(0.01)
    # The limit itself implies it too.
    assert before <= ApproximateDP(1.0, 1e-5).true_positive_rate(0.01) * (1 + 1e-9)


def test_a_fixed_plan_claims_what_is_spent_and_a_renyi_limit_its_order():
    charge = DirichletMechanism(0.05, 2.0)
    plan = PrivacyAccountant(epsilon=1.0, adaptive=False)
    plan.charge(charge, releases=6)
    assert plan.advantage() == Composition([(charge, 6)]).advantage()
    by_order = PrivacyAccountant(epsilon=0.5, order=4.0)
    by_order.charge(charge)
    assert by_order.advantage() == RenyiDP(4.0, 0.5).advantage() > plan.advantage()


def test_disjoint_parts_claim_the_worst_part():
    plan = PrivacyAccountant(epsilon=5.0, adaptive=False)
    parts = plan.parallel("region", split_by="position")
    parts["a"].charge(PureDP(0.5))
    parts["b"].charge(PureDP(1.0))
    assert plan.advantage() == pytest.approx(PureDP(1.0).advantage(), rel=1e-12)


def test_statements_and_pages_print_the_rates_rounded_up(tmp_path):
    privacy = fitted(epsilon=1.0).privacy_
    rate, guess = privacy.true_positive_rate(0.01), 0.5 + privacy.advantage() / 2
    texts = [percent_up(rate), percent_up(privacy.advantage() / 2, 50)]
    assert float(texts[0][:-1]) >= 100 * rate
    assert float(texts[1][:-1]) >= 100 * guess
    page = (tmp_path / "page.html").read_text() if privacy.report(tmp_path / "page.html") else ""
    for text in (privacy.statement(), page):
        assert all(number in text for number in texts)
        assert "which of two versions of one record was used" in text
    for question in ("What is protected?", "Against whom?", "How strongly?", "What is not"):
        assert question in page
    model = DirichletNB(
        classes=[0, 1], max_count=1, max_total=3, n_samples=50, adjacency="add_remove"
    )
    model.fit(np.ones((50, 3)), np.arange(50) % 2)
    assert "whether one record was used or not" in model.privacy_.statement()


def test_the_statement_of_a_ledger_has_the_rates_of_its_claim(capsys, tmp_path):
    accountant = PrivacyAccountant(epsilon=1.0, path=tmp_path / "ledger.db")
    accountant.charge(DirichletMechanism(0.05, 2.0))
    text = percent_up(accountant.true_positive_rate(0.01))
    assert text in accountant.statement()
    assert main(["ledger", "total", str(tmp_path / "ledger.db")]) == 0
    assert text in capsys.readouterr().out
    assert main(["ledger", "total", "--json", str(tmp_path / "ledger.db")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["advantage"] == accountant.advantage()


@pytest.mark.parametrize(
    ("share", "text"), [(0.01, "1%"), (0.0197808, "1.98%"), (0.019800001, "1.99%"), (1.0, "100%")]
)
def test_percentages_are_rounded_up(share, text):
    assert percent_up(share) == text


def test_a_registry_entry_has_the_claim_and_leaves_the_rest_to_the_curator():
    privacy = fitted(epsilon=1.0).privacy_
    entry = json.loads(json.dumps(privacy.registry_entry("triage")))["deployment"]
    assert entry["basic"]["name"] == "triage"
    assert entry["basic"]["data_curators"] is None
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    loss = entry["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    assert loss["privacy_unit"] == "Record-level"
    assert percent_up(privacy.true_positive_rate(0.01)) in loss["privacy_parameters_details"]
    with pytest.raises(ValueError, match="finite"):
        fitted(epsilon=math.inf).privacy_.registry_entry()


def test_a_registry_entry_of_a_ledger_states_its_limit():
    accountant = PrivacyAccountant(epsilon=2.0, name="visits")
    with pytest.raises(ValueError, match="at least 1 charge"):
        accountant.registry_entry()
    accountant.charge(DirichletMechanism(0.05, 2.0))
    entry = accountant.registry_entry()["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"]["epsilon"] == 2.0
    assert "1 charge of DirichletMechanism" in entry["implementation"]["mechanisms"]


def test_a_model_card_has_the_statement():
    card = pytest.importorskip("skops.card")
    model = fitted(epsilon=1.0)
    text = card.Card(model).add(**model.privacy_.card_sections()).render()
    assert model.privacy_.statement() in text


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
def test_fields_for_sacro_have_the_claim_and_a_recommendation():
    privacy = fitted(epsilon=1.0).privacy_
    (check,) = privacy.sacro_fields()["safemodel"]
    assert check["recommendation"] == "Proceed to next step of checking"
    assert (check["epsilon"], check["delta"]) == ("1.0", "1e-05")
    assert check["largest_TPR_at_FPR_0.01"] == percent_up(privacy.true_positive_rate(0.01))
    for parameters in ({"epsilon": math.inf}, {"epsilon": 1.0, "random_state": 0}):
        (check,) = fitted(**parameters).privacy_.sacro_fields()["safemodel"]
        assert check["recommendation"] == "Do not allow release"
        assert check["reason"]


def test_sacro_stores_and_loads_the_fields(tmp_path):
    target = pytest.importorskip("sacroml.attacks.target", reason="sacroml is not installed")
    model = fitted(epsilon=1.0)
    fields = model.privacy_.sacro_fields()
    X, y = np.zeros((20, 2), dtype=int), np.arange(20) % 2
    data = {"X_train": X, "y_train": y, "X_test": X, "y_test": y}
    target.Target(model=model, dataset_name="visits", **data, **fields).save(str(tmp_path))
    loaded = target.Target()
    loaded.load(str(tmp_path))
    assert loaded.safemodel == fields["safemodel"]
    assert loaded.has_model()
    np.testing.assert_array_equal(loaded.model.predict_proba(X), model.predict_proba(X))


# --- epsilon_for ------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "dirichlet"])
@pytest.mark.parametrize("target", ["advantage", "true_positive_rate"])
def test_epsilon_for_a_privacy_target_is_the_largest_one(mechanism, target):
    sizes = {"n_samples": 1000, "n_categories": 4} if mechanism == "dirichlet" else {}
    epsilon = epsilon_for(**{target: 0.1}, mechanism=mechanism, **sizes)

    def success(epsilon):
        noise = calibrate(mechanism, epsilon=epsilon, **sizes)
        return noise.advantage() if target == "advantage" else noise.true_positive_rate(0.01)

    assert success(epsilon) <= 0.1 < success(1.002 * epsilon)


def test_epsilon_for_an_interval_agrees_with_the_noise():
    epsilon = epsilon_for(interval_width=40.0, confidence=0.9)
    sigma = calibrate("gaussian", epsilon=epsilon).sigma
    assert 39.9 < 2 * stats.norm.isf(0.05) * sigma <= 40.1
    shares = epsilon_for(accuracy=0.01, n_samples=2000, n_categories=10)
    sigma = calibrate("gaussian", epsilon=shares).sigma
    assert stats.norm.isf(0.0025) * sigma / 2000 == pytest.approx(0.01, rel=2e-3)


def test_epsilon_for_needs_one_target_and_the_sizes():
    with pytest.raises(TypeError, match="exactly one of"):
        epsilon_for(advantage=0.1, accuracy=0.1)
    with pytest.raises(TypeError, match="n_samples"):
        epsilon_for(accuracy=0.1)
    with pytest.raises(ValueError, match="advantage must be larger"):
        epsilon_for(advantage=1e-9)
    assert epsilon_for(interval_width=1e-3) == math.inf
