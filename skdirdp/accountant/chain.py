"""The hash chain: each entry's hash covers the entry and the hash before it.

The first hash covers the header: identity, limits, and what the data set was declared
to be. So one hash, that of the last entry, stands for the whole ledger, and an entry
that was changed, removed, added or moved breaks the chain where that happened.

There is no secret in it. Whoever can write the ledger *and* computes all later hashes
anew makes another ledger that is right in itself, and whoever takes the last entries
away leaves a chain that is right as far as it goes. The number of entries and the last
hash are therefore kept elsewhere too: in the table of heads, beside an SQLite file
(`skdirdp.accountant.locks`), and in the memory of every process that has read them. A
forger has to find all of these, or the roles of a database have to keep him out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from typing import Any

from .records import SPLIT_BY, Header, UnusableError

#: The columns of an entry that its hash covers, in this order.
ENTRY = (
    "id",
    "time",
    "username",
    "entry_key",
    "spec",
    "releases",
    "label",
    "split",
    "part",
    "split_name",
    "split_by",
)


def header_hash(header: Header) -> str:
    limits = header.limits
    return _digest(
        "skdirdp ledger",
        header.identity,
        header.created,
        [limits.epsilon, limits.delta, limits.order, limits.adaptive],
        [header.name, header.adjacency, header.unit, header.origin],
    )


def entry_hash(before: str, entry: Sequence[Any]) -> str:
    """The hash of an entry, given as the values of `ENTRY`."""
    return _digest(before, *entry)


def around_time(before: str, entry: Sequence[Any]) -> tuple[str, str]:
    """What `entry_hash` is taken of, before and after the time of the entry.

    For a server that says the time and takes the hash itself. Both texts are ASCII.
    """
    id_, _, *others = entry
    return _text((before, id_))[:-1] + ',"', '",' + _text(others)[1:]


def followed(
    rows: Iterable[Sequence[Any]], entries: int, before: str
) -> Iterator[tuple[Sequence[Any], str]]:
    """Rows of `ENTRY` and a hash, each checked to be a charge that follows the one before it.

    Parameters
    ----------
    rows : iterable of tuples
        In order.
    entries : int
        How many entries come before the first.
    before : str
        The hash of the last of those.

    Yields
    ------
    entry, hash

    Raises
    ------
    UnusableError
        At the first row that does not follow, or that is none.
    """
    for *entry, stored in rows:
        entries += 1
        if entry[0] != entries or type(entry[0]) is not int:
            raise UnusableError(f"charge {entries} is missing, or in another place")
        try:
            before = entry_hash(before, entry)
        except TypeError:  # bytes, where a text was
            before = ""
        if stored != before:
            raise UnusableError(
                f"charge {entries} was changed, or is not the one that followed "
                + (f"charge {entries - 1}" if entries > 1 else "the limits")
            )
        if damage := _damage(entry):
            raise UnusableError(f"charge {entries} makes no sense: {damage}")
        yield entry, before


def _damage(entry: Sequence[Any]) -> str | None:
    """The first value of an entry that no charge has, in words; SQLite stores any in a column."""
    _, time, user, key, spec, releases, label, split, part, name, by = entry
    texts = [time, key, spec, split, part, *(v for v in (user, label, name, by) if v is not None)]
    if not all(isinstance(text, str) for text in texts):
        return "something else stands where a text should"
    if type(releases) is not int or releases < 1:
        return "its number of releases is none"
    try:
        at = datetime.fromisoformat(time)
        at.astimezone(timezone.utc)  # fails for the first and last hours of all
        has_zone = at.tzinfo is not None
    except (ValueError, OverflowError):
        has_zone = False
    if not has_zone:
        return "its time is none"
    is_part = name is not None and by in SPLIT_BY
    is_whole = part == "" and name is None and by is None
    if not (is_part if split else is_whole):
        return "it is neither on the whole data set nor on a part of it"
    return None


# JSON is one text for one list of values: floats with all their digits, and other characters
# than ASCII escaped.
_text = json.JSONEncoder(separators=(",", ":")).encode


def _digest(*values: Any) -> str:
    return sha256(_text(values).encode("ascii")).hexdigest()
