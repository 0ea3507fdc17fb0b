"""What a posterior is given: its public domain, and the records in it.

Labels are told apart by `==` and `hash`, as keys of a dict are. No message shows one.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from numbers import Complex, Real
from typing import Any

import numpy as np
from scipy import sparse

from .._persons import Selection, Unit
from ..records import as_labels, cells_of, plain_values

# Beyond this a record would be lost in the rounding of the parameter it adds to.
_LARGEST_PRIOR = 1e12


def check_prior(prior: Any) -> np.ndarray:
    """The prior as a float, of no axis, or as a vector of floats."""
    try:
        values = np.asarray(prior)
        if values.dtype.kind not in "iufO":
            raise TypeError
        values = values.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"prior must be a number or a vector of numbers; got {prior!r}") from None
    if values.ndim > 1 or values.size < 1 + values.ndim:
        raise ValueError(
            f"prior must be a number, or a vector of at least 2; got shape {values.shape}"
        )
    if not np.all((values > 0) & (values <= _LARGEST_PRIOR)):
        raise ValueError(
            f"prior must be greater than 0 and at most {_LARGEST_PRIOR:g}; got {prior!r}"
        )
    return values


def check_labels(categories: Any) -> list[Hashable]:
    """The labels that may occur, in their order."""
    if isinstance(categories, (Mapping, Set)):
        # The order is that of the released parameters, and a set has none.
        raise TypeError(
            f"categories must be a sequence; got one of type {type(categories).__name__}"
        )
    if getattr(categories, "ndim", 1) != 1:
        raise ValueError(f"categories must be a vector of labels; got shape {np.shape(categories)}")
    labels = plain_values(cells_of(categories))
    distinct = _tally("categories", labels)
    if len(distinct) != len(labels) or len(labels) < 2:
        raise ValueError("categories must be at least 2 distinct labels")
    return labels


def common_size(**sizes: int | None) -> int | None:
    """The number of categories that all parameters agree on, or None if none tells."""
    given = {name: size for name, size in sizes.items() if size is not None}
    if len(set(given.values())) > 1:
        found = ", ".join(f"{name}: {size}" for name, size in given.items())
        raise ValueError(f"the number of categories must be the same everywhere; got {found}")
    return next(iter(given.values()), None)


def count_labels(x: Any, select: Callable[[int], Selection]) -> tuple[Counter[Hashable], Unit]:
    """How many records have each label, of those that are selected, and whose they may be."""
    is_array = hasattr(x, "__len__") or hasattr(x, "__array__")
    if not is_array or sparse.issparse(x) or isinstance(x, (str, bytes, Mapping, Set)):
        raise TypeError(
            "x must be a dense array or a list, with a label per record; got one of type "
            f"{type(x).__name__}"
        )
    wanted = "x must have shape (n_samples,) or (n_samples, 1)"
    # As objects: an array of texts takes room for the longest of them, times all.
    shape = x.shape if hasattr(x, "shape") else np.array(x, dtype=object).shape
    if len(shape) == 1 and isinstance(x, (list, tuple)):
        lengths = {len(row) for row in x if isinstance(row, (list, np.ndarray)) and np.ndim(row)}
        if lengths - {1}:
            raise ValueError(f"{wanted}; got rows of different lengths")
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise ValueError(f"{wanted}; got {shape}")
    labels = as_labels(x).ravel().tolist()
    if not labels:
        raise ValueError("x must hold at least 1 record; got 0")
    selection = select(len(labels))
    if selection.rows is not None:
        labels = [labels[row] for row in selection.rows]
    return _tally("x", labels), selection.unit


def labels_that_occur(tally: Counter[Hashable]) -> list[Hashable]:
    """The domain where none is given: what occurs, in order."""
    try:
        labels = sorted(tally)  # type: ignore[type-var]
    except TypeError:
        raise TypeError("x must hold labels of one kind, or `categories` be given") from None
    if len(labels) < 2:
        raise ValueError("categories must be given where x holds a single label")
    return labels


def counts_in(tally: Counter[Hashable], categories: list, wanted: str) -> np.ndarray:
    """The number of records in each category."""
    position = {category: i for i, category in enumerate(categories)}
    if not tally.keys() <= position.keys():
        raise ValueError(f"x must hold {wanted}; some records are outside that domain")
    counts = np.zeros(len(categories), dtype=np.int64)
    for label, count in tally.items():
        counts[position[label]] = count
    return counts


def _tally(name: str, labels: Iterable) -> Counter[Hashable]:
    """Labels with their numbers, if each can be told apart from the others."""
    try:
        tally = Counter(labels)
    except TypeError:
        raise TypeError(
            f"{name} must hold labels that can be hashed, such as numbers and strings"
        ) from None
    if any(_is_missing(label) for label in tally):
        raise ValueError(f"{name} must hold no missing values; make 'missing' a category")
    if any(isinstance(label, Complex) and not isinstance(label, Real) for label in tally):
        raise TypeError(f"{name} must hold no complex numbers")
    return tally


def _is_missing(label: Any) -> bool:
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas' NA says neither yes nor no
        return True
