"""The ledger's file: what is refused, what survives, and who removes it."""

import gc
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from skdirdp.accountant.ledger import Ledger, LedgerError, Limits, Split, Transaction
from skdirdp.accountant.sqlite import APPLICATION_ID

LIMITS = Limits(epsilon=3.0, delta=1e-5, order=None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def append(ledger, spec="kind", releases=1, label=None, split=None):
    with ledger.writing() as transaction:
        transaction.append(spec, releases, label, split)


def count(ledger):
    with ledger.reading() as transaction:
        return transaction.count()


def sums(ledger):
    with ledger.reading() as transaction:
        return transaction.sums()


def names_in(folder):
    return {entry.name for entry in folder.iterdir()}


def refuses_and_leaves(path, match):
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=match):
        Ledger.create_or_open(path, LIMITS)
    assert path.read_bytes() == before
    assert names_in(path.parent) <= {path.name, f"{path.name}.lock"}


def in_child(function):
    """Run in a forked child; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that inherited a lock would wait for ever
        try:
            function()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Rows


def test_rows_come_back_in_order_with_all_they_had(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    split = Split("1234", "north", "region", "values")
    append(ledger, "a", 2, "first")
    append(ledger, "b", 1, None, split)
    with Ledger.open(str(path)).reading() as transaction:
        first, second = transaction.charges()
    assert (first.spec, first.releases, first.label, first.split) == ("a", 2, "first", None)
    assert (second.spec, second.label, second.split) == ("b", None, split)
    assert first.time <= second.time


def test_sums_are_those_of_the_rows(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    north = Split("1234", "north", "region", "values")
    for releases in (1, 2, 3):
        append(ledger, "a", releases)
        append(ledger, "b", 10 * releases, split=north)
    assert sums(ledger) == {("", "", "a"): 6, ("1234", "north", "b"): 60}


def test_a_charge_cannot_be_changed_or_deleted(path):
    append(Ledger.create_or_open(path, LIMITS))
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="taken back"):
        connection.execute("DELETE FROM charges")
    with pytest.raises(sqlite3.IntegrityError, match="changed"):
        connection.execute("UPDATE charges SET releases = 0")
    connection.close()


def test_an_error_inside_a_transaction_leaves_nothing(path):
    ledger = Ledger.create_or_open(path, LIMITS)

    def fail():
        with ledger.writing() as transaction:
            transaction.append("a", 1, None, None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert count(ledger) == 0
    assert sums(ledger) == {}


def test_sums_beyond_64_bits_are_refused_not_rounded(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger, releases=2**62)
    with pytest.raises(LedgerError):
        append(ledger, releases=2**62)
    with pytest.raises(OverflowError):
        append(ledger, releases=2**64)
    assert sums(ledger) == {("", "", "kind"): 2**62}


# Files


def test_a_ledger_is_one_file_and_a_lock_and_remembers_its_limits(path):
    append(Ledger.create_or_open(path, LIMITS))
    assert names_in(path.parent) == {path.name, f"{path.name}.lock"}
    again = Ledger.create_or_open(path, Limits(None, 0.5, None))
    assert again.limits == LIMITS
    assert count(again) == 1


def test_an_empty_file_is_refused(path):
    path.touch()
    refuses_and_leaves(path, "cut short")


def test_a_text_file_is_refused(path):
    path.write_text("colour,size\n" * 100)
    refuses_and_leaves(path, "not an SQLite database")


def test_another_programs_database_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE charges (id INTEGER)")
    connection.close()
    refuses_and_leaves(path, "another program")


def test_a_database_with_our_mark_but_not_our_tables_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 2")
    connection.execute("CREATE TABLE charges (id INTEGER)")
    connection.close()
    refuses_and_leaves(path, "tables or triggers are not those")


def test_a_newer_layout_is_refused(path):
    Ledger.create_or_open(path, LIMITS)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    refuses_and_leaves(path, "version 3")


@pytest.mark.parametrize("kept", [50, 100, 4095, 4096, 8192, 0.5, 0.9])
def test_a_truncated_ledger_is_refused(path, kept):
    ledger = Ledger.create_or_open(path, LIMITS)
    with ledger.writing() as transaction:
        for i in range(300):
            transaction.append(f"kind {i % 3}", 1, "a label of some length", None)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else kept])
    refuses_and_leaves(path, "cannot be used")


def test_a_ledger_with_garbage_inside_is_refused(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    with ledger.writing() as transaction:
        for _ in range(300):
            transaction.append("kind", 1, "a label of some length", None)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    refuses_and_leaves(path, "cannot be used")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger.create_or_open(tmp_path, LIMITS)


def test_a_deleted_file_is_an_error_and_is_not_made_again(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    path.unlink()
    for operation in (append, count):
        with pytest.raises(LedgerError, match="does not exist"):
            operation(ledger)
    assert not path.exists()


def test_a_ledger_that_took_the_place_of_another_is_refused(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    path.unlink()
    Ledger.create_or_open(path, LIMITS)
    with pytest.raises(LedgerError, match="taken the place"):
        append(ledger)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everything")
def test_a_file_that_cannot_be_written_is_an_error(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="cannot be used"):
        append(ledger)


def test_a_lock_held_too_long_is_an_error(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    monkeypatch.setattr("skdirdp.accountant.locks.BUSY_SECONDS", 0.1)
    script = f"""
        import sqlite3, sys
        connection = sqlite3.connect({str(path)!r}, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        print("locked", flush=True)
        sys.stdin.readline()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with pytest.raises(LedgerError, match="kept it locked"):
            append(ledger)
        other.communicate(b"\n")
    append(ledger)
    assert count(ledger) == 1


def test_the_path_may_hold_any_character(tmp_path):
    folder = tmp_path / "50% of? my #files & more"
    folder.mkdir()
    ledger = Ledger.create_or_open(folder / "ünïcode.sqlite", LIMITS)
    append(ledger)
    assert count(pickle.loads(pickle.dumps(ledger))) == 1


def test_a_relative_path_is_the_same_file_after_changing_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create_or_open("ledger.sqlite", LIMITS)
    monkeypatch.chdir("/")
    append(ledger)
    assert (tmp_path / "ledger.sqlite").exists()


def test_processes_that_create_the_same_ledger_at_once_share_it(path):
    def create_and_charge():
        append(Ledger.create_or_open(path, LIMITS))

    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            try:
                create_and_charge()
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert count(Ledger.open(str(path))) == 6
    assert names_in(path.parent) == {path.name, f"{path.name}.lock"}


# Crashes


def test_a_crash_before_the_commit_leaves_no_charge(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger)
    insert = Transaction.append

    def insert_and_die(transaction, *row):
        # Enough rows that SQLite has to write some of them to the file early.
        transaction._session.connection.execute("PRAGMA cache_size = 1")
        for _ in range(500):
            insert(transaction, *row)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Transaction, "append", insert_and_die)
    assert in_child(lambda: append(ledger)) == -signal.SIGKILL
    journal = Path(f"{path}-journal")
    assert journal.exists(), "the crash came too early to test anything"
    assert count(Ledger.open(str(path))) == 1
    assert not journal.exists()


def test_a_crash_after_the_commit_leaves_the_charge(path):
    ledger = Ledger.create_or_open(path, LIMITS)

    def charge_and_die():
        append(ledger)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(charge_and_die) == -signal.SIGKILL
    assert count(Ledger.open(str(path))) == 1


def test_commits_wait_for_the_disk(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    with ledger.writing() as transaction:
        (level,) = transaction._session.connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = transaction._session.connection.execute("PRAGMA journal_mode").fetchone()
    assert (level, journal) == (3, "delete")


# Forks and threads


def test_a_fork_waits_for_a_transaction_of_another_thread(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    inside = threading.Event()

    def charge_slowly():
        with ledger.writing() as transaction:
            transaction.append("slow", 1, None, None)
            inside.set()
            time.sleep(0.3)

    thread = threading.Thread(target=charge_slowly)
    thread.start()
    inside.wait()
    assert in_child(lambda: append(ledger, "child")) == 0
    thread.join()
    assert sums(ledger) == {("", "", "slow"): 1, ("", "", "child"): 1}


def test_children_can_be_forked_while_a_thread_charges(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    stop = threading.Event()
    charged = []

    def keep_charging():
        while not stop.wait(0.002):
            append(ledger)
            charged.append(1)

    thread = threading.Thread(target=keep_charging)
    thread.start()
    try:
        statuses = [in_child(lambda: append(ledger)) for _ in range(8)]
    finally:
        stop.set()
        thread.join()
    assert statuses == [0] * 8
    assert count(ledger) == len(charged) + 8


# Temporary files


def test_a_temporary_ledger_is_private_to_the_user():
    ledger = Ledger.temporary(LIMITS)
    folder = Path(ledger.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_temporary_ledger_goes_with_its_last_reference():
    ledger = Ledger.temporary(LIMITS)
    path = Path(ledger.path)
    other = Ledger.open(ledger.path)
    del ledger
    gc.collect()
    assert count(other) == 0
    del other
    gc.collect()
    assert not path.parent.exists()


def test_a_pickled_temporary_ledger_stays_while_the_process_does():
    ledger = Ledger.temporary(LIMITS)
    append(ledger)
    pickled = pickle.dumps(ledger)
    del ledger
    gc.collect()
    assert count(pickle.loads(pickled)) == 1


def test_a_temporary_ledger_is_removed_at_exit_by_its_maker_only():
    script = """
        import os, pickle, sys
        from skdirdp.accountant.ledger import Ledger, Limits
        ledger = Ledger.temporary(Limits(None, 1e-5, None))
        pickle.dumps(ledger)
        if os.fork() == 0:
            sys.exit(0)  # runs what is registered to run at exit
        os.wait()
        print(ledger.path, os.path.exists(ledger.path))
    """
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    ).stdout
    path, existed_after_the_child = output.split()
    assert existed_after_the_child == "True"
    assert not os.path.exists(os.path.dirname(path))
