"""Count tables in memory, on the workers of a cluster, or with the engine of a lazy frame.

An estimator implements a `Counter`, and `open_table` selects the engine by the type of X. All
engines return the same exact counts, and only counts leave the engine. Types are recognised by
name, so that no optional library is imported unless the user has imported it.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from itertools import islice
from os import PathLike
from traceback import walk_stack
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._messages import package_of
from .._persons import check_person
from ..schema import (
    ARROW_TYPES,
    DASK_TYPES,
    LAZY_FRAME_TYPES,
    Schema,
    check_is_table,
    check_row_order,
    has_type,
)
from .in_memory import Counter, InMemoryTable, Part, TableCounts

__all__ = [
    "Counter",
    "Part",
    "TableCounts",
    "compute_dask",
    "lazy_for_dask",
    "open_batch",
    "open_by_schema",
    "open_table",
]


@dataclass(frozen=True)
class Kind:
    """Kind of table that is not in memory."""

    name: str  # name in messages
    types: str  # pattern of the full names of its types
    module: str  # module of the engine
    engine: str  # class of the engine
    extra: str  # optional dependency, as in `pip install skdirdp[...]`

    def open(self, X: Any, given: dict[str, Any]) -> Any:
        try:
            module = import_module(f".{self.module}", __package__)
        except ImportError as error:
            raise ImportError(
                f"{self.name} need an optional dependency: pip install 'skdirdp[{self.extra}]'"
            ) from error
        return getattr(module, self.engine)(X, given)


_FRAMES = "Polars lazy frames, DuckDB relations, and other lazy frames that narwhals supports"
KINDS = (
    Kind("Dask arrays and frames", DASK_TYPES, "dask", "DaskTable", "dask"),
    Kind(
        "PyArrow datasets and streams of batches", ARROW_TYPES, "in_memory", "ArrowTable", "frames"
    ),
    Kind(_FRAMES, LAZY_FRAME_TYPES, "frames", "LazyTable", "frames"),
)


def _find_kind(X: Any) -> Kind | None:
    """Return the kind of a table that is not in memory; None for other tables."""
    # Fast path for the most common types.
    if type(X).__module__.partition(".")[0] not in ("numpy", "pandas", "builtins", "scipy"):
        for kind in KINDS:
            if has_type(X, kind.types):
                return kind
        if not hasattr(X, "__dataframe__"):
            check_is_table(X)
    if isinstance(X, (str, bytes, PathLike, Generator, Iterator)):
        others = "; ".join(f"{kind.name} (skdirdp[{kind.extra}])" for kind in KINDS)
        raise TypeError(
            f"X must be a table; got {type(X).__name__}. Tables are arrays, sparse matrices and "
            f"frames in memory (NumPy, SciPy, pandas, Polars, PyArrow); {others}"
        )
    return None


def open_table(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
    """Return a table with its engine; the others may be names of columns if X is a frame."""
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    kind = _find_kind(X)
    return InMemoryTable(X, given) if kind is None else kind.open(X, given)


def open_by_schema(schema: Schema | None, X: Any, groups: Any, max_rows: int) -> Any:
    """Return a table with its engine; a schema may name the column of ids."""
    table = open_table(X, groups=groups)
    if table.in_memory or schema is None or schema.person is None:
        return table
    check_person(schema, groups, max_rows)
    check_row_order(schema.person, X)
    key: Any = schema.person
    if has_type(X, DASK_TYPES) and not hasattr(X, "columns"):  # an array
        key = X[:, list(schema).index(key)]
    return open_table(X, groups=key)


def open_batch(X: Any, y: Any, sample_weight: Any, groups: Any) -> Part:
    """Return a batch for `partial_fit`, which must be in memory."""
    _check_not_incremental()
    table = open_table(X, y, sample_weight, groups)
    if not table.in_memory:
        raise TypeError(
            f"X must be in memory for partial_fit; got {table.kind}. Pass it to fit, which counts "
            "it out of core"
        )
    return table.part


def _check_not_incremental() -> None:
    """Raise an error if the model would be sent to another process with exact counts."""
    # `dask_ml.wrappers.Incremental` sends a model from worker to worker between batches. A model
    # that contains exact counts cannot be pickled, and Dask would retry forever.
    distributed = sys.modules.get("distributed")
    callers = islice(walk_stack(sys._getframe(1)), 8)
    if distributed is None or "dask_ml" not in (package_of(frame) for frame, _ in callers):
        return
    try:
        address = distributed.get_worker().address
    except ValueError:  # this process is not a worker
        return
    if address.startswith("inproc://"):  # all workers share one process
        return
    raise TypeError(
        "partial_fit must not be called by dask_ml on workers in other processes: between batches "
        "the model would be sent with exact counts. Pass the Dask arrays to fit, which counts on "
        "the workers and sends only tables of counts"
    )


def lazy_for_dask(output: Callable[[Any], tuple[int | None, Any]]) -> Callable:
    """Let a method of a fitted model accept Dask collections, and return lazy arrays for them.

    `output(model)` returns the number of columns of the result, None if it has one dimension, and
    an empty array of its dtype.
    """

    def decorate(method: Callable) -> Callable:
        @wraps(method)
        def call(self, X):
            kind = _find_kind(X)
            if kind is None:
                return method(self, X)
            if kind.extra != "dask":
                raise TypeError(
                    f"X must be in memory, or a Dask collection, for {method.__name__}; got "
                    f"{type(X).__name__}. Collect it, or some of its rows at a time"
                )
            check_is_fitted(self)
            if hasattr(self, "release"):  # after partial_fit, release before the first use
                self.release()
            model = self._for_workers()
            return kind.open(X, {}).map_method(model, method.__name__, *output(model))

        return call

    return decorate


def compute_dask(*values: Any) -> list[Any]:
    """Return the values, after computing Dask arrays of one number per record."""
    return [value.compute() if hasattr(value, "__dask_graph__") else value for value in values]
