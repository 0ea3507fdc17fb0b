"""scikit-learn's own tests of Pipeline, with PrivatePipeline at infinite epsilon."""

import inspect
from functools import partial

import pytest
import sklearn.pipeline
from sklearn.tests import test_pipeline as theirs

from skdirdp import PrivatePipeline

CALLBACKS = "callbacks other than ProgressBar could store exact scores, so they are refused"

#: Tests of scikit-learn that cannot pass, with the reason.
EXCEPTIONS = {
    "test_pipeline_raise_set_params_error": "lists all parameters in the order of Pipeline's",
    "test_set_pipeline_step_passthrough": "lists all parameters, of which there are more",
    "test_pipeline_memory_callbacks_second_fit_same_pipeline": CALLBACKS,
    "test_pipeline_with_callbacks": CALLBACKS,
}


KNOWN_MARKS = {"filterwarnings", "skipif", "usefixtures", "xfail"}


class _Pipeline(PrivatePipeline):
    """Without noise, and by the name that messages have."""

    def __init__(
        self,
        steps,
        *,
        epsilon=float("inf"),
        delta=1e-5,
        order=None,
        adjacency="replace",
        shares=None,
        accountant=None,
        label=None,
        transform_input=None,
        memory=None,
        verbose=False,
    ):
        super().__init__(
            steps,
            epsilon=epsilon,
            delta=delta,
            order=order,
            adjacency=adjacency,
            shares=shares,
            accountant=accountant,
            label=label,
            transform_input=transform_input,
            memory=memory,
            verbose=verbose,
        )


_Pipeline.__name__ = _Pipeline.__qualname__ = "Pipeline"


def make_pipeline(*steps, memory=None, transform_input=None, verbose=False):
    names = sklearn.pipeline._name_estimators(steps)
    return _Pipeline(names, memory=memory, transform_input=transform_input, verbose=verbose)


def of_pipelines():
    """The functions that are about Pipeline and not FeatureUnion alone."""
    for name, function in inspect.getmembers(theirs, inspect.isfunction):
        if name.startswith("test_") and "ipeline" in inspect.getsource(function):
            yield name, function


def cases():
    for name, function in of_pipelines():
        marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name in KNOWN_MARKS]
        combinations = [{}]
        for mark in getattr(function, "pytestmark", ()):
            if mark.name == "parametrize":
                combinations = [
                    {**known, **values}
                    for known in combinations
                    for values in arguments(*mark.args[:2])
                ]
        for number, values in enumerate(combinations):
            reason = EXCEPTIONS.get(name)
            each = [*marks, pytest.mark.xfail(reason=reason, strict=True)] if reason else marks
            yield pytest.param(function, values, id=f"{name}-{number}", marks=each)


def arguments(names, values):
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    for value in values:
        value = getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
        if len(names) == 1:
            (value,) = value if type(value) is tuple and len(value) == 1 else (value,)
            yield {names[0]: value}
        else:
            yield dict(zip(names, value, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "values"), [*cases()])
def test_scikit_learns_tests_of_its_pipeline_pass(function, values, request, monkeypatch):
    monkeypatch.setattr(theirs, "Pipeline", _Pipeline)
    monkeypatch.setattr(theirs, "make_pipeline", make_pipeline)
    # Examples that were made when their module was imported are scikit-learn's own class.
    values = {name: as_private(value) for name, value in values.items()}
    wanted = set(inspect.signature(function).parameters) - set(values)
    fixtures = {name: request.getfixturevalue(name) for name in wanted}
    partial(function, **values, **fixtures)()


def as_private(value):
    if type(value) is sklearn.pipeline.Pipeline:
        return _Pipeline(**value.get_params(deep=False))
    return value


def test_scikit_learn_tests_its_pipeline_as_much_as_we_think():
    names = {name for name, _ in of_pipelines()}
    assert len(names) > 40
    assert set(EXCEPTIONS) <= names
