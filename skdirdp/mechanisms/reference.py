"""Reference distribution for unknown counts, by which calibrations are compared.

A row of a table with d categories is imagined as ``n p`` with p drawn from
Dirichlet(1/2) and ``n = N / sqrt(rows)``. Everything needed of p is an expectation
over one entry: sums of f(p_i) follow from its marginal Beta(1/2, (d-1)/2), and sums
of p_i f(p_i) from the size-biased one, Beta(3/2, (d-1)/2).
"""

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from .table import CountTable

_NODES = 96


def row_total(table: CountTable) -> float:
    """The count that a typical row of the table is imagined to have."""
    return table.n_samples / np.sqrt(table.n_rows)


@lru_cache(maxsize=256)
def entry_quadrature(
    n_categories: int, size_biased: bool, nodes: int = _NODES
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the distribution of one entry of p."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    # Equal-probability coordinates, graded towards 0 where log p is steep.
    v = (1 + x) / 2
    quantiles, weights = v**3, weights / 2 * 3 * v**2
    shape = 1.5 if size_biased else 0.5
    other = (n_categories - 1) / 2
    entries = np.maximum(betaincinv(shape, other, quantiles), np.finfo(float).tiny)
    # The mean is made exact: rows then sum to their total, as they must.
    return entries * (shape / (shape + other) / (weights @ entries)), weights
