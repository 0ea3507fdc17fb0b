"""The probability that some entries of a Dirichlet vector fall below a threshold."""

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaln, expit, logit, xlogy

# Accurate to about 1e-13 in all cases tried, |W| = 10 included; see the tests.
_NODES = 96
_DEGREE = 64
_NEGLIGIBLE = 80.0  # densities below exp(-80) of their peak are left out
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)
_CHEBYSHEV = chebyshev.chebpts1(_DEGREE + 1)
_TINY = 1e-290


def probability_below(shapes: np.ndarray, rest: float, threshold: float) -> float:
    """P[some Y_i < threshold], for entries Y_i of the given shapes.

    Y is Dirichlet with these shapes and `rest`, that of all other entries together
    (Lemma 1 of "The Dirichlet Mechanism for Differential Privacy on the Unit Simplex").

    Breaking the stick: the first entry takes a beta-distributed part u of the stick,
    the others divide what is left as a Dirichlet vector again. So the probability that
    an entry from the j-th on falls short, as a function of the length s of the
    stick that is left, is a one-dimensional integral of the same function for j + 1.
    Each is kept as a Chebyshev series of its logarithm in log s. All parts are
    positive, so that small probabilities keep their relative accuracy.
    """
    # The order does not matter; large entries last, the integrands are smoothest.
    shapes = np.sort(np.asarray(shapes, dtype=float))
    size = shapes.size
    if threshold * size >= 1:
        return 1.0
    after = rest + np.cumsum(shapes[::-1])[::-1] - shapes  # what follows entry j
    ranges_of_part = [_range_of_part(a, b) for a, b in zip(shapes, after, strict=True)]

    # The lengths that can be left before entry j; shorter than (size - j) thresholds fails.
    ranges = [(1.0, 1.0)]
    for j in range(size - 1):
        shortest, longest = ranges[-1]
        low, high = expit(-ranges_of_part[j][1]), expit(-ranges_of_part[j][0])
        limit = (size - j - 1) * threshold
        ranges.append((max(shortest * low, limit), max(longest * high, limit)))

    def last(length):
        return np.log(np.maximum(betainc(shapes[-1], after[-1], threshold / length), _TINY))

    following = last
    for j in range(size - 2, -1, -1):
        shortest, longest = np.log(ranges[j])
        if j == 0 or longest - shortest < 1e-13:
            lengths = np.exp(np.array([longest]))
        else:
            lengths = np.exp(shortest + (longest - shortest) * (_CHEBYSHEV + 1) / 2)
        values = _one_level(
            lengths, threshold, size - j - 1, shapes[j], after[j], ranges_of_part[j], following
        )
        following = _interpolant(np.log(values), float(shortest), float(longest))
    return float(np.exp(following(np.array([1.0]))[0]))


def _one_level(lengths, threshold, others, a, b, part, following):
    """P[this entry or one of those after it falls short], for each length of the stick."""
    taken, needed = threshold / lengths, np.minimum(others * threshold / lengths, 1.0)
    short = betainc(a, b, np.minimum(taken, 1.0))
    # 1 - needed may be below `taken` by rounding only: then nothing is left between.
    short += betaincc(a, b, np.maximum(1 - needed, taken))
    with np.errstate(divide="ignore"):
        low = np.maximum(logit(taken), part[0])
        high = np.minimum(-logit(needed), part[1])
    half = np.maximum(high - low, 0)[:, np.newaxis] / 2
    low = np.where(np.isfinite(low), low, 0.0)[:, np.newaxis]
    point = low + half * (1 + _POINTS)
    # The density of logit(u): smooth, and peaked once.
    log_density = xlogy(a, expit(point)) + xlogy(b, expit(-point)) - betaln(a, b)
    left = np.maximum(lengths[:, np.newaxis] * expit(-point), others * threshold)
    middle = np.exp(log_density + following(left))
    return np.clip(short + (half * middle) @ _WEIGHTS, _TINY, 1.0)


def _interpolant(log_values, shortest, longest):
    if log_values.size == 1:
        return lambda length: np.full(np.shape(length), log_values[0])
    series = chebyshev.chebfit(_CHEBYSHEV, log_values, _DEGREE)

    def evaluate(length):
        x = 2 * (np.log(length) - shortest) / (longest - shortest) - 1
        return np.minimum(chebyshev.chebval(np.clip(x, -1, 1), series), 0.0)

    return evaluate


def _range_of_part(a: float, b: float) -> tuple[float, float]:
    """The interval on which the logit of a Beta(a, b) variable has a density worth keeping."""
    mode = np.log(a / b)
    peak = xlogy(a, expit(mode)) + xlogy(b, expit(-mode))

    def drop(x):
        return peak - a * -np.logaddexp(0, -x) - b * -np.logaddexp(0, x) - _NEGLIGIBLE

    # The tails fall like exp(a x) and exp(-b x).
    low = brentq(drop, mode - (_NEGLIGIBLE + 40) / a - 40, mode)
    high = brentq(drop, mode, mode + (_NEGLIGIBLE + 40) / b + 40)
    return float(low), float(high)
