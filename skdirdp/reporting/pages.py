"""HTML pages about guarantees: one file without references to others."""

import html
import math
import os
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from ..accounting import Composition
from ..accounting.attacks import AttackBounds
from ..accounting.composition import PrivacyCurves
from .redact import check_output, is_special_path
from .statements import (
    EXAMPLE_DELTA,
    EXAMPLE_RATE,
    Claim,
    exceptions_to,
    number,
    percent_up,
    rounded_up,
    visible,
)

#: Not covered by any statement of differential privacy: docs/statement.md.
_NEVER_COVERED = (
    "What can be learnt about everybody. If smokers fall ill more often, a published model may "
    "show it, and a reader then knows this about every smoker, in the data or not.",
    "Groups. The numbers on this page are for {protected}. A secret that several people share, "
    "such as a family, is less protected the more people share it.",
    "What was declared public: names of columns, categories, classes, limits of values, the "
    "structure of a network, a vocabulary. {public_number}",
    "Steps before and after: how records were collected, cleaned, selected and joined; exact "
    "scores of a model on private records, and settings chosen by looking at them.",
    "The source: the data themselves, copies, backups and logs need their own protection.",
    "How long a computation takes, and how much memory it needs.",
    "A legal conclusion. Whether a publication is anonymous under a law is for a lawyer to judge.",
)
_QUALITY_TEXT = (
    "An error is the share of records that would have to change to turn one distribution into the "
    "other (the total variation distance). Expected errors are those of the noise alone, before "
    "post-processing, which usually reduces them; no records are needed for them. Measured errors "
    "are distances from the records, with noise of the given standard deviation; they include what "
    "the network does not represent, and may be negative by chance. If there is a target, its own "
    "model draws it, whose errors are not included."
)
_NO_TABLE_TEXT = (
    "A dash: no released table has all these columns, so the network assumes independence given "
    "others, and the error is not known from the noise."
)
_MOST_ERRORS = 20  # margins of several columns on the page
# Browsers take seconds to display a page with more figures.
_MOST_TABLES = 40
#: False-positive rates and prior probabilities of the tables about attacks.
_RATES, _PRIORS = (0.001, EXAMPLE_RATE, 0.05, 0.1), (0.01, 0.1, 0.5)
_CLASSES = {"time": "date", "first": "date", "last": "date", "label": "label"}

Mechanisms = Sequence[tuple[PrivacyCurves, int]]


class Markup(str):
    """A string of HTML; any other string is escaped."""

    __slots__ = ()


def tag(element: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element; escape every child and every value that is not `Markup`."""
    # ``class_`` is the attribute class, and underscores in names become hyphens.
    named = {key.rstrip("_").replace("_", "-"): each for key, each in attributes.items()}
    given = "".join(f' {key}="{_escaped(v)}"' for key, v in named.items() if v is not None)
    content = f">{''.join(map(_escaped, children))}</{element}>"
    return Markup(f"<{element}{given}{'/>' if element in ('meta', 'br') else content}")


def _escaped(value: Any) -> str:
    return value if isinstance(value, Markup) else html.escape(visible(value))


def table(columns: Iterable[str], rows: Iterable[Any], numbers: Container[str] = ()) -> Markup:
    """Return a table; the columns in `numbers` are aligned to the right."""
    columns = list(columns)
    classes = [
        "number" if name in numbers else _CLASSES.get(name.partition(" ")[0]) for name in columns
    ]

    def line(element: str, cells: Iterable[Any], **attributes: Any) -> Markup:
        pairs = zip(cells, classes, strict=True)
        return tag("tr", *(tag(element, cell, class_=kind, **attributes) for cell, kind in pairs))

    head = tag("thead", line("th", columns, scope="col"))
    return tag("table", head, tag("tbody", *(line("td", row) for row in rows)))


def page(title: str, body: Iterable[Any]) -> str:
    """Return a page with a title, its time and version, and a body."""
    package = sys.modules[__name__.partition(".")[0]]  # importing it would import upwards
    now = datetime.now(timezone.utc)
    made_by = f"Made on {now:%Y-%m-%d at %H:%M} UTC by skdirdp {package.__version__}"
    # Nothing is loaded and no script runs, whatever a label contains.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(files(__package__).joinpath("page.css").read_text(encoding="utf-8"))),
    )
    top = tag("header", tag("h1", title), tag("p", made_by, class_="soft"))
    content = tag("html", tag("head", *head), tag("body", top, *body), lang="en")
    return f"<!doctype html>\n{content}\n"


def section(title: str, *children: Any) -> Markup:
    return tag("section", tag("h2", title), *children)


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Return boxes with a name and a value each."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def wide(table: Markup) -> Markup:
    """Return a table that scrolls if it is wider than the screen."""
    return tag("div", table, class_="scroll")


def statement(sentence: str) -> Markup:
    # A line must not break within "ε = 1".
    quote = tag("blockquote", sentence.replace(" = ", "\u00a0=\u00a0"))
    return section("The exact statement", quote)


def not_covered(claim: Claim, also: Sequence[str] = ()) -> Markup:
    """Return the section on what the statement of a claim does not cover."""
    items = [tag("li", tag("span", item, class_="warn")) for item in also]
    texts = {"protected": claim.protected, "public_number": claim.public_number}
    items += [tag("li", item.format(**texts).strip()) for item in _NEVER_COVERED]
    return section("What is not covered", tag("ul", *items))


def in_plain_words(
    claim: Claim, attacks: Any, leaks: Sequence[str] = (), what: str = "the model", note: str = ""
) -> Markup:
    """Return the section on what is protected, against whom and how strongly, and what is not."""
    # `note` is added to the answer to "How strongly?".
    title = "In plain words"
    if not claim.holds:
        return section(title, tag("p", f"Nothing is protected: {what} was made without noise."))
    answers = [
        ("What is protected?", claim.explanation),
        (
            "Against whom?",
            f"Against everybody who sees {what}, now and later, even if they know all other "
            "records, have other data, and have the fastest computers. Not against those who have "
            "the data themselves.",
        ),
        ("How strongly?", *_strength(claim, attacks, what), *([tag("p", note)] if note else [])),
        (
            "What is not protected?",
            *(tag("span", f"{sentence} ", class_="warn") for sentence in leaks),
            "Facts about people in general, such as that smokers fall ill more often. Secrets "
            "that several people share are less protected. Facts that were declared public. Other "
            "publications from the same data, which add to the risk; a ledger counts them "
            "together. The section “What is not covered” has more.",
        ),
    ]
    return section(
        title,
        *(tag("div", tag("h3", name), tag("div", *texts)) for name, *texts in answers),
        tag("h3", "Detections and false alarms"),
        _trade_off_figure(attacks),
    )


def _strength(claim: Claim, attacks: AttackBounds, what: str) -> list[Any]:
    guess, few = percent_up(attacks.advantage() / 2, 50), percent_up(EXAMPLE_RATE)
    found = percent_up(float(attacks.true_positive_rate(EXAMPLE_RATE)))
    start = (
        f"Imagine somebody who knows everything else, and wonders {claim.question}. Suppose that "
        f"both answers seem equally likely. Without {what}, a guess is right in 50% of cases. With "
        f"it, even the best guess is right in at most {guess} of cases."
    )
    alarm = (
        "Now suppose that they look for one of the two answers, for example that a person is ill, "
        "and raise an alarm only if it looks more likely than before. An alarm about somebody who "
        "is not ill is a false alarm, and an alarm about somebody who is ill is a detection. "
        f"Somebody who guesses without {what} and raises false alarms for {few} of those who are "
        f"not ill detects {few} of those who are. With it, at most {found} are detected. The first "
        "table has other rates. The second table is about alarms only, which are rare: how often "
        f"the answer is right if there is an alarm, at {few} false alarms. In all other cases the "
        "guess becomes less sure."
    )
    alarms = ["false alarms", "detections, at most"]
    rates = [(percent_up(x), percent_up(float(attacks.true_positive_rate(x)))) for x in _RATES]
    beliefs = ["sure before the alarm", "sure after it, at most"]
    posteriors = [(percent_up(x), percent_up(attacks.posterior(x))) for x in _PRIORS]
    tables = (table(alarms, rates, numbers=alarms), table(beliefs, posteriors, numbers=beliefs))
    return [tag("p", start), tag("p", alarm), tag("div", *map(wide, tables), class_="pair")]


def _trade_off_figure(attacks: AttackBounds) -> Markup:
    from ..displays.privacy import TradeOffDisplay

    display = TradeOffDisplay(*attacks.trade_off())
    caption = (
        "The most detections that are possible, for every rate of false alarms. On the diagonal, "
        "an alarm is no better than blind guessing."
    )
    points = zip(display.false_positive_rate[::20], display.true_positive_rate[::20], strict=True)
    rows = [tuple(map(percent_up, point)) for point in points]
    return _figure("attacks", display, caption, ["false alarms", "detections, at most"], rows)


def budget_bar(share: float, text: str) -> Markup:
    """Return a bar that shows the used share of a limit, for a notebook."""
    style = "height:.5em;background:currentColor;border-radius:.25em;opacity:.7"
    inner = tag("div", style=f"width:{math.ceil(1000 * min(share, 1.0)) / 10}%;{style}")
    outer = "max-width:24em;border:1px solid currentColor;border-radius:.25em;margin:.3em 0"
    return tag("div", inner, style=outer, title=text)


def profile_figure(
    curves: Sequence[Any], mark: Any, mark_name: str, caption: str, n_points: int = 80
) -> Markup:
    """Return a profile with a marked (epsilon, delta); raise a ValueError if there is none."""
    from ..displays.privacy import PrivacyProfileDisplay, evenly_spaced, profile_points

    epsilons, deltas = profile_points(curves, marks=[mark], n_points=n_points)
    display = PrivacyProfileDisplay(epsilons, deltas, mark, budget_name=mark_name)
    thinned = evenly_spaced(len(epsilons), 20)  # rows, if a table replaces the plot
    rows = [(rounded_up(epsilons[i]), rounded_up(deltas[i])) for i in thinned]
    return _figure("profile", display, caption, ["ε", "δ"], rows)


def ledger_figure(
    totals_after: Callable, n_charges: int, n_points: int, limit: Any, measure: str, caption: str
) -> Markup:
    """Return the totals after some of the charges, by `totals_after`, and their limit."""
    import numpy as np

    from ..displays.privacy import LedgerDisplay, evenly_spaced

    shown = evenly_spaced(n_charges, n_points)
    totals = np.array(totals_after((shown + 1).tolist()))
    display = LedgerDisplay(range(1, n_charges + 1), None, shown, totals, limit, measure)
    if len(shown) < n_charges:
        caption += f" {len(shown)} totals are shown; in between, the next one is an upper bound."
    rows = [(n + 1, rounded_up(total)) for n, total in zip(shown, totals, strict=True)]
    return _figure("ledger", display, caption, ["charges", measure], rows, color="C0")


def crosstab_page(report: Any, categories: Any, tables: Sequence[Any], population: bool) -> str:
    """Return the page of a release of tables."""
    # `tables` are tuples of columns, the name of the CSV file, a DataFrame with a row for each
    # cell, and the estimated shares. Intervals are for the population, or for the counted records.
    confidence = tables[0][3].confidence
    unit = "for the population that the records were drawn from: sampling and noise"
    if not population:
        unit = "for the counted records: noise alone"
    text = (
        f"Shares of all records with {confidence:.0%} intervals {unit}. Each interval holds by "
        f"itself with this probability; of {round(1 / (1 - confidence))} intervals, about one is "
        "expected to miss. Counts are estimated from all tables together: they are not negative, "
        "and tables agree on the columns that they share."
    )
    parts = [statement(report.statement()), section("How to read the tables", tag("p", text))]
    for number_, (columns, file, frame, estimates) in enumerate(tables):
        content: list[Any] = [tag("p", f"File: {file}", class_="small")]
        if number_ < _MOST_TABLES:
            content.append(_table_figure(f"table{number_}", columns, categories, estimates))
            names = [str(name) for name in frame.columns]
            rows = [[_plain(cell) for cell in row] for row in frame.itertuples(index=False)]
            listed = wide(table(names, rows, numbers=names[len(columns) :]))
            content.append(tag("details", tag("summary", "All cells"), listed))
        parts.append(section(" by ".join(map(str, reversed(columns))), *content))
    if len(tables) > _MOST_TABLES:
        note = f"The page shows {_MOST_TABLES} of {len(tables)} tables; all are in CSV files."
        parts.insert(2, tag("p", note, class_="soft"))
    parts.append(not_covered(report._claim(), exceptions_to(report.not_covered)))
    return page("Private tables", parts)


def quality_page(quality: Any) -> str:
    privacy, measured = quality.privacy, quality.measured_privacy
    found = [tag("li", tag("span", text, class_="warn")) for text in quality.warnings]
    warned = tag("ul", *found) if found else tag("p", "None.")
    summary, errors = quality.summary, quality.errors
    sources = ["expected"] if measured is None else ["expected", "measured", "noise"]
    answers = [("records", f"{quality.n_records:,.0f}")]
    if privacy is not None:
        answers.append(("ε of the release", number(privacy.epsilon)))
    if measured is not None:
        answers.append(("ε of the measured errors", number(measured.epsilon)))
    for name, kind in (("column", "columns"), ("table", "cliques")):
        answers.append((f"noise of a {name}'s counts, σ", f"{quality.sigma[kind]:,.1f}"))
    if quality.rejected:
        answers.append(("draws rejected by constraints", f"{quality.rejected:.1%}"))
    names = ["columns", "margins", "in a table", "expected", "largest"]
    if measured is not None:
        names += ["measured", "± noise"]
    lines = zip(summary.index, summary.to_numpy().tolist(), strict=True)
    rows = [(ways, *map(int, line[:2]), *map(_share, line[2:])) for ways, line in lines]
    single = errors[errors["ways"] == 1]
    several = errors[errors["ways"] > 1].sort_values(sources[:2][-1], ascending=False)
    means = wide(table(names, rows, numbers=names))
    largest = _errors_table(several.head(_MOST_ERRORS), sources)
    note = tag("p", _NO_TABLE_TEXT, class_="soft small")
    parts = [
        facts(answers),
        section("Warnings", warned),
        section("Errors by number of columns", tag("p", _QUALITY_TEXT), means),
        section("Columns", _errors_table(single, sources)),
        section("Largest errors of several columns", largest, note),
    ]
    if measured is not None:
        text = "The measured errors were released with noise, within a budget of their own."
        sentence = measured_statement(measured.statement())
        parts.append(section("Measured errors", tag("p", text), tag("p", sentence)))
    if privacy is not None:
        parts.insert(0, statement(privacy.statement()))
        parts.append(not_covered(privacy._claim(), exceptions_to(privacy.not_covered)))
    planned = "Planned quality" if privacy is None else "Quality"
    return page(f"{planned} of synthetic records", parts)


def measured_statement(sentence: str) -> str:
    """Return the statement of a model as that of measured errors."""
    return sentence.replace("The published results were", "The measured errors were", 1)


def _errors_table(errors: Any, sources: Sequence[str]) -> Markup:
    names = ["columns", "cells", *sources]
    shown = [f"± {name}" if name == "noise" else name for name in names]
    lines = errors[names].itertuples(index=False)
    rows = [(", ".join(map(str, first)), n, *map(_share, others)) for first, n, *others in lines]
    return wide(table(shown, rows, numbers=shown[1:]))


def _share(value: float) -> str:
    """Return an error with three decimals, and a dash if it is unknown."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def sheet_page(title: str, sections: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """Return a data sheet as a page: a part is a paragraph, a list, or a table as a tuple."""

    def element(part: Any) -> Markup:
        if isinstance(part, str):
            return tag("p", part)
        if isinstance(part, list):
            return tag("ul", *(tag("li", item) for item in part))
        columns, rows = part
        return wide(table(columns, rows))

    return page(title, [section(name, *map(element, parts)) for name, parts in sections])


def _table_figure(name: str, columns: tuple, categories: Any, estimates: Any) -> Any:
    """Return a heat map of a table of two columns, and intervals of a table of one."""
    from ..displays.base import to_svg
    from ..displays.tables import ForestDisplay, TableDisplay, category_text

    shares = (estimates.value, estimates.low, estimates.high)
    labels: list[list[Any]] = [list(map(category_text, categories[name])) for name in columns]
    display: Any = None
    if len(columns) == 1:
        display = ForestDisplay(*shares, labels[0], estimates.confidence, None, "share of records")
    elif len(columns) == 2:
        names, title = (columns[0], columns[1]), "share of records"
        display = TableDisplay(*shares, labels[0], labels[1], names, estimates.confidence, title)
    svg = None if display is None else to_svg(display, name)
    return "" if svg is None else _plot(svg, f"Shares of {' and '.join(map(str, columns))}")


def _plot(svg: str, text: str, *caption: Markup) -> Markup:
    image = tag("div", Markup(svg), class_="plot", role="img", aria_label=text)
    return tag("figure", image, *caption)


def _plain(cell: Any) -> Any:
    return f"{cell:g}" if isinstance(cell, float) else cell


def _figure(
    name: str, display: Any, caption: str, columns: list[str], rows: list[Any], **options: Any
) -> Markup:
    """Return a plot, or a table of its numbers if matplotlib is not installed."""
    from ..displays.base import to_svg

    svg, below = to_svg(display, name, **options), tag("figcaption", caption)
    if svg is None:
        return tag("figure", wide(table(columns, rows, numbers=columns)), below)
    return _plot(svg, caption, below)


def model_page(report: Any, claim: Claim, steps: Sequence[tuple[str, Mechanisms]]) -> str:
    """Return the page on a `PrivacyReport`: its guarantee, mechanisms, and what is not covered."""
    mechanisms, leaks = report.mechanisms, exceptions_to(report.not_covered)
    answers = [("budget, ε", number(claim.epsilon))]
    if claim.order is not None:
        answers.append(("Rényi order, λ", number(claim.order)))
    elif claim.delta is not None:
        answers.append(("δ", number(claim.delta)))
    released = str(sum(count for _, count in mechanisms))
    answers += [("protected change", claim.against), ("tables released", released)]
    mark = (claim.epsilon, claim.delta) if claim.delta is not None and claim.holds else None
    caption = "For each ε, a δ that holds with it: smaller is more private."
    profile = tag("p", "There is no profile: nothing was released, or something without noise.")
    with suppress(ValueError):
        profile = profile_figure([Composition(mechanisms)], mark, "budget", caption)
    body = [
        in_plain_words(claim, report, leaks),
        not_covered(claim, leaks),
        statement(report.statement()),
        facts(answers),
        section("What was released", *_releases(claim, mechanisms, steps)),
        section("The privacy profile", profile),
    ]
    return page("Privacy of a model", body)


def _releases(
    claim: Claim, mechanisms: Mechanisms, steps: Sequence[tuple[str, Mechanisms]]
) -> list[Markup]:
    """Return the table of mechanisms, by step of a pipeline."""
    if not mechanisms:
        return [tag("p", "Nothing was released.")]
    terms = f"at δ = {number(claim.delta or EXAMPLE_DELTA)}"
    if claim.order is not None:
        terms = f"at order {number(claim.order)}"
    columns = ["step", "mechanism", "releases", f"ε alone, {terms}"]

    def epsilon(*release: Any) -> float:
        composed = Composition([release])
        if claim.order is not None:
            return float(composed.rdp(claim.order))
        # Only a positive delta has a finite epsilon for every mechanism.
        return composed.epsilon(claim.delta or EXAMPLE_DELTA)

    rows: list[Sequence[Any]] = [
        (name, str(each), count, rounded_up(epsilon(each, count)))
        for name, several in steps or [("", mechanisms)]
        for each, count in several
    ]
    if not steps:
        columns, rows = columns[1:], [row[1:] for row in rows]
    note = "The ε of the whole is computed exactly. It is less than the sum of several parts."
    return [wide(table(columns, rows, numbers=columns[-2:])), tag("p", note, class_="soft small")]


def model_card(claim: Claim, mechanisms: Mechanisms, leaks: Sequence[str]) -> Markup:
    """Return a summary of the guarantee for a notebook."""
    guarantee = "no privacy: ε is infinite"
    if claim.holds:
        guarantee = f"{claim.kind} with respect to {claim.against}"
    warnings = [tag("div", sentence, style="color:#d9534f") for sentence in exceptions_to(leaks)]
    released = tag("div", "nothing was released")
    if mechanisms:
        released = table(["mechanism", "releases"], mechanisms)
    return tag("div", tag("div", tag("strong", guarantee)), *warnings, released)


def write(path: "str | PathLike[str]", text: str, inputs: Iterable[Any] = ()) -> str:
    """Write a file atomically, and return its path."""
    # A full disk leaves an existing file unchanged. A ledger, and the inputs of the text, are never
    # replaced.
    check_output(path, inputs)
    if is_special_path(path):
        Path(path).write_text(text, encoding="utf-8")
        return str(path)
    target = Path(os.path.realpath(os.fspath(path)))
    prefix = f".{target.name[:40]}."
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        check_output(path, inputs)  # again: a ledger may have been created meanwhile
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return str(target)
