"""Time of whole fits with exact samples, compared with samples of numpy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from skdirdp import DirichletCategoricalNB, DirichletNB
from skdirdp.mechanisms import DirichletMechanism
from skdirdp.mechanisms.base import normalise

from .. import data, figures, workloads
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import alternate

AT_MOST = 1.5
POSTPROCESSED = "post-processed"
ESTIMATES = ("as drawn", POSTPROCESSED)

Fit = Callable[[], Any]


@contextmanager
def float_draws() -> Iterator[None]:
    """Draws of the Dirichlet mechanism as those of version 0.1: numpy's gamma variables."""

    def draw(requests, generator):
        shapes = [
            request.mechanism.r * request.counts + request.mechanism.alpha for request in requests
        ]
        return (np.random.default_rng().standard_gamma(np.concatenate(shapes)),)

    def noisy_counts(mechanism, grid, gammas):
        return (gammas - mechanism.alpha) / mechanism.r

    with patch.multiple(
        DirichletMechanism,
        _draw=staticmethod(draw),
        _noisy_counts=noisy_counts,
        _probabilities=staticmethod(normalise),
        # Shapes are not rounded, and so need not fit into integers.
        _check_table=lambda mechanism, counts, grid, *, whole: None,
    ):
        yield


def _adult(settings: Settings, estimate: str) -> Fit:
    table = data.coded(data.load("adult", settings.data))
    model = DirichletCategoricalNB(
        classes=range(table.n_classes),
        n_categories=table.n_categories,
        postprocess=estimate == POSTPROCESSED,
    )
    return lambda: model.fit(table.X, table.y)


def _digits(settings: Settings, estimate: str) -> Fit:
    X, y = load_digits(return_X_y=True)
    model = DirichletNB(
        classes=range(10), max_count=16, max_total=400, postprocess=estimate == POSTPROCESSED
    )
    return lambda: model.fit(X, y)


def _records(settings: Settings, estimate: str) -> Fit:
    X, y = workloads.categories(10_000 if settings.quick else 1_000_000, 20, 10, 5)
    model = workloads.private_categorical(10, 5, postprocess=estimate == POSTPROCESSED)
    return lambda: model.fit(X, y)


def _text(settings: Settings, estimate: str) -> Fit:
    size = (1000, 5000, 100_000) if settings.quick else (100_000, 50_000, 10_000_000)
    X, y = workloads.words(*size, 20)
    model = workloads.private_multinomial(20, postprocess=estimate == POSTPROCESSED)
    return lambda: model.fit(X, y)


FITS: dict[str, Callable[[Settings, str], Fit]] = {
    "adult": _adult,
    "digits": _digits,
    "1,000,000 x 20": _records,
    "sparse text": _text,
}


class SamplingFits(Experiment):
    name = "sampling-fits"
    title = "Cost of exact sampling in a whole fit"
    reproduces = "whole fits with exact samples, compared with numpy's gamma variables"
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        # The papers' data may not be there for a small run.
        names = [name for name in FITS if name != "adult" or not settings.quick]
        return [{"fit": name, "estimate": estimate} for name in names for estimate in ESTIMATES]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        fit = FITS[task["fit"]](settings, task["estimate"])

        def with_floats():
            with float_draws():
                fit()

        fit()
        (once,) = alternate(fit, repeats=1)
        repeats = 2 if settings.quick else int(np.clip(3.0 / once, 7, 200))
        ours, floats = alternate(fit, with_floats, repeats=repeats)
        return [{"ours": ours * 1e3, "floats": floats * 1e3, "times": ours / floats}]

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, columns=1, width=5)
        labels = [
            f"{name}, {how}" for name, how in zip(results["fit"], results["estimate"], strict=True)
        ]
        axis.barh(labels, results["times"], color="#0b61a4")
        axis.axvline(AT_MOST, color="black", linewidth=0.8)
        axis.set(xlabel="times the fit with float draws")
        axis.invert_yaxis()
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "fit": results["fit"].to_numpy(),
                "estimate": results["estimate"].to_numpy(),
                "exact, ms": results["ours"].to_numpy(),
                "floats, ms": results["floats"].to_numpy(),
                "times": results["times"].to_numpy(),
            }
        ).set_index(["fit", "estimate"])

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Least processor times of several fits that take turns: with exact samples, and with "
            "gamma variables of numpy's in their place, from the same generator and without the "
            "checks that exact ones need, as in version 0.1."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        worst = results.loc[results["times"].idxmax()]
        return [
            Claim(
                "skdirdp",
                f"With exact samples a whole fit takes at most {AT_MOST:g} times as long as with "
                "floats",
                bool(worst["times"] <= AT_MOST),
                f"at most {worst['times']:.2f} times ({worst['fit']}, {worst['estimate']})",
            )
        ]
