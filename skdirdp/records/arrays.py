"""Labels and tables of numbers as arrays, one cell at a time.

`np.asarray` chooses one type for a whole list, so that one record decides how all others are
represented. A container with a dtype of its own keeps it; cells of others are converted one by
one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from .values import plain_value

# Kinds of numpy dtypes whose cells are compared by value, without objects.
_NUMBERS, _TEXTS = "biuf", "UT"
# Types whose instances `plain_value` returns as they are, NaN included.
_PLAIN = frozenset({str, bool, int, float})


def plain_values(values: Iterable[Any], convert: Callable[[Any], Any] = plain_value) -> list[Any]:
    """Each cell as a plain Python value."""
    values = list(values)
    return values if _PLAIN.issuperset(map(type, values)) else list(map(convert, values))


def list_cells(values: Any) -> Iterable[Any]:
    """The cells of a column, of which none depends on another."""
    for method in ("to_pylist", "to_list", "tolist"):  # PyArrow, Polars and pandas, numpy
        if hasattr(values, method):
            return getattr(values, method)()
    return values


def object_array(values: Iterable[Any]) -> np.ndarray:
    """The values in an array of objects, whatever they are."""
    values = list(values)
    array = np.empty(len(values), dtype=object)
    if _PLAIN.issuperset(map(type, values)):
        array[:] = values
    else:  # an assignment to a slice would look into sequences
        for i, value in enumerate(values):
            array[i] = value
    return array


def as_numbers(X: Any) -> Any:
    """A table of numbers whose type does not depend on its records.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame
        Arrays and sparse matrices of a dtype other than object are returned unchanged, and so
        are pandas frames whose columns have one. Other tables become float64.

    Returns
    -------
    ndarray, sparse matrix or pandas DataFrame
        Missing values are NaN.
    """
    if isinstance(X, np.ndarray):
        return _floats(X) if X.dtype.kind == "O" else X
    if isinstance(X, pd.DataFrame):
        if all(_is_fixed(dtype) for dtype in X.dtypes):
            return X
        # By position, because names may repeat.
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
    """A sequence of rows as an array of objects, with one cell for each.

    Any other container is returned unchanged, and so is a sequence of texts or mappings.
    """
    if not isinstance(X, Sequence) or isinstance(X, (str, bytes)) or hasattr(X, "__array__"):
        return X
    rows = [list(row) for row in X if is_row(row)]
    if not rows:
        return X
    if len(rows) < len(X) or len(set(map(len, rows))) > 1:
        raise ValueError("X must have rows of one length; some records are no such rows")
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for number, row in enumerate(rows):
        table[number] = object_array(row)
    return table


def is_row(record: Any) -> bool:
    """Whether a record in a list is a row of cells, and no text, mapping or set."""
    return isinstance(record, Iterable) and not isinstance(record, (str, bytes, Mapping, Set))


def column_names(X: Any) -> list[Any] | None:
    """The names of the columns of a frame in memory, or None for another container."""
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow
        return list(X.column_names)
    columns = getattr(X, "columns", None)
    return None if columns is None or not hasattr(X, "shape") else list(columns)


def without_dictionaries(X: Any) -> Any:
    """An Arrow table whose dictionary-encoded columns hold their values; others unchanged.

    As an array, PyArrow gives a missing value of such a column the last value of the dictionary,
    which is that of another record.
    """
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
    """Missing cells of a frame, in columns whose type as an array depends on them.

    Parameters
    ----------
    X : table
        Of any kind, in memory.

    Returns
    -------
    ndarray of bool of shape (n_records, n_columns), or None
        None for a container in which no column has a missing value of that kind.
    """
    if isinstance(X, pd.DataFrame):
        fixed = [isinstance(dtype, np.dtype) for dtype in X.dtypes]
        columns = [X.iloc[:, k].isna() for k in range(X.shape[1]) if not fixed[k]]
        missing = [column.to_numpy() for column in columns]
    elif hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # PyArrow
        missing = [column.is_null().to_numpy(zero_copy_only=False) for column in X.columns]
    elif hasattr(X, "get_columns"):  # Polars
        missing = [column.is_null().to_numpy() for column in X.get_columns()]
    else:
        missing = []
    return np.column_stack(missing) if any(column.any() for column in missing) else None


def _is_fixed(dtype: Any) -> bool:
    """Whether a dtype of pandas has one representation of every cell."""
    return isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O")


def _float_column(values: Any) -> np.ndarray:
    """A column of a frame as float64, with NaN for missing values."""
    dtype = values.dtype if isinstance(values, pd.Series) else None
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _floats(object_array(dtype.categories))
        return np.append(categories, np.nan)[values.cat.codes]  # -1, a missing value, is the last
    # Integers with missing values become float64 in every container, as they do without.
    array = values.to_numpy()
    return array.astype(np.float64) if array.dtype.kind in _NUMBERS else _floats(array)


def _floats(values: np.ndarray) -> np.ndarray:
    """Each cell of an array of objects as a float."""
    if values.dtype.kind != "O":
        raise TypeError(f"X must hold numbers; got dtype {values.dtype.name}")
    kinds = set(map(type, values.flat))
    if any(issubclass(kind, (np.complexfloating, np.datetime64, np.timedelta64)) for kind in kinds):
        raise TypeError("X must hold real numbers; some cells are complex, dates or durations")
    if not kinds.isdisjoint((type(pd.NA), type(pd.NaT))):
        missing = [value is pd.NA or value is pd.NaT for value in values.flat]
        values = np.where(np.reshape(missing, values.shape), np.nan, values)
    return values.astype(np.float64)


def as_labels(y: Any) -> Any:
    """Labels as a vector whose type does not depend on the records.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels. A list of rows with one label each is a column.

    Returns
    -------
    ndarray
        Unchanged where the container has a dtype of its own. Else plain Python values in an
        array of objects, with NaN for missing labels.
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
    if sparse.issparse(y) or isinstance(y, (str, bytes, Mapping, Set)) or _has_two_axes(y):
        return y
    cells = list_cells(y)
    if not isinstance(cells, Iterable):
        return y
    return object_array(plain_values(cells, _label))


def _has_two_axes(y: Any) -> bool:
    return len(getattr(y, "shape", ())) > 1


def _label(cell: Any) -> Any:
    """A label as a plain value; it may be alone in a row."""
    is_row = isinstance(cell, (list, tuple, np.ndarray)) and np.shape(cell) == (1,)
    return plain_value(cell[0] if is_row else cell)


def to_common_dtype(name: str, labels: np.ndarray) -> np.ndarray:
    """Labels as an array of numbers or of strings, if their values stay the same.

    This looks at all of them, so it is for public labels, or where the labels that occur are
    declared not to be covered.
    """
    if labels.dtype.kind != "O":
        return labels
    kinds = set(map(type, labels.flat))
    if str in kinds and len(kinds) > 1:
        raise TypeError(f"{name} must hold only numbers or only strings; it mixes them")
    if not kinds <= _PLAIN:
        return labels
    values = labels.tolist()
    typed = np.array(values)
    return typed if typed.tolist() == values else labels  # integers may be no floats


def label_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The position of each label among the sorted classes, and -1 for other labels.

    A label is a class if the two are equal as Python values: 1, 1.0 and True are one label, and
    "1" is another.
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
        except Exception:  # it cannot be hashed or compared, and so is no class
            return -1

    return np.fromiter(map(code, y), np.intp, len(y))
