"""Means of counts given noisy ones, under a prior that the noisy counts choose themselves.

A count is imagined as near its *centre*, what the pool of its row would lead one to expect, as
whatever the mean of its row allows, or as near 0. The prior is a mixture: normal distributions
about the centre, from as narrow as a sample of the pool would be to as wide as the row, an
exponential distribution with the row's mean, and halves of normal distributions at 0; all of them
above 0. Given a normal noisy count, each part has a posterior and a likelihood in closed form.

The weights of the parts start from what is taken for likely before anything is seen, and go
towards those under which the noisy counts are most likely by a few steps of the EM algorithm:
first for all cells of a model, then for each row from there. Few steps, and a few imagined cells
that are as before, keep them from believing in noise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

# Widths about the centre: variances over that of a sample of n records, less one, over n.
_SPREADS = np.array([0.0, *32.0 ** np.arange(-3, 1)])
# Widths at 0, over the centre; before them the least, where the centre tells what to expect.
_NEAR_ZERO = (1 / 8, 1.0)
_NEAREST_ZERO = 1 / 64
_N_NEAR_ZERO = 1 + len(_NEAR_ZERO)
# A width at 0 is at least so much of the noise, or of the mean of a row.
_OF_NOISE, _OF_MEAN = 0.1, 0.02
_LEAST = 0.02
# Beyond so many deviations above 0 there is no difference that a float would hold.
_FAR = 8.0
#: Weights before anything is seen, of the widths about the centre, of the widths at 0, and of the
#: exponential part. Rows are taken to have little to do with their pool, until they are seen to;
#: a pool, of which nothing is known, is taken to be even.
OF_ROWS = np.repeat(
    [0.1 / len(_SPREADS), 0.1 / _N_NEAR_ZERO, 0.8], [len(_SPREADS), _N_NEAR_ZERO, 1]
)
OF_POOLS = np.repeat(
    [0.9, 0.04 / (len(_SPREADS) - 1), 0.02 / _N_NEAR_ZERO, 0.04],
    [1, len(_SPREADS) - 1, _N_NEAR_ZERO, 1],
)
# How many imagined cells hold the weights of a model, and those of a row, to what they were.
_CELLS_OF_MODEL, _CELLS_OF_ROW = 15.0, 2.0
_STEPS = 8


class Cells(NamedTuple):
    """Noisy counts of one table with what is known of them.

    Attributes
    ----------
    noisy : ndarray of shape (n_rows, n_categories)
    variance, per_count : float
        The mean variance of their noise, and what every count adds to it.
    shares, share_variances : ndarray of that shape, or of that of one row
        What part of a row each count is expected to be, and the variance of that.
    total : ndarray of shape (n_rows,)
        What a row holds.
    part : ndarray of shape (n_rows,)
        How much of its pool a row is.
    width : int
        How many counts a row has, of which some may be left out here.
    is_last : bool
        Whether variances of what is found are of no use.
    nearest_zero : float
        The least width at 0 of the prior, over the centre. Tables that are read at once have
        the same.
    """

    noisy: np.ndarray
    variance: float
    per_count: float
    shares: np.ndarray
    share_variances: np.ndarray
    total: np.ndarray
    part: np.ndarray
    width: int
    is_last: bool
    nearest_zero: float = _NEAREST_ZERO

    def columns(self, chosen: slice) -> "Cells":
        """Some counts of each row."""
        return self._replace(
            noisy=self.noisy[:, chosen],
            shares=self.shares[:, chosen],
            share_variances=self.share_variances[:, chosen],
        )

    def rows(self, chosen: slice) -> "Cells":
        """Some rows."""
        alike = len(self.shares) < len(self.noisy)
        return self._replace(
            noisy=self.noisy[chosen],
            shares=self.shares if alike else self.shares[chosen],
            share_variances=self.share_variances if alike else self.share_variances[chosen],
            total=self.total[chosen],
            part=self.part[chosen],
        )


class Flat(NamedTuple):
    """Cells of several tables in one run, row by row, with what is known of each."""

    noisy: np.ndarray
    variance: np.ndarray
    centre: np.ndarray
    centre_variance: np.ndarray
    total: np.ndarray
    part: np.ndarray
    mean: np.ndarray
    nearest_zero: float = _NEAREST_ZERO

    @classmethod
    def of(cls, groups: Sequence[Cells], rows: "Rows") -> "Flat":
        lengths = [len(group.noisy) for group in groups]
        noisy = np.concatenate([group.noisy.reshape(-1) for group in groups])
        noise = np.array([(group.variance, group.per_count) for group in groups])
        total = np.concatenate([group.total for group in groups])
        part = np.concatenate([group.part for group in groups])
        first = np.cumsum([0, *lengths[:-1]])
        of_table = np.add.reduceat(noisy, rows.starts[first]) / np.add.reduceat(rows.sizes, first)
        noise = np.repeat([*noise.T, of_table], lengths, axis=1)
        by_row = np.stack(
            [total, part, total / np.repeat([group.width for group in groups], lengths), *noise]
        )
        total, part, mean, variance, per_count, of_table = by_row[:, rows.of_cells]
        # Where a table has one row of shares, all of its rows have that.
        ends = np.cumsum([group.shares.size for group in groups])
        own = np.concatenate(
            [
                np.arange(len(group.noisy)) * (len(group.shares) > 1) * group.noisy.shape[1]
                + (end - group.shares.size)
                for group, end in zip(groups, ends, strict=True)
            ]
        )
        place = (own - rows.starts)[rows.of_cells] + np.arange(len(noisy))
        shares = np.concatenate([group.shares.reshape(-1) for group in groups])[place]
        variances = np.concatenate([group.share_variances.reshape(-1) for group in groups])[place]
        return cls(
            noisy,
            varying(noisy, variance, per_count, of_table),
            total * shares,
            total**2 * variances,
            total,
            part,
            mean,
            groups[0].nearest_zero,
        )


class Rows(NamedTuple):
    """Rows of several tables in one run."""

    sizes: np.ndarray
    starts: np.ndarray
    of_cells: np.ndarray  # the row of each cell

    @classmethod
    def of(cls, groups: Sequence[Cells]) -> "Rows":
        sizes = np.repeat(
            [group.noisy.shape[1] for group in groups], [len(group.noisy) for group in groups]
        )
        return cls(sizes, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes))


def varying(noisy, variance, per_count, mean):
    """Variances of the noise of cells: the same on average, and more where there is more."""
    return np.maximum(variance + per_count * (noisy - mean), variance / 2)


class Parts(NamedTuple):
    """What each part of the prior (first dimension) makes of each noisy count (second).

    The exponential part is the last.

    Attributes
    ----------
    likelihood : ndarray, up to a factor of each count.
    mean, square : ndarray, the mean of the count and of its square.
    """

    likelihood: np.ndarray
    mean: np.ndarray
    square: np.ndarray

    @classmethod
    def of(cls, cells: Flat) -> "Parts":
        noisy, variance, centre = cells.noisy, cells.variance, cells.centre
        shape = (len(_SPREADS) + _N_NEAR_ZERO, len(noisy))
        about, at_zero = slice(len(_SPREADS)), slice(len(_SPREADS), None)
        # What a sample of the pool would differ from it by is the least that rows do. A row that
        # is nearly all of its pool cannot differ much, and tells nothing of how others do.
        sampled = centre * np.maximum(1 - centre / cells.total, _LEAST)
        sampled *= np.maximum(1 - cells.part, _LEAST)
        np.maximum(sampled, _LEAST**2, out=sampled)
        spread = np.empty(shape)
        spread[about] = _SPREADS[:, np.newaxis]
        spread[about] *= cells.total
        spread[about] += 1
        spread[about] *= sampled
        spread[about] += cells.centre_variance
        least = np.minimum(_OF_NOISE * np.sqrt(variance), _OF_MEAN * cells.mean)
        np.maximum(least, _LEAST, out=least)
        near_zero = np.array([cells.nearest_zero, *_NEAR_ZERO])
        spread[at_zero] = np.maximum(near_zero[:, np.newaxis] * centre, least)
        spread[at_zero] **= 2
        # The posterior has a deviation, and a mean in units of that.
        both = spread + variance
        deviations = np.sqrt(spread * variance / both)
        z = noisy * spread
        z[about] += centre * variance
        z /= both * deviations
        off = np.empty(shape)
        off[:] = noisy
        off[about] -= centre
        off *= off
        off /= both
        off += np.log(both)
        off /= -2
        off[about] -= np.log(ndtr(centre / np.sqrt(spread[about])))
        off[at_zero] += np.log(2)  # half of what lies about 0 is cut off
        log_beyond, above = _beyond_zero(z)
        off += log_beyond
        above += z
        z *= above
        z += 1
        z *= deviations
        z *= deviations
        above *= deviations
        of_mean = exponential(noisy, variance, cells.mean)
        logs, mean, square = (
            np.concatenate([normal, other[np.newaxis]])
            for normal, other in zip((off, above, z), of_mean, strict=True)
        )
        logs -= logs.max(axis=0)
        return cls(np.exp(logs, out=logs), mean, square)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of counts, by weights of each part for each of them."""
        shares = self.likelihood * weights
        shares /= shares.sum(axis=0)
        mean = (shares * self.mean).sum(axis=0)
        variance = (shares * self.square).sum(axis=0) - mean**2
        return mean, np.maximum(variance, 0.0)


def common_weights(likelihood: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The weights of the prior's parts for all cells of a model.

    Parameters
    ----------
    likelihood : ndarray of shape (n_parts, n_cells)
    first : ndarray of shape (n_parts,)
        What the weights are before: `OF_ROWS` or `OF_POOLS`.

    Returns
    -------
    ndarray of shape (n_parts,)
    """
    weights, before = first, _CELLS_OF_MODEL * first
    for _ in range(_STEPS):
        # What each cell adds is its likelihood under a part, over that under all of them.
        weights = weights * (likelihood @ (1 / (weights @ likelihood)))
        weights += before
        weights /= weights.sum()
    return weights


def row_weights(likelihood: np.ndarray, rows: Rows, common: np.ndarray) -> np.ndarray:
    """The weights of the prior's parts for each row, from those of the model.

    Returns
    -------
    ndarray of shape (n_parts, n_rows)
    """
    before = _CELLS_OF_ROW * common[:, np.newaxis]
    weights = np.repeat(common[:, np.newaxis], len(rows.sizes), axis=1)
    shares = np.empty_like(likelihood)
    for _ in range(_STEPS):
        np.take(weights, rows.of_cells, axis=1, out=shares, mode="clip")
        shares *= likelihood
        shares /= shares.sum(axis=0)
        weights = np.add.reduceat(shares, rows.starts, axis=1)
        weights += before
        weights /= weights.sum(axis=0)
    return weights


def exponential(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of likelihoods, means and squares, of the part with the mean of a row."""
    deviation, rate = np.sqrt(variance), 1 / mean
    shift = variance * rate
    # The posterior of a flat prior, moved.
    z = (noisy - shift) / deviation
    scaled, above = _scaled_beyond_zero(z)
    # Below, squares of z cancel that would take all digits with them where noise is large.
    tilt = np.where(z < _FAR, noisy**2 / (-2 * variance), (shift / 2 - noisy) * rate - _FAR**2 / 2)
    logs = tilt + np.log(rate * scaled * np.sqrt(np.pi / 2))
    above += z
    square = 1 + z * above
    if (far := z < -1e3).any():
        above[far], square[far] = -1 / z[far], 2 / z[far] ** 2
    return logs, deviation * above, variance * square


def _beyond_zero(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of normal variables of mean z and deviation 1, what lies above 0.

    The logarithm of its probability, and by how much its mean is above z.
    """
    scaled, above = _scaled_beyond_zero(z)
    return np.log(scaled / 2) - np.minimum(z, _FAR) ** 2 / 2, above


def _scaled_beyond_zero(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twice the probability times ``exp(z**2 / 2)``, and by how much the mean is above z."""
    scaled = erfcx(np.minimum(z, _FAR) * -np.sqrt(0.5))
    return scaled, np.sqrt(2 / np.pi) / scaled
