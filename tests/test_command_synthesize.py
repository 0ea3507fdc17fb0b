"""From a CSV file and a code book to synthetic records, on the command line."""

import csv
import json
import os
import re
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivacyAccountant, PrivacyLeakWarning, PrivateBayesNet, Schema
from skdirdp.command import main
from skdirdp.mechanisms.additive import SelectionMechanism
from skdirdp.reporting.exports import sheet_text
from skdirdp.schema import NO_PERSON

from .test_reporting import assert_loads_nothing

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3

SCHEMA = """
missing_values = ["", "?"]

[columns]
age = { numbers = [18, 90] }
sex = { categories = ["f", "m"] }
city = { names = true }
remark = { ignore = true }
"""
WITH_IDS = SCHEMA.replace("remark = { ignore = true }", "id = { key = true }")


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
    refused = complaint(capsys, REFUSED, "--epsilon", 1, "--ledger", "study.sqlite")
    assert "does not fit" in refused
    assert "find names or words" not in refused
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


def test_the_number_of_records_is_an_option(folder, capsys):
    assert synthesize("--epsilon", 1, "--rows", 7, "--adjacency", "add_remove") == DONE
    assert len(pd.read_csv("out.csv")) == 7


def test_records_may_be_written_into_a_pipe(folder):
    read, write = os.pipe()
    arguments = ["--schema", "schema.toml", "--epsilon", "1", "--rows", "5", "--quiet"]
    assert main(["synthesize", "in.csv", f"/dev/fd/{write}", *arguments]) == DONE
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        assert len(pipe.readlines()) == 6


def test_a_column_of_ids_identifies_persons(folder, capsys):
    table = pd.read_csv("in.csv", dtype=str).drop(columns="remark")
    table.assign(id=[f"p{i // 2}" for i in range(len(table))]).to_csv("in.csv", index=False)
    Path("schema.toml").write_text('person = "id"\nmax_rows = 2\n' + WITH_IDS)
    assert synthesize("--epsilon", 2) == DONE
    assert "one person, of whom up to 2 records are counted" in " ".join(
        capsys.readouterr().out.split()
    )
    out = pd.read_csv("out.csv")
    assert list(out) == ["age", "sex", "city", "id"]
    assert out["id"].is_unique
    assert out["id"].str.startswith("synthetic-").all()


@pytest.mark.parametrize("column", ["1", '["id"]', "true"])
def test_the_column_of_ids_must_be_a_text(column, folder, capsys):
    Path("schema.toml").write_text(f"person = {column}\n" + SCHEMA)
    assert "person must be a string" in complaint(capsys, REFUSED, "--epsilon", 1)


def test_values_of_rows_that_are_not_counted_are_no_candidates(folder, monkeypatch):
    """Without a threshold, half of all candidates that no record holds would be published."""
    monkeypatch.setattr(SelectionMechanism, "threshold", -np.inf)
    table = pd.read_csv("in.csv", dtype=str).drop(columns="remark")
    ids = np.where(np.arange(len(table)) < 300, 0, np.arange(len(table)))
    table.loc[:299, "city"] = [f"secret {i}" for i in range(300)]
    table.assign(id=ids).to_csv("in.csv", index=False)
    Path("schema.toml").write_text('person = "id"\nmax_rows = 1\n' + WITH_IDS)
    assert synthesize("--epsilon", 50) == DONE
    found = set(pd.read_csv("out.csv")["city"])
    assert {name for name in found if name.startswith("secret")} <= {"secret 0"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sex =", "sexes ="), "'sexes': is not in the header"),
        (("remark = { ignore = true }", ""), "those at position 4 are not declared"),
        (("age =", "moon = { names = true }\nage ="), "'moon': is not in the header"),
        (('["f", "m"]', '["f", "?"]'), "'sex': a category must not be in missing_values too"),
        (('categories = ["f", "m"]', 'categories = "f"'), "must be a list"),
        (('categories = ["f", "m"]', ""), "'sex': is a blank to fill in"),
        (("names = true", "names = false"), "'city': names must be true"),
        (("names = true", "names = true, key = true"), "must have exactly one of these"),
        (("numbers = [18, 90]", "numbers = [18]"), "two bounds"),
        (("numbers = [18, 90]", "numbers = [90, 18]"), "low < high"),
        (("[18, 90]", "[18, 90], missing = 'no'"), "'age': missing must be true or false"),
        (('"?"]', '"]'), "schema.toml"),
        (("missing_values", "absent"), "may only have the parts"),
        (('"?"]', '"?"]\nperson = "id"'), "the person key must be a column"),
        (('"?"]', '"?"]\nperson = "remark"'), "'remark': the person key must be declared"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_before_any_charge(folder, capsys, change, message):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    Path("schema.toml").write_text(SCHEMA.replace(*change), encoding="utf-8")
    line = complaint(capsys, REFUSED, "--epsilon", 1, "--ledger", "study.sqlite")
    assert message in line
    assert "secret" not in line
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


# Cells -------------------------------------------------------------------------------


def read(text, columns, **more):
    """The table that the command reads from a file, by a schema in JSON."""
    Path("small.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    Path("small.json").write_text(json.dumps({"columns": columns, **more}))
    table = Schema.load("small.json").read_csv("small.csv")
    return {name: [None if pd.isna(v) else v for v in table[name]] for name in table}


@pytest.mark.parametrize(
    "states",
    [
        ["00123", "123", "0123.0"],
        ["0", "1"],
        ["True", "False"],
        ["250.00", "250.0", "V45"],
        ["NA", "nan", "None", "null"],
        ["1e3", "1000", " 1000"],
        ["2020-01-01", "2020-1-1"],
        ['"quoted"', "a,b", "two\nlines"],
        ["é", "e\u0301"],
    ],
)
@pytest.mark.parametrize("odd", ["x", "", "7", "7.0"])
def test_declared_categories_are_texts_independently_of_other_cells(folder, states, odd):
    for extra in ([], [odd]):
        with open("t.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["code", "n"], *([text, 1] for text in [*states, *extra])])
        columns = {"code": {"categories": states}, "n": {"numbers": [0, 2]}}
        table = read(Path("t.csv").read_bytes(), columns)
        assert table["code"][: len(states)] == states
        assert table["code"][len(states) :] == [None] * len(extra)


def test_codes_keep_their_form_from_the_file_to_the_synthetic_records(folder, capsys):
    n = 400
    Path("in.csv").write_text("zip,icd,flag\n" + "00123,250.00,True\n4567,001.0,False\n" * n)
    Path("schema.toml").write_text(
        '[columns]\nzip = { names = true }\nicd = { categories = ["250.00", "001.0"] }\n'
        'flag = { categories = ["True", "False"] }\n'
    )
    assert synthesize("--epsilon", 5) == DONE
    with open("out.csv", newline="") as file:
        _, *records = csv.reader(file)
    zips, icd, flags = map(set, zip(*records, strict=True))
    assert {"00123", "4567"} <= zips <= {"00123", "4567", "other", ""}
    assert {"250.00", "001.0"} <= icd <= {"250.00", "001.0", ""}
    assert {"True", "False"} <= flags <= {"True", "False", ""}


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("12", 12.0),
        ("012.50", 12.5),
        (" 3 ", 3.0),
        ("-1e2", -100.0),
        ("", None),
        ("-9", None),  # declared to be missing
        ("abc", None),
        ("True", 1.0),  # as a truth value in a frame
        ("1_000", None),
        ("1.2.3", None),
        ("nan", None),
    ],
)
def test_a_cell_that_is_no_number_is_missing_in_its_record_alone(folder, cell, number):
    text = f"age,sex\n30,f\n{cell},m\n-3.5,f\n"
    columns = {"age": {"numbers": [-200.0, 90.0]}, "sex": {"categories": ["f", "m"]}}
    table = read(text, columns, missing_values=["", "-9"])
    assert table["age"] == [30.0, number, -3.5]
    assert table["sex"] == ["f", "m", "f"]


@pytest.mark.parametrize(
    "line", ["1,f,x,extra", "1,f", "1", ",,,", "1,f,x,", '"1,f,x"', "\xff\xfe", "\0,\0,\0,\0"]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_row_of_another_length_is_a_record_without_values(folder, line, place):
    lines = ["1,f,x", "2,m,y"]
    lines.insert(place, line)
    columns = {
        "n": {"numbers": [0, 9]},
        "sex": {"categories": ["f", "m"]},
        "city": {"names": True},
    }
    table = read("n,sex,city\n" + "\n".join(lines) + "\n", columns)
    assert [table[name].pop(place) for name in table] == [None, None, None]
    assert table == {"n": [1, 2], "sex": ["f", "m"], "city": ["x", "y"]}


def test_a_byte_that_is_no_text_is_wrong_in_its_cell_alone(folder):
    columns = {"a": {"categories": ["x", "y"]}, "b": {"names": True}}
    table = read(b"a,b\nx,1\n\xff\xfe,2\ny,\xff\n", columns)
    assert table == {"a": ["x", None, "y"], "b": ["1", "2", "\ufffd"]}


def test_an_empty_line_is_a_record_of_a_single_column_only(folder):
    table = read("a\nx\n\ny\n", {"a": {"names": True}})
    assert table == {"a": ["x", None, "y"]}
    table = read("a,b\nx,1\n\ny,2\n", {"a": {"names": True}, "b": {"ignore": True}})
    assert table == {"a": ["x", "y"]}


def test_records_without_an_id_are_not_counted(folder):
    text = "id,a\n007,x\n,y\n7,y\n?,y\nbroken\n007,x\n"
    columns = {"a": {"categories": ["x", "y"]}, "id": {"key": True}}
    more = {"missing_values": ["", "?"], "person": "id", "max_rows": 2}
    assert read(text, columns, **more)["id"] == ["007", None, "7", None, None, "007"]
    schema = Schema.load("small.json")
    table = schema.read_csv("small.csv")
    ids = schema.person_ids(schema.records(table)).tolist()
    assert ids == ["007", NO_PERSON, 7, NO_PERSON, NO_PERSON, "007"]
    assert PrivateBayesNet(schema, epsilon=np.inf).fit(table).n_records_ == 3


def test_a_file_without_a_header_is_refused_without_showing_a_cell(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    _, *records = Path("in.csv").read_text().splitlines(keepends=True)
    for first in (["71,f,Bergen,secret 0\n"], ["secret\n"], ["age,sex,city,remark,secret\n"], []):
        Path("in.csv").write_text("".join([*first, *records]))
        line = complaint(capsys, REFUSED, "--epsilon", 1, "--ledger", "study.sqlite")
        assert not any(cell in line for cell in ("secret", "71", "Bergen"))
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


def test_two_columns_of_one_name_are_refused(folder, capsys):
    Path("in.csv").write_text("age,sex,sex,city,remark\n20,f,m,Bergen,secret\n")
    assert "'sex': occurs more than once" in complaint(capsys, REFUSED, "--epsilon", 1)


def test_quotes_that_would_join_records_are_refused_without_showing_them(folder, capsys):
    for text in ('"secret\n20,f,Bergen,x\n', '20,f,"Bergen"secret,x\n'):
        Path("in.csv").write_text("age,sex,city,remark\n30,f,Bergen,x\n" + text)
        line = complaint(capsys, REFUSED, "--epsilon", 1)
        assert "must be a CSV file" in line
        assert "secret" not in line


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "file", "s3", "memory"])
def test_addresses_are_not_opened(folder, capsys, scheme, monkeypatch):
    opened = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *given, **more: opened.append(given))
    path = Path("in.csv").resolve() if scheme == "file" else "127.0.0.1:9/in.csv"
    code = main(
        ["synthesize", f"{scheme}://{path}", "out.csv", "--schema", "schema.toml", "--epsilon", "1"]
    )
    assert code == REFUSED
    assert "No such file" in capsys.readouterr().err
    assert opened == []


def test_a_file_that_is_not_there_is_named(folder, capsys):
    Path("in.csv").unlink()
    assert (
        complaint(capsys, REFUSED, "--epsilon", 1) == "skdirdp: in.csv: No such file or directory"
    )


def test_a_pipe_is_accepted_as_input(folder, capsys):
    text = Path("in.csv").read_text().encode()
    end, start = os.pipe()

    def write():
        with os.fdopen(start, "wb") as pipe:
            pipe.write(text)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    options = ["--schema", "schema.toml", "--epsilon", "3"]
    assert main(["synthesize", f"/dev/fd/{end}", "out.csv", *options]) == DONE
    writer.join()
    os.close(end)
    assert len(pd.read_csv("out.csv")) == 3000


def test_a_poorly_fitting_schema_shows_in_the_synthetic_records(folder, capsys):
    assert synthesize("--epsilon", 3) == DONE
    assert "Most values" not in capsys.readouterr().out
    Path("schema.toml").write_text(SCHEMA.replace('["f", "m"]', '["F", "M"]'))
    assert synthesize("--epsilon", 3) == DONE
    assert "Most values of 'sex' are missing" in " ".join(capsys.readouterr().out.split())


def test_places_that_cannot_be_written_are_refused_before_any_charge(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    options = ["--epsilon", 1, "--ledger", "study.sqlite", "--report", "missing/page.html"]
    complaint(capsys, REFUSED, *options)
    assert len(PrivacyAccountant(path="study.sqlite")) == 0
    assert "no ledger" in complaint(capsys, DAMAGED, "--epsilon", 1, "--ledger", "none.sqlite")
    assert "--ledger" in complaint(capsys, USAGE, "--epsilon", 1, "--name", "x")


@pytest.mark.parametrize("name", ["deep.json", "deep.toml"])
def test_a_schema_that_is_nested_too_deeply_is_refused(folder, name, capsys):
    deep = "[" * 100_000 + "]" * 100_000
    Path(name).write_text(deep if name == "deep.json" else f"a = {deep}")
    arguments = ["synthesize", "in.csv", "out.csv", "--schema", name, "--epsilon", "1"]
    assert main(arguments) == REFUSED
    assert "nested" in capsys.readouterr().err


def test_a_schema_may_be_json(folder):
    given = {"columns": {"age": {"numbers": [0, 9]}, "sex": {"categories": [1, "m"]}}}
    Path("schema.json").write_text(json.dumps(given))
    assert Schema.load("schema.json") == Schema({"age": (0, 9), "sex": [1, "m"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.csv", "in.csv"), "is also an input"),
        (("in.csv", "link.csv"), "is also an input"),
        (("in.csv", "./sub/../in.csv"), "is also an input"),
        (("in.csv", "schema.toml"), "is also an input"),
        (("in.csv", "new.csv", "--report", "in.csv"), "is also an input"),
        (("in.csv", "new.csv", "--report", "new.csv"), "is also an input"),
        (("in.csv", "ledger.sqlite"), "would overwrite a ledger"),
        (("in.csv", "new.csv", "--report", "ledger.sqlite"), "would overwrite a ledger"),
        (("in.csv", "ledger.sqlite.lock"), "would overwrite a file of the ledger"),
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


def test_constraints_on_the_structure_are_read_from_a_file(folder, capsys):
    Path("edges.toml").write_text('required = [["city", "age"]]\nforbidden = [["age", "sex"]]\n')
    assert synthesize("--epsilon", 1, "--structure", "edges.toml") == DONE
    Path("out.csv").unlink()
    Path("edges.json").write_text('{"order": ["age", "moon"]}')
    assert "moon" in complaint(capsys, REFUSED, "--epsilon", 1, "--structure", "edges.json")
    Path("edges.json").write_text('{"wanted": []}')
    line = complaint(capsys, REFUSED, "--epsilon", 1, "--structure", "edges.json")
    assert "constraints may only have the parts required, forbidden, order" in line
    arguments = ["synthesize", "in.csv", "edges.toml", "--schema", "schema.toml", "--epsilon", "1"]
    assert main([*arguments, "--structure", "edges.toml"]) == REFUSED
    assert "is also an input" in capsys.readouterr().err


def test_required_edges_of_the_file_are_in_the_network(folder, monkeypatch):
    given = []
    fit = PrivateBayesNet.fit
    monkeypatch.setattr(
        PrivateBayesNet, "fit", lambda self, table: given.append(self) or fit(self, table)
    )
    Path("edges.toml").write_text('required = [["city", "age"]]\n')
    assert synthesize("--epsilon", 1, "--structure", "edges.toml") == DONE
    assert "city" in given[0].structure_["age"]


def test_all_undeclared_columns_are_reported_by_position(folder, capsys):
    Path("in.csv").write_text("secret1,age,sex,secret2,remark,secret3\n1,20,f,2,x,3\n")
    line = complaint(capsys, REFUSED, "--epsilon", 1)
    assert "those at positions 1, 4, 6 are not declared" in line
    assert "'city': is not in the header" in line
    assert "secret" not in line


def test_a_column_without_categories_draws_a_warning_of_one_line(folder, capsys):
    Path("schema.toml").write_text(SCHEMA.replace('["f", "m"]', "[]"))
    assert synthesize("--epsilon", 3, "--quiet") == DONE
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("skdirdp: column 'sex': no categories are declared")
    assert pd.read_csv("out.csv")["sex"].isna().all()


def test_all_kinds_of_columns_are_written_in_their_declared_form(folder, capsys):
    """Codes, dates, truth values, missing values and several rows per person."""
    rng = np.random.default_rng(1)
    n = 4000
    days = np.datetime64("2020-01-01") + rng.integers(0, 366, n)
    hours = rng.integers(0, 24, n)
    table = pd.DataFrame(
        {
            "patient": [f"p{i // 2}" for i in range(n)],
            "admitted": days.astype(str),
            "month": days.astype("M8[M]").astype(str),
            "german": [f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in days.astype(str)],
            "seen": [f"{day} {hour:02}:30" for day, hour in zip(days, hours, strict=True)],
            "again": np.where(rng.random(n) < 0.5, "yes", "no"),
            "zip": rng.choice(["00123", "4567"], n),
            "icd": rng.choice(["250.00", "001.0"], n),
            "age": np.where(rng.random(n) < 0.3, "?", rng.integers(0, 99, n).astype(str)),
        }
    )
    table.to_csv("in.csv", index=False)
    Path("schema.toml").write_text(
        """
        person = "patient"
        max_rows = 2
        missing_values = ["?"]
        [columns]
        patient = { key = true }
        admitted = { dates = [2020-01-01, 2020-12-31] }
        month = { dates = [2020-01-01, 2020-12-31], resolution = "month" }
        german = { dates = [2020-01-01, 2020-12-31], format = "%d.%m.%Y" }
        seen = { dates = [2020-01-01, 2020-12-31], resolution = "hour" }
        again = { categories = [false, true] }
        zip = { categories = ["00123", "4567"] }
        icd = { names = true }
        age = { numbers = [0, 110] }
        """
    )
    assert synthesize("--epsilon", 20, "--rows", 500) == DONE
    with open("out.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == list(table.columns)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    forms = {
        "admitted": r"2020-\d\d-\d\d",
        "month": r"2020-\d\d",
        "german": r"\d\d\.\d\d\.2020",
        "seen": r"2020-\d\d-\d\dT\d\d:00",
        "again": "True|False",
        "zip": "00123|4567",
        "icd": r"250\.00|001\.0",
        "age": r"\d+|\?",
    }
    for name, form in forms.items():
        assert all(re.fullmatch(form, cell) for cell in columns[name]), name
        assert len(set(columns[name])) > 1, name
    assert columns["age"].count("?") / 500 == pytest.approx(0.3, abs=0.1)
    # The schema of the table reads the synthetic records, too.
    schema = Schema.load("schema.toml").replace(person=None, max_rows=1).select(header)
    again = schema.read_csv("out.csv")
    assert not again[["admitted", "month", "german", "seen", "again"]].isna().any(axis=None)


# Several tables, quality and data sheets -----------------------------------------------


def test_several_tables_are_numbered(folder, capsys):
    assert synthesize("--epsilon", 3, "--tables", 12, "--rows", 40) == DONE
    shown = capsys.readouterr()
    assert "Wrote out-01.csv to out-12.csv" in shown.out
    assert "writing table 12 of 12" in shown.err
    assert "Warning" not in shown.err
    paths = sorted(Path().glob("out*.csv"))
    assert [path.name for path in paths] == [f"out-{i:02}.csv" for i in range(1, 13)]
    assert len({path.read_text() for path in paths}) == 12
    assert all(len(pd.read_csv(path)) == 40 for path in paths)


def test_quality_and_data_sheet_are_written(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    pages = ["--quality", "quality.html", "--sheet", "sheet.md", "--measure-epsilon", "0.5"]
    assert synthesize("--epsilon", 1, "--ledger", "study.sqlite", *pages) == DONE
    assert len(PrivacyAccountant(path="study.sqlite")) == 2
    assert_loads_nothing(Path("quality.html").read_text(encoding="utf-8"))
    sheet = Path("sheet.md").read_text(encoding="utf-8")
    for text in (
        "(ε = 1, δ = 0.00001)-differentially private",
        "The measured errors were computed",
        "| age | whole numbers from 18 to 90 |",
        "Columns that are left out: remark.",
        "Intervals and tests need several",
        "charged to a ledger",
    ):
        assert text in sheet
    assert "secret 1" not in sheet + Path("quality.html").read_text(encoding="utf-8")
    assert synthesize("--epsilon", 1, "--sheet", "sheet.html", "--tables", 2) == DONE
    page = Path("sheet.html").read_text(encoding="utf-8")
    assert_loads_nothing(page)
    assert "S is drawn as (m - 1) B / c - V, or 0 if this is negative" in page


def test_constraints_are_in_the_data_sheet(folder, capsys):
    rules = ["age < 40 implies sex == 'm'", "age is not missing"]
    Path("schema.toml").write_text(f"constraints = {json.dumps(rules)}\n{SCHEMA}", "utf-8")
    for name in ("sheet.md", "sheet.html"):
        assert synthesize("--epsilon", 3, "--sheet", name, "--quality", "quality.html") == DONE
        sheet = Path(name).read_text(encoding="utf-8")
        assert "All records satisfy the constraints below" in sheet
        assert "age is not missing" in sheet
        assert "implies sex ==" in sheet
        assert re.search(r" [1-5]\d\.\d% violate one", sheet)
    assert "rejected by constraints" in Path("quality.html").read_text(encoding="utf-8")
    assert Schema.load("schema.toml").satisfies(pd.read_csv("out.csv")).all()


def test_names_of_columns_cannot_break_a_data_sheet():
    sections = [("Columns", [(["column"], [["a | <script>\n# b"]]), ["*x*"]])]
    text = sheet_text("Sheet", sections)
    assert "| a \\| \\<script\\>\\\\n# b |" in text
    assert "- \\*x\\*" in text


def test_records_are_written_even_if_measured_errors_are_refused(folder, capsys):
    main(["ledger", "create", "study.sqlite", "--epsilon", "1.2"])
    pages = ["--quality", "quality.html", "--measure-epsilon", "3"]
    assert synthesize("--epsilon", 1, "--ledger", "study.sqlite", *pages) == REFUSED
    assert len(pd.read_csv("out.csv")) == 3000
    assert not Path("quality.html").exists()
    assert len(PrivacyAccountant(path="study.sqlite")) == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--tables", 1), USAGE, "--tables must be at least 2; got 1"),
        (("--sheet", "sheet.txt"), USAGE, "ends in .md or .html"),
        (("--measure-epsilon", 1), USAGE, "needs --quality or --sheet"),
        (("--quality", "missing/page.html"), REFUSED, "No such file"),
        (("--quality", "in.csv"), REFUSED, "is also an input"),
        (("--quality", "page.html", "--sheet", "page.html"), REFUSED, "is also an input"),
        (("--tables", 2, "--quality", "out-2.csv"), REFUSED, "is also an input"),
    ],
)
def test_wrong_outputs_are_refused_before_any_charge(folder, capsys, options, code, message):
    main(["ledger", "create", "study.sqlite", "--epsilon", "4"])
    line = complaint(capsys, code, "--epsilon", 1, "--ledger", "study.sqlite", *options)
    assert message in line
    assert len(PrivacyAccountant(path="study.sqlite")) == 0


# Schemas -----------------------------------------------------------------------------


def test_a_draft_reads_the_header_only_and_its_blanks_are_refused_at_once(folder, capsys):
    header, *_ = Path("in.csv").read_text().splitlines()
    broken = b'\n"secret,\xff\n'
    Path("in.csv").write_bytes(header.encode() + broken)
    assert main(["schema", "draft", "in.csv"]) == DONE
    shown = capsys.readouterr().out
    assert "secret" not in shown
    assert shown.endswith('"age" = {}\n"sex" = {}\n"city" = {}\n"remark" = {}\n')
    assert main(["schema", "draft", "in.csv", "-o", "draft.toml"]) == DONE
    assert Path("draft.toml").read_text(encoding="utf-8") == shown
    capsys.readouterr()
    assert main(["schema", "check", "draft.toml"]) == REFUSED
    complained = capsys.readouterr().err
    for name in header.split(","):
        assert f"'{name}': is a blank to fill in" in complained


def test_a_draft_from_a_code_book_is_a_schema(folder, capsys):
    rows = [
        ["column", "value", "low", "high", "label"],
        ["age", "", "18", "90", "in years"],
        ["height", "", "1.2", "2.3", ""],
        ["sex", "f", "", "", "female"],
        ["sex", "m", "", "", "male"],
        ['a "name"\x7f', "", "", "", ""],
    ]
    with open("book.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    assert main(["schema", "codebook", "book.csv", "-o", "draft.toml"]) == DONE
    assert Schema.load("draft.toml") == Schema(
        {
            "age": (18, 90),
            "height": (1.2, 2.3),
            "sex": ["f", "m"],
            'a "name"\x7f': Schema.names(),
        }
    )
    capsys.readouterr()
    assert main(["schema", "codebook", "book.csv"]) == DONE
    assert capsys.readouterr().out == Path("draft.toml").read_text(encoding="utf-8")


def test_a_code_book_with_a_column_without_values_draws_a_warning_of_one_line(folder, capsys):
    Path("book.csv").write_text("column,kind\nsex,categories\n")
    assert main(["schema", "codebook", "book.csv"]) == DONE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("skdirdp: column 'sex': no categories are declared")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("column,value\n", "at least one row"),
        ("name,value\na,b\n", "an entry in 'column'"),
        ("column,value,low,high\na,,x,1\n", "'a': low and high must be two numbers or two dates"),
        ("column,value,low,high\na,,0,1\na,b,,\n", "'a': has more than one of values, bounds"),
    ],
)
def test_a_bad_code_book_is_refused(folder, capsys, text, message):
    Path("book.csv").write_text(text)
    assert main(["schema", "codebook", "book.csv"]) == REFUSED
    assert message in capsys.readouterr().err


def test_a_check_shows_the_columns_and_compares_the_header(folder, capsys):
    Path("schema.toml").write_text('person = "id"\nmax_rows = 2\n' + WITH_IDS)
    assert main(["schema", "check", "schema.toml"]) == DONE
    shown = capsys.readouterr().out
    assert "whole numbers from 18 to 90" in shown
    assert "at most 2 rows per id" in shown
    assert main(["schema", "check", "schema.toml", "in.csv"]) == REFUSED
    complained = capsys.readouterr().err
    assert "'id': is not in the header" in complained
    assert "position 4" in complained
    assert "remark" not in complained


@pytest.mark.parametrize("action", ["draft", "codebook"])
def test_a_schema_does_not_replace_its_source(action, folder, capsys):
    Path("book.csv").write_text("column,value\nsex,f\nsex,m\n", encoding="utf-8")
    assert main(["schema", action, "book.csv", "-o", "book.csv"]) == REFUSED
    assert "is also an input" in capsys.readouterr().err
    assert Path("book.csv").read_text(encoding="utf-8").startswith("column")
