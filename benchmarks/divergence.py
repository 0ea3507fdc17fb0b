"""How far released tables are from the true ones, in expectation over the noise."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, xlogy

from skdirdp.mechanisms import DirichletMechanism, Mechanism

Draw = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Divergence:
    """An expected KL divergence, and the standard error of its estimate (0 if exact)."""

    value: float
    error: float = 0.0


def expected_kl(
    releases: Iterable[tuple[Mechanism, np.ndarray]],
    draws: int,
    rng: np.random.Generator,
    draw: Callable[[Mechanism], Draw] = lambda mechanism: mechanism.draw,
) -> Divergence:
    """Expected KL divergence of released tables from the true ones, rows weighted by records.

    Weighted so, the divergences of a model's tables add up to that of its joint
    distribution. In closed form for the Dirichlet mechanism, since ``E log Y_i`` is known;
    for others the average over draws.
    """
    values = np.zeros(draws)
    for mechanism, counts in releases:
        weights = counts / counts.sum()
        entropy = float(np.sum(xlogy(weights, _rows(counts))))
        if isinstance(mechanism, DirichletMechanism) and not mechanism.is_exact:
            shapes = mechanism.r * counts + mechanism.alpha
            log_y = digamma(shapes) - digamma(shapes.sum(axis=-1, keepdims=True))
            values += entropy - np.sum(weights * log_y)
        else:
            released = draw(mechanism)(np.tile(counts, (draws, *[1] * counts.ndim)), rng)
            values += entropy - np.sum(weights * np.log(released), axis=(-2, -1))
    return Divergence(float(values.mean()), float(values.std(ddof=1) / np.sqrt(draws)))


def expected_beside(values: np.ndarray, known: np.ndarray, expected: Divergence) -> Divergence:
    """Estimate a mean with the help of a control variate, correlated values of known mean.

    The deviation of the control variate from its mean, times a coefficient, is subtracted. The
    coefficient of each pair is estimated from the other pairs: otherwise the mean would be biased.
    """
    slopes = np.empty(len(values))
    for i in range(len(values)):
        covariance = np.cov(np.delete(values, i), np.delete(known, i))
        slopes[i] = covariance[0, 1] / covariance[1, 1]
    rest = values - slopes * (known - expected.value)
    error = np.hypot(rest.std(ddof=1) / np.sqrt(len(rest)), slopes.mean() * expected.error)
    return Divergence(float(rest.mean()), float(error))


class AsDrawn(NamedTuple):
    """Releases that were taken as drawn, to be compared with post-processed ones.

    Attributes
    ----------
    noise : key; equal keys have the same noise.
    seen : their divergences.
    expected : the expectation of these.
    """

    noise: Any
    seen: np.ndarray
    expected: Divergence

    def expected_of_estimates(self, noise: Any, values: np.ndarray) -> Divergence:
        """Return the expected divergence of post-processed releases."""
        if noise == self.noise:
            return expected_beside(values, self.seen, self.expected)
        return Divergence(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def divergence(tables: Iterable[np.ndarray], probabilities: Iterable[np.ndarray]) -> float:
    """KL divergence of the tables of one released model from the true ones."""
    total = 0.0
    for counts, released in zip(tables, probabilities, strict=True):
        weights = counts / counts.sum()
        total += float(np.sum(xlogy(weights, _rows(counts))) - np.sum(xlogy(weights, released)))
    return total


def _rows(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), np.finfo(float).tiny)


def clipped(mechanism: Mechanism, least: float = 1e-6) -> Draw:
    """The additive mechanism's noise, treated as in the papers: clipped and normalised."""

    def draw(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noisy = np.maximum(mechanism.noisy(counts, rng), least)  # type: ignore[attr-defined]
        return noisy / noisy.sum(axis=-1, keepdims=True)

    return draw
