"""Models of several data owners: as accurate as the central model, and their cost at scale."""

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse, stats
from sklearn.metrics import log_loss

from skdirdp import DirichletCategoricalNB, DirichletNB, PrivacyAccountant
from skdirdp.federated import Aggregator, FederatedRound

from .. import data, figures
from ..experiment import Claim, Experiment, Row, Settings, seeded

EPSILONS = (0.1, 0.3, 1.0)
N_PARTIES = 5
REPEATS = 40
LARGE_PARTIES, LARGE_CELLS = 20, 1_000_000
RATIO = 1024
LEAST_P_VALUE = 0.001


class _Free:
    """Accountant without a ledger, which would take longer than the fit."""

    def charge(self, *args: Any, **options: Any) -> None:
        pass


@lru_cache(maxsize=2)
def adult(folder: Path | None) -> data.Coded:
    return data.coded(data.load("adult", folder))


def fit_federated(model: Any, X: np.ndarray, y: np.ndarray, parts: list[np.ndarray]) -> Any:
    """Fit a model to records that are spread over parties."""
    example = {"X": X[:1] * 0, "y": model.classes[:1]}
    fit = FederatedRound(model, example, round_id="r", n_parties=len(parts), ratio=RATIO)
    aggregator = Aggregator(fit)
    for party, rows in enumerate(parts):
        aggregator.add(party, fit.draw_share({"X": X[rows], "y": y[rows]}, accountant=_Free()))
    return fit.fit(*aggregator.total())


def noise_variance(ratio: int) -> float:
    """Variance of the noise of a federated model relative to the central one, both exact."""
    from skdirdp.mechanisms import DirichletMechanism, DistributedDirichletMechanism

    central = DirichletMechanism(0.1, 4.3)
    drawn = DistributedDirichletMechanism(central, N_PARTIES, ratio=ratio).as_drawn(N_PARTIES)
    ratios = (
        drawn.noise.variance / central.noise.variance,
        (drawn.noise.per_count / central.noise.per_count),
    )
    return float(max(ratios))


class Federated(Experiment):
    name = "federated"
    title = "Federated models"
    reproduces = (
        "accuracy of a naive Bayes model of five parties beside that of the central model on "
        "adult, and time and bytes of a round with 20 parties and a million cells"
    )
    parallel = False

    def tasks(self, settings: Settings) -> list[Row]:
        repeats = 6 if settings.quick else REPEATS
        cells = 20_000 if settings.quick else LARGE_CELLS
        tasks: list[Row] = [{"part": "scale", "cells": cells, "parties": LARGE_PARTIES}]
        tasks += [
            {"part": "accuracy", "epsilon": epsilon, "repeat": repeat}
            for epsilon in ((1.0,) if settings.quick else EPSILONS)
            for repeat in range(repeats)
        ]
        return tasks

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        if task["part"] == "scale":
            return [_measure_scale(task["parties"], task["cells"])]
        return _measure_accuracy(task, settings)

    def _accuracy(self, results: pd.DataFrame) -> pd.DataFrame:
        chosen = results[results["part"] == "accuracy"]
        return chosen.pivot_table(
            index=["epsilon", "repeat"], columns="model", values=["accuracy", "cross_entropy"]
        )

    def figure(self, results: pd.DataFrame):
        scores = self._accuracy(results)
        figure, axes = figures.panels(2, width=4)
        for axis, score in zip(axes, ("accuracy", "cross_entropy"), strict=True):
            means = scores[score].groupby("epsilon").mean()
            errors = scores[score].groupby("epsilon").sem()
            for model in means:
                axis.errorbar(means.index, means[model], errors[model], label=model, marker="o")
            axis.set_xscale("log")
            axis.set_xlabel("epsilon")
            axis.set_ylabel(score.replace("_", "-"))
        figures.legend_below(figure, axes, columns=3)
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        rows = []
        for epsilon, part in self._accuracy(results).groupby("epsilon"):
            for score in ("accuracy", "cross_entropy"):
                difference = part[score]["federated"] - part[score]["central"]
                rows.append(
                    {
                        "epsilon": epsilon,
                        "score": score.replace("_", "-"),
                        **part[score].mean().to_dict(),
                        "federated - central": difference.mean(),
                        "standard error": difference.sem(),
                    }
                )
        return pd.DataFrame(rows)

    def remarks(self, results: pd.DataFrame) -> str:
        scale = results[results["part"] == "scale"].iloc[0]
        return (
            f"A round of {scale['parties']:.0f} parties and {scale['cells']:.0f} cells: a party "
            f"counts, charges and draws its share in {scale['share_seconds']:.2f} s and sends "
            f"{scale['bytes'] / 1e6:.1f} MB; its {scale['parties']:.0f} masks take "
            f"{scale['mask_seconds']:.2f} s. The server adds the shares in "
            f"{scale['sum_seconds']:.2f} s and fits the model in {scale['fit_seconds']:.2f} s. The "
            f"largest sum has {scale['sum_bits']:.0f} bits of {scale['bits']:.0f}. Other processes "
            "ran on the machine."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        scores = self._accuracy(results)
        p_values = [
            stats.ttest_rel(part[score]["federated"], part[score]["central"]).pvalue
            for _, part in scores.groupby("epsilon")
            for score in ("accuracy", "cross_entropy")
        ]
        variance = noise_variance(RATIO)
        scale = results[results["part"] == "scale"].iloc[0]
        return [
            Claim(
                "skdirdp",
                "A model of five parties is as accurate as the central one, within sampling error",
                min(p_values) > LEAST_P_VALUE / len(p_values),
                f"smallest of {len(p_values)} p-values: {min(p_values):.3f}",
            ),
            Claim(
                "skdirdp",
                "The variance of the noise is at most 1.002 times that of the central release",
                variance <= 1.002,
                f"{variance:.5f} times",
            ),
            Claim(
                "skdirdp",
                "The sums of a round fit the modulus that was checked before the charge",
                bool(scale["sum_bits"] <= scale["bits"]),
                f"{scale['sum_bits']:.0f} bits of {scale['bits']:.0f}",
            ),
        ]


def _measure_accuracy(task: Row, settings: Settings) -> list[Row]:
    coded = adult(settings.data)
    train, test = data.split(len(coded.y), task["repeat"])
    parts = np.array_split(seeded("parties", task["repeat"]).permutation(train), N_PARTIES)
    options = {
        "classes": np.unique(coded.y).tolist(),
        "n_categories": coded.n_categories.tolist(),
        "n_samples": len(train),
    }
    model = DirichletCategoricalNB(**options, epsilon=task["epsilon"])
    fitted = {
        "no privacy": DirichletCategoricalNB(**options, epsilon=np.inf).fit(
            coded.X[train], coded.y[train]
        ),
        "central": model.fit(coded.X[train], coded.y[train]),
        "federated": fit_federated(model, coded.X, coded.y, parts),
    }
    X, y = coded.X[test], coded.y[test]
    return [
        {
            "model": name,
            "accuracy": each.score(X, y),
            "cross_entropy": log_loss(y, each.predict_proba(X), labels=each.classes_),
        }
        for name, each in fitted.items()
    ]


def _measure_scale(n_parties: int, n_cells: int) -> Row:
    """Time a round of word counts in two classes, party by party."""
    n_features, n_rows = n_cells // 2, 2000
    model = DirichletNB(
        classes=[0, 1], max_count=5, max_total=100, n_samples=n_parties * n_rows, epsilon=1.0
    )
    example = {"X": sparse.csr_matrix((1, n_features)), "y": [0]}
    fit = FederatedRound(model, example, round_id="scale", n_parties=n_parties, max_dropouts=2)
    aggregator = Aggregator(fit)
    share_seconds, sum_seconds = [], 0.0
    for party in range(n_parties):
        rng = seeded("scale", party)
        words = rng.integers(n_features, size=n_rows * 50)
        rows = np.repeat(np.arange(n_rows), 50)
        X = sparse.csr_matrix((np.ones(words.size), (rows, words)), (n_rows, n_features))
        records = {"X": X, "y": rng.integers(2, size=n_rows)}
        accountant = PrivacyAccountant()
        start = time.perf_counter()
        share = fit.draw_share(records, accountant=accountant)
        share_seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        aggregator.add(party, share)
        sum_seconds += time.perf_counter() - start
    sums, n_present = aggregator.total()
    start = time.perf_counter()
    fit.fit(sums, n_present)
    fit_seconds = time.perf_counter() - start
    return {
        "bits": fit.bits,
        "sum_bits": int(sums.max()).bit_length(),
        "bytes": share.values.nbytes,
        "share_seconds": float(np.median(share_seconds)),
        "mask_seconds": _mask_seconds(n_parties, fit.n_cells, fit.bits),
        "sum_seconds": sum_seconds,
        "fit_seconds": fit_seconds,
    }


def _mask_seconds(n_parties: int, n_cells: int, bits: int) -> float:
    """Time the masks of one party in secure aggregation; nan without Flower."""
    try:
        from skdirdp.federated.flower import random_masks
    except ImportError:
        return float("nan")
    start = time.perf_counter()
    total = np.zeros(n_cells, np.int64)
    for party in range(n_parties):
        total += random_masks(bytes([party] * 32), 1 << bits, [(n_cells,)])[0]
    return time.perf_counter() - start
