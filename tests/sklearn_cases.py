"""Tests of scikit-learn, run with the classes of this package."""

import inspect

import pytest

KNOWN_MARKS = {"filterwarnings", "skipif", "usefixtures", "xfail"}


def functions_of(module, about):
    """The names and test functions of a module that are about something."""
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("test_") and about(function):
            yield name, function


def cases(functions, exceptions, exception_of=lambda name, values: None):
    """Each function with each of its arguments; those in `exceptions` must fail, for its reason.

    An exception is a name, or a name and the number of one case, as in ``"test_alpha-2"``. Or
    `exception_of` gives the reason, by the name and the arguments.
    """
    for name, function in functions:
        given = getattr(function, "pytestmark", ())
        marks = [mark for mark in given if mark.name in KNOWN_MARKS]
        combinations = [{}]
        for mark in given:
            if mark.name == "parametrize":
                combinations = [
                    {**known, **values}
                    for known in combinations
                    for values in arguments(*mark.args[:2])
                ]
        for number, values in enumerate(combinations):
            case = f"{name}-{number}"
            reason = exceptions.get(name, exceptions.get(case)) or exception_of(name, values)
            each = [*marks, pytest.mark.xfail(reason=reason, strict=True)] if reason else marks
            yield pytest.param(function, values, id=case, marks=each)


def arguments(names, values):
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    for value in values:
        value = getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
        if len(names) == 1:
            (value,) = value if type(value) is tuple and len(value) == 1 else (value,)
            yield {names[0]: value}
        else:
            yield dict(zip(names, value, strict=True))


def run(function, values, request):
    """Call a test function with its arguments, and with the fixtures that it asks for."""
    wanted = set(inspect.signature(function).parameters) - set(values)
    function(**values, **{name: request.getfixturevalue(name) for name in wanted})
