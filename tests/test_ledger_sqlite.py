"""Ledger files: refused files, crashes, and removal of temporary ledgers."""

import errno
import fcntl
import gc
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from skdirdp import PrivacyAccountant
from skdirdp.accountant import ledger as ledger_module
from skdirdp.accountant import schema, sqlite
from skdirdp.accountant.ledger import Ledger, Transaction
from skdirdp.accountant.schema import LedgerError, LimitParameters
from skdirdp.accountant.sqlite import APPLICATION_ID

LIMITS = LimitParameters(epsilon=3.0, delta=1e-5, order=None)
DATA = Path(__file__).parent / "data"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def append(ledger, spec="kind", releases=1, label=None, split=None):
    with ledger.writing() as transaction:
        transaction.append(spec, releases, label, split)


def count(ledger):
    with ledger.reading() as transaction:
        return transaction.n_entries


def sums(ledger):
    with ledger.reading() as transaction:
        return transaction.sums()


def verify(ledger):
    with ledger.reading() as transaction:
        return transaction.verify()


def run(script):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )


def names_in(folder):
    return {entry.name for entry in folder.iterdir()}


def refuses_and_leaves(path, match):
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=match):
        Ledger.create_or_open(path, LIMITS)
    assert path.read_bytes() == before
    assert names_in(path.parent) <= {path.name, f"{path.name}.lock"}


def test_no_lock_is_created_next_to_a_foreign_file(path):
    path.write_text("colour,size\n" * 100)
    refuses_and_leaves(path, "not an SQLite database")
    assert names_in(path.parent) == {path.name}


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


def refuses(path, statement, match):
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match=match),
    ):
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("DELETE FROM charges", "taken back"),
        ("UPDATE charges SET releases = 1", "changed"),
        ("INSERT INTO charges SELECT 1, 7, '', '', '', '', 1, '', '', '', '', '', ''", "follow"),
        ("INSERT OR REPLACE INTO charges SELECT * FROM charges", "follow"),
        ("UPDATE ledgers SET epsilon = 100", "limits cannot be changed"),
        ("DELETE FROM ledgers", "limits cannot be removed"),
        ("INSERT OR REPLACE INTO ledgers SELECT * FROM ledgers", "one ledger"),
        ("UPDATE heads SET entries = 0", "follows its charges"),
        ("DELETE FROM heads", "cannot be removed"),
    ],
)
def test_nothing_in_the_file_can_be_changed_or_deleted(path, statement, match):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger)
    refuses(path, statement, match)
    assert count(Ledger.open(str(path))) == 1


# Files


def test_a_ledger_is_one_file_and_a_lock_and_remembers_its_limits(path):
    append(Ledger.create_or_open(path, LIMITS))
    assert names_in(path.parent) == {path.name, f"{path.name}.lock"}
    again = Ledger.create_or_open(path, LimitParameters(None, 0.5, None))
    assert again.header.limit == LIMITS
    assert count(again) == 1


def test_an_empty_file_is_refused(path):
    path.touch()
    refuses_and_leaves(path, "truncated")


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
    refuses_and_leaves(path, "tables or triggers were changed")


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


def test_a_deleted_file_is_an_error_and_not_recreated(path):
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
    with pytest.raises(LedgerError, match="replaced by another ledger"):
        append(ledger)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everything")
def test_a_file_that_cannot_be_written_is_an_error(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="cannot be used"):
        append(ledger)


def test_a_lock_held_too_long_is_an_error(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    monkeypatch.setattr("skdirdp.accountant.sqlite.BUSY_SECONDS", 0.1)
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


def test_a_creation_that_fails_or_is_killed_leaves_no_draft(path, monkeypatch):
    # Killed at each step on the way: of its files, its tables and its name.
    for module, step in ((os, "close"), (schema, "insert_header"), (os, "link"), (os, "fsync")):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            status = in_child(lambda: Ledger.create_or_open(path, LIMITS))
            assert status == -signal.SIGKILL
        append(Ledger.create_or_open(path, LIMITS))
        assert names_in(path.parent) == {path.name, f"{path.name}.lock"}
        assert count(Ledger.open(str(path))) == 1
        for name in names_in(path.parent):
            (path.parent / name).unlink()


def test_without_hard_links_processes_still_create_one_ledger(path, monkeypatch):
    def link(*_):
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", link)
    test_processes_that_create_the_same_ledger_at_once_share_it(path)


def test_a_ledger_that_is_gone_is_not_replaced_by_an_empty_one(path):
    append(Ledger.create_or_open(path, LIMITS))
    path.unlink()
    with pytest.raises(LedgerError, match="a ledger with 1 charges was here"):
        Ledger.create_or_open(path, LIMITS)
    Path(f"{path}.lock").unlink()
    assert count(Ledger.create_or_open(path, LIMITS)) == 0


def test_an_older_copy_of_a_ledger_is_refused(path, tmp_path):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger, "a")
    shutil.copy(path, tmp_path / "backup")
    append(ledger, "b")
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(LedgerError, match="charges are missing: it has 1"):
        sums(ledger)
    # Another process has no memory of it, but the lock file has.
    result = run(open_script(path))
    assert "it has 1, but its lock file recorded 2" in result.stderr


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff" * 200, b"0 " * 60, b"cut"])
def test_a_damaged_or_emptied_lock_is_refused_until_it_is_removed(path, content, monkeypatch):
    monkeypatch.setattr("skdirdp.accountant.sqlite._NEW_LOCK_SECONDS", 0.01)
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger, "a")
    lock = Path(f"{path}.lock")
    if content == b"cut":
        content = lock.read_bytes()[:-20]
    lock.write_bytes(content)
    for use in (append, sums, lambda _: Ledger.open(str(path))):
        with pytest.raises(LedgerError, match=r"its lock .* is (empty|damaged).*remove "):
            use(ledger)
    assert lock.read_bytes() == content
    lock.unlink()
    append(ledger, "b")
    assert len(sums(Ledger.open(str(path)))) == 2


def test_an_emptied_lock_does_not_hide_a_removed_charge(path, tmp_path, monkeypatch):
    monkeypatch.setattr("skdirdp.accountant.sqlite._NEW_LOCK_SECONDS", 0.01)
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger, "a")
    shutil.copy(path, tmp_path / "backup")
    append(ledger, "b")
    shutil.copy(tmp_path / "backup", path)
    Path(f"{path}.lock").write_bytes(b"")
    assert "is empty, and it has charges" in run(open_script(path)).stderr


def open_script(path):
    return f"""
        from skdirdp.accountant.ledger import Ledger
        Ledger.open({str(path)!r})
    """


def test_a_fresh_ledger_in_the_place_of_a_spent_one_is_refused(path, tmp_path):
    append(Ledger.create_or_open(path, LIMITS))
    for charges in (0, 5):
        fresh = tmp_path / f"fresh {charges}"
        other = Ledger.create_or_open(fresh, LIMITS)
        for _ in range(charges):
            append(other)
        os.replace(fresh, path)
        with pytest.raises(LedgerError, match=r"than the one with 1 charges.*remove "):
            Ledger.open(str(path))
    Path(f"{path}.lock").unlink()
    assert count(Ledger.open(str(path))) == 5


def test_a_ledger_may_replace_one_without_charges(path, tmp_path):
    Ledger.create_or_open(path, LIMITS)
    append(Ledger.create_or_open(tmp_path / "other", LIMITS))
    os.replace(tmp_path / "other", path)
    append(Ledger.open(str(path)))
    assert count(Ledger.open(str(path))) == 2


def test_a_ledger_without_charges_may_have_an_empty_lock(path, monkeypatch):
    # As it was before locks were written when a ledger is made.
    monkeypatch.setattr("skdirdp.accountant.sqlite._NEW_LOCK_SECONDS", 0.01)
    Ledger.create_or_open(path, LIMITS)
    Path(f"{path}.lock").write_bytes(b"")
    append(Ledger.open(str(path)))
    assert count(Ledger.open(str(path))) == 1


def test_a_copy_without_its_lock_is_tracked_from_the_first_use(path, tmp_path):
    original = Ledger.create_or_open(tmp_path / "original", LIMITS)
    append(original)
    shutil.copy(tmp_path / "original", tmp_path / "older")
    append(original)
    shutil.copy(tmp_path / "original", path)
    assert run(open_script(path)).returncode == 0
    shutil.copy(tmp_path / "older", path)
    assert "it has 1, but its lock file recorded 2" in run(open_script(path)).stderr


def test_a_crash_while_a_copy_is_opened_leaves_it_usable(path, tmp_path, monkeypatch):
    original = Ledger.create_or_open(tmp_path / "original", LIMITS)
    append(original)
    for module, step in ((os, "fsync"), (sqlite, "_check_file"), (sqlite, "_connect")):
        shutil.copy(tmp_path / "original", path)
        ledger_module._CHECKED.clear()
        with monkeypatch.context() as patch:
            patch.setattr(module, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            assert in_child(lambda: Ledger.open(str(path))) == -signal.SIGKILL
        assert Path(f"{path}.lock").exists(), "the crash came too early to test anything"
        append(Ledger.open(str(path)))
        assert count(Ledger.open(str(path))) == 2
        for name in (path.name, f"{path.name}.lock"):
            (path.parent / name).unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become another user")
def test_readers_detect_a_removed_charge():
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "ledger.sqlite"
        ledger = Ledger.create_or_open(path, LIMITS)
        append(ledger)
        older = path.read_bytes()
        append(ledger)
        path.write_bytes(older)
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)

        def read():
            os.setuid(65534)
            ledger_module._CHECKED.clear()
            with pytest.raises(LedgerError, match="its lock file recorded 2"):
                Ledger.open(str(path))

        assert in_child(read) == 0
    finally:
        shutil.rmtree(folder)


def test_the_lock_of_another_program_is_left_as_it_is(path):
    lock = Path(f"{path}.lock")
    lock.write_text("[[package]]\n")
    with pytest.raises(LedgerError, match="file of another program"):
        Ledger.create_or_open(path, LIMITS)
    assert lock.read_text() == "[[package]]\n"
    assert not path.exists()


@pytest.mark.parametrize("ending", [".lock", "-journal", "-wal", "-shm"])
def test_names_of_files_of_another_ledger_are_refused(path, ending):
    append(Ledger.create_or_open(path, LIMITS))
    before = Path(f"{path}.lock").read_bytes()
    with pytest.raises(LedgerError, match=r"uses a file of this name|not .* SQLite|truncated"):
        Ledger.create_or_open(f"{path}{ending}", LIMITS)
    assert Path(f"{path}.lock").read_bytes() == before
    assert count(Ledger.open(str(path))) == 1


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_path_with_a_foreign_journal_is_refused(path, ending):
    Path(f"{path}{ending}").write_text("notes")
    with pytest.raises(LedgerError, match="belongs to another database"):
        Ledger.create_or_open(path, LIMITS)
    assert Path(f"{path}{ending}").read_text() == "notes"
    assert not path.exists()


def test_a_file_with_two_names_is_refused_to_open_and_to_charge(path, tmp_path):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger)
    other = tmp_path / "other name"
    os.link(path, other)
    for use in (append, count, lambda _: Ledger.open(str(path)), lambda _: Ledger.open(str(other))):
        with pytest.raises(LedgerError, match=r"2 names \(hard links\)"):
            use(ledger)
    other.unlink()
    append(ledger)
    assert count(Ledger.open(str(path))) == 2


def test_hard_links_are_refused_so_that_a_crash_cannot_undo_charges(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger, "first")
    other = path.parent / "other"
    insert = Transaction.append

    def link_insert_and_die(transaction, *row):
        os.link(path, other)
        transaction._session.connection.execute("PRAGMA cache_size = 1")
        for _ in range(500):
            insert(transaction, *row)
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", link_insert_and_die)
        assert in_child(lambda: append(ledger)) == -signal.SIGKILL
    journal = Path(f"{path}-journal")
    assert journal.exists(), "the crash came too early to test anything"
    for name in (other, path):
        with pytest.raises(LedgerError, match="hard links"):
            append(Ledger.open(str(name)))
    assert journal.exists()
    other.unlink()
    assert count(Ledger.open(str(path))) == 1


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_their_owners_alone(path, umask):
    before = os.umask(umask)
    try:
        append(Ledger.create_or_open(path, LIMITS))
    finally:
        os.umask(before)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_users_of_a_ledger_may_lock_it(path):
    Ledger.create_or_open(path, LIMITS)
    path.chmod(0o660)
    Path(f"{path}.lock").unlink()
    append(Ledger.open(str(path)))
    assert stat.S_IMODE(Path(f"{path}.lock").stat().st_mode) == 0o660


def test_a_symbolic_link_is_not_used_as_a_lock(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(victim, f"{path}.lock")
    with pytest.raises(LedgerError, match=r"its lock .*\.lock"):
        append(Ledger.create_or_open(path, LIMITS))
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become another user")
def test_a_ledger_in_a_folder_that_cannot_be_written_can_be_read(tmp_path):
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "ledger.sqlite"
        append(Ledger.create_or_open(path, LIMITS))
        Path(f"{path}.lock").unlink()
        path.chmod(0o444)
        folder.chmod(0o555)

        def read_and_charge():
            os.setuid(65534)
            ledger = Ledger.open(str(path))
            assert count(ledger) == 1
            with pytest.raises(LedgerError, match="Permission denied"):
                append(ledger)

        assert in_child(read_and_charge) == 0
    finally:
        shutil.rmtree(folder)


# Locks


def read_for_ever(path, stop):
    """Open and close the file as a backup does, which drops SQLite's locks."""
    while not stop.is_set():
        with open(path, "rb") as file:
            file.read(100)
        time.sleep(0.0002)


def charge_beside_a_reader(path, process, kinds, returned):
    ledger = Ledger.open(str(path))
    stop = threading.Event()
    reader = threading.Thread(target=read_for_ever, args=(path, stop))
    reader.start()
    try:
        with open(returned, "w") as file:
            for kind in range(kinds):
                append(ledger, f"kind {process} {kind}")
                print(f"kind {process} {kind}", file=file, flush=True)
    finally:
        stop.set()
        reader.join()


def lose_charges(path, kinds):
    """Three processes with a reader each; how many charges returned, and which are lost."""
    Ledger.create_or_open(path, LIMITS)
    children = []
    for process in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                charge_beside_a_reader(path, process, kinds, f"{path}-{process}")
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
    returned = [line for i in range(3) for line in Path(f"{path}-{i}").read_text().splitlines()]
    with Ledger.open(str(path)).reading() as transaction:
        kept = [charge.spec for charge in transaction.charges()]
        assert transaction.sums() == {("", "", kind): 1 for kind in kept}
        assert transaction.verify() == len(kept)
    return len(returned), set(returned).symmetric_difference(kept)


def test_no_charge_is_lost_when_another_thread_closes_the_file(path):
    assert lose_charges(path, 50) == (150, set())


def test_a_lock_that_is_replaced_while_waiting_still_excludes_others(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    stop = threading.Event()

    def replace_lock():
        while not stop.wait(0.001):
            Path(f"{path}.lock").unlink(missing_ok=True)

    thread = threading.Thread(target=replace_lock)
    thread.start()
    threads = [
        threading.Thread(target=lambda: [append(ledger) for _ in range(10)]) for _ in range(2)
    ]
    try:
        for charging in threads:
            charging.start()
        assert in_child(lambda: [append(ledger) for _ in range(10)]) == 0
        for charging in threads:
            charging.join()
    finally:
        stop.set()
        thread.join()
    assert verify(ledger) == 30


def test_unrelated_ledgers_do_not_wait_for_each_other(path, tmp_path):
    one = Ledger.create_or_open(path, LIMITS)
    other = Ledger.create_or_open(tmp_path / "other.sqlite", LIMITS)
    done = threading.Event()

    def charge_other():
        append(other)
        done.set()

    with one.writing() as transaction:
        transaction.append("slow", 1, None, None)
        thread = threading.Thread(target=charge_other)
        thread.start()
        assert done.wait(20), "the other ledger waited"
    thread.join()


def test_a_file_system_without_locks_is_refused(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("skdirdp.accountant.sqlite.fcntl.flock", flock)
    with pytest.raises(LedgerError, match="has no locks"):
        append(ledger)


def test_a_process_that_holds_the_lock_too_long_is_an_error(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    monkeypatch.setattr("skdirdp.accountant.sqlite.BUSY_SECONDS", 0.1)
    with open(f"{path}.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match=r"another process kept it locked.* 0\.1 seconds"):
            append(ledger)
    append(ledger)
    assert count(ledger) == 1


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
    ledger = Ledger.create_or_open(None, LIMITS)
    folder = Path(ledger.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_temporary_ledger_is_removed_with_its_last_reference():
    ledger = Ledger.create_or_open(None, LIMITS)
    path = Path(ledger.path)
    other = Ledger.open(ledger.path)
    del ledger
    gc.collect()
    assert count(other) == 0
    del other
    gc.collect()
    assert not path.parent.exists()


def test_a_pickled_temporary_ledger_stays_while_the_process_does():
    ledger = Ledger.create_or_open(None, LIMITS)
    append(ledger)
    pickled = pickle.dumps(ledger)
    del ledger
    gc.collect()
    assert count(pickle.loads(pickled)) == 1


def test_a_temporary_ledger_is_removed_at_exit_by_its_maker_only():
    script = """
        import os, pickle, sys
        from skdirdp.accountant.ledger import Ledger
        from skdirdp.accountant.schema import LimitParameters
        ledger = Ledger.create_or_open(None, LimitParameters(None, 1e-5, None))
        pickle.dumps(ledger)
        if os.fork() == 0:
            sys.exit(0)  # runs the registered exit functions
        os.wait()
        print(ledger.path, os.path.exists(ledger.path))
    """
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    ).stdout
    path, existed_after_the_child = output.split()
    assert existed_after_the_child == "True"
    assert not os.path.exists(os.path.dirname(path))


if __name__ == "__main__":  # python -m tests.test_ledger_sqlite RUNS KINDS: the test of readers
    for _ in range(int(sys.argv[1])):
        with tempfile.TemporaryDirectory() as there:
            print(lose_charges(Path(there, "ledger.sqlite"), int(sys.argv[2])), flush=True)


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="its name must have at most 233 bytes"):
        PrivacyAccountant(path=tmp_path / ("a" * 250))
    assert not list(tmp_path.iterdir())
    assert len(PrivacyAccountant(path=tmp_path / ("a" * 233))) == 0


def test_a_lock_that_cannot_be_written_is_removed(path, monkeypatch):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger)
    lock = Path(f"{path}.lock")
    lock.unlink()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert count(Ledger.open(str(path))) == 1
        with pytest.raises(LedgerError, match="No space left"):
            append(ledger)
        assert not lock.exists()
    append(ledger)
    assert count(Ledger.open(str(path))) == 2


def test_a_pipe_in_the_place_of_the_lock_is_a_ledger_error(path):
    ledger = Ledger.create_or_open(path, LIMITS)
    append(ledger)
    Path(f"{path}.lock").unlink()
    os.mkfifo(f"{path}.lock")
    with pytest.raises(LedgerError, match="is damaged, or is a file of another program"):
        append(ledger)


def test_names_of_drafts_are_refused(path, tmp_path):
    name = f"{path}.skdirdp-draft"
    with pytest.raises(LedgerError, match="reserved for new ledgers"):
        Ledger.create_or_open(name, LIMITS)
    Ledger.create_or_open(path, LIMITS)
    with pytest.raises(ValueError, match="would overwrite a file of the ledger"):
        PrivacyAccountant().report(name)


def test_a_pipe_is_refused_without_waiting(path):
    os.mkfifo(path)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(str(path))
