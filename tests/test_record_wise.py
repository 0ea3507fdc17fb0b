"""One record never changes how other records are encoded.

Two tables differ in one record, which is odd: a cell of another type, a missing value, a huge
number, an unexpected label or id. Both are counted, in a random container. The contribution of the
odd record to each exact table must be within the bound that is charged, so the
encoding of all other records is the same. A fit may refuse the odd record instead; then nothing
is compared, but a case in which every record is refused fails.

The defects at the end of this file are conversions of whole columns. Each is put back for one
test, and the comparison must find it.
"""

import csv
import warnings
from collections import deque
from contextlib import ExitStack, contextmanager, redirect_stderr
from decimal import Decimal
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from unittest.mock import patch

import dask.array as da
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, OneHotEncoder

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivateCrosstab,
    PrivateDirichletPosterior,
    PrivateTableClassifier,
    Schema,
    make_private_pipeline,
)
from skdirdp import text as vectorizer
from skdirdp._persons import select_rows
from skdirdp.bayes_net.structure_learning import EncodedTable
from skdirdp.command import main
from skdirdp.model_selection import make_private_scorer, private_score
from skdirdp.posterior.estimator import count_labels
from skdirdp.schema import columns as record_columns

from .probes import drawn_tables, outside_bounds

N = 60
BIG = 2**53


class Text(str):
    """A string that carries more than its characters."""

    __slots__ = ("extra",)


ODD = [
    None,
    np.nan,
    pd.NA,
    pd.NaT,
    "x",
    "1",
    "",
    "\ud800",
    "'\\ud800'",
    Text("1"),
    1,
    True,
    False,
    1.0,
    0.5,
    -0.0,
    2.0**53,
    BIG + 1,
    10**30,
    -(10**30),
    np.float32(0.1),
    0.1,
    np.int8(1),
    Decimal(1),
    1 + 0j,
    b"1",
    (1,),
    [1],
    {},
    float("inf"),
    pd.Timestamp("2020-01-01"),
]

#: Odd cells that a column of a declared type can hold, besides None.
ODD_TYPED = {
    "int": [0, 1, 5, -1, BIG, BIG + 1, 2**62, -(2**62)],
    "float": [np.nan, 0.1, -0.0, 0.0, 1e30, np.inf],
    "text": ["", "1", "x", "é", "'\\ud800'"],
    "bool": [True, False],
}


# Containers ------------------------------------------------------------------------

POLARS = {"int": pl.Int64, "float": pl.Float32, "text": pl.String, "bool": pl.Boolean}
ARROW = {"int": pa.int64(), "float": pa.float32(), "text": pa.string(), "bool": pa.bool_()}
NULLABLE = {"int": "Int64", "float": "Float32", "text": "string", "bool": "boolean"}


def objects(values):
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def encodable(column):
    """A column without lone surrogates, which most containers of texts refuse."""
    return ["w" if isinstance(cell, str) and cell == "\ud800" else cell for cell in column]


def pandas_frame(columns, kinds):
    return pd.DataFrame(
        {name: pd.Series(objects(column), dtype=object) for name, column in columns.items()}
    )


def nullable_frame(columns, kinds):
    return pd.DataFrame(
        {
            name: pd.array(encodable(column), dtype=NULLABLE[kinds[name]])
            for name, column in columns.items()
        }
    )


def categorical_frame(columns, kinds):
    known = {"int": [*range(6), BIG, BIG + 1], "bool": [False, True]}
    return pd.DataFrame(
        {
            name: pd.Categorical(objects(column), categories=known[kinds[name]])
            if kinds[name] in known
            else pd.Series(objects(column), dtype=object)
            for name, column in columns.items()
        }
    )


def polars_frame(columns, kinds):
    return pl.DataFrame(
        {
            name: pl.Series(encodable(column), dtype=POLARS[kinds[name]])
            for name, column in columns.items()
        }
    )


def arrow_table(columns, kinds):
    return pa.table(
        {name: pa.array(encodable(column), ARROW[kinds[name]]) for name, column in columns.items()}
    )


def arrow_dictionaries(columns, kinds):
    table = arrow_table(columns, kinds)
    encoded = [column.dictionary_encode() for column in table.columns]
    return pa.table(encoded, names=table.column_names)


FRAMES = {
    "pandas objects": pandas_frame,
    "pandas nullable": nullable_frame,
    "pandas categorical": categorical_frame,
    "polars": polars_frame,
    "arrow": arrow_table,
    "arrow dictionaries": arrow_dictionaries,
    "polars lazy": lambda columns, kinds: polars_frame(columns, kinds).lazy(),
    "duckdb": lambda columns, kinds: duckdb.from_arrow(arrow_table(columns, kinds)),
    "arrow dataset": lambda columns, kinds: ds.dataset(arrow_table(columns, kinds)),
    "dask": lambda columns, kinds: dd.from_pandas(nullable_frame(columns, kinds), npartitions=3),
}
#: Tables that are not in memory.
ELSEWHERE = ("polars lazy", "duckdb", "arrow dataset", "dask")
IN_MEMORY = tuple(name for name in FRAMES if name not in ELSEWHERE)
#: Tables whose columns have a type, and may have missing values.
TYPED = IN_MEMORY[1:]
ROWS = {
    "list": list,
    "tuple": tuple,
    "list of arrays": lambda rows: [np.array(row) for row in rows],
    "array of objects": lambda rows: np.array([objects(row) for row in rows]),
    "dask array": lambda rows: da.from_array(np.array(rows, dtype=np.float32), chunks=(20, 3)),
}
VECTORS = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "array": objects,
    "series": lambda values: pd.Series(objects(values), dtype=object),
    "column": lambda values: [[value] for value in values],
}


# Estimators ------------------------------------------------------------------------


@contextmanager
def captured(tables):
    """Collect the exact tables of a fit."""
    with drawn_tables() as drawn:
        yield
    tables.extend(drawn)


class Case:
    """An estimator, the records that it is given, and how its exact tables are obtained.

    Attributes
    ----------
    kinds : dict
        The kind of each column of X.
    cells : dict
        Ordinary cells of each kind, and labels and ids.
    vectors : tuple of str
        Vectors besides X: "y", "groups", "sample_weight".
    """

    def __init__(self, name, make, kinds, cells, vectors=(), frames=tuple(FRAMES), rows=ROWS):
        self.name, self.make, self.kinds, self.cells = name, make, kinds, cells
        self.vectors, self.containers = vectors, [*frames, *rows]

    def records(self, rng):
        """Ordinary records, as cells by column."""
        names = [*self.kinds, *self.vectors]
        return [
            {
                name: self.cells[name if name in self.vectors else self.kinds[name]][
                    rng.integers(self.size(name))
                ]
                for name in names
            }
            for _ in range(N)
        ]

    def size(self, name):
        return len(self.cells[name if name in self.vectors else self.kinds[name]])

    def tables(self, records, container, vector):
        """Exact tables of the records, each with the mechanism that hides it."""
        columns = {name: [record[name] for record in records] for name in self.kinds}
        beside = {name: [record[name] for record in records] for name in self.vectors}
        if container in ELSEWHERE:  # which take vectors by the names of columns
            kinds = {**self.kinds, **dict.fromkeys(beside, "int")}
            X = FRAMES[container]({**columns, **beside}, kinds)
            return self.fit(X, {name: name for name in beside})
        if container in FRAMES:
            X = FRAMES[container](columns, self.kinds)
        else:
            rows = zip(*columns.values(), strict=True)
            X = ROWS[container](
                [
                    getattr(record, "row", list)(row)
                    for record, row in zip(records, rows, strict=True)
                ]
            )
        return self.fit(X, {name: VECTORS[vector](cells) for name, cells in beside.items()})

    def fit(self, X, beside):
        found = []
        with captured(found):
            self.make().fit(X, **beside)
        return found


class Batches(Case):
    """A model that is given its records in two batches."""

    def fit(self, X, beside):
        model = self.make()
        found = []
        with captured(found):
            for part in (slice(N // 2), slice(N // 2, None)):
                some = {name: part_of(vector, part) for name, vector in beside.items()}
                model.partial_fit(X[part], **some)
            model.release()
        return found


def part_of(vector, part):
    """Some entries, in the same container."""
    return type(vector)(list(vector)[part]) if isinstance(vector, deque) else vector[part]


class Classifier(Case):
    """A classifier of tables, whose codes are captured before any noise."""

    target = None

    def fit(self, X, beside):
        class Encoded(BaseException):  # which no gate for errors stops
            pass

        def stop(records):
            raise Encoded(records)

        beside = beside if self.target is None else {"y": self.target}
        with patch("skdirdp.table_classifier.classifier.RecordCounts", stop):
            try:
                self.make().fit(X, **beside)
                raise ValueError("the table was refused")
            except Encoded as found:
                (records,) = found.args
        return [
            (None, np.bincount(records.labels * 1000 + codes, minlength=5000))
            for codes in records.columns
        ]


class LabelledClassifier(Classifier):
    """The same with the label in a column of the table."""

    target = "c"


class Network(Case):
    """A network with learnt structure, whose cells are captured before any noise."""

    def fit(self, X, beside):
        return self.encoded(lambda: self.make().fit(X, **beside))

    def encoded(self, fit):
        class Encoded(BaseException):  # which no gate for errors stops
            pass

        encode = EncodedTable.from_records

        def stop(*given):
            raise Encoded(encode(*given))

        with patch.object(EncodedTable, "from_records", stop):
            try:
                fit()
                raise ValueError("the table was refused")
            except Encoded as found:
                (table,) = found.args
        tables = [
            np.bincount(codes, minlength=table.domains[name].n_cells)
            for name, codes in table.cells.items()
        ]
        for numbered in table.unlisted.values():
            values = dict(enumerate(numbered.distinct))
            tables.append({repr(values.get(code)): n for code, n in counted(numbered.codes)})
        return [(None, table) for table in tables]


def counted(codes):
    return zip(*np.unique(codes, return_counts=True), strict=True)


class Command(Network):
    """The command on a CSV file, of which the odd row may have another number of fields."""

    schema = """
    missing_values = ["", "?"]
    [columns]
    a = { numbers = [0, 10] }
    b = { categories = ["00123", "0", "1.0"] }
    c = { names = true }
    """

    def tables(self, records, container, vector):
        with TemporaryDirectory() as folder:
            table, schema = Path(folder, "in.csv"), Path(folder, "schema.toml")
            schema.write_text(dedent(self.schema), encoding="utf-8")
            with table.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                rows = csv.writer(file)
                rows.writerow("abc")
                for record in records:
                    cells = [str(cell) for cell in record.values()]
                    rows.writerow(cells[:2] if cells[2] == "None" else cells)
            arguments = ["synthesize", table, Path(folder, "out.csv"), "--schema", schema]
            with redirect_stderr(StringIO()):
                return self.encoded(lambda: main([*map(str, arguments), "--quiet", "--epsilon=1"]))


class Score(Case):
    """A private score without noise, times the number of records."""

    def fit(self, X, beside):
        y = beside["y"]
        found = private_score(self.model(list("abc")), X, y, epsilon=float("inf"))
        return [(None, np.array([found.value * len(y), (1 - found.value) * len(y)]))]

    def model(self, names):
        return fitted_model()


def fitted_model():
    X = np.array([[0, 0, 0], [1, 1, 1]] * 5)
    return DirichletBernoulliNB(binarize=0.1, classes=[0, 1], epsilon=float("inf")).fit(
        X, X[:, 0].tolist()
    )


class ScoreOfCategories(Score):
    """The same of a model of scikit-learn, which encodes large integers."""

    def model(self, names):
        X = pl.DataFrame({name: [BIG, BIG + 1] * 5 for name in names})
        encode = OneHotEncoder(categories=[[BIG, BIG + 1]] * len(names), handle_unknown="ignore")
        return make_pipeline(encode, MultinomialNB()).fit(X, [0, 1] * 5)


class Posterior(Case):
    """A posterior, whose counts are captured where they are made."""

    def tables(self, records, container, vector):
        from skdirdp.posterior import estimator

        found = []
        count = estimator.category_counts

        def listening(*given):
            found.append((None, count(*given)))
            return count(*given)

        values = VECTORS[vector]([record["a"] for record in records])
        with patch.object(estimator, "category_counts", listening):
            self.make().fit(values)
        return found


class Words(Case):
    """A vocabulary, whose words are captured where they are counted."""

    def tables(self, records, container, vector):
        found = []
        count = vectorizer.count_names

        def listening(*given):
            counts = count(*given)
            found.append((None, {repr(word): number for word, number in counts.items()}))
            return counts

        with patch.object(vectorizer, "count_names", listening):
            self.make().fit([list(record.values()) for record in records])
        return found


PRIVATE = {"adjacency": "add_remove", "n_samples": N}
COUNTS = {"a": "int", "b": "int", "c": "int"}
FLOATS = {"a": "float", "b": "float", "c": "float"}
MIXED = {"a": "int", "b": "bool", "c": "text"}
LABELS = {"int": [0, 1, 2], "float": [np.float32(0.1), np.float32(0.7)], "y": [0, 1]}
BIG_LABELS = {**LABELS, "y": [BIG, BIG + 1]}
GAPS = {**LABELS, "int": [0, 1, 2, None]}
PERSONS = {**LABELS, "groups": [11, 12, 13, BIG + 4, BIG + 5]}
CELLS = {"int": [BIG, BIG + 1], "bool": [False, True], "text": ["u", "\ud800", "'\\ud800'"]}
STATES = {"a": [BIG, BIG + 1], "b": [False, True], "c": ["u", "w", "'\\ud800'", "\ud800", "x"]}

CASES = [
    Case(
        "DirichletNB",
        lambda: DirichletNB(classes=[0, 1], max_count=2, max_total=4, **PRIVATE),
        COUNTS,
        LABELS,
        ("y",),
    ),
    Case(
        "DirichletNB, large labels",
        lambda: DirichletNB(classes=[BIG, BIG + 1], max_count=2, max_total=4, **PRIVATE),
        COUNTS,
        BIG_LABELS,
        ("y",),
    ),
    Case(
        "DirichletNB, persons",
        lambda: DirichletNB(classes=[0, 1], max_count=2, max_total=4, max_rows=3, **PRIVATE),
        COUNTS,
        PERSONS,
        ("y", "groups"),
        frames=tuple(name for name in FRAMES if name not in ("polars lazy", "duckdb")),
    ),
    Case(
        "DirichletNB, weights",
        lambda: DirichletNB(classes=[0, 1], max_count=2, max_total=4, max_weight=1, **PRIVATE),
        COUNTS,
        {**LABELS, "sample_weight": [0, 1]},
        ("y", "sample_weight"),
    ),
    Batches(
        "DirichletNB, batches",
        lambda: DirichletNB(classes=[0, 1], max_count=2, max_total=4, max_rows=3, **PRIVATE),
        COUNTS,
        PERSONS,
        ("y", "groups"),
        frames=(),
        rows=("list", "tuple"),
    ),
    Case(
        "DirichletComplementNB",
        lambda: DirichletComplementNB(classes=[0, 1], max_count=2, max_total=4, **PRIVATE),
        COUNTS,
        LABELS,
        ("y",),
    ),
    Case(
        "DirichletBernoulliNB",
        lambda: DirichletBernoulliNB(classes=[0, 1], binarize=0.1, **PRIVATE),
        FLOATS,
        LABELS,
        ("y",),
    ),
    Case(
        "DirichletCategoricalNB",
        lambda: DirichletCategoricalNB(classes=[0, 1], n_categories=3, **PRIVATE),
        COUNTS,
        LABELS,
        ("y",),
    ),
    Case(
        "DirichletHistogramTransformer",
        lambda: DirichletHistogramTransformer(
            n_bins=2, bounds=(0, 0.2), n_fine_bins=2, strategy="uniform", **PRIVATE
        ),
        FLOATS,
        LABELS,
    ),
    Case(
        "PrivateBayesNetMLE",
        lambda: PrivateBayesNetMLE(
            [("a", "b"), ("b", "c")], states=STATES, columns=list("abc"), **PRIVATE
        ),
        MIXED,
        CELLS,
        rows=("list", "tuple", "array of objects"),
    ),
    Classifier(
        "PrivateTableClassifier",
        lambda: PrivateTableClassifier(
            Schema({"a": STATES["a"], "b": bool, "c": STATES["c"]}), classes=[0, 1], **PRIVATE
        ),
        MIXED,
        {**CELLS, "y": [0, 1]},
        ("y",),
        frames=IN_MEMORY,
        rows=("list", "tuple", "array of objects"),
    ),
    LabelledClassifier(
        "PrivateTableClassifier, label in a column",
        lambda: PrivateTableClassifier(
            Schema({"a": (0, 2**53), "b": bool, "c": STATES["c"]}), **PRIVATE
        ),
        MIXED,
        CELLS,
        frames=tuple(FRAMES),
        rows=("list", "tuple", "array of objects"),
    ),
    Network(
        "PrivateBayesNet",
        lambda: PrivateBayesNet(
            states={"a": STATES["a"]},
            bounds={"b": (0, 1)},
            columns=list("abc"),
            adjacency="add_remove",
        ),
        MIXED,
        CELLS,
        frames=IN_MEMORY,
        rows=("list", "tuple", "array of objects"),
    ),
    Network(
        "PrivateBayesNet, some missing",
        lambda: PrivateBayesNet(
            states={"a": STATES["a"]},
            bounds={"b": (0, 1)},
            columns=list("abc"),
            adjacency="add_remove",
        ),
        MIXED,
        {kind: [*cells, None] for kind, cells in CELLS.items()},
        frames=TYPED,
        rows=(),
    ),
    Case(
        "PrivateCrosstab",
        lambda: PrivateCrosstab(
            Schema({"a": Schema.numbers(0, 2**54, whole=False), "b": bool, "c": STATES["c"]}),
            [("a", "b"), ("b", "c"), ("a", "b", "c"), "a"],
            **PRIVATE,
        ),
        MIXED,
        CELLS,
        rows=("list", "tuple", "array of objects"),
    ),
    Case(
        "PrivateCrosstab, persons",
        lambda: PrivateCrosstab({"a": [0, 1], "b": (0, 2), "c": [0, 1, 2]}, max_rows=3, **PRIVATE),
        COUNTS,
        {name: cells for name, cells in PERSONS.items() if name != "y"},
        ("groups",),
        frames=tuple(name for name in FRAMES if name not in ("polars lazy", "duckdb")),
        rows=("list", "tuple", "array of objects"),
    ),
    Words(
        "PrivateCountVectorizer",
        lambda: PrivateCountVectorizer(analyzer=list, max_words=1, adjacency="add_remove"),
        MIXED,
        CELLS,
        frames=(),
        rows=("list",),
    ),
    Command(
        "the command",
        None,
        {"a": "number", "b": "code", "c": "text"},
        {"number": ["0", "3.5", "?"], "code": ["00123", "0", "1.0", ""], "text": ["u", "v", "?"]},
        frames=(),
        rows=("list",),
    ),
    Case(
        "pipeline of numbers",
        lambda: make_private_pipeline(
            SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
            Binarizer(threshold=0.1),
            DirichletBernoulliNB(classes=[0, 1], n_samples=N),
            adjacency="add_remove",
        ),
        FLOATS,
        LABELS,
        ("y",),
        frames=IN_MEMORY,
        rows=tuple(ROWS)[:4],
    ),
    Case(
        "pipeline of categories",
        lambda: make_private_pipeline(
            ColumnTransformer(
                [
                    (
                        "c",
                        OneHotEncoder(categories=[[0, 1, 2]] * 3, handle_unknown="ignore"),
                        [0, 1, 2],
                    )
                ]
            ),
            DirichletNB(classes=[0, 1], max_count=1, max_total=3, n_samples=N),
            adjacency="add_remove",
        ),
        COUNTS,
        LABELS,
        ("y",),
        frames=IN_MEMORY,
        rows=tuple(ROWS)[:4],
    ),
    Case(
        "pipeline of categories, some missing",
        lambda: make_private_pipeline(
            OneHotEncoder(categories=[[0, 1, 2]] * 3, handle_unknown="ignore"),
            DirichletNB(classes=[0, 1], max_count=1, max_total=3, n_samples=N),
            adjacency="add_remove",
        ),
        COUNTS,
        GAPS,
        ("y",),
        frames=TYPED,
        rows=(),
    ),
    ScoreOfCategories(
        "private_score of categories",
        None,
        COUNTS,
        {**LABELS, "int": [BIG, BIG + 1]},
        ("y",),
        frames=TYPED,
        rows=(),
    ),
    Score(
        "private_score",
        None,
        FLOATS,
        LABELS,
        ("y",),
        frames=IN_MEMORY,
        rows=tuple(ROWS)[:4],
    ),
    Posterior(
        "PrivateDirichletPosterior",
        lambda: PrivateDirichletPosterior(
            categories=[0, 1, "1", "x", BIG, BIG + 1], mechanism="lshist"
        ),
        {"a": "int"},
        {"int": [0, 1, BIG, BIG + 1]},
        frames=(),
        rows=("list",),
    ),
]


class OddRecord(dict):
    """A record whose row may be in another container than those of others."""

    row = list


ROW_CONTAINERS = (list, tuple, deque, np.array, pd.Series, iter)


# The property ----------------------------------------------------------------------


def difference(with_odd, without):
    """The part of one record in a table."""
    if isinstance(without, dict):
        names = {*with_odd, *without}
        return np.array([with_odd.get(name, 0) - without.get(name, 0) for name in names], float)
    return with_odd - without


def violation(with_odd, without):
    """A sentence on the first table in which the odd record changed more than its own part."""
    for place, ((mechanism, larger), (_, smaller)) in enumerate(
        zip(with_odd, without, strict=True)
    ):
        change = difference(larger, smaller)
        if mechanism is not None:
            wrong = outside_bounds(change, mechanism)
        else:
            is_one_record = np.abs(change).sum() <= 1 + 1e-9 and change.min() >= -1e-9
            wrong = None if is_one_record else f"changed by {np.abs(change).sum():g}"
        if wrong:
            return f"table {place}: {wrong}"
    return None


def odd_record(case, container, record, rng):
    """A record with one odd cell, or with several."""
    names = [*case.kinds, *case.vectors]
    share = rng.choice([0.0, 0.5, 1.0])
    chosen = {names[rng.integers(len(names))]} | {name for name in names if rng.random() < share}
    odd = OddRecord(record)
    odd.update({name: odd_cell(case, container, name, rng) for name in names if name in chosen})
    if rng.random() < 0.3:
        odd.row = ROW_CONTAINERS[rng.integers(len(ROW_CONTAINERS))]
    return odd


def odd_cell(case, container, name, rng):
    is_typed = container in FRAMES and container != "pandas objects"
    if is_typed and (name in case.kinds or container in ELSEWHERE):
        cells = [None] if rng.random() < 0.4 else ODD_TYPED[case.kinds.get(name, "int")]
    else:
        cells = ODD
    return cells[rng.integers(len(cells))]


def compare(case, container, rng):
    """A violation, "same" for none, or "refused" where the odd record is refused."""
    records = case.records(rng)
    place = int(rng.integers(N))
    vector = list(VECTORS)[rng.integers(len(VECTORS))]
    places = {place}
    if "groups" in case.vectors:
        # A person with a single record, or with more than are counted.
        places |= set(rng.permutation(N)[: rng.choice([0, 5])].tolist())
        for each in places:
            records[each]["groups"] = 99
    odd = [*records]
    odd[place] = odd_record(case, container, records[place], rng)
    if len(places) > 1:
        odd[place]["groups"] = 99
    others = [record for each, record in enumerate(records) if each not in places]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with_odd = case.tables(odd, container, vector)
        except Exception:
            return "refused"
        without = case.tables(others, container, vector)
    return violation(with_odd, without) or "same"


def outcomes(case, container, wanted=6, most=60):
    """Outcomes of random comparisons, until some are not refused, or one is a violation."""
    rng = np.random.default_rng([sum(case.name.encode()), sum(container.encode())])
    found = []
    while len(found) < most and len(found) - found.count("refused") < wanted:
        found.append(compare(case, container, rng))
        if found[-1] not in ("same", "refused"):
            break
    return set(found)


PAIRS = [
    pytest.param(case, container, id=f"{case.name}-{container}")
    for case in CASES
    for container in case.containers
]


@pytest.mark.parametrize(("case", "container"), PAIRS)
def test_an_odd_record_changes_no_other_record(case, container):
    assert outcomes(case, container) - {"refused"} == {"same"}


# Known cases -----------------------------------------------------------------------


def exact_tables(model, X, **beside):
    found = []
    with captured(found):
        model.fit(X, **beside)
    return found


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("odd", ["1", pd.NA, None, 0.5, [1, 0], {}])
def test_a_label_that_is_no_class_costs_its_own_record_only(scoring, odd):
    X = np.array([[0, 0, 0], [1, 1, 1]] * 50, dtype=np.float32)
    y = [0, 1] * 50
    options = {"scoring": scoring, "epsilon": float("inf")}
    whole = private_score(fitted_model(), X, y, **options).value
    y[7] = odd
    found = private_score(fitted_model(), X, y, **options).value
    most = 5 / 100 if scoring == "neg_log_loss" else 1 / 50  # log(0.01) is -4.6
    assert abs(found - whole) <= most


def test_a_missing_cell_does_not_change_the_scores_of_others():
    y = [0, 1] * 50
    whole = [BIG + label for label in y]
    encode = OneHotEncoder(categories=[[BIG, BIG + 1]], handle_unknown="ignore")
    for model in (
        make_pipeline(encode, MultinomialNB()),
        make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), encode, MultinomialNB()),
    ):
        model.fit(pl.DataFrame({"a": whole}), y)
        scores = [
            private_score(model, pl.DataFrame({"a": cells}), y, epsilon=float("inf")).value
            for cells in (whole, [None, *whole[1:]])
        ]
        assert scores[0] == 1
        assert scores[1] >= 0.99


@pytest.mark.parametrize("container", [pa.table, pa.record_batch, pl.DataFrame, pd.DataFrame])
def test_a_record_that_cannot_be_scored_costs_its_own_score(container):
    y = [0, 1] * 50
    X = container({"a": pa.array([None, *y[1:]], pa.int64())})
    model = DirichletBernoulliNB(classes=[0, 1], epsilon=float("inf"))
    model.fit(pd.DataFrame({"a": [0, 1]}), [0, 1])
    assert private_score(model, X, y, epsilon=float("inf")).value == pytest.approx(0.99)


@pytest.mark.parametrize("odd", [2, np.nan, "x"])
def test_a_private_score_does_not_warn_of_a_record(odd):
    y = [0, 1] * 50
    X = pd.DataFrame({"a": objects([odd, *y[1:]])})
    encode = OneHotEncoder(categories=[[0, 1]], handle_unknown="warn")
    model = make_pipeline(encode, MultinomialNB()).fit(pd.DataFrame({"a": y}), y)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        private_score(model, X, y)
    assert not shown


@pytest.mark.parametrize("vector", [list, objects])
def test_large_labels_in_a_list_stay_distinct_next_to_a_float(vector):
    model = DirichletNB(classes=[BIG, BIG + 1], max_count=1, max_total=1, **PRIVATE)
    y = vector([BIG, BIG + 1] * 100 + [float(BIG)])
    (_, classes), _ = exact_tables(model, np.ones((201, 2)), y=y)
    assert np.ravel(classes).tolist() == [101, 100]


def test_the_type_of_one_row_does_not_truncate_others():
    row = [np.float32(0.1)] * 2
    tables = [
        exact_tables(
            DirichletBernoulliNB(classes=[0], binarize=0.1), [row] * 9 + [last], y=[0] * 10
        )
        for last in (row, [0.0, 0.0])
    ]
    changes = [np.abs(a - b).sum() for (_, a), (_, b) in zip(*tables, strict=True)]
    assert max(changes) <= 4


def test_ids_of_any_container_are_unchanged():
    for container in (list, tuple, deque, objects):
        ids = container([BIG + 4, BIG + 5, "7", 7, 0, "x"])
        assert len(select_rows(ids, 6, 1).kept) == 5


def test_a_person_is_counted_once_for_any_type_of_the_id():
    first = select_rows(np.array([7, 8]), 2, 1)
    for ids in (["7", "x"], [7.0, 9], np.array(["9", "7"]), pd.Series(["7", "07"])):
        assert select_rows(ids, 2, 1, first).n_rows == 1


def test_ids_and_weights_in_lists_are_converted_one_by_one():
    X = da.ones((4, 2), chunks=(2, 2))
    model = DirichletNB(classes=[0, 1], max_count=1, max_total=1, max_weight=1, **PRIVATE)
    groups = [BIG + 4, BIG + 5, 0.0, 1]
    (_, classes), _ = exact_tables(
        model, X, y=[0, 0, 1, 1], groups=groups, sample_weight=[1, True, 1.0, 1]
    )
    assert np.ravel(classes).tolist() == [2, 2]


@pytest.mark.parametrize("container", [list, lambda rows: np.array(rows, dtype=object)])
def test_labels_of_a_posterior_are_converted_one_by_one(container):
    model = PrivateDirichletPosterior(categories=[0, 1, "1"], mechanism="lshist")
    x = container([[0], [1], ["1"]] * 50)
    assert count_labels(x, lambda n: select_rows(None, n, 1))[0] == {0: 50, 1: 50, "1": 50}
    model.fit(x)


def test_classes_of_two_kinds_are_refused():
    with pytest.raises(TypeError, match="classes must contain only numbers or only strings"):
        DirichletNB(classes=[0, "1"], max_count=1, max_total=1).fit([[1]], [0])


def test_many_classes_draw_no_warning_about_the_records():
    labels = [f"label {k}" for k in range(30)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DirichletNB(classes=labels, max_count=1, max_total=1).fit(np.ones((30, 2)), labels)


def test_a_score_warns_of_nothing_that_one_record_decides():
    def warns(model, X, y):
        warnings.warn("a record is odd", stacklevel=1)
        return model.predict(X) == y

    X = np.zeros((10, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer = make_private_scorer(warns, low=0, high=1)
        assert private_score(fitted_model(), X, [0] * 10, scoring=scorer).high > 0.5


@pytest.mark.parametrize("make", [DirichletNB, DirichletBernoulliNB])
def test_a_missing_value_in_a_categorical_column_of_integers_is_missing(make):
    X = pd.DataFrame({"a": pd.Categorical([0, 1, None] * 3), "b": range(9)})
    with pytest.raises(ValueError, match="contains NaN"):
        make(classes=[0]).fit(X, [0] * 9)


# Defects that the comparison must find ---------------------------------------------


def unchanged(X):
    return X


def polars_array(values):
    return record_columns._numpy_cells(values.to_numpy())


def pandas_numbers(values, missing_values):
    numbers = pd.to_numeric(pd.Series(values)).to_numpy(dtype=float, na_value=np.nan)
    return numbers, np.zeros(len(numbers), dtype=bool)


def pandas_codes(cells, declared):
    codes, distinct = pd.factorize(objects(cells))
    return codes, distinct.tolist()


#: By name: objects and their replacements, and the case and container that detect them.
DEFECTS = {
    "labels of a score are an array": (
        ("skdirdp.schema.as_labels", np.asarray),
        ("private_score", "list"),
    ),
    "rows are an array of one dtype": (
        ("skdirdp._sklearn_compat.as_numbers", unchanged),
        ("DirichletBernoulliNB", "list"),
    ),
    "labels of a posterior are an array": (
        ("skdirdp.posterior.estimator.as_labels", np.asarray),
        ("PrivateDirichletPosterior", "list"),
    ),
    "ids of batches are arrays and differ by type": (
        (
            "skdirdp.schema.arrays._id_from_text",
            str,
            "skdirdp.schema.arrays.list_cells",
            np.asarray,
        ),
        ("DirichletNB, batches", "list"),
    ),
    "labels of a fit are an array": (
        ("skdirdp._sklearn_compat.as_labels", np.asarray),
        ("DirichletNB, large labels", "list"),
    ),
    "a Polars column with a null is of floats": (
        ("skdirdp.schema.columns._polars_cells", polars_array),
        ("PrivateBayesNet", "polars"),
    ),
    "numbers are of one type": (
        ("skdirdp.schema.columns._numbers", pandas_numbers),
        ("PrivateBayesNet", "pandas objects"),
    ),
    "a missing value of a dictionary is the last of its values": (
        ("skdirdp.schema.arrays.without_dictionaries", unchanged),
        ("pipeline of categories, some missing", "arrow dictionaries"),
    ),
    "one missing value turns all integers of a score into floats": (
        ("skdirdp.schema.missing_cells", lambda X: None),
        ("private_score of categories", "polars"),
    ),
    "pandas numbers the texts of a column": (
        ("skdirdp.schema.columns._numbered_cells", pandas_codes),
        ("PrivateBayesNet", "list"),
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_comparison_finds_a_conversion_of_whole_columns(defect):
    replaced, (name, container) = DEFECTS[defect]
    case = next(case for case in CASES if case.name == name)
    with ExitStack() as defects:
        for target, replacement in zip(replaced[::2], replaced[1::2], strict=True):
            defects.enter_context(patch(target, replacement))
        found = outcomes(case, container, wanted=100, most=300)
    assert found - {"refused", "same"}
