"""``skdirdp synthesize``: from a CSV file and a schema to synthetic records."""

import argparse
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from .ledger import _existing, _number, _whole
from .outcome import DONE, USAGE, Refused
from .schema import Schema, read_schema
from .tables import terminal_width, wrapped

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
    _write(options.output, model.sample(n_rows), inputs)
    if options.report is not None:
        model.privacy_.report(options.report)
    _summarise(options, model)
    return DONE


def _learner(options: argparse.Namespace, schema: Schema, accountant: Any) -> Any:
    from ..bayes_net import PrivateBayesNet

    return PrivateBayesNet(
        schema.states,
        schema.bounds,
        structure=schema.structure,
        max_parents=options.max_parents,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        max_rows=schema.max_rows,
        accountant=accountant,
        label=options.label,
    )


def _read(path: str, schema: Schema) -> tuple[Any, Any]:
    """The table's columns by the kinds that the schema says, and whose records they are."""
    import pandas as pd

    from .._messages import errors_without_data

    with errors_without_data(**{path: Path(path)}):
        header = list(pd.read_csv(path, nrows=0, dtype=str).columns)
    unknown = [name for name in header if name not in schema.names]
    lacking = [name for name in schema.names if name not in header]
    if unknown:
        raise Refused(
            f"{path} has a column {unknown[0]!r} that the schema does not name; give it states, "
            "bounds or find = true there, or drop = true"
        )
    if lacking:
        raise Refused(f"{path} has no column {lacking[0]!r}, which the schema names")
    kinds: dict[str, Any] = dict.fromkeys([*schema.states, *schema.find], "category")
    kinds |= dict.fromkeys(schema.bounds, float)
    if schema.person is not None:
        kinds[schema.person] = str
    with errors_without_data(**{path: Path(path)}):
        table = pd.read_csv(
            path,
            usecols=[name for name in header if name not in schema.drop],
            dtype=kinds,
            keep_default_na=False,
            na_values=schema.missing,
        )
    groups = None if schema.person is None else table.pop(schema.person).to_numpy(dtype=object)
    return table, groups


def _check_writable(path: str | None, inputs: list[str]) -> None:
    """Refuse a place that must not or cannot be written, before anything is spent."""
    from ..reporting.places import check_output

    if path is not None:
        check_output(path, inputs)
        with tempfile.NamedTemporaryFile(dir=Path(path).resolve().parent, prefix=".skdirdp"):
            pass
        if Path(path).is_dir():
            raise Refused(f"{path} is a folder; a file is needed")


def _write(path: str, records: Any, inputs: list[str]) -> None:
    from ..reporting.page import write

    text = io.StringIO()
    records.to_csv(text, index=False)
    write(path, text.getvalue(), inputs)


def _summarise(options: argparse.Namespace, model: Any) -> None:
    width = terminal_width()
    edges = sum(map(len, model.structure_.values()))
    lines = [
        f"Wrote {options.output}: {len(model.columns_)} columns, joined by {edges} dependences",
        model.privacy_.statement(),
    ]
    if options.report is not None:
        lines.append(f"Wrote {options.report}")
    print("\n".join(wrapped(line, width) for line in lines))


def _say(options: argparse.Namespace, what: str) -> None:
    if not options.quiet:
        print(f"skdirdp: {what}", file=sys.stderr, flush=True)
