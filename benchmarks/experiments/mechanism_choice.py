"""Which mechanism to take for which number of records, categories and budget."""

from itertools import product

import numpy as np
import pandas as pd

from skdirdp.mechanisms import Mechanism, calibrate

from .. import figures
from ..divergence import expected_kl
from ..experiment import Claim, Experiment, Row, seeded
from ..methods import DELTA

_KINDS = ("dirichlet", "gaussian", "laplace")
_SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
_CATEGORIES = (2, 10, 100, 1000)
_EPSILONS = (0.1, 1.0, 10.0)
_RELEASES = (1, 14)  # a histogram; a naive Bayes model of 13 features
_DRAWS = 200

#: How the true distribution may look.
_SHAPES = {
    "spread": lambda d, rng: rng.dirichlet(np.full(d, 5.0)),
    "uneven": lambda d, rng: rng.dirichlet(np.full(d, 0.5)),
    "Zipf": lambda d, rng: rng.permutation(_normalised(1 / np.arange(1, d + 1))),
}


class MechanismChoice(Experiment):
    name = "mechanism-choice"
    title = "Which mechanism for which data"
    reproduces = (
        "one histogram, or 14 of them, at (ε, 1e-5)-DP: the expected KL divergence of each "
        "mechanism, on distributions of three shapes that calibration does not know"
    )

    def tasks(self, settings):
        if settings.quick:
            grid = product(_RELEASES, (1.0,), (10,), (100, 100_000), ("uneven",))
        else:
            grid = product(_RELEASES, _EPSILONS, _CATEGORIES, _SIZES, _SHAPES)
        names = ("releases", "epsilon", "d", "n", "shape")
        return [dict(zip(names, values, strict=True)) for values in grid]

    def measure(self, task, settings):
        rng = seeded(*task.values())
        d, n = task["d"], task["n"]
        histograms = [rng.multinomial(n, _SHAPES[task["shape"]](d, rng)) for _ in range(5)]
        public = {"delta": DELTA, "n_samples": n, "n_categories": d}
        public |= {name: task[name] for name in ("epsilon", "releases")}
        mechanisms = {kind: calibrate(kind, **public) for kind in (*_KINDS, "auto")}
        row: Row = {"auto": mechanisms["auto"].name, "u": n / (d * mechanisms["gaussian"].sigma)}
        for kind in _KINDS:
            row[kind], row[f"{kind}_error"] = _divergence(mechanisms[kind], histograms, rng)
        return [row]

    def figure(self, results):
        epsilons = sorted(results["epsilon"].unique())
        columns = len(epsilons) + 1
        figure, axes = figures.panels(columns * len(_RELEASES), columns, width=3.9)
        for row, releases in enumerate(_RELEASES):
            part = results[results["releases"] == releases]
            panels = axes[columns * row : columns * (row + 1)]
            for axis, epsilon in zip(panels, epsilons, strict=False):
                _draw_map(axis, part[part["epsilon"] == epsilon])
                tables = "table" if releases == 1 else "tables"
                axis.set_title(
                    f"Dirichlet / best, {releases} {tables}, ε = {epsilon:g}", fontsize=10
                )
            for shape, points in part.groupby("shape", sort=False):
                ratio = points["dirichlet"] / points["gaussian"]
                panels[-1].plot(points["u"], ratio, ".", label=shape, alpha=0.7)
            panels[-1].axhline(1, color="black", linewidth=0.8)
            panels[-1].set(xscale="log", yscale="log", xlabel="u = n / (d sigma)")
            panels[-1].set_title(f"Dirichlet / Gaussian, {releases} {tables}", fontsize=10)
            panels[-1].legend(fontsize=8)
        return figure

    def table(self, results):
        """The best mechanism, and how many times larger the Dirichlet's divergence is."""
        keys = ["releases", "epsilon", "d", "n"]
        mean = results.groupby(keys, sort=False)[list(_KINDS)].mean()
        times = mean["dirichlet"] / mean.min(axis=1)
        cells = [
            name if name == "dirichlet" else f"{name} ({_times(ratio)})"
            for name, ratio in zip(mean.idxmin(axis=1), times, strict=True)
        ]
        table = pd.Series(cells, mean.index).unstack("n").rename(columns=lambda n: f"n = {n:,}")
        return table.rename_axis(["tables", "ε", "d"])

    def remarks(self, results):
        regret = _regret(results)
        return (
            "Each cell names the mechanism of least expected KL divergence, averaged over the "
            "three shapes, and in brackets how many times as large the Dirichlet mechanism's is; "
            "below 1.1 the two are as good as equal. n are the counts in one row of a table, d the "
            "cells of that row.\n\n"
            '`mechanism="auto"`, which knows n, d and the budget but not the data, is at worst '
            f"{regret.max():.2f} times, and on average {regret.mean():.3f} times, the best one."
        )

    def claims(self, results):
        ratio = results["dirichlet"] / results["gaussian"]
        regret = _regret(results)
        imagined = results["shape"] == "uneven"  # the reference distribution of calibration
        many, few = ratio[results["u"] >= 10], results["u"] <= 0.3
        claims = [
            Claim(
                "skdirdp",
                '`mechanism="auto"` is within 5% of the best mechanism, without seeing data, where '
                "these look as it imagines",
                bool(regret[imagined].max() <= 1.05),
                f"at worst {regret[imagined].max():.3f} times the best; on other shapes "
                f"{regret[~imagined].max():.2f}",
            ),
            Claim(
                "skdirdp",
                "Where a row has many counts for its categories and noise (u = n/(dσ) ≥ 10), "
                "Gaussian noise that is smoothed well has the smaller divergence",
                bool((many > 1).all()),
                f"the Dirichlet's is {many.min():.2f} to {many.max():.3g} times as large",
            ),
        ]
        if few.any():
            found, others = ratio[few & imagined], ratio[few & ~imagined]
            claims.append(
                Claim(
                    "skdirdp",
                    "Where a row has few (u ≤ 0.3), the Dirichlet mechanism is equal (within 5%) "
                    "or better, where the data look as imagined",
                    bool((found <= 1.05).all()),
                    f"its divergence is {found.min():.2f} to {found.max():.2f} times the "
                    f"Gaussian's; on other shapes {others.min():.2f} (spread evenly) to "
                    f"{others.max():.2f} (Zipf's law)",
                )
            )
        return claims


def _normalised(values: np.ndarray) -> np.ndarray:
    return values / values.sum()


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"


def _divergence(mechanism: Mechanism, histograms, rng) -> tuple[float, float]:
    found = [
        expected_kl([(mechanism, counts[np.newaxis].astype(float))], _DRAWS, rng)
        for counts in histograms
    ]
    error = np.sqrt(sum(each.error**2 for each in found)) / len(found)
    return float(np.mean([each.value for each in found])), float(error)


def _regret(results: pd.DataFrame) -> pd.Series:
    """Return the divergence of "auto" relative to that of the best mechanism for the data."""
    chosen = results.apply(lambda row: row[row["auto"]], axis=1)
    return chosen / results[list(_KINDS)].min(axis=1)


def _draw_map(axis, part: pd.DataFrame) -> None:
    mean = part.groupby(["d", "n"])[list(_KINDS)].mean()
    ratio = (mean["dirichlet"] / mean.min(axis=1)).unstack("n")
    axis.imshow(np.log(ratio), cmap="Oranges", vmin=0, vmax=np.log(50), aspect="auto")
    for i, j in np.ndindex(ratio.shape):
        value = ratio.iat[i, j]
        colour = "white" if value > 15 else "black"
        axis.text(j, i, _times(value), ha="center", va="center", fontsize=9, color=colour)
    axis.set_xticks(range(ratio.shape[1]), [f"$10^{np.log10(n):.0f}$" for n in ratio.columns])
    axis.set_yticks(range(ratio.shape[0]), ratio.index)
    axis.set(xlabel="n", ylabel="d")
