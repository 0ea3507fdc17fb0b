"""Errors show no data, and a report says what its guarantee does not cover."""

import traceback

import numpy as np
import pandas as pd
import pytest

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
)

SECRET = 7431.25
ESTIMATORS = {
    "multinomial": DirichletNB(classes=[0, 1], max_count=3, max_total=9),
    "categorical": DirichletCategoricalNB(classes=[0, 1], n_categories=4),
    "histogram": DirichletHistogramTransformer(bounds=(0, 1)),
}
MISTAKES = {
    "one dimension": np.full(20, SECRET),
    "three dimensions": np.full((20, 2, 2), SECRET),
    "text": np.array([["7431.25 a secret", "1"]] * 20, dtype=object),
    "strings": np.array([["7431.25 a secret", "1"]] * 20),
    "missing": np.array([[SECRET, np.nan]] * 20),
    "infinite": np.array([[SECRET, np.inf]] * 20),
    "negative": np.full((20, 2), -SECRET),
    "objects": np.array([[{"7431.25": 1}, 1]] * 20, dtype=object),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_no_error_shows_a_value_of_the_data(kind, mistake):
    X, y = MISTAKES[mistake], np.arange(20) % 2
    if (kind, mistake) == ("histogram", "negative"):
        pytest.skip("values outside the bounds go into the end bins")
    with pytest.raises((TypeError, ValueError)) as raised:
        ESTIMATORS[kind].fit(X, y)
    # What Python prints below a traceback, with what the error was raised from.
    printed = "".join(traceback.format_exception(raised.value)).split("\n")
    shown = [line for line in printed if not line.startswith("  ")]
    assert "7431" not in "\n".join(shown)


def test_text_and_missing_values_are_answered_by_what_to_do():
    y = np.arange(20) % 2
    with pytest.raises(ValueError, match="Encode categories first, with those that are publicly"):
        ESTIMATORS["categorical"].fit(MISTAKES["text"], y)
    with pytest.raises(ValueError, match="a mean or a median of the data is not private") as raised:
        ESTIMATORS["multinomial"].fit(MISTAKES["missing"], y)
    assert "imputer transformer" not in str(raised.value)
    with pytest.raises(ValueError, match=r"Reshape your data either using array.reshape\(-1, 1\)"):
        ESTIMATORS["histogram"].fit(MISTAKES["one dimension"])


@pytest.mark.parametrize("kind", ["multinomial", "categorical"])
def test_no_error_shows_a_weight(kind):
    X, y = np.ones((20, 2), dtype=int), np.arange(20) % 2
    for weight in (["7431.25 a secret"] * 20, np.full(20, -SECRET), np.full((20, 2), SECRET)):
        with pytest.raises((TypeError, ValueError)) as raised:
            ESTIMATORS[kind].fit(X, y, sample_weight=weight)
        assert "7431" not in str(raised.value)


def test_no_error_shows_a_value_that_is_predicted_or_binned_back():
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=2)
    model.fit(np.arange(40).reshape(20, 2) % 2, np.arange(20) % 2)
    bins = DirichletHistogramTransformer(bounds=(0, 1), encode="ordinal").fit([[0.5], [0.2]])
    for refuse in (model.predict, bins.transform, bins.inverse_transform):
        for mistake in ("one dimension", "text", "missing"):
            with pytest.raises((TypeError, ValueError)) as raised:
                refuse(MISTAKES[mistake])
            assert "7431" not in str(raised.value)


def test_a_report_never_says_less_than_was_claimed():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    budget = {"epsilon": 1.00000049, "delta": 1.00000049e-5}
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=3, **budget).fit(X, y)
    assert str(model.privacy_).startswith("(1.00000049, 1.00000049e-05)-differentially private")
    posterior = PrivateDirichletPosterior(mechanism="lshist", n_categories=2, epsilon=1.00000049)
    assert str(posterior.fit([0, 1, 1]).privacy_).startswith("(1.00000049, 0)-differentially")


def test_labels_of_another_type_are_named_as_that():
    X = np.zeros((4, 1), dtype=int)
    with pytest.raises(ValueError, match=r"some are not\. They are of another type\. Declare them"):
        ESTIMATORS["categorical"].fit(X, ["no", "yes", "no", "yes"])
    with pytest.raises(ValueError, match=r"some are not\. Declare them"):
        ESTIMATORS["categorical"].fit(X, [0, 1, 2, 1])


def test_bounds_by_name_are_refused_with_what_is_wanted():
    with pytest.raises(TypeError, match="in the order of the columns; got a mapping"):
        DirichletHistogramTransformer(bounds={"a": (0, 1)}).fit([[0.5], [0.2]])


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_a_report_names_what_was_taken_from_the_data():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    report = DirichletNB(max_count=3).fit(X, y).privacy_
    assert report.not_covered == ("classes", "max_total")
    assert str(report).endswith("; not covered: classes, max_total, taken from the data")
    seeded = DirichletCategoricalNB(classes=[0, 1], n_categories=3, random_state=0).fit(X, y)
    assert seeded.privacy_.not_covered == ("random_state",)
    assert str(seeded.privacy_).endswith("and whoever knows it can remove the noise")
    assert DirichletHistogramTransformer().fit(X).privacy_.not_covered == ("bounds",)
    table = pd.DataFrame(X, columns=["a", "b"])
    assert PrivateBayesNetMLE([("a", "b")]).fit(table).privacy_.not_covered == ("states",)
    posterior = PrivateDirichletPosterior(mechanism="lshist").fit([0, 1, 1, 2]).privacy_
    assert posterior.not_covered == ("categories",)
    assert str(posterior) == (
        "(1, 0)-differentially private against replacing one record; by mechanism 'lshist', as in "
        "the paper; not covered: categories, taken from the data"
    )


def test_a_clean_fit_and_one_without_privacy_name_nothing():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    model = DirichletNB(classes=[0, 1], max_count=3, max_total=6)
    assert model.fit(X, y).privacy_.not_covered == ()
    assert "not covered" not in str(model.privacy_)
    assert DirichletNB(epsilon=np.inf).fit(X, y).privacy_.not_covered == ()


def test_an_absent_size_under_add_remove_is_not_covered():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=3, adjacency="add_remove")
    with pytest.warns(PrivacyLeakWarning, match="n_samples"):
        model.fit(X, y)
    assert model.privacy_.not_covered == ("n_samples",)
