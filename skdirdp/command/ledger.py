"""``skdirdp ledger``: create, show, verify, export, state, report and merge ledgers."""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._messages import plural
from ..accountant import LedgerError, PrivacyAccountant, reports
from ..accountant.codec import FORMATS, STORED_PARAMETERS
from ..accountant.ledger import open_storage, parse_anchor
from ..accountant.schema import declared_unit
from ..reporting.pages import write
from ..reporting.redact import is_url, without_password
from ..reporting.statements import ADAPTIVE_LIMIT, EXAMPLE_RATE, number, percent_up, rounded_up
from . import terminal
from .terminal import EXIT_DAMAGED, EXIT_ERROR, EXIT_OK, EXIT_USAGE, Column, CommandError

_LEDGER_HELP = (
    "the file of the ledger, or the URL of a database: "
    "postgresql+psycopg://user@host/database (the password may come from $PGPASSWORD)"
)
_ROWS = 20
_COLUMNS = (
    Column("number", 0, 9, align_right=True),
    Column("time (UTC)", 0, 8),
    Column("by", 4, 3),
    Column("label", 8, 7),
    Column("part", 6, 2),
    Column("mechanism", 10, 4),
    Column("releases", 0, 1, align_right=True),
    Column("epsilon", 0, 6, align_right=True),
)


def add_to(commands: Any) -> None:
    about = "create, show, verify, export, report and merge ledgers"
    parser = add_command(commands, "ledger", about)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_create(actions)
    show = _add(actions, "show", _show, "show the limit, what is used of it, and the last charges")
    about = f"number of charges (default: {_ROWS})"
    show.add_argument("--last", type=whole_number, default=_ROWS, metavar="N", help=about)
    total = _add(actions, "total", _total, "compute the total of all charges")
    total.add_argument("--delta", type=real_number, help="delta (default: that of the ledger)")
    about = "check that no charge was changed or removed, and that the limit is kept"
    verify = _add(actions, "verify", _verify, about)
    about = "an earlier anchor, as printed by show, with which the ledger must begin"
    verify.add_argument("--expect", type=_anchor, metavar="COUNT:HASH", help=about)
    export = _add(actions, "export", _export, "export all charges as JSON, for merge, or as CSV")
    export.add_argument("--format", choices=("json", "csv"), help="default: that of FILE, or json")
    about = "print the guarantee of all charges together, in words"
    _add(actions, "statement", _statement, about)
    report = _add(actions, "report", _report, "write a page: one HTML file that loads nothing")
    for each in (export, report):
        add_output(each)
    merge = _add(actions, "merge", _merge, "add the charges of other ledgers of the same data")
    about = "a ledger, or a JSON export of one"
    merge.add_argument("other", nargs="+", metavar="OTHER", help=about)


def add_command(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")


def add_output(parser: argparse.ArgumentParser) -> None:
    about = "output; an existing file is replaced"
    parser.add_argument("--output", "-o", metavar="FILE", help=about)


def _add(actions: Any, name: str, run: Callable[[Any], int], about: str) -> argparse.ArgumentParser:
    parser = add_command(actions, name, about)
    parser.add_argument("ledger", metavar="LEDGER", help=_LEDGER_HELP)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    about_name = "name of the data set" if name == "create" else "name of the ledger in a database"
    parser.add_argument("--name", help=about_name)
    parser.set_defaults(run=run)
    return parser


def _add_create(actions: Any) -> None:
    parser = _add(actions, "create", _create, "create a ledger with its limit")
    parser.add_argument("--epsilon", type=real_number, help="the limit (default: no limit)")
    parser.add_argument("--delta", type=real_number, help="delta of the limit (default: 1e-5)")
    parser.add_argument("--order", type=real_number, help="the limit is in Renyi DP of this order")
    about = "the only adjacency that may be charged (default: that of the first charge)"
    parser.add_argument("--adjacency", choices=("replace", "add_remove"), help=about)
    parser.add_argument(
        "--unit",
        help="the protected unit: record (a single row), or a singular noun for a person who may "
        "have several rows, such as patient or household, used as given after 'one'; charges for "
        "single rows are then rejected (default: that of the first charge)",
    )
    plan = parser.add_mutually_exclusive_group()
    about = "budgets may be chosen after looking at earlier results: the limit holds even then"
    plan.add_argument("--adaptive", action="store_true", default=None, help=about)
    about = "all budgets are fixed before the first release: the same limit admits more"
    plan.add_argument("--fixed-plan", dest="adaptive", action="store_false", help=about)


def real_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}")
    return value


def whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number; got {text!r}")
    return int(text)


def _anchor(text: str) -> str:
    try:
        parse_anchor(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def open_ledger(place: str, name: str | None = None) -> PrivacyAccountant:
    """Open an existing ledger; opening never creates one."""
    if not is_url(place) and name is not None:
        raise CommandError("--name is for ledgers in a database; a file has only one", EXIT_USAGE)
    if not _exists(place, name):
        where = f"there is no ledger at {without_password(place)}"
        if is_url(place):
            where += f" called {name}" if name else " called default; choose another with --name"
        raise CommandError(f"{where}; create one with skdirdp ledger create", EXIT_DAMAGED)
    return PrivacyAccountant(path=place, name=name)


def _exists(place: str, name: str | None) -> bool:
    storage = open_storage(place, name)  # raises for names that look like an address
    return storage.find() is not None if is_url(place) else os.path.exists(place)


def _create(options: Any) -> int:
    if not is_url(options.ledger) and os.path.lexists(options.ledger):
        raise CommandError(f"{options.ledger} exists already; it is left unchanged")
    asked = ("epsilon", "delta", "order", "adaptive", "name", "adjacency", "unit")
    given = {name: getattr(options, name) for name in asked if getattr(options, name) is not None}
    if is_url(options.ledger) and _exists(options.ledger, options.name):
        raise CommandError("the database has a ledger of this name already; it is left unchanged")
    accountant = PrivacyAccountant(path=options.ledger, **given)
    place = without_password(str(accountant.path))
    return _print(options, _facts(accountant), [f"Created {place}", *_describe(accountant)])


def _facts(accountant: Any) -> dict[str, Any]:
    """Return the facts of a ledger that do not change, for JSON."""
    stored = {name: getattr(accountant, name) for name in STORED_PARAMETERS}
    limit = {name: stored.pop(name) for name in ("epsilon", "delta", "order")}
    path, identity = without_password(str(accountant.path)), accountant._ledger.identity
    return {"ledger": path, "identity": identity, "limit": limit, **stored}


def _describe(accountant: Any) -> list[str]:
    """Return the same facts as lines."""
    lines = [f"limit:      {reports.limit_text(accountant)}"]
    if accountant.name:
        lines.insert(0, f"data set:   {accountant.name}")
    if accountant.adjacency:
        lines.append(f"adjacency:  {accountant.adjacency}")
    if accountant.unit:
        lines.append(f"unit:       {declared_unit(accountant._ledger.header)}")
    return [*lines, f"budgets:    {reports.plan_text(accountant)}"]


def _spending(accountant: Any) -> dict[str, Any]:
    """Return what is used and left of the limit, for JSON."""
    used, limit = reports.used_epsilon(accountant), accountant.epsilon
    return {
        "charges": len(accountant),
        "used": used,
        "share_used": None if limit is None else used / limit,
        "remaining": math.inf if limit is None else max(limit - used, 0.0),
        "within_limit": reports.is_within_limit(accountant, used),
    }


def _describe_spending(accountant: Any, spending: dict[str, Any]) -> list[str]:
    """Return the same as lines."""
    lines = [f"charges:    {spending['charges']}"]
    lines += [f"{name + ':':<11} {text}" for name, text in reports.spending_texts(accountant)]
    if accountant._limit.is_share:
        lines.append(ADAPTIVE_LIMIT)
    if not spending["within_limit"]:
        lines.append("The limit is exceeded by merged charges; no further charge is admitted.")
    return lines


def _print(options: Any, result: dict[str, Any], lines: list[str]) -> int:
    if options.json:
        print(json.dumps(_plain(result), indent=1, allow_nan=False))
    else:
        print(terminal.wrap(lines, terminal.terminal_width()))
    return EXIT_OK


def _plain(value: Any) -> Any:
    """Convert a value for JSON; an infinite number becomes a string that ``float`` accepts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _show(options: Any) -> int:
    accountant = open_ledger(options.ledger, options.name)
    history = accountant.history()
    first = max(len(history) - options.last, 0)
    rows = list(enumerate(history[first:], first + 1))
    facts, lines, failure = _facts(accountant), _describe(accountant), None
    try:
        spending = _spending(accountant)
        facts |= spending
        lines += _describe_spending(accountant, spending)
    except LedgerError as error:  # its charges are shown, but have no total
        failure = error
    anchor, width = accountant.anchor(), terminal.terminal_width()
    facts |= {"anchor": anchor, "shown": [{"number": n, **row} for n, row in rows]}
    parts = (anchor[i : i + width] for i in range(0, len(anchor), width))
    lines.append(f"anchor:     {' '.join(parts)}")
    _print(options, facts, lines)
    if rows and not options.json:
        print("\n" + terminal.format_table(_COLUMNS, [_cells(n, row) for n, row in rows], width))
        if first:
            more = f"{first} earlier charges are not shown; --last {len(history)} shows all."
            print(terminal.wrap([more], width))
    if failure is not None:
        raise failure
    return EXIT_OK


def _cells(number: int, row: Any) -> list[object]:
    part = "" if row["split"] is None else f"{row['split']}: {row['part']}"
    who = (f"{row['time']:%Y-%m-%d %H:%M}", row["user"] or "", row["label"] or "", part)
    mechanism = f"{row['mechanism']}({row['parameters']})"
    return [number, *who, mechanism, row["releases"], rounded_up(row["epsilon"])]


def _total(options: Any) -> int:
    accountant = open_ledger(options.ledger, options.name)
    delta = accountant.delta if options.delta is None else options.delta
    total, charges = accountant.total(delta), len(accountant)
    result = {**_facts(accountant), "charges": charges, "total": total, "at_delta": delta}
    line = f"ε = {rounded_up(total)} at δ = {number(delta)}, of {plural(charges, 'charge')}"
    rate = float(accountant.true_positive_rate(EXAMPLE_RATE))
    advantage = accountant.advantage()
    result |= {"true_positive_rate": {f"{EXAMPLE_RATE}": rate}, "advantage": advantage}
    attacks = (
        f"attacks with {percent_up(EXAMPLE_RATE)} false alarms: at most {percent_up(rate)} "
        f"detections; guesses between two cases: at most {percent_up(advantage / 2, 50)} right"
    )
    return _print(options, result, [line, attacks])


def _verify(options: Any) -> int:
    accountant = open_ledger(options.ledger, options.name)
    entries = accountant.verify(expect=options.expect)
    spending = _spending(accountant)
    result = {**_facts(accountant), **spending, "intact": True, "anchor": accountant.anchor()}
    line = f"intact: {plural(entries, 'charge')}, none changed or missing"
    _print(options, result, [line, *_describe_spending(accountant, spending)[1:]])
    return EXIT_OK if spending["within_limit"] else EXIT_ERROR


def _export(options: Any) -> int:
    to_stdout = options.output in (None, "-")
    name = "ledger.json" if to_stdout else options.output
    kind = options.format or Path(name).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise CommandError("--format is needed if FILE ends in neither .json nor .csv", EXIT_USAGE)
    accountant = open_ledger(options.ledger, options.name)
    text = FORMATS[kind](accountant)
    if not to_stdout:
        path = write(options.output, text)
        return _print(options, {"file": path, "charges": len(accountant)}, [f"Wrote {path}"])
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):  # keeps the line ends of CSV
        sys.stdout.buffer.write(text.encode("utf-8"))
    else:
        sys.stdout.write(text)
    return EXIT_OK


def _report(options: Any) -> int:
    accountant = open_ledger(options.ledger, options.name)
    output = options.output
    if output is None:
        stem = "ledger" if is_url(options.ledger) else Path(options.ledger).stem
        output = f"{stem}.html"
        if os.path.exists(output):
            raise CommandError(f"{output} exists already; --output {output} replaces it")
    path = accountant.report(output)
    return _print(options, {"file": path, "charges": len(accountant)}, [f"Wrote {path}"])


def _statement(options: Any) -> int:
    text = open_ledger(options.ledger, options.name).statement()
    return _print(options, {"statement": text}, [text])


def _merge(options: Any) -> int:
    accountant = open_ledger(options.ledger, options.name)
    before = len(accountant)
    for place in options.other:
        is_export = place.lower().endswith(".json")
        accountant.merge(PrivacyAccountant.from_export(place) if is_export else open_ledger(place))
    spending = _spending(accountant)
    new = spending["charges"] - before
    lines = [f"{plural(new, 'charge')} new", *_describe_spending(accountant, spending)]
    _print(options, {**_facts(accountant), **spending, "new": new}, lines)
    return EXIT_OK if spending["within_limit"] else EXIT_ERROR
