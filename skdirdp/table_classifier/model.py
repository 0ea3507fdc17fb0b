"""Additive classification model, estimated from released tables alone.

The score of a class is an intercept plus one effect for each column. All functions here are
post-processing: they see noisy tables, the variance of their noise, and no records. docs/theory.md,
section 19, has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from scipy.special import expit

from ..mechanisms.tables import Noise
from ..numerics.rows import row_blocks
from ..postprocessing import NoisyTable, estimate_counts

# The constants below were chosen on the eight data sets of benchmarks/data.py, at epsilon from 0.1
# to 3; docs/classifier.md has the figures.
# Records are scored in blocks that fit into the cache.
_BLOCK_ROWS = 1 << 14
# Count that is added to each cell before logarithms are taken.
_SMOOTHING = 0.5
# Cells are merged if their class profiles differ by less than this many standard errors, squared.
_MERGE = 2.0
# Smallest eigenvalue of a covariance or Hessian that is inverted, relative to the largest.
_CONDITION = 1e-3
# Increase of the diagonal of the Hessian, which is approximate: full steps would diverge.
_DAMPING = 1.0
# Typical size of an effect that a Newton step adds.
_STEP_SIZE = 0.1
# Precision of the prior of slope and intercepts in the calibration.
_CALIBRATION_PRIOR = 10.0
_CALIBRATION_STEPS = 30
#: Borders of the bins of a logit in the calibration table, and a logit for each bin.
LOGIT_EDGES = np.array([-4, -2.8, -2, -1.4, -0.9, -0.5, -0.2, 0.2, 0.5, 0.9, 1.4, 2, 2.8, 4])
_LOGITS = np.concatenate([[-4.6], (LOGIT_EDGES[1:] + LOGIT_EDGES[:-1]) / 2, [4.6]])


@dataclass(frozen=True)
class AdditiveModel:
    """Scores of the classes: an intercept, and the effects of the cells of each column."""

    intercept: np.ndarray  # of shape (n_classes,)
    effects: list[np.ndarray]  # of shape (n_cells of the column, n_classes)

    def scores(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of records, minus those of the first class.

        `columns` has the cell of each record in each column.
        """
        # The scores of a class are adjacent, which makes sums over classes fast.
        scores = np.zeros((len(self.intercept), len(columns[0]))).T
        intercept = self.intercept - self.intercept[0]
        for rows in row_blocks(len(scores), 1, _BLOCK_ROWS):
            block = scores[rows, 1:].T
            block[:] = intercept[1:, np.newaxis]
            chosen = np.empty(block.shape[1])
            for effects, cells in zip(self._differences, columns, strict=True):
                positions = cells[rows].astype(np.intp)
                for total, effect in zip(block, effects, strict=True):
                    # Positions are valid, and "clip" is faster than a check.
                    total += effect.take(positions, out=chosen, mode="clip")
        return scores

    @cached_property
    def _differences(self) -> list[np.ndarray]:
        """Effects on each class minus those on the first, of shape (n_classes - 1, n_cells)."""
        return [np.ascontiguousarray((effect - effect[:, :1]).T[1:]) for effect in self.effects]

    def add(self, intercept: np.ndarray, effects: Sequence[np.ndarray]) -> "AdditiveModel":
        added = [a + b for a, b in zip(self.effects, effects, strict=True)]
        return AdditiveModel(self.intercept + intercept, added)

    def scaled(self, slope: float) -> "AdditiveModel":
        return AdditiveModel(slope * self.intercept, [slope * effect for effect in self.effects])

    def centred(self, shares: Sequence[np.ndarray]) -> "AdditiveModel":
        """Return the same model with effects of mean 0 over cells and over classes."""
        intercept, effects = self.intercept, []
        for effect, share in zip(self.effects, shares, strict=True):
            mean = share @ effect
            intercept = intercept + mean
            effects.append(effect - mean - (effect - mean).mean(axis=1, keepdims=True))
        return AdditiveModel(intercept - intercept.mean(), effects)


@dataclass(frozen=True)
class ClassTables:
    """Estimates from the noisy tables of classes by cells of a column."""

    noisy: list[np.ndarray]  # of shape (n_classes, n_cells)
    sigma: float  # standard deviation of the noise
    counts: list[np.ndarray]  # positive estimates of the same shape

    @classmethod
    def from_noisy(cls, noisy: Sequence[np.ndarray], sigma: float) -> "ClassTables":
        if sigma == 0:
            return cls(list(noisy), 0.0, list(noisy))
        tables = [NoisyTable(t, Noise(sigma**2), ("class", k)) for k, t in enumerate(noisy)]
        return cls(list(noisy), sigma, [each.counts for each in estimate_counts(tables)])

    @property
    def n_records(self) -> float:
        return max(float(np.mean([table.sum() for table in self.counts])), 1.0)

    @property
    def class_shares(self) -> np.ndarray:
        totals = np.mean([table.sum(axis=1) for table in self.counts], axis=0) + _SMOOTHING
        return totals / totals.sum()

    def profiles(self) -> list[np.ndarray]:
        """Return the shares of the cells of each column in each class, (n_cells, n_classes)."""
        smooth = [table + _SMOOTHING for table in self.counts]
        return [(table / table.sum(axis=1, keepdims=True)).T for table in smooth]

    def cell_shares(self) -> list[np.ndarray]:
        """Return the shares of the cells of each column."""
        return [profile @ self.class_shares for profile in self.profiles()]

    def naive_bayes(self) -> AdditiveModel:
        effects = [np.log(profile) for profile in self.profiles()]
        return AdditiveModel(np.log(self.class_shares), effects)

    def effect_variances(self) -> list[np.ndarray]:
        """Return the variance of the effects of naive Bayes due to the noise, to first order."""
        found = []
        for table in self.counts:
            relative = (self.sigma / (table.T + self.sigma + _SMOOTHING)) ** 2
            share = 1 / len(table)
            centred = (1 - 2 * share) * relative + share * relative.mean(axis=1, keepdims=True)
            found.append(np.maximum(centred, 0.0))
        return found


def merge_cells(noisy: np.ndarray, counts: np.ndarray, sigma: float, ordered: bool) -> np.ndarray:
    """Return the group of each cell: cells whose class profiles differ beyond the noise.

    Adjacent cells are merged, the most similar first. Cells without an order are sorted along
    the direction in which their profiles differ most.
    """
    n_classes, n_cells = noisy.shape
    order = np.arange(n_cells) if ordered else _profile_order(counts)
    table = noisy.T[order].astype(float)
    sizes = np.ones(n_cells)
    starts = np.arange(n_cells)  # first sorted cell of each group
    while len(table) > 1:
        totals = np.maximum(table.sum(axis=1), sigma * np.sqrt(n_classes * sizes) + 1e-9)
        both = np.maximum(table[:-1] + table[1:], 0) + 1e-9
        share = both / both.sum(axis=1, keepdims=True)
        relative = sizes / totals**2
        noise = ((1 - share) ** 2 + (n_classes - 1) * share**2) * sigma**2
        noise *= (relative[:-1] + relative[1:])[:, np.newaxis]
        sampling = share * (1 - share) * (1 / totals[:-1] + 1 / totals[1:])[:, np.newaxis]
        profile = table / totals[:, np.newaxis]
        distance = ((np.diff(profile, axis=0) ** 2) / (noise + sampling + 1e-12)).mean(axis=1)
        nearest = int(np.argmin(distance))
        if distance[nearest] > _MERGE:
            break
        table[nearest] += table[nearest + 1]
        sizes[nearest] += sizes[nearest + 1]
        table = np.delete(table, nearest + 1, axis=0)
        sizes, starts = np.delete(sizes, nearest + 1), np.delete(starts, nearest + 1)
    groups = np.empty(n_cells, dtype=np.intp)
    groups[order] = np.searchsorted(starts, np.arange(n_cells), side="right") - 1
    return groups


def _profile_order(counts: np.ndarray) -> np.ndarray:
    """Return the order of cells along the main direction of their class profiles."""
    profile = counts / np.maximum(counts.sum(axis=0), 1e-9)
    weights = np.sqrt(np.maximum(counts.sum(axis=0), 0.0))
    mean = (profile @ weights**2 / max(float((weights**2).sum()), 1e-9))[:, np.newaxis]
    direction = np.linalg.svd((profile - mean) * weights, full_matrices=False)[0][:, 0]
    return np.argsort(direction @ profile, kind="stable")


@dataclass(frozen=True)
class MergedCells:
    """Cells of all columns with more than one group, one after the other."""

    columns: list[int]  # positions of the columns
    groups: list[np.ndarray]  # group of each cell of these columns
    profiles: np.ndarray  # shares of the groups of a column in each class, (n_groups, n_classes)
    class_shares: np.ndarray

    @classmethod
    def from_tables(
        cls, tables: ClassTables, ordered: Sequence[bool], max_cells: int
    ) -> "MergedCells":
        """Merge the cells of each column, and keep the strongest columns up to `max_cells`."""
        groups = [
            merge_cells(noisy, counts, tables.sigma, is_ordered)
            for noisy, counts, is_ordered in zip(tables.noisy, tables.counts, ordered, strict=True)
        ]
        found = {}
        for k, (group, counts) in enumerate(zip(groups, tables.counts, strict=True)):
            if group.max(initial=0) > 0:
                merged = np.stack([np.bincount(group, row) for row in counts]).T + _SMOOTHING
                found[k] = merged / merged.sum(axis=0)
        shares = tables.class_shares
        strength = {k: _strength(profile, shares) for k, profile in found.items()}
        kept, n_cells = [], 0
        for k in sorted(found, key=lambda k: -strength[k]):
            if n_cells + len(found[k]) <= max_cells:
                kept.append(k)
                n_cells += len(found[k])
        kept.sort()
        n_classes = len(shares)
        stacked = np.vstack([np.empty((0, n_classes)), *(found[k] for k in kept)])
        return cls(kept, [groups[k] for k in kept], stacked, shares)

    @cached_property
    def sizes(self) -> list[int]:
        return [int(group.max()) + 1 for group in self.groups]

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    @cached_property
    def blocks(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self.starts)]

    @cached_property
    def shares(self) -> np.ndarray:
        """Shares of the groups of a column."""
        return self.profiles @ self.class_shares

    def strengths(self) -> np.ndarray:
        """Return the root mean square of the effects of naive Bayes, for each column."""
        return np.array([_strength(self.profiles[b], self.class_shares) for b in self.blocks])

    def encode(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the group of each record in each of the merged columns."""
        pairs = zip(self.columns, self.groups, strict=True)
        return [group.astype(np.int32)[columns[k]] for k, group in pairs]

    def spread(self, effects: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return the effects of groups as effects of the cells of all columns."""
        found = [np.zeros((size, effects.shape[1])) for size in sizes]
        for k, group, block in zip(self.columns, self.groups, self.blocks, strict=True):
            found[k] = effects[block][group]
        return found


def _strength(profile: np.ndarray, class_shares: np.ndarray) -> float:
    effects = _centre(np.log(profile), profile @ class_shares, class_shares)
    return float(np.sqrt((profile @ class_shares) @ effects**2 @ class_shares))


def _centre(effects: np.ndarray, shares: np.ndarray, class_shares: np.ndarray) -> np.ndarray:
    effects = effects - effects @ class_shares[:, np.newaxis]
    return effects - shares @ effects


@dataclass(frozen=True)
class Covariance:
    """Covariance of the indicators of merged cells, from noisy tables of pairs of columns.

    Coordinates are multiplied by `scale`, so that the noise of all pairs is about equal.
    """

    cells: MergedCells
    total: np.ndarray  # scaled, of shape (n_groups, n_groups)
    scale: np.ndarray  # of shape (n_groups,)
    noise: float  # bound on the spectral norm of the noise of `total`
    n_records: float

    @classmethod
    def from_pairs(
        cls,
        cells: MergedCells,
        noisy: np.ndarray,
        sigma: float,
        weights: np.ndarray,
        n_records: float,
    ) -> "Covariance":
        """Centre noisy counts, of noise `sigma` / sqrt(product of the weights of two columns).

        The counts of a column with itself are not needed: they follow from the shares.
        """
        shares = cells.shares
        # The margins of a pair are known, and are those of independent columns.
        total = _centre_blocks(noisy / n_records - np.outer(shares, shares), cells)
        for b in cells.blocks:
            total[b, b] = np.diag(shares[b]) - np.outer(shares[b], shares[b])
        scale = np.repeat(np.sqrt(weights), cells.sizes)
        # Bound on the spectral norm of a symmetric matrix of independent normal variables.
        norm = 2 * sigma * np.sqrt(len(shares)) / n_records
        return cls(cells, total * np.outer(scale, scale), scale, float(norm), n_records)

    def correction(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the factor of naive Bayes, and the intercept and effects that correct it.

        The result is a linear discriminant that is shrunk towards naive Bayes.
        """
        cells, scale = self.cells, self.scale[:, np.newaxis]
        shares, priors = cells.shares, cells.class_shares
        difference = cells.profiles - shares[:, np.newaxis]
        effects = np.log(cells.profiles)
        effects = np.vstack([_centre(effects[b], shares[b], priors) for b in cells.blocks]) / scale
        scaled = difference * scale
        within = self.total - (scaled * priors) @ scaled.T
        gain = float((effects * scaled).sum(axis=0) @ priors)
        # Linear in the noisy counts, so its noise has mean 0.
        spread = float((effects * (within @ effects)).sum(axis=0) @ priors)
        values, vectors = _eigen(within)
        within = (vectors * values) @ vectors.T
        factor = float(np.clip(gain / max(spread, gain, 1e-12), 0.5 / len(cells.columns), 1.0))
        ridge = values + self.noise + _CONDITION * values.max(initial=1e-12)
        error = scaled - factor * (within @ effects)
        found = scale * (vectors @ ((vectors.T @ error) / ridge[:, np.newaxis]))
        # Without dependence, naive Bayes is right, and a linear discriminant is worse.
        found *= min(1.0, 2 * (1 - factor))
        middle = (cells.profiles + shares[:, np.newaxis]) / 2
        return factor, -(middle * found).sum(axis=0), found

    def newton_step(self, sums: "ResidualSums") -> "NewtonStep":
        """Return a regularised Newton step of the logistic regression on the merged cells."""
        cells, shares = self.cells, self.cells.shares
        n_classes = len(cells.class_shares)
        gradient = sums.residuals - sums.residuals.mean(axis=1, keepdims=True)
        mean = np.mean([gradient[b].sum(axis=0) for b in cells.blocks], axis=0)
        gradient = gradient - shares[:, np.newaxis] * mean
        for b in cells.blocks:
            gradient[b] -= gradient[b].mean(axis=0)
        # Uncertainty of the model in each cell, relative to that of the class given the cell.
        level = np.mean([sums.uncertainty[b].sum() for b in cells.blocks])
        level = float(np.clip(level, 0.02, 1.0))
        prior = 3 * sums.noise
        uncertainty = np.clip((sums.uncertainty + prior * level) / (shares + prior), 0.01, 1.0)
        given = cells.profiles * cells.class_shares / shares[:, np.newaxis]
        spread = (given * (1 - given)).sum(axis=1)
        ratio = uncertainty / np.maximum(spread, 0.02)
        curvature = given * (1 - given) * ratio[:, np.newaxis] * n_classes / (n_classes - 1)
        curvature = np.clip(curvature, 0.005, 0.6)
        if n_classes == 2:  # both classes have the same curvature, and opposite gradients
            found = [self._solve(curvature[:, 0], gradient[:, 0], sums.noise)] * 2
            step = np.stack([found[0][0], -found[0][0]], axis=1)
        else:
            columns = zip(curvature.T, gradient.T, strict=True)
            found = [self._solve(*column, sums.noise) for column in columns]
            step = np.stack([each[0] for each in found], axis=1)
        variance, shrinkage = (np.stack([each[i] for each in found], axis=1) for i in (1, 2))
        step -= step.mean(axis=1, keepdims=True)
        spread = cells.class_shares * (1 - cells.class_shares)
        curvature = level * spread / spread.sum() * n_classes / (n_classes - 1)
        shift = mean / (np.maximum(curvature, 0.005) + 3 * sums.noise / np.sqrt(len(cells.columns)))
        shift = np.clip(shift - shift.mean(), -1.0, 1.0)
        return NewtonStep(shift - shares @ step, step, shrinkage, variance)

    def _solve(
        self, curvature: np.ndarray, gradient: np.ndarray, noise: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the step of one class, its variance, and the part of errors that it leaves."""
        shares, n_merged = self.cells.shares, len(self.cells.columns)
        root = np.sqrt(curvature)
        hessian = self.total * np.outer(root, root)
        hessian[np.diag_indices(len(root))] *= 1 + _DAMPING
        values, vectors = _eigen(hessian)
        average = float(shares @ curvature) / n_merged
        # Noise and sampling error of the residual sums.
        error = np.sqrt(noise**2 + average / len(shares) * n_merged / self.n_records)
        ridge = values + self.noise * average + error * self.scale.mean() / _STEP_SIZE
        ridge = ridge + _CONDITION * values.max(initial=1e-12)
        inverse = vectors / ridge
        step = self.scale * (inverse @ (vectors.T @ (gradient * self.scale)))
        variance = (noise * self.scale**2) ** 2 * (inverse**2).sum(axis=1)
        return step, variance, ((1 - values / ridge) * vectors**2).sum(axis=1)


@dataclass(frozen=True)
class ResidualSums:
    """Noisy sums by merged cell, divided by the number of records."""

    residuals: np.ndarray  # of label indicator minus probability, (n_groups, n_classes)
    uncertainty: np.ndarray  # of 1 minus the sum of squared probabilities, (n_groups,)
    noise: float  # standard deviation of the noise


@dataclass(frozen=True)
class NewtonStep:
    """Change of the model, and of the variance of its effects."""

    intercept: np.ndarray
    effects: np.ndarray
    shrinkage: np.ndarray  # part of an earlier error that is left
    variance: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Model after some steps, and the variances of its effects that are due to the noise."""

    model: AdditiveModel
    variances: list[np.ndarray]  # of the shapes of the effects
    class_shares: np.ndarray

    @classmethod
    def from_tables(cls, tables: ClassTables) -> "Estimate":
        """Return naive Bayes."""
        return cls(tables.naive_bayes(), tables.effect_variances(), tables.class_shares)

    @property
    def _sizes(self) -> list[int]:
        return [len(effect) for effect in self.model.effects]

    def correct(self, covariance: Covariance) -> "Estimate":
        """Correct naive Bayes for the dependence of columns."""
        factor, intercept, effects = covariance.correction()
        model = replace(self.model.scaled(factor), intercept=np.log(self.class_shares))
        model = model.add(intercept, covariance.cells.spread(effects, self._sizes))
        return replace(self, model=model, variances=[factor**2 * v for v in self.variances])

    def step(self, covariance: Covariance, sums: ResidualSums) -> "Estimate":
        """Add a Newton step."""
        step, cells = covariance.newton_step(sums), covariance.cells
        model = self.model.add(step.intercept, cells.spread(step.effects, self._sizes))
        left = cells.spread(step.shrinkage**2, self._sizes)
        added = cells.spread(step.variance, self._sizes)
        variances = [
            left[k] * variance + added[k] if k in cells.columns else variance
            for k, variance in enumerate(self.variances)
        ]
        return replace(self, model=model, variances=variances)


def _centre_blocks(matrix: np.ndarray, cells: MergedCells) -> np.ndarray:
    """Subtract the means of the rows and columns of each block of two columns."""
    sizes, firsts = np.array(cells.sizes), cells.starts[:-1]
    by_row = np.add.reduceat(matrix, firsts, axis=1) / sizes
    by_column = np.add.reduceat(matrix, firsts, axis=0) / sizes[:, np.newaxis]
    by_block = np.add.reduceat(by_row, firsts, axis=0) / sizes[:, np.newaxis]
    spread = by_row - np.repeat(by_block, sizes, axis=0)
    return matrix - np.repeat(spread, sizes, axis=1) - np.repeat(by_column, sizes, axis=0)


def _eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return non-negative eigenvalues and eigenvectors; negative ones are noise."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.maximum(values, 0.0), vectors


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return probabilities; for few classes, sums of columns are faster than sums of rows."""
    largest = reduce(np.maximum, scores.T)
    shares = np.exp(scores - largest[:, np.newaxis])
    shares /= reduce(np.add, shares.T)[:, np.newaxis]
    return shares


def reference_probabilities(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one class for each record, and its probability.

    The class is the second of two classes, and the most probable one of more.
    """
    probabilities = softmax(scores)
    n_classes = scores.shape[1]
    if n_classes == 2:
        return np.ones(len(scores), dtype=np.intp), probabilities[:, 1]
    found = reduce(np.maximum, probabilities.T)
    chosen = np.full(len(scores), n_classes - 1)
    for c in reversed(range(n_classes - 1)):
        np.copyto(chosen, c, where=probabilities[:, c] == found)
    return chosen, found


def calibrate(
    model: AdditiveModel, table: np.ndarray, sigma: float, slope: float, class_shares: np.ndarray
) -> AdditiveModel:
    """Scale the scores towards the class shares by a noisy table, and shift those of two classes.

    Row 1 of the table counts the records whose label is the class of `reference_probabilities`,
    and row 0 the others, by bins of the logit. `slope` is the mean of the prior of the scale. The
    score function of logistic regression is linear in the counts, so its noise has mean 0.
    """
    is_binary = len(class_shares) == 2
    share = class_shares[1] if is_binary else float(np.square(class_shares).sum())
    centre = np.log(share) - np.log1p(-share)
    design = np.stack([_LOGITS - centre, np.ones_like(_LOGITS)], axis=1)[:, : 1 + is_binary]
    prior = np.array([slope, 0.0])[: 1 + is_binary]
    totals = np.maximum(table.sum(axis=0), 0.0)
    found = prior.copy()
    for _ in range(_CALIBRATION_STEPS):
        share = expit(centre + design @ found)
        weight = totals * share * (1 - share)
        information = design.T**2 @ weight
        variance = sigma**2 * (design.T**2 @ ((1 - share) ** 2 + share**2))
        precision = _CALIBRATION_PRIOR * (1 + variance / np.maximum(information, 1e-3))
        gradient = design.T @ ((1 - share) * table[1] - share * table[0])
        hessian = (design.T * weight) @ design + np.diag(precision)
        step = np.linalg.solve(hessian, gradient - precision * (found - prior))
        found = found + np.clip(step, -0.3, 0.3)
    scale = float(np.clip(found[0], 0.05, 3.0))
    scaled = model.scaled(scale)
    intercept = scaled.intercept + (1 - scale) * np.log(class_shares)
    if is_binary:
        intercept = intercept + np.array([-0.5, 0.5]) * found[1]
    return replace(scaled, intercept=intercept)
