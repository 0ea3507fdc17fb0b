"""HTML and SVG in which a text of somebody else stays a text."""

import html
from collections.abc import Container, Iterable
from typing import Any

from .text import visible

_CLASSES = {"time": "date", "first": "date", "last": "date", "label": "label"}
_EMPTY = frozenset({"meta", "br", "line", "path", "rect", "circle", "polyline"})


class Markup(str):
    """A text that is HTML already, because `tag` or `together` made it."""

    __slots__ = ()


def tag(element: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element; every child and every value that is not `Markup` is escaped.

    ``class_`` stands for the attribute class, and underscores inside names for hyphens.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _EMPTY and not children:
        return Markup(f"<{element}{given}/>")
    return Markup(f"<{element}{given}>{together(children)}</{element}>")


def together(children: Iterable[Any]) -> Markup:
    """Several pieces, one after another."""
    return Markup("".join(escaped(child) for child in children))


def escaped(value: Any) -> str:
    return value if isinstance(value, Markup) else html.escape(visible(value))


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Any]], numbers: Container[str] = ()
) -> Markup:
    """A table; columns that hold numbers are named, and stand to the right.

    Times and dates stay in one line, and a label may break anywhere.
    """
    columns = list(columns)
    classes = [
        "number" if name in numbers else _CLASSES.get(name.partition(" ")[0]) for name in columns
    ]

    def line(element: str, cells: Iterable[Any], **attributes: Any) -> Markup:
        return tag(
            "tr",
            *(
                tag(element, cell, class_=kind, **attributes)
                for cell, kind in zip(cells, classes, strict=True)
            ),
        )

    head = tag("thead", line("th", columns, scope="col"))
    return tag("table", head, tag("tbody", *(line("td", row) for row in rows)))
