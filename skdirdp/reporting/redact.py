"""Remove passwords from database URLs, and check that outputs do not overwrite a ledger."""

import os
import re
from collections.abc import Iterable
from os import PathLike
from urllib.parse import unquote

#: SQLite application id in the header of every ledger file: "DirP" in ASCII.
APPLICATION_ID = 0x44697250

SQLITE_MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
#: Suffix of the name of a ledger file while the file is being created. The finished file is renamed
#: without it. A leftover file with this suffix is deleted when the ledger is opened.
DRAFT_SUFFIX = ".skdirdp-draft"
# Suffixes of the files that belong to a ledger: its lock file, and SQLite's own files.
_AUXILIARY_SUFFIXES = (".lock", "-journal", "-wal", "-shm", DRAFT_SUFFIX)
_LOCK_CONTENT = re.compile(rb"\S{1,32} +\d{20} \S{1,64} +[0-9a-f]{16}\n")

# The password ends at the last @ of the authority, because it may itself contain @.
_IN_AUTHORITY = re.compile(r"(:/{1,2}[^:/?#@\s]*):[^\s]*@")
_KEY = r"(?:pass(?:word|wd|phrase|file)?|pwd)"
_IN_QUERY = re.compile(rf"(?i)({_KEY}\s*=\s*)('[^']*'|[^&\s]*)")
_DATABASE_URL = re.compile(
    rf"""(?isx)
    ://                                            # a URL, even after a space
    | postgres\w*(\+\w+)?:/.*@                     # a URL with one slash
    | ^[^\w./\\]*postgres(\w*(\+\w+)?:|.*@)
    | ^[^\w./\\]*[a-z][a-z0-9+.-]+:/               # other databases; Windows drives have one letter
    | ^(?![./~\\]|[a-z]:[/\\]).*:.*@               # user:password@host
    | ^\s*//[^/\\]*:.*@
    | (?:^|\s)["']*(host|hostaddr|port|dbname|user|service|sslmode)\s*=
    | (?<![a-z])(ssl|pg)?{_KEY}\s*=
    """
)


def without_password(text: str) -> str:
    """Replace the password of every URL in a string with three asterisks."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1:***@", text))


def is_url(path: str) -> bool:
    """Return whether a path is a database URL rather than the name of a file."""
    return re.match(r"[A-Za-z][\w+.-]*://", path) is not None


def looks_like_database_url(path: str) -> bool:
    """Return whether a name looks like a database URL, which may contain a password."""
    return any(_DATABASE_URL.search(text) for text in (path, unquote(path)))


def check_output(path: "str | PathLike[str]", inputs: "Iterable[str | PathLike[str]]" = ()) -> None:
    """Raise a ValueError if writing a file would overwrite a ledger, its lock, or an input."""
    # A ledger is recognised by its content, not by its name.
    name = os.fsdecode(path)
    if looks_like_database_url(name):
        raise ValueError(
            "the output must be a file; got a name that looks like the URL of a database. "
            "If it is a file, include its folder in the name, for example ./NAME"
        )
    target = os.path.realpath(name)
    if any(_is_same(target, other) for other in inputs):
        raise ValueError(f"the output {name} is also an input; choose another file")
    ledger = ledger_of(target)
    if ledger is not None:
        raise ValueError(f"the output {name} would overwrite a file of the ledger {ledger}")
    if is_ledger(target) or _is_lock(f"{target}.lock"):
        raise ValueError(f"the output {name} would overwrite a ledger and all its charges")


def is_special_path(path: "str | PathLike[str]") -> bool:
    """Return whether a path exists and is something other than a regular file.

    Examples are a pipe, a terminal and a folder.
    """
    # The real path of /dev/stdout does not exist if stdout is a pipe.
    return os.path.exists(path) and not os.path.isfile(path)


def ledger_of(path: str) -> str | None:
    """Return the ledger to which a lock file or journal belongs, or None."""
    for ending in _AUXILIARY_SUFFIXES:
        ledger = path.removesuffix(ending)
        if ledger != path and (is_ledger(ledger) or _is_lock(f"{ledger}.lock")):
            return ledger
    return path.removesuffix(".lock") if _is_lock(path) else None


def is_ledger(path: str) -> bool:
    """Return whether a file has the header of a ledger."""
    header = _first_bytes(path)
    return header.startswith(SQLITE_MAGIC) and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def _is_lock(path: str) -> bool:
    return _LOCK_CONTENT.match(_first_bytes(path)) is not None


def _first_bytes(path: str) -> bytes:
    # Reading a pipe or a terminal would block.
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(2 * HEADER_BYTES)


def _is_same(target: str, other: "str | PathLike[str]") -> bool:
    try:
        return os.path.samefile(target, other)
    except OSError:  # one of them does not exist
        return target == os.path.realpath(os.fsdecode(other))
