"""An attack on networks that are learnt: on all steps at once, and on the structure alone.

The game and its sequential test are those of `test_attacks`. The attacker of all steps sees
every noisy number, and computes how likely it is for each of the two data sets, given all
numbers before it: no attack on functions of these numbers can be better. The other sees
which columns are connected in the network.
"""

import numpy as np
import pandas as pd
import pytest

from skdirdp import PrivateBayesNet
from skdirdp.mechanisms.splitting import calibrate_gaussian
from skdirdp.mechanisms.tables import ContributionBound

from .test_attacks import DELTA, EPSILON, best_accuracy, claim_holds
from .test_synthesis import WORST
from .transcripts import fit_beside, log_likelihood_ratio


def neighbours(adjacency):
    others, first, second = WORST[adjacency]
    tables = [pd.concat([others, one], ignore_index=True).astype(int) for one in (first, second)]
    return tables, {name: [0, 1, 2] for name in others}


def claimed(epsilon, adjacency):
    """The largest accuracy that noise within the budget allows."""
    charged = calibrate_gaussian(epsilon, DELTA, None, adjacency, ContributionBound())
    return best_accuracy(float(charged.delta(0.0)))


@pytest.mark.parametrize("adjacency", WORST)
@pytest.mark.parametrize("factor", [1, 2])
def test_an_attack_on_all_steps_attains_the_claim_and_no_more(adjacency, factor):
    (X, other), states = neighbours(adjacency)

    def play(first):
        model = PrivateBayesNet(states, epsilon=factor * EPSILON, delta=DELTA, adjacency=adjacency)
        truth, lie = (X, other) if first else (other, X)
        _, _, steps, replayed = fit_beside(model, truth, lie)
        return (log_likelihood_ratio(steps, replayed) > 0) == first

    bound, twice = claimed(EPSILON, adjacency), claimed(2 * EPSILON, adjacency)
    holds = claim_holds(play, bound, twice, np.random.default_rng(factor))
    assert holds == (factor == 1)


def test_an_attack_on_the_structure_alone_is_below_the_claim():
    """Which two of three columns are joined, where one record decides without noise."""
    others = [[0, 0, 0]] * 10 + [[1, 1, 1]] * 10 + [[0, 1, 0]]
    X, other = (
        pd.DataFrame([*others, last], columns=list("abc")) for last in ([1, 0, 0], [0, 0, 1])
    )
    states = {name: [0, 1] for name in "abc"}

    def joined(table, epsilon):
        model = PrivateBayesNet(states, max_parents=1, epsilon=epsilon, delta=DELTA).fit(table)
        return frozenset(frozenset(clique) for clique in model.sigma_["cliques"])

    assert joined(X, float("inf")) != joined(other, float("inf"))
    # So little budget that a choice without noise would be far beyond the bound.
    games, epsilon = 400, 1.0
    seen = [[joined(table, epsilon) for _ in range(games)] for table in (X, other)]
    kinds = set(seen[0]) | set(seen[1])
    assert len(kinds) > 1
    first, second = ([np.mean([each == kind for each in one]) for kind in kinds] for one in seen)
    distance = np.abs(np.subtract(first, second)).sum() / 2
    # A fair coin's best accuracy is half of one and the total variation distance.
    assert distance <= 2 * claimed(epsilon, "replace") - 1 + 3 / np.sqrt(games) < 0.8
