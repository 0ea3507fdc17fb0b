"""Estimates of sparse tables: optimality of the projection, and accuracy."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.experiments import load
from benchmarks.experiments.postprocessing import (
    COUNTED,
    DRAWN,
    POSTPROCESSED,
    RULES,
    PostProcessing,
    chow_liu,
    projected,
)

ROOT = Path(__file__).parents[2]


def test_the_projection_is_the_nearest_table_with_these_sums():
    noisy = np.random.default_rng(0).normal(3, 10, (5, 8))
    found = projected(noisy)
    np.testing.assert_allclose(found.sum(axis=1), np.maximum(noisy.sum(axis=1), 1.0))
    assert found.min() >= 0
    # Positive cells are shifted by the same amount, and the others would be negative.
    for row, before in zip(found, noisy, strict=True):
        shifts = (before - row)[row > 0]
        np.testing.assert_allclose(shifts, shifts[0])
        assert (before[row == 0] <= shifts[0] + 1e-9).all()


def test_a_tree_follows_the_columns_that_depend_on_each_other():
    rng = np.random.default_rng(0)
    first = rng.integers(3, size=4000)
    second = np.where(rng.random(4000) < 0.9, first, rng.integers(3, size=4000))
    third = np.where(rng.random(4000) < 0.9, second, rng.integers(3, size=4000))
    table = pd.DataFrame({"a": first, "b": second, "c": third}).astype("category")
    assert chow_liu(table, "a") == {"a": [], "b": ["a"], "c": ["b"]}


def test_default_estimates_are_more_accurate_than_cellwise_ones(quick, paper_data):
    results = quick("postprocessing").set_index(["data", "method"])
    assert np.isinf(results.loc[("docstrings", "projection"), "kl"])
    tree = results.loc["german_credit"]
    assert tree.loc[POSTPROCESSED, "kl"] < 0.8 * tree.loc[DRAWN, "kl"]
    assert tree.loc[POSTPROCESSED, "tv"] < tree.drop(index=[POSTPROCESSED, COUNTED])["tv"].min()


def test_accuracies_are_compared_with_chance_and_with_the_model_without_noise():
    def verdict(read, without_noise, error):
        rows = [
            {"data": "a", "columns": 256, "method": method, "accuracy": accuracy}
            for method, accuracy in {
                **dict.fromkeys(RULES, 0.70),
                DRAWN: 0.80,
                POSTPROCESSED: read,
                COUNTED: without_noise,
            }.items()
        ]
        results = pd.DataFrame(rows).assign(tv=0.1, kl=0.1, behind_error=error)
        trees = results.assign(columns=0)
        *_, text, _, _, tree = PostProcessing().claims(pd.concat([results, trees]))
        assert text.holds == tree.holds
        return text

    assert verdict(0.81, 0.9, 0.001).holds
    assert not verdict(0.79, 0.9, 0.001).holds
    assert verdict(0.79, 0.9, 0.006).holds  # one that may be chance
    assert verdict(0.79, 0.785, 0.001).holds  # no better model would have more
    assert "at least in 0 of 1 cases" in verdict(0.79, 0.785, 0.001).found
    assert "behind by at most 0.0100 ± 0.0010" in verdict(0.79, 0.9, 0.001).found


def test_the_table_of_the_page_shows_the_results():
    page = (ROOT / "docs" / "postprocessing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \w+ (?:of the paper|others|more) \|(.*)\|$", page, re.MULTILINE)
    names = ["naive-bayes", "naive-bayes-fresh", "naive-bayes-further", "naive-bayes-unseen"]
    for name, row in zip(names, rows, strict=True):
        results = pd.read_csv(ROOT / "benchmarks" / "results" / f"{name}.csv")
        found = {claim.statement: claim.found for claim in load(name).claims(results)}

        def number(words, pattern, found=found):
            (text,) = [
                found[statement]
                for statement in found
                if statement.startswith("Post-processed")
                and all(word in statement for word in words)
            ]
            return float(re.search(pattern + r" ([+\d.]+)", text)[1])

        mean, tail = "mean", "95th percentile"
        shown = [float(re.search(r"[+\d.]+", cell)[0]) for cell in row.split("|")]
        assert shown[:4] == pytest.approx(
            [
                number(["expected KL divergence of `auto`", "ε ≤ 3"], mean),
                number(["expected KL divergence of `auto`", "in 95%"], tail),
                number(["cross-entropy", "ε ≤ 1"], mean),
                number(["cross-entropy", "in 95%"], tail),
            ],
            abs=0.0055,
        )
        assert shown[4] == pytest.approx(100 * number(["accuracy"], "mean gain"), abs=0.055)
