"""Attacks on whole fits: no attack distinguishes the worst neighbours better than claimed.

The attacker knows the mechanism, all records but one, and the two values that the last
one may have. A coin that both sides know the bias of decides which of the two data sets
is fitted; the attacker sees the released attributes and guesses. If neighbours are
``(epsilon, delta(epsilon))``-indistinguishable at every level epsilon, and the second
data set is fitted ``e^level`` times as often as the first, no guess is right more often
than with probability ``(e^level + delta(level)) / (1 + e^level)``. Level 0 is the fair
coin, whose bound is the claimed total variation distance.

Wald's sequential test decides between that bound and the accuracy which noise for twice
the epsilon would allow. Its errors are bounded for any number of games: a true claim
is called wrong with probability `FALSE_ALARM` at most, and a claim half as large as the
truth passes with probability `MISS` at most, provided that the attack is as good as the
claim says the best one is. So both are tested: fits at epsilon against the claim of
epsilon, and fits at twice epsilon against the same claim.

Attacks use the release as drawn (`postprocess=False`), of which estimates are functions.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import erfcx, gammaln

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
)
from skdirdp._persons import Unit

FALSE_ALARM = 1e-5
MISS = 1e-3

# Where claims half as large are caught by the fewest games: at a small epsilon all noise
# looks alike, at a large one no attack errs.
EPSILON = 4.0
DELTA = 0.05

#: Records in a cell of the changed rows that the neighbours share. They tell the attacker
#: how a row was normalised, and what its noise was in the other cells.
CROWD = 300
#: Fewer of them, in cells of the class counts that the neighbours change.
FEW = 30

MECHANISMS = ("dirichlet", "gaussian", "laplace")
ADJACENCIES = ("replace", "add_remove")


# --- The game -------------------------------------------------------------------


def claim_holds(play, bound, accuracy, coin, level=0.0):
    """Whether guesses are right with probability `bound` at most, rather than `accuracy`.

    Parameters
    ----------
    play : callable that fits the first or the second data set, and is True if it guesses first
    bound, accuracy : probabilities of a right guess
    coin : Generator that says which data set is fitted
    level : the second data set is fitted e^level times as often
    """
    assert bound < accuracy
    right, wrong = math.log(accuracy / bound), math.log((1 - accuracy) / (1 - bound))
    evidence = 0.0
    while math.log(MISS) < evidence < -math.log(FALSE_ALARM):
        first = coin.random() < 1 / (1 + math.exp(level))
        evidence += right if play(first) == first else wrong
    return evidence < 0


def best_accuracy(delta, level=0.0):
    """The largest probability of a right guess that (level, delta)-DP allows."""
    return (math.exp(level) + delta) / (1 + math.exp(level))


# --- Information in a release about one cell ------------------------------------


@dataclass(frozen=True)
class Cell:
    """Released share of a row, and the attacker's knowledge of its count.

    Attributes
    ----------
    share : of the cell
    crowd_share, crowd : released share, and known count, of another cell of the row
    known : records in the cell that both neighbours have
    """

    share: float
    crowd_share: float
    crowd: int
    known: int = 0


def log_ratio(cell, mechanism):
    """The log-likelihood of one more record in a cell, against none."""
    ratio = cell.share / cell.crowd_share
    if mechanism.name == "dirichlet":
        r, shape = mechanism.r, mechanism.alpha + mechanism.r * cell.known
        # Relative to its mean the crowd's gamma hardly varies.
        gamma = ratio * (mechanism.alpha + r * cell.crowd)
        return r * math.log(gamma) - gammaln(shape + r) + gammaln(shape)
    estimate = ratio * (cell.crowd + mechanism.smoothing) - mechanism.smoothing
    noisy, means = _posterior_means(mechanism)
    # Far above 0 the posterior mean is the noisy count itself.
    count = estimate if estimate > means[-1] else np.interp(estimate, means, noisy)
    z = count - cell.known
    if mechanism.name == "gaussian":
        return (z - 0.5) / mechanism.sigma**2
    return (abs(z) - abs(z - 1)) / mechanism.scale


@functools.lru_cache(maxsize=8)
def _posterior_means(mechanism):
    """Noisy counts, and their posterior means under a flat prior on counts of at least 0."""
    if mechanism.name == "gaussian":
        z = np.linspace(-20, 20, 20001)
        means = z + math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
        return mechanism.sigma * z, mechanism.sigma * means
    z = np.linspace(0, 40, 20001)  # everything below 0 becomes 0
    means = (2 * z + np.exp(-z)) / (2 - np.exp(-z))
    return mechanism.scale * z, mechanism.scale * means


# --- The estimators and their worst neighbours ----------------------------------


@dataclass(frozen=True)
class Attack:
    """Two neighbours, and the attack that distinguishes them.

    Attributes
    ----------
    fit : callable that fits a new estimator with the parameters given, on the first or second
    changes : callable that lists (cell, mechanism, sign) from a fitted estimator: the
        cells that the first data set has one record more (1) or fewer (-1) in
    """

    fit: Callable[[dict[str, Any], bool], Any]
    changes: Callable[[Any], list[tuple[Cell, Any, int]]]

    def guess(self, model):
        return sum(sign * log_ratio(cell, noise) for cell, noise, sign in self.changes(model)) > 0


def changed_cells(row, noise, adjacency, known=0, crowd=CROWD):
    """The first two cells of a released row whose third holds the crowd."""
    return changed_cells_of_rows(row, row, noise, adjacency, known, crowd)


def changed_cells_of_rows(gaining, losing, noise, adjacency, known=0, crowd=CROWD):
    gained = Cell(gaining[0], gaining[2], crowd, known)
    if adjacency == "add_remove":
        return [(gained, noise, 1)]
    return [(gained, noise, 1), (Cell(losing[1], losing[2], crowd, known), noise, -1)]


def neighbours(first, second, others, adjacency):
    """Return both data sets; under add_remove the second is without the record."""
    others = np.asarray(others)
    with_first = np.vstack([[first], others])
    return with_first, others if adjacency == "add_remove" else np.vstack([[second], others])


def attack_categorical_features(mechanism, adjacency):
    """Three features, known classes: all tables change in one row."""
    data = neighbours([0, 0, 0], [1, 1, 1], [[2, 2, 2]] * CROWD, adjacency)

    def fit(parameters, first):
        X = data[0] if first else data[1]
        model = DirichletCategoricalNB(
            classes=[0, 1], n_categories=3, fit_prior=False, postprocess=False, **parameters
        )
        return model.fit(X, np.zeros(len(X), dtype=int))

    def changes(model):
        noise = model.privacy_.mechanism
        rows = [np.exp(table[0]) for table in model.feature_log_prob_]
        return [change for row in rows for change in changed_cells(row, noise, adjacency)]

    return Attack(fit, changes)


def attack_categorical_classes(mechanism, adjacency):
    """One feature, and the class changes too. Additive noise hides no cell behind another."""
    classes = np.repeat([0, 1, 2], [FEW, FEW, 20 * FEW])
    others = np.column_stack([classes, np.full(len(classes), 2)])
    data = neighbours([0, 0], [1, 1], others, adjacency)

    def fit(parameters, first):
        y, X = (data[0] if first else data[1]).T
        return DirichletCategoricalNB(
            classes=[0, 1, 2], n_categories=3, postprocess=False, **parameters
        ).fit(X[:, np.newaxis], y)

    def changes(model):
        noise = model.privacy_.mechanisms
        rows = np.exp(model.feature_log_prob_[0])
        prior = np.exp(model.class_log_prior_)
        return [
            *changed_cells(prior, noise[0][0], adjacency, known=FEW, crowd=20 * FEW),
            *changed_cells_of_rows(rows[0], rows[1], noise[-1][0], adjacency, crowd=FEW),
        ]

    return Attack(fit, changes)


def attack_multinomial(mechanism, adjacency):
    """A record of two entries, at the bounds on entries and on the total."""
    data = neighbours([1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [[0, 0, 0, 0, 1]] * CROWD, adjacency)

    def fit(parameters, first):
        X = data[0] if first else data[1]
        model = DirichletNB(
            classes=[0, 1],
            max_count=1,
            max_total=2,
            fit_prior=False,
            postprocess=False,
            **parameters,
        )
        return model.fit(X, np.zeros(len(X), dtype=int))

    def changes(model):
        noise = model.privacy_.mechanism
        row = np.exp(model.feature_log_prob_[0])
        return [
            change
            for pair in ([0, 2, 4], [1, 3, 4])
            for change in changed_cells(row[pair], noise, adjacency)
        ]

    return Attack(fit, changes)


def attack_complement(mechanism, adjacency):
    """A record of two entries; shares of one class are in the weights of the other."""
    data = neighbours([1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [[0, 0, 0, 0, 1]] * CROWD, adjacency)

    def fit(parameters, first):
        X = data[0] if first else data[1]
        model = DirichletComplementNB(
            classes=[0, 1], max_count=1, max_total=2, postprocess=False, **parameters
        )
        return model.fit(X, np.zeros(len(X), dtype=int))

    def changes(model):
        noise = model.privacy_.mechanism
        row = model.feature_count_[0] / model.feature_count_.sum()
        return [
            change
            for pair in ([0, 2, 4], [1, 3, 4])
            for change in changed_cells(row[pair], noise, adjacency)
        ]

    return Attack(fit, changes)


def attack_bernoulli(mechanism, adjacency):
    """A record that alone has all three features, in one class or the other."""
    others = [[label, 0, 0, 0] for label in (0, 1)] * CROWD
    data = neighbours([0, 1, 1, 1], [1, 1, 1, 1], others, adjacency)

    def fit(parameters, first):
        records = data[0] if first else data[1]
        model = DirichletBernoulliNB(
            classes=[0, 1], fit_prior=False, postprocess=False, **parameters
        )
        return model.fit(records[:, 1:], records[:, 0])

    def changes(model):
        noise = model.privacy_.mechanism
        gaining, losing = ([p, p, 1 - p] for p in np.exp(model.feature_log_prob_))
        return [
            change
            for rows in zip(np.transpose(gaining), np.transpose(losing), strict=True)
            for change in changed_cells_of_rows(*rows, noise, adjacency)
        ]

    return Attack(fit, changes)


def attack_histogram(mechanism, adjacency):
    """Two features, one of numbers and one of categories."""
    data = neighbours([0.5, 0.0], [1.5, 1.0], [[2.5, 2.0]] * CROWD, adjacency)

    def fit(parameters, first):
        model = DirichletHistogramTransformer(
            n_bins=3,
            bounds=[(0, 3), None],
            n_categories=[None, 3],
            n_fine_bins=3,
            fine_scale="linear",
            strategy="uniform",
            postprocess=False,
            **parameters,
        )
        return model.fit(data[0] if first else data[1])

    def changes(model):
        noise = model.privacy_.mechanism
        rows = model.release_
        return [change for row in rows for change in changed_cells(row, noise, adjacency)]

    return Attack(fit, changes)


def attack_network(mechanism, adjacency):
    """Two nodes with a parent of one state, which is not released."""
    data = neighbours([0, 0, 0], [0, 1, 1], [[0, 2, 2]] * CROWD, adjacency)
    frames = [pd.DataFrame(table, columns=["root", "left", "right"]) for table in data]

    def fit(parameters, first):
        model = PrivateBayesNetMLE(
            {"root": [], "left": ["root"], "right": ["root"]},
            states={"root": [0], "left": [0, 1, 2], "right": [0, 1, 2]},
            split="even",
            postprocess=False,
            **parameters,
        )
        return model.fit(frames[0] if first else frames[1])

    def changes(model):
        noise = model.privacy_.mechanism
        rows = [model.probabilities_[node][0] for node in ("left", "right")]
        return [change for row in rows for change in changed_cells(row, noise, adjacency)]

    return Attack(fit, changes)


CASES = [
    pytest.param(attack, mechanism, adjacency, id=f"{name}-{mechanism}-{adjacency}")
    for name, attack, mechanisms in [
        ("DirichletCategoricalNB", attack_categorical_features, MECHANISMS),
        ("DirichletCategoricalNB with classes", attack_categorical_classes, MECHANISMS[1:]),
        ("DirichletNB", attack_multinomial, MECHANISMS),
        ("DirichletComplementNB", attack_complement, MECHANISMS),
        ("DirichletBernoulliNB", attack_bernoulli, MECHANISMS),
        ("DirichletHistogramTransformer", attack_histogram, MECHANISMS),
        ("PrivateBayesNetMLE", attack_network, MECHANISMS),
    ]
    for mechanism in mechanisms
    for adjacency in ADJACENCIES
]


@pytest.fixture
def coin(request):
    """Fair, and the same in every run."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


def parameters_of(epsilon, mechanism, adjacency):
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "mechanism": mechanism,
        "adjacency": adjacency,
        "n_samples": CROWD,
    }


def claimed_accuracy(attack, parameters):
    """Largest accuracy of an attacker that the report of a fit allows."""
    composition = attack.fit(parameters, True).privacy_.composition()
    # The noise spends the budget: else a claim half as large could be true.
    assert 0.98 * parameters["epsilon"] <= composition.epsilon(DELTA) <= parameters["epsilon"]
    return best_accuracy(composition.delta(0.0))


@pytest.mark.parametrize(("make", "mechanism", "adjacency"), CASES)
def test_no_attack_exceeds_the_claim_and_one_exceeds_half_of_it(make, mechanism, adjacency, coin):
    attack = make(mechanism, adjacency)
    given = parameters_of(EPSILON, mechanism, adjacency)
    twice = parameters_of(2 * EPSILON, mechanism, adjacency)
    bound, accuracy = claimed_accuracy(attack, given), claimed_accuracy(attack, twice)

    def play(parameters):
        return lambda first: attack.guess(attack.fit(parameters, first))

    assert claim_holds(play(given), bound, accuracy, coin)
    assert not claim_holds(play(twice), bound, accuracy, coin)


# --- Persons --------------------------------------------------------------------

#: Records of a person that are counted, of the four that each of the two has.
ROWS = 3


def attack_person(mechanism, adjacency):
    """A person with all records in one cell, or with all in another."""

    def fit(parameters, first):
        mine = [0] * 4 if first else ([1] * 4 if adjacency == "replace" else [])
        X = np.array([*mine, *[2] * CROWD])[:, np.newaxis]
        ids = [*[-1] * len(mine), *range(CROWD)]
        model = DirichletCategoricalNB(
            classes=[0, 1], n_categories=3, fit_prior=False, postprocess=False, **parameters
        )
        return model.fit(X, np.zeros(len(X), dtype=int), groups=ids)

    def changes(model):
        noise = model.privacy_.mechanism
        return changed_cells(np.exp(model.feature_log_prob_[0][0]), noise, adjacency)

    return Attack(fit, changes)


def log_ratio_of_rows(cell, mechanism):
    """The log-likelihood of `ROWS` more records in a cell, against none: one after the other."""
    return sum(log_ratio(replace(cell, known=known), mechanism) for known in range(ROWS))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_attack_on_a_person_exceeds_the_claim_and_one_exceeds_a_third_of_it(
    mechanism, adjacency, coin
):
    attack = attack_person(mechanism, adjacency)

    def play(parameters):
        def guess(first):
            found = attack.changes(attack.fit(parameters, first))
            return sum(sign * log_ratio_of_rows(cell, noise) for cell, noise, sign in found) > 0

        return guess

    given = {**parameters_of(EPSILON, mechanism, adjacency), "max_rows": ROWS}
    bound = claimed_accuracy(attack, given)
    assert attack.fit(given, True).privacy_.unit == Unit(ROWS, by_ids=True)
    # Noise for one record in the place of that for three: a third of the claim is charged.
    third = attack.fit(given, True).privacy_.mechanism
    third = replace(third, max_count=1.0, max_total=None)
    smaller = best_accuracy(float(third.delta(0.0)))
    assert smaller < bound
    assert claim_holds(play(given), bound, (1 + bound) / 2, coin)
    assert not claim_holds(play(given), smaller, bound, coin)


# --- Posteriors -----------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["ehd", "ehds"])
def test_no_attack_exceeds_the_claim_of_an_exponential_mechanism_and_one_exceeds_half_of_it(
    mechanism, coin
):
    # One record in one of two categories: the release is an answer that is true with odds
    # of e^epsilon, which no pure DP can exceed.
    epsilon = 2.0

    def play(spent):
        def guess(first):
            model = PrivateDirichletPosterior(
                n_categories=2, mechanism=mechanism, epsilon=spent
            ).fit([0 if first else 1])
            return model.mean_[0] > model.mean_[1]

        return guess

    def bound(claim):
        return best_accuracy(math.tanh(claim / 2))

    assert claim_holds(play(epsilon), bound(epsilon), bound(2 * epsilon), coin)
    assert not claim_holds(play(2 * epsilon), bound(epsilon), bound(2 * epsilon), coin)


@pytest.mark.parametrize("mechanism", ["lszhang", "lsdim", "lshist"])
def test_no_attack_exceeds_the_loss_of_laplace_noise_and_one_exceeds_half_of_it(mechanism, coin):
    # Counts (3, 1, 0) against (2, 2, 0). Noise keeps the first at 3 or above, and takes the
    # second to 0, with probability 1/4 and e^-loss / 4: the ratio that is claimed. Of two
    # of the mechanisms the loss is known to be less than epsilon, and that is attacked.
    def fitted(epsilon, first=True):
        model = PrivateDirichletPosterior(
            prior=1.0, n_categories=3, mechanism=mechanism, epsilon=epsilon
        )
        return model.fit([0, 0, 1, 0] if first else [0, 0, 1, 1])

    def play(epsilon):
        def guess(first):
            counts = fitted(epsilon, first).concentration_ - 1
            return counts[0] >= 3 and counts[1] == 0

        return guess

    loss = 1.0
    epsilon = loss / fitted(1.0).privacy_.loss
    assert fitted(epsilon).privacy_.loss == pytest.approx(loss)
    if mechanism == "lshist":
        assert epsilon == pytest.approx(loss)
    bound = best_accuracy(0.0, loss)
    accuracy = best_accuracy((1 - math.exp(-loss)) / 4, loss)
    assert claim_holds(play(epsilon), bound, accuracy, coin, loss)
    assert not claim_holds(play(2 * epsilon), bound, accuracy, coin, loss)
