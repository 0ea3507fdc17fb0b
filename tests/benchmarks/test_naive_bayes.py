"""Comparison of naive Bayes models: tests against independent formulas."""

import numpy as np
import pytest
from mpmath import mp
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from benchmarks import data

ORDER = 5.0


def algorithm1(epsilon):
    """r and alpha of paper A's Algorithm 1 for (5, epsilon)-RDP of one table."""

    def excess(log_r):
        r = np.exp(log_r)
        return np.log(ORDER * r**2 * polygamma(1, 1 + 3 * (ORDER - 1) * r)) - np.log(epsilon)

    r = np.exp(brentq(excess, -20, 20))
    return r, 1 + 4 * (ORDER - 1) * r


def renyi(r, alpha):
    r, alpha = mp.mpf(r), mp.mpf(alpha)
    terms = mp.loggamma(alpha + ORDER * r) + mp.loggamma(alpha - (ORDER - 1) * r)
    return (terms - mp.loggamma(alpha + r) - mp.loggamma(alpha)) / (ORDER - 1)


def expected_kl(X, y, n_classes, sizes, r, alpha):
    """Expected KL divergence of all tables of a model, by loops over records and cells."""
    total = 0.0
    columns = [(np.zeros(len(y), dtype=int), y, n_classes)]
    columns += [(y, column, size) for column, size in zip(X.T, sizes, strict=True)]
    for rows, cells, size in columns:
        for row in np.unique(rows):
            counts = np.array([np.sum((rows == row) & (cells == cell)) for cell in range(size)])
            p = counts / counts.sum()
            entropy = sum(q * np.log(q) for q in p if q > 0)
            expected = digamma(r * counts + alpha) - digamma(r * counts.sum() + size * alpha)
            total += counts.sum() / len(y) * (entropy - p @ expected)
    return total


@pytest.fixture
def quick_naive_bayes(paper_data, quick):
    return quick("naive-bayes").set_index(["data", "guarantee", "epsilon", "method"])


def test_the_expected_divergences_are_those_of_the_formulas(quick_naive_bayes, paper_data):
    table = data.coded(data.load("german_credit", paper_data))
    r, alpha = algorithm1(1.0 / 21)
    expected = []
    for repeat in range(2):
        train, _ = data.split(len(table.y), repeat)
        expected.append(
            expected_kl(table.X[train], table.y[train], 2, table.n_categories, r, alpha)
        )
    found = quick_naive_bayes.loc["german_credit", "RDP", 1.0, "Dirichlet, Algorithm 1"]
    assert found["r"] == pytest.approx(r, rel=1e-6)
    assert found["expected_kl"] == pytest.approx(np.mean(expected), rel=1e-6)

    exact = quick_naive_bayes.loc["german_credit", "RDP", 1.0, "Dirichlet, exact"]
    assert 21 * renyi(exact["r"], exact["alpha"]) == pytest.approx(1.0, rel=1e-6)
    kl = quick_naive_bayes["expected_kl"].unstack("method")
    assert (kl["Dirichlet, exact"] < kl["Dirichlet, Algorithm 1"]).all()


def test_a_random_guess_has_the_loss_of_a_fair_die(quick):
    results = quick("naive-bayes-fresh").set_index(["data", "guarantee", "epsilon", "method"])
    loss = results["cross_entropy"].unstack("method")
    assert loss.loc["iris", "random guess"].to_numpy() == pytest.approx(np.log(3))
    accuracy = results["accuracy"].unstack("method")
    assert accuracy.loc["iris", "random guess"].to_numpy() == pytest.approx(1 / 3)
    kl = results["expected_kl"].unstack("method")
    assert (kl["Dirichlet, exact"] < kl["Dirichlet, Algorithm 1"]).all()
