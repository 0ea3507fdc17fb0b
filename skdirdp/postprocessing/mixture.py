"""Means of counts given noisy ones, under a prior that the noisy counts choose themselves.

A count is imagined as near its *centre*, what the pool of its row would lead one to expect, as
near what the counts beside it lead to expect, as whatever the mean of its row allows, or as
nothing. The prior is a mixture of parts with a mean and a variance, all of them above 0: normal
distributions where they are narrow, exponential ones where they are wide, some of which hold
nothing at all with a certain probability. Given a normal noisy count, each part has a posterior
and a likelihood in closed form.

The weights of the parts start from what is taken for likely before anything is seen, and go
towards those under which the noisy counts are most likely by a few steps of the EM algorithm:
first for all cells of a model, then for each row from there. Few steps, and a few imagined cells
that are as before, keep them from believing in noise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

#: From so many categories on rows are long: of words, say, most of which are rare.
LONG = 64
# Variances of rows about their pool: over that of a sample of n records, less one, over n. Of
# those like the pool, and of those that hold nothing in most cells: these are nearer to it where
# rows are of words.
_ALIKE = np.array([0.0, 2.0**-11, 2.0**-9])
_SCATTERED, _SCATTERED_WORDS = np.array([2.0**-6, 1.0]), np.array([2.0**-10, 2.0**-5])
# How far cells are taken together with those beside them on either side, and how much of what
# these hold, in deviations, a cell differs from them.
_REACHES, _CURVES = (1, 3), (0.5, 0.3)
# The variance of the factor by which cells beside each other differ from what was expected.
_LEVEL = 2.0
# Rows of fewer cells have no neighbourhood that is not all of them.
_SHORTEST = 4
# A mean near 0 is this part of the centre, and at least so much of the noise, or of the mean of a
# row.
_NEAREST_ZERO = 1 / 64
_OF_NOISE, _OF_MEAN = 0.1, 0.02
_LEAST = 0.02
# What part of a count is the least that its variance is taken for.
_ROUNDED, _TINY = 1e-9, np.finfo(float).tiny
# Beyond so many deviations above 0 there is no difference that a float would hold.
_FAR = 8.0
# How many imagined cells hold the weights of a model, and those of a row, to what they were.
_CELLS_OF_MODEL, _CELLS_OF_ROW = 15.0, 2.0
_STEPS_OF_ROW = 8


class Start(NamedTuple):
    """Weights of the prior's parts before anything is seen, and how many steps lead from them."""

    weights: np.ndarray
    steps: int
    neighbours: bool

    @classmethod
    def of(
        cls,
        steps: int,
        *,
        alike: Sequence[float],
        beside: float | None,
        scattered: float,
        empty: float,
        any_size: float,
    ) -> "Start":
        """By kinds of parts, in the order of `Parts`; cells have no neighbours if that is None."""
        near = [] if beside is None else [beside / len(_REACHES)] * len(_REACHES)
        far = [scattered / 2] * 2
        weights = np.array([*alike, *near, *far, empty, any_size])
        return cls(weights / weights.sum(), steps, beside is not None)


class Starts(NamedTuple):
    """Where weights start: of rows whose cells have neighbours, and of others."""

    in_order: Start
    without: Start


#: Rows are first taken to be like those beside them, like their pool, or to have little to do
#: with either; a pool, of which nothing is known, is taken to be even. Of rows without an order,
#: which are long as a rule, many cells are taken to be empty.
OF_ROWS = Starts(
    Start.of(8, alike=(0.7, 0.7, 0.6), beside=6.0, scattered=0.01, empty=0.1, any_size=2.0),
    Start.of(30, alike=(0.2, 0.7, 1.1), beside=None, scattered=6.0, empty=0.1, any_size=0.2),
)
OF_POOLS = Starts(
    Start.of(8, alike=(0.9, 0.02, 0.02), beside=None, scattered=0.05, empty=0.02, any_size=0.15),
    Start.of(30, alike=(0.2, 0.1, 0.1), beside=None, scattered=2.0, empty=0.02, any_size=0.04),
)

#: A histogram has no pool that could tell of its cells.
OF_HISTOGRAMS = Start.of(
    8, alike=(0.02, 0.02, 0.06), beside=None, scattered=0.02, empty=0.01, any_size=0.8
)


class Cells(NamedTuple):
    """Noisy counts of one table with what is known of them.

    Attributes
    ----------
    noisy : ndarray of shape (n_rows, n_categories)
    variance, per_count : float
        The mean variance of their noise, and what every count adds to it.
    shares, share_variances : ndarray of that shape, or of that of one row
        What part of a row each count is expected to be, and the variance of that. One row is
        the pool of all rows of the table.
    total : ndarray of shape (n_rows,)
        What a row holds.
    total_variance : float
        How uncertain that is.
    part, own : ndarray of shape (n_rows,)
        How much of its pool a row is; and how much of the variance of a centre its cell's own
        noise has brought there.
    width : int
        How many counts a row has, of which some may be left out here.
    is_last : bool
        Whether nothing more is read from what is found.
    caution : float
        How far what is found is from being sure that there is nothing, in deviations of the
        noise.
    in_order : bool
        Whether categories that are beside each other may be alike.
    of_words : bool
        Whether a row is one of words: what it holds is then a guess, by what its class holds of
        records. Tables that are read at once are all of words, or none is.
    nearest_zero : float
        The least mean of a part of the prior, over the centre; the same for all of these.
    """

    noisy: np.ndarray
    variance: float
    per_count: float
    shares: np.ndarray
    share_variances: np.ndarray
    total: np.ndarray
    total_variance: float
    part: np.ndarray
    own: np.ndarray
    width: int
    is_last: bool
    caution: float = 0.0
    in_order: bool = True
    of_words: bool = False
    nearest_zero: float = _NEAREST_ZERO

    @property
    def has_neighbours(self) -> bool:
        """Whether cells are read with those beside them: long rows are of words."""
        return self.in_order and self.width < LONG

    @property
    def needs_variances(self) -> bool:
        """Whether more than means is asked for: by what is read next, or by the sums of rows."""
        return not (self.is_last and self.of_words)

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
            own=self.own[chosen],
        )


class Rows(NamedTuple):
    """Rows of several tables in one run."""

    sizes: np.ndarray
    starts: np.ndarray
    of_cells: np.ndarray  # the row of each cell

    @property
    def are_equal(self) -> bool:
        """Whether all are of one length."""
        return bool((self.sizes == self.sizes[0]).all())

    @classmethod
    def of(cls, groups: Sequence[Cells]) -> "Rows":
        sizes = np.repeat(
            [group.noisy.shape[1] for group in groups], [len(group.noisy) for group in groups]
        )
        return cls(sizes, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes))


class Flat(NamedTuple):
    """Cells of several tables in one run, row by row, with what is known of each.

    `own_variance` is how much of the noise of a cell is in its centre too, and `near` what the
    cells beside it lead one to expect, with variances, by how far they reach.
    """

    noisy: np.ndarray
    variance: np.ndarray
    centre: np.ndarray
    centre_variance: np.ndarray
    own_variance: np.ndarray
    total: np.ndarray
    part: np.ndarray
    mean: np.ndarray
    of_words: bool = False
    nearest_zero: float = _NEAREST_ZERO
    near: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(cls, groups: Sequence[Cells], rows: Rows, neighbours: bool) -> "Flat":
        lengths = np.array([len(group.noisy) for group in groups])
        noisy = np.concatenate([group.noisy.reshape(-1) for group in groups])
        tables = np.array([(group.variance, group.per_count, group.width) for group in groups])
        first = np.cumsum(lengths) - lengths
        of_table = np.add.reduceat(noisy, rows.starts[first]) / np.add.reduceat(rows.sizes, first)
        of_tables = np.concatenate([tables.T, of_table[np.newaxis]])
        of_rows = np.concatenate(
            [
                *[group.total for group in groups],
                *[group.part for group in groups],
                *[group.own for group in groups],
            ]
        ).reshape(3, -1)
        by_row = np.concatenate([of_rows, of_tables.repeat(lengths, axis=1)])
        total, part, own, variance, per_count, width, of_table = by_row.take(rows.of_cells, axis=1)
        shares = _of_every_row(groups, [group.shares for group in groups])
        variances = _of_every_row(groups, [group.share_variances for group in groups])
        variance = varying(noisy, variance, per_count, of_table)
        centre, centre_variance = total * shares, total**2 * variances
        return cls(
            noisy,
            variance,
            centre,
            centre_variance,
            own_variance(centre_variance, own, part, variance),
            total,
            part,
            total / width,
            groups[0].of_words,
            groups[0].nearest_zero,
            _near(noisy, variance, centre, rows) if neighbours else None,
        )


def _of_every_row(groups: Sequence[Cells], known: Sequence[np.ndarray]) -> np.ndarray:
    """What is known of cells in one run: where it is of one row, all of a table have that."""
    times = [len(group.noisy) // len(each) for group, each in zip(groups, known, strict=True)]
    rows = [[each.reshape(-1)] * n for each, n in zip(known, times, strict=True)]
    return np.concatenate([row for of_table in rows for row in of_table])


def varying(noisy, variance, per_count, mean):
    """Variances of the noise of cells: the same on average, and more where there is more."""
    return np.maximum(variance + per_count * (noisy - mean), variance / 2)


def own_variance(centre_variance, own, part, variance):
    """How much of the variance of its noise a cell shares with its centre."""
    return np.minimum(own * centre_variance, (1 - _LEAST) * np.minimum(part, 1.0) * variance)


def _near(
    noisy: np.ndarray, variance: np.ndarray, centre: np.ndarray, rows: Rows
) -> tuple[np.ndarray, np.ndarray]:
    """What the cells beside each one lead one to expect of it, and the variances of that.

    The more these hold beyond their centres, the more it is expected to hold beyond its own; the
    less so where one side of it has fewer of them, or none. Rows that are too short have
    infinite variances.
    """
    place = np.arange(len(noisy))
    first, last = rows.starts[rows.of_cells], (rows.starts + rows.sizes)[rows.of_cells]
    cells = np.stack([noisy, centre, variance])
    sums = np.zeros((len(cells), len(noisy) + 1))
    np.cumsum(cells, axis=1, out=sums[:, 1:])
    shape = (len(_REACHES), len(noisy))
    found, variances = np.empty(shape), np.empty(shape)
    for i, (reach, curve) in enumerate(zip(_REACHES, _CURVES, strict=True)):
        low, high = np.maximum(place - reach, first), np.minimum(place + reach + 1, last)
        seen, expected, of_seen = sums.take(high, axis=1) - sums.take(low, axis=1) - cells
        np.maximum(expected, _LEAST**2, out=expected)
        of_factor = of_seen / expected**2
        known = _LEVEL / (_LEVEL + of_factor)
        factor = np.maximum(1 + known * (seen / expected - 1), 0.0)
        found[i] = centre * factor
        unknown = centre**2 * (_LEVEL * (1 - known))
        missing = 2 * reach / np.maximum(high - low - 1, 1)
        variances[i] = unknown + (curve * missing * found[i]) ** 2 + found[i] + _LEAST
    variances[:, rows.sizes[rows.of_cells] < _SHORTEST] = np.inf
    return found, variances


class Parts(NamedTuple):
    """What each part of the prior (first dimension) makes of each noisy count (second).

    In turn: those like the pool, like the cells beside (where they are looked at), those that
    hold nothing in most cells, the one near 0, and the one of any size up to the mean of a row.

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
        # What a sample of the pool would differ from it by is the least that rows do. A row that
        # is nearly all of its pool cannot differ much, and tells nothing of how others do.
        sampled = centre * np.maximum(1 - centre / cells.total, _LEAST)
        sampled *= np.maximum(1 - cells.part, _LEAST)
        np.maximum(sampled, _LEAST**2, out=sampled)
        expected = _expected(cells, sampled)
        spread = _SCATTERED_WORDS if cells.of_words else _SCATTERED
        scattered = (1 + spread[:, np.newaxis] * cells.total) * sampled
        scattered += cells.centre_variance
        chance = np.minimum(2 * centre**2 / (scattered + centre**2), 1.0)
        least = np.minimum(_OF_NOISE * np.sqrt(variance), _OF_MEAN * cells.mean)
        np.maximum(least, _LEAST, out=least)
        empty = np.maximum(cells.nearest_zero * centre, least)
        means = np.array([*(centre / chance), empty, cells.mean])
        # All at once from here on.
        normal, others = _normal(noisy, *expected), _exponential(noisy, variance, means)
        n_normal = len(normal[0])
        uncut = np.empty((len(normal), n_normal + len(means), len(noisy)))
        for each, of_normal, of_others in zip(uncut, normal, others, strict=True):
            each[:n_normal], each[n_normal:] = of_normal, of_others
        logs, mean, square = _cut_off(*uncut)
        some = slice(n_normal, n_normal + len(chance))
        _or_nothing(noisy, variance, chance, logs[some], mean[some], square[some])
        logs -= logs.max(axis=0)
        return cls(np.exp(logs, out=logs), mean, square)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of counts, by weights of each part for each of them."""
        shares = self.likelihood * weights
        total = shares.sum(axis=0)
        mean = np.einsum("ij,ij->j", shares, self.mean)
        mean /= total
        variance = np.einsum("ij,ij->j", shares, self.square)
        variance /= total
        variance -= mean**2
        return mean, np.maximum(variance, 0.0, out=variance)


def given_sums(
    mean: np.ndarray,
    variance: np.ndarray,
    sums: np.ndarray,
    sum_variances: np.ndarray | float,
    rows: Rows,
) -> np.ndarray:
    """Means of counts given the sums of their rows as well, to first order in what is lacking.

    Of independent counts and a sum that is known up to a variance, the regression of each count
    on what that sum lacks: counts that are known well stay, and those that may be of any size
    take it. Of what is too much none gives up all that it has.
    """
    weights = _sharing(mean, variance)
    tilt = sums - np.add.reduceat(mean, rows.starts)
    tilt /= np.add.reduceat(weights, rows.starts) + sum_variances
    weights *= tilt.take(rows.of_cells)
    return _moved(mean, weights)


def given_sum(mean: np.ndarray, variance: np.ndarray, total: float, uncertain: float) -> np.ndarray:
    """The same of a single row."""
    weights = _sharing(mean, variance)
    weights *= (total - mean.sum()) / (weights.sum() + uncertain)
    return _moved(mean, weights)


def _sharing(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """By what counts share what is lacking: variances, which may be lost in rounding."""
    weights = mean * _ROUNDED
    weights += variance
    return weights


def _moved(mean: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Positive means, moved up, or down in the same first order."""
    found = np.maximum(-by, _TINY)
    found += mean
    np.divide(mean, found, out=found)
    found *= mean
    found += np.maximum(by, 0.0)
    return found


def cautious(
    mean: np.ndarray, variance: np.ndarray, of_row: np.ndarray, caution: float | np.ndarray
) -> np.ndarray:
    """Counts none of which is as sure to be nothing as its mean would say.

    What is added is at most this many deviations of the noise. It vanishes for counts that are
    far above the noise, and in rows whose mean is far below it: their cells are empty as a rule.
    """
    deviation = np.sqrt(variance)
    share = of_row**2 / (of_row**2 + variance)
    return mean + caution * share * variance / (mean + deviation)


def common_weights(likelihood: np.ndarray, start: Start) -> np.ndarray:
    """The weights of the prior's parts for all cells of a model.

    Parameters
    ----------
    likelihood : ndarray of shape (n_parts, n_cells)
    start : Start

    Returns
    -------
    ndarray of shape (n_parts,)
    """
    weights = _learnt(likelihood, _CELLS_OF_MODEL * start.weights, start.steps)
    return weights / weights.sum()


def _learnt(likelihood: np.ndarray, before: np.ndarray, steps: int) -> np.ndarray:
    """Weights that all cells have, up to a factor, after so many steps from those before."""
    weights = before
    for _ in range(steps):
        # What each cell adds is its likelihood under a part, over that under all of them: only
        # proportions of weights matter, which are therefore not divided by their sum.
        weights = weights * likelihood.dot(np.reciprocal(weights.dot(likelihood)))
        weights += before
    return weights


def row_weights(likelihood: np.ndarray, rows: Rows, common: np.ndarray) -> np.ndarray:
    """The weights of the prior's parts for each row, from those of the model.

    Returns
    -------
    ndarray of shape (n_parts, n_rows)
    """
    before = _CELLS_OF_ROW * common
    if len(rows.sizes) == 1:
        weights = _learnt(likelihood, before, _STEPS_OF_ROW)[:, np.newaxis]
    elif rows.are_equal:
        weights = _learnt_by_equal_rows(likelihood, before, len(rows.sizes))
    else:
        weights = _learnt_by_rows(likelihood, before, rows)
    return weights / weights.sum(axis=0)


def _learnt_by_rows(likelihood: np.ndarray, before: np.ndarray, rows: Rows) -> np.ndarray:
    """The same, for the cells of each row."""
    before = before[:, np.newaxis]
    weights = np.repeat(before, len(rows.sizes), axis=1)
    for _ in range(_STEPS_OF_ROW):
        shares = weights.take(rows.of_cells, axis=1)
        shares *= likelihood
        shares /= shares.sum(axis=0)
        weights = np.add.reduceat(shares, rows.starts, axis=1)
        weights += before
    return weights


def _learnt_by_equal_rows(likelihood: np.ndarray, before: np.ndarray, n_rows: int) -> np.ndarray:
    """The same of rows of one length: by products of matrices, one for each row."""
    of_rows = likelihood.reshape(len(likelihood), n_rows, -1).transpose(1, 0, 2)
    turned = of_rows.transpose(0, 2, 1)
    weights = np.repeat(before[np.newaxis, np.newaxis], n_rows, axis=0)
    for _ in range(_STEPS_OF_ROW):
        weights = weights * (np.reciprocal(weights @ of_rows) @ turned)
        weights += before
    return weights[:, 0].T


# Posteriors of single parts --------------------------------------------------------
# Each gives logarithms of likelihoods up to one constant, and means of counts and of squares.


def _expected(cells: Flat, sampled: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of the parts like the pool and like the cells beside: the noise, means and variances."""
    alike = (1 + _ALIKE[:, np.newaxis] * cells.total) * sampled
    alike += np.maximum(cells.centre_variance - cells.own_variance, 0.0)
    noise = cells.variance - cells.own_variance
    if cells.near is None:
        return noise, cells.centre, alike
    near, variances = cells.near
    n_alike = len(alike)
    found = np.empty((3, n_alike + len(near), len(noise)))
    for each, of_pool, beside in zip(
        found, (noise, cells.centre, alike), (cells.variance, near, variances), strict=True
    ):
        each[:n_alike], each[n_alike:] = of_pool, beside
    return tuple(found)


def _normal(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Parts with a mean and a variance: exponential ones with that mean where they are wide.

    A normal part as wide as its mean has a larger one once it is cut off at 0. Parts of infinite
    variance have no likelihood.
    """
    mean = np.maximum(mean, _LEAST**2)
    # In this form nothing becomes a nan where the spread is infinite.
    ratio = variance / spread
    of_mean = 1 + ratio
    deviation = np.sqrt(variance / of_mean)
    z = (noisy + mean * ratio) / (of_mean * deviation)
    # Of what is not cut off at 0, before and after.
    both = spread + variance
    factor = 0.5 / (np.sqrt(both) * ndtr(mean / np.sqrt(spread)))
    tilt = (noisy - mean) ** 2 / both
    tilt += np.minimum(z, _FAR) ** 2
    tilt /= -2
    found = z, deviation, factor, tilt
    wide = np.flatnonzero(spread >= mean**2)
    if wide.size:
        cells = wide % noisy.size
        variance, mean = (each.take(cells if each.ndim == 1 else wide) for each in (variance, mean))
        of_wide = _exponential(noisy.take(cells), variance, mean)
        of_wide[-1][np.isinf(spread.take(wide))] = -np.inf
        for each, values in zip(found, of_wide, strict=True):
            each.put(wide, values)
    return found


def _or_nothing(
    noisy: np.ndarray,
    variance: np.ndarray,
    chance: np.ndarray,
    logs: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Turn parts, in place, into ones that hold nothing unless a chance has it otherwise."""
    nothing = (noisy**2 / variance + np.log(variance)) / -2
    # How likely nothing is beside such a count is bounded, by about its mean over the noise.
    whole = chance + (1 - chance) * np.exp(nothing - logs)
    some = chance / whole
    first *= some
    second *= some
    logs += np.log(whole)


def exponential(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exponential parts of these means."""
    return _cut_off(*_exponential(noisy, variance, mean))


def _exponential(
    noisy: np.ndarray, variance: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The same before they are cut off: posteriors of a flat prior, moved."""
    deviation, rate = np.sqrt(variance), 1 / mean
    z = (noisy - variance * rate) / deviation
    tilt = _tilt(noisy, variance, rate, z)
    rate *= np.sqrt(np.pi / 2)
    return z, deviation, rate, tilt


def _cut_off(
    z: np.ndarray, deviation: np.ndarray, factor: np.ndarray, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors that are normal, cut off at 0.

    Parameters
    ----------
    z, deviation : ndarray
        Their means before that, in deviations, and these.
    factor, tilt : ndarray
        What the part above 0, over the density of z there, is multiplied by for a likelihood,
        and the logarithm of what else it is.
    """
    scaled, above = _scaled_beyond_zero(z)
    scaled *= factor
    logs = np.log(scaled, out=scaled)
    logs += tilt
    return logs, *_moments(z, above, deviation)


def _tilt(noisy: np.ndarray, variance: np.ndarray, rate: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The logarithm of an exponential part's likelihood, less that of what is not cut off."""
    near = noisy**2 / (-2 * variance)
    if z.max(initial=0.0) < _FAR:
        return near
    # Beyond, squares of z cancel that would take all digits with them where noise is large.
    return np.where(z < _FAR, near, (variance * rate / 2 - noisy) * rate - _FAR**2 / 2)


def _moments(
    z: np.ndarray, above: np.ndarray, deviation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of counts and of their squares, of normal ones cut off at 0."""
    above += z
    square = 1 + z * above
    if (far := z < -1e3).any():
        above[far], square[far] = -1 / z[far], 2 / z[far] ** 2
    above *= deviation
    square *= deviation**2
    return above, square


def _scaled_beyond_zero(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of normal variables of mean z and deviation 1, what lies above 0.

    Twice its probability times ``exp(z**2 / 2)``, and by how much its mean is above z.
    """
    scaled = erfcx(np.minimum(z, _FAR) * -np.sqrt(0.5))
    return scaled, np.sqrt(2 / np.pi) / scaled
