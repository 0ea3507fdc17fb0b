"""Ids of persons, converted one by one.

Ids are whole numbers, strings or UUIDs. The number 12, the float 12.0 and the text "12" are the
same id; "012" is another id. In `groups`, other objects and floats that may be rounded raise an
error. In the key column of a schema, records with such cells belong to no person, and are not
counted.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from decimal import Decimal
from enum import Enum
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np
from scipy import sparse

from .._messages import describe, errors_without_data
from .arrays import list_cells, object_array

# Longer texts are not converted to numbers.
_LONGEST_NUMBER = 1000
_WANTED = "groups must hold whole numbers or strings, an id for each row"


class _Marker(Enum):
    NO_PERSON = "no person"


#: Id of records that belong to no person.
NO_PERSON = _Marker.NO_PERSON


def key_ids(name: Hashable, values: Any, missing_values: frozenset = frozenset()) -> np.ndarray:
    """Return the id of each cell of a key column, or `NO_PERSON`."""
    absent = {_key_id(value, set()) for value in missing_values}
    with errors_without_data(**{f"column {name!r} of X": values}):
        return object_array(_key_id(cell, absent) for cell in list_cells(values))


def _key_id(cell: Any, absent: Set[Any]) -> Any:
    try:
        found = _id(cell)
        return NO_PERSON if found in absent else found
    except Exception:  # not an id; methods of a record may raise anything
        return NO_PERSON


def convert_ids(groups: Any) -> np.ndarray | list:
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


def _id(value: Any) -> Any:
    """Return an id as an integer or a string; equal results mean the same person."""
    if value is NO_PERSON:
        return value
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
    if isinstance(value, Decimal):
        if value.is_finite() and value.adjusted() < _LONGEST_NUMBER and value == int(value):
            return int(value)
        raise ValueError(f"{_WANTED}; some are missing or not whole")
    if isinstance(value, UUID):
        return str(value)
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
