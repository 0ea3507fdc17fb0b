"""Comparisons of conditional shares, and measures of association."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chndtr, ndtr

from .._validation import check_real
from .estimates import (
    Estimate,
    NoisyTable,
    TestedShare,
    cell_masks,
    last_accepted,
    normal_quantile,
)
from .hypotheses import check_two_way, check_values, corrected, projected

# Values of each of two shares at which their joint confidence region is traced.
_TRACE = 33
# Deviates of each of two independent shares, and how far beyond the limits they go.
_NODES, _BEYOND = 61, 2.0
# Smallest expected count of a category in a measure of association: none is excluded.
_MIN_MARGIN = 0.5
# Smallest expected count, plus the variance of Gaussian or gamma noise, for which contrasts of a
# table are nearly normal: the usual rule for chi-squared tests.
_MIN_EXPECTED = 5.0
# Halvings that find a limit of an association, and the smallest relative variance of its linear
# part: the distribution function of a larger multiple of a chi-squared variable is inaccurate.
_HALVINGS, _MIN_LEVEL = 60, 0.1
# A variance, or a margin, is known if it exceeds this many deviations of its noise.
_MIN_SIGNAL = 4.0

# Comparisons of two conditional shares --------------------------------------------------


class _Curve:
    """Values of a share within its limits, with their z-scores, decreasing along the last axis."""

    def __init__(self, tested: TestedShare, z: float):
        def accepts(share):
            return np.abs(tested.z_score(share)) <= z

        low, high = (last_accepted(accepts, tested.value, end) for end in (0.0, 1.0))
        steps = np.linspace(0.0, 1.0, _TRACE // 2 + 1)[:, np.newaxis]
        centre = tested.value.reshape(1, -1)
        below = low.reshape(1, -1) + steps[:-1] * (centre - low.reshape(1, -1))
        above = centre + steps * (high.reshape(1, -1) - centre)
        shape = tested.value.shape
        shares = np.concatenate([below, above])
        found = [tested.z_score(each.reshape(shape)).ravel() for each in shares]
        middle = _TRACE // 2
        # Accepted values need not be an interval; the curve is that of their hull.
        first = np.minimum.accumulate(np.maximum(found[:middle], 0.0))
        last = np.maximum.accumulate(np.minimum(found[middle:], 0.0)[::-1])[::-1]
        self.shares = np.where(tested.known.ravel(), shares, centre).T
        self.z_scores = np.concatenate([first, last]).T

    def share_at(self, z_score: np.ndarray) -> np.ndarray:
        """Return the shares with given z-scores, by linear interpolation."""
        above = np.sum(self.z_scores[:, np.newaxis] > z_score[..., np.newaxis], axis=-1)
        right = np.clip(above, 1, self.z_scores.shape[1] - 1)
        z0, z1 = (np.take_along_axis(self.z_scores, right - k, axis=1) for k in (1, 0))
        t0, t1 = (np.take_along_axis(self.shares, right - k, axis=1) for k in (1, 0))
        part = (z0 - z_score) / np.where(z0 > z1, z0 - z1, 1.0)
        return t0 + np.clip(part, 0.0, 1.0) * (t1 - t0)


def _compare(
    table: NoisyTable,
    cells: Any,
    given: Any,
    reference: Any,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    outermost: tuple[float, float],
    confidence: float,
    population: bool,
) -> Estimate:
    """Return limits of a function that increases with a first share and decreases with a second.

    Two z-scores z1 and z2 are tested together: the limits are the extremes of the function where
    ``z1^2 + z2^2 <= z^2``. For the counted records with Laplace noise, limits are the outermost of
    these and of quantiles of the function of two independent shares: the former cover too little
    in the middle of the range, and the latter if one share is 0 and the other 1. `outermost`
    replaces values that are undefined.
    """
    table = table.for_population(population)
    z = normal_quantile(confidence)
    inside, first, second = np.broadcast_arrays(
        cell_masks(table, cells, "cells"),
        cell_masks(table, given, "given"),
        cell_masks(table, reference, "reference"),
    )
    if np.any(first & second):
        raise ValueError("given and reference must not have cells in common")
    # Without a correction the noise of the two shares is independent.
    one, two = (TestedShare(table, inside, each, population, False) for each in (first, second))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = _extremes(one, two, function, z, outermost)
        if table.law.b > 0 and not population:
            others = _melded(one, two, function, z, outermost)
            low, high = np.minimum(low, others[0]), np.maximum(high, others[1])
        value = np.clip(function(one.value, two.value), *outermost)
    low, high = np.clip(low, *outermost), np.clip(high, *outermost)
    shape = one.value.shape
    return Estimate(value, low.reshape(shape), high.reshape(shape), confidence)


def _extremes(first, second, function, z, outermost) -> tuple[np.ndarray, np.ndarray]:
    """Return the extremes of a function of two shares where ``z1^2 + z2^2 <= z^2``."""
    one, two = _Curve(first, z), _Curve(second, z)
    rest = np.sqrt(np.maximum(z**2 - one.z_scores**2, 0.0))
    high = function(one.shares, two.share_at(rest))
    low = function(one.shares, two.share_at(-rest))
    low = np.where(np.isnan(low), outermost[0], low).min(axis=-1)
    return low, np.where(np.isnan(high), outermost[1], high).max(axis=-1)


def _melded(first, second, function, z, outermost) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles of a function of two independent shares.

    A share whose z-score is a standard normal variable has the confidence distribution of its
    test (Fay, Proschan and Brittain, 2015). If the errors of the shares do not depend on the
    shares, their difference then has exact quantiles. `_extremes` needs normal errors for that:
    the squared z-score of a Laplace variable grows linearly in the tails, so an error that is
    split between two of them costs as little as one error in one of them.
    """
    reach = max(z, 2.0) + _BEYOND
    nodes = np.linspace(-reach, reach, _NODES)
    weights = np.exp(-(nodes**2) / 2)
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    one, two = (_Curve(each, reach) for each in (first, second))
    nodes = np.broadcast_to(nodes, (len(one.shares), _NODES))
    pairs = one.share_at(nodes), two.share_at(nodes)
    limits = np.empty((2, len(nodes)))
    for i, (t1, t2) in enumerate(zip(*pairs, strict=True)):
        found = function(t1[:, np.newaxis], t2).ravel()
        for limit, end, sign in zip(limits, outermost, (1, -1), strict=True):
            values = sign * np.where(np.isnan(found), end, found)
            order = np.argsort(values)
            place = np.searchsorted(np.cumsum(weights[order]), ndtr(-z))
            limit[i] = sign * values[order[place]]
    return limits[0], limits[1]


def difference(
    table: NoisyTable,
    cells: Any,
    given: Any,
    reference: Any,
    *,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the difference of two conditional probabilities.

    Parameters
    ----------
    table : NoisyTable
    cells : index or boolean array of the shape of the table
        A set of cells, or several along the first dimension.
    given, reference : index or boolean array
        Cells of the two conditions, likewise. They have no cells in common.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate
        Of ``P(cells | given) - P(cells | reference)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.inference import NoisyTable, difference
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> difference(table, np.s_[:, 1], given=1, reference=0)
    Estimate(0.1619, low=0.1179, high=0.2065, confidence=0.95)
    """
    return _compare(
        table, cells, given, reference, np.subtract, (-1.0, 1.0), confidence, population
    )


def ratio(
    table: NoisyTable,
    cells: Any,
    given: Any,
    reference: Any,
    *,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the ratio of two conditional probabilities (the relative risk).

    Parameters
    ----------
    table, cells, given, reference
        As in `difference`.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate
        Of ``P(cells | given) / P(cells | reference)``, from 0 to infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.inference import NoisyTable, ratio
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> ratio(table, np.s_[:, 1], given=1, reference=0)
    Estimate(4.745, low=2.846, high=9.183, confidence=0.95)
    """
    return _compare(
        table, cells, given, reference, np.divide, (0.0, np.inf), confidence, population
    )


def odds_ratio(
    table: NoisyTable,
    cells: Any,
    given: Any,
    reference: Any,
    *,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the odds ratio of two conditional probabilities.

    Parameters
    ----------
    table, cells, given, reference
        As in `difference`.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate
        Of the odds of `cells` under `given`, divided by those under `reference`; from 0 to
        infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.inference import NoisyTable, odds_ratio
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> odds_ratio(table, np.s_[:, 1], given=1, reference=0)
    Estimate(5.711, low=3.277, high=11.42, confidence=0.95)
    """

    def odds(first, second):
        return (first * (1 - second)) / ((1 - first) * second)

    return _compare(table, cells, given, reference, odds, (0.0, np.inf), confidence, population)


# Measures of association ----------------------------------------------------------------


def correlation(
    table: NoisyTable,
    row_values: ArrayLike | None = None,
    column_values: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the correlation of two numbers.

    Parameters
    ----------
    table : NoisyTable
        Table of two variables.
    row_values, column_values : array-like, optional
        Numbers that the categories stand for. If None, 0, 1, 2 and so on.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate
        From -1 to 1. The interval is the whole range if the noise hides the variance of one of
        the numbers.

    Notes
    -----
    The sum over the cells of ``y (u v - r (u^2 + v^2) / 2)``, with standardised numbers u and v,
    has the mean 0 if the correlation is r. Errors of the estimated means and variances change it
    to the second order only.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, correlation
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable(
    ...     [[160.2, 91.7, 48.5], [119.5, 123.1, 57.0]], GaussianMechanism(4.0), n_records=600
    ... )
    >>> correlation(table)
    Estimate(0.1093, low=0.02123, high=0.1976, confidence=0.95)
    """
    table = table.for_population(population)
    shape = check_two_way(table, "correlation")
    z = normal_quantile(confidence)
    u = np.repeat(check_values("row_values", row_values, shape[0]), shape[1])
    v = np.tile(check_values("column_values", column_values, shape[1]), shape[0])
    flat = table.counts.reshape(-1, table.size)
    counts, totals = corrected(flat, table.n_records)
    known = np.ones(len(flat), dtype=bool)
    scaled = []
    for numbers in (u, v):
        centred = (
            numbers - np.clip(counts @ numbers / totals, numbers.min(), numbers.max())[:, None]
        )
        spread = np.sum(counts * centred**2, axis=-1)
        # The noise of the variance, relative to the variance.
        noise = np.sqrt(_noise_variance(table, centred**2, np.maximum(counts, 0.0)))
        known &= spread > _MIN_SIGNAL * noise
        scaled.append(centred / np.sqrt(np.where(known, spread, 1.0) / totals)[:, None])
    product, squares = scaled[0] * scaled[1], (scaled[0] ** 2 + scaled[1] ** 2) / 2
    value = np.sum(counts * product, axis=-1) / totals
    likely = np.maximum(counts, 0.0)
    likely *= (totals / np.maximum(likely.sum(axis=-1), 1e-300))[:, np.newaxis]

    def accepts(tested):
        contrast = product - tested[:, np.newaxis] * squares
        variance = np.sum(likely * contrast**2, axis=-1) * population
        variance = variance + _noise_variance(table, contrast, likely)
        return totals * np.abs(value - tested) <= z * np.sqrt(variance)

    start = np.clip(value, -1.0, 1.0)
    low, high = (np.where(known, last_accepted(accepts, start, end), end) for end in (-1.0, 1.0))
    lead = table.counts.shape[: table.batch_dims]
    value, low, high = (each.reshape(lead) for each in (start, low, high))
    return Estimate(value, low, high, confidence)


def _noise_variance(table: NoisyTable, weights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the variance of weighted sums of the noise of all cells with given counts."""
    if table.n_records is not None:
        weights = weights - weights.mean(axis=-1, keepdims=True)
    return np.sum(table.noise.variance_at(counts) * weights**2, axis=-1)


def cramers_v(table: NoisyTable, *, confidence: float = 0.95) -> Estimate:
    """Estimate Cramer's V, the strength of the association of two variables.

    Parameters
    ----------
    table : NoisyTable
        Table of two variables.
    confidence : float, default=0.95
        Probability that an interval contains the true value.

    Returns
    -------
    Estimate
        From 0 to 1. The interval is the whole range if the noise hides the size of a category, or
        if a cell is expected to have fewer than five records.

    Notes
    -----
    The sum of the squared contrasts of the two margins has a mean that increases with the
    association by the same amount in all directions. It is treated as the multiple of a noncentral
    chi-squared variable with its mean and variance, which include the noise.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, cramers_v
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> cramers_v(table)
    Estimate(0.2455, low=0.1871, high=0.3168, confidence=0.95)
    """
    table = table.for_population()
    check_real("confidence", confidence, above=0, below=1)
    shape = check_two_way(table, "cramers_v")
    law = table.law
    if law.r > 0:
        # A correction would spread the noise of large counts over all cells.
        table = replace(table, n_records=None)
    flat = table.counts.reshape(-1, table.size)
    counts, totals = corrected(flat, table.n_records)
    # Margins of dependent variables are sums; the noise must not hide the smallest of them.
    sums = [counts.reshape(-1, *shape).sum(axis=axis) for axis in (2, 1)]
    noise = [np.sqrt(law.variance * size) for size in (shape[1], shape[0])]
    clear = [
        each.min(axis=-1) >= _MIN_SIGNAL * level for each, level in zip(sums, noise, strict=True)
    ]
    known = np.logical_and(*clear)
    rows, columns = (projected(each, totals) for each in sums)
    expected = rows[:, :, np.newaxis] * columns[:, np.newaxis] * totals[:, np.newaxis, np.newaxis]
    expected = expected.reshape(counts.shape)
    if not law.is_zero:
        # Noise with light tails makes small counts more nearly normal.
        light = 0.0 if law.b > 0 else law.variance
        known &= expected.min(axis=-1) + light >= _MIN_EXPECTED
    sums, levels, excess = _squared_contrasts(counts, totals, (rows, columns), law)
    level = 1.0 if law.is_zero else _linear_variance(table, counts, totals, (rows, columns), levels)
    # A small sum does not show the direction of the association. The upper limit allows for all.
    most = np.maximum(level, levels.max(axis=-1))
    tails = (1 - confidence) / 2
    low = _association(sums, levels, excess, level, 1 - tails)
    high = _association(sums, levels, excess, most, tails)
    centre = np.maximum(sums - levels.sum(axis=-1), 0.0)
    scale = totals * (min(shape) - 1)
    value, low, high = (np.sqrt(np.clip(each / scale, 0.0, 1.0)) for each in (centre, low, high))
    low, high = np.where(known, low, 0.0), np.where(known, high, 1.0)
    lead = table.counts.shape[: table.batch_dims]
    value = np.clip(value, low, high)
    value, low, high = (each.reshape(lead) for each in (value, low, high))
    return Estimate(value, low, high, confidence)


def _squared_contrasts(counts, totals, margins, law):
    """Return the sum of squared contrasts, their variances, and the excess variance of the sum.

    The mean of the sum is that of the variances plus the number of records times the association
    phi^2. The excess is due to the fourth cumulants of Laplace noise.
    """
    smallest = _MIN_MARGIN / totals[:, np.newaxis]
    (left, first), (right, second) = (_contrasts(np.maximum(p, smallest)) for p in margins)
    tables = counts.reshape(len(counts), left.shape[2], right.shape[2])
    residual = left @ tables @ right.transpose(0, 2, 1)
    squares = residual.reshape(len(counts), -1) ** 2 / totals[:, np.newaxis]
    # The covariance of the contrasts is diagonal: that of the counts is 1, the noise is added.
    levels = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape(squares.shape)
    levels = 1 + (law.variance / totals)[:, np.newaxis] * levels + (1 / law.r if law.r > 0 else 0.0)
    fourth = [np.sum(np.sum(each**2, axis=1) ** 2, axis=1) for each in (left, right)]
    return squares.sum(axis=-1), levels, 12 * law.b**4 * fourth[0] * fourth[1] / totals**2


def _linear_variance(table, counts, totals, margins, levels):
    """Return the variance of the estimated association n phi^2, divided by four times itself.

    It is that of the linear part of ``phi^2 = sum y^2 / (R C) - 1`` with sums R of rows and C of
    columns, and 1 for independent variables without noise.
    """
    shape = (-1, *table.shape)
    n = totals[:, np.newaxis, np.newaxis]
    smallest = _MIN_MARGIN / totals[:, np.newaxis]
    rows, columns = (np.maximum(p, smallest) for p in margins)
    rows, columns = rows[:, :, np.newaxis], columns[:, np.newaxis]
    shares = counts.reshape(shape) / n
    ratio = shares / (rows * columns)
    terms = shares * ratio
    slope = 2 * ratio - terms.sum(axis=2, keepdims=True) / rows
    slope = (slope - terms.sum(axis=1, keepdims=True) / columns).reshape(counts.shape)
    likely = np.maximum(counts, 0.0)
    variance = np.sum(likely * slope**2, axis=-1) + _noise_variance(table, slope, likely)
    second = np.sum(levels**2, axis=-1)
    sums = totals * (terms.sum(axis=(1, 2)) - 1)
    # The variance of all contrasts, and that of the association without the noise of the slope.
    whole = variance / (4 * np.maximum(sums, 1e-9))
    part = (variance / 4 - second) / np.maximum(sums - levels.sum(axis=-1), np.sqrt(2 * second))
    # It vanishes for a perfect association, for which the distribution function is not defined.
    return np.maximum(np.maximum(whole, part), _MIN_LEVEL)


def _association(sums, levels, excess, level, probability):
    """Return the association n phi^2 at which P(at most the sum of squares) is given; 0 if none.

    At the association m, the sum of squares of contrasts with variances l_k has the mean
    ``sum l_k + m`` and the variance ``sum 2 l_k^2 + 4 m l``, where l is the variance of the linear
    part relative to m. It is treated as the multiple b of a noncentral chi-squared variable with
    these two moments. Without noise it is one.
    """
    first, second = levels.sum(axis=-1), np.sum(levels**2, axis=-1) + excess / 2
    low, high = np.zeros(sums.shape), sums + 10 * np.sqrt(second + level * sums) + 50 * level
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        b = (second + 2 * level * middle) / (first + 2 * middle)
        larger = chndtr(sums / b, first / b, middle / b) > probability
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
    return low


def _contrasts(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return contrasts c of several margins p, and their squared norms.

    Contrasts c and d of one margin have ``c @ p = 0``, ``sum_i p_i c_i^2 = 1``,
    ``sum_i p_i c_i d_i = 0`` and ``c @ d = 0``.
    """
    p = p / p.sum(axis=-1, keepdims=True)
    root = np.sqrt(p)
    basis = np.linalg.svd(root[:, np.newaxis])[2][:, 1:] / root[:, np.newaxis]
    norms, turn = np.linalg.eigh(basis @ basis.transpose(0, 2, 1))
    return turn.transpose(0, 2, 1) @ basis, norms
