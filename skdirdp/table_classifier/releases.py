"""Exact tables of PrivateTableClassifier, and their releases as parts of one Gaussian release.

One charge, made before anything is drawn, covers all steps. Each step has a share of the budget
and may depend on the releases of earlier steps (docs/theory.md, Theorem 7 and section 19). Only
Gaussian noise can be spent step by step without loss.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.special import expit

from .._contributions import (
    ColumnBlock,
    Weights,
    column_blocks,
    count_cells,
    join_blocks,
    sum_vectors,
)
from .._persons import CountedRows
from .._random import NoiseGenerator
from ..base import select_categories
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.splitting import noise_for_share
from ..mechanisms.tables import ContributionBound
from ..numerics.rows import row_blocks
from ..schema import (
    MISSING,
    OUTSIDE,
    Categories,
    FineGrid,
    Names,
    Records,
    Schema,
    kind_grid,
    quantile_edges,
    type_and_value,
)
from .model import (
    AdditiveModel,
    ClassTables,
    Covariance,
    Estimate,
    LogitBins,
    MergedCells,
    ResidualSums,
    reference_probabilities,
    softmax,
)

# Shares of the budget, chosen on the eight data sets of benchmarks/data.py at epsilon from 0.1 to
# 3. Results hardly depend on them: with 0.2 to 0.4 for residuals, 0.1 for pairs or 0.02 for the
# calibration, the mean AUC at epsilon 0.3 to 3 changed by less than .001, and log loss by .003.
#: Share of the number of records, if it is not public.
SIZE_SHARE = 0.01
#: Share of the whole budget for the names of columns without public values, as in PrivateBayesNet.
NAMES_SHARE = 0.1
_BIN_SHARE = 0.04
_CALIBRATION_SHARE = 0.05
# The same if it is the only correction of naive Bayes.
_ONLY_CALIBRATION_SHARE = 0.07
# Largest shares of the tables of pairs and of the residual sums. Both decrease to 0 as the signal
# of the class tables does, and the class tables get the rest.
_PAIR_SHARE = 0.15
_RESIDUAL_SHARE = 0.25
_MIN_SIGNAL = 16.0
# Shares of the class counts, and factor of their relative noise.
_MIN_LABEL_SHARE, _MAX_LABEL_SHARE, _LABEL_SHARE = 0.01, 0.15, 1.0
# Two Newton steps are better than one with half of the noise from this signal on.
_TWO_STEPS = 100.0
# Variance of the scores due to noise, for each column and a signal of 1, and due to sampling, for
# each column and record, relative to what they predict.
_SLOPE_NOISE, _SLOPE_SAMPLING = 4.0, 10.0
# Numbers of bins of a numeric column.
_MIN_BINS, _MAX_BINS = 4, 32
# Fine bins of numeric columns, from which bins are made.
_N_FINE_BINS = 256
# The precision of a column in the tables of pairs is at least this fraction of the largest.
_MIN_WEIGHT = 1 / 64
# Beyond this number of records, and this signal, steps after the class tables count only so many.
# On made-up tables of 700 000 records, this cost at most 0.0005 of AUC and 0.1% of log loss.
_SAMPLED_RECORDS = 1 << 18
_SAMPLED_SIGNAL = 5000.0
# Columns are counted together up to this number of combinations of their cells. Arrays are encoded
# and records are scored in blocks of rows. These sizes affect only the speed.
_MAX_JOINT_CELLS = 1 << 11
_ARRAY_ROWS = 1 << 16
_BLOCK_ROWS = 1 << 15


@dataclass(frozen=True)
class Plan:
    """Shares of the budget, and the number of bins, from public or released sizes."""

    labels: float
    bins: float
    classes: float
    calibration: float
    pairs: float
    residuals: float
    n_steps: int  # of Newton's method; each has an equal part of `residuals`
    n_bins: int
    balanced_signal: float  # signal, smaller for rare classes
    slope: float  # median of the prior of the scale of the scores

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
        class_shares: np.ndarray | None = None,
    ) -> "Plan":
        """Plan the steps for noise `sigma` of a single table.

        The signal is about the number of records of a class over the noise of the class tables. If
        not `has_records`, tables are counted by the user, and no step can use single records.
        `class_shares` follow from the class counts, which have the share `labels`.
        """
        signal = n_records / max(sigma * np.sqrt(2 * n_classes * n_columns), 1e-12)
        signal = min(signal, 1e6)
        labels = _MIN_LABEL_SHARE + _LABEL_SHARE * np.sqrt(2 * n_classes) * sigma / n_records
        labels = min(labels, _MAX_LABEL_SHARE)
        # More bins would have too much noise, or sampling error.
        n_bins = min(np.sqrt(signal * np.sqrt(n_classes / 2)), np.cbrt(n_records))
        reliable = signal / (signal + _MIN_SIGNAL)
        if n_columns == 1 or signal < _MIN_SIGNAL:
            reliable = 0.0
        # Two classes of shares p and 1 - p have the factor 4 p (1 - p).
        balance = 1.0
        if class_shares is not None:
            balance = (1 - np.square(class_shares).sum()) * n_classes / (n_classes - 1)
        noise = _SLOPE_NOISE / max(balance * signal, 1e-3) ** 2
        noise += _SLOPE_SAMPLING / (balance * n_records)
        bins = _BIN_SHARE if has_numbers else 0.0
        calibration = _CALIBRATION_SHARE if reliable > 0 else _ONLY_CALIBRATION_SHARE
        calibration = calibration if has_records else 0.0
        pairs = _PAIR_SHARE * reliable
        residuals = _RESIDUAL_SHARE * reliable if has_records else 0.0
        return cls(
            labels,
            bins,
            1.0 - spent - labels - bins - calibration - pairs - residuals,
            calibration,
            pairs,
            residuals,
            2 if signal >= _TWO_STEPS else 1,
            int(np.clip(np.ceil(n_bins), _MIN_BINS, _MAX_BINS)),
            balance * signal,
            max(1 / (1 + n_columns * noise), 0.01),
        )

    def uncorrected(self) -> "Plan":
        """Return the plan without pairs and residuals, whose shares are left for `classes`."""
        added = 0.0
        if self.calibration > 0:
            added = min(_ONLY_CALIBRATION_SHARE - self.calibration, self.pairs + self.residuals)
        return replace(
            self,
            classes=self.pairs + self.residuals - added,
            calibration=self.calibration + added,
            pairs=0.0,
            residuals=0.0,
        )


def sampled_share(n_records: float, sigma: float, n_columns: int, n_classes: int) -> float:
    """Return the probability with which a record is counted after the class tables.

    It is 1 unless both records and signal (see `Plan`) are large, and a multiple of 1/256.
    """
    if sigma == 0:
        return 1.0
    signal = n_records / max(sigma * np.sqrt(2 * n_classes * n_columns), 1e-12)
    share = max(_SAMPLED_RECORDS / n_records, _SAMPLED_SIGNAL / signal)
    return float(min(1.0, np.ceil(256 * share) / 256))


class Releases:
    """Releases of a fit, one after the other. `bound` holds for the weight of a record.

    Each of `selections` finds the names of one column; all other steps are parts of `whole`.
    """

    def __init__(
        self,
        whole: GaussianMechanism,
        bound: ContributionBound,
        n_columns: int,
        selections: Sequence[SelectionMechanism] = (),
    ):
        self.whole = whole
        self.joint = JointMechanism.from_mechanisms([*selections, whole])
        self._selections = list(selections)
        self._grid, self._max_weight = bound.grid, bound.max_count
        self._left = 1.0 + 1e-9
        self._generator: NoiseGenerator | None = None
        # Noise that cannot be drawn is refused before the charge: that of the whole budget, and
        # of the smallest share.
        smallest = 1e-3 * _MIN_WEIGHT**2 / max(n_columns, 1) ** 2
        for mechanism in (whole, noise_for_share(whole, smallest, signed=True)):
            mechanism.check_table(np.zeros(1), self._grid)
        for selection in selections:
            selection.check_table(np.zeros(1))

    def start(self, generator: NoiseGenerator | None) -> None:
        """Set the generator of the noise after the charge, which allows the releases."""
        self._generator = generator

    def sample(self, n_records: int, probability: float) -> np.ndarray | None:
        """Return a mask of records, each chosen with this probability independently of others.

        None means all records. The mask must stay secret, because it reveals which records were not
        counted (docs/theory.md, section 19.1).
        """
        if probability >= 1:
            return None
        if self._generator is None:
            raise AssertionError("records were about to be sampled before the charge")
        drawn = np.frombuffer(self._generator.bytes(n_records), dtype=np.uint8)
        return drawn < round(256 * probability)

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

    def select_names(self, column: "UnlistedColumn", is_counted: np.ndarray | None) -> Categories:
        """Release the names of a column that enough records have.

        A record counts once, whatever its weight is. Names of other records are not candidates.
        """
        if not self._selections:
            raise AssertionError("names of more columns were about to be released than charged")
        mechanism = self._selections.pop()
        if self._generator is None and not mechanism.is_exact:
            raise AssertionError("names were about to be released before they were charged")
        codes = column.codes if is_counted is None else column.codes[is_counted]
        occurs = np.bincount(codes[codes >= 0], minlength=len(column.distinct)) > 0
        kept = np.flatnonzero(occurs)
        places = np.append(np.cumsum(occurs) - 1, [OUTSIDE, MISSING])
        distinct = [column.distinct[i] for i in kept]
        return select_categories(mechanism, places[codes], distinct, self._generator)

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


def calibration_cells(scores: np.ndarray, labels: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the cell of each record in the calibration table of `calibrate`.

    The table counts whether the label is the class of `reference_probabilities`, by bins of its
    logit with these inner edges.
    """
    chosen, found = reference_probabilities(scores)
    bins = np.searchsorted(expit(edges), found)
    return (labels == chosen) * np.intp(len(edges) + 1) + bins


#: Bound on the l2 norm of a residual vector.
RESIDUAL_NORM = float(np.sqrt(2.0))


def residual_vectors(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return label indicators minus probabilities p, and 1 minus the sum s of squares of p.

    The squared norm is 1 - 2 p_y + s + (1 - s)^2. It is at most 1 + s + (1 - s) = 2.
    """
    p = softmax(scores)
    uncertainty = 1 - reduce(np.add, np.square(p).T)
    residuals = [(labels == c) - p[:, c] for c in range(p.shape[1])]
    return np.vstack([*residuals, np.clip(uncertainty, 0.0, 1.0)]).T


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
    def has_missing(self) -> bool:
        """Whether the last category is for missing values."""
        return self.kind.missing

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
        grid, found = self.grid, np.empty(len(values), dtype=np.min_scalar_type(self.n_codes))
        start = 0
        absent = frozenset(schema.missing_values)
        for codes in self.kind.encode_blocks(
            self.name, values, missing_values=absent, strict=schema.strict
        ):
            stop = start + len(codes)
            found[start:stop] = (
                self.kind.bin(codes) if grid is None else grid.codes(self.kind.to_axis(codes))
            )
            start = stop
        return found

    def merge_fine_bins(self, n_bins: int) -> np.ndarray:
        """Return the cell of each fine bin in the histogram that is released for `n_bins` bins.

        Fewer cells add less noise to quantiles.
        """
        assert self.grid is not None
        n_fine = self.grid.n_bins
        n_cells = min(n_fine, n_bins**2)
        cells = np.arange(n_fine) * n_cells // n_fine
        return np.append(cells, np.repeat(n_cells, self.grid.has_missing))

    def bins_from_histogram(self, noisy: np.ndarray, n_bins: int) -> np.ndarray:
        """Return the bin of each fine bin, from a noisy histogram of merged fine bins."""
        assert self.grid is not None
        cells = self.merge_fine_bins(n_bins)
        n_fine = len(noisy) - self.grid.has_missing
        shares = noisy[:n_fine] / max(float(noisy[:n_fine].sum()), 1.0)
        shares = shares + (1 - shares.sum()) / n_fine
        inner = np.clip(isotonic_regression(np.cumsum(shares)[:-1]).x, 0.0, 1.0)
        cdf = np.concatenate([[0.0], inner, [1.0]])
        edges = quantile_edges(cdf, min(n_bins, n_fine))
        bins = np.searchsorted(edges[1:-1], np.arange(len(noisy)), side="right")
        bins[n_fine:] = len(edges) - 1  # missing values
        return bins[cells]

    def inner_edges(self, bins: np.ndarray) -> np.ndarray:
        """Return the edges between the bins of a numeric column."""
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
class UnlistedColumn:
    """Exact values of a column without public values: codes among the distinct values."""

    codes: np.ndarray
    distinct: list[Any]

    def encode(self, kind: Categories) -> np.ndarray:
        """Return the category of each record."""
        codes = kind.finish(kind.encode_distinct(self.codes, self.distinct))
        return codes.astype(np.min_scalar_type(kind.n_cells))


class Numbering:
    """Distinct values of a column without public values, in the blocks of a table."""

    def __init__(self) -> None:
        self.distinct: list[Any] = []
        self._places: dict[Any, int] = {}

    def encode(self, column: Column, schema: Schema, values: Any) -> np.ndarray:
        """Return the position of each cell among the distinct values of all blocks so far."""
        codes, found = column.kind.factorise(
            column.name, values, missing_values=frozenset(schema.missing_values)
        )
        places = []
        for value in found:
            place = self._places.setdefault(type_and_value(value), len(self.distinct))
            if place == len(self.distinct):
                self.distinct.append(value)
            places.append(place)
        return np.array([*places, OUTSIDE, MISSING], dtype=np.intp)[codes]


def encode_columns(
    columns: Sequence[Column],
    schema: Schema,
    records: Records,
    unlisted: Mapping[int, Numbering] | None,
) -> list[np.ndarray]:
    """Return the codes of each column, those of names among their `unlisted` values."""
    codes, arrays = [], []
    for k, column in enumerate(columns):
        values = records.columns[column.name]
        if isinstance(column.kind, Names):
            assert unlisted is not None
            codes.append(unlisted[k].encode(column, schema, values))
        elif isinstance(values, np.ndarray):
            codes.append(np.empty(records.n_records, np.min_scalar_type(column.n_codes)))
            arrays.append((column, values, codes[-1]))
        else:
            codes.append(column.encode(schema, values))
    # The columns of an array share the cache if they are read in blocks of rows.
    for rows in row_blocks(records.n_records, 1, _ARRAY_ROWS):
        for column, values, found in arrays:
            found[rows] = column.encode(schema, values[rows])
    return codes


@dataclass(frozen=True)
class EncodedRecords:
    """Codes of the counted records. They are kept only during a fit."""

    columns: list[np.ndarray]  # codes of each column, those of names by `unlisted`
    labels: np.ndarray  # positions of the labels among the classes
    weights: Weights
    counted: CountedRows
    unlisted: Mapping[int, Numbering]  # distinct values of columns without public values

    @property
    def total_weight(self) -> float:
        values = self.weights.values
        return float(len(self.labels) if values is None else values.sum())

    def select_names(self, releases: Releases) -> dict[int, Categories]:
        """Release the names of columns without public values, and encode these columns."""
        values = self.weights.values
        is_counted = None if values is None else values > 0
        selected = {}
        for k, numbering in self.unlisted.items():
            column = UnlistedColumn(self.columns[k], numbering.distinct)
            selected[k] = releases.select_names(column, is_counted)
            self.columns[k] = column.encode(selected[k])
        return selected


class RecordCounts:
    """Exact tables of records; nothing of them is kept after a fit."""

    def __init__(self, records: EncodedRecords):
        self._records, self._weights, self._labels = records, records.weights, records.labels

    def count_labels(self, n_classes: int) -> np.ndarray:
        return count_cells(self._labels.astype(np.intp), n_classes, self._weights)

    def count_codes(self, column: int, n_codes: int) -> np.ndarray:
        codes = self._records.columns[column].astype(np.intp)
        return count_cells(codes, n_codes, self._weights)

    def count_classes(self, bins: Sequence[np.ndarray], n_classes: int) -> list[np.ndarray]:
        """Return the table of classes by bins of each column."""
        sizes = [int(each.max()) + 1 for each in bins]
        columns = [
            codes if len(each) == size else each.astype(np.min_scalar_type(size)).take(codes)
            for each, size, codes in zip(bins, sizes, self._records.columns, strict=True)
        ]
        self._blocks = column_blocks(columns, sizes, _MAX_JOINT_CELLS)
        labels = ColumnBlock(0, [n_classes], self._labels)
        tables = []
        for block in self._blocks:
            counts = block.count_pairs(labels, self._weights)
            tables += np.split(counts.T, np.cumsum(block.sizes)[:-1], axis=1)
        return tables

    def keep(self, chosen: np.ndarray | None) -> None:
        """Count only the chosen records in later tables; None keeps all."""
        if chosen is not None:
            rows = np.flatnonzero(chosen)
            self._blocks = [replace(each, codes=each.codes[rows]) for each in self._blocks]
            values = self._weights.values
            values = None if values is None else values[rows]
            self._labels, self._weights = self._labels[rows], replace(self._weights, values=values)

    def count_pairs(self, cells: MergedCells) -> np.ndarray:
        """Return the counts of pairs of merged cells of different columns, in upper blocks."""
        self._merged = self._merge(cells)
        counts = np.zeros((cells.starts[-1], cells.starts[-1]))
        blocks = join_blocks(self._merged)
        for i, first in enumerate(blocks):
            for second in blocks[i:]:
                a, b = (
                    slice(cells.starts[each.start], cells.starts[each.start + len(each.sizes)])
                    for each in (first, second)
                )
                counts[a, b] = first.count_pairs(second, self._weights)
        return counts

    def _merge(self, cells: MergedCells) -> list[ColumnBlock]:
        """Return blocks of the merged cells of the kept columns."""
        groups = dict(zip(cells.columns, cells.groups, strict=True))
        blocks: list[ColumnBlock] = []
        start = 0
        for block in self._blocks:
            states = [
                groups.get(block.start + k, np.zeros(size, dtype=np.intp))
                for k, size in enumerate(block.sizes)
            ]
            merged = block.merge_states(states, start)
            if merged.sizes:
                blocks.append(merged)
            start += len(merged.sizes)
        return blocks

    def _scores(self, model: AdditiveModel) -> Iterator[tuple[slice, np.ndarray]]:
        """Iterate over the scores of blocks of records."""
        effects = [
            block.add_effects(model.effects[block.start : block.start + len(block.sizes)])
            for block in self._blocks
        ]
        joint = AdditiveModel(model.intercept, effects)
        for rows in row_blocks(len(self._labels), 1, _BLOCK_ROWS):
            yield rows, joint.scores([block.codes[rows] for block in self._blocks])

    def calibration(
        self, model: AdditiveModel, bins: LogitBins, class_shares: np.ndarray
    ) -> np.ndarray:
        """Return the calibration table."""
        cells = np.empty(len(self._labels), dtype=np.intp)
        for rows, scores in self._scores(model.towards(class_shares, 1 / bins.unit)):
            cells[rows] = calibration_cells(scores, self._labels[rows], bins.edges)
        shape = 2, len(bins.logits)
        return count_cells(cells, prod(shape), self._weights).reshape(shape)

    def residuals(self, model: AdditiveModel, cells: MergedCells) -> np.ndarray:
        """Return the sums of residual vectors by merged cell."""
        vectors = (
            (rows, residual_vectors(scores, self._labels[rows]))
            for rows, scores in self._scores(model)
        )
        blocks = join_blocks(self._merged, _MAX_JOINT_CELLS)
        n_entries = len(model.intercept) + 1
        return sum_vectors(vectors, n_entries, blocks, RESIDUAL_NORM, self._weights)


class GivenCounts:
    """Exact tables that the user counted, or noisy ones, for columns with public bins."""

    def __init__(self, classes: list[np.ndarray], pairs: Mapping[tuple[int, int], np.ndarray]):
        self._classes, self._pairs = classes, pairs

    def count_labels(self, n_classes: int) -> np.ndarray:
        return self._classes[0].sum(axis=1)

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
