"""Releases of a posterior, against numbers that the papers print and sums over all outputs."""

import numpy as np
import pytest
from scipy.special import betaln

from benchmarks.experiments.posteriors import clamped_laplace_pmf
from skdirdp.posterior.estimator import laplace_scale
from tests.test_posterior import brute_cell


def test_laplace_mechanisms_have_the_hit_probabilities_of_table_1(quick):
    results = quick("posterior-distances")
    hits = results[(results["distance"] == 0) & (results["epsilon"] == 1)]
    hits = hits.set_index("method")["probability"]
    assert hits["LSDim (lapMech)"] == pytest.approx(0.19673467014, rel=1e-7)
    assert hits["LSHist (ilapMech)"] == pytest.approx(0.31606027941, rel=1e-7)


def test_the_error_of_ehd_is_a_sum_over_all_candidates(quick):
    results = quick("posterior-errors").set_index(["k", "n", "method"])["mean_distance"]
    a = 1.0 + np.arange(61)
    b = a[::-1]

    def distances(i):
        affinity = betaln((a[i] + a) / 2, (b[i] + b) / 2) - (betaln(a[i], b[i]) + betaln(a, b)) / 2
        return np.sqrt(np.maximum(-np.expm1(affinity), 0))

    largest = max(distances(i)[i + 1] for i in range(60))
    weights = np.exp(-distances(30) / (2 * largest))
    expected = np.sum(weights * distances(30)) / weights.sum()
    assert results[2, 60, "EHD"] == pytest.approx(expected, rel=1e-6)


def test_the_error_of_ilapmech_is_a_sum_over_all_counts(quick):
    results = quick("posterior-priors").set_index(["prior", "method"])["mean_distance"]
    k = np.arange(101)
    tail = 1 - 0.5 * np.exp(-np.abs(np.arange(-50, 52)))  # P[noise < t] for t above 0
    below = np.where(np.arange(-50, 52) < 0, 1 - tail, tail)
    below[0], below[-1] = 0.0, 1.0
    pmf = np.diff(below)  # floor(50 + noise), clamped to 0 .. 100
    affinity = betaln((51 + 1 + k) / 2, (51 + 101 - k) / 2)
    affinity -= (betaln(51, 51) + betaln(1 + k, 101 - k)) / 2
    expected = np.sum(pmf * np.sqrt(np.maximum(-np.expm1(affinity), 0)))
    assert results[1.0, "LSHist (ilapMech)"] == pytest.approx(expected, rel=1e-6)


def test_losses_are_those_that_were_enumerated(quick):
    results = quick("posterior-losses")
    shown = results[(results["n"] <= 60) & (results["prior"] >= 0.1)]
    losses = shown.groupby("method")["loss"]
    assert losses.min()["EHD"] == pytest.approx(0.50, abs=0.005)
    assert losses.max()["EHDS (expMech smooth)"] == pytest.approx(0.38, abs=0.005)
    assert losses.max()["EHDL (not private)"] == pytest.approx(0.92, abs=0.005)
    assert losses.max()["EHD, √(1 − π/4)"] == pytest.approx(0.94, abs=0.005)


def test_table_1_and_2_of_the_paper():
    """Probabilities of the true posterior and of those one and two steps away."""
    lap = clamped_laplace_pmf(50, 100, laplace_scale("lsdim", 2, 1.0))
    improved = clamped_laplace_pmf(50, 100, laplace_scale("lshist", 2, 1.0))
    printed = {0: (0.19673467014, 0.31606027941), 1: (0.11932560927, 0.11627207896)}
    printed[2] = (0.07237464051, 0.04277410743)
    for step, values in printed.items():
        assert lap[50 + step] == pytest.approx(values[0], abs=1.1e-11)
        assert improved[50 + step] == pytest.approx(values[1], abs=1.1e-11)
    # Balanced data: both sides are at one distance.
    both = {1: (0.31606027941, 0.43233235838), 2: (0.19170024978, 0.1590461864)}
    for step, values in both.items():
        assert lap[[50 - step, 50 + step]].sum() == pytest.approx(values[0], abs=1.1e-11)
        assert improved[[50 - step, 50 + step]].sum() == pytest.approx(values[1], abs=1.1e-10)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_the_clamped_noise_matches_the_laplace_distribution(n):
    for count in range(n + 1):
        np.testing.assert_allclose(
            clamped_laplace_pmf(count, n, 1.7), brute_cell(count, n, 1.7), rtol=1e-12
        )
