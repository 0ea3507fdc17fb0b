"""The door's rules as expressions, for engines that hold records to their bounds themselves.

They are the operations of `RowBounds.apply` and of the grid of fine bins, one by one and in
the same order, on 64-bit floats. Each of them is rounded as IEEE 754 says, here and in an
engine, so that a record adds the same to the last bit; `RowBounds.check` and `admit` look at
what came of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from .._contributions import RowBounds

# Names of computed columns, as no user has them.
_OWN = "__skdirdp_"


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers.

    Attributes
    ----------
    names : list of str
    columns : list of str
        What the engine calls them.
    readable : whether their types are those of numbers.
    threshold : given, what is summed is whether a number is above it.
    """

    names: list[str]
    columns: list[str]
    readable: bool
    threshold: float | None = None

    @classmethod
    def of(
        cls,
        schema: nw.Schema,
        names: list[str],
        columns: list[str],
        threshold: float | None = None,
    ) -> "Numbers":
        kinds = [schema[name] for name in names]
        readable = all(kind.is_numeric() or kind == nw.Boolean for kind in kinds)
        if threshold is not None and readable and _are_single(kinds):
            # numpy compares single precision with a number that is rounded to it.
            threshold = float(np.float32(threshold))
        return cls(names, columns, readable, threshold)

    def values(self) -> list[nw.Expr]:
        """The numbers as 64-bit floats."""
        return [nw.col(name).cast(nw.Float64) for name in self.columns]

    def counted(self) -> list[nw.Expr]:
        """What is summed of them."""
        if self.threshold is None:
            return self.values()
        # As floats and not as truth values, which engines do not add.
        return [_if(value > self.threshold, nw.lit(1.0), nw.lit(0.0)) for value in self.values()]

    def survey(self) -> dict[str, nw.Expr]:
        """What there is to know of the columns before they are counted."""
        found: dict[str, nw.Expr] = {f"{_OWN}n": nw.len()}
        for k, value in enumerate(self.values()):
            found[f"{_OWN}missing{k}"] = (value.is_null() | value.is_nan()).any()
            found[f"{_OWN}least{k}"] = value.min()
            found[f"{_OWN}largest{k}"] = value.max()
        return found

    def specimen(self, found: pd.DataFrame | None) -> pd.DataFrame:
        """Made-up rows that have the faults of the columns, and their extremes.

        A check of records refuses them for the reason for which it would refuse the records.
        """
        if found is None:  # they are no numbers, and were not looked at
            return pd.DataFrame({name: ["text"] for name in self.names})
        rows = {}
        for k, name in enumerate(self.names):
            missing, least, largest = (
                found[f"{_OWN}{what}{k}"].iloc[0] for what in ("missing", "least", "largest")
            )
            gap = np.nan if missing else least
            rows[name] = np.array([least, largest, gap], dtype=np.float64)
        return pd.DataFrame(rows)


def _are_single(kinds: Sequence[Any]) -> bool:
    """Whether an array of all columns would be of single precision."""
    small = (nw.Boolean, nw.Int8, nw.UInt8, nw.Int16, nw.UInt16)
    return nw.Float32 in kinds and all(kind == nw.Float32 or kind in small for kind in kinds)


def between(value: nw.Expr, low: float, high: float) -> nw.Expr:
    """The value, cut to bounds."""
    return _if(value < low, nw.lit(low), _if(value > high, nw.lit(high), value))


def _if(condition: nw.Expr, then: Any, otherwise: Any) -> nw.Expr:
    return nw.when(condition).then(then).otherwise(otherwise)


def rounded_down(value: nw.Expr, grid: float) -> nw.Expr:
    """To a multiple of the grid; its division and multiplication are exact."""
    return (value / grid).floor() * grid


def _total(values: Sequence[nw.Expr]) -> nw.Expr:
    """Their sum, in the order in which the door adds the entries of a dense row."""
    while len(values) > 1:
        half = len(values) // 2
        sums = [values[k] + values[half + k] for k in range(half)]
        if len(values) % 2:
            sums[0] = sums[0] + values[-1]
        values = sums
    return values[0]


@dataclass(frozen=True)
class BoundedRows:
    """Rows that are held to a rule.

    Attributes
    ----------
    frame : LazyFrame with the label and what follows.
    entries : names of what each row adds.
    least, largest, total : names of the least and largest of them in a row, and of their sum.
    """

    frame: nw.LazyFrame
    entries: list[str]
    least: str
    largest: str
    total: str


def bounded_rows(
    frame: nw.LazyFrame, numbers: Numbers, rule: RowBounds, weight: nw.Expr | None, label: str
) -> BoundedRows:
    """What each row adds, weights included, as `RowBounds.apply` would have it."""
    names = [f"{_OWN}{k}" for k in range(len(numbers.names))]
    entries = [nw.col(name) for name in names]
    own = {name: nw.col(f"{_OWN}{name}") for name in ("weight", "total", "whole", "over", "factor")}
    weighted = nw.lit(1.0) if weight is None else weight
    values = {
        name: value if rule.grid is None else _if(value > rule.clip, nw.lit(rule.clip), value)
        for name, value in zip(names, numbers.counted(), strict=True)
    }
    # One step in each select, so that an engine computes it once.
    frame = frame.select(nw.col(label), weighted.alias(f"{_OWN}weight"), **values)
    if rule.grid is None:
        frame = frame.with_columns(*(entry * own["weight"] for entry in entries))
    else:
        whole = reduce(and_, [entry == entry.floor() for entry in entries])
        frame = frame.with_columns(
            _total(entries).alias(f"{_OWN}total"), whole.alias(f"{_OWN}whole")
        )
        frame = frame.with_columns(
            (own["whole"] & (own["total"] < rule.whole_limit())).alias(f"{_OWN}whole")
        )
        slack = rule.slack(len(names))
        most = _if(own["whole"], nw.lit(rule.limit), nw.lit(rule.limit * (1 - slack)))
        frame = frame.with_columns((own["total"] > most).alias(f"{_OWN}over"))
        scaled = nw.lit(rule.limit * (1 - 2 * slack)) / own["total"]
        factor = _if(own["over"], own["weight"] * scaled, own["weight"])
        frame = frame.with_columns(factor.alias(f"{_OWN}factor"))
        changed = own["over"] | ~own["whole"]
        frame = frame.with_columns(
            *(
                rounded_down(entry * own["factor"], rule.grid)
                if weight is not None
                else _if(changed, rounded_down(entry * own["factor"], rule.grid), entry)
                for entry in entries
            )
        )
    extremes = {f"{_OWN}{name}": name for name in ("least", "largest", "sum")}
    frame = frame.with_columns(
        nw.min_horizontal(*entries).alias(f"{_OWN}least"),
        nw.max_horizontal(*entries).alias(f"{_OWN}largest"),
        _total(entries).alias(f"{_OWN}sum"),
    )
    return BoundedRows(frame, names, *extremes)


def cell(name: str, low: float, high: float, width: float, first: float) -> nw.Expr:
    """The cell of a grid that a number lies in, -1 if it is missing and -2 if it is infinite."""
    value = nw.col(name).cast(nw.Float64)
    position = (between(value, low, high) * (1 / width)).floor() - first
    infinite = (value == nw.lit(np.inf)) | (value == nw.lit(-np.inf))
    found = _if(infinite, nw.lit(-2.0), position)
    return _if(value.is_null() | value.is_nan(), nw.lit(-1.0), found).cast(nw.Int64)
