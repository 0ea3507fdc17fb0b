"""Accuracy of releases, and the budgets and sizes that an accuracy takes.

Bounds of "Dirichlet Mechanism for Differentially Private KL Divergence Minimization"
(paper A) and of "Differential Privacy of Dirichlet Posterior Sampling" (paper B), exact
moments and divergences, and the inverses: the rows, or the noise, that reach a target. None
of them sees data beyond the counts that it is given; those of `counts` are as private
as these are.

Throughout, ``Y ~ Dirichlet(r x + alpha)`` for N records in d categories, ``p = x / N``,
and beta is the probability that a bound may fail.
"""

from .budgets import (
    accuracy_from_budget,
    budget_for_accuracy,
    rows_for_accuracy,
)
from .cdf import cdf_bound, cdf_rows
from .exact import (
    bias,
    concentration_for_variance,
    dirichlet_kl,
    dirichlet_renyi,
    expected_kl,
    simplex_variance,
    variance,
)
from .kl import (
    kl_tail,
    kl_tail_error,
    kl_tail_rows,
    posterior_kl_bound,
    posterior_kl_extra,
    posterior_kl_rows,
)
from .linf import (
    gaussian_linf_bound,
    gaussian_linf_rho,
    gaussian_linf_rows,
    linf_alpha,
    linf_bound,
    linf_rows,
    linf_rows_order,
)
from .tcdp import tcdp_alpha, tcdp_rho

__all__ = [
    "accuracy_from_budget",
    "bias",
    "budget_for_accuracy",
    "cdf_bound",
    "cdf_rows",
    "concentration_for_variance",
    "dirichlet_kl",
    "dirichlet_renyi",
    "expected_kl",
    "gaussian_linf_bound",
    "gaussian_linf_rho",
    "gaussian_linf_rows",
    "kl_tail",
    "kl_tail_error",
    "kl_tail_rows",
    "linf_alpha",
    "linf_bound",
    "linf_rows",
    "linf_rows_order",
    "posterior_kl_bound",
    "posterior_kl_extra",
    "posterior_kl_rows",
    "rows_for_accuracy",
    "simplex_variance",
    "tcdp_alpha",
    "tcdp_rho",
    "variance",
]
