"""Ledger in an SQLite file, and the lock that protects it.

Triggers prevent changes and deletions, and a ledger is never replaced by an empty one. Each
operation opens its own connection, and no fork happens during one: a child inherits the memory of
file locks but not the locks. Each operation also holds `flock` on a second file. SQLite uses POSIX
locks, which the process loses when any thread closes any descriptor of the file, as a backup does;
a flock stays until its own file is closed. Windows needs none: there, locks belong to the handle. A
network file system must support flock between machines.
"""

import errno
import os
import re
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..reporting.redact import APPLICATION_ID, DRAFT_SUFFIX, HEADER_BYTES, SQLITE_MAGIC, ledger_of
from . import schema

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUSY_SECONDS = 60.0  # longest wait for another process or thread
_MIN_PAUSE, _MAX_PAUSE = 0.0002, 0.01
_NEW_LOCK_SECONDS = 2.0  # longest wait for the content of a lock that another process creates
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_NO_LOCK_TO_READ = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # do not wait for the writer of a pipe
_UNKNOWN = ("-", 0, "-")  # content of a new lock
_ROLLBACK_JOURNAL = b"\1\1"
# The part of a message of SQLite that shows content of the file.
_FILE_CONTENT = re.compile(r"( -)? (with text|unrecognized token:|near) .*", re.DOTALL)
_MAX_NAME_BYTES = 255 - len(f"{DRAFT_SUFFIX}-journal")  # the longest name next to the ledger
_MISSING = (
    "the file does not exist. A temporary ledger ends with the process that created it; pass a "
    "path to the accountant to keep one. The charges cannot be recovered from here, so no new "
    "ledger was created"
)


class _Gate:
    """Gate that lets operations of many threads run concurrently, and forks only between them.

    A child would inherit locks and connections, but not the thread that would release them. The
    gate has no lock that an interrupt could leave locked: a thread first announces itself and
    then looks for a fork, a fork announces itself and then looks for threads, so that one of the
    two sees the other.
    """

    def __init__(self) -> None:
        self._inside: dict[int, int] = {}
        self._forking: dict[str, int] = {}

    @contextmanager
    def operation(self) -> Iterator[None]:
        me = threading.get_ident()
        depth = self._inside.get(me, 0)
        try:
            self._inside[me] = depth + 1
            while not depth and self._forking.get("thread", me) != me:
                self._inside.pop(me, None)
                time.sleep(_MIN_PAUSE)
                self._inside[me] = 1
            yield
        finally:
            if depth:
                self._inside[me] = depth
            else:
                self._inside.pop(me, None)

    def close(self) -> None:
        """Wait for all operations, except those of threads that have ended."""
        me = threading.get_ident()
        while self._forking.setdefault("thread", me) != me:
            time.sleep(_MIN_PAUSE)
        while any(thread != me and thread in sys._current_frames() for thread in [*self._inside]):
            time.sleep(_MIN_PAUSE)

    def open(self) -> None:
        self._forking.clear()


GATE = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=GATE.close, after_in_parent=GATE.open, after_in_child=GATE.open)


class FileLock:
    """Lock of a ledger file, and the head of the ledger that the lock file stores.

    There is one per path in a process; see `file_lock`. A thread may hold it several times.
    """

    def __init__(self, path: str):
        self._ledger = path
        self.path = f"{path}.lock"
        self._owner: dict[str, int] = {}
        self._depth = 0
        self._file: FileIO | None = None

    @contextmanager
    def held(self, *, write: bool) -> Iterator[None]:
        """Exclude others, also from reading: with shared locks, readers could starve writers."""
        # An interrupt may come at any moment, also before this thread owns the lock.
        me = threading.get_ident()
        depth = self._depth if self._owner.get("thread") == me else 0
        with GATE.operation():
            try:
                if depth == 0:
                    deadline = time.monotonic() + BUSY_SECONDS
                    for _ in _attempts(deadline, "thread"):
                        if self._owner.setdefault("thread", me) == me:
                            break
                    if fcntl is not None:
                        self._wait_for_processes(write, deadline)
                self._depth = depth + 1
                yield
            finally:
                if self._owner.get("thread") == me:
                    self._depth = depth
                    if depth == 0:
                        file, self._file = self._file, None
                        self._owner.pop("thread", None)
                        if file is not None:
                            file.close()

    def _wait_for_processes(self, write: bool, deadline: float) -> None:
        """Lock the file. Without the permission to do so, read under SQLite's own locks."""
        # Then no charge is committed while reading, so the stored head is not newer than the
        # ledger. If the file was replaced before it was locked, others lock a new one. A FileIO
        # that is lost closes itself, and so unlocks.
        while True:
            try:
                self._file = FileIO(self._open(), "r+")
            except OSError as error:
                if error.errno in _NO_LOCK_TO_READ and not write:
                    with suppress(OSError):
                        self._file = FileIO(os.open(self.path, _READ_ONLY), "r")
                    return
                raise schema.UnusableError(f"its lock {self.path}: {error.strerror}") from error
            descriptor = self._file.fileno()
            for _ in _attempts(deadline, "process"):
                if _flock(descriptor):
                    break
            if self._is_current(descriptor):
                ready_by = time.monotonic() + _NEW_LOCK_SECONDS
                while os.fstat(descriptor).st_size == 0 and time.monotonic() < ready_by:
                    time.sleep(_MAX_PAUSE)
                return
            self._file.close()
            self._file = None

    def _open(self) -> int:
        """Open the lock file, or create it with content that is on disk."""
        # Later an empty lock counts as damaged. All users of the ledger may lock it, as SQLite
        # handles its journals.
        flags = _READ_ONLY | os.O_RDWR
        while True:
            with suppress(FileNotFoundError):
                return os.open(self.path, flags)
            try:
                descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue  # another process was faster
            try:
                os.pwrite(descriptor, _lock_content(*_UNKNOWN), 0)
                os.fsync(descriptor)
            except OSError:  # a full disk, for example
                if _flock(descriptor) and self._is_current(descriptor):
                    os.unlink(self.path)
                os.close(descriptor)
                raise
            with suppress(OSError):
                os.fchmod(descriptor, os.stat(self._ledger).st_mode & 0o666)
            return descriptor

    def _is_current(self, descriptor: int) -> bool:
        with suppress(FileNotFoundError):
            there = os.stat(self.path, follow_symlinks=False)
            return os.path.samestat(os.fstat(descriptor), there)
        return False

    def stored_head(self) -> tuple[str, int, str] | None:
        """Return the stored identity, number of charges and last hash of the ledger."""
        # They are written after a commit, so they may be older than the ledger, but not newer. The
        # identity is empty for an empty lock. The result is None without a lock, as on Windows.
        if self._file is None:
            return None
        try:
            text = os.pread(self._file.fileno(), 1000, 0)
        except OSError:  # not a regular file
            text = b"-"
        if not text:
            return "", 0, ""
        try:
            identity, entries, head, _ = text.decode("ascii").split()
            known = identity, int(entries), head
            if text == _lock_content(*known):
                return known
        except ValueError:
            pass
        raise schema.UnusableError(
            f"its lock {self.path} is damaged, or is a file of another program. {self.advice()}"
        )

    def store_head(self, identity: str, entries: int, head: str) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk; the charge itself is safe
                os.pwrite(self._file.fileno(), _lock_content(identity, entries, head), 0)

    def advice(self) -> str:
        """Return what to do if the lock does not match the ledger."""
        return (
            "Charges may have been removed. Compare the ledger with a backup, or with the anchor "
            f"in a report; if no charge is missing, remove {self.path} to continue"
        )


def _lock_content(identity: str, entries: int, head: str) -> bytes:
    """Return the content of a lock file; the length is constant, to replace it in place."""
    line = f"{identity:32} {entries:020d} {head:64}"
    return f"{line} {sha256(line.encode()).hexdigest()[:16]}\n".encode("ascii")


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        reason = f"it cannot be locked: {error.strerror}"
        if error.errno in _NO_LOCKS:
            reason = "its file system has no locks (flock); use a local disk, or PostgreSQL"
        raise schema.UnusableError(reason) from error


def _attempts(deadline: float, who: str) -> Iterator[None]:
    """Yield for each attempt, with pauses in between; raise UnusableError after the last."""
    pause = _MIN_PAUSE
    while True:
        yield
        if time.monotonic() > deadline:
            raise schema.UnusableError(
                f"another {who} kept it locked for more than {BUSY_SECONDS:g} seconds"
            )
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


_LOCKS: "weakref.WeakValueDictionary[str, FileLock]" = weakref.WeakValueDictionary()
_LOCKS_CHANGE = threading.Lock()


def file_lock(path: str) -> FileLock:
    """Return the lock of the ledger at a path; no fork happens while the registry is locked."""
    with GATE.operation(), _LOCKS_CHANGE:
        return _LOCKS.setdefault(path, _LOCKS.get(path) or FileLock(path))


class SQLiteSession(schema.Session):
    """Transaction on the file."""

    def __init__(self, connection: sqlite3.Connection, lock: FileLock):
        self.connection = connection
        self._lock = lock

    def execute(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return _run(self.connection, sql, values)

    def user_and_time(self, user: Any, time: Any) -> tuple[str | None, str]:
        now = datetime.now(timezone.utc).isoformat()
        try:
            import pwd

            # The name is read from the system, because environment variables can be set to
            # anything.
            return pwd.getpwuid(os.getuid()).pw_name, now
        except KeyError:
            return str(os.getuid()), now
        except ImportError:  # Windows
            return os.environ.get("USERNAME"), now

    def stored_head(self, identity: str) -> tuple[int, str] | None:
        known = self._lock.stored_head()
        if known is None:
            return None
        seen, entries, head = known
        if not seen and self.execute("SELECT 1 FROM heads WHERE entries > 0"):
            raise schema.UnusableError(
                f"its lock {self._lock.path} is empty, and it has charges. {self._lock.advice()}"
            )
        if seen != identity and entries > 0:
            raise schema.UnusableError(
                f"it is another ledger than the one with {entries} charges that was here before. "
                f"Put that one back; or, to use this one here, remove {self._lock.path}"
            )
        return (entries, head) if seen == identity else None

    def store_head(self, identity: str, entries: int, head: str) -> None:
        if self._lock.stored_head() not in (None, (identity, entries, head)):
            self._lock.store_head(identity, entries, head)

    def check_structure(self) -> None:
        ((damage,),) = self.execute("PRAGMA integrity_check(1)")
        if damage != "ok":
            raise schema.UnusableError(f"it is damaged: {damage.splitlines()[-1]}")
        if _schema(self.connection) != _expected_schema():
            raise schema.UnusableError("its tables or triggers were changed")


class SQLiteStorage:
    """File of one ledger, at an absolute path."""

    def __init__(self, path: str, survives_power_loss: bool = True):
        self.location = path
        self._survives_power_loss = survives_power_loss
        self._lock = file_lock(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return SQLiteStorage, (self.location, self._survives_power_loss)

    def find(self) -> int | None:
        """Return the number of the ledger, or None if there is none yet."""
        with self._ledger_errors():
            if len(os.fsencode(os.path.basename(self.location))) > _MAX_NAME_BYTES:
                raise schema.UnusableError(f"its name must have at most {_MAX_NAME_BYTES} bytes")
            exists = os.path.exists(self.location)
            if exists:
                # A lock must not be created next to a foreign file.
                _check_format(self.location)
            draft = self.location + DRAFT_SUFFIX
            if os.path.exists(draft):  # left by a process that was killed
                with self._lock.held(write=True):
                    _remove(draft)
        return 1 if exists or os.path.exists(self.location) else None

    def missing(self) -> str:
        return self._unusable(_MISSING)

    def create(self, header: schema.Header) -> int:
        """Create the ledger atomically, unless another process does; return its number."""
        with self._ledger_errors(), self._lock.held(write=True):
            if not os.path.exists(self.location):
                self._check_free()
                draft = self.location + DRAFT_SUFFIX
                try:
                    _write_empty(draft, header)
                    self._lock.store_head(header.identity, 0, schema.header_hash(header))
                    _rename_draft(draft, self.location)
                except OSError as error:
                    raise schema.UnusableError(error.strerror or str(error)) from error
                finally:
                    with suppress(OSError):  # a name that is too long, for example
                        _remove(draft)
        return 1

    def _check_free(self) -> None:
        """Raise an error if a new ledger could replace another or be confused with its files."""
        # SQLite would apply an existing journal to the new ledger, or remove it.
        known = self._lock.stored_head()
        if known is not None and known[1] > 0:
            raise schema.UnusableError(
                f"a ledger with {known[1]} charges was here, and its file is gone; it is not "
                f"replaced by an empty one. To start again, remove {self._lock.path}"
            )
        if self.location.endswith(DRAFT_SUFFIX):
            raise schema.UnusableError(
                f"names that end in {DRAFT_SUFFIX} are reserved for new ledgers"
            )
        ledger = ledger_of(self.location)
        if ledger is not None:
            raise schema.UnusableError(f"the ledger {ledger} uses a file of this name")
        for ending in ("-journal", "-wal"):
            if os.path.lexists(self.location + ending):
                other = f"{self.location}{ending} exists and belongs to another database"
                raise schema.UnusableError(f"{other}; use another name, or move that file")

    @contextmanager
    def transaction(self, number: int, *, write: bool) -> Iterator[SQLiteSession]:
        """Open a consistent view. It is on disk after an exit without error; else unchanged."""
        # The file is checked before SQLite opens it, which would roll back another database's
        # journal, and inside the lock, because closing a file drops SQLite's own locks in this
        # process. IMMEDIATE locks for writing before the first read, so that the values read are
        # still valid when writing, even if another program ignores our lock.
        with self._ledger_errors(), self._lock.held(write=write):
            _check_file(self.location)
            with closing(_connect(self.location, self._survives_power_loss)) as connection:
                session = SQLiteSession(connection, self._lock)
                _run(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield session
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
                if session.head is not None:
                    self._lock.store_head(*session.head)

    @contextmanager
    def _ledger_errors(self) -> Iterator[None]:
        """Convert every error to a LedgerError that names the file."""
        try:
            yield
        except schema.UnusableError as error:
            raise schema.LedgerError(self._unusable(str(error))) from error.__cause__
        except sqlite3.Error as error:
            reason = f"another process kept it locked for more than {BUSY_SECONDS:g} seconds"
            if "locked" not in str(error):
                reason = _FILE_CONTENT.sub("", str(error))
            raise schema.LedgerError(self._unusable(reason)) from error

    def _unusable(self, reason: str) -> str:
        return f"the ledger {self.location} cannot be used: {reason}; the file is left unchanged"


def _connect(path: str, survives_power_loss: bool = True) -> sqlite3.Connection:
    """Open an existing file (mode=rw never creates one) with the rollback journal."""
    # With a write-ahead log, charges may be in a second file after a crash, and a copy of the
    # ledger alone loses them; nor does it work on network file systems. EXTRA waits for the disk at
    # every commit, also for the directory entry of the removed journal; otherwise a power failure
    # could undo a commit. OFF is safe against everything else: commits of a killed process stay.
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    _run(connection, f"PRAGMA synchronous = {'EXTRA' if survives_power_loss else 'OFF'}")
    return connection


def _run(
    connection: sqlite3.Connection, sql: str, values: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(sql, values or {}).fetchall()
    except (UnicodeDecodeError, MemoryError) as error:
        raise schema.UnusableError("it is damaged: its content cannot be read") from error


def _check_file(path: str) -> None:
    """Check names and format of a ledger file; the caller holds its lock."""
    # Each hard link would have its own lock and its own journal: after a crash, the journal of one
    # name undoes charges made under the other.
    with suppress(OSError):
        names = os.stat(path).st_nlink
        if names > 1:
            raise schema.UnusableError(
                f"the file has {names} names (hard links). Keep the name under which the ledger "
                "was used last and remove the others; use copies elsewhere"
            )
    if _check_format(path)[18:20] != _ROLLBACK_JOURNAL:
        raise schema.UnusableError(
            "it has a write-ahead log, with which charges can be in another file; "
            "PRAGMA journal_mode = DELETE reverts that"
        )


def _check_format(path: str) -> bytes:
    """Return the first bytes of a ledger file, or raise UnusableError if it is none."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT)) as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        raise schema.UnusableError(_MISSING) from None
    except OSError as error:
        raise schema.UnusableError(error.strerror or str(error)) from error
    if len(header) < HEADER_BYTES:
        raise schema.UnusableError(f"it is truncated or not a ledger: {len(header)} bytes long")
    if not header.startswith(SQLITE_MAGIC):
        raise schema.UnusableError("it is not an SQLite database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise schema.UnusableError("it is an SQLite database of another program")
    version = int.from_bytes(header[60:64], "big")
    if version != schema.SCHEMA_VERSION:
        raise schema.UnusableError(
            f"its schema has version {version}, but this version of skdirdp supports "
            f"{schema.SCHEMA_VERSION}; use the version of skdirdp that wrote it, or a newer one"
        )
    return header


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in (*schema.SQLITE_TABLES, *schema.SQLITE_TRIGGERS):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")


def _schema(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    return set(_run(connection, "SELECT type, name, tbl_name, sql FROM sqlite_master"))


@lru_cache(maxsize=1)
def _expected_schema() -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _make_tables(connection)
        return _schema(connection)


def _write_empty(path: str, header: schema.Header) -> None:
    """Write a ledger without charges that only its owner can read or write."""
    _remove(path)  # left by a process that was killed: the creator of a ledger holds the lock
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN")
        _make_tables(connection)
        schema.insert_header(SQLiteSession(connection, FileLock(path)), header)
        connection.execute("COMMIT")


def _rename_draft(draft: str, path: str) -> None:
    """Rename a new ledger. The name, too, must be on disk before the first charge."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # created without the lock; that file is the ledger
    except OSError:  # a file system without hard links; the lock excludes others
        os.rename(draft, path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove(draft: str) -> None:
    for path in (draft, f"{draft}-journal"):
        Path(path).unlink(missing_ok=True)
