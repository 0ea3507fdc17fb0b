"""Columns of a table, of whatever kind, as the positions of their values among states."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from scipy import sparse

from .._messages import errors_without_data, warn
from .._validation import are_hashable
from ..records import OUTSIDE, UNKNOWN, rebuild, sort_values, state_codes
from ..records import factorise as factorise_cells


@dataclass(frozen=True)
class Records:
    """A table with named columns."""

    names: list[Hashable]
    n_records: int
    _table: Any

    def column(self, name: Hashable) -> Any:
        position = self.names.index(name)
        if isinstance(self._table, np.ndarray):
            return self._table[:, position]
        if isinstance(self._table, list):
            return self._table[position]
        return self._table[name]


def as_records(X: Any, columns: Sequence[Hashable] | None, optional: Hashable = None) -> Records:
    """The columns of a DataFrame (pandas, Polars), an Arrow table, an array or a list of rows.

    `columns` names those of an array, which else are numbered. An array may lack the
    one column called `optional`.
    """
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow calls columns otherwise
        with errors_without_data(X=X):
            names, arrow = _arrow_columns(X)
        _check_distinct("X", names)
        return Records(names, int(X.num_rows), arrow)
    if hasattr(X, "columns") and hasattr(X, "shape"):
        names = list(X.columns)
        _check_distinct("X", names)
        return Records(names, int(X.shape[0]), X)
    if sparse.issparse(X):
        raise TypeError("X must be a DataFrame or a dense array; got a sparse matrix")
    with errors_without_data(X=X):
        if isinstance(X, list | tuple) and len(X):
            X = _columns_of_rows(X)
            n_records, n_columns = len(X[0]) if X else 0, len(X)
        else:
            X = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
            if X.ndim != 2:
                raise ValueError(f"X must have two dimensions, records and columns; got {X.ndim}")
            if isinstance(X, np.matrix):  # whose columns have two dimensions
                X = np.asarray(X)
            n_records, n_columns = X.shape
    names = list(range(n_columns)) if columns is None else list(columns)
    _check_distinct("columns", names)
    if n_columns == len(names) - 1 and optional in names:
        names.remove(optional)
    if n_columns != len(names):
        raise ValueError(f"X must have {len(names)} columns; got {n_columns}")
    return Records(names, n_records, X)


def _columns_of_rows(X: Sequence[Any]) -> list[tuple]:
    """Columns whose cells are left as they are: numpy would look into cells, and convert some."""
    if any(isinstance(row, str | bytes) or not isinstance(row, Iterable) for row in X):
        raise ValueError("X must have two dimensions, records and columns; some records have none")
    rows = [list(row) for row in X]
    if len(set(map(len, rows))) > 1:
        raise ValueError("X must have rows of one length; some are longer than others")
    return list(zip(*rows, strict=True))


def _arrow_columns(X: Any) -> tuple[list[Hashable], list[Any]]:
    """Names and columns of an Arrow table, less the index of a DataFrame that it was made from."""
    described = X.schema.pandas_metadata or {}
    index = {name for name in described.get("index_columns", []) if isinstance(name, str)}
    kept = [i for i, name in enumerate(X.column_names) if name not in index]
    # As pandas names them: names need not be strings there.
    names = list(X.schema.empty_table().to_pandas().columns)
    return names, [X.column(i) for i in kept]


def check_evidence(
    records: Records, fitted: Sequence[Hashable], others: Sequence[Hashable]
) -> None:
    """Refuse columns under names that were not fitted while others are missing.

    A column may be left out, and one that is no node is not looked at; but where both
    happen a column was renamed, and would count as not known.
    """
    missing = [node for node in others if node not in records.names]
    unknown = [name for name in records.names if name not in fitted]
    if missing and unknown:
        raise ValueError(
            f"X must have columns of the names that were fitted; it lacks {missing} and has "
            f"{unknown}, which fit did not see. Leave a column out if it is not known"
        )
    if others and records.names and len(missing) == len(others):
        warn("X has no column of a node but the target: all records get the same prediction")


def _check_distinct(what: str, names: Sequence[Hashable]) -> None:
    if not are_hashable(names):
        raise TypeError(f"{what} must have column names that can be hashed; some cannot")
    if len(set(names)) < len(names):
        raise ValueError(f"{what} must have distinct column names; some are duplicates")


def check_states(states: Mapping, nodes: Mapping) -> dict[Hashable, list]:
    """The public states of each variable, as lists.

    A code book may have more columns than the network has nodes. Where it lacks one, a name
    that is no node is more likely a misspelt one.
    """
    checked = {}
    lacking = [node for node in nodes if node not in states]
    for name, given in states.items():
        if name not in nodes and lacking:
            raise ValueError(
                f"states must name nodes of the structure; {name!r} is none, and {lacking[0]!r} "
                "has no states"
            )
        if name not in nodes:
            continue
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            raise ValueError(
                f"states must be a list for each variable; for {name!r} got {type(given).__name__}"
            )
        values = [_declared(value) for value in given]
        if not values:
            raise ValueError(f"states must have at least one entry; for {name!r} got none")
        if any(value is np.nan for value in values):
            raise ValueError(f"states must hold no missing values; for {name!r} some are")
        if not are_hashable(values):
            raise TypeError(f"states must be values that can be hashed; for {name!r} some cannot")
        if len(set(values)) < len(values):
            raise ValueError(f"states must be distinct; for {name!r} some are duplicates")
        checked[name] = values
    return checked


def _declared(state: Any) -> Any:
    """A declared state as a plain value, if it is of a type that has one."""
    plain = rebuild(state)
    # A time keeps its zone.
    return state if plain is UNKNOWN or isinstance(plain, datetime) else plain


def factorise(
    name: Hashable, values: Any, rows: np.ndarray | None = None, states: Sequence[Any] = ()
) -> tuple[np.ndarray, list]:
    """Codes of the values in the rows that are counted, and the distinct values."""
    with errors_without_data(**{f"column {name!r} of X": values}):
        return factorise_cells(values, rows, states)


def observed_states(name: Hashable, codes: np.ndarray, distinct: list) -> list:
    """The distinct values as states, sorted where they can be."""
    if (codes == OUTSIDE).any():
        raise ValueError(
            f"X must hold values that can be states; column {name!r} has some that cannot be "
            "hashed or rebuilt"
        )
    return sort_values(distinct)


def positions(codes: np.ndarray, distinct: list, states: Sequence[Any]) -> np.ndarray:
    """The position of each value among the states, or `MISSING` or `OUTSIDE`."""
    with errors_without_data(X=distinct):
        return state_codes(codes, distinct, states)


def check_positions(name: Hashable, found: np.ndarray, *, allow_missing: bool = False) -> None:
    """Refuse values that are missing or no states, by column and without naming them."""
    least = found.min(initial=0)
    if least >= 0:
        return
    if (found == OUTSIDE).any():
        raise ValueError(
            f"X must hold only values in states; column {name!r} has others. Values that cannot "
            "be hashed are no states"
        )
    if not allow_missing:
        raise ValueError(f"X must hold no missing values; column {name!r} has some")


def encode(
    records: Records,
    name: Hashable,
    states: Sequence[Any],
    rows: np.ndarray | None = None,
    *,
    allow_missing: bool = False,
) -> np.ndarray:
    """The position among its states of each value of a column, in the rows that are counted."""
    found = positions(*factorise(name, records.column(name), rows, states), states)
    check_positions(name, found, allow_missing=allow_missing)
    return found
