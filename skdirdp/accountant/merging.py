"""Charges of ledgers that were kept apart, brought together, each counted once.

A charge is known by where and when it was first made: the identity of that ledger, its key
there, and all that is stored of it. The key of a charge that was brought in says where it
comes from, so that it is known again on every way back, also through files.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .._messages import plural
from .admission import key
from .codec import decode, is_declared, relations_of
from .ledger import Charge, LedgerError, Split, Sums
from .spending import Spending

# A charge that the limit of this ledger never decided on.
_MERGED = "merged"
# A charge that another ledger of the same limits decided on, of which this is the copy.
_COPIED = "copied"


@dataclass(frozen=True)
class Entry:
    """A charge, and where it was first made.

    Parameters
    ----------
    origin : str
        The identity of the ledger that it was first charged to.
    key : str
        Its key there.
    merged : bool
        Whether the ledger that it is read from had it from another one.
    time, user, spec, releases, label, split
        As they are stored.
    """

    origin: str
    key: str
    merged: bool
    time: datetime
    user: str | None
    spec: str
    releases: int
    label: str | None
    split: Split | None

    @property
    def known_by(self) -> tuple[Any, ...]:
        """Equal for one and the same charge, in whatever ledger it stands.

        All that is stored takes part: of two copies of a file that went on apart, one may
        use a key of the other.
        """
        what = (self.spec, self.releases, self.label, self.split)
        return (self.origin, self.key, self.time, self.user, *what)


def is_merged(charge: Charge) -> bool:
    """Whether a charge was brought in from a ledger with a limit of its own."""
    return _parse(getattr(charge, "key", None))[0] == _MERGED


def check_key(key: str | None) -> None:
    """Refuse a key for a new charge that would say that it came from another ledger."""
    if _parse(key)[0] is not None:
        raise ValueError(
            f"key must not begin as those of charges from other ledgers do; got {key!r}. "
            "Nothing was charged"
        )


def _parse(key: str | None) -> tuple[str | None, str, str]:
    """How a charge came in, from which ledger, and its key there; or that it did not."""
    how, *rest = (key or "").split("/", 3)
    if how in (_MERGED, _COPIED) and len(rest) == 3:
        return how, rest[0], rest[2]
    return None, "", ""


def identity_of(accountant: Any) -> str:
    """What the ledger calls itself."""
    ledger = accountant._ledger
    return getattr(ledger, "header", ledger).identity


def entries_of(identity: str, charges: Sequence[Charge]) -> list[Entry]:
    """The charges of a ledger, each with where it was first made."""
    entries = []
    for number, charge in enumerate(charges, 1):
        own = getattr(charge, "key", None) or f"{identity}-{number}"
        how, origin, first = _parse(own)
        entries.append(
            Entry(
                origin if how else identity,
                first if how else own,
                how == _MERGED,
                charge.time,
                getattr(charge, "user", None) or None,
                charge.spec,
                charge.releases,
                charge.label,
                charge.split,
            )
        )
    return entries


def bring_in(accountant: Any, entries: Iterable[Entry], *, copy: bool = False) -> int:
    """Append what a ledger does not have yet, all or nothing, and say how many that were.

    No limit is asked: what was released is recorded, be it beyond the limit. But a limit that
    promises to hold for budgets chosen on the way must have decided on all of them.

    Parameters
    ----------
    accountant : PrivacyAccountant
        Of the ledger to write.
    entries : iterable of Entry
        What is brought in.
    copy : bool, default=False
        Whether a ledger without charges becomes the copy of one with the same limits.
    """
    identity = identity_of(accountant)
    with accountant._ledger.writing() as transaction:
        charges = transaction.charges()
        copy = copy and not charges
        known = {entry.known_by for entry in entries_of(identity, charges)}
        keys = {getattr(charge, "key", None) for charge in charges}
        new = []
        for entry in entries:
            if entry.known_by not in known:
                known.add(entry.known_by)
                new.append(entry)
        if new and not copy:
            _check_promise(accountant)
        _check_together(accountant, transaction.sums(), new)
        for entry in new:
            stored = _free_key(entry, _COPIED if copy and not entry.merged else _MERGED, keys)
            keys.add(stored)
            transaction.append(
                entry.spec,
                entry.releases,
                entry.label,
                entry.split,
                key=stored,
                time=entry.time,
                user=entry.user or "",  # nobody, rather than whoever merges
            )
    return len(new)


def _free_key(entry: Entry, how: str, taken: set[str | None]) -> str:
    again = 0
    while (stored := f"{how}/{entry.origin}/{again}/{entry.key}") in taken:
        again += 1
    return stored


def _check_promise(accountant: Any) -> None:
    """Refuse charges that a limit for budgets chosen on the way did not decide on.

    Such a limit holds because it stops whatever would pass it, on every course that things
    could have taken. Of two ledgers kept apart neither stopped what passed the limit together
    with the other, and that they happen to be within it proves nothing.
    """
    if accountant.epsilon is not None and getattr(accountant, "adaptive", False):
        raise ValueError(
            "the limit of this ledger is for budgets chosen as results come in, and cannot hold "
            "for charges that it did not decide on. Nothing was merged; make a ledger with "
            "adaptive=False (--fixed-plan), or without a limit, and merge both into that"
        )


def _check_together(accountant: Any, sums: Sums, new: Sequence[Entry]) -> None:
    """Refuse charges that have no total with those that are there."""
    declared = accountant._ledger.header.adjacency
    found = {decode(spec).adjacency for _, _, spec in sums}
    for number, entry in enumerate(new, 1):
        adjacency = decode(entry.spec).adjacency
        others = [*sorted(found - {adjacency})]
        if not is_declared(adjacency, declared):
            others += relations_of(declared)
        if others:
            raise ValueError(
                "adjacency must be the same for all charges of one ledger; "
                f"got {adjacency!r} in the {plural(len(new), 'charge')} to merge, number {number}, "
                f"and {' or '.join(map(repr, others))} here. Nothing was merged"
            )
        found.add(adjacency)
    after = Counter(sums)
    for entry in new:
        after[key(entry.split, entry.spec)] += entry.releases
    try:
        Spending.none().plus(after).exposures()
    except LedgerError:
        raise
    except ValueError as error:
        raise ValueError(f"{error}. Nothing was merged") from error
