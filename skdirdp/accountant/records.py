"""What a ledger holds, as values, and the one error for all that can be wrong with it."""

import math
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from .._validation import check_real
from ..accounting.worst_case import OF_PERSONS, VECTORS, check_relation

DEFAULT_DELTA = 1e-5
#: Of a header that names no relation: those of single records, or of persons, are charged.
UNITS = RECORD, PERSON = ("record", "person")
_ROWS = ("record", "records", "row", "rows")
_NOUN = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,2}")
_LONGEST_NOUN = 40
_ARTICLES = ("a", "an", "one", "each", "the")
#: Relations between neighbours under which a record or vector stays in its part of a split.
SPLIT_BY = {"values": ("add_remove",), "position": ("replace", VECTORS)}


class LedgerError(ValueError):
    """A ledger is missing, out of reach, not a ledger, damaged, or cannot be written.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.accountant import LedgerError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("not a ledger")
    ...     try:
    ...         PrivacyAccountant(path=path)
    ...     except LedgerError:
    ...         print(path.read_text())
    not a ledger
    """


class UnusableError(LedgerError):
    """Why a ledger cannot be used. Whoever knows where it is makes the whole sentence of it."""


class ConnectionLostError(LedgerError):
    """A connection broke, and what was about to be written is not in the ledger.

    It may still be on its way to the server: who tries again does so with the same key.
    """


@dataclass(frozen=True)
class Limits:
    """What a ledger was created with; `epsilon` is None when there is no limit."""

    epsilon: float | None
    delta: float
    order: float | None
    adaptive: bool = False


@dataclass(frozen=True)
class Header:
    """All that stays the same in a ledger, from its creation on.

    `adjacency` is the relation that may be charged, or one of `UNITS`, or None for any.
    `number` is that of the ledger in its database; a file has one. `origin` says of a
    ledger that was converted what it was before.
    """

    identity: str
    limits: Limits
    created: str
    name: str | None = None
    adjacency: str | None = None
    unit: str | None = None
    origin: str | None = None
    number: int = 1


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts that a data set is split into, and by what."""

    identity: str
    part: str
    name: str
    by: str


@dataclass(frozen=True)
class Charge:
    """One entry of the ledger; the first has the id 1."""

    id: int
    time: datetime
    user: str | None
    key: str
    spec: str
    releases: int
    label: str | None
    split: Split | None


# (identity of a split or "", name of a part or "", spec) -> number of releases
Sums = dict[tuple[str, str, str], int]

#: The kind of the first charge of a ledger, and its number of releases.
First = tuple[str, int]

#: The number and the hash of a charge: which it is, and that all before it are the same.
Position = tuple[int, str]
NOTHING: Position = (0, "")


def check_text(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got one of type {type(value).__name__}")


def is_of_persons(adjacency: str | None) -> bool:
    """Whether a relation is one of persons with all their records."""
    return adjacency == PERSON or adjacency in OF_PERSONS.values()


def check_declared(**declared: Any) -> dict[str, str | None]:
    for name, value in declared.items():
        check_text(name, value)
    if declared["adjacency"] is not None:
        check_relation(declared["adjacency"])
    return declared


def with_unit(adjacency: str | None, unit: str | None) -> str | None:
    """The relation of a new ledger: that of persons, unless its unit is a record or none."""
    if unit is None:
        return adjacency
    if not _without_article(unit):
        raise ValueError(f"unit must be a noun, such as 'patient' or 'record'; got {unit!r}")
    if is_record(unit):
        if adjacency is None or not is_of_persons(adjacency):
            return adjacency or RECORD
    elif adjacency is None:
        return PERSON
    elif adjacency in OF_PERSONS or is_of_persons(adjacency):
        return OF_PERSONS.get(adjacency, adjacency)
    raise ValueError(
        f"unit must agree with adjacency={adjacency!r}; got {unit!r}. It is 'record', or the name "
        "of persons who may have several records"
    )


def is_record(unit: Any) -> bool:
    """Whether a unit is a single row of the data set, or was not declared."""
    return unit is None or _without_article(str(unit)).casefold() in _ROWS


def persons_of(header: Header) -> str | None:
    """The noun for the persons that a ledger protects; None where it may protect records.

    The unit of a ledger is somebody's text. It becomes part of a statement only if it is a noun
    of up to three words. Other texts could claim more than was charged.
    """
    if not is_of_persons(header.adjacency):
        return None
    noun = _without_article(header.unit or PERSON)
    return noun if len(noun) <= _LONGEST_NOUN and _NOUN.fullmatch(noun) else PERSON


def _without_article(unit: str) -> str:
    words = unit.split()
    return " ".join(words[1:] if words and words[0].casefold() in _ARTICLES else words)


def shown_adjacency(header: Header) -> str | None:
    """The relation that a ledger was made for, beside its unit; None for any."""
    if header.adjacency in UNITS:
        return None
    of_unit = {} if header.unit is None else {of: plain for plain, of in OF_PERSONS.items()}
    return of_unit.get(str(header.adjacency), header.adjacency)


def check_same_declared(asked: dict[str, str | None], ledger: Any) -> None:
    """As limits: what a ledger was made with stays, and not asking for it is fine."""
    for name, value in asked.items():
        stored = getattr(ledger.header, name)
        same: tuple[str | None, ...] = (None, stored)
        if name == "adjacency":
            same = (None, stored, stored := shown_adjacency(ledger.header))
        if value not in same:
            raise ValueError(
                f"the ledger {ledger.path} was made with {name}={stored!r}, and this stays; "
                f"got {value!r}. Leave it out to continue"
            )


def check_limits(epsilon: Any, delta: Any, order: Any, adaptive: bool) -> Limits:
    if epsilon is not None:
        epsilon = check_real("epsilon", epsilon, above=0, allow_infinite=True)
    delta = check_real("delta", delta, above=0, below=1)
    if order is not None:
        order = check_real("order", order, above=1)
        if epsilon is None:
            raise ValueError(f"epsilon must be given with order; got order={order} alone")
    limits = Limits(epsilon, delta, order, adaptive)
    # An infinite limit is none.
    return replace(limits, epsilon=None, order=None) if epsilon == math.inf else limits


def check_header(header: Header) -> None:
    """Refuse limits that no accountant was made with."""
    limits = header.limits
    try:
        if check_limits(limits.epsilon, limits.delta, limits.order, limits.adaptive) == limits:
            return
    except (TypeError, ValueError):
        pass
    raise LedgerError("the limits of the ledger make no sense")


def check_same_limits(asked: Limits, any_promise: bool, ledger: Any) -> None:
    """The limits of a file are those it was made with; not asking for any is fine."""
    stored = ledger.limits
    if any_promise:
        asked = replace(asked, adaptive=stored.adaptive)
    nothing = Limits(None, DEFAULT_DELTA, None, asked.adaptive)
    if asked == stored or (asked == nothing and asked.adaptive == stored.adaptive):
        return
    raise ValueError(
        f"the ledger {ledger.path} was made with {_words(stored)}, and these limits stay; got "
        f"{_words(asked)}. Leave them out to continue with the stored ones"
    )


def _words(limits: Limits) -> str:
    return (
        f"epsilon={limits.epsilon}, delta={limits.delta}, order={limits.order}, "
        f"adaptive={limits.adaptive}"
    )
