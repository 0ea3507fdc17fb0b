"""Names in the documentation exist, and its code runs."""

import ast
import contextlib
import importlib
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB

from benchmarks.methods import by_method
from skdirdp import (
    BudgetExceededError,
    DirichletCategoricalNB,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdirdp.accounting import ApproximateDP, Composition
from skdirdp.base import Budget
from skdirdp.command import main
from skdirdp.mechanisms import calibrate
from skdirdp.mechanisms.tables import CountTable
from skdirdp.model_selection.planning import choose_route
from skdirdp.reporting.statements import ADAPTIVE_LIMIT, percent_up
from skdirdp.utility import epsilon_for

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# Modules whose names are public.
MODULES = ("", ".mechanisms", ".accounting", ".utility", ".displays", ".pipeline", ".posterior")
MODULES += (".exceptions", ".audit", ".model_selection", ".postprocessing")
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
    "audit",
    "which_epsilon",
    "federated",
    "classifier",
    "inference",
    "text",
)

# Number of outputs that a page states.
STATED_OUTPUTS = {
    "index": 1,
    "quickstart": 2,
    "choosing": 3,
    "budgets": 5,
    "public": 1,
    "workflows": 1,
    "accountant": 5,
    "steward": 2,
    "audit": 1,
    "crosstab": 1,
    "text": 1,
    "which_epsilon": 13,
}


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


def test_return_types_of_public_methods_are_on_the_api_page():
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
def test_no_section_is_duplicated(page):
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


# Comments behind statements that state an output: `# 2.57: ...`, `# (): ...`, `# one person, ...`.
STATED = re.compile(r"  # ((?:[\d\[('\"]|one person,|no violation was).*?)(?=: (?!\.)|; |$)")


def statements(page):
    """Statements of the Python blocks of a page, each with the output that the page states."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks
    for (kind, block), (following, output) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            lines = block.splitlines()
            nodes = ast.parse(block).body
            for node in nodes:
                comment = STATED.search(lines[node.end_lineno - 1])
                shown = comment[1] if comment and not isinstance(node, ast.Assert) else None
                if node is nodes[-1] and following == "text":
                    shown = output
                yield node, shown


def outcome(node, page, names, capsys) -> list:
    """Run a statement; what it prints, or its value."""
    capsys.readouterr()
    if isinstance(node, ast.Expr):
        value = eval(compile(ast.Expression(node.value), page, "eval"), names)
    else:
        exec(compile(ast.Module([node], []), page, "exec"), names)
        value = names.get(ast.unparse(node.targets)) if isinstance(node, ast.Assign) else None
    return capsys.readouterr().out.strip() if value is None else value


def agrees(value, shown: str) -> bool:
    if number := re.fullmatch(r"\d+(?:\.(\d+))?", shown):
        decimals = len(number[1] or "")
        return f"{float(value):.{decimals}f}" == shown
    text = value if isinstance(value, str) and not shown.startswith("'") else repr(value)
    pattern = re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, " ".join(text.split())) is not None


@pytest.mark.parametrize("page", SELF_CONTAINED)
def test_the_code_of_a_page_runs_and_gives_the_output_that_the_page_states(
    page, tmp_path, monkeypatch, capsys
):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        for node, shown in statements(page):
            value = outcome(node, page, names, capsys)
            if shown is not None:
                assert agrees(value, shown), (ast.unparse(node), value, shown)
                checked += 1
    assert checked == STATED_OUTPUTS.get(page, 0)


def test_a_table_with_a_schema_needs_few_lines_or_commands_one_budget_and_no_warning(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "schema.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    table, draft, schema, fit, commands, constraints, bins = blocks
    assert sum(bool(line) for line in (draft + fit).splitlines()) <= 15
    names: dict = {}

    def run(block):
        exec(compile(block, "schema.md", "exec"), names)
        return capsys.readouterr().out

    def fill_in_the_draft():
        draft = Path("visits.toml").read_text(encoding="utf-8")
        assert re.findall(r'^"(\w+)" = {}$', draft, re.MULTILINE) == list(names["table"])
        Path("visits.toml").write_text(schema, encoding="utf-8")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(table)
        run(draft)
        fill_in_the_draft()
        assert run(fit) == "one person, of whom up to 3 records are counted\n"
        run(constraints)
        assert names["dated"].constraints[0] == "start <= end"
        assert run(bins).startswith("[5 3 4 5]\n")
        charges = names["accountant"].history()
        assert [charge["epsilon"] for charge in charges] == pytest.approx([1.0, 1.0])
        assert names["accountant"].total() <= 2.0
        other = tmp_path / "other"
        other.mkdir()
        Path("visits.csv").rename(other / "visits.csv")
        monkeypatch.chdir(other)
        lines = [shlex.split(line, comments=True) for line in commands.splitlines()]
        assert len(lines) <= 4
        for number, (program, *words) in enumerate(lines):
            assert program == "skdirdp"
            if ">" in words:
                words = [*words[: words.index(">")], "-o", words[-1]]
            assert main(words) == 0
            output = capsys.readouterr()
            assert "Warning" not in output.out + output.err
            if number == 0:
                fill_in_the_draft()
    assert "ε = 2" in output.out
    header = Path("synthetic.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header.split(",") == list(names["table"])


def test_the_table_of_epsilons_has_the_rates_of_its_noise():
    text = (DOCS / "which_epsilon.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d.]+) \| ([\d.]+%) \| ([\d.]+%) \| ([\d.]+%) \|$", text, re.MULTILINE
    )
    assert len(rows) == 7
    for epsilon, *shown in rows:
        noise = calibrate("gaussian", epsilon=float(epsilon), delta=1e-5)
        rate, posterior = noise.true_positive_rate(0.01), noise.posterior(0.1)
        guess = percent_up(noise.advantage() / 2, 50)
        assert shown == [percent_up(rate), percent_up(posterior), guess]
    alone = {epsilon: ApproximateDP(epsilon, 1e-5) for epsilon in (1.0, 3.0)}
    assert f"allows {percent_up(alone[1.0].advantage() / 2, 50)} right guesses" in text
    assert f"allows {percent_up(alone[3.0].true_positive_rate(0.01))} detections" in text


def test_numbers_in_the_text_on_epsilon_hold_and_targets_are_rounded_to_the_safe_side():
    text = " ".join((DOCS / "which_epsilon.md").read_text(encoding="utf-8").split())
    relation = {"adjacency": "add_remove"}
    for shown, largest in (
        (2.02, epsilon_for(advantage=0.2)),
        (2.82, epsilon_for(true_positive_rate=0.05)),
        (1.018, health := epsilon_for(true_positive_rate=0.02, **relation)),
    ):
        assert f"# {shown}" in text
        assert largest - 0.01 < shown <= largest
    for shown, smallest in (
        (0.49, epsilon_for(interval_width=40)),
        (0.29, epsilon_for(accuracy=0.01, n_samples=5000, n_categories=20)),
        (2.24, epsilon_for(interval_width=20, releases=8, **relation)),
    ):
        assert f"# {shown}" in text
        assert smallest <= shown < smallest + 0.01

    def width(releases):
        noise = calibrate("gaussian", epsilon=health, delta=1e-5, releases=releases, **relation)
        return 2 * norm.isf(0.025) * noise.sigma

    assert "±7 patients" in text
    assert round(width(1) / 2) == 7
    assert "the intervals become about twice as wide, or it publishes two tables" in text
    assert width(8) / 20 == pytest.approx(2, rel=0.05)
    assert width(2) == pytest.approx(20, rel=0.05)
    assert "the best attack detects a third of the records" in text
    assert calibrate("gaussian", epsilon=10.0).true_positive_rate(0.01) > 1 / 3


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


def test_the_gain_of_exact_calibration_is_that_of_the_results():
    models = pd.read_csv(ROOT / "benchmarks" / "results" / "naive-bayes.csv")
    divergences = by_method(models, "expected_kl").xs("DP", level="guarantee")
    ratios = divergences.div(divergences["Dirichlet, Algorithm 1"], axis=0)
    means = ratios.groupby("epsilon").mean().loc[1.0]
    text = (DOCS / "choosing.md").read_text(encoding="utf-8")
    exact, auto, estimated = re.search(
        r"falls to (\d+)% of .*?to (\d+)%.*?and to (\d+)% in both", text, flags=re.DOTALL
    ).groups()
    assert f"{100 * means['Dirichlet, exact']:.0f}" == exact
    assert f"{100 * means['auto']:.0f}" == auto
    assert f"{100 * means['Dirichlet, post-processed']:.0f}" == estimated
    assert f"{100 * means['auto, post-processed']:.0f}" == estimated


def test_the_accuracies_and_rates_of_the_quickstart_are_those_of_its_models():
    text = " ".join((DOCS / "quickstart.md").read_text(encoding="utf-8").split())
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    plain = MultinomialNB().fit(X_train, y_train).score(X_test, y_test)
    assert f"| `MultinomialNB`, not private | {plain:.3f} |" in text
    rows = re.findall(r"\| `DirichletNB\(([^`]*)\)` \| ([\d.]+) ± ([\d.]+) \|", text)
    assert len(rows) == 4
    n_fits = 30
    for arguments, mean, deviation in rows:
        options = {"delta": 1e-5, "classes": range(10), "max_count": 16, "max_total": 400}
        model = DirichletNB(**eval(f"dict({arguments})"), **options)
        scores = [model.fit(X_train, y_train).score(X_test, y_test) for _ in range(n_fits)]
        assert np.mean(scores) == pytest.approx(float(mean), abs=5 * float(deviation) / n_fits**0.5)
        assert 0.5 < np.std(scores) / float(deviation) < 1.7
    public = {"classes": range(10), "max_count": 16, "max_total": 400}
    for epsilon in (1.0, 3.0):
        privacy = DirichletNB(epsilon=epsilon, **public).fit(X_train, y_train).privacy_
        assert f"{percent_up(privacy.true_positive_rate(0.01))} at ε = {epsilon:.0f}" in text
    plan = PrivacyAccountant(epsilon=3.0, delta=1e-5, adaptive=False)
    limit = PrivacyAccountant(epsilon=3.0, delta=1e-5)
    for accountant in (plan, limit):
        fits = 0
        with contextlib.suppress(BudgetExceededError):
            while True:
                DirichletNB(epsilon=1.0, **public, accountant=accountant).fit(X_train, y_train)
                fits += 1
        assert fits == 7
    assert f"their exact composition costs {plan.total():.2f}" in text


def rounded_up(value, digits):
    step = 10.0 ** (np.floor(np.log10(value)) + 1 - digits)
    return np.ceil(value / step - 1e-9) * step


def test_the_table_of_calibrations_shows_their_noise():
    text = (DOCS / "choosing.md").read_text(encoding="utf-8")
    sizes = {"n_samples": 34_189, "n_rows": 2, "n_categories": 10}
    rows = re.findall(r'^\| `(\w+=)?"(\w+)"` \|(.*)\|$', text, re.MULTILINE)
    assert [name for _, name, _ in rows] == ["algorithm1", "tcdp", "exact", "gaussian"]
    for parameter, name, cells in rows:
        choice = {"mechanism": name} if parameter else {"calibration": name}
        noise = calibrate(**choice, epsilon=1.0, delta=1e-5, releases=14, **sizes)
        *parameters, epsilon, divergence = cells.split("|")
        exact = Composition([(noise, 14)]).epsilon(1e-5)
        assert float(epsilon) == pytest.approx(rounded_up(exact, 3))
        assert float(divergence) == pytest.approx(
            noise.expected_divergence(CountTable(**sizes)), abs=6e-5
        )
        if not parameter:
            assert [f"{noise.r:.3g}", f"{noise.alpha:.3g}"] == [cell.strip() for cell in parameters]


def test_the_numbers_of_the_page_on_budgets_are_rounded_to_the_safe_side():
    text = " ".join((DOCS / "budgets.md").read_text(encoding="utf-8").split())
    noise = calibrate(epsilon=1.0, releases=14, n_samples=34_189, n_rows=2, n_categories=10)
    fit = Composition([(noise, 14)])
    assert f"δ = {rounded_up(fit.delta(0.5), 1):.1g} at ε = 0.5" in text
    assert f"δ = {rounded_up(fit.delta(2.0), 1):.0e} at ε = 2." in text
    assert f"which is {percent_up(ApproximateDP(1.0, 1e-5).true_positive_rate(0.01))} at" in text
    assert "usually allows less, about 1.98%:" in text
    assert 0.0195 < fit.true_positive_rate(0.01) <= 0.0198


def test_the_budgets_of_runs_of_a_search_are_those_of_its_plan():
    text = " ".join((DOCS / "model_selection.md").read_text(encoding="utf-8").split())
    budget = Budget(epsilon=1.0, delta=1e-5, order=None, adjacency="replace")

    def run(route, n_candidates, refit=False):
        plan = choose_route(route, n_candidates, 10, budget, refit)
        return f"{np.exp(plan.log_epsilon):.2f}"

    assert run("repetition", 2) == run("repetition", 50)
    assert f"({run('repetition', 2)}, 1e-5) for any number of candidates" in text
    two, four, ten = (run("composition", n) for n in (2, 4, 10))
    assert f"({two}, 1e-5) for 2 candidates, {four} for 4, {ten} for 10" in text
    assert f"is {run('repetition', 2, True)} instead of {run('repetition', 2)} for" in text
    two, four, ten = (run("composition", n, True) for n in (2, 4, 10))
    assert f"and {two}, {four} and {ten} for composition" in text
