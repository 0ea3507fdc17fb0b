"""Charges of processes that know the ledger: one message, which writes only what still fits."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from urllib.parse import quote

import psycopg
import pytest

from skdirdp import BudgetExceededError, PrivacyAccountant
from skdirdp.accountant import LedgerError, connections, one_message
from skdirdp.accountant.chain import ENTRY, around_time, entry_hash
from skdirdp.accountant.postgres import PostgresStorage, roles_sql
from skdirdp.accounting import PureDP

from .test_ledger import InDatabase, in_children

WRITE = one_message.write


@pytest.fixture
def place(postgres):
    return InDatabase(postgres)


@pytest.fixture
def accountant(place):
    return PrivacyAccountant(epsilon=1000.0, path=place.path, name=place.name)


def again(accountant):
    """The same budget, as somebody opens it who has not seen it before."""
    return PrivacyAccountant(path=accountant.path, name=accountant.name)


def charge_elsewhere(accountant, *charges, **options):
    def charge(mechanism):
        again(accountant).charge(mechanism, **options)

    assert in_children(charge, charges) == [0] * len(charges)


@pytest.fixture
def messages(monkeypatch):
    """What became of the messages: True for a charge, False for none, or the kind of error."""
    outcomes = []

    def write(*arguments):
        try:
            row = WRITE(*arguments)
        except BaseException as error:
            outcomes.append(type(error))
            raise
        outcomes.append(row is not None)
        return row

    monkeypatch.setattr(one_message, "write", write)
    return outcomes


@contextmanager
def nothing_but_messages():
    """Whoever begins a transaction that is more than one message fails."""

    def fail(*_):
        raise AssertionError("there was more than one message")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresStorage, "_begin", fail)
        yield


# What is written


def test_a_charge_on_a_known_ledger_is_one_message(accountant, messages):
    with nothing_but_messages():
        for number in range(1, 4):
            accountant.charge(PureDP(0.1), releases=number, label=f"label {number}")
    assert messages == [True] * 3
    charges = accountant._charges()
    assert [charge.releases for charge in charges] == [1, 2, 3]
    assert [charge.user for charge in charges] == ["postgres"] * 3
    assert charges == sorted(charges, key=lambda charge: charge.time)
    assert abs(time.time() - charges[-1].time.timestamp()) < 60
    assert again(accountant).verify() == 3


def test_a_split_is_one_message_too(accountant, messages):
    parts = accountant.parallel("region", split_by="values")
    mechanism = PureDP(0.1, adjacency="add_remove")
    with nothing_but_messages():
        for part in ("north", "south", "north"):
            parts[part].charge(mechanism)
    assert messages == [True] * 3
    assert [charge.split.part for charge in again(accountant)._charges()] == [
        "north",
        "south",
        "north",
    ]


def test_the_server_takes_the_hash_of_the_same_text():
    entry = (7, "2026-11-16T12:00:00.000001+00:00", 'ü"\\', "k", "{}", 1, None, "", "", None, None)
    before, after = around_time("0" * 64, entry)
    text = (before + entry[1] + after).encode("ascii")
    assert sha256(text).hexdigest() == entry_hash("0" * 64, entry)


NASTY = "it's; DROP TABLE charges; -- \\' \\\\ \" %s %% {} $$ \n ☃ ü \U0001f600 \x7f"


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_whatever_is_in_a_label_comes_back(place, messages, conforming):
    name = f'jürgen "{conforming}\\'
    quoted = name.replace('"', '""')
    place.server.sql(
        f"""
        CREATE ROLE "{quoted}" LOGIN SUPERUSER;
        ALTER ROLE "{quoted}" SET standard_conforming_strings = {conforming};
        """
    )
    url = place.server.url_of(quote(name, safe=""))
    accountant = PrivacyAccountant(epsilon=10.0, path=url, name=place.name + NASTY, unit=NASTY)
    with nothing_but_messages():
        accountant.charge(PureDP(0.1, "replace_person"), label=NASTY, key=NASTY)
    assert messages == [True]
    (charge,) = again(accountant)._charges()
    assert (charge.user, charge.label, charge.key) == (name, NASTY, NASTY)


def test_a_role_that_does_not_wait_for_the_disk_waits(place, messages):
    server = place.server
    server.sql(
        """
        CREATE ROLE hasty LOGIN SUPERUSER;
        ALTER ROLE hasty SET synchronous_commit = off;
        ALTER ROLE hasty SET default_transaction_isolation = 'repeatable read';
        ALTER ROLE hasty SET search_path = public;
        """
    )
    server.sql("CREATE DATABASE settings")
    accountant = PrivacyAccountant(epsilon=1.0, path=server.url_of("hasty", database="settings"))
    with psycopg.connect(
        host=str(server.folder), user="postgres", dbname="settings", autocommit=True
    ) as connection:
        connection.execute(
            """
            CREATE TABLE found (waits text, isolation text);
            CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.found VALUES (current_setting('synchronous_commit'),
                    current_setting('transaction_isolation'));
                RETURN NULL;
            END $$;
            CREATE TRIGGER look AFTER INSERT ON skdirdp.charges
                FOR EACH ROW EXECUTE FUNCTION look();
            """
        )
        with nothing_but_messages():
            accountant.charge(PureDP(0.1))
        found = connection.execute("SELECT * FROM found").fetchall()
    assert (messages, found) == ([True], [("on", "read committed")])


# The ledger is another than this process knows


def test_what_others_have_charged_meanwhile_counts(accountant, messages):
    accountant.charge(PureDP(0.1), label="mine")
    charge_elsewhere(accountant, PureDP(0.2), PureDP(0.3), label="theirs")
    accountant.charge(PureDP(0.1), label="mine again")
    # The message found another head, and that was no error of the server.
    assert messages == [True, False]
    labels = [charge.label for charge in accountant._charges()]
    assert labels == ["mine", "theirs", "theirs", "mine again"]
    with nothing_but_messages():
        accountant.charge(PureDP(0.1), label="and again")
    assert accountant.remaining() == again(accountant).remaining()
    assert again(accountant).verify() == 5


def test_the_last_of_a_budget_goes_to_one(place, messages):
    accountant = PrivacyAccountant(epsilon=1.0, adaptive=False, path=place.path, name=place.name)
    accountant.charge(PureDP(0.5))
    charge_elsewhere(accountant, PureDP(0.5))
    with pytest.raises(BudgetExceededError):
        accountant.charge(PureDP(0.5))
    assert messages == [True, False]
    # Now it is known that nothing fits, and the server is not even asked to write.
    with pytest.raises(BudgetExceededError):
        accountant.charge(PureDP(0.001))
    assert messages == [True, False]
    assert again(accountant).verify() == 2


@pytest.mark.parametrize("see", [PrivacyAccountant.verify, PrivacyAccountant.history, again])
def test_what_was_seen_and_not_yet_composed_counts(place, see):
    accountant = PrivacyAccountant(epsilon=1.0, adaptive=False, path=place.path, name=place.name)
    accountant.charge(PureDP(0.5))
    charge_elsewhere(accountant, PureDP(0.5))
    see(accountant)
    with pytest.raises(BudgetExceededError):
        accountant.charge(PureDP(0.5))
    assert again(accountant).verify() == 2


def test_the_limit_is_the_same_as_that_of_a_file(place, tmp_path):
    def charged(**where):
        accountant = PrivacyAccountant(epsilon=1.0, **where)
        with suppress(BudgetExceededError):
            while True:
                accountant.charge(PureDP(0.03))
        return len(accountant)

    assert charged(path=place.path, name=place.name) == charged(path=tmp_path / "ledger.sqlite")


REPLACED = (
    "UPDATE charges SET label = 'forged', hash = '{zeros}' WHERE ledger = {{ledger}} AND id = 2",
    "UPDATE heads SET hash = '{zeros}' WHERE ledger = {{ledger}}",
)
TAKEN_BACK = (
    "DELETE FROM charges WHERE ledger = {{ledger}} AND id = 2",
    "UPDATE heads SET entries = 1, hash = (SELECT hash FROM charges"
    " WHERE ledger = {{ledger}} AND id = 1) WHERE ledger = {{ledger}}",
)
LIMITS = ("UPDATE ledgers SET epsilon = 2000 WHERE id = {{ledger}}",)
UNIT = ("UPDATE ledgers SET unit = 'nobody' WHERE id = {{ledger}}",)
IDENTITY = ("UPDATE ledgers SET identity = identity || 'x' WHERE id = {{ledger}}",)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (REPLACED, "not those that this process has seen"),
        (TAKEN_BACK, "charges are missing: it has 1"),
        (LIMITS, "its limits, or what else"),
        (UNIT, "its limits, or what else"),
        (IDENTITY, "another ledger has taken the place"),
    ],
)
def test_nothing_is_charged_on_a_ledger_that_was_edited(
    place, accountant, messages, statements, says
):
    for _ in range(2):
        accountant.charge(PureDP(0.1))
    place.tamper(*(statement.format(zeros="0" * 64) for statement in statements))
    count = "SELECT count(*) FROM skdirdp.charges WHERE ledger ="
    number = accountant._ledger.header.number
    before = place.server.sql(f"{count} {number}")
    with pytest.raises(LedgerError, match=says):
        accountant.charge(PureDP(0.1))
    assert messages == [True, True, False]
    assert place.server.sql(f"{count} {number}") == before


def test_what_a_process_has_seen_of_a_ledger_binds_it_even_if_it_has_not_composed_it(
    place, accountant, messages
):
    accountant.charge(PureDP(0.1))
    charge_elsewhere(accountant, PureDP(0.1))
    assert accountant.verify() == 2  # seen, and not composed yet
    place.tamper(*(statement.format() for statement in TAKEN_BACK))
    with pytest.raises(LedgerError, match="charges are missing: it has 1"):
        accountant.charge(PureDP(0.1))


def test_a_ledger_that_was_made_anew_under_the_same_name_is_not_the_same(place):
    place.server.sql("CREATE DATABASE anew")
    url = place.server.url_of("postgres", database="anew")
    old = PrivacyAccountant(epsilon=1.0, path=url)
    with psycopg.connect(
        host=str(place.server.folder), user="postgres", dbname="anew", autocommit=True
    ) as connection:
        connection.execute("DROP SCHEMA skdirdp CASCADE")
        with pytest.raises(LedgerError, match="does not exist"):
            old.charge(PureDP(0.1))
        new = PrivacyAccountant(epsilon=1.0, path=url)
        with pytest.raises(LedgerError, match="taken the place"):
            old.charge(PureDP(0.1))
        new.charge(PureDP(0.1))
        assert new.verify() == 1


def test_somebody_who_writes_by_hand_is_waited_for_and_noticed(accountant, monkeypatch):
    accountant.charge(PureDP(0.1))
    came_second = []

    def write(connection, begin, header, before, entry):
        # The stranger asks for no lock, and has not committed yet; but a trigger of the database
        # moves the head, whose row the message has to lock.
        id_, _, user, _, *rest = entry
        stranger = (id_, "2026-11-16T12:00:00+00:00", user, "the stranger", *rest)
        with psycopg.connect(connection.info.dsn) as other, ThreadPoolExecutor(1) as thread:
            monkeypatch.setattr(one_message, "write", WRITE)
            other.execute(
                f"INSERT INTO skdirdp.charges (ledger, {', '.join(ENTRY)}, hash)"
                f" VALUES ({', '.join(['%s'] * (len(ENTRY) + 2))})",
                (header.number, *stranger, entry_hash(before, stranger)),
            )
            second = thread.submit(WRITE, connection, begin, header, before, entry)
            time.sleep(0.3)
            other.commit()
            came_second.append(second.result())
            return second.result()

    monkeypatch.setattr(one_message, "write", write)
    accountant.charge(PureDP(0.1), label="after the stranger")
    assert came_second == [None]
    assert again(accountant).verify() == 3


def test_under_another_name_the_longer_way_is_taken(accountant, messages):
    # As through a pool that logs in for everybody, and has changed as whom.
    accountant._ledger._storage._user = "somebody else"
    accountant.charge(PureDP(0.1))
    assert messages == [False]
    assert [charge.user for charge in accountant._charges()] == ["postgres"]


def test_rights_are_those_of_the_roles(place, messages):
    server = place.server
    PrivacyAccountant(epsilon=1.0, path=server.url, name=place.name)
    server.sql(roles_sql())
    server.sql(
        """
        CREATE ROLE alice LOGIN; GRANT skdirdp_analyst TO alice;
        CREATE ROLE bob LOGIN; GRANT skdirdp_auditor TO bob;
        """
    )
    analyst = PrivacyAccountant(path=server.url_of("alice"), name=place.name)
    with nothing_but_messages():
        analyst.charge(PureDP(0.1))
    assert [charge.user for charge in analyst._charges()] == ["alice"]
    auditor = PrivacyAccountant(path=server.url_of("bob"), name=place.name)
    assert auditor.remaining() < 1.0
    with pytest.raises(LedgerError, match="permission denied"):
        auditor.charge(PureDP(0.1))
    assert messages == [True, psycopg.errors.InsufficientPrivilege]


# Keys


def test_a_key_that_somebody_else_has_used_counts_once(accountant, messages):
    accountant.charge(PureDP(0.1))
    charge_elsewhere(accountant, PureDP(0.2), key="job 17")
    accountant.charge(PureDP(0.2), key="job 17")
    with pytest.raises(ValueError, match="was used for charge 2"):
        accountant.charge(PureDP(0.1), key="job 17")
    assert messages == [True, False, psycopg.errors.UniqueViolation]
    assert again(accountant).verify() == 2


def test_a_key_that_is_used_again_at_the_limit_counts_once(place):
    accountant = PrivacyAccountant(epsilon=1.0, adaptive=False, path=place.path, name=place.name)
    for _ in range(3):
        accountant.charge(PureDP(1.0), key="all of it")
    assert again(accountant).verify() == 1


# Connections that break


def killed(connection):
    """End a connection at the server's side, of which nobody is told at this one."""
    number = [connection.info.backend_pid]
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", number)
        wait_until(
            lambda: (
                not other.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s", number
                ).fetchall()
            )
        )


def wait_until(condition):
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_connection_that_breaks_before_the_message_comes(accountant, monkeypatch):
    times = []

    def write(connection, *arguments):
        times.append(1)
        if len(times) == 1:
            killed(connection)
        return WRITE(connection, *arguments)

    monkeypatch.setattr(one_message, "write", write)
    accountant.charge(PureDP(0.1), label="once")
    assert len(times) == 2
    assert [charge.label for charge in again(accountant)._charges()] == ["once"]


def test_a_connection_that_breaks_after_the_commit(accountant, monkeypatch):
    times = []

    def write(connection, *arguments):
        times.append(1)
        WRITE(connection, *arguments)
        killed(connection)
        raise psycopg.OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(one_message, "write", write)
        accountant.charge(PureDP(0.1), label="once")
        assert len(times) == 1
        accountant.charge(PureDP(0.1), label="twice")
    with nothing_but_messages():
        accountant.charge(PureDP(0.1), label="thrice")
    labels = [charge.label for charge in again(accountant)._charges()]
    assert labels == ["once", "twice", "thrice"]


def test_a_connection_that_breaks_while_it_waits_for_the_lock(accountant, messages, postgres):
    accountant.charge(PureDP(0.1))
    inside, done = threading.Event(), threading.Event()

    def hold():
        with again(accountant)._ledger.writing():
            inside.set()
            done.wait(20)

    def cut():
        waiting = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND query LIKE '%signed.time%'"
        )
        try:
            wait_until(lambda: postgres.sql(waiting))
        finally:
            done.set()

    threads = [threading.Thread(target=target) for target in (hold, cut)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    accountant.charge(PureDP(0.1))
    for thread in threads:
        thread.join()
    first, cut_off, second = messages
    assert (first, second) == (True, True)
    assert issubclass(cut_off, psycopg.OperationalError)
    assert again(accountant).verify() == 2


@pytest.fixture
def late(monkeypatch):
    """The first message, which is lost to us, and comes to the server when it is called."""
    sent = []

    def lose_first(connection, *arguments):
        if sent:
            return WRITE(connection, *arguments)
        sent.append((connection.info.dsn, arguments))
        killed(connection)
        raise psycopg.OperationalError("gone")

    def arrive():
        dsn, arguments = sent[0]
        with psycopg.connect(dsn, autocommit=True) as connection:
            return WRITE(connection, *arguments)

    monkeypatch.setattr(one_message, "write", lose_first)
    return arrive


def test_a_message_that_comes_when_it_was_looked_for_already_counts_once(
    accountant, late, monkeypatch
):
    find = PostgresStorage._find
    arrived = []

    def find_and_arrive(*arguments):
        try:
            return find(*arguments)
        finally:
            arrived.append(late())

    monkeypatch.setattr(PostgresStorage, "_find", find_and_arrive)
    accountant.charge(PureDP(0.1), label="once")
    assert len(arrived) == 1
    assert arrived[0] is not None
    assert [charge.label for charge in again(accountant)._charges()] == ["once"]


def test_a_message_that_comes_when_the_charge_was_made_again_writes_nothing(accountant, late):
    accountant.charge(PureDP(0.1), label="once")
    assert late() is None
    assert [charge.label for charge in again(accountant)._charges()] == ["once"]


def test_an_idle_connection_that_was_cut_is_noticed_before_the_message(accountant, monkeypatch):
    def fail(*_):
        raise AssertionError("nothing was sent, and nothing has to be looked for")

    monkeypatch.setattr(PostgresStorage, "_find", fail)
    connections.forget_connections()  # so that there is one, and that is the next to be used
    for _ in range(3):
        engine = connections.engine_of(accountant._ledger._storage._url, accountant.path)
        connection = engine.raw_connection()
        killed(connection.driver_connection)
        connection.close()
        accountant.charge(PureDP(0.1))
    assert again(accountant).verify() == 3


def test_an_error_of_the_server_is_one_line_and_writes_nothing(place, accountant, messages):
    place.server.sql("ALTER ROLE postgres SET default_transaction_read_only = on")
    connections.forget_connections()
    try:
        with pytest.raises(LedgerError, match="read-only transaction") as caught:
            accountant.charge(PureDP(0.1), label="a secret of the analyst")
    finally:
        place.server.sql(
            "BEGIN READ WRITE; ALTER ROLE postgres RESET default_transaction_read_only; COMMIT"
        )
        connections.forget_connections()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert messages == [psycopg.errors.ReadOnlySqlTransaction]
    accountant.charge(PureDP(0.1))
    assert again(accountant).verify() == 1


def test_an_interrupt_leaves_no_connection_in_the_middle(accountant, monkeypatch):
    def write(connection, begin, *arguments):
        connection.pgconn.send_query(f"{begin}; SELECT pg_sleep(0.5)".encode())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(one_message, "write", write)
        with pytest.raises(KeyboardInterrupt):
            accountant.charge(PureDP(0.1))
    with nothing_but_messages():
        accountant.charge(PureDP(0.1))
    assert again(accountant).verify() == 1


# Threads and forks


def test_threads_that_know_the_same_head_all_count(accountant):
    def charge():
        for _ in range(10):
            accountant.charge(PureDP(0.1))

    threads = [threading.Thread(target=charge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert again(accountant).verify() == 40
    assert accountant.remaining() == again(accountant).remaining()


def test_a_child_charges_on_a_connection_of_its_own(accountant):
    accountant.charge(PureDP(0.1))
    backends = [backend(accountant)]

    def charge(_):
        accountant.charge(PureDP(0.1))
        assert backend(accountant) not in backends

    assert in_children(charge, range(3)) == [0] * 3
    accountant.charge(PureDP(0.1))
    assert [backend(accountant)] == backends
    assert again(accountant).verify() == 5


def backend(accountant):
    connection = connections.engine_of(
        accountant._ledger._storage._url, accountant.path
    ).raw_connection()
    try:
        return connection.driver_connection.info.backend_pid, os.getpid()
    finally:
        connection.close()


def test_two_addresses_of_one_ledger_are_one_budget(accountant, postgres):
    other = PrivacyAccountant(path=f"{postgres.url}&application_name=other", name=accountant.name)
    for _ in range(3):
        accountant.charge(PureDP(0.1))
        other.charge(PureDP(0.1))
    assert again(accountant).verify() == 6
    assert accountant.remaining() == other.remaining()


def test_a_header_that_differs_in_anything_is_another(accountant):
    header = accountant._ledger.header
    others = {
        one_message._as_json(replace(header, **{name: "other"}))
        for name in ("identity", "created", "name", "adjacency", "unit", "origin")
    }
    assert len(others | {one_message._as_json(header)}) == 7
