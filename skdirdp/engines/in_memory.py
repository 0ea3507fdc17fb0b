"""Tables and parts of tables in memory, batches of PyArrow, and sums of the counts of parts.

A part is counted like a separate table. All counts are multiples of a public grid, on which
sums are exact in any order (docs/theory.md, 2.6), so the result does not depend on how a table is
divided into parts.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._contributions import check_exact
from .._messages import errors_without_data
from .._persons import CountedRows, select_by_key
from ..schema import (
    BLOCK_ROWS,
    Schema,
    block_frame,
    column_names,
    empty_table,
    table_blocks,
    text_objects,
)

#: A progress bar is shown after this many seconds.
PROGRESS_DELAY = 2.0


class Part(NamedTuple):
    """Some records of a table, in memory, with their labels, weights and ids."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    groups: Any = None


class Counter(ABC):
    """Counting code of an estimator, which may be sent to workers; it contains no accountant."""

    max_rows: int

    @property
    def schema(self) -> Schema | None:
        """Schema that encodes the cells, which no engine of a lazy frame can do."""
        return None

    def select_rows(
        self, groups: Any, n_rows: int, previous: CountedRows | None = None
    ) -> CountedRows:
        """Select the counted rows of a part; `previous` contains the people in earlier parts."""
        return select_by_key(self.schema, groups, n_rows, self.max_rows, previous)

    @abstractmethod
    def count_part(self, part: Part, previous: CountedRows | None) -> Any:
        """Return counts that can be added; `previous` contains the people in earlier parts."""

    @abstractmethod
    def count_frame(self, frame: Any) -> Any:
        """Return the same counts for a `LazyTable`."""


@dataclass(frozen=True)
class TableCounts:
    """Counts of several tables; each table counts every record once."""

    counted: CountedRows
    tables: list[np.ndarray]

    def __add__(self, other: "TableCounts") -> "TableCounts":
        tables = [a + b for a, b in zip(self.tables, other.tables, strict=True)]
        for table in tables:
            check_exact(table, None)
        return TableCounts(self.counted + other.counted, tables)


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of the columns of a DataFrame."""

    features: list[Any]  # feature columns, in the order of the DataFrame
    named: dict[str, Any]  # parameters of `fit` that are column names

    @classmethod
    def from_names(
        cls, names: list[Any], given: dict[str, Any], names_only: bool = False
    ) -> "ColumnRoles":
        """Return the roles of columns; strings in `given` are column names."""
        named = {role: name for role, name in given.items() if isinstance(name, str)}
        for role, value in given.items():
            if names_only and value is not None and role not in named:
                raise TypeError(
                    f"{role} must be the name of a column of X if X is not in memory; got "
                    f"{type(value).__name__}"
                )
        for role, name in named.items():
            if name not in names:
                raise ValueError(f"{role} must be the name of a column of X; {name!r} is not one")
        if len(set(named.values())) < len(named):
            raise ValueError(f"{', '.join(named)} must name different columns; some are the same")
        return cls([name for name in names if name not in named.values()], named)

    @property
    def columns(self) -> list[Any]:
        return [*self.features, *self.named.values()]

    def split(self, frame: pd.DataFrame, **others: Any) -> Part:
        """Return the features and the other columns of a DataFrame as a part."""
        columns = {role: frame[name] for role, name in self.named.items()}
        return Part(frame[self.features], **columns, **others)


class InMemoryTable:
    """Table in memory: an array, a sparse matrix or a DataFrame."""

    in_memory = True

    def __init__(self, X: Any, given: dict[str, Any]):
        names = column_names(X)
        if names is None or not any(isinstance(value, str) for value in given.values()):
            self.part = Part(X, **given)
            return
        roles = ColumnRoles.from_names(names, given)
        features = X.select(roles.features) if hasattr(X, "select") else X[roles.features]
        others = {role: X[value] if role in roles.named else value for role, value in given.items()}
        self.part = Part(features, **others)


@dataclass(frozen=True)
class FailedCount:
    """Error in a part. It is returned, not raised: engines would log the arguments of the task."""

    kind: type[Exception]
    message: str

    @classmethod
    def from_error(cls, error: Exception) -> "FailedCount":
        kinds = (TypeError, ValueError)
        kind = next((kind for kind in kinds if isinstance(error, kind)), RuntimeError)
        return cls(kind, str(error))


def count_part(counter: Counter, part: Part, previous: Any = None) -> Any:
    """Return the counts of a part, None if it is empty, or a `FailedCount` after an error."""
    if part.X.shape[0] == 0:
        return None
    if isinstance(previous, FailedCount):
        return previous
    try:
        with errors_without_data(X=part.X):
            return counter.count_part(part._replace(y=text_objects(part.y)), previous)
    except Exception as error:
        return FailedCount.from_error(error)


def count_per_person(counter: Counter, part: Part, previous: Any) -> Any:
    """Return the number of counted records of each person up to the end of a part."""
    n_rows = len(part.groups)
    if isinstance(previous, FailedCount) or n_rows == 0:
        return previous
    try:
        # The next part does not need the positions of the rows.
        return replace(counter.select_rows(part.groups, n_rows, previous), rows=None)
    except Exception as error:
        return FailedCount.from_error(error)


def count_blocks(counter: Counter, parts: Iterable[Part], by_ids: bool) -> Any:
    """Return the counts of parts that are read one after the other."""
    total, previous = None, None
    with errors_without_data():
        for part in parts:
            total = add_counts([total, count_part(counter, part, previous)])
            if isinstance(total, FailedCount):
                break
            if by_ids:
                previous = count_per_person(counter, part, previous)
    return check_total(total)


def add_counts(counts: list[Any]) -> Any:
    """Return the sum of the counts of parts, or the first failure."""
    total = None
    for part_counts in counts:
        if isinstance(part_counts, FailedCount):
            return part_counts
        if part_counts is not None:
            total = part_counts if total is None else total + part_counts
    return total


def check_total(counts: Any) -> Any:
    """Return the counts of a table; raise an error if counting failed or the table is empty."""
    if isinstance(counts, FailedCount):
        raise counts.kind(counts.message)
    if counts is None:
        raise ValueError("X must contain at least one record; got 0")
    return counts


def is_interactive() -> bool:
    """Return whether stderr is a terminal or a notebook."""
    with suppress(Exception):
        if sys.stderr.isatty():
            return True
    return "ipykernel" in sys.modules


def with_progress(steps: Iterable[Any], total: int | None, unit: str) -> Iterator[Any]:
    """Iterate over the steps, with a progress bar in an interactive session."""
    with suppress(ImportError):
        from tqdm.auto import tqdm

        shown: Any = {"disable": not is_interactive(), "delay": PROGRESS_DELAY, "leave": False}
        return iter(tqdm(steps, "counting", total, unit=unit, **shown))
    return iter(steps)


class OutOfCoreTable:
    """Base class of tables that are not in memory."""

    in_memory = False
    _roles: ColumnRoles

    def select_features(self, features: list[Any]) -> "OutOfCoreTable":
        """Restrict the blocks of a table to some of the features."""
        self._roles = replace(self._roles, features=features)
        return self


class ArrowTable(OutOfCoreTable):
    """Dataset in files, or stream of record batches."""

    kind = "a PyArrow dataset"

    def __init__(self, X: Any, given: dict[str, Any]):
        self._X = X
        self._roles = ColumnRoles.from_names(list(X.schema.names), given, names_only=True)
        self.given = set(self._roles.named)  # parameters of `fit` that were given
        # Empty frame with the same columns.
        self.empty = empty_table(X)[self._roles.features]

    def count(self, counter: Counter) -> Any:
        total = None
        if hasattr(self._X, "count_rows"):
            total = -(-self._X.count_rows() // BLOCK_ROWS)
        blocks = with_progress(table_blocks(self._X, self._roles.columns), total, "batch")
        parts = (self._roles.split(block_frame(block)) for block in blocks)
        return count_blocks(counter, parts, "groups" in self.given)
