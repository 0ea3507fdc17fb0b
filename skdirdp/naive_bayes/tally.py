"""What naive Bayes models count, and what counts are taken to be after their release."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._persons import CountedRows
from ..mechanisms.base import smoothed_mean
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.rows import stacks_by_shape
from ..postprocessing import NoisyTable, estimate_counts


class FeatureCounts(Protocol):
    """Exact counts of the features by class, as `_PrivateNaiveBayes._count` gives them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Public parameters that had to be taken from the data."""

    def __add__(self, other: Any) -> Any:
        """The counts of both batches."""

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        """Public descriptions of the tables, and their counts."""


class Estimate(NamedTuple):
    """What a table of counts is taken to be after its release.

    Attributes
    ----------
    counts : ndarray of shape (n_rows, n_categories)
        Exact without noise. Else the released probabilities times the total of each row, as
        far as that is known, and so with the mechanism's smoothing in them.
    probabilities : ndarray of the same shape
        With the smoothing in them in either case.
    smoothing : float
        What is yet to be added to `counts` so that they are as smooth as `probabilities`.
    """

    counts: np.ndarray
    probabilities: np.ndarray
    smoothing: float

    @classmethod
    def as_drawn(cls, table: CountTable, drawn: np.ndarray, shares: np.ndarray) -> "Estimate":
        """Released probabilities as they are, of classes with these shares of the records."""
        totals = np.array([table.n_samples])
        if table.n_rows >= len(shares):  # rows belong to the classes, in order and equal numbers
            totals *= len(shares) / table.n_rows
            totals = totals * np.repeat(shares, len(drawn) // len(shares))
        return cls(totals[:, np.newaxis] * drawn, drawn, 0.0)

    def smoothed(self, extra: Any) -> np.ndarray:
        """Probabilities with more smoothing, in counts by category."""
        if not np.any(extra):
            return self.probabilities
        return smoothed_mean(self.counts, self.smoothing + extra)


def estimates_of(
    tables: Sequence[np.ndarray], totals: Sequence[float] | None, smoothing: float
) -> list[Estimate]:
    """What tables that were read are taken to be, after they are given totals."""
    found: list[Any] = [None] * len(tables)
    for places, counts in stacks_by_shape(tables):
        if totals is not None:
            wanted = np.array([totals[place] for place in places])
            counts *= (wanted / counts.sum(axis=(1, 2)))[:, np.newaxis, np.newaxis]
        shares = smoothed_mean(counts, smoothing)
        for i, place in enumerate(places):
            found[place] = Estimate(counts[i], shares[i], smoothing)
    return found


@dataclass(frozen=True)
class Tally:
    """Exact counts of all batches so far, held only until they are released.

    Attributes
    ----------
    counted : how many records there are, and whose.
    classes : ndarray of shape (n_classes,), the weight of each class.
    contribution : what a record adds to `classes` at most.
    features : the counts of the features.
    leaks : public parameters that were taken from the data.
    bounded : whether all records were held to the bounds that privacy needs.
    weighted : whether records have weights of their own, whose sum nobody knows.
    """

    counted: CountedRows
    classes: np.ndarray
    contribution: ContributionBound
    features: FeatureCounts
    leaks: tuple[str, ...]
    bounded: bool
    weighted: bool

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.counted + other.counted,
            self.classes + other.classes,
            self.contribution | other.contribution,
            self.features + other.features,
            tuple(dict.fromkeys((*self.leaks, *other.leaks))),
            self.bounded and other.bounded,
            self.weighted or other.weighted,
        )


def shares_of(weights: Any) -> np.ndarray:
    return weights / weights.sum()


def read_classes(classes: NoisyTable | None, total: float | None) -> np.ndarray | None:
    """The class counts by themselves, where they were released."""
    return None if classes is None else estimate_counts([classes], total)[0].counts
