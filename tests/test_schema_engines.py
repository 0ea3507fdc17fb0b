"""The same table gives the same codes in every container, in memory or not."""

import csv
import datetime as dt
import importlib.util
import shutil
import sys
from decimal import Decimal
from unittest.mock import patch

import dask.array as da
import dask.dataframe as dd
import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    Schema,
    make_private_pipeline,
)
from skdirdp.bayes_net.structure_learning import EncodedTable
from skdirdp.model_selection import PrivateGridSearchCV, private_score
from skdirdp.schema import blocks, table_blocks

from .probes import Recorder, drawn_tables
from .tables import ELSEWHERE, IN_GROUPS, IN_MEMORY, IN_PARTS, names
from .test_schema import KINDS, ODD

SCHEMA = Schema(
    {
        "age": (0, 110),
        "weight": (0.0, 200.0),
        "price": Schema.numbers(0.0, 10.0),
        "sex": Schema.categories(["f", "m"], other="other"),
        "ward": [1, 2],
        "born": ("1900-01-01", "2025-12-31"),
        "seen": ("2020-01-01T00:00:00", "2025-12-31T00:00:00"),
        "patient": Schema.key(),
    }
)
ZONE = dt.timezone(dt.timedelta(hours=2))
ROWS = [
    (30, 70.5, Decimal("1.25"), "f", 1, dt.date(1990, 5, 1), (2021, 3, 4, 5), 7),
    (None, None, None, None, None, None, None, None),
    (200, -1.0, Decimal("99.00"), "x", 3, dt.date(1800, 1, 1), (2030, 1, 1, 0), 8),
    (0, 0.0, Decimal("0.00"), "m", 2, dt.date(2025, 12, 31), (2020, 1, 1, 1), 9),
]
#: Codes by hand. Times have a zone: 5 o'clock is 3 o'clock in UTC, and 1 o'clock is too early.
CODES = {
    "age": [30, 111, 110, 0],
    "weight": [70.5, np.nan, 0.0, 0.0],
    "price": [1.25, np.nan, 10.0, 0.0],
    "sex": [0, 3, 2, 1],
    "ward": [0, 2, 2, 1],
    "born": [32992, 46021, 0, 46020],
    "seen": [36990000, 189302401, 189302400, 0],
}


def rows():
    return [
        (*row[:6], None if row[6] is None else dt.datetime(*row[6], tzinfo=ZONE), row[7])
        for row in ROWS
    ]


def arrow_table():
    types = [pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.string(), pa.int32(), pa.date32()]
    types += [pa.timestamp("us", tz="+02:00"), pa.int64()]
    columns = [
        pa.array(cells, kind) for cells, kind in zip(zip(*rows(), strict=True), types, strict=True)
    ]
    columns[3] = columns[3].dictionary_encode()
    return pa.Table.from_arrays(columns, names=list(SCHEMA))


def objects():
    cells = np.empty((len(ROWS), len(SCHEMA)), dtype=object)
    for place, row in enumerate(rows()):
        cells[place, :] = row
    return cells


def pandas_objects():
    return pd.DataFrame(objects(), columns=list(SCHEMA))


def relation():
    table = arrow_table()  # DuckDB finds it by its name
    return duckdb.connect().from_arrow(table)


CONTAINERS = {
    "rows": rows,
    "numpy": objects,
    "pandas": pandas_objects,
    "pandas with Arrow types": lambda: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
    "arrow": arrow_table,
    "record batch": lambda: arrow_table().combine_chunks().to_batches()[0],
    "dataset": lambda: pa.dataset.dataset(arrow_table()),
    "filtered dataset": lambda: pa.dataset.dataset(arrow_table()).filter(
        pa.dataset.field("patient").is_valid() | True
    ),
    "reader": lambda: arrow_table().to_reader(max_chunksize=1),
    "polars": lambda: pl.from_arrow(arrow_table()),
    "polars lazy": lambda: pl.from_arrow(arrow_table()).lazy(),
    "narwhals": lambda: nw.from_native(pl.from_arrow(arrow_table())),
    "narwhals lazy": lambda: nw.from_native(pl.from_arrow(arrow_table()).lazy()),
    "duckdb": relation,
    "narwhals of duckdb": lambda: nw.from_native(relation()),
    "dask frame": lambda: dd.from_pandas(pandas_objects(), npartitions=3, sort=False),
    "dask array": lambda: da.from_array(objects(), chunks=(3, 2)),
}


def assert_codes(codes):
    assert list(codes) == list(CODES)
    for name, expected in CODES.items():
        np.testing.assert_array_equal(codes[name], expected, err_msg=name)
    assert list(codes.index) == list(range(len(ROWS)))


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_has_the_same_codes(container):
    assert_codes(SCHEMA.encode(CONTAINERS[container]()))


@pytest.mark.parametrize("container", ["dataset", "polars lazy", "duckdb"])
def test_blocks_are_bounded_and_in_order(container, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 2048)
    table = pa.table({"age": np.arange(10_000) % 100})
    made = {
        "dataset": lambda: pa.dataset.dataset(table),
        "polars lazy": lambda: pl.from_arrow(table).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(table),
    }[container]
    sizes = [len(block) for block in table_blocks(made())]
    assert max(sizes) <= 2048
    assert sum(sizes) == 10_000
    codes = SCHEMA.select("age").encode(made())
    np.testing.assert_array_equal(codes["age"], np.arange(10_000) % 100)


@pytest.mark.parametrize("container", ["dataset", "reader", "polars lazy", "duckdb", "dask frame"])
def test_a_table_without_records_has_no_codes(container):
    empty = arrow_table().slice(0, 0)
    made = {
        "dataset": lambda: pa.dataset.dataset(empty),
        "reader": lambda: empty.to_reader(),
        "polars lazy": lambda: pl.from_arrow(empty).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(empty),
        "dask frame": lambda: dd.from_pandas(pandas_objects()[:0], npartitions=1),
    }[container]
    codes = SCHEMA.encode(made())
    assert list(codes) == list(CODES)
    assert len(codes) == 0


def write_csv(table, folder):
    path = folder / "table.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(table.column_names)
        writer.writerows(zip(*table.to_pydict().values(), strict=True))
    return path


IN_BLOCKS = {
    "dataset": lambda table: pa.dataset.dataset(table),
    "reader": lambda table: table.to_reader(max_chunksize=3),
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": lambda table: duckdb.from_arrow(table),
    "dask": lambda table: dd.from_pandas(
        table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=7, sort=False
    ),
}
#: Cells that a column of this type can hold, beside the ordinary ones.
ODD_CELLS = {
    pa.string(): [cell for cell in ODD if type(cell) is str and not set(cell) & {"\udc80", "\0"}],
    pa.int64(): [None, 0, 1, -1, 2**53 + 1, 2**62, -(2**63), 2020],
    pa.float64(): [None, np.nan, 0.0, -0.0, 0.5, 1e300, np.inf, -np.inf, 2020.0],
    pa.bool_(): [None, True, False],
    pa.decimal128(38, 2): [None, Decimal("1.50"), Decimal("250.00"), Decimal(10) ** 30],
    pa.date32(): [None, dt.date(1, 1, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31)],
    pa.timestamp("us"): [None, dt.datetime(1677, 1, 1), dt.datetime(2020, 5, 5, 5, 5, 5, 5)],
    pa.timestamp("us", tz="Asia/Tokyo"): [None, dt.datetime(2020, 6, 1, 0, tzinfo=ZONE)],
}


COLUMNS = [(kind, container) for kind in ODD_CELLS for container in IN_BLOCKS]


@pytest.mark.parametrize(("dtype", "container"), [*COLUMNS, (pa.string(), "csv")], ids=str)
def test_an_odd_cell_has_the_same_code_in_every_container_and_kind(
    dtype, container, tmp_path, monkeypatch
):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 2048)
    monkeypatch.setattr("skdirdp.schema.files._BLOCK_ROWS", 3)
    kinds = {kind: declared for kind, declared in KINDS.items() if kind != "mixed"}
    schema = Schema({**kinds, "key": Schema.key()})
    cells = ODD_CELLS[dtype]
    table = pa.table([pa.array(cells, dtype)] * len(schema), names=list(schema))
    if container == "csv":
        found = schema.read_csv(write_csv(table, tmp_path))
    else:
        found = schema.records(IN_BLOCKS[container](table))
        codes = schema.encode(IN_BLOCKS[container](table))
        pd.testing.assert_frame_equal(schema.encode(pd.DataFrame(found.columns)), codes)
    codes = schema.encode_columns(schema.records(found))
    for name in kinds:
        alone = [schema.encode_column(name, [cell])[0] for cell in cells]
        np.testing.assert_array_equal(codes[name], alone, err_msg=name)
    persons = schema.replace(person="key")
    ids = persons.person_ids(schema.records(found))
    assert [str(each) for each in ids] == [str(persons.key_ids([cell])[0]) for cell in cells]


def test_missing_values_of_a_dictionary_are_missing():
    codes = pa.array([0, 1, None, 2], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["m", None, "f"]))
    encoded = SCHEMA.select("sex").encode(pa.dataset.dataset(pa.table({"sex": column})))
    np.testing.assert_array_equal(encoded["sex"], [1, 3, 3, 0])


@pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None or shutil.which("java") is None,
    reason="Spark needs pyspark and Java",
)
@pytest.mark.filterwarnings("ignore")
def test_spark_frames_have_the_same_codes(monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    local = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
    session = SparkSession.builder.master("local[1]").config(map=local).getOrCreate()
    types = "bigint, double, decimal(5,2), string, int, date, timestamp, bigint".replace(
        "5,2", "5;2"
    )
    pairs = zip(SCHEMA, types.split(", "), strict=True)
    declared = ", ".join(f"{name} {kind}" for name, kind in pairs).replace(";", ",")
    try:
        frame = session.createDataFrame(rows(), declared)
        assert_codes(SCHEMA.encode(frame.coalesce(1)))
        assert len(SCHEMA.encode(frame.limit(0))) == 0
        assert_codes(SCHEMA.encode(nw.from_native(frame.coalesce(1))))
        for table in (frame, pandas_objects()):
            with drawn_tables() as tables:
                PrivateBayesNetMLE({"ward": ["sex"]}, schema=SCHEMA, n_samples=4).fit(table)
            counts = sorted((table.tolist() for _, table in tables), key=len)
            assert counts == [[[1, 1, 1, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]]
        with pytest.raises(TypeError, match="rows have no fixed order"):
            PrivateBayesNet(SCHEMA.replace(person="patient")).fit(frame)
    finally:
        session.stop()


@pytest.mark.parametrize("container", names(IN_PARTS))
def test_a_person_in_several_parts_is_counted_up_to_the_bound_of_the_schema(container):
    schema = Schema({"id": Schema.key(), "sex": ["f", "m"]}, person="id", max_rows=2)
    ids = [1.0, 2.0, 1.0, np.nan, 1.0, 1.0, 2.0, 1.0, np.nan, 1.0]
    frame = pd.DataFrame({"id": ids, "sex": ["f"] * 10})
    with drawn_tables() as tables:
        PrivateBayesNetMLE({"sex": []}, schema=schema, n_samples=4).fit(IN_PARTS[container](frame))
    ((mechanism, counts),) = tables
    assert counts.tolist() == [[4, 0, 0]]
    assert mechanism.max_total == 2


# Estimators ---------------------------------------------------------------------------

VISITS = Schema(
    {
        "patient": Schema.key(),
        "age": (0, 110),
        "sex": ["f", "m"],
        "day": ("2020-01-01", "2021-01-01"),
        "ill": [0, 1],
        "note": Schema.ignore(),
    }
)
PERSONS = VISITS.replace(person="patient", max_rows=2)
N = 300


def visits():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, N), "D")
    frame = pd.DataFrame(
        {
            "patient": rng.integers(0, 100, N),
            "age": rng.choice([20.0, 50.0, 200.0, np.nan], N),
            "sex": rng.choice(["f", "m", "x", None], N),
            "day": days,
            "ill": rng.integers(0, 2, N),
            "note": rng.choice(["a", "b"], N),
        }
    )
    frame.loc[5, "day"] = pd.NaT
    return frame


def pipeline(schema):
    return make_private_pipeline(schema.encoder(), DirichletCategoricalNB(n_samples=N))


ESTIMATORS = {
    "network": lambda schema, X: PrivateBayesNet(schema).fit(X),
    "given network": lambda schema, X: PrivateBayesNetMLE(
        {"ill": ["sex", "age"]}, schema=schema, n_samples=N
    ).fit(X),
    "histogram": lambda schema, X: DirichletHistogramTransformer(4, schema=schema, n_samples=N).fit(
        X
    ),
    "pipeline": lambda schema, X: pipeline(schema).fit(X, "ill"),
}
TABLES = {**IN_MEMORY, **ELSEWHERE, "rows": lambda frame: frame.to_numpy(object).tolist()}
TABLES |= {"dask array": lambda frame: da.from_array(frame.to_numpy(object), chunks=(70, 2))}


def exact_tables(estimator, schema, table):
    """The cells of a network, which draws tables by its noise, or the tables of other models."""
    encoded = []
    encode = EncodedTable.from_records

    def listening(*given):
        encoded.append(encode(*given))
        return encoded[-1]

    with drawn_tables() as tables, patch.object(EncodedTable, "from_records", listening):
        ESTIMATORS[estimator](schema, table)
    if estimator == "network":
        return list(encoded[0].cells.values())
    return [table for _, table in tables]


@pytest.mark.parametrize("schema", [VISITS, PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("container", names(TABLES))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_counts_the_same_in_every_container(estimator, container, schema):
    frame = visits()
    table = TABLES[container](frame)
    if schema is PERSONS and container in IN_GROUPS:
        with pytest.raises(TypeError, match="rows have no fixed order"):
            ESTIMATORS[estimator](schema, table)
        return
    expected = exact_tables(estimator, schema, frame)
    found = exact_tables(estimator, schema, table)
    for old, new in zip(expected, found, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("container", names(ELSEWHERE))
def test_searches_and_scores_read_tables_that_are_not_in_memory(container):
    schema = VISITS if container in IN_GROUPS else PERSONS
    grid = {"dirichletcategoricalnb__alpha": [0.1, 1.0]}
    table = ELSEWHERE[container]
    search = PrivateGridSearchCV(pipeline(schema), grid, epsilon=3.0).fit(table(visits()), "ill")
    assert search.privacy_.unit.is_person == (schema is PERSONS)
    assert search.predict(table(visits())).shape == (N,)
    score = private_score(search.best_estimator_, table(visits()), "ill", epsilon=np.inf)
    assert 0 <= score.value <= 1
    assert 0 <= search.best_estimator_.score(table(visits()), "ill") <= 1


@pytest.mark.parametrize("container", names(ELSEWHERE))
def test_the_encoder_reads_a_table_once(container):
    table = ELSEWHERE[container]
    expected = VISITS.encoder().fit_transform(visits())
    np.testing.assert_array_equal(VISITS.encoder().fit_transform(table(visits())), expected)


@pytest.mark.parametrize("container", names(ELSEWHERE))
def test_vectors_beside_a_table_that_is_not_in_memory_are_rejected(container):
    table, frame = ELSEWHERE[container], visits()
    model = pipeline(VISITS)
    fits = [
        lambda: model.fit(table(frame), frame["ill"]),
        lambda: model.fit(table(frame), "ill", groups=frame["patient"]),
        lambda: PrivateGridSearchCV(model, {}).fit(table(frame), frame["ill"]),
        lambda: private_score(model.fit(frame, "ill"), table(frame), frame["ill"]),
    ]
    for fit in fits:
        with pytest.raises(TypeError, match="y must be the name of a column"):
            fit()


def test_a_strict_schema_refuses_a_block_without_showing_it_and_before_the_charge():
    frame, recorder = visits().assign(sex="private"), Recorder()
    for container in ELSEWHERE.values():
        for model in (
            PrivateBayesNet(VISITS.replace(strict=True), accountant=recorder),
            DirichletHistogramTransformer(
                4, schema=VISITS.replace(strict=True), n_samples=N, accountant=recorder
            ),
        ):
            with pytest.raises(ValueError, match="column 'sex'") as error:
                model.fit(container(frame))
            assert "private" not in str(error.value)
    assert recorder.charges == []
