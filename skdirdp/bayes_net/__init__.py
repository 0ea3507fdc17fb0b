"""Private parameters of discrete Bayesian networks."""

from .estimator import PrivateBayesNetMLE

__all__ = ["PrivateBayesNetMLE"]
