"""Discrete Bayesian networks with given or learnt structure."""

from .bayes_net import PrivateBayesNet
from .bayes_net_mle import PrivateBayesNetMLE

__all__ = ["PrivateBayesNet", "PrivateBayesNetMLE"]
