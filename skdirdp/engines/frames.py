"""Frames that compute elsewhere: their own engine brings equal records together.

What comes back is one row for each different record of the few columns that a table is
about, with the number, or the weight, of those records; never more rows than the table has
cells. They pass the checks that records in memory pass, and are counted by the door.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd

from .._contributions import RowBounds, RowSums, Weights
from .._messages import errors_without_data
from .._persons import CountedRows, Unit
from .arrow import check_named
from .expressions import Numbers, between, bounded_rows, cell, rounded_down
from .parts import Counter, Roles, plain
from .progress import shown

# Names of columns that are computed, as no user has them.
_N, _WEIGHT = "__skdirdp_n", "__skdirdp_weight"
# Names of the columns of X in queries, followed by a number.
_COLUMN = "__skdirdp_column"
# Characters that have a meaning in the queries of some engine.
_SPECIAL = re.compile(r"[^\w -]")


class Groups(NamedTuple):
    """Different records of some columns, and how often they occur.

    Attributes
    ----------
    codes : what `encode` made of them.
    n_rows : how many records there are in all.
    weights : what those of each row count for together.
    """

    codes: Any
    n_rows: int
    weights: Weights


class Frame:
    """A table of an engine that narwhals speaks to.

    Attributes
    ----------
    names : names of the features.
    sample : an empty frame of the same columns.
    given : parameters of `fit` that were given.
    """

    in_memory = False
    kind = "a frame that computes elsewhere"

    def __init__(self, X: Any, given: dict[str, Any]):
        frame = nw.from_native(X).lazy()
        with errors_without_data():
            self.schema = frame.collect_schema()
            names = self.schema.names()
            self._own = {name: f"{_COLUMN}{k}" for k, name in enumerate(names)}
            self._frame = _renamed(frame, self._own)
        self.given = check_named(given)
        self._roles = Roles.of(names, given)
        self.names = self._roles.features
        self.sample = pd.DataFrame(columns=self.names)
        self._terms = Weights.from_values(None, None)

    @property
    def label(self) -> str:
        """The name of the column of labels."""
        return self._roles.named["y"]

    def select_features(self, features: list[Any]) -> "Frame":
        """The same; a query names the columns it is about anyway."""
        return self

    def count(self, counter: Counter) -> Any:
        """The counts that the estimator asks for."""
        if "groups" in self.given:
            self._check_persons(counter.max_rows)
        return counter.count_frame(self)

    def shown(self, tables: list[Any]) -> Any:
        """The tables one by one, with a bar."""
        return shown(tables, len(tables), "table")

    # Whose records ------------------------------------------------------------------

    def counted(self, n_rows: int, max_rows: int) -> CountedRows:
        """What a table of so many records says of persons.

        That nobody has more records than `max_rows` is seen and not made so: tables in which
        somebody has more are refused, and no release of theirs is promised anything.
        """
        if n_rows == 0:
            raise ValueError("X must hold at least one record; got 0")
        return CountedRows(Unit(max_rows), n_rows)

    def _check_persons(self, max_rows: int) -> None:
        name = self._roles.named["groups"]
        if not (self.schema[name].is_integer() or self.schema[name] in _TEXTS):
            raise TypeError(
                "groups must hold whole numbers or strings, an id for each row; got "
                f"{self.schema[name]}"
            )
        own = self._own[name]
        rows = self._frame.group_by(own, drop_null_keys=False).agg(nw.len().alias(_N))
        found = self._collect(
            rows.select(nw.col(_N).max(), nw.col(own).is_null().any().alias(_WEIGHT))
        )
        if len(found) and found[_WEIGHT].fillna(False).any():
            raise ValueError(
                "groups must hold whole numbers or strings, an id for each row; some are missing"
            )
        if len(found) and found[_N].max() > max_rows:
            raise ValueError(
                f"groups must have at most max_rows={max_rows} rows each in a frame that computes "
                "elsewhere; some have more. Its rows have no order that all engines keep, so "
                "which ones are counted is not for an engine to choose: keep some of each, as "
                "ROW_NUMBER() OVER (PARTITION BY id ORDER BY ...) does in SQL"
            )

    # Equal records ------------------------------------------------------------------

    def set_weights(
        self, max_weight: float | None, check: Callable[[Any], np.ndarray], *, exact: bool
    ) -> None:
        """Look at the weights, if there are any; `check` is that of weights in memory."""
        name = self._roles.named.get("sample_weight")
        if name is None:
            self._terms = Weights.from_values(None, max_weight, exact=exact)
            return
        numbers = Numbers.of(self.schema, [name], [self._own[name]])
        specimen = numbers.specimen(self._survey(numbers))[name].to_numpy()
        with errors_without_data(sample_weight=specimen):
            values = check(specimen)
        self._terms = Weights.from_values(values, max_weight, exact=exact)

    def group(
        self, columns: list[str], n_cells: int, encode: Callable[[pd.DataFrame], Any]
    ) -> Groups:
        """Different records of these columns, of which there are so many at most.

        `encode` refuses records as it would in memory. Among more than there may be, one at
        least is wrong.
        """
        return self._grouped(self._frame, columns, n_cells, encode)

    def group_cells(
        self,
        name: str,
        low: float,
        high: float,
        width: float,
        first: float,
        n_cells: int,
        encode: Callable[[pd.DataFrame], Any],
    ) -> Groups:
        """The same of the cells of a grid that the numbers of a column lie in."""
        own = self._own[name]
        cells = cell(own, low, high, width, first).alias(own)
        return self._grouped(self._frame.with_columns(cells), [name], n_cells, encode)

    def _grouped(
        self,
        frame: nw.LazyFrame,
        columns: list[str],
        n_cells: int,
        encode: Callable[[pd.DataFrame], Any],
    ) -> Groups:
        weight = self._weight()
        sums = [nw.len().alias(_N)]
        if weight is not None:
            frame = frame.with_columns(weight.alias(_WEIGHT))
            sums.append(nw.col(_WEIGHT).sum())
        own = [self._own[name] for name in columns]
        rows = frame.group_by(*own, drop_null_keys=False).agg(*sums)
        found = self._collect(rows.head(n_cells + 1))
        if found.empty:
            raise ValueError("X must hold at least one record; got 0")
        records = found[own].set_axis(columns, axis=1)
        with errors_without_data(X=records):
            codes = encode(records)
        self._check_forms(len(found), n_cells, columns)
        totals = found[_N if weight is None else _WEIGHT].to_numpy(dtype=np.float64)
        return Groups(codes, int(found[_N].sum()), self._terms.with_group_totals(totals))

    @staticmethod
    def _check_forms(found: int, n_cells: int, columns: list[str]) -> None:
        """Refuse more different records than cells, if each was found to be in one."""
        if found > n_cells:
            raise ValueError(
                "X must hold the values that are declared, each in one form; there are more "
                f"different ones in {', '.join(map(repr, columns))}"
            )

    # Rows ---------------------------------------------------------------------------

    def numbers(self, threshold: float | None = None) -> Numbers:
        """The features, as numbers or as whether they are above a threshold."""
        own = [self._own[name] for name in self.names]
        return Numbers.of(self.schema, self.names, own, threshold)

    def sum_rows(
        self,
        numbers: Numbers,
        rule: Callable[[Weights, float], RowBounds],
        check: Callable[[pd.DataFrame], Any],
        n_labels: int,
        encode: Callable[[pd.Series], np.ndarray],
    ) -> RowSums:
        """Sums of rows by label, each row held to a rule in the engine.

        Parameters
        ----------
        numbers : Numbers
        rule : callable
            The rule, by the terms of the weights and the largest number.
        check : callable
            Refuses a made-up row that has the faults of the records, in memory's words.
        n_labels : int
        encode : callable
            The positions of labels.
        """
        found = self._survey(numbers)
        specimen = numbers.specimen(found)
        check(specimen)
        held = rule(self._terms, float(specimen.to_numpy(dtype=np.float64).max(initial=0.0)))
        label = self._own[self.label]
        rows = bounded_rows(self._frame, numbers, held, self._weight(), label)
        sums = rows.frame.group_by(label, drop_null_keys=False).agg(
            nw.col(*rows.entries).sum(),
            nw.col(rows.least).min(),
            nw.col(rows.largest, rows.total).max(),
        )
        found = self._collect(sums.head(n_labels + 1))
        labels = found[label].rename(self.label)
        with errors_without_data(y=labels):
            codes = encode(labels)
        self._check_forms(len(found), n_labels, [self.label])
        # As arrays, whose extremes are nan where one number is.
        least, largest, totals = (
            found[name].to_numpy(dtype=np.float64)
            for name in (rows.least, rows.largest, rows.total)
        )
        total = float(totals.max())
        held.check(largest.max(), total, least.min())
        table = np.zeros((n_labels, len(rows.entries)))
        np.add.at(table, codes, found[rows.entries].to_numpy(dtype=np.float64))
        return held.check_sums(table, total)

    def _survey(self, numbers: Numbers) -> pd.DataFrame | None:
        return self._collect(self._frame.select(**numbers.survey())) if numbers.readable else None

    def _weight(self) -> nw.Expr | None:
        name = self._roles.named.get("sample_weight")
        if name is None:
            return None
        weight = nw.col(self._own[name]).cast(nw.Float64)
        if self._terms.grid is None:
            return weight
        # They were looked at in another query, and a table may change between two.
        return rounded_down(between(weight, 0.0, self._terms.bound), self._terms.grid)

    def _collect(self, frame: nw.LazyFrame) -> pd.DataFrame:
        with errors_without_data():
            if frame.implementation.is_polars():  # which else holds whole columns in memory
                found = frame.collect("polars", engine="streaming").to_pandas()
            else:
                found = frame.collect().to_pandas()
            return found.assign(**{name: plain(found[name]) for name in found})


_TEXTS = (nw.String, nw.Categorical, nw.Enum)


def _renamed(frame: nw.LazyFrame, names: dict[str, str]) -> nw.LazyFrame:
    """The frame with other names for all its columns.

    In a query some names mean more than a column: Polars takes ``^a$`` for a regular expression,
    and DuckDB ``a.b`` for a part of a column.
    """
    if frame.implementation.is_duckdb():
        relation = frame.to_native()
        if len(relation.columns) != len(names):
            raise ValueError("X must have distinct column names; some are duplicates")
        # By position: DuckDB takes "A" for "a" where a relation has both.
        columns = (f"#{place} AS {own}" for place, own in enumerate(names.values(), 1))
        return nw.from_native(relation.project(", ".join(columns))).lazy()
    unsure = [] if frame.implementation.is_polars() else [*filter(_SPECIAL.search, names)]
    if unsure:
        raise ValueError(
            f"X must have no column called {unsure[0]!r}: its engine could take the name for more "
            "than that column. Rename it"
        )
    return frame.rename(names)
