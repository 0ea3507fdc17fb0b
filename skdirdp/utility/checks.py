"""Checks of arguments that several bounds have in common."""

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_counts, check_real


def checked_row(counts: ArrayLike) -> np.ndarray:
    counts = check_counts(counts)
    if counts.ndim != 1 or counts.sum() == 0:
        raise ValueError(
            f"counts must be one row with at least one record; got shape {counts.shape}"
        )
    return counts


def checked_distribution(p: ArrayLike) -> np.ndarray:
    p = np.asarray(p, dtype=float)
    if p.ndim != 1 or not np.all(p >= 0) or abs(p.sum() - 1) > 1e-9:
        raise ValueError("p must be a vector of probabilities that sum to 1")
    return p


def checked_noise(r: float, alpha: float) -> tuple[float, float]:
    return check_real("r", r, above=0), check_real("alpha", alpha, above=0)


def checked_beta(beta: float) -> float:
    return check_real("beta", beta, above=0, below=1)
