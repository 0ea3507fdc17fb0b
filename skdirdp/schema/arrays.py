"""Labels, person ids and tables of numbers as arrays, converted cell by cell.

`np.asarray` chooses one dtype for a whole list, so one record would determine how all others are
represented. Containers with a dtype keep it; cells of other containers are converted one by one.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
from scipy import sparse

from .._messages import describe, errors_without_data
from .kinds import Categories
from .values import only_types, plain_value

# Kinds of numpy dtypes whose cells are compared without conversion to objects.
_NUMBERS, _TEXTS = "biuf", "UT"
# Types that `plain_value` returns unchanged.
_PLAIN = frozenset({str, bool, int, float})


def plain_values(values: Iterable[Any], convert: Callable[[Any], Any] = plain_value) -> list[Any]:
    """Return each cell as a plain Python value."""
    values = list(values)
    return values if only_types(values, _PLAIN) else list(map(convert, values))


def list_cells(values: Any) -> Iterable[Any]:
    """Return the cells of a column as Python objects, converted one by one."""
    for method in ("to_pylist", "to_list", "tolist"):  # PyArrow, Polars and pandas, numpy
        if hasattr(values, method):
            return getattr(values, method)()
    return values


def object_array(values: Iterable[Any]) -> np.ndarray:
    """Return an array of objects, one for each value of any type."""
    values = list(values)
    array = np.empty(len(values), dtype=object)
    if only_types(values, _PLAIN):
        array[:] = values
    else:  # assignment to a slice would unpack sequences
        for i, value in enumerate(values):
            array[i] = value
    return array


def as_numbers(X: Any) -> Any:
    """Return a table of numbers whose dtype does not depend on its records.

    Arrays, sparse matrices and pandas frames with fixed dtypes are returned unchanged. Other
    tables become float64, with NaN for missing values.
    """
    if isinstance(X, np.ndarray):
        return _floats(X) if X.dtype.kind == "O" else X
    if isinstance(X, pd.DataFrame):
        if all(_is_fixed(dtype) for dtype in X.dtypes):
            return X
        # Columns are selected by position, because names may repeat.
        columns = [_float_column(X.iloc[:, k]) for k in range(X.shape[1])]
        return pd.DataFrame(dict(enumerate(columns)), index=X.index).set_axis(X.columns, axis=1)
    X = without_dictionaries(X)
    names = column_names(X)
    if names is not None:  # Polars or PyArrow
        return pd.DataFrame({name: _float_column(X[name]) for name in names}, columns=names)
    if hasattr(X, "dtype") or hasattr(X, "__array__") or not isinstance(X, Iterable):
        return X
    return X if isinstance(X, (str, bytes, Mapping, Set)) else _floats(np.array(list(X), object))


def as_table(X: Any) -> Any:
    """Return a sequence of rows as an array of objects, and other containers unchanged."""
    if not isinstance(X, Sequence) or isinstance(X, (str, bytes)) or hasattr(X, "__array__"):
        return X
    rows = [list(row) for row in X if is_row(row)]
    if not rows:
        return X
    if len(rows) < len(X) or len(set(map(len, rows))) > 1:
        raise ValueError("X must have rows of the same length; some records differ")
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for index, row in enumerate(rows):
        table[index] = object_array(row)
    return table


def record_wise(X: Any) -> Any:
    """Return a table in which the dtype of each column follows from the declared dtype alone.

    A list becomes an array of objects. Integers and truth values of a container that can contain
    nulls (Polars, Arrow, nullable and categorical columns of pandas) become floats, whether there
    is a null or not.
    """
    if isinstance(X, pd.DataFrame):
        return _with_floats(X)
    if isinstance(X, np.ndarray):
        return X.astype(object) if X.dtype.kind in "UST" else X
    polars, arrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(X, polars.DataFrame):
        return X.with_columns(
            [
                column.cast(polars.Float64)
                for column in X.get_columns()
                if column.dtype.is_integer() or column.dtype == polars.Boolean
            ]
        )
    if arrow is not None and isinstance(X, (arrow.Table, arrow.RecordBatch)):
        return _arrow_with_floats(X, arrow)
    return as_table(X)


def may_hold_nulls(dtype: Any) -> bool:
    """Return whether numpy's dtype for a pandas column depends on whether a value is missing."""
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.api.types.is_numeric_dtype(dtype.categories.dtype)
    return not isinstance(dtype, (np.dtype, pd.SparseDtype)) and pd.api.types.is_numeric_dtype(
        dtype
    )


def _with_floats(X: pd.DataFrame) -> pd.DataFrame:
    changed = [index for index, dtype in enumerate(X.dtypes) if may_hold_nulls(dtype)]
    if changed:
        X = X.copy(deep=False)
        for index in changed:
            column = X.iloc[:, index]
            if isinstance(column.dtype, pd.CategoricalDtype):
                column = column.astype("float64")
            X.isetitem(index, column.to_numpy(dtype="float64", na_value=np.nan))
    return X


def _arrow_with_floats(X: Any, arrow: Any) -> Any:
    X = without_dictionaries(X)
    table = arrow.Table.from_batches([X]) if isinstance(X, arrow.RecordBatch) else X
    for index, field in enumerate(table.schema):
        is_boolean = arrow.types.is_boolean(field.type)
        if is_boolean or arrow.types.is_integer(field.type):
            column = table.column(index)
            if is_boolean:
                column = column.cast(arrow.uint8())
            floats = column.cast(arrow.float64(), safe=False)
            table = table.set_column(index, field.name, floats)
    return table


def is_row(record: Any) -> bool:
    """Return whether a record is a row of cells, and not a string, mapping or set."""
    return isinstance(record, Iterable) and not isinstance(record, (str, bytes, Mapping, Set))


def column_names(X: Any) -> list[Any] | None:
    """Return the column names of a frame in memory; None for other containers."""
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow
        return list(X.column_names)
    columns = getattr(X, "columns", None)
    return None if columns is None or not hasattr(X, "shape") else list(columns)


def without_dictionaries(X: Any) -> Any:
    """Decode the dictionary-encoded columns of an Arrow table; return other tables unchanged."""
    # In an array, a missing value of such a column becomes the last value of the dictionary, which
    # belongs to another record.
    if not (hasattr(X, "column_names") and hasattr(X, "to_pandas")):
        return X
    import pyarrow as pa

    if not any(map(pa.types.is_dictionary, X.schema.types)):
        return X
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in X.columns
    ]
    return pa.Table.from_arrays(columns, names=X.schema.names)


def missing_cells(X: Any) -> np.ndarray | None:
    """Return a mask of the missing cells of a frame; None if there are none."""
    # Only columns whose dtype as an array depends on missing values are considered.
    if isinstance(X, pd.DataFrame):
        indices = [k for k, dtype in enumerate(X.dtypes) if not isinstance(dtype, np.dtype)]
        missing = [X.iloc[:, k].isna().to_numpy() for k in indices]
    elif hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow
        missing = [column.is_null().to_numpy(zero_copy_only=False) for column in X.columns]
    elif hasattr(X, "get_columns"):  # Polars
        missing = [column.is_null().to_numpy() for column in X.get_columns()]
    else:
        missing = []
    return np.column_stack(missing) if any(column.any() for column in missing) else None


def _is_fixed(dtype: Any) -> bool:
    """Return whether a pandas dtype represents each cell independently of others."""
    return isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O")


def _float_column(values: Any) -> np.ndarray:
    """Return a column of a frame as float64, with NaN for missing values."""
    dtype = values.dtype if isinstance(values, pd.Series) else None
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _floats(object_array(dtype.categories))
        return np.append(categories, np.nan)[values.cat.codes]  # the code of a missing value is -1
    # Integers become float64 in every container, with or without missing values.
    array = values.to_numpy()
    return array.astype(np.float64) if array.dtype.kind in _NUMBERS else _floats(array)


def _floats(values: np.ndarray) -> np.ndarray:
    """Convert each cell of an array of objects to a float."""
    if values.dtype.kind != "O":
        raise TypeError(f"X must contain numbers; got dtype {values.dtype.name}")
    kinds = set(map(type, values.flat))
    if any(issubclass(kind, (np.complexfloating, np.datetime64, np.timedelta64)) for kind in kinds):
        raise TypeError("X must contain real numbers; some cells are complex, dates or durations")
    if not kinds.isdisjoint((type(pd.NA), type(pd.NaT))):
        missing = [value is pd.NA or value is pd.NaT for value in values.flat]
        values = np.where(np.reshape(missing, values.shape), np.nan, values)
    return values.astype(np.float64)


def as_labels(y: Any) -> Any:
    """Return labels as an array whose dtype does not depend on the records.

    Containers with a dtype keep it. Labels of other containers become plain Python values in an
    array of objects, with NaN for missing labels. A list of rows with one label each is a column.
    """
    names = column_names(y)
    if names is not None and len(names) == 1:
        return as_labels(y[names[0]])[:, np.newaxis]
    if isinstance(y, pd.Series) and isinstance(y.dtype, np.dtype):
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        if y.dtype.kind not in "OT":  # numpy cannot compare a missing string with others
            return y
        return object_array(plain_values(y.ravel())).reshape(y.shape)
    is_table = sparse.issparse(y) or len(getattr(y, "shape", ())) > 1
    if is_table or isinstance(y, (str, bytes, Mapping, Set)):
        return y
    cells = list_cells(y)
    return object_array(plain_values(cells, _label)) if isinstance(cells, Iterable) else y


def _label(cell: Any) -> Any:
    """Return a label, which may be the only cell of a row, as a plain value."""
    is_row = isinstance(cell, (list, tuple, np.ndarray)) and np.shape(cell) == (1,)
    return plain_value(cell[0] if is_row else cell)


def to_common_dtype(name: str, labels: np.ndarray) -> np.ndarray:
    """Return labels as an array of numbers or strings, if this does not change their values.

    The dtype depends on all labels, so they must be public or declared as not covered.
    """
    if labels.dtype.kind != "O":
        return labels
    kinds = set(map(type, labels.flat))
    if str in kinds and len(kinds) > 1:
        raise TypeError(
            f"{name} must contain only numbers or only strings, and no missing labels. Drop the "
            "records without a label; with a schema, y may also be the name of the label's column"
        )
    if not kinds <= _PLAIN:
        return labels
    values = labels.tolist()
    typed = np.array(values)
    return typed if typed.tolist() == values else labels  # large integers may not be floats


def label_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the position of each label among the sorted classes, -1 for other labels.

    Labels are compared as Python values: 1, 1.0 and True are the same label, "1" is another.
    """
    if y.dtype.kind == classes.dtype.kind and y.dtype.kind in _NUMBERS + _TEXTS:
        codes = np.searchsorted(classes, y)
        codes[codes == len(classes)] = 0
        return np.where(classes[codes] == y, codes, -1)
    if y.dtype.kind != "O":
        distinct, inverse = np.unique(y, return_inverse=True)
        return label_codes(object_array(distinct.tolist()), classes)[inverse]
    position = {label: code for code, label in enumerate(plain_values(classes))}

    def code(label: Any) -> int:
        try:
            return position.get(label, -1)
        except Exception:  # not hashable or comparable, so not a class
            return -1

    return np.fromiter(map(code, y), np.intp, len(y))


def label_numbers(y: np.ndarray) -> np.ndarray:
    """Return each label as a float, NaN for labels that are not numbers."""
    numbers = np.full(len(y), np.nan)
    for i, label in enumerate(y):
        with suppress(Exception):
            numbers[i] = float(label)
    return numbers


@dataclass(frozen=True)
class Records:
    """A table as a dict of columns."""

    columns: dict[Hashable, Any]
    n_records: int

    @property
    def names(self) -> list[Hashable]:
        return list(self.columns)


def as_records(X: Any, columns: Sequence[Hashable] | None, optional: Hashable = None) -> Records:
    """Return the columns of a DataFrame (pandas, Polars), an Arrow table, an array or rows.

    `columns` names the columns of an array, which are numbered otherwise. An array may lack
    the column called `optional`.
    """
    if isinstance(X, Records):
        return X
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow
        with errors_without_data(X=X):
            names, values = _arrow_columns(X)
        _check_distinct("X", names)
        return Records(dict(zip(names, values, strict=True)), int(X.num_rows))
    if hasattr(X, "columns") and hasattr(X, "shape"):
        _check_distinct("X", list(X.columns))
        return Records({name: X[name] for name in X.columns}, int(X.shape[0]))
    with errors_without_data(X=X):
        values, n_records = _array_columns(X, columns)
    names = list(range(len(values))) if columns is None else list(columns)
    _check_distinct("columns", names)
    if len(values) == len(names) - 1 and optional in names:
        names.remove(optional)
    if len(values) != len(names):
        raise ValueError(f"X must have {len(names)} columns; got {len(values)}")
    return Records(dict(zip(names, values, strict=True)), n_records)


def check_is_table(X: Any) -> None:
    """Raise an error for containers that have to be converted, such as a dataset of Ray."""
    if not hasattr(X, "__array__") and callable(getattr(X, "to_pandas", None)):
        raise TypeError(
            f"X must be an array, a DataFrame or another table; got {type(X).__name__}. Convert it "
            "first, for example by its method to_pandas"
        )


def _array_columns(X: Any, columns: Sequence[Hashable] | None) -> tuple[list[Any], int]:
    """Return the columns of an array or of a list of rows, and the number of records."""
    if sparse.issparse(X):
        raise TypeError("X must be a DataFrame or a dense array; got a sparse matrix")
    if isinstance(X, list | tuple) and not X and columns is not None:
        return [[] for _ in columns], 0
    if isinstance(X, list | tuple) and len(X):
        # numpy would look into cells, and convert some.
        if not all(map(is_row, X)):
            raise ValueError(
                "X must have two dimensions, records and columns; some records are not sequences "
                "of cells"
            )
        rows = [list(row) for row in X]
        if len(set(map(len, rows))) > 1:
            raise ValueError("X must have rows of the same length; some are longer than others")
        return list(zip(*rows, strict=True)), len(rows) if rows[0] else 0
    check_is_table(X)
    X = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, records and columns; got {X.ndim}")
    return list(np.asarray(X).T), len(X)  # columns of a np.matrix would have two dimensions


def _arrow_columns(X: Any) -> tuple[list[Hashable], list[Any]]:
    """Return names and columns of an Arrow table, without the index of a DataFrame."""
    metadata = X.schema.pandas_metadata or {}
    index = {name for name in metadata.get("index_columns", []) if isinstance(name, str)}
    kept = [i for i, name in enumerate(X.column_names) if name not in index]
    # pandas restores names that are not strings.
    return list(X.schema.empty_table().to_pandas().columns), [X.column(i) for i in kept]


def _check_distinct(what: str, names: Sequence[Hashable]) -> None:
    try:
        n_distinct = len(set(names))
    except TypeError:
        raise TypeError(f"{what} must have column names that can be hashed; some cannot") from None
    if n_distinct < len(names):
        raise ValueError(f"{what} must have distinct column names; some are duplicates")


def declared_labels(schema: Any, name: Hashable) -> np.ndarray:
    """Return the values of a column of categories as classes of numbers, strings or objects."""
    kind = schema.columns.get(name)
    if not isinstance(kind, Categories) or not kind.states:
        raise ValueError(
            f"y must be a column with declared categories; {name!r} is not one. List its values in "
            "the schema"
        )
    return to_common_dtype("classes", as_labels(object_array(kind.states)))


def read_labels(schema: Any, name: Hashable, values: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the declared label of each cell, and a mask of the cells that have one.

    A cell without a label has the first one. The mask is None if the column declares that there
    are no missing values.
    """
    known = declared_labels(schema, name)
    codes = schema.encode_column(name, values)
    labelled = codes < len(known)
    return known[np.where(labelled, codes, 0)], labelled if schema[name].missing else None


def labels_or_none(schema: Any, name: Hashable, values: Any) -> np.ndarray:
    """Return the declared label of each cell, None for a cell without one."""
    labels, labelled = read_labels(schema, name, values)
    if labelled is None:
        return labels
    labels = labels.astype(object)
    labels[~labelled] = None
    return labels


# Person ids -------------------------------------------------------------------------------

# Ids are whole numbers, strings or UUIDs. The number 12, the float 12.0 and the string "12" are the
# same id; "012" is another id. In `groups`, other objects and floats that may be rounded raise an
# error. In the key column of a schema, records with such cells belong to no person, and are not
# counted.

# Longer strings are not converted to numbers.
_MAX_DIGITS = 1000
_REQUIREMENT = "groups must contain whole numbers or strings, an id for each row"


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
        person_id = _id(cell)
        return NO_PERSON if person_id in absent else person_id
    except Exception:  # not an id; methods of a record may raise anything
        return NO_PERSON


def convert_ids(groups: Any) -> np.ndarray | list:
    """Return the ids as an array of integers, or as a list of Python integers and strings."""
    if sparse.issparse(groups) or isinstance(groups, (str, bytes, Mapping, Set, Iterator)):
        raise TypeError(f"{_REQUIREMENT}; got {describe(groups)}")
    if len(getattr(groups, "shape", ())) > 1:  # iterating over a frame gives column names
        raise ValueError(f"{_REQUIREMENT}; got {describe(groups)}")
    if np.ma.is_masked(groups):
        raise ValueError(f"{_REQUIREMENT}; some are missing")
    if isinstance(getattr(groups, "dtype", None), np.dtype):
        groups = np.asarray(groups)
    else:  # numpy would choose one dtype from all ids
        groups = list_cells(groups)
        if not isinstance(groups, Iterable):
            raise TypeError(f"{_REQUIREMENT}; got {describe(groups)}")
    if isinstance(groups, np.ndarray):
        if groups.ndim != 1:
            raise ValueError(f"{_REQUIREMENT}; got {describe(groups)}")
        if groups.dtype.kind in "iu":
            return groups
        if groups.dtype.kind not in "fOUT":
            raise TypeError(f"{_REQUIREMENT}; got dtype {groups.dtype.name}")
    return [_id(value) for value in groups]


def _id(value: Any) -> Any:
    """Return an id as an integer or a string; equal results mean the same person."""
    if value is NO_PERSON:
        return value
    if isinstance(value, str):
        return _id_from_text(str.__str__(value))
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{_REQUIREMENT}; got truth values")
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return _id_from_float(value)
    if isinstance(value, Decimal):
        if value.is_finite() and value.adjusted() < _MAX_DIGITS and value == int(value):
            return int(value)
        raise ValueError(f"{_REQUIREMENT}; some are missing or not whole")
    if isinstance(value, UUID):
        return str(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{_REQUIREMENT}; some are missing")
    raise TypeError(f"{_REQUIREMENT}; got one of type {type(value).__name__}")


def _id_from_float(value: Any) -> int:
    """Return a float as an integer, if all whole numbers up to it are floats of its type."""
    if value != value:
        raise ValueError(f"{_REQUIREMENT}; some are missing")
    whole, kind = float(value), type(value)
    digits = np.finfo(kind).nmant + 1 if issubclass(kind, np.floating) else 53
    if abs(whole) < 2.0 ** min(digits, 53) and int(whole) == value:
        return int(whole)
    raise ValueError(f"{_REQUIREMENT}; some are not whole, or too large to be exact floats")


def _id_from_text(text: str) -> int | str:
    """Return the number that a string spells, or the string."""
    # The same id may be a number in one batch and a string in another batch with other strings.
    if len(text) <= _MAX_DIGITS and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        return number if str(number) == text else text  # "007" is not a number
    return text
