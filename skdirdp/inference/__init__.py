"""Statistical inference from noisy tables: estimates with intervals, tests, and power."""

from .association import (
    TestResult,
    correlation,
    cramers_v,
    goodness_of_fit,
    homogeneity,
    independence,
    trend,
)
from .estimates import (
    Estimate,
    NoisyTable,
    combine,
    difference,
    mean,
    odds_ratio,
    quantile,
    ratio,
    share,
)

__all__ = [
    "Estimate",
    "NoisyTable",
    "TestResult",
    "combine",
    "correlation",
    "cramers_v",
    "difference",
    "goodness_of_fit",
    "homogeneity",
    "independence",
    "mean",
    "odds_ratio",
    "quantile",
    "ratio",
    "share",
    "trend",
]
