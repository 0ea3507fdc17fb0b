"""Run the tasks of an experiment, store finished ones, and write the results."""

import hashlib
import inspect
import json
import os
import platform
import sys
import time
import warnings
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from skdirdp import PrivacyLeakWarning

from . import figures
from .ages import measured_code
from .experiment import Experiment, Row, Settings

_ROOT = Path(__file__).resolve().parent.parent
_VERSIONS = ("numpy", "scipy", "scikit-learn", "pgmpy", "dp-accounting", "cryptography", "pandas")


def run(experiment: Experiment, settings: Settings, out: Path, jobs: int = 1) -> pd.DataFrame:
    """Run unfinished tasks, and write results, figure, table and machine information.

    An interrupted run leaves a journal of finished tasks; the next one resumes from it if
    the code, the settings and the tasks are still the same.
    """
    out.mkdir(parents=True, exist_ok=True)
    code = measured_code(source(experiment))  # the modules may be edited during a long run
    journal = _Journal(out / f".{experiment.name}.journal", _fingerprint(settings))
    tasks = experiment.tasks(settings)
    waiting = [task for task in tasks if _key(task) not in journal.rows]
    start = time.perf_counter()
    done = len(tasks) - len(waiting)
    if done:
        tqdm.write(f"{experiment.name}: {done} of {len(tasks)} tasks were done before")
    # A log file needs a line now and then, a terminal a bar that moves.
    pace = 0.1 if sys.stderr.isatty() else 15
    with tqdm(
        total=len(tasks), initial=done, desc=experiment.name, unit="task", mininterval=pace
    ) as bar:
        for task, rows in _measured(experiment, waiting, settings, jobs):
            journal.add(task, rows)
            bar.update()
    seconds = journal.seconds + time.perf_counter() - start
    results = pd.DataFrame([row for task in tasks for row in journal.rows[_key(task)]])
    results.to_csv(out / f"{experiment.name}.csv", index=False, float_format="%.8g")
    circumstances = _circumstances(settings, seconds, jobs if experiment.parallel else 1)
    circumstances |= {"measured": date.today().isoformat(), "code": code}
    (out / f"{experiment.name}.json").write_text(json.dumps(circumstances, indent=1) + "\n")
    journal.close()
    present(experiment, out)
    return results


def source(experiment: Experiment) -> Path:
    """The module that defines an experiment."""
    return Path(inspect.getfile(type(experiment)))


def present(experiment: Experiment, out: Path, draw: bool = True) -> pd.DataFrame:
    """Draw the figure and write the table of results that are there."""
    results = pd.read_csv(out / f"{experiment.name}.csv")
    if draw:
        figures.save(experiment.figure(results), out, experiment.name)
    text = figures.markdown(experiment.table(results))
    remarks = experiment.remarks(results)
    (out / f"{experiment.name}.md").write_text(text + (f"\n{remarks.strip()}\n" if remarks else ""))
    return results


def _measured(experiment: Experiment, tasks: list[Row], settings: Settings, jobs: int):
    if jobs == 1 or not experiment.parallel:
        for task in tasks:
            yield _measure(experiment, task, settings)
        return
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from parallel(delayed(_measure)(experiment, task, settings) for task in tasks)


def _measure(experiment: Experiment, task: Row, settings: Settings) -> tuple[Row, list[Row]]:
    with warnings.catch_warnings():
        # Noise is seeded on purpose: an experiment must be repeatable, and its data are public.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return task, [{**task, **row} for row in experiment.measure(task, settings)]


def _key(task: Row) -> str:
    return json.dumps(task, sort_keys=True)


class _Journal:
    """Journal of finished tasks, one line each."""

    def __init__(self, path: Path, fingerprint: str):
        self.path = path
        self.rows: dict[str, list[Row]] = {}
        self.seconds = 0.0
        self._start = time.perf_counter()
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and lines[0] == fingerprint:
            for line in lines[1:]:
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:  # cut off in the middle of a line
                    break
                self.rows[_key(entry["task"])] = entry["rows"]
                self.seconds = entry["seconds"]
        else:
            path.write_text(fingerprint + "\n")

    def add(self, task: Row, rows: list[Row]) -> None:
        self.rows[_key(task)] = rows
        seconds = self.seconds + time.perf_counter() - self._start
        line = json.dumps({"task": task, "rows": rows, "seconds": seconds}, default=_plain)
        with open(self.path, "a") as file:
            file.write(line + "\n")

    def close(self) -> None:
        self.path.unlink()


def _plain(value):
    """A numpy number as one that JSON knows."""
    return value.item()


def _fingerprint(settings: Settings) -> str:
    """Changes whenever results could: with the code, the libraries and the settings."""
    digest = hashlib.sha256(repr(settings).encode())
    digest.update(repr([version(name) for name in _VERSIONS]).encode())
    for folder in ("skdirdp", "benchmarks"):
        for kind in ("*.py", "*.toml"):
            for path in sorted((_ROOT / folder).rglob(kind)):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _circumstances(settings: Settings, seconds: float, jobs: int) -> dict:
    return {
        "quick": settings.quick,
        "seconds": round(seconds, 1),
        "jobs": jobs,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor": _processor(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _VERSIONS},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
