"""The three Bayesian networks of paper A, at equal and true privacy, and speed beside pgmpy.

``python -m benchmarks.bayes_net --data DIR --out DIR`` fits them to the data sets Adult, Bank
Marketing and South German Credit (UCI Machine Learning Repository, CC BY 4.0) and writes a CSV
table and a figure: what each mechanism costs, as held-out log-likelihood and as expected KL
divergence. ``--speed`` measures ratios to pgmpy instead, both sides in one run.

Numeric columns are cut at the data's own deciles, as in the paper. That is not private.
"""

import argparse
import csv
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import digamma, xlogy

from skdirdp.bayes_net import PrivateBayesNetMLE
from skdirdp.mechanisms import DirichletMechanism

NETWORKS: dict[str, dict[str, list[str]]] = {
    "adult": {
        "age": [],
        "sex": [],
        "education": ["age"],
        "occupation": ["age", "sex", "education"],
        "capital-gain": ["sex", "education", "occupation"],
        "capital-loss": ["sex", "occupation", "capital-gain"],
        "income": ["occupation", "capital-gain", "capital-loss"],
    },
    "bank": {
        "month": [],
        "day_of_week": [],
        "housing": ["month"],
        "pdays": ["housing", "month"],
        "poutcome": ["housing", "pdays"],
        "previous": ["poutcome"],
        "contact": ["previous", "month"],
        "campaign": ["day_of_week", "month"],
        "duration": ["housing", "contact", "campaign"],
        "y": ["poutcome", "duration", "month"],
    },
    "german_credit": {
        "housing": [],
        "property": ["housing"],
        "age": ["housing"],
        "amount": ["property"],
        "other_debtors": ["property"],
        "sex_marital_status": ["amount"],
        "purpose": ["amount"],
        "installment_rate": ["amount"],
        "duration": ["amount", "installment_rate"],
        "people_liable": ["sex_marital_status"],
        "foreign_worker": ["duration"],
        "number_credits": ["age"],
        "credit_history": ["number_credits"],
        "other_installment_plans": ["credit_history"],
    },
}

METHODS: dict[str, dict[str, str]] = {
    "algorithm1": {"calibration": "algorithm1"},
    "exact, even": {"split": "even"},
    "exact, optimised": {},
    "gaussian, even": {"mechanism": "gaussian", "split": "even"},
    "gaussian, optimised": {"mechanism": "gaussian"},
    "laplace, even": {"mechanism": "laplace", "split": "even"},
    "laplace, optimised": {"mechanism": "laplace"},
    "auto, optimised": {"mechanism": "auto"},
}
EPSILONS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
N_BINS = 10


def binned(column: pd.Series) -> pd.Series:
    """Numbers of at most ten bins between deciles, for numbers of more than ten values."""
    if column.dtype.kind not in "if" or column.nunique() <= N_BINS:
        return column
    edges = np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1]))
    bins = np.digitize(column, edges, right=True)
    if bins.max() == 0:  # nearly all have the largest value: the others are a bin
        bins = np.digitize(column, edges)
    return pd.Series(bins, column.index)


def load(name: str, folder: Path) -> pd.DataFrame:
    """The columns of a network, as categoricals."""
    table = pd.read_csv(folder / f"{name}.csv.gz")[list(NETWORKS[name])]
    return table.apply(lambda column: binned(column).astype("category"))


def states_of(table: pd.DataFrame) -> dict[str, list]:
    return {name: table[name].cat.categories.tolist() for name in table}


def halves(table: pd.DataFrame, repeat: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """70% to fit, 30% to test, as in the paper."""
    order = np.random.default_rng(repeat).permutation(len(table))
    cut = int(0.7 * len(table))
    return table.iloc[order[:cut]], table.iloc[order[cut:]]


def exact_counts(table: pd.DataFrame, name: str) -> dict[str, np.ndarray]:
    """Counts of each node's states by configuration of its parents."""
    counts = {}
    for node, parents in NETWORKS[name].items():
        sizes = [len(table[column].cat.categories) for column in (*parents, node)]
        codes = [table[column].cat.codes.to_numpy() for column in (*parents, node)]
        cells = np.ravel_multi_index(codes, sizes)
        counts[node] = np.bincount(cells, minlength=np.prod(sizes)).reshape(-1, sizes[-1])
    return counts


def expected_kl(model: PrivateBayesNetMLE, counts: dict[str, np.ndarray]) -> float:
    """Expected KL divergence of the released network from the empirical one, per record.

    In closed form for the Dirichlet mechanism, whose ``E log Y_i`` is known; for the others
    that of the one release that was drawn.
    """
    total = 0.0
    mechanisms = mechanisms_of(model)
    for node, table in counts.items():
        weight = table / table.sum()
        p = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        mechanism = mechanisms.get(node)
        if isinstance(mechanism, DirichletMechanism) and not mechanism.is_exact:
            r, alpha = mechanism.r, mechanism.alpha
            shapes = r * table + alpha
            log_y = digamma(shapes) - digamma(shapes.sum(axis=1, keepdims=True))
        else:
            log_y = np.log(model.probabilities_[node])
        total += float(np.sum(xlogy(weight, p) - weight * log_y))
    return total


def mechanisms_of(model: PrivateBayesNetMLE) -> dict:
    """Which mechanism released which node: smoothings tell them apart."""
    return {
        node: next((m for m, _ in model.privacy_.mechanisms if m.smoothing == smoothing), None)
        for node, smoothing in model.alpha_.items()
    }


def measure(name: str, folder: Path, budget: dict[str, float], repeats: int) -> list[dict]:
    """Scores of all methods on one network at one budget."""
    table = load(name, folder)
    states = states_of(table)
    scores: dict[str, list[float]] = {method: [] for method in [*METHODS, "no privacy"]}
    divergences: dict[str, list[float]] = {method: [] for method in [*METHODS, "no privacy"]}
    for repeat in range(repeats):
        train, test = halves(table, repeat)
        counts = exact_counts(train, name)
        for method in scores:
            settings = METHODS.get(method, {"epsilon": float("inf")})
            model = PrivateBayesNetMLE(NETWORKS[name], states=states, **{**budget, **settings})
            model.fit(train)
            scores[method].append(model.score(test))
            divergences[method].append(expected_kl(model, counts))
    return [
        {
            "network": name,
            **budget,
            "method": method,
            "log_likelihood": np.mean(found),
            "standard_error": np.std(found, ddof=1) / np.sqrt(repeats),
            # Splits are shared, so that differences between methods vary much less.
            "gain_on_algorithm1": np.mean(np.subtract(found, scores["algorithm1"])),
            "gain_error": np.std(np.subtract(found, scores["algorithm1"]), ddof=1)
            / np.sqrt(repeats),
            "expected_kl": np.mean(divergences[method]),
        }
        for method, found in scores.items()
    ]


def show(rows: list[dict]) -> None:
    first = rows[0]
    budget = ", ".join(f"{key} {first[key]:g}" for key in ("order", "epsilon") if key in first)
    print(f"\n{first['network']}, {budget}")
    for row in rows:
        print(
            f"  {row['method']:20} log-likelihood {row['log_likelihood']:9.4f} "
            f"+- {row['standard_error']:.4f}   expected KL {row['expected_kl']:8.4f}",
            flush=True,
        )


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(NETWORKS), figsize=(15, 4.5), layout="constrained")
    shown = ("algorithm1", "exact, even", "exact, optimised", "gaussian, optimised")
    shown = (*shown, "laplace, optimised", "auto, optimised", "no privacy")
    for axis, name in zip(axes, NETWORKS, strict=True):
        for method in shown:
            line = [row for row in rows if (row["network"], row["method"]) == (name, method)]
            line = [row for row in line if "order" in row]
            axis.plot(
                [row["epsilon"] for row in line],
                [row["log_likelihood"] for row in line],
                "k--" if method == "no privacy" else ".-",
                label=method,
            )
        axis.set(xscale="log", title=name, xlabel="epsilon of (5, epsilon)-RDP")
    axes[0].set_ylabel("held-out log-likelihood per record")
    axes[0].legend()
    figure.savefig(path, dpi=120)


def utility(folder: Path, out: Path, repeats: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    budgets: list[dict[str, float]] = [{"order": 5.0, "epsilon": each} for each in EPSILONS]
    rows = []
    for name in NETWORKS:
        for budget in [*budgets, {"epsilon": 1.0, "delta": 1e-5}]:
            rows += measure(name, folder, budget, repeats)
            show(rows[-len(METHODS) - 1 :])
    fields = ["network", "order", "epsilon", "delta", *list(rows[0])[3:]]
    with open(out / "bayes_net.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, out / "bayes_net.png")


# Speed -----------------------------------------------------------------------------


def best_of(function, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def report(what: str, ours: float, theirs: float, wanted: float) -> None:
    print(
        f"{what:52} {ours * 1e3:9.2f} ms   pgmpy {theirs * 1e3:10.2f} ms   "
        f"{theirs / ours:8.1f} times faster (wanted {wanted:g})",
        flush=True,
    )


def alarm_rows(n: int):
    """pgmpy's alarm network, and records drawn from it."""
    from pgmpy.utils import get_example_model

    network = get_example_model("alarm")
    true = PrivateBayesNetMLE(network, states=network.states, epsilon=float("inf"))
    seed = network.simulate(1000, seed=0, show_progress=False)
    return network, true.fit(seed).sample(n, random_state=0)


def speed(repeats: int) -> None:
    from pgmpy.parameter_estimator import DiscreteMLE

    network, strings = alarm_rows(50_000)
    model = PrivateBayesNetMLE(network, states=network.states, target="HR")
    start = time.perf_counter()
    model.fit(strings)
    print(f"the first fit, which calibrates: {time.perf_counter() - start:.2f} s", flush=True)
    theirs = DiscreteMLE(state_names=network.states)
    for kind, table, wanted in (
        ("strings", strings, 2),
        ("categoricals", strings.astype("category"), 4),
    ):
        ours = best_of(lambda t=table: model.fit(t), repeats)
        other = best_of(lambda t=table: theirs.fit(network, t), repeats)
        report(f"fit, alarm, 50 000 records of {kind}", ours, other, wanted)

    some = strings.iloc[:1000].drop(columns="HR")
    ours = best_of(lambda: model.predict(some), 5 * repeats)
    other = best_of(lambda: model.model_.predict(some, n_jobs=1), 1)
    report("predict, one column of 1 000 records", ours, other, 500)

    ours = best_of(lambda: model.sample(50_000), repeats)
    other = best_of(
        lambda: model.model_.simulate(50_000, show_progress=False), max(1, repeats // 2)
    )
    report("sample, 50 000 records", ours, other, 5)

    command = [sys.executable, "-m", "benchmarks.bayes_net", "--peak"]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


def peak() -> None:
    """The peak memory of a process that makes and fits a million records of strings."""
    network, strings = alarm_rows(1_000_000)
    start = time.perf_counter()
    PrivateBayesNetMLE(network, states=network.states).fit(strings)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"fit, 1 000 000 x {strings.shape[1]} strings: {time.perf_counter() - start:.1f} s, "
        f"peak of the process {gib:.2f} GiB, data included (wanted < 4)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("benchmark_results"))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peak:
        peak()
    elif arguments.speed:
        speed(arguments.repeats)
    else:
        utility(arguments.data, arguments.out, arguments.repeats)


if __name__ == "__main__":
    main()
