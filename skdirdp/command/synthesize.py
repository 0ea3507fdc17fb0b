"""``skdirdp synthesize`` and ``skdirdp schema``: synthetic records from a CSV file and a schema.

A schema (docs/synthesis.md) declares what is public about the columns of a table, in TOML or JSON.
Cells are texts, compared with the states character by character. A cell is missing if it is in
`missing`, is not a state of a column with states, or is not a number in a column with bounds.
"""

import argparse
import csv
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .._messages import plural
from ..reporting.pages import write
from ..reporting.redact import check_output, is_stream
from .ledger import add_command, add_output, open_ledger, real_number, whole_number
from .terminal import EXIT_OK, EXIT_USAGE, CommandError, terminal_width, wrap

_BLOCK_ROWS = 10_000  # encoded at once
_MANY_MISSING = 0.5  # share of missing values that suggests a wrong schema
_LONGEST_FIELD = 2**31 - 1  # in characters; the largest limit on all platforms
_CODE_BOOK = (
    "a CSV file with the columns 'column' and 'value', and 'low' and 'high' for numbers: a row "
    "for each value of a column, or for its range, or for a column alone"
)
_KEYS = {"missing", "columns", "structure", "persons"}
_KINDS = ("states", "bounds", "find", "drop")


def add_to(commands: Any) -> None:
    """Add both commands to the parser."""
    draft = add_command(commands, "schema", "draft the schema of a table from a public code book")
    draft.add_argument("codebook", metavar="CODEBOOK", help=_CODE_BOOK)
    add_output(draft)
    draft.set_defaults(run=_draft)
    about = "learn a table privately, and write synthetic records"
    parser = add_command(commands, "synthesize", about)
    parser.add_argument("table", metavar="IN", help="a CSV file with a header")
    parser.add_argument("output", metavar="OUT", help="output; replaces an existing file")
    parser.add_argument("--schema", required=True, help="what is public about the columns")
    parser.add_argument("--epsilon", type=real_number, required=True, help="the budget")
    about = "delta of the budget (default: 1e-5)"
    parser.add_argument("--delta", type=real_number, default=1e-5, help=about)
    about = "whether neighbouring tables differ by replacing one record (the default), or by "
    about += "adding or removing one"
    relations = ("replace", "add_remove")
    parser.add_argument("--adjacency", choices=relations, default="replace", help=about)
    about = "records to draw (default: as many as IN)"
    parser.add_argument("--rows", type=whole_number, metavar="N", help=about)
    about = "parents of a column (default: 3)"
    parser.add_argument("--max-parents", type=whole_number, default=3, help=about)
    parser.add_argument("--ledger", help="ledger to charge: a file, or the address of a database")
    parser.add_argument("--name", help="name of the ledger in a database")
    parser.add_argument("--label", help="label of the charge")
    parser.add_argument("--report", metavar="PAGE", help="write a page about the guarantee")
    parser.add_argument("--quiet", action="store_true", help="do not print progress")
    parser.set_defaults(run=_synthesize)


def _synthesize(options: argparse.Namespace) -> int:
    schema = read_schema(options.schema)
    inputs = [options.table, options.schema]
    _check_writable(options.output, inputs)
    _check_writable(options.report, [*inputs, options.output])
    if options.name is not None and options.ledger is None:
        raise CommandError("--name is for ledgers in a database; pass one to --ledger", EXIT_USAGE)
    accountant = None if options.ledger is None else open_ledger(options.ledger, options.name)
    _print_progress(options, "reading the table")
    table, groups = _read(options.table, schema)
    _print_progress(options, f"learning {table.shape[1]} columns")
    from ..bayes_net import PrivateBayesNet

    model = PrivateBayesNet(
        states=schema.states,
        bounds=schema.bounds,
        constraints=schema.structure,
        max_parents=options.max_parents,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        max_rows=schema.max_rows,
        accountant=accountant,
        label=options.label,
    )
    model.fit(table, groups=groups)
    n_rows = round(model.n_records_) if options.rows is None else options.rows
    _print_progress(options, f"drawing {n_rows} records")
    records = model.sample(n_rows)
    text = io.StringIO()
    records.to_csv(text, index=False)
    write(options.output, text.getvalue(), inputs)
    if options.report is not None:
        model.privacy_.report(options.report)
    _summarise(options, model, records)
    return EXIT_OK


def _check_writable(path: str | None, inputs: list[str]) -> None:
    """Refuse an output that must not or cannot be written, before anything is charged."""
    if path is None:
        return
    check_output(path, inputs)
    if Path(path).is_dir():
        raise CommandError(f"{path} is a folder; give a file")
    if not is_stream(path):
        with tempfile.NamedTemporaryFile(dir=Path(path).resolve().parent, prefix=".skdirdp"):
            pass


def _summarise(options: argparse.Namespace, model: Any, records: Any) -> None:
    edges = sum(map(len, model.structure_.values()))
    lines = [
        f"Wrote {options.output}: {len(model.columns_)} columns, joined by {edges} dependences",
        model.privacy_.statement(),
    ]
    if options.report is not None:
        lines.append(f"Wrote {options.report}")
    # Computed from the synthetic records, which are private.
    lines += [
        f"Most values of {name!r} are missing in {options.output}; if you did not expect that, "
        "compare the schema with the code book"
        for name in records
        if records[name].isna().mean() > _MANY_MISSING
    ]
    print(wrap(lines, terminal_width()))


def _print_progress(options: argparse.Namespace, what: str) -> None:
    if not options.quiet:
        print(f"skdirdp: {what}", file=sys.stderr, flush=True)


def _read(path: str, schema: "Schema") -> tuple[Any, Any]:
    """Read the columns of a CSV file that the schema keeps, and the id of each record.

    Every cell is encoded independently of others. A row with too few or too many fields is a
    record whose cells are all missing. Records without an id are left out.
    """
    import pandas as pd

    encoders = schema.encoders()
    columns: dict[str, list[Any]] = {name: [] for name in encoders}
    with _csv_rows(path) as rows:
        header = next(rows, [])
        _check_header(path, header, schema)
        lacking = [None] * len(header)
        # An empty line is a record if there is one column, and is skipped otherwise.
        records = (
            row if len(row) == len(header) else lacking for row in rows if row or len(header) == 1
        )
        places = {name: header.index(name) for name in columns}
        while block := list(islice(records, _BLOCK_ROWS)):
            cells = list(zip(*block, strict=True))
            for name, encode in encoders.items():
                columns[name] += map(encode, cells[places[name]])
    table = pd.DataFrame(
        {
            name: pd.Series(columns[name], dtype=float if name in schema.bounds else object)
            for name in header
            if name in columns
        }
    )
    if schema.person is None:
        return table, None
    table = table[table[schema.person].notna()].reset_index(drop=True)
    return table, table.pop(schema.person).to_numpy(dtype=object)


@contextmanager
def _csv_rows(path: str) -> Iterator[Iterator[list[str]]]:
    """Iterate over the rows of a CSV file; errors show no data."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        # Only files are opened, never addresses. An invalid byte affects its own cell only.
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # Python 3.10 refuses a file that contains a null character.
            yield csv.reader((line.replace("\0", "\ufffd") for line in file), strict=True)
    except csv.Error:
        raise CommandError(
            f"{path} must be a CSV file: a field that starts with a quote must end with one, and "
            "quotes within it must be doubled"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _check_header(path: str, header: list[str], schema: "Schema") -> None:
    """Refuse a header with other columns than the schema."""
    # The first line may be a record, so that only names of the schema are shown.
    hint = f"the first line of {path} must hold the names of its columns, separated by commas"
    lacking = [name for name in schema.names if name not in header]
    if lacking:
        raise CommandError(f"{path} has no column {lacking[0]!r}, which the schema names; {hint}")
    twice = [name for name in schema.names if header.count(name) > 1]
    if twice:
        raise CommandError(f"{path} has more than one column {twice[0]!r}")
    unknown = [place for place, name in enumerate(header, 1) if name not in schema.names]
    if unknown:
        raise CommandError(
            f"{path} has {plural(len(unknown), 'column')} that the schema does not name, the first "
            f"at position {unknown[0]}; add it to the schema with states, bounds, find = true or "
            "drop = true"
        )


def _text_encoder(missing: list[str]) -> Callable[[str | None], str | None]:
    """Return a function from a cell to its text, or None if it is missing."""
    known: dict[str | None, str | None] = dict.fromkeys((*missing, None))
    return lambda cell: known.setdefault(cell, cell)  # equal texts are one object


def _number_encoder(missing: list[str]) -> Callable[[str | None], float]:
    """Return a function from a cell to its number, or nan."""
    absent = frozenset(missing)

    def encode(cell: str | None) -> float:
        # float() accepts 1_000, which is Python's notation and not a number in a table.
        if cell is None or cell in absent or "_" in cell:
            return math.nan
        try:
            return float(cell)
        except ValueError:
            return math.nan

    return encode


@dataclass(frozen=True)
class Schema:
    """Public description of the columns of a table."""

    states: dict[str, list[str]]
    bounds: dict[str, tuple[float, float]]
    find: list[str]  # columns whose values nobody can list
    drop: list[str]  # columns that are left out
    missing: list[str]  # texts that mean a missing value
    structure: dict[str, Any] | None
    person: str | None  # column of ids
    max_rows: int

    @property
    def names(self) -> list[str]:
        """All columns that the table may have."""
        ids = [] if self.person is None else [self.person]
        return [*self.states, *self.bounds, *self.find, *self.drop, *ids]

    def encoders(self) -> dict[str, Any]:
        """Return a function for each column that encodes its cells one by one."""
        texts = self.find if self.person is None else [*self.find, self.person]
        return {
            **{name: {s: s for s in states}.get for name, states in self.states.items()},
            **dict.fromkeys(self.bounds, _number_encoder(self.missing)),
            **{name: _text_encoder(self.missing) for name in texts},
        }


def read_schema(path: str) -> Schema:
    """Read a schema from a file, or refuse it and name the mistake."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        given = (json if path.lower().endswith(".json") else tomllib).loads(text)
    except ValueError as error:  # of either format, or of the encoding
        raise CommandError(f"{path}: {error}") from None
    except RecursionError:
        raise CommandError(f"{path}: a schema must not be nested so deeply") from None
    if not isinstance(given, Mapping) or not set(given) <= _KEYS:
        raise CommandError(f"{path}: a schema may only have the parts {', '.join(sorted(_KEYS))}")
    parts = _split_by_kind(path, given.get("columns"))
    missing = _texts(path, "missing", given.get("missing", [""]))
    states = {name: _texts(path, name, texts) for name, texts in parts["states"].items()}
    for name, texts in states.items():
        if not set(missing).isdisjoint(texts):
            raise CommandError(f"{path}: a state of column {name!r} must not be in missing too")
    persons = given.get("persons", {})
    if not isinstance(persons, Mapping) or not set(persons) <= {"column", "max_rows"}:
        raise CommandError(f"{path}: persons must have a column, and may have max_rows")
    if not isinstance(persons.get("column", ""), str):
        raise CommandError(f"{path}: the column of persons must be a text")
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


def _split_by_kind(path: str, columns: Any) -> dict[str, dict[str, Any]]:
    """Return the columns of each kind."""
    if not isinstance(columns, Mapping) or not columns:
        raise CommandError(f"{path}: columns must be a table with an entry for each column")
    parts: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
    for name, column in columns.items():
        kinds = [kind for kind in _KINDS if isinstance(column, Mapping) and kind in column]
        if len(kinds) != 1 or len(column) != 1 or column[kinds[0]] is False:
            raise CommandError(
                f"{path}: column {name!r} must have one of states = [...], bounds = [low, high], "
                "find = true and drop = true"
            )
        parts[kinds[0]][name] = column[kinds[0]]
    return parts


def _texts(path: str, name: str, values: Any) -> list[str]:
    """Check a list of texts; a whole number may be given without quotes."""
    if not isinstance(values, list):
        raise CommandError(f"{path}: {name!r} must be a list of texts")
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        raise CommandError(
            f"{path}: {name!r} must be a list of texts as in the table, or of whole numbers; put "
            'others in quotes, such as "250.00" or "True"'
        )
    return [str(value) for value in values]


def _pair(path: str, name: str, bounds: Any) -> tuple[float, float]:
    numbers = isinstance(bounds, list) and all(
        isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds
    )
    if not numbers or len(bounds) != 2:
        raise CommandError(f"{path}: bounds of {name!r} must be two numbers, [low, high]")
    return bounds[0], bounds[1]


def _draft(options: Any) -> int:
    with open(options.codebook, encoding="utf-8-sig", newline="") as file:
        text = _draft_schema(options.codebook, csv.DictReader(file))
    if options.output is None or options.output == "-":
        print(text, end="")
    else:
        print(f"Wrote {write(options.output, text, [options.codebook])}")
    return EXIT_OK


def _draft_schema(path: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a schema in TOML from the rows of a code book."""
    columns: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        cells = {str(key).strip().lower(): (value or "").strip() for key, value in row.items()}
        if not cells.get("column"):
            raise CommandError(f"{path}: every row of a code book must have an entry in 'column'")
        entry = columns.setdefault(cells["column"], {"states": [], "bounds": []})
        if cells.get("low") or cells.get("high"):
            entry["bounds"] = [_number(path, cells, key) for key in ("low", "high")]
        elif cells.get("value"):
            entry["states"].append(cells["value"])
    if not columns:
        raise CommandError(f"{path}: a code book must have at least one row below its header")
    lines = ['missing = [""]']
    for name, entry in columns.items():
        lines += ["", f"[columns.{_quoted(name)}]"]
        if entry["states"] and entry["bounds"]:
            raise CommandError(f"{path}: column {name!r} has both values and a range")
        if entry["bounds"]:
            lines.append(f"bounds = [{', '.join(entry['bounds'])}]")
        elif entry["states"]:
            states = ", ".join(map(_quoted, dict.fromkeys(entry["states"])))
            lines.append(f"states = [{states}]")
        else:
            lines.append("find = true  # values of enough records are found privately")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote a text for TOML: as in JSON, with one more control character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(path: str, cells: Mapping[str, str], key: str) -> str:
    """Return a number as it was written: a whole number stays whole."""
    try:
        value = float(cells.get(key, ""))
    except ValueError:
        raise CommandError(f"{path}: {key!r} of {cells['column']!r} must be a number") from None
    try:
        return str(int(cells[key]))
    except ValueError:
        return repr(value)
