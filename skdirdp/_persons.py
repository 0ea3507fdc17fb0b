"""Persons: whose records are whose, and how many of each are counted.

A person may have several records. `fit(..., groups=ids)` says which, and of each person at
most `max_rows` records are counted: the first ones, in the order in which that person's own
records come. What is kept of a person depends on the records of that person and on nothing
else, so that a person who is added or removed changes nothing of what others add. Without
ids the bound is what the user says it is.

Ids are told apart as whole numbers or as texts, and as nothing else: of other objects, or of
numbers with rounding errors, two might stand for one person.
"""

from collections.abc import Hashable, Iterable, Mapping, Set
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from ._messages import describe, errors_without_data, plural
from ._validation import check_integer

# From here on two whole numbers may be one float.
_EXACT = 2.0**53
#: More records of one person than this nobody means.
MOST_ROWS = 10**9

_WANTED = "groups must hold whole numbers or strings, an id for each row"


@dataclass(frozen=True)
class Unit:
    """What a guarantee protects: a record, or a person with several of them.

    Parameters
    ----------
    max_rows : int, default=1
        The records that a person has at most, or that are counted of a person.
    by_ids : bool, default=False
        Whether `groups` said whose records are whose, and further ones were left out.
        Otherwise `max_rows` is a declaration, which nobody has checked.

    Examples
    --------
    >>> from skdirdp import DirichletHistogramTransformer
    >>> bins = DirichletHistogramTransformer(
    ...     bounds=(0, 1), max_rows=2, n_samples=3, adjacency="add_remove"
    ... )
    >>> bins.fit([[0.1], [0.2], [0.3], [0.9]], groups=[7, 7, 7, 8]).privacy_.unit
    Unit(max_rows=2, by_ids=True)
    >>> print(bins.privacy_.unit)
    one person, of whom up to 2 records are counted
    """

    max_rows: int = 1
    by_ids: bool = False

    @property
    def is_person(self) -> bool:
        """False for a single record."""
        return self.by_ids or self.max_rows > 1

    def __str__(self) -> str:
        if self.by_ids:
            are = "is" if self.max_rows == 1 else "are"
            return f"one person, of whom up to {plural(self.max_rows, 'record')} {are} counted"
        if self.is_person:
            return f"one person with up to {self.max_rows} records (declared, not checked)"
        return "one record"


RECORD = Unit()


def common_unit(units: Iterable[Unit]) -> Unit:
    """What several releases of one data set protect together.

    All of them must protect records, or all persons; composition refuses others. A person
    who has more records than some release was told of is not covered by that one.
    """
    units = set(units)
    declared = [unit for unit in units if not unit.by_ids]
    if declared:
        return min(declared, key=lambda unit: unit.max_rows)
    return max(units, key=lambda unit: unit.max_rows, default=RECORD)


@dataclass(frozen=True)
class Selection:
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

    def __add__(self, other: "Selection") -> "Selection":
        """Both batches, of which the other one knew of this."""
        max_rows = max(self.unit.max_rows, other.unit.max_rows)
        unit = Unit(max_rows, self.unit.by_ids and other.unit.by_ids)
        return Selection(unit, self.n_rows + other.n_rows, kept=other.kept)

    def of(self, values: Any) -> Any:
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
    groups: Any, n_rows: int, max_rows: int, before: Selection | None = None
) -> Selection:
    """The rows that are counted: of each person the first, up to `max_rows`.

    Parameters
    ----------
    groups : array-like of shape (n_rows,), or None
        The id of the person that each row belongs to.
    n_rows : int
    max_rows : int
    before : Selection, optional
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
        return Selection(Unit(max_rows), n_rows)
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
    return Selection(
        Unit(max_rows, by_ids=True),
        len(rows),
        None if len(rows) == n_rows else rows,
        {**kept, **dict(zip(persons, counted.tolist(), strict=True))},
    )


def _ids(groups: Any) -> np.ndarray | list:
    """The ids, as an array of integers or as a list of Python's integers and strings."""
    if sparse.issparse(groups) or isinstance(groups, (str, bytes, Mapping, Set)):
        raise TypeError(f"{_WANTED}; got {describe(groups)}")
    if np.ma.is_masked(groups):
        raise ValueError(f"{_WANTED}; some are missing")
    if hasattr(groups, "to_pylist"):  # pyarrow, whose nulls numpy would make floats
        groups = groups.to_pylist()
    elif not isinstance(groups, (list, tuple)):
        # Not of a list: numpy would make strings of 1 and "1", and one float of two integers.
        groups = np.asarray(groups)
    if isinstance(groups, np.ndarray):
        if groups.ndim != 1:
            raise ValueError(f"{_WANTED}; got an array of shape {groups.shape}")
        if groups.dtype.kind in "iu":
            return groups
        if groups.dtype.kind not in "fOUT":
            raise TypeError(f"{_WANTED}; got dtype {groups.dtype.name}")
    return [_id(value) for value in groups]


def _id(value: Any) -> int | str:
    """An id as one of the two kinds, of which equal ones are surely one person."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{_WANTED}; got truth values")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if value != value:
            raise ValueError(f"{_WANTED}; some are missing")
        whole = float(value)
        if abs(whole) < _EXACT and int(whole) == value:
            return int(whole)
        raise ValueError(f"{_WANTED}; some are no whole numbers, or larger than floats tell apart")
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{_WANTED}; some are missing")
    raise TypeError(f"{_WANTED}; got one of type {type(value).__name__}")


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
