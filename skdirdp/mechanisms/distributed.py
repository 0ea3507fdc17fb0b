"""Dirichlet mechanism whose noise is drawn in shares by several data owners.

Each of P parties draws, for each cell, ``N_p ~ Poisson(M G_p)`` with ``G_p ~ Gamma(r x_p +
alpha / (P - t))``. Gamma variables add, so the sum of the shares of the parties is ``Poisson(M G)``
with ``G ~ Gamma(r x + alpha')`` and alpha' >= alpha, as long as at most t parties are absent from
the sum or reveal their shares. The sum post-processes the gamma variables for which the guarantee
of the Dirichlet mechanism is proved (docs/theory.md, section 20).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from .._random import NoiseGenerator, noise_generator
from .._validation import check_counts, check_integer
from ..accounting.composition import PrivacyCurves
from ..accounting.worst_case import WorstCase
from ..numerics.conservative import quotient_up
from ..numerics.rows import is_whole
from .base import normalise
from .dirichlet import DirichletMechanism, short_parameters
from .sampling.negative_binomial import MAX_RATIO, check_ratio, negative_binomial

MAX_PARTIES = 10_000
# A sum exceeds `largest_sum` with at most this probability, in each cell.
_OVERFLOW_PROBABILITY = 2.0**-64


@dataclass(frozen=True)
class DistributedDirichletMechanism(PrivacyCurves):
    """Dirichlet mechanism whose noise is drawn in shares by several data owners.

    Its privacy curves are those of the central mechanism. They hold for the sum of the shares,
    and for anyone who also knows the shares of colluding parties, if at least
    ``n_parties - max_absent`` other parties are in the sum. Only one sum may be revealed.

    Parameters
    ----------
    central : DirichletMechanism
        Mechanism that a trusted party would use for the pooled counts. It has a finite r and no
        floor.
    n_parties : int
        Number of parties.
    max_absent : int, default=0
        Maximum number of parties that drop out or collude, in total.
    ratio : int, default=1024
        Mean of a share per unit of the gamma variable, from 1 to 4096. The variance of the noise
        is larger by a factor of ``1 + 1 / ratio``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.mechanisms import DirichletMechanism, DistributedDirichletMechanism
    >>> central = DirichletMechanism(r=1.0, alpha=10.0)
    >>> mechanism = DistributedDirichletMechanism(central, n_parties=3)
    >>> mechanism.delta(1.0) == central.delta(1.0)
    True
    >>> tables = [[[120, 40]], [[90, 60]], [[150, 10]]]
    >>> total = np.sum([mechanism.draw_share(table) for table in tables], axis=0)
    >>> mechanism.noisy_counts(total, n_present=3).shape
    (1, 2)
    """

    central: DirichletMechanism
    n_parties: int
    max_absent: int = 0
    ratio: int = 1024

    def __post_init__(self):
        if not isinstance(self.central, DirichletMechanism):
            raise TypeError(
                f"central must be a DirichletMechanism; got {type(self.central).__name__}"
            )
        if not isfinite(self.central.r):
            raise ValueError("central must add noise; its r is infinite")
        if self.central.floor:
            # The counts of the honest parties alone may be below the floor of all counts.
            raise ValueError(f"central must have no floor; got floor={self.central.floor}")
        check_integer("n_parties", self.n_parties, at_least=1, at_most=MAX_PARTIES)
        check_integer("max_absent", self.max_absent, at_least=0, at_most=self.n_parties - 1)
        check_integer("ratio", self.ratio, at_least=1, at_most=MAX_RATIO)

    @property
    def adjacency(self) -> str:
        """Adjacency of the central mechanism; records are those of one honest party."""
        return self.central.adjacency

    @property
    def is_exact(self) -> bool:
        """Whether no noise is added; always False."""
        return False

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return self.central.worst_cases()

    @cached_property
    def _party(self) -> DirichletMechanism:
        """The mechanism of one party: the same r, and a part of alpha, rounded up."""
        alpha = quotient_up(self.central.alpha, self.n_parties - self.max_absent)
        return replace(self.central, alpha=alpha, claim=None)

    def _grid(self, grid: float | None) -> float:
        return self.central.contribution.grid if grid is None else grid

    def parameters(self, grid: float | None = None) -> tuple[float, float]:
        """Return r and alpha of one party, rounded to 16 bits as in a release.

        Parameters
        ----------
        grid : float, optional
            Public power of two that divides all counts. By default it follows from the bounds.

        Returns
        -------
        r, alpha : float
            r is rounded down, and the part of alpha is rounded up.
        """
        return short_parameters(self._party.r, self._party.alpha, self._grid(grid))

    def check_table(self, counts: np.ndarray, grid: float | None = None) -> None:
        """Raise an error if the share of a table cannot be drawn as the guarantee assumes.

        Parameters
        ----------
        counts : ndarray
            Counts of the party.
        grid : float, optional
            As in `parameters`.
        """
        grid = self._grid(grid)
        self._party.check_table(counts, grid)
        check_ratio(*self._shapes(counts, grid), self.ratio)

    def _shapes(self, counts: np.ndarray, grid: float) -> tuple[np.ndarray, int]:
        return self._party._shapes(counts, grid, whole=is_whole(counts))

    def draw_share(
        self, counts: ArrayLike, random_state: object = None, *, grid: float | None = None
    ) -> np.ndarray:
        """Draw the share of one party, after it was charged.

        Parameters
        ----------
        counts : array-like
            Counts of the party.
        random_state : None, int, Generator or RandomState
            If None, the noise is cryptographically secure.
        grid : float, optional
            As in `parameters`.

        Returns
        -------
        ndarray of int of the same shape
        """
        counts = check_counts(counts)
        self.check_table(counts, grid)
        return self.draw(counts, noise_generator(random_state), grid)

    def draw(
        self, counts: np.ndarray, generator: NoiseGenerator, grid: float | None = None
    ) -> np.ndarray:
        """Draw the share of a table that passed `check_table`, after it was charged.

        Parameters
        ----------
        counts : ndarray
            Counts of the party.
        generator : Generator
        grid : float, optional
            As in `parameters`.
        """
        shapes = self._shapes(counts, self._grid(grid))
        return negative_binomial(*shapes, self.ratio, generator)

    def largest_sum(self, total: float, grid: float | None = None) -> int:
        """Return a number that a sum exceeds with a probability of at most 2^-64.

        Parameters
        ----------
        total : float
            Public bound on the count of a cell, over all parties.
        grid : float, optional
            As in `parameters`.

        Returns
        -------
        int
        """
        r, alpha = self.parameters(grid)
        shape, t = r * total + self.n_parties * alpha, -log(_OVERFLOW_PROBABILITY)
        return ceil((self.ratio + 1) * (shape + sqrt(2 * shape * t) + t))

    def as_drawn(self, n_present: int, grid: float | None = None) -> DirichletMechanism:
        """Return the Dirichlet mechanism whose noise has the mean and variance of a sum.

        Parameters
        ----------
        n_present : int
            Number of parties in the sum.
        grid : float, optional
            As in `parameters`.

        Returns
        -------
        DirichletMechanism
            ``sum / (ratio + 1)`` has the mean and the variance of its gamma variables. Its noise
            describes the release; its privacy curves are not used.
        """
        r, alpha = self.parameters(grid)
        shrink = self.ratio / (self.ratio + 1)
        alpha *= self._check_present(n_present)
        return replace(
            self.central, r=(r or self.central.r) * shrink, alpha=alpha * shrink, claim=None
        )

    def _check_present(self, n_present: int) -> int:
        least = self.n_parties - self.max_absent
        return check_integer("n_present", n_present, at_least=least, at_most=self.n_parties)

    def noisy_counts(
        self, sums: ArrayLike, n_present: int, grid: float | None = None
    ) -> np.ndarray:
        """Return pooled counts with noise of mean 0, from the sums of the shares.

        Parameters
        ----------
        sums : array-like of int
            Sums over the parties that are present.
        n_present, grid
            As in `as_drawn`.

        Returns
        -------
        ndarray of the same shape
        """
        drawn = self.as_drawn(n_present, grid)
        noisy: np.ndarray = np.asarray(sums, dtype=float) / (self.ratio + 1)
        return (noisy - drawn.alpha) / drawn.r

    def probabilities(
        self, sums: ArrayLike, n_present: int, grid: float | None = None
    ) -> np.ndarray:
        """Return positive probabilities for each row, from the sums of the shares.

        Parameters
        ----------
        sums : array-like of int of shape (n_rows, n_categories)
            Sums over the parties that are present.
        n_present, grid
            As in `as_drawn`.

        Returns
        -------
        ndarray of the same shape
            A sum may be 0. Each gamma variable is estimated by its mean given the sum, with the
            prior of an empty cell.
        """
        alpha = self.parameters(grid)[1] * self._check_present(n_present)
        return normalise(np.asarray(sums, dtype=float) + alpha)
