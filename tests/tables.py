"""One table in every container that can be counted, for tests that compare them."""

from itertools import pairwise

import dask
import dask.dataframe as dd
import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest


def dask_frame(frame, n_partitions=4):
    """A Dask frame with empty partitions at its ends and in the middle."""
    edges = np.linspace(0, len(frame), n_partitions + 1).astype(int)
    edges = sorted([0, *edges, edges[len(edges) // 2], len(frame)])
    parts = [dask.delayed(frame.iloc[start:stop]) for start, stop in pairwise(edges)]
    return dd.from_delayed(parts, meta=frame.iloc[:0])


def giant_partition(frame):
    return dd.from_pandas(frame, npartitions=1)


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def in_batches(frame):
    """The table in small batches, of which one is empty."""
    table = arrow(frame)
    batches = table.to_batches(max_chunksize=max(1, len(frame) // 5))
    empty = pa.RecordBatch.from_pandas(frame.iloc[:0], table.schema, preserve_index=False)
    return pa.Table.from_batches([empty, *batches[:2], empty, *batches[2:]], table.schema)


#: Tables whose engine counts a part at a time.
IN_PARTS = {
    "dask": dask_frame,
    "one partition": giant_partition,
    "arrow dataset": lambda frame: ds.dataset(in_batches(frame)),
    "arrow stream": lambda frame: in_batches(frame).to_reader(),
}
#: Tables whose engine brings equal records together.
IN_GROUPS = {
    "polars lazy": lambda frame: pl.from_arrow(arrow(frame)).lazy(),
    "duckdb": lambda frame: duckdb.from_arrow(arrow(frame)),
    "narwhals": lambda frame: nw.from_native(pl.from_arrow(arrow(frame)).lazy()),
}
IN_MEMORY = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_arrow(arrow(frame)),
    "arrow": arrow,
}
ELSEWHERE = {**IN_PARTS, **IN_GROUPS}

#: By name, for parameters of tests: one of each engine is quick, and its variants are slow.
VARIANTS = ("one partition", "arrow stream", "narwhals", "arrow")


def names(tables):
    """The names of some tables, as parameters."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in VARIANTS else name for name in tables
    ]
