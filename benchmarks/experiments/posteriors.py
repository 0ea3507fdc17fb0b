"""Releases of a whole posterior: paper C's six mechanisms, and the exact calibration.

Every number is an expectation over the exact distribution of a mechanism's output, where the
paper averages 1000 runs. Where outputs are too many to list (Laplace noise on more than two cells)
it is an average over seeded draws.
"""

import numpy as np
import pandas as pd

from skdirdp.posterior import hellinger_distance
from skdirdp.posterior.estimator import draw_laplace, laplace_scale
from skdirdp.posterior.hellinger import (
    exact_exponent,
    log_weights,
    paper_exponent,
    posterior_lattice,
)

from .. import figures
from ..experiment import Claim, Experiment, seeded

LAP, ILAP, SMOOTH, EXACT = (
    "LSDim (lapMech)",
    "LSHist (ilapMech)",
    "EHDS (expMech smooth)",
    "EHDS, exact",
)
#: The mechanism and the calibration behind each name.
LAPLACE = {"LSZhang": "lszhang", LAP: "lsdim", ILAP: "lshist"}
EXPONENTIAL = {
    "EHD": ("ehd", "paper"),
    "EHDL (not private)": ("ehdl", "paper"),
    SMOOTH: ("ehds", "paper"),
    "EHD, exact": ("ehd", "exact"),
    EXACT: ("ehds", "exact"),
}
METHODS = (*LAPLACE, *EXPONENTIAL)
GAMMA = 1.0
_DRAWS = 4000


def balanced(n: int, k: int) -> np.ndarray:
    """Counts as even as they can be."""
    counts = np.full(k, n // k)
    counts[k - n % k :] += 1 if n % k else 0
    return counts


def exponent(method: str, prior: tuple[float, ...], n: int, epsilon: float):
    mechanism, calibration = EXPONENTIAL[method]
    choose = exact_exponent if calibration == "exact" else paper_exponent
    return choose(mechanism, prior, n, epsilon, GAMMA)


def distances(method: str, counts: np.ndarray, prior: float, epsilon: float):
    """Hellinger distances of the outputs from the true posterior, and their probabilities."""
    n, k = int(counts.sum()), counts.size
    priors = (prior,) * k
    if method in EXPONENTIAL:
        lattice = posterior_lattice(priors, n)
        scale = exponent(method, priors, n, epsilon).scale
        weights = np.exp(log_weights(EXPONENTIAL[method][0], counts, lattice, scale, GAMMA))
        return lattice.distances(counts), weights / weights.sum()
    mechanism, truth = LAPLACE[method], prior + counts
    if k == 2 and mechanism != "lszhang":
        first = np.arange(n + 1)
        released = np.column_stack([first, n - first])
        pmf = clamped_laplace_pmf(int(counts[0]), n, laplace_scale(mechanism, k, epsilon))
        return hellinger_distance(truth, prior + released), pmf
    rng = seeded("posteriors", method, *counts, prior, epsilon)
    released = np.array([draw_laplace(mechanism, counts, epsilon, rng) for _ in range(_DRAWS)])
    return hellinger_distance(truth, prior + released), np.full(_DRAWS, 1 / _DRAWS)


def clamped_laplace_pmf(count: int, n_samples: int, scale: float) -> np.ndarray:
    """Distribution of a noisy count, floored and then clamped to [0, n_samples]."""
    shift = np.arange(n_samples + 1) - count
    # Floored noise is t or -t - 1, each with half the probability of a geometric t.
    distance = np.where(shift >= 0, shift, -shift - 1)
    pmf = 0.5 * np.exp(-distance / scale) * -np.expm1(-1 / scale)
    pmf[0] = 0.5 * np.exp(-(count - 1) / scale) if count else 1 - 0.5 * np.exp(-1 / scale)
    pmf[-1] = 0.5 * np.exp(-(n_samples - count) / scale)
    return pmf


def _by_method(results: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    table = results.pivot_table(index=keys, columns="method", values=value)
    return table[[method for method in METHODS if method in table]]


def draw_methods(axis, part: pd.DataFrame, x: str, y: str) -> None:
    for method, curve in part.groupby("method", sort=False):
        axis.plot(curve[x], curve[y], label=method, **figures.style(method))


# Distances of outputs --------------------------------------------------------------


class PosteriorDistances(Experiment):
    name = "posterior-distances"
    title = "Posteriors: how near the outputs are"
    reproduces = "paper C, figures 3 and 4, as cumulative probabilities"

    def tasks(self, settings):
        sizes = ((2, 100),) if settings.quick else ((2, 100), (3, 30), (4, 16))
        return [
            {"epsilon": epsilon, "k": k, "n": n, "method": method}
            for epsilon in (1.0, 5.0)
            for k, n in sizes
            for method in METHODS
        ]

    def measure(self, task, settings):
        counts = balanced(task["n"], task["k"])
        distance, probability = distances(task["method"], counts, 1.0, task["epsilon"])
        mean = float(distance @ probability)
        return [
            {
                "distance": within,
                # The distance of a posterior from itself is 0 up to rounding.
                "probability": float(probability[distance <= within + 1e-7].sum()),
                "mean_distance": mean,
            }
            for within in np.linspace(0, 1, 51).round(6).tolist()
        ]

    def figure(self, results):
        cases = results.groupby(["epsilon", "k", "n"])
        figure, axes = figures.panels(cases.ngroups, columns=3, width=4)
        for axis, ((epsilon, k, n), part) in zip(axes, cases, strict=True):
            for method, curve in part.groupby("method", sort=False):
                look = figures.style(method) | {"marker": ""}
                axis.step(
                    curve["distance"], curve["probability"], where="post", label=method, **look
                )
            axis.set(title=f"ε = {epsilon:g}, k = {k}, n = {n}", xlim=(-0.01, 1 if k > 2 else 0.6))
            axis.set_xlabel("Hellinger distance t")
        for axis in axes[::3]:
            axis.set_ylabel("P[distance ≤ t]")
        figures.legend_below(figure, axes, columns=4)
        return figure

    def table(self, results):
        hits = results[results["distance"] == 0].set_index("method")
        table = {}
        for epsilon in (1.0, 5.0):
            at = hits[hits["epsilon"] == epsilon]
            table[f"hit, k = 2, ε = {epsilon:g}"] = at[at["k"] == 2]["probability"]
            for k in at["k"].unique():
                table[f"mean, k = {k}, ε = {epsilon:g}"] = at[at["k"] == k]["mean_distance"]
        return pd.DataFrame(table)

    def remarks(self, results):
        return (
            "“Hit” is the probability that the true posterior comes out, “mean” the mean distance "
            "from it. All but EHDL are ε-DP; in truth LSZhang is ε/k-DP and LSDim ε/2-DP for two "
            "categories, 2ε/k-DP for more."
        )

    def claims(self, results):
        exactly = results[results["distance"] == 0]
        means = _by_method(exactly, ["epsilon", "k"], "mean_distance")
        hits = _by_method(exactly, ["epsilon", "k"], "probability")
        mean, hit = means.xs(2, level="k"), hits.xs(2, level="k")
        printed = {LAP: 0.19673467014, ILAP: 0.31606027941}

        def against(values: pd.DataFrame, epsilon: float, *methods: str) -> str:
            return ", ".join(f"{values.loc[epsilon, name]:.4f} ({name})" for name in methods)

        def by_size(values: pd.DataFrame, other: str) -> str:
            return "; ".join(
                f"{row[SMOOTH]:.3f} against {row[other]:.3f} (k = {k})"
                for k, row in values.loc[1.0].iterrows()
            )

        return [
            Claim(
                "C, table 1",
                "At ε = 1 and two categories lapMech and ilapMech hit the true posterior with "
                "probabilities 0.19673467014 and 0.31606027941.",
                all(abs(hit.loc[1.0, name] - value) < 1e-8 for name, value in printed.items()),
                f"{hit.loc[1.0, LAP]:.8f} and {hit.loc[1.0, ILAP]:.8f}",
            ),
            Claim(
                "C, figure 3",
                "At ε = 1 EHDS outputs nearer posteriors than lapMech.",
                bool((means.loc[1.0, SMOOTH] < means.loc[1.0, LAP]).all()),
                "mean distances " + by_size(means, LAP) + "; hits " + by_size(hits, LAP),
            ),
            Claim(
                "C, figure 3",
                "At ε = 1 ilapMech outputs nearer posteriors than EHDS.",
                bool((means.loc[1.0, ILAP] < means.loc[1.0, SMOOTH]).all()),
                "mean distances, EHDS first: " + by_size(means, ILAP),
            ),
            Claim(
                "C, figure 4",
                "At ε = 5 and two categories EHDS hits the true posterior more often than both "
                "Laplace mechanisms.",
                bool(hit.loc[5.0, SMOOTH] > hit.loc[5.0, [LAP, ILAP]].max()),
                against(hit, 5.0, SMOOTH, LAP, ILAP),
            ),
            Claim(
                "C, figure 4",
                "At ε = 5 and two categories EHDS is nearer on average than both Laplace "
                "mechanisms.",
                bool(mean.loc[5.0, SMOOTH] < mean.loc[5.0, [LAP, ILAP]].min()),
                against(mean, 5.0, SMOOTH, LAP, ILAP),
            ),
            Claim(
                "skdirdp",
                "The exact calibration outputs nearer posteriors than the paper's, for EHD and "
                "EHDS.",
                bool(
                    (means[EXACT] < means[SMOOTH]).all()
                    and (means["EHD, exact"] < means["EHD"]).all()
                ),
                "mean distances at k = 2, ε = 1: " + against(mean, 1.0, EXACT, SMOOTH),
            ),
        ]


# Errors by size --------------------------------------------------------------------


class PosteriorErrors(Experiment):
    name = "posterior-errors"
    title = "Posteriors: mean distance as data grow"
    reproduces = "paper C, figures 5 and 6 (upper)"

    def tasks(self, settings):
        sizes = {
            2: (60, 150, 300, 600, 1500, 4000, 15_000),
            3: (30, 60, 120, 300, 600),
            4: (12, 24, 48, 100),
        }
        if settings.quick:
            sizes = {2: (60, 600, 1500), 3: (30, 60)}
        return [
            {"k": k, "n": n, "method": method}
            for k, several in sizes.items()
            for n in several
            for method in METHODS
        ]

    def measure(self, task, settings):
        counts = balanced(task["n"], task["k"])
        distance, probability = distances(task["method"], counts, 1.0, 1.0)
        return [{"mean_distance": float(distance @ probability)}]

    def figure(self, results):
        cases = results.groupby("k")
        figure, axes = figures.panels(cases.ngroups, columns=3, width=4, height=3.4)
        for axis, (k, part) in zip(axes, cases, strict=True):
            draw_methods(axis, part, "n", "mean_distance")
            axis.set(title=f"k = {k}, ε = 1", xlabel="n", xscale="log")
            axis.minorticks_off()
            axis.set_xticks(part["n"].unique(), part["n"].unique(), fontsize=8)
        axes[0].set(ylabel="mean Hellinger distance", yscale="log")
        figures.legend_below(figure, axes, columns=4)
        return figure

    def table(self, results):
        return _by_method(results, ["k", "n"], "mean_distance").rename_axis(columns=None)

    def claims(self, results):
        found = _by_method(results, ["k", "n"], "mean_distance")
        two = found.xs(2)
        small, large = two[two.index < 300], two[two.index > 300]
        most = two.index.max()
        ratio = two[SMOOTH] / two[ILAP]
        more = found[found.index.get_level_values("k") > 2]
        more_ratio = more[SMOOTH] / more[LAP]
        falls = (found[[LAP, ILAP, SMOOTH]].groupby("k").diff().dropna() < 0).all(axis=1)
        rise = more[SMOOTH].groupby("k").agg(["first", "max"])
        gain = found[EXACT] / found[SMOOTH]
        return [
            Claim(
                "C, figure 5",
                "With two categories the mean errors of EHDS, lapMech and ilapMech fall as data "
                "grow.",
                bool(falls[2].all()),
                f"from {two[SMOOTH].iloc[0]:.3f} to {two[SMOOTH].iloc[-1]:.4f} (EHDS)",
            ),
            Claim(
                "C, figure 6",
                "With three and four categories these mean errors fall, too.",
                bool(falls.drop(index=2, level="k").all()),
                "that of EHDS first grows: "
                + ", ".join(
                    f"from {row['first']:.3f} to {row['max']:.3f} (k = {k})"
                    for k, row in rise.iterrows()
                ),
            ),
            Claim(
                "C, figure 5",
                "For n < 300 and two categories both Laplace mechanisms are better than EHDS.",
                bool((small[[LAP, ILAP]].max(axis=1) < small[SMOOTH]).all()),
                f"at n = {small.index[0]}: {small[LAP].iloc[0]:.4f} and {small[ILAP].iloc[0]:.4f} "
                f"against {small[SMOOTH].iloc[0]:.4f}",
            ),
            Claim(
                "C, figure 5",
                "For n > 300 and two categories EHDS is better than lapMech.",
                bool((large[SMOOTH] < large[LAP]).all()),
                f"at n = {most}: {two.loc[most, SMOOTH]:.4f} against {two.loc[most, LAP]:.4f}",
            ),
            Claim(
                "C, figure 5",
                "As n grows the error of EHDS approaches that of ilapMech (within 10%).",
                bool(ratio[most] < 1.1),
                f"{ratio.iloc[0]:.2f} times at n = {ratio.index[0]}, {ratio[most]:.2f} times at "
                f"n = {most}",
            ),
            Claim(
                "C, figure 6",
                "For three and four categories, too, EHDS becomes better than lapMech.",
                bool((more_ratio.groupby("k").last() < 1).all()),
                ", ".join(
                    f"{value:.2f} times lapMech's error at k = {k}, n = {n}"
                    for (k, n), value in more_ratio.groupby("k").tail(1).items()
                ),
            ),
            Claim(
                "skdirdp",
                "At the same ε, exact calibration reduces the error of EHDS.",
                bool((gain < 1).all()),
                f"to {gain.min():.2f} to {gain.max():.2f} of the paper's; at n = {most}, k = 2: "
                f"{two.loc[most, EXACT]:.4f}",
            ),
        ]


# Errors by prior -------------------------------------------------------------------


class PosteriorPriors(Experiment):
    name = "posterior-priors"
    title = "Posteriors: mean distance by prior"
    reproduces = "paper C, figure 6 (lower): counts (50, 50) and balanced priors"

    def tasks(self, settings):
        priors = (1.0, 100.0) if settings.quick else (0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0)
        return [
            {"prior": prior, "method": method}
            for prior in priors
            for method in (LAP, ILAP, SMOOTH, EXACT)
        ]

    def measure(self, task, settings):
        counts = np.array([50, 50])
        distance, probability = distances(task["method"], counts, task["prior"], 1.0)
        order = np.argsort(distance, kind="stable")
        cumulative = np.cumsum(probability[order])
        quartiles = distance[order][np.searchsorted(cumulative, (0.25, 0.5, 0.75))]
        return [
            {
                "mean_distance": float(distance @ probability),
                **dict(zip(("q25", "median", "q75"), quartiles.tolist(), strict=True)),
            }
        ]

    def figure(self, results):
        figure, axes = figures.panels(1, columns=1, width=6.4, height=4)
        for method, curve in results.groupby("method", sort=False):
            look = figures.style(method)
            axes[0].plot(curve["prior"], curve["mean_distance"], label=method, **look)
            axes[0].fill_between(
                curve["prior"], curve["q25"], curve["q75"], color=look["color"], alpha=0.15, lw=0
            )
        axes[0].set(
            xscale="log",
            xlabel="prior concentration of each category",
            ylabel="Hellinger distance: mean, quartiles",
        )
        figures.legend_below(figure, axes, columns=2)
        return figure

    def table(self, results):
        return _by_method(results, ["prior"], "mean_distance").rename_axis(columns=None)

    def claims(self, results):
        found = _by_method(results, ["prior"], "mean_distance")
        least, most = found.iloc[0], found.iloc[-1]
        over_lap, over_ilap = found[SMOOTH] / found[LAP], found[SMOOTH] / found[ILAP]
        small, large = found.index[0], found.index[-1]
        return [
            Claim(
                "C, figure 6",
                "With a weak prior both Laplace mechanisms are better than EHDS.",
                bool(max(least[LAP], least[ILAP]) < least[SMOOTH]),
                f"at prior {small:g}: {least[LAP]:.4f} and {least[ILAP]:.4f} against "
                f"{least[SMOOTH]:.4f}",
            ),
            Claim(
                "C, figure 6",
                "EHDS becomes better than lapMech as the prior grows.",
                bool(over_lap.iloc[-1] < 1),
                f"{over_lap.iloc[0]:.2f} times its error at prior {small:g}, "
                f"{over_lap.iloc[-1]:.2f} times at {large:g}",
            ),
            Claim(
                "C, section 8",
                "With small priors EHDS is better than lapMech but not than ilapMech.",
                bool(least[LAP] > least[SMOOTH] > least[ILAP]),
                f"at prior {small:g}: {over_lap.iloc[0]:.2f} times lapMech's error, "
                f"{over_ilap.iloc[0]:.2f} times ilapMech's",
            ),
            Claim(
                "C, section 8",
                "With large priors EHDS is comparable with ilapMech (within 10%).",
                bool(over_ilap.iloc[-1] < 1.1),
                f"{over_ilap.iloc[-1]:.2f} times its error at prior {large:g}: "
                f"{most[SMOOTH]:.4f} against {most[ILAP]:.4f}",
            ),
        ]
