"""Tables that are not in memory give the counts, and the errors, of tables that are."""

import re
import warnings
from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateTableClassifier,
    Schema,
    make_private_pipeline,
)
from skdirdp._contributions import ContributionError, Weights
from skdirdp.engines import KINDS, frames, in_memory
from skdirdp.engines.frames import LazyTable, bounded_rows

from .probes import Recorder, drawn_tables, outside_bounds
from .tables import ELSEWHERE, IN_GROUPS, IN_MEMORY, IN_PARTS, arrow, dask_frame, names

CLASSES = ["a", "b", "c"]
COLOURS = ["blue", "green", "red"]


def records(n=600, seed=0):
    """Categories, strings, numbers with fractions, labels, weights and persons."""
    rng = np.random.default_rng(seed)
    whole = rng.random(n) < 0.5
    numbers = rng.gamma(1.0, 2.0, (n, 2)) * (rng.random((n, 2)) < 0.7)
    return pd.DataFrame(
        {
            "code": rng.integers(0, 4, n),
            "flag": rng.integers(0, 2, n).astype(bool),
            "colour": rng.choice(COLOURS, n),
            "much": np.where(whole, np.rint(numbers[:, 0]), numbers[:, 0]),
            "little": np.where(whole, np.rint(numbers[:, 1]), numbers[:, 1]),
            "label": rng.choice(CLASSES, n),
            "weight": rng.random(n) * 2,
            "person": rng.integers(0, n // 3, n),
        }
    )


CATEGORICAL = DirichletCategoricalNB(classes=CLASSES, n_categories=[4, 2])
MULTINOMIAL = DirichletNB(classes=CLASSES, max_count=3, max_total=4)
COMPLEMENT = DirichletComplementNB(classes=CLASSES, max_count=3, max_total=4)
BERNOULLI = DirichletBernoulliNB(classes=CLASSES, binarize=1.5)
CLOSE = DirichletBernoulliNB(classes=CLASSES, binarize=0.1)
FEW = DirichletBernoulliNB(classes=CLASSES, max_total=1)
BINS = DirichletHistogramTransformer(
    bounds={"much": (-1, 5.5), "little": (0.5, 3)}, n_categories={"code": 4}
)
STATES = {"code": range(4), "flag": [False, True], "colour": COLOURS, "label": CLASSES}
NETWORK = PrivateBayesNetMLE({"flag": ["code"], "label": ["flag", "colour"]}, states=STATES)

#: A model, its features, and further arguments of fit.
FITS = {
    "categorical": (CATEGORICAL, ["code", "flag"], {"y": "label"}),
    "multinomial": (MULTINOMIAL, ["much", "little"], {"y": "label"}),
    "complement": (COMPLEMENT, ["much", "little"], {"y": "label"}),
    "bernoulli": (BERNOULLI, ["much", "little"], {"y": "label"}),
    "bernoulli, few": (FEW, ["much", "little"], {"y": "label"}),
    "bernoulli at 0.1": (CLOSE, ["much", "little"], {"y": "label"}),
    "bins": (BINS, ["much", "little", "code"], {}),
    "network": (NETWORK, ["code", "flag", "colour", "label"], {}),
}
WEIGHTED = [name for name in FITS if FITS[name][2]]


def counted(name, table=None, frame=None, **more):
    """Return the fitted model, and the exact tables that its mechanisms received."""
    model, features, given = FITS[name]
    given = {**given, **more}
    frame = records() if frame is None else frame
    # A column without a role is a feature.
    frame = frame[list(dict.fromkeys([*features, *given.values()]))]
    model = clone(model)
    if "sample_weight" in given:
        model.set_params(max_weight=2)
    if "groups" in given:
        model.set_params(max_rows=2, n_samples=400)
    with drawn_tables() as tables:
        model.fit(frame if table is None else table(frame), **given)
    return model, tables


def assert_same(found, expected):
    (model, tables), (there, wanted) = found, expected
    assert len(tables) == len(wanted) > 0
    for (mechanism, table), (its, other) in zip(tables, wanted, strict=True):
        np.testing.assert_array_equal(table, other)
        assert mechanism == its
    assert model.privacy_ == there.privacy_
    assert list(model.feature_names_in_) == list(there.feature_names_in_)


# --- Counts ---------------------------------------------------------------------


@pytest.mark.parametrize("table", names([*IN_MEMORY, *ELSEWHERE]))
@pytest.mark.parametrize("name", FITS)
def test_exact_counts_and_claims_are_those_of_pandas(name, table):
    container = {**IN_MEMORY, **ELSEWHERE}[table]
    assert_same(counted(name, container), counted(name))


@pytest.mark.parametrize("table", names([*IN_MEMORY, *ELSEWHERE]))
@pytest.mark.parametrize("name", WEIGHTED[:2])
def test_weights_count_as_in_memory(name, table):
    container = {**IN_MEMORY, **ELSEWHERE}[table]
    weighted = {"sample_weight": "weight"}
    assert_same(counted(name, container, **weighted), counted(name, **weighted))


@pytest.mark.parametrize("table", names([*IN_MEMORY, *ELSEWHERE]))
def test_counts_are_those_of_pandas_own_crosstab(table):
    frame = records()
    _, tables = counted("categorical", {**IN_MEMORY, **ELSEWHERE}[table])
    classes, codes, flags = (table for _, table in tables)
    np.testing.assert_array_equal(classes, frame["label"].value_counts().loc[CLASSES])
    np.testing.assert_array_equal(codes, pd.crosstab(frame["label"], frame["code"]))
    np.testing.assert_array_equal(flags, pd.crosstab(frame["label"], frame["flag"]))


@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_categoricals_and_unused_categories_are_counted_by_value(table):
    frame = records()
    kinds = pd.CategoricalDtype(["violet", *reversed(COLOURS)])
    assert_same(
        counted("network", ELSEWHERE[table], frame.astype({"colour": kinds})),
        counted("network", frame=frame),
    )


@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_without_noise_the_model_is_that_of_memory(table):
    frame = records()[["code", "flag", "label"]]
    model = clone(CATEGORICAL).set_params(epsilon=float("inf"))
    there = clone(model).fit(ELSEWHERE[table](frame), "label")
    model.fit(frame, "label")
    for here, other in zip(model.category_count_, there.category_count_, strict=True):
        np.testing.assert_array_equal(here, other)
    numbers = records()[["much", "little", "label"]]
    exact = DirichletNB(epsilon=float("inf"), classes=CLASSES)
    sums = clone(exact).fit(ELSEWHERE[table](numbers), "label").feature_count_
    np.testing.assert_allclose(sums, exact.fit(numbers, "label").feature_count_, rtol=1e-12)


def test_folders_of_files_are_read_with_their_partitions_and_filters(tmp_path):
    frame = records()
    ds.write_dataset(
        arrow(frame),
        tmp_path,
        format="parquet",
        partitioning=["colour"],
        partitioning_flavor="hive",
    )
    folder = ds.dataset(tmp_path, partitioning="hive")
    assert len(list(folder.get_fragments())) == len(COLOURS)
    some = frame[frame["much"] > 1]
    filtered = folder.filter(ds.field("much") > 1)
    for files, rows in ((folder, frame), (filtered, some)):
        _, tables = counted("network", lambda _, files=files: files)
        for (_, table), (_, other) in zip(tables, counted("network", frame=rows)[1], strict=True):
            np.testing.assert_array_equal(table, other)
    assert len(some) < len(frame)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_numbers_of_every_type_are_counted_as_in_memory(table, dtype):
    frame = records()
    # 0.1 is not the same in single precision, and is the threshold.
    frame[["much", "little"]] = np.where(frame[["much", "little"]] > 1, 0.1, 0.7)
    frame = frame.astype({"much": dtype, "little": "float32" if dtype == "int8" else dtype})
    for name in ("multinomial", "bernoulli at 0.1", "bins"):
        assert_same(counted(name, ELSEWHERE[table], frame), counted(name, frame=frame))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_dask_arrays_of_dense_and_sparse_blocks_are_counted(make):
    frame = records()
    X = frame[["code", "flag"]].to_numpy(dtype=float)
    model = clone(MULTINOMIAL)
    with drawn_tables() as tables:
        model.fit(X, frame["label"])
    # Dask itself puts dense columns together, and not all kinds of sparse ones.
    blocks = da.from_array(X, chunks=(170, 1 if make is np.asarray else 2)).map_blocks(make)
    for y in (frame["label"].to_numpy(), da.from_array(frame["label"].to_numpy(), chunks=91)):
        with drawn_tables() as found:
            model.fit(blocks, y)
        for (_, table), (_, other) in zip(found, tables, strict=True):
            np.testing.assert_array_equal(table, other)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


def test_labels_and_weights_may_be_series_of_the_same_partitions():
    frame = records()
    table = dask_frame(frame)
    model = clone(CATEGORICAL).set_params(max_weight=2)
    with drawn_tables() as tables:
        model.fit(table[["code", "flag"]], table["label"], sample_weight=table["weight"])
    for (_, found), (_, other) in zip(
        tables, counted("categorical", sample_weight="weight")[1], strict=True
    ):
        np.testing.assert_array_equal(found, other)


def test_a_part_may_have_weights_that_are_all_zero():
    frame = records()
    frame.loc[:200, "weight"] = 0.0
    weighted = {"sample_weight": "weight"}
    expected = counted("categorical", frame=frame, **weighted)
    for table in ELSEWHERE.values():
        assert_same(counted("categorical", table, frame, **weighted), expected)
    frame["weight"] = 0.0
    for table in (*IN_MEMORY.values(), *ELSEWHERE.values()):
        with pytest.raises(ValueError, match="at least one non-zero"):
            counted("categorical", table, frame, **weighted)


# --- Bounds ---------------------------------------------------------------------

#: Records as far beyond the bounds as there are.
LARGE = {"code": 3, "flag": True, "colour": "red", "much": 1e9, "little": 2.5e8, "label": "b"}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("table", names(ELSEWHERE))
@pytest.mark.parametrize("name", FITS)
def test_one_record_changes_a_table_by_its_bound_and_by_no_more(name, table, weighted):
    if weighted and name not in WEIGHTED:
        pytest.skip("takes no weights")
    more = {"sample_weight": "weight"} if weighted else {}
    frame = records(60)
    extra = pd.DataFrame([{**LARGE, "weight": 2.0, "person": 10**6}]).astype(frame.dtypes)
    _, without = counted(name, ELSEWHERE[table], frame, **more)
    _, tables = counted(name, ELSEWHERE[table], pd.concat([frame, extra]), **more)
    looked_at = 0
    for (mechanism, counts), (_, before) in zip(tables, without, strict=True):
        change = counts - before
        if np.any(change < 0):  # full and empty places, whose sum is what is bounded
            continue
        looked_at += 1
        assert outside_bounds(change, mechanism) is None
        # The bound is used up: a claim for half of it would be wrong.
        most = mechanism.max_count if mechanism.max_total is None else mechanism.max_total
        assert change.sum() > 0.9 * most
    assert looked_at


@pytest.mark.parametrize("table", names(IN_PARTS))
@pytest.mark.parametrize("name", FITS)
def test_of_each_person_the_first_rows_are_counted_over_all_parts(name, table):
    frame = records()
    person = {"groups": "person"}
    expected = counted(name, frame=frame, **person)
    assert_same(counted(name, IN_PARTS[table], frame, **person), expected)
    text = frame.astype({"person": str})
    assert_same(counted(name, IN_PARTS[table], text, **person), expected)
    kept = frame.groupby("person").cumcount().lt(2).sum()
    assert kept < len(frame)
    sizes = [table.sum() for mechanism, table in expected[1] if mechanism.max_total is None]
    assert all(size == kept for size in sizes)


@pytest.mark.parametrize("table", names(IN_GROUPS))
def test_frames_without_order_refuse_persons_with_more_rows_than_declared(table):
    frame = records()
    model = clone(CATEGORICAL).set_params(max_rows=3, n_samples=500, accountant=Recorder())
    columns = ["code", "flag", "label", "person"]
    with pytest.raises(ValueError, match=r"at most max_rows=3 rows each.*PARTITION BY"):
        model.fit(IN_GROUPS[table](frame[columns]), "label", groups="person")
    few = frame[frame.groupby("person").cumcount() < 3]
    model.fit(IN_GROUPS[table](few[columns]), "label", groups="person")
    assert len(model.accountant.charges) == 1
    # The rejected records were not removed, so the bound is still a declaration.
    assert str(model.privacy_.unit) == "one person with up to 3 records (declared, not checked)"
    gaps = few.astype({"person": "Int64"})
    gaps.loc[gaps.index[5], "person"] = pd.NA
    with pytest.raises(ValueError, match=r"groups must contain .* some are missing"):
        model.fit(IN_GROUPS[table](gaps[columns]), "label", groups="person")
    halves = few.assign(person=few["person"] / 2)
    with pytest.raises(TypeError, match="groups must contain whole numbers or strings"):
        model.fit(IN_GROUPS[table](halves[columns]), "label", groups="person")


def unbounded(rule):
    return replace(rule, clip=1e12, limit=1e12)


def off_the_grid(rule):
    return replace(rule, grid=rule.grid / 2**10)


@pytest.mark.parametrize("fault", [unbounded, off_the_grid])
@pytest.mark.parametrize("name", ["multinomial", "complement", "bernoulli, few"])
def test_an_engine_that_breaks_the_rule_is_found_out_before_the_charge(name, fault, monkeypatch):
    def broken(frame, numbers, rule, weight, label):
        return bounded_rows(frame, numbers, fault(rule), weight, label)

    monkeypatch.setattr(frames, "bounded_rows", broken)
    frame = records()
    frame.loc[7, ["much", "little"]] = [100.3, 200.7]
    model, features, given = FITS[name]
    model = clone(model).set_params(accountant=Recorder())
    with pytest.raises(ContributionError, match="more than its bound"):
        model.fit(pl.from_pandas(frame[[*features, "label"]]).lazy(), **given)
    assert model.accountant.charges == []


def test_sums_of_weights_must_be_on_their_grid():
    terms = Weights.from_values(np.array([0.3, 1.7]), 2.0)
    terms.with_group_totals(np.array([1.0, 3.0]) * terms.grid)
    with pytest.raises(ContributionError):
        terms.with_group_totals(np.array([0.3]) * terms.grid)
    with pytest.raises(ContributionError):
        Weights.from_values(None, None).with_group_totals(np.array([2.5]))
    with pytest.raises(ContributionError):
        Weights.from_values(None, None).with_group_totals(np.array([-1.0]))
    with pytest.raises(ContributionError):
        Weights.from_values(None, None).with_group_totals(np.array([np.nan]))


# --- Errors ---------------------------------------------------------------------

SECRET = 98765
NAME = "Alice Liddell"


def spoilt(column, value, dtype=object):
    frame = records().astype({column: dtype})
    frame.loc[[123, 345], column] = value
    return frame


BAD_CELLS = {
    "missing code": ("categorical", spoilt("code", np.nan, float).astype({"flag": int}), {}),
    "unknown code": ("categorical", spoilt("code", SECRET, int), {}),
    "negative code": ("categorical", spoilt("code", -SECRET, int), {}),
    "missing label": ("categorical", spoilt("label", np.nan, str), {}),
    "unknown label": ("categorical", spoilt("label", NAME), {}),
    "missing number": ("multinomial", spoilt("much", np.nan, float), {}),
    "infinite number": ("multinomial", spoilt("much", np.inf, float), {}),
    "negative number": ("multinomial", spoilt("much", -SECRET, float), {}),
    "unknown label of numbers": ("complement", spoilt("label", NAME), {}),
    "missing number of bits": ("bernoulli", spoilt("little", np.nan, float), {}),
    "missing value of bins": ("bins", spoilt("much", np.nan, float), {}),
    "infinite value of bins": ("bins", spoilt("little", -np.inf, float), {}),
    "unknown category of bins": ("bins", spoilt("code", SECRET, int), {}),
    "broken category of bins": ("bins", spoilt("code", 1.5, float), {}),
    "unknown state": ("network", spoilt("colour", NAME), {}),
    "missing state": ("network", spoilt("colour", None), {}),
    "missing weight": (
        "categorical",
        spoilt("weight", np.nan, float),
        {"sample_weight": "weight"},
    ),
    "negative weight": ("multinomial", spoilt("weight", -0.5, float), {"sample_weight": "weight"}),
    "large weight": ("multinomial", spoilt("weight", SECRET, float), {"sample_weight": "weight"}),
}


def refusal(name, frame, more, table=None):
    with pytest.raises((TypeError, ValueError)) as caught:
        counted(name, table, frame, **more)
    return caught.value


@pytest.mark.parametrize("table", names(ELSEWHERE))
@pytest.mark.parametrize("fault", BAD_CELLS)
def test_bad_cells_are_rejected_as_in_memory_and_not_shown(fault, table):
    name, frame, more = BAD_CELLS[fault]
    error = refusal(name, frame, more, ELSEWHERE[table])
    assert str(error) == str(refusal(name, frame, more))
    while error is not None:
        assert str(SECRET) not in str(error)
        assert NAME not in str(error)
        error = error.__context__


@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_text_instead_of_numbers_is_rejected_without_showing_it(table):
    for name in ("categorical", "multinomial", "bins"):
        column = FITS[name][1][0]
        frame = records().astype({column: str})
        frame[column] = NAME
        assert "values must be numeric; got text" in str(refusal(name, frame, {}, ELSEWHERE[table]))


@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_an_empty_table_is_rejected(table):
    for name in FITS:
        with pytest.raises(ValueError, match=r"at least one record|0 sample"):
            counted(name, ELSEWHERE[table], records().iloc[:0])


def test_too_many_distinct_values_are_not_sent_to_the_client():
    frame = records(5000)
    frame["code"] = np.arange(len(frame))
    seen = []
    to_pandas = pl.DataFrame.to_pandas
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pl.DataFrame, "to_pandas", lambda self: seen.append(len(self)) or to_pandas(self)
        )
        with pytest.raises(ValueError, match="categories below n_categories"):
            counted("categorical", IN_GROUPS["polars lazy"], frame)
    assert max(seen) == 4 * 3 + 1


def test_weights_that_change_between_queries_stay_within_their_bound():
    frame = records(60)[["code", "flag", "label", "weight"]]
    large = frame.assign(weight=1e6)
    model = clone(CATEGORICAL).set_params(max_weight=2)
    tables = iter([frame, *[large] * 10])
    collect = LazyTable._collect

    def changing(self, query):
        self._frame = LazyTable(pl.from_pandas(next(tables)).lazy(), {})._frame
        return collect(self, query)

    with pytest.MonkeyPatch.context() as patch, drawn_tables() as found:
        patch.setattr(LazyTable, "_collect", changing)
        model.fit(pl.from_pandas(frame).lazy(), "label", sample_weight="weight")
    for _, table in found:
        assert table.sum() <= 2 * len(frame)
    assert found[-1][1].sum() == 2 * len(frame)


def test_one_value_in_several_forms_is_rejected():
    # In memory 1.5 is cut to 1, as scikit-learn does.
    frame = records().astype({"code": float})
    frame["code"] += np.arange(len(frame)) / 1000
    with pytest.raises(ValueError, match="each in one form"):
        counted("categorical", IN_GROUPS["duckdb"], frame)


ODD_NAMES = ["*", "^code$", "^.*$", "code.x", 'a "b"', "it's", "len", " ", "__skdirdp_n", "a;--"]
ODD_NAMES += ["__skdirdp_column1"]


@pytest.mark.parametrize("column", ODD_NAMES)
@pytest.mark.parametrize("table", names(IN_GROUPS))
@pytest.mark.parametrize("name", ["categorical", "multinomial", "bins", "network"])
def test_special_characters_in_a_name_are_escaped(name, table, column):
    frame = records(50)[["code", "flag", "label"]].astype({"flag": int})
    frame = frame.assign(**{column: 2 - frame["flag"]})
    features = ["code", "flag", column]
    model = {
        "categorical": DirichletCategoricalNB(classes=CLASSES, n_categories=4),
        "multinomial": DirichletNB(classes=CLASSES, max_count=2, max_total=4),
        "bins": DirichletHistogramTransformer(bounds=(0, 4), n_bins=4),
        "network": PrivateBayesNetMLE(
            dict.fromkeys(features, ()), states=dict.fromkeys(features, range(4))
        ),
    }[name]
    y = name in ("categorical", "multinomial")
    frame = frame if y else frame[features]
    with drawn_tables() as expected:
        clone(model).fit(frame[features], *([frame["label"]] if y else []))
    with drawn_tables() as found:
        clone(model).fit(IN_GROUPS[table](frame), *(["label"] if y else []))
    assert len(found) == len(expected) > 0
    for (_, these), (_, those) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(these, those)


@pytest.mark.parametrize("column", ["*", "a.b", "^a$", 'a "b"'])
def test_special_characters_in_a_name_are_rejected_for_unknown_engines(column):
    frame = records(50)[["code", "label"]].assign(**{column: 1})
    model = DirichletCategoricalNB(classes=CLASSES, n_categories=4, accountant=Recorder())
    with pytest.raises(ValueError, match="Rename it"):
        model.fit(nw.from_native(dd.from_pandas(frame)).lazy(), "label")
    assert model.accountant.charges == []


def test_a_name_refers_neither_to_a_field_nor_to_a_table():
    query = """SELECT {'b': 0} AS a, 1 AS "a.b", 0 AS c, 1 AS "t.c" FROM range(20)"""
    relation = duckdb.sql(query).set_alias("t")
    nodes = dict.fromkeys(["a.b", "t.c"], ())
    with drawn_tables() as found:
        PrivateBayesNetMLE(nodes, states={node: [0, 1] for node in nodes}).fit(relation)
    assert [np.ravel(table).tolist() for _, table in found] == [[0, 20], [0, 20]]


def test_columns_whose_names_differ_in_case_are_different():
    relation = duckdb.sql('SELECT 0 AS a, 1 AS "A" FROM range(20)')
    nodes = dict.fromkeys("aA", ())
    with drawn_tables() as found:
        PrivateBayesNetMLE(nodes, states={node: [0, 1] for node in nodes}).fit(relation)
    assert [np.ravel(table).tolist() for _, table in found] == [[20, 0], [0, 20]]


def test_a_relation_with_two_columns_of_one_name_is_rejected():
    relation = duckdb.sql("SELECT 0 AS a, 1 AS a, 0 AS label FROM range(20)")
    model = DirichletCategoricalNB(classes=[0], n_categories=4, accountant=Recorder())
    with pytest.raises(ValueError, match="distinct column names"):
        model.fit(relation, "label")
    assert model.accountant.charges == []


UNDECLARED = {
    "classes": (clone(CATEGORICAL).set_params(classes=None), "categorical"),
    "n_categories": (clone(CATEGORICAL).set_params(n_categories=None), "categorical"),
    "max_count": (clone(MULTINOMIAL).set_params(max_count=None), "multinomial"),
    "max_total": (clone(MULTINOMIAL).set_params(max_total=None), "multinomial"),
    "bounds": (clone(BINS).set_params(bounds={"much": (0, 1)}), "bins"),
    "states": (clone(NETWORK).set_params(states=None), "network"),
    "states['colour']": (
        clone(NETWORK).set_params(states={k: v for k, v in STATES.items() if k != "colour"}),
        "network",
    ),
}


def unreadable(frame):
    raise AssertionError("a part was read")


@pytest.mark.parametrize("parameter", UNDECLARED)
def test_public_parameters_must_be_declared_before_data_are_read(parameter):
    model, name = UNDECLARED[parameter]
    _, features, given = FITS[name]
    table = dask_frame(records()[list(dict.fromkeys([*features, *given.values()]))])
    table = table.map_partitions(unreadable, meta=table._meta)
    model = clone(model).set_params(accountant=Recorder())
    message = f"^{re.escape(parameter)} must be given if X is a Dask collection"
    with pytest.raises(ValueError, match=message):
        model.fit(table, **given)
    assert model.accountant.charges == []


def test_a_bound_of_weights_must_be_declared_too():
    with pytest.raises(ValueError, match="max_weight must be given if X is"):
        clone(CATEGORICAL).fit(
            dask_frame(records()[["code", "flag", "label", "weight"]]), "label", "weight"
        )


def test_exact_quantiles_are_rejected_for_data_out_of_memory():
    exact = DirichletHistogramTransformer(bounds=(0, 5), epsilon=float("inf"))
    table = dask_frame(records()[["much", "little"]])
    with pytest.raises(ValueError, match="epsilon must be finite, or strategy 'uniform'"):
        exact.fit(table)
    even = exact.set_params(strategy="uniform").fit(table)
    np.testing.assert_array_equal(even.bin_edges_[0], np.linspace(0, 5, 11))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": "nobody"}, "y must be the name of a column of X; 'nobody' is not one"),
        ({"y": "label", "groups": "label"}, "must name different columns"),
        ({}, "requires y to be passed"),
    ],
)
def test_wrong_names_of_columns_are_rejected(given, message):
    frame = records()[["code", "flag", "label"]]
    for table in (dask_frame, IN_GROUPS["duckdb"], IN_PARTS["arrow dataset"]):
        with pytest.raises(ValueError, match=message):
            clone(CATEGORICAL).fit(table(frame), given.get("y"), groups=given.get("groups"))


def test_separate_labels_must_match_the_partitions():
    frame = records()
    table = dask_frame(frame)
    with pytest.raises(TypeError, match="y must be a Dask array or Series"):
        clone(CATEGORICAL).fit(table[["code", "flag"]], frame["label"])
    with pytest.raises(ValueError, match=r"y must have as many partitions as X"):
        clone(CATEGORICAL).fit(table[["code", "flag"]], dd.from_pandas(frame["label"], 2))
    with pytest.raises(TypeError, match="y must be the name of a column"):
        clone(CATEGORICAL).fit(IN_GROUPS["duckdb"](frame[["code", "flag"]]), frame["label"])
    with pytest.raises(ValueError, match="X must have two dimensions"):
        clone(CATEGORICAL).fit(table["code"], table["label"])
    X = da.from_array(frame[["code", "flag"]].to_numpy(), chunks=100)
    with pytest.raises(ValueError, match="y must have one entry per row"):
        clone(CATEGORICAL).fit(X, frame["label"][:-1])
    with pytest.raises(ValueError, match="y must have one entry per row"):
        clone(CATEGORICAL).fit(X, da.from_array(frame["label"][:-1].to_numpy(), chunks=100))


@pytest.mark.parametrize("X", ["records/*.parquet", iter([[1, 2]]), (row for row in [[1]])])
def test_the_error_for_an_unknown_kind_lists_the_supported_ones(X):
    with pytest.raises(TypeError) as caught:
        clone(CATEGORICAL).fit(X, "label")
    for kind in KINDS:
        assert kind.name in str(caught.value)
        assert f"skdirdp[{kind.extra}]" in str(caught.value)


def test_a_missing_library_is_named_by_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skdirdp.engines.frames", None)
    with pytest.raises(ImportError, match=r"pip install 'skdirdp\[frames\]'"):
        clone(CATEGORICAL).fit(IN_GROUPS["polars lazy"](records()), "label")


def test_errors_of_the_users_own_tasks_show_no_data():
    def failing(frame):
        raise ValueError(f"could not convert {NAME}")

    table = dask_frame(records()[["code", "flag", "label"]])
    model = clone(CATEGORICAL).set_params(accountant=Recorder())
    with pytest.raises(ValueError, match="a ValueError, is not shown") as caught:
        model.fit(table.map_partitions(failing, meta=table._meta), "label")
    assert caught.value.__context__ is None
    assert model.accountant.charges == []


# --- Order of events ------------------------------------------------------------


@pytest.mark.parametrize("table", names(ELSEWHERE))
def test_a_fit_is_charged_once_and_keeps_no_counts(table):
    frame = records()[["code", "flag", "label"]]
    accountant = PrivacyAccountant(epsilon=1.5, delta=1e-5)
    model = clone(CATEGORICAL).set_params(accountant=accountant)
    model.fit(ELSEWHERE[table](frame), "label")
    assert len(accountant) == 1
    assert not {"_counts_", "_exact_counts_"} & set(vars(model))


def test_workers_get_neither_accountant_nor_generator():
    model = clone(CATEGORICAL).set_params(accountant=Recorder(), random_state=3)
    twin = model._for_workers()
    assert twin.accountant is None
    assert twin.random_state is None
    assert isinstance(model.accountant, Recorder)


def test_batches_must_be_in_memory():
    frame = records()[["code", "flag", "label"]]
    for table in ELSEWHERE.values():
        with pytest.raises(TypeError, match="X must be in memory for partial_fit"):
            clone(CATEGORICAL).partial_fit(table(frame), "label")
    model = clone(CATEGORICAL).partial_fit(frame, "label").release()
    assert model.n_features_in_ == 2


def test_a_pipeline_takes_tables_in_memory():
    pipeline = make_private_pipeline(clone(BINS), clone(CATEGORICAL), epsilon=1.0, delta=1e-5)
    frame = records()
    with pytest.raises(TypeError, match="X must be in memory in a PrivatePipeline"):
        pipeline.fit(dask_frame(frame[["much", "little", "code"]]), frame["label"])


# --- Predictions ----------------------------------------------------------------


def test_predictions_of_dask_collections_are_lazy_and_those_of_memory():
    frame = records()
    X = frame[["code", "flag"]]
    model = clone(CATEGORICAL).fit(X, frame["label"])
    for table in (dask_frame(X), da.from_array(X.to_numpy(), chunks=(100, 1))):
        for method in ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                found = getattr(model, method)(table)
                assert dask.is_dask_collection(found)
                np.testing.assert_array_equal(found.compute(), getattr(model, method)(X))


def test_prediction_of_dask_collections_releases_pending_counts():
    frame = records()
    X = frame[["code", "flag"]]
    model = clone(CATEGORICAL).set_params(accountant=Recorder())
    model.partial_fit(X, frame["label"])
    found = model.predict(dask_frame(X))
    assert len(model.accountant.charges) == 1
    np.testing.assert_array_equal(found.compute(), model.predict(X))
    assert model.score(dask_frame(X), dask_frame(frame)["label"]) == model.score(X, frame["label"])
    assert len(model.accountant.charges) == 1
    with pytest.raises(NotFittedError):
        clone(CATEGORICAL).predict(dask_frame(X))


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal", "density", "cdf"])
def test_transformations_of_dask_collections_are_lazy_and_those_of_memory(encode):
    X = records()[["much", "little", "code"]]
    bins = clone(BINS).set_params(encode=encode).fit(X)
    found = bins.transform(dask_frame(X))
    assert dask.is_dask_collection(found)
    assert found.shape[1] == bins.transform(X).shape[1]
    blocks, wanted = found.compute(), bins.transform(X)
    assert sparse.issparse(blocks) == sparse.issparse(wanted) == (encode == "onehot")
    if encode == "onehot":
        blocks, wanted = blocks.toarray(), wanted.toarray()
    np.testing.assert_array_equal(blocks, wanted)


def test_a_network_scores_and_predicts_dask_frames():
    X = records()[list(STATES)]
    model = clone(NETWORK).set_params(target="label").fit(X)
    table = dask_frame(X)
    np.testing.assert_array_equal(model.predict(table).compute(), model.predict(X))
    np.testing.assert_array_equal(model.predict_proba(table).compute(), model.predict_proba(X))
    np.testing.assert_allclose(model.score(table), model.score(X))


def test_predictions_of_other_lazy_frames_are_rejected():
    X = records()[["code", "flag"]]
    model = clone(CATEGORICAL).fit(X, records()["label"])
    for table in ("polars lazy", "duckdb", "arrow dataset"):
        with pytest.raises(TypeError, match="X must be in memory, or a Dask collection, for"):
            model.predict(ELSEWHERE[table](X))


# --- Progress -------------------------------------------------------------------


def test_progress_is_shown_in_interactive_sessions_only(monkeypatch, capsys):
    frame = records()[["code", "flag", "label"]]
    shown = {"dask": "Completed", "arrow dataset": "batch", "polars lazy": "table"}
    for table in shown:
        clone(CATEGORICAL).fit(ELSEWHERE[table](frame), "label")
    assert "".join(capsys.readouterr()) == ""
    monkeypatch.setattr(in_memory, "is_interactive", lambda: True)
    monkeypatch.setattr(in_memory, "PROGRESS_DELAY", 0)
    for table, words in shown.items():
        clone(CATEGORICAL).fit(ELSEWHERE[table](frame), "label")
        assert words in "".join(capsys.readouterr()), table


def test_a_missing_value_in_a_row_that_is_not_counted_changes_no_other_record(tmp_path):
    """A column of integers stays one; as floats, states above 2**53 would be merged."""
    big = 2**53
    model = PrivateBayesNetMLE(
        [("a", "b")],
        states={"a": [big, big + 1], "b": [False, True]},
        n_samples=80,
        adjacency="add_remove",
    )
    for number, truth in ((big, False), (None, None)):
        table = pa.table(
            {"a": [big, big + 1] * 40 + [number], "b": [False, True] * 40 + [truth]}
        ).append_column("id", pa.array([*range(80), 0]))
        ds.write_dataset(
            table, tmp_path, format="parquet", existing_data_behavior="delete_matching"
        )
        with drawn_tables() as counts:
            clone(model).fit(ds.dataset(tmp_path), groups="id")
        assert [each.tolist() for _, each in counts] == [[[40, 40]], [[40, 0], [0, 40]]]


class DatasetOfAnotherLibrary:
    def to_pandas(self):
        raise AssertionError("it must not be converted without being asked")


@pytest.mark.parametrize(
    "fit",
    [
        lambda X: DirichletCategoricalNB(classes=[0, 1], n_categories=2).fit(X, "y"),
        lambda X: PrivateBayesNet(Schema({"a": [0, 1]})).fit(X),
        lambda X: PrivateTableClassifier(Schema({"a": [0, 1], "y": [0, 1]})).fit(X, y="y"),
    ],
)
def test_unknown_datasets_are_rejected_with_a_hint(fit):
    with pytest.raises(TypeError, match=r"got DatasetOfAnotherLibrary. Convert it first"):
        fit(DatasetOfAnotherLibrary())
