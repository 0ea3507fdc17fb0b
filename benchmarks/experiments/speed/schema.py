"""Encoding of a table by its schema."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from ... import workloads
from ...timing import alternate
from .promise import Timing


def time_schema(quick: bool) -> Iterator[Timing]:
    n = 10_000 if quick else 10_000_000
    schema, table = workloads.mixed_columns(n)
    encoder = schema.encoder().fit(table)
    domains = {name: _domain(schema[name]) for name in table}
    ours, theirs = partial(encoder.transform, table), partial(_plain_codes, table, domains)
    times = alternate(ours, theirs, repeats=2)
    differences = [np.abs(a - b).max() for a, b in zip(ours().T, theirs(), strict=True)]
    yield Timing(
        "Schema.encoder().transform",
        f"{n} x {len(domains)}",
        times[0],
        times[1],
        "pandas.Categorical and np.searchsorted",
        at_most_ratio=2.0,
        difference=float(max(differences)),
    )


def _domain(kind) -> pd.Index | np.ndarray:
    """Return categories, or the lower ends of all bins except the first."""
    if kind.title == "categories":
        return pd.Index(kind.values)
    starts = [getattr(label, "left", label) for label in kind.labels()[1:-1]]
    return np.array(starts, dtype="M8[us]" if kind.title == "dates" else None)


def _plain_codes(table: pd.DataFrame, domains: dict) -> list[np.ndarray]:
    return [
        pd.Categorical(table[name], categories=domain).codes
        if isinstance(domain, pd.Index)
        else np.searchsorted(domain, table[name].to_numpy(), side="right")
        for name, domain in domains.items()
    ]
