"""Filters against adversaries that choose every step after looking at the last.

An adversary is played by dynamic programming over the privacy loss: at every number of releases
and every loss so far, it stops or takes whichever admitted step is best for it. Its delta is that
of no bound but of an actual interaction, computed from textbook densities on a lattice.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import beta, laplace, norm

from skdirdp import BudgetExceededError, PrivacyAccountant
from skdirdp.accounting import (
    ApproximateDP,
    Composition,
    PureDP,
    RenyiDP,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
    filters,
)
from skdirdp.accounting.filters import Copies, Pool, PrivacyFilter, RenyiBudget
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
)

STEP = 0.005  # of the lattice of losses; rounding to it changes delta by less than 1%
LOSSES = STEP * np.arange(-600, 801)


def gaussian(mu):
    return norm(mu**2 / 2, mu).cdf


def dirichlet(r, alpha):
    return lambda loss: beta(alpha + r, alpha).cdf(1 / (1 + np.exp(-loss / r)))


def laplace_noise(shift):
    # |y - shift| - |y| for y drawn around 0.
    def cdf(loss):
        inside = laplace.sf((shift - np.clip(loss, -shift, shift)) / 2)
        return np.where(loss < -shift, 0.0, np.where(loss >= shift, 1.0, inside))

    return cdf


def randomised_response(epsilon):
    low = 1 / (1 + math.exp(epsilon))
    return lambda loss: np.where(loss < -epsilon, 0.0, np.where(loss < epsilon, low, 1.0))


def of_mechanism(kind):
    """The distribution function of the loss of one release, and how likely all is revealed."""
    match kind:
        case GaussianMechanism():
            return gaussian(math.sqrt(2) / kind.sigma), 0.0
        case DirichletMechanism():
            return dirichlet(kind.r, kind.alpha), 0.0
        case LaplaceMechanism():
            return laplace_noise(1 / kind.scale), 0.0
        case ApproximateDP():
            return randomised_response(kind.epsilon), kind.delta
        case PureDP():
            return randomised_response(kind.epsilon), 0.0
    raise TypeError(kind)


def lattice(kind):
    """The law of a release's loss, rounded to the lattice without changing its mean."""
    cdf, failure = of_mechanism(kind)
    reach = 320
    edges = STEP * (np.arange(-reach, reach + 1, 1 / 32) + 1e-6)
    mass = np.diff(cdf(edges))
    middle = (edges[:-1] + edges[1:]) / 2 / STEP
    low = np.floor(middle).astype(int)
    law = np.bincount(low + reach, mass * (1 - (middle - low)), 2 * reach + 2)
    law += np.bincount(low + reach + 1, mass * (middle - low), 2 * reach + 2)
    if isinstance(kind, LaplaceMechanism):  # one cell falls by one, another grows
        law = fftconvolve(law, law)[reach : reach + law.size]
    return law, reach, failure


def strongest_adversary(kinds, admits, epsilon, most, first=None):
    """The delta of the best adaptive choice of at most that many admitted releases."""
    laws = [lattice(kind) for kind in kinds]
    stopped = np.maximum(-np.expm1(epsilon - LOSSES), 0.0)
    values = {}

    def value(counts):
        if counts in values:
            return values[counts]
        best = stopped
        for i in range(len(kinds)):
            after = tuple(n + (i == j) for j, n in enumerate(counts))
            if sum(after) <= most and admits(dict(zip(kinds, after, strict=True))):
                best = np.maximum(best, step(i, value(after)))
        values[counts] = best
        return best

    def step(i, then):
        law, reach, failure = laws[i]
        padded = np.concatenate([np.full(reach + 1, then[0]), then, np.full(reach + 1, then[-1])])
        following = fftconvolve(padded, law[::-1], mode="valid")[1 : 1 + len(LOSSES)]
        return failure + (1 - failure) * np.maximum(following, 0.0)

    start = (0,) * len(kinds)
    result = value(start) if first is None else step(first, value(_unit(first, len(kinds))))
    return float(result[np.searchsorted(LOSSES, -1e-9)])


def _unit(i, size):
    return tuple(int(i == j) for j in range(size))


def drop_zeros(counts):
    return {kind: number for kind, number in counts.items() if number}


GAUSSIAN = GaussianMechanism(sigma=14.0)
DIRICHLET = DirichletMechanism(r=0.1, alpha=4.5)
HEAVY = DirichletMechanism(r=0.05, alpha=1.5)
LAPLACE = LaplaceMechanism(scale=1 / 0.06)  # its atoms lie on the lattice
PURE = PureDP(0.16)
APPROXIMATE = ApproximateDP(0.12, 1e-7)
KINDS = (GAUSSIAN, DIRICHLET, HEAVY, LAPLACE, PURE, APPROXIMATE)
LIMIT = (1.0, 1e-5)
# Of the lattice, and of the densities on it.
TOLERANCE = 1.01


def test_the_lattice_gives_the_deltas_of_exact_compositions():
    for kind in KINDS:
        most = 3

        def only(counts, most=most):
            return sum(counts.values()) <= most

        exact = Composition([(kind, most)]).delta(0.25)
        assert exact > 1e-4
        assert strongest_adversary((kind,), only, 0.25, most) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("first", range(len(KINDS)))
def test_the_strongest_adversary_stays_within_the_limit(first):
    epsilon, delta = LIMIT
    spending = PrivacyFilter(KINDS[first], 1, epsilon, delta)
    # The kind itself, and three of other shapes.
    kinds = (KINDS[first], *(KINDS[(first + i) % 5] for i in (1, 2, 3)))

    def admits(counts):
        return spending.admits(drop_zeros(counts))

    found = strongest_adversary(kinds, admits, epsilon, most=14, first=0)
    assert 0.25 * delta < found <= TOLERANCE * delta


def test_adaptive_choices_exceed_a_limit_for_fixed_plans():
    """Gaussian mu = 0.15, and then the best of six second steps, each admitted beside it."""
    epsilon, delta = LIMIT
    start = GaussianMechanism(sigma=math.sqrt(2) / 0.15)

    seconds = (
        GaussianMechanism(sigma=math.sqrt(2) / 0.2221),
        PureDP(0.488),
        LaplaceMechanism(scale=2 / 0.523),
        *(DirichletMechanism(r, s * r) for s, r in ((25.0, 0.577), (40.0, 0.967), (100.0, 2.46))),
    )
    for second in seconds:
        # As much as fits, up to the third digit.
        assert 0.97 * delta < Composition([(start, 1), (second, 1)]).delta(epsilon) <= delta
    kinds = (start, *seconds)

    def planned(counts):
        counts = drop_zeros(counts)
        return Composition(counts.items()).delta(epsilon) <= delta

    broken = strongest_adversary(kinds, planned, epsilon, most=2, first=0)
    assert broken > 1.5 * delta
    spending = PrivacyFilter(start, 1, epsilon, delta)

    def filtered(counts):
        return spending.admits(drop_zeros(counts))

    assert strongest_adversary(kinds, filtered, epsilon, most=2, first=0) <= TOLERANCE * delta


@pytest.mark.parametrize("first", [0, 1, 4])
def test_a_filter_that_is_a_tenth_too_generous_is_caught(first):
    epsilon, delta = LIMIT
    spending = PrivacyFilter(KINDS[first], 1, epsilon, delta)
    # Its own bound on delta, if each budget were a tenth larger.
    deltas = []
    for budget in spending.budgets["replace"]:
        if isinstance(budget, Pool):
            larger = Pool(budget.kind, "replace", math.ceil(budget.number * 1.1))
        else:
            larger = RenyiBudget("replace", budget.order, budget.divergence * 11 / 10, Fraction(0))
        deltas.append(math.exp(larger.log_delta(epsilon)))
    assert sum(deltas) > 1.2 * delta
    pool = spending.budgets["replace"][0]

    def admits(counts):
        return pool.share(drop_zeros(counts)) <= Fraction(6, 5)

    assert strongest_adversary((KINDS[first],), admits, epsilon, 60, first=0) > TOLERANCE * delta


# Pools, exactly --------------------------------------------------------------------


def rational_response(p):
    """((probability under P, under Q), ...) of two outcomes."""
    return ((p, 1 - p), (1 - p, p))


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(3, 2), Fraction(5)])
def test_a_pool_spent_by_any_strategy_is_dominated_by_all_of_it(ratio):
    """In fractions: every adaptive strategy over a pool against the product of its pairs."""
    coins = {"a": rational_response(Fraction(2, 3)), "b": rational_response(Fraction(3, 5))}
    coins["c"] = ((Fraction(1, 2), Fraction(1, 8)), (Fraction(1, 2), Fraction(7, 8)))
    pool = {"a": 2, "b": 2, "c": 1}

    def best(left, p, q):
        """The largest sum of max(0, p - ratio q) over outcomes, over all strategies."""
        values = [max(p - ratio * q, Fraction(0))]
        for name, number in left.items():
            if number:
                then = {**left, name: number - 1}
                values.append(sum(best(then, p * x, q * y) for x, y in coins[name]))
        return max(values)

    everything = [coins[name] for name, number in pool.items() for _ in range(number)]
    whole = Fraction(0)
    for outcome in product(*everything):
        p = math.prod((x for x, _ in outcome), start=Fraction(1))
        q = math.prod((y for _, y in outcome), start=Fraction(1))
        whole += max(p - ratio * q, Fraction(0))
    assert best(pool, Fraction(1), Fraction(1)) == whole
    # With one pair more than the pool has, the bound would not hold.
    assert best({**pool, "a": 3}, Fraction(1), Fraction(1)) > whole


def test_gaussian_noise_of_any_size_shares_one_variance():
    first = GaussianMechanism(sigma=100.0)
    spending = PrivacyFilter(first, 1, 1.0, 1e-5)
    (pool, _) = spending.budgets["replace"]
    copies = pool.number
    # A deviation half as large is four times the variance.
    assert pool.share({GaussianMechanism(sigma=50.0): copies // 4}) <= 1
    assert pool.share({GaussianMechanism(sigma=50.0): copies // 4 + 1}) > 1
    assert pool.share({first: copies - 4, GaussianMechanism(sigma=50.0): 1}) == 1
    assert pool.share({first: copies - 3, GaussianMechanism(sigma=50.0): 1}) > 1
    assert pool.share({first: 1, PureDP(1e-9): 1}) > 1


def test_a_renyi_budget_admits_releases_without_pairs():
    spending = PrivacyFilter(GaussianMechanism(sigma=40.0), 1, 1.0, 1e-5)
    (_, renyi) = spending.budgets["replace"]
    for kind in (
        ZeroConcentratedDP(0.001),
        RenyiDP(40.0, 0.001),
        TruncatedConcentratedDP(0.001, 100.0),
    ):
        assert spending.admits({GaussianMechanism(sigma=40.0): 1, kind: 3})
        number = int(renyi.divergence / Fraction(float(kind.rdp(renyi.order))))
        assert renyi.share({kind: number}) <= 1 < renyi.share({kind: number + 1})
    # Of a smaller order nothing is known at this one.
    assert not spending.admits({RenyiDP(3.0, 1e-9): 1})


def test_a_renyi_budget_claims_the_delta_of_canonne_kamath_and_steinke():
    mpmath = pytest.importorskip("mpmath")
    budget = RenyiBudget("replace", 12.5, Fraction(3, 10), Fraction(1, 10**7))
    order, divergence, epsilon = mpmath.mpf("12.5"), mpmath.mpf("0.3"), mpmath.mpf(1)
    exact = mpmath.exp((order - 1) * (divergence - epsilon)) / order
    exact *= (1 - 1 / order) ** (order - 1)
    exact += mpmath.mpf(10) ** -7
    claimed = math.exp(budget.log_delta(1.0))
    assert exact <= claimed <= exact * (1 + 1e-9)


def test_failures_use_their_own_share_of_delta():
    spending = PrivacyFilter(GAUSSIAN, 1, 1.0, 1e-5)
    (_, renyi) = spending.budgets["replace"]
    each = ApproximateDP(0.001, 1e-9)
    number = int(renyi.failure / Fraction(1e-9))
    assert number > 10
    assert spending.admits({GAUSSIAN: 1, each: number})
    assert not spending.admits({GAUSSIAN: 1, each: number + 1})


def test_all_budgets_together_are_within_the_limit():
    for kind in (*KINDS, ZeroConcentratedDP(0.004), JointMechanism(((GAUSSIAN, 1), (HEAVY, 2)))):
        for epsilon, delta in ((1.0, 1e-5), (3.0, 1e-6), (0.7, 1e-2)):
            spending = PrivacyFilter(kind, 1, epsilon, delta)
            assert math.exp(spending.log_delta(epsilon)) <= delta * (1 + 1e-9)
            assert spending.epsilon(delta) <= epsilon
            assert spending.epsilon(delta / 2) > epsilon * 0.9
            # A number that is claimed at another epsilon is that of the same budgets.
            assert spending.delta(spending.epsilon(delta * 2)) <= 2 * delta * (1 + 1e-9)


# Admission --------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 7, 19])
@pytest.mark.parametrize("kind", [DirichletMechanism, GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_equal_fits_that_meet_the_limit_exactly_are_all_admitted(number, kind, adjacency):
    mechanism = kind.calibrate(
        epsilon=1.0, delta=1e-5, releases=14 * number, n_samples=1000, n_categories=4,
        adjacency=adjacency,
    )  # fmt: skip
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    for _ in range(number):
        accountant.charge(mechanism, releases=14)
    assert accountant.remaining() < 1e-9
    with pytest.raises(BudgetExceededError):
        accountant.charge(mechanism, releases=14)


@pytest.mark.parametrize(
    "whole",
    [
        PureDP(1.0),
        ApproximateDP(0.9, 1e-6),
        ApproximateDP(1.0, 1e-5),
        RenyiDP(20.0, 0.3),
        JointMechanism(((DirichletMechanism(0.05, 4.0), 10), (GaussianMechanism(20.0), 2))),
        DirichletMechanism(r=0.02, alpha=3.0, max_count=2.0, max_total=5.0),
    ],
)
def test_a_first_charge_may_take_the_whole_limit(whole):
    delta = 1e-5
    epsilon = Composition([(whole, 1)]).epsilon(delta)
    accountant = PrivacyAccountant(epsilon=epsilon, delta=delta)
    accountant.charge(whole)
    assert accountant.total() == epsilon
    with pytest.raises(BudgetExceededError):
        accountant.charge(whole)


@pytest.mark.parametrize("limit", [(1.0, 1e-5), (3.0, 1e-6)])
@pytest.mark.parametrize(
    "kind",
    [
        GaussianMechanism(sigma=60.0),
        DirichletMechanism(r=0.05, alpha=20.0),
        DirichletMechanism(r=0.2, alpha=60.0, adjacency="add_remove"),
        PureDP(0.05),
    ],
)
def test_a_repeated_kind_gets_95_percent(kind, limit):
    exact = filters._copies_within(kind, 1, *limit)
    assert Composition([(kind, exact)]).delta(limit[0]) <= limit[1]
    assert Composition([(kind, exact + 1 + exact // 1000)]).delta(limit[0]) > limit[1]
    spending = PrivacyFilter(kind, 1, *limit)
    assert spending.admits({kind: math.ceil(0.95 * exact)})
    assert not spending.admits({kind: exact + 1 + exact // 1000})


def test_mixed_charges_get_three_quarters():
    kinds = [
        GaussianMechanism(sigma=160.0),
        DirichletMechanism(r=0.02, alpha=32.0),
        DirichletMechanism(r=0.1, alpha=120.0),
    ]
    # The number that exact composition admits of each kind.
    for epsilon, delta, exact in ((1.0, 1e-5, 265), (3.0, 1e-6, 1549)):
        deltas = [
            Composition([(kind, number) for kind in kinds]).delta(epsilon)
            for number in (exact, exact + 1)
        ]
        assert deltas[0] <= delta < deltas[1]
        spending = PrivacyFilter(kinds[0], 1, epsilon, delta)
        assert spending.admits(dict.fromkeys(kinds, math.floor(0.75 * exact)))


def test_a_release_without_noise_is_never_admitted():
    accountant = PrivacyAccountant(epsilon=5.0)
    for _ in range(2):
        with pytest.raises(BudgetExceededError, match="alone it would cost epsilon infinite"):
            accountant.charge(GaussianMechanism(sigma=0.0))
        accountant.charge(GaussianMechanism(sigma=10.0))


def test_copies_are_for_one_kind_whose_renyi_curve_implies_more_than_its_pairs():
    kind = DirichletMechanism(r=0.02, alpha=3.0, max_count=2.0, max_total=5.0)
    spending = PrivacyFilter(kind, 1, Composition([(kind, 1)]).epsilon(1e-5), 1e-5)
    main = spending.budgets["replace"][0]
    if isinstance(main, Copies):
        assert main.share({kind: 1, PureDP(1e-9): 1}) > 1
    assert spending.admits({kind: 1})
    assert not spending.admits({kind: 2})


@pytest.mark.parametrize(
    ("first", "direction", "number", "order", "divergence", "failure"),
    [
        ((PureDP(0.1), 1), "replace", 10, 18.40622130818937, 0.555718176, 1e-6),
        (
            (GaussianMechanism(sigma=10.0), 1),
            "replace",
            3,
            18.40622130818937,
            0.543026597,
            8.01787e-7,
        ),
        (
            (DirichletMechanism(r=0.05, alpha=2.0, adjacency="add_remove"), 14),
            "remove",
            37,
            18.88323913381938,
            0.494573741,
            2.64031e-7,
        ),
    ],
)
def test_a_first_charge_decides_the_same_filter_in_every_version(
    first, direction, number, order, divergence, failure
):
    # A ledger stores its first charge and not the filter: charges admitted by one filter are
    # not covered by another. If these numbers change, ledgers must store their filter.
    main, other = PrivacyFilter(*first, 1.0, 1e-5).budgets[direction]
    assert main.number == number
    assert other.order == pytest.approx(order, rel=1e-12)
    assert float(other.divergence) == pytest.approx(divergence, rel=1e-6)
    assert float(other.failure) == pytest.approx(failure, rel=1e-5)
