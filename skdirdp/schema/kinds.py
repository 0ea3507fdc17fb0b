"""Kinds of columns: public domains, and the code of each cell by its own value.

The code of a cell depends on the cell and on the declared kind alone. A cell that does not fit is
"other" or missing, for that record alone. Numbers and dates outside their bounds are clipped to
them.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from .._messages import errors_without_data
from .columns import (
    MISSING,
    OUTSIDE,
    canonical_text,
    clip_times,
    column_blocks,
    column_numbers,
    column_times,
    distinct_cells,
    factorise,
    finest_resolution,
    join_blocks,
    numbers_among,
    parse_number,
    parse_time,
    short_time,
    times_among,
)
from .values import UNKNOWN, column_dtype, rebuild, sort_values

#: Label of missing values.
MISSING_STATE = "(missing)"
#: Number of bins of a column of numbers or dates, as in DirichletHistogramTransformer.
DEFAULT_BINS = 10
#: Format of the keys of synthetic records.
DEFAULT_FORM = "synthetic-{}"
# Whole numbers up to this are exact as floats.
_MAX_WHOLE = 2**53
#: Units of numpy by resolution of dates.
RESOLUTIONS = {
    "year": "Y",
    "month": "M",
    "day": "D",
    "hour": "h",
    "minute": "m",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "us",
}
# Texts of truth values, in lower case.
_TRUTH = {True: ("true", "t", "yes", "y"), False: ("false", "f", "no", "n")}


@dataclass(frozen=True)
class Kind:
    """Kind of a column. If `missing`, missing values have the last code."""

    missing: bool = field(default=True, kw_only=True)

    #: Name in files and messages.
    title: ClassVar[str]
    #: Whether the values are counted.
    is_counted: ClassVar[bool] = True
    #: Codes of missing cells and of cells that do not fit, while a column is encoded.
    _absent: ClassVar[Any] = (MISSING, OUTSIDE)

    @property
    def n_cells(self) -> int:
        """Number of categories for counting, with that of missing values."""
        return self._n_bins + self.missing

    @property
    def _n_bins(self) -> int:
        """Number of categories without that of missing values."""
        raise NotImplementedError

    def encode(
        self,
        name: Hashable,
        values: Any,
        rows: np.ndarray | None = None,
        *,
        missing_values: frozenset = frozenset(),
        strict: bool = False,
    ) -> np.ndarray:
        """Return the code of each cell, or of the cells in `rows`.

        `missing_values` mean that a value is missing. If `strict`, a cell that does not fit raises
        an error that names the column.
        """
        if rows is None:
            blocks = self.encode_blocks(name, values, missing_values=missing_values, strict=strict)
            return join_blocks(blocks, len(values))
        codes = join_blocks(self._raw_blocks(name, values, missing_values), len(values))[rows]
        return self._checked_codes(name, codes, strict)

    def encode_blocks(
        self, name: Hashable, values: Any, *, missing_values: frozenset, strict: bool
    ) -> Iterator[np.ndarray]:
        """Iterate over the codes of all cells in blocks, with the parameters of `encode`."""
        for codes in self._raw_blocks(name, values, missing_values):
            yield self._checked_codes(name, codes, strict)

    def _raw_blocks(
        self, name: Hashable, values: Any, missing_values: frozenset
    ) -> Iterator[np.ndarray]:
        for block in column_blocks(values):
            with errors_without_data(**{f"column {name!r} of X": values}):
                codes = self._encode_block(block, missing_values)
            yield codes

    def _checked_codes(self, name: Hashable, codes: np.ndarray, strict: bool) -> np.ndarray:
        if strict:
            missing, outside = self._absent
            is_missing = np.isnan(codes) if codes.dtype.kind == "f" else codes == missing
            self._check_fit(name, (codes == outside).any(), is_missing.any())
        return self.finish(codes)

    def finish(self, codes: np.ndarray) -> np.ndarray:
        """Give missing cells, and cells that do not fit, their final codes."""
        if codes.dtype.kind != "f" and codes.min(initial=0) >= 0:
            return codes
        missing, outside = self._absent
        is_missing = np.isnan(codes) if codes.dtype.kind == "f" else codes == missing
        codes[codes == outside] = self._other_code
        codes[is_missing] = self._missing_code
        return codes

    def _check_fit(self, name: Hashable, any_outside: bool, any_missing: bool) -> None:
        """Raise an error for missing values and values that do not fit, without showing them."""
        if any_outside:
            raise ValueError(
                f"X must contain only declared values; column {name!r} has others "
                f"({self.describe()})"
            )
        if any_missing and not self.missing:
            raise ValueError(f"X must contain no missing values; column {name!r} has some")

    def _encode_block(self, values: Any, missing_values: frozenset) -> np.ndarray:
        """Return codes, with `_absent` for cells without one."""
        raise NotImplementedError

    @property
    def _missing_code(self) -> Any:
        """Code of missing values; without one, they have the code of the first value."""
        return self._n_bins if self.missing else 0

    @property
    def _other_code(self) -> Any:
        """Code of cells that do not fit."""
        return self._missing_code

    def bin(self, codes: np.ndarray) -> np.ndarray:
        """Return the category for counting of each code, below `n_cells`."""
        return codes

    def labels(self) -> list[Hashable]:
        """Return the labels of the categories for counting."""
        return [*self._bin_labels(), *[MISSING_STATE] * self.missing]

    def _bin_labels(self) -> list[Hashable]:
        raise NotImplementedError

    def draw_bins(self, cells: np.ndarray, generator: np.random.Generator) -> Any:
        """Return a value from each category for counting, uniform within bins."""
        raise NotImplementedError

    def decode(self, codes: np.ndarray) -> Any:
        """Return values in their declared types as a pandas Series."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the domain in words."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Return the options that differ from the defaults."""
        return {} if self.missing else {"missing": False}


@dataclass(frozen=True)
class Categories(Kind):
    """Declared values; all other values have the label `other`, or are missing if it is None."""

    values: tuple[Hashable, ...]
    other: Hashable | None = None

    title = "categories"

    @classmethod
    def from_values(
        cls, values: Any, *, other: Hashable | None = None, missing: bool = True
    ) -> "Categories":
        """Check declared values, and rebuild them from type and value."""
        if isinstance(values, (set, frozenset)):
            values = sort_values(map(_plain_category, values))
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ValueError(f"values must be a list; got {type(values).__name__}")
        plain = [_plain_category(value) for value in values]
        label = () if other is None else (_plain_category(other),)
        if any(value is np.nan for value in (*plain, *label)):
            raise ValueError("values must not be missing; some are")
        try:
            n_distinct = len(set(plain))
        except TypeError:
            raise TypeError("values must be hashable; some are not") from None
        if n_distinct < len(plain):
            raise ValueError("values must be distinct; some are duplicates")
        if {*label, MISSING_STATE} & set(plain):
            raise ValueError(
                f"values must not contain the label of others, or {MISSING_STATE!r}, which stands "
                "for missing values"
            )
        return cls(tuple(plain), *label, missing=bool(missing))

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Values, and the label of other values."""
        return self.values if self.other is None else (*self.values, self.other)

    @property
    def _n_bins(self) -> int:
        return len(self.states)

    @property
    def _other_code(self) -> int:
        return self._missing_code if self.other is None else len(self.values)

    @property
    def _missing_code(self) -> int:
        return len(self.states) if self.missing else 0

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {value: position for position, value in enumerate(self.states)}

    @cached_property
    def _spelled(self) -> dict[str, int]:
        """Positions of values that are not strings, by the strings that spell them."""
        spelled = {}
        for value, position in self._positions.items():
            if isinstance(value, bool):
                spelled.update(dict.fromkeys(_TRUTH[value], position))
            if not isinstance(value, str):
                spelled[canonical_text(value)] = position
        return spelled

    def find(self, value: Any) -> int:
        """Return the position of a rebuilt value among the states, or `OUTSIDE`.

        A value of the same type comes first. Otherwise, a string matches the number, date or truth
        value that it spells, and a number matches its decimal string.
        """
        position = self._positions.get(value)
        if position is not None:
            return position
        try:
            text = value if isinstance(value, str) else canonical_text(value)
        except Exception:  # Python spells no integers of many digits
            return OUTSIDE
        if text in self._positions:
            return self._positions[text]
        if not self._spelled:
            return OUTSIDE
        midnight = text.replace(" ", "T").removesuffix("T00:00:00")
        for spelled in (text, text.strip().lower(), midnight):
            if spelled in self._spelled:
                return self._spelled[spelled]
        number = parse_number(text)
        return OUTSIDE if number is None else self._positions.get(number, OUTSIDE)

    def _encode_block(self, values: Any, missing_values: frozenset) -> np.ndarray:
        codes, distinct = distinct_cells(values, self.states)
        return self.encode_distinct(codes, distinct, missing_values)

    def encode_distinct(
        self, codes: np.ndarray, distinct: Sequence[Any], missing_values: frozenset = frozenset()
    ) -> np.ndarray:
        """Convert positions among distinct values to codes, `MISSING` or `OUTSIDE`."""
        positions = [OUTSIDE if value is UNKNOWN else self.find(value) for value in distinct]
        if missing_values:
            absent = Categories(tuple(missing_values))
            positions = [
                MISSING if code == OUTSIDE and absent.find(value) >= 0 else code
                for code, value in zip(positions, distinct, strict=True)
            ]
        return np.array([*positions, OUTSIDE, MISSING], dtype=np.intp)[codes]

    def _check_fit(self, name: Hashable, any_outside: bool, any_missing: bool) -> None:
        super()._check_fit(name, any_outside and self.other is None, any_missing)

    def _bin_labels(self) -> list[Hashable]:
        return list(self.states)

    def draw_bins(self, cells: np.ndarray, generator: np.random.Generator) -> Any:
        return self.decode(cells)

    def decode(self, codes: np.ndarray) -> Any:
        if len(self.states) == 0:
            return pd.Series([None] * len(codes), dtype=object)
        is_missing = np.asarray(codes) >= len(self.states)
        labels = np.empty(len(self.states) + 1, dtype=object)
        labels[:-1] = self.states
        values = labels[codes]
        dtype = column_dtype(self.states, bool(is_missing.any()))
        try:
            return pd.Series(values, dtype=dtype)
        except UnicodeEncodeError:  # pandas rejects lone surrogates in strings
            return pd.Series(values, dtype=object)

    def describe(self) -> str:
        shown = ", ".join(map(repr, self.values[:6])) + (", ..." if len(self.values) > 6 else "")
        return f"one of {len(self.values)} values: {shown}" if self.values else "no values"

    def arguments(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return other | super().arguments()


_Some = TypeVar("_Some", bound="_Ordered")


@dataclass(frozen=True)
class _Ordered(Kind):
    """Values between two bounds, which are binned for counting."""

    bins: int | tuple[Any, ...] | None = field(default=None, kw_only=True)

    @cached_property
    def inner_edges(self) -> np.ndarray:
        """Edges between bins, as codes; an edge belongs to the bin above it."""
        if isinstance(self.bins, tuple):
            return self._codes_of_edges(self.bins)
        first, last = self._range
        n_bins = DEFAULT_BINS if self.bins is None else self.bins
        if not self.is_discrete:
            return np.unique(np.linspace(first, last, n_bins + 1))[1:-1]
        n_bins = min(n_bins, int(last - first) + 1)
        return np.ceil(np.linspace(first, last + 1, n_bins + 1)[1:-1])

    def _checked(self: _Some) -> _Some:
        """Return this kind if every bin has values."""
        edges = np.ceil(self.inner_edges) if self.is_discrete else self.inner_edges
        if not (np.diff(edges, prepend=self._range[0]) > 0).all():
            raise ValueError("bins must be increasing edges within the bounds")
        return self

    @property
    def _n_bins(self) -> int:
        return len(self.inner_edges) + 1

    @property
    def is_discrete(self) -> bool:
        """Whether codes are whole numbers."""
        return True

    @property
    def _range(self) -> tuple[float, float]:
        """The first and the last code."""
        raise NotImplementedError

    @property
    def axis_bounds(self) -> tuple[float, float]:
        """Bounds on the axis: numbers, or units of time from the lower bound."""
        return self._range

    def to_axis(self, codes: np.ndarray) -> np.ndarray:
        """Return codes as floats on the axis, with NaN for missing values."""
        return np.where(self.is_missing(codes), np.nan, codes.astype(np.float64))

    def from_axis(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of values on the axis, NaN for missing values."""
        missing = np.isnan(values)
        return np.where(missing, int(self._range[1]) + 1, np.where(missing, 0, values)).astype(
            np.int64
        )

    def parse_axis(self, value: Any) -> float:
        """Return a declared or queried value as a point of the axis."""
        raise NotImplementedError

    def draw(self, low: Any, high: Any, missing: Any, generator: np.random.Generator) -> Any:
        """Return uniform values between points of the axis, as a pandas Series.

        Whole numbers lie between the points.
        """
        uniform = generator.random(len(low))
        if self.is_discrete:
            first, last = np.ceil(low), np.floor(high)
            values = first + np.floor(uniform * (last - first + 1))
        else:
            values = low + uniform * (high - low)
        return self.decode(self.from_axis(np.where(missing, np.nan, values)))

    @property
    def _missing_code(self) -> Any:
        first, last = self._range
        if not self.is_discrete:
            return np.nan if self.missing else first
        return int(last) + 1 if self.missing else int(first)

    def _codes_of_edges(self, edges: tuple[Any, ...]) -> np.ndarray:
        raise NotImplementedError

    def is_missing(self, codes: np.ndarray) -> np.ndarray:
        """Return a mask of the codes of missing values."""
        return np.isnan(codes) if codes.dtype.kind == "f" else codes > self._range[1]

    def draw_bins(self, cells: np.ndarray, generator: np.random.Generator) -> Any:
        first, last = self._range
        missing = cells == self._n_bins
        cells = np.where(missing, 0, cells)
        starts = np.append(first, self.inner_edges)
        # The last whole number of a bin lies below the next edge.
        ends = np.append(
            np.ceil(self.inner_edges) - 1 if self.is_discrete else self.inner_edges, last
        )
        shift = self.axis_bounds[0] - first
        return self.draw(starts[cells] + shift, ends[cells] + shift, missing, generator)

    def bin(self, codes: np.ndarray) -> np.ndarray:
        bins = np.searchsorted(self.inner_edges, codes, side="right")
        if self.missing:
            bins[self.is_missing(codes)] = self._n_bins
        return bins

    def arguments(self) -> dict[str, Any]:
        bins: Any = list(self.bins) if isinstance(self.bins, tuple) else self.bins
        return ({} if bins is None else {"bins": bins}) | super().arguments()


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_bins(bins: Any, check_edge: Any) -> int | tuple[Any, ...] | None:
    """Return a number of bins, or checked inner edges."""
    if bins is None:
        return None
    if isinstance(bins, Integral) and not isinstance(bins, bool):
        if not 1 <= int(bins) <= 10**6:
            raise ValueError(f"bins must be at least 1 and at most 1000000; got {bins}")
        return int(bins)
    if isinstance(bins, str | bytes) or not isinstance(bins, Iterable):
        raise ValueError("bins must be a number of bins, or a list of the edges between them")
    return tuple(check_edge(edge) for edge in bins)


@dataclass(frozen=True)
class Numbers(_Ordered):
    """Numbers between public bounds. Codes of whole numbers count from the lower bound."""

    low: float
    high: float
    whole: bool

    title = "numbers"

    @classmethod
    def from_bounds(
        cls,
        low: Any,
        high: Any,
        *,
        whole: bool | None = None,
        bins: Any = None,
        missing: bool = True,
    ) -> "Numbers":
        """Check bounds; two integers declare whole numbers."""
        for bound in (low, high):
            if not _is_number(bound) or not np.isfinite(float(bound)):
                raise ValueError("bounds must be two finite numbers")
        if not low < high:
            raise ValueError(f"bounds must have low < high; got {low} and {high}")
        if not np.isfinite(float(high) - float(low)):
            raise ValueError("bounds must have a finite difference")
        if whole is None:
            whole = isinstance(low, Integral) and isinstance(high, Integral)
        if whole:
            if low != int(low) or high != int(high):
                raise ValueError("bounds of whole numbers must be whole numbers")
            if max(abs(int(low)), abs(int(high))) > _MAX_WHOLE:
                raise ValueError("bounds of whole numbers must be at most 2**53 in absolute value")
        convert = int if whole else float

        def check_edge(edge: Any) -> float:
            if not _is_number(edge) or not low < edge <= high:
                raise ValueError("bins must be increasing edges within the bounds")
            return convert(edge) if float(edge).is_integer() else float(edge)

        edges = _check_bins(bins, check_edge)
        kind = cls(convert(low), convert(high), bool(whole), bins=edges, missing=bool(missing))
        return kind._checked()

    @property
    def _absent(self) -> Any:
        return (MISSING, OUTSIDE) if self.whole else (np.nan, -np.inf)

    @property
    def is_discrete(self) -> bool:
        return self.whole

    @property
    def axis_bounds(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def _range(self) -> tuple[float, float]:
        return (0, self.high - self.low) if self.whole else (self.low, self.high)

    def _codes_of_edges(self, edges: tuple[Any, ...]) -> np.ndarray:
        return np.array(edges, dtype=np.float64) - (self.low if self.whole else 0)

    def _encode_block(self, values: Any, missing_values: frozenset) -> np.ndarray:
        numbers, wrong = column_numbers(values, missing_values)
        missing, outside = self._absent
        is_missing = np.isnan(numbers)
        np.clip(numbers, self.low, self.high, out=numbers)
        if self.whole:
            numbers[is_missing] = self.low
            rounded = np.floor(numbers)
            rounded += numbers - rounded >= 0.5  # adding 0.5 first would round large numbers
            numbers = rounded
        absent = numbers_among(missing_values)
        if absent:  # otherwise the value of a code could have another code
            is_missing |= np.isin(numbers, absent)
        codes = numbers.astype(np.int64) - self.low if self.whole else numbers
        codes[is_missing] = missing
        codes[wrong] = outside
        return codes

    def to_axis(self, codes: np.ndarray) -> np.ndarray:
        return super().to_axis(codes) + self.low if self.whole else codes

    def from_axis(self, values: np.ndarray) -> np.ndarray:
        return super().from_axis(values - self.low) if self.whole else values

    def parse_axis(self, value: Any) -> float:
        if not _is_number(value) or np.isnan(value):
            raise ValueError("it must be a number")
        return float(value)

    def _bin_labels(self) -> list[Hashable]:
        if not self.whole:
            edges = [self.low, *self.inner_edges.tolist(), self.high]
            return [pd.Interval(a, b, closed="left") for a, b in pairwise(edges)]
        firsts = [0, *np.ceil(self.inner_edges).astype(int).tolist(), self.high - self.low + 1]
        pairs = [(a + self.low, b - 1 + self.low) for a, b in pairwise(firsts)]
        return [a if a == b else pd.Interval(a, b, closed="both") for a, b in pairs]

    def decode(self, codes: np.ndarray) -> Any:
        codes = np.asarray(codes)
        if not self.whole:
            return pd.Series(codes, dtype=np.float64)
        missing = self.is_missing(codes)
        values = pd.Series(np.where(missing, 0, codes + self.low), dtype=np.int64)
        return values.astype("Int64").mask(missing) if missing.any() else values

    def describe(self) -> str:
        return f"{'whole ' if self.whole else ''}numbers from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Dates(_Ordered):
    """Dates or times between public bounds. Codes count units of the resolution from `low`.

    Times with a zone are converted to UTC. Texts have the given `format`, or are ISO 8601.
    """

    low: datetime
    high: datetime
    resolution: str = "day"
    format: str | None = None

    title = "dates"

    @classmethod
    def from_bounds(
        cls,
        low: Any,
        high: Any,
        *,
        resolution: str = "day",
        format: str | None = None,
        bins: Any = None,
        missing: bool = True,
    ) -> "Dates":
        """Check bounds, which are dates, times or strings."""
        if resolution not in RESOLUTIONS:
            raise ValueError(f"resolution must be one of {', '.join(RESOLUTIONS)}")
        if format is not None:
            datetime(2000, 1, 1).strftime(format)
        low, high = (_check_time(bound, format) for bound in (low, high))
        kind = cls(low, high, resolution, format, missing=bool(missing))
        if not kind._range[0] < kind._range[1]:
            raise ValueError("bounds must be two different dates, the earlier first")

        def check_edge(edge: Any) -> datetime:
            edge = _check_time(edge, format)
            if not low < edge <= high:
                raise ValueError("bins must be increasing edges within the bounds")
            return edge

        edges = _check_bins(bins, check_edge)
        kind = cls(low, high, resolution, format, bins=edges, missing=bool(missing))
        return kind._checked()

    @property
    def _unit(self) -> str:
        return f"M8[{RESOLUTIONS[self.resolution]}]"

    @cached_property
    def _first(self) -> np.datetime64:
        return np.datetime64(self.low, "us").astype(self._unit)

    @cached_property
    def _range(self) -> tuple[float, float]:
        last = np.datetime64(self.high, "us").astype(self._unit)
        return 0, int((last - self._first).astype(np.int64))

    def _codes_of_edges(self, edges: tuple[Any, ...]) -> np.ndarray:
        return self._ticks(np.array(edges, dtype="M8[us]")).astype(np.float64)

    def parse_axis(self, value: Any) -> float:
        time = np.datetime64(_check_time(value, self.format), "us")
        return float(self._ticks(np.array([time]))[0])

    def _ticks(self, times: np.ndarray) -> np.ndarray:
        return (times.astype(self._unit) - self._first).astype(np.int64)

    def _encode_block(self, values: Any, missing_values: frozenset) -> np.ndarray:
        times, wrong = column_times(values, self.format, missing_values)
        is_missing = np.isnat(times)
        # A conversion of far times to a finer unit would overflow.
        codes = self._ticks(clip_times(times, self.low, self.high))
        np.clip(codes, 0, int(self._range[1]), out=codes)
        absent = times_among(missing_values, self.format)
        if len(absent):  # otherwise the value of a code could have another code
            is_value = absent.astype(self._unit).astype("M8[us]") == absent
            is_missing |= np.isin(codes, self._ticks(absent[is_value]))
        codes[is_missing] = MISSING
        codes[wrong] = OUTSIDE
        return codes

    def _bin_labels(self) -> list[Hashable]:
        firsts = [0, *np.ceil(self.inner_edges).astype(int).tolist(), int(self._range[1]) + 1]
        starts = self.decode(np.array(firsts[:-1]))
        ends = self.decode(np.array(firsts[1:]) - 1)
        pairs = zip(starts, ends, strict=True)
        return [a if a == b else pd.Interval(a, b, closed="both") for a, b in pairs]

    def decode(self, codes: np.ndarray) -> Any:
        codes = np.asarray(codes).astype(np.int64)
        missing = self.is_missing(codes)
        unit = RESOLUTIONS[self.resolution]
        times = self._first + np.where(missing, 0, codes).astype(f"m8[{unit}]")
        # Parquet files have no coarser unit than milliseconds.
        times = times.astype(f"M8[{'us' if unit == 'us' else 'ms'}]")
        times[missing] = np.datetime64("NaT", "us")
        return pd.Series(times)

    def describe(self) -> str:
        low, high = (short_time(bound) for bound in (self.low, self.high))
        unit = "dates" if RESOLUTIONS[self.resolution] in "YMD" else "times"
        return f"{unit} from {low} to {high}, by {self.resolution}"

    def arguments(self) -> dict[str, Any]:
        given = {} if self.resolution == "day" else {"resolution": self.resolution}
        if self.format is not None:
            given["format"] = self.format
        return given | super().arguments()


@dataclass(frozen=True)
class Names(Kind):
    """Categories without a public list, which are found privately."""

    title = "names"

    def factorise(
        self,
        name: Hashable,
        values: Any,
        rows: np.ndarray | None = None,
        missing_values: frozenset = frozenset(),
    ) -> tuple[np.ndarray, list]:
        """Return codes of the counted cells, and the distinct values, which are not public.

        Fractions do not fit. Codes are `MISSING` and `OUTSIDE` for cells without a value.
        """
        absent = Categories(tuple(missing_values))
        with errors_without_data(**{f"column {name!r} of X": values}):
            return factorise(
                values, rows, is_missing=lambda value: absent.find(value) >= 0, fractions=False
            )

    def describe(self) -> str:
        return "categories that are found privately"


@dataclass(frozen=True)
class Key(Kind):
    """Identifiers, which are never counted."""

    form: str = DEFAULT_FORM

    title = "key"
    is_counted = False

    @classmethod
    def from_form(cls, form: str = DEFAULT_FORM) -> "Key":
        """Check the format of the keys of synthetic records."""
        try:
            if not isinstance(form, str) or len({form.format(n) for n in (1, 2, 10, 10**6)}) < 4:
                raise ValueError
        except (ValueError, LookupError, AttributeError, TypeError):
            raise ValueError(
                "form must be a string with one field for a number, such as 'P{:06d}'"
            ) from None
        return cls(form)

    def draw(self, n_records: int) -> list[str | None]:
        """Return new keys, which are unique and do not depend on any data."""
        return [self.form.format(number) for number in range(1, n_records + 1)]

    def describe(self) -> str:
        return "identifiers, not counted"

    def arguments(self) -> dict[str, Any]:
        return {} if self.form == DEFAULT_FORM else {"form": self.form}


@dataclass(frozen=True)
class Ignored(Kind):
    """Column that is not used."""

    title = "ignore"
    is_counted = False

    def describe(self) -> str:
        return "not used"


def as_kind(declared: Any) -> Kind:
    """Return the kind that a declaration means: a list of values, a pair of bounds, or a kind."""
    if isinstance(declared, Kind):
        return declared
    if declared is bool:
        return Categories((False, True))
    if isinstance(declared, tuple):
        if len(declared) == 2 and all(map(_is_number, declared)):
            return Numbers.from_bounds(*declared)
        if len(declared) == 2 and all(isinstance(bound, str | date) for bound in declared):
            return Dates.from_bounds(*declared, resolution=finest_resolution(declared))
        raise ValueError("a pair must contain two numbers or two dates; use a list for categories")
    if isinstance(declared, str | bytes | dict) or not isinstance(declared, Iterable):
        raise ValueError(
            "it must be a list of values, a pair of bounds, or one of Schema.names(), "
            f"Schema.key() and Schema.ignore(); got {type(declared).__name__}"
        )
    return Categories.from_values(declared)


def raise_if_errors(what: str, errors: Mapping[Any, str]) -> None:
    """Raise one error that lists the errors of all columns, if there are any."""
    if errors:
        listed = ";".join(f"\n  {name!r}: {error}" for name, error in errors.items())
        raise ValueError(f"{what}:{listed}")


def _check_time(bound: Any, format: str | None) -> datetime:
    value = parse_time(bound) or parse_time(bound, format)
    if value is None:
        raise ValueError("bounds must be dates, times or ISO 8601 strings such as 2024-12-31")
    return value


def _plain_category(value: Any) -> Any:
    plain = rebuild(value)
    # A time keeps its zone.
    return value if plain is UNKNOWN or isinstance(plain, datetime) else plain
