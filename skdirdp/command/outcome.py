"""How a command ends, and what it may say of it."""

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from ..reporting.places import is_url, without_password
from ..reporting.text import visible

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3
STOPPED = 130  # by the user, as shells count it


class Refused(Exception):
    """A command that ends with a line for the user.

    Parameters
    ----------
    message : str
        The line.
    code : int, default=1
        The exit code.
    """

    def __init__(self, message: str, code: int = REFUSED):
        super().__init__(message)
        self.code = code


def one_line(message: str, given: Sequence[str]) -> str:
    """A message in one line, without any password that was on the command line."""
    message = without_password(" ".join(message.split()))
    for argument in given:
        for password in _passwords(argument):
            message = message.replace(password, "***")
    return visible(message)


def _passwords(argument: str) -> set[str]:
    """The password of an address, as it was written and as it is meant."""
    if not is_url(argument):
        return set()
    try:
        password = urlsplit(argument).password or ""
    except ValueError:
        password = ""
    # A short one would tear words apart, and says little by itself.
    return {text for text in (password, unquote(password)) if len(text) >= 4}
