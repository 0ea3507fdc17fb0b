"""Histograms of numeric columns: counts of public fine bins, and released estimates.

Released histograms never use exact counts.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import isotonic_regression

from .._contributions import count_cells
from .._messages import warn
from .._persons import CountedRows
from ..engines import Counter, Part, TableCounts
from ..mechanisms.base import Mechanism
from ..numerics.rows import row_blocks
from ..postprocessing import NoisyTable, estimate_histogram
from ..postprocessing.estimates import project_counts
from ..schema import FineGrid, Schema, resolution

# Number of entries of X processed at once, and number whose cells are buffered before counting.
BLOCK_ENTRIES = 1 << 15
_COUNTED_ENTRIES = 1 << 22
# Up to this number of edges, comparing with every edge is faster than a binary search.
_MAX_COMPARED_EDGES = 48
# Codes that engines use for non-finite values, and these values.
_INVALID_CODES = {-1: np.nan, -2: np.inf}
#: Edges of the one bin of a constant feature, as in scikit-learn.
CONSTANT_EDGES = np.array([-np.inf, np.inf])
# scikit-learn merges bins that are narrower than this.
_MIN_WIDTH = 1e-8


# Fine bins -----------------------------------------------------------------------------


def observed_bounds(column: np.ndarray, n_bins: int = 0) -> tuple[float, float]:
    """Return the smallest and largest value, or wider bounds if `n_bins` bins do not fit.

    Bounds of a constant column are widened too: the number of bins must not depend on the data.
    """
    low, high = float(column.min()), float(column.max())
    # If each bin contains several floats, equidistant edges remain distinct after rounding.
    if high - low >= 4 * n_bins * resolution(low, high):
        return low, high
    half = max(1.0, abs(low), abs(high)) / 2
    largest = float(np.finfo(float).max)
    return max(low - half, -largest), min(high + half, largest)


def count_fine_bins(X: np.ndarray, columns: list[int], grids: list[FineGrid]) -> list[np.ndarray]:
    """Return the number of rows of X in each fine bin of some columns."""
    ends = [(grid.low, grid.high, 1 / grid.width, grid.first) for grid in grids]
    low, high, scale, first = np.array(ends).T
    reaches_below = bool(first.min() < 0)
    has_missing = any(grid.has_missing for grid in grids)
    missing_cells = [grid.n_cells + 1 for grid in grids]
    counts = [np.zeros(grid.n_counts) for grid in grids]
    all_columns = columns == list(range(X.shape[1]))
    parts = list(row_blocks(len(X), len(columns), _COUNTED_ENTRIES))
    cells = np.empty((len(columns), parts[0].stop if parts else 0), dtype=np.int32)
    for part in parts:
        rows = X[part]
        for block in row_blocks(len(rows), rows.shape[1], BLOCK_ENTRIES):
            chosen = rows[block] if all_columns else rows[block][:, columns]
            inside = np.clip(chosen, low, high, dtype=np.float64)
            inside *= scale
            if reaches_below:
                # Otherwise the subtraction could round a value just below an edge up to it.
                np.floor(inside, out=inside)
            inside -= first
            if has_missing:
                np.copyto(inside, missing_cells, where=np.isnan(inside))
            cells[:, block] = inside.T
        for total, column, grid in zip(counts, cells, grids, strict=True):
            total += count_cells(grid.bin_of_cell[column[: len(rows)]], grid.n_counts)
    return counts


def assign_bins(X: np.ndarray, edges: list[np.ndarray], dtype: Any) -> np.ndarray:
    """Return the bin of each value: the number of edges of its column that do not exceed it."""
    bins = np.empty(X.shape, dtype=dtype)
    n_levels = max(len(inner) for inner in edges)
    if n_levels <= _MAX_COMPARED_EDGES:
        levels = np.full((n_levels, X.shape[1]), np.inf)
        for column, inner in enumerate(edges):
            levels[: len(inner), column] = inner
        for block in row_blocks(len(X), X.shape[1], BLOCK_ENTRIES):
            passed = np.zeros(bins[block].shape, dtype=np.uint8)
            for level in levels:
                passed += X[block] >= level
            bins[block] = passed
        return bins
    for block in row_blocks(len(X), X.shape[1], 16 * BLOCK_ENTRIES):
        for column, inner in enumerate(edges):
            bins[block, column] = np.searchsorted(inner, X[block, column], side="right")
    return bins


# Features ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureBins:
    """Requested number of bins, number of categories and fine grid of each feature."""

    n_bins: list[int]
    n_categories: list[int | None]  # None for numeric features
    grids: list[FineGrid | None]  # None for categorical and constant features

    def edges(self) -> list[np.ndarray]:
        edges = [CONSTANT_EDGES if n is None else np.arange(n + 1) - 0.5 for n in self.n_categories]
        for k, grid in enumerate(self.grids):
            edges[k] = edges[k] if grid is None else grid.edges
        return edges

    def count(self, X: np.ndarray) -> list[np.ndarray]:
        """Return exact counts of the bins; constant features have one bin with count 0."""
        counts = [
            np.zeros(1) if size is None else count_cells(X[:, k].astype(np.intp), size)
            for k, size in enumerate(self.n_categories)
        ]
        numeric = {k: grid for k, grid in enumerate(self.grids) if grid is not None}
        if numeric:
            fine_counts = count_fine_bins(X, list(numeric), list(numeric.values()))
            for k, bins in zip(numeric, fine_counts, strict=True):
                counts[k] = bins
        return counts


@dataclass(frozen=True)
class BinCounter(Counter):
    """Counter of fine bins in a table that is not in memory."""

    model: Any
    bins: FeatureBins
    max_rows: int

    @property
    def schema(self) -> Schema | None:
        return self.model.schema

    def count_part(self, part: Part, previous: CountedRows | None) -> TableCounts:
        # Validation sets attributes of the model, which threads share, so the model is copied.
        X = self.model._for_workers()._validate(part.X, reset=False)
        counted = self.select_rows(part.groups, len(X), previous)
        X = counted.take(X)
        if len(X):
            check_categories(X, self.bins.n_categories)
        return TableCounts(CountedRows(counted.unit, counted.n_rows), self.bins.count(X))

    def count_frame(self, frame: Any) -> TableCounts:
        numbers = frame.numbers()
        if not numbers.are_numeric:
            self._check(numbers.extreme_rows(None))
        tables = []
        for k, name in enumerate(frame.with_progress(frame.names)):
            size, grid = self.bins.n_categories[k], self.bins.grids[k]
            if grid is None:
                assert size is not None
                groups = frame.group([name], size, partial(self._categories, k))
                tables.append(count_cells(groups.codes, size, groups.weights))
            else:
                n_cells = grid.n_cells + 1
                groups = frame.group_cells(name, grid, n_cells, self._cells)
                cells = count_cells(groups.codes, n_cells, groups.weights)
                tables.append(np.add.reduceat(cells, grid.starts))
        return TableCounts(frame.counted(groups.n_rows, self.max_rows), tables)

    def _categories(self, feature: int, records: pd.DataFrame) -> np.ndarray:
        X = self._check(records)
        check_categories(X, [self.bins.n_categories[feature]], feature)
        return X[:, 0].astype(np.intp)

    def _cells(self, records: pd.DataFrame) -> np.ndarray:
        self._check(records.astype(np.float64).replace(_INVALID_CODES))
        return records.iloc[:, 0].to_numpy(dtype=np.intp)

    def _check(self, records: pd.DataFrame) -> np.ndarray:
        return self.model._for_workers()._validate(records, reset=True)


def check_categories(X: np.ndarray, sizes: list[Any], first: int = 0) -> None:
    """Raise an error if a value is not a category. `first` is the index of the first column."""
    for k, size in enumerate(sizes, first):
        if size is None:
            continue
        column = X[:, k - first]
        if column.min() < 0 or column.max() >= size or np.any(column != np.floor(column)):
            raise ValueError(
                f"X must contain integers from 0 to {size - 1} in feature {k}, which has "
                f"n_categories {size}; some values are not"
            )


def check_pair(pair: Any, feature: int) -> tuple[float, float]:
    ends = np.asarray(pair, dtype=float)
    if ends.shape != (2,) or not np.all(np.isfinite(ends)) or not ends[0] < ends[1]:
        raise ValueError(
            "bounds must be pairs of finite numbers, the lower one first; "
            f"got {pair!r} for feature {feature}"
        )
    return float(ends[0]), float(ends[1])


def check_bins_fit(
    n_bins: list[int], grids: list[FineGrid | None], strategy: str, n_fine_bins: int
) -> None:
    """Raise an error, before the charge, if the bins do not fit between the bounds."""
    for k, (number, grid) in enumerate(zip(n_bins, grids, strict=True)):
        if grid is None:
            continue
        if strategy == "quantile" and number > grid.n_bins:
            raise ValueError(
                f"n_bins must be at most the number of fine bins; got {number} and {grid.n_bins} "
                f"for feature {k}, of n_fine_bins={n_fine_bins}. There are fewer if there are few "
                "floating-point numbers between the bounds"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            distinct = np.all(np.diff(np.linspace(grid.low, grid.high, number + 1)) > 0)
        if strategy == "uniform" and not distinct:
            raise ValueError(
                f"bounds must allow n_bins={number} bins of equal width in floating point; those "
                f"of feature {k} are too close"
            )


def bins_from_onehot(X: Any, n_bins: np.ndarray) -> np.ndarray:
    features = np.repeat(np.arange(len(n_bins)), n_bins)
    bins = np.concatenate([np.arange(n) for n in n_bins])
    # The number of ones in the columns of each feature, and the sum of their bins.
    ones, bin_sums = (
        X @ sparse.csr_array((values.astype(X.dtype), (np.arange(bins.size), features)))
        for values in (np.ones_like(bins), bins)
    )
    if sparse.issparse(ones):
        ones, bin_sums = ones.toarray(), bin_sums.toarray()
    if np.any(ones != 1):
        raise ValueError("X must be one-hot encoded, with one 1 per feature in each row")
    return bin_sums


# Quantile bins -------------------------------------------------------------------------


def exact_quantiles(values: np.ndarray, n_bins: int, feature: int) -> np.ndarray:
    """Return exactly the edges of `KBinsDiscretizer`, for fits without noise."""
    if len(values) == 0:  # all are missing
        return CONSTANT_EDGES
    percents = np.linspace(0, 100, n_bins + 1)  # 100 * 0.3 is not 30
    edges = np.percentile(values, percents, method="averaged_inverted_cdf")
    edges = edges[np.ediff1d(edges, to_begin=np.inf) > _MIN_WIDTH].astype(float)
    if len(edges) <= n_bins:
        warn(
            "Bins whose width are too small (i.e., <= 1e-8) in feature "
            f"{feature} are removed. Consider decreasing the number of bins."
        )
    return edges if len(edges) > 1 else CONSTANT_EDGES


def value_edges(edges: np.ndarray) -> np.ndarray:
    """Return edges without that of the bin of missing values, which is infinite."""
    return edges[:-1] if len(edges) > 2 and np.isinf(edges[-1]) else edges


# Released histograms -------------------------------------------------------------------


@dataclass(frozen=True)
class ReleasedHistogram:
    """Histogram of one feature, released as probabilities."""

    edges: np.ndarray
    release: np.ndarray
    mechanism: Mechanism
    n_samples: Any
    ordered: bool = True  # whether adjacent bins contain adjacent values
    has_missing: bool = False  # whether the last bin, which has no edges, counts missing values

    @cached_property
    def _unbiased(self) -> np.ndarray:
        """Shares of the bins with noise of mean 0; they sum to 1."""
        return self.mechanism.unbiased(self.release, self.n_samples)

    def _estimate_unordered(self) -> np.ndarray:
        nearest = project_counts(self._unbiased, 1.0)
        return nearest / nearest.sum()

    def _limits(
        self, first: np.ndarray, stop: np.ndarray, confidence: float, estimate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return limits of the true shares of runs of adjacent bins."""
        if self.mechanism.is_exact:  # computed limits would differ by rounding errors
            return estimate, estimate
        return self.mechanism.limits(
            self.release, first, stop, n_samples=self.n_samples, confidence=confidence
        )

    @cached_property
    def _cumulated(self) -> np.ndarray:
        """Estimated shares of records in the first bins, from none to all, non-decreasing."""
        if not self.ordered:
            return np.concatenate([[0.0], np.cumsum(self.probabilities)[:-1], [1.0]])
        # Isotonic regression does not increase the largest error.
        inner = isotonic_regression(np.cumsum(self._unbiased)[:-1]).x
        return np.concatenate([[0.0], np.clip(inner, 0.0, 1.0), [1.0]])

    @cached_property
    def cdf(self) -> np.ndarray:
        """Estimated share below each edge of the values that are not missing, non-decreasing."""
        if not self.has_missing:
            return self._cumulated
        present = self._cumulated[-2]
        if present <= 0:
            return np.linspace(0.0, 1.0, len(self.edges))
        return self._cumulated[:-1] / present

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Estimated share of records in each bin."""
        return np.diff(self._cumulated) if self.ordered else self._estimate_unordered()

    def means(self, edges: np.ndarray) -> np.ndarray:
        """Return the estimated mean in each of the wider bins, or the centre of an empty bin."""
        points = np.union1d(self.edges, edges)
        shares = np.diff(np.interp(points, self.edges, self.cdf))
        middles = points[:-1] / 2 + points[1:] / 2
        bins = np.clip(np.searchsorted(edges, middles) - 1, 0, len(edges) - 2)
        total = np.bincount(bins, shares, len(edges) - 1)
        # Normalize the weights first: values may be as large as the largest float.
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(bins, shares / total[bins] * middles, len(edges) - 1)
        centres = edges[:-1] / 2 + edges[1:] / 2
        inside = np.clip(means, edges[:-1], np.nextafter(edges[1:], edges[:-1]))
        return np.where(total > 0, inside, centres)

    def band(
        self, confidence: float, starts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return simultaneous limits of the true shares of all bins, or of runs of bins."""
        size = len(self.release)
        starts = np.arange(size) if starts is None else starts
        estimate = np.add.reduceat(self.probabilities, starts)
        return self._limits(starts, np.append(starts[1:], size), confidence, estimate)

    def cdf_band(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return simultaneous limits of the true CDF at all edges."""
        below = np.arange(1, len(self.release))
        limits = self._limits(np.zeros_like(below), below, confidence, self._cumulated[1:-1])
        # A CDF is non-decreasing: lower limits hold at later edges, upper limits at earlier edges.
        lower = np.maximum.accumulate(limits[0])
        upper = np.minimum.accumulate(limits[1][::-1])[::-1]
        if self.has_missing:  # limits of shares of the values that are not missing
            min_present, max_present = lower[-1], upper[-1]
            lower = lower[:-1] / max_present if max_present > 0 else np.zeros(len(lower) - 1)
            upper = (
                np.minimum(upper[:-1] / min_present, 1.0)
                if min_present > 0
                else np.ones(len(upper) - 1)
            )
        return np.concatenate([[0.0], lower, [1.0]]), np.concatenate([[0.0], upper, [1.0]])


@dataclass(frozen=True)
class NoisyHistogram(ReleasedHistogram):
    """Histogram of one feature, released as noisy counts; `n_samples` is None if not public.

    In the CDF of ordered bins, errors of single counts cancel, so counts are not shrunk.
    """

    @cached_property
    def _unbiased(self) -> np.ndarray:
        noisy, size, total = self.release, len(self.release), self.n_samples
        if total is None:
            # Use at least the standard deviation of the noise of the total, which is positive.
            variance = size * self.mechanism.noise.variance_at(max(noisy.mean(), 0.0))
            total = max(noisy.sum(), np.sqrt(variance))
        # The missing records are distributed evenly.
        return (noisy + (total - noisy.sum()) / size) / total

    def _estimate_unordered(self) -> np.ndarray:
        noisy = NoisyTable(self.release, self.mechanism.noise, ("bin",))
        return estimate_histogram(noisy, self.n_samples)

    def _limits(self, first, stop, confidence, estimate):
        return self.mechanism.limits_from_noisy(
            self.release, first, stop, n_samples=self.n_samples, confidence=confidence
        )
