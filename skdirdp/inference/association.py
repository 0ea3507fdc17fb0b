"""Tests of noisy tables, measures of association, and the power of tests.

The statistics of the tests have the noise in their variances. Their null distribution is
simulated with the noise: estimated margins, small counts and heavy tails all matter, and no
chi-squared distribution fits them. Without noise the tests are the usual ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chndtr
from scipy.stats import chi2

from .._validation import check_integer, check_real, check_real_array
from ..numerics.rows import row_blocks
from .deviates import NoiseLaw
from .estimates import Estimate, NoisyTable, last_accepted, normal_quantile

# Smallest expected count of a category in a measure of association: none is excluded.
_MIN_MARGIN = 0.5
# A variance is known if it exceeds this many deviations of its noise.
_MIN_SIGNAL = 4.0
# Alternating steps of the fit of independent variables.
_FITS = 4
# Tables are simulated in blocks of about this many cells, which fit into the cache.
_BLOCK_CELLS = 1 << 17


@dataclass(frozen=True)
class TestResult:
    """Result of a test.

    Attributes
    ----------
    statistic : float or ndarray
        Test statistic; large values speak against the hypothesis.
    pvalue : float or ndarray
        Probability of such a statistic, or a larger one, under the hypothesis.
    dof : int
        Degrees of freedom of the test without noise.

    Examples
    --------
    >>> from skdirdp.inference import TestResult
    >>> TestResult(5.1, 0.024, 1)
    TestResult(statistic=5.1, pvalue=0.024, dof=1)
    """

    __test__ = False  # pytest must not collect this class

    statistic: Any
    pvalue: Any
    dof: int

    def __post_init__(self):
        for name in ("statistic", "pvalue"):
            array = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, float(array) if array.ndim == 0 else array)


def _draw(
    law: NoiseLaw, totals: np.ndarray, p: np.ndarray, size: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw noisy tables, of shape (size, n_tables, n_cells); for simulations only."""
    n = np.rint(totals).astype(np.int64)
    counts = generator.multinomial(n, p, size=(size, len(p))).astype(float)
    if law.r > 0:
        return (generator.gamma(law.r * counts + law.alpha) - law.alpha) / law.r
    if law.b > 0:
        return counts + generator.laplace(scale=law.b, size=counts.shape)
    return counts + generator.normal(scale=law.sigma, size=counts.shape)


def _corrected(counts: np.ndarray, n: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy counts, moved to a known total by equal amounts, and their total."""
    total = counts.sum(axis=-1)
    if n is None:
        return counts, np.maximum(total, 1.0)
    counts = counts + ((n - total) / counts.shape[-1])[..., np.newaxis]
    return counts, np.full(total.shape, max(float(n), 1.0))


def _simulated(
    table: NoisyTable,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    null: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    dof: int,
    n_resamples: int,
    random_state: Any,
) -> TestResult:
    """Test a hypothesis by a parametric bootstrap.

    `statistic` and `null` are functions of corrected counts, of shape (..., n_cells), and their
    totals: the statistics, and the probabilities and totals under the hypothesis that fit best.
    """
    table.check_population(True)
    check_integer("n_resamples", n_resamples, at_least=19)
    flat = table.counts.reshape(-1, table.size)
    counts, totals = _corrected(flat, table.n_records)
    found = statistic(counts, totals)
    shape = table.counts.shape[: table.batch_dims]
    if table.law.is_exact:
        return TestResult(found.reshape(shape), chi2.sf(found, dof).reshape(shape), dof)
    generator = np.random.default_rng(random_state)
    probabilities, totals = null(counts, totals)
    larger = []
    for rows in row_blocks(len(flat), n_resamples * table.size, _BLOCK_CELLS):
        drawn = _draw(table.law, totals[rows], probabilities[rows], n_resamples, generator)
        again = statistic(*_corrected(drawn.reshape(-1, table.size), table.n_records))
        larger.append(np.sum(again.reshape(n_resamples, -1) >= found[rows], axis=0))
    pvalue = (1 + np.concatenate(larger)) / (1 + n_resamples)
    return TestResult(found.reshape(shape), pvalue.reshape(shape), dof)


def _fit_independent(
    counts: np.ndarray, totals: np.ndarray, table: NoisyTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit independent variables: the distributions of rows and columns, and the total.

    Least squares with the variance of counts and noise. Without noise the fit is that of the
    margins; with much noise, large cells determine it better than sums of many cells do. The
    total is fitted too if it is not public.
    """
    noise = table.mechanism.noise
    tables = counts.reshape(-1, *table.shape)
    rows, columns = (_projected(tables.sum(axis=axis), totals) for axis in (2, 1))
    if table.law.is_exact:
        return rows, columns, totals
    for _ in range(_FITS):
        for axis in (2, 1):
            product = rows[:, :, np.newaxis] * columns[:, np.newaxis]
            expected = totals[:, np.newaxis, np.newaxis] * product
            precision = 1 / (expected + noise.variance_at(expected))
            if table.n_records is None:
                fitted = np.sum(precision * product * tables, axis=(1, 2))
                totals = np.maximum(fitted / np.sum(precision * product**2, axis=(1, 2)), 1.0)
            other = columns[:, np.newaxis] if axis == 2 else rows[:, :, np.newaxis]
            found = np.sum(precision * other * tables, axis=axis)
            found = _projected(found / np.sum(precision * other**2, axis=axis), totals)
            rows, columns = (found, columns) if axis == 2 else (rows, found)
    return rows, columns, totals


def _projected(sums: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the closest distributions to noisy sums of given totals."""
    # Subtract the amount for which the positive parts add up to the total.
    ordered = -np.sort(-sums, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - totals[:, np.newaxis]
    size = np.arange(1, sums.shape[-1] + 1)
    last = np.sum(ordered > excess / size, axis=-1, keepdims=True) - 1
    amount = np.take_along_axis(excess, last, axis=-1) / (last + 1)
    found = np.maximum(sums - amount, 0.0)
    return found / found.sum(axis=-1, keepdims=True)


def _two_way(table: NoisyTable, name: str) -> tuple[int, int]:
    if len(table.shape) != 2 or min(table.shape) < 2:
        raise ValueError(
            f"{name} needs a table of two variables, each with several categories; got shape "
            f"{table.shape}"
        )
    return table.shape[0], table.shape[1]


def _independent(counts, totals, table):
    """Return the probabilities of independent variables that fit best, and their total."""
    rows, columns, totals = _fit_independent(counts, totals, table)
    return (rows[:, :, np.newaxis] * columns[:, np.newaxis]).reshape(counts.shape), totals


def _pearson(counts, totals, table):
    """Return Pearson's statistic of independence, with the noise in its variances."""
    probabilities, totals = _independent(counts, totals, table)
    expected = totals[:, np.newaxis] * probabilities
    variance = expected + table.mechanism.noise.variance_at(expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(variance > 0, (counts - expected) ** 2 / variance, 0.0)
    return terms.sum(axis=-1)


def independence(table: NoisyTable, *, n_resamples: int = 999, random_state: Any = 0) -> TestResult:
    """Test whether the two variables of a table are independent in the population.

    Parameters
    ----------
    table : NoisyTable
        Table of two variables.
    n_resamples : int, default=999
        Number of simulated tables. The smallest possible p-value is ``1 / (n_resamples + 1)``.
    random_state : int, Generator or None, default=0
        Seed of the simulation, which has no access to data.

    Returns
    -------
    TestResult

    Notes
    -----
    The statistic is Pearson's, with the variance of the noise added to the expected counts. Its
    null distribution is simulated with the estimated margins and the noise. Without noise the
    p-value is that of Pearson's chi-squared test.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, independence
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> independence(table).pvalue
    0.001
    """
    shape = _two_way(table, "independence")
    return _simulated(
        table,
        partial(_pearson, table=table),
        partial(_independent, table=table),
        (shape[0] - 1) * (shape[1] - 1),
        n_resamples,
        random_state,
    )


def homogeneity(table: NoisyTable, *, n_resamples: int = 999, random_state: Any = 0) -> TestResult:
    """Test whether the second variable has the same distribution in all groups.

    The groups are the categories of the first variable. The test is that of `independence`: it
    holds whether the sizes of the groups are chosen or random.

    Parameters
    ----------
    table, n_resamples, random_state
        As in `independence`.

    Returns
    -------
    TestResult

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, homogeneity
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> homogeneity(table).pvalue
    0.001
    """
    return independence(table, n_resamples=n_resamples, random_state=random_state)


def goodness_of_fit(
    table: NoisyTable,
    probabilities: ArrayLike | None = None,
    *,
    n_resamples: int = 999,
    random_state: Any = 0,
) -> TestResult:
    """Test whether the cells have given probabilities in the population.

    Parameters
    ----------
    table : NoisyTable
    probabilities : array-like of the shape of the table, optional
        Probabilities under the hypothesis. If None, they are equal.
    n_resamples, random_state
        As in `independence`.

    Returns
    -------
    TestResult

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, goodness_of_fit
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([301.5, 423.0, 211.7, 63.8], GaussianMechanism(4.0), n_records=1000)
    >>> goodness_of_fit(table, [0.3, 0.4, 0.2, 0.1]).pvalue
    0.006
    """
    if probabilities is None:
        p = np.full(table.size, 1 / table.size)
    else:
        p = _check_probabilities(probabilities, table.shape).ravel()
    noise = table.mechanism.noise

    def statistic(counts, totals):
        expected = totals[:, np.newaxis] * p
        variance = expected + noise.variance_at(expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = counts - counts.sum(axis=-1, keepdims=True) * p
            terms = np.where(variance > 0, residual**2 / variance, np.where(residual, np.inf, 0.0))
        return terms.sum(axis=-1)

    def null(counts, totals):
        return np.broadcast_to(p, counts.shape), totals

    return _simulated(table, statistic, null, table.size - 1, n_resamples, random_state)


def trend(
    table: NoisyTable,
    row_values: ArrayLike | None = None,
    column_values: ArrayLike | None = None,
    *,
    n_resamples: int = 999,
    random_state: Any = 0,
) -> TestResult:
    """Test whether two ordered variables are uncorrelated, if they are independent or linear.

    Parameters
    ----------
    table : NoisyTable
        Table of two variables.
    row_values, column_values : array-like, optional
        Numbers that the categories stand for. If None, 0, 1, 2 and so on.
    n_resamples, random_state
        As in `independence`.

    Returns
    -------
    TestResult

    Notes
    -----
    Without noise this is Mantel's linear-by-linear test, and that of Cochran and Armitage if
    one variable has two categories: the statistic is the number of records times the squared
    correlation.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, trend
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable(
    ...     [[160.2, 91.7, 48.5], [119.5, 123.1, 57.0]], GaussianMechanism(4.0), n_records=600
    ... )
    >>> trend(table).pvalue
    0.006
    """
    shape = _two_way(table, "trend")
    noise = table.mechanism.noise
    values = [
        _check_values(name, given, size)
        for name, given, size in zip(
            ("row_values", "column_values"), (row_values, column_values), shape, strict=True
        )
    ]

    def statistic(counts, totals):
        *margins, totals = _fit_independent(counts, totals, table)
        centred = [v - (p @ v)[:, np.newaxis] for v, p in zip(values, margins, strict=True)]
        spreads = [np.sum(p * c**2, axis=-1) for c, p in zip(centred, margins, strict=True)]
        found = np.einsum("tij,ti,tj->t", counts.reshape(-1, *shape), *centred)
        variance = totals * spreads[0] * spreads[1] * (1 + noise.per_count)
        variance += noise.variance * np.prod([np.sum(c**2, axis=-1) for c in centred], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 0, found**2 / variance, 0.0)

    null = partial(_independent, table=table)
    return _simulated(table, statistic, null, 1, n_resamples, random_state)


def _check_values(name: str, values: ArrayLike | None, size: int) -> np.ndarray:
    found = np.arange(float(size)) if values is None else check_real_array(name, values)
    if found.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},); got {found.shape}")
    if np.ptp(found) == 0:
        raise ValueError(f"{name} must not all be equal")
    return found


def _check_probabilities(probabilities: ArrayLike, shape: tuple[int, ...] | None) -> np.ndarray:
    p = check_real_array("probabilities", probabilities)
    if shape is not None and p.shape != shape:
        raise ValueError(f"probabilities must have the shape of the table, {shape}; got {p.shape}")
    if np.any(p < 0) or not np.isclose(p.sum(), 1.0):
        raise ValueError("probabilities must be non-negative and sum to 1; they do not")
    return p / p.sum()


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
    Estimate(0.1066, low=0.01938, high=0.1927, confidence=0.95)
    """
    table.check_population(population)
    shape = _two_way(table, "correlation")
    z = normal_quantile(confidence)
    u = np.repeat(_check_values("row_values", row_values, shape[0]), shape[1])
    v = np.tile(_check_values("column_values", column_values, shape[1]), shape[0])
    flat = table.counts.reshape(-1, table.size)
    counts, totals = _corrected(flat, table.n_records)
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
    return Estimate(*(each.reshape(lead) for each in (start, low, high)), confidence)


def _noise_variance(table: NoisyTable, weights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the variance of weighted sums of the noise of all cells with given counts."""
    if table.n_records is not None:
        weights = weights - weights.mean(axis=-1, keepdims=True)
    return np.sum(table.mechanism.noise.variance_at(counts) * weights**2, axis=-1)


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
        From 0 to 1. The interval is the whole range if the noise hides the size of a category.

    Notes
    -----
    The statistic of `independence` with the inverse covariance of all residuals has a noncentral
    chi-squared distribution. Noise shrinks some directions of association more than others. The
    interval allows for all directions, so it covers more than `confidence` in larger tables.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, cramers_v
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> cramers_v(table)
    Estimate(0.2464, low=0.179, high=0.3138, confidence=0.95)
    """
    table.check_population(True)
    check_real("confidence", confidence, above=0, below=1)
    shape = _two_way(table, "cramers_v")
    law = table.law
    flat = table.counts.reshape(-1, table.size)
    counts, totals = _corrected(flat, table.n_records)
    # Margins of dependent variables are sums; the noise must not hide the smallest of them.
    sums = [counts.reshape(-1, *shape).sum(axis=axis) for axis in (2, 1)]
    noise = [np.sqrt(law.variance * size) for size in (shape[1], shape[0])]
    clear = [
        each.min(axis=-1) >= _MIN_SIGNAL * level for each, level in zip(sums, noise, strict=True)
    ]
    known = np.logical_and(*clear)
    rows, columns = (_projected(each, totals) for each in sums)
    dof = (shape[0] - 1) * (shape[1] - 1)
    statistic, weak, strong, centre = _standardised(counts, totals, (rows, columns), law)
    tails = (1 - confidence) / 2
    low = noncentrality(statistic, dof, 1 - tails) * weak
    high = noncentrality(statistic, dof, tails) * strong
    scale = totals * (min(shape) - 1)
    value, low, high = (np.sqrt(np.clip(each / scale, 0.0, 1.0)) for each in (centre, low, high))
    low, high = np.where(known, low, 0.0), np.where(known, high, 1.0)
    lead = table.counts.shape[: table.batch_dims]
    value = np.clip(value, low, high)
    return Estimate(*(each.reshape(lead) for each in (value, low, high)), confidence)


def _standardised(counts, totals, margins, law):
    """Return the statistic, the range of its loss by noise, and the squared association.

    Without noise the noncentrality is the association phi^2 times the number of records. With
    noise it is divided by a number between the second and the third result.
    """
    smallest = _MIN_MARGIN / totals[:, np.newaxis]
    (left, first), (right, second) = (_contrasts(np.maximum(p, smallest)) for p in margins)
    tables = counts.reshape(len(counts), left.shape[2], right.shape[2])
    residual = left @ tables @ right.transpose(0, 2, 1)
    residual = residual.reshape(len(counts), -1) / np.sqrt(totals)[:, np.newaxis]
    # The covariance of the contrasts is diagonal: that of the counts is 1, the noise is added.
    levels = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape(residual.shape)
    levels = 1 + (law.variance / totals)[:, np.newaxis] * levels + (1 / law.r if law.r > 0 else 0.0)
    return (
        np.sum(residual**2 / levels, axis=-1),
        levels.min(axis=-1),
        levels.max(axis=-1),
        np.maximum(np.sum(residual**2 - levels, axis=-1), 0.0),
    )


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


def noncentrality(statistic: np.ndarray, dof: int, probability: float) -> np.ndarray:
    """Return noncentralities at which the statistic has a given distribution function; 0 if none."""
    low = np.zeros(statistic.shape)
    high = statistic + 10 * np.sqrt(statistic + dof) + 50
    for _ in range(60):
        middle = (low + high) / 2
        larger = chndtr(statistic, dof, middle) > probability
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
    return low
