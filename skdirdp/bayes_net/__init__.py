"""Discrete Bayesian networks: private parameters, and private networks that nobody knew."""

from .estimator import PrivateBayesNetMLE
from .synthesis import PrivateBayesNet

__all__ = ["PrivateBayesNet", "PrivateBayesNetMLE"]
