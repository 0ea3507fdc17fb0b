"""Schemas: what is publicly known of a table's columns, in a file that people can read.

A schema is TOML, or JSON of the same shape::

    missing = ["", "?"]

    [columns.age]
    bounds = [17, 90]

    [columns.sex]
    states = ["Female", "Male"]

    [columns.city]
    find = true

Every cell of the table is text. States are compared with it character by character, so that
``00123``, ``250.00`` and ``True`` are texts like any other. A cell is missing if it is one of
`missing`, if it is no state of a column with states, or if it is no number in a column with
bounds.

Nothing of the schema may be taken from the table itself. A public code book is a better source, and
`skdirdp schema` drafts a schema from one.
"""

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .outcome import DONE, Refused

_ABOUT = "draft the schema of a table from a public code book"
_CODE_BOOK = (
    "a CSV file with the columns 'column' and 'value', and 'low' and 'high' for numbers: a row "
    "for each value that a column can take, or for its range, or for a column alone"
)
_KEYS = {"missing", "columns", "structure", "persons"}
_KINDS = ("states", "bounds", "find", "drop")


@dataclass(frozen=True)
class Schema:
    """What is publicly known of a table.

    Attributes
    ----------
    states : dict of list of str
    bounds : dict of pairs
    find : list of columns whose values nobody can list
    drop : list of columns that are left out
    missing : texts that stand for a missing value
    structure : what is known of the dependences
    person, max_rows : the column of ids, and how many records of each are counted
    """

    states: dict[str, list[str]]
    bounds: dict[str, tuple[float, float]]
    find: list[str]
    drop: list[str]
    missing: list[str] = field(default_factory=lambda: [""])
    structure: dict[str, Any] | None = None
    person: str | None = None
    max_rows: int = 1

    @property
    def names(self) -> list[str]:
        """All columns that the table may have."""
        ids = [] if self.person is None else [self.person]
        return [*self.states, *self.bounds, *self.find, *self.drop, *ids]


def read_schema(path: str) -> Schema:
    """The schema in a file, or a refusal that names what is wrong with it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        given = json.loads(text) if path.lower().endswith(".json") else _toml(text)
    except ValueError as error:  # of either format, and of the encoding
        raise Refused(f"{path}: {error}") from None
    except RecursionError:
        raise Refused(f"{path}: a schema must not be nested so deeply") from None
    if not isinstance(given, Mapping) or not set(given) <= _KEYS:
        raise Refused(f"{path}: a schema has the parts {', '.join(sorted(_KEYS))} and no others")
    columns = given.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise Refused(f"{path}: columns must be a table with an entry for each column")
    parts: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
    for name, column in columns.items():
        kinds = [kind for kind in _KINDS if isinstance(column, Mapping) and kind in column]
        if len(kinds) != 1 or len(column) != 1 or column[kinds[0]] is False:
            raise Refused(
                f"{path}: column {name!r} must have one of states = [...], bounds = [low, high], "
                "find = true and drop = true"
            )
        parts[kinds[0]][name] = column[kinds[0]]
    missing = _texts(path, "missing", given.get("missing", [""]))
    states = {name: _texts(path, name, texts) for name, texts in parts["states"].items()}
    for name, texts in states.items():
        if not set(missing).isdisjoint(texts):
            raise Refused(f"{path}: a state of column {name!r} must not be in missing too")
    persons = given.get("persons", {})
    if not isinstance(persons, Mapping) or not set(persons) <= {"column", "max_rows"}:
        raise Refused(f"{path}: persons must have a column, and may have max_rows")
    if not isinstance(persons.get("column", ""), str):
        raise Refused(f"{path}: the column of persons must be a text")
    return Schema(
        states,
        {name: _pair(path, name, bounds) for name, bounds in parts["bounds"].items()},
        list(parts["find"]),
        list(parts["drop"]),
        missing,
        given.get("structure"),
        persons.get("column"),
        persons.get("max_rows", 1),
    )


def _toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _texts(path: str, name: str, values: Any) -> list[str]:
    """Texts as they stand in the table; a whole number may be given without quotes."""
    if not isinstance(values, list):
        raise Refused(f"{path}: {name!r} must be a list of texts")
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        raise Refused(
            f"{path}: {name!r} must be a list of texts as they stand in the table, or of whole "
            'numbers; put others in quotes, such as "250.00" or "True"'
        )
    return [str(value) for value in values]


def _pair(path: str, name: str, bounds: Any) -> tuple[float, float]:
    numbers = isinstance(bounds, list) and all(
        isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds
    )
    if not numbers or len(bounds) != 2:
        raise Refused(f"{path}: bounds of {name!r} must be two numbers, [low, high]")
    return bounds[0], bounds[1]


# Drafting ----------------------------------------------------------------------------


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "schema", help=_ABOUT, description=f"{_ABOUT[0].upper()}{_ABOUT[1:]}."
    )
    parser.add_argument("codebook", metavar="CODEBOOK", help=_CODE_BOOK)
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="where to write; an existing file is replaced"
    )
    parser.set_defaults(run=_draft)


def _draft(options: Any) -> int:
    from ..reporting.pages import write

    with open(options.codebook, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    text = drafted(options.codebook, rows)
    if options.output is None or options.output == "-":
        print(text, end="")
    else:
        print(f"Wrote {write(options.output, text, [options.codebook])}")
    return DONE


def drafted(path: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """A schema from the rows of a code book, as TOML."""
    columns: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        cells = {str(key).strip().lower(): (value or "").strip() for key, value in row.items()}
        if not cells.get("column"):
            raise Refused(f"{path}: every row of a code book must name its column under 'column'")
        entry = columns.setdefault(cells["column"], {"states": [], "bounds": []})
        if cells.get("low") or cells.get("high"):
            entry["bounds"] = [_number(path, cells, key) for key in ("low", "high")]
        elif cells.get("value"):
            entry["states"].append(cells["value"])
    if not columns:
        raise Refused(f"{path}: a code book must have at least one row below its header")
    lines = ['missing = [""]']
    for name, entry in columns.items():
        lines += ["", f"[columns.{_quoted(name)}]"]
        if entry["states"] and entry["bounds"]:
            raise Refused(f"{path}: column {name!r} has both values and a range")
        if entry["bounds"]:
            lines.append(f"bounds = [{', '.join(entry['bounds'])}]")
        elif entry["states"]:
            states = ", ".join(map(_quoted, dict.fromkeys(entry["states"])))
            lines.append(f"states = [{states}]")
        else:
            lines.append("find = true  # values that enough records hold are found privately")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text as TOML writes it: as JSON, in which one control character more is escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(path: str, cells: Mapping[str, str], key: str) -> str:
    """A number as it was written: a whole one stays whole."""
    try:
        value = float(cells.get(key, ""))
    except ValueError:
        raise Refused(f"{path}: {key!r} of column {cells['column']!r} must be a number") from None
    try:
        return str(int(cells[key]))
    except ValueError:
        return repr(value)
