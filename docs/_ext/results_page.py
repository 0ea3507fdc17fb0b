"""Insert the benchmark report into the page of all results, if it exists."""

import re
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MARK = "<!-- results -->"
_TARGET = re.compile(r"(!?\[[^\]]*\])\(([^)#:\s]+)([^)]*)\)")
_TITLE = re.compile(r"\A\s*(<!--[^>]*-->\s*)?# .*\n")


def _relative_link(match: re.Match) -> str:
    """Return a link of the benchmark report, relative to the page of all results."""
    label, target, rest = match.groups()
    if target.startswith("../docs/"):
        return f"{label}({target.removeprefix('../docs/')}{rest})"
    if (BENCHMARKS / target).exists():
        return f"{label}(../benchmarks/{target}{rest})"
    return "" if label.startswith("!") else label  # omits missing figures


def insert_results(app, docname, source):
    report = BENCHMARKS / "RESULTS.md"
    if docname == "all_results" and report.exists():
        text = _TITLE.sub("", report.read_text(encoding="utf-8"))
        source[0] = source[0].split(MARK)[0] + _TARGET.sub(_relative_link, text)


def setup(app):
    app.connect("source-read", insert_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
