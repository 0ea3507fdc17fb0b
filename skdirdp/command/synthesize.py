"""``skdirdp synthesize``: from a CSV file and a schema to synthetic records."""

import argparse
import csv
import io
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from .._messages import plural
from .ledger import _existing, _number, _whole
from .outcome import DONE, USAGE, Refused
from .schema import Schema, read_schema
from .tables import terminal_width, wrapped

# Rows that are encoded at once.
_BLOCK_ROWS = 10_000
# The part of missing values from which a schema may be wrong.
_MANY = 0.5
# Of characters; the largest that all platforms take.
_LONGEST_FIELD = 2**31 - 1
_ABOUT = "learn a table privately, and write synthetic records"


def add_to(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "synthesize", help=_ABOUT, description=f"{_ABOUT[0].upper()}{_ABOUT[1:]}."
    )
    parser.add_argument("table", metavar="IN", help="a CSV file with a header")
    parser.add_argument("output", metavar="OUT", help="where to write; replaced if it exists")
    parser.add_argument("--schema", required=True, help="what is publicly known of the columns")
    parser.add_argument("--epsilon", type=_number, required=True, help="the budget")
    parser.add_argument(
        "--delta", type=_number, default=1e-5, help="the delta of the budget (default: 1e-5)"
    )
    parser.add_argument(
        "--adjacency",
        choices=("replace", "add_remove"),
        default="replace",
        help="whether neighbours have a record replaced, or one more or fewer (default: replace)",
    )
    parser.add_argument(
        "--rows", type=_whole, metavar="N", help="records to draw (default: as many as IN has)"
    )
    parser.add_argument(
        "--max-parents", type=_whole, default=3, help="of a column in the network (default: 3)"
    )
    parser.add_argument("--ledger", help="what is charged: a file, or the address of a database")
    parser.add_argument("--name", help="which ledger of a database")
    parser.add_argument("--label", help="what the ledger calls the charge")
    parser.add_argument("--report", metavar="PAGE", help="write a page on what is guaranteed")
    parser.add_argument("--quiet", action="store_true", help="do not say what is being done")
    parser.set_defaults(run=_synthesize)


def _synthesize(options: argparse.Namespace) -> int:
    schema = read_schema(options.schema)
    inputs = [options.table, options.schema]
    _check_writable(options.output, inputs)
    _check_writable(options.report, [*inputs, options.output])
    if options.name is not None and options.ledger is None:
        raise Refused("--name says which ledger of a database; --ledger says where", USAGE)
    accountant = None if options.ledger is None else _existing(options.ledger, options.name)
    _say(options, "reading the table")
    table, groups = _read(options.table, schema)
    model = _learner(options, schema, accountant)
    _say(options, f"learning {table.shape[1]} columns")
    model.fit(table, groups=groups)
    n_rows = round(model.n_records_) if options.rows is None else options.rows
    _say(options, f"drawing {n_rows} records")
    records = model.sample(n_rows)
    _write(options.output, records, inputs)
    if options.report is not None:
        model.privacy_.report(options.report)
    _summarise(options, model, records)
    return DONE


def _learner(options: argparse.Namespace, schema: Schema, accountant: Any) -> Any:
    from ..bayes_net import PrivateBayesNet

    return PrivateBayesNet(
        schema.states,
        schema.bounds,
        constraints=schema.structure,
        max_parents=options.max_parents,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        max_rows=schema.max_rows,
        accountant=accountant,
        label=options.label,
    )


def _read(path: str, schema: Schema) -> tuple[Any, Any]:
    """The columns of a CSV file that the schema keeps, and the id of each record.

    Every cell is text, and is encoded by itself: a cell that does not fit the schema is missing
    in its record, and changes no other. A row with too few or too many fields is a record
    whose cells are all missing. Records without an id are left out.
    """
    import pandas as pd

    encoders: dict[str, Any] = {
        name: {state: state for state in states}.get for name, states in schema.states.items()
    }
    encoders |= dict.fromkeys(schema.bounds, _Numbers(schema.missing))
    encoders |= {name: _Texts(schema.missing) for name in schema.find}
    if schema.person is not None:
        encoders[schema.person] = _Texts(schema.missing)
    columns: dict[str, list[Any]] = {name: [] for name in encoders}
    with _csv_rows(path) as rows:
        header = next(rows, [])
        _check_header(path, header, schema)
        lacking = [None] * len(header)
        # A line without a comma is a record where there is one column, and else no row at all.
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
            for name in (name for name in header if name in columns)
        }
    )
    if schema.person is None:
        return table, None
    table = table[table[schema.person].notna()].reset_index(drop=True)
    return table, table.pop(schema.person).to_numpy(dtype=object)


@contextmanager
def _csv_rows(path: str) -> Iterator[Iterator[list[str]]]:
    """The rows of a CSV file, as texts. Errors show no data."""
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        # Only files are opened, and no addresses. A wrong byte is wrong in its cell alone.
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # Python 3.10 refuses a file that holds a null character.
            yield csv.reader((line.replace("\0", "\ufffd") for line in file), strict=True)
    except csv.Error:
        raise Refused(
            f"{path} must be a CSV file: a field that starts with a quote must end with one, and "
            "quotes within it must be doubled"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _check_header(path: str, header: list[str], schema: Schema) -> None:
    """Refuse a header with other columns than the schema has.

    The first line may hold a record, so that names are shown only if the schema has them.
    """
    hint = f"the first line of {path} must hold the names of its columns, separated by commas"
    lacking = [name for name in schema.names if name not in header]
    if lacking:
        raise Refused(f"{path} has no column {lacking[0]!r}, which the schema names; {hint}")
    twice = [name for name in schema.names if header.count(name) > 1]
    if twice:
        raise Refused(f"{path} has more than one column {twice[0]!r}")
    unknown = [place for place, name in enumerate(header, 1) if name not in schema.names]
    if unknown:
        raise Refused(
            f"{path} has {plural(len(unknown), 'column')} that the schema does not name, the first "
            f"at position {unknown[0]}; give it states, bounds or find = true there, or drop = true"
        )


class _Texts:
    """The text of a cell, None if it is missing; equal texts are one object."""

    def __init__(self, missing: list[str]):
        self._known: dict[str | None, str | None] = dict.fromkeys((*missing, None))

    def __call__(self, cell: str | None) -> str | None:
        return self._known.setdefault(cell, cell)


class _Numbers:
    """The number in a cell, nan if there is none."""

    def __init__(self, missing: list[str]):
        self._missing = frozenset((*missing, None))

    def __call__(self, cell: str | None) -> float:
        # float() takes 1_000 for a number, as Python's source does and no table.
        if cell is None or cell in self._missing or "_" in cell:
            return math.nan
        try:
            return float(cell)
        except ValueError:
            return math.nan


def _check_writable(path: str | None, inputs: list[str]) -> None:
    """Refuse a place that must not or cannot be written, before anything is spent."""
    from ..reporting.redact import check_output, is_stream

    if path is not None:
        check_output(path, inputs)
        if Path(path).is_dir():
            raise Refused(f"{path} is a folder; a file is needed")
        if is_stream(path):
            return
        with tempfile.NamedTemporaryFile(dir=Path(path).resolve().parent, prefix=".skdirdp"):
            pass


def _write(path: str, records: Any, inputs: list[str]) -> None:
    from ..reporting.pages import write

    text = io.StringIO()
    records.to_csv(text, index=False)
    write(path, text.getvalue(), inputs)


def _summarise(options: argparse.Namespace, model: Any, records: Any) -> None:
    width = terminal_width()
    edges = sum(map(len, model.structure_.values()))
    lines = [
        f"Wrote {options.output}: {len(model.columns_)} columns, joined by {edges} dependences",
        model.privacy_.statement(),
    ]
    if options.report is not None:
        lines.append(f"Wrote {options.report}")
    # Seen in the synthetic records, which may be shown.
    lines += [
        f"Most values of {name!r} are missing in {options.output}; if that is a surprise, compare "
        "the schema with the code book"
        for name in records
        if records[name].isna().mean() > _MANY
    ]
    print("\n".join(wrapped(line, width) for line in lines))


def _say(options: argparse.Namespace, what: str) -> None:
    if not options.quiet:
        print(f"skdirdp: {what}", file=sys.stderr, flush=True)
