"""Gaussian and Laplace noise on counts, turned into smooth probabilities.

Noise leaves negative counts and empty rows. Both mechanisms therefore publish the
mean of each count given what was observed, under a flat prior on the non-negative
numbers: it is positive, close to the observation where that is large, and never
smaller than the noise can tell from 0. All of it is post-processing.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, gammaln
from scipy.stats import norm

from .._validation import store_real
from ..accounting.pairs import DominatingPair, GaussianPair, LaplacePair
from ..accounting.worst_case import WorstCase, in_every_direction, replaces
from ..numerics.conservative import quotient_up
from .base import Mechanism, normalise, sums_of_runs
from .noise import Noise
from .reference import entry_quadrature, row_total
from .sampling import check_noise, laplace_cells, noise_grid, normal_cells
from .table import CountTable

_NOISE_NODES = 64
# In deviations: how far a noisy count may be from what is read off its mean, in a table with
# linear interpolation, and the rounding of noise to its grid.
_UNKNOWN = 1e-4
# In scales: the rounding of noise to its grid alone.
_ROUNDING = 2.0**-20
# In scales, for Laplace noise: a step of the table, since means hardly move near 0.
_UNKNOWN_LAPLACE = 0.005


@cache
def _normal_nodes() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.hermite_e.hermegauss(_NOISE_NODES)


@cache
def _exponential_nodes() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.laguerre.laggauss(_NOISE_NODES // 2)


def _gaussian_mean(y: np.ndarray) -> np.ndarray:
    """``y + phi(y) / Phi(y)``: the mean of a count given y, in deviations of the noise."""
    # The ratio through the scaled error function, which does not underflow.
    return y + np.sqrt(2 / np.pi) / erfcx(-y / np.sqrt(2))


def _laplace_mean(y: np.ndarray) -> np.ndarray:
    """The mean of a count given y >= 0, in scales of the noise.

    The integral of ``x exp(-|x - y|)`` over x >= 0, divided by that without x.
    """
    decay = np.exp(-y)
    return (2 * y + decay) / (2 - decay)


@cache
def _gaussian_means() -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts and their means, to be read backwards."""
    noisy = np.linspace(-30.0, 12.0, 8401)
    return noisy, _gaussian_mean(noisy)


@cache
def _laplace_means() -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts and their means, to be read backwards."""
    noisy = np.linspace(0.0, 40.0, 8001)
    return noisy, _laplace_mean(noisy)


def _log_mgf(theta: np.ndarray) -> np.ndarray:
    """The logarithm of E exp(theta Z), for Laplace noise Z of scale 1."""
    return -np.log1p(-(theta**2))


def _log_mgf_of_positive_part(theta: np.ndarray) -> np.ndarray:
    """The logarithm of E exp(theta max(Z, 0)), for Laplace noise Z of scale 1."""
    return np.log1p(theta / (1 - theta) / 2)


def _tail_of_sum(n_terms: np.ndarray, tail: float, log_mgf: Callable) -> np.ndarray:
    """What a sum of so many independent terms passes with probability `tail` at most.

    Chernoff's bound; it holds for every theta, so that a grid of them is as safe as the best.
    """
    theta = np.linspace(0.001, 0.999, 999)
    bounds = (np.multiply.outer(n_terms, log_mgf(theta)) - np.log(tail)) / theta
    return bounds.min(axis=-1)


def _first_reaching(counts: Callable[[float], np.ndarray], total: float, log_sum: float) -> float:
    """The first number from `log_sum` on at which counts, which grow with it, have a total."""
    if counts(log_sum).sum() >= total:
        return log_sum
    end = log_sum + 1
    while counts(end).sum() < total:
        end += 1
    return float(brentq(lambda each: counts(each).sum() - total, log_sum, end))


@dataclass(frozen=True, repr=False)
class _AdditiveMechanism(Mechanism):
    """Noise of a public scale on every count."""

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        check_noise(self._noise_scale, noise_grid(self._noise_scale, at_most=grid))

    @classmethod
    def _draw(cls, requests, generator):
        noisy = [
            request.mechanism.noisy(request.counts, generator, request.grid) for request in requests
        ]
        return (np.concatenate(noisy),)

    def _noisy_counts(self, grid, *drawn):
        return drawn[0]

    def _prepared(self, *drawn):
        estimate = self._posterior_mean(drawn[0]) + self.smoothing
        return (np.maximum(estimate, np.finfo(float).tiny, out=estimate),)

    @staticmethod
    def _probabilities(*prepared):
        return normalise(*prepared)

    def noisy(
        self, counts: np.ndarray, generator: np.random.Generator, grid: float | None = None
    ) -> np.ndarray:
        """Counts with noise, before anything is made of them; some may be negative.

        Noise is rounded to multiples of a grid that counts are multiples of too, so that
        the sum is the ideal sum, rounded.

        Parameters
        ----------
        counts : ndarray
            Checked before.
        generator : Generator
        grid : float, optional
            As for `check_table`.

        Returns
        -------
        ndarray of the same shape
        """
        grid = self.contribution.grid if grid is None else grid
        grid = noise_grid(self._noise_scale, at_most=grid)
        cells = self._cells(self._noise_scale, grid, counts.shape, generator)
        noisy = counts + grid * cells
        # More cells than floats can count would be rounded before the sum is, and what the
        # sum is rounded to would then tell whether the count is an odd multiple of the grid.
        for cell in zip(*np.nonzero(np.abs(cells) > 2**53), strict=True):
            noisy[cell] = float(Fraction(counts[cell]) + int(cells[cell]) * Fraction(grid))
        return noisy

    @property
    @abstractmethod
    def _noise_scale(self) -> float: ...

    #: Exact samples of the noise, as multiples of a grid.
    _cells: ClassVar[Callable[..., np.ndarray]]

    @abstractmethod
    def _posterior_mean(self, noisy: np.ndarray) -> np.ndarray:
        """Means of the counts given the noisy ones."""

    @abstractmethod
    def _from_means(self, means: np.ndarray) -> np.ndarray:
        """The inverse of `_posterior_mean`."""

    @abstractmethod
    def _noise_quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights for the distribution of the noise."""

    def _divergence_as_drawn(self, table: CountTable) -> float:
        """By quadrature over the noise, and to second order in the row's sum."""
        n_categories = table.n_categories
        if n_categories < 2:
            return 0.0
        total = row_total(table)
        z, noise_weights = self._noise_quadrature()

        def estimates(p):
            noisy = total * p[:, np.newaxis] + z
            clean = np.maximum(noisy, 0.0) if self.is_exact else self._posterior_mean(noisy)
            return np.maximum(clean + self.smoothing, np.finfo(float).tiny)

        p, weights = entry_quadrature(n_categories, size_biased=True)
        log_estimate = np.log(estimates(p)) @ noise_weights
        # E log of the row's sum, to second order around its mean.
        q, sum_weights = entry_quadrature(n_categories, size_biased=False)
        cells = estimates(q)
        means = cells @ noise_weights
        variances = (cells - means[:, np.newaxis]) ** 2 @ noise_weights
        mean = n_categories * (sum_weights @ means)
        variance = n_categories * (sum_weights @ variances)
        log_sum = np.log(mean) - variance / (2 * mean**2)
        return float(weights @ (np.log(p) - log_estimate) + log_sum)

    def _unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        # The noisy counts add up to the number of records, up to noise that is small beside it.
        found = self._noisy_with_total(release, n_samples)
        return found / found.sum()

    def _noisy_with_total(self, release: np.ndarray, total: float) -> np.ndarray:
        """The noisy counts that gave a release, were their total this one.

        What estimates were divided by is not known, but each noisy count grows with it.
        """

        def noisy(log_sum):
            return self._from_means(np.exp(log_sum) * release - self.smoothing)

        least = np.log(max(total, self._noise_scale)) - 1
        while noisy(least).sum() > total:
            least -= 1
        most = least + 1
        while noisy(most).sum() < total:
            most += 1
        return noisy(brentq(lambda log_sum: noisy(log_sum).sum() - total, least, most))

    def _limits_from_counts(self, counts, runs, n_samples, below, above):
        """Limits for runs from those of noisy counts, and the reach of noise in so many cells.

        Of a run and all that is not in it, the smaller has less noise, and tells of both.
        """
        n_cells = runs[1] - runs[0]
        others = len(counts[0]) - n_cells
        low, high = (sums_of_runs(each, *runs) for each in counts)
        rest_low, rest_high = (
            each.sum() - sums for each, sums in zip(counts, (low, high), strict=True)
        )
        small = n_cells <= others
        lower = np.where(small, low - below(n_cells), n_samples - rest_high - above(others))
        upper = np.where(small, high + above(n_cells), n_samples - rest_low + below(others))
        return np.clip(lower / n_samples, 0.0, 1.0), np.clip(upper / n_samples, 0.0, 1.0)

    @abstractmethod
    def _reach(
        self, weight: np.ndarray, n_cells: np.ndarray, rest: np.ndarray, others: np.ndarray, tail
    ) -> np.ndarray:
        """What a weighted sum of noise passes, on one side, with probability `tail` at most.

        So many cells have one weight, and so many others another; both are from 0 to 1.
        """

    def _limits_with_total(self, noisy, first, stop, n_samples, confidence):
        # What the noisy counts lack of the total is spread over all cells. The noise of a run
        # then counts by the part that is not in it, and that of all others by the part that is.
        size, n_cells = len(noisy), stop - first
        part = n_cells / size
        found = sums_of_runs(noisy, first, stop) + part * (n_samples - noisy.sum())
        tail = (1 - confidence) / (2 * len(first))
        off = self._reach(1 - part, n_cells, part, size - n_cells, tail)
        return (
            np.clip((found - off) / n_samples, 0.0, 1.0),
            np.clip((found + off) / n_samples, 0.0, 1.0),
        )

    def _count_limits(self, sums, n_cells, tail):
        ones = np.ones(len(sums))
        off = self._reach(ones, n_cells, 0 * ones, 0 * n_cells, tail)
        return np.maximum(sums - off, 0.0), np.maximum(sums + off, 0.0)


@dataclass(frozen=True, repr=False)
class GaussianMechanism(_AdditiveMechanism):
    """Gaussian noise on counts, then smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count; 0 for none.
    smoothing : float, default=0
        Added to every estimated count.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell.

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> round(GaussianMechanism(sigma=10.0).rdp(2.0), 6)
    0.02
    """

    name: ClassVar[str] = "gaussian"
    _cells = staticmethod(normal_cells)

    sigma: float
    smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "sigma", at_least=0)
        store_real(self, "smoothing", at_least=0)

    @property
    def is_exact(self) -> bool:
        return self.sigma == 0

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        mu = np.sqrt(self.contribution.squared_norm(self.adjacency)) / self.sigma
        pairs: tuple[tuple[DominatingPair, int], ...] = ((GaussianPair(float(mu)), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    @property
    def _noise_scale(self) -> float:
        return self.sigma

    @property
    def noise(self) -> Noise:
        return Noise(self.sigma**2)

    def _posterior_mean(self, noisy):
        return self.sigma * _gaussian_mean(noisy / self.sigma)

    def _from_means(self, means):
        noisy, known = _gaussian_means()
        z = means / self.sigma
        return self.sigma * np.where(z < known[-1], np.interp(z, known, noisy), z)

    def _limits(self, release, first, stop, n_samples, confidence):
        """By the union bound over the runs, and the total of the noisy counts.

        A release tells the noisy counts up to one number, what they were divided by, with
        which all of them grow. Their total is the number of records and noise of deviation
        ``sigma sqrt(n_categories)``. Within its limits lie those of each noisy count, and of
        runs; a run has noise of its own, ``sigma sqrt(n_cells)``.
        """
        z = norm.isf((1 - confidence) / (2 * (len(first) + 1)))

        def reach(cells):
            return self.sigma * (np.sqrt(cells) * z + cells * _UNKNOWN)

        counts = [
            self._noisy_with_total(release, n_samples + sign * reach(len(release)))
            for sign in (-1, 1)
        ]
        return self._limits_from_counts(counts, (first, stop), n_samples, reach, reach)

    def _reach(self, weight, n_cells, rest, others, tail):
        deviations = np.sqrt(n_cells * weight**2 + others * rest**2)
        rounding = (n_cells * weight + others * rest) * _ROUNDING
        return self.sigma * (norm.isf(tail) * deviations + rounding)

    def _with_precision(self, precision: float) -> "GaussianMechanism":
        return replace(self, sigma=self.sigma / precision)

    def _noise_quadrature(self):
        x, weights = _normal_nodes()
        return self.sigma * x, weights / weights.sum()


@dataclass(frozen=True, repr=False)
class LaplaceMechanism(_AdditiveMechanism):
    """Laplace noise on counts, then smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    scale : float
        Scale b of the noise on each count, of density ``exp(-|z| / b) / (2 b)``; 0 for none.
    smoothing : float, default=0
        Added to every estimated count.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell.

    Examples
    --------
    >>> from skdirdp.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(scale=2.0).delta(1.0)
    0.0
    """

    name: ClassVar[str] = "laplace"
    _cells = staticmethod(laplace_cells)

    scale: float
    smoothing: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "scale", at_least=0)
        store_real(self, "smoothing", at_least=0)

    @property
    def is_exact(self) -> bool:
        return self.scale == 0

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # A record that fills its cells is the worst. For two cells with shifts a <= b
        # (in scales) and x = (a + b - epsilon) / 2, delta = 1 - e^-x (1 + min(x, a) / 2)
        # for 0 <= epsilon <= a + b, which grows as the smaller shift gives to the larger;
        # domination survives composition, so transfer by transfer all cells follow.
        records = 2 if replaces(self.adjacency) else 1
        pairs: tuple[tuple[DominatingPair, int], ...] = tuple(
            (LaplacePair(quotient_up(entry, self.scale)), records * count)
            for entry, count in self.contribution.entries
        )
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    @property
    def _noise_scale(self) -> float:
        return self.scale

    @property
    def noise(self) -> Noise:
        return Noise(2 * self.scale**2, is_laplace=True)

    def _posterior_mean(self, noisy):
        return self.scale * _laplace_mean(np.maximum(noisy, 0.0) / self.scale)

    def _from_means(self, means):
        noisy, known = _laplace_means()
        z = means / self.scale
        inverse = np.interp(z, known, noisy)
        # Every negative count became 1, and stands for -1, the mean of a negative count
        # where there are no records.
        return self.scale * np.where(z > noisy[-1], z, np.where(z <= 1.0 + 1e-9, -1.0, inverse))

    def _limits(self, release, first, stop, n_samples, confidence):
        """By the union bound over the runs, and what the noisy counts were divided by.

        Noisy counts below 0 are all published as the least estimate there is. So the least
        entry gives the least number that estimates can have been divided by, and the number
        itself where several cells share it: that counts above 0 meet so often has a probability
        that is set aside. Where they do not, either one noisy count is negative and it is that
        number too, or none is, and their total is the number of records and its noise.

        With negative ones as 0, a noisy count differs from the count x by max(noise, -x),
        which is between the noise and its positive part.
        """
        size = len(release)
        tail = (1 - confidence) / (2 * (len(first) + 2))
        tied = int(np.sum(release == release.min()))
        grid = noise_grid(self.scale, at_most=self.contribution.grid)
        log_chance = gammaln(size + 1) - gammaln(tied + 1) - gammaln(size - tied + 1)
        log_chance += (tied - 1) * np.log(grid / (2 * self.scale))

        def counts(log_sum):
            estimates = np.exp(log_sum) * release - self.smoothing
            return np.maximum(self._from_means(estimates), 0.0)

        def above(cells):
            return self.scale * (_tail_of_sum(cells, tail, _log_mgf) + cells * _UNKNOWN_LAPLACE)

        def below(cells):
            reach = _tail_of_sum(cells, tail, _log_mgf_of_positive_part)
            return self.scale * (reach + cells * _UNKNOWN_LAPLACE)

        least = most = float(np.log((self.scale + self.smoothing) / release.min()))
        if log_chance > np.log(tail):
            reach = above(np.array([size]))[0]
            least = _first_reaching(counts, n_samples - reach, least)
            most = _first_reaching(counts, n_samples + reach, least)
        found = [counts(least), counts(most)]
        return self._limits_from_counts(found, (first, stop), n_samples, below, above)

    def _reach(self, weight, n_cells, rest, others, tail):
        # Chernoff's bound, as for `_tail_of_sum`; no weighted theta passes 1.
        largest = np.maximum(weight, rest)
        first, second = weight / largest, rest / largest
        least = np.full(len(first), np.inf)
        for theta in np.linspace(0.005, 0.995, 199):
            grown = n_cells * _log_mgf(theta * first) + others * _log_mgf(theta * second)
            np.minimum(least, (grown - np.log(tail)) / theta, out=least)
        rounding = (n_cells * weight + others * rest) * _ROUNDING
        return self.scale * (largest * least + rounding)

    def _with_precision(self, precision: float) -> "LaplaceMechanism":
        return replace(self, scale=self.scale / precision)

    def _noise_quadrature(self):
        x, weights = _exponential_nodes()
        return self.scale * np.concatenate([-x, x]), np.concatenate([weights, weights]) / 2
