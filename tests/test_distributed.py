"""Distributed Dirichlet noise, against fractions, mpmath and attacks by colluding parties."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdirdp.mechanisms import DirichletMechanism, DistributedDirichletMechanism, GaussianMechanism

pytestmark = pytest.mark.filterwarnings("ignore:random_state is given")
LEAST_P_VALUE = 1e-3


def law(shape, ratio, n_terms):
    """Relative probabilities ``(a)_k / k! q^k`` of 0, 1, ..., n_terms - 1, exactly."""
    q, terms = Fraction(ratio, ratio + 1), [Fraction(1)]
    for k in range(1, n_terms):
        terms.append(terms[-1] * (shape + k - 1) / k * q)
    return terms


def convolved(first, second):
    return [sum(first[i] * second[k - i] for i in range(k + 1)) for k in range(len(first))]


@pytest.mark.parametrize("n_parties", [1, 2, 5, 50])
@pytest.mark.parametrize("ratio", [1, 3])
def test_the_sum_of_shares_has_exactly_the_law_of_the_mixture_of_the_central_release(
    n_parties, ratio
):
    mechanism = DistributedDirichletMechanism(
        DirichletMechanism(0.3, 1.7), n_parties, max_absent=n_parties // 3, ratio=ratio
    )
    r, alpha = map(Fraction, mechanism.parameters())
    counts = [p % 4 for p in range(n_parties)]
    total = [Fraction(1)] + [Fraction(0)] * 7
    for x in counts:
        total = convolved(total, law(r * x + alpha, ratio, 8))
    # Poisson(M G) of the central gamma variable G ~ Gamma(r x + alpha').
    assert total == law(r * sum(counts) + n_parties * alpha, ratio, 8)
    assert r <= Fraction(0.3)
    assert (n_parties - n_parties // 3) * alpha >= Fraction(1.7)


@pytest.mark.parametrize("n_parties", [1, 2, 5, 50])
def test_drawn_sums_follow_the_law_of_the_central_release(n_parties):
    size, ratio = 400_000 // (9 + n_parties), 64
    mechanism = DistributedDirichletMechanism(
        DirichletMechanism(0.25, 2.0), n_parties, max_absent=n_parties // 4, ratio=ratio
    )
    rng = np.random.default_rng(n_parties)
    counts = rng.integers(0, 12, n_parties)
    total = sum(mechanism.draw_share(np.full(size, x), rng) for x in counts.tolist())
    r, alpha = mechanism.parameters()
    expected = stats.nbinom(r * counts.sum() + n_parties * alpha, 1 / (1 + ratio))
    edges = np.unique(expected.ppf(np.linspace(0, 1, 101)[1:-1]))
    probabilities = np.diff(expected.cdf(np.concatenate([[-1], edges, [np.inf]])))
    observed = np.bincount(np.searchsorted(edges, total, side="left"), minlength=len(edges) + 1)
    assert stats.chisquare(observed, probabilities * size).pvalue > LEAST_P_VALUE
    # And that of Poisson variables whose means are releases of the central mechanism.
    gammas = rng.gamma(r * counts.sum() + n_parties * alpha, size=size)
    assert stats.ks_2samp(total, rng.poisson(ratio * gammas)).pvalue > LEAST_P_VALUE


# Guarantee --------------------------------------------------------------------------


def probabilities(shape, ratio, most):
    """Return the probabilities of 0, 1, ..., most by their recurrence, with mpmath."""
    q = mpmath.mpf(ratio) / (ratio + 1)
    values = [(1 - q) ** mpmath.mpf(shape)]
    for k in range(most):
        values.append(values[-1] * q * (mpmath.mpf(shape) + k) / (k + 1))
    return values


@pytest.mark.parametrize(("r", "alpha"), [(0.1, 4.3), (1.5, 2.0), (0.5, 0.4)])
@pytest.mark.parametrize("ratio", [1, 7, 64, 1024])
def test_delta_of_the_sum_is_never_above_that_of_the_central_pair(r, alpha, ratio):
    central = DirichletMechanism(r, alpha, adjacency="add_remove")
    most = int((ratio + 1) * (alpha + r + 18))
    more, less = (probabilities(shape, ratio, most) for shape in (alpha + r, alpha))
    beyond = 1 - float(min(sum(more), sum(less)))
    deltas = {}
    for epsilon in (0.1, 0.5, 1.0):
        factor = mpmath.exp(epsilon)
        sides = ((more, less), (less, more))
        deltas[epsilon] = max(
            float(sum(max(p - factor * q, 0) for p, q in zip(*pair, strict=True))) for pair in sides
        )
        assert deltas[epsilon] <= central.delta(epsilon) * (1 + 1e-9)
    assert beyond < 1e-3 * deltas[0.1]
    # The comparison is not vacuous: at a large ratio hardly anything is lost.
    if ratio == 1024:
        assert deltas[0.1] > 0.97 * central.delta(0.1)


def replacement_delta(r, alpha, ratio, epsilon):
    """Return delta of a record that moves from one cell to another, from probabilities."""
    most = int(ratio * (alpha + r + 12 * np.sqrt(alpha + r) + 40))
    k = np.arange(most)
    q = 1 / (1 + ratio)
    more, less = stats.nbinom(alpha + r, q).pmf(k), stats.nbinom(alpha, q).pmf(k)
    p = np.multiply.outer(more, less)
    return float(np.maximum(p - np.exp(epsilon) * p.T, 0).sum())


@pytest.mark.parametrize(("r", "alpha"), [(0.1, 4.3), (1.5, 2.0), (1.0, 10.0)])
def test_delta_of_a_replacement_is_never_above_the_central_one_and_approaches_it(r, alpha):
    central = DirichletMechanism(r, alpha)
    for epsilon in (0.1, 0.3, 1.0):
        deltas = [replacement_delta(r, alpha, ratio, epsilon) for ratio in (1, 4, 16)]
        assert deltas == sorted(deltas)
        assert deltas[-1] <= central.delta(epsilon)
    assert replacement_delta(r, alpha, 64, 0.1) > 0.95 * central.delta(0.1)


def attack(mechanism, n_honest, epsilon, size=100_000, seed=0):
    """Lower and upper confidence limits of delta, from colluders who see all but honest shares.

    The honest parties hold one record, in the first or in the second cell. The colluders know
    their own shares and subtract them from the sum. They test the likelihood ratio, which is best.
    """
    rng = np.random.default_rng(seed)
    n_colluders = mechanism.n_parties - n_honest

    def drawn(record):
        total = np.zeros((size, 2), np.int64)
        own = np.zeros((size, 2), np.int64)
        for party in range(n_honest):
            counts = np.zeros((size, 2))
            if party == 0:
                counts[:, record] = 1
            total += mechanism.draw_share(counts, rng)
        for _ in range(n_colluders):
            share = mechanism.draw_share(np.full((size, 2), 5.0), rng)
            total += share
            own += share
        return total - own

    r, alpha = mechanism.parameters()
    prior, q = n_honest * alpha, 1 / (1 + mechanism.ratio)

    def loss(n):
        more, less = stats.nbinom(prior + r, q).logpmf(n), stats.nbinom(prior, q).logpmf(n)
        return more[:, 0] + less[:, 1] - more[:, 1] - less[:, 0]

    hits = [int((loss(drawn(record)) > epsilon).sum()) for record in (0, 1)]
    first, second = (stats.binomtest(count, size).proportion_ci(0.999) for count in hits)
    factor = np.exp(epsilon)
    return first.low - factor * second.high, first.high - factor * second.low


@pytest.mark.parametrize(("n_parties", "n_absent"), [(5, 2), (6, 0)])
def test_colluding_parties_reach_the_claim_and_no_more(n_parties, n_absent):
    central, epsilon = DirichletMechanism(1.5, 2.0), 0.5
    mechanism = DistributedDirichletMechanism(central, n_parties, max_absent=n_absent)
    low, high = attack(mechanism, n_parties - n_absent, epsilon)
    claim = mechanism.delta(epsilon)
    assert claim == central.delta(epsilon)
    assert low <= claim
    assert claim / 2 < low  # a claim half as large would be caught
    assert high > 0.95 * claim


def test_one_more_absent_party_than_allowed_breaks_the_claim():
    mechanism = DistributedDirichletMechanism(DirichletMechanism(1.5, 2.0), 5, max_absent=2)
    low, _ = attack(mechanism, 2, 0.5)
    assert low > mechanism.delta(0.5)


def test_two_sums_reveal_the_share_of_one_party():
    one_sum, one_party = DirichletMechanism(1.5, 40.0), DirichletMechanism(1.5, 40 / 7)
    assert one_sum.delta(1.0) == pytest.approx(0.00024, rel=0.02)
    assert one_party.delta(1.0) == pytest.approx(0.084, rel=0.02)


# Parameters and estimates -----------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_privacy_curves_are_those_of_the_central_mechanism(adjacency):
    central = DirichletMechanism(0.4, 5.0, adjacency=adjacency, max_count=2.0, max_total=6.0)
    mechanism = DistributedDirichletMechanism(central, 9, max_absent=3)
    assert mechanism.rdp(3.0) == central.rdp(3.0)
    assert mechanism.delta(0.7) == central.delta(0.7)
    assert mechanism.epsilon(1e-5) == central.epsilon(1e-5)


@pytest.mark.parametrize("n_absent", range(7))
def test_parameters_are_rounded_to_the_private_side(n_absent):
    for alpha in (0.1, 1 / 3, 4.29, 1e6, 1e-9):
        central = DirichletMechanism(0.0986, alpha, max_count=3.0, max_total=10.0)
        mechanism = DistributedDirichletMechanism(central, 7, max_absent=n_absent)
        for grid in (1.0, 2.0**-20):
            r, share = map(Fraction, mechanism.parameters(grid))
            assert r <= Fraction(0.0986)
            assert (7 - n_absent) * share >= Fraction(alpha)
            assert (7 - n_absent) * share <= Fraction(alpha) * Fraction(11, 10)


def test_noisy_counts_have_the_mean_and_the_variance_that_are_stated():
    size, counts = 200_000, (30.0, 0.0, 7.5)
    central = DirichletMechanism(0.5, 3.0, max_count=4.0, max_total=4.0)
    mechanism = DistributedDirichletMechanism(central, 3, max_absent=1, ratio=16)
    rng = np.random.default_rng(4)
    total = sum(mechanism.draw_share(np.tile(counts, (size, 1)), rng) for _ in range(3))
    noisy = mechanism.noisy_counts(total, 3)
    noise = mechanism.as_drawn(3).noise
    expected = noise.variance_at(3 * np.array(counts))
    assert np.abs(noisy.mean(axis=0) - 3 * np.array(counts)).max() < 5 * np.sqrt(
        expected.max() / size
    )
    np.testing.assert_allclose(noisy.var(axis=0), expected, rtol=6 / np.sqrt(size / 4))
    # At the default ratio the variance is that of the central mechanism, with a factor of 1.001.
    fine = replace(mechanism, max_absent=0, ratio=1024).as_drawn(3).noise
    assert fine.variance <= 1.002 * central.noise.variance
    assert fine.per_count <= 1.002 * central.noise.per_count


def test_probabilities_are_positive_also_for_a_sum_of_zero():
    mechanism = DistributedDirichletMechanism(DirichletMechanism(1.0, 0.5), 2, ratio=4)
    probabilities = mechanism.probabilities([[0, 0, 9], [1, 2, 3]], 2)
    assert (probabilities > 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_sums_exceed_their_bound_rarely():
    mechanism = DistributedDirichletMechanism(DirichletMechanism(0.5, 3.0), 4, ratio=64)
    r, alpha = mechanism.parameters()
    for total in (0, 100, 10**6):
        bound = mechanism.largest_sum(total)
        tail = stats.nbinom(r * total + 4 * alpha, 1 / 65).sf(bound)
        assert tail < 2.0**-64
        assert stats.nbinom(r * total + 4 * alpha, 1 / 65).mean() < bound


@pytest.mark.parametrize(
    ("central", "options", "message"),
    [
        (GaussianMechanism(1.0), {}, "DirichletMechanism"),
        (DirichletMechanism(np.inf, np.inf), {}, "infinite"),
        (DirichletMechanism(1.0, 1.0, floor=2.0), {}, "floor"),
        (DirichletMechanism(1.0, 1.0), {"n_parties": 0}, "n_parties"),
        (DirichletMechanism(1.0, 1.0), {"max_absent": 3}, "max_absent"),
        (DirichletMechanism(1.0, 1.0), {"ratio": 5000}, "ratio"),
    ],
)
def test_invalid_parameters_raise_an_error(central, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DistributedDirichletMechanism(central, **{"n_parties": 3, **options})


def test_a_sum_of_too_few_parties_is_refused():
    mechanism = DistributedDirichletMechanism(DirichletMechanism(1.0, 1.0), 5, max_absent=2)
    with pytest.raises(ValueError, match="n_present must be at least 3"):
        mechanism.noisy_counts([[1, 2]], 2)
