"""Fits and predictions of the naive Bayes classes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from skdirdp import DirichletNB

from ... import workloads
from ...timing import alternate
from .promise import Timing, largest_gap

INFINITE = float("inf")


def time_categorical(quick: bool) -> Iterator[Timing]:
    n, features, sizes, classes = (10_000 if quick else 1_000_000), 20, 10, 5
    X, y = workloads.categories(n, features, sizes, classes)
    ours, theirs = workloads.private_categorical(sizes, classes), workloads.plain_categorical(sizes)
    exact = workloads.private_categorical(sizes, classes, epsilon=INFINITE).fit(X, y)
    cells = ((X + sizes * np.arange(features)) * classes + y[:, np.newaxis]).ravel()
    ours.fit(X, y)  # calibrates
    times = alternate(
        partial(ours.fit, X, y), partial(theirs.fit, X, y), partial(np.bincount, cells), repeats=5
    )
    yield Timing(
        "DirichletCategoricalNB.fit",
        f"{n} x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "bincount of known cells",
        at_most_ratio=1 / 6,
        difference=largest_gap(exact.feature_log_prob_, theirs.feature_log_prob_),
    )
    times = alternate(
        partial(ours.predict, X),
        partial(theirs.predict, X),
        partial(_gather, [table.T.copy() for table in theirs.feature_log_prob_], X),
        repeats=3,
    )
    yield Timing(
        "DirichletCategoricalNB.predict",
        f"{n} x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "gather and add, column by column",
        at_most_ratio=1 / 1.5,
        difference=float(np.mean(exact.predict(X) != theirs.predict(X))),
    )
    few, labels = X[:150], y[:150]
    small = workloads.private_categorical(sizes, classes).fit(few, labels)
    times = alternate(
        partial(small.fit, few, labels),
        partial(theirs.fit, few, labels),
        partial(np.bincount, cells[: few.size]),
        repeats=3 if quick else 100,
    )
    yield Timing(
        "DirichletCategoricalNB.fit of 150 rows",
        f"150 x {features}",
        times[0],
        times[1],
        "CategoricalNB",
        times[2],
        "bincount of known cells",
        at_most_ratio=1.7,
    )


def time_multinomial(quick: bool) -> Iterator[Timing]:
    n, features, entries, classes = 100_000, 50_000, 10_000_000, 20
    if quick:
        n, features, entries = 1000, 500, 100_000
    X, y = workloads.words(n, features, entries, classes)
    ours, theirs = workloads.private_multinomial(classes), workloads.plain_multinomial()
    exact = workloads.private_multinomial(classes, epsilon=INFINITE).fit(X, y)
    cells = np.repeat(y * features, np.diff(X.indptr)) + X.indices
    case = f"{n} x {features}, {entries} entries"
    # A first fit is one with a budget that was not calibrated for yet.
    others = iter(
        [workloads.private_multinomial(classes, epsilon=1 + k / 1000) for k in range(1, 10)]
    )
    ours.fit(X, y)
    first, warm, peer, plain = alternate(
        lambda: next(others).fit(X, y),
        partial(ours.fit, X, y),
        partial(theirs.fit, X, y),
        partial(np.bincount, cells, X.data),
        repeats=3 if quick else 9,
    )
    for what, found in (
        ("DirichletNB.fit", warm),
        ("DirichletNB.fit, the first, calibration included", first),
    ):
        yield Timing(
            what,
            case,
            found,
            peer,
            "MultinomialNB",
            plain,
            "weighted bincount of known cells",
            at_most_ratio=1.3,
            difference=largest_gap(exact.feature_log_prob_, theirs.feature_log_prob_),
        )
    times = alternate(
        partial(ours.predict, X),
        partial(theirs.predict, X),
        partial(X.__matmul__, theirs.feature_log_prob_.T),
        repeats=3 if quick else 9,
    )
    yield Timing(
        "DirichletNB.predict",
        case,
        times[0],
        times[1],
        "MultinomialNB",
        times[2],
        "the sparse product",
        at_most_ratio=1.05,
        difference=float(np.mean(exact.predict(X) != theirs.predict(X))),
    )


def time_counts(quick: bool) -> Iterator[Timing]:
    """Fits of binary entries and of counts with Zipf-distributed columns."""
    n, features, entries, classes = 100_000, 50_000, 10_000_000, 20
    if quick:
        n, features, entries = 1000, 500, 100_000
    for kind, zipf, max_count in (("binary entries", None, 1), ("Zipf-distributed counts", 1.3, 3)):
        X, y = workloads.sparse_counts(n, features, entries, classes, zipf)
        model = DirichletNB(classes=range(classes), max_count=max_count, max_total=150)
        yield _compare_with_multinomial(
            f"DirichletNB.fit of {kind}", X, y, model, repeats=3 if quick else 9, at_most_ratio=1.3
        )


def time_small_tables(quick: bool) -> Iterator[Timing]:
    """Fits of small tables, which spend their time on fixed costs."""
    repeats = 3 if quick else 100
    X, y = load_digits(return_X_y=True)
    model = DirichletNB(classes=range(10), max_count=16, max_total=400)
    yield _compare_with_multinomial(
        "DirichletNB.fit of small tables", X, y, model, repeats=repeats, at_most_ratio=1.7
    )
    X, y = workloads.categories(150, 20, 10, 5)
    model = DirichletNB(classes=range(5), max_count=9, max_total=180)
    yield _compare_with_multinomial(
        "DirichletNB.fit of small tables", X, y, model, repeats=repeats, at_most_ratio=1.7
    )


def _compare_with_multinomial(
    what: str, X: Any, y: np.ndarray, model: DirichletNB, *, repeats: int, at_most_ratio: float
) -> Timing:
    """Compare the fit with that of MultinomialNB; without noise and bounds both are equal."""
    theirs = workloads.plain_multinomial()
    exact = clone(model).set_params(epsilon=INFINITE).fit(X, y)
    model.fit(X, y)  # calibrates
    times = alternate(partial(model.fit, X, y), partial(theirs.fit, X, y), repeats=repeats)
    entries = f", {X.nnz} entries" if sparse.issparse(X) else ""
    return Timing(
        what,
        f"{X.shape[0]} x {X.shape[1]}{entries}",
        times[0],
        times[1],
        "MultinomialNB",
        at_most_ratio=at_most_ratio,
        difference=largest_gap(exact.feature_log_prob_, theirs.feature_log_prob_),
    )


def _gather(tables: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    return sum(table[column] for table, column in zip(tables, X.T, strict=True))
