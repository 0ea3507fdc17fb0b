"""The split of a budget over tables, from public sizes alone."""

import pytest

from skdirdp.accounting import Composition
from skdirdp.mechanisms import CountTable, calibrate
from skdirdp.mechanisms.calibration import calibrate_tables
from skdirdp.mechanisms.splitting import calibrate_split, expected_divergence, relative_precision
from skdirdp.mechanisms.tables import ContributionBound

TABLES = [CountTable(5000, 2), CountTable(5000, 12, 4), CountTable(5000, 3, 60)]


@pytest.mark.parametrize("name", ["dirichlet", "gaussian", "laplace"])
def test_an_uneven_split_is_within_the_budget_and_no_worse_than_an_even_one(name):
    def within(tables):
        return calibrate_tables(
            tables,
            mechanism=name,
            epsilon=1.0,
            delta=1e-5,
            order=None,
            adjacency="replace",
            calibration="exact",
        )

    found = calibrate_split(TABLES, within)
    assert Composition([(mechanism, 1) for mechanism in found]).epsilon(1e-5) <= 1.0
    assert len(set(found)) > 1
    assert expected_divergence(TABLES, found) < expected_divergence(TABLES, within(TABLES))


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_class_prior_gets_a_tenth_of_the_squared_sensitivity_of_word_counts(adjacency):
    words = CountTable(1000, 50, 2, ContributionBound(3.0, 30.0))  # ten entries of 3
    prior = ContributionBound(2.0)
    precision = relative_precision([words], prior, adjacency)
    assert precision**2 * prior.squared_norm(adjacency) == pytest.approx(
        0.1 * words.contribution.squared_norm(adjacency)
    )
    # The mean over tables counts, not their sum.
    assert relative_precision([words] * 7, prior, adjacency) == pytest.approx(precision)


def test_a_table_beside_others_like_it_gets_the_same_precision():
    assert relative_precision(TABLES, ContributionBound(), "replace") == 1.0
    assert relative_precision([], ContributionBound(5.0), "replace") == 1.0


def test_the_mechanism_for_a_precision_is_that_of_the_calibration():
    sizes = {"n_samples": 5000, "n_categories": 12}
    for name in ("gaussian", "laplace", "dirichlet"):
        base = calibrate(name, epsilon=1.0, **sizes)
        finer = base.with_precision(2.0)
        assert finer.expected_divergence(CountTable(**sizes)) < base.expected_divergence(
            CountTable(**sizes)
        )
        assert finer.delta(1.0) > base.delta(1.0)
