"""Coverage and power of inference: the quick versions."""

import numpy as np
import pytest

from benchmarks.experiments.inference_coverage import (
    PEARSON,
    QUICK_POWER_RUNS,
    QUICK_RUNS,
    TABLES,
    associated,
    probabilities,
    truths,
)


def test_tables_of_the_grid_are_distributions_with_the_named_shares():
    for name in TABLES:
        p = probabilities(name)
        assert p.sum() == pytest.approx(1)
        assert p.shape == tuple(map(int, name[:3].split("x")))
    found = truths(probabilities("2x2, .01"))
    assert found["share"] == pytest.approx(0.02)
    assert found["difference"] == pytest.approx(-0.02)
    assert truths(associated("4x4"))["Cramer's V"] == pytest.approx(0.132 / np.sqrt(3))


@pytest.mark.slow
def test_intervals_cover_and_tests_keep_their_level(quick):
    results = quick("inference-coverage")
    reach = 4 * np.sqrt(0.05 * 0.95 / QUICK_RUNS)
    is_test = results["kind"].isin(["independence", "trend", "goodness of fit"])
    assert (results[~is_test]["rate"] > 0.95 - reach).all()
    assert (results[is_test]["rate"] < 0.05 + reach).all()


@pytest.mark.slow
def test_the_test_without_noise_has_the_power_of_the_noncentral_distribution(quick):
    results = quick("inference-power")
    reach = 4 * np.sqrt(0.25 / QUICK_POWER_RUNS)
    pearson = results[results["test"] == PEARSON]
    # Noncentrality 1000 phi^2 = 9.0 with one degree of freedom: a power of 0.851.
    assert pearson[pearson["table"] == "2x2"]["power"].iloc[0] == pytest.approx(0.851, abs=reach)
