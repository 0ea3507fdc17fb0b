"""Select the records that are counted if one person may have several records.

Of each person at most `max_rows` records are counted: the first ones, in the order of that person's
records. So adding or removing a person changes no contribution of others. Without ids the bound is
assumed to hold. Ids are whole numbers or strings. The number 12, the float 12.0 and the text "12"
are the same id; "012" is another id. Other objects, and floats that may be rounded, raise an error.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from ._messages import describe, errors_without_data
from ._validation import check_integer
from .accounting.worst_case import MOST_ROWS, RECORD, Unit, common_unit
from .records import list_cells

__all__ = ["MOST_ROWS", "RECORD", "CountedRows", "Unit", "common_unit", "select_rows"]

# Longer texts are not converted to numbers.
_LONGEST_NUMBER = 1000
_WANTED = "groups must hold whole numbers or strings, an id for each row"


@dataclass(frozen=True)
class CountedRows:
    """Rows of a batch that are counted."""

    unit: Unit  # protected unit, a record or a person
    n_rows: int  # number of counted rows
    rows: np.ndarray | None = None  # their positions; None for all rows
    #: Number of counted records of each person, in this batch and earlier ones.
    kept: Mapping[Hashable, int] = field(default_factory=dict, repr=False)

    def __add__(self, other: "CountedRows") -> "CountedRows":
        """Return the rows of this batch and of a later one that was selected after it."""
        max_rows = max(self.unit.max_rows, other.unit.max_rows)
        unit = Unit(max_rows, self.unit.by_ids and other.unit.by_ids)
        return CountedRows(unit, self.n_rows + other.n_rows, kept=other.kept)

    def take(self, values: Any) -> Any:
        """Return the counted rows of an array; None stays None."""
        return values if values is None or self.rows is None else values[self.rows]


class SharedGroups:
    """Ids of a joint fit of several estimators, which must all use the same ids.

    If `groups` is None, the ids of the first estimator are used, if it has any.
    """

    def __init__(self, groups: Any = None):
        self._given = groups is not None
        self._first = not self._given
        self._ids = _listed(groups)

    def take(self, groups: Any) -> Any:
        """Return the ids that an estimator uses; `groups` are its own ids or None."""
        if groups is None and self._given:
            return self._ids
        ids = _listed(groups)
        if self._first:
            self._first, self._ids = False, ids
        if (ids is None) != (self._ids is None):
            raise ValueError(
                "groups must be given to every private step or to none: pass it to the fit of the "
                "pipeline, fit(X, y, groups=...). Nothing was charged"
            )
        if ids != self._ids:
            raise ValueError(
                "groups must be the same for every private step, because the steps protect one "
                "person together; got different ids. Nothing was charged"
            )
        return groups


def _listed(groups: Any) -> list | None:
    if groups is None:
        return None
    with errors_without_data(groups=groups):
        ids = _ids(groups)
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


#: Ids of the current joint fit.
SHARED_GROUPS: ContextVar[SharedGroups | None] = ContextVar("SHARED_GROUPS", default=None)


def select_rows(
    groups: Any, n_rows: int, max_rows: int, before: CountedRows | None = None
) -> CountedRows:
    """Select the first `max_rows` rows of each person.

    `groups` has the id of each row, or is None. `before` has the counted rows of earlier batches.
    """
    max_rows = check_integer("max_rows", max_rows, at_least=1, at_most=MOST_ROWS)
    if before is not None and before.unit.by_ids != (groups is not None):
        raise ValueError(
            "groups must be given with every batch or with none; otherwise the persons of some "
            "records are unknown"
        )
    shared = SHARED_GROUPS.get()
    if shared is not None:
        groups = shared.take(groups)
    if groups is None:
        return CountedRows(Unit(max_rows), n_rows)
    kept = {} if before is None else before.kept
    with errors_without_data(groups=groups):
        ids = _ids(groups)
    if len(ids) != n_rows:
        raise ValueError(f"groups must have one id for each row of X, {n_rows}; got {len(ids)}")
    codes, persons = _numbered(ids)
    already = np.array([kept.get(person, 0) for person in persons], dtype=np.int64)
    # Number of earlier rows of the same person.
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(persons))
    earlier = np.empty(n_rows, dtype=np.int64)
    earlier[order] = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.flatnonzero(earlier + already[codes] < max_rows)
    counted = already + np.bincount(codes[rows], minlength=len(persons))
    return CountedRows(
        Unit(max_rows, by_ids=True),
        len(rows),
        None if len(rows) == n_rows else rows,
        {**kept, **dict(zip(persons, counted.tolist(), strict=True))},
    )


def _ids(groups: Any) -> np.ndarray | list:
    """Return the ids as an array of integers, or as a list of Python integers and strings."""
    if sparse.issparse(groups) or isinstance(groups, (str, bytes, Mapping, Set, Iterator)):
        raise TypeError(f"{_WANTED}; got {describe(groups)}")
    if len(getattr(groups, "shape", ())) > 1:  # iterating over a frame gives column names
        raise ValueError(f"{_WANTED}; got {describe(groups)}")
    if np.ma.is_masked(groups):
        raise ValueError(f"{_WANTED}; some are missing")
    if isinstance(getattr(groups, "dtype", None), np.dtype):
        groups = np.asarray(groups)
    else:  # numpy would choose one dtype from all ids
        groups = list_cells(groups)
        if not isinstance(groups, Iterable):
            raise TypeError(f"{_WANTED}; got {describe(groups)}")
    if isinstance(groups, np.ndarray):
        if groups.ndim != 1:
            raise ValueError(f"{_WANTED}; got {describe(groups)}")
        if groups.dtype.kind in "iu":
            return groups
        if groups.dtype.kind not in "fOUT":
            raise TypeError(f"{_WANTED}; got dtype {groups.dtype.name}")
    return [_id(value) for value in groups]


def _id(value: Any) -> int | str:
    """Return an id as an integer or a string; equal results mean the same person."""
    if isinstance(value, str):
        return _id_from_text(str.__str__(value))
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{_WANTED}; got truth values")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if value != value:
            raise ValueError(f"{_WANTED}; some are missing")
        whole = float(value)
        if abs(whole) < _exact_below(type(value)) and int(whole) == value:
            return int(whole)
        raise ValueError(f"{_WANTED}; some are not whole, or too large to be exact floats")
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{_WANTED}; some are missing")
    raise TypeError(f"{_WANTED}; got one of type {type(value).__name__}")


def _exact_below(kind: type) -> float:
    """Return the limit below which all whole numbers are floats of this type."""
    digits = np.finfo(kind).nmant + 1 if issubclass(kind, np.floating) else 53
    return 2.0 ** min(digits, 53)


def _id_from_text(text: str) -> int | str:
    """Return the number that a text spells, or the text."""
    # The same id may be a number in one batch and a text in another batch with other texts.
    if len(text) <= _LONGEST_NUMBER and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        return number if str(number) == text else text  # "007" is not a number
    return text


def _numbered(ids: np.ndarray | list) -> tuple[np.ndarray, list]:
    """Return the person number of each row, and the list of persons."""
    if isinstance(ids, np.ndarray):
        distinct, codes = np.unique(ids, return_inverse=True)
        return codes, distinct.tolist()
    numbers: dict[Hashable, int] = {}
    found = (numbers.setdefault(value, len(numbers)) for value in ids)
    codes = np.fromiter(found, np.intp, len(ids))
    return codes, list(numbers)
