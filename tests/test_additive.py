"""Estimates and limits from releases with additive noise."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import norm

from skdirdp.mechanisms import GaussianMechanism, LaplaceMechanism
from skdirdp.mechanisms.additive import _log_mgf, _log_mgf_of_positive_part, _tail_of_sum

COUNTS = np.array([0.0, 3.0, 40.0, 300.0, 2000.0])
MAKES = [GaussianMechanism, LaplaceMechanism]


def readings(mechanism, counts, draws, seed=0):
    released = mechanism.draw(np.tile(counts, (draws, 1)), np.random.default_rng(seed))
    return np.array([mechanism.unbiased(row, counts.sum()) for row in released])


@pytest.mark.parametrize("smoothing", [0.0, 7.0])
def test_gaussian_estimates_are_unbiased(smoothing):
    found = readings(GaussianMechanism(4.0, smoothing), COUNTS, 2000)
    error = found.std(axis=0) / np.sqrt(len(found))
    # The row's sum is known up to noise of 4 * sqrt(5) in 2343 records.
    allowed = 5 * error + 0.005 * COUNTS / COUNTS.sum()
    assert np.all(np.abs(found.mean(axis=0) - COUNTS / COUNTS.sum()) < allowed)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
    assert np.any(found < 0)


@pytest.mark.parametrize("smoothing", [0.0, 7.0])
def test_laplace_estimates_are_unbiased_except_near_0(smoothing):
    found = readings(LaplaceMechanism(4.0, smoothing), COUNTS, 2000)
    error = found.std(axis=0) / np.sqrt(len(found))
    allowed = 5 * error + 0.005 * COUNTS / COUNTS.sum()
    # All negative counts are published as one number, which stands for -4, their mean in
    # an empty cell, as far as the row's sum is known.
    allowed[:2] += 4.0 / COUNTS.sum()
    assert np.all(np.abs(found.mean(axis=0) - COUNTS / COUNTS.sum()) < allowed)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("smoothing", [0.0, 2.5])
def test_estimates_without_noise_are_exact(make, smoothing):
    mechanism = make(0.0, smoothing)
    shares = mechanism.unbiased(mechanism.release(COUNTS), COUNTS.sum())
    np.testing.assert_allclose(shares, COUNTS / COUNTS.sum(), rtol=1e-9, atol=1e-15)


def test_precision_divides_the_noise():
    sharper = GaussianMechanism(6.0, 1.0, max_count=2.0).with_precision(3.0)
    assert sharper == GaussianMechanism(2.0, 1.0, max_count=2.0)
    sharper = LaplaceMechanism(6.0, 1.0, adjacency="add_remove").with_precision(3.0)
    assert sharper == LaplaceMechanism(2.0, 1.0, adjacency="add_remove")


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("smoothing", [0.0, 3.0])
@pytest.mark.parametrize("runs", ["cells", "below", "whole parts"])
@pytest.mark.parametrize("filled", ["half", "all"])
def test_limits_hold_for_all_runs_at_once_and_are_not_wide(make, smoothing, runs, filled):
    rng, size, draws, confidence = np.random.default_rng(5), 40, 300, 0.8
    counts = rng.integers(0, 60, size) + 40.0 * (filled == "all")
    if filled == "half":
        counts[rng.random(size) < 0.5] = 0.0
    counts[7] = 400.0
    first, stop = {
        "cells": (np.arange(size), np.arange(1, size + 1)),
        "below": (np.zeros(size - 1, dtype=int), np.arange(1, size)),
        "whole parts": (np.array([0, 3, 20]), np.array([3, 20, 40])),
    }[runs]
    total = counts.sum()
    below = np.concatenate([[0.0], np.cumsum(counts)])
    shares = (below[stop] - below[first]) / total
    mechanism = make(8.0, smoothing)
    released = mechanism.draw(np.tile(counts, (draws, 1)), rng)
    held, widths = 0, []
    for row in released:
        lower, upper = mechanism.limits(row, first, stop, n_samples=total, confidence=confidence)
        held += bool(np.all((lower <= shares) & (shares <= upper)))
        widths.append(total * (upper - lower))
    assert held / draws > confidence - 4 * np.sqrt(confidence * (1 - confidence) / draws)
    # Noise of a known total, for so many runs, and twice as much again for the unknown one, of
    # which a cell with a third of the records has the most
    cells = np.minimum(stop - first, size - (stop - first))
    alone = 2 * 8.0 * np.sqrt(cells) * norm.isf((1 - confidence) / (2 * len(first)))
    # Laplace noise has heavier tails, and negative counts are not distinguished
    assert np.all(np.mean(widths, axis=0) < {"gaussian": 3, "laplace": 6}[make.name] * alone)


@pytest.mark.parametrize(
    ("make", "least", "error"), [(*MAKES[:1], -20, 5e-5), (*MAKES[1:], 1e-4, 0.004)]
)
def test_inverted_means_are_as_accurate_as_the_limits_assume(make, least, error):
    noisy = np.concatenate([np.geomspace(1e-4, 1, 1000), np.linspace(least, 50, 100_000)])
    read = make(1.0)._from_means(make(1.0)._posterior_mean(noisy))
    assert np.max(np.abs(read - noisy)) < error


def test_tail_bounds_of_sums_of_noise_are_not_too_small():
    rng, tail = np.random.default_rng(0), 0.05
    for n_terms in (1, 7, 50):
        noise = rng.laplace(size=(40_000, n_terms))
        for terms, log_mgf in ((noise, _log_mgf), (noise.clip(0), _log_mgf_of_positive_part)):
            quantile = np.quantile(terms.sum(axis=1), 1 - tail)
            assert quantile < _tail_of_sum(np.array([n_terms]), tail, log_mgf)[0] < 2 * quantile + 2


@pytest.mark.parametrize("make", MAKES)
def test_noise_of_any_size_is_added_before_anything_is_rounded(make):
    # 2^50 cells of the grid in a scale: some noise is beyond the integers that floats hold.
    mechanism = make(2.0**30)
    grid = mechanism.contribution.grid
    counts = grid * np.arange(20_000).reshape(2, -1)
    cells = type(mechanism)._cells(2.0**30, grid, counts.shape, np.random.default_rng(0))
    if make is LaplaceMechanism:
        assert np.abs(cells).max() > 2**53
    else:
        cells[0, :9] += 2**53 * np.sign(cells[0, :9])
    with patch.object(make, "_cells", staticmethod(lambda *_: cells)):
        noisy = mechanism.noisy(counts, np.random.default_rng(0))
    exact = (counts / grid).astype(np.int64) + cells
    np.testing.assert_array_equal(noisy, exact.astype(float) * grid)


@pytest.mark.parametrize("mechanism", [GaussianMechanism, LaplaceMechanism])
def test_noise_is_not_added_to_counts_between_the_points_of_its_grid(mechanism):
    """Noise hides multiples of its grid; the remainder of a count would be released exactly."""
    made, counts = mechanism(1000.0, max_count=50.0), np.array([3.0 + 2.0**-20])
    assert made.contribution.grid > 2.0**-20
    with pytest.raises(AssertionError, match="not on its grid"):
        made.noisy(counts, np.random.default_rng(0))
    drawn = np.array([made.noisy(counts, np.random.default_rng(k), 2.0**-20) for k in range(50)])
    assert set(((drawn - counts) * 2.0**20 % 2).ravel()) == {0.0, 1.0}
