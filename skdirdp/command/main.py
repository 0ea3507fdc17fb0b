"""The command line: which commands there are, and how each ends.

A command is a module with `add_to`, which describes it to argparse and says what runs it.
Whatever goes wrong is one line on the error stream and an exit code.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from .. import __version__
from . import ledger, schema, synthesize
from .outcome import DAMAGED, DONE, REFUSED, STOPPED, USAGE, Refused, one_line

_EPILOG = f"""\
Without a command, a demonstration on real data runs.

exit codes:
  {DONE}  done
  {REFUSED}  refused: what was asked for is not possible, or the limit is exceeded
  {USAGE}  the command line is wrong
  {DAMAGED}  the ledger cannot be used: missing, out of reach, damaged, or something else
"""


class _Parser(argparse.ArgumentParser):
    """Raises an error of one line, which may quote a password; `main` takes it out."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; {self.prog} --help says more", USAGE)


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = _Parser(
        prog="skdirdp",
        description="Differentially private estimators, and the ledgers of what they spend.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"skdirdp {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    ledger.add_to(commands)
    schema.add_to(commands)
    synthesize.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and give its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Those of the command line, if None.

    Returns
    -------
    int
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape, not an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not given:
        return _ending(_demonstrate, [])
    if any("\0" in argument for argument in given):
        return _complain("an argument must not hold a null character", USAGE, given)
    try:
        options = parser().parse_args(given)
    except SystemExit as end:  # after help
        return int(end.code or 0)
    except Refused as refusal:
        return _complain(str(refusal), refusal.code, given)
    run = getattr(options, "run", None)
    if run is None:
        return _complain("a command is missing; skdirdp --help lists them", USAGE, given)
    return _ending(lambda: run(options), given)


def _open_streams() -> None:
    """Discard the output to streams that are closed, as by ``>&-`` in a shell.

    They take the lowest free number of a file, which is their own, so that no ledger gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _demonstrate() -> int:
    from .demonstration import demonstrate

    demonstrate()
    return DONE


def _ending(run: Callable[[], int], given: Sequence[str]) -> int:
    from ..accountant import LedgerError

    try:
        code = run()
        sys.stdout.flush()
        return code
    except Refused as refusal:
        return _complain(str(refusal), refusal.code, given)
    except LedgerError as error:
        return _complain(str(error), DAMAGED, given)
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return STOPPED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror or error}", REFUSED, given)
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        return _complain(str(error) or type(error).__name__, REFUSED, given)


def _complain(message: str, code: int, given: Sequence[str]) -> int:
    print(f"skdirdp: {one_line(message, given)}", file=sys.stderr)
    return code
