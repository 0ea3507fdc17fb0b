"""Readings of releases with additive noise."""

from unittest.mock import patch

import numpy as np
import pytest

from skdirdp.mechanisms import GaussianMechanism, LaplaceMechanism

COUNTS = np.array([0.0, 3.0, 40.0, 300.0, 2000.0])
MAKES = [GaussianMechanism, LaplaceMechanism]


def readings(mechanism, counts, draws, seed=0):
    released = mechanism.draw(np.tile(counts, (draws, 1)), np.random.default_rng(seed))
    return np.array([mechanism.unbiased(row, counts.sum()) for row in released])


@pytest.mark.parametrize("smoothing", [0.0, 7.0])
def test_gaussian_counts_are_read_without_bias(smoothing):
    found = readings(GaussianMechanism(4.0, smoothing), COUNTS, 2000)
    error = found.std(axis=0) / np.sqrt(len(found))
    # The row's sum is known up to noise of 4 * sqrt(5) in 2343 records.
    allowed = 5 * error + 0.005 * COUNTS / COUNTS.sum()
    assert np.all(np.abs(found.mean(axis=0) - COUNTS / COUNTS.sum()) < allowed)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
    assert np.any(found < 0)


@pytest.mark.parametrize("smoothing", [0.0, 7.0])
def test_laplace_counts_are_read_without_bias_but_next_to_0(smoothing):
    found = readings(LaplaceMechanism(4.0, smoothing), COUNTS, 2000)
    error = found.std(axis=0) / np.sqrt(len(found))
    allowed = 5 * error + 0.005 * COUNTS / COUNTS.sum()
    # All negative counts are published as one number, which stands for -4, their mean in
    # an empty cell, as far as the row's sum is known.
    allowed[:2] += 4.0 / COUNTS.sum()
    assert np.all(np.abs(found.mean(axis=0) - COUNTS / COUNTS.sum()) < allowed)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("smoothing", [0.0, 2.5])
def test_a_release_without_noise_is_read_exactly(make, smoothing):
    mechanism = make(0.0, smoothing)
    shares = mechanism.unbiased(mechanism.release(COUNTS), COUNTS.sum())
    np.testing.assert_allclose(shares, COUNTS / COUNTS.sum(), rtol=1e-9, atol=1e-15)


def test_precision_divides_the_noise():
    sharper = GaussianMechanism(6.0, 1.0, max_count=2.0).with_precision(3.0)
    assert sharper == GaussianMechanism(2.0, 1.0, max_count=2.0)
    sharper = LaplaceMechanism(6.0, 1.0, adjacency="add_remove").with_precision(3.0)
    assert sharper == LaplaceMechanism(2.0, 1.0, adjacency="add_remove")


@pytest.mark.parametrize("make", MAKES)
def test_error_bars_are_refused_with_a_reason(make):
    mechanism = make(2.0)
    assert not mechanism.has_limits
    with pytest.raises(ValueError, match="error bars are known for mechanism 'dirichlet' only"):
        mechanism.limits(np.ones(1), np.ones(1), n_categories=2, n_samples=9, confidence=0.9)


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
