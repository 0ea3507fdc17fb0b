"""Large tables with many empty cells: estimates from the same noisy counts, by several rules."""

from collections.abc import Callable
from itertools import combinations, product

import networkx as nx
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import xlogy
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import balanced_accuracy_score, mutual_info_score
from sklearn.model_selection import train_test_split

from skdirdp import PrivateBayesNetMLE
from skdirdp.mechanisms import CountTable, GaussianMechanism, calibrate
from skdirdp.mechanisms.calibration import calibrate_tables
from skdirdp.mechanisms.splitting import relative_precision
from skdirdp.mechanisms.tables import ContributionBound
from skdirdp.postprocessing import NoisyTable, estimate_counts

from .. import data, figures
from ..corpora import DOCSTRINGS, SOURCES, corpus, length
from ..divergence import divergence
from ..experiment import Claim, Experiment, Row, Settings, seeded
from .bayes_net import family_counts

EPSILON, DELTA = 1.0, 1e-5
BITS = (8, 10, 12, 14)
MUSHROOM = "mushroom"
TREES = ("adult", "bank", "credit_card", MUSHROOM)
REPEATS, QUICK_REPEATS = 12, 2
METRICS = {
    "tv": "total variation distance",
    "kl": "KL divergence",
    "accuracy": "balanced accuracy",
}
DRAWN, PROJECTED, PROJECTED_PLUS, CLIPPED, POSTPROCESSED, COUNTED = (
    "as drawn",
    "projection",
    "projection plus one",
    "clipping plus one",
    "post-processing",
    "no noise",
)


def projected(noisy: np.ndarray) -> np.ndarray:
    """The nearest table without negative counts whose rows have the same sums."""
    totals = np.maximum(noisy.sum(axis=1), 1.0)
    ordered = -np.sort(-noisy, axis=1)
    sizes = np.arange(1, noisy.shape[1] + 1)
    shifts = (np.cumsum(ordered, axis=1) - totals[:, np.newaxis]) / sizes
    last = np.sum(ordered > shifts, axis=1) - 1
    return np.maximum(noisy - shifts[np.arange(len(noisy)), last][:, np.newaxis], 0.0)


#: Each takes a table cell by cell, or row by row, and leaves counts.
RULES: dict[str, Callable[[np.ndarray, GaussianMechanism], np.ndarray]] = {
    DRAWN: lambda noisy, mechanism: mechanism._posterior_mean(noisy) + 1,
    PROJECTED: lambda noisy, mechanism: projected(noisy),
    PROJECTED_PLUS: lambda noisy, mechanism: projected(noisy) + 1,
    CLIPPED: lambda noisy, mechanism: np.maximum(noisy, 0.0) + 1,
}


def _normalised(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(axis=-1, keepdims=True)


class PostProcessing(Experiment):
    name = "postprocessing"
    title = "Large sparse tables: one noisy table, several estimates"
    reproduces = (
        "total variation distance, KL divergence and accuracy of hashed texts and of Chow-Liu "
        "trees, with the noise of this library and five rules of estimation"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        texts = product([DOCSTRINGS] if settings.quick else [*SOURCES, DOCSTRINGS], BITS)
        trees = ("german_credit",) if settings.quick else TREES
        repeats = QUICK_REPEATS if settings.quick else REPEATS
        kept = [(name, bits) for name, bits in texts if not settings.quick or bits == BITS[0]]
        return [
            *({"data": name, "columns": 2**bits, "repeats": repeats} for name, bits in kept),
            *({"data": name, "columns": 0, "repeats": repeats} for name in trees),
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        rows: list[Row] = []
        for repeat in range(task["repeats"]):
            if task["columns"]:
                rows += _text(task["data"], task["columns"], repeat)
            else:
                rows += _tree(_table(task["data"], settings), task["data"], repeat)
        found = pd.DataFrame(rows)
        accuracies = found.pivot_table(index="repeat", columns="method", values="accuracy")
        behind = accuracies.sub(accuracies[POSTPROCESSED], axis=0)
        means = found.drop(columns="repeat").groupby("method", sort=False).mean()
        means["behind_error"] = behind.std() / np.sqrt(len(behind))
        return means.reset_index().to_dict("records")

    def figure(self, results: pd.DataFrame):
        texts = results[results["columns"] > 0]
        names = list(dict.fromkeys(texts["data"]))
        figure, axes = figures.panels(len(names) * len(METRICS), len(METRICS), 4.0, 2.6)
        for axis, (name, (metric, title)) in zip(
            axes, product(names, METRICS.items()), strict=True
        ):
            shown = texts[texts["data"] == name]
            if metric != "accuracy":
                shown = shown[shown["method"] != COUNTED]
            for method, line in shown.groupby("method", sort=False):
                axis.plot(line["columns"], line[metric], "o-", markersize=3.5, label=method)
            axis.set(xscale="log", xlabel="hashed features", ylabel=title, title=name)
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        shown = results.assign(
            data=[
                f"{name}, {columns} words" if columns else f"{name}, tree"
                for name, columns in zip(results["data"], results["columns"], strict=True)
            ]
        )
        parts = [
            shown.pivot_table(index="data", columns="method", values=metric, sort=False).add_prefix(
                f"{metric.upper() if len(metric) < 3 else metric}: "
            )
            for metric in METRICS
        ]
        methods = {metric: [*RULES, POSTPROCESSED] for metric in METRICS}
        methods["accuracy"].append(COUNTED)
        return pd.concat(
            [
                part[[f"{part.columns[0].split(':')[0]}: {m}" for m in methods[metric]]]
                for metric, part in zip(METRICS, parts, strict=True)
            ],
            axis=1,
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"At ({EPSILON:g}, {DELTA:g})-DP with Gaussian noise, the same for all rules; means "
            f"over {results['repeats'].max()} splits. TV and KL are those of the table of words "
            "by class from the counted one (rows weighted by what they hold); of trees, TV is the "
            "mean over all pairs of columns, of as many records drawn from the network as there "
            "are, and KL that of the network. Accuracy is balanced over the classes, on held-out "
            "records; a tree predicts the label column. The structure of a tree is that of Chow "
            "and Liu for the counted records and taken as public. One is added to the estimates, "
            "as to all but the plain projection, which has zeros: its divergence is infinite, and "
            "its predictions take 1e-9 instead. Without noise, one is added to what was counted. "
            "Of mushroom, records that lack a value are left out. "
            "Texts are split into words as in experiment `text`. The constants of the "
            "post-processing are those of the other experiments."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        claims = []
        for kind, part in (
            ("hashed text at 2^8 to 2^14 features", results[results["columns"] > 0]),
            ("trees with wide families", results[results["columns"] == 0]),
        ):
            cases = part.set_index(["data", "columns", "method"])
            for metric in ("tv", "kl"):
                values = cases[metric].unstack("method")
                ratio = values[POSTPROCESSED] / values[[*RULES]].min(axis=1)
                claims.append(
                    Claim(
                        "skdirdp",
                        f"On {kind} the {METRICS[metric]} of the default post-processing is on "
                        "average, and in 95% of cases, at most that of the best other rule",
                        bool(ratio.mean() <= 1 and ratio.quantile(0.95) <= 1),
                        f"ratio {ratio.mean():.3f} on average, 95th percentile "
                        f"{ratio.quantile(0.95):.3f}, largest {ratio.max():.3f}; at most 1 in "
                        f"{(ratio <= 1).sum()} of {len(ratio)} cases",
                    )
                )
            claims.append(_of_accuracy(kind, cases))
        return claims


def _of_accuracy(kind: str, cases: pd.DataFrame) -> Claim:
    """Compare accuracies up to that without noise, and up to two standard errors."""
    accuracy, errors = (cases[name].unstack("method") for name in ("accuracy", "behind_error"))
    others = accuracy[[*RULES]]
    best = others.idxmax(axis=1)
    behind = others.max(axis=1) - accuracy[POSTPROCESSED]
    error = pd.Series([errors.loc[case, rule] for case, rule in best.items()], behind.index)
    beyond = np.minimum(behind, accuracy[COUNTED] - accuracy[POSTPROCESSED])
    on_average = beyond.mean() <= 2 * np.sqrt((error**2).sum()) / len(error)
    nearly_always = (beyond - 2 * error).quantile(0.95) <= 0
    worst = behind.idxmax()
    return Claim(
        "skdirdp",
        f"On {kind} the balanced accuracy of the default post-processing is on average, and in "
        "95% of cases, at least that of the best other rule, or that without noise if this is "
        "less, within two standard errors",
        bool(on_average and nearly_always),
        f"at least in {(behind <= 0).sum()} of {len(behind)} cases, ahead by up to "
        f"{-behind.min():.4f}, behind by at most {behind.max():.4f} ± {error[worst]:.4f} "
        f"({worst[0]}{f', {worst[1]} words' if worst[1] else ''}; without noise "
        f"{accuracy.loc[worst, COUNTED] - accuracy.loc[worst, POSTPROCESSED]:+.4f})",
    )


# Texts -----------------------------------------------------------------------------


def _text(name: str, columns: int, repeat: int) -> list[Row]:
    whole, most = corpus(name), length(name)
    classes, codes = np.unique(whole.labels, return_inverse=True)
    hashing = HashingVectorizer(
        n_features=columns, alternate_sign=False, norm=None, analyzer=str.split
    )
    train, test, y, y_test = train_test_split(
        whole.texts, codes, test_size=0.3, random_state=repeat
    )
    X, X_test = _bounded(hashing.transform(train), most), hashing.transform(test)
    counts = np.stack([np.asarray(X[y == j].sum(axis=0)).ravel() for j in range(len(classes))])
    prior = np.bincount(y, minlength=len(classes)).astype(float)
    rows = ContributionBound(1.0, float(most))
    words = CountTable(len(y) * most, columns, len(classes), rows)
    precision = relative_precision([words], ContributionBound(), "replace")
    of_classes = CountTable(len(y), len(classes), 1, ContributionBound(), precision, 0.0)
    first, second = calibrate_tables(
        [of_classes, words],
        mechanism="gaussian",
        epsilon=EPSILON,
        delta=DELTA,
        order=None,
        adjacency="replace",
        calibration="exact",
    )
    assert isinstance(first, GaussianMechanism)
    assert isinstance(second, GaussianMechanism)
    rng = seeded(name, columns, repeat)
    grid = second.contribution.grid
    counts = np.floor(counts / grid) * grid
    noisy_prior, noisy = first.noisy(prior, rng), second.noisy(counts, rng)
    plain = _normalised(first._posterior_mean(noisy_prior))
    models = {rule: (plain, make(noisy, second)) for rule, make in RULES.items()}
    (classes_estimate,) = estimate_counts(
        [NoisyTable(noisy_prior, first.noise, ("class",))], float(len(y))
    )
    (table,) = estimate_counts(
        [NoisyTable(noisy, second.noise, ("class", "word"))],
        row_shares=[classes_estimate.counts],
    )
    models[POSTPROCESSED] = (_normalised(classes_estimate.counts), table.counts + 1)
    models[COUNTED] = (_normalised(prior), counts + 1)
    true, weights = _normalised(counts), counts.sum(axis=1) / counts.sum()
    found = []
    for method, (shares, estimate) in models.items():
        probabilities = _normalised(estimate)
        with np.errstate(divide="ignore"):
            kl = xlogy(true, true) - xlogy(true, probabilities)
        scores = X_test @ np.log(np.maximum(probabilities, 1e-9)).T + np.log(shares)
        found.append(
            {
                "method": method,
                "repeat": repeat,
                "tv": float(weights @ np.abs(probabilities - true).sum(axis=1)) / 2,
                "kl": float(weights @ kl.sum(axis=1)),
                "accuracy": balanced_accuracy_score(y_test, scores.argmax(axis=1)),
            }
        )
    return found


def _bounded(X: sparse.csr_matrix, most: float) -> sparse.csr_matrix:
    """Rows of entries up to 1, scaled down to a total."""
    X.data = np.minimum(X.data, 1.0)
    totals = np.asarray(X.sum(axis=1)).ravel()
    return X.multiply(np.minimum(1, most / np.maximum(totals, 1))[:, np.newaxis]).tocsr()


# Trees -----------------------------------------------------------------------------


def _table(name: str, settings: Settings) -> pd.DataFrame:
    return data.load_complete_mushroom() if name == MUSHROOM else data.load(name, settings.data)


def _tree(table: pd.DataFrame, name: str, repeat: int) -> list[Row]:
    table = table.apply(lambda column: data.binned(column).astype("category"))
    train, test = (table.iloc[part] for part in data.split(len(table), repeat))
    label = table.columns[-1]
    structure = chow_liu(train, label)
    counts = family_counts(structure, train)
    states = {node: table[node].cat.categories.tolist() for node in structure}
    wide = {node: x for node, x in counts.items() if x.shape[1] > 1}
    mechanism = calibrate("gaussian", epsilon=EPSILON, delta=DELTA, releases=len(wide))
    assert isinstance(mechanism, GaussianMechanism)
    rng = seeded(name, repeat)
    noisy = {node: mechanism.noisy(x, rng) for node, x in wide.items()}
    models = {rule: [make(y, mechanism) for y in noisy.values()] for rule, make in RULES.items()}
    estimates = estimate_counts(
        [
            NoisyTable(y if structure[node] else y[0], mechanism.noise, (*structure[node], node))
            for node, y in noisy.items()
        ],
        float(len(train)),
    )
    models[POSTPROCESSED] = [
        each.counts.reshape(-1, each.counts.shape[-1]) + 1 for each in estimates
    ]
    models[COUNTED] = [x + 1 for x in wide.values()]
    # Its tables are then replaced.
    model = PrivateBayesNetMLE(structure, states=states, target=label, epsilon=float("inf"))
    model.fit(train)
    found = []
    for method, estimates in models.items():
        tables = dict(zip(wide, map(_normalised_or_even, estimates), strict=True))
        with np.errstate(divide="ignore"):
            kl = divergence(wide.values(), tables.values())
        least = 1e-9 if method == PROJECTED else 0.0
        for node, probabilities in tables.items():
            model.probabilities_[node] = _normalised(np.maximum(probabilities, least))
        drawn = model.sample(len(train), random_state=repeat)
        found.append(
            {
                "method": method,
                "repeat": repeat,
                "tv": _pairs_apart(train, drawn),
                "kl": kl,
                "accuracy": balanced_accuracy_score(
                    test[label].astype(str), model.predict(test).astype(str)
                ),
            }
        )
    return found


def _normalised_or_even(counts: np.ndarray) -> np.ndarray:
    return _normalised(np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0))


def chow_liu(table: pd.DataFrame, root: str) -> dict[str, list[str]]:
    """The parents of each column in the tree of largest mutual information."""
    graph = nx.Graph()
    codes = {name: table[name].cat.codes for name in table}
    for first, second in combinations(table.columns, 2):
        graph.add_edge(first, second, weight=mutual_info_score(codes[first], codes[second]))
    tree = nx.maximum_spanning_tree(graph)
    parents = {child: [parent] for parent, child in nx.bfs_edges(tree, root)}
    return {name: parents.get(name, []) for name in [root, *parents]}


def _pairs_apart(true: pd.DataFrame, drawn: pd.DataFrame) -> float:
    """The mean total variation distance of all pairs of columns."""
    distances = []
    for first, second in combinations(true.columns, 2):
        shares = []
        for table in (true, drawn):
            columns = [
                pd.Categorical(table[name], true[name].cat.categories).codes
                for name in (first, second)
            ]
            size = len(true[second].cat.categories)
            cells = np.bincount(
                columns[0].astype(int) * size + columns[1],
                minlength=len(true[first].cat.categories) * size,
            )
            shares.append(cells / cells.sum())
        distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(distances))
