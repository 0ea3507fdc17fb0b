"""The ledger: an SQLite file of charges that many processes can append to.

Storage only. What a charge means, and whether it fits a limit, is decided in
`skdirdp.accountant`; here it is a text, a number of releases and a label.

Three rules keep the file right:

- **Append only.** Charges are inserted, and a trigger adds them to a table of sums
  per kind, in the same transaction. Nothing updates or deletes a charge.
- **No connection outlives an operation, and no fork happens during one.** SQLite
  must not be carried over a fork: a child inherits its memory of file locks but not
  the locks. Opening a connection costs a tenth of a commit, so each operation opens
  its own, under a lock that forks wait for.
- **A ledger is never replaced by an empty one.** A file that is missing, foreign,
  cut short or newer is an error, and stays as it is.
"""

import os
import shutil
import sqlite3
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Written into the header of every ledger: "DirP" in ASCII, and the layout's version.
APPLICATION_ID = 0x44697250
LAYOUT_VERSION = 1

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_BUSY_SECONDS = 60.0

_LAYOUT = f"""
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT_VERSION};

CREATE TABLE ledger (
    identity TEXT NOT NULL,
    epsilon REAL,
    delta REAL NOT NULL,
    renyi_order REAL
);

-- `split` and `part` are empty for charges on the whole data set; else they say which
-- split into disjoint parts, and which of its parts.
CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    spec TEXT NOT NULL,
    releases INTEGER NOT NULL CHECK (typeof(releases) = 'integer' AND releases >= 1),
    label TEXT,
    split TEXT NOT NULL,
    part TEXT NOT NULL,
    split_name TEXT,
    split_by TEXT
);

CREATE TABLE sums (
    split TEXT NOT NULL,
    part TEXT NOT NULL,
    spec TEXT NOT NULL,
    releases INTEGER NOT NULL CHECK (typeof(releases) = 'integer' AND releases >= 1),
    PRIMARY KEY (split, part, spec)
) WITHOUT ROWID;

CREATE TRIGGER charges_are_summed AFTER INSERT ON charges BEGIN
    INSERT INTO sums (split, part, spec, releases)
    VALUES (NEW.split, NEW.part, NEW.spec, NEW.releases)
    ON CONFLICT (split, part, spec) DO UPDATE SET releases = releases + excluded.releases;
END;

CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN
    SELECT RAISE(ABORT, 'a charge cannot be taken back');
END;

CREATE TRIGGER charges_do_not_change BEFORE UPDATE ON charges BEGIN
    SELECT RAISE(ABORT, 'a charge cannot be changed');
END;
"""


class LedgerError(ValueError):
    """The file of a ledger is missing, not a ledger, damaged, or cannot be written.

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


@dataclass(frozen=True)
class Limits:
    """What a ledger was created with; `epsilon` is None when there is no limit."""

    epsilon: float | None
    delta: float
    order: float | None


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts that a data set is split into, and by what."""

    identity: str
    part: str
    name: str
    by: str


@dataclass(frozen=True)
class Charge:
    """One row of the ledger."""

    time: datetime
    spec: str
    releases: int
    label: str | None
    split: Split | None


# (identity of a split or "", name of a part or "", spec) -> number of releases
Sums = dict[tuple[str, str, str], int]


class Transaction:
    """Reads and writes that no other process can come between."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection

    def sums(self) -> Sums:
        """The number of releases charged, per part and kind."""
        rows = self._connection.execute("SELECT split, part, spec, releases FROM sums")
        return {(split, part, spec): releases for split, part, spec, releases in rows}

    def count(self) -> int:
        return self._connection.execute("SELECT COUNT(*) FROM charges").fetchone()[0]

    def charges(self) -> list[Charge]:
        rows = self._connection.execute(
            "SELECT time, spec, releases, label, split, part, split_name, split_by"
            " FROM charges ORDER BY id"
        )
        return [
            Charge(
                datetime.fromisoformat(time),
                spec,
                releases,
                label,
                Split(*split) if split[0] else None,
            )
            for time, spec, releases, label, *split in rows
        ]

    def append(self, spec: str, releases: int, label: str | None, split: Split | None) -> None:
        where = (
            (split.identity, split.part, split.name, split.by) if split else ("", "", None, None)
        )
        self._connection.execute(
            "INSERT INTO charges (time, spec, releases, label, split, part, split_name, split_by)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (datetime.now(timezone.utc).isoformat(), spec, releases, label, *where),
        )


class Ledger:
    """The file of one data set's charges.

    Copies and pickles are names of the same file. A pickle can be loaded where the
    file is out of reach (a fitted model on another machine); using it there is an
    error, never a new ledger.

    Parameters
    ----------
    path : str
        Absolute, of a file that exists.
    identity : str
        What the file must call itself; a file that took its place is refused.
    limits : Limits
    """

    def __init__(self, path: str, identity: str, limits: Limits):
        self.path = path
        self.identity = identity
        self.limits = limits
        self._temporary = _TEMPORARY.get(path)

    @classmethod
    def temporary(cls, limits: Limits) -> "Ledger":
        """A ledger for as long as this process needs one."""
        folder = _TemporaryFolder()
        path = os.path.join(folder.path, "ledger.sqlite")
        _TEMPORARY[path] = folder
        _create(path, limits)
        return cls.open(path)

    @classmethod
    def create_or_open(cls, path: "str | os.PathLike[str]", limits: Limits) -> "Ledger":
        """The ledger at a path; `limits` are for a new one only."""
        path = os.path.realpath(os.fspath(path))
        if not os.path.exists(path):
            _create(path, limits)
        return cls.open(path)

    @classmethod
    def open(cls, path: str) -> "Ledger":
        """The ledger in an existing file, checked from end to end."""
        with _connected(path) as connection:
            damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise LedgerError(_unusable(path, f"it is damaged: {damage}"))
            identity, limits = _identity(connection)
        return cls(path, identity, limits)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One consistent view of the ledger."""
        with self._transaction("BEGIN") as transaction:
            yield transaction

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A view that can be appended to; others wait. Leaving it without an error
        returns once the file is on disk, and leaving it with one changes nothing."""
        # IMMEDIATE takes the right to write before the first read, so that what is
        # read here still holds when it is written.
        with self._transaction("BEGIN IMMEDIATE") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with _connected(self.path) as connection:
            connection.execute(begin)
            try:
                if _identity(connection)[0] != self.identity:
                    raise LedgerError(
                        _unusable(self.path, "another ledger has taken the place of this one")
                    )
                yield Transaction(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._temporary is not None:
            self._temporary.keep_until_exit()
        return Ledger, (self.path, self.identity, self.limits)


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


# Held while a connection is open, and by the thread that forks.
_OPERATION = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_OPERATION.acquire,
        after_in_parent=_OPERATION.release,
        after_in_child=_OPERATION.release,
    )


@contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    with _OPERATION:
        # Before SQLite sees the file: it would roll back another database's journal.
        # Inside the lock: closing a file drops the locks that SQLite holds on it
        # anywhere in the process.
        _check_header(path)
        try:
            with closing(_connect(path)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(_unusable(path, _explain(error))) from error


def _connect(path: str) -> sqlite3.Connection:
    # mode=rw: open what exists, never create.
    uri = f"file:{quote(path)}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    # The rollback journal, not the write-ahead log: with the latter, charges may
    # live in a second file after a crash, and whoever copies the ledger alone loses
    # them; nor does it work on network file systems. EXTRA waits for the disk at
    # every commit, and for the folder entry of the removed journal too; without
    # that a power failure could still take a commit back.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _check_header(path: str) -> None:
    try:
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        raise LedgerError(
            _unusable(
                path,
                "the file does not exist. A temporary ledger ends with the process that made "
                "it; give the accountant a path to keep one. What was charged cannot be "
                "recovered from here, so no new ledger was started",
            )
        ) from None
    except OSError as error:
        raise LedgerError(_unusable(path, str(error))) from error
    if len(header) < _HEADER_BYTES:
        raise LedgerError(
            _unusable(path, f"it was cut short or never was a ledger: {len(header)} bytes long")
        )
    if not header.startswith(_SQLITE_MAGIC):
        raise LedgerError(_unusable(path, "it is not an SQLite database"))
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise LedgerError(_unusable(path, "it is an SQLite database of another program"))
    version = int.from_bytes(header[60:64], "big")
    if version != LAYOUT_VERSION:
        raise LedgerError(
            _unusable(
                path,
                f"its layout has version {version}, and this skdirdp knows {LAYOUT_VERSION}; "
                "use the version of skdirdp that wrote it, or a newer one",
            )
        )


def _identity(connection: sqlite3.Connection) -> tuple[str, Limits]:
    row = connection.execute("SELECT identity, epsilon, delta, renyi_order FROM ledger").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("no identity in it")
    identity, epsilon, delta, order = row
    return identity, Limits(epsilon, delta, order)


def _create(path: str, limits: Limits) -> None:
    """Make a new ledger, all at once: other processes see nothing or the whole."""
    identity = uuid.uuid4().hex
    draft = f"{path}.new-{identity}"
    with _OPERATION:
        try:
            _write_empty(draft, identity, limits)
            _give_name(draft, path)
        except sqlite3.Error as error:
            raise LedgerError(_unusable(path, _explain(error))) from error
        finally:
            Path(draft).unlink(missing_ok=True)


def _write_empty(path: str, identity: str, limits: Limits) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.executescript(_LAYOUT)
        connection.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?)",
            (identity, limits.epsilon, limits.delta, limits.order),
        )
        connection.execute("COMMIT")


def _give_name(draft: str, path: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was faster; its ledger is the one to open
    except OSError:  # a file system without hard links
        with open(path, "xb") as file:
            file.write(Path(draft).read_bytes())
            file.flush()
            os.fsync(file.fileno())


def _explain(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"another process kept it locked for more than {_BUSY_SECONDS:g} seconds"
    return str(error)


def _unusable(path: str, reason: str) -> str:
    return f"the ledger {path} cannot be used: {reason}; the file is left as it is"
