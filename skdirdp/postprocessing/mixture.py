"""Posterior means of counts, given noisy counts, under a mixture prior that is fitted to them.

The prior of a true count is a mixture of distributions on the non-negative numbers:

- pooled: centred on the row's total times the column's share in the row's pool (the distribution
  of similar rows combined);
- nearby: centred on the value predicted by the nearby cells of the row;
- sparse: a point mass at zero mixed with an exponential distribution;
- diffuse: exponential, with the mean of the row.

The noise is normal with a known variance, so that each component has a posterior mean and a
marginal likelihood in closed form. Mixture weights are fitted by a few EM steps, first for all
cells of a model, then for each row. Pseudo-observations keep them close to their initial values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from ..numerics.rows import row_blocks

#: Rows with at least this many columns are wide, such as rows of words. Chosen with the
#: benchmark `text`.
MIN_WIDE_COLUMNS = 64
# Maximum distances at which cells count as nearby, the relative deviation of a cell from the value
# that the nearby cells predict, and the prior variance of their common factor. Chosen with the
# benchmark `naive-bayes-fresh`.
_DISTANCES, _RELATIVE_DEVIATION, _FACTOR_VARIANCE = (1, 3), 0.3, 2.0
# The sparse components of a row with n records have 1 + n * overdispersion times the variance of a
# sample of the pool. Chosen with the benchmarks `postprocessing` for trees, and `text` for wide
# rows.
_OVERDISPERSION, _OVERDISPERSION_WIDE_ROWS = (1.0,), (2.0**-10, 2.0**-5)
# Initial weight of the sparse component, relative to a weight of 1 for every other component.
# Chosen with the benchmark `bayes-net`.
_SPARSE_WEIGHT = 1 / 256
# Number of EM steps, and of pseudo-observations with the initial weights. Weights that are fitted
# until they converge overfit the noise. Chosen with the benchmark `naive-bayes-fresh`.
_EM_STEPS, _PSEUDO_OBSERVATIONS = 8, 2.0
# Numerical limits: the smallest variance of a count, absolute and relative to the count; the
# smallest positive number; and the number of standard deviations above 0 beyond which truncation is
# negligible in floating point.
_MIN_VARIANCE, _MIN_RELATIVE_VARIANCE, _TINY, _MAX_Z = 4e-4, 1e-9, np.finfo(float).tiny, 8.0
# Relative tolerance, and maximum number of steps, when solving for the sums of rows.
_SUM_TOLERANCE, _MAX_SUM_STEPS = 1e-9, 50
# Number of cells that are evaluated at once, and sizes of the samples to which the weights of
# larger models and of large rows are fitted.
_BLOCK, _SAMPLE, _ROW_SAMPLE = 1 << 15, 1 << 13, 1 << 9
# Rows with more columns than this are interpolated on a grid of noisy counts (in standard
# deviations) and pooled shares (on a logarithmic scale).
_MAX_WIDTH, _N_SHARE_LEVELS = 1 << 12, 24
_GRID_STEP = 0.5
_GRID = np.arange(-6.0, 12.0 + _GRID_STEP / 2, _GRID_STEP)


class Prior(NamedTuple):
    """Mixture prior: its components other than the pooled one, and all initial weights."""

    distances: tuple[int, ...]
    overdispersions: tuple[float, ...]
    has_diffuse: bool
    weights: np.ndarray

    @classmethod
    def from_components(
        cls,
        distances: tuple[int, ...] = (),
        overdispersions: tuple[float, ...] = (),
        has_diffuse: bool = True,
        sparse_weight: float = 1.0,
    ) -> "Prior":
        """Create a prior with equal weights; the sparse components share `sparse_weight`."""
        weights = [1.0] * (1 + len(distances))
        weights += [sparse_weight / len(overdispersions) for _ in overdispersions]
        weights += [1.0] * has_diffuse
        return cls(distances, overdispersions, has_diffuse, np.array(weights) / sum(weights))


#: Priors for rows with a pool; for pools, which are themselves shrunk towards the uniform
#: distribution; for wide rows and pools; and for histograms, in which many cells may be empty.
ROW_PRIOR = Prior.from_components(_DISTANCES, _OVERDISPERSION, sparse_weight=_SPARSE_WEIGHT)
POOL_PRIOR = Prior.from_components()
WIDE_ROW_PRIOR = Prior.from_components(overdispersions=_OVERDISPERSION_WIDE_ROWS, has_diffuse=False)
HISTOGRAM_PRIOR = Prior.from_components(
    overdispersions=_OVERDISPERSION, sparse_weight=_SPARSE_WEIGHT
)


class Cells(NamedTuple):
    """Noisy counts of rows, from tables with the same columns."""

    noisy: np.ndarray  # noisy counts by row and column
    variance: np.ndarray  # mean variance of the noise in the table of each row
    per_count: float  # additional variance of the noise per unit of the count
    mean_noisy: np.ndarray  # mean noisy count in the table of each row
    shares: np.ndarray  # shares of the pool of each row, by row and column
    share_variances: np.ndarray  # variances of these shares
    totals: np.ndarray  # number of records in each row
    total_variances: np.ndarray  # variances of these numbers
    exact_sums: bool = False  # whether counts add up to the total; see `condition_on_sums`

    @property
    def is_wide(self) -> bool:
        return self.noisy.shape[1] >= MIN_WIDE_COLUMNS

    def rows(self, chosen: slice | list[int]) -> "Cells":
        """Return the chosen rows."""
        fields = [field if isinstance(field, float | bool) else field[chosen] for field in self]
        return Cells(*fields)  # type: ignore[arg-type]

    def columns(self, chosen: slice | np.ndarray) -> "Cells":
        """Return the chosen columns."""
        changed = {name: getattr(self, name)[:, chosen] for name in _BY_COLUMN}
        return self._replace(**changed)

    def sample(self, step: int) -> "Cells":
        """Return about one in every `step` cells."""
        chosen = slice(None, None, step)
        return self.columns(chosen) if self.is_wide else self.rows(chosen)


_BY_COLUMN = ("noisy", "shares", "share_variances")


class Posterior(NamedTuple):
    """Posterior means of the shares of cells in their rows, and posterior variances."""

    shares: np.ndarray
    variances: np.ndarray


def estimate_shares(groups: Sequence[Cells], prior: Prior) -> list[Posterior]:
    """Estimate the shares of all cells of a model under a common prior."""
    if not groups:
        return []
    size = sum(cells.noisy.size for cells in groups)
    if size <= _BLOCK:
        batch = _Batch.from_cells(groups, prior)
        return batch.posteriors(groups, _fit_weights(batch.likelihood, prior.weights))
    samples = [cells.sample(-(-size // _SAMPLE)) for cells in groups]
    common = _fit_weights(_Batch.from_cells(samples, prior).likelihood, prior.weights)
    posteriors = []
    for cells in groups:
        if cells.is_wide and cells.noisy.shape[1] > _MAX_WIDTH:
            posteriors.append(_interpolated(cells, prior, common))
            continue
        n_rows, width = cells.noisy.shape
        blocks = [cells.rows(chosen) for chosen in row_blocks(n_rows, width, _BLOCK)]
        parts = [_Batch.from_cells([b], prior).posteriors([b], common)[0] for b in blocks]
        posteriors.append(Posterior(*map(np.concatenate, zip(*parts, strict=True))))
    return posteriors


class _Rows(NamedTuple):
    """Consecutive rows of cells: their sizes, their first cells, and the row of each cell."""

    sizes: np.ndarray
    starts: np.ndarray
    row_of_cell: np.ndarray

    @classmethod
    def from_sizes(cls, sizes: Any) -> "_Rows":
        return cls(sizes, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes))


class _Batch(NamedTuple):
    """Posterior of each component (first dimension) for each cell of some rows (second).

    The likelihoods in each cell are known up to a common factor.
    """

    rows: _Rows
    likelihood: np.ndarray
    mean: np.ndarray
    second_moment: np.ndarray
    noise_variance: np.ndarray | None = None

    @classmethod
    def from_cells(cls, groups: Sequence[Cells], prior: Prior) -> "_Batch":
        shapes = np.array([cells.noisy.shape for cells in groups])
        rows = _Rows.from_sizes(shapes[:, 1].repeat(shapes[:, 0]))
        noisy, shares, share_variances = (
            np.concatenate([getattr(cells, name).reshape(-1) for cells in groups])
            for name in _BY_COLUMN
        )
        by_row = [
            np.concatenate([getattr(cells, name) for cells in groups])
            for name in ("variance", "mean_noisy", "totals")
        ]
        by_row.append(np.repeat([cells.per_count for cells in groups], shapes[:, 0]))
        variance, mean_noisy, total, per_count = np.array(by_row).take(rows.row_of_cell, axis=1)
        variance = cell_variances(noisy, variance, per_count, mean_noisy)
        centre, centre_variance = total * shares, total**2 * share_variances
        # Rows vary at least as much as a sample of their pool.
        sampling_variance = np.maximum(centre, _MIN_VARIANCE)
        normal = [(centre, sampling_variance + centre_variance)]
        normal += [_nearby(noisy, variance, centre, rows, distance) for distance in prior.distances]
        overdispersions = np.array(prior.overdispersions)[:, np.newaxis]
        prior_variance = (1 + overdispersions * total) * sampling_variance + centre_variance
        p_nonzero = np.clip(2 * centre**2 / (prior_variance + centre**2), _TINY, 1.0)
        diffuse = [total / rows.sizes[rows.row_of_cell]] * prior.has_diffuse
        means = [*(centre / p_nonzero), *diffuse]
        parts = [
            _normal(noisy, variance, *map(np.array, zip(*normal, strict=True))),
            _exponential(noisy, variance, np.array(means)),
        ]
        # Assignment broadcasts faster than `np.broadcast_to`.
        terms = np.empty((4, len(normal) + len(means), len(noisy)))
        for i, term in enumerate(terms):
            term[: len(normal)], term[len(normal) :] = (part[i] for part in parts)
        logs, mean, second_moment = _truncated(*terms)
        # The sparse components have a point mass at 0 as well.
        sparse = slice(len(normal), len(normal) + len(p_nonzero))
        at_zero = (noisy**2 / variance + np.log(variance)) / -2
        total_mass = p_nonzero + (1 - p_nonzero) * np.exp(at_zero - logs[sparse])
        mean[sparse] *= p_nonzero / total_mass
        second_moment[sparse] *= p_nonzero / total_mass
        logs[sparse] += np.log(total_mass)
        logs -= logs.max(axis=0)
        return cls(rows, np.exp(logs, out=logs), mean, second_moment, variance)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances of counts under the weights of each row."""
        responsibilities = self.likelihood * weights.take(self.rows.row_of_cell, axis=1)
        responsibilities /= responsibilities.sum(axis=0)
        mean = np.einsum("ij,ij->j", responsibilities, self.mean)
        variance = np.einsum("ij,ij->j", responsibilities, self.second_moment)
        variance -= mean**2
        return mean, np.maximum(variance, 0.0, out=variance)

    def row_weights(self, common: np.ndarray) -> np.ndarray:
        """Fit the mixture weights of each row; return an array of shape (n_components, n_rows)."""
        pseudo_counts = _PSEUDO_OBSERVATIONS * common[:, np.newaxis]
        weights = np.repeat(pseudo_counts, len(self.rows.sizes), axis=1)
        for _ in range(_EM_STEPS):
            responsibilities = weights.take(self.rows.row_of_cell, axis=1)
            responsibilities *= self.likelihood
            responsibilities /= responsibilities.sum(axis=0)
            weights = np.add.reduceat(responsibilities, self.rows.starts, axis=1)
            weights += pseudo_counts
        return weights

    def posteriors(self, groups: Sequence[Cells], common: np.ndarray) -> list[Posterior]:
        mean, variance = self.moments(self.row_weights(common))
        totals = np.concatenate([cells.totals for cells in groups])
        total_variances = np.concatenate([cells.total_variances for cells in groups])
        noise_variance = self.noise_variance if groups[0].exact_sums else None
        mean = condition_on_sums(mean, variance, totals, total_variances, self.rows, noise_variance)
        sums = np.add.reduceat(mean, self.rows.starts).take(self.rows.row_of_cell)
        moments = np.array([mean / sums, variance / sums**2])
        ends = np.cumsum([cells.noisy.size for cells in groups])
        return [
            Posterior(*part.reshape(2, *cells.noisy.shape))
            for part, cells in zip(np.split(moments, ends[:-1], axis=1), groups, strict=True)
        ]


def cell_variances(noisy, variance, per_count, mean_noisy):
    """Return the noise variances of cells, which increase with the counts and have a known mean."""
    return np.maximum(variance + per_count * (noisy - mean_noisy), variance / 2)


def _fit_weights(likelihood: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Fit the weights that all cells of a model share."""
    pseudo_counts = _PSEUDO_OBSERVATIONS * initial
    weights = pseudo_counts
    for _ in range(_EM_STEPS):
        # Only the relative sizes of the weights matter in each step.
        weights = weights * likelihood.dot(np.reciprocal(weights.dot(likelihood)))
        weights += pseudo_counts
    return weights / weights.sum()


def condition_on_sums(
    mean: np.ndarray,
    variance: np.ndarray,
    sums: np.ndarray,
    sum_variances: np.ndarray,
    rows: _Rows,
    noise_variance: np.ndarray | None = None,
) -> np.ndarray:
    """Return conditional means of counts given the sums of their rows, to first order.

    This is the regression of independent counts on a sum that is observed with a known error
    variance. Means remain positive: small ones decrease by less than the regression implies. The
    means then add up to more than the given sum, and rescaling them to that sum mainly decreases
    the largest counts.

    If `noise_variance` is given, the Lagrange multiplier of each row is found numerically, so that
    known sums are matched exactly. The errors of the counts are then also assumed to have a common
    component; see `_common_covariances`.
    """
    weights = mean * _MIN_RELATIVE_VARIANCE
    weights += variance
    sum_variances = np.maximum(sum_variances, _TINY)
    difference = sums - np.add.reduceat(mean, rows.starts)
    if noise_variance is not None:
        weights += _common_covariances(
            difference, mean, variance, noise_variance, sum_variances, rows
        )
    multiplier = difference / (np.add.reduceat(weights, rows.starts) + sum_variances)
    if noise_variance is not None:
        multiplier = _solve_multipliers(multiplier, mean, weights, sums, sum_variances, rows)
    weights *= multiplier.take(rows.row_of_cell)
    # A mean m that decreases by t becomes m**2 / (m + t), which equals m - t to first order.
    adjusted = np.maximum(-weights, _TINY)
    adjusted += mean
    np.divide(mean, adjusted, out=adjusted)
    adjusted *= mean
    adjusted += np.maximum(weights, 0.0, out=weights)
    return adjusted


def _common_covariances(
    difference, mean, variance, noise_variance, sum_variances, rows: _Rows
) -> np.ndarray:
    """Return covariances of counts with the sum of their row, due to a common error of the prior.

    If the prior is wrong for a row, the errors of its small counts add up, whereas the errors
    of counts that are large relative to the noise do not. The common error is proportional to the
    count and to the fraction of its noise variance that the prior removed. Its variance in the sum
    is the part of the squared `difference` that the other variances do not explain.
    """
    common = mean * np.clip(1 - variance / noise_variance, 0.0, 1.0)
    excess = np.maximum(difference**2 - np.add.reduceat(variance, rows.starts) - sum_variances, 0.0)
    least = _MIN_RELATIVE_VARIANCE * np.add.reduceat(mean, rows.starts) + _TINY
    excess /= np.maximum(np.add.reduceat(common, rows.starts), least)
    return common * excess.take(rows.row_of_cell)


def _solve_multipliers(multiplier, mean, weights, sums, sum_variances, rows: _Rows) -> np.ndarray:
    """Return multipliers t of rows for which counts add up to ``sums - sum_variances * t``.

    Uses Newton's method, starting from the given multipliers. The sums increase with t, linearly
    above 0 and convexly below, so after the first step the iterates decrease to the solution.
    """
    for _ in range(_MAX_SUM_STEPS):
        down = np.maximum(-weights * multiplier.take(rows.row_of_cell), 0.0)
        kept = mean / (mean + down + _TINY)
        up = np.maximum(weights * multiplier.take(rows.row_of_cell), 0.0)
        excess = np.add.reduceat(mean * kept + up, rows.starts) + sum_variances * multiplier - sums
        if np.all(np.abs(excess) <= _SUM_TOLERANCE * sums):
            break
        multiplier = multiplier - excess / (
            np.add.reduceat(weights * kept**2, rows.starts) + sum_variances
        )
    return multiplier


def _interpolated(cells: Cells, prior: Prior, common: np.ndarray) -> Posterior:
    """Estimate large rows by interpolating the posterior moments on a grid."""
    n_rows = len(cells.noisy)
    # Rows with the same pool share the levels of the grid, and are evaluated together.
    block_size = 1 if cells.shares.strides[0] else _BLOCK // (_N_SHARE_LEVELS * len(_GRID))
    parts = [
        _interpolated_rows(cells.rows(chosen), prior, common)
        for chosen in row_blocks(n_rows, 1, block_size)
    ]
    mean, variance = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    sums = mean.sum(axis=1, keepdims=True)
    mean /= sums
    variance /= sums**2
    return Posterior(mean, variance)


def _interpolated_rows(cells: Cells, prior: Prior, common: np.ndarray) -> np.ndarray:
    """Return the posterior means and variances of counts of rows with the same pool."""
    sample = cells.sample(-(-cells.noisy.shape[1] // _ROW_SAMPLE))
    weights = _Batch.from_cells([sample], prior).row_weights(common)
    offsets, shares, variances = _levels(cells)
    stds = np.sqrt(cells.variance)
    size = len(shares) * len(_GRID)
    grid = cells._replace(
        noisy=stds[:, np.newaxis] * np.tile(_GRID, len(shares)),
        shares=np.tile(np.repeat(shares, len(_GRID)), (len(stds), 1)),
        share_variances=np.tile(np.repeat(variances, len(_GRID)), (len(stds), 1)),
    )
    moments = [each.reshape(-1, size) for each in _Batch.from_cells([grid], prior).moments(weights)]
    posterior = np.empty((2, *cells.noisy.shape))
    for index, (noisy, std) in enumerate(zip(cells.noisy, stds, strict=True)):
        for chosen in row_blocks(len(noisy), 1, _BLOCK):
            fraction = noisy[chosen] * (1 / (std * _GRID_STEP))
            fraction -= _GRID[0] / _GRID_STEP
            np.clip(fraction, 0.0, len(_GRID) - 1 - 1e-9, out=fraction)
            first = fraction.astype(np.intp)
            fraction -= first
            first += offsets[chosen]
            for moment, out in zip(moments, posterior[:, index, chosen], strict=True):
                moment[index].take(first, out=out, mode="clip")  # "raise" would buffer `out`
                step = moment[index, 1:].take(first, mode="clip")
                step -= out
                step *= fraction
                out += step
    # Cells above the end of the grid are evaluated exactly.
    row_indices, columns = np.nonzero(cells.noisy > stds[:, np.newaxis] * _GRID[-1])
    for chosen in row_blocks(len(columns), 1, _BLOCK):
        row, column = row_indices[chosen], columns[chosen]
        rows = np.unique(row)
        beyond = [cells.rows([k]).columns(column[row == k]) for k in rows.tolist()]
        posterior[:, row, column] = _Batch.from_cells(beyond, prior).moments(weights[:, rows])
    start = np.zeros(1, dtype=np.intp)
    whole = _Rows(np.array([cells.noisy.shape[1]]), start, start)  # all cells of one row
    for index, (mean, variance) in enumerate(posterior.swapaxes(0, 1)):
        sums, sum_variances = cells.totals[[index]], cells.total_variances[[index]]
        noise_variance = None
        if cells.exact_sums:
            mean_noisy, row_variance = cells.mean_noisy[index], cells.variance[index]
            noise_variance = cell_variances(
                cells.noisy[index], row_variance, cells.per_count, mean_noisy
            )
        mean[:] = condition_on_sums(mean, variance, sums, sum_variances, whole, noise_variance)
    return posterior


def _levels(cells: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the offset of each column in the grid, the shares of the levels, and their variances.

    All rows must have the same pool.
    """
    logs = np.log(cells.shares[0])
    low, spacing = logs.min(), np.ptp(logs) / (_N_SHARE_LEVELS - 1)
    logs -= low
    logs /= max(spacing, _TINY)
    nearest = np.rint(logs, out=logs).astype(np.intp)
    relative = np.divide(cells.share_variances[0], cells.shares[0] ** 2, out=logs)
    sizes = np.bincount(nearest)
    sums = np.bincount(nearest, relative)
    filled = np.flatnonzero(sizes)
    shares = np.exp(low + spacing * np.arange(len(sizes)))
    relative = np.interp(np.arange(len(sizes)), filled, sums[filled] / sizes[filled])
    nearest *= len(_GRID)
    return nearest, shares, shares**2 * relative


def _nearby(
    noisy: np.ndarray, variance: np.ndarray, centre: np.ndarray, rows: _Rows, distance: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that nearby cells predict, and their variances.

    The counts of nearby cells are their centres times a common factor, whose prior mean is 1. At
    the end of a row, where fewer cells are nearby, the variance is larger.
    """
    index = np.arange(len(noisy))
    low = np.maximum(index - distance, rows.starts[rows.row_of_cell])
    high = np.minimum(index + distance + 1, (rows.starts + rows.sizes)[rows.row_of_cell])
    cells = np.stack([noisy, centre, variance])
    sums = np.zeros((len(cells), len(noisy) + 1))
    np.cumsum(cells, axis=1, out=sums[:, 1:])
    observed, expected, observed_variance = sums.take(high, axis=1) - sums.take(low, axis=1) - cells
    np.maximum(expected, _MIN_VARIANCE, out=expected)
    np.maximum(observed_variance, 0.0, out=observed_variance)
    reliability = _FACTOR_VARIANCE / (_FACTOR_VARIANCE + observed_variance / expected**2)
    predicted = centre * np.maximum(1 + reliability * (observed / expected - 1), 0.0)
    factor_variance = centre**2 * (_FACTOR_VARIANCE * (1 - reliability))
    window_ratio = 2 * distance / np.maximum(high - low - 1, 1)
    variance = factor_variance + (_RELATIVE_DEVIATION * window_ratio * predicted) ** 2
    return predicted, variance + predicted + np.sqrt(_MIN_VARIANCE)


# Posteriors are normal distributions, truncated to positive values. They are represented by z (the
# mean before truncation divided by the standard deviation), the standard deviation, and two terms
# of the marginal likelihood: a factor that multiplies the mass above 0, and the logarithm of the
# remaining factors (log_rest).


def _normal(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray, prior_variance: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return posteriors under normal priors, or exponential priors where the variance is large.

    Truncation at 0 would increase the mean of a normal distribution whose standard deviation is at
    least its mean.
    """
    mean = np.maximum(mean, _MIN_VARIANCE)
    ratio = variance / prior_variance
    precision_ratio = 1 + ratio
    std = np.sqrt(variance / precision_ratio)
    z = (noisy + mean * ratio) / (precision_ratio * std)
    marginal_variance = prior_variance + variance
    factor = 0.5 / (np.sqrt(marginal_variance) * ndtr(mean / np.sqrt(prior_variance)))
    log_rest = (noisy - mean) ** 2 / marginal_variance
    log_rest += np.minimum(z, _MAX_Z) ** 2
    log_rest /= -2
    terms = z, std, factor, log_rest
    wide = np.flatnonzero(prior_variance >= mean**2)
    if wide.size:
        cells = wide % noisy.size
        exponential = _exponential(noisy.take(cells), variance.take(cells), mean.take(wide))
        for term, values in zip(terms, exponential, strict=True):
            term.put(wide, values)
    return terms


def _exponential(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return posteriors under exponential priors."""
    std, rate = np.sqrt(variance), 1 / mean
    z = (noisy - variance * rate) / std
    log_rest = noisy**2 / (-2 * variance)
    if z.max(initial=0.0) >= _MAX_Z:
        # Squaring a large z would lose all precision of the likelihood to cancellation.
        log_rest = np.where(
            z < _MAX_Z, log_rest, (variance * rate / 2 - noisy) * rate - _MAX_Z**2 / 2
        )
    rate *= np.sqrt(np.pi / 2)
    return z, std, rate, log_rest


def _truncated(
    z: np.ndarray, std: np.ndarray, factor: np.ndarray, log_rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-likelihoods, means, and second moments of truncated posteriors."""
    # Twice the mass above 0 times exp(z**2 / 2), and the distance of the mean from z.
    scaled = erfcx(np.minimum(z, _MAX_Z) * -np.sqrt(0.5))
    mean = np.sqrt(2 / np.pi) / scaled
    scaled *= factor
    logs = np.log(scaled, out=scaled)
    logs += log_rest
    mean += z
    second_moment = 1 + z * mean
    if (far := z < -1e3).any():
        mean[far], second_moment[far] = -1 / z[far], 2 / z[far] ** 2
    mean *= std
    second_moment *= std**2
    return logs, mean, second_moment
