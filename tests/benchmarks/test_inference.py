"""Coverage and power of inference: the quick versions."""

import numpy as np
import pandas as pd
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
from benchmarks.experiments.inference_further import (
    HYPOTHESES,
    INTERVALS,
    InferenceTests,
    fresh_tables,
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


def test_fresh_tables_are_distributions_that_differ_from_the_grid():
    for name, p in fresh_tables().items():
        assert p.sum() == pytest.approx(1)
        assert p.shape == tuple(map(int, name[:3].split("x")))
        assert min(p.sum(axis=0).min(), p.sum(axis=1).min()) > 0.001
    assert not set(fresh_tables()) & set(TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inference-coverage", "inference-fresh"])
def test_intervals_cover(quick, name):
    results = quick(name)
    assert len(results) > 50
    assert (results["rate"] > 0.95 - 4 * np.sqrt(0.05 * 0.95 / QUICK_RUNS)).all()


@pytest.mark.slow
def test_tests_keep_their_level(quick):
    results = quick("inference-tests")
    assert set(results["kind"]) == {"independence", "trend", "goodness of fit"}
    assert set(results["table"]) > set(TABLES)
    assert (results["rate"] < 0.05 + 4 * np.sqrt(0.05 * 0.95 / QUICK_RUNS)).all()


@pytest.mark.slow
def test_further_statistics_cover_and_keep_their_level(quick):
    results = quick("inference-further")
    assert set(results["kind"]) == {*INTERVALS, *HYPOTHESES}
    reach = 4 * np.sqrt(0.05 * 0.95 / QUICK_RUNS)
    is_test = results["kind"].isin(HYPOTHESES)
    assert (results[~is_test]["rate"] > 0.95 - reach).all()
    assert (results[is_test]["rate"] < 0.05 + reach).all()


def test_rejections_are_judged_by_the_second_measurement():
    results = pd.DataFrame(
        {"table": ["2x2, .01", "2x5, even"], "runs": 2000, "rate": [0.064, 0.0675]}
    )
    verdicts = [
        [claim.holds for claim in InferenceTests().claims(results.assign(again=again))]
        for again in ([0.05, 0.05], [0.061, 0.05], [np.nan, np.nan])
    ]
    assert verdicts == [[True, True], [False, True], [False, False]]


@pytest.mark.slow
def test_the_test_without_noise_has_the_power_of_the_noncentral_distribution(quick):
    results = quick("inference-power")
    reach = 4 * np.sqrt(0.25 / QUICK_POWER_RUNS)
    pearson = results[results["test"] == PEARSON]
    # Noncentrality 1000 phi^2 = 9.0 with one degree of freedom: a power of 0.851.
    assert pearson[pearson["table"] == "2x2"]["power"].iloc[0] == pytest.approx(0.851, abs=reach)
