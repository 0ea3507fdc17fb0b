"""Private histograms: paper B's comparisons with the Gaussian mechanism, and quantiles."""

from collections.abc import Callable
from itertools import chain, combinations, product

import numpy as np
import pandas as pd

from skdirdp import utility
from skdirdp.histogram import DirichletHistogramTransformer
from skdirdp.histogram.histogram import ReleasedHistogram, count_fine_bins
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism
from skdirdp.postprocessing import NoisyTable, estimate_histogram
from skdirdp.schema import fine_grid, quantile_edges

from .. import data, figures
from ..experiment import Claim, Experiment, Settings, seeded

RHOS = (0.01, 0.1, 1.0)
DIRICHLET, GAUSSIAN, SMOOTHED = "Dirichlet, tCDP", "Gaussian, as drawn", "Gaussian, smoothed"


def _inputs(settings: Settings) -> int:
    return 40 if settings.quick else 200


def _means(results: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return results.pivot_table(index=keys, columns="method", values="mean")


def _draw_curves(axis, part: pd.DataFrame) -> None:
    for method, curve in part.groupby("method", sort=False):
        # At small N the curves coincide; the dashed one is drawn above.
        look = figures.style(method) | {"zorder": 3 if method == DIRICHLET else 2}
        axis.loglog(curve["n"], curve["mean"], label=method, **look)
        low = np.maximum(curve["mean"] - 2 * curve["deviation"], curve["mean"] / 10)
        high = curve["mean"] + 2 * curve["deviation"]
        axis.fill_between(curve["n"], low, high, color=look["color"], alpha=0.15, lw=0)
    axis.minorticks_off()


# The largest error of a bin --------------------------------------------------------


class HistogramError(Experiment):
    name = "histogram-error"
    title = "Histograms: the largest error of a bin"
    reproduces = "paper B, figure 2, and Gaussian noise turned into a distribution"

    def tasks(self, settings):
        sizes = (10, 1000) if settings.quick else (10, 100, 1000)
        rows = (10, 1000) if settings.quick else (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
        return [{"d": d, "rho": rho, "n": n} for d, rho, n in product(sizes, RHOS, rows)]

    def measure(self, task, settings):
        d, rho, n = task.values()
        rng = seeded(self.name, *task.values())
        shares = rng.dirichlet(np.full(d, 5.0), _inputs(settings))
        counts = np.array([rng.multinomial(n, q) for q in shares]).astype(float)
        dirichlet = DirichletMechanism(1.0, utility.tcdp_alpha(rho, gamma=1.0))
        gaussian = GaussianMechanism(np.sqrt(1 / rho))
        releases = {
            DIRICHLET: (dirichlet, dirichlet.draw(counts, rng)),
            GAUSSIAN: (gaussian, (counts + rng.normal(0, gaussian.sigma, counts.shape)) / n),
            SMOOTHED: (gaussian, gaussian.draw(counts, rng)),
        }
        bounds = {
            DIRICHLET: utility.linf_bound(n, d, dirichlet.alpha, 0.05),
            GAUSSIAN: utility.gaussian_linf_bound(n, d, rho, 0.05),
        }
        rows = []
        for method, (mechanism, released) in releases.items():
            largest = np.abs(released - counts / n).max(axis=1)
            rows.append(
                {
                    "method": method,
                    "mean": largest.mean(),
                    "deviation": largest.std(),
                    "bound": bounds.get(method, np.nan),
                    "exceeded": np.mean(largest > bounds.get(method, np.inf)),
                    "epsilon": mechanism.epsilon(1e-5),
                }
            )
        return rows

    def figure(self, results):
        sizes = results["d"].unique()
        figure, axes = figures.panels(3 * len(sizes), columns=3, width=3.8, height=2.6)
        for axis, (d, rho) in zip(axes, product(sizes, RHOS), strict=True):
            _draw_curves(axis, results[(results["d"] == d) & (results["rho"] == rho)])
            axis.set(title=f"d = {d}, ρ = {rho:g}")
            if d == sizes[-1]:
                axis.set_xlabel("N")
            if rho == RHOS[0]:
                axis.set_ylabel("ℓ∞ error")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results):
        largest = results[(results["d"] == 1000) & results["n"].isin((10, 300, 1000, 30_000))]
        return _means(largest, ["d", "rho", "n"]).rename_axis(columns=None)

    def remarks(self, results):
        epsilons = results.groupby(["rho", "method"])["epsilon"].first()
        spent = "; ".join(
            f"{epsilons[rho, DIRICHLET]:.2g} and {epsilons[rho, GAUSSIAN]:.2g} at ρ = {rho:g}"
            for rho in RHOS
        )
        return (
            "Means over 200 inputs. The Dirichlet's ρ holds up to order 2 (γ = 1), the Gaussian's "
            "at every order. At δ = 1e-5 the exact ε of one and the other are "
            f"{spent}. “As drawn” is the paper's: noise on the shares, negative ones included. "
            "Turned into a distribution it has the Dirichlet's error where N is small: the "
            "advantage is that of any release that stays on the simplex."
        )

    def claims(self, results):
        means = _means(results, ["d", "rho", "n"])
        ratio = means[DIRICHLET] / means[GAUSSIAN]
        sparse = ratio.xs(1000).loc[lambda x: x.index.get_level_values("n") <= 1000]
        smallest = sparse.xs(10, level="n")
        worst = sparse.idxmax()
        n = ratio.index.get_level_values("n").max()
        large = ratio.xs(n, level="n")
        smoothed = (means[DIRICHLET] / means[SMOOTHED]).xs(1000).xs(10, level="n")
        bounded = results[results["bound"].notna()]
        return [
            Claim(
                "B, section 4.2",
                "The Dirichlet release has the smaller ℓ∞ error when N ≤ d = 1000.",
                bool((sparse < 1).all()),
                f"at ρ = {worst[0]:g}, N = {worst[1]}: {means.loc[(1000, *worst), DIRICHLET]:.4f} "
                f"against {means.loc[(1000, *worst), GAUSSIAN]:.4f}; smaller in "
                f"{(sparse < 1).sum()} of {len(sparse)} cases",
            ),
            Claim(
                "B, figure 2",
                "The Dirichlet release has the smaller ℓ∞ error for small N when d = 1000.",
                bool((smallest < 1).all()),
                f"{smallest.min():.2g} to {smallest.max():.2g} of the Gaussian's at N = 10; "
                f"{smoothed.min():.2f} to {smoothed.max():.2f} once that is turned into a "
                "distribution",
            ),
            Claim(
                "B, section 4.2",
                "Beyond sparse histograms the Gaussian mechanism needs fewer records.",
                bool((large > 1).all()),
                f"at N = {n} the Dirichlet's error is {large.min():.2g} to {large.max():.2g} "
                "times the Gaussian's",
            ),
            Claim(
                "B, (13) and (16)",
                "The bounds on the ℓ∞ error hold in 95% of releases.",
                bool(bounded["exceeded"].max() <= 0.05),
                f"exceeded in at most {bounded['exceeded'].max():.1%} of releases; on average "
                f"{(bounded['bound'] / bounded['mean']).mean():.1f} times the mean error",
            ),
        ]


# Posteriors of counts --------------------------------------------------------------


class HistogramPosterior(Experiment):
    name = "histogram-posterior"
    title = "Histograms: the KL divergence of private posteriors"
    reproduces = "paper B, figure 3 (d = 10, which the paper does not print)"

    ETAS = (0.1, 1.0, 10.0)
    D = 10

    def tasks(self, settings):
        rows = (10, 1000) if settings.quick else (10, 30, 100, 300, 1000, 3000, 10_000)
        return [{"eta": eta, "rho": rho, "n": n} for eta, rho, n in product(self.ETAS, RHOS, rows)]

    def measure(self, task, settings):
        eta, rho, n = task.values()
        rng = seeded(self.name, *task.values())
        alpha = utility.tcdp_alpha(rho, gamma=2.0)
        found: dict[str, list[float]] = {DIRICHLET: [], "Gaussian, clipped": []}
        for q in rng.dirichlet(np.full(self.D, eta), _inputs(settings)):
            x = rng.multinomial(n, q)
            noisy = np.maximum(x + rng.normal(0, np.sqrt(1 / rho), self.D), 0)
            found[DIRICHLET].append(utility.dirichlet_kl(x + 1.0, x + alpha))
            found["Gaussian, clipped"].append(utility.dirichlet_kl(x + 1.0, noisy + 1.0))
        return [
            {"alpha": alpha, "method": method, "mean": np.mean(kl), "deviation": np.std(kl)}
            for method, kl in found.items()
        ]

    def figure(self, results):
        figure, axes = figures.panels(9, columns=3, width=3.8, height=2.6)
        for axis, (rho, eta) in zip(axes, product(RHOS, self.ETAS), strict=True):
            _draw_curves(axis, results[(results["eta"] == eta) & (results["rho"] == rho)])
            axis.set(title=f"ρ = {rho:g}, η = {eta:g}")
            if rho == RHOS[-1]:
                axis.set_xlabel("N")
            if eta == self.ETAS[0]:
                axis.set_ylabel("KL divergence")
        figures.legend_below(figure, axes)
        return figure

    def table(self, results):
        shown = results[results["n"].isin((10, 1000, 10_000))]
        table = _means(shown, ["eta", "rho", "n"]).rename_axis(columns=None)
        return table.assign(**{"Dirichlet / Gaussian": table[DIRICHLET] / table.iloc[:, 1]})

    def claims(self, results):
        means = _means(results, ["eta", "rho", "n"])
        ratio = means[DIRICHLET] / means["Gaussian, clipped"]
        at = ratio.index.get_level_values
        least, most = at("n").min(), at("n").max()
        fall = means.xs(least, level="n") / means.xs(most, level="n")
        by = {method: fall[method].unstack("rho") for method in fall}
        faster = all(
            (table.diff(axis=axis).dropna(how="all", axis=axis) > 0).all(axis=None)
            for table in by.values()
            for axis in (0, 1)
        )
        middle = ratio.groupby("eta").median()
        return [
            Claim(
                "B, figure 3",
                "The KL divergence falls faster with N where ρ is larger and where η is larger.",
                bool(faster),
                f"from N = {least} to {most} the Dirichlet's falls by a factor of "
                f"{by[DIRICHLET].iloc[0, 0]:.3g} (η = 0.1, ρ = 0.01), "
                f"{by[DIRICHLET].iloc[0, -1]:.3g} (η = 0.1, ρ = 1), "
                f"{by[DIRICHLET].iloc[-1, 0]:.3g} (η = 10, ρ = 0.01) and "
                f"{by[DIRICHLET].iloc[-1, -1]:.4g} (η = 10, ρ = 1); below 1 it grows",
            ),
            Claim(
                "B, figure 3",
                "The Dirichlet mechanism is almost always inferior to the Gaussian one.",
                bool((ratio > 1).mean() >= 0.9),
                f"in {(ratio > 1).sum()} of {len(ratio)} cases; by a factor of "
                f"{ratio.max():.0f} at most, and ahead by {1 / ratio.min():.2g} at most",
            ),
            Claim(
                "B, figure 3",
                "The two mechanisms are closer where the counts are more even.",
                bool((middle.diff().iloc[1:] < 0).all()),
                "median ratio "
                + ", ".join(f"{value:.2g} (η = {eta:g})" for eta, value in middle.items()),
            ),
        ]


# Quantiles ------------------------------------------------------------------------------

N_ROWS = 10_000
NOISY, CELLS = "noisy counts, isotonic", "noisy counts, cell by cell"
UNBIASED, RELEASED, TREE = "unbiased, isotonic", "as released", "tree, branching 16"
#: Source of each column, and its public range.
COLUMNS: dict[str, tuple[str, str, tuple[float, float]]] = {
    "capital-gain": ("adult", "capital-gain", (0, 99_999)),
    "hours-per-week": ("adult", "hours-per-week", (1, 99)),
    "age": ("adult", "age", (0, 120)),
    "BILL_AMT1": ("credit_card", "BILL_AMT1", (-170_000, 965_000)),
    "BILL_AMT1, wide bounds": ("credit_card", "BILL_AMT1", (-1_000_000, 10_000_000)),
    "normal": ("synthetic", "normal", (-10, 10)),
    "uniform": ("synthetic", "random", (0, 1)),
}

Estimator = Callable[[np.ndarray, tuple[float, float], np.random.Generator], ReleasedHistogram]


class HistogramQuantiles(Experiment):
    name = "histogram-quantiles"
    title = "Histograms: estimates of quantiles from a release"
    reproduces = "the choice behind DirichletHistogramTransformer's bins, measured"

    def tasks(self, settings):
        columns = ("normal", "uniform") if settings.quick else tuple(COLUMNS)
        return [
            {"estimate": estimate, "mechanism": mechanism, "scale": scale, "fine_bins": size}
            | {"column": column}
            for estimate, mechanism, scale, size in _estimates(settings)
            for column in columns
        ]

    def measure(self, task, settings):
        *_, column = task.values()
        rng = seeded(self.name, *task.values())
        values, bounds = _column(column, settings), COLUMNS[column][2]
        read = _reader(task)
        errors, bad = [], []
        for _ in range(3 if settings.quick else 20):
            x = rng.choice(values, N_ROWS, replace=False)
            histogram = read(x, bounds, rng)
            truth = np.searchsorted(np.sort(x), histogram.edges[1:-1]) / N_ROWS
            errors.append(np.abs(histogram.cdf[1:-1] - truth).max())
            bad.append(_badly_filled(x, histogram.edges[quantile_edges(histogram.cdf, 10)]))
        return [{"cdf_error": np.mean(errors), "bad": np.mean(bad)}]

    def figure(self, results):
        figure, axes = figures.panels(2, columns=2, width=5.4, height=3.8)
        found = results.groupby(["estimate", "mechanism", "scale", "fine_bins"], sort=False)
        means = found[["cdf_error", "bad"]].mean().reset_index()
        for (estimate, mechanism, scale), part in means.groupby(
            ["estimate", "mechanism", "scale"], sort=False
        ):
            label = f"{estimate}, {mechanism}, {scale}"
            look = {"marker": _MARKERS[scale], "color": _ESTIMATE_COLOURS[estimate, mechanism]}
            for axis, value in zip(axes, ("cdf_error", "bad"), strict=True):
                axis.plot(
                    part["fine_bins"], part[value], label=label, **look, linestyle=_DASHES[scale]
                )
        for axis in axes:
            axis.set_xscale("log", base=2)
            axis.set_xlabel("fine bins")
        axes[0].set(ylabel="largest error of the CDF, mean", yscale="log")
        axes[1].set_ylabel("fits with a badly filled bin")
        figures.legend_below(figure, axes, columns=2)
        return figure

    def table(self, results):
        keys = ["estimate", "mechanism", "scale", "fine_bins"]
        table = results.pivot_table(index=keys, columns="column", values="bad", sort=False)
        table["CDF error"] = results.groupby(keys, sort=False)["cdf_error"].mean()
        return table.rename_axis(columns=None)

    def remarks(self, results):
        return (
            f"ε = 1, δ = 1e-5, {N_ROWS} rows, one column, ten bins, 20 fits each. In a bad fit "
            "some bin holds less than 5% or more than 15% of the rows although no tie (a value of "
            "10% of the rows or more) forces it. By default quantiles are estimated from noisy "
            "counts in 512 fine bins on the mixed scale; the unbiased estimate is "
            "`postprocess=False`. Cell by cell, each count is shrunk towards an equal share, as "
            "for categories."
        )

    def claims(self, results):
        keys = ["estimate", "mechanism", "scale", "fine_bins"]
        bad = results.groupby(keys)["bad"]
        error = results.groupby(keys)["cdf_error"].mean()
        default, plain, cells, raw = (
            (estimate, "dirichlet", "mixed", 512) for estimate in (NOISY, UNBIASED, CELLS, RELEASED)
        )
        noise = _calibrated(512)
        bound = utility.cdf_bound(N_ROWS, 512, noise.alpha, beta=0.05, r=noise.r)
        return [
            Claim(
                "skdirdp",
                "At (1, 1e-5)-DP and 10 000 rows the default bins are well filled.",
                bool(bad.max()[default] == 0),
                f"{bad.mean()[default]:.1%} of fits are bad; {bad.mean()[raw]:.0%} without "
                "unbiased estimates",
            ),
            Claim(
                "skdirdp",
                "The error of the CDF is within the bound that is known in advance.",
                bool(error[plain] <= bound),
                f"unbiased estimate: largest error {error[plain]:.3f} on average, the "
                f"95% bound is {bound:.3f}",
            ),
            Claim(
                "skdirdp",
                "The default estimate has a smaller error than the unbiased one.",
                bool(error[default] < error[plain]),
                f"largest error of the CDF {error[default]:.4f} on average, {error[plain]:.4f} by "
                f"the unbiased estimate, {error[cells]:.4f} cell by cell",
            ),
        ]


_MARKERS = {"linear": "v", "mixed": "o", "symlog": "^"}
_DASHES = {"linear": ":", "mixed": "-", "symlog": "--"}
_ESTIMATE_COLOURS = {
    (NOISY, "dirichlet"): "#00838f",
    (NOISY, "gaussian"): "#e08a3c",
    (NOISY, "laplace"): "#8bc34a",
    (CELLS, "dirichlet"): "#ad1457",
    (CELLS, "laplace"): "#f06292",
    (UNBIASED, "dirichlet"): "#0b61a4",
    (UNBIASED, "gaussian"): "#c1440e",
    (UNBIASED, "laplace"): "#2e7d32",
    (RELEASED, "dirichlet"): "0.5",
    (TREE, "dirichlet"): "#7b1fa2",
}


def _estimates(settings: Settings) -> list[tuple[str, str, str, int]]:
    """Return estimates of quantiles, with mechanisms, scales and numbers of fine bins."""
    if settings.quick:
        return [
            (estimate, "dirichlet", "mixed", 512) for estimate in (NOISY, CELLS, UNBIASED, RELEASED)
        ]
    grids = product(("linear", "mixed", "symlog"), (64, 128, 256, 512, 1024, 2048))
    return [
        *((UNBIASED, "dirichlet", scale, size) for scale, size in grids),
        *((NOISY, "dirichlet", "mixed", size) for size in (64, 128, 256, 512, 1024, 2048)),
        *((NOISY, mechanism, "mixed", 512) for mechanism in ("gaussian", "laplace")),
        *((CELLS, mechanism, "mixed", 512) for mechanism in ("dirichlet", "laplace")),
        *((RELEASED, "dirichlet", "mixed", size) for size in (64, 512)),
        *((UNBIASED, mechanism, "mixed", 512) for mechanism in ("gaussian", "laplace")),
        *((TREE, "dirichlet", "mixed", size) for size in (256, 4096)),
    ]


def _column(name: str, settings: Settings) -> np.ndarray:
    source, column, _ = COLUMNS[name]
    if source == "synthetic":
        return getattr(seeded(name), column)(size=30_000)
    return data.load(source, settings.data)[column].to_numpy(dtype=float)


def _reader(task) -> Estimator:
    if task["estimate"] == TREE:
        return lambda x, bounds, rng: _read_tree(x, bounds, task["fine_bins"], task["scale"], rng)

    def read(x, bounds, rng):
        model = DirichletHistogramTransformer(
            bounds=bounds,
            n_fine_bins=task["fine_bins"],
            fine_scale=task["scale"],
            mechanism=task["mechanism"],
            postprocess=task["estimate"] in (NOISY, CELLS),
            random_state=rng,
        )
        found = model.fit(x[:, np.newaxis])._histograms_[0]
        if task["estimate"] == RELEASED:
            return _as_it_is(found.edges, found.release)
        if task["estimate"] == CELLS:
            noisy = NoisyTable(found.release, found.mechanism.noise, ("bin",))
            return _as_it_is(found.edges, estimate_histogram(noisy, N_ROWS))
        return found

    return read


def _as_it_is(edges: np.ndarray, shares: np.ndarray) -> ReleasedHistogram:
    """Shares as if they had no bias."""
    return ReleasedHistogram(edges, shares, DirichletMechanism(np.inf, np.inf), N_ROWS)


def _read_tree(x, bounds, size: int, scale: str, rng) -> ReleasedHistogram:
    grid = fine_grid(*bounds, size, scale)
    (counts,) = count_fine_bins(x[:, np.newaxis], [0], [grid])
    return _as_it_is(grid.edges, _tree_shares(counts, rng))


def _tree_shares(counts: np.ndarray, rng: np.random.Generator, branching: int = 16) -> np.ndarray:
    """Shares of the leaves, from counts on every level of a tree, released and made consistent."""
    levels = [counts]
    while len(levels[0]) > branching:
        levels.insert(0, levels[0].reshape(-1, branching).sum(axis=1))
    noisy, noise = [], []
    for level in levels:
        mechanism = _calibrated(len(level), releases=len(levels))
        noisy.append(mechanism.unbiased(mechanism.draw(level, rng), N_ROWS))
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


def _calibrated(n_categories: int, releases: int = 1) -> DirichletMechanism:
    return DirichletMechanism.calibrate(
        epsilon=1.0,
        delta=1e-5,
        releases=releases,
        n_samples=N_ROWS,
        n_categories=n_categories,
        min_smoothing=0.0,
    )


def _badly_filled(x: np.ndarray, edges: np.ndarray) -> bool:
    """Whether a bin holds less than 5% or more than 15% of the rows, and ties do not force it.

    A value with 10% of the rows or more fills a bin by itself, and leaves edges over, which
    may divide other bins: so runs of bins count as one where that helps.
    """
    bins = np.searchsorted(edges[1:-1], x, side="right")
    shares = np.bincount(bins, minlength=len(edges) - 1) / len(x)
    values, counts = np.unique(x, return_counts=True)
    heavy = np.zeros(len(shares), dtype=bool)
    heavy[np.searchsorted(edges[1:-1], values[counts >= 0.1 * len(x)], side="right")] = True
    inner = range(1, len(shares))
    choices = chain.from_iterable(combinations(inner, n) for n in range(len(shares), -1, -1))
    return not any(_are_even(shares, heavy, np.array([0, *starts])) for starts in choices)


def _are_even(shares: np.ndarray, heavy: np.ndarray, starts: np.ndarray) -> bool:
    """Return whether bins are evenly filled, except where ties prevent it."""
    shares, heavy = np.add.reduceat(shares, starts), np.logical_or.reduceat(heavy, starts)
    padded = np.concatenate([[False], heavy, [False]])
    beside = padded[:-2] | padded[2:]
    even = (shares >= 0.05) & (shares <= 0.15)
    return bool(np.all(even | heavy | (beside & (shares < 0.05))))
