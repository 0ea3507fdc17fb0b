"""Ledgers in PostgreSQL: broken connections, roles, passwords, addresses.

``python -m tests.test_ledger_postgres 20`` kills the server as often as one likes.
"""

import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from skdirdp import PrivacyAccountant
from skdirdp.accountant import LedgerError
from skdirdp.accountant import postgres as module
from skdirdp.accountant.codec import encode
from skdirdp.accountant.ledger import Ledger
from skdirdp.accountant.postgres import PostgresSession as Session
from skdirdp.accountant.postgres import roles_sql
from skdirdp.accountant.schema import LimitParameters
from skdirdp.accounting import PureDP

from .postgres import running_server

LIMITS = LimitParameters(epsilon=3.0, delta=1e-5, order=None)
PASSWORD = "s3cret&p@ss/word"
QUOTED = "s3cret%26p%40ss%2Fword"


@pytest.fixture
def name():
    return uuid4().hex


@pytest.fixture
def accountant(postgres, name):
    return PrivacyAccountant(epsilon=1000.0, path=postgres.url, name=name)


@pytest.fixture(scope="module")
def people(postgres):
    """The roles that are shipped, and somebody in each of them; one needs a password."""
    PrivacyAccountant(path=postgres.url)
    postgres.sql(roles_sql())
    postgres.sql(roles_sql())  # it can be run again
    postgres.sql(
        f"""
        CREATE ROLE ana LOGIN; GRANT skdirdp_analyst TO ana;
        CREATE ROLE audra LOGIN; GRANT skdirdp_auditor TO audra;
        CREATE ROLE stranger LOGIN;
        CREATE ROLE careful LOGIN PASSWORD '{PASSWORD}'; GRANT skdirdp_analyst TO careful;
        """
    )
    rules = postgres.folder / "pg_hba.conf"
    rules.write_text("local all careful scram-sha-256\n" + rules.read_text())
    postgres.sql("SELECT pg_reload_conf()")
    return postgres


# Connections that break


def release_for_ever(path, name, log):
    """Charge, and note each charge that returned; go on after errors."""
    number = 0
    with open(log, "a", buffering=1) as released, open(f"{log}-errors", "a", buffering=1) as errors:
        while True:
            number += 1
            key = f"{log.name} {number}"
            try:
                accountant = PrivacyAccountant(path=path, name=name)
                while True:
                    accountant.charge(PureDP(0.001), key=key)
                    print(key, file=released)
                    number += 1
                    key = f"{log.name} {number}"
            except LedgerError as error:
                print(error, file=errors)
                time.sleep(0.02)


@contextmanager
def releasing(path, name, folder, processes=3):
    """Processes that release until the end; the files in which they note it."""
    logs = [Path(folder, f"process {number}") for number in range(processes)]
    children = []
    for log in logs:
        log.touch()
        child = os.fork()
        if child == 0:
            try:
                release_for_ever(path, name, log)
            finally:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    try:
        yield logs
        for child in children:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "a process died of another error"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def lines_of(logs):
    return [line for log in logs for line in log.read_text().splitlines()]


def wait_for_more(logs, number):
    enough = len(lines_of(logs)) + number
    give_up = time.monotonic() + 60
    while len(lines_of(logs)) < enough and time.monotonic() < give_up:
        time.sleep(0.01)


def kill_server(times, seed=0):
    """Return the numbers of releases, of charges without a release, and of errors."""
    rng = random.Random(seed)
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        PrivacyAccountant(epsilon=1000.0, path=server.url, name="killed")
        module._forget_connections()
        with releasing(server.url, "killed", folder) as logs:
            for _ in range(times):
                wait_for_more(logs, 10)
                time.sleep(rng.uniform(0, 0.05))
                server.kill()
                server.start()
            wait_for_more(logs, 10)
        accountant = PrivacyAccountant(path=server.url, name="killed")
        released = lines_of(logs)
        charged = [charge.key for charge in accountant._charges()]
        assert accountant.verify() == len(charged) == len(set(charged))
        assert set(released) <= set(charged), "a release without its charge"
        assert len(released) >= 10 * times
        errors = lines_of(Path(f"{log}-errors") for log in logs)
        return len(released), len(charged) - len(released), len(errors)


def test_no_release_is_without_its_charge_when_the_server_is_killed():
    kill_server(2)


def cut_connections(server, name, times):
    accountant = PrivacyAccountant(epsilon=1000.0, path=server.url, name=name)
    with tempfile.TemporaryDirectory() as folder:
        with releasing(server.url, name, folder) as logs:
            for _ in range(times):
                wait_for_more(logs, 2)
                server.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE usename = 'postgres' AND pid <> pg_backend_pid()"
                )
            wait_for_more(logs, 5)
        released = lines_of(logs)
        errors = lines_of(Path(f"{log}-errors") for log in logs)
    charged = [charge.key for charge in accountant._charges()]
    assert accountant.verify() == len(charged) == len(set(charged))
    assert set(released) <= set(charged), "a release without its charge"
    assert len(released) >= 2 * times
    # A process may be killed at the end between its charge and its note of it.
    assert len(charged) - len(released) <= 3 + len(errors)
    return len(released), len(charged) - len(released), len(errors)


def test_every_release_is_charged_even_if_connections_are_lost(postgres, name):
    cut_connections(postgres, name, 20)


def broken(*_):
    raise OperationalError(
        "COMMIT", None, psycopg.OperationalError("gone"), connection_invalidated=True
    )


def test_a_charge_whose_response_is_lost_is_recorded_once(accountant, monkeypatch):
    commit = Session.commit

    def commit_and_break(*arguments):
        commit(*arguments)
        broken()

    monkeypatch.setattr(Session, "commit", commit_and_break)
    accountant.charge(PureDP(0.1), label="once")
    assert [charge.label for charge in accountant._charges()] == ["once"]


def test_a_charge_whose_commit_is_lost_is_retried(accountant, monkeypatch):
    commit = Session.commit
    attempts = []

    def break_first(*arguments):
        attempts.append(1)
        return (broken if len(attempts) < 3 else commit)(*arguments)

    monkeypatch.setattr(Session, "commit", break_first)
    accountant.charge(PureDP(0.1), label="once")
    assert len(attempts) == 3
    assert [charge.label for charge in accountant._charges()] == ["once"]


def test_a_charge_that_is_lost_repeatedly_is_an_error(accountant, monkeypatch):
    monkeypatch.setattr(Session, "commit", broken)
    with pytest.raises(LedgerError, match="the charge was not recorded"):
        accountant.charge(PureDP(0.1))
    assert len(accountant) == 0


def test_an_unreachable_server_is_an_error_and_a_retry_with_the_key_counts_once(
    accountant, monkeypatch
):
    commit = Session.commit
    with monkeypatch.context() as patch:

        def commit_and_vanish(*arguments):
            commit(*arguments)
            patch.setattr(module.PostgresStorage, "_begin", broken)
            broken()

        patch.setattr(Session, "commit", commit_and_vanish)
        patch.setattr(module, "_RECONNECT_SECONDS", 0.3)
        with pytest.raises(LedgerError, match=r"cannot be reached .*nothing may be released"):
            accountant.charge(PureDP(0.1), key="job 17")
    accountant.charge(PureDP(0.1), key="job 17")
    assert len(accountant) == 1


def test_an_error_that_is_passed_over_does_not_leave_half_a_transaction(accountant):
    def write_half():
        with accountant._ledger.writing() as transaction:
            transaction.append("first", 1, None, None, key="one")
            with suppress(Exception):
                transaction.append("second", 1, None, None, key="one")

    with pytest.raises(LedgerError, match="nothing was written"):
        write_half()
    assert len(accountant) == 0


def test_a_broken_idle_connection_is_replaced(accountant, postgres):
    accountant.charge(PureDP(0.1))
    for _ in range(3):
        postgres.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'postgres' AND pid <> pg_backend_pid()"
        )
        accountant.charge(PureDP(0.1))
    assert len(accountant) == 4


def test_a_lock_held_too_long_is_an_error(accountant, monkeypatch):
    begin = module._BEGIN.replace("'lock_timeout', '60s'", "'lock_timeout', '100ms'")
    monkeypatch.setattr(module, "_BEGIN", begin)
    inside, done = threading.Event(), threading.Event()

    def hold():
        with accountant._ledger.writing():
            inside.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with pytest.raises(LedgerError, match="another process kept it locked"):
        accountant.charge(PureDP(0.1))
    done.set()
    thread.join()
    accountant.charge(PureDP(0.1))
    assert len(accountant) == 1


# Servers that stop


@contextmanager
def stopped(process):
    """A process of the server that does nothing meanwhile, and keeps its sockets open."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def backend_of(accountant):
    """The process of the server behind the one connection that waits for the next charge."""
    storage = accountant._ledger._storage
    connection = module._engine(storage._url, storage.location).raw_connection()
    try:
        return connection.driver_connection.info.backend_pid
    finally:
        connection.close()


@pytest.fixture
def impatient(monkeypatch):
    """Short times, as arguments of the module."""
    monkeypatch.setattr(module, "_RESPONSE_SECONDS", 0.5)
    monkeypatch.setattr(module, "_RECONNECT_SECONDS", 0.3)
    begin = module._BEGIN.replace("'lock_timeout', '60s'", "'lock_timeout', '300ms'")
    monkeypatch.setattr(module, "_BEGIN", begin)
    module._forget_connections()


def test_a_stopped_backend_does_not_hold_a_charge_for_ever(accountant, postgres, impatient):
    accountant.charge(PureDP(0.1))
    backend = backend_of(accountant)
    start = time.monotonic()
    with stopped(backend):
        # What was sent is not read, and another connection makes the charge; or nothing was
        # sent but the beginning, and the charge is an error.
        outcome = None
        try:
            accountant.charge(PureDP(0.1), key="job")
        except LedgerError as error:
            outcome = str(error)
    assert time.monotonic() - start < 10
    assert outcome is None or "did not respond within 0.5 seconds" in outcome
    accountant.charge(PureDP(0.1), key="job")
    # The stopped one has gone on, and found that the charge was made.
    gone = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}"
    wait_until(lambda: postgres.sql(gone) == [(0,)])
    assert PrivacyAccountant(path=postgres.url, name=accountant.name).verify() == 2


def wait_until(condition):
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("step", ["append", "commit"])
def test_a_backend_suspended_with_the_lock_is_an_error_without_lost_charges(
    accountant, impatient, step
):
    spec = encode(PureDP(0.1))

    def charge_and_stop():
        with accountant._ledger.writing() as transaction:
            process = transaction._session.execute("SELECT pg_backend_pid()")[0][0]
            if step == "commit":
                transaction.append(spec, 1, None, None)
            stack.enter_context(stopped(process))
            if step == "append":
                transaction.append(spec, 1, None, None)

    start = time.monotonic()
    with ExitStack() as stack:
        with pytest.raises(LedgerError, match=r"did not respond within 0\.5|cannot be reached"):
            charge_and_stop()
        with pytest.raises(LedgerError, match=r"kept it locked|cannot be reached"):
            accountant.charge(PureDP(0.1))
        assert time.monotonic() - start < 10
    wait_until(lambda: can_charge(accountant))
    # A commit that was sent may count. It was an error, so that nothing was released.
    assert accountant.verify() in ([1] if step == "append" else [1, 2])


def can_charge(accountant):
    try:
        accountant.charge(PureDP(0.1))
    except LedgerError:
        return False
    return True


def test_a_stopped_server_is_an_error(postgres, monkeypatch):
    monkeypatch.setattr(module, "_CONNECT", module._CONNECT | {"connect_timeout": 2})
    module._forget_connections()
    postmaster = int((postgres.folder / "postmaster.pid").read_text().split()[0])
    start = time.monotonic()
    with stopped(postmaster), pytest.raises(LedgerError, match=r"cannot be used: .*timeout"):
        PrivacyAccountant.open(postgres.url)
    assert time.monotonic() - start < 10


# Locks that others take


def test_a_login_without_grants_cannot_block_charges(people, accountant, impatient):
    accountant.charge(PureDP(0.1))
    ((number,),) = people.sql(f"SELECT id FROM skdirdp.ledgers WHERE name = '{accountant.name}'")
    attempts = [
        f"SELECT pg_advisory_lock({0x44697250}, {number}), pg_advisory_lock({0x44697250}, 0)",
        f"SELECT 1 FROM skdirdp.heads WHERE ledger = {number} FOR UPDATE",
        f"SELECT 1 FROM skdirdp.heads WHERE ledger = {number} FOR KEY SHARE",
        f"SELECT 1 FROM skdirdp.ledgers WHERE id = {number} FOR UPDATE",
        *(
            f"LOCK TABLE skdirdp.{table} IN {mode} MODE"
            for table in ("ledgers", "heads", "charges")
            for mode in ("ACCESS SHARE", "ROW SHARE", "SHARE", "ROW EXCLUSIVE", "EXCLUSIVE")
        ),
    ]
    for user in ("stranger", "audra"):
        for attempt in attempts:
            with psycopg.connect(
                host=str(people.folder), user=user, dbname="postgres"
            ) as connection:
                with suppress(psycopg.errors.InsufficientPrivilege):
                    connection.execute(attempt)
                accountant.charge(PureDP(0.1))
                PrivacyAccountant(path=people.url, name=uuid4().hex)


def test_an_analyst_may_lock_a_head_and_not_change_it(people, accountant):
    accountant.charge(PureDP(0.1))
    people.sql("SELECT 1 FROM skdirdp.heads FOR UPDATE", user="ana")
    for change in ("ledger = ledger", "ledger = ledger + 1000"):
        with pytest.raises(psycopg.errors.RaiseException, match="follows its charges"):
            people.sql(f"UPDATE skdirdp.heads SET {change}", user="ana")
    assert accountant.verify() == 1


def test_the_error_for_roles_of_an_earlier_version_names_the_missing_grant(people, name):
    PrivacyAccountant(path=people.url, name=name).charge(PureDP(0.1))
    people.sql("REVOKE UPDATE (ledger) ON skdirdp.heads FROM skdirdp_analyst")
    try:
        analyst = PrivacyAccountant(path=people.url_of("ana"), name=name)
        assert (len(analyst), analyst.verify()) == (1, 1)
        with pytest.raises(LedgerError, match=r"permission denied.*again with roles_sql\(\)"):
            analyst.charge(PureDP(0.1))
    finally:
        people.sql(roles_sql())
    analyst.charge(PureDP(0.1))


def test_settings_of_a_role_do_not_weaken_a_charge(people, name):
    people.sql(
        """
        ALTER ROLE ana SET synchronous_commit = off;
        ALTER ROLE ana SET default_transaction_isolation = 'repeatable read';
        ALTER ROLE ana SET search_path = public;
        """
    )
    PrivacyAccountant(path=people.url, name=name)
    ledger = Ledger.open(people.url_of("ana"), name)
    with ledger.writing() as transaction:
        settings = transaction._session.execute(
            "SELECT current_setting('synchronous_commit'),"
            " current_setting('transaction_isolation'), current_schema()"
        )
    assert settings == [("on", "read committed", "skdirdp")]


# Budgets


def test_a_database_has_many_budgets_by_name(postgres):
    names = [uuid4().hex for _ in range(3)]
    for number, name in enumerate(names, 1):
        accountant = PrivacyAccountant(epsilon=float(number), path=postgres.url, name=name)
        for _ in range(number):
            accountant.charge(PureDP(0.1))
    for number, name in enumerate(names, 1):
        accountant = PrivacyAccountant(path=postgres.url, name=name)
        assert (accountant.epsilon, len(accountant), accountant.name) == (number, number, name)
    assert PrivacyAccountant(path=postgres.url).name == "default"


def test_budgets_do_not_wait_for_each_other(postgres):
    one, other = (Ledger.create_or_open(postgres.url, LIMITS, name=uuid4().hex) for _ in range(2))
    with one.writing() as first, other.writing() as second:
        first.append("a", 1, None, None)
        second.append("b", 1, None, None)


def test_concurrent_creation_of_budgets_succeeds(postgres):
    postgres.sql("CREATE DATABASE fresh")
    url = postgres.url_of("postgres", database="fresh")
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                PrivacyAccountant(path=url, name=f"budget {number % 3}").charge(PureDP(0.1))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    for number in range(3):
        assert PrivacyAccountant(path=url, name=f"budget {number}").verify() == 2


# Rights

FORBIDDEN = [
    "UPDATE skdirdp.charges SET releases = 1",
    "DELETE FROM skdirdp.charges",
    "TRUNCATE skdirdp.charges",
    "TRUNCATE skdirdp.charges, skdirdp.heads, skdirdp.ledgers CASCADE",
    "UPDATE skdirdp.ledgers SET epsilon = 1000",
    "DELETE FROM skdirdp.ledgers",
    "UPDATE skdirdp.heads SET entries = 0",
    "DELETE FROM skdirdp.heads",
    "TRUNCATE skdirdp.heads",
]
FORBIDDEN_TO_ANALYSTS = [
    *FORBIDDEN,
    "INSERT INTO skdirdp.ledgers SELECT * FROM skdirdp.ledgers",
    "INSERT INTO skdirdp.heads VALUES (99, 0, '')",
    "UPDATE skdirdp.layout SET version = 1",
    "DROP TABLE skdirdp.charges",
    "DROP SCHEMA skdirdp CASCADE",
    "ALTER TABLE skdirdp.charges DISABLE TRIGGER ALL",
    "DROP TRIGGER charges_stay ON skdirdp.charges",
    "CREATE OR REPLACE FUNCTION skdirdp.refuse() RETURNS trigger AS 'BEGIN RETURN NULL; END'"
    " LANGUAGE plpgsql",
    "SET session_replication_role = replica",
    "CREATE TABLE skdirdp.more (x int)",
]


@pytest.mark.parametrize("statement", FORBIDDEN_TO_ANALYSTS)
@pytest.mark.parametrize("role", ["ana", "audra"])
def test_only_the_owner_can_change_anything(people, accountant, statement, role):
    accountant.charge(PureDP(0.1), releases=2)
    with pytest.raises(psycopg.Error, match=r"permission denied|must be owner"):
        people.sql(statement, user=role)
    assert accountant.verify() == 1


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_steward_cannot_change_anything_by_mistake(people, accountant, statement):
    accountant.charge(PureDP(0.1), releases=2)
    with pytest.raises(psycopg.errors.RaiseException, match=r"only grows|follows its charges"):
        people.sql(statement)
    assert accountant.verify() == 1


def test_an_analyst_charges_under_their_own_name_and_creates_no_budgets(people, name):
    PrivacyAccountant(epsilon=1.0, path=people.url, name=name)
    analyst = PrivacyAccountant(path=people.url_of("ana"), name=name)
    analyst.charge(PureDP(0.1))
    assert [charge.user for charge in analyst._charges()] == ["ana"]
    with pytest.raises(LedgerError, match="permission denied"):
        PrivacyAccountant(path=people.url_of("ana"), name=uuid4().hex)


def test_an_analyst_cannot_charge_under_another_name(people, name):
    steward = Ledger.create_or_open(people.url, LIMITS, name=name)
    analyst = Ledger.open(people.url_of("ana"), name)

    def append(ledger, user):
        with ledger.writing() as transaction:
            transaction.append("kind", 1, None, None, user=user)

    with pytest.raises(LedgerError, match="under the name of the user who makes it"):
        append(analyst, "audra")
    append(steward, "the user in the ledger that is merged")
    append(analyst, "ana")


def test_skipped_or_repeated_charge_numbers_are_refused(people, name):
    PrivacyAccountant(path=people.url, name=name).charge(PureDP(0.1))
    copy = (
        "INSERT INTO skdirdp.charges SELECT ledger, id + {step}, time, 'ana', 'new', spec,"
        " releases, label, split, part, split_name, split_by, hash FROM skdirdp.charges"
        f" WHERE ledger = (SELECT id FROM skdirdp.ledgers WHERE name = '{name}')"
    )
    for step in (0, -1, 2):
        with pytest.raises(psycopg.Error, match=r"follow the last|unique constraint"):
            people.sql(copy.format(step=step), user="ana")
    # With the right number and a wrong hash he can spoil the budget, which everybody sees.
    people.sql(copy.format(step=1), user="ana")
    with pytest.raises(LedgerError, match="charge 2 was changed"):
        PrivacyAccountant(path=people.url, name=name)


def test_an_auditor_reads_and_does_not_charge(people, name):
    steward = PrivacyAccountant(path=people.url, name=name)
    steward.charge(PureDP(0.5))
    auditor = PrivacyAccountant(path=people.url_of("audra"), name=name)
    assert auditor.verify() == 1
    assert auditor.total() == steward.total() > 0
    with pytest.raises(LedgerError, match="permission denied"):
        auditor.charge(PureDP(0.1))


def test_a_trigger_that_is_switched_off_is_found(postgres, accountant):
    postgres.sql("ALTER TABLE skdirdp.charges DISABLE TRIGGER charges_stay")
    try:
        with pytest.raises(LedgerError, match="triggers were changed"):
            accountant.verify()
    finally:
        postgres.sql("ALTER TABLE skdirdp.charges ENABLE TRIGGER charges_stay")
    assert accountant.verify() == 0


# Bad input


def refusal(match, **options):
    """The one line of a refusal, in which there is no password, nor in its traceback."""
    with pytest.raises(LedgerError, match=match) as caught:
        PrivacyAccountant(**options)
    whole = "".join(traceback.format_exception(caught.value))
    for secret in (PASSWORD, QUOTED, "hunter2"):
        assert secret not in whole
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    refusal(
        "cannot be used.*No such file", path=f"postgresql+psycopg://u:hunter2@/d?host={tmp_path}"
    )
    refusal("Connection refused|failed", path="postgresql://u:hunter2@127.0.0.1:1/d")


def test_a_wrong_password_is_one_line(people, monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    refusal("password authentication failed", path=people.url_of("careful", "hunter2"))
    module._PASSWORDS.clear()
    module._forget_connections()
    refusal("PGPASSWORD", path=people.url_of("careful"))


def test_a_database_or_role_that_does_not_exist_is_one_line(postgres):
    refusal(
        'database "nowhere" does not exist', path=postgres.url_of("postgres", database="nowhere")
    )
    refusal('role "nobody" does not exist', path=postgres.url_of("nobody"))


def test_somebody_without_rights_is_one_line(people):
    refusal("permission denied", path=people.url_of("stranger"))


def test_a_database_that_is_something_else_is_one_line(postgres):
    postgres.sql("CREATE DATABASE shop")
    url = postgres.url_of("postgres", database="shop")
    with psycopg.connect(host=str(postgres.folder), user="postgres", dbname="shop") as connection:
        connection.execute("CREATE SCHEMA skdirdp; CREATE TABLE skdirdp.charges (amount int)")
    refusal("the schema skdirdp of this database belongs to other software", path=url)


def test_a_newer_layout_is_one_line(postgres):
    postgres.sql("CREATE DATABASE newer")
    url = postgres.url_of("postgres", database="newer")
    PrivacyAccountant(path=url)
    with psycopg.connect(host=str(postgres.folder), user="postgres", dbname="newer") as connection:
        connection.execute("UPDATE skdirdp.layout SET version = 3")
    refusal("has version 3, but this version of skdirdp supports 2", path=url)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("mysql://u:hunter2@host/d", "must start with"),
        ("sqlite:///ledger.sqlite", "must start with"),
        ("https://u:hunter2@host/d", "must start with"),
        ("postgresql+asyncpg://u:hunter2@host/d", "must start with"),
        ("postgresql+psycopg://u:hunter2@host:port/d", "cannot be parsed"),
        ("postgresql+psycopg://u@[host/d?password=hunter2", "cannot be"),
        ("postgresql+psycopg://u:hunter2@/d?no_such_option=1", "cannot be used"),
    ],
)
def test_an_address_of_something_else_is_one_line(address, match):
    refusal(match, path=address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://u@host/d?sslpassword=hunter2",
        "postgresql+psycopg://u@host/d?PASSWORD=hunter2",
        "postgresql+psycopg://u@host/d?passfile=hunter2",
        "postgresql+psycopg://u@host/d?secret=hunter2",
        "postgresql+psycopg://u@host/d?hunter2=1",
        "postgresql+psycopg://u@host/d?application_name=x&SSLPASSWORD=hunter2",
        "postgresql+psycopg://u@host/d?options=-c%20password%3Dhunter2",
        "postgresql+psycopg://u:p@hunter2@host/d",
        "postgresql+psycopg://u%3Ahunter2@host/d",
        "postgresql+psycopg:///u:hunter2@host/d",
        "postgresql+psycopg:///u:hunter2?x@host/d",
        "postgresql+psycopg://u/hunter2@host/d",
        "postgresql+psycopg://host/d password=hunter2",
        "postgresql+psycopg://u@/d?host=u:hunter2@host",
        "postgresql+psycopg://u:hunter2",
    ],
)
def test_an_address_that_could_show_a_secret_is_refused(address):
    refusal("URL of a ledger .*cannot be", path=address)


@pytest.mark.parametrize("made", [str, Path, os.fsencode])
@pytest.mark.parametrize(
    "path",
    [
        " postgresql+psycopg://u:hunter2@host/d",
        "\tpostgresql://u:hunter2@host/d",
        "postgres:/u:hunter2@host/d",
        "postgresql:u:hunter2@host/d",
        "u:hunter2@host/d",
        "host=localhost dbname=d user=u password=hunter2",
        "password='hunter2' host=localhost",
    ],
)
def test_a_path_that_looks_like_an_address_creates_no_file(path, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal("must be a string that begins with", path=made(path))
    with pytest.raises(LedgerError, match="must be a string") as caught:
        PrivacyAccountant.open(made(path))
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_an_address_given_as_a_path_is_one_line():
    refusal("must be a string", path=Path("postgresql+psycopg://u:hunter2@host/d"))


def test_without_the_drivers_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skdirdp.accountant.postgres", None)
    refusal(r"pip install skdirdp\[postgres\]", path="postgresql://u:hunter2@host/d")


def test_a_ledger_in_a_file_needs_no_driver():
    script = """
        import sys
        from skdirdp import PrivacyAccountant
        PrivacyAccountant(epsilon=1.0).verify()
        print("sqlalchemy" in sys.modules, "psycopg" in sys.modules)
    """
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["False", "False"]


# Passwords


@pytest.mark.parametrize("in_query", [False, True])
def test_passwords_are_never_shown_and_pickles_work_without_them(people, name, in_query):
    PrivacyAccountant(path=people.url, name=name)
    url = people.url_of("careful", QUOTED)
    if in_query:
        url = f"{people.url_of('careful')}&password={QUOTED}"
    accountant = PrivacyAccountant(path=url, name=name)
    accountant.charge(PureDP(0.1))
    pickled = pickle.dumps(accountant)
    for shown in (
        repr(accountant),
        accountant.path,
        pickled.decode("latin1"),
        str(vars(accountant)),
    ):
        assert PASSWORD not in shown
        assert QUOTED not in shown
    other = pickle.loads(pickled)
    other.charge(PureDP(0.1))
    assert [charge.user for charge in other._charges()] == ["careful"] * 2
    again = PrivacyAccountant(path=accountant.path, name=name)
    assert len(again) == 2


def test_a_pickle_in_another_process_uses_the_password_of_the_environment(people, name, tmp_path):
    PrivacyAccountant(path=people.url, name=name)
    accountant = PrivacyAccountant(path=people.url_of("careful", QUOTED), name=name)
    (tmp_path / "pickle").write_bytes(pickle.dumps(accountant))
    script = f"""
        import pickle
        from skdirdp.accounting import PureDP
        pickle.load(open({str(tmp_path / "pickle")!r}, "rb")).charge(PureDP(0.1))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    without = {key: value for key, value in os.environ.items() if key != "PGPASSWORD"}
    failed = subprocess.run(command, capture_output=True, text=True, env=without)
    assert "Pickles do not contain the password: set PGPASSWORD" in failed.stderr.splitlines()[-1]
    subprocess.run(command, check=True, env=without | {"PGPASSWORD": PASSWORD})
    assert len(accountant) == 1


if __name__ == "__main__":
    print("server killed: released, charged only, errors:", kill_server(int(sys.argv[1])))
    with running_server() as server:
        print("connections cut:", cut_connections(server, "cut", 10 * int(sys.argv[1])))
