import numpy as np
import pytest

from benchmarks.experiment import Settings
from benchmarks.experiments.synthesis import OURS, load, margin_distance


def test_the_quick_version_learns_more_than_chance(quick):
    results = quick("synthesis")
    assert set(results["method"]) == {OURS}
    assert results["ended"].all()
    # Noise is large for 398 records of 31 columns; equal shares would be at about a half.
    assert results["pairs"].between(0.2, 0.7).all()


def test_distances_are_those_of_tables_counted_by_hand():
    real = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 0]])
    other = np.array([[0, 0, 0]] * 4)
    sizes = np.array([2, 2, 1])
    assert margin_distance(real, other, sizes, 3) == pytest.approx(0.75)
    assert margin_distance(real, other, sizes, 2) == pytest.approx((0.75 + 0.5 + 0.75) / 3)
    assert margin_distance(real, real, sizes, 2) == 0


def test_tables_are_numbers_of_categories(paper_data):
    X, sizes = load("adult", Settings(data=paper_data))
    assert X.shape == (48_842, 14)
    assert (X.max(axis=0) < sizes).all()


def test_sizes_are_measured(quick):
    results = quick("synthesis-size")
    assert (results["seconds"] > 0).all()
    assert results["MiB"].between(50, 4096).all()
