"""Command line: actions, exit codes, error messages, and widths of tables."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skdirdp
from skdirdp import PrivacyAccountant
from skdirdp.accountant.codec import encode
from skdirdp.accounting import NoPrivacy, PureDP, RenyiDP
from skdirdp.command import main
from skdirdp.command.terminal import Column, display_width, format_table, truncate, wrap
from skdirdp.mechanisms import DirichletMechanism, SimplexMechanism

from .test_reporting import assert_loads_nothing

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3
MECHANISM = DirichletMechanism(r=0.05, alpha=20.0)
ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "postgresql+psycopg://ana:s3kret@127.0.0.1:1/none"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def study(folder):
    """A ledger with a limit and three charges."""
    run("create", "study.sqlite", "--epsilon", "3", "--name", "Survey", "--fixed-plan")
    accountant = PrivacyAccountant(path="study.sqlite")
    for label in ["income", "income", "a label that goes on and on, for much longer than a line"]:
        accountant.charge(MECHANISM, releases=14, label=label)
    return accountant


def run(*arguments):
    return main(["ledger", *map(str, arguments)])


def result(capsys, *arguments):
    """Return the JSON output of a command."""
    capsys.readouterr()
    assert run(*arguments, "--json") == DONE
    return json.loads(capsys.readouterr().out)


def complaint(capsys, code, *arguments):
    """Return the one line of an error message."""
    capsys.readouterr()
    assert run(*arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("skdirdp: ")
    assert "Traceback" not in captured.err
    return captured.err


# Making a ledger


def test_create_makes_a_ledger_with_the_given_parameters(folder, capsys):
    made = result(
        capsys,
        *("create", "a.sqlite", "--epsilon", "2", "--delta", "1e-6", "--name", "Survey"),
        *("--adjacency", "add_remove", "--unit", "person", "--fixed-plan"),
    )
    accountant = PrivacyAccountant(path="a.sqlite")
    assert (accountant.epsilon, accountant.delta, accountant.order) == (2.0, 1e-6, None)
    assert made["limit"] == {"epsilon": 2.0, "delta": 1e-6, "order": None}
    assert (
        (accountant.name, accountant.unit) == ("Survey", "person") == (made["name"], made["unit"])
    )
    assert accountant.adjacency == made["adjacency"] == "add_remove"
    assert accountant.adaptive is made["adaptive"] is False
    with pytest.raises(ValueError, match="adjacency"):
        accountant.charge(MECHANISM)


def test_create_makes_a_ledger_with_an_adaptive_limit(folder, capsys):
    made = result(capsys, "create", "a.sqlite", "--epsilon", "2", "--order", "8", "--adaptive")
    assert made["adaptive"] is True
    assert made["limit"]["order"] == 8.0


def test_create_does_not_change_an_existing_file(study, folder, capsys):
    before = Path("study.sqlite").read_bytes()
    assert "exists already" in complaint(capsys, REFUSED, "create", "study.sqlite")
    assert Path("study.sqlite").read_bytes() == before
    (folder / "dangling").symlink_to(folder / "nowhere")
    complaint(capsys, REFUSED, "create", "dangling")
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--epsilon", "-1"], REFUSED, "epsilon must be"),
        (["--epsilon", "0"], REFUSED, "epsilon must be"),
        (["--delta", "1"], REFUSED, "delta must be"),
        (["--order", "8"], REFUSED, "epsilon must be given with order"),
        (["--epsilon", "much"], USAGE, "must be a number; got 'much'"),
        (["--epsilon", "nan"], USAGE, "must be a number"),
        (["--adjacency", "other"], USAGE, "invalid choice"),
        (["--adaptive", "--fixed-plan"], USAGE, "not allowed with"),
        (["--colour", "red"], USAGE, "unrecognized arguments"),
    ],
)
def test_create_refuses_invalid_parameters(options, code, message, folder, capsys):
    assert message in complaint(capsys, code, "create", "a.sqlite", *options)
    assert not Path("a.sqlite").exists()


def test_create_in_a_folder_that_is_not_there_is_refused(folder, capsys):
    complaint(capsys, DAMAGED, "create", "missing/a.sqlite")


# Looking at it


def test_show_prints_the_limit_its_use_and_the_charges(study, capsys):
    assert run("show", "study.sqlite") == DONE
    out = capsys.readouterr().out
    for text in ["Survey", "ε = 3 at δ = 0.00001", "charges:    3", "used:", "left:", "income"]:
        assert text in out


def test_show_as_json_has_the_charges_with_their_epsilons(study, capsys):
    shown = result(capsys, "show", "study.sqlite", "--last", "2")
    assert shown["charges"] == 3
    assert [charge["number"] for charge in shown["shown"]] == [2, 3]
    alone = study.history()[1]["epsilon"]
    assert shown["shown"][0]["epsilon"] == alone
    assert shown["used"] == study.total()
    assert shown["remaining"] == study.remaining()


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 80, 120, 300])
def test_output_fits_the_terminal(study, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    study.charge(MECHANISM, label="名前" * 40 + "\x1b[31m\nnext")
    capsys.readouterr()
    assert run("show", "study.sqlite") == DONE
    out = capsys.readouterr().out
    assert max(display_width(line) for line in out.splitlines()) <= width
    assert "\x1b" not in out
    assert "income" in out


def test_show_of_none_and_of_many_charges(study, capsys):
    assert run("show", "study.sqlite", "--last", "0") == DONE
    assert "income" not in capsys.readouterr().out
    for _ in range(20):
        study.charge(PureDP(0.001))
    assert run("show", "study.sqlite") == DONE
    assert "3 earlier charges are not shown; --last 23 shows all." in capsys.readouterr().out


def test_show_lists_charges_that_have_no_total(folder, capsys):
    vectors = SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05)
    with PrivacyAccountant(path="mixed.sqlite")._ledger.writing() as transaction:
        for charged in (vectors, PureDP(0.1)):
            transaction.append(encode(charged), 1, None, None)
    assert run("show", "mixed.sqlite") == DAMAGED
    captured = capsys.readouterr()
    assert "SimplexMechanism" in captured.out
    assert captured.err.count("\n") == 1
    assert "different adjacencies" in captured.err
    complaint(capsys, DAMAGED, "total", "mixed.sqlite")


def test_total_is_that_of_the_accountant(study, capsys):
    assert result(capsys, "total", "study.sqlite")["total"] == study.total()
    asked = result(capsys, "total", "study.sqlite", "--delta", "1e-9")
    assert asked["total"] == study.total(1e-9)
    assert run("total", "study.sqlite") == DONE
    stated = capsys.readouterr().out
    assert study.total() <= float(stated.split()[2]) <= study.total() + 1e-4
    assert "delta must be" in complaint(capsys, REFUSED, "total", "study.sqlite", "--delta", "2")


def test_an_infinite_total_is_valid_json(folder, capsys):
    run("create", "a.sqlite")
    PrivacyAccountant(path="a.sqlite").charge(NoPrivacy())
    shown = result(capsys, "total", "a.sqlite")
    assert float(shown["total"]) == float("inf")
    assert result(capsys, "show", "a.sqlite")["shown"][0]["epsilon"] == "Infinity"


def test_verify_finds_a_whole_ledger_intact(study, capsys):
    checked = result(capsys, "verify", "study.sqlite")
    assert checked["intact"] is True
    assert checked["charges"] == 3
    assert checked["within_limit"] is True


def test_the_statement_of_a_ledger_is_printed(study, capsys):
    expected = PrivacyAccountant(path="study.sqlite").statement()
    assert result(capsys, "statement", "study.sqlite")["statement"] == expected


def test_verify_checks_an_earlier_anchor(study, capsys):
    anchor = result(capsys, "show", "study.sqlite")["anchor"]
    assert anchor.startswith("3:")
    assert run("show", "study.sqlite") == DONE
    assert f"anchor:     {anchor}\n" in capsys.readouterr().out
    study.charge(MECHANISM)
    assert result(capsys, "verify", "study.sqlite", "--expect", anchor)["charges"] == 4
    broken = f"{anchor[:30]}\n{anchor[30:]}"
    assert result(capsys, "verify", "study.sqlite", "--expect", broken)["charges"] == 4
    page = Path(study.report("study.html")).read_text(encoding="utf-8")
    assert f"--expect {study.anchor()}" in page
    for wrong in (f"5{anchor[1:]}", f"2{anchor[1:]}", f"0{anchor[1:]}", f"3:{'0' * 64}"):
        line = complaint(capsys, DAMAGED, "verify", "study.sqlite", "--expect", wrong)
        assert "expected" in line
    for wrong in ("3", "3:", anchor[1:], f"-{anchor}", f"{anchor}0"):
        complaint(capsys, USAGE, "verify", "study.sqlite", f"--expect={wrong}")


def test_a_limit_that_is_used_up_is_not_exceeded(folder, capsys):
    run("create", "a.sqlite", "--epsilon", "0.3", "--order", "4", "--fixed-plan")
    for _ in range(3):
        PrivacyAccountant(path="a.sqlite").charge(RenyiDP(4.0, 0.1))
    assert run("verify", "a.sqlite") == DONE


def test_verify_finds_missing_charges(study, capsys):
    whole = Path("study.sqlite").read_bytes()
    Path("study.sqlite").write_bytes(whole[: len(whole) // 2])
    complaint(capsys, DAMAGED, "verify", "study.sqlite")


ACTIONS = ("show", "total", "verify", "export", "report")


@pytest.mark.parametrize("action", ACTIONS)
def test_no_command_creates_a_ledger_that_does_not_exist(action, folder, capsys):
    assert "there is no ledger" in complaint(capsys, DAMAGED, action, "none.sqlite")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_something_else_than_a_ledger_is_refused_and_left_alone(action, folder, capsys):
    Path("notes.txt").write_text("not a ledger, but long enough to be one, " * 10)
    before = Path("notes.txt").read_bytes()
    complaint(capsys, DAMAGED, action, "notes.txt")
    complaint(capsys, DAMAGED, action, ".")
    assert Path("notes.txt").read_bytes() == before


@pytest.mark.parametrize("action", [*ACTIONS, "create"])
def test_a_server_out_of_reach_is_one_line_without_the_password(action, folder, capsys):
    capsys.readouterr()
    code = run(action, ADDRESS)
    captured = capsys.readouterr()
    assert code in (REFUSED, DAMAGED)
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "s3kret" not in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["total", "x.sqlite", "--delta", ADDRESS],
        ["show", ADDRESS, "--last", ADDRESS],
        ["export", ADDRESS, "--format", ADDRESS],
        ["show", "a", ADDRESS],
    ],
)
def test_usage_errors_show_no_password(arguments, folder, capsys):
    assert "s3kret" not in complaint(capsys, USAGE, *arguments)


@pytest.mark.parametrize("action", ["show", "create"])
@pytest.mark.parametrize(
    "address",
    [
        " postgresql://ana:s3kret@h/d",
        "postgres:/ana:s3kret@h/d",
        "ana:s3kret@h/d",
        "postgresql://ana@h/d?sslpassword=s3kret",
        "postgresql://ana@h/d?PASSWORD=s3kret",
        "postgresql://ana@h/d?pass%77ord=%73%33kret&x=1",
        "host=h password=s3kret",
        "postgresql://ana%3As3kret@h/d",
    ],
)
def test_no_address_shows_its_password_or_creates_a_file(action, address, study, folder, capsys):
    before = {path.name for path in folder.iterdir()}
    for line in (
        complaint(capsys, DAMAGED, action, address),
        complaint(capsys, USAGE, action, "study.sqlite", address),
        complaint(capsys, USAGE, action, "study.sqlite", f"--unknown={address}"),
        complaint(capsys, REFUSED, "report", "study.sqlite", "-o", address),
        complaint(capsys, DAMAGED, "merge", "study.sqlite", address),
        complaint(capsys, DAMAGED, "merge", "study.sqlite", f"{address}.json"),
    ):
        assert "s3kret" not in line
    assert {path.name for path in folder.iterdir()} == before


def test_a_name_is_for_databases(study, capsys):
    complaint(capsys, USAGE, "show", "study.sqlite", "--name", "Survey")


# Writing


def test_an_export_is_read_back_and_merges_once(study, folder, capsys):
    assert run("export", "study.sqlite", "--output", "study.json") == DONE
    again = PrivacyAccountant.from_export("study.json")
    assert again.total() == study.total()
    run("create", "all.sqlite", "--fixed-plan")
    assert result(capsys, "merge", "all.sqlite", "study.json")["new"] == 3
    assert result(capsys, "merge", "all.sqlite", "study.json", "study.sqlite")["new"] == 0
    assert result(capsys, "total", "all.sqlite")["total"] == study.total()


def test_an_export_to_the_terminal_is_json_or_csv(study, capsysbinary):
    assert run("export", "study.sqlite") == DONE
    content = json.loads(capsysbinary.readouterr().out)
    assert len(content["charges"]) == 3
    assert run("export", "study.sqlite", "--format", "csv") == DONE
    rows = list(csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode("utf-8"))))
    assert [row["label"] for row in rows][:2] == ["income", "income"]


def test_a_dash_is_the_terminal_and_json_unless_a_format_is_given(study, capsysbinary):
    assert run("export", "study.sqlite", "-o", "-") == DONE
    assert json.loads(capsysbinary.readouterr().out)["format"] == "skdirdp ledger"


def test_the_format_of_an_export_follows_the_name_of_the_file(study, capsys):
    assert run("export", "study.sqlite", "-o", "study.csv") == DONE
    assert Path("study.csv").read_text(encoding="utf-8").startswith("number,time,user,label")
    assert "--format is needed" in complaint(capsys, USAGE, "export", "study.sqlite", "-o", "x.txt")
    assert run("export", "study.sqlite", "-o", "x.txt", "--format", "json") == DONE


@pytest.mark.parametrize("action", ["export", "report"])
def test_an_output_error_is_one_line(action, study, capsys):
    assert "No such file" in complaint(capsys, REFUSED, action, "study.sqlite", "-o", "no/x.json")


@pytest.mark.parametrize("action", [["export", "--format", "json"], ["report"]])
@pytest.mark.parametrize(
    "output", ["study.sqlite", "study.sqlite.lock", "study.sqlite-journal", "study.sqlite-wal"]
)
def test_no_output_replaces_a_ledger_or_a_file_of_it(action, output, study, folder, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    line = complaint(capsys, REFUSED, *action, "study.sqlite", "-o", output)
    assert "would overwrite a" in line
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert study.verify() == 3


@pytest.mark.parametrize("name", ["link", "hard link", "copy"])
def test_a_ledger_is_recognised_by_its_content(name, study, folder, capsys):
    if name == "link":
        os.symlink("study.sqlite", name)
    elif name == "copy":
        shutil.copy("study.sqlite", name)
    else:
        PrivacyAccountant(path="other.sqlite").charge(MECHANISM)
        os.link("other.sqlite", name)
    before = Path(name).read_bytes()
    assert "would overwrite a ledger" in complaint(
        capsys, REFUSED, "export", "study.sqlite", "--format", "csv", "-o", name
    )
    assert Path(name).read_bytes() == before


def test_the_memory_of_a_ledger_that_is_gone_is_not_replaced(study, capsys):
    shutil.copy("study.sqlite", "safe")
    shutil.copy("study.sqlite.lock", "kept")
    os.unlink("study.sqlite")
    for output in ("study.sqlite", "study.sqlite.lock", "study.sqlite-journal", "kept"):
        line = complaint(capsys, REFUSED, "report", "safe", "-o", output)
        assert "would overwrite a" in line


def test_files_that_only_end_like_those_of_a_ledger_are_written(study, capsys):
    for output in ("poetry.lock", "some-journal", "study.lock"):
        assert run("report", "study.sqlite", "-o", output) == DONE


def test_report_writes_a_page_that_loads_nothing(study, capsys):
    written = result(capsys, "report", "study.sqlite")
    page = Path(written["file"]).read_text(encoding="utf-8")
    assert Path(written["file"]).name == "study.html"
    assert_loads_nothing(page)
    assert "Survey" in page
    assert "exists already" in complaint(capsys, REFUSED, "report", "study.sqlite")
    assert run("report", "study.sqlite", "--output", "study.html") == DONE


def test_merging_beyond_the_limit_is_recorded_and_reported(folder, capsys):
    for name in ("a", "b"):
        run("create", f"{name}.sqlite", "--epsilon", "1", "--fixed-plan")
        PrivacyAccountant(path=f"{name}.sqlite").charge(PureDP(0.7))
    capsys.readouterr()
    assert run("merge", "a.sqlite", "b.sqlite") == REFUSED
    assert "The limit is exceeded" in capsys.readouterr().out
    assert len(PrivacyAccountant(path="a.sqlite")) == 2
    assert run("verify", "a.sqlite") == REFUSED
    assert run("verify", "b.sqlite") == DONE


def test_merging_incompatible_ledgers_is_refused(study, capsys):
    run("create", "b.sqlite", "--unit", "visit")
    PrivacyAccountant(path="b.sqlite").charge(PureDP(0.1, "replace_person"))
    captured = complaint(capsys, REFUSED, "merge", "study.sqlite", "b.sqlite")
    assert "unit must be the same" in captured
    Path("c.json").write_text("{}")
    assert "not a ledger export" in complaint(capsys, DAMAGED, "merge", "study.sqlite", "c.json")
    complaint(capsys, DAMAGED, "merge", "study.sqlite", "none.sqlite")
    assert len(study) == 3


# The command as a whole


def test_help_and_version_are_no_errors(capsys):
    for arguments in (["--help"], ["--version"], ["ledger", "--help"], ["ledger", "show", "-h"]):
        assert main(arguments) == DONE
    out = capsys.readouterr().out
    assert f"skdirdp {skdirdp.__version__}" in out
    for action in ("create", *ACTIONS, "merge"):
        assert f"\n    {action} " in out
    assert "exit codes" in out


@pytest.mark.parametrize("arguments", [["ledger"], ["nothing"], ["ledger", "nothing"], ["--what"]])
def test_a_wrong_command_is_one_line(arguments, capsys):
    assert main(arguments) == USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_the_bare_command_is_the_demonstration(monkeypatch, capsys):
    import skdirdp.command

    monkeypatch.setattr(skdirdp.command, "demonstrate", lambda: print("demonstrated") or DONE)
    assert main([]) == DONE
    assert capsys.readouterr().out == "demonstrated\n"


def process(*arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    command = [sys.executable, "-m", "skdirdp", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, check=False, **more)


def test_the_module_runs_the_command(study, folder):
    good = process("ledger", "total", "study.sqlite")
    assert good.returncode == DONE
    assert "ε = ".encode() in good.stdout
    bad = process("ledger", "total", "none.sqlite")
    assert bad.returncode == DAMAGED
    assert bad.stdout == b""
    assert bad.stderr.count(b"\n") == 1


def test_ascii_terminals_and_closed_pipes_are_no_errors(study, folder):
    captured = process("ledger", "show", "study.sqlite", env={"PYTHONIOENCODING": "ascii"})
    assert captured.returncode == DONE
    assert rb"\u03b5 = 3" in captured.stdout
    module = f"{sys.executable} -m skdirdp"
    line = f"{module} ledger show study.sqlite --json | head -c 5; exit ${{PIPESTATUS[0]}}"
    left = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (left.returncode, left.stderr) == (DONE, b"")


def test_streams_that_are_closed_are_no_errors(study, folder):
    module = f"{sys.executable} -m skdirdp"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = (
        f"{module} ledger show study.sqlite >&-; echo $?; {module} ledger show none 2>&-; echo $?"
    )
    found = subprocess.run(["bash", "-c", line], capture_output=True, env=environment, check=False)
    assert (found.stdout, found.stderr) == (f"{DONE}\n{DAMAGED}\n".encode(), b"")
    assert PrivacyAccountant(path="study.sqlite").verify() == 3


def test_an_argument_with_a_null_character_is_named_as_such(study, capsys):
    for arguments in (["show", "a\0b"], ["report", "study.sqlite", "-o", "a\0.html"]):
        assert "null character" in complaint(capsys, USAGE, *arguments)


def test_the_console_script_is_the_command():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.scripts]\nskdirdp = "skdirdp.command:main"\n' in text


# Tables


def test_texts_are_cut_to_the_width_of_the_terminal():
    assert truncate("abcdef", 6) == "abcdef"
    assert truncate("abcdef", 4) == "abc…"
    assert display_width(truncate("名前名前", 4)) <= 4
    assert display_width("e\u0301") == 1


def test_less_important_columns_are_dropped_first():
    columns = [Column("number", 0, 2), Column("label", 8, 1), Column("rest", 12, 0)]
    rows = [[1, "x" * 30, "y" * 30]]
    header, *_ = format_table(columns, rows, 80).splitlines()
    assert header.split() == ["number", "label", "rest"]
    narrow = [Column("number", 0, 2), Column("label", 20, 1), Column("rest", 20, 0)]
    assert "rest" not in format_table(narrow, rows, 40)


def test_a_paragraph_is_wrapped():
    assert wrap(["one two three", "four"], 7) == "one two\nthree\nfour"
