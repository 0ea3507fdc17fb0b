"""The tables of a ledger, the same in SQLite and in PostgreSQL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .chain import ENTRY, header_hash
from .records import Header, Limits, UnusableError

#: 1 was that of skdirdp 0.1, without hashes, users and keys.
LAYOUT_VERSION = 2

# `split` and `part` are empty for charges on the whole data set; else they say which split
# into disjoint parts, and which of its parts. There is no table of sums: what was charged
# is added up from the charges alone, so that nothing can disagree with them.
TABLES = (
    """
    CREATE TABLE ledgers (
        id INTEGER PRIMARY KEY,
        identity TEXT NOT NULL UNIQUE,
        created TEXT NOT NULL,
        epsilon DOUBLE PRECISION,
        delta DOUBLE PRECISION NOT NULL,
        renyi_order DOUBLE PRECISION,
        adaptive INTEGER NOT NULL CHECK (adaptive IN (0, 1)),
        name TEXT UNIQUE,
        adjacency TEXT,
        unit TEXT,
        origin TEXT
    )
    """,
    """
    CREATE TABLE charges (
        ledger INTEGER NOT NULL REFERENCES ledgers (id),
        id BIGINT NOT NULL,
        time TEXT NOT NULL,
        username TEXT,
        entry_key TEXT NOT NULL,
        spec TEXT NOT NULL,
        releases BIGINT NOT NULL CHECK (releases >= 1),
        label TEXT,
        split TEXT NOT NULL,
        part TEXT NOT NULL,
        split_name TEXT,
        split_by TEXT,
        hash TEXT NOT NULL,
        PRIMARY KEY (ledger, id),
        UNIQUE (ledger, entry_key)
    )
    """,
    # How many charges a ledger has, and the hash of the last: see the module `chain`.
    """
    CREATE TABLE heads (
        ledger INTEGER PRIMARY KEY REFERENCES ledgers (id),
        entries BIGINT NOT NULL CHECK (entries >= 0),
        hash TEXT NOT NULL
    )
    """,
)

#: The columns of a header, but for the number of the ledger.
HEADER = (
    "identity",
    "created",
    "epsilon",
    "delta",
    "renyi_order",
    "adaptive",
    "name",
    "adjacency",
    "unit",
    "origin",
)
_HEADER = ", ".join(HEADER)
_CHARGE = ", ".join(ENTRY)


class Session(Protocol):
    """A transaction of a database, as a ledger sees it.

    `head` is None until a charge is written in it; then the identity of the ledger, and the
    number and the hash of the last charge. `SIGNATURE` is what to select for `sign`.
    """

    SIGNATURE: str
    head: tuple[str, int, str] | None

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement whose parameters are written as ``:name``."""

    def sign(self, user: Any, time: Any) -> tuple[str | None, str]:
        """Who is at work and when, as the database or the operating system knows."""

    def remembered(self, identity: str) -> tuple[int, str] | None:
        """The head of the ledger as it is known outside the database, if it is."""

    def saw(self, identity: str, entries: int, head: str) -> None:
        """Keep the head of a ledger that was checked, where `remembered` finds it."""

    def check_structure(self) -> None:
        """Raise UnusableError where the tables or triggers are not those that were made."""


@dataclass(frozen=True)
class Shortcut:
    """A way to write a charge without a look at the ledger before.

    `user` is who charges. ``append(header, before, entry)`` writes an entry of that user, whose
    time it fills in, if the ledger is the one of the header and its last hash is `before`. It
    returns the entry and its hash, or None if nothing was written, which others may be the
    reason of, or a key that is not new.
    """

    user: str
    append: Callable[[Header, str, tuple[Any, ...]], tuple[Sequence[Any], str] | None]


def header_values(header: Header) -> tuple[Any, ...]:
    """What the columns of `HEADER` hold."""
    limits = header.limits
    return (
        header.identity,
        header.created,
        limits.epsilon,
        limits.delta,
        limits.order,
        int(limits.adaptive),
        header.name,
        header.adjacency,
        header.unit,
        header.origin,
    )


def insert_header(session: Session, header: Header) -> None:
    names = ", ".join(f":{name}" for name in HEADER)
    session.execute(
        f"INSERT INTO ledgers (id, {_HEADER}) VALUES (:number, {names})",
        number=header.number,
        **dict(zip(HEADER, header_values(header), strict=True)),
    )
    session.execute(
        "INSERT INTO heads (ledger, entries, hash) VALUES (:ledger, 0, :hash)",
        ledger=header.number,
        hash=header_hash(header),
    )


def select_header(session: Session, number: int) -> tuple[Header, int, str, tuple[str | None, str]]:
    """The header of a ledger; its number of charges, and the last hash; who asks, and when."""
    rows = session.execute(
        f"SELECT {_HEADER}, entries, hash, {session.SIGNATURE}"
        " FROM ledgers JOIN heads ON heads.ledger = ledgers.id WHERE ledgers.id = :number",
        number=number,
    )
    if len(rows) != 1:
        raise UnusableError("no header in it")
    if any(isinstance(value, bytes) for value in rows[0]):  # SQLite stores any value in a column
        raise UnusableError("its header makes no sense: bytes stand for a text or a number")
    identity, created, epsilon, delta, order, adaptive, *declared, entries, head, user, time = rows[
        0
    ]
    limits = Limits(epsilon, delta, order, bool(adaptive))
    name, adjacency, unit, origin = declared
    header = Header(identity, limits, created, name, adjacency, unit, origin, number)
    return header, entries, head, session.sign(user, time)


def insert_charge(session: Session, header: Header, entry: tuple[Any, ...], hash_: str) -> None:
    names = ", ".join(f":{name}" for name in ENTRY)
    session.execute(
        f"INSERT INTO charges (ledger, {_CHARGE}, hash) VALUES (:ledger, {names}, :hash)",
        ledger=header.number,
        hash=hash_,
        **dict(zip(ENTRY, entry, strict=True)),
    )
    session.head = (header.identity, entry[0], hash_)


def select_charges(session: Session, number: int, after: int, until: int) -> list[tuple[Any, ...]]:
    """Rows of `ENTRY` and the hash, of charges after one and until another."""
    return session.execute(
        f"SELECT {_CHARGE}, hash FROM charges"
        " WHERE ledger = :ledger AND id > :after AND id <= :until ORDER BY id",
        ledger=number,
        after=after,
        until=until,
    )


def select_by_key(session: Session, number: int, key: str) -> list[tuple[Any, ...]]:
    return session.execute(
        f"SELECT {_CHARGE} FROM charges WHERE ledger = :ledger AND entry_key = :entry_key",
        ledger=number,
        entry_key=key,
    )
