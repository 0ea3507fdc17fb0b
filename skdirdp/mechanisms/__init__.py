"""Mechanisms: how a table of counts becomes probabilities, and what that costs."""

from ._additive import GaussianMechanism, LaplaceMechanism
from ._base import Mechanism
from ._calibration import calibrate
from ._dirichlet import DirichletMechanism
from ._joint import JointMechanism
from ._simplex import SimplexMechanism

__all__ = [
    "DirichletMechanism",
    "GaussianMechanism",
    "JointMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "SimplexMechanism",
    "calibrate",
]
