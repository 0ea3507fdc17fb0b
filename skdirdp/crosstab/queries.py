"""Statistics of released tables, by columns and categories.

A query names columns and categories. The released tables that have its columns become one noisy
table, and a query for categories becomes a set of its cells. `skdirdp.inference` does the rest.
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
    """Return the counts of some columns of a table, with dimensions in their order."""
    kept = [name for name in table if name in columns]
    summed = tuple(axis for axis, name in enumerate(table) if name not in columns)
    return np.transpose(counts.sum(axis=summed), [kept.index(name) for name in columns])


def combine_margins(
    tables: Mapping[Columns, np.ndarray],
    mechanisms: Mapping[Columns, Mechanism],
    columns: Columns,
    n_records: float | None,
) -> NoisyTable:
    """Return one noisy table of some columns from all released tables that have them.

    Margins of the tables are averaged, weighted by the precision of their noise, which is public.
    The noise of the average is independent from cell to cell, as that of each margin. A margin of k
    cells, or an average of equally many, has exactly the law of a Gaussian or a Dirichlet release
    with other parameters; in all other cases the law has the same variances.
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
        [counts.size / found.size for counts, found in zip(tables.values(), margins, strict=True)]
    )
    variances = n_summed * [each.variance for each in noise]
    weights = (1 / variances) / (1 / variances).sum()
    per_count = float(weights**2 @ [each.per_count for each in noise])
    average = np.tensordot(weights, np.array(margins), axes=1)
    law = _mechanism(
        Noise(float(weights**2 @ variances), per_count), mechanisms[next(iter(tables))]
    )
    return NoisyTable(average, law, n_records)


def _mechanism(noise: Noise, like: Mechanism) -> Mechanism:
    """Return a mechanism with the given noise and the bounds of another one."""
    bounds: dict[str, Any] = {
        "adjacency": like.adjacency,
        "max_count": like.max_count,
        "max_total": like.max_total,
    }
    if noise.per_count > 0:
        r = 1 / noise.per_count
        return DirichletMechanism(r, noise.variance * r**2, **bounds)
    return GaussianMechanism(float(np.sqrt(noise.variance)), **bounds)


def select_categories(name: Hashable, kind: Kind, wanted: Any) -> np.ndarray:
    """Return a mask of the categories of a column that a query selects.

    A list means any of its members. A pair of bounds means a range of numbers or dates, which must
    consist of whole bins. None means missing values.
    """
    labels = kind.labels()
    if isinstance(wanted, list):
        if not wanted:
            raise ValueError(f"the list of categories of {name!r} must not be empty")
        return np.any([select_categories(name, kind, each) for each in wanted], axis=0)
    if wanted is None or (isinstance(wanted, str) and wanted == MISSING_STATE):
        found = np.array([kind.missing and i == len(labels) - 1 for i in range(len(labels))])
        if not kind.missing:
            raise ValueError(f"column {name!r} has no category of missing values")
        return found
    if isinstance(kind, Categories):
        position = kind.find(rebuild(wanted))
        if position < 0:
            raise ValueError(f"{wanted!r} is not a category of {name!r}, {kind.describe()}")
        return np.arange(len(labels)) == position
    bins = labels[: len(labels) - kind.missing]
    is_range = isinstance(wanted, tuple) and len(wanted) == 2
    found = _bins_within(name, kind, bins, *wanted) if is_range else _find_bin(name, bins, wanted)
    return np.append(found, [False] * kind.missing)


def _find_bin(name: Hashable, bins: list, wanted: Any) -> np.ndarray:
    """Return a mask of the bin that is, or has, the wanted value."""
    found = np.array([type(label) is type(wanted) and label == wanted for label in bins])
    if not found.any():
        found = np.array([not isinstance(b, pd.Interval) and b == wanted for b in bins])
    if not found.any():
        raise ValueError(
            f"{name!r} is counted by bins; give one of categories_[{name!r}], or a pair of bounds"
        )
    return found


def _bins_within(name: Hashable, kind: Kind, bins: list, low: Any, high: Any) -> np.ndarray:
    """Return a mask of the bins between two bounds, each of which is a border of bins."""
    if isinstance(kind, Dates):
        low, high = pd.Timestamp(low), pd.Timestamp(high)
    within, beyond = [], []
    for label in bins:
        first, last = (label.left, label.right) if isinstance(label, pd.Interval) else (label,) * 2
        half_open = isinstance(label, pd.Interval) and label.closed == "left"
        within.append(bool(low <= first and last <= high))
        beyond.append(
            bool(
                last < low
                or first > high
                or (half_open and low == last)
                or (half_open and first == high)
            )
        )
    if not any(within) or not all(np.logical_or(within, beyond)):
        raise ValueError(
            f"the bounds of {name!r} must be borders of its bins, which are categories_[{name!r}]"
        )
    return np.array(within)


class TableQueries:
    """Estimates and tests from released tables, by columns and categories.

    A subclass has the fitted attributes, and `noisy_table`.
    """

    categories_: dict[Hashable, list[Hashable]]
    schema_: Any

    def noisy_table(self, *columns: Hashable) -> NoisyTable:
        """Return the noisy counts of some columns with their noise."""
        raise NotImplementedError

    def share(
        self,
        event: Any,
        given: Any = None,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the share of records in some categories.

        Parameters
        ----------
        event : dict, column or tuple of columns
            Category of each column, a list of categories, or a pair of bounds of numbers or dates;
            None means missing values. If it is a column or several, the share of each category or
            combination of categories.
        given : dict or column, default=None
            Categories among whose records the share is taken. If it is a column, the share among
            the records of each of its categories.
        confidence : float in (0, 1), default=0.95
            Probability that an interval contains the true value.
        population : bool, default=True
            Whether the interval is for the population that the records were drawn from, or for the
            counted records themselves.

        Returns
        -------
        inference.Estimate
            With a dimension for `given` if it is a column, and one for each column of `event`.
        """
        query = _Query(self, event, given)
        inside, condition = query.masks(event), query.masks(given)
        ones = (1,) * (inside.ndim - 1)
        among = condition.reshape(*condition.shape[:-1], *ones, condition.shape[-1])
        shape = np.broadcast_shapes(inside.shape, among.shape)
        cells, among = (
            np.broadcast_to(each, shape).reshape(-1, *query.table.shape) for each in (inside, among)
        )
        found = inference.share(query.table, cells, among, **_level(confidence, population))
        return _unpack(found, query.table, shape[:-1])

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
        """Estimate the difference of a share between groups of records.

        Parameters
        ----------
        event : dict
            Categories whose share is compared, as for `share`.
        column : column
            Column of the groups. Each of its categories, except that of missing values, is compared
            with the reference.
        given : dict, default=None
            Categories among whose records the groups are taken.
        reference : category, default=None
            Category of the column that all others are compared with. If None, the first one.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
            A number if there is one other category, otherwise an array.
        """
        table, *cells = self._groups(event, column, given, reference)
        found = inference.difference(table, *cells, **_level(confidence, population))
        return _unpack(found, table, _single(len(cells[1])))

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
        """Estimate the ratio of a share between groups of records, the relative risk.

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
        found = inference.ratio(table, *cells, **_level(confidence, population))
        return _unpack(found, table, _single(len(cells[1])))

    def _groups(self, event: Any, column: Hashable, given: Any, reference: Any) -> tuple[Any, ...]:
        """Return a table, the cells of an event, of the groups, and of the reference."""
        query = _Query(self, event, column, given)
        kind = self.schema_[column]
        first = kind.labels()[0]
        base = select_categories(column, kind, first if reference is None else reference)
        others = ~base
        others[len(others) - kind.missing :] = False
        if not others.any():
            raise ValueError(f"column {column!r} must have several categories; it has one")
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
            A number for two categories each. Otherwise an array with a row for each category of
            `row` and a column for each category of `column`, except the first ones, which all
            others are compared with.
        """
        query = _Query(self, row, column)
        n_rows, n_columns = (len(self._values(name)) for name in (row, column))
        rows, columns = query.masks(row), query.masks(column)
        shape = (n_rows - 1, n_columns - 1)
        # Only two categories of the column are compared at a time.
        pairs = np.broadcast_to(columns[0] | columns[1:n_columns], (*shape, columns.shape[1]))
        cells = np.broadcast_to(columns[1:n_columns], pairs.shape)
        groups, base = rows[1:n_rows, np.newaxis] & pairs, rows[0] & pairs
        found = inference.odds_ratio(
            query.table,
            *(each.reshape(-1, *query.table.shape) for each in (cells, groups, base)),
            **_level(confidence, population),
        )
        return _unpack(found, query.table, _single(*shape))

    def mean(
        self,
        column: Hashable,
        given: Any = None,
        *,
        confidence: float = 0.95,
        population: bool = True,
    ) -> Estimate:
        """Estimate the mean of a column of numbers.

        Parameters
        ----------
        column : column
            Numbers, or categories that are numbers. Missing values are left out. The interval
            contains the mean wherever the numbers lie in their bins; bins of a single whole number
            add nothing to it.
        given : dict or column, default=None
            As for `share`.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        table, options, shape = self._numbers_given(column, given)
        values, edges = _axis_of(column, self.schema_[column])
        options |= _level(confidence, population)
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
        """Estimate a quantile of a column of numbers.

        Parameters
        ----------
        column : column
            Numbers in bins. Missing values are left out. The limits are edges of bins.
        q : float in (0, 1)
            The probability below the quantile.
        given : dict or column, default=None
            As for `share`.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        table, options, shape = self._numbers_given(column, given)
        _, edges = _axis_of(column, self.schema_[column])
        if edges is None:
            raise ValueError(f"column {column!r} must be numbers in bins for quantiles")
        options |= _level(confidence, population)
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
            Bins count as their centres, and categories that are not numbers as 0, 1, 2 and so on.
            Missing values are left out.
        confidence, population
            As for `share`.

        Returns
        -------
        inference.Estimate
        """
        values = [_centres(self.schema_[name]) for name in (row, column)]
        options = _level(confidence, population)
        return inference.correlation(self._known(row, column), *values, **options)

    def cramers_v(self, row: Hashable, column: Hashable, *, confidence: float = 0.95) -> Estimate:
        """Estimate Cramer's V of the population, the strength of the dependence of two columns.

        Parameters
        ----------
        row, column : columns
            Missing values are left out.
        confidence : float in (0, 1), default=0.95
            Probability that an interval contains the true value.

        Returns
        -------
        inference.Estimate
        """
        return inference.cramers_v(self._known(row, column), confidence=confidence)

    def independence(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether two columns are independent in the population.

        Parameters
        ----------
        row, column : columns
            Missing values are left out.
        **options
            Of `inference.independence`.

        Returns
        -------
        inference.TestResult
            With the statistic, the p-value and the degrees of freedom; the noise is included.
        """
        return inference.independence(self._known(row, column), **options)

    def homogeneity(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether a column has the same distribution in all groups of records.

        Parameters
        ----------
        row : column
            Column of the groups.
        column : column
            Missing values of both are left out.
        **options
            Of `inference.homogeneity`.

        Returns
        -------
        inference.TestResult
        """
        return inference.homogeneity(self._known(row, column), **options)

    def goodness_of_fit(
        self, column: Hashable, probabilities: Any = None, **options: Any
    ) -> "TestResult":
        """Test whether the categories of a column have given probabilities in the population.

        Parameters
        ----------
        column : column
            Missing values are left out.
        probabilities : dict or array-like, default=None
            Probability of each category, or of all categories in their order. If None, they are
            equal.
        **options
            Of `inference.goodness_of_fit`.

        Returns
        -------
        inference.TestResult
        """
        if isinstance(probabilities, Mapping):
            kind = self.schema_[column]
            found = np.zeros(len(self._values(column)))
            for wanted, probability in probabilities.items():
                chosen = select_categories(column, kind, wanted)[: len(found)]
                if chosen.sum() != 1:
                    raise ValueError(f"probabilities must name single categories of {column!r}")
                found[chosen] = probability
            probabilities = found
        return inference.goodness_of_fit(self._known(column), probabilities, **options)

    def trend(self, row: Hashable, column: Hashable, **options: Any) -> "TestResult":
        """Test whether two ordered columns are uncorrelated in the population.

        Parameters
        ----------
        row, column : columns
            As for `correlation`.
        **options
            Of `inference.trend`.

        Returns
        -------
        inference.TestResult
        """
        values = [_centres(self.schema_[name]) for name in (row, column)]
        return inference.trend(self._known(row, column), *values, **options)

    def _known(self, *columns: Hashable) -> NoisyTable:
        """Return the noisy table of some columns, without missing values."""
        table = self.noisy_table(*columns)
        known: Any = (..., *(slice(len(self._values(name))) for name in columns))
        counts = table.counts[known]
        # The number of records without missing values is not public.
        n_records = table.n_records if counts.shape == table.counts.shape else None
        return replace(table, counts=counts, n_records=n_records)

    def _numbers_given(
        self, column: Hashable, given: Any
    ) -> tuple[NoisyTable, dict[str, Any], tuple[int, ...]]:
        """Return a table of the records with a number, options, and the shape of results."""
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
            # The number of records with a number is not public.
            table = replace(table, counts=table.counts[index], n_records=None)
            cells = cells[index]
        return table, {"axis": axis, "given": cells}, shape

    def _values(self, name: Hashable) -> list[Hashable]:
        """Return the categories of a column without that of missing values."""
        labels = self.categories_[name]
        return labels[: len(labels) - self.schema_[name].missing]


def _axis_of(name: Hashable, kind: Kind) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the number of each category, or the edges of bins of numbers."""
    labels = kind.labels()[: kind.n_cells - kind.missing]
    if all(isinstance(label, int | float) for label in labels):
        return np.array(labels, dtype=float), None
    if not isinstance(kind, Numbers):
        raise ValueError(f"column {name!r} must hold numbers; it has {kind.describe()}")
    firsts = [getattr(label, "left", label) for label in labels]
    # Whole numbers fill the unit around them.
    half = 0.5 if kind.is_discrete else 0.0
    return None, np.append(np.array(firsts, dtype=float) - half, kind.high + half)


def _centres(kind: Kind) -> np.ndarray | None:
    """Return the numbers of categories, or the centres of bins; None if they are not numbers."""
    labels = kind.labels()[: kind.n_cells - kind.missing]
    if not all(isinstance(label, int | float | pd.Interval) for label in labels):
        return None
    found = [label.mid if isinstance(label, pd.Interval) else label for label in labels]
    return None if isinstance(kind, Dates) else np.array(found, dtype=float)


def _level(confidence: float, population: bool) -> dict[str, Any]:
    return {"confidence": confidence, "population": population}


def _single(*shape: int) -> tuple[int, ...]:
    """Return the shape of results; a single one is a number."""
    return () if np.prod(shape) == 1 else shape


def _unpack(found: Estimate, table: NoisyTable, shape: tuple[int, ...]) -> Estimate:
    """Return estimates as arrays of a shape, after the dimensions of independent tables."""
    lead = table.counts.shape[: table.batch_dims]
    value, low, high = (
        np.reshape(each, (*lead, *shape)) for each in (found.value, found.low, found.high)
    )
    return Estimate(value, low, high, found.confidence)


class _Query:
    """Noisy table of all columns of some conditions, and the cells that a condition selects."""

    def __init__(self, tables: Any, *conditions: Any):
        self._schema = tables.schema_
        found = (name for each in conditions for name in self._columns(each))
        self.columns = tuple(dict.fromkeys(found))
        self.table: NoisyTable = tables.noisy_table(*self.columns)

    def _columns(self, condition: Any) -> list[Hashable]:
        """Return the columns of a condition: None, a dict, a column, or a tuple of columns."""
        if condition is None:
            return []
        if isinstance(condition, Mapping):
            if not condition:
                raise ValueError("a condition must name at least one column; got an empty dict")
            return list(condition)
        # A tuple may be the name of a column.
        is_column = not isinstance(condition, tuple) or condition in self._schema
        return [condition] if is_column else list(condition)

    def masks(self, condition: Any) -> np.ndarray:
        """Return the cells of a condition along the last dimension.

        Columns have a dimension each before it, for their categories.
        """
        shape = self.table.shape
        if condition is None:
            return np.ones(int(np.prod(shape)), dtype=bool)
        if isinstance(condition, Mapping):
            mask = np.ones(shape, dtype=bool)
            for name, wanted in condition.items():
                chosen = select_categories(name, self._schema[name], wanted)
                ones = [1] * len(shape)
                ones[self.columns.index(name)] = len(chosen)
                mask = mask & chosen.reshape(ones)
            return mask.reshape(-1)
        axes = [self.columns.index(name) for name in self._columns(condition)]
        sizes = [shape[axis] for axis in axes]
        positions = np.indices(shape).reshape(len(shape), -1)[axes]
        wanted = np.indices(sizes)[..., np.newaxis]
        spread = positions.reshape(len(axes), *[1] * len(axes), -1)
        return (wanted == spread).all(axis=0)
