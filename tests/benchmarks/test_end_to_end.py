import numpy as np
import pytest
from dp_accounting.pld import pld_pmf

from benchmarks.experiments.end_to_end import (
    BINS_SHARE,
    DELTA,
    classifier,
    classifier_epsilon,
    private_bins,
)
from benchmarks.problems import BOUNDS, problem


def dp_accounting_epsilon(mechanisms, interval=1e-3, reach=1.0):
    """The composition by Google's library, pessimistic, from each mechanism's profile."""
    top = round(reach / interval)
    grid = np.arange(-2 * top, top + 1)
    total = None
    for mechanism, releases in mechanisms:
        upper = mechanism.delta(interval * grid[grid >= 0])
        # Pairs are symmetric: delta(-e) = 1 - exp(-e) (1 - delta(e)).
        far = np.concatenate([upper, np.zeros(top)])[1:]
        lower = 1 - np.exp(-interval * np.arange(1, 2 * top + 1)) * (1 - far)
        deltas = np.minimum.accumulate(np.concatenate([lower[::-1], upper]))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
        part = pmf.to_dense_pmf().self_compose(releases)
        total = part if total is None else total.compose(part)
    return total.get_epsilon_for_delta(DELTA)


def test_bins_and_classifier_together_use_the_whole_budget(quick):
    results = quick("end-to-end").set_index(["epsilon", "method"])
    for epsilon in (1.0, 10.0):
        for method in ("private bins, Dirichlet", "private bins, auto"):
            assert 0.98 * epsilon < results.loc[(epsilon, method), "spent"] <= epsilon
    accuracy = results["accuracy"]
    assert accuracy[10.0, "private bins, auto"] > accuracy[np.inf, "most frequent class"] + 0.1


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
def test_the_split_of_the_budget_agrees_with_dp_accounting():
    whole, n = problem("breast_cancer", None), int(0.7 * 569)
    seeded = {"n_samples": n, "delta": DELTA, "random_state": 0}
    bins = private_bins(whole, epsilon=BINS_SHARE, **seeded).fit(whole.X)
    share = classifier_epsilon("breast_cancer", None, 1.0, "dirichlet")
    model = classifier(whole, epsilon=share, **seeded).fit(
        bins.transform(whole.X).astype(int), whole.y
    )
    parts = [*bins.privacy_.mechanisms, *model.privacy_.mechanisms]
    assert 0.98 < dp_accounting_epsilon(parts) < 1.02  # its steps round up


def test_bounds_are_wider_than_the_data():
    whole = problem("breast_cancer", None)
    assert np.all(whole.low < whole.X.max(axis=0))
    assert np.all(whole.high > whole.X.max(axis=0))


def test_bounds_contain_the_papers_data(paper_data):
    for name in set(BOUNDS) - {"breast_cancer"}:
        whole = problem(name, paper_data)
        assert np.all(whole.low <= whole.X.min(axis=0)), name
        assert np.all(whole.high >= whole.X.max(axis=0)), name


def test_a_grid_search_is_charged_as_its_fits_one_by_one(quick):
    results = quick("peer-accountant").set_index(["library", "way"])
    search, fits = (
        results.loc[("skdirdp", way), "epsilon"] for way in ("GridSearchCV", "one by one")
    )
    assert search == pytest.approx(fits, rel=1e-6)
    assert set(results["fits"]) == {16}
    if "diffprivlib" in results.index.get_level_values("library"):
        assert results.loc[("diffprivlib", "GridSearchCV"), "epsilon"] == 0


def test_a_pipeline_uses_its_budget_and_is_more_accurate_if_bins_are_noisy(quick):
    (row,) = quick("pipeline-split").to_dict("records")
    assert 0.999 <= row["spent"] <= 1.0
    assert row["share"] < BINS_SHARE / 4
    assert row["accuracy_difference"] > 0
