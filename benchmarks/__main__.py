"""``python -m benchmarks list`` and ``python -m benchmarks run NAME…``."""

import argparse
import os
import sys
from fnmatch import fnmatch
from pathlib import Path

from .data import default_folder
from .experiment import Settings
from .experiments import EXPERIMENTS, load
from .report import write_report
from .runner import run

RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the experiments with their descriptions")

    running = commands.add_parser("run", help="run experiments")
    running.add_argument("names", nargs="+", metavar="NAME", help="or a pattern, or all")
    running.add_argument("--quick", action="store_true", help="a small version, under a minute")
    running.add_argument("--data", type=Path, help="folder of the papers' data sets")
    running.add_argument("--out", type=Path, help=f"default: {RESULTS.parent.name}/{RESULTS.name}")
    running.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: all cores")

    reporting = commands.add_parser("report", help="write RESULTS.md next to the folder of results")
    reporting.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    return top


def chosen(patterns: list[str]) -> list[str]:
    """The experiments that the patterns name, in the order of the list."""
    for pattern in patterns:
        if pattern != "all" and not any(fnmatch(name, pattern) for name in EXPERIMENTS):
            known = ", ".join(EXPERIMENTS)
            raise SystemExit(f"no experiment is called {pattern!r}; there are {known}")
    return [
        name
        for name in EXPERIMENTS
        if any(pattern == "all" or fnmatch(name, pattern) for pattern in patterns)
    ]


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    if given.command == "list":
        for name in EXPERIMENTS:
            experiment = load(name)
            print(f"{name:22} {experiment.title}\n{'':22} {experiment.reproduces}")
    elif given.command == "run":
        settings = Settings(given.quick, given.data or default_folder())
        out = given.out or (RESULTS / "quick" if given.quick else RESULTS)
        for name in chosen(given.names):
            run(load(name), settings, out, given.jobs)
            print((out / f"{name}.md").read_text(), flush=True)
        print(f"written to {out}")
    else:
        print(f"written to {write_report(given.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
