"""How far pairs of columns are from independence, as numbers that a record changes little."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .._contributions import count_cells


def pairs_of(columns: Sequence[Any]) -> list[tuple[Any, Any]]:
    """All pairs, in the order of the scores."""
    return list(combinations(columns, 2))


def expected_counts(first: np.ndarray, second: np.ndarray, total: float) -> np.ndarray:
    """The counts of a pair of independent columns, rounded to whole numbers."""
    return np.rint(total * np.outer(first, second))


def distances(
    codes: Mapping[Any, np.ndarray], shares: Mapping[Any, np.ndarray], total: float
) -> np.ndarray:
    """The l1 distance of each pair's counts from those of independent columns.

    Distances are from public tables of whole numbers, so that they are whole, exact, and
    change by no more than the counts do: docs/theory.md, section 17.

    Parameters
    ----------
    codes : dict of ndarray of int
        State numbers of each column. Exact.
    shares : dict of ndarray
        Released shares of the states of each column.
    total : float
        The released, or public, number of records.

    Returns
    -------
    ndarray of shape (n_pairs,)
        Exact.
    """
    found = np.empty(len(pairs_of(list(codes))))
    for k, (first, second) in enumerate(pairs_of(list(codes))):
        expected = expected_counts(shares[first], shares[second], total)
        cells = codes[first] * np.int64(expected.shape[1]) + codes[second]
        counts = count_cells(cells, expected.size)
        found[k] = np.abs(counts - expected.ravel()).sum()
    return found


def above_chance(noisy: np.ndarray, shares: Mapping[Any, np.ndarray], total: float) -> np.ndarray:
    """Released distances less those that independent columns have by chance, as a matrix."""
    columns = list(shares)
    scores = np.zeros((len(columns), len(columns)))
    for value, (i, j) in zip(noisy, pairs_of(range(len(columns))), strict=True):
        expected = total * np.outer(shares[columns[i]], shares[columns[j]])
        # The mean of |x - m| is about sqrt(2 m / pi) for a count x of mean m.
        scores[i, j] = scores[j, i] = value - np.sqrt(2 / np.pi * expected).sum()
    return scores
