"""Tables that are read together, in blocks that fit into memory."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from ..numerics.rows import row_blocks
from .lookup import look_up
from .mixture import (
    LONG,
    Cells,
    Flat,
    Parts,
    Rows,
    Start,
    Starts,
    cautious,
    common_weights,
    given_sum,
    given_sums,
    row_weights,
)

# Of a table that has more cells, weights are learnt from about so many; of all tables, from so
# many. Read at once is at most a block.
_ENOUGH, _ENOUGH_OF_ALL, _BLOCK = 1 << 12, 1 << 15, 1 << 15
# Tables of long rows are looked up if they are large.
_LARGE = 1 << 13


class Posterior(NamedTuple):
    """What parts of their rows counts are in the mean, and the variances of these parts."""

    shares: np.ndarray
    variances: np.ndarray | None


def read_cells(groups: Sequence[Cells], starts: Starts) -> list[Posterior]:
    """The posteriors of the cells of several tables of one kind.

    Parameters
    ----------
    groups : sequence of Cells
        One for each table.
    starts : Starts
        Where the weights of the prior's parts start: `OF_ROWS` or `OF_POOLS`.

    Returns
    -------
    list of Posterior
    """
    kinds = [int(not group.has_neighbours) for group in groups]
    if len(set(kinds)) < 2:
        return read_alike(groups, starts[kinds[0]]) if groups else []
    # Words and categories have little to tell of each other.
    found = [
        iter(
            read_alike(
                [group for group, own in zip(groups, kinds, strict=True) if own == kind], start
            )
        )
        for kind, start in enumerate(starts)
    ]
    return [next(found[kind]) for kind in kinds]


def read_alike(groups: Sequence[Cells], start: Start) -> list[Posterior]:
    """The same of tables all of whose cells have neighbours, or none, from one start."""
    size = sum(group.noisy.size for group in groups)
    if size <= _BLOCK and not any(map(_is_large, groups)):
        return _posteriors(groups, start)
    if len(groups) == 1 and _is_large(groups[0]):
        return [_looked_up(groups[0], _weights_of_rows(groups[0], start))]
    some = [_some(group) for group in groups]
    step = -(-sum(group.noisy.size for group in some) // _ENOUGH_OF_ALL)
    common = common_weights(_parts(some[::step], start)[2].likelihood, start)
    found: list[Posterior] = []
    for batch in _batches(groups):
        if _is_large(batch[0]):
            found.append(_looked_up(batch[0], _weights_of_rows(batch[0], start, common)))
        elif len(batch) > 1 or batch[0].noisy.size <= _BLOCK:
            found += _posteriors(batch, start, common)
        else:
            found.append(_in_blocks(batch[0], start, common))
    return found


def _is_large(group: Cells) -> bool:
    return group.noisy.size > _LARGE and group.width >= LONG and len(group.shares) == 1


def _some(group: Cells) -> Cells:
    """Cells of a table at equal distances, no more than are needed."""
    step = -(-group.noisy.size // _ENOUGH)
    if step == 1:
        return group
    return (
        group.columns(slice(None, None, step))
        if _is_large(group)
        else group.rows(slice(None, None, step))
    )


def _batches(groups: Sequence[Cells]) -> Iterator[list[Cells]]:
    """Tables that are read at once: large ones alone, others while they are within a block."""
    batch: list[Cells] = []
    size = 0
    for group in groups:
        alone = _is_large(group)
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


def _parts(groups: Sequence[Cells], start: Start) -> tuple[Rows, Flat, Parts]:
    rows = Rows.of(groups)
    cells = Flat.of(groups, rows, start.neighbours)
    return rows, cells, Parts.of(cells)


def _posteriors(
    groups: Sequence[Cells], start: Start, common: np.ndarray | None = None
) -> list[Posterior]:
    """By the weights of a model, or those that these tables are a model of."""
    rows, cells, parts = _parts(groups, start)
    if common is None:
        common = common_weights(parts.likelihood, start)
    weights = row_weights(parts.likelihood, rows, common)
    mean, variance = parts.moments(weights.take(rows.of_cells, axis=1))
    if not cells.of_words:
        sums = cells.total.take(rows.starts)
        uncertain = np.repeat(
            [group.total_variance for group in groups], [len(group.noisy) for group in groups]
        )
        mean = given_sums(mean, variance, sums, uncertain, rows)
    caution = np.array([group.caution for group in groups])
    if caution.any():
        caution = np.repeat(caution, [group.noisy.size for group in groups])
        mean = cautious(mean, cells.variance, cells.mean, caution)
    total = np.add.reduceat(mean, rows.starts).take(rows.of_cells)
    return _by_table(groups, np.array([mean / total, variance / total**2]))


def _by_table(groups: Sequence[Cells], found: np.ndarray) -> list[Posterior]:
    """Shares and their variances, each in one run, in the shapes of the tables."""
    shapes = [group.noisy.shape for group in groups]
    if len(set(shapes)) == 1:
        return list(map(Posterior, *found.reshape(2, -1, *shapes[0])))
    ends = accumulate((group.noisy.size for group in groups), initial=0)
    return [
        Posterior(*found[:, first:last].reshape(2, *shape))
        for (first, last), shape in zip(pairwise(ends), shapes, strict=True)
    ]


def _in_blocks(group: Cells, start: Start, common: np.ndarray) -> Posterior:
    found: list[Posterior] = []
    for chosen in row_blocks(len(group.noisy), group.width, _BLOCK):
        found += _posteriors([group.rows(chosen)], start, common)
    return Posterior(
        np.concatenate([each.shares for each in found]),
        np.concatenate([each.variances for each in found]),
    )


def _weights_of_rows(group: Cells, start: Start, common: np.ndarray | None = None) -> np.ndarray:
    """The weights that rows have in a sample of their cells."""
    rows, _, parts = _parts([_some(group)], start)
    if common is None:
        common = common_weights(parts.likelihood, start)
    return row_weights(parts.likelihood, rows, common)


def _looked_up(group: Cells, weights: np.ndarray) -> Posterior:
    mean, variance = look_up(group, weights)
    if variance is not None and not group.of_words:
        for row, of_row, total in zip(mean, variance, group.total, strict=True):
            row[:] = given_sum(row, of_row, total, group.total_variance)
    total = mean.sum(axis=1, keepdims=True)
    mean /= total
    if variance is not None:
        variance /= total**2
    return Posterior(mean, variance)
