"""Posterior means of counts, given noisy counts, under a mixture prior that is fitted to them.

The prior of a true count is a mixture of distributions on the positive numbers:

- pooled: centred at the share that the pool of its row has in this column;
- adjacent: centred at the value that the adjacent cells of its row predict;
- sparse: zero with a probability, otherwise exponential;
- diffuse: exponential, with the mean of the row.

The noise is normal with a known variance, so that each component has a posterior mean and a
marginal likelihood in closed form. Mixture weights are fitted by a few EM steps, first for all
cells of a model, then for each row. Pseudo-cells keep them close to their initial values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from ..numerics.rows import row_blocks

#: Rows with at least this many columns are wide, such as rows of words. Chosen by `text`.
WIDE = 64
# Distances of the cells that count as adjacent, the relative deviation of a cell from them, and
# the prior variance of their common factor. Chosen by `naive-bayes-fresh`.
_REACHES, _CURVATURE, _FACTOR_VARIANCE = (1, 3), 0.3, 2.0
# The sparse components of a row with n records have 1 + n * scatter times the variance of a
# sample of the pool. Chosen by `postprocessing` for trees, and by `text` for wide rows.
_SCATTER, _SCATTER_OF_WIDE = (1.0,), (2.0**-10, 2.0**-5)
# Initial weight of the sparse component, if it is not 1 as for other components. Chosen by
# `bayes-net`.
_RARE = 1 / 256
# EM steps, and pseudo-cells with the initial weights. Weights that are fitted until they converge
# overfit the noise. Chosen by `naive-bayes-fresh`.
_STEPS, _PSEUDO_CELLS = 8, 2.0
# Numerical limits: the least variance of a count, absolute and relative; and the number of
# standard deviations above 0 at which truncation changes no digit.
_LEAST, _ROUNDING, _TINY, _FAR = 4e-4, 1e-9, np.finfo(float).tiny, 8.0
# Largest error of a sum that is solved for, relative to it, and largest number of steps.
_SUM_TOLERANCE, _MAX_SUM_STEPS = 1e-9, 50
# Number of cells that are evaluated at once, and to which the weights of larger models and of
# large rows are fitted.
_BLOCK, _SAMPLE, _ROW_SAMPLE = 1 << 15, 1 << 13, 1 << 9
# Rows with more columns are interpolated, on a grid of noisy counts, in standard deviations, and
# of pooled shares, on a logarithmic scale.
_LARGE, _LEVELS = 1 << 12, 24
_GRID_STEP = 0.5
_GRID = np.arange(-6.0, 12.0 + _GRID_STEP / 2, _GRID_STEP)


class Prior(NamedTuple):
    """Components of the mixture besides the pooled one, and the initial weights of all."""

    reaches: tuple[int, ...]
    scatters: tuple[float, ...]
    has_diffuse: bool
    weights: np.ndarray

    @classmethod
    def from_components(
        cls,
        reaches: tuple[int, ...] = (),
        scatters: tuple[float, ...] = (),
        has_diffuse: bool = True,
        sparse: float = 1.0,
    ) -> "Prior":
        """Create a prior with equal weights. Sparse components share the weight `sparse`."""
        weights = [1.0] * (1 + len(reaches)) + [sparse / len(scatters) for _ in scatters]
        weights += [1.0] * has_diffuse
        return cls(reaches, scatters, has_diffuse, np.array(weights) / sum(weights))


#: Priors of rows with a pool; of pools, whose own pool is uniform; of wide rows and pools; and of
#: histograms, in which many cells may be empty.
ROWS = Prior.from_components(_REACHES, _SCATTER, sparse=_RARE)
POOLS = Prior.from_components()
WIDE_ROWS = Prior.from_components(scatters=_SCATTER_OF_WIDE, has_diffuse=False)
HISTOGRAMS = Prior.from_components(scatters=_SCATTER, sparse=_RARE)


class Cells(NamedTuple):
    """Noisy counts of rows, from tables with the same columns."""

    noisy: np.ndarray  # noisy counts by row and column
    variance: np.ndarray  # mean variance of the noise in the table of each row
    per_count: float  # additional variance of the noise for each count
    level: np.ndarray  # mean noisy count in the table of each row
    shares: np.ndarray  # shares of the pool of each row, by row and column
    share_variances: np.ndarray  # variances of these shares
    totals: np.ndarray  # number of records in each row
    total_variances: np.ndarray  # variances of these numbers
    exact_sums: bool = False  # whether rows are solved for their sums, see `given_sums`

    @property
    def is_wide(self) -> bool:
        return self.noisy.shape[1] >= WIDE

    def rows(self, chosen: slice | list[int]) -> "Cells":
        fields = [each if isinstance(each, float | bool) else each[chosen] for each in self]
        return Cells(*fields)  # type: ignore[arg-type]

    def columns(self, chosen: slice | np.ndarray) -> "Cells":
        changed = {name: getattr(self, name)[:, chosen] for name in _BY_COLUMN}
        return self._replace(**changed)

    def sample(self, step: int) -> "Cells":
        """Return about one of `step` cells."""
        chosen = slice(None, None, step)
        return self.columns(chosen) if self.is_wide else self.rows(chosen)


_BY_COLUMN = ("noisy", "shares", "share_variances")


class Posterior(NamedTuple):
    """Posterior means of the shares of cells in their rows, and posterior variances."""

    shares: np.ndarray
    variances: np.ndarray


def estimate_shares(groups: Sequence[Cells], prior: Prior) -> list[Posterior]:
    """Estimate the cells of a model, all of which have the same prior."""
    if not groups:
        return []
    size = sum(cells.noisy.size for cells in groups)
    if size <= _BLOCK:
        batch = _Batch.from_cells(groups, prior)
        return batch.posteriors(groups, _fit_weights(batch.likelihood, prior.weights))
    some = [cells.sample(-(-size // _SAMPLE)) for cells in groups]
    common = _fit_weights(_Batch.from_cells(some, prior).likelihood, prior.weights)
    posteriors = []
    for cells in groups:
        if cells.is_wide and cells.noisy.shape[1] > _LARGE:
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
    of_cells: np.ndarray

    @classmethod
    def from_sizes(cls, sizes: Any) -> "_Rows":
        return cls(sizes, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes))


class _Batch(NamedTuple):
    """Posteriors of each component (first dimension) for each cell of some rows (second).

    Likelihoods have a common factor in each cell. `square` is the posterior mean of the square, and
    `noise` the variance of the noise.
    """

    rows: _Rows
    likelihood: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    noise: np.ndarray | None = None

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
            for name in ("variance", "level", "totals")
        ]
        by_row.append(np.repeat([cells.per_count for cells in groups], shapes[:, 0]))
        variance, level, total, per_count = np.array(by_row).take(rows.of_cells, axis=1)
        variance = cell_variances(noisy, variance, per_count, level)
        centre, centre_variance = total * shares, total**2 * share_variances
        # Rows vary at least as much as a sample of their pool.
        sampled = np.maximum(centre, _LEAST)
        normal = [(centre, sampled + centre_variance)]
        normal += [_adjacent(noisy, variance, centre, rows, reach) for reach in prior.reaches]
        spread = (1 + np.array(prior.scatters)[:, np.newaxis] * total) * sampled + centre_variance
        chance = np.clip(2 * centre**2 / (spread + centre**2), _TINY, 1.0)
        means = [*(centre / chance), *[total / rows.sizes[rows.of_cells]] * prior.has_diffuse]
        parts = [
            _normal(noisy, variance, *map(np.array, zip(*normal, strict=True))),
            _exponential(noisy, variance, np.array(means)),
        ]
        # Assignment broadcasts faster than `np.broadcast_to`.
        terms = np.empty((4, len(normal) + len(means), len(noisy)))
        for i, term in enumerate(terms):
            term[: len(normal)], term[len(normal) :] = (part[i] for part in parts)
        logs, mean, square = _truncated(*terms)
        # The sparse components have a point mass at 0 as well.
        sparse = slice(len(normal), len(normal) + len(chance))
        at_zero = (noisy**2 / variance + np.log(variance)) / -2
        total_mass = chance + (1 - chance) * np.exp(at_zero - logs[sparse])
        mean[sparse] *= chance / total_mass
        square[sparse] *= chance / total_mass
        logs[sparse] += np.log(total_mass)
        logs -= logs.max(axis=0)
        return cls(rows, np.exp(logs, out=logs), mean, square, variance)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return posterior means and variances of counts, by the weights of each row."""
        shares = self.likelihood * weights.take(self.rows.of_cells, axis=1)
        shares /= shares.sum(axis=0)
        mean = np.einsum("ij,ij->j", shares, self.mean)
        variance = np.einsum("ij,ij->j", shares, self.square)
        variance -= mean**2
        return mean, np.maximum(variance, 0.0, out=variance)

    def row_weights(self, common: np.ndarray) -> np.ndarray:
        """Fit the weights of each row, an array of shape (n_components, n_rows)."""
        before = _PSEUDO_CELLS * common[:, np.newaxis]
        weights = np.repeat(before, len(self.rows.sizes), axis=1)
        for _ in range(_STEPS):
            shares = weights.take(self.rows.of_cells, axis=1)
            shares *= self.likelihood
            shares /= shares.sum(axis=0)
            weights = np.add.reduceat(shares, self.rows.starts, axis=1)
            weights += before
        return weights

    def posteriors(self, groups: Sequence[Cells], common: np.ndarray) -> list[Posterior]:
        mean, variance = self.moments(self.row_weights(common))
        totals = np.concatenate([cells.totals for cells in groups])
        total_variances = np.concatenate([cells.total_variances for cells in groups])
        noise = self.noise if groups[0].exact_sums else None
        mean = given_sums(mean, variance, totals, total_variances, self.rows, noise)
        sums = np.add.reduceat(mean, self.rows.starts).take(self.rows.of_cells)
        moments = np.array([mean / sums, variance / sums**2])
        ends = np.cumsum([cells.noisy.size for cells in groups])
        return [
            Posterior(*part.reshape(2, *cells.noisy.shape))
            for part, cells in zip(np.split(moments, ends[:-1], axis=1), groups, strict=True)
        ]


def cell_variances(noisy, variance, per_count, level):
    """Return the variances of the noise of cells: larger for larger counts, with a known mean."""
    return np.maximum(variance + per_count * (noisy - level), variance / 2)


def _fit_weights(likelihood: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Fit the weights that all cells of a model share."""
    before = _PSEUDO_CELLS * initial
    weights = before
    for _ in range(_STEPS):
        # Only proportions of weights matter in a step.
        weights = weights * likelihood.dot(np.reciprocal(weights.dot(likelihood)))
        weights += before
    return weights / weights.sum()


def given_sums(
    mean: np.ndarray,
    variance: np.ndarray,
    sums: np.ndarray,
    sum_variances: np.ndarray,
    rows: _Rows,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Return means of counts given the sums of their rows, to first order in the difference.

    This is the regression of independent counts on a sum that is known up to a variance. Means
    stay positive: small ones decrease by less than the regression says. The sum is then too
    large, and scaling to it mainly decreases the largest counts. With the variances of the noise,
    the multiplier of each row is solved for, so that the sums are exact, and counts have common
    errors as well, see `_common_variances`.
    """
    weights = mean * _ROUNDING
    weights += variance
    free = np.maximum(sum_variances, _TINY)
    off = sums - np.add.reduceat(mean, rows.starts)
    if noise is not None:
        weights += _common_variances(off, mean, variance, noise, free, rows)
    tilt = off / (np.add.reduceat(weights, rows.starts) + free)
    if noise is not None:
        tilt = _solved_tilts(tilt, mean, weights, sums, free, rows)
    weights *= tilt.take(rows.of_cells)
    # A decrease by t becomes m**2 / (m + t), which is the same to first order.
    adjusted = np.maximum(-weights, _TINY)
    adjusted += mean
    np.divide(mean, adjusted, out=adjusted)
    adjusted *= mean
    adjusted += np.maximum(weights, 0.0, out=weights)
    return adjusted


def _common_variances(off, mean, variance, noise, free, rows: _Rows) -> np.ndarray:
    """Return covariances of counts with the sum of their row, due to a common error of the prior.

    If the prior is wrong for a row, the errors of its small counts add up, and those of counts
    that the noise leaves clear do not. The common error is proportional to the count and to the
    share of its noise that the prior removed. Its variance in the sum is the part of the squared
    difference `off` that the other variances do not explain.
    """
    common = mean * np.clip(1 - variance / noise, 0.0, 1.0)
    excess = np.maximum(off**2 - np.add.reduceat(variance, rows.starts) - free, 0.0)
    least = _ROUNDING * np.add.reduceat(mean, rows.starts) + _TINY
    excess /= np.maximum(np.add.reduceat(common, rows.starts), least)
    return common * excess.take(rows.of_cells)


def _solved_tilts(tilt, mean, weights, sums, free, rows: _Rows) -> np.ndarray:
    """Return multipliers t of rows for which the counts add up to ``sums - free * t``.

    Newton's method. Sums increase with t. They are linear above 0 and convex below, so all steps
    after the first one, the given tilts, decrease to the solution.
    """
    for _ in range(_MAX_SUM_STEPS):
        down = np.maximum(-weights * tilt.take(rows.of_cells), 0.0)
        kept = mean / (mean + down + _TINY)
        up = np.maximum(weights * tilt.take(rows.of_cells), 0.0)
        excess = np.add.reduceat(mean * kept + up, rows.starts) + free * tilt - sums
        if np.all(np.abs(excess) <= _SUM_TOLERANCE * sums):
            break
        tilt = tilt - excess / (np.add.reduceat(weights * kept**2, rows.starts) + free)
    return tilt


def _interpolated(cells: Cells, prior: Prior, common: np.ndarray) -> Posterior:
    """Estimate large rows, by interpolation of the posterior moments on a grid."""
    n_rows = len(cells.noisy)
    # Rows with the same pool share the levels of the grid, and are evaluated together.
    together = 1 if cells.shares.strides[0] else _BLOCK // (_LEVELS * len(_GRID))
    parts = [
        _interpolated_rows(cells.rows(chosen), prior, common)
        for chosen in row_blocks(n_rows, 1, together)
    ]
    mean, variance = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    sums = mean.sum(axis=1, keepdims=True)
    mean /= sums
    variance /= sums**2
    return Posterior(mean, variance)


def _interpolated_rows(cells: Cells, prior: Prior, common: np.ndarray) -> np.ndarray:
    """Return the posterior means and variances of counts of rows with the same pool."""
    some = cells.sample(-(-cells.noisy.shape[1] // _ROW_SAMPLE))
    weights = _Batch.from_cells([some], prior).row_weights(common)
    offsets, shares, variances = _levels(cells)
    deviations = np.sqrt(cells.variance)
    size = len(shares) * len(_GRID)
    grid = cells._replace(
        noisy=deviations[:, np.newaxis] * np.tile(_GRID, len(shares)),
        shares=np.tile(np.repeat(shares, len(_GRID)), (len(deviations), 1)),
        share_variances=np.tile(np.repeat(variances, len(_GRID)), (len(deviations), 1)),
    )
    moments = [each.reshape(-1, size) for each in _Batch.from_cells([grid], prior).moments(weights)]
    slopes = [np.diff(moment) for moment in moments]
    posterior = np.empty((2, *cells.noisy.shape))
    for place, (noisy, deviation) in enumerate(zip(cells.noisy, deviations, strict=True)):
        for chosen in row_blocks(len(noisy), 1, _BLOCK):
            rest = noisy[chosen] * (1 / (deviation * _GRID_STEP))
            rest -= _GRID[0] / _GRID_STEP
            np.clip(rest, 0.0, len(_GRID) - 1 - 1e-9, out=rest)
            first = rest.astype(np.intp)
            rest -= first
            first += offsets[chosen]
            parts = posterior[:, place, chosen]
            for moment, slope, out in zip(moments, slopes, parts, strict=True):
                moment[place].take(first, out=out, mode="clip")  # other modes copy
                step = slope[place].take(first, mode="clip")
                step *= rest
                out += step
    # Cells beyond the grid are evaluated exactly.
    of_rows, columns = np.nonzero(cells.noisy > deviations[:, np.newaxis] * _GRID[-1])
    for chosen in row_blocks(len(columns), 1, _BLOCK):
        row, column = of_rows[chosen], columns[chosen]
        rows = np.unique(row)
        beyond = [cells.rows([k]).columns(column[row == k]) for k in rows.tolist()]
        posterior[:, row, column] = _Batch.from_cells(beyond, prior).moments(weights[:, rows])
    start = np.zeros(1, dtype=np.intp)
    whole = _Rows(np.array([cells.noisy.shape[1]]), start, start)  # all cells of one row
    for place, (mean, variance) in enumerate(posterior.swapaxes(0, 1)):
        sums, sum_variances = cells.totals[[place]], cells.total_variances[[place]]
        noise = None
        if cells.exact_sums:
            level, own = cells.level[place], cells.variance[place]
            noise = cell_variances(cells.noisy[place], own, cells.per_count, level)
        mean[:] = given_sums(mean, variance, sums, sum_variances, whole, noise)
    return posterior


def _levels(row: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the offset of each column in the grid, and the shares and variances of levels."""
    logs = np.log(row.shares[0])
    low, spacing = logs.min(), np.ptp(logs) / (_LEVELS - 1)
    logs -= low
    logs /= max(spacing, _TINY)
    nearest = np.rint(logs, out=logs).astype(np.intp)
    relative = np.divide(row.share_variances[0], row.shares[0] ** 2, out=logs)
    sizes = np.bincount(nearest)
    sums = np.bincount(nearest, relative)
    filled = np.flatnonzero(sizes)
    shares = np.exp(low + spacing * np.arange(len(sizes)))
    relative = np.interp(np.arange(len(sizes)), filled, sums[filled] / sizes[filled])
    nearest *= len(_GRID)
    return nearest, shares, shares**2 * relative


def _adjacent(
    noisy: np.ndarray, variance: np.ndarray, centre: np.ndarray, rows: _Rows, reach: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that adjacent cells predict, and their variances.

    Adjacent cells have a common factor to their centres. Its prior mean is 1. At the end of a
    row, where fewer cells are adjacent, the variance is larger.
    """
    place = np.arange(len(noisy))
    low = np.maximum(place - reach, rows.starts[rows.of_cells])
    high = np.minimum(place + reach + 1, (rows.starts + rows.sizes)[rows.of_cells])
    cells = np.stack([noisy, centre, variance])
    sums = np.zeros((len(cells), len(noisy) + 1))
    np.cumsum(cells, axis=1, out=sums[:, 1:])
    seen, expected, seen_variance = sums.take(high, axis=1) - sums.take(low, axis=1) - cells
    np.maximum(expected, _LEAST, out=expected)
    np.maximum(seen_variance, 0.0, out=seen_variance)
    known = _FACTOR_VARIANCE / (_FACTOR_VARIANCE + seen_variance / expected**2)
    found = centre * np.maximum(1 + known * (seen / expected - 1), 0.0)
    unknown = centre**2 * (_FACTOR_VARIANCE * (1 - known))
    missing = 2 * reach / np.maximum(high - low - 1, 1)
    return found, unknown + (_CURVATURE * missing * found) ** 2 + found + np.sqrt(_LEAST)


# Posteriors are normal distributions, truncated to positive values. They are given by their mean
# before truncation in standard deviations (z), the standard deviation, and two terms of the
# marginal likelihood: a factor of the mass above 0, and the logarithm of the rest (tilt).


def _normal(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return posteriors under normal priors, or exponential ones if the variance is large.

    Truncation at 0 would increase the mean of a normal distribution that is as wide as its mean.
    """
    mean = np.maximum(mean, _LEAST)
    ratio = variance / spread
    shrinkage = 1 + ratio
    deviation = np.sqrt(variance / shrinkage)
    z = (noisy + mean * ratio) / (shrinkage * deviation)
    both = spread + variance
    factor = 0.5 / (np.sqrt(both) * ndtr(mean / np.sqrt(spread)))
    tilt = (noisy - mean) ** 2 / both
    tilt += np.minimum(z, _FAR) ** 2
    tilt /= -2
    found = z, deviation, factor, tilt
    wide = np.flatnonzero(spread >= mean**2)
    if wide.size:
        cells = wide % noisy.size
        exponential = _exponential(noisy.take(cells), variance.take(cells), mean.take(wide))
        for each, values in zip(found, exponential, strict=True):
            each.put(wide, values)
    return found


def _exponential(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, ...]:
    deviation, rate = np.sqrt(variance), 1 / mean
    z = (noisy - variance * rate) / deviation
    tilt = noisy**2 / (-2 * variance)
    if z.max(initial=0.0) >= _FAR:
        # Squares of z would cancel all digits of the likelihood.
        tilt = np.where(z < _FAR, tilt, (variance * rate / 2 - noisy) * rate - _FAR**2 / 2)
    rate *= np.sqrt(np.pi / 2)
    return z, deviation, rate, tilt


def _truncated(
    z: np.ndarray, deviation: np.ndarray, factor: np.ndarray, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-likelihoods, means, and means of squares of truncated posteriors."""
    # Twice the mass above 0 times exp(z**2 / 2), and the distance of the mean from z.
    scaled = erfcx(np.minimum(z, _FAR) * -np.sqrt(0.5))
    mean = np.sqrt(2 / np.pi) / scaled
    scaled *= factor
    logs = np.log(scaled, out=scaled)
    logs += tilt
    mean += z
    square = 1 + z * mean
    if (far := z < -1e3).any():
        mean[far], square[far] = -1 / z[far], 2 / z[far] ** 2
    mean *= deviation
    square *= deviation**2
    return logs, mean, square
