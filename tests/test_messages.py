"""Errors show no data and teach, warnings point at the user, reports name their limits."""

import ast
import inspect
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdirdp
from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
)
from skdirdp._messages import describe, errors_without_data, warn
from skdirdp.mechanisms import DirichletMechanism

from .probes import drawn_tables

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
    # The printed traceback, including chained errors.
    printed = "".join(traceback.format_exception(raised.value)).split("\n")
    shown = [line for line in printed if not line.startswith("  ")]
    assert "7431" not in "\n".join(shown)


def test_errors_for_text_and_missing_values_are_helpful():
    y = np.arange(20) % 2
    with pytest.raises(ValueError, match="Encode categories first, using a publicly known list"):
        ESTIMATORS["categorical"].fit(MISTAKES["text"], y)
    with pytest.raises(ValueError, match="the mean or median of the data is not private") as raised:
        ESTIMATORS["multinomial"].fit(MISTAKES["missing"], y)
    assert "imputer transformer" not in str(raised.value)
    with pytest.raises(ValueError, match=r"Reshape your data either using array.reshape\(-1, 1\)"):
        ESTIMATORS["histogram"].fit(MISTAKES["one dimension"])


@pytest.mark.parametrize("kind", ["multinomial", "categorical", "histogram"])
def test_a_list_with_none_holds_a_missing_value(kind):
    X = [[1, 0], [None, 1], [0, 1], [1, 1]]
    with pytest.raises((TypeError, ValueError), match=r"contains NaN|not 'NoneType'"):
        ESTIMATORS[kind].fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "column",
    [
        pd.array([0, 1, None, 2], dtype="Int64"),
        pd.array([True, False, None, True], dtype="boolean"),
        pd.array(["0", "1", None, "2"], dtype="string"),
        np.array(["0", "1", None, "2"], dtype=object),
        pd.Categorical(["0", "1", None, "2"]),
        np.array([0, 1, pd.NaT, 2], dtype=object),
    ],
    ids=["Int64", "boolean", "string", "object", "categorical", "NaT"],
)
def test_errors_for_a_missing_category_are_helpful(column):
    with pytest.raises((TypeError, ValueError), match=r"Input (X )?contains NaN\. Impute"):
        ESTIMATORS["categorical"].fit(pd.DataFrame({"a": column}), [0, 1, 0, 1])


def test_numbers_that_are_no_categories_are_truncated_one_by_one():
    y = [0, 1, 0, 1]
    with drawn_tables() as expected:
        ESTIMATORS["categorical"].fit([[1, 0], [2, 3], [0, 0], [0, 1]], y)
    with drawn_tables() as found:
        ESTIMATORS["categorical"].fit([[1.7, 0.2], [2, 3.999], [-0.5, 0], [0, 1]], y)
    for (_, these), (_, those) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(these, those)


class PanicException(BaseException):
    """Polars' own is no Exception."""


def test_a_panic_of_another_library_is_not_shown():
    for panic in (PanicException, pl.exceptions.PanicException):
        gate = errors_without_data(X=None)
        with pytest.raises(ValueError, match="a PanicException, is not shown") as raised, gate:
            raise panic("7431.25 a secret")
        assert "7431" not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None


def test_an_interrupt_passes_the_gate():
    for interrupt in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(interrupt), errors_without_data(X=None):
            raise interrupt


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
    for fails in (model.predict, bins.transform, bins.inverse_transform):
        for mistake in ("one dimension", "text", "missing"):
            with pytest.raises((TypeError, ValueError)) as raised:
                fails(MISTAKES[mistake])
            assert "7431" not in str(raised.value)


def test_reported_numbers_are_not_below_the_claim():
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


@pytest.mark.parametrize("ensemble", [VotingClassifier, StackingClassifier])
def test_text_labels_inside_an_ensemble_are_answered_by_the_classes_to_give(ensemble):
    X, y = np.arange(40).reshape(20, 2) % 3, np.array(["no", "yes"] * 10)

    def fit(classes):
        inner = DirichletCategoricalNB(classes=classes, n_categories=3)
        return ensemble([("bayes", inner)]).fit(X, y)

    with pytest.raises(ValueError, match=r"VotingClassifier and .*need classes=list\(range\(2\)\)"):
        fit(["no", "yes"])
    assert set(fit([0, 1]).predict(X)) <= {"no", "yes"}


# Parameters ------------------------------------------------------------------------


def test_a_prior_for_classes_out_of_order_is_rejected():
    X, y = np.zeros((4, 1), dtype=int), np.array(["a", "b"] * 2)

    def fit(classes, class_prior=(0.9, 0.1)):
        model = DirichletCategoricalNB(
            classes=classes, class_prior=class_prior, n_categories=2, epsilon=np.inf
        )
        return model.fit(X, y)

    with pytest.raises(ValueError, match=r"classes must be sorted .* if class_prior is given"):
        fit(["b", "a"])
    np.testing.assert_allclose(np.exp(fit(["a", "b"]).class_log_prior_), [0.9, 0.1])
    assert list(fit(["b", "a"], class_prior=None).classes_) == ["a", "b"]


def fit_categorical(**parameters):
    model = DirichletCategoricalNB(**{"classes": [0, 1], "n_categories": 3, **parameters})
    return model.fit(np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2)


def fit_posterior(**parameters):
    return PrivateDirichletPosterior(mechanism="lshist", **parameters).fit([0, 1, 1])


WRONG = {
    "no class": (fit_categorical, {"classes": []}, "one label or more; got list of length 0"),
    "a set": (fit_categorical, {"classes": {0, 1}}, "such as a list; got set of length 2"),
    "a dict": (fit_categorical, {"classes": {0: 1}}, "such as a list; got dict of length 1"),
    "classes in a table": (fit_categorical, {"classes": [[0, 1]]}, "classes must be one label"),
    "complex classes": (fit_categorical, {"classes": [0, 1j]}, "classes must be numbers or"),
    "classes with nan": (fit_categorical, {"classes": [0, np.nan]}, "no missing value"),
    "classes with None": (fit_categorical, {"classes": ["a", None]}, "no missing value"),
    "classes of two kinds": (
        fit_categorical,
        {"classes": np.array(["a", 1], dtype=object)},
        "classes must contain only numbers or only strings",
    ),
    "short prior": (fit_categorical, {"class_prior": [1.0]}, "one entry per class, 2; got list"),
    "prior of text": (fit_categorical, {"class_prior": ["a", "b"]}, "class_prior must be an array"),
    "negative prior": (fit_categorical, {"class_prior": [2, -1]}, "class_prior must be finite"),
    "fractional size": (fit_categorical, {"n_categories": [2.5, 3]}, "n_categories must be an int"),
    "size 0": (fit_categorical, {"n_categories": [3, 0]}, "n_categories must be at least 1; got 0"),
    "sizes": (fit_categorical, {"n_categories": [3] * 3}, "one entry per feature, 2; got list of"),
    "huge size": (fit_categorical, {"n_categories": 10**30}, "n_categories must be at most"),
    "a path": (fit_categorical, {"accountant": "ledger"}, "'accountant' .* implementing 'charge'"),
    "posterior path": (
        fit_posterior,
        {"accountant": "ledger"},
        "'accountant' .* implementing 'charge'",
    ),
    "one number": (fit_posterior, {"categories": 3}, "'categories' .* array-like. Got 3"),
    "text": (fit_posterior, {"categories": "ab"}, "'categories' .* array-like. Got 'ab'"),
    "set of categories": (
        fit_posterior,
        {"categories": {0, 1}},
        "categories must be a sequence; got .* set",
    ),
    "lists as categories": (fit_posterior, {"categories": [[0], [1]]}, "hashable labels"),
    "huge epsilon": (fit_posterior, {"epsilon": 10**400}, "epsilon must be at most 1e"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_parameter_is_named_with_its_limit(case):
    fit, parameters, message = WRONG[case]
    with pytest.raises((TypeError, ValueError), match=message):
        fit(**parameters)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8])
def test_sizes_of_any_integer_type_are_sizes(dtype):
    sizes = np.array([200, 200], dtype=np.uint8) if dtype is np.uint8 else np.array([3, 3], dtype)
    assert list(fit_categorical(n_categories=sizes).n_categories_) == sizes.tolist()
    assert list(fit_categorical(n_categories=dtype(3)).n_categories_) == [3, 3]
    X = np.arange(40).reshape(20, 2) % 3
    bins = DirichletHistogramTransformer(dtype(100), bounds=(0, 3), strategy="uniform").fit(X)
    assert list(bins.n_bins_) == [100, 100]
    assert list(DirichletHistogramTransformer(n_categories=sizes).fit(X).n_bins_) == sizes.tolist()


def test_labels_that_no_encoding_can_write_are_labels():
    y = np.array(["\ud800", "b"] * 2, dtype=object)
    model = DirichletCategoricalNB(classes=["b", "\ud800"], n_categories=1)
    assert set(model.fit(np.zeros((4, 1), dtype=int), y).predict([[0]])) <= set(y)


# The gate --------------------------------------------------------------------------


def raised_in_gate(action, **given):
    with pytest.raises((TypeError, ValueError)) as raised, errors_without_data(**given):
        action()
    return raised.value


def test_an_unknown_error_is_described_by_its_type_and_the_input():
    def look_up():
        return {}["7431.25 a secret"]

    error = raised_in_gate(look_up, X=np.zeros((3, 2)), y=["7431.25 a secret"])
    assert type(error) is ValueError
    assert str(error).startswith(
        "X or y cannot be read: X is ndarray of shape (3, 2) and dtype float64; y is list of "
        "length 1. The reason, a KeyError, is not shown"
    )
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_known_message_with_something_in_its_place_is_unknown():
    def fails():
        raise ValueError("X has 7431.25 features, but DirichletNB is expecting 2 features")

    assert "7431" not in str(raised_in_gate(fails))


def test_nested_gates_keep_the_inner_message():
    def look_up():
        with errors_without_data(y=[1]):
            {}["secret"]

    assert str(raised_in_gate(look_up, X=[])).startswith("y cannot be read: y is list of length 1")


def test_an_object_is_described_without_its_contents():
    secret = pd.Series(["secret"] * 2, dtype="category")
    assert describe(secret) == "Series of shape (2,)"
    assert describe(secret.to_numpy()) == "ndarray of shape (2,) and dtype object"
    assert describe({"secret"}) == "set of length 1"
    assert describe(SECRET) == "float"

    class Showy:
        def __len__(self):
            raise KeyError("secret")

    assert describe(Showy()) == "Showy"


# Functions of scikit-learn that look at data, and the package's modules.
CHECKS_OF_DATA = {
    "_check_sample_weight",
    "accuracy_score",
    "check_array",
    "check_classification_targets",
    "validate_data",
}
MODULES = sorted(Path(skdirdp.__file__).parent.rglob("*.py"))


def imports_from_scikit_learn(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "sklearn" in (node.module or ""):
            yield node.module, [alias.name for alias in node.names]


def calls_outside_gates(node, inside=False):
    if isinstance(node, ast.With):
        inside = inside or any("errors_without_data" in ast.unparse(item) for item in node.items)
    if isinstance(node, ast.Call) and not inside:
        yield ast.unparse(node.func)
    for child in ast.iter_child_nodes(node):
        yield from calls_outside_gates(child, inside)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_check_of_data_is_inside_the_gate(path):
    tree = ast.parse(path.read_text())
    theirs = {name for _, names in imports_from_scikit_learn(tree) for name in names}
    assert not CHECKS_OF_DATA & theirs & set(calls_outside_gates(tree))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_private_names_of_scikit_learn_are_imported_by_one_module(path):
    if path.stem == "_sklearn_compat":
        return
    for module, names in imports_from_scikit_learn(ast.parse(path.read_text())):
        if module.startswith("sklearn"):
            assert not [name for name in [*module.split("."), *names] if name.startswith("_")]


# Warnings --------------------------------------------------------------------------


def line_of_warning(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    (warning,) = {(warning.filename, warning.lineno) for warning in caught}
    return warning


def test_warnings_point_at_the_line_of_the_user():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    table = pd.DataFrame(X, columns=["a", "b"])
    counting = DirichletNB(max_count=3).partial_fit(X, y, [0, 1])
    actions = [
        lambda: DirichletNB().fit(X, y),
        lambda: counting.predict(X),
        lambda: make_pipeline(FunctionTransformer(), DirichletNB()).fit(X, y),
        lambda: cross_val_score(DirichletNB(classes=[0, 1], max_count=3), X, y, cv=2),
        lambda: DirichletCategoricalNB(classes=[0, 1], n_categories=3, random_state=0).fit(X, y),
        lambda: DirichletHistogramTransformer().fit(X),
        lambda: DirichletHistogramTransformer().fit_transform(X),
        lambda: DirichletHistogramTransformer().fit(np.zeros((9, 1))),
        lambda: PrivateBayesNetMLE([("a", "b")]).fit(table),
        lambda: PrivateDirichletPosterior(mechanism="lshist").fit([0, 1, 1]),
        lambda: PrivateDirichletPosterior(mechanism="ehdl", n_categories=2).fit([0, 1, 1]),
        lambda: DirichletMechanism(r=1.0, alpha=2.0).release([1.0, 2.0], random_state=0),
    ]
    for action in actions:
        code = action.__code__
        assert line_of_warning(action) == (__file__, code.co_firstlineno), inspect.getsource(action)


def test_a_warning_without_a_user_points_at_the_outermost_frame():
    scope = {"__name__": "skdirdp.nowhere", "warn": warn}
    with pytest.warns(UserWarning, match="hello"):
        exec("warn('hello')", scope)


# Reports ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_a_report_names_what_was_taken_from_the_data():
    X, y = np.arange(40).reshape(20, 2) % 3, np.arange(20) % 2
    report = DirichletNB(max_count=3).fit(X, y).privacy_
    assert report.not_covered == ("classes", "max_total")
    assert str(report).endswith("; not covered: classes, max_total, taken from the data")
    seeded = DirichletCategoricalNB(classes=[0, 1], n_categories=3, random_state=0).fit(X, y)
    assert seeded.privacy_.not_covered == ("random_state",)
    assert str(seeded.privacy_).endswith("and anyone who knows it can remove the noise")
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


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (DirichletNB(classes=["a", "b"], max_count=1, max_total=1), [np.ones((10_001, 1))]),
        (PrivateDirichletPosterior(categories=["a", "b"], mechanism="lshist"), []),
    ],
)
def test_one_long_label_does_not_increase_memory_for_each_record(model, X):
    labels = ["a", "b"] * 5000 + ["x" * 10_000_000]  # 400 GB in an array of texts
    with pytest.raises(ValueError, match=r"in classes|outside that domain") as error:
        model.fit(*X, labels)
    assert "10000000" not in str(error.value)
