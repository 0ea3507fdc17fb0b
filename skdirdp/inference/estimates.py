"""Estimates with confidence intervals from noisy tables.

An interval contains the values that a two-sided test does not reject. The variance of the tests
is taken at the tested value, and includes the sampling of the records and the noise.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import chi2
from scipy.stats import t as student

from .._validation import check_integer, check_real, check_real_array
from ..mechanisms.base import Mechanism
from ..mechanisms.tables import Noise
from .z_scores import (
    Groups,
    NoiseDistribution,
    mean_z_scores,
    noise_variance,
    share_z_scores,
    tilt_to_zero_mean,
)

# Points between an estimate and an end of its range at which tests are evaluated, and halvings
# of the step between two of them. The limits are then within 4e-5 of the range of exact ones.
_SCAN, _HALVINGS = 12, 12
# Count that is added to every cell of a table whose distribution is estimated, as in Jeffreys'
# prior: no category is excluded.
_PSEUDO_COUNT = 0.5
# Quantiles that represent a chi-squared distribution, and halvings that find an interval.
_RANKS, _REACH_HALVINGS = 200, 30


@dataclass(frozen=True)
class Estimate:
    """An estimate with a confidence interval; all fields may be arrays.

    Attributes
    ----------
    value : float or ndarray
        The estimate.
    low, high : float or ndarray
        Limits of the interval.
    confidence : float
        Probability that an interval contains the true value.

    Examples
    --------
    >>> from skdirdp.inference import Estimate
    >>> Estimate(0.25, 0.2, 0.31, 0.95)
    Estimate(0.25, low=0.2, high=0.31, confidence=0.95)
    """

    value: Any
    low: Any
    high: Any
    confidence: float

    def __post_init__(self):
        for name in ("value", "low", "high"):
            array = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, float(array) if array.ndim == 0 else array)

    def __repr__(self) -> str:
        def show(value):
            if isinstance(value, float):
                return f"{value:.4g}"
            return np.array2string(value, precision=4, suppress_small=True, separator=", ")

        return (
            f"Estimate({show(self.value)}, low={show(self.low)}, high={show(self.high)}, "
            f"confidence={self.confidence:g})"
        )

    def __getitem__(self, index: Any) -> "Estimate":
        """Return some of the estimates of an array."""
        return Estimate(self.value[index], self.low[index], self.high[index], self.confidence)


@dataclass(frozen=True)
class NoisyTable:
    """Noisy counts of a released table, with the mechanism that drew them.

    Parameters
    ----------
    counts : array-like of 1 to 3 dimensions
        Counts with noise of mean 0; some may be negative. For Dirichlet releases they are
        ``(G - alpha) / r`` with the gamma variables G.
    mechanism : Mechanism
        Gaussian, Laplace or Dirichlet mechanism.
    n_records : int, optional
        Public number of counted records. None if it is protected.
    batch_dims : int, default=0
        Number of leading dimensions that are not variables: they index independent tables of the
        same shape, and results have them too.
    unit : float, default=1.0
        Number of records in the unit of `counts` and `n_records`; see `for_population`.

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, share
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> share(table, [[False, True], [False, True]])
    Estimate(0.1225, low=0.1019, high=0.1455, confidence=0.95)
    """

    counts: Any
    mechanism: Mechanism
    n_records: float | None = None
    batch_dims: int = 0
    unit: float = 1.0

    def __post_init__(self):
        counts = np.asarray(self.counts, dtype=float)
        check_integer("batch_dims", self.batch_dims, at_least=0)
        if not 1 <= counts.ndim - self.batch_dims <= 3 or 0 in counts.shape:
            raise ValueError(
                "counts must have 1 to 3 dimensions besides batch_dims, none of them empty; "
                f"got shape {counts.shape}"
            )
        if not np.isfinite(counts).all():
            raise ValueError("counts must be finite; some are not")
        # Other mechanisms release no counts with noise of mean 0.
        if getattr(self.mechanism, "name", None) not in ("gaussian", "laplace", "dirichlet"):
            raise TypeError(
                "mechanism must be a GaussianMechanism, LaplaceMechanism or DirichletMechanism; "
                f"got {type(self.mechanism).__name__}"
            )
        if self.n_records is not None:
            check_real("n_records", self.n_records, at_least=0)
        object.__setattr__(self, "counts", counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of categories of each variable."""
        return self.counts.shape[self.batch_dims :]

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape))

    @property
    def noise(self) -> Noise:
        """Variance of the noise of `counts`."""
        variance, per_count, is_laplace = self.mechanism.noise
        return Noise(variance / self.unit**2, per_count / self.unit, is_laplace)

    @property
    def law(self) -> NoiseDistribution:
        """Distribution of the noise."""
        return NoiseDistribution.from_noise(self.noise)

    def margin(self, *axes: int) -> np.ndarray:
        """Return the noisy counts summed over all other variables.

        Parameters
        ----------
        *axes : int
            Variables that are kept.
        """
        dropped = [axis for axis in range(len(self.shape)) if axis not in axes]
        return self.counts.sum(axis=tuple(axis + self.batch_dims for axis in dropped))

    def flat(self, corrected: bool = True) -> np.ndarray:
        """Return the noisy counts with one dimension for all cells.

        Parameters
        ----------
        corrected : bool, default=True
            Whether noisy counts with additive noise are moved by equal amounts, so that they add
            up to the number of records if it is public.
        """
        counts = self.counts.reshape(*self.counts.shape[: self.batch_dims], self.size)
        if corrected and self.n_records is not None and self.law.r == 0:
            counts = counts + (self.n_records - counts.sum(axis=-1, keepdims=True)) / self.size
        return counts

    def for_population(self, population: bool = True) -> "NoisyTable":
        """Return the table in units of independent records, for inference about the population.

        A person may have up to m records, which need not be independent. By the inequality of
        Cauchy and Schwarz, their sum has at most m times the variance of as many independent
        records. This is the variance of counts that are divided by m. So intervals and tests hold
        for independent people, and are conservative if the records of a person differ. The same
        holds for records of weight up to m.

        Parameters
        ----------
        population : bool, default=True
            If False, the table itself is returned.
        """
        bound = self.mechanism.contribution
        unit = bound.max_count if bound.max_total is None else bound.max_total
        if not population or unit == self.unit:
            return self
        n_records = None if self.n_records is None else self.n_records / unit
        return replace(self, counts=self.counts / unit, n_records=n_records, unit=unit)


def cell_masks(table: NoisyTable, cells: Any, name: str) -> np.ndarray:
    """Return sets of cells as a boolean array of shape (..., n_cells)."""
    shape = table.shape
    mask = np.asarray(cells) if isinstance(cells, np.ndarray | list) else None
    if mask is None or mask.dtype != bool:
        chosen = np.zeros(shape, dtype=bool)
        chosen[cells] = True
        mask = chosen
    if mask.shape[mask.ndim - len(shape) :] != shape:
        raise ValueError(
            f"{name} must be an index of the table, or a boolean array whose last dimensions are "
            f"{shape}; got shape {mask.shape}"
        )
    return mask.reshape(*mask.shape[: mask.ndim - len(shape)], table.size)


class TestedMean:
    """The mean of values of groups of cells, as a hypothesis to be tested.

    Parameters
    ----------
    table : NoisyTable
    values : ndarray of shape (n_groups,)
        Value of each group.
    groups : ndarray of shape (..., n_groups, n_cells)
        The cells of each group.
    population : bool
        Whether the records are a sample.
    corrected : bool, default=True
        Whether a known total corrects the noisy counts. It makes the noise of several means
        dependent.
    """

    def __init__(self, table, values, groups, population, corrected=True):
        self.law, self.n_records = table.law, table.n_records
        self.values, self.sampling = values, population
        counts = table.flat(corrected)
        lead = counts.shape[:-1] + groups.shape[:-1]
        self.noisy = np.tensordot(counts, groups.astype(float), axes=(-1, -1)).reshape(lead)
        self.cells = np.broadcast_to(groups.sum(axis=-1).astype(float), lead)
        self.sum = self.noisy.sum(axis=-1)
        self.outside = table.size - self.cells.sum(axis=-1)
        # Gamma variables are corrected in the whole table only.
        is_used = corrected and table.n_records is not None
        is_used = is_used and (self.law.r == 0 or bool(np.all(self.outside == 0)))
        self._corrected = self.outside if is_used else None
        self.possible = self.cells > 0  # a group without cells has no records
        self.least = np.where(self.possible, values, np.inf).min(axis=-1)
        self.most = np.where(self.possible, values, -np.inf).max(axis=-1)
        self.known = self.least < self.most
        self._prepare()

    def _prepare(self) -> None:
        total = np.where(self.sum > 0, self.sum, 1.0)
        value = np.sum(self.values * self.noisy, axis=-1) / total
        value = np.where(self.sum > 0, value, (self.least + self.most) / 2)
        self.value = np.clip(value, self.least, self.most)
        weights = np.maximum(self.noisy, 0.0) + _PSEUDO_COUNT
        self.weights = np.where(self.possible, weights, 0.0)

    def distribution(self, mean: np.ndarray) -> np.ndarray:
        """Return the estimated distribution, tilted exponentially to a given mean."""
        return tilt_to_zero_mean(self.weights, self.values - mean[..., np.newaxis])

    def _total(self, mean, p):
        """Return the best linear estimate of the number of records in all groups."""
        if self.n_records is not None and np.all(self.outside == 0):
            return np.broadcast_to(float(self.n_records), mean.shape)
        total = np.maximum(self.sum, 0.0)
        if not self.law.is_zero:
            # Regress on the contrast, whose mean is 0 and which shares the noise.
            contrast = self.values - mean[..., np.newaxis]
            common = np.sum(self.cells * contrast, axis=-1)
            if self._corrected is not None:
                common = common * self.outside / (self.cells.sum(axis=-1) + self.outside)
            spread = np.maximum(self._variance(mean, p, total), 1e-300)
            found = np.sum(contrast * self.noisy, axis=-1)
            total = total - self.law.variance * common / spread * found
        return np.clip(total, 0.0, np.inf if self.n_records is None else self.n_records)

    def _variance(self, mean, p, total):
        """Return the variance of the sum of ``(values - mean) noisy``."""
        contrast = self.values - mean[..., np.newaxis]
        counts = total * np.sum(p * contrast**2, axis=-1)
        per_count = 1 / self.law.r if self.law.r > 0 else 0.0
        noise = noise_variance(self.law, self.cells, contrast, self._corrected)
        return counts * (self.sampling + per_count) + noise

    def _test(self, mean):
        """Return the z-score of a hypothesis, and whether tests can reject below and above."""
        mean = np.clip(np.broadcast_to(mean, self.value.shape), self.least, self.most)
        p = self.distribution(mean)
        total = self._total(mean, p)
        reach = np.sqrt(self._variance(mean, p, total))
        groups = Groups(self.noisy, self.cells, total, self._corrected)
        found = np.where(self.known, self._z_score(groups, mean, p), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return found, total * (mean - self.least) / reach, total * (self.most - mean) / reach

    def _z_score(self, groups, mean, p):
        bounds = (self.least, self.most)
        return mean_z_scores(self.law, groups, self.values, mean, p, self.sampling, bounds)

    def z_score(self, mean: Any) -> np.ndarray:
        """Return the z-score of the noisy mean if the true mean is `mean`."""
        return self._test(mean)[0]

    def sides(self, mean: Any, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return whether a test rejects a mean as too large, and as too small.

        A noisy mean beyond the possible ones counts as the nearest possible one. Near the ends of
        the range a test can therefore reject on one side only. All errors are then allowed there.
        """
        found, below, above = self._test(mean)
        two, one = ndtri((1 + confidence) / 2), ndtri(confidence)
        if self.law.is_zero:
            return found < -two, found > two  # no noisy mean is beyond the possible ones
        with np.errstate(invalid="ignore"):
            never_low, never_high = below < two, above < two
        # Both hold for hypotheses that leave hardly any records in the groups.
        never_low, never_high = never_low & ~never_high, never_high & ~never_low
        low = np.where(never_low, np.inf, np.where(never_high, one, two))
        high = np.where(never_low, one, np.where(never_high, np.inf, two))
        return found < -low, found > high

    def limit(self, end: np.ndarray, confidence: float) -> np.ndarray:
        """Return the mean closest to an end of the range that a test does not reject."""

        def accepts(mean):
            return ~np.logical_or(*self.sides(mean, confidence))

        return np.where(self.known, last_accepted(accepts, self.value, end), self.value)


class TestedShare(TestedMean):
    """The share of the first of two groups of cells in both, as a hypothesis to be tested."""

    def __init__(self, table, inside, given, population, corrected=True):
        groups = np.stack([inside & given, ~inside & given], axis=-2)
        super().__init__(table, np.array([1.0, 0.0]), groups, population, corrected)

    def _prepare(self):
        # A noisy count beyond the possible ones is evidence for the nearest possible one.
        self.noisy = np.clip(self.noisy, 0.0, np.inf if self.n_records is None else self.n_records)
        total = self.noisy.sum(axis=-1)
        value = np.where(total > 0, self.noisy[..., 0] / np.where(total > 0, total, 1.0), 0.5)
        self.value = np.where(self.known, value, self.most)

    def distribution(self, mean):
        return np.stack([mean, 1 - mean], axis=-1)

    def _z_score(self, groups, mean, p):
        return share_z_scores(self.law, groups, mean, self.sampling)


def last_accepted(
    accepts: Callable[[np.ndarray], np.ndarray], start: np.ndarray, end: Any
) -> np.ndarray:
    """Return the accepted value that is closest to `end`, if `start` is accepted."""
    # Accepted values need not be an interval: noise may decide at one value, and not beyond.
    steps = np.linspace(0.0, 1.0, _SCAN + 1) ** 2
    inner, outer = start, start + steps[1] * (end - start)
    for step, following in zip(steps[1:], [*steps[2:], None], strict=True):
        value = start + step * (end - start)
        accepted = accepts(value)
        inner = np.where(accepted, value, inner)
        beyond = value if following is None else start + following * (end - start)
        outer = np.where(accepted, beyond, outer)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        accepted = accepts(middle)
        inner, outer = np.where(accepted, middle, inner), np.where(accepted, outer, middle)
    return outer


def normal_quantile(confidence: float) -> float:
    """Return the half-width of a two-sided interval of a standard normal variable."""
    check_real("confidence", confidence, above=0, below=1)
    return float(ndtri((1 + confidence) / 2))


def share(
    table: NoisyTable,
    cells: Any = None,
    given: Any = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the probability of cells, or their conditional probability.

    Parameters
    ----------
    table : NoisyTable
    cells : index or boolean array of the shape of the table, optional
        A set of cells, or several along the first dimension. If None, every cell is a set.
    given : index or boolean array, optional
        Cells of the condition, likewise. If None, all cells.
    axis : int or tuple of int, optional
        If `cells` is None: condition each cell on its categories of these variables.
    confidence : float, default=0.95
        Probability that an interval contains the true value.
    population : bool, default=True
        Whether the interval is for the population that the records were drawn from, or for the
        counted records themselves.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.inference import NoisyTable, share
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([[480.2, 21.7], [399.5, 103.1]], GaussianMechanism(4.0), n_records=1000)
    >>> share(table, np.s_[1, 1], given=1)
    Estimate(0.2038, low=0.1683, high=0.2428, confidence=0.95)
    """
    table = table.for_population(population)
    check_real("confidence", confidence, above=0, below=1)
    every = cells is None
    inside = np.eye(table.size, dtype=bool) if every else cell_masks(table, cells, "cells")
    condition = _condition(table, given)
    if given is None and axis is not None:
        kept = np.indices(table.shape).reshape(len(table.shape), -1)[np.atleast_1d(axis)]
        condition = (kept[:, :, np.newaxis] == kept[:, np.newaxis]).all(axis=0)
    inside, condition = np.broadcast_arrays(inside, condition)
    found = TestedShare(table, inside, condition, population)
    low, high = (found.limit(end, confidence) for end in (found.least, found.most))
    shape = table.counts.shape if every else found.value.shape
    value, low, high = (each.reshape(shape) for each in (found.value, low, high))
    return Estimate(value, low, high, confidence)


# Numbers in bins ------------------------------------------------------------------------


def _numbers(table: NoisyTable, values: ArrayLike | None, edges: ArrayLike | None, axis: int):
    """Return the least, the middle and the greatest value of each category of a variable."""
    size = table.shape[axis]
    if (values is None) == (edges is None):
        raise TypeError("either values or edges must be given, and not both")
    if values is not None:
        found = check_real_array("values", values)
        if found.shape != (size,):
            raise ValueError(f"values must have shape ({size},); got {found.shape}")
        return found, found, found
    found = check_real_array("edges", edges)
    if found.shape != (size + 1,) or np.any(np.diff(found) <= 0):
        raise ValueError(f"edges must be {size + 1} increasing numbers; got shape {found.shape}")
    return found[:-1], (found[:-1] + found[1:]) / 2, found[1:]


def _condition(table: NoisyTable, given: Any) -> np.ndarray:
    """Return the sets of cells of a condition; all cells if it is None."""
    return np.ones(table.size, dtype=bool) if given is None else cell_masks(table, given, "given")


def mean(
    table: NoisyTable,
    values: ArrayLike | None = None,
    *,
    edges: ArrayLike | None = None,
    axis: int = 0,
    given: Any = None,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate the mean of a number.

    Parameters
    ----------
    table : NoisyTable
    values : array-like of shape (n_categories,), optional
        The number that each category of the variable stands for.
    edges : array-like of shape (n_categories + 1,), optional
        Edges of the bins, instead of `values`. The interval then contains the mean wherever the
        numbers lie in their bins; the estimate takes their centres.
    axis : int, default=0
        The variable.
    given : index or boolean array, optional
        Cells of a condition, as in `share`.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, mean
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([301.5, 423.0, 211.7, 63.8], GaussianMechanism(4.0), n_records=1000)
    >>> mean(table, [0, 1, 2, 3])
    Estimate(1.038, low=0.9814, high=1.096, confidence=0.95)
    >>> mean(table, edges=[0, 10, 20, 40, 80])
    Estimate(18.03, low=10.35, high=26.28, confidence=0.95)
    """
    table = table.for_population(population)
    check_real("confidence", confidence, above=0, below=1)
    condition = _condition(table, given)
    codes = np.indices(table.shape)[axis].ravel()
    low, centre, high = (
        _test_mean(table, numbers[codes], condition, population)
        for numbers in _numbers(table, values, edges, axis)
    )
    limits = low.limit(low.least, confidence), high.limit(high.most, confidence)
    return Estimate(centre.value, *limits, confidence)


def _test_mean(table, numbers, condition, population) -> TestedMean:
    distinct, codes = np.unique(numbers, return_inverse=True)
    groups = (codes == np.arange(len(distinct))[:, np.newaxis]) & condition[..., np.newaxis, :]
    return TestedMean(table, distinct, groups, population)


def quantile(
    table: NoisyTable,
    q: float,
    edges: ArrayLike,
    *,
    axis: int = 0,
    given: Any = None,
    confidence: float = 0.95,
    population: bool = True,
) -> Estimate:
    """Estimate a quantile of a number in bins.

    The limits are edges of bins: nothing is known of the numbers inside a bin.

    Parameters
    ----------
    table : NoisyTable
    q : float in (0, 1)
        The probability below the quantile.
    edges : array-like of shape (n_categories + 1,)
        Edges of the bins.
    axis, given
        As in `mean`.
    confidence, population
        As in `share`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from skdirdp.inference import NoisyTable, quantile
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> table = NoisyTable([301.5, 423.0, 211.7, 63.8], GaussianMechanism(4.0), n_records=1000)
    >>> quantile(table, 0.5, edges=[0, 10, 20, 40, 80])
    Estimate(14.69, low=10, high=20, confidence=0.95)
    """
    table = table.for_population(population)
    check_real("confidence", confidence, above=0, below=1)
    check_real("q", q, above=0, below=1)
    least, _, greatest = _numbers(table, None, edges, axis)
    condition = _condition(table, given)
    codes = np.indices(table.shape)[axis].ravel()
    # One hypothesis for each inner edge: the probability below it is q.
    inner = np.arange(1, len(least)).reshape(-1, *[1] * condition.ndim)
    inside, condition = np.broadcast_arrays(codes < inner, condition)
    below = TestedShare(table, inside, condition, population)
    too_low, too_high = (
        np.moveaxis(each, table.batch_dims, -1) for each in below.sides(q, confidence)
    )
    # The first bin whose upper edge may have a probability of q below, and the last bin whose
    # lower edge may. The outermost edges always may.
    end = np.zeros((*too_low.shape[:-1], 1), dtype=bool)
    first = np.argmin(np.concatenate([too_low, end], axis=-1), axis=-1)
    last = np.argmin(np.concatenate([too_high[..., ::-1], end], axis=-1), axis=-1)
    low, high = least[first], greatest[::-1][last]
    shares = np.moveaxis(below.value, table.batch_dims, -1)
    value = _interpolated(np.concatenate([end + 0.0, shares, end + 1.0], axis=-1), edges, q)
    return Estimate(np.clip(value, low, high), low, high, confidence)


def _interpolated(shares: np.ndarray, edges: ArrayLike, q: float) -> np.ndarray:
    """Return the quantile of a distribution function that is linear between edges."""
    shares = np.maximum.accumulate(shares, axis=-1)
    edges = np.asarray(edges, dtype=float)
    bins = np.sum(shares[..., 1:-1] < q, axis=-1)[..., np.newaxis]
    low, high = (np.take_along_axis(shares, bins + k, axis=-1)[..., 0] for k in (0, 1))
    left, right = edges[bins[..., 0]], edges[bins[..., 0] + 1]
    return left + (right - left) * (q - low) / np.where(high > low, high - low, 1.0)


# Several synthetic tables ---------------------------------------------------------------


def combine(
    values: ArrayLike,
    variances: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> Estimate:
    """Combine the estimates of several synthetic tables that one release generated.

    Parameters
    ----------
    values : array-like of shape (n_tables, ...)
        The estimate from each synthetic table, at least two.
    variances : array-like of shape (n_tables, ...), optional
        The variance of each estimate as if its synthetic records were real. If None, `values`
        are functions of parameters drawn from their posterior, and not of synthetic records.
    confidence : float, default=0.95
        Probability that an interval contains the true value.

    Returns
    -------
    Estimate

    Notes
    -----
    Let B be the variance between m tables, and V the mean of `variances`. B estimates S + V, where
    S is the variance of the parameters, and the mean of the tables has the variance
    ``(1 + 1/m) S + V/m`` (Raghunathan, Reiter and Rubin, 2003). S is drawn as
    ``(m - 1) B / c - V``, or 0 if this is negative, where c has a chi-squared distribution with
    m - 1 degrees of freedom. The interval is a central one of the resulting mixture of normal
    distributions. Without `variances`, V is 0, and this is the t interval with the variance
    ``(1 + 1/m) B``.

    The generator must draw a new model from the posterior for each table, as `sample_tables` of
    networks does, and records that are independent given the model. If its model is wrong, the
    intervals are wrong too.

    Examples
    --------
    >>> from skdirdp.inference import combine
    >>> combine([0.21, 0.24, 0.19, 0.22, 0.25], [1e-4] * 5)
    Estimate(0.222, low=0.1517, high=0.2923, confidence=0.95)
    """
    check_real("confidence", confidence, above=0, below=1)
    sizes = {np.size(each) for each in values} if isinstance(values, list | tuple) else set()
    if len(sizes) > 1:
        raise ValueError(
            "values must have the same number of estimates for each table; "
            f"got {sorted(sizes)}. A number with missing values may have been read as categories"
        )
    found = check_real_array("values", values)
    if found.ndim < 1 or len(found) < 2:
        raise ValueError(f"values must have at least two tables; got shape {found.shape}")
    m = len(found)
    between = (1 + 1 / m) * found.var(axis=0, ddof=1)
    within = np.zeros(found.shape[1:])
    if variances is not None:
        within = check_real_array("variances", variances)
        if within.shape != found.shape or np.any(within < 0):
            raise ValueError("variances must be non-negative and have the shape of values")
        within = within.mean(axis=0)
    if np.any((between <= within) & (between > 0)):
        warnings.warn(
            "the tables vary less than their records explain: intervals may be wider than needed. "
            "More tables, or more records in each, help",
            stacklevel=2,
        )
    reach = student.ppf((1 + confidence) / 2, m - 1) * np.sqrt(between)
    if variances is not None:
        reach = _mixture_reach(between * m / (m + 1), within, m, confidence)
    centre = found.mean(axis=0)
    return Estimate(centre, centre - reach, centre + reach, confidence)


def _mixture_reach(
    between: np.ndarray, within: np.ndarray, m: int, confidence: float
) -> np.ndarray:
    """Return half the width of the central interval that `combine` describes.

    `between` and `within` are the variances between tables and of the records within them.
    """
    ranks = (np.arange(_RANKS) + 0.5) / _RANKS
    shape = (-1, *[1] * between.ndim)
    drawn = (m - 1) * between / chi2.ppf(ranks, m - 1).reshape(shape)
    deviations = np.sqrt((1 + 1 / m) * np.maximum(drawn - within, 0.0) + within / m)
    # A t variable and a normal one exceed these values with half the probability each.
    level = (3 + confidence) / 4
    high = student.ppf(level, m - 1) * np.sqrt((1 + 1 / m) * between)
    high = high + ndtri(level) * np.sqrt(within / m)
    low = np.zeros_like(high)
    for _ in range(_REACH_HALVINGS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (2 * ndtr(middle / deviations) - 1).mean(axis=0)
        low = np.where(inside < confidence, middle, low)
        high = np.where(inside < confidence, high, middle)
    return high
