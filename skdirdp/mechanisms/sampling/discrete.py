"""Choices among finitely many, by certified comparison.

An exponential mechanism draws index i with probability proportional to ``exp(L_i)``. The
true L_i are real numbers; doubles near them, a bound on their distance, and a function
that gives balls of any precision are enough to draw from exactly that distribution.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from .bits import BitStream, as_stream
from .exact import decide, is_positive
from .margins import MARGIN, check_platform
from .rejection import fill

_WEIGHT_BITS = 40
_MAX_ERROR = 0.25
# What a uniform's first word leaves out, and its rounding, where it is near 0.
_FLOOR = 2.0**-60


def choose(
    log_weights: ArrayLike,
    error: float,
    exact: Callable[[int], Any] | None,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
    *,
    _margin: float = MARGIN,
) -> np.ndarray:
    """Indices drawn with probabilities proportional to ``exp(L_i)``.

    Parameters
    ----------
    log_weights : array of float, shape (n,)
        Finite, n at most 2^20.
    error : float
        Bound on the distance of each from the true ``L_i``; at most 1/4. The smaller it
        is, the less often `exact` is called.
    exact : callable
        From an index to a ball (`flint.arb`) that holds ``L_i``, computed at the precision
        of `flint.ctx` at the time, and narrower the higher that is. None if the doubles
        themselves are the true ones; the error is 0 then.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of int64
    """
    check_platform()
    logs = np.asarray(log_weights, dtype=float)
    if logs.ndim != 1 or not 1 <= logs.size <= 1 << 20 or not np.isfinite(logs).all():
        raise ValueError("log_weights must be from 1 to 2^20 finite numbers")
    if not 0 <= error <= _MAX_ERROR:
        raise ValueError(f"error must be from 0 to {_MAX_ERROR}; got {error}")
    if exact is None:
        if error != 0:
            raise ValueError(f"error must be 0 where no exact weights are given; got {error}")

        def exact(i: int) -> Any:
            return arb(float(logs[i]))

    drawn = np.empty(size, np.int64)
    proposals = _Proposals(logs, error, exact, as_stream(generator), _margin)
    fill(drawn.size, proposals, drawn.reshape(-1))
    return drawn


class _Proposals:
    """Index i with probability proportional to an integer Q_i, accepted if ``V Q_i < q_i``.

    Here ``q_i = 2^40 exp(L_i - reference)``, and ``Q_i >= q_i``, so that what is accepted
    has probabilities proportional to q_i. Only the index at hand is ever evaluated, and
    neither a sum of weights nor an inverse of one is needed.
    """

    def __init__(self, logs, error, exact, stream, margin):
        self.reference = float(logs.max())
        self.exact, self.stream = exact, stream
        weights = np.exp(logs - self.reference)
        weights *= 2.0**_WEIGHT_BITS
        # Differences that rounding could move by more than this have weights below 1.
        outward = math.exp(error) * (1 + 2.0**-40)
        self.integers = np.floor(weights * outward).astype(np.int64) + 1
        self.cumulative = np.cumsum(self.integers)
        self.ratios = weights / self.integers
        self.relative = 2 * error + margin
        self.floor = _FLOOR + margin

    def __call__(self, cells):
        n = cells.stop - cells.start if isinstance(cells, slice) else cells.size
        index = self._propose(n)
        v = self.stream.draw(n)
        unit, ratio = v.on_unit(), self.ratios[index]
        slack = ratio - unit
        tolerance = ratio * self.relative + self.floor
        accepted = slack > tolerance
        open_ = ~(accepted | (slack < -tolerance))
        for j in np.flatnonzero(open_).tolist():
            accepted[j] = decide(partial(self._is_accepted, int(index[j])), v.unit(j))
        self.stream.undecided += int(np.count_nonzero(open_))
        return accepted, (index,)

    def _propose(self, n: int) -> np.ndarray:
        total = int(self.cumulative[-1])
        # Words beyond the last multiple of the total would favour small remainders.
        last = np.uint64((1 << 64) // total * total - 1)
        position = np.empty(n, np.uint64)

        def remainders(cells):
            size = cells.stop - cells.start if isinstance(cells, slice) else cells.size
            words = self.stream.draw(size).words
            return words <= last, (words % np.uint64(total),)

        fill(n, remainders, position)
        return np.searchsorted(self.cumulative, position.view(np.int64), side="right")

    def _is_accepted(self, i, v):
        log_integer = arb(int(self.integers[i])).log() - _WEIGHT_BITS * arb(2).log()
        return is_positive(self.exact(i) - arb(self.reference) - v.log() - log_integer)


def bernoulli(
    probability: float,
    size: int | tuple[int, ...],
    generator: np.random.Generator | BitStream,
) -> np.ndarray:
    """True with a probability that is exactly this double.

    Parameters
    ----------
    probability : float
        From 0 to 1.
    size : int or tuple of int
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    ndarray of bool
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be from 0 to 1; got {probability}")
    stream = as_stream(generator)
    result = np.empty(size, bool)
    if probability == 1:
        result[...] = True
        return result
    numerator, denominator = float(probability).as_integer_ratio()
    first = (numerator << 64) // denominator
    uniforms = stream.draw(result.size)
    flat = result.reshape(-1)
    np.less(uniforms.words, np.uint64(first), out=flat)
    # The word decides, unless it is the first of the probability itself.
    same = np.flatnonzero(uniforms.words == np.uint64(first)).tolist()
    for i in same:
        flat[i] = decide(lambda u: is_positive(arb(probability) - u), uniforms.unit(i))
    stream.undecided += len(same)
    return result
