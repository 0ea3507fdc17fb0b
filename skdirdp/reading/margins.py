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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from operator import mul
from typing import Any, NamedTuple

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
    shared : tuple of sets of variables
        What was set to averages, in turn.
    variances : tuple of float
        Those of a cell of each average, and of a cell of the table itself.

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
    shared: tuple[_Variables, ...]
    variances: tuple[float, ...]

    def variance(self, kept: Sequence[Hashable]) -> float:
        """The variance of a cell of the margin that keeps some variables."""
        parts = _parts_of_margin(self.counts.shape, self.table.axes, tuple(kept), self.shared)
        total = sum(map(mul, parts, self.variances))
        # Of a margin that is public, noise is left that is far below any other.
        return max(total, _LEAST * self.variances[-1])

    def margin(self, kept: Sequence[Hashable]) -> np.ndarray:
        """Sums over all other variables, in the order of the table's own."""
        lost = tuple([i for i, name in enumerate(self.table.axes) if name not in kept])
        return self.counts.sum(axis=lost) if lost else self.counts


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
    shared: list[list[_Variables]] = [[] for _ in tables]
    variances: list[list[float]] = [[] for _ in tables]
    for variables in _shared_sets(tables, total is not None):
        holders = [i for i, table in enumerate(tables) if variables.issubset(table.axes)]
        stacks = _stacks(variables, [tables[i].axes for i in holders], [counts[i] for i in holders])
        margins = [stack.margins() for stack in stacks]
        size = margins[0][0].size
        if not variables and total is not None:
            average, variance = np.array(total), 0.0
        else:
            spreads = [tables[i].variance * counts[i].size / size for i in holders]
            precisions = 1 / np.array(spreads)
            variance = float(1 / precisions.sum())
            order = [place for stack in stacks for place in stack.places]
            average = np.tensordot(precisions[order] * variance, np.concatenate(margins), axes=1)
        for stack, margin in zip(stacks, margins, strict=True):
            stack.add(average - margin)
            for place, moved in zip(stack.places, stack.counts, strict=True):
                counts[holders[place]] = moved
                shared[holders[place]].append(variables)
                variances[holders[place]].append(variance)
    return [
        Reconciled(count, table, tuple(sets), (*of_sets, table.variance))
        for count, table, sets, of_sets in zip(counts, tables, shared, variances, strict=True)
    ]


class _Stack(NamedTuple):
    """Tables of one shape that hold the same variables in the same places.

    Attributes
    ----------
    places : list of int
        Of the tables among others.
    counts : ndarray
        A table for each place in the first dimension.
    turned : ndarray
        The same memory, with dimensions of the shared variables before all others.
    n_shared : int
        How many there are.
    """

    places: list[int]
    counts: np.ndarray
    turned: np.ndarray
    n_shared: int

    def margins(self) -> np.ndarray:
        """Sums over all other variables."""
        return self.turned.sum(axis=tuple(range(1 + self.n_shared, self.turned.ndim)))

    def add(self, off: np.ndarray) -> None:
        """Add to the margins, by equal parts in all cells."""
        others = self.turned.shape[1 + self.n_shared :]
        each = off.reshape(off.shape + (1,) * len(others)) / prod(others)
        np.add(self.turned, each, out=self.turned)


def _stacks(
    variables: _Variables, axes: Sequence[Sequence[Hashable]], counts: Sequence[np.ndarray]
) -> list[_Stack]:
    """Tables that hold some variables, whose margins then have them in one order."""
    order = [name for name in axes[0] if name in variables]
    alike: dict[Any, list[int]] = {}
    for place, (names, table) in enumerate(zip(axes, counts, strict=True)):
        alike.setdefault((table.shape, *[names.index(name) for name in order]), []).append(place)
    found = []
    for (shape, *shared), places in alike.items():
        stack = np.array([counts[place] for place in places])
        others = [axis for axis in range(len(shape)) if axis not in shared]
        turned = stack.transpose([0, *(axis + 1 for axis in (*shared, *others))])
        found.append(_Stack(places, stack, turned, len(shared)))
    return found


@lru_cache(maxsize=1 << 12)
def _parts_of_margin(
    shape: tuple[int, ...],
    axes: tuple[Hashable, ...],
    margin: tuple[Hashable, ...],
    shared: tuple[_Variables, ...],
) -> list[float]:
    """How much of the noise of each average, and of the table itself, a cell of a margin has.

    Parameters
    ----------
    shape, axes : tuple
        Of the table.
    margin : tuple
        The variables that the margin has.
    shared : tuple of sets of variables
        What was set to averages, in turn.
    """
    kept = [name in margin for name in axes]
    every = [[name in held for name in axes] for held in (*shared, axes)]
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
    if len(tables) == 1:
        return [frozenset()] if with_total else []
    often = Counter(name for table in tables for name in table.axes)
    # Variables of one table cannot be shared, and without them many tables are alike.
    held = Counter(frozenset(name for name in table.axes if often[name] > 1) for table in tables)
    found = {variables for variables, count in held.items() if count > 1}
    found |= {first & second for first, second in combinations(held, 2)}
    while more := {first & second for first, second in combinations(found, 2)} - found:
        found |= more
    if with_total:
        found.add(frozenset())
    elif not any(found):
        found.discard(frozenset())
    return sorted(found, key=lambda variables: (len(variables), sorted(map(repr, variables))))


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(places) + 1):
        yield from combinations(places, size)
