"""How long large tables take to be learnt and drawn, and in how much memory."""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from skdirdp import PrivateBayesNet

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import peak_memory

SIZES = ((10_000, 50), (100_000, 50), (1_000_000, 50), (100_000, 100))
QUICK_SIZES = ((2000, 10),)
#: Of the largest table, in seconds and MiB.
WITHIN = {"rows": 1_000_000, "columns": 50, "seconds": 120, "MiB": 4096}


def mixed_table(n_rows: int, n_columns: int) -> pd.DataFrame:
    """Numbers and categories, half of each, that depend on one hidden state."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 4, n_rows)
    columns = {}
    for i in range(n_columns):
        if i % 2:
            columns[f"number {i}"] = 2 * hidden + rng.normal(0, 2, n_rows)
        else:
            codes = (hidden + rng.integers(0, 6, n_rows) * (rng.random(n_rows) < 0.6)) % 10
            columns[f"category {i}"] = pd.Categorical.from_codes(codes, categories=range(10))
    return pd.DataFrame(columns)


def learn_and_draw(n_rows: int, n_columns: int) -> Callable[[], None]:
    X = mixed_table(n_rows, n_columns)
    states = {name: list(range(10)) for name in X if name.startswith("category")}
    bounds = {name: (-8.0, 14.0) for name in X if name.startswith("number")}
    model = PrivateBayesNet(states=states, bounds=bounds)
    model.fit(X[:100])  # exclude imports from the measurement
    return lambda: model.fit(X).sample(n_rows)


class SynthesisSize(Experiment):
    name = "synthesis-size"
    title = "Synthetic records of large tables: time and memory"
    reproduces = "tables of up to a million records and 100 columns, learnt and drawn on one core"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        sizes = QUICK_SIZES if settings.quick else SIZES
        return [{"rows": rows, "columns": columns} for rows, columns in sizes]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        _, peak = peak_memory(learn_and_draw, task["rows"], task["columns"])
        call = learn_and_draw(task["rows"], task["columns"])
        start = time.process_time()
        call()
        return [{"seconds": time.process_time() - start, "MiB": peak}]

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, width=5, height=3)
        for columns, part in results.groupby("columns"):
            axis.loglog(part["rows"], part["seconds"], "o-", label=f"{columns} columns")
        axis.set_xlabel("records")
        axis.set_ylabel("seconds of processor time")
        axis.legend()
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return results.round({"seconds": 1, "MiB": 0})

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Seconds of processor time, of one core, to learn the table and draw as many records. "
            "Half of the columns are numbers and half categories, at (1, 1e-5)-DP. The peak is of "
            "the whole process, with the table itself and the records that were drawn."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        wanted = (results["rows"] == WITHIN["rows"]) & (results["columns"] == WITHIN["columns"])
        return [
            Claim(
                "skdirdp",
                "A million records of 50 columns within 2 minutes of one core and 4 GiB",
                bool(row.seconds <= WITHIN["seconds"] and row.MiB <= WITHIN["MiB"]),
                f"{row.seconds:.0f} s and {row.MiB / 1024:.1f} GiB",
            )
            for row in results[wanted].itertuples()
        ]
