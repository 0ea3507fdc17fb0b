"""The report of what the fit of a whole pipeline guarantees."""

import math
from dataclasses import dataclass

from .._messages import format_exact
from ..base import PrivacyReport


@dataclass(frozen=True)
class PipelineReport(PrivacyReport):
    """What the fit of a pipeline guarantees, and by what means.

    A `PrivacyReport` of all steps together, with one of each private step.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered, unit, n_records
        As for `PrivacyReport`, of all steps together. `not_covered` names parameters as
        the pipeline does, ``bins__bounds``, and steps that learn from the data without noise.
    steps : tuple of (str, PrivacyReport), default=()
        What each private estimator releases, by the name of its step: a step that holds
        several has several. Their epsilons are those of each alone, and add up to more
        than that of the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer
    >>> from skdirdp import make_private_pipeline
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> pipe = make_private_pipeline(
    ...     DirichletHistogramTransformer(4, encode="ordinal", bounds=(-3, 3)),
    ...     DirichletCategoricalNB(n_categories=4, classes=[False, True]),
    ... ).fit(X, X[:, 0] > 0)
    >>> [(name, report.releases) for name, report in pipe.privacy_.steps]
    [('dirichlethistogramtransformer', 2), ('dirichletcategoricalnb', 3)]
    """

    steps: tuple[tuple[str, PrivacyReport], ...] = ()

    def _steps(self) -> tuple[tuple[str, PrivacyReport], ...]:
        return self.steps

    def _means(self) -> str:
        """All means together, and then a clause for each private step."""
        told = super()._means()
        for name, report in self.steps:
            epsilon = _rounded_up(report.epsilon)
            terms = f"({epsilon}, {format_exact(report.delta)})" if report.delta is not None else ""
            if report.order is not None:
                terms = f"({format_exact(report.order)}, {epsilon})"
            told += f"; {name!r} alone {terms}: {report._means()}"
        return told


def _rounded_up(epsilon: float) -> str:
    """In four decimals, and not less than it is: a reader may repeat it as a claim."""
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}"
