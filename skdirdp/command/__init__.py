"""The command ``skdirdp``.

Each command is a module with `add_to`, which adds it to the argument parser. Every error is
reported as one line on the error stream and an exit code.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .. import __version__
from ..accountant import LedgerError
from . import audit, crosstab, ledger, schema, synthesize, terminal
from .terminal import EXIT_DAMAGED, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, CommandError

__all__ = ["main"]

_EPILOG = f"""\
Without a command, a demonstration on real data runs.

exit codes:
  {EXIT_OK}  done
  {EXIT_ERROR}  refused: the request is not possible, or the limit is exceeded
  {EXIT_USAGE}  the command line is wrong
  {EXIT_DAMAGED}  the ledger cannot be used: missing, unreachable, damaged, or not a ledger
"""
_EPSILONS = (0.3, 1.0, 3.0, 10.0)
_REPEATS = 10


class _Parser(argparse.ArgumentParser):
    """Parser whose errors have one line. It may quote a password, which `main` removes."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help", EXIT_USAGE)


def _parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="skdirdp",
        description="Differentially private estimators, and ledgers of privacy budgets.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"skdirdp {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    ledger.add_to(commands)
    schema.add_to(commands)
    synthesize.add_to(commands)
    crosstab.add_to(commands)
    audit.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, by default with the arguments of the process; return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    if not given:
        return _run(demonstrate, [])
    if any("\0" in argument for argument in given):
        return _print_error("an argument must not contain a null character", EXIT_USAGE, given)
    try:
        options = _parser().parse_args(given)
    except SystemExit as end:  # raised after the help
        return int(end.code or 0)
    except CommandError as error:
        return _print_error(str(error), error.code, given)
    run = getattr(options, "run", None)
    if run is None:
        return _print_error("a command is missing; skdirdp --help lists them", EXIT_USAGE, given)
    return _run(lambda: run(options), given)


def _open_streams() -> None:
    """Open closed streams, and replace characters that a terminal cannot show."""
    # A stream that is closed, as by ``>&-`` in a shell, is opened to discard its output. It takes
    # the lowest free file number, which is its own, so that no ledger gets that number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run(command: Callable[[], int], given: Sequence[str]) -> int:
    """Run a command, and turn every error into a line and an exit code."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except CommandError as error:
        return _print_error(str(error), error.code, given)
    except LedgerError as error:
        return _print_error(str(error), EXIT_DAMAGED, given)
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{place}{error.strerror or error}", EXIT_ERROR, given)
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        return _print_error(str(error) or type(error).__name__, EXIT_ERROR, given)


def _print_error(message: str, code: int, given: Sequence[str]) -> int:
    print(f"skdirdp: {terminal.redact_message(message, given)}", file=sys.stderr)
    return code


def demonstrate() -> int:
    """Compare models with and without privacy on data that scikit-learn ships."""
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import CategoricalNB, MultinomialNB

    from .. import DirichletCategoricalNB, DirichletNB

    print("Handwritten digits: 1797 images of 8 x 8 pixels, 10 classes; a quarter is held out.")
    print(f"Mean accuracy of {_REPEATS} private models each, and the cost of one of them.")
    print("A smaller budget is more private; dirichlet and auto are kinds of noise.")
    X, y = load_digits(return_X_y=True)
    private = DirichletNB(max_count=16, max_total=400, classes=range(10))
    _compare(X, y, MultinomialNB(), private)
    levels = DirichletCategoricalNB(n_categories=5, classes=range(10))
    _compare(X.astype(int) // 4, y, CategoricalNB(min_categories=5), levels)
    print("\nNext: docs/quickstart.md")
    return EXIT_OK


def _compare(X: Any, y: Any, plain: Any, private: Any) -> None:
    """Print the accuracy on held-out records, without privacy and at several budgets."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from .. import PrivacyAccountant

    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    accuracy = plain.fit(X_train, y_train).score(X_test, y_test)
    print(f"\n{type(plain).__name__}, not private: accuracy {accuracy:.3f}")
    print(f"{type(private).__name__}:")
    print(f"{'budget':>20} {'dirichlet':>16} {'auto':>16} {'charged':>12} {'seconds':>8}")
    for epsilon in _EPSILONS:
        started = time.perf_counter()
        private.set_params(epsilon=epsilon)
        line = f"{f'({epsilon:g}, {private.delta:g})-DP':>20}"
        for mechanism in ("dirichlet", "auto"):
            private.set_params(mechanism=mechanism)
            scores = [private.fit(X_train, y_train).score(X_test, y_test) for _ in range(_REPEATS)]
            line += f" {f'{np.mean(scores):.3f} ± {np.std(scores):.3f}':>16}"
        # A user would publish one model, so one fit is charged.
        accountant = PrivacyAccountant(delta=private.delta)
        private.set_params(accountant=accountant).fit(X_train, y_train)
        private.set_params(accountant=None)
        charged = np.ceil(1e4 * accountant.total()) / 1e4  # rounded up
        print(f"{line} {charged:>12.4f} {time.perf_counter() - started:>8.1f}", flush=True)
