"""Columns of a table, of whatever kind, as the positions of their values among states."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from .._messages import errors_without_data, warn
from .._validation import are_hashable

#: What stands for a missing value, and for one that is no state.
MISSING, OUTSIDE = -1, -2


@dataclass(frozen=True)
class Records:
    """A table with named columns."""

    names: list[Hashable]
    n_records: int
    _table: Any

    def column(self, name: Hashable) -> Any:
        if isinstance(self._table, np.ndarray):
            return self._table[:, self.names.index(name)]
        return self._table[name]


def as_records(X: Any, columns: Sequence[Hashable] | None, optional: Hashable = None) -> Records:
    """The columns of a DataFrame (pandas, polars) or of an array.

    `columns` names those of an array, which else are numbered. An array may lack the
    one column called `optional`.
    """
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow calls columns otherwise
        with errors_without_data(X=X):
            X = X.to_pandas()
    if hasattr(X, "columns") and hasattr(X, "shape"):
        names = list(X.columns)
        _check_distinct("X", names)
        return Records(names, int(X.shape[0]), X)
    if sparse.issparse(X):
        raise TypeError("X must be a DataFrame or a dense array; got a sparse matrix")
    # Lists may mix types, which numpy would turn into strings.
    with errors_without_data(X=X):
        table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if table.ndim != 2:
        raise ValueError(f"X must have two dimensions, records and columns; got {table.ndim}")
    names = list(range(table.shape[1])) if columns is None else list(columns)
    _check_distinct("columns", names)
    if table.shape[1] == len(names) - 1 and optional in names:
        names.remove(optional)
    if table.shape[1] != len(names):
        raise ValueError(f"X must have {len(names)} columns; got {table.shape[1]}")
    return Records(names, table.shape[0], table)


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
        values = given.tolist() if isinstance(given, np.ndarray) else list(given)
        if not values:
            raise ValueError(f"states must have at least one entry; for {name!r} got none")
        if pd.isna(np.array([*values, None], dtype=object)[:-1]).any():
            raise ValueError(f"states must hold no missing values; for {name!r} some are")
        if not are_hashable(values):
            raise TypeError(f"states must be values that can be hashed; for {name!r} some cannot")
        if len(set(values)) < len(values):
            raise ValueError(f"states must be distinct; for {name!r} some are duplicates")
        checked[name] = values
    return checked


def factorise(name: Hashable, values: Any) -> tuple[np.ndarray, list]:
    """Numbers of the values, -1 where missing, and the distinct values that they number."""
    with errors_without_data(**{f"column {name!r} of X": values}):
        if isinstance(values, pd.Series):
            if isinstance(values.dtype, pd.CategoricalDtype):
                return values.cat.codes.to_numpy(), values.cat.categories.tolist()
            if isinstance(values.dtype, pd.StringDtype) and values.dtype.storage == "python":
                values = values.to_numpy(dtype=object)  # several times faster than the strings
        elif not isinstance(values, np.ndarray):
            values = values.to_numpy()  # polars
        try:
            codes, distinct = pd.factorize(values)
        except TypeError:
            raise ValueError(
                f"X must hold values that can be states; column {name!r} has some that cannot be "
                "hashed"
            ) from None
        return codes, distinct.tolist()


def observed_states(codes: np.ndarray, distinct: list) -> list:
    """The values that occur, sorted where they can be."""
    # A categorical's declared values need not all occur.
    occurring = np.bincount(codes[codes >= 0], minlength=len(distinct)) > 0
    values = [value for value, occurs in zip(distinct, occurring, strict=True) if occurs]
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def positions(codes: np.ndarray, distinct: list, states: list) -> np.ndarray:
    """The position of each value among the states, or `MISSING` or `OUTSIDE`."""
    lookup = {state: position for position, state in enumerate(states)}
    with errors_without_data(X=distinct):
        found = [lookup.get(value, OUTSIDE) for value in distinct]
    return np.array([*found, MISSING], dtype=np.intp)[codes]  # -1 takes the last


def check_positions(name: Hashable, found: np.ndarray, *, allow_missing: bool = False) -> None:
    """Refuse values that are missing or no states, by column and without naming them."""
    least = found.min(initial=0)
    if least >= 0:
        return
    if (found == OUTSIDE).any():
        raise ValueError(f"X must hold only values in states; column {name!r} has others")
    if not allow_missing:
        raise ValueError(f"X must hold no missing values; column {name!r} has some")


def encode(
    records: Records, name: Hashable, states: list, *, allow_missing: bool = False
) -> np.ndarray:
    """The position of each value of a column among its states."""
    found = positions(*factorise(name, records.column(name)), states)
    check_positions(name, found, allow_missing=allow_missing)
    return found
