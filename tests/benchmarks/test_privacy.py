"""Claimed and exact privacy, against mpmath, dp-accounting's numbers and the papers' formulas."""

import mpmath
import numpy as np
import pytest


def value(results, column, **where):
    for name, wanted in where.items():
        kept = np.isclose(results[name], wanted) if results[name].dtype.kind in "if" else None
        results = results[results[name] == wanted if kept is None else kept]
    (found,) = results[column]
    return found


def test_the_claimed_and_the_worst_divergence_agree_with_mpmath(quick):
    results = quick("renyi-claims")
    r, order = mpmath.mpf("0.1"), 20
    alpha = 1 + 4 * (order - 1) * r
    # Spec: R = [lnGamma(a + order r) + lnGamma(a - (order - 1) r) - lnGamma(a + r) - lnGamma(a)]
    worst = (
        mpmath.loggamma(alpha + order * r)
        + mpmath.loggamma(alpha - (order - 1) * r)
        - mpmath.loggamma(alpha + r)
        - mpmath.loggamma(alpha)
    ) / (order - 1)
    claim = order * r**2 * mpmath.psi(1, 1 + 3 * (order - 1) * r)
    for analysis, expected in (("worst case, exact", worst), ("Algorithm 1's claim", claim)):
        found = value(results, "divergence", order=order, r=0.1, analysis=analysis)
        assert found == pytest.approx(float(expected), rel=1e-6)


def test_the_kl_divergence_at_equal_claims_is_the_mean_over_draws(quick):
    results = quick("kl-equal-claim")
    exact = results[results["method"] == "Dirichlet, exact"].iloc[0]
    algorithm1 = results[results["method"] == "Dirichlet, Algorithm 1"].iloc[0]
    # Lemma 3 of paper A, at order 20 and delta 1e-5, must give back epsilon = 1.
    order, r = 20, algorithm1["r"]
    divergence = order * r**2 * float(mpmath.psi(1, 1 + 3 * (order - 1) * r))
    converted = divergence + np.log(19) - (np.log(1e-5) + 20 * np.log(20)) / 19
    assert converted == pytest.approx(1.0, rel=1e-5)
    # A mean over draws, instead of digammas.
    x = np.array([119, 74, 618, 272, 13, 187])
    p = x / x.sum()
    y = np.random.default_rng(0).dirichlet(exact["r"] * x + exact["alpha"], 20_000)
    drawn = np.sum(p * np.log(p / y), axis=1)
    assert exact["kl"] == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(len(y)))


def test_the_epsilon_of_composed_releases_is_that_of_dp_accounting(quick):
    results = quick("claimed-epsilon")
    for r, releases, exact, renyi in ((0.05, 14, 0.7865, 0.8697), (0.01, 65, 0.4806, 0.5300)):
        where = {"part": "composition", "r": r, "releases": releases}
        assert value(results, "epsilon", route="exact", **where) == pytest.approx(exact, abs=6e-5)
        found = value(results, "epsilon", route="RDP, best order", **where)
        assert found == pytest.approx(renyi, abs=6e-5)


def test_rho_of_one_pair_agrees_with_mpmath(quick):
    results = quick("tcdp-claims")
    x = [11, 8, 65, 25, 38, 0]

    def log_beta(shapes):
        return sum(map(mpmath.loggamma, shapes)) - mpmath.loggamma(sum(shapes))

    first = [count + 10 for count in x]
    second = [*first[:-1], 11]
    tilted = [*first[:-1], 9]
    actual = (log_beta(second) + log_beta(tilted) - 2 * log_beta(first)) / 2
    found = value(results, "value", alpha=10.0, analysis="actual, from 0 to 1")
    assert found == pytest.approx(float(actual), rel=1e-6)
    bound = value(results, "value", alpha=10.0, analysis="B (2)")
    assert bound == pytest.approx(float(mpmath.psi(1, 9)) / 2, rel=1e-6)
