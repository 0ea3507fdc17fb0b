"""Checks of parameters, with messages that name the parameter, its limit and its value."""

from numbers import Integral, Real
from typing import Any

import numpy as np

#: Far beyond any count or parameter in use, and far from overflow.
LARGEST = 1e100


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
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r} of type {type(value).__name__}")
    value = float(value)
    limits = []
    if above is not None:
        limits.append((value > above, f"greater than {above:g}"))
    if at_least is not None:
        limits.append((value >= at_least, f"at least {at_least:g}"))
    if below is not None:
        limits.append((value < below, f"less than {below:g}"))
    if at_most is not None:
        within = value <= at_most or (allow_infinite and value == np.inf)
        limits.append((within, f"at most {at_most:g}"))
    if not allow_infinite:
        limits.append((np.isfinite(value), "finite"))
    # A nan fails every comparison, and so is refused even where infinity is allowed.
    if np.isnan(value) or not all(holds for holds, _ in limits):
        wanted = " and ".join(text for _, text in limits) or "a number"
        raise ValueError(f"{name} must be {wanted}; got {value}")
    return value


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


def check_counts(counts: Any) -> np.ndarray:
    """A table of counts as floats; what is wrong is said without printing the counts."""
    try:
        counts = np.asarray(counts, dtype=float)
    except (TypeError, ValueError):
        raise TypeError("counts must be an array of numbers") from None
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
