"""Proposals for all cells, again for those that were refused, until each has one."""

from collections.abc import Callable

import numpy as np

#: Cells that are proposed for at once: what a proposal needs then stays in the cache.
BLOCK = 1 << 14
# So few cells cost as much as one: each gets several proposals, and keeps the first that
# is accepted, which is the one that single proposals would have found.
_FEW = 1 << 10
_MOST_REPEATS = 4

#: From cells (a slice or indices) to which proposals were accepted, and what was drawn.
Propose = Callable[[slice | np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]]


def fill(size: int, propose: Propose, *outputs: np.ndarray) -> None:
    """Fill arrays with the first accepted proposal of every cell.

    Parameters
    ----------
    size : int
    propose : callable
        Called with cells; returns a mask of those whose proposal was accepted, and one
        array of proposals per output, in which the values of the others do not matter.
    *outputs : ndarray
        One-dimensional, of that size; filled in place.
    """
    few = 2 * size <= _FEW
    left = np.arange(size) if few else _fill_blocks(size, propose, outputs)
    while left.size:
        cells, rest = left[:BLOCK], left[BLOCK:]
        repeats = min(max(_FEW // cells.size, 1), _MOST_REPEATS)
        accepted, drawn = propose(np.tile(cells, repeats))
        accepted = accepted.reshape(repeats, cells.size)
        first = accepted.argmax(axis=0)
        found = accepted.any(axis=0)
        position = (first * cells.size + np.arange(cells.size))[found]
        for output, values in zip(outputs, drawn, strict=True):
            output[cells[found]] = values[position]
        left = np.concatenate([rest, cells[~found]])


def _fill_blocks(size: int, propose: Propose, outputs: tuple[np.ndarray, ...]) -> np.ndarray:
    """One proposal for every cell; the indices of those that were refused."""
    refused = []
    length = -(-size // -(-size // BLOCK))  # of as many blocks, all of about one length
    for start in range(0, size, length):
        block = slice(start, min(start + length, size))
        accepted, drawn = propose(block)
        for output, values in zip(outputs, drawn, strict=True):
            output[block] = values
        refused.append(np.flatnonzero(~accepted) + start)
    return np.concatenate(refused)
