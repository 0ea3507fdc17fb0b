"""Fine bins between public bounds, their refinement, and quantile bins made of fine bins.

`FineGrid` is for histograms, and `BinCells` for networks, which draw values from bins.

A fine bin consists of adjacent cells. The width of the cells is a power of two, and their edges
are multiples of it, so edges are exact, and a value is on the same side of an edge when it is
counted and when it is binned later.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import count, pairwise
from typing import Any

import numpy as np
import pandas as pd

from .kinds import MISSING_STATE, Dates, Numbers

#: Fraction of the edges that are spaced logarithmically in |x|; the others are evenly spaced.
FINE_SCALES = {"linear": 0.0, "mixed": 0.5, "symlog": 1.0}

# Maximum number of cells of a grid: a lookup table of all cells fits in the L2 cache.
_MAX_CELLS = 1 << 17
# Logarithmic edges become evenly spaced below this fraction of the larger bound. With the
# default number of fine bins, the narrowest are then one cell wide.
_SMALLEST_SCALE = 1 / 4096
# A quantile bin with less than this fraction of an equal share is merged with another.
_NEARLY_EMPTY = 0.1
# Numeric columns are counted in at most this many bins, which are grouped later.
_N_FINE_BINS = 128
# The smallest positive float: the bin from 0 to here contains only 0.
_AFTER_ZERO = float(np.nextafter(0.0, 1.0))
_MIN_INT = np.int64(-(2**63))
# Pieces of bins are divided into this many parts, those of floats this many times.
_N_PARTS, _FLOAT_REFINEMENTS = 512, 6
# The remainder of a divided piece is treated as empty below this many standard deviations of the
# noise.
_MIN_SIGNAL = 3.0


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


@dataclass(frozen=True)
class BinCells:
    """Cells of a column of numbers or dates: fine bins, and the last for missing values.

    Values beyond the edges are in the first or the last bin. Edges of whole numbers lie
    between them.
    """

    kind: Numbers | Dates
    edges: tuple[float, ...]  # edges on the axis of the kind
    released_pieces: "Pieces | None" = field(default=None, compare=False)

    @classmethod
    def from_kind(cls, kind: Numbers | Dates) -> "BinCells":
        """Return bins between the bounds.

        Half of the borders are evenly spaced, and half follow the logarithm of the distance
        from 0. The value 0 has its own bin, because many records may share it. Borders of dates
        are evenly spaced.
        """
        low, high = kind.axis_bounds
        whole = kind.is_discrete
        if whole and high - low < _N_FINE_BINS:
            return cls(kind, tuple(np.arange(low, high + 2) - 0.5))
        if isinstance(kind, Dates):
            inner = np.linspace(low, high, _N_FINE_BINS + 1)[1:-1]
            return cls(kind, (low - 0.5, *(np.floor(inner) + 0.5).tolist(), high + 0.5))
        unit = max(abs(low), abs(high)) * _SMALLEST_SCALE
        even = np.linspace(low, high, _N_FINE_BINS // 2 + 1)
        start, stop = np.arcsinh(low / unit), np.arcsinh(high / unit)
        curved = unit * np.sinh(np.linspace(start, stop, _N_FINE_BINS // 2 + 1))
        inner = np.concatenate([even[1:-1], curved[1:-1]])
        if whole:
            inner = np.concatenate([np.floor(inner) + 0.5, [-0.5, 0.5]])
            low, high = low - 0.5, high + 0.5
        else:
            inner = np.concatenate([inner, [0.0, _AFTER_ZERO]])
        inner = inner[(inner > low) & (inner < high)]
        return cls(kind, (low, *np.unique(inner).tolist(), high))

    @cached_property
    def _edges(self) -> np.ndarray:
        return np.array(self.edges)

    @cached_property
    def centres(self) -> np.ndarray:
        """Mean of each bin on the axis."""
        left, right = self._piece_ends
        return np.bincount(self.pieces.bins, self.pieces.shares * (left + right) / 2)

    @property
    def numbers(self) -> np.ndarray:
        """Centre of each cell, NaN for missing values."""
        return np.append(self.centres, np.nan)

    @cached_property
    def pieces(self) -> "Pieces":
        """Pieces of the bins: the whole bins, until they are refined."""
        if self.released_pieces is not None:
            return self.released_pieces
        ranks = self._rank(self._edges)
        ranks[-1] += not self.kind.is_discrete  # the upper bound is in the last bin
        return Pieces(np.arange(len(ranks) - 1), ranks[:-1], ranks[1:], np.ones(len(ranks) - 1))

    @cached_property
    def _piece_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the pieces on the axis; both are the value if there is only one."""
        starts, stops = self.pieces.starts, self.pieces.stops
        if self.kind.is_discrete:
            return starts - 0.5, stops - 0.5
        left, right = self._unrank(starts), self._unrank(stops)
        return left, np.where(stops - starts == 1, left, np.minimum(right, self.edges[-1]))

    def _rank(self, values: np.ndarray) -> np.ndarray:
        """Return whole numbers in the order of the values, without gaps between floats."""
        if self.kind.is_discrete:
            return np.ceil(values).astype(np.int64)
        bits = (values + 0.0).view(np.int64)  # -0.0 becomes 0.0
        return np.where(bits < 0, _MIN_INT - bits, bits)

    def _unrank(self, ranks: np.ndarray) -> np.ndarray:
        """Return the floats that have these ranks."""
        return np.where(ranks < 0, _MIN_INT - ranks, ranks).view(np.float64)

    def ranks(self, codes: np.ndarray) -> np.ndarray:
        """Return the ranks of encoded values, without missing ones."""
        values = self.kind.to_axis(codes)
        return self._rank(values[~np.isnan(values)])

    @property
    def n_refinements(self) -> int:
        """Number of times that bins are divided until almost all parts are single values."""
        if not self.kind.is_discrete:
            return _FLOAT_REFINEMENTS
        widest = int(np.diff(self._rank(self._edges)).max())
        return next(n for n in count() if _N_PARTS**n >= widest)

    @property
    def n_cells(self) -> int:
        return len(self.edges)

    @property
    def optional(self) -> list[int]:
        """Cells that may be absent: missing values."""
        return [len(self.edges) - 1]

    def from_codes(self, codes: np.ndarray) -> np.ndarray:
        """Return the cells of encoded values."""
        values = self.kind.to_axis(codes)
        found = np.searchsorted(self._edges[1:-1], values, side="right")
        found[np.isnan(values)] = self.n_cells - 1
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        """Return the range of a group of cells, without missing values."""
        bins = [cell for cell in cells if cell < self.n_cells - 1]
        if not bins:
            return MISSING_STATE
        low, high = self.edges[min(bins)], self.edges[max(bins) + 1]
        if not self.kind.is_discrete:
            is_zero = low == 0 and high == _AFTER_ZERO
            return low if is_zero else pd.Interval(low, high, closed="left")
        ends = self.kind.from_axis(np.array([np.ceil(low), np.floor(high)]))
        low, high = self.kind.decode(ends).tolist()
        return low if low == high else pd.Interval(low, high, closed="both")

    def condition_weights(self, name: Hashable, condition: Any) -> np.ndarray:
        """Return the fraction of each cell that meets a condition."""
        weights = np.zeros(self.n_cells)
        if condition is None or condition is pd.NA or condition != condition:
            weights[-1] = 1.0
            return weights
        low, high = self._parse_condition(name, condition)
        if low > self.edges[-1] or high < self.edges[0]:
            raise ValueError(f"given must be within the bounds of {name!r}; it is beyond them")
        if low == high:
            weights[np.searchsorted(self._edges[1:-1], low, side="right")] = 1.0
            return weights
        weights[:-1] = np.bincount(self.pieces.bins, self._meeting_shares(low, high))
        return weights

    def _meeting_shares(self, low: float, high: float) -> np.ndarray:
        """Return the share of each piece in its bin, without values beyond a range."""
        if self.kind.is_discrete:
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        left, right = self._piece_ends
        inside = np.minimum(right, high) - np.maximum(left, low)
        single = left == right
        fractions = np.clip(inside / np.where(single, 1.0, right - left), 0.0, 1.0)
        return self.pieces.shares * np.where(single, inside == 0, fractions)

    def draw(self, cells: np.ndarray, condition: Any, generator: np.random.Generator) -> Any:
        """Return a random value from each cell that meets the condition, unless it is None."""
        missing = cells == self.n_cells - 1
        cells, shares = np.where(missing, 0, cells), self.pieces.shares
        low, high = -np.inf, np.inf
        if condition is not None and not missing.all():
            low, high = self._parse_condition("", condition)
            if low < high:
                shares = self._meeting_shares(low, high)
        if self.kind.is_discrete and low < high:
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        chosen = self.pieces.choose(cells, shares, generator)
        left, right = (np.clip(ends[chosen], low, high) for ends in self._piece_ends)
        return self.kind.draw(left, right, missing, generator)

    def _parse_condition(self, name: Hashable, condition: Any) -> tuple[float, float]:
        """Return a range on the axis: a pair, or one value twice."""
        pair = condition if isinstance(condition, tuple) else (condition, condition)
        if len(pair) != 2:
            raise ValueError(f"given must be a value or a pair (low, high) for {name!r}")
        try:
            low, high = map(self.kind.parse_axis, pair)
        except ValueError as error:
            raise ValueError(f"given for {name!r}: {error}") from None
        if low > high:
            raise ValueError(f"given must have low <= high for {name!r}")
        return low, high


@dataclass(frozen=True)
class Pieces:
    """Ranges of values with their shares of the bins that contain them.

    A piece may contain others. Values are drawn uniformly from a piece.
    """

    bins: np.ndarray
    starts: np.ndarray  # rank of the first value
    stops: np.ndarray  # rank after the last value
    shares: np.ndarray

    def choose(
        self, bins: np.ndarray, shares: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """Draw a piece of each bin, with probabilities proportional to `shares`."""
        sizes = np.bincount(self.bins)
        if len(sizes) == len(self.bins):
            return bins
        sums = np.bincount(self.bins, shares)[self.bins]
        cumulated = np.cumsum(np.where(sums > 0, shares / np.where(sums > 0, sums, 1.0), 0.0))
        ends = np.cumsum(sizes)
        stops = cumulated[ends - 1][bins]
        starts = np.concatenate([[0.0], cumulated])[(ends - sizes)[bins]]
        positions = starts + generator.random(len(bins)) * (stops - starts)
        chosen = np.searchsorted(cumulated, positions, side="right")
        return np.clip(chosen, (ends - sizes)[bins], ends[bins] - 1)  # positions are rounded


class Refinement:
    """Search for values that many records share, and for narrow ranges with many records.

    Pieces with many records are divided into parts of about equal size, whose records are counted.
    Parts with many records become pieces, which are divided next.
    """

    def __init__(self, domain: BinCells, counts: np.ndarray, ranks: np.ndarray, min_records: float):
        self._domain, self._ranks, self._min_records = domain, ranks, min_records
        self._pieces = replace(domain.pieces, shares=np.maximum(counts, 0.0))
        self._divided = np.zeros(0, dtype=np.intp)
        self._open_pieces(0)

    def _open_pieces(self, first: int) -> None:
        """Divide pieces with enough records next, except those before `first`."""
        pieces = self._pieces
        wide = (pieces.stops - pieces.starts > 1) & (pieces.shares >= self._min_records)
        self._divided = first + np.flatnonzero(wide[first:])
        # Pieces that are divided together do not overlap.
        self._divided = self._divided[np.argsort(pieces.starts[self._divided])]

    @property
    def is_done(self) -> bool:
        return len(self._divided) == 0

    @property
    def _sizes(self) -> np.ndarray:
        """Number of values in a part of each divided piece."""
        starts, stops = self._pieces.starts[self._divided], self._pieces.stops[self._divided]
        return -((starts - stops) // _N_PARTS)

    def count(self) -> np.ndarray:
        """Return the exact number of records in each part; a record is in one of them or none.

        Records outside of the divided pieces are not needed again.
        """
        starts, stops = self._pieces.starts[self._divided], self._pieces.stops[self._divided]
        pieces = np.searchsorted(starts, self._ranks, side="right") - 1
        inside = (pieces >= 0) & (self._ranks < stops[pieces])
        pieces, self._ranks = pieces[inside], self._ranks[inside]
        parts = (self._ranks - starts[pieces]) // self._sizes[pieces]
        n_cells = len(starts) * _N_PARTS
        counts = np.bincount(pieces * _N_PARTS + parts, minlength=n_cells).reshape(-1, _N_PARTS)
        return counts.astype(np.float64)

    def update(self, noisy: np.ndarray, sigma: float) -> None:
        """Add the parts that have many records by their noisy counts."""
        pieces, sizes = self._pieces, self._sizes[:, np.newaxis]
        starts = pieces.starts[self._divided][:, np.newaxis] + sizes * np.arange(_N_PARTS)
        ends = pieces.stops[self._divided][:, np.newaxis]
        counts = np.where((noisy >= self._min_records) & (starts < ends), noisy, 0.0)
        sums, previous = counts.sum(axis=1), pieces.shares[self._divided]
        # Without a significant difference, no record is assumed outside the parts that were found.
        noise = _MIN_SIGNAL * sigma * np.sqrt(np.sum(counts > 0, axis=1))
        complete = (sums > 0) & (previous - sums < noise)
        counts[complete] *= (previous / np.where(sums > 0, sums, 1.0))[complete, np.newaxis]
        rows, parts = np.nonzero(counts)
        shares = pieces.shares.copy()
        shares[self._divided] = np.where(complete, 0.0, np.maximum(previous - sums, 0.0))
        self._pieces = Pieces(
            np.append(pieces.bins, pieces.bins[self._divided][rows]),
            np.append(pieces.starts, starts[rows, parts]),
            np.append(pieces.stops, np.minimum(starts + sizes, ends)[rows, parts]),
            np.append(shares, counts[rows, parts]),
        )
        self._open_pieces(len(shares))

    def refined(self) -> BinCells:
        """Return the bins with the pieces that were found."""
        order = np.argsort(self._pieces.bins, kind="stable")
        bins, starts, stops, counts = (values[order] for values in vars(self._pieces).values())
        sums = np.bincount(bins, counts)[bins]
        # The first piece of a bin is the bin itself.
        whole = np.diff(bins, prepend=-1) > 0
        shares = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), whole)
        return replace(self._domain, released_pieces=Pieces(bins, starts, stops, shares))


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
