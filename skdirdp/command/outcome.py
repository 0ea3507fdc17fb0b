"""How a command ends, and what it may say of it."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

from ..reporting.redact import is_url, looks_like_address, without_password
from ..reporting.statements import visible

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3
STOPPED = 130  # by the user, as shells count it

_PASSWORD = re.compile(r"^\W*(?:[\w+.-]+:/+)?[^:@/]*[:/](?!/)(.+)@")
_PARAMETER = re.compile(r"(?i)(?:pass\w*|pwd)\s*=\s*('[^']*'|[^&\s]*)")


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
    message = " ".join(message.split())
    for address in filter(None, map(_address, given)):
        passwords = _passwords(address)
        if passwords or not is_url(address):  # where one ends is not always clear
            message = message.replace(address, "***")
        for password in passwords:
            # A short one would tear words apart, and says little by itself.
            if len(password) >= 4:
                message = message.replace(password, "***")
    return visible(without_password(message))


def _address(argument: str) -> str:
    """The address of a database in an argument, which may be that of an option; else nothing."""
    option, equals, value = argument.partition("=")
    text = " ".join((value if option.startswith("-") and equals else argument).split())
    return text if looks_like_address(text) else ""


def _passwords(address: str) -> set[str]:
    """Candidates for the password of an address, as written and as decoded."""
    texts = (address, unquote(address))
    found = {match for text in texts for match in _PASSWORD.findall(text)}
    found |= {match.strip("'") for text in texts for match in _PARAMETER.findall(text)}
    return {text for match in found for text in (match, unquote(match)) if text}
