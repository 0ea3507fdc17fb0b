"""Predictions and transformations of Dask collections, which are computed when asked for."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .registry import kind_of


def lazy_for_dask(output: Callable[[Any], tuple[int | None, Any]]) -> Callable:
    """Let a method of a fitted model take Dask collections, and give lazy arrays for them.

    Parameters
    ----------
    output : callable
        For a model, the number of columns of what the method gives, None if it is of one
        dimension, and an empty array of its type.
    """

    def decorate(method: Callable) -> Callable:
        @wraps(method)
        def of_any(self, X):
            kind = kind_of(X)
            if kind is None:
                return method(self, X)
            if kind.extra != "dask":
                raise TypeError(
                    f"X must be in memory, or a Dask collection, for {method.__name__}; got "
                    f"{type(X).__name__}. Collect it, or some of its rows at a time"
                )
            check_is_fitted(self)
            if hasattr(self, "release"):  # what is still to be paid for is, before it is used
                self.release()
            table = kind.open(X, {})
            model = self._for_workers()
            return table.mapped(model, method.__name__, *output(model))

        return of_any

    return decorate


def compute_dask(*values: Any) -> list[Any]:
    """The values, those of Dask computed: one number for each record, and no records."""
    return [value.compute() if hasattr(value, "__dask_graph__") else value for value in values]
