"""Lazy frames whose own engine aggregates equal records.

The engine returns one row per distinct record of the few columns that a table needs, with the
number or total weight of these records. These rows pass the same checks as records in memory, and
are counted by `_contributions`. Rows of numbers are bounded in the engine, by the operations of
`RowBounds.apply` in the same order on 64-bit floats. IEEE 754 defines the rounding of each, so a
record contributes the same to the last bit. `RowBounds` checks the results.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd

from .._contributions import RowBounds, RowSums, Weights
from .._messages import errors_without_data
from .._persons import CountedRows, Unit
from ..schema import block_frame, narwhals_to_pandas, table_blocks
from .in_memory import ColumnRoles, Counter, OutOfCoreTable, count_blocks, with_progress

# Prefix of the names of computed columns. The columns of X are renamed, too.
_OWN = "__skdirdp_"
_N, _WEIGHT = f"{_OWN}n", f"{_OWN}weight"
_LEAST, _LARGEST, _SUM = f"{_OWN}least", f"{_OWN}largest", f"{_OWN}sum"
# Characters with a meaning in the queries of some engine.
_SPECIAL = re.compile(r"[^\w -]")
_TEXTS = (nw.String, nw.Categorical, nw.Enum)


@dataclass(frozen=True)
class NumericColumns:
    """Columns of numbers."""

    names: list[str]  # names in X
    columns: list[str]  # names in the engine
    are_numeric: bool  # whether all have numeric types
    threshold: float | None = None  # replace numbers by whether they exceed it

    @classmethod
    def from_schema(
        cls, schema: nw.Schema, names: list[str], columns: list[str], threshold: float | None = None
    ) -> "NumericColumns":
        kinds = [schema[name] for name in names]
        are_numeric = all(kind.is_numeric() or kind == nw.Boolean for kind in kinds)
        single = (nw.Float32, nw.Boolean, nw.Int8, nw.UInt8, nw.Int16, nw.UInt16)
        if threshold is not None and nw.Float32 in kinds and all(kind in single for kind in kinds):
            # An array of these columns has single precision, and numpy rounds the number that it
            # is compared with.
            threshold = float(np.float32(threshold))
        return cls(names, columns, are_numeric, threshold)

    def values(self) -> list[nw.Expr]:
        return [nw.col(name).cast(nw.Float64) for name in self.columns]

    def summands(self) -> list[nw.Expr]:
        if self.threshold is None:
            return self.values()
        # Floats, because not all engines can add booleans.
        return [_if(value > self.threshold, nw.lit(1.0), nw.lit(0.0)) for value in self.values()]

    def extremes(self) -> dict[str, nw.Expr]:
        """Return expressions for the extremes of the columns, and for missing values."""
        expressions: dict[str, nw.Expr] = {_N: nw.len()}
        for k, value in enumerate(self.values()):
            expressions[f"{_OWN}missing{k}"] = (value.is_null() | value.is_nan()).any()
            expressions[f"{_LEAST}{k}"] = value.min()
            expressions[f"{_LARGEST}{k}"] = value.max()
        return expressions

    def extreme_rows(self, extremes: pd.DataFrame | None) -> pd.DataFrame:
        """Return rows with the extremes and missing values, to check instead of the records.

        `extremes` is the result of the method of this name, None for columns that are not numeric.
        """
        if extremes is None:
            return pd.DataFrame({name: ["text"] for name in self.names})
        rows = {}
        for k, name in enumerate(self.names):
            missing, least, largest = (
                extremes[f"{what}{k}"].iloc[0] for what in (f"{_OWN}missing", _LEAST, _LARGEST)
            )
            last = np.nan if missing else least
            rows[name] = np.array([least, largest, last], dtype=np.float64)
        return pd.DataFrame(rows)


def _if(condition: nw.Expr, then: Any, otherwise: Any) -> nw.Expr:
    return nw.when(condition).then(then).otherwise(otherwise)


def _clip(value: nw.Expr, low: float, high: float) -> nw.Expr:
    return _if(value < low, nw.lit(low), _if(value > high, nw.lit(high), value))


def _round_down(value: nw.Expr, grid: float) -> nw.Expr:
    # Division and multiplication by the grid, a power of two, are exact.
    return (value / grid).floor() * grid


def _total(values: Sequence[nw.Expr]) -> nw.Expr:
    """Return the sum in the order of `DenseRows.totals`."""
    while len(values) > 1:
        half = len(values) // 2
        sums = [values[k] + values[half + k] for k in range(half)]
        if len(values) % 2:
            sums[0] = sums[0] + values[-1]
        values = sums
    return values[0]


def _entry_names(numbers: NumericColumns) -> list[str]:
    return [f"{_OWN}{k}" for k in range(len(numbers.names))]


def bounded_rows(
    frame: nw.LazyFrame,
    numbers: NumericColumns,
    bounds: RowBounds,
    weight: nw.Expr | None,
    label: str,
) -> nw.LazyFrame:
    """Return the weighted contributions of each row, as `RowBounds.apply` computes them.

    The frame has the label, the entries, and the least, the largest and the sum of the entries.
    """
    names = _entry_names(numbers)
    entries = [nw.col(name) for name in names]
    own = {name: nw.col(f"{_OWN}{name}") for name in ("weight", "total", "whole", "over", "factor")}
    values = {
        name: value if bounds.grid is None else _if(value > bounds.clip, nw.lit(bounds.clip), value)
        for name, value in zip(names, numbers.summands(), strict=True)
    }
    # One step in each select, so that an engine computes it once.
    weighted = nw.lit(1.0) if weight is None else weight
    frame = frame.select(nw.col(label), weighted.alias(_WEIGHT), **values)
    if bounds.grid is None:
        frame = frame.with_columns(*(entry * own["weight"] for entry in entries))
    else:
        whole = reduce(and_, [entry == entry.floor() for entry in entries])
        frame = frame.with_columns(
            _total(entries).alias(f"{_OWN}total"), whole.alias(f"{_OWN}whole")
        )
        exact = own["whole"] & (own["total"] < bounds.whole_limit())
        frame = frame.with_columns(exact.alias(f"{_OWN}whole"))
        slack = bounds.slack(len(names))
        limit = _if(own["whole"], nw.lit(bounds.limit), nw.lit(bounds.limit * (1 - slack)))
        frame = frame.with_columns((own["total"] > limit).alias(f"{_OWN}over"))
        scale = nw.lit(bounds.limit * (1 - 2 * slack)) / own["total"]
        factor = _if(own["over"], own["weight"] * scale, own["weight"])
        frame = frame.with_columns(factor.alias(f"{_OWN}factor"))
        changed = own["over"] | ~own["whole"]
        frame = frame.with_columns(
            *(
                scaled if weight is not None else _if(changed, scaled, entry)
                for entry in entries
                for scaled in [_round_down(entry * own["factor"], bounds.grid)]
            )
        )
    return frame.with_columns(
        nw.min_horizontal(*entries).alias(_LEAST),
        nw.max_horizontal(*entries).alias(_LARGEST),
        _total(entries).alias(_SUM),
    )


class GroupedRecords(NamedTuple):
    """Distinct records of some columns."""

    codes: Any  # encoded records
    n_rows: int  # number of all records
    weights: Weights  # total weight of each group


class LazyTable(OutOfCoreTable):
    """Table of an engine that narwhals supports. Each query names the columns that it needs."""

    kind = "a lazy frame"

    def __init__(self, X: Any, given: dict[str, Any]):
        frame = nw.from_native(X).lazy()
        self._X = X
        with errors_without_data():
            self.schema = frame.collect_schema()
            names = self.schema.names()
            self._own = {name: f"{_OWN}column{k}" for k, name in enumerate(names)}
            self._frame = _rename(frame, self._own)
        self._roles = ColumnRoles.from_names(names, given, names_only=True)
        self.given = set(self._roles.named)  # parameters of `fit` that were given
        self.names = self._roles.features
        self.empty = pd.DataFrame(columns=self.names)
        self._weights = Weights.from_values(None, None)

    @property
    def label(self) -> str:
        return self._roles.named["y"]

    def count(self, counter: Counter) -> Any:
        if counter.schema is not None:
            blocks = with_progress(table_blocks(self._X, self._roles.columns), None, "block")
            parts = (self._roles.split(block_frame(block)) for block in blocks)
            return count_blocks(counter, parts, "groups" in self.given)
        if "groups" in self.given:
            self._check_persons(counter.max_rows)
        return counter.count_frame(self)

    def with_progress(self, tables: list[Any]) -> Any:
        return with_progress(tables, len(tables), "table")

    def counted(self, n_rows: int, max_rows: int) -> CountedRows:
        """Return the number of records with their unit."""
        # The bound on the records of a person is checked but not enforced: a table in which someone
        # has more records raises an error, so the unit is declared and not selected by ids.
        if n_rows == 0:
            raise ValueError("X must contain at least one record; got 0")
        return CountedRows(Unit(max_rows), n_rows)

    def _check_persons(self, max_rows: int) -> None:
        name = self._roles.named["groups"]
        wanted = "groups must contain whole numbers or strings, an id for each row"
        if not (self.schema[name].is_integer() or self.schema[name] in _TEXTS):
            raise TypeError(f"{wanted}; got {self.schema[name]}")
        own = self._own[name]
        rows = self._frame.group_by(own, drop_null_keys=False).agg(nw.len().alias(_N))
        is_missing = nw.col(own).is_null().any().alias(_WEIGHT)
        result = self._collect(rows.select(nw.col(_N).max(), is_missing))
        if len(result) and result[_WEIGHT].fillna(False).any():
            raise ValueError(f"{wanted}; some are missing")
        if len(result) and result[_N].max() > max_rows:
            raise ValueError(
                f"groups must have at most max_rows={max_rows} rows each in a lazy frame; some "
                "have more. Rows of a lazy frame have no fixed order, so the first rows of a "
                "person are not defined. Select them before, for example in SQL with "
                "ROW_NUMBER() OVER (PARTITION BY id ORDER BY ...)"
            )

    def set_weights(
        self, max_weight: float | None, check: Callable[[Any], np.ndarray], *, exact: bool
    ) -> None:
        """Check and bound the weights, if there are any; `check` checks weights in memory."""
        name = self._roles.named.get("sample_weight")
        if name is None:
            self._weights = Weights.from_values(None, max_weight, exact=exact)
            return
        numbers = NumericColumns.from_schema(self.schema, [name], [self._own[name]])
        extremes = numbers.extreme_rows(self._extremes(numbers))[name].to_numpy()
        with errors_without_data(sample_weight=extremes):
            values = check(extremes)
        self._weights = Weights.from_values(values, max_weight, exact=exact)

    def group(
        self,
        columns: list[str],
        n_cells: int,
        encode: Callable[[pd.DataFrame], Any],
        frame: nw.LazyFrame | None = None,
    ) -> GroupedRecords:
        """Return the distinct records of some columns, at most `n_cells`.

        `encode` checks the distinct records as it checks records in memory. If there are more than
        `n_cells`, at least one is invalid. `frame` replaces the records.
        """
        frame = self._frame if frame is None else frame
        weight = self._weight()
        sums = [nw.len().alias(_N)]
        if weight is not None:
            frame = frame.with_columns(weight.alias(_WEIGHT))
            sums.append(nw.col(_WEIGHT).sum())
        own = [self._own[name] for name in columns]
        rows = frame.group_by(*own, drop_null_keys=False).agg(*sums)
        distinct = self._collect(rows.head(n_cells + 1))
        if distinct.empty:
            raise ValueError("X must contain at least one record; got 0")
        records = distinct[own].set_axis(columns, axis=1)
        with errors_without_data(X=records):
            codes = encode(records)
        _check_number(len(distinct), n_cells, columns)
        totals = distinct[_N if weight is None else _WEIGHT].to_numpy(dtype=np.float64)
        weights = self._weights.with_group_totals(totals)
        return GroupedRecords(codes, int(distinct[_N].sum()), weights)

    def group_cells(
        self, name: str, grid: Any, n_cells: int, encode: Callable[[pd.DataFrame], Any]
    ) -> GroupedRecords:
        """Return the distinct cells of a `FineGrid` for a column of numbers."""
        # The cell of a missing value is -1, that of an infinite value is -2.
        own = self._own[name]
        value = nw.col(own).cast(nw.Float64)
        position = (_clip(value, grid.low, grid.high) * (1 / grid.width)).floor() - grid.first
        infinite = (value == nw.lit(np.inf)) | (value == nw.lit(-np.inf))
        cell = _if(infinite, nw.lit(-2.0), position)
        cell = _if(value.is_null() | value.is_nan(), nw.lit(-1.0), cell).cast(nw.Int64)
        return self.group([name], n_cells, encode, self._frame.with_columns(cell.alias(own)))

    def numbers(self, threshold: float | None = None) -> NumericColumns:
        """Return the features as numbers, or as whether they exceed a threshold."""
        own = [self._own[name] for name in self.names]
        return NumericColumns.from_schema(self.schema, self.names, own, threshold)

    def sum_rows(
        self,
        numbers: NumericColumns,
        make_bounds: Callable[[Weights, float], RowBounds],
        check: Callable[[pd.DataFrame], Any],
        n_labels: int,
        encode: Callable[[pd.Series], np.ndarray],
    ) -> RowSums:
        """Return sums of rows by label, each row bounded in the engine.

        `make_bounds` takes the weights and the largest number. `check` checks rows as in memory,
        and `encode` returns the positions of labels.
        """
        extremes = numbers.extreme_rows(self._extremes(numbers))
        check(extremes)
        largest = float(extremes.to_numpy(dtype=np.float64).max(initial=0.0))
        bounds = make_bounds(self._weights, largest)
        label, entries = self._own[self.label], _entry_names(numbers)
        rows = bounded_rows(self._frame, numbers, bounds, self._weight(), label)
        sums = rows.group_by(label, drop_null_keys=False).agg(
            nw.col(*entries).sum(), nw.col(_LEAST).min(), nw.col(_LARGEST, _SUM).max()
        )
        found = self._collect(sums.head(n_labels + 1))
        labels = found[label].rename(self.label)
        with errors_without_data(y=labels):
            codes = encode(labels)
        _check_number(len(found), n_labels, [self.label])
        # Unlike the extremes of a series, those of an array are NaN if one number is.
        least, most, totals = found[[_LEAST, _LARGEST, _SUM]].to_numpy(dtype=np.float64).T
        total = float(totals.max())
        bounds.check(most.max(), total, least.min())
        table = np.zeros((n_labels, len(entries)))
        np.add.at(table, codes, found[entries].to_numpy(dtype=np.float64))
        return bounds.check_sums(table, total)

    def _extremes(self, numbers: NumericColumns) -> pd.DataFrame | None:
        if not numbers.are_numeric:
            return None
        return self._collect(self._frame.select(**numbers.extremes()))

    def _weight(self) -> nw.Expr | None:
        name = self._roles.named.get("sample_weight")
        if name is None:
            return None
        weight = nw.col(self._own[name]).cast(nw.Float64)
        if self._weights.grid is None:
            return weight
        # The weights were checked in another query, and the table may change between the two.
        return _round_down(_clip(weight, 0.0, self._weights.bound), self._weights.grid)

    def _collect(self, frame: nw.LazyFrame) -> pd.DataFrame:
        with errors_without_data():
            if frame.implementation.is_polars():  # otherwise whole columns are in memory
                return narwhals_to_pandas(frame.collect("polars", engine="streaming"))
            return narwhals_to_pandas(frame.collect())


def _check_number(n_distinct: int, n_cells: int, columns: list[str]) -> None:
    """Raise an error if there are more distinct records than cells."""
    if n_distinct > n_cells:
        raise ValueError(
            "X must contain only declared values, each in one form; there are more distinct values "
            f"in {', '.join(map(repr, columns))}"
        )


def _rename(frame: nw.LazyFrame, names: dict[str, str]) -> nw.LazyFrame:
    # Some names have a special meaning in queries: Polars interprets ``^a$`` as a regular
    # expression, and DuckDB ``a.b`` as a field of a column.
    if frame.implementation.is_duckdb():
        relation = frame.to_native()
        if len(relation.columns) != len(names):
            raise ValueError("X must have distinct column names; some are duplicates")
        # Columns are selected by position, because DuckDB names are not case-sensitive.
        columns = (f"#{position} AS {own}" for position, own in enumerate(names.values(), 1))
        return nw.from_native(relation.project(", ".join(columns))).lazy()
    special = [] if frame.implementation.is_polars() else [*filter(_SPECIAL.search, names)]
    if special:
        raise ValueError(
            f"X must have no column called {special[0]!r}: its engine may interpret the name as an "
            "expression. Rename it"
        )
    return frame.rename(names)
