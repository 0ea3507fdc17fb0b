"""Released models by every mechanism, at the same true privacy, on several data sets."""

from abc import abstractmethod
from collections.abc import Collection, Iterator
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from . import figures
from .experiment import Experiment, Row, Settings
from .methods import BASELINES, EPSILONS, GUARANTEES

# Standard errors follow from the number of splits and of fits, which are few to save time.
_REPEATS, _QUICK_REPEATS = 3, 2
_LOGARITHMIC = ("cross_entropy", "expected_kl")
_SHOWN = [
    "Dirichlet, Algorithm 1",
    "Dirichlet, exact",
    "auto",
    "Dirichlet, post-processed",
    "auto, post-processed",
]


class ModelComparison(Experiment):
    """Comparison of mechanisms by expected KL divergence and by scores on held-out records."""

    #: Verdicts on ratios: of the exact Dirichlet mechanism, and with "auto".
    promised: ClassVar[tuple[float, float] | None]
    #: Labels of the scores by name; the table has the first.
    scores: ClassVar[dict[str, str]]
    quick_epsilons: ClassVar[tuple[float, ...]] = (1.0,)
    #: Methods that would only crowd the figure.
    hidden: ClassVar[Collection[str]] = ()
    panel_size: ClassVar[tuple[float, float]] = (2.8, 2.0)

    @abstractmethod
    def data_sets(self, settings: Settings) -> list[str]:
        """Names of the data sets."""

    @abstractmethod
    def load(self, name: str, settings: Settings) -> Any:
        """Arguments of `measure_split` for a data set."""

    @abstractmethod
    def measure_split(self, loaded: Any, task: Row, repeat: int) -> Iterator[tuple[str, Row]]:
        """Each method with its scores, and "kl" with "kl_error", for one split of the records."""

    def tasks(self, settings):
        epsilons = self.quick_epsilons if settings.quick else EPSILONS
        grid = product(self.data_sets(settings), GUARANTEES, epsilons)
        return [dict(zip(("data", "guarantee", "epsilon"), each, strict=True)) for each in grid]

    def measure(self, task, settings):
        loaded = self.load(task["data"], settings)
        found: dict[str, list[Row]] = {}
        for repeat in range(_QUICK_REPEATS if settings.quick else _REPEATS):
            for method, row in self.measure_split(loaded, task, repeat):
                found.setdefault(method, []).append(row)
        return [{"method": method, **self._summary(rows)} for method, rows in found.items()]

    def _summary(self, rows: list[Row]) -> Row:
        """Means and deviations of scores; means of all else."""
        frame = pd.DataFrame(rows)
        summary: Row = {}
        for score in self.scores:
            deviation = frame[score].std() if len(frame) > 1 else 0.0
            summary |= {score: frame[score].mean(), f"{score}_deviation": deviation}
        summary["expected_kl"] = frame["kl"].mean()
        summary["expected_kl_error"] = np.sqrt((frame["kl_error"] ** 2).sum()) / len(frame)
        others = frame.columns.difference([*self.scores, "kl", "kl_error"], sort=False)
        return {**summary, **frame[others].mean()}

    def figure(self, results):
        names = list(dict.fromkeys(results["data"]))
        titles = {**self.scores, "expected_kl": "expected KL"}
        measured = set(results["guarantee"])
        columns = list(product([each for each in GUARANTEES if each in measured], titles))
        across = len(columns)
        figure, axes = figures.panels(across * len(names), across, *self.panel_size)
        for place, (axis, (name, (guarantee, metric))) in enumerate(
            zip(axes, product(names, columns), strict=True)
        ):
            part = results[(results["data"] == name) & (results["guarantee"] == guarantee)]
            self._draw(axis, part, metric)
            if place < across:
                axis.set_title(f"{titles[metric]}, {GUARANTEES[guarantee]}", fontsize=10)
            if place >= across * (len(names) - 1):
                axis.set_xlabel("ε")
            if place % across == 0:
                axis.set_ylabel(name)
        figures.legend_below(figure, axes, columns=9)
        return figure

    def _draw(self, axis, part: pd.DataFrame, metric: str) -> None:
        for method, line in part.groupby("method", sort=False):
            if method in self.hidden or line[metric].isna().all():
                continue
            look = figures.style(method)
            axis.plot(line["epsilon"], line[metric], label=method, **look)
            if f"{metric}_deviation" in line and method not in BASELINES:
                low, high = (line[metric] + sign * line[f"{metric}_deviation"] for sign in (-1, 1))
                shade = {"color": look["color"], "alpha": 0.12, "linewidth": 0}
                axis.fill_between(line["epsilon"], low, high, **shade)
        axis.set_xscale("log")
        if metric in _LOGARITHMIC:
            axis.set_yscale("log")

    def table(self, results):
        at_one = results[(results["epsilon"] == 1) & (results["guarantee"] == "DP")]
        score, title = next(iter(self.scores.items()))
        kl, scores = (
            at_one.pivot_table(index="data", columns="method", values=metric, sort=False)
            for metric in ("expected_kl", score)
        )
        shown = kl[_SHOWN].add_prefix("KL: ")
        return shown.join(scores[[*_SHOWN, "no privacy"]].add_prefix(f"{title}: "))
