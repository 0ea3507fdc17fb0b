"""From raw numbers to predictions, and what each step of the way costs.

Bounds are public: they say what a value could be, not what it was. Data sets are used with their
numeric columns only, since a peer for numbers is compared with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import brentq
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer, PrivacyAccountant
from skdirdp.accounting import Composition
from skdirdp.histogram.grid import fine_grid

from .. import data, figures
from ..experiment import Claim, Experiment, Row, Settings
from ..peers.environment import ask, environment

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS = 10
N_BINS = 10
#: The part of epsilon that bins get. The classifier gets whatever exact composition leaves.
BINS_SHARE = 0.25
#: No probability counts for less than this in a cross-entropy, whoever gave it: a single
#: impossible event would outweigh all others.
LEAST_PROBABILITY = 1e-6

# Public bounds ---------------------------------------------------------------------

AGE = (0, 120)
_MONEY = (0, 2_000_000)  # New Taiwan dollars; twice the largest credit limit
_PERCENT = (0, 100)
_SECONDS_OF_A_DAY = (0, 86_400)
# Nuclei of cells, in micrometres or without a unit. The greyscale ends at 255, and its deviation
# within a nucleus is a fraction of that.
_NUCLEUS = {
    "radius": 50,
    "texture": 100,
    "perimeter": 350,
    "area": 8000,
    "smoothness": 1,
    "compactness": 2,
    "concavity": 2,
    "concave points": 1,
    "symmetry": 1,
    "fractal dimension": 1,
}

#: What values could be, by column; columns that are not here are not used.
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": AGE,
        "education-num": (1, 16),  # a code of sixteen levels
        "capital-gain": (0, 100_000),  # the census writes 99 999 for all above
        "capital-loss": (0, 10_000),
        "hours-per-week": (0, 100),  # two digits
    },
    "bank": {
        "age": AGE,
        "duration": (0, 7200),  # a telephone call of two hours
        "campaign": (0, 100),
        "pdays": (0, 999),  # 999 means never
        "previous": (0, 20),
        # Published statistics of Portugal and of the euro area.
        "emp.var.rate": (-5, 5),
        "cons.price.idx": (90, 100),
        "cons.conf.idx": (-100, 0),
        "euribor3m": (0, 6),
        "nr.employed": (4500, 5500),
    },
    "credit_card": {
        "LIMIT_BAL": (0, 1_000_000),
        "AGE": AGE,
        **{f"PAY_{month}": (-2, 9) for month in (0, 2, 3, 4, 5, 6)},  # a code of months
        **{f"BILL_AMT{month}": (-500_000, 2_000_000) for month in range(1, 7)},
        **{f"PAY_AMT{month}": _MONEY for month in range(1, 7)},
    },
    "digit": {f"pixel_{i}_{j}": (0, 16) for i in range(8) for j in range(8)},  # grey levels
    "shopper": {
        "Administrative": (0, 100),
        "Administrative_Duration": _SECONDS_OF_A_DAY,
        "Informational": (0, 100),
        "Informational_Duration": _SECONDS_OF_A_DAY,
        "ProductRelated": (0, 1000),
        "ProductRelated_Duration": _SECONDS_OF_A_DAY,
        "BounceRates": (0, 1),
        "ExitRates": (0, 1),
        "PageValues": (0, 1000),
        "SpecialDay": (0, 1),
    },
    "spam": {
        **{f"word_freq_{k}": _PERCENT for k in range(48)},
        **{f"char_freq_{k}": _PERCENT for k in range(6)},
        # Letters: a mail of some twenty pages at most.
        "capital_run_length_average": (1, 10_000),
        "capital_run_length_longest": (1, 10_000),
        "capital_run_length_total": (1, 50_000),
    },
    "breast_cancer": {
        **{f"mean {name}": (0, most) for name, most in _NUCLEUS.items()},
        # The standard error of a mean over tens of nuclei.
        **{f"{name} error": (0, most / 5) for name, most in _NUCLEUS.items()},
        **{f"worst {name}": (0, most) for name, most in _NUCLEUS.items()},
    },
}
QUICK_DATA = ("breast_cancer",)
QUICK_EPSILONS = (1.0, 10.0)


@dataclass(frozen=True)
class Problem:
    """Numbers with public bounds, classes, and the same numbers binned as in the papers."""

    X: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_classes: int
    papers: data.Coded


@lru_cache(maxsize=4)
def problem(name: str, folder: Path | None) -> Problem:
    table = data.load_fresh(name) if name in data.FRESH else data.load(name, folder)
    columns = list(BOUNDS[name])
    papers = data.coded(table[[*columns, table.columns[-1]]])
    low, high = np.array(list(BOUNDS[name].values()), dtype=float).T
    X = table[columns].to_numpy(dtype=float)
    return Problem(X, papers.y, low, high, papers.n_classes, papers)


def symlog(problem: Problem) -> np.ndarray:
    """Numbers in [0, 1] by a logarithm of their size, which only looks at the bounds."""
    unit = np.maximum(abs(problem.low), abs(problem.high)) / 4096

    def logarithm(values):
        return np.arcsinh(values / unit)

    low, high = logarithm(problem.low), logarithm(problem.high)
    return (logarithm(np.clip(problem.X, problem.low, problem.high)) - low) / (high - low)


def linear(problem: Problem) -> np.ndarray:
    inside = np.clip(problem.X, problem.low, problem.high)
    return (inside - problem.low) / (problem.high - problem.low)


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
    """What bins leave of epsilon to the classifier, both composed exactly."""
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
    # The limit is the whole budget: an overdraft would raise before anything is released.
    accountant = PrivacyAccountant(trial.epsilon, DELTA)
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
    """The data's own deciles, as in the papers: what they reveal is not accounted for."""
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
#: What is added to the variances that diffprivlib releases; the first is its default.
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


# The accountants -------------------------------------------------------------------

GRID = (0.1, 0.3, 1.0)
FOLDS = 5


def our_accountant(X: np.ndarray, y: np.ndarray) -> list[Row]:
    """What our accountant says after a grid search, and after the same fits by hand."""
    search_accountant, fits_accountant = PrivacyAccountant(), PrivacyAccountant()
    model = DirichletCategoricalNB(
        classes=range(2), n_categories=N_BINS, random_state=0, accountant=search_accountant
    )
    # The public number of records, so that a fit costs the same on a fold as on the whole.
    model.set_params(n_samples=len(X))
    search = GridSearchCV(model, {"epsilon": GRID}, cv=FOLDS).fit(X, y)
    for epsilon in (*GRID * FOLDS, search.best_params_["epsilon"]):
        model.set_params(epsilon=epsilon, accountant=fits_accountant).fit(X, y)
    return [
        {"way": way, "fits": len(each), "epsilon": each.total(DELTA)}
        for way, each in (("GridSearchCV", search_accountant), ("one by one", fits_accountant))
    ]


class PeerAccountant(Experiment):
    name = "peer-accountant"
    title = "What accountants say after a grid search"
    reproduces = "sixteen private fits by GridSearchCV, and the same fits one by one"

    def tasks(self, settings: Settings) -> list[Row]:
        with_peer = environment(create=not settings.quick) is not None
        return [{"library": name} for name in ("skdirdp", *([PEER] if with_peer else []))]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        whole = problem("breast_cancer", None)
        X = linear(whole)
        if task["library"] == "skdirdp":
            return our_accountant((N_BINS * X).astype(int).clip(0, N_BINS - 1), whole.y)
        folder = environment(create=False)
        return ask(folder, "accountant", X=X, y=whole.y, epsilons=GRID, folds=FOLDS, delta=DELTA)

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, width=6.5, height=2.6)
        shown = results.iloc[::-1]
        colours = shown["way"].map({"GridSearchCV": "#0b61a4", "one by one": "0.7"})
        labels = shown["library"] + ", " + shown["way"]
        bars = axis.barh(labels, shown["epsilon"], color=colours)
        axis.bar_label(bars, fmt="%.3g", padding=3)
        axis.margins(x=0.12)
        axis.set_xlabel(f"ε that the accountant reports, δ = {DELTA:g}")
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return results.rename(columns={"way": "fits made by", "epsilon": "ε reported"})

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Budgets {', '.join(map(str, GRID))} with {FOLDS} folds, and the best once more on "
            "all records. `GridSearchCV` clones the model with its accountant; a clone of ours "
            "writes to the same ledger. diffprivlib's totals use its advanced composition."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        totals = results.set_index(["library", "way"])["epsilon"]
        fits = results.set_index(["library", "way"])["fits"]
        claims = [
            Claim(
                "skdirdp",
                "A grid search is charged as the same fits one by one",
                bool(np.isclose(*totals["skdirdp"])) and fits["skdirdp"].nunique() == 1,
                f"{totals['skdirdp', 'GridSearchCV']:.4f} and "
                f"{totals['skdirdp', 'one by one']:.4f}, {fits['skdirdp', 'GridSearchCV']} fits",
            )
        ]
        if PEER in totals:
            claims.append(
                Claim(
                    "skdirdp",
                    "diffprivlib's BudgetAccountant reports 0 after a GridSearchCV of private fits",
                    bool(totals[PEER, "GridSearchCV"] == 0),
                    f"{totals[PEER, 'GridSearchCV']:g} after {fits[PEER, 'GridSearchCV']} fits; "
                    f"one by one it reports {totals[PEER, 'one by one']:.3g}",
                )
            )
        return claims
