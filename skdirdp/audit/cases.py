"""Worst neighbours of the estimators of this library, for audits.

The record that changes fills all its bounds, in cells that are otherwise empty or, where only
published attributes are seen, in cells that are so full that no count is cut off at 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._validation import check_choice
from ..bayes_net import PrivateBayesNet, PrivateBayesNetMLE
from ..histogram import DirichletHistogramTransformer
from ..naive_bayes import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletNB,
)
from ..posterior import PrivateDirichletPosterior
from ..text import PrivateCountVectorizer

#: Records that both data sets have, in a cell that does not change.
_CROWD = 20
#: Number of states of each column of a network.
_STATES = 6


class Case(NamedTuple):
    """Estimator with two neighbouring data sets, and a score if it needs one.

    Parameters
    ----------
    estimator : estimator
        Estimator with its budget.
    first, second : tuple
        Arguments of `fit`.
    score : callable or None
        As in `audit`.
    """

    estimator: Any
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    score: Callable[[Any], float] | None = None


def case_names() -> list[str]:
    """Return the names of all ready cases.

    Returns
    -------
    list of str
    """
    return list(_CASES)


def ready_case(
    name: str,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: str = "replace",
    mechanism: str | None = None,
) -> Case:
    """Return an estimator of this library with its worst neighbours.

    Parameters
    ----------
    name : str
        One of `case_names`.
    epsilon, delta : float, default=1.0, 1e-5
        Budget of the estimator. A posterior has no delta.
    adjacency : {"replace", "add_remove"}, default="replace"
        Relation of the neighbours. A posterior has "replace" only.
    mechanism : str, default=None
        Mechanism of the estimator, if it has this parameter; None for its default.

    Returns
    -------
    Case

    Examples
    --------
    >>> from skdirdp.audit import ready_case
    >>> case = ready_case("DirichletNB", epsilon=2.0)
    >>> case.estimator.epsilon, len(case.first[0]), len(case.second[0])
    (2.0, 21, 21)
    """
    check_choice("name", name, tuple(_CASES))
    check_choice("adjacency", adjacency, ("replace", "add_remove"))
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    if mechanism is not None:
        parameters["mechanism"] = mechanism
    return _CASES[name](adjacency, parameters)


def _tables(adjacency: str, one: Any, other: Any, rest: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the two data sets; under add_remove the second lacks the record."""
    rest = np.asarray(rest)
    first = np.concatenate([[one], rest])
    return first, rest if adjacency == "add_remove" else np.concatenate([[other], rest])


def _many(parameters: dict[str, Any]) -> int:
    """Return a number of records that noise reduces neither to 0 nor below a threshold."""
    return int(np.ceil(200 / min(parameters["epsilon"], 1.0)))


def _labelled(estimator: Any, tables: tuple[np.ndarray, np.ndarray]) -> Case:
    """Return the case of a classifier; the first column has the labels."""
    first, second = ((table[:, 1:], table[:, 0]) for table in tables)
    return Case(estimator, first, second)


def _multinomial(kind: Any) -> Callable[[str, dict[str, Any]], Case]:
    def case(adjacency: str, parameters: dict[str, Any]) -> Case:
        rest = [[0, 0, 0, 0, 0, 1]] * _CROWD
        tables = _tables(adjacency, [0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0], rest)
        sizes = {"max_count": 1, "max_total": 2, "n_samples": _CROWD}
        return _labelled(kind(classes=[0, 1], **sizes, **parameters), tables)

    return case


def _bernoulli(adjacency: str, parameters: dict[str, Any]) -> Case:
    rest = [[0, 0, 0], [1, 0, 0]] * _CROWD
    tables = _tables(adjacency, [0, 1, 1], [1, 1, 1], rest)
    return _labelled(DirichletBernoulliNB(classes=[0, 1], n_samples=_CROWD, **parameters), tables)


def _categorical(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0, 0, 0], [1, 1, 1], [[0, 2, 2]] * _CROWD)
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=3, n_samples=_CROWD, **parameters)
    return _labelled(model, tables)


def _histogram(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0.5, 0.5], [1.5, 1.5], [[2.5, 2.5]] * _CROWD)
    model = DirichletHistogramTransformer(
        n_bins=3,
        bounds=(0, 3),
        n_fine_bins=3,
        fine_scale="linear",
        strategy="uniform",
        encode="ordinal",
        n_samples=_CROWD,
        **parameters,
    )
    return Case(model, (tables[0],), (tables[1],))


def _network_with_structure(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    tables = _tables(adjacency, [0, 0], [1, 1], [[2, 2]] * _CROWD)
    first, second = (pd.DataFrame(table, columns=["a", "b"]) for table in tables)
    states = {"a": [0, 1, 2], "b": [0, 1, 2]}
    structure: dict[str, list[str]] = {"a": [], "b": ["a"]}
    model = PrivateBayesNetMLE(structure, states=states, n_samples=_CROWD, **parameters)
    return Case(model, (first,), (second,))


def _network(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    states = list(range(_STATES))
    rest = np.repeat(np.column_stack([states, states]), _many(parameters), axis=0)
    tables = _tables(adjacency, [0, 0], [1, 1], rest)
    first, second = (pd.DataFrame(table, columns=["a", "b"]) for table in tables)
    model = PrivateBayesNet(states={"a": states, "b": states}, postprocess=False, **parameters)
    return Case(model, (first,), (second,), _network_score)


def _network_score(model: PrivateBayesNet) -> float:
    """Return the changes of the released counts of columns and of their pair, by precision."""
    # Counts are known up to a factor, so a new record is seen by comparison with other cells.
    weights = np.full(_STATES, -1 / (_STATES - 1))
    if model.adjacency == "replace":
        weights = np.where(np.arange(_STATES) == 1, -1.0, 0.0)
    weights[0] = 1.0
    columns = sum(weights @ each.group_shares[:_STATES] for each in model._released_.values())
    child = next(name for name, parents in model.structure_.items() if parents)
    (parent,) = model.structure_[child]
    joint = model.probabilities_[parent][0] * np.diag(model.probabilities_[child])
    (sigma,) = model.sigma_["cliques"].values()
    precise = columns / model.sigma_["columns"] ** 2 + weights @ joint / sigma**2
    return float(model.n_records_ * precise)


def _vectorizer(adjacency: str, parameters: dict[str, Any]) -> Case:
    first = ["one", *["one", "two"] * _many(parameters)]
    second = ["two", *first[1:]] if adjacency == "replace" else first[1:]
    model = PrivateCountVectorizer(max_words=1, max_features=2, **parameters)
    return Case(model, (first,), (second,))


def _posterior(adjacency: str, parameters: dict[str, Any]) -> Case:
    if adjacency != "replace":
        raise ValueError("adjacency must be 'replace' for PrivateDirichletPosterior")
    given = {name: parameters[name] for name in ("epsilon", "mechanism") if name in parameters}
    model = PrivateDirichletPosterior(n_categories=2, **given)
    return Case(model, ([0],), ([1],), lambda model: float(model.mean_[0] - model.mean_[1]))


_CASES: dict[str, Callable[[str, dict[str, Any]], Case]] = {
    "DirichletNB": _multinomial(DirichletNB),
    "DirichletComplementNB": _multinomial(DirichletComplementNB),
    "DirichletBernoulliNB": _bernoulli,
    "DirichletCategoricalNB": _categorical,
    "DirichletHistogramTransformer": _histogram,
    "PrivateBayesNetMLE": _network_with_structure,
    "PrivateBayesNet": _network,
    "PrivateCountVectorizer": _vectorizer,
    "PrivateDirichletPosterior": _posterior,
}
