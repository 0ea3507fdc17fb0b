"""Damaged ledgers: found, every one, and never a smaller total.

``python -m tests.test_ledger_damage 3000`` tries as many damages as one likes.
"""

import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from skdirdp import PrivacyAccountant
from skdirdp.accountant import LedgerError
from skdirdp.accounting import PureDP
from skdirdp.mechanisms import GaussianMechanism

LIMIT = 30.0
TRIGGERS = (
    "charges_follow_the_last",
    "charges_move_the_head",
    "charges_stay",
    "charges_do_not_change",
    "heads_stay",
    "heads_follow_charges",
    "ledgers_stay",
    "ledgers_do_not_change",
    "ledgers_are_alone",
)


def make_ledger(folder):
    """A ledger with charges of several kinds, on the whole and on parts; its path and total."""
    path = Path(folder, "whole.sqlite")
    accountant = PrivacyAccountant(
        epsilon=LIMIT, path=path, adaptive=False, name="census", unit="record"
    )
    halves = accountant.parallel("halves", split_by="position")
    for number in range(30):
        accountant.charge(PureDP(0.01 * (1 + number % 4)), label=f"question {number}")
        halves["left"].charge(GaussianMechanism(sigma=20.0 + number % 3))
    return path, accountant.total()


# Damages to the bytes of a file


def flip_bits(rng, path):
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def cut_off(rng, path):
    os.truncate(path, rng.randrange(path.stat().st_size))


def delete_bytes(rng, path):
    content = path.read_bytes()
    start = rng.randrange(len(content))
    path.write_bytes(content[:start] + content[start + rng.choice([1, 2, 16, 512, 4096]) :])


def insert_bytes(rng, path):
    content = path.read_bytes()
    start = rng.randrange(len(content))
    path.write_bytes(content[:start] + rng.randbytes(rng.choice([1, 16, 4096])) + content[start:])


def blank_sector(rng, path):
    content = bytearray(path.read_bytes())
    start = 512 * rng.randrange(len(content) // 512)
    content[start : start + 512] = rng.choice([b"\0", b"\xff"]) * 512
    path.write_bytes(content)


def exchange_pages(rng, path):
    content = bytearray(path.read_bytes())
    one, other = (4096 * page for page in rng.sample(range(len(content) // 4096), 2))
    content[one : one + 4096], content[other : other + 4096] = (
        content[other : other + 4096],
        content[one : one + 4096],
    )
    path.write_bytes(content)


# Damage by SQL statements


def with_sql(statements):
    """Statements that change the file after dropping the triggers."""

    def damage(rng, path):
        with closing(sqlite3.connect(path)) as connection:
            for trigger in TRIGGERS:
                connection.execute(f"DROP TRIGGER {trigger}")
            for statement in statements(rng):
                connection.execute(statement)
            if rng.random() < 0.5:  # ... and puts them back, to leave no trace
                with suppress(sqlite3.OperationalError):  # on a table that was dropped
                    for statement in trigger_texts():
                        connection.execute(statement)
            connection.commit()

    return damage


def trigger_texts():
    from skdirdp.accountant.schema import SQLITE_TRIGGERS

    return SQLITE_TRIGGERS


def any_row(rng):
    return rng.randrange(1, 61)


def change_one(rng):
    column = rng.choice(
        ["time", "username", "entry_key", "spec", "releases", "label", "split", "part", "hash"]
    )
    other = "CAST(hash AS BLOB)" if rng.random() < 0.3 else "'{}'"
    value = "releases + 1" if column == "releases" else other
    return [f"UPDATE charges SET {column} = {value} WHERE id = {any_row(rng)}"]


def delete_some(rng):
    return [f"DELETE FROM charges WHERE id >= {any_row(rng)}"]


def delete_one(rng):
    return [f"DELETE FROM charges WHERE id = {any_row(rng)}"]


def delete_one_and_close_the_gap(rng):
    row = rng.randrange(1, 60)
    return [
        f"DELETE FROM charges WHERE id = {row}",
        f"UPDATE charges SET id = -id WHERE id > {row}",
        "UPDATE charges SET id = -id - 1 WHERE id < 0",
        "UPDATE heads SET entries = entries - 1",
    ]


def delete_the_last_and_set_the_head(rng):
    row = any_row(rng)
    return [
        f"DELETE FROM charges WHERE id > {row - 1}",
        f"UPDATE heads SET entries = {row - 1}, hash = coalesce("
        f"(SELECT hash FROM charges WHERE id = {row - 1}), hash)",
    ]


def exchange_rows(rng):
    one, other = rng.sample(range(1, 61), 2)
    return [
        f"UPDATE charges SET id = -1 WHERE id = {one}",
        f"UPDATE charges SET id = {one} WHERE id = {other}",
        f"UPDATE charges SET id = {other} WHERE id = -1",
    ]


def change_limits(rng):
    return [
        rng.choice(
            [
                "UPDATE ledgers SET epsilon = 1000",
                "UPDATE ledgers SET epsilon = NULL",
                "UPDATE ledgers SET delta = 0.01",
                "UPDATE ledgers SET renyi_order = 2",
                "UPDATE ledgers SET adaptive = 0",
                "UPDATE ledgers SET adjacency = 'add_remove'",
                "UPDATE ledgers SET unit = 'person'",
                "UPDATE ledgers SET identity = 'another'",
                "DELETE FROM ledgers",
            ]
        )
    ]


def change_head(rng):
    return [
        rng.choice(
            [
                "DELETE FROM heads",
                "UPDATE heads SET entries = 0",
                "UPDATE heads SET entries = 59",
                "UPDATE heads SET entries = 'many'",
                "UPDATE heads SET hash = 'none'",
                "DROP TABLE heads",
                "DROP TABLE charges",
                "DELETE FROM charges",
            ]
        )
    ]


def drop_triggers(rng, path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP TRIGGER {rng.choice(TRIGGERS)}")
        connection.commit()


BYTES = (flip_bits, cut_off, delete_bytes, insert_bytes, blank_sector, exchange_pages)
ROWS = (
    change_one,
    delete_some,
    delete_one,
    delete_one_and_close_the_gap,
    delete_the_last_and_set_the_head,
    exchange_rows,
    change_limits,
    change_head,
)
DAMAGES = {
    **{damage.__name__: damage for damage in (*BYTES, drop_triggers)},
    **{statements.__name__: with_sql(statements) for statements in ROWS},
}


def outcome(whole, total, damage, rng, folder):
    """Return the outcome of a damaged copy: "refused", "unharmed", or a description."""
    path = Path(folder, "copy.sqlite")
    shutil.copy(whole, path)
    # Without the lock file, charges removed from the end cannot be detected.
    alone = rng.random() < 0.5 and damage != "delete_the_last_and_set_the_head"
    if not alone:
        shutil.copy(f"{whole}.lock", f"{path}.lock")
    # A process with an open ledger must detect it, or continue with the charges it has read.
    opened = PrivacyAccountant(path=path) if rng.random() < 0.3 else None
    before = path.read_bytes()
    DAMAGES[damage](rng, path)
    if path.read_bytes() == before:
        return "unharmed"
    try:
        if opened is not None:
            result = use(opened, total)
            if result not in ("refused", "unharmed"):
                return f"{damage}, while open: {result}"
            total = opened.total() if result == "unharmed" else total
        result = use(None, total, path)
    except Exception as error:
        return f"{damage}: {type(error).__name__}: {error}"
    return result if result in ("refused", "unharmed") else f"{damage}: {result}"


def use(accountant, total, path=None):
    """Ask for the total and charge, as if nothing had happened."""
    try:
        accountant = accountant or PrivacyAccountant(path=path)
        if accountant.total() < total or accountant.epsilon != LIMIT:
            return f"a total of {accountant.total()} of {accountant.epsilon}"
        count = len(accountant)
        accountant.charge(PureDP(0.01))
        if accountant.total() <= total or len(accountant) != count + 1 or count < 60:
            return f"a total of {accountant.total()} after a charge"
        return "unharmed"
    except LedgerError as error:
        return f"{error!r} of several lines" if "\n" in str(error) else "refused"


def outcomes(count, seed):
    with tempfile.TemporaryDirectory() as folder:
        whole, total = make_ledger(folder)
        rng = random.Random(seed)
        found = Counter()
        for number in range(count):
            damage = list(DAMAGES)[number % len(DAMAGES)] if number % 2 else "flip_bits"
            with tempfile.TemporaryDirectory() as place:
                found[damage, outcome(whole, total, damage, rng, place)] += 1
        return found


def test_damage_never_lowers_a_total_and_raises_only_ledger_errors():
    found = outcomes(150, seed=11)
    assert {result for _, result in found} <= {"refused", "unharmed"}
    # Rows have no spare bytes in which a change does no harm.
    assert {damage for damage, result in found if result == "unharmed"} <= {"flip_bits"} | {
        damage.__name__ for damage in BYTES
    }
    assert sum(number for (_, result), number in found.items() if result == "refused") > 75


@pytest.mark.parametrize("damage", ["drop_triggers", *(row.__name__ for row in ROWS)])
def test_verify_detects_changes_to_an_open_ledger(damage, tmp_path):
    path, _ = make_ledger(tmp_path)
    accountant = PrivacyAccountant(path=path)
    assert accountant.verify() == 60
    DAMAGES[damage](random.Random(3), path)
    with pytest.raises(LedgerError, match="cannot be used"):
        accountant.verify()


if __name__ == "__main__":
    results = outcomes(int(sys.argv[1]), seed=int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for (name, result), number in sorted(results.items()):
        print(f"{number:6} {name:34} {result}")
