"""The guarantee of the best of many runs, against enumerations and dp-accounting."""

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import dp_accounting
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.special import gammaln
from scipy.stats import norm

from skdirdp import PrivacyAccountant
from skdirdp.accounting import (
    AllOf,
    ApproximateDP,
    Composition,
    NoPrivacy,
    OneOf,
    PureDP,
    RenyiDP,
    RepeatedSelection,
)
from skdirdp.accounting.composition import PrivacyCurves
from skdirdp.accounting.pairs import DominatingPair
from skdirdp.accounting.worst_case import WorstCase, in_every_direction
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, calibrate

EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5)


# Toys: finitely many outputs, every probability known ---------------------------------


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@dataclass(frozen=True)
class FinitePair(DominatingPair):
    """Neighbours with finitely many outputs, the worse of both directions."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    smooth: ClassVar[bool] = False
    max_tilt: ClassVar[float] = math.inf

    def _arrays(self):
        return np.array(self.p), np.array(self.q)

    @property
    def max_loss(self):
        p, q = self._arrays()
        return float(np.max(np.abs(np.log(p / q))))

    def cumulant(self, tilt, rough=False):
        p, q = self._arrays()
        tilt = np.asarray(tilt, dtype=float)[..., np.newaxis]
        both = [np.log(np.sum(a * (a / b) ** tilt, axis=-1)) for a, b in ((p, q), (q, p))]
        return np.maximum(*both)

    def log_delta(self, epsilon):
        p, q = self._arrays()
        deltas = [
            max(hockey_stick(p, q, each), hockey_stick(q, p, each)) for each in np.ravel(epsilon)
        ]
        with np.errstate(divide="ignore"):
            return np.log(np.reshape(deltas, np.shape(epsilon)))


@dataclass(frozen=True)
class Toy(PrivacyCurves):
    p: tuple[float, ...]
    q: tuple[float, ...]
    adjacency: str = "replace"

    def _worst_cases(self):
        pairs = ((FinitePair(self.p, self.q), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))


@cache
def number_of_runs(gamma, shape):
    """Probabilities of K = 1, 2, ..., from the definition of the distribution."""
    k = np.arange(1, round(60 / gamma))
    weights = k * np.log1p(-gamma) + gammaln(k + shape) - gammaln(k + 1)
    probabilities = np.exp(weights - weights.max())
    return k, probabilities / probabilities.sum()


def published(run, scores, gamma, shape):
    """The distribution of the best run's output: score by score, and run by run."""
    k, probabilities = number_of_runs(gamma, shape)
    law = np.zeros(len(run))
    for score in np.unique(scores):
        level = scores == score
        below, within = run[scores < score].sum(), run[level].sum()
        chance = np.sum(probabilities * ((below + within) ** k - below**k))
        law[level] = run[level] / within * chance
    return law


def test_the_distribution_of_the_best_run_agrees_with_enumeration():
    run, scores = np.array([0.5, 0.2, 0.2, 0.1]), np.array([1, 2, 2, 3])
    _, probabilities = number_of_runs(0.3, 1.0)
    exact = np.zeros(4)
    for length in range(1, 7):
        for sequence in itertools.product(range(4), repeat=length):
            best = max(scores[list(sequence)])
            tied = [output for output in sequence if scores[output] == best]
            chance = probabilities[length - 1] * np.prod(run[list(sequence)])
            for output in tied:
                exact[output] += chance / len(tied)
    left = 1 - probabilities[:6].sum()
    law = published(run, scores, 0.3, 1.0)
    assert np.all(exact <= law + 1e-12)
    assert np.all(law <= exact + left + 1e-12)


def worst_order(p, q, threshold):
    """Scores by which outputs of a small loss are best, and then those of a large one."""
    loss = np.log(p / q)
    return np.where(loss < threshold, 1e3, loss)


def orders(p, q, rng):
    yield from (np.log(p / q), -np.log(p / q), np.zeros(len(p)), rng.integers(3, size=len(p)))
    for threshold in np.quantile(np.log(p / q), [0.05, 0.2, 0.4]):
        yield worst_order(p, q, threshold)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("gamma", [0.5, 0.1, 0.01])
def test_the_bound_is_never_below_the_truth(gamma, shape):
    rng = np.random.default_rng(3)
    for size, spread in ((2, 0.2), (5, 0.5), (12, 0.3)):
        p = rng.dirichlet(np.ones(size)) * 0.99 + 0.01 / size
        q = p * np.exp(rng.normal(0, spread, size))
        q /= q.sum()
        best = RepeatedSelection(Toy(tuple(p), tuple(q)), gamma, shape)
        claimed = np.asarray(best.delta(np.array(EPSILONS)))
        for scores in orders(p, q, rng):
            laws = [published(run, scores, gamma, shape) for run in (p, q)]
            for epsilon, claim in zip(EPSILONS, claimed, strict=True):
                truth = max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))
                assert truth <= claim * (1 + 1e-9) + 1e-15
            for order in (1.5, 4.0, 20.0):
                a, b = laws
                truth = np.log(np.sum(a * (a / b) ** (order - 1))) / (order - 1)
                assert truth <= best.rdp(order) * (1 + 1e-9)
            assert np.max(np.abs(np.log(laws[0] / laws[1]))) <= best.rdp(np.inf) + 1e-9


def counting_runs(data, ranking=(0, 1, 2, 3), n_candidates=2):
    """A run on three records: a candidate, a noisy count, and a score that follows from it."""
    count = sum(data)
    law, scores = [], []
    for candidate in range(n_candidates):
        for released in range(4):
            noise = np.exp(-0.6 * abs(released - count))
            noise /= sum(np.exp(-0.6 * abs(other - count)) for other in range(4))
            law.append(noise / n_candidates)
            scores.append(ranking[released] + candidate / 2)
    return np.array(law), np.array(scores)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_a_selection_over_all_neighbours_is_within_the_claim(shape):
    data_sets = list(itertools.product((0, 1), repeat=3))
    # Records are exchangeable, so that one data set for each count stands for all.
    pairs = {
        tuple(sorted((tuple(sorted(a)), tuple(sorted(b)))))
        for a, b in itertools.product(data_sets, repeat=2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    }
    single = OneOf(
        tuple(Toy(tuple(counting_runs(a)[0]), tuple(counting_runs(b)[0])) for a, b in pairs)
    )
    best = RepeatedSelection(single, 0.1, shape)
    claims = {epsilon: best.delta(epsilon) for epsilon in (0.1, 0.5, 1.0, 1.5)}
    for (a, b), ranking in itertools.product(pairs, itertools.permutations(range(4))):
        laws = [published(*counting_runs(each, ranking), 0.1, shape) for each in (a, b)]
        for epsilon, claim in claims.items():
            truth = max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))
            assert truth <= claim * (1 + 1e-9)


@pytest.mark.parametrize(("gamma", "shape"), [(0.1, 1.0), (0.0066, 0.0)])
def test_enumerated_runs_catch_a_claim_half_as_large(gamma, shape):
    mu = 0.268  # (1, 1e-5) of one run
    edges = np.concatenate([[-np.inf], np.linspace(-4, 6, 201), [np.inf]])
    p, q = (np.diff(norm.cdf(edges, mean)) for mean in (mu, 0.0))
    best = RepeatedSelection(Toy(tuple(p), tuple(q)), gamma, shape)
    epsilon = best.epsilon(1e-5)
    truths = []
    for threshold in np.linspace(-0.7, -0.1, 9):
        scores = worst_order(p, q, threshold)
        laws = [published(run, scores, gamma, shape) for run in (p, q)]
        truths.append(hockey_stick(*laws, epsilon))
    assert 0.5e-5 < max(truths) <= 1e-5 * (1 + 1e-6)


def gaussian_truth(best, mu, epsilon):
    """Loss of runs N(mu, 1) and N(0, 1), for the worst of many orders of scores."""

    def density(u):
        power = best.shape + 1
        return best.mean * (best.gamma / (best.gamma + (1 - best.gamma) * u)) ** power

    largest = 0.0
    for threshold in np.linspace(mu - 4, mu, 81):
        x = np.linspace(threshold, mu + 11, 3001)
        x, step = (x[1:] + x[:-1]) / 2, x[1] - x[0]
        u = norm.cdf(threshold, mu) + norm.sf(x, mu)
        u_neighbour = norm.cdf(threshold) + norm.sf(x)
        loss = density(u) * norm.pdf(x, mu)
        loss -= np.exp(epsilon) * density(u_neighbour) * norm.pdf(x)
        largest = max(largest, float(np.maximum(loss, 0).sum() * step))
    return largest


@pytest.mark.parametrize(("mean", "shape"), [(10, 1.0), (30, 0.0), (100, 1.0)])
def test_worst_neighbours_almost_attain_the_claim(mean, shape):
    run = calibrate("gaussian", epsilon=1.0, delta=1e-5)
    best = RepeatedSelection.with_mean(run, mean, shape)
    mu = math.sqrt(2) / run.sigma
    for epsilon in (0.0, 0.8, 1.2):
        assert gaussian_truth(best, mu, epsilon) <= best.delta(epsilon)
    # A delta half as large, or half the epsilon, is found out.
    epsilon = best.epsilon(1e-5)
    assert 0.8e-5 < gaussian_truth(best, mu, epsilon) <= 1e-5
    assert gaussian_truth(best, mu, epsilon / 2) > 1e-3


def test_the_cost_of_thirty_expected_runs_is_as_documented():
    run = calibrate("gaussian", epsilon=1.0, delta=1e-5)
    costs = {
        mean: RepeatedSelection.with_mean(run, mean, shape=0).epsilon(1e-5)
        for mean in (10, 30, 100)
    }
    assert costs[30] <= 1.75
    assert costs == {10: pytest.approx(1.455, abs=2e-3), 30: pytest.approx(1.633, abs=2e-3),
                     100: pytest.approx(1.812, abs=2e-3)}  # fmt: skip
    assert Composition([(run, 30)]).epsilon(1e-5) == pytest.approx(6.873, abs=1e-3)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mean", [5, 30])
def test_renyi_divergences_are_those_of_dp_accounting(mean, shape):
    sigma = 4.0
    orders = [*(1 + np.geomspace(0.01, 200, 400))]
    event = RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(sigma), mean=mean, shape=shape)
    theirs = np.array(RdpAccountant(orders).compose(event)._rdp)
    run = GaussianMechanism(sigma, adjacency="add_remove")
    ours = RepeatedSelection.with_mean(run, mean, shape).rdp(np.array(orders))
    # Theirs looks for the second order among those given, ours on a grid of its own.
    assert ours == pytest.approx(theirs, rel=2e-4)


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0, 3.0])
def test_the_expected_number_of_runs_is_that_of_the_distribution(shape):
    best = RepeatedSelection(PureDP(0.1), 0.05, shape)
    k, probabilities = number_of_runs(0.05, shape)
    assert best.mean == pytest.approx(probabilities @ k, rel=1e-9)
    again = RepeatedSelection.with_mean(PureDP(0.1), best.mean, shape)
    assert again.gamma == pytest.approx(0.05, rel=1e-9)
    assert again.mean >= best.mean * (1 - 1e-12)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_pure_privacy_stays_pure(shape):
    best = RepeatedSelection(PureDP(0.3), 0.01, shape)
    assert 0.3 < best.rdp(np.inf) <= (2 + shape) * 0.3 + 1e-6
    assert best.delta(best.rdp(np.inf) + 1e-6) < 1e-12


def test_a_selection_composes_with_other_releases():
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(6))
    q = p * np.exp(rng.normal(0, 0.3, 6))
    q /= q.sum()
    other = (0.6, 0.4), (0.4, 0.6)
    best = RepeatedSelection(Toy(tuple(p), tuple(q)), 0.2)
    both = Composition([(best, 1), (PureDP(math.log(1.5)), 1)])
    together = AllOf((best, PureDP(math.log(1.5))))
    largest = 0.0
    for scores in orders(p, q, rng):
        laws = [published(run, scores, 0.2, 1.0) for run in (p, q)]
        joint = [np.outer(law, half).ravel() for law, half in zip(laws, other, strict=True)]
        for epsilon in (0.1, 0.4, 0.8):
            truth = max(hockey_stick(*joint, epsilon), hockey_stick(*joint[::-1], epsilon))
            assert truth <= both.delta(epsilon) * (1 + 1e-9)
            assert together.delta(epsilon) == both.delta(epsilon)
            largest = max(largest, truth / both.delta(epsilon))
    assert largest > 0.5
    assert together.rdp(3.0) == pytest.approx(best.rdp(3.0) + PureDP(math.log(1.5)).rdp(3.0))


def test_one_of_several_is_as_private_as_the_worst():
    wide, narrow = DirichletMechanism(1.0, 40.0), GaussianMechanism(5.0)
    either = OneOf((wide, narrow, wide))
    assert either.alternatives == (wide, narrow)
    epsilons = np.linspace(0, 2, 9)
    worst = np.maximum(wide.delta(epsilons), narrow.delta(epsilons))
    assert either.delta(epsilons) == pytest.approx(worst, rel=1e-6)
    assert either.rdp(7.0) == max(wide.rdp(7.0), narrow.rdp(7.0))
    for each in (wide, narrow):
        alone = Composition([(each, 3)]).epsilon(1e-6)
        assert (
            alone
            <= Composition([(either, 3)]).epsilon(1e-6)
            < 1.2 * max(Composition([(other, 3)]).epsilon(1e-6) for other in (wide, narrow))
        )
    # At many epsilons at once, a profile is interpolated by chords, which lie above it.
    many = np.linspace(0, 2, 200)
    assert np.all(
        either.delta(many) >= np.maximum(wide.delta(many), narrow.delta(many)) * (1 - 1e-6)
    )


def test_neighbours_of_different_kinds_are_not_mixed():
    added = GaussianMechanism(5.0, adjacency="add_remove")
    for kind in (OneOf, AllOf):
        with pytest.raises(ValueError, match="adjacency must be the same"):
            kind((GaussianMechanism(5.0), added))
        with pytest.raises(ValueError, match="at least one release"):
            kind(())
    assert RepeatedSelection(added, 0.1).adjacency == "add_remove"


@pytest.mark.parametrize("gamma", [0.0, 1.0, -1.0, float("nan")])
def test_the_probability_to_stop_is_checked(gamma):
    with pytest.raises(ValueError, match="gamma"):
        RepeatedSelection(PureDP(0.1), gamma)


def test_an_accountant_stores_a_selection_exactly(tmp_path):
    path = tmp_path / "ledger.sqlite"
    run = OneOf((DirichletMechanism(0.5, 60.0), GaussianMechanism(12.0)))
    best = AllOf((RepeatedSelection(run, 0.1), OneOf((GaussianMechanism(20.0),))))
    PrivacyAccountant(adaptive=False, epsilon=3.0, path=path).charge(best, label="search")
    reopened = PrivacyAccountant(path=path)
    assert reopened.total(1e-5) == pytest.approx(best.epsilon(1e-5), rel=1e-9)
    (row,) = reopened.history()
    assert row["mechanism"] == "AllOf"
    assert "10 runs expected" in str(row["parameters"])
    reopened.charge(GaussianMechanism(30.0))
    assert reopened.total(1e-5) > best.epsilon(1e-5)


@pytest.mark.parametrize(
    ("gamma", "shape"), [(0.5, 1.0), (1e-4, 0.0), (1 - 1e-4, 1.0), (0.1, -0.9)]
)
@pytest.mark.parametrize(
    "run",
    [
        GaussianMechanism(1e-2),
        GaussianMechanism(1e7),
        DirichletMechanism(1.0, 0.01),
        DirichletMechanism(1.0, 40.0, adjacency="add_remove"),
        PureDP(1e-9),
        PureDP(40.0),
        ApproximateDP(1.0, 1e-6),
        RenyiDP(5.0, 0.1),
        NoPrivacy(),
    ],
    ids=str,
)
def test_a_selection_is_no_more_private_than_one_run(run, gamma, shape):
    """Where all scores are the same, the best run is any run."""
    best, alone = RepeatedSelection(run, gamma, shape), Composition([(run, 1)])
    epsilons, orders_ = np.array([0, 1e-3, 0.1, 1, 5, 30]), np.array([1.01, 2, 50, np.inf])
    deltas = np.asarray(best.delta(epsilons))
    assert np.all(deltas >= np.asarray(alone.delta(epsilons)) * (1 - 1e-9))
    assert np.all(np.diff(deltas) <= 1e-12)
    assert np.all(best.rdp(orders_) >= np.asarray(alone.rdp(orders_)) * (1 - 1e-9))
    # And along a table, for many epsilons.
    many = np.linspace(0, 5, 41)
    assert np.all(np.asarray(best.delta(many)) >= np.asarray(alone.delta(many)) * (1 - 1e-9))
