"""Imports from private modules of scikit-learn, and compatibility with its supported versions.

The rest of the package imports these names from here.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import _name_estimators
from sklearn.utils import _safe_indexing, validation
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_method_params,
    _num_samples,
    validate_data,
)

from ._messages import errors_without_data
from .schema import as_labels, as_numbers, list_cells

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "_check_feature_names_in",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_name_estimators",
    "_num_samples",
    "_routing_enabled",
    "check_callbacks",
    "take_records",
    "validate_records",
]


def validate_records(
    estimator: Any, X: Any, y: Any, *, reset: bool, unchecked_dtypes: Sequence[type], **checks: Any
) -> Any:
    """Call scikit-learn's `validate_data`, but skip checks that cannot fail.

    The checks of dimensions, dtypes and lengths, and of finite values in y, take as long as
    counting a few hundred records. They are skipped if X is an array with one of
    `unchecked_dtypes` and y is an array of integers or booleans, because they would neither convert
    nor reject them. Error messages contain no data.
    """
    skip_checks = (
        type(X) is type(y) is np.ndarray
        and (X.ndim, y.ndim) == (2, 1)
        and len(X) == len(y)
        and X.size > 0
        and X.dtype in unchecked_dtypes
        and y.dtype.kind in "biu"
    )
    with errors_without_data(X=X, y=y):
        if skip_checks:
            return validate_data(estimator, X, y, reset=reset, skip_check_array=True)
        return validate_data(estimator, as_numbers(X), as_labels(y), reset=reset, **checks)


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Raise an error if a callback of scikit-learn is not its progress bar.

    Callbacks receive the records and the estimators of all tasks, such as every run of a search.
    """
    for callback in callbacks:
        kind = type(callback)
        if (kind.__module__.partition(".")[0], kind.__name__) != ("sklearn", "ProgressBar"):
            raise TypeError(
                "callbacks must be instances of ProgressBar, because others could store exact "
                f"scores of private records; got an instance of {kind.__name__}"
            )


def take_records(X: Any, positions: np.ndarray) -> Any:
    """Return the records at the given positions, in the same kind of container."""
    # scikit-learn 1.6 rejects Arrow tables, and 1.9 rejects record batches.
    if type(X).__module__.partition(".")[0] == "pyarrow":
        return X.take(positions)
    return _safe_indexing(X, positions)


def _check_sample_weight(
    sample_weight: Any, X: Any, *, is_part: bool = False, **options: Any
) -> np.ndarray:
    """Return validated sample weights. Unless `is_part`, at least one must be positive."""
    # scikit-learn 1.6 accepts weights that are all 0, and 1.9 does not.
    if hasattr(sample_weight, "to_pylist"):  # numpy misreads PyArrow dictionary arrays
        sample_weight = list_cells(sample_weight)
    check = validation._check_sample_weight
    if is_part and "allow_all_zero_weights" in signature(check).parameters:
        options["allow_all_zero_weights"] = True
    weight = check(sample_weight, X, **options)
    if not is_part and not np.any(weight):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
