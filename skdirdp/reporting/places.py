"""Locations of ledgers: addresses without passwords, and files that no output may replace."""

import os
import re
from collections.abc import Iterable
from os import PathLike
from urllib.parse import unquote

#: Written into the header of every ledger file: "DirP" in ASCII.
APPLICATION_ID = 0x44697250

SQLITE_MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
#: Ending of a ledger that is being made. Such a file is removed when the ledger is opened.
DRAFT = ".skdirdp-draft"
# Endings of the files that belong to a ledger: its lock, and those of SQLite.
_COMPANIONS = (".lock", "-journal", "-wal", "-shm", DRAFT)
_LOCK_CONTENT = re.compile(rb"\S{1,32} +\d{20} \S{1,64} +[0-9a-f]{16}\n")

# The last @ of the authority ends the password, which may hold others.
_IN_AUTHORITY = re.compile(r"(:/{1,2}[^:/?#@\s]*):[^\s]*@")
_KEY = r"(?:pass(?:word|wd|phrase|file)?|pwd)"
_IN_QUERY = re.compile(rf"(?i)({_KEY}\s*=\s*)('[^']*'|[^&\s]*)")
_ADDRESS = re.compile(
    rf"""(?isx)
    ://                                            # a URL, also after a space
    | postgres\w*(\+\w+)?:/.*@                     # one that lost a slash
    | ^[^\w./\\]*postgres(\w*(\+\w+)?:|.*@)
    | ^[^\w./\\]*[a-z][a-z0-9+.-]+:/               # of another database; a drive is one letter
    | ^(?![./~\\]|[a-z]:[/\\]).*:.*@               # user:password@host
    | ^\s*//[^/\\]*:.*@
    | (?:^|\s)["']*(host|hostaddr|port|dbname|user|service|sslmode)\s*=
    | (?<![a-z])(ssl|pg)?{_KEY}\s*=
    """
)


def without_password(text: str) -> str:
    """A text in which the password of every URL is replaced by three stars."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1:***@", text))


def is_url(path: str) -> bool:
    """Whether a ledger is in a database server rather than in a file."""
    return re.match(r"[A-Za-z][\w+.-]*://", path) is not None


def looks_like_address(path: str) -> bool:
    """Whether a file of this name would carry the address of a database, perhaps a password."""
    return any(_ADDRESS.search(text) for text in (path, unquote(path)))


def check_output(path: "str | PathLike[str]", inputs: "Iterable[str | PathLike[str]]" = ()) -> None:
    """Refuse to write where something that must stay would be replaced.

    No output replaces a ledger, a file that belongs to one, or an input. A ledger is known by its
    content, under whatever name.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    inputs : iterable of str or path-like, default=()
        The files that the output is made from.

    Raises
    ------
    ValueError
        If the path must not be written.
    """
    name = os.fsdecode(path)
    if looks_like_address(name):
        raise ValueError(
            "an output must be a file; got a name like the address of a database. A file of such "
            "a name is given with its folder, ./ say"
        )
    target = os.path.realpath(name)
    if any(_is_same(target, other) for other in inputs):
        raise ValueError(f"the output {name} is also an input, which it would replace")
    ledger = companion_of(target)
    if ledger is not None:
        raise ValueError(f"the output {name} would replace a file of the ledger {ledger}")
    if is_ledger(target) or _is_lock(f"{target}.lock"):
        raise ValueError(f"the output {name} would replace a ledger and all its charges")


def companion_of(path: str) -> str | None:
    """The ledger whose lock or journal has this path, or None."""
    for ending in _COMPANIONS:
        ledger = path.removesuffix(ending)
        if ledger != path and (is_ledger(ledger) or _is_lock(f"{ledger}.lock")):
            return ledger
    return path.removesuffix(".lock") if _is_lock(path) else None


def is_ledger(path: str) -> bool:
    """Whether a file has the header of a ledger."""
    header = _first_bytes(path)
    return header.startswith(SQLITE_MAGIC) and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def _is_lock(path: str) -> bool:
    return _LOCK_CONTENT.match(_first_bytes(path)) is not None


def _first_bytes(path: str) -> bytes:
    # Not of a pipe or a terminal, which would have to be waited for.
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(2 * HEADER_BYTES)


def _is_same(target: str, other: "str | PathLike[str]") -> bool:
    try:
        return os.path.samefile(target, other)
    except OSError:  # one of them does not exist
        return target == os.path.realpath(os.fsdecode(other))
