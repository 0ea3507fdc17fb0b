"""Ledgers of skdirdp 0.1, which become ledgers of today when they are opened.

They had no hash chain, no users and no keys, and a table of sums beside the charges. The
chain is computed when the file is converted: it shows every change from then on, and says
nothing of the time before, for which the sums are compared with the charges once more. The
header says that this happened. Their limits were for mechanisms chosen in advance, so that
they are not adaptive.
"""

from collections import Counter
from collections.abc import Callable

from .chain import entry_hash, header_hash
from .layout import Session, insert_charge, insert_header
from .records import Header, Limits, UnusableError

_TRIGGERS = ("charges_are_summed", "charges_stay", "charges_do_not_change")
_TABLES = ("ledger", "charges", "sums")


def convert(session: Session, make_tables: Callable[[], None]) -> None:
    """Replace the tables of version 1 by those of today, with all that they hold."""
    ((damage,),) = session.execute("PRAGMA integrity_check(1)")
    if damage != "ok":
        raise UnusableError(f"it is damaged: {damage.splitlines()[-1]}")
    headers = session.execute("SELECT identity, epsilon, delta, renyi_order FROM ledger")
    if len(headers) != 1:
        raise UnusableError("it is damaged: no limits in it")
    charges = session.execute(
        "SELECT id, time, spec, releases, label, split, part, split_name, split_by"
        " FROM charges ORDER BY id"
    )
    if [charge[0] for charge in charges] != list(range(1, len(charges) + 1)):
        raise UnusableError("it is damaged: a charge is missing")
    _check_sums(session, charges)
    for name in _TRIGGERS:
        session.execute(f"DROP TRIGGER IF EXISTS {name}")
    for name in _TABLES:
        session.execute(f"DROP TABLE {name}")
    make_tables()

    identity, epsilon, delta, order = headers[0]
    _, now = session.sign(None, None)
    header = Header(
        identity,
        Limits(epsilon, delta, order, adaptive=False),
        created=charges[0][1] if charges else now,
        origin=f"a ledger of skdirdp 0.1 with {len(charges)} charges, converted at {now}",
    )
    insert_header(session, header)
    before = header_hash(header)
    for number, (_, time, *rest) in enumerate(charges, 1):
        entry = (number, time, None, f"{identity}-{number}", *rest)
        before = entry_hash(before, entry)
        insert_charge(session, header, entry, before)


def _check_sums(session: Session, charges: list) -> None:
    counted: Counter[tuple[str, str, str]] = Counter()
    for _, _, spec, releases, _, split, part, _, _ in charges:
        if type(releases) is not int or releases < 1:
            raise UnusableError("it is damaged: a charge without a number of releases")
        counted[split, part, spec] += releases
    sums = session.execute("SELECT split, part, spec, releases FROM sums")
    if {(split, part, spec): releases for split, part, spec, releases in sums} != counted:
        raise UnusableError("it is damaged: its sums are not those of its charges")
