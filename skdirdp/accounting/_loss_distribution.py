"""Composition by discretised privacy-loss distributions, through dp-accounting.

Used where losses have atoms (Laplace noise, pure DP) and a Laplace transform
cannot be inverted quickly. Each pair is discretised pessimistically from its exact
profile (connect-the-dots: Doroshenko et al. 2022) and composed by FFT.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .pairs import DominatingPair

# Floating-point convolutions err by about 1e-16 of the whole mass at each of some
# hundred thousand cells; this allowance is added to every delta.
FFT_ALLOWANCE = 1e-12
_CELLS_PER_RANGE = 4000
_CELLS_PER_PAIR = 60
_MAX_CELLS = 1 << 20

Bound = Callable[[tuple[tuple[DominatingPair, int], ...], float], float]


@lru_cache(maxsize=64)
def loss_distribution(pairs: tuple[tuple[DominatingPair, int], ...], epsilon_bound: Bound) -> Any:
    """A pessimistic distribution of the total loss, as a `PLDPmf`.

    `epsilon_bound(pairs, delta)` is any valid epsilon; it sets how far the grids reach.
    """
    from dp_accounting.pld import pld_pmf

    reach = epsilon_bound(pairs, FFT_ALLOWANCE)
    releases = sum(count for _, count in pairs)
    ranges = [epsilon_bound(((pair, 1),), FFT_ALLOWANCE / releases) for pair, _ in pairs]
    interval = min(reach / _CELLS_PER_RANGE, min(ranges) / _CELLS_PER_PAIR)
    interval = max(interval, 2 * reach / _MAX_CELLS)

    total = None
    for (pair, count), span in zip(pairs, ranges, strict=True):
        top = int(np.ceil(span / interval))
        grid = np.arange(-2 * top, top + 1)
        deltas = np.exp(pair.log_delta(grid * interval))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas).to_dense_pmf()
        pmf = pmf.self_compose(count, tail_mass_truncation=FFT_ALLOWANCE / 100)
        total = pmf if total is None else total.compose(pmf, FFT_ALLOWANCE / 100)
    return total
