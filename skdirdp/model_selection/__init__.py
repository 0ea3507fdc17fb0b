"""Choosing by private scores: searches whose winner, and scores that, may be published."""

from .report import SelectionReport
from .scores import PrivateScore, PrivateScorer, make_private_scorer, private_score
from .search import PrivateGridSearchCV, PrivateRandomizedSearchCV

__all__ = [
    "PrivateGridSearchCV",
    "PrivateRandomizedSearchCV",
    "PrivateScore",
    "PrivateScorer",
    "SelectionReport",
    "make_private_scorer",
    "private_score",
]
