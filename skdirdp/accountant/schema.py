"""Values that a ledger stores, and their stored form: tables, hash chain, encoded charges.

Each entry has a hash that covers the entry and the previous hash; the first hash covers the header.
So an entry that is changed, removed, inserted or moved breaks the chain. The hashes contain no
secret: a person who can write the ledger can recompute them, or remove the last entries. Therefore
the number of entries and the last hash are also stored in the table `heads`, in the lock file next
to an SQLite file, and in the memory of every process that has read them.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any

from .._validation import check_real
from ..accounting.worst_case import PERSON_RELATIONS, VECTORS, check_relation

#: Version 1 had neither hashes nor users nor keys, and was never released.
SCHEMA_VERSION = 2

#: Values of `Header.adjacency` that declare only the unit: any relation between single records, or
#: any relation between people.
UNITS = RECORD, PERSON = ("record", "person")
_RECORD_NOUNS = ("record", "records", "row", "rows")
_NOUN = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,2}")
_MAX_NOUN_LENGTH = 40
_ARTICLES = ("a", "an", "one", "each", "the")
#: Relations under which a neighbouring record or vector stays in its part of a split.
SPLIT_BY = {"values": ("add_remove",), "position": ("replace", VECTORS)}


class LedgerError(ValueError):
    """A ledger is missing, unreachable, damaged, not a ledger, or not writable.

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
    """Reason why a ledger cannot be used. The storage adds the location to the message."""


class ConnectionLostError(LedgerError):
    """The connection was lost before the charge was recorded.

    The charge may still arrive at the server, so a retry must use the same key.
    """


@dataclass(frozen=True)
class LimitParameters:
    """Limit that a ledger was created with; `epsilon` is None if there is no limit."""

    epsilon: float | None
    delta: float
    order: float | None
    adaptive: bool = False


@dataclass(frozen=True)
class Header:
    """Constant part of a ledger."""

    identity: str
    limit: LimitParameters
    created: str
    name: str | None = None
    adjacency: str | None = None  # the relation that may be charged, or one of `UNITS`
    unit: str | None = None
    origin: str | None = None  # None in new ledgers
    number: int = 1  # number of the ledger in its database; a file contains one


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts of a data set, and how the parts are determined."""

    identity: str
    part: str
    name: str
    by: str


@dataclass(frozen=True)
class Charge:
    """One entry of a ledger; the first has id 1."""

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
#: Kind of the first charge of a ledger, and its number of releases.
First = tuple[str, int]
#: Number and hash of a charge. Equal positions imply equal earlier charges.
Position = tuple[int, str]
NOTHING: Position = (0, "")


def check_limit(epsilon: Any, delta: Any, order: Any, adaptive: Any) -> LimitParameters:
    """Return the parameters of a limit; an infinite epsilon means no limit."""
    if adaptive not in (None, True, False):
        raise ValueError(f"adaptive must be True or False; got {adaptive!r}")
    if epsilon is not None:
        epsilon = check_real("epsilon", epsilon, above=0, allow_infinite=True)
    delta = check_real("delta", delta, above=0, below=1)
    if order is not None:
        order = check_real("order", order, above=1)
        if epsilon is None:
            raise ValueError(f"epsilon must be given with order; got order={order} alone")
    if epsilon == math.inf:
        epsilon = order = None
    return LimitParameters(epsilon, delta, order, adaptive is None or bool(adaptive))


def check_stored_limit(header: Header) -> None:
    """Raise LedgerError if no accountant can have created the limit."""
    limit = header.limit
    with suppress(TypeError, ValueError):
        if check_limit(limit.epsilon, limit.delta, limit.order, limit.adaptive) == limit:
            return
    raise LedgerError("the limit of the ledger is invalid")


def is_person_level(adjacency: str | None) -> bool:
    """Return whether a relation is between people with all their records."""
    return adjacency == PERSON or adjacency in PERSON_RELATIONS.values()


def header_adjacency(adjacency: str | None, unit: str | None) -> str | None:
    """Return the `Header.adjacency` of a new ledger, between people if the unit is a person."""
    if adjacency is not None:
        check_relation(adjacency)
    if unit is None:
        return adjacency
    if not _without_article(unit):
        raise ValueError(f"unit must be a noun, such as 'patient' or 'record'; got {unit!r}")
    if is_record(unit):
        if adjacency is None or not is_person_level(adjacency):
            return adjacency or RECORD
    elif adjacency is None:
        return PERSON
    elif adjacency in PERSON_RELATIONS or is_person_level(adjacency):
        return PERSON_RELATIONS.get(adjacency, adjacency)
    raise ValueError(
        f"unit must agree with adjacency={adjacency!r}; got {unit!r}. It is 'record', or a noun "
        "for a person who may have several records"
    )


def is_record(unit: Any) -> bool:
    """Return whether a unit is a single row of the data set, or undeclared."""
    return unit is None or _without_article(str(unit)).casefold() in _RECORD_NOUNS


def person_noun(header: Header) -> str | None:
    """Return the noun for a protected person, or None if single records may be protected."""
    if not is_person_level(header.adjacency):
        return None
    noun = _without_article(header.unit or PERSON)
    # A unit is free text, and one of more than three words could claim more than was charged.
    return noun if len(noun) <= _MAX_NOUN_LENGTH and _NOUN.fullmatch(noun) else PERSON


def declared_unit(header: Header) -> str:
    if is_person_level(header.adjacency):
        return f"{header.unit or PERSON}; every charge has to protect all records of each"
    if header.adjacency == RECORD or is_record(header.unit):
        return RECORD
    return f"{header.unit}, which is only a name: charges may protect single records"


def _without_article(unit: str) -> str:
    words = unit.split()
    return " ".join(words[1:] if words and words[0].casefold() in _ARTICLES else words)


def declared_adjacency(header: Header) -> str | None:
    """Return the adjacency that the user declared, without the unit; None if none was."""
    if header.adjacency in UNITS:
        return None
    of_unit = {} if header.unit is None else {of: plain for plain, of in PERSON_RELATIONS.items()}
    return of_unit.get(str(header.adjacency), header.adjacency)


_CHARGE_COLUMNS = (
    "id, time, username, entry_key, spec, releases, label, split, part, split_name, split_by"
)
#: Columns of an entry that its hash covers, in this order.
ENTRY = tuple(_CHARGE_COLUMNS.split(", "))
# One text per list of values: floats with all digits, non-ASCII characters escaped.
_json_text = json.JSONEncoder(separators=(",", ":")).encode


def header_hash(header: Header) -> str:
    declared = [header.name, header.adjacency, header.unit, header.origin]
    limits = [*astuple(header.limit)]
    return entry_hash("skdirdp ledger", [header.identity, header.created, limits, declared])


def entry_hash(previous: str, entry: Sequence[Any]) -> str:
    """Return the hash of an entry, given as the values of `ENTRY`."""
    return sha256(_json_text([previous, *entry]).encode("ascii")).hexdigest()


def read_sql(name: str) -> list[str]:
    """Return the statements of a file of this package, each after an empty line."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [statement.strip() for statement in text.split("\n\n")[1:]]


TABLES = read_sql("tables.sql")
# A file is small and read as a whole: one tree for the table and its key.
SQLITE_TABLES = [sql + (" WITHOUT ROWID" if "PRIMARY KEY (" in sql else "") for sql in TABLES]
SQLITE_TRIGGERS = read_sql("sqlite_triggers.sql")

_HEADER_COLUMNS = (
    "identity, created, epsilon, delta, renyi_order, adaptive, name, adjacency, unit, origin"
)


class Session(ABC):
    """Transaction of a database."""

    #: Written charge: the identity of the ledger, and the number and hash of the charge.
    head: tuple[str, int, str] | None = None
    USER_AND_TIME_SQL = "NULL, NULL"

    @abstractmethod
    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement with parameters written as ``:name``, and return its rows."""

    @abstractmethod
    def user_and_time(self, user: Any, time: Any) -> tuple[str | None, str]:
        """Return the user and the time, given the values of `USER_AND_TIME_SQL`."""

    @abstractmethod
    def check_structure(self) -> None:
        """Raise UnusableError if tables or triggers differ from the schema."""

    def stored_head(self, identity: str) -> tuple[int, str] | None:
        """Return the head of the ledger that is stored outside the database, if any."""
        return None

    def store_head(self, identity: str, entries: int, head: str) -> None:  # noqa: B027
        """Store the head of a verified ledger for `stored_head`."""


def insert_header(session: Session, header: Header) -> None:
    values = {**vars(header), **vars(header.limit), "adaptive": int(header.limit.adaptive)}
    del values["limit"]
    names = _HEADER_COLUMNS.replace("renyi_order", "order").split(", ")
    marks = ", ".join(f":{name}" for name in ("number", *names))
    session.execute(f"INSERT INTO ledgers (id, {_HEADER_COLUMNS}) VALUES ({marks})", **values)
    sql = "INSERT INTO heads (ledger, entries, hash) VALUES (:ledger, 0, :hash)"
    session.execute(sql, ledger=header.number, hash=header_hash(header))


def select_header(session: Session, number: int) -> tuple[Header, int, str, tuple[str | None, str]]:
    """Return header, number of charges, last hash, and the current user and time."""
    rows = session.execute(
        f"SELECT {_HEADER_COLUMNS}, entries, hash, {session.USER_AND_TIME_SQL}"
        " FROM ledgers JOIN heads ON heads.ledger = ledgers.id WHERE ledgers.id = :number",
        number=number,
    )
    if len(rows) != 1:
        raise UnusableError("it has no header")
    if any(isinstance(value, bytes) for value in rows[0]):  # SQLite stores any type in a column
        raise UnusableError("its header is invalid: it has bytes in place of text or numbers")
    identity, created, epsilon, delta, order, adaptive, *rest, entries, head, user, time = rows[0]
    limit = LimitParameters(epsilon, delta, order, bool(adaptive))
    name, adjacency, unit, origin = rest
    header = Header(identity, limit, created, name, adjacency, unit, origin, number)
    return header, entries, head, session.user_and_time(user, time)


def insert_charge(session: Session, header: Header, entry: tuple[Any, ...], hash_: str) -> None:
    names = ", ".join(f":{name}" for name in ENTRY)
    values = dict(zip(ENTRY, entry, strict=True))
    sql = f"INSERT INTO charges (ledger, {_CHARGE_COLUMNS}, hash) VALUES (:ledger, {names}, :hash)"
    session.execute(sql, ledger=header.number, hash=hash_, **values)
    session.head = (header.identity, entry[0], hash_)


def select_charges(session: Session, number: int, after: int, until: int) -> list[tuple[Any, ...]]:
    """Return rows of `ENTRY` and the hash, for ids above `after` and up to `until`."""
    sql = (
        f"SELECT {_CHARGE_COLUMNS}, hash FROM charges"
        " WHERE ledger = :ledger AND id > :after AND id <= :until ORDER BY id"
    )
    return session.execute(sql, ledger=number, after=after, until=until)


def select_by_key(session: Session, number: int, key: str) -> list[tuple[Any, ...]]:
    sql = f"SELECT {_CHARGE_COLUMNS} FROM charges WHERE ledger = :ledger AND entry_key = :entry_key"
    return session.execute(sql, ledger=number, entry_key=key)
