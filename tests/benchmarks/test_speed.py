"""Timed comparisons: both sides compute the same result. Times are not tested."""

import pandas as pd
import pytest
from sklearn.preprocessing import KBinsDiscretizer

from benchmarks.experiments.memory import Memory
from benchmarks.experiments.speed import Speed
from benchmarks.timing import allocated


@pytest.mark.skipif(
    "quantile_method" not in KBinsDiscretizer().get_params(),
    reason="scikit-learn before 1.7 has another definition of a quantile only",
)
def test_both_sides_of_each_speed_compute_the_same(quick):
    found = quick("speed").set_index("what")["difference"].abs().groupby(level=0).max()
    for what, difference in found.dropna().items():
        # Noise: the mean of log Y; shares in samples of 2000 records.
        least = {"release": 0.02, "PrivateBayesNetMLE.sample": 0.1}
        allowed = next((least[name] for name in least if what.startswith(name)), 1e-8)
        assert difference <= allowed, what
    assert found.notna().sum() >= 15


def test_a_promise_is_judged_by_its_worst_case():
    rows = pd.DataFrame(
        {
            "what": ["fit", "fit", "charge"],
            "case": ["small", "large", "any"],
            "ours": [1.0, 1.0, 0.004],
            "theirs": [8.0, 4.0, float("nan")],
            "ratio": [1 / 8, 1 / 4, float("nan")],
            "peer": ["peer", "peer", ""],
            "at_most_ratio": [1 / 6, 1 / 6, float("nan")],
            "at_most_seconds": [float("nan"), float("nan"), 0.005],
        }
    )
    fit, charge = Speed().claims(rows)
    assert not fit.holds
    assert fit.found == "4 times faster (large)"
    assert charge.holds
    assert charge.found == "4 ms (any)"


def test_memory_of_both_sides_is_measured_in_separate_processes(quick):
    results = quick("memory")
    # 100 000 rows of 20 integers of 8 bytes are resident before the fit starts.
    assert (results["before"] > 100_000 * 20 * 8 / 2**20).all()
    assert (results["peak"] >= results["before"]).all()
    assert len(Memory().claims(results)) == 1


def test_allocated_memory_is_that_of_the_largest_moment():
    assert allocated(lambda: bytearray(2**22)) == pytest.approx(4, rel=0.01)
