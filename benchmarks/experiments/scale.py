"""Tables larger than memory: each engine, compared with its own group-by and with batches."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdirdp import DirichletCategoricalNB

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings, seeded
from ..resources import resources
from .scaling import slope

FEATURES = [f"x{k}" for k in range(10)]
N_CATEGORIES, N_CLASSES = 8, 3
SIZES = (1_000_000, 10_000_000, 100_000_000)
QUICK_SIZE = 40_000
QUICK_ENGINES = ("DuckDB", "Polars", "Dask, 2 workers")
# Rows of a file, and of a block that is read at once.
_FILE_ROWS, _QUICK_FILE_ROWS = 1_000_000, 10_000

# The fastest of several runs is least affected by other load.
_REPEATS = 2

AT_MOST_RATIO = 1.5
AT_MOST_MEMORY = 2048.0  # MiB, of all processes
AT_MOST_GROWTH = 200.0  # MiB, of the client
AT_MOST_SLOPE = 1.1
AT_LEAST_GAIN = 1.2


# The table ---------------------------------------------------------------------------


def files(rows: int, file_rows: int) -> list[str]:
    """Return paths of Parquet files with `n_rows` rows of small integers, created if missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.gettempdir(), f"skdirdp-scale-{file_rows}")
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number:05}.parquet" for number in range(rows // file_rows)]
    for path in paths:
        if not path.exists():
            generator = seeded("scale", path.name)
            columns = {"y": generator.integers(0, N_CLASSES, file_rows, dtype=np.int8)}
            for name in FEATURES:
                shift = generator.integers(0, 2, file_rows, dtype=np.int8) * columns["y"]
                drawn = generator.integers(0, N_CATEGORIES, file_rows, dtype=np.int8)
                columns[name] = (drawn + shift) % N_CATEGORIES
            unfinished = path.with_suffix(".part")
            pq.write_table(pa.table(columns), unfinished)
            unfinished.rename(path)
    return [str(path) for path in paths]


def model() -> DirichletCategoricalNB:
    return DirichletCategoricalNB(classes=range(N_CLASSES), n_categories=N_CATEGORIES)


def fit(table: Any) -> int:
    """How many records a fit has counted."""
    n_records = model().fit(table, "y").privacy_.n_records
    assert n_records is not None
    return n_records


# The engines: ours and their own -----------------------------------------------------


def duckdb_table(paths: list[str]) -> Any:
    import duckdb

    return duckdb.read_parquet(paths)


def duckdb_bare(paths: list[str]) -> int:
    relation = duckdb_table(paths)
    found = [
        relation.aggregate(f"y, {name}, count(*) AS n", f"y, {name}").df() for name in FEATURES
    ]
    return int(found[0]["n"].sum())


def polars_table(paths: list[str]) -> Any:
    import polars

    return polars.scan_parquet(paths)


def polars_bare(paths: list[str]) -> int:
    import polars

    table = polars_table(paths)
    found = [
        table.group_by("y", name).agg(polars.len().alias("n")).collect(engine="streaming")
        for name in FEATURES
    ]
    return int(found[0]["n"].sum())


def dask_table(paths: list[str]) -> Any:
    import dask.dataframe

    return dask.dataframe.read_parquet(paths)


def dask_bare(paths: list[str]) -> int:
    import dask

    table = dask_table(paths)
    found = dask.compute(*(table.groupby(["y", name]).size() for name in FEATURES))
    return int(found[0].sum())


def arrow_table(paths: list[str]) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(paths)


def in_batches(paths: list[str]) -> int:
    """`partial_fit` over batches, as a user would write it."""
    fitted = model()
    for batch in arrow_table(paths).to_batches():
        frame = batch.to_pandas()
        fitted.partial_fit(frame[FEATURES], frame["y"])
    n_records = fitted.release().privacy_.n_records
    assert n_records is not None
    return n_records


@dataclass(frozen=True)
class Engine:
    """Measured calls: a fit, the engine's own group-by, and the number of workers."""

    count: Callable[[list[str]], int]
    bare: Callable[[list[str]], int] | None = None
    workers: int = 0


def _fit_of(table: Callable[[list[str]], Any], paths: list[str]) -> int:
    return fit(table(paths))


ENGINES = {
    "DuckDB": Engine(partial(_fit_of, duckdb_table), duckdb_bare),
    "Polars": Engine(partial(_fit_of, polars_table), polars_bare),
    "Dask, 1 worker": Engine(partial(_fit_of, dask_table), dask_bare, workers=1),
    "Dask, 2 workers": Engine(partial(_fit_of, dask_table), dask_bare, workers=2),
    "PyArrow dataset": Engine(partial(_fit_of, arrow_table)),
    "partial_fit": Engine(in_batches),
}
#: Methods that read the records in batches.
_IN_CLIENT = ("PyArrow dataset", "partial_fit")
#: The bare group-by of Dask takes minutes where the fit takes seconds: once is enough.
_BARE_ONCE = "Dask, 1 worker"


@contextmanager
def prepared(name: str, bare: bool, paths: list[str]) -> Iterator[Callable[[], int]]:
    """Return the measured call, after a small one that imports its modules."""
    engine = ENGINES[name]
    call = engine.bare if bare else engine.count
    assert call is not None
    with ExitStack() as stack:
        if engine.workers:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=engine.workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=50,
            )
            stack.enter_context(Client(stack.enter_context(cluster)))
        call(paths[:1])
        yield partial(call, paths)


class Scale(Experiment):
    name = "scale"
    title = "Tables larger than memory"
    reproduces = (
        "fits of DirichletCategoricalNB from Parquet files of 10 columns of small integers, "
        "compared with the engine's own group-by"
    )
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        if settings.quick:
            return [{"engine": name, "rows": QUICK_SIZE} for name in QUICK_ENGINES]
        return [{"engine": name, "rows": rows} for rows in SIZES for name in ENGINES]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        file_rows = _QUICK_FILE_ROWS if settings.quick else _FILE_ROWS
        paths = files(task["rows"], file_rows)
        engine = ENGINES[task["engine"]]
        kinds = [False]
        if engine.bare is not None and task["engine"] != _BARE_ONCE:
            kinds.append(True)
        rows = []
        for bare in kinds:
            repeats = 1 if settings.quick else _REPEATS
            found = resources(prepared, task["engine"], bare, paths, repeats=repeats)
            measured = found._asdict()
            rows.append({"bare": bare, "counted": measured.pop("result"), **measured})
        return rows

    def _ours(self, results: pd.DataFrame) -> pd.DataFrame:
        """Fits at the largest size and the group-by of the same engine."""
        largest = results[results["rows"] == results["rows"].max()].set_index("engine")
        ours, bare = (largest[largest["bare"] == kind] for kind in (False, True))
        ours = ours.loc[[name for name in ENGINES if name in ours.index]].copy()
        ours["own seconds"] = bare["seconds"]
        ours["processor ratio"] = ours["processor"] / bare["processor"]
        return ours

    def _slopes(self, results: pd.DataFrame) -> pd.Series:
        """The power of the number of rows that processor time grows with, by engine."""
        ours = results[~results["bare"]]
        return ours.groupby("engine")[["rows", "processor"]].apply(
            lambda found: slope(found["rows"], found["processor"]) if len(found) > 1 else np.nan
        )

    def figure(self, results: pd.DataFrame):
        figure, axes = figures.panels(2, width=9, height=4)
        for name, found in results[~results["bare"]].groupby("engine", sort=False):
            for axis, what in zip(axes, ("seconds", "peak"), strict=True):
                axis.plot(found["rows"], found[what], marker="o", label=name)
        for name, found in results[results["bare"]].groupby("engine", sort=False):
            axes[0].plot(
                found["rows"], found["seconds"], linestyle=":", marker=".", label=f"{name}, bare"
            )
        axes[1].axhline(AT_MOST_MEMORY, color="grey", linewidth=0.8)
        for axis, label in zip(axes, ("seconds", "peak memory, MiB"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel="rows", ylabel=label)
        figures.legend_below(figure, axes, columns=3)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        ours = self._ours(results)
        return pd.DataFrame(
            {
                "engine": ours.index,
                "rows": ours["rows"].to_numpy(),
                "seconds": ours["seconds"].to_numpy(),
                "bare group-by, seconds": ours["own seconds"].to_numpy(),
                "processor time, seconds": ours["processor"].to_numpy(),
                "ratio of processor times": ours["processor ratio"].to_numpy(),
                "peak of all processes, MiB": ours["peak"].round().to_numpy(),
                "growth of the client, MiB": ours["growth"].round().to_numpy(),
                "power of the rows": self._slopes(results).loc[ours.index].to_numpy(),
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Each in processes of its own, after a small fit that imports what it needs; the best "
            f"of {_REPEATS} runs. The bare group-by is one query for each of the ten features, by "
            "class, without a model. The peak is of client, scheduler and workers together; DuckDB "
            "and Polars count in the client's own process. Memory is measured 50 times a second. "
            "Seconds are by the clock of a machine "
            "that was shared with other work; processor time, which the ratios and the power of "
            "the rows are of, hardly depends on that."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        ours = self._ours(results)
        slopes = self._slopes(results).loc[ours.index]
        beside = ours[ours["processor ratio"].notna()]
        clients = ours[~ours.index.isin(_IN_CLIENT)]
        rows = f"{int(ours['rows'].max()):,}".replace(",", " ")

        def listed(values: pd.Series, digits: int) -> str:
            return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())

        claims = [
            Claim(
                "skdirdp",
                f"A fit of {rows} rows takes at most {AT_MOST_RATIO:g} times the processor time of "
                "the engine's own group-by",
                bool((beside["processor ratio"] <= AT_MOST_RATIO).all()),
                listed(beside["processor ratio"], 2),
            ),
            Claim(
                "skdirdp",
                f"It stays within {AT_MOST_MEMORY / 1024:g} GiB, all processes together",
                bool((ours["peak"] <= AT_MOST_MEMORY).all()),
                listed(ours["peak"], 0) + " MiB",
            ),
            Claim(
                "skdirdp",
                "Where an engine counts, the process that asks for it grows by less than "
                f"{AT_MOST_GROWTH:g} MiB",
                bool((clients["growth"] < AT_MOST_GROWTH).all()),
                listed(clients["growth"], 1) + " MiB",
            ),
            Claim(
                "skdirdp",
                "Processor time grows with the number of rows, and not faster",
                bool((slopes <= AT_MOST_SLOPE).all()),
                "by the power " + listed(slopes, 2),
            ),
        ]
        times = ours["seconds"]
        if {"Dask, 1 worker", "Dask, 2 workers"} <= set(times.index):
            gain = times["Dask, 1 worker"] / times["Dask, 2 workers"]
            claims.append(
                Claim(
                    "skdirdp",
                    f"With a second worker Dask is at least {AT_LEAST_GAIN:g} times as fast, by "
                    "the clock",
                    bool(gain >= AT_LEAST_GAIN),
                    f"{gain:.2f} times as fast",
                )
            )
        return claims
