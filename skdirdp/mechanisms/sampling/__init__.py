"""Exact samples: the cell of a public grid that an ideal random number falls into.

Guarantees are proved for real numbers, and doubles have holes whose places depend on the
data. A release is safe if it is an exact sample from a distribution with the same support
for all data, and rounding an ideal release to a public grid is post-processing. So these
functions return *which cell of a grid* a gamma, normal or Laplace variable lies in, with
exactly the probability that the variable has of lying there.

Random reals are uniform bits, as many as it takes. Decisions (accept a proposal or not,
which cell) are taken in doubles with a margin far above what doubles can err by; where the
margin does not decide, a few times in a million, ball arithmetic takes them, at growing
precision and with further bits. Every decision is then the one that exact arithmetic
takes. docs/sampling.md has the algorithms and the proofs.

What the proofs rest on: bits of the generator that are fair and independent, doubles that
follow IEEE 754, and numpy's log, log1p, exp and tan within four units of the last
place, which `check_platform` measures. Time and memory are not constant.

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

from .bits import BitStream, ScriptedStream
from .cells import log_weights, middles, relative_weights
from .discrete import bernoulli, choose
from .dyadic import (
    MAX_PLACES,
    check_noise,
    gamma_shapes,
    noise_grid,
    places_for,
    round_down,
    round_up,
    truncate,
)
from .exponential import exponential_cells, floored_laplace_cells, laplace_cells
from .gamma import gamma_cells
from .margins import check_platform
from .normal import normal_cells

__all__ = [
    "MAX_PLACES",
    "BitStream",
    "ScriptedStream",
    "bernoulli",
    "check_noise",
    "check_platform",
    "choose",
    "exponential_cells",
    "floored_laplace_cells",
    "gamma_cells",
    "gamma_shapes",
    "laplace_cells",
    "log_weights",
    "middles",
    "noise_grid",
    "normal_cells",
    "places_for",
    "relative_weights",
    "round_down",
    "round_up",
    "truncate",
]
