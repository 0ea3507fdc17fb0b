"""A bound on the error of a CDF that is read from a histogram, with its inverse."""

from .._validation import check_integer, check_real
from .checks import checked_noise
from .linf import beta_deviation
from .rows import rows_until


def cdf_bound(
    n_samples: float, n_categories: int, alpha: float, beta: float, r: float = 1.0
) -> float:
    """A bound on the error of a histogram's CDF that fails with probability beta at most.

    With ``s = alpha / r``, ``Y (1 + d s / N) - s / N`` has mean p. A sum of its entries
    is a beta variable, stretched, and those are sub-Gaussian, as in (13) of paper B but
    without the bias: for all d - 1 sums at once the error is within
    ``(1 + d s / N) sqrt(log(2 (d - 1) / beta) / (2 (r N + d alpha + 1)))``. Isotonic
    regression, which makes the CDF monotone, does not enlarge it.

    Parameters
    ----------
    n_samples : float
        N, the records counted.
    n_categories : int
        d.
    alpha : float
        The prior of every cell.
    beta : float in (0, 1)
        The probability that the bound may fail.
    r : float, default=1.0
        The weight of a record.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdirdp.utility import cdf_bound
    >>> round(cdf_bound(10_000, 512, alpha=3.15, beta=0.05, r=0.272), 4)
    0.0539
    """
    size = check_integer("n_categories", n_categories, at_least=2)
    r, alpha = checked_noise(r, alpha)
    counts = r * check_real("n_samples", n_samples, above=0)
    total = counts + size * alpha
    return total / counts * beta_deviation(size - 1, total, beta)


def cdf_rows(target: float, n_categories: int, alpha: float, beta: float, r: float = 1.0) -> int:
    """The rows at which `cdf_bound` reaches a target.

    Parameters
    ----------
    target : float
        The largest error.
    n_categories : int
        d.
    alpha : float
        The prior of every cell.
    beta : float in (0, 1)
        The probability that the bound may fail.
    r : float, default=1.0
        The weight of a record.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdirdp.utility import cdf_rows
    >>> cdf_rows(0.05, 512, alpha=3.15, beta=0.05, r=0.272)
    11170
    """
    return rows_until(target, lambda n: cdf_bound(n, n_categories, alpha, beta, r))
