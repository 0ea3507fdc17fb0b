"""Pipelines from raw numbers to predictions, and the cost of each step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import brentq
from sklearn.naive_bayes import GaussianNB

from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer, PrivacyAccountant
from skdirdp.accounting import Composition
from skdirdp.schema import fine_grid

from .. import data, figures
from ..experiment import Claim, Experiment, Row, Settings
from ..peers.environment import ask, environment
from ..problems import BOUNDS, Problem, linear, problem, symlog

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS = 10
N_BINS = 10
#: The part of epsilon that bins get. The classifier gets the rest, by exact composition.
BINS_SHARE = 0.25
#: Smaller probabilities are raised to this in a cross-entropy, for every method: a single
#: impossible event would outweigh all others.
LEAST_PROBABILITY = 1e-6
QUICK_DATA = ("breast_cancer",)
QUICK_EPSILONS = (1.0, 10.0)


# Ways from numbers to predictions --------------------------------------------------


def private_bins(problem: Problem, **budget) -> DirichletHistogramTransformer:
    bounds = np.column_stack([problem.low, problem.high])
    return DirichletHistogramTransformer(N_BINS, encode="ordinal", bounds=bounds, **budget)


def classifier(problem: Problem, n_categories=N_BINS, **budget) -> DirichletCategoricalNB:
    # The number of bins is fixed beforehand: were it the number that the released histogram
    # shows, noise would depend on an earlier release, and exact composition would not hold.
    return DirichletCategoricalNB(
        classes=range(problem.n_classes), n_categories=n_categories, **budget
    )


@lru_cache(maxsize=64)
def classifier_epsilon(name: str, folder: Path | None, epsilon: float, mechanism: str) -> float:
    """Return the epsilon of the classifier; bins and classifier compose to the budget."""
    whole = problem(name, folder)
    n = len(data.split(len(whole.X), 0)[0])
    # Mechanisms follow from public sizes alone, so that they can be had from a single row.
    budget = {"n_samples": n, "mechanism": mechanism, "delta": DELTA, "random_state": 0}
    row, label = whole.low[np.newaxis], np.zeros(1, dtype=int)
    bins = private_bins(whole, epsilon=BINS_SHARE * epsilon, **budget).fit(row)

    def excess(share: float) -> float:
        model = classifier(whole, epsilon=share * epsilon, **budget)
        model.fit(np.zeros(row.shape, dtype=int), label)
        parts = [*bins.privacy_.mechanisms, *model.privacy_.mechanisms]
        return Composition(parts).epsilon(DELTA) / epsilon - 1

    share = 1.0
    if excess(share) > 0:
        share = brentq(excess, 1 - BINS_SHARE, 1.0, xtol=1e-3)
        while excess(share) > 0:
            share -= 1e-3
    return share * epsilon


@dataclass(frozen=True)
class Trial:
    """One split of a problem, at one budget."""

    name: str
    folder: Path | None
    epsilon: float
    repeat: int

    @property
    def whole(self) -> Problem:
        return problem(self.name, self.folder)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        return data.split(len(self.whole.X), self.repeat)


#: Log-probabilities of all classes for the records to test, and the epsilon that was spent.
Outcome = tuple[np.ndarray, float]


def with_private_bins(trial: Trial, mechanism: str) -> Outcome:
    whole, (train, test) = trial.whole, trial.parts
    epsilon = classifier_epsilon(trial.name, trial.folder, trial.epsilon, mechanism)
    # The plan is fixed, and the limit is the whole budget: an overdraft would raise before
    # anything is released.
    accountant = PrivacyAccountant(trial.epsilon, DELTA, adaptive=False)
    shared = {"delta": DELTA, "mechanism": mechanism, "accountant": accountant}
    seeds = np.random.SeedSequence(trial.repeat).generate_state(2)
    bins = private_bins(
        whole, epsilon=BINS_SHARE * trial.epsilon, random_state=int(seeds[0]), **shared
    )
    model = classifier(whole, epsilon=epsilon, random_state=int(seeds[1]), **shared)
    model.fit(bins.fit_transform(whole.X[train]).astype(int), whole.y[train])
    return model.predict_log_proba(bins.transform(whole.X[test]).astype(int)), accountant.total()


def with_public_bins(trial: Trial, mechanism: str) -> Outcome:
    """Bins spread over the bounds, half evenly and half by logarithm: they cost nothing."""
    whole, (train, test) = trial.whole, trial.parts
    grids = [fine_grid(*pair, N_BINS, "mixed") for pair in zip(whole.low, whole.high, strict=True)]
    X = np.column_stack(
        [
            np.searchsorted(grid.edges[1:-1], column, side="right")
            for grid, column in zip(grids, whole.X.T, strict=True)
        ]
    )
    model = classifier(
        whole, epsilon=trial.epsilon, delta=DELTA, mechanism=mechanism, random_state=trial.repeat
    )
    model.fit(X[train], whole.y[train])
    return model.predict_log_proba(X[test]), model.privacy_.composition().epsilon(DELTA)


def with_papers_bins(trial: Trial, mechanism: str) -> Outcome:
    """Exact deciles of the data, as in the papers; they are not private."""
    whole, (train, test) = trial.whole, trial.parts
    model = classifier(
        whole,
        whole.papers.n_categories,
        epsilon=trial.epsilon,
        delta=DELTA,
        mechanism=mechanism,
        random_state=trial.repeat,
    )
    model.fit(whole.papers.X[train], whole.papers.y[train])
    return model.predict_log_proba(whole.papers.X[test]), np.inf


def without_privacy(trial: Trial) -> Outcome:
    return with_papers_bins(trial, "dirichlet")


def most_frequent(trial: Trial) -> Outcome:
    whole, (train, test) = trial.whole, trial.parts
    shares = np.bincount(whole.y[train], minlength=whole.n_classes) / len(train)
    return np.tile(np.log(shares), (len(test), 1)), 0.0


PRIVATE: dict[str, Callable[[Trial], Outcome]] = {
    "private bins, Dirichlet": lambda trial: with_private_bins(trial, "dirichlet"),
    "private bins, auto": lambda trial: with_private_bins(trial, "auto"),
    "public bins, auto": lambda trial: with_public_bins(trial, "auto"),
    "non-private bins, Dirichlet": lambda trial: with_papers_bins(trial, "dirichlet"),
}
BASELINES: dict[str, Callable[[Trial], Outcome]] = {
    "no privacy": without_privacy,
    "most frequent class": most_frequent,
}
PEER, PEER_BEST = "diffprivlib", "diffprivlib, best setting"
PEER_LIMIT = "no privacy, GaussianNB, best setting"
#: Values added to the variances that diffprivlib releases; the first is its default.
SMOOTHINGS = (1e-9, 1e-3, 1e-2, 1e-1)
SCALES = {"linear": linear, "symlog": symlog}

_LOOKS = {
    "private bins, Dirichlet": figures.STYLES["Dirichlet, exact"],
    "private bins, auto": figures.STYLES["auto"],
    "public bins, auto": {"color": "#2e7d32", "marker": "^"},
    "non-private bins, Dirichlet": {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    PEER: {"color": "#eda17f", "marker": "s", "linestyle": "--"},
    PEER_BEST: {"color": "#c1440e", "marker": "s"},
    "no privacy": figures.STYLES["no privacy"],
    PEER_LIMIT: {"color": "#c1440e", "linestyle": "--"},
    "most frequent class": figures.STYLES["random guess"],
}


def scores(log_p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    chosen = np.maximum(log_p[np.arange(len(y)), y], np.log(LEAST_PROBABILITY))
    return {
        "accuracy": float(np.mean(log_p.argmax(axis=1) == y)),
        "cross_entropy": float(-chosen.mean()),
    }


def summary(trials: pd.DataFrame) -> Row:
    """Mean and deviation over repeats."""
    return {
        **{name: trials[name].mean() for name in ("accuracy", "cross_entropy")},
        **{f"{name}_deviation": trials[name].std() for name in ("accuracy", "cross_entropy")},
    }


def gaussian_settings(name: str, folder: Path | None, repeats: int) -> list[Row]:
    """Scores of GaussianNB without privacy, in all settings that diffprivlib's is tried in."""
    whole, found = problem(name, folder), []
    for scale, scaled in SCALES.items():
        X = scaled(whole)
        for repeat in range(repeats):
            train, test = data.split(len(X), repeat)
            model = GaussianNB(var_smoothing=0).fit(X[train], whole.y[train])
            exact = model.var_
            for smoothing in SMOOTHINGS:
                model.var_ = exact + smoothing
                found.append(
                    {
                        "scale": scale,
                        "smoothing": smoothing,
                        **scores(model.predict_log_proba(X[test]), whole.y[test]),
                    }
                )
    return found


def by_setting(found: list[Row]) -> dict[tuple[str, float], Row]:
    groups = pd.DataFrame(found).groupby(["scale", "smoothing"], sort=False)
    return {setting: summary(trials) for setting, trials in groups}


def best_of(settings: dict[tuple[str, float], Row]) -> Row:
    """The best of each score, which may be of two settings."""
    best: Row = {}
    for score, better in (("accuracy", max), ("cross_entropy", min)):
        winner = better(settings.values(), key=lambda row, score=score: row[score])
        best |= {name: winner[name] for name in (score, f"{score}_deviation")}
    return best


class EndToEnd(Experiment):
    name = "end-to-end"
    title = "From raw numbers to predictions"
    reproduces = (
        "private binning and private naive Bayes in one budget, against the papers' non-private "
        "bins and diffprivlib's GaussianNB"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = QUICK_DATA if settings.quick else tuple(BOUNDS)
        epsilons = QUICK_EPSILONS if settings.quick else EPSILONS
        families = ["skdirdp"]
        # Here, and not in the tasks, which may run in several processes at once.
        if environment(create=not settings.quick) is not None:
            families.append(PEER)
        tasks = [
            {"data": name, "epsilon": epsilon, "family": family}
            for name in names
            for family in families
            for epsilon in epsilons
        ]
        return tasks + [{"data": name, "epsilon": np.inf, "family": "baselines"} for name in names]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        repeats = 2 if settings.quick else REPEATS
        if task["family"] == PEER:
            return self._measure_peer(task, settings, repeats)
        rows = []
        for method, way in (PRIVATE if task["family"] == "skdirdp" else BASELINES).items():
            trials, spent = [], []
            for repeat in range(repeats):
                trial = Trial(task["data"], settings.data, task["epsilon"], repeat)
                log_p, epsilon = way(trial)
                trials.append(scores(log_p, trial.whole.y[trial.parts[1]]))
                spent.append(epsilon)
            rows.append({"method": method, **summary(pd.DataFrame(trials)), "spent": max(spent)})
        if task["family"] == "baselines":
            found = by_setting(gaussian_settings(task["data"], settings.data, repeats))
            rows.append({"method": PEER_LIMIT, **best_of(found), "spent": np.inf})
        return rows

    def _measure_peer(self, task: Row, settings: Settings, repeats: int) -> list[Row]:
        folder = environment(create=False)
        whole = problem(task["data"], settings.data)
        parts = [data.split(len(whole.X), repeat) for repeat in range(repeats)]
        found = ask(
            folder,
            "naive_bayes",
            y=whole.y,
            train=[train for train, _ in parts],
            test=[test for _, test in parts],
            epsilon=task["epsilon"],
            scales=list(SCALES),
            smoothings=SMOOTHINGS,
            least=LEAST_PROBABILITY,
            **{f"X_{name}": scale(whole) for name, scale in SCALES.items()},
        )
        tried = by_setting(found)
        spent = {"spent": task["epsilon"]}
        return [
            {"method": PEER, **tried["linear", SMOOTHINGS[0]], **spent},
            {"method": PEER_BEST, **best_of(tried), **spent},
        ]

    def figure(self, results: pd.DataFrame):
        names = results["data"].unique()
        columns = min(4, len(names))
        block = -(-len(names) // columns) * columns  # panels of one score, empty ones included
        figure, axes = figures.panels(2 * block, columns, width=3.3, height=2.7)
        for start, score in ((0, "accuracy"), (block, "cross_entropy")):
            for axis, name in zip(axes[start:], names, strict=False):
                self._draw(axis, results[results["data"] == name], score)
                axis.set(xscale="log", title=name, xlabel="ε")
                axis.set_ylabel(score.replace("_", "-"))
            for empty in axes[start + len(names) : start + block]:
                empty.set_axis_off()
        figures.legend_below(figure, axes, columns=3)
        return figure

    def _draw(self, axis, part: pd.DataFrame, score: str) -> None:
        for method, look in _LOOKS.items():
            line = part[part["method"] == method]
            style = {"markersize": 3.5, "linewidth": 1.3, **look}
            if line.empty:
                continue
            if np.isinf(line["epsilon"]).all():
                axis.axhline(line[score].iloc[0], label=method, **style)
            else:
                axis.plot(line["epsilon"], line[score], label=method, **style)
        if score == "cross_entropy":
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        shown = results[results["epsilon"].isin([1.0, np.inf])]
        cells = shown.assign(
            cell=[
                f"{accuracy:.3f} / {entropy:.2f}"
                for accuracy, entropy in zip(shown["accuracy"], shown["cross_entropy"], strict=True)
            ]
        )
        table = cells.pivot(index="data", columns="method", values="cell")
        methods = [method for method in _LOOKS if method in table]
        return table.loc[results["data"].unique(), methods].fillna("")

    def remarks(self, results: pd.DataFrame) -> str:
        lines = [
            f"Test accuracy / cross-entropy in nats at (1, {DELTA:g})-DP, means of repeated 70-30 "
            "splits; only numeric columns are used. *Private bins* spend a quarter of ε on ten "
            "quantile bins per feature and on naive Bayes what exact composition leaves; *public "
            "bins* lie where the bounds say, and all of ε goes to naive Bayes; both are private "
            "end to end. *Non-private bins* are the papers' way, the data's own deciles, and "
            f"are not private end to end. No probability counts for less than "
            f"{LEAST_PROBABILITY:g}."
        ]
        wins = self._wins(results, "private bins, auto", "public bins, auto")
        lines.append(
            "Bins that follow from the bounds alone cost nothing, and need bounds that say "
            f"something: {wins}."
        )
        if PEER in set(results["method"]):
            lines.append(
                "diffprivlib's GaussianNB has the same bounds. It is ε-differentially private with "
                "δ = 0, which is stronger than (ε, δ); but its noise covers the sums of one class, "
                "and a record that is replaced by one of another class changes those of two, which "
                "ours covers. *Best setting* is the best of "
                "linear and logarithmic features and of four additions to the variances, chosen "
                "for each score on the test data, in its favour; nothing of ours was chosen so. "
                "An addition to variances also makes an over-confident model more careful, which "
                "the line without privacy shows. Of all data sets and ε, "
                + "; ".join(
                    self._wins(results, ours, theirs)
                    for ours in ("private bins, auto", "public bins, auto")
                    for theirs in (PEER, PEER_BEST)
                )
                + "."
            )
        else:
            lines.append(
                "diffprivlib was not measured: its environment could not be made, or the version "
                "is the quick one."
            )
        return "\n\n".join(lines)

    def _wins(self, results: pd.DataFrame, ours: str, theirs: str) -> str:
        """In how many cases the first method is better, by either score."""
        wide = results[np.isfinite(results["epsilon"])].pivot(
            index=["data", "epsilon"], columns="method", values=["accuracy", "cross_entropy"]
        )
        accuracy, entropy = wide["accuracy"], wide["cross_entropy"]
        return (
            f"*{ours}* is more accurate than *{theirs}* in "
            f"{(accuracy[ours] > accuracy[theirs]).sum()} of {len(wide)} cases and has the lower "
            f"cross-entropy in {(entropy[ours] < entropy[theirs]).sum()}"
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        private = results[results["method"].str.startswith("private bins")]
        used = private["spent"] / private["epsilon"]
        return [
            Claim(
                "skdirdp",
                "Private bins and private naive Bayes on them share one budget, exactly composed",
                bool((used <= 1).all()),
                f"total epsilon of both {used.min():.4f} to {used.max():.4f} of what was allowed",
            )
        ]
