"""The public grid of fine bins that numeric columns are counted on.

A grid is made of cells whose width is a power of two and whose borders are its
multiples: those are exact in floating point, and so are whole numbers among them.
Hence a value that many rows share lies on one side of a border in the count, and on
the same side when it is binned later. Fine bins are runs of cells.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._contributions import count_cells
from ..numerics.rows import row_blocks

#: How borders are spread: the fraction of them that follow the logarithm of |x|.
FINE_SCALES = {"linear": 0.0, "mixed": 0.5, "symlog": 1.0}

# Cells per grid: this many at most, and half of it at least. Their counts should stay in the
# second-level cache.
_MAX_CELLS = 1 << 17
# Below this part of the larger bound the logarithmic borders turn evenly spaced. At
# the default number of fine bins the narrowest are then one cell wide.
_SMALLEST_SCALE = 1 / 4096
# Entries of X that are worked on at once, and rows whose cells are kept between counts.
BLOCK_ENTRIES = 1 << 15
_COUNTED_ROWS = 1 << 18
# Up to this many borders, comparing with each is faster than a binary search.
_FEW_BORDERS = 48


@dataclass(frozen=True)
class FineGrid:
    """Fine bins over public bounds.

    Attributes
    ----------
    low, high : the bounds; values beyond them count in the end bins.
    width : the width of a cell.
    first : the position of the first cell, in cells from 0.
    starts : the first cell of each fine bin, counted from `first`.
    """

    low: float
    high: float
    width: float
    first: float
    starts: np.ndarray

    @property
    def n_bins(self) -> int:
        return len(self.starts)

    @property
    def n_cells(self) -> int:
        return _n_cells(self.high, self.width, self.first)

    def binned(self, cells: np.ndarray) -> np.ndarray:
        """Counts of the fine bins, from those of cells.

        There may be one cell more: the upper bound itself may start one, which then belongs
        to the last fine bin.
        """
        return np.add.reduceat(cells, self.starts)

    @property
    def edges(self) -> np.ndarray:
        inner = (self.first + self.starts[1:]) * self.width
        return np.concatenate([[self.low], inner, [self.high]])


@lru_cache(maxsize=256)
def fine_grid(low: float, high: float, n_bins: int, scale: str) -> FineGrid:
    """A grid of `n_bins` fine bins, chosen from the bounds alone.

    There are fewer bins where floating-point numbers between the bounds are fewer.
    """
    # Half as many cells are enough for the bins.
    most = max(_MAX_CELLS, 2 << (n_bins - 1).bit_length())
    # No finer than the numbers themselves, so that borders stay exact.
    width = max(high / most - low / most, _resolution(low, high))
    width = 2.0 ** np.ceil(np.log2(width))
    first = np.floor(low / width)
    n_cells = _n_cells(high, width, first)
    n_bins = min(n_bins, n_cells)
    fraction = FINE_SCALES[scale]
    progress = np.linspace(0, 1, n_cells)
    with np.errstate(over="ignore"):  # at the largest floats, before clipping
        position = np.clip((first + np.arange(n_cells)) * width, low, high)
    unit = max(abs(low), abs(high)) * _SMALLEST_SCALE
    stretched = np.arcsinh(position / unit)
    stretched -= stretched[0]
    # Between close bounds the logarithm may have no two values.
    if fraction > 0 and stretched[-1] > 0:
        progress = (1 - fraction) * progress + fraction * (stretched / stretched[-1])
    starts = np.searchsorted(progress, np.arange(n_bins) / n_bins)
    starts[0] = 0
    # Where borders crowd into one cell they spill over into the next ones, and at the
    # upper end back into those before.
    steps = np.arange(n_bins)
    starts = np.maximum.accumulate(starts - steps) + steps
    starts = np.minimum(starts, n_cells - n_bins + steps)
    starts.flags.writeable = False
    return FineGrid(float(low), float(high), float(width), float(first), starts)


def _n_cells(high: float, width: float, first: float) -> int:
    return int(np.ceil(high / width) - first)


def _resolution(low: float, high: float) -> float:
    """The least width of a cell between the bounds whose borders, and inverse, are floats."""
    largest = max(abs(low), abs(high))
    return float(max(largest - np.nextafter(largest, 0.0), np.finfo(float).tiny))


def observed_bounds(column: np.ndarray, n_bins: int = 0) -> tuple[float, float]:
    """The least and the largest value, or wider bounds if `n_bins` bins would not fit between.

    A constant column is widened too, so that the number of bins is not for data to choose.
    """
    low, high = float(column.min()), float(column.max())
    # With several numbers to a bin, edges at equal distances are distinct after rounding.
    if high - low >= 4 * n_bins * _resolution(low, high):
        return low, high
    half = max(1.0, abs(low), abs(high)) / 2
    largest = float(np.finfo(float).max)
    return max(low - half, -largest), min(high + half, largest)


def count_fine_bins(X: np.ndarray, columns: list[int], grids: list[FineGrid]) -> list[np.ndarray]:
    """Counts of the fine bins of the given columns: each row of X is in one bin of each."""
    low = np.array([grid.low for grid in grids])
    high = np.array([grid.high for grid in grids])
    scale = np.array([1 / grid.width for grid in grids])
    first = np.array([grid.first for grid in grids])
    reaches_below = bool(first.min() < 0)
    counts = [np.zeros(grid.n_cells + 1) for grid in grids]
    everything = columns == list(range(X.shape[1]))
    cells = np.empty((len(columns), min(_COUNTED_ROWS, len(X))), dtype=np.int32)
    for part in range(0, len(X), _COUNTED_ROWS):
        rows = X[part : part + _COUNTED_ROWS]
        for block in row_blocks(len(rows), rows.shape[1], BLOCK_ENTRIES):
            chosen = rows[block] if everything else rows[block][:, columns]
            inside = np.clip(chosen, low, high, dtype=np.float64)
            inside *= scale
            if reaches_below:
                # A value just below a border may be nearer to it than the difference can tell.
                np.floor(inside, out=inside)
            inside -= first
            cells[:, block] = inside.T
        for total, column in zip(counts, cells, strict=True):
            total += count_cells(column[: len(rows)], total.size)
    return [grid.binned(total) for total, grid in zip(counts, grids, strict=True)]


def assign_bins(X: np.ndarray, borders: list[np.ndarray], dtype) -> np.ndarray:
    """The number of a column's borders at or below each value; equal values count as below."""
    bins = np.empty(X.shape, dtype=dtype)
    most = max(len(inner) for inner in borders)
    if most <= _FEW_BORDERS:
        levels = np.full((most, X.shape[1]), np.inf)
        for column, inner in enumerate(borders):
            levels[: len(inner), column] = inner
        for block in row_blocks(len(X), X.shape[1], BLOCK_ENTRIES):
            passed = np.zeros(bins[block].shape, dtype=np.uint8)
            for level in levels:
                passed += X[block] >= level
            bins[block] = passed
        return bins
    for block in row_blocks(len(X), X.shape[1], 16 * BLOCK_ENTRIES):
        for column, inner in enumerate(borders):
            bins[block, column] = np.searchsorted(inner, X[block, column], side="right")
    return bins
