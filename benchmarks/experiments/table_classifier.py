"""Private classifiers for tables, with the same budget and on the same splits."""

import time
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivateTableClassifier,
    make_private_pipeline,
)
from skdirdp.mechanisms import CountTable
from skdirdp.mechanisms.splitting import calibrate_gaussian
from skdirdp.postprocessing import Noise, NoisyTable, estimate_histogram

from .. import data, figures, tables
from ..experiment import Claim, Experiment, Row, Settings
from ..peers.environment import ask_once, environment

EPSILONS, QUICK_EPSILONS, DELTA = (0.1, 0.3, 1.0, 3.0, 10.0), (0.3, 10.0), 1e-5
ADJACENCIES = ("add_remove", "replace")
QUICK_DATA = ("german_credit", "thyroid")
# Processor seconds that a peer may take for all splits of a table.
PEER_LIMIT = 3600
LEAST_PROBABILITY = 1e-9
CALIBRATION_BINS = 15

OURS, NAIVE_BAYES = "PrivateTableClassifier", "DirichletCategoricalNB"
EBM, PEER_REGRESSION = "DP-EBM", "diffprivlib LR"
REGRESSION, BOOSTING, SHARES = "LR, no privacy", "boosting, no privacy", "class shares"
PRIVATE_SHARES = "class shares, private"
#: Peers with their environments, and the neighbours that their guarantees are about.
PEERS = {EBM: ("interpret", "add_remove"), PEER_REGRESSION: ("diffprivlib", "replace")}
SCORES = {"auc": "AUC", "log_loss": "log loss"}
#: Means over the papers' eight data sets that a prototype reached at (1, 1e-5)-DP.
PROTOTYPE = {"auc": 0.896, "log_loss": 0.329}
#: To be removed after a complete run.
_SEVERAL_RUNS = (
    "The results are from several runs with the same splits. On the first 28 tables, DP-EBM, "
    "diffprivlib, LR, boosting, exact class shares, and DirichletCategoricalNB up to ε = 1 are "
    "from the first run. PrivateTableClassifier is from the last run, on a busy machine, and all "
    "else from the second. The seconds of all runs are added."
)

_LOOKS = {
    OURS: {"color": "#0b61a4", "marker": "o"},
    NAIVE_BAYES: {"color": "#6fb1e0", "marker": "o", "linestyle": "--"},
    EBM: {"color": "#c1440e", "marker": "s"},
    PEER_REGRESSION: {"color": "#eda17f", "marker": "s", "linestyle": "--"},
    REGRESSION: {"color": "black", "linestyle": "--"},
    BOOSTING: {"color": "0.45", "linestyle": "-."},
    SHARES: {"color": "0.6", "linestyle": ":"},
    PRIVATE_SHARES: {"color": "0.6", "marker": ".", "linestyle": ":"},
}


def n_splits(n: int) -> int:
    """More splits of small tables, whose few test records make scores noisy."""
    return 20 if n < 2000 else 10 if n < 20_000 else 5


def fit_ours(table: tables.Table, train: pd.DataFrame, task: Row, seed: int):
    return PrivateTableClassifier(
        table.schema,
        epsilon=task["epsilon"],
        delta=DELTA,
        adjacency=task["adjacency"],
        random_state=seed,
    ).fit(train, y=table.target)


def fit_naive_bayes(table: tables.Table, train: pd.DataFrame, task: Row, seed: int):
    """Private quantile bins and naive Bayes in one budget, both with their defaults."""
    seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
    bins = DirichletHistogramTransformer(
        schema=table.schema, encode="ordinal", n_samples=len(train), random_state=seeds[0]
    )
    model = DirichletCategoricalNB(n_samples=len(train), random_state=seeds[1])
    pipe = make_private_pipeline(
        bins, model, epsilon=task["epsilon"], delta=DELTA, adjacency=task["adjacency"]
    )
    return pipe.fit(train, y=table.target)


class Shares:
    """Predicts the shares of the classes."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Shares":
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / len(y)
        return self

    def predict_proba(self, X: Sized) -> np.ndarray:
        return np.tile(self.shares_, (len(X), 1))


class PrivateShares(Shares):
    """Predicts the shares of the classes after one Gaussian release with the whole budget."""

    def __init__(self, task: Row, seed: int):
        self._task, self._seed = task, seed

    def fit(self, X: Sized, y: pd.Categorical) -> "PrivateShares":
        counts = CountTable(1.0, len(y.categories))
        relation = counts.relation(self._task["adjacency"])
        sigma = calibrate_gaussian(
            self._task["epsilon"], DELTA, None, relation, counts.contribution
        ).sigma
        exact = np.bincount(y.codes, minlength=len(y.categories))
        noisy = exact + np.random.default_rng(self._seed).normal(0.0, sigma, len(exact))
        total = float(len(y)) if self._task["adjacency"] == "replace" else None
        table = NoisyTable(noisy, Noise(sigma**2), ("class",))
        self.classes_, self.shares_ = np.array(y.categories), estimate_histogram(table, total)
        return self


def fit_shares(table: tables.Table, train: pd.DataFrame, task: Row, seed: int):
    y = pd.Categorical(train[table.target], categories=table.classes)
    return PrivateShares(task, seed).fit(train, y)


PRIVATE: dict[str, Callable] = {
    OURS: fit_ours,
    NAIVE_BAYES: fit_naive_bayes,
    PRIVATE_SHARES: fit_shares,
}


def baseline(method: str, encoded: tables.Encoded):
    """A model without privacy of the columns of numbers and then those of categories."""
    n_numbers, n_columns = (
        encoded.numbers.shape[1],
        encoded.numbers.shape[1] + encoded.codes.shape[1],
    )
    numbers, categories = list(range(n_numbers)), list(range(n_numbers, n_columns))
    if method == BOOSTING:
        return HistGradientBoostingClassifier(categorical_features=categories, random_state=0)
    if method == SHARES:
        return Shares()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), categories),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


BASELINES = (REGRESSION, BOOSTING, SHARES)


def scores(p: np.ndarray, y: np.ndarray) -> Row:
    """AUC and calibration error are means over the classes, each against all others.

    The calibration error is the mean distance of probabilities from frequencies, in bins of equal
    width.
    """
    chosen = np.maximum(p[np.arange(len(y)), y], LEAST_PROBABILITY)
    aucs, errors = [], []
    for number in range(1 if p.shape[1] == 2 else 0, p.shape[1]):
        truth, given = y == number, p[:, number]
        if 0 < truth.sum() < len(y):
            aucs.append(roc_auc_score(truth, given))
        bins = np.minimum((given * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
        gaps = np.bincount(bins, truth - given, CALIBRATION_BINS)
        errors.append(np.abs(gaps).sum() / len(y))
    found = {
        "auc": np.mean(aucs),
        "log_loss": -np.log(chosen).mean(),
        "calibration_error": np.mean(errors),
    }
    return {name: round(float(value), 5) for name, value in found.items()}


def all_classes(p: np.ndarray, known: list, classes: list) -> np.ndarray:
    """Probabilities of all classes, in their order, from those of the known ones."""
    complete = np.zeros((len(p), len(classes)))
    complete[:, [classes.index(label) for label in known]] = p
    return complete


class TableClassifier(Experiment):
    name = "table-classifier"
    title = "Classifiers for tables"
    reproduces = (
        "PrivateTableClassifier on 34 tables, beside DP-EBM, diffprivlib, naive Bayes and models "
        "without privacy"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = QUICK_DATA if settings.quick else tuple(tables.SOURCES)
        # Here, and not in the tasks, which may run in several processes at once.
        peers = {
            method: adjacency
            for method, (peer, adjacency) in PEERS.items()
            if not settings.quick and environment(create=True, peer=peer) is not None
        }
        return self._cases(names, BASELINES, peers, settings)

    def _cases(
        self,
        names: Sequence[str],
        baselines: Sequence[str],
        peers: Mapping[str, str],
        settings: Settings,
    ) -> list[Row]:
        epsilons = QUICK_EPSILONS if settings.quick else EPSILONS
        tasks = []
        for name in names:
            cases = [(method, "", np.inf) for method in baselines]
            for epsilon in epsilons:
                cases += [
                    (method, adjacency, epsilon) for method in PRIVATE for adjacency in ADJACENCIES
                ]
                cases += [
                    (method, adjacency, epsilon)
                    for method, adjacency in peers.items()
                    if method != EBM or tables.n_classes(name) == 2  # it has two classes only
                ]
            tasks += [
                {"data": name, "method": method, "adjacency": adjacency, "epsilon": epsilon}
                for method, adjacency, epsilon in cases
            ]
        return tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        table = tables.load(task["data"], settings.data)
        repeats = 2 if settings.quick else n_splits(len(table.records))
        splits = [data.split(len(table.records), repeat) for repeat in range(repeats)]
        if task["method"] in PRIVATE:
            found = self._measure_private(table, splits, task)
        elif task["method"] in PEERS:
            found = self._measure_peer(table, splits, task)
        else:
            found = self._measure_baseline(table, splits, task)
        size = {
            "rows": len(table.records),
            "columns": len(table.features),
            "classes": len(table.classes),
        }
        return [
            {**size, "split": number, **scores(p, table.y[test]), "seconds": round(seconds, 3)}
            for number, ((_, test), (p, seconds)) in enumerate(zip(splits, found, strict=True))
        ]

    def _measure_private(self, table, splits, task):
        for seed, (train, test) in enumerate(splits):
            records = table.records.iloc[train]
            start = time.process_time()
            model = PRIVATE[task["method"]](table, records, task, seed)
            seconds = time.process_time() - start
            p = model.predict_proba(table.records.iloc[test])
            yield all_classes(p, list(model.classes_), table.classes), seconds

    def _measure_baseline(self, table, splits, task):
        encoded = table.encoded()
        X = np.column_stack([encoded.numbers, encoded.codes])
        for train, test in splits:
            start = time.process_time()
            model = baseline(task["method"], encoded).fit(X[train], table.y[train])
            seconds = time.process_time() - start
            labels = list(range(len(table.classes)))
            yield all_classes(model.predict_proba(X[test]), list(model.classes_), labels), seconds

    def _measure_peer(self, table, splits, task):
        folder = environment(create=False, peer=PEERS[task["method"]][0])
        answer = ask_once(
            folder,
            "classify",
            limit=PEER_LIMIT,
            **asdict(table.encoded()),
            y=table.y,
            n_classes=len(table.classes),
            train=[train for train, _ in splits],
            test=[test for _, test in splits],
            epsilon=task["epsilon"],
            delta=DELTA,
        )
        for found in answer:
            p = np.array(found["p"])
            yield (np.column_stack([1 - p, p]) if p.ndim == 1 else p), found["seconds"]

    def figure(self, results: pd.DataFrame):
        names = list(dict.fromkeys(results["data"]))
        columns = min(7, len(names))
        block = -(-len(names) // columns) * columns  # panels of one score, empty ones included
        figure, axes = figures.panels(len(SCORES) * block, columns, width=2.5, height=2.0)
        ours = results["method"].isin(PRIVATE)
        means = _means(results[~ours | (results["adjacency"] == "add_remove")])
        for start, (score, title) in zip(range(0, len(axes), block), SCORES.items(), strict=True):
            for axis, name in zip(axes[start:], names, strict=False):
                self._draw(axis, means[means["data"] == name], score)
                axis.set_title(f"{name}, {title}", fontsize=9)
            for empty in axes[start + len(names) : start + block]:
                empty.set_axis_off()
        figures.legend_below(figure, axes, columns=7)
        return figure

    def _draw(self, axis, part: pd.DataFrame, score: str) -> None:
        for method, look in _LOOKS.items():
            line = part[part["method"] == method].sort_values("epsilon")
            style = {"markersize": 3, "linewidth": 1.2, **look}
            if line.empty:
                continue
            if np.isinf(line["epsilon"]).all():
                axis.axhline(line[score].iloc[0], label=method, **style)
            else:
                axis.plot(line["epsilon"], line[score], label=method, **style)
        axis.set_xscale("log")
        if score == "log_loss":
            # An overconfident model would leave no room for the others.
            highest = part.loc[part["method"] == SHARES, score].iloc[0]
            axis.set_ylim(top=1.6 * highest)

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        means = _means(_at(results, 1.0))
        means["cell"] = [
            f"{auc:.3f} / {loss:.3f}"
            for auc, loss in zip(means["auc"], means["log_loss"], strict=True)
        ]
        wide = means.pivot(index="data", columns="method", values="cell")
        wide = wide.loc[list(dict.fromkeys(results["data"])), [m for m in _LOOKS if m in wide]]
        sizes = results.groupby("data", sort=False)[["rows", "columns", "classes"]].first()
        return sizes.join(wide.fillna(""))

    def remarks(self, results: pd.DataFrame) -> str:
        peers = set(PEERS) & set(results["method"])
        parts = [
            f"AUC / log loss in nats on held-out records at (1, {DELTA:g})-DP; neighbours differ "
            "by one added record (by a replaced one, for diffprivlib). Means over 70-30 splits: 20 "
            "of tables with less than 2000 rows, 10 below 20 000, 5 of larger ones; all methods "
            "have the same splits. Of more than two classes, the AUC is the mean over the classes, "
            "each against the others. The first eight are the papers' data sets. The results of "
            "earlier versions on all tables were known when the method was last changed, and some "
            "choices were made on them. `table-classifier-confirmation` has ten other tables. "
            f"No probability counts for less than {LEAST_PROBABILITY:g}.",
            "All methods have the same public schema, with round bounds. *DirichletCategoricalNB* "
            "is a pipeline with private quantile bins, both with their defaults; it has the size "
            "of the training part as a public guess. "
            "PrivateTableClassifier releases the size, where it is not public. *Class shares* "
            "are exact; the *private* ones are released with the whole budget, and are all that "
            "a model without columns could know. *LR* and *boosting* are "
            "scikit-learn's LogisticRegression, on standardised numbers and one-hot categories, "
            "and HistGradientBoostingClassifier, with their defaults.",
        ]
        if peers:
            parts.append(
                "*DP-EBM* is that of interpret-core with its defaults, the same bounds as "
                '`privacy_bounds`, and composition "gdp". It has two classes only, and takes no '
                "missing values: a missing number is the middle of its bounds, with a column that "
                "says so. It finds categories in the records, which its guarantee does not cover, "
                "and its number of records is public. *diffprivlib LR* is ε-DP with δ = 0, with "
                "numbers scaled by their bounds, one-hot categories and the public bound on the "
                "norm of rows."
            )
            parts.append(_SEVERAL_RUNS)
        else:
            parts.append(
                "Peers were not measured: their environments could not be made, or the version is "
                "the quick one."
            )
        parts.append("Means over all tables (over those with two classes, for DP-EBM):")
        return "\n\n".join([*parts, figures.markdown(self._overview(results))])

    def _overview(self, results: pd.DataFrame) -> pd.DataFrame:
        """Means over tables of all scores, by method, adjacency and epsilon."""
        columns = [*SCORES, "calibration_error", "seconds"]
        means = _means(results)
        rows = []
        for part, shown in (("all", means), ("two classes", means[means["classes"] == 2])):
            keys = ["epsilon", "method", "adjacency"]
            found = shown.groupby(keys, sort=False, dropna=False)[columns].mean().reset_index()
            if part == "all":
                found = found[found["method"] != EBM]
            rows.append(found.assign(tables=part))
        order = {method: place for place, method in enumerate(_LOOKS)}
        whole = pd.concat(rows).sort_values(
            ["tables", "epsilon", "method", "adjacency"],
            key=lambda values: values.map(order) if values.name == "method" else values,
        )
        renamed = {**SCORES, "calibration_error": "calibration error", "seconds": "seconds to fit"}
        return whole[["tables", "epsilon", "method", "adjacency", *columns]].rename(columns=renamed)

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        return [*_table_claims(results), *_paper_claims(results), *_regression_claims(results)]


class TableClassifierConfirmation(TableClassifier):
    name = "table-classifier-confirmation"
    title = "Classifiers for tables: ten more tables"
    reproduces = (
        "PrivateTableClassifier beside naive Bayes and class shares, on ten tables, three of which "
        "were measured once, after the last change of the method"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = tuple(tables.CONFIRMING)
        return self._cases(
            names[:2] if settings.quick else names, (REGRESSION, SHARES), {}, settings
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "AUC / log loss in nats on held-out records at (1, 1e-05)-DP under add_remove, as in "
            f"`table-classifier`. {', '.join(tables.LATEST)} were measured once, after the last "
            "change of the method. The results of earlier versions on the other tables were known "
            "then, and the change was limited after led_digits had been seen. On these tables, "
            "other methods than PrivateTableClassifier were measured before.\n\n"
            "Means over all tables, and over those with two classes:\n\n"
            + figures.markdown(self._overview(results))
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        return [
            *_naive_bayes_claims(results),
            *_shares_claims(results),
            *_growth_claims(results),
        ]


def _table_claims(results: pd.DataFrame) -> list[Claim]:
    """Claims about every table."""
    return [
        *_ebm_claims(results),
        *_naive_bayes_claims(results),
        *_shares_claims(results),
        *_growth_claims(results),
    ]


def _at(results: pd.DataFrame, epsilon: float, adjacency: str = "add_remove") -> pd.DataFrame:
    """Our methods for these neighbours, peers for theirs, and models without privacy."""
    ours = results["method"].isin(PRIVATE)
    kept = (~ours | (results["adjacency"] == adjacency)) & results["epsilon"].isin(
        [epsilon, np.inf]
    )
    return results[kept]


def _means(results: pd.DataFrame) -> pd.DataFrame:
    """Means over splits."""
    keys = ["data", "rows", "columns", "classes", "method", "adjacency", "epsilon"]
    filled = results.assign(adjacency=results["adjacency"].fillna(""))
    return filled.drop(columns="split").groupby(keys, sort=False).mean().reset_index()


def _differences(results: pd.DataFrame, ours: str, theirs: str, score: str) -> pd.DataFrame:
    """Means of both by table, the mean difference over splits, and its standard error."""
    wide = results.pivot(index=["data", "split"], columns="method", values=score)
    wide = wide[[ours, theirs]].dropna()
    gap = (wide[ours] - wide[theirs]).groupby("data", sort=False)
    found = wide.groupby("data", sort=False).mean()
    return found.assign(gap=gap.mean(), error=gap.std() / np.sqrt(gap.size()))


def _ebm_claims(results: pd.DataFrame) -> list[Claim]:
    if EBM not in set(results["method"]):
        return []
    claims = []
    for epsilon in (1.0, 0.3):
        at = _at(results, epsilon)
        auc, loss = (_differences(at, OURS, EBM, score) for score in SCORES)
        ahead, lower, n = (auc["gap"] > 0).sum(), (loss["gap"] < 0).sum(), len(auc)
        both = ((auc["gap"] > 0) & (loss["gap"] < 0)).sum()
        claims.append(
            Claim(
                "skdirdp",
                f"At ε = {epsilon:g}, AUC and log loss are better than DP-EBM's on at least 80% of "
                "the tables with two classes",
                bool(both >= 0.8 * n),
                f"AUC on {ahead} of {n}, log loss on {lower}, both on {both}; means "
                f"{auc[OURS].mean():.3f} / {loss[OURS].mean():.3f} against "
                f"{auc[EBM].mean():.3f} / {loss[EBM].mean():.3f}",
            )
        )
        ratio = loss[OURS] / loss[EBM]
        claims.append(
            Claim(
                "skdirdp",
                f"At ε = {epsilon:g}, no AUC is more than 0.01 below DP-EBM's, and no log loss "
                "more than 5% above",
                bool((auc["gap"] >= -0.01).all() and (ratio <= 1.05).all()),
                f"lowest difference of AUC {_worst(auc, auc['gap'].idxmin())}; largest ratio of "
                f"log losses {ratio.max():.3f} ({ratio.idxmax()})",
            )
        )
    return claims


def _naive_bayes_claims(results: pd.DataFrame) -> list[Claim]:
    claims = []
    for epsilon in EPSILONS:
        for adjacency in ADJACENCIES:
            at = _at(results, epsilon, adjacency)
            if at["epsilon"].isin([epsilon]).any():
                auc = _differences(at, OURS, NAIVE_BAYES, "auc")
                behind = auc["gap"] + 2 * auc["error"] < -0.005
                claims.append(
                    Claim(
                        "skdirdp",
                        f"At ε = {epsilon:g}, {adjacency}, no AUC is more than 0.005 below "
                        "DirichletCategoricalNB's (within two standard errors)",
                        not behind.any(),
                        f"{behind.sum()} of {len(auc)} are"
                        + _listed(auc[behind])
                        + f"; mean difference {auc['gap'].mean():+.3f}, lowest "
                        + _worst(auc, auc["gap"].idxmin()),
                    )
                )
    return claims


def _shares_claims(results: pd.DataFrame) -> list[Claim]:
    claims = []
    for epsilon in (0.1, 0.3, 1.0):
        for adjacency in ADJACENCIES:
            at = _at(results, epsilon, adjacency)
            if at["epsilon"].isin([epsilon]).any():
                loss = _differences(at, OURS, SHARES, "log_loss")
                above = loss["gap"] > 0
                clearly = loss["gap"] > 2 * loss["error"]
                claims.append(
                    Claim(
                        "skdirdp",
                        f"At ε = {epsilon:g}, {adjacency}, no log loss is above that of the exact "
                        "class shares",
                        not above.any(),
                        f"{above.sum()} of {len(loss)} are, {clearly.sum()} by more than two "
                        "standard errors" + _listed(loss[above]),
                    )
                )
                loss = _differences(at, OURS, PRIVATE_SHARES, "log_loss")
                above = loss["gap"] > 2 * loss["error"]
                claims.append(
                    Claim(
                        "skdirdp",
                        f"At ε = {epsilon:g}, {adjacency}, no log loss is above that of class "
                        "shares released with the whole budget (within two standard errors)",
                        not above.any(),
                        f"{above.sum()} of {len(loss)} are"
                        + _listed(loss[above])
                        + f"; mean difference {loss['gap'].mean():+.3f}, highest "
                        + _worst(loss, loss["gap"].idxmax()),
                    )
                )
    return claims


def _paper_claims(results: pd.DataFrame) -> list[Claim]:
    at = _at(results[results["data"].isin(tables.PAPER)], 1.0)
    if at["data"].nunique() < len(tables.PAPER):
        return []
    means = _means(at[at["method"] == OURS])
    auc, loss = means["auc"].mean(), means["log_loss"].mean()
    return [
        Claim(
            "skdirdp",
            "At ε = 1 on the papers' eight data sets: mean AUC at least "
            f"{PROTOTYPE['auc']} and mean log loss at most {PROTOTYPE['log_loss']}",
            bool(auc >= PROTOTYPE["auc"] and loss <= PROTOTYPE["log_loss"]),
            f"{auc:.4f} / {loss:.4f}",
        )
    ]


def _regression_claims(results: pd.DataFrame) -> list[Claim]:
    at = _at(results[results["rows"] >= 10_000], 1.0)
    if at.empty:
        return []
    auc, loss = (_differences(at, OURS, REGRESSION, score) for score in SCORES)
    ratio = loss[OURS].mean() / loss[REGRESSION].mean()
    each = loss[OURS] / loss[REGRESSION]
    return [
        Claim(
            "skdirdp",
            "At ε = 1 on tables of at least 10 000 rows: mean AUC within 0.01 of logistic "
            "regression without privacy, mean log loss at most 1.05 times as high",
            bool(auc["gap"].mean() >= -0.01 and ratio <= 1.05),
            f"{len(auc)} tables: AUC {auc[OURS].mean():.3f} against {auc[REGRESSION].mean():.3f}, "
            f"log loss {ratio:.3f} times (from {each.min():.3f} to {each.max():.3f}, "
            f"{each.idxmax()})",
        )
    ]


def _growth_claims(results: pd.DataFrame) -> list[Claim]:
    claims = []
    for score, sign in (("auc", 1), ("log_loss", -1)):
        wide = results[results["method"] == OURS].pivot(
            index=["data", "adjacency", "split"], columns="epsilon", values=score
        )
        steps = []
        for low, high in pairwise(sorted(wide)):
            gap = (sign * (wide[high] - wide[low])).groupby(["data", "adjacency"], sort=False)
            found = pd.DataFrame({"gap": gap.mean(), "error": gap.std() / np.sqrt(gap.size())})
            steps.append(found.assign(step=f"{low:g} to {high:g}"))
        whole = pd.concat(steps)
        worse = whole[whole["gap"] < -2 * whole["error"]].sort_values("gap")
        found = f"{len(worse)} of {len(whole)} steps are worse"
        if len(worse):
            data_set, adjacency = worse.index[0]
            first = worse.iloc[0]
            found += (
                f", most {data_set}, {adjacency}, ε from {first['step']}: "
                f"{-sign * abs(first['gap']):+.4f} ± {first['error']:.4f}"
            )
        claims.append(
            Claim(
                "skdirdp",
                f"{SCORES[score]} improves with ε on every table (within two standard errors)",
                worse.empty,
                found,
            )
        )
    return claims


def _worst(found: pd.DataFrame, name: str) -> str:
    return f"{found.loc[name, 'gap']:+.4f} ± {found.loc[name, 'error']:.4f} ({name})"


def _listed(found: pd.DataFrame) -> str:
    return f" ({', '.join(found.index)})" if len(found) else ""
