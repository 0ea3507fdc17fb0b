"""Names that scikit-learn does not promise to keep, and what differs between its versions.

All of the package imports them from here, so that a new version of scikit-learn is met in
one place.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import _name_estimators
from sklearn.utils import _safe_indexing, validation
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_method_params,
    _num_samples,
    validate_data,
)

from ._messages import errors_without_data
from .records import as_labels, as_numbers

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "_check_feature_names_in",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_name_estimators",
    "_num_samples",
    "_routing_enabled",
    "take_records",
    "validate_records",
]


def validate_records(
    estimator: Any, X: Any, y: Any, *, reset: bool, unchecked_dtypes: Sequence[type], **checks: Any
) -> Any:
    """scikit-learn's `validate_data`, without a look at arrays that leave nothing to find.

    That would be of their dimensions, types and lengths, and for what is not finite in y. It takes
    as long as to count a few hundred records. Errors tell nothing of the data.

    Parameters
    ----------
    estimator, X, y, reset, **checks
        As for `validate_data`.
    unchecked_dtypes : sequence of types
        Those of X that the checks neither change nor look into.

    Returns
    -------
    X, or a tuple of X and y
    """
    is_sound = (
        type(X) is type(y) is np.ndarray
        and (X.ndim, y.ndim) == (2, 1)
        and len(X) == len(y)
        and X.size > 0
        and X.dtype in unchecked_dtypes
        and y.dtype.kind in "biu"
    )
    with errors_without_data(X=X, y=y):
        if is_sound:
            return validate_data(estimator, X, y, reset=reset, skip_check_array=True)
        return validate_data(estimator, as_numbers(X), as_labels(y), reset=reset, **checks)


def take_records(X: Any, positions: np.ndarray) -> Any:
    """The records at some positions, in a container of the same kind.

    scikit-learn 1.6 refuses Arrow tables, and 1.9 makes no table of a record batch.
    """
    if type(X).__module__.partition(".")[0] == "pyarrow":
        return X.take(positions)
    return _safe_indexing(X, positions)


def _check_sample_weight(
    sample_weight: Any, X: Any, *, is_part: bool = False, **options: Any
) -> np.ndarray:
    """Validated sample weights, of which one at least is not 0, unless others have more.

    scikit-learn 1.6 accepts weights that are all 0, and 1.9 does not.
    """
    if hasattr(sample_weight, "to_pylist"):  # PyArrow, whose arrays misread dictionaries
        sample_weight = sample_weight.to_pylist()
    check = validation._check_sample_weight
    if is_part and "allow_all_zero_weights" in signature(check).parameters:
        options["allow_all_zero_weights"] = True
    weight = check(sample_weight, X, **options)
    if not is_part and not np.any(weight):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
