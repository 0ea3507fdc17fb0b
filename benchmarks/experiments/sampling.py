"""Time of exact samples, compared with numpy's floats and OpenDP's exact noise."""

from collections.abc import Callable
from functools import partial
from itertools import product
from math import log, sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import digamma, polygamma

from skdirdp._random import noise_generator
from skdirdp.mechanisms.sampling.bits import BitStream
from skdirdp.mechanisms.sampling.distributions import laplace_cells, normal_cells
from skdirdp.mechanisms.sampling.gamma import gamma_cells

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..timing import alternate

SHAPES = (1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0, 1.1, 3.0, 100.0, 1e4, 1e9)
SIZES = (10_000, 100_000, 1_000_000)
GRID = 2.0**-20
AT_MOST_NUMPY = 5.0
AT_LEAST_OPENDP = 20.0
_OPENDP_CELLS = 2000


def opendp_noise(kind: str) -> Callable[[int], Any] | None:
    """Return a sampler of OpenDP's noise of the same scale; None without OpenDP.

    It has no gamma variables, which are compared with its Gaussian noise.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        noise = dp.m.make_laplace(domain, dp.l1_distance(T=int), 1 / GRID)
    else:
        noise = dp.m.make_gaussian(domain, dp.l2_distance(T=float), 1 / GRID)
    return lambda size: noise([0] * size)


def sides(kind: str, shape: float, size: int, generator: np.random.Generator):
    """Our sampler (from a generator or a stream) and numpy's, each as a call."""
    if kind == "normal":
        return partial(normal_cells, 1.0, GRID, size), partial(generator.standard_normal, size)
    if kind == "laplace":
        return partial(laplace_cells, 1.0, GRID, size), partial(generator.laplace, size=size)
    places = 48 if shape < 1e-3 else 20
    numerators = np.full(size, round(shape * 2**places))
    return (
        partial(gamma_cells, numerators, places),
        partial(generator.standard_gamma, numerators / 2**places),
    )


def log_weights(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Logarithms of ``mantissa * 2^exponent``, relative to the largest of each row."""
    shift = exponent - exponent.max(axis=-1, keepdims=True)
    logs = np.log(mantissa.astype(float)) + np.log(2) * shift
    logs -= logs.max(axis=-1, keepdims=True)
    return logs


def deviation(kind: str, shape: float, drawn) -> float:
    """Return the distance of the mean of draws from its expectation, in standard errors."""
    if kind == "gamma":
        mantissa, exponent = (part.ravel() for part in drawn)
        largest = log(float(mantissa[exponent.argmax()])) + log(2) * float(exponent.max())
        relative = log_weights(mantissa, exponent)
        values = relative + (largest - relative[exponent.argmax()])
        mean, variance = digamma(shape), polygamma(1, shape)
    else:
        values = np.abs(drawn) * GRID
        mean = sqrt(2 / np.pi) if kind == "normal" else 1.0
        variance = 1 - mean**2 if kind == "normal" else 1.0
    return float((values.mean() - mean) / sqrt(variance / values.size))


class Sampling(Experiment):
    name = "sampling"
    title = "What exact sampling costs"
    reproduces = (
        "nanoseconds per cell of exact gamma, normal and Laplace variables, compared with "
        "numpy's floats from the same generator and with OpenDP's exact noise"
    )
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        kinds = [("normal", np.nan), ("laplace", np.nan), *(("gamma", shape) for shape in SHAPES)]
        sizes: tuple[int, ...] = SIZES
        if settings.quick:
            kinds, sizes = [*kinds[:2], ("gamma", 1e-6), ("gamma", 0.5), ("gamma", 3.0)], (4000,)
        return [
            {"kind": kind, "shape": None if np.isnan(shape) else shape, "size": size}
            for (kind, shape), size in product(kinds, sizes)
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        kind, shape, size = task["kind"], task["shape"], task["size"]
        ours, theirs = sides(kind, shape, size, np.random.default_rng(1))
        stream = BitStream(noise_generator())
        bias = deviation(kind, shape, ours(stream))
        repeats = 3 if settings.quick else max(5, 1_000_000 // size)
        times = alternate(partial(ours, stream), theirs, repeats=min(repeats, 50))
        row: Row = {
            "ours": times[0] / size * 1e9,
            "numpy": times[1] / size * 1e9,
            "opendp": np.nan,
            "undecided": stream.undecided,
            "drawn": (min(repeats, 50) + 1) * size,
            "deviation": bias,
        }
        noise = opendp_noise(kind)
        if noise is not None:
            cells = _OPENDP_CELLS // (10 if settings.quick else 1)
            (spent,) = alternate(partial(noise, cells), repeats=3)
            row["opendp"] = spent / cells * 1e9
        row["times_numpy"] = row["ours"] / row["numpy"]
        row["times_faster"] = row["opendp"] / row["ours"]
        return [row]

    def figure(self, results: pd.DataFrame):
        figure, (axis, bars) = figures.panels(2, columns=2, width=5)
        gammas = results[results["kind"] == "gamma"]
        for size, part in gammas.groupby("size"):
            axis.plot(part["shape"], part["times_numpy"], "o-", label=f"{size:,} cells")
        axis.axhline(AT_MOST_NUMPY, color="black", linewidth=0.8)
        axis.set(xscale="log", xlabel="shape", ylabel="times numpy's time", ylim=(0, None))
        axis.set_title("gamma variables", fontsize=10)
        axis.legend(fontsize=8)
        largest = results[results["size"] == results["size"].max()]
        labels = _labels(largest)
        places = np.arange(len(labels))
        for column, label, colour in (
            ("numpy", "numpy, floats", "#c1440e"),
            ("ours", "exact cells", "#0b61a4"),
            ("opendp", "OpenDP, exact", "0.6"),
        ):
            bars.plot(largest[column], places, "o", color=colour, label=label)
        bars.set(xscale="log", xlabel="nanoseconds per cell")
        bars.set_yticks(places, labels, fontsize=7)
        bars.legend(fontsize=8)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "what": _labels(results),
                "cells": [f"{size:,}" for size in results["size"]],
                "ns per cell": results["ours"].round(1).to_numpy(),
                "numpy": results["numpy"].round(1).to_numpy(),
                "times numpy": results["times_numpy"].to_numpy(),
                "OpenDP": results["opendp"].round().to_numpy(),
                "times faster than OpenDP": results["times_faster"].to_numpy(),
            }
        ).set_index(["what", "cells"])

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Least processor times of several runs that take turns, ours with AES in counter mode "
            "and numpy's with its default generator. OpenDP has no gamma variables; its Gaussian "
            "noise is shown instead. "
            f"{results['undecided'].sum():,} of {results['drawn'].sum():,} cells drawn here were "
            "left to exact arithmetic."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        claims = []
        slowest = results.loc[results["times_numpy"].idxmax()]
        claims.append(
            Claim(
                "skdirdp",
                f"Exact samples take at most {AT_MOST_NUMPY:g} times as long as numpy's floats",
                bool(slowest["times_numpy"] <= AT_MOST_NUMPY),
                f"at most {slowest['times_numpy']:.2f} times ({_label(slowest)})",
            )
        )
        if results["opendp"].notna().any():
            least = results.loc[results["times_faster"].idxmin()]
            claims.append(
                Claim(
                    "skdirdp",
                    f"Exact samples are at least {AT_LEAST_OPENDP:g} times faster than OpenDP's",
                    bool(least["times_faster"] >= AT_LEAST_OPENDP),
                    f"at least {least['times_faster']:.0f} times ({_label(least)})",
                )
            )
        return claims


def _label(row) -> str:
    return row["kind"] if row["kind"] != "gamma" else f"gamma, shape {row['shape']:g}"


def _labels(results: pd.DataFrame) -> list[str]:
    return [_label(row) for _, row in results.iterrows()]
