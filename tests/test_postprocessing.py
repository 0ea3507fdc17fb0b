"""Post-processing of noisy tables, against least squares, quadrature and simulation."""

from dataclasses import replace
from functools import reduce
from itertools import combinations
from operator import add

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.naive_bayes import CategoricalNB

from skdirdp import DirichletCategoricalNB, PrivateBayesNetMLE
from skdirdp.accounting import Composition
from skdirdp.mechanisms import (
    CountTable,
    DirichletMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
)
from skdirdp.mechanisms.base import Request
from skdirdp.mechanisms.calibration import calibrate_tables
from skdirdp.mechanisms.tables import ContributionBound, Noise
from skdirdp.postprocessing import (
    NoisyTable,
    TableEstimate,
    estimate_counts,
    estimate_histogram,
    low_rank_shares,
    make_consistent,
    mixture,
    reconcile_tables,
)
from skdirdp.postprocessing.mixture import (
    POOL_PRIOR,
    ROW_PRIOR,
    WIDE_ROW_PRIOR,
    Cells,
    estimate_shares,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def tables_of(*axes):
    rng = np.random.default_rng(0)
    return [
        NoisyTable(rng.normal(50, 10, [SIZES[name] for name in names]), Noise(1.0 + i), (*names,))
        for i, names in enumerate(axes)
    ]


# Noisy counts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism(sigma=7.0),
        LaplaceMechanism(scale=5.0),
        DirichletMechanism(r=0.5, alpha=6.0),
        DirichletMechanism(r=50.0, alpha=2.0**20),
    ],
)
def test_noisy_counts_have_the_stated_mean_and_variance(mechanism):
    counts = np.tile([0.0, 40.0, 3000.0], (20_000, 1))
    (noisy,) = Mechanism.draw_all(
        [Request(mechanism, counts, 1.0, as_counts=True)], np.random.default_rng(0)
    )
    variances = mechanism.noise.variance_at(counts[0])
    np.testing.assert_allclose(
        noisy.mean(axis=0), counts[0], atol=4 * np.sqrt(variances.max() / len(noisy))
    )
    # Of 20 000 squares, whose own relative deviation is at most sqrt(5).
    np.testing.assert_allclose(noisy.var(axis=0), variances, rtol=4 * np.sqrt(5 / len(noisy)))


def test_the_noisy_counts_of_a_dirichlet_release_are_gamma_variables():
    mechanism = DirichletMechanism(r=0.25, alpha=3.0)
    (noisy,) = Mechanism.draw_all(
        [Request(mechanism, np.full((1, 5000), 8.0), 1.0, as_counts=True)], np.random.default_rng(1)
    )
    drawn = noisy.ravel() * mechanism.r + mechanism.alpha
    assert stats.kstest(drawn, stats.gamma(0.25 * 8 + 3).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (DirichletMechanism(r=1.5, alpha=2.0), 1.0),
        (DirichletMechanism(r=1.0, alpha=10.0), 0.5),
        (DirichletMechanism(r=200.0, alpha=2.0**20), 0.3),
        (DirichletMechanism(r=1.5, alpha=2.0, adjacency="add_remove"), 1.0),
        (DirichletMechanism(r=200.0, alpha=2.0**20, adjacency="add_remove"), 0.3),
    ],
)
def test_the_best_attack_on_noisy_counts_attains_the_claim(mechanism, epsilon):
    r, alpha, n = mechanism.r, mechanism.alpha, 400_000
    generator = np.random.default_rng(9)
    neighbours = ([1.0, 0.0], [0.0, 1.0]) if mechanism.adjacency == "replace" else ([0.0], [1.0])

    def share_beyond(counts):
        """Return the share of releases whose likelihood ratio is above exp(epsilon)."""
        (noisy,) = Mechanism.draw_all(
            [Request(mechanism, np.tile(counts, (n, 1)), 1.0, as_counts=True)], generator
        )
        logs = r * np.log(noisy * r + alpha)
        if len(counts) == 2:
            return np.mean(logs[:, 0] - logs[:, 1] > epsilon)
        return np.mean(special.gammaln(alpha + r) - special.gammaln(alpha) - logs > epsilon)

    here, there = (share_beyond(counts) for counts in neighbours)
    found, error = here - np.exp(epsilon) * there, np.sqrt((here + np.exp(2 * epsilon) * there) / n)
    claimed = float(mechanism.delta(epsilon))
    assert found < claimed + 4 * error
    assert found > claimed / 2 + 4 * error


@pytest.mark.parametrize("mechanism", [DirichletMechanism(0.5, 6.0), GaussianMechanism(7.0, 1.0)])
def test_without_post_processing_the_same_draws_are_used(mechanism):
    counts = np.array([[12.0, 0.0, 5.0], [3.0, 3.0, 40.0]])
    (plain,), (noisy,) = (
        Mechanism.draw_all(
            [Request(mechanism, counts, 1.0, as_counts=as_counts)], np.random.default_rng(2)
        )
        for as_counts in (False, True)
    )
    if isinstance(mechanism, DirichletMechanism):
        weights = noisy * mechanism.r + mechanism.alpha
    else:
        z = noisy / mechanism.sigma
        weights = mechanism.sigma * (z + stats.norm.pdf(z) / stats.norm.cdf(z)) + 1.0
    np.testing.assert_allclose(plain, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)


# Margins ---------------------------------------------------------------------------


def operator_of(tables, total=None):
    """Return the linear map that `make_consistent` applies to all cells, and its offset."""

    def applied(cells):
        parts, start = [], 0
        for table in tables:
            stop = start + table.counts.size
            counts = cells[start:stop].reshape(table.counts.shape)
            parts.append(NoisyTable(counts, Noise(table.variance), table.axes))
            start = stop
        return np.concatenate([found.counts.ravel() for found in make_consistent(parts, total)])

    size = sum(table.counts.size for table in tables)
    constant = applied(np.zeros(size))
    return np.stack([applied(unit) - constant for unit in np.eye(size)], axis=1), constant


@pytest.mark.parametrize("total", [None, 600.0])
def test_tables_that_share_one_variable_are_made_consistent_by_least_squares(total):
    tables = tables_of("a", "ab", "ac", "ad")
    found = make_consistent(tables, total)
    # Weighted least squares under the constraint that all margins agree, by its KKT system.
    sizes = [table.counts.size for table in tables]
    starts = np.cumsum([0, *sizes])
    precision = np.repeat([1 / table.variance for table in tables], sizes)
    rows, wanted = [], []
    for k, table in enumerate(tables):
        for state in range(SIZES["a"]):
            row = np.zeros(starts[-1])
            chosen = np.zeros(table.counts.shape)
            chosen[state] = 1
            row[starts[k] : starts[k + 1]] = chosen.ravel()
            if k:
                row[state] -= 1
                rows.append(row)
                wanted.append(0.0)
    if total is not None:
        row = np.zeros(starts[-1])
        row[: sizes[0]] = 1
        rows.append(row)
        wanted.append(total)
    constraints = np.array(rows)
    seen = np.concatenate([table.counts.ravel() for table in tables])
    system = np.block(
        [[np.diag(precision), constraints.T], [constraints, np.zeros((len(rows), len(rows)))]]
    )
    solution = np.linalg.lstsq(system, np.concatenate([precision * seen, wanted]), rcond=None)[0]
    np.testing.assert_allclose(
        np.concatenate([table.counts.ravel() for table in found]), solution[: len(seen)], rtol=1e-8
    )


def margin_of(table, kept):
    lost = [axis for axis, name in enumerate(table.table.axes) if name not in kept]
    return table.counts.sum(axis=tuple(lost))


@pytest.mark.parametrize(
    "axes", [("a", "ab", "ac"), ("ab", "bc", "cd"), ("abc", "bcd", "d"), ("abc", "cab", "b")]
)
@pytest.mark.parametrize("total", [None, 600.0])
def test_consistent_tables_agree_and_know_their_variance(axes, total):
    tables = tables_of(*axes)
    found = make_consistent(tables, total)
    for first in found:
        for second in found:
            shared = set(first.table.axes) & set(second.table.axes)
            order = [name for name in first.table.axes if name in shared]
            other = [name for name in second.table.axes if name in shared]
            there = margin_of(second, other).transpose([other.index(name) for name in order])
            np.testing.assert_allclose(margin_of(first, order), there)
        if total is not None:
            np.testing.assert_allclose(first.counts.sum(), total)
    # The covariance follows from the linear map, cell by cell; the mean of it is claimed.
    matrix, _ = operator_of(tables, total)
    noise = np.concatenate([np.full(table.counts.size, table.variance) for table in tables])
    variances = (matrix**2) @ noise
    start = 0
    for table in estimate_counts(tables, total):
        stop = start + table.counts.size
        np.testing.assert_allclose(table.variance, variances[start:stop].mean(), rtol=0.02)
        start = stop


def test_tables_with_nothing_in_common_stay_as_they_are():
    tables = tables_of("a", "bc")
    for table, found in zip(tables, estimate_counts(tables), strict=True):
        np.testing.assert_array_equal(found.noisy, table.counts)
        np.testing.assert_allclose(found.variance, table.variance)


def test_axes_that_do_not_fit_are_rejected():
    with pytest.raises(ValueError, match="axes must name each of the 2 dimensions once"):
        NoisyTable(np.zeros((2, 2)), Noise(1.0), ("a", "a"))


@pytest.mark.parametrize("total", [None, 90.0])
def test_reconciled_tables_are_the_nearest_consistent_ones(total):
    rng = np.random.default_rng(4)
    tables = [
        NoisyTable(rng.uniform(5, 20, (2,) * len(names)), Noise(1.0 + k), tuple(names))
        for k, names in enumerate(["ab", "bc", "abc"])
    ]
    cells = np.concatenate([table.ravel() for table in reconcile_tables(tables, total)])
    matrix, constant = operator_of(tables, total)
    np.testing.assert_allclose(matrix @ cells + constant, cells, atol=1e-8)
    # The gradient is orthogonal to every direction that keeps the tables consistent.
    start = np.concatenate([table.counts.ravel() for table in tables])
    noise = np.concatenate([np.full(each.counts.size, each.variance) for each in tables])
    weights = (np.sqrt(noise) + start) / noise
    gradient = weights * np.log(cells / start)
    assert np.abs(gradient @ matrix).max() < 1e-3 * np.abs(gradient).max()
    # The gradient of other consistent tables is not.
    other = matrix @ start + constant
    gradient = weights * np.log(other / start)
    assert np.abs(gradient @ matrix).max() > 1e-2 * np.abs(gradient).max()


def test_reconciled_tables_stay_positive_where_least_squares_does_not():
    rng = np.random.default_rng(0)
    tables = [
        NoisyTable(rng.gamma(0.1, 10.0, (4, 5)) + 1e-9, Noise(4.0), axes)
        for axes in [("a", "b"), ("a", "c"), ("a", "d")]
    ]
    assert min(table.counts.min() for table in make_consistent(tables, 20.0)) < 0
    found = reconcile_tables(tables, 20.0)
    assert min(table.min() for table in found) >= 0
    for table in found:
        np.testing.assert_allclose(table.sum(axis=1), found[0].sum(axis=1), atol=1e-9)
        assert table.sum() == pytest.approx(20.0)


# The prior -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior", [ROW_PRIOR, POOL_PRIOR, WIDE_ROW_PRIOR], ids=["rows", "pools", "wide"]
)
@pytest.mark.parametrize(
    ("noisy", "centre"), [(12.0, 10.0), (-20.0, 10.0), (90.0, 20.0), (3.0, 0.5), (400.0, 350.0)]
)
def test_the_components_of_a_posterior_agree_with_integrals(noisy, centre, prior):
    variance, total, beside = 25.0, 400.0, (14.0, 9.0)
    row = np.array([[beside[0], noisy, beside[1]]])
    shares = np.array([[(total - centre) / 2, centre, (total - centre) / 2]]) / total
    cells = cells_of(row, variance, shares, total, share_variance=2.0 / total**2)
    batch = mixture._Batch.from_cells([cells], prior)
    priors = [with_moments(centre, centre + 2.0)]
    for distance in prior.distances:
        # The factor of the nearby cells has a prior of mean 1 and variance 2.
        expected = total - centre
        known = 2 / (2 + 2 * variance / expected**2)
        mean = centre * (1 + known * (sum(beside) / expected - 1))
        spread = centre**2 * 2 * (1 - known) + (0.3 * distance * mean) ** 2 + mean + 0.02
        priors.append(with_moments(mean, spread))
    chances = [1.0] * len(priors)
    for overdispersion in prior.overdispersions:
        spread = centre * (1 + total * overdispersion) + 2.0
        chances.append(min(2 * centre**2 / (spread + centre**2), 1.0))
        priors.append(stats.expon(scale=centre / chances[-1]))
        # The mean is that of the pool, and so is the variance if it is large.
        mean, square = (chances[-1] * priors[-1].moment(i) for i in (1, 2))
        assert np.isclose(mean, centre)
        assert np.isclose(square - mean**2, max(spread, centre**2))
    if prior.has_diffuse:
        priors.append(stats.expon(scale=total / 3))
        chances.append(1.0)
    x = np.linspace(0.0, 900.0, 800_001)  # fine enough for all of them
    logs = np.stack([each.logpdf(x) for each in priors]) - (noisy - x) ** 2 / (2 * variance)
    tops = logs.max(axis=1)
    mass, first, second = (
        integrate.simpson(x**power * np.exp(logs - tops[:, np.newaxis]), x=x, axis=1)
        for power in range(3)
    )
    mass, first, second = (chances * each for each in (mass, first, second))
    mass = mass + (1 - np.array(chances)) * np.exp(-(noisy**2) / (2 * variance) - tops)
    np.testing.assert_allclose(batch.mean[:, 1], first / mass, rtol=1e-5)
    np.testing.assert_allclose(batch.second_moment[:, 1], second / mass, rtol=1e-5)
    likelihood = np.log(mass) + tops
    expected = np.exp(likelihood - likelihood.max())
    np.testing.assert_allclose(batch.likelihood[:, 1], expected, rtol=1e-5, atol=1e-12)


def with_moments(mean, spread):
    """A prior with this mean and, where it is narrow, nearly this variance."""
    if spread >= mean**2:
        return stats.expon(scale=mean)
    deviation = np.sqrt(spread)
    return stats.truncnorm(-mean / deviation, np.inf, mean, deviation)


@pytest.mark.parametrize("sigma", [1.0, 1e3, 1e6, 1e12])
def test_the_exponential_component_keeps_its_digits_under_any_noise(sigma):
    mpmath.mp.dps = 150
    for noisy in (-2.5 * sigma, 0.3 * sigma, 3 * sigma):
        parts = mixture._exponential(np.array([noisy]), np.array([sigma**2]), np.array([4.0]))
        found = mixture._truncated(*parts)
        y, v, theta = mpmath.mpf(noisy), mpmath.mpf(sigma) ** 2, mpmath.mpf(4)
        m, s = y - v / theta, mpmath.sqrt(v)
        inside = mpmath.ncdf(m / s)
        hazard = s * mpmath.npdf(m / s) / inside
        log = mpmath.log(mpmath.sqrt(2 * mpmath.pi) * inside / theta) + v / theta**2 / 2 - y / theta
        expected = [log, m + hazard, v + m * (m + hazard)]
        np.testing.assert_allclose([each[0] for each in found], [float(x) for x in expected], 1e-5)


def batch_of(likelihood, lengths):
    return mixture._Batch(mixture._Rows.from_sizes(np.array(lengths)), likelihood, None, None)


@pytest.mark.parametrize("lengths", [(120, 80), (100, 100)])
@pytest.mark.parametrize("prior", [ROW_PRIOR, WIDE_ROW_PRIOR, POOL_PRIOR])
def test_every_step_of_em_raises_the_likelihood(prior, lengths, monkeypatch):
    rng = np.random.default_rng(0)
    first = prior.weights
    likelihood = rng.random((len(first), 200))
    batch = batch_of(likelihood, lengths)

    def objective(weights, before, cells):
        of_cells = (likelihood * weights[:, batch.rows.row_of_cell]).sum(axis=0)
        return np.log(of_cells).sum() + cells * (before[:, np.newaxis] * np.log(weights)).sum()

    assert np.isclose(first.sum(), 1)
    common, own = [np.repeat(first[:, np.newaxis], 2, axis=1)], []
    for steps in range(1, 8):
        monkeypatch.setattr(mixture, "_EM_STEPS", steps)
        fitted = mixture._fit_weights(likelihood, first)
        common.append(np.repeat(fitted[:, np.newaxis], 2, axis=1))
        weights = batch.row_weights(first)
        own.append(weights / weights.sum(axis=0))
    # The pseudo-observations of a model count once, and these two rows have its weights.
    pseudo = mixture._PSEUDO_OBSERVATIONS
    assert (np.diff([objective(weights, first, pseudo / 2) for weights in common]) > 0).all()
    assert (np.diff([objective(weights, first, pseudo) for weights in own]) > 0).all()


@pytest.mark.parametrize("lengths", [(30,), (30, 30, 30), (30, 20, 40)])
def test_the_weights_of_a_row_depend_on_its_own_cells_only(lengths):
    first = ROW_PRIOR.weights
    likelihood = np.random.default_rng(0).random((len(first), sum(lengths)))
    found = batch_of(likelihood, lengths).row_weights(first)
    found /= found.sum(axis=0)
    for row, cells in enumerate(np.split(likelihood, np.cumsum(lengths)[:-1], axis=1)):
        weights = first
        for _ in range(mixture._EM_STEPS):
            shares = weights[:, np.newaxis] * cells
            shares /= shares.sum(axis=0)
            weights = shares.sum(axis=1) + mixture._PSEUDO_OBSERVATIONS * first
            weights /= weights.sum()
        np.testing.assert_allclose(found[:, row], weights, rtol=1e-12)


def cells_of(noisy, variance, shares, total, per_count=0.0, share_variance=0.0):
    n_rows = len(noisy)
    totals = np.broadcast_to(np.asarray(total, dtype=float), n_rows)
    return Cells(
        noisy,
        np.full(n_rows, variance),
        per_count,
        np.full(n_rows, noisy.mean()),
        np.broadcast_to(shares, noisy.shape),
        np.full(noisy.shape, share_variance),
        totals,
        np.zeros(n_rows),
    )


def test_similar_rows_are_estimated_as_similar_and_others_are_not():
    rng = np.random.default_rng(0)
    pool = np.array([400.0, 300.0, 200.0, 60.0, 40.0])

    def spread(true):
        noisy = true + rng.normal(0, 20, true.shape)
        found = estimate_shares([cells_of(noisy, 400.0, pool / 1000, 1000.0)], ROW_PRIOR)[0].shares
        return np.sqrt(np.mean((1000 * found - true) ** 2))

    alike = np.tile(pool, (40, 1))
    others = rng.dirichlet(np.ones(5), 40) * 1000
    assert spread(alike) < 10  # the noise has 20
    assert spread(others) < 21


def errors(true, noisy, sigma):
    """Return the errors of the estimates, in standard deviations of the noise."""
    (found,) = estimate_counts([NoisyTable(noisy, Noise(sigma**2), ("y", "u"))], true.sum())
    return np.sqrt(np.mean((found.counts - true) ** 2)) / sigma


def test_cells_borrow_from_adjacent_cells_only_if_these_are_similar():
    rng = np.random.default_rng(0)
    place, sigma = np.linspace(-2, 2, 20), 150.0
    smooth = 6000 * np.stack([stats.norm.pdf(place, mean, 0.8) for mean in (-1, -0.3, 0.4, 1)])
    smooth /= 4
    noise = rng.normal(0, sigma, (40, *smooth.shape))
    order = [rng.permutation(20) for _ in noise]
    beside = np.mean([errors(smooth, smooth + each, sigma) for each in noise])
    mixed = [smooth[:, places] for places in order]
    apart = np.mean(
        [errors(true, true + each, sigma) for true, each in zip(mixed, noise, strict=True)]
    )
    assert beside < 0.8 * apart
    assert apart < 1  # noisy counts have 1


def test_a_rare_category_at_the_end_of_a_row_is_not_shrunk_to_the_adjacent_one():
    rng = np.random.default_rng(0)
    true = np.array([[40.0, 400, 900, 700, 300], [300.0, 500, 600, 500, 200]])
    sigma = 20.0
    found = [
        estimate_counts([NoisyTable(noisy, Noise(sigma**2), ("y", "u"))], true.sum())[0].counts[
            0, 0
        ]
        for noisy in true + rng.normal(0, sigma, (400, *true.shape))
    ]
    # Noisy counts have 1, up to 0.04.
    assert np.sqrt(np.mean((np.array(found) - 40) ** 2)) < sigma


def test_counts_are_moved_as_the_sum_of_their_row_would_have_it():
    mean, variance = np.array([50.0, 20.0, 80.0, 3.0, 900.0]), np.array([4.0, 9.0, 25.0, 2.0, 16.0])
    rows = mixture._Rows.from_sizes(np.array([3, 2]))
    sums, uncertain = np.array([160.0, 899.0]), np.array([0.0, 12.0])
    found = mixture.condition_on_sums(mean, variance, sums, uncertain, rows)
    # Independent normal variables given a sum of them that is seen with noise.
    expected = []
    for row, cells in enumerate((slice(0, 3), slice(3, 5))):
        joint = np.diag(variance[cells])
        gain = joint.sum(axis=1) / (joint.sum() + uncertain[row])
        expected.append(mean[cells] + gain * (sums[row] - mean[cells].sum()))
    up, down = expected
    np.testing.assert_allclose(found[:3], up, rtol=1e-6)
    assert found[:3].sum() == pytest.approx(160)
    # Down it is so to first order, and nothing comes to less than nothing.
    np.testing.assert_allclose(found[3:], down, rtol=0.01)
    alone = mixture._Rows.from_sizes(np.array([5]))

    def given(mean, variance, total, uncertain=0.0):
        return mixture.condition_on_sums(
            mean, variance, np.array([total]), np.array([uncertain]), alone
        )

    assert (given(mean, variance, 10.0) > 0).all()
    # Rounding may leave no variance at all.
    np.testing.assert_allclose(given(mean, np.zeros(5), 2106.0), 2 * mean)
    np.testing.assert_array_equal(given(np.zeros(5), np.zeros(5), 0.0, 1.0), 0.0)


def test_solved_sums_are_exact_and_spare_the_largest_count():
    # Forty small counts in doubt, and a large one: the sum is known to be smaller.
    mean, variance = np.array([9000.0, *[60.0] * 40]), np.array([1e4, *[3600.0] * 40])
    rows = mixture._Rows.from_sizes(np.array([41]))
    noise = np.full(41, 1.0001e4)
    given = (mean, variance, np.array([10_000.0]), np.zeros(1), rows)
    found = mixture.condition_on_sums(*given, noise)
    assert found.sum() == pytest.approx(10_000, rel=1e-8)
    assert (found > 0).all()
    scaled = mixture.condition_on_sums(*given)
    scaled *= 10_000 / scaled.sum()
    assert 9000 > found[0] > scaled[0] + 200
    # Differences that the variances explain are those of the regression.
    more = (mean, variance, np.array([11_700.0]), np.array([500.0]), rows)
    np.testing.assert_allclose(
        mixture.condition_on_sums(*more, noise), mixture.condition_on_sums(*more)
    )


def test_a_common_error_of_small_counts_is_not_taken_from_a_large_one():
    # The prior is four times too large for forty small counts, which leaves 1800 too many.
    mean, variance = np.array([9000.0, *[60.0] * 40]), np.array([1e4, *[900.0] * 40])
    rows, noise = mixture._Rows.from_sizes(np.array([41])), np.full(41, 1e4)
    sums = np.array([9600.0]), np.zeros(1)
    found = mixture.condition_on_sums(mean, variance, *sums, rows, noise)
    assert found.sum() == pytest.approx(9600, rel=1e-8)
    np.testing.assert_allclose(found[0], 9000, atol=100)
    np.testing.assert_allclose(found[1:], 15, atol=2.5)
    # Counts that the prior did not change have independent errors only.
    independent = mixture.condition_on_sums(mean, variance, *sums, rows, variance)
    assert independent[0] < found[0] - 100


def test_estimates_stay_close_to_noisy_counts_that_are_clear_of_the_noise():
    noisy = np.array([[2000.0, 31.0, -12.0, 3.0], [40.0, 8.0, 500.0, 2.0]])
    estimate = TableEstimate(np.full((2, 4), 25.0), noisy, 100.0, 400.0, Noise(100.0))
    # 31 is less than one deviation away, and 40 is clear of the noise.
    expected = [[1990.0, 25.0, 25.0, 25.0], [30.0, 25.0, 490.0, 25.0]]
    np.testing.assert_allclose(estimate.limited(), expected)


def pair_tables(rng, n_records, sigma):
    """Six dependent variables: true counts of all pairs, and consistent noisy ones."""
    hidden = rng.integers(3, size=n_records)
    codes = np.array([(3 * hidden + rng.integers(4, size=n_records)) % 8 for _ in range(6)])
    true, tables = [], []
    for a, b in combinations(range(6), 2):
        counts = np.bincount(8 * codes[a] + codes[b], minlength=64).reshape(8, 8).astype(float)
        true.append(counts)
        tables.append(NoisyTable(counts + rng.normal(0, sigma, (8, 8)), Noise(sigma**2), (a, b)))
    shares = {k: np.bincount(row, minlength=8) / n_records for k, row in enumerate(codes)}
    return true, [replace(t.table, counts=t.counts) for t in make_consistent(tables)], shares


def test_dependences_that_pairs_share_are_seen_through_the_noise():
    true, tables, shares = pair_tables(np.random.default_rng(0), 5000, 100.0)
    found = low_rank_shares(tables, shares, 5000.0)
    for joint in found:
        assert joint.sum() == pytest.approx(1)
        assert joint.min() > 0

    def off(estimates):
        return sum(
            np.abs(each - counts).sum() for each, counts in zip(estimates, true, strict=True)
        )

    alone = [5000 * np.outer(shares[t.axes[0]], shares[t.axes[1]]) for t in tables]
    assert off([5000 * joint for joint in found]) < 0.8 * off(alone)
    assert off([5000 * joint for joint in found]) < 0.5 * off([t.counts for t in tables])


def test_a_low_rank_needs_all_pairs_noise_and_dependence():
    rng = np.random.default_rng(0)
    _, tables, shares = pair_tables(rng, 5000, 100.0)
    assert low_rank_shares(tables[1:], shares, 5000.0) is None
    other = replace(tables[-1], axes=(4, "other"))
    assert low_rank_shares([*tables[:-1], other], shares, 5000.0) is None
    _, clear, shares = pair_tables(rng, 5000, 1.0)
    assert low_rank_shares(clear, shares, 5000.0) is None
    _, hidden, shares = pair_tables(rng, 50, 100.0)
    assert low_rank_shares(hidden, shares, 50.0) is None


def test_a_known_total_improves_the_estimates(monkeypatch):
    rng = np.random.default_rng(0)
    true = np.stack([rng.multinomial(3000, rng.dirichlet(np.full(20, 0.05))) for _ in range(60)])
    tables = [
        NoisyTable(row + rng.normal(0, 30, 20), Noise(900.0), ("x",)) for row in true.astype(float)
    ]

    def apart():
        shares = np.stack([estimate_histogram(table, 3000.0) for table in tables])
        return np.abs(shares - true / 3000).sum(axis=1)

    with_it = apart()
    monkeypatch.setattr(mixture, "condition_on_sums", lambda mean, *known: mean)
    # By 10% on average; paired differences have a standard error of 2%.
    assert with_it.mean() < 0.95 * apart().mean()


def test_estimates_of_words_are_more_accurate_than_projection_and_clipping():
    rng = np.random.default_rng(0)
    pool = rng.pareto(0.8, 12_000) + 0.01
    pool /= pool.sum()
    true = np.stack(
        [rng.multinomial(n, rng.dirichlet(20_000 * pool + 1e-9)) for n in (50_000, 30_000)]
    )
    noisy = true + rng.normal(0, 25.0, true.shape)
    (found,) = estimate_counts([NoisyTable(noisy, Noise(625.0), ("y", "word"))])
    shares = true / true.sum(axis=1, keepdims=True)

    def apart(counts):
        return np.abs(counts / counts.sum(axis=1, keepdims=True) - shares).sum() / 2

    assert apart(found.counts) < 0.95 * apart(np.maximum(noisy, 0))
    assert apart(found.counts) < apart(projected(noisy))


def projected(noisy):
    """The nearest counts that are not negative and have the same sums."""
    found = []
    for row in noisy:
        shift = optimize.brentq(
            lambda shift, row=row: np.maximum(row - shift, 0).sum() - row.sum(), -1e3, row.max()
        )
        found.append(np.maximum(row - shift, 0))
    return np.stack(found)


@pytest.mark.parametrize("per_count", [0.0, 0.05])
@pytest.mark.parametrize("sigma", [2.0, 30.0])
def test_interpolated_means_agree_with_computed_ones(per_count, sigma, monkeypatch):
    rng = np.random.default_rng(0)
    pool = rng.dirichlet(np.full(6000, 0.3)) + 1e-7
    pool /= pool.sum()
    totals = np.array([60_000.0, 45_000.0, 90_000.0])
    rows = np.stack([rng.dirichlet(300 * pool + 0.01) * total for total in totals])
    noisy = rows + rng.normal(0, sigma, rows.shape)
    cells = cells_of(noisy, sigma**2, pool, totals, per_count)
    monkeypatch.setattr(mixture, "_BLOCK", 1 << 12)
    (quick,) = estimate_shares([cells], WIDE_ROW_PRIOR)
    monkeypatch.setattr(mixture, "_BLOCK", 1 << 30)
    (slow,) = estimate_shares([cells], WIDE_ROW_PRIOR)
    true = rows / totals[:, np.newaxis]
    off, error = np.abs(quick.shares - slow.shares).sum(), np.abs(slow.shares - true).sum()
    assert off < 0.1 * error
    assert np.abs(quick.shares - true).sum() < 1.03 * error
    np.testing.assert_allclose(quick.shares.sum(axis=1), 1)
    np.testing.assert_allclose(quick.variances.sum(), slow.variances.sum(), rtol=0.1)


def test_a_large_table_is_estimated_in_blocks_as_it_is_at_once(monkeypatch):
    rng = np.random.default_rng(1)
    noisy = rng.normal(30, 10, (4000, 3))
    cells = [cells_of(noisy, 100.0, np.full((4000, 3), 1 / 3), 90.0)]
    # Weights of a sample are not those of all cells.
    monkeypatch.setattr(mixture, "_fit_weights", lambda likelihood, initial: initial)
    (whole,) = estimate_shares(cells, ROW_PRIOR)
    monkeypatch.setattr(mixture, "_BLOCK", 1 << 11)
    (parts,) = estimate_shares(cells, ROW_PRIOR)
    np.testing.assert_allclose(parts.shares, whole.shares, rtol=1e-9)


# Tables ----------------------------------------------------------------------------


def test_without_much_noise_the_estimates_are_the_counts():
    counts = np.array([[[30.0, 0.0], [500.0, 8.0]], [[70.0, 90.0], [2.0, 300.0]]])
    tables = [NoisyTable(counts, Noise(1e-8), ("a", "b", "c"))]
    (found,) = estimate_counts(tables, 1000.0)
    np.testing.assert_allclose(found.counts, counts, atol=0.05)


def test_estimates_from_pure_noise_are_uniform():
    noisy = np.random.default_rng(0).normal(0, 1e6, (4, 10))
    (found,) = estimate_counts([NoisyTable(noisy, Noise(1e12), ("a", "b"))], 1000.0)
    shares = found.counts / found.counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, 0.1, atol=0.03)
    np.testing.assert_allclose(found.counts.sum(), 1000)


def test_neither_the_order_of_tables_nor_the_direction_of_categories_matters():
    rng = np.random.default_rng(3)
    first = NoisyTable(rng.normal(100, 30, (2, 5)), Noise(900.0), ("y", "u"))
    second = NoisyTable(rng.normal(200, 30, (2, 3)), Noise(900.0), ("y", "v"))
    order = [4, 3, 2, 1, 0]
    there = estimate_counts([first, second], 900.0)
    back = estimate_counts(
        [second, NoisyTable(first.counts[:, order], first.noise, first.axes)], 900.0
    )
    np.testing.assert_allclose(back[1].counts, there[0].counts[:, order], rtol=1e-6)
    np.testing.assert_allclose(back[0].counts, there[1].counts, rtol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("variance", [1e-24, 1.0, 1e6, 1e100])
@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (3, 10), (5, 63), (2, 65), (20, 500), (2, 3, 4)])
def test_estimates_are_positive_and_finite_for_any_noise(variance, shape):
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 1e12):
        true = scale * rng.gamma(0.3, 1, shape)
        noisy = true + np.sqrt(variance) * rng.normal(0, 1, shape)
        for total in (None, max(true.sum(), 1.0)):
            table = NoisyTable(
                noisy, Noise(variance, np.sqrt(variance) / 10), ("a", "b", "c")[: len(shape)]
            )
            (found,) = estimate_counts([table], total)
            assert np.isfinite(found.counts).all()
            assert (found.counts > 0).all()


def test_counts_are_positive_and_rows_hold_what_tables_agree_on():
    rng = np.random.default_rng(4)
    tables = [NoisyTable(rng.normal(30, 40, 3), Noise(1600.0), ("y",))]
    tables += [NoisyTable(rng.normal(9, 40, (3, 6)), Noise(1600.0), ("y", k)) for k in range(4)]
    classes, *features = estimate_counts(tables, 100.0)
    assert classes.counts.min() > 0
    np.testing.assert_allclose(classes.counts.sum(), 100)
    for table in features:
        assert table.counts.min() > 0
        np.testing.assert_allclose(table.counts.sum(axis=1), classes.counts)


@pytest.mark.parametrize(
    "mechanism",
    [GaussianMechanism(8.0), LaplaceMechanism(6.0), DirichletMechanism(2.0**10 / 8, 2.0**20)],
)
def test_limits_hold_at_the_stated_rate(mechanism):
    rng = np.random.default_rng(5)
    shares = [rng.dirichlet(np.full(6, 0.4), 2) for _ in range(4)]
    true = [
        np.stack([rng.multinomial(600, first), rng.multinomial(300, second)]).astype(float)
        for first, second in shares
    ]
    held = tight = drawn = 0
    for _ in range(50):
        noisy = Mechanism.draw_all([Request(mechanism, table, 1.0, True) for table in true], rng)
        read = estimate_counts(
            [NoisyTable(table, mechanism.noise, ("y", k)) for k, table in enumerate(noisy)], 900.0
        )
        for table, counts in zip(read, true, strict=True):
            lower, upper = table.limits(0.9)
            shares = counts / counts.sum(axis=1, keepdims=True)
            held += np.sum((lower <= shares) & (shares <= upper))
            # Half as wide they would not hold: the test would see a variance a quarter as large.
            middle, half = (lower + upper) / 2, (upper - lower) / 4
            tight += np.sum(np.abs(shares - middle) <= half)
            drawn += counts.size
    assert held / drawn >= 0.9 - 0.01
    assert tight / drawn < 0.9


# Calibration -----------------------------------------------------------------------


def _calibrated(tables, mechanism, epsilon=1.0, order=None, adjacency="replace"):
    return calibrate_tables(
        tables,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=1e-5,
        order=order,
        adjacency=adjacency,
        calibration="exact",
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("order", [None, 5.0])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_prior_that_is_subtracted_leaves_the_noise_of_the_gaussian(epsilon, order, adjacency):
    tables = [CountTable(30_000, 10, 2, postprocess=True)] * 14
    (dirichlet, *_), (gaussian, *_) = (
        _calibrated(tables, name, epsilon, order, adjacency) for name in ("dirichlet", "gaussian")
    )
    total = Composition([(dirichlet, 14)])
    spent = total.epsilon(1e-5) if order is None else total.rdp(order)
    assert 0.999 * epsilon <= spent <= epsilon
    np.testing.assert_allclose(dirichlet.noise.variance, gaussian.noise.variance, rtol=0.02)
    # A count adds a thousandth of a deviation to the variance.
    assert dirichlet.noise.per_count < 1.02 * np.sqrt(dirichlet.noise.variance) / 2**10


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 100.0])
def test_priors_leave_room_for_counts_on_a_fine_grid(epsilon):
    rows = ContributionBound(max_count=1.5, max_total=40.0)
    table = CountTable(1e5, 1000, 2, rows, postprocess=True)
    (mechanism,) = _calibrated([table], "dirichlet", epsilon)
    counts = np.full((2, 1000), 1e6 + rows.grid)
    mechanism.check_table(counts, rows.grid)
    drawn = Mechanism.draw_all(
        [Request(mechanism, counts, rows.grid, True)], np.random.default_rng(0)
    )[0]
    np.testing.assert_allclose(
        drawn.mean(), 1e6, atol=5 * np.sqrt(mechanism.noise.variance_at(1e6) / counts.size)
    )


@pytest.mark.parametrize(
    ("d", "total", "sigma"), [(5, 300.0, 5.0), (6, 300.0, 25.0), (12, 300.0, 100.0)]
)
def test_the_expected_divergence_is_that_of_the_best_estimate(d, total, sigma):
    # By drawing rows, noise, and importance samples of the posterior of each cell.
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(d, 0.5), 1000)
    noisy = total * p + rng.normal(0, sigma, p.shape)
    prior = total * rng.beta(0.5, (d - 1) / 2, 6000)
    read = np.empty_like(noisy)
    for row, values in zip(read, noisy, strict=True):
        weights = np.exp(-((values[:, np.newaxis] - prior) ** 2) / (2 * sigma**2))
        row[:] = (weights @ prior) / weights.sum(axis=1)
    read += 1.0
    read /= read.sum(axis=1, keepdims=True)
    values = np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300) / read), 0.0), axis=1)
    table = CountTable(total, d, postprocess=True)
    claimed = GaussianMechanism(sigma, 1.0).expected_divergence(table)
    error = values.std() / np.sqrt(len(values))
    # Rows are divided by their own sums here, and by the mean of it there.
    assert abs(claimed - values.mean()) < 4 * error + 0.12 * values.mean()


# Estimators ------------------------------------------------------------------------


def _records(seed=0, n=3000):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = np.column_stack(
        [rng.binomial(k, 0.2 + 0.2 * y) for k in (1, 3, 5)] + [rng.integers(9, size=n)] * 3
    )
    return X, y, {"classes": [0, 1, 2], "n_categories": [2, 4, 6, 9, 9, 9]}


@pytest.mark.parametrize("postprocess", [False, True])
def test_without_noise_post_processing_does_not_matter(postprocess):
    X, y, public = _records()
    model = DirichletCategoricalNB(epsilon=float("inf"), postprocess=postprocess, **public).fit(
        X, y
    )
    theirs = CategoricalNB(min_categories=public["n_categories"]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_postprocessed_estimates_are_more_accurate_than_the_draws(mechanism):
    X, y, public = _records()
    theirs = CategoricalNB(min_categories=public["n_categories"], alpha=1e-9).fit(X, y)
    found = {}
    for postprocess in (False, True):
        found[postprocess] = np.mean(
            [
                sum(
                    np.sum(theirs.class_count_[:, np.newaxis] * np.exp(exact) * (exact - released))
                    for exact, released in zip(
                        theirs.feature_log_prob_, model.feature_log_prob_, strict=True
                    )
                )
                / len(y)
                for model in (
                    DirichletCategoricalNB(
                        epsilon=0.5,
                        mechanism=mechanism,
                        postprocess=postprocess,
                        random_state=s,
                        **public,
                    ).fit(X, y)
                    for s in range(6)
                )
            ]
        )
    assert found[True] < 0.8 * found[False]


@pytest.mark.parametrize("estimator", ["naive Bayes", "network"])
def test_estimates_depend_on_the_draws_alone(monkeypatch, estimator):
    """Two data sets of the same size, with the same released tables."""

    def draw_all(requests, generator):
        return [50 + generator.normal(0, 20, request.counts.shape) for request in requests]

    monkeypatch.setattr(Mechanism, "draw_all", staticmethod(draw_all))
    released = []
    for seed in (0, 1):
        X, y, public = _records(seed)
        if estimator == "naive Bayes":
            model = DirichletCategoricalNB(random_state=7, **public).fit(X, y)
            features = [*model.feature_log_prob_, *model.category_count_]
            released.append([model.class_log_prior_, *features])
        else:
            table = pd.DataFrame({"y": y, "a": X[:, 1], "b": X[:, 2]})
            states = {"y": [0, 1, 2], "a": list(range(4)), "b": list(range(6))}
            structure = [("y", "a"), ("y", "b"), ("a", "b")]
            model = PrivateBayesNetMLE(structure, states=states, random_state=7).fit(table)
            limits = reduce(add, model.probability_limits().values())
            released.append([*model.probabilities_.values(), *limits])
    for first, second in zip(*released, strict=True):
        np.testing.assert_array_equal(first, second)


def test_limits_of_estimators_contain_their_own_probabilities():
    X, y, public = _records()
    model = DirichletCategoricalNB(random_state=0, epsilon=2.0, **public).fit(X, y)
    exact = CategoricalNB(min_categories=public["n_categories"], alpha=1e-9).fit(X, y)
    inside = [
        (lower <= np.exp(true) + 1e-9) & (np.exp(true) <= upper + 1e-9)
        for (lower, upper), true in zip(
            model.probability_limits(0.99), exact.feature_log_prob_, strict=True
        )
    ]
    assert np.mean(np.concatenate([each.ravel() for each in inside])) > 0.95
    plain = DirichletCategoricalNB(postprocess=False, **public).fit(X, y)
    with pytest.raises(ValueError, match="needs post-processed counts"):
        plain.probability_limits()


@pytest.mark.parametrize("epsilon", [1e-9, 1e5])
@pytest.mark.parametrize("mechanism", ["dirichlet", "laplace"])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_post_processing_does_not_fail_after_the_charge(epsilon, mechanism, adjacency):
    """Pure noise, very little noise, an empty class, a feature with one category."""
    X, y, public = _records(n=100)
    X[:, 3] = 0
    public |= {"classes": [0, 1, 2, 3], "n_categories": [2, 4, 6, 1, 9, 9]}
    common = {"epsilon": epsilon, "mechanism": mechanism, "adjacency": adjacency, "n_samples": 100}
    model = DirichletCategoricalNB(**common, **public)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(model.fit(X, y).predict_joint_log_proba(X)).all()
        table = pd.DataFrame({"y": y, "a": X[:, 1], "c": X[:, 3]})
        states = {"y": [0, 1, 2, 3], "a": list(range(4)), "c": [0]}
        network = PrivateBayesNetMLE([("y", "a"), ("c", "a")], states=states, **common)
        assert np.isfinite(network.fit(table).score_samples(table)).all()


def test_postprocess_is_true_or_false():
    X, y, public = _records()
    with pytest.raises(ValueError, match="'postprocess' parameter"):
        DirichletCategoricalNB(postprocess="better", **public).fit(X, y)
    with pytest.raises(TypeError, match="postprocess must be True or False"):
        CountTable(10, 2, postprocess="better")


# A histogram by itself -------------------------------------------------------------


def test_an_empty_cell_of_a_histogram_is_estimated_as_nearly_empty():
    rng = np.random.default_rng(0)
    for size in (50, 400):
        true = np.repeat([1000.0, 0.0], [10, size - 10])
        noisy = true + rng.normal(0, 5, size)
        shares = estimate_histogram(NoisyTable(noisy, Noise(25.0), ("x",)), 10_000.0)
        assert np.all(shares > 0)
        assert shares.sum() == pytest.approx(1)
        # As wide as the equal share they would hold 0.8 deviations each, 4 records.
        assert 10_000 * shares[10:].mean() < 1.0
        # What they hold is missing elsewhere.
        found = shares[:10] / shares[:10].sum()
        np.testing.assert_allclose(10_000 * found, 1000, atol=4 * 5)


def test_a_histogram_of_noise_alone_is_a_distribution():
    noisy = np.array([-9.0, -3.0, -4.0])
    shares = estimate_histogram(NoisyTable(noisy, Noise(25.0), ("x",)))
    assert np.all(shares > 0)
    assert shares.sum() == pytest.approx(1)
