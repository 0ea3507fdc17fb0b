"""How time and memory grow with the number of records, features, categories and classes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdirdp import DirichletNB, PrivateBayesNetMLE

from .. import figures, workloads
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import allocated, alternate, processor_seconds

#: Default sizes; one grows at a time.
BASE = {"records": 50_000, "features": 16, "categories": 10, "classes": 4}
GROWING = {
    "records": (1000, 10_000, 100_000, 300_000, 1_000_000),
    "features": (4, 16, 64, 128, 256),
    "categories": (4, 16, 64, 128, 256),
    "classes": (2, 8, 32, 64, 128),
}
QUICK_BASE = {"records": 2000, "features": 4, "categories": 10, "classes": 4}
QUICK_GROWING = {"records": (1000, 4000), "categories": (8, 32)}
# Slopes are those of the largest sizes; below, fixed costs hide how time grows.
_SLOPE_POINTS = 3

#: A model, and the timed call.
Prepared = tuple[Any, Callable[[], Any]]


def _categorical(size: dict[str, int], ours: bool, what: str) -> Prepared:
    X, y = workloads.categories(*size.values())
    model = (
        workloads.private_categorical(size["categories"], size["classes"])
        if ours
        else workloads.plain_categorical(size["categories"])
    )
    if what == "fit":
        return model, partial(model.fit, X, y)
    return model, partial(model.fit(X, y).predict, X)


def _multinomial(size: dict[str, int], ours: bool) -> Prepared:
    X, y = workloads.categories(*size.values())
    bounds = {"max_count": size["categories"], "max_total": size["features"] * size["categories"]}
    model = (
        DirichletNB(classes=range(size["classes"]), **bounds)
        if ours
        else workloads.plain_multinomial()
    )
    return model, partial(model.fit, X.astype(float), y)


def _histogram(size: dict[str, int]) -> Prepared:
    model = workloads.private_bins()
    return model, partial(model.fit, workloads.numbers(size["records"], size["features"]))


def _network(size: dict[str, int]) -> Prepared:
    parents, table = workloads.chain(size["records"], size["features"], size["categories"])
    model = PrivateBayesNetMLE(
        parents, states={name: list(range(size["categories"])) for name in parents}
    )
    return model, partial(model.fit, table)


_NO_CATEGORIES = ("records", "features", "classes")
_NO_CLASSES = ("records", "features", "categories")
#: Timed calls: preparation, and the sizes that they depend on.
METHODS: dict[str, tuple[Callable[[dict[str, int]], Prepared], tuple[str, ...]]] = {
    "DirichletCategoricalNB.fit": (partial(_categorical, ours=True, what="fit"), tuple(BASE)),
    "CategoricalNB.fit": (partial(_categorical, ours=False, what="fit"), tuple(BASE)),
    "DirichletCategoricalNB.predict": (
        partial(_categorical, ours=True, what="predict"),
        tuple(BASE),
    ),
    "CategoricalNB.predict": (partial(_categorical, ours=False, what="predict"), tuple(BASE)),
    "DirichletNB.fit": (partial(_multinomial, ours=True), _NO_CATEGORIES),
    "MultinomialNB.fit": (partial(_multinomial, ours=False), _NO_CATEGORIES),
    "DirichletHistogramTransformer.fit": (_histogram, ("records", "features")),
    "PrivateBayesNetMLE.fit": (_network, _NO_CLASSES),
}
_LOOKS = {
    "DirichletCategoricalNB.fit": {"color": "#0b61a4", "marker": "o"},
    "CategoricalNB.fit": {"color": "#0b61a4", "marker": "o", "linestyle": ":", "mfc": "white"},
    "DirichletCategoricalNB.predict": {"color": "#2e7d32", "marker": "^"},
    "CategoricalNB.predict": {"color": "#2e7d32", "marker": "^", "linestyle": ":", "mfc": "white"},
    "DirichletNB.fit": {"color": "#c1440e", "marker": "s"},
    "MultinomialNB.fit": {"color": "#c1440e", "marker": "s", "linestyle": ":", "mfc": "white"},
    "DirichletHistogramTransformer.fit": {"color": "#7b1fa2", "marker": "D"},
    "PrivateBayesNetMLE.fit": {"color": "black", "marker": "v"},
}


def released_cells(model: Any) -> float:
    """How many probabilities a fitted private model has released."""
    if not hasattr(model, "privacy_"):
        return np.nan
    if hasattr(model, "probabilities_"):
        tables = model.probabilities_.values()
    elif hasattr(model, "release_"):
        tables = model.release_
    else:
        tables = [model.class_log_prior_, *model.feature_log_prob_]
    return float(sum(table.size for table in tables))


def slope(sizes, values) -> float:
    """The power of the size that values grow with, at the largest sizes."""
    ends = slice(-_SLOPE_POINTS, None)
    return float(np.polyfit(np.log(sizes)[ends], np.log(values)[ends], 1)[0])


class Scaling(Experiment):
    name = "scaling"
    title = "How time and memory grow"
    reproduces = "time and memory over records, features, categories and classes"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        growing = QUICK_GROWING if settings.quick else GROWING
        return [
            {"growing": axis, "size": size, "method": method}
            for axis, sizes in growing.items()
            for size in sizes
            for method, (_, axes) in METHODS.items()
            if axis in axes
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        base = QUICK_BASE if settings.quick else BASE
        prepare, _ = METHODS[task["method"]]
        sizes = {**base, task["growing"]: task["size"]}
        model, call = prepare(sizes)
        first = processor_seconds(call)
        (best,) = alternate(call, repeats=1 if settings.quick else 3)
        return [
            {
                **sizes,
                "seconds": best,
                "first_seconds": first,
                "MiB": allocated(call),
                "cells": released_cells(model),
            }
        ]

    def slopes(self, results: pd.DataFrame, value: str) -> pd.DataFrame:
        """The slope of each method, one column for each size that grows."""
        found = {
            (axis, method): slope(part["size"], part[value])
            for (axis, method), part in results.groupby(["growing", "method"], sort=False)
        }
        return (
            pd.Series(found)
            .unstack(0)[results["growing"].unique()]
            .reindex(results["method"].unique())
        )

    def figure(self, results: pd.DataFrame):
        axes_names = results["growing"].unique()
        figure, axes = figures.panels(2 * len(axes_names), len(axes_names), width=4.2, height=4.6)
        values = ("seconds", "MiB")
        for axis, (value, growing) in zip(
            axes, [(value, name) for value in values for name in axes_names], strict=True
        ):
            found = self.slopes(results, value)[growing]
            part = results[results["growing"] == growing]
            for method, line in part.groupby("method", sort=False):
                axis.plot(
                    line["size"],
                    line[value],
                    label=f"{found[method]:.2f}  {method}",
                    linewidth=1.3,
                    markersize=4,
                    **_LOOKS[method],
                )
            axis.set(xscale="log", yscale="log", xlabel=growing)
            axis.set_ylabel("seconds, warm" if value == "seconds" else "MiB held at once, no data")
            low, high = axis.get_ylim()
            axis.set_ylim(low, high * (high / low) ** 0.7)  # room for the legend
            axis.legend(fontsize=6.5, loc="upper left", title="slope", title_fontsize=6.5)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        time, memory = (self.slopes(results, value) for value in ("seconds", "MiB"))
        table = pd.concat([time.add_prefix("time, "), memory.add_prefix("memory, ")], axis=1)
        return table.round(2).rename_axis("slope of")

    def remarks(self, results: pd.DataFrame) -> str:
        ours = results[results["cells"].notna()]
        base = {name: results[name].mode()[0] for name in BASE}
        calibration = ours["first_seconds"] - ours["seconds"]
        slowest = ours.loc[calibration.idxmax()]
        return (
            "A slope of 1 is linear growth; it is that of the largest three sizes, the others "
            f"staying at {', '.join(f'{size} {name}' for name, size in base.items())}. Memory is "
            "that allocated by numpy and Python during the call, without the data. The network is "
            "a chain, whose tables grow with the square of the number of categories. Times are "
            "those of calls for which the calibration is cached; the first call took at most "
            f"{calibration.max():.2g} s more ({slowest['method']}, {slowest['size']} "
            f"{slowest['growing']})."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        slopes = self.slopes(results, "seconds").drop(columns="categories", errors="ignore")
        ours = slopes[slopes.index.str.startswith(("Dirichlet", "Private"))].stack()
        method, growing = ours.idxmax()
        return [
            Claim(
                "skdirdp",
                "Time grows at most linearly with records, features and classes (slope at most "
                "1.15)",
                bool(ours.max() <= 1.15),
                f"largest slope {ours.max():.2f} ({method}, {growing})",
            )
        ]
