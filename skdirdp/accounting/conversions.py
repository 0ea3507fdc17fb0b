"""Conversions between the epsilon, the delta and the Renyi divergence of a guarantee."""

from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from .pairs import Floats

# Sums are rounded up by this part of their terms.
_ROUNDING = 1e-15


def renyi_epsilon(order: Floats | float, divergence: Floats | float, delta: float) -> Floats:
    """The epsilon at delta that a Renyi divergence of one order implies.

    Canonne, Kamath and Steinke (2020), Proposition 12; Lemma 3 of "Dirichlet
    Mechanism for Differentially Private KL Divergence Minimization".
    """
    order = np.asarray(order, dtype=float)
    cost = np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
    # By more than in `renyi_log_delta`, so that there the epsilon found is within delta.
    return np.maximum(divergence + cost + 4 * _ROUNDING * (divergence + np.abs(cost)), 0.0)


def renyi_log_delta(order: Floats | float, divergence: Floats | float, epsilon: float) -> Floats:
    """The inverse of `renyi_epsilon`: log delta at epsilon."""
    order = np.asarray(order, dtype=float)
    gain = (order - 1) * (divergence - epsilon + _ROUNDING * (divergence + epsilon))
    return gain + (order - 1) * np.log1p(-1 / order) - np.log(order)


def truncated_epsilon(rho: Floats | float, omega: Floats | float, delta: float) -> Floats:
    """The epsilon at delta of (rho, omega)-tCDP."""
    rho, omega = np.asarray(rho, dtype=float), np.asarray(omega, dtype=float)
    cost = np.log(1 / delta)
    untruncated = rho + 2 * np.sqrt(rho * cost)
    with np.errstate(invalid="ignore"):
        truncated = rho * omega + cost / (omega - 1)
        return np.where(cost <= (omega - 1) ** 2 * rho, untruncated, truncated)


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float | None:
    """Sensitivity over deviation of Gaussian noise that is (epsilon, delta)-DP, about.

    To many digits, but on either side: for guesses and not for claims, which take
    `GaussianPair`. None where doubles do not suffice.
    """

    def excess(log_mu: float) -> float:
        mu = np.exp(log_mu)
        above = log_ndtr(mu / 2 - epsilon / mu)
        below = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(above + np.log(-np.expm1(min(below - above, -1e-300))) - np.log(delta))

    least, most = np.log(1e-6), np.log(1e2)
    if not excess(least) < 0 < excess(most):
        return None
    return float(np.exp(brentq(excess, least, most)))


def gaussian_slope(epsilon: float, delta: float, mu: float) -> float:
    """How fast log delta grows with log mu where Gaussian noise is (epsilon, delta)-DP.

    For guesses, as `gaussian_mu`.
    """
    # The derivative of delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) is a density.
    log_density = -((mu / 2 - epsilon / mu) ** 2) / 2 - np.log(2 * np.pi) / 2
    return float(mu * np.exp(log_density - np.log(delta)))
