"""Estimates and tests of PrivateCrosstab, its displays, and the command."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivacyAccountant, PrivateCrosstab, Schema
from skdirdp.command import main
from skdirdp.crosstab.queries import TableQueries
from skdirdp.displays import ForestDisplay, TableDisplay
from skdirdp.displays.base import to_svg

from .test_reporting import assert_loads_nothing

INF = float("inf")
N = 4000
SCHEMA = Schema(
    {
        "sex": ["f", "m"],
        "ward": Schema.categories(["a", "b", "c"], missing=False),
        "age": Schema.numbers(0, 99, bins=[20, 40, 60, 80]),
        "weight": Schema.numbers(0.0, 100.0, bins=4, missing=False),
        "readmitted": Schema.categories([0, 1], missing=False),
    }
)


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], N).astype(object)
    sex[rng.random(N) < 0.05] = None
    age = rng.integers(0, 100, N).astype(float)
    age[rng.random(N) < 0.1] = np.nan
    readmitted = (rng.random(N) < np.where(sex == "f", 0.2, 0.5)).astype(int)
    return pd.DataFrame(
        {
            "sex": sex,
            "ward": rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2]),
            "age": age,
            "weight": rng.normal(50 + 10 * readmitted, 10, N).clip(0, 100),
            "readmitted": readmitted,
        }
    )


@pytest.fixture(scope="module")
def exact(visits):
    return PrivateCrosstab(SCHEMA, epsilon=INF).fit(visits)


@pytest.fixture(scope="module")
def tabs(visits):
    return PrivateCrosstab(SCHEMA, epsilon=5.0).fit(visits)


# --- Without noise, estimates are those of pandas -----------------------------------


def test_shares_count_all_records(visits, exact):
    is_f = visits["sex"] == "f"
    assert exact.share({"sex": "f"}).value == pytest.approx(is_f.mean())
    assert exact.share({"sex": None}).value == pytest.approx(visits["sex"].isna().mean())
    found = exact.share({"readmitted": 1}, given={"sex": "f"})
    assert found.value == pytest.approx(visits.loc[is_f, "readmitted"].mean())
    assert found.low < found.value < found.high
    assert found.confidence == 0.95
    several = exact.share({"ward": ["a", "c"], "sex": ["f", "m"]}).value
    wanted = (visits["ward"].isin(["a", "c"]) & visits["sex"].notna()).mean()
    assert several == pytest.approx(wanted)
    old = exact.share({"age": (60, 99)}, {"readmitted": 1}).value
    part = visits[visits["readmitted"] == 1]
    assert old == pytest.approx((part["age"] >= 60).mean())


def test_shares_of_columns_are_arrays(visits, exact):
    by_sex = exact.share("ward", "sex")
    wanted = pd.crosstab(visits["sex"].fillna("(missing)"), visits["ward"], normalize="index")
    np.testing.assert_allclose(by_sex.value, wanted.loc[["f", "m", "(missing)"]])
    joint = exact.share(("ward", "sex"))
    assert joint.value.shape == (3, 3)
    np.testing.assert_allclose(joint.value.sum(), 1.0)
    np.testing.assert_allclose(exact.share("ward", {"sex": "m"}).value, by_sex.value[1])
    np.testing.assert_allclose(exact.share({"ward": "b"}, "sex").value, by_sex.value[:, 1])


def test_comparisons_of_groups(visits, exact):
    rates = visits.groupby("sex")["readmitted"].mean()
    event = {"readmitted": 1}
    found = exact.difference(event, "sex")
    assert found.value == pytest.approx(rates["m"] - rates["f"])
    assert exact.difference(event, "sex", reference="m").value == pytest.approx(-found.value)
    assert exact.ratio(event, "sex").value == pytest.approx(rates["m"] / rates["f"])
    by_ward = visits.groupby("ward")["readmitted"].mean()
    np.testing.assert_allclose(
        exact.difference(event, "ward").value,
        [by_ward["b"] - by_ward["a"], by_ward["c"] - by_ward["a"]],
    )
    odds = rates / (1 - rates)
    assert exact.odds_ratio("sex", "readmitted").value == pytest.approx(odds["m"] / odds["f"])
    assert exact.odds_ratio("ward", "sex").value.shape == (2, 1)


def test_means_and_quantiles_include_the_bins(visits, exact):
    found = exact.mean("readmitted")
    assert found.value == pytest.approx(visits["readmitted"].mean())
    for column, width in (("age", 20), ("weight", 25)):
        found = exact.mean(column, "readmitted")
        true = visits.groupby("readmitted")[column].mean()
        assert ((found.low <= true) & (true <= found.high)).all()
        assert (found.high - found.low < 1.3 * width).all()
        median = exact.quantile(column, 0.5)
        assert median.low <= visits[column].median() <= median.high
        assert median.high - median.low <= width
    with pytest.raises(ValueError, match="'sex' must contain numbers"):
        exact.mean("sex")
    with pytest.raises(ValueError, match="binned numbers"):
        exact.quantile("readmitted", 0.5)


def test_tests_leave_missing_values_out(visits, exact):
    from scipy.stats import chi2_contingency

    counts = pd.crosstab(visits["sex"], visits["readmitted"])
    found = exact.independence("sex", "readmitted")
    statistic, pvalue, dof, _ = chi2_contingency(counts, correction=False)
    assert found.statistic == pytest.approx(statistic)
    assert found.pvalue == pytest.approx(pvalue, abs=1e-12)
    assert found.dof == dof == exact.homogeneity("sex", "readmitted").dof
    assert exact.trend("age", "readmitted").dof == 1
    even = exact.goodness_of_fit("ward", {"a": 0.5, "b": 0.3, "c": 0.2})
    assert even.pvalue == exact.goodness_of_fit("ward", [0.5, 0.3, 0.2]).pvalue > 0.01
    assert exact.goodness_of_fit("ward").pvalue < 0.01
    with pytest.raises(ValueError, match="'ward' must be one of"):
        exact.goodness_of_fit("ward", {"x": 1.0})


def test_measures_of_association(visits, exact):
    counts = pd.crosstab(visits["sex"], visits["readmitted"]).to_numpy()
    phi = np.linalg.det(counts) / np.sqrt(np.prod([*counts.sum(axis=0), *counts.sum(axis=1)]))
    assert exact.correlation("sex", "readmitted").value == pytest.approx(phi, abs=1e-6)
    assert exact.cramers_v("sex", "readmitted").value == pytest.approx(abs(phi), rel=0.05)


# --- With noise ------------------------------------------------------------------


class Samples(TableQueries):
    """Fits to several samples, which answer a query for all of them at once."""

    def __init__(self):
        self.fits = []

    def add(self, fitted):
        self.categories_, self.schema_ = fitted.categories_, fitted.schema_
        self.fits.append(deepcopy(fitted))

    def noisy_table(self, *columns):
        tables = [fitted.noisy_table(*columns) for fitted in self.fits]
        return replace(tables[0], counts=np.array([each.counts for each in tables]), batch_dims=1)


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_intervals_cover_the_population(mechanism):
    """Of 300 intervals at 95%, 271 to 295 cover, but for a probability of 1e-3 each."""
    rng = np.random.default_rng(7)
    p = np.array([[0.4, 0.1], [0.2, 0.3]])
    yes_no = Schema.categories([0, 1], missing=False)
    schema = Schema({"a": yes_no, "b": yes_no, "c": yes_no})
    tables = [("a", "b"), ("a", "c"), ("b", "c")]
    model = PrivateCrosstab(
        schema, tables, mechanism=mechanism, postprocess=False, random_state=rng, epsilon=1.0
    )
    queries = {
        0.5: lambda tabs: tabs.share({"a": 1}),
        0.6: lambda tabs: tabs.share({"b": 1}, {"a": 1}),
        0.4: lambda tabs: tabs.difference({"b": 1}, "a"),
    }
    samples, runs = Samples(), 300
    for _ in range(runs):
        joint = rng.multinomial(500, p.ravel()).reshape(2, 2)
        third = rng.binomial(joint, 0.5)
        both = np.stack([joint - third, third], axis=2)
        counts = {("a", "b"): joint, ("a", "c"): both.sum(axis=1), ("b", "c"): both.sum(axis=0)}
        samples.add(model.fit_counts(counts, n_samples=500))
    for true, ask in queries.items():
        found = ask(samples)
        assert 271 <= np.sum((found.low <= true) & (true <= found.high)) <= 295


def test_intervals_of_people_with_several_records_are_wider(visits):
    tabs = PrivateCrosstab(SCHEMA, max_rows=2).fit(visits)
    found, counted = (tabs.share({"sex": "f"}, population=value) for value in (True, False))
    assert found.low < counted.low <= counted.value <= counted.high < found.high


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tabs: tabs.share({}), "at least one column"),
        (lambda tabs: tabs.share({"patient": 1}), "'patient' is not"),
        (lambda tabs: tabs.share({"sex": "x"}), "'sex' must be one of"),
        (
            lambda tabs: tabs.difference({"readmitted": 1}, "sex", reference="x"),
            "'sex' must be one of",
        ),
        (lambda tabs: tabs.share("sex", {"ward": "a", "age": (0, 99)}), "no released table"),
    ],
)
def test_wrong_queries_are_refused(tabs, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(tabs)


# --- Displays --------------------------------------------------------------------


def test_the_heat_map_shows_shares_and_intervals(tabs):
    pytest.importorskip("matplotlib").use("agg")
    display = TableDisplay.from_estimator(tabs, "sex", "ward")
    np.testing.assert_array_equal(display.value, tabs.share("ward", "sex").value)
    written = [text.get_text() for text in display.ax_.texts]
    assert len(written) == 9
    assert written[0] == (
        f"{display.value[0, 0]:.1%}\n{display.low[0, 0]:.1%} to {display.high[0, 0]:.1%}"
    )
    ticks = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert ticks == ["f", "m", "(missing)"]
    joint = TableDisplay.from_estimator(tabs, "age", "ward", normalize="all")
    assert joint.title == "share of all records"
    assert joint.ax_.get_yticklabels()[0].get_text() == "0 to 19"
    # Pages allow no images, which would not be shown.
    assert "<image" not in to_svg(joint, "a")
    with pytest.raises(ValueError, match="normalize"):
        TableDisplay.from_estimator(tabs, "sex", "ward", normalize="columns")


def test_a_cell_that_says_nothing_has_no_colour():
    pytest.importorskip("matplotlib").use("agg")
    value = np.array([[0.2, 0.8], [0.5, 0.5]])
    low, high = value - [[0.1], [0.5]], value + [[0.1], [0.5]]
    display = TableDisplay(value, low, high, ["a", "b"], [0, 1], ("x", "y"), 0.95, "share").plot()
    (mesh,) = display.ax_.collections
    assert mesh.get_array().mask.reshape(2, 2).tolist() == [[False, False], [True, True]]


def test_the_forest_plot_shows_differences(tabs):
    pytest.importorskip("matplotlib").use("agg")
    display = ForestDisplay.from_estimator(tabs, {"readmitted": 1}, "ward")
    found = tabs.difference({"readmitted": 1}, "ward")
    np.testing.assert_array_equal(display.value, found.value)
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["b - a", "c - a"]
    one = ForestDisplay.from_estimator(tabs, {"readmitted": 1}, "sex")
    assert len(one.value) == 1
    with pytest.raises(ValueError, match="one entry per estimate"):
        ForestDisplay.from_estimates(found, ["b"])


# --- The command -----------------------------------------------------------------

FILE = """
[columns]
sex = { categories = ["f", "m"] }
"the ward" = { categories = ["a", "b", "c"] }
readmitted = { categories = [0, 1] }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, visits):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    table = visits[["sex", "ward", "readmitted"]].rename(columns={"ward": "the ward"})
    table.to_csv("in.csv", index=False)
    Path("schema.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def run(*more):
    given = ["crosstab", "in.csv", "--schema", "schema.toml", "--epsilon", "5", "--quiet"]
    return main([*given, *more])


def test_the_command_writes_tables_and_a_page(folder, capsys, visits):
    PrivacyAccountant(epsilon=10.0, delta=1e-5, path="study.sqlite")
    assert run("-o", "tables", "--ledger", "study.sqlite", "--label", "first") == 0
    (charge,) = PrivacyAccountant(path="study.sqlite").history()
    assert charge["label"] == "first"
    names = {path.name for path in Path("tables").iterdir()}
    assert names == {
        "sex-the_ward.csv",
        "sex-readmitted.csv",
        "the_ward-readmitted.csv",
        "index.html",
    }
    found = pd.read_csv("tables/sex-readmitted.csv")
    assert list(found) == ["sex", "readmitted", "count", "share", "low", "high"]
    assert found["count"].sum() == pytest.approx(N, abs=1)
    row = found[(found["sex"] == "m") & (found["readmitted"] == "1")].iloc[0]
    assert row["low"] < ((visits["sex"] == "m") & (visits["readmitted"] == 1)).mean() < row["high"]
    page = Path("tables/index.html").read_text(encoding="utf-8")
    assert_loads_nothing(page)
    assert "differentially private" in page
    assert page.count("<svg") == 3
    assert "differentially private" in capsys.readouterr().out


def test_the_command_takes_named_tables(folder):
    assert run("-o", "tables", "--table", "sex", "--table", "sex,the ward,readmitted") == 0
    assert len(pd.read_csv("tables/sex.csv")) == 3
    assert len(pd.read_csv("tables/sex-the_ward-readmitted.csv")) == 3 * 4 * 3


@pytest.mark.parametrize(("mechanism", "kind"), [("gaussian", "Gaussian"), ("laplace", "Laplace")])
def test_the_command_takes_a_mechanism(folder, mechanism, kind):
    PrivacyAccountant(epsilon=10.0, delta=1e-5, path="study.sqlite")
    assert run("-o", "tables", "--ledger", "study.sqlite", "--mechanism", mechanism) == 0
    (charge,) = PrivacyAccountant(path="study.sqlite").history()
    assert kind in charge["mechanism"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--table", "city"], "'city': is not declared"),
        (["--confidence", "2"], "between 0 and 1"),
        (["--name", "x"], "--ledger"),
    ],
)
def test_the_command_refuses_before_the_charge(folder, capsys, more, message):
    assert run("-o", "tables", *more) != 0
    assert message in capsys.readouterr().err


def test_the_command_replaces_no_input_and_no_ledger(folder, capsys):
    PrivacyAccountant(epsilon=10.0, delta=1e-5, path="index.html")
    assert run("-o", ".", "--ledger", "index.html") != 0
    assert "would overwrite a ledger" in capsys.readouterr().err
    assert PrivacyAccountant(path="index.html").history() == []
