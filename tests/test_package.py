"""The package as a whole: imports, types and docstrings."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import FunctionType

import pytest
from packaging.version import Version

import skdirdp

ROOT = Path(__file__).resolve().parent.parent
PUBLIC_MODULES = [
    "skdirdp",
    "skdirdp.accounting",
    "skdirdp.displays",
    "skdirdp.exceptions",
    "skdirdp.mechanisms",
    "skdirdp.pipeline",
    "skdirdp.posterior",
    "skdirdp.utility",
]
# Classes that users obtain without importing them.
MET = [
    "skdirdp.accountant.ParallelParts",
    "skdirdp.accountant.History",
]


@pytest.mark.parametrize(
    "module", ["skdirdp", "skdirdp.mechanisms", "skdirdp.naive_bayes", "skdirdp.displays"]
)
def test_importing_loads_nothing_heavy(module):
    script = (
        f"import sys, {module}\n"
        "heavy = {'pgmpy', 'matplotlib', 'dp_accounting'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"


def test_only_the_network_of_pgmpy_imports_pgmpy():
    script = """
import sys
import numpy as np
import pandas as pd
from skdirdp import *

rng = np.random.default_rng(0)
X = pd.DataFrame({"a": rng.integers(2, size=300), "b": rng.integers(3, size=300)})
schema = Schema({"a": [0, 1], "b": [0, 1, 2]})
DirichletCategoricalNB(classes=[0, 1], n_categories=[3]).fit(X[["b"]], X["a"])
DirichletHistogramTransformer(bounds=(0, 2)).fit(X)
learnt = PrivateBayesNet(schema, target="a").fit(X)
states = {"a": [0, 1], "b": [0, 1, 2]}
given = PrivateBayesNetMLE([("a", "b")], states=states, target="a").fit(X)
for network in (learnt, given):
    network.predict(X), network.score(X), network.sample(5)
PrivateTableClassifier(schema).fit(X, y="a").predict(X[["b"]])
PrivateCrosstab(schema).fit(X).network().sample(5)
print("pgmpy" in sys.modules)
learnt.model_
print("pgmpy" in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["False", "True"]


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.search(
        r"\ndependencies = \[.*?\]\n.*?\nplots = \[.*?\]\npostgres = \[.*?\]\n.*?\ndocs =",
        project,
        re.DOTALL,
    ).group()

    def lower_bounds(text):
        found = re.findall(r'"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)"', text)
        return {(name, Version(least)) for name, least in found}

    pins = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8")
    tested = {(name, Version(pin)) for name, pin in re.findall(r"^([\w-]+)==(\S+)$", pins, re.M)}
    # Engines of frames come with the frames, so that only the tests name them.
    assert lower_bounds(needed) <= tested <= lower_bounds(project)


def test_every_public_name_can_be_imported():
    for name in skdirdp.__all__:
        assert getattr(skdirdp, name).__name__ == name
    assert set(skdirdp.__all__) <= set(dir(skdirdp))


def test_every_public_name_is_visible_to_type_checkers():
    tree = ast.parse((ROOT / "skdirdp" / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
        if alias.name == alias.asname
    }
    assert imported == skdirdp._HOMES


def test_to_a_type_checker_a_public_name_is_its_class():
    pytest.importorskip("mypy")
    lines = ["import skdirdp", "skdirdp.GaussianNB"]
    names = [name for name in skdirdp.__all__ if inspect.isclass(getattr(skdirdp, name))]
    lines += [f"reveal_type(skdirdp.{name})" for name in names]
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    captured = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    ).stdout
    classes = re.findall(r'Revealed type is "def .* -> skdirdp\.(?:\w+\.)*(\w+)"', captured)
    assert classes == names, captured
    assert 'Module has no attribute "GaussianNB"' in captured


def test_a_script_of_a_user_passes_strict_type_checks():
    pytest.importorskip("mypy")
    # Of the packages without types, only the imports are silenced.
    options = ["--strict", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(ROOT / "tests" / "typed_script.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_script_of_a_user_runs(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    script = str(ROOT / "tests" / "typed_script.py")
    subprocess.run(
        [sys.executable, "-W", "ignore", script],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'GaussianNB'"):
        skdirdp.GaussianNB  # noqa: B018


def public_names():
    """Every public class and function, once."""
    found = {}
    for module in PUBLIC_MODULES:
        for name in importlib.import_module(module).__all__:
            found.setdefault(getattr(importlib.import_module(module), name), f"{module}.{name}")
    return [*found.values(), *MET]


def public_methods(path):
    module, name = path.rsplit(".", 1)
    thing = getattr(importlib.import_module(module), name)
    if not inspect.isclass(thing):
        return []
    own = [parent for parent in thing.__mro__ if parent.__module__.startswith("skdirdp.")]
    methods = {name: value for parent in reversed(own) for name, value in vars(parent).items()}
    return [
        f"{path}.{name}"
        for name, value in methods.items()
        if not name.startswith("_") and isinstance(value, (FunctionType, classmethod, staticmethod))
    ]


@pytest.mark.parametrize("path", public_names())
def test_public_names_have_an_example_and_describe_their_parameters(path):
    numpydoc = pytest.importorskip("numpydoc.validate")
    # GL08: no docstring; PR01: an undocumented parameter; PR02: one that does not exist.
    wanted = {path: {"GL08", "EX01", "PR01", "PR02"}}
    wanted |= {method: {"GL08", "PR01", "PR02"} for method in public_methods(path)}
    faults = [
        f"{name}: {text}"
        for name, codes in wanted.items()
        for code, text in numpydoc.validate(name)["errors"]
        if code in codes
    ]
    assert faults == []


def test_the_package_and_the_changelog_have_one_version():
    assert metadata.version("skdirdp") == skdirdp.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (\S+)", changes, flags=re.MULTILINE)[0]
    assert newest == re.sub(r"\.dev\d+$", "", skdirdp.__version__)
