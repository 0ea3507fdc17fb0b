"""Output to a terminal: exit codes, messages without passwords, and tables that fit."""

import re
import shutil
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ..reporting.redact import is_url, looks_like_address, without_password
from ..reporting.statements import visible

DONE, REFUSED, USAGE, DAMAGED = 0, 1, 2, 3
STOPPED = 130  # by the user, as in shells

_PASSWORD = re.compile(r"^\W*(?:[\w+.-]+:/+)?[^:@/]*[:/](?!/)(.+)@")
_PARAMETER = re.compile(r"(?i)(?:pass\w*|pwd)\s*=\s*('[^']*'|[^&\s]*)")
_GAP = 2
_NARROW = 40  # below this width, each cell has its own line


class Refused(Exception):
    """Error that ends a command with a message of one line and an exit code."""

    def __init__(self, message: str, code: int = REFUSED):
        super().__init__(message)
        self.code = code


def one_line(message: str, given: Sequence[str]) -> str:
    """Return a message in one line, without any password of the given command line."""
    message = " ".join(message.split())
    for address in filter(None, map(_address, given)):
        passwords = _passwords(address)
        if passwords or not is_url(address):  # the end of a password is not always clear
            message = message.replace(address, "***")
        for password in passwords:
            # Replacing a shorter one would cut words, and it reveals little.
            if len(password) >= 4:
                message = message.replace(password, "***")
    return visible(without_password(message))


def _address(argument: str) -> str:
    """Return the address of a database in an argument or an option, or an empty text."""
    option, equals, value = argument.partition("=")
    text = " ".join((value if option.startswith("-") and equals else argument).split())
    return text if looks_like_address(text) else ""


def _passwords(address: str) -> set[str]:
    """Return candidates for the password of an address, as written and decoded."""
    texts = (address, unquote(address))
    found = {match for text in texts for match in _PASSWORD.findall(text)}
    found |= {match.strip("'") for text in texts for match in _PARAMETER.findall(text)}
    return {text for match in found for text in (match, unquote(match)) if text}


class Column(NamedTuple):
    """Column of a table."""

    name: str
    least: int  # minimum width; 0 if it is never cut
    priority: int = 0  # smaller priorities are left out first
    right: bool = False  # aligned to the right


def terminal_width() -> int:
    """Return the width of the terminal: $COLUMNS if set, and 80 without a terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def width_of(text: str) -> int:
    """Return the width of a text in a terminal; some characters take two cells, some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """Shorten a text to a width, with an ellipsis if something is left out."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> str:
    """Format rows as lines of at most the given width."""
    # Empty columns are left out. Texts are cut; if that is not enough, columns are left out.
    cells = [[visible(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    if width < _NARROW:
        blocks = [
            "\n".join(cut(f"{columns[i].name}: {row[i]}", width) for i in kept if row[i])
            for row in cells
        ]
        return "\n\n".join(blocks)
    widths = _fit(columns, cells, kept, width)
    lines = [[columns[i].name for i in widths], ["-" * size for size in widths.values()]]
    lines += [[row[i] for i in widths] for row in cells]
    return "\n".join(_line(line, columns, widths) for line in lines)


def _fit(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> dict[int, int]:
    """Choose the columns that fit, and the width of each."""
    full = {
        i: max(width_of(text) for text in [columns[i].name, *(r[i] for r in cells)]) for i in kept
    }
    widths = {i: min(full[i], columns[i].least or full[i]) for i in kept}
    while len(widths) > 1 and _total(widths) > width:
        del widths[min(widths, key=lambda i: columns[i].priority)]
    # The narrowest cut column gets room first, so that none is cut without need.
    while _total(widths) < width and any(widths[i] < full[i] for i in widths):
        widths[min((i for i in widths if widths[i] < full[i]), key=widths.__getitem__)] += 1
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: dict[int, int]) -> str:
    parts = []
    for cell, (i, size) in zip(cells, widths.items(), strict=True):
        shown = cut(cell, size)
        room = " " * (size - width_of(shown))
        parts.append(room + shown if columns[i].right else shown + room)
    return (" " * _GAP).join(parts).rstrip()


def wrapped(paragraphs: Sequence[str], width: int) -> str:
    """Break paragraphs into lines of at most the given width."""
    lines = []
    for text in paragraphs:
        line = ""
        for word in visible(text).split(" "):
            longer = f"{line} {word}" if line else word
            if line and width_of(longer) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return "\n".join(lines)
