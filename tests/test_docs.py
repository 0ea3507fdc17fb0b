"""The documentation names what exists, and its code runs."""

import ast
import importlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from skdirdp import DirichletCategoricalNB, PrivacyAccountant, PrivacyLeakWarning
from skdirdp.reporting.statements import ADAPTIVE_LIMIT

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# Modules whose names are public.
MODULES = ("", ".mechanisms", ".accounting", ".utility", ".displays", ".pipeline", ".posterior")
MODULES += (".exceptions", ".model_selection", ".postprocessing")
ALSO = ("PrivacyReport", "posterior.PosteriorPrivacy", "accountant.History")

# Pages whose Python blocks run from top to bottom, without anything from outside.
SELF_CONTAINED = ("index", "quickstart", "choosing", "budgets", "public", "workflows")
SELF_CONTAINED += (
    "posterior",
    "coming_from",
    "accountant",
    "steward",
    "histogram",
    "bayes_net",
    "scale",
    "synthesis",
    "crosstab",
    "model_selection",
    "postprocessing",
)


def listed_names() -> set[str]:
    """Every entry of the summaries and of the table on the page, with its module."""
    names, module = set(), ""
    for line in (DOCS / "api.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   ([A-Za-z][\w.]*)", line):
            names.add(f"{module}.{match[1]}")
        elif match := re.match(r"\| `(skdirdp[\w.]*)` \|", line):
            names.add(match[1])
    return names


def named(path: str):
    module, _, attribute = path.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_the_api_page(module):
    # Once: an estimator and what is raised are names of the package too, and listed as such.
    listed = {id(named(path)) for path in listed_names()}
    public = importlib.import_module(f"skdirdp{module}").__all__
    assert public
    assert [name for name in public if id(named(f"skdirdp{module}.{name}")) not in listed] == []


def test_what_estimators_and_accountants_return_is_on_the_api_page():
    assert {f"skdirdp.{name}" for name in ALSO} <= listed_names()


def test_every_name_on_the_api_page_exists():
    for name in listed_names():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_links_between_pages_lead_somewhere():
    pages = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_no_section_stands_twice(page):
    headings = re.findall(r"^##+ .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == len(set(headings))


def test_every_page_is_reached_from_the_index():
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            waiting += [entry for entry in entries if entry != "gallery/index"]
    assert reached == {page.stem for page in DOCS.glob("*.md")}


def test_every_example_is_in_the_order_of_the_gallery():
    settings = (DOCS / "_ext" / "gallery_settings.py").read_text(encoding="utf-8")
    shown = re.findall(r'"(plot_\w+\.py)"', settings)
    assert sorted(shown) == sorted(path.name for path in (DOCS / "examples").glob("*.py"))


@pytest.mark.parametrize("page", SELF_CONTAINED)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        for block in blocks:
            exec(compile(block, f"{page}.md", "exec"), names)


def numbers_after_code(text):
    """Statements that end in a comment with a number, `# 2.57: ...`, and that number."""
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            comment = re.search(r"  # (\d+(?:\.\d+)?)(?::| |$)", lines[node.end_lineno - 1])
            yield node, comment and comment[1]


@pytest.mark.parametrize("page", ["index", "accountant"])
def test_the_numbers_beside_the_code_of_a_page_are_those_that_it_gives(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    checked = 0
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for node, number in numbers_after_code(text):
        capsys.readouterr()
        if number is None or not isinstance(node, ast.Expr):
            exec(compile(ast.Module([node], []), page, "exec"), names)
            continue
        value = eval(compile(ast.Expression(node.value), page, "eval"), names)
        decimals = len(number.partition(".")[2])
        shown = f"{value:.{decimals}f}" if value is not None else capsys.readouterr().out.strip()
        assert shown == number, ast.unparse(node)
        checked += 1
    assert checked == {"index": 1, "accountant": 5}[page]


def test_an_adaptive_limit_is_explained_by_one_sentence_and_by_numbers_that_hold():
    text = (DOCS / "accountant.md").read_text(encoding="utf-8")
    assert ADAPTIVE_LIMIT in " ".join(text.split())
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (500, 3)), rng.integers(0, 2, 500)
    accountant = PrivacyAccountant(epsilon=3.0, delta=1e-5)
    model = DirichletCategoricalNB(
        epsilon=1.0, accountant=accountant, classes=[0, 1], n_categories=4
    ).fit(X, y)
    ((kind, releases),) = model.privacy_.mechanisms
    table = {
        "`total()`, the statement": f"{accountant.total():.1f}",
        "spent": re.search(r"[\d.]+%", repr(accountant))[0],
        "`remaining()`": f"{accountant.remaining():.2f}",
        '`history()[0]["epsilon"]`': f"{accountant.history()[0]['epsilon']:.1f}",
    }
    for name, number in table.items():
        assert f"| {name} | {number} |" in text
    # Seven such fits, one of which was made.
    assert accountant.affords(kind, releases=6 * releases)
    assert not accountant.affords(kind, releases=7 * releases)


def test_the_readme_shows_what_is_spent_of_its_limit():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)[1]
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    shown = re.search(r"print\(accountant\)  # (.*?):", block)[1]
    assert shown in repr(names["accountant"])
