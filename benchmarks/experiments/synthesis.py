"""Synthetic records of whole tables, with no structure given, beside other libraries."""

import resource
import time
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from skdirdp import PrivateBayesNet

from .. import data, figures
from ..experiment import Claim, Experiment, Row, Settings, seeded
from ..peers.environment import ask, environment

OURS = "PrivateBayesNet"
#: All numbers of the method were chosen on the first; no choice was made on the others.
CHOSEN_ON = "adult"
DATA = (
    CHOSEN_ON,
    "bank",
    "credit_card",
    "german_credit",
    "shopper",
    "thyroid",
    "mushroom",
    "hours_income",
    "diamonds",
)
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
REPEATS, QUICK_REPEATS = 5, 2
#: Runs of peers take minutes, and AIM's hours: they are made once, and some for one budget.
PEERS = {
    "MST": tuple(product(DATA, EPSILONS)),
    "PrivBayes": tuple(product(DATA, (1.0,))),
    "AIM": ((CHOSEN_ON, 1.0),),
}
LIMIT = 900.0  # seconds of processor time
MOST_CELLS, MOST_TRIPLES = 10_000, 200


def load(name: str, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """A table of category numbers, its label last, and how many categories columns have."""
    if name == "mushroom":
        table = data.load_mushroom()
    elif name in data.PAPER:
        table = data.load(name, settings.data)
    else:
        table = data.load_fresh(name)
    coded = data.coded(table)
    X = np.column_stack([coded.X, coded.y])
    return X, np.append(coded.n_categories, coded.n_classes)


def margins(X: np.ndarray, sizes: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    shape = tuple(sizes[list(columns)])
    cells = np.ravel_multi_index([X[:, column] for column in columns], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))) / len(X)


def margin_distance(real: np.ndarray, other: np.ndarray, sizes: np.ndarray, order: int) -> float:
    """The mean total variation distance of margins of so many columns.

    Those of more than 10 000 cells are left out, and of more than 200 margins some are drawn.
    """
    wanted = [
        columns
        for columns in combinations(range(len(sizes)), order)
        if np.prod(sizes[list(columns)]) <= MOST_CELLS
    ]
    if order > 2 and len(wanted) > MOST_TRIPLES:
        chosen = np.random.default_rng(0).choice(len(wanted), MOST_TRIPLES, replace=False)
        wanted = [wanted[i] for i in chosen]
    distances = [
        np.abs(margins(real, sizes, each) - margins(other, sizes, each)).sum() / 2
        for each in wanted
    ]
    return float(np.mean(distances))


def accuracy(train: np.ndarray, test: np.ndarray) -> float:
    """Of a classifier that learnt the last column from some records, on others."""
    if len(np.unique(train[:, -1])) < 2:
        return float(np.mean(test[:, -1] == train[0, -1]))
    model = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    return float(model.fit(train[:, :-1], train[:, -1]).score(test[:, :-1], test[:, -1]))


def ours(train: np.ndarray, test: np.ndarray, sizes: np.ndarray, task: Row, repeat: int) -> Row:
    names = [f"c{i}" for i in range(len(sizes))]
    states = {name: list(range(size)) for name, size in zip(names, sizes.tolist(), strict=True)}
    rng = seeded(*task.values(), repeat)
    start = time.process_time()
    model = PrivateBayesNet(
        states,
        epsilon=task["epsilon"],
        delta=DELTA,
        adjacency="add_remove",
        random_state=rng,
    ).fit(pd.DataFrame(train, columns=names))
    drawn = model.sample(len(train), random_state=rng)
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "log_likelihood": model.score(pd.DataFrame(test, columns=names)),
        "records": drawn.fillna(0).to_numpy(dtype=int),  # a missing value is an error like others
    }


class Synthesis(Experiment):
    name = "synthesis"
    title = "Synthetic records: whole tables, nothing known but the schema"
    reproduces = (
        "margins of synthetic and real records, and what a classifier learns from synthetic ones, "
        "beside MST, AIM and PrivBayes of dpmm 0.1.9"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        if settings.quick:
            return [{"data": "breast_cancer", "epsilon": 1.0, "method": OURS}]
        methods = {OURS: tuple(product(DATA, EPSILONS))}
        if environment(create=True, peer="dpmm") is not None:
            methods |= PEERS
        return [
            {"data": name, "epsilon": epsilon, "method": method}
            for method, cases in methods.items()
            for name, epsilon in cases
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        X, sizes = load(task["data"], settings)
        repeats = QUICK_REPEATS if settings.quick else REPEATS if task["method"] == OURS else 1
        return [self._measure_once(X, sizes, task, repeat) for repeat in range(repeats)]

    def _measure_once(self, X: np.ndarray, sizes: np.ndarray, task: Row, repeat: int) -> Row:
        train, test = (X[part] for part in data.split(len(X), repeat))
        found: dict[str, Any] | None
        if task["method"] == OURS:
            found = ours(train, test, sizes, task, repeat)
        else:
            folder = environment(create=False, peer="dpmm")
            assert folder is not None
            given = {"X": train, "sizes": sizes, "epsilon": task["epsilon"], "delta": DELTA}
            answer = ask(folder, task["method"], limit=LIMIT, seed=repeat, **given)
            found = None if answer is None else answer[0]
        if found is None:
            return {"repeat": repeat, "ended": False, "seconds": LIMIT}
        records = np.asarray(found.pop("records"))
        return {
            "repeat": repeat,
            "ended": True,
            **found,
            "pairs": margin_distance(train, records, sizes, 2),
            "triples": margin_distance(train, records, sizes, 3),
            "accuracy": accuracy(records, test),
            "accuracy_real": accuracy(train, test),
        }

    def figure(self, results: pd.DataFrame):
        names = list(dict.fromkeys(results["data"]))
        figure, axes = figures.panels(len(names), columns=5, width=2.6, height=2.3)
        for axis, name in zip(axes, names, strict=True):
            part = results[results["data"] == name]
            for method, rows in part.groupby("method", sort=False):
                means = rows.groupby("epsilon")["pairs"].mean()
                axis.loglog(means.index, means, marker="o", markersize=3, label=method)
            axis.set_title(name, fontsize=9)
        axes[0].set_ylabel("distance of pairs")
        axes[0].set_xlabel("ε")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        shown = {
            "pairs": "2-way",
            "triples": "3-way",
            "accuracy": "accuracy",
            "accuracy_real": "accuracy, real records",
            "log_likelihood": "log-likelihood",
            "seconds": "seconds",
            "megabytes": "MB",
        }
        columns = [name for name in shown if name in results]
        means = results.groupby(["data", "epsilon", "method"], sort=False)[columns].mean()
        digits = {"pairs": 4, "triples": 4, "log_likelihood": 2, "seconds": 1, "megabytes": 0}
        return means.round({**dict.fromkeys(columns, 3), **digits}).rename(columns=shown)

    def remarks(self, results: pd.DataFrame) -> str:
        late = results[~results["ended"].astype(bool)]
        made = set(results.groupby(["method", "data", "epsilon"]).groups)
        planned = [(peer, *case) for peer, cases in PEERS.items() for case in cases]
        ended = ""
        if lacking := sum(case not in made for case in planned):
            ended = f" Of {len(planned)} runs of others, {lacking} were not made, for want of time."
        if len(late):
            runs = ", ".join(
                f"{row.method} on {row.data} at ε = {row.epsilon:g}" for row in late.itertuples()
            )
            ended += f" Not ended within {LIMIT:g} s of processor time: {runs}."
        return (
            f"(ε, {DELTA:g})-DP, one record added or removed. Columns in at most ten bins that are "
            "taken as public; 70% of the records are learnt, and as many are drawn. 2-way and "
            "3-way: the mean total variation distance of margins of synthetic records from those "
            "that were learnt (3-way: of up to 200 margins, with up to 10 000 cells). Accuracy: of "
            "gradient boosting that learnt synthetic records, on the other 30%. Log-likelihood: of "
            "these, per record. Seconds of processor time and peak memory of the process are for "
            "learning and drawing. "
            f"Means of {REPEATS} runs for {OURS}, one run for others. All numbers of the method "
            f"were chosen on {CHOSEN_ON}.{ended}"
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        means = results.groupby(["data", "epsilon", "method"])[["pairs", "triples", "seconds"]]
        table = means.mean().unstack("method")
        claims = []
        if CHOSEN_ON in set(results["data"]):
            adult = means.mean().loc[(CHOSEN_ON, 1.0, OURS)]
            claims.append(
                Claim(
                    "skdirdp",
                    "adult at (1, 1e-9)-DP: pairs within 0.043, triples within 0.072, within 10 s",
                    bool(
                        adult["pairs"] <= 0.043
                        and adult["triples"] <= 0.072
                        and adult["seconds"] <= 10
                    ),
                    f"{adult['pairs']:.4f}, {adult['triples']:.4f}, {adult['seconds']:.1f} s",
                )
            )
        ended = [peer for peer in PEERS if ("pairs", peer) in table]
        for peer in (peer for peer in ended if table[("pairs", peer)].notna().any()):
            both = table[("pairs", peer)].notna()
            ratios = pd.concat(
                [table[(kind, OURS)] / table[(kind, peer)] for kind in ("pairs", "triples")]
            )[lambda each: each.notna()]
            faster = table[("seconds", peer)][both] / table[("seconds", OURS)][both]
            claims.append(
                Claim(
                    "skdirdp",
                    f"Margins are nearer than {peer}'s in at least 80% of the cases that were run",
                    bool((ratios < 1).mean() >= 0.8),
                    f"{(ratios < 1).sum()} of {len(ratios)}, {ratios.min():.2f} to "
                    f"{ratios.max():.2f} of its distances; {faster.min():.0f} to "
                    f"{faster.max():.0f} times faster",
                )
            )
        return claims
