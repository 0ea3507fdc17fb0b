"""Charges, and the total of many."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from skdirdp import PrivacyAccountant
from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism

from ...timing import processor_seconds
from .promise import Timing


def time_accountant(quick: bool) -> Iterator[Timing]:
    charges = 60 if quick else 10_000
    smooth = (
        DirichletMechanism(r=0.01, alpha=50.0),
        DirichletMechanism(r=0.02, alpha=90.0),
        GaussianMechanism(sigma=800.0),
    )
    with_atoms = (*smooth, LaplaceMechanism(scale=900.0), PureDP(0.001))
    # Close to the limit, quick bounds no longer decide.
    cases = [(smooth, "far from", 2.0), (with_atoms, "up to", 1.0001)]
    for kinds, place, room in cases[:1] if quick else cases:
        case = f"{charges} charges of {len(kinds)} kinds, {place} the limit"
        composition = Composition([(kind, charges // len(kinds)) for kind in kinds])
        limit = room * composition.epsilon(1e-5)
        with tempfile.TemporaryDirectory() as folder:
            accountant = PrivacyAccountant(
                limit, 1e-5, path=Path(folder, "ledger.sqlite"), adaptive=False
            )
            commit = bare_commit(Path(folder, "bare.sqlite"))
            times, bare = [], []
            for i in range(charges // len(kinds) * len(kinds)):
                charge = partial(accountant.charge, kinds[i % len(kinds)], label="benchmark")
                times.append(processor_seconds(charge))
                if i % 10 == 0:
                    bare.append(processor_seconds(commit))
            yield Timing(
                "PrivacyAccountant.charge, median",
                case,
                float(np.median(times)),
                plain=float(np.median(bare)),
                plain_is="a bare SQLite commit",
                at_most_seconds=5e-3,
            )
            delta = 1.1e-5  # one that no charge has asked for, so that nothing is cached
            total = processor_seconds(partial(accountant.total, delta))
            yield Timing(
                "PrivacyAccountant.total",
                case,
                total,
                at_most_seconds=1.0,
                difference=accountant.total(delta) / composition.epsilon(delta) - 1,
            )


def bare_commit(path: Path) -> Callable[[], None]:
    """A commit of one row with the accountant's durability, and nothing else."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE rows (value TEXT)")

    def commit():
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows VALUES ('a row of about the usual length')")
        connection.execute("COMMIT")

    return commit
