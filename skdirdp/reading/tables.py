"""From noisy tables to what they most likely held."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from .._validation import check_real
from .margins import Reconciled, reconcile
from .mixture import OF_POOLS, OF_ROWS, Cells, varying
from .noisy import NoisyTable
from .posteriors import Posterior, read_cells


@dataclass(frozen=True)
class ReadTable:
    """What a table most likely held, with what was seen of it.

    Attributes
    ----------
    counts : ndarray
        Positive.
    seen : Reconciled
        Noisy counts that agree with those of other tables. Some may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.reading import Noise, NoisyTable, read_tables
    >>> (read,) = read_tables([NoisyTable(np.array([60.0, 50.0]), Noise(4.0), ("x",))], total=110)
    >>> lower, upper = read.limits(0.95)
    >>> bool((lower < 6 / 11).any() and (upper > 6 / 11).any())
    True
    """

    counts: np.ndarray
    seen: Reconciled

    def limits(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Limits for the true share of each cell in its row.

        They rest on the noise alone, and not on what rows are like: those of a cell and those of
        its row's sum both hold with the probability that is asked for, whatever the data are.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Of the limits of one cell.

        Returns
        -------
        lower, upper : ndarray
        """
        check_real("confidence", confidence, above=0, below=1)
        noisy, axes = self.seen.counts, self.seen.table.axes
        reach = self.seen.table.noise.reach((1 + confidence) / 2)
        variance, slope = self.seen.variance(axes), self.seen.table.noise.per_count
        off = reach * np.sqrt(varying(noisy, variance, slope, noisy.mean()))
        row_off = reach * np.sqrt(self.seen.variance(axes[:-1]))
        row = noisy.sum(axis=-1, keepdims=True)
        least, most = np.maximum(row - row_off, 0.0), np.maximum(row + row_off, 0.0)
        low, high = np.maximum(noisy - off, 0.0), np.maximum(noisy + off, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(most > 0, low / most, 0.0)
            upper = np.where(least > 0, high / least, 1.0)
        return np.minimum(lower, 1.0), np.minimum(upper, 1.0)


def read_tables(
    tables: Sequence[NoisyTable],
    total: float | None = None,
    rows: Sequence[np.ndarray | None] | None = None,
) -> list[ReadTable]:
    """The tables of a model, read together.

    Tables are made to agree where they count the same records by the same variables. Then each
    is read from coarse to fine: the last variable by itself, given each of the others, and given
    all of them; every time the coarser reading is what the rows of the finer one are expected to
    be like.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records in each table.
    rows : sequence of ndarray or None, optional
        For a table of two variables, in what proportions its rows are expected to be; by
        default they are equal.

    Returns
    -------
    list of ReadTable

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.reading import Noise, NoisyTable, read_tables
    >>> noisy = np.array([[430.0, 52.0, -11.0], [390.0, 61.0, 7.0]])
    >>> (read,) = read_tables([NoisyTable(noisy, Noise(400.0), ("class", "x"))])
    >>> bool((read.counts > 0).all())
    True
    """
    if not tables:
        return []
    expected = [None] * len(tables) if rows is None else list(rows)
    known: dict[Hashable, np.ndarray] = {}
    readers = [
        _Reader(table, total, shares, known)
        for table, shares in zip(reconcile(tables, total), expected, strict=True)
    ]
    for stage, first in (
        (_Reader.alone, OF_POOLS),
        (_Reader.by_one, OF_ROWS),
        (_Reader.by_all, OF_ROWS),
    ):
        waiting = [(reader, cells) for reader in readers for cells in stage(reader)]
        if waiting:
            found = read_cells([cells for _, cells in waiting], first)
            for (reader, _), posterior in zip(waiting, found, strict=True):
                reader.keep(posterior)
    return [reader.result() for reader in readers]


class _Reader:
    """One table on its way from coarse to fine."""

    def __init__(
        self,
        table: Reconciled,
        total: float | None,
        shares: np.ndarray | None,
        known: dict[Hashable, np.ndarray],
    ):
        self._table, self._known = table, known
        *self._given, self._last = table.table.axes
        if total is None:
            # Of a table that nothing is seen in, the noise is all that can be told.
            total = max(table.counts.sum(), np.sqrt(table.variance(())))
        self._total = float(total)
        self._found: list[Posterior] = []
        self._margins = [self._read_margin(name, shares) for name in self._given]
        self._rows = self._read_rows()

    # What rows hold ----------------------------------------------------------------

    def _read_margin(self, name: Hashable, shares: np.ndarray | None) -> np.ndarray:
        """The records by one variable; those of a variable that tables share are read once."""
        if name in self._known:
            return self._known[name]
        size = self._table.counts.shape[self._given.index(name)]
        centre = np.full(size, 1 / size) if shares is None else shares / shares.sum()
        read = self._read([name], self._total * centre)
        if any(name in variables for variables, _ in self._table.shared):
            self._known[name] = read
        return read

    def _read_rows(self) -> np.ndarray:
        """The records in each row, which are expected to be as if variables were independent."""
        if len(self._margins) < 2:
            return self._margins[0] if self._margins else np.array(self._total)
        expected = np.array(self._total)
        for margin in self._margins:
            expected = np.multiply.outer(expected, margin / self._total)
        return self._read(self._given, expected)

    def _read(self, axes: Sequence[Hashable], expected: np.ndarray) -> np.ndarray:
        cells = Cells(
            self._table.margin(axes).reshape(1, -1),
            self._table.variance(axes),
            0.0,
            expected.reshape(1, -1) / self._total,
            np.zeros((1, expected.size)),
            np.array([self._total]),
            np.zeros(1),
            expected.size,
            is_last=True,
        )
        return self._total * read_cells([cells], OF_POOLS)[0].shares.reshape(expected.shape)

    # What they are like ------------------------------------------------------------

    def alone(self) -> list[Cells]:
        """The last variable, expected to have equal shares."""
        size = self._table.counts.shape[-1]
        even = np.full((1, size), 1 / size)
        return [self._cells([], even, np.zeros((1, size)), self._total, 0.0)]

    def by_one(self) -> list[Cells]:
        """The last variable given each of the others, expected to be what it is alone."""
        if not self._given:
            return []
        return [
            self._cells([name], *self._found[0], margin, margin / self._total)
            for name, margin in zip(self._given, self._margins, strict=True)
        ]

    def by_all(self) -> list[Cells]:
        """Given all others, each expected to change what is expected by its own factor."""
        if len(self._given) < 2:
            return []
        alone = self._found[0][0][0]
        size, shape = len(alone), self._rows.shape
        mean = np.broadcast_to(alone, (*shape, size))
        relative, part = np.zeros((*shape, size)), np.zeros(shape)
        for axis, (margin, (given, variance)) in enumerate(
            zip(self._margins, self._found[1:], strict=True)
        ):
            along = [-1 if i == axis else 1 for i in range(len(shape))]
            mean = mean * (given / alone).reshape(*along, size)
            relative = relative + (variance / given**2).reshape(*along, size)
            part = np.maximum(part, self._rows / margin.reshape(along))
        mean = (mean / mean.sum(axis=-1, keepdims=True)).reshape(-1, size)
        variance = mean**2 * np.minimum(relative, 1.0).reshape(-1, size)
        return [self._cells(self._given, mean, variance, self._rows, np.minimum(part, 1.0))]

    def _cells(self, given, shares, variances, rows, part) -> Cells:
        axes = [*given, self._last]
        noisy = self._table.margin(axes)
        return Cells(
            noisy.reshape(-1, noisy.shape[-1]),
            self._table.variance(axes),
            self._table.table.noise.per_count,
            shares,
            variances,
            np.reshape(rows, -1),
            np.reshape(part, -1),
            noisy.shape[-1],
            is_last=len(given) == len(self._given),
        )

    def keep(self, found: Posterior) -> None:
        self._found.append(found)

    def result(self) -> ReadTable:
        shares = self._found[-1].shares
        if not self._given and self._last in self._known:  # as rows of other tables are
            shares = self._known[self._last][np.newaxis] / self._total
        counts = np.multiply(self._rows.reshape(-1, 1), shares, out=shares)
        return ReadTable(counts.reshape(self._table.counts.shape), self._table)
