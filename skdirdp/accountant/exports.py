"""A ledger as a file for others: JSON, which is read back without loss, and CSV, to look at."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timezone
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from ..accounting.composition import MAX_RELEASES, PrivacyCurves
from ..reporting.redact import looks_like_address
from ..reporting.statements import visible
from .codec import decode
from .ledger import LedgerError, Split
from .merging import Entry, entries_of, identity_of

_FORMAT = "skdirdp ledger"
_VERSION = 1
# What spreadsheets take for a formula.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_COLUMNS = (
    "number",
    "time",
    "user",
    "label",
    "mechanism",
    "parameters",
    "adjacency",
    "releases",
    "epsilon",
    "split",
    "part",
)
#: What a ledger was made with, by the accountant's names.
MADE_WITH = ("epsilon", "delta", "order", "adaptive", "name", "adjacency", "unit")


def as_json(accountant: Any) -> str:
    """The whole ledger as a text that gives it back."""
    identity = identity_of(accountant)
    content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "identity": identity}
    content |= {name: getattr(accountant, name) for name in MADE_WITH if hasattr(accountant, name)}
    content["charges"] = [
        {
            "time": entry.time.isoformat(),
            "user": entry.user,
            "label": entry.label,
            "mechanism": json.loads(entry.spec),
            "releases": entry.releases,
            "split": None if entry.split is None else vars(entry.split),
            "origin": entry.origin,
            "key": entry.key,
            "merged": entry.merged,
        }
        for entry in entries_of(identity, accountant._charges())
    ]
    content["sha256"] = _digest(content)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _digest(content: dict[str, Any]) -> str:
    """A hash of all but itself: a digit that is lost on the way must not make a total smaller."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return sha256(json.dumps(rest, sort_keys=True).encode("ascii")).hexdigest()


def as_csv(accountant: Any) -> str:
    """The charges as rows for a spreadsheet."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for number, row in enumerate(accountant.history(), 1):
        rows.writerow(_csv_cell(number if name == "number" else row[name]) for name in _COLUMNS)
    return file.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        # The formula of a label must stay a text where the file is opened.
        return f"'{visible(value)}" if _FORMULA.match(value) else visible(value)
    return "" if value is None else value


#: How an accountant is written, by the end of the file's name.
FORMATS: dict[str, Callable[[Any], str]] = {"json": as_json, "csv": as_csv}


def format_of(path: "str | PathLike[str]") -> str:
    """The format that the end of a file's name stands for."""
    _check_is_file(path)
    end = Path(path).suffix.lower().removeprefix(".")
    if end not in FORMATS:
        raise ValueError(
            f"the name of an export must end in .json, which can be read back, or .csv; got {end!r}"
        )
    return end


def _check_is_file(path: "str | PathLike[str]") -> None:
    if looks_like_address(os.fsdecode(path)):
        raise LedgerError("an export must be a file; got a name like the address of a database")


def read_export(path: "str | PathLike[str]") -> tuple[dict[str, Any], list[Entry]]:
    """What a ledger was made with, and its charges, from a JSON export."""
    _check_is_file(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise LedgerError(f"the export {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LedgerError(f"the export {path} cannot be read: it is not a text") from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise LedgerError(
            f"the export {path} cannot be read: it is not JSON, or was cut short"
        ) from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise LedgerError(f"the file {path} is not the export of a ledger")
    if content.get("version") != _VERSION:
        raise LedgerError(
            f"the export {path} has version {content.get('version')!r}, and this skdirdp knows "
            f"{_VERSION}; use the version of skdirdp that wrote it, or a newer one"
        )
    if content.get("sha256") != _digest(content):
        raise LedgerError(f"the export {path} was changed since it was written, or is damaged")
    try:
        entries = [_entry(charge) for charge in content["charges"]]
        made_with = {name: content[name] for name in MADE_WITH if name in content}
        # What was not promised is not promised now; left out, it would be the default.
        made_with["adaptive"] = made_with.get("adaptive") is True
        return made_with, entries
    except LedgerError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LedgerError(
            f"the export {path} cannot be read: it has a charge that makes no sense, "
            f"{type(error).__name__}"
        ) from None


def _entry(charge: dict[str, Any]) -> Entry:
    spec = json.dumps(charge["mechanism"], sort_keys=True, separators=(",", ":"))
    if not isinstance(decode(spec), PrivacyCurves):  # raises where this version does not know it
        raise TypeError("mechanism")
    releases, split = charge["releases"], charge["split"]
    time = datetime.fromisoformat(charge["time"])
    time.astimezone(timezone.utc)
    texts = [charge["origin"], charge["key"], *(split or {}).values()]
    texts += [charge[name] for name in ("user", "label") if charge[name] is not None]
    if type(releases) is not int or not 1 <= releases <= MAX_RELEASES:
        raise ValueError("releases")
    if time.tzinfo is None or not all(isinstance(text, str) for text in texts):
        raise TypeError("texts")
    return Entry(
        charge["origin"],
        charge["key"],
        bool(charge["merged"]),
        time,
        charge["user"],
        spec,
        releases,
        charge["label"],
        None if split is None else Split(**split),
    )
