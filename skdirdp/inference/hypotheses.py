"""Tests of noisy tables, and their power before any data are seen.

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
from scipy.stats import chi2

from .._validation import check_choice, check_integer, check_real, check_real_array
from ..accounting.worst_case import replaces
from ..mechanisms.base import Mechanism
from ..mechanisms.calibration import calibrate
from ..numerics.rows import row_blocks
from .estimates import NoisyTable
from .z_scores import NoiseDistribution

# Alternating steps of the fit of independent variables.
_FITS = 4
# Categories are hidden by the noise if they are below this many of its standard deviations.
_MIN_SIGNAL = 2.0
# Budgets and numbers of records are searched within these limits, to this relative precision.
_EPSILONS, _RECORDS, _PRECISION = (1e-3, 1e3), (10.0, 1e9), 0.02
# Tables are simulated in blocks of about this many cells, which fit into the cache.
_BLOCK_CELLS = 1 << 17
# NumPy draws hypergeometric variables for fewer records than this.
_MAX_HYPERGEOMETRIC = 10**9


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
    counts: np.ndarray, noise: NoiseDistribution, generator: np.random.Generator
) -> np.ndarray:
    """Draw the noise of counts; for simulations only."""
    if noise.r > 0:
        return (generator.gamma(noise.r * counts + noise.alpha) - noise.alpha) / noise.r
    if noise.b > 0:
        return counts + generator.laplace(scale=noise.b, size=counts.shape)
    return counts + generator.normal(scale=noise.sigma, size=counts.shape)


def _tables_given_margins(
    p: np.ndarray, n: np.ndarray, size: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw tables of independent variables, given both margins, as Fisher's exact test does.

    Parameters
    ----------
    p : ndarray of shape (n_tables, n_rows, n_columns)
        Products of margins.
    n : ndarray of shape (n_tables,)
        Numbers of records.
    size : int
        Number of draws.
    generator : Generator

    Returns
    -------
    ndarray of shape (size, n_tables, n_rows, n_columns)
    """
    rows, columns = (_rounded(p.sum(axis=axis), n) for axis in (2, 1))
    left = np.repeat(columns[np.newaxis], size, axis=0)
    counts = np.empty((size, *p.shape))
    for i in range(p.shape[1]):
        wanted = np.repeat(rows[np.newaxis, :, i], size, axis=0)
        others = left.sum(axis=-1)
        for j in range(p.shape[2]):
            others = others - left[..., j]
            drawn = generator.hypergeometric(left[..., j], others, wanted)
            counts[..., i, j] = drawn
            left[..., j] -= drawn
            wanted = wanted - drawn
    return counts


def _rounded(shares: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return whole numbers with the sums n, the nearest to the given shares of them."""
    expected = shares * n[:, np.newaxis]
    found = np.floor(expected + 1e-9).astype(np.int64)
    lacking = (n - found.sum(axis=1))[:, np.newaxis]
    rank = np.argsort(np.argsort(found - expected, axis=1), axis=1)
    return found + (rank < lacking)


def corrected(counts: np.ndarray, n: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy counts, moved to a known total by equal amounts, and their total."""
    total = counts.sum(axis=-1)
    if n is None:
        return counts, np.maximum(total, 1.0)
    counts = counts + ((n - total) / counts.shape[-1])[..., np.newaxis]
    return counts, np.full(total.shape, max(float(n), 1.0))


@dataclass(frozen=True)
class _Hypothesis:
    """A hypothesis about the cells of a table.

    `statistic` and `fit` are functions of corrected counts, of shape (..., n_cells), and their
    totals: the test statistics, and the tables that are simulated (probabilities, totals). If
    `given_margins`, the simulated tables have the margins of the fit before noise.
    """

    table: NoisyTable
    dof: int
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray]
    fit: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    given_margins: bool = False

    def simulate(
        self,
        p: np.ndarray,
        totals: np.ndarray,
        size: int,
        generator: np.random.Generator,
        given_margins: bool = False,
    ) -> np.ndarray:
        """Return statistics of simulated tables, of shape (size, n_tables)."""
        table, n = self.table, np.rint(totals).astype(np.int64)
        if given_margins and n.max() < _MAX_HYPERGEOMETRIC:
            counts = _tables_given_margins(p.reshape(-1, *table.shape), n, size, generator)
        else:
            counts = generator.multinomial(n, p, size=(size, len(p))).astype(float)
        drawn = _draw(counts.reshape(-1, table.size), table.law, generator)
        return self.statistic(*corrected(drawn, table.n_records)).reshape(size, -1)

    def test(self, n_resamples: int, random_state: Any) -> TestResult:
        """Test the hypothesis by a parametric bootstrap."""
        table = self.table
        check_integer("n_resamples", n_resamples, at_least=19)
        flat = table.counts.reshape(-1, table.size)
        counts, totals = corrected(flat, table.n_records)
        found = self.statistic(counts, totals)
        shape = table.counts.shape[: table.batch_dims]
        if table.law.is_zero:
            pvalue = chi2.sf(found, self.dof)
        else:
            generator = np.random.default_rng(random_state)
            p, totals = self.fit(counts, totals)
            larger = [
                self.simulate(p[i], totals[i], n_resamples, generator, self.given_margins)
                >= found[i]
                for i in row_blocks(len(flat), n_resamples * table.size, _BLOCK_CELLS)
            ]
            pvalue = (1 + np.concatenate(larger, axis=1).sum(axis=0)) / (1 + n_resamples)
        return TestResult(found.reshape(shape), pvalue.reshape(shape), self.dof)


def _fit_independent(
    counts: np.ndarray, totals: np.ndarray, table: NoisyTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit independent variables: the distributions of rows and columns, and the total.

    Least squares with the variance of counts and noise. Without noise the fit is that of the
    margins; with much noise, large cells determine it better than sums of many cells do. The
    total is fitted too if it is not public.
    """
    noise = table.noise
    tables = counts.reshape(-1, *table.shape)
    rows, columns = (projected(tables.sum(axis=axis), totals) for axis in (2, 1))
    if table.law.is_zero:
        return rows, columns, totals
    per_count, variance = 1 + noise.per_count, noise.variance
    for _ in range(_FITS):
        for axis in (2, 1):
            precision = (per_count * totals)[:, np.newaxis, np.newaxis] * rows[:, :, np.newaxis]
            precision = precision * columns[:, np.newaxis]
            precision += variance
            np.reciprocal(precision, out=precision)
            weighted = precision * tables
            if table.n_records is None:
                fitted = np.einsum("tij,ti,tj->t", weighted, rows, columns)
                known = np.einsum("tij,ti,tj->t", precision, rows**2, columns**2)
                totals = np.maximum(fitted / known, 1.0)
            if axis == 2:
                found = np.einsum("tij,tj->ti", weighted, columns)
                found /= np.einsum("tij,tj->ti", precision, columns**2)
                rows = projected(found, totals)
            else:
                found = np.einsum("tij,ti->tj", weighted, rows)
                found /= np.einsum("tij,ti->tj", precision, rows**2)
                columns = projected(found, totals)
    return rows, columns, totals


def projected(sums: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the closest distributions to noisy sums of given totals."""
    # Subtract the amount for which the positive parts add up to the total.
    ordered = -np.sort(-sums, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - totals[:, np.newaxis]
    size = np.arange(1, sums.shape[-1] + 1)
    last = np.sum(ordered > excess / size, axis=-1, keepdims=True) - 1
    amount = np.take_along_axis(excess, last, axis=-1) / (last + 1)
    found = np.maximum(sums - amount, 0.0)
    return found / found.sum(axis=-1, keepdims=True)


def check_two_way(table: NoisyTable, name: str) -> tuple[int, int]:
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


def _visible(counts, totals, table):
    """Return the fit of independent variables without the categories that the noise hides.

    The fit takes the noise of empty categories for records, so it is flatter than the truth. The
    flatter a table is, the more of its noise is fitted, and the smaller the statistic is. Tables
    simulated from the fit would therefore be too small, and tests would reject too often.
    """
    rows, columns, totals = _fit_independent(counts, totals, table)
    first, second = rows[:, :, np.newaxis], columns[:, np.newaxis]
    expected = totals[:, np.newaxis, np.newaxis] * first * second
    noise = table.noise.variance_at(expected)
    precision = 1 / (expected + noise)
    kept, left = [], totals
    for margin, other, axis in ((rows, second, 2), (columns, first, 1)):
        weights = precision * other
        deviation = np.sqrt(np.sum(noise * weights**2, axis=axis))
        deviation /= np.sum(weights * other, axis=axis)
        visible = totals[:, np.newaxis] * margin >= _MIN_SIGNAL * deviation
        visible |= margin == margin.max(axis=-1, keepdims=True)
        part = np.where(visible, margin, 0.0)
        kept.append(part / part.sum(axis=-1, keepdims=True))
        if table.n_records is None:
            left = np.maximum(left * part.sum(axis=-1), 1.0)
    product = kept[0][:, :, np.newaxis] * kept[1][:, np.newaxis]
    return product.reshape(counts.shape), left


def _pearson(counts, totals, table):
    """Return Pearson's statistic of independence, with the noise in its variances."""
    probabilities, totals = _independent(counts, totals, table)
    expected = totals[:, np.newaxis] * probabilities
    variance = expected + table.noise.variance_at(expected)
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
    null distribution is simulated with the noise, given the estimated margins, in which
    categories that the noise hides are empty. Without noise the p-value is that of Pearson's
    chi-squared test.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, independence
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> independence(table).pvalue
    0.001
    """
    return _independence(table).test(n_resamples, random_state)


def _independence(table: NoisyTable) -> _Hypothesis:
    table = table.for_population()
    shape = check_two_way(table, "independence")
    dof = (shape[0] - 1) * (shape[1] - 1)
    functions = (partial(_pearson, table=table), partial(_visible, table=table))
    return _Hypothesis(table, dof, *functions, given_margins=True)


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
    return _goodness_of_fit(table, probabilities).test(n_resamples, random_state)


def _goodness_of_fit(table: NoisyTable, probabilities: ArrayLike | None) -> _Hypothesis:
    table = table.for_population()
    if probabilities is None:
        p = np.full(table.size, 1 / table.size)
    else:
        p = _check_probabilities(probabilities, table.shape).ravel()
    noise = table.noise

    def statistic(counts, totals):
        expected = totals[:, np.newaxis] * p
        variance = expected + noise.variance_at(expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = counts - counts.sum(axis=-1, keepdims=True) * p
            terms = np.where(variance > 0, residual**2 / variance, np.where(residual, np.inf, 0.0))
        return terms.sum(axis=-1)

    def fit(counts, totals):
        return np.broadcast_to(p, counts.shape), totals

    return _Hypothesis(table, table.size - 1, statistic, fit)


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
    0.018
    """
    return _trend(table, row_values, column_values).test(n_resamples, random_state)


def _trend(
    table: NoisyTable, row_values: ArrayLike | None, column_values: ArrayLike | None
) -> _Hypothesis:
    shape = check_two_way(table, "trend")
    table = table.for_population()
    noise = table.noise
    values = [
        check_values(name, given, size)
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

    fit = partial(_independent, table=table)
    return _Hypothesis(table, 1, statistic, fit, given_margins=True)


def check_values(name: str, values: ArrayLike | None, size: int) -> np.ndarray:
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


# Power ------------------------------------------------------------------------------------


def power(
    probabilities: ArrayLike,
    n_records: int,
    mechanism: Mechanism,
    *,
    test: str = "independence",
    null: ArrayLike | None = None,
    level: float = 0.05,
    n_resamples: int = 2000,
    random_state: Any = 0,
) -> float:
    """Compute the probability that a test rejects, before any data are seen.

    Parameters
    ----------
    probabilities : array-like
        Assumed probabilities of the cells of the table.
    n_records : int
        Number of records. The test uses it if it is public under the mechanism's adjacency.
    mechanism : Mechanism
        The calibrated mechanism of the table.
    test : {"independence", "trend", "goodness_of_fit"}, default="independence"
        The test. `homogeneity` has the power of `independence`.
    null : array-like, optional
        Probabilities under the hypothesis of `goodness_of_fit`. If None, they are equal.
    level : float, default=0.05
        Level of the test.
    n_resamples : int, default=2000
        Number of tables that are simulated under the hypothesis, and under `probabilities`.
    random_state : int, Generator or None, default=0
        Seed of the simulation.

    Returns
    -------
    float
        With a standard error of at most ``0.5 / sqrt(n_resamples)``.

    Examples
    --------
    >>> from skdirdp.inference import power
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism.calibrate(epsilon=1.0)
    >>> 0.9 < power([[0.3, 0.2], [0.2, 0.3]], 500, mechanism) <= 1.0
    True
    """
    check_choice("test", test, ("independence", "trend", "goodness_of_fit"))
    check_real("level", level, above=0, below=1)
    check_integer("n_records", n_records, at_least=1)
    check_integer("n_resamples", n_resamples, at_least=100)
    p = _check_probabilities(probabilities, None)
    public = n_records if replaces(mechanism.adjacency) else None
    table = NoisyTable(np.zeros(p.shape), mechanism, public).for_population()
    if test == "goodness_of_fit":
        hypothesis = _goodness_of_fit(table, null)
        base = hypothesis.fit(np.zeros((1, p.size)), np.ones(1))[0]
    else:
        hypothesis = _independence(table) if test == "independence" else _trend(table, None, None)
        base = np.outer(p.sum(axis=1), p.sum(axis=0)).reshape(1, -1)
    generator = np.random.default_rng(random_state)
    total = np.array([n_records / table.unit])
    usual, found = (
        hypothesis.simulate(each, total, n_resamples, generator)
        for each in (base, p.reshape(1, -1))
    )
    return float(np.mean(found > np.quantile(usual, 1 - level)))


def budget_for_power(
    target: float,
    probabilities: ArrayLike,
    n_records: int,
    *,
    mechanism: str = "gaussian",
    delta: float = 1e-5,
    adjacency: str = "replace",
    releases: int = 1,
    **options: Any,
) -> float:
    """Find the smallest epsilon at which a test has a power.

    Parameters
    ----------
    target : float in (0, 1)
        The power.
    probabilities, n_records
        As in `power`.
    mechanism, delta, adjacency, releases
        As in `skdirdp.mechanisms.calibrate`.
    **options
        Other parameters of `power`.

    Returns
    -------
    float
        Accurate to about 2%, or infinite if an epsilon of 1000 is not enough.

    Examples
    --------
    >>> from skdirdp.inference import budget_for_power
    >>> 0.1 < budget_for_power(0.8, [[0.3, 0.2], [0.2, 0.3]], 500) < 1.0
    True
    """
    n_cells = np.size(probabilities)

    def reached(epsilon: float) -> float:
        drawn = calibrate(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            releases=releases,
            n_samples=n_records,
            n_categories=n_cells,
        )
        return power(probabilities, n_records, drawn, **options)

    return _smallest_reaching(target, reached, _EPSILONS)


def rows_for_power(
    target: float, probabilities: ArrayLike, mechanism: Mechanism, **options: Any
) -> int | float:
    """Find the smallest number of records at which a test has a power.

    Parameters
    ----------
    target : float in (0, 1)
        The power.
    probabilities, mechanism
        As in `power`.
    **options
        Other parameters of `power`.

    Returns
    -------
    int or float
        Accurate to about 2%, or infinite if a billion records are not enough.

    Examples
    --------
    >>> from skdirdp.inference import rows_for_power
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism.calibrate(epsilon=1.0)
    >>> 100 < rows_for_power(0.8, [[0.3, 0.2], [0.2, 0.3]], mechanism) < 500
    True
    """

    def reached(n_records: float) -> float:
        return power(probabilities, round(n_records), mechanism, **options)

    found = _smallest_reaching(target, reached, _RECORDS)
    return found if np.isinf(found) else int(np.ceil(found))


def _smallest_reaching(
    target: float, reached: Callable[[float], float], limits: tuple[float, float]
) -> float:
    """Return the smallest value at which an increasing power reaches a target, or infinity."""
    check_real("target", target, above=0, below=1)
    low, high = np.log(limits)
    if reached(float(np.exp(high))) < target:
        return np.inf
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(float(np.exp(middle))) >= target else (middle, high)
    return float(np.exp(high))
