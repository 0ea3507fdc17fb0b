"""Histograms, against closed forms."""

import mpmath
import numpy as np
import pytest


def test_the_gaussian_error_is_that_of_the_largest_of_d_normals(quick):
    results = quick("histogram-error")
    noisy = results[(results["method"] == "Gaussian, as drawn") & (results["d"] == 1000)]
    # E max |Z| of 1000 standard normals is the integral of 1 - erf(t / sqrt 2) ** 1000.
    expected = mpmath.quad(
        lambda t: 1 - mpmath.erf(t / mpmath.sqrt(2)) ** 1000, [0, 2, 3, 4, 6, 12]
    )
    scaled = noisy["mean"] * noisy["n"] * np.sqrt(noisy["rho"])
    assert scaled.to_numpy() == pytest.approx(float(expected), rel=0.05)


def test_the_prior_of_the_posterior_solves_the_papers_equation(quick):
    results = quick("histogram-posterior")
    for rho, rows in results.groupby("rho"):
        # rho = psi'(alpha - gamma) with gamma = 2, for a replaced record.
        (alpha,) = rows["alpha"].unique()
        assert float(mpmath.psi(1, alpha - 2)) == pytest.approx(rho, rel=1e-6)


def test_unbiased_quantiles_fill_their_bins_evenly(quick):
    results = quick("histogram-quantiles")
    error = results.groupby("estimate")["cdf_error"].mean()
    # As released, a share s d / (N + s d) of the mass is spread over the grid: it moves the CDF of
    # any column that is not spread alike by a good part of that.
    assert error["as released"] > 3 * error["unbiased, isotonic"]
    assert results[results["estimate"] == "unbiased, isotonic"]["bad"].max() == 0
    # Noise as that of the Gaussian mechanism halves the error, and moving cells brings more back.
    assert error["noisy counts, isotonic"] < 0.7 * error["unbiased, isotonic"]
    assert error["noisy counts, isotonic"] < error["noisy counts, cell by cell"]
