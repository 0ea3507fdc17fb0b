"""Readings of sparse tables, against a projection by its conditions, and by what they promise."""

import numpy as np
import pandas as pd

from benchmarks.experiments.reading import DRAWN, READ, chow_liu, projected


def test_the_projection_is_the_nearest_table_with_these_sums():
    noisy = np.random.default_rng(0).normal(3, 10, (5, 8))
    found = projected(noisy)
    np.testing.assert_allclose(found.sum(axis=1), np.maximum(noisy.sum(axis=1), 1.0))
    assert found.min() >= 0
    # All that is left is shifted by as much, and what is cut off would be negative.
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


def test_the_default_reading_is_nearer_than_those_that_look_at_single_cells(quick, paper_data):
    results = quick("reading").set_index(["data", "method"])
    assert np.isinf(results.loc[("docstrings", "projection"), "kl"])
    tree = results.loc["german_credit"]
    assert tree.loc[READ, "kl"] < 0.8 * tree.loc[DRAWN, "kl"]
    assert tree.loc[READ, "tv"] < tree.drop(index=READ)["tv"].min()
