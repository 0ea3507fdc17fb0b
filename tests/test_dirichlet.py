"""Draws from Dirichlet distributions, against their exact marginals."""

import mpmath
import numpy as np
import pytest

from skdirdp.mechanisms import DirichletMechanism, SimplexMechanism
from tests.probes import Recorder

N_DRAWS = 100_000
# Down to the smallest normal number, below which entries underflow.
THRESHOLDS = [1e-306, 1e-290, 1e-200, 1e-60, 1e-9, 0.1, 0.6]


def assert_marginal(entries, a, b):
    """P[Y < t] of a Beta(a, b) variable at every threshold, to five standard errors."""
    for threshold in THRESHOLDS:
        with mpmath.workdps(30):
            exact = float(mpmath.betainc(a, b, 0, threshold, regularized=True))
        error = np.sqrt(exact * (1 - exact) / len(entries)) + 1 / len(entries)
        assert abs(np.mean(entries < threshold) - exact) < 5 * error, threshold


@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-3, 3e-4, 1e-5, 1e-9, 1e-14])
def test_two_cells_of_a_small_prior_are_beta_distributed(alpha):
    draws = DirichletMechanism(r=1.0, alpha=alpha).draw(
        np.zeros((N_DRAWS, 2)), np.random.default_rng(0)
    )
    assert_marginal(draws[:, 0], alpha, alpha)


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 2e-4])
def test_every_cell_of_a_sparse_row_has_its_marginal(alpha):
    # No cell is large, so that rows lose some cells to underflow and keep others.
    counts = np.array([0.0, 0.0, 0.0, 2.0, 5.0, 9.0])
    r = alpha / 3
    draws = DirichletMechanism(r=r, alpha=alpha).draw(
        np.tile(counts, (N_DRAWS, 1)), np.random.default_rng(1)
    )
    shapes = r * counts + alpha
    for cell, a in enumerate(shapes):
        assert_marginal(draws[:, cell], a, shapes.sum() - a)


def test_a_vector_on_the_simplex_has_the_same_marginals():
    p = np.array([0.3, 0.3, 0.4 - 1e-6, 1e-6])
    mechanism = SimplexMechanism(k=5e-3, protected=(0, 1), eta=0.1, eta_bar=0.1)
    draws = np.array([mechanism.release(p) for _ in range(4000)])
    for cell, share in enumerate(p):
        assert_marginal(draws[:, cell], mechanism.k * share, mechanism.k * (1 - share))


# --- Estimates ------------------------------------------------------------------


def test_estimates_from_a_release_are_unbiased():
    mechanism, counts = DirichletMechanism(r=0.5, alpha=2.0), np.array([0.0, 3.0, 40.0, 300.0])
    released = mechanism.draw(np.tile(counts, (20_000, 1)), np.random.default_rng(3))
    found = np.array([mechanism.unbiased(row, counts.sum()) for row in released])
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - counts / counts.sum()) < 5 * error)
    exact = DirichletMechanism(np.inf, np.inf, exact_smoothing=2.5)
    shares = exact.unbiased(exact.release(counts), counts.sum())
    np.testing.assert_allclose(shares, counts / counts.sum(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_limits_hold_for_all_cells_at_once_and_not_much_more_often(confidence):
    mechanism, counts = DirichletMechanism(r=0.5, alpha=2.0), np.array([30.0, 50.0, 40.0, 300.0])
    draws = 2000
    released = mechanism.draw(np.tile(counts, (draws, 1)), np.random.default_rng(4))
    sizes = {"n_samples": counts.sum(), "confidence": confidence}
    shares, held = counts / counts.sum(), 0
    for row in released:
        lower, upper = mechanism.limits(row, np.arange(4), np.arange(1, 5), **sizes)
        held += bool(np.all((lower <= shares) & (shares <= upper)))
    error = np.sqrt(confidence * (1 - confidence) / draws)
    assert held / draws > confidence - 4 * error
    # Four cells by the union bound: at independence (1 - tail)**4 would hold.
    assert held / draws < (1 - (1 - confidence) / 4) ** 4 + 0.1 * (1 - confidence) + 4 * error


def test_precision_multiplies_the_concentration_and_drops_a_claim():
    claimed = DirichletMechanism.calibrate(
        epsilon=1.0, n_samples=100, n_categories=3, calibration="algorithm1"
    )
    finer = claimed.with_precision(2.0)
    assert (finer.r, finer.alpha, finer.claim) == (2 * claimed.r, claimed.alpha, None)
    assert finer.rdp(3.0) > claimed.rdp(3.0)


def test_limits_without_noise_are_the_shares_themselves():
    counts = np.array([30.0, 50.0, 0.0, 20.0])
    exact = DirichletMechanism(np.inf, np.inf, exact_smoothing=2.5)
    runs = (exact.release(counts), np.zeros(3, dtype=int), np.arange(1, 4))
    limits = exact.limits(*runs, n_samples=100, confidence=0.9)
    for limit in limits:
        np.testing.assert_allclose(limit, [0.3, 0.8, 0.8], rtol=1e-12)
    with pytest.raises(ValueError, match="confidence must be"):
        exact.limits(*runs, n_samples=100, confidence=1.0)
    with pytest.raises(ValueError, match="precision must be greater than 0"):
        exact.with_precision(0.0)


def test_parameters_with_too_many_bits_are_rejected_before_the_charge():
    # The largest count is whole, and would fit if all were.
    recorder = Recorder()
    mechanism = DirichletMechanism(r=0.7, alpha=1.0)
    with pytest.raises(ValueError, match="at most 62 bits"):
        mechanism.release([[2.0**28, 0.5]], accountant=recorder)
    assert not recorder.charges
    mechanism.release([[2.0**28, 1.0]], accountant=recorder)
    assert len(recorder.charges) == 1
