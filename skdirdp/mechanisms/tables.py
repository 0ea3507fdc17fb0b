"""Public description of count tables: size, bounds on contributions, noise, expected divergence.

Calibration never sees the data. It compares noise levels by their expected divergence under a
reference distribution: a row of a table with d categories is ``n p`` with p drawn from
Dirichlet(1/2) and ``n = N / sqrt(rows)``. Sums of f(p_i) are expectations over the marginal
distribution of one entry, Beta(1/2, (d-1)/2). Sums of p_i f(p_i) are expectations over the
size-biased distribution, Beta(3/2, (d-1)/2).
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from .._validation import LARGEST, NON_NEGATIVE, POSITIVE, check_integer, store_reals
from ..accounting.worst_case import PERSON_RELATIONS, replaces
from ..numerics.conservative import product_up

# Above this, doubles do not distinguish a number of cells from the next one.
_MAX_CELLS = 2.0**53
# Contributions that are not whole numbers have this many bits below their bound.
_GRID_BITS = 20

_N_REFERENCE_NODES = 96
# Numbers of quadrature nodes for an entry, for the noise, and for the count given both.
_N_ENTRY_NODES, _N_NOISE_NODES, _N_POSTERIOR_NODES = 40, 12, 28
# Noise beyond this many standard deviations is ignored, and so are entries with at most this tail
# probability.
_MAX_Z = 7.0
_TAIL_PROBABILITY = 1e-10


@dataclass(frozen=True)
class ContributionBound:
    """Public bounds on the entries of one record in a table.

    `max_count` bounds each entry. Without `max_total` a record contributes to a single cell.
    Entries are multiples of `grid`, a power of two of at most 1. Sums of multiples are exact in
    any order, as long as they are below 2^53 times the grid. Removing a record therefore changes
    the sums by exactly its contribution.
    """

    max_count: float = 1.0
    max_total: float | None = None
    grid: float = 0.0

    def __post_init__(self):
        # The squares of the bounds must be finite floats too.
        limits = {"above": 0, "at_least": 1 / LARGEST, "at_most": LARGEST}
        store_reals(self, max_count=limits)
        if self.max_total is not None:
            store_reals(self, max_total=limits)
            if self.max_total / self.max_count > _MAX_CELLS:
                raise ValueError(
                    f"max_total must be at most {_MAX_CELLS:g} times max_count; "
                    f"got max_total={self.max_total} and max_count={self.max_count}"
                )
        if self.grid == 0:
            default = math.ldexp(1.0, math.frexp(self.largest)[1] - 1 - _GRID_BITS)
            object.__setattr__(self, "grid", min(1.0, default))

    def __or__(self, other: "ContributionBound") -> "ContributionBound":
        """Return a bound that holds for all records that satisfy either bound."""
        if (self.max_total is None) != (other.max_total is None):
            raise ValueError("max_total must be given in both bounds, or in neither")
        total = None if self.max_total is None else max(self.max_total, other.max_total or 0.0)
        grid = min(self.grid, other.grid)
        return ContributionBound(max(self.max_count, other.max_count), total, grid)

    def for_person(self, max_rows: int) -> "ContributionBound":
        """Return the bound on the sum of `max_rows` records, on the grid of the records."""
        if max_rows == 1:
            return self
        count = product_up(self.max_count, max_rows)
        total = product_up(self.max_count if self.max_total is None else self.max_total, max_rows)
        if max(count, total) > LARGEST:
            raise ValueError(f"max_rows times max_count and max_total must be at most {LARGEST:g}")
        return ContributionBound(count, total, self.grid)

    @property
    def largest(self) -> float:
        """The largest possible entry."""
        return self.max_count if self.max_total is None else min(self.max_count, self.max_total)

    @property
    def entries(self) -> tuple[tuple[float, int], ...]:
        """The worst record, as (entry, number of cells): full cells, and one with the remainder."""
        if self.max_total is None:
            return ((self.largest, 1),)
        return _fill_cells(self.largest, self.max_total)

    def squared_norm(self, adjacency: str) -> float:
        """Return the largest squared l2 distance between the tables of neighbours."""
        per_record = sum(count * entry**2 for entry, count in self.entries)
        return changed_records(adjacency) * per_record

    def total(self, adjacency: str) -> float:
        """Return the largest l1 distance between the tables of neighbours."""
        per_record = self.largest if self.max_total is None else self.max_total
        return changed_records(adjacency) * per_record


@lru_cache(maxsize=1024)
def _fill_cells(largest: float, total: float) -> tuple[tuple[float, int], ...]:
    # The remainder of two floats is a float, and fractions avoid rounding before it.
    full, remainder = divmod(Fraction(total), Fraction(largest))
    return ((largest, int(full)), (float(remainder), 1))[: 2 if remainder else 1]


def changed_records(adjacency: str) -> int:
    """Return the number of records whose entries differ between neighbours."""
    return 2 if replaces(adjacency) else 1


@dataclass(frozen=True)
class CountTable:
    """Public description of a table of counts to be released.

    Parameters
    ----------
    n_samples : float
        Expected total of the table.
    n_categories, n_rows : int
        Size of the table. Each row is normalised over its categories.
    contribution : ContributionBound
        Bound on the entries of a record. By default a single count.
    precision : float, default=1.0
        The common scale of the noise of all tables is divided by it.
    min_smoothing : float, default=1.0
        Minimum smoothing, in counts.
    floor : float, default=0.0
        Public lower bound on every count.
    of_persons : bool, default=False
        Whether the bound applies to a person, that is, to the sum of a person's records.
    postprocess : bool, default=False
        Whether the noise is calibrated for a release that is post-processed.

    Examples
    --------
    >>> from skdirdp.mechanisms import CountTable, GaussianMechanism
    >>> table = CountTable(n_samples=30_000, n_categories=10, n_rows=2)
    >>> round(GaussianMechanism(sigma=10.0).expected_divergence(table), 6)
    0.000204
    """

    n_samples: float
    n_categories: int
    n_rows: int = 1
    contribution: ContributionBound = field(default_factory=ContributionBound)
    precision: float = 1.0
    min_smoothing: float = 1.0
    floor: float = 0.0
    of_persons: bool = False
    postprocess: bool = False

    def __post_init__(self):
        store_reals(self, n_samples=NON_NEGATIVE, precision=POSITIVE)
        store_reals(self, min_smoothing=NON_NEGATIVE, floor=NON_NEGATIVE)
        check_integer("n_categories", self.n_categories, at_least=1)
        check_integer("n_rows", self.n_rows, at_least=1)
        if not isinstance(self.postprocess, bool):
            raise TypeError(f"postprocess must be True or False; got {self.postprocess!r}")

    def per_person(self, max_rows: int) -> "CountTable":
        """Return the table with bounds per person.

        Parameters
        ----------
        max_rows : int
            Maximum number of records of a person.
        """
        return replace(self, contribution=self.contribution.for_person(max_rows), of_persons=True)

    def relation(self, adjacency: str) -> str:
        """Return the adjacency relation of a release: between records or between people.

        Parameters
        ----------
        adjacency : {"replace", "add_remove"}
            Relation between records.
        """
        return PERSON_RELATIONS[adjacency] if self.of_persons else adjacency

    @property
    def row_total(self) -> float:
        """The total of a typical row under the reference distribution."""
        return self.n_samples / np.sqrt(self.n_rows)


class Noise(NamedTuple):
    """Distribution of the noise of a noisy count, whose mean is the count.

    Attributes
    ----------
    variance, per_count : float
        Variance of the noise in an empty cell, and additional variance for each count.
    is_laplace : bool
        Whether the tails are those of the Laplace distribution. Otherwise they are close to
        normal.
    """

    variance: float
    per_count: float = 0.0
    is_laplace: bool = False

    def variance_at(self, counts: Any) -> Any:
        """Return the variance of the noise in cells with given true counts."""
        return self.variance + self.per_count * counts

    def half_width(self, confidence: float) -> float:
        """Return the half-width of an interval for the noise, in standard deviations."""
        # Sums of Laplace variables have lighter tails than a single one. The larger of the normal
        # and the Laplace quantile therefore holds for both.
        normal = float(ndtri((1 + confidence) / 2))
        return max(normal, -np.log1p(-confidence) / np.sqrt(2)) if self.is_laplace else normal


@lru_cache(maxsize=256)
def entry_quadrature(
    n_categories: int, size_biased: bool, nodes: int = _N_REFERENCE_NODES
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for one entry of p under the reference distribution."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    # Equal-probability coordinates, graded towards 0 where log p is steep.
    v = (1 + x) / 2
    quantiles, weights = v**3, weights / 2 * 3 * v**2
    shape = 1.5 if size_biased else 0.5
    other = (n_categories - 1) / 2
    entries = np.maximum(betaincinv(shape, other, quantiles), np.finfo(float).tiny)
    # The mean is made exact, so that rows sum to their total.
    return entries * (shape / (shape + other) / (weights @ entries)), weights


@lru_cache(maxsize=4096)
def postprocessed_divergence(
    n_categories: int, total: float, noise: Noise, smoothing: float
) -> float:
    """Compute the expected KL divergence of a row after post-processing.

    Each cell is estimated by its posterior mean under the reference distribution, given the
    noisy count with normal noise.
    """
    d = n_categories
    if d < 2 or total <= 0:
        return 0.0
    p, weights = entry_quadrature(d, size_biased=True, nodes=_N_ENTRY_NODES)
    z, noise_weights = np.polynomial.hermite_e.hermegauss(_N_NOISE_NODES)
    std = np.sqrt(noise.variance_at(total * p))[:, np.newaxis]
    noisy = total * p[:, np.newaxis] + std * z
    ratio = (_posterior_mean(noisy, std, d, total) + smoothing) / p[:, np.newaxis]
    weights = np.multiply.outer(weights, noise_weights / noise_weights.sum())
    # The normalising sum is a mean over the same nodes. By Jensen's inequality the difference is
    # never negative, however coarse the quadrature is.
    return float(np.log(np.sum(weights * ratio)) - np.sum(weights * np.log(ratio)))


def _posterior_mean(noisy: np.ndarray, std: np.ndarray, d: int, total: float) -> np.ndarray:
    """Return the mean of a count given a noisy one, if its share is Beta(1/2, (d - 1) / 2)."""
    # Integrate over the square root u of the count, in which the prior density is finite at 0.
    largest = np.sqrt(total * betaincinv(0.5, (d - 1) / 2, 1 - _TAIL_PROBABILITY))
    low = np.minimum(np.sqrt(np.maximum(noisy - _MAX_Z * std, 0.0)), largest / 2)
    high = np.minimum(np.sqrt(np.maximum(noisy, 0.0) + _MAX_Z * std), largest)
    x, weights = np.polynomial.legendre.leggauss(_N_POSTERIOR_NODES)
    u = low[..., np.newaxis] + (high - low)[..., np.newaxis] * (1 + x) / 2
    log_density = (d - 3) / 2 * np.log1p(-np.minimum(u**2 / total, 1 - _TAIL_PROBABILITY))
    log_density -= ((noisy[..., np.newaxis] - u**2) / std[..., np.newaxis]) ** 2 / 2
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True)) * weights
    return (density * u**2).sum(axis=-1) / density.sum(axis=-1)
