"""Schemas in TOML files, drafts from headers and code books, and tables in CSV files."""

import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .columns import parse_number, parse_time
from .kinds import Categories, Dates, Ignored, Key, Kind, Names, Numbers, raise_faults

_BLOCK_ROWS = 10_000  # rows of a file that are encoded at once
_LONGEST_FIELD = 2**31 - 1  # in characters; the largest limit on all platforms
_PARTS = ("person", "max_rows", "missing_values", "strict", "columns")
_BLANK = (
    "fill in one of categories = [...], numbers = [low, high], dates = [low, high], names = true, "
    "key = true and ignore = true"
)
_DRAFT = """\
# What is public about each column of the table. Fill in every blank {} without looking at the
# records: from a code book, a questionnaire or general knowledge.
#
#   { categories = ["f", "m"] }                  one of these values; others are missing
#   { categories = ["a", "b"], other = "other" } one of these values, or other
#   { categories = [false, true] }               truth values
#   { numbers = [0, 110] }                       whole numbers within these bounds
#   { numbers = [0.0, 2.5] }                     numbers within these bounds
#   { dates = [2015-01-01, 2025-12-31] }         dates; resolution = "month" rounds them down
#   { names = true }                             categories that are found with a part of the budget
#   { key = true }                               identifiers, which are never counted
#   { ignore = true }                            not used
#
# missing = false in a column: it has no missing values.

# person = "..."        # key of the persons, if a person may have several rows
# max_rows = 1          # largest number of rows of a person that are counted
missing_values = [""]   # texts that mean a missing value

[columns]
"""


# Schemas ----------------------------------------------------------------------------------


def to_toml(schema: Any) -> str:
    """Return a schema as TOML."""
    lines, faults = [], {}
    if schema.person is not None:
        lines += [f"person = {_toml(schema.person)}", f"max_rows = {schema.max_rows}"]
    lines.append(f"missing_values = {_toml(list(schema.missing_values))}")
    if schema.strict:
        lines.append("strict = true")
    lines += ["", "[columns]"]
    for name, kind in schema.columns.items():
        try:
            if not isinstance(name, str):
                raise TypeError("its name is not a text")
            entries = {kind.title: _domain(kind), **kind.arguments()}
            if isinstance(kind, Numbers) and kind.whole and isinstance(kind.low, float):
                entries["whole"] = True
            listed = ", ".join(f"{key} = {_toml(value)}" for key, value in entries.items())
            lines.append(f"{_toml(name)} = {{ {listed} }}")
        except TypeError as error:
            faults[name] = str(error)
    raise_faults("columns cannot be saved", faults)
    return "\n".join(lines) + "\n"


def _domain(kind: Kind) -> Any:
    if isinstance(kind, Categories):
        return list(kind.values)
    return [kind.low, kind.high] if isinstance(kind, Numbers | Dates) else True


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # As in JSON, with one more control character escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime):
        is_date = value.tzinfo is None and value.time() == datetime.min.time()
        return value.date().isoformat() if is_date else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if type(value) in (int, float):
        return repr(value)
    raise TypeError(f"TOML has no values of type {type(value).__name__}")


def read_toml(path: Any) -> dict[str, Any]:
    """Return the parameters of the schema in a TOML file, or in a JSON file of the same shape."""
    is_json = os.fspath(path).lower().endswith(".json")
    try:
        given = (json if is_json else tomllib).loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # of either format, or of the encoding
        raise ValueError(f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: a schema must not be nested so deeply") from None
    if not isinstance(given, Mapping) or not set(given) <= set(_PARTS):
        raise ValueError(f"{path}: a schema may only have the parts {', '.join(_PARTS)}")
    columns, faults = given.get("columns"), {}
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError(f"{path}: columns must be a table with an entry for each column")
    kinds = {}
    for name, entries in columns.items():
        try:
            kinds[name] = _kind_from_entries(entries)
        except (TypeError, ValueError) as error:
            faults[name] = str(error)
    raise_faults(f"{path}: columns must be declared", faults)
    return {**given, "columns": kinds}


_OPTIONS = {
    "categories": {"other", "missing"},
    "numbers": {"whole", "bins", "missing"},
    "dates": {"resolution", "format", "bins", "missing"},
    "names": {"missing"},
    "key": set(),
    "ignore": set(),
}


def _kind_from_entries(entries: Any) -> Kind:
    titles = [title for title in _OPTIONS if isinstance(entries, Mapping) and title in entries]
    if len(titles) != 1:
        raise ValueError(_BLANK)
    title = titles[0]
    domain = entries[title]
    options = {key: value for key, value in entries.items() if key != title}
    unknown = sorted(set(options) - _OPTIONS[title])
    if unknown:
        raise ValueError(f"{title} has no option {', '.join(unknown)}")
    if title == "categories":
        if not isinstance(domain, list):
            raise ValueError("categories must be a list")
        return Categories.from_values(domain, **options)
    if title in ("numbers", "dates"):
        if not isinstance(domain, list) or len(domain) != 2:
            raise ValueError(f"{title} must be two bounds, [low, high]")
        kind: Any = Numbers if title == "numbers" else Dates
        return kind.from_bounds(*domain, **options)
    if domain is not True:
        raise ValueError(f"{title} must be true")
    return {"names": Names, "key": Key, "ignore": Ignored}[title](**options)


def draft(header: Any) -> str:
    """Return a schema in TOML with a blank for each column."""
    if isinstance(header, str | os.PathLike):
        with _csv_rows(header) as rows:
            names = next(rows, [])
    else:
        names = list(getattr(header, "columns", header))
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError("header must have names of columns, which are texts")
    if len(set(names)) < len(names):
        raise ValueError("header must have distinct names of columns; some are duplicates")
    return _DRAFT + "".join(f"{_toml(name)} = {{}}\n" for name in names)


def read_codebook(path: Any) -> dict[str, Kind]:
    """Return the kinds of the columns in a code book."""
    values: dict[str, list[str]] = {}
    bounds: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    with _csv_rows(path) as rows:
        header = [name.strip().lower() for name in next(rows, [])]
        for row in rows:
            cells = dict(zip(header, map(str.strip, row), strict=False))
            if not cells.get("column"):
                raise ValueError(f"{path}: every row of a code book must have an entry in 'column'")
            listed = values.setdefault(cells["column"], [])
            if cells.get("kind"):
                kinds[cells["column"]] = cells["kind"].lower()
            if cells.get("low") or cells.get("high"):
                bounds[cells["column"]] = [cells.get("low", ""), cells.get("high", "")]
            elif cells.get("value") and cells["value"] not in listed:
                listed.append(cells["value"])
    if not values:
        raise ValueError(f"{path}: a code book must have at least one row below its header")
    found, faults = {}, {}
    for name, listed in values.items():
        try:
            found[name] = _kind_from_codes(listed, bounds.get(name), kinds.get(name))
        except ValueError as error:
            faults[name] = str(error)
    raise_faults(f"{path}: columns must have values, bounds or a kind", faults)
    return found


def _kind_from_codes(values: list[str], bounds: list[str] | None, kind: str | None) -> Kind:
    others = {"names": Names(), "key": Key(), "ignore": Ignored()}
    others["truth"] = Categories((False, True))
    if kind is not None and kind not in (*others, "categories", "numbers", "dates"):
        raise ValueError(f"kind must be one of categories, numbers, dates, {', '.join(others)}")
    if bool(values) + (bounds is not None) + (kind in others) > 1:
        raise ValueError("it has more than one of values, bounds and a kind without values")
    if values:
        return Categories.from_values(values)
    if bounds is None:
        return others.get(kind or "names") or Categories.from_values([])
    numbers = [parse_number(bound) for bound in bounds]
    if None not in numbers:
        return Numbers.from_bounds(*numbers)
    if any(parse_time(bound) is None for bound in bounds):
        raise ValueError("low and high must be two numbers or two dates")
    return Dates.from_bounds(*bounds)


def write_text(path: Any, text: str) -> None:
    """Write a text file."""
    Path(path).write_text(text, encoding="utf-8", newline="")


# Tables -----------------------------------------------------------------------------------


def csv_blocks(path: Any, schema: Any) -> Iterator[dict[str, list[str | None]]]:
    """Iterate over the used columns of a CSV file, in blocks of records, at least one.

    A row with too few or too many fields is a record without any values.
    """
    with _csv_rows(path) as rows:
        header = next(rows, [])
        _check_header(path, header, schema)
        places = {
            name: place
            for place, name in enumerate(header)
            if not isinstance(schema[name], Ignored)
        }
        lacking: list[str | None] = [None] * len(header)
        # An empty line is a record if there is one column, and is skipped otherwise.
        records = (
            row if len(row) == len(header) else lacking for row in rows if row or len(header) == 1
        )
        block = list(islice(records, _BLOCK_ROWS))
        while True:
            yield {name: [row[place] for row in block] for name, place in places.items()}
            block = list(islice(records, _BLOCK_ROWS))
            if not block:
                return


@contextmanager
def _csv_rows(path: Any) -> Iterator[Iterator[list[str]]]:
    """Iterate over the rows of a CSV file; errors show no data."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        # Only files are opened, never addresses. An invalid byte affects its own cell only.
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # Python 3.10 refuses a file that contains a null character.
            yield csv.reader((line.replace("\0", "\ufffd") for line in file), strict=True)
    except csv.Error:
        raise ValueError(
            f"{path} must be a CSV file: a field that starts with a quote must end with one, and "
            "quotes within it must be doubled"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _check_header(path: Any, header: list[str], schema: Any) -> None:
    """Refuse a header with other columns than the schema."""
    # The first line may be a record, so that only names of the schema are shown.
    wanted = [name for name in schema if not isinstance(schema[name], Ignored)]
    faults: dict[Any, str] = {name: "is not in the header" for name in wanted if name not in header}
    faults |= {name: "occurs more than once" for name in schema if header.count(name) > 1}
    raise_faults(
        f"{path}: the first line must hold the names of the declared columns, separated by commas",
        faults,
    )
    unknown = [str(place) for place, name in enumerate(header, 1) if name not in schema]
    if unknown:
        raise ValueError(
            f"{path} has columns that the schema does not declare, at positions "
            f"{', '.join(unknown)}; declare them, with ignore = true if they are not used"
        )
