"""Which tables can be counted, and by which engine: a registry of the kinds of input.

A kind is told by its type's name and where that comes from, so that no library is imported
that the user has not.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any

from ..records import column_names
from .parts import Part, Roles
from .workers import check_stays_here


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes
    ----------
    name : what users call it.
    types : pattern of the full names of its types.
    engine : module and class of its engine.
    extra : what `pip install skdirdp[...]` needs for it.
    """

    name: str
    types: str
    engine: tuple[str, str]
    extra: str

    def has(self, X: Any) -> bool:
        names = (f"{base.__module__}.{base.__qualname__}" for base in type(X).__mro__)
        return any(re.fullmatch(self.types, name) for name in names)

    def open(self, X: Any, given: dict[str, Any]) -> Any:
        module, engine = self.engine
        try:
            found = import_module(f".{module}", __package__)
        except ImportError as error:
            raise ImportError(
                f"{self.name} need more than is installed: pip install 'skdirdp[{self.extra}]'"
            ) from error
        return getattr(found, engine)(X, given)


KINDS = (
    Kind(
        "Dask arrays and frames",
        r"dask(_expr)?\..*\.(Array|DataFrame|Series)",
        ("dask", "DaskTable"),
        "dask",
    ),
    Kind(
        "PyArrow datasets and streams of batches",
        r"pyarrow\..*\.(Dataset|RecordBatchReader)",
        ("arrow", "ArrowTable"),
        "frames",
    ),
    Kind(
        "Polars lazy frames, DuckDB relations, and other lazy frames that narwhals knows",
        r"polars\..*\.LazyFrame|_?duckdb\..*Relation|narwhals\..*\.LazyFrame"
        r"|pyspark\.sql\..*DataFrame|ibis\..*\.Table",
        ("frames", "Frame"),
        "frames",
    ),
)
_IN_MEMORY = "arrays, sparse matrices and frames in memory (NumPy, SciPy, pandas, Polars, PyArrow)"


class TableInMemory:
    """A table that is here: what scikit-learn takes."""

    in_memory = True

    def __init__(self, X: Any, given: dict[str, Any]):
        names = column_names(X)
        if names is None or not any(isinstance(value, str) for value in given.values()):
            self.part = Part(X, **given)
            return
        roles = Roles.of(names, given)
        features = X.select(roles.features) if hasattr(X, "select") else X[roles.features]
        beside = {role: X[value] if role in roles.named else value for role, value in given.items()}
        self.part = Part(features, **beside)


def kind_of(X: Any) -> Kind | None:
    """The kind of a table that is not in memory, or None."""
    # Most are arrays, of which this is known at once.
    if type(X).__module__.partition(".")[0] in ("numpy", "pandas", "builtins", "scipy"):
        _check_is_table(X)
        return None
    found = next((kind for kind in KINDS if kind.has(X)), None)
    if found is None:
        _check_is_table(X)
    return found


def _check_is_table(X: Any) -> None:
    if isinstance(X, (str, bytes, PathLike, Generator, Iterator)):
        raise TypeError(f"X must be a table; got {type(X).__name__}. {supported()}")


def supported() -> str:
    """A sentence that lists the kinds of tables."""
    others = "; ".join(f"{kind.name} (skdirdp[{kind.extra}])" for kind in KINDS)
    return f"Tables are {_IN_MEMORY}; {others}"


def open_table(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
    """A table by the engine that counts it, with what stands beside its records.

    Where X is a frame, what stands beside it may be given by the name of a column.
    """
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    kind = kind_of(X)
    return TableInMemory(X, given) if kind is None else kind.open(X, given)


def open_batch(X: Any, y: Any, sample_weight: Any, groups: Any) -> Part:
    """A batch for `partial_fit`, which counts here."""
    check_stays_here()
    table = open_table(X, y, sample_weight, groups)
    if not table.in_memory:
        raise TypeError(
            f"X must be in memory for partial_fit; got {table.kind}, which fit counts where it is"
        )
    return table.part
