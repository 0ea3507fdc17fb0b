"""Cost and benefit of publishing the best of many runs."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from skdirdp import (
    DirichletCategoricalNB,
    DirichletNB,
    PrivacyLeakWarning,
)
from skdirdp.accounting import Composition, RepeatedSelection
from skdirdp.mechanisms import GaussianMechanism, calibrate
from skdirdp.model_selection import PrivateGridSearchCV

from .. import data, figures
from ..experiment import Claim, Experiment, Row, Settings

DELTA = 1e-5
SHAPES = {"logarithmic": 0.0, "geometric": 1.0}
EXACT, RENYI, COMPOSED, FOUND = "profile", "Rényi", "composition", "worst neighbours found"


# Cost --------------------------------------------------------------------------------


class Selection(Experiment):
    name = "selection"
    title = "Model selection by private scores: cost of the best of many runs"
    reproduces = (
        "the ε of publishing the best of a random number of runs, each with Gaussian noise of "
        "(1, 1e-5), by our bound, by the Rényi bound of Papernot and Steinke, and by composition"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        runs = (30,) if settings.quick else (10, 30, 100)
        return [{"runs": mean, "K": shape} for mean in runs for shape in SHAPES]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        run = calibrate("gaussian", epsilon=1.0, delta=DELTA)
        assert isinstance(run, GaussianMechanism)
        best = RepeatedSelection.with_mean(run, task["runs"], SHAPES[task["K"]])
        found = {
            EXACT: best.epsilon(DELTA),
            RENYI: _renyi_epsilon(best),
            COMPOSED: Composition([(run, task["runs"])]).epsilon(DELTA),
            FOUND: attained_epsilon(best, float(np.sqrt(2) / run.sigma)),
        }
        gain = {"regret": expected_regret(best)}
        return [{"way": way, "epsilon": epsilon, **gain} for way, epsilon in found.items()]

    def figure(self, results: pd.DataFrame):
        figure, axes = figures.panels(len(SHAPES), width=3.6, height=2.8)
        for axis, shape in zip(axes, SHAPES, strict=True):
            part = results[results["K"] == shape]
            for way, line in part.groupby("way", sort=False):
                axis.plot(line["runs"], line["epsilon"], marker="o", label=way)
            axis.set(xscale="log", xlabel="expected runs", title=f"{shape} number of runs")
        axes[0].set_ylabel("ε at δ = 1e-5")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        index = ["runs", "K", "regret"]
        return results.pivot_table(index=index, columns="way", values="epsilon", sort=False)

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "One run is Gaussian noise of (1, 1e-5). *Worst neighbours found* is the loss of an "
            "explicit pair of neighbours and order of scores, a lower limit for any bound. "
            "*regret* is the expected rank of the best run among candidates, from 0 (the best) to "
            "1. At equal cost the geometric number of runs has the smaller regret, with fewer "
            "runs, so searches use it."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        table = results.set_index(["runs", "K", "way"])["epsilon"]
        at_30 = table[30, "logarithmic"]
        by_way = results.pivot_table(index=["runs", "K"], columns="way", values="epsilon")
        gap = (by_way[EXACT] - by_way[FOUND]).max()
        return [
            Claim(
                "skdirdp",
                "The best of 30 expected runs of (1, 1e-5) costs ε ≤ 1.75 at δ = 1e-5.",
                bool(at_30[EXACT] <= 1.75),
                f"{at_30[EXACT]:.3f}; by the Rényi bound {at_30[RENYI]:.3f}, "
                f"by composition {at_30[COMPOSED]:.3f}",
            ),
            Claim(
                "skdirdp",
                "The bound is never below the loss of an attack, and close to it.",
                bool((by_way[EXACT] >= by_way[FOUND]).all()),
                f"at most {gap:.3f} above",
            ),
        ]


def _renyi_epsilon(best: RepeatedSelection) -> float:
    orders = 1 + np.geomspace(0.01, 1e4, 2000)
    cost = np.log1p(-1 / orders) - (np.log(DELTA) + np.log(orders)) / (orders - 1)
    return float(np.min(np.asarray(best.rdp(orders)) + cost))


def densities(best: RepeatedSelection, u: np.ndarray) -> np.ndarray:
    """f'(1 - u), of the generating function f of the number of runs."""
    gamma, power = best.gamma, best.shape + 1
    return best.mean * (gamma / (gamma + (1 - gamma) * u)) ** power


def expected_regret(best: RepeatedSelection) -> float:
    """The mean of 1 / (K + 1): the integral of the generating function over (0, 1)."""
    u = np.linspace(0, 1, 20_001)
    # f(x) = 1 - the integral of f'(1 - u) over u < 1 - x
    tail = np.concatenate([[0], np.cumsum((densities(best, u)[1:] + densities(best, u)[:-1]) / 2)])
    return float(np.mean(1 - tail * (u[1] - u[0])))


def attained_epsilon(best: RepeatedSelection, mu: float) -> float:
    """Privacy loss of the best of runs N(mu, 1) against N(0, 1), for the worst order of scores.

    The outputs whose loss is below a threshold score best, and then all others by their loss.
    """

    def attained(epsilon: float, threshold: float) -> float:
        x = np.linspace(threshold, mu + 12, 4001)
        middle, step = (x[1:] + x[:-1]) / 2, np.diff(x)
        top, top_neighbour = norm.cdf(threshold, mu), norm.cdf(threshold)
        u, u_neighbour = top + norm.sf(middle, mu), top_neighbour + norm.sf(middle)
        gain = densities(best, u) * norm.pdf(middle, mu)
        gain -= np.exp(epsilon) * densities(best, u_neighbour) * norm.pdf(middle)
        return float(np.maximum(gain, 0) @ step)

    thresholds = np.linspace(mu - 5, mu + 1, 121)

    def largest(epsilon: float) -> float:
        return max(attained(epsilon, threshold) for threshold in thresholds)

    return float(
        brentq(lambda epsilon: np.log(max(largest(epsilon), 1e-300) / DELTA), 0.1, 10.0, xtol=1e-4)
    )


# Benefit ------------------------------------------------------------------------------

DEFAULT, SEARCHED = "default", "search"
OF_THE_RUN = "search, model of the run"
#: Every candidate fitted and paid for: with a last fit to all records as in a search, and without.
ALL_PAID, ALL_PAID_RUN = "composition", "composition, model of the run"
ORACLE = "oracle, not private"
EPSILONS = (1.0, 3.0)
REPEATS, QUICK_REPEATS = 4, 1
DRAWS = 5  # of the default's noise, for each split
DATA_SETS = ("german_credit", "digit", "thyroid", "spam", "shopper", "adult")


@cache
def _problem(name: str, folder: Any) -> tuple[np.ndarray, np.ndarray, Any, dict[str, list]]:
    """Records, labels, the default estimator and the candidates."""
    mechanisms = ["dirichlet", "gaussian"]
    if name == "digit":
        table = data.load(name, folder)
        X, y = table.iloc[:, :-1].to_numpy(float), data.coded(table).y
        model = DirichletNB(classes=range(10), max_count=16, max_total=400)
        return X, y, model, {"mechanism": mechanisms, "max_total": [50, 150, 400]}
    table = data.coded(data.load_fresh(name) if name in data.FRESH else data.load(name, folder))
    model = DirichletCategoricalNB(classes=range(table.n_classes), n_categories=table.n_categories)
    return table.X, table.y, model, {"mechanism": mechanisms, "alpha": [0.1, 1.0, 10.0]}


class SelectionWorth(Experiment):
    name = "selection-worth"
    title = "Model selection by private scores: gain in accuracy"
    reproduces = (
        "accuracy of the selected model, compared with the defaults at the same total budget, of a "
        "search by composition, and of the best candidate by its exact scores"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = ("wine",) if settings.quick else DATA_SETS
        epsilons = (1.0,) if settings.quick else EPSILONS
        return [{"data": name, "epsilon": epsilon} for name in names for epsilon in epsilons]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        X, y, model, grid = _problem(task["data"], settings.data)
        found: dict[str, list[float]] = {}
        for repeat in range(QUICK_REPEATS if settings.quick else REPEATS):
            train, test = data.split(len(y), repeat)
            for method, fitted in self._fitted(model, grid, task, X[train], y[train], repeat):
                # The oracle looks at the scores; the default does not, and is drawn several times.
                scores = [each.score(X[test], y[test]) for each in fitted]
                accuracy = max(scores) if method == ORACLE else np.mean(scores)
                found.setdefault(method, []).append(float(accuracy))
        return [
            {"method": method, "accuracy": np.mean(each), "deviation": np.std(each)}
            for method, each in found.items()
        ]

    @staticmethod
    def _fitted(model, grid, task, X, y, repeat):
        epsilon = task["epsilon"]
        search = {"epsilon": epsilon, "delta": DELTA, "random_state": repeat}
        candidates = [{}] * DRAWS + list(ParameterGrid(grid))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            fits = [
                clone(model)
                .set_params(**each, epsilon=epsilon, delta=DELTA, random_state=number)
                .fit(X, y)
                for number, each in enumerate(candidates, 1000 * repeat)
            ]
            yield DEFAULT, fits[:DRAWS]
            yield ORACLE, fits[DRAWS:]
            yield SEARCHED, [PrivateGridSearchCV(model, grid, **search).fit(X, y)]
            yield OF_THE_RUN, [PrivateGridSearchCV(model, grid, refit="run", **search).fit(X, y)]
            for method, refit in ((ALL_PAID, "all"), (ALL_PAID_RUN, "run")):
                composed = PrivateGridSearchCV(
                    model, grid, route="composition", refit=refit, **search
                )
                yield method, [composed.fit(X, y)]

    def figure(self, results: pd.DataFrame):
        epsilons = sorted(results["epsilon"].unique())
        figure, axes = figures.panels(len(epsilons), width=4.6, height=3.2)
        for axis, epsilon in zip(axes, epsilons, strict=True):
            part = results[results["epsilon"] == epsilon]
            for method, line in part.groupby("method", sort=False):
                axis.plot(line["data"], line["accuracy"], "o", label=method, alpha=0.7)
            axis.set_title(f"total of ({epsilon:g}, 1e-5)")
            axis.tick_params(axis="x", rotation=30)
        axes[0].set_ylabel("accuracy")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        index = ["data", "epsilon"]
        return results.pivot_table(index=index, columns="method", values="accuracy", sort=False)

    def remarks(self, results: pd.DataFrame) -> str:
        table = self.table(results)
        gain = 100 * (table[SEARCHED] - table[DEFAULT])
        where = [
            f"{name} at ε = {epsilon:g} ({each:+.1f})" for (name, epsilon), each in gain.items()
        ]
        lost = [text for text, each in zip(where, gain, strict=True) if each < 0]
        return (
            f"Means over {REPEATS} splits; six candidates each; one standard error is about half a "
            "point where records are few. The oracle fits every candidate "
            "with the whole budget and takes the best by exact scores of the test records: "
            "nothing of it could be published. Points of accuracy that the search gains over the "
            f"default: {', '.join(where)}. Not worth its cost: {', '.join(lost) or 'nowhere'}."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        table = self.table(results)
        composed = table[[ALL_PAID, ALL_PAID_RUN]]
        gain = 100 * (table[SEARCHED] - table[DEFAULT])
        return [
            Claim(
                "skdirdp",
                "A search is at least as accurate as one by composition, on average.",
                bool((table[SEARCHED].mean() >= composed.mean()).all()),
                f"{table[SEARCHED].mean():.4f}; composition {composed[ALL_PAID].mean():.4f}, and "
                f"{composed[ALL_PAID_RUN].mean():.4f} with the model of the run",
            ),
            Claim(
                "skdirdp",
                "On average, a search is more accurate than the default at the same budget.",
                bool(gain.mean() > 0),
                f"by {gain.mean():+.2f} points on average, from {gain.min():+.1f} to "
                f"{gain.max():+.1f}; better in {(gain > 0).sum()} of {len(gain)} cases",
            ),
        ]
