"""The Dirichlet mechanism."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isinf
from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaincc, digamma

from .._validation import LARGEST, store_real
from ..accounting import RenyiDP, TruncatedConcentratedDP
from ..accounting.worst_case import DIRECTIONS, WorstCase
from ..numerics.rows import is_whole
from .base import Mechanism, normalise, sums_of_runs, without_smoothing
from .noise import Noise
from .reference import entry_quadrature, row_total
from .sampling import (
    MAX_PLACES,
    gamma_cells,
    gamma_shapes,
    middles,
    places_for,
    relative_weights,
    round_down,
    round_up,
)
from .sampling.gamma import gamma_cells_of_all
from .table import CountTable
from .worst_rows import worst_row

# Bits of r and alpha in a release, and the fewest that alpha has beside a larger r.
_PARAMETER_BITS = 16
_FEWEST_BITS = 4

_BISECTIONS = 45


@dataclass(frozen=True, repr=False)
class DirichletMechanism(Mechanism):
    """Release ``Y ~ Dirichlet(r x + alpha)`` for each row x of a table of counts.

    The curves are exact: the worst case over all data sets and all neighbours
    (docs/theory.md, section 2).

    Parameters
    ----------
    r : float
        Concentration per count; infinite for no noise.
    alpha : float
        Prior concentration of every cell; infinite with r.
    adjacency : {"replace", "add_remove"}
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell, with a weight of at most `max_count`.
    floor : float
        A public lower bound on every count. The guarantee then holds between data
        sets that both respect it.
    exact_smoothing : float
        The smoothing when r is infinite, in counts; else that is ``alpha / r``.
    claim : RenyiDP or TruncatedConcentratedDP, optional
        The guarantee of one release by a paper's own analysis, where it chose the
        parameters. The curves do not depend on it.

    Examples
    --------
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> mechanism = DirichletMechanism(r=1.0, alpha=10.0)
    >>> round(mechanism.delta(1.0), 9)
    0.003559549
    >>> mechanism.release([[12, 0, 5], [3, 3, 0]]).sum(axis=1).round(12)
    array([1., 1.])
    """

    name: ClassVar[str] = "dirichlet"

    r: float
    alpha: float
    floor: float = 0.0
    exact_smoothing: float = 0.0
    claim: RenyiDP | TruncatedConcentratedDP | None = None

    def __post_init__(self):
        super().__post_init__()
        store_real(self, "r", above=0, at_most=LARGEST, allow_infinite=True)
        store_real(self, "alpha", above=0, at_most=LARGEST, allow_infinite=True)
        store_real(self, "floor", at_least=0)
        store_real(self, "exact_smoothing", at_least=0)
        if np.isinf(self.r) != np.isinf(self.alpha):
            raise ValueError(
                "r and alpha must be both finite, or both infinite for no noise; "
                f"got r={self.r}, alpha={self.alpha}"
            )

    @property
    def is_exact(self) -> bool:
        return isinf(self.r)

    @property
    def smoothing(self) -> float:
        return self.exact_smoothing if self.is_exact else self.alpha / self.r

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # The lift to independent gammas, and its consequences used here, are proved
        # in docs/theory.md. A floor acts as a part of the prior.
        alpha = self.alpha + self.r * self.floor
        return {
            direction: worst_row(self.contribution, self.r, alpha, direction)
            for direction in DIRECTIONS[self.adjacency]
        }

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        if self.floor > 0 and counts.min() < self.floor:
            raise ValueError(f"counts must be at least the public floor {self.floor}; some are not")
        # They refuse what has too many bits: a whole number too, if others are not whole.
        self._shapes(counts.max(), grid, whole=whole)

    def _shapes(self, counts: np.ndarray, grid: float, *, whole: bool) -> tuple[np.ndarray, int]:
        """``r x + alpha``, as integers over a power of two."""
        places = -int(np.log2(grid))
        r, alpha = _short_parameters(self.r, self.alpha, places)
        # How a count is written does not matter, and whole ones leave room for more.
        places = 0 if whole else places
        if r == 0:
            counts, r = np.zeros_like(counts), 1.0
        return gamma_shapes(counts, r, alpha, places)

    @classmethod
    def _draw(cls, requests, generator):
        shapes = [
            request.mechanism._shapes(request.counts, request.grid, whole=is_whole(request.counts))
            for request in requests
        ]
        return gamma_cells_of_all(shapes, generator)

    def _noisy_counts(self, grid, *drawn):
        # The gamma variables themselves, for which the guarantee is proved before they are
        # divided by their sum: of mean r x + alpha, and of the same variance.
        r, alpha = _short_parameters(self.r, self.alpha, -int(np.log2(grid)))
        noisy = middles(*drawn)
        noisy -= alpha
        noisy /= r or self.r
        return noisy

    @staticmethod
    def _probabilities(*prepared):
        return normalise(relative_weights(*prepared))

    @property
    def noise(self) -> Noise:
        if self.is_exact:
            return Noise(0.0)
        return Noise(self.smoothing / self.r, 1 / self.r)

    def _divergence_as_drawn(self, table: CountTable) -> float:
        """The expectation of every entry's logarithm is a digamma, and averaged in closed form."""
        d = table.n_categories
        if d < 2:
            return 0.0
        total = row_total(table)
        p, weights = entry_quadrature(d, size_biased=True)
        if self.is_exact:
            s = self.smoothing
            with np.errstate(divide="ignore"):
                terms = np.log(p) - np.log(total * p + s)
            return float(weights @ terms + np.log(total + d * s))
        # E log Y_i = digamma(r x_i + alpha) - digamma(r n + d alpha)
        terms = np.log(p) - digamma(self.r * total * p + self.alpha)
        return float(weights @ terms + digamma(self.r * total + d * self.alpha))

    def _with_precision(self, precision: float) -> "DirichletMechanism":
        # A paper's claim is for its own parameters.
        return replace(self, r=self.r * precision, claim=None)

    def _unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        # E Y is the smoothed mean: (x + s) / (N + d s)
        return without_smoothing(release, self.smoothing, n_samples, len(release))

    def _limits(self, release, first, stop, n_samples, confidence):
        released = np.minimum(sums_of_runs(release, first, stop), 1.0)
        counts = self.r * n_samples
        total = counts + len(release) * self.alpha
        prior = (stop - first) * self.alpha
        tail = (1 - confidence) / (2 * max(len(released), 1))
        # A union's probability is Beta(a, total - a) with a = r x + prior, and grows with
        # x. Counts that make so large, or so small, a probability unlikely are excluded.
        lower = _last_true(lambda a: betaincc(a, total - a, released) <= tail, prior, counts)
        upper = _last_true(lambda a: betainc(a, total - a, released) >= tail, prior, counts)
        return (lower - prior) / counts, (upper - prior) / counts

    def _limits_with_total(self, noisy, first, stop, n_samples, confidence):
        # The gamma variables that were drawn, divided by their sum, are a release.
        drawn = self.r * noisy + self.alpha
        return self._limits(drawn / drawn.sum(), first, stop, n_samples, confidence)

    def _count_limits(self, sums, n_cells, tail):
        # A gamma variable of shape a is below a - sqrt(2 a t), and above a + sqrt(2 a t) + t,
        # with probability e^-t each at most (Boucheron, Lugosi and Massart, section 2.4).
        prior = n_cells * self.alpha
        drawn, t = np.maximum(self.r * sums + prior, 0.0), -np.log(tail)
        root = np.sqrt(np.maximum(drawn - t / 2, 0.0)) - np.sqrt(t / 2)
        least = np.maximum(root, 0.0) ** 2
        most = (np.sqrt(2 * t) + np.sqrt(2 * t + 4 * drawn)) ** 2 / 4
        least, most = (np.maximum(shape - prior, 0.0) / self.r for shape in (least, most))
        return least, most


def draw_dirichlet(
    numerators: np.ndarray, places: int, generator: np.random.Generator
) -> np.ndarray:
    """Dirichlet variables of shapes ``numerators / 2**places``, one for each row; none is 0.

    Normalised gamma variables, of which exactly the first bits are drawn.
    """
    return normalise(relative_weights(*gamma_cells(numerators, places, generator)))


@lru_cache(maxsize=1024)
def _short_parameters(r: float, alpha: float, count_places: int) -> tuple[float, float]:
    """r rounded down and alpha rounded up, to so few bits that shapes are exact.

    Less concentration per count, and more of the prior, is more private: what is claimed for
    r and alpha holds for these. They follow from public parameters alone.
    """
    r_places = min(places_for(r, _PARAMETER_BITS), MAX_PLACES - count_places)
    # A prior far below r may have fewer bits, where it hardly matters.
    least = max(r_places + count_places, places_for(alpha, _FEWEST_BITS))
    alpha_places = min(places_for(alpha, _PARAMETER_BITS), least, MAX_PLACES)
    return round_down(r, r_places), round_up(alpha, alpha_places)


def dirichlet_variance(mean: np.ndarray, concentration: float) -> np.ndarray:
    """Variances of a Dirichlet vector's entries, from their means and the sum of the shapes."""
    return mean * (1 - mean) / (concentration + 1)


def _last_true(
    holds: Callable[[np.ndarray], np.ndarray], low: np.ndarray, length: float
) -> np.ndarray:
    """The end of the part of [low, low + length] on which `holds` is true, starting at low."""
    end = low + length
    everywhere = holds(end)
    low, high = np.array(low, dtype=float), end
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(everywhere, end, low)
