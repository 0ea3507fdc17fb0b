"""HTML and SVG in which a text of somebody else stays a text."""

import html
from collections.abc import Iterable
from typing import Any

from .text import visible

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
    columns: Iterable[str], rows: Iterable[Iterable[Any]], numbers: Iterable[str] = ()
) -> Markup:
    """A table; columns that hold numbers are named, and stand to the right."""
    columns, right = list(columns), set(numbers)
    classes = ["number" if name in right else None for name in columns]
    head = [
        tag("th", name, class_=kind, scope="col")
        for name, kind in zip(columns, classes, strict=True)
    ]
    body = [
        tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, classes, strict=True)))
        for row in rows
    ]
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
