"""Means of the counts of large tables, looked up instead of computed one by one.

What the prior makes of a count depends on the noisy count, on the centre, and on what its row
holds; for the widths of the normal parts, rows are taken to hold about as much as each other. So
it is computed for a grid of noisy counts and centres, with the mean and the weights of each row,
and between the points of the grid by interpolation: linear along noisy counts, and the nearest of
the centres, which lie about 15% apart.
"""

from itertools import product

import numpy as np

from ..numerics.rows import row_blocks
from .mixture import Cells, Flat, Parts, cautious, exponential, own_variance, varying

# Noisy counts, in deviations of their noise.
_STEP = 0.5
_NOISY = np.arange(-6.0, 24.0 + _STEP / 2, _STEP)
_LAST = len(_NOISY) - 1 - 1e-9
_APART, _MOST_LEVELS = 0.15, 64
# Counts beyond the grid are read one by one, unless so many are: these are taken as they are, as
# their noise is less than a twenty-fourth of them.
_MANY_BEYOND = 1 << 14
# So many are looked up at once.
_BLOCK = 1 << 16


def look_up(cells: Cells, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Means of counts and, where they are needed, variances.

    Parameters
    ----------
    cells : Cells
        With one row of shares for all rows.
    weights : ndarray of shape (n_parts, n_rows)
        Of the parts of the prior.

    Returns
    -------
    mean, variance : ndarray of shape (n_rows, n_categories)
    """
    deviation = np.sqrt(cells.variance)
    centres, columns, rows = _levels(cells)
    mean, square = _tables(cells, weights, deviation, centres, columns, rows)
    found = np.empty(cells.noisy.shape)
    variance = np.empty(cells.noisy.shape) if cells.needs_variances else None
    for row, part in product(range(len(cells.noisy)), row_blocks(cells.noisy.shape[1], 1, _BLOCK)):
        first = rows[row] * len(_NOISY)
        rest = cells.noisy[row, part] * (1 / (deviation * _STEP))
        rest -= _NOISY[0] / _STEP
        np.clip(rest, 0.0, _LAST, out=rest)
        place = rest.astype(np.intp)
        rest -= place
        place += columns[part] * len(_NOISY)
        means = found[row, part]
        _between(mean[row, first:], place, rest, out=means)
        if variance is not None:
            squares = variance[row, part]
            _between(square[row, first:], place, rest, out=squares)
            squares -= means**2
    beyond = np.nonzero(cells.noisy > deviation * _NOISY[-1])
    if len(beyond[0]):
        exact = _one_by_one(cells, weights, *beyond)
        found[beyond] = exact[0]
        if variance is not None:
            variance[beyond] = exact[1]
    return found, None if variance is None else np.maximum(variance, 0.0, out=variance)


def _levels(cells: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres, and the levels of columns and of rows, which add up to a centre's."""
    shares, totals = np.log(cells.shares[0]), np.log(cells.total)
    lowest = shares.min()
    width = shares.max() - lowest + np.ptp(totals)
    apart = max(_APART, width / (_MOST_LEVELS - 1))
    columns = np.rint((shares - lowest) / apart).astype(np.intp)
    rows = np.rint((totals - totals.min()) / apart).astype(np.intp)
    levels = np.arange(columns.max() + rows.max() + 1)
    return np.exp(lowest + totals.min() + apart * levels), columns, rows


def _tables(
    cells: Cells,
    weights: np.ndarray,
    deviation: float,
    centres: np.ndarray,
    columns: np.ndarray,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Means of counts and of their squares for a row (first dimension) at each point."""
    noisy = np.tile(deviation * _NOISY, len(centres))
    centre = np.repeat(centres, len(_NOISY))
    total = np.full(len(noisy), np.exp(np.log(cells.total).mean()))
    # Of columns at the same level, those of the average row.
    sizes = np.bincount(columns)
    relative = np.bincount(columns, cells.share_variances[0] / cells.shares[0] ** 2)
    filled = np.flatnonzero(sizes)
    at = np.arange(len(centres)) - rows.mean()
    relative = np.interp(at, filled, relative[filled] / sizes[filled])
    variances = varying(noisy, cells.variance, cells.per_count, cells.noisy.mean())
    part, own = cells.part.mean(), cells.own.mean()
    centre_variance = centre**2 * np.repeat(relative, len(_NOISY))
    parts = Parts.of(
        Flat(
            noisy,
            variances,
            centre,
            centre_variance,
            own_variance(centre_variance, own, part, variances),
            total,
            np.full(len(noisy), part),
            total / cells.width,
            cells.of_words,
            cells.nearest_zero,
        )
    )
    # The exponential part by the mean of each row, instead of that of the average row.
    line, variance = noisy[: len(_NOISY)], variances[: len(_NOISY)]
    average = exponential(line, variance, total[: len(_NOISY)] / cells.width)[0]
    logs, mean, square = exponential(line, variance, cells.total[:, np.newaxis] / cells.width)
    logs -= average
    logs += np.log(weights[-1][:, np.newaxis])
    own = np.tile(np.exp(logs), len(centres)) * parts.likelihood[-1]
    normal, of_normal = weights[:-1].T, parts.likelihood[:-1]
    likelihood = normal @ of_normal + own
    found = []
    for values, of_rows in ((parts.mean, mean), (parts.square, square)):
        sums = normal @ (of_normal * values[:-1])
        sums += own * np.tile(of_rows, len(centres))
        found.append(sums / likelihood)
    if cells.caution:
        of_row = cells.total[:, np.newaxis] / cells.width
        found[0] = cautious(found[0], variances, of_row, cells.caution)
    return found[0], found[1]


def _between(values: np.ndarray, place: np.ndarray, rest: np.ndarray, out: np.ndarray) -> None:
    """Values between two points, by the place of the first and the way to the second."""
    values.take(place, out=out, mode="clip")  # all are inside; other modes copy
    step = values[1:].take(place, mode="clip")
    step -= out
    step *= rest
    out += step


def _one_by_one(
    cells: Cells, weights: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of some counts."""
    noisy, total = cells.noisy[rows, columns], cells.total[rows]
    variance = varying(noisy, cells.variance, cells.per_count, cells.noisy.mean())
    if len(noisy) > _MANY_BEYOND:
        return noisy, variance
    shares, of_shares = cells.shares[0, columns], cells.share_variances[0, columns]
    part, centre_variance = cells.part[rows], total**2 * of_shares
    flat = Flat(
        noisy,
        variance,
        total * shares,
        centre_variance,
        own_variance(centre_variance, cells.own[rows], part, variance),
        total,
        part,
        total / cells.width,
        cells.of_words,
        cells.nearest_zero,
    )
    mean, spread = Parts.of(flat).moments(weights[:, rows])
    if cells.caution:
        mean = cautious(mean, variance, flat.mean, cells.caution)
    return mean, spread
