"""Checks of the histogram's public parameters, and of what it is given to bin."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from .._messages import describe
from .._validation import check_sizes


def public_bins(n_bins: Any, n_features: int) -> np.ndarray:
    """The number of bins of each feature; wrong ones are refused in scikit-learn's words."""
    if np.ndim(n_bins) == 0:
        return check_sizes("n_bins", n_bins, n_features, at_least=2)
    if np.ndim(n_bins) != 1 or len(n_bins) != n_features:
        raise ValueError(
            "n_bins must be a scalar or array of shape (n_features,). There are "
            f"{n_features} features; got {describe(n_bins)}"
        )
    wrong = [k for k, size in enumerate(n_bins) if not isinstance(size, Integral) or int(size) < 2]
    if wrong:
        raise ValueError(
            "KBinsDiscretizer received an invalid number of bins at indices "
            f"{', '.join(map(str, wrong))}. Number of bins must be at least 2, and must be an int."
        )
    return check_sizes("n_bins", n_bins, n_features, at_least=2)


def public_sizes(n_categories: Any, n_features: int) -> list[int | None]:
    """The number of categories of each feature, or None where it is numeric."""
    if n_categories is None:
        return [None] * n_features
    if isinstance(n_categories, Integral):
        return check_sizes("n_categories", n_categories, n_features, at_least=1).tolist()
    sizes = list(n_categories)
    if len(sizes) != n_features:
        raise ValueError(
            f"n_categories must be an integer or have one entry per feature, {n_features}; "
            f"got {len(sizes)}"
        )
    return [
        None if size is None else int(check_sizes("n_categories", size, 1, at_least=1)[0])
        for size in sizes
    ]


def public_bounds(bounds: Any, n_features: int, sizes: list[int | None]) -> list[Any]:
    """A pair per feature, or None where it has to be taken from the data."""
    if bounds is None:
        return [None] * n_features
    pairs = list(bounds)
    if len(pairs) == 2 and all(isinstance(end, Real) for end in pairs):
        pairs = [pairs] * n_features
    if len(pairs) != n_features:
        raise ValueError(
            f"bounds must be a pair of numbers or have one pair per feature, {n_features}; "
            f"got {len(pairs)}"
        )
    return [
        None if pair is None or sizes[k] is not None else _checked_pair(pair, k)
        for k, pair in enumerate(pairs)
    ]


def _checked_pair(pair: Any, feature: int) -> tuple[float, float]:
    ends = np.asarray(pair, dtype=float)
    if ends.shape != (2,) or not np.all(np.isfinite(ends)) or not ends[0] < ends[1]:
        raise ValueError(
            "bounds must be pairs of finite numbers, the lower one first; "
            f"got {pair!r} for feature {feature}"
        )
    return float(ends[0]), float(ends[1])


def check_categories(X: np.ndarray, sizes: list[Any], first: int = 0) -> None:
    """Refuse what is no category, in the columns from the first on."""
    for k, size in enumerate(sizes, first):
        if size is None:
            continue
        column = X[:, k - first]
        if column.min() < 0 or column.max() >= size or np.any(column != np.floor(column)):
            raise ValueError(
                f"X must hold whole numbers from 0 to {size - 1} in feature {k}, which has "
                f"n_categories {size}; some are not"
            )


def bins_of_onehot(X: Any, n_bins: np.ndarray) -> np.ndarray:
    """The bin of each feature, from one-hot columns."""
    owner = np.repeat(np.arange(len(n_bins)), n_bins)
    position = np.concatenate([np.arange(n) for n in n_bins]).astype(X.dtype)
    rows = np.arange(owner.size)
    shape = (owner.size, len(n_bins))
    marks = X @ sparse.csr_array((np.ones(owner.size, X.dtype), (rows, owner)), shape)
    marks = marks.toarray() if sparse.issparse(marks) else marks
    if np.any(marks != 1):
        raise ValueError("X must mark one bin per feature and row, as transform does")
    bins = X @ sparse.csr_array((position, (rows, owner)), shape)
    return bins.toarray() if sparse.issparse(bins) else bins
