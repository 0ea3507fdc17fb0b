"""Exact samples of gamma, normal, Laplace and discrete distributions on public grids.

Privacy guarantees are proved for real numbers, but the set of doubles that a computation can
return depends on the data. A release is safe if it is an exact sample from a distribution
with the same support for all data. Rounding an ideal release to a public grid is
post-processing. These functions therefore return *the cell of a grid* that contains a gamma,
normal or Laplace variable, with exactly the probability of that cell.

Random real numbers are uniform bits, drawn as needed. Decisions (whether a proposal is
accepted, which cell contains a value) use doubles with a margin far above their error. The few
in a million that are too close use ball arithmetic, with increasing precision and further
bits. Every decision is therefore the same as in exact arithmetic. docs/sampling.md has the
algorithms and the proofs.

The proofs assume that the bits of the generator are fair and independent, that doubles follow
IEEE 754, and that the error of numpy's log, log1p, exp and tan is at most four units in the
last place, which `check_platform` measures. Time and memory are not constant.

Examples
--------
>>> import numpy as np
>>> from skdirdp.mechanisms.sampling import gamma_cells, gamma_shapes, relative_weights
>>> numerators, places = gamma_shapes([[12, 0, 5], [3, 3, 0]], r=0.5, alpha=2.25)
>>> mantissa, exponent = gamma_cells(numerators, places, np.random.default_rng(0))
>>> weights = relative_weights(mantissa, exponent)
>>> probabilities = weights / weights.sum(axis=1, keepdims=True)
>>> probabilities.shape
(2, 3)
"""

from .bits import BitStream, check_platform
from .distributions import (
    bernoulli,
    choose,
    floored_laplace_cells,
    laplace_cells,
    normal_cells,
)
from .gamma import gamma_cells, gamma_cells_of_all
from .grids import (
    MAX_PLACES,
    check_noise,
    gamma_shapes,
    middles,
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
    "middles",
    "noise_grid",
    "normal_cells",
    "places_for",
    "relative_weights",
    "round_down",
    "round_up",
]
