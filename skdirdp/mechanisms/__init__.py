"""Mechanisms: how a table of counts becomes probabilities, and what that costs."""

from ._additive import GaussianMechanism, LaplaceMechanism
from ._base import Mechanism
from ._calibration import calibrate
from ._dirichlet import DirichletMechanism

__all__ = [
    "DirichletMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "calibrate",
]
