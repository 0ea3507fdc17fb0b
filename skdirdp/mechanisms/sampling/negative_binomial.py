"""Exact negative binomial samples: integers N ~ Poisson(M G) with G ~ Gamma(shape).

Probabilities are proportional to ``f(k) = Gamma(shape + k) / k! (M / (M + 1))^k``. For shapes of at
least 1, f is log-concave, and samples are drawn by rejection from an envelope with a flat centre
and two geometric tails. A variable of shape a below 1 is drawn by inversion, given one of shape
a + 1.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from flint import arb, fmpq
from numpy.typing import ArrayLike

from ...numerics.log_gamma import STIRLING_FROM, stirling_series
from .bits import (
    BLOCK,
    LOST_BITS,
    MARGIN,
    BitStream,
    Source,
    as_stream,
    check_platform,
    decide,
    fill,
    floor,
    is_positive,
)
from .distributions import negative_log
from .gamma import check_shapes

#: Largest ratio M. Its products with fractional parts of shapes then fit into 62 bits.
MAX_RATIO = 1 << 12
#: Means are below this, so that samples are exact as doubles.
MAX_MEAN = 2.0**52

# Relative margins by which envelopes are widened; rounding errors are much smaller.
_OUTWARD, _SLOPE_OUTWARD = 1 + 2.0**-20, 2.0**-40
# Maximum number of corrections of the initial guess; nearly all cells need at most two.
_MAX_CORRECTIONS = 8


def negative_binomial(
    numerators: ArrayLike,
    places: int,
    ratio: int,
    generator: Source,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Draw Poisson variables of mean ``ratio * G``, where G is a standard gamma variable.

    The shapes are ``numerators / 2^places``, as `gamma_shapes` computes them.
    """
    check_platform()
    numerators = check_shapes(numerators, places)
    check_ratio(numerators, places, ratio)
    flat, one = numerators.reshape(-1), 1 << places
    stream = as_stream(generator)
    small = flat < one
    drawn = np.empty(flat.size, np.int64)
    lifted = flat + np.where(small, one, 0)
    fill(flat.size, partial(_propose, lifted, places, ratio, stream, _margin), drawn)
    if small.any():
        drawn[small] = _thin(flat[small], places, drawn[small], stream, _margin)
    return drawn.reshape(numerators.shape)


def check_ratio(numerators: np.ndarray, places: int, ratio: int) -> None:
    """Raise an error if M or a mean is too large for exact samples."""
    if not 1 <= ratio <= MAX_RATIO:
        raise ValueError(f"ratio must be from 1 to {MAX_RATIO}; got {ratio}")
    if numerators.size and float(numerators.max()) * 2.0**-places * ratio >= MAX_MEAN:
        raise ValueError("ratio times shape must be below 2^52; some are not")


class _Terms(NamedTuple):
    """Doubles ``log(Gamma(a) Gamma(c0) / (Gamma(a0) Gamma(c))) + d slope``, with errors."""

    value: np.ndarray
    size: np.ndarray  # the error is at most the margin times this


def log_ratio(a, a0, c, c0, d, slope) -> _Terms:
    """Compute the log of ratios of gamma functions, for ``a - a0 = c - c0 = d``; all at least 1."""
    first = np.log1p(d / a0)
    first *= a - 0.5
    second = np.log1p(d / c0)
    second *= c - 0.5
    value = first - second
    value += d * slope
    value += _binet(a) - _binet(a0) - _binet(c) + _binet(c0)
    size = np.abs(first)
    size += np.abs(second)
    size += np.abs(d)
    size += 4
    return _Terms(value, size)


def _binet(x: np.ndarray) -> np.ndarray:
    """Compute ``lnGamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2`` for x of at least 1."""
    small = np.flatnonzero(x < STIRLING_FROM)
    if not small.size:
        return stirling_series(x)
    start = x[small]
    steps = start[:, np.newaxis] + np.arange(float(STIRLING_FROM))
    lifted = np.maximum(x, STIRLING_FROM)
    lifted[small] = start + STIRLING_FROM
    value = stirling_series(lifted)
    value[small] += ((steps + 0.5) * np.log1p(1 / steps) - 1).sum(axis=1)
    return value


class _Tail(NamedTuple):
    """Geometric tail of the envelope: ``weight (1 - e^-slope) e^(-slope j)`` for j = 0, 1, ..."""

    start: np.ndarray  # integer of j = 0
    weight: np.ndarray
    slope: np.ndarray

    def log_height(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of the envelope at j = 0, and the size of its error."""
        weight, share = np.log(self.weight), np.log(-np.expm1(-self.slope))
        return weight + share, 1 + np.abs(weight) + np.abs(share)


class Envelope:
    """Upper bound on ``f(k) / f(mode)``: 1 from `low` to before `high`, and two tails.

    f is log-concave, so the line through ``log f`` at two adjacent integers is never below it.
    """

    def __init__(self, numerators: np.ndarray, places: int, ratio: int):
        one = 1 << places
        above = numerators - one  # at least 0
        fraction = (above & (one - 1)) * ratio
        mode = (above >> places) * ratio + (fraction >> places)
        self.mode = mode
        self.shape = numerators * 2.0**-places
        self._ratio = ratio
        self._rest = 1 - (fraction & (one - 1)) * 2.0**-places
        self._mode = mode.astype(float)
        self._base = self.shape + self._mode
        # log of f(mode + 1) / f(mode)
        self._slope = np.log1p(-self._rest / ((self._mode + 1) * (ratio + 1)))
        variance = 2.0 * ratio * (ratio + 1)
        self.right = self._tail_right(np.ceil(np.sqrt(variance * self.shape)))
        self.left = self._tail_left(np.ceil(np.sqrt(variance * (self.shape - 1))))
        self.low, self.high = self.left.start + 1, self.right.start
        self.centre = self.high - self.low  # weight of the centre
        self.total = self.centre + self.right.weight + self.left.weight

    def log_f(self, k: np.ndarray) -> _Terms:
        """Compute ``log f(k) - log f(mode)``."""
        d, mode = k - self._mode, self._mode
        return log_ratio(self.shape + k, self._base, k + 1, mode + 1, d, self._slope)

    def _tail_right(self, steps: np.ndarray) -> _Tail:
        steps = np.maximum(steps, 1)
        touch = self._mode + steps
        slope = np.log1p((steps + self._rest) / ((self.shape + touch) * self._ratio))
        return self._tail(touch, slope, steps, -1)

    def _tail_left(self, steps: np.ndarray) -> _Tail:
        steps = np.maximum(steps, 1)
        touch = self._mode - steps
        exists = touch >= 1
        touch = np.where(exists, touch, 1)
        steps = np.where(exists, steps, 1)
        slope = np.log1p((steps + (1 - self._rest)) / (touch * (self._ratio + 1)))
        start, weight, slope = self._tail(touch, slope, steps, 1)
        return _Tail(np.where(exists, start, -1), np.where(exists, weight, 0), slope)

    def _tail(self, touch, slope, steps, towards_mode) -> _Tail:
        """Return the tail under the line at `touch`, from where the line is about log f(mode)."""
        value, size = self.log_f(touch)
        n_steps = np.clip(np.floor(-value / slope), 0, steps - (towards_mode > 0))
        height = value + MARGIN * size + n_steps * (slope * (1 + _SLOPE_OUTWARD))
        slope = slope * (1 - _SLOPE_OUTWARD)
        weight = np.exp(height) / -np.expm1(-slope) * _OUTWARD
        return _Tail(touch + towards_mode * n_steps, weight, slope)


def _propose(numerators, places, ratio, stream: BitStream, margin, cells):
    """Propose a sample for each cell, for shapes of at least 1."""
    numerators = numerators[cells]
    size = numerators.size
    with np.errstate(all="ignore"):
        envelope = Envelope(numerators, places, ratio)
        position, geometric, height = (stream.draw(size) for _ in range(3))
        unit = position.unit_floats()
        y = unit * envelope.total
        error = margin * y + 2.0**-60 * envelope.total
        low, high = y - error, y + error
        boundaries = envelope.centre, envelope.centre + envelope.right.weight
        in_centre = high < boundaries[0]
        in_right = (low >= boundaries[0]) & (high < boundaries[1])
        in_left = low >= boundaries[1]
        offset = np.floor(low)
        decided = in_right | in_left | (in_centre & (offset == np.floor(high)))
        tails = zip(envelope.right, envelope.left, strict=True)
        tail = _Tail(*(np.where(in_left, left, right) for right, left in tails))
        length, error = negative_log(geometric.unit_floats(), margin)
        j = np.floor((length - error) / tail.slope)
        decided &= in_centre | (j == np.floor((length + error) / tail.slope))
        k = np.where(in_centre, envelope.low + offset, tail.start + np.where(in_left, -j, j))
        undecided = ~decided
        possible = k >= 0  # other integers have probability 0
        value, scale = envelope.log_f(np.where(possible, k, envelope.mode))
        bound, bound_scale = tail.log_height()
        drop = tail.slope * j
        value -= np.where(in_centre, 0, bound - drop)
        scale += np.where(in_centre, 0, bound_scale + drop)
        unit = height.unit_floats()
        log_height = -np.log(unit)
        value += log_height
        scale += log_height + 1
        scale *= margin + LOST_BITS / unit
        accepted = possible & decided & (value > scale)
        undecided |= possible & ~(np.abs(value) > scale)
    samples = np.where(accepted, k, 0).astype(np.int64)
    for i in np.flatnonzero(undecided).tolist():
        words = position.unit(i), geometric.unit(i), height.unit(i)
        accepted[i], samples[i] = _exact_proposal(envelope, i, numerators, places, ratio, *words)
    stream.undecided += int(np.count_nonzero(undecided))
    return accepted, (samples,)


def _exact_proposal(envelope, i, numerators, places, ratio, position, geometric, height):
    """Return whether proposal `i` is accepted, and its value."""
    shape = fmpq(int(numerators[i]), 1 << places)
    low, centre, mode = (int(x[i]) for x in (envelope.low, envelope.centre, envelope.mode))
    weights = [_exact(tail.weight[i]) for tail in (envelope.right, envelope.left)]

    def piece(u):
        y = u * arb(centre + weights[0] + weights[1])
        if y < centre:
            offset = floor(y)
            return None if offset is None else (0, low + offset)
        if y > centre:
            border = arb(centre + weights[0])
            return (1, 0) if y < border else (2, 0) if y > border else None
        return None

    which, k = decide(piece, position)
    if which == 0:
        # The tie U = 1 has probability zero.
        return decide(
            lambda v: is_positive(_exact_log_f(shape, ratio, mode, k) - v.log()), height
        ), k
    tail = envelope.right if which == 1 else envelope.left
    slope, weight = _exact(tail.slope[i]), weights[which - 1]
    j = decide(lambda u: floor(-u.log() / arb(slope)), geometric)
    k = int(tail.start[i]) + (j if which == 1 else -j)
    if k < 0:
        return False, 0

    def slack(v):
        bound = arb(weight).log() + (-(-arb(slope)).expm1()).log() - arb(slope) * j
        return is_positive(_exact_log_f(shape, ratio, mode, k) - bound - v.log())

    return decide(slack, height), k


def _exact(value: float) -> Any:
    return fmpq(*float(value).as_integer_ratio())


def _exact_log_f(shape, ratio: int, mode: int, k: int):
    """Return ``log f(k) - log f(mode)`` as a ball."""
    return (
        exact_log_ratio(shape + k, shape + mode, k + 1, mode + 1)
        + (k - mode) * arb(fmpq(ratio, ratio + 1)).log()
    )


def exact_log_ratio(a, a0, c, c0):
    """Return ``log(Gamma(a) Gamma(c0) / (Gamma(a0) Gamma(c)))`` as a ball."""
    return arb(a).lgamma() - arb(a0).lgamma() - arb(c).lgamma() + arb(c0).lgamma()


def _thin(numerators, places, lifted, stream: BitStream, margin) -> np.ndarray:
    """Draw samples of shapes a below 1, given samples n of shapes a + 1.

    A gamma variable of shape a is one of shape a + 1 times U^(1/a). So N is binomial with n trials
    of probability U^(1/a), and ``P(N <= k) = prod of i / (a + i) over k < i <= n``.
    """
    drawn = np.empty_like(lifted)
    for start in range(0, drawn.size, BLOCK):
        block = slice(start, start + BLOCK)
        drawn[block] = _thin_block(numerators[block], places, lifted[block], stream, margin)
    return drawn


def _thin_block(numerators, places, lifted, stream, margin):
    uniforms = stream.draw(lifted.size)
    n, a = lifted.astype(float), numerators * 2.0**-places
    with np.errstate(all="ignore"):
        length, error = negative_log(uniforms.unit_floats(), margin)
        # P(N <= k) is about ((k + c) / (n + c))^a.
        c = (1 + a) / 2
        k = np.clip(np.ceil((n + c) * np.exp(-length / a) - c), 0, n)
        remaining = np.arange(n.size)
        undecided = []
        for _ in range(_MAX_CORRECTIONS):
            step, unclear = _correction(
                k[remaining],
                n[remaining],
                a[remaining],
                length[remaining],
                error[remaining],
                margin,
            )
            undecided.append(remaining[unclear])
            remaining = remaining[(step != 0) & ~unclear]
            k[remaining] += step[(step != 0) & ~unclear]
            if not remaining.size:
                break
        undecided.append(remaining)
    samples = np.where(np.isfinite(k), k, 0).astype(np.int64)
    unresolved = np.concatenate(undecided)
    for i in unresolved.tolist():
        shape = fmpq(int(numerators[i]), 1 << places)
        samples[i] = _exact_thinned(shape, int(lifted[i]), uniforms.unit(i))
    stream.undecided += unresolved.size
    return samples


def _correction(k, n, a, length, error, margin):
    """Return the steps towards the smallest k with ``-log P(N <= k) < length``; 0 if reached."""
    too_small, unclear = _compare(k, n, a, length, error, margin)
    large_enough, unclear_below = _compare(np.maximum(k - 1, 0), n, a, length, error, margin)
    below = k > 0
    too_large = below & ~large_enough & ~unclear_below
    unclear |= below & unclear_below
    # A comparison that is unclear does not matter if the other one excludes k.
    unclear &= ~((too_small & ~unclear) | too_large)
    return np.where(too_small, 1.0, np.where(too_large, -1.0, 0.0)), unclear


def _compare(k, n, a, length, error, margin):
    """Return whether ``-log P(N <= k)`` is above `length`, and where this is unclear."""
    value, size = log_ratio(n + 1 + a, k + 1 + a, n + 1, k + 1, n - k, np.log1p(a / (k + 1)))
    value -= length
    size *= margin
    size += error
    # The probability that N is at most n is 1.
    value = np.where(k == n, -np.inf, value)
    return value > size, ~(np.abs(value) > size)


def _exact_thinned(shape, n: int, uniform) -> int:
    def is_too_small(k, u):
        return is_positive(exact_log_ratio(n + 1 + shape, k + 1 + shape, n + 1, k + 1) + u.log())

    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        too_small = decide(partial(is_too_small, middle), uniform)
        low, high = (middle, high) if too_small else (low, middle)
    return high
