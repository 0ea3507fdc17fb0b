"""Accuracy bounds hold, and their inverses are correct."""

import mpmath
import numpy as np
import pytest
from scipy.stats import dirichlet

from skdirdp import utility
from skdirdp.mechanisms import DirichletMechanism
from skdirdp.utility.budgets import _smallest_reaching

COUNTS = np.array([70.0, 20.0, 10.0, 0.0])


def divergences(p, Y):
    seen = p > 0
    return (p[seen] * np.log(p[seen] / Y[:, seen])).sum(axis=1)


def draws(counts, r, alpha, n, seed=0):
    return np.random.default_rng(seed).dirichlet(r * np.asarray(counts) + alpha, n)


# Exact values ----------------------------------------------------------------------


@pytest.mark.parametrize(("r", "alpha"), [(0.5, 2.0), (0.01, 0.3), (30.0, 1e6)])
def test_expected_kl_is_the_formula_in_many_digits(r, alpha):
    with mpmath.workdps(60):
        x, n, d = [mpmath.mpf(c) for c in COUNTS], mpmath.mpf(100), 4
        exact = mpmath.digamma(r * n + d * mpmath.mpf(alpha))
        for c in x:
            if c > 0:
                exact += c / n * (mpmath.log(c / n) - mpmath.digamma(r * c + alpha))
    assert utility.expected_kl(COUNTS, r, alpha) == pytest.approx(float(exact), rel=1e-8)


def test_expected_kl_is_the_mean_over_draws():
    found = divergences(COUNTS / 100, draws(COUNTS, 0.5, 2.0, 200_000))
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - utility.expected_kl(COUNTS, 0.5, 2.0)) < 5 * error


@pytest.mark.parametrize(("r", "alpha"), [(0.5, 2.0), (3.0, 0.1)])
def test_bias_and_variance_are_those_of_the_dirichlet_distribution(r, alpha):
    shapes = r * COUNTS + alpha
    np.testing.assert_allclose(
        COUNTS / 100 + utility.bias(COUNTS, r, alpha), dirichlet.mean(shapes), rtol=1e-12
    )
    np.testing.assert_allclose(
        utility.variance(COUNTS, r, alpha), dirichlet.var(shapes), rtol=1e-12
    )


def test_the_variance_on_the_simplex_agrees_with_the_paper():
    p = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(utility.simplex_variance(p, 24.0), dirichlet.var(24 * p))
    # Section VI of the paper: k = 24 keeps the variance below 0.01.
    assert utility.concentration_for_variance(0.01) == 24
    assert utility.simplex_variance([0.5, 0.5], 24.0).max() == pytest.approx(0.01)


def test_the_divergence_of_dirichlets_agrees_with_quadrature():
    a, b = [2.0, 3.5], [4.0, 1.5]
    with mpmath.workdps(30):

        def log_density(t, shapes):
            log_beta = mpmath.log(mpmath.beta(*shapes))
            return (shapes[0] - 1) * mpmath.log(t) + (shapes[1] - 1) * mpmath.log(1 - t) - log_beta

        exact = mpmath.quad(
            lambda t: mpmath.exp(log_density(t, a)) * (log_density(t, a) - log_density(t, b)),
            [0, 0.5, 1],
        )
    assert utility.dirichlet_kl(a, b) == pytest.approx(float(exact), rel=1e-10)
    assert utility.dirichlet_kl(a, a) == pytest.approx(0, abs=1e-14)


def test_the_renyi_divergence_of_dirichlets_is_below_the_worst_case_and_its_bound():
    x, y = np.array([11.0, 8, 65, 25, 38, 0]), np.array([11.0, 8, 65, 25, 38, 1])
    for alpha in (1.5, 3.0, 20.0):
        found = utility.dirichlet_renyi(x + alpha, y + alpha, 2.0)
        worst = DirichletMechanism(1.0, alpha, adjacency="add_remove").rdp(2.0)
        assert found <= worst <= 2 * utility.tcdp_rho(alpha, squared_sensitivity=1.0)
    assert utility.dirichlet_renyi(x + 1.0, y + 1.0, 2.0) == np.inf
    # By quadrature, for two cells.
    a, b = [3.0, 4.0], [4.0, 3.5]
    exact = mpmath.log(
        mpmath.quad(
            lambda t: t ** (2 * a[0] - b[0] - 1) * (1 - t) ** (2 * a[1] - b[1] - 1), [0, 0.5, 1]
        )
        * mpmath.beta(*b)
        / mpmath.beta(*a) ** 2
    )
    assert utility.dirichlet_renyi(a, b, 2.0) == pytest.approx(float(exact), rel=1e-10)


# Tail bounds hold ------------------------------------------------------------------

HISTOGRAMS = [
    np.array([200.0, 0, 0, 0, 0]),
    np.full(5, 40.0),
    np.random.default_rng(0).multinomial(2000, np.arange(1, 31) / 465).astype(float),
]


@pytest.mark.parametrize("counts", HISTOGRAMS)
@pytest.mark.parametrize(("r", "alpha"), [(1.0, 0.5), (0.3, 2.0), (5.0, 4.0)])
def test_measured_failures_never_exceed_the_stated_rate(counts, r, alpha):
    n, d, p = counts.sum(), counts.size, counts / counts.sum()
    Y = draws(counts, r, alpha, 4000)
    for beta in (0.5, 0.1, 0.01):
        allowed = beta + 3 * np.sqrt(beta / len(Y))
        limit = utility.kl_tail_error(beta, n, d, r, alpha)
        assert np.mean(divergences(p, Y) > limit) <= allowed
        limit = utility.linf_bound(n, d, alpha, beta, r)
        assert np.mean(np.abs(Y - p).max(axis=1) > limit) <= allowed
        unbiased = Y * (1 + d * alpha / r / n) - alpha / r / n
        far = np.abs(np.cumsum(unbiased - p, axis=1)[:, :-1]).max(axis=1)
        assert np.mean(far > utility.cdf_bound(n, d, alpha, beta, r)) <= allowed


def test_measured_failures_of_gaussian_noise_never_exceed_the_stated_rate():
    n, d, rho = 500, 40, 0.1
    noise = np.random.default_rng(0).normal(0, np.sqrt(2 / (2 * n**2 * rho)), (4000, d))
    for beta in (0.5, 0.1, 0.01):
        limit = utility.gaussian_linf_bound(n, d, rho, beta)
        assert np.mean(np.abs(noise).max(axis=1) > limit) <= beta + 3 * np.sqrt(beta / 4000)


def test_kl_tail_is_the_papers_formula_under_its_condition():
    eta, n, d, r, alpha = 0.5, 10_000, 10, 0.2, 2.0
    stated = np.exp(-r * n * eta**2 / (2 * (2 + eta) * (4 + 3 * eta)))
    assert utility.kl_tail(eta, n, d, r, alpha) == pytest.approx(stated, rel=1e-12)
    # 20 / (e^(1/4) - 1) = 70.4: for smaller r N the bound is trivial.
    assert utility.kl_tail(eta, 351, d, r, alpha) == 1.0
    assert utility.kl_tail(eta, 353, d, r, alpha) < 1.0
    with pytest.raises(ValueError, match=r"alpha must be at least 0\.5"):
        utility.kl_tail(eta, n, d, r, 0.4)


def test_the_posterior_bound_is_above_the_mean_of_the_exact_divergence():
    rng = np.random.default_rng(0)
    for p in (np.full(6, 1 / 6), np.array([0.6, 0.3, 0.05, 0.05])):
        for n, extra in ((20, 0.5), (200, 3.0), (2000, 20.0)):
            X = rng.multinomial(n, p, 300)
            exact = [utility.dirichlet_kl(x + 1.0, x + 1.0 + extra) for x in X]
            assert np.mean(exact) <= utility.posterior_kl_bound(p, n, extra)


# Inverses --------------------------------------------------------------------------


def just_enough(bound, rows, target):
    assert bound(rows) <= target * (1 + 1e-9)
    if rows > 1:
        assert bound(rows - 1) > target * (1 - 1e-9)


def test_the_number_of_rows_is_the_smallest_that_reaches_the_target():
    just_enough(
        lambda n: utility.linf_bound(n, 100, 3.0, 0.05, 0.4),
        utility.linf_rows(0.03, 100, 3.0, 0.05, 0.4),
        0.03,
    )
    just_enough(
        lambda n: utility.cdf_bound(n, 64, 3.0, 0.05, 0.4),
        utility.cdf_rows(0.03, 64, 3.0, 0.05, 0.4),
        0.03,
    )
    just_enough(
        lambda n: utility.kl_tail(0.2, n, 10, 0.3, 2.0),
        utility.kl_tail_rows(0.2, 0.05, 10, 0.3, 2.0),
        0.05,
    )
    just_enough(
        lambda n: utility.gaussian_linf_bound(n, 100, 0.1, 0.05),
        utility.gaussian_linf_rows(0.03, 100, 0.1, 0.05),
        0.03,
    )
    p = np.array([0.2, 0.8])
    just_enough(
        lambda n: utility.posterior_kl_bound(p, n, 3.0), utility.posterior_kl_rows(p, 3.0, 0.1), 0.1
    )


def test_noise_parameters_reach_the_target_exactly():
    alpha = utility.linf_alpha(0.1, 5000, 100, 0.05)
    assert utility.linf_bound(5000, 100, alpha, 0.05) == pytest.approx(0.1)
    assert np.isnan(utility.linf_alpha(1e-6, 5000, 100, 0.05))
    rho = utility.gaussian_linf_rho(0.01, 5000, 100, 0.05)
    assert utility.gaussian_linf_bound(5000, 100, rho, 0.05) == pytest.approx(0.01)
    extra = utility.posterior_kl_extra([0.2, 0.8], 500, 0.1)
    assert utility.posterior_kl_bound([0.2, 0.8], 500, extra) == pytest.approx(0.1)
    for rho in (0.01, 0.1, 1.0, 30.0):
        assert utility.tcdp_rho(utility.tcdp_alpha(rho)) == pytest.approx(rho)
    eta = utility.kl_tail_error(0.05, 10_000, 10, 0.3, 2.0)
    assert utility.kl_tail(eta, 10_000, 10, 0.3, 2.0) == pytest.approx(0.05)
    assert utility.kl_tail_error(0.05, 10, 10, 0.3, 2.0) == np.inf


def test_the_number_of_rows_has_the_stated_order_of_growth():
    # (14) omits a constant, which is between 1/3 and 3 over three decades.
    for rho in (0.01, 0.1):
        alpha = utility.tcdp_alpha(rho)
        for target in (0.3, 0.1, 0.03, 0.01, 0.003):
            rows = utility.linf_rows(target, 50, alpha, 0.05)
            assert 1 / 3 < rows / utility.linf_rows_order(target, 50, rho, 0.05) < 3
    assert utility.linf_rows_order(0.1, 50, 4.0, 0.05) < utility.linf_rows_order(0.1, 50, 0.5, 0.05)


def test_a_budget_for_an_accuracy_gives_that_accuracy():
    error = utility.accuracy_from_budget("cdf", 20_000, 10, epsilon=1.5)
    assert utility.budget_for_accuracy("cdf", error, 20_000, 10) == pytest.approx(1.5, rel=0.01)


def test_rows_for_an_accuracy_give_that_accuracy():
    error = utility.accuracy_from_budget("kl", 20_000, 10, epsilon=1.5)
    rows = utility.rows_for_accuracy("kl", error, 10, epsilon=1.5)
    assert rows == pytest.approx(20_000, rel=0.01)


def test_the_search_for_a_budget_ends_from_above_or_at_its_limits():
    limits = 1.0, 1e-3, 1e3
    for root in (0.007, 0.74, 1.0, 9.0, 400.0):
        found = _smallest_reaching(2.0, lambda u, root=root: 2 * root / u, *limits)
        assert root * (1 - 1e-12) <= found <= root * (1 + 2e-3)
    steep = _smallest_reaching(2.0, lambda u: np.inf if u < 12.2 else 2.0 / u, *limits)
    assert 12.2 <= steep <= 12.2 * (1 + 2e-3)
    assert _smallest_reaching(2.0, lambda u: 3.0, *limits) == np.inf
    assert _smallest_reaching(2.0, lambda u: 1.0, *limits) == np.exp(np.log(1e-3))


def test_a_calibrated_release_is_as_accurate_as_promised():
    error = utility.accuracy_from_budget("linf", 3000, 12, epsilon=1.0, beta=0.2)
    mechanism = DirichletMechanism.calibrate(
        epsilon=1.0, delta=1e-5, n_samples=3000, n_categories=12, min_smoothing=0.0
    )
    counts = np.full(12, 250.0)
    Y = mechanism.release(np.tile(counts, (2000, 1)))
    assert np.mean(np.abs(Y - counts / 3000).max(axis=1) > error) <= 0.2


# Bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: utility.expected_kl([0, 0], 1.0, 1.0), "a vector with a positive sum"),
        (lambda: utility.expected_kl([1, -1], 1.0, 1.0), "counts must be at least 0"),
        (lambda: utility.expected_kl([1, 1], 0.0, 1.0), "r must be greater than 0"),
        (lambda: utility.bias([1, 1], 1.0, -2.0), "alpha must be greater than 0"),
        (lambda: utility.linf_bound(10, 0, 1.0, 0.1), "n_categories must be at least 1"),
        (lambda: utility.linf_bound(10, 5, 1.0, 1.5), "beta must be"),
        (lambda: utility.linf_rows(0.0, 5, 1.0, 0.1), "target must be"),
        (lambda: utility.posterior_kl_bound([0.0, 1.0], 10, 1.0), "p must be positive"),
        (lambda: utility.posterior_kl_bound([0.5, 0.6], 10, 1.0), "sum to 1"),
        (lambda: utility.tcdp_rho(1.0), "alpha must be greater than 1"),
        (lambda: utility.accuracy_from_budget("l1", 10, 5, epsilon=1.0), "measure must be one of"),
        (lambda: utility.concentration_for_variance(0.0), "target must be"),
    ],
)
def test_an_invalid_argument_is_named_in_the_error(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
