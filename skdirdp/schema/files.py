"""Schemas in TOML files, drafts from headers and code books, and tables in CSV files."""

import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import numpy as np
import pandas as pd

from .arrays import column_names
from .columns import parse_number, parse_time
from .kinds import (
    RESOLUTIONS,
    Categories,
    Dates,
    Ignored,
    Key,
    Kind,
    Names,
    Numbers,
    raise_if_errors,
    short_time,
)

_BLOCK_ROWS = 10_000  # rows of a file that are encoded at once
_LONGEST_FIELD = 2**31 - 1  # characters; the largest limit on all platforms
_PARTS = ("person", "max_rows", "missing_values", "strict", "constraints", "columns")
_DECLARATIONS = (
    "one of categories = [...], numbers = [low, high], dates = [low, high], names = true, "
    "key = true or ignore = true"
)
_DRAFT = """\
# What is public about each column of the table. Fill in every blank {} without looking at the
# records: from a code book, a questionnaire or general knowledge.
#
#   { categories = ["f", "m"] }                  one of these values; others are missing
#   { categories = ["00123", "250.00"] }         codes in quotes, so that they keep their form
#   { categories = ["a", "b"], other = "other" } one of these values, or other
#   { categories = [false, true] }               truth values
#   { numbers = [0, 110] }                       whole numbers within these bounds
#   { numbers = [0.0, 2.5] }                     numbers within these bounds
#   { dates = [2015-01-01, 2025-12-31] }         dates; resolution = "month" rounds them down
#   { dates = [2015-01-01, 2025-12-31], format = "%d/%m/%Y" }   written as 31/12/2025
#   { names = true }                             categories that are found with a part of the budget
#   { key = true }                               identifiers, which are never counted
#   { ignore = true }                            not used
#
# missing = false in a column: it has no missing values.

# person = "..."        # person key, if a person may have several rows
# max_rows = 1          # largest number of rows of a person that are counted
missing_values = [""]   # strings that mean a missing value
# constraints = ["start <= end"]   # hold in every synthetic record

[columns]
"""


# Schemas ----------------------------------------------------------------------------------


def to_toml(schema: Any) -> str:
    """Return a schema as TOML."""
    parts: dict[str, Any] = {"missing_values": list(schema.missing_values)}
    if schema.person is not None:
        parts = {"person": schema.person, "max_rows": schema.max_rows, **parts}
    if schema.strict:
        parts["strict"] = True
    if schema.constraints:
        parts["constraints"] = list(schema.constraints)
    lines, errors = [], {}
    for part, value in parts.items():
        try:
            lines.append(f"{part} = {_toml(value)}")
        except TypeError as error:
            errors[part] = str(error)
    lines += ["", "[columns]"]
    for name, kind in schema.columns.items():
        try:
            if not isinstance(name, str):
                raise TypeError("its name is not a string")
            lines.append(f"{_toml(name)} = {_toml(_entries(kind))}")
        except TypeError as error:
            errors[name] = str(error)
    raise_if_errors("the schema cannot be saved as TOML", errors)
    return "\n".join(lines) + "\n"


def _entries(kind: Kind) -> dict[str, Any]:
    """Return the declaration of a column as the table of its TOML file."""
    domain: Any = True
    if isinstance(kind, Categories):
        domain = list(kind.values)
    elif isinstance(kind, Numbers):
        domain = [kind.low, kind.high]
    elif isinstance(kind, Dates):
        domain = [
            bound.date() if bound.time() == time() else bound for bound in (kind.low, kind.high)
        ]
    return {kind.title: domain, **kind.arguments()}


def declaration(kind: Kind) -> str:
    """Return a kind as the expression that declares it."""
    options = [f"{name}={value!r}" for name, value in kind.arguments().items()]
    given: list[str] = []
    if isinstance(kind, Categories):
        given = [repr(list(kind.values))]
    elif isinstance(kind, Numbers):
        given = [repr(kind.low), repr(kind.high)]
    elif isinstance(kind, Dates):
        given = [repr(short_time(kind.low)), repr(short_time(kind.high))]
    return f"Schema.{kind.title}({', '.join([*given, *options])})"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise TypeError("TOML strings cannot contain lone surrogates")
        # TOML strings are JSON strings in which one more control character is escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, date | time):
        return _toml_time(value)
    if type(value) in (int, float):
        return repr(value)
    raise TypeError(f"TOML has no values of type {type(value).__name__}")


def _toml_time(value: Any) -> str:
    if getattr(value, "nanosecond", 0):
        raise TypeError("times in TOML have at most microseconds")
    zone = value.utcoffset() if isinstance(value, datetime | time) else None
    if zone is not None and zone % timedelta(minutes=1):
        raise TypeError("time zones in TOML have whole minutes")
    return value.isoformat()


def read_mapping(path: Any, what: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the contents of a TOML file, or of a JSON file of the same shape."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        if os.fspath(path).lower().endswith(".json"):
            given = json.loads(text, object_pairs_hook=_without_duplicates)
        else:
            given = tomllib.loads(text)
    except ValueError as error:  # invalid format or encoding
        raise ValueError(f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: {what} must not be nested so deeply") from None
    if not isinstance(given, dict) or not set(given) <= set(keys):
        raise ValueError(f"{path}: {what} may only have the parts {', '.join(keys)}")
    return given


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("names must be distinct; some are duplicates")
    return dict(pairs)


def read_toml(path: Any) -> dict[str, Any]:
    """Return the parameters of the schema in a TOML file, or in a JSON file of the same shape."""
    given = read_mapping(path, "a schema", _PARTS)
    columns, errors = given.get("columns"), {}
    if not isinstance(columns, dict) or not columns:
        raise ValueError(f"{path}: columns must be a table with an entry for each column")
    if not isinstance(given.get("person", ""), str):
        raise ValueError(f"{path}: person must be a string, the name of a column")
    if not isinstance(given.get("missing_values", []), list):
        raise ValueError(f"{path}: missing_values must be a list")
    if not isinstance(given.get("constraints", []), list):
        raise ValueError(f"{path}: constraints must be a list of strings")
    if not isinstance(given.get("strict", False), bool):
        raise ValueError(f"{path}: strict must be true or false")
    kinds = {}
    for name, entries in columns.items():
        try:
            kinds[name] = _kind_from_entries(entries)
        except (TypeError, ValueError, OverflowError) as error:
            errors[name] = str(error)
    raise_if_errors(f"{path}: columns must be declared by {_DECLARATIONS}", errors)
    return {**given, "columns": kinds}


_OPTIONS = {
    "categories": {"other", "missing"},
    "numbers": {"whole", "bins", "missing"},
    "dates": {"resolution", "format", "bins", "missing"},
    "names": {"missing"},
    "key": {"form"},
    "ignore": set(),
}


def _kind_from_entries(entries: Any) -> Kind:
    if entries == {}:
        raise ValueError("is a blank to fill in")
    titles = [title for title in _OPTIONS if isinstance(entries, dict) and title in entries]
    if len(titles) != 1:
        raise ValueError("must have exactly one of these")
    title = titles[0]
    domain, options = entries[title], _check_options(title, entries)
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
    if title == "key":
        return Key.from_form(**options)
    return {"names": Names, "ignore": Ignored}[title](**options)


def _check_options(title: str, entries: dict[str, Any]) -> dict[str, Any]:
    """Return the entries besides the title."""
    options = {key: value for key, value in entries.items() if key != title}
    unknown = sorted(set(options) - _OPTIONS[title])
    if unknown:
        raise ValueError(f"{title} has no option {', '.join(unknown)}")
    for flag in ("missing", "whole"):
        if not isinstance(options.get(flag, False), bool):
            raise ValueError(f"{flag} must be true or false")
    return options


#: Kinds that are declared by their title alone.
_WITHOUT_DOMAIN: dict[str, Kind] = {
    "names": Names(),
    "key": Key(),
    "ignore": Ignored(),
    "truth": Categories((False, True)),
}


def draft(header: Any) -> str:
    """Return a schema in TOML with a blank for each column."""
    if isinstance(header, str | os.PathLike):
        with _csv_rows(header) as rows:
            names = next(rows, [])
    else:
        names = column_names(header) or list(getattr(header, "columns", header))
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError("header must contain column names, which are strings")
    if len(set(names)) < len(names):
        raise ValueError("header must have distinct names of columns; some are duplicates")
    return _DRAFT + "".join(f"{_toml(name)} = {{}}\n" for name in names)


def read_codebook(path: Any) -> dict[str, Kind]:
    """Return the kinds of the columns in a code book."""
    entries: dict[str, dict[str, list[str]]] = {}
    with _csv_rows(path) as rows:
        header = [name.strip().lower() for name in next(rows, [])]
        for row in rows:
            cells = dict(zip(header, map(str.strip, row), strict=False))
            if not any(cells.values()):
                continue
            if not cells.get("column"):
                raise ValueError(f"{path}: every row of a code book must have an entry in 'column'")
            entry = entries.setdefault(cells["column"], {})
            for key in ("value", "low", "high", "kind"):
                listed = entry.setdefault(key, [])
                if cells.get(key) and cells[key] not in listed:
                    listed.append(cells[key])
    if not entries:
        raise ValueError(f"{path}: a code book must have at least one row below its header")
    kinds, errors = {}, {}
    for name, entry in entries.items():
        try:
            kinds[name] = _kind_from_codes(**entry)
        except (ValueError, OverflowError) as error:
            errors[name] = str(error)
    raise_if_errors(f"{path}: columns must have values, bounds or a kind", errors)
    return kinds


def _kind_from_codes(value: list[str], low: list[str], high: list[str], kind: list[str]) -> Kind:
    """Return the kind of a column, given its distinct entries in the code book."""
    if max(len(low), len(high), len(kind)) > 1:
        raise ValueError("has several entries for low, high or kind")
    bounds = [*low, *high]
    are_numbers = len(bounds) == 2 and None not in map(parse_number, bounds)
    implied = "categories" if value else "names"
    if bounds:
        implied = "numbers" if are_numbers else "dates"
    title = kind[0].lower() if kind else implied
    titles = ("categories", "numbers", "dates", *_WITHOUT_DOMAIN)
    if title not in titles:
        raise ValueError(f"kind must be one of {', '.join(titles)}")
    if title in ("numbers", "dates") and not value:
        return _kind_from_bounds(title, bounds, are_numbers)
    if bounds or (value and title != "categories"):
        raise ValueError("has more than one of values, bounds and another kind")
    return _WITHOUT_DOMAIN.get(title) or Categories.from_values(value)


def _kind_from_bounds(title: str, bounds: list[str], are_numbers: bool) -> Kind:
    if title == "numbers" and are_numbers:
        return Numbers.from_bounds(*map(parse_number, bounds))
    if title == "numbers" or len(bounds) < 2 or None in map(parse_time, bounds):
        raise ValueError("low and high must be two numbers or two dates")
    return Dates.from_bounds(*bounds)


def write_text(path: Any, text: str) -> None:
    """Write a text file."""
    Path(path).write_text(text, encoding="utf-8", newline="")


# Tables -----------------------------------------------------------------------------------


def csv_blocks(path: Any, schema: Any) -> Iterator[dict[str, list[str | None]]]:
    """Yield the used columns of a CSV file in one or more blocks of records.

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


def text_column(cells: list[str | None]) -> pd.Series:
    """Return strings as a column of the type that pandas infers for strings."""
    return pd.Series(cells, dtype=pd.Series([""]).dtype)


def check_csv_header(path: Any, schema: Any) -> None:
    """Raise an error if the columns of a CSV file differ from the schema; reads only its header."""
    with _csv_rows(path) as rows:
        _check_header(path, next(rows, []), schema)


def csv_text(records: pd.DataFrame, schema: Any) -> str:
    """Return records as CSV, with times in their format, or in ISO 8601 at their resolution."""
    texts = {
        name: _texts_of_times(values, schema[name]) if isinstance(schema[name], Dates) else values
        for name, values in records.items()
    }
    missing = next((value for value in schema.missing_values if isinstance(value, str)), "")
    table, output = pd.DataFrame(texts), StringIO()
    table.to_csv(output, index=False, na_rep=missing)
    if "\r" in output.getvalue():  # some versions of Python do not quote it
        output = StringIO()
        table.to_csv(output, index=False, na_rep=missing, quoting=csv.QUOTE_NONNUMERIC)
    return output.getvalue()


def _texts_of_times(values: pd.Series, kind: Dates) -> pd.Series:
    if kind.format is not None:
        return values.dt.strftime(kind.format)
    # ISO 8601 has minutes wherever it has hours.
    unit: Any = "m" if kind.resolution == "hour" else RESOLUTIONS[kind.resolution]
    texts = np.datetime_as_string(values.to_numpy("M8[us]"), unit=unit).astype(object)
    return pd.Series(np.where(values.isna(), None, texts), index=values.index, dtype=object)


@contextmanager
def _csv_rows(path: Any) -> Iterator[Iterator[list[str]]]:
    """Iterate over the rows of a CSV file; errors show no data."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        # Only files are opened, never addresses. An invalid byte affects its own cell only.
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # Python 3.10 raises an error for a file that contains a null character.
            yield csv.reader((line.replace("\0", "\ufffd") for line in file), strict=True)
    except csv.Error:
        raise ValueError(
            f"{path} must be a CSV file: a field that starts with a quote must end with one, and "
            "quotes within it must be doubled"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _check_header(path: Any, header: list[str], schema: Any) -> None:
    """Raise an error if the columns of a header differ from the schema."""
    # The first line may be a record, so that only names of the schema are shown.
    wanted = [name for name in schema if not isinstance(schema[name], Ignored)]
    times = Counter(header)
    errors: dict[Any, str] = {name: "is not in the header" for name in wanted if not times[name]}
    errors |= {name: "occurs more than once" for name in schema if times[name] > 1}
    unknown = [str(place) for place, name in enumerate(header, 1) if name not in schema]
    rule = f"{path}: the first line must contain the declared names of all columns, comma-separated"
    if unknown:
        places = f"{'position' if len(unknown) == 1 else 'positions'} {', '.join(unknown)}"
        rule += (
            f"; those at {places} are not declared. Declare them, with ignore = true if they are "
            "not used"
        )
        raise_if_errors(rule, errors)
        raise ValueError(rule)
    raise_if_errors(rule, errors)
