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
#: Enough that no step of the fit is left out for few records.
WIDE_EPSILON = 10.0
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
    model = PrivateTableClassifier(schema, epsilon=WIDE_EPSILON, delta=1e-5)
    yield partial(_fit, model, table)


def _fit(model: PrivateTableClassifier, table: pd.DataFrame) -> float:
    """Fit, and return the accuracy on the same records."""
    return float(np.mean(model.fit(table, y="y").predict(table.drop(columns="y")) == table["y"]))


def long_table(n: int, n_classes: int, *, has_signal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Categories, and labels that depend on all columns or on none."""
    X, y = workloads.categories(n, N_COLUMNS, N_CATEGORIES, n_classes)
    if has_signal:
        rng = np.random.default_rng(1)
        effects = 0.3 * rng.normal(size=(N_COLUMNS, N_CATEGORIES, n_classes))
        scores = sum(effect[codes] for effect, codes in zip(effects, X.T, strict=True))
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return X, y


def time_long(n: int, n_classes: int, *, has_signal: bool, repeats: int = 3) -> list[Row]:
    """Fits of the same categories: of arrays, and of frames that both sides encode by a schema."""
    X, y = long_table(n, n_classes, has_signal=has_signal)
    names = [f"code {k}" for k in range(N_COLUMNS)]
    features = Schema({name: list(range(N_CATEGORIES)) for name in names})
    schema = Schema({**features.columns, "y": list(range(n_classes))})
    table = pd.DataFrame(X, columns=names).assign(y=y)
    n_cells = schema[names[0]].n_cells

    def fit_encoded() -> None:
        codes = schema.encoder().fit(table).transform(table)
        workloads.private_categorical(n_cells, n_classes).fit(codes[:, :-1], codes[:, -1])

    fits = (
        partial(PrivateTableClassifier(features, classes=range(n_classes)).fit, X, y),
        partial(workloads.private_categorical(N_CATEGORIES, n_classes).fit, X, y),
        partial(PrivateTableClassifier(schema).fit, table, y="y"),
        fit_encoded,
    )
    for fit in fits:
        fit()  # calibrates
    times = alternate(*fits, repeats=repeats)
    return [
        {"input": kind, "signal": has_signal, "seconds": a, "naive_bayes": b, "ratio": a / b}
        for kind, (a, b) in zip(("arrays", "frames"), (times[:2], times[2:]), strict=True)
    ]


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
            return [
                row
                for has_signal in (False, True)
                for row in time_long(task["rows"], task["classes"], has_signal=has_signal)
            ]
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
                "peak, MiB": results["peak"],
                "accuracy": results["accuracy"],
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Long tables: least processor times of fits that take turns. Both sides take the same "
            "codes as an array, or the same frame, which both encode by its schema. With a signal, "
            "the label depends on all columns; without one, cells are merged and few pairs of "
            "cells are counted. Of a million records, all are counted in the tables of classes, "
            "and about a quarter in later steps. The wide table, at a budget for which no step is "
            f"left out (ε = {WIDE_EPSILON:g}): seconds by the clock of a fit and "
            "of predictions for the same records, in a process of its own, and the most memory "
            "that it held, data and code included."
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
                "; ".join(f"{row['ratio']:.2f} times ({_kind(row)})" for _, row in long.iterrows()),
            ),
            Claim(
                "skdirdp",
                f"PrivateTableClassifier fits {wide['rows']:.0f} x {wide['columns']:.0f} within "
                f"{AT_MOST_SECONDS:g} s and {AT_MOST_MIB / 1024:g} GiB",
                bool(wide["seconds"] <= AT_MOST_SECONDS and wide["peak"] <= AT_MOST_MIB),
                f"{wide['seconds']:.2f} s, {wide['peak'] / 1024:.2f} GiB",
            ),
        ]


def _kind(row: pd.Series) -> str:
    signal = "with a signal" if row["signal"] else "no signal"
    return f"{row['classes']:.0f} classes, {row['input']}, {signal}"


def _case(row: pd.Series) -> str:
    kind = f"{row['classes']:.0f} classes" if pd.isna(row["ratio"]) else _kind(row)
    return f"{row['rows']:.0f} x {row['columns']:.0f}, {kind}"
