"""The command on ledgers in a database."""

import json
import os
from pathlib import Path
from uuid import uuid4

import pytest

from skdirdp import PrivacyAccountant
from skdirdp.accounting import PureDP

from .test_command import DAMAGED, DONE, REFUSED, complaint, result, run

servers = pytest.importorskip("tests.postgres", reason="ledgers are not kept in PostgreSQL yet")


@pytest.fixture(scope="module")
def server():
    with servers.running_server() as running:
        yield running


@pytest.fixture(scope="module")
def address(server):
    return server.url


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def made(address, **more):
    """The name of a new ledger with one charge."""
    name = f"study-{uuid4().hex}"
    options = [text for key, value in more.items() for text in (f"--{key}", value)]
    assert run("create", address, "--name", name, "--fixed-plan", *options) == DONE
    PrivacyAccountant(path=address, name=name).charge(PureDP(0.7, "replace_person"), label="income")
    return name


def test_every_action_works_on_a_ledger_of_a_database(address, folder, capsys):
    here = made(address, epsilon="1", unit="person")
    there = made(address, epsilon="1", unit="person")
    shown = result(capsys, "show", address, "--name", here)
    assert (shown["name"], shown["unit"], shown["charges"]) == (here, "person", 1)
    total = PrivacyAccountant(path=address, name=here).total()
    assert result(capsys, "total", address, "--name", here)["total"] == total
    assert result(capsys, "verify", address, "--name", here)["intact"] is True
    assert run("report", address, "--name", here, "-o", "here.html") == DONE
    assert here in Path("here.html").read_text(encoding="utf-8")
    assert run("export", address, "--name", there, "-o", "there.json") == DONE
    again = PrivacyAccountant.from_export("there.json")
    assert again.history() == PrivacyAccountant(path=address, name=there).history()
    for new in (1, 0):
        capsys.readouterr()
        # Recorded, and beyond the limit.
        assert run("merge", address, "there.json", "--name", here, "--json") == REFUSED
        assert json.loads(capsys.readouterr().out)["new"] == new


def test_no_command_creates_a_missing_ledger(address, folder, capsys):
    name = uuid4().hex
    for action in ("show", "total", "verify", "export", "report"):
        told = complaint(capsys, DAMAGED, action, address, "--name", name)
        assert "there is no ledger" in told
    assert run("create", address, "--name", name) == DONE


def test_a_ledger_of_the_same_name_is_left_as_it_is(address, folder, capsys):
    name = made(address, epsilon="1")
    told = complaint(capsys, REFUSED, "create", address, "--name", name, "--epsilon", "9")
    assert "already" in told
    assert PrivacyAccountant(path=address, name=name).epsilon == 1.0


@pytest.mark.parametrize("action", ["show", "create"])
def test_wrong_addresses_are_one_line_without_the_password(action, address, folder, capsys):
    secret = address.replace("postgres:@", "postgres:s3kret@")
    assert secret != address
    for wrong in (
        secret.replace("/postgres?", "/missing?"),
        secret.replace("host=", "host=/nowhere"),
        secret.replace("+psycopg", "+unknown"),
        "mysql://ana:s3kret@host/db",
    ):
        capsys.readouterr()
        assert run(action, wrong) in (REFUSED, DAMAGED)
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1, told.err
        assert "s3kret" not in told.err


def execute_in(database, server, statement):
    with servers.psycopg.connect(
        host=str(server.folder), user="postgres", dbname=database
    ) as connection:
        connection.execute(statement)


ACTIONS = ["create", "show", "total", "verify", "export", "report"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_wrong_password_is_one_line(action, server, folder, capsys):
    rules = server.folder / "pg_hba.conf"
    if "careful" not in rules.read_text():
        server.sql("CREATE ROLE careful LOGIN PASSWORD 'right'")
        rules.write_text("local all careful scram-sha-256\n" + rules.read_text())
        server.sql("SELECT pg_reload_conf()")
    told = complaint(capsys, DAMAGED, action, server.url_of("careful", "s3kret"))
    assert "password authentication failed" in told
    assert "s3kret" not in told


@pytest.mark.parametrize("action", ACTIONS)
def test_a_database_that_is_something_else_is_one_line(action, server, folder, capsys):
    shop = f"shop_{action}"
    server.sql(f"CREATE DATABASE {shop}")
    execute_in(shop, server, "CREATE SCHEMA skdirdp; CREATE TABLE skdirdp.charges (amount int)")
    told = complaint(capsys, DAMAGED, action, server.url_of("postgres", "s3kret", shop))
    assert "belongs to other software" in told
    assert "s3kret" not in told


@pytest.mark.parametrize("action", ACTIONS)
def test_a_newer_layout_is_one_line(action, server, folder, capsys):
    newer = f"newer_{action}"
    server.sql(f"CREATE DATABASE {newer}")
    url = server.url_of("postgres", "s3kret", newer)
    PrivacyAccountant(path=url)
    execute_in(newer, server, "UPDATE skdirdp.layout SET version = 3")
    told = complaint(capsys, DAMAGED, action, url)
    assert "has version 3" in told
    assert "s3kret" not in told


def test_a_password_of_the_environment_is_not_shown(address, folder, capsys, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "s3kret")
    assert os.environ["PGPASSWORD"] not in complaint(
        capsys, DAMAGED, "show", address, "--name", "x"
    )
