"""Calibration: within the budget, using it up, and at the least expected divergence."""

import itertools
import time

import numpy as np
import pytest
from scipy.special import digamma

from skdirdp.accounting import Composition, RenyiDP, TruncatedConcentratedDP
from skdirdp.mechanisms import (
    CountTable,
    DirichletMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    calibrate,
)
from skdirdp.mechanisms.calibration import Problem, calibrate_tables, largest_allowed
from skdirdp.mechanisms.tables import ContributionBound

SIZES = {"n_samples": 30_000, "n_categories": 10, "n_rows": 2}
CLASSES = {
    "dirichlet": DirichletMechanism,
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
}


# --- Budgets --------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("bounds", [{}, {"max_count": 2.0, "max_total": 4.0}], ids=["one", "rows"])
@pytest.mark.parametrize(("epsilon", "delta", "releases"), [(1.0, 1e-5, 14), (0.1, 1e-7, 1)])
def test_an_approximate_budget_is_used_and_not_exceeded(
    name, adjacency, bounds, epsilon, delta, releases
):
    mechanism = calibrate(
        name,
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        adjacency=adjacency,
        **bounds,
        **SIZES,
    )
    assert isinstance(mechanism, CLASSES[name])
    spent = Composition([(mechanism, releases)]).epsilon(delta)
    assert spent <= epsilon
    assert spent == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("bounds", [{}, {"max_count": 2.0, "max_total": 5.0}], ids=["one", "rows"])
@pytest.mark.parametrize(("epsilon", "order", "releases"), [(0.1, 5.0, 1), (2.0, 1.5, 14)])
def test_a_renyi_budget_is_used_and_not_exceeded(name, adjacency, bounds, epsilon, order, releases):
    mechanism = calibrate(
        name,
        epsilon=epsilon,
        order=order,
        releases=releases,
        adjacency=adjacency,
        min_smoothing=0.0,
        **bounds,
        **SIZES,
    )
    spent = Composition([(mechanism, releases)]).rdp(order)
    assert spent <= epsilon
    assert spent == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(20.0, 0.5), (1e-3, 1e-12), (5.0, 0.99)])
@pytest.mark.parametrize("name", CLASSES)
def test_extreme_budgets_are_not_exceeded(name, epsilon, delta):
    mechanism = calibrate(
        name, epsilon=epsilon, delta=delta, releases=3, min_smoothing=1e-3, **SIZES
    )
    assert Composition([(mechanism, 3)]).epsilon(delta) <= epsilon


@pytest.mark.parametrize(("order", "epsilon", "releases"), [(5.0, 0.1, 1), (2.0, 1.0, 14)])
def test_smoothing_stays_above_the_floor_that_a_renyi_budget_sets(order, epsilon, releases):
    bracket = 1 - np.exp(-(order - 1) * epsilon / releases)
    floor = -0.5 + np.sqrt(0.25 + order * (order - 1) / bracket)
    for n_samples in (1, 1e3, 1e6):
        mechanism = DirichletMechanism.calibrate(
            epsilon=epsilon, order=order, releases=releases, n_samples=n_samples, n_categories=5
        )
        assert mechanism.smoothing > floor > order - 1


@pytest.mark.parametrize("least", [0.0, 0.5, 30.0, 5000.0])
def test_the_least_smoothing_is_respected(least):
    mechanism = DirichletMechanism.calibrate(
        epsilon=1.0, delta=1e-5, releases=3, min_smoothing=least, **SIZES
    )
    assert mechanism.smoothing >= least * (1 - 1e-12)
    assert Composition([(mechanism, 3)]).epsilon(1e-5) <= 1.0
    for make in (GaussianMechanism, LaplaceMechanism):
        assert make.calibrate(epsilon=1.0, min_smoothing=least).smoothing == least


@pytest.mark.parametrize("name", [*CLASSES, "auto"])
@pytest.mark.parametrize("order", [None, 5.0])
def test_an_infinite_budget_means_no_noise_and_the_least_smoothing(name, order):
    mechanism = calibrate(name, epsilon=np.inf, order=order, min_smoothing=0.5, **SIZES)
    counts = np.array([4.0, 0.0, 1.0])
    np.testing.assert_array_equal(mechanism.release(counts), (counts + 0.5) / 6.5)


@pytest.mark.parametrize("budget", [{"delta": 1e-5}, {"order": 5.0}], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_noise_is_found_in_few_compositions(epsilon, budget, monkeypatch):
    looks, excess = [], Problem.excess
    monkeypatch.setattr(Problem, "excess", lambda *args: looks.append(args) or excess(*args))
    bounds = {"max_count": 3.0, "max_total": 150.0}
    # A size that no other test has, so that nothing is cached.
    calibrate("dirichlet", epsilon=epsilon, n_samples=4321, n_categories=50, **bounds, **budget)
    assert 10 < len(looks) < 27


@pytest.mark.parametrize("budget", [{"delta": 1e-5}, {"delta": 1e-9}, {"order": 5.0}])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_with_a_large_prior_two_or_three_compositions_suffice(epsilon, budget, monkeypatch):
    excesses = []
    excess = Problem.excess

    def recorded(problem, mechanisms):
        excesses.append(excess(problem, mechanisms))
        return excesses[-1]

    monkeypatch.setattr(Problem, "excess", recorded)
    words = CountTable(1e6, 500, 4, ContributionBound(2.0, 40.0), postprocess=True)
    classes = CountTable(1e4, 4, 1, ContributionBound(1.0), 3.0, postprocess=True)
    terms = {"delta": 1e-5, "order": None, "adjacency": "replace", "calibration": "exact"} | budget
    calibrate_tables([words, classes], mechanism="dirichlet", epsilon=epsilon, **terms)
    assert len(excesses) <= 3
    # A billionth of r is about ten times as much of delta.
    assert -1e-6 <= excesses[-1] <= 0


@pytest.mark.parametrize("root", [-3.7, 0.0, 12.0])
@pytest.mark.parametrize("off", [-8e-3, -1e-6, 0.0, 1e-6, 8e-3])
@pytest.mark.parametrize("slope", [0.7, 1.0, 1.5])
def test_the_largest_allowed_value_is_slightly_below_the_root(root, off, slope):
    def excess(x):
        return 20 * np.expm1(x - root)

    found = largest_allowed(excess, root + off, 1e-10, 20 * slope)
    assert 0.5e-9 <= root - found <= 5e-9
    assert largest_allowed(excess, root + off, 1e-10, 20 * slope, root - 1e-3) == root - 1e-3


def test_a_huge_budget_approaches_the_estimate_without_privacy():
    mechanism = DirichletMechanism.calibrate(epsilon=1e4, delta=0.1, min_smoothing=1.0, **SIZES)
    assert mechanism.smoothing == pytest.approx(1.0, rel=0.05)
    assert mechanism.r > 10


@pytest.mark.parametrize("calibration", ["exact", "algorithm1", "tcdp"])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
@pytest.mark.parametrize("order", [None, 5.0])
def test_no_tables_need_no_mechanisms(calibration, epsilon, order):
    budget = {"epsilon": epsilon, "delta": 1e-5, "order": order, "adjacency": "replace"}
    for name in ["dirichlet"] if calibration != "exact" else [*CLASSES, "auto"]:
        assert calibrate_tables([], mechanism=name, calibration=calibration, **budget) == []


@pytest.mark.parametrize("name", ["dirichlet", "gaussian"])
@pytest.mark.parametrize("budget", [{"delta": 1e-5}, {"order": 5.0}], ids=str)
def test_a_record_of_ten_million_counts_is_calibrated_quickly(name, budget):
    start = time.perf_counter()
    mechanism = calibrate(name, epsilon=1.0, max_count=1.5, max_total=1e7, **budget, **SIZES)
    assert time.perf_counter() - start < 10
    order = budget.get("order")
    spent = mechanism.epsilon(1e-5) if order is None else mechanism.rdp(order)
    assert 0.999 < spent <= 1.0


# --- The papers' calibrations ---------------------------------------------------


def test_algorithm1_with_an_even_split_costs_a_ninth_of_its_claim():
    mechanism = DirichletMechanism.calibrate(
        epsilon=1.0, delta=1e-5, releases=14, calibration="algorithm1", min_smoothing=0.0, **SIZES
    )
    assert mechanism.r == pytest.approx(0.0241, rel=0.01)
    assert mechanism.alpha == pytest.approx(13.6, abs=0.05)
    assert isinstance(mechanism.claim, RenyiDP)
    assert mechanism.claim.order == 131
    assert Composition([(mechanism, 14)]).epsilon(1e-5) == pytest.approx(0.11, abs=0.005)


PAPER_PROBLEMS = list(
    itertools.product(
        [{"order": 5.0}, {"delta": 1e-5}],
        ["replace", "add_remove"],
        [{}, {"max_count": 2.0, "max_total": 5.0}, {"floor": 3.0}],
    )
)


@pytest.mark.parametrize("calibration", ["algorithm1", "tcdp"])
@pytest.mark.parametrize(("budget", "adjacency", "bounds"), PAPER_PROBLEMS)
def test_the_papers_claims_are_at_least_the_exact_divergence(
    calibration, budget, adjacency, bounds
):
    mechanism = DirichletMechanism.calibrate(
        epsilon=0.5,
        releases=4,
        calibration=calibration,
        adjacency=adjacency,
        min_smoothing=0.0,
        **budget,
        **bounds,
        **SIZES,
    )
    claim = mechanism.claim
    if isinstance(claim, RenyiDP):
        assert mechanism.rdp(claim.order) <= claim.epsilon
    else:
        assert isinstance(claim, TruncatedConcentratedDP)
        orders = 1 + (claim.omega - 1) * np.linspace(0.001, 0.999, 50)
        assert np.all(mechanism.rdp(orders) <= claim.rho * orders)
    total = Composition([(mechanism, 4)])
    spent = total.rdp(5.0) if "order" in budget else total.epsilon(1e-5)
    assert spent <= 0.5


@pytest.mark.parametrize("budget", [{"order": 5.0}, {"delta": 1e-5}, {"order": 1.5}], ids=str)
@pytest.mark.parametrize("n_samples", [30, 3000, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_exact_calibration_is_never_worse_than_algorithm1(budget, n_samples, epsilon):
    sizes = {"n_samples": n_samples, "n_categories": 6, "n_rows": 3}
    make = {"epsilon": epsilon, "releases": 5, "min_smoothing": 0.1, **budget, **sizes}
    exact = DirichletMechanism.calibrate(**make)
    paper = DirichletMechanism.calibrate(calibration="algorithm1", **make)
    table = CountTable(**sizes)
    assert exact.expected_divergence(table) <= paper.expected_divergence(table) * (1 + 1e-9)


# --- Expected divergences and the choice by them --------------------------------


def simulated_divergence(mechanism, n_samples, n_categories, n_rows, draws=20_000):
    """E KL(p || Y) over p ~ Dirichlet(1/2) with counts n p, and its standard error."""
    rng = np.random.default_rng(5)
    p = np.maximum(rng.dirichlet(np.full(n_categories, 0.5), size=draws), 1e-300)
    # On the grid of counts; the rounding is negligible.
    grid = mechanism.contribution.grid
    counts = np.floor(n_samples / np.sqrt(n_rows) * p / grid) * grid
    released = mechanism.draw(counts, rng)
    values = (p * np.log(p / released)).sum(axis=1)
    return values.mean(), values.std() / np.sqrt(draws)


@pytest.mark.parametrize(
    "mechanism",
    [
        DirichletMechanism(r=0.05, alpha=2.0),
        DirichletMechanism(r=2.0, alpha=8.0),
        DirichletMechanism(r=0.001, alpha=0.05),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("n_samples", "d", "n_rows"), [(50, 2, 1), (1000, 5, 4), (10_000, 30, 2)])
def test_expected_divergence_of_dirichlet_releases_agrees_with_simulation(
    mechanism, n_samples, d, n_rows
):
    mean, error = simulated_divergence(mechanism, n_samples, d, n_rows)
    claim = mechanism.expected_divergence(CountTable(n_samples, d, n_rows))
    assert abs(claim - mean) < 5 * error + 1e-4 * mean


@pytest.mark.parametrize("make", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize(("n_samples", "d", "n_rows"), [(50, 2, 1), (1000, 5, 4), (10_000, 30, 2)])
def test_expected_divergence_of_additive_noise_is_close_to_simulation(
    make, scale, n_samples, d, n_rows
):
    mechanism = make(scale, smoothing=0.5)
    mean, error = simulated_divergence(mechanism, n_samples, d, n_rows)
    claim = mechanism.expected_divergence(CountTable(n_samples, d, n_rows))
    # The logarithm of a row's sum is expanded to second order: a few per cent.
    assert abs(claim - mean) < 5 * error + 0.1 * mean


def test_expected_divergence_without_noise_is_that_of_the_smoothed_mean():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.full(4, 0.5), size=200_000)
    smooth = (100 * p + 2.0) / 108
    values = (p * np.log(np.maximum(p, 1e-300) / smooth)).sum(axis=1)
    exact = DirichletMechanism(r=np.inf, alpha=np.inf, exact_smoothing=2.0)
    for mechanism in (exact, GaussianMechanism(0.0, 2.0), LaplaceMechanism(0.0, 2.0)):
        claim = mechanism.expected_divergence(CountTable(100, 4))
        assert abs(claim - values.mean()) < 5 * values.std() / np.sqrt(values.size)


def test_a_single_category_has_no_divergence():
    for mechanism in (DirichletMechanism(r=1.0, alpha=2.0), GaussianMechanism(1.0)):
        assert mechanism.expected_divergence(CountTable(100, 1)) == 0


def test_expected_divergence_follows_its_formula_at_a_known_row():
    # With two categories p is Beta(1/2, 1/2): the arcsine law, integrated by its quantiles.
    r, alpha, n = 0.3, 2.0, 40.0
    u = (np.arange(200_000) + 0.5) / 200_000
    p = np.sin(np.pi * u / 2) ** 2
    terms = 2 * p * (np.log(p) - digamma(r * n * p + alpha))
    expected = terms.mean() + digamma(r * n + 2 * alpha)
    claim = DirichletMechanism(r=r, alpha=alpha).expected_divergence(CountTable(n, 2))
    assert claim == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n_samples", [20, 2000, 200_000])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_auto_picks_the_least_expected_divergence(n_samples, epsilon):
    sizes = {"n_samples": n_samples, "n_categories": 8, "n_rows": 2}
    budget = {"epsilon": epsilon, "delta": 1e-6, "releases": 6}
    chosen = calibrate("auto", **budget, **sizes)
    others = {name: calibrate(name, **budget, **sizes) for name in CLASSES}
    best = min(others, key=lambda name: others[name].expected_divergence(CountTable(**sizes)))
    assert chosen == others[best]


@pytest.mark.parametrize("n_samples", [20, 3000, 10**6])
def test_no_random_feasible_point_beats_the_frontier(n_samples):
    sizes = {"n_samples": n_samples, "n_categories": 8, "n_rows": 2}
    found = DirichletMechanism.calibrate(
        epsilon=1.0, delta=1e-5, releases=6, min_smoothing=0.0, **sizes
    )
    least = found.expected_divergence(CountTable(**sizes))
    rng = np.random.default_rng(0)
    feasible = 0
    for _ in range(150):
        # Around the solution, and anywhere.
        spread = rng.choice([0.3, 3.0])
        r, alpha = (
            found.r * np.exp(spread * rng.normal()),
            found.alpha * np.exp(spread * rng.normal()),
        )
        other = DirichletMechanism(r=r, alpha=alpha)
        if Composition([(other, 6)]).delta(1.0) <= 1e-5:
            feasible += 1
            assert other.expected_divergence(CountTable(**sizes)) >= least * (1 - 1e-3)
    assert feasible > 20


def test_tables_of_different_sizes_share_one_mechanism():
    # The sum over all tables is minimised, in any order.
    several = {"epsilon": 1.0, "delta": 1e-5, "releases": 3, "n_samples": 2000}
    sizes = [2, 7, 30]
    found = DirichletMechanism.calibrate(n_categories=sizes, n_rows=[1, 4, 4], **several)
    assert found == DirichletMechanism.calibrate(
        n_categories=sizes[::-1], n_rows=[4, 4, 1], **several
    )

    def total(mechanism):
        return sum(
            mechanism.expected_divergence(CountTable(2000, d, rows))
            for d, rows in zip(sizes, [1, 4, 4], strict=True)
        )

    for d, rows in zip(sizes, [1, 4, 4], strict=True):
        alone = DirichletMechanism.calibrate(n_categories=d, n_rows=rows, **several)
        assert total(found) <= total(alone) * (1 + 1e-3)


def test_the_same_problem_is_solved_once():
    problem = {"epsilon": 0.77, "delta": 1e-5, "releases": 3, **SIZES}
    for name in CLASSES:
        assert calibrate(name, **problem) is calibrate(name, **problem)
