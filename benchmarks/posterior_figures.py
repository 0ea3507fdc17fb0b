"""Figures 3 to 7 of "Tailoring Differentially Private Bayesian Inference to Distance Between
Distributions", drawn from exact output distributions, with what exact calibration adds.

    python benchmarks/posterior_figures.py --out figures/

writes one PNG and one CSV per figure. Every number is an expectation over the exact
distribution of a mechanism's output, where the paper averages 1000 runs; where outputs are
too many to list (Laplace noise on more than two cells) it is an average over seeded draws.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from skdirdp._posterior_lattice import posterior_lattice
from skdirdp._posterior_mechanisms import (
    clamped_laplace_pmf,
    draw_laplace,
    exact_exponent,
    laplace_scale,
    log_weights,
    paper_exponent,
)
from skdirdp.hellinger import hellinger_distance

LAPLACE = ("lszhang", "lsdim", "lshist")
# name in the legend: mechanism, calibration, gamma
CURVES = {
    "LSZhang": ("lszhang", "paper"),
    "LSDim (lapMech)": ("lsdim", "paper"),
    "LSHist (ilapMech)": ("lshist", "paper"),
    "EHD": ("ehd", "paper"),
    "EHDL (not private)": ("ehdl", "paper"),
    "EHDS (expMech smooth)": ("ehds", "paper"),
    "EHD, exact": ("ehd", "exact"),
    "EHDS, exact": ("ehds", "exact"),
}

SMOOTH = ("EHDS (expMech smooth)", "EHDS, exact")


def balanced(n, k):
    counts = np.full(k, n // k)
    counts[k - n % k :] += 1 if n % k else 0
    return counts


def exponential_distribution(mechanism, calibration, counts, prior, epsilon):
    """Distances of all candidates from the true posterior, and their probabilities."""
    n = int(counts.sum())
    choose = exact_exponent if calibration == "exact" else paper_exponent
    scale = choose(mechanism, prior, n, epsilon, 1.0).scale
    lattice = posterior_lattice(prior, n)
    weights = np.exp(log_weights(mechanism, counts, lattice, scale, 1.0))
    return lattice.distances(counts), weights / weights.sum()


def laplace_distribution(mechanism, counts, prior, epsilon, draws, seed):
    n, k = int(counts.sum()), counts.size
    truth = np.array(prior) + counts
    if k == 2 and mechanism != "lszhang":
        pmf = clamped_laplace_pmf(int(counts[0]), n, laplace_scale(mechanism, k, epsilon))
        first = np.arange(n + 1)
        released = np.column_stack([first, n - first])
        return hellinger_distance(truth, np.array(prior) + released), pmf
    generator = np.random.default_rng(seed)
    released = np.array([draw_laplace(mechanism, counts, epsilon, generator) for _ in range(draws)])
    distance = hellinger_distance(truth, np.array(prior) + released)
    return distance, np.full(draws, 1 / draws)


def distribution(name, counts, prior, epsilon, draws=4000, seed=0):
    mechanism, calibration = CURVES[name]
    if mechanism in LAPLACE:
        return laplace_distribution(mechanism, counts, prior, epsilon, draws, seed)
    return exponential_distribution(mechanism, calibration, counts, prior, epsilon)


def by_distance(distance, probability):
    """The probability of each distance, candidates at the same one taken together."""
    order = np.argsort(distance)
    distance, probability = distance[order], probability[order]
    starts = np.flatnonzero(np.append(True, np.diff(distance) > 1e-7))
    return distance[starts], np.add.reduceat(probability, starts)


def probabilities_by_distance(epsilon):
    """Figures 3 (epsilon = 1) and 4 (epsilon = 5), in bins of distance."""
    rows = []
    edges = np.linspace(0, 1, 26)
    centres = (edges[1:] + edges[:-1]) / 2
    for k, n in ((2, 100), (3, 30), (4, 16)):
        counts, prior = balanced(n, k), (1.0,) * k
        for name in CURVES:
            distance, probability = distribution(name, counts, prior, epsilon)
            binned, _ = np.histogram(distance, edges, weights=probability)
            for d, p in zip(centres, binned, strict=True):
                if p > 0:
                    rows.append(
                        {"k": k, "n": n, "mechanism": name, "distance": d, "probability": p}
                    )
    return rows


def errors_by_size(panels):
    """Figures 5 and 6: the mean distance as the data grow, balanced, uniform prior."""
    rows = []
    for k, sizes in panels:
        for n in sizes:
            counts, prior = balanced(n, k), (1.0,) * k
            for name in CURVES:
                distance, probability = distribution(name, counts, prior, 1.0)
                rows.append(
                    {"k": k, "n": n, "mechanism": name, "mean distance": distance @ probability}
                )
    return rows


def errors_by_prior():
    """Figure 6, lower: (50, 50) under balanced priors; quartiles of the distance."""
    rows = []
    counts = np.array([50, 50])
    for value in (0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0):
        for name in (
            "LSDim (lapMech)",
            "LSHist (ilapMech)",
            "EHDS (expMech smooth)",
            "EHDS, exact",
        ):
            distance, probability = by_distance(*distribution(name, counts, (value, value), 1.0))
            cumulative = np.cumsum(probability)
            quartiles = [
                distance[min(np.searchsorted(cumulative, q), distance.size - 1)]
                for q in (0.25, 0.5, 0.75)
            ]
            rows.append(
                {
                    "prior": value,
                    "mechanism": name,
                    "mean distance": distance @ probability,
                    **dict(zip(("q25", "median", "q75"), quartiles, strict=True)),
                }
            )
    return rows


def realised_losses(sizes):
    """Figure 7: the largest log-ratio over all neighbours, at epsilon = 1."""
    rows = []
    for n in sizes:
        for name, (mechanism, calibration) in CURVES.items():
            if mechanism in LAPLACE:
                continue
            choose = exact_exponent if calibration == "exact" else paper_exponent
            exponent = choose(mechanism, (1.0, 1.0), n, 1.0, 1.0)
            rows.append(
                {"n": n, "mechanism": name, "loss": exponent.loss, "exponent": exponent.scale}
            )
    return rows


def write(out, name, rows):
    with open(out / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def draw(out, name, rows, x, y, panel=None, log=True):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = sorted({row[panel] for row in rows}) if panel else [None]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5 * len(panels), 4.5), squeeze=False, layout="constrained"
    )
    for axis, value in zip(axes[0], panels, strict=True):
        for curve in dict.fromkeys(row["mechanism"] for row in rows):
            points = [
                (row[x], row[y])
                for row in rows
                if row["mechanism"] == curve and (not panel or row[panel] == value)
            ]
            points = [point for point in points if point[1] is not None]
            style = "--" if "exact" in curve else "-"
            axis.plot(*zip(*points, strict=True), style, label=curve, linewidth=1.2)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        if log:
            axis.set_yscale("log")
        if panel:
            axis.set_title(f"{panel} = {value}")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(out / f"{name}.png", dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for PNG and CSV files")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, to try the script")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error")

    large = (60, 150, 300, 600) if arguments.quick else (60, 150, 300, 600, 1500, 4000, 15000)
    three = (30, 60) if arguments.quick else (30, 60, 120, 300, 600)
    four = (12, 24) if arguments.quick else (12, 24, 48, 100)
    figures = {
        "figure3": (probabilities_by_distance(1.0), "distance", "probability", "k"),
        "figure4": (probabilities_by_distance(5.0), "distance", "probability", "k"),
        "figure5": (errors_by_size([(2, large)]), "n", "mean distance", "k"),
        "figure6_size": (errors_by_size([(3, three), (4, four)]), "n", "mean distance", "k"),
        "figure6_prior": (errors_by_prior(), "prior", "mean distance", None),
        "figure7": (realised_losses((5, 10, 20, 60, 150, 300, 600)), "n", "loss", None),
    }
    for name, (rows, x, y, panel) in figures.items():
        write(arguments.out, name, rows)
        draw(arguments.out, name, rows, x, y, panel, log=name != "figure7")
    for row in figures["figure5"][0] + figures["figure6_size"][0]:
        print(f"k={row['k']} n={row['n']:6d} {row['mechanism']:24s} {row['mean distance']:.5f}")
    for row in figures["figure7"][0]:
        print(f"n={row['n']:4d} {row['mechanism']:24s} loss {row['loss']}")


if __name__ == "__main__":
    main()
