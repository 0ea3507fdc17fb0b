"""Model selection with private scores."""

from .planning import SelectionReport
from .scoring import PrivateScore, PrivateScorer, make_private_scorer, private_score
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
