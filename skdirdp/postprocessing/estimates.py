"""Estimates of the true counts of noisy tables."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gdtrib

from .._messages import warn
from .._validation import check_real
from ..mechanisms.tables import Noise
from .margins import ConsistentTable, NoisyTable, make_consistent, margin_variances
from .mixture import (
    HISTOGRAM_PRIOR,
    POOL_PRIOR,
    ROW_PRIOR,
    WIDE_ROW_PRIOR,
    Cells,
    Posterior,
    Prior,
    cell_variances,
    estimate_shares,
)

# Additional table variable that indexes the draws.
_DRAW = object()
# Lower bound on gamma variables and divisors, which must be positive.
_TINY = 1e-300
# Shrinkage changes noisy counts above the first threshold by at most the second. Both are in
# standard deviations of the noise, and were chosen with the `crosstab` experiment on adult,
# credit_card and bank.
_LARGE_COUNT, _MAX_CHANGE = 3.0, 1.0
# Number of categories per dimension of the low-rank estimate of the dependence, which overfits the
# noise if it has more dimensions, and largest mean count, in standard deviations of the noise, for
# which it is used. With larger counts, the tables themselves are better estimates. Chosen
# with the `crosstab` experiment on adult, bank, credit_card, shopper and thyroid.
_CATEGORIES_PER_DIMENSION, _LARGEST_MEAN = 20, 16.0
# Maximum total number of categories of all variables (the cost of the eigendecomposition is cubic
# in this number), number of rounds of imputation, and minimum ratio of an estimated share to the
# share under independence.
_MAX_CATEGORIES, _ROUNDS, _MIN_RATIO = 1000, 3, 1e-3
# Share of the records that is added to each category before scores are standardised.
_ROUNDING = 1e-9
# L2 penalty per record on the coefficients of exponential tilting, tolerance of the gradient, and
# maximum number of iterations. With the penalty, there is a solution even if no table has the
# target moments.
_TILT_PENALTY, _TILT_TOLERANCE, _MAX_TILTS = 1e-4, 1e-6, 50
_MAX_EXPONENT = 200.0
# Minimum variance used to standardise features.
_MIN_SPREAD = 1e-6
# Maximum number of combinations of categories that are counted together, and maximum size of the
# matrix of features by cells. For a table of 100 x 100 cells, this matrix has 2 million entries,
# and 20 draws take three seconds.
_MAX_JOINT, _MAX_FEATURES = 64, 5 * 10**6


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the categories of an ordered variable.

    Attributes
    ----------
    values : ndarray of shape (n_categories,)
        Mean score of the records in a category, NaN for a category without scores.
    inflation : float
        Variance of the scores of records, relative to that of `values`.
    """

    values: np.ndarray
    inflation: float = 1.0

    @classmethod
    def from_ranges(cls, values: np.ndarray, variances: np.ndarray, shares: np.ndarray) -> "Scores":
        """Return scores, given their mean and variance in each category and the category shares."""
        known = ~np.isnan(values)
        shares = np.maximum(shares, 0.0) * known
        shares = shares / max(float(shares.sum()), _TINY)
        filled = np.where(known, values, 0.0)
        between = float(shares @ (filled - shares @ filled) ** 2)
        within = float(shares @ variances)
        return cls(values, 1 + within / between if between > 0 else 1.0)

    def contrasts(self, shares: np.ndarray) -> np.ndarray:
        """Return standardised scores, and indicators of the categories without scores."""
        known = ~np.isnan(self.values)
        scores = np.where(known, self.values, 0.0)
        shares = (shares + _ROUNDING * shares.sum()) * known
        scores = np.where(known, scores - np.average(scores, weights=shares), 0.0)
        scores /= max(float(np.sqrt(np.average(scores**2, weights=shares))), _TINY)
        return np.column_stack([scores, np.eye(len(scores))[:, ~known]])


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

    def limited(self) -> np.ndarray:
        """Return the estimated counts, but keep large noisy counts nearly unchanged.

        Shrinkage decreases the sum of all errors but may increase the largest one. Limiting the
        change keeps most of the gain and bounds this loss (Efron and Morris 1972).
        """
        noisy = self.noisy
        variances = cell_variances(noisy, self.variance, self.noise.per_count, noisy.mean())
        deviation = np.sqrt(variances)
        max_change = _MAX_CHANGE * deviation
        limited = np.clip(self.counts, noisy - max_change, noisy + max_change)
        return np.where(noisy > _LARGE_COUNT * deviation, limited, self.counts)

    def limits(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return confidence limits for the true share of each cell in its row.

        The limits depend on the distribution of the noise, but not on the prior, so they are valid
        for any data. The limits of a cell and of its row sum are jointly valid with
        probability `confidence`.

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
    joint_shares: Sequence[np.ndarray] | None = None,
    exact_sums: bool = False,
) -> list[TableEstimate]:
    """Estimate the true counts of the tables of a model.

    Tables are made consistent on the margins that they share. Each table is then estimated in
    three stages: the last variable alone, given each of the other variables, and given all of
    them. The rows of each stage are shrunk towards a pool, the estimate of the previous stage.

    Parameters
    ----------
    tables : sequence of NoisyTable
    total : float, optional
        The public number of records in each table. If None, it is estimated.
    row_shares : sequence of ndarray or None, optional
        For tables of two variables, the expected shares of the rows. If None, they are equal.
    joint_shares : sequence of ndarray, optional
        For tables of two variables, expected shares of the cells: each row then has its own pool.
        If None, the pool of all rows is the last variable alone.
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
        _Stack(
            [consistent[i] for i in indices],
            total,
            expected[indices[0]],
            exact_sums,
            None if joint_shares is None else np.array([joint_shares[i] for i in indices]),
        )
        for indices in by_kind.values()
    ]
    _estimate_variables(stacks)
    _estimate_step(stacks, _Stack.row_cells, _Stack.keep_rows, POOL_PRIOR)
    _estimate_step(stacks, _Stack.cells_given_one, _Stack.keep, ROW_PRIOR)
    _estimate_step(stacks, _Stack.cells_given_all, _Stack.keep, ROW_PRIOR)
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
    return estimate_shares([stack.variable_cells(0)], HISTOGRAM_PRIOR)[0].shares[0]


def low_rank_shares(
    tables: Sequence[NoisyTable], shares: Mapping[Hashable, np.ndarray], total: float
) -> list[np.ndarray] | None:
    """Estimate the shares of all pairwise tables from a low-rank estimate of all dependencies.

    The differences between all tables and those of independent variables form a symmetric matrix
    with a row for each category of each variable. The noise has the same standard deviation s in
    all d x d cells, except in the blocks of single variables. The eigenvalues of the noise alone
    are at most ``e = 2 s sqrt(d)``. Larger eigenvalues y are shrunk to ``sqrt(y^2 - e^2)``, which
    minimises the squared error (Gavish and Donoho 2017). Blocks of single variables are imputed.

    Parameters
    ----------
    tables : sequence of NoisyTable
        Tables of all pairs of some variables, which agree on their margins.
    shares : dict of ndarray
        Estimated shares of the categories of each variable.
    total : float
        Number of records.

    Returns
    -------
    list of ndarray or None
        Positive shares of the cells of each table, which sum to 1. None if the tables do not
        cover all pairs of at least three variables, if the noise is small, or if no dependence
        exceeds the noise.
    """
    sizes = {name: len(each) for name, each in shares.items()}
    d = sum(sizes.values())
    pairs = {frozenset(table.axes) for table in tables}
    if (
        len(sizes) < 3
        or d > _MAX_CATEGORIES
        or pairs != set(map(frozenset, combinations(sizes, 2)))
    ):
        return None
    deviation = float(np.sqrt(max(table.variance for table in tables)))
    if total > _LARGEST_MEAN * deviation * np.mean([table.counts.size for table in tables]):
        return None
    ends = dict(zip(sizes, np.cumsum([*sizes.values()]), strict=True))
    blocks = {name: slice(end - sizes[name], end) for name, end in ends.items()}
    alone = np.concatenate([*shares.values()])
    owners = np.repeat(np.arange(len(sizes)), [*sizes.values()])
    observed = np.zeros((d, d))
    for table in tables:
        row, column = (blocks[name] for name in table.axes)
        observed[row, column] = table.counts - total * np.outer(alone[row], alone[column])
        observed[column, row] = observed[row, column].T
    max_rank, edge = max(d // _CATEGORIES_PER_DIMENSION, 1), 2 * deviation * np.sqrt(d)
    found = _low_rank(observed, owners[:, np.newaxis] == owners, max_rank, edge)
    if found is None:
        return None
    joint = []
    for table in tables:
        row, column = (blocks[name] for name in table.axes)
        independent = np.outer(alone[row], alone[column])
        cells = np.maximum(independent + found[row, column] / total, _MIN_RATIO * independent)
        joint.append(cells / cells.sum())
    return joint


def _low_rank(
    observed: np.ndarray, unknown: np.ndarray, max_rank: int, edge: float
) -> np.ndarray | None:
    """Return a low-rank matrix with shrunk eigenvalues; None if none of them exceeds `edge`."""
    found = np.zeros(observed.shape)
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(np.where(unknown, found, observed))
        largest = np.argsort(np.abs(values))[-max_rank:]
        kept = largest[np.abs(values[largest]) > edge]
        if not kept.size:
            return None
        shrunk = np.sign(values[kept]) * np.sqrt(values[kept] ** 2 - edge**2)
        found = (vectors[:, kept] * shrunk) @ vectors[:, kept].T
    return found


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
    scores: Mapping[Hashable, Scores] | None = None,
) -> list[np.ndarray]:
    """Draw samples of the true counts of tables, given the noisy counts.

    A draw is a noisy table minus new noise, so it follows the confidence distribution of the true
    counts. The tables of a draw are made consistent and are replaced by the nearest ones without
    negative counts. This biases all associations towards 0 if many counts are small, so tables of
    variables with scores are then adjusted to the moments of the unbiased tables. The first
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
    return [
        _match_moments(each.counts, table.axes, scores or {})
        for each, table in zip(make_consistent(drawn), tables, strict=True)
    ]


def _project_draws(draws: np.ndarray) -> np.ndarray:
    """Return, for each table along the first dimension, the nearest one without negative counts."""
    flat = draws.reshape(len(draws), -1)
    return project_counts(flat, np.maximum(flat.sum(axis=1), 1.0)).reshape(draws.shape)


def _match_moments(
    draws: np.ndarray, axes: Sequence[Hashable], scores: Mapping[Hashable, Scores]
) -> np.ndarray:
    """Return non-negative tables with the moments of the given ones.

    The moments are the counts of each variable with scores, and of all others (together if they
    have few combinations), the mean and the variance of the scores, and the covariances of scores
    with each other and with the others.
    """
    tables, flat = _project_draws(draws), draws.reshape(len(draws), -1)
    if scores.keys().isdisjoint(axes):
        return tables
    margins = _find_margins(draws, axes, scores)
    pairs = [(first, second) for first, second in combinations(margins, 2) if first.has_scores]
    n_features = sum(len(margin.contrasts) for margin in margins)
    n_features += sum(
        first.contrasts.shape[1] * second.contrasts.shape[1] for first, second in pairs
    )
    if n_features * flat.shape[1] > _MAX_FEATURES:
        warn(
            f"the table of {', '.join(map(str, axes))} has too many cells to preserve the "
            "covariances of its draws; effects of its numeric columns are biased towards 0"
        )
        return tables
    features = [np.eye(len(margin.contrasts))[margin.categories] for margin in margins]
    targets = [margin.counts for margin in margins]
    for first, second in pairs:
        left, right = first.contrasts[first.categories], second.contrasts[second.categories]
        products = (left[:, :, np.newaxis] * right[:, np.newaxis]).reshape(len(left), -1)
        sums = first.sums[:, :, np.newaxis] * second.sums[:, np.newaxis]
        independent = sums.reshape(len(draws), -1) / first.counts.sum(axis=1, keepdims=True)
        # If a mean score is linear in the other variable, merging scores divides the covariance by
        # this factor.
        factor = first.inflation * second.inflation
        features.append(products)
        targets.append(independent + factor * (flat @ products - independent))
    tilted = _tilt(tables.reshape(flat.shape), np.hstack(features), np.hstack(targets))
    return tilted.reshape(draws.shape)


def _find_margins(
    draws: np.ndarray, axes: Sequence[Hashable], scores: Mapping[Hashable, Scores]
) -> list["_Margin"]:
    """Return the margin of each variable with scores, and of the others."""
    scored = [i for i, name in enumerate(axes) if name in scores]
    others = [i for i, name in enumerate(axes) if name not in scores]
    margins = [_Margin.from_draws(draws, [i], scores[axes[i]]) for i in scored]
    if others and prod(draws.shape[i + 1] for i in others) <= _MAX_JOINT:
        return [*margins, _Margin.from_draws(draws, others, None)]
    return margins + [_Margin.from_draws(draws, [i], None) for i in others]


class _Margin(NamedTuple):
    """Non-negative counts of one or more variables, in several draws of a table."""

    counts: np.ndarray  # by draw and category
    contrasts: np.ndarray  # scores of each category, or indicators
    categories: np.ndarray  # category of each cell of the table
    inflation: float
    has_scores: bool

    @classmethod
    def from_draws(cls, draws: np.ndarray, kept: Sequence[int], scores: Scores | None) -> "_Margin":
        shape = draws.shape[1:]
        cells = np.indices(shape).reshape(len(shape), -1)
        categories = np.ravel_multi_index(
            tuple(cells[i] for i in kept), tuple(shape[i] for i in kept)
        )
        lost = tuple(i + 1 for i in range(len(shape)) if i not in kept)
        margin = draws.sum(axis=lost).reshape(len(draws), -1)
        counts, size = _project_draws(margin), margin.shape[1]
        if scores is None:
            return cls(counts, np.eye(size)[:, 1:], categories, 1.0, False)
        contrasts = scores.contrasts(counts.mean(axis=0))
        powers = np.column_stack([np.ones(size), contrasts, contrasts[:, 0] ** 2])
        counts = _tilt(counts, powers, margin @ powers)
        return cls(counts, contrasts, categories, scores.inflation, True)

    @property
    def sums(self) -> np.ndarray:
        """Sums of the contrasts of each draw."""
        return self.counts @ self.contrasts


def _tilt(tables: np.ndarray, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Tilt the counts exponentially so that the sums of the features equal the targets.

    Of all tables with these sums, the result has the smallest divergence from the counts (Deville
    and Särndal 1992). Each row is a table.
    """
    totals = tables.sum(axis=1, keepdims=True)
    shares = (tables / totals).mean(axis=0)
    centre = shares @ features
    squares = (features - centre) ** 2
    # Scaled features are at most 1000: sums of larger ones would overflow Newton's method.
    scale = np.sqrt(np.maximum(shares @ squares, _MIN_SPREAD * np.maximum(squares.max(axis=0), 1)))
    features = np.column_stack([(features - centre) / scale, np.ones(len(features))])
    targets = np.column_stack([(targets - totals * centre) / scale, totals])
    return np.array(
        [_tilt_table(table, features, sums) for table, sums in zip(tables, targets, strict=True)]
    )


def _tilt_table(counts: np.ndarray, features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Tilt one table by Newton's method, with a small penalty on the coefficients."""
    total = float(counts.sum())
    penalty = _TILT_PENALTY * total

    def evaluate(slopes: np.ndarray) -> tuple[float, np.ndarray]:
        tilted = counts * np.exp(np.minimum(features @ slopes, _MAX_EXPONENT))
        return float(tilted.sum() - slopes @ targets + penalty / 2 * slopes @ slopes), tilted

    slopes = np.zeros(features.shape[1])
    loss, tilted = evaluate(slopes)
    for _ in range(_MAX_TILTS):
        gradient = tilted @ features - targets + penalty * slopes
        if np.abs(gradient).max() <= _TILT_TOLERANCE * total:
            break
        curvature = (features * tilted[:, np.newaxis]).T @ features
        # Rounding may make the matrix singular.
        step = np.linalg.lstsq(curvature + penalty * np.eye(len(slopes)), gradient)[0]
        size, slope = 1.0, float(step @ gradient)
        new_loss, new = evaluate(slopes - step)
        while new_loss > loss - 1e-4 * size * slope and size > 1e-6:
            size /= 2
            new_loss, new = evaluate(slopes - size * step)
        if new_loss >= loss:
            break
        slopes, loss, tilted = slopes - size * step, new_loss, new
    # Because of the penalty, the sum differs slightly from the total. It is 0 if the target moments
    # are far from those of all tables.
    found = float(tilted.sum())
    return tilted / found * total if found > 0 else counts


def _denoise(table: NoisyTable, n_draws: int, generator: np.random.Generator) -> np.ndarray:
    """Return noisy counts minus fresh noise, of shape (n_draws, ...)."""
    noise, shape = table.noise, (n_draws, *table.counts.shape)
    if noise.per_count:
        # The noisy counts are gamma variables with shape r x + alpha. Draw uniform probabilities,
        # and find the shapes for which the observed variables are the corresponding quantiles.
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
        for is_wide, chosen in ((True, WIDE_ROW_PRIOR), (False, prior))
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
    posteriors = _estimate_by_width(groups, POOL_PRIOR)
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
    """Consistent tables with the same shape and noise, stacked along the first dimension."""

    def __init__(
        self,
        tables: Sequence[ConsistentTable],
        total: float | None,
        row_shares: np.ndarray | None,
        exact_sums: bool = False,
        joint_shares: np.ndarray | None = None,
    ):
        self._tables, self._row_shares, self._exact_sums = tables, row_shares, exact_sums
        self._joint_shares = joint_shares
        counts = [table.counts for table in tables]
        self._counts = counts[0][np.newaxis] if len(counts) == 1 else np.array(counts)
        self._variances = np.array([table.variances for table in tables])
        self._shape = tables[0].counts.shape
        #: The variables of each dimension.
        self.names = list(zip(*[table.table.axes for table in tables], strict=True))
        self._sums = self._counts.reshape(len(tables), -1).sum(axis=1)
        if total is None:
            # An estimated total is never smaller than the standard deviation of its noise.
            self._totals = np.maximum(self._sums, np.sqrt(self._variance(())))
        else:
            self._totals = np.full(len(tables), float(total))

    def start(self, variables: Iterable[Posterior]) -> None:
        """Set the estimates of the individual variables."""
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
        """Return the row sums, whose pool is the product of the individual variables' shares."""
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
        if self._joint_shares is not None:
            shares = self._joint_shares / self._joint_shares.sum(axis=2, keepdims=True)
        return [
            self._cells((axis, last), shares, variances, margin)
            for axis, margin in enumerate(self._margins)
        ]

    def cells_given_all(self) -> list[Cells]:
        """Return the last variable given all others; its pool has one factor for each of them."""
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
        variance, mean_noisy, total_variance = (each.repeat(n_rows) for each in by_table)
        shares, variances = (
            np.broadcast_to(each, (len(margin), n_rows, width)).reshape(noisy.shape)
            for each in (shares, variances)
        )
        per_count = float(self._tables[0].table.noise.per_count)
        pool = shares, variances, totals.reshape(-1), total_variance
        return Cells(noisy, variance, per_count, mean_noisy, *pool, self._exact_sums)
