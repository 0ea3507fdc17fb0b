"""The split of a budget over the tables of a model.

All tables have one common scale of noise; a table of precision s gets noise s times smaller,
and costs about s squared times as much. Precisions are chosen from public sizes alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from .base import Mechanism
from .contribution import ContributionBound
from .table import CountTable

SPLITS = ("even", "optimised")

# Precisions from 1/4 to 4. A grid, so that few kinds of table have to be composed.
_PRECISIONS = 2.0 ** (np.arange(-8, 9) / 4)
_BISECTIONS = 60

# The part of their mean squared sensitivity that a table gets beside tables of which a
# record changes more: at equal noise it would cost little and be worth little.
_PART_BESIDE = 0.1

Calibrate = Callable[[Sequence[CountTable]], list[Mechanism]]


def calibrate_split(tables: Sequence[CountTable], calibrate: Calibrate) -> list[Mechanism]:
    """Mechanisms within one budget: the better of an even split and an optimised one.

    The better is that of least expected divergence, which sees no data.
    """
    even = calibrate(tables)
    precisions = _precisions(tuple(tables), tuple(even))
    uneven = calibrate(
        [
            replace(table, precision=precision)
            for table, precision in zip(tables, precisions, strict=True)
        ]
    )
    return min((even, uneven), key=lambda found: expected_divergence(tables, found))


def expected_divergence(tables: Sequence[CountTable], mechanisms: Sequence[Mechanism]) -> float:
    """The expected loss of log-likelihood per record, through the noise."""
    return sum(
        mechanism.expected_divergence(table)
        for table, mechanism in zip(tables, mechanisms, strict=True)
    )


def precision_beside(
    tables: Sequence[CountTable], contribution: ContributionBound, adjacency: str
) -> float:
    """The precision of a further table, of which a record may change less than of the others.

    As much as any other table, or more where those have many counts per record, as a
    class prior beside a table of word counts.

    Parameters
    ----------
    tables : sequence of CountTable
        The others.
    contribution : ContributionBound
        The bound on a record's entries in the further table.
    adjacency : {"replace", "add_remove"}

    Returns
    -------
    float
        At least 1.

    Examples
    --------
    >>> from skdirdp.mechanisms.contribution import ContributionBound
    >>> from skdirdp.mechanisms.split import precision_beside
    >>> from skdirdp.mechanisms.table import CountTable
    >>> words = CountTable(1000, 500, 2, ContributionBound(max_count=10, max_total=100))
    >>> precision_beside([words], ContributionBound(), "replace")
    10.0
    """
    if not tables:
        return 1.0
    norms = [table.precision**2 * table.contribution.squared_norm(adjacency) for table in tables]
    others = sum(norms) / len(norms)
    own = contribution.squared_norm(adjacency)
    return max(1.0, float(np.sqrt(_PART_BESIDE * others / own)))


@lru_cache(maxsize=256)
def _precisions(
    tables: tuple[CountTable, ...], mechanisms: tuple[Mechanism, ...]
) -> tuple[float, ...]:
    """Precisions of least expected divergence at about the cost of an even split.

    With a price on squared precisions every table is by itself; the price is then sought at
    which they cost as much as before. A search over a grid, since the divergence is not
    convex in the precision: it levels off where noise drowns the table.
    """
    kinds = Counter(zip(tables, mechanisms, strict=True))
    divergence = np.array(
        [
            [
                count * mechanism.with_precision(float(precision)).expected_divergence(table)
                for precision in _PRECISIONS
            ]
            for (table, mechanism), count in kinds.items()
        ]
    )
    counts = np.array(list(kinds.values()))

    def chosen(price):
        return _PRECISIONS[
            np.argmin(divergence + price * counts[:, np.newaxis] * _PRECISIONS**2, axis=1)
        ]

    low, high = -60.0, 60.0  # logarithms of the price
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if counts @ chosen(np.exp(middle)) ** 2 > len(tables):
            low = middle
        else:
            high = middle
    precisions = dict(zip(kinds, chosen(np.exp(high)).tolist(), strict=True))
    return tuple(precisions[kind] for kind in zip(tables, mechanisms, strict=True))
