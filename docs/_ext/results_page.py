"""Insert the benchmark report, and print the age of the results below each figure and table."""

import re
from importlib.util import find_spec
from pathlib import Path

from benchmarks.ages import Age, table
from benchmarks.experiments import EXPERIMENTS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MARK = "<!-- results -->"
_TARGET = re.compile(r"(!?\[[^\]]*\])\(([^)#:\s]+)([^)]*)\)")
_TITLE = re.compile(r"\A\s*(<!--[^>]*-->\s*)?# .*\n")
_RESULT = re.compile(
    r"^((?:!\[[^\]]*\]\(|```\{include\} )\S*benchmarks/results/([\w-]+)\.\w+"
    r"(?:\)|\n(?:.*\n)*?```)\n)(\nMeasured on .*\n)?",
    re.MULTILINE,
)
_AGES = re.compile(r"^\| measured \|.*\n(\|.*\n)+", re.MULTILINE)
_SUMMARY = "table-classifier"  # the experiment that the summary shows


def _relative_link(match: re.Match) -> str:
    """Return a link of the benchmark report, relative to the page of all results."""
    label, target, rest = match.groups()
    if target.startswith("../docs/"):
        return f"{label}({target.removeprefix('../docs/')}{rest})"
    if (BENCHMARKS / target).exists():
        return f"{label}(../benchmarks/{target}{rest})"
    return "" if label.startswith("!") else label  # omits missing figures


def _age(name: str) -> Age:
    module = find_spec(f"benchmarks.experiments.{EXPERIMENTS[name][0]}")
    return Age.from_files(Path(module.origin), BENCHMARKS / "results" / f"{name}.json")


def _with_age(match: re.Match) -> str:
    return f"{match[1]}\n{_age(match[2].replace('summary', _SUMMARY))}\n"


def _all_ages(match: re.Match) -> str:
    return table({name: _age(name) for name in EXPERIMENTS if f"`{name}`" in match[0]})


def insert_results(app, docname, source):
    report = BENCHMARKS / "RESULTS.md"
    if docname == "all_results" and report.exists():
        text = _TITLE.sub("", report.read_text(encoding="utf-8"))
        source[0] = source[0].split(MARK)[0] + _TARGET.sub(_relative_link, text)
        # The code may have changed since the report was written.
        source[0] = _AGES.sub(_all_ages, source[0])
    source[0], n_results = _RESULT.subn(_with_age, source[0])
    if n_results:
        app.env.note_reread()  # the code may change before the next build


def setup(app):
    app.connect("source-read", insert_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
