"""Theorem 1 of paper B for posterior sampling, where every record has weight 1."""

from .._validation import check_real
from ..mechanisms import papers


def tcdp_alpha(rho: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """The prior at which posterior sampling is rho-tCDP: (2) of paper B, inverted.

    Parameters
    ----------
    rho : float
        The budget, of tCDP.
    gamma : float, default=1.0
        The claim is of tCDP up to the order gamma + 1, for counts that a record moves by 1.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import tcdp_alpha, tcdp_rho
    >>> round(tcdp_rho(tcdp_alpha(0.1)), 12)
    0.1
    """
    rho = check_real("rho", rho, above=0)
    return papers.tcdp_alpha(rho, gamma, papers.Sensitivity(squared_sensitivity, 1.0))


def tcdp_rho(alpha: float, *, gamma: float = 1.0, squared_sensitivity: float = 2.0) -> float:
    """(2) of paper B: ``D^2 trigamma(alpha - gamma) / 2``.

    Parameters
    ----------
    alpha : float
        The prior of every cell, above gamma.
    gamma : float, default=1.0
        The claim is of tCDP up to the order gamma + 1, for counts that a record moves by 1.
    squared_sensitivity : float, default=2.0
        D^2, by which one record moves the counts in squared l2 norm.

    Returns
    -------
    float
        Posterior sampling is rho-tCDP.

    Examples
    --------
    >>> from skdirdp.utility import tcdp_rho
    >>> round(tcdp_rho(20.0), 6)
    0.054041
    """
    alpha = check_real("alpha", alpha, above=gamma)
    sensitivity = papers.Sensitivity(squared_sensitivity, 1.0)
    return float(papers.tcdp_rho(1.0, alpha, gamma, sensitivity))
