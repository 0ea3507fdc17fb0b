"""Invalid input of many kinds, for every function that takes data: errors show no data."""

import datetime
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
)
from skdirdp.mechanisms import DirichletMechanism, LaplaceMechanism

from .probes import Recorder

NUMBER, TEXT = 918273645.5, "zqxj-a-secret"
#: Every way in which the number or the text could be printed holds one of these.
MARKS = ("918273645", "9.18273645", "9.182736", "zqxj")
N_RECORDS = 8


class Showy:
    """An object whose every conversion fails, with its contents in the error."""

    def __repr__(self):
        return TEXT

    def _fail(self, *_):
        raise KeyError(TEXT, NUMBER)

    __float__ = __int__ = __index__ = __lt__ = __gt__ = __eq__ = __hash__ = __bool__ = _fail
    __array_ufunc__ = None


class Greedy:
    """Array-like whose conversion fails with its contents in the error."""

    shape = (N_RECORDS, 2)
    dtype = np.dtype(float)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(f"cannot make an array of {TEXT} and {NUMBER}")

    def __len__(self):
        return N_RECORDS

    def __getitem__(self, item):
        raise IndexError(f"{TEXT} {NUMBER}")


class Closed(Greedy):
    """One whose size fails too."""

    @property
    def shape(self):
        raise OSError(TEXT)

    def __len__(self):
        raise OSError(TEXT)


VALUES = {
    "float": NUMBER,
    "negative": -NUMBER,
    "integer": 918273645,
    "huge integer": 10**400 + 918273645,
    "large integer": 918273645 * 10**12,
    "unsigned": np.uint64(2**63 + 918273645),
    "longdouble": np.longdouble(NUMBER),
    "half": np.float16(9.18),
    "complex": complex(NUMBER, 1.0),
    "text": TEXT,
    "number in text": str(NUMBER),
    "surrogate": TEXT + "\ud800",
    "null": TEXT + "\0",
    "bytes": TEXT.encode(),
    "none": None,
    "nan": np.nan,
    "infinity": np.inf,
    "missing": pd.NA,
    "decimal": Decimal("918273645.5"),
    "fraction": Fraction(2 * 918273645 + 1, 2),
    "date": datetime.date(1982, 7, 3),
    "datetime64": np.datetime64(918273645, "s"),
    "timedelta64": np.timedelta64(918273645, "s"),
    "timestamp": pd.Timestamp(918273645, unit="s"),
    "interval": pd.Interval(0, NUMBER),
    "dict": {TEXT: NUMBER},
    "list": [NUMBER, TEXT],
    "tuple": (TEXT, NUMBER),
    "set": {TEXT},
    "array": np.array([NUMBER, 1.0]),
    "showy": Showy(),
    "type": type(TEXT, (), {}),
}


def rows_with(value):
    rows = [[k % 2, k % 3] for k in range(N_RECORDS)]
    rows[3][1] = value
    return rows


def object_array(rows):
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            array[i, j] = value
    return array


def names():
    return ["a", "b"]


def extension_frame(rows):
    frame = pd.DataFrame(object_array(rows), columns=names())
    return frame.convert_dtypes()


TABLES = {
    "rows": lambda rows: rows,
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "array": lambda rows: np.array(rows),
    "objects": object_array,
    "frame": lambda rows: pd.DataFrame(object_array(rows), columns=names()),
    "extension frame": extension_frame,
    "categorical": lambda rows: extension_frame(rows).astype("category"),
    "polars": lambda rows: pl.DataFrame(rows, schema=names(), orient="row", strict=False),
    "masked": lambda rows: np.ma.masked_equal(np.array(rows, dtype=float), NUMBER),
    "matrix": lambda rows: np.matrix(rows),
    "sparse": lambda rows: sparse.csr_array(np.array(rows)),
    "coordinates": lambda rows: sparse.coo_matrix(np.array(rows)),
    "three dimensions": lambda rows: np.array([rows]),
    "one row": lambda rows: np.array(rows, dtype=object)[3],
    "column": lambda rows: pd.Series([row[1] for row in rows]),
    "generator": lambda rows: (row for row in rows),
    "mapping": lambda rows: {"a": [row[0] for row in rows], "b": [row[1] for row in rows]},
    "ragged": lambda rows: [*rows[:3], [rows[3][1]], *rows[4:]],
    "scalar": lambda rows: rows[3][1],
    "zero dimensions": lambda rows: np.array(rows[3][1]),
    "bytes": lambda rows: repr(rows).encode(),
    "memory": lambda rows: memoryview(np.array([row[1] for row in rows], dtype=float)),
    "string": repr,
}
ODD = {
    "greedy": Greedy(),
    "closed": Closed(),
    "structured": np.array([(NUMBER, TEXT)] * N_RECORDS, dtype=[("a", float), ("b", "U20")]),
    "void": np.full((N_RECORDS, 2), np.void(TEXT.encode())),
    "dates": np.full((N_RECORDS, 2), np.datetime64(918273645, "s")),
    "nothing": [],
    "no columns": np.empty((N_RECORDS, 0)),
    "set": {NUMBER, TEXT},
    "function": lambda: NUMBER,
    "integer array": pd.array([918273645, None] * (N_RECORDS // 2), dtype="Int64"),
    "string array": pd.array([TEXT, None] * (N_RECORDS // 2), dtype="string"),
    "sparse frame": pd.DataFrame({"a": pd.arrays.SparseArray([NUMBER, 0] * (N_RECORDS // 2))}),
}


def bad_tables():
    """Yield tables of every container with every invalid value, if possible."""
    for kind, make in TABLES.items():
        for name, value in VALUES.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield f"{kind} with {name}", make(rows_with(value))
            except Exception:  # no such table: that is numpy's refusal, or pandas', not ours
                continue
    yield from ODD.items()


COLUMNS = {
    "list": lambda values: values,
    "array": lambda values: np.array(values),
    "objects": lambda values: object_array([[value] for value in values]).ravel(),
    "column": lambda values: object_array([[value] for value in values]),
    "series": lambda values: pd.Series(values),
    "extension": lambda values: pd.Series(values).convert_dtypes(),
    "categorical": lambda values: pd.Series(values, dtype="category"),
    "polars": lambda values: pl.Series(values, strict=False),
    "masked": lambda values: np.ma.masked_equal(np.array(values, dtype=float), NUMBER),
    "generator": lambda values: (value for value in values),
    "scalar": lambda values: values[3],
    "zero dimensions": lambda values: np.array(values[3]),
    "mapping": lambda values: dict(enumerate(values)),
    "short": lambda values: values[3:],
    "memory": lambda values: memoryview(np.array(values, dtype=float)),
    "bytes": lambda values: repr(values).encode(),
}


def bad_columns():
    """Vectors of every container and value."""
    for kind, make in COLUMNS.items():
        for name, value in VALUES.items():
            values = [k % 2 for k in range(N_RECORDS)]
            values[3] = value
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield f"{kind} with {name}", make(values)
            except Exception:
                continue
    yield from ODD.items()


GOOD_X = np.array([[k % 2, k % 3] for k in range(N_RECORDS)])
GOOD_Y = np.arange(N_RECORDS) % 2
FRAME = pd.DataFrame(GOOD_X, columns=names())

multinomial = DirichletNB(classes=[0, 1], max_count=3, max_total=3, max_weight=2)
categorical = DirichletCategoricalNB(classes=[0, 1], n_categories=3, max_weight=2)
bernoulli = DirichletBernoulliNB(classes=[0, 1], binarize=None)
complement = DirichletComplementNB(classes=[0, 1], max_count=3, max_total=3)
open_multinomial = DirichletNB(epsilon=np.inf)  # or each case would be calibrated anew
open_categorical = DirichletCategoricalNB()
strings = DirichletCategoricalNB(classes=["no", "yes"], n_categories=3)
bins = DirichletHistogramTransformer(2, bounds=(0, 3), encode="onehot", n_fine_bins=8)
ordinal = DirichletHistogramTransformer(2, bounds=(0, 3), encode="ordinal", n_fine_bins=8)
codes = DirichletHistogramTransformer(n_categories=3)
open_bins = DirichletHistogramTransformer(2, n_fine_bins=8)
network = PrivateBayesNetMLE(
    [("a", "b")], states={"a": [0, 1], "b": [0, 1, 2]}, target="a", columns=names()
)
open_network = PrivateBayesNetMLE([("a", "b")], columns=names())
learnt = PrivateBayesNet(states={"a": [0, 1]}, bounds={"b": (0, 2)}, target="a", columns=names())
open_learnt = PrivateBayesNet(columns=names())
posterior = PrivateDirichletPosterior(mechanism="lshist", n_categories=3)
labelled = PrivateDirichletPosterior(mechanism="lshist", categories=["x", "y"])
open_posterior = PrivateDirichletPosterior(mechanism="lshist")

TABLE_PLACES = {
    "DirichletNB.fit": lambda X: multinomial.fit(X, GOOD_Y),
    "DirichletNB.fit without bounds": lambda X: open_multinomial.fit(X, GOOD_Y),
    "DirichletNB.partial_fit": lambda X: DirichletNB().partial_fit(X, GOOD_Y, [0, 1]),
    "DirichletNB.predict": lambda X: multinomial.predict(X),
    "DirichletNB.score": lambda X: multinomial.score(X, GOOD_Y),
    "DirichletBernoulliNB.fit": lambda X: bernoulli.fit(X, GOOD_Y),
    "DirichletBernoulliNB.predict": lambda X: bernoulli.predict(X),
    "DirichletComplementNB.fit": lambda X: complement.fit(X, GOOD_Y),
    "DirichletCategoricalNB.fit": lambda X: categorical.fit(X, GOOD_Y),
    "DirichletCategoricalNB.fit without sizes": lambda X: open_categorical.fit(X, GOOD_Y),
    "DirichletCategoricalNB.partial_fit": lambda X: DirichletCategoricalNB(
        n_categories=3
    ).partial_fit(X, GOOD_Y, [0, 1]),
    "DirichletCategoricalNB.predict": lambda X: categorical.predict(X),
    "DirichletCategoricalNB.predict_proba": lambda X: categorical.predict_proba(X),
    "DirichletHistogramTransformer.fit": lambda X: bins.fit(X),
    "DirichletHistogramTransformer.fit on codes": lambda X: codes.fit(X),
    "DirichletHistogramTransformer.fit without bounds": lambda X: open_bins.fit(X),
    "DirichletHistogramTransformer.transform": lambda X: bins.transform(X),
    "DirichletHistogramTransformer.inverse_transform": lambda X: bins.inverse_transform(X),
    "ordinal inverse_transform": lambda X: ordinal.inverse_transform(X),
    "PrivateBayesNetMLE.fit": lambda X: network.fit(X),
    "PrivateBayesNetMLE.fit without states": lambda X: open_network.fit(X),
    "PrivateBayesNetMLE.predict": lambda X: network.predict(X),
    "PrivateBayesNetMLE.score": lambda X: network.score(X),
    "PrivateBayesNet.fit": lambda X: learnt.fit(X),
    "PrivateBayesNet.fit without schema": lambda X: open_learnt.fit(X),
    "PrivateBayesNet.score": lambda X: learnt.score(X),
    "PrivateDirichletPosterior.fit": lambda X: posterior.fit(X),
}
COLUMN_PLACES = {
    "DirichletNB.fit y": lambda y: multinomial.fit(GOOD_X, y),
    "DirichletNB.fit y without classes": lambda y: open_multinomial.fit(GOOD_X, y),
    "DirichletNB.partial_fit y": lambda y: DirichletNB().partial_fit(GOOD_X, y, [0, 1]),
    "DirichletNB.fit sample_weight": lambda w: multinomial.fit(GOOD_X, GOOD_Y, w),
    "DirichletNB.score y": lambda y: multinomial.score(GOOD_X, y),
    "DirichletNB.score sample_weight": lambda w: multinomial.score(GOOD_X, GOOD_Y, w),
    "DirichletCategoricalNB.fit y": lambda y: strings.fit(GOOD_X, y),
    "DirichletCategoricalNB.fit sample_weight": lambda w: categorical.fit(GOOD_X, GOOD_Y, w),
    "DirichletCategoricalNB.score y": lambda y: categorical.score(GOOD_X, y),
    "PrivateDirichletPosterior.fit": lambda x: posterior.fit(x),
    "PrivateDirichletPosterior.fit on labels": lambda x: labelled.fit(x),
    "PrivateDirichletPosterior.fit without categories": lambda x: open_posterior.fit(x),
    "PrivateDirichletPosterior.fit_counts": lambda x: open_posterior.fit_counts(x),
    "PrivateBayesNetMLE.fit": lambda X: network.fit(X),
    "DirichletMechanism.release": lambda counts: DirichletMechanism(1.0, 2.0).release(counts),
    "LaplaceMechanism.release": lambda counts: LaplaceMechanism(2.0).release(counts),
}


@pytest.fixture(scope="module", autouse=True)
def fitted():
    multinomial.fit(GOOD_X, GOOD_Y)
    categorical.fit(GOOD_X, GOOD_Y)
    bins.fit(GOOD_X)
    ordinal.fit(GOOD_X)
    network.fit(FRAME)
    learnt.fit(FRAME)


def defects_of(call, bad):
    """Describe defects of the error of a call with invalid input."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(bad)
            error = None
        except Exception as raised:
            error = raised
    texts = [str(warning.message) for warning in caught]
    if error is not None and not isinstance(error, ValueError | TypeError | NotFittedError):
        yield f"raised {type(error).__name__}"
    if isinstance(error, UnicodeError):
        yield f"raised {type(error).__name__}"
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        texts += [str(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    for text in texts:
        if any(mark in text for mark in MARKS):
            yield f"showed {text[:200]!r}"


@pytest.mark.parametrize("place", TABLE_PLACES)
def test_errors_for_bad_tables_show_no_data(place):
    found = {
        name: defects
        for name, bad in bad_tables()
        if (defects := list(defects_of(TABLE_PLACES[place], bad)))
    }
    assert not found


@pytest.mark.parametrize("place", COLUMN_PLACES)
def test_errors_for_bad_columns_show_no_data(place):
    found = {
        name: defects
        for name, bad in bad_columns()
        if (defects := list(defects_of(COLUMN_PLACES[place], bad)))
    }
    assert not found


def test_there_are_several_hundred_bad_inputs():
    assert len(list(bad_tables())) > 400
    assert len(list(bad_columns())) > 300


# Tables that would not fit into memory

WIDE = sparse.csr_array((6, 10**9))
NARROW = np.zeros((6, 2), dtype=int)
TWO = {"classes": [0, 1]}
TOO_LARGE = {
    "categorical": (DirichletCategoricalNB(**TWO, n_categories=10**7), NARROW, 4 * 10**7),
    "far too large": (DirichletCategoricalNB(**TWO, n_categories=10**9), NARROW, 4 * 10**9),
    "one feature": (
        DirichletCategoricalNB(**TWO, n_categories=[2, 10**9]),
        NARROW,
        2 * 10**9 + 4,
    ),
    "min_categories": (
        DirichletCategoricalNB(**TWO, n_categories=2, min_categories=10**9),
        NARROW,
        4 * 10**9,
    ),
    "lazy": (
        DirichletCategoricalNB(**TWO, n_categories=10**9),
        pl.LazyFrame({"a": [0, 1], "y": [0, 1]}),
        2 * 10**9,
    ),
    "multinomial": (DirichletNB(**TWO, max_count=1, max_total=9), WIDE, 2 * 10**9),
    "complement": (DirichletComplementNB(**TWO, max_count=1, max_total=9), WIDE, 2 * 10**9),
    "bernoulli": (DirichletBernoulliNB(**TWO, max_total=9), WIDE, 2 * 10**9),
    "bins": (DirichletHistogramTransformer(bounds=(0, 1), n_fine_bins=10**9), NARROW, 2 * 10**9),
    "bins of categories": (DirichletHistogramTransformer(n_categories=10**9), NARROW, 2 * 10**9),
    "network": (
        PrivateBayesNetMLE(
            {0: (), **dict.fromkeys(range(1, 9), (0,)), 9: range(9)},
            states=dict.fromkeys(range(10), range(10)),
        ),
        np.zeros((6, 10), dtype=int),
        10**10,
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_tables_that_would_not_fit_into_memory_are_rejected_before_the_charge(case):
    model, X, n_cells = TOO_LARGE[case]
    y = "y" if case == "lazy" else np.arange(6) % 2
    accountant = Recorder()
    with pytest.raises(ValueError, match=rf"cells.*\b{n_cells}\b|\b{n_cells} cells") as raised:
        model.set_params(accountant=accountant).fit(X, y)
    assert re.search("0000000", str(raised.value))  # the limit
    assert accountant.charges == []


def test_a_size_taken_from_the_data_is_not_shown():
    X = np.full((6, 20), 918_273)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"n_categories and classes .* got more") as raised:
            DirichletCategoricalNB(classes=[0, 1]).fit(X, np.arange(6) % 2)
    assert "918" not in str(raised.value)


def test_texts_with_many_hashed_words_are_not_too_large():
    X = sparse.csr_array((np.ones(6), np.arange(6) * 10**5, np.arange(7)), shape=(6, 2**20))
    model = DirichletNB(classes=[0, 1], max_count=1, max_total=9, postprocess=False)
    assert model.fit(X, np.arange(6) % 2).feature_log_prob_.shape == (2, 2**20)
