"""Cells as plain Python values, rebuilt from their type and value.

A published name must not be an object of a record: an instance of a subclass may carry other
data, and which of several equal objects is kept would reveal which record came first.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd


class _Marker(Enum):
    UNKNOWN = "unknown"


#: Value of a cell whose type cannot be rebuilt.
UNKNOWN = _Marker.UNKNOWN


def only_types(cells: Iterable[Any], kinds: Iterable[type]) -> bool:
    """Return whether every cell has exactly one of these types, without calling a metaclass."""
    return set(map(id, kinds)).issuperset(map(id, map(type, cells)))


#: Types of cells that carry only their value, by identity: a metaclass may define equality.
_UNCHANGED = frozenset(map(id, (str, int, bool, bytes)))


def rebuild(value: Any) -> Any:
    """Return a copy of a cell that carries only its type and value and can be published.

    The result is a str, bytes, bool, int, float, complex, Decimal, Fraction, date, datetime, time,
    timedelta, Timestamp, Timedelta, Period or Interval, or a tuple of these, of exactly that type;
    NaN for a missing value; `UNKNOWN` for other types. Equal values of one type have equal copies:
    times are in UTC, and zeros have no sign.
    """
    kind = type(value)
    if id(kind) in _UNCHANGED:
        return value
    if value is None or value is pd.NA or value is pd.NaT or value is np.ma.masked:
        return np.nan
    try:
        if issubclass(kind, np.generic) and not issubclass(kind, (np.datetime64, np.timedelta64)):
            value = float(value) if issubclass(kind, np.longdouble) else value.item()
            kind = type(value)
        for known, copy in _COPIES:
            if issubclass(kind, known):
                return copy(value)
        return int(value) if isinstance(value, Integral) else UNKNOWN
    except Exception:  # methods of a record may raise anything
        return UNKNOWN


def plain_value(value: Any) -> Any:
    """Return `rebuild(value)`, or the cell itself if its type is unknown.

    A cell of an unknown type can be compared with declared values, but must not be published.
    """
    copy = rebuild(value)
    return value if copy is UNKNOWN else copy


def _float(value: float) -> float:
    number = float.__add__(value, 0.0)
    return np.nan if number != number else number


def _complex(value: complex) -> Any:
    number = complex.__add__(value, 0j)
    return np.nan if number != number else number


def _decimal(value: Decimal) -> Any:
    sign, digits, exponent = Decimal.as_tuple(value)
    if isinstance(exponent, str):
        return Decimal("-Infinity" if sign else "Infinity") if exponent == "F" else np.nan
    length = len(digits)
    while length and digits[length - 1] == 0:
        length -= 1
    if not length:
        return Decimal(0)
    digits, exponent = digits[:length], exponent + len(digits) - length
    if 0 < exponent < 30:  # 100, and not 1E+2
        digits, exponent = digits + (0,) * exponent, 0
    return Decimal((sign, digits, exponent))


def _timestamp(value: pd.Timestamp) -> pd.Timestamp:
    copy = _finest(pd.Timestamp(value.asm8))
    return copy if value.tzinfo is None else copy.tz_localize("UTC")


def _finest(value: Any) -> Any:
    """Convert a time or duration to the finest unit that can represent it."""
    for unit in ("ns", "us", "ms"):
        try:
            return value.as_unit(unit)
        except (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta):
            continue
    return value


def _datetime64(value: np.datetime64) -> Any:
    if np.isnat(value):
        return np.nan
    if np.datetime_data(value.dtype)[0] != "D":
        return _timestamp(pd.Timestamp(value))
    day = value.item()
    return day if type(day) is date else UNKNOWN


def _datetime(value: datetime) -> datetime:
    if value.tzinfo is not None:
        value = datetime.astimezone(value, timezone.utc)
    fields = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    zone = None if value.tzinfo is None else timezone.utc
    return datetime(*fields, value.microsecond, zone)


def _time(value: time) -> Any:
    if value.tzinfo is not None:
        return UNKNOWN
    return time(value.hour, value.minute, value.second, value.microsecond)


def _interval(value: pd.Interval) -> Any:
    ends = rebuild(value.left), rebuild(value.right)
    return UNKNOWN if UNKNOWN in ends else pd.Interval(*ends, closed=rebuild(value.closed))


def _tuple(value: tuple) -> Any:
    parts = [rebuild(part) for part in tuple.__iter__(value)]
    if any(part is UNKNOWN for part in parts):
        return UNKNOWN
    return tuple(None if part is np.nan else part for part in parts)


# The first match is used, so subclasses come before their bases.
_COPIES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (bool, bool),
    (int, int.__index__),
    (float, _float),
    (bytes, lambda value: bytes(memoryview(value))),
    (complex, _complex),
    (Decimal, _decimal),
    (Fraction, lambda value: Fraction(int(value.numerator), int(value.denominator))),
    (np.datetime64, _datetime64),
    (np.timedelta64, lambda value: np.nan if np.isnat(value) else _finest(pd.Timedelta(value))),
    (pd.Timestamp, _timestamp),
    (datetime, _datetime),
    (date, lambda value: date(value.year, value.month, value.day)),
    (time, _time),
    (pd.Timedelta, lambda value: _finest(pd.Timedelta(value.asm8))),
    (timedelta, lambda value: timedelta(value.days, value.seconds, value.microseconds)),
    (pd.Period, lambda value: pd.Period(ordinal=int(value.ordinal), freq=str(value.freqstr))),
    (pd.Interval, _interval),
    (tuple, _tuple),
)

# Among equal values of several types, the value of the first type is the name.
_RANKS = {
    kind: rank
    for rank, kind in enumerate(
        (int, float, Decimal, Fraction, complex, bool, str, bytes, date, datetime, pd.Timestamp)
        + (time, timedelta, pd.Timedelta, pd.Period, pd.Interval, tuple)
    )
}


def type_and_value(value: Any) -> tuple:
    """Return a sortable key of a rebuilt value that differs for 1, 1.0 and True."""
    kind = type(value)
    if value is None:
        return (-1,)
    if kind not in _RANKS:  # a declared value
        return len(_RANKS), id(value)
    rank = _RANKS[kind]
    if kind is tuple:
        return rank, *map(type_and_value, value)
    if kind is complex:
        return rank, value.real, value.imag
    if kind is pd.Period:
        return rank, value.freqstr, value.ordinal
    if kind is pd.Interval:
        return rank, type_and_value(value.left), type_and_value(value.right), value.closed
    if kind in (datetime, pd.Timestamp):
        return rank, value.tzinfo is not None, value
    return rank, value


def sort_values(names: Iterable[Any]) -> list[Any]:
    """Sort rebuilt values, without duplicates, in an order that depends only on the values."""
    # They are sorted by value if all can be compared, otherwise by type and value.
    distinct = list(dict.fromkeys(sorted(names, key=type_and_value)))
    try:
        return sorted(distinct)
    except Exception:  # some cannot be compared with others
        return distinct


def check_missing_values(values: Any) -> dict[Hashable, None]:
    """Return the distinct values that mean a missing value, without None, NaN and NaT."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"missing_values must be a list of values; got {type(values).__name__}")
    plain = [rebuild(value) for value in values]
    if any(value is UNKNOWN for value in plain):
        raise TypeError("missing_values must contain strings, numbers, dates or other plain values")
    return dict.fromkeys(value for value in plain if value is not np.nan)


def column_dtype(values: Collection[Any], any_missing: bool) -> Any:
    """Return the type of a column of these values, or None if pandas infers it.

    Files keep the type, so it is the same for columns without any values.
    """
    kinds = set(map(type, values))
    if kinds == {bool}:
        return "boolean" if any_missing else "bool"
    if kinds == {str}:
        return pd.Series([""]).dtype
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return "Int64" if any_missing else "int64"
    is_float = float in kinds and kinds <= {int, float}
    exact = is_float and all(type(value) is float or abs(value) <= 2**53 for value in values)
    return "float64" if exact else None


def narrow(records: pd.DataFrame) -> pd.DataFrame:
    """Return records with the type of `column_dtype` in columns whose missing values are left out.

    These are whole numbers and truth values.
    """
    types = {
        name: values.dtype.numpy_dtype
        for name, values in records.items()
        if isinstance(values.dtype, pd.Int64Dtype | pd.BooleanDtype) and not values.hasnans
    }
    return records.astype(types)
