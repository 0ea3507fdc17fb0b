"""Estimates of the true counts of noisy tables."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gdtrib

from .._validation import check_real
from ..mechanisms.tables import Noise
from .margins import ConsistentTable, NoisyTable, make_consistent, margin_variances
from .mixture import (
    HISTOGRAMS,
    POOLS,
    ROWS,
    WIDE_ROWS,
    Cells,
    Posterior,
    Prior,
    cell_variances,
    estimate_shares,
)

# Additional variable of the tables that indexes the draws.
_DRAW = object()
# Lower bound on observed gamma variables, which are positive.
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class TableEstimate:
    """Estimated counts of a table, with the noisy counts that they are based on.

    Attributes
    ----------
    counts : ndarray
        Estimated counts, which are positive.
    noisy : ndarray
        Noisy counts, consistent with those of the other tables. Some may be negative.
    variance, row_variance : float
        Mean variance of the noise of a cell, and variance of the noise of the sum of a row.
    noise : Noise
        Noise of the release.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, estimate_counts
    >>> table = NoisyTable(np.array([60.0, 50.0]), Noise(4.0), ("x",))
    >>> (estimate,) = estimate_counts([table], total=110)
    >>> lower, upper = estimate.limits(0.95)
    >>> bool((lower < 6 / 11).any() and (upper > 6 / 11).any())
    True
    """

    counts: np.ndarray
    noisy: np.ndarray
    variance: float
    row_variance: float
    noise: Noise

    def limits(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return confidence limits for the true share of each cell in its row.

        The limits depend on the distribution of the noise, but not on the prior, so they are valid
        for any data. The limits of a cell and of its row sum are jointly valid with this
        probability.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Confidence level of the limits of one cell.

        Returns
        -------
        lower, upper : ndarray
        """
        check_real("confidence", confidence, above=0, below=1)
        noisy = self.noisy
        half_width = self.noise.half_width((1 + confidence) / 2)
        variances = cell_variances(noisy, self.variance, self.noise.per_count, noisy.mean())
        margin, row_margin = (
            half_width * np.sqrt(variances),
            half_width * np.sqrt(self.row_variance),
        )
        row = noisy.sum(axis=-1, keepdims=True)
        row_lower, row_upper = np.maximum(row - row_margin, 0.0), np.maximum(row + row_margin, 0.0)
        low, high = np.maximum(noisy - margin, 0.0), np.maximum(noisy + margin, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(row_upper > 0, low / row_upper, 0.0)
            upper = np.where(row_lower > 0, high / row_lower, 1.0)
        return np.minimum(lower, 1.0), np.minimum(upper, 1.0)


def estimate_counts(
    tables: Sequence[NoisyTable],
    total: float | None = None,
    row_shares: Sequence[np.ndarray | None] | None = None,
    *,
    exact_sums: bool = False,
) -> list[TableEstimate]:
    """Estimate the true counts of the tables of a model.

    Tables are made consistent on the margins that they share. Each table is then estimated from
    coarse to fine: the last variable alone, given each of the other variables, and given all of
    them. Each estimate is the pool for the rows of the next one.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records in each table. If None, it is estimated.
    row_shares : sequence of ndarray or None, optional
        For each table of two variables, the expected shares of its rows; None for equal shares.
    exact_sums : bool, default=False
        Whether to match the known sum of each row exactly. If False, a first-order correction
        and scaling are used instead. Scaling decreases large counts if many small counts are
        uncertain. This affects the errors of counts, but has little effect on conditional
        probabilities.

    Returns
    -------
    list of TableEstimate

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, estimate_counts
    >>> noisy = np.array([[430.0, 52.0, -11.0], [390.0, 61.0, 7.0]])
    >>> (estimate,) = estimate_counts([NoisyTable(noisy, Noise(400.0), ("class", "x"))])
    >>> bool((estimate.counts > 0).all())
    True
    """
    if not tables:
        return []
    expected = [None] * len(tables) if row_shares is None else list(row_shares)
    consistent = make_consistent(tables, total)
    by_kind: dict[Hashable, list[int]] = {}
    for index, (table, shares) in enumerate(zip(consistent, expected, strict=True)):
        kind = (table.counts.shape, table.shared, table.table.noise)
        # Tables with expected shares are not stacked.
        by_kind.setdefault(kind if shares is None else index, []).append(index)
    stacks = [
        _Stack([consistent[i] for i in indices], total, expected[indices[0]], exact_sums)
        for indices in by_kind.values()
    ]
    _estimate_variables(stacks)
    _estimate_step(stacks, _Stack.row_cells, _Stack.keep_rows, POOLS)
    _estimate_step(stacks, _Stack.cells_given_one, _Stack.keep, ROWS)
    _estimate_step(stacks, _Stack.cells_given_all, _Stack.keep, ROWS)
    order = np.argsort(np.concatenate([*by_kind.values()]))
    estimates = [estimate for stack in stacks for estimate in stack.estimates()]
    return [estimates[i] for i in order]


def estimate_histogram(table: NoisyTable, total: float | None = None) -> np.ndarray:
    """Estimate the shares of the cells of a table of one variable.

    Unlike the variables of a model, a histogram may have many empty cells.

    Parameters
    ----------
    table : NoisyTable
    total : float, optional
        The public number of records. If None, it is estimated.

    Returns
    -------
    ndarray of shape (n_categories,)
        Positive numbers that sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.postprocessing import Noise, NoisyTable, estimate_histogram
    >>> noisy = np.array([612.0, 377.0, -8.0, 11.0])
    >>> estimate_histogram(NoisyTable(noisy, Noise(100.0), ("ward",)), total=1000).round(2)
    array([0.62, 0.38, 0.  , 0.  ])
    """
    stack = _Stack(make_consistent([table], total), total, None)
    return estimate_shares([stack.variable_cells(0)], HISTOGRAMS)[0].shares[0]


def project_counts(values: np.ndarray, total: Any) -> np.ndarray:
    """Return the nearest non-negative numbers with the given sum, along the last axis."""
    descending = np.sort(values, axis=-1)[..., ::-1]
    total = np.asarray(total)[..., np.newaxis]
    excess = (np.cumsum(descending, axis=-1) - total) / np.arange(1, values.shape[-1] + 1)
    # Only the largest values satisfy this condition.
    n_positive = np.sum(descending > excess, axis=-1, keepdims=True)
    return np.maximum(values - np.take_along_axis(excess, n_positive - 1, axis=-1), 0.0)


def draw_counts(
    tables: Sequence[NoisyTable],
    total: float | None,
    n_draws: int,
    generator: np.random.Generator,
) -> list[np.ndarray]:
    """Draw samples of the true counts of tables, given the noisy counts.

    A noisy table minus fresh noise is a draw from the confidence distribution of the true counts.
    The tables of each draw are made consistent and projected onto non-negative counts. The first
    dimension of each result indexes the draws. `total` is the public number of records, or None.
    """
    # The draws are an additional variable of all tables, so each draw is consistent on its own.
    drawn = []
    for table in tables:
        counts = _denoise(table, n_draws, generator)
        if total is not None:
            error = total - counts.reshape(n_draws, -1).sum(axis=1)
            counts += (error / table.counts.size).reshape(-1, *[1] * table.counts.ndim)
        drawn.append(NoisyTable(counts, table.noise, (_DRAW, *table.axes)))
    flat = [each.counts.reshape(n_draws, -1) for each in make_consistent(drawn)]
    return [
        project_counts(each, np.maximum(each.sum(axis=1), 1.0)).reshape(table.counts.shape)
        for each, table in zip(flat, drawn, strict=True)
    ]


def _denoise(table: NoisyTable, n_draws: int, generator: np.random.Generator) -> np.ndarray:
    """Return noisy counts minus fresh noise, of shape (n_draws, ...)."""
    noise, shape = table.noise, (n_draws, *table.counts.shape)
    if noise.per_count:
        # The noisy counts are gamma variables of shape r x + alpha. Draw shapes for which the
        # observed variable is a uniformly distributed quantile.
        r = 1 / noise.per_count
        alpha = noise.variance * r**2
        observed = np.broadcast_to(np.maximum(r * table.counts + alpha, _TINY), shape)
        return (gdtrib(1.0, generator.random(shape), observed) - alpha) / r
    deviation = np.sqrt(noise.variance)
    if noise.is_laplace:
        return table.counts - generator.laplace(scale=deviation / np.sqrt(2), size=shape)
    return table.counts - deviation * generator.standard_normal(shape)


def _estimate_by_width(groups: Sequence[Cells], prior: Prior) -> list[Posterior]:
    """Estimate wide rows with their own prior, and other rows with the given one."""
    posteriors = {
        is_wide: iter(estimate_shares([each for each in groups if each.is_wide == is_wide], chosen))
        for is_wide, chosen in ((True, WIDE_ROWS), (False, prior))
    }
    return [next(posteriors[cells.is_wide]) for cells in groups]


def _estimate_step(
    stacks: Sequence["_Stack"],
    make_cells: Callable[["_Stack"], list[Cells]],
    keep: Callable[["_Stack", Posterior], None],
    prior: Prior,
) -> None:
    """Estimate the cells of all stacks at once."""
    pairs = [(stack, cells) for stack in stacks for cells in make_cells(stack)]
    posteriors = _estimate_by_width([cells for _, cells in pairs], prior)
    for (stack, _), posterior in zip(pairs, posteriors, strict=True):
        keep(stack, posterior)


def _estimate_variables(stacks: Sequence["_Stack"]) -> None:
    """Estimate each single variable, once for all tables that contain it."""
    positions: dict[Hashable, int] = {}
    groups: list[Cells] = []
    for stack in stacks:
        for axis, names in enumerate(stack.names):
            new = {name: i for i, name in enumerate(names) if name not in positions}
            if new:
                groups.append(stack.variable_cells(axis).rows([*new.values()]))
                positions |= {name: len(positions) + i for i, name in enumerate(new)}
    posteriors = _estimate_by_width(groups, POOLS)
    # Collect one array per row, not tuples: many tuples would slow down garbage collection.
    shares, variances = ([row for each in posteriors for row in each[i]] for i in range(2))
    for stack in stacks:
        stack.start(
            Posterior(
                *[np.array([rows[positions[i]] for i in names]) for rows in (shares, variances)]
            )
            for names in stack.names
        )


class _Stack:
    """Consistent tables of the same shape and noise, stacked along the first dimension."""

    def __init__(
        self,
        tables: Sequence[ConsistentTable],
        total: float | None,
        row_shares: np.ndarray | None,
        exact_sums: bool = False,
    ):
        self._tables, self._row_shares, self._exact_sums = tables, row_shares, exact_sums
        counts = [table.counts for table in tables]
        self._counts = counts[0][np.newaxis] if len(counts) == 1 else np.array(counts)
        self._variances = np.array([table.variances for table in tables])
        self._shape = tables[0].counts.shape
        #: The variables of each dimension.
        self.names = list(zip(*[table.table.axes for table in tables], strict=True))
        self._sums = self._counts.reshape(len(tables), -1).sum(axis=1)
        if total is None:
            # The sum of a table is at least the standard deviation of its noise.
            self._totals = np.maximum(self._sums, np.sqrt(self._variance(())))
        else:
            self._totals = np.full(len(tables), float(total))

    def start(self, variables: Iterable[Posterior]) -> None:
        """Set the estimates of the single variables."""
        *given, last = variables
        self._margins = [self._totals[:, np.newaxis] * shares for shares, _ in given]
        self._rows = self._margins[0] if given else self._totals[:, np.newaxis]
        self._found = [last]

    def variable_cells(self, axis: int) -> Cells:
        """Return the cells of one variable, whose pool is uniform or has the expected shares."""
        shares = np.array([1 / self._shape[axis]])
        if self._row_shares is not None and axis + 1 < len(self._shape):
            shares = self._row_shares / self._row_shares.sum()
        return self._cells((axis,), shares, np.zeros(1), self._totals, is_pool=True)

    def row_cells(self) -> list[Cells]:
        """Return the row sums, whose pool is the product of the single variables' shares."""
        if len(self._margins) < 2:
            return []
        rows = self._totals.reshape(-1, *[1] * len(self._margins))
        for axis, margin in enumerate(self._margins):
            rows = rows * self._along(margin / self._totals[:, np.newaxis], axis)
        self._rows = rows
        shares = rows.reshape(len(rows), 1, -1) / self._totals[:, np.newaxis, np.newaxis]
        axes = range(len(self._margins))
        return [self._cells(axes, shares, np.zeros_like(shares), self._totals, is_pool=True)]

    def keep_rows(self, found: Posterior) -> None:
        self._rows = (self._totals[:, np.newaxis] * found.shares).reshape(self._rows.shape)

    def cells_given_one(self) -> list[Cells]:
        """Return the last variable given each of the others; the pool is the variable alone."""
        shares, variances = (each[:, np.newaxis] for each in self._found[0])
        last = len(self._margins)
        return [
            self._cells((axis, last), shares, variances, margin)
            for axis, margin in enumerate(self._margins)
        ]

    def cells_given_all(self) -> list[Cells]:
        """Return the last variable given all others; its pool has one factor per other variable."""
        if len(self._margins) < 2:
            return []
        size = self._shape[-1]
        alone = self._found[0].shares
        mean = alone.reshape(len(alone), *[1] * len(self._margins), size)
        relative: np.ndarray | float = 0.0
        for axis, (shares, variances) in enumerate(self._found[1:]):
            shape = (len(alone), -1, size)
            given, variance = shares.reshape(shape), variances.reshape(shape)
            mean = mean * self._along(given / alone[:, np.newaxis], axis)
            relative = relative + self._along(variance / given**2, axis)
        mean = mean / mean.sum(axis=-1, keepdims=True)
        shares = mean.reshape(len(alone), -1, size)
        variances = (mean**2 * np.minimum(relative, 1.0)).reshape(shares.shape)
        return [self._cells(range(len(self._shape)), shares, variances, self._rows)]

    def keep(self, found: Posterior) -> None:
        self._found.append(found)

    def estimates(self) -> list[TableEstimate]:
        shares = self._found[-1].shares.reshape(self._counts.shape)
        counts = self._rows[..., np.newaxis] * shares if self._margins else self._rows * shares
        axes = range(len(self._shape))
        variances = zip(self._variance(axes), self._variance(axes[:-1]), strict=True)
        return [
            TableEstimate(
                estimate, table.counts, float(variance), float(row_variance), table.table.noise
            )
            for estimate, table, (variance, row_variance) in zip(
                counts, self._tables, variances, strict=True
            )
        ]

    def _along(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Reshape an array for one variable so that it broadcasts over all other variables."""
        ones = [1] * len(self._margins)
        ones[axis] = values.shape[1]
        return values.reshape(len(values), *ones, *values.shape[2:])

    def _variance(self, axes: Sequence[int]) -> np.ndarray:
        """Return the variance of a cell of the margin that keeps `axes`, for each table."""
        mask = tuple([axis in axes for axis in range(len(self._shape))])
        return margin_variances(self._shape, mask, self._tables[0].shared, self._variances)

    def _cells(
        self,
        axes: Sequence[int],
        shares: np.ndarray,
        variances: np.ndarray,
        totals: np.ndarray,
        is_pool: bool = False,
    ) -> Cells:
        """Return the margin that keeps `axes`, as rows with the given totals."""
        summed = tuple([axis + 1 for axis in range(len(self._shape)) if axis not in axes])
        margin = self._counts.sum(axis=summed) if summed else self._counts
        noisy = margin.reshape(totals.size, -1)
        width, n_rows = noisy.shape[1], totals.size // len(margin)
        total_variance = np.zeros(len(margin)) if is_pool else self._variance(axes[:-1])
        by_table = (self._variance(axes), self._sums / (n_rows * width), total_variance)
        variance, level, total_variance = (each.repeat(n_rows) for each in by_table)
        shares, variances = (
            np.broadcast_to(each, (len(margin), n_rows, width)).reshape(noisy.shape)
            for each in (shares, variances)
        )
        per_count = float(self._tables[0].table.noise.per_count)
        pool = shares, variances, totals.reshape(-1), total_variance
        return Cells(noisy, variance, per_count, level, *pool, self._exact_sums)
