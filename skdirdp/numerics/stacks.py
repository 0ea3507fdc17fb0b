"""Arrays of one shape worked on at once: of small ones, a call takes longer than its work."""

from collections.abc import Iterator, Sequence

import numpy as np


def stacks_by_shape(arrays: Sequence[np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
    """Copies of the arrays of each shape in one array, along its first dimension.

    Parameters
    ----------
    arrays : sequence of ndarray

    Yields
    ------
    places : list of int
        Where in the sequence these are.
    stack : ndarray
    """
    places: dict[tuple[int, ...], list[int]] = {}
    for place, array in enumerate(arrays):
        places.setdefault(array.shape, []).append(place)
    for alike in places.values():
        yield alike, np.array([arrays[place] for place in alike])
