"""Checks of parameters, with errors that name the parameter, its limit and its value.

Values that may contain data, or one value per record, are described and not printed.
"""

import math
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np

from ._messages import describe, errors_without_data, warn
from .schema import as_labels, label_codes, plain_value, to_common_dtype

#: Far beyond any count or parameter in use, and far from overflow.
LARGEST = 1e100
# Larger tables do not fit into memory, and products of larger sizes overflow.
_LARGEST_SIZE = 2**31 - 1
#: Most cells of all categorical tables together. A cell takes about 100 bytes during a release.
MOST_CELLS = 10_000_000
#: Most cells of sums by class. Texts with many words need more cells.
MOST_SUMS = 100_000_000
# The bits of an infinite double.
_INFINITY = np.float64(np.inf).view(np.uint64)
# Minimum smoothing of scikit-learn, unless `force_alpha` is set.
_MIN_ALPHA = 1e-10


def check_real(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
    allow_infinite: bool = False,
) -> float:
    """Return a number as a float; raise an error unless it is within the limits."""
    if type(value) is not float:
        value = _to_float(name, value)
    # NaN fails every comparison, and the default limits exclude infinite values.
    if above < value >= at_least and (
        (value < below and value <= at_most) or (allow_infinite and value == math.inf)
    ):
        return value
    limits = {"greater than": above, "at least": at_least, "less than": below, "at most": at_most}
    wanted = [f"{relation} {limit:g}" for relation, limit in limits.items() if math.isfinite(limit)]
    wanted += [] if allow_infinite else ["finite"]
    raise ValueError(f"{name} must be {' and '.join(wanted) or 'a number'}; got {value}")


def _to_float(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r} of type {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be at most {LARGEST:g}; got a larger integer") from None


def store_reals(instance: Any, **limits: Mapping[str, Any]) -> None:
    """Check attributes of a frozen dataclass by `check_real`, and store them as floats."""
    for name, limit in limits.items():
        object.__setattr__(instance, name, check_real(name, getattr(instance, name), **limit))


#: Limits for `store_reals`.
POSITIVE = {"above": 0.0}
NON_NEGATIVE = {"at_least": 0.0}
OPEN_UNIT_INTERVAL = {"above": 0.0, "below": 1.0}


def check_integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return an integer of any type as an int; raise an error unless it is within the limits."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r} of type {type(value).__name__}")
    value = int(value)
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}; got {value}")
    if at_most is not None and value > at_most:
        raise ValueError(f"{name} must be at most {at_most}; got {value}")
    return value


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a string; raise an error unless it is one of the choices."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {value!r} of type {type(value).__name__}")
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {value!r}")
    return value


def check_array(
    name: str,
    values: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> np.ndarray:
    """Return values as an array of floats; infinity is allowed within the limits, NaN is not."""
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers; got {values!r}") from None
    for is_valid, relation, limit in (
        (above is None or values > above, "greater than", above),
        (at_least is None or values >= at_least, "at least", at_least),
        (at_most is None or values <= at_most, "at most", at_most),
    ):
        if not np.all(is_valid):
            wrong = values[~is_valid].flat[0]
            raise ValueError(f"{name} must be {relation} {limit:g}; got {wrong}")
    return values


def check_real_array(name: str, values: Any) -> np.ndarray:
    """Return values as an array of floats of any shape; errors do not print them."""
    array = None
    with suppress(Exception):
        given = np.asarray(values)
        # A cast would drop imaginary parts with only a warning.
        if given.dtype.kind != "c":
            array = given.astype(float)
    if array is None:
        raise TypeError(f"{name} must be an array of numbers; got {describe(values)}")
    return array


def check_counts(counts: Any) -> np.ndarray:
    """Return a table of counts as floats, all finite and at least 0."""
    counts = check_real_array("counts", counts)
    if counts.ndim == 0 or counts.size == 0:
        raise ValueError(f"counts must contain at least one cell; got shape {counts.shape}")
    if not np.isfinite(counts.sum()) and not np.all(np.isfinite(counts)):
        raise ValueError("counts must be finite; got a nan or an infinite entry")
    if counts.min() < 0:
        raise ValueError("counts must be at least 0; got a negative entry")
    if counts.max() > LARGEST:
        raise ValueError(f"counts must be at most {LARGEST:g}; got a larger entry")
    return counts


def largest_count(values: np.ndarray) -> float:
    """Return the largest value; NaN unless all are finite and at least 0; 0 if there are none."""
    if values.dtype == np.float64:
        # The bits of positive doubles, as integers, have the order of the doubles. The bits of
        # negative doubles, infinity and NaN are larger. So one pass finds the largest value and
        # detects the others.
        largest = values.view(np.uint64).max(initial=0)
        if largest < _INFINITY:
            return float(largest.view(np.float64))
    # Two passes, for other types and for negative zeros.
    least, largest = values.min(initial=0), values.max(initial=0)
    return float(largest) if least >= 0 and np.isfinite(largest) else math.nan


def by_column(name: str, given: Any, names: Any, n_features: int) -> Any:
    """Return a mapping of columns as a list, None for other columns; other values unchanged."""
    if not isinstance(given, Mapping):
        return given
    columns = list(range(n_features)) if names is None else list(names)
    unknown = [column for column in given if column not in columns]
    if unknown:
        kind = "numbers" if names is None else "names"
        raise ValueError(f"{name} must have {kind} of columns as keys; {unknown[0]!r} is not one")
    return [given.get(column) for column in columns]


def check_sizes(name: str, sizes: Any, n_features: int, *, at_least: int) -> np.ndarray:
    """Return the size of each feature, given one for all or one for each."""
    if np.ndim(sizes) == 0:
        sizes = [sizes] * n_features
    elif len(sizes) != n_features or np.ndim(sizes) != 1:
        raise ValueError(
            f"{name} must be an integer or have one entry per feature, {n_features}; "
            f"got {describe(sizes)}"
        )
    sizes = [check_integer(name, size, at_least=at_least) for size in sizes]
    # Sums of small or unsigned integers could wrap or become floats, so the type is fixed.
    if max(sizes, default=0) > _LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {_LARGEST_SIZE}; got {max(sizes)}")
    return np.array(sizes, dtype=np.int64)


def check_cells(
    names: str, n_cells: int, limit: int = MOST_CELLS, *, is_public: bool = True
) -> None:
    """Raise an error for tables that do not fit into memory; it shows a public size."""
    if n_cells > limit:
        raise ValueError(
            f"{names} must give tables of at most {limit} cells together, to fit into memory; "
            f"got {n_cells if is_public else 'more'}"
        )


def are_hashable(values: Iterable) -> bool:
    """Return whether all values can be hashed; a tuple that contains a list cannot."""
    try:
        return all(hash(value) is not None for value in values)
    except TypeError:
        return False


def check_classes(classes: Any, class_prior: Any = None) -> np.ndarray:
    """Return the sorted class labels; `class_prior` has the same order."""
    if isinstance(classes, str | bytes | Set | Mapping) or not hasattr(classes, "__len__"):
        raise TypeError(
            f"classes must be a sequence of labels, such as a list; got {describe(classes)}"
        )
    with errors_without_data(classes=classes):
        labels = np.asarray(classes)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(f"classes must be one label or more; got {describe(classes)}")
        if labels.dtype.kind not in "biufUOT":
            raise TypeError(f"classes must be numbers or strings; got dtype {labels.dtype.name}")
        is_object = labels.dtype.kind == "O"  # only these can contain None
        if np.any(labels != labels) or (
            is_object and any(plain_value(label) is np.nan for label in labels)
        ):
            raise ValueError("classes must contain no missing values; some are NaN or None")
        labels = to_common_dtype("classes", as_labels(classes))
        distinct = np.unique(labels)
    if class_prior is not None and not np.array_equal(distinct, labels):
        raise ValueError(
            "classes must be sorted and distinct if class_prior is given, because class_prior "
            "follows the sorted order, as in scikit-learn; got another order"
        )
    return distinct


def check_tables(tables: Any, names: Iterable) -> Mapping:
    """Return a mapping of tables; raise an error unless it has exactly these names."""
    names = list(names)
    if not isinstance(tables, Mapping):
        raise TypeError(f"tables must be a dict with {names}; got {type(tables).__name__}")
    wrong = [name for name in (*names, *tables) if (name in tables) != (name in names)]
    if wrong:
        problem = "lacks" if wrong[0] in names else "has"
        raise ValueError(f"tables must have exactly the keys {names}; it {problem} {wrong[0]!r}")
    return tables


def check_class_prior(class_prior: Any, n_classes: int) -> np.ndarray:
    """Return the prior as an array with one probability per class."""
    prior = check_real_array("class_prior", class_prior)
    if prior.shape != (n_classes,):
        raise ValueError(
            "Number of priors must match number of classes: class_prior must have one entry per "
            f"class, {n_classes}; got {describe(class_prior)}"
        )
    if not np.all(np.isfinite(prior) & (prior >= 0)):
        raise ValueError("class_prior must be finite and at least 0; some entries are not")
    return prior


def check_alpha(alpha: Any, n_features: int, force: bool) -> Any:
    """Return the smoothing, one for all features or one for each, as scikit-learn does."""
    if isinstance(alpha, Real):
        alpha = float(alpha)
    else:
        alpha = np.asarray(alpha, dtype=float)
        if alpha.shape != (n_features,):
            raise ValueError(
                "When alpha is an array, it should contains `n_features`. "
                f"Got {len(alpha)} elements instead of {n_features}."
            )
        if not np.all(alpha >= 0):
            raise ValueError("All values in alpha must be greater than 0.")
    if np.min(alpha) < _MIN_ALPHA and not force:
        warn(
            "alpha too small will result in numeric errors, setting alpha = "
            f"{_MIN_ALPHA:.1e}. Use `force_alpha=True` to keep alpha unchanged.",
            UserWarning,
        )
        alpha = np.maximum(alpha, _MIN_ALPHA)
    return alpha


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the position of each label among the sorted classes."""
    # The result is a copy: a concurrent writer to y must not give a record two classes.
    if y.dtype.kind in "iu" and classes.dtype.kind in "iu":
        codes = y.astype(np.intp)
        n_classes, least, largest = len(classes), codes.min(initial=0), codes.max(initial=0)
        if 0 <= least <= largest < n_classes and np.array_equal(classes, np.arange(n_classes)):
            return codes  # labels equal their positions
    with errors_without_data(y=y):
        codes = label_codes(y, classes)
    if codes.min(initial=0) >= 0:
        return codes
    hint = ""
    kind: str = y.dtype.kind
    if kind == "O":  # an array of strings would need memory for the longest string in each row
        kinds = set(map(type, y.flat))
        known = {int: "i", float: "f", bool: "b", str: "U"}
        kind = known.get(kinds.pop(), "O") if len(kinds) == 1 else "O"
    if kind in "iu" and classes.dtype.kind not in "biuf":
        hint = (
            " They are integers, and classes are not: VotingClassifier and StackingClassifier "
            "replace labels by 0, 1, ..., so estimators inside them need "
            f"classes=list(range({len(classes)}))."
        )
    elif kind != "O" and (kind in "biuf") != (classes.dtype.kind in "biuf"):
        hint = " They are of another type."
    raise ValueError(
        f"y must contain only labels that are in classes; some are not.{hint} Declare them, or "
        "map them to one of the classes before fit"
    )
