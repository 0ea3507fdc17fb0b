"""``skdirdp crosstab``: private tables of a CSV file, with their intervals."""

import argparse
import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from .._messages import plural
from ..reporting.pages import crosstab_page, write
from .ledger import add_command, real_number
from .schema import load_schema
from .synthesize import (
    add_fit_options,
    check_writable,
    ledger_reminder,
    open_accountant,
    print_progress,
)
from .terminal import EXIT_OK, EXIT_USAGE, CommandError, terminal_width, wrap

_PAGE = "index.html"


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "crosstab", "publish private tables with their intervals")
    parser.add_argument("table", metavar="IN", help="a CSV file with a header")
    about = "folder for a CSV file of each table, and a page; existing files are replaced"
    parser.add_argument("--output", "-o", required=True, metavar="FOLDER", help=about)
    about = "columns of a table, separated by commas; may be repeated (default: all pairs "
    about += "of columns)"
    parser.add_argument("--table", dest="tables", action="append", metavar="COLUMNS", help=about)
    about = "confidence level of the intervals (default: 0.95)"
    parser.add_argument("--confidence", type=real_number, default=0.95, help=about)
    about = "distribution of the noise (default: auto, the smaller variance); gaussian shares the "
    about += "limit of an adaptive ledger with classifiers and synthetic records"
    choices = ("auto", "gaussian", "laplace", "dirichlet")
    parser.add_argument("--mechanism", choices=choices, default="auto", help=about)
    add_fit_options(parser)
    parser.set_defaults(run=_crosstab)


def _crosstab(options: argparse.Namespace) -> int:
    from ..crosstab.estimator import PrivateCrosstab, parse_tables

    if not 0 < options.confidence < 1:
        raise CommandError(
            f"--confidence must be between 0 and 1; got {options.confidence:g}", EXIT_USAGE
        )
    schema = load_schema(options.schema)
    tables = None
    if options.tables is not None:
        tables = [tuple(text.split(",")) for text in options.tables]
    files = _file_names(list(parse_tables(tables, schema)))
    folder = Path(options.output)
    folder.mkdir(exist_ok=True)
    inputs = [options.table, options.schema]
    for name in (*files.values(), _PAGE):
        check_writable(str(folder / name), inputs)
    accountant = open_accountant(options)
    print_progress(options, "reading the table")
    records = schema.read_csv(options.table)
    print_progress(options, f"counting {len(files)} tables")
    tabs = PrivateCrosstab(
        schema,
        tables,
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism=options.mechanism,
        adjacency=options.adjacency,
        accountant=accountant,
        label=options.label,
    ).fit(records)
    print_progress(options, "computing intervals")
    # Records of one person are not independent, so nothing is said about the population.
    population = not tabs.privacy_.unit.is_person
    sections = []
    for columns, name in files.items():
        estimates = tabs.share(columns, confidence=options.confidence, population=population)
        frame = _long_table(tabs, columns, estimates)
        write(folder / name, frame.to_csv(index=False, lineterminator="\n"), inputs)
        sections.append((columns, name, frame, estimates))
    report = tabs.privacy_
    page = crosstab_page(report, tabs.categories_, sections, population)
    write(folder / _PAGE, page, inputs)
    lines = [f"Wrote {plural(len(files), 'table')} and {folder / _PAGE}", report.statement()]
    print(wrap([*lines, *ledger_reminder(options)], terminal_width()))
    return EXIT_OK


def _file_names(tables: Sequence[tuple[Hashable, ...]]) -> dict[tuple[Hashable, ...], str]:
    """Return a distinct file name for each table, of letters that every system allows."""
    names: dict[tuple[Hashable, ...], str] = {}
    taken: set[str] = {_PAGE.partition(".")[0]}
    for columns in tables:
        stem = "-".join(re.sub(r"\W+", "_", str(name))[:40] for name in columns)
        number, distinct = 1, stem
        while distinct.casefold() in taken:
            number += 1
            distinct = f"{stem}-{number}"
        taken.add(distinct.casefold())
        names[columns] = f"{distinct}.csv"
    return names


def _long_table(tabs: Any, columns: tuple[Hashable, ...], estimates: Any) -> Any:
    """Return a row for each cell: categories, the estimated count, the share and its limits."""
    from itertools import product

    import pandas as pd

    from ..displays.tables import category_text

    labels = [map(category_text, tabs.categories_[name]) for name in columns]
    frame = pd.DataFrame(list(product(*labels)), columns=pd.Index(columns, dtype=object))
    counts = tabs.table(*columns, margins=False).to_numpy().ravel()
    added = {"count": counts.round(1)}
    for name in ("value", "low", "high"):
        added["share" if name == "value" else name] = getattr(estimates, name).ravel().round(6)
    return pd.concat([frame, pd.DataFrame(added)], axis=1)
