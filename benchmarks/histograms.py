"""Histograms: the figures of "Differential Privacy of Dirichlet Posterior Sampling", and more.

    python -m benchmarks.histograms --out figures/         figures 1, 2 and 3, as PNG and CSV
    python -m benchmarks.histograms --quantiles --out …    how to read quantiles, measured
    python -m benchmarks.histograms --speed                against KBinsDiscretizer

The paper does not print the priors of Figure 1 (right), the budgets of Figure 2 nor the number
of categories of Figure 3; those used here are in the CSV files.
"""

import argparse
import csv
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import KBinsDiscretizer

from benchmarks.speed import alternate, report
from skdirdp import utility
from skdirdp._fine_grid import count_fine_bins, fine_grid
from skdirdp._released_histogram import ReleasedHistogram, unbiased_shares
from skdirdp.histogram import DirichletHistogramTransformer
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism
from skdirdp.mechanisms._papers import Sensitivity, tcdp_epsilon

INPUTS = 200
RHOS = (0.01, 0.1, 1.0)
DATA = Path(__file__).parents[2] / "shared" / "data"


# Figure 1 --------------------------------------------------------------------------


def rho_against_prior():
    """The actual rho of one pair, the worst of all pairs, and the paper's bound."""
    x = np.array([11.0, 8, 65, 25, 38, 0])
    y = np.array([11.0, 8, 65, 25, 38, 1])
    rows = []
    for alpha in np.linspace(1.2, 10, 45):
        mechanism = DirichletMechanism(1.0, float(alpha), adjacency="add_remove")
        rows.append(
            {
                "alpha": float(alpha),
                "actual": utility.dirichlet_renyi(x + alpha, y + alpha, 2.0) / 2,
                "worst case": mechanism.rdp(2.0) / 2,
                "bound (2)": utility.tcdp_rho(float(alpha), squared_sensitivity=1.0),
            }
        )
    return rows


def epsilon_against_delta():
    """The paper's (8) for three priors, and the exact epsilon of the same noise."""
    rows = []
    for alpha, delta in product((10.0, 30.0, 100.0), np.logspace(-10, -2, 17)):
        rows.append(
            {
                "alpha": alpha,
                "delta": float(delta),
                "paper (8)": tcdp_epsilon(1.0, alpha, float(delta), Sensitivity(2.0, 1.0)),
                "exact": DirichletMechanism(1.0, alpha).epsilon(float(delta)),
            }
        )
    return rows


# Figure 2 --------------------------------------------------------------------------


def linf_against_rows(seed=0):
    """Mean and deviation of max|error| of both mechanisms, as the paper sets them up.

    "gaussian" adds noise to p and leaves it so; "gaussian, mended" is the same noise on
    counts, turned into a distribution as the library does.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for d, rho, n in product((10, 100, 1000), RHOS, (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)):
        alpha = utility.tcdp_alpha(rho, gamma=1.0)
        counts = np.array([rng.multinomial(n, q) for q in rng.dirichlet(np.full(d, 5.0), INPUTS)])
        p = counts / n
        sigma = np.sqrt(1 / rho)
        errors = {
            "dirichlet": DirichletMechanism(1.0, alpha).draw(counts.astype(float), rng) - p,
            "gaussian": rng.normal(0, sigma / n, counts.shape),
            "gaussian, mended": GaussianMechanism(sigma).draw(counts.astype(float), rng) - p,
        }
        row = {"d": d, "rho": rho, "alpha": alpha, "N": n}
        for name, error in errors.items():
            largest = np.abs(error).max(axis=1)
            row |= {name: largest.mean(), f"{name} deviation": largest.std()}
        row["bound (13)"] = utility.linf_bound(n, d, alpha, 0.05)
        row["bound (16)"] = utility.gaussian_linf_bound(n, d, rho, 0.05)
        rows.append(row)
    return rows


# Figure 3 --------------------------------------------------------------------------


def kl_against_rows(d=10, seed=0):
    """KL divergence of the private posterior from the base one, by concentration of the data."""
    rng = np.random.default_rng(seed)
    rows = []
    for eta, rho, n in product((0.1, 1.0, 10.0), RHOS, (10, 30, 100, 300, 1000, 3000, 10_000)):
        alpha = utility.tcdp_alpha(rho, gamma=2.0)
        found = {"dirichlet": [], "gaussian": []}
        for q in rng.dirichlet(np.full(d, eta), INPUTS):
            x = rng.multinomial(n, q)
            noisy = np.maximum(x + rng.normal(0, np.sqrt(1 / rho), d), 0)
            found["dirichlet"].append(utility.dirichlet_kl(x + 1.0, x + alpha))
            found["gaussian"].append(utility.dirichlet_kl(x + 1.0, noisy + 1.0))
        row = {"eta": eta, "rho": rho, "alpha": alpha, "d": d, "N": n}
        for name, values in found.items():
            row |= {name: np.mean(values), f"{name} deviation": np.std(values)}
        rows.append(row)
    return rows


# Reading quantiles -----------------------------------------------------------------


def study_columns(data: Path):
    adult, credit = (pd.read_csv(data / f"{name}.csv.gz") for name in ("adult", "credit_card"))
    rng = np.random.default_rng(0)
    return {
        "capital-gain": (adult["capital-gain"], (0, 99_999)),
        "hours-per-week": (adult["hours-per-week"], (1, 99)),
        "BILL_AMT1": (credit["BILL_AMT1"], (-170_000, 965_000)),
        "BILL_AMT1, wide bounds": (credit["BILL_AMT1"], (-1_000_000, 10_000_000)),
        "age": (adult["age"], (0, 120)),
        "normal": (rng.normal(size=30_000), (-10, 10)),
        "uniform": (rng.random(30_000), (0, 1)),
    }


def badly_filled(x, edges):
    """Whether a bin holds less than 5% or more than 15% of the rows, and ties do not force it."""
    bins = np.searchsorted(edges[1:-1], x, side="right")
    shares = np.bincount(bins, minlength=len(edges) - 1) / len(x)
    values, counts = np.unique(x, return_counts=True)
    heavy = set(np.searchsorted(edges[1:-1], values[counts >= 0.1 * len(x)], side="right"))
    return any(
        not 0.05 <= share <= 0.15
        and k not in heavy
        and not (share < 0.05 and (k - 1 in heavy or k + 1 in heavy))
        for k, share in enumerate(shares)
    )


def tree_cdf(counts, n, releases, rng, branching=16):
    """The CDF from counts on every level of a tree, each released, made consistent."""
    levels = [counts]
    while len(levels[0]) > branching:
        levels.insert(0, levels[0].reshape(-1, branching).sum(axis=1))
    noisy, noise = [], []
    for level in levels:
        mechanism = DirichletMechanism.calibrate(
            epsilon=1.0,
            delta=1e-5,
            releases=releases * len(levels),
            n_samples=n,
            n_categories=len(level),
            min_smoothing=0.0,
        )
        noisy.append(unbiased_shares(mechanism.draw(level, rng), mechanism, n))
        noise.append(mechanism.alpha / mechanism.r**2)
    # Upwards: weigh each node against the sum of its children; downwards: share the rest.
    best, spread = [noisy[-1]], [noise[-1]]
    for level, own in zip(noisy[-2::-1], noise[-2::-1], strict=True):
        below = best[0].reshape(-1, branching).sum(axis=1)
        weight = branching * spread[0] / (own + branching * spread[0])
        best.insert(0, weight * level + (1 - weight) * below)
        spread.insert(0, weight * own)
    shares = best[0] + (1 - best[0].sum()) / len(best[0])
    for level in best[1:]:
        children = level.reshape(-1, branching)
        shares = (children + ((shares - children.sum(axis=1)) / branching)[:, None]).ravel()
    return shares


def reading_quantiles(data: Path, n=10_000, repeats=20, seed=0):
    rng = np.random.default_rng(seed)
    columns = study_columns(data)
    rows = []

    def measure(setting, read):
        for name, (values, bounds) in columns.items():
            errors, bad = [], 0
            for _ in range(repeats):
                x = rng.choice(np.asarray(values, dtype=float), n, replace=False)
                histogram = read(x, bounds)
                truth = np.searchsorted(np.sort(x), histogram.edges[1:-1]) / n
                errors.append(np.abs(histogram.cdf[1:-1] - truth).max())
                bad += badly_filled(x, histogram.edges[histogram.quantile_borders(10)])
            rows.append(
                {
                    **setting,
                    "column": name,
                    "largest CDF error": np.mean(errors),
                    "fits with badly filled bins": bad / repeats,
                }
            )

    def library(**parameters):
        def read(x, bounds):
            model = DirichletHistogramTransformer(bounds=bounds, **parameters)
            return model.fit(x[:, np.newaxis])._histograms[0]

        return read

    def raw(**parameters):
        def read(x, bounds):
            found = library(**parameters)(x, bounds)
            exact = DirichletMechanism(np.inf, np.inf)
            return ReleasedHistogram(found.edges, found.release, exact, n)

        return read

    def tree(size, scale):
        def read(x, bounds):
            grid = fine_grid(*bounds, size, scale)
            (counts,) = count_fine_bins(x[:, np.newaxis], [0], [grid])
            exact = DirichletMechanism(np.inf, np.inf)
            return ReleasedHistogram(grid.edges, tree_cdf(counts, n, 1, rng), exact, n)

        return read

    for size, scale in product((64, 128, 256, 512, 1024, 2048), ("linear", "mixed", "symlog")):
        setting = {"reading": "unbiased, isotonic", "fine bins": size, "scale": scale}
        measure({**setting, "mechanism": "dirichlet"}, library(n_fine_bins=size, fine_scale=scale))
    for size in (64, 512):
        setting = {"reading": "as released", "fine bins": size, "scale": "mixed"}
        measure({**setting, "mechanism": "dirichlet"}, raw(n_fine_bins=size))
    for mechanism in ("gaussian", "laplace"):
        setting = {"reading": "unbiased, isotonic", "fine bins": 512, "scale": "mixed"}
        measure({**setting, "mechanism": mechanism}, library(mechanism=mechanism))
    for size in (256, 4096):
        setting = {"reading": "tree of branching 16", "fine bins": size, "scale": "mixed"}
        measure({**setting, "mechanism": "dirichlet"}, tree(size, "mixed"))
    return rows


def print_quantiles(rows):
    frame = pd.DataFrame(rows)
    keys = ["reading", "mechanism", "scale", "fine bins"]
    table = frame.pivot_table(
        index=keys, columns="column", values="fits with badly filled bins", sort=False
    )
    table["mean CDF error"] = frame.groupby(keys, sort=False)["largest CDF error"].mean()
    with pd.option_context("display.width", 250, "display.max_columns", 20):
        print(table.round(4).to_string())


# Speed -----------------------------------------------------------------------------


def speed(repeats: int) -> None:
    X = np.random.default_rng(0).normal(size=(1_000_000, 20))
    ours = DirichletHistogramTransformer(10, encode="ordinal", bounds=(-10, 10))
    theirs = KBinsDiscretizer(
        10,
        encode="ordinal",
        strategy="quantile",
        subsample=None,
        quantile_method="averaged_inverted_cdf",
    )
    ours.fit(X[:1000])  # imports
    times = alternate(lambda: ours.fit(X), lambda: theirs.fit(X), repeats)
    report("histogram fit, 1 000 000 x 20", *times, "at least 2 times faster")
    times = alternate(lambda: ours.transform(X), lambda: theirs.transform(X), repeats)
    report("histogram transform, ordinal", *times, "at least equal")
    ours.set_params(encode="onehot").fit(X)
    theirs.set_params(encode="onehot").fit(X)
    times = alternate(lambda: ours.transform(X), lambda: theirs.transform(X), 1)
    report("histogram transform, onehot", *times, "at least equal")


# Drawing ---------------------------------------------------------------------------


def write(out: Path, name: str, rows) -> None:
    with open(out / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def draw_figure1(out, left, right, plt):
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    frame = pd.DataFrame(left)
    for name, style in (("actual", "-"), ("worst case", ":"), ("bound (2)", "--")):
        axes[0].plot(frame["alpha"], frame[name], style, label=name)
    axes[0].set(xlabel="alpha", ylabel="rho", yscale="log", title="rho at order 2")
    axes[0].legend()
    for colour, (alpha, part) in enumerate(pd.DataFrame(right).groupby("alpha")):
        for name, style in (("paper (8)", "-"), ("exact", "--")):
            label = f"alpha {alpha:g}, {name}"
            axes[1].plot(part[name], part["delta"], style, color=f"C{colour}", label=label)
    axes[1].set(xlabel="epsilon", ylabel="delta", yscale="log", title="(epsilon, delta)-DP")
    axes[1].legend()
    save(figure, out / "histogram_figure1.png", plt)


def draw_grid(out, name, rows, by, series, ylabel, plt):
    frame = pd.DataFrame(rows)
    values = sorted(frame[by].unique())
    figure, axes = plt.subplots(1, len(values), figsize=(4.6 * len(values), 4.4), sharey=False)
    for axis, value in zip(axes, values, strict=True):
        for colour, rho in enumerate(RHOS):
            part = frame[(frame[by] == value) & (frame["rho"] == rho)]
            for what, style in series:
                mean, spread = part[what], 2 * part[f"{what} deviation"]
                axis.plot(part["N"], mean, style, color=f"C{colour}", label=f"{what}, rho {rho:g}")
                low = np.maximum(mean - spread, mean / 10)
                axis.fill_between(part["N"], low, mean + spread, color=f"C{colour}", alpha=0.1)
        axis.set(xscale="log", yscale="log", xlabel="N", title=f"{by} = {value:g}")
    axes[0].set_ylabel(ylabel)
    axes[-1].legend(fontsize=7)
    save(figure, out / f"{name}.png", plt)


def save(figure, path, plt):
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def print_where_dirichlet_wins(rows) -> None:
    for row in rows:
        if row["d"] == 1000:
            print(
                f"d=1000 rho={row['rho']:<5g} N={row['N']:<6d} mean l-infinity error: "
                f"dirichlet {row['dirichlet']:.5f}, gaussian {row['gaussian']:.5f}, "
                f"gaussian mended {row['gaussian, mended']:.5f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for PNG and CSV files")
    parser.add_argument("--quantiles", action="store_true", help="compare readings of quantiles")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the UCI data sets")
    parser.add_argument("--speed", action="store_true", help="compare with KBinsDiscretizer")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.speed:
        speed(arguments.repeats)
        return
    if arguments.out is None:
        parser.error("--out is needed, the folder to write to")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.quantiles:
        rows = reading_quantiles(arguments.data)
        write(arguments.out, "histogram_quantiles", rows)
        print_quantiles(rows)
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    left, right = rho_against_prior(), epsilon_against_delta()
    write(arguments.out, "histogram_figure1_left", left)
    write(arguments.out, "histogram_figure1_right", right)
    draw_figure1(arguments.out, left, right, plt)
    rows = linf_against_rows()
    write(arguments.out, "histogram_figure2", rows)
    series = (("dirichlet", "-"), ("gaussian", "--"))
    draw_grid(arguments.out, "histogram_figure2", rows, "d", series, "l-infinity error", plt)
    print_where_dirichlet_wins(rows)
    rows = kl_against_rows()
    write(arguments.out, "histogram_figure3", rows)
    draw_grid(arguments.out, "histogram_figure3", rows, "eta", series, "KL divergence", plt)


if __name__ == "__main__":
    main()
