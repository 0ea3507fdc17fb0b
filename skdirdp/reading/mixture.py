"""Means of counts given noisy ones, under a prior that the noisy counts choose themselves.

A count is imagined as near its *centre*, what the pool of its row would lead one to expect, or
as near 0. The prior is a mixture: normal distributions about the centre, from as narrow as a
sample of the pool would be to as wide as the row, and halves of normal distributions at 0, from
as wide as the centre to far narrower; all cut off below 0. Given a normal noisy count, each part
has a posterior and a likelihood in closed form. The weights are those under which the noisy
counts are most likely (by the EM algorithm), of all tables of a model together and then of each
table, drawn towards the former by a few imagined cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx

# Widths about the centre: variances over that of a sample of n records, less one, over n.
_SPREADS = np.array([0.0, *4.0 ** np.arange(-9, 1)])
# Widths at 0, over the centre. A row is not taken to have much less than a hundredth of what its
# pool has, unless it is seen to.
_NEAR_ZERO = 4.0 ** np.arange(-3, 1)
# Widths of parts that care little for the centre, over the mean of a row.
_WIDE = np.array([1.0, 2.0])
# The weights of widths about the centre, of those that care little, and of those at 0, before
# anything is seen; and by how many imagined cells the weights of a model, and then those of a
# table, are held to these.
_WEIGHTS = (0.4, 0.5, 0.1)
_CELLS_OF_MODEL, _CELLS_OF_TABLE = 5.0, 2.0
# A width at 0 is at least so much of the noise, or of the mean of a row.
_OF_NOISE, _OF_MEAN = 0.5, 0.1
_LEAST = 0.02
_STEPS = 40
# Weights are learnt from so many cells at most, of a table and of all, and parts below a weight
# are left out.
_CELLS, _ALL_CELLS, _NO_WEIGHT = 1 << 11, 1 << 15, 1e-4
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Cells:
    """Noisy counts of one table with what is known of each; all of one shape, or broadcast.

    Attributes
    ----------
    noisy : ndarray of shape (n_rows, n_categories)
    variance : of the noise.
    centre, centre_variance : what a count is expected to be, and the variance of that.
    total : ndarray of shape (n_rows, 1), what a row holds.
    part : ndarray of shape (n_rows, 1), how much of its pool a row is.
    """

    noisy: np.ndarray
    variance: np.ndarray
    centre: np.ndarray
    centre_variance: np.ndarray
    total: np.ndarray
    part: np.ndarray

    def flat(self) -> np.ndarray:
        """One column for each cell."""
        shape = self.noisy.shape
        mean = self.total / shape[1]
        known = (
            self.noisy,
            self.variance,
            self.centre,
            self.centre_variance,
            self.total,
            self.part,
            mean,
        )
        return np.stack([np.broadcast_to(each, shape).reshape(-1) for each in known])


@dataclass(frozen=True)
class Posterior:
    """Means and variances of counts, of shape (n_rows, n_categories)."""

    mean: np.ndarray
    variance: np.ndarray


def read_cells(groups: Sequence[Cells]) -> list[Posterior]:
    """The posteriors of the cells of several tables of one kind.

    Parameters
    ----------
    groups : sequence of Cells
        One for each table.

    Returns
    -------
    list of Posterior
    """
    flat = [group.flat() for group in groups]
    weights = _learnt([_some(cells) for cells in flat])
    weights[weights < _NO_WEIGHT] = 0.0
    sizes = [cells.shape[1] for cells in flat]
    table = np.repeat(np.arange(len(sizes)), sizes)
    everything = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
    del flat  # tables may be large
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(table), _BLOCK)]
    moments = np.concatenate(
        [_moments(everything[:, block], weights[table[block]]) for block in blocks], axis=1
    )
    return [
        Posterior(*part.reshape(2, *group.noisy.shape))
        for group, part in zip(
            groups, np.split(moments, np.cumsum(sizes)[:-1], axis=1), strict=True
        )
    ]


@cache
def _first_weights() -> np.ndarray:
    sizes = np.array([len(_SPREADS), len(_WIDE), len(_NEAR_ZERO)])
    return np.repeat(_WEIGHTS / sizes, sizes)


def _some(cells: np.ndarray) -> np.ndarray:
    """Cells at equal distances, no more than are needed."""
    return cells[:, :: -(-cells.shape[1] // _CELLS)]


def _learnt(cells: Sequence[np.ndarray]) -> np.ndarray:
    """The weights of the prior's parts, one row for each table."""
    sizes = [part.shape[1] for part in cells]
    step = -(-sum(sizes) // _ALL_CELLS)
    everything = np.concatenate(cells, axis=1)
    first = _first_weights()
    likelihood = _likelihood(everything)
    thinned = likelihood[::step]
    common = first[np.newaxis]
    for _ in range(_STEPS):
        common = _improved(common, thinned, [0], first, _CELLS_OF_MODEL)
    starts = np.cumsum([0, *sizes[:-1]])
    own, common = np.repeat(common, len(sizes), axis=0), common[0]
    if len(sizes) == 1:
        return own
    for _ in range(_STEPS // 2):
        own = _improved(own, likelihood, starts, common, _CELLS_OF_TABLE)
    return own


def _improved(
    weights: np.ndarray,
    likelihood: np.ndarray,
    starts: Sequence[int] | np.ndarray,
    prior: np.ndarray,
    cells: float,
) -> np.ndarray:
    """One step of EM for each run of cells, beside `cells` imagined ones that are as `prior`."""
    sizes = np.diff([*starts, len(likelihood)])
    parts = likelihood * (np.repeat(weights, sizes, axis=0) if len(sizes) > 1 else weights)
    parts /= parts.sum(axis=1, keepdims=True)
    counts = np.add.reduceat(parts, starts, axis=0) + cells * prior
    return counts / counts.sum(axis=1, keepdims=True)


def _parts(cells: np.ndarray, which) -> list[tuple[np.ndarray, np.ndarray]]:
    """Centres and variances of parts of the prior."""
    _, variance, centre, centre_variance, total, part_of_pool, mean = cells
    share = np.clip(centre / total, 0.0, 1.0)
    # That of a sample, which is the least that rows of one pool differ by. A row that is nearly
    # all of its pool cannot differ much from it, and tells nothing of how others do.
    sampled = centre * np.maximum(1 - share, _LEAST) * np.maximum(1 - part_of_pool, _LEAST)
    sampled = np.maximum(sampled, _LEAST**2)
    least = np.maximum(np.minimum(_OF_NOISE * np.sqrt(variance), _OF_MEAN * mean), _LEAST)
    found = []
    for part in which:
        if part < len(_SPREADS):
            found.append((centre, sampled * (1 + total * _SPREADS[part]) + centre_variance))
        elif part < len(_SPREADS) + len(_WIDE):
            found.append((centre, (_WIDE[part - len(_SPREADS)] * mean) ** 2))
        else:
            width = np.maximum(_NEAR_ZERO[part - len(_SPREADS) - len(_WIDE)] * centre, least)
            found.append((np.array(0.0), width**2))
    return found


class _Part(NamedTuple):
    """What one part of the prior makes of noisy counts.

    Attributes
    ----------
    log_likelihood : ndarray, up to a constant.
    mean, square : ndarray, the mean of the count and of its square.
    """

    log_likelihood: np.ndarray
    mean: np.ndarray
    square: np.ndarray


def _part(noisy, variance, centre, spread) -> _Part:
    both = spread + variance
    deviation = np.sqrt(spread * variance / both)
    z = (noisy * spread + centre * variance) / (both * deviation)
    log_beyond, above = _beyond_zero(z)
    likelihood = log_beyond - ((noisy - centre) ** 2 / both + np.log(both)) / 2
    # Of what lies about 0, half is cut off.
    likelihood -= _beyond_zero(centre / np.sqrt(spread))[0] if centre.ndim else -np.log(2)
    mean = z + above
    return _Part(likelihood, deviation * mean, deviation**2 * (1 + z * mean))


def _beyond_zero(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a normal variable of mean z and deviation 1, what lies above 0.

    The logarithm of its probability, and by how much its mean is above z.
    """
    # Beyond 8 deviations there is no difference that a float would hold.
    near = np.minimum(z, 8.0)
    scaled = erfcx(near * -np.sqrt(0.5))
    return np.log(scaled / 2) - near**2 / 2, np.sqrt(2 / np.pi) / scaled


def _likelihood(cells: np.ndarray) -> np.ndarray:
    """Likelihoods of the cells (rows) under all parts, up to a factor of each cell."""
    every = range(len(_first_weights()))
    logs = [_part(cells[0], cells[1], *each).log_likelihood for each in _parts(cells, every)]
    return _exponential(np.stack(logs, axis=1))


def _moments(cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Means and variances of counts given noisy ones, by the weights of each cell's table."""
    which = np.flatnonzero(weights.any(axis=0))
    found = [_part(cells[0], cells[1], *each) for each in _parts(cells, which)]
    logs, means, squares = (np.stack(each) for each in zip(*found, strict=True))
    shares = _exponential(logs, axis=0)
    shares *= weights[:, which].T
    shares /= shares.sum(axis=0)
    mean = (shares * means).sum(axis=0)
    return np.stack([mean, np.maximum((shares * squares).sum(axis=0) - mean**2, 0.0)])


def _exponential(logs: np.ndarray, axis: int = 1) -> np.ndarray:
    return np.exp(logs - logs.max(axis=axis, keepdims=True))
