"""The papers' own guarantees for the Dirichlet mechanism, kept to reproduce their results.

`algorithm1` is Algorithm 1 of "Dirichlet Mechanism for Differentially Private KL
Divergence Minimization" (paper A below), `tcdp` Theorems 1 and 2 of "Differential
Privacy of Dirichlet Posterior Sampling" (paper B). Both are valid and loose.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import polygamma

from ..accounting.guarantees import truncated_epsilon
from ..numerics.conservative import safe_root


class Sensitivity(NamedTuple):
    """Bounds on how neighbouring count vectors differ: squared l2, and l-infinity."""

    squared_l2: float
    linf: float


def trigamma(x):
    return polygamma(1, x)


def algorithm1_divergence(
    order: float, r: float, sensitivity: Sensitivity, floor: float = 0.0
) -> float:
    """The Renyi divergence that Algorithm 1 claims; with a floor, Remark 2."""
    argument = 1 + r * floor + 3 * (order - 1) * r * sensitivity.linf
    return float(0.5 * order * r**2 * sensitivity.squared_l2 * trigamma(argument))


def algorithm1(
    order: float, epsilon: float, sensitivity: Sensitivity, floor: float = 0.0
) -> tuple[float, float]:
    """The r and alpha that Algorithm 1 chooses for (order, epsilon)-RDP of one release."""

    def excess(log_r):
        return np.log(algorithm1_divergence(order, np.exp(log_r), sensitivity, floor) / epsilon)

    r = np.exp(safe_root(excess, 0.0, 4.0, tolerance=1e-14, limits=(-60.0, 60.0)))
    return float(r), float(1 + 4 * (order - 1) * r * sensitivity.linf)


def algorithm1_order(epsilon: float, delta: float) -> int:
    """The order at which paper A's code asks for (epsilon, delta)-DP of one release.

    The least integer at which the conversion's cost ``-log(delta order) / (order - 1)``
    is within epsilon, so that a positive divergence is left.
    """

    def left(order):
        return epsilon + (np.log(delta) + np.log(order)) / (order - 1)

    high = 2
    while left(high) < 0:
        high *= 2
    low = max(high // 2, 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if left(middle) >= 0 else (middle + 1, high)
    return high


def algorithm1_budget(epsilon: float, delta: float) -> tuple[int, float]:
    """The order, and the divergence at it, that paper A's code uses for (epsilon, delta)-DP."""
    order = algorithm1_order(epsilon, delta)
    divergence = epsilon - np.log1p(-1 / order) + (np.log(delta) + np.log(order)) / (order - 1)
    return order, float(divergence)


def tcdp_rho(r: float, alpha: float, gamma, sensitivity: Sensitivity):
    """Theorem 1 of paper B: (rho, gamma / (r linf) + 1)-tCDP, for 0 < gamma < alpha."""
    return 0.5 * r**2 * sensitivity.squared_l2 * trigamma(alpha - gamma)


def tcdp_alpha(rho: float, gamma: float, sensitivity: Sensitivity) -> float:
    """The prior at which Theorem 1 gives this rho at r = 1."""
    target = 2 * rho / sensitivity.squared_l2

    def excess(log_x):
        return np.log(trigamma(np.exp(log_x)) / target)

    # A larger prior is safe.
    log_x = safe_root(excess, 0.0, -4.0, tolerance=1e-14, limits=(-40.0, 60.0))
    return float(np.exp(log_x)) + gamma


def tcdp_epsilon(
    r: float, alpha: float, delta: float, sensitivity: Sensitivity, releases: int = 1
) -> float:
    """Theorem 2 of paper B: the epsilon at delta for the best gamma."""
    return _best_gamma(r, alpha, delta, sensitivity, releases)[0]


def _best_gamma(r, alpha, delta, sensitivity, releases):
    def epsilon(gamma):
        rho = releases * tcdp_rho(r, alpha, gamma, sensitivity)
        return float(truncated_epsilon(rho, gamma / (r * sensitivity.linf) + 1, delta))

    # On a grid first: at the ends epsilon grows without bound.
    grid = alpha / (1 + np.exp(-np.linspace(-12, 12, 97)))
    values = [epsilon(gamma) for gamma in grid]
    best = int(np.argmin(values))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    found = minimize_scalar(epsilon, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return min((float(found.fun), float(found.x)), (values[best], float(grid[best])))


def tcdp_for_renyi(
    order: float, epsilon: float, sensitivity: Sensitivity, floor: float = 0.0
) -> tuple[float, float, float]:
    """The prior alpha that Theorem 1 asks for (order, epsilon)-RDP at r = 1, rho and omega."""
    rho = epsilon / order
    alpha = tcdp_alpha(rho, (order - 1) * sensitivity.linf, sensitivity)
    return max(alpha - floor, 1e-12), rho, order


def tcdp_for_approximate(
    epsilon: float, delta: float, releases: int, sensitivity: Sensitivity, floor: float = 0.0
) -> tuple[float, float, float]:
    """The prior alpha that Theorem 2 asks for (epsilon, delta)-DP at r = 1, rho and omega."""

    def excess(log_alpha):
        return np.log(tcdp_epsilon(1.0, np.exp(log_alpha), delta, sensitivity, releases) / epsilon)

    # A larger prior is safe.
    log_alpha = safe_root(excess, 0.0, -2.0, tolerance=1e-10, limits=(-20.0, 60.0))
    alpha = float(np.exp(log_alpha))
    _, gamma = _best_gamma(1.0, alpha, delta, sensitivity, releases)
    rho = float(tcdp_rho(1.0, alpha, gamma, sensitivity))
    return max(alpha - floor, 1e-12), rho, gamma / sensitivity.linf + 1
