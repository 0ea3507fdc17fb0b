"""The charges of an accountant, as a table."""

import html
from collections.abc import Iterable
from typing import Any

from .._messages import plural
from .codec import decode, describe_parameters
from .ledger import Charge


class History(list):
    """Charges as a list of dicts that prints as a table; made by `PrivacyAccountant.history`.

    Parameters
    ----------
    iterable : iterable of dict
        The charges, oldest first. All have the same keys: "time", "mechanism",
        "parameters", "adjacency", "releases", "label", "split" and "part".

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.accounting import PureDP
    >>> accountant = PrivacyAccountant()
    >>> accountant.charge(PureDP(0.5), label="published last year")
    >>> history = accountant.history()
    >>> history[0]["mechanism"], history[0]["parameters"]
    ('PureDP', 'epsilon=0.5')
    """

    _SHOWN = 20
    _ALWAYS = ("time", "mechanism", "parameters", "adjacency", "releases", "label")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and cells; a long history shows its ends."""
        columns = [
            name
            for name in (self[0] if self else self._ALWAYS)
            if name in self._ALWAYS or any(row[name] is not None for row in self)
        ]
        rows = [[_cell(row[name]) for name in columns] for row in self]
        if len(rows) > self._SHOWN:
            half = self._SHOWN // 2
            rows = [*rows[:half], ["..."] * len(columns), *rows[-half:]]
        return columns, rows

    def __repr__(self) -> str:
        columns, rows = self._table()
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        number = columns.index("releases")

        def line(cells: Iterable[str]) -> str:
            padded = [
                cell.rjust(width) if i == number else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            return "  ".join(padded).rstrip()

        text = [line(columns), line("-" * width for width in widths), *map(line, rows)]
        if len(self) > self._SHOWN:
            text.append(f"{len(self)} charges")
        return "\n".join(text)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        columns, rows = self._table()

        def line(cells: Iterable[str], tag: str) -> str:
            return (
                "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
            )

        body = "".join(line(row, "td") for row in rows)
        caption = f"<caption>{plural(len(self), 'charge')}</caption>"
        return f"<table>{caption}<thead>{line(columns, 'th')}</thead><tbody>{body}</tbody></table>"


def row_of(charge: Charge) -> dict[str, Any]:
    mechanism = decode(charge.spec)
    return {
        "time": charge.time,
        "mechanism": type(mechanism).__name__,
        "parameters": describe_parameters(mechanism),
        "adjacency": mechanism.adjacency,
        "releases": charge.releases * getattr(mechanism, "releases", 1),
        "label": charge.label,
        "split": charge.split.name if charge.split else None,
        "part": charge.split.part if charge.split else None,
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return " ".join(str(value).split())
