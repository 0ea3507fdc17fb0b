"""Ledgers in files and in databases: common behaviour."""

import os
import pickle
import random
import signal
import sqlite3
import threading
import time
import traceback
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from uuid import uuid4

import pytest

from skdirdp import BudgetExceededError, PrivacyAccountant
from skdirdp.accountant.ledger import _CHECKED, Ledger
from skdirdp.accountant.schema import NOTHING, LedgerError, LimitParameters, Split
from skdirdp.accounting import PureDP
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism

LIMITS = LimitParameters(epsilon=3.0, delta=1e-5, order=None)
NORTH = Split("1234", "north", "region", "values")


class InFile:
    """Location of a ledger, with functions that tamper with it."""

    def __init__(self, folder):
        self.path = str(folder / "ledger.sqlite")
        self.name = "census"

    def tamper(self, *statements):
        with closing(sqlite3.connect(self.path)) as connection:
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type='trigger'"
            )
            triggers = triggers.fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                connection.execute(statement.format(ledger=1))
            for _, sql in triggers:
                connection.execute(sql)
            connection.commit()


class InDatabase:
    def __init__(self, server):
        self.server = server
        self.path = server.url
        self.name = uuid4().hex

    def tamper(self, *statements):
        ((number,),) = self.server.sql(f"SELECT id FROM skdirdp.ledgers WHERE name='{self.name}'")
        # As the superuser, who can switch triggers off and leave no trace of it.
        self.server.sql(
            "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL search_path = skdirdp;"
            + ";".join(statement.format(ledger=number) for statement in statements)
            + "; COMMIT"
        )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return InFile(tmp_path)
    return InDatabase(request.getfixturevalue("postgres"))


@pytest.fixture
def ledger(place):
    return Ledger.create_or_open(place.path, LIMITS, name=place.name)


def accountant_in(place, epsilon=3.0, **options):
    return PrivacyAccountant(epsilon=epsilon, path=place.path, name=place.name, **options)


def append(ledger, spec="kind", releases=1, label=None, split=None, **options):
    with ledger.writing() as transaction:
        transaction.append(spec, releases, label, split, **options)


def count(ledger):
    with ledger.reading() as transaction:
        return transaction.n_entries


def sums(ledger):
    with ledger.reading() as transaction:
        return transaction.sums()


def charges(ledger):
    with ledger.reading() as transaction:
        return transaction.charges()


def verify(ledger):
    with ledger.reading() as transaction:
        return transaction.verify()


def in_children(function, arguments):
    """Exit statuses of forked children, one for each argument."""
    children = []
    for argument in arguments:
        child = os.fork()
        if child == 0:
            signal.alarm(120)  # a child that waits forever must not block the tests
            status = 1
            try:
                function(argument)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


# Entries


def test_entries_are_returned_in_order_with_all_values(place, ledger):
    label = 'first: "ünï" \\ \n ☃ \U0001f600 %s :name {}'
    append(ledger, "a", 2, label, key="my key")
    append(ledger, "b", 1, None, NORTH)
    first, second = charges(Ledger.open(place.path, place.name))
    assert (first.id, first.spec, first.releases, first.label) == (1, "a", 2, label)
    assert (first.split, first.key) == (None, "my key")
    assert (second.id, second.spec, second.label, second.split) == (2, "b", None, NORTH)
    assert first.time <= second.time
    assert abs(datetime.now(timezone.utc) - second.time).total_seconds() < 60
    assert first.key != second.key


def test_entries_store_the_user(place, ledger, monkeypatch):
    monkeypatch.setenv("USER", "somebody else")
    monkeypatch.setenv("LOGNAME", "somebody else")
    append(ledger)
    import pwd

    system = pwd.getpwuid(os.getuid()).pw_name
    expected = system if isinstance(place, InFile) else "postgres"
    assert charges(ledger)[0].user == expected


def test_sums_are_those_of_the_entries(ledger):
    for releases in (1, 2, 3):
        append(ledger, "a", releases)
        append(ledger, "b", 10 * releases, split=NORTH)
    assert sums(ledger) == {("", "", "a"): 6, ("1234", "north", "b"): 60}


def last(ledger):
    with ledger.reading() as transaction:
        return transaction.last_position()


def test_sums_since_an_entry_are_those_of_the_later_ones(ledger):
    assert last(ledger) == NOTHING
    append(ledger, "a", 5)
    append(ledger, "a", 2, split=NORTH)
    position = last(ledger)
    assert position[0] == 2
    with ledger.reading() as transaction:
        assert transaction.sums_since(position) == {}
    append(ledger, "a", 1)
    append(ledger, "b", 1)
    append(ledger, "a", 3)
    with ledger.writing() as transaction:
        transaction.append("c", 7, None, None)
        assert transaction.last_position()[0] == 6
        later = {("", "", "a"): 4, ("", "", "b"): 1, ("", "", "c"): 7}
        assert transaction.sums_since(position) == later
        assert transaction.sums_since(NOTHING) == transaction.sums()
        # Nothing follows an entry that the ledger does not have.
        assert transaction.sums_since((2, "another")) is None
        assert transaction.sums_since((9, position[1])) is None


def test_the_first_charge_is_known(ledger):
    def first():
        with ledger.reading() as transaction:
            return transaction.first_kind()

    assert first() is None
    with ledger.writing() as transaction:
        transaction.append("a", 5, None, NORTH)
        assert transaction.first_kind() == ("a", 5)
    append(ledger, "b", 1)
    assert first() == ("a", 5)


@pytest.mark.parametrize("since", [0, 1, 2])
def test_sums_since_an_entry_are_checked_too(place, ledger, since):
    positions = [NOTHING]
    for _ in range(4):
        append(ledger, "a", 10)
        positions.append(last(ledger))
    place.tamper("UPDATE charges SET releases = 1 WHERE ledger = {ledger} AND id = 3")
    with ledger.reading() as transaction:
        assert transaction.sums_since(positions[3]) == {("", "", "a"): 10}
        assert transaction.sums_since(positions[4]) == {}

    def look():
        with ledger.reading() as transaction:
            transaction.sums_since(positions[since])

    with pytest.raises(LedgerError, match="charge 3 was changed"):
        look()


def test_a_transaction_reads_its_own_writes(ledger):
    append(ledger, "a")
    with ledger.writing() as transaction:
        transaction.append("a", 2, None, None)
        transaction.append("b", 3, None, None)
        assert transaction.sums() == {("", "", "a"): 3, ("", "", "b"): 3}
        assert [charge.spec for charge in transaction.charges()] == ["a", "a", "b"]
        assert transaction.verify() == transaction.n_entries == 3


def test_an_error_inside_a_transaction_leaves_nothing(ledger):
    def fail():
        with ledger.writing() as transaction:
            transaction.append("a", 1, None, None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert count(ledger) == 0
    assert sums(ledger) == {}
    append(ledger, "b")
    assert sums(ledger) == {("", "", "b"): 1}
    assert verify(ledger) == 1


def test_sums_beyond_64_bits_are_refused_not_rounded(ledger):
    append(ledger, releases=2**62)
    with pytest.raises(LedgerError, match="cannot store more"):
        append(ledger, releases=2**62)
    with pytest.raises(OverflowError):
        append(ledger, releases=2**64)
    assert sums(ledger) == {("", "", "kind"): 2**62}


@pytest.mark.parametrize("text", ["a\0b", "half \ud83d"])
def test_a_text_that_a_database_cannot_give_back_is_refused(ledger, text):
    with pytest.raises(ValueError, match="cannot be stored"):
        append(ledger, label=text)
    assert count(ledger) == 0


# Parameters of a ledger


@pytest.mark.parametrize(
    "limits",
    [
        LimitParameters(None, 0.1 + 0.2, None),
        LimitParameters(1 / 3, 1e-300, 2.000000001, adaptive=False),
        LimitParameters(3.0, 1e-5, None, adaptive=True),
    ],
)
def test_a_ledger_stores_its_parameters_exactly(place, limits):
    declared = {"adjacency": "add_remove", "unit": "a person with up to 3 records"}
    Ledger.create_or_open(place.path, limits, name=place.name, **declared)
    again = Ledger.create_or_open(place.path, LIMITS, name=place.name)
    assert again.header.limit == limits
    assert (again.header.name, again.header.adjacency) == (place.name, "add_remove")
    assert again.header.unit == "a person with up to 3 records"


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"order": 5.0},
        {"adaptive": False},
        {"adjacency": "replace"},
        {"unit": "a record"},
    ],
)
def test_other_limits_or_declarations_than_the_stored_are_an_error(place, other):
    accountant_in(place)
    accountant_in(place)
    with pytest.raises(ValueError, match="was created with"):
        accountant_in(place, **other)


def test_charges_under_another_adjacency_than_the_declared_are_refused(place):
    accountant = accountant_in(place, adjacency="add_remove")
    with pytest.raises(ValueError, match="adjacency must be 'add_remove'"):
        accountant.charge(DirichletMechanism(r=0.5, alpha=5.0))
    with pytest.raises(ValueError, match="adjacency must be 'add_remove'"):
        accountant.affords(DirichletMechanism(r=0.5, alpha=5.0))
    accountant.charge(DirichletMechanism(r=0.5, alpha=5.0, adjacency="add_remove"))
    assert len(accountant) == 1


def test_opening_neither_creates_nor_replaces_a_ledger(place):
    PrivacyAccountant(path=place.path, name=place.name)
    assert PrivacyAccountant.open(place.path, place.name).name == place.name
    elsewhere = f"{place.path}-2" if isinstance(place, InFile) else place.path
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"does not exist|no budget with this name"):
            PrivacyAccountant.open(elsewhere, "a typo")


# Keys


def test_a_charge_with_a_key_counts_once(place):
    accountant = accountant_in(place)
    for _ in range(3):
        accountant.charge(PureDP(0.5), label="ages", key="job 17")
    accountant.charge(PureDP(0.5), label="ages", key="job 18")
    accountant.charge(PureDP(0.5), label="ages")
    assert len(accountant) == 3


def test_repeating_a_recorded_charge_is_no_error_at_the_limit(place):
    accountant = accountant_in(place, epsilon=1.0)
    accountant.charge(PureDP(0.9), key="job 17")
    accountant.charge(PureDP(0.9), key="job 17")
    with pytest.raises(BudgetExceededError):
        accountant.charge(PureDP(0.9), key="job 18")
    accountant.charge(PureDP(0.05), key="job 18")
    assert len(accountant) == 2


@pytest.mark.parametrize(
    "other",
    [
        lambda accountant: accountant.charge(PureDP(0.4), label="ages", key="job 17"),
        lambda accountant: accountant.charge(PureDP(0.5), 2, label="ages", key="job 17"),
        lambda accountant: accountant.charge(PureDP(0.5), label="sizes", key="job 17"),
        lambda accountant: accountant.parallel("halves", split_by="position")["a"].charge(
            PureDP(0.5), label="ages", key="job 17"
        ),
    ],
    ids=["kind", "releases", "label", "part"],
)
def test_a_key_is_not_for_two_different_charges(place, other):
    accountant = accountant_in(place)
    accountant.charge(PureDP(0.5), label="ages", key="job 17")
    with pytest.raises(ValueError, match="key must be unique"):
        other(accountant)
    assert len(accountant) == 1


def test_processes_that_try_the_same_keys_at_once_count_each_once(place):
    accountant = accountant_in(place, epsilon=100.0)

    def charge(seed):
        keys = [f"job {number}" for number in range(10)]
        random.Random(seed).shuffle(keys)
        for key in keys:
            accountant.charge(PureDP(0.5), key=key)

    assert in_children(charge, range(4)) == [0] * 4
    assert sorted(charge.key for charge in accountant._charges()) == sorted(
        f"job {number}" for number in range(10)
    )


# Many at once


def test_processes_together_stay_within_the_limit(place):
    # Divergences of one order add up, which leaves no doubt about how many fit.
    mechanism = GaussianMechanism(sigma=10.0)
    limit = 175 * float(mechanism.rdp(5.0))
    accountant = accountant_in(place, epsilon=limit, order=5.0)
    # A key for each, to see whose charges are there.
    admitted = [os.pipe() for _ in range(4)]

    def charge_often(process):
        for number in range(50):
            try:
                accountant.charge(mechanism, key=f"{process}-{number}")
            except BudgetExceededError:
                continue
            os.write(admitted[process][1], f"{process}-{number}\n".encode())

    assert in_children(charge_often, range(4)) == [0] * 4
    returned = []
    for reader, writer in admitted:
        os.close(writer)
        with open(reader) as pipe:
            returned += pipe.read().split()
    assert len(returned) == len(accountant) == accountant.verify() == 175
    assert sorted(charge.key for charge in accountant._charges()) == sorted(returned)


def test_threads_and_processes_can_charge_together(ledger):
    def charge_in_threads(process):
        threads = [
            threading.Thread(target=append, args=(ledger, f"{process} {number}"))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    append(ledger, "before")
    assert in_children(charge_in_threads, range(4)) == [0] * 4
    assert len(sums(ledger)) == verify(ledger) == 17


def test_a_fork_waits_for_a_transaction_of_another_thread(ledger):
    inside = threading.Event()

    def charge_slowly():
        with ledger.writing() as transaction:
            transaction.append("slow", 1, None, None)
            inside.set()
            time.sleep(0.3)

    thread = threading.Thread(target=charge_slowly)
    thread.start()
    inside.wait()
    assert in_children(lambda _: append(ledger, "child"), [0]) == [0]
    thread.join()
    assert sums(ledger) == {("", "", "slow"): 1, ("", "", "child"): 1}


def charge_through_interrupts(ledger, ready):
    """Charge until there were enough interrupts; then charge in another thread and a child."""
    left = 40
    may_raise = 0
    thread_charges = threading.Event()

    def interrupt(*_):
        nonlocal left, may_raise
        if left > 0 and may_raise > 0:
            left -= 1
            may_raise -= 1
            raise KeyboardInterrupt

    def charge_too():
        while not thread_charges.is_set():
            append(ledger, "thread")

    signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=charge_too)
    thread.start()
    os.write(ready, b"!")
    while left > 0:
        try:
            try:
                may_raise = 2  # the second may come while the first is on its way out
                while left > 0:
                    append(ledger, "interrupted")
            except KeyboardInterrupt:
                may_raise = 0
        except KeyboardInterrupt:
            pass
    thread_charges.set()
    thread.join()
    assert in_children(lambda _: append(ledger, "child"), [0]) == [0]


def test_interrupts_leave_no_lock_held_and_no_fork_waiting(ledger):
    reader, ready = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        status = 1
        try:
            charge_through_interrupts(ledger, ready)
            status = 0
        except BaseException:
            traceback.print_exc()  # os._exit would not
        finally:
            os._exit(status)
    os.read(reader, 1)
    rng = random.Random(8)
    time.sleep(0.1)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        os.kill(child, signal.SIGINT)
        time.sleep(rng.uniform(0.001, 0.04))
    assert ended == (child, 0)
    for descriptor in (reader, ready):
        os.close(descriptor)
    append(ledger, "after")
    assert sums(ledger)[("", "", "child")] == sums(ledger)[("", "", "after")] == 1
    assert verify(ledger) == count(ledger)


def test_a_thread_that_charges_can_read_meanwhile(ledger):
    append(ledger, "a")
    with ledger.writing() as transaction:
        transaction.append("b", 1, None, None)
        assert sums(ledger) == {("", "", "a"): 1}


def test_processes_that_create_the_same_ledger_at_once_share_it(place):
    def create_and_charge(_):
        append(Ledger.create_or_open(place.path, LIMITS, name=place.name))

    assert in_children(create_and_charge, range(6)) == [0] * 6
    ledger = Ledger.open(place.path, place.name)
    assert verify(ledger) == count(ledger) == 6


@pytest.mark.parametrize("copies", [1, 2])
def test_a_pickle_reaches_the_same_ledger(ledger, copies):
    other = ledger
    for _ in range(copies):
        other = pickle.loads(pickle.dumps(other))
    append(other, "a")
    append(ledger, "b")
    assert sums(other) == sums(ledger) == {("", "", "a"): 1, ("", "", "b"): 1}
    assert other.header.limit == ledger.header.limit


# Damage


@dataclass
class Damage:
    statements: tuple
    says: str


DAMAGES = {
    "a flipped byte": Damage(
        ("UPDATE charges SET label = 'lbbel 3' WHERE ledger = {ledger} AND id = 3",),
        "charge 3 was changed",
    ),
    "fewer releases": Damage(
        ("UPDATE charges SET releases = 1 WHERE ledger = {ledger} AND id = 2",),
        "charge 2 was changed",
    ),
    "another user": Damage(
        ("UPDATE charges SET username = 'eve' WHERE ledger = {ledger} AND id = 5",),
        "charge 5 was changed",
    ),
    "a removed entry": Damage(
        ("DELETE FROM charges WHERE ledger = {ledger} AND id = 4",),
        "charge 4 is missing",
    ),
    "the last entry removed": Damage(
        ("DELETE FROM charges WHERE ledger = {ledger} AND id = 6",),
        "charges are missing",
    ),
    "all entries removed": Damage(
        ("DELETE FROM charges WHERE ledger = {ledger}",),
        "charges are missing",
    ),
    "exchanged entries": Damage(
        (
            "UPDATE charges SET id = 99 WHERE ledger = {ledger} AND id = 2",
            "UPDATE charges SET id = 2 WHERE ledger = {ledger} AND id = 5",
            "UPDATE charges SET id = 5 WHERE ledger = {ledger} AND id = 99",
        ),
        "charge 2 was changed",
    ),
    "an added entry": Damage(
        (
            "INSERT INTO charges SELECT ledger, 7, time, username, 'k', spec, releases, label,"
            " split, part, split_name, split_by, hash FROM charges"
            " WHERE ledger = {ledger} AND id = 6",
            "UPDATE heads SET entries = 7 WHERE ledger = {ledger}",
        ),
        "charge 7 was changed",
    ),
    "a higher limit": Damage(
        ("UPDATE ledgers SET epsilon = 300 WHERE id = {ledger}",),
        "limit or another value",
    ),
    "another head": Damage(
        ("UPDATE heads SET hash = 'x' WHERE ledger = {ledger}",),
        "differ from those that|does not match",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_verify_names_the_damage(place, damage):
    accountant = accountant_in(place)
    for number in range(1, 7):
        accountant.charge(PureDP(0.01), releases=number, label=f"label {number}")
    assert accountant.verify() == 6
    place.tamper(*DAMAGES[damage].statements)
    with pytest.raises(LedgerError, match=DAMAGES[damage].says):
        accountant.verify()
    # A process that reads it for the first time also detects the change.
    assert in_children(lambda _: accountant_in(place), [0]) == [1]
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger.open(place.path, place.name)


def test_a_ledger_that_took_the_place_of_another_is_refused(ledger):
    impostor = Ledger(ledger._storage, replace(ledger.header, identity="another"))
    with pytest.raises(LedgerError, match="replaced by another ledger"):
        append(impostor)
    with pytest.raises(LedgerError, match="was changed"):
        append(Ledger(ledger._storage, replace(ledger.header, limit=replace(LIMITS, delta=0.1))))
    assert count(ledger) == 0


def test_removal_of_charges_that_a_process_has_read_is_detected(place, ledger):
    for number in range(4):
        append(ledger, f"kind {number}")
    place.tamper(
        "DELETE FROM charges WHERE ledger = {ledger} AND id > 2",
        "UPDATE heads SET entries = 2, hash = (SELECT hash FROM charges"
        " WHERE ledger = {ledger} AND id = 2) WHERE ledger = {ledger}",
    )
    with pytest.raises(LedgerError, match="charges are missing: it has 2"):
        sums(ledger)


def test_a_stored_anchor_detects_a_restored_backup(place):
    accountant = accountant_in(place)
    start = accountant.anchor()
    for _ in range(3):
        accountant.charge(PureDP(0.1))
    kept = accountant.anchor()
    assert start.startswith("0:")
    assert kept.startswith("3:")
    assert accountant.verify(expect=start) == accountant.verify(expect=kept) == 3
    place.tamper(
        "DELETE FROM charges WHERE ledger = {ledger} AND id > 1",
        "UPDATE heads SET entries = 1, hash = (SELECT hash FROM charges"
        " WHERE ledger = {ledger} AND id = 1) WHERE ledger = {ledger}",
    )
    if isinstance(place, InFile):
        os.unlink(f"{place.path}.lock")

    def verify_elsewhere(_):
        _CHECKED.clear()
        restored = PrivacyAccountant.open(place.path, place.name)
        assert restored.verify() == restored.verify(expect=start) == 1
        with pytest.raises(LedgerError, match="it has 1, but 3 are expected"):
            restored.verify(expect=kept)
        # More charges follow, until there are as many as before.
        for _ in range(2):
            restored.charge(PureDP(0.1))
        with pytest.raises(LedgerError, match="differ from those expected"):
            restored.verify(expect=kept)

    assert in_children(verify_elsewhere, [None]) == [0]


@pytest.mark.parametrize(
    "expect", ["3", "", "x:y", "1:" + "0" * 63, (1, "0" * 64), "-1:" + "0" * 64]
)
def test_an_anchor_has_a_number_and_a_hash(expect):
    with pytest.raises(ValueError, match="COUNT:HASH"):
        PrivacyAccountant(epsilon=1.0).verify(expect=expect)
