"""Ledgers with many kinds of charges: time of a charge, of the total, and of a search."""

import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import loguniform
from sklearn.model_selection import RandomizedSearchCV

from skdirdp import BudgetExceededError, DirichletCategoricalNB, PrivacyAccountant
from skdirdp.accountant import codec
from skdirdp.accounting import ApproximateDP, Composition, PureDP
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
)

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings, seeded

DELTA = 1e-5
SIZES = (100, 1000, 10_000, 100_000)
CHARGES = 60  # that are timed, around the limit
#: Processor seconds allowed with `BASE` charges in the ledger; ten times as many with ten times.
AT_MOST = {"charge": 0.05, "cold total": 2.0, "warm total": 0.05, "repr": 0.01}
BASE = 10_000
CANDIDATES, FOLDS = 100, 5
AT_MOST_SEARCH = 1.3
_VARIANCE = 0.05  # of the loss of all charges together


def charges(kinds: str, n: int, seed: int, total: int | None = None) -> list[Any]:
    """Return different mechanisms and guarantees, `total` of which use the budget."""
    generator = seeded("ledger", kinds, seed)
    made: list[Any] = []
    for i in range(n):
        size = float(np.sqrt(_VARIANCE / (total or n)) * generator.uniform(0.5, 1.5))
        alpha = float(generator.uniform(0.5, 5.0))
        dirichlet = DirichletMechanism(size * np.sqrt(alpha / 2), alpha)
        if kinds == "Dirichlet":
            made.append(dirichlet)
            continue
        gaussian = GaussianMechanism(np.sqrt(2) / size)
        made.append(
            (
                dirichlet,
                gaussian,
                LaplaceMechanism(np.sqrt(2) / size),
                PureDP(size),
                ApproximateDP(size, 1e-7 / (total or n) * generator.uniform(0.5, 1.0)),
                JointMechanism(((dirichlet.with_precision(0.5), 1), (gaussian, 2))),
            )[i % 6]
        )
    return made


def processor_time(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    value = function()
    return time.process_time() - start, value


def search(candidates: int, folds: int, limit: float | None) -> tuple[float, int]:
    """Processor seconds of a random search, and the number of charges it made."""
    generator = seeded("ledger", "search")
    X, y = generator.integers(0, 5, (1000, 8)), generator.integers(0, 3, 1000)
    accountant = None if limit is None else PrivacyAccountant(limit, DELTA, adaptive=False)
    model = DirichletCategoricalNB(
        classes=range(3), n_categories=5, delta=1e-8, accountant=accountant, random_state=0
    )
    grid = {"epsilon": loguniform(1e-3, 1e-1)}
    searching = RandomizedSearchCV(model, grid, n_iter=candidates, cv=folds, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed makes noise that is not private
        spent, _ = processor_time(lambda: searching.fit(X, y))
    return spent, 0 if accountant is None else len(accountant)


def in_a_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function with empty caches."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


class Ledger(Experiment):
    name = "ledger"
    title = "Ledgers of many different charges"
    reproduces = (
        "processor time of a charge near the limit, of the total and of the summary, with up to "
        f"{SIZES[-1]:,} different charges in the ledger; a random search of {CANDIDATES} x {FOLDS} "
        "fits with an accountant and without"
    )
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        sizes = (60, 300) if settings.quick else SIZES
        candidates, folds = (3, 2) if settings.quick else (CANDIDATES, FOLDS)
        return [
            *(
                {"what": "charges", "kinds": kinds, "size": size, "folds": 0}
                for kinds in ("Dirichlet", "mixed")
                for size in sizes
            ),
            {"what": "search", "kinds": "Dirichlet", "size": candidates, "folds": folds},
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        if task["what"] == "search":
            return [self._search(task["size"], task["folds"], 1 if settings.quick else 3)]
        return [self._charges(task["kinds"], task["size"], 12 if settings.quick else CHARGES)]

    def _charges(self, kinds: str, size: int, timed: int) -> Row:
        made = charges(kinds, size, 0)
        more = charges(kinds, timed, 1, size)
        # Half of the timed charges are admitted, and the rest is refused.
        limit = Composition([(kind, 1) for kind in [*made, *more[: timed // 2]]]).epsilon(DELTA)
        with tempfile.TemporaryDirectory() as folder:
            accountant = PrivacyAccountant(
                limit, DELTA, adaptive=False, path=Path(folder, "ledger")
            )
            with accountant._ledger.writing() as transaction:
                for kind in made:
                    transaction.append(codec.encode(kind), 1, None, None)
            codec._decode.cache_clear()
            row: Row = {}
            row["repr"], _ = processor_time(partial(repr, accountant))
            row["cold total"], total = processor_time(accountant.total)
            row["warm total"], _ = processor_time(accountant.total)
            spent, admitted = [], 0
            for kind in more:
                seconds, fits = processor_time(partial(_charge, accountant, kind))
                spent.append(seconds)
                admitted += fits
            row["charge"] = float(np.median(spent))
            row["slowest charge"] = max(spent)
            row["repr"] = max(row["repr"], processor_time(partial(repr, accountant))[0])
            row["difference"] = total / Composition([(k, 1) for k in made]).epsilon(DELTA) - 1
            row["admitted"], row["asked"] = admitted, timed
            row["used"] = accountant.total() / limit
        return row

    def _search(self, candidates: int, folds: int, repeats: int) -> Row:
        with_one, without = [], []
        for _ in range(repeats):
            plain, _ = in_a_new_process(search, candidates, folds, None)
            paid, made = in_a_new_process(search, candidates, folds, 3.0)
            without.append(plain)
            with_one.append(paid)
        return {
            "search": min(with_one),
            "without": min(without),
            "times": min(with_one) / min(without),
            "admitted": made,
            "asked": candidates * folds + 1,
        }

    def figure(self, results: pd.DataFrame):
        figure, axes = figures.panels(2, columns=2, width=5)
        for axis, (kinds, part) in zip(axes, _charged(results).groupby("kinds"), strict=True):
            for column, colour in (
                ("cold total", "#c1440e"),
                ("charge", "#0b61a4"),
                ("warm total", "#2e7d32"),
                ("repr", "0.5"),
            ):
                axis.plot(part["size"], part[column], "o-", color=colour, label=column)
            axis.set(xscale="log", yscale="log", xlabel="different charges in the ledger")
            axis.set_ylabel("processor seconds")
            axis.set_title(kinds, fontsize=10)
            axis.legend(fontsize=8)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        part = _charged(results)
        columns = ["charge", "slowest charge", "cold total", "warm total", "repr"]
        table = part[columns].mul(1000).round(1).add_suffix(", ms")
        table.insert(0, "charges", [f"{size:,}" for size in part["size"]])
        table.insert(0, "kinds", part["kinds"])
        return table.set_index(["kinds", "charges"])

    def remarks(self, results: pd.DataFrame) -> str:
        found = results[results["what"] == "search"].iloc[0]
        gap = _charged(results)["difference"].abs().max()
        return (
            "Processor times; writing to disk comes on top, and is the disk's. Charges are timed "
            "around the limit, and half of them are refused, which takes a closer look. Totals "
            f"differ from a composition of all at once by {gap:.0e} "
            f"at most. A random search of {found['size']:.0f} x {found['folds']:.0f} fits takes "
            f"{found['search']:.1f} s with an accountant and {found['without']:.1f} s without, "
            f"{found['times']:.2f} times as long."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        claims = []
        part = _charged(results)
        allowed = np.maximum(part["size"] / BASE, 1.0)
        for column, seconds in AT_MOST.items():
            share = part[column] / (seconds * allowed)
            worst = part.loc[share.idxmax()]
            claims.append(
                Claim(
                    "skdirdp",
                    f"{column}: at most {seconds * 1000:g} ms with {BASE:,} different charges in "
                    "the ledger, and ten times that with ten times as many",
                    bool(share.max() <= 1),
                    f"{worst[column] * 1000:.1f} ms with {worst['size']:,} ({worst['kinds']})",
                )
            )
        times = float(results["times"].max())
        claims.append(
            Claim(
                "skdirdp",
                f"An accountant makes a random search {AT_MOST_SEARCH:g} times as long at most",
                times <= AT_MOST_SEARCH,
                f"{times:.2f} times",
            )
        )
        return claims


def _charge(accountant: PrivacyAccountant, kind: Any) -> bool:
    try:
        accountant.charge(kind)
    except BudgetExceededError:
        return False
    return True


def _charged(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["what"] == "charges"]
