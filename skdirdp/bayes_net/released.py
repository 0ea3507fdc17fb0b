"""What is known of a column by the release of its counts: groups of cells, and their shares.

Tables of several columns are small if columns have few states. So cells that hold too few
records to be told from noise are counted together: of categories all of them, of numbers those
beside each other. Within a group records are spread as the column's own release says.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .clique_tree import nearest_counts, shrunk
from .domains import Categories, Domain

# Cells with no more than half a record are empty, also where there is no noise.
_EMPTY = 0.5
# Missing and other values are there if they are so many deviations above none: of a thousand
# columns that have none, it is unlikely that one seems to.
_SURELY = 5.0
# Numbers have so many groups at most, of about equally many records.
_NUMBER_GROUPS = 16


@dataclass(frozen=True)
class ReleasedColumn:
    """A column's cells in groups, which are its states in the network.

    Attributes
    ----------
    domain : Domain
    groups : ndarray of int of shape (n_cells,)
        The group of each cell.
    group_shares : ndarray of shape (n_groups,)
        The released shares of the records.
    cell_shares : ndarray of shape (n_cells,)
        The share of each cell within its group.
    drawn : ndarray of bool of shape (n_cells,)
        False for missing and other values that are too few to be told from noise: they belong
        to a group like all, but no synthetic record has them.
    """

    domain: Domain
    groups: np.ndarray
    group_shares: np.ndarray
    cell_shares: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(
        cls,
        domain: Domain,
        noisy: np.ndarray,
        total: float,
        *,
        sigma: float,
        least: float,
        most: int,
        keep_all: bool = False,
    ) -> "ReleasedColumn":
        """Groups and shares from noisy counts.

        Parameters
        ----------
        domain : Domain
        noisy : ndarray of shape (n_cells,)
        total : float
            The number of records.
        sigma : float
            The deviation of the noise.
        least : float
            Counts below it are not told from noise.
        most : int
            The number of groups at most.
        keep_all : bool, default=False
            Whether rare categories stay apart, if they are no more than `most`.
        """
        counts = _likely(noisy, total, sigma)
        least = max(least, _EMPTY)
        drawn = np.ones(len(counts), dtype=bool)
        drawn[domain.optional] = counts[domain.optional] >= max(least, _SURELY * sigma)
        if not drawn.any():
            drawn[0] = True
        groups = np.empty(len(counts), dtype=np.intp)
        if isinstance(domain, Categories):
            floor = 0.0 if keep_all else least
            groups[drawn] = _pooled(counts[drawn], floor, most)
            joined = np.argmin(np.bincount(groups[drawn], counts[drawn]))
        else:
            most_runs = max(1, min((most - 2) // 2, _NUMBER_GROUPS))
            groups[:-1] = _runs(counts[:-1], least, most_runs)
            groups[-1] = joined = groups[-2] + drawn[-1]
        groups[~drawn] = joined
        return cls(domain, groups, *_shares(groups, counts), drawn)

    def counted_again(self, noisy: np.ndarray, total: float, sigma: float) -> "ReleasedColumn":
        """The same groups, with shares from better counts."""
        group_shares, cell_shares = _shares(self.groups, _likely(noisy, total, sigma))
        return replace(self, group_shares=group_shares, cell_shares=cell_shares)

    @property
    def is_pooled(self) -> bool:
        """Whether rare categories are counted together: cliques do not tell them apart."""
        return isinstance(self.domain, Categories) and self.n_groups < self.drawn.sum()

    @property
    def n_groups(self) -> int:
        return len(self.group_shares)

    @cached_property
    def states(self) -> list[Hashable]:
        """The names of the groups: values, ranges of numbers, or tuples of rare values."""
        members: list[list[int]] = [[] for _ in range(self.n_groups)]
        for cell, group in enumerate(self.groups.tolist()):
            if self.drawn[cell]:
                members[group].append(cell)
        return [self.domain.label(cells) for cells in members]

    def grouped(self, noisy: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Noisy counts of the groups, from those of cells, and the deviations of their noise."""
        counts = np.bincount(self.groups, noisy, minlength=self.n_groups)
        return counts, sigma * np.sqrt(np.bincount(self.groups, minlength=self.n_groups))

    def condition(self, name: Hashable, given: Any) -> np.ndarray:
        """The part of each cell that meets a condition."""
        weights = self.domain.weights(name, given)
        if not (weights * self._drawn_shares).any():
            raise ValueError(f"given for {name!r} leaves nothing to draw")
        return weights

    def group_weights(self, weights: np.ndarray) -> np.ndarray:
        """The probability that a record of each group meets a condition."""
        return np.bincount(self.groups, weights * self._drawn_shares, minlength=self.n_groups)

    def draw(
        self,
        codes: np.ndarray,
        given: Any,
        weights: np.ndarray | None,
        generator: np.random.Generator,
    ) -> Any:
        """Values for state numbers, from the cells of their groups."""
        shares = self._drawn_shares if weights is None else weights * self._drawn_shares
        order = np.argsort(self.groups, kind="stable")
        cumulated = np.cumsum(shares[order])
        ends = np.cumsum(np.bincount(self.groups, minlength=self.n_groups))
        stops = cumulated[ends - 1]
        starts = np.concatenate([[0.0], stops[:-1]])
        place = starts[codes] + generator.random(len(codes)) * (stops - starts)[codes]
        found = np.searchsorted(cumulated, place, side="right")
        # What rounding carries beyond the group goes to the last of its cells that can be.
        possible = np.maximum.accumulate(np.where(shares[order] > 0, np.arange(len(order)), 0))
        cells = order[np.minimum(found, possible[ends - 1][codes])]
        return self.domain.values(cells, given if weights is not None else None, generator)

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is a state of its own."""
        return bool(self.drawn[-1])

    @cached_property
    def _drawn_shares(self) -> np.ndarray:
        return np.where(self.drawn, self.cell_shares, 0.0)


def _likely(noisy: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Counts of a total, none below 0, from noisy ones."""
    return nearest_counts(shrunk(noisy, total, sigma), total)


def _shares(groups: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of groups, and of cells within their groups."""
    # One record more in all, so that nothing is impossible.
    smooth = counts + 1 / len(counts)
    sums = np.bincount(groups, smooth)
    return sums / sums.sum(), smooth / sums[groups]


def _pooled(counts: np.ndarray, least: float, most: int) -> np.ndarray:
    """Groups of categories: each its own, but for the rare ones, which are one together."""
    rare = counts < least
    if len(counts) - rare.sum() + (rare.sum() > 0) > most:
        rare = np.ones(len(counts), dtype=bool)
        rare[np.argsort(-counts, kind="stable")[: most - 1]] = False
    if rare.sum() < 2:
        return np.arange(len(counts))
    groups = np.empty(len(counts), dtype=np.intp)
    groups[~rare] = np.arange(len(counts) - rare.sum())
    groups[rare] = len(counts) - rare.sum()
    return groups


def _runs(counts: np.ndarray, least: float, most: int) -> np.ndarray:
    """Groups of neighbouring cells with about equally many records.

    A cell that holds its due alone, as a value that many records share, is a group. There are
    at most ``2 * most + 1``.
    """
    due = max(counts.sum() / most, least)
    groups = np.empty(len(counts), dtype=np.intp)
    group, held = 0, 0.0
    for cell, count in enumerate(counts.tolist()):
        if count >= due and held >= least:
            group, held = group + 1, 0.0
        groups[cell] = group
        held += count
        if held >= due:
            group, held = group + 1, 0.0
    # What is left at the end is a group if it is enough, and else part of the last.
    if held < least and groups[-1] == group > 0:
        groups[groups == group] = group - 1
    return groups
