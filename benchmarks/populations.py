"""Real tables as populations: samples of them, and queries whose true answers are known."""

from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skdirdp import PrivateCrosstab, Schema
from skdirdp.crosstab.queries import TableQueries
from skdirdp.inference import NoisyTable
from skdirdp.schema import Numbers

from .experiment import Row, seeded

#: Queries of each population: kinds, and how many of each.
KINDS = {
    "share": 3,
    "conditional share": 4,
    "difference": 3,
    "ratio": 2,
    "odds ratio": 2,
    "mean": 2,
    "conditional mean": 1,
    "quantile": 1,
    "correlation": 1,
    "Cramer's V": 1,
}
# Samples that are queried at once.
BATCH = 50
# Categories of queries have at least this share of the population.
_RAREST = 0.01
# Limits of shares are found up to this distance.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Query:
    """A question to a fitted `PrivateCrosstab`, and its answer for the population.

    `whole` is the width of the whole range, and `parts` asks for the shares that are compared.
    """

    name: str
    ask: Callable[[Any], Any]
    true: float
    whole: float = np.inf
    parts: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Population:
    """A table, its schema, and twenty queries that are drawn by a seed."""

    table: pd.DataFrame
    schema: Schema
    queries: list[Query]

    @classmethod
    def from_table(cls, table: pd.DataFrame, name: str) -> "Population":
        table = table.rename(columns=str)
        kinds: dict[str, Any] = {}
        for column, values in table.items():
            if values.dtype.kind in "if" and values.nunique() > 10:
                whole = bool((values % 1 == 0).all())
                low, high = values.min(), values.max()
                kinds[column] = Schema.numbers(
                    *((int(low), int(high)) if whole else (float(low), float(high))),
                    missing=False,
                )
            else:
                found = sorted(values.unique().tolist(), key=str)
                kinds[column] = Schema.categories(found, missing=False)
        schema = Schema(kinds)
        makers = Makers(table, schema, seeded("queries", name))
        return cls(table, schema, makers.queries())


class Makers:
    """Random queries on a table, each by its own method."""

    def __init__(self, table: pd.DataFrame, schema: Schema, rng: np.random.Generator):
        self.table, self.schema, self.rng = table, schema, rng
        names = list(schema)
        self.numbers = [name for name in names if isinstance(schema[name], Numbers)]
        self.categories = [
            name for name in names if name not in self.numbers and schema[name].n_cells > 1
        ]

    def queries(self) -> list[Query]:
        return [
            getattr(self, kind.replace(" ", "_").replace("'", "").lower())()
            for kind, count in KINDS.items()
            for _ in range(count)
        ]

    def _columns(self, names: list[str], size: int, other: str | None = None) -> list[str]:
        return self.rng.choice([n for n in names if n != other], size, replace=False).tolist()

    def _event(self, column: str, at_least: float = _RAREST) -> Any:
        """A category that is neither rare nor the rule."""
        shares = self.table[column].value_counts(normalize=True)
        usual = shares[(shares >= at_least) & (shares <= 1 - at_least)]
        values = [value for value in self.schema[column].labels() if value in usual.index]
        if not values:
            return self.schema[column].labels()[0]
        return values[self.rng.integers(len(values))]

    def share(self) -> Query:
        (column,) = self._columns(self.categories, 1)
        value = self._event(column)
        true = (self.table[column] == value).mean()
        name = f"share {column} = {value}"
        return Query(name, lambda tabs: tabs.share({column: value}), true, 1.0)

    def conditional_share(self) -> Query:
        column, given = self._columns(self.categories, 2)
        value, condition = self._event(column), self._event(given, 0.05)
        part = self.table[self.table[given] == condition]
        return Query(
            f"share {column} = {value} given {given} = {condition}",
            lambda tabs: tabs.share({column: value}, {given: condition}),
            (part[column] == value).mean(),
            1.0,
        )

    def _compared(self) -> tuple[str, Any, str, Any, Any, float, float]:
        """An event, and two of the larger groups of another column with its shares."""
        column, group = self._columns(self.categories, 2)
        value = self._event(column)
        sizes = self.table[group].value_counts(normalize=True)
        first, second = sizes.index[:2]
        shares = [
            (self.table.loc[self.table[group] == each, column] == value).mean()
            for each in (first, second)
        ]
        return column, value, group, first, second, *shares

    def _difference(self, method: str, combine: Callable[[float, float], float]) -> Query:
        while True:
            column, value, group, first, second, base, share = self._compared()
            if base > 0 and share > 0:
                break
        labels = self.schema[group].labels()
        place = [label for label in labels if label != first].index(second)

        def ask(tabs: Any) -> Any:
            found = getattr(tabs, method)({column: value}, group, reference=first)
            return found if len(labels) == 2 else found[..., place]

        name = f"{method} of {column} = {value}, {group} = {second} and {first}"
        return Query(
            name,
            ask,
            combine(share, base),
            2.0 if method == "difference" else np.inf,
            lambda tabs: [tabs.share({column: value}, {group: each}) for each in (first, second)],
        )

    def difference(self) -> Query:
        return self._difference("difference", lambda share, base: share - base)

    def ratio(self) -> Query:
        return self._difference("ratio", lambda share, base: share / base)

    def odds_ratio(self) -> Query:
        while True:
            row, column = self._columns(self.categories, 2)
            counts = pd.crosstab(self.table[row], self.table[column])
            rows, columns = (self.schema[name].labels() for name in (row, column))
            table = counts.reindex(index=rows, columns=columns).fillna(0).to_numpy(dtype=float)
            if table[:2, :2].min() > 0:
                break
        true = table[1, 1] * table[0, 0] / (table[0, 1] * table[1, 0])
        is_single = table.shape == (2, 2)

        def ask(tabs: Any) -> Any:
            found = tabs.odds_ratio(row, column)
            return found if is_single else found[..., 0, 0]

        return Query(f"odds ratio of {row} and {column}, first two each", ask, true)

    def mean(self) -> Query:
        (column,) = self._columns(self.numbers, 1)
        true = float(self.table[column].mean())
        return Query(f"mean {column}", lambda tabs: tabs.mean(column), true)

    def conditional_mean(self) -> Query:
        (column,), (given,) = self._columns(self.numbers, 1), self._columns(self.categories, 1)
        value = self._event(given, 0.05)
        true = float(self.table.loc[self.table[given] == value, column].mean())
        name = f"mean {column} given {given} = {value}"
        return Query(name, lambda tabs: tabs.mean(column, {given: value}), true)

    def quantile(self) -> Query:
        (column,) = self._columns(self.numbers, 1)
        true = float(np.quantile(self.table[column], 0.5, method="inverted_cdf"))
        return Query(f"median {column}", lambda tabs: tabs.quantile(column, 0.5), true)

    def _codes(self, column: str) -> np.ndarray:
        return self.schema[column].bin(self.schema.encode_column(column, self.table[column]))

    def correlation(self) -> Query:
        row, column = self._columns(self.numbers, 2)
        centres = []
        for name in (row, column):
            labels = self.schema[name].labels()
            values = np.array([getattr(label, "mid", label) for label in labels], dtype=float)
            centres.append(values[self._codes(name)])
        true = float(np.corrcoef(*centres)[0, 1])
        name = f"correlation of bins of {row} and {column}"
        return Query(name, lambda tabs: tabs.correlation(row, column), true, 2.0)

    def cramers_v(self) -> Query:
        row, column = self._columns(self.categories, 2)
        counts = pd.crosstab(self.table[row], self.table[column]).to_numpy(dtype=float)
        p = counts / counts.sum()
        expected = np.outer(p.sum(axis=1), p.sum(axis=0))
        phi = ((p - expected) ** 2 / expected).sum()
        sizes = (self.schema[name].n_cells for name in (row, column))
        true = float(np.sqrt(phi / (min(sizes) - 1)))
        name = f"Cramer's V of {row} and {column}"
        return Query(name, lambda tabs: tabs.cramers_v(row, column), true, 1.0)


class Samples(TableQueries):
    """Fitted tables of several samples, which answer a query for all of them at once."""

    def __init__(self, fitted: PrivateCrosstab):
        self.categories_, self.schema_ = fitted.categories_, fitted.schema_
        self._fits: list[PrivateCrosstab] = []

    def add(self, fitted: PrivateCrosstab) -> None:
        self._fits.append(deepcopy(fitted))

    def noisy_table(self, *columns: Hashable) -> NoisyTable:
        tables = [fitted.noisy_table(*columns) for fitted in self._fits]
        counts = np.array([table.counts for table in tables])
        return replace(tables[0], counts=counts, batch_dims=1)


def coverage(
    population: Population, name: str, epsilon: float, n_records: int, n_samples: int
) -> list[Row]:
    """How often the 95% interval of each query contains its answer.

    `near` is how often the interval of a share that is compared has a limit of 0 or 1.
    """
    covered: list[list[float]] = [[] for _ in population.queries]
    widths: list[list[float]] = [[] for _ in population.queries]
    near: list[list[float]] = [[] for _ in population.queries]
    tabs = PrivateCrosstab(population.schema, epsilon=epsilon, postprocess=False)
    for start in range(0, n_samples, BATCH):
        samples = None
        for k in range(start, min(start + BATCH, n_samples)):
            rng = seeded("sample", name, k)
            sample = population.table.iloc[rng.integers(0, len(population.table), n_records)]
            tabs.set_params(random_state=rng).fit(sample)
            samples = samples or Samples(tabs)
            samples.add(tabs)
        for query, inside, wide, close in zip(
            population.queries, covered, widths, near, strict=True
        ):
            found = query.ask(samples)
            parts = [] if query.parts is None else query.parts(samples)
            ends = [(part.low < _ROUNDING) | (part.high > 1 - _ROUNDING) for part in parts]
            close += np.any(ends, axis=0).tolist() if ends else [0.0] * len(found.low)
            inside += ((found.low <= query.true) & (query.true <= found.high)).tolist()
            wide += (found.high - found.low).tolist()
    return [
        {
            "query": query.name,
            "true": query.true,
            "coverage": float(np.mean(inside)),
            "width": float(np.median(wide)),
            "whole": float(np.mean(np.array(wide) >= query.whole)),
            "near": float(np.mean(close)),
            "samples": n_samples,
            "records": n_records,
        }
        for query, inside, wide, close in zip(
            population.queries, covered, widths, near, strict=True
        )
    ]
