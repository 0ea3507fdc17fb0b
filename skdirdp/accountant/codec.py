"""Charges as texts: written into a ledger, checked, and read back exactly."""

import json
import math
from dataclasses import fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from .._messages import format_short
from .._validation import check_integer
from ..accounting import (
    AllOf,
    ApproximateDP,
    NoPrivacy,
    OneOf,
    ProfiledDP,
    PureDP,
    RenyiDP,
    RepeatedSelection,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from ..accounting.worst_case import ADJACENCIES, MOST_ROWS, OF_PERSONS, Unit, kind_of
from ..mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    Mechanism,
    SimplexMechanism,
)
from ..mechanisms.additive import SelectionMechanism
from .records import PERSON, RECORD, SPLIT_BY, Charge, Header, LedgerError, is_of_persons

# Limits on a stored mechanism, far beyond those that estimators charge. Composing a longer
# one may take minutes.
_LONGEST = 1 << 20  # characters
_DEEPEST = 20  # mechanisms within mechanisms

#: What a ledger can hold, by the name it is stored under.
CHARGEABLE: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        AllOf,
        ApproximateDP,
        DirichletMechanism,
        GaussianMechanism,
        JointMechanism,
        LaplaceMechanism,
        NoPrivacy,
        OneOf,
        ProfiledDP,
        PureDP,
        RenyiDP,
        RepeatedSelection,
        SelectionMechanism,
        SimplexMechanism,
        TruncatedConcentratedDP,
        ZeroConcentratedDP,
    )
}


def encode(mechanism: Any, unit: Unit | None = None) -> str:
    """A mechanism or guarantee as a text that gives it back exactly.

    `unit` is stored with it: the records that a charge of persons allows for.
    """
    if not _is_chargeable(mechanism):
        known = ", ".join(CHARGEABLE)
        raise TypeError(
            f"mechanism must be one of {known}; got a {type(mechanism).__name__}. "
            "For a release made with something else, charge the guarantee it gives"
        )
    plain = _to_plain(mechanism)
    if unit is not None:
        plain["unit"] = vars(unit)
    spec = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    if _decode(spec) != (mechanism, unit):
        raise TypeError(f"a {type(mechanism).__name__} with these parameters cannot be stored")
    return spec


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
        # JSON has no infinity; finite floats are written with all their digits.
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be stored in a ledger")


def decode(spec: str) -> Any:
    """The mechanism or guarantee that a text stands for.

    Raises
    ------
    LedgerError
        Whatever is wrong with the text. A ledger may have been written by others.
    """
    return _decode(spec)[0]


def unit_of(spec: str) -> Unit | None:
    """The unit that was stored with a mechanism, if one was."""
    return _decode(spec)[1]


@lru_cache(maxsize=4096)
def _decode(spec: str) -> tuple[Any, Unit | None]:
    try:
        return _read(spec)
    except LedgerError:
        raise
    except Exception as error:  # anything can stand in a file, and fail in any way
        raise LedgerError(
            f"the ledger holds a charge that makes no sense ({type(error).__name__}); the total "
            "cannot be computed without it, and nothing can be charged"
        ) from None


def _read(spec: str) -> tuple[Any, Unit | None]:
    if len(spec) > _LONGEST:
        raise ValueError("too long")
    stored = json.loads(spec, parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    unit = _unit(**stored.pop("unit")) if "unit" in stored else None
    mechanism = _from_plain(stored)
    # Constructors convert numbers. What was stored must be what is composed.
    if not _is_chargeable(mechanism) or not _agrees(stored, _to_plain(mechanism)):
        raise TypeError("no mechanism, or of other parameters")
    of_persons = is_of_persons(mechanism.adjacency)  # that of its parts, if it has any
    if unit is not None and not of_persons:
        raise ValueError("a unit of persons, for records")
    return mechanism, unit


def _unit(*, max_rows: Any, by_ids: Any) -> Unit:
    unit = Unit(check_integer("max_rows", max_rows, at_least=1, at_most=MOST_ROWS), by_ids)
    if type(by_ids) is not bool or not unit.is_person:
        raise TypeError("no unit of persons")
    return unit


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a parameter is there twice")
    return dict(pairs)


def _from_plain(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if isinstance(value, list):
        return tuple(_from_plain(item, depth + 1) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    parameters = dict(value)
    kind = parameters.pop("kind")
    if kind not in CHARGEABLE:
        raise LedgerError(
            f"the ledger holds a charge of {_shown(kind)}, which this version of skdirdp "
            "does not know; the total cannot be computed without it, and nothing can be charged"
        )
    return CHARGEABLE[kind](
        **{name: _from_plain(item, depth + 1) for name, item in parameters.items()}
    )


def _shown(kind: Any) -> str:
    return f"kind {kind!a}" if isinstance(kind, str) and len(kind) <= 100 else "a kind"


def _agrees(stored: Any, plain: Any) -> bool:
    """Whether stored values are those of a mechanism, in which newer parameters may be more."""
    if isinstance(stored, dict) and isinstance(plain, dict):
        return all(name in plain and _agrees(stored[name], plain[name]) for name in stored)
    if isinstance(stored, list) and isinstance(plain, list):
        return len(stored) == len(plain) and all(map(_agrees, stored, plain))
    if isinstance(stored, bool) or isinstance(plain, bool):
        return stored is plain
    return stored == plain


def check_charge(charge: Charge, header: Header) -> None:
    """Refuse an entry that no charge of its ledger can have written.

    Raises
    ------
    LedgerError
    """
    adjacency = decode(charge.spec).adjacency
    if charge.split is not None and kind_of(adjacency) not in SPLIT_BY[charge.split.by]:
        raise LedgerError(
            f"charge {charge.id} of the ledger makes no sense: {adjacency!r} is not for parts that "
            f"are split by {charge.split.by}"
        )
    check_relation(adjacency, header)


def check_relation(adjacency: str, header: Header) -> None:
    """Refuse charges under another relation than that which their ledger was made for."""
    if not is_declared(adjacency, header.adjacency):
        raise LedgerError(
            f"the ledger was made for {header.adjacency!r}, and holds a charge under {adjacency!r}"
        )


def is_declared(adjacency: str, declared: str | None) -> bool:
    """Whether a charge is under a relation that its ledger was made for, if it was for any."""
    return declared is None or not {adjacency, kind_of(adjacency)}.isdisjoint(
        relations_of(declared)
    )


def relations_of(declared: str | None) -> tuple[str, ...]:
    """The relations that a ledger may be charged under, where it was made for some."""
    several = {RECORD: ADJACENCIES, PERSON: tuple(OF_PERSONS.values()), None: ()}
    return several.get(declared, (str(declared),))


def other_relation(adjacency: str, header: Header) -> str:
    """Why a charge is not one for a ledger."""
    wanted = " or ".join(map(repr, relations_of(header.adjacency)))
    message = f"adjacency must be {wanted}, for which the ledger was made; got {adjacency!r}"
    if is_of_persons(header.adjacency) and not is_of_persons(adjacency):
        name = header.unit or "person"
        message += (
            f". The ledger protects each {name} with all records, and this charge single records. "
            "Give fit the ids of the persons (groups), or declare max_rows. Nothing was charged or "
            "released. A ledger that protects single records has unit='record'"
        )
    return message


def describe_parameters(mechanism: Any) -> str:
    """The parameters that are not at their defaults."""
    if isinstance(mechanism, JointMechanism):
        return ", ".join(f"{count} x {describe(part)}" for part, count in mechanism.parts)
    if isinstance(mechanism, ProfiledDP):
        return f"epsilon={mechanism.epsilons[-1]}, points={len(mechanism.epsilons)}"
    if isinstance(mechanism, AllOf):
        return ", ".join(map(describe, mechanism.parts))
    if isinstance(mechanism, OneOf):
        return f"the worst of {len(mechanism.alternatives)}"
    if isinstance(mechanism, RepeatedSelection):
        return f"{mechanism.mean:g} runs expected, shape={mechanism.shape:g}"
    values = ((field, getattr(mechanism, field.name)) for field in fields(mechanism))
    # A noise level may be shortened; the epsilon of a guarantee that was charged may not.
    show = format_short if isinstance(mechanism, Mechanism) else str
    return ", ".join(
        f"{field.name}={show(value)}"
        for field, value in values
        if field.name != "adjacency" and value != field.default
    )


def describe(mechanism: Any) -> str:
    return f"{type(mechanism).__name__}({describe_parameters(mechanism)})"
