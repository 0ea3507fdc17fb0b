"""Counts that are there already give the model that their records would give."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNetMLE,
    make_private_pipeline,
)

from .probes import Recorder, drawn_tables

CLASSES = ["a", "b"]
N = 500


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "code": rng.integers(0, 3, N),
            "flag": rng.integers(0, 2, N),
            "label": rng.choice(CLASSES, N),
        }
    )


def crosstab(frame, column):
    return pd.crosstab(frame["label"], frame[column]).to_numpy()


def sums(frame):
    return frame.groupby("label")[["code", "flag"]].sum()


NAIVE_BAYES = {
    "categorical": (
        DirichletCategoricalNB(classes=CLASSES, n_categories=[3, 2]),
        lambda frame: {
            "category_count": {"code": crosstab(frame, "code"), "flag": crosstab(frame, "flag")}
        },
    ),
    "multinomial": (
        DirichletNB(classes=CLASSES, max_count=2, max_total=3),
        lambda frame: {"feature_count": sums(frame)},
    ),
    "complement": (
        DirichletComplementNB(classes=CLASSES, max_count=2, max_total=3),
        lambda frame: {"feature_count": sums(frame)},
    ),
    "bernoulli": (
        DirichletBernoulliNB(classes=CLASSES),
        lambda frame: {"feature_count": sums(frame.assign(code=frame["code"] > 0))},
    ),
}
NETWORK = PrivateBayesNetMLE(
    {"label": ["code", "flag"]}, states={"code": range(3), "flag": [0, 1], "label": CLASSES}
)
BINS = DirichletHistogramTransformer(
    bounds={"code": (0.0, 2.0)}, n_categories={"flag": 2}, n_fine_bins=50
)


def class_count(frame):
    return frame["label"].value_counts().loc[CLASSES]


def assert_same(model, there, tables, found):
    for (mechanism, table), (its, other) in zip(tables, found, strict=True):
        np.testing.assert_array_equal(table, other)
        assert mechanism == its
    assert model.privacy_ == there.privacy_
    assert list(model.feature_names_in_) == list(there.feature_names_in_)


@pytest.mark.parametrize("name", NAIVE_BAYES)
def test_naive_bayes_from_counts_is_that_of_the_records(name, frame):
    model, counts = NAIVE_BAYES[name]
    model, there = clone(model), clone(model)
    with drawn_tables() as tables:
        model.fit(frame[["code", "flag"]], frame["label"])
    with drawn_tables() as found:
        there.fit_counts({"class_count": class_count(frame), **counts(frame)}, n_samples=N)
    assert_same(model, there, tables, found)
    assert there.predict_proba(frame[["code", "flag"]]).shape == (N, 2)


@pytest.mark.parametrize("name", NAIVE_BAYES)
def test_without_noise_it_is_scikit_learns(name, frame):
    model, counts = NAIVE_BAYES[name]
    model = clone(model).set_params(epsilon=float("inf"))
    model.fit_counts({"class_count": class_count(frame), **counts(frame)}, n_samples=N)
    X = frame[["code", "flag"]]
    wanted = model._original().fit(X, frame["label"]).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), wanted, rtol=1e-12)


def network_tables(frame):
    cells = frame.groupby(["code", "flag", "label"]).size()
    rows = [[cells.get((*row, label), 0) for label in CLASSES] for row in product(range(3), [0, 1])]
    return {
        "code": [frame["code"].value_counts().sort_index()],
        "flag": [frame["flag"].value_counts().sort_index()],
        "label": rows,
    }


def test_a_network_from_counts_is_that_of_the_records(frame):
    model, there = clone(NETWORK), clone(NETWORK)
    with drawn_tables() as tables:
        model.fit(frame)
    with drawn_tables() as found:
        there.fit_counts(network_tables(frame), n_samples=N)
    assert_same(model, there, tables, found)


def test_bins_from_counts_are_those_of_the_records(frame):
    X = frame[["code", "flag"]].astype(float)
    X["code"] += np.random.default_rng(1).random(N) - 0.5
    model, there = clone(BINS), clone(BINS)
    with drawn_tables() as tables:
        model.fit(X)
    counts = {
        name: np.histogram(np.clip(X[name], edges[0], edges[-1]), edges)[0]
        for name, edges in zip(X, BINS.fine_bins(["code", "flag"]), strict=True)
    }
    with drawn_tables() as found:
        there.fit_counts(counts, n_samples=N)
    assert_same(model, there, tables, found)
    assert not hasattr(BINS, "n_features_in_")
    list_of_them = clone(BINS).set_params(bounds=(0.0, 2.0), n_categories=[None, 2])
    list_of_them.fit_counts(list(counts.values()), n_samples=N)
    assert list_of_them.n_features_in_ == 2


def test_larger_contributions_are_declared_and_cost_more_noise(frame):
    tables = {
        "class_count": 2 * class_count(frame),
        "category_count": [2 * crosstab(frame, "code"), 2 * crosstab(frame, "flag")],
    }
    model = clone(NAIVE_BAYES["categorical"][0])
    with pytest.raises(ValueError, match="class_count must have a total of n_samples"):
        model.fit_counts(tables, n_samples=N)
    model.set_params(max_weight=2).fit_counts(tables, n_samples=N)
    assert {mechanism.max_count for mechanism, _ in model.privacy_.mechanisms} == {2.0}
    model.set_params(max_weight=None, max_rows=2, n_samples=2 * N)
    model.fit_counts(tables, n_samples=2 * N)
    assert {mechanism.max_count for mechanism, _ in model.privacy_.mechanisms} == {2.0}
    assert str(model.privacy_.unit) == "one person with up to 2 records (declared, not checked)"


def good():
    return {"class_count": [3, 2], "category_count": [[[1, 1, 1], [0, 1, 1]], [[3, 0], [0, 2]]]}


@pytest.mark.parametrize(
    ("wrong", "n_samples", "message"),
    [
        ({"class_count": [3, 1]}, 5, "class_count must have a total of n_samples"),
        ({"class_count": [3, 2, 0]}, 5, r"class_count must be of shape \(2,\); got \(3,\)"),
        ({"class_count": [3.5, 1.5]}, 5, "class_count must contain non-negative whole"),
        ({"class_count": [6, -1]}, 5, "class_count must contain non-negative whole"),
        ({"class_count": [np.nan, 1]}, 5, "class_count must contain non-negative whole"),
        ({"class_count": ["x", "y"]}, 5, "class_count must be an array of numbers"),
        ({"class_count": [2, 3]}, 5, "must add up to class_count in each class"),
        ({"category_count": [[[1, 1, 1], [0, 1, 1]]]}, 5, "n_categories must"),
        ({"category_count": [[[1, 1], [0, 1]], [[3, 0], [0, 2]]]}, 5, "must be of shape"),
        ({"more": [1]}, 5, "it has 'more'"),
        ({}, 4, "class_count must have a total of n_samples"),
        ({}, 0, "n_samples must be at least 1"),
        ({}, 5.0, "n_samples must be an integer"),
    ],
)
def test_wrong_counts_are_rejected_before_anything_is_charged(wrong, n_samples, message):
    model = clone(NAIVE_BAYES["categorical"][0]).set_params(accountant=Recorder())
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit_counts({**good(), **wrong}, n_samples=n_samples)
    assert model.accountant.charges == []
    model.fit_counts(good(), n_samples=5)
    assert len(model.accountant.charges) == 1


def test_sums_above_their_bounds_are_rejected():
    model = clone(NAIVE_BAYES["multinomial"][0])
    tables = {"class_count": [1, 1], "feature_count": [[3, 0], [2, 2]]}
    with pytest.raises(
        ValueError, match="feature_count must have a total of at most n_samples times 3"
    ):
        model.fit_counts(tables, n_samples=2)
    bits = clone(NAIVE_BAYES["bernoulli"][0])
    with pytest.raises(ValueError, match="feature_count must be at most class_count"):
        bits.fit_counts({"class_count": [1, 1], "feature_count": [[2, 0], [0, 0]]}, n_samples=2)
    with pytest.raises(ValueError, match=r"must be of shape \(n_classes, n_features\)"):
        bits.fit_counts({"class_count": [1, 1], "feature_count": [1, 1]}, n_samples=2)


def test_all_that_is_public_must_be_declared():
    for name, missing in (
        ("categorical", "n_categories"),
        ("multinomial", "max_total"),
        ("complement", "max_count"),
        ("bernoulli", "classes"),
    ):
        model = clone(NAIVE_BAYES[name][0]).set_params(**{missing: None})
        with pytest.raises(ValueError, match=f"{missing} must be given if X is given as counts"):
            model.fit_counts(good(), n_samples=5)
    with pytest.raises(ValueError, match="bounds must be given"):
        clone(BINS).set_params(bounds=None).fit_counts({"code": [1], "flag": [1, 0]}, n_samples=1)
    with pytest.raises(ValueError, match="states must be given"):
        clone(NETWORK).set_params(states=None).fit_counts({}, n_samples=1)
    with pytest.raises(ValueError, match="tables must have exactly the keys"):
        clone(NETWORK).fit_counts({}, n_samples=1)
    with pytest.raises(TypeError, match="tables must be a dict"):
        clone(NETWORK).fit_counts([], n_samples=1)


def test_counts_of_a_step_of_a_pipeline_are_the_pipelines_own():
    pipeline = make_private_pipeline(clone(BINS), epsilon=1.0, delta=1e-5)
    assert not hasattr(pipeline, "fit_counts")
