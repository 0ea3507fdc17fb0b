"""SimplexMechanism: the paper's claims, the exact ones, and the probability behind them."""

import time
from contextlib import contextmanager
from fractions import Fraction
from unittest.mock import patch

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc, betaincc, expit, logit

from skdirdp.accounting import Composition, PureDP
from skdirdp.exceptions import PrivacyLeakWarning
from skdirdp.mechanisms import DirichletMechanism, SimplexMechanism
from skdirdp.mechanisms.dirichlet import draw_dirichlet
from skdirdp.mechanisms.simplex import probability_below

EXAMPLE = SimplexMechanism(k=24, protected=(0, 1), eta=0.05, eta_bar=0.05, b=1.0, n_vectors=100)


# ---------------------------------------------------------------- P[Y in Omega_1]


def reference_below(shapes, rest, threshold):
    """A fine quadrature over the first of two entries; the second is then a beta variable."""
    a, b = shapes
    points, weights = np.polynomial.legendre.leggauss(400)
    # In the logit of the share, the density is smooth at both ends.
    low, high = logit(threshold), logit(1 - threshold)
    x = expit(low + (high - low) * (points + 1) / 2)
    density = stats.beta(a, b + rest).pdf(x) * x * (1 - x) * (high - low) / 2
    return 1 - weights @ (density * betaincc(b, rest, np.minimum(threshold / (1 - x), 1)))


@pytest.mark.parametrize(
    ("shapes", "rest", "threshold"),
    [
        ((1.2, 1.2), 21.6, 0.00226),
        ((1.2, 21.6), 1.2, 0.00226),
        ((5.0, 3.0), 8.0, 0.05),
        ((40.0, 60.0), 100.0, 0.18),
        ((1.0, 7.5), 1.5, 0.2),
    ],
)
def test_two_entries_match_nested_quadrature(shapes, rest, threshold):
    truth = reference_below(shapes, rest, threshold)
    assert probability_below(np.array(shapes), rest, threshold) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5, 10])
@pytest.mark.parametrize("threshold", [1e-9, 1e-4, 0.01, 0.05, 0.09])
def test_uniform_vectors_have_a_closed_form(size, threshold):
    """P[all of m entries >= g] = (1 - m g)**m for Dirichlet(1, ..., 1) with m + 1 entries."""
    truth = -np.expm1(size * np.log1p(-size * threshold))
    start = time.perf_counter()
    value = probability_below(np.ones(size), 1.0, threshold)
    assert time.perf_counter() - start < 0.7
    assert value == pytest.approx(truth, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("size", [3, 6, 10])
def test_integer_shapes_match_rational_arithmetic(size):
    """Shapes of 2 and rest 1: expand prod(x_i) around the threshold and integrate exactly."""
    threshold = mpmath.mpf(1) / 40
    total = 2 * size + 1
    left = 1 - size * threshold
    # x_i = g + y_i: sum over subsets of size j of g**(m - j) * integral of prod y over
    # the simplex of size left, which is left**(m + j) / (m + j)!
    integral = mpmath.fsum(
        mpmath.binomial(size, j)
        * threshold ** (size - j)
        * left ** (size + j)
        / mpmath.factorial(size + j)
        for j in range(size + 1)
    )
    truth = 1 - integral * mpmath.gamma(total)
    value = probability_below(np.full(size, 2.0), 1.0, float(threshold))
    assert value == pytest.approx(float(truth), abs=1e-12)


def test_ten_unequal_entries_match_simulation_and_do_not_depend_on_their_order():
    rng = np.random.default_rng(0)
    shapes, rest, threshold = rng.uniform(1, 6, 10), 4.0, 0.012
    value = probability_below(shapes, rest, threshold)
    assert value == pytest.approx(
        probability_below(rng.permutation(shapes), rest, threshold), abs=1e-14
    )
    draws = rng.dirichlet(np.append(shapes, rest), 200_000)[:, :-1]
    share = np.mean(draws.min(axis=1) < threshold)
    assert value == pytest.approx(share, abs=5 * np.sqrt(share / 200_000))


@pytest.mark.parametrize("k", [1e2, 1e4, 1e6])
def test_the_probability_is_stable_in_the_number_of_nodes(k, monkeypatch):
    from skdirdp.mechanisms import simplex as tail

    p = np.array([0.05, 0.08, 0.1, 0.2, 0.12])
    threshold = 0.05 - 2 * np.sqrt(0.05 * 0.95 / k)
    value = probability_below(k * p, k * (1 - p.sum()), threshold)
    points, weights = np.polynomial.legendre.leggauss(240)
    monkeypatch.setattr(tail, "_POINTS", points)
    monkeypatch.setattr(tail, "_WEIGHTS", weights)
    monkeypatch.setattr(tail, "_DEGREE", 160)
    monkeypatch.setattr(tail, "_CHEBYSHEV", np.polynomial.chebyshev.chebpts1(161))
    assert value == pytest.approx(probability_below(k * p, k * (1 - p.sum()), threshold), abs=1e-11)
    assert 1e-4 < value < 0.5


# ---------------------------------------------------------------- the paper's numbers


def test_the_example_of_the_paper():
    """Section VI prints 1.18; Theorem 2 with the number of vectors gives 1.1223."""
    gamma = EXAMPLE.best_gamma(0.05)
    assert gamma == pytest.approx(0.0022607, abs=5e-8)
    assert EXAMPLE.epsilon(0.05, claim="paper") == pytest.approx(1.1223, abs=5e-5)
    assert EXAMPLE.paper_delta(gamma) == pytest.approx(0.05, rel=1e-9)
    assert EXAMPLE.paper_delta(gamma) <= 0.05
    assert EXAMPLE.paper_delta(gamma, union=True) == pytest.approx(0.0506, abs=5e-5)


def test_the_exact_claim_is_twenty_times_smaller():
    assert EXAMPLE.epsilon(0.05) == pytest.approx(0.0508, abs=5e-5)
    same = EXAMPLE.equivalent
    assert same == DirichletMechanism(r=same.r, alpha=24 * 0.05)
    # Entries are floats, and may differ by slightly more than the limits.
    assert 24 / 200 <= same.r <= 24 / 200 * (1 + 1e-12)
    assert EXAMPLE.epsilon(0.05) == same.epsilon(0.05)
    claims = EXAMPLE.claims(0.05)
    assert claims["exact"] < claims["paper"] < claims["union"] < claims["lemma5"]


def test_k_for_an_accuracy():
    """(23): 24 keeps the variance below 0.01."""
    assert SimplexMechanism.k_for_variance(0.01) == pytest.approx(24)
    k = SimplexMechanism.k_for_variance(0.005, [0.1, 0.3, 0.6])
    mechanism = SimplexMechanism(k, (0, 1), 0.05, 0.05)
    assert mechanism.variance([0.1, 0.3, 0.6]).max() == pytest.approx(0.005)


def test_table_1_of_the_paper():
    """Its printed inputs sum to 0.9518, so the outputs are centred on them rescaled.

    The number of runs is not printed; 1000 are assumed for the sampling error.
    """
    inputs = {
        "P": (0.314923, 0.315923, 0.320923),
        "Q": (0.314923, 0.320923, 0.315923),
    }
    means = {"P": (0.327731, 0.336119, 0.336149), "Q": (0.326620, 0.338976, 0.334402)}
    variances = {"P": (0.00934632, 0.00983122, 0.0102117), "Q": (0.00922426, 0.0100889, 0.0100757)}
    rng = np.random.default_rng(5)
    for name, vector in inputs.items():
        vector = np.array(vector)
        p, k = vector / vector.sum(), 24 * vector.sum()
        mechanism = SimplexMechanism(k, (0, 1), 0.05, 0.05)
        variance = mechanism.variance(p)
        assert np.all(np.abs(means[name] - p) < 3 * np.sqrt(variance / 1000))
        assert np.all(np.abs(variances[name] / variance - 1) < 3 * np.sqrt(2 / 1000))
        with pytest.warns(PrivacyLeakWarning):
            draws = np.array([mechanism.release(p, rng) for _ in range(2000)])
        assert np.all(np.abs(draws.mean(0) - p) < 4 * np.sqrt(variance / 2000))
        assert np.all(np.abs(draws.var(0) / variance - 1) < 4 * np.sqrt(2 / 2000))
        with pytest.raises(ValueError, match="sum to 1"):
            EXAMPLE.release_mean(np.tile(vector, (100, 1)))


def test_lemma_5_bounds_the_beta_function():
    for a, b in [(1.5, 2.0), (3.0, 7.0), (10.0, 1.1)]:
        value = float(mpmath.beta(a, b))
        assert np.exp(2 - a - b) <= value <= (a + b - 1) / ((2 * a - 1) * (2 * b - 1))


# ---------------------------------------------------------------- the claims hold


def true_delta(p, q, k, epsilon):
    """Return delta for vectors that differ in entries 0 and 1: only their shares matter.

    y0 / (y0 + y1) is Beta(k p0, k p1), independent of the rest, whose law is common.
    """
    a, b, r = k * p[0], k * p[1], k * (p[0] - q[0])
    offset = float(mpmath.log(mpmath.beta(a - r, b + r) / mpmath.beta(a, b)))
    share, rest = expit((epsilon - offset) / r), expit((offset - epsilon) / r)
    upper = betainc(b, a, rest) if r > 0 else betainc(a, b, share)
    other = betainc(b + r, a - r, rest) if r > 0 else betainc(a - r, b + r, share)
    return upper - np.exp(epsilon) * other


@pytest.mark.parametrize("claim", ["exact", "paper", "union"])
@pytest.mark.parametrize("b", [0.1, 0.4, 1.0])
def test_no_neighbours_lose_more_than_claimed(claim, b):
    mechanism = SimplexMechanism(k=30, protected=(0, 1), eta=0.1, eta_bar=0.1, b=b)
    rng = np.random.default_rng(1)
    for delta in (0.2, 0.02, 1e-4):
        epsilon = mechanism.epsilon(delta, claim=claim)
        for _ in range(60):
            total = rng.uniform(0.2, 0.9)
            p0, q0 = rng.uniform(0.1, total - 0.1, 2) if total > 0.2 else (0.1, 0.1)
            q0 = p0 + np.clip(q0 - p0, -b / 2, b / 2)
            if abs(p0 - q0) > 1e-3:
                p, q = (p0, total - p0), (q0, total - q0)
                assert true_delta(p, q, 30, epsilon) <= delta * (1 + 1e-9)


def test_the_exact_claim_is_attained_at_the_edge():
    mechanism = SimplexMechanism(k=30, protected=(0, 1), eta=0.1, eta_bar=0.1, b=0.4)
    epsilon = mechanism.epsilon(0.01)
    assert true_delta((0.3, 0.1), (0.1, 0.3), 30, epsilon) == pytest.approx(0.01, rel=1e-5)


def test_entries_cannot_move_further_than_the_limits_allow():
    wide = SimplexMechanism(k=30, protected=(0, 1), eta=0.3, eta_bar=0.3, b=1.0)
    assert wide.equivalent.r == pytest.approx(30 * 0.1)


LIMITS = {"protected": (0, 1), "eta": 0.05, "eta_bar": 0.05, "b": 0.5, "n_vectors": 10}


@pytest.mark.parametrize(
    "change",
    [
        {"protected": (0, 2)},
        {"eta": np.nextafter(0.05, 1)},
        {"eta_bar": 0.06},
        {"b": 0.6},
        {"n_vectors": 11},
    ],
)
def test_releases_under_different_exchanges_are_not_composed(change):
    one = SimplexMechanism(24.0, **LIMITS)
    assert one.adjacency == (
        "replace_vector(protected=(0, 1), eta=0.05, eta_bar=0.05, b=0.5, n_vectors=10)"
    )
    with pytest.raises(ValueError, match="adjacency must be the same"):
        Composition([(one, 1), (SimplexMechanism(24.0, **{**LIMITS, **change}), 1)])


def test_releases_under_the_same_relation_are_composed_for_any_noise():
    one, other = SimplexMechanism(24.0, **LIMITS), SimplexMechanism(60.0, **LIMITS)
    turned = SimplexMechanism(24.0, **{**LIMITS, "protected": (1, 0)})
    assert one.adjacency == other.adjacency == turned.adjacency
    total = Composition([(one, 2), (other, 1), (turned, 1)])
    assert total.rdp(2.0) == pytest.approx(3 * one.rdp(2.0) + other.rdp(2.0), rel=1e-12)
    guarantee = PureDP(0.1, one.adjacency)
    assert Composition([(one, 1), (guarantee, 1)]).rdp(2.0) > one.rdp(2.0)


@pytest.mark.parametrize("guarantee", [PureDP(0.1), DirichletMechanism(r=0.05, alpha=2.0)])
def test_the_exchange_of_a_vector_is_not_the_replacement_of_a_record(guarantee):
    with pytest.raises(ValueError, match=r"adjacency must be the same.*'replace' after 'replace_v"):
        Composition([(EXAMPLE, 1), (guarantee, 1)])


@pytest.mark.parametrize("adjacency", ["replace_vector", "replace_vectors(b=1.0)", "simplex"])
def test_a_guarantee_needs_the_whole_name_of_an_exchange(adjacency):
    with pytest.raises(ValueError, match="adjacency must be one of"):
        PureDP(0.1, adjacency)


def test_parameters_from_numpy_become_numbers_of_python():
    mechanism = SimplexMechanism(
        k=np.float16(24.0),
        protected=np.array([0, 1], dtype=np.int8),
        eta=np.float32(0.0625),
        eta_bar=np.float16(0.0625),
        b=np.float16(0.5),
        n_vectors=np.int8(100),
    )
    assert mechanism == SimplexMechanism(24.0, (0, 1), 0.0625, 0.0625, 0.5, 100)
    assert [type(value) for value in vars(mechanism).values()] == [
        float, tuple, float, float, float, int,
    ]  # fmt: skip
    # 2 * 100 passes the largest int8.
    assert mechanism.paper_epsilon(0.01) == pytest.approx(
        SimplexMechanism(24.0, (0, 1), 0.0625, 0.0625, 0.5, 100).paper_epsilon(0.01)
    )


@contextmanager
def drawn_shapes():
    """Collect the exact shapes that gamma variables are drawn for."""
    shapes = []

    def listening(numerators, places, generator):
        shapes.append([Fraction(int(n), 2**places) for n in numerators[0]])
        return draw_dirichlet(numerators, places, generator)

    with patch("skdirdp.mechanisms.simplex.draw_dirichlet", listening):
        yield shapes


def test_neighbours_are_drawn_with_shapes_that_differ_by_what_is_claimed():
    rng = np.random.default_rng(5)
    for k in (0.01, 3.7, 24.0, 1e5):
        mechanism = SimplexMechanism(k=k, protected=(0, 1), eta=0.05, eta_bar=0.05, b=0.3)
        for _ in range(50):
            p = 0.06 + 0.8 * rng.dirichlet(np.ones(3)) * (1 - 0.18) / 0.8
            move = min(0.15, p[0] - 0.05)
            q = p + [-move, move, 0.0]
            if q[:2].sum() > 0.95 or p[:2].sum() > 0.95:
                continue
            with drawn_shapes() as shapes:
                mechanism.release(p / p.sum())
                mechanism.release(q / p.sum())
            change = [abs(a - b) for a, b in zip(*shapes, strict=True)]
            assert max(change[:2]) <= Fraction(mechanism.equivalent.r)
            assert change[2] <= Fraction(2) ** -40 * Fraction(k)
            assert min(shapes[0][:2]) >= Fraction(mechanism.equivalent.alpha) * (
                1 - Fraction(2) ** -50
            )


def test_rounding_of_partial_sums_does_not_increase_the_change_of_a_mean():
    # With the larger entry first, sums are above 512 while small entries are added, whose
    # last bit is then half a unit of the sum and rounded up every time; else it is kept.
    eta = 2.0**-10
    small = eta + 3 * 2.0**-44
    others = [[0.5, 0.25, 0.25]] * 1023 + [[small, 0.25, 0.75 - small]] * 500
    p, q = [eta, 0.75, 0.25 - eta], [eta + 0.5, 0.25, 0.25 - eta]
    mechanism = SimplexMechanism(
        k=1e4, protected=(0, 1), eta=eta, eta_bar=2.0**-5, n_vectors=len(others) + 1
    )
    with drawn_shapes() as shapes:
        for vector in (p, q):
            mechanism.release_mean([vector, *others])
    change = [abs(a - b) for a, b in zip(*shapes, strict=True)]
    assert max(change) <= Fraction(mechanism.equivalent.r)


def test_an_entry_below_a_tiny_eta_is_rejected_or_raised_to_it():
    eta = b = 1e-12
    mechanism = SimplexMechanism(k=1e13, protected=(0, 1), eta=eta, eta_bar=0.5, b=b)
    for entry in (1e-14, 0.9e-12):
        with pytest.raises(ValueError, match="at least eta=1e-12"):
            mechanism.release([entry, 1e-11, 1 - 1e-11])
    # Accepted vectors are released with a shape of at least k eta, as the claim assumes: by
    # rounding an entry may be lower by 2**-48, which is 36 thousandths of a count here.
    low = np.array([eta - 3e-15, 1.5e-12, 0.0])
    low[2] = 1 - low.sum()
    with drawn_shapes() as shapes:
        mechanism.release(low)
    assert min(shapes[0][:2]) >= Fraction(1e13) * Fraction(eta)
    # The worst neighbours that are let in lose no more than is claimed.
    p, q = (eta + b / 2, eta), (eta, eta + b / 2)
    epsilon = mechanism.epsilon(0.01)
    assert true_delta(p, q, 1e13, epsilon) <= 0.01
    assert epsilon <= 1.02 * DirichletMechanism(r=5.0, alpha=10.0).epsilon(0.01)


def test_vectors_that_sum_to_nearly_one_are_released_as_if_they_did():
    # Neighbours have equal sums; two vectors within the tolerance need not.
    k = 1e9
    mechanism = SimplexMechanism(k=k, protected=(0, 1), eta=0.1, eta_bar=0.1, b=1e-8)
    with drawn_shapes() as shapes:
        for excess in (-9e-10, 9e-10):
            mechanism.release([0.3, 0.3 + excess, 0.4])
    assert [float(sum(each) / Fraction(k)) for each in shapes] == pytest.approx([1, 1], abs=1e-15)


def test_it_composes_and_is_charged_before_the_noise():
    charges = []

    class Ledger:
        def charge(self, mechanism, releases=1, label=None):
            charges.append((mechanism, releases, label))

    mechanism = SimplexMechanism(k=30, protected=(0, 1), eta=0.1, eta_bar=0.1)
    out = mechanism.release([0.3, 0.3, 0.4], accountant=Ledger(), label="policy")
    assert out.shape == (3,)
    assert out.sum() == pytest.approx(1)
    assert charges == [(mechanism, 1, "policy")]
    both = Composition([(EXAMPLE, 3)])
    assert EXAMPLE.epsilon(1e-5) < both.epsilon(1e-5)
    assert EXAMPLE.rdp(2.0) == pytest.approx(EXAMPLE.equivalent.rdp(2.0))


def test_the_mean_of_vectors_is_released():
    rng = np.random.default_rng(2)
    vectors = 0.1 + 0.7 * rng.dirichlet(np.ones(3), 100)
    mechanism = SimplexMechanism(k=1e6, protected=(0, 1), eta=0.05, eta_bar=0.05, n_vectors=100)
    np.testing.assert_allclose(mechanism.release_mean(vectors), vectors.mean(0), atol=0.01)


def test_tiny_entries_outside_the_protected_ones_do_not_vanish():
    p = np.array([0.4, 0.5, 0.1 - 1e-9, 1e-9])
    mechanism = SimplexMechanism(k=10, protected=(0, 1), eta=0.1, eta_bar=0.05)
    assert all(np.all(mechanism.release(p) > 0) for _ in range(20))


# ---------------------------------------------------------------- calibration


@pytest.mark.parametrize("claim", ["exact", "paper", "union"])
def test_the_largest_k_for_a_budget(claim):
    budget = {"protected": (0, 1, 2), "eta": 0.1, "eta_bar": 0.1, "b": 0.1, "n_vectors": 10}
    mechanism = SimplexMechanism.calibrate(epsilon=2.0, delta=0.01, claim=claim, **budget)
    assert mechanism.epsilon(0.01, claim=claim) <= 2.0 * (1 + 1e-9)
    more = SimplexMechanism(mechanism.k * 1.001, **budget)
    assert more.epsilon(0.01, claim=claim) > 2.0


def test_a_budget_below_the_floor_is_rejected():
    with pytest.raises(ValueError, match="cannot be reached"):
        SimplexMechanism.calibrate(
            epsilon=0.1, delta=1e-6, protected=(0, 1), eta=0.05, eta_bar=0.05
        )


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0.0}, "k must be greater than 0"),
        ({"k": np.inf}, "k must be .*finite"),
        ({"protected": (0,)}, "at least 2 distinct"),
        ({"protected": (1, 1)}, "at least 2 distinct"),
        ({"protected": (0, -1)}, "protected must be at least 0"),
        ({"eta": 0.0}, "eta must be greater than 0"),
        ({"eta": 0.5}, "no vector satisfies"),
        ({"eta_bar": 1.0}, "eta_bar must be"),
        ({"b": 0.0}, "b must be greater than 0"),
        ({"b": 1.5}, "b must be greater than 0 and at most 1"),
        ({"n_vectors": 0}, "n_vectors must be at least 1"),
    ],
)
def test_bad_parameters_are_rejected(change, message):
    good = {"k": 24.0, "protected": (0, 1), "eta": 0.05, "eta_bar": 0.05, "b": 1.0}
    with pytest.raises((ValueError, TypeError), match=message):
        SimplexMechanism(**{**good, **change})


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.3, 0.3, 0.3], "sum to 1"),
        ([0.04, 0.56, 0.4], "at least eta=0.05"),
        ([0.5, 0.47, 0.03], "eta_bar=0.05"),
        ([0.5, 0.5, 0.0], "positive entries"),
        ([0.5, np.nan, 0.5], "positive entries"),
        ([0.4, 0.6], "besides those in protected"),
        ([[0.3, 0.3, 0.4]], "1 dimension"),
        (["a", "b", "c"], "array of numbers"),
    ],
)
def test_vectors_outside_the_domain_are_rejected(p, message):
    mechanism = SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05)
    with pytest.raises((ValueError, TypeError), match=message):
        mechanism.release(p)


def test_one_bad_vector_in_a_mean_is_rejected():
    vectors = np.full((100, 3), 1 / 3)
    vectors[17] = [0.01, 0.49, 0.5]
    with pytest.raises(ValueError, match="eta"):
        EXAMPLE.release_mean(vectors)
    with pytest.raises(ValueError, match="n_vectors=100"):
        EXAMPLE.release_mean(vectors[:5])
    with pytest.raises(ValueError, match="release_mean"):
        EXAMPLE.release([0.3, 0.3, 0.4])


def test_the_papers_claims_need_its_assumptions():
    small = SimplexMechanism(k=10, protected=(0, 1), eta=0.05, eta_bar=0.05)
    assert np.isfinite(small.epsilon(0.3))
    for call in (
        lambda: small.paper_delta(0.01),
        lambda: small.best_gamma(0.05),
        lambda: small.epsilon(0.05, claim="paper"),
        lambda: small.claims(0.05),
    ):
        with pytest.raises(ValueError, match=r"k \* eta must be at least 1"):
            call()
    with pytest.raises(ValueError, match="claim must be one of"):
        EXAMPLE.epsilon(0.05, claim="ours")


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_vectors"), [(9.8, 2e-9, 23_874), (2.64, 5e-7, 223), (19.6, 3.4e-7, 12)]
)
def test_a_calibrated_vector_does_not_round_past_its_budget(epsilon, delta, n_vectors):
    mechanism = SimplexMechanism.calibrate(
        epsilon=epsilon, delta=delta, protected=(0, 1), eta=0.1, eta_bar=0.1, n_vectors=n_vectors
    )
    assert epsilon * (1 - 1e-8) < mechanism.epsilon(delta) <= epsilon
