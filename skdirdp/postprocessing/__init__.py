"""Post-processing of noisy count tables, at no privacy cost.

A release is a table of counts with noise of a known distribution. Cells are estimated together:
tables of one model share margins (`margins`), and the rows of a table resemble their pool
(`tables`), to a degree that is estimated from the release itself (`mixture`). docs/theory.md,
section 16, has the formulas.
"""

from ..mechanisms.tables import Noise
from .margins import NoisyTable, Reconciled, reconcile
from .tables import ReadTable, read_tables

__all__ = ["Noise", "NoisyTable", "ReadTable", "Reconciled", "read_tables", "reconcile"]
