"""Who may use a ledger now: threads, forks, and processes that share a file.

SQLite locks a file with POSIX locks, which belong to the process: when any thread closes
any descriptor of the file, as a backup or a checksum does, all of them are gone, and two
processes write at once. So a lock of our own is held around every operation: `flock` on a
second file beside the ledger. Such a lock belongs to the opened file and stays until that
is closed, whatever else the process opens and closes.

On Windows there is no flock, and no need of it: locks there belong to the handle. On a
network file system flock has to work between machines, as it does on NFS with its lock
service; on one that has no locks the ledger is refused. Other programs that write the
SQLite file, as its shell does, do not know this lock.
"""

import errno
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from types import FrameType

from .records import UnusableError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: How long to wait for another process or thread.
BUSY_SECONDS = 60.0
#: How long whoever presses Ctrl-C again is asked to wait for a database.
_PATIENCE_SECONDS = 3.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.01
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# Why there may be no lock for those who only read: rights, or a full disk.
_NO_LOCK_TO_READ = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
# How long to wait for the first content of a lock that another process has just made.
_NEW_LOCK_SECONDS = 2.0
# The content of a new lock, which has seen no ledger.
_UNKNOWN = ("-", 0, "-")


class _Gate:
    """Lets operations of many threads through at once, and forks only when none is inside.

    A child must not inherit an operation in the middle: it has the memory of locks and
    connections, but not the thread that would give them back.

    There is no lock in it that an interrupt could leave taken. Whoever comes in first says so
    and then looks for a fork, and whoever forks first says so and then looks who is inside; so
    one of the two sees the other.
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
                time.sleep(_SHORTEST_PAUSE)
                self._inside[me] = 1
            yield
        finally:
            if depth:
                self._inside[me] = depth
            else:
                self._inside.pop(me, None)

    def close(self) -> None:
        me = threading.get_ident()
        while self._forking.setdefault("thread", me) != me:
            time.sleep(_SHORTEST_PAUSE)
        # A thread that has ended is not inside, whatever it left behind.
        while any(thread != me and thread in sys._current_frames() for thread in [*self._inside]):
            time.sleep(_SHORTEST_PAUSE)

    def open(self) -> None:
        self._forking.clear()


GATE = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=GATE.close, after_in_parent=GATE.open, after_in_child=GATE.open)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Raise what Ctrl-C asks for after the block, and at once only for somebody who insists.

    An interrupt in the middle of a foreign library can leave its locks taken for ever, and a
    connection open that keeps others out. Only the main thread is ever interrupted.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[float, int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        came.append((time.monotonic(), number, frame))
        if came[-1][0] - came[0][0] > _PATIENCE_SECONDS:
            handler(number, frame)

    try:
        signal.signal(signal.SIGINT, wait)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[-1][1:])


class FileLock:
    """The lock of one ledger's file, and what the file beside it remembers.

    One for each path in a process; see `lock_of`. A thread may hold it several times.

    Parameters
    ----------
    path : str
        Of the ledger.
    """

    def __init__(self, path: str):
        self._ledger = path
        self.path = f"{path}.lock"
        self._owner: dict[str, int] = {}
        self._depth = 0
        self._file: FileIO | None = None

    @contextmanager
    def held(self, *, to_write: bool) -> Iterator[None]:
        """Others wait, also to read: with shared locks, readers could keep writers out for ever."""
        me = threading.get_ident()
        depth = self._depth if self._owner.get("thread") == me else 0
        with GATE.operation():
            try:
                if depth == 0:
                    give_up = time.monotonic() + BUSY_SECONDS
                    self._wait_for_threads(me, give_up)
                    if fcntl is not None:
                        self._wait_for_processes(to_write, give_up)
                self._depth = depth + 1
                yield
            finally:
                # An interrupt may have come at any moment, also before this thread noted that
                # the lock is its own.
                if self._owner.get("thread") == me:
                    self._depth = depth
                    if depth == 0:
                        file, self._file = self._file, None
                        self._owner.pop("thread", None)
                        if file is not None:
                            file.close()

    def _wait_for_threads(self, me: int, give_up: float) -> None:
        for _ in _pauses(give_up, "thread"):
            if self._owner.setdefault("thread", me) == me:
                return

    def _wait_for_processes(self, to_write: bool, give_up: float) -> None:
        while True:
            try:
                # As an object, which closes itself, and so unlocks, even if it gets lost.
                self._file = FileIO(self._open(), "r+")
            except OSError as error:
                if error.errno in _NO_LOCK_TO_READ and not to_write:
                    # A ledger to look at. SQLite's own locks have to do: no charge is committed
                    # between the first read and the last, so the memory is not ahead.
                    with suppress(OSError):
                        self._file = FileIO(os.open(self.path, _READ_ONLY), "r")
                    return
                raise UnusableError(f"its lock {self.path}: {error.strerror}") from error
            for _ in _pauses(give_up, "process"):
                if _flock(self._file.fileno()):
                    break
            if self._is_current(self._file.fileno()):
                self._wait_for_content(self._file.fileno())
                return
            # The file was removed or replaced before it was locked: others lock a new one.
            self._file.close()
            self._file = None

    def _open(self) -> int:
        flags = _READ_ONLY | os.O_RDWR
        while True:
            with suppress(FileNotFoundError):
                return os.open(self.path, flags)
            try:
                descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue  # another process was faster
            # At once, and on disk: later an empty lock is taken for a damaged one.
            try:
                os.pwrite(descriptor, _content(*_UNKNOWN), 0)
                os.fsync(descriptor)
            except OSError:  # a full disk, say
                if _flock(descriptor) and self._is_current(descriptor):
                    os.unlink(self.path)
                os.close(descriptor)
                raise
            # Who may use the ledger may lock it, as SQLite has it for its journals.
            with suppress(OSError):
                os.fchmod(descriptor, os.stat(self._ledger).st_mode & 0o666)
            return descriptor

    @staticmethod
    def _wait_for_content(descriptor: int) -> None:
        """Let the process that has just made the lock write into it."""
        give_up = time.monotonic() + _NEW_LOCK_SECONDS
        while os.fstat(descriptor).st_size == 0 and time.monotonic() < give_up:
            time.sleep(_LONGEST_PAUSE)

    def _is_current(self, descriptor: int) -> bool:
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), there)

    def remembered(self) -> tuple[str, int, str] | None:
        """The identity of the ledger, its number of charges and its last hash.

        It is written after a commit, without waiting for the disk. So it may be older than the
        ledger, but not newer: a ledger that has less was taken back. The identity is empty for
        an empty lock. None if there is no lock, as on Windows.

        Raises
        ------
        UnusableError
            If the file has other content.
        """
        if self._file is None:
            return None
        try:
            text = os.pread(self._file.fileno(), 1000, 0)
        except OSError:  # of a pipe, which is no file
            text = b"-"
        if not text:
            return "", 0, ""
        try:
            identity, entries, head, _ = text.decode("ascii").split()
            known = identity, int(entries), head
            if text == _content(*known):
                return known
        except ValueError:
            pass
        raise UnusableError(
            f"its lock {self.path} is damaged, or is a file of another program. "
            f"{after_checking(self.path)}"
        )

    def remember(self, identity: str, entries: int, head: str) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk; the charge itself is safe
                os.pwrite(self._file.fileno(), _content(identity, entries, head), 0)


def after_checking(lock: str) -> str:
    """Advice where the memory of a lock does not fit the ledger."""
    return (
        "Charges may have been taken back. Compare the ledger with a backup, or with the anchor "
        f"in a report; if no charge is missing, remove {lock} to go on"
    )


def _content(identity: str, entries: int, head: str) -> bytes:
    # Always of one length, so that a later content is written in place.
    line = f"{identity:32} {entries:020d} {head:64}"
    return f"{line} {sha256(line.encode()).hexdigest()[:16]}\n".encode("ascii")


def _flock(descriptor: int) -> bool:
    """Whether the lock could be had at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise UnusableError(
                "its file system has no locks (flock); keep it on a local disk, or in PostgreSQL"
            ) from error
        raise UnusableError(f"it cannot be locked: {error.strerror}") from error


def _pauses(give_up: float, who: str) -> Iterator[None]:
    """Attempts with pauses between them, and an error when there were enough."""
    pause = _SHORTEST_PAUSE
    while True:
        yield
        if time.monotonic() > give_up:
            raise UnusableError(
                f"another {who} kept it locked for more than {BUSY_SECONDS:g} seconds"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


_LOCKS: "weakref.WeakValueDictionary[str, FileLock]" = weakref.WeakValueDictionary()
_LOCKS_CHANGE = threading.Lock()


def lock_of(path: str) -> FileLock:
    """The lock of the ledger at a path, the same for all threads."""
    # Inside the gate, so that no fork happens while the registry is locked.
    with GATE.operation(), _LOCKS_CHANGE:
        lock = _LOCKS.get(path)
        if lock is None:
            lock = _LOCKS[path] = FileLock(path)
        return lock
