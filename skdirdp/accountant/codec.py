"""Encode charges and ledgers as text: stored mechanisms, JSON exports and CSV tables.

A copied charge is identified by the ledger in which it was first recorded, its key in that ledger,
and all stored values. Its key contains its origin, so it counts only once, even if it is copied
through several ledgers or exported files.
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import sha256
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from .. import accounting, mechanisms
from .._messages import format_short
from .._validation import check_integer
from ..accounting import AllOf, OneOf, ProfiledDP, RepeatedSelection
from ..accounting.composition import MAX_RELEASES, PrivacyCurves
from ..accounting.worst_case import (
    ADJACENCIES,
    MAX_ROWS_LIMIT,
    PERSON_RELATIONS,
    Unit,
    common_unit,
    relation_kind,
)
from ..mechanisms import JointMechanism, Mechanism
from ..mechanisms.additive import SelectionMechanism
from ..reporting.redact import looks_like_database_url
from ..reporting.statements import visible
from .schema import (
    PERSON,
    RECORD,
    SPLIT_BY,
    Charge,
    Header,
    LedgerError,
    Split,
    is_person_level,
    person_noun,
)

# Limits on the size of a stored mechanism, far above the sizes of charges made by estimators.
_MAX_SPEC_LENGTH = 1 << 20
_MAX_DEPTH = 20

#: Classes that a ledger can store, by name.
CHARGEABLE: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(AllOf, accounting.ApproximateDP, mechanisms.DirichletMechanism),
        *(mechanisms.GaussianMechanism, JointMechanism, mechanisms.LaplaceMechanism),
        *(accounting.NoPrivacy, OneOf, ProfiledDP, accounting.PureDP, accounting.RenyiDP),
        *(RepeatedSelection, SelectionMechanism, mechanisms.SimplexMechanism),
        *(accounting.TruncatedConcentratedDP, accounting.ZeroConcentratedDP),
    )
}


def encode(mechanism: Any, unit: Unit | None = None) -> str:
    """Encode a mechanism or guarantee, and optionally its unit, losslessly as text."""
    if not _is_chargeable(mechanism):
        raise TypeError(
            f"mechanism must be one of {', '.join(CHARGEABLE)}; got {type(mechanism).__name__}. "
            "For any other release, charge its privacy guarantee"
        )
    plain = _to_plain(mechanism)
    if unit is not None:
        plain["unit"] = vars(unit)
    spec = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    if _decode(spec) != (mechanism, unit):
        raise TypeError(f"{type(mechanism).__name__} with these parameters cannot be stored")
    return spec


def decode(spec: str) -> Any:
    """Return the mechanism or guarantee of a stored charge, or raise LedgerError."""
    return _decode(spec)[0]


def decode_unit(spec: str) -> Unit | None:
    """Return the unit that is stored with a mechanism, or None."""
    return _decode(spec)[1]


def protected_unit(charges: Sequence[Charge], adjacency: str, header: Header) -> str | None:
    """Return a description of the unit that all charges protect; None for records and vectors."""
    if not is_person_level(adjacency):
        return None
    noun = person_noun(header) or PERSON
    units = [decode_unit(charge.spec) for charge in charges]
    known = [unit for unit in units if unit is not None]
    if known and len(known) == len(units):
        return common_unit(known).describe(noun)
    return f"one {noun} with at most as many records as each charge allows"


def _is_chargeable(value: Any) -> bool:
    return CHARGEABLE.get(type(value).__name__) is type(value)


def _to_plain(value: Any) -> Any:
    if _is_chargeable(value):
        parameters = {f.name: _to_plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **parameters}
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        value = float(value)
        # JSON has no infinity; finite floats are written without rounding.
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be stored in a ledger")


@lru_cache(maxsize=4096)
def _decode(spec: str) -> tuple[Any, Unit | None]:
    try:
        if len(spec) > _MAX_SPEC_LENGTH:
            raise ValueError("too long")
        # `int` raises an error for NaN and Infinity, which are not JSON.
        stored = json.loads(spec, parse_constant=int, object_pairs_hook=_unique_names)
        unit = _unit(**stored.pop("unit")) if "unit" in stored else None
        mechanism = _from_plain(stored)
        # Constructors convert numbers, so check that the result equals the stored mechanism.
        if not _is_chargeable(mechanism) or not _agrees(stored, _to_plain(mechanism)):
            raise TypeError("not a mechanism, or a mechanism with different parameters")
        person_level = is_person_level(mechanism.adjacency)  # raises if its parts disagree
        if unit is not None and not person_level:
            raise ValueError("a person-level unit with a record-level adjacency")
        return mechanism, unit
    except LedgerError:
        raise
    except Exception as error:  # decoding an arbitrary file may raise any error
        raise LedgerError(
            f"the ledger contains an invalid charge ({type(error).__name__}); the total cannot be "
            "computed without it, and nothing can be charged"
        ) from None


def _unit(*, max_rows: Any, by_ids: Any) -> Unit:
    unit = Unit(check_integer("max_rows", max_rows, at_least=1, at_most=MAX_ROWS_LIMIT), by_ids)
    if type(by_ids) is not bool or not unit.is_person:
        raise TypeError("not a person-level unit")
    return unit


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a parameter occurs twice")
    return dict(pairs)


def _from_plain(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return tuple(_from_plain(item, depth + 1) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    parameters = dict(value)
    kind = parameters.pop("kind")
    if kind not in CHARGEABLE:
        shown = f"kind {kind!a}" if isinstance(kind, str) and len(kind) <= 100 else "a kind"
        raise LedgerError(
            f"the ledger contains a charge of {shown} that this version of skdirdp does not "
            "support; the total cannot be computed without it, and nothing can be charged"
        )
    return CHARGEABLE[kind](
        **{name: _from_plain(item, depth + 1) for name, item in parameters.items()}
    )


def _agrees(stored: Any, plain: Any) -> bool:
    """Return whether a mechanism has all stored values; it may also have newer parameters."""
    if isinstance(stored, dict) and isinstance(plain, dict):
        return all(name in plain and _agrees(stored[name], plain[name]) for name in stored)
    if isinstance(stored, list) and isinstance(plain, list):
        return len(stored) == len(plain) and all(map(_agrees, stored, plain))
    return stored == plain and isinstance(stored, bool) == isinstance(plain, bool)


def describe_parameters(mechanism: Any) -> str:
    """Return the parameters that differ from their defaults, as text."""
    match mechanism:
        case JointMechanism():
            return ", ".join(f"{count} x {describe(part)}" for part, count in mechanism.parts)
        case ProfiledDP():
            return f"epsilon={mechanism.epsilons[-1]}, points={len(mechanism.epsilons)}"
        case AllOf():
            return ", ".join(map(describe, mechanism.parts))
        case OneOf():
            return f"worst of {len(mechanism.alternatives)} alternatives"
        case RepeatedSelection():
            return f"{mechanism.mean:g} runs expected, shape={mechanism.shape:g}"
    # Noise parameters may be rounded for display, but not the epsilon of a charged guarantee.
    show = format_short if isinstance(mechanism, Mechanism) else str
    return ", ".join(
        f"{each.name}={show(value)}"
        for each in fields(mechanism)
        if (value := getattr(mechanism, each.name)) != each.default and each.name != "adjacency"
    )


def describe(mechanism: Any) -> str:
    return f"{type(mechanism).__name__}({describe_parameters(mechanism)})"


def allowed_relations(declared: str | None) -> tuple[str, ...]:
    """Return the adjacencies that a ledger accepts; empty if none was declared."""
    by_unit = {RECORD: ADJACENCIES, PERSON: tuple(PERSON_RELATIONS.values()), None: ()}
    return by_unit.get(declared, (str(declared),))


def is_allowed(adjacency: str, declared: str | None) -> bool:
    """Return whether a ledger accepts charges under an adjacency."""
    relations = allowed_relations(declared)
    return declared is None or not {adjacency, relation_kind(adjacency)}.isdisjoint(relations)


def check_stored_relation(adjacency: str, header: Header) -> None:
    """Raise LedgerError if a stored charge has an adjacency that its ledger does not accept."""
    if not is_allowed(adjacency, header.adjacency):
        declared = header.adjacency
        raise LedgerError(
            f"the ledger accepts only {declared!r}, but contains a charge under {adjacency!r}"
        )


def check_stored_charge(charge: Charge, header: Header) -> None:
    """Raise LedgerError if the ledger would not have accepted a stored charge."""
    adjacency = decode(charge.spec).adjacency
    if charge.split is not None and relation_kind(adjacency) not in SPLIT_BY[charge.split.by]:
        raise LedgerError(
            f"charge {charge.id} of the ledger is invalid: {adjacency!r} cannot be used "
            f"for data that are split by {charge.split.by}"
        )
    check_stored_relation(adjacency, header)


def encode_charge(mechanism: Any, unit: Unit | None, split: Split | None, header: Header) -> str:
    """Return the stored form of a mechanism after checking that its ledger accepts it."""
    spec = encode(mechanism)
    adjacency = mechanism.adjacency
    if unit is not None:
        if not isinstance(unit, Unit):
            raise TypeError(f"unit must be a Unit; got {type(unit).__name__}")
        if unit.is_person != is_person_level(adjacency):
            raise ValueError(f"unit must agree with adjacency={adjacency!r}; got {unit}")
        spec = encode(mechanism, unit if unit.is_person else None)
    if split is not None and relation_kind(adjacency) not in SPLIT_BY[split.by]:
        reason = "A replaced record may move from one part to another. Split by position instead"
        if adjacency in PERSON_RELATIONS.values():
            reason = "The records of a person may be in several parts. Charge the whole data set"
        elif split.by == "position":
            reason = "An added or removed record shifts the rows after it. Split by values instead"
        raise ValueError(
            f"adjacency must be {SPLIT_BY[split.by][0]!r} for charges on parts of data split by "
            f"{split.by}; got {adjacency!r}. {reason}"
        )
    if not is_allowed(adjacency, header.adjacency):
        allowed = " or ".join(map(repr, allowed_relations(header.adjacency)))
        message = f"adjacency must be {allowed}, as declared for the ledger; got {adjacency!r}"
        if is_person_level(header.adjacency) and not is_person_level(adjacency):
            message += (
                f". The ledger protects all records of each {header.unit or PERSON}, but this "
                "charge protects only individual records. Pass groups to fit, or set max_rows; or "
                "use a ledger with unit='record'. Nothing was charged or released"
            )
        raise ValueError(message)
    return spec


# Key prefix of a charge that was admitted neither by this ledger nor by one with the same limit.
MERGED = "merged"
# Key prefix of a charge that another ledger with the same limit admitted.
COPIED = "copied"


@dataclass(frozen=True)
class Entry:
    """Charge in a ledger-independent form: its id is 0, and its key is the one in its first ledger.

    All values are compared: two copies of a ledger may use the same key for different charges.
    """

    origin: str  # identity of the ledger that first recorded the charge
    charge: Charge
    merged: bool = field(compare=False)  # whether it was merged into the ledger that was read


def is_merged(charge: Charge) -> bool:
    """Return whether a charge was merged from a ledger with a different limit."""
    return _parse_key(charge.key)[0] == MERGED


def check_key(key: str) -> str:
    """Return the key of a new charge, which must not look like the key of a merged charge."""
    if _parse_key(key)[0] is not None:
        raise ValueError(
            f"key must not look like the key of a charge from another ledger; got {key!r}. "
            "Nothing was charged"
        )
    return key


def _parse_key(key: str) -> tuple[str | None, str, str]:
    """Split a key into its prefix, the original ledger, and the key in that ledger."""
    # The prefix is None if the charge was not copied from another ledger.
    prefix, *rest = key.split("/", 3)
    if prefix in (MERGED, COPIED) and len(rest) == 3:
        return prefix, rest[0], rest[2]
    return None, "", ""


def to_entries(identity: str, charges: Sequence[Charge]) -> list[Entry]:
    entries = []
    for charge in charges:
        prefix, origin, key = _parse_key(charge.key)
        if prefix is None:
            origin, key = identity, charge.key or f"{identity}-{charge.id}"
        charge = replace(charge, id=0, key=key, user=charge.user or None)
        entries.append(Entry(origin, charge, prefix == MERGED))
    return entries


_FORMAT = "skdirdp ledger"
_VERSION = 1
# First characters that make spreadsheets evaluate a cell as a formula.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_COLUMNS = (
    *("number", "time", "user", "label", "mechanism", "parameters", "adjacency", "releases"),
    *("epsilon", "split", "part"),
)
#: Parameters of an accountant that a ledger stores.
STORED_PARAMETERS = ("epsilon", "delta", "order", "adaptive", "name", "adjacency", "unit")


def as_json(accountant: Any) -> str:
    """Return the whole ledger as JSON that `read_export` reads without loss."""
    identity = accountant._ledger.identity
    content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "identity": identity}
    content |= {name: getattr(accountant, name) for name in STORED_PARAMETERS}
    content["charges"] = [
        {
            "time": entry.charge.time.isoformat(),
            "user": entry.charge.user,
            "label": entry.charge.label,
            "mechanism": json.loads(entry.charge.spec),
            "releases": entry.charge.releases,
            "split": None if entry.charge.split is None else vars(entry.charge.split),
            "origin": entry.origin,
            "key": entry.charge.key,
            "merged": entry.merged,
        }
        for entry in to_entries(identity, accountant._charges())
    ]
    content["sha256"] = _digest(content)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _digest(content: dict[str, Any]) -> str:
    """Return a hash of everything except the hash itself, to detect damage."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return sha256(json.dumps(rest, sort_keys=True).encode("ascii")).hexdigest()


def as_csv(accountant: Any) -> str:
    def cell(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc).isoformat()
        if isinstance(value, str):
            # A label that looks like a formula must remain text when the file is opened.
            return f"'{visible(value)}" if _FORMULA.match(value) else visible(value)
        return value

    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for number, row in enumerate(accountant.history(), 1):
        rows.writerow([number, *(cell(row[name]) for name in _COLUMNS[1:])])
    return file.getvalue()


#: Functions that return the ledger of an accountant as text, by file extension.
FORMATS: dict[str, Callable[[Any], str]] = {"json": as_json, "csv": as_csv}


def _check_is_file(path: "str | PathLike[str]") -> None:
    if looks_like_database_url(os.fsdecode(path)):
        raise LedgerError("an export must be a file; the given path looks like a database URL")


def export_format(path: "str | PathLike[str]") -> str:
    _check_is_file(path)
    extension = Path(path).suffix.lower().removeprefix(".")
    if extension not in FORMATS:
        raise ValueError(
            "the name of an export must end in .json, which can be read back, or .csv; "
            f"got {extension!r}"
        )
    return extension


def read_export(path: "str | PathLike[str]") -> tuple[dict[str, Any], list[Entry]]:
    _check_is_file(path)
    unreadable = f"the export {path} cannot be read"
    try:
        content = json.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise LedgerError(f"{unreadable}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LedgerError(f"{unreadable}: it is not a text file") from None
    except (ValueError, RecursionError):
        raise LedgerError(f"{unreadable}: it is not JSON, or is incomplete") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise LedgerError(f"the file {path} is not a ledger export")
    if content.get("version") != _VERSION:
        raise LedgerError(
            f"the export {path} has version {content.get('version')!r}, but this version of "
            f"skdirdp supports {_VERSION}; use the version of skdirdp that wrote it, or a newer one"
        )
    if content.get("sha256") != _digest(content):
        raise LedgerError(f"the export {path} was changed after it was written, or is damaged")
    try:
        entries = [_entry(charge) for charge in content["charges"]]
        parameters = {name: content[name] for name in STORED_PARAMETERS if name in content}
        # The default is True, but an export that lacks the value is treated as not adaptive.
        parameters["adaptive"] = parameters.get("adaptive") is True
        return parameters, entries
    except LedgerError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"it contains an invalid charge ({type(error).__name__})"
        raise LedgerError(f"{unreadable}: {reason}") from None


def _entry(charge: dict[str, Any]) -> Entry:
    spec = json.dumps(charge["mechanism"], sort_keys=True, separators=(",", ":"))
    if not isinstance(decode(spec), PrivacyCurves):
        raise TypeError("mechanism")
    releases, split = charge["releases"], charge["split"]
    time = datetime.fromisoformat(charge["time"])
    time.astimezone(timezone.utc)  # raises OverflowError near datetime.min and datetime.max
    texts = [charge["origin"], charge["key"], *(split or {}).values()]
    texts += [charge[name] for name in ("user", "label") if charge[name] is not None]
    if type(releases) is not int or not 1 <= releases <= MAX_RELEASES:
        raise ValueError("releases")
    if time.tzinfo is None or not all(isinstance(text, str) for text in texts):
        raise TypeError("strings")
    split = None if split is None else Split(**split)
    fields = (0, time, charge["user"], charge["key"], spec, releases, charge["label"], split)
    return Entry(charge["origin"], Charge(*fields), bool(charge["merged"]))
