"""Accuracy of releases, and the budgets and sample sizes needed for a given accuracy.

This module has the bounds of "Dirichlet Mechanism for Differentially Private KL Divergence
Minimization" (paper A) and "Differential Privacy of Dirichlet Posterior Sampling" (paper B),
exact moments and divergences, and their inverses: the number of rows, or the noise, for which
a bound reaches a target. Functions of `counts` return results that are as private as these
counts. All other functions need no data.

Throughout, ``Y ~ Dirichlet(r x + alpha)`` for N records in d categories, ``p = x / N``,
and beta is the largest probability that a bound fails.
"""

from .accuracy import (
    accuracy_from_budget,
    bias,
    budget_for_accuracy,
    concentration_for_variance,
    dirichlet_kl,
    dirichlet_renyi,
    expected_kl,
    rows_for_accuracy,
    simplex_variance,
    variance,
)
from .bounds import (
    cdf_bound,
    cdf_rows,
    gaussian_linf_bound,
    gaussian_linf_rho,
    gaussian_linf_rows,
    kl_tail,
    kl_tail_error,
    kl_tail_rows,
    linf_alpha,
    linf_bound,
    linf_rows,
    linf_rows_order,
    posterior_kl_bound,
    posterior_kl_extra,
    posterior_kl_rows,
    tcdp_alpha,
    tcdp_rho,
)

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
