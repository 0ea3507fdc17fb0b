"""Statistical inference from noisy tables: estimates with intervals, tests, and power."""

from .estimates import Estimate, NoisyTable, difference, mean, odds_ratio, quantile, ratio, share

__all__ = [
    "Estimate",
    "NoisyTable",
    "difference",
    "mean",
    "odds_ratio",
    "quantile",
    "ratio",
    "share",
]
