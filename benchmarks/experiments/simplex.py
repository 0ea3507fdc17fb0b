"""Vectors on the simplex: claims of paper D, and releases of its mechanism."""

import numpy as np
import pandas as pd
from scipy.special import betainc
from scipy.stats import dirichlet

from skdirdp.mechanisms import SimplexMechanism

from .. import figures
from ..experiment import Claim, Experiment, seeded

DELTA = 0.05


def average_query(k: float, n_vectors: int = 100) -> SimplexMechanism:
    """The mechanism of the paper's section VI."""
    return SimplexMechanism(k, protected=(0, 1), eta=0.05, eta_bar=0.05, b=1.0, n_vectors=n_vectors)


# The epsilon of each claim ---------------------------------------------------------


class SimplexClaims(Experiment):
    name = "simplex-claims"
    title = "Simplex: the ε of each claim"
    reproduces = "paper D, figure 1 (limits that the paper does not print), and its section VI"

    INSTANCES = ((0.1, 15.0), (0.1, 30.0), (0.2, 30.0))  # eta = eta_bar, and k

    def tasks(self, settings):
        figure1 = [
            {"query": "identity", "eta": eta, "k": k, "protected": 3, "b": 0.1, "vectors": 1}
            for eta, k in self.INSTANCES
        ]
        # Theorem 2 prints the dimension, 3, where its proof needs the number of vectors.
        return figure1 + [
            {
                "query": "average",
                "eta": 0.05,
                "k": 24.0,
                "protected": 2,
                "b": 1.0,
                "vectors": vectors,
            }
            for vectors in (100, 3)
        ]

    def measure(self, task, settings):
        mechanism = SimplexMechanism(
            task["k"],
            protected=tuple(range(task["protected"])),
            eta=task["eta"],
            eta_bar=task["eta"],
            b=task["b"],
            n_vectors=task["vectors"],
        )
        deltas = (0.01, DELTA) if settings.quick else np.linspace(0.005, 0.1, 20).round(6).tolist()
        return [
            {
                "delta": delta,
                "gamma": mechanism.best_gamma(delta),
                "claim": claim,
                "epsilon": epsilon,
            }
            for delta in deltas
            for claim, epsilon in mechanism.claims(delta).items()
        ]

    def figure(self, results):
        shown = results[results["vectors"] != 3]
        cases = shown.groupby(["query", "eta", "k"], sort=False)
        figure, axes = figures.panels(cases.ngroups, columns=4, width=3.3, height=3)
        for axis, ((query, eta, k), part) in zip(axes, cases, strict=True):
            for claim, name in _NAMES.items():
                curve = part[part["claim"] == claim]
                axis.semilogy(curve["delta"], curve["epsilon"], label=name, **_LINES[claim])
            title = f"{query} query\nη = η̄ = {eta:g}, k = {k:g}"
            axis.set(title=title, xlabel="δ", ylim=(0.002, 60))
        axes[0].set_ylabel("ε")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results):
        at = results[np.isclose(results["delta"], DELTA) & (results["vectors"] != 3)]
        keys = ["query", "eta", "k", "protected", "b", "vectors", "delta", "gamma"]
        table = at.pivot_table(index=keys, columns="claim", values="epsilon", sort=False)
        return table[list(_NAMES)].rename(columns=_NAMES).rename_axis(columns=None)

    def remarks(self, results):
        return (
            "The paper does not print the limits of its figure 1; these were chosen here. The "
            "average query is that of its section VI."
        )

    def claims(self, results):
        found = results.pivot_table(
            index=["query", "eta", "k", "vectors", "delta"],
            columns="claim",
            values="epsilon",
            sort=False,
        )
        offset = found["lemma5"] - found["paper"]
        average = found.loc[("average", 0.05, 24.0, 100, DELTA)]
        printed = found.loc[("average", 0.05, 24.0, 3, DELTA)]
        single = offset.loc["identity"].groupby(["eta", "k"]).mean()
        original = found["paper"].loc["identity"].xs(DELTA, level="delta").droplevel("vectors")
        ordered = single[original.sort_values().index]
        simplified = found["lemma5"].loc["identity"].xs(DELTA, level="delta")
        real = found.drop(index=3, level="vectors").xs(DELTA, level="delta")
        ratio = real["paper"] / real["exact"]
        return [
            Claim(
                "D, section VI",
                "At k = 24 the mean of 100 vectors is (1.18, 0.05)-DP.",
                bool(average["exact"] <= 1.18),
                f"the proof of Theorem 2 gives {average['paper']:.4f}, Theorem 2 as printed "
                f"{printed['paper']:.2f}, the exact ε is {average['exact']:.4f}",
            ),
            Claim(
                "D, section VI",
                "Theorem 2 gives this 1.18.",
                bool(abs(average["paper"] - 1.18) < 0.005),
                f"{average['paper']:.4f} with the number of vectors, {printed['paper']:.2f} with "
                "the dimension, which is printed",
            ),
            Claim(
                "D, figure 1",
                "Lemma 5 shifts ε by an offset that follows ε, be it up or down.",
                bool(ordered.is_monotonic_increasing or ordered.is_monotonic_decreasing),
                ", ".join(
                    f"{single[case]:.2f} at ε = {original[case]:.2f}" for case in ordered.index
                ),
            ),
            Claim(
                "D, section VII",
                "The claim of the simulation is within the usual range (ε ≤ 5 at δ = 0.05).",
                bool(average["paper"] <= 5),
                f"{average['paper']:.4f}; on the instances of figure 1 it is "
                f"{original.min():.1f} to {original.max():.1f}, with Lemma 5 "
                f"{simplified.min():.0f} to {simplified.max():.0f}",
            ),
            Claim(
                "skdirdp",
                "The exact ε is below every claim of the paper, for the same noise.",
                bool((ratio > 1).all()),
                f"{ratio.min():.1f} to {ratio.max():.1f} times less than Theorems 1 and 2; "
                f"{average['paper'] / average['exact']:.0f} times in section VI",
            ),
        ]


_NAMES = {
    "lemma5": "Lemma 5",
    "union": "Theorem, union bound on δ",
    "paper": "Theorem 1 or 2",
    "exact": "exact",
}
_LINES = {
    "lemma5": {"color": "0.6", "linestyle": ":"},
    "union": {"color": "#eda17f", "linestyle": "-."},
    "paper": {"color": "#8d6e63", "linestyle": "--"},
    "exact": {"color": "#0b61a4"},
}


# Outputs for neighbours ------------------------------------------------------------


class SimplexOutputs(Experiment):
    name = "simplex-outputs"
    title = "Simplex: outputs for neighbouring collections"
    reproduces = "paper D, figure 2 and table I (vectors that the paper does not print)"

    def tasks(self, settings):
        return [{"k": k, "input": name} for k in (24.0, 10.0) for name in "PQ"]

    def measure(self, task, settings):
        rng = seeded(self.name, *task.values())
        means = {name: vectors.mean(axis=0) for name, vectors in _collections().items()}
        mechanism, vectors = average_query(task["k"]), _collections()[task["input"]]
        rows = []
        for _ in range(300 if settings.quick else 1000):
            y = mechanism.release_mean(vectors, rng)
            likelihood = {
                name: dirichlet.logpdf(y, task["k"] * mean) for name, mean in means.items()
            }
            entries = dict(zip(("y1", "y2", "y3"), y.tolist(), strict=True))
            rows.append({**entries, "log_ratio": likelihood["P"] - likelihood["Q"]})
        return rows

    def figure(self, results):
        figure, axes = figures.panels(2, columns=2, width=4.4, height=4)
        for axis, k in zip(axes, (24.0, 10.0), strict=True):
            for name, colour in (("P", "#c1440e"), ("Q", "#0b61a4")):
                part = results[(results["k"] == k) & (results["input"] == name)]
                axis.scatter(
                    part["y1"],
                    part["y2"],
                    s=8,
                    alpha=0.4,
                    color=colour,
                    linewidths=0,
                    label=f"input {name}",
                    rasterized=True,
                )
            axis.plot([0, 1, 0, 0], [0, 0, 1, 0], color="black", linewidth=0.8)
            axis.set(xlabel="first entry", ylabel="second entry", title=f"k = {k:g}", aspect=1)
        figures.legend_below(figure, axes)
        return figure

    def table(self, results):
        rows = []
        for (k, name), part in results.groupby(["k", "input"], sort=False):
            mean = _collections()[name].mean(axis=0)
            for i, entry in enumerate(("y1", "y2", "y3")):
                rows.append(
                    {
                        "k": k,
                        "input": name,
                        "entry": i + 1,
                        "true mean": mean[i],
                        "mean of outputs": part[entry].mean(),
                        "variance by Proposition 1": average_query(k).variance(mean)[i],
                        "variance of outputs": part[entry].var(ddof=1),
                    }
                )
        return pd.DataFrame(rows)

    def remarks(self, results):
        return (
            "Table I of the paper exchanges entries 2 and 3 while only 1 and 2 are protected; here "
            "a vector moves between the protected ones."
        )

    def claims(self, results):
        table = self.table(results)
        runs = results.groupby(["k", "input"]).size().min()
        error = np.sqrt(table["variance by Proposition 1"] / runs)
        deviation = ((table["mean of outputs"] - table["true mean"]).abs() / error).max()
        variances = table[table["k"] == 24]["variance of outputs"]
        guessed = np.where(results["log_ratio"] > 0, "P", "Q") == results["input"]
        right = guessed.groupby(results["k"]).mean()
        advantage = average_query(24.0).delta(0.0)
        gamma = average_query(24.0).best_gamma(DELTA)
        p = _collections()["P"].mean(axis=0)[:2]
        low = {k: betainc(k * p, k * (1 - p), gamma).sum() for k in (10.0, 24.0)}
        spread = results.groupby("k")[["y1", "y2", "y3"]].var().mean(axis=1)
        return [
            Claim(
                "D, Proposition 1",
                "The mean of the outputs is the input.",
                bool(deviation < 4),
                f"within {deviation:.1f} standard errors of {runs} runs",
            ),
            Claim(
                "D, section VI",
                "At k = 24 every entry of the output has a variance below 0.01.",
                bool(variances.max() < 0.01),
                f"at most {variances.max():.4f} (table I prints up to 0.0102)",
            ),
            Claim(
                "D, section VI",
                "An output does not distinguish P from Q with high probability.",
                bool(0.5 + advantage / 2 < 0.6),
                f"the best test is right in {right[24.0]:.1%} of the runs at k = 24; no test "
                f"can be in more than {0.5 + advantage / 2:.1%}",
            ),
            Claim(
                "D, section VI",
                "At k = 10 outputs are less concentrated, and more often beyond the privacy "
                "threshold γ, than at k = 24.",
                bool(spread[10.0] > spread[24.0] and low[10.0] > low[24.0]),
                f"variances {spread[10.0]:.4f} and {spread[24.0]:.4f}; a protected entry below "
                f"γ = {gamma:.5f} with probabilities {low[10.0]:.1g} and {low[24.0]:.1g}",
            ),
        ]


def _collections() -> dict[str, np.ndarray]:
    """100 opinions, and the same with one of them moved by b = 1 between protected entries."""
    P = 0.06 + 0.82 * seeded("opinions").dirichlet(np.full(3, 2.0), 100)
    P[0] = (0.7, 0.15, 0.15)
    Q = P.copy()
    Q[0] = (0.2, 0.65, 0.15)
    return {"P": P, "Q": Q}
