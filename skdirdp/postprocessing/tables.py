"""From noisy tables to what they most likely held."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._validation import check_real
from ..mechanisms.tables import Noise
from .margins import NoisyTable, Reconciled, reconcile
from .mixture import LONG, OF_POOLS, OF_ROWS, Cells, varying
from .posteriors import Posterior, read_cells

#: What is added to a count that may be nothing, in deviations of its noise, by the kind of model.
CAUTION_OF_NETWORKS, CAUTION_OF_INDEPENDENCE = 0.08, 0.35


@dataclass(frozen=True)
class ReadTable:
    """What a table most likely held, with what was seen of it.

    Attributes
    ----------
    counts : ndarray
        Positive.
    noisy : ndarray
        What was seen: noisy counts that agree with those of other tables. Some may be negative.
    variance, row_variance : float
        Of their noise on average, and of that of the sum of a row.
    noise : Noise
        As it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, read_tables
    >>> (read,) = read_tables([NoisyTable(np.array([60.0, 50.0]), Noise(4.0), ("x",))], total=110)
    >>> lower, upper = read.limits(0.95)
    >>> bool((lower < 6 / 11).any() and (upper > 6 / 11).any())
    True
    """

    counts: np.ndarray
    noisy: np.ndarray
    variance: float
    row_variance: float
    noise: Noise

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
        noisy = self.noisy
        reach = self.noise.reach((1 + confidence) / 2)
        variances = varying(noisy, self.variance, self.noise.per_count, noisy.mean())
        off, row_off = reach * np.sqrt(variances), reach * np.sqrt(self.row_variance)
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
    caution: float = 0.0,
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
    caution : float, default=0
        How far no cell is to be read as surely empty, in deviations of its noise: for models
        that multiply many shares, and the more so if they do as if these were independent, and
        are too sure of themselves already.

    Returns
    -------
    list of ReadTable

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, read_tables
    >>> noisy = np.array([[430.0, 52.0, -11.0], [390.0, 61.0, 7.0]])
    >>> (read,) = read_tables([NoisyTable(noisy, Noise(400.0), ("class", "x"))])
    >>> bool((read.counts > 0).all())
    True
    """
    if not tables:
        return []
    expected = [None] * len(tables) if rows is None else list(rows)
    readers = [
        _Reader(table, total, shares, caution)
        for table, shares in zip(reconcile(tables, total), expected, strict=True)
    ]
    # What several tables hold they agree on, and it is read once.
    alone: dict[Hashable, Cells] = {}
    for reader in readers:
        for name in reader.axes:
            if name not in alone:
                alone[name] = reader.alone(name)
    known = dict(zip(alone, read_cells([*alone.values()], OF_POOLS), strict=True))
    for reader in readers:
        reader.start(known)
    for ask, keep, first in (
        (_Reader.ask_rows, _Reader.keep_rows, OF_POOLS),
        (_Reader.by_one, _Reader.keep, OF_ROWS),
        (_Reader.by_all, _Reader.keep, OF_ROWS),
    ):
        waiting = [(reader, cells) for reader in readers for cells in ask(reader)]
        if waiting:
            found = read_cells([cells for _, cells in waiting], first)
            for (reader, _), posterior in zip(waiting, found, strict=True):
                keep(reader, posterior)
    return [reader.result() for reader in readers]


_NO_PART = np.zeros(1)


def _own_part(margin: np.ndarray, total: float) -> np.ndarray:
    """How much of the variance of what is expected of a row its own noise has brought there.

    The pool has the noise of all rows alike, and a row takes its share of the pool.
    """
    return total / (len(margin) * margin)


@lru_cache(maxsize=256)
def _even(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Equal shares of one row, and variances of 0: the same for all fits, and so not writable."""
    shares, variances = np.full((1, size), 1 / size), np.zeros((1, size))
    shares.flags.writeable = variances.flags.writeable = False
    return shares, variances


class _Reader:
    """One table on its way from coarse to fine."""

    def __init__(
        self, table: Reconciled, total: float | None, shares: np.ndarray | None, caution: float
    ):
        self._table, self._expected, self._caution = table, shares, caution
        self.axes = table.table.axes
        *self._given, self._last = self.axes
        if total is None:
            # Of a table that nothing is seen in, the noise is all that can be told.
            total = max(table.counts.sum(), np.sqrt(table.variance(())))
        self._total = float(total)
        self._whole = np.array([self._total])

    # One variable ------------------------------------------------------------------

    def alone(self, name: Hashable) -> Cells:
        """One variable, expected to have equal shares, or those that are known of rows."""
        shares, variances = _even(self._table.counts.shape[self.axes.index(name)])
        if self._expected is not None and name != self._last:
            shares = (self._expected / self._expected.sum()).reshape(1, -1)
        return self._cells([name], shares, variances, self._whole, _NO_PART, is_last=False)

    def start(self, known: dict[Hashable, Posterior]) -> None:
        """Take what is known of each variable."""
        self._margins = [self._total * known[name].shares[0] for name in self._given]
        self._rows = self._margins[0] if self._given else self._whole
        self._found = [known[self._last]]

    # All that are given ------------------------------------------------------------

    def ask_rows(self) -> list[Cells]:
        """The records in each row, which are expected to be as if variables were independent."""
        if len(self._given) < 2:
            return []
        shares = np.array(1.0)
        for margin in self._margins:
            shares = np.multiply.outer(shares, margin / self._total)
        self._rows = self._total * shares
        shares = shares.reshape(1, -1)
        return [self._cells(self._given, shares, np.zeros_like(shares), self._whole, _NO_PART)]

    def keep_rows(self, found: Posterior) -> None:
        self._rows = self._total * found.shares.reshape(self._rows.shape)

    # The last variable, given others -----------------------------------------------

    def by_one(self) -> list[Cells]:
        """Given each of the others, expected to be what it is alone."""
        shares, variances = self._found[0]
        assert variances is not None
        return [
            self._cells(
                [name, self._last],
                shares,
                variances,
                margin,
                margin / self._total,
                _own_part(margin, self._total),
                is_last=len(self._given) == 1,
            )
            for name, margin in zip(self._given, self._margins, strict=True)
        ]

    def by_all(self) -> list[Cells]:
        """Given all others, each expected to change what is expected by its own factor."""
        if len(self._given) < 2:
            return []
        alone = self._found[0].shares[0]
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
        part = np.minimum(part, 1.0).reshape(-1)
        return [self._cells(self.axes, mean, variance, self._rows.reshape(-1), part)]

    def keep(self, found: Posterior) -> None:
        self._found.append(found)

    def result(self) -> ReadTable:
        shares = self._found[-1].shares
        own = shares if self._given else None  # what is known of one variable is others' too
        counts = np.multiply(self._rows.reshape(-1, 1), shares, out=own)
        seen = self._table
        return ReadTable(
            counts.reshape(seen.counts.shape),
            seen.counts,
            seen.variance(self.axes),
            seen.variance(self._given),
            seen.table.noise,
        )

    def _cells(
        self,
        axes: Sequence[Hashable],
        shares: np.ndarray,
        variances: np.ndarray,
        rows: np.ndarray,
        part: np.ndarray,
        own: np.ndarray | None = None,
        is_last: bool = True,
    ) -> Cells:
        """A margin of some variables, by rows that hold so much."""
        width = shares.shape[-1]
        return Cells(
            self._table.margin(axes).reshape(len(rows), -1),
            self._table.variance(axes),
            self._table.table.noise.per_count,
            shares,
            variances,
            rows,
            0.0 if rows is self._whole else self._table.variance(axes[:-1]),
            part,
            np.zeros(len(rows)) if own is None else own,
            width,
            is_last,
            self._caution if len(axes) == len(self.axes) > 1 else 0.0,
            of_words=width >= LONG and len(axes) > 1 and axes[-1] == self._last,
        )
