"""Log-likelihood ratios of the tables that a fit releases, for audits.

The attacker knows both neighbouring data sets, and therefore the exact tables of both, and sees the
noisy counts before post-processing. By the Neyman-Pearson lemma, the likelihood-ratio test is the
most powerful test between the two data sets.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import clone

from .._random import noise_generator
from ..base import Budget, CountingEstimator, Release, ReleaseContext, ReleasePlan
from ..mechanisms import DirichletMechanism, LaplaceMechanism, Mechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.base import Request


class FitReleases(ReleaseContext):
    """Context of a fit whose tables are observed by an audit, without a charge."""

    requests: Sequence[Request] = ()
    drawn: Sequence[np.ndarray] = ()

    def release(self, plan: ReleasePlan) -> list[Release]:
        releases = plan.draw(noise_generator())
        self.requests = plan.requests
        self.drawn = [release.drawn for release in releases if release.mechanism is not None]
        plan.estimator.privacy_ = plan.report(self.budget)
        return releases


def observe_fit(estimator: CountingEstimator, data: tuple[Any, ...]) -> FitReleases:
    """Fit a copy of an estimator, and return its tables and the values drawn for them."""
    model = clone(estimator)
    context = FitReleases(Budget.from_estimator(model))
    if not context.is_private:
        raise ValueError("epsilon must be finite for an audit; got an estimator without noise")
    with context.active():
        model.fit(*data)
    return context


def log_likelihood_ratio(observed: FitReleases, known: Sequence[FitReleases]) -> float:
    """Return the log-likelihood ratio of one fit, given the tables of both data sets."""
    drawn = [each[np.newaxis] for each in observed.drawn]
    return float(_log_ratios(drawn, known)[0])


def batch_scores(
    observed: FitReleases,
    known: Sequence[FitReleases],
    n_runs: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return log-likelihood ratios of many independent releases of the tables of one fit."""
    drawn = []
    for request in observed.requests:
        shape = (n_runs, *request.counts.shape)
        counts = np.broadcast_to(request.counts, shape).reshape(-1, shape[-1])
        many = Mechanism.draw_all([request._replace(counts=counts)], generator)[0]
        drawn.append(many.reshape(shape))
    return _log_ratios(drawn, known)


def _log_ratios(drawn: Sequence[np.ndarray], known: Sequence[FitReleases]) -> np.ndarray:
    first, second = (each.requests for each in known)
    expected = [(one.mechanism, one.counts.shape) for one in first]
    if expected != [(one.mechanism, one.counts.shape) for one in second]:
        raise ValueError(
            "the tables of the two data sets must have the same shapes and be released by the "
            "same mechanisms; choose neighbours with the same public parameters, or pass a score"
        )
    total = np.zeros(())
    for values, one, other in zip(drawn, first, second, strict=True):
        ratio = _log_ratio(values, one, other.counts)
        total = total + ratio.reshape(len(values), -1).sum(axis=1)
    return np.asarray(total)


def table_score(
    mechanism: Mechanism, noisy: np.ndarray, first: np.ndarray, second: np.ndarray
) -> float:
    """Return the log-likelihood ratio of noisy counts, given the counts of both data sets."""
    request = Request(mechanism, first, mechanism.contribution.grid, as_counts=True)
    return float(np.sum(_log_ratio(noisy, request, second)))


def _log_ratio(drawn: np.ndarray, request: Request, other: np.ndarray) -> np.ndarray:
    """Return the log-likelihood ratio of each drawn cell: `request.counts` versus `other`."""
    mechanism: Any = request.mechanism
    counts = request.counts
    if isinstance(mechanism, DirichletMechanism):
        shape, other_shape = (mechanism.r * each + mechanism.alpha for each in (counts, other))
        if request.as_counts:
            gamma = np.maximum(mechanism.r * drawn + mechanism.alpha, np.finfo(float).tiny)
            return (shape - other_shape) * np.log(gamma) - gammaln(shape) + gammaln(other_shape)
        sums = [gammaln(each.sum(axis=-1, keepdims=True)) for each in (shape, other_shape)]
        log_normaliser = (
            gammaln(other_shape) - gammaln(shape) + (sums[0] - sums[1]) / shape.shape[-1]
        )
        return (shape - other_shape) * np.log(drawn) + log_normaliser
    if not request.as_counts and not isinstance(mechanism, SelectionMechanism):
        raise ValueError(
            "postprocess must be True to audit additive noise, unless a score is passed"
        )
    if isinstance(mechanism, LaplaceMechanism):
        return (np.abs(drawn - other) - np.abs(drawn - counts)) / mechanism.scale
    ratio = ((drawn - other) ** 2 - (drawn - counts) ** 2) / (2 * mechanism.sigma**2)
    # Names that are not published reveal less than their noisy counts would.
    return np.where(drawn > 0, ratio, 0.0) if isinstance(mechanism, SelectionMechanism) else ratio
