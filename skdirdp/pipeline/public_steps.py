"""Fit steps that learn nothing to made-up records.

Such a step may still look at the records in its `fit`: at their density, inferred dtypes or nulls.
So a private fit fits it to made-up records with the same columns and dtypes, and its fitted state
is public. Tables are converted cell by cell before it: the dtype of a column then follows from the
declared dtype of its container, and not from the cells of other records.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags

from .._messages import suppress_external_warnings
from ..base import PrivateEstimator
from ..schema import SchemaEncoder, is_row, may_hold_nulls, record_wise
from .check import learns_nothing

#: Number of made-up records; SplineTransformer needs two.
_N_RECORDS = 2

#: Parameters of a class while it is fitted to made-up records. A text vectorizer with a
#: vocabulary learns nothing from documents, but a custom analyzer may raise for empty ones.
_TEXT = {"input": "content", "analyzer": "word", "preprocessor": None, "tokenizer": None}
_WHILE_FITTED: dict[str, dict[str, Any]] = {"CountVectorizer": _TEXT, "TfidfVectorizer": _TEXT}
_WHILE_FITTED["FunctionTransformer"] = {"check_inverse": False}


def use_made_up_records(pipe: Any, shared: Iterable[Any] = ()) -> None:
    """Let the steps of a pipeline that learn nothing be fitted to made-up records."""
    # The steps, and those inside them, are changed in place, except the `shared` ones.
    for path, part in pipe.get_params(deep=True).items():
        if type(part) is FrozenEstimator and hasattr(part, "transform"):
            # Frozen estimators are not cloned, and belong to the user.
            pipe.set_params(**{path: _PublicFrozenEstimator(part.estimator)})
    parts = reachable(pipe)
    frozen = [each for each in parts if isinstance(each, FrozenEstimator)]
    left = {id(each) for each in (*shared, *(one for each in frozen for one in reachable(each)))}
    for part in parts:
        kind: Any = type(part)
        # The fit of a SchemaEncoder uses only the names of columns, and it encodes cell by cell.
        if id(part) in left or kind is SchemaEncoder:
            continue
        if kind in _PUBLIC_CLASSES:
            part.__class__ = _PUBLIC_CLASSES[kind]
        elif learns_nothing(part) and hasattr(part, "transform"):
            part.__class__ = _fitted_to_made_up_records(kind)


def reachable(estimator: Any) -> list[Any]:
    """Return an estimator and all estimators inside it, including fitted ones."""
    estimators: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, BaseEstimator):
            estimators[id(each)] = each
            waiting += vars(each).values()
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return list(estimators.values())


def restore_classes(pipe: Any) -> None:
    """Undo `use_made_up_records`; also for estimators that were cloned and fitted since."""
    for part in reachable(pipe):
        if type(part) is not original_class(part):
            part.__class__ = original_class(part)


def original_class(step: Any) -> type:
    """Return the class of a step before `use_made_up_records`."""
    return getattr(type(step), "_hidden_class", type(step))


class _LearnsNothing:
    """Mixin for a step that is fitted to made-up records."""

    _hidden_class: type

    def fit(self, X, y=None, **params):
        """Fit to made-up records; labels and parameters such as weights are not used."""
        subclass, fitted = type(self), self._hidden_class
        instead = _WHILE_FITTED.get(fitted.__name__, {})
        own = {name: getattr(self, name) for name in instead}
        records = _made_up(self, X)
        try:
            vars(self).update(instead)
            self.__class__ = fitted
            with suppress_external_warnings():
                self.fit(records)
        except Exception as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            # The message shows no record, since the fit saw none.
            raise kind(
                f"{fitted.__name__} cannot be fitted: {error} (A private fit fits it to made-up "
                "records with the columns and dtypes of X, since it learns nothing.)"
            ) from None
        finally:
            self.__class__ = subclass
            vars(self).update(own)
        return self

    def fit_transform(self, X, y=None, **params):
        return self.fit(X).transform(X)

    def transform(self, X, **params):
        _refuse_rows(self, X)
        if takes_table(self):
            X = record_wise(X)
        with suppress_external_warnings():
            return super().transform(X, **params)  # type: ignore[misc]

    def __reduce__(self):
        return _restored, (self._hidden_class, vars(self))


@cache
def _fitted_to_made_up_records(original: type) -> Any:
    """A subclass with the same name, which clones keep."""
    names = {"__module__": original.__module__, "_hidden_class": original}
    subclass: Any = type(original.__name__, (_LearnsNothing, original), names)
    if hasattr(original, "_sklearn_auto_wrap_output_keys"):
        subclass._sklearn_auto_wrap_output_keys = original._sklearn_auto_wrap_output_keys
    return subclass


def _restored(original: type, state: dict[str, Any]) -> Any:
    step: Any = object.__new__(_fitted_to_made_up_records(original))
    vars(step).update(state)
    return step


class _PublicColumnTransformer(ColumnTransformer):
    """A ColumnTransformer whose output is sparse or dense by public numbers of columns."""

    _hidden_class = ColumnTransformer

    def _record_output_indices(self, Xs):
        if any(sparse.issparse(X) for X in Xs):
            # One cell of each encoded column is not zero; the true density is private.
            parts = self._iter(
                fitted=True, column_as_labels=False, skip_drop=True, skip_empty_columns=True
            )
            columns = [len(self._transformer_to_input_indices[name]) for name, *_ in parts]
            filled = sum(
                min(given, X.shape[1]) if sparse.issparse(X) else X.shape[1]
                for given, X in zip(columns, Xs, strict=True)
            )
            density = filled / max(1, sum(X.shape[1] for X in Xs))
            self.sparse_output_ = density < self.sparse_threshold
        super()._record_output_indices(Xs)

    def _hstack(self, Xs, **params):
        return super()._hstack([_converted_frame(X) for X in Xs], **params)


class _PublicFeatureUnion(FeatureUnion):
    """A FeatureUnion that converts columns record by record."""

    _hidden_class = FeatureUnion

    def _hstack(self, Xs):
        return super()._hstack([_converted_frame(X) for X in Xs])


_PUBLIC_CLASSES: dict[type, type] = {
    ColumnTransformer: _PublicColumnTransformer,
    FeatureUnion: _PublicFeatureUnion,
}


class _PublicFrozenEstimator(FrozenEstimator):
    """A frozen transformer that converts a table record by record."""

    _hidden_class = FrozenEstimator

    def transform(self, X, **params):
        return self.estimator.transform(record_wise(X) if takes_table(self) else X, **params)


def _converted_frame(X: Any) -> Any:
    return record_wise(X) if hasattr(X, "columns") else X


# Inputs of steps --------------------------------------------------------------------------


def takes_table(step: Any) -> bool:
    """Return whether the input of a step is a table of numbers or categories."""
    if isinstance(step, FrozenEstimator):
        return takes_table(step.estimator)
    if step is None or isinstance(step, (PrivateEstimator, str)):
        return False
    if isinstance(step, Pipeline):
        steps = (each for _, _, each in step._iter(with_final=True))  # those not skipped
        return takes_table(next(steps, None))
    if isinstance(step, FeatureUnion):
        return all(takes_table(each) for _, each in step.transformer_list)
    if isinstance(step, FunctionTransformer):
        return bool(step.validate)
    is_known = type(step).__module__.startswith("sklearn.")
    return is_known and get_tags(step).input_tags.two_d_array


def _refuse_rows(step: Any, X: Any) -> None:
    """Raise an error if a user's function would receive a list of rows."""
    sees_lists = isinstance(step, FunctionTransformer) and not step.validate
    if sees_lists and isinstance(X, Sequence) and any(is_row(row) for row in X):
        raise TypeError(
            "X must be an array or a DataFrame where a FunctionTransformer is a step of a private "
            "pipeline; got a list of rows. The dtype that numpy gives a list depends on all records"
        )


# Made-up records -------------------------------------------------------------------------


def _made_up(step: Any, X: Any) -> Any:
    """Return records with the columns and dtypes of X, and no cell of it."""
    _refuse_rows(step, X)
    is_table = takes_table(step) or isinstance(step, FunctionTransformer)
    if not is_table and type(step).__module__.startswith("sklearn."):  # strings, dicts or sets
        return [""] * _N_RECORDS
    encodes = isinstance(step, (OneHotEncoder, OrdinalEncoder))
    categories = list(step.categories) if encodes else None
    if isinstance(X, pd.DataFrame):
        cells = _columns([_declared(dtype) for dtype in X.dtypes], categories, 0)
        made = pd.DataFrame(dict(enumerate(cells)), index=range(_N_RECORDS))
        made.columns = X.columns
        return made
    polars, arrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(X, polars.DataFrame):
        cells = _columns([_declared_polars(each) for each in X.get_columns()], categories, "")
        return polars.DataFrame(list(map(polars.Series, X.columns, cells)))
    if arrow is not None and isinstance(X, (arrow.Table, arrow.RecordBatch)):
        empty = X.schema.empty_table().to_pandas()
        cells = _columns([_declared_arrow(each, arrow) for each in X.schema], categories, "")
        return arrow.Table.from_arrays([arrow.array(each) for each in cells], list(empty.columns))
    return _made_up_array(X, categories)


def _made_up_array(X: Any, categories: list[Any] | None) -> Any:
    is_list = not hasattr(X, "shape")
    X = record_wise(X)
    if isinstance(X, pd.Series):
        X = X.iloc[:0].to_numpy()
    if not hasattr(X, "shape") or not hasattr(X, "dtype"):
        return [""] * _N_RECORDS
    if sparse.issparse(X):
        return type(X)((_N_RECORDS, X.shape[1]), dtype=X.dtype)
    if len(X.shape) != 2:
        return np.zeros((_N_RECORDS, *X.shape[1:]), dtype=X.dtype)
    dtype = np.dtype(X.dtype)
    if categories and is_list:
        kinds = [np.asarray(each).dtype for each in categories]
        if all(each.kind in "biuf" for each in kinds):
            # scikit-learn reads a list of numbers like this; categories must then be sorted.
            dtype = np.result_type(*kinds)
    made = np.zeros((_N_RECORDS, X.shape[1]), dtype=dtype)
    for place, cells in enumerate(_columns([dtype] * X.shape[1], categories, 0)):
        made[:, place] = cells
    return made


#: Declared dtypes of columns that may contain nulls.
_INTEGERS, _BOOLEANS = "integers", "booleans"


def _declared(dtype: Any) -> Any:
    """Return the dtype of a pandas column in numpy."""
    if may_hold_nulls(dtype):
        inside = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
        if pd.api.types.is_bool_dtype(inside):
            return _BOOLEANS
        return _INTEGERS if pd.api.types.is_integer_dtype(inside) else np.dtype(float)
    return dtype if isinstance(dtype, (np.dtype, pd.SparseDtype)) else np.dtype(object)


def _declared_polars(column: Any) -> Any:
    if column.dtype.is_integer():
        return _INTEGERS
    return _BOOLEANS if str(column.dtype) == "Boolean" else column.clear().to_numpy().dtype


def _declared_arrow(field: Any, arrow: Any) -> Any:
    kind = field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
    if arrow.types.is_integer(kind):
        return _INTEGERS
    return _BOOLEANS if arrow.types.is_boolean(kind) else np.dtype(kind.to_pandas_dtype())


def _columns(dtypes: Sequence[Any], categories: list[Any] | None, text: Any) -> list[Any]:
    """Return the cells of each column; `text` is the cell of a column of objects."""
    known = [] if categories is None else categories[: len(dtypes)]
    pairs = zip_longest(dtypes, known, fillvalue=())
    return [_cells(dtype, list(values), text) for dtype, values in pairs]


def _cells(dtype: Any, known: list[Any], text: Any) -> Any:
    """Return zeros of a declared dtype, or the first known category of an encoder."""
    if dtype in (_INTEGERS, _BOOLEANS):
        wanted: Any = (int, np.integer) if dtype == _INTEGERS else (bool, np.bool_)
        fits = known and all(isinstance(each, wanted) for each in known)
        dtype = np.dtype(wanted[0] if fits else float)
    if isinstance(dtype, pd.SparseDtype):
        return pd.arrays.SparseArray(np.zeros(_N_RECORDS), dtype=dtype)
    cells = np.zeros(_N_RECORDS, dtype=dtype)
    if dtype.kind == "O":
        cells[:] = text
    if known:
        with suppress(TypeError, ValueError, OverflowError):
            cells[:] = np.asarray(known[:1], dtype=dtype)
    return cells.tolist() if dtype.kind == "O" and text == "" else cells
