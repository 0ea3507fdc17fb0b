"""``skdirdp schema``: draft and check the public description of a table."""

import sys
import warnings
from typing import Any

from ..reporting.pages import write
from ..schema import Schema
from ..schema.files import check_csv_header, to_toml
from .ledger import add_command, add_output
from .terminal import EXIT_OK, Column, format_table, terminal_width

_CODE_BOOK = (
    "a public CSV file with the columns 'column' and 'value', and 'low', 'high' and 'kind' if "
    "needed: a row for each value of a column, or one row with its bounds or its kind"
)
_COLUMNS = (Column("column", 6, 3), Column("kind", 0, 2), Column("values", 10, 1))


def add_to(commands: Any) -> None:
    parser = add_command(commands, "schema", "draft and check the public description of a table")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    draft = add_command(actions, "draft", "draft a schema with a blank for each column to fill in")
    draft.add_argument("table", metavar="TABLE", help="a CSV file; only its header is read")
    draft.set_defaults(run=_draft)
    codebook = add_command(actions, "codebook", "draft a schema from a public code book")
    codebook.add_argument("table", metavar="CODEBOOK", help=_CODE_BOOK)
    codebook.set_defaults(run=_codebook)
    for each in (draft, codebook):
        add_output(each)
    check = add_command(actions, "check", "check a schema, and show its columns")
    check.add_argument("schema", metavar="SCHEMA", help="a TOML file, or JSON of the same shape")
    about = "a CSV file to compare the columns with; only its header is read"
    check.add_argument("table", metavar="TABLE", nargs="?", help=about)
    check.set_defaults(run=_check)


def load_schema(path: str) -> Schema:
    """Read a schema, and print its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        schema = Schema.load(path)
    _print_warnings(found)
    return schema


def _print_warnings(found: list[warnings.WarningMessage]) -> None:
    for warning in found:
        print(f"skdirdp: {warning.message}", file=sys.stderr)


def _draft(options: Any) -> int:
    return _write(options, Schema.draft(options.table))


def _codebook(options: Any) -> int:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        text = to_toml(Schema.from_codebook(options.table))
    _print_warnings(found)
    return _write(options, text)


def _write(options: Any, text: str) -> int:
    if options.output is None or options.output == "-":
        print(text, end="")
    else:
        print(f"Wrote {write(options.output, text, [options.table])}")
    return EXIT_OK


def _check(options: Any) -> int:
    schema = load_schema(options.schema)
    if options.table is not None:
        check_csv_header(options.table, schema)
    rows = [(name, kind.title, kind.describe()) for name, kind in schema.columns.items()]
    print(format_table(_COLUMNS, rows, terminal_width()))
    if schema.person is not None:
        print(f"Protected: at most {schema.max_rows} rows per {schema.person}")
    return EXIT_OK
