"""Memory of a fit, compared with peers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdirdp import PrivateBayesNetMLE

from .. import figures, workloads
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import peak_memory


def fit_categorical(ours: bool, n: int) -> Callable[[], Any]:
    X, y = workloads.categories(n, 20, 10, 5)
    model = workloads.private_categorical(10, 5) if ours else workloads.plain_categorical(10)
    model.fit(X[:100], y[:100])  # exclude imports from the measurement
    return partial(model.fit, X, y)


def fit_multinomial(ours: bool, n: int) -> Callable[[], Any]:
    X, y = workloads.words(n, n // 2, 100 * n, 20)
    model = workloads.private_multinomial(20) if ours else workloads.plain_multinomial()
    model.fit(X[:100], y[:100])
    return partial(model.fit, X, y)


def fit_histogram(ours: bool, n: int) -> Callable[[], Any]:
    X = workloads.numbers(n, 20)
    model = workloads.private_bins() if ours else workloads.plain_bins()
    model.fit(X[:100])
    return partial(model.fit, X)


def fit_network(ours: bool, n: int) -> Callable[[], Any]:
    from pgmpy.parameter_estimator import DiscreteMLE

    network, strings = workloads.alarm(n)
    if ours:
        model = PrivateBayesNetMLE(network, states=network.states).fit(strings[:100])
        return partial(model.fit, strings)
    model = DiscreteMLE(state_names=network.states)
    model.fit(network, strings[:100])
    return partial(model.fit, network, strings)


@dataclass(frozen=True)
class Fit:
    """A fit whose memory is measured, of ours and of its peer's."""

    prepare: Callable[[bool, int], Callable[[], Any]]
    n: int
    model: str
    peer: str
    shape: str


FITS = {
    "categorical": Fit(
        fit_categorical, 1_000_000, "DirichletCategoricalNB", "CategoricalNB", "x 20 integers"
    ),
    "multinomial": Fit(
        fit_multinomial, 100_000, "DirichletNB", "MultinomialNB", "rows of 100 words, sparse"
    ),
    "histogram": Fit(
        fit_histogram,
        1_000_000,
        "DirichletHistogramTransformer",
        "KBinsDiscretizer",
        "x 20 numbers",
    ),
    "network": Fit(
        fit_network, 1_000_000, "PrivateBayesNetMLE", "pgmpy's DiscreteMLE", "x 37 strings"
    ),
}
AT_MOST_RATIO = 1.5
AT_MOST_NETWORK = 4096  # MiB, for a million records of 37 strings


class Memory(Experiment):
    name = "memory"
    title = "Memory"
    reproduces = "the peak of resident memory of a fit, each in a separate process"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        return [{"fit": name} for name in (["categorical"] if settings.quick else FITS)]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        fit = FITS[task["fit"]]
        n = fit.n // 10 if settings.quick else fit.n
        rows = []
        for ours, model in ((True, fit.model), (False, fit.peer)):
            before, peak = peak_memory(fit.prepare, ours, n)
            rows.append({"model": model, "ours": ours, "n": n, "before": before, "peak": peak})
        return rows

    def _sides(self, results: pd.DataFrame) -> pd.DataFrame:
        """Both sides' memory in one row per fit, in the order they were measured."""
        wide = results.pivot(index="fit", columns="ours", values=["before", "peak", "n"])
        return wide.loc[results["fit"].unique()]

    def figure(self, results: pd.DataFrame):
        sides = self._sides(results).iloc[::-1]
        figure, (axis,) = figures.panels(1, width=8, height=0.75 * len(sides) + 1.5)
        places = np.arange(len(sides))
        for ours, label, colour in ((True, "skdirdp", "#0b61a4"), (False, "the peer", "#c1440e")):
            at = places + (0.2 if ours else -0.2)
            before, peak = sides["before", ours], sides["peak", ours]
            axis.barh(at, before, 0.36, color=colour, alpha=0.35, label=f"{label}: data and code")
            axis.barh(at, peak - before, 0.36, left=before, color=colour, label=f"{label}: the fit")
        axis.set_yticks(places, [f"{FITS[name].model}\n{FITS[name].peer}" for name in sides.index])
        axis.set_xlabel("peak of resident memory, MiB")
        figures.legend_below(figure, [axis], columns=2)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        sides = self._sides(results)
        fits = [FITS[name] for name in sides.index]
        extra = sides["peak"] - sides["before"]
        return pd.DataFrame(
            {
                "fit": [fit.model for fit in fits],
                "of": [
                    f"{n:.0f} {fit.shape}" for n, fit in zip(sides["n", True], fits, strict=True)
                ],
                "peak, MiB": sides["peak", True].round().to_numpy(),
                "peer": [fit.peer for fit in fits],
                "its peak, MiB": sides["peak", False].round().to_numpy(),
                "ratio": (sides["peak", True] / sides["peak", False]).to_numpy(),
                "above data and code, MiB": extra[True].round().to_numpy(),
                "its, MiB": extra[False].round().to_numpy(),
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "The peak includes the data and the code, as a user's machine must; the last columns "
            "do not."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        sides = self._sides(results)
        claims = [
            Claim(
                "skdirdp",
                f"The peak memory of {FITS[name].model}.fit is at most {AT_MOST_RATIO:g} times "
                f"{FITS[name].peer}'s",
                bool(row["peak", True] <= AT_MOST_RATIO * row["peak", False]),
                f"{row['peak', True] / row['peak', False]:.2f} times",
            )
            for name, row in sides.iterrows()
        ]
        if "network" in sides.index:
            peak = sides.loc["network", ("peak", True)]
            claims.append(
                Claim(
                    "skdirdp",
                    "PrivateBayesNetMLE fits 1 000 000 x 37 strings within 4 GiB",
                    bool(peak <= AT_MOST_NETWORK),
                    f"{peak / 1024:.2f} GiB, data and code included",
                )
            )
        return claims
