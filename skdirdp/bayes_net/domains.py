"""Public cells of a column, in which its values are counted and from which they come back.

A column of categories has a cell for each state, one of numbers has fine bins between public
bounds. The last cell of every column is for missing values. Which cell a value lies in depends
on that value and on nothing else.
"""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
import pandas as pd

from .._messages import errors_without_data
from .._validation import check_real
from ..records import MISSING, OUTSIDE, column_numbers
from .columns import check_positions, factorise, positions

#: What stands for a missing value among the states of a network.
NO_VALUE = "(missing)"
#: The state of values that were not found often enough to be named.
OTHER = "other"

# Numbers between bounds are counted in so many bins at most, and merged later.
_FINE_BINS = 128
# Below this part of the larger bound, borders that follow the logarithm turn evenly spaced.
_SMALLEST_SCALE = 1 / 4096
# The least positive number, so that 0 and nothing else lies between.
_AFTER_ZERO = float(np.nextafter(0.0, 1.0))


class Domain(Protocol):
    """The cells of a column."""

    @property
    def n_cells(self) -> int:
        """Their number, with that of missing values, the last."""

    @property
    def optional(self) -> list[int]:
        """Cells that need not be there: of missing values, and of other ones than were found."""

    def cells(self, name: Hashable, values: Any, rows: np.ndarray | None = None) -> np.ndarray:
        """The cell of each value in the rows that are counted."""

    def label(self, cells: Sequence[int]) -> Hashable:
        """What some cells together are called, missing values aside."""

    def weights(self, name: Hashable, condition: Any) -> np.ndarray:
        """Which part of each cell meets a condition."""

    def values(
        self, cells: np.ndarray, condition: Any, generator: np.random.Generator
    ) -> pd.api.extensions.ExtensionArray | np.ndarray | pd.Series:
        """A value from each cell, within a condition or None."""


@dataclass(frozen=True)
class Categories:
    """A cell for each state.

    Attributes
    ----------
    states : tuple
    has_other : bool
        Whether the last of them stands for values that are none of the others.
    is_categorical : bool
        Whether values come back as a pandas categorical.
    """

    states: tuple[Hashable, ...]
    has_other: bool = False
    is_categorical: bool = False

    @property
    def n_cells(self) -> int:
        return len(self.states) + 1

    @property
    def optional(self) -> list[int]:
        return [len(self.states) - 1] * self.has_other + [len(self.states)]

    def cells(self, name: Hashable, values: Any, rows: np.ndarray | None = None) -> np.ndarray:
        return self.place(name, *factorise(name, values, rows, self.states))

    def place(self, name: Hashable, codes: np.ndarray, distinct: list) -> np.ndarray:
        """The cells of values that `factorise` has numbered."""
        found = positions(codes, distinct, self.states)
        if self.has_other:
            found[found == OUTSIDE] = len(self.states) - 1
        check_positions(name, found, allow_missing=True)
        found[found == MISSING] = len(self.states)
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        named = [self.states[cell] for cell in cells if cell < len(self.states)]
        if len(named) == 1:
            return named[0]
        return tuple(named) if named else NO_VALUE

    def weights(self, name: Hashable, condition: Any) -> np.ndarray:
        several = isinstance(condition, list | tuple | set | frozenset | np.ndarray)
        wanted = list(condition) if several else [condition]
        cells = positions(*factorise(name, wanted, states=self.states), self.states)
        if (cells == OUTSIDE).any():
            raise ValueError(f"given must name states of {name!r}; some are none")
        weights = np.zeros(self.n_cells)
        weights[cells] = 1.0  # that of a missing value, -1, is the last
        return weights

    def values(self, cells, condition, generator):
        if self.is_categorical:
            codes = np.where(cells < len(self.states), cells, -1)
            return pd.Categorical.from_codes(codes, categories=list(self.states))
        labels = np.empty(self.n_cells, dtype=object)  # the last is None, for a missing value
        labels[:-1] = self.states
        with suppress(UnicodeEncodeError):  # pandas 3 refuses lone surrogates in texts
            if (cells < len(self.states)).all():
                return pd.Index(self.states, tupleize_cols=False).take(cells).array
            return pd.Series(labels[cells]).array
        return pd.Series(labels[cells], dtype=object)


@dataclass(frozen=True)
class Numbers:
    """Fine bins between bounds; values beyond the bounds count in the first or the last.

    Attributes
    ----------
    edges : tuple of float
        One more than there are bins.
    whole : bool
        Whether values are whole numbers; edges then lie between them.
    """

    edges: tuple[float, ...]
    whole: bool

    @classmethod
    def between(cls, name: Hashable, bounds: Any) -> "Numbers":
        """Bins between bounds: of whole numbers where both bounds are integers.

        Half of the borders are evenly spaced, and half follow the logarithm of the distance
        from 0, as many quantities do. 0 is a bin by itself: many records may share it.
        """
        low, high, whole = _check_bounds(name, bounds)
        if whole and high - low < _FINE_BINS:
            return cls(tuple(np.arange(low, high + 2) - 0.5), True)
        unit = max(abs(low), abs(high)) * _SMALLEST_SCALE
        even = np.linspace(low, high, _FINE_BINS // 2 + 1)
        start, stop = np.arcsinh(low / unit), np.arcsinh(high / unit)
        curved = unit * np.sinh(np.linspace(start, stop, _FINE_BINS // 2 + 1))
        inner = np.concatenate([even[1:-1], curved[1:-1]])
        if whole:
            inner = np.concatenate([np.floor(inner) + 0.5, [-0.5, 0.5]])
            low, high = low - 0.5, high + 0.5
        else:
            inner = np.concatenate([inner, [0.0, _AFTER_ZERO]])
        inner = inner[(inner > low) & (inner < high)]
        return cls((low, *np.unique(inner).tolist(), high), whole)

    @cached_property
    def _edges(self) -> np.ndarray:
        return np.array(self.edges)

    @property
    def n_cells(self) -> int:
        return len(self.edges)

    @property
    def optional(self) -> list[int]:
        return [len(self.edges) - 1]

    def cells(self, name: Hashable, values: Any, rows: np.ndarray | None = None) -> np.ndarray:
        with errors_without_data(**{f"column {name!r} of X": values}):
            numbers = column_numbers(values, rows, f"cells of column {name!r}")
        found = np.searchsorted(self._edges[1:-1], numbers, side="right")
        found[np.isnan(numbers)] = self.n_cells - 1
        return found

    def label(self, cells: Sequence[int]) -> Hashable:
        bins = [cell for cell in cells if cell < self.n_cells - 1]
        if not bins:
            return NO_VALUE
        low, high = self.edges[min(bins)], self.edges[max(bins) + 1]
        if not self.whole:
            return (
                low if high == _AFTER_ZERO and low == 0 else pd.Interval(low, high, closed="left")
            )
        low, high = round(low + 0.5), round(high - 0.5)
        return low if low == high else pd.Interval(low, high, closed="both")

    def weights(self, name: Hashable, condition: Any) -> np.ndarray:
        weights = np.zeros(self.n_cells)
        if condition is None or condition is pd.NA or condition != condition:
            weights[-1] = 1.0
            return weights
        low, high = _check_condition(name, condition)
        if low > self.edges[-1] or high < self.edges[0]:
            raise ValueError(f"given must be within the bounds of {name!r}; it is beyond them")
        if low == high:
            weights[np.searchsorted(self._edges[1:-1], low, side="right")] = 1.0
            return weights
        left, right = self._edges[:-1], self._edges[1:]
        if self.whole:
            low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
        inside = np.minimum(right, high) - np.maximum(left, low)
        weights[:-1] = np.clip(inside / (right - left), 0.0, 1.0)
        return weights

    def values(self, cells, condition, generator):
        missing = cells == self.n_cells - 1
        cells = np.where(missing, 0, cells)
        left, right = self._edges[cells], self._edges[cells + 1]
        if isinstance(condition, Real | tuple):
            low, high = _check_condition("", condition)
            if self.whole and low < high:
                low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
            left, right = np.maximum(left, low), np.minimum(right, high)
        uniform = generator.random(len(cells))
        if not self.whole:
            drawn = np.where(right == _AFTER_ZERO, 0.0, left + uniform * (right - left))
            return np.where(missing, np.nan, drawn)
        # Halves are borders: the first and the last whole number lie between them.
        first, last = np.ceil(left), np.floor(right)
        drawn = (first + np.floor(uniform * (last - first + 1))).astype(np.int64)
        if not missing.any():
            return drawn
        values = pd.array(drawn, dtype="Int64")
        values[missing] = pd.NA
        return values


def _check_bounds(name: Hashable, bounds: Any) -> tuple[float, float, bool]:
    wanted = f"bounds must be a pair (low, high) for each column; for {name!r} it is none"
    if isinstance(bounds, str | bytes) or not isinstance(bounds, Iterable):
        raise ValueError(wanted)
    pair = list(bounds)
    if len(pair) != 2:
        raise ValueError(wanted)
    low, high = (check_real(f"bounds of {name!r}", bound) for bound in pair)
    if not low < high:
        raise ValueError(f"bounds must have low < high; for {name!r} got {low:g} and {high:g}")
    return low, high, all(isinstance(bound, Integral) for bound in pair)


def _check_condition(name: Hashable, condition: Any) -> tuple[float, float]:
    """A range of numbers: a pair, or one number twice."""
    pair = condition if isinstance(condition, tuple) else (condition, condition)
    if len(pair) != 2:
        raise ValueError(f"given must be a number or a pair (low, high) for {name!r}")
    low, high = (check_real(f"given for {name!r}", bound) for bound in pair)
    if low > high:
        raise ValueError(f"given must have low <= high; for {name!r} got {low:g} and {high:g}")
    return low, high
