"""scikit-learn's own tests of naive Bayes, with our classes at infinite epsilon."""

import inspect

import pytest
import sklearn.naive_bayes
from sklearn.tests import test_naive_bayes as theirs

import skdirdp

from .sklearn_cases import cases, functions_of, run

#: Their class, and ours.
REPLACED = {
    "BernoulliNB": "DirichletBernoulliNB",
    "CategoricalNB": "DirichletCategoricalNB",
    "ComplementNB": "DirichletComplementNB",
    "MultinomialNB": "DirichletNB",
}

#: Tests of scikit-learn that cannot pass, with the reason.
EXCEPTIONS = {
    "test_discretenb_provide_prior": "uses the classes of a failed fit, which we restore",
}


@pytest.fixture
def global_random_seed():
    return 42  # scikit-learn's own default


def without_noise(name):
    """Our class by the name of theirs, which messages have, and with no noise by default."""
    ours = getattr(skdirdp, REPLACED[name])
    signature = inspect.signature(ours.__init__)
    parameters = [
        parameter.replace(default=float("inf")) if parameter.name == "epsilon" else parameter
        for parameter in signature.parameters.values()
    ]

    def __init__(self, *args, **kwargs):
        ours.__init__(self, *args, **{"epsilon": float("inf"), **kwargs})

    __init__.__signature__ = signature.replace(parameters=parameters)
    return type(name, (ours,), {"__init__": __init__})


CLASSES = {name: without_noise(name) for name in REPLACED}


def as_private(value):
    """A class, an instance of one, or a list of classes, with ours in the place of theirs."""
    if isinstance(value, list):
        return [as_private(each) for each in value]
    for name, ours in CLASSES.items():
        original = getattr(sklearn.naive_bayes, name)
        if value is original:
            return ours
        if type(value) is original:
            return ours(**value.get_params())
    return value


def is_about_ours(function):
    source = inspect.getsource(function)
    return any(name in source for name in [*REPLACED, "DiscreteNaiveBayes", "Estimator"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("function", "values"), [*cases(functions_of(theirs, is_about_ours), EXCEPTIONS)]
)
def test_scikit_learns_tests_of_its_naive_bayes_pass(function, values, request, monkeypatch):
    for name, ours in CLASSES.items():
        monkeypatch.setattr(theirs, name, ours)
    run(function, {name: as_private(value) for name, value in values.items()}, request)


def test_the_expected_number_of_scikit_learn_tests_is_run():
    names = {name for name, _ in functions_of(theirs, is_about_ours)}
    assert len(names) > 20
    assert {name.partition("-")[0] for name in EXCEPTIONS} <= names
