"""Steps that learn nothing: one odd record changes neither their fit nor the other records."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn import preprocessing as pp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import FeatureUnion
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivatePipeline,
    make_private_pipeline,
)
from skdirdp.base import ReleasePlan
from skdirdp.exceptions import PrivacyLeakWarning
from skdirdp.pipeline import check, register_step
from skdirdp.pipeline.check import TRANSFORMERS

N = 30
CATEGORIES = [[1, 2, 3], [1, 2, 3]]
BIG = 2**53

#: Steps, and the kinds of cells that they take.
STEPS = [
    (AdditiveChi2Sampler(), "numbers"),
    (pp.Binarizer(threshold=1.5), "numbers"),
    (FrozenEstimator(pp.Binarizer(threshold=1.5).fit(np.ones((2, 2)))), "numbers"),
    (pp.FunctionTransformer(np.log1p, inverse_func=np.sqrt, validate=True), "numbers"),
    (pp.Normalizer(), "numbers"),
    (PolynomialCountSketch(random_state=0), "numbers"),
    (pp.PolynomialFeatures(), "numbers"),
    (SkewedChi2Sampler(random_state=0), "numbers"),
    (RBFSampler(gamma=1.0, random_state=0), "numbers"),
    (GaussianRandomProjection(2, random_state=0), "numbers"),
    (SparseRandomProjection(2, random_state=0), "numbers"),
    (pp.RobustScaler(with_centering=False, with_scaling=False), "numbers"),
    (pp.SplineTransformer(knots=np.linspace([0] * 2, [9] * 2, 4)), "numbers"),
    (TfidfTransformer(use_idf=False), "numbers"),
    (pp.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore"), "codes"),
    (pp.OneHotEncoder(categories=CATEGORIES, handle_unknown="warn"), "codes"),
    (pp.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore", drop="first"), "codes"),
    (
        pp.OrdinalEncoder(
            categories=CATEGORIES, handle_unknown="use_encoded_value", unknown_value=-1
        ),
        "codes",
    ),
    (SimpleImputer(strategy="constant", keep_empty_features=True), "codes"),
    (SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True), "numbers"),
    (MissingIndicator(features="all"), "codes"),
    (
        ColumnTransformer(
            [
                ("codes", pp.OneHotEncoder(categories=[[1, 2, 3]], handle_unknown="ignore"), [0]),
                ("rest", "passthrough", [1]),
            ],
            sparse_threshold=0.9,
        ),
        "codes",
    ),
    (
        FeatureUnion(
            [
                ("codes", pp.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore")),
                ("gaps", MissingIndicator(features="all")),
            ]
        ),
        "codes",
    ),
]

#: Records that stand for the first one, by the kind of cells.
ODD = {
    "numbers": [(np.float64(1.25), 3), (10**30, 1), (0, 0), (float("nan"), 1), (None, 2)],
    "codes": [("secret", "x"), (None, 2), (10**30, 7), (1.5, float("nan")), (9, 9), (0, 0)],
}


def as_list(rows):
    return [list(row) for row in rows]


def as_rows_of_float32(rows):
    """A list of arrays, whose common dtype follows from the odd one."""
    return [rows[0], *(np.array(row, dtype=np.float32) for row in rows[1:])]


def as_objects(rows):
    table = np.empty((len(rows), 2), dtype=object)
    table[:] = rows
    return table


def as_frame(rows):
    return pd.DataFrame(as_objects(rows), columns=["a", "b"])


def as_nullable(rows):
    return pd.DataFrame({name: pd.array(cells, "Int64") for name, cells in columns(rows)})


def as_categorical(rows):
    dtype = pd.CategoricalDtype([0, 1, 2, 3, BIG, BIG + 1])
    return pd.DataFrame({name: pd.Categorical(cells, dtype=dtype) for name, cells in columns(rows)})


def as_polars(rows):
    return pl.DataFrame({name: pl.Series(name, cells, pl.Int64) for name, cells in columns(rows)})


def as_arrow(rows):
    return pa.table({name: pa.array(cells, pa.int64()) for name, cells in columns(rows)})


def as_coded_arrow(rows):
    return pa.table(
        {
            name: each.dictionary_encode()
            for name, each in zip("ab", as_arrow(rows).columns, strict=True)
        }
    )


def as_sparse(rows):
    return sparse.csr_array(np.array(rows, dtype=float))


def columns(rows):
    """Whole numbers by column; any other cell is a null."""
    for place, name in enumerate("ab"):
        cells = [row[place] for row in rows]
        yield name, [cell if type(cell) is int and cell <= BIG + 1 else None for cell in cells]


CONTAINERS = [
    as_list,
    as_rows_of_float32,
    as_objects,
    as_frame,
    as_nullable,
    as_categorical,
    as_polars,
    as_arrow,
    as_coded_arrow,
    as_sparse,
]


def outcome(step, data):
    """Return state and warnings of a fit, and all transformed records except the first."""
    pipe = PrivatePipeline([("step", clone(step))])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            transformed = pipe.fit_transform(data)
        except (TypeError, ValueError):
            return None  # a record may be refused, before anything is charged
    assert not caught, [str(each.message) for each in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(dense(pipe.transform(data)), dense(transformed))
    fitted = pipe.named_steps["step"]
    assert type(fitted) is type(step)
    names = [*fitted.get_feature_names_out()] if hasattr(fitted, "get_feature_names_out") else []
    return joblib.hash(vars(fitted)), pickle.dumps(fitted), names, dense(transformed)[1:]


def dense(table):
    table = table.toarray() if sparse.issparse(table) else np.asarray(table)
    return np.array([[np.nan if each is None else each for each in row] for row in table], object)


def same(left, right):
    return left.shape == right.shape and all(
        one == other or (one != one and other != other)
        for one, other in zip(left.ravel(), right.ravel(), strict=True)
    )


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize(("step", "kind"), STEPS, ids=[type(step).__name__ for step, _ in STEPS])
def test_one_odd_record_changes_neither_a_fit_nor_another_record(step, kind, container):
    """State, pickle, names, warnings, and the other transformed records."""
    rng = np.random.default_rng(1)
    rows = [tuple(row) for row in rng.integers(1, 4, size=(N, 2)).tolist()]
    if isinstance(step, ColumnTransformer) and container in (as_arrow, as_coded_arrow):
        pytest.skip("scikit-learn takes no Arrow tables here")
    plain = outcome(step, container(rows))
    assert plain is not None or container is as_sparse
    compared = 0
    for odd in ODD[kind]:
        try:
            data = container([odd, *rows[1:]])
        except (TypeError, ValueError, OverflowError):
            continue  # no such container
        found = outcome(step, data)
        if found is None or plain is None:
            continue
        compared += 1
        assert found[:3] == plain[:3], odd
        assert same(found[3], plain[3]), odd
    assert compared or container is as_sparse


TEXTS = [
    CountVectorizer(vocabulary=["a", "b"], analyzer=str.split),
    TfidfVectorizer(vocabulary=["a", "b"], use_idf=False, input="filename"),
    HashingVectorizer(n_features=16),
    FeatureHasher(n_features=16, input_type="string"),
]


@pytest.mark.parametrize("step", TEXTS, ids=lambda step: type(step).__name__)
def test_the_fit_of_a_vectorizer_receives_no_texts(step, tmp_path):
    def document(name, words):
        (tmp_path / name).write_text(words)
        if isinstance(step, TfidfVectorizer):
            return str(tmp_path / name)
        return words.split() if isinstance(step, FeatureHasher) else words

    rest = [document("b.txt", "a b a"), document("c.txt", "b")]
    first, other = (
        outcome(step, [document(name, words), *rest])
        for name, words in (("a.txt", "a b"), ("odd.txt", "secret illness"))
    )
    assert first[:3] == other[:3]
    assert same(first[3], other[3])


def test_every_class_that_may_learn_nothing_is_compared_on_neighbours():
    compared = {type(step).__name__ for step in [*TEXTS, *(step for step, _ in STEPS)]}
    named = {name for name, rule in TRANSFORMERS.items() if rule is None or callable(rule)}
    # No step of a pipeline: it takes sets of labels; and one that always keeps a number.
    assert named - compared == {"MultiLabelBinarizer", "StandardScaler"}


# Ways in which single records were seen ------------------------------------------------


def test_whether_columns_are_sparse_follows_from_their_number():
    """The threshold is compared with a public density, also next to private steps."""
    columns = ColumnTransformer(
        [
            ("bins", DirichletHistogramTransformer(4, bounds=(0, 4), encode="onehot"), [0]),
            ("codes", pp.OneHotEncoder(categories=[range(4)], handle_unknown="ignore"), [1]),
        ],
        sparse_threshold=0.25,
    )
    rows = np.random.default_rng(0).integers(4, size=(100, 2)).astype(float)
    filled, empty = rows.copy(), rows.copy()
    empty[:, 1] = 9
    for threshold, is_sparse in ((0.25, False), (0.26, True), (0, False)):
        columns.set_params(sparse_threshold=threshold)
        for data in (filled, empty):
            pipe = PrivatePipeline([("columns", columns)]).fit(data)
            assert pipe.named_steps["columns"].sparse_output_ is is_sparse
            assert type(pipe.named_steps["columns"]) is ColumnTransformer
            assert sparse.issparse(pipe.transform(data)) is is_sparse


@pytest.mark.parametrize("container", [as_polars, as_nullable, as_categorical])
def test_names_of_released_columns_do_not_reveal_missing_values(container):
    rows = [(1, 2), (2, 1), (3, 3)] * 20
    labels = np.resize([0, 1], 60)
    released = set()
    for first in ((1, 2), (None, 2)):
        pipe = make_private_pipeline(
            pp.OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore", sparse_output=False),
            DirichletNB(classes=[0, 1], max_count=1, max_total=2),
        ).set_output(transform="pandas")
        pipe.fit(container([first, *rows[1:]]), labels)
        assert pipe.privacy_.not_covered == ()
        released.add(tuple(pipe[-1].feature_names_in_))
    assert released == {("a_1", "a_2", "a_3", "b_1", "b_2", "b_3")}


def test_one_record_does_not_merge_large_integers_of_others():
    rows = [(BIG, 1), (BIG + 1, 1)] * 10
    step = pp.OneHotEncoder(categories=[[BIG, BIG + 1], [1]], handle_unknown="ignore")
    for container in (as_polars, as_nullable, as_categorical, as_arrow):
        plain, odd = (outcome(step, container([first, *rows])) for first in ((1, 1), (None, None)))
        assert plain[:3] == odd[:3]
        assert same(plain[3], odd[3])


def counted(X, y, monkeypatch):
    """The exact counts that the last step of a pipeline would add noise to."""
    tables = []
    draw = ReleasePlan.draw
    monkeypatch.setattr(
        ReleasePlan,
        "draw",
        lambda plan, *rest: (
            tables.append([counts.copy() for _, counts in plan._tables]) or draw(plan, *rest)
        ),
    )
    make_private_pipeline(pp.Binarizer(threshold=0.1), DirichletBernoulliNB(classes=[0, 1])).fit(
        X, y
    )
    monkeypatch.undo()
    return np.concatenate([table.ravel() for table in tables[-1]])


def test_one_row_of_a_list_does_not_change_the_length_of_others(monkeypatch):
    rows = [np.full(2, 0.1, dtype=np.float32) for _ in range(50)]
    labels = [0, 1] * 25
    plain = counted(rows, labels, monkeypatch)
    odd = counted([[0.1, 0.1], *rows[1:]], labels, monkeypatch)
    assert np.abs(plain - odd).sum() <= 4


def test_a_list_of_rows_is_refused_if_a_function_would_receive_it():
    pipe = make_private_pipeline(
        pp.FunctionTransformer(np.abs), DirichletCategoricalNB(classes=[0, 1], n_categories=3)
    )
    with pytest.raises(TypeError, match="X must be an array or a DataFrame where a Function"):
        pipe.fit([[1, 2], [0, 1]] * 5, [0, 1] * 5)
    pipe.fit(np.array([[1, 2], [0, 1]] * 5), [0, 1] * 5)


class Counts(TransformerMixin, BaseEstimator):
    """Registered as learning nothing, but stores the number of records."""

    def fit(self, X, y=None):
        self.n_records_ = len(X)
        return self

    def transform(self, X):
        return X


class NeedsLabels(Counts):
    def fit(self, X, y=None):
        return super().fit(y)


@pytest.fixture
def registered():
    for step in (Counts, NeedsLabels):
        register_step(step, None)
    yield
    for step in (Counts, NeedsLabels):
        check._REGISTERED.pop(step)


@pytest.mark.usefixtures("registered")
def test_a_registered_step_is_shown_no_record_either():
    X, y = np.ones((50, 2), dtype=int), np.resize([0, 1], 50)
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=2)
    pipe = make_private_pipeline(Counts(), model).fit(X, y)
    assert pipe[0].n_records_ == 2
    assert pipe.predict(X).shape == (50,)
    with pytest.raises(TypeError, match=r"NeedsLabels cannot be fitted: .*made-up records"):
        make_private_pipeline(NeedsLabels(), model).fit(X, y)


def test_a_cached_step_is_one_of_scikit_learn(tmp_path):
    X, y = np.ones((50, 2), dtype=int), np.resize([0, 1], 50)
    for _ in range(2):
        pipe = make_private_pipeline(
            pp.OrdinalEncoder(categories=CATEGORIES),
            DirichletCategoricalNB(classes=[0, 1], n_categories=3),
            memory=str(tmp_path),
        ).fit(X, y)
        assert type(pipe[0]) is pp.OrdinalEncoder
        assert type(pickle.loads(pickle.dumps(pipe))[0]) is pp.OrdinalEncoder


def test_without_privacy_steps_are_fitted_to_the_records():
    X, y = np.ones((50, 2), dtype=int), np.resize([0, 1], 50)
    step = pp.FunctionTransformer(np.log1p, inverse_func=np.sqrt)
    pipe = make_private_pipeline(step, DirichletNB(classes=[0, 1]), epsilon=np.inf)
    with pytest.warns(UserWarning, match="not strictly"):
        pipe.fit(X, y)


# Warnings that depend on records ---------------------------------------------------------


def test_a_private_fit_warns_of_nothing_that_one_record_decides():
    """Many labels, an unknown category, a function that is not inverted."""
    classes = [f"{number:02}" for number in range(30)]
    model = DirichletCategoricalNB(n_categories=4)
    X, y = np.array([[1, 2], [2, 1], [3, 3]] * 10), classes
    steps = [
        pp.FunctionTransformer(np.sqrt, inverse_func=np.sqrt),
        pp.OneHotEncoder(categories=[[1, 2, 4]] * 2, handle_unknown="warn", drop="first"),
    ]
    for estimator in (
        model,
        make_private_pipeline(*steps, DirichletNB(classes=classes, max_count=1, max_total=2)),
        PrivatePipeline([("step", steps[1])]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            estimator.fit(X, y)


def test_other_warnings_and_filters_are_left_alone():
    filters = list(warnings.filters)
    model = DirichletCategoricalNB(classes=[0, 1, 2], n_categories=4)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        clone(model).set_params(classes=None).fit([[1, 2]] * 6, [0, 1, 2] * 2)
    with pytest.warns(UserWarning, match="unique classes"):
        clone(model).set_params(epsilon=np.inf, classes=None).fit(
            [[1, 2]] * 30, [*map(str, range(30))]
        )
    assert warnings.filters == filters
