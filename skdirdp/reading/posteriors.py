"""Tables that are read together, in blocks that fit into memory."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..numerics.blocks import row_blocks
from .lookup import look_up
from .mixture import Cells, Flat, Parts, Rows, common_weights, row_weights

# Of a table that has more cells, weights are learnt from about so many; of all tables, from so
# many. Read at once is at most a block.
_ENOUGH, _ENOUGH_OF_ALL, _BLOCK = 1 << 11, 1 << 15, 1 << 15
# Large tables are looked up if rows are long.
_LARGE, _LONG = 1 << 14, 64


class Posterior(NamedTuple):
    """What parts of their rows counts are in the mean, and the variances of these parts."""

    shares: np.ndarray
    variances: np.ndarray | None


def read_cells(groups: Sequence[Cells], first: np.ndarray) -> list[Posterior]:
    """The posteriors of the cells of several tables of one kind.

    Parameters
    ----------
    groups : sequence of Cells
        One for each table.
    first : ndarray
        The weights of the prior's parts before anything is seen: `OF_ROWS` or `OF_POOLS`.

    Returns
    -------
    list of Posterior
    """
    if sum(group.noisy.size for group in groups) <= _BLOCK:
        rows, parts = _parts(groups)
        return _posteriors(groups, rows, parts, common_weights(parts.likelihood, first))
    some = [_some(group) for group in groups]
    step = -(-sum(group.noisy.size for group in some) // _ENOUGH_OF_ALL)
    sampled = _parts(some[::step])
    common = common_weights(sampled[1].likelihood, first)
    found: list[Posterior] = []
    for batch in _batches(groups):
        if _is_long(batch[0]):
            sample = sampled if len(groups) == 1 else _parts([_some(batch[0])])
            found.append(_looked_up(batch[0], *sample, common))
        elif len(batch) > 1 or batch[0].noisy.size <= _BLOCK:
            found += _posteriors(batch, *_parts(batch), common)
        else:
            found.append(_in_blocks(batch[0], common))
    return found


def _is_long(group: Cells) -> bool:
    return group.noisy.size > _LARGE and group.width >= _LONG and len(group.shares) == 1


def _some(group: Cells) -> Cells:
    """Cells of a table at equal distances, no more than are needed."""
    step = -(-group.noisy.size // _ENOUGH)
    if step == 1:
        return group
    return (
        group.columns(slice(None, None, step))
        if _is_long(group)
        else group.rows(slice(None, None, step))
    )


def _batches(groups: Sequence[Cells]) -> Iterator[list[Cells]]:
    """Tables that are read at once: large ones alone, others while they are within a block."""
    batch: list[Cells] = []
    size = 0
    for group in groups:
        alone = _is_long(group)
        if batch and (alone or size + group.noisy.size > _BLOCK):
            yield batch
            batch, size = [], 0
        if alone:
            yield [group]
        else:
            batch.append(group)
            size += group.noisy.size
    if batch:
        yield batch


def _parts(groups: Sequence[Cells]) -> tuple[Rows, Parts]:
    rows = Rows.of(groups)
    return rows, Parts.of(Flat.of(groups, rows))


def _posteriors(
    groups: Sequence[Cells], rows: Rows, parts: Parts, common: np.ndarray
) -> list[Posterior]:
    weights = row_weights(parts.likelihood, rows, common)
    mean, variance = parts.moments(weights[:, rows.of_cells])
    total = np.add.reduceat(mean, rows.starts)[rows.of_cells]
    mean /= total
    variance /= total**2
    found, start = [], 0
    for group in groups:
        shape, stop = group.noisy.shape, start + group.noisy.size
        here = (each[start:stop].reshape(shape) for each in (mean, variance))
        found.append(Posterior(*here))
        start = stop
    return found


def _in_blocks(group: Cells, common: np.ndarray) -> Posterior:
    found: list[Posterior] = []
    for chosen in row_blocks(len(group.noisy), group.width, _BLOCK):
        part = [group.rows(chosen)]
        found += _posteriors(part, *_parts(part), common)
    return Posterior(
        np.concatenate([each.shares for each in found]),
        np.concatenate([each.variances for each in found]),
    )


def _looked_up(group: Cells, rows: Rows, parts: Parts, common: np.ndarray) -> Posterior:
    """By the weights that rows have in a sample of their cells."""
    mean, variance = look_up(group, row_weights(parts.likelihood, rows, common))
    total = mean.sum(axis=1, keepdims=True)
    mean /= total
    if variance is not None:
        variance /= total**2
    return Posterior(mean, variance)
