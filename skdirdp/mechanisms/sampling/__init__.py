"""Exact samples of gamma, normal, Laplace and discrete distributions on public grids.

The set of doubles that a computation can return depends on the data. These functions therefore
return the cell of a public grid that contains a variable, with exactly the probability of that
cell. docs/sampling.md has the algorithms, the proofs and their assumptions: fair and independent
bits, IEEE 754, and elementary functions as precise as `check_platform` measures. Time and memory
are not constant.
"""

from .bits import check_platform
from .distributions import bernoulli

__all__ = ["bernoulli", "check_platform"]
