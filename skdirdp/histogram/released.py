"""What can be read from a released histogram, its bias and noise being public.

Everything here is post-processing: it sees the release and the mechanism's
parameters, never a count.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, erfcx
from sklearn.isotonic import isotonic_regression

from .._validation import check_real
from ..mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism
from ..mechanisms.base import Mechanism

_BISECTIONS = 45

# The posterior mean of a Gaussian count against the noisy count, in deviations.
_NOISY = np.linspace(-30.0, 12.0, 8401)
_MEANS = _NOISY + np.sqrt(2 / np.pi) / erfcx(-_NOISY / np.sqrt(2))


@dataclass(frozen=True)
class ReleasedHistogram:
    """A released histogram of one feature.

    Attributes
    ----------
    edges : borders of the bins.
    release : what the mechanism drew.
    mechanism : what drew it.
    n_samples : the public number of records.
    ordered : whether neighbouring bins are neighbouring values.
    """

    edges: np.ndarray
    release: np.ndarray
    mechanism: Mechanism
    n_samples: float
    ordered: bool = True

    @cached_property
    def _unbiased(self) -> np.ndarray:
        return unbiased_shares(self.release, self.mechanism, self.n_samples)

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
        return np.diff(self.cdf) if self.ordered else project_to_simplex(self._unbiased)

    def band(
        self, confidence: float, starts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits that hold for the true shares of all bins at once.

        Or, given where they start, of runs of bins.
        """
        size = len(self.release)
        starts = np.arange(size) if starts is None else starts
        sizes = np.diff(starts, append=size)
        shares = np.add.reduceat(self.release, starts)
        return self._limits(shares, sizes, confidence, np.add.reduceat(self.probabilities, starts))

    def cdf_band(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Limits that hold for the true CDF at all edges at once."""
        size = len(self.release)
        below = np.arange(1, size)
        limits = self._limits(np.cumsum(self.release)[:-1], below, confidence, self.cdf[1:-1])
        # A CDF does not fall, so that limits at one edge hold beyond it.
        lower = np.maximum.accumulate(limits[0])
        upper = np.minimum.accumulate(limits[1][::-1])[::-1]
        return np.concatenate([[0.0], lower, [1.0]]), np.concatenate([[0.0], upper, [1.0]])

    def _limits(self, shares, n_bins, confidence, estimate):
        """Limits for the true shares of unions of bins, given their released shares."""
        check_real("confidence", confidence, above=0, below=1)
        mechanism = self.mechanism
        if mechanism.is_exact:
            return estimate, estimate
        if not isinstance(mechanism, DirichletMechanism):
            raise ValueError(
                "error bars are known for mechanism 'dirichlet' only: other releases do not tell "
                f"their noise apart from the counts; got {mechanism.name!r}"
            )
        r, alpha = mechanism.r, mechanism.alpha
        counts = r * self.n_samples
        total = counts + len(self.release) * alpha
        prior = n_bins * alpha
        tail = (1 - confidence) / (2 * max(len(shares), 1))
        # The released share is Beta(a, total - a) with a = r x + prior, and grows with x.
        # Counts that make so large, or so small, a share improbable are excluded.
        lower = _largest(lambda a: betaincc(a, total - a, shares) <= tail, prior, prior + counts)
        upper = _largest(lambda a: betainc(a, total - a, shares) >= tail, prior, prior + counts)
        return (lower - prior) / counts, (upper - prior) / counts


def unbiased_shares(release: np.ndarray, mechanism: Mechanism, n_samples: float) -> np.ndarray:
    """Shares of the records whose noise has mean 0; some may be negative, and they sum to 1."""
    if mechanism.is_exact:
        return release
    if isinstance(mechanism, DirichletMechanism):
        # E Y = (x + s) / (N + d s)
        s = mechanism.smoothing / n_samples
        return release * (1 + len(release) * s) - s
    assert isinstance(mechanism, (GaussianMechanism, LaplaceMechanism))
    # The release is f(noisy count), divided by its sum, which is not known. But the
    # noisy counts add up to the number of records, up to noise that is small beside it.
    noisy = _noisy_gaussian if isinstance(mechanism, GaussianMechanism) else _noisy_laplace
    scale = mechanism.sigma if isinstance(mechanism, GaussianMechanism) else mechanism.scale

    def counts(log_sum):
        return scale * noisy(np.exp(log_sum) * release / scale)

    least = np.log(n_samples) - 1
    while counts(least).sum() > n_samples:
        least -= 1
    most = least + 1
    while counts(most).sum() < n_samples:
        most += 1
    found = counts(brentq(lambda log_sum: counts(log_sum).sum() - n_samples, least, most))
    return found / found.sum()


def _noisy_gaussian(mean: np.ndarray) -> np.ndarray:
    return np.where(mean < _MEANS[-1], np.interp(mean, _MEANS, _NOISY), mean)


def _noisy_laplace(mean: np.ndarray) -> np.ndarray:
    # (2 y + e^-y) / (2 - e^-y) from y = 0 on; every negative count became 1, and
    # stands for -1, the mean of a negative count where there are no records.
    y = np.linspace(0.0, 40.0, 8001)
    decay = np.exp(-y)
    inverse = np.interp(mean, (2 * y + decay) / (2 - decay), y)
    return np.where(mean > 40.0, mean, np.where(mean <= 1.0 + 1e-9, -1.0, inverse))


def project_to_simplex(shares: np.ndarray) -> np.ndarray:
    """The nearest distribution to numbers that sum to 1, of which some are negative."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    threshold = excess[np.flatnonzero(falling > excess)[-1]]
    nearest = np.maximum(shares - threshold, 0.0)
    return nearest / nearest.sum()


def _largest(holds, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where `holds`, true up to some point of [low, high], turns false; else that end."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    everywhere = holds(high)
    end = high.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(everywhere, end, low)
