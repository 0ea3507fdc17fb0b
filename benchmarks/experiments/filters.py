"""How much may be spent when every step is chosen after looking at the last."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from skdirdp import PrivacyAccountant
from skdirdp.accountant.codec import encode
from skdirdp.accounting import ApproximateDP, Composition, PureDP
from skdirdp.accounting.composition import PrivacyCurves
from skdirdp.accounting.filters import PrivacyFilter
from skdirdp.accounting.worst_case import renyi_epsilon
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import seconds
from .speed.accountant import bare_commit

LIMITS = ((1.0, 1e-5), (3.0, 1e-6))
_ORDERS = 1 + np.geomspace(0.1, 1000, 4000)
_CHARGES, _TIMED = 10_000, 60

Round = tuple[tuple[PrivacyCurves, int], ...]


def _calibrated(kind, epsilon: float, releases: int) -> PrivacyCurves:
    return kind.calibrate(
        epsilon=epsilon, delta=1e-7, releases=releases, n_samples=10_000, n_categories=8
    )


def workloads() -> dict[str, tuple[str, Round]]:
    """Repeated workloads by name: description, and the releases of one round."""
    table, other = DirichletMechanism(r=0.02, alpha=32.0), DirichletMechanism(r=0.1, alpha=120.0)
    small, noise = DirichletMechanism(r=0.01, alpha=4.0), GaussianMechanism(sigma=160.0)
    model = _calibrated(DirichletMechanism, 0.05, 14)
    noisy_model = _calibrated(GaussianMechanism, 0.05, 14)
    histogram = _calibrated(LaplaceMechanism, 0.02, 1)
    return {
        "Dirichlet": ("one Dirichlet table (r = 0.02, α = 32)", ((table, 1),)),
        "Gaussian": ("one table with Gaussian noise (σ = 160)", ((noise, 1),)),
        "tables": (
            "five Dirichlet tables (0.02, 32), one of (0.1, 120), two of (0.01, 4)",
            ((table, 5), (other, 1), (small, 2)),
        ),
        "tables and noise": (
            "a table with Gaussian noise (σ = 160), then five Dirichlet tables (0.02, 32)",
            ((noise, 1), (table, 5)),
        ),
        "models": (
            "a Dirichlet model of 14 tables (ε = 0.05), the same with Gaussian noise, a histogram "
            "with Laplace noise (ε = 0.02)",
            ((model, 14), (noisy_model, 14), (histogram, 1)),
        ),
        "from elsewhere": (
            "0.0125-DP, Laplace noise (scale 200), (0.0125, 1e-11)-DP, Dirichlet table (0.02, 32)",
            (
                (PureDP(0.0125), 1),
                (LaplaceMechanism(scale=200.0), 1),
                (ApproximateDP(0.0125, 1e-11), 1),
                (table, 1),
            ),
        ),
    }


def most_rounds(admits: Callable[[int], bool]) -> int:
    low, high = 0, 1
    while admits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def exact_rounds(one_round: Round, epsilon: float, delta: float) -> int:
    return most_rounds(
        lambda n: Composition([(kind, n * k) for kind, k in one_round]).delta(epsilon) <= delta
    )


def filtered_rounds(one_round: Round, epsilon: float, delta: float) -> int:
    spending = PrivacyFilter(*one_round[0], epsilon, delta)
    return most_rounds(lambda n: spending.admits({kind: n * k for kind, k in one_round}))


def renyi_rounds(one_round: Round, epsilon: float, delta: float) -> tuple[int, float]:
    """Use the best order for this workload, which is not known beforehand."""
    failure = sum(k * kind.worst_cases()["replace"].failure for kind, k in one_round)
    divergence = sum(
        k * sum(count * curve.rdp(_ORDERS) for curve, count in case.renyi)
        for kind, k in one_round
        for case in [kind.worst_cases()["replace"]]
    )

    def admits(n: int) -> np.ndarray:
        left = delta - n * failure
        if left <= 0:
            return np.zeros(_ORDERS.size, dtype=bool)
        return renyi_epsilon(_ORDERS, n * divergence, left) <= epsilon

    rounds = most_rounds(lambda n: bool(admits(n).any()))
    return rounds, float(_ORDERS[np.argmax(admits(rounds))])


class Filters(Experiment):
    name = "filters"
    title = "Budgets chosen as you go"
    reproduces = (
        "rounds of releases under a limit: as many as the accountant's filter admits, which holds "
        "for adaptively chosen steps, against exact composition, which does not, and against a "
        "filter at one Rényi order"
    )

    def tasks(self, settings: Settings) -> list[Row]:
        names = ["Dirichlet", "tables and noise"] if settings.quick else list(workloads())
        limits = LIMITS[1:] if settings.quick else LIMITS
        tasks: list[Row] = [
            {"workload": name, "epsilon": epsilon, "delta": delta}
            for name in names
            for epsilon, delta in limits
        ]
        return [*tasks, {"workload": "charges", "epsilon": 3.0, "delta": 1e-6}]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        epsilon, delta = task["epsilon"], task["delta"]
        if task["workload"] == "charges":
            return [_time_charges(50 if settings.quick else _CHARGES, epsilon, delta)]
        _, one_round = workloads()[task["workload"]]
        exact = exact_rounds(one_round, epsilon, delta)
        renyi, order = renyi_rounds(one_round, epsilon, delta)
        filtered = filtered_rounds(one_round, epsilon, delta)
        return [{"exact": exact, "filter": filtered, "renyi": renyi, "order": order}]

    def figure(self, results: pd.DataFrame):
        shares = _shares(results)
        figure, (axis,) = figures.panels(1, width=8.0, height=3.6)
        place = np.arange(len(shares))
        axis.bar(place - 0.2, shares["filter"], 0.4, label="filter", color="#0b61a4")
        axis.bar(place + 0.2, shares["renyi"], 0.4, label="Rényi filter, best order", color="0.7")
        axis.axhline(0.95, color="black", linestyle=":", linewidth=0.8)
        axis.axhline(0.75, color="black", linestyle="--", linewidth=0.8)
        names = [f"{name}\nε = {epsilon:g}" for name, epsilon in shares.index]
        axis.set_xticks(place, names, rotation=45, ha="right", fontsize=8)
        axis.set(ylabel="releases / those that exact composition admits", ylim=(0, 1.05))
        axis.legend(loc="lower right")
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        rows = results[results["workload"] != "charges"]
        shares = _shares(results)
        return pd.DataFrame(
            {
                "workload": rows["workload"],
                "ε": rows["epsilon"],
                "δ": rows["delta"],
                "exact, for a plan": rows["exact"].astype(int),
                "filter": rows["filter"].astype(int),
                "of exact": [f"{share:.1%}" for share in shares["filter"]],
                "Rényi filter, best order": [
                    f"{int(number)} ({share:.1%})"
                    for number, share in zip(rows["renyi"], shares["renyi"], strict=True)
                ],
            }
        ).set_index("workload")

    def remarks(self, results: pd.DataFrame) -> str:
        words = "\n".join(
            f"- *{name}*: {text}"
            for name, (text, _) in workloads().items()
            if name in set(results["workload"])
        )
        timed = results[results["workload"] == "charges"].iloc[0]
        return (
            f"One round of each workload is\n\n{words}\n\nThe first release determines the "
            "filter. The Rényi filter is given the order that is best for the whole workload, "
            "which is not known beforehand, and all of δ. Releases that may fail outright, and "
            "were not the first, are limited to about a twentieth of δ: with 1e-10 for 1e-11 "
            "the last workload would end at 44% at (3, 1e-6).\n\n"
            f"A charge after {int(timed['charges'])} others took {timed['median_ms']:.2f} ms "
            f"(median; {timed['processor_ms']:.2f} ms of the processor), a bare commit of the same "
            f"disk {timed['commit_ms']:.2f} ms."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        shares = _shares(results)["filter"]
        alone = shares.index.get_level_values(0).isin(["Dirichlet", "Gaussian"])
        timed = results[results["workload"] == "charges"].iloc[0]
        return [
            Claim(
                "skdirdp",
                "One kind repeated: the filter admits at least 95% of exact composition",
                bool((shares[alone] >= 0.95).all()),
                f"at least {shares[alone].min():.1%}",
            ),
            Claim(
                "skdirdp",
                "Mixed workloads: at least 75%",
                bool((shares[~alone] >= 0.75).all()),
                f"at least {shares[~alone].min():.1%}",
            ),
            Claim(
                "skdirdp",
                f"A charge takes at most 5 ms of the processor, after {int(timed['charges'])}",
                bool(timed["processor_ms"] <= 5),
                f"median {timed['processor_ms']:.2f} ms; with the disk {timed['median_ms']:.2f} "
                f"ms, and a bare commit {timed['commit_ms']:.2f} ms",
            ),
        ]


def _shares(results: pd.DataFrame) -> pd.DataFrame:
    rows = results[results["workload"] != "charges"].set_index(["workload", "epsilon"])
    return rows[["filter", "renyi"]].div(rows["exact"], axis=0)


def _time_charges(number: int, epsilon: float, delta: float) -> Row:
    """Time a charge to a ledger of this size, and a commit on the same disk."""
    kinds = (
        DirichletMechanism(r=0.001, alpha=50.0),
        GaussianMechanism(sigma=4000.0),
        PureDP(0.0002),
    )
    walls, processor, bare = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        accountant = PrivacyAccountant(epsilon, delta, path=Path(folder, "ledger.sqlite"))
        commit = bare_commit(Path(folder, "bare.sqlite"))
        specs = [encode(kind) for kind in kinds]
        with accountant._ledger.writing() as transaction:
            for i in range(number):
                transaction.append(specs[i % 3], 1, "benchmark", None)
        for i in range(_TIMED):
            start = time.perf_counter(), time.process_time()
            accountant.charge(kinds[i % 3], label="benchmark")
            walls.append(time.perf_counter() - start[0])
            processor.append(time.process_time() - start[1])
            bare.append(seconds(commit))
    return {
        "charges": number,
        "median_ms": 1000 * float(np.median(walls)),
        "processor_ms": 1000 * float(np.median(processor)),
        "commit_ms": 1000 * float(np.median(bare)),
    }
