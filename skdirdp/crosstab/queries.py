"""Queries on released tables, by column and category.

All released tables that contain the columns of a query are combined into one noisy table, and its
categories select cells of this table. `skdirdp.inference` computes the estimates and tests.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .. import inference
from ..inference import Estimate, NoisyTable
from ..mechanisms import DirichletMechanism, GaussianMechanism, Mechanism
from ..mechanisms.tables import Noise
from ..schema import MISSING_STATE, Categories, Dates, Kind, Numbers, rebuild

if TYPE_CHECKING:
    from ..inference import TestResult

#: Columns of a table.
Columns = tuple[Hashable, ...]


def margin(counts: np.ndarray, table: Columns, columns: Sequence[Hashable]) -> np.ndarray:
    """Return the margin of a table, with dimensions in the order of `columns`."""
    kept = [name for name in table if name in columns]
    summed = tuple(axis for axis, name in enumerate(table) if name not in columns)
    return np.transpose(counts.sum(axis=summed), [kept.index(name) for name in columns])


def combine_margins(
    tables: Mapping[Columns, np.ndarray],
    mechanisms: Mapping[Columns, Mechanism],
    columns: Columns,
    n_records: float | None,
) -> NoisyTable:
    """Combine all released tables that contain the given columns into one noisy table.

    The result is the average of the margins of these tables, weighted by the precision of their
    noise, which is public. Its noise is independent across cells, like that of each margin. If each
    margin sums the same number of cells of its table, the noise has exactly the distribution of a
    Gaussian or Dirichlet release with other parameters; otherwise only its variances are the same.
    """
    if len(tables) == 1 and set(columns) == set(*tables):
        ((table, counts),) = tables.items()
        return NoisyTable(margin(counts, table, columns), mechanisms[table], n_records)
    margins = [margin(counts, table, columns) for table, counts in tables.items()]
    noise = [mechanisms[table].noise for table in tables]
    if any(mechanisms[table].is_exact for table in tables):
        (first, *_) = tables
        return NoisyTable(margins[0], mechanisms[first], n_records)
    n_summed = np.array(
        [
            counts.size / margin_counts.size
            for counts, margin_counts in zip(tables.values(), margins, strict=True)
        ]
    )
    variances = n_summed * [each.variance for each in noise]
    weights = (1 / variances) / (1 / variances).sum()
    per_count = float(weights**2 @ [each.per_count for each in noise])
    average = np.tensordot(weights, np.array(margins), axes=1)
    mechanism = _mechanism(
        Noise(float(weights**2 @ variances), per_count), mechanisms[next(iter(tables))]
    )
    return NoisyTable(average, mechanism, n_records)


def _mechanism(noise: Noise, like: Mechanism) -> Mechanism:
    """Return a mechanism with the given noise, and with the bounds of another mechanism."""
    bounds: dict[str, Any] = {
        "adjacency": like.adjacency,
        "max_count": like.max_count,
        "max_total": like.max_total,
    }
    if noise.per_count > 0:
        r = 1 / noise.per_count
        return DirichletMechanism(r, noise.variance * r**2, **bounds)
    return GaussianMechanism(float(np.sqrt(noise.variance)), **bounds)


def select_categories(name: Hashable, kind: Kind, requested: Any) -> np.ndarray:
    """Return a mask of the categories of a column that a query selects.

    A list selects all of its members. A pair of bounds selects a range of numbers or dates, which
    must consist of whole bins. None selects missing values.
    """
    labels = kind.labels()
    if isinstance(requested, list):
        if not requested:
            raise ValueError(f"at least one category of {name!r} must be given; got an empty list")
        return np.any([select_categories(name, kind, each) for each in requested], axis=0)
    if requested is None or (isinstance(requested, str) and requested == MISSING_STATE):
        mask = np.array([kind.missing and i == len(labels) - 1 for i in range(len(labels))])
        if not kind.missing:
            raise ValueError(f"column {name!r} has no category for missing values")
        return mask
    if isinstance(kind, Categories):
        position = kind.find(rebuild(requested))
        if position < 0:
            raise ValueError(f"{name!r} must be {kind.describe()}; got {requested!r}")
        return np.arange(len(labels)) == position
    bins = labels[: len(labels) - kind.missing]
    is_range = isinstance(requested, tuple) and len(requested) == 2
    mask = (
        _bins_within(name, kind, bins, *requested) if is_range else _find_bin(name, bins, requested)
    )
    return np.append(mask, [False] * kind.missing)


def _find_bin(name: Hashable, bins: list, requested: Any) -> np.ndarray:
    """Return a mask of the bin that equals the requested value."""
    mask = np.array([type(label) is type(requested) and label == requested for label in bins])
    if not mask.any():
        mask = np.array([not isinstance(b, pd.Interval) and b == requested for b in bins])
    if not mask.any():
        raise ValueError(
            f"{name!r} is counted in bins; pass one of categories_[{name!r}] or a pair of bounds"
        )
    return mask


def _bins_within(name: Hashable, kind: Kind, bins: list, low: Any, high: Any) -> np.ndarray:
    """Return a mask of the bins between two bounds, each of which must be a bin edge."""
    if isinstance(kind, Dates):
        low, high = pd.Timestamp(low), pd.Timestamp(high)
    within, outside = [], []
    for label in bins:
        first, last = (label.left, label.right) if isinstance(label, pd.Interval) else (label,) * 2
        half_open = isinstance(label, pd.Interval) and label.closed == "left"
        within.append(bool(low <= first and last <= high))
        outside.append(
            bool(
                last < low
                or first > high
                or (half_open and low == last)
                or (half_open and first == high)
            )
        )
    if not any(within) or not all(np.logical_or(within, outside)):
        raise ValueError(
            f"the bounds of {name!r} must be bin edges; the bins are categories_[{name!r}]"
        )
    return np.array(within)


class TableQueries:
    """Mixin with estimates and tests based on released tables, by column and category.

    Subclasses provide the fitted attributes and `noisy_table`.
    """

    categories_: dict[Hashable, list[Hashable]]
    schema_: Any

    def noisy_table(self, *columns: Hashable) -> NoisyTable:
        """Return the noisy table of the given columns."""
        raise NotImplementedError

    def share(
        self,
        event: Any,
        given: Any = None,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the share of records in the given categories.

        Parameters
        ----------
        event : dict, column or tuple of columns
            If a dict, it maps each column to a category, a list of categories, or a pair of bounds
            of numbers or dates; None selects missing values. If a column or a tuple of columns,
            the share of each category or combination of categories is estimated.
        given : dict or column, default=None
            Condition on the records, in the same form as `event`. If a column, the share is
            estimated for each of its categories.
        confidence : float in (0, 1), default=0.95
            Confidence level of the intervals.
        population : bool, default=True
            If True, the intervals are for the population that the records were drawn from. If
            False, they are for the counted records themselves.

        Returns
        -------
        inference.Estimate
            An array if columns are given: its first dimension is for `given`, and the others for
            the columns of `event`.
        """
        query = _Query(self, event, given)
        event_cells, condition = query.masks(event), query.masks(given)
        ones = (1,) * (event_cells.ndim - 1)
        condition_cells = condition.reshape(*condition.shape[:-1], *ones, condition.shape[-1])
        shape = np.broadcast_shapes(event_cells.shape, condition_cells.shape)
        cells, condition_cells = (
            np.broadcast_to(each, shape).reshape(-1, *query.table.shape)
            for each in (event_cells, condition_cells)
        )
        estimate = inference.share(
            query.table, cells, condition_cells, **_interval_options(confidence, population)
        )
        return _unpack(estimate, query.table, shape[:-1])

    def difference(
        self,
        event: Mapping[Hashable, Any],
        column: Hashable,
        given: Mapping[Hashable, Any] | None = None,
        *,
        reference: Any = None,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the difference between the shares of an event in groups of records.

        Parameters
        ----------
        event : dict
            Categories whose share is compared, as for `share`.
        column : column
            Column that defines the groups. Each of its categories, except missing values, is
            compared with the reference.
        given : dict, default=None
            Condition on the records, as for `share`.
        reference : category, default=None
            Category that all others are compared with. If None, the first category is used.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
            An estimate for each category other than the reference; a number if there is only one.
        """
        table, *cells = self._groups(event, column, given, reference)
        estimate = inference.difference(table, *cells, **_interval_options(confidence, population))
        return _unpack(estimate, table, _result_shape(len(cells[1])))

    def ratio(
        self,
        event: Mapping[Hashable, Any],
        column: Hashable,
        given: Mapping[Hashable, Any] | None = None,
        *,
        reference: Any = None,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the ratio of the shares of an event in groups of records (the relative risk).

        Parameters
        ----------
        event, column, given, reference
            As for `difference`.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
            As for `difference`.
        """
        table, *cells = self._groups(event, column, given, reference)
        estimate = inference.ratio(table, *cells, **_interval_options(confidence, population))
        return _unpack(estimate, table, _result_shape(len(cells[1])))

    def _groups(self, event: Any, column: Hashable, given: Any, reference: Any) -> tuple[Any, ...]:
        """Return a table, and the cells of the event, of the groups and of the reference."""
        query = _Query(self, event, column, given)
        kind = self.schema_[column]
        first = kind.labels()[0]
        base = select_categories(column, kind, first if reference is None else reference)
        others = ~base
        others[len(others) - kind.missing :] = False
        if not others.any():
            raise ValueError(f"column {column!r} must have at least two categories; it has one")
        within = query.masks(given)
        groups = query.masks(column) & within
        cells = (query.masks(event), groups[others], groups[base].any(axis=0))
        return (
            query.table,
            *(each.reshape(*each.shape[:-1], *query.table.shape) for each in cells),
        )

    def odds_ratio(
        self,
        row: Hashable,
        column: Hashable,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the odds ratio of two columns.

        Parameters
        ----------
        row, column : columns
            Missing values are left out.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
            A number if both columns have two categories. Otherwise an array with one row per
            category of `row` and one column per category of `column`, each without the first
            category, which is the reference.
        """
        query = _Query(self, row, column)
        n_rows, n_columns = (len(self._values(name)) for name in (row, column))
        rows, columns = query.masks(row), query.masks(column)
        shape = (n_rows - 1, n_columns - 1)
        # Only two categories of the column are compared at a time.
        pairs = np.broadcast_to(columns[0] | columns[1:n_columns], (*shape, columns.shape[1]))
        cells = np.broadcast_to(columns[1:n_columns], pairs.shape)
        groups, base = rows[1:n_rows, np.newaxis] & pairs, rows[0] & pairs
        estimate = inference.odds_ratio(
            query.table,
            *(each.reshape(-1, *query.table.shape) for each in (cells, groups, base)),
            **_interval_options(confidence, population),
        )
        return _unpack(estimate, query.table, _result_shape(*shape))

    def mean(
        self,
        column: Hashable,
        given: Any = None,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the mean of a numeric column.

        Parameters
        ----------
        column : column
            Column of numbers, or of categories that are numbers. Missing values are excluded. The
            interval accounts for the unknown positions of numbers within their bins; bins that
            contain a single whole number do not widen it.
        given : dict or column, default=None
            As for `share`.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        table, options, shape = self._numeric_table(column, given)
        values, edges = _numeric_axis(column, self.schema_[column])
        options |= _interval_options(confidence, population)
        return _unpack(inference.mean(table, values, edges=edges, **options), table, shape)

    def quantile(
        self,
        column: Hashable,
        q: float,
        given: Any = None,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate a quantile of a numeric column.

        Parameters
        ----------
        column : column
            Column of binned numbers. Missing values are excluded. The limits of the interval are
            bin edges.
        q : float in (0, 1)
            Probability of a value below the quantile, such as 0.5 for the median.
        given : dict or column, default=None
            As for `share`.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        table, options, shape = self._numeric_table(column, given)
        _, edges = _numeric_axis(column, self.schema_[column])
        if edges is None:
            raise ValueError(f"column {column!r} must contain binned numbers for quantiles")
        options |= _interval_options(confidence, population)
        return _unpack(inference.quantile(table, q, edges, **options), table, shape)

    def correlation(
        self,
        row: Hashable,
        column: Hashable,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the correlation of two columns.

        Parameters
        ----------
        row, column : columns
            Bins are represented by their centres, and categories that are not numbers by 0, 1, 2
            and so on. Missing values are excluded.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        values = [_centres(self.schema_[name]) for name in (row, column)]
        options = _interval_options(confidence, population)
        return inference.correlation(self._without_missing(row, column), *values, **options)

    def cramers_v(self, row: Hashable, column: Hashable, *, confidence: float = 0.95) -> Estimate:
        """Estimate Cramer's V, a measure of association between two columns, in the population.

        Parameters
        ----------
        row, column : columns
            Missing values are left out.
        confidence : float in (0, 1), default=0.95
            Confidence level of the interval.

        Returns
        -------
        inference.Estimate
        """
        return inference.cramers_v(self._without_missing(row, column), confidence=confidence)

    def independence(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether two columns are independent in the population.

        Parameters
        ----------
        row, column : columns
            Missing values are left out.
        **options
            Options of `inference.independence`.

        Returns
        -------
        inference.TestResult
            Statistic, p-value and degrees of freedom. The test accounts for the noise.
        """
        return inference.independence(self._without_missing(row, column), **options)

    def homogeneity(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether a column has the same distribution in all groups of records.

        Parameters
        ----------
        row : column
            Column that defines the groups.
        column : column
            Column whose distribution is compared. Missing values of both columns are excluded.
        **options
            Options of `inference.homogeneity`.

        Returns
        -------
        inference.TestResult
        """
        return inference.homogeneity(self._without_missing(row, column), **options)

    def goodness_of_fit(
        self, column: Hashable, probabilities: Any = None, **options: Any
    ) -> "TestResult":
        """Test whether the categories of a column have the given probabilities in the population.

        Parameters
        ----------
        column : column
            Missing values are left out.
        probabilities : dict or array-like, default=None
            Probabilities by category, or an array in the order of the categories. If None, all
            categories have equal probability.
        **options
            Options of `inference.goodness_of_fit`.

        Returns
        -------
        inference.TestResult
        """
        if isinstance(probabilities, Mapping):
            kind = self.schema_[column]
            by_category = np.zeros(len(self._values(column)))
            for requested, probability in probabilities.items():
                chosen = select_categories(column, kind, requested)[: len(by_category)]
                if chosen.sum() != 1:
                    raise ValueError(
                        f"each key of probabilities must be a single category of {column!r}"
                    )
                by_category[chosen] = probability
            probabilities = by_category
        return inference.goodness_of_fit(self._without_missing(column), probabilities, **options)

    def trend(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether two ordered columns are uncorrelated in the population.

        Parameters
        ----------
        row, column : columns
            As for `correlation`.
        **options
            Options of `inference.trend`.

        Returns
        -------
        inference.TestResult
        """
        values = [_centres(self.schema_[name]) for name in (row, column)]
        return inference.trend(self._without_missing(row, column), *values, **options)

    def _without_missing(self, *columns: Hashable) -> NoisyTable:
        """Return the noisy table of the given columns, without missing values."""
        table = self.noisy_table(*columns)
        known: Any = (..., *(slice(len(self._values(name))) for name in columns))
        counts = table.counts[known]
        # The number of records without missing values is not public.
        n_records = table.n_records if counts.shape == table.counts.shape else None
        return replace(table, counts=counts, n_records=n_records)

    def _numeric_table(
        self, column: Hashable, given: Any
    ) -> tuple[NoisyTable, dict[str, Any], tuple[int, ...]]:
        """Return the table without missing values, options, and the shape of the result."""
        query = _Query(self, column, given)
        condition = query.masks(given)
        shape = condition.shape[:-1]
        cells = condition.reshape(-1, *query.table.shape)
        axis = query.columns.index(column)
        table = query.table
        if self.schema_[column].missing:
            known: list[Any] = [slice(None)] * len(table.shape)
            known[axis] = slice(len(self._values(column)))
            index = (..., *known)
            # The number of records with a known value is not public.
            table = replace(table, counts=table.counts[index], n_records=None)
            cells = cells[index]
        return table, {"axis": axis, "given": cells}, shape

    def _values(self, name: Hashable) -> list[Hashable]:
        """Return the categories of a column, without the category for missing values."""
        labels = self.categories_[name]
        return labels[: len(labels) - self.schema_[name].missing]


def _numeric_axis(name: Hashable, kind: Kind) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the numeric values of the categories, or the edges of the bins."""
    labels = kind.labels()[: kind.n_cells - kind.missing]
    if all(isinstance(label, int | float) for label in labels):
        return np.array(labels, dtype=float), None
    if not isinstance(kind, Numbers):
        raise ValueError(f"column {name!r} must contain numbers; got {kind.describe()}")
    starts = [getattr(label, "left", label) for label in labels]
    # Each whole number represents the unit interval around it.
    half = 0.5 if kind.is_discrete else 0.0
    return None, np.append(np.array(starts, dtype=float) - half, kind.high + half)


def _centres(kind: Kind) -> np.ndarray | None:
    """Return bin centres or numeric categories; None if the categories are not numbers."""
    labels = kind.labels()[: kind.n_cells - kind.missing]
    if not all(isinstance(label, int | float | pd.Interval) for label in labels):
        return None
    numbers = [label.mid if isinstance(label, pd.Interval) else label for label in labels]
    return None if isinstance(kind, Dates) else np.array(numbers, dtype=float)


def _interval_options(confidence: float, population: bool) -> dict[str, Any]:
    return {"confidence": confidence, "population": population}


def _result_shape(*shape: int) -> tuple[int, ...]:
    """Return the shape of the results, which is () for a single result."""
    return () if np.prod(shape) == 1 else shape


def _unpack(estimate: Estimate, table: NoisyTable, shape: tuple[int, ...]) -> Estimate:
    """Reshape the estimates; the leading dimensions are those of independent tables."""
    lead = table.counts.shape[: table.batch_dims]
    value, low, high = (
        np.reshape(each, (*lead, *shape)) for each in (estimate.value, estimate.low, estimate.high)
    )
    return Estimate(value, low, high, estimate.confidence)


class _Query:
    """Noisy table of all columns in some conditions, and the cells that each condition selects."""

    def __init__(self, tables: Any, *conditions: Any):
        self._schema = tables.schema_
        names = (name for each in conditions for name in self._columns(each))
        self.columns = tuple(dict.fromkeys(names))
        self.table: NoisyTable = tables.noisy_table(*self.columns)

    def _columns(self, condition: Any) -> list[Hashable]:
        """Return the columns of a condition (None, a dict, a column or a tuple of columns)."""
        if condition is None:
            return []
        if isinstance(condition, Mapping):
            if not condition:
                raise ValueError("a condition must contain at least one column; got an empty dict")
            return list(condition)
        # A tuple may be the name of a column.
        is_column = not isinstance(condition, tuple) or condition in self._schema
        return [condition] if is_column else list(condition)

    def masks(self, condition: Any) -> np.ndarray:
        """Return masks of the selected cells, flattened along the last dimension.

        If the condition is one or more columns, each adds a leading dimension for its categories.
        """
        shape = self.table.shape
        if condition is None:
            return np.ones(int(np.prod(shape)), dtype=bool)
        if isinstance(condition, Mapping):
            mask = np.ones(shape, dtype=bool)
            for name, requested in condition.items():
                chosen = select_categories(name, self._schema[name], requested)
                ones = [1] * len(shape)
                ones[self.columns.index(name)] = len(chosen)
                mask = mask & chosen.reshape(ones)
            return mask.reshape(-1)
        axes = [self.columns.index(name) for name in self._columns(condition)]
        sizes = [shape[axis] for axis in axes]
        positions = np.indices(shape).reshape(len(shape), -1)[axes]
        combinations = np.indices(sizes)[..., np.newaxis]
        spread = positions.reshape(len(axes), *[1] * len(axes), -1)
        return (combinations == spread).all(axis=0)
