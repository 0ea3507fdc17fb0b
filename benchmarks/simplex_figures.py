"""Figures 1 and 2 of "The Dirichlet Mechanism for Differential Privacy on the Unit Simplex".

    python benchmarks/simplex_figures.py --out figures/

writes one PNG and one CSV per figure, with the exact claim of the same noise beside the
paper's. The paper does not print the limits of Figure 1 nor the vectors of Figure 2;
those used here are in the CSV files.
"""

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from skdirdp.exceptions import PrivacyLeakWarning
from skdirdp.mechanisms import SimplexMechanism

INSTANCES = ((0.1, 0.1, 15.0), (0.1, 0.1, 30.0), (0.2, 0.2, 30.0))
RUNS = 1000


def epsilon_against_delta():
    """Figure 1: Theorem 1, its approximation by Lemma 5, and the exact claim; |W| = 3, b = 0.1."""
    rows = []
    for eta, eta_bar, k in INSTANCES:
        mechanism = SimplexMechanism(k, (0, 1, 2), eta, eta_bar, b=0.1)
        for delta in np.linspace(0.005, 0.1, 20):
            rows.append(
                {
                    "eta": eta,
                    "eta_bar": eta_bar,
                    "k": k,
                    "delta": float(delta),
                    "gamma": mechanism.best_gamma(delta),
                    **mechanism.claims(delta),
                }
            )
    return rows


def collections(seed=0):
    """100 opinions, and the same with one of them moved by b = 1 between protected entries."""
    generator = np.random.default_rng(seed)
    P = 0.06 + 0.82 * generator.dirichlet(np.ones(3) * 2, 100)
    P[0] = (0.7, 0.15, 0.15)
    Q = P.copy()
    Q[0] = (0.2, 0.65, 0.15)
    return P, Q


def outputs_for_neighbours(seed=1):
    """Figure 2: outputs for neighbouring collections at k = 24 and k = 10."""
    generator = np.random.default_rng(seed)
    rows = []
    for k in (24.0, 10.0):
        mechanism = SimplexMechanism(k, (0, 1), 0.05, 0.05, b=1.0, n_vectors=100)
        for name, vectors in zip("PQ", collections(), strict=True):
            for _ in range(RUNS):
                y = mechanism.release_mean(vectors, generator)
                rows.append({"k": k, "input": name, "y1": y[0], "y2": y[1], "y3": y[2]})
    return rows


def write(out, name, rows):
    with open(out / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def draw_figure1(out, rows, plt):
    figure, axes = plt.subplots(1, len(INSTANCES), figsize=(4.5 * len(INSTANCES), 3.8))
    for axis, (eta, eta_bar, k) in zip(axes, INSTANCES, strict=True):
        chosen = [
            row for row in rows if (row["eta"], row["eta_bar"], row["k"]) == (eta, eta_bar, k)
        ]
        for claim, style in (("paper", "-"), ("lemma5", ":"), ("exact", "--")):
            axis.plot([r["delta"] for r in chosen], [r[claim] for r in chosen], style, label=claim)
        axis.set(xlabel="delta", ylabel="epsilon", title=f"eta {eta}, eta_bar {eta_bar}, k {k:g}")
    axes[-1].legend()
    save(figure, out / "simplex_figure1.png", plt)


def draw_figure2(out, rows, plt):
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
    for axis, k in zip(axes, (24.0, 10.0), strict=True):
        for name, colour in (("P", "tab:red"), ("Q", "tab:blue")):
            points = np.array(
                [[r["y1"], r["y2"]] for r in rows if r["k"] == k and r["input"] == name]
            )
            axis.scatter(*points.T, s=4, alpha=0.5, color=colour, label=name)
        axis.plot([0, 1, 0, 0], [0, 0, 1, 0], "k-", linewidth=0.8)
        axis.set(xlabel="first entry", ylabel="second entry", title=f"k = {k:g}")
    axes[-1].legend()
    save(figure, out / "simplex_figure2.png", plt)


def save(figure, path, plt):
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for PNG and CSV files")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Seeded on purpose: a figure must be reproducible, and the vectors are made up.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = epsilon_against_delta()
    write(arguments.out, "simplex_figure1", rows)
    draw_figure1(arguments.out, rows, plt)
    rows = outputs_for_neighbours()
    write(arguments.out, "simplex_figure2", rows)
    draw_figure2(arguments.out, rows, plt)

    for k in (24.0, 10.0):
        mechanism = SimplexMechanism(k, (0, 1), 0.05, 0.05, b=1.0, n_vectors=100)
        claims = {"exact": mechanism.epsilon(0.05)} if k == 10 else mechanism.claims(0.05)
        print(f"k={k:g} epsilon at delta=0.05:", {n: round(v, 4) for n, v in claims.items()})
        for name, vectors in zip("PQ", collections(), strict=True):
            y = np.array(
                [[r["y1"], r["y2"], r["y3"]] for r in rows if r["k"] == k and r["input"] == name]
            )
            mean = vectors.mean(axis=0)
            theory = mechanism.variance(mean)
            print(
                f"  {name}: mean {mean.round(4)}, of the outputs {y.mean(0).round(4)}; "
                f"variance {theory.round(5)}, of the outputs {y.var(0).round(5)}"
            )


if __name__ == "__main__":
    main()
