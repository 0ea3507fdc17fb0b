"""Columns of a table with a schema, as numbers that are binned."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..schema import Categories, FineGrid, Kind, Names, Records, Schema, kind_grid, raise_if_errors


@dataclass(frozen=True)
class SchemaColumns:
    """Columns that are binned: numbers and dates on their axis, categories as codes.

    Missing numbers and dates are NaN. Missing categories have the last code.
    """

    schema: Schema
    names: list[Hashable]

    @classmethod
    def from_names(cls, schema: Schema, names: Iterable[Hashable]) -> "SchemaColumns":
        """Check that columns have public values."""
        names, errors = list(names), {}
        for name in names:
            kind = schema.columns.get(name)
            if kind is None:
                errors[name] = "is not declared in the schema"
            elif isinstance(kind, Names) or not kind.is_counted:
                errors[name] = f"has no public values ({kind.describe()})"
        raise_if_errors(
            "columns must have public values to be binned; exclude others with Schema.ignore()",
            errors,
        )
        if not names:
            raise ValueError("X must have at least one column with values; it has none")
        return cls(schema, names)

    @property
    def kinds(self) -> list[Any]:
        return [self.schema[name] for name in self.names]

    def n_categories(self) -> list[int | None]:
        """Return the number of categories of each column, None for numbers and dates."""
        return [kind.n_cells if isinstance(kind, Categories) else None for kind in self.kinds]

    def limit_bins(self, n_bins: list[int]) -> list[int]:
        """Return the number of bins of each column: at most its number of values."""
        return [min(n, _n_values(kind, n)) for n, kind in zip(n_bins, self.kinds, strict=True)]

    def with_missing(self, n_bins: list[int]) -> list[int]:
        """Return the numbers of bins, including the bin of missing values."""
        return [n + kind.missing for n, kind in zip(n_bins, self.kinds, strict=True)]

    def grids(self, n_bins: int, scale: str) -> list[FineGrid | None]:
        """Return the fine bins of each column, None for categories."""
        return [
            None if isinstance(kind, Categories) else kind_grid(kind, n_bins, scale)
            for kind in self.kinds
        ]

    def open(self, X: Any) -> Records:
        """Return the columns of a table, which must have those that were fitted."""
        records = self.schema.records(X, optional=True)
        lacking = [name for name in self.names if name not in records.columns]
        if lacking:
            raise ValueError(f"X must have the columns that were fitted; it lacks {lacking}")
        return records

    def encode(self, records: Records, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the records, or those in `rows`, as numbers."""
        n_records = records.n_records if rows is None else len(rows)
        encoded = np.empty((n_records, len(self.names)))
        for k, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True)):
            codes = self.schema.encode_column(name, records.columns[name], rows)
            encoded[:, k] = codes if isinstance(kind, Categories) else kind.to_axis(codes)
        return encoded

    def decode(self, values: np.ndarray) -> pd.DataFrame:
        """Return values in their declared types, as a DataFrame."""
        columns = zip(self.names, self.kinds, values.T, strict=True)
        return pd.DataFrame({name: _decode(kind, column) for name, kind, column in columns})


def _n_values(kind: Kind, n_bins: int) -> int:
    """Return the number of values of whole numbers or dates, and `n_bins` for others."""
    if isinstance(kind, Categories) or not kind.is_discrete:  # type: ignore[attr-defined]
        return n_bins
    low, high = kind.axis_bounds  # type: ignore[attr-defined]
    return int(high - low) + 1


def _decode(kind: Any, values: np.ndarray) -> Any:
    if isinstance(kind, Categories):
        return kind.decode(np.rint(values).astype(np.intp))
    low, high = kind.axis_bounds
    values = np.clip(np.floor(values) if kind.is_discrete else values, low, high)
    return kind.decode(kind.from_axis(values))
