"""Names that scikit-learn does not promise to keep, and what differs between its versions.

All of the package imports them from here, so that a new version of scikit-learn is met in
one place.
"""

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import _name_estimators
from sklearn.utils import _safe_indexing, validation
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, _check_method_params, _num_samples

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
    "_safe_indexing",
]


def _check_sample_weight(
    sample_weight: Any, X: Any, *, is_part: bool = False, **options: Any
) -> np.ndarray:
    """Validated sample weights, of which one at least is not 0, unless others have more.

    scikit-learn 1.6 accepts weights that are all 0, and 1.9 does not.
    """
    check = validation._check_sample_weight
    if is_part and "allow_all_zero_weights" in signature(check).parameters:
        options["allow_all_zero_weights"] = True
    weight = check(sample_weight, X, **options)
    if not is_part and not np.any(weight):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
