"""``skdirdp synthesize``: synthetic records from a CSV file and a schema."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..reporting.pages import write
from ..reporting.redact import check_output, is_stream
from ..schema.files import csv_text, read_mapping
from .ledger import add_command, open_ledger, real_number, whole_number
from .schema import load_schema
from .terminal import EXIT_OK, EXIT_USAGE, CommandError, terminal_width, wrap

_CONSTRAINTS = ("required", "forbidden", "order")
_MANY_MISSING = 0.5  # share of missing values that suggests a wrong schema


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    about = "learn a table privately, and write synthetic records"
    parser = add_command(commands, "synthesize", about)
    parser.add_argument("table", metavar="IN", help="a CSV file with a header")
    parser.add_argument("output", metavar="OUT", help="output; replaces an existing file")
    about = "public constraints on the structure: TOML or JSON with required, forbidden and order"
    parser.add_argument("--structure", metavar="FILE", help=about)
    about = "records to draw (default: as many as IN)"
    parser.add_argument("--rows", type=whole_number, metavar="N", help=about)
    about = "parents of a column (default: 3)"
    parser.add_argument("--max-parents", type=whole_number, default=3, help=about)
    parser.add_argument("--report", metavar="PAGE", help="write a page about the guarantee")
    add_fit_options(parser)
    parser.set_defaults(run=_synthesize)


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that fit an estimator to a table."""
    about = "public description of the columns: TOML, or JSON of the same shape"
    parser.add_argument("--schema", required=True, metavar="FILE", help=about)
    parser.add_argument("--epsilon", type=real_number, required=True, help="the budget")
    about = "delta of the budget (default: 1e-5)"
    parser.add_argument("--delta", type=real_number, default=1e-5, help=about)
    about = "whether neighbouring tables differ by replacing one record (the default), or by "
    about += "adding or removing one"
    relations = ("replace", "add_remove")
    parser.add_argument("--adjacency", choices=relations, default="replace", help=about)
    parser.add_argument("--ledger", help="ledger to charge: a file, or the address of a database")
    parser.add_argument("--name", help="name of the ledger in a database")
    parser.add_argument("--label", help="label of the charge")
    parser.add_argument("--quiet", action="store_true", help="do not print progress")


def open_accountant(options: argparse.Namespace) -> Any:
    """Return the accountant of the options, or None."""
    if options.name is not None and options.ledger is None:
        raise CommandError("--name is for ledgers in a database; pass one to --ledger", EXIT_USAGE)
    return None if options.ledger is None else open_ledger(options.ledger, options.name)


def _synthesize(options: argparse.Namespace) -> int:
    schema = load_schema(options.schema)
    inputs = [options.table, options.schema]
    constraints = None
    if options.structure is not None:
        inputs.append(options.structure)
        constraints = read_mapping(options.structure, "constraints", _CONSTRAINTS)
    check_writable(options.output, inputs)
    check_writable(options.report, [*inputs, options.output])
    accountant = open_accountant(options)
    print_progress(options, "reading the table")
    table = schema.read_csv(options.table)
    print_progress(options, f"learning {len(schema.features)} columns")
    from ..bayes_net import PrivateBayesNet

    model = PrivateBayesNet(
        schema,
        constraints=constraints,
        max_parents=options.max_parents,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        accountant=accountant,
        label=options.label,
    ).fit(table)
    n_rows = round(model.n_records_) if options.rows is None else options.rows
    print_progress(options, f"drawing {n_rows} records")
    records = model.sample(n_rows)
    write(options.output, csv_text(records, schema), inputs)
    if options.report is not None:
        model.privacy_.report(options.report)
    _summarise(options, model, records)
    return EXIT_OK


def check_writable(path: str | None, inputs: list[str]) -> None:
    """Raise an error, before any charge, if the output must not or cannot be written."""
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
        f"Wrote {options.output}: {len(model.columns_)} columns, connected by {edges} edges",
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


def print_progress(options: argparse.Namespace, what: str) -> None:
    """Print a step on the error stream, unless the command is quiet."""
    if not options.quiet:
        print(f"skdirdp: {what}", file=sys.stderr, flush=True)
