"""How long a charge and a total take as a ledger grows.

Ten thousand charges of a few kinds, in a file on disk, against a limit: far from it
(the usual case) and close to it (where quick bounds no longer decide). The goals are
5 ms per charge and 1 s per total. A disk's own time varies with what else it does, so
every tenth charge is followed by a bare SQLite commit, which no accountant can beat,
for the ratio; and the processor's time is given beside the clock's.

Run: ``python benchmarks/accountant_speed.py [--charges 10000]``
"""

import argparse
import os
import sqlite3
import tempfile
import time

import numpy as np

from skdirdp import PrivacyAccountant
from skdirdp._exposure import _epsilon
from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism

SMOOTH = (
    DirichletMechanism(r=0.01, alpha=50.0),
    DirichletMechanism(r=0.02, alpha=90.0),
    GaussianMechanism(sigma=800.0),
)
WITH_ATOMS = (*SMOOTH, LaplaceMechanism(scale=900.0), PureDP(0.001))


class BareCommits:
    """Commits of one row with the accountant's durability, and nothing else."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = EXTRA")
        self.connection.execute("CREATE TABLE rows (value TEXT)")
        self.times = []

    def commit(self):
        start = time.perf_counter()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO rows VALUES ('a row of about the usual length')")
        self.connection.execute("COMMIT")
        self.times.append(1e3 * (time.perf_counter() - start))


def measure(folder, name, kinds, charges, room):
    """Charge in turn; `room` is the limit over the epsilon that all charges need."""
    each = charges // len(kinds)
    needed = Composition([(kind, each) for kind in kinds]).epsilon(1e-5)
    accountant = PrivacyAccountant(
        epsilon=needed * room, delta=1e-5, path=os.path.join(folder, f"{name}.sqlite")
    )
    bare = BareCommits(os.path.join(folder, f"{name}.bare.sqlite"))
    times, processor = [], []
    for i in range(each * len(kinds)):
        start, started = time.perf_counter(), time.process_time()
        accountant.charge(kinds[i % len(kinds)], label="benchmark")
        times.append(1e3 * (time.perf_counter() - start))
        processor.append(1e3 * (time.process_time() - started))
        if i % 10 == 0:
            bare.commit()
    times, processor = np.array(times), np.array(processor)

    _epsilon.cache_clear()
    start = time.perf_counter()
    accountant.total()
    total = time.perf_counter() - start
    start = time.perf_counter()
    len(accountant.history())
    history = time.perf_counter() - start
    print(
        f"{name:24s} charge: median {np.median(times):.2f} ms "
        f"(processor {np.median(processor):.2f}; bare commit {np.median(bare.times):.2f}; "
        f"ratio {np.median(times) / np.median(bare.times):.2f}), mean {times.mean():.2f}, "
        f"last thousand {times[-1000:].mean():.2f}, worst {times.max():.0f}; "
        f"total {total:.3f} s; history {history:.3f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--charges", type=int, default=10_000)
    charges = parser.parse_args().charges
    with tempfile.TemporaryDirectory() as folder:
        for name, kinds, room in (
            ("3 kinds, room to spare", SMOOTH, 2.0),
            ("3 kinds, to the limit", SMOOTH, 1.0001),
            ("5 kinds, room to spare", WITH_ATOMS, 2.0),
            ("5 kinds, to the limit", WITH_ATOMS, 1.0001),
        ):
            measure(folder, name, kinds, charges, room)


if __name__ == "__main__":
    main()
