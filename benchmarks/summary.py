"""Figure of the main result: savings of exact accounting, and the gain in accuracy."""

from pathlib import Path

import numpy as np
import pandas as pd

from . import figures
from .methods import by_method

NAME = "summary"
_NEEDED = ("claimed-epsilon", "naive-bayes")


def write_summary(out: Path, draw: bool = True) -> bool:
    """Draw the picture where its results are there; whether they were."""
    if not all((out / f"{name}.csv").exists() for name in _NEEDED):
        return False
    if not draw:
        return True
    claimed, models = (pd.read_csv(out / f"{name}.csv") for name in _NEEDED)
    figure, (left, right) = figures.panels(2, columns=2, width=5.0, height=3.7)
    _draw_claims(left, claimed)
    _draw_divergences(right, models)
    figures.save(figure, out, NAME)
    return True


def _draw_claims(axis, claimed: pd.DataFrame) -> None:
    """The epsilon of Algorithm 1's own noise, by three routes."""
    composed = claimed[claimed["part"] != "one release"]
    # Chosen by Algorithm 1 for a naive Bayes model of 13 features at (1, 1e-5)-DP.
    noise = composed[np.isclose(composed["r"], 0.0243, rtol=0.01)]
    for route, line in noise.groupby("route", sort=False):
        axis.plot(line["releases"], line["epsilon"], label=route, **figures.style(route))
    axis.set(xscale="log", yscale="log", xlabel="tables released", ylabel="ε at δ = 1e-5")
    axis.set_title("The same noise: claimed and exact epsilon", fontsize=11)
    axis.legend()
    axis.grid(alpha=0.3)


def _draw_divergences(axis, models: pd.DataFrame) -> None:
    kl = by_method(models, "expected_kl").xs("DP", level="guarantee")
    ratios = kl.div(kl["Dirichlet, Algorithm 1"], axis=0).groupby("epsilon").mean()
    for method in ("Dirichlet, Algorithm 1", "Dirichlet, exact", "Laplace, smoothed", "auto"):
        axis.plot(ratios.index, ratios[method], label=method, **figures.style(method))
    axis.set(xscale="log", yscale="log", xlabel="ε at δ = 1e-5", ylabel="ratio to Algorithm 1")
    axis.set_title("The same ε: KL divergence of naive Bayes, 8 data sets", fontsize=11)
    axis.legend()
    axis.grid(alpha=0.3, which="both")
