"""All posteriors of n records over k categories, as a lattice.

A data set is known by its counts, a candidate posterior by the same: there are
``C(n + k - 1, k - 1)`` of them, numbered here in colexicographic order of their
running totals. Neighbours differ by one record moved from one cell to another.
"""

from functools import cached_property, lru_cache
from itertools import combinations
from math import comb

import numpy as np

from ..numerics.log_gamma import log_gamma_gap
from .hellinger import distance_from_log_affinity

_BLOCK = 1 << 16  # points per evaluation, to bound memory


def n_candidates(n_samples: int, n_categories: int) -> int:
    return comb(n_samples + n_categories - 1, n_categories - 1)


class PosteriorLattice:
    """The candidates for a prior and a number of records, and distances between them.

    Attributes
    ----------
    counts : ndarray of shape (n_candidates, n_categories)
        The counts of each candidate.
    """

    def __init__(self, prior: tuple[float, ...], n_samples: int):
        self.prior = np.asarray(prior, dtype=float)
        self.n_samples = n_samples
        self.counts = all_counts(n_samples, self.prior.size)
        # Second differences of lnGamma in half-integer steps from each prior entry:
        # accurate however many records there are, and all else is a sum of them.
        points = 0.5 * np.arange(2 * n_samples - 1)
        blocks = np.array_split(points, 1 + points.size // _BLOCK)
        seconds = {
            value: np.concatenate([log_gamma_gap(value + x, value + x + 1) for x in blocks])
            for value in set(self.prior.tolist())
        }
        self._differences = {
            value: np.cumsum(np.append(0.0, second)) for value, second in seconds.items()
        }
        #: What one more record in a cell leaves of the log-affinity, by cell and count.
        self.log_step_affinities = [-0.5 * seconds[value][::2] for value in self.prior.tolist()]

    @property
    def symmetric(self) -> bool:
        """Whether relabelling the categories changes nothing."""
        return bool(np.all(self.prior == self.prior[0]))

    def rank(self, counts: np.ndarray) -> np.ndarray:
        """The numbers of the candidates with these counts, along the last axis."""
        k = self.prior.size
        marks = np.cumsum(counts[..., :-1], axis=-1) + np.arange(k - 1)
        binomials = _binomials(self.n_samples, k)
        return sum(
            (binomials[j][marks[..., j]] for j in range(k - 1)),
            np.zeros(counts.shape[:-1], dtype=np.int64),
        )

    def distances(self, counts: np.ndarray) -> np.ndarray:
        """Hellinger distances from the posterior of these counts to every candidate."""
        log_affinity = np.zeros(len(self.counts))
        for cell, count in enumerate(counts):
            log_affinity -= 0.5 * self._gaps(cell, int(count))[self.counts[:, cell]]
        return distance_from_log_affinity(log_affinity)

    def _gaps(self, cell: int, count: int) -> np.ndarray:
        """`log_gamma_gap` of the cell's parameter at this count and at every other.

        With E the first differences of lnGamma on a grid of half-integers, the gap
        grows from count b to b + 1 by ``E[2b] + E[2b + 1] - 2 E[count + b]``. The sum
        starts at the count itself, on either side, so that all terms have one sign.
        """
        differences = self._differences[self.prior[cell]]
        growth = differences[0::2] + differences[1::2]
        growth -= 2 * differences[count : count + self.n_samples]
        gaps = np.zeros(self.n_samples + 1)
        np.cumsum(growth[count:], out=gaps[count + 1 :])
        gaps[:count] = -np.cumsum(growth[:count][::-1])[::-1]
        return gaps

    def inverse_local_sensitivities(self) -> np.ndarray:
        """``1 / LS`` of every candidate."""
        k = self.prior.size
        joins, leaves = [], []
        for cell, steps in enumerate(self.log_step_affinities):
            # A cell with all records gains none, one without records has none to lose.
            joins.append(np.append(steps, np.inf)[self.counts[:, cell]])
            leaves.append(np.append(np.inf, steps)[self.counts[:, cell]])
        least = np.zeros(len(self.counts))
        for i in range(k):
            for j in range(k):
                if i != j:
                    np.minimum(least, leaves[i] + joins[j], out=least)
        return 1 / distance_from_log_affinity(least)

    def inverse_smooth_sensitivities(self, gamma: float) -> np.ndarray:
        """``1 / S`` of every candidate: the largest gamma-Lipschitz minorant of ``1 / LS``.

        d is the distance in the graph of neighbours, so S spreads along its edges.
        """
        inverse = self.inverse_local_sensitivities()
        edges = self.edges()
        while True:
            spread = inverse.copy()
            for first, second in edges:
                # No candidate occurs twice on one side of a group.
                spread[first] = np.minimum(spread[first], inverse[second] + gamma)
                spread[second] = np.minimum(spread[second], inverse[first] + gamma)
            if np.array_equal(spread, inverse):
                return inverse
            inverse = spread

    @cached_property
    def cell_pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.prior.size), 2))

    def edges(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """All pairs of neighbours, by the two cells between which a record moves."""
        groups = []
        for i, j in self.cell_pairs:
            first = np.flatnonzero(self.counts[:, i])
            moved = self.counts[first]
            moved[:, i] -= 1
            moved[:, j] += 1
            groups.append((first, self.rank(moved)))
        return groups

    def edge_distances(self, edges: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Distances between the neighbours of all groups, one after the other."""
        steps = self.log_step_affinities
        log_affinity = [
            steps[i][self.counts[first, i] - 1] + steps[j][self.counts[first, j]]
            for (i, j), (first, _) in zip(self.cell_pairs, edges, strict=True)
        ]
        return distance_from_log_affinity(np.concatenate(log_affinity))


@lru_cache(maxsize=4)
def posterior_lattice(prior: tuple[float, ...], n_samples: int) -> PosteriorLattice:
    """The lattice, kept for the next release of the same public sizes."""
    return PosteriorLattice(prior, n_samples)


def all_counts(n_samples: int, n_categories: int) -> np.ndarray:
    """Every vector of whole counts with the given total, in the order of `rank`."""
    totals = np.arange(n_samples + 1)[:, np.newaxis]
    for _ in range(n_categories - 2):
        sizes = totals[:, 0] + 1
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        smaller = np.arange(sizes.sum()) - starts
        totals = np.column_stack([smaller, np.repeat(totals, sizes, axis=0)])
    return np.diff(totals, axis=1, prepend=0, append=n_samples)


@lru_cache(maxsize=8)
def _binomials(n_samples: int, n_categories: int) -> list[np.ndarray]:
    """``C(c, j)`` for c up to n + k and j = 1 .. k - 1."""
    size = n_samples + n_categories
    return [
        np.array([comb(c, j) for c in range(size)], dtype=np.int64) for j in range(1, n_categories)
    ]
