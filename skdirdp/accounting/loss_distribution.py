"""Composition by discretised privacy-loss distributions.

Used where losses have atoms (Laplace noise, pure DP) and a Laplace transform
cannot be inverted quickly. Each pair is discretised pessimistically from its exact
profile (connect-the-dots: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022), and
all are convolved at once by a Fourier transform over the range that Chernoff's bound
leaves to their sum. So the work grows with the kinds of pairs and not with their numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import logsumexp

from .pairs import DominatingPair

_CELLS = 4000  # over the range of the whole
_MAX_CELLS = 1 << 18
_MAX_LENGTH = 1 << 21  # of a transform
_MAX_POINTS = 2048  # at which a pair's profile is evaluated
_TAIL = 1e-12
_INFLATION = 0.005
# Of the best order for a normal sum, in both directions.
_CHERNOFF_ORDERS = np.geomspace(1 / 64, 64, 49)

Pairs = tuple[tuple[DominatingPair, int], ...]
Bound = Callable[[Pairs, float], float]


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Probabilities of the total loss at multiples of an interval, and beyond all bounds.

    Attributes
    ----------
    interval : the distance of two losses.
    lowest : the smallest loss, in intervals.
    probabilities : of that loss and those that follow it.
    infinite : the probability of an infinite loss, with an allowance for rounding.
    """

    interval: float
    lowest: int
    probabilities: np.ndarray
    infinite: float

    def delta(self, epsilon: float) -> float:
        losses = (self.lowest + np.arange(self.probabilities.size)) * self.interval
        above = losses > epsilon
        finite = np.dot(-np.expm1(epsilon - losses[above]), self.probabilities[above])
        return max(float(finite), 0.0) + self.infinite


def _fft_allowance(releases: int) -> float:
    """The error of any delta that floating-point convolutions may cause.

    It was measured at 2e-17 per release (against mpmath, up to twenty million
    releases); this leaves a factor of fifty.
    """
    return 1e-12 + 1e-15 * releases


@lru_cache(maxsize=64)
def loss_distribution(pairs: Pairs, epsilon_bound: Bound) -> LossDistribution | None:
    """A pessimistic distribution of the total loss; None where floats cannot hold it.

    `epsilon_bound(pairs, delta)` is any valid epsilon; it sets how far the grids reach.
    """
    releases = sum(count for _, count in pairs)

    def reach_of(part: Pairs, tail: float) -> float:
        largest = sum(count * pair.max_loss for pair, count in part)
        return min(epsilon_bound(part, tail) or largest, largest)

    reach = reach_of(pairs, _TAIL)
    spans = [reach_of(((pair, 1),), _TAIL / releases) for pair, _ in pairs]
    # A loss spread within one cell is moved to the cell's ends, which adds up to
    # span * interval to its variance: kept small beside the variance of the whole.
    total_span = sum(count * span for (_, count), span in zip(pairs, spans, strict=True))
    if not (np.isfinite(total_span) and reach > 0 and total_span > 0):
        return None
    interval = min(reach / _CELLS, _INFLATION * (reach / 6) * (reach / 6 / total_span))
    interval = max(interval, 2 * reach / _MAX_CELLS)
    if interval == 0 or max(spans) / interval > _MAX_LENGTH:
        return None
    parts = [
        _discretised(pair, span, interval) for (pair, _), span in zip(pairs, spans, strict=True)
    ]
    return _convolved(parts, [count for _, count in pairs], interval)


class _Part(NamedTuple):
    """The discretised loss of one pair: cells that are possible, and their probabilities."""

    cells: np.ndarray
    probabilities: np.ndarray
    infinite: float


def _discretised(pair: DominatingPair, span: float, interval: float) -> _Part:
    top = int(np.ceil(span / interval))
    stride = max(1, 3 * top // _MAX_POINTS)
    cells = np.arange(-2 * top, top + stride, stride)
    deltas = np.exp(pair.log_delta(cells * interval))
    # A profile falls. Where rounding makes it rise, the larger value stands.
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    # Between two cells, delta is linear in exp(epsilon), so that their probabilities
    # follow from its slopes; below the first it would be 1.
    drops, step = -np.diff(deltas), stride * interval
    probabilities = np.append(1 - deltas[0], drops / -np.expm1(-step))
    probabilities[:-1] -= drops / np.expm1(step)
    return _Part(cells, np.maximum(probabilities, 0.0), float(deltas[-1]))


def _convolved(parts: list[_Part], counts: list[int], interval: float) -> LossDistribution | None:
    """All parts together, each as often as it counts."""
    low, high = _likely_range(parts, counts)
    # Cells are counted in floats, which must tell one from the next; a nan is none.
    if not (low < high < low + _MAX_LENGTH and max(abs(low), abs(high)) < 2.0**52):
        return None
    length = next_fast_len(int(high - low) + 1, real=True)
    transform = np.ones(length // 2 + 1, dtype=complex)
    for part, count in zip(parts, counts, strict=True):
        # Sums are known modulo the length, so the cells of a part may be too.
        folded = np.bincount(part.cells % length, part.probabilities, length)
        transform *= rfft(folded) ** count
    lowest = int(low)
    probabilities = np.roll(irfft(transform, length), -(lowest % length))
    survival = sum(
        count * np.log1p(-part.infinite) if part.infinite < 1 else -np.inf
        for part, count in zip(parts, counts, strict=True)
    )
    infinite = float(-np.expm1(survival)) + _TAIL / 100 + _fft_allowance(sum(counts))
    if not np.all(np.isfinite(probabilities)):
        return None
    return LossDistribution(interval, lowest, probabilities, infinite)


def _likely_range(parts: list[_Part], counts: list[int]) -> tuple[float, float]:
    """Cells beyond which the sum falls with a probability of `_TAIL` / 100 at most."""
    mean = variance = 0.0
    for part, count in zip(parts, counts, strict=True):
        first = float(part.cells @ part.probabilities)
        mean += count * first
        variance += count * float((part.cells - first) ** 2 @ part.probabilities)
    cost = np.log(200 / _TAIL)
    orders = _CHERNOFF_ORDERS * np.sqrt(2 * cost / max(variance, 1.0))
    bounds = []
    for sign in (-1, 1):
        # log E exp(order (sum - mean)), so that nothing large cancels
        cumulants = sum(
            count * _cumulants(part, sign * orders)
            for part, count in zip(parts, counts, strict=True)
        )
        bounds.append(float(np.min((cumulants - sign * orders * mean + cost) / orders)))
    return float(np.floor(mean - bounds[0])), float(np.ceil(mean + bounds[1]))


def _cumulants(part: _Part, orders: np.ndarray) -> np.ndarray:
    return logsumexp(orders[:, np.newaxis] * part.cells, b=part.probabilities, axis=1)
