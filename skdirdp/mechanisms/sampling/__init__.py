"""Exact samples of gamma, normal, Laplace and discrete distributions on public grids.

The set of doubles that a computation can return depends on the data. These functions therefore
return the cell of a public grid that contains a variable, with exactly the probability of that
cell. docs/sampling.md has the algorithms, the proofs and their assumptions: fair and independent
bits, IEEE 754, and elementary functions as precise as `check_platform` measures. Time and memory
are not constant.

Examples
--------
>>> import numpy as np
>>> from skdirdp.mechanisms.sampling import gamma_cells, gamma_shapes, relative_weights
>>> numerators, places = gamma_shapes([[12, 0, 5], [3, 3, 0]], r=0.5, alpha=2.25)
>>> mantissa, exponent = gamma_cells(numerators, places, np.random.default_rng(0))
>>> relative_weights(mantissa, exponent).shape
(2, 3)
"""

from .bits import BitStream, check_platform
from .distributions import bernoulli, choose, floored_laplace_cells, laplace_cells, normal_cells
from .gamma import gamma_cells, gamma_cells_of_all
from .grids import (
    MAX_PLACES,
    check_noise,
    gamma_shapes,
    midpoints,
    noise_grid,
    places_for,
    relative_weights,
    round_down,
    round_up,
)

__all__ = [
    "MAX_PLACES",
    "BitStream",
    "bernoulli",
    "check_noise",
    "check_platform",
    "choose",
    "floored_laplace_cells",
    "gamma_cells",
    "gamma_cells_of_all",
    "gamma_shapes",
    "laplace_cells",
    "midpoints",
    "noise_grid",
    "normal_cells",
    "places_for",
    "relative_weights",
    "round_down",
    "round_up",
]
