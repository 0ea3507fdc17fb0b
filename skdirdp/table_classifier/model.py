"""Additive classification model, estimated from released tables alone.

The score of a class is an intercept plus one effect for each column. All functions here are
post-processing: they use noisy tables and the variance of their noise, but no records. Section 19
of docs/theory.md contains the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from scipy.special import expit, gammainc, log_ndtr

from ..mechanisms.tables import Noise
from ..numerics.rows import row_blocks
from ..postprocessing import NoisyTable, estimate_counts

# The constants below were chosen on the eight data sets of benchmarks/data.py, for values of
# epsilon from 0.1 to 3; docs/classifier.md shows the results.
# Records are scored in blocks that fit into the cache.
_BLOCK_ROWS = 1 << 14
# Pseudocount added to each cell before taking logarithms, averaged over the classes.
_SMOOTHING = 0.5
# Cells are merged if the mean squared difference of their class profiles, in units of squared
# standard errors, is at most this.
_MERGE = 2.0
# Smallest eigenvalue of a covariance or Hessian that is inverted, relative to the largest.
_CONDITION = 1e-3
# Relative increase in the Hessian's diagonal. The Hessian is approximate; full steps would diverge.
_DAMPING = 1.0
# A separate step is computed for each class. The matrix diag(p) - p p^T of class probabilities p is
# at most this multiple of diag(p * (1 - p)).
_COUPLING = 2.0
# Typical change in an effect in one Newton step.
_STEP_SIZE = 0.1
# A step is shortened if the derivative at its end is this many standard deviations below 0.
_OVERSHOOT = 2.0
# Prior precision of the shift in the calibration.
_CALIBRATION_PRIOR = 10.0
_CALIBRATION_STEPS = 30
# Grid of scales of the scores in the calibration.
_SCALES = np.geomspace(0.005, 1.5, 200)
# Bin edges of the logits in the calibration table, and the logit of the outermost bins.
_LOGIT_EDGES = np.array([-4, -2.8, -2, -1.4, -0.9, -0.5, -0.2, 0.2, 0.5, 0.9, 1.4, 2, 2.8, 4])
_OUTER_LOGIT = 4.6
# Wide bins, relative to the logit of the class shares, keyed by whether there are two classes.
_WIDE_EDGES = {True: np.array([-3.0, -1.0, 1.0, 3.0]), False: np.array([1.0, 2.0, 3.5, 5.5])}
_OUTER_WIDE = {True: (-4.0, 4.0), False: (0.5, 6.5)}
# Root mean square of the logits for which these bins are wide enough, relative to the outermost.
# The quantiser of Lloyd and Max with five levels, which is optimal for normal variables, has 0.58.
_WIDE_SPREAD = 0.6


@dataclass(frozen=True)
class AdditiveModel:
    """Additive model of class scores: an intercept, and the effects of the cells of each column."""

    intercept: np.ndarray  # of shape (n_classes,)
    effects: list[np.ndarray]  # of shape (n_cells of the column, n_classes)

    def scores(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of records, relative to the score of the first class.

        `columns` contains, for each column, the cell of each record.
        """
        # The scores of a class are contiguous in memory, which makes sums over classes fast.
        scores = np.zeros((len(self.intercept), len(columns[0]))).T
        intercept = self.intercept - self.intercept[0]
        for rows in row_blocks(len(scores), 1, _BLOCK_ROWS):
            block = scores[rows, 1:].T
            block[:] = intercept[1:, np.newaxis]
            buffer = np.empty(block.shape[1])
            for effects, cells in zip(self._differences, columns, strict=True):
                positions = cells[rows].astype(np.intp)
                for total, effect in zip(block, effects, strict=True):
                    # The positions are valid, and mode="clip" is faster than a bounds check.
                    total += effect.take(positions, out=buffer, mode="clip")
        return scores

    @cached_property
    def _differences(self) -> list[np.ndarray]:
        """Effects of each class relative to the first, of shape (n_classes - 1, n_cells)."""
        return [np.ascontiguousarray((effect - effect[:, :1]).T[1:]) for effect in self.effects]

    def add(self, intercept: np.ndarray, effects: Sequence[np.ndarray]) -> "AdditiveModel":
        added = [a + b for a, b in zip(self.effects, effects, strict=True)]
        return AdditiveModel(self.intercept + intercept, added)

    def scaled(self, slope: float) -> "AdditiveModel":
        return AdditiveModel(slope * self.intercept, [slope * effect for effect in self.effects])

    def towards(self, class_shares: np.ndarray, slope: float) -> "AdditiveModel":
        """Scale the distances of the scores from those of the class shares."""
        scaled = self.scaled(slope)
        return replace(scaled, intercept=scaled.intercept + (1 - slope) * np.log(class_shares))

    def centred(self, shares: Sequence[np.ndarray]) -> "AdditiveModel":
        """Return an equivalent model whose effects have mean 0 over cells and over classes."""
        intercept, effects = self.intercept, []
        for effect, share in zip(self.effects, shares, strict=True):
            mean = share @ effect
            intercept = intercept + mean
            effects.append(effect - mean - (effect - mean).mean(axis=1, keepdims=True))
        return AdditiveModel(intercept - intercept.mean(), effects)


@dataclass(frozen=True)
class ClassTables:
    """Noisy class-by-cell tables, one for each column, and the estimated counts."""

    noisy: list[np.ndarray]  # of shape (n_classes, n_cells)
    sigma: float  # standard deviation of the noise
    counts: list[np.ndarray]  # positive estimates of the same shape
    labels: tuple[np.ndarray, float] | None = None  # noisy class counts, and sigma

    @classmethod
    def from_noisy(
        cls,
        noisy: Sequence[np.ndarray],
        sigma: float,
        labels: tuple[np.ndarray, float] | None = None,
    ) -> "ClassTables":
        """Estimate the counts.

        `labels` contains noisy class counts and the standard deviation of their noise.
        """
        if sigma == 0:
            return cls(list(noisy), 0.0, list(noisy))
        tables = [NoisyTable(t, Noise(sigma**2), ("class", k)) for k, t in enumerate(noisy)]
        if labels is not None:
            tables.append(NoisyTable(labels[0], Noise(labels[1] ** 2), ("class",)))
        estimates = [each.counts for each in estimate_counts(tables)]
        return cls(list(noisy), sigma, estimates[: len(noisy)], labels)

    def combined(
        self, noisy: Sequence[np.ndarray], sigma: float, labels: tuple[np.ndarray, float]
    ) -> "ClassTables":
        """Return new estimates from these tables and another release of the same tables."""
        if self.sigma == 0 or sigma == 0:
            return self
        weight = sigma**2 / (self.sigma**2 + sigma**2)  # weights are inverse variances
        both = [weight * a + (1 - weight) * b for a, b in zip(self.noisy, noisy, strict=True)]
        return ClassTables.from_noisy(both, float(np.sqrt(weight)) * self.sigma, labels)

    @property
    def n_records(self) -> float:
        return max(float(np.mean([table.sum() for table in self.counts])), 1.0)

    @cached_property
    def class_shares(self) -> np.ndarray:
        """Estimated class shares, shrunk towards equal shares if class counts are noisy."""
        if self.labels is None:
            totals = np.mean([table.sum(axis=1) for table in self.counts], axis=0)
        else:
            sums = [(table.sum(axis=1), self.sigma**2 * table.shape[1]) for table in self.noisy]
            sums.append((self.labels[0], self.labels[1] ** 2))
            precision = np.array([1 / variance for _, variance in sums])
            average = np.average([counts for counts, _ in sums], axis=0, weights=precision)
            totals = shrink_counts(average, 1 / precision.sum())
        totals = totals + _SMOOTHING
        return totals / totals.sum()

    def profiles(self) -> list[np.ndarray]:
        """Return the cell shares of each column by class, of shape (n_cells, n_classes)."""
        # If all classes had the same pseudocount, empty cells would be evidence for rare classes.
        added = _SMOOTHING * len(self.class_shares) * self.class_shares[:, np.newaxis]
        smooth = [table + added for table in self.counts]
        return [(table / table.sum(axis=1, keepdims=True)).T for table in smooth]

    def cell_shares(self) -> list[np.ndarray]:
        """Return the shares of the cells of each column."""
        return [profile @ self.class_shares for profile in self.profiles()]

    def naive_bayes(self) -> AdditiveModel:
        effects = [np.log(profile) for profile in self.profiles()]
        return AdditiveModel(np.log(self.class_shares), effects)

    def spread(self, slope: float) -> float:
        """Return about the root mean square of the log likelihood ratios of two classes.

        Their variance is v if the columns are independent, as an average over pairs of classes.
        Given one of the classes, their mean is v/2 without noise, whether columns are independent
        or not. `slope` is the fraction of it that is expected with noise.
        """
        strengths = [_strength(each, self.class_shares) for each in self.profiles()]
        differ = 1 - float(np.square(self.class_shares).sum())  # share of pairs of two classes
        variance = 2 * float(np.square(strengths).sum()) / differ
        return float(np.sqrt(variance + (slope * variance / 2) ** 2))

    def evidence(self) -> float:
        """Return how strongly the class depends on the columns, in standard deviations.

        The test statistic is the sum of squared interactions, each divided by its variance due to
        noise and sampling. It has the mean and variance of a chi-square variable.
        """
        statistic, dof = 0.0, 1e-9
        for noisy, counts in zip(self.noisy, self.counts, strict=True):
            total = max(float(counts.sum()), 1.0)
            expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
            residual = noisy - expected
            residual = (
                residual
                - residual.mean(axis=0)
                - residual.mean(axis=1, keepdims=True)
                + residual.mean()
            )
            statistic += float((residual**2 / (self.sigma**2 + expected + 1e-9)).sum())
            dof += (noisy.shape[0] - 1) * (noisy.shape[1] - 1)
        return (statistic - dof) / float(np.sqrt(2 * dof))

    def effect_variances(self) -> list[np.ndarray]:
        """Return the variance of the naive Bayes effects due to the noise, to first order."""
        variances = []
        for table in self.counts:
            relative = (self.sigma / (table.T + self.sigma + _SMOOTHING)) ** 2
            share = 1 / len(table)
            centred = (1 - 2 * share) * relative + share * relative.mean(axis=1, keepdims=True)
            variances.append(np.maximum(centred, 0.0))
        return variances


def shrink_counts(noisy: np.ndarray, variance: float) -> np.ndarray:
    """Return positive estimates of counts with normal noise, shrunk towards their mean.

    The prior of the counts is normal and centred at their mean. The prior density of the fraction
    of the variance that is due to the noise is inversely proportional to that fraction. Each count
    is replaced by the mean of its posterior distribution, truncated to positive values.
    """
    deviations = noisy - noisy.mean()
    shape, half = (len(noisy) - 1) / 2, max(float(deviations @ deviations) / (2 * variance), 1e-9)
    noise_fraction = shape / half * gammainc(shape + 1, half) / gammainc(shape, half)
    mean = noisy.mean() + (1 - noise_fraction) * deviations
    deviation = np.sqrt(variance * max(1 - noise_fraction, 1e-9))
    z = mean / deviation
    return mean + deviation * np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2 * np.pi)


def merge_cells(noisy: np.ndarray, counts: np.ndarray, sigma: float, ordered: bool) -> np.ndarray:
    """Merge cells whose class profiles differ by no more than the noise; return each cell's group.

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
    """Groups of merged cells, concatenated over the columns that have more than one group."""

    columns: list[int]  # positions of the columns
    groups: list[np.ndarray]  # group of each cell of these columns
    profiles: np.ndarray  # group shares in each class, of shape (n_groups, n_classes)
    class_shares: np.ndarray

    @classmethod
    def from_tables(
        cls, tables: ClassTables, ordered: Sequence[bool], max_cells: int
    ) -> "MergedCells":
        """Merge cells; keep the columns with the strongest effects, up to `max_cells` cells."""
        groups = [
            merge_cells(noisy, counts, tables.sigma, is_ordered)
            for noisy, counts, is_ordered in zip(tables.noisy, tables.counts, ordered, strict=True)
        ]
        smoothed = {}
        for k, (group, counts) in enumerate(zip(groups, tables.counts, strict=True)):
            if group.max(initial=0) > 0:
                merged = np.stack([np.bincount(group, row) for row in counts]).T + _SMOOTHING
                smoothed[k] = merged / merged.sum(axis=0)
        shares = tables.class_shares
        strength = {k: _strength(profile, shares) for k, profile in smoothed.items()}
        kept, n_cells = [], 0
        for k in sorted(smoothed, key=lambda k: -strength[k]):
            if n_cells + len(smoothed[k]) <= max_cells:
                kept.append(k)
                n_cells += len(smoothed[k])
        kept.sort()
        n_classes = len(shares)
        stacked = np.vstack([np.empty((0, n_classes)), *(smoothed[k] for k in kept)])
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
        """Share of each group within its column."""
        return self.profiles @ self.class_shares

    def strengths(self) -> np.ndarray:
        """Return the root mean square of the naive Bayes effects for each column."""
        return np.array([_strength(self.profiles[b], self.class_shares) for b in self.blocks])

    def encode(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the group of each record in each of the merged columns."""
        pairs = zip(self.columns, self.groups, strict=True)
        return [group.astype(np.int32)[columns[k]] for k, group in pairs]

    def expand(self, effects: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
        """Expand the effects of groups to the cells of all columns."""
        expanded = [np.zeros((size, effects.shape[1])) for size in sizes]
        for k, group, block in zip(self.columns, self.groups, self.blocks, strict=True):
            expanded[k] = effects[block][group]
        return expanded


def _strength(profile: np.ndarray, class_shares: np.ndarray) -> float:
    effects = _centre(np.log(profile), profile @ class_shares, class_shares)
    return float(np.sqrt((profile @ class_shares) @ effects**2 @ class_shares))


def _centre(effects: np.ndarray, shares: np.ndarray, class_shares: np.ndarray) -> np.ndarray:
    effects = effects - effects @ class_shares[:, np.newaxis]
    return effects - shares @ effects


@dataclass(frozen=True)
class Covariance:
    """Covariance of the indicators of merged cells, from noisy tables of pairs of columns.

    Coordinates are multiplied by `scale`, so that all pairs have about the same noise variance.
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
        """Centre the noisy counts of pairs and compute their covariance.

        The noise of a pair has standard deviation `sigma` / sqrt(product of the columns' weights).
        The diagonal blocks are not needed, because they follow from the shares.
        """
        shares = cells.shares
        # The margins of a pair are known, and are the same as for independent columns.
        total = _centre_blocks(noisy / n_records - np.outer(shares, shares), cells)
        for b in cells.blocks:
            total[b, b] = np.diag(shares[b]) - np.outer(shares[b], shares[b])
        scale = np.repeat(np.sqrt(weights), cells.sizes)
        # Bound on the spectral norm of a symmetric matrix of independent normal variables.
        norm = 2 * sigma * np.sqrt(len(shares)) / n_records
        return cls(cells, total * np.outer(scale, scale), scale, float(norm), n_records)

    def correction(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the factor that scales naive Bayes, and the intercept and effects that correct it.

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
        correction = scale * (vectors @ ((vectors.T @ error) / ridge[:, np.newaxis]))
        # If columns are independent, naive Bayes is correct, and a linear discriminant is worse.
        correction *= min(1.0, 2 * (1 - factor))
        middle = (cells.profiles + shares[:, np.newaxis]) / 2
        return factor, -(middle * correction).sum(axis=0), correction

    def newton_step(self, sums: "ResidualSums", hessian_factor: np.ndarray) -> "NewtonStep":
        """Return a regularised Newton step of the logistic regression on the merged cells.

        The Hessian is multiplied by `hessian_factor`.
        """
        cells, shares = self.cells, self.cells.shares
        n_classes = len(cells.class_shares)
        gradient = sums.residuals - sums.residuals.mean(axis=1, keepdims=True)
        mean = replace(sums, residuals=gradient).mean(cells.blocks)
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
        curvature = given * (1 - given) * ratio[:, np.newaxis] * _COUPLING
        curvature = hessian_factor * np.clip(curvature, 0.005, 0.6)
        if n_classes == 2:  # both classes have the same curvature, and opposite gradients
            solutions = [self._solve(curvature[:, 0], gradient[:, 0], sums.noise)] * 2
            step = np.stack([solutions[0][0], -solutions[0][0]], axis=1)
        else:
            columns = zip(curvature.T, gradient.T, strict=True)
            solutions = [self._solve(*column, sums.noise) for column in columns]
            step = np.stack([each[0] for each in solutions], axis=1)
        variance, shrinkage = (np.stack([each[i] for each in solutions], axis=1) for i in (1, 2))
        step -= step.mean(axis=1, keepdims=True)
        spread = cells.class_shares * (1 - cells.class_shares)
        curvature = _COUPLING * level * spread / spread.sum()
        shift = mean / (np.maximum(curvature, 0.005) + 3 * sums.noise / np.sqrt(len(cells.columns)))
        shift = np.clip(shift - shift.mean(), -1.0, 1.0)
        return NewtonStep(shift - shares @ step, step, shrinkage, variance, sums)

    def _solve(
        self, curvature: np.ndarray, gradient: np.ndarray, noise: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the step for one class, its variance, and the remaining fraction of errors."""
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
    """Noisy sums over the records in each merged cell, divided by the number of records."""

    residuals: np.ndarray  # label indicator minus probability, (n_groups, n_classes)
    uncertainty: np.ndarray  # 1 minus the sum of squared probabilities, (n_groups,)
    noise: float  # standard deviation of the noise

    def mean(self, blocks: Sequence[slice]) -> np.ndarray:
        """Return the mean residual of each class, averaged over the columns."""
        return np.mean([self.residuals[b].sum(axis=0) for b in blocks], axis=0)

    def interpolate(self, other: "ResidualSums", length: np.ndarray) -> "ResidualSums":
        """Interpolate linearly between these sums and the sums of another model."""
        residuals = (1 - length) * self.residuals + length * other.residuals
        part = float(length.mean())
        uncertainty = (1 - part) * self.uncertainty + part * other.uncertainty
        noise = np.hypot((1 - length) * self.noise, length * other.noise).max()
        return ResidualSums(residuals, uncertainty, float(noise))


@dataclass(frozen=True)
class NewtonStep:
    """Change in the model and in the variance of its effects."""

    intercept: np.ndarray
    effects: np.ndarray
    shrinkage: np.ndarray  # fraction of an earlier error that remains
    variance: np.ndarray
    sums: ResidualSums  # of the model before the step

    def best_length(self, after: ResidualSums, blocks: Sequence[slice]) -> np.ndarray:
        """Return the fraction of the step that maximises the likelihood, by the secant method.

        The derivative of the mean log-likelihood along the step is linear in the residual sums. If
        a step is too long, the derivative at its end is negative by more than the noise.
        """
        start, end = (
            (sums.residuals * self.effects).sum(axis=0) + sums.mean(blocks) * self.intercept
            for sums in (self.sums, after)
        )
        noise = after.noise * np.sqrt(np.square(self.effects).sum(axis=0))
        is_too_long = (start > 0) & (end < -_OVERSHOOT * noise)
        return np.where(is_too_long, start / np.maximum(start - end, 1e-12), 1.0)


@dataclass(frozen=True)
class Estimate:
    """Model after some steps, and the variances of its effects due to the noise."""

    model: AdditiveModel
    variances: list[np.ndarray]  # of the same shapes as the effects
    class_shares: np.ndarray
    last: NewtonStep | None = None

    @classmethod
    def from_tables(cls, tables: ClassTables) -> "Estimate":
        """Return the naive Bayes estimate."""
        return cls(tables.naive_bayes(), tables.effect_variances(), tables.class_shares)

    @property
    def _sizes(self) -> list[int]:
        return [len(effect) for effect in self.model.effects]

    def correct(self, covariance: Covariance) -> "Estimate":
        """Correct naive Bayes for the dependence between columns."""
        factor, intercept, effects = covariance.correction()
        model = replace(self.model.scaled(factor), intercept=np.log(self.class_shares))
        model = model.add(intercept, covariance.cells.expand(effects, self._sizes))
        return replace(self, model=model, variances=[factor**2 * v for v in self.variances])

    def step(self, covariance: Covariance, sums: ResidualSums) -> "Estimate":
        """Shorten the previous Newton step if it was too long, and add a new one."""
        model, cells, last = self.model, covariance.cells, self.last
        length = np.ones(len(self.class_shares))
        if last is not None:
            length = last.best_length(sums, cells.blocks)
            effects = cells.expand((length - 1) * last.effects, self._sizes)
            model = model.add((length - 1) * last.intercept, effects)
            sums = last.sums.interpolate(sums, length)
        step = covariance.newton_step(sums, 1 / length)
        model = model.add(step.intercept, cells.expand(step.effects, self._sizes))
        remaining = cells.expand(step.shrinkage**2, self._sizes)
        added = cells.expand(step.variance, self._sizes)
        variances = [
            remaining[k] * variance + added[k] if k in cells.columns else variance
            for k, variance in enumerate(self.variances)
        ]
        return replace(self, model=model, variances=variances, last=step)


def _centre_blocks(matrix: np.ndarray, cells: MergedCells) -> np.ndarray:
    """Subtract the row and column means within the block of each pair of columns."""
    sizes, starts = np.array(cells.sizes), cells.starts[:-1]
    by_row = np.add.reduceat(matrix, starts, axis=1) / sizes
    by_column = np.add.reduceat(matrix, starts, axis=0) / sizes[:, np.newaxis]
    by_block = np.add.reduceat(by_row, starts, axis=0) / sizes[:, np.newaxis]
    spread = by_row - np.repeat(by_block, sizes, axis=0)
    return matrix - np.repeat(spread, sizes, axis=1) - np.repeat(by_column, sizes, axis=0)


def _eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors; negative eigenvalues are due to noise and set to 0."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.maximum(values, 0.0), vectors


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return class probabilities."""
    # With few classes, operations on columns are faster than on rows.
    largest = reduce(np.maximum, scores.T)
    shares = np.exp(scores - largest[:, np.newaxis])
    shares /= reduce(np.add, shares.T)[:, np.newaxis]
    return shares


def reference_probabilities(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a reference class for each record, and its probability.

    With two classes, this is the second class; with more, the most probable class.
    """
    probabilities = softmax(scores)
    n_classes = scores.shape[1]
    if n_classes == 2:
        return np.ones(len(scores), dtype=np.intp), probabilities[:, 1]
    largest = reduce(np.maximum, probabilities.T)
    reference = np.full(len(scores), n_classes - 1)
    for c in reversed(range(n_classes - 1)):
        np.copyto(reference, c, where=probabilities[:, c] == largest)
    return reference, largest


@dataclass(frozen=True)
class LogitBins:
    """Bins of the logits of `reference_probabilities` in the calibration table.

    The distances of the scores from those of the class shares are divided by `unit` before.
    """

    centre: float  # logit of the class shares
    edges: np.ndarray
    logits: np.ndarray  # one for each bin
    unit: float

    @classmethod
    def from_shares(cls, class_shares: np.ndarray, spread: float | None) -> "LogitBins":
        """Return a few wide bins for scores of this spread, or many narrow ones if it is None.

        Few bins have less noise. If the scores were not divided, records with a logit far beyond
        the outer bins would count as if it were theirs, and the scale would be too large.
        """
        is_binary = len(class_shares) == 2
        share = class_shares[1] if is_binary else float(np.square(class_shares).sum())
        centre = float(np.log(share) - np.log1p(-share))
        edges, ends = _LOGIT_EDGES, (-_OUTER_LOGIT, _OUTER_LOGIT)
        offset, unit = 0.0, 1.0
        if spread is not None:
            edges, ends = _WIDE_EDGES[is_binary], _OUTER_WIDE[is_binary]
            offset, unit = centre, max(spread / (_WIDE_SPREAD * ends[1]), 1.0)
        middles = (edges[1:] + edges[:-1]) / 2
        logits = np.array([ends[0], *middles, ends[1]]) + offset
        return cls(centre, edges + offset, logits, unit)

    @property
    def distances(self) -> np.ndarray:
        """Distances of the logits from the centre, multiplied by `unit`."""
        return self.unit * (self.logits - self.centre)


def calibrate(
    model: AdditiveModel,
    table: np.ndarray,
    sigma: float,
    bins: LogitBins,
    slope: float,
    class_shares: np.ndarray,
) -> AdditiveModel:
    """Scale the scores towards the class shares; with two classes, also shift them.

    Row 1 of the table counts the records whose label is the class of `reference_probabilities`,
    and row 0 the other records, by logit bin. `slope` is the prior median of the scale. The
    score function of logistic regression is linear in the counts, so its noise has mean 0.
    """
    scale = _posterior_scale(bins.distances, bins.centre, table, sigma, slope)
    scaled = model.towards(class_shares, scale)
    if len(class_shares) == 2:
        shift = _posterior_shift(bins.centre + scale * bins.distances, table, sigma)
        scaled = replace(scaled, intercept=scaled.intercept + np.array([-0.5, 0.5]) * shift)
    return scaled


def _posterior_scale(
    distance: np.ndarray, centre: float, table: np.ndarray, sigma: float, slope: float
) -> float:
    """Return the posterior median of the factor that scales the distances from the centre.

    At the true scale, the score function has mean 0, and its variance is due to noise and sampling.
    The prior is a half-Cauchy distribution with median `slope`.
    """
    share = expit(centre + np.outer(_SCALES, distance))
    score = ((1 - share) * table[1] - share * table[0]) @ distance
    totals = np.maximum(table.sum(axis=0), 0.0)
    information = (share * (1 - share) * totals) @ distance**2
    variance = information + sigma**2 * (((1 - share) ** 2 + share**2) @ distance**2)
    log_density = -0.5 * score**2 / np.maximum(variance, 1e-9)
    log_density -= np.log1p((_SCALES / slope) ** 2)
    weights = _SCALES * np.exp(log_density - log_density.max())
    below = np.cumsum(weights) - weights / 2
    return float(np.interp(0.5, below / weights.sum(), _SCALES))


def _posterior_shift(logits: np.ndarray, table: np.ndarray, sigma: float) -> float:
    """Return the posterior mode of a shift of all logits, by Newton's method."""
    shift = 0.0
    totals = np.maximum(table.sum(axis=0), 0.0)
    for _ in range(_CALIBRATION_STEPS):
        share = expit(logits + shift)
        information = float(totals @ (share * (1 - share)))
        variance = sigma**2 * float(((1 - share) ** 2 + share**2).sum())
        precision = _CALIBRATION_PRIOR * (1 + variance / max(information, 1e-3))
        gradient = float(((1 - share) * table[1] - share * table[0]).sum())
        step = (gradient - precision * shift) / (information + precision)
        shift += float(np.clip(step, -0.3, 0.3))
    return shift
