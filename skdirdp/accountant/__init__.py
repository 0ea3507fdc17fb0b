"""The budget of one data set, and the ledger that remembers what was spent."""

from .accountant import ParallelParts, PrivacyAccountant
from .history import History
from .ledger import LedgerError

__all__ = ["History", "LedgerError", "ParallelParts", "PrivacyAccountant"]
