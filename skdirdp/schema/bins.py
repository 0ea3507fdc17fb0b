"""Fine bins between public bounds, and quantile bins made of fine bins.

A fine bin consists of adjacent cells. The width of the cells is a power of two, and their edges
are multiples of it, so edges are exact, and a value is on the same side of an edge when it is
counted and when it is binned later.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from .kinds import Dates

#: Fraction of the edges that are spaced logarithmically in |x|; the others are evenly spaced.
FINE_SCALES = {"linear": 0.0, "mixed": 0.5, "symlog": 1.0}

# Maximum number of cells of a grid: a lookup table of all cells fits in the L2 cache.
_MAX_CELLS = 1 << 17
# Logarithmic edges become evenly spaced below this fraction of the larger bound. With the
# default number of fine bins, the narrowest are then one cell wide.
_SMALLEST_SCALE = 1 / 4096
# A quantile bin with less than this fraction of an equal share is merged with another.
_NEARLY_EMPTY = 0.1


@dataclass(frozen=True)
class FineGrid:
    """Fine bins between public bounds; values outside are counted in the first or last bin.

    If `has_missing`, missing values are counted in an additional last bin.
    """

    low: float
    high: float
    width: float  # width of a cell
    first: float  # lower bound divided by the width, rounded down
    starts: np.ndarray  # first cell of each fine bin
    has_missing: bool = False

    @property
    def n_bins(self) -> int:
        """Number of fine bins between the bounds."""
        return len(self.starts)

    @property
    def n_counts(self) -> int:
        """Number of fine bins, including the bin for missing values."""
        return self.n_bins + self.has_missing

    @property
    def n_cells(self) -> int:
        return _n_cells(self.high, self.width, self.first)

    @cached_property
    def bin_of_cell(self) -> np.ndarray:
        """Fine bin of each cell, and of two additional cells.

        The first starts at the upper bound, if this is an edge. The last is for missing values.
        """
        sizes = np.diff(self.starts, append=self.n_cells + 1)
        bins = np.repeat(np.arange(self.n_bins, dtype=np.int32), sizes)
        return np.append(bins, np.int32(self.n_counts - 1))

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the fine bin of each value; NaN is a missing value."""
        # Scaling by a power of two is exact. Floors are taken before the subtraction, which
        # could round a value just below an edge up to it.
        cells = np.floor(np.clip(values, self.low, self.high) * (1 / self.width)) - self.first
        cells[np.isnan(cells)] = self.n_cells + 1
        return self.bin_of_cell[cells.astype(np.int32)]

    @property
    def edges(self) -> np.ndarray:
        """Edges of the fine bins; the bin for missing values ends at infinity."""
        inner = (self.first + self.starts[1:]) * self.width
        ends = [self.high, np.inf] if self.has_missing else [self.high]
        return np.concatenate([[self.low], inner, ends])


@lru_cache(maxsize=256)
def fine_grid(low: float, high: float, n_bins: int, scale: str, *, whole: bool = False) -> FineGrid:
    """Return a grid of `n_bins` fine bins that depends only on the bounds, not on the data.

    There are fewer bins if there are fewer floating-point numbers between the bounds. If `whole`,
    edges are whole numbers.
    """
    # Rounding the width up to a power of two may halve the number of cells.
    max_cells = max(_MAX_CELLS, 2 << (n_bins - 1).bit_length())
    # Cells are not narrower than the spacing of floats, so that edges are exact.
    width = max(high / max_cells - low / max_cells, resolution(low, high), float(whole))
    width = 2.0 ** np.ceil(np.log2(width))
    first = np.floor(low / width)
    n_cells = _n_cells(high, width, first)
    n_bins = min(n_bins, n_cells)
    fraction = FINE_SCALES[scale]
    progress = np.linspace(0, 1, n_cells)
    with np.errstate(over="ignore"):  # the largest floats overflow before clipping
        position = np.clip((first + np.arange(n_cells)) * width, low, high)
    unit = max(abs(low), abs(high)) * _SMALLEST_SCALE
    stretched = np.arcsinh(position / unit)
    stretched -= stretched[0]
    # If the bounds are close, all logarithms may be equal after rounding.
    if fraction > 0 and stretched[-1] > 0:
        progress = (1 - fraction) * progress + fraction * (stretched / stretched[-1])
    starts = np.searchsorted(progress, np.arange(n_bins) / n_bins)
    starts[0] = 0
    # If several edges fall into one cell, move them to the next or, at the end, previous cells.
    steps = np.arange(n_bins)
    starts = np.maximum.accumulate(starts - steps) + steps
    starts = np.minimum(starts, n_cells - n_bins + steps)
    starts.flags.writeable = False
    return FineGrid(float(low), float(high), float(width), float(first), starts)


@lru_cache(maxsize=256)
def kind_grid(kind: Any, n_bins: int, scale: str) -> FineGrid:
    """Return the fine bins of a kind; a whole number n occupies the interval from n to n + 1."""
    low, high = kind.axis_bounds
    scale = "linear" if isinstance(kind, Dates) else scale  # dates have no natural zero
    grid = fine_grid(low, high + kind.is_discrete, n_bins, scale, whole=kind.is_discrete)
    return replace(grid, has_missing=kind.missing)


def _n_cells(high: float, width: float, first: float) -> int:
    return int(np.ceil(high / width) - first)


def resolution(low: float, high: float) -> float:
    """Return the smallest cell width for which edges and the inverse width are exact floats."""
    largest = max(abs(low), abs(high))
    return float(max(largest - np.nextafter(largest, 0.0), np.finfo(float).tiny))


def quantile_edges(cdf: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the positions of the edges of `n_bins` bins with about the same number of records.

    If many records share a value, several quantiles are equal, and their edges would coincide.
    The extra edges split other bins: in each step, the bin whose smaller half is the largest.
    The number of bins never depends on the data; the noise in later steps relies on this.
    `cdf` is non-decreasing from 0 to 1, at the edges of at least `n_bins` fine bins.
    """
    levels = np.arange(1, n_bins) / n_bins
    above = np.searchsorted(cdf[1:-1], levels) + 1
    nearest = np.where(levels - cdf[above - 1] < cdf[above] - levels, above - 1, above)
    edges = np.concatenate([[0], nearest, [len(cdf) - 1]])
    edges = edges[np.diff(edges, prepend=-1) > 0]
    edges = _merge_nearly_empty(cdf, edges, _NEARLY_EMPTY / n_bins)
    return edges if len(edges) > n_bins else _split_largest(cdf, edges, n_bins)


def _merge_nearly_empty(cdf: np.ndarray, edges: np.ndarray, min_share: float) -> np.ndarray:
    """Merge each bin whose share is below `min_share` with its smaller neighbour."""
    while len(edges) > 2:
        shares = np.diff(cdf[edges])
        smallest = int(np.argmin(shares))
        if shares[smallest] >= min_share:
            break
        padded = np.concatenate([[np.inf], shares, [np.inf]])
        edges = np.delete(edges, smallest + (padded[smallest + 2] <= padded[smallest]))
    return edges


def _split_largest(cdf: np.ndarray, edges: np.ndarray, n_bins: int) -> np.ndarray:
    """Split bins at edges of fine bins until there are `n_bins`."""
    split = edges.tolist()
    candidates = [_best_split(cdf, *ends) for ends in pairwise(split) if ends[1] - ends[0] > 1]
    heapify(candidates)
    while len(split) <= n_bins:
        _, _, start, middle, stop = heappop(candidates)
        split.append(middle)
        for ends in ((start, middle), (middle, stop)):
            if ends[1] - ends[0] > 1:
                heappush(candidates, _best_split(cdf, *ends))
    return np.sort(split)


def _best_split(cdf: np.ndarray, start: int, stop: int) -> tuple[float, int, int, int, int]:
    """Return the best split of a bin, as a tuple that sorts by the share of its smaller half."""
    level = (cdf[start] + cdf[stop]) / 2
    upper = start + 1 + int(np.searchsorted(cdf[start + 1 : stop - 1], level))
    between = (max(upper - 1, start + 1), upper)
    smaller, middle = max(
        (min(cdf[middle] - cdf[start], cdf[stop] - cdf[middle]), middle) for middle in between
    )
    if smaller <= 0:  # one fine bin contains all records, or there are no records
        middle = (start + stop) // 2
    return -float(smaller), start - stop, start, middle, stop
