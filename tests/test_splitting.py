"""One budget over the tables of a model, or over several steps of a Gaussian release."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdirdp.accounting import Composition
from skdirdp.mechanisms import CountTable, GaussianMechanism, calibrate
from skdirdp.mechanisms.calibration import calibrate_tables
from skdirdp.mechanisms.splitting import (
    calibrate_gaussian,
    calibrate_split,
    expected_divergence,
    noise_for_distances,
    relative_precision,
    split_gaussian,
    split_with_selection,
)
from skdirdp.mechanisms.tables import ContributionBound

TABLES = [CountTable(5000, 2), CountTable(5000, 12, 4), CountTable(5000, 3, 60)]
ADJACENCIES = ("replace", "add_remove", "replace_person", "add_remove_person")


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


def test_a_table_similar_to_others_gets_the_same_precision():
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


# Steps of one Gaussian release -------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.003, 7.0, 1e9])
@pytest.mark.parametrize("weights", [[1.0], [0.25, 0.05, 0.7], np.arange(1.0, 400.0) ** (2 / 3)])
def test_parts_have_no_more_precision_than_the_whole_in_exact_arithmetic(sigma, weights):
    parts = split_gaussian(GaussianMechanism(sigma), weights)
    spent = sum(1 / Fraction(part.sigma) ** 2 for part in parts)
    whole = 1 / Fraction(sigma) ** 2
    assert whole * (1 - Fraction(1, 10**10)) < spent <= whole


def test_parts_of_no_noise_have_none():
    assert [part.sigma for part in split_gaussian(GaussianMechanism(0.0), [1, 2])] == [0.0, 0.0]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rows", [1, 3])
def test_distances_cost_as_much_as_one_table_at_their_largest_change(adjacency, rows):
    bound = ContributionBound().for_person(rows)
    whole = GaussianMechanism(
        5.0, adjacency=adjacency, max_count=bound.max_count, max_total=bound.max_total
    )
    change = (2 if adjacency.startswith("replace") else 1) * rows
    mu = Fraction(change) ** 2 * 91 / Fraction(noise_for_distances(whole, 91).sigma) ** 2
    table = Fraction(bound.squared_norm(adjacency)) / Fraction(5.0) ** 2
    assert table * (1 - Fraction(1, 10**10)) < mu <= table


def test_a_distance_changes_by_one_for_each_record_and_no_less_would_do():
    """All neighbours of all tables with up to three records in four cells, by enumeration."""
    public = np.array([0.0, 2.0, 1.0, 0.0])
    one, two = set(), set()
    for n in range(4):
        for records in product(range(4), repeat=n):
            before = np.bincount(records, minlength=4)
            distance = np.abs(before - public).sum()
            for new in range(4):
                after = before + np.eye(4)[new]
                one.add(abs(np.abs(after - public).sum() - distance))
                for old in set(records):
                    replaced = after - np.eye(4)[old]
                    two.add(abs(np.abs(replaced - public).sum() - distance))
    assert max(one) == ContributionBound().total("add_remove")
    assert max(two) == ContributionBound().total("replace")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-5), (8.0, 1e-6)])
def test_the_whole_uses_up_the_budget_and_no_more(adjacency, epsilon, delta):
    whole = calibrate_gaussian(epsilon, delta, None, adjacency, ContributionBound())
    assert 0.999 * epsilon < whole.epsilon(delta) <= epsilon


def test_a_budget_in_renyi_dp_is_met_at_its_order():
    whole = calibrate_gaussian(0.3, 1e-5, 4.0, "replace", ContributionBound())
    assert 0.999 * 0.3 < whole.rdp(4.0) <= 0.3


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("n_columns", [1, 7])
def test_names_and_tables_together_use_up_the_budget_and_no_more(adjacency, n_columns):
    bound = ContributionBound().for_person(2)
    whole, finding = split_with_selection(1.0, 1e-5, None, adjacency, bound, n_columns, 0.1)
    assert len(finding) == n_columns
    total = Composition([(whole, 1), *((each, 1) for each in finding)])
    assert 0.99 < total.epsilon(1e-5) <= 1.0


def test_infinite_budgets_have_no_noise():
    whole, (finding,) = split_with_selection(
        np.inf, 1e-5, None, "replace", ContributionBound(), 1, 0.1
    )
    assert whole.sigma == finding.sigma == 0
