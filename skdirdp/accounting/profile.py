"""The privacy profile of one pair whose loss is linear in a log-concave variable.

For all pairs of this package but the Laplace ones there is a variable T with a
log-concave density p under P, such that the privacy loss is ``slope * (T - t0)``
above the budget epsilon. Then

    delta(epsilon) = integral over t > t0 of p(t) (1 - exp(-slope (t - t0))) dt.

The textbook forms are differences of two incomplete beta or gamma functions that
agree to all digits when the loss is small, and that underflow when it is large.
The integrand above is positive, so nothing cancels.
"""

from collections.abc import Callable

import numpy as np

_BISECTIONS = 34
_BISECTIONS_OF_PEAK = 60
_LOWEST, _HIGHEST = -740.0, 700.0  # bounds on log(t - t0)
_DROP = 40.0  # the integrand is followed until it has fallen by exp(-40)
_LOG_NARROW = -25.0  # of the relative width of the narrowest peak that is resolved
_CHUNK = 2048

# The tanh-sinh rule on [0, 1]: nodes crowd doubly exponentially at both ends.
_STEP = np.linspace(-3.3, 3.3, 112)
_NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_STEP)))
_WEIGHTS = (_STEP[1] - _STEP[0]) * np.pi * np.cosh(_STEP) * _NODES * _NODES[::-1]

# The quadrature's relative error, measured against mpmath (tests), with room to spare.
RELATIVE_ERROR = 1e-9


def log_hockey_stick(
    threshold: np.ndarray,
    slope: float,
    log_density: Callable[[np.ndarray], np.ndarray],
    score: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Natural logarithm of delta at each threshold t0, rounded up.

    Parameters
    ----------
    threshold : ndarray of shape (n,)
    slope : float
    log_density, score : callables
        log p and its derivative, vectorised.
    """
    parts = np.split(threshold, range(_CHUNK, threshold.size, _CHUNK))
    return np.concatenate([_integrate(part, slope, log_density, score) for part in parts])


def _integrate(threshold, slope, log_density, score):
    def log_integrand(x):
        with np.errstate(over="ignore", divide="ignore"):
            return log_density(threshold + x) + np.log(-np.expm1(-slope * x))

    def rising(u):
        x = np.exp(u)
        # -inf + inf, where the density is 0 throughout, counts as not rising
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return score(threshold + x) + slope / np.expm1(slope * x) > 0

    # The integrand is log-concave in x = t - t0: it rises to one peak, then falls.
    lowest = np.full_like(threshold, _LOWEST)
    highest = np.full_like(threshold, _HIGHEST)
    log_peak = _bisect(rising, lowest, highest, _BISECTIONS_OF_PEAK)
    peak = np.exp(log_peak)
    top = log_integrand(peak)
    # The ends are sought by their distance from the peak, which may be far narrower than
    # far from t0.
    nearest = log_peak + _LOG_NARROW
    before = _bisect(lambda u: log_integrand(peak - np.exp(u)) > top - _DROP, nearest, log_peak)
    after = _bisect(lambda u: log_integrand(peak + np.exp(u)) > top - _DROP, nearest, highest)
    start, end = np.maximum(peak - np.exp(before), 0.0), peak + np.exp(after)

    # Its scales may differ by orders of magnitude, but they meet only at x = 0 and
    # at the peak, and there the nodes of the rule are dense at every scale.
    left = _integral(log_integrand, start, peak, top) + start * np.exp(-_DROP)
    right = _integral(log_integrand, peak, end, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = np.log(left + right) + top + np.log1p(RELATIVE_ERROR)
        # Below its mode, p is all above t0 where its peak is too narrow to be found among
        # floats, and delta is 1 but for rounding; far above the mode no float holds p.
        narrow = ~(log_integrand(peak * (1 - 2 * np.exp(_LOG_NARROW))) > top - 1)
        above_mode = score(threshold) <= 0
    log_delta = np.where(narrow & ~above_mode, 0.0, np.minimum(log_delta, 0.0))
    return np.where(np.isneginf(top) & above_mode, -np.inf, log_delta)


def _integral(log_integrand, start, stop, top):
    width = stop - start
    with np.errstate(invalid="ignore"):
        values = np.exp(log_integrand(start + width * _NODES[:, np.newaxis]) - top)
    return width * (_WEIGHTS @ values)


def _bisect(below, low, high, steps=_BISECTIONS):
    """Where the vectorised condition `below`, true at low and false at high, ends."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = below(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return 0.5 * (low + high)
