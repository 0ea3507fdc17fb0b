"""The Dirichlet mechanism."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import digamma

from .._validation import LARGEST, store_real
from ..accounting import RenyiDP, TruncatedConcentratedDP
from ..accounting.pairs import BetaPair, DominatingPair, GammaPair
from ..accounting.worst_case import DIRECTIONS, WorstCase
from .base import Mechanism, normalise, row_sums
from .reference import entry_quadrature, row_total

# A gamma variable below this is on its way to underflow. From _SMALL_SHAPE on that has
# a probability of 1e-290 ** 0.25 = 1e-72 at most, and is not looked for.
_LEAST_GAMMA = 1e-290
_SMALL_SHAPE = 0.25

# Below this prior a record that is spread thinly may be worse than one that fills
# few cells: docs/theory.md, "Rows that change several cells".
_SPREAD_PRIOR = 0.5


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
        What is added to every count when r is infinite; else that is ``alpha / r``.
    claim : RenyiDP or TruncatedConcentratedDP, optional
        What a paper's own analysis guarantees for one release, where it chose the
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
        return np.isinf(self.r)

    @property
    def smoothing(self) -> float:
        return self.exact_smoothing if self.is_exact else self.alpha / self.r

    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]:
        # The lift to independent gammas, and its consequences used here, are proved
        # in docs/theory.md. A floor acts as a part of the prior.
        alpha = self.alpha + self.r * self.floor
        rows = self.contribution
        full = self.r * rows.largest
        cases = {}
        for direction in DIRECTIONS[self.adjacency]:
            if self.max_total is None:
                pairs: tuple[tuple[DominatingPair, int], ...] = (
                    (_pair(full, alpha, direction), 1),
                )
                cases[direction] = WorstCase(renyi=pairs, profile=pairs)
            elif alpha >= _SPREAD_PRIOR:
                renyi = tuple(
                    (_pair(self.r * entry, alpha, direction), count)
                    for entry, count in rows.entries
                )
                cells = rows.full_cells + (rows.remainder > 0)
                profile = ((_pair(full, alpha, direction), cells),)
                cases[direction] = WorstCase(renyi=renyi, profile=profile)
            else:
                # Removal's divergence is convex in the entry at every prior and is the
                # larger one; it stands in for addition. No pair is known to dominate.
                changed = 2 if direction == "replace" else 1
                renyi = tuple(
                    (GammaPair(self.r * entry, alpha, "remove"), changed * count)
                    for entry, count in rows.entries
                )
                cases[direction] = WorstCase(renyi=renyi, profile=None)
        return cases

    def _check_table(self, counts: np.ndarray) -> None:
        if self.floor > 0 and counts.min() < self.floor:
            raise ValueError(f"counts must be at least the public floor {self.floor}; some are not")

    def _draw(self, counts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        shapes = counts * self.r
        shapes += self.alpha
        gammas = generator.standard_gamma(shapes)
        if self.alpha < _SMALL_SHAPE and shapes.min() < _SMALL_SHAPE:
            lost = row_sums(gammas) < gammas.shape[-1] * _LEAST_GAMMA
            lost[lost] = gammas[lost].max(axis=-1) < _LEAST_GAMMA
            if lost.any():
                gammas[lost] = _ratios_of_tiny_gammas(shapes[lost], generator)
        return normalise(gammas)

    def expected_divergence(self, n_samples: float, n_categories: int, n_rows: int = 1) -> float:
        """The expectation of every entry's logarithm is a digamma, and averaged in closed form.

        Parameters
        ----------
        n_samples : float
            Records that the table counts.
        n_categories, n_rows : int
            Cells per row, and rows.

        Returns
        -------
        float
        """
        if n_categories < 2:
            return 0.0
        total = row_total(n_samples, n_rows)
        p, weights = entry_quadrature(n_categories, size_biased=True)
        if self.is_exact:
            s = self.smoothing
            with np.errstate(divide="ignore"):
                terms = np.log(p) - np.log(total * p + s)
            return float(weights @ terms + np.log(total + n_categories * s))
        # E log Y_i = digamma(r x_i + alpha) - digamma(r n + d alpha)
        terms = np.log(p) - digamma(self.r * total * p + self.alpha)
        return float(weights @ terms + digamma(self.r * total + n_categories * self.alpha))


def _ratios_of_tiny_gammas(shapes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Gammas known to lie below `_LEAST_GAMMA`, each row scaled by its largest.

    There exp(-g) is 1, so that log g is the log of the bound minus Exp(1) / shape.
    """
    logs = -generator.standard_exponential(shapes.shape) / shapes
    return np.exp(logs - logs.max(axis=-1, keepdims=True))


def _pair(step: float, alpha: float, direction: str) -> DominatingPair:
    if direction == "replace":
        return BetaPair(step, alpha)
    return GammaPair(step, alpha, "add" if direction == "add" else "remove")
