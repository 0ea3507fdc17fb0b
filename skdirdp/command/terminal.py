"""Terminal output: exit codes, messages without passwords, and tables that fit the terminal."""

import itertools
import re
import shutil
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ..reporting.redact import is_url, looks_like_database_url, without_password
from ..reporting.statements import visible

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_DAMAGED = 0, 1, 2, 3
EXIT_INTERRUPTED = 130  # interrupted with Ctrl-C (128 + SIGINT), as in shells

_PASSWORD = re.compile(r"^\W*(?:[\w+.-]+:/+)?[^:@/]*[:/](?!/)(.+)@")
_PARAMETER = re.compile(r"(?i)(?:pass\w*|pwd)\s*=\s*('[^']*'|[^&\s]*)")
_GAP = 2
_NARROW = 40  # below this width, each cell is printed on its own line


class CommandError(Exception):
    """Error that ends a command with a one-line message and an exit code."""

    def __init__(self, message: str, code: int = EXIT_ERROR):
        super().__init__(message)
        self.code = code


def redact_message(message: str, arguments: Sequence[str]) -> str:
    """Return a message on one line, without the passwords in the command-line arguments."""
    message = " ".join(message.split())
    for address in filter(None, map(_database_address, arguments)):
        passwords = _passwords(address)
        if passwords or not is_url(address):  # it is not always clear where a password ends
            message = message.replace(address, "***")
        for password in passwords:
            # Shorter passwords also occur within ordinary words, and reveal little.
            if len(password) >= 4:
                message = message.replace(password, "***")
    return visible(without_password(message))


def _database_address(argument: str) -> str:
    """Return the database URL or connection string in an argument, or an empty string."""
    option, equals, value = argument.partition("=")
    text = " ".join((value if option.startswith("-") and equals else argument).split())
    return text if looks_like_database_url(text) else ""


def _passwords(address: str) -> set[str]:
    """Return candidates for the password in a database address, as written and decoded."""
    texts = (address, unquote(address))
    matches = {match for text in texts for match in _PASSWORD.findall(text)}
    matches |= {match.strip("'") for text in texts for match in _PARAMETER.findall(text)}
    return {text for match in matches for text in (match, unquote(match)) if text}


class Column(NamedTuple):
    """Column of a table."""

    name: str
    min_width: int  # 0 if the column is never truncated
    priority: int = 0  # columns with a smaller priority are dropped first
    align_right: bool = False  # True for numbers


def terminal_width() -> int:
    """Return the width of the terminal: ``$COLUMNS`` if set, or 80 if there is no terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def display_width(text: str) -> int:
    """Return the display width: wide characters take two cells, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def truncate(text: str, width: int) -> str:
    """Truncate a string to a display width, with an ellipsis if it is longer."""
    if display_width(text) <= width:
        return text
    fits = itertools.takewhile(lambda n: display_width(text[:n]) < width, range(len(text)))
    return text[: max(fits, default=0)] + "…"


def format_table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> str:
    """Format rows as lines of at most the given width."""
    # Drop empty columns, truncate cells to fit and, if that is not enough, drop more columns.
    cells = [[visible(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    if width < _NARROW:
        blocks = [
            "\n".join(truncate(f"{columns[i].name}: {row[i]}", width) for i in kept if row[i])
            for row in cells
        ]
        return "\n\n".join(blocks)
    widths = _fit_widths(columns, cells, kept, width)
    lines = [[columns[i].name for i in widths], ["-" * size for size in widths.values()]]
    lines += [[row[i] for i in widths] for row in cells]
    return "\n".join(_format_line(line, columns, widths) for line in lines)


def _fit_widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> dict[int, int]:
    """Choose the columns that fit, and the width of each."""
    full = {i: max(map(display_width, [columns[i].name, *(r[i] for r in cells)])) for i in kept}
    widths = {i: min(full[i], columns[i].min_width or full[i]) for i in kept}
    while len(widths) > 1 and _total_width(widths) > width:
        del widths[min(widths, key=lambda i: columns[i].priority)]
    # Widen the narrowest truncated column first, so that no column is truncated unnecessarily.
    while _total_width(widths) < width and any(widths[i] < full[i] for i in widths):
        widths[min((i for i in widths if widths[i] < full[i]), key=widths.__getitem__)] += 1
    return widths


def _total_width(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _format_line(cells: Sequence[str], columns: Sequence[Column], widths: dict[int, int]) -> str:
    parts = []
    for cell, (i, size) in zip(cells, widths.items(), strict=True):
        shown = truncate(cell, size)
        padding = " " * (size - display_width(shown))
        parts.append(padding + shown if columns[i].align_right else shown + padding)
    return (" " * _GAP).join(parts).rstrip()


def wrap(paragraphs: Sequence[str], width: int) -> str:
    """Break paragraphs into lines of at most the given width."""
    lines = []
    for text in paragraphs:
        line = ""
        for word in visible(text).split(" "):
            extended = f"{line} {word}" if line else word
            if line and display_width(extended) > width:
                lines.append(line)
                extended = word
            line = extended
        lines.append(line)
    return "\n".join(lines)
