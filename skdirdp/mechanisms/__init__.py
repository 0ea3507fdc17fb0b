"""Mechanisms that publish tables of counts as probabilities, with their privacy curves."""

from .additive import GaussianMechanism, LaplaceMechanism
from .base import JointMechanism, Mechanism
from .calibration import calibrate
from .dirichlet import DirichletMechanism
from .distributed import DistributedDirichletMechanism
from .simplex import SimplexMechanism
from .tables import CountTable

__all__ = [
    "CountTable",
    "DirichletMechanism",
    "DistributedDirichletMechanism",
    "GaussianMechanism",
    "JointMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "SimplexMechanism",
    "calibrate",
]
