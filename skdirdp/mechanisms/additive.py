"""Gaussian and Laplace noise on counts, and probabilities from noisy counts.

Noisy counts may be negative, and rows may sum to 0 or less. Both mechanisms therefore publish
the posterior mean of each count under a flat prior on the non-negative numbers.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, gammaln
from scipy.stats import norm

from .._random import NoiseGenerator
from .._validation import NON_NEGATIVE, OPEN_UNIT_INTERVAL, store_reals
from ..accounting.pairs import DominatingPair, GaussianPair, LaplacePair
from ..accounting.worst_case import WorstCase, in_every_direction
from ..numerics.conservative import quotient_up
from ..numerics.rows import is_whole
from .base import Limits, Mechanism, normalise, sums_of_runs
from .sampling.distributions import laplace_cells, normal_cells
from .sampling.grids import check_noise, noise_grid
from .tables import CountTable, Noise, changed_records, entry_quadrature

_N_NOISE_NODES = 64
# Bounds on the error of a noisy count, in standard deviations (Gaussian) or scales (Laplace) of the
# noise. Inversion errors include linear interpolation in the table of means and, for Laplace noise,
# a whole step of the table, because means hardly depend on counts near 0.
_ROUNDING_ERROR = 2.0**-20
_GAUSSIAN_INVERSION_ERROR = 1e-4
_LAPLACE_INVERSION_ERROR = 0.005


def gaussian_mean(y: np.ndarray) -> np.ndarray:
    """Return ``y + phi(y) / Phi(y)``: the mean of a count given y, for noise of variance 1."""
    # The scaled error function does not underflow.
    return y + np.sqrt(2 / np.pi) / erfcx(-y / np.sqrt(2))


def _log_mgf(theta: np.ndarray) -> np.ndarray:
    """Return log E exp(theta Z) for Laplace noise Z of scale 1."""
    return -np.log1p(-(theta**2))


def _log_mgf_of_positive_part(theta: np.ndarray) -> np.ndarray:
    """Return log E exp(theta max(Z, 0)) for Laplace noise Z of scale 1."""
    return np.log1p(theta / (1 - theta) / 2)


def _tail_of_sum(n_terms: np.ndarray, tail: float, log_mgf: Callable) -> np.ndarray:
    """Return bounds that sums of independent terms exceed with probability at most `tail`."""
    # Chernoff's bound holds for every theta, so the best theta of a grid is valid.
    theta = np.linspace(0.001, 0.999, 999)
    bounds = (np.multiply.outer(n_terms, log_mgf(theta)) - np.log(tail)) / theta
    return bounds.min(axis=-1)


def _first_reaching(counts: Callable[[float], np.ndarray], total: float, log_sum: float) -> float:
    """Return the smallest number, at least `log_sum`, at which increasing counts reach a total."""
    if counts(log_sum).sum() >= total:
        return log_sum
    end = log_sum + 1
    while counts(end).sum() < total:
        end += 1
    return float(brentq(lambda x: counts(x).sum() - total, log_sum, end))


@dataclass(frozen=True, repr=False)
class _AdditiveMechanism(Mechanism):
    """Noise of a public scale on every count."""

    _scale_name: ClassVar[str]  # name of the parameter that is the scale of the noise
    _cells: ClassVar[Callable[..., np.ndarray]]  # sampler of the noise, in multiples of a grid
    _tabulated_noisy: ClassVar[np.ndarray]  # noisy counts at which `_mean` is tabulated

    def __post_init__(self):
        super().__post_init__()
        store_reals(self, **{self._scale_name: NON_NEGATIVE}, smoothing=NON_NEGATIVE)

    @property
    def _noise_scale(self) -> float:
        return getattr(self, self._scale_name)

    @property
    def is_exact(self) -> bool:
        return self._noise_scale == 0

    def _with_precision(self, precision: float) -> Any:
        changed: dict[str, Any] = {self._scale_name: self._noise_scale / precision}
        return replace(self, **changed)

    @staticmethod
    @abstractmethod
    def _nodes() -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights for noise of scale 1."""

    @staticmethod
    @abstractmethod
    def _mean(y: np.ndarray) -> np.ndarray:
        """Return the mean of a count given a noisy one, for noise of scale 1."""

    @classmethod
    @cache
    def _tabulated_means(cls) -> np.ndarray:
        return cls._mean(cls._tabulated_noisy)

    @abstractmethod
    def _from_means(self, means: np.ndarray) -> np.ndarray:
        """Invert `_posterior_mean`."""

    @abstractmethod
    def _reach(
        self,
        weight: np.ndarray,
        n_cells: np.ndarray,
        other_weight: np.ndarray,
        n_others: np.ndarray,
        tail,
    ) -> np.ndarray:
        """Return a bound that weighted sums of noise exceed with probability at most `tail`.

        `n_cells` cells have weight `weight`, and `n_others` cells have weight `other_weight`.
        """

    def _posterior_mean(self, noisy: np.ndarray) -> np.ndarray:
        return self._noise_scale * self._mean(noisy / self._noise_scale)

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        check_noise(self._noise_scale, noise_grid(self._noise_scale, max_grid=grid))

    @classmethod
    def _draw(cls, requests, generator):
        noisy = [
            mechanism.noisy(counts, generator, grid) for mechanism, counts, grid, _ in requests
        ]
        return (np.concatenate(noisy),)

    def _noisy_counts(self, grid, *drawn):
        return drawn[0]

    def _prepare(self, *drawn):
        estimate = self._posterior_mean(drawn[0]) + self.smoothing
        return (np.maximum(estimate, np.finfo(float).tiny, out=estimate),)

    @staticmethod
    def _probabilities(*prepared):
        return normalise(*prepared)

    def noisy(
        self, counts: np.ndarray, generator: NoiseGenerator, grid: float | None = None
    ) -> np.ndarray:
        """Add noise to counts that were checked; some results may be negative.

        Parameters
        ----------
        counts : ndarray
            Counts that passed `check_table`.
        generator : Generator
            Source of the noise.
        grid : float, optional
            As in `check_table`.
        """
        grid = self.contribution.grid if grid is None else grid
        if not is_whole(counts / grid):  # noise on the grid would not hide the remainders
            raise AssertionError("noise was about to be added to counts that are not on its grid")
        # The grid of the noise divides the counts, so the result is the ideal sum, rounded.
        grid = noise_grid(self._noise_scale, max_grid=grid)
        cells = self._cells(self._noise_scale, grid, counts.shape, generator)
        noisy = counts + grid * cells
        # Multiples above 2^53 would be rounded before the sum is. The rounding of the sum would
        # then reveal whether the count is an odd multiple of the grid.
        for cell in zip(*np.nonzero(np.abs(cells) > 2**53), strict=True):
            noisy[cell] = float(Fraction(counts[cell]) + int(cells[cell]) * Fraction(grid))
        return noisy

    def _divergence_as_drawn(self, table: CountTable) -> float:
        """Integrate over the noise, to second order in the sum of the row."""
        n_categories = table.n_categories
        if n_categories < 2:
            return 0.0
        total = table.row_total
        z, noise_weights = self._nodes()
        z = self._noise_scale * z

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
        # The noisy counts sum to the number of records, up to relatively small noise.
        noisy = self._noisy_with_total(release, n_samples)
        return noisy / noisy.sum()

    def _noisy_with_total(self, release: np.ndarray, total: float) -> np.ndarray:
        """Return the noisy counts of a release, given their total.

        The divisor of the estimates is unknown, but each noisy count increases with it.
        """

        def noisy(log_sum):
            return self._from_means(np.exp(log_sum) * release - self.smoothing)

        least = np.log(max(total, self._noise_scale)) - 1
        while noisy(least).sum() > total:
            least -= 1
        return noisy(_first_reaching(noisy, total, least))

    def _limits_from_counts(self, counts, runs, n_samples, below, above) -> Limits:
        """Return limits for runs, from limits of noisy counts and the reach of the noise."""
        # A run and the cells outside of it sum to a public number. Limits for the smaller of the
        # two have less noise, and give limits for both.
        n_cells = runs[1] - runs[0]
        n_others = len(counts[0]) - n_cells
        low, high = (sums_of_runs(each, *runs) for each in counts)
        others_low, others_high = counts[0].sum() - low, counts[1].sum() - high
        small = n_cells <= n_others
        lower = np.where(small, low - below(n_cells), n_samples - others_high - above(n_others))
        upper = np.where(small, high + above(n_cells), n_samples - others_low + below(n_others))
        return np.clip(lower / n_samples, 0.0, 1.0), np.clip(upper / n_samples, 0.0, 1.0)

    def _limits_with_total(self, noisy, first, stop, n_samples, confidence):
        # The difference between the public total and the noisy one is spread over all cells. The
        # noise inside a run then has the weight of the cells outside, and vice versa.
        size, n_cells = len(noisy), stop - first
        part = n_cells / size
        estimates = sums_of_runs(noisy, first, stop) + part * (n_samples - noisy.sum())
        tail = (1 - confidence) / (2 * len(first))
        margin = self._reach(1 - part, n_cells, part, size - n_cells, tail)
        lower, upper = (estimates - margin) / n_samples, (estimates + margin) / n_samples
        return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)

    def _count_limits(self, sums, n_cells, tail):
        ones = np.ones(len(sums))
        margin = self._reach(ones, n_cells, 0 * ones, 0 * n_cells, tail)
        return np.maximum(sums - margin, 0.0), np.maximum(sums + margin, 0.0)


@dataclass(frozen=True, repr=False)
class GaussianMechanism(_AdditiveMechanism):
    """Gaussian noise on counts, published as smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on each count. 0 for no noise.
    smoothing : float, default=0
        Number that is added to every estimated count.
    adjacency, max_count, max_total
        As in `Mechanism`.

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism
    >>> round(GaussianMechanism(sigma=10.0).rdp(2.0), 6)
    0.02
    """

    name: ClassVar[str] = "gaussian"
    _scale_name = "sigma"
    _cells = staticmethod(normal_cells)
    _mean = staticmethod(gaussian_mean)
    _tabulated_noisy = np.linspace(-30.0, 12.0, 8401)

    sigma: float
    smoothing: float = 0.0

    @property
    def noise(self) -> Noise:
        return Noise(self.sigma**2)

    @staticmethod
    @cache
    def _nodes():
        x, weights = np.polynomial.hermite_e.hermegauss(_N_NOISE_NODES)
        return x, weights / weights.sum()

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        mu = np.sqrt(self.contribution.squared_norm(self.adjacency)) / self.sigma
        case = WorstCase.from_pair(GaussianPair(float(mu)))
        return in_every_direction(self.adjacency, case)

    def _from_means(self, means):
        known, z = self._tabulated_means(), means / self.sigma
        inverse = np.interp(z, known, self._tabulated_noisy)
        return self.sigma * np.where(z < known[-1], inverse, z)

    def _limits(self, release, first, stop, n_samples, confidence):
        """Return limits by a union bound over the runs and the total of the noisy counts.

        A release determines the noisy counts up to the divisor, with which all of them increase.
        Limits of their total therefore give limits of each noisy count and of runs.
        """
        z = norm.isf((1 - confidence) / (2 * (len(first) + 1)))

        def reach(cells):
            return self.sigma * (np.sqrt(cells) * z + cells * _GAUSSIAN_INVERSION_ERROR)

        margin = reach(len(release))
        counts = [self._noisy_with_total(release, n_samples + each) for each in (-margin, margin)]
        return self._limits_from_counts(counts, (first, stop), n_samples, reach, reach)

    def _reach(self, weight, n_cells, other_weight, n_others, tail):
        std = np.sqrt(n_cells * weight**2 + n_others * other_weight**2)
        rounding = (n_cells * weight + n_others * other_weight) * _ROUNDING_ERROR
        return self.sigma * (norm.isf(tail) * std + rounding)


@dataclass(frozen=True, repr=False)
class LaplaceMechanism(_AdditiveMechanism):
    """Laplace noise on counts, published as smooth probabilities (docs/theory.md, section 5).

    Parameters
    ----------
    scale : float
        Scale b of the noise on each count, with density ``exp(-|z| / b) / (2 b)``. 0 for no
        noise.
    smoothing : float, default=0
        Number that is added to every estimated count.
    adjacency, max_count, max_total
        As in `Mechanism`.

    Examples
    --------
    >>> from skdirdp.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(scale=2.0).delta(1.0)
    0.0
    """

    name: ClassVar[str] = "laplace"
    _scale_name = "scale"
    _cells = staticmethod(laplace_cells)
    _tabulated_noisy = np.linspace(0.0, 40.0, 8001)

    scale: float
    smoothing: float = 0.0

    @property
    def noise(self) -> Noise:
        return Noise(2 * self.scale**2, is_laplace=True)

    @staticmethod
    @cache
    def _nodes():
        x, weights = np.polynomial.laguerre.laggauss(_N_NOISE_NODES // 2)
        return np.concatenate([-x, x]), np.concatenate([weights, weights]) / 2

    @staticmethod
    def _mean(y):
        # The integral of x exp(-|x - y|) over x >= 0, divided by the integral without x.
        y = np.maximum(y, 0.0)
        decay = np.exp(-y)
        return (2 * y + decay) / (2 - decay)

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # The worst record fills its cells. For two cells with shifts a <= b (in scales) and
        # x = (a + b - epsilon) / 2, delta = 1 - e^-x (1 + min(x, a) / 2) for
        # 0 <= epsilon <= a + b. It increases if part of the smaller shift moves to the
        # larger one.
        # Composition preserves domination, so this extends to any number of cells.
        records = changed_records(self.adjacency)
        pairs: tuple[tuple[DominatingPair, int], ...] = tuple(
            (LaplacePair(quotient_up(entry, self.scale)), records * count)
            for entry, count in self.contribution.entries
        )
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    def _from_means(self, means):
        noisy, z = self._tabulated_noisy, means / self.scale
        inverse = np.interp(z, self._tabulated_means(), noisy)
        # All negative counts have the mean 1. They are replaced by -1, the mean of a negative
        # noisy count in an empty cell.
        return self.scale * np.where(z > noisy[-1], z, np.where(z <= 1.0 + 1e-9, -1.0, inverse))

    def _limits(self, release, first, stop, n_samples, confidence):
        """Return limits by a union bound over the runs and the divisor of the noisy counts.

        All negative noisy counts are published as the smallest estimate. The smallest entry
        therefore gives the smallest possible divisor. It is the divisor itself if several cells
        share this entry: the probability that as many positive counts are equal is part of the
        union bound. Otherwise either one noisy count is negative, and the smallest entry gives
        the divisor too, or none is, and their total is the number of records plus noise.

        With negative ones set to 0, a noisy count differs from the count x by max(noise, -x),
        which lies between the noise and its positive part.
        """
        size = len(release)
        tail = (1 - confidence) / (2 * (len(first) + 2))
        tied = int(np.sum(release == release.min()))
        grid = noise_grid(self.scale, max_grid=self.contribution.grid)
        log_probability = gammaln(size + 1) - gammaln(tied + 1) - gammaln(size - tied + 1)
        log_probability += (tied - 1) * np.log(grid / (2 * self.scale))

        def counts(log_sum):
            estimates = np.exp(log_sum) * release - self.smoothing
            return np.maximum(self._from_means(estimates), 0.0)

        def reach(log_mgf, cells):
            return self.scale * (
                _tail_of_sum(cells, tail, log_mgf) + cells * _LAPLACE_INVERSION_ERROR
            )

        above, below = partial(reach, _log_mgf), partial(reach, _log_mgf_of_positive_part)
        least = most = float(np.log((self.scale + self.smoothing) / release.min()))
        if log_probability > np.log(tail):
            margin = above(np.array([size]))[0]
            least = _first_reaching(counts, n_samples - margin, least)
            most = _first_reaching(counts, n_samples + margin, least)
        extremes = [counts(least), counts(most)]
        return self._limits_from_counts(extremes, (first, stop), n_samples, below, above)

    def _reach(self, weight, n_cells, other_weight, n_others, tail):
        # Chernoff's bound as in `_tail_of_sum`; no weighted theta exceeds 1.
        largest = np.maximum(weight, other_weight)
        first, second = weight / largest, other_weight / largest
        least = np.full(len(first), np.inf)
        for theta in np.linspace(0.005, 0.995, 199):
            grown = n_cells * _log_mgf(theta * first) + n_others * _log_mgf(theta * second)
            np.minimum(least, (grown - np.log(tail)) / theta, out=least)
        rounding = (n_cells * weight + n_others * other_weight) * _ROUNDING_ERROR
        return self.scale * (largest * least + rounding)


@dataclass(frozen=True, repr=False)
class SelectionMechanism(GaussianMechanism):
    """Gaussian noise on the counts of names, published if they exceed a threshold.

    `failure` is a bound on the probability that any name that only one record has is published.
    The noise hides names that several records have (docs/theory.md, section 5.1). Counts are whole
    numbers. `smoothing` is not used.
    """

    name: ClassVar[str] = "selection"

    failure: float = 1e-6

    def __post_init__(self):
        super().__post_init__()
        store_reals(self, failure=OPEN_UNIT_INTERVAL)

    @property
    def threshold(self) -> float:
        """Smallest noisy count of a name that is published."""
        if self.is_exact:
            return 0.0
        # Rounding to the grid can increase the noise by one step.
        step = noise_grid(self.sigma, max_grid=self.contribution.grid)
        # Counts are whole numbers, so a record has at most as many names as its total.
        names = max(1.0, self.contribution.total("add_remove"))
        # All names of a record stay hidden with probability at least (1 - p)^names.
        p = -np.expm1(np.log1p(-self.failure) / names) * (1 - 1e-9)
        return float((self.contribution.largest + self.sigma * norm.isf(p) + step) * (1 + 1e-9))

    def _noisy_counts(self, grid, *drawn):
        return np.where(drawn[0] >= self.threshold, drawn[0], 0.0)

    def _prepare(self, *drawn):
        return (self._noisy_counts(0.0, *drawn),)

    @staticmethod
    def _probabilities(*prepared):
        return prepared[0]

    def _released_without_noise(self, counts):
        return counts

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        return {
            direction: replace(case, failure=self.failure)
            for direction, case in super()._noisy_worst_cases().items()
        }

    def _limits(self, release, first, stop, n_samples, confidence):
        raise ValueError("limits are not available for a selection, which omits names")
