"""Whether intervals that cover more than nominally could be narrower."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from skdirdp.inference import Estimate

from ..experiment import Claim, Experiment, Row, Settings, seeded
from .inference_coverage import (
    CONFIDENCE,
    MOST,
    QUICK_RUNS,
    covered,
    drawn,
    estimates,
    figure,
    measures,
    truths,
)

RUNS = 500
#: Experiments whose cells above the limit are measured.
MEASURED = ("inference-coverage", "inference-association")
#: Every third combination of mechanism, adjacency, number of records and epsilon is measured.
STEP = 3
RESULTS = Path(__file__).parents[1] / "results"
TASK = ["mechanism", "adjacency", "n", "epsilon"]
#: Intervals are shrunk by this factor.
FACTOR = 0.8
#: Nothing can be said if more than this share of the intervals are the whole range.
MOSTLY = 0.5
#: Mass of a bin with hardly any records, and of all rows but two.
RARE = 0.02


def even(rows: int, columns: int) -> np.ndarray:
    """Equally likely rows and columns, with a linear association."""
    u, v = (np.arange(k) - (k - 1) / 2 for k in (rows, columns))
    dependence = np.outer(u / u.std(), v / v.std())
    return (1 + 0.3 * dependence) / (rows * columns)


def diagonal(rows: int, columns: int) -> np.ndarray:
    """Equally likely rows, each of which has a column of its own for half of its records."""
    own = np.eye(columns)[np.arange(rows) % columns]
    return (own + 1 / columns) / (2 * rows)


def two_rows(rows: int, columns: int) -> np.ndarray:
    """Two large rows, half of whose records are in the first column."""
    of_rows = np.full(rows, RARE / max(rows - 2, 1))
    of_rows[:2] = (1 - of_rows[2:].sum()) / 2
    of_columns = np.array([0.5, *[0.5 / (columns - 1)] * (columns - 1)])
    return np.outer(of_rows, of_columns)


def opposite(rows: int, columns: int) -> np.ndarray:
    """Two large rows: one has nearly all of its records in the first column, the other few."""
    of_first = np.full(rows, 0.5)
    of_first[:2] = 1 - RARE, RARE
    other = np.repeat((1 - of_first)[:, np.newaxis] / (columns - 1), columns - 1, axis=1)
    table = np.hstack([of_first[:, np.newaxis], other])
    return two_rows(rows, columns).sum(axis=1, keepdims=True) * table


def first_column(rows: int, columns: int) -> np.ndarray:
    """Nearly all records in the first column."""
    of_columns = np.array([1 - RARE, *[RARE / (columns - 1)] * (columns - 1)])
    return np.outer(np.full(rows, 1 / rows), of_columns)


def rare_median(rows: int, columns: int) -> np.ndarray:
    """A bin in the middle that has the median, and hardly any records."""
    of_columns = np.zeros(columns)
    middle = columns // 2
    of_columns[:middle] = (0.5 - RARE / 20) / middle
    of_columns[middle] = RARE / 10
    of_columns[middle + 1 :] = (0.5 - RARE / 20) / max(columns - middle - 1, 1)
    return np.outer(np.full(rows, 1 / rows), of_columns / of_columns.sum())


def half_first(rows: int, columns: int) -> np.ndarray:
    """A first bin that has just more than half of the records."""
    of_columns = np.array([0.5 + 1e-9, *[(0.5 - 1e-9) / (columns - 1)] * (columns - 1)])
    return np.outer(np.full(rows, 1 / rows), of_columns)


#: Populations at which the interval of each statistic is expected to cover least.
POPULATIONS: dict[str, tuple[Callable[[int, int], np.ndarray], ...]] = {
    "share": (even,),
    "conditional share": (even,),
    "difference": (even, two_rows, opposite),
    "odds ratio": (even, two_rows),
    "mean": (even, first_column),
    "quantile": (rare_median, half_first),
    "correlation": (even, diagonal),
    "Cramer's V": (even, diagonal),
}


@cache
def high_cells() -> pd.DataFrame:
    """All cells that cover more than the limit, with the shape of their table."""
    read = [pd.read_csv(RESULTS / f"{name}.csv") for name in MEASURED]
    cells = pd.concat(read, keys=MEASURED, names=["experiment", None]).reset_index("experiment")
    cells["shape"] = cells["table"].str.split(",").str[0]
    return cells[cells["rate"] > MOST]


def shrunk(found: Estimate, kind: str) -> Estimate:
    """Narrower intervals with the same estimate; ratios on a logarithmic scale."""
    value, low, high = found.value, found.low, found.high
    if kind == "odds ratio":
        with np.errstate(all="ignore"):
            value = np.clip(value, 1e-9, 1e9)
            ends = [value * (end / value) ** FACTOR for end in (low, high)]
        return Estimate(value, *ends, found.confidence)
    return Estimate(
        value, value + FACTOR * (low - value), value + FACTOR * (high - value), found.confidence
    )


def verdicts(cells: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """What the measurements say of each cell that was measured."""
    by = [*TASK, "shape", "kind"]
    best = results.groupby(by)[["rate", "shrunk", "whole"]].min().reset_index()
    best["runs"] = results["runs"].min()
    found = cells[["experiment", *by]].merge(best, on=by)
    # Limits of quantiles are edges of bins, which have no smaller steps.
    slack = 2 * np.sqrt(MOST * (1 - MOST) / found["runs"])
    is_needed = np.where(
        found["kind"] == "quantile", found["rate"] <= MOST + slack, found["shrunk"] < CONFIDENCE
    )
    found["verdict"] = np.where(
        is_needed, NEEDED, np.where(found["whole"] > MOSTLY, HIDDEN, TOO_WIDE)
    )
    return found


NEEDED, HIDDEN, TOO_WIDE = "needed", "nothing can be said", "wider than needed"


class InferenceWidths(Experiment):
    name = "inference-widths"
    title = "Whether wide intervals could be narrower"
    reproduces = (
        "intervals of the cells that cover more than 97.5%, at other populations with the same "
        "public parameters, as they are and shrunk by a fifth"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        tasks = high_cells()[TASK].drop_duplicates().to_dict("records")
        return tasks[::24] if settings.quick else tasks[::STEP]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        runs = QUICK_RUNS if settings.quick else RUNS
        cells = high_cells()
        cells = cells[(cells[TASK] == pd.Series(task)).all(axis=1)]
        rows = []
        for (shape, kind), _ in cells.groupby(["shape", "kind"], sort=False):
            for make in POPULATIONS[str(kind)]:
                p = make(*map(int, str(shape).split("x")))
                rng = seeded(self.name, *task.values(), shape, make.__name__)
                table = drawn(p, task, runs, rng)
                function, whole = (estimates(table) | measures(table))[str(kind)]
                found, truth = function(), truths(p)[str(kind)]
                narrow = covered(shrunk(found, str(kind)), truth, whole)
                rows.append(
                    {"shape": shape, "kind": kind, "population": make.__name__}
                    | covered(found, truth, whole)
                    | {"shrunk": narrow["rate"]}
                )
        return rows

    def figure(self, results: pd.DataFrame):
        return figure(results.assign(rate=results["shrunk"]), (CONFIDENCE,), "coverage if shrunk")

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        found = verdicts(high_cells(), results)
        table = pd.crosstab([found["experiment"], found["kind"]], found["verdict"])
        table = table.reindex(columns=[NEEDED, HIDDEN, TOO_WIDE], fill_value=0)
        lowest = found.groupby(["experiment", "kind"])["rate"].median().round(3)
        return table.assign(**{"lowest coverage": lowest})

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Cells that cover more than {MOST:.1%}, for one in {STEP} combinations of "
            "mechanism, adjacency, number of records and ε. Each interval was measured at one to "
            "three other populations with these and the shape of the table, "
            f"{int(results['runs'].min())} runs each. They were chosen by theory: for quantiles, a "
            "bin of the median with hardly any records, and just more than half of the records in "
            "the first bin; for comparisons, two large rows with shares of a half; for differences "
            "also with shares next to 1 and 0, and for means nearly all records in the first "
            "category: if the noise hides most of the range, only tests of values near its ends "
            "reject; otherwise, even margins. *lowest coverage*: the median of the coverage at the "
            "population where it is lowest. *needed*: at one of them, intervals of "
            f"{FACTOR:g} of the width (of logarithms, for odds ratios) cover less than "
            f"{CONFIDENCE:.0%}. Limits of quantiles "
            "are edges; their intervals are needed if they cover at most "
            f"{MOST:.1%} at one of them, within two standard errors. *nothing can be said*: more "
            "than half of the intervals are the whole range at all of them. *wider than needed*: "
            "neither."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        found = verdicts(high_cells(), results)
        claims = []
        for experiment in MEASURED:
            part = found.loc[found["experiment"] == experiment, "verdict"]
            counts = ", ".join(f"{n} {name}" for name, n in part.value_counts().items())
            claims.append(
                Claim(
                    "skdirdp",
                    f"Intervals of `{experiment}` that cover more than {MOST:.1%} are needed at "
                    "another population with the same public parameters, or nothing can be said",
                    bool((part != TOO_WIDE).all()),
                    f"of {len(part)} cells: {counts}",
                )
            )
        return claims
