"""Worst-case neighbouring data sets for audits of this library's estimators.

The differing record attains all contribution bounds. The cells that it changes are otherwise empty
or, if an attack sees only published attributes, contain so many records that no noisy count is
clipped at 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from .._validation import check_choice
from ..bayes_net import PrivateBayesNet, PrivateBayesNetMLE
from ..crosstab import PrivateCrosstab
from ..federated import Aggregator, FederatedRound
from ..histogram import DirichletHistogramTransformer
from ..naive_bayes import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletNB,
)
from ..pipeline import PrivatePipeline
from ..posterior import PrivateDirichletPosterior
from ..schema import Schema
from ..table_classifier import PrivateTableClassifier
from ..text import PrivateCountVectorizer
from .releases import table_score

#: Number of records that both data sets share, in a cell whose count does not change.
_N_SHARED = 20
#: Number of states of each column of a network.
_STATES = 6


class Case(NamedTuple):
    """Estimator with two neighbouring data sets, and an optional attack score.

    Parameters
    ----------
    estimator : estimator
        Estimator with its budget.
    first, second : tuple
        Arguments to `fit` for each of the two data sets.
    score : callable or None
        See `audit`.
    """

    estimator: Any
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    score: Callable[[Any], float] | None = None


def case_names() -> list[str]:
    """Return the names of all predefined cases.

    Returns
    -------
    list of str
    """
    return list(_CASES)


def predefined_case(
    name: str,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: str = "replace",
    mechanism: str | None = None,
) -> Case:
    """Return an estimator from this library with two worst-case neighbouring data sets.

    Parameters
    ----------
    name : str
        One of the names that `case_names` returns.
    epsilon, delta : float, default=1.0, 1e-5
        Budget of the estimator. `PrivateDirichletPosterior` has no delta.
    adjacency : {"replace", "add_remove"}, default="replace"
        Adjacency of the data sets. `PrivateDirichletPosterior` supports only "replace".
    mechanism : str, default=None
        Mechanism of the estimator, if it has this parameter; None for its default. All steps of a
        pipeline use it.

    Returns
    -------
    Case

    Examples
    --------
    >>> from skdirdp.audit import predefined_case
    >>> case = predefined_case("DirichletNB", epsilon=2.0)
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
    """Return the two data sets; under add_remove, the second does not contain the first record."""
    rest = np.asarray(rest)
    first = np.concatenate([[one], rest])
    return first, rest if adjacency == "add_remove" else np.concatenate([[other], rest])


def _large_count(parameters: dict[str, Any]) -> int:
    """Return a count so large that noise does not reduce it to 0 or below a threshold."""
    return int(np.ceil(200 / min(parameters["epsilon"], 1.0)))


def _labelled(estimator: Any, tables: tuple[np.ndarray, np.ndarray]) -> Case:
    """Return a case for a classifier; the first column contains the labels."""
    first, second = ((table[:, 1:], table[:, 0]) for table in tables)
    return Case(estimator, first, second)


def _multinomial(estimator_class: Any) -> Callable[[str, dict[str, Any]], Case]:
    def case(adjacency: str, parameters: dict[str, Any]) -> Case:
        rest = [[0, 0, 0, 0, 0, 1]] * _N_SHARED
        tables = _tables(adjacency, [0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0], rest)
        sizes = {"max_count": 1, "max_total": 2, "n_samples": _N_SHARED}
        return _labelled(estimator_class(classes=[0, 1], **sizes, **parameters), tables)

    return case


def _bernoulli(adjacency: str, parameters: dict[str, Any]) -> Case:
    rest = [[0, 0, 0], [1, 0, 0]] * _N_SHARED
    tables = _tables(adjacency, [0, 1, 1], [1, 1, 1], rest)
    return _labelled(
        DirichletBernoulliNB(classes=[0, 1], n_samples=_N_SHARED, **parameters), tables
    )


def _categorical(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0, 0, 0], [1, 1, 1], [[0, 2, 2]] * _N_SHARED)
    model = DirichletCategoricalNB(
        classes=[0, 1], n_categories=3, n_samples=_N_SHARED, **parameters
    )
    return _labelled(model, tables)


def _three_bins(**parameters: Any) -> DirichletHistogramTransformer:
    """Return a transformer with three public bins."""
    return DirichletHistogramTransformer(
        n_bins=3,
        bounds=(0, 3),
        n_fine_bins=3,
        fine_scale="linear",
        strategy="uniform",
        encode="ordinal",
        n_samples=_N_SHARED,
        **parameters,
    )


def _histogram(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0.5, 0.5], [1.5, 1.5], [[2.5, 2.5]] * _N_SHARED)
    return Case(_three_bins(**parameters), (tables[0],), (tables[1],))


def _bin_counts(adjacency: str, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact bin counts of each column, for both data sets."""
    other = [0.0, float(adjacency == "replace"), _N_SHARED]
    first, second = np.array([1.0, 0.0, _N_SHARED]), np.array(other)
    return np.tile(first, (n_columns, 1)), np.tile(second, (n_columns, 1))


def _pipeline(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0.5], [1.5], [[2.5]] * _N_SHARED)
    chosen = {name: parameters.pop(name) for name in ("mechanism",) if name in parameters}
    # The second step counts the bins that the first step returns.
    steps = [("bins", _three_bins(**chosen)), ("again", _three_bins(**chosen))]
    first, second = _bin_counts(adjacency, 1)

    def score(model: PrivatePipeline) -> float:
        """Return the log-likelihood ratio of the histograms of both steps."""
        return sum(
            table_score(step.privacy_.mechanisms[0][0], step.release_[0], first[0], second[0])
            for _, step in model.steps
        )

    return Case(PrivatePipeline(steps, **parameters), (tables[0],), (tables[1],), score)


class _NullAccountant:
    """Accountant that ignores all charges, for the parties in an audit."""

    def charge(self, *args: Any, **kwargs: Any) -> None:
        """Ignore a charge."""


class _Parties:
    """Estimator that runs one federated round in this process; the last party colludes.

    The colluding party reveals its share, so the sum of the others is known.
    """

    def __init__(self, round_: FederatedRound) -> None:
        self.round = round_

    def __sklearn_clone__(self) -> "_Parties":
        return _Parties(self.round)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def set_params(self, **parameters: Any) -> "_Parties":
        return self

    def fit(self, *parties: dict[str, Any]) -> "_Parties":
        aggregator = Aggregator(self.round)
        for name, records in enumerate(parties):
            share = self.round.draw_share(records, accountant=_NullAccountant())
            aggregator.add(name, share)
        sums, n_present = aggregator.total()
        self.sums_ = (sums - share.values) % (1 << self.round.bits)
        self.privacy_ = self.round.fit(sums, n_present).privacy_
        return self


def _federated(adjacency: str, parameters: dict[str, Any]) -> Case:
    tables = _tables(adjacency, [0.5, 0.5], [1.5, 1.5], [[2.5, 2.5]] * _N_SHARED)
    estimator, example = _three_bins(**parameters), {"X": np.array([[2.5, 2.5]])}
    round_ = FederatedRound(estimator, example, round_id="audit", n_parties=3, max_colluders=1)
    # Each party has a third of the records. The differing record belongs to the first party.
    first, second = (tuple({"X": part} for part in np.array_split(table, 3)) for table in tables)
    counts = [each.ravel() for each in _bin_counts(adjacency, 2)]
    known = np.bincount(np.floor(first[-1]["X"][:, 0]).astype(int), minlength=3)
    honest = [each - np.tile(known, 2) for each in counts]
    r, alpha = np.array([table[3:] for table in round_.contract["tables"]]).repeat(3, axis=0).T
    shapes = [r * each + 2 * alpha for each in honest]

    def score(model: _Parties) -> float:
        """Return the log-likelihood ratio of Poisson variables with gamma means."""
        logs = [gammaln(model.sums_ + s) - gammaln(s) - s * np.log1p(round_.ratio) for s in shapes]
        return float(np.sum(logs[0] - logs[1]))

    return Case(_Parties(round_), first, second, score)


def _network_with_structure(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    tables = _tables(adjacency, [0, 0], [1, 1], [[2, 2]] * _N_SHARED)
    first, second = (pd.DataFrame(table, columns=["a", "b"]) for table in tables)
    states = {"a": [0, 1, 2], "b": [0, 1, 2]}
    structure: dict[str, list[str]] = {"a": [], "b": ["a"]}
    model = PrivateBayesNetMLE(structure, states=states, n_samples=_N_SHARED, **parameters)
    return Case(model, (first,), (second,))


def _crosstab(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    tables = _tables(adjacency, [0, 0], [1, 1], [[2, 2]] * _N_SHARED)
    first, second = (pd.DataFrame(table, columns=["a", "b"]) for table in tables)
    schema = Schema({"a": [0, 1, 2], "b": [0, 1, 2]})
    margins = [("a",), ("b",), ("a", "b")]
    model = PrivateCrosstab(schema, margins, n_samples=_N_SHARED, **parameters)
    return Case(model, (first,), (second,))


class _ClassifierWithTables(PrivateTableClassifier):
    """Classifier that stores its first releases: noisy class counts and class tables."""

    def _release_labels(self, *arguments: Any) -> Any:
        plan, self.labels_ = super()._release_labels(*arguments)
        return plan, self.labels_

    def _set_model(self, model: Any, tables: Any, variances: Sequence[np.ndarray]) -> None:
        super()._set_model(model, tables, variances)
        self.class_tables_ = tables.noisy, tables.sigma


def _table_classifier(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    # With so few records, 93% of the budget is spent on class counts and class tables. The later
    # steps depend on them, and are not audited.
    tables = _tables(adjacency, [0, 0], [1, 1], [[0, 0], [0, 1], [1, 0], [1, 1]] * 2)
    first, second = (pd.DataFrame(table, columns=["label", "a"]) for table in tables)
    schema = Schema({"label": [0, 1], "a": [0, 1]})
    parameters.pop("mechanism", None)  # the noise is always Gaussian
    weights = np.diag([1.0, -1.0 if adjacency == "replace" else 0.0])

    def score(model: _ClassifierWithTables) -> float:
        """Return the log-likelihood ratio of both releases, up to a factor and a constant."""
        (labels, noise), (tables, sigma) = model.labels_, model.class_tables_
        table_term = sum(np.sum(weights * table[:, :2]) for table in tables)
        return float(np.diag(weights) @ labels / noise**2 + table_term / sigma**2)

    model = _ClassifierWithTables(schema, n_samples=len(first), **parameters)
    return Case(model, (first, "label"), (second, "label"), score)


def _network(adjacency: str, parameters: dict[str, Any]) -> Case:
    import pandas as pd

    states = list(range(_STATES))
    rest = np.repeat(np.column_stack([states, states]), _large_count(parameters), axis=0)
    tables = _tables(adjacency, [0, 0], [1, 1], rest)
    first, second = (pd.DataFrame(table, columns=["a", "b"]) for table in tables)
    model = PrivateBayesNet(states={"a": states, "b": states}, postprocess=False, **parameters)
    return Case(model, (first,), (second,), _network_score)


def _network_score(model: PrivateBayesNet) -> float:
    """Return the precision-weighted change in the released counts of both columns and the pair."""
    # Counts are known only up to a factor, so an added record is visible only in ratios of counts.
    weights = np.full(_STATES, -1 / (_STATES - 1))
    if model.adjacency == "replace":
        weights = np.where(np.arange(_STATES) == 1, -1.0, 0.0)
    weights[0] = 1.0
    columns = sum(weights @ each.group_shares[:_STATES] for each in model._released_.values())
    child = next(name for name, parents in model.structure_.items() if parents)
    (parent,) = model.structure_[child]
    joint = model.probabilities_[parent][0] * np.diag(model.probabilities_[child])
    (sigma,) = model.sigma_["cliques"].values()
    weighted = columns / model.sigma_["columns"] ** 2 + weights @ joint / sigma**2
    return float(model.n_records_ * weighted)


def _vectorizer(adjacency: str, parameters: dict[str, Any]) -> Case:
    first = ["one", *["one", "two"] * _large_count(parameters)]
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
    "PrivateCrosstab": _crosstab,
    "PrivateDirichletPosterior": _posterior,
    "PrivatePipeline": _pipeline,
    "PrivateTableClassifier": _table_classifier,
    "FederatedRound": _federated,
}
