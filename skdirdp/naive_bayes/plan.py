"""Counts of a naive Bayes model, the plan of their release, and estimates from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._persons import CountedRows
from ..base import Release, ReleaseContext, ReleasePlan
from ..mechanisms.additive import gaussian_mean
from ..mechanisms.base import smoothed_mean
from ..mechanisms.splitting import relative_precision
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.rows import stacks_by_shape
from ..postprocessing import NoisyTable

#: Public description of a table, and its exact counts.
Table = tuple[CountTable, np.ndarray]


@dataclass(frozen=True)
class ClassCounts:
    """Exact counts of all batches, kept only until they are released."""

    rows: CountedRows  # number of counted records, and the unit of privacy
    classes: np.ndarray  # weight of each class
    contribution: ContributionBound  # of a record, to `classes`
    features: Any  # counts by feature and class, with `tables`, `missing` and addition
    leaks: tuple[str, ...]  # public parameters that were taken from the data
    bounded: bool  # whether all records were held to the bounds that privacy needs
    weighted: bool  # whether records have weights, whose sum is not public

    def __add__(self, other: "ClassCounts") -> "ClassCounts":
        return ClassCounts(
            self.rows + other.rows,
            self.classes + other.classes,
            self.contribution | other.contribution,
            self.features + other.features,
            tuple(dict.fromkeys((*self.leaks, *other.leaks))),
            self.bounded and other.bounded,
            self.weighted or other.weighted,
        )


class NaiveBayesPlan(ReleasePlan):
    """Release plan of a naive Bayes model: the class counts, unless known, and the features."""

    def __init__(self, model: Any, context: ReleaseContext, counts: ClassCounts):
        budget = context.budget
        self.is_private = context.is_private
        if self.is_private and not counts.bounded:
            raise ValueError(
                "epsilon must be finite when records are counted for a private release; it was "
                "infinite, and they were not held to any bounds. Call fit to start again"
            )
        self.counts = counts
        self.known_prior = model._known_prior(self.is_private)
        self.n_samples, leaks = model._public_n_samples(counts.rows, budget)
        self.alpha = model._check_alpha()
        self.smoothing = float(np.min(self.alpha))
        postprocess = bool(model.postprocess)
        options: dict[str, Any] = {"min_smoothing": self.smoothing, "postprocess": postprocess}
        self.features = counts.features.tables(counts, self.n_samples, options)
        tables = self.features
        if self.known_prior is None:
            bound = counts.contribution
            precision = relative_precision([table for table, _ in tables], bound, budget.adjacency)
            options = {**options, "min_smoothing": 0.0, "precision": precision}
            prior = CountTable(self.n_samples, len(counts.classes), 1, bound, **options)
            tables = [(prior, counts.classes), *tables]
        super().__init__(model, context, tables, counts.rows, [*counts.leaks, *leaks])


class Estimate(NamedTuple):
    """Estimate of a table of counts after its release.

    The counts are exact without noise. With noise they are the released probabilities times the
    total of each row, as far as it is known, and include the smoothing of the mechanism.
    """

    counts: np.ndarray  # of shape (n_rows, n_categories)
    probabilities: np.ndarray  # of the same shape, smoothed
    smoothing: float  # to add to `counts` to get `probabilities`

    @classmethod
    def as_drawn(cls, table: CountTable, drawn: np.ndarray, shares: np.ndarray) -> "Estimate":
        """Return an estimate without post-processing, for classes with these shares."""
        totals = np.array([table.n_samples])
        if table.n_rows >= len(shares):  # each class has equally many rows, in class order
            totals *= len(shares) / table.n_rows
            totals = totals * np.repeat(shares, len(drawn) // len(shares))
        return cls(totals[:, np.newaxis] * drawn, drawn, 0.0)


def scaled_estimates(
    tables: Sequence[np.ndarray], totals: Sequence[float] | None, smoothing: float
) -> list[Estimate]:
    """Return estimates from post-processed counts, scaled to the totals of the tables."""
    found: list[Any] = [None] * len(tables)
    for places, counts in stacks_by_shape(tables):
        if totals is not None:
            wanted = np.array([totals[place] for place in places])
            counts *= (wanted / counts.sum(axis=(1, 2)))[:, np.newaxis, np.newaxis]
        shares = smoothed_mean(counts, smoothing)
        for i, place in enumerate(places):
            found[place] = Estimate(counts[i], shares[i], smoothing)
    return found


def noisy_table(release: Release, axes: tuple[Any, ...]) -> NoisyTable:
    """Return a release with noise for post-processing; tables with a common axis agree on it."""
    assert release.mechanism is not None
    return NoisyTable(release.drawn, release.mechanism.noise, axes)


def estimate_classes(classes: Release | None, total: float | None) -> np.ndarray | None:
    """Estimate the class counts alone, None if they were not released.

    Normal noise and a normal prior with equal means, whose variance is estimated from the noisy
    counts and is at least that of a sample. Counts are positive.
    """
    if classes is None or classes.mechanism is None:
        return None
    noisy = classes.drawn
    mean = float(noisy.mean()) if total is None else total / noisy.size
    noise_variance = classes.mechanism.noise.variance_at(max(mean, 0.0))
    # If nothing is left of the sum, the noise is the best guess of its size.
    mean = max(mean, np.sqrt(noise_variance / noisy.size))
    prior_variance = mean + max(np.mean((noisy - mean) ** 2) - noise_variance, 0.0)
    known = prior_variance / (prior_variance + noise_variance)
    deviation = np.sqrt(known * noise_variance)
    counts = deviation * gaussian_mean((mean + known * (noisy - mean)) / deviation)
    return counts if total is None else counts * (total / counts.sum())
