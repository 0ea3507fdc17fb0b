"""Columns as category codes or as numbers, converted cell by cell.

The code of a cell depends on that cell and on public facts: the container, its dtype, and declared
states. Conversions of whole columns, such as `pd.factorize`, `pd.to_numeric` or `to_numpy` of
integers with missing values, choose one type from all cells.
"""

from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .values import UNKNOWN, rebuild, type_and_value

_MILLISECONDS_PER_DAY = 86_400_000

#: Codes of missing values, and of values that are not states or cannot be rebuilt.
MISSING, OUTSIDE = -1, -2


def factorise(
    values: Any, rows: np.ndarray | None = None, declared: Collection[Hashable] = ()
) -> tuple[np.ndarray, list[Any]]:
    """Return the codes of the cells in `rows`, and the distinct values that they refer to.

    Two cells have the same code if they have the same type and value. Codes are `MISSING` or
    `OUTSIDE` for cells without a value to publish. The distinct values are rebuilt, and each
    occurs in a counted row. Equal values of several types, such as 1 and True, are separate.
    Cells whose type cannot be rebuilt are looked up among the public values in `declared`.
    """
    codes, distinct = _numbered(values, declared)
    codes = codes if rows is None else codes[rows]
    occurring = np.bincount(codes - OUTSIDE, minlength=len(distinct) + 2)[2:] > 0
    is_known = [value is not UNKNOWN for value in distinct]
    kept = occurring & np.array(is_known, dtype=bool)
    if kept.all():
        return codes, distinct
    renumbered = np.where(kept, np.cumsum(kept) - 1, OUTSIDE)
    distinct = [value for value, keep in zip(distinct, kept, strict=True) if keep]
    return np.append(renumbered, [OUTSIDE, MISSING])[codes], distinct


def state_codes(codes: np.ndarray, distinct: Sequence[Any], states: Sequence[Any]) -> np.ndarray:
    """Convert codes of `factorise` to positions among the states, `MISSING` or `OUTSIDE`."""
    lookup = {state: position for position, state in enumerate(states)}
    found = [lookup.get(value, OUTSIDE) for value in distinct]
    return np.array([*found, OUTSIDE, MISSING], dtype=np.intp)[codes]


def has_float_dtype(values: Any) -> bool:
    """Return whether a column has a floating-point dtype, which is public."""
    dtype: Any = getattr(values, "dtype", getattr(values, "type", None))
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if hasattr(dtype, "is_float"):  # Polars
        return bool(dtype.is_float())
    return getattr(dtype, "kind", None) == "f" or str(dtype) in ("halffloat", "float", "double")


def column_numbers(values: Any, rows: np.ndarray | None = None, what: str = "cells") -> np.ndarray:
    """Return the cells in `rows` as floats, with NaN for missing cells.

    Texts are parsed, and numbers beyond the range of floats are infinite. Cells that are not
    numbers raise a ValueError; `what` is the name of the cells in its message.
    """
    numbers, wrong = _numbers(values)
    if rows is not None:
        numbers, wrong = numbers[rows], wrong[rows]
    if wrong.any():
        raise ValueError(f"{what} must be numbers; some are not")
    return numbers


def _numbers(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells as floats, and a mask of the cells that are not numbers."""
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        values = pd.Series(values)
        codes = values.cat.codes.to_numpy()
        numbers, wrong = _numbers(values.cat.categories)
        return np.append(numbers, np.nan)[codes], np.append(wrong, False)[codes]
    cells = _cells_of_column(values)
    data, missing = cells.data, cells.missing
    if not cells.has_dtype:
        data = cells.to_list()
        if {int, float, bool, type(None)}.issuperset(map(type, data)):
            with suppress(OverflowError):
                # Adding 0 removes the sign of zeros, as below.
                return np.array(data, dtype=np.float64) + 0.0, np.zeros(len(data), dtype=bool)
        found = [_number(cell) for cell in data]
        return np.array(found, dtype=np.float64), np.array([n is None for n in found], dtype=bool)
    if data.dtype.kind in "mM":
        missing = np.isnat(data) if missing is None else missing | np.isnat(data)
        data = data.view(np.int64)
    numbers = data.astype(np.float64) + 0.0
    if missing is not None:
        numbers[missing] = np.nan
    return numbers, np.zeros(len(numbers), dtype=bool)


def _number(cell: Any) -> float | None:
    """Return a cell as a float, or None if it is not a number."""
    value = rebuild(cell)
    if isinstance(value, str):
        value = value.strip() or np.nan
    if not isinstance(value, (str, int, float, Decimal, Fraction)):
        return None
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]
    except ValueError:
        return None


class _Cells(NamedTuple):
    """Cells of a column."""

    data: Any  # array, list, or Arrow array of texts; object arrays and lists hold the cells
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


def _numbered(values: Any, declared: Collection[Hashable]) -> tuple[np.ndarray, list[Any]]:
    """Return codes and distinct values; some may not occur or be `UNKNOWN`."""
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        values = pd.Series(values)
        codes, distinct = _numbered(values.cat.categories, declared)
        return np.append(codes, MISSING)[values.cat.codes.to_numpy()], distinct
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
    else:
        codes, numbers = pd.factorize(data)
        distinct = [rebuild(value) for value in numbers.tolist()]
    if missing is not None:
        codes = np.where(missing, MISSING, codes)
    return codes, distinct


def _numbered_texts(cells: Any) -> tuple[np.ndarray, list[Any]] | None:
    """Return the result of `_numbered_cells` for texts, but faster; None if some are not texts."""
    # Arrow reads the characters of a text, and calls no methods of its type.
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
    except Exception:  # Arrow is missing, or some texts are not valid Unicode
        return None


def _numbered_cells(
    cells: list[Any], declared: Collection[Hashable]
) -> tuple[np.ndarray, list[Any]]:
    numbers: dict[Any, int] = {}
    distinct: list[Any] = []
    kinds = set(map(type, cells)) - {str, type(None)}
    if len(kinds) == 0 or kinds in ({int}, {bool}, {float}):
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
