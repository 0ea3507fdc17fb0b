"""Post-processing of noisy count tables, at no privacy cost.

A release is a table of counts with noise of a known distribution. Cells are estimated together:
tables of one model share margins (`margins`), and the rows of a table resemble their pool
(`estimates`), to a degree that is estimated from the release itself (`mixture`). docs/theory.md,
section 16, has the formulas.
"""

from ..mechanisms.tables import Noise
from .estimates import TableEstimate, estimate_counts, estimate_histogram, low_rank_shares
from .margins import ConsistentTable, NoisyTable, make_consistent, reconcile_tables

__all__ = [
    "ConsistentTable",
    "Noise",
    "NoisyTable",
    "TableEstimate",
    "estimate_counts",
    "estimate_histogram",
    "low_rank_shares",
    "make_consistent",
    "reconcile_tables",
]
