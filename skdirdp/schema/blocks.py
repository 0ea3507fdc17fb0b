"""Read tables from any supported container as in-memory blocks of records.

Tables that are not in memory are read block by block to limit memory use. Types are recognised by
name, so that no optional library is imported unless the user has imported it.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .._messages import warn
from .arrays import list_cells, object_array
from .kinds import Ignored, Names

_SPARK_TYPES = r"pyspark\.sql\..*DataFrame"
#: Regular expressions that match the qualified names of out-of-core container types.
DASK_TYPES = r"dask(_expr)?\..*\.(Array|DataFrame|Series)"
ARROW_TYPES = r"pyarrow\..*\.(Dataset|RecordBatchReader)"
LAZY_FRAME_TYPES = (
    r"polars\..*\.LazyFrame|_?duckdb\..*Relation|narwhals\..*\.LazyFrame"
    rf"|{_SPARK_TYPES}|ibis\..*\.Table"
)
_NARWHALS_TYPES = r"narwhals\..*\.(DataFrame|LazyFrame)"

#: Number of rows per block, for containers that support a block size.
BLOCK_ROWS = 1 << 18
# Encoding takes longer than reading, and batches that are read ahead need memory.
_READ_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}
# pandas can represent missing values of these types only with its nullable dtypes.
_NULLABLE: dict[str, Any] = {"bool": pd.BooleanDtype()} | {
    f"{sign}int{bits}": pd.api.types.pandas_dtype(f"{sign.upper()}Int{bits}")
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}


def has_type(X: Any, pattern: str) -> bool:
    """Return whether the qualified name of X's type, or of a base class, matches a pattern."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in type(X).__mro__)
    return any(re.fullmatch(pattern, name) for name in names)


def table_blocks(X: Any, columns: list[Any] | None = None) -> Iterator[Any]:
    """Yield the records of a table in one or more in-memory blocks.

    A table in memory is yielded as one block, with all columns. For other tables, `columns` lists
    the columns to read.
    """
    if has_type(X, _NARWHALS_TYPES):
        X = X.to_native()
    if has_type(X, DASK_TYPES):
        yield from _dask_blocks(X if columns is None else X[columns])
    elif has_type(X, ARROW_TYPES):
        yield from _arrow_blocks(X, columns)
    elif hasattr(X, "collect_batches"):  # Polars
        X = X if columns is None else X.select(columns)
        empty = X.collect_schema().to_frame()
        yield from _at_least_one(
            X.collect_batches(chunk_size=BLOCK_ROWS, maintain_order=True), empty
        )
    elif has_type(X, _SPARK_TYPES):
        blocks = _spark_blocks(X)
        if columns is not None:
            blocks = (block.select(columns) for block in blocks)
        yield from _at_least_one(blocks, pd.DataFrame(columns=columns or X.columns))
    elif has_type(X, LAZY_FRAME_TYPES):
        yield from _arrow_blocks(_arrow_reader(X), columns)
    else:
        yield X


def is_in_memory(X: Any) -> bool:
    """Return whether a table is in memory."""
    return not has_type(X, f"{DASK_TYPES}|{ARROW_TYPES}|{LAZY_FRAME_TYPES}")


def check_row_order(person: Hashable | None, X: Any) -> None:
    """Raise an error if the schema has a person column but the records have no fixed order."""
    # Without a fixed order, the records of one person could affect which records of another are
    # counted.
    if person is not None and has_type(X, LAZY_FRAME_TYPES):
        raise TypeError(
            "X must be in-memory data, a Dask collection or a PyArrow dataset if the schema "
            "declares a person column; got a lazy frame. Its rows have no fixed order, so the "
            "first rows of each person are not well defined. "
            "Collect it or write it to Parquet files"
        )


def columns_with_values(schema: Any, names: Iterable[Hashable]) -> list[Hashable]:
    """Return the columns with public values, and warn about the others, which are not used."""
    is_open = {name: isinstance(schema[name], Names) for name in names}
    if left_out := ", ".join(repr(name) for name, is_excluded in is_open.items() if is_excluded):
        warn(f"columns without public values are not used: {left_out}. List their values first")
    return [name for name, is_excluded in is_open.items() if not is_excluded]


def collect_columns(
    schema: Any,
    blocks: Iterable[Mapping[Any, Any]],
    to_series: Callable[[Any], pd.Series] | None = None,
) -> dict[Any, Any]:
    """Return the columns of several blocks as values of their declared types.

    Cells are encoded block by block, so the blocks need not be kept in memory. `to_series` converts
    cells that are not encoded (keys and names). Ignored columns are dropped.
    """
    parts: dict[Any, list[Any]] = {}
    for block in blocks:
        for name, cells in block.items():
            kind = schema[name]
            if isinstance(kind, Ignored):
                continue
            if kind.is_counted and not isinstance(kind, Names):
                part = schema.encode_column(name, cells)
            else:
                part = (to_series or _objects)(cells)
            parts.setdefault(name, []).append(part)
    columns = {}
    for name in list(parts):
        cells_of_blocks = parts.pop(name)
        if isinstance(cells_of_blocks[0], pd.Series):
            columns[name] = pd.concat(cells_of_blocks, ignore_index=True)
        else:
            columns[name] = schema[name].decode(np.concatenate(cells_of_blocks))
    return columns


def _objects(cells: Any) -> pd.Series:
    return pd.Series(object_array(list_cells(cells)), dtype=object)


def _at_least_one(blocks: Iterable[Any], empty: Any) -> Iterator[Any]:
    """Yield the blocks, or the given empty block if there are none."""
    block = None
    for block in blocks:
        yield block
    if block is None:
        yield empty


def _dask_blocks(X: Any) -> Iterator[Any]:
    if not hasattr(X, "to_dask_array"):  # each block must contain whole rows
        X = X.rechunk({1: -1})
    for part in np.ravel(X.to_delayed()).tolist():
        yield part.compute()


def _arrow_blocks(X: Any, columns: list[Any] | None) -> Iterator[Any]:
    blocks: Iterable[Any] = X
    if hasattr(X, "to_batches"):
        blocks = _dataset_batches(X, columns=columns, batch_size=BLOCK_ROWS, **_READ_AHEAD)
    elif columns is not None:
        blocks = (batch.select(columns) for batch in X)
    empty = X.schema.empty_table()
    return _at_least_one(blocks, empty if columns is None else empty.select(columns))


def _dataset_batches(dataset: Any, **options: Any) -> Iterator[Any]:
    """Iterate over the batches of a dataset, file by file."""
    # Scanning all files at once needs memory that grows with the number of files.
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # filtered datasets have no list of fragments
        yield from dataset.to_batches(**options)
        return
    for fragment in fragments:
        yield from fragment.to_batches(schema=dataset.schema, **options)


def _arrow_reader(X: Any) -> Any:
    """Return a DuckDB relation or an Ibis table as a stream of batches."""
    if hasattr(X, "to_pyarrow_batches"):  # Ibis
        return X.to_pyarrow_batches(chunk_size=BLOCK_ROWS)
    # The method's name depends on the version of DuckDB.
    names = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")
    method = next(name for name in names if name in dir(type(X)))
    return getattr(X, method)(BLOCK_ROWS)


def _spark_blocks(X: Any) -> Iterator[Any]:
    """Iterate over the Arrow batches of a Spark frame, sent to the driver one at a time."""
    import pyarrow as pa

    # Spark's `__arrow_c_stream__` fails for timestamps, and `toArrow` needs all records in memory.
    # Nested functions are pickled by value, so the workers do not need this package.
    def serialise(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})

    for row in X.mapInArrow(serialise, "batch binary").toLocalIterator():
        with pa.ipc.open_stream(row.batch) as reader:
            yield from reader


def empty_table(X: Any) -> Any:
    """Return an empty table with the columns of a table that is not in memory."""
    if has_type(X, ARROW_TYPES):
        return X.schema.empty_table().to_pandas()
    if hasattr(X, "collect_schema"):  # Polars and narwhals
        return pd.DataFrame(columns=X.collect_schema().names())
    if hasattr(X, "columns"):
        return pd.DataFrame(columns=list(X.columns))
    return np.empty((0, X.shape[1]))  # Dask array


def block_frame(block: Any) -> pd.DataFrame:
    """Convert an Arrow batch to pandas, using nullable dtypes for integers and booleans with nulls.

    Other blocks are returned unchanged.
    """
    if not hasattr(block, "column_names"):
        return block
    frame = block.to_pandas()
    for name, column in zip(block.schema.names, block.columns, strict=True):
        if column.null_count and str(column.type) in _NULLABLE:
            frame[name] = column.to_pandas(types_mapper=lambda kind: _NULLABLE[str(kind)])
    return frame


def narwhals_to_pandas(frame: Any) -> pd.DataFrame:
    """Convert an in-memory narwhals frame to pandas, with strings as objects."""
    table = frame.to_pandas()
    return table.assign(**{name: text_objects(table[name]) for name in table})


def text_objects(values: Any) -> Any:
    """Return a pandas Series of strings as an object array, with NaN for missing values."""
    if isinstance(values, pd.Series) and (
        isinstance(values.dtype, pd.StringDtype) or values.dtype == object
    ):
        return values.to_numpy(dtype=object, na_value=np.nan)
    return values
