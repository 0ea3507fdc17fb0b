"""Tables that fit a terminal."""

import shutil
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from ..reporting.statements import visible

_GAP = 2
_NARROW = 40  # below this a row becomes lines


class Column(NamedTuple):
    """A column: its name, and how little room it can do with.

    Parameters
    ----------
    name : str
        What stands above it.
    least : int
        The cells of a terminal that it keeps; 0 keeps all.
    needed : int, default=0
        Where there is no room, columns that are needed less go first.
    right : bool, default=False
        Whether it holds numbers.
    """

    name: str
    least: int
    needed: int = 0
    right: bool = False


def terminal_width() -> int:
    """The columns of the terminal; $COLUMNS counts, and 80 where there is none."""
    return max(shutil.get_terminal_size((80, 24)).columns, 20)


def width_of(text: str) -> int:
    """The cells that a text takes: some characters take two, and some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """A text in so many cells, with an ellipsis where something is left out."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> str:
    """Rows as lines of at most that width.

    Empty columns are left out; texts are cut, and where that is not enough, columns go.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    if width < _NARROW:
        return _as_lines(
            [columns[i].name for i in kept], [[r[i] for i in kept] for r in cells], width
        )
    widths = _fit(columns, cells, kept, width)
    lines = [_line([columns[i].name for i in widths], columns, widths)]
    lines.append("  ".join("-" * size for size in widths.values()))
    lines += [_line([row[i] for i in widths], columns, widths) for row in cells]
    return "\n".join(lines)


def _fit(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> dict[int, int]:
    """The width of each column that there is room for."""
    full = {
        i: max(width_of(text) for text in [columns[i].name, *(r[i] for r in cells)]) for i in kept
    }
    least = {i: min(full[i], columns[i].least or full[i]) for i in kept}
    while len(least) > 1 and _total(least) > width:
        del least[min(least, key=lambda i: columns[i].needed)]
    widths = dict(least)
    # Room is given to the narrowest that wants more, so that none is cut without need.
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


def _as_lines(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    blocks = []
    for row in rows:
        filled = [(name, cell) for name, cell in zip(names, row, strict=True) if cell]
        blocks.append("\n".join(cut(f"{name}: {cell}", width) for name, cell in filled))
    return "\n\n".join(blocks)


def wrapped(text: str, width: int) -> str:
    """A paragraph in lines of at most that width."""
    lines, line = [], ""
    for word in visible(text).split(" "):
        longer = f"{line} {word}" if line else word
        if line and width_of(longer) > width:
            lines.append(line)
            longer = word
        line = longer
    return "\n".join([*lines, line])
