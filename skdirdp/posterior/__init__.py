"""Whole Dirichlet posteriors, and how far apart they are."""

from .estimator import PrivateDirichletPosterior
from .hellinger import (
    global_sensitivity,
    hellinger_distance,
    local_sensitivity,
    smooth_sensitivity,
)
from .report import PosteriorPrivacy

__all__ = [
    "PosteriorPrivacy",
    "PrivateDirichletPosterior",
    "global_sensitivity",
    "hellinger_distance",
    "local_sensitivity",
    "smooth_sensitivity",
]
