"""Bins of about equally many records, from an estimated distribution function.

There are as many bins as were asked for, however the records lie: later steps choose their
noise by the number of columns, which therefore has to be public.
"""

from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

# A bin with less than this part of its due is not worth a border.
_NEARLY_EMPTY = 0.1


def quantile_borders(cdf: np.ndarray, n_bins: int) -> np.ndarray:
    """Positions of the edges of `n_bins` bins that hold about equally many records.

    For each level it is the position where the CDF is nearest. A value that many records
    share takes several levels, and leaves borders that divide nothing, or nearly nothing.
    Those divide other bins instead: always the one whose smaller half is the largest.

    Parameters
    ----------
    cdf : ndarray of shape (n_fine_bins + 1,)
        From 0 to 1, at the borders of fine bins; it never falls.
    n_bins : int
        At most the number of fine bins.

    Returns
    -------
    ndarray of int of shape (n_bins + 1,)
        Strictly increasing, from the first position to the last.
    """
    levels = np.arange(1, n_bins) / n_bins
    above = np.clip(np.searchsorted(cdf, levels), 1, len(cdf) - 1)
    nearest = np.where(levels - cdf[above - 1] < cdf[above] - levels, above - 1, above)
    borders = np.unique(np.concatenate([[0], nearest, [len(cdf) - 1]]))
    borders = _without_nearly_empty(cdf, borders, _NEARLY_EMPTY / n_bins)
    return _divided(cdf, borders, n_bins)


def _without_nearly_empty(cdf: np.ndarray, borders: np.ndarray, least: float) -> np.ndarray:
    """The borders after each bin that holds too little has joined its smaller neighbour."""
    while len(borders) > 2:
        parts = np.diff(cdf[borders])
        smallest = int(np.argmin(parts))
        if parts[smallest] >= least:
            break
        beside = np.concatenate([[np.inf], parts, [np.inf]])
        borders = np.delete(borders, smallest + (beside[smallest + 2] <= beside[smallest]))
    return borders


def _divided(cdf: np.ndarray, borders: np.ndarray, n_bins: int) -> np.ndarray:
    """The borders with as many more, between fine bins, as make `n_bins` bins."""
    found = borders.tolist()
    waiting = [_halves(cdf, *ends) for ends in pairwise(found) if ends[1] - ends[0] > 1]
    heapify(waiting)
    while len(found) <= n_bins:
        _, _, start, middle, stop = heappop(waiting)
        found.append(middle)
        for ends in ((start, middle), (middle, stop)):
            if ends[1] - ends[0] > 1:
                heappush(waiting, _halves(cdf, *ends))
    return np.sort(found)


def _halves(cdf: np.ndarray, start: int, stop: int) -> tuple[float, int, int, int, int]:
    """How a bin of several fine bins is best divided; what is worth most sorts first."""
    level = (cdf[start] + cdf[stop]) / 2
    above = start + 1 + int(np.searchsorted(cdf[start + 1 : stop - 1], level))
    between = (max(above - 1, start + 1), above)
    smaller, middle = max(
        (min(cdf[middle] - cdf[start], cdf[stop] - cdf[middle]), middle) for middle in between
    )
    if smaller <= 0:  # one fine bin holds all of it, or there is nothing to hold
        middle = (start + stop) // 2
    return -float(smaller), start - stop, start, middle, stop
