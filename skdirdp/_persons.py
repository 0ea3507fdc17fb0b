"""Persons: whose records are whose, and how many of each are counted.

A person may have several records. `fit(..., groups=ids)` says which, and of each person at
most `max_rows` records are counted: the first ones, in the order in which that person's own
records come. What is kept of a person depends on the records of that person and on nothing
else, so that a person who is added or removed changes nothing of what others add. Without
ids the bound is what the user says it is.

Ids are whole numbers or texts. The number 12, the float 12.0 and the text "12" are one id; "012" is
another. Other objects, and numbers with rounding errors, are refused.
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

# Longer texts are not compared with numbers.
_LONGEST_NUMBER = 1000
_WANTED = "groups must hold whole numbers or strings, an id for each row"


@dataclass(frozen=True)
class CountedRows:
    """Which rows of a batch are counted.

    Attributes
    ----------
    unit : Unit
    n_rows : int
        How many rows are counted.
    rows : ndarray of int, or None
        Their positions; None for all.
    kept : dict
        How many records of each person are counted, in this batch and those before.
    """

    unit: Unit
    n_rows: int
    rows: np.ndarray | None = None
    kept: Mapping[Hashable, int] = field(default_factory=dict, repr=False)

    def __add__(self, other: "CountedRows") -> "CountedRows":
        """Both batches, of which the other one knew of this."""
        max_rows = max(self.unit.max_rows, other.unit.max_rows)
        unit = Unit(max_rows, self.unit.by_ids and other.unit.by_ids)
        return CountedRows(unit, self.n_rows + other.n_rows, kept=other.kept)

    def take(self, values: Any) -> Any:
        """The rows that are counted, of an array with a row for each record, or of None."""
        return values if values is None or self.rows is None else values[self.rows]


class SharedGroups:
    """The ids of one fit of several estimators, all of which must count by the same.

    Parameters
    ----------
    groups : array-like of shape (n_rows,), or None
        Ids for every estimator; None for those that the first of them is given, if any.
    """

    def __init__(self, groups: Any = None):
        self._given = groups is not None
        self._first = not self._given
        self._ids = _listed(groups)

    def take(self, groups: Any) -> Any:
        """The ids that an estimator counts by, which may have been given its own."""
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
                "groups must be the same for every private step, as they protect one person "
                "together; got different ids. Nothing was charged"
            )
        return groups


def _listed(groups: Any) -> list | None:
    if groups is None:
        return None
    with errors_without_data(groups=groups):
        ids = _ids(groups)
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


#: The ids of the joint fit that is under way.
SHARED_GROUPS: ContextVar[SharedGroups | None] = ContextVar("SHARED_GROUPS", default=None)


def select_rows(
    groups: Any, n_rows: int, max_rows: int, before: CountedRows | None = None
) -> CountedRows:
    """The rows that are counted: of each person the first, up to `max_rows`.

    Parameters
    ----------
    groups : array-like of shape (n_rows,), or None
        The id of the person that each row belongs to.
    n_rows : int
    max_rows : int
    before : CountedRows, optional
        What earlier batches counted.
    """
    max_rows = check_integer("max_rows", max_rows, at_least=1, at_most=MOST_ROWS)
    if before is not None and before.unit.by_ids != (groups is not None):
        raise ValueError(
            "groups must be given with every batch or with none: whose the records of the others "
            "are would not be known"
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
        raise ValueError(
            f"groups must have one id for each row of X, {n_rows}; got {len(ids)} of them"
        )
    codes, persons = _numbered(ids)
    already = np.array([kept.get(person, 0) for person in persons], dtype=np.int64)
    # How many rows of the same person stand before each row.
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
    """The ids, as an array of integers or as a list of Python's integers and strings."""
    if sparse.issparse(groups) or isinstance(groups, (str, bytes, Mapping, Set, Iterator)):
        raise TypeError(f"{_WANTED}; got {describe(groups)}")
    if len(getattr(groups, "shape", ())) > 1:  # a frame would give the names of its columns
        raise ValueError(f"{_WANTED}; got {describe(groups)}")
    if np.ma.is_masked(groups):
        raise ValueError(f"{_WANTED}; some are missing")
    if isinstance(getattr(groups, "dtype", None), np.dtype):
        groups = np.asarray(groups)
    else:  # numpy would choose one type for all ids, by all of them
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
    """An id as one of the two kinds, of which equal ones are surely one person."""
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
        raise ValueError(f"{_WANTED}; some are no whole numbers, or larger than floats tell apart")
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{_WANTED}; some are missing")
    raise TypeError(f"{_WANTED}; got one of type {type(value).__name__}")


def _exact_below(kind: type) -> float:
    """The whole number from which on two whole numbers may be one float of this type."""
    digits = np.finfo(kind).nmant + 1 if issubclass(kind, np.floating) else 53
    return 2.0 ** min(digits, 53)


def _id_from_text(text: str) -> int | str:
    """The number that a text spells, or the text.

    One batch may hold an id as a number and another as text, if some other id there is no number.
    """
    if len(text) <= _LONGEST_NUMBER and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        return number if str(number) == text else text  # "007" spells no number
    return text


def _numbered(ids: np.ndarray | list) -> tuple[np.ndarray, list]:
    """Numbers of the persons, from 0, and the persons that they number."""
    if isinstance(ids, np.ndarray):
        distinct, codes = np.unique(ids, return_inverse=True)
        return codes, distinct.tolist()
    numbers: dict[Hashable, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(value, len(numbers)) for value in ids), np.intp, len(ids)
    )
    return codes, list(numbers)
