"""From a CSV file and a code book to synthetic records, on the command line."""

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivacyAccountant, PrivacyLeakWarning
from skdirdp.command import main
from skdirdp.command.schema import read_schema
from skdirdp.mechanisms.selection import SelectionMechanism

from .test_reporting import assert_loads_nothing

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3

SCHEMA = """
missing = ["", "?"]

[columns.age]
bounds = [18, 90]

[columns.sex]
states = ["f", "m"]

[columns.city]
find = true

[columns.remark]
drop = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    n = 3000
    age = rng.integers(18, 91, n)
    table = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, "?", age.astype(str)),
            "sex": np.where(rng.random(n) < 0.3 + 0.4 * (age > 50), "f", "m"),
            "city": rng.choice(["Aarhus", "Bergen"], n),
            "remark": [f"secret {i}" for i in range(n)],
        }
    )
    table.loc[3, "city"] = "Atlantis"
    table.to_csv("in.csv", index=False)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def synthesize(*more):
    return main(["synthesize", "in.csv", "out.csv", "--schema", "schema.toml", *map(str, more)])


def complaint(capsys, code, *more):
    capsys.readouterr()
    assert synthesize("--quiet", *more) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert not Path("out.csv").exists()
    return line


def test_end_to_end_is_one_charge_without_a_leak(folder, capsys):
    assert main(["ledger", "create", "study.sqlite", "--epsilon", "4"]) == DONE
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        options = ["--epsilon", 3, "--ledger", "study.sqlite", "--label", "twin"]
        assert synthesize(*options, "--report", "page.html") == DONE
    shown = capsys.readouterr()
    assert "differentially private" in " ".join(shown.out.split())
    assert "learning 3 columns" in shown.err
    accountant = PrivacyAccountant(path="study.sqlite")
    ((charge),) = accountant.history()
    assert charge["label"] == "twin"
    assert 2.9 < charge["epsilon"] <= 3.0
    assert_loads_nothing(Path("page.html").read_text(encoding="utf-8"))

    records = pd.read_csv("out.csv")
    assert list(records) == ["age", "sex", "city"]
    assert len(records) == 3000
    assert set(records["sex"]) == {"f", "m"}
    assert set(records["city"]) == {"Aarhus", "Bergen"}
    assert records["age"].dropna().between(18, 90).all()
    assert records["age"].isna().mean() == pytest.approx(0.1, abs=0.05)
    old = records["age"] > 50
    women = (records["sex"] == "f")[old].mean() - (records["sex"] == "f")[~old].mean()
    assert women == pytest.approx(0.4, abs=0.15)


def test_a_budget_that_is_used_up_writes_nothing(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "0.5"])
    assert "does not fit" in complaint(capsys, REFUSED, "--epsilon", 1, "--ledger", "study.sqlite")
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


def test_the_number_of_records_may_be_asked_for(folder, capsys):
    assert synthesize("--epsilon", 1, "--rows", 7, "--adjacency", "add_remove") == DONE
    assert len(pd.read_csv("out.csv")) == 7


def test_persons_are_told_by_a_column_of_ids(folder, capsys):
    table = pd.read_csv("in.csv", dtype=str).drop(columns="remark")
    table.assign(id=[f"p{i // 2}" for i in range(len(table))]).to_csv("in.csv", index=False)
    text = SCHEMA.replace("[columns.remark]\ndrop = true", "")
    Path("schema.toml").write_text(text + '[persons]\ncolumn = "id"\nmax_rows = 2\n')
    assert synthesize("--epsilon", 2) == DONE
    assert "person" in capsys.readouterr().out
    assert list(pd.read_csv("out.csv")) == ["age", "sex", "city"]


def test_values_of_rows_that_are_not_counted_are_no_candidates(folder, monkeypatch):
    """Without a threshold, half of all candidates that no record holds would be published."""
    monkeypatch.setattr(SelectionMechanism, "threshold", -np.inf)
    table = pd.read_csv("in.csv", dtype=str).drop(columns="remark")
    ids = np.where(np.arange(len(table)) < 300, 0, np.arange(len(table)))
    table.loc[:299, "city"] = [f"secret {i}" for i in range(300)]
    table.assign(id=ids).to_csv("in.csv", index=False)
    text = SCHEMA.replace("[columns.remark]\ndrop = true", "")
    Path("schema.toml").write_text(text + '[persons]\ncolumn = "id"\nmax_rows = 1\n')
    assert synthesize("--epsilon", 50) == DONE
    found = set(pd.read_csv("out.csv")["city"])
    assert {name for name in found if name.startswith("secret")} <= {"secret 0"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[columns.sex]", "[columns.sexes]"), "'sex' that the schema does not name"),
        (("[columns.age]", "[columns.moon]\nfind = true\n[columns.age]"), "no column 'moon'"),
        (('states = ["f", "m"]', 'states = ["f"]'), "column 'sex' has others"),
        (('states = ["f", "m"]', 'states = "f"'), "list of texts"),
        (("find = true", "find = false"), "must have one of"),
        (("bounds = [18, 90]", "bounds = [18]"), "two numbers"),
        (("bounds = [18, 90]", "bounds = [90, 18]"), "low < high"),
        (('"?"]', '"]'), "schema.toml"),
        (("missing", "absent"), "and no others"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_before_any_charge(folder, capsys, change, message):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    Path("schema.toml").write_text(SCHEMA.replace(*change), encoding="utf-8")
    line = complaint(capsys, REFUSED, "--epsilon", 1, "--ledger", "study.sqlite")
    assert message in line
    assert "secret" not in line
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


def test_text_among_numbers_is_refused_without_showing_it(folder, capsys):
    table = pd.read_csv("in.csv", dtype=str)
    table.loc[5, "age"] = "secret"
    table.to_csv("in.csv", index=False)
    line = complaint(capsys, REFUSED, "--epsilon", 1)
    assert "secret" not in line


def test_places_that_cannot_be_written_are_refused_before_any_charge(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    options = ["--epsilon", 1, "--ledger", "study.sqlite", "--report", "missing/page.html"]
    complaint(capsys, REFUSED, *options)
    assert len(PrivacyAccountant(path="study.sqlite")) == 0
    assert "no ledger" in complaint(capsys, DAMAGED, "--epsilon", 1, "--ledger", "none.sqlite")
    assert "--ledger" in complaint(capsys, USAGE, "--epsilon", 1, "--name", "x")


def test_a_schema_may_be_json(folder):
    given = {"columns": {"age": {"bounds": [0, 9]}, "sex": {"states": [1, "m"]}}}
    Path("schema.json").write_text(json.dumps(given))
    schema = read_schema("schema.json")
    assert schema.bounds == {"age": (0, 9)}
    assert schema.states == {"sex": ["1", "m"]}
    assert schema.missing == [""]


def test_a_draft_from_a_code_book_is_a_schema(folder, capsys):
    rows = [
        ["column", "value", "low", "high", "label"],
        ["age", "", "18", "90", "in years"],
        ["height", "", "1.2", "2.3", ""],
        ["sex", "f", "", "", "female"],
        ["sex", "m", "", "", "male"],
        ['a "name"', "", "", "", ""],
    ]
    with open("book.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    assert main(["schema", "book.csv", "-o", "draft.toml"]) == DONE
    schema = read_schema("draft.toml")
    assert schema.bounds == {"age": (18, 90), "height": (1.2, 2.3)}
    assert isinstance(schema.bounds["age"][0], int)
    assert schema.states == {"sex": ["f", "m"]}
    assert schema.find == ['a "name"']
    capsys.readouterr()
    assert main(["schema", "book.csv"]) == DONE
    assert capsys.readouterr().out == Path("draft.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("column,value\n", "at least one row"),
        ("name,value\na,b\n", "under 'column'"),
        ("column,value,low,high\na,,x,1\n", "'low' of column 'a' must be a number"),
        ("column,value,low,high\na,,0,1\na,b,,\n", "both values and a range"),
    ],
)
def test_a_bad_code_book_is_refused(folder, capsys, text, message):
    Path("book.csv").write_text(text)
    assert main(["schema", "book.csv"]) == REFUSED
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.csv", "in.csv"), "is also an input"),
        (("in.csv", "link.csv"), "is also an input"),
        (("in.csv", "./sub/../in.csv"), "is also an input"),
        (("in.csv", "schema.toml"), "is also an input"),
        (("in.csv", "new.csv", "--report", "in.csv"), "is also an input"),
        (("in.csv", "new.csv", "--report", "new.csv"), "is also an input"),
        (("in.csv", "ledger.sqlite"), "would replace a ledger"),
        (("in.csv", "new.csv", "--report", "ledger.sqlite"), "would replace a ledger"),
        (("in.csv", "ledger.sqlite.lock"), "would replace a file of the ledger"),
    ],
)
def test_no_input_or_ledger_is_replaced_and_nothing_is_charged(arguments, message, folder, capsys):
    accountant = PrivacyAccountant(epsilon=3.0, path="ledger.sqlite")
    Path("sub").mkdir()
    Path("link.csv").symlink_to("in.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    options = ["--schema", "schema.toml", "--epsilon", "1", "--ledger", "ledger.sqlite", "--quiet"]
    assert main(["synthesize", *arguments, *options]) == REFUSED
    assert message in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert len(accountant) == 0


def test_a_schema_does_not_replace_its_code_book(folder, capsys):
    Path("book.csv").write_text("column,value\nsex,f\nsex,m\n", encoding="utf-8")
    assert main(["schema", "book.csv", "-o", "book.csv"]) == REFUSED
    assert "is also an input" in capsys.readouterr().err
    assert Path("book.csv").read_text(encoding="utf-8").startswith("column")
