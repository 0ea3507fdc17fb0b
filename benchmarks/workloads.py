"""Made-up records of any size, and the models that are timed on them, ours and the peers'."""

import warnings

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.naive_bayes import CategoricalNB, MultinomialNB
from sklearn.preprocessing import KBinsDiscretizer

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNetMLE,
    Schema,
)

#: Entries of a word-count row are clipped to the first, its total to the second.
WORD_BOUNDS = {"max_count": 3, "max_total": 150}
NUMBER_BOUNDS = (-10, 10)


def categories(n: int, features: int, sizes: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, sizes, (n, features)), rng.integers(0, classes, n)


def words(n: int, features: int, entries: int, classes: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Counts of words, few of which are frequent."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, n, entries))
    columns = (features * rng.random(entries) ** 2).astype(np.int32)
    X = sparse.csr_array((np.ones(entries), (rows, columns)), (n, features))
    return X, rng.integers(0, classes, n)


def sparse_counts(
    n: int, features: int, entries: int, classes: int, zipf: float | None = None
) -> tuple[sparse.csr_array, np.ndarray]:
    """Binary entries in uniform columns; with `zipf`, counts in Zipf-distributed columns."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, n, entries))
    if zipf is None:
        columns = rng.integers(0, features, entries)
    else:
        columns = np.minimum(rng.zipf(zipf, entries), features) - 1
    X = sparse.csr_array((np.ones(entries), (rows, columns)), (n, features))
    X.sum_duplicates()
    if zipf is None:
        X.data[:] = 1
    return X, rng.integers(0, classes, n)


def numbers(n: int, features: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, features))


def mixed_columns(n: int) -> tuple[Schema, pd.DataFrame]:
    """Return four columns each of texts, codes, whole numbers, numbers and dates."""
    rng = np.random.default_rng(0)
    texts = [f"category {k}" for k in range(20)]
    declared: dict[str, object] = {}
    columns = {}
    for k in range(4):
        declared |= {f"text {k}": texts, f"code {k}": list(range(50)), f"whole {k}": (0, 110)}
        declared |= {f"number {k}": (-10.0, 10.0), f"date {k}": ("2015-01-01", "2025-12-31")}
        days = np.datetime64("2015-01-01") + rng.integers(0, 4018, n)
        columns |= {
            f"text {k}": pd.Series(np.array(texts, object)[rng.integers(0, 20, n)], dtype=object),
            f"code {k}": rng.integers(0, 50, n),
            f"whole {k}": rng.integers(0, 111, n),
            f"number {k}": rng.normal(0, 3, n),
            f"date {k}": days.astype("M8[us]"),
        }
    return Schema(declared), pd.DataFrame(columns)


def alarm(n: int):
    """pgmpy's network alarm, and records of strings drawn from it."""
    from pgmpy.utils import get_example_model

    with warnings.catch_warnings():
        # The corresponding function of pgmpy downloads the network.
        warnings.simplefilter("ignore", FutureWarning)
        network = get_example_model("alarm")
    seed = network.simulate(1000, seed=0, show_progress=False)
    # Sampling with pgmpy itself would take minutes for a million records.
    learnt = PrivateBayesNetMLE(network, states=network.states, epsilon=float("inf")).fit(seed)
    return network, learnt.sample(n, random_state=0)


def chain(n: int, nodes: int, states: int) -> tuple[dict[str, list[str]], pd.DataFrame]:
    """A network in which each node has the one before as its parent, and records for it."""
    X, _ = categories(n, nodes, states, 1)
    names = [f"node {k}" for k in range(nodes)]
    parents = {name: names[max(0, k - 1) : k] for k, name in enumerate(names)}
    return parents, pd.DataFrame(X, columns=names)


def private_categorical(sizes: int, classes: int, **parameters) -> DirichletCategoricalNB:
    return DirichletCategoricalNB(classes=range(classes), n_categories=sizes, **parameters)


def private_multinomial(classes: int, **parameters) -> DirichletNB:
    return DirichletNB(classes=range(classes), **WORD_BOUNDS, **parameters)


def private_bins(**parameters) -> DirichletHistogramTransformer:
    return DirichletHistogramTransformer(
        **{"encode": "ordinal", "bounds": NUMBER_BOUNDS, **parameters}
    )


def plain_categorical(sizes: int) -> CategoricalNB:
    return CategoricalNB(min_categories=sizes)


def plain_multinomial() -> MultinomialNB:
    return MultinomialNB()


def plain_bins(encode: str = "ordinal") -> KBinsDiscretizer:
    """The same bins as ours without noise: quantiles of all rows."""
    return KBinsDiscretizer(
        10,
        encode=encode,
        strategy="quantile",
        subsample=None,
        quantile_method="averaged_inverted_cdf",
    )
