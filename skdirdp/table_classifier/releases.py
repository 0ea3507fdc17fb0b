"""Exact tables of PrivateTableClassifier, and their releases as parts of one Gaussian release.

One charge, made before anything is drawn, covers all steps. Each step has a share of the budget
and may depend on the releases of earlier steps (docs/theory.md, Theorem 7 and section 19). Only
Gaussian noise can be spent step by step without loss.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from .._contributions import Weights, column_blocks, count_cells, sum_vectors
from .._persons import CountedRows
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.splitting import noise_for_share
from ..mechanisms.tables import ContributionBound
from ..schema import Categories, FineGrid, Schema, kind_grid, quantile_borders
from .model import (
    LOGIT_EDGES,
    AdditiveModel,
    ClassTables,
    Covariance,
    Estimate,
    MergedCells,
    ResidualSums,
    reference_logits,
    softmax,
)

# Shares of the budget, chosen on the eight data sets of benchmarks/data.py at epsilon from 0.1 to
# 3. Results hardly depend on them: with 0.2 to 0.4 for residuals, 0.1 for pairs or 0.02 for the
# calibration, the mean AUC at epsilon 0.3 to 3 changed by less than .001, and log loss by .003.
#: Share of the number of records, if it is not public.
SIZE_SHARE = 0.01
_BIN_SHARE = 0.04
_CALIBRATION_SHARE = 0.05
# Largest shares of the tables of pairs and of the residual sums. Both decrease to 0 as the signal
# of the class tables does, and the class tables get the rest.
_PAIR_SHARE = 0.15
_RESIDUAL_SHARE = 0.25
_MIN_SIGNAL = 16.0
# Two Newton steps are better than one with half of the noise from this signal on.
_TWO_STEPS = 100.0
# The prior mean of the scale of the scores is 1/2 at this signal.
_SLOPE_SIGNAL = 8.0
# Numbers of bins of a numeric column.
_MIN_BINS, _MAX_BINS = 5, 32
# Fine bins of numeric columns, from which bins are made.
_N_FINE_BINS = 256
# The precision of a column in the tables of pairs is at least this fraction of the largest.
_MIN_WEIGHT = 1 / 64


@dataclass(frozen=True)
class Plan:
    """Shares of the budget, and the number of bins, from public or released sizes."""

    bins: float
    classes: float
    calibration: float
    pairs: float
    residuals: float
    n_steps: int  # of Newton's method; each has an equal part of `residuals`
    n_bins: int
    slope: float  # mean of the prior of the scale of the scores

    @classmethod
    def from_sizes(
        cls,
        n_records: float,
        sigma: float,
        n_columns: int,
        n_classes: int,
        *,
        has_numbers: bool,
        has_records: bool = True,
        spent: float = 0.0,
    ) -> "Plan":
        """Plan the steps for noise `sigma` of a single table.

        The signal is about the number of records of a class over the noise of the class tables. If
        not `has_records`, tables are counted by the user, and no step can use single records.
        """
        signal = n_records / max(sigma * np.sqrt(2 * n_classes * n_columns), 1e-12)
        signal = min(signal, 1e6)
        reliable = signal / (signal + _MIN_SIGNAL) if signal >= _MIN_SIGNAL else 0.0
        # More bins would have too much noise, or sampling error.
        n_bins = min(np.sqrt(signal * np.sqrt(n_classes / 2)), np.cbrt(n_records))
        bins = _BIN_SHARE if has_numbers else 0.0
        calibration = _CALIBRATION_SHARE if has_records else 0.0
        pairs = _PAIR_SHARE * reliable if n_columns > 1 else 0.0
        residuals = _RESIDUAL_SHARE * reliable if has_records else 0.0
        return cls(
            bins,
            1.0 - spent - bins - calibration - pairs - residuals,
            calibration,
            pairs,
            residuals,
            2 if signal >= _TWO_STEPS else 1,
            int(np.clip(n_bins, _MIN_BINS, _MAX_BINS)),
            (signal / (signal + _SLOPE_SIGNAL)) ** 2,
        )


class Releases:
    """Releases of a fit, one after the other. `bound` holds for the weight of a record."""

    def __init__(self, whole: GaussianMechanism, bound: ContributionBound, n_columns: int):
        self.whole = whole
        self.joint = JointMechanism.from_mechanisms([whole])
        self._grid, self._max_weight = bound.grid, bound.max_count
        self._left = 1.0 + 1e-9
        self._generator: np.random.Generator | None = None
        # Noise that cannot be drawn is refused before the charge: that of the whole budget, and
        # of the smallest share.
        smallest = 1e-3 * _MIN_WEIGHT**2 / max(n_columns, 1) ** 2
        for mechanism in (whole, noise_for_share(whole, smallest, signed=True)):
            mechanism.check_table(np.zeros(1), self._grid)

    def start(self, generator: np.random.Generator | None) -> None:
        """Allow the releases, after the charge, with the generator of the noise."""
        self._generator = generator

    def _spend(self, share: float) -> None:
        self._left -= share
        # Not an assert statement, which `python -O` removes.
        if self._left < 0:
            raise AssertionError("steps were about to use more than the whole budget")

    def _add_noise(self, mechanism: GaussianMechanism, values: np.ndarray) -> np.ndarray:
        if mechanism.is_exact:
            return values
        if self._generator is None:
            raise AssertionError("a step was about to be released before it was charged")
        return mechanism.noisy(values, self._generator, self._grid)

    def release_size(self, n_records: int) -> float:
        """Release the number of records with a small share of the budget.

        A record counts once, whatever its weight is, in a unit of at most the bound of the weights.
        """
        self._spend(SIZE_SHARE)
        unit = 2.0 ** np.floor(np.log2(self._max_weight))  # a multiple of the grid
        mechanism = noise_for_share(self.whole, SIZE_SHARE, unit / self._max_weight)
        return float(self._add_noise(mechanism, np.array([n_records * unit]))[0] / unit)

    def release_tables(
        self, tables: Sequence[np.ndarray], share: float
    ) -> tuple[list[np.ndarray], float]:
        """Release tables in each of which a record is in one cell, and return their noise too."""
        self._spend(share)
        mechanism = noise_for_share(self.whole, share, np.sqrt(len(tables)))
        drawn = self._add_noise(mechanism, np.concatenate([table.ravel() for table in tables]))
        parts = np.split(drawn, np.cumsum([table.size for table in tables])[:-1])
        shaped = [part.reshape(table.shape) for part, table in zip(parts, tables, strict=True)]
        return shaped, mechanism.sigma

    def release_pairs(
        self, counts: np.ndarray, cells: MergedCells, share: float
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """Release the upper blocks of the counts of pairs of columns, as a symmetric matrix.

        Stronger columns have larger weights; the precision of a table is proportional to the
        product of two. Return the noise of weight 1, and the weights.
        """
        self._spend(share)
        strength = cells.strengths()
        levels = np.rint(np.log2(strength / strength.max())).astype(int)
        weights = np.maximum(2.0**levels, _MIN_WEIGHT)
        products = np.triu(np.outer(weights, weights), 1)
        total = products.sum()
        noisy = np.zeros_like(counts)
        precision = np.repeat(np.repeat(products, cells.sizes, axis=0), cells.sizes, axis=1)
        for level in np.unique(products[products > 0]):
            mechanism = noise_for_share(self.whole, share * level / total)
            noisy[precision == level] = self._add_noise(mechanism, counts[precision == level])
        sigma = noise_for_share(self.whole, share / total).sigma
        return noisy + noisy.T, sigma, weights

    def release_residuals(
        self, sums: np.ndarray, n_columns: int, n_records: float, share: float
    ) -> ResidualSums:
        """Release sums of residual vectors, see `residual_vectors`."""
        self._spend(share)
        norm = RESIDUAL_NORM * np.sqrt(n_columns)
        mechanism = noise_for_share(self.whole, share, norm, signed=True)
        drawn = self._add_noise(mechanism, sums) / n_records
        return ResidualSums(drawn[:, :-1], drawn[:, -1], mechanism.sigma / n_records)


def calibration_table(scores: np.ndarray, labels: np.ndarray, weights: Weights) -> np.ndarray:
    """Return the exact counts of `calibrate`: whether the label is the class, by bins of logits."""
    chosen, logits = reference_logits(scores)
    size = len(LOGIT_EDGES) + 1
    cells = (labels == chosen) * np.int64(size) + np.searchsorted(LOGIT_EDGES, logits)
    return count_cells(cells, 2 * size, weights).reshape(2, size)


#: Bound on the l2 norm of a residual vector.
RESIDUAL_NORM = float(np.sqrt(2.0))


def residual_vectors(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return label indicators minus probabilities p, and 1 minus the sum s of squares of p.

    The squared norm is 1 - 2 p_y + s + (1 - s)^2. It is at most 1 + s + (1 - s) = 2.
    """
    p = softmax(scores)
    uncertainty = 1 - reduce(np.add, np.square(p).T)
    residuals = -p
    residuals[np.arange(len(p)), labels] += 1
    return np.column_stack([residuals, np.clip(uncertainty, 0.0, 1.0)])


@dataclass(frozen=True)
class Column:
    """Public encoding of a column: categories, or fine bins of numbers and dates."""

    name: Hashable
    kind: Any
    has_public_bins: bool = False  # whether the bins of the schema are used

    @property
    def is_ordered(self) -> bool:
        return not isinstance(self.kind, Categories)

    @property
    def grid(self) -> FineGrid | None:
        """Fine bins, None for categories and public bins."""
        if not self.is_ordered or self.has_public_bins:
            return None
        return kind_grid(self.kind, _N_FINE_BINS, "mixed")

    @property
    def n_codes(self) -> int:
        return self.kind.n_cells if self.grid is None else self.grid.n_counts

    def encode(self, schema: Schema, values: Any) -> np.ndarray:
        """Return the category or fine bin of each cell, in a compact type."""
        codes = schema.encode_column(self.name, values)
        if self.grid is None:
            codes = self.kind.bin(codes)
        else:
            codes = self.grid.codes(self.kind.to_axis(codes))
        return codes.astype(np.min_scalar_type(self.n_codes))

    def bins_from_histogram(self, noisy: np.ndarray, n_bins: int) -> np.ndarray:
        """Return the bin of each fine bin, from a noisy histogram."""
        assert self.grid is not None
        n_fine = self.grid.n_bins
        shares = noisy[:n_fine] / max(float(noisy[:n_fine].sum()), 1.0)
        shares = shares + (1 - shares.sum()) / n_fine
        inner = np.clip(isotonic_regression(np.cumsum(shares)[:-1]).x, 0.0, 1.0)
        cdf = np.concatenate([[0.0], inner, [1.0]])
        borders = quantile_borders(cdf, min(n_bins, n_fine))
        bins = np.searchsorted(borders[1:-1], np.arange(self.grid.n_counts), side="right")
        bins[n_fine:] = len(borders) - 1  # missing values
        return bins

    def inner_edges(self, bins: np.ndarray) -> np.ndarray:
        """Return the borders between the bins of a numeric column."""
        if self.grid is None:
            return self.kind.inner_edges + (self.kind.low if self.kind.whole else 0.0)
        return self.grid.edges[np.flatnonzero(np.diff(bins[: self.grid.n_bins])) + 1]

    def labels(self, bins: np.ndarray) -> list[Hashable]:
        """Return the labels of the categories, or of the bins of fine bins."""
        if self.grid is None:
            return self.kind.labels()
        n_fine = self.grid.n_bins
        firsts = np.flatnonzero(np.diff(bins[:n_fine], prepend=-1))
        edges: Any = self.grid.edges[np.append(firsts, n_fine)]
        if hasattr(self.kind, "resolution"):
            edges = self.kind.decode(np.minimum(edges, self.kind.axis_bounds[1]).astype(np.int64))
        found = [pd.Interval(a, b, closed="left") for a, b in pairwise(edges)]
        return [*found, *["(missing)"] * self.kind.missing]


@dataclass(frozen=True)
class EncodedRecords:
    """Codes of the counted records. They are kept only during a fit."""

    columns: list[np.ndarray]  # codes of each column
    labels: np.ndarray  # positions of the labels among the classes
    weights: Weights
    counted: CountedRows


class RecordCounts:
    """Exact tables of records; nothing of them is kept after a fit."""

    def __init__(self, records: EncodedRecords):
        self._records, self._weights, self._labels = records, records.weights, records.labels

    def count_codes(self, column: int, n_codes: int) -> np.ndarray:
        codes = self._records.columns[column].astype(np.intp)
        return count_cells(codes, n_codes, self._weights)

    def count_classes(self, bins: Sequence[np.ndarray], n_classes: int) -> list[np.ndarray]:
        """Return the table of classes by bins of each column."""
        pairs = zip(bins, self._records.columns, strict=True)
        self._columns = [each.astype(np.int32)[codes] for each, codes in pairs]
        tables = []
        for column, each in zip(self._columns, bins, strict=True):
            shape = (n_classes, int(each.max()) + 1)
            cells = self._labels * np.int64(shape[1]) + column
            tables.append(count_cells(cells, shape[0] * shape[1], self._weights).reshape(shape))
        return tables

    def count_pairs(self, cells: MergedCells) -> np.ndarray:
        """Return the counts of pairs of merged cells of different columns, in upper blocks."""
        self._merged = cells.encode(self._columns)
        counts = np.zeros((cells.starts[-1], cells.starts[-1]))
        blocks = column_blocks(self._merged, cells.sizes)
        for i, first in enumerate(blocks):
            for second in blocks[i:]:
                a, b = (
                    slice(cells.starts[each.start], cells.starts[each.start + len(each.sizes)])
                    for each in (first, second)
                )
                counts[a, b] = first.count_pairs(second, self._weights)
        return counts

    def calibration(self, model: AdditiveModel) -> np.ndarray:
        return calibration_table(model.scores(self._columns), self._labels, self._weights)

    def residuals(self, model: AdditiveModel, cells: MergedCells) -> np.ndarray:
        vectors = residual_vectors(model.scores(self._columns), self._labels)
        return sum_vectors(vectors, self._merged, cells.sizes, RESIDUAL_NORM, self._weights)


class GivenCounts:
    """Exact tables that the user counted, or noisy ones, for columns with public bins."""

    def __init__(self, classes: list[np.ndarray], pairs: Mapping[tuple[int, int], np.ndarray]):
        self._classes, self._pairs = classes, pairs

    def count_classes(self, bins: Sequence[np.ndarray], n_classes: int) -> list[np.ndarray]:
        return self._classes

    def count_pairs(self, cells: MergedCells) -> np.ndarray:
        counts = np.zeros((cells.starts[-1], cells.starts[-1]))
        found = list(zip(cells.columns, cells.groups, cells.blocks, strict=True))
        for i, (first, rows, a) in enumerate(found):
            for second, columns, b in found[i + 1 :]:
                merged = np.zeros((a.stop - a.start, b.stop - b.start))
                np.add.at(merged, np.ix_(rows, columns), self._pairs[first, second])
                counts[a, b] = merged
        return counts

    def estimate(
        self,
        counts: Sequence[np.ndarray],
        order: list[int],
        sigma: float,
        ordered: Sequence[bool],
        max_cells: int,
    ) -> tuple[ClassTables, Estimate]:
        """Estimate the model from these tables, if they are noisy, with classes in an order.

        `counts` are estimates of the tables of classes.
        """
        noisy, found = ([table[order] for table in each] for each in (self._classes, counts))
        tables = ClassTables(noisy, sigma, found)
        estimate = Estimate.from_tables(tables)
        cells = MergedCells.from_tables(tables, ordered, max_cells)
        if len(cells.columns) < 2:
            return tables, estimate
        upper = self.count_pairs(cells)
        # The noise of the cells that are merged adds up.
        weights = np.array(
            [size / len(g) for size, g in zip(cells.sizes, cells.groups, strict=True)]
        )
        pairs = Covariance.from_pairs(cells, upper + upper.T, sigma, weights, tables.n_records)
        return tables, estimate.correct(pairs)
