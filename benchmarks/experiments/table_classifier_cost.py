"""Time and memory of a fit of PrivateTableClassifier."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd

from skdirdp import PrivateTableClassifier, Schema

from .. import figures, workloads
from ..experiment import Claim, Experiment, Row, Settings
from ..resources import resources
from ..timing import alternate

N_COLUMNS, N_CATEGORIES = 20, 10
CLASSES = (2, 5)
#: Rows and columns of a wide table.
WIDE, QUICK_WIDE = (5000, 200), (500, 40)
AT_MOST_RATIO, AT_MOST_SECONDS, AT_MOST_MIB = 4.0, 10.0, 2048.0


def wide_table(n: int, n_columns: int) -> tuple[Schema, pd.DataFrame]:
    """As many columns of numbers as of categories, of which every tenth one has a signal."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n, n_columns // 2))
    codes = rng.integers(0, N_CATEGORIES, (n, n_columns - n_columns // 2))
    signal = numbers[:, ::10].sum(axis=1) + (codes[:, ::10] / 3 - 1.5).sum(axis=1)
    columns = {f"number {k}": column for k, column in enumerate(numbers.T)}
    columns |= {f"code {k}": column for k, column in enumerate(codes.T)}
    declared: dict[str, object] = {f"number {k}": (-4.0, 4.0) for k in range(numbers.shape[1])}
    declared |= {f"code {k}": list(range(N_CATEGORIES)) for k in range(codes.shape[1])}
    y = (signal + rng.logistic(size=n) > 0).astype(int)
    return Schema({**declared, "y": [0, 1]}), pd.DataFrame({**columns, "y": y})


@contextmanager
def wide_fit(n: int, n_columns: int) -> Iterator[partial]:
    schema, table = wide_table(n, n_columns)
    model = PrivateTableClassifier(schema)
    yield partial(_fit, model, table)


def _fit(model: PrivateTableClassifier, table: pd.DataFrame) -> float:
    """Fit, and return the accuracy on the same records."""
    return float(np.mean(model.fit(table, y="y").predict(table.drop(columns="y")) == table["y"]))


def time_long(n: int, n_classes: int) -> Row:
    """Fits of the same categories, as a frame with a schema and as an array of codes."""
    X, y = workloads.categories(n, N_COLUMNS, N_CATEGORIES, n_classes)
    names = [f"code {k}" for k in range(N_COLUMNS)]
    codes = {name: list(range(N_CATEGORIES)) for name in names}
    schema = Schema({**codes, "y": list(range(n_classes))})
    table = pd.DataFrame(X, columns=names).assign(y=y)
    ours = PrivateTableClassifier(schema)
    theirs = workloads.private_categorical(N_CATEGORIES, n_classes)
    fits = partial(ours.fit, table, y="y"), partial(theirs.fit, X, y)
    for fit in fits:
        fit()  # calibrates
    ours_seconds, theirs_seconds, encoding = alternate(
        *fits, partial(schema.encoder().fit(table).transform, table), repeats=3
    )
    return {
        "seconds": ours_seconds,
        "naive_bayes": theirs_seconds,
        "ratio": ours_seconds / theirs_seconds,
        "encoding": encoding,
    }


class TableClassifierCost(Experiment):
    name = "table-classifier-cost"
    title = "Time and memory of PrivateTableClassifier"
    reproduces = "fits of a long and of a wide table, beside DirichletCategoricalNB"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        n = 10_000 if settings.quick else 1_000_000
        rows, columns = QUICK_WIDE if settings.quick else WIDE
        tasks = [{"rows": n, "columns": N_COLUMNS, "classes": classes} for classes in CLASSES]
        return [*tasks, {"rows": rows, "columns": columns, "classes": 2}]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        if task["columns"] == N_COLUMNS:
            return [time_long(task["rows"], task["classes"])]
        found = resources(wide_fit, task["rows"], task["columns"], repeats=2)
        return [{"seconds": found.seconds, "peak": found.peak, "accuracy": found.result}]

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, width=7, height=0.4 * len(results) + 1.5)
        places = np.arange(len(results))
        axis.barh(places, results["seconds"], color="#0b61a4", label="PrivateTableClassifier.fit")
        axis.plot(results["naive_bayes"], places, "s", color="#c1440e", label="naive Bayes")
        axis.set_yticks(places, [_case(row) for _, row in results.iterrows()])
        axis.set(xscale="log", xlabel="seconds")
        figures.legend_below(figure, [axis], columns=2)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "table": [_case(row) for _, row in results.iterrows()],
                "seconds": results["seconds"],
                "DirichletCategoricalNB": results["naive_bayes"],
                "ratio": results["ratio"],
                "encoding alone": results["encoding"],
                "peak, MiB": results["peak"],
                "accuracy": results["accuracy"],
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Long tables: least processor times of fits that take turns. PrivateTableClassifier "
            "takes a frame and its schema, and encodes it; DirichletCategoricalNB takes the same "
            "codes as an array. The wide table: seconds by the clock of a fit and of predictions "
            "for the same records, in a process of its own, and the most memory that it held, data "
            "and code included."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        long = results[results["ratio"].notna()]
        worst = long.loc[long["ratio"].idxmax()]
        wide = results[results["peak"].notna()].iloc[0]
        return [
            Claim(
                "skdirdp",
                f"PrivateTableClassifier.fit of {worst['rows']:.0f} x {N_COLUMNS} takes at most "
                f"{AT_MOST_RATIO:g} times as long as DirichletCategoricalNB.fit",
                bool(worst["ratio"] <= AT_MOST_RATIO),
                "; ".join(
                    f"{row['ratio']:.2f} times ({row['classes']:.0f} classes)"
                    for _, row in long.iterrows()
                ),
            ),
            Claim(
                "skdirdp",
                f"PrivateTableClassifier fits {wide['rows']:.0f} x {wide['columns']:.0f} within "
                f"{AT_MOST_SECONDS:g} s and {AT_MOST_MIB / 1024:g} GiB",
                bool(wide["seconds"] <= AT_MOST_SECONDS and wide["peak"] <= AT_MOST_MIB),
                f"{wide['seconds']:.2f} s, {wide['peak'] / 1024:.2f} GiB",
            ),
        ]


def _case(row: pd.Series) -> str:
    return f"{row['rows']:.0f} x {row['columns']:.0f}, {row['classes']:.0f} classes"
