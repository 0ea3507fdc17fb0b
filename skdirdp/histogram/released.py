"""Released histograms, and estimates and limits that are read from them.

Everything here is post-processing: it sees the release and the mechanism's
parameters, never a count. A share is a proportion of the records throughout.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.isotonic import isotonic_regression

from ..mechanisms.base import Mechanism
from ..postprocessing import NoisyTable, estimate_histogram


@dataclass(frozen=True)
class Histogram(ABC):
    """A released histogram of one feature.

    Attributes
    ----------
    edges : borders of the bins.
    release : what the mechanism drew.
    mechanism : its parameters are public.
    n_samples : the public number of records.
    ordered : whether neighbouring bins are neighbouring values.
    """

    edges: np.ndarray
    release: np.ndarray
    mechanism: Mechanism
    n_samples: float | None
    ordered: bool = True

    @property
    @abstractmethod
    def _unbiased(self) -> np.ndarray:
        """Shares of the bins with noise of mean 0; they sum to 1."""

    @abstractmethod
    def _unordered(self) -> np.ndarray:
        """The estimated shares of bins that no order connects."""

    @abstractmethod
    def _limits(
        self, first: np.ndarray, stop: np.ndarray, confidence: float, estimate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits for the true shares of runs of bins, of which estimates are known."""

    @cached_property
    def cdf(self) -> np.ndarray:
        """The estimated share of records below each edge; it never falls."""
        if not self.ordered:
            return np.concatenate([[0.0], np.cumsum(self.probabilities)[:-1], [1.0]])
        # Isotonic regression moves no further from the true shares, in the largest
        # difference, than what it is given.
        inner = isotonic_regression(np.cumsum(self._unbiased)[:-1], y_min=0.0, y_max=1.0)
        return np.concatenate([[0.0], inner, [1.0]])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The estimated share of records in each bin."""
        return np.diff(self.cdf) if self.ordered else self._unordered()

    def means(self, edges: np.ndarray) -> np.ndarray:
        """The estimated mean of the records in each of some wider bins.

        The centre of a bin in which none are estimated to be.
        """
        points = np.union1d(self.edges, edges)
        shares = np.diff(np.interp(points, self.edges, self.cdf))
        middles = points[:-1] / 2 + points[1:] / 2
        bins = np.clip(np.searchsorted(edges, middles) - 1, 0, len(edges) - 2)
        total = np.bincount(bins, shares, len(edges) - 1)
        # Weights first, which sum to 1: values may be as large as floats are.
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(bins, shares / total[bins] * middles, len(edges) - 1)
        centres = edges[:-1] / 2 + edges[1:] / 2
        inside = np.clip(means, edges[:-1], np.nextafter(edges[1:], edges[:-1]))
        return np.where(total > 0, inside, centres)

    def band(
        self, confidence: float, starts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits that hold for the true shares of all bins at once.

        Or, given where they start, of runs of bins.
        """
        size = len(self.release)
        starts = np.arange(size) if starts is None else starts
        estimate = np.add.reduceat(self.probabilities, starts)
        return self._limits(starts, np.append(starts[1:], size), confidence, estimate)

    def cdf_band(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Limits that hold for the true CDF at all edges at once."""
        below = np.arange(1, len(self.release))
        limits = self._limits(np.zeros_like(below), below, confidence, self.cdf[1:-1])
        # A CDF does not fall, so that limits at one edge hold beyond it.
        lower = np.maximum.accumulate(limits[0])
        upper = np.minimum.accumulate(limits[1][::-1])[::-1]
        return np.concatenate([[0.0], lower, [1.0]]), np.concatenate([[0.0], upper, [1.0]])


@dataclass(frozen=True)
class ReleasedHistogram(Histogram):
    """A histogram that was released as probabilities."""

    n_samples: float

    @cached_property
    def _unbiased(self) -> np.ndarray:
        return self.mechanism.unbiased(self.release, self.n_samples)

    def _unordered(self) -> np.ndarray:
        return project_to_simplex(self._unbiased)

    def _limits(self, first, stop, confidence, estimate):
        limits = self.mechanism.limits(
            self.release, first, stop, n_samples=self.n_samples, confidence=confidence
        )
        # Without noise the estimate is the truth, and no rounding error is to look like some.
        return (estimate, estimate) if self.mechanism.is_exact else limits


@dataclass(frozen=True)
class NoisyHistogram(Histogram):
    """A histogram that was released as noisy counts; their number may not be public.

    Bins in an order tell of each other: errors of single ones cancel in the sums that a CDF
    consists of, if none is moved. So the CDF is that of the noisy counts themselves. Shrinking
    every bin towards an equal share, as is best where nothing connects them, would make quantiles
    worse.
    """

    @cached_property
    def _unbiased(self) -> np.ndarray:
        noisy, size, total = self.release, len(self.release), self.n_samples
        if total is None:
            # Of records that nothing is seen of, the noise is all that can be told.
            variance = size * self.mechanism.noise.variance_at(max(noisy.mean(), 0.0))
            total = max(noisy.sum(), np.sqrt(variance))
        # What is missing is missing anywhere.
        return (noisy + (total - noisy.sum()) / size) / total

    def _unordered(self) -> np.ndarray:
        noisy = NoisyTable(self.release, self.mechanism.noise, ("bin",))
        return estimate_histogram(noisy, self.n_samples)

    def _limits(self, first, stop, confidence, estimate):
        return self.mechanism.limits_from_noisy(
            self.release, first, stop, n_samples=self.n_samples, confidence=confidence
        )


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """The nearest distribution to numbers that sum to 1, of which some are negative."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    threshold = excess[np.flatnonzero(falling > excess)[-1]]
    nearest = np.maximum(shares - threshold, 0.0)
    return nearest / nearest.sum()
