"""Margins that several noisy tables hold, estimated once from all of them.

Sets of variables that tables share are taken in turn, smaller ones first. For each, the tables'
own margins are averaged by their precision, and every table is moved to the average by equal
parts in all cells that add up to one of it. What was made equal before stays so: two tables that
agree on a smaller set differ, on a larger one, by what sums to 0 over it.

A table's cells then split into independent parts, one for every set of its variables: the mean,
what each variable adds to it, what pairs add beyond that, and so on. Each part has the noise of
the table itself or, where it was set to an average, that of the average.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from operator import mul

import numpy as np

from .noisy import NoisyTable

_Variables = frozenset[Hashable]
_LEAST = 1e-9


@dataclass(frozen=True)
class Reconciled:
    """A noisy table that agrees with others where they count the same.

    Attributes
    ----------
    counts : ndarray
    table : NoisyTable
        As it was released.
    shared : tuple of (set of variables, float)
        What was set to averages, in turn, and the variance of a cell of each average.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.reading import Noise, NoisyTable, reconcile
    >>> tables = [NoisyTable(np.array([60.0, 50.0]), Noise(2.0), ("x",))] * 2
    >>> reconcile(tables)[0].variance(["x"])  # of the average of two
    1.0
    """

    counts: np.ndarray
    table: NoisyTable
    shared: tuple[tuple[_Variables, float], ...] = ()

    def variance(self, kept: Sequence[Hashable]) -> float:
        """The variance of a cell of the margin that keeps some variables."""
        keeps = tuple([name in kept for name in self.table.axes])
        parts = _parts_of_margin(self.counts.shape, keeps, self._holders)
        total = sum(map(mul, parts, self._variances))
        # Of a margin that is public, noise is left that is far below any other.
        return max(total, _LEAST * self.table.variance)

    @cached_property
    def _holders(self) -> tuple[tuple[bool, ...], ...]:
        """Which variables were set to averages."""
        axes = self.table.axes
        return tuple([tuple([name in held for name in axes]) for held, _ in self.shared])

    @cached_property
    def _variances(self) -> list[float]:
        """Of the averages, and of the table itself."""
        return [*(variance for _, variance in self.shared), self.table.variance]

    def margin(self, kept: Sequence[Hashable]) -> np.ndarray:
        """Sums over all other variables, in the order of the table's own."""
        if len(kept) == self.counts.ndim:
            return self.counts
        return _margin(self.counts, self.table.axes, kept)


def reconcile(tables: Sequence[NoisyTable], total: float | None = None) -> list[Reconciled]:
    """Tables that agree on everything that several of them count.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records that each table holds; averaged where it is not known.

    Returns
    -------
    list of Reconciled

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.reading import Noise, NoisyTable, reconcile
    >>> by_class = NoisyTable(np.array([60.0, 40.0]), Noise(1.0), ("class",))
    >>> table = NoisyTable(np.array([[30.0, 34.0], [21.0, 21.0]]), Noise(1.0), ("class", "x"))
    >>> first, second = reconcile([by_class, table])
    >>> bool(np.allclose(first.counts, second.counts.sum(axis=1)))
    True
    """
    counts = [np.asarray(table.counts, dtype=float) for table in tables]
    shared: list[list[tuple[_Variables, float]]] = [[] for _ in tables]
    for variables in _shared_sets(tables, total is not None):
        holders = [i for i, table in enumerate(tables) if variables.issubset(table.axes)]
        # Axes stand in each table's own order, and are compared in that of the first.
        order = tables[holders[0]].axes
        margins = [
            _reordered(
                _margin(counts[i], tables[i].axes, variables), tables[i].axes, order, variables
            )
            for i in holders
        ]
        size = margins[0].size
        if not variables and total is not None:
            average, variance = np.array(total), 0.0
        else:
            spreads = [tables[i].variance * counts[i].size / size for i in holders]
            precisions = 1 / np.array(spreads)
            variance = float(1 / precisions.sum())
            average = np.tensordot(precisions * variance, np.stack(margins), axes=1)
        for i, margin in zip(holders, margins, strict=True):
            off = _reordered(average - margin, order, tables[i].axes, variables)
            shape = [
                n if name in variables else 1
                for name, n in zip(tables[i].axes, counts[i].shape, strict=True)
            ]
            counts[i] = counts[i] + off.reshape(shape) * (size / counts[i].size)
            shared[i].append((variables, variance))
    return [
        Reconciled(count, table, tuple(sets))
        for count, table, sets in zip(counts, tables, shared, strict=True)
    ]


@lru_cache(maxsize=1 << 12)
def _parts_of_margin(
    shape: tuple[int, ...], kept: tuple[bool, ...], holders: tuple[tuple[bool, ...], ...]
) -> list[float]:
    """How much of the noise of each holder, and of the table itself, a cell of a margin has.

    Parameters
    ----------
    shape : tuple of int
        Of the table.
    kept : tuple of bool
        Which variables the margin has.
    holders : tuple of tuple of bool
        Which variables were set to averages, in turn.
    """
    every = (*holders, (True,) * len(shape))
    size = prod(n for n, keeps in zip(shape, kept, strict=True) if keeps)
    shares = [0.0] * len(every)
    for part in _subsets([i for i, keeps in enumerate(kept) if keeps]):
        # A part has the noise of what it was set to first, or else of the table itself.
        place = next(i for i, has in enumerate(every) if all(has[axis] for axis in part))
        freedom = prod(shape[axis] - 1 for axis in part)
        cells = prod(n for n, has in zip(shape, every[place], strict=True) if has)
        # Its sum of squares is spread over the cells of the margin.
        shares[place] += freedom * cells / size**2
    return shares


def _shared_sets(tables: Sequence[NoisyTable], with_total: bool) -> list[_Variables]:
    """All intersections of tables' variables, smaller ones first."""
    often = Counter(name for table in tables for name in table.axes)
    # Variables of one table cannot be shared, and without them many tables are alike.
    held = Counter(frozenset(name for name in table.axes if often[name] > 1) for table in tables)
    found = {variables for variables, count in held.items() if count > 1}
    found |= {first & second for first, second in combinations(held, 2)}
    while more := {first & second for first, second in combinations(found, 2)} - found:
        found |= more
    if with_total:
        found.add(frozenset())
    elif len(tables) < 2 or not any(found):
        found.discard(frozenset())
    return sorted(found, key=lambda variables: (len(variables), sorted(map(repr, variables))))


def _margin(counts: np.ndarray, axes: Sequence[Hashable], kept: Iterable[Hashable]) -> np.ndarray:
    kept = set(kept)
    lost = tuple(i for i, name in enumerate(axes) if name not in kept)
    return counts.sum(axis=lost) if lost else counts


def _reordered(
    margin: np.ndarray, have: Sequence[Hashable], want: Sequence[Hashable], kept: _Variables
) -> np.ndarray:
    if margin.ndim < 2:
        return margin
    before = [name for name in have if name in kept]
    return margin.transpose([before.index(name) for name in want if name in kept])


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(places) + 1):
        yield from combinations(places, size)
