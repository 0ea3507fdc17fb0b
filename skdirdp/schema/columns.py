"""Cells of a column as distinct values, numbers or times, each converted by itself.

The result for a cell depends on that cell and on public facts: the container, its dtype, and
declarations. Conversions of whole columns, such as `pd.factorize`, `pd.to_numeric` or `to_numpy` of
integers with missing values, choose one type from all cells.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .values import UNKNOWN, only_types, rebuild, type_and_value

_MILLISECONDS_PER_DAY = 86_400_000
_BLOCK_ROWS = 1 << 18
# Integers within such a range are numbered without a hash table, which is faster.
_MAX_RANGE = 1 << 12
# Longer strings are not parsed as numbers: the conversion of n digits takes n**2 steps.
_MAX_NUMBER_LENGTH = 400
_ISO_TIME = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII,
)

#: Codes of missing values, and of values that are not declared or cannot be rebuilt.
MISSING, OUTSIDE = -1, -2


def column_blocks(values: Any) -> Iterator[Any]:
    """Yield a column in one or more blocks of rows."""
    sliced = values.iloc if isinstance(values, pd.Series) else values
    n_rows = len(values)
    if n_rows <= _BLOCK_ROWS:
        yield values
        return
    for start in range(0, n_rows, _BLOCK_ROWS):
        yield sliced[start : start + _BLOCK_ROWS]


def factorise(
    values: Any,
    rows: np.ndarray | None = None,
    *,
    is_missing: Callable[[Any], bool] | None = None,
    fractions: bool = True,
) -> tuple[np.ndarray, list[Any]]:
    """Return the codes of the cells in `rows`, and the distinct values that they refer to.

    Two cells have the same code if they have the same type and value. Codes are `MISSING` or
    `OUTSIDE` for cells without a value to publish. The distinct values are rebuilt, and each
    occurs in a counted row. Equal values of several types, such as 1 and True, are separate. Values
    of which `is_missing` is true are `MISSING`. If `fractions` is False, numbers that are not whole
    are `OUTSIDE`.
    """
    codes, distinct = distinct_cells(values)
    codes = codes if rows is None else codes[rows]
    occurring = np.bincount(codes - OUTSIDE, minlength=len(distinct) + 2)[2:] > 0
    renumbered: list[int] = []
    kept: list[Any] = []
    for value, occurs in zip(distinct, occurring.tolist(), strict=True):
        is_name = fractions or not isinstance(value, float) or value.is_integer()
        if is_missing is not None and value is not UNKNOWN and is_missing(value):
            renumbered.append(MISSING)
        elif occurs and is_name and value is not UNKNOWN:
            renumbered.append(len(kept))
            kept.append(value)
        else:
            renumbered.append(OUTSIDE)
    if len(kept) == len(distinct):
        return codes, distinct
    return np.array([*renumbered, OUTSIDE, MISSING], dtype=np.intp)[codes], kept


def has_float_dtype(values: Any) -> bool:
    """Return whether a column has a floating-point dtype, which is public."""
    dtype: Any = getattr(values, "dtype", getattr(values, "type", None))
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if hasattr(dtype, "is_float"):  # Polars
        return bool(dtype.is_float())
    return getattr(dtype, "kind", None) == "f" or str(dtype) in ("halffloat", "float", "double")


def canonical_text(value: Any) -> str:
    """Return the string that spells a value: integers without a point, dates as in ISO 8601."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, date):
        return value.isoformat().removesuffix("T00:00:00")
    return str(value)


def parse_number(text: str) -> int | float | None:
    """Return the number that a string spells, or None. "true" is 1, "false" is 0, in any case."""
    if len(text) <= len("false") and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    # Python also reads 1_000, which is not a number in a table.
    if len(text) > _MAX_NUMBER_LENGTH or "_" in text:
        return None
    for convert in (int, float):
        with suppress(ValueError):
            return convert(text)
    return None


def parse_time(value: Any, format: str | None = None) -> datetime | None:
    """Return a date, time or string as a time without zone, in UTC if it has one, or None.

    Digits beyond microseconds are dropped. Strings are ISO 8601, or have the given format. A number
    stands for its decimal string, such as that of a year.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = canonical_text(value)
        if isinstance(value, str):
            text = value.strip()
            value = _parse_iso(text) if format is None else datetime.strptime(text, format)
        elif isinstance(value, pd.Period):
            value = value.start_time
        if isinstance(value, np.datetime64 | pd.Timestamp):
            value = rebuild(value)
        if isinstance(value, pd.Timestamp):
            # The last conversion is not exact beyond the years of datetime.
            value = value.to_pydatetime(warn=False)
        if not isinstance(value, date):
            return None
        if not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day)
        if value.tzinfo is not None:
            value = datetime.astimezone(value, timezone.utc)
        fields = (value.year, value.month, value.day, value.hour, value.minute, value.second)
        return datetime(*fields, value.microsecond)
    except Exception:  # methods of a record may raise anything
        return None


def _parse_iso(text: str) -> datetime | None:
    match = _ISO_TIME.fullmatch(text)
    if match is None:
        return None
    *fields, fraction, zone = match.groups(default="")
    year, month, day, hour, minute, second = (
        int(found or default) for found, default in zip(fields, (1, 1, 1, 0, 0, 0), strict=True)
    )
    time = datetime(year, month, day, hour, minute, second, int(fraction[:6].ljust(6, "0")))
    if zone in ("", "Z"):
        return time
    shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].lstrip(":") or 0))
    return time + shift if zone[0] == "-" else time - shift


def column_numbers(
    values: Any, missing_values: frozenset = frozenset()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells as new floats with NaN for missing cells, and a mask of other cells.

    Texts are parsed, and numbers beyond the range of floats are infinite.
    """
    numbers, wrong = _numbers(values, missing_values)
    absent = numbers_among(missing_values)
    if absent:
        numbers[np.isin(numbers, absent)] = np.nan
    return numbers, wrong


def numbers_among(values: Iterable[Any]) -> list[float]:
    """Return the declared values that are numbers, or spell one."""
    numbers = map(_number, map(rebuild, values))
    return [number for number in numbers if number is not None and number == number]


def _numbers(values: Any, missing_values: frozenset) -> tuple[np.ndarray, np.ndarray]:
    codes, distinct = _distinct_texts_or_categories(values)
    if codes is not None:
        found = _numbers_of_cells(distinct, missing_values)
        return np.append(found[0], np.nan)[codes], np.append(found[1], False)[codes]
    cells = _cells_of_column(values)
    data, missing = cells.data, cells.missing
    if not cells.has_dtype:
        data = cells.to_list()
        if only_types(data, (int, float, bool, type(None))):
            with suppress(OverflowError):
                # Adding 0 removes the sign of zeros, as below.
                return np.array(data, dtype=np.float64) + 0.0, np.zeros(len(data), dtype=bool)
        return _numbers_of_cells(data, missing_values)
    is_time = data.dtype.kind in "mM"
    if is_time:
        missing = np.isnat(data) if missing is None else missing | np.isnat(data)
    numbers = np.zeros(len(data)) if is_time else data.astype(np.float64) + 0.0
    wrong = np.full(len(data), is_time)
    if missing is not None:
        numbers[missing] = np.nan
        wrong[missing] = False
    return numbers, wrong


def _numbers_of_cells(cells: Any, missing_values: frozenset) -> tuple[np.ndarray, np.ndarray]:
    values = map(rebuild, cells)
    results = [np.nan if _is_in(value, missing_values) else _number(value) for value in values]
    numbers = np.array(results, dtype=np.float64)
    return numbers, np.array([number is None for number in results], dtype=bool)


def _is_in(value: Any, values: frozenset) -> bool:
    """Return whether a string is one of these values; numbers are compared after conversion."""
    return isinstance(value, str) and value in values


def _number(value: Any) -> float | None:
    """Return a rebuilt value as a float, or None if it is not a number."""
    if isinstance(value, str):
        value = parse_number(value.strip()) if value.strip() else np.nan
    if not isinstance(value, (int, float, Decimal, Fraction)):
        return None
    try:
        return float(value) + 0.0
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def column_times(
    values: Any, format: str | None = None, missing_values: frozenset = frozenset()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells as times with NaT for missing cells, and a mask of other cells.

    Times with a zone are in UTC.
    """
    times, wrong = _times(values, format, missing_values)
    absent = times_among(missing_values, format)
    if len(absent):
        nearest = clip_times(times, datetime.min, datetime.max).astype("M8[us]")
        times = np.where(np.isin(nearest, absent), np.datetime64("NaT"), times)
    return times, wrong


def times_among(values: Iterable[Any], format: str | None) -> np.ndarray:
    """Return the declared values that are times, or spell one in ISO 8601 or the format."""
    times = [parse_time(value) or parse_time(value, format) for value in values]
    return np.array([time for time in times if time is not None], dtype="M8[us]")


def _times(
    values: Any, format: str | None, missing_values: frozenset
) -> tuple[np.ndarray, np.ndarray]:
    codes, distinct = _distinct_texts_or_categories(values)
    cells = _cells_of_column(values) if codes is None else _Cells([])
    if cells.has_dtype and cells.data.dtype.kind in "iuf":  # years
        codes, distinct = distinct_cells(values)
    if codes is not None:
        times, wrong = _times_of_cells(distinct, format, missing_values)
        return np.append(times, np.datetime64("NaT", "us"))[codes], np.append(wrong, False)[codes]
    if not cells.has_dtype:
        return _times_of_cells(cells.to_list(), format, missing_values)
    is_time = cells.data.dtype.kind == "M"
    data = cells.data if is_time else np.full(len(cells.data), np.datetime64("NaT", "us"))
    if cells.missing is not None:
        data = np.where(cells.missing, np.datetime64("NaT"), data)
    is_absent = np.isnat(data) if cells.data.dtype.kind in "mM" else cells.data != cells.data
    if cells.missing is not None:
        is_absent = is_absent | cells.missing
    return data, ~is_absent if not is_time else np.zeros(len(data), dtype=bool)


def _times_of_cells(
    cells: Any, format: str | None, missing_values: frozenset
) -> tuple[np.ndarray, np.ndarray]:
    times = np.full(len(cells), np.datetime64("NaT", "us"))
    wrong = np.zeros(len(cells), dtype=bool)
    for position, cell in enumerate(cells):
        value = rebuild(_nearest_time(cell))
        if value is np.nan or _is_in(value, missing_values):
            continue
        if isinstance(value, str) and not value.strip():
            continue
        # Synthetic records are often written with dates in ISO 8601, and read again.
        time = parse_time(value, format) or parse_time(value)
        if time is None:
            wrong[position] = True
        else:
            times[position] = np.datetime64(time, "us")
    return times, wrong


def _nearest_time(cell: Any) -> Any:
    """Return times of numpy and pandas within the years of `datetime`; other cells unchanged."""
    if not issubclass(type(cell), np.datetime64 | pd.Timestamp):
        return cell
    try:
        time = cell if issubclass(type(cell), np.datetime64) else cell.asm8
        return clip_times(np.array([time]), datetime.min, datetime.max)[0]
    except Exception:  # methods of a record may raise anything
        return UNKNOWN


def clip_times(times: np.ndarray, low: datetime, high: datetime) -> np.ndarray:
    """Return times within bounds, in microseconds or in a coarser unit."""
    if np.datetime_data(times.dtype)[0] in ("ns", "ps", "fs", "as", "generic"):
        times = times.astype("M8[us]")  # bounds may be beyond the range of finer units
    first, last = np.array([low, high], dtype="M8[us]").astype(times.dtype)
    return np.clip(times, first, last)


class _Cells(NamedTuple):
    """Cells of a column."""

    data: Any  # array, list or Arrow array of strings; object arrays and lists contain the cells
    missing: np.ndarray | None = None  # mask, if the dtype cannot represent missing values
    in_utc: bool = False  # otherwise the time zone is unknown

    @property
    def has_dtype(self) -> bool:
        """Whether all cells have the dtype of the array."""
        return isinstance(self.data, np.ndarray) and self.data.dtype != object

    def to_list(self) -> list[Any]:
        """Return the cells as Python objects, for cells without a common dtype."""
        if isinstance(self.data, list):
            return self.data
        objects = isinstance(self.data, np.ndarray)
        return (self.data if objects else self.data.to_numpy(zero_copy_only=False)).tolist()


def _cells_of_column(values: Any) -> _Cells:
    package = type(values).__module__.partition(".")[0]
    if package == "polars" and hasattr(values, "to_list"):
        return _polars_cells(values)
    if package == "pyarrow" and hasattr(values, "to_pylist"):
        return _arrow_cells(values)
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        # Keep the dtype: otherwise pandas 2 infers one from all cells.
        return _pandas_cells(pd.Series(values, dtype=values.dtype))
    if isinstance(values, np.ndarray):
        return _numpy_cells(values)
    return _Cells(list(values))


def _numpy_cells(values: np.ndarray) -> _Cells:
    is_masked = isinstance(values, np.ma.MaskedArray)
    if values.dtype.kind in "OU" and not is_masked:
        return _Cells(np.asarray(values, dtype=object))
    if values.dtype.kind not in "biufmM":
        return _Cells(values.tolist())  # None where an entry is masked
    missing = np.ma.getmaskarray(values) if is_masked else None
    data = np.asarray(values)
    return _Cells(data.astype(data.dtype.newbyteorder("="), copy=False), missing)


def _pandas_cells(values: pd.Series) -> _Cells:
    dtype: Any = values.dtype
    if isinstance(dtype, pd.SparseDtype):
        values = values.sparse.to_dense()
        dtype = values.dtype
    if isinstance(dtype, np.dtype):
        return _numpy_cells(values.to_numpy())
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        return _Cells(values.to_numpy(dtype=object, na_value=None))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _Cells(values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), in_utc=True)
    if isinstance(dtype, (pd.ArrowDtype, pd.StringDtype)):
        return _arrow_cells(values.array.__arrow_array__())
    number = getattr(dtype, "numpy_dtype", None)
    if isinstance(number, np.dtype) and number.kind in "biuf":  # nullable types
        data = values.to_numpy(dtype=number, na_value=number.type(0))
        return _Cells(data, values.isna().to_numpy())
    return _Cells(list(values))


# Types of Polars that numpy has, too.
_POLARS_NUMBERS = frozenset(
    ["Boolean", "Float32", "Float64"]
    + [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
)


def _polars_cells(values: Any) -> _Cells:
    # Polars converts integers with missing values to floats.
    dtype = values.dtype
    if str(dtype) in _POLARS_NUMBERS:
        filled = values.fill_null(False if str(dtype) == "Boolean" else 0)
        return _Cells(filled.to_numpy(), values.is_null().to_numpy())
    if dtype.is_temporal() and str(dtype) != "Time":
        return _Cells(values.to_numpy(), in_utc=getattr(dtype, "time_zone", None) is not None)
    if str(dtype) == "String":
        return _Cells(values.to_numpy())
    return _Cells(values.to_list())


def _arrow_cells(values: Any) -> _Cells:
    import pyarrow as pa

    kinds, dtype = pa.types, values.type
    if kinds.is_dictionary(dtype):
        return _arrow_cells(values.cast(dtype.value_type))
    if kinds.is_string(dtype) or kinds.is_large_string(dtype):
        return _Cells(values)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    is_boolean = kinds.is_boolean(dtype)
    if is_boolean or kinds.is_integer(dtype) or dtype in (pa.float32(), pa.float64()):
        filled = values.fill_null(False if is_boolean else 0)
        return _Cells(filled.to_numpy(zero_copy_only=False), missing)
    unit, whole = "D", pa.int32()
    if kinds.is_timestamp(dtype) or kinds.is_duration(dtype):
        unit, whole = dtype.unit, pa.int64()
    elif kinds.is_date64(dtype):
        unit, whole = "ms", pa.int64()
    elif not kinds.is_date32(dtype):
        return _Cells(values.to_pylist())
    numbers = values.cast(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if kinds.is_date64(dtype):  # a cast to date32 fails for values within a day
        numbers, unit = numbers // _MILLISECONDS_PER_DAY, "D"
    kind = "m8" if kinds.is_duration(dtype) else "M8"
    return _Cells(numbers.view(f"{kind}[{unit}]"), missing, bool(getattr(dtype, "tz", None)))


def distinct_cells(
    values: Any, declared: Collection[Hashable] = ()
) -> tuple[np.ndarray, list[Any]]:
    """Return codes and distinct values; some may not occur or be `UNKNOWN`.

    Cells whose type cannot be rebuilt are looked up among the public values in `declared`.
    """
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        return _distinct_categories(values, declared)
    cells = _cells_of_column(values)
    if not cells.has_dtype:
        texts = _numbered_texts(cells.data)
        return _numbered_cells(cells.to_list(), declared) if texts is None else texts
    data, missing = cells.data, cells.missing
    if data.dtype.kind in "mM":
        codes, numbers = pd.factorize(data.view(np.int64))
        distinct = [rebuild(value) for value in numbers.view(data.dtype)]
        if cells.in_utc:
            distinct = [
                v.tz_localize("UTC") if isinstance(v, pd.Timestamp) else v for v in distinct
            ]
        missing = np.isnat(data) if missing is None else missing | np.isnat(data)
    elif (found := _numbered_integers(data)) is not None:
        codes, distinct = found
    else:
        codes, numbers = pd.factorize(data)
        distinct = [rebuild(value) for value in numbers.tolist()]
    if missing is not None:
        codes = np.where(missing, MISSING, codes)
    return codes, distinct


def _distinct_categories(
    values: Any, declared: Collection[Hashable]
) -> tuple[np.ndarray, list[Any]]:
    """Return the result of `distinct_cells` for a pandas categorical."""
    values = getattr(values, "array", values)  # a Series or an Index has this attribute
    dtype = values.categories.dtype
    if isinstance(dtype, pd.StringDtype) and dtype.storage != "python":
        # Strings, which are distinct and not missing.
        return values.codes.astype(np.intp), values.categories.tolist()
    codes, distinct = distinct_cells(values.categories, declared)
    if np.array_equal(codes, np.arange(len(codes))):  # a copy is faster than indexing
        return values.codes.astype(np.intp), distinct
    return np.append(codes, MISSING)[values.codes], distinct


def _numbered_integers(data: np.ndarray) -> tuple[np.ndarray, list[Any]] | None:
    """Return differences from the smallest integer as codes; None if some may be large."""
    if data.dtype.kind not in "iu" or not data.size:
        return None
    data = np.ascontiguousarray(data, dtype=None if data.dtype.itemsize == 8 else np.int64)
    low, high = int(data.min()), int(data.max())
    if high - low >= min(_MAX_RANGE, len(data)):
        return None
    return (data - data.dtype.type(low)).astype(np.intp, copy=False), list(range(low, high + 1))


def _distinct_texts_or_categories(values: Any) -> tuple[np.ndarray | None, list[Any]]:
    """Return codes and distinct values of strings or of a pandas categorical; None for others."""
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        values = getattr(values, "array", values)  # a Series or an Index has this attribute
        return values.codes, list(values.categories)
    cells = _cells_of_column(values)
    texts = None if cells.has_dtype else _numbered_texts(cells.data)
    return (None, []) if texts is None else texts


def _numbered_texts(cells: Any) -> tuple[np.ndarray, list[Any]] | None:
    """Return the result of `_numbered_cells` for strings, but faster; None if some are not."""
    # Arrow reads the characters of a string, and calls no methods of its type.
    try:
        import pyarrow as pa

        if isinstance(cells, np.ndarray | list):
            if pd.api.types.infer_dtype(cells, skipna=True) != "string":
                return None
            cells = pa.array(cells, type=pa.large_string(), from_pandas=True)
        encoded = cells.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return codes.astype(np.intp), encoded.dictionary.to_pylist()
    except Exception:  # Arrow is missing, or some strings are not valid Unicode
        return None


def _numbered_cells(
    cells: list[Any], declared: Collection[Hashable]
) -> tuple[np.ndarray, list[Any]]:
    numbers: dict[Any, int] = {}
    distinct: list[Any] = []
    if any(only_types(cells, (str, type(None), kind)) for kind in (int, bool, float)):
        # Faster than the loop below: values of one type are equal or distinct.
        for cell in dict.fromkeys(cells):
            value = rebuild(cell)
            numbers[cell] = MISSING if value is np.nan else len(distinct)
            if value is not np.nan:
                distinct.append(value)
        return np.fromiter(map(numbers.__getitem__, cells), np.intp, len(cells)), distinct
    public = {state: state for state in declared if rebuild(state) is UNKNOWN}
    codes = []
    for cell in cells:
        value = rebuild(cell)
        if value is UNKNOWN:
            with suppress(Exception):  # not hashable, not comparable, or not a state
                value = public[cell]
        if value is UNKNOWN:
            codes.append(OUTSIDE)
        elif value is np.nan:
            codes.append(MISSING)
        else:
            codes.append(numbers.setdefault(type_and_value(value), len(distinct)))
        if len(numbers) > len(distinct):
            distinct.append(value)
    return np.array(codes, dtype=np.intp), distinct


def finest_resolution(bounds: Sequence[Any]) -> str:
    """Return "day" for dates, and "second" for times."""
    is_date = all(
        len(bound) <= 10 if isinstance(bound, str) else not isinstance(bound, datetime)
        for bound in bounds
    )
    return "day" if is_date else "second"


def short_time(time: datetime) -> str:
    """Return a time as an ISO 8601 string, without hours at midnight."""
    return time.isoformat().removesuffix("T00:00:00")


def join_blocks(blocks: Iterator[np.ndarray], n_rows: int) -> np.ndarray:
    """Return all blocks as one array, without holding them at the same time."""
    first = next(blocks)
    if len(first) == n_rows:
        return first
    joined = np.empty(n_rows, dtype=first.dtype)
    start = 0
    for block in chain([first], blocks):
        joined[start : start + len(block)] = block
        start += len(block)
    return joined
