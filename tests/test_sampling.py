"""Exact samples, against ball arithmetic, incomplete gamma functions and Pólya's urn."""

import hashlib
from fractions import Fraction
from itertools import product
from math import comb, factorial

import mpmath
import numpy as np
import pytest
from flint import arb, ctx, fmpq
from numpy.testing import assert_array_equal
from scipy import stats

from skdirdp.mechanisms.sampling import bernoulli, bits, check_platform, gamma
from skdirdp.mechanisms.sampling import negative_binomial as nb
from skdirdp.mechanisms.sampling.bits import BitStream
from skdirdp.mechanisms.sampling.distributions import (
    Normals,
    choose,
    floored_laplace_cells,
    laplace_cells,
    normal_cells,
)
from skdirdp.mechanisms.sampling.gamma import gamma_cells
from skdirdp.mechanisms.sampling.grids import (
    gamma_shapes,
    midpoints,
    noise_grid,
    places_for,
    relative_weights,
    round_down,
    round_up,
)
from skdirdp.mechanisms.sampling.negative_binomial import negative_binomial

PLACES = 20
# Seeds are fixed. A correct sampler would fail a test for one seed in a thousand.
LEAST_P_VALUE = 1e-3


class ScriptedStream(BitStream):
    """Reproducible stream in which a uniform's bits depend only on seed and index.

    Two runs with different error margins see the same uniforms, even if they draw different
    numbers of further words.
    """

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        self._seed = seed

    def next_word(self, index: int, n_words: int) -> int:
        text = f"{self._seed}/{index}/{n_words}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def shapes(values, places=PLACES):
    return np.maximum(np.round(np.asarray(values) * 2.0**places), 1).astype(np.int64)


def spread_shapes(low, high, size, places=PLACES):
    logs = np.random.default_rng(1).uniform(np.log10(low), np.log10(high), size)
    return shapes(10**logs, places)


NOISE = {
    "normal": normal_cells,
    "laplace": laplace_cells,
    "floored laplace": floored_laplace_cells,
}
KINDS = {
    name: lambda stream, margin, f=f: f(1.7, 2.0**-20, 3000, stream, _margin=margin)
    for name, f in NOISE.items()
} | {
    "gamma, all shapes": lambda stream, margin: gamma_cells(
        spread_shapes(1e-3, 1e9, 5000), PLACES, stream, _margin=margin
    ),
    "gamma, shape 1": lambda stream, margin: gamma_cells(
        shapes(np.ones(3000)), PLACES, stream, _margin=margin
    ),
    "gamma, tiny shapes": lambda stream, margin: gamma_cells(
        spread_shapes(1e-12, 1e-3, 1000, 44), 44, stream, _margin=margin
    ),
    "gamma, shapes beyond doubles": lambda stream, margin: gamma_cells(
        2**61 + np.arange(1000) * 2**40 + 1, 12, stream, _margin=margin
    ),
    "gamma, large shapes": lambda stream, margin: gamma_cells(
        spread_shapes(2e4, 1e9, 5000), PLACES, stream, _margin=margin
    ),
    "choice": lambda stream, margin: choose(-np.arange(50.0), 2000, stream, _margin=margin),
    "negative binomial": lambda stream, margin: negative_binomial(
        spread_shapes(1.0, 1e9, 1500), PLACES, 1024, stream, _margin=margin
    ),
    "negative binomial, small ratio": lambda stream, margin: negative_binomial(
        spread_shapes(1.0, 1e4, 1000), PLACES, 1, stream, _margin=margin
    ),
    "negative binomial, shapes below 1": lambda stream, margin: negative_binomial(
        spread_shapes(1e-6, 1.0, 1000), PLACES, 4096, stream, _margin=margin
    ),
    "negative binomial, tiny shapes": lambda stream, margin: negative_binomial(
        spread_shapes(1e-12, 1e-6, 300, 44), 44, 3, stream, _margin=margin
    ),
}


def draw(kind, seed, margin=bits.MARGIN):
    stream = ScriptedStream(seed)
    return np.array(KINDS[kind](stream, margin)), stream


# Doubles and ball arithmetic --------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_in_doubles_agree_with_exact_arithmetic(kind):
    cells, stream = draw(kind, 11)
    exact, forced = draw(kind, 11, margin=np.inf)
    assert_array_equal(cells, exact)
    assert forced.undecided >= cells.shape[-1]
    assert stream.undecided <= cells.shape[-1] / 500


@pytest.mark.parametrize(
    "kind",
    ["normal", "laplace", "gamma, all shapes", "gamma, tiny shapes", "negative binomial"],
)
def test_a_larger_margin_leaves_more_decisions_to_exact_arithmetic(kind):
    cells, _ = draw(kind, 12)
    mixed, stream = draw(kind, 12, margin=2.0**-26)
    assert_array_equal(cells, mixed)
    assert 0 < stream.undecided < cells.shape[-1] / 2


def test_undecided_proposals_are_rare_but_do_occur():
    stream = BitStream(np.random.default_rng(0))
    for _ in range(4):
        gamma_cells(spread_shapes(1e-3, 1e9, 500_000), PLACES, stream)
    assert 0 < stream.undecided < 200


class EdgeStream(ScriptedStream):
    """First words at the ends and the middle of their range, and of every magnitude."""

    def _words(self, size):
        edges = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
        words = super()._words(size)
        kind, which = words % np.uint64(4), words >> np.uint64(32)
        words = np.where(kind == 0, edges[which % np.uint64(edges.size)], words)
        return np.where(kind == 1, words >> which % np.uint64(64), words)


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_about_extreme_words_agree_with_exact_arithmetic(kind):
    drawn = [np.array(KINDS[kind](EdgeStream(5), margin)) for margin in (bits.MARGIN, np.inf)]
    assert_array_equal(*drawn)


def share_of_bound(true, value, error):
    """Distance between a double and its true value, a ball, relative to the error bound."""
    return float((abs(true - arb(float(value))) / arb(float(error))).upper())


@pytest.fixture
def precise():
    before, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = before


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("stream", [ScriptedStream, EdgeStream])
@pytest.mark.parametrize("least", [1.001, 1e5])
def test_the_error_of_doubles_is_at_most_half_of_its_bound(least, stream):
    numerators = spread_shapes(least, 1e9, 1500)
    source, margin, shares = stream(21), bits.MARGIN, []
    with np.errstate(all="ignore"):
        normals = Normals(source, 1000, margin)
        for i in np.flatnonzero(normals.errors < 1):
            z, uniforms = normals.exact(int(i))
            true = z(*(u.ball() for u in uniforms))
            shares.append(share_of_bound(true, normals.values[i], normals.errors[i]))
        proposals = gamma.MarsagliaTsang(numerators, PLACES, source, margin)
        middle = (proposals.low + proposals.high) / 2
        for i in np.flatnonzero(proposals.accepted):
            _, value, uniforms = proposals.exact(int(i))
            true = value(*(u.ball() for u in uniforms))
            shares.append(share_of_bound(true, middle[i], proposals.high[i] - middle[i]))
        for kind, low, high in (
            (gamma.PowerByInversion, 0.004, 1),
            (gamma.PowerByParts, 1e-6, 0.003),
        ):
            powers = kind(spread_shapes(low, high, 800), PLACES, source, margin)
            middle = (powers.low + powers.high) / 2
            for i in np.flatnonzero(powers.accepted & ~powers.undecided & (powers.low > 0)):
                _, number, factor, uniforms = powers.exact(int(i))
                assert number == powers.halvings[i]
                true = factor(*(u.ball() for u in uniforms))
                shares.append(share_of_bound(true, middle[i], powers.high[i] - middle[i]))
    assert len(shares) > 1500
    assert max(shares) < 0.5


@pytest.mark.usefixtures("precise")
def test_the_error_of_the_slack_is_at_most_half_of_its_tolerance():
    rng = np.random.default_rng(22)
    shares = []
    for numerator in spread_shapes(1.001, 1e9, 1500).tolist():
        d = Fraction(numerator, 2**PLACES) - Fraction(1, 3)
        c = (1 + 2.0**-40) / (3 * float(d) ** 0.5)
        z, unit = max(rng.normal(), -0.9999 / c), rng.random()
        z_error = 2.0**-44 * (abs(z) + 1)
        y = c * z
        slack, tolerance = gamma.slack_and_tolerance(
            bits.MARGIN, *(np.float64(x) for x in (unit, d, c, z, z_error, y, 1 + y))
        )
        # The error of the normal variable is at most a third of z_error.
        for true_z in (z - z_error / 3, z + z_error / 3):
            true = gamma.exact_slack(
                fmpq(d.numerator, d.denominator), arb(c), arb(true_z), arb(unit)
            )
            shares.append(share_of_bound(true, slack, tolerance))
    assert max(shares) < 0.5


@pytest.mark.usefixtures("precise")
def test_the_error_of_ratios_of_gamma_functions_is_at_most_half_of_its_bound():
    rng, shares = np.random.default_rng(23), []
    numerators = np.append(spread_shapes(1.0, 1e9, 600), 2**PLACES)
    for ratio in (1, 7, 4096):
        envelope = nb.Envelope(numerators, PLACES, ratio)
        spread = 5 * np.sqrt(envelope.shape) * ratio
        k = np.maximum(np.round(envelope.mode + rng.normal(size=numerators.size) * spread), 0)
        value, size = envelope.log_f(k)
        for i, numerator in enumerate(numerators.tolist()):
            true = nb._exact_log_f(
                fmpq(numerator, 2**PLACES), ratio, int(envelope.mode[i]), int(k[i])
            )
            shares.append(share_of_bound(true, value[i], bits.MARGIN * size[i]))
    for a in rng.random(500).round(6).tolist():
        n, share = int(10 ** rng.uniform(0, 5)), rng.random() ** 4
        k, shape = int(n * share), fmpq(*a.as_integer_ratio())
        arguments = n + 1 + a, k + 1 + a, n + 1, k + 1, n - k, np.log1p(a / (k + 1))
        value, size = nb.log_ratio(*(np.array([float(x)]) for x in arguments))
        true = nb.exact_log_ratio(n + 1 + shape, k + 1 + shape, n + 1, k + 1)
        shares.append(share_of_bound(true, value[0], bits.MARGIN * size[0]))
    assert max(shares) < 0.5


def envelope_slack(envelope, i, numerator, places, ratio, k):
    """Log of the envelope at k minus that of the probability, as a ball."""
    low, high = int(envelope.low[i]), int(envelope.high[i])
    bound = arb(0)
    if not low <= k < high:
        tail, j = (envelope.right, k - high) if k >= high else (envelope.left, low - 1 - k)
        weight, slope = arb(float(tail.weight[i])), arb(float(tail.slope[i]))
        bound = weight.log() + (-(-slope).expm1()).log() - slope * j
    shape = fmpq(numerator, 2**places)
    return bound - nb._exact_log_f(shape, ratio, int(envelope.mode[i]), k)


@pytest.mark.usefixtures("precise")
@pytest.mark.parametrize("ratio", [1, 2, 100, 4096])
def test_the_envelope_is_never_below_the_probabilities(ratio):
    rng = np.random.default_rng(24)
    numerators = np.concatenate(
        [spread_shapes(1.0, 1e8, 60), shapes([1, 1 + 2**-20, 1.5, 2, 3, 3.0001, 4])]
    )
    envelope = nb.Envelope(numerators, PLACES, ratio)
    for i, numerator in enumerate(numerators.tolist()):
        mode, wide = int(envelope.mode[i]), int(8 * ratio * (numerator / 2**PLACES) ** 0.5) + 8
        ks = {mode, int(envelope.low[i]), int(envelope.high[i]), int(envelope.low[i]) - 1}
        ks |= set(range(12)) | set(range(mode - 3, mode + 4))
        ks |= set(np.round(mode + rng.uniform(-1, 1, 40) * wide).astype(int).tolist())
        for k in ks:
            if k >= 0:
                # Equal at the mode; the radius of the ball is far below this.
                assert envelope_slack(envelope, i, numerator, PLACES, ratio, k) > -(2**-100)


def test_few_proposals_of_negative_binomials_are_rejected():
    for numerators, ratio in ((spread_shapes(1.0, 1e6, 3000), 1024), (shapes([3.0] * 3000), 1)):
        stream = BitStream(np.random.default_rng(0))
        negative_binomial(numerators, PLACES, ratio, stream)
        assert stream._position / 3 / numerators.size < 1.4


def test_a_margin_below_the_error_of_the_logarithm_is_caught(monkeypatch):
    exact, _ = draw("gamma, all shapes", 13, margin=np.inf)
    true_log = np.log
    monkeypatch.setattr(np, "log", lambda x, **out: true_log(x, **out) * (1 + 2.0**-28))
    check_platform()  # its result is cached
    narrow, _ = draw("gamma, all shapes", 13)
    wide, _ = draw("gamma, all shapes", 13, margin=2.0**-24)
    assert (narrow != exact).any()
    assert_array_equal(wide, exact)


@pytest.mark.parametrize("low", [7e3, 1e4, 1e6])
@pytest.mark.parametrize("stream", [ScriptedStream, EdgeStream])
def test_accepting_a_block_agrees_with_accepting_each_cell(low, stream, monkeypatch):
    numerators = spread_shapes(low, 10 * low, 3000)
    at_once, blocks = gamma.MarsagliaTsang._accept_block, []

    def recorded(self, c, base):
        blocks.append(at_once(self, c, base))
        return blocks[-1]

    with np.errstate(all="ignore"):
        monkeypatch.setattr(gamma.MarsagliaTsang, "_accept_block", recorded)
        for seed in range(40):
            # Small blocks, so that not every block has an extreme word.
            part = (
                numerators[75 * seed :][:75] if stream is ScriptedStream else numerators[seed:][:2]
            )
            together = gamma.MarsagliaTsang(part, PLACES, stream(seed), bits.MARGIN)
            with monkeypatch.context() as without:
                without.setattr(gamma.MarsagliaTsang, "_accept_block", lambda *args: None)
                alone = gamma.MarsagliaTsang(part, PLACES, stream(seed), bits.MARGIN)
            decided = ~together.undecided & ~alone.undecided
            assert_array_equal(together.accepted[decided], alone.accepted[decided])
            ends = np.isfinite(alone.low) & np.isfinite(alone.high)
            assert np.all(together.low[ends] <= alone.low[ends] * (1 + 2.0**-52))
            assert np.all(together.high[ends] >= alone.high[ends] * (1 - 2.0**-52))
    done = sum(error is not None for error in blocks)
    assert 0 < done < len(blocks) or (stream is ScriptedStream and done)


@pytest.mark.parametrize("stream", [ScriptedStream, EdgeStream])
def test_the_largest_error_of_normals_bounds_all_errors(stream):
    with np.errstate(all="ignore"):
        for seed in range(200):
            normals = Normals(stream(seed), 1 + seed % 7, bits.MARGIN)
            assert not np.any(normals.errors > normals.largest_error * (1 + 2.0**-50))
            assert not np.any(np.abs(normals.values) > normals.largest * (1 + 2.0**-50))
            assert not np.any(normals.errors < 0)


def test_a_wrong_bound_on_acceptance_is_caught(monkeypatch):
    exact, _ = draw("gamma, all shapes", 14, margin=np.inf)
    monkeypatch.setattr(gamma, "_SQUEEZE", 1.01)
    wrong, _ = draw("gamma, all shapes", 14)
    assert (wrong != exact).any()


# Distributions ----------------------------------------------------------------------


def p_value(cells, edges, cdf):
    """Pearson's test for integer cells k = [edges[k], edges[k + 1]), with rare cells merged."""
    below = np.array([float(cdf(edge)) for edge in edges])
    expected = np.concatenate([[below[0]], np.diff(below), [1 - below[-1]]]) * cells.size
    observed = np.bincount(np.clip(cells + 1, 0, len(edges)), minlength=len(edges) + 1)
    rare = expected < 20
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    if expected[-1] < 20:
        expected = np.append(expected[:-2], expected[-2:].sum())
        observed = np.append(observed[:-2], observed[-2:].sum())
    assert expected.size > 5
    return stats.chisquare(observed, expected * cells.size / expected.sum()).pvalue


def gamma_p_value(shape_numerator, places, seed, size=200_000):
    bits = 3
    mantissa, exponent = gamma_cells(
        np.full(size, shape_numerator), places, np.random.default_rng(seed), _bits=bits
    )
    shape = mpmath.mpf(shape_numerator) / 2**places
    # Cells in increasing order, four per power of two.
    order = 4 * exponent + mantissa - 4
    low, high = int(np.quantile(order, 0.0001)), int(np.quantile(order, 0.9999))
    step = max((high - low) // 400, 1)  # tiny shapes have too many cells to list

    def cdf(k):
        place, rest = divmod(int(low + k * step), 4)
        return mpmath.gammainc(shape, 0, (4 + rest) * mpmath.mpf(2) ** place, regularized=True)

    count = (high - low) // step
    cells = np.clip((order - low) // step, -1, count)
    return p_value(cells, np.arange(count + 1), cdf)


@pytest.mark.parametrize(
    ("numerator", "places"),
    [
        (3, 14),  # by parts
        (1, 6),
        (5, 4),
        (15, 4),
        (1, 0),
        (2**20 + 1, 20),
        (5, 2),
        (7, 1),
        (80, 0),
    ],
)
def test_cells_of_gamma_variables_have_the_probabilities_of_an_incomplete_gamma_function(
    numerator, places
):
    assert gamma_p_value(numerator, places, seed=numerator) > LEAST_P_VALUE


def test_a_wrong_envelope_is_caught(monkeypatch):
    monkeypatch.setattr(gamma, "_OUTWARD", 0.9)
    assert gamma_p_value(5, 2, seed=5) < 1e-9


@pytest.mark.parametrize(
    ("kind", "offset", "law"),
    [
        ("normal", 0.5, stats.norm),
        ("laplace", 0.5, stats.laplace),
        ("floored laplace", 0.0, stats.laplace),
    ],
)
def test_cells_of_noise_have_the_probabilities_of_their_distribution(kind, offset, law):
    scale, grid = 1.3, 0.125
    cells = NOISE[kind](scale, grid, 300_000, np.random.default_rng(6))
    edges = np.arange(-60, 61)
    cdf = law(scale=scale).cdf
    assert p_value(cells + 60, (edges - offset) * grid, cdf) > LEAST_P_VALUE


def test_the_two_normals_of_a_pair_are_independent():
    size = 1 << 14  # one block: its halves are the two members of the pairs
    noise = np.array(
        [normal_cells(1.0, 0.5, size, np.random.default_rng(seed)) for seed in range(12)]
    ).clip(-3, 3)
    table = np.zeros((7, 7))
    np.add.at(table, (noise[:, : size // 2] + 3, noise[:, size // 2 :] + 3), 1)
    assert stats.chi2_contingency(table).pvalue > LEAST_P_VALUE


def urn(balls, draws):
    """Probabilities of all counts in Pólya's urn: each draw adds a ball of the same colour."""
    law = {(0,) * len(balls): Fraction(1)}
    for _ in range(draws):
        following = {}
        for counts, probability in law.items():
            total = sum(balls) + sum(counts)
            for colour, own in enumerate(balls):
                after = tuple(c + (i == colour) for i, c in enumerate(counts))
                chance = probability * (own + counts[colour]) / total
                following[after] = following.get(after, 0) + chance
        law = following
    return law


@pytest.mark.parametrize(
    ("counts", "r", "alpha"), [((2, 0, 1), 0.5, 0.75), ((0, 4, 0), 0.25, 0.125)]
)
def test_dirichlet_releases_of_cells_follow_polyas_urn(counts, r, alpha):
    size, draws = 100_000, 4
    numerators, places = gamma_shapes(np.tile(counts, (size, 1)), r, alpha)
    weights = relative_weights(*gamma_cells(numerators, places, np.random.default_rng(8)))
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    drawn = np.random.default_rng(9).multinomial(draws, probabilities)
    law = urn([Fraction(r) * x + Fraction(alpha) for x in counts], draws)
    assert len(law) == comb(draws + 2, 2)
    expected = np.array([float(p) for p in law.values()]) * size
    observed = np.array([np.count_nonzero((drawn == c).all(axis=1)) for c in law])
    assert observed.sum() == size
    assert stats.chisquare(observed, expected).pvalue > LEAST_P_VALUE


def negative_binomial_p_value(numerator, places, ratio, seed, size=300_000):
    drawn = negative_binomial(np.full(size, numerator), places, ratio, np.random.default_rng(seed))
    law = stats.nbinom(numerator / 2**places, 1 / (1 + ratio))
    most = int(law.ppf(1 - 20 / size)) + 1
    edges = np.unique(np.linspace(0, most, 300).astype(int))
    cells = np.searchsorted(edges, drawn, side="right") - 1
    return p_value(cells, edges, lambda edge: law.cdf(edge - 1))


@pytest.mark.parametrize(
    ("numerator", "places", "ratio"),
    [
        (1, 6, 1000),
        (3, 2, 7),
        (15, 4, 1024),
        (1, 0, 100),
        (2**20 + 1, 20, 1024),
        (3, 1, 3),
        (7, 0, 1),
        (900, 0, 1),
        (900, 0, 1024),
    ],
)
def test_negative_binomials_have_their_probabilities(numerator, places, ratio):
    assert negative_binomial_p_value(numerator, places, ratio, seed=numerator) > LEAST_P_VALUE


def test_a_wrong_envelope_of_negative_binomials_is_caught(monkeypatch):
    monkeypatch.setattr(nb, "_OUTWARD", 0.9)
    assert negative_binomial_p_value(7, 0, 100, seed=7) < 1e-9


def rising(a, k):
    """The product a (a + 1) ... (a + k - 1)."""
    result = Fraction(1)
    for i in range(k):
        result *= a + i
    return result


@pytest.mark.parametrize("a", [Fraction(1, 8), Fraction(3, 4)])
def test_thinned_negative_binomials_are_negative_binomials_of_a_smaller_shape(a):
    # P(N <= k | n), which is inverted, is the sum of P(N = j | n) of the beta-binomial law.
    for n in range(8):
        parts = [
            comb(n, j) * a * rising(a, j) * factorial(n - j) / rising(a, n + 1)
            for j in range(n + 1)
        ]
        for k in range(n + 1):
            product_form = rising(a + k + 1, n - k)
            inverted = Fraction(factorial(n), factorial(k)) / product_form
            assert sum(parts[: k + 1]) == inverted
    # Mixed over n it is the law of shape a: compare probabilities up to a far n.
    q, far = Fraction(1, 2), 120
    for j in range(4):
        mixed = sum(
            rising(a + 1, n)
            / factorial(n)
            * q**n
            * (1 - q)
            * comb(n, j)
            * a
            * rising(a, j)
            * factorial(n - j)
            / rising(a, n + 1)
            for n in range(j, far)
        )
        assert abs(mixed - rising(a, j) / factorial(j) * q**j) < Fraction(1, 2**100)


def test_conditional_samples_of_small_shapes_have_exact_probabilities():
    a, n, size = Fraction(3, 8), 6, 200_000
    stream = BitStream(np.random.default_rng(31))
    drawn = nb._thin(np.full(size, 3), 3, np.full(size, n), stream, bits.MARGIN)
    expected = [
        float(rising(a, j) / factorial(j) * factorial(n) / rising(a + 1, n)) for j in range(n + 1)
    ]
    observed = np.bincount(drawn, minlength=n + 1)
    assert stats.chisquare(observed, np.array(expected) * size).pvalue > LEAST_P_VALUE


@pytest.mark.parametrize(
    ("numerator", "ratio", "message"),
    [(1, 0, "ratio"), (1, 5000, "ratio"), (2**61, 1024, "below 2\\^52"), (0, 1, "numerators")],
)
def test_invalid_negative_binomials_raise_an_error(numerator, ratio, message):
    with pytest.raises(ValueError, match=message):
        negative_binomial([numerator], 0, ratio, np.random.default_rng(0))


# Supports ---------------------------------------------------------------------------


def reachable(values, shape):
    """Whether doubles are products of numpy's constant for this shape with some double."""
    factor = shape - 1 / 3
    quotient = values / factor
    around = (np.nextafter(quotient, 0), quotient, np.nextafter(quotient, np.inf))
    return np.any([factor * x == values for x in around], axis=0)


def test_low_order_bits_distinguish_neighbours_for_floats_but_not_for_cells():
    size, rng = 20_000, np.random.default_rng(3)
    # Counts 4 and 5, r = alpha = 1.
    floats = {shape: rng.standard_gamma(shape, size) for shape in (5, 6)}
    assert reachable(floats[5], 5).all()
    assert reachable(floats[6], 6).all()
    # About one value in nine has bits that the neighbour cannot produce.
    assert reachable(floats[5], 6).mean() < 0.9
    assert reachable(floats[6], 5).mean() < 0.91
    cells = {shape: np.ldexp(*gamma_cells(np.full(size, shape), 0, rng)) for shape in (5, 6)}
    for shape in (5, 6):
        hits = [np.count_nonzero(reachable(cells[other], shape)) for other in (5, 6)]
        table = [hits, [size - hit for hit in hits]]
        assert stats.chi2_contingency(table).pvalue > LEAST_P_VALUE


def test_noisy_counts_of_neighbours_have_the_same_possible_values():
    size, rng = 50_000, np.random.default_rng(4)

    def fine(values):
        """Count values in (0, 1/4) with bits that a count of 1 plus noise cannot have, and all."""
        values = values[(values > 0) & (values < 0.25)]
        return np.count_nonzero(values % 2.0**-53), values.size

    noise = rng.laplace(size=size)
    assert fine(1.0 + noise)[0] == 0
    assert fine(0.0 + noise)[0] > 0
    grid = noise_grid(1.0)
    for count in (0, 1):
        noisy = (count + laplace_cells(1.0, grid, size, rng) * grid).astype(float)
        assert fine(noisy)[0] == 0
        assert fine(noisy)[1] > 1000
        assert_array_equal(noisy % grid, 0)


def test_every_cell_of_a_coarse_grid_is_drawn_for_every_shape():
    for shape in (0.25, 1, 2.75, 6):
        mantissa, exponent = gamma_cells(
            np.full(300_000, int(4 * shape)), 2, np.random.default_rng(7), _bits=2
        )
        for cell in product((2, 3), (-2, -1, 0, 1)):
            assert np.any((mantissa == cell[0]) & (exponent == cell[1]))


# Discrete choices ----------------------------------------------------------------------------


def test_choices_follow_their_weights():
    logs = np.array([1.4142135623730951, 0.0, 1 / 3, -2.0, -60.0])
    observed = np.bincount(choose(logs, 600_000, np.random.default_rng(2)), minlength=5)
    assert observed[4] == 0

    def p(logs):
        weights = np.exp(logs[:4])
        return stats.chisquare(observed[:4], weights / weights.sum() * 600_000).pvalue

    assert p(logs) > LEAST_P_VALUE
    assert p(logs + [0.02, -0.02, 0.01, -0.02, 0.02]) < 1e-9


@pytest.mark.parametrize("probability", [0.0, 2.0**-70, 0.1, 0.5, 1 - 2.0**-53, 1.0])
def test_bernoulli_variables_have_their_probability(probability):
    hits = np.count_nonzero(bernoulli(probability, 100_000, np.random.default_rng(3)))
    assert stats.binomtest(hits, 100_000, probability).pvalue > LEAST_P_VALUE


def test_a_bernoulli_variable_draws_more_bits_if_the_first_word_does_not_decide():
    class Same(ScriptedStream):
        def _words(self, size):
            return np.full(size, int(Fraction(2.0**-12 / 3) * 2**64), np.uint64)

    stream = Same(1)
    drawn = bernoulli(2.0**-12 / 3, 400, stream)
    assert stream.undecided == 400
    share = float(Fraction(2.0**-12 / 3) * 2**64 % 1)
    assert stats.binomtest(int(drawn.sum()), 400, share).pvalue > LEAST_P_VALUE


# The platform -----------------------------------------------------------------------


def test_this_platform_is_precise_enough():
    check_platform()


@pytest.mark.parametrize("name", ["log", "log1p", "exp", "tan"])
def test_an_elementary_function_with_a_larger_error_is_named_in_the_error(name):
    functions = {f: getattr(np, f) for f in ("log", "log1p", "exp", "expm1", "tan")}
    bits.check_functions(functions)
    true = functions[name]
    with pytest.raises(
        RuntimeError, match=rf"needs {name} with an error of at most 4 .* platform is \d"
    ):
        bits.check_functions(functions | {name: lambda x: true(x) * (1 + 2.0**-49)})
    with pytest.raises(RuntimeError, match=f"needs {name} "):
        bits.check_functions(functions | {name: lambda x: np.full(x.shape, np.nan)})


# Constants of the proofs -------------------------------------------------------------


def test_the_bound_that_accepts_without_a_logarithm_is_below_the_slack():
    for y in np.concatenate([-1 + 2.0 ** -np.arange(1, 40), np.linspace(-0.99, 30, 500)]):
        y = mpmath.mpf(float(y))
        exact = 3 * mpmath.log1p(y) - 3 * y + 1.5 * y**2 - y**3
        assert -0.75 * y**4 / min(1, 1 + y) <= exact + mpmath.mpf(10) ** -13
        assert exact <= mpmath.mpf(10) ** -13


def test_the_constant_of_the_envelope_is_rounded_outward():
    numerators = np.concatenate([spread_shapes(1, 1e9, 300), [2**20 + 1, 2**61]])
    numerators = numerators[numerators > 2**20]
    with np.errstate(all="ignore"):
        constants = gamma.MarsagliaTsang(numerators, PLACES, ScriptedStream(1), bits.MARGIN)._c
    for numerator, c in zip(numerators.tolist(), constants.tolist(), strict=True):
        excess = 9 * (Fraction(numerator, 2**20) - Fraction(1, 3)) * Fraction(c) ** 2 - 1
        assert 0 <= excess <= Fraction(1, 2**38)


# Parameters and post-processing ------------------------------------------------------


def test_shapes_are_exact_integers_over_a_power_of_two():
    counts = np.array([[0.0, 0.125, 7.5], [3.0, 1e6, 2.0]])
    r, alpha = round_down(0.0241, 30), round_up(13.6, 20)
    numerators, places = gamma_shapes(counts, r, alpha, count_places=3)
    for count, numerator in zip(counts.ravel().tolist(), numerators.ravel().tolist(), strict=True):
        assert Fraction(numerator, 2**places) == Fraction(r) * Fraction(count) + Fraction(alpha)


@pytest.mark.parametrize(
    ("counts", "r", "alpha", "message"),
    [
        ([0.5], 1.0, 1.0, "counts must be multiples of 2\\^-0"),
        ([np.nan], 1.0, 1.0, "counts must be multiples of 2\\^-0"),
        ([1e300], 1.0, 1.0, "counts must be multiples of 2\\^-0"),
        ([-1], 1.0, 1.0, "counts must be at least 0"),
        ([1], 0.1, 1.0, "round them first"),
        ([2**40], 2.0**-40 * 3, 2.0**23, "at most 62 bits"),
        ([1], 0.0, 1.0, "positive and finite"),
    ],
)
def test_shapes_that_are_not_exact_raise_an_error(counts, r, alpha, message):
    with pytest.raises(ValueError, match=message):
        gamma_shapes(counts, r, alpha)


def test_zero_counts_allow_any_r():
    numerators, places = gamma_shapes([0, 0], 2.0**70, 0.5)
    assert_array_equal(numerators, 1)
    assert places == 1


def test_values_are_rounded_in_the_stated_direction():
    rng = np.random.default_rng(5)
    for value in rng.lognormal(0, 5, 200).tolist():
        places = places_for(value, 20)
        down, up = round_down(value, places), round_up(value, places)
        assert down <= value <= up
        assert Fraction(up) - Fraction(down) in (0, Fraction(2) ** -places)
        assert 2**19 <= Fraction(down) * Fraction(2) ** places <= 2**20


def test_noise_grids_are_powers_of_two_far_below_the_scale():
    for scale in (1e-6, 0.3, 1.0, 5e4):
        grid = noise_grid(scale)
        assert np.frexp(grid)[0] == 0.5
        assert grid <= scale * 2.0**-20 < 2 * grid
    assert noise_grid(2.0**30) == 1.0
    for bad in (0.3, 0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="grid must be a power of two"):
            normal_cells(1.0, bad, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="scale must be"):
        laplace_cells(np.inf, 1.0, 3, np.random.default_rng(0))


def test_weights_are_relative_to_the_largest_of_their_row():
    mantissa = np.array([[2**19, 2**20 - 1, 2**19], [3 * 2**18, 2**19, 2**19]])
    exponent = np.array([[0, 0, -3], [5, 5, -(10**15)]])
    weights = relative_weights(mantissa, exponent)
    top = 2**20 - 1
    assert weights == pytest.approx(
        np.array([[2**19 / top, 1, 2**16 / top], [1, 2 / 3, 0]]), rel=1e-15
    )


@pytest.mark.parametrize("extremes", [(-1042, 1000), (-1041, 1024), (-1022, 1003), (-3, 1)])
def test_midpoints_of_cells_are_exact(extremes):
    mantissa = np.array([2**19, 2**20 - 1, 3 * 2**18])
    exponent = np.array([extremes[0], 0, extremes[1]])
    with np.errstate(over="ignore"):
        expected = np.ldexp(mantissa + 0.5, exponent)
        assert_array_equal(midpoints(mantissa, exponent), expected)


# Interface --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [np.random.PCG64, np.random.MT19937, np.random.Philox],
)
def test_a_seed_gives_the_same_cells_for_every_kind_of_generator(source):
    first, second = (
        gamma_cells(shapes([[0.001, 1], [3, 500]]), PLACES, np.random.Generator(source(42)))
        for _ in range(2)
    )
    assert_array_equal(first, second)
    assert first[0].shape == (2, 2)
    noise = normal_cells(1.0, 2.0**-20, 20_000, np.random.Generator(source(43))) * 2.0**-20
    assert stats.kstest(noise, "norm").pvalue > LEAST_P_VALUE


def test_mantissas_and_exponents_are_within_their_bounds():
    mantissa, exponent = gamma_cells(spread_shapes(1e-3, 1e9, 5000), PLACES, ScriptedStream(1))
    assert mantissa.min() >= 2**19
    assert mantissa.max() < 2**20
    assert exponent.dtype == np.int64
    smallest = gamma_cells(np.ones(100, int), 50, ScriptedStream(1))[1]
    assert smallest.min() < -(10**13)


def test_invalid_shapes_raise_an_error():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="numerators must be integers"):
        gamma_cells([1.5], 0, rng)
    with pytest.raises(ValueError, match="from 1 to below 2\\^62"):
        gamma_cells([0], 0, rng)
    with pytest.raises(ValueError, match="places must be from 0 to 50"):
        gamma_cells([1], 51, rng)
    with pytest.raises(TypeError, match="generator must be"):
        gamma_cells([1], 0, 42)
    assert gamma_cells(np.zeros((0, 3), int), 0, rng)[0].shape == (0, 3)


def test_a_ball_that_does_not_become_narrower_raises_an_error():
    with pytest.raises(RuntimeError, match="does not become narrower"):
        bits.decide(lambda u: bits.is_positive(arb(0, 1)), ScriptedStream(1).draw(1).unit(0))
