"""Private tables of counts, and statistics from them."""

from .estimator import PrivateCrosstab

__all__ = ["PrivateCrosstab"]
