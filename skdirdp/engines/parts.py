"""Parts of a table: how they are counted one by one, and how their counts are added.

A part is counted by the door, wherever it lies, as a table of its own would be. All that
is counted is on a public grid, on which sums are exact in whatever order they are taken
(docs/theory.md, 2.6); so it makes no difference how a table is divided.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from .._contributions import check_exact
from .._messages import errors_without_data
from .._persons import CountedRows, select_rows


class Part(NamedTuple):
    """Some records of a table, in memory, and what stands beside them."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    groups: Any = None


class Counter(Protocol):
    """What an estimator counts, without what it pays with: it may go to other machines."""

    max_rows: int

    def count_part(self, part: Part, before: CountedRows | None) -> Any:
        """The counts of a part, which can be added to those of others.

        `before` says whose records are counted in parts before this one.
        """

    def count_frame(self, frame: Any) -> Any:
        """The same counts of a frame, from what its own engine brings together."""


@dataclass(frozen=True)
class TableCounts:
    """Counts of several tables, each of which every record is in once.

    Attributes
    ----------
    counted : how many records there are, and whose.
    tables : list of ndarray
    """

    counted: CountedRows
    tables: list[np.ndarray]

    def __add__(self, other: "TableCounts") -> "TableCounts":
        tables = [a + b for a, b in zip(self.tables, other.tables, strict=True)]
        for table in tables:
            check_exact(table, None)
        return TableCounts(self.counted + other.counted, tables)


@dataclass(frozen=True)
class Roles:
    """Which columns of a frame are features, and which say something else of a record.

    Attributes
    ----------
    features : names in the order of the frame.
    named : parameters of `fit` that are given as the name of a column, with that name.
    """

    features: list[Any]
    named: dict[str, Any]

    @classmethod
    def of(cls, names: list[Any], given: dict[str, Any]) -> "Roles":
        """Roles of the columns of these names, of which `given` may name some."""
        named = {role: name for role, name in given.items() if isinstance(name, str)}
        for role, name in named.items():
            if name not in names:
                raise ValueError(f"{role} must be the name of a column of X; {name!r} is none")
        if len(set(named.values())) < len(named):
            raise ValueError(f"{', '.join(named)} must name different columns; some are the same")
        return cls([name for name in names if name not in named.values()], named)

    def of_features(self, features: list[Any]) -> "Roles":
        """The same where only some of the features are looked at."""
        return Roles(features, self.named)

    @property
    def columns(self) -> list[Any]:
        """All columns that are read."""
        return [*self.features, *self.named.values()]

    def split(self, frame: Any, **others: Any) -> Part:
        """The records of a pandas frame, and what its other columns say of them."""
        beside = {role: frame[name] for role, name in self.named.items()}
        return Part(frame[self.features], **beside, **others)


@dataclass(frozen=True)
class Refusal:
    """An error as a value: of a task that fails, engines would log what it was given."""

    kind: type[Exception]
    message: str

    @classmethod
    def of(cls, error: Exception) -> "Refusal":
        kinds = (TypeError, ValueError)
        kind = next((kind for kind in kinds if isinstance(error, kind)), RuntimeError)
        return cls(kind, str(error))


def count_part(counter: Counter, part: Part, before: Any = None) -> Any:
    """Counts of a part; None if it is empty, or a refusal that shows no data."""
    if part.X.shape[0] == 0:
        return None
    if isinstance(before, Refusal):
        return before
    try:
        with errors_without_data(X=part.X):
            return counter.count_part(part._replace(y=plain(part.y)), before)
    except Exception as error:
        return Refusal.of(error)


def plain(values: Any) -> Any:
    """Texts as scikit-learn reads them, with nan in their gaps: engines have other kinds."""
    if isinstance(values, pd.Series) and (
        isinstance(values.dtype, pd.StringDtype) or values.dtype == object
    ):
        return values.to_numpy(dtype=object, na_value=np.nan)
    return values


def persons_after(before: Any, groups: Any, max_rows: int) -> Any:
    """How many records of each person are counted up to the end of a part."""
    if isinstance(before, Refusal) or len(groups) == 0:
        return before
    try:
        # Which rows of this part they are is not for the next one.
        return replace(select_rows(groups, len(groups), max_rows, before), rows=None)
    except Exception as error:
        return Refusal.of(error)


def added(counts: list[Any]) -> Any:
    """The sum of counts, in their order; the first refusal if there is one."""
    total = None
    for found in counts:
        if isinstance(found, Refusal):
            return found
        if found is not None:
            total = found if total is None else total + found
    return total


def outcome(counts: Any) -> Any:
    """Counts that a table may be released from; raises a refusal in its own words."""
    if isinstance(counts, Refusal):
        raise counts.kind(counts.message)
    if counts is None:
        raise ValueError("X must hold at least one record; got 0")
    return counts
