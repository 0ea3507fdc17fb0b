"""PrivateTableClassifier: its guarantee, its inputs, and its model."""

import pickle
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise, product
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdirdp import PrivacyAccountant, PrivacyLeakWarning, PrivateTableClassifier, Schema
from skdirdp._contributions import UNWEIGHTED, Weights, column_blocks, sum_vectors
from skdirdp.base import select_categories
from skdirdp.mechanisms import GaussianMechanism
from skdirdp.mechanisms.splitting import calibrate_gaussian, noise_for_share
from skdirdp.mechanisms.tables import ContributionBound
from skdirdp.table_classifier import classifier as classifier_module
from skdirdp.table_classifier import model as model_module
from skdirdp.table_classifier import releases as releases_module
from skdirdp.table_classifier.model import (
    _COUPLING,
    ClassTables,
    LogitBins,
    NewtonStep,
    calibrate,
    shrink_counts,
)
from skdirdp.table_classifier.releases import (
    RESIDUAL_NORM,
    Plan,
    RecordCounts,
    Releases,
    calibration_cells,
    residual_vectors,
    sampled_share,
)

from .test_attacks import DELTA, EPSILON, best_accuracy, claim_holds
from .transcripts import fit_beside, listening, log_likelihood_ratio, squared_distance

INF = float("inf")
SCHEMA = Schema({"age": (0, 99), "ward": ["A", "B", "C"], "dose": (0.0, 10.0), "ill": [0, 1]})


NAMES = SCHEMA.replace(columns={**SCHEMA.columns, "ward": Schema.names()})


def visits(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(0, 100, n), rng.gamma(1.0, 2.0, n)
    ward = rng.choice(["A", "B", "C"], n)
    score = (age - 50) / 20 + 1.5 * (ward == "B") - dose / 3
    ill = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return pd.DataFrame({"age": age, "ward": ward, "dose": dose, "ill": ill})


def fitted(table=None, y="ill", seed=0, sample_weight=None, **options):
    options = {"schema": SCHEMA, "random_state": seed, **options}
    table = visits() if table is None else table
    return PrivateTableClassifier(**options).fit(table, y, sample_weight=sample_weight)


pytestmark = pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")

# scikit-learn -------------------------------------------------------------------------

NOISE_PER_RECORD = (
    "wants weight 2 to equal a record given twice; the noise depends on the number of "
    "records, and must hide a weight of 2 but not two records at once"
)


def expected_failures(estimator):
    if np.isinf(estimator.epsilon):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": NOISE_PER_RECORD}


@parametrize_with_checks(
    [PrivateTableClassifier(epsilon=epsilon) for epsilon in (INF, 1.0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# Sensitivity ----------------------------------------------------------------------------


def neighbours(relation):
    """All pairs of small lists of records (cells of two columns, label) that are neighbours."""
    records = list(product(range(2), range(3), range(2)))
    if relation == "add_remove":
        yield from (([], [record]) for record in records)
    else:
        yield from (([a], [b]) for a, b in product(records, records))


def release_residual_sums(records, scores):
    """The exact residual sums of some records, with any scores of their classes."""
    if not records:
        return np.zeros((5, 3))
    columns = [np.array([r[k] for r in records]) for k in range(2)]
    vectors = residual_vectors(
        np.array([scores[r[:2]] for r in records]), np.array([r[2] for r in records])
    )
    return sum_by_state(vectors, columns, [2, 3], RESIDUAL_NORM, UNWEIGHTED)


def sum_by_state(vectors, columns, sizes, norm, weights, parts=1):
    """Sums of vectors that are given in several parts, for columns in one block."""
    borders = np.linspace(0, len(vectors), parts + 1).astype(int)
    slices = [slice(a, b) for a, b in pairwise(borders)]
    given = ((rows, vectors[rows]) for rows in slices)
    return sum_vectors(given, vectors.shape[1], column_blocks(columns, sizes), norm, weights)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_noise_of_residual_sums_covers_the_largest_distance_of_neighbours(relation):
    """Scores are searched for the worst model: sure, and wrong, in every combination."""
    largest = 0.0
    for signs in product([-40.0, 40.0], repeat=6):
        scores = {
            cell: np.array([0.0, sign])
            for cell, sign in zip(product(range(2), range(3)), signs, strict=True)
        }
        for a, b in neighbours(relation):
            change = release_residual_sums(a, scores) - release_residual_sums(b, scores)
            largest = max(largest, float(np.linalg.norm(change)))
    whole = calibrate_gaussian(1.0, 1e-5, None, relation, ContributionBound(1.0))
    noise = noise_for_share(whole, 1.0, RESIDUAL_NORM * np.sqrt(2), signed=True)
    one = np.sqrt(whole.contribution.squared_norm(relation)) / whole.sigma
    claimed = one * noise.sigma
    assert largest <= claimed
    # A claim half as large would fail.
    assert largest > 0.8 * claimed


def test_norm_of_a_residual_vector_is_at_most_its_bound():
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 5, 10):
        scores = rng.normal(size=(5000, n_classes)) * rng.choice([0.1, 1, 10, 100], (5000, 1))
        vectors = residual_vectors(scores, rng.integers(n_classes, size=5000))
        assert np.linalg.norm(vectors, axis=1).max() <= RESIDUAL_NORM * (1 + 1e-12)
    wrong = residual_vectors(np.array([[50.0, 0.0]]), np.array([1]))
    assert np.linalg.norm(wrong) == pytest.approx(RESIDUAL_NORM)


def test_sums_of_vectors_are_exact_multiples_of_the_grid_in_any_order():
    rng = np.random.default_rng(1)
    vectors = residual_vectors(rng.normal(size=(1000, 3)), rng.integers(3, size=1000))
    columns = [rng.integers(4, size=1000), rng.integers(2, size=1000)]
    weights = Weights.from_values(rng.random(1000) * 3, 3.0)
    sums = sum_by_state(vectors, columns, [4, 2], RESIDUAL_NORM, weights)
    grid = ContributionBound(3.0).grid
    assert np.array_equal(sums / grid, np.rint(sums / grid))
    order = rng.permutation(1000)
    again = sum_by_state(
        vectors[order],
        [column[order] for column in columns],
        [4, 2],
        RESIDUAL_NORM,
        Weights.from_values(weights.values[order], 3.0),
        parts=3,
    )
    np.testing.assert_array_equal(sums, again)
    exact = sum_by_state(
        vectors, columns, [4, 2], RESIDUAL_NORM, Weights(weights.values, 3.0, exact=True)
    )
    np.testing.assert_allclose(sums, exact, atol=1000 * grid + 1e-5)


def test_vectors_beyond_their_norm_are_refused():
    vectors, columns = np.array([[1.5, 0.0]]), [np.array([0])]
    with pytest.raises(AssertionError, match="more than its bound"):
        sum_by_state(vectors, columns, [1], 1.0, UNWEIGHTED)
    with pytest.raises(AssertionError, match="more than its bound"):
        sum_by_state(np.full((1, 2), np.nan), columns, [1], 1.0, UNWEIGHTED)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_noise_of_a_share_follows_from_the_norm(relation, share):
    whole = GaussianMechanism(3.0, adjacency=relation)
    assert noise_for_share(whole, share, 4.0).sigma == pytest.approx(12 / np.sqrt(share))
    signed = noise_for_share(whole, share, 4.0, signed=True).sigma
    changed = 2 if relation == "replace" else 1
    assert signed == pytest.approx(12 * np.sqrt(changed / share))


def test_each_record_has_one_cell_of_the_calibration_table():
    rng = np.random.default_rng(2)
    for n_classes in (2, 4):
        scores, labels = rng.normal(size=(500, n_classes)), rng.integers(n_classes, size=500)
        for wide in (True, False):
            spread = 1.0 if wide else None
            bins = LogitBins.from_shares(np.full(n_classes, 1 / n_classes), spread)
            cells = calibration_cells(scores, labels, bins.edges)
            size = len(bins.logits)
            assert cells.shape == (500,)
            assert 0 <= cells.min() < size <= cells.max() < 2 * size


# Steps --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 100, 10_000, 1e9])
@pytest.mark.parametrize("spent", [0.0, 0.01])
@pytest.mark.parametrize("has_records", [True, False])
def test_shares_sum_to_the_budget(n, spent, has_records):
    for sigma, has_numbers in product([0.0, 4.0], [True, False]):
        options = {"has_numbers": has_numbers, "has_records": has_records, "spent": spent}
        first = Plan.from_sizes(n, sigma, 20, 2, **options)
        plan = Plan.from_sizes(n, sigma, 20, 2, **options, class_shares=np.array([0.95, 0.05]))
        assert plan.labels == first.labels  # it was spent before the shares were known
        shares = [plan.bins, plan.classes, plan.calibration, plan.pairs, plan.residuals]
        assert sum(shares) + plan.labels + spent == pytest.approx(1.0)
        assert min(shares) >= 0
        assert plan.classes > 0.4


def test_steps_cannot_use_more_than_the_budget_or_precede_the_charge():
    releases = Releases(GaussianMechanism(2.0), ContributionBound(), 3)
    with pytest.raises(AssertionError, match="before it was charged"):
        releases.release_tables([np.zeros(3)], 0.5)
    releases = Releases(GaussianMechanism(2.0), ContributionBound(), 3)
    releases.start(np.random.default_rng(0))
    releases.release_tables([np.zeros(3)], 0.7)
    with pytest.raises(AssertionError, match="more than the whole budget"):
        releases.release_tables([np.zeros(3)], 0.7)


def test_class_tables_are_released_again_if_there_is_nothing_to_correct(monkeypatch):
    """All of the budget is used, with one more step in place of pairs and residual sums."""
    counted = []
    monkeypatch.setattr(RecordCounts, "count_pairs", lambda *_: counted.append("pairs"))
    table = visits(5000)
    table["ill"] = np.random.default_rng(1).integers(2, size=5000)
    less = table.iloc[1:].reset_index(drop=True)
    cost, n_steps = distance_of_transcripts(less, table, epsilon=0.1, adjacency="add_remove")
    assert not counted
    assert n_steps == 6  # size, class counts, bins, class tables twice, calibration
    assert 0.9 < cost <= 1.0


def test_two_releases_are_as_accurate_as_one_with_the_sum_of_their_shares():
    rng = np.random.default_rng(0)
    exact = [np.full((2, 50), 100.0)] * 40
    first, second = ([t + rng.normal(0, s, t.shape) for t in exact] for s in (10.0, 20.0))
    labels = (np.array([5000.0, 5000.0]), 10.0)
    both = ClassTables.from_noisy(first, 10.0, labels).combined(second, 20.0, labels)
    assert both.sigma == pytest.approx(1 / np.sqrt(1 / 10**2 + 1 / 20**2))
    assert np.std(np.array(both.noisy) - 100) == pytest.approx(both.sigma, rel=0.05)


def test_evidence_is_standardised_without_dependence_and_large_with_it():
    rng = np.random.default_rng(0)
    found = []
    for gap in (0, 60):
        exact = np.array([[400.0, 400.0], [400.0 - gap, 400.0 + gap]])
        repeats = [
            ClassTables.from_noisy([rng.poisson(exact) + rng.normal(0, 20, (2, 2))], 20.0)
            for _ in range(300)
        ]
        found.append(np.array([tables.evidence() for tables in repeats]))
    assert abs(found[0].mean()) < 0.3
    assert 0.6 < found[0].std() < 1.4
    assert found[1].mean() > 2


def worst_neighbours(adjacency):
    """Two tables: one record has the label that the others exclude.

    Under replacement, the other table has a record that differs in all columns and has the other
    label, which is wrong too.
    """
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=3000)
    ages = np.where(ill, 80, 20) + rng.integers(-5, 6, 3000)
    others = pd.DataFrame({"age": ages, "ward": np.where(ill, "A", "B"), "dose": 2.0 + 6 * ill})
    others["ill"] = ill
    wrong = pd.DataFrame({"age": [80], "ward": ["A"], "dose": [8.0], "ill": [0]})
    opposite = pd.DataFrame({"age": [20], "ward": ["B"], "dose": [2.0], "ill": [1]})
    tables = {
        "add_remove": [others, pd.concat([others, wrong])],
        "replace": [pd.concat([others, wrong]), pd.concat([others, opposite])],
    }
    return [table.reset_index(drop=True) for table in tables[adjacency]]


def distance_of_transcripts(first, second, **options):
    """The squared distance of two data sets in all steps, relative to that of the claim."""
    model = PrivateTableClassifier(SCHEMA, **options)
    model, _, steps, replayed = fit_beside(model, first, second, y="ill")
    ((whole, _),) = model.privacy_.mechanisms
    allowed = whole.contribution.squared_norm(whole.adjacency) / whole.sigma**2
    return squared_distance(steps, replayed) / allowed, len(steps)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_all_steps_together_cost_no_more_than_the_claim_and_nearly_as_much(adjacency):
    """A claim half as large would fail, with the worst record among others."""
    tables = worst_neighbours(adjacency)
    for epsilon in (1.0, 10.0):
        cost, n_steps = distance_of_transcripts(*tables, epsilon=epsilon, adjacency=adjacency)
        assert n_steps >= 6
        # Under replacement, opposite residuals need all other columns in common.
        assert (0.8 if adjacency == "replace" else 0.9) < cost <= 1.0


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("seed", range(4))
def test_an_odd_record_costs_no_more_than_the_claim(adjacency, seed):
    rng = np.random.default_rng(seed)
    table = visits(400, seed)
    odd = {"age": [None, "x", 1e300, -5][seed], "ward": [None, "Z", "A", 3][seed]}
    odd |= {"dose": [np.inf, -np.inf, np.nan, "1.5"][seed], "ill": [1, 0, None, "?"][seed]}
    row = pd.DataFrame([odd], index=[len(table)]).astype(object)
    more = pd.concat([table.astype(object), row])
    first = table.astype(object)
    if adjacency == "replace":
        first = pd.concat([table, table.sample(1, random_state=seed)]).astype(object)
    epsilon = float(rng.choice([0.3, 3.0, 30.0]))
    cost, _ = distance_of_transcripts(first, more, epsilon=epsilon, adjacency=adjacency)
    assert cost <= 1.0


@pytest.mark.parametrize("bound", [0.01, 3.0])
def test_weights_and_persons_cost_no_more_than_the_claim(bound):
    """The size is released too. A record counts once there, whatever its weight is."""
    table = visits(1000).assign(person=np.arange(1000) // 2)
    schema = SCHEMA.replace(
        columns={**SCHEMA.columns, "person": Schema.key()}, person="person", max_rows=2
    )
    without = table[table["person"] != 7]
    weight = np.full(1000, bound)
    for adjacency in ("add_remove", "replace"):
        first = without
        if adjacency == "replace":
            other = visits(2, seed=9).assign(person=7, ward="C")
            first = pd.concat([without, other])
        first = first.reset_index(drop=True)
        options = {"epsilon": 20.0, "adjacency": adjacency, "max_weight": bound}
        model = PrivateTableClassifier(schema, **options)
        with listening() as steps:
            model.fit(table, y="ill", sample_weight=weight)
        again = PrivateTableClassifier(schema, **options)
        with listening([drawn for *_, drawn in steps]) as replayed:
            again.fit(first, y="ill", sample_weight=weight[: len(first)])
        ((whole, _),) = model.privacy_.mechanisms
        allowed = whole.contribution.squared_norm(whole.adjacency) / whole.sigma**2
        cost = squared_distance(steps, replayed) / allowed
        assert 0.2 < cost <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("factor", [1, 2])
def test_an_attack_on_all_steps_attains_the_claim_and_no_more(adjacency, factor):
    """The attacker sees all noisy numbers; no attack on functions of these can be better."""
    tables = worst_neighbours(adjacency)

    def play(first):
        model = PrivateTableClassifier(
            SCHEMA, epsilon=factor * EPSILON, delta=DELTA, adjacency=adjacency
        )
        truth, other = tables if first else tables[::-1]
        _, _, steps, replayed = fit_beside(model, truth, other, y="ill")
        return (log_likelihood_ratio(steps, replayed) > 0) == first

    def claimed(epsilon):
        charged = calibrate_gaussian(epsilon, DELTA, None, adjacency, ContributionBound())
        return best_accuracy(float(charged.delta(0.0)))

    # Under replacement, these neighbours attain 0.88 of the squared distance of the claim.
    reached = claimed(1.8 * EPSILON)
    holds = claim_holds(play, claimed(EPSILON), reached, np.random.default_rng(factor))
    assert holds == (factor == 1)


# The fit ------------------------------------------------------------------------------


def test_scores_are_good_with_little_noise():
    train, test = visits(20_000), visits(5000, seed=1)
    model = fitted(train, epsilon=3.0)
    probabilities = model.predict_proba(test)
    best = fitted(train, epsilon=INF).predict_proba(test)
    assert roc_auc_score(test["ill"], probabilities[:, 1]) > 0.8
    assert log_loss(test["ill"], probabilities) < log_loss(test["ill"], best) + 0.02


def test_few_records_predict_about_the_class_shares():
    train, test = visits(200), visits(5000, seed=1)
    losses = [
        log_loss(test["ill"], fitted(train, epsilon=0.1, seed=s).predict_proba(test))
        for s in range(10)
    ]
    assert np.mean(losses) < 0.75  # that of the class shares is 0.69


def nearly_determined(n=6000, seed=0):
    """A table whose first columns nearly determine one of six classes, some of them rare."""
    rng = np.random.default_rng(seed)
    wind = rng.gamma(3.0, 15.0, n)
    level = np.searchsorted([20, 34, 64], wind)
    other = np.where(rng.random(n) < 0.03, 4 + (wind > 40), level)
    pressure = 1010 - 0.8 * wind + rng.normal(0, 4, n)
    return pd.DataFrame({"wind": wind, "pressure": pressure, "x": rng.random(n), "kind": other})


def test_steps_that_are_too_long_are_shortened(monkeypatch):
    schema = Schema(
        {"wind": (0.0, 200.0), "pressure": (850.0, 1050.0), "x": (0.0, 1.0), "kind": range(6)}
    )
    train, test = nearly_determined(), nearly_determined(seed=1)

    def loss():
        models = [
            fitted(train, "kind", schema=schema, epsilon=10.0, seed=seed) for seed in range(3)
        ]
        return np.mean(
            [log_loss(test["kind"], m.predict_proba(test), labels=m.classes_) for m in models]
        )

    # With the bound on the Hessian, steps are rarely too long.
    monkeypatch.setattr(model_module, "_COUPLING", 0.5)
    shortened = loss()
    monkeypatch.setattr(NewtonStep, "best_length", lambda self, *_: np.ones(6))
    assert shortened < loss() - 0.005


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_curvature_of_single_classes_bounds_the_hessian(n_classes):
    rng = np.random.default_rng(0)
    for p in rng.dirichlet(np.full(n_classes, 0.3), 200):
        hessian = np.diag(p) - np.outer(p, p)
        gap = np.linalg.eigvalsh(_COUPLING * np.diag(p * (1 - p)) - hessian)
        assert gap.min() > -1e-12


def shares_of_two_data_sets(m, n=421, j=55):
    """Class shares before and after the labels of m records are replaced."""
    return [np.array([x, n - x]) / n for x in (j, j + m)]


def lower_bound(m, epsilon, delta):
    low, high = shares_of_two_data_sets(m)
    middle = (low + high) / 2
    divergence = (low @ np.log(low / middle) + high @ np.log(high / middle)) / 2
    failure = delta * np.expm1(m * epsilon) / np.expm1(epsilon)
    return 2 * (1 - failure) / (1 + np.exp(m * epsilon)) * divergence


def test_the_stated_lower_bound_on_the_loss_of_class_shares():
    """Section 19.3 of docs/theory.md."""
    bounds = {m: lower_bound(m, 0.1, 1e-5) for m in range(1, 100)}
    assert max(bounds, key=bounds.get) == 21
    assert bounds[21] == pytest.approx(0.0005, abs=5e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("m", [1, 5, 21])
def test_the_best_predictions_from_a_private_count_are_not_below_the_bound(epsilon, m):
    """Geometric noise is (epsilon, 0)-DP, and its outputs can be enumerated."""
    low, high = shares_of_two_data_sets(m)
    span = int(100 / epsilon)
    outputs = np.arange(-span, span + m + 1)
    first, second = (np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(outputs - x)) for x in (0, m))
    overlap = np.minimum(first, second).sum()
    bound = 2 / (1 + np.exp(m * epsilon))
    assert overlap == pytest.approx(bound) if m == 1 else overlap > bound
    # No prediction has a smaller sum of both losses than this mean.
    weight = (second / (first + second))[:, np.newaxis]
    predicted = (1 - weight) * low + weight * high
    losses = [
        probability @ (np.log(shares / predicted) @ shares)
        for probability, shares in ((first, low), (second, high))
    ]
    assert lower_bound(m, epsilon, 0.0) <= np.mean(losses) <= max(losses)


@pytest.mark.parametrize("missing", [False, True])
def test_every_fine_bin_is_in_one_cell_of_the_released_histogram(missing):
    kind = Schema.numbers(0.0, 1000.0, whole=False, missing=missing)
    column = releases_module.Column("x", kind)
    for n_bins in (4, 7, 32):
        cells = column.merge_fine_bins(n_bins)
        n_cells = min(n_bins**2, 256)
        assert len(cells) == column.n_codes
        assert cells.max() + 1 == n_cells + missing
        assert (np.diff(cells) >= 0).all()
        assert set(cells.tolist()) == set(range(n_cells + missing))
        even = np.ones(n_cells + missing)
        bins = column.bins_from_histogram(even, n_bins)
        assert len(bins) == column.n_codes
        assert bins.max() + 1 == n_bins + missing


def test_shares_of_noisy_classes_are_nearer_to_the_truth_than_clipped_counts():
    rng = np.random.default_rng(0)
    for counts in ([490, 210], [366, 55], [443, 227, 361], [200, 150, 150, 100]):
        truth = np.array(counts) / sum(counts)
        losses = []
        for noise in rng.normal(0, 60, (400, len(counts))):
            clipped = np.maximum(counts + noise, 0.5)
            shrunk = shrink_counts(counts + noise, 60.0**2)
            assert (shrunk > 0).all()
            losses.append([-truth @ np.log(each / each.sum()) for each in (clipped, shrunk)])
        clipped, shrunk = np.mean(losses, axis=0)
        assert shrunk < clipped
    exact = np.array([490.0, 210.0, 3.0])
    np.testing.assert_allclose(shrink_counts(exact, 1e-6), exact, rtol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("spread", [None, 1.0, 24.0])
def test_calibration_follows_the_evidence_and_otherwise_the_prior(n_classes, spread):
    shares = np.full(n_classes, 1 / n_classes)
    bins = LogitBins.from_shares(shares, spread)
    model = fitted(epsilon=INF)._model_
    model = replace(model, intercept=np.log(shares), effects=[np.eye(n_classes)])
    truth = 0.7 / bins.unit
    p = 1 / (1 + np.exp(-bins.centre - truth * bins.distances))
    exact = 10_000 * np.array([1 - p, p])
    for slope in (0.02, 0.9):
        scale = calibrate(model, exact, 1.0, bins, slope, shares).effects[0][0, 0]
        assert scale == pytest.approx(truth, rel=0.03)
        scale = calibrate(model, exact, 1e7, bins, slope, shares).effects[0][0, 0]
        assert scale == pytest.approx(slope, rel=0.5)


def test_columns_that_are_alike_are_calibrated_without_pairs(monkeypatch):
    """Their scores are far beyond the wide bins, and would be scaled too little."""
    monkeypatch.setattr(classifier_module, "_MIN_EVIDENCE", INF)
    monkeypatch.setattr(classifier_module, "_SURE_SIGNAL", INF)
    rng = np.random.default_rng(0)
    n, n_columns, n_classes = 6000, 30, 4
    kind = rng.integers(n_classes, size=n)
    base = np.where(rng.random(n) < 0.7, kind, rng.integers(n_classes, size=n))
    keep = rng.random((n, n_columns)) < 0.97
    codes = np.where(keep, base[:, np.newaxis], rng.integers(n_classes, size=(n, n_columns)))
    table = pd.DataFrame(codes, columns=[f"x{k}" for k in range(n_columns)]).assign(kind=kind)
    columns = {name: list(range(n_classes)) for name in table}
    model = fitted(table[:3000], "kind", schema=Schema(columns), epsilon=2.0)
    test = table[3000:]
    loss = log_loss(test["kind"], model.predict_proba(test))
    right = 0.7 + 0.3 / n_classes
    best = -right * np.log(right) - (1 - right) * np.log((1 - right) / (n_classes - 1))
    assert loss < best + 0.05
    monkeypatch.setattr(ClassTables, "spread", lambda *_: 0.0)
    model = fitted(table[:3000], "kind", schema=Schema(columns), epsilon=2.0)
    assert log_loss(test["kind"], model.predict_proba(test)) > best + 0.2


def test_accountant_is_charged_once_and_before_noise():
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5, adjacency="replace")
    fitted(accountant=accountant, epsilon=1.0)
    assert len(accountant.history()) == 1
    with pytest.raises(Exception, match="does not fit into the limit"):
        fitted(accountant=accountant, epsilon=1.0)


def test_errors_come_before_the_charge():
    table = visits(100)
    for wrong in (
        {"y": "ward_of_birth"},
        {"y": "age"},
        {"table": table.assign(extra=1)},
        {"schema": Schema({"ward": Schema.names(), "ill": [0, 1]})},
        {"schema": NAMES, "order": 8.0},
        {"schema": NAMES, "y": "ward"},
    ):
        accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5, adjacency="replace")
        with pytest.raises((ValueError, TypeError)):
            fitted(**{"table": table, "accountant": accountant, **wrong})
        assert len(accountant.history()) == 0


def test_nothing_exact_is_left_in_the_model():
    model = fitted(epsilon=0.5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict_proba(visits(50)), again.predict_proba(visits(50)))
    assert len(pickle.dumps(model)) < 100_000
    arrays = [value for value in vars(model).values() if isinstance(value, np.ndarray)]
    assert max(array.size for array in arrays) < 10


def test_missing_values_and_unknown_categories_are_allowed():
    model = fitted()
    odd = pd.DataFrame(
        {"age": [None, 500, "x"], "ward": ["Z", None, "B"], "dose": [1, np.inf, None]}
    )
    probabilities = model.predict_proba(odd)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.predict(odd).shape == (3,)


def test_effects_are_labelled_and_centred():
    model = fitted(epsilon=3.0)
    assert list(model.coef_) == ["age", "ward", "dose"]
    assert list(model.coef_["ward"].index) == ["A", "B", "C", "(missing)"]
    assert model.coef_["ward"][1].idxmax() == "B"
    for name, effects in model.coef_.items():
        np.testing.assert_allclose(effects.mean(axis=1), 0, atol=1e-9)
        assert model.coef_std_[name].shape == effects.shape
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 0


def test_standard_deviations_are_about_those_of_repeated_fits():
    table = visits(6000).assign(age=lambda t: t["age"] // 10, dose=lambda t: t["dose"] // 2)
    tens = Schema.categories(list(range(10)), missing=False)
    schema = SCHEMA.replace(columns={**SCHEMA.columns, "age": tens, "dose": (0, 9)})
    models = [fitted(table, schema=schema, seed=seed) for seed in range(30)]
    effects = np.array([model.coef_["age"][1] for model in models])
    stated = np.mean([model.coef_std_["age"][1] for model in models], axis=0)
    # The standard error of 30 standard deviations is 13%; the approximation is cruder.
    assert 0.6 < np.median(stated / effects.std(axis=0)) < 1.7


def test_labels_may_be_an_array():
    table = visits()
    X, y = table.drop(columns="ill"), np.where(table["ill"], "yes", "no")
    model = PrivateTableClassifier(SCHEMA, classes=["no", "yes"], random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), fitted().predict_proba(X), atol=1e-9)
    assert set(model.predict(X)) == {"no", "yes"}


def test_classes_and_bounds_from_the_data_are_reported():
    X, y = visits()[["age", "dose"]].to_numpy(), visits()["ill"].to_numpy()
    with pytest.warns(PrivacyLeakWarning, match="schema, classes"):
        model = PrivateTableClassifier().fit(X, y)
    assert model.privacy_.not_covered == ("schema", "classes")


def test_records_without_a_label_are_not_counted():
    table = visits()
    more = pd.concat([table, table.head(500).assign(ill=None)], ignore_index=True)
    options = {"adjacency": "add_remove", "n_samples": 4000.0}
    a, b = fitted(table, **options), fitted(more, **options)
    np.testing.assert_array_equal(a.predict_proba(table), b.predict_proba(table))


def test_weights_of_one_change_nothing_and_a_bound_scales_the_noise():
    table = visits()
    ones = fitted(table, max_weight=1.0)
    model = PrivateTableClassifier(SCHEMA, max_weight=1.0, random_state=0)
    model.fit(table, "ill", sample_weight=np.ones(len(table)))
    np.testing.assert_array_equal(ones.predict_proba(table), model.predict_proba(table))
    double = fitted(table, max_weight=2.0)
    assert double.privacy_.mechanism.sigma == pytest.approx(2 * ones.privacy_.mechanism.sigma)


def test_persons_scale_the_noise_and_are_limited():
    table = visits().assign(person=np.arange(4000) // 4)
    schema = SCHEMA.replace(
        columns={**SCHEMA.columns, "person": Schema.key()}, person="person", max_rows=2
    )
    model = fitted(table, schema=schema)
    assert model.privacy_.unit.max_rows == 2
    alone = fitted(adjacency="add_remove").privacy_.mechanism.sigma
    persons = fitted(table, schema=schema, adjacency="add_remove").privacy_.mechanism.sigma
    assert persons == pytest.approx(2 * alone)
    given = PrivateTableClassifier(SCHEMA, max_rows=2, random_state=0)
    given.fit(table.drop(columns="person"), "ill", groups=table["person"])
    first = table.groupby("person").head(2)
    exact = fitted(first, schema=schema, epsilon=INF)
    np.testing.assert_allclose(
        fitted(table, schema=schema, epsilon=INF).predict_proba(table), exact.predict_proba(table)
    )


def test_containers_give_the_same_model(tmp_path):
    import dask.dataframe as dd
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    table = visits()
    expected = fitted(table).predict_proba(table)
    arrow = pa.Table.from_pandas(table)
    pq.write_table(arrow, tmp_path / "visits.parquet")
    frame = pl.from_pandas(table)
    for container in (
        arrow,
        frame,
        frame.lazy(),
        ds.dataset(tmp_path / "visits.parquet"),
        dd.from_pandas(table, npartitions=3),
        duckdb.from_arrow(arrow),
    ):
        model = fitted(container)
        np.testing.assert_array_equal(model.predict_proba(table), expected, type(container))
    lazy = fitted(table).predict_proba(dd.from_pandas(table, npartitions=2)).compute()
    np.testing.assert_array_equal(lazy, expected)


def test_more_classes_and_dates():
    rng = np.random.default_rng(0)
    n = 6000
    label = rng.choice(["a", "b", "c"], n, p=[0.9, 0.07, 0.03])
    code = {"a": 0, "b": 1, "c": 2}
    level = np.array([code[x] for x in label])
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(level * 60 + rng.integers(0, 60, n), "D")
    table = pd.DataFrame({"day": day, "noise": rng.random(n), "label": label})
    schema = Schema(
        {"day": ("2020-01-01", "2020-12-31"), "noise": (0.0, 1.0), "label": ["a", "b", "c"]}
    )
    model = fitted(table, y="label", schema=schema, epsilon=3.0)
    assert np.mean(model.predict(table) == label) > 0.94
    assert model.decision_function(table).shape == (n, 3)
    assert "2020-01-01" in str(model.coef_["day"].index[0])


def counted_tables(table, schema, y):
    """The tables of `fit_counts`, counted with the encoder of the schema."""
    names = [name for name in schema.features if name != y]
    codes = pd.DataFrame(
        {n: schema[n].bin(schema.encode_column(n, table[n])) for n in schema.features}
    )

    def crosstab(a, b):
        shape = (schema[a].n_cells, schema[b].n_cells)
        counts = np.zeros(shape if a != y else (len(schema[y].states), shape[1]))
        np.add.at(counts, (codes[a], codes[b]), 1)
        return counts

    pairs = {(a, b): crosstab(a, b) for i, a in enumerate(names) for b in names[i + 1 :]}
    return {"class_count": {n: crosstab(y, n) for n in names}, "pair_count": pairs}


def test_counts_give_a_similar_model_to_records():
    table, test = visits(20_000), visits(5000, seed=1)
    tables = counted_tables(table, SCHEMA, "ill")
    model = PrivateTableClassifier(SCHEMA, random_state=0)
    model.fit_counts(tables, y="ill", n_samples=len(table))
    by_counts = roc_auc_score(test["ill"], model.predict_proba(test)[:, 1])
    by_records = roc_auc_score(test["ill"], fitted(table).predict_proba(test)[:, 1])
    assert by_counts > by_records - 0.03
    assert model.privacy_.mechanism == fitted(table).privacy_.mechanism


def test_wrong_counts_are_refused_before_the_charge():
    tables = counted_tables(visits(), SCHEMA, "ill")
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5, adjacency="replace")
    model = PrivateTableClassifier(SCHEMA, accountant=accountant)
    for change in (
        {"class_count": {**tables["class_count"], "age": np.ones((2, 3))}},
        {"class_count": {**tables["class_count"], "age": tables["class_count"]["age"] + 0.5}},
        {"pair_count": {}},
    ):
        with pytest.raises(ValueError, match="must"):
            model.fit_counts({**tables, **change}, y="ill", n_samples=4000)
    assert len(accountant.history()) == 0


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("declared", [SCHEMA, NAMES])
def test_exported_models_predict_the_same(n_classes, declared):
    table = visits()
    if n_classes == 3:
        table["ill"] = np.where(table["dose"] > 4, 2, table["ill"])
    schema = declared.replace(columns={**declared.columns, "ill": list(range(n_classes))})
    model = fitted(table, schema=schema)
    odd = pd.DataFrame(
        {"age": [None, 500.0, -3.0], "ward": ["Z", None, "B"], "dose": [1.0, 99.0, None]}
    )
    if declared is NAMES:  # exported models have no category for missing names
        odd["ward"] = ["Z", "Y", "B"]
    new = pd.concat([table.drop(columns="ill"), odd], ignore_index=True)
    exported = model.to_sklearn()
    np.testing.assert_allclose(exported.predict_proba(new), model.predict_proba(new), atol=1e-9)
    skops = pytest.importorskip("skops.io")
    file = skops.dumps(exported)
    asked = skops.get_untrusted_types(data=file)
    # scikit-learn 1.6 has a list of its own.
    assert set(asked) <= {"numpy.dtype", "sklearn.compose._column_transformer._RemainderColsList"}
    loaded = skops.loads(file, trusted=asked)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


@pytest.mark.parametrize("schema", [SCHEMA, NAMES])
def test_exported_models_run_in_onnx(schema):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    table = visits()
    model = fitted(table, schema=schema)
    new = table.drop(columns="ill").astype({"age": np.float32, "dose": np.float32})
    kinds = skl2onnx.common.data_types
    types = [
        (n, kinds.StringTensorType([None, 1]) if n == "ward" else kinds.FloatTensorType([None, 1]))
        for n in new
    ]
    onnx = skl2onnx.to_onnx(model.to_sklearn(), initial_types=types, options={"zipmap": False})
    session = onnxruntime.InferenceSession(
        onnx.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {n: new[n].to_numpy().reshape(-1, 1) for n in new}
    probabilities = session.run(None, feed)[1]
    near = np.abs(probabilities - model.predict_proba(table)).max(axis=1) < 1e-4
    assert near.mean() > 0.999  # float32 may move a number over a border


def test_pipelines_refuse_it():
    from skdirdp import PrivatePipeline

    pipe = PrivatePipeline([("model", PrivateTableClassifier(SCHEMA))], epsilon=1.0)
    with pytest.raises(TypeError, match="PrivatePipeline"):
        pipe.fit(visits().drop(columns="ill"), visits()["ill"].to_numpy())


# Sampled records ----------------------------------------------------------------------


@pytest.fixture
def small_samples(monkeypatch):
    """Samples of 1000 records, and coins of a record that depend on its position alone."""
    monkeypatch.setattr(releases_module, "_SAMPLED_RECORDS", 1000)
    monkeypatch.setattr(releases_module, "_SAMPLED_SIGNAL", 1.0)
    shares = []

    def coins(self, n_records, probability):
        shares.append(probability)
        chosen = np.random.default_rng(0).random(n_records) < probability
        chosen[-1] = True  # the record in which neighbours differ
        return chosen

    monkeypatch.setattr(Releases, "sample", coins)
    return shares


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_steps_of_a_sample_cost_no_more_than_the_claim(adjacency, small_samples):
    tables = worst_neighbours(adjacency)
    cost, n_steps = distance_of_transcripts(*tables, epsilon=10.0, adjacency=adjacency)
    assert max(small_samples) < 1
    assert n_steps >= 6
    assert 0.7 < cost <= 1.0


def test_a_sample_gives_about_the_same_model(small_samples):
    train, test = visits(20_000), visits(5000, seed=1)
    sampled = fitted(train, epsilon=10.0)
    assert small_samples == [pytest.approx(1000 / 20_000, abs=1 / 256)]
    probabilities = sampled.predict_proba(test)
    assert roc_auc_score(test["ill"], probabilities[:, 1]) > 0.8
    best = fitted(train, epsilon=INF).predict_proba(test)
    assert small_samples[1:] == [1.0]
    assert log_loss(test["ill"], probabilities) < log_loss(test["ill"], best) + 0.02


def test_coins_are_fair_and_drawn_only_for_large_tables():
    assert sampled_share(2.0**18, 1e-9, 3, 2) == 1.0
    assert sampled_share(1e9, 0.0, 3, 2) == 1.0
    assert sampled_share(1e6, 1e3, 20, 2) == 1.0  # too much noise
    assert sampled_share(2.0**20, 1e-3, 20, 2) == 0.25
    releases = Releases(GaussianMechanism(1.0), ContributionBound(), 3)
    with pytest.raises(AssertionError, match="before the charge"):
        releases.sample(10, 0.5)
    generator = np.random.default_rng(0)
    releases.start(generator)
    assert releases.sample(10, 1.0) is None
    assert generator.bit_generator.state == np.random.default_rng(0).bit_generator.state
    chosen = releases.sample(100_000, 0.25)
    assert chosen.mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.19 / 100_000))


# Columns without public values --------------------------------------------------------


@contextmanager
def candidates():
    """Collect the exact counts of the names of each selection."""
    found = []

    def counted(mechanism, codes, distinct, generator):
        found.append({name: int((codes == k).sum()) for k, name in enumerate(distinct)})
        return select_categories(mechanism, codes, distinct, generator)

    with patch("skdirdp.table_classifier.releases.select_categories", counted):
        yield found


def test_names_are_found_and_others_share_a_category():
    train, test = visits(20_000), visits(5000, seed=1)
    train.loc[:3, "ward"] = ["one", "two", "three", None]
    model = fitted(train, schema=NAMES)
    assert list(model.coef_["ward"].index) == ["A", "B", "C", "other", "(missing)"]
    listed = fitted(train).predict_proba(test)[:, 1]
    found = roc_auc_score(test["ill"], model.predict_proba(test)[:, 1])
    assert found > roc_auc_score(test["ill"], listed) - 0.01
    new = test.iloc[:4].assign(ward=["one", "never seen", 3, 2.5])
    np.testing.assert_array_equal(
        model.predict_proba(new), model.predict_proba(new.assign(ward="other"))
    )
    assert "names of categories" in str(model.privacy_)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("max_weight", [None, 3.0])
@pytest.mark.parametrize("max_rows", [1, 4])
def test_selections_and_tables_together_meet_the_budget(adjacency, max_weight, max_rows):
    """The profile of Gaussian noise is computed here, from the sensitivities of the steps."""
    columns = {**NAMES.columns, "place": Schema.names()}
    model = PrivateTableClassifier(
        Schema(columns), adjacency=adjacency, max_weight=max_weight, max_rows=max_rows, epsilon=2.0
    )
    model.fit(visits(300).assign(place="x"), y="ill")
    (selection, n_selections), (gaussian, _) = model.privacy_.mechanisms
    assert n_selections == 2
    change = max_rows * (1.0 if adjacency == "add_remove" else np.sqrt(2.0))
    squares = 2 * (change / selection.sigma) ** 2
    squares += (change * (max_weight or 1.0) / gaussian.sigma) ** 2
    mu = np.sqrt(squares)
    delta = norm.cdf(mu / 2 - 2.0 / mu) - np.exp(2.0) * norm.cdf(-mu / 2 - 2.0 / mu)
    failure = 2 * selection.failure
    assert 0.99e-5 < failure + (1 - failure) * delta <= 1e-5
    # Some name of a person alone reaches the threshold with the claimed probability at most.
    alone = norm.sf((selection.threshold - max_rows) / selection.sigma)
    published = 1 - (1 - alone) ** max_rows
    assert 0.9 * selection.failure < published <= selection.failure


def test_names_are_counted_once_for_each_counted_record():
    """Rows beyond max_rows, without a label or with weight 0 add no candidates."""
    table = visits(60).assign(person=np.arange(60) // 3)
    table["ward"] = [f"name {k}" for k in range(60)]
    table = table.astype({"ward": "category", "ill": object})
    table.loc[4, "ill"] = None
    weight = np.full(60, 2.5)
    weight[3] = 0.0
    schema = NAMES.replace(
        columns={**NAMES.columns, "person": Schema.key()}, person="person", max_rows=2
    )
    with candidates() as found:
        fitted(table, schema=schema, sample_weight=weight, max_weight=3.0)
    kept = [k for k in range(60) if k % 3 < 2 and k not in (3, 4)]
    # The third row of the second person is counted in place of the one without a label.
    assert found == [{f"name {k}": 1 for k in sorted([*kept, 5])}]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_an_odd_name_changes_the_candidates_by_one_record(adjacency):
    table = visits(500)
    for odd in (
        "mrs doe",
        None,
        7,
        2.5,
        float("nan"),
        True,
        b"x",
        ("a", "b"),
        "(missing)",
        "other",
    ):
        more = pd.concat([table, table.iloc[:1]], ignore_index=True).astype({"ward": object})
        more.at[500, "ward"] = odd
        first = table if adjacency == "add_remove" else more.assign(ward=[*more["ward"][:500], "A"])
        counts = []
        for each in (first, more):
            with candidates() as found:
                model = fitted(each, schema=NAMES, adjacency=adjacency)
            counts.append(Counter(found[0]))
            assert not {"mrs doe", 7, True, b"x"} & set(model.coef_["ward"].index)
        added, removed = counts[1] - counts[0], counts[0] - counts[1]
        assert added.total() <= 1
        assert removed.total() <= (adjacency == "replace")


class Document(str):
    __slots__ = ("text",)


def test_published_names_are_rebuilt():
    table = visits(2000).astype({"ward": object})
    secret = Document("A")
    secret.text = "the whole file of a patient"
    table["ward"] = [secret if ward == "A" else ward for ward in table["ward"]]
    model = fitted(table, schema=NAMES)
    assert {type(name) for name in model.coef_["ward"].index} == {str}
    assert b"the whole file" not in pickle.dumps(model)


def test_names_of_tables_in_blocks_are_those_of_the_whole_table():
    pa = pytest.importorskip("pyarrow")
    table = visits(3000)
    table.loc[2000:, "ward"] = "D"
    whole = fitted(table, schema=NAMES)
    batches = pa.Table.from_pandas(table).to_batches(max_chunksize=700)
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    again = fitted(reader, schema=NAMES)
    assert "D" in again.coef_["ward"].index
    np.testing.assert_array_equal(whole.predict_proba(table), again.predict_proba(table))


def test_a_column_whose_names_are_all_rare_has_one_category():
    table = visits(300).assign(ward=[f"name {k}" for k in range(300)])
    model = fitted(table, schema=NAMES)
    assert list(model.coef_["ward"].index) == ["other", "(missing)"]
    exported = model.to_sklearn()
    new = table.drop(columns="ill").astype({"age": float})
    np.testing.assert_allclose(exported.predict_proba(new), model.predict_proba(new), atol=1e-9)


def test_counts_leave_out_columns_of_names_with_a_warning():
    yes_no = Schema.categories(["no", "yes"], missing=False)
    schema = Schema({"smokes": yes_no, "zip": Schema.names(), "ill": yes_no})
    tables = {"class_count": {"smokes": [[500, 100], [150, 250]]}, "pair_count": {}}
    with pytest.warns(UserWarning, match="columns without public values are not used: 'zip'"):
        model = PrivateTableClassifier(schema).fit_counts(tables, y="ill", n_samples=1000)
    assert model.columns_ == ["smokes"]
    assert len(model.privacy_.mechanisms) == 1


def test_without_noise_all_names_are_found():
    table = visits(300).assign(ward=[f"name {k % 100}" for k in range(300)])
    model = fitted(table, schema=NAMES, epsilon=INF, order=None)
    assert len(model.coef_["ward"]) == 102


@pytest.mark.parametrize("epsilon", [np.inf, 20.0])
def test_a_category_without_records_is_no_evidence_for_a_rare_class(epsilon):
    rng = np.random.default_rng(5)
    label = (rng.random(20_000) < 0.07).astype(int)
    frame = pd.DataFrame({"a": np.where(rng.random(20_000) < 0.3 + 0.3 * label, "u", "v")})
    schema = Schema({"a": Schema.categories(["u", "v", "w"]), "label": [0, 1]})
    model = PrivateTableClassifier(schema, epsilon=epsilon).fit(
        frame.assign(label=label), y="label"
    )
    chances = model.predict_proba(pd.DataFrame({"a": ["u", "v", "w", None]}))[:, 1]
    assert chances[1] < 0.06 < 0.08 < chances[0]
    assert np.abs(chances[2:] - 0.07).max() < 0.04


def test_columns_without_declared_values_cause_a_warning():
    frame = pd.DataFrame({"code": np.arange(2000) % 3, "a": np.arange(2000) % 2})
    frame["label"] = frame["a"]
    codes = Schema.categories(["000", "001", "002"])
    schema = Schema({"code": codes, "a": [0, 1], "label": [0, 1]})
    with pytest.warns(UserWarning, match=r"not declared in 'code' \((9\d|100)%\), according"):
        PrivateTableClassifier(schema).fit(frame, y="label")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame["code"] = frame["code"].map("{:03d}".format)
        PrivateTableClassifier(schema).fit(frame, y="label")


def test_exported_columns_may_have_names_that_scikit_learn_reserves():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"self": rng.random(500), "a__b": rng.integers(3, size=500)})
    frame["label"] = rng.integers(2, size=500)
    schema = Schema({"self": (0.0, 1.0), "a__b": [0, 1, 2], "label": [0, 1]})
    model = PrivateTableClassifier(schema).fit(frame, y="label")
    expected = model.predict_proba(frame)
    found = model.to_sklearn().predict_proba(frame[["self", "a__b"]])
    np.testing.assert_allclose(found, expected)


def test_categories_of_several_types_are_not_exported():
    frame = pd.DataFrame({"a": [1, 2, "other", 1] * 50, "label": [0, 1] * 100})
    schema = Schema({"a": Schema.categories([1, 2, "other"]), "label": [0, 1]})
    model = PrivateTableClassifier(schema).fit(frame, y="label")
    with pytest.raises(ValueError, match=r"\['a'\] mix text and numbers"):
        model.to_sklearn()
