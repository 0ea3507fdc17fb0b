"""Time of a charge in PostgreSQL and in SQLite, and of opening a long ledger."""

import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from skdirdp import PrivacyAccountant
from skdirdp.accountant.codec import encode
from skdirdp.mechanisms import GaussianMechanism

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import seconds

MECHANISM = GaussianMechanism(sigma=500.0)
PLACES = ("SQLite", "PostgreSQL")
READING = ("open", "total", "verify")
MOST_TIMES, MOST_SECONDS = 3.0, 10.0
# One transaction each: within one, PostgreSQL keeps every version of the head.
BATCH = 500
INSERT = "INSERT INTO bare (spec, label, hash) VALUES ('{}', 'a label', '{}')".format(
    encode(MECHANISM), "0" * 64
)
TABLE = "CREATE TABLE bare (id INTEGER PRIMARY KEY {}, spec TEXT, label TEXT, hash TEXT)"


@contextmanager
def _sqlite() -> Iterator[tuple[str, Callable[[], None]]]:
    """A place for a ledger, and a commit of one row there with nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder, "bare.sqlite"), isolation_level=None)
        with closing(connection):
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute(TABLE.format(""))

            def commit():
                for statement in ("BEGIN IMMEDIATE", INSERT, "COMMIT"):
                    connection.execute(statement)

            yield str(Path(folder, "ledger.sqlite")), commit


@contextmanager
def _postgres() -> Iterator[tuple[str, Callable[[], None]]]:
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it keeps its own lock
        import pgserver

        folder = tempfile.mkdtemp(prefix="skdirdp-benchmark-")
        server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        with psycopg.connect(host=folder, user="postgres", dbname="postgres") as connection:
            connection.execute(TABLE.format("GENERATED ALWAYS AS IDENTITY"))
            connection.commit()

            def commit():
                connection.execute(INSERT)
                connection.commit()

            yield f"postgresql+psycopg://postgres@/postgres?host={folder}", commit
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _fill(accountant: PrivacyAccountant, entries: int) -> None:
    spec = encode(MECHANISM)
    for start in range(0, entries, BATCH):
        with accountant._ledger.writing() as transaction:
            for number in range(start, min(start + BATCH, entries)):
                transaction.append(spec, 1, f"charge {number}", None)


class LedgerPostgres(Experiment):
    name = "ledger-postgres"
    title = "A ledger in a database and in a file"
    reproduces = "the time of a charge, compared with an INSERT, and of opening a long ledger"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        return [{"place": place} for place in PLACES]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        charges, entries = (30, 300) if settings.quick else (1000, 100_000)
        with {"SQLite": _sqlite, "PostgreSQL": _postgres}[task["place"]]() as (path, commit):
            accountant = PrivacyAccountant(epsilon=1000.0, path=path, name="charged")
            times, bare = [], []
            for _ in range(charges):
                times.append(seconds(partial(accountant.charge, MECHANISM, label="a label")))
                bare.append(seconds(commit))  # the time of a disk varies with other load
            rows = [
                {
                    "what": "charge, median",
                    "entries": charges,
                    "seconds": float(np.median(times)),
                    "bare": float(np.median(bare)),
                }
            ]
            name, path = "long", path.replace("ledger.sqlite", "long.sqlite")
            _fill(PrivacyAccountant(epsilon=1000.0, path=path, name=name), entries)
            opened: list[PrivacyAccountant] = []
            uses = {
                "open": lambda: opened.append(PrivacyAccountant(path=path, name=name)),
                "total": lambda: opened[0].total(),
                "verify": lambda: opened[0].verify(),
            }
            for what in READING:
                rows.append({"what": what, "entries": entries, "seconds": seconds(uses[what])})
            return rows

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, width=6.5, height=2.6)
        shown = results.iloc[::-1]
        bars = axis.barh(shown["place"] + ", " + shown["what"], shown["seconds"], color="#0b61a4")
        axis.bar_label(bars, fmt="%.2g s", padding=3)
        axis.set_xscale("log")
        axis.margins(x=0.2)
        axis.set_xlabel("seconds")
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        shown = results.assign(times=results["seconds"] / results["bare"])
        return shown.rename(columns={"bare": "a bare commit", "times": "times a bare commit"})

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "A bare commit is one row of about the same length, inserted and committed on an open "
            "connection of the driver, with the same durability. Charges and bare commits "
            "alternate. `open` checks every hash; `total` and `verify` follow it."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        rows = results.set_index(["place", "what"])
        charge = rows.loc[("PostgreSQL", "charge, median")]
        times = charge["seconds"] / charge["bare"]
        claims = [
            Claim(
                "skdirdp",
                f"A charge in PostgreSQL takes at most {MOST_TIMES:g} times a bare INSERT's commit",
                bool(times <= MOST_TIMES),
                f"{times:.2f} times, {1e3 * charge['seconds']:.2f} ms",
            )
        ]
        for place in PLACES:
            slowest = rows.loc[[(place, what) for what in READING]]
            together = float(slowest["seconds"].sum())
            entries = int(slowest["entries"].iloc[0])
            claims.append(
                Claim(
                    "skdirdp",
                    f"{entries} entries in {place} are opened, totalled and verified within "
                    f"{MOST_SECONDS:g} s",
                    together <= MOST_SECONDS,
                    f"{together:.2f} s",
                )
            )
        return claims
