"""Plots of released models and of the privacy budget.

As in scikit-learn, ``from_estimator`` and the other ``from_...`` methods compute and draw, and
`plot` draws again. Only released values are shown. matplotlib is optional, and is imported when
something is drawn.
"""

from .estimators import BudgetCurveDisplay, EffectsDisplay, HistogramDisplay
from .network import BayesNetDisplay, MarginsDisplay
from .privacy import LedgerDisplay, PrivacyProfileDisplay, TradeOffDisplay

__all__ = [
    "BayesNetDisplay",
    "BudgetCurveDisplay",
    "EffectsDisplay",
    "HistogramDisplay",
    "LedgerDisplay",
    "MarginsDisplay",
    "PrivacyProfileDisplay",
    "TradeOffDisplay",
]
