"""Dates of results, and the code that has changed since they were measured."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.ages import Age, measured_code, table
from benchmarks.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
FILES = {
    "skdirdp/__init__.py": '_HOMES = {"fit": "fitting"}\n',
    "skdirdp/fitting/__init__.py": "from .base import fit\nfrom .other import unused\n",
    "skdirdp/fitting/base.py": 'def fit(x):\n    """Fit."""\n    from ..noise import draw\n\n'
    '    if x < 0:\n        raise ValueError("negative")\n    return draw(x)\n',
    "skdirdp/fitting/other.py": "unused = 1\n",
    "skdirdp/noise.py": "def draw(x):\n    return x + 1\n",
    "skdirdp/unrelated.py": "value = 1\n",
    "benchmarks/helper.py": "from skdirdp import fit\n",
    "benchmarks/experiment.py": "from .helper import fit\n",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def changed(project, name, old, new):
    """The parts whose hash changes with an edit."""
    before = measured_code(project / "benchmarks/experiment.py", project)
    edited = project / "edited"
    for path, text in FILES.items():
        (edited / path).parent.mkdir(parents=True, exist_ok=True)
        (edited / path).write_text(text.replace(old, new) if path == name else text)
    assert old in FILES[name]
    after = measured_code(edited / "benchmarks/experiment.py", edited)
    return sorted(part for part in {*before, *after} if before.get(part) != after.get(part))


def test_imports_are_followed_to_the_modules_that_define_the_names(project):
    assert list(measured_code(project / "benchmarks/experiment.py", project)) == [
        "fitting",
        "noise",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "parts"),
    [
        ("skdirdp/noise.py", "x + 1", "x + 2", ["noise"]),
        ("skdirdp/fitting/base.py", "x < 0", "x <= 0", ["fitting"]),
        ("skdirdp/fitting/other.py", "1", "2", []),
        ("skdirdp/unrelated.py", "1", "2", []),
        ("skdirdp/fitting/base.py", '"""Fit."""', '"""Fit a model."""', []),
        ("skdirdp/fitting/base.py", '"negative"', '"x is negative"', []),
        ("skdirdp/noise.py", "(x):", "(x: float) -> float:  # a sum", []),
        ("skdirdp/noise.py", "x + 1", "(\n        x + 1\n    )", []),
    ],
)
def test_only_edits_of_code_that_is_used_count(project, name, old, new, parts):
    assert changed(project, name, old, new) == parts


def test_an_age_names_the_parts_that_differ(tmp_path):
    experiment = ROOT / "benchmarks" / "experiments" / "simplex.py"
    code = measured_code(experiment)
    results = tmp_path / "results.json"

    def age(stored):
        results.write_text(json.dumps({"measured": "2026-01-02", "code": stored}))
        return Age.from_files(experiment, results)

    assert age(code) == Age("2026-01-02", "nothing")
    assert age(code | {"mechanisms": "0"}) == Age("2026-01-02", "mechanisms")
    without = {part: value for part, value in code.items() if part != "numerics"}
    assert age(without | {"removed": "0"}) == Age("2026-01-02", "numerics")
    assert age({}) == Age("2026-01-02", "everything it uses")
    assert str(age({})) == "Measured on 2026-01-02; changed in skdirdp since: everything it uses."


def test_experiments_of_equal_age_share_a_row():
    old, new = Age("2026-01-02", "noise"), Age("2026-01-03", "nothing")
    assert table({"a": new, "b": old, "c": new}).splitlines()[2:] == [
        "| 2026-01-02 | noise | `b` |",
        "| 2026-01-03 | nothing | `a`, `c` |",
    ]


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if (RESULTS / f"{name}.csv").exists()]
)
def test_stored_results_have_a_date_and_the_code_that_was_measured(name):
    stored = json.loads((RESULTS / f"{name}.json").read_text())
    assert stored["measured"] >= "2026-11-16"
    assert stored["code"]
    assert all(re.fullmatch("[0-9a-f]{12}", part) for part in stored["code"].values())


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_state_when_their_figure_was_measured(page):
    day = json.loads((RESULTS / "table-classifier.json").read_text())["measured"]
    assert f"measured on {day}" in (ROOT / page).read_text()
