"""Lint, formatting, types, documentation and tests, in that order: ``python -m tests``."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

DOCS = ("docs", "docs/_build/html")
STEPS = (
    ("lint", ["-m", "ruff", "check", "."]),
    ("formatting", ["-m", "ruff", "format", "--check", "."]),
    ("types", ["-m", "mypy"]),
    ("documentation", ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *DOCS]),
    ("tests", ["-m", "pytest", "-n", "2", "-m", "slow or not slow", *sys.argv[1:]]),
)


def main() -> int:
    for number, (name, arguments) in enumerate(STEPS, 1):
        print(f"[{number}/{len(STEPS)}] {name}", flush=True)
        status = subprocess.call([sys.executable, *arguments], cwd=ROOT)
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
