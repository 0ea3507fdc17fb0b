"""Coverage of intervals that analysts compute from several synthetic tables."""

import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

from skdirdp import PrivateBayesNet, PrivateBayesNetMLE
from skdirdp.bayes_net.base import BaseBayesNet, Family, sample_codes
from skdirdp.inference import combine

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings, seeded

# Columns of numbers have wider tables, whose draws take longer.
RUNS, NUMBER_RUNS, QUICK_RUNS = 200, 120, 10
N_TABLES, TIMES, MORE_TIMES = 20, 5, 50
LEAST, MOST = 0.92, 0.98
SIZES, EPSILONS = (1000, 10_000), (0.3, 1.0, 10.0)


@dataclass(frozen=True)
class Network:
    """Structure and numbers of states of a population, which factorises along its edges."""

    structure: dict[str, tuple[str, ...]]
    n_states: dict[str, int]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.n_states.values())

    @property
    def edges(self) -> list[tuple[str, str]]:
        return [(parent, node) for node, parents in self.structure.items() for parent in parents]

    @property
    def families(self) -> dict[str, Family]:
        sizes = self.n_states
        return {
            node: Family(node, parents, sizes[node], tuple(sizes[each] for each in parents))
            for node, parents in self.structure.items()
        }

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The value of each column in each cell of the joint table."""
        cells = np.indices(self.shape).reshape(len(self.shape), -1)
        return dict(zip(self.n_states, cells, strict=True))

    def joint(self, tables: dict) -> np.ndarray:
        """The joint distribution of the columns in the order of `n_states`."""
        grid, families = self.columns, self.families
        return np.prod(
            [tables[k][f.row_numbers(grid), grid[k]] for k, f in families.items()], axis=0
        )


CATEGORIES = Network(
    {"a": (), "b": ("a",), "c": ("a",), "y": ("a", "b"), "d": ("y",)},
    {"a": 2, "b": 3, "c": 2, "y": 2, "d": 2},
)
PAIR = Network({"x": (), "y": ("x",)}, {"x": 21, "y": 11})
GROUPS = Network({"g": (), "x": ("g",), "y": ("x", "g")}, {"g": 2, "x": 21, "y": 11})
#: Factor of all effects between columns with two or three states.
EFFECTS = {"strong": 1.0, "weak": 0.35}
NETWORKS = {"strong": CATEGORIES, "weak": CATEGORIES, "linear": PAIR, "skewed": GROUPS}
METHODS = ("MLE, Dirichlet", "MLE, Gaussian", "required edges", "learnt structure")
GIVEN = METHODS[:3]
#: For columns of numbers: the third has them as numbers, and the last as categories.
NUMBER_METHODS = (*GIVEN, "required, categories")
DIRECT = ("logit y on a", "logit y on b", "odds ratio a, y", "odds ratio y, d")
#: Effects between columns that no family contains, and a mean.
INDIRECT, ABSENT, MEAN = "odds ratio a, d", "logit y on c", "mean of b"
KINDS = (*DIRECT, INDIRECT, ABSENT, MEAN)
#: Coefficients of linear and logistic regressions, for columns of numbers.
SLOPES = ("y on x", "y on g", "logit g on x")
#: The odds ratio of two numbers above a limit is not linear in them.
HALVES, NUMBER_MEAN = "odds ratio x >= 9, y >= 5", "mean of y"
LINEAR_KINDS = (SLOPES[0], HALVES, NUMBER_MEAN)
SKEWED_KINDS = (*SLOPES, HALVES, NUMBER_MEAN)


def population(name: str) -> dict[str, np.ndarray]:
    """The conditional probabilities of the population."""
    if name in EFFECTS:
        return categories(EFFECTS[name])
    return linear_numbers() if name == "linear" else skewed_numbers()


def categories(effect: float) -> dict[str, np.ndarray]:
    """The conditional probabilities of columns with two or three states."""

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


def rounded(n_states: int, distribution) -> np.ndarray:
    """The probabilities of the whole numbers from 0 to which values are rounded and clipped."""
    below = distribution.cdf(np.arange(n_states - 1) + 0.5)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def linear_numbers() -> dict[str, np.ndarray]:
    """A normal column, and one with a linear mean and normal errors."""
    return {
        "x": rounded(21, stats.norm(10, 4))[np.newaxis],
        "y": np.array([rounded(11, stats.norm(2.5 + 0.25 * x, 1.7)) for x in range(21)]),
    }


def skewed_numbers() -> dict[str, np.ndarray]:
    """Skewed columns with many zeros, in two groups, with a mean that is not linear."""
    x = np.array([rounded(21, stats.gamma(1.5, scale=scale)) for scale in (3.0, 4.5)])
    x *= 0.85
    x[:, 0] += 0.15
    means = [1 + 1.5 * np.sqrt(value) + 0.8 * g for value in range(21) for g in (0, 1)]
    return {
        "g": np.array([[0.6, 0.4]]),
        "x": x,
        "y": np.array([rounded(11, stats.gamma(4.0, scale=mean / 4)) for mean in means]),
    }


def model_joint(model: BaseBayesNet, network: Network) -> np.ndarray:
    """The joint distribution of the records that `sample` draws from a model."""
    states = {node: len(values) for node, values in model.states_.items()}
    grid = dict(
        zip(states, np.indices(tuple(states.values())).reshape(len(states), -1), strict=True)
    )
    table = np.prod(
        [model.probabilities_[k][f.row_numbers(grid), grid[k]] for k, f in model._families.items()],
        axis=0,
    ).reshape(tuple(states.values()))
    table = table.transpose([list(states).index(name) for name in network.n_states])
    if isinstance(model, PrivateBayesNet):
        for axis, (name, n_states) in enumerate(network.n_states.items()):
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


def linear_fit(X: np.ndarray, y: np.ndarray, counts: np.ndarray):
    """Coefficients and their variances for each row of `counts`, as by statsmodels' OLS."""
    # A column with one value has the coefficient 0.
    moments = np.einsum("ti,ij,ik->tjk", counts, X, X) + 1e-6 * np.eye(X.shape[1])
    found = np.linalg.solve(moments, ((counts * y) @ X)[..., np.newaxis])[..., 0]
    squares = np.sum(counts * (y - found @ X.T) ** 2, axis=1) / (counts.sum(axis=1) - X.shape[1])
    inverse = np.linalg.inv(moments).diagonal(axis1=1, axis2=2)
    return found, squares[:, np.newaxis] * inverse


def odds_ratio(first: np.ndarray, second: np.ndarray, counts: np.ndarray):
    """Log odds ratio of two columns of 0 and 1, and its variance."""
    cells = 2 * first + second
    four = np.maximum(np.stack([counts[:, cells == i].sum(axis=1) for i in range(4)]), 0.5)
    return np.log(four[0] * four[3] / four[1] / four[2]), np.sum(1 / four, axis=0)


def mean_of(values: np.ndarray, counts: np.ndarray):
    """Mean of a column, and its variance."""
    totals = counts.sum(axis=1)
    mean = counts @ values / totals
    return mean, (counts @ values**2 / totals - mean**2) / totals


def analysed(network: Network, counts: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimates and variances as if the records were real, for each row of `counts`."""
    columns = network.columns
    ones = np.ones(counts.shape[1])
    found = {}
    if network is CATEGORIES:
        X = np.column_stack([ones, columns["a"], columns["b"], columns["c"]])
        slopes, variances = logistic_fit(X, columns["y"], counts)
        for i, kind in enumerate((*DIRECT[:2], ABSENT), 1):
            found[kind] = slopes[:, i], variances[:, i]
        for first, second in (("a", "y"), ("y", "d"), ("a", "d")):
            pair = odds_ratio(columns[first], columns[second], counts)
            found[f"odds ratio {first}, {second}"] = pair
        found[MEAN] = mean_of(columns["b"], counts)
        return {kind: found[kind] for kind in KINDS}
    x, y, g = columns["x"], columns["y"], columns.get("g")
    X = np.column_stack([ones, x] if g is None else [ones, x, g])
    slopes, variances = linear_fit(X, y, counts)
    for i, kind in enumerate(SLOPES[: X.shape[1] - 1], 1):
        found[kind] = slopes[:, i], variances[:, i]
    if g is not None:
        slopes, variances = logistic_fit(np.column_stack([ones, x]), g, counts)
        found[SLOPES[2]] = slopes[:, 1], variances[:, 1]
    found[HALVES] = odds_ratio(1 * (x >= 9), 1 * (y >= 5), counts)
    found[NUMBER_MEAN] = mean_of(y, counts)
    return found


def estimator(method: str, epsilon: float, network: Network):
    """An estimator of the records, with the structure of the population or a learnt one."""
    states = {name: list(range(n)) for name, n in network.n_states.items()}
    if method.startswith("MLE"):
        mechanism = method.split(", ")[1].lower()
        return PrivateBayesNetMLE(
            network.structure, states=states, epsilon=epsilon, mechanism=mechanism
        )
    constraints = {"required": network.edges} if method.startswith("required") else None
    bounds = {}
    if method == "required edges":
        bounds = {name: (0, n - 1) for name, n in network.n_states.items() if n > 3}
        states = {name: values for name, values in states.items() if name not in bounds}
    return PrivateBayesNet(
        states=states or None, bounds=bounds or None, epsilon=epsilon, constraints=constraints
    )


class SynthesisInference(Experiment):
    name = "synthesis-inference"
    title = "Coverage of intervals from several synthetic tables"
    reproduces = "`sample_tables` of networks, and `skdirdp.inference.combine`"

    def tasks(self, settings: Settings) -> list[Row]:
        # Each mechanism of `PrivateBayesNetMLE` has one population of each kind.
        cases = [("MLE, Dirichlet", "strong"), ("MLE, Gaussian", "weak")]
        cases += product(METHODS[2:], ("strong", "weak"))
        cases += [("MLE, Dirichlet", "linear"), ("MLE, Gaussian", "skewed")]
        cases += product(NUMBER_METHODS[2:], ("linear", "skewed"))
        tasks = [
            {"method": method, "population": name, "n": n, "epsilon": epsilon}
            for (method, name), n, epsilon in product(cases, SIZES, EPSILONS)
        ]
        return tasks[2::19] if settings.quick else tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        network, n = NETWORKS[task["population"]], task["n"]
        runs = RUNS if network is CATEGORIES else NUMBER_RUNS
        runs = QUICK_RUNS if settings.quick else runs
        rng = seeded(self.name, *task.values())
        tables = population(task["population"])
        found = analysed(network, 1e9 * network.joint(tables)[np.newaxis])
        kinds, truth = list(found), np.array([value[0] for value, _ in found.values()])
        records: list[list] = [[] for _ in range(9)]
        for _ in range(runs):
            codes = sample_codes(network.families, tables, n, rng)
            X = pd.DataFrame(codes)[list(network.n_states)]
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always")
                model = estimator(task["method"], task["epsilon"], network).fit(X)
                released, _ = model._released_tables()
                raised.clear()
                model._warn_of_noise(released, n)
                is_warned = bool(raised)
                # The counts of independent records are multinomial.
                drawn = [model_joint(m, network) for m in model._draw_models(N_TABLES, rng)]
                combined = [
                    combine(*_stacked(network, rng.multinomial(times * n, drawn)))
                    for times in (TIMES, MORE_TIMES)
                ]
                one = _stacked(network, rng.multinomial(n, [model_joint(model, network)]))
            families = [{node, *parents} for node, parents in model.structure_.items()]
            noise = [n / (t.counts.size * np.sqrt(t.variance)) for t in released]
            row = (
                *[(each.low <= truth) & (truth <= each.high) for each in combined],
                np.abs(one[0][0] - truth) <= 1.96 * np.sqrt(one[1][0]),
                *[each.high - each.low for each in combined],
                combined[0].value - truth,
                min(noise),
                sum(not any(set(e) <= f for f in families) for e in network.edges),
                is_warned,
            )
            for values, value in zip(records, row, strict=True):
                values.append(value)
        covered, more, naive, widths, widths_more, errors, noises, missing, warned = records
        deviation = np.std(errors, axis=0)
        return [
            {
                "kind": kind,
                "runs": runs,
                "coverage": np.mean(covered, axis=0)[i],
                "coverage_more": np.mean(more, axis=0)[i],
                "one_table": np.mean(naive, axis=0)[i],
                "width": np.median(widths, axis=0)[i],
                "width_more": np.median(widths_more, axis=0)[i],
                "bias": np.mean(errors, axis=0)[i] / max(deviation[i], 1e-12),
                "records_per_cell": np.median(noises),
                "missing_edges": np.mean(missing),
                "warned": np.mean(warned),
            }
            for i, kind in enumerate(kinds)
        ]

    def figure(self, results: pd.DataFrame):
        methods = list(dict.fromkeys(results["method"]))
        figure, axes = figures.panels(len(methods), columns=2)
        kinds = list(dict.fromkeys(results["kind"]))
        for axis, method in zip(axes, methods, strict=False):
            part = results[results["method"] == method]
            for kind, points in part.groupby("kind", sort=False):
                x = points["epsilon"] * (1 + 0.05 * kinds.index(kind))
                color = f"C{kinds.index(kind)}"
                label = kind if method == methods[0] else None
                axis.plot(x, points["coverage"], "o", color=color, ms=3, alpha=0.7, label=label)
            for limit in (LEAST, MOST):
                axis.axhline(limit, color="0.5", linewidth=0.8)
            axis.set(xscale="log", xlabel="ε", title=method, ylabel="coverage")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        direct = results[results["kind"].isin((*DIRECT, *SLOPES))]
        keys = ["method", "population", "n", "epsilon"]
        by = direct.groupby(keys, sort=False)
        table = by[["coverage"]].min().rename(columns={"coverage": "lowest"})
        table["mean"] = by["coverage"].mean()
        table["highest"] = by["coverage"].max()
        for name, kinds in (
            ("indirect", (INDIRECT,)),
            ("absent", (ABSENT,)),
            ("halves", (HALVES,)),
            ("a mean", (MEAN, NUMBER_MEAN)),
        ):
            part = results[results["kind"].isin(kinds)].set_index(keys)
            table[name] = part["coverage"]
            if name in ("indirect", "absent"):
                table[f"{name}, {MORE_TIMES} n"] = part["coverage_more"]
        table["one table"] = by["one_table"].mean()
        table["missing edges"] = by["missing_edges"].first()
        table["records per cell"] = by["records_per_cell"].first()
        table["warned"] = by["warned"].first()
        return table

    def remarks(self, results: pd.DataFrame) -> str:
        runs, fewer = int(results["runs"].max()), int(results["runs"].min())
        return (
            f"Nominal 95% intervals, {runs} runs a cell ({fewer} for numbers), so that a rate has "
            f"a standard error of {np.sqrt(0.05 * 0.95 / runs):.3f} "
            f"({np.sqrt(0.05 * 0.95 / fewer):.3f}). The populations *strong* and *weak* are a "
            "network of five columns with two or three states and five edges, with all effects or "
            "with 0.35 of them. *Linear* has numbers with 21 and 11 values, nearly normal, and an "
            "edge between them; *skewed* has two groups, and skewed numbers with many zeros and a "
            "mean that is not linear. Each run draws n records, fits a model, draws "
            f"{N_TABLES} tables of {TIMES} n records and combines what an analyst computes on "
            "each: a logistic regression of y on a, b and c, and odds ratios; for numbers, a "
            "linear regression of y on x (and g), and a logistic one of g on x. *Required edges* "
            "has them as numbers, and *required, categories* as categories. *Lowest*, *mean* and "
            "*highest* are over the effects along edges: the coefficients of a and b and the odds "
            "ratios of a, y and of y, d, or all coefficients for numbers. *Indirect* is the odds "
            "ratio of a, d, and *absent* the coefficient of c, which is 0 in the network by its "
            f"structure, also with tables of {MORE_TIMES} n records; *halves* is the odds ratio of "
            "x of at least 9 and y of at least 5. *One table* has the coverage if one table of n "
            "records, drawn from the fitted model, is analysed as if its records were real. "
            "*Missing edges* counts the edges that no family of the model has. *Records per "
            "cell* is the smallest number of records for each cell and standard deviation of its "
            "noise, and *warned* the share of runs in which `sample_tables` warns. The counts of a "
            "table are drawn as a multinomial, which has the distribution of counted independent "
            "records. The strong population was also used while `sample_tables` was written, the "
            "weak one for 20 to 150 runs, and the numbers for up to 60 runs a cell, with other "
            "seeds; the moments that draws meet were not changed after the first of these. The "
            "rule of `combine` was chosen on simulated normal estimates. The noise of these "
            "runs is fresh."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        numbers = results[results["population"].isin(("linear", "skewed"))]
        results = results[~results["population"].isin(("linear", "skewed"))]
        direct = results[results["kind"].isin((*DIRECT, MEAN))]
        given = direct[direct["method"].isin(GIVEN)]
        learnt = direct[~direct["method"].isin(GIVEN)]
        present = learnt[learnt["missing_edges"] < 0.05]
        every = results[results["method"].isin(GIVEN)]
        along = "effects along edges and of a mean"
        linear = numbers[numbers["kind"].isin((*SLOPES, NUMBER_MEAN))]
        return [
            _verdict(given, f"{along}, structure given"),
            _verdict(every, "all effects, also indirect and absent ones, structure given"),
            _verdict(present, f"{along}, structure learnt, where at most 5% of runs lack an edge"),
            _verdict(learnt, f"{along}, structure learnt, all cells"),
            _verdict(
                linear[linear["warned"] < 0.5],
                "coefficients of regressions on numbers, and a mean, no warning",
            ),
            _verdict(linear, "coefficients of regressions on numbers, and a mean, all cells"),
            _verdict(
                numbers[(numbers["kind"] == HALVES) & (numbers["warned"] < 0.5)],
                "an odds ratio of numbers above limits, no warning",
            ),
        ]


def _stacked(network: Network, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, variances = zip(*analysed(network, counts.astype(float)).values(), strict=True)
    return np.stack(values, axis=1), np.stack(variances, axis=1)


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
