"""Growth of the time of a fit with the size of the model."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy import sparse

from skdirdp import (
    DirichletBernoulliNB,
    DirichletNB,
    PrivateBayesNet,
    PrivateBayesNetMLE,
)

from ... import workloads
from ...timing import alternate
from .promise import Timing

#: Largest slope of the logarithm of the time over that of the size.
MAX_SLOPE = 1.15


def time_growth(quick: bool) -> Iterator[Timing]:
    """Compare each large fit with linear growth from the small fit."""
    scale = 10 if quick else 1
    for name, unit, prepare, small, large in (
        ("DirichletBernoulliNB", "features", _bernoulli, 1000, 10_000),
        ("DirichletCategoricalNB", "features", _categorical, 1000, 10_000),
        ("DirichletNB", "features", _multinomial, 1000, 10_000),
        ("DirichletNB", "cells", _many_cells, 10**6, 10**7),
        ("PrivateBayesNetMLE", "columns", _known_network, 50, 200),
        ("PrivateBayesNet", "columns", _learnt_network, 50, 200),
    ):
        sizes = (small // scale, large // scale)
        fits = [prepare(size) for size in sizes]
        for fit in fits:
            fit()  # calibrates
        times = alternate(*fits, repeats=1 if quick else 3)
        factor = large / small
        yield Timing(
            f"growth of {name}.fit",
            f"from {sizes[0]} to {sizes[1]} {unit}",
            times[1],
            times[0] * factor,
            "linear growth",
            at_most_ratio=factor ** (MAX_SLOPE - 1),
        )


def _bernoulli(features: int) -> Callable[[], object]:
    X, y = workloads.categories(500, features, 2, 2)
    return partial(DirichletBernoulliNB(classes=range(2)).fit, X, y)


def _categorical(features: int) -> Callable[[], object]:
    X, y = workloads.categories(500, features, 4, 2)
    return partial(workloads.private_categorical(4, 2).fit, X, y)


def _multinomial(features: int) -> Callable[[], object]:
    X, y = workloads.categories(500, features, 3, 2)
    return partial(DirichletNB(classes=range(2), max_count=2, max_total=100).fit, X, y)


def _many_cells(cells: int) -> Callable[[], object]:
    n, classes = 2000, 10
    rng = np.random.default_rng(0)
    features = cells // classes
    X = sparse.random_array((n, features), density=0.001, format="csr", rng=rng)
    X.data[:] = 1
    y = rng.integers(0, classes, n)
    return partial(DirichletNB(classes=range(classes), max_count=1, max_total=100).fit, X, y)


def _known_network(columns: int) -> Callable[[], object]:
    parents, table = workloads.chain(5000, columns, 4)
    states = {name: list(range(4)) for name in parents}
    return partial(PrivateBayesNetMLE(parents, states=states).fit, table)


def _learnt_network(columns: int) -> Callable[[], object]:
    parents, table = workloads.chain(2000, columns, 3)
    return partial(PrivateBayesNet({name: list(range(3)) for name in parents}).fit, table)
