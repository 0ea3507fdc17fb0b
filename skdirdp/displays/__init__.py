"""Plots of what was released, and of what it cost.

In scikit-learn's manner: ``from_estimator`` and its siblings compute and draw, `plot`
draws again. Only released values are shown. matplotlib is imported when something is
drawn, and may be missing until then.
"""

from .bayes_net import BayesNetDisplay
from .budget_curve import BudgetCurveDisplay
from .histogram import HistogramDisplay
from .ledger import LedgerDisplay
from .margins import MarginsDisplay
from .privacy_profile import PrivacyProfileDisplay

__all__ = [
    "BayesNetDisplay",
    "BudgetCurveDisplay",
    "HistogramDisplay",
    "LedgerDisplay",
    "MarginsDisplay",
    "PrivacyProfileDisplay",
]
