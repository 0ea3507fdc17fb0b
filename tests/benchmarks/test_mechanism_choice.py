"""The choice between mechanisms, against dp-accounting and a closed form."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution


def test_noise_levels_are_those_of_an_independent_accountant(quick):
    results = quick("mechanism-choice")
    row = results[(results["epsilon"] == 1) & (results["releases"] == 14)].iloc[0]
    sigma = row["n"] / (row["d"] * row["u"])
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sensitivity=np.sqrt(2 * 14), value_discretization_interval=1e-4
    )
    assert pld.get_epsilon_for_delta(1e-5) == pytest.approx(1.0, abs=1e-3)
    # The more records, the less noise matters, and auto never takes the worst.
    mean = results.groupby("n")[["dirichlet", "gaussian", "laplace"]].mean()
    assert (mean.loc[100_000] < mean.loc[100]).all()
    chosen = results.apply(lambda row: row[row["auto"]], axis=1)
    assert (chosen < results[["dirichlet", "gaussian", "laplace"]].max(axis=1)).all()
