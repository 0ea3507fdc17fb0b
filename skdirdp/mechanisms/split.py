"""How a budget is split over the tables of a network.

All tables share one scale of noise; a table of precision s gets noise s times smaller, and
costs about s squared times as much. Precisions are chosen from public sizes alone.
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
# What a table of classes gets of the squared sensitivity of a table of word counts.
_SIDE_PART = 0.1

#: The parameter that a precision multiplies (1) or divides (-1).
_SCALES = {"dirichlet": ("r", 1), "gaussian": ("sigma", -1), "laplace": ("scale", -1)}

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
    """What the noise is expected to cost in log-likelihood per record."""
    return sum(
        mechanism.expected_divergence(table.n_samples, table.n_categories, table.n_rows)
        for table, mechanism in zip(tables, mechanisms, strict=True)
    )


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
                count
                * _with_precision(mechanism, precision).expected_divergence(
                    table.n_samples, table.n_categories, table.n_rows
                )
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


def _with_precision(mechanism: Mechanism, precision: float) -> Mechanism:
    parameter, power = _SCALES[mechanism.name]
    return replace(mechanism, **{parameter: getattr(mechanism, parameter) * precision**power})


def precision_beside(
    tables: Sequence[CountTable], contribution: ContributionBound, adjacency: str
) -> float:
    """Precision of a small table, such as that of the classes, beside large ones.

    One record may move the others by many counts and this one by a single count, so that
    at equal noise it would cost little and be worth little. It gets as much as any of
    them, or a tenth of their mean squared sensitivity where that is more.
    """
    if not tables:
        return 1.0
    others = sum(table.contribution.squared_norm(adjacency) for table in tables) / len(tables)
    return max(1.0, float(np.sqrt(_SIDE_PART * others / contribution.squared_norm(adjacency))))
