"""Where records are counted: here, on the workers of a cluster, or by a frame's own engine.

An estimator says what it counts by a `Counter`, and a table says where its records are.
Exact counts are the same whichever engine brings them, and are all that comes.
"""

from .lazily import compute_dask, lazy_for_dask
from .parts import Part, TableCounts
from .registry import KINDS, open_batch, open_table

__all__ = [
    "KINDS",
    "Part",
    "TableCounts",
    "compute_dask",
    "lazy_for_dask",
    "open_batch",
    "open_table",
]
