"""The ledger: charges that many processes can append to, and nobody can take back.

Storage only. What a charge means, and whether it fits a limit, is decided in
`skdirdp.accountant.accountant`; here it is a text, a number of releases and a label.

A ledger lives in an SQLite file or in a PostgreSQL database. The code here is the same
for both, written in the SQL that they share; a storage only opens transactions, each
alone on its ledger. What was charged is added up from the entries themselves, each of
which is checked against the hash chain when a process first reads it. A process keeps
the sums of what it has checked, and reads only what came since.
"""

import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from ..reporting.redact import is_url, looks_like_address
from .chain import entry_hash, followed, header_hash
from .layout import (
    Session,
    Shortcut,
    insert_charge,
    select_by_key,
    select_charges,
    select_header,
)
from .records import (
    NOTHING,
    Charge,
    First,
    Header,
    LedgerError,
    Limits,
    Position,
    Split,
    Sums,
    UnusableError,
)
from .sqlite import SQLiteStorage

__all__ = ["Charge", "Ledger", "LedgerError", "Limits", "Split", "Sums", "Transaction"]

_LARGEST = 2**63 - 1
_ANCHOR = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


class Storage(Protocol):
    """Where ledgers are. `place` names it, without anything secret."""

    place: str

    def find(self) -> int | None:
        """The number of the ledger in its place, or None if there is none yet."""

    def missing(self) -> str:
        """The sentence to say when there is none, and none is to be made."""

    def create(self, header: Header) -> int:
        """Make the ledger, unless somebody else does in this moment; its number."""

    def transaction(self, number: int, *, to_write: bool) -> Any:
        """A context with a `Session` on one ledger, for which others wait."""

    def shortcut(self) -> Shortcut | None:
        """A way to write a charge without a transaction, where there is one."""


@dataclass(frozen=True)
class _Checked:
    """What the first entries of a ledger add up to, after their hashes were checked."""

    entries: int
    hash: str
    sums: Sums
    first: First | None = None

    def position(self) -> Position:
        return (self.entries, self.hash) if self.entries else NOTHING

    def followed_by(self, entry: Any, hash_: str) -> "_Checked":
        sums = dict(self.sums)
        _add(sums, entry)
        return _Checked(self.entries + 1, hash_, sums, self.first or _first(entry))


# By the place and the identity of the ledger. Each value stays true: a ledger only grows.
_CHECKED: "OrderedDict[tuple[str, str], _Checked]" = OrderedDict()
_MAX_CHECKED = 256


class Transaction:
    """Reads and writes that no other process can come between."""

    def __init__(self, session: Session, header: Header, place: str):
        self._session = session
        self._header = header
        self._place = (place, header.identity)
        start = _Checked(0, header_hash(header), {})
        # Before the ledger is read, which then has all that was seen until now.
        self._checked = _CHECKED.get(self._place, start)
        found, self._entries, self._hash, self._signature = select_header(session, header.number)
        if found.identity != header.identity:
            raise UnusableError("another ledger has taken the place of this one")
        if found != header:
            raise UnusableError("its limits, or what else it was made with, were changed")
        self._own: Sums = {}  # written here, and not yet for others to see
        self._own_first: First | None = None
        self._check_head(start)

    def _check_head(self, start: _Checked) -> None:
        known = [("this process", self._checked.entries, self._checked.hash)]
        remembered = self._session.remembered(self._header.identity)
        if remembered is not None:
            known.append(("the file beside it", *remembered))
        for who, entries, head in known:
            if type(self._entries) is not int or self._entries < entries:
                raise UnusableError(
                    f"charges are missing: it has {self._entries}, and {who} has seen {entries}"
                )
            if self._entries == entries and self._hash != head:
                raise UnusableError(f"its charges are not those that {who} has seen")
        if self._entries == 0 and self._hash != start.hash:
            raise UnusableError("its limits, or what else it was made with, were changed")

    def sums(self) -> Sums:
        """The number of releases charged, per part and kind."""
        sums = dict(self._catch_up().sums)
        for kind, releases in self._own.items():
            sums[kind] = sums.get(kind, 0) + releases
        return sums

    def first(self) -> First | None:
        """The kind of the first charge, and its number of releases."""
        return self._catch_up().first or self._own_first

    def last(self) -> Position:
        """Which charge is the last."""
        return (self._entries, self._hash) if self._entries else NOTHING

    def sums_since(self, position: Position) -> Sums | None:
        """The number of releases charged after a charge, per part and kind.

        None if the ledger has another one in its place: it is a copy that went its own way.
        """
        entries, head = position
        if position != NOTHING:
            row = select_charges(self._session, self._header.number, entries - 1, entries)
            if not row or row[0][-1] != head:
                return None
        sums: Sums = {}
        for entry, _ in self._followed(_Checked(entries, head, {})):
            _add(sums, entry)
        return sums

    def count(self) -> int:
        return self._entries

    def charges(self) -> list[Charge]:
        """All charges, oldest first."""
        return [_charge(entry) for entry, _ in self._followed(_Checked(0, "", {}))]

    def find(self, key: str) -> Charge | None:
        """The charge that was made with a key."""
        self._catch_up()
        rows = select_by_key(self._session, self._header.number, key)
        return _charge(rows[0]) if rows else None

    def append(
        self,
        spec: str,
        releases: int,
        label: str | None,
        split: Split | None,
        *,
        key: str | None = None,
        time: datetime | None = None,
        user: str | None = None,
    ) -> None:
        """Write a charge. Time and user are now and whoever is at work, if not given."""
        checked = self._catch_up()
        if releases > _LARGEST:
            raise OverflowError(f"releases must be at most {_LARGEST}; got {releases}")
        whoever, now = self._signature
        entry = (
            self._entries + 1,
            now if time is None else time.astimezone(timezone.utc).isoformat(),
            whoever if user is None else user,
            *_rest_of_entry(spec, releases, label, split, key),
        )
        _check_texts(entry)
        if _together(entry, checked.sums, self._own) > _LARGEST:
            raise UnusableError(f"it cannot sum more than {_LARGEST} releases of one kind")
        if self._entries == 0:
            self._own_first = (spec, releases)
        head = entry_hash(self._hash, entry)
        insert_charge(self._session, self._header, entry, head)
        self._entries, self._hash = entry[0], head
        _add(self._own, entry)

    def anchor(self) -> Position:
        """The number of charges, and the hash that stands for them and for the limits."""
        return self._entries, self._hash

    def verify(self, expect: Position | None = None) -> int:
        """Check everything from the start; the number of charges.

        Parameters
        ----------
        expect : tuple of int and str, optional
            An earlier `anchor`, kept outside, which has to be that of the first charges.
        """
        self._session.check_structure()
        return self.verify_charges(expect)

    def verify_charges(self, expect: Position | None = None) -> int:
        """Check the charges from the start, whatever was checked before; their number."""
        if expect == (0, header_hash(self._header)):
            expect = None
        remembered = self._session.remembered(self._header.identity)
        sums: Sums = {}
        first: First | None = None
        for entry, head in self._followed(_Checked(0, "", {})):
            _add(sums, entry)
            first = first or _first(entry)
            if remembered == (entry[0], head):
                remembered = None
            if expect is not None and expect[0] == entry[0] and expect[1] == head:
                expect = None
        if remembered is not None and remembered[0] > 0:
            raise UnusableError("its charges are not those that the file beside it has seen")
        if expect is not None:
            raise UnusableError(
                f"charges are missing: it has {self._entries}, and {expect[0]} are expected"
                if expect[0] > self._entries
                else f"its first {expect[0]} charges, or its limits, are not those expected"
            )
        if not self._own:
            self._keep(sums, first)
            self._session.saw(self._header.identity, self._entries, self._hash)
        return self._entries

    def _catch_up(self) -> _Checked:
        """Check what came since this process last looked."""
        if self._checked.entries < self._entries and not self._own:
            sums, first = dict(self._checked.sums), self._checked.first
            for entry, _ in self._followed(self._checked):
                _add(sums, entry)
                first = first or _first(entry)
            self._keep(sums, first)
        return self._checked

    def committed(self) -> None:
        """What was written here is in the ledger, and need not be read back."""
        if self._own:
            self._keep(self.sums(), self.first())
            self._own = {}

    def _keep(self, sums: Sums, first: First | None) -> None:
        self._checked = _Checked(self._entries, self._hash, sums, first)
        _keep_checked(self._place, self._checked)

    def _followed(self, checked: _Checked) -> Iterator[tuple[Any, str]]:
        """The entries after those that are checked, up to the head, which has to fit."""
        entries, head = checked.entries, checked.hash or header_hash(self._header)
        rows = select_charges(self._session, self._header.number, entries, self._entries)
        for entry, follower in followed(rows, entries, head):
            entries, head = entries + 1, follower
            yield entry, head
        if entries != self._entries:
            raise UnusableError(
                f"charges are missing: it has {entries}, and should have {self._entries}"
            )
        if head != self._hash:
            raise UnusableError("its head is not that of its charges")


class Ledger:
    """The charges of one data set, in their place.

    Copies and pickles are names of the same ledger. A pickle can be loaded where the
    ledger is out of reach (a fitted model on another machine); using it there is an
    error, never a new ledger.

    Parameters
    ----------
    storage : Storage
        Where the ledger is; it exists.
    header : Header
        What the ledger must say of itself; another that took its place is refused.
    """

    def __init__(self, storage: Storage, header: Header):
        self._storage = storage
        self._header = header
        self._temporary = _TEMPORARY.get(storage.place)

    @property
    def path(self) -> str:
        """The file, or the address of the database without a password."""
        return self._storage.place

    @property
    def header(self) -> Header:
        return self._header

    @property
    def identity(self) -> str:
        return self._header.identity

    @property
    def limits(self) -> Limits:
        return self._header.limits

    @classmethod
    def temporary(cls, limits: Limits, **declared: str | None) -> "Ledger":
        """A ledger for as long as this process needs one."""
        folder = _TemporaryFolder()
        path = os.path.join(folder.path, "ledger.sqlite")
        _TEMPORARY[path] = folder
        # It ends with the process, and so with the power.
        return cls._create_or_open(SQLiteStorage(path, outlives_power=False), limits, **declared)

    @classmethod
    def create_or_open(
        cls,
        path: "str | os.PathLike[str]",
        limits: Limits,
        *,
        name: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> "Ledger":
        """The ledger at a path or address; all else is for a new one only.

        In a database, which has many, `name` says which.
        """
        return cls._create_or_open(
            _storage(path, name), limits, name=name, adjacency=adjacency, unit=unit
        )

    @classmethod
    def _create_or_open(
        cls,
        storage: Storage,
        limits: Limits,
        *,
        name: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> "Ledger":
        number = storage.find()
        if number is None:
            created = datetime.now(timezone.utc).isoformat()
            header = Header(uuid.uuid4().hex, limits, created, name, adjacency, unit)
            _check_texts((name, adjacency, unit))
            number = storage.create(header)
        return cls._open(storage, number)

    @classmethod
    def open(cls, path: "str | os.PathLike[str]", name: str | None = None) -> "Ledger":
        """An existing ledger, checked from end to end."""
        storage = _storage(path, name)
        number = storage.find()
        if number is None:
            raise LedgerError(storage.missing())
        return cls._open(storage, number)

    @classmethod
    def _open(cls, storage: Storage, number: int) -> "Ledger":
        with storage.transaction(number, to_write=False) as session:
            session.check_structure()
            header = select_header(session, number)[0]
            Transaction(session, header, storage.place).verify_charges()
        return cls(storage, header)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One consistent view of the ledger."""
        with self._storage.transaction(self._header.number, to_write=False) as session:
            yield Transaction(session, self._header, self.path)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A view that can be appended to; others wait. Leaving it without an error
        returns once it is on disk, and leaving it with one changes nothing.

        Raises
        ------
        ConnectionLostError
            On leaving, or before: nothing was written, and all can be done again.
        """
        with self._storage.transaction(self._header.number, to_write=True) as session:
            transaction = Transaction(session, self._header, self.path)
            yield transaction
        transaction.committed()

    def append_after(
        self,
        position: Position,
        spec: str,
        releases: int,
        label: str | None,
        split: Split | None,
        *,
        key: str,
        is_new: bool = False,
    ) -> Position | None:
        """Write a charge, if the last one is at a position and the key is new; its own position.

        `is_new` says of the key that nobody can have used it. None says that nothing was
        written, and that a look at the ledger is needed. What is written is on disk when this
        returns.

        Raises
        ------
        ConnectionLostError
            Nothing was written, and all can be done again.
        """
        shortcut = self._storage.shortcut()
        checked = _CHECKED.get((self.path, self.identity))
        # What this process has checked is the newest that it knows: a ledger that is back at an
        # earlier position has lost charges, and only a look at it tells.
        if shortcut is not None and checked is not None and checked.position() == position:
            return self._append_unseen(shortcut, checked, spec, releases, label, split, key)
        with self.writing() as transaction:
            if transaction.last() != position:
                return None
            if not is_new and transaction.find(key) is not None:
                return None
            transaction.append(spec, releases, label, split, key=key)
            return transaction.last()

    def _append_unseen(
        self,
        shortcut: Shortcut,
        checked: _Checked,
        spec: str,
        releases: int,
        label: str | None,
        split: Split | None,
        key: str,
    ) -> Position | None:
        rest = _rest_of_entry(spec, releases, label, split, key)
        entry = (checked.entries + 1, "", shortcut.user, *rest)
        _check_texts(entry)
        if _together(entry, checked.sums) > _LARGEST:
            return None  # the longer way says what is wrong, and with which ledger
        written = shortcut.append(self._header, checked.hash, entry)
        if written is None:
            return None
        checked = checked.followed_by(*written)
        _keep_checked((self.path, self.identity), checked)
        return checked.position()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._temporary is not None:
            self._temporary.keep_until_exit()
        return Ledger, (self._storage, self._header)


def _storage(path: "str | os.PathLike[str]", name: str | None) -> Storage:
    if not isinstance(path, str) or not is_url(path):
        path = os.fsdecode(path)
        if looks_like_address(path):
            # A Path has made one slash of two, say. It would be a file named by a password.
            raise LedgerError(
                "the address of a database must be a string that begins with "
                "postgresql+psycopg://; got a path that looks like an address. It is not shown, "
                "since it may hold a password"
            )
        return SQLiteStorage(os.path.realpath(path))
    try:
        from .postgres import PostgresStorage
    except ImportError:
        raise LedgerError(
            "a ledger in a database needs SQLAlchemy and psycopg: pip install skdirdp[postgres]"
        ) from None
    return PostgresStorage(path, name)


def parse_anchor(text: str) -> Position:
    """The number of charges and the hash of an anchor, written as ``COUNT:HASH``.

    Spaces and line ends, as a narrow terminal adds them, are left out.
    """
    match = _ANCHOR.fullmatch("".join(text.split())) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            "an anchor must be COUNT:HASH, a number of charges and 64 hexadecimal digits; got "
            f"{text!r}"
        )
    return int(match[1]), match[2]


def _keep_checked(place: tuple[str, str], checked: _Checked) -> None:
    _CHECKED[place] = checked
    while len(_CHECKED) > _MAX_CHECKED:
        _CHECKED.popitem(last=False)


def _rest_of_entry(
    spec: str, releases: int, label: str | None, split: Split | None, key: str | None
) -> tuple[Any, ...]:
    """The values of `ENTRY` that do not depend on when and by whom it is made."""
    where = (split.identity, split.part, split.name, split.by) if split else ("", "", None, None)
    return uuid.uuid4().hex if key is None else key, spec, releases, label, *where


def _charge(entry: Any) -> Charge:
    id, time, user, key, spec, releases, label, *split = entry
    split = Split(*split) if split[0] else None
    return Charge(id, datetime.fromisoformat(time), user, key, spec, releases, label, split)


def _first(entry: Any) -> First:
    _, _, _, _, spec, releases, *_ = entry
    return spec, releases


def _add(sums: Sums, entry: Any) -> None:
    _, _, _, _, spec, releases, _, split, part, *_ = entry
    sums[split, part, spec] = sums.get((split, part, spec), 0) + releases


def _together(entry: Any, *before: Sums) -> int:
    """How many releases of its kind there are with an entry."""
    _, _, _, _, spec, releases, _, split, part, *_ = entry
    return releases + sum(sums.get((split, part, spec), 0) for sums in before)


def _check_texts(values: tuple[Any, ...]) -> None:
    """Refuse what one of the databases could not give back as it was."""
    for value in values:
        if isinstance(value, str) and ("\0" in value or re.search("[\ud800-\udfff]", value)):
            raise ValueError("a text with a zero or half a character cannot be stored in a ledger")


class _TemporaryFolder:
    """A folder that only this user can read, removed by the process that made it.

    It goes when the last ledger in it does, or at exit.
    """

    def __init__(self) -> None:
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="skdirdp-"))
        weakref.finalize(self, _remove_folder, self.path, os.getpid())

    def keep_until_exit(self) -> None:
        """A pickle may outlive every object of this process, on its way to another."""
        _PICKLED.add(self)


_TEMPORARY: "weakref.WeakValueDictionary[str, _TemporaryFolder]" = weakref.WeakValueDictionary()
_PICKLED: set[_TemporaryFolder] = set()


def _remove_folder(path: str, owner: int) -> None:
    # A forked child inherits this finalizer, but not the folder.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
