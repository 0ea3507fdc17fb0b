"""Statistical inference from noisy tables: estimates with intervals, tests, and power.

The functions take released tables and need no data. docs/inference.md has the formulas.
"""

from .comparisons import correlation, cramers_v, difference, odds_ratio, ratio
from .estimates import Estimate, NoisyTable, combine, mean, quantile, share
from .hypotheses import (
    TestResult,
    budget_for_power,
    goodness_of_fit,
    homogeneity,
    independence,
    power,
    rows_for_power,
    trend,
)

__all__ = [
    "Estimate",
    "NoisyTable",
    "TestResult",
    "budget_for_power",
    "combine",
    "correlation",
    "cramers_v",
    "difference",
    "goodness_of_fit",
    "homogeneity",
    "independence",
    "mean",
    "odds_ratio",
    "power",
    "quantile",
    "ratio",
    "rows_for_power",
    "share",
    "trend",
]
