"""Mechanisms: how a table of counts becomes probabilities, and what that costs."""

from .additive import GaussianMechanism, LaplaceMechanism
from .base import Mechanism
from .calibration import calibrate
from .dirichlet import DirichletMechanism
from .joint import JointMechanism
from .simplex import SimplexMechanism
from .table import CountTable

__all__ = [
    "CountTable",
    "DirichletMechanism",
    "GaussianMechanism",
    "JointMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "SimplexMechanism",
    "calibrate",
]
