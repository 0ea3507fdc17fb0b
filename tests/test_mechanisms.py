"""Mechanisms: claims on small data, releases, and errors."""

import ast
import copy
import inspect
import itertools
import os
import pickle
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import chisquare, norm

from skdirdp import PrivacyLeakWarning
from skdirdp._random import noise_generator
from skdirdp.accounting import Composition
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    Mechanism,
    calibrate,
)
from skdirdp.mechanisms.base import Request
from skdirdp.mechanisms.dirichlet import dirichlet_variance
from skdirdp.mechanisms.sampling.gamma import gamma_cells, gamma_cells_of_all
from tests.probes import Recorder

ALL = [
    DirichletMechanism(r=0.5, alpha=5.0),
    GaussianMechanism(sigma=3.0),
    LaplaceMechanism(scale=3.0),
]


def seeded(mechanism, counts, seed=0):
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        return mechanism.release(counts, random_state=seed)


# --- The claim itself: no neighbours are easier to distinguish ------------------


def tables(categories, total):
    """All count vectors with this many records."""
    if categories == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in tables(categories - 1, total - first):
            yield (first, *rest)


def neighbours(x, adjacency):
    for i in range(len(x)):
        if adjacency == "add_remove":
            yield tuple(c + (k == i) for k, c in enumerate(x))
            if x[i]:
                yield tuple(c - (k == i) for k, c in enumerate(x))
        elif x[i]:
            for j in range(len(x)):
                if j != i:
                    yield tuple(c - (k == i) + (k == j) for k, c in enumerate(x))


def dirichlet_divergence(a, b, order):
    """Renyi divergence of Dirichlet(a) from Dirichlet(b), in closed form."""
    mixed = order * a + (1 - order) * b
    if mixed.min() <= 0:
        return np.inf

    def log_normaliser(v):
        return gammaln(v).sum() - gammaln(v.sum())

    moment = log_normaliser(mixed) - order * log_normaliser(a) + (order - 1) * log_normaliser(b)
    return moment / (order - 1)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("categories", [2, 3, 4, 5])
@pytest.mark.parametrize(("r", "alpha"), [(1.0, 3.0), (0.3, 0.4), (4.0, 2.0), (0.05, 5.0)])
def test_no_neighbours_diverge_more_than_claimed(adjacency, categories, r, alpha):
    mechanism = DirichletMechanism(r=r, alpha=alpha, adjacency=adjacency)
    limit = alpha / r
    for order in 1 + limit * np.array([0.01, 0.4, 0.95]):
        claim = mechanism.rdp(order)
        worst = 0.0
        for total in range(0, 4 if categories < 5 else 3):
            for x in tables(categories, total):
                for y in neighbours(x, adjacency):
                    a, b = r * np.array(x) + alpha, r * np.array(y) + alpha
                    worst = max(worst, dirichlet_divergence(a, b, order))
        assert worst <= claim * (1 + 1e-9)
        if adjacency == "replace":
            # Attained already by a single record.
            assert worst >= 0.99 * claim


@pytest.mark.parametrize("crowd", [0, 1, 50])
def test_the_worst_replacement_has_the_other_records_in_a_third_cell(crowd):
    mechanism = DirichletMechanism(r=0.7, alpha=1.5)
    a, b = 0.7 * np.array([1, 0, crowd]) + 1.5, 0.7 * np.array([0, 1, crowd]) + 1.5
    assert dirichlet_divergence(a, b, 2.5) == pytest.approx(mechanism.rdp(2.5), rel=1e-9)


def test_the_worst_removal_is_approached_as_the_table_grows():
    mechanism = DirichletMechanism(r=0.7, alpha=1.5, adjacency="add_remove")
    reached = []
    for crowd in (0, 10, 1000, 100_000):
        a, b = 0.7 * np.array([0, crowd]) + 1.5, 0.7 * np.array([1, crowd]) + 1.5
        reached.append(dirichlet_divergence(a, b, 2.5) / mechanism.rdp(2.5))
    assert np.all(np.diff(reached) > 0)
    assert 0.999 < reached[-1] <= 1


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("categories", [2, 3, 5])
def test_no_neighbours_have_a_larger_profile_than_claimed(adjacency, categories):
    r, alpha, samples = 1.0, 2.0, 40_000
    mechanism = DirichletMechanism(r=r, alpha=alpha, adjacency=adjacency)
    rng = np.random.default_rng(categories)
    epsilons = np.array([0.0, 0.5, 1.5])
    claim = mechanism.delta(epsilons)
    reached = np.zeros(3)
    for total in (1, 3):
        # Cells are exchangeable: one arrangement of each set of counts is enough.
        for x in sorted({tuple(sorted(x)) for x in tables(categories, total)}):
            a = r * np.array(x) + alpha
            logs = np.log(rng.dirichlet(a, size=samples))
            for y in neighbours(x, adjacency):
                b = r * np.array(y) + alpha
                constant = gammaln(a.sum()) - gammaln(b.sum()) + (gammaln(b) - gammaln(a)).sum()
                loss = logs @ (a - b) + constant
                values = np.maximum(0, -np.expm1(epsilons[:, np.newaxis] - loss))
                mean = values.mean(axis=1)
                error = values.std(axis=1) / np.sqrt(samples) + 1 / samples
                assert np.all(mean <= claim + 5 * error)
                reached = np.maximum(reached, mean + 5 * error)
    if adjacency == "replace":
        assert np.all(reached >= 0.99 * claim)


def gamma_divergence(shape_p, shape_q, order):
    """Renyi divergence between gamma variables of these shapes."""
    mixed = order * shape_p + (1 - order) * shape_q
    if mixed <= 0:
        return np.inf
    moment = gammaln(mixed) - order * gammaln(shape_p) + (order - 1) * gammaln(shape_q)
    return moment / (order - 1)


def rows_within(max_count, max_total):
    """Integer rows, and fractional ones on a grid of quarters."""
    for unit in (1.0, 0.25):
        steps = int(max_count / unit)
        cells = 3 if unit == 0.25 else 4
        for row in itertools.combinations_with_replacement(range(steps + 1), cells):
            if unit * sum(row) <= max_total:
                yield unit * np.array(row)
    yield np.full(12, min(max_count, max_total / 12))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 3.0])
@pytest.mark.parametrize(("max_count", "max_total"), [(1.0, 3.0), (2.0, 3.0), (2.0, 1.5)])
def test_no_row_within_its_bounds_diverges_more_than_claimed(alpha, max_count, max_total):
    r = 0.3
    for order in 1 + alpha / (r * min(max_count, max_total)) * np.array([0.05, 0.5, 0.95]):
        adds, removes = [], []
        for row in rows_within(max_count, max_total):
            shapes = r * row + alpha
            adds.append(sum(gamma_divergence(s, alpha, order) for s in shapes))
            removes.append(sum(gamma_divergence(alpha, s, order) for s in shapes))
        bounds = {"max_count": max_count, "max_total": max_total}
        one = DirichletMechanism(r=r, alpha=alpha, adjacency="add_remove", **bounds)
        two = DirichletMechanism(r=r, alpha=alpha, **bounds)
        assert max(*adds, *removes) <= one.rdp(order) * (1 + 1e-9)
        assert max(adds) + max(removes) <= two.rdp(order) * (1 + 1e-9)
        assert max(*adds, *removes) >= 0.99 * one.rdp(order)
        if alpha >= 0.5:
            assert max(adds) + max(removes) >= 0.99 * two.rdp(order)


@pytest.mark.parametrize("alpha", [0.5, 0.8, 3.0])
def test_no_row_within_its_bounds_has_a_larger_profile_than_claimed(alpha):
    r, samples = 0.6, 40_000
    rng = np.random.default_rng(1)
    epsilons = np.array([0.0, 0.4, 1.2])
    rows = [[1, 1, 0.5], [0.5] * 5, [2.5 / 9] * 9, [0.9, 0.8, 0.8], [1, 0.75, 0.75]]
    bounds = {"max_count": 1.0, "max_total": 2.5}
    one = DirichletMechanism(r=r, alpha=alpha, adjacency="add_remove", **bounds).delta(epsilons)
    two = DirichletMechanism(r=r, alpha=alpha, **bounds).delta(epsilons)
    for row in map(np.array, rows):
        gain = r * row
        constant = (gammaln(alpha + gain) - gammaln(alpha)).sum()
        add = np.log(rng.gamma(gain + alpha, size=(samples, row.size))) @ gain - constant
        remove = constant - np.log(rng.gamma(alpha, size=(samples, row.size))) @ gain
        for loss, claim in ((add, one), (remove, one), (add + remove, two)):
            values = np.maximum(0, -np.expm1(epsilons[:, np.newaxis] - loss))
            error = values.std(axis=1) / np.sqrt(samples) + 1 / samples
            assert np.all(values.mean(axis=1) <= claim + 5 * error)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 4.0])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_light_record_is_dominated_by_a_full_one(alpha, adjacency):
    epsilons = np.linspace(0.0, 5.0, 11)
    full = DirichletMechanism(r=0.8, alpha=alpha, adjacency=adjacency)
    for weight in (0.1, 0.5, 0.9):
        light = DirichletMechanism(r=0.8, alpha=alpha, adjacency=adjacency, max_count=weight)
        assert np.all(light.delta(epsilons) <= full.delta(epsilons) * (1 + 1e-8))
        scaled = DirichletMechanism(r=0.8 * weight, alpha=alpha, adjacency=adjacency)
        np.testing.assert_allclose(light.delta(epsilons), scaled.delta(epsilons), rtol=1e-9)


def test_a_floor_on_counts_acts_as_a_part_of_the_prior():
    floored = DirichletMechanism(r=0.5, alpha=1.0, floor=4.0)
    plain = DirichletMechanism(r=0.5, alpha=3.0)
    assert floored.rdp(3.0) == pytest.approx(plain.rdp(3.0), rel=1e-12)
    assert floored.delta(0.7) == pytest.approx(plain.delta(0.7), rel=1e-12)
    a, b = 0.5 * np.array([5, 4, 4]) + 1, 0.5 * np.array([4, 5, 4]) + 1
    assert dirichlet_divergence(a, b, 3.0) == pytest.approx(floored.rdp(3.0), rel=1e-9)
    with pytest.raises(ValueError, match=r"counts .*floor 4"):
        floored.release([4, 5, 3])


def laplace_product_delta(shifts, epsilon, cells=400):
    """Profile of independent unit Laplace cells with these shifts, by convolving losses."""
    # Atoms are kept as atoms: losses are rounded up to a fine common grid.
    interval = sum(shifts) / (cells * len(shifts))
    pmf = np.array([1.0])
    for shift in shifts:
        top = int(np.ceil(shift / interval - 1e-9))
        edges = np.clip(np.arange(-top, top + 1) * interval, -shift, shift)
        # P[L <= x] = exp((x - shift) / 2) / 2 inside, with an atom of 1/2 at the top
        cdf = np.exp((edges - shift) / 2) / 2
        cdf[-1] = 1.0
        pmf = np.convolve(pmf, np.diff(cdf, prepend=0.0))
    losses = (np.arange(pmf.size) - (pmf.size - 1) / 2) * interval
    return float(pmf @ np.maximum(0, -np.expm1(epsilon - losses)))


@pytest.mark.parametrize("total", [0.5, 2.0])
def test_a_row_that_fills_its_cells_is_the_worst_for_laplace_noise(total):
    for epsilon in total * np.array([0.0, 0.3, 0.8]):
        filled = laplace_product_delta([total * 0.6, total * 0.4], epsilon)
        for shifts in ([0.5, 0.5], [0.6, 0.2, 0.2], [0.4, 0.3, 0.3], [0.25] * 4, [0.55, 0.45]):
            spread = laplace_product_delta([total * s for s in shifts], epsilon)
            assert spread <= filled * 1.01
        mechanism = LaplaceMechanism(
            scale=1.0, adjacency="add_remove", max_count=0.6 * total, max_total=total
        )
        assert mechanism.delta(epsilon) == pytest.approx(filled, rel=0.02, abs=1e-9)


def test_gaussian_sensitivity_is_that_of_the_longest_row():
    plain = GaussianMechanism(sigma=2.0)
    assert plain.rdp(3.0) == pytest.approx(3.0 * 2 / (2 * 4), rel=1e-11)
    rows = GaussianMechanism(sigma=2.0, max_count=2.0, max_total=5.0, adjacency="add_remove")
    assert rows.rdp(3.0) == pytest.approx(3.0 * (4 + 4 + 1) / (2 * 4), rel=1e-11)


def test_laplace_noise_is_pure():
    for adjacency, changes in (("replace", 2), ("add_remove", 1)):
        mechanism = LaplaceMechanism(scale=4.0, adjacency=adjacency)
        assert mechanism.delta(changes / 4) == 0
        assert mechanism.epsilon(1e-200) == pytest.approx(changes / 4, rel=1e-9)
        assert mechanism.delta(changes / 4 * 0.99) > 0


# --- Releases -------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
@pytest.mark.parametrize("shape", [(4,), (2, 4), (3, 2, 4), (1,), (5, 1)])
def test_a_release_has_the_shape_of_its_table_and_rows_that_sum_to_one(mechanism, shape):
    released = mechanism.release(np.arange(np.prod(shape)).reshape(shape))
    assert released.shape == shape
    assert np.all(released > 0)
    np.testing.assert_allclose(released.sum(axis=-1), 1.0, rtol=1e-12)
    if shape[-1] == 1:
        assert np.all(released == 1)


@pytest.mark.parametrize(("r", "alpha"), [(0.5, 3.0), (0.02, 0.05), (2.0, 0.24)])
def test_a_dirichlet_release_has_dirichlet_moments(r, alpha):
    n = 100_000
    counts = np.array([5.0, 0.0, 2.0])
    released = seeded(DirichletMechanism(r=r, alpha=alpha), np.tile(counts, (n, 1)))
    shapes = r * counts + alpha
    mean = shapes / shapes.sum()
    variance = mean * (1 - mean) / (shapes.sum() + 1)
    assert np.all(np.abs(released.mean(axis=0) - mean) < 5 * np.sqrt(variance / n))
    fourth = ((released - mean) ** 4).mean(axis=0)
    error = np.sqrt(np.maximum(fourth - variance**2, 0) / n)
    assert np.all(np.abs(released.var(axis=0) - variance) < 5 * error)


@pytest.mark.parametrize("shape", [0.2, 0.01, 1e-3, 1e-6, 1e-12])
def test_no_zero_comes_out_at_tiny_shapes(shape):
    mechanism = DirichletMechanism(r=shape, alpha=shape)
    released = mechanism.release(np.zeros((20_000, 3)))
    assert np.all(np.isfinite(np.log(released)))
    np.testing.assert_allclose(released.sum(axis=-1), 1.0, rtol=1e-12)
    # The largest entry is any of the three with equal probability.
    shares = np.bincount(released.argmax(axis=1), minlength=3) / 20_000
    assert np.all(np.abs(shares - 1 / 3) < 5 * np.sqrt(2 / 9 / 20_000))


def test_logarithms_are_right_where_plain_gammas_underflow():
    # log of the ratio of two Gamma(a) variables is, for small a, Laplace of scale 1/a.
    a, n = 0.01, 40_000
    released = seeded(DirichletMechanism(r=a, alpha=a), np.zeros((n, 2)))
    ratio = np.sort(np.abs(np.log(released[:, 0] / released[:, 1])))
    inside = ratio[ratio < 600]
    assert inside.size / n == pytest.approx(1 - np.exp(-6), abs=5 * np.sqrt(np.exp(-6) / n))
    assert np.median(ratio) == pytest.approx(np.log(2) / a, rel=0.05)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_huge_counts_are_no_trouble(mechanism):
    released = mechanism.release([[1e15, 3e15], [1e15, 0.0]])
    np.testing.assert_allclose(released[0], [0.25, 0.75], rtol=1e-5)
    assert 0 < released[1, 1] < 1e-10


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_counts_that_floats_do_not_represent_exactly_are_rejected(mechanism):
    with pytest.raises(ValueError, match=r"counts must be below 2\^53"):
        mechanism.release([[1e16, 3.0]])
    with pytest.raises(ValueError, match="counts must be multiples of"):
        mechanism.release([[0.1, 3.0]])


def test_counts_near_overflow_are_rejected():
    with pytest.raises(ValueError, match=r"counts must be at most 1e\+100"):
        DirichletMechanism(r=1e3, alpha=1.0).release([1e307, 1.0])


@pytest.mark.parametrize("make", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_additive_noise_ends_in_positive_probabilities(make, scale):
    released = make(scale).release(np.zeros((5000, 4)))
    assert np.all(released > 0)
    np.testing.assert_allclose(released.sum(axis=-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("y", [-30.0, -3.0, -0.2, 0.0, 0.7, 4.0, 50.0])
def test_additive_noise_publishes_the_posterior_mean(y):
    scale = 2.0
    kernels = {
        GaussianMechanism: lambda x: np.exp(-((x - y) ** 2 - min(y, 0) ** 2) / (2 * scale**2)),
        LaplaceMechanism: lambda x: np.exp(-(np.abs(x - y) - max(-y, 0)) / scale),
    }
    for make, kernel in kernels.items():
        knots = [0, *([y] if y > 0 else []), max(y, 0) + 60]
        pieces = list(itertools.pairwise(knots))
        mass = sum(quad(kernel, *piece, epsabs=0, epsrel=1e-11)[0] for piece in pieces)
        first = sum(
            quad(lambda x, k=kernel: x * k(x), *piece, epsabs=0, epsrel=1e-11)[0]
            for piece in pieces
        )
        published = make(scale)._posterior_mean(np.array([y]))[0]
        assert published == pytest.approx(first / mass, rel=1e-6)


def test_a_release_without_noise_is_the_smoothed_mean_exactly():
    counts = np.array([[3.0, 0.0, 5.0], [0.0, 0.0, 0.0]])
    expected = (counts + 0.7) / (counts + 0.7).sum(axis=1, keepdims=True)
    for mechanism in (
        DirichletMechanism(r=np.inf, alpha=np.inf, exact_smoothing=0.7),
        GaussianMechanism(0.0, 0.7),
        LaplaceMechanism(0.0, 0.7),
    ):
        np.testing.assert_array_equal(mechanism.release(counts), expected)
        assert mechanism.delta(5.0) == 1
        assert mechanism.epsilon(0.5) == np.inf
        assert mechanism.rdp(2.0) == np.inf
    bare = DirichletMechanism(r=np.inf, alpha=np.inf).release(counts)
    np.testing.assert_allclose(bare, [[0.375, 0, 0.625], [1 / 3] * 3])


# --- Where noise comes from -----------------------------------------------------


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_noise_differs_from_release_to_release_unless_it_is_seeded(mechanism):
    counts = np.full((50, 4), 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.any(mechanism.release(counts) == mechanism.release(counts))
    np.testing.assert_array_equal(seeded(mechanism, counts, 7), seeded(mechanism, counts, 7))
    assert not np.any(seeded(mechanism, counts, 7) == seeded(mechanism, counts, 8))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_used_up_and_warns(make):
    generator = make(3)
    counts = np.full(4, 10.0)
    first, second = seeded(ALL[0], counts, generator), seeded(ALL[0], counts, generator)
    assert not np.any(first == second)


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", True])
def test_a_bad_random_state_is_rejected(bad):
    with pytest.raises((TypeError, ValueError), match="random_state"):
        ALL[0].release([1, 2], random_state=bad)


def generator_with_key(key):
    with patch("skdirdp._random._fresh_key", lambda: key):
        return noise_generator()


def test_secure_noise_is_aes_in_counter_mode():
    # The ciphertext of zeros under the key of zeros, as printed in the specification of GCM.
    first = np.frombuffer(bytes.fromhex("66e94bd4ef8a2c3b884cfa59ca342b2e"), dtype="<u8")
    np.testing.assert_array_equal(generator_with_key(0).words(2), first)
    key = 0x0F0E0D0C0B0A09080706050403020100
    encryptor = Cipher(AES(key.to_bytes(16, "little")), ECB()).encryptor()
    blocks = b"".join(i.to_bytes(16, "little") for i in range(20_000))
    stream = np.frombuffer(encryptor.update(blocks), dtype="<u8")
    generator = generator_with_key(key)
    sizes = [1, 0, 3, 1000, 5, 1024, 1023, 7, 16_384, 1, 2]
    drawn = np.concatenate([generator.words(size) for size in sizes])
    np.testing.assert_array_equal(drawn, stream[: sum(sizes)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_draws_other_words():
    generator = noise_generator()
    generator.words(3)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of the tests
        child = os.fork()
    if child == 0:
        os.write(write, generator.words(8).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    words = np.frombuffer(os.read(read, 64), np.uint64)
    os.close(read)
    os.close(write)
    assert words.size == 8
    assert not set(words.tolist()) & set(generator.words(1000).tolist())


def test_threads_that_share_a_generator_never_draw_the_same_words():
    generator = noise_generator()
    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(generator.words, [1, 7, 700, 1025] * 100)))
    assert np.unique(drawn).size == drawn.size


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_secure_generator_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(noise_generator())


def test_integers_and_orders_of_the_secure_generator_are_uniform():
    generator = noise_generator()
    counts = np.bincount([generator.integers(3) for _ in range(6000)], minlength=3)
    assert chisquare(counts).pvalue > 1e-4
    orders = Counter(tuple(generator.permutation(3).tolist()) for _ in range(6000))
    assert len(orders) == 6
    assert chisquare(list(orders.values())).pvalue > 1e-4


def test_words_beyond_the_last_multiple_are_drawn_again():
    generator = noise_generator()
    words = iter([2**64 - 1, 2**64 - 2])
    with patch.object(generator, "words", lambda size: np.array([next(words)], np.uint64)):
        assert generator.integers(3) == (2**64 - 2) % 3


# --- Values ---------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_a_mechanism_is_a_value(mechanism):
    copy = pickle.loads(pickle.dumps(mechanism))
    assert copy == mechanism
    assert hash(copy) == hash(mechanism)
    assert {mechanism: 1}[copy] == 1
    assert mechanism != type(mechanism)(**{**vars(mechanism), "adjacency": "add_remove"})
    with pytest.raises(FrozenInstanceError):
        mechanism.adjacency = "add_remove"


def test_parameters_of_any_precision_give_the_same_curves():
    exact = DirichletMechanism(r=float(np.float32(0.1)), alpha=float(np.float32(0.7)))
    short = DirichletMechanism(r=np.float32(0.1), alpha=np.float32(0.7))
    assert short.rdp(3.0) == exact.rdp(3.0)
    assert short.delta(0.3) == exact.delta(0.3)
    small = DirichletMechanism(r=np.int8(100), alpha=np.int8(100))
    assert small.delta(30.0) == DirichletMechanism(r=100.0, alpha=100.0).delta(30.0)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_one_release_is_a_composition_of_one(mechanism):
    alone = Composition([(mechanism, 1)])
    assert mechanism.epsilon(1e-5) == alone.epsilon(1e-5)
    assert mechanism.delta(0.3) == alone.delta(0.3)
    np.testing.assert_array_equal(mechanism.rdp([1.5, 2.0]), alone.rdp([1.5, 2.0]))


# --- Errors ---------------------------------------------------------------------

SIZES = {"n_samples": 100, "n_categories": 3}
BAD_CALLS = [
    (lambda: DirichletMechanism(r=0.0, alpha=1.0), r"r must be greater than 0.*got 0"),
    (lambda: DirichletMechanism(r=-2.0, alpha=1.0), r"r must be greater than 0.*got -2"),
    (lambda: DirichletMechanism(r=np.nan, alpha=1.0), r"r must be .*got nan"),
    (lambda: DirichletMechanism(r="1", alpha=1.0), r"r must be a number.*'1'"),
    (lambda: DirichletMechanism(r=1.0, alpha=0.0), r"alpha must be greater than 0.*got 0"),
    (lambda: DirichletMechanism(r=np.inf, alpha=1.0), r"r and alpha .*inf.*1\.0"),
    (lambda: DirichletMechanism(r=1.0, alpha=1.0, floor=-1), r"floor must be at least 0.*-1"),
    (lambda: DirichletMechanism(r=1.0, alpha=1.0, max_count=0), r"max_count .*than 0.*got 0"),
    (lambda: DirichletMechanism(r=1.0, alpha=1.0, max_total=-3), r"max_total .*than 0.*-3"),
    (lambda: DirichletMechanism(r=1.0, alpha=1.0, adjacency="swap"), r"adjacency .*'swap'"),
    (lambda: DirichletMechanism(r=1.0, alpha=1.0, adjacency=2), r"adjacency .*string.*2"),
    (lambda: GaussianMechanism(-1.0), r"sigma must be at least 0.*-1"),
    (lambda: GaussianMechanism(np.nan), r"sigma must be .*nan"),
    (lambda: GaussianMechanism(1.0, smoothing=-1), r"smoothing must be at least 0.*-1"),
    (lambda: LaplaceMechanism(-1.0), r"scale must be at least 0.*-1"),
    (lambda: LaplaceMechanism(np.inf), r"scale must be .*finite.*inf"),
    (lambda: ALL[0].rdp(1.0), r"order must be greater than 1.*got 1"),
    (lambda: ALL[0].rdp([2.0, 0.5]), r"order must be greater than 1.*got 0.5"),
    (lambda: ALL[0].rdp(np.nan), r"order must be .*nan"),
    (lambda: ALL[0].rdp("two"), r"order must be a number.*two"),
    (lambda: ALL[0].delta(-0.1), r"epsilon must be at least 0.*-0.1"),
    (lambda: ALL[0].delta(np.nan), r"epsilon must be .*nan"),
    (lambda: ALL[0].epsilon(0.0), r"delta must be greater than 0.*got 0"),
    (lambda: ALL[0].epsilon(1.0), r"delta must be .*less than 1.*got 1"),
    (lambda: ALL[0].epsilon(np.nan), r"delta must be .*nan"),
    (lambda: ALL[0].epsilon(None), r"delta must be a number.*None"),
    (lambda: ALL[0].release([1, -1]), r"counts must be at least 0"),
    (lambda: ALL[0].release([1, np.nan]), r"counts must be finite"),
    (lambda: ALL[0].release([1, np.inf]), r"counts must be finite"),
    (lambda: ALL[0].release([]), r"counts must contain at least one cell.*\(0,\)"),
    (lambda: ALL[0].release(np.zeros((3, 0))), r"counts must contain at least one cell.*\(3, 0\)"),
    (lambda: ALL[0].release(5.0), r"counts must contain at least one cell"),
    (lambda: ALL[0].release("many"), r"counts must be an array of numbers"),
    (lambda: calibrate("cauchy", epsilon=1.0, **SIZES), r"mechanism must be one of .*'cauchy'"),
    (lambda: calibrate(epsilon=0.0, **SIZES), r"epsilon must be greater than 0.*got 0"),
    (lambda: calibrate(epsilon=np.nan, **SIZES), r"epsilon must be .*nan"),
    (lambda: calibrate(epsilon="1", **SIZES), r"epsilon must be a number.*'1'"),
    (lambda: calibrate(epsilon=1.0, delta=0.0, **SIZES), r"delta must be .*delta=0"),
    (lambda: calibrate(epsilon=1.0, delta=1.0, **SIZES), r"delta must be .*got 1"),
    (lambda: calibrate(epsilon=1.0, order=1.0, **SIZES), r"order must be greater than 1.*got 1"),
    (lambda: calibrate(epsilon=1.0, releases=0, **SIZES), r"releases must be at least 1.*got 0"),
    (lambda: calibrate(epsilon=1.0, releases=2.5, **SIZES), r"releases must be an integer.*2.5"),
    (lambda: calibrate(epsilon=1.0, n_categories=3), r"n_samples must be given"),
    (lambda: calibrate(epsilon=1.0, n_samples=3), r"n_categories must be given"),
    (lambda: calibrate(epsilon=1.0, n_samples=-3, n_categories=3), r"n_samples .*at least 0.*-3"),
    (lambda: calibrate(epsilon=1.0, n_samples=3, n_categories=0), r"n_categories .*least 1.*got 0"),
    (lambda: calibrate(epsilon=1.0, min_smoothing=-1, **SIZES), r"min_smoothing .*least 0.*-1"),
    (lambda: calibrate(epsilon=1.0, calibration="guess", **SIZES), r"calibration .*'guess'"),
    (lambda: calibrate(epsilon=1.0, adjacency="swap", **SIZES), r"adjacency .*'swap'"),
    (
        lambda: calibrate("gaussian", epsilon=1.0, calibration="tcdp", **SIZES),
        r"calibration must be 'exact'.*'tcdp'",
    ),
    (
        lambda: calibrate(epsilon=1.0, releases=3, n_samples=9, n_categories=[2, 2]),
        r"n_categories must have one entry per release, 3; got 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS, ids=[m for _, m in BAD_CALLS])
def test_bad_input_is_rejected_by_name_limit_and_value(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_an_error_about_counts_does_not_print_them():
    with pytest.raises(ValueError, match="counts") as caught:
        ALL[0].release([123456, -7])
    assert "123456" not in str(caught.value)
    assert "7" not in str(caught.value)


def test_keys_are_drawn_from_the_operating_system(monkeypatch):
    monkeypatch.undo()  # the keys of the tests
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(range(size))

    monkeypatch.setattr("os.urandom", urandom)
    first = noise_generator().words(3)
    assert asked == [16]
    np.testing.assert_array_equal(first, noise_generator().words(3))


def test_the_repr_of_a_mechanism_shows_its_parameters():
    assert repr(DirichletMechanism(0.5, 5.0)) == "DirichletMechanism(r=0.5, alpha=5.0)"
    laplace = LaplaceMechanism(3.0, adjacency="add_remove")
    assert repr(laplace) == "LaplaceMechanism(scale=3.0, adjacency='add_remove')"
    assert eval(repr(laplace)) == laplace


# --- Several mechanisms, and bounds ---------------------------------------------


def test_joint_releases_have_the_curves_of_their_composition():
    one, other = DirichletMechanism(r=0.05, alpha=2.0), GaussianMechanism(sigma=9.0)
    joint = JointMechanism(((one, 13), (other, 1)))
    total = Composition([(one, 13), (other, 1)])
    assert joint.rdp(4.0) == total.rdp(4.0)
    assert joint.delta(0.5) == total.delta(0.5)
    assert joint.epsilon(1e-5) == total.epsilon(1e-5)


def test_numbers_of_joint_releases_from_numpy_do_not_overflow():
    one, other = DirichletMechanism(r=0.05, alpha=2.0), DirichletMechanism(r=0.1, alpha=2.0)
    joint = JointMechanism(((one, np.int8(100)), (other, np.int8(100))))
    assert joint == JointMechanism(((one, 100), (other, 100)))
    assert joint.releases == 200
    assert Composition([(joint, np.int8(2))]).rdp(2.0) == pytest.approx(
        200 * (one.rdp(2.0) + other.rdp(2.0))
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (((DirichletMechanism(1.0, 2.0), 0),), "releases must be at least 1"),
        (((DirichletMechanism(1.0, 2.0), 1.5),), "releases must be an integer"),
        (
            (
                (DirichletMechanism(1.0, 2.0), 1),
                (DirichletMechanism(1.0, 2.0, adjacency="add_remove"), 1),
            ),
            "adjacency must be the same",
        ),
    ],
)
def test_joint_releases_that_have_no_total_are_rejected(parts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        JointMechanism(parts)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.float16])
def test_bounds_from_numpy_do_not_overflow(kind):
    for make in (GaussianMechanism, LaplaceMechanism):
        mechanism = make(kind(100), max_count=kind(100), max_total=kind(120))
        assert mechanism == make(100.0, max_count=100.0, max_total=120.0)
        # Twice 100^2 + 20^2, which no int8 and no half holds.
        assert mechanism.contribution.squared_norm("replace") == 20_800.0
        assert mechanism.epsilon(1e-5) == make(100.0, max_count=100.0, max_total=120.0).epsilon(
            1e-5
        )


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"max_count": 1e101}, "max_count must be .* at most 1e\\+100"),
        ({"max_count": 1e-101}, "max_count must be .* at least 1e-100"),
        ({"max_count": 1.0, "max_total": 1e101}, "max_total must be .* at most 1e\\+100"),
        ({"max_count": 1e-9, "max_total": 1e9}, "max_total must be at most .* times max_count"),
    ],
)
def test_bounds_whose_squares_or_cells_no_float_represents_are_rejected(bounds, message):
    with pytest.raises(ValueError, match=message):
        GaussianMechanism(1.0, **bounds)


def test_every_mechanism_has_calibrate():
    source = Path(inspect.getsourcefile(Mechanism)).read_text()
    imported = {
        node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.level == 1
    }
    assert "calibration" not in imported
    budget = {"epsilon": 1.0, "delta": 1e-5, "n_samples": 1000, "n_categories": 4}
    for kind in (DirichletMechanism, GaussianMechanism, LaplaceMechanism):
        assert kind.calibrate(**budget) == calibrate(kind.name, **budget)


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_a_platform_that_cannot_draw_is_rejected_before_the_charge(mechanism):
    recorder = Recorder()
    with (
        patch("skdirdp.mechanisms.base.check_platform", side_effect=RuntimeError("imprecise")),
        pytest.raises(RuntimeError, match="imprecise"),
    ):
        mechanism.release([[12, 0, 5]], accountant=recorder)
    assert not recorder.charges


# --- Low-order bits -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "doubles"),
    [
        (GaussianMechanism(3.7), lambda rng, n: 3.7 * rng.standard_normal(n)),
        (LaplaceMechanism(3.7), lambda rng, n: rng.laplace(scale=3.7, size=n)),
    ],
    ids=["gaussian", "laplace"],
)
def test_the_last_bits_of_noisy_counts_do_not_distinguish_neighbours(mechanism, doubles):
    # Added in doubles, small noise on a count of 1 loses the bits that it keeps on a count
    # of 0: a value with such bits can only come from the latter.
    n, rng = 200_000, np.random.default_rng(0)

    def telling(values):
        return np.mean(values % 2.0**-50 != 0)

    assert telling(0 + doubles(rng, n)) > 0.3
    assert telling(32 + doubles(rng, n)) < 0.01
    for count in (0.0, 1.0, 32.0):
        noisy = mechanism.noisy(np.full(n, count), rng)
        assert telling(noisy) == 0
        # The same grid for all data, and noise reaches every part of it near the count.
        steps = (noisy - count) * 2.0**20
        assert np.all(steps == np.rint(steps))
        assert set(np.unique(steps % 8)) == set(range(8))


def test_the_first_bits_of_gammas_are_all_that_a_dirichlet_release_rests_on(monkeypatch):
    from skdirdp.mechanisms.sampling import grids

    seen = []

    def listening(mantissa, exponent):
        seen.append((mantissa, exponent))
        return relative_weights(mantissa, exponent)

    relative_weights = grids.relative_weights
    monkeypatch.setattr(grids, "relative_weights", listening)
    mechanism = DirichletMechanism(r=0.3, alpha=1e-3)
    for counts in ([0, 5], [1, 4], [0.5, 1e6]):
        mechanism.release([counts] * 1000)
    for mantissa, _ in seen:
        assert mantissa.min() >= 2**19
        assert mantissa.max() < 2**20
    assert len(seen) == 3


# Several tables at once -------------------------------------------------------------


def test_tables_that_are_drawn_together_are_those_of_their_own_mechanisms():
    # All kinds in turn, of all shapes: each mean is that of its own counts and parameters.
    kinds = [
        DirichletMechanism(r=np.inf, alpha=np.inf, exact_smoothing=1.0),
        DirichletMechanism(r=0.5, alpha=1.5),
        GaussianMechanism(sigma=0.3),
        DirichletMechanism(r=3.0, alpha=0.25),
        LaplaceMechanism(scale=0.2, smoothing=0.5),
        DirichletMechanism(r=0.5, alpha=1.5),
    ]
    rng = np.random.default_rng(0)
    requests = []
    for place, mechanism in enumerate(kinds * 2):
        shape = [(20_000, 2), (3,), (5000, 7), (2, 2, 4)][place % 4]
        requests.append(Request(mechanism, rng.integers(1, 60, shape).astype(float), 1.0))
    drawn = Mechanism.draw_all(requests, np.random.default_rng(1))
    for (_, counts, *_), released in zip(requests, drawn, strict=True):
        assert released.shape == counts.shape
        np.testing.assert_allclose(released.sum(axis=-1), 1)
        assert (released > 0).all()
    # Small tables, often: as many draws of each, and their means by cells.
    small = [Request(m, rng.integers(5, 60, 2 + i).astype(float), 1.0) for i, m in enumerate(kinds)]
    draws = 4000
    together = Mechanism.draw_all(small * draws, np.random.default_rng(2))
    for place, (mechanism, counts, *_) in enumerate(small):
        found = np.array(together[place :: len(small)])
        alone = mechanism.draw(np.tile(counts, (draws, 1)), np.random.default_rng(3))
        error = np.sqrt((found.var(axis=0) + alone.var(axis=0)) / draws)
        assert (np.abs(found.mean(axis=0) - alone.mean(axis=0)) <= 5 * error + 1e-12).all()
        if isinstance(mechanism, DirichletMechanism) and not mechanism.is_exact:
            shapes = mechanism.r * counts + mechanism.alpha
            expected = dirichlet_variance(shapes / shapes.sum(), shapes.sum())
            # A sample variance of these errs by some 3% at this size.
            np.testing.assert_allclose(found.var(axis=0), expected, rtol=0.15)


@pytest.mark.parametrize("largest", [2**20, 2**60])
def test_shapes_of_several_grids_are_drawn_as_they_are(largest):
    # The second pair has too many bits for the grid of the first: each is drawn by itself.
    shapes = [(np.array([3, 700, 2**20]), 18), (np.array([5, largest]), 4)]
    found = gamma_cells_of_all(shapes, np.random.default_rng(5))
    if largest == 2**20:
        numerators = np.concatenate([shapes[0][0], shapes[1][0] << 14])
        expected = gamma_cells(numerators, 18, np.random.default_rng(5))
    else:
        generator = np.random.default_rng(5)
        expected = np.concatenate([gamma_cells(*part, generator) for part in shapes], axis=1)
    np.testing.assert_array_equal(found, expected)


# Limits from noisy counts ----------------------------------------------------------

NOISY = [
    DirichletMechanism(r=100.0, alpha=2.0**18),
    DirichletMechanism(r=0.5, alpha=6.0),
    GaussianMechanism(sigma=5.0),
    LaplaceMechanism(scale=4.0),
]


def noisy_rows(mechanism, counts, draws):
    request = Request(mechanism, np.tile(counts, (draws, 1)), 1.0, as_counts=True)
    return Mechanism.draw_all([request], np.random.default_rng(3))[0]


@pytest.mark.parametrize("mechanism", NOISY, ids=str)
@pytest.mark.parametrize("total", ["public", "not public"])
@pytest.mark.parametrize("runs", ["cells", "below", "everything"])
def test_limits_from_noisy_counts_hold_for_all_runs_at_once(mechanism, total, runs):
    rng, size, draws, confidence = np.random.default_rng(5), 40, 300, 0.8
    counts = rng.integers(0, 60, size) * (rng.random(size) < 0.5) + 0.0
    counts[7] = 400.0
    first, stop = {
        "cells": (np.arange(size), np.arange(1, size + 1)),
        "below": (np.zeros(size - 1, dtype=int), np.arange(1, size)),
        "everything": (np.array([0]), np.array([size])),
    }[runs]
    below = np.concatenate([[0.0], np.cumsum(counts)])
    shares = (below[stop] - below[first]) / counts.sum()
    number = counts.sum() if total == "public" else None
    held, widths = 0, []
    for row in noisy_rows(mechanism, counts, draws):
        lower, upper = mechanism.limits_from_noisy(
            row, first, stop, n_samples=number, confidence=confidence
        )
        held += bool(np.all((lower <= shares) & (shares <= upper)))
        widths.append(upper - lower)
    assert held / draws > confidence - 4 * np.sqrt(confidence * (1 - confidence) / draws)
    if runs == "everything":
        assert np.all(np.array(widths) == 0)
        return
    # For so many runs on two sides; bounds by exponential moments are somewhat wider, and
    # Laplace noise has heavier tails.
    cells = np.minimum(stop - first, size - (stop - first)) + (total != "public") * size / 4
    off = np.sqrt(cells * mechanism.noise.variance_at(counts.mean())) * norm.isf(0.1 / len(first))
    off += np.sqrt(mechanism.noise.per_count * 400.0) * norm.isf(0.1 / len(first))
    most = {"laplace": 5}.get(mechanism.name, 3.5)
    assert np.all(np.mean(widths, axis=0) < most * off / counts.sum())


@pytest.mark.parametrize("mechanism", NOISY[:3], ids=str)
def test_limits_of_one_run_with_a_public_total_fail_just_as_often_as_stated(mechanism):
    counts, draws, confidence = np.repeat([40.0, 10.0], 8), 2000, 0.7
    first, stop = np.array([2]), np.array([7])
    held = 0
    for row in noisy_rows(mechanism, counts, draws):
        lower, upper = mechanism.limits_from_noisy(
            row, first, stop, n_samples=400.0, confidence=confidence
        )
        held += bool(lower[0] <= 0.5 <= upper[0])
    assert held / draws == pytest.approx(confidence, abs=4 * np.sqrt(0.21 / draws))
    with pytest.raises(ValueError, match="confidence must be"):
        mechanism.limits_from_noisy(counts, first, stop, n_samples=None, confidence=1.0)
