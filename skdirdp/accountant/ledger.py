"""Append-only ledger of charges that is shared by many processes.

The same code serves SQLite files and PostgreSQL databases; a storage backend only opens
transactions, and only one transaction can write at a time. Every entry is checked against the hash
chain when a process first reads it. A process keeps the number of releases per part and kind in
the entries that it has checked, and then reads only newer entries.
"""

import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, Union

from ..reporting.redact import is_url, looks_like_database_url
from . import schema
from .codec import COPIED, MERGED, Entry, to_entries
from .sqlite import SQLiteStorage

if TYPE_CHECKING:
    from .postgres import PostgresStorage

Storage = Union[SQLiteStorage, "PostgresStorage"]
_MAX_INTEGER = 2**63 - 1
_ANCHOR = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True)
class _CheckedPrefix:
    """Number of releases per part and kind in the first entries of a ledger, which were checked."""

    n_entries: int
    hash: str
    sums: schema.Sums
    first: schema.First | None = None


# Keyed by the location and identity of a ledger. Values stay valid because a ledger is append-only.
_CHECKED: "OrderedDict[tuple[str, str], _CheckedPrefix]" = OrderedDict()
_MAX_CHECKED = 256


class Transaction:
    """Reads and writes of a ledger. Only one transaction at a time can write."""

    def __init__(self, session: schema.Session, header: schema.Header, location: str):
        self._session = session
        self._header = header
        self._key = (location, header.identity)
        start = _CheckedPrefix(0, schema.header_hash(header), {})
        # Looked up before the ledger is read, so the ledger contains all entries checked so far.
        self._checked = _CHECKED.get(self._key, start)
        found, self.n_entries, self.hash, self._user_and_time = schema.select_header(
            session, header.number
        )
        if found.identity != header.identity:
            raise schema.UnusableError("it was replaced by another ledger")
        if found != header:
            raise schema.UnusableError("its limit or another value in its header was changed")
        self._has_written = False
        known = [("this process", self._checked.n_entries, self._checked.hash)]
        stored = self._session.stored_head(self._header.identity)
        if stored is not None:
            known.append(("its lock file", *stored))
        for who, n_entries, head in known:
            if type(self.n_entries) is not int or self.n_entries < n_entries:
                raise schema.UnusableError(
                    f"charges are missing: it has {self.n_entries}, but {who} recorded {n_entries}"
                )
            if self.n_entries == n_entries and self.hash != head:
                raise schema.UnusableError(f"its charges differ from those that {who} recorded")
        if self.n_entries == 0 and self.hash != start.hash:
            raise schema.UnusableError("its limit or another value in its header was changed")

    def sums(self) -> schema.Sums:
        """Return the number of charged releases per part and kind."""
        return self._catch_up().sums

    def first_kind(self) -> schema.First | None:
        """Return the kind of the first charge, and its number of releases."""
        return self._catch_up().first

    def last_position(self) -> schema.Position:
        """Return the position of the last charge."""
        return (self.n_entries, self.hash) if self.n_entries else schema.NOTHING

    def sums_since(self, position: schema.Position) -> schema.Sums | None:
        """Return the sums after a position, or None if a different charge is at that position."""
        n_entries, head = position
        if position != schema.NOTHING:
            row = schema.select_charges(
                self._session, self._header.number, n_entries - 1, n_entries
            )
            if not row or row[0][-1] != head:  # a copy of the ledger, for example
                return None
        sums: schema.Sums = {}
        for entry, _ in self._entries_after(n_entries, head):
            _add(sums, entry)
        return sums

    def charges(self) -> list[schema.Charge]:
        return [_charge(entry) for entry, _ in self._entries_after(0)]

    def find(self, key: str) -> schema.Charge | None:
        self._catch_up()
        rows = schema.select_by_key(self._session, self._header.number, key)
        return _charge(rows[0]) if rows else None

    def append(
        self,
        spec: str,
        releases: int,
        label: str | None,
        split: schema.Split | None,
        *,
        key: str | None = None,
        time: datetime | None = None,
        user: str | None = None,
    ) -> schema.Position:
        """Append a charge, by default with the current time and user, and return its position."""
        checked = self._catch_up()
        if releases > _MAX_INTEGER:
            raise OverflowError(f"releases must be at most {_MAX_INTEGER}; got {releases}")
        current_user, now = self._user_and_time
        entry = (
            self.n_entries + 1,
            now if time is None else time.astimezone(timezone.utc).isoformat(),
            current_user if user is None else user,
            uuid.uuid4().hex if key is None else key,
            *(spec, releases, label),
            *(astuple(split) if split else ("", "", None, None)),
        )
        _check_storable(entry)
        # Copied once per transaction, because the cache still refers to the committed sums.
        sums = checked.sums if self._has_written else dict(checked.sums)
        first = _add(sums, entry, checked.first)
        if sums[entry[7], entry[8], spec] > _MAX_INTEGER:
            raise schema.UnusableError(
                f"it cannot store more than {_MAX_INTEGER} releases of one kind"
            )
        head = schema.entry_hash(self.hash, entry)
        schema.insert_charge(self._session, self._header, entry, head)
        self.n_entries, self.hash, self._has_written = entry[0], head, True
        self._checked = _CheckedPrefix(entry[0], head, sums, first)
        return self.last_position()

    def append_new(self, entries: Iterable[Entry], *, is_copy: bool) -> int:
        """Write the entries that the ledger lacks, and return their number."""
        # They are marked as copied if another ledger with the same limit admitted them, and as
        # merged otherwise.
        charges = self.charges()
        known = set(to_entries(self._header.identity, charges))
        new = {entry: entry for entry in entries if entry not in known}
        keys = {charge.key for charge in charges}
        for entry in new.values():
            prefix = COPIED if is_copy and not entry.merged else MERGED
            charge = entry.charge
            candidates = (f"{prefix}/{entry.origin}/{attempt}/{charge.key}" for attempt in count())
            key = next(key for key in candidates if key not in keys)
            keys.add(key)
            arguments = (charge.spec, charge.releases, charge.label, charge.split)
            # An unknown user stays unknown, and is not replaced by the current one.
            self.append(*arguments, key=key, time=charge.time, user=charge.user or "")
        return len(new)

    def verify(self, expect: schema.Position | None = None) -> int:
        """Check the tables and all charges, and return the number of charges."""
        # `expect` is an earlier position (number of charges, hash) that the ledger must contain.
        self._session.check_structure()
        return self.verify_charges(expect)

    def verify_charges(self, expect: schema.Position | None = None) -> int:
        """Check all charges, including those checked before, and return their number."""
        if expect == (0, schema.header_hash(self._header)):
            expect = None
        stored = self._session.stored_head(self._header.identity)
        sums: schema.Sums = {}
        first: schema.First | None = None
        for entry, head in self._entries_after(0):
            first = _add(sums, entry, first)
            stored = None if stored == (entry[0], head) else stored
            expect = None if expect == (entry[0], head) else expect
        if stored is not None and stored[0] > 0:
            raise schema.UnusableError("its charges differ from those that its lock file recorded")
        if expect is not None:
            raise schema.UnusableError(
                f"charges are missing: it has {self.n_entries}, but {expect[0]} are expected"
                if expect[0] > self.n_entries
                else f"its first {expect[0]} charges, or its limit, differ from those expected"
            )
        if not self._has_written:
            self._keep(_CheckedPrefix(self.n_entries, self.hash, sums, first))
            self._session.store_head(self._header.identity, self.n_entries, self.hash)
        return self.n_entries

    def _catch_up(self) -> _CheckedPrefix:
        """Check the charges that are new to this process."""
        if self._checked.n_entries < self.n_entries:
            sums, first = dict(self._checked.sums), self._checked.first
            for entry, _ in self._entries_after(self._checked.n_entries, self._checked.hash):
                first = _add(sums, entry, first)
            self._keep(_CheckedPrefix(self.n_entries, self.hash, sums, first))
        return self._checked

    def on_commit(self) -> None:
        """Keep the sums of committed charges, which need not be read again."""
        if self._has_written:
            self._keep(self._checked)

    def _keep(self, checked: _CheckedPrefix) -> None:
        self._checked = _CHECKED[self._key] = checked
        while len(_CHECKED) > _MAX_CHECKED:
            _CHECKED.popitem(last=False)

    def _entries_after(self, n_entries: int, head: str = "") -> Iterator[tuple[Any, str]]:
        """Yield the entries after a position with their hashes, and check them up to the head."""
        head = head or schema.header_hash(self._header)
        rows = schema.select_charges(self._session, self._header.number, n_entries, self.n_entries)
        for *entry, stored in rows:
            n_entries += 1
            if entry[0] != n_entries or type(entry[0]) is not int:
                raise schema.UnusableError(f"charge {n_entries} is missing or out of order")
            try:
                head = schema.entry_hash(head, entry)
            except TypeError:  # bytes in place of text
                head = ""
            if stored != head:
                raise schema.UnusableError(
                    f"charge {n_entries} was changed, or is not the one that followed "
                    + (f"charge {n_entries - 1}" if n_entries > 1 else "the header")
                )
            if damage := _find_damage(entry):
                raise schema.UnusableError(f"charge {n_entries} is invalid: {damage}")
            yield entry, head
        if n_entries != self.n_entries:
            raise schema.UnusableError(
                f"charges are missing: it has {n_entries}, but should have {self.n_entries}"
            )
        if head != self.hash:
            raise schema.UnusableError("its stored last hash does not match its charges")


def _find_damage(entry: Sequence[Any]) -> str | None:
    """Describe the first invalid value of an entry; SQLite does not enforce column types."""
    _, time, user, key, spec, releases, label, split, part, name, by = entry
    texts = [time, key, spec, split, part, *(v for v in (user, label, name, by) if v is not None)]
    if not all(isinstance(text, str) for text in texts):
        return "expected a string, but found another type"
    if type(releases) is not int or releases < 1:
        return "its number of releases is not a positive integer"
    try:
        at = datetime.fromisoformat(time)
        at.astimezone(timezone.utc)  # raises OverflowError near datetime.min and datetime.max
        has_zone = at.tzinfo is not None
    except (ValueError, OverflowError):
        has_zone = False
    if not has_zone:
        return "its time is not an ISO 8601 time with a time zone"
    is_part = name is not None and by in schema.SPLIT_BY
    is_whole = part == "" and name is None and by is None
    if not (is_part if split else is_whole):
        return "it refers neither to the whole data set nor to a part"
    return None


class Ledger:
    """Charges of one data set.

    Copies and pickles refer to the same ledger. A pickle can be loaded where the ledger is not
    accessible; using it there raises an error and never creates a new ledger.
    """

    def __init__(self, storage: Storage, header: schema.Header):
        self._storage = storage
        self.header = header
        self.identity = header.identity
        self.path = storage.location  # path of the file, or URL without the password
        self._temporary = _TEMPORARY.get(storage.location)

    @classmethod
    def create_or_open(
        cls,
        path: "str | os.PathLike[str] | None",
        limit: schema.LimitParameters,
        *,
        name: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ) -> "Ledger":
        """Return the ledger at a path or address, or a temporary one, and create it if needed."""
        created = datetime.now(timezone.utc).isoformat()
        _check_storable((name, adjacency, unit))
        header = schema.Header(uuid.uuid4().hex, limit, created, name, adjacency, unit)
        return cls._create_or_open(path, header)

    @classmethod
    def _create_or_open(
        cls, path: "str | os.PathLike[str] | None", header: schema.Header
    ) -> "Ledger":
        if path is None:
            folder = _TemporaryFolder()  # keeps the folder alive until the ledger refers to it
            storage: Storage = SQLiteStorage(folder.file, survives_power_loss=False)
            number = None
        else:
            storage = open_storage(path, header.name)
            number = storage.find()
        return cls._open(storage, storage.create(header) if number is None else number)

    @classmethod
    def open(cls, path: "str | os.PathLike[str]", name: str | None = None) -> "Ledger":
        """Return an existing ledger after checking all of it."""
        storage = open_storage(path, name)
        number = storage.find()
        if number is None:
            raise schema.LedgerError(storage.missing())
        return cls._open(storage, number)

    @classmethod
    def _open(cls, storage: Storage, number: int) -> "Ledger":
        with storage.transaction(number, write=False) as session:
            session.check_structure()
            header = schema.select_header(session, number)[0]
            Transaction(session, header, storage.location).verify_charges()
        return cls(storage, header)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a consistent view of the ledger."""
        with self._storage.transaction(self.header.number, write=False) as session:
            yield Transaction(session, self.header, self.path)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open a writable view of the ledger, while other processes wait."""
        # On normal exit, the charges are on disk; after an error, nothing is changed.
        with self._storage.transaction(self.header.number, write=True) as session:
            transaction = Transaction(session, self.header, self.path)
            yield transaction
        transaction.on_commit()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._temporary is not None:
            _PICKLED.add(self._temporary)
        return Ledger, (self._storage, self.header)


def open_storage(path: "str | os.PathLike[str]", name: str | None) -> Storage:
    if not isinstance(path, str) or not is_url(path):
        path = os.fsdecode(path)
        if looks_like_database_url(path):
            # For example, `Path` replaces `//` by `/`. The path could contain a password.
            raise schema.LedgerError(
                "the URL of a database must be a string that begins with postgresql+psycopg://"
                "; got a path that looks like a URL (hidden, as it may contain a password)"
            )
        return SQLiteStorage(os.path.realpath(path))
    try:
        from .postgres import PostgresStorage
    except ImportError:
        raise schema.LedgerError(
            "a ledger in a database needs SQLAlchemy and psycopg: pip install skdirdp[postgres]"
        ) from None
    return PostgresStorage(path, name)


def parse_anchor(text: str) -> schema.Position:
    """Parse an anchor ``COUNT:HASH``, ignoring whitespace, into the number of charges and hash."""
    match = _ANCHOR.fullmatch("".join(text.split())) if isinstance(text, str) else None
    if match is None:
        wanted = "COUNT:HASH, a number of charges and 64 hexadecimal digits"
        raise ValueError(f"an anchor must be {wanted}; got {text!r}")
    return int(match[1]), match[2]


def _charge(entry: Any) -> schema.Charge:
    id, time, user, key, spec, releases, label, *split = entry
    split = schema.Split(*split) if split[0] else None
    return schema.Charge(id, datetime.fromisoformat(time), user, key, spec, releases, label, split)


def _add(sums: schema.Sums, entry: Any, first: schema.First | None = None) -> schema.First:
    """Add an entry to sums; return its kind and number of releases, or the given first ones."""
    _, _, _, _, spec, releases, _, split, part, *_ = entry
    sums[split, part, spec] = sums.get((split, part, spec), 0) + releases
    return first or (spec, releases)


def _check_storable(values: tuple[Any, ...]) -> None:
    """Raise an error for strings that one of the databases would not return unchanged."""
    for value in values:
        if isinstance(value, str) and ("\0" in value or re.search("[\ud800-\udfff]", value)):
            raise ValueError(
                "a string with a null character or a lone surrogate cannot be stored in a ledger"
            )


class _TemporaryFolder:
    """Folder that only this user can read, and that the process that created it removes."""

    def __init__(self) -> None:
        path = os.path.realpath(tempfile.mkdtemp(prefix="skdirdp-"))
        weakref.finalize(self, _remove_folder, path, os.getpid())
        self.file = os.path.join(path, "ledger.sqlite")
        _TEMPORARY[self.file] = self


_TEMPORARY: "weakref.WeakValueDictionary[str, _TemporaryFolder]" = weakref.WeakValueDictionary()
# Kept until exit, because a pickle may be loaded after all ledger objects are deleted.
_PICKLED: set[_TemporaryFolder] = set()


def _remove_folder(path: str, owner: int) -> None:
    # A forked child inherits this finalizer, but does not own the folder.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
