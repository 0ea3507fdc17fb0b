"""Checks of parameters, with messages that name the parameter, its limit and its value.

What may hold data, or as many values as there are data, is described and not printed.
"""

import math
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np

from ._messages import describe, errors_without_data, warn
from .records import as_labels, label_codes, plain_value, to_common_dtype

#: Far beyond any count or parameter in use, and far from overflow.
LARGEST = 1e100
# Beyond this no table would fit into memory, and products of sizes would overflow.
_LARGEST_SIZE = 2**31 - 1
#: Cells of all tables of categories together. A cell takes about 100 bytes while it is released.
MOST_CELLS = 10_000_000
#: The same of sums by class, which texts with many words need more of.
MOST_SUMS = 100_000_000
# The bits of an infinite double.
_INFINITY = np.float64(np.inf).view(np.uint64)
# scikit-learn's least smoothing, unless it is forced to less.
_LEAST_ALPHA = 1e-10


def check_real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    allow_infinite: bool = False,
) -> float:
    """The value as a float, or an error that says what it should have been."""
    # A look at the type first: whether another is a number takes longer to find out.
    if type(value) is not float and (
        isinstance(value, (bool, np.bool_)) or not isinstance(value, Real)
    ):
        raise TypeError(f"{name} must be a number; got {value!r} of type {type(value).__name__}")
    try:
        value = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be at most {LARGEST:g}; got a larger integer") from None
    # A nan fails every comparison, and so is refused even where infinity is allowed.
    if (
        (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most or (allow_infinite and value == math.inf))
        and (math.isfinite(value) or (allow_infinite and not math.isnan(value)))
    ):
        return value
    limits = {
        "greater than": above,
        "at least": at_least,
        "less than": below,
        "at most": at_most,
    }
    wanted = [f"{relation} {limit:g}" for relation, limit in limits.items() if limit is not None]
    wanted += [] if allow_infinite else ["finite"]
    raise ValueError(f"{name} must be {' and '.join(wanted) or 'a number'}; got {value}")


def store_real(instance: Any, name: str, **limits: Any) -> None:
    """Check an attribute of a frozen dataclass and keep it as a float."""
    object.__setattr__(instance, name, check_real(name, getattr(instance, name), **limits))


def check_integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r} of type {type(value).__name__}")
    value = int(value)
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}; got {value}")
    if at_most is not None and value > at_most:
        raise ValueError(f"{name} must be at most {at_most}; got {value}")
    return value


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {value!r} of type {type(value).__name__}")
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {value!r}")
    return value


def check_array(
    name: str, values: Any, *, above: float | None = None, at_least: float | None = None
) -> np.ndarray:
    """The values as an array of floats, infinity allowed and nan refused."""
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers; got {values!r}") from None
    if above is not None and not np.all(values > above):
        bad = values[~(values > above)].flat[0]
        raise ValueError(f"{name} must be greater than {above:g}; got {bad}")
    if at_least is not None and not np.all(values >= at_least):
        bad = values[~(values >= at_least)].flat[0]
        raise ValueError(f"{name} must be at least {at_least:g}; got {bad}")
    return values


def check_real_array(name: str, values: Any) -> np.ndarray:
    """The values as an array of floats, of any shape; an error does not print them."""
    array = None
    with suppress(Exception):
        given = np.asarray(values)
        # A cast would drop imaginary parts, with no more than a warning.
        if given.dtype.kind != "c":
            array = given.astype(float)
    if array is None:
        raise TypeError(f"{name} must be an array of numbers; got {describe(values)}")
    return array


def check_counts(counts: Any) -> np.ndarray:
    """A table of counts as floats."""
    counts = check_real_array("counts", counts)
    if counts.ndim == 0 or counts.size == 0:
        raise ValueError(
            f"counts must hold at least one cell; got an array of shape {counts.shape}"
        )
    if not np.isfinite(counts.sum()) and not np.all(np.isfinite(counts)):
        raise ValueError("counts must be finite; got a nan or an infinite entry")
    if counts.min() < 0:
        raise ValueError("counts must be at least 0; got a negative entry")
    if counts.max() > LARGEST:
        raise ValueError(f"counts must be at most {LARGEST:g}; got a larger entry")
    return counts


def largest_count(values: np.ndarray) -> float:
    """The largest of values that are all finite and at least 0, else nan; 0 of none."""
    if values.dtype == np.float64:
        # Read as whole numbers, doubles that are positive keep their order, and those with a
        # sign, infinity and nan are beyond them: one look finds the largest and any of these.
        largest = values.view(np.uint64).max(initial=0)
        if largest < _INFINITY:
            return float(largest.view(np.float64))
    # The same in two looks, for other types, and for a zero that has a sign.
    least, largest = values.min(initial=0), values.max(initial=0)
    return float(largest) if least >= 0 and np.isfinite(largest) else math.nan


def by_column(name: str, given: Any, names: Any, n_features: int) -> Any:
    """A parameter that may be given by column: the values in the order of the columns.

    Columns that are not named get None. Whatever is no mapping is left as it is.
    """
    if not isinstance(given, Mapping):
        return given
    columns = list(range(n_features)) if names is None else list(names)
    unknown = [column for column in given if column not in columns]
    if unknown:
        kind = "numbers" if names is None else "names"
        raise ValueError(f"{name} must be given by {kind} of columns; {unknown[0]!r} is none")
    return [given.get(column) for column in columns]


def check_sizes(name: str, sizes: Any, n_features: int, *, at_least: int) -> np.ndarray:
    """The size that each feature has, from one for all or one for each."""
    if np.ndim(sizes) == 0:
        sizes = [sizes] * n_features
    elif len(sizes) != n_features or np.ndim(sizes) != 1:
        raise ValueError(
            f"{name} must be an integer or have one entry per feature, {n_features}; "
            f"got {describe(sizes)}"
        )
    sizes = [check_integer(name, size, at_least=at_least) for size in sizes]
    # Not the type that was given: the sums of small or unsigned ones wrap or become floats.
    if max(sizes, default=0) > _LARGEST_SIZE:
        raise ValueError(f"{name} must be at most {_LARGEST_SIZE}; got {max(sizes)}")
    return np.array(sizes, dtype=np.int64)


def check_cells(
    names: str, n_cells: int, limit: int = MOST_CELLS, *, is_public: bool = True
) -> None:
    """Refuse tables that would not fit into memory; their size is shown if it is public."""
    if n_cells > limit:
        raise ValueError(
            f"{names} must make tables of at most {limit} cells in all, so that they fit into "
            f"memory; got {n_cells if is_public else 'more'}"
        )


def are_hashable(values: Iterable) -> bool:
    """Whether values can be states, labels or names; a tuple with a list in it cannot."""
    try:
        return all(hash(value) is not None for value in values)
    except TypeError:
        return False


def check_classes(classes: Any, class_prior: Any = None) -> np.ndarray:
    """The labels of a classifier, sorted; the order that its `class_prior` is in."""
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
        is_object = labels.dtype.kind == "O"  # no other holds None
        if np.any(labels != labels) or (
            is_object and any(plain_value(label) is np.nan for label in labels)
        ):
            raise ValueError("classes must hold no missing value; some are nan or None")
        labels = to_common_dtype("classes", as_labels(classes))
        distinct = np.unique(labels)
    if class_prior is not None and not np.array_equal(distinct, labels):
        raise ValueError(
            "classes must be sorted and distinct where class_prior is given, whose entries are in "
            "the sorted order of the classes, as in scikit-learn; got them in another order"
        )
    return distinct


def check_tables(tables: Any, names: Iterable) -> Mapping:
    """Tables by name, all of them and no others."""
    names = list(names)
    if not isinstance(tables, Mapping):
        raise TypeError(f"tables must be a dict with {names}; got {type(tables).__name__}")
    wrong = [name for name in (*names, *tables) if (name in tables) != (name in names)]
    if wrong:
        what = "lacks" if wrong[0] in names else "has"
        raise ValueError(f"tables must be those of {names}; it {what} {wrong[0]!r}")
    return tables


def check_class_prior(class_prior: Any, n_classes: int) -> np.ndarray:
    """A probability for each class."""
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
    """The smoothing of each feature, or of all, as scikit-learn reads it."""
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
    if np.min(alpha) < _LEAST_ALPHA and not force:
        warn(
            "alpha too small will result in numeric errors, setting alpha = "
            f"{_LEAST_ALPHA:.1e}. Use `force_alpha=True` to keep alpha unchanged.",
            UserWarning,
        )
        alpha = np.maximum(alpha, _LEAST_ALPHA)
    return alpha


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The position of each label among the sorted classes.

    They are a copy: another process that writes to y must not give a record two classes.
    """
    if y.dtype.kind in "iu" and classes.dtype.kind in "iu":
        codes = y.astype(np.intp)
        n_classes, least, largest = len(classes), codes.min(initial=0), codes.max(initial=0)
        if 0 <= least <= largest < n_classes and np.array_equal(classes, np.arange(n_classes)):
            return codes  # labels that are their own positions
    with errors_without_data(y=y):
        codes = label_codes(y, classes)
    if codes.min(initial=0) >= 0:
        return codes
    hint = ""
    kind: str = y.dtype.kind
    if kind == "O":  # no array of texts is made: it takes room for the longest, times all
        kinds = set(map(type, y.flat))
        known = {int: "i", float: "f", bool: "b", str: "U"}
        kind = known.get(kinds.pop(), "O") if len(kinds) == 1 else "O"
    if kind in "iu" and classes.dtype.kind not in "biuf":
        hint = (
            " They are integers, and classes are not: VotingClassifier and StackingClassifier "
            "replace labels by 0, 1, ..., so that estimators inside them need "
            f"classes=list(range({len(classes)}))."
        )
    elif kind != "O" and (kind in "biuf") != (classes.dtype.kind in "biuf"):
        hint = " They are of another type."
    raise ValueError(
        f"y must hold only labels that are in classes; some are not.{hint} Declare them, or map "
        "them to one of classes before fit"
    )
