"""Coverage of intervals that analysts compute from several synthetic tables."""

import warnings
from itertools import product

import numpy as np
import pandas as pd

from skdirdp import PrivateBayesNet, PrivateBayesNetMLE
from skdirdp.bayes_net.base import BaseBayesNet, Family, sample_codes
from skdirdp.inference import combine

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings, seeded

RUNS, QUICK_RUNS = 500, 10
N_TABLES, TIMES = 20, 5
LEAST, MOST = 0.92, 0.98
SIZES, EPSILONS = (1000, 10_000), (0.3, 1.0, 10.0)
STRUCTURE = {"a": (), "b": ("a",), "c": ("a",), "y": ("a", "b"), "d": ("y",)}
N_STATES = {"a": 2, "b": 3, "c": 2, "y": 2, "d": 2}
SHAPE = tuple(N_STATES.values())
STATES = {name: list(range(n)) for name, n in N_STATES.items()}
EDGES = [(parent, node) for node, parents in STRUCTURE.items() for parent in parents]
FAMILIES = {
    node: Family(node, parents, N_STATES[node], tuple(N_STATES[each] for each in parents))
    for node, parents in STRUCTURE.items()
}
#: Factor of all effects between columns.
POPULATIONS = {"strong": 1.0, "weak": 0.35}
METHODS = ("MLE, Dirichlet", "MLE, Gaussian", "required edges", "learnt structure")
GIVEN = METHODS[:3]
DIRECT = ("logit y on a", "logit y on b", "odds ratio a, y", "odds ratio y, d")
#: Effects between columns that no family contains, and a mean.
INDIRECT, ABSENT, MEAN = "odds ratio a, d", "logit y on c", "mean of b"
KINDS = (*DIRECT, INDIRECT, ABSENT, MEAN)


def population(name: str) -> dict[str, np.ndarray]:
    """The conditional probabilities of the population, which factorises along `STRUCTURE`."""
    effect = POPULATIONS[name]

    def rows(first: float, *slopes: float) -> np.ndarray:
        p = 1 / (1 + np.exp(-first - effect * np.array(slopes)))
        return np.stack([1 - p, p], axis=1)

    b = np.array([[0.5, 0.3, 0.2], [0.25, 0.35, 0.4]])
    y = [0.8 * a + 0.5 * b - 0.8 for a in (0, 1) for b in (0, 1, 2)]
    return {
        "a": np.array([[0.6, 0.4]]),
        "b": effect * b + (1 - effect) * b.mean(axis=0),
        "c": rows(-0.4, -0.45, 0.4),
        "y": rows(-0.2, *y),
        "d": rows(-0.7, -0.7, 0.7),
    }


def joint(tables: dict) -> np.ndarray:
    """The joint distribution of the columns in the order of `N_STATES`."""
    grid = dict(zip(N_STATES, np.indices(SHAPE).reshape(len(SHAPE), -1), strict=True))
    return np.prod([tables[k][f.row_numbers(grid), grid[k]] for k, f in FAMILIES.items()], axis=0)


def model_joint(model: BaseBayesNet) -> np.ndarray:
    """The joint distribution of the records that `sample` draws from a model."""
    states = {node: len(values) for node, values in model.states_.items()}
    grid = dict(
        zip(states, np.indices(tuple(states.values())).reshape(len(states), -1), strict=True)
    )
    table = np.prod(
        [model.probabilities_[k][f.row_numbers(grid), grid[k]] for k, f in model._families.items()],
        axis=0,
    ).reshape(tuple(states.values()))
    table = table.transpose([list(states).index(name) for name in N_STATES])
    if isinstance(model, PrivateBayesNet):
        for axis, (name, n_states) in enumerate(N_STATES.items()):
            column = model._released_[name]
            split = np.zeros((column.n_groups, n_states))
            split[column.groups[:n_states], np.arange(n_states)] = column.drawn_shares[:n_states]
            split /= split.sum(axis=1, keepdims=True)  # missing values are not drawn
            table = np.moveaxis(np.tensordot(table, split, (axis, 0)), -1, axis)
    return table.ravel() / table.sum()


def logistic_fit(X: np.ndarray, y: np.ndarray, counts: np.ndarray):
    """Coefficients and their variances for each row of `counts`, as by statsmodels' Logit."""
    found = np.zeros((len(counts), X.shape[1]))
    for _ in range(40):
        p = 1 / (1 + np.exp(-found @ X.T))
        information = np.einsum("ti,ij,ik->tjk", counts * p * (1 - p), X, X)
        information += 1e-9 * np.eye(X.shape[1])
        step = np.linalg.solve(information, ((counts * (y - p)) @ X)[..., np.newaxis])[..., 0]
        found += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return found, np.linalg.inv(information).diagonal(axis1=1, axis2=2)


def analysed(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and variances as if the records were real, of shape (n_tables, len(KINDS))."""
    columns = dict(zip(N_STATES, np.indices(SHAPE).reshape(len(SHAPE), -1), strict=True))
    X = np.column_stack([np.ones(len(columns["a"])), columns["a"], columns["b"], columns["c"]])
    slopes, slope_variances = logistic_fit(X, columns["y"], counts)
    found = {
        "logit y on a": (slopes[:, 1], slope_variances[:, 1]),
        "logit y on b": (slopes[:, 2], slope_variances[:, 2]),
        ABSENT: (slopes[:, 3], slope_variances[:, 3]),
    }
    for first, second in (("a", "y"), ("y", "d"), ("a", "d")):
        cells = 2 * columns[first] + columns[second]
        four = np.stack([counts[:, cells == i].sum(axis=1) for i in range(4)])
        four = np.maximum(four, 0.5)
        value = np.log(four[0] * four[3] / four[1] / four[2])
        found[f"odds ratio {first}, {second}"] = value, np.sum(1 / four, axis=0)
    totals, b = counts.sum(axis=1), columns["b"]
    mean = counts @ b / totals
    found[MEAN] = mean, (counts @ b**2 / totals - mean**2) / totals
    values, variances = zip(*(found[kind] for kind in KINDS), strict=True)
    return np.stack(values, axis=1), np.stack(variances, axis=1)


def estimator(method: str, epsilon: float):
    """An estimator of the records, with the structure of the population or a learnt one."""
    if method.startswith("MLE"):
        mechanism = method.split(", ")[1].lower()
        return PrivateBayesNetMLE(STRUCTURE, states=STATES, epsilon=epsilon, mechanism=mechanism)
    constraints = {"required": EDGES} if method == "required edges" else None
    return PrivateBayesNet(states=STATES, epsilon=epsilon, constraints=constraints)


class SynthesisInference(Experiment):
    name = "synthesis-inference"
    title = "Coverage of intervals from several synthetic tables"
    reproduces = "`sample_tables` of networks, and `skdirdp.inference.combine`"

    def tasks(self, settings: Settings) -> list[Row]:
        grid = product(METHODS, POPULATIONS, SIZES, EPSILONS)
        names = ("method", "population", "n", "epsilon")
        tasks = [dict(zip(names, each, strict=True)) for each in grid]
        return tasks[2::19] if settings.quick else tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        runs = QUICK_RUNS if settings.quick else RUNS
        rng = seeded(self.name, *task.values())
        tables, n = population(task["population"]), task["n"]
        truth = analysed(1e9 * joint(tables)[np.newaxis])[0][0]
        covered, naive, widths, errors, warned, missing = [], [], [], [], [], []
        for _ in range(runs):
            records = pd.DataFrame(sample_codes(FAMILIES, tables, n, rng))[list(N_STATES)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = estimator(task["method"], task["epsilon"]).fit(records)
                released, _ = model._released_tables()
                found = [n / (t.counts.size * np.sqrt(t.variance)) for t in released]
                # The counts of independent records are multinomial.
                drawn = np.array([model_joint(m) for m in model._draw_models(N_TABLES, rng)])
                values, variances = analysed(rng.multinomial(TIMES * n, drawn).astype(float))
                estimate = combine(values, variances)
                one = analysed(rng.multinomial(n, model_joint(model))[np.newaxis].astype(float))
            covered.append((estimate.low <= truth) & (truth <= estimate.high))
            naive.append(np.abs(one[0][0] - truth) <= 1.96 * np.sqrt(one[1][0]))
            widths.append(estimate.high - estimate.low)
            errors.append(estimate.value - truth)
            warned.append(min(found))
            families = [{node, *parents} for node, parents in model.structure_.items()]
            missing.append(sum(not any(set(e) <= f for f in families) for e in EDGES))
        deviation = np.std(errors, axis=0)
        return [
            {
                "kind": kind,
                "runs": runs,
                "coverage": np.mean(covered, axis=0)[i],
                "one_table": np.mean(naive, axis=0)[i],
                "width": np.median(widths, axis=0)[i],
                "bias": np.mean(errors, axis=0)[i] / max(deviation[i], 1e-12),
                "records_per_cell": np.median(warned),
                "missing_edges": np.mean(missing),
            }
            for i, kind in enumerate(KINDS)
        ]

    def figure(self, results: pd.DataFrame):
        figure, axes = figures.panels(len(METHODS), columns=2)
        for axis, method in zip(axes, METHODS, strict=True):
            part = results[results["method"] == method]
            for kind, points in part.groupby("kind", sort=False):
                x = points["epsilon"] * (1 + 0.05 * KINDS.index(kind))
                axis.plot(x, points["coverage"], "o", markersize=3, alpha=0.7, label=kind)
            for limit in (LEAST, MOST):
                axis.axhline(limit, color="0.5", linewidth=0.8)
            axis.set(xscale="log", xlabel="ε", title=method, ylabel="coverage")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        direct = results[results["kind"].isin(DIRECT)]
        keys = ["method", "population", "n", "epsilon"]
        by = direct.groupby(keys, sort=False)
        table = by[["coverage"]].min().rename(columns={"coverage": "lowest"})
        table["mean"] = by["coverage"].mean()
        table["highest"] = by["coverage"].max()
        for name, kind in (("indirect", INDIRECT), ("absent", ABSENT), ("mean of b", MEAN)):
            part = results[results["kind"] == kind].set_index(keys)
            table[name] = part["coverage"]
        table["one table"] = by["one_table"].mean()
        table["missing edges"] = by["missing_edges"].first()
        table["records per cell"] = by["records_per_cell"].first()
        return table

    def remarks(self, results: pd.DataFrame) -> str:
        runs = int(results["runs"].max())
        return (
            f"Nominal 95% intervals, {runs} runs a cell, so that a rate has a standard error of "
            f"{np.sqrt(0.05 * 0.95 / runs):.3f}. The population is a network of five columns with "
            "two or three states and five edges, with strong effects or with 0.35 of them. Each "
            f"run draws n records, fits a model, draws {N_TABLES} tables of {TIMES} n records and "
            "combines what an analyst computes on each: a logistic regression of y on a, b and c, "
            "and odds ratios. *Lowest*, *mean* and *highest* are over the coefficients of a and b "
            "and the odds ratios of a, y and of y, d, which are effects along edges. *Indirect* is "
            "the odds ratio of a, d, and *absent* the coefficient of c, which is 0 in the network "
            "by its structure; intervals of these may be wider than needed, because the records of "
            "a table vary more than the parameters do. *One table* has the coverage if one "
            "table of n records, drawn from the fitted model, is analysed as if its records were "
            "real. *Missing edges* "
            "counts the pairs of the five edges that no family of the model has. *Records per "
            "cell* is the smallest number of records for each cell and standard deviation of its "
            "noise; below 3, `sample_tables` warns. The counts of a table are drawn as a "
            "multinomial, which has the distribution of counted independent records. The strong "
            "population was also used while `sample_tables` was written: the limit on the width in "
            "`combine`, and the separation of effects along edges from others, whose intervals are "
            "too wide, were decided on up to 300 runs a cell of it. The weak population "
            "was used for 20 to 150 runs. The noise of these runs is fresh, but no population is."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        direct = results[results["kind"].isin((*DIRECT, MEAN))]
        given = direct[direct["method"].isin(GIVEN)]
        learnt = direct[~direct["method"].isin(GIVEN)]
        present = learnt[learnt["missing_edges"] < 0.05]
        every = results[results["method"].isin(GIVEN)]
        along = "effects along edges and of a mean"
        return [
            _verdict(given, f"{along}, structure given"),
            _verdict(every, "all effects, also indirect and absent ones, structure given"),
            _verdict(present, f"{along}, structure learnt, where at most 5% of runs lack an edge"),
            _verdict(learnt, f"{along}, structure learnt, all cells"),
        ]


def _verdict(rows: pd.DataFrame, case: str) -> Claim:
    """Hold both limits, up to three standard errors of a rate that is at a limit."""
    if not len(rows):
        return Claim("skdirdp", f"Coverage, {case}", True, "no cells")
    below, above = LEAST - rows["coverage"], rows["coverage"] - MOST
    tolerance = 3 * np.sqrt(LEAST * (1 - LEAST) / rows["runs"])
    upper = 3 * np.sqrt(MOST * (1 - MOST) / rows["runs"])
    outside = ((below > 0) | (above > 0)).sum()
    return Claim(
        "skdirdp",
        f"Intervals from several synthetic tables cover {LEAST:.0%} to {MOST:.0%}: {case}",
        bool(((below <= tolerance) & (above <= upper)).all()),
        f"{rows['coverage'].min():.3f} to {rows['coverage'].max():.3f} in {len(rows)} cases; "
        f"{outside} outside the limits, {((below > tolerance) | (above > upper)).sum()} by more "
        "than three standard errors",
    )
