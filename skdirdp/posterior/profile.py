"""The profile of an exponential mechanism, by enumeration of all neighbours.

The loss of such a mechanism is at most epsilon, but hardly ever so much, and what several
releases cost hangs on how it is distributed. The profile ``delta(epsilon)`` is a maximum
over all pairs of neighbours, in both orders, of a sum over all candidates.
"""

from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from ..accounting import ProfiledDP
from .lattice import PosteriorLattice, n_candidates, posterior_lattice
from .mechanisms import posterior_rates

# Pairs of neighbours times candidates beyond this many are not all followed.
_MAX_WORK = 1 << 20
_BLOCK = 1 << 18
# Where the profile is evaluated, between 0 and the largest loss.
_POINTS = 64
# Probabilities are computed to about 1e-13, and drawn from as computed.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-11
# Beyond these the allowance, or rounding errors near 1, would be all there is to see.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 16.0


@lru_cache(maxsize=256)
def enumerated_profile(
    mechanism: str,
    prior: tuple[float, ...],
    n_samples: int,
    scale: float,
    gamma: float,
    epsilon: float,
    adjacency: str,
) -> ProfiledDP | None:
    """What a release of loss epsilon at most guarantees; None where there is too much to follow."""
    k, size = len(prior), n_candidates(n_samples, len(prior))
    if size * size * k * (k - 1) // 2 > _MAX_WORK:
        return None
    if not _LEAST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        return None
    lattice = posterior_lattice(prior, n_samples)
    rates = posterior_rates(mechanism, lattice, gamma)
    logs = np.stack(
        [
            -scale * rate * lattice.distances(counts)
            for rate, counts in zip(rates, lattice.counts, strict=True)
        ]
    )
    probabilities = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    first, second = _ordered_neighbours(lattice)
    epsilons = np.linspace(0.0, epsilon, _POINTS)
    deltas = np.zeros(_POINTS)
    rows = max(1, _BLOCK // size)
    for start in range(0, len(first), rows):
        p, q = (probabilities[ends[start : start + rows]] for ends in (first, second))
        for point, factor in enumerate(np.exp(epsilons)):
            found = np.maximum(p - factor * q, 0.0).sum(axis=1).max()
            deltas[point] = max(deltas[point], float(found))
    # Never more than randomised response has at 0.
    deltas = np.minimum(deltas * (1 + _RELATIVE) + _ABSOLUTE, np.tanh(epsilon / 2))
    deltas[-1] = 0.0
    return ProfiledDP.from_points(epsilons.tolist(), deltas.tolist(), adjacency)


def _ordered_neighbours(lattice: PosteriorLattice) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of neighbours, in both orders, up to a relabelling that changes nothing."""
    edges = lattice.edges()
    first = np.concatenate([x for x, _ in edges])
    second = np.concatenate([x for _, x in edges])
    if lattice.symmetric:
        # Relabelling brings one end of any pair to counts in falling order.
        falling = np.all(np.diff(lattice.counts, axis=1) <= 0, axis=1)
        kept = falling[first] | falling[second]
        first, second = first[kept], second[kept]
    return np.concatenate([first, second]), np.concatenate([second, first])
