"""Select the records that are counted if one person may have several records.

At most `max_rows` records of each person are counted: the first ones, in the order of that
person's records. Adding or removing a person therefore changes no contribution of others. Without
ids the bound is assumed to hold. Ids are whole numbers or strings. The number 12, the float 12.0
and the string "12" are the same id; "012" is another id. Other objects, and floats that may be
rounded, raise an error.
"""

from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._messages import errors_without_data
from ._validation import check_integer
from .accounting.worst_case import MAX_ROWS_LIMIT, RECORD, Unit, common_unit
from .schema import NO_PERSON, Records, Schema, convert_ids

__all__ = ["MAX_ROWS_LIMIT", "RECORD", "CountedRows", "Unit", "common_unit", "select_rows"]


@dataclass(frozen=True)
class CountedRows:
    """Rows of a batch that are counted."""

    unit: Unit  # protected unit, a record or a person
    n_rows: int  # number of counted rows
    rows: np.ndarray | None = None  # their positions; None for all rows
    #: Number of counted records of each person, in this batch and earlier ones.
    kept: Mapping[Hashable, int] = field(default_factory=dict, repr=False)
    #: Whether records without a label or an id may be left out, so that the number of counted
    #: records depends on single cells. Without ids, `n_rows` then includes them.
    by_schema: bool = False

    def __add__(self, other: "CountedRows") -> "CountedRows":
        """Return the rows of this batch and of a later one that was selected after it."""
        max_rows = max(self.unit.max_rows, other.unit.max_rows)
        unit = Unit(max_rows, self.unit.by_ids and other.unit.by_ids)
        by_schema = self.by_schema or other.by_schema
        n_rows = self.n_rows + other.n_rows
        return CountedRows(unit, n_rows, kept=other.kept, by_schema=by_schema)

    def take(self, values: Any) -> Any:
        """Return the counted rows of an array; None is returned unchanged."""
        return values if values is None or self.rows is None else values[self.rows]


class SharedGroups:
    """Ids of a joint fit of several estimators, which must all use the same ids.

    If `groups` is None, the ids of the first estimator are used, if it has any. A schema gives
    `max_rows`, the bound for all estimators, and `labelled`, a mask of the records with a label.
    """

    def __init__(self, groups: Any = None, max_rows: int | None = None, labelled: Any = None):
        self._given = groups is not None
        self._first = not self._given
        self._ids = _listed(groups)
        self._max_rows = max_rows
        self.labelled = labelled

    @property
    def by_schema(self) -> bool:
        return self._max_rows is not None or self.labelled is not None

    def bound(self, max_rows: int) -> int:
        """Return the bound on the records of a person; a schema replaces the default, 1."""
        if self._max_rows is None:
            return max_rows
        if max_rows not in (1, self._max_rows):
            raise ValueError(
                f"max_rows must be that of the schema, {self._max_rows}, in every private step; "
                f"got {max_rows}. Nothing was charged"
            )
        return self._max_rows

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
        ids = convert_ids(groups)
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


#: Ids of the current joint fit.
SHARED_GROUPS: ContextVar[SharedGroups | None] = ContextVar("SHARED_GROUPS", default=None)


def select_rows(
    groups: Any, n_rows: int, max_rows: int, before: CountedRows | None = None
) -> CountedRows:
    """Select the first `max_rows` rows of each person.

    `groups` has the id of each row, or is None. `before` has the counted rows of earlier batches.
    """
    max_rows = check_integer("max_rows", max_rows, at_least=1, at_most=MAX_ROWS_LIMIT)
    if before is not None and before.unit.by_ids != (groups is not None):
        raise ValueError(
            "groups must be given with every batch or with none; otherwise the persons of some "
            "records are unknown"
        )
    shared = SHARED_GROUPS.get()
    by_schema = shared is not None and shared.by_schema
    if shared is not None:
        groups, max_rows = shared.take(groups), shared.bound(max_rows)
        if groups is None and shared.labelled is not None:
            if len(shared.labelled) != n_rows:
                raise ValueError(
                    "a step must keep all records in their order if y is a column of the schema"
                )
            rows = np.flatnonzero(shared.labelled)
            return CountedRows(Unit(max_rows), n_rows, rows, by_schema=True)
    if groups is None:
        return CountedRows(Unit(max_rows), n_rows)
    kept = {} if before is None else before.kept
    with errors_without_data(groups=groups):
        ids = convert_ids(groups)
    if len(ids) != n_rows:
        raise ValueError(f"groups must have one id per row of X ({n_rows}); got {len(ids)}")
    codes, persons = number_persons(ids)
    n_kept = np.array([kept.get(person, 0) for person in persons], dtype=np.int64)
    # Number of earlier rows of the same person.
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=len(persons))
    earlier = np.empty(n_rows, dtype=np.int64)
    earlier[order] = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_counted = earlier + n_kept[codes] < max_rows
    if NO_PERSON in persons:
        is_counted &= codes != persons.index(NO_PERSON)
    rows = np.flatnonzero(is_counted)
    counted = n_kept + np.bincount(codes[rows], minlength=len(persons))
    return CountedRows(
        Unit(max_rows, by_ids=True),
        len(rows),
        None if len(rows) == n_rows else rows,
        {**kept, **dict(zip(persons, counted.tolist(), strict=True))},
        by_schema,
    )


def select_persons(schema: Schema, records: Records, groups: Any, max_rows: int) -> CountedRows:
    """Select the counted records of a table with a schema, whose key column may name persons."""
    shared = SHARED_GROUPS.get()
    if schema.person is None or (shared is not None and shared.by_schema):
        # In a joint fit, records without a label belong to no person.
        return select_rows(groups, records.n_records, max_rows)
    check_person(schema, groups, max_rows)
    return select_rows(schema.person_ids(records), records.n_records, schema.max_rows)


def select_by_key(
    schema: Schema | None,
    groups: Any,
    n_rows: int,
    max_rows: int,
    before: CountedRows | None = None,
) -> CountedRows:
    """Select the counted rows; if the schema has a person, `groups` is its key column."""
    if schema is not None and schema.person is not None:
        groups, max_rows = schema.key_ids(groups), schema.max_rows
    return select_rows(groups, n_rows, max_rows, before)


def check_person(schema: Schema, groups: Any, max_rows: int) -> None:
    """Raise an error if ids or bounds contradict the person key of a schema."""
    if groups is not None:
        raise ValueError(
            f"groups must not be given: the schema declares the person key {schema.person!r}"
        )
    if max_rows not in (1, schema.max_rows):
        raise ValueError(
            f"max_rows must be that of the schema, {schema.max_rows}, or not be given; got "
            f"{max_rows}"
        )


def number_persons(ids: np.ndarray | list) -> tuple[np.ndarray, list]:
    """Return the person number of each row, and the list of persons."""
    if isinstance(ids, np.ndarray):
        distinct, codes = np.unique(ids, return_inverse=True)
        return codes, distinct.tolist()
    numbers: dict[Hashable, int] = {}
    positions = (numbers.setdefault(value, len(numbers)) for value in ids)
    codes = np.fromiter(positions, np.intp, len(ids))
    return codes, list(numbers)
