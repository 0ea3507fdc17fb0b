"""Accuracy of releases, and the budgets and sample sizes needed for a given accuracy.

Paper A is "Dirichlet Mechanism for Differentially Private KL Divergence Minimization", paper B
"Differential Privacy of Dirichlet Posterior Sampling". A release of the counts x of N records in
d categories is ``Y ~ Dirichlet(r x + alpha)``, and ``p = x / N``. Functions of `counts` return
results that are as private as these counts; other functions need no data.
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
