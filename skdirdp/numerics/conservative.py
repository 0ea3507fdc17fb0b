"""Conservative root finding, rounding and integration.

Privacy losses are rounded up, and noise parameters are roots at which a budget is not exceeded.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import brentq

# Excesses are clipped to this size, because infinite ones have no slope.
_MAX_EXCESS = 1e3
# Brent's method falls back to bisection, which may need one iteration per bit of the exponent.
_MAX_ITERATIONS = 2000
# `root_nearby` gives up after this number of secant steps, or at a longer step. It updates the
# slope only after a step of more margins, which exceeds rounding errors.
_MAX_SECANTS, _MAX_STEP, _MIN_SLOPE_STEP = 8, 0.01, 100.0
#: Sums and products of whole numbers up to this are exact in double precision.
EXACT = 2.0**53

# Quadrature of densities
_N_BISECTIONS = 34
_N_PEAK_BISECTIONS = 60
_MIN_LOG, _MAX_LOG = -740.0, 700.0  # bounds on log(t - t0)
_DROP = 40.0  # integrate until the integrand has fallen by exp(-40)
_LOG_NARROW = -25.0  # log of the relative width of the narrowest peak that is resolved
_BLOCK_POINTS = 2048
# The tanh-sinh rule on [0, 1]; its nodes are doubly exponentially dense at both ends.
_STEP = np.linspace(-3.3, 3.3, 112)
_NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_STEP)))
_WEIGHTS = (_STEP[1] - _STEP[0]) * np.pi * np.cosh(_STEP) * _NODES * _NODES[::-1]
# Bound on the relative error of the quadrature, well above the errors measured against mpmath
# (see the tests).
_QUADRATURE_ERROR = 1e-9

# Inversion of cumulants
ALIASING = 32.0  # other terms of Poisson's sum are below exp(-32) times the required one
TRUNCATION = 1e-12
TIGHT = 1e-6
INVERSION_ROUNDING = 1e-9
ROUGH_TILT = 3000.0
_BLOCK = 64
_MAX_NODES = 1 << 14
_N_GRID = 48
_N_ZOOMS = 2


def safe_root(
    excess: Callable[[float], float],
    start: float,
    step: float,
    *,
    tolerance: float,
    margin: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """Find a root of an excess, approximated from the safe side, where the excess is at most 0.

    Steps from `start`, each twice as long as the last, find two points between which the sign
    changes; the sign of `step` is the direction away from the safe side. Brent's method then finds
    the root up to the tolerance, and further doubling steps lead back to the safe side.

    Returns a point at which the excess was evaluated and is not positive, at least `margin`
    away from the root. If the excess is positive nowhere within the limits, returns the limit
    on that side. If it is positive everywhere, returns nan.
    """

    @cache
    def clipped(x: float) -> float:
        value = float(excess(x))
        if np.isnan(value):  # comparisons with nan would treat any point as safe
            raise FloatingPointError(f"the excess could not be computed at {x}")
        return min(max(value, -_MAX_EXCESS), _MAX_EXCESS)

    here = float(np.clip(start, *limits))
    start_is_safe = clipped(here) <= 0
    stride = float(step if start_is_safe else -step)
    while True:
        there = float(np.clip(here + stride, *limits))
        if there == here:
            return here if start_is_safe else np.nan
        if (clipped(there) <= 0) != start_is_safe:
            break
        here, stride = there, 2 * stride
    safe, unsafe = (here, there) if start_is_safe else (there, here)

    back = np.copysign(tolerance, safe - unsafe)
    found = brentq(clipped, safe, unsafe, xtol=tolerance, maxiter=_MAX_ITERATIONS)
    root = float(found) + np.copysign(margin, back)
    while clipped(root) > 0:
        root, back = root + back, 2 * back
        if (root - safe) * back > 0:
            return safe
    return float(root)


def root_nearby(
    excess: Callable[[float], float], start: float, slope: float, margin: float, upper: float
) -> float | None:
    """Find a point at most three margins below a root, or equal to `upper`, with few evaluations.

    The excess is positive above the root, and `slope` is its approximate slope there. Returns None
    if the secant method does not find such a point.
    """
    here, value = start, excess(start)
    for _ in range(_MAX_SECANTS):
        if value <= 0 and (here == upper or margin <= -value / slope <= 3 * margin):
            return here
        following = min(here - value / slope - 2 * margin, upper)
        step = following - here
        if not 0 < abs(step) <= _MAX_STEP:
            return None
        previous, here = value, following
        value = excess(here)
        if abs(step) > _MIN_SLOPE_STEP * margin:
            slope = max((value - previous) / step, slope / 2)
    return None


def round_up(exact: Fraction) -> float:
    """Return the smallest float that is at least an exact number; may be infinite."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def product_up(a: float, b: float) -> float:
    """Compute ``a * b``, rounded up."""
    if abs(a * b) < EXACT and a % 1 == b % 1 == 0:
        return float(a * b)  # exact for whole numbers
    return round_up(Fraction(a) * Fraction(b)) if math.isfinite(a * b) else a * b


def quotient_up(a: float, b: float) -> float:
    """Compute ``a / b`` of positive numbers, rounded up."""
    return round_up(Fraction(a) / Fraction(b)) if math.isfinite(a / b) else a / b


def log_hockey_stick(
    threshold: np.ndarray, slope: float, log_density: Callable, score: Callable
) -> np.ndarray:
    """Compute log of the integral of ``p(t) (1 - exp(-slope (t - t0)))`` over t > t0, rounded up.

    p is a log-concave density, given by its logarithm and the derivative `score` of that. With
    p the density of a variable T such that a loss L is ``x + slope (T - t0)``, the integral is
    ``E max(0, 1 - exp(x - L))``. The integrand is positive, so nothing cancels.
    """
    parts = np.split(threshold, range(_BLOCK_POINTS, threshold.size, _BLOCK_POINTS))
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
    lowest = np.full_like(threshold, _MIN_LOG)
    highest = np.full_like(threshold, _MAX_LOG)
    log_peak = _bisect(rising, lowest, highest, _N_PEAK_BISECTIONS)
    peak = np.exp(log_peak)
    top = log_integrand(peak)
    # Search for the ends by their distance from the peak: the peak may be much narrower than
    # its distance from t0.
    nearest = log_peak + _LOG_NARROW
    before = _bisect(lambda u: log_integrand(peak - np.exp(u)) > top - _DROP, nearest, log_peak)
    after = _bisect(lambda u: log_integrand(peak + np.exp(u)) > top - _DROP, nearest, highest)
    start, end = np.maximum(peak - np.exp(before), 0.0), peak + np.exp(after)

    def integral(low, high):
        with np.errstate(invalid="ignore"):
            values = np.exp(log_integrand(low + (high - low) * _NODES[:, np.newaxis]) - top)
        return (high - low) * (_WEIGHTS @ values)

    # The length scales may differ by orders of magnitude, but they change only at x = 0 and
    # at the peak, where the nodes of the rule are dense at every scale.
    left = integral(start, peak) + start * np.exp(-_DROP)
    right = integral(peak, end)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = np.log(left + right) + top + np.log1p(_QUADRATURE_ERROR)
        # If t0 is below the mode and the peak is too narrow for floats, all of p lies above
        # t0 and delta is 1 up to rounding. Far above the mode p underflows.
        narrow = ~(log_integrand(peak * (1 - 2 * np.exp(_LOG_NARROW))) > top - 1)
        above_mode = score(threshold) <= 0
    log_delta = np.where(narrow & ~above_mode, 0.0, np.minimum(log_delta, 0.0))
    return np.where(np.isneginf(top) & above_mode, -np.inf, log_delta)


def _bisect(below, low, high, steps=_N_BISECTIONS):
    """Bisect for the end of the range, from low to high, in which `below` is true."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = below(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return 0.5 * (low + high)


def inverted_log_delta(
    cumulant: Callable[..., np.ndarray], max_tilt: float, epsilon: float, releases: int = 1
) -> tuple[float, bool]:
    """Bound log delta of a sum of losses at epsilon, and return whether the bound is tight.

    The integrand ``exp(K(t) - t epsilon) / (t (1 + t))`` of Bromwich's integral is summed on the
    line ``t = c + i u`` through its saddle point c. By Poisson's summation formula the trapezoidal
    rule adds only non-negative terms (docs/theory.md, section 3). The modulus of the integrand must
    decrease in u. Then the sum over the nodes beyond the last one, u_J, is at most
    ``|exp K(c + i u_J)| / u_J``, which is added with an allowance for rounding. `releases`
    determines how rounding errors of the cumulants accumulate.
    """
    grid, log_bound = _saddle_search(cumulant, max_tilt, epsilon)
    best = int(np.argmin(log_bound))
    c = float(grid[best])
    # Approximate cumulants suffice while their error, at most about 1e-13 per release and
    # unit of 1 + c, stays below the allowance.
    rough = releases * (1 + c) < ROUGH_TILT
    growth = float(cumulant(np.asarray(c), rough)) - c * epsilon
    # If the growth is large, the result would suffer from cancellation.
    if not (np.isfinite(log_bound[best]) and abs(growth) < np.inf and growth < ALIASING and c > 0):
        return 0.0, False
    allowance = INVERSION_ROUNDING + 1e-14 * (abs(growth) + c * abs(epsilon))
    chernoff = chernoff_bound(growth, c) + allowance
    if allowance > 1:
        return float(min(chernoff, 0.0)), False
    step = bromwich_step(grid, log_bound)
    total = magnitude = 0.5 / (c * (1 + c))
    last, start = np.inf, 1
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
        out_of_reach = not fall > -np.log(TRUNCATION) * (start / _MAX_NODES) ** 2
        if last < TRUNCATION * abs(total) or out_of_reach:
            break
    total += last + 1e-15 * magnitude
    if not 0 < total < np.inf:  # rounding errors dominate
        return float(min(chernoff, 0.0)), False
    inverted = growth + np.log(step / np.pi * total) + allowance
    return float(min(inverted, chernoff, 0.0)), last < TIGHT * total


def chernoff_bound(growth: float, c: float) -> float:
    """Bound log delta at the tilt c: max(0, 1 - e^-x) is at most e^(cx) c^c / (1 + c)^(1 + c)."""
    return growth + c * np.log(c) - (1 + c) * np.log1p(c)


def bromwich_step(grid: np.ndarray, log_bound: np.ndarray) -> float:
    """Return the distance of the nodes on the contour through the tilt of the smallest bound."""
    # Terms m < 0 are at most exp(-c T); terms m > 0 obey Chernoff's bound at any tilt above c. The
    # period T makes both small compared with the required term.
    best = int(np.argmin(log_bound))
    c = float(grid[best])
    target = min(float(log_bound[best]), 0.0) - ALIASING
    period = -target / c
    is_above = grid > c * (1 + 1e-6)
    if is_above.any():
        bound = log_bound[is_above] + np.log(grid[is_above]) + np.log1p(grid[is_above]) - target
        period = max(period, float(np.min(bound / (grid[is_above] - c))))
    return float(2 * np.pi / period)


def _saddle_search(cumulant, max_tilt, epsilon):
    """Evaluate the convex function K(c) - c epsilon - log(c (1 + c)) around its minimum."""
    # Tilts are parametrised as max_tilt * x / (1 + x), or as x if max_tilt is very large.
    unlimited = max_tilt > np.exp(60.0)
    low, high = (-60.0, 60.0) if unlimited else (-40.0 - max(np.log(max_tilt), 0.0), 40.0)

    def log_bound(x):
        tilt = np.exp(x) if unlimited else max_tilt / (1 + np.exp(-x))
        with np.errstate(over="ignore", invalid="ignore"):
            return tilt, cumulant(tilt, True) - tilt * epsilon - np.log(tilt) - np.log1p(tilt)

    return zoomed_search(log_bound, low, high, _N_ZOOMS)


def zoomed_search(
    evaluate: Callable, low: float, high: float, zooms: int, size: int = _N_GRID
) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted tilts, and values, on a grid and on finer grids around the smallest value."""
    tilts, values = [], []
    for _ in range(zooms):
        x = np.linspace(low, high, size)
        tilt, value = evaluate(x)
        value = np.where(np.isnan(value), np.inf, value)
        tilts.append(tilt)
        values.append(value)
        best = int(np.argmin(value))
        low, high = x[max(best - 1, 0)], x[min(best + 1, size - 1)]
    order = np.argsort(np.concatenate(tilts))
    return np.concatenate(tilts)[order], np.concatenate(values)[order]
