"""Intervals and tests of noisy tables, against independent computations."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import betainc

from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer, PrivateBayesNetMLE
from skdirdp.inference import (
    Estimate,
    NoisyTable,
    budget_for_power,
    combine,
    correlation,
    cramers_v,
    difference,
    goodness_of_fit,
    homogeneity,
    independence,
    mean,
    odds_ratio,
    power,
    quantile,
    ratio,
    rows_for_power,
    share,
    trend,
)
from skdirdp.inference.hypotheses import _tables_given_margins
from skdirdp.inference.z_scores import Groups, NoiseDistribution, share_z_scores
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    calibrate,
)
from skdirdp.mechanisms.additive import SelectionMechanism
from skdirdp.mechanisms.base import Request

EXACT = GaussianMechanism(0.0)
COUNTS = [[43, 8, 20], [31, 25, 33]]
MECHANISMS = {
    "gaussian": GaussianMechanism(4.0),
    "laplace": LaplaceMechanism(3.0),
    "dirichlet": DirichletMechanism(r=0.5, alpha=6.0),
    "small noise": LaplaceMechanism(0.1),
    "add_remove": GaussianMechanism(4.0, adjacency="add_remove"),
}


def table(counts, mechanism, n_records=None):
    return NoisyTable(counts, mechanism, n_records)


def drawn(mechanism, p, n, runs, seed):
    """Noisy tables of n records each, as the library draws them."""
    rng = np.random.default_rng(seed)
    p = np.asarray(p)
    counts = rng.multinomial(n, p.ravel(), size=runs).astype(float)
    noisy = Mechanism.draw_all([Request(mechanism, counts, 1.0, as_counts=True)], rng)[0]
    public = n if mechanism.adjacency == "replace" else None
    return NoisyTable(noisy.reshape(runs, *p.shape), mechanism, public, batch_dims=1)


def covers(estimate, value):
    return np.mean((estimate.low <= value) & (value <= estimate.high))


def binomial_limits(distribution, n, value):
    """Limits of a share by brute force: P(at most y | x), summed over binomial counts x."""
    x = np.arange(n + 1)
    given_x = distribution(x)

    def at_most(p):
        return stats.binom.pmf(x, n, p) @ given_x

    low = brentq(lambda p: at_most(p) - 0.975, 1e-9, value)
    high = brentq(lambda p: at_most(p) - 0.025, value, 1 - 1e-9)
    return low, high


# Shares -----------------------------------------------------------------------------


def test_without_noise_a_share_has_the_interval_of_clopper_and_pearson():
    counts = np.array([7.0, 30.0, 63.0])
    for n_records in (100, None):
        found = share(table(counts, EXACT, n_records))
        for i, x in enumerate(counts):
            expected = stats.binomtest(int(x), 100).proportion_ci(method="exact")
            assert found.low[i] == pytest.approx(expected.low, abs=2e-4)
            assert found.high[i] == pytest.approx(expected.high, abs=2e-4)


def test_without_noise_a_conditional_share_is_that_of_its_row():
    found = share(table(COUNTS, EXACT), np.s_[0, 1], given=0)
    expected = stats.binomtest(8, 71).proportion_ci(method="exact")
    assert found.value == pytest.approx(8 / 71)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-4)


@pytest.mark.parametrize("sigma", [0.3, 3.0, 12.0])
def test_a_share_with_gaussian_noise_has_the_limits_of_brute_force(sigma):
    noisy, n = np.array([83.2, 40.1, 31.0, 44.3]), 200
    found = share(table(noisy, GaussianMechanism(sigma), n), np.s_[0])
    y = noisy[0] + (n - noisy.sum()) / 4
    deviation = sigma * np.sqrt(3 / 4)
    expected = binomial_limits(lambda x: stats.norm.cdf((y - x) / deviation), n, y / n)
    width = expected[1] - expected[0]
    assert (found.low, found.high) == pytest.approx(expected, abs=0.01 * width)


def test_a_share_with_laplace_noise_has_the_limits_of_brute_force():
    noisy, n, b = np.array([83.2, 40.1, 31.0, 44.3]), 200, 4.0
    found = share(table(noisy, LaplaceMechanism(b), n), np.s_[0])
    y = noisy[0] + (n - noisy.sum()) / 4
    z = np.random.default_rng(0).laplace(scale=b, size=(200_000, 4))
    noise = np.sort(z[:, 0] - z.mean(axis=1))
    expected = binomial_limits(
        lambda x: np.searchsorted(noise, y - x, side="right") / len(noise), n, y / n
    )
    # 200 000 draws, and the error of the approximation for tails of Laplace noise.
    width = expected[1] - expected[0]
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02 * width)


def test_a_share_of_a_dirichlet_release_has_the_limits_of_brute_force():
    r, alpha, n = 0.5, 6.0, 200
    gamma = np.array([51.0, 18.5, 23.1, 37.9])
    noisy = (gamma - alpha) / r
    found = share(table(noisy, DirichletMechanism(r=r, alpha=alpha), n), np.s_[0])
    y = gamma[0] / gamma.sum()
    expected = binomial_limits(
        lambda x: betainc(r * x + alpha, r * (n - x) + 3 * alpha, y), n, found.value
    )
    width = expected[1] - expected[0]
    assert (found.low, found.high) == pytest.approx(expected, abs=0.01 * width)


def test_near_zero_all_errors_are_allowed_above():
    # A noisy count of 0 excludes shares on one side only, at the full level.
    n, sigma = 200, 6.0
    found = share(table([-3.0, 80.0, 123.0], GaussianMechanism(sigma), n), np.s_[0])
    assert found.low == 0.0
    found = share(table([14.0, 80.0, 106.0], GaussianMechanism(sigma), n), np.s_[0])
    deviation = sigma * np.sqrt(2 / 3)
    x = np.arange(n + 1)
    below = stats.binom.pmf(x, n, found.low) @ stats.norm.cdf((14 - x) / deviation)
    assert below == pytest.approx(0.95, abs=1e-3)


def test_z_scores_of_few_counts_with_little_noise_are_exact():
    x = np.arange(41)
    t, sigma = 0.07, 0.2
    noisy = np.array([[5.1, 34.9], [1.3, 38.7]])
    groups = Groups(noisy, np.ones((2, 2)), np.full(2, 40.0), np.zeros(2))
    found = share_z_scores(NoiseDistribution(sigma=sigma), groups, np.full(2, t), True)
    weights = stats.binom.pmf(x, 40, t)
    for z, y in zip(found, noisy[:, 0], strict=True):
        exact = weights @ stats.norm.cdf((y - x) / (sigma / np.sqrt(2)))
        assert stats.norm.cdf(z) == pytest.approx(exact, abs=1e-9)


def test_the_saddlepoint_approximates_the_tails_of_a_single_laplace_variable():
    # No records: only the noise of one cell is left, whose tails are known.
    for tail in (0.05, 0.025, 0.001):
        y = -np.log(2 * tail)
        groups = Groups(np.array([[y, 0.0]]), np.array([[1.0, 0.0]]), np.zeros(1), None)
        z = share_z_scores(NoiseDistribution(b=1.0), groups, np.zeros(1), True)[0]
        assert stats.norm.sf(z) == pytest.approx(tail, rel=0.05)


def test_the_share_of_the_records_themselves_has_the_noise_alone():
    noisy = np.array([240.0, 260.0, 300.0, 200.0])
    found = share(table(noisy, GaussianMechanism(10.0), 1000), np.s_[0], population=False)
    reach = stats.norm.ppf(0.975) * 10 * np.sqrt(3 / 4) / 1000
    assert (found.low, found.high) == pytest.approx((0.24 - reach, 0.24 + reach), abs=2e-4)


def test_a_share_is_the_whole_range_where_nothing_is_known():
    found = share(table([[3.0, -2.0], [1.0, 4.0]], GaussianMechanism(1e4)), np.s_[0, 0], given=0)
    assert (found.low, found.high) == (0.0, 1.0)
    assert difference(
        table([[3.0, -2.0], [1.0, 4.0]], GaussianMechanism(1e4)), np.s_[:, 0], 0, 1
    ).high == pytest.approx(1.0)


def test_shares_of_all_cells_are_those_of_single_cells():
    noisy = table(COUNTS, GaussianMechanism(2.0), 160)
    every = share(noisy, axis=0)
    assert every.value.shape == (2, 3)
    one = share(noisy, np.s_[1, 2], given=1)
    assert every[1, 2].low == pytest.approx(one.low)
    assert every[1, 2].high == pytest.approx(one.high)
    assert every.value.sum(axis=1) == pytest.approx([1, 1], abs=0.02)


def test_sets_that_contain_all_records_have_a_share_of_one():
    found = share(table(COUNTS, GaussianMechanism(2.0), 160), np.s_[0], given=0)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


# Comparisons ------------------------------------------------------------------------


def test_without_noise_a_difference_is_close_to_the_score_interval():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    counts = [[60, 140], [90, 210]]
    found = difference(table(counts, EXACT), np.s_[:, 0], 0, 1)
    low, high = proportion.confint_proportions_2indep(60, 200, 90, 300, method="score")
    # Clopper and Pearson's tails include the observed count, so the interval is a little wider.
    assert found.low <= low + 1e-4
    assert found.high >= high - 1e-4
    assert found.high - found.low == pytest.approx(high - low, rel=0.06)


def test_without_noise_an_odds_ratio_is_close_to_the_conditional_interval():
    counts = np.array([[60, 140], [120, 180]])
    found = odds_ratio(table(counts, EXACT), np.s_[:, 0], 0, 1)
    expected = stats.contingency.odds_ratio(counts).confidence_interval(0.95)
    assert np.log(found.low) == pytest.approx(np.log(expected.low), abs=0.04)
    assert np.log(found.high) == pytest.approx(np.log(expected.high), abs=0.04)
    assert found.value == pytest.approx(60 * 180 / (140 * 120))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("inside", "weight", "n"), [(1000.0, 1.0, 2), (500_000.0, 0.5, 4)])
def test_a_difference_for_the_records_has_the_quantiles_of_sums_of_laplace_noise(
    inside, weight, n, confidence
):
    """In large rows the difference has the noise of n cells, a difference of gamma variables."""

    def tail(x):
        grid = np.linspace(0.0, 60.0, 20_001)
        return np.trapezoid(stats.gamma.pdf(grid, n) * stats.gamma.sf(grid + x, n), grid)

    expected = brentq(lambda x: tail(x) - (1 - confidence) / 2, 0.0, 40.0)
    counts, size = [[inside, 1e6 - inside]] * 2, 1e6
    noisy = table(counts, LaplaceMechanism(3.0))
    found = difference(noisy, np.s_[:, 0], 0, 1, confidence=confidence, population=False)
    reach = expected * 3.0 * weight / size
    assert found.high == pytest.approx(reach, rel=0.04)
    assert found.low == pytest.approx(-reach, rel=0.04)


@pytest.mark.parametrize("function", [difference, ratio, odds_ratio])
def test_comparisons_of_records_with_laplace_noise_contain_the_estimate(function):
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 20, size=(200, 2, 3)) + rng.laplace(scale=3.0, size=(200, 2, 3))
    noisy = NoisyTable(counts, LaplaceMechanism(3.0), batch_dims=1)
    found = function(noisy, np.s_[:, 0], 0, 1, population=False)
    known = np.isfinite(found.value)
    assert known.mean() > 0.5
    assert (found.low <= found.value)[known].all()
    assert (found.value <= found.high)[known].all()


def test_a_ratio_of_shares_is_bounded_by_nothing_if_the_reference_may_be_zero():
    found = ratio(table([[50.0, 50.0], [0.4, 100.0]], GaussianMechanism(2.0)), np.s_[:, 0], 0, 1)
    assert np.isinf(found.high)
    assert found.low > 5


def test_comparisons_need_disjoint_conditions():
    with pytest.raises(ValueError, match="not have cells in common"):
        difference(table(COUNTS, EXACT), np.s_[:, 0], 0, np.s_[0, :2])


def test_without_noise_a_correlation_is_close_to_the_delta_method():
    rng = np.random.default_rng(0)
    p = np.array([[4, 2, 1], [2, 3, 2], [1, 2, 5]]) / 22
    counts = rng.multinomial(5000, p.ravel()).reshape(3, 3)
    u, v = (np.repeat(each.ravel(), counts.ravel()) for each in np.indices((3, 3)))
    r = np.corrcoef(u, v)[0, 1]
    a, b = (each - each.mean() for each in (u, v))
    a, b = a / a.std(), b / b.std()
    error = np.std(a * b - r * (a**2 + b**2) / 2) / np.sqrt(5000)
    found = correlation(table(counts, EXACT, 5000))
    assert found.value == pytest.approx(r)
    assert (found.low, found.high) == pytest.approx((r - 1.96 * error, r + 1.96 * error), abs=2e-3)


def test_without_noise_cramers_v_inverts_the_noncentral_chi_squared_distribution():
    counts = np.array([[60, 140], [120, 180]])
    statistic = stats.chi2_contingency(counts, correction=False).statistic

    def noncentrality(probability):
        return brentq(lambda c: stats.ncx2.cdf(statistic, 1, c) - probability, 1e-9, 100)

    found = cramers_v(table(counts, EXACT, 500))
    assert found.high == pytest.approx(np.sqrt(noncentrality(0.025) / 500), abs=1e-6)
    assert found.low == pytest.approx(np.sqrt(noncentrality(0.975) / 500), abs=1e-6)


# Numbers ----------------------------------------------------------------------------


def test_the_mean_of_zeros_and_ones_is_a_share():
    noisy = table([311.0, 480.5, 120.2, 88.0], GaussianMechanism(6.0), 1000)
    found = mean(noisy, [0, 1, 1, 0])
    expected = share(noisy, [False, True, True, False])
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-4)


def test_without_noise_a_mean_of_many_records_has_the_usual_interval():
    counts = np.array([300, 420, 210, 70])
    values = np.repeat([0.0, 1.0, 3.0, 4.0], counts)
    error = values.std() / np.sqrt(1000)
    found = mean(table(counts, EXACT, 1000), [0.0, 1.0, 3.0, 4.0])
    expected = values.mean() + np.array([-1.96, 1.96]) * error
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.05 * error)


def test_bins_widen_the_interval_of_a_mean_by_their_width():
    noisy = table([301.5, 423.0, 211.7, 63.8], GaussianMechanism(4.0), 1000)
    edges = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    found = mean(noisy, edges=edges)
    low, high = mean(noisy, edges[:-1]), mean(noisy, edges[1:])
    assert (found.low, found.high) == pytest.approx((low.low, high.high))
    assert high.value - low.value == pytest.approx(10)


def test_without_noise_limits_of_a_quantile_are_those_of_binomial_tests():
    counts = np.array([5, 12, 30, 28, 15, 10])
    edges = np.arange(7.0)
    found = quantile(table(counts, EXACT, 100), 0.5, edges)
    below = np.cumsum(counts)[:-1]
    too_low = [stats.binom.cdf(x, 100, 0.5) < 0.025 for x in below]
    too_high = [stats.binom.sf(x - 1, 100, 0.5) < 0.025 for x in below]
    assert found.low == edges[np.argmin([*too_low, False])]
    assert found.high == edges[6 - np.argmin([*too_high[::-1], False])]
    assert found.value == pytest.approx(3 + (50 - 47) / 28)


# Coverage ---------------------------------------------------------------------------

P = np.array([[0.02, 0.23, 0.1], [0.13, 0.22, 0.3]])
RUNS = 500
#: Rates within four standard errors of the nominal one. Intervals of half the width cover 67%.
REACH = 4 * np.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_intervals_cover_as_often_as_they_claim(name):
    noisy = drawn(MECHANISMS[name], P, 400, RUNS, seed=[*MECHANISMS].index(name))
    column, rows = P.sum(axis=0), P.sum(axis=1)
    first, second = P[:, 0] / rows
    assert covers(share(noisy, np.s_[:, 0]), column[0]) == pytest.approx(0.95, abs=REACH)
    assert covers(share(noisy, np.s_[:, 0], given=0), first) == pytest.approx(0.95, abs=REACH)
    found = mean(noisy, [0, 1, 5], axis=1)
    assert covers(found, column @ [0, 1, 5]) == pytest.approx(0.95, abs=REACH)
    # With two unknown shares close to 0, intervals may cover more.
    assert covers(difference(noisy, np.s_[:, 0], 0, 1), first - second) > 0.95 - REACH
    odds = first / (1 - first) * (1 - second) / second
    assert covers(odds_ratio(noisy, np.s_[:, 0], 0, 1), odds) > 0.95 - REACH
    u, v = np.arange(2) - rows[1], np.arange(3) - column @ np.arange(3)
    r = u @ P @ v / np.sqrt((rows @ u**2) * (column @ v**2))
    assert covers(correlation(noisy), r) > 0.95 - REACH
    squared = np.sum((P - np.outer(rows, column)) ** 2 / np.outer(rows, column))
    assert covers(cramers_v(noisy), np.sqrt(squared)) > 0.95 - REACH
    assert covers(quantile(noisy, 0.7, np.arange(4.0), axis=1), 2.4) > 0.95 - REACH


@pytest.mark.parametrize("population", [True, False])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_a_difference_of_a_certain_and_an_impossible_event_is_covered(name, population):
    """Each of two standard normal deviates rejects on one side only."""
    p = np.array([[0.4, 0.0, 0.0], [0.0, 0.2, 0.4]])
    noisy = drawn(MECHANISMS[name], p, 400, 2 * RUNS, seed=3)
    found = difference(noisy, np.s_[:, 0], 0, 1, population=population)
    exact = 1 - np.exp(-(1.96**2) / 2) / 4 - 0.025
    assert covers(found, 1.0) == pytest.approx(exact, abs=REACH / np.sqrt(2))


@pytest.mark.parametrize("name", ["gaussian", "laplace", "dirichlet"])
@pytest.mark.parametrize("public", [True, False])
def test_cramers_v_of_unequal_margins_covers_as_often_as_it_claims(name, public):
    """Noise differs between directions of association, and the association is strong."""
    p = (np.eye(3)[:, [0, 1, 2, 0, 1]] + 0.2) / 24 * np.array([[6.0], [3.0], [2.0]])
    p /= p.sum()
    noisy = drawn(MECHANISMS[name], p, 2000, RUNS, seed=5)
    noisy = noisy if public else replace(noisy, n_records=None)
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    truth = np.sqrt(np.sum((p - expected) ** 2 / expected) / 2)
    assert covers(cramers_v(noisy), truth) == pytest.approx(0.95, abs=REACH)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "dirichlet"])
def test_intervals_for_the_records_themselves_cover_their_shares(name):
    rng = np.random.default_rng(1)
    x = np.array([[12.0, 40.0], [30.0, 118.0]])
    mechanism = MECHANISMS[name]
    counts = np.broadcast_to(x.ravel(), (RUNS, 4)).copy()
    noisy = Mechanism.draw_all([Request(mechanism, counts, 1.0, as_counts=True)], rng)[0]
    noisy = NoisyTable(noisy.reshape(RUNS, 2, 2), mechanism, 200, batch_dims=1)
    found = share(noisy, np.s_[:, 0], given=1, population=False)
    assert covers(found, 30 / 148) == pytest.approx(0.95, abs=REACH)
    found = share(noisy, np.s_[:, 0], population=False)
    assert covers(found, 42 / 200) == pytest.approx(0.95, abs=REACH)
    found = difference(noisy, np.s_[:, 0], 0, 1, population=False)
    assert covers(found, 12 / 52 - 30 / 148) > 0.95 - REACH


@pytest.mark.parametrize("name", ["gaussian", "laplace", "dirichlet", "add_remove"])
def test_true_hypotheses_are_rejected_as_often_as_the_level_says(name):
    p = np.outer(P.sum(axis=1), P.sum(axis=0))
    noisy = drawn(MECHANISMS[name], p, 400, RUNS, seed=9)
    for result in (
        independence(noisy, n_resamples=39),
        trend(noisy, n_resamples=39),
        goodness_of_fit(noisy, p, n_resamples=39),
    ):
        assert np.mean(result.pvalue <= 0.05) < 0.05 + REACH


@pytest.mark.parametrize("kind", ["gaussian", "dirichlet"])
def test_a_table_with_one_large_cell_in_much_noise_keeps_the_level(kind):
    # Noise of empty categories is fitted as records: tables simulated from the fit would be
    # flatter than the truth, and 8% would be rejected.
    shares = np.array([0.93, *[0.01] * 7])
    noise = {"n_samples": 300, "n_categories": 64} if kind == "dirichlet" else {}
    mechanism = calibrate(kind, epsilon=0.1, adjacency="add_remove", **noise)
    noisy = drawn(mechanism, np.outer(shares, shares), 300, 2000, seed=5)
    rejected = np.mean(independence(noisy, n_resamples=39).pvalue <= 0.05)
    assert rejected < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 2000)


def test_simulated_tables_have_the_margins_of_the_fit():
    p = np.stack([np.outer([0.5, 0.3, 0.2], [0.25, 0.75]), np.outer([0.0, 1.0, 0.0], [0.6, 0.4])])
    rng = np.random.default_rng(0)
    tables = _tables_given_margins(p, np.array([20, 7]), 4000, rng)
    np.testing.assert_array_equal(tables[:, 0].sum(axis=2), [[10, 6, 4]] * 4000)
    np.testing.assert_array_equal(tables[:, 0].sum(axis=1), [[5, 15]] * 4000)
    np.testing.assert_array_equal(tables[0, 1], [[0, 0], [4, 3], [0, 0]])
    usual = stats.hypergeom(20, 5, 10).pmf(np.arange(6))
    found = np.bincount(tables[:, 0, 0, 0].astype(int), minlength=6) / 4000
    np.testing.assert_allclose(found, usual, atol=4 * np.sqrt(0.25 / 4000))


# Tests ------------------------------------------------------------------------------


def test_without_noise_independence_is_pearsons_test():
    found = independence(table(COUNTS, EXACT, 160))
    expected = stats.chi2_contingency(COUNTS, correction=False)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.pvalue == pytest.approx(expected.pvalue)
    assert found.dof == expected.dof
    assert homogeneity(table(COUNTS, EXACT, 160)) == found


def test_without_noise_goodness_of_fit_is_the_chi_squared_test():
    found = goodness_of_fit(table([30, 50, 20], EXACT, 100), [0.2, 0.5, 0.3])
    expected = stats.chisquare([30, 50, 20], [20, 50, 30])
    assert (found.statistic, found.pvalue) == pytest.approx(tuple(expected))


def test_without_noise_a_trend_is_the_squared_correlation_times_the_number_of_records():
    counts = np.array(COUNTS)
    u, v = (np.repeat(each.ravel(), counts.ravel()) for each in np.indices(counts.shape))
    statistic = counts.sum() * np.corrcoef(u, v)[0, 1] ** 2
    found = trend(table(COUNTS, EXACT, 160))
    assert found.statistic == pytest.approx(statistic)
    assert found.pvalue == pytest.approx(stats.chi2.sf(statistic, 1))


def test_with_little_noise_a_test_agrees_with_the_one_without():
    noisy = table(np.array(COUNTS) * 3 + 0.01, GaussianMechanism(0.05), 480)
    expected = stats.chi2_contingency(np.array([[40, 12, 19], [34, 22, 33]]), correction=False)
    counts = np.array([[40, 12, 19], [34, 22, 33]])
    found = independence(table(counts + 0.001, GaussianMechanism(0.02), 160), n_resamples=4999)
    error = np.sqrt(expected.pvalue * (1 - expected.pvalue) / 4999)
    # Few records: the simulated distribution differs a little from the chi-squared one.
    assert found.pvalue == pytest.approx(expected.pvalue, abs=4 * error + 0.01)
    assert independence(noisy).pvalue == 0.001


def test_tests_are_reproducible():
    noisy = table([[30.1, 55.2], [28.7, 44.0]], LaplaceMechanism(4.0), 160)
    assert independence(noisy) == independence(noisy)


# Power ------------------------------------------------------------------------------


def test_power_is_the_share_of_rejections():
    p = [[0.3, 0.2], [0.2, 0.3]]
    for mechanism in (GaussianMechanism(15.0), LaplaceMechanism(8.0, adjacency="add_remove")):
        noisy = drawn(mechanism, p, 300, RUNS, seed=3)
        rejected = np.mean(independence(noisy, n_resamples=199).pvalue <= 0.05)
        expected = power(p, 300, mechanism)
        assert 0.2 < expected < 0.95
        error = np.sqrt(expected * (1 - expected) * (1 / RUNS + 1 / 2000))
        # A fitted null distribution, and 199 instead of all tables, cost a little power.
        assert rejected == pytest.approx(expected, abs=4 * error + 0.03)


def test_budgets_and_numbers_of_records_reach_a_power():
    p = [[0.3, 0.2], [0.2, 0.3]]
    epsilon = budget_for_power(0.8, p, 300)
    assert power(p, 300, GaussianMechanism.calibrate(epsilon=epsilon)) >= 0.8
    assert power(p, 300, GaussianMechanism.calibrate(epsilon=epsilon / 1.2)) < 0.8
    rows = rows_for_power(0.8, p, GaussianMechanism(10.0), test="trend")
    assert power(p, rows, GaussianMechanism(10.0), test="trend") >= 0.8
    assert rows_for_power(0.99, [[0.25, 0.25], [0.25, 0.25]], GaussianMechanism(1.0)) == np.inf
    fit = power([0.3, 0.7], 100, GaussianMechanism(3.0), test="goodness_of_fit")
    assert fit > power([0.4, 0.6], 100, GaussianMechanism(3.0), test="goodness_of_fit")


# Several synthetic tables -----------------------------------------------------------


def test_combined_intervals_are_quantiles_of_the_posterior_of_raghunathan_reiter_and_rubin():
    rng = np.random.default_rng(2)
    m, within = 20, 4e-4
    values = rng.normal(0.3, 0.03, m)
    found = combine(values, np.full(m, within))
    # The mean, given the variance of the parameters, which is drawn given that between the tables.
    drawn = (m - 1) * values.var(ddof=1) / rng.chisquare(m - 1, 400_000) - within
    variance = (1 + 1 / m) * np.maximum(drawn, 0) + within / m
    off = rng.normal(size=len(variance)) * np.sqrt(variance)
    assert found.high - found.value == pytest.approx(np.quantile(np.abs(off), 0.95), rel=0.01)
    draws = combine(values)
    reach = stats.t.ppf(0.975, m - 1) * np.sqrt((1 + 1 / m) * values.var(ddof=1))
    assert draws.high - draws.value == pytest.approx(reach)
    exact = combine(values, np.zeros(m))
    assert exact.high - exact.value == pytest.approx(reach, rel=0.005)


@pytest.mark.parametrize("m", [5, 20, 50])
@pytest.mark.parametrize("parameters", [0.0, 0.2, 0.5, 1.0, 5.0])
@pytest.mark.filterwarnings("ignore:the tables vary less")
def test_combined_intervals_cover_at_all_ratios_of_variances(m, parameters):
    # The variance of records within tables is 1.
    rng = np.random.default_rng(m)
    estimate = rng.normal(size=2000) * np.sqrt(parameters)
    values = estimate + rng.normal(size=(m, 2000)) * np.sqrt(parameters + 1)
    found = combine(values, np.ones(values.shape))
    assert covers(found, 0.0) > 0.92
    # With the variance between tables alone, nearly all intervals cover if this is near 0.
    wide = combine(values)
    assert np.mean(found.high - found.low) < np.mean(wide.high - wide.low)


@pytest.mark.parametrize("share", [0.5, 0.999, 1.0, 1.5])
def test_combined_intervals_are_never_wider_than_without_the_subtraction(share):
    values = np.array([0.3, 0.4, 0.38, 0.29])
    widest = combine(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = combine(values, np.full(4, share * 1.25 * values.var(ddof=1)))
    assert found.high <= widest.high
    assert found.high > found.value


def test_combined_intervals_cover_and_those_of_nested_imputation_do_not():
    # One release y of a mean; each table has its own draw of the mean, and its own records.
    rng = np.random.default_rng(5)
    m, within = 10, 0.3
    y = rng.normal(size=(1, 4000))
    values = y + rng.normal(size=(m, 4000)) + np.sqrt(within) * rng.normal(size=(m, 4000))
    with pytest.warns(UserWarning, match="vary less"):
        found = combine(values, np.full(values.shape, within))
    reach = 4 * np.sqrt(0.05 * 0.95 / 4000)
    assert covers(found, 0.0) > 0.95 - reach
    assert covers(combine(y + rng.normal(size=(m, 4000))), 0.0) == pytest.approx(0.95, abs=reach)
    wrong = np.sqrt(within + values.var(axis=0, ddof=1) / m)
    assert np.mean(np.abs(values.mean(axis=0)) < 1.96 * wrong) < 0.9


# Records of persons, and errors -----------------------------------------------------


def people(kind, n_runs, rows=3, n_people=400):
    """Noisy tables of people with several rows each, which are equal or independent."""
    rng = np.random.default_rng(kind == "equal")
    p = np.outer([0.5, 0.5], [0.6, 0.4]).ravel()
    counts = rng.multinomial(n_people * rows, p, n_runs)
    if kind == "equal":
        counts = rows * rng.multinomial(n_people, p, n_runs)
    mechanism = GaussianMechanism(
        12.0, adjacency="add_remove_person", max_count=rows, max_total=rows
    )
    noisy = (counts + rng.normal(0, 12.0, counts.shape)).reshape(-1, 2, 2)
    return NoisyTable(noisy, mechanism, batch_dims=1)


@pytest.mark.parametrize("kind", ["equal", "independent"])
def test_intervals_and_tests_hold_for_people_with_several_records(kind):
    """Equal records are the worst case. Intervals for independent ones would cover 79%."""
    n_runs = 1000
    noisy = people(kind, n_runs)
    deviation = np.sqrt(0.05 * 0.95 / n_runs)
    rates = [independence(noisy, n_resamples=99).pvalue <= 0.05]
    for found, true in ((share(noisy, np.s_[:, 1], 0), 0.4), (share(noisy, np.s_[:, 1]), 0.4)):
        rates.append((true < found.low) | (found.high < true))
    for errors in rates:
        assert np.mean(errors) <= 0.05 + 3 * deviation
        if kind == "equal":
            assert np.mean(errors) >= 0.05 - 3 * deviation
    wrong = replace(noisy, mechanism=GaussianMechanism(12.0, adjacency="add_remove"))
    found = share(wrong, np.s_[:, 1])
    if kind == "equal":
        assert np.mean((found.low <= 0.4) & (found.high >= 0.4)) < 0.85


def test_counts_of_people_and_weighted_records_are_scaled_to_independent_ones():
    """Records that count m each are like a table of 1/m of them."""
    counts = np.array([[200.0, 300.0], [300.0, 400.0]])
    for m in (0.5, 4.0):
        many = table(m * counts, GaussianMechanism(3.0 * m, max_count=m), 1200.0 * m)
        once = table(counts, GaussianMechanism(3.0), 1200.0)
        for function in (
            share,
            lambda each: difference(each, np.s_[:, 0], 0, 1),
            lambda each: mean(each, [0, 1]),
            lambda each: quantile(each, 0.5, [0, 1, 2]),
            correlation,
            cramers_v,
        ):
            ours, theirs = function(many), function(once)
            for name in ("value", "low", "high"):
                np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
        assert independence(many).pvalue == independence(once).pvalue
        p = [[0.3, 0.2], [0.2, 0.3]]
        assert power(p, round(1000 * m), many.mechanism) == power(p, 1000, once.mechanism)
    noisy = table(counts, GaussianMechanism(3.0, max_count=4.0))
    assert share(noisy, np.s_[0, 0], population=False).value == pytest.approx(1 / 6)


def test_estimates_show_their_limits():
    assert repr(Estimate(0.25, 0.2, 0.31, 0.95)).startswith("Estimate(0.25, low=0.2, high=0.31")
    assert "[0.1, 0.2]" in repr(Estimate([0.1, 0.2], [0, 0], [1, 1], 0.9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2, 2, 2)), EXACT), "1 to 3 dimensions"),
        (([np.nan, 1.0], EXACT), "finite"),
        (([1.0, 2.0], EXACT, -1), "n_records"),
    ],
)
def test_tables_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        NoisyTable(*arguments)


def test_errors_name_the_parameter():
    noisy = table([10.0, 20.0, 30.0], GaussianMechanism(1.0), 60)
    with pytest.raises(ValueError, match="confidence"):
        share(noisy, confidence=1.0)
    with pytest.raises(ValueError, match="edges"):
        quantile(noisy, 0.5, [0, 1, 2])
    with pytest.raises(TypeError, match="values or edges"):
        mean(noisy)
    with pytest.raises(ValueError, match="two variables"):
        independence(noisy)
    with pytest.raises(ValueError, match="sum to 1"):
        goodness_of_fit(noisy, [0.5, 0.5, 0.5])
    # A selection omits counts below its threshold, so its noise has another distribution.
    for mechanism in (3.0, SelectionMechanism(2.0)):
        with pytest.raises(TypeError, match="mechanism must be"):
            NoisyTable([1.0], mechanism)


def test_several_sets_of_cells_and_several_tables_are_estimated_at_once():
    noisy = drawn(GaussianMechanism(2.0), P, 400, 5, seed=0)
    sets = np.zeros((3, 2, 3), dtype=bool)
    sets[np.arange(3), :, np.arange(3)] = True
    rows = np.zeros((3, 2, 3), dtype=bool)
    rows[:, 1] = True
    together = share(noisy, sets, rows)
    assert together.value.shape == (5, 3)
    one = NoisyTable(noisy.counts[2], noisy.mechanism, 400)
    alone = share(one, np.s_[:, 1], given=1)
    assert together[2, 1].low == pytest.approx(alone.low, abs=1e-9)
    assert difference(noisy, sets, np.s_[0], np.s_[1]).value.shape == (5, 3)
    assert mean(noisy, [0, 1, 2], axis=1, given=rows).value.shape == (5, 3)
    assert quantile(noisy, 0.5, np.arange(4.0), axis=1, given=rows).low.shape == (5, 3)


# Fitted models ----------------------------------------------------------------------

seeded = pytest.mark.filterwarnings("ignore:random_state is given")


@seeded
def test_intervals_of_a_naive_bayes_model_cover_the_probabilities_of_the_population():
    rng = np.random.default_rng(2)
    given = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    prior, n, runs = np.array([0.3, 0.7]), 1000, 30
    covered = []
    for _ in range(runs):
        y = rng.choice(2, size=n, p=prior)
        X = (rng.random(n)[:, np.newaxis] > np.cumsum(given[y], axis=1)).sum(axis=1)[:, np.newaxis]
        model = DirichletCategoricalNB(
            classes=[0, 1], n_categories=[3], epsilon=1.0, random_state=int(rng.integers(1 << 30))
        ).fit(X, y)
        tables = model.noisy_tables()
        for found, truth in ((share(tables["class"]), prior), (share(tables[0], axis=0), given)):
            covered += ((found.low <= truth) & (truth <= found.high)).ravel().tolist()
    # Intervals of one table are dependent: 30 runs count as about three intervals each.
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / (3 * runs))


@seeded
def test_quantiles_and_means_come_from_the_histograms_of_a_transformer():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 1))
    model = DirichletHistogramTransformer(bounds=(0, 1), epsilon=1.0, random_state=0).fit(X)
    (noisy,) = model.noisy_tables().values()
    edges = model.fine_edges_[0]
    median = quantile(noisy, 0.5, edges)
    assert median.low <= 0.5 <= median.high < 0.7
    average = mean(noisy, edges=edges)
    assert average.low <= 0.5 <= average.high < 0.7


@seeded
def test_tables_of_a_network_have_a_row_for_each_combination_of_parents():
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(2000, 3))
    model = PrivateBayesNetMLE(
        {0: [], 1: [0], 2: [0, 1]}, states={k: [0, 1] for k in range(3)}, random_state=0
    )
    tables = model.fit(X).noisy_tables()
    assert [each.shape for each in tables.values()] == [(1, 2), (2, 2), (4, 2)]
    found = share(tables[2], axis=0)
    assert covers(found, 0.5) >= 0.5
    # The noisy counts are those of the release: they are not post-processed.
    assert tables[2].mechanism == model.mechanisms_[2]


@seeded
def test_models_without_noisy_counts_have_no_tables():
    X, y = np.zeros((20, 1), dtype=int), np.arange(20) % 2
    public = {"classes": [0, 1], "n_categories": [2]}
    noisy = DirichletCategoricalNB(random_state=0, **public).fit(X, y)
    assert noisy.noisy_tables()
    noisy.set_params(postprocess=False).fit(X, y)
    with pytest.raises(ValueError, match="postprocess=True"):
        noisy.noisy_tables()
    weighted = DirichletCategoricalNB(max_weight=1.0, random_state=0, **public)
    with pytest.raises(ValueError, match="without weights"):
        weighted.fit(X, y, sample_weight=np.full(20, 0.5)).noisy_tables()


def test_estimates_of_different_lengths_are_not_combined():
    with pytest.raises(ValueError, match=r"same number of estimates for each table; got \[2, 3\]"):
        combine([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)])
