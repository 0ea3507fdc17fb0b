"""PrivateCrosstab: private tables that agree, one charge, and nothing exact kept."""

import pickle
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from skdirdp import (
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateCrosstab,
    PrivateTableClassifier,
    Schema,
)
from skdirdp.crosstab.queries import combine_margins, select_categories
from skdirdp.exceptions import BudgetExceededError
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism
from skdirdp.pipeline import make_private_pipeline

from .probes import Recorder, charged_releases, drawn_tables, encodings
from .tables import ELSEWHERE, IN_MEMORY, IN_PARTS, names

INF = float("inf")
N = 3000
SCHEMA = Schema(
    {
        "sex": ["f", "m"],
        "age": Schema.numbers(0, 110, bins=[18, 65]),
        "seen": Schema.dates("2020-01-01", "2022-12-31", bins=["2021-01-01", "2022-01-01"]),
        "readmitted": Schema.categories([0, 1], missing=False),
        "patient": Schema.key(),
    }
)
MECHANISMS = ("dirichlet", "gaussian", "laplace", "auto")


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], N)
    age = rng.integers(0, 100, N).astype(float)
    age[rng.random(N) < 0.1] = np.nan
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1095, N), unit="D")
    readmitted = (rng.random(N) < np.where(sex == "f", 0.2, 0.6)).astype(int)
    frame = {"sex": sex, "age": age, "seen": seen, "readmitted": readmitted}
    return pd.DataFrame({**frame, "patient": rng.integers(0, 1000, N)})


def table_of(visits, *columns):
    """The exact counts, by pandas, with the categories of the schema."""
    labels = {name: np.array(SCHEMA[name].labels(), dtype=object) for name in columns}
    codes = {name: SCHEMA[name].bin(SCHEMA.encode_column(name, visits[name])) for name in columns}
    shape = [len(labels[name]) for name in columns]
    sizes = pd.DataFrame(codes).groupby(list(columns)).size()
    counts = np.zeros(shape)
    for index, size in sizes.items():
        counts[index] = size
    return counts


# --- Tables ---------------------------------------------------------------------


def test_without_noise_it_is_pandas_crosstab(visits):
    tabs = PrivateCrosstab(SCHEMA, epsilon=INF).fit(visits)
    wanted = pd.crosstab(visits["sex"], visits["readmitted"], margins=True)
    found = tabs.table("sex", "readmitted")
    assert found.index.name == "sex"
    assert found.columns.name == "readmitted"
    assert (found.loc["(missing)"] == 0).all()
    found = found.drop(index="(missing)")
    np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())
    assert list(found.index) == list(wanted.index)
    assert list(found) == list(wanted)


def test_all_tables_without_noise_are_exact(visits):
    tables = ["sex", ("age", "seen"), ("sex", "age", "readmitted")]
    tabs = PrivateCrosstab(SCHEMA, tables, epsilon=INF).fit(visits)
    assert tabs.tables_ == [("sex",), ("age", "seen"), ("sex", "age", "readmitted")]
    for columns in tabs.tables_:
        np.testing.assert_array_equal(tabs.counts_[columns], table_of(visits, *columns))
    np.testing.assert_array_equal(
        tabs.table("readmitted", "sex", margins=False), table_of(visits, "readmitted", "sex")
    )
    found = tabs.table("sex", "age", "readmitted")
    assert found.shape == (3 * 4 + 1, 3)
    assert found.index[-1] == ("All", "")
    assert found.loc[("All", "")].iloc[-1] == N
    assert (
        found.loc[("f", pd.Interval(18, 64, closed="both")), 1]
        == tabs.table("sex", "age", "readmitted").iloc[1, 1]
    )


def test_a_table_of_one_column_has_a_count(visits):
    found = PrivateCrosstab(SCHEMA, ["age"], epsilon=INF).fit(visits).table("age")
    assert list(found) == ["count"]
    assert list(found.index[:-2]) == [
        pd.Interval(0, 17, closed="both"),
        pd.Interval(18, 64, closed="both"),
        pd.Interval(65, 110, closed="both"),
    ]
    assert found.loc["(missing)", "count"] == visits["age"].isna().sum()
    assert found.loc["All", "count"] == N


def test_all_pairs_are_the_default_and_keys_are_left_out(visits):
    tabs = PrivateCrosstab(SCHEMA).fit(visits)
    assert tabs.tables_ == list(combinations(["sex", "age", "seen", "readmitted"], 2))
    assert list(tabs.categories_) == ["sex", "age", "seen", "readmitted"]
    alone = PrivateCrosstab({"sex": ["f", "m"], "patient": Schema.key()}).fit(
        visits[["sex", "patient"]]
    )
    assert alone.tables_ == [("sex",)]


def test_a_dict_of_declarations_is_a_schema(visits):
    tabs = PrivateCrosstab({"sex": ["f", "m"], "readmitted": [0, 1]}, epsilon=INF)
    assert tabs.fit(visits[["sex", "readmitted"]]).table("sex").loc["All", "count"] == N


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_estimates_agree_and_are_not_negative(visits, mechanism, adjacency):
    tables = [("sex", "age", "readmitted"), ("sex", "age"), ("age", "seen"), ("seen", "sex"), "age"]
    tabs = PrivateCrosstab(
        SCHEMA, tables, epsilon=0.1, mechanism=mechanism, adjacency=adjacency, n_samples=N
    ).fit(visits)
    for columns in (("sex",), ("age",), ("seen",), ("sex", "age"), ()):
        holders = [table for table in tabs.tables_ if set(columns) <= set(table)]
        margins = [
            np.transpose(
                tabs.counts_[table].sum(
                    axis=tuple(i for i, name in enumerate(table) if name not in columns)
                ),
                np.argsort(np.argsort([table.index(name) for name in columns])).tolist(),
            )
            for table in holders
        ]
        for other in margins[1:]:
            np.testing.assert_allclose(other, margins[0], rtol=1e-8, atol=1e-6)
    assert all((counts >= 0).all() for counts in tabs.counts_.values())
    total = tabs.table("sex").loc["All", "count"]
    assert total == pytest.approx(tabs.n_records_)
    if adjacency == "replace":
        assert tabs.n_records_ == N == tabs.privacy_.n_records
    else:
        assert tabs.privacy_.n_records is None
        assert tabs.n_records_ != N


def test_without_postprocessing_tables_are_as_drawn(visits):
    tabs = PrivateCrosstab(SCHEMA, postprocess=False, epsilon=0.05).fit(visits)
    assert min(counts.min() for counts in tabs.counts_.values()) < 0
    np.testing.assert_array_equal(
        tabs.table("sex", "age", margins=False), tabs.noisy_counts_["sex", "age"]
    )
    np.testing.assert_array_equal(
        tabs.noisy_table("age", "sex").counts, tabs.noisy_counts_["sex", "age"].T
    )


def test_estimates_are_closer_than_noisy_counts(visits):
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        tabs = PrivateCrosstab(SCHEMA, epsilon=0.3, random_state=3).fit(visits)
    off = {"noisy_counts_": 0.0, "counts_": 0.0}
    for columns in tabs.tables_:
        for name in off:
            off[name] += np.abs(getattr(tabs, name)[columns] - table_of(visits, *columns)).sum()
    assert off["counts_"] < 0.7 * off["noisy_counts_"]


def test_unknown_columns_and_tables_are_refused(visits):
    tabs = PrivateCrosstab(SCHEMA, [("sex", "age"), "seen"]).fit(visits)
    with pytest.raises(ValueError, match="'patient' is not"):
        tabs.table("patient")
    with pytest.raises(ValueError, match="no released table has the columns 'sex', 'seen'"):
        tabs.table("sex", "seen")
    with pytest.raises(ValueError, match="one or more different columns"):
        tabs.table("sex", "sex")
    with pytest.raises(ValueError, match="one or more different columns"):
        tabs.noisy_table()


# --- Noise ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_noisy_counts_are_unbiased_with_the_stated_variance(mechanism, adjacency):
    yes_no = Schema.categories(["no", "yes"], missing=False)
    tabs = PrivateCrosstab(
        Schema({"a": yes_no, "b": yes_no}),
        {("a", "b"): 1.0, "a": 4.0},
        mechanism=mechanism,
        adjacency=adjacency,
        n_samples=1000,
        random_state=np.random.default_rng(1),
    )
    true = {("a", "b"): np.array([[900, 60], [30, 10]]), ("a",): np.array([960, 40])}
    runs = 400
    drawn = {table: [] for table in true}
    for _ in range(runs):
        tabs.fit_counts(true, n_samples=1000)
        for table, counts in tabs.noisy_counts_.items():
            drawn[table].append(counts)
    variances = {}
    for table, counts in true.items():
        noise = tabs.mechanisms_[table].noise
        variance = noise.variance_at(counts)
        errors = np.array(drawn[table]) - counts
        assert (np.abs(errors.mean(axis=0)) < 4.5 * np.sqrt(variance / runs)).all()
        # The variance of a sample variance is (kurtosis - 1) / runs; the kurtosis of Laplace is 6.
        ratio = errors.var(axis=0) / variance
        assert (np.abs(ratio - 1) < 4.5 * np.sqrt(5 / runs)).all()
        variances[table] = noise.variance
    # The variance is inversely proportional to the share of the budget.
    assert variances["a", "b"] / variances[("a",)] == pytest.approx(4, rel=1e-6)


def test_margins_of_several_tables_are_averaged_by_precision():
    tables = {("a", "b"): np.arange(6.0).reshape(2, 3), ("c", "a"): np.ones((2, 2))}
    gaussian = {("a", "b"): GaussianMechanism(2.0), ("c", "a"): GaussianMechanism(1.0)}
    found = combine_margins(tables, gaussian, ("a",), 10)
    first, second = 1 / (3 * 4), 1 / (2 * 1)
    wanted = (first * np.array([3, 12]) + second * np.array([2, 2])) / (first + second)
    np.testing.assert_allclose(found.counts, wanted)
    assert found.mechanism.sigma == pytest.approx((first + second) ** -0.5)
    assert found.n_records == 10
    # Sums and equally weighted averages of gamma variables are gamma variables.
    gamma = dict.fromkeys(tables, DirichletMechanism(0.5, 3.0))
    alone = combine_margins({("a", "b"): tables["a", "b"]}, gamma, ("a",), None)
    assert alone.mechanism == DirichletMechanism(0.5, 9.0)
    twice = {("a", "b"): np.ones((2, 3)), ("a", "c"): np.ones((2, 3))}
    both = combine_margins(twice, dict.fromkeys(twice, DirichletMechanism(0.5, 3.0)), ("a",), None)
    assert both.mechanism.r == pytest.approx(1.0)
    assert both.mechanism.alpha == pytest.approx(18.0)
    laplace = dict.fromkeys(tables, LaplaceMechanism(1.0))
    exact = combine_margins({("a", "b"): tables["a", "b"]}, laplace, ("b", "a"), None)
    assert exact.mechanism == LaplaceMechanism(1.0)
    np.testing.assert_array_equal(exact.counts, tables["a", "b"].T)


# --- The guarantee --------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_charge_covers_all_tables(visits, mechanism):
    recorder = Recorder()
    tabs = PrivateCrosstab(SCHEMA, mechanism=mechanism, accountant=recorder, label="visits")
    with drawn_tables() as tables:
        tabs.fit(visits)
    assert len(recorder.charges) == 1
    assert recorder.charges[0][2] == "visits"
    assert sum(charged_releases(recorder.charges).values()) == len(tables) == 6
    assert [mechanism for mechanism, _ in tables] == list(tabs.mechanisms_.values())
    assert 0.98 < tabs.privacy_.composition().epsilon(1e-5) <= 1.0
    # Every record is in one cell of each table.
    assert all(counts.sum() == N for _, counts in tables)


def test_renyi_and_pure_budgets(visits):
    tabs = PrivateCrosstab(SCHEMA, order=8.0, epsilon=0.5).fit(visits)
    assert 0.49 < tabs.privacy_.composition().rdp(8.0) <= 0.5
    tabs = PrivateCrosstab(SCHEMA, delta=0.0, mechanism="laplace").fit(visits)
    losses = [2 / mechanism.scale for mechanism in tabs.mechanisms_.values()]
    assert 0.999 < sum(losses) <= 1.0
    assert tabs.privacy_.composition().delta(1.0) == 0
    assert PrivateCrosstab(SCHEMA, delta=0.0).fit(visits).mechanisms_ == tabs.mechanisms_
    with pytest.raises(ValueError, match="delta must be positive"):
        PrivateCrosstab(SCHEMA, delta=0.0, mechanism="dirichlet").fit(visits)


@pytest.mark.parametrize(("n_tables", "name"), [(1, "laplace"), (3, "laplace"), (6, "gaussian")])
def test_the_default_mechanism_has_the_smallest_variance(visits, n_tables, name):
    """For counts with Gaussian tails, Laplace noise is smaller for few tables only."""
    tables = [("sex", "age"), "age", "seen", ("age", "seen"), "sex", "readmitted"][:n_tables]
    noise = {}
    for mechanism in (*MECHANISMS[:3], "default"):
        options = {} if mechanism == "default" else {"mechanism": mechanism}
        fitted = PrivateCrosstab(SCHEMA, tables, **options).fit(visits).mechanisms_
        noise[mechanism] = [each.noise.variance_at(100) for each in fitted.values()]
        assert mechanism != "default" or {each.name for each in fitted.values()} == {name}
    assert noise["default"] == np.min(list(noise.values()), axis=0).tolist()


def test_nothing_exact_is_kept():
    rng = np.random.default_rng(5)
    yes_no = Schema.categories([0, 1], missing=False)
    schema = Schema({"a": yes_no, "b": yes_no})
    X = pd.DataFrame(rng.integers(0, 2, (70_001, 2)), columns=["a", "b"])
    X["a"] |= X["b"] & (rng.random(len(X)) < 0.3)
    tabs = PrivateCrosstab(schema, [("a", "b"), "a"], adjacency="add_remove", n_samples=70_000)
    tabs.fit(X)
    exact = {int(count) for count in np.bincount(2 * X["a"] + X["b"])} | {int(X["a"].sum()), len(X)}
    kept = pickle.dumps(tabs)
    assert not any(code in kept for count in exact for code in encodings(count))
    every = np.concatenate([each.ravel() for each in tabs.noisy_counts_.values()])
    assert not set(every.tolist()) & {float(count) for count in exact}
    assert pickle.loads(kept).table("a").equals(tabs.table("a"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_noise_does_not_depend_on_the_number_of_records(visits, mechanism):
    options = {"adjacency": "add_remove", "mechanism": mechanism}
    some, more = (
        PrivateCrosstab(SCHEMA, n_samples=n_samples, **options).fit(visits)
        for n_samples in (None, 10**6)
    )
    assert some.privacy_ == more.privacy_
    assert some.privacy_.not_covered == ()


@pytest.mark.parametrize(
    ("schema", "parameters", "message"),
    [
        (SCHEMA, {"tables": ["ward"]}, "'ward': is not declared"),
        (SCHEMA, {"tables": ["patient"]}, "'patient': has no public values"),
        (SCHEMA, {"tables": []}, "at least one table"),
        (SCHEMA, {"tables": [("sex", "sex")]}, "different columns"),
        (SCHEMA, {"tables": [("sex", "age", "seen", "readmitted")]}, "one to three"),
        (SCHEMA, {"tables": [("sex", "age"), ("age", "sex")]}, "same columns"),
        (SCHEMA, {"tables": ["sex", "sex"]}, "duplicates"),
        (SCHEMA, {"tables": {"sex": 0.0}}, "share of 'sex' in tables must be"),
        (SCHEMA, {"tables": {"sex": float("nan")}}, "share of 'sex' in tables must be"),
        (SCHEMA, {"max_cells": 61}, "at least the number of cells of all tables, 62"),
        (SCHEMA, {"max_rows": 0}, "max_rows"),
        ({"sex": Schema.names(), "age": (0, 9)}, {"tables": ["sex"]}, "'sex': has no public val"),
        ({"sex": Schema.categories(["f"], missing=False)}, {}, "several categories"),
        (
            {"sex": Schema.categories(["f"], missing=False)},
            {"tables": ["sex"]},
            "several cells",
        ),
        (SCHEMA.replace(columns={**SCHEMA.columns, "ward": [1]}), {}, "'ward': is not in the tabl"),
    ],
)
def test_errors_come_before_the_charge(visits, schema, parameters, message):
    recorder = Recorder()
    tabs = PrivateCrosstab(schema, accountant=recorder, **parameters)
    with pytest.raises(ValueError, match=message):
        tabs.fit(visits if len(schema) > 2 else visits[["sex"]].assign(age=1)[list(schema)])
    assert recorder.charges == []
    assert not hasattr(tabs, "tables_")


def test_an_empty_table_is_refused(visits):
    recorder = Recorder()
    with pytest.raises(ValueError, match="at least one record"):
        PrivateCrosstab(SCHEMA, accountant=recorder).fit(visits.iloc[:0])
    assert recorder.charges == []


def test_a_refused_charge_keeps_the_earlier_fit(visits):
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    tabs = PrivateCrosstab(SCHEMA, epsilon=1.0, accountant=accountant).fit(visits)
    before = tabs.table("sex")
    with pytest.raises(BudgetExceededError):
        tabs.fit(visits)
    assert tabs.table("sex").equals(before)


def test_it_cannot_be_a_step_of_a_pipeline(visits):
    with pytest.raises(TypeError, match="cannot be a step"):
        make_private_pipeline(PrivateCrosstab(SCHEMA), epsilon=1.0).fit(visits, visits["sex"])


def test_parameters_changed_after_the_fit_change_nothing(visits):
    tabs = PrivateCrosstab(SCHEMA).fit(visits)
    before = tabs.table("sex", "age"), tabs.sample(5, random_state=0)
    tabs.set_params(schema={"sex": ["x"]}, tables=["sex"], epsilon=INF, postprocess=False)
    assert tabs.table("sex", "age").equals(before[0])
    assert tabs.sample(5, random_state=0).equals(before[1])
    assert clone(tabs).get_params()["tables"] == ["sex"]


# --- Containers, counts and persons ----------------------------------------------


def counted_tables(model, X, **given):
    with drawn_tables() as tables:
        model.fit(X, **given)
    return tables


@pytest.mark.parametrize("container", names({**IN_MEMORY, **ELSEWHERE}))
def test_containers_have_the_same_counts(visits, container):
    tabs = PrivateCrosstab(SCHEMA, [("sex", "age"), ("age", "seen", "readmitted"), "seen"])
    tables = counted_tables(tabs, {**IN_MEMORY, **ELSEWHERE}[container](visits))
    for (_, counts), columns in zip(tables, tabs.tables_, strict=True):
        np.testing.assert_array_equal(counts[0], table_of(visits, *columns).ravel())


def test_an_array_has_the_columns_of_the_schema(visits):
    tables = counted_tables(PrivateCrosstab(SCHEMA), visits.to_numpy(dtype=object))
    np.testing.assert_array_equal(tables[0][1][0], table_of(visits, "sex", "age").ravel())


def test_counts_give_the_same_release_as_records(visits):
    tabs, there = PrivateCrosstab(SCHEMA), PrivateCrosstab(SCHEMA)
    tables = counted_tables(tabs, visits)
    given = {columns: table_of(visits, *columns) for columns in tabs.tables_}
    with drawn_tables() as found:
        there.fit_counts(given, n_samples=N)
    for (mechanism, counts), (its, other) in zip(tables, found, strict=True):
        assert mechanism == its
        np.testing.assert_array_equal(counts, other)
    assert there.privacy_ == tabs.privacy_
    one = PrivateCrosstab(SCHEMA, ["sex"], epsilon=INF).fit_counts({"sex": [1, 2, 0]}, n_samples=3)
    assert one.table("sex")["count"].tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({("sex",): [1, 2, 3]}, "must have exactly the keys"),
        ({("sex", "readmitted"): [[1, 2], [3, 4]]}, r"must be of shape \(3, 2\)"),
        ({("sex", "readmitted"): [[1, 2], [3, 4], [0, 1]]}, "total of n_samples"),
        ({("sex", "readmitted"): [[1, 2], [3, 4.5], [0, 0]]}, "whole numbers"),
    ],
)
def test_wrong_counts_are_refused(tables, message):
    recorder = Recorder()
    tabs = PrivateCrosstab(SCHEMA, [("sex", "readmitted")], accountant=recorder)
    with pytest.raises(ValueError, match=message):
        tabs.fit_counts(tables, n_samples=10)
    assert recorder.charges == []


@pytest.mark.parametrize("container", ["pandas", "numpy", *names(IN_PARTS)])
def test_persons_of_the_schema_count_few_records(visits, container):
    containers = {**IN_MEMORY, **IN_PARTS, "numpy": lambda frame: frame.to_numpy(dtype=object)}
    visits = visits.assign(patient=[None, *visits["patient"].astype(object)[1:]])
    schema = SCHEMA.replace(person="patient", max_rows=2)
    tabs = PrivateCrosstab(schema, [("sex", "age")], n_samples=N)
    tables = counted_tables(tabs, containers[container](visits))
    kept = visits.dropna(subset="patient").groupby("patient").head(2)
    np.testing.assert_array_equal(tables[0][1][0], table_of(kept, "sex", "age").ravel())
    assert tabs.privacy_.unit.max_rows == 2
    assert tabs.privacy_.n_records is None
    assert tabs.mechanisms_["sex", "age"].max_total == 2


def test_groups_are_persons(visits):
    tabs = PrivateCrosstab(SCHEMA, [("sex", "age")], max_rows=2, n_samples=N)
    kept = visits.groupby("patient").head(2)
    for groups in ("patient", visits["patient"].to_numpy()):
        tables = counted_tables(clone(tabs), visits, groups=groups)
        np.testing.assert_array_equal(tables[0][1][0], table_of(kept, "sex", "age").ravel())
    tabs.set_params(schema=SCHEMA.replace(person="patient", max_rows=2))
    with pytest.raises(ValueError, match="groups must not be given"):
        tabs.fit(visits, groups="patient")


# --- Models ---------------------------------------------------------------------


def test_models_cost_nothing_further(visits):
    recorder = Recorder()
    tabs = PrivateCrosstab(SCHEMA, epsilon=10.0, accountant=recorder).fit(visits)
    network, model = tabs.network(), tabs.classifier("sex")
    records = tabs.sample(4000, random_state=0)
    assert len(recorder.charges) == 1
    assert network.privacy_ == model.privacy_ == tabs.privacy_
    assert network.structure_["readmitted"] == ("sex",) or network.structure_["sex"]
    assert network.model_.check_model()
    assert list(model.classes_) == ["f", "m"]
    assert (model.predict(visits) == visits["sex"]).mean() > 0.65
    assert set(records["sex"].dropna()) == {"f", "m"}
    assert records["age"].dtype == "Int64"
    assert records["age"].isna().mean() == pytest.approx(0.1, abs=0.03)
    assert records["seen"].dropna().between("2020-01-01", "2022-12-31").all()
    drawn = pd.crosstab(records["sex"], records["readmitted"], normalize="index")
    assert drawn.loc["m", 1] - drawn.loc["f", 1] == pytest.approx(0.4, abs=0.08)


def two_copies(n, seed):
    """Records with a label, an informative column, a copy of it, and a column of its own."""
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n)
    first = label ^ (rng.random(n) < 0.3)
    other = label ^ (rng.random(n) < 0.35)
    return pd.DataFrame({"label": label, "first": first, "copy": first, "other": other})


def test_a_classifier_of_all_pairs_counts_dependent_columns_once():
    kind = Schema.categories([1, 0], missing=False)
    records = two_copies(20_000, 0)
    tabs = PrivateCrosstab(Schema(dict.fromkeys(records, kind)), epsilon=3.0).fit(records)
    model, new = tabs.classifier("label"), two_copies(20_000, 1)
    assert isinstance(model, PrivateTableClassifier)
    assert model.privacy_ == tabs.privacy_
    np.testing.assert_array_equal(model.classes_, [0, 1])
    naive = tabs._naive_bayes("label", ["first", "copy", "other"])
    losses = [
        log_loss(new["label"], each.predict_proba(new)[:, np.argsort(each.classes_)])
        for each in (model, naive)
    ]
    joint = new.groupby(["first", "other"])["label"].transform("mean")
    best = log_loss(new["label"], joint)
    assert best < losses[0] < best + 0.1 * (losses[1] - best)


def test_a_classifier_without_all_pairs_is_naive_bayes(visits):
    tables = [("sex", "readmitted"), ("sex", "age")]
    model = PrivateCrosstab(SCHEMA, tables, epsilon=10.0).fit(visits).classifier("sex")
    assert isinstance(model, PrivateBayesNetMLE)
    assert set(model.predict(visits)) <= {"f", "m"}


@pytest.mark.parametrize("epsilon", [0.001, float("inf")])
@pytest.mark.parametrize("postprocess", [True, False])
def test_classifiers_of_any_noise_predict_probabilities(visits, epsilon, postprocess):
    tabs = PrivateCrosstab(SCHEMA, epsilon=epsilon, postprocess=postprocess).fit(visits)
    found = tabs.classifier("sex").predict_proba(visits)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_a_large_category_is_not_lost_to_many_small_ones():
    # One category has nine records of ten, and forty others have few; the noise is larger.
    rng = np.random.default_rng(0)
    shares = np.array([0.9, *[0.1 / 40] * 40])
    records = pd.DataFrame({f"c{k}": rng.integers(2, size=20_000) for k in range(5)})
    records["wide"] = rng.choice(41, size=20_000, p=shares)
    sizes = {name: 41 if name == "wide" else 2 for name in records}
    kinds = {n: Schema.categories(range(size), missing=False) for n, size in sizes.items()}
    errors = []
    for _ in range(4):
        tabs = PrivateCrosstab(Schema(kinds), epsilon=0.1).fit(records)
        found = tabs.table("wide", margins=False)["count"][0]
        errors.append(found - (records["wide"] == 0).sum())
        noisy = tabs.noisy_table("wide")
    deviation = np.sqrt(noisy.noise.variance_at(18_000))
    assert abs(np.mean(errors)) < 4 * deviation


def test_a_network_of_some_tables_is_a_forest(visits):
    tabs = PrivateCrosstab(SCHEMA, [("sex", "readmitted"), "age", "seen"]).fit(visits)
    network = tabs.network()
    assert sorted(map(len, network.structure_.values())) == [0, 0, 0, 1]
    with pytest.raises(ValueError, match="no released table has 'age'"):
        tabs.classifier("age")


def test_the_tree_has_the_strongest_dependences():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 5000)
    b = np.where(rng.random(5000) < 0.9, a, 1 - a)
    c = np.where(rng.random(5000) < 0.9, b, 1 - b)
    X = pd.DataFrame({"a": a, "c": c, "b": b})
    structure = PrivateCrosstab({name: [0, 1] for name in "abc"}).fit(X[list("abc")]).network()
    edges = {frozenset((n, *p)) for n, p in structure.structure_.items() if p}
    assert edges == {frozenset("ab"), frozenset("bc")}


# --- Categories of queries -------------------------------------------------------


def test_categories_of_queries():
    def chosen(name, wanted):
        return np.flatnonzero(select_categories(name, SCHEMA[name], wanted)).tolist()

    assert chosen("sex", "m") == [1]
    assert chosen("sex", ["f", None]) == [0, 2]
    assert chosen("sex", "(missing)") == [2]
    assert chosen("readmitted", 1) == chosen("readmitted", "1") == chosen("readmitted", True) == [1]
    assert chosen("age", (18, 110)) == chosen("age", (18, 500)) == [1, 2]
    assert chosen("age", pd.Interval(0, 17, closed="both")) == [0]
    assert chosen("seen", ("2021-01-01", "2022-12-31")) == [1, 2]


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        ("sex", "x", "'sex' must be one of"),
        ("readmitted", None, "no category for missing values"),
        ("age", 30, "counted in bins"),
        ("age", (20, 110), "must be bin edges"),
        ("age", (18, 63), "must be bin edges"),
        ("age", [], "at least one"),
    ],
)
def test_categories_that_do_not_exist_are_refused(name, wanted, message):
    with pytest.raises(ValueError, match=message):
        select_categories(name, SCHEMA[name], wanted)


def test_columns_without_public_values_are_left_out_with_a_warning(visits):
    schema = SCHEMA.replace(columns={**SCHEMA.columns, "sex": Schema.names()})
    with pytest.warns(UserWarning, match="columns without public values are not used: 'sex'"):
        tabs = PrivateCrosstab(schema).fit(visits)
    assert not any("sex" in columns for columns in tabs.tables_)


def test_columns_without_declared_values_cause_a_warning():
    frame = pd.DataFrame({"code": np.arange(2000) % 3, "a": np.arange(2000) % 2})
    schema = Schema({"code": Schema.categories(["000", "001", "002"]), "a": [0, 1]})
    with pytest.warns(UserWarning, match=r"not declared in 'code' \((9\d|100)%\), according"):
        PrivateCrosstab(schema).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame["code"] = frame["code"].map("{:03d}".format)
        PrivateCrosstab(schema).fit(frame)
