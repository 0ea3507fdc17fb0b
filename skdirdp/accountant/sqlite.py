"""A ledger in an SQLite file: one file, one ledger, nothing to install.

Four rules keep the file right:

- **Append only.** Triggers refuse to change or delete anything.
- **No connection outlives an operation, and no fork happens during one.** SQLite must
  not be carried over a fork: a child inherits its memory of file locks but not the
  locks. Opening a connection costs a tenth of a commit, so each operation opens its own.
- **Every operation holds a lock of our own**, which SQLite's locks cannot replace: see
  `skdirdp.accountant.locks`.
- **A ledger is never replaced by an empty one.** A file that is missing, foreign, cut
  short or newer is an error, and stays as it is.
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..reporting.redact import APPLICATION_ID, DRAFT, HEADER_BYTES, SQLITE_MAGIC, companion_of
from . import locks
from .chain import header_hash
from .layout import LAYOUT_VERSION, TABLES, insert_header
from .records import Header, LedgerError, UnusableError
from .version1 import convert

_ROLLBACK_JOURNAL = b"\1\1"
# File systems allow 255 bytes, and files beside the ledger have longer names.
_LONGEST_NAME = 255 - len(f"{DRAFT}-journal")
_MISSING = (
    "the file does not exist. A temporary ledger ends with the process that made it; give the "
    "accountant a path to keep one. What was charged cannot be recovered from here, so no new "
    "ledger was started"
)

# A file is small and read as a whole: one tree for the table and its key.
_TABLES = [sql.strip() + (" WITHOUT ROWID" if "PRIMARY KEY (" in sql else "") for sql in TABLES]
_TRIGGERS = [
    """
    CREATE TRIGGER charges_follow_the_last BEFORE INSERT ON charges
    WHEN NEW.id IS NOT (SELECT entries + 1 FROM heads WHERE ledger = NEW.ledger) BEGIN
        SELECT RAISE(ABORT, 'a charge has to follow the last one');
    END
    """,
    """
    CREATE TRIGGER charges_move_the_head AFTER INSERT ON charges BEGIN
        UPDATE heads SET entries = NEW.id, hash = NEW.hash WHERE ledger = NEW.ledger;
    END
    """,
    """
    CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN
        SELECT RAISE(ABORT, 'a charge cannot be taken back');
    END
    """,
    """
    CREATE TRIGGER charges_do_not_change BEFORE UPDATE ON charges BEGIN
        SELECT RAISE(ABORT, 'a charge cannot be changed');
    END
    """,
    """
    CREATE TRIGGER heads_stay BEFORE DELETE ON heads BEGIN
        SELECT RAISE(ABORT, 'the head of a ledger cannot be removed');
    END
    """,
    """
    CREATE TRIGGER heads_follow_charges BEFORE UPDATE ON heads
    WHEN NEW.ledger IS NOT OLD.ledger OR NEW.entries IS NOT OLD.entries + 1 OR NEW.hash IS NOT
        (SELECT hash FROM charges WHERE ledger = NEW.ledger AND id = NEW.entries) BEGIN
        SELECT RAISE(ABORT, 'the head of a ledger follows its charges');
    END
    """,
    """
    CREATE TRIGGER ledgers_stay BEFORE DELETE ON ledgers BEGIN
        SELECT RAISE(ABORT, 'limits cannot be removed');
    END
    """,
    """
    CREATE TRIGGER ledgers_do_not_change BEFORE UPDATE ON ledgers BEGIN
        SELECT RAISE(ABORT, 'limits cannot be changed');
    END
    """,
    """
    CREATE TRIGGER ledgers_are_alone BEFORE INSERT ON ledgers
    WHEN EXISTS (SELECT 1 FROM ledgers) BEGIN
        SELECT RAISE(ABORT, 'a file has one ledger');
    END
    """,
]


class SQLiteSession:
    """A transaction on the file; see `skdirdp.accountant.layout.Session`."""

    SIGNATURE = "NULL, NULL"

    def __init__(self, connection: sqlite3.Connection, lock: locks.FileLock):
        self.connection = connection
        self._lock = lock
        self.head: tuple[str, int, str] | None = None

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return _run(self.connection, sql, values)

    def sign(self, user: Any, time: Any) -> tuple[str | None, str]:
        return _user(), datetime.now(timezone.utc).isoformat()

    def remembered(self, identity: str) -> tuple[int, str] | None:
        known = self._lock.remembered()
        if known is None:
            return None
        seen, entries, head = known
        if not seen and self.execute("SELECT 1 FROM heads WHERE entries > 0"):
            raise UnusableError(
                f"its lock {self._lock.path} is empty, and it has charges. "
                f"{locks.after_checking(self._lock.path)}"
            )
        if seen != identity and entries > 0:
            raise UnusableError(
                f"another ledger has taken the place of one with {entries} charges, which its "
                f"lock has seen. Put that one back; or, to use this one here, remove "
                f"{self._lock.path}"
            )
        return (entries, head) if seen == identity else None

    def saw(self, identity: str, entries: int, head: str) -> None:
        if self._lock.remembered() not in (None, (identity, entries, head)):
            self._lock.remember(identity, entries, head)

    def remember(self) -> None:
        if self.head is not None:
            self._lock.remember(*self.head)

    def check_structure(self) -> None:
        ((damage,),) = self.execute("PRAGMA integrity_check(1)")
        if damage != "ok":
            raise UnusableError(f"it is damaged: {damage.splitlines()[-1]}")
        if _schema(self.connection) != _expected_schema():
            raise UnusableError("its tables or triggers are not those it was made with")


class SQLiteStorage:
    """The file of one ledger.

    Parameters
    ----------
    path : str
        Absolute.
    """

    def __init__(self, path: str, outlives_power: bool = True):
        self.place = path
        self._outlives_power = outlives_power
        self._lock = locks.lock_of(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return SQLiteStorage, (self.place, self._outlives_power)

    def find(self) -> int | None:
        """The number of the ledger here, or None; remains of its creation are removed."""
        draft = self.place + DRAFT
        with self._explained():
            if len(os.fsencode(os.path.basename(self.place))) > _LONGEST_NAME:
                raise UnusableError(f"its name must have at most {_LONGEST_NAME} bytes")
            # What is not a ledger is refused before a lock is put beside it.
            version = _version(self.place)
            journal = version is not None and os.path.exists(f"{self.place}-journal")
            if os.path.exists(draft) or version == 1 or journal:
                with self._lock.held(to_write=True):
                    _remove(draft)
                    _check_names(self.place)
                    if journal:
                        # Of a crash, perhaps during a conversion, which this takes back.
                        with closing(_connect(self.place)) as connection:
                            _run(connection, "SELECT count(*) FROM sqlite_master")
                    if _version(self.place) == 1:
                        self._convert()
        return None if version is None and not os.path.exists(self.place) else 1

    def missing(self) -> str:
        return self._unusable(_MISSING)

    def create(self, header: Header) -> int:
        """Make a new ledger, all at once, unless somebody else does; its number."""
        with self._explained(), self._lock.held(to_write=True):
            if not os.path.exists(self.place):
                self._check_free()
                draft = self.place + DRAFT
                try:
                    _write_empty(draft, header)
                    self._lock.remember(header.identity, 0, header_hash(header))
                    _give_name(draft, self.place)
                except OSError as error:
                    raise UnusableError(error.strerror or str(error)) from error
                finally:
                    with suppress(OSError):  # a name that is too long, say
                        _remove(draft)
        return 1

    def _check_free(self) -> None:
        """Refuse to make a ledger where it could replace another, or be taken for a file of it."""
        known = self._lock.remembered()
        if known is not None and known[1] > 0:
            raise UnusableError(
                f"a ledger with {known[1]} charges was here, and its file is gone; no "
                f"empty one takes its place. To begin anew, remove {self._lock.path}"
            )
        if self.place.endswith(DRAFT):
            raise UnusableError(f"a name that ends in {DRAFT} is for ledgers that are being made")
        ledger = companion_of(self.place)
        if ledger is not None:
            raise UnusableError(f"the ledger {ledger} keeps a file of this name")
        for ending in ("-journal", "-wal"):
            # SQLite would take it for its own, and change the new ledger by it, or remove it.
            if os.path.lexists(self.place + ending):
                raise UnusableError(
                    f"{self.place}{ending} is there, which is left of another database; use "
                    "another name, or move that file away"
                )

    @contextmanager
    def transaction(self, number: int, *, to_write: bool) -> Iterator[SQLiteSession]:
        """One consistent view. Leaving it without an error returns once the file is on
        disk, if it has to be, and leaving it with one changes nothing."""
        with self._explained(), self._lock.held(to_write=to_write):
            # Before SQLite sees the file: it would roll back another database's journal.
            # Inside the lock: closing a file drops SQLite's own locks in this process.
            _check_header(self.place)
            with closing(_connect(self.place, self._outlives_power)) as connection:
                session = SQLiteSession(connection, self._lock)
                # IMMEDIATE takes the right to write before the first read, so that what is
                # read still holds when it is written, even if somebody ignores our lock.
                _run(connection, "BEGIN IMMEDIATE" if to_write else "BEGIN")
                try:
                    yield session
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
                session.remember()

    def shortcut(self) -> None:
        """None: the file is near, and a look at it before it is written costs little."""
        return None

    def _convert(self) -> None:
        known = self._lock.remembered()
        if known is not None and known[1] > 0:
            raise UnusableError(
                f"it is older than the ledger with {known[1]} charges that was here. "
                f"{locks.after_checking(self._lock.path)}"
            )
        with closing(_connect(self.place)) as connection:
            _run(connection, "BEGIN IMMEDIATE")
            session = SQLiteSession(connection, self._lock)
            convert(session, lambda: _make_tables(connection))
            connection.execute("COMMIT")
            session.remember()
        # Version 0.1 left the mode to the umask. Where a group may write, somebody meant it to.
        mode = os.stat(self.place).st_mode
        with suppress(PermissionError):
            os.chmod(self.place, mode & (0o660 if mode & 0o060 == 0o060 else 0o600))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever is wrong, as one kind of error that names the file."""
        try:
            yield
        except UnusableError as error:
            raise LedgerError(self._unusable(str(error))) from error.__cause__
        except sqlite3.Error as error:
            raise LedgerError(self._unusable(_explain(error))) from error

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.place} cannot be used: {reason}; the file is left as it is"


def _connect(path: str, outlives_power: bool = True) -> sqlite3.Connection:
    # mode=rw: open what exists, never create.
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=locks.BUSY_SECONDS, isolation_level=None)
    # The rollback journal, not the write-ahead log: with the latter, charges may
    # live in a second file after a crash, and whoever copies the ledger alone loses
    # them; nor does it work on network file systems. EXTRA waits for the disk at
    # every commit, and for the folder entry of the removed journal too; without
    # that a power failure could still take a commit back. OFF is safe against everything
    # but that: what a killed process has committed stays.
    _run(connection, f"PRAGMA synchronous = {'EXTRA' if outlives_power else 'OFF'}")
    return connection


def _run(
    connection: sqlite3.Connection, sql: str, values: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(sql, values or {}).fetchall()
    except (UnicodeDecodeError, MemoryError) as error:
        # Of damaged bytes: names in SQLite's messages, and sizes that cannot be.
        raise UnusableError("it is damaged: it holds what cannot be read") from error


def _version(path: str) -> int | None:
    """The version of the layout, or None if there is no file."""
    return _version_in(_first_bytes(path)) if os.path.exists(path) else None


def _check_header(path: str) -> None:
    _check_names(path)
    header = _first_bytes(path)
    version = _version_in(header)
    if version != LAYOUT_VERSION:
        raise UnusableError(
            f"its layout has version {version}, and this skdirdp knows {LAYOUT_VERSION}; "
            "use the version of skdirdp that wrote it, or a newer one"
        )
    if header[18:20] != _ROLLBACK_JOURNAL:
        raise UnusableError(
            "its journal is a write-ahead log, with which charges can live in another file; "
            "PRAGMA journal_mode = DELETE undoes that"
        )


def _check_names(path: str) -> None:
    """Refuse a file with several names. Each would have its own lock, and its own journal: after
    a crash, that of one name takes back what was charged under the other."""
    with suppress(OSError):
        names = os.stat(path).st_nlink
        if names > 1:
            raise UnusableError(
                f"the file has {names} names (hard links). Keep the one that the ledger was used "
                "by last, remove the others, and copy it where it is needed elsewhere"
            )


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            return file.read(HEADER_BYTES)
    except FileNotFoundError:
        raise UnusableError(_MISSING) from None
    except OSError as error:
        raise UnusableError(error.strerror or str(error)) from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for somebody who writes into it, as for a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _version_in(header: bytes) -> int:
    if len(header) < HEADER_BYTES:
        raise UnusableError(f"it was cut short or never was a ledger: {len(header)} bytes long")
    if not header.startswith(SQLITE_MAGIC):
        raise UnusableError("it is not an SQLite database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise UnusableError("it is an SQLite database of another program")
    return int.from_bytes(header[60:64], "big")


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in (*_TABLES, *_TRIGGERS):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


def _schema(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    return set(_run(connection, "SELECT type, name, tbl_name, sql FROM sqlite_master"))


@lru_cache(maxsize=1)
def _expected_schema() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _make_tables(connection)
        return _schema(connection)


def _write_empty(path: str, header: Header) -> None:
    """A new file that only its owner can read or write."""
    _remove(path)  # of a creation that was killed: whoever makes a ledger holds the lock
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN")
        _make_tables(connection)
        insert_header(SQLiteSession(connection, locks.FileLock(path)), header)
        connection.execute("COMMIT")


def _give_name(draft: str, path: str) -> None:
    with suppress(FileExistsError):  # by somebody without the lock; that file is the one to open
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links; the lock keeps others away
            os.rename(draft, path)
    if hasattr(os, "O_DIRECTORY"):
        # The name, too, has to be on disk before the first charge counts.
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove(draft: str) -> None:
    for path in (draft, f"{draft}-journal"):
        Path(path).unlink(missing_ok=True)


def _user() -> str | None:
    """The name of the process's user, from the system: variables of the environment can lie."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
    except ImportError:  # Windows
        return os.environ.get("USERNAME")


def _explain(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"another process kept it locked for more than {locks.BUSY_SECONDS:g} seconds"
    # What follows is the content of the file.
    return re.sub(r"( -)? (with text|unrecognized token:|near) .*", "", str(error), flags=re.DOTALL)
