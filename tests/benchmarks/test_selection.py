"""Cost and gain of searches: tests against dp-accounting and closed forms."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant

from benchmarks.experiments.selection import DEFAULT, EXACT, FOUND, ORACLE, RENYI, expected_regret
from skdirdp.accounting import PureDP, RepeatedSelection


def test_costs_are_between_an_attack_and_dp_accounting(quick):
    results = quick("selection").set_index(["K", "way"])["epsilon"]
    for shape, kind in ((0, "logarithmic"), (1, "geometric")):
        noise = dp_accounting.GaussianDpEvent(1 / 0.268051123)  # (1, 1e-5)
        event = RepeatAndSelectDpEvent(noise, mean=30, shape=shape)
        theirs = RdpAccountant(1 + np.geomspace(0.1, 300, 300)).compose(event).get_epsilon(1e-5)
        assert results[kind, RENYI] == pytest.approx(theirs, rel=2e-3)
        assert results[kind, FOUND] < results[kind, EXACT] < results[kind, FOUND] + 0.02
    assert results["logarithmic", EXACT] <= 1.75


def test_the_expected_rank_is_that_of_a_geometric_number_of_runs():
    k = np.arange(1, 2000)
    chances = 0.1 * 0.9 ** (k - 1)
    expected = chances @ (1 / (k + 1))
    assert expected_regret(RepeatedSelection(PureDP(1.0), 0.1)) == pytest.approx(expected, rel=1e-4)


def test_an_oracle_is_the_best_of_the_candidates(quick):
    results = quick("selection-worth").set_index("method")["accuracy"]
    assert results[ORACLE] >= results[DEFAULT]
    assert results.between(0, 1).all()
    assert len(results) == 6
