"""DirichletHistogramTransformer with a schema."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    Schema,
    check_pipeline,
    make_private_pipeline,
)
from skdirdp.displays import HistogramDisplay
from skdirdp.model_selection import PrivateGridSearchCV, private_score

from .probes import Recorder, drawn_tables, outside_bounds
from .tables import IN_GROUPS, IN_MEMORY, IN_PARTS, names

INF = float("inf")
N = 60
COLUMNS = {
    "age": (0, 100),
    "weight": (0.0, 200.0),
    "sex": ["f", "m"],
    "day": ("2020-01-01", "2020-12-31"),
    "patient": Schema.key(),
    "note": Schema.ignore(),
    "label": ["yes", "no"],
}
BINNED = ["age", "weight", "sex", "day", "label"]
SCHEMA = Schema(COLUMNS)
PERSONS = Schema(COLUMNS, person="patient", max_rows=2)
# Position of each binned column that has a bin of missing values beside its fine bins.
ORDERED = {"age": 0, "weight": 1, "day": 3}
ODD = [
    *(None, np.nan, pd.NA, pd.NaT, "", "x", "7", " 1e3 ", "2020-05-05", "yes", 1, True, -0.0),
    *(1e300, -INF, 10**30, 10**400, Decimal(1), Decimal("0.1"), b"1", (1,), {}, "9" * 9999),
    *(pd.Timestamp("2020-04-04", tz="Asia/Tokyo"), np.int8(3), np.datetime64("2020-02-02")),
]
ROW = {
    **{"age": 50, "weight": 70.5, "sex": "f", "day": "2020-03-03"},
    **{"patient": "new", "note": "", "label": "yes"},
}


def visits(n=N, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(0, 100, n).tolist(),
        "weight": rng.normal(80, 20, n).tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
        "day": [f"2020-{month:02}-05" for month in rng.integers(1, 13, n)],
        "patient": (np.arange(n) // 2).tolist(),
        "note": ["text"] * n,
        "label": rng.choice(["no", "yes"], n).tolist(),
    }
    return pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in columns.items()})


def with_rows(frame, *rows):
    """The frame with further rows at its start, in columns of objects."""
    added = pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=object) for name in frame}
    )
    return pd.concat([added, frame], ignore_index=True)


def binner(schema=SCHEMA, **parameters):
    defaults = {"n_bins": 4, "encode": "ordinal", "n_samples": N, "adjacency": "add_remove"}
    return DirichletHistogramTransformer(schema=schema, **{**defaults, **parameters})


def exact_tables(model, X, **given):
    with drawn_tables() as tables:
        model.fit(X, **given)
    return tables


def changes(model, before, after):
    """Return the contribution to each table, with its mechanism."""
    pairs = zip(exact_tables(model, before), exact_tables(model, after), strict=True)
    return [(mechanism, new - old) for (mechanism, old), (_, new) in pairs]


# Records -------------------------------------------------------------------------------


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_an_odd_cell_adds_one_to_one_bin_of_each_table(column, odd):
    frame = visits()
    found = changes(binner(), frame, with_rows(frame, {**ROW, column: odd}))
    assert len(found) == len(BINNED)
    for mechanism, change in found:
        assert outside_bounds(change, mechanism) is None
        assert change.sum() == 1
        assert change.max() == mechanism.max_count  # half of the claim would be wrong


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_an_odd_cell_changes_no_bin_of_other_records(column, odd):
    frame, neighbour = visits(), visits()
    neighbour[column] = neighbour[column].astype(object)
    neighbour.at[7, column] = odd
    model = binner(encode="cdf").fit(frame)
    bins, others = model.transform(frame), model.transform(neighbour)
    assert bins.dtype == others.dtype
    np.testing.assert_array_equal(np.delete(bins, 7, axis=0), np.delete(others, 7, axis=0))


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_the_noise_does_not_depend_on_cells(adjacency):
    frame = visits()
    n_samples = None if adjacency == "replace" else N
    reports = []
    for column, odd in [("age", 3), ("age", None), ("weight", "x"), ("day", 10**30), ("sex", 1)]:
        frame.at[0, column] = odd
        model = binner(adjacency=adjacency, n_samples=n_samples)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            reports.append(model.fit(frame).privacy_)
    assert all(report.mechanisms == reports[0].mechanisms for report in reports)
    assert reports[0].not_covered == ()


@pytest.mark.parametrize("column", ORDERED)
@pytest.mark.parametrize("odd", [None, pd.NA, "", "old", (1,)])
def test_missing_cells_and_cells_that_do_not_fit_have_the_last_bin(column, odd):
    frame = visits()
    _, change = changes(binner(), frame, with_rows(frame, {**ROW, column: odd}))[ORDERED[column]]
    assert np.flatnonzero(change).tolist() == [len(change) - 1]
    model = binner().fit(frame)
    bins = model.transform(with_rows(frame, {**ROW, column: odd}))[0]
    assert bins[ORDERED[column]] == model.n_bins_[ORDERED[column]] - 1


@pytest.mark.parametrize("value", [-INF, -5, 0, 100, 10**30, INF])
def test_numbers_beyond_the_bounds_are_in_the_end_bins_and_not_missing(value):
    frame = visits()
    change = changes(binner(), frame, with_rows(frame, {**ROW, "age": value}))[0][1]
    assert np.flatnonzero(change).tolist() == [0 if value <= 0 else 100]
    bins = binner().fit(frame).transform(with_rows(frame, {**ROW, "weight": value * 3.0}))[0]
    assert bins[1] == (0 if value <= 0 else 3)


def test_a_column_without_missing_values_has_no_bin_for_them():
    schema = Schema({"age": Schema.numbers(0, 100, missing=False), "w": (0.0, 1.0)})
    frame = pd.DataFrame({"age": [None, "x", 5, 7], "w": [None, 0.1, 0.5, 0.7]})
    (_, age), (_, w) = exact_tables(binner(schema), frame)
    assert (len(age), len(w)) == (101, 513)
    assert (age[0], age[5], age[7]) == (2, 1, 1)  # as the first value
    model = binner(schema).fit(frame)
    assert model.n_bins_.tolist() == [4, 5]
    assert model._public_output() == {"n_categories": [4, 5]}
    assert not model.sample(500)["age"].isna().any()


def test_a_strict_schema_refuses_cells_before_the_charge_and_names_the_column():
    recorder, frame = Recorder(), visits()
    frame.at[3, "age"] = "secret"
    model = binner(SCHEMA.replace(strict=True), accountant=recorder)
    with pytest.raises(ValueError, match="column 'age' has others") as error:
        model.fit(frame)
    assert "secret" not in str(error.value)
    assert recorder.charges == []


@pytest.mark.parametrize("container", names({**IN_MEMORY, **IN_PARTS}))
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_containers_give_the_same_exact_tables(container, schema):
    frame = visits().astype({"age": "Int64", "weight": float, "patient": int})
    frame.loc[4, ["age", "weight", "sex", "day"]] = None
    frame["day"] = pd.to_datetime(frame["day"])
    # Consecutive rows of a person, so that parts divide them.
    frame["patient"] = frame["patient"] // 3
    table = {**IN_MEMORY, **IN_PARTS}[container](frame)
    expected = exact_tables(binner(schema), frame)
    assert expected[0][1].sum() == (N if schema is SCHEMA else 20)
    for (one, old), (other, new) in zip(expected, exact_tables(binner(schema), table), strict=True):
        assert one == other
        np.testing.assert_array_equal(old, new)


def test_arrays_and_lists_have_the_columns_of_the_schema_in_its_order():
    frame = visits()
    shuffled = frame[[*reversed(list(frame))]]
    expected = exact_tables(binner(PERSONS), frame)
    for table in (frame.to_numpy(object), frame.to_numpy(object).tolist(), shuffled):
        for (_, old), (_, new) in zip(expected, exact_tables(binner(PERSONS), table), strict=True):
            np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("container", names(IN_GROUPS))
def test_persons_in_a_lazy_frame_are_rejected_before_the_charge(container):
    recorder = Recorder()
    frame = visits().astype({"age": int, "weight": float, "patient": int})
    with pytest.raises(TypeError, match="rows have no fixed order"):
        binner(PERSONS, accountant=recorder).fit(IN_GROUPS[container](frame))
    assert recorder.charges == []


def test_counts_of_the_bins_that_a_schema_declares_are_those_of_a_fit():
    frame = visits()
    frame.loc[:5, ["age", "weight", "day"]] = None
    edges = binner().fine_bins(BINNED)
    assert [each[-1] for each in edges] == [INF, INF, 2.5, INF, 2.5]
    counts = [table for _, table in exact_tables(binner(), frame)]
    assert [len(table) for table in counts] == [len(each) - 1 for each in edges]
    by_name = {name: counts[BINNED.index(name)] for name in ("weight", "age")}
    model = binner(epsilon=INF, strategy="uniform").fit_counts(by_name, n_samples=N)
    fitted = binner(epsilon=INF, strategy="uniform").fit(frame)
    np.testing.assert_array_equal(model.histogram_[0], fitted.histogram_[1])
    np.testing.assert_array_equal(model.histogram_[1], fitted.histogram_[0])
    with pytest.raises(ValueError, match="5 features by the schema"):
        binner().fit_counts(counts[:2], n_samples=N)


def test_fit_counts_protects_the_persons_of_the_schema():
    schema = Schema({"sex": ["f", "m"], "id": Schema.key()}, person="id", max_rows=2)
    network = PrivateBayesNetMLE({"sex": []}, schema=schema, n_samples=9)
    for model, tables in [(binner(schema), {"sex": [4, 5, 0]}), (network, {"sex": [[4, 5, 0]]})]:
        ((mechanism, _),) = model.fit_counts(tables, n_samples=9).privacy_.mechanisms
        assert (mechanism.max_total, model.privacy_.unit.max_rows) == (2, 2)
        with pytest.raises(ValueError, match="max_rows must be that of the schema, 2"):
            model.set_params(max_rows=3).fit_counts(tables, n_samples=9)


# Bins ----------------------------------------------------------------------------------


def test_each_whole_number_has_a_fine_bin_and_edges_are_whole():
    schema = Schema({"n": (3, 7), "far": (-(10**6), 10**6), "day": COLUMNS["day"]})
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, 500), "D")
    frame = pd.DataFrame(
        {"n": rng.integers(3, 8, 500), "far": rng.integers(-900, 900, 500), "day": days}
    )
    model = binner(schema, n_bins=10).fit(frame)
    assert model.fine_edges_[0].tolist() == [3, 4, 5, 6, 7, 8, INF]
    assert model.n_bins_.tolist() == [6, 11, 11]  # not more than there are values
    assert len(model.histogram_[2]) == 367
    for edges in (*model.fine_edges_, *model.bin_edges_):
        np.testing.assert_array_equal(edges[:-1], np.round(edges[:-1]))
    np.testing.assert_array_equal(model.transform(frame)[:, 0], frame["n"] - 3)


@pytest.mark.parametrize("epsilon", [INF, 1e5])
def test_quantiles_do_not_count_missing_values(epsilon):
    frame = visits(4000)
    holes = frame.copy()
    holes.loc[::2, "weight"] = None
    options = {"epsilon": epsilon, "n_samples": 4000}
    model = binner(**options).fit(holes)
    present = binner(**options).fit(holes.iloc[1::2])
    np.testing.assert_allclose(
        model.bin_edges_[1][:-1], present.bin_edges_[1][:-1], rtol=0, atol=0.5
    )
    shares = np.bincount(model.transform(holes)[:, 1].astype(int)) / len(holes)
    np.testing.assert_allclose(shares, [0.125] * 4 + [0.5], atol=0.005)
    np.testing.assert_allclose(model.histogram_[1][-1], 0.5, atol=0.005)
    np.testing.assert_allclose(sum(model.histogram_[1]), 1.0)
    cdf = model.set_params(encode="cdf").transform(holes)[:, 1]
    assert np.isnan(cdf[::2]).all()
    np.testing.assert_allclose(np.sort(cdf[1::2]), np.linspace(0, 1, 2000), atol=0.02)


@pytest.mark.parametrize("epsilon", [INF, 1.0])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal", "density", "cdf"])
def test_a_column_without_any_value_is_binned_as_missing(epsilon, strategy, encode):
    frame = visits()
    frame[["age", "weight", "day"]] = None
    model = binner(epsilon=epsilon, strategy=strategy, encode=encode)
    found = model.fit_transform(frame)
    if encode in ("density", "cdf"):
        assert np.isnan(found[:, [0, 1, 3]]).all()
        return
    np.testing.assert_array_equal(
        model.set_params(encode="ordinal").transform(frame)[:, [0, 1, 3]],
        np.tile(model.n_bins_[[0, 1, 3]] - 1, (N, 1)),
    )
    inverse = model.set_params(encode=encode).inverse_transform(found)
    assert inverse[["age", "weight", "day"]].isna().all(axis=None)
    if epsilon == INF:
        assert model.sample(50)[["age", "weight", "day"]].isna().all(axis=None)


@pytest.mark.parametrize("epsilon", [INF, 1.0])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_every_bin_has_a_value_of_the_declared_type_that_falls_into_it(epsilon, strategy):
    frame = visits(500)
    frame.loc[::5, ["age", "weight", "sex", "day", "label"]] = None
    model = binner(epsilon=epsilon, strategy=strategy, n_samples=500).fit(frame)
    for k, n_bins in enumerate(model.n_bins_):
        bins = np.zeros((n_bins, len(BINNED)))
        bins[:, k] = np.arange(n_bins)
        values = model.inverse_transform(bins)
        assert values[BINNED[k]].isna().tolist() == [False] * (n_bins - 1) + [True]
        np.testing.assert_array_equal(model.transform(values)[:, k], np.arange(n_bins))
    assert values.dtypes.astype(str).tolist()[:2] == ["int64", "float64"]
    assert str(values["day"].dtype).startswith("datetime64")


def test_samples_have_the_declared_types_and_the_released_shares():
    frame = visits(3000)
    frame.loc[::3, "age"] = None
    frame.loc[::4, "day"] = "tomorrow"
    model = binner(epsilon=1e4, n_samples=3000).fit(frame)
    drawn = model.sample(20_000, random_state=0)
    assert list(drawn) == BINNED
    missing = drawn.isna().mean()
    np.testing.assert_allclose(missing, [1 / 3, 0, 0, 1 / 4, 0], atol=0.015)
    assert drawn["age"].dropna().between(0, 100).all()
    ages = frame["age"].dropna().astype(int)
    observed = drawn["age"].value_counts(normalize=True).reindex(range(101), fill_value=0)
    expected = ages.value_counts(normalize=True).reindex(range(101), fill_value=0)
    np.testing.assert_allclose(observed, expected, atol=0.008)
    assert set(drawn["sex"]) == {"f", "m"}
    assert drawn["day"].dropna().dt.day.value_counts(normalize=True)[5] > 0.95
    # Samples are records of the schema.
    assert (exact_tables(binner(SCHEMA), drawn)[0][1][-1] / 20_000).round(2) == 0.33


def is_outside(values, limits):
    lower, upper = limits
    return bool(np.any((values < lower - 1e-12) | (values > upper + 1e-12)))


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
@pytest.mark.parametrize("postprocess", [True, False])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_error_bars_with_missing_values_fail_no_more_often_than_stated(
    mechanism, postprocess, adjacency
):
    confidence, n_fits, n = 0.8, 40, 400
    rng = np.random.default_rng(1)
    schema = Schema({"x": (0.0, 1.0)})
    x = np.where(rng.random(n) < 0.5, np.nan, rng.beta(2, 5, n))
    frame = pd.DataFrame({"x": x})
    model = binner(
        schema,
        n_fine_bins=8,
        mechanism=mechanism,
        postprocess=postprocess,
        adjacency=adjacency,
        n_samples=n,
        epsilon=2.0,
    )
    exact = binner(schema, n_fine_bins=8, epsilon=INF).fit(frame)._histograms_[0]
    truth = np.searchsorted(np.sort(x[~np.isnan(x)]), exact.edges) / np.sum(~np.isnan(x))
    truth[-1] = 1.0
    np.testing.assert_allclose(exact.cdf, truth, atol=1e-12)
    failures = [0, 0, 0]
    for _ in range(n_fits):
        fitted = model.fit(frame)
        released = fitted._histograms_[0]
        distance = np.max(np.abs(released.cdf - truth))
        failures[0] += distance > fitted.cdf_error(confidence)[0] + 1e-12
        failures[1] += is_outside(truth, released.cdf_band(confidence))
        failures[2] += is_outside(exact.probabilities, fitted.histogram_band(0, confidence))
        assert 0 < fitted.cdf_error(confidence)[0] < 0.7
    # More failures than this have a probability below 1e-4 at the stated rate.
    assert max(failures) <= 18


@pytest.mark.parametrize("max_bins", [5, 60, 600])
def test_a_plot_leaves_out_missing_values(max_bins):
    pytest.importorskip("matplotlib")
    frame = visits(2000)
    frame.loc[::2, "weight"] = None
    model = binner(n_samples=2000, epsilon=100.0).fit(frame)
    display = HistogramDisplay.from_estimator(model, "weight", max_bins=max_bins)
    assert (display.edges[0], display.edges[-1]) == (0, 200)
    widths = np.diff(display.edges)
    np.testing.assert_allclose(np.sum(display.density * widths), 0.5, atol=0.02)
    assert len(display.lower) == len(display.upper) == len(display.density)
    assert (display.lower <= display.density + 1e-12).all()
    assert (display.density <= display.upper + 1e-12).all()


# Persons -------------------------------------------------------------------------------


@pytest.mark.parametrize("column", BINNED)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_a_person_with_many_rows_adds_no_more_than_the_bound(column, odd):
    frame = visits()
    rows = [{**ROW, column: odd}, *[ROW] * 9]
    for mechanism, change in changes(binner(PERSONS), frame, with_rows(frame, *rows)):
        assert mechanism.max_total == 2
        assert outside_bounds(change, mechanism) is None
        assert change.sum() == 2  # half of the claim would be wrong


@pytest.mark.parametrize("container", names(IN_PARTS))
def test_a_person_in_several_parts_adds_no_more_than_the_bound(container):
    frame = visits().astype({"age": int, "weight": float, "patient": str})
    # The same person in the first and the last part, and nobody twice in between.
    frame["patient"] = ["same"] * 20 + [str(each) for each in range(20)] + ["same"] * 20
    tables = exact_tables(binner(PERSONS), IN_PARTS[container](frame))
    for mechanism, table in tables:
        assert table.sum() == 20 + mechanism.max_total == 22


def test_ids_of_several_types_are_one_person_and_records_without_an_id_are_not_counted():
    frame = visits()
    same = [1234, "1234", 1234.0, Decimal(5), None, "", True, 0.5, np.nan, pd.NA, (), b"1"]
    rows = [{**ROW, "patient": each} for each in same]
    for _, change in changes(binner(PERSONS), frame, with_rows(frame, *rows)):
        assert change.sum() == 2


def test_the_report_names_the_person_and_a_number_of_records_is_not_published():
    model = binner(PERSONS).fit(visits())
    assert (model.privacy_.unit.max_rows, model.privacy_.unit.by_ids) == (2, True)
    assert model.privacy_.n_records is None
    assert model.privacy_.not_covered == ()
    with pytest.warns(PrivacyLeakWarning, match="n_samples"):
        binner(PERSONS, n_samples=None, adjacency="replace").fit(visits())


def test_other_ids_and_bounds_are_rejected_before_the_charge():
    recorder, frame = Recorder(), visits()
    given = {"accountant": recorder}
    with pytest.raises(ValueError, match="groups must not be given"):
        binner(PERSONS, **given).fit(frame, groups=frame["patient"])
    with pytest.raises(ValueError, match="max_rows must be that of the schema, 2"):
        binner(PERSONS, max_rows=3, **given).fit(frame)
    with pytest.raises(ValueError, match="the person key"):
        binner(PERSONS, **given).fit(frame.drop(columns="patient"))
    assert recorder.charges == []


def test_without_a_person_in_the_schema_groups_name_the_persons():
    frame = visits()
    ids = ["one"] * 10 + [str(each) for each in range(N - 10)]
    tables = exact_tables(binner(max_rows=3), frame, groups=ids)
    assert {table.sum() for _, table in tables} == {N - 10 + 3}


# Pipelines -----------------------------------------------------------------------------


def pipeline(schema=SCHEMA, *, n_samples=N, adjacency="add_remove", **parameters):
    return make_private_pipeline(
        DirichletHistogramTransformer(4, schema=schema, encode="ordinal", n_samples=n_samples),
        DirichletCategoricalNB(n_samples=n_samples),
        adjacency=adjacency,
        **parameters,
    )


def pipeline_changes(pipe, before, after):
    """Return the contribution to each table of the charged fit, with its mechanism."""
    found = []
    for X in (before, after):
        tables = exact_tables(pipe, X, y="label")
        found.append(tables[len(tables) // 2 :])  # the first half belongs to the rehearsal
    return [(m, new - old) for (m, old), (_, new) in zip(*found, strict=True)]


def test_a_pipeline_needs_no_other_declaration_than_the_schema():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe = pipeline(n_samples=None, adjacency="replace", epsilon=2.0).fit(visits(), "label")
    assert pipe.privacy_.not_covered == ()
    assert 1.99 < pipe.privacy_.composition().epsilon(1e-5) <= 2.0
    assert pipe[-1].n_categories_.tolist() == [5, 5, 3, 5]
    assert pipe.classes_.tolist() == ["no", "yes"]
    assert not any(finding.verdict == "leaks" for finding in check_pipeline(pipe))


def test_a_pipeline_predicts_for_frames_with_odd_cells_and_without_label_and_key():
    frame = visits(2000)
    frame["label"] = np.where(frame["weight"] > 80, "yes", "no")
    pipe = pipeline(PERSONS, n_samples=2000, epsilon=5.0).fit(frame, "label")
    assert pipe.score(frame, "label") > 0.85
    expected = pipe.predict(frame)
    for table in (frame.drop(columns=["label", "patient", "note"]), pl.from_pandas(frame)):
        np.testing.assert_array_equal(pipe.predict(table), expected)
    frame[["age", "day"]] = [["x", None]] * len(frame)
    assert set(pipe.predict(frame)) == {"no", "yes"}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("odd", [None, "x", "", 10**30, (1,), True])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_an_odd_record_of_a_pipeline_adds_no_more_than_the_bound(schema, column, odd):
    frame = visits()
    rows = [{**ROW, column: odd}] * (1 if schema is SCHEMA else 5)
    found = pipeline_changes(pipeline(schema), frame, with_rows(frame, *rows))
    for mechanism, change in found[:4]:  # bins, and so the other tables, depend on noise
        assert outside_bounds(change, mechanism) is None
    assert all(change.sum() <= mechanism.max_count for mechanism, change in found)


@pytest.mark.parametrize("label", [None, "perhaps", ""])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_a_record_without_a_label_is_counted_in_no_step(schema, label):
    frame = visits()
    added = with_rows(frame, {**ROW, "label": label})
    found = pipeline_changes(pipeline(schema), frame, added)
    for mechanism, change in found:
        assert change.sum() == 0
        assert mechanism.max_count == schema.max_rows
    for _, change in found[:4]:  # bins, and so the other tables, depend on noise
        assert not change.any()


def test_persons_in_a_pipeline_fill_the_bound():
    frame = visits()
    found = pipeline_changes(pipeline(PERSONS), frame, with_rows(frame, *[ROW] * 9))
    assert len(found) == 9
    for mechanism, change in found:
        assert change.sum() == mechanism.max_total == 2
    report = pipeline(PERSONS).fit(frame, "label").privacy_
    assert (report.unit.max_rows, report.unit.by_ids) == (2, True)


def test_a_schema_with_persons_must_be_that_of_the_first_step():
    from sklearn.preprocessing import FunctionTransformer

    recorder = Recorder()
    pipe = make_private_pipeline(
        FunctionTransformer(), binner(PERSONS), DirichletCategoricalNB(), accountant=recorder
    )
    frame = visits()
    with pytest.raises(ValueError, match="first step of the PrivatePipeline"):
        pipe.fit(frame.drop(columns="label"), frame["label"].to_numpy())
    assert recorder.charges == []


def test_a_private_score_uses_labels_and_ids_of_the_schema():
    frame = visits(1000)
    frame["label"] = np.where(frame["weight"] > 80, "yes", "no")
    pipe = pipeline(PERSONS, n_samples=1000, epsilon=20.0).fit(frame, "label")
    score = private_score(pipe, frame, "label", epsilon=5.0)
    assert (score.privacy.unit.max_rows, score.privacy.unit.by_ids) == (2, True)
    assert 0.6 < score.value < 1.1


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["records", "persons"])
def test_a_search_uses_labels_and_ids_of_the_schema(schema):
    frame = visits(1200)
    frame["label"] = np.where(frame["weight"] > 80, "yes", "no")
    grid = {"dirichlethistogramtransformer__n_bins": [3, 6]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = PrivateGridSearchCV(pipeline(schema, n_samples=1200), grid, epsilon=5.0)
        search.fit(frame, "label")
    assert search.privacy_.unit.is_person == (schema is PERSONS)
    assert search.privacy_.not_covered == ()
    assert search.privacy_.composition().epsilon(1e-5) <= 5.0


# Parameters ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": (0, 1)}, "must not be given with a schema"),
        ({"n_categories": 3}, "must not be given with a schema"),
        ({"schema": {"age": (0, 1)}}, "schema"),
        ({"n_bins": [4, 4]}, "n_bins"),
        ({"n_fine_bins": 3}, "n_bins must be at most the number of fine bins; got 4 and 3"),
    ],
)
def test_a_bad_parameter_is_named_before_any_charge(change, message):
    recorder = Recorder()
    with pytest.raises(ValueError, match=message):
        binner(accountant=recorder).set_params(**change).fit(visits())
    assert recorder.charges == []


def test_columns_that_cannot_be_binned_are_all_named():
    schema = SCHEMA.replace(columns={**COLUMNS, "age": Schema.names(), "sex": Schema.names()})
    with pytest.raises(ValueError, match=r"(?s)Schema.ignore.*'age'.*'sex'"):
        binner(schema).fit(visits())
    with pytest.raises(ValueError, match="'extra': is not declared"):
        binner().fit(visits().assign(extra=1))
    with pytest.raises(ValueError, match="at least one column"):
        binner().fit(visits()[["patient", "note"]])
    with pytest.raises(ValueError, match="at least one record"):
        binner().fit(visits()[:0])
    with pytest.raises(ValueError, match=r"lacks \['age'\]"):
        binner().fit(visits()).transform(visits().drop(columns="age"))


def test_names_of_features_are_those_of_the_schema():
    model = binner(encode="onehot").fit(pa.Table.from_pandas(visits().astype(str)))
    assert model.feature_names_in_.tolist() == BINNED
    assert model.get_feature_names_out()[:6].tolist() == [
        *(f"age_{bin}.0" for bin in range(5)),
        "weight_0.0",
    ]
    assert model.transform(visits()).shape == (N, 5 + 5 + 3 + 5 + 3)


def test_a_schema_that_is_set_after_a_fit_changes_no_bins():
    frame = visits()
    model = binner().fit(frame)
    bins = model.transform(frame)
    model.set_params(schema=None)
    np.testing.assert_array_equal(model.transform(frame), bins)
    assert list(model.sample(2)) == BINNED
    numbers = frame[["age", "weight"]].astype(float)
    model.set_params(bounds=(0, 200)).fit(numbers)
    assert isinstance(model.sample(2), np.ndarray)
    assert model.n_bins_.tolist() == [4, 4]
