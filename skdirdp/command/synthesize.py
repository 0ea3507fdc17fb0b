"""``skdirdp synthesize``: synthetic records from a CSV file and a schema."""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Hashable, Mapping
from datetime import datetime, timezone
from math import isnan
from pathlib import Path
from typing import Any

from .. import __version__
from .._messages import plural
from ..reporting.exports import QualityReport, SheetSection, sheet_text
from ..reporting.pages import measured_statement, sheet_page, write
from ..reporting.redact import check_output, is_special_path
from ..schema import Key
from ..schema.files import csv_text, read_mapping
from .ledger import add_command, open_ledger, real_number, whole_number
from .schema import load_schema
from .terminal import EXIT_OK, EXIT_USAGE, CommandError, terminal_width, wrap

_CONSTRAINTS = ("required", "forbidden", "order")
_SHEET_TITLE = "Data sheet of synthetic records"
_GOOD_FOR = [
    "Writing and testing code for the real table: columns, types and domains are the same.",
    "Teaching, demonstrations and plans of an analysis.",
    "Shares, means and dependences of the columns whose errors below are small for the purpose.",
]
_NOT_GOOD_FOR = [
    "Statements about individuals: no record belongs to a real person.",
    "Rare groups and rare combinations: noise of the size below is added to every count.",
    "Dependences that the network does not have, of more columns than a table has, and formulas "
    "between numbers.",
    "Standard errors, tests and intervals from one table as if its records were real: they are "
    "too small, because they contain neither the noise nor the error of the first sample.",
]
_SEVERAL = (
    "Each table was drawn from its own draw of the network's parameters. Compute the estimate and "
    "its variance on each of the m tables, as if its records were real, and combine them by "
    "skdirdp.inference.combine. The variance B between the estimates estimates S + V, with the "
    "mean V of the variances and the variance S of the parameters, and the variance of the mean "
    "estimate is (1 + 1/m) S + V/m. S is drawn as (m - 1) B / c - V, or 0 if this is negative, "
    "where c has a chi-squared distribution with m - 1 degrees of freedom; the interval is that of "
    "the mixture of normal distributions. The rule V + B/m for missing data is wrong here. "
    "Intervals do not contain the error of dependences that the network lacks."
)
_ONE = (
    "This is one table. Intervals and tests need several (skdirdp synthesize --tables 20), whose "
    "estimates skdirdp.inference.combine combines."
)


def add_to(commands: Any) -> None:
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
    about = "write M tables for statistical inference, as OUT with numbers (default rows: 5 x IN)"
    parser.add_argument("--tables", type=whole_number, metavar="M", help=about)
    parser.add_argument("--report", metavar="PAGE", help="write a page about the guarantee")
    about = "write a page about the errors that are expected from the noise"
    parser.add_argument("--quality", metavar="PAGE", help=about)
    about = "budget for measured errors on the page, in addition to --epsilon"
    parser.add_argument("--measure-epsilon", type=real_number, metavar="E", help=about)
    about = "write a data sheet for users of the records: .md or .html"
    parser.add_argument("--sheet", metavar="FILE", help=about)
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
    parser.add_argument("--ledger", help="ledger to charge: a file, or the URL of a database")
    parser.add_argument("--name", help="name of the ledger in a database")
    parser.add_argument("--label", help="label of the charge")
    parser.add_argument("--quiet", action="store_true", help="do not print progress")


def open_accountant(options: argparse.Namespace) -> Any:
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
    outputs = _check_outputs(options, inputs)
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
    # The records are written first: a charge for measured errors that is refused loses nothing.
    first = _write_records(options, model, schema, outputs, inputs)
    if options.quality is not None or options.sheet is not None:
        _write_quality(options, model, schema, table, len(outputs))
    if options.report is not None:
        model.privacy_.report(options.report)
    _summarise(options, model, first, outputs)
    return EXIT_OK


def _check_outputs(options: argparse.Namespace, inputs: list[str]) -> list[str]:
    """Return the paths of the tables, after checks of all outputs before any charge."""
    if options.measure_epsilon is not None and options.quality is None and options.sheet is None:
        raise CommandError("--measure-epsilon needs --quality or --sheet", EXIT_USAGE)
    if options.sheet is not None and Path(options.sheet).suffix not in (".md", ".html", ".htm"):
        raise CommandError("--sheet must be a file that ends in .md or .html", EXIT_USAGE)
    outputs = [options.output]
    if options.tables is not None:
        if options.tables < 2:
            raise CommandError(f"--tables must be at least 2; got {options.tables}", EXIT_USAGE)
        if is_special_path(options.output):
            raise CommandError("--tables needs a file as OUT, whose name gets numbers", EXIT_USAGE)
        path, width = Path(options.output), len(str(options.tables))
        outputs = [
            str(path.with_name(f"{path.stem}-{number:0{width}}{path.suffix}"))
            for number in range(1, options.tables + 1)
        ]
    used = [*inputs]
    for path in (*outputs, options.report, options.quality, options.sheet):
        check_writable(path, used)
        used += [] if path is None else [path]
    return outputs


def _write_records(
    options: argparse.Namespace, model: Any, schema: Any, outputs: list[str], inputs: list[str]
) -> Any:
    """Write the synthetic tables, and return the first."""
    if options.tables is None:
        n_rows = round(model.n_records_) if options.rows is None else options.rows
        print_progress(options, f"drawing {plural(n_rows, 'record')}")
        tables = [model.sample(n_rows)]
    else:
        print_progress(options, f"drawing {options.tables} tables")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tables = model.sample_tables(options.tables, n=options.rows)
        for each in caught:
            print(f"skdirdp: {each.message}", file=sys.stderr)
    for number, (path, records) in enumerate(zip(outputs, tables, strict=True), 1):
        if len(outputs) > 1:
            print_progress(options, f"writing table {number} of {len(outputs)}")
        write(path, csv_text(records, schema), inputs)
    return tables[0]


def _write_quality(
    options: argparse.Namespace, model: Any, schema: Any, table: Any, n_tables: int
) -> None:
    measured = {}
    if options.measure_epsilon is not None:
        print_progress(options, "measuring errors")
        measured = {"X": table, "measure_epsilon": options.measure_epsilon}
    quality = model.quality(**measured)
    if options.quality is not None:
        quality.report(options.quality)
    if options.sheet is not None:
        sections = _sheet_sections(options, model, schema, quality, n_tables)
        as_text = Path(options.sheet).suffix == ".md"
        write(options.sheet, (sheet_text if as_text else sheet_page)(_SHEET_TITLE, sections))


def _sheet_sections(
    options: argparse.Namespace, model: Any, schema: Any, quality: QualityReport, n_tables: int
) -> list[SheetSection]:
    n_records = f"{model.n_records_:,.0f} records"
    if model.privacy_.n_records is None:
        n_records = f"about {n_records} (the exact number is protected)"
    released = (
        f"{plural(n_tables, 'table')} of synthetic records. A Bayesian network was learnt from "
        f"{n_records} with differential privacy, and the synthetic records were drawn from it. "
        "Drawing records costs no privacy, however many are drawn."
    )
    measured = quality.measured_privacy
    statements = [model.privacy_.statement()]
    if measured is not None:
        statements.append(measured_statement(measured.statement()))
    kinds, states = schema.columns, model.states_
    columns = [
        (name, kinds[name].describe(), len(states[name]), ", ".join(map(str, above)) or "none")
        for name, above in ((name, model.structure_[name]) for name in model.columns_)
    ]
    summary = quality.summary
    names = ["number of columns", *summary.columns]
    errors = [
        [ways, *("unknown" if isnan(value) else f"{value:.3g}" for value in row)]
        for ways, row in zip(summary.index, summary.to_numpy().tolist(), strict=True)
    ]
    explained = (
        "An error is the share of records that would have to change to turn one distribution into "
        "the other, as a mean over margins of one, two and three columns. Expected errors are "
        "those of the noise alone, before post-processing; of margins that are in no released "
        "table they are unknown."
    )
    made = [
        f"Made on {datetime.now(timezone.utc):%Y-%m-%d at %H:%M} UTC by skdirdp {__version__}, "
        "class PrivateBayesNet.",
        f"ε = {options.epsilon:g}, δ = {options.delta:g}, adjacency {options.adjacency!r}, at most "
        f"{plural(options.max_parents, 'parent')} of a column.",
        "Columns, bounds and categories were declared in a schema, and are public.",
    ]
    if options.ledger is not None:
        made.append("The release is charged to a ledger of the data set.")
    warned = [list(quality.warnings)] if quality.warnings else []
    network = "states are the values or ranges that the network distinguishes, and parents the "
    network += "columns that a column depends on directly in the network."
    return [
        ("What was released", [released]),
        ("Privacy", statements),
        (
            "Columns",
            [
                (["column", "domain", "states", "parents"], columns),
                f"Here, {network}",
                *_uncounted_notes(kinds),
                *_constraint_notes(schema, quality),
            ],
        ),
        ("What the records are good for", [_GOOD_FOR]),
        ("What they are not good for", [_NOT_GOOD_FOR]),
        ("Errors", [explained, (names, errors), *warned]),
        ("Intervals and tests", [_SEVERAL if n_tables > 1 else _ONE]),
        ("Provenance", [made]),
    ]


def _uncounted_notes(kinds: Mapping[Hashable, Any]) -> list[str]:
    """Return sentences on keys and on columns that are left out."""
    keys = [str(name) for name, kind in kinds.items() if isinstance(kind, Key)]
    left_out = [str(n) for n, kind in kinds.items() if not (kind.is_counted or str(n) in keys)]
    notes = [f"Columns that are left out: {', '.join(left_out)}."] if left_out else []
    return notes + ([f"Keys, which have new values: {', '.join(keys)}."] if keys else [])


def _constraint_notes(schema: Any, quality: QualityReport) -> list[Any]:
    """Return paragraphs of the data sheet about constraints."""
    if not schema.constraints:
        return []
    return [
        "All records satisfy the constraints below. Of the records that the network draws, "
        f"{quality.rejected:.1%} violate one and are rejected. Others are chosen so that the "
        "shares and correlations of the columns in constraints are kept as far as possible.",
        list(schema.constraints),
    ]


def check_writable(path: str | None, inputs: list[str]) -> None:
    """Raise an error, before any charge, if the output must not or cannot be written."""
    if path is None:
        return
    check_output(path, inputs)
    if Path(path).is_dir():
        raise CommandError(f"{path} is a folder; give a file")
    if not is_special_path(path):
        with tempfile.NamedTemporaryFile(dir=Path(path).resolve().parent, prefix=".skdirdp"):
            pass


def _summarise(options: argparse.Namespace, model: Any, records: Any, outputs: list[str]) -> None:
    edges = sum(map(len, model.structure_.values()))
    written = outputs[0] if len(outputs) == 1 else f"{outputs[0]} to {outputs[-1]}"
    lines = [
        f"Wrote {written}: {len(model.columns_)} columns, connected by {edges} edges",
        model.privacy_.statement(),
    ]
    pages = (options.quality, options.sheet, options.report)
    lines += [f"Wrote {path}" for path in pages if path is not None]
    # Computed from the release: columns without information, and a budget that is too small.
    lines += model.quality().warnings
    print(wrap([*lines, *ledger_reminder(options)], terminal_width()))


def ledger_reminder(options: argparse.Namespace) -> list[str]:
    """Return a sentence about a release that no ledger recorded."""
    if options.ledger is not None:
        return []
    return ["Not charged to a ledger. To limit all releases of this data set, pass --ledger."]


def print_progress(options: argparse.Namespace, what: str) -> None:
    """Print a step on the error stream, unless the command is quiet."""
    if not options.quiet:
        print(f"skdirdp: {what}", file=sys.stderr, flush=True)
