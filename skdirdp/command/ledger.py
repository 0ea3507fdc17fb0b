"""``skdirdp ledger``: make, look at, check, export, report and merge ledgers."""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .outcome import DAMAGED, DONE, REFUSED, USAGE, Refused
from .tables import Column, table, terminal_width, wrapped

_LEDGER_HELP = (
    "the file of the ledger, or the address of a database: "
    "postgresql+psycopg://user@host/database (the password may come from $PGPASSWORD)"
)
_ROWS = 20
_COLUMNS = (
    Column("number", 0, 9, right=True),
    Column("time (UTC)", 0, 8),
    Column("by", 4, 3),
    Column("label", 8, 7),
    Column("part", 6, 2),
    Column("mechanism", 10, 4),
    Column("releases", 0, 1, right=True),
    Column("epsilon", 0, 6, right=True),
)


def add_to(commands: Any) -> None:
    """Describe the commands on ledgers."""
    about = "make, look at, check, export, report and merge ledgers"
    parser = commands.add_parser(
        "ledger", help=about, description=f"{about[0].upper()}{about[1:]}."
    )
    actions = parser.add_subparsers(title="what to do", metavar="ACTION", required=True)
    _add_create(actions)
    show = _add(actions, "show", _show, "the limit, what is used of it, and the last charges")
    show.add_argument(
        "--last",
        type=_whole,
        default=_ROWS,
        metavar="N",
        help=f"how many charges (default: {_ROWS})",
    )
    total = _add(actions, "total", _total, "what everything that was charged costs together")
    total.add_argument("--delta", type=_number, help="another delta than that of the ledger")
    verify = _add(
        actions, "verify", _verify, "whether a charge was changed or removed, and the limit kept"
    )
    verify.add_argument(
        "--expect",
        type=_anchor,
        metavar="COUNT:HASH",
        help="an earlier anchor, as show prints it, which the ledger has to begin with",
    )
    export = _add(actions, "export", _export, "all charges as JSON, which is read back, or as CSV")
    export.add_argument("--format", choices=("json", "csv"), help="that of FILE, or json")
    _add_output(export)
    report = _add(actions, "report", _report, "a page for people: one HTML file that loads nothing")
    _add_output(report)
    merge = _add(actions, "merge", _merge, "take over charges of other ledgers of the same data")
    merge.add_argument(
        "other", nargs="+", metavar="OTHER", help="a ledger, or a JSON export of one"
    )


def _add(actions: Any, name: str, run: Callable[[Any], int], about: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=about, description=_sentence(about))
    parser.add_argument("ledger", metavar="LEDGER", help=_LEDGER_HELP)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    if name != "create":
        parser.add_argument("--name", help="which ledger of a database")
    parser.set_defaults(run=run)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="where to write; an existing file is replaced"
    )


def _add_create(actions: Any) -> None:
    parser = _add(actions, "create", _create, "a new ledger, with its limit and what it is about")
    parser.add_argument("--name", help="what the data set is called")
    parser.add_argument("--epsilon", type=_number, help="the limit; without it nothing is refused")
    parser.add_argument("--delta", type=_number, help="the delta of the limit (default: 1e-5)")
    parser.add_argument("--order", type=_number, help="the limit is in Renyi DP of this order")
    parser.add_argument(
        "--adjacency",
        choices=("replace", "add_remove"),
        help="the only relation that may be charged (default: that of the first charge)",
    )
    parser.add_argument(
        "--unit",
        help="what is protected: record (a single row), or a name for persons who may have "
        "several rows, such as patient or household; charges for single rows are then refused "
        "(default: that of the first charge)",
    )
    plan = parser.add_mutually_exclusive_group()
    plan.add_argument(
        "--adaptive",
        action="store_true",
        default=None,
        help="budgets may be chosen by looking at earlier results: the limit holds even then",
    )
    plan.add_argument(
        "--fixed-plan",
        dest="adaptive",
        action="store_false",
        help="all budgets are fixed before the first release: the same limit admits more",
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number is needed; got {text!r}") from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"a number is needed; got {text!r}")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number is needed; got {text!r}")
    return int(text)


def _anchor(text: str) -> str:
    from ..accountant.ledger import parse_anchor

    try:
        parse_anchor(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


# Opening -----------------------------------------------------------------------------


def _open(options: Any) -> Any:
    return _existing(options.ledger, getattr(options, "name", None))


def _existing(place: str, name: str | None = None) -> Any:
    """The accountant of a ledger that is there; none is made by looking at it."""
    from ..accountant import PrivacyAccountant
    from ..reporting.places import is_url, without_password

    if not is_url(place) and name is not None:
        raise Refused("--name says which ledger of a database; a file has only one", USAGE)
    if not _is_there(place, name):
        where = f"there is no ledger at {without_password(place)}"
        if is_url(place):
            where += f" called {name}" if name else " called default; --name says which"
        raise Refused(f"{where}; skdirdp ledger create makes one", DAMAGED)
    return PrivacyAccountant(path=place, name=name)


def _is_there(place: str, name: str | None) -> bool:
    """Whether there is a ledger, which an accountant would make otherwise."""
    from ..accountant.ledger import open_storage
    from ..reporting.places import is_url

    storage = open_storage(place, name)  # refuses what only looks like an address
    return storage.find() is not None if is_url(place) else os.path.exists(place)


def _create(options: Any) -> int:
    from ..accountant import PrivacyAccountant
    from ..reporting.places import is_url, without_password

    if not is_url(options.ledger) and os.path.lexists(options.ledger):
        raise Refused(f"{options.ledger} exists already, and is left as it is")
    asked = ("epsilon", "delta", "order", "adaptive", "name", "adjacency", "unit")
    given = {name: getattr(options, name) for name in asked if getattr(options, name) is not None}
    if is_url(options.ledger) and _is_there(options.ledger, options.name):
        raise Refused("the database has a ledger of this name already, which is left as it is")
    accountant = PrivacyAccountant(path=options.ledger, **given)
    place = without_password(str(accountant.path))
    facts = _facts(accountant)
    _tell(options, facts, [f"Made the ledger {place}", *_described(accountant)])
    return DONE


# What a ledger is --------------------------------------------------------------------


def _facts(accountant: Any) -> dict[str, Any]:
    from ..accountant.codec import STORED_PARAMETERS
    from ..reporting.places import without_password

    place = without_password(str(accountant.path))
    made_with = {name: getattr(accountant, name, None) for name in STORED_PARAMETERS}
    limit = {name: made_with.pop(name) for name in ("epsilon", "delta", "order")}
    identity = accountant._ledger.identity
    return {"ledger": place, "identity": identity, "limit": limit, **made_with}


def _described(accountant: Any) -> list[str]:
    from ..accountant.reports import declared_unit, limit_text, plan_text

    lines = []
    if getattr(accountant, "name", None):
        lines.append(f"data set:   {accountant.name}")
    lines.append(f"limit:      {limit_text(accountant)}")
    if getattr(accountant, "adjacency", None):
        lines.append(f"adjacency:  {accountant.adjacency}")
    if getattr(accountant, "unit", None):
        lines.append(f"unit:       {declared_unit(accountant)}")
    lines.append(f"budgets:    {plan_text(accountant)}")
    return lines


def _spent(accountant: Any) -> dict[str, Any]:
    from ..accountant.reports import is_within_limit, used_epsilon

    used = used_epsilon(accountant)
    limit = accountant.epsilon
    return {
        "charges": len(accountant),
        "used": used,
        "share_used": None if limit is None else used / limit,
        "remaining": math.inf if limit is None else max(limit - used, 0.0),
        "within_limit": is_within_limit(accountant, used),
    }


def _described_spending(accountant: Any, spent: dict[str, Any]) -> list[str]:
    from ..accountant.reports import spending_texts
    from ..reporting.statement import ADAPTIVE_LIMIT

    lines = [f"charges:    {spent['charges']}"]
    lines += [f"{name + ':':<11} {text}" for name, text in spending_texts(accountant)]
    if accountant._limit.is_share:
        lines.append(ADAPTIVE_LIMIT)
    if not spent["within_limit"]:
        lines.append("The limit is exceeded by charges from elsewhere; nothing more is admitted.")
    return lines


def _tell(options: Any, result: dict[str, Any], lines: list[str]) -> None:
    if options.json:
        _print_json(result)
    else:
        width = terminal_width()
        print("\n".join(wrapped(line, width) for line in lines))


def _print_json(result: Any) -> None:
    print(json.dumps(_plain(result), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    """What JSON can hold; an infinite number becomes the text that ``float`` reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


# Looking -----------------------------------------------------------------------------


def _show(options: Any) -> int:
    from ..accountant import LedgerError

    accountant = _open(options)
    history = accountant.history()
    first = max(len(history) - options.last, 0)
    rows = history[first:]
    try:
        spent, without_total = _spent(accountant), None
    except LedgerError as error:  # its charges are there, and do not add up
        spent, without_total = None, error
    if options.json:
        charges = [{"number": n, **row} for n, row in enumerate(rows, first + 1)]
        anchor = {"anchor": accountant.anchor()}
        _print_json({**_facts(accountant), **(spent or {}), **anchor, "shown": charges})
    else:
        width = terminal_width()
        lines = _described(accountant)
        lines += [] if spent is None else _described_spending(accountant, spent)
        anchor = accountant.anchor()
        parts = (anchor[i : i + width] for i in range(0, len(anchor), width))
        lines.append(f"anchor:     {' '.join(parts)}")
        print("\n".join(wrapped(line, width) for line in lines))
        if rows:
            cells = [_cells(n, row) for n, row in enumerate(rows, first + 1)]
            print("\n" + table(_COLUMNS, cells, width))
        if first and rows:
            more = f"{first} earlier charges are not shown; --last {len(history)} shows all."
            print(wrapped(more, width))
    if without_total is not None:
        raise without_total
    return DONE


def _cells(number: int, row: Any) -> list[object]:
    from ..reporting.text import rounded_up

    part = "" if row["split"] is None else f"{row['split']}: {row['part']}"
    what = f"{row['mechanism']}({row['parameters']})"
    time = f"{row['time']:%Y-%m-%d %H:%M}"
    user, label = row["user"] or "", row["label"] or ""
    cost = rounded_up(row["epsilon"])
    return [number, time, user, label, part, what, row["releases"], cost]


def _total(options: Any) -> int:
    from ..reporting.text import number, rounded_up

    accountant = _open(options)
    delta = accountant.delta if options.delta is None else options.delta
    total = accountant.total(delta)
    result = {**_facts(accountant), "charges": len(accountant), "total": total, "at_delta": delta}
    charges = "1 charge" if len(accountant) == 1 else f"{len(accountant)} charges"
    line = f"ε = {rounded_up(total)} at δ = {number(delta)}, of {charges}"
    _tell(options, result, [line])
    return DONE


def _verify(options: Any) -> int:
    accountant = _open(options)
    entries = accountant.verify(expect=options.expect)
    spent = _spent(accountant)
    result = {**_facts(accountant), **spent, "intact": True, "anchor": accountant.anchor()}
    charges = "1 charge" if entries == 1 else f"{entries} charges"
    line = f"intact: {charges}, none changed or missing"
    _tell(options, result, [line, *_described_spending(accountant, spent)[1:]])
    return DONE if spent["within_limit"] else REFUSED


# Writing -----------------------------------------------------------------------------


def _export(options: Any) -> int:
    from ..accountant.codec import FORMATS
    from ..reporting.page import write

    kind = options.format
    if kind is None:
        name = "ledger.json" if options.output in (None, "-") else options.output
        end = Path(name).suffix.lower().removeprefix(".")
        if end not in FORMATS:
            raise Refused("--format is needed where FILE ends in neither .json nor .csv", USAGE)
        kind = end
    accountant = _open(options)
    text = FORMATS[kind](accountant)
    if options.output is None or options.output == "-":
        # The line ends of a CSV file are its own.
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(text.encode("utf-8"))
        else:
            sys.stdout.write(text)
        return DONE
    path = write(options.output, text)
    _tell(options, {"file": path, "charges": len(accountant)}, [f"Wrote {path}"])
    return DONE


def _report(options: Any) -> int:
    accountant = _open(options)
    output = options.output
    if output is None:
        from ..reporting.places import is_url

        stem = "ledger" if is_url(options.ledger) else Path(options.ledger).stem
        output = f"{stem}.html"
        if os.path.exists(output):
            raise Refused(f"{output} exists already; --output {output} replaces it")
    path = accountant.report(output)
    _tell(options, {"file": path, "charges": len(accountant)}, [f"Wrote {path}"])
    return DONE


def _merge(options: Any) -> int:
    accountant = _open(options)
    before = len(accountant)
    for other in options.other:
        accountant.merge(_other(other))
    spent = _spent(accountant)
    new = spent["charges"] - before
    charges = "1 charge" if new == 1 else f"{new} charges"
    lines = [f"{charges} new", *_described_spending(accountant, spent)]
    _tell(options, {**_facts(accountant), **spent, "new": new}, lines)
    return DONE if spent["within_limit"] else REFUSED


def _other(place: str) -> Any:
    from ..accountant import PrivacyAccountant

    if place.lower().endswith(".json"):
        return PrivacyAccountant.from_export(place)
    return _existing(place)
