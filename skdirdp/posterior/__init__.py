"""Private release of Dirichlet posteriors, and Hellinger distances between them."""

from .estimator import PosteriorPrivacy, PrivateDirichletPosterior
from .hellinger import global_sensitivity, hellinger_distance, local_sensitivity, smooth_sensitivity

__all__ = [
    "PosteriorPrivacy",
    "PrivateDirichletPosterior",
    "global_sensitivity",
    "hellinger_distance",
    "local_sensitivity",
    "smooth_sensitivity",
]
