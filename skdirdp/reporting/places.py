"""Where a ledger is, told without the password that may be part of it."""

import re

# The last @ of the authority ends the password, which may hold others.
_IN_AUTHORITY = re.compile(r"(://[^:/?#@\s]*):[^\s]*@")
_IN_QUERY = re.compile(r"(?i)((?:password|passwd|pwd|passfile)\s*=\s*)('[^']*'|[^&\s]*)")


def without_password(text: str) -> str:
    """A text in which the password of every URL is replaced by three stars."""
    return _IN_QUERY.sub(r"\1***", _IN_AUTHORITY.sub(r"\1:***@", text))


def is_url(path: str) -> bool:
    """Whether a ledger is in a database server rather than in a file."""
    return re.match(r"[A-Za-z][\w+.-]*://", path) is not None
