"""One HTML file that needs nothing else: style, plots and tables are inside."""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import Any

from .markup import Markup, tag
from .places import check_output

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2430; --soft: #5b6675;
  --line: #d9dee5; --tint: #f4f6f9; --accent: #1f6feb; --fill: #1f6feb22; --warn: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e4e8ee; --soft: #9aa5b4;
  --line: #333c48; --tint: #1c222b; --accent: #6cb0ff; --fill: #6cb0ff26; --warn: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; }
p { margin: .5rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.small { font-size: .875rem; }
.warn { color: var(--warn); font-weight: 600; }
blockquote { margin: 0; padding: .9rem 1.1rem; background: var(--tint); border-radius: .4rem;
  border-left: .25rem solid var(--accent); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem;
  margin: 1.4rem 0 0; }
dl div { border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .8rem; }
dd { margin: .1rem 0 0; font-size: 1.05rem; font-weight: 600; overflow-wrap: anywhere; }
figure { margin: 0; }
figcaption { color: var(--soft); font-size: .875rem; margin-top: .3rem; }
.plot { width: 100%; height: auto; display: block; }
.plot text { fill: var(--soft); font-size: 12px; font-family: inherit; }
.plot .name, .plot .note { fill: var(--ink); font-size: 13px; }
.plot .grid { stroke: var(--line); }
.plot .axis { stroke: var(--soft); }
.plot .curve { fill: none; stroke: var(--accent); stroke-width: 2; }
.plot .area { fill: var(--fill); stroke: none; }
.plot .limit { stroke: var(--warn); stroke-dasharray: 6 4; stroke-width: 1.5; }
.plot .mark { fill: var(--warn); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; }
td.label { overflow-wrap: anywhere; min-width: 8rem; }
.date { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
li { margin: .3rem 0; max-width: 46rem; }
@media print { :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #444444;
    --line: #bbbbbb; --tint: #f4f4f4; --accent: #1450a8; --fill: #1450a822; --warn: #a01010; }
  @page { size: A4; margin: 16mm; }
  body { padding: 0; max-width: none; font-size: 10.5pt; }
  h2 { break-after: avoid; } figure, blockquote, dl div, tr, li { break-inside: avoid; }
  thead { display: table-header-group; } .scroll { overflow: visible; } }
"""

#: What no statement of differential privacy covers: docs/statement.md.
_NEVER_COVERED = (
    "What can be learnt about everybody. If smokers fall ill more often, a private model says "
    "so, and a reader then knows it of every smoker.",
    "Groups. The factor is for one unit of protection; for k of them that share a secret it "
    "grows, to about its k-th power.",
    "What was declared public: the number of records under replacement, classes, categories, "
    "bounds, the structure of a network, a vocabulary.",
    "Steps outside: how records were collected, cleaned, selected and joined; scores on exact "
    "held-out records, and parameters chosen by looking at them.",
    "The source: raw data, memory, backups and logs need their own protection.",
    "How long a computation takes, and how much memory it needs.",
    "A legal conclusion. Whether a publication is anonymous in the sense of a law is for a "
    "lawyer to judge.",
)


def page(title: str, subtitle: str, body: Iterable[Any]) -> str:
    """A whole page around its sections."""
    head = (
        tag("meta", charset="utf-8"),
        # Nothing is loaded and nothing runs, whatever a label may contain.
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(_STYLE)),
    )
    top = tag("header", tag("h1", title), tag("p", subtitle, class_="soft"))
    content = tag("html", tag("head", *head), tag("body", top, *body), lang="en")
    return f"<!doctype html>\n{content}\n"


def section(title: str, *children: Any) -> Markup:
    """A heading with what belongs to it."""
    return tag("section", tag("h2", title), *children)


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Short answers, each in its box."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def figure(plot: Markup, caption: str) -> Markup:
    """A plot and what it shows."""
    return tag("figure", plot, tag("figcaption", caption))


def wide(table: Markup) -> Markup:
    """A table that may be wider than the page on a small screen."""
    return tag("div", table, class_="scroll")


def statement(sentence: str) -> Markup:
    """The section with the sentence to state the guarantee."""
    # A line must not break within "ε = 1".
    return section("The statement", tag("blockquote", sentence.replace(" = ", "\u00a0=\u00a0")))


def not_covered(also: Sequence[str] = ()) -> Markup:
    """The section on what the statement does not promise."""
    items = [tag("li", tag("span", item, class_="warn")) for item in also]
    items += [tag("li", item) for item in _NEVER_COVERED]
    return section("What is not covered", tag("ul", *items))


def made_by() -> str:
    """When, and by which version."""
    package = sys.modules[__name__.partition(".")[0]]  # which stands above, and is not imported
    now = datetime.now(timezone.utc)
    return f"Made on {now:%Y-%m-%d at %H:%M} UTC by skdirdp {package.__version__}"


def write(
    path: "str | PathLike[str]", text: str, inputs: "Iterable[str | PathLike[str]]" = ()
) -> str:
    """Write a file whole or not at all, and give its path.

    A reader that has the older file open keeps it, and a full disk leaves it unchanged. A
    ledger, and the inputs that the text was made from, are never replaced.
    """
    check_output(path, inputs)
    target = Path(os.path.realpath(os.fspath(path)))
    if target.exists() and not target.is_file():  # a pipe, a terminal
        target.write_text(text, encoding="utf-8")
        return str(target)
    handle, draft = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".new"
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return str(target)
