"""scikit-learn's own tests of `CountVectorizer`, with our vectorizer at infinite epsilon."""

import inspect

import numpy as np
import pytest
import sklearn.feature_extraction.text
from sklearn.feature_extraction.tests import test_text as theirs

from skdirdp import PrivateCountVectorizer

from .sklearn_cases import cases, functions_of, run

MESSAGES = "errors of documents and of functions that read them may contain data: not shown"
EMPTY = "an empty vocabulary is a release as any other, with one empty word and a warning"

#: Tests of scikit-learn that cannot pass, with the reason.
EXCEPTIONS = {
    "test_countvectorizer_empty_vocabulary": EMPTY,
    "test_callable_analyzer_reraise_error-0": MESSAGES,
    **{f"test_callable_analyzer_error-{number}": MESSAGES for number in (0, 3)},
    **{f"test_callable_analyzer_change_behavior-{number}": MESSAGES for number in (0, 3, 6, 9)},
}


class CountVectorizer(PrivateCountVectorizer):
    """Ours by the name of theirs, which messages have, without noise and with all words."""

    def __init__(
        self,
        *,
        input="content",
        encoding="utf-8",
        decode_error="strict",
        strip_accents=None,
        lowercase=True,
        preprocessor=None,
        tokenizer=None,
        stop_words=None,
        token_pattern=r"(?u)\b\w\w+\b",
        ngram_range=(1, 1),
        analyzer="word",
        max_df=1.0,
        min_df=1,
        max_features=None,
        vocabulary=None,
        binary=False,
        dtype=np.int64,
    ):
        given = {name: value for name, value in locals().items() if name != "self"}
        given.pop("__class__", None)
        super().__init__(**given, epsilon=float("inf"), max_words=1_000_000)


def as_private(value):
    if isinstance(value, tuple):
        return tuple(as_private(each) for each in value)
    return CountVectorizer if value is sklearn.feature_extraction.text.CountVectorizer else value


def is_about_ours(function):
    marks = getattr(function, "pytestmark", ())
    source = inspect.getsource(function)
    return "CountVectorizer" in source or any("CountVectorizer" in str(m.args) for m in marks)


@pytest.mark.parametrize(
    ("function", "values"), [*cases(functions_of(theirs, is_about_ours), EXCEPTIONS)]
)
def test_scikit_learns_tests_of_its_vectorizer_pass(function, values, request, monkeypatch):
    monkeypatch.setattr(theirs, "CountVectorizer", CountVectorizer)
    run(function, {name: as_private(value) for name, value in values.items()}, request)


def test_scikit_learn_tests_its_vectorizer_as_much_as_we_think():
    names = {name for name, _ in functions_of(theirs, is_about_ours)}
    assert len(names) > 20
    assert {name.partition("-")[0] for name in EXCEPTIONS} <= names
