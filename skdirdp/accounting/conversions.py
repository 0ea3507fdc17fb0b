"""Conversions of Renyi divergences, densities and cumulants to epsilon and delta.

`renyi_epsilon` and `renyi_log_delta` convert a Renyi divergence.

`log_hockey_stick` integrates a density. All smooth pairs of this package have a variable T
with a log-concave density p under P such that the privacy loss exceeds epsilon by
``slope * (T - t0)``. Then

    delta(epsilon) = integral over t > t0 of p(t) (1 - exp(-slope (t - t0))) dt.

The textbook forms are differences of two incomplete beta or gamma functions that
agree to all digits when the loss is small, and that underflow when it is large.
The integrand above is positive, so nothing cancels.

`inverted_log_delta` inverts the Laplace transform of a composition. Losses of independent
releases add, so their cumulants ``K(t) = log E exp(t L)`` add too, and all pairs of this
package have closed-form cumulants. The profile follows from Bromwich's integral: for every c
with 0 < c < max_tilt,

    delta(epsilon) = 1/pi * integral over u > 0 of
                     Re[ exp(K(t) - t epsilon) / (t (1 + t)) ] du,   t = c + i u,

because ``max(0, 1 - exp(-x))`` has the two-sided Laplace transform 1 / (t (1 + t)).
At the saddle point c the integrand hardly oscillates and a few dozen nodes suffice.

The result is an upper bound. By Poisson's summation formula the trapezoidal rule with
nodes at multiples of h returns exactly

    sum over all integers m of exp(m c T) * delta(epsilon + m T),   T = 2 pi / h,

whose terms are all non-negative; m = 0 is the required one. The sum over the nodes beyond
the last one, u_J, is at most ``|exp K(c + i u_J)| / u_J``, because the modulus decreases in
u (for gamma functions, |Gamma(x + i u)| does; for Gaussian pairs this is immediate). This
bound and an allowance for rounding are added.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

# Relative amount by which sums are rounded up.
_SUM_ROUNDING = 1e-15

# Quadrature of densities
_BISECTIONS = 34
_PEAK_BISECTIONS = 60
_LOWEST, _HIGHEST = -740.0, 700.0  # bounds on log(t - t0)
_DROP = 40.0  # integrate until the integrand has fallen by exp(-40)
_LOG_NARROW = -25.0  # log of the relative width of the narrowest peak that is resolved
_CHUNK = 2048
# The tanh-sinh rule on [0, 1]; its nodes are doubly exponentially dense at both ends.
_STEP = np.linspace(-3.3, 3.3, 112)
_NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_STEP)))
_WEIGHTS = (_STEP[1] - _STEP[0]) * np.pi * np.cosh(_STEP) * _NODES * _NODES[::-1]
# Bound on the relative error of the quadrature, well above the errors measured against mpmath
# (see the tests).
RELATIVE_ERROR = 1e-9

# Inversion of cumulants
_ALIASING = 32.0  # other terms of the sum are below exp(-32) times the required one
_TRUNCATION = 1e-12
_TIGHT = 1e-6
_BLOCK = 64
_MAX_NODES = 1 << 14
_GRID = 48
_ZOOMS = 2
_INVERSION_ROUNDING = 1e-9
_ROUGH_TILT = 3000.0


def renyi_epsilon(order: Floats | float, divergence: Floats | float, delta: float) -> Floats:
    """Compute the epsilon at delta implied by a Renyi divergence of one order.

    Canonne, Kamath and Steinke (2020), Proposition 12; Lemma 3 of "Dirichlet
    Mechanism for Differentially Private KL Divergence Minimization".
    """
    order = np.asarray(order, dtype=float)
    cost = np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
    # Rounded up by more than in `renyi_log_delta`, so that its delta at this epsilon is at
    # most the given one.
    return np.maximum(divergence + cost + 4 * _SUM_ROUNDING * (divergence + np.abs(cost)), 0.0)


def renyi_log_delta(order: Floats | float, divergence: Floats | float, epsilon: float) -> Floats:
    """Compute log delta at epsilon, the inverse of `renyi_epsilon`."""
    order = np.asarray(order, dtype=float)
    gain = (order - 1) * (divergence - epsilon + _SUM_ROUNDING * (divergence + epsilon))
    return gain + (order - 1) * np.log1p(-1 / order) - np.log(order)


def truncated_epsilon(rho: Floats | float, omega: Floats | float, delta: float) -> Floats:
    """Compute the epsilon at delta of (rho, omega)-tCDP."""
    rho, omega = np.asarray(rho, dtype=float), np.asarray(omega, dtype=float)
    cost = np.log(1 / delta)
    untruncated = rho + 2 * np.sqrt(rho * cost)
    with np.errstate(invalid="ignore"):
        truncated = rho * omega + cost / (omega - 1)
        return np.where(cost <= (omega - 1) ** 2 * rho, untruncated, truncated)


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float | None:
    """Approximate ratio of sensitivity to standard deviation for (epsilon, delta)-DP.

    The result is accurate to many digits but may be off in either direction. Use it for
    initial guesses; guarantees must use `GaussianPair`. Returns None where double precision
    is insufficient.
    """

    def excess(log_mu: float) -> float:
        mu = np.exp(log_mu)
        above = log_ndtr(mu / 2 - epsilon / mu)
        below = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(above + np.log(-np.expm1(min(below - above, -1e-300))) - np.log(delta))

    least, most = np.log(1e-6), np.log(1e2)
    if not excess(least) < 0 < excess(most):
        return None
    return float(np.exp(brentq(excess, least, most)))


def gaussian_slope(epsilon: float, delta: float, mu: float) -> float:
    """Derivative of log delta with respect to log mu for (epsilon, delta)-DP Gaussian noise.

    Approximate, for initial guesses, as is `gaussian_mu`.
    """
    # The derivative of delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) is a density.
    log_density = -((mu / 2 - epsilon / mu) ** 2) / 2 - np.log(2 * np.pi) / 2
    return float(mu * np.exp(log_density - np.log(delta)))


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
        # -inf + inf, where the density is 0 everywhere, counts as not rising.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return score(threshold + x) + slope / np.expm1(slope * x) > 0

    # The integrand is log-concave in x = t - t0: it rises to one peak, then falls.
    lowest = np.full_like(threshold, _LOWEST)
    highest = np.full_like(threshold, _HIGHEST)
    log_peak = _bisect(rising, lowest, highest, _PEAK_BISECTIONS)
    peak = np.exp(log_peak)
    top = log_integrand(peak)
    # Search for the ends by their distance from the peak: the peak may be much narrower than
    # its distance from t0.
    nearest = log_peak + _LOG_NARROW
    before = _bisect(lambda u: log_integrand(peak - np.exp(u)) > top - _DROP, nearest, log_peak)
    after = _bisect(lambda u: log_integrand(peak + np.exp(u)) > top - _DROP, nearest, highest)
    start, end = np.maximum(peak - np.exp(before), 0.0), peak + np.exp(after)

    # The length scales may differ by orders of magnitude, but they change only at x = 0 and
    # at the peak, where the nodes of the rule are dense at every scale.
    left = _integral(log_integrand, start, peak, top) + start * np.exp(-_DROP)
    right = _integral(log_integrand, peak, end, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = np.log(left + right) + top + np.log1p(RELATIVE_ERROR)
        # If t0 is below the mode and the peak is too narrow for floats, all of p lies above
        # t0 and delta is 1 up to rounding. Far above the mode p underflows.
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
    """Bisect for the end of the range, from low to high, in which `below` is true."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = below(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return 0.5 * (low + high)


def inverted_log_delta(
    cumulant: Callable[[np.ndarray, bool], np.ndarray],
    max_tilt: float,
    epsilon: float,
    releases: int = 1,
) -> tuple[float, bool]:
    """Compute log delta of a composition at epsilon, and whether the bound is tight.

    The bound is not tight when the integrand decreases too slowly to be summed to its end.
    Then the bound on the truncated part dominates, and other methods may be tighter. The
    number of releases determines how rounding errors of the cumulants accumulate.
    """
    grid, action = _saddle_search(cumulant, max_tilt, epsilon)
    best = int(np.argmin(action))
    c = float(grid[best])
    # Approximate cumulants suffice while their error, at most about 1e-13 per release and
    # unit of 1 + c, stays below the allowance.
    rough = releases * (1 + c) < _ROUGH_TILT
    growth = float(cumulant(np.asarray(c), rough)) - c * epsilon
    # If the growth is large, the result would suffer from cancellation.
    if not (np.isfinite(action[best]) and abs(growth) < np.inf and growth < _ALIASING and c > 0):
        return 0.0, False
    allowance = _INVERSION_ROUNDING + 1e-14 * (abs(growth) + c * abs(epsilon))
    # Chernoff's bound at the tilt c: max(0, 1 - e^-x) is at most e^(cx) c^c / (1 + c)^(1 + c).
    chernoff = growth + c * np.log(c) - (1 + c) * np.log1p(c) + allowance
    if allowance > 1:
        return float(min(chernoff, 0.0)), False

    # Terms m < 0 are at most exp(-c T); terms m > 0 obey Chernoff's bound at any
    # tilt above c. The period T makes both small compared with the required term.
    wanted = min(action[best], 0.0) - _ALIASING
    period = -wanted / c
    above = grid > c * (1 + 1e-6)
    if above.any():
        bound = action[above] + np.log(grid[above]) + np.log1p(grid[above]) - wanted
        period = max(period, float(np.min(bound / (grid[above] - c))))
    step = 2 * np.pi / period

    total, magnitude, last, start = 0.5 / (c * (1 + c)), 0.5 / (c * (1 + c)), np.inf, 1
    while start < _MAX_NODES:
        u = step * np.arange(start, start + _BLOCK * (1 + start // (4 * _BLOCK)))
        t = c + 1j * u
        log_values = cumulant(t, rough) - t * epsilon - growth
        values = np.exp(log_values) / (t * (1 + t))
        total += float(values.real.sum())
        magnitude += float(np.abs(values).sum())
        last = float(np.exp(log_values[-1].real) / (u[-1] * step))
        start += u.size
        # The logarithm decreases at most quadratically in u.
        fall = -float(log_values[-1].real)
        out_of_reach = not fall > -np.log(_TRUNCATION) * (start / _MAX_NODES) ** 2
        if last < _TRUNCATION * abs(total) or out_of_reach:
            break
    total += last + 1e-15 * magnitude
    if not 0 < total < np.inf:  # lost to rounding
        return float(min(chernoff, 0.0)), False
    inverted = growth + np.log(step / np.pi * total) + allowance
    return float(min(inverted, chernoff, 0.0)), last < _TIGHT * total


def _saddle_search(cumulant, max_tilt, epsilon):
    """Evaluate the convex function K(c) - c epsilon - log(c (1 + c)) around its minimum."""
    grids, actions = [], []
    # Tilts are parametrised as max_tilt * x / (1 + x), or as x if max_tilt is very large.
    unlimited = max_tilt > np.exp(60.0)
    low, high = (-60.0, 60.0) if unlimited else (-40.0 - max(np.log(max_tilt), 0.0), 40.0)
    for _ in range(_ZOOMS):
        x = np.linspace(low, high, _GRID)
        tilt = np.exp(x) if unlimited else max_tilt / (1 + np.exp(-x))
        with np.errstate(over="ignore", invalid="ignore"):
            action = cumulant(tilt, True) - tilt * epsilon - np.log(tilt) - np.log1p(tilt)
        action = np.where(np.isnan(action), np.inf, action)
        grids.append(tilt)
        actions.append(action)
        best = int(np.argmin(action))
        low, high = x[max(best - 1, 0)], x[min(best + 1, _GRID - 1)]
    order = np.argsort(np.concatenate(grids))
    return np.concatenate(grids)[order], np.concatenate(actions)[order]
