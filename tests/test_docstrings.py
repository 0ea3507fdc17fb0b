"""Docstrings say what an object is or does, and shared parameters have one order and one text."""

import ast
import inspect
import re
import warnings
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import skdirdp
from skdirdp.model_selection import PrivateGridSearchCV, PrivateRandomizedSearchCV

PACKAGE = Path(skdirdp.__file__).parent
ESTIMATORS = [
    *(
        value
        for name in skdirdp.__all__
        if inspect.isclass(value := getattr(skdirdp, name)) and issubclass(value, BaseEstimator)
    ),
    PrivateGridSearchCV,
    PrivateRandomizedSearchCV,
]
ORDER = [
    *("epsilon", "delta", "order", "mechanism", "calibration", "adjacency", "n_samples"),
    *("max_weight", "max_rows", "postprocess", "accountant", "label", "random_state"),
]
# The docstring of PrivateRandomizedSearchCV refers to PrivateGridSearchCV for these parameters.
WITH_TEXTS = [each for each in ESTIMATORS if each is not PrivateRandomizedSearchCV]
OWN_TEXTS = {
    # The posterior has other mechanisms, with a calibration of their own. The tables of a crosstab
    # are used linearly, so its default compares variances.
    "mechanism": {skdirdp.PrivateDirichletPosterior, skdirdp.PrivateCrosstab},
    "calibration": {skdirdp.PrivateDirichletPosterior},
    # The noise of a vocabulary does not depend on the number of records; fractions do.
    # Without it, the classifier estimates the number of records within its budget. The noise of a
    # crosstab does not depend on it.
    "n_samples": {
        skdirdp.PrivateCountVectorizer,
        skdirdp.PrivateCrosstab,
        skdirdp.PrivateTableClassifier,
    },
    # Histograms and networks with learnt structure are post-processed by other methods.
    "postprocess": {skdirdp.DirichletHistogramTransformer, skdirdp.PrivateBayesNet},
}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_docstring_starts_with_a_question_word(path):
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            assert text.split()[0] not in {"What", "How", "Where", "Who", "Those"}, text


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__name__)
def test_shared_texts_replace_all_placeholders(estimator):
    assert not re.search(r"^ *\{[\w, ]+\}$", estimator.__doc__, re.MULTILINE)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__name__)
def test_shared_parameters_have_one_order(estimator):
    shared = [name for name in inspect.signature(estimator).parameters if name in ORDER]
    assert len(shared) >= 4
    assert shared == [name for name in ORDER if name in shared]


@pytest.mark.parametrize("name", ORDER)
def test_a_shared_parameter_has_one_text(name):
    having = {each for each in WITH_TEXTS if name in inspect.signature(each).parameters}
    own = OWN_TEXTS.get(name, set())
    assert own <= having
    compare_texts(list(having - own), include_params=[name])


def test_the_randomized_search_refers_to_the_grid_search():
    names = "epsilon, delta, order, adjacency, accountant, label, random_state"
    shared = [name for name in inspect.signature(PrivateGridSearchCV).parameters if name in ORDER]
    assert shared == names.split(", ")
    assert f"{names}\n        As for `PrivateGridSearchCV`" in PrivateRandomizedSearchCV.__doc__


@pytest.mark.parametrize("name", ["classes_", "n_features_in_", "feature_names_in_", "privacy_"])
def test_a_shared_attribute_has_one_text(name):
    having = [each for each in WITH_TEXTS if f"    {name} :" in each.__doc__]
    if name == "privacy_":  # searches, pipelines and posteriors have reports of their own
        having = [each for each in having if "privacy_ : PrivacyReport\n" in each.__doc__]
    compare_texts(having, include_attrs=[name])


def compare_texts(objects, **names):
    testing = pytest.importorskip("sklearn.utils._testing")
    if not hasattr(testing, "assert_docstring_consistency"):
        pytest.skip("scikit-learn before 1.6 does not compare docstrings")
    assert len(objects) >= 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a comparison that is skipped
        testing.assert_docstring_consistency(objects, **names)
