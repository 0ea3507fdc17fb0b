"""Efficiency of filters: tests against independent counts."""

import numpy as np
import pytest

from benchmarks.experiments.filters import exact_rounds, renyi_rounds, workloads


def test_the_filter_admits_the_promised_share_and_no_more_than_exact_composition(quick):
    results = quick("filters").set_index("workload")
    rounds = results.drop("charges")
    assert (rounds["filter"] <= rounds["exact"]).all()
    assert (rounds["renyi"] <= rounds["exact"]).all()
    shares = rounds["filter"] / rounds["exact"]
    assert shares["Dirichlet"] >= 0.95
    assert 0.75 <= shares["tables and noise"] < 0.95
    assert results.loc["charges", "median_ms"] > 0


def test_the_counts_of_gaussian_noise_are_those_of_closed_forms():
    _, one_round = workloads()["Gaussian"]
    # Balle and Wang (2018): (1, 1e-5)-DP is a mu of 0.26806.
    assert exact_rounds(one_round, 1.0, 1e-5) == pytest.approx(0.26806**2 / (2 / 160**2), abs=1)
    rounds, order = renyi_rounds(one_round, 1.0, 1e-5)
    divergence = rounds * order / 160**2
    cost = np.log1p(-1 / order) - (np.log(1e-5) + np.log(order)) / (order - 1)
    assert divergence + cost == pytest.approx(1.0, abs=2e-3)
