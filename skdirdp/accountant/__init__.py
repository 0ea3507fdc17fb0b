"""Privacy budget of a data set, and the ledger that stores its charges."""

from .accountant import ParallelParts, PrivacyAccountant
from .reports import History
from .schema import LedgerError

__all__ = ["History", "LedgerError", "ParallelParts", "PrivacyAccountant"]
