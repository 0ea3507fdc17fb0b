"""From noisy tables to what they most likely held."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from .margins import Reconciled, reconcile
from .mixture import Cells, Posterior, read_cells
from .noisy import NoisyTable

_Axes = tuple[Hashable, ...]


@dataclass(frozen=True)
class ReadTable:
    """What a table most likely held.

    Attributes
    ----------
    counts : ndarray
        Positive.
    deviations : ndarray
        How far counts may be off, by the same posterior.
    """

    counts: np.ndarray
    deviations: np.ndarray


def read_tables(
    tables: Sequence[NoisyTable],
    total: float | None = None,
    rows: Sequence[np.ndarray | None] | None = None,
) -> list[ReadTable]:
    """The tables of a model, read together.

    Tables are made to agree where they count the same records by the same variables. Then each
    is read from coarse to fine: the last variable by itself, given the first, given the first
    two, and so on; every time the coarser reading is what the rows of the finer one are expected
    to be like.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records in each table.
    rows : sequence of ndarray or None, optional
        For a table of two variables, what shares its rows are expected to have; by default
        equal ones.

    Returns
    -------
    list of ReadTable

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.mechanisms.noise import Noise
    >>> from skdirdp.reading import NoisyTable, read_tables
    >>> noisy = np.array([[430.0, 52.0, -11.0], [390.0, 61.0, 7.0]])
    >>> (read,) = read_tables([NoisyTable(noisy, Noise(400.0), ("class", "x"))])
    >>> bool((read.counts > 0).all())
    True
    """
    if not tables:
        return []
    reconciled = reconcile(tables, total)
    expected = [None] * len(tables) if rows is None else list(rows)
    readers = [
        _Reader(table, shares, total) for table, shares in zip(reconciled, expected, strict=True)
    ]
    known: dict[_Axes, np.ndarray] = {}
    for reader in readers:
        reader.read_rows(known)
    for depth in range(max(table.counts.ndim for table in tables)):
        waiting = [reader for reader in readers if reader.depth > depth]
        for reader, found in zip(
            waiting, read_cells([reader.cells(depth) for reader in waiting]), strict=True
        ):
            reader.keep(depth, found)
    return [reader.result() for reader in readers]


class _Reader:
    """One table on its way from coarse to fine."""

    def __init__(self, table: Reconciled, shares: np.ndarray | None, total: float | None):
        self._table = table
        self._axes = table.table.axes
        self._shares = shares
        # Of a table that nothing is seen in, the noise is all that can be told.
        least = np.sqrt(table.variance(()))
        self._total = float(max(table.counts.sum(), least)) if total is None else float(total)
        self._rows = [np.array(self._total)]
        self._mean: np.ndarray | None = None
        self._variance: np.ndarray | None = None

    @property
    def depth(self) -> int:
        return self._table.counts.ndim

    def read_rows(self, known: dict[_Axes, np.ndarray]) -> None:
        """What rows hold: by the first variable, by the first two, and so on.

        Each is expected to be what it were if the last variable did not depend on the others.
        """
        shared = {variables for variables, _ in self._table.shared}
        for depth in range(1, self.depth):
            axes = self._axes[:depth]
            if axes in known:
                self._rows.append(known[axes])
                continue
            share = self._own_share(depth)
            read = self._read_row(axes, self._rows[-1][..., np.newaxis] * share)
            self._rows.append(read)
            if frozenset(axes) in shared:
                known[axes] = read

    def _own_share(self, depth: int) -> np.ndarray:
        size = self._table.counts.shape[depth - 1]
        if depth == 1:
            return np.full(size, 1 / size) if self._shares is None else self._shares
        alone = self._read_row(self._axes[depth - 1 : depth], np.full(size, self._total / size))
        return alone / alone.sum()

    def _read_row(self, axes: _Axes, centre: np.ndarray) -> np.ndarray:
        noisy = self._table.margin(axes)
        cells = Cells(
            noisy.reshape(1, -1),
            np.array(self._table.variance(axes)),
            centre.reshape(1, -1),
            np.array(0.0),
            np.array([[self._total]]),
        )
        read = read_cells([cells])[0].mean.reshape(noisy.shape)
        return read * (self._total / read.sum())

    def cells(self, depth: int) -> Cells:
        """The table by its first variables and its last, with what rows are expected to be."""
        axes = (*self._axes[:depth], self._axes[-1])
        noisy = self._table.margin(axes)
        size = noisy.shape[-1]
        rows = self._rows[depth].reshape(-1, 1)
        if self._mean is None:
            mean, variance = np.full((1, size), 1 / size), np.zeros((1, size))
        else:
            assert self._variance is not None
            below = self._table.counts.shape[depth - 1]
            mean, variance = (np.repeat(each, below, axis=0) for each in (self._mean, self._variance))
        flat = noisy.reshape(-1, size)
        noise = self._table.variance(axes)
        slope = self._table.table.noise.per_count
        spread = np.array(noise) if slope == 0 else noise + slope * (flat - flat.mean())
        return Cells(
            flat,
            np.maximum(spread, noise / 2),
            rows * mean,
            rows**2 * variance,
            rows,
        )

    def keep(self, depth: int, found: Posterior) -> None:
        """The shares of each row, for the next step or as the last."""
        total = found.mean.sum(axis=1, keepdims=True)
        self._mean, self._variance = found.mean / total, found.variance / total**2

    def result(self) -> ReadTable:
        assert self._mean is not None
        assert self._variance is not None
        rows = self._rows[-1].reshape(-1, 1)
        shape = self._table.counts.shape
        return ReadTable(
            (rows * self._mean).reshape(shape), (rows * np.sqrt(self._variance)).reshape(shape)
        )
