"""Coverage of confidence intervals over a grid of tables, and the power of tests."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from skdirdp.inference import (
    Estimate,
    NoisyTable,
    correlation,
    cramers_v,
    difference,
    independence,
    mean,
    odds_ratio,
    power,
    quantile,
    share,
)
from skdirdp.inference.hypotheses import projected
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism, Mechanism
from skdirdp.mechanisms.base import Request

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings, seeded

RUNS, QUICK_RUNS = 2000, 100
CONFIDENCE, LEVEL = 0.95, 0.05
LEAST, MOST = 0.93, 0.975
MECHANISMS = {
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
    "dirichlet": DirichletMechanism,
}
ADJACENCIES = ("replace", "add_remove")
SIZES, EPSILONS = (300, 1000, 10_000), (0.1, 0.3, 1.0, 10.0)
#: Probabilities of the rows, and of the first column in each row; other columns are equal.
TABLES: dict[str, tuple[list[float], list[float], int]] = {
    "2x2, .01": ([0.5, 0.5], [0.01, 0.03], 2),
    "2x2, .99": ([0.3, 0.7], [0.99, 0.9], 2),
    "4x4, .1": ([0.25] * 4, [0.1, 0.3, 0.2, 0.2], 4),
    "8x8, .05": ([0.3] + [0.1] * 7, [0.05] + [0.02] * 7, 8),
    "8x8, .93": ([0.93] + [0.01] * 7, [0.93] * 8, 8),
}
ESTIMATES = ("share", "conditional share", "difference", "odds ratio", "mean", "quantile")
MEASURES = ("correlation", "Cramer's V")
#: Reasons for which an interval is wider than needed, and the statistics that it concerns.
WHOLE, NEAR = "whole range", "share next to 0 or 1"
FEW, UNKNOWN = "few records", "none of these"
CONSERVATIVE = {"quantile": "edges of bins", "Cramer's V": "all directions"}
COMPARED = ("difference", "ratio", "odds ratio")
#: An interval is the whole range in more than this share of the runs.
SOME = 0.02
#: Records outside of the most frequent row and column, on which a correlation depends.
FEWEST = 10


def probabilities(name: str) -> np.ndarray:
    """The probabilities of the cells of a table."""
    rows, first, columns = TABLES[name]
    other = (1 - np.array(first)[:, np.newaxis]) / (columns - 1)
    table = np.hstack([np.array(first)[:, np.newaxis], np.repeat(other, columns - 1, axis=1)])
    return np.array(rows)[:, np.newaxis] * table


def drawn(p: np.ndarray, task: Row, runs: int, rng: np.random.Generator) -> NoisyTable:
    """Noisy tables of records from a population, as the mechanism of the task draws them."""
    mechanism = calibrated(task, p.size)
    counts = rng.multinomial(task["n"], p.ravel(), size=runs).astype(float)
    noisy = Mechanism.draw_all([Request(mechanism, counts, 1.0, as_counts=True)], rng)[0]
    public = task["n"] if task["adjacency"] == "replace" else None
    return NoisyTable(noisy.reshape(runs, *p.shape), mechanism, public, batch_dims=1)


def calibrated(task: Row, n_cells: int, **bounds: float) -> Mechanism:
    """The mechanism for one table within the budget."""
    budget = {"epsilon": task["epsilon"], "adjacency": task["adjacency"], **bounds}
    if task["mechanism"] == "laplace":
        budget["delta"] = 0.0
    if task["mechanism"] == "dirichlet":
        budget |= {"n_samples": task["n"], "n_categories": n_cells}
    return MECHANISMS[task["mechanism"]].calibrate(**budget)


def truths(p: np.ndarray) -> dict[str, float]:
    """The true values of all estimated numbers."""
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    first, second = p[0, 0] / rows[0], p[1, 0] / rows[1]
    u, v = np.arange(len(rows)) - rows @ np.arange(len(rows)), np.arange(len(columns))
    v = v - columns @ v
    expected = np.outer(rows, columns)
    squared = np.sum((p - expected) ** 2 / expected) / (min(p.shape) - 1)
    return {
        "share": columns[0],
        "conditional share": first,
        "difference": first - second,
        "odds ratio": first / (1 - first) / (second / (1 - second)),
        "mean": columns @ np.arange(len(columns)),
        "quantile": np.searchsorted(np.cumsum(columns), 0.5) + 0.5,
        "correlation": u @ p @ v / np.sqrt((rows @ u**2) * (columns @ v**2)),
        "Cramer's V": np.sqrt(squared),
    }


def estimates(table: NoisyTable) -> dict[str, Callable]:
    """What is estimated, and the whole range of each number."""
    column = np.s_[:, 0]
    size = table.shape[1]
    return {
        "share": (lambda: share(table, column), 1.0),
        "conditional share": (lambda: share(table, column, given=0), 1.0),
        "difference": (lambda: difference(table, column, 0, 1), 2.0),
        "odds ratio": (lambda: odds_ratio(table, column, 0, 1), np.inf),
        "mean": (lambda: mean(table, np.arange(size), axis=1), size - 1.0),
        "quantile": (lambda: quantile(table, 0.5, np.arange(size + 1.0), axis=1), float(size)),
    }


def measures(table: NoisyTable) -> dict[str, Callable]:
    """Measures of association, and the whole range of each."""
    return {
        "correlation": (lambda: correlation(table), 2.0),
        "Cramer's V": (lambda: cramers_v(table), 1.0),
    }


def near_end(p: np.ndarray, task: Row, name: str) -> bool:
    """Whether a share is within three deviations of 0 or 1: tests have one side there.

    For a correlation, whether few records are outside of the most frequent row and column.
    """
    if name == "correlation":
        rest = (1 - p.sum(axis=1).max()) * (1 - p.sum(axis=0).max())
        return bool(task["n"] * rest < FEWEST)
    noise = calibrated(task, p.size).noise
    cases = [(p.sum(axis=0)[0], 1.0, len(p))]
    if name in ("conditional share", *COMPARED):
        cases = [(p[0, 0], p[0].sum(), 1)]
    if name in COMPARED:
        cases.append((p[1, 0], p[1].sum(), 1))
    for inside, whole, cells in cases:
        t, others = inside / whole, cells * (p.shape[1] - 1)
        size = cells * (1 - t) ** 2 + others * t**2
        counts = task["n"] * whole * t * (1 - t) * (1 + noise.per_count)
        reach = 3 * np.sqrt(counts + noise.variance * size)
        if task["n"] * min(inside, whole - inside) < reach:
            return True
    return False


def reasons(rows: pd.DataFrame) -> pd.Series:
    """Why an interval may cover more than nominally; empty if it may not."""
    near = rows["near_end"].astype(bool)
    kinds = rows["kind"].str.split(",").str[0]
    found = pd.Series("", index=rows.index)
    found[near & kinds.isin(("share", "conditional share", *COMPARED))] = NEAR
    found[near & (kinds == "correlation")] = FEW
    for kind, reason in CONSERVATIVE.items():
        found[kinds == kind] = reason
    found[rows["whole"] > SOME] = WHOLE
    return found


def above(rows: pd.DataFrame) -> str:
    """A table of the cells that cover more than the limit, by statistic and reason."""
    high = rows[rows["rate"] > MOST]
    why = reasons(high).replace("", UNKNOWN)
    table = pd.crosstab(high["kind"], why)
    order = [WHOLE, NEAR, *CONSERVATIVE.values(), FEW, UNKNOWN]
    table = table.reindex(columns=[each for each in order if each in table or each == UNKNOWN])
    kinds = list(dict.fromkeys(rows["kind"]))
    table = table.reindex(index=kinds).fillna(0).astype(int)
    table.insert(0, "cells", rows["kind"].value_counts().reindex(kinds))
    table.insert(1, f"above {MOST:.1%}", table.iloc[:, 1:].sum(axis=1))
    table.loc["all"] = table.sum()
    return figures.markdown(table.rename_axis(index="estimate", columns=None))


class InferenceCoverage(Experiment):
    name = "inference-coverage"
    title = "Coverage of confidence intervals"
    reproduces = "`skdirdp.inference` on tables of all sizes, budgets, adjacencies and mechanisms"

    functions = staticmethod(estimates)
    scope = "of shares, differences, odds ratios, means and quantiles"

    def tables(self) -> dict[str, np.ndarray]:
        """The probabilities of the cells of all tables, by name."""
        return {name: probabilities(name) for name in TABLES}

    def tasks(self, settings: Settings) -> list[Row]:
        grid = product(MECHANISMS, ADJACENCIES, SIZES, EPSILONS)
        tasks = [
            {"mechanism": m, "adjacency": a, "n": n, "epsilon": epsilon}
            for m, a, n, epsilon in grid
        ]
        return tasks[1::11] if settings.quick else tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        runs = QUICK_RUNS if settings.quick else RUNS
        rng = seeded(self.name, *task.values())
        rows = []
        for name, p in self.tables().items():
            truth = truths(p)
            table = drawn(p, task, runs, rng)
            for kind, (function, whole) in self.functions(table).items():
                if table.shape == (2, 2) and kind in ("mean", "quantile"):
                    continue
                row = covered(function(), truth[kind], whole)
                rows.append(
                    {"table": name, "kind": kind, **row, "near_end": near_end(p, task, kind)}
                )
        return rows

    def figure(self, results: pd.DataFrame):
        return figure(results, (LEAST, MOST), "coverage")

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return summary(results)

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Nominal {CONFIDENCE:.0%} intervals; {accuracy(results)} Cells are all combinations "
            "of n = 300, 1000, 10000, ε = 0.1, 0.3, 1, 10 (δ = 1e-5, 0 for Laplace noise), and the "
            f"tables {', '.join(self.tables())}. The number of records is public with replacement, "
            "and protected otherwise. Medians of widths are in the CSV file.\n\n"
            f"Cells that cover more than {MOST:.1%}, by reason:\n\n{above(results)}\n"
            f"*{WHOLE}*: the interval is the whole range in more than {SOME:.0%} of the runs, "
            f"because nothing can be said. *{NEAR}*: within three deviations of the noise and "
            "sampling; tests have one side there, and for two unknown shares no test has exactly "
            "the nominal level. *edges of bins*: limits of quantiles are edges. *all directions*: "
            "the upper limit of Cramer's V allows for all directions of association. "
            f"*{FEW}*: fewer than {FEWEST} are expected outside of the most frequent row and "
            "column, and a correlation depends on them."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        exact = results[reasons(results) == ""]
        return [
            verdict(
                results,
                f"Nominal 95% intervals {self.scope} cover at least {LEAST:.0%} in every cell",
                LEAST,
                below=True,
            ),
            verdict(results, f"and at most {MOST:.1%} in every cell", MOST, below=False),
            verdict(
                exact,
                f"and at most {MOST:.1%} in every cell without one of the listed reasons",
                MOST,
                below=False,
            ),
        ]


class InferenceAssociation(InferenceCoverage):
    name = "inference-association"
    title = "Coverage of intervals for measures of association"
    reproduces = "the same for `correlation` and `cramers_v`"

    functions = staticmethod(measures)
    scope = "of measures of association"

    def remarks(self, results: pd.DataFrame) -> str:
        return super().remarks(results) + (
            " The conditions under which an interval for Cramer's V is the whole range were set "
            "after a first run on these tables; `inference-fresh` has other tables."
        )


def covered(found: Estimate, truth: Any, whole: float) -> Row:
    """How often intervals contain the true values, and their widths."""
    width = found.high - found.low
    return {
        "runs": len(width),
        "rate": np.mean((found.low <= truth) & (truth <= found.high)),
        "width": np.median(width),
        "whole": np.mean(width >= whole),
    }


def figure(results: pd.DataFrame, limits: tuple[float, ...], label: str):
    """The rates of all cells, by kind."""
    groups = results.groupby("kind", sort=False)
    found, axes = figures.panels(groups.ngroups, columns=min(groups.ngroups, 4))
    for axis, (kind, part) in zip(axes, groups, strict=False):
        for mechanism, points in part.groupby("mechanism", sort=False):
            x = points["epsilon"] * (1 + 0.15 * list(MECHANISMS).index(mechanism))
            axis.plot(x, points["rate"], "o", markersize=2.5, alpha=0.5, label=mechanism)
        for limit in limits:
            if np.abs(part["rate"] - limit).min() < 0.1:
                axis.axhline(limit, color="0.5", linewidth=0.8)
        axis.set(xscale="log", xlabel="ε", title=kind, ylabel=label)
        levels = sorted(set(part["epsilon"]))
        axis.set_xticks(levels, [f"{level:g}" for level in levels])
        axis.set_xticks([], minor=True)
    figures.legend_below(found, axes)
    return found


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Lowest, mean and highest rates by kind, mechanism and adjacency."""
    rows = []
    for (kind, mechanism, adjacency), part in results.groupby(
        ["kind", "mechanism", "adjacency"], sort=False
    ):
        row = {"estimate or test": kind, "mechanism": mechanism, "adjacency": adjacency}
        row |= {"cells": len(part), "lowest": part["rate"].min(), "mean": part["rate"].mean()}
        rows.append(row | {"highest": part["rate"].max()})
    return pd.DataFrame(rows).set_index(["estimate or test", "mechanism", "adjacency"])


def accuracy(results: pd.DataFrame) -> str:
    """A sentence on the standard error of rates."""
    runs = int(results["runs"].min())
    error = np.sqrt(LEVEL * (1 - LEVEL) / runs)
    return (
        f"{runs} runs a cell, so that a rate has a standard error of {error:.4f} or a little more."
    )


def verdict(rows: pd.DataFrame, statement: str, limit: float, *, below: bool) -> Claim:
    """Hold a limit, up to three standard errors of a rate that is at the limit."""
    tolerance = 3 * np.sqrt(limit * (1 - limit) / rows["runs"])
    beyond = limit - rows["rate"] if below else rows["rate"] - limit
    extreme = rows["rate"].min() if below else rows["rate"].max()
    return Claim(
        "skdirdp",
        statement,
        bool((beyond <= tolerance).all()),
        f"{'lowest' if below else 'highest'} {extreme:.4f} of {len(rows)} cells; "
        f"{(beyond > 0).sum()} beyond the limit, {(beyond > tolerance).sum()} by more than "
        f"{tolerance.max():.4f}, three standard errors",
    )


# Power ------------------------------------------------------------------------------

POWER_RECORDS = 1000
POWER_RUNS, QUICK_POWER_RUNS = 1000, 60
POWER_RESAMPLES = 99
#: Tables whose association Pearson's test without noise finds in 80% to 90% of 1000 records.
ASSOCIATIONS = {"2x2": 0.095, "4x4": 0.132, "8x8": 0.175}
OURS, THEIRS, PEARSON = "skdirdp", "Gaboardi et al.", "no privacy"


def associated(name: str) -> np.ndarray:
    """A table with equal margins and association phi: rows and columns of like parity go along."""
    size = int(name[0])
    signs = (-1.0) ** np.arange(size)
    return (1 + ASSOCIATIONS[name] * np.outer(signs, signs)) / size**2


def monte_carlo_test(
    table: NoisyTable, n: int, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Reject independence by the Monte-Carlo test of Gaboardi, Lim, Rogers and Vadhan (2016).

    The noisy table is projected to possible tables. The hypothesis is not rejected if a cell is
    expected to have 5 records or fewer. Otherwise Pearson's statistic of the noisy table, with
    the margins of the projected one, is compared with those of simulated noisy tables.
    """
    shape = table.shape

    def statistics(noisy):
        clean = projected(noisy, np.full(len(noisy), float(n))) * n
        clean = clean.reshape(-1, *shape)
        rows, columns = clean.sum(axis=2) / n, clean.sum(axis=1) / n
        expected = (n * rows[:, :, np.newaxis] * columns[:, np.newaxis]).reshape(noisy.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.sum((noisy - expected) ** 2 / expected, axis=-1)
        return np.where(np.isfinite(found), found, np.inf), expected

    found, expected = statistics(table.counts.reshape(-1, table.size))
    rejected = np.zeros(len(found), dtype=bool)
    for i in np.flatnonzero(expected.min(axis=1) > 5):
        counts = rng.multinomial(n, expected[i] / expected[i].sum(), size=resamples).astype(float)
        noisy = simulated_noise(counts, table.mechanism, rng)
        rejected[i] = np.sum(statistics(noisy)[0] >= found[i]) + 1 <= LEVEL * (resamples + 1)
    return rejected


def simulated_noise(counts: np.ndarray, mechanism: Mechanism, rng: np.random.Generator):
    """Counts with simulated noise of a Gaussian or Laplace mechanism."""
    if isinstance(mechanism, LaplaceMechanism):
        return counts + rng.laplace(scale=mechanism.scale, size=counts.shape)
    return counts + rng.normal(scale=mechanism.sigma, size=counts.shape)


class InferencePower(Experiment):
    name = "inference-power"
    title = "Power of the test of independence"
    reproduces = "`skdirdp.inference.independence` against two tests at the same number of records"

    def tasks(self, settings: Settings) -> list[Row]:
        grid = product(ASSOCIATIONS, ("gaussian", "laplace"), EPSILONS)
        tasks = [
            {"table": t, "mechanism": m, "adjacency": "replace", "n": POWER_RECORDS, "epsilon": e}
            for t, m, e in grid
        ]
        return tasks[2:6:3] if settings.quick else tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        runs = QUICK_POWER_RUNS if settings.quick else POWER_RUNS
        rng = seeded(self.name, *task.values())
        p = associated(task["table"])
        counts = rng.multinomial(task["n"], p.ravel(), size=runs).reshape(runs, *p.shape)
        exact = NoisyTable(counts, GaussianMechanism(0.0), task["n"], batch_dims=1)
        noisy = drawn(p, task, runs, rng)
        planned = power(p, task["n"], noisy.mechanism)
        rejected = {
            PEARSON: independence(exact).pvalue <= LEVEL,
            OURS: independence(noisy, n_resamples=POWER_RESAMPLES).pvalue <= LEVEL,
            THEIRS: monte_carlo_test(noisy, task["n"], POWER_RESAMPLES, rng),
        }
        return [
            {"test": test, "runs": runs, "power": found.mean(), "planned": planned}
            for test, found in rejected.items()
        ]

    def figure(self, results: pd.DataFrame):
        cases = results.groupby(["mechanism", "table"], sort=False)
        figure, axes = figures.panels(cases.ngroups, columns=3)
        for axis, ((mechanism, table), part) in zip(axes, cases, strict=True):
            for test, line in part.groupby("test", sort=False):
                axis.plot(line["epsilon"], line["power"], "o-", markersize=3.5, label=test)
            axis.set(xscale="log", xlabel="ε", ylim=(0, 1), title=f"{table}, {mechanism}")
        axes[0].set_ylabel("power")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        keys = ["table", "mechanism", "epsilon"]
        table = results.pivot_table(index=keys, columns="test", values="power", sort=False)
        table = table.rename_axis(columns=None)[[PEARSON, OURS, THEIRS]]
        return table.assign(planned=results.groupby(keys, sort=False)["planned"].first())

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Share of {results['runs'].max()} tables of {POWER_RECORDS} records from a population "
            "with an association for which a test at the 5% level rejects independence. *Planned* "
            "is the result of `power`, which sees no data. The test of Gaboardi et al. (2016) is "
            "written after their paper; it does not reject if a cell is expected to have 5 records "
            f"or fewer. Both private tests take the same noisy tables and {POWER_RESAMPLES} "
            "simulated ones. OpenDP 0.16 has no test of hypotheses."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        keys = ["table", "mechanism", "epsilon"]
        found = results.pivot_table(index=keys, columns="test", values="power", sort=False)
        runs = results["runs"].max()
        # Twice the standard error of a difference of two rates.
        behind = found[THEIRS] - found[OURS]
        planned = results.groupby(keys, sort=False)["planned"].first() - found[OURS]
        best = found.xs(10.0, level="epsilon") if 10.0 in found.index.levels[2] else found
        return [
            Claim(
                "skdirdp",
                "The test has at least the power of the test of Gaboardi et al.",
                bool((behind <= 2 * np.sqrt(0.5 / runs)).all()),
                f"behind by at most {max(behind.max(), 0):.3f}, ahead by up to {-behind.min():.3f}",
            ),
            Claim(
                "skdirdp",
                "`power` predicts the share of rejections within 0.08",
                bool((planned.abs() <= 0.08).all()),
                f"largest difference {planned.abs().max():.3f}",
            ),
            Claim(
                "skdirdp",
                "At ε = 10 the test has 90% of the power of Pearson's test without noise",
                bool((best[OURS] >= 0.9 * best[PEARSON]).all()),
                f"at least {(best[OURS] / best[PEARSON]).min():.2f} of it",
            ),
        ]
