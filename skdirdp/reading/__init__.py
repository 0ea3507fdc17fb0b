"""What is made of noisy tables: free of charge, and so as well as it can be done.

A release is a table of counts with noise whose law is known. Everything after that is
post-processing, which no guarantee sees. Cells are not alone: tables of one model hold the same
margins (`margins`), and the rows of a table resemble their pool (`tables`), how much so being
told by the release itself (`mixture`). docs/theory.md, section 16, has the formulas.
"""

from ..mechanisms.noise import Noise
from .margins import Reconciled, reconcile
from .noisy import NoisyTable
from .tables import ReadTable, read_tables

__all__ = ["Noise", "NoisyTable", "ReadTable", "Reconciled", "read_tables", "reconcile"]
