"""Charges that somebody wrote into the file of a ledger, with hashes that follow."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from skdirdp import PrivacyAccountant
from skdirdp.accountant import LedgerError
from skdirdp.accountant.codec import encode
from skdirdp.accountant.schema import (
    ENTRY,
    SQLITE_TRIGGERS,
    LimitParameters,
    entry_hash,
    header_hash,
)
from skdirdp.accounting import PureDP
from skdirdp.command import main
from skdirdp.mechanisms import DirichletMechanism

SMALL = PureDP(0.001)


def forge(path, spec, releases=1, **columns):
    """Insert a charge with a valid hash."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        ((entries, head),) = connection.execute("SELECT entries, hash FROM heads")
        values = {
            "id": entries + 1,
            "time": "2026-01-01T00:00:00+00:00",
            "username": "mallory",
            "entry_key": f"forged {entries}",
            "spec": spec,
            "releases": releases,
            "label": None,
            "split": "",
            "part": "",
            "split_name": None,
            "split_by": None,
            **columns,
        }
        entry = [values[name] for name in ENTRY]
        marks = ", ".join("?" * (len(ENTRY) + 2))
        connection.execute(
            f"INSERT INTO charges (ledger, {', '.join(ENTRY)}, hash) VALUES ({marks})",
            (1, *entry, entry_hash(head, entry)),
        )
        connection.commit()


def readings(accountant, tmp_path, kind):
    """All that computes something of the charges."""
    return {
        "total": accountant.total,
        "total at another delta": lambda: accountant.total(1e-6),
        "remaining": accountant.remaining,
        "running_total": accountant.running_total,
        "compositions": accountant.compositions,
        "curves": accountant.curves,
        "statement": accountant.statement,
        "report": lambda: accountant.report(tmp_path / "page.html"),
        "affords": lambda: accountant.affords(kind),
        "charge": lambda: accountant.charge(kind),
        "verify": accountant.verify,
    }


def not_refused(accountant, tmp_path, kind=SMALL):
    """Return the methods that do not raise a LedgerError, with their results."""
    found, messages = {}, []
    for name, read in readings(accountant, tmp_path, kind).items():
        try:
            found[name] = read()
        except LedgerError as error:
            messages.append(str(error))
        except BaseException as error:
            found[name] = repr(error)[:200]
    assert all(len(message) < 2000 and "\n" not in message for message in messages)
    assert not (tmp_path / "page.html").exists()
    assert "PrivacyAccountant" in repr(accountant)
    assert "PrivacyAccountant" in accountant._repr_html_()
    return found


LIMITS = {
    "adaptive": {"epsilon": 1.0},
    "Renyi": {"epsilon": 1.0, "order": 8.0},
    "plan": {"epsilon": 1.0, "adaptive": False},
    "Renyi plan": {"epsilon": 1.0, "order": 8.0, "adaptive": False},
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("is_open", [True, False])
def test_forged_charges_beyond_the_limit_are_refused_by_all_readers(
    limit, before, is_open, tmp_path
):
    path = tmp_path / "ledger.sqlite"
    accountant = PrivacyAccountant(path=path, **LIMITS[limit])
    for _ in range(before):
        accountant.charge(PureDP(0.1))
    forge(path, encode(PureDP(0.1)), 500)
    accountant = accountant if is_open else PrivacyAccountant.open(path)
    assert not_refused(accountant, tmp_path) == {}
    assert len(accountant.history()) == before + 1


def test_the_command_refuses_charges_beyond_the_limit(tmp_path, capsys):
    path = tmp_path / "ledger.sqlite"
    PrivacyAccountant(epsilon=1.0, path=path)
    forge(path, encode(PureDP(0.1)), 500)
    for action in ["show", "total", "verify", "report"]:
        assert main(["ledger", action, str(path)]) == 3
        assert "does not admit" in capsys.readouterr().err


def test_a_forged_key_does_not_excuse_charges_beyond_an_adaptive_limit(tmp_path):
    path = tmp_path / "ledger.sqlite"
    accountant = PrivacyAccountant(epsilon=1.0, path=path)
    accountant.charge(PureDP(0.1))
    forge(path, encode(PureDP(0.1)), 500, entry_key="merged/elsewhere/0/1")
    assert not_refused(accountant, tmp_path) == {}


def test_a_charge_admitted_at_the_limit_is_accepted_when_read(tmp_path):
    for epsilon in [0.1, 0.3, 1.0, 3.0]:
        for releases in [1, 7, 14]:
            kind = DirichletMechanism.calibrate(
                epsilon=epsilon, delta=1e-5, releases=releases, n_samples=1000, n_categories=4
            )
            accountant = PrivacyAccountant(epsilon=epsilon)
            accountant.charge(kind, releases=releases)
            assert accountant.total() == epsilon
            assert accountant.verify() == 1


def deep(depth):
    """A charge inside a charge inside a charge."""
    start, end = '{"kind":"AllOf","parts":[', "]}"
    return start * depth + encode(PureDP(0.1)) + end * depth


def pure(**parameters):
    return json.dumps({"adjacency": "replace", "epsilon": 0.1, "kind": "PureDP", **parameters})


SENSELESS_SPECS = {
    "no JSON": "PureDP(0.1)",
    "nothing": "",
    "cut short": pure()[:-3],
    "null": "null",
    "a number": "0.1",
    "a text": '"PureDP"',
    "a list": "[]",
    "no kind": "{}",
    "no parameters": '{"kind":"PureDP"}',
    "no number": '{"float":"0.1"}',
    "unknown kind": pure(kind="PurerDP"),
    "kind of another type": pure(kind=["PureDP"]),
    "kind that is a long text": pure(kind="x" * 100_000),
    "kind of half a character": pure(kind="\ud800"),
    "one parameter too many": pure(delta=0.0),
    "a parameter twice": '{"epsilon":5.0,"epsilon":0.1,"kind":"PureDP"}',
    "negative": pure(epsilon=-0.1),
    "zero": pure(epsilon=0),
    "NaN": pure(epsilon=float("nan")),
    "infinite": pure(epsilon=float("inf")),
    "NaN in words": pure(epsilon={"float": "nan"}),
    "words instead of a number": pure(epsilon={"float": "much"}),
    "list instead of a float": pure(epsilon={"float": []}),
    "float and more": pure(epsilon={"float": "0.1", "kind": "PureDP"}),
    "bool": pure(epsilon=True),
    "text": pure(epsilon="0.1"),
    "null for a number": pure(epsilon=None),
    "list": pure(epsilon=[0.1]),
    "mechanism for a number": pure(epsilon={"kind": "PureDP", "epsilon": 0.1}),
    "beyond floats": '{"epsilon":1e400,"kind":"PureDP"}',
    "a long integer": '{"epsilon":1' + "0" * 3000 + ',"kind":"PureDP"}',
    "an integer that is too long": '{"epsilon":1' + "0" * 5000 + ',"kind":"PureDP"}',
    "unknown adjacency": pure(adjacency="near"),
    "adjacency of another type": pure(adjacency=1),
    "null adjacency": pure(adjacency=None),
    "no part": '{"kind":"JointMechanism","parts":[]}',
    "parts that are numbers": '{"kind":"JointMechanism","parts":[1,2]}',
    "a part without its number": '{"kind":"JointMechanism","parts":[[' + pure() + "]]}",
    "a part that is no mechanism": '{"kind":"JointMechanism","parts":[[0.1,2]]}',
    "all of nothing": '{"kind":"AllOf","parts":[]}',
    "all of a number": '{"kind":"AllOf","parts":[0.1]}',
    "all of a text": '{"kind":"AllOf","parts":"PureDP"}',
    "all of different relations": '{"kind":"AllOf","parts":['
    + pure()
    + ","
    + pure(adjacency="add_remove")
    + "]}",
    "runs of nothing": '{"gamma":0.1,"kind":"RepeatedSelection","run":null,"shape":1.0}',
    "weights that are no mixture": '{"epsilons":[0.1,0.2],"kind":"ProfiledDP","weights":[3,4]}',
    "a very long list": '{"epsilons":[' + "1," * 600_000 + '1],"kind":"ProfiledDP","weights":[1]}',
    "deep lists": "[" * 100_000,
    "deep lists that end": "[" * 500 + "]" * 500,
    "deep objects": '{"kind":' * 100_000,
    "deep charges": deep(60),
    "deeper charges": deep(900),
    "nothing but blanks": " " * 100,
    "a zero character": pure(kind="PureDP\0"),
    "noise that is negative": '{"adjacency":"replace","kind":"GaussianMechanism","sigma":-1.0}',
    "unit of another type": pure(adjacency="replace_person", unit="patient"),
    "unit without its rows": pure(adjacency="replace_person", unit={"by_ids": True}),
    "unit of no rows": pure(adjacency="replace_person", unit={"by_ids": True, "max_rows": 0}),
    "unit of half a row": pure(adjacency="replace_person", unit={"by_ids": True, "max_rows": 0.5}),
    "unit of a true row": pure(adjacency="replace_person", unit={"by_ids": True, "max_rows": True}),
    "unit of too many rows": pure(
        adjacency="replace_person", unit={"by_ids": True, "max_rows": 10**30}
    ),
    "unit that may be checked": pure(adjacency="replace_person", unit={"by_ids": 1, "max_rows": 3}),
    "unit of persons for records": pure(unit={"by_ids": True, "max_rows": 3}),
    "unit of a record": pure(adjacency="replace_person", unit={"by_ids": False, "max_rows": 1}),
}

SENSELESS_COLUMNS = {
    "no releases": {"releases": 0},
    "fewer than no releases": {"releases": -5},
    "half a release": {"releases": 1.5},
    "releases in words": {"releases": "many"},
    "time in words": {"time": "yesterday"},
    "no time": {"time": ""},
    "time of no zone": {"time": "2026-01-01T00:00:00"},
    "month 13": {"time": "2026-13-01T00:00:00+00:00"},
    "before the first year": {"time": "0001-01-01T00:00:00+23:59"},
    "after the last year": {"time": "9999-12-31T23:59:59-23:59"},
    "a part of no split": {"part": "north"},
    "a split without a name": {"split": "s", "part": "north"},
    "a split of nothing known": {
        "split": "s",
        "part": "north",
        "split_name": "region",
        "split_by": "colour",
    },
    "values that decide about a replaced record": {
        "split": "s",
        "part": "north",
        "split_name": "region",
        "split_by": "values",
    },
    "a name of no split": {"split_name": "region"},
}


def assert_senseless(tmp_path, spec, **columns):
    path = tmp_path / "ledger.sqlite"
    for limit in ({"epsilon": 1.0}, {}):
        accountant = PrivacyAccountant(path=path, **limit)
        accountant.charge(PureDP(0.001))
        forge(path, spec, **columns)
        assert not_refused(accountant, tmp_path) == {}
        with pytest.raises(LedgerError):
            accountant.history()
        with pytest.raises(LedgerError):
            accountant.export(tmp_path / "ledger.json")
        with pytest.raises(LedgerError):
            PrivacyAccountant.open(path).total()
        for file in tmp_path.iterdir():
            file.unlink()


@pytest.mark.parametrize("name", SENSELESS_SPECS)
def test_an_invalid_mechanism_is_a_ledger_error(name, tmp_path):
    assert_senseless(tmp_path, SENSELESS_SPECS[name])


@pytest.mark.parametrize("name", SENSELESS_COLUMNS)
def test_an_invalid_charge_is_a_ledger_error(name, tmp_path):
    assert_senseless(tmp_path, encode(PureDP(0.001)), **SENSELESS_COLUMNS[name])


def test_a_charge_under_another_relation_than_that_of_the_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    accountant = PrivacyAccountant(epsilon=1.0, path=path, adjacency="add_remove")
    forge(path, encode(PureDP(0.001)))
    assert not_refused(accountant, tmp_path, PureDP(0.001, "add_remove")) == {}


def test_charges_that_cannot_be_composed_are_a_ledger_error_and_nothing_else(tmp_path):
    path = tmp_path / "ledger.sqlite"
    for limit in ({}, {"epsilon": 1.0}, {"epsilon": 1.0, "adaptive": False}):
        accountant = PrivacyAccountant(path=path, **limit)
        # Each of them can be charged, and they are more than can be counted.
        for _ in range(2):
            forge(path, encode(PureDP(1e99)), 2**63 - 1)
        assert not_refused(accountant, tmp_path) == {}
        for file in tmp_path.iterdir():
            file.unlink()


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": "much"},
        {"delta": 0.0},
        {"delta": 7.0},
        {"renyi_order": 0.5},
        {"epsilon": None, "renyi_order": 2.0},
    ],
)
def test_invalid_limits_are_a_ledger_error(change, tmp_path):
    path = tmp_path / "ledger.sqlite"
    header = PrivacyAccountant(epsilon=1.0, path=path)._ledger.header
    stored = {"epsilon": 1.0, "delta": 1e-5, "renyi_order": None} | change
    limits = LimitParameters(
        stored["epsilon"], stored["delta"], stored["renyi_order"], adaptive=True
    )
    with closing(sqlite3.connect(path)) as connection:
        names = ("ledgers_do_not_change", "heads_follow_charges")
        triggers = [
            trigger for trigger in SQLITE_TRIGGERS if any(name in trigger for name in names)
        ]
        for name in names:
            connection.execute(f"DROP TRIGGER {name}")
        for column, value in change.items():
            connection.execute(f"UPDATE ledgers SET {column} = ?", (value,))
        connection.execute(
            "UPDATE heads SET hash = ?", (header_hash(replace(header, limit=limits)),)
        )
        for trigger in triggers:
            connection.execute(trigger)
        connection.commit()
    moved = path.rename(tmp_path / "moved.sqlite")  # where no process has seen it
    for opened in (PrivacyAccountant.open, lambda path: PrivacyAccountant(path=path)):
        with pytest.raises(LedgerError, match="limit of the ledger is invalid"):
            opened(moved)


@pytest.mark.parametrize("column", ["identity", "created", "epsilon", "name", "unit", "origin"])
def test_bytes_in_the_header_are_a_ledger_error_and_nothing_else(column, tmp_path):
    path = tmp_path / "ledger.sqlite"
    PrivacyAccountant(epsilon=1.0, path=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER ledgers_do_not_change")
        connection.execute(f"UPDATE ledgers SET {column} = ?", (b"bytes",))
        connection.execute(next(sql for sql in SQLITE_TRIGGERS if "ledgers_do_not_change" in sql))
        connection.commit()
    for opened in (PrivacyAccountant.open, lambda path: PrivacyAccountant(path=path)):
        with pytest.raises(LedgerError, match="header is invalid"):
            opened(path)


def test_too_many_combinations_of_parts_are_a_ledger_error(tmp_path):
    path = tmp_path / "ledger.sqlite"
    accountant = PrivacyAccountant(path=path)
    for number in range(4):
        for part in range(4):
            where = {"split": f"s{number}", "split_name": "s", "split_by": "position"}
            forge(path, encode(PureDP(0.001 * (1 + 4 * number + part))), part=str(part), **where)
    assert not_refused(accountant, tmp_path) == {}
