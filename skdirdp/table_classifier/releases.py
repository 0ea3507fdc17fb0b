"""Releases of a fit of PrivateTableClassifier, as parts of one Gaussian release.

One charge, made before anything is drawn, covers all steps. Each step has a share of the budget
and may depend on the releases of earlier steps (docs/theory.md, Theorem 7 and section 19). Only
Gaussian noise can be spent step by step without loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from .._contributions import Weights, count_cells
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.splitting import noise_for_share
from .model import LOGIT_EDGES, MergedCells, ResidualSums, reference_logits

# Shares of the budget, chosen on the eight data sets of benchmarks/data.py at epsilon from 0.1 to
# 3. Results hardly depend on them: halving or doubling one changes the mean AUC by at most .001.
_SIZE_SHARE = 0.01
_BIN_SHARE = 0.04
_CALIBRATION_SHARE = 0.05
# Largest shares of the tables of pairs and of the residual sums. Both decrease to 0 as the signal
# of the class tables does, and the class tables get the rest.
_PAIR_SHARE = 0.15
_RESIDUAL_SHARE = 0.25
_MIN_SIGNAL = 8.0
# Numbers of bins of a numeric column.
_MIN_BINS, _MAX_BINS = 5, 32
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

        The signal is the number of records of a class over the noise of the class tables. If not
        `has_records`, tables are counted by the user, and no step can use single records.
        """
        signal = n_records / max(n_classes * sigma * np.sqrt(n_columns), 1e-12)
        signal = min(signal, 1e6)
        reliable = signal / (signal + _MIN_SIGNAL) if signal >= _MIN_SIGNAL else 0.0
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
            int(np.clip(np.sqrt(signal * n_classes / 2), _MIN_BINS, _MAX_BINS)),
            signal / (signal + 3.0),
        )


class Releases:
    """Releases of a fit, one after the other. `grid` divides the contributions of records."""

    def __init__(self, whole: GaussianMechanism, grid: float, n_columns: int):
        self.whole = whole
        self.joint = JointMechanism.from_mechanisms([whole])
        self._grid = grid
        self._left = 1.0 + 1e-9
        self._generator: np.random.Generator | None = None
        # Noise that cannot be drawn is refused before the charge: that of the whole budget, and
        # of the smallest share.
        smallest = 1e-3 * _MIN_WEIGHT**2 / max(n_columns, 1) ** 2
        for mechanism in (whole, noise_for_share(whole, smallest, signed=True)):
            mechanism.check_table(np.zeros(1), grid)

    def start(self, generator: np.random.Generator | None) -> None:
        """Allow the releases, after the charge, with the generator of the noise."""
        self._generator = generator

    def _spend(self, share: float) -> None:
        self._left -= share
        # Not an assert statement, which `python -O` removes.
        if self._left < 0:
            raise AssertionError("steps were about to use more than the whole budget")

    def _draw(self, mechanism: GaussianMechanism, values: np.ndarray) -> np.ndarray:
        if mechanism.is_exact:
            return values
        if self._generator is None:
            raise AssertionError("a step was about to be released before it was charged")
        return mechanism.noisy(values, self._generator, self._grid)

    def release_size(self, n_records: int) -> float:
        """Release the number of records with a small share of the budget."""
        self._spend(_SIZE_SHARE)
        mechanism = noise_for_share(self.whole, _SIZE_SHARE)
        return float(self._draw(mechanism, np.array([float(n_records)]))[0])

    def release_tables(
        self, tables: Sequence[np.ndarray], share: float
    ) -> tuple[list[np.ndarray], float]:
        """Release tables in each of which a record is in one cell, and return their noise too."""
        self._spend(share)
        mechanism = noise_for_share(self.whole, share, np.sqrt(len(tables)))
        drawn = self._draw(mechanism, np.concatenate([table.ravel() for table in tables]))
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
            noisy[precision == level] = self._draw(mechanism, counts[precision == level])
        sigma = noise_for_share(self.whole, share / total).sigma
        return noisy + noisy.T, sigma, weights

    def release_residuals(
        self, sums: np.ndarray, n_columns: int, n_records: float, share: float
    ) -> ResidualSums:
        """Release sums of residual vectors, see `residual_vectors`."""
        self._spend(share)
        norm = RESIDUAL_NORM * np.sqrt(n_columns)
        mechanism = noise_for_share(self.whole, share, norm, signed=True)
        drawn = self._draw(mechanism, sums) / n_records
        return ResidualSums(drawn[:, :-1], drawn[:, -1], mechanism.sigma / n_records)


def count_classes(
    columns: Sequence[np.ndarray], sizes: Sequence[int], labels: np.ndarray, weights: Weights
) -> list[np.ndarray]:
    """Return the exact counts of classes by categories, for each column."""
    n_classes = int(sizes[-1])
    tables = []
    for column, size in zip(columns, sizes[:-1], strict=True):
        cells = labels * np.int64(size) + column
        tables.append(count_cells(cells, n_classes * size, weights).reshape(n_classes, size))
    return tables


def count_pairs(columns: Sequence[np.ndarray], cells: MergedCells, weights: Weights) -> np.ndarray:
    """Return the exact counts of pairs of categories of different columns, in upper blocks."""
    counts = np.zeros((cells.starts[-1], cells.starts[-1]))
    for i, (first, a) in enumerate(zip(columns, cells.blocks, strict=True)):
        for second, b in zip(columns[i + 1 :], cells.blocks[i + 1 :], strict=True):
            shape = (a.stop - a.start, b.stop - b.start)
            joint = first * np.int32(shape[1]) + second
            counts[a, b] = count_cells(joint, shape[0] * shape[1], weights).reshape(shape)
    return counts


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
    p = softmax(scores, axis=1)
    uncertainty = 1 - np.square(p).sum(axis=1)
    residuals = -p
    residuals[np.arange(len(p)), labels] += 1
    return np.column_stack([residuals, np.clip(uncertainty, 0.0, 1.0)])
