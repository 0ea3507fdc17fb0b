"""Command that runs experiments: lists, output files, resumption after a crash."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import figures, report, runner
from benchmarks.__main__ import chosen, main
from benchmarks.experiment import Claim, Experiment, Settings
from benchmarks.experiments import EXPERIMENTS, load

ROOT = Path(__file__).parents[2]


class Squares(Experiment):
    name = "squares"
    title = "Squares"
    reproduces = "arithmetic"

    def __init__(self):
        self.fails_at = None
        self.measured = []

    def tasks(self, settings):
        return [{"x": x} for x in range(5)]

    def measure(self, task, settings):
        if task["x"] == self.fails_at:
            raise KeyboardInterrupt
        self.measured.append(task["x"])
        return [{"square": task["x"] ** 2}]

    def figure(self, results):
        figure, (axis,) = figures.panels(1)
        axis.plot(results["x"], results["square"])
        return figure

    def table(self, results):
        return results.set_index("x")

    def claims(self, results):
        return [Claim("arithmetic", "4² = 16", bool((results["square"] == 16).any()), "16")]


@pytest.fixture
def squares():
    return Squares()


def test_every_experiment_has_a_description(capsys):
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    for name in EXPERIMENTS:
        assert load(name).name == name
        assert f"{name} " in listed
        assert load(name).reproduces in listed


def test_patterns_choose_in_the_order_of_the_list():
    named = [f"naive-bayes{kind}" for kind in ("", "-fresh", "-further", "-unseen")]
    assert chosen(["naive-bayes*"]) == named
    assert chosen(["all"]) == list(EXPERIMENTS)
    with pytest.raises(SystemExit, match="no experiment is called 'nothing'"):
        chosen(["nothing"])


def test_an_interrupted_run_is_resumed(squares, tmp_path):
    squares.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        runner.run(squares, Settings(), tmp_path)
    assert not (tmp_path / "squares.csv").exists()
    squares.fails_at = None
    results = runner.run(squares, Settings(), tmp_path)
    assert squares.measured == [0, 1, 2, 3, 4]
    assert results["square"].tolist() == [0, 1, 4, 9, 16]


def test_results_of_other_settings_are_not_reused(squares, tmp_path):
    squares.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        runner.run(squares, Settings(quick=True), tmp_path)
    squares.fails_at = None
    runner.run(squares, Settings(), tmp_path)
    assert squares.measured == [0, 1, 2, 0, 1, 2, 3, 4]


def test_an_incomplete_line_is_measured_again(squares, tmp_path):
    squares.fails_at = 3
    with pytest.raises(KeyboardInterrupt):
        runner.run(squares, Settings(), tmp_path)
    journal = tmp_path / ".squares.journal"
    journal.write_text(journal.read_text()[:-9])
    squares.fails_at = None
    results = runner.run(squares, Settings(), tmp_path)
    assert squares.measured == [0, 1, 2, 2, 3, 4]
    assert results["square"].tolist() == [0, 1, 4, 9, 16]


def test_a_killed_process_loses_no_finished_task(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "run", "naive-bayes-fresh", "--quick"]
    command += ["--out", str(tmp_path), "--jobs", "1"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    journal = tmp_path / ".naive-bayes-fresh.journal"
    while process.poll() is None and not (journal.exists() and journal.read_text().count("\n") > 1):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = journal.read_text().count("\n") - 1
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{done} of 4 tasks were done before" in again.stdout + again.stderr
    results = pd.read_csv(tmp_path / "naive-bayes-fresh.csv")
    assert results.groupby(["guarantee", "epsilon"]).ngroups == 4


def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    tables = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        assert main(["run", "naive-bayes-fresh", "--quick", "--out", str(out), "--jobs", jobs]) == 0
        tables.append((out / "naive-bayes-fresh.csv").read_text())
    assert tables[0] == tables[1]


def test_the_report_shows_figures_tables_and_verdicts(squares, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "EXPERIMENTS", {"squares": None})
    monkeypatch.setattr(report, "load", lambda name: squares)
    results = tmp_path / "results"
    runner.run(squares, Settings(), results)
    text = report.write_report(results).read_text()
    assert "| arithmetic | 4² = 16 | confirmed | 16 |" in text
    assert "](results/squares.png)" in text
    assert "| 4 | 16 |" in text
    today = date.today().isoformat()
    assert f"Measured on {today}; changed in skdirdp since: nothing." in text
    assert f"| {today} | nothing | `squares` |" in text


def test_the_committed_report_matches_its_results(tmp_path):
    """The report is generated, not edited."""
    committed = ROOT / "benchmarks" / "results"
    (tmp_path / "results").mkdir()
    for path in committed.glob("*"):
        if path.suffix in (".csv", ".json"):
            (tmp_path / "results" / path.name).write_bytes(path.read_bytes())
    written = report.write_report(tmp_path / "results", draw=False).read_text()
    report_text = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    assert without_changes(written) == without_changes(report_text)


def without_changes(text):
    """The report without changes of the code, which go on after it was written."""
    text = re.sub(r"(?<=changed in skdirdp since: ).*", "", text)
    return re.sub(r"## Age of the results\n.*?(?=\n## )", "", text, flags=re.DOTALL)
