"""PrivateDirichletPosterior: its six mechanisms, proved by enumeration, and its interface."""

import pickle
import time
from collections import Counter
from functools import lru_cache
from itertools import combinations, product

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import gammaln
from sklearn.base import clone

from skdirdp.accountant import PrivacyAccountant
from skdirdp.accounting import Composition, NoPrivacy, PureDP
from skdirdp.base import PrivacyReport, PrivateEstimator
from skdirdp.exceptions import BudgetExceededError, PrivacyLeakWarning
from skdirdp.posterior import (
    PrivateDirichletPosterior,
    global_sensitivity,
    hellinger_distance,
    local_sensitivity,
    smooth_sensitivity,
)

# ---------------------------------------------------------------- an independent account
# Everything below is written from the papers' formulas, by brute force over lists of
# all data sets, and shares no code with the package.


def compositions(n, k):
    return [x for x in product(range(n + 1), repeat=k) if sum(x) == n]


def log_beta(v):
    return gammaln(v).sum(-1) - gammaln(v.sum(-1))


@lru_cache(maxsize=64)
def brute_geometry(prior, n):
    """All data sets, the distances of their posteriors, and how many records differ."""
    counts = np.array(compositions(n, len(prior)))
    a = counts + np.array(prior)
    middle = (a[:, None] + a) / 2
    affinity = np.exp(log_beta(middle) - (log_beta(a)[:, None] + log_beta(a)) / 2)
    moved = np.abs(counts[:, None] - counts).sum(-1) // 2
    return counts, np.sqrt(np.maximum(1 - affinity, 0)), moved


def brute_rates(mechanism, prior, n, gamma):
    _, distance, moved = brute_geometry(prior, n)
    local = np.where(moved == 1, distance, 0).max(1)
    if mechanism == "ehd":
        return np.full(len(local), 1 / local.max())
    if mechanism == "ehdl":
        return 1 / local
    return (1 / local + gamma * moved).min(1)


def brute_exponential(mechanism, prior, n, scale, gamma=1.0):
    _, distance, _ = brute_geometry(prior, n)
    weights = np.exp(-scale * brute_rates(mechanism, prior, n, gamma)[:, None] * distance)
    return weights / weights.sum(1, keepdims=True)


def brute_laplace(mechanism, x, n, epsilon):
    """The joint distribution of the noisy cells, as an array with one axis per cell."""
    k = len(x)
    scale = {"lszhang": 2 * k, "lsdim": k, "lshist": 1 if k == 2 else 2}[mechanism] / epsilon
    joint = np.ones(())
    for count in x if mechanism == "lszhang" else x[:-1]:
        joint = np.multiply.outer(joint, brute_cell(count, n, scale))
    return joint


def brute_cell(count, n, scale):
    """The noisy count rounds down and is clamped: all below 1 is 0, all from n on is n."""
    noise = stats.laplace(scale=scale)
    edges = np.concatenate([[-np.inf], np.arange(1, n + 1), [np.inf]]) - count
    below, above = noise.cdf(edges), noise.sf(edges)
    return np.where(edges[:-1] >= 0, -np.diff(above), np.diff(below))


def brute_loss(distributions, neighbours):
    worst = 0.0
    for x, y in neighbours:
        ratio = np.abs(np.log(distributions[x]) - np.log(distributions[y]))
        worst = max(worst, float(ratio.max()))
    return worst


def brute_realised(mechanism, prior, n, epsilon, scale=None, gamma=1.0):
    counts, _, moved = brute_geometry(prior, n)
    neighbours = np.argwhere(np.triu(moved == 1))
    if mechanism.startswith("ls"):
        distributions = [brute_laplace(mechanism, tuple(x), n, epsilon) for x in counts]
    else:
        distributions = brute_exponential(mechanism, prior, n, scale, gamma)
    return brute_loss(distributions, neighbours)


def seeded(mechanism="ehds", seed=0, **parameters):
    return PrivateDirichletPosterior(mechanism=mechanism, random_state=seed, **parameters)


def fit_counts(estimator, counts):
    with pytest.warns(PrivacyLeakWarning):
        return estimator.fit_counts(counts)


PRIORS = [
    (1.0, 1.0),
    (0.5, 0.5),
    (0.1, 3.0),
    (1.0, 1.0, 1.0),
    (0.5, 0.5, 0.5),
    (0.2, 1.0, 4.0),
    (0.5, 0.5, 0.5, 0.5),
    (1.0, 0.3, 2.0, 0.7),
]
SIZES = {2: (1, 2, 5, 8), 3: (1, 3, 8), 4: (1, 4, 6)}
CASES = [(prior, n) for prior in PRIORS for n in SIZES[len(prior)]]


# ---------------------------------------------------------------- proofs by enumeration


@pytest.mark.parametrize(("prior", "n"), CASES)
@pytest.mark.parametrize("mechanism", ["ehd", "ehds"])
def test_exact_calibration_uses_epsilon_and_never_more(mechanism, prior, n):
    for epsilon in (0.3, 1.0, 4.0):
        estimator = seeded(mechanism, prior=prior, epsilon=epsilon)
        privacy = fit_counts(estimator, compositions(n, len(prior))[0]).privacy_
        loss = brute_realised(mechanism, prior, n, epsilon, privacy.exponent)
        assert loss <= epsilon
        assert privacy.calibration == "exact"
        assert loss == pytest.approx(epsilon, rel=1e-6)
        assert privacy.loss == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(("prior", "n"), CASES)
@pytest.mark.parametrize("mechanism", ["ehd", "ehds"])
def test_the_papers_exponents_are_private(mechanism, prior, n):
    for epsilon in (0.3, 1.0, 4.0):
        estimator = seeded(mechanism, prior=prior, epsilon=epsilon, calibration="paper")
        privacy = fit_counts(estimator, compositions(n, len(prior))[0]).privacy_
        scale = epsilon / (4 if mechanism == "ehds" else 2)
        assert privacy.exponent == scale
        loss = brute_realised(mechanism, prior, n, epsilon, scale)
        assert loss <= epsilon
        assert privacy.loss == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(("prior", "n"), CASES)
@pytest.mark.parametrize("mechanism", ["lszhang", "lsdim", "lshist"])
def test_laplace_noise_is_private_and_its_true_loss_is_reported(mechanism, prior, n):
    k = len(prior)
    if mechanism == "lszhang" and n**k > 600:
        n = 4
    for epsilon in (0.3, 1.0, 4.0):
        claimed = fit_counts(
            seeded(mechanism, prior=prior, epsilon=epsilon), compositions(n, k)[0]
        ).privacy_.loss
        # LSZhang is epsilon/k-DP, LSDim epsilon/2 (k = 2) or 2 epsilon/k, LSHist epsilon
        truth = {"lszhang": 1 / k, "lsdim": 0.5 if k == 2 else 2 / k, "lshist": 1.0}[mechanism]
        assert claimed == pytest.approx(truth * epsilon, rel=1e-12)
        loss = brute_realised(mechanism, prior, n, epsilon)
        assert loss <= claimed * (1 + 1e-9)
        if n >= 3:
            assert loss == pytest.approx(claimed, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_ehds_is_private_for_every_gamma(gamma, calibration):
    for prior, n in [((1.0, 1.0), 8), ((0.5, 0.5, 0.5), 6), ((0.2, 1.0, 4.0), 6)]:
        estimator = seeded(prior=prior, gamma=gamma, calibration=calibration)
        exponent = fit_counts(estimator, compositions(n, len(prior))[1]).privacy_.exponent
        assert brute_realised("ehds", prior, n, 1.0, exponent, gamma) <= 1.0


def test_the_papers_use_a_part_of_their_epsilon():
    losses = {"ehd": [], "ehds": [], "ehdl": []}
    for prior, n in CASES:
        if n > 2:
            for name, values in losses.items():
                scale = 0.25 if name == "ehds" else 0.5
                values.append(brute_realised(name, prior, n, 1.0, scale))
    assert min(losses["ehd"]) >= 0.49
    assert max(losses["ehd"]) <= 0.72
    assert min(losses["ehds"]) >= 0.24
    assert max(losses["ehds"]) <= 0.40


def test_ehdl_exceeds_its_epsilon_somewhere():
    prior, n, epsilon = (3e-4, 3e-4), 190, 0.1
    loss = brute_realised("ehdl", prior, n, epsilon, epsilon / 2)
    assert loss > 1.1 * epsilon
    estimator = seeded("ehdl", prior=prior, epsilon=epsilon)
    privacy = fit_counts(estimator, (100, 90)).privacy_
    assert privacy.loss == pytest.approx(loss, rel=1e-6)
    assert not privacy.is_private
    assert privacy.epsilon == np.inf


def test_a_constant_sensitivity_would_violate_privacy_under_a_small_prior():
    """sqrt(1 - pi/4) is the global sensitivity of a uniform prior only."""
    assert global_sensitivity([0.5] * 3, 10) == pytest.approx(np.sqrt(1 - 2 / np.pi), rel=1e-14)
    assert global_sensitivity([1.0] * 3, 10) == pytest.approx(np.sqrt(1 - np.pi / 4), rel=1e-14)
    assert global_sensitivity([1.0, 1.0], 60) == pytest.approx(0.340, abs=5e-4)


# ---------------------------------------------------------------- where not all is followed


@pytest.mark.parametrize("mechanism", ["ehd", "ehds"])
@pytest.mark.parametrize("prior", [(1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (0.3, 1.0, 2.0)])
def test_a_bounded_exponent_is_private_too(mechanism, prior, monkeypatch):
    from skdirdp.posterior import hellinger

    monkeypatch.setattr(hellinger, "_MAX_WORK", 300)
    monkeypatch.setattr(hellinger, "_PARTIAL_WORK", 200)
    for n in (8, 12):
        exponent = hellinger.exact_exponent.__wrapped__(mechanism, prior, n, 1.0, 1.0)
        if mechanism == "ehds":
            assert exponent.loss is None
        paper = 1 / 4 if mechanism == "ehds" else 1 / 2
        loss = brute_realised(mechanism, prior, n, 1.0, exponent.scale)
        assert paper * (1 - 1e-8) <= exponent.scale
        assert loss <= 1.0


def test_without_a_list_of_neighbours_the_range_bound_is_private(monkeypatch):
    from skdirdp.posterior import hellinger

    monkeypatch.setattr(hellinger, "_MAX_WORK", 10)
    for gamma in (0.2, 1.0, 2.0):
        exponent = hellinger.exact_exponent.__wrapped__("ehds", (0.5,) * 3, 8, 1.0, gamma)
        assert exponent.scale >= 1 / (2 + gamma) * (1 - 1e-8)
        assert exponent.scale > 1 / (2 + 2 * gamma)
        assert brute_realised("ehds", (0.5,) * 3, 8, 1.0, exponent.scale, gamma) <= 1.0


@pytest.mark.parametrize(("prior", "n"), [((1.0, 1.0), 40), ((0.2, 1.0, 4.0), 8)])
@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_the_range_bound_covers_every_pair(prior, n, gamma):
    from skdirdp.posterior.hellinger import _range_bound

    _, distance, moved = brute_geometry(prior, n)
    rates = brute_rates("ehds", prior, n, gamma)
    first, second = np.argwhere(np.triu(moved == 1)).T
    change = rates[second][:, None] * distance[second] - rates[first][:, None] * distance[first]
    bound = _range_bound(rates[first], rates[second], distance[first, second])
    assert np.all(np.ptp(change, axis=1) <= bound + 1e-9)
    assert np.all(bound <= 1 + min(1 + gamma, np.sqrt(1 + 2 * gamma**2)) + 1e-9)


@pytest.mark.parametrize("sizes", [(2, 15000, 0.2), (3, 600, 2.0), (4, 100, 2.0)])
@pytest.mark.parametrize("mechanism", ["ehd", "ehds"])
def test_large_releases_are_quick(mechanism, sizes):
    k, n, limit = sizes
    counts = np.full(k, n // k)
    counts[0] += n - counts.sum()
    estimator = PrivateDirichletPosterior(n_categories=k, mechanism=mechanism)
    estimator.fit_counts(counts)
    start = time.perf_counter()
    estimator.fit_counts(counts)
    assert time.perf_counter() - start < limit
    assert estimator.concentration_.sum() == n + k


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("mechanism", ["ehd", "ehds", "ehdl"])
@pytest.mark.parametrize(("prior", "n"), [((1.0, 1.0), 7), ((0.5, 1.0, 2.0), 5)])
def test_exponential_weights_match_the_brute_force(mechanism, prior, n):
    from skdirdp.posterior.hellinger import log_weights, posterior_lattice

    counts, _, _ = brute_geometry(prior, n)
    truth = brute_exponential(mechanism, prior, n, 0.7)
    lattice = posterior_lattice(prior, n)
    order = lattice.rank(counts)
    for row, x in enumerate(counts):
        weights = np.exp(log_weights(mechanism, x, lattice, 0.7, 1.0))[order]
        np.testing.assert_allclose(weights / weights.sum(), truth[row], rtol=1e-10)


@pytest.mark.parametrize("mechanism", ["ehd", "ehds", "lszhang", "lsdim", "lshist"])
def test_draws_follow_the_distribution(mechanism):
    prior, x, n, draws = (1.0, 0.5, 1.0), (1, 3, 0), 4, 1500
    generator = np.random.default_rng(7)
    estimator = PrivateDirichletPosterior(
        prior, mechanism=mechanism, epsilon=2.0, random_state=generator
    )

    def draw_all():
        released = [estimator.fit_counts(x).concentration_ for _ in range(draws)]
        return Counter(map(tuple, np.rint(np.array(released) - prior).astype(int)))

    with pytest.warns(PrivacyLeakWarning):
        seen = draw_all()
    if mechanism.startswith("ls"):
        joint = brute_laplace(mechanism, x, n, 2.0)
        expected = {}
        for cells in np.ndindex(joint.shape):
            last = () if len(cells) == 3 else (min(max(n - sum(cells), 0), n),)
            expected[cells + last] = joint[cells]
    else:
        counts, _, _ = brute_geometry(prior, n)
        row = [tuple(c) for c in counts].index(x)
        scale = estimator.privacy_.exponent
        expected = dict(
            zip(map(tuple, counts), brute_exponential(mechanism, prior, n, scale)[row], strict=True)
        )
    assert set(seen) <= set(expected)
    common = [key for key, p in expected.items() if p * draws >= 5]
    observed = [seen.get(key, 0) for key in common]
    wanted = [expected[key] * draws for key in common]
    if len(common) < len(expected):
        observed.append(draws - sum(observed))
        wanted.append(draws - sum(wanted))
    assert stats.chisquare(observed, wanted).pvalue > 1e-4


# ---------------------------------------------------------------- Hellinger and sensitivities


def reference_distance(a, b):
    def log_b(v):
        return mpmath.fsum(map(mpmath.loggamma, v)) - mpmath.loggamma(mpmath.fsum(v))

    with mpmath.workdps(120):
        a, b = ([mpmath.mpf(float(t)) for t in v] for v in (a, b))
        middle = [(s + t) / 2 for s, t in zip(a, b, strict=True)]
        return mpmath.sqrt(-mpmath.expm1(log_b(middle) - (log_b(a) + log_b(b)) / 2))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 1], [1, 2]),
        ([0.01, 0.2, 5], [3, 0.001, 2]),
        ([1e3, 2e3], [1e3 + 1, 2e3 - 1]),
        ([1e9, 1e9, 1], [1e9 + 1, 1e9 - 1, 1]),
        ([1e12, 1e12], [1e12 + 1, 1e12 - 1]),
        ([1e12, 1e12], [1.000001e12, 1.000001e12]),
        ([1e8, 3e8, 2e8], [1.1e8, 3.3e8, 2.2e8]),
        ([1e-6, 1e6], [1e6, 1e-6]),
        ([4e11, 300.0], [5.0, 0.006]),
    ],
)
def test_hellinger_distance_is_accurate_at_every_size(a, b):
    truth = float(reference_distance(a, b))
    assert hellinger_distance(a, b) == pytest.approx(truth, rel=1e-8)
    assert hellinger_distance(b, a) == pytest.approx(hellinger_distance(a, b), rel=1e-8)


@pytest.mark.parametrize("difference", [1e-16, 2e-15, 1e-13, 1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0, 12.0, 5e4, 1e12])
@pytest.mark.parametrize(
    "direction", [(1, 0, 0), (1, -1, 0), (1, 1, 1), (1, 2, 5), (-1, 3, -2)], ids=str
)
def test_hellinger_distance_keeps_its_digits_between_near_arguments(difference, size, direction):
    a = size * np.array([1.0, 2.0, 5.0])
    b = a * (1 + difference * np.array(direction) / np.array([1.0, 2.0, 5.0]))
    # No factor is that close to 1: the next number is the nearest there is.
    b[0] = np.nextafter(a[0], a[0] + direction[0]) if b[0] == a[0] else b[0]
    truth = float(reference_distance(a, b))
    assert hellinger_distance(a, b) == pytest.approx(truth, rel=1e-12, abs=0)
    assert hellinger_distance(b, a) == pytest.approx(truth, rel=1e-12, abs=0)


def test_hellinger_distance_is_finite_between_arguments_of_any_sizes():
    for a, b in [([1e30, 1.0], [1.0, 1.0]), ([1e80, 2e80], [1e80, 2.0]), ([1e-200, 1], [1, 1])]:
        assert hellinger_distance(a, b) == pytest.approx(float(reference_distance(a, b)), rel=1e-9)


def test_hellinger_distance_broadcasts_and_is_a_metric():
    points = np.random.default_rng(0).gamma(1.0, 5.0, (12, 3)) + 1e-3
    distance = hellinger_distance(points[:, None], points)
    assert np.array_equal(np.diag(distance), np.zeros(12))
    assert np.all((distance >= 0) & (distance <= 1))
    through = distance[:, :, None] + distance[None]
    assert np.all(distance <= through.min(axis=1) + 1e-12)


@pytest.mark.parametrize(
    ("prior", "n"),
    [
        ((1.0, 1.0), 1),
        ((1.0, 1.0), 40),
        ((0.1, 3.0), 8),
        ((1.0, 1.0, 1.0), 1),
        ((0.1, 0.1, 0.1), 9),
        ((0.2, 1.0, 4.0), 6),
        ((1.0, 0.3, 2.0, 0.7), 4),
    ],
)
def test_sensitivities_match_the_brute_force(prior, n):
    counts, distance, moved = brute_geometry(prior, n)
    local = np.where(moved == 1, distance, 0).max(1)
    assert global_sensitivity(prior, n) == pytest.approx(local.max(), rel=1e-9)
    for gamma in (0.1, 1.0):
        smooth = 1 / (1 / local + gamma * moved).min(1)
        for row, x in enumerate(counts):
            assert local_sensitivity(x, prior) == pytest.approx(local[row], rel=1e-9)
            assert smooth_sensitivity(x, prior, gamma) == pytest.approx(smooth[row], rel=1e-9)


def test_the_local_sensitivity_needs_no_maximum_over_candidates():
    """Figure 2 of the paper: the largest change of a score is at the data set itself."""
    counts, distance, moved = brute_geometry((1.0, 0.5, 2.0), 6)
    change = np.abs(distance[:, None] - distance).max(-1)
    largest = np.where(moved == 1, change, 0).max(1)
    ours = [local_sensitivity(x, (1.0, 0.5, 2.0)) for x in counts]
    np.testing.assert_allclose(ours, largest, rtol=1e-9)


def test_distances_on_a_long_lattice_stay_accurate():
    from skdirdp.posterior.hellinger import PosteriorLattice

    lattice = PosteriorLattice((0.5, 1.0), 15000)
    for x in ((7500, 7500), (3, 14997), (14999, 1)):
        distances = lattice.distances(np.array(x))
        for i in (x[0] - 1, x[0] + 1, 20, 12000):
            c = lattice.counts[i]
            truth = float(reference_distance(np.add(x, (0.5, 1.0)), c + np.array([0.5, 1.0])))
            assert distances[i] == pytest.approx(truth, rel=1e-9)


# ---------------------------------------------------------------- calibration


def test_exact_calibration_is_more_accurate():
    def expected_distance(mechanism, scale):
        counts, distance, _ = brute_geometry((1.0, 1.0), 60)
        row = [tuple(c) for c in counts].index((30, 30))
        if mechanism == "lshist":
            pmf = brute_laplace("lshist", (30, 30), 60, 1.0)
        else:
            pmf = brute_exponential(mechanism, (1.0, 1.0), 60, scale)[row]
        return pmf @ distance[row]

    results = {}
    for calibration in ("paper", "exact"):
        estimator = seeded(n_categories=2, calibration=calibration)
        exponent = fit_counts(estimator, (30, 30)).privacy_.exponent
        results[calibration] = expected_distance("ehds", exponent)
    assert results["exact"] < 0.7 * results["paper"]


# ---------------------------------------------------------------- the estimator


class Ledger:
    def __init__(self, refuse=False):
        self.charges, self.refuse = [], refuse

    def charge(self, mechanism, releases=1, label=None):
        if self.refuse:
            raise BudgetExceededError("too much")
        self.charges.append((mechanism, releases, label))


def test_labels_and_codes_and_counts_are_the_same_data():
    codes = np.array([0, 2, 2, 1, 2, 0])
    labels = np.array(["a", "b", "c"])[codes]
    fits = [
        lambda e: e.set_params(n_categories=3).fit(codes),
        lambda e: e.set_params(n_categories=3).fit(codes.reshape(-1, 1)),
        lambda e: e.set_params(n_categories=3).fit(codes.astype(float)),
        lambda e: e.set_params(categories=["a", "b", "c"]).fit(labels),
        lambda e: e.set_params(categories=["a", "b", "c"]).fit(list(labels)),
        lambda e: e.set_params(prior=[1.0, 1.0, 1.0]).fit(codes),
        lambda e: e.set_params(n_categories=3).fit_counts([2, 1, 3]),
    ]
    results = []
    for fit in fits:
        with pytest.warns(PrivacyLeakWarning, match="random_state"):
            results.append(fit(seeded()).concentration_)
    assert all(np.array_equal(r, results[0]) for r in results)


def test_an_infinite_epsilon_gives_the_exact_posterior():
    estimator = PrivateDirichletPosterior(
        prior=[0.5, 1.0, 2.0], epsilon=np.inf, accountant=(ledger := Ledger())
    ).fit([0, 1, 1, 2])
    np.testing.assert_allclose(estimator.concentration_, [1.5, 3.0, 3.0])
    np.testing.assert_allclose(estimator.mean_, np.array([1.5, 3.0, 3.0]) / 7.5)
    assert not estimator.privacy_.is_private
    assert Composition([(ledger.charges[0][0], 1)]).epsilon(1e-5) == np.inf


def test_samples_and_intervals_are_those_of_the_released_posterior():
    estimator = PrivateDirichletPosterior(n_categories=3, epsilon=np.inf).fit_counts([4, 0, 10])
    draws = estimator.sample(n_samples=20000, random_state=3)
    assert draws.shape == (20000, 3)
    np.testing.assert_allclose(draws.mean(0), estimator.mean_, atol=0.01)
    interval = estimator.credible_interval(confidence=0.8)
    truth = stats.beta([5, 1, 11], [12, 16, 6]).ppf(np.array([[0.1], [0.9]])).T
    np.testing.assert_allclose(interval, truth, rtol=1e-9)


@pytest.mark.parametrize("mechanism", ["lshist", "lsdim", "lszhang"])
def test_the_accountant_is_charged_as_pure_dp(mechanism):
    ledger = Ledger()
    PrivateDirichletPosterior(
        n_categories=2, mechanism=mechanism, epsilon=0.7, accountant=ledger
    ).fit_counts([3, 4])
    ((charged, releases, label),) = ledger.charges
    assert charged == PureDP(0.7)
    assert releases == 1
    assert label


def brute_profile(distributions, neighbours, epsilons):
    """The largest delta over all neighbours, in both orders."""
    ordered = [(a, b) for pair in neighbours for a, b in (pair, pair[::-1])]
    return [
        max(
            np.maximum(0.0, distributions[a] - np.exp(epsilon) * distributions[b]).sum()
            for a, b in ordered
        )
        for epsilon in epsilons
    ]


@pytest.mark.parametrize(
    ("mechanism", "prior", "n", "calibration"),
    [
        ("ehds", (1.0, 1.0), 30, "exact"),
        ("ehds", (1.0, 1.0, 1.0), 6, "exact"),
        ("ehd", (0.5, 2.0), 9, "exact"),
        ("ehd", (0.5, 1.0, 0.5), 4, "paper"),
        ("ehds", (1.0, 1.0), 1, "paper"),
    ],
)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_the_profile_that_is_charged_is_that_of_the_worst_neighbours(
    mechanism, prior, n, calibration, epsilon
):
    ledger = Ledger()
    model = PrivateDirichletPosterior(
        prior=list(prior),
        mechanism=mechanism,
        epsilon=epsilon,
        calibration=calibration,
        accountant=ledger,
    )
    report = model.fit_counts((n, *[0] * (len(prior) - 1))).privacy_
    ((charged, releases, _),) = ledger.charges
    assert releases == 1
    assert report.mechanisms == ((charged, 1),)
    assert charged.epsilons[-1] <= epsilon
    points = compositions(n, len(prior))
    near = [
        (a, b)
        for a, b in combinations(range(len(points)), 2)
        if np.abs(np.subtract(points[a], points[b])).sum() == 2
    ]
    distributions = brute_exponential(mechanism, prior, n, report.exponent)
    epsilons = np.linspace(0, epsilon, 23)
    truth = np.array(brute_profile(np.asarray(distributions), near, epsilons))
    claim = charged.delta(epsilons)
    assert np.all(claim >= truth)
    # Between the points at which it is known, the claim is a chord.
    assert np.all(claim <= truth + 0.005 * max(1, epsilon) * truth[0] + 1e-9)


@pytest.mark.parametrize(("n", "k", "total"), [(30, 2, 9.41), (12, 3, 5.98)])
def test_ten_posteriors_cost_less_than_ten_randomised_responses(n, k, total, tmp_path):
    path = tmp_path / "ledger.db"
    accountant = PrivacyAccountant(path=path)
    model = PrivateDirichletPosterior(n_categories=k, accountant=accountant)
    for _ in range(10):
        model.fit_counts([n] + [0] * (k - 1))
    assert Composition([(PureDP(1.0), 10)]).epsilon(1e-5) > 9.99
    assert total - 0.02 < accountant.total(1e-5) < total
    # The same from a file, to the last digit.
    assert PrivacyAccountant(path=path).total(1e-5) == accountant.total(1e-5)


def test_ten_posteriors_are_not_claimed_to_cost_less_than_they_do():
    # The losses of ten draws from the worst neighbours, in exact convolution.
    model = PrivateDirichletPosterior(n_categories=2)
    report = model.fit_counts([5, 0]).privacy_
    rows = np.asarray(brute_exponential("ehds", (1.0, 1.0), 5, report.exponent))
    claim = Composition([(report.mechanisms[0][0], 10)])
    for a, b in ((0, 1), (1, 0), (2, 3), (4, 5)):
        p, q = rows[a], rows[b]
        losses, masses = np.log(p / q), p
        sums, weights = np.zeros(1), np.ones(1)
        for _ in range(10):
            sums = (sums[:, None] + losses).ravel()
            weights = (weights[:, None] * masses).ravel()
            # Equal sums, up to rounding, are one.
            sums, index = np.unique(sums.round(9), return_inverse=True)
            weights = np.bincount(index, weights)
        for epsilon in (0.5, 2.0, 5.0):
            truth = weights @ np.maximum(0, -np.expm1(epsilon - sums))
            assert truth <= claim.delta(epsilon) + 1e-8


def test_a_refused_charge_releases_nothing():
    estimator = PrivateDirichletPosterior(n_categories=2, accountant=Ledger(refuse=True))
    with pytest.raises(BudgetExceededError):
        estimator.fit_counts([3, 4])
    assert not hasattr(estimator, "concentration_")


def test_invalid_data_are_not_charged():
    ledger = Ledger()
    estimator = PrivateDirichletPosterior(n_categories=2, accountant=ledger)
    for bad in ([0, 1, 2], [], [0, -1]):
        with pytest.raises(ValueError, match="x must contain"):
            estimator.fit(bad)
    assert ledger.charges == []


def test_ehdl_warns_and_charges_everything():
    ledger = Ledger()
    estimator = PrivateDirichletPosterior(n_categories=2, mechanism="ehdl", accountant=ledger)
    with pytest.warns(PrivacyLeakWarning, match="not private"):
        estimator.fit_counts([3, 4])
    assert not estimator.privacy_.is_private
    assert Composition([(ledger.charges[0][0], 1)]).epsilon(1e-5) == np.inf


def test_a_domain_from_the_data_warns():
    with pytest.warns(PrivacyLeakWarning, match="categories"):
        estimator = PrivateDirichletPosterior().fit(["b", "a", "b"])
    assert estimator.categories_ == ["a", "b"]


def test_it_shares_the_base_and_the_report_of_all_private_estimators():
    estimator = PrivateDirichletPosterior(mechanism="lshist", epsilon=0.7).fit_counts([3, 4])
    report = estimator.privacy_
    assert isinstance(estimator, PrivateEstimator)
    assert isinstance(report, PrivacyReport)
    assert (report.epsilon, report.delta, report.order) == (0.7, 0.0, None)
    assert (report.adjacency, report.releases, report.not_covered) == ("replace", 1, ())
    assert report.mechanisms == ((PureDP(0.7), 1),)
    assert (report.mechanism, report.calibration, report.is_private) == ("lshist", "paper", True)
    assert str(report) == (
        "(0.7, 0)-differentially private against replacing one record; "
        "by mechanism 'lshist', as in the paper"
    )


@pytest.mark.parametrize("parameters", [{"mechanism": "ehdl"}, {"epsilon": np.inf}])
@pytest.mark.filterwarnings("ignore:mechanism='ehdl':skdirdp.exceptions.PrivacyLeakWarning")
def test_no_privacy_is_charged_and_reported_by_name(parameters):
    accountant = PrivacyAccountant()
    estimator = PrivateDirichletPosterior(n_categories=2, accountant=accountant, **parameters)
    report = estimator.fit_counts([3, 4]).privacy_
    assert report.mechanisms == ((NoPrivacy(), 1),)
    assert accountant.history()[0]["mechanism"] == "NoPrivacy"
    assert accountant.total() == report.epsilon == report.composition().epsilon(1e-5) == np.inf
    assert str(report).startswith("no privacy: ")
    refusing = estimator.set_params(accountant=PrivacyAccountant(epsilon=1e6))
    with pytest.raises(BudgetExceededError):
        refusing.fit_counts([3, 4])


@pytest.mark.parametrize("mechanism", ["ehd", "ehds", "ehdl", "lshist", "lsdim", "lszhang"])
@pytest.mark.parametrize(
    "epsilon", [np.float16(0.003), np.float32(0.003), np.int8(3), np.uint8(1), np.longdouble(0.7)]
)
@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_the_type_of_a_number_changes_neither_the_noise_nor_the_claim(mechanism, epsilon):
    """A Laplace scale in float16 may be 0.05% too small, and the loss as much above epsilon."""
    large = mechanism.startswith("ls")
    counts = np.full(200, 100_000) if large else np.array([70, 50, 7])
    for seed in range(3):
        released = []
        for number in (lambda value, kind: kind(value), lambda value, kind: value):
            ledger = Ledger()
            estimator = seeded(
                mechanism,
                seed,
                prior=number(np.float16(0.7), float),
                n_categories=number(np.uint8(counts.size), int),
                epsilon=number(epsilon, float),
                gamma=number(np.float16(1.3), float),
                accountant=ledger,
            )
            released.append(estimator.fit_counts(counts).concentration_)
            claim = ledger.charges[0][0]
            assert claim == (NoPrivacy() if mechanism == "ehdl" else PureDP(float(epsilon)))
            assert isinstance(claim, NoPrivacy) or type(claim.epsilon) is float
            assert type(estimator.privacy_.epsilon) is float
            assert type(estimator.n_categories_) is type(estimator.n_samples_) is int
        assert np.array_equal(*released)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float16, np.uint64, object])
def test_small_types_hold_counts_and_codes_but_not_their_sums(dtype):
    counts = np.array([100, 120, 90]).astype(dtype)  # 310 of them
    estimator = PrivateDirichletPosterior(n_categories=np.int8(3), epsilon=np.inf)
    for fitted in (
        lambda: estimator.fit_counts(counts),
        lambda: estimator.fit(np.repeat(np.arange(3).astype(dtype), [100, 120, 90])),
    ):
        np.testing.assert_array_equal(fitted().concentration_, [101, 121, 91])
        assert estimator.n_samples_ == 310
        assert estimator.mean_.sum() == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize("fit", ["fit", "fit_counts"])
def test_a_fit_that_fails_leaves_the_last_one(fit, monkeypatch):
    from skdirdp.posterior import hellinger

    ledger = Ledger()
    estimator = PrivateDirichletPosterior(n_categories=3, accountant=ledger).fit([0, 1, 2, 2])
    before = {name: value for name, value in vars(estimator).items() if name.endswith("_")}

    def unchanged():
        after = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
        return after.keys() == before.keys() and all(after[n] is before[n] for n in before)

    with pytest.raises((TypeError, ValueError)):  # in the data
        getattr(estimator, fit)([0, 1, -1])
    assert unchanged()
    with pytest.raises(ValueError, match="epsilon"):  # in a parameter
        getattr(estimator.set_params(epsilon=-1), fit)([0, 1, 2])
    assert unchanged()
    ledger.refuse = True
    with pytest.raises(BudgetExceededError):  # in the charge
        getattr(estimator.set_params(epsilon=1.0), fit)([0, 1, 2])
    assert unchanged()
    ledger.refuse = False

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(hellinger, "draw_candidate", interrupted)
    with pytest.raises(KeyboardInterrupt):  # in the draw
        getattr(estimator, fit)([0, 1, 2])
    assert unchanged()
    assert len(ledger.charges) == 2


@pytest.mark.parametrize("mechanism", ["ehd", "ehds", "lshist"])
def test_errors_are_raised_before_the_charge(mechanism, monkeypatch):
    """Only the draw itself comes after it."""
    from skdirdp.posterior import hellinger

    ledger = Ledger()
    estimator = PrivateDirichletPosterior(
        n_categories=2, mechanism=mechanism, calibration="paper", accountant=ledger
    )

    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr(hellinger, "inverse_sensitivity", fails)
    if mechanism == "lshist":
        estimator.fit_counts([3, 4])
        assert len(ledger.charges) == 1
    else:
        with pytest.raises(MemoryError):
            estimator.fit_counts([3, 4])
        assert ledger.charges == []


@pytest.mark.parametrize("epsilon", [1e-320, 1e-300, 1e300, 1e308])
def test_an_epsilon_at_the_end_of_all_floats_is_not_exceeded(epsilon):
    for mechanism in ("ehd", "ehds"):
        estimator = PrivateDirichletPosterior(mechanism=mechanism, epsilon=epsilon)
        with np.errstate(over="ignore", under="ignore"):
            report = estimator.fit_counts([3, 4, 5]).privacy_
        assert 0 <= report.loss <= epsilon
        assert report.epsilon == epsilon


def test_noise_without_a_seed_differs_and_warns_not():
    estimator = PrivateDirichletPosterior(n_categories=2, mechanism="lszhang", epsilon=0.01)
    draws = {tuple(estimator.fit_counts([500, 500]).concentration_) for _ in range(8)}
    assert len(draws) > 1


def test_nothing_exact_stays_behind():
    """Two data sets that release the same vector leave identical objects."""
    states = {}
    for counts in ([31, 29], [29, 31]):
        for seed in range(60):
            estimator = fit_counts(seeded(n_categories=2, seed=seed, epsilon=2.0), counts)
            estimator.random_state = None
            state = pickle.dumps(estimator), repr(estimator), repr(estimator.privacy_)
            states.setdefault(tuple(estimator.concentration_), {})[tuple(counts)] = state
    shared = [state for state in states.values() if len(state) == 2]
    assert shared
    assert all(state[(31, 29)] == state[(29, 31)] for state in shared)


def test_it_can_be_cloned_and_is_reproducible_from_a_seed():
    estimator = fit_counts(seeded(n_categories=3), [5, 6, 7])
    again = fit_counts(clone(estimator), [5, 6, 7])
    assert np.array_equal(estimator.concentration_, again.concentration_)
    assert not hasattr(clone(estimator), "concentration_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior": 0}, r"'prior' parameter .* range \(0.0, inf\).* Got 0 "),
        ({"prior": -1.0}, r"'prior' parameter .* Got -1.0 "),
        ({"prior": 1e13}, r"prior must be .* at most 1e\+12"),
        ({"prior": [1.0, 1e13]}, r"prior must be .* at most 1e\+12"),
        ({"prior": [1.0]}, r"vector of length at least 2; got shape \(1,\)"),
        ({"prior": np.array([1.0, 1j])}, "prior must be a number or a vector"),
        ({"prior": {1.0, 2.0}}, "prior must be a number or a vector"),
        ({"prior": [1.0, np.nan]}, "prior must be greater than 0"),
        ({"prior": [[1.0, 1.0]]}, r"prior must be a number, or a vector .*; got shape \(1, 2\)"),
        ({"prior": "flat"}, "'prior' parameter .* Got 'flat'"),
        ({"prior": [1.0, 1.0, 1.0]}, "number of categories must be the same"),
        ({"epsilon": 0.0}, r"'epsilon' parameter .* range \(0.0, inf\]. Got 0.0 "),
        ({"epsilon": -1.0}, "'epsilon' parameter .* Got -1.0 "),
        ({"epsilon": np.nan}, "'epsilon' parameter .* Got nan "),
        ({"gamma": 0.0}, "'gamma' parameter .* Got 0.0 "),
        ({"gamma": np.inf}, "'gamma' parameter .* Got inf "),
        ({"n_categories": 1}, "'n_categories' parameter .* Got 1 "),
        ({"n_categories": 2.5}, "'n_categories' parameter .* Got 2.5 "),
        ({"categories": ["a", "a"], "n_categories": None}, "categories must be at least 2"),
        ({"categories": [], "n_categories": None}, "categories must be at least 2"),
        ({"categories": 3}, "'categories' parameter .* array-like. Got 3 "),
        ({"categories": "ab"}, "'categories' parameter .* array-like. Got 'ab' "),
        ({"categories": iter("ab")}, "'categories' parameter .* array-like"),
        ({"categories": {"a", "b"}}, "categories must be a sequence; got a set"),
        (
            {"categories": {"a": 1, "b": 2}},
            "categories must be a sequence; got a dict",
        ),
        ({"categories": [["a"], ["b"]]}, "categories must contain hashable labels"),
        ({"categories": np.array([["a", "b"]])}, r"categories .* got shape \(1, 2\)"),
        ({"categories": np.array(3)}, r"categories must be a vector of labels; got shape \(\)"),
        ({"categories": [0.0, np.nan]}, "categories must not contain missing values"),
        ({"mechanism": "laplace"}, "'mechanism' parameter .* Got 'laplace'"),
        ({"calibration": "best"}, "'calibration' parameter .* Got 'best'"),
        ({"random_state": "seed"}, "'random_state' parameter .* Got 'seed'"),
        ({"accountant": "ledger.db"}, "'accountant' parameter .* 'charge'. Got 'ledger.db'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    estimator = PrivateDirichletPosterior(**{"n_categories": 2, **parameters})
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit([0, 1, 1])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 0], "at least 1 record"),
        ([3, -1], "non-negative integers"),
        ([3.5, 1], "non-negative integers"),
        ([np.nan, 1], "non-negative integers"),
        ([1, 2, 3], r"shape \(2,\)"),
        (["a", "b"], "array of numbers"),
        (np.array([3 + 1j, 4]), "array of numbers"),
        ([1e300, 1], "fewer than 9007199254740992 records"),
        ([2**53 - 1, 1], "fewer than 9007199254740992 records"),
        (7, r"shape \(2,\); got \(\)"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateDirichletPosterior(n_categories=2).fit_counts(counts)


def test_values_outside_the_domain_are_refused_without_printing_them():
    for x, parameters in [
        ([0, 1, 977], {"n_categories": 2}),
        (["a", "secret977"], {"categories": ["a", "b"]}),
        ([0.0, np.nan, 1.0], {"n_categories": 2}),
        ([[0, 1], [1, 977]], {"n_categories": 2}),
    ]:
        with pytest.raises(ValueError, match="x must") as error:
            PrivateDirichletPosterior(**parameters).fit(x)
        assert "977" not in str(error.value)


@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.array(977), ValueError),
        (977, TypeError),
        (None, TypeError),
        ("977", TypeError),
        ({0, 1, 977}, TypeError),
        ({977: 1, 978: 2}, TypeError),
        ((code for code in [0, 1, 977]), TypeError),
        (sparse.csr_array([[977], [1]]), TypeError),
        (np.array([0, 1 + 977j]), TypeError),
        ([0j, 1 + 0j], TypeError),
        ([0, np.complex64(1)], TypeError),
        ([np.nan, 0.977, 1.0], ValueError),
        ([pd.NA, 1, 977], ValueError),
        ([{"a": 977}, {"b": 1}], TypeError),
        (np.array([[977], {}], dtype=object), TypeError),
        ([[0], [1, 977]], ValueError),
        (["a", 977], (TypeError, ValueError)),
        (pd.DataFrame({"secret977": [0, 1], "b": [1, 977]}), ValueError),
    ],
    ids=lambda value: type(value).__name__,  # a repr may hold an address
)
@pytest.mark.parametrize("parameters", [{"n_categories": 2}, {"categories": [0, 1]}, {}])
def test_invalid_labels_are_refused_without_a_charge_or_showing_them(x, error, parameters):
    ledger = Ledger()
    with pytest.raises(error, match=r"^x must ") as raised:
        PrivateDirichletPosterior(**parameters, accountant=ledger).fit(x)
    assert "977" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert ledger.charges == []


def test_missing_values_are_no_category():
    with pytest.raises(ValueError, match="missing"):
        PrivateDirichletPosterior().fit([0.0, np.nan, 1.0, np.nan])


@pytest.mark.parametrize("mechanism", ["ehd", "ehds", "lshist"])
@pytest.mark.parametrize("prior", [1e-200, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 100.0, 1e6])
def test_extreme_parameters_stay_finite_and_private(mechanism, prior, epsilon):
    for counts in ([1, 0], [3, 2], [2, 1, 2]):
        estimator = PrivateDirichletPosterior(prior, mechanism=mechanism, epsilon=epsilon)
        estimator.fit_counts(counts)
        assert np.all(np.isfinite(estimator.concentration_))
        assert estimator.privacy_.loss <= epsilon * (1 + 1e-12)


def test_too_many_candidates_suggest_another_mechanism():
    counts = np.full(8, 1000)
    with pytest.raises(ValueError, match="lshist"):
        PrivateDirichletPosterior(n_categories=8).fit_counts(counts)
    released = PrivateDirichletPosterior(n_categories=8, mechanism="lshist").fit_counts(counts)
    assert np.all(released.concentration_ >= 1)


def test_neighbours_in_the_brute_force_are_one_record_apart():
    """The account above is itself checked: neighbours by records, not by counts."""
    _, _, moved = brute_geometry((1.0, 1.0, 1.0), 3)
    records = {tuple(np.bincount(x, minlength=3)): x for x in product(range(3), repeat=3)}
    counts = compositions(3, 3)
    for (i, a), (j, b) in combinations(enumerate(counts), 2):
        hamming = min(
            sum(s != t for s, t in zip(records[a], y, strict=True))
            for y in product(range(3), repeat=3)
            if tuple(np.bincount(y, minlength=3)) == b
        )
        assert moved[i, j] == hamming


@pytest.mark.parametrize("mechanism", ["ehds", "lshist"])
def test_a_platform_that_cannot_draw_is_refused_before_the_charge(mechanism, monkeypatch):
    def refuse():
        raise RuntimeError("imprecise")

    monkeypatch.setattr("skdirdp.base.check_platform", refuse)
    ledger = Ledger()
    estimator = PrivateDirichletPosterior(mechanism=mechanism, accountant=ledger)
    with pytest.raises(RuntimeError, match="imprecise"):
        estimator.fit_counts([3, 4])
    assert ledger.charges == []
