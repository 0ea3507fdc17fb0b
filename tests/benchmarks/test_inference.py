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
from benchmarks.experiments.inference_widths import (
    HIDDEN,
    NEEDED,
    POPULATIONS,
    TOO_WIDE,
    shrunk,
    verdicts,
)
from skdirdp.inference import Estimate


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


@pytest.mark.parametrize("shape", [(2, 2), (4, 4), (2, 5), (6, 4), (8, 8)])
def test_least_favourable_populations_are_distributions(shape):
    for make in {make for populations in POPULATIONS.values() for make in populations}:
        p = make(*shape)
        assert p.shape == shape
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0


def test_shrunk_intervals_have_the_same_estimate():
    found = shrunk(Estimate(0.5, 0.25, 1.0, 0.95), "share")
    assert (found.low, found.high) == pytest.approx((0.3, 0.9))
    found = shrunk(Estimate(2.0, 1.0, 32.0, 0.95), "odds ratio")
    assert (found.low, found.high) == pytest.approx((2**0.2, 2**4.2))


@pytest.mark.parametrize(
    ("kind", "rates", "verdict"),
    [
        ("difference", {"shrunk": 0.94}, NEEDED),
        ("difference", {"shrunk": 0.96}, TOO_WIDE),
        ("difference", {"shrunk": 0.96, "whole": 0.6}, HIDDEN),
        ("quantile", {"rate": 0.97}, NEEDED),
        ("quantile", {"rate": 0.995}, TOO_WIDE),
    ],
)
def test_widths_are_judged_at_the_least_favourable_population(kind, rates, verdict):
    place = {"mechanism": "gaussian", "adjacency": "replace", "n": 300, "epsilon": 1.0}
    place |= {"shape": "4x4", "kind": kind}
    cells = pd.DataFrame([{"experiment": "inference-coverage", **place}])
    wide = {"rate": 1.0, "shrunk": 1.0, "whole": 1.0, "runs": 500}
    results = pd.DataFrame([{**place, **wide}, {**place, **wide, "whole": 0.0, **rates}])
    assert verdicts(cells, results)["verdict"].tolist() == [verdict]
