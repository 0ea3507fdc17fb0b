"""Histogram transformer: fit and transform."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from ... import workloads
from ...timing import alternate
from .promise import Timing, largest_gap

INFINITE = float("inf")


def time_histogram(quick: bool) -> Iterator[Timing]:
    n, features = (10_000 if quick else 1_000_000), 20
    X = workloads.numbers(n, features)
    ours, theirs = workloads.private_bins().fit(X), workloads.plain_bins().fit(X)
    exact = workloads.private_bins(epsilon=INFINITE).fit(X)
    fine = np.ascontiguousarray(((X + 10) * 3276.8).astype(np.int32).T)  # 2**16 cells
    times = alternate(
        partial(ours.fit, X),
        partial(theirs.fit, X),
        lambda: [np.bincount(column) for column in fine],
        repeats=3,
    )
    yield Timing(
        "DirichletHistogramTransformer.fit",
        f"{n} x {features}",
        times[0],
        times[1],
        "KBinsDiscretizer",
        times[2],
        "bincount of known cells",
        at_most_ratio=1 / 2,
        difference=largest_gap(exact.bin_edges_, theirs.bin_edges_),
    )
    few = X[:1000, :5]
    times = alternate(
        partial(workloads.private_bins().fit(few).fit, few),
        partial(workloads.plain_bins().fit, few),
        repeats=3 if quick else 100,
    )
    yield Timing(
        "DirichletHistogramTransformer.fit of small tables",
        "1000 x 5",
        times[0],
        times[1],
        "KBinsDiscretizer",
        at_most_ratio=2.5,
    )
    for encode in ("ordinal", "onehot"):
        ours.set_params(encode=encode)
        exact.set_params(encode=encode)
        theirs = workloads.plain_bins(encode).fit(X)
        times = alternate(
            partial(ours.transform, X),
            partial(theirs.transform, X),
            partial(_search, X, [edges[1:-1] for edges in theirs.bin_edges_]),
            repeats=2,
        )
        apart = abs(exact.transform(X) - theirs.transform(X)).max()
        yield Timing(
            f"DirichletHistogramTransformer.transform, {encode}",
            f"{n} x {features}",
            times[0],
            times[1],
            "KBinsDiscretizer",
            times[2],
            "searchsorted, column by column",
            at_most_ratio=1.0,
            difference=float(apart),
        )


def _search(X: np.ndarray, borders: list[np.ndarray]) -> list[np.ndarray]:
    return [np.searchsorted(inner, column) for inner, column in zip(borders, X.T, strict=True)]
