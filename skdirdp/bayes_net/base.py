"""Base class of released Bayesian networks, and computations on whole columns of state codes."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._contributions import UNWEIGHTED, Weights, count_cells
from .._messages import warn
from .._persons import CountedRows, Unit
from .._random import sampling_generator
from .._validation import check_integer
from ..base import CountingEstimator
from ..engines import lazy_for_dask
from ..postprocessing import NoisyTable
from ..postprocessing.estimates import Scores, draw_counts
from ..postprocessing.margins import choose_records
from ..schema import Records, as_records
from ..table_classifier import PrivateTableClassifier
from ..table_classifier.model import AdditiveModel, softmax
from ..table_classifier.releases import EncodedRecords, RecordCounts, Releases

# Pseudo-count of each cell of a drawn table, as in Jeffreys' prior; in large tables they add up to
# this share of the records.
_PSEUDO_COUNT, _PSEUDO_SHARE = 0.5, 0.02
# Columns with at least this many numbers have scores. Tables of columns with fewer states have few
# cells.
MIN_SCORES = 4
# Shapes of gamma variables are positive.
_TINY = 1e-9
# Synthetic tables have this many times the records of the fit: fewer widen the intervals.
_TIMES_RECORDS = 5
# Records for each cell and standard deviation of its noise below which intervals from synthetic
# tables may be wrong: benchmarks/RESULTS.md, synthesis-inference.
_MIN_RECORDS_PER_CELL = 3.0

#: Parents of each node; every node stands after its parents.
Parents = dict[Hashable, tuple[Hashable, ...]]
#: State codes of each column.
Codes = Mapping[Hashable, np.ndarray]
#: Probabilities of each node: rows are configurations of the parents, columns its states.
Tables = Mapping[Hashable, np.ndarray]

# Records that are drawn from the network to match the shares of the target's states, and the number
# of steps, which change log odds by at most 1 each.
_N_MATCHED, _SHARE_STEPS = 10_000, 20
# Labels of this many records with similar probabilities are drawn together.
_LABEL_BLOCK = 20
# With a condition on the target, this many candidates are drawn for each record, and at least
# this many in all.
_CANDIDATES, _MIN_CANDIDATES = 5, 1000


def check_evidence(
    records: Records, fitted: Sequence[Hashable], others: Sequence[Hashable]
) -> None:
    """Raise an error for unknown column names if columns are missing as well.

    If both occur, a column was probably renamed, and would be treated as left out.
    """
    missing = [node for node in others if node not in records.names]
    unknown = [name for name in records.names if name not in fitted]
    if missing and unknown:
        raise ValueError(
            f"X must have columns of the names that were fitted; it lacks {missing} and has "
            f"{unknown}, which fit did not see. Leave a column out if it is not known"
        )
    if others and records.names and len(missing) == len(others):
        warn("X has no column of a node but the target: all records get the same prediction")


@dataclass(frozen=True)
class Family:
    """A node and its parents: a table with one row for each configuration of the parents.

    Rows are in the order in which `itertools.product` lists the parents' states.
    """

    node: Hashable
    parents: tuple[Hashable, ...]
    n_states: int
    parent_states: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return prod(self.parent_states)

    @property
    def n_cells(self) -> int:
        return self.n_rows * self.n_states

    def row_numbers(self, codes: Codes) -> np.ndarray:
        """Return the row of the table of each record."""
        if not self.parents:
            return np.zeros(len(codes[self.node]), dtype=np.intp)
        rows = codes[self.parents[0]]
        for parent, size in zip(self.parents[1:], self.parent_states[1:], strict=True):
            rows = rows * size + codes[parent]
        return rows

    def count(self, codes: Codes, weights: Weights = UNWEIGHTED) -> np.ndarray:
        """Return the number of records in each cell; each record is in one."""
        cells = codes[self.node]
        if self.parents:
            cells = self.row_numbers(codes) * self.n_states + cells
        return count_cells(cells, self.n_cells, weights).reshape(self.n_rows, self.n_states)

    def stride(self, parent: Hashable) -> int:
        """Return the distance between the rows of successive states of a parent."""
        return prod(self.parent_states[self.parents.index(parent) + 1 :])


Families = Mapping[Hashable, Family]


def count_joint(nodes: Sequence[Hashable], shape: tuple[int, ...], codes: Codes) -> np.ndarray:
    """Return the number of records in each combination of states, with an axis per node."""
    family = Family(nodes[-1], tuple(nodes[:-1]), shape[-1], shape[:-1])
    return family.count(codes).reshape(shape)


def state_numbers(states: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and variance of the numbers in each state, NaN and 0 for other states."""
    means, variances = np.full(len(states), np.nan), np.zeros(len(states))
    for i, state in enumerate(states):
        if isinstance(state, pd.Interval) and isinstance(state.length, Real):
            # Both ends of a range of whole numbers belong to it.
            whole = state.closed == "both"
            means[i] = float(state.mid)
            variances[i] = ((float(state.length) + whole) ** 2 - whole) / 12
        elif isinstance(state, Real) and not isinstance(state, bool):
            means[i] = float(state)
    return means, variances


def _has_target(network: Any) -> bool:
    """Return whether a network can predict; raise an error that says why not."""
    if network.target is None:
        raise AttributeError("target must be given to predict; got None")
    return True


@dataclass(frozen=True)
class StateColumn:
    """A column of state codes, in place of a column of `PrivateTableClassifier`."""

    name: Hashable
    n_codes: int
    is_ordered: bool
    grid: None = None  # states are not binned again
    has_missing: bool = False  # missing values are one of the states

    def labels(self, bins: np.ndarray) -> list[Hashable]:
        """Return the state codes."""
        return list(range(self.n_codes))


@dataclass(frozen=True)
class TargetModel:
    """Released additive model of the target's states, given the states of all other columns."""

    target: Hashable
    columns: list[Hashable]
    model: AdditiveModel
    # Added to the intercepts for synthetic records, whose columns depend less on each other.
    shift: np.ndarray

    @classmethod
    def learn(
        cls,
        target: Hashable,
        columns: Sequence[StateColumn],
        n_states: int,
        codes: Codes,
        releases: Releases,
        total: float,
    ) -> "TargetModel":
        """Release a model by the steps of `PrivateTableClassifier`; `total` is released."""
        classifier, names = PrivateTableClassifier(), [column.name for column in columns]
        classifier._columns_ = list(columns)  # type: ignore[arg-type]
        classifier.classes_ = np.arange(n_states)
        n_records = len(codes[target])
        features = [codes[name] for name in names]
        counted = CountedRows(Unit(), n_records)
        records = EncodedRecords(features, codes[target], UNWEIGHTED, counted, {})
        classifier._learn(RecordCounts(records), releases, total, n_records)
        model = classifier._model_
        # Unknown states, with the code -1, have the mean effect, which is 0, in the last row.
        effects = [np.vstack([effect, np.zeros(n_states)]) for effect in model.effects]
        return cls(target, names, replace(model, effects=effects), np.zeros(n_states))

    def match_shares(
        self, families: Families, tables: Tables, choose: Callable[[Codes], Codes]
    ) -> "TargetModel":
        """Return the model whose synthetic records have the network's shares of the target.

        `choose` selects records as those of a sample are selected.
        """
        # Post-processing: the seed is public, and the same for each fit.
        codes = sample_codes(families, tables, _N_MATCHED, np.random.default_rng(0), even=True)
        counts = np.bincount(codes[self.target], minlength=len(self.shift)) + 0.5
        scores, shift = self._scores(choose(codes)), np.zeros(len(counts))
        for _ in range(_SHARE_STEPS):
            means = softmax(scores + shift).mean(axis=0)
            shift += np.clip(np.log(counts / counts.sum()) - np.log(means), -1.0, 1.0)
        return replace(self, shift=shift)

    def _scores(self, codes: Codes) -> np.ndarray:
        found = [codes[name] for name in self.columns]
        unknown = [len(effect) - 1 for effect in self.model.effects]
        return self.model.scores(
            [np.where(each < 0, last, each) for each, last in zip(found, unknown, strict=True)]
        )

    def probabilities(self, codes: Codes) -> np.ndarray:
        """Return the probabilities of the target's states; the code of unknown states is -1."""
        return softmax(self._scores(codes))

    def record_probabilities(self, codes: Codes) -> np.ndarray:
        """Return the probabilities with which the target of synthetic records is drawn."""
        return softmax(self._scores(codes) + self.shift)

    def score(self, families: Families, tables: Tables, codes: Codes) -> np.ndarray:
        """Return the log-likelihood of synthetic records with these codes."""
        labels, n_records = codes[self.target], len(codes[self.target])
        given = self.record_probabilities(codes)[np.arange(n_records), labels]
        joint = _target_log_joint(families, tables, codes, self.target, n_records)
        rest = {
            node: family
            for node, family in families.items()
            if node != self.target and self.target not in family.parents
        }
        return np.log(given) + logsumexp(joint, axis=1) + log_likelihood(rest, tables, codes)

    def draw_labels(
        self, codes: Codes, weights: np.ndarray | None, generator: np.random.Generator
    ) -> np.ndarray:
        """Draw the target of records, given their other columns.

        A record of each state of the target meets a condition with the probability in `weights`.
        """
        found = self.record_probabilities(codes)
        if weights is not None:
            found = found * weights
            found /= found.sum(axis=1, keepdims=True)
        return _draw_labels(found, generator)

    def draw_given(
        self,
        families: Families,
        tables: Tables,
        conditioned: Tables,
        weights: np.ndarray,
        n_samples: int,
        generator: np.random.Generator,
    ) -> dict[Hashable, np.ndarray]:
        """Draw state codes under conditions, one of which is on the target, without the target.

        The network `conditioned` proposes candidates. Records are selected from them by the ratio
        of the probabilities that this model and the network `tables` give to the condition, which a
        record of each state of the target meets with the probability in `weights`.
        """
        size = max(_CANDIDATES * n_samples, _MIN_CANDIDATES)
        found = sample_codes(families, conditioned, size, generator, even=True)
        labels = self.record_probabilities(found) * weights
        proposed = target_probabilities(families, tables, found, self.target, size) @ weights
        rows = choose_records(labels.sum(axis=1) / proposed, n_samples, generator)
        return {name: each[rows] for name, each in found.items()}


class BaseBayesNet(DensityMixin, CountingEstimator):
    """Base class of the estimators that release a discrete Bayesian network.

    A subclass sets the annotated attributes in its `fit`, and converts values into state codes.
    """

    target: Any
    structure_: Parents
    states_: dict[Hashable, list]
    probabilities_: dict[Hashable, np.ndarray]
    columns_: list[Hashable]
    #: Model of the target that is released next to the network, if there is one.
    _target_model_: TargetModel | None = None
    # All columns of X, with those that are not modelled.
    _order_: Sequence[Hashable] = ()
    # Whether `sample` spreads records evenly, so that counts vary less than by chance.
    _draws_evenly = True

    @abstractmethod
    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        """Return the state codes of a column, negative for missing values."""

    @abstractmethod
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each record."""

    @cached_property
    def model_(self) -> Any:
        """Released pgmpy network."""
        check_is_fitted(self)
        # Importing pgmpy takes seconds, and most uses do without.
        from pgmpy.factors.discrete import TabularCPD
        from pgmpy.models import DiscreteBayesianNetwork

        network = DiscreteBayesianNetwork()
        network.add_nodes_from(self.structure_)
        for node, family in self._families.items():
            network.add_edges_from((parent, node) for parent in family.parents)
            network.add_cpds(
                TabularCPD(
                    node,
                    family.n_states,
                    self.probabilities_[node].T,
                    evidence=list(family.parents),
                    evidence_card=list(family.parent_states),
                    state_names={name: self.states_[name] for name in (node, *family.parents)},
                )
            )
        return network

    @property
    def classes_(self) -> np.ndarray:
        """States of the target."""
        check_is_fitted(self)
        if self.target is None:
            raise AttributeError("classes_ are the states of target, which is not given")
        states = self.states_[self.target]
        # States of mixed types stay objects: numpy would convert them to strings.
        if {type(state) for state in states} in ({str}, {int}, {float}, {bool}):
            return np.array(states)
        labels = np.empty(len(states), dtype=object)
        labels[:] = states
        return labels

    @property
    def _families(self) -> dict[Hashable, Family]:
        sizes = {node: len(states) for node, states in self.states_.items()}
        return {
            node: Family(node, parents, sizes[node], tuple(sizes[parent] for parent in parents))
            for node, parents in self.structure_.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("model_", None)  # a cached network of pgmpy
        sigma = state.get("sigma_")
        if isinstance(sigma, dict) and "cliques" in sigma:
            # Files of skops have no tuples as keys.
            state["sigma_"] = {**sigma, "cliques": list(sigma["cliques"].items())}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        sigma = vars(self).get("sigma_")
        if isinstance(sigma, dict) and "cliques" in sigma:
            self.sigma_ = {**sigma, "cliques": dict(map(tuple, sigma["cliques"]))}

    def __sklearn_is_fitted__(self) -> bool:
        return "privacy_" in vars(self)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood per record.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)
        y : Ignored
        """
        return float(np.mean(self.score_samples(X)))

    @available_if(_has_target)
    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the target's states given the other columns.

        If a column of the target's Markov blanket is absent, or missing in a record (nan or
        None), pgmpy's exact inference uses all known values, once for each distinct record.
        `PrivateBayesNet` predicts by its model of the target if no column is left out, and a
        missing value that is not a state has the mean effect of its column.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)
            The column of the target is not used. Columns may be left out, but then columns
            that `fit` did not see are an error: they may be renamed ones.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
            In the order of `classes_`. Equal probabilities if the known values of a record
            have probability zero, which is possible only without noise.
        """
        check_is_fitted(self)
        self._check_target()
        records = as_records(X, self.columns_, optional=self.target)
        others = [node for node in self.structure_ if node != self.target]
        check_evidence(records, [*self.columns_, *self._order_], others)
        present = [node for node in others if node in records.names]
        model = self._target_model_
        # The parameter may have changed after the fit, and columns may be left out.
        if model is not None and model.target == self.target and len(present) == len(others):
            return model.probabilities({n: self._partial_codes(records, n) for n in others})
        return self._predict_by_network(records, present)

    def _predict_by_network(self, records: Records, present: Sequence[Hashable]) -> np.ndarray:
        """Return target probabilities given the present columns, from the network alone."""
        families = self._families
        needed = markov_blanket(families, self.target)
        codes = {node: self._partial_codes(records, node) for node in needed if node in present}
        has_all = np.full(records.n_records, len(codes) == len(needed))
        complete = np.all([has_all, *(found >= 0 for found in codes.values())], axis=0)
        result = np.empty((records.n_records, families[self.target].n_states))
        if complete.any():
            rows = slice(None) if complete.all() else complete  # a slice makes no copy
            known = {node: found[rows] for node, found in codes.items()}
            result[rows] = target_probabilities(
                families, self.probabilities_, known, self.target, int(complete.sum())
            )
        if not complete.all():
            others = [node for node in present if node not in codes]
            codes |= {node: self._partial_codes(records, node) for node in others}
            result[~complete] = self._infer(codes, ~complete)
        return result

    def _infer(self, codes: Codes, rows: np.ndarray) -> np.ndarray:
        """Return target probabilities given the known values of each of these records."""
        from pgmpy.inference import VariableElimination

        engine = VariableElimination(self.model_)
        known = np.array([found[rows] for found in codes.values()], dtype=np.intp)
        known = known.reshape(len(codes), int(rows.sum())).T
        distinct, which = np.unique(known, axis=0, return_inverse=True)
        answers = np.empty((len(distinct), len(self.states_[self.target])))
        for answer, numbers in zip(answers, distinct.tolist(), strict=True):
            evidence = {
                node: self.states_[node][number]
                for node, number in zip(codes, numbers, strict=True)
                if number >= 0
            }
            with np.errstate(invalid="ignore"):
                answer[:] = engine.query([self.target], evidence, show_progress=False).values
        answers[np.isnan(answers).any(axis=1)] = 1 / answers.shape[1]
        return answers[which.ravel()]

    @available_if(_has_target)
    @lazy_for_dask(lambda model: (None, model.classes_[:0]))
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable state of the target given the other columns.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        probabilities = self.predict_proba(X)  # its error for an unknown target comes first
        return self.classes_[np.argmax(probabilities, axis=1)]

    @abstractmethod
    def sample(self, n_samples: int = 1, random_state: Any = None) -> pd.DataFrame:
        """Draw synthetic records from the released network."""

    @abstractmethod
    def _released_tables(self) -> tuple[list[NoisyTable], float | None]:
        """Return the noisy tables before post-processing, and the public number of records."""

    def sample_tables(
        self, n_tables: int = 20, n: int | None = None, random_state: Any = None
    ) -> list[pd.DataFrame]:
        """Draw several synthetic tables for statistical inference, at no privacy cost.

        For each table, the probabilities of the network are drawn given the released noisy tables,
        which includes the error of sampling and the noise, and records are then drawn
        independently. `skdirdp.inference.combine` computes intervals from an estimate and its
        variance on each table. The structure is taken as given: if it was learnt, intervals do not
        contain the error of dependences that it lacks. A target is drawn from the network like the
        other columns, and not from its own model.

        For columns with four or more numbers in a common table, means, variances and covariances
        are drawn nearly without bias, so intervals for coefficients of regressions hold. Other
        effects, such as odds ratios of numbers above limits, can be biased by the noise.

        Parameters
        ----------
        n_tables : int, default=20
            Number of tables, at least 2.
        n : int, default=None
            Number of records of each table. If None, five times the number of fitted records.
            Intervals are wider with fewer records, and shorter with more for effects of columns
            without a common table.
        random_state : int, Generator, RandomState or None, default=None
            Seed of the draws; not related to the noise.

        Returns
        -------
        list of DataFrame

        Warns
        -----
        UserWarning
            If a table has fewer than three records for each cell and standard deviation of the
            noise, or, for `PrivateBayesNet`, if values are merged or the structure lacks tables
            of pairs of columns. Intervals may then be wrong.
        """
        check_is_fitted(self)
        n_tables = check_integer("n_tables", n_tables, at_least=2)
        if n is not None:
            n = check_integer("n", n, at_least=1)
        generator = sampling_generator(random_state)
        released, total = self._released_tables()
        if total is None:
            total = float(np.mean([table.counts.sum() for table in released]))
        self._warn_of_noise(released, max(total, 1.0))
        n_drawn = max(1, round(_TIMES_RECORDS * total)) if n is None else n
        models = self._draw_models(n_tables, generator)
        return [model.sample(n_drawn, generator) for model in models]

    def _draw_models(
        self, n_models: int, generator: np.random.Generator
    ) -> Iterator["BaseBayesNet"]:
        """Yield copies whose parameters are drawn given the released tables."""
        released, total = self._released_tables()
        scores = self._scores(released)
        counts = draw_counts(released, total, n_models, generator, scores)
        for i in range(n_models):
            drawn = [each[i] for each in counts]
            yield self._with_parameters(released, drawn, set(scores), generator)

    def _scores(self, released: Sequence[NoisyTable]) -> dict[Hashable, Scores]:
        """Return the scores of columns of numbers, or of ranges of numbers."""
        found = {}
        for name, states in self.states_.items():
            centres, variances = state_numbers(states)
            if (~np.isnan(centres)).sum() >= MIN_SCORES:
                table = next(table for table in released if name in table.axes)
                axis = table.axes.index(name)
                margin = np.moveaxis(table.counts, axis, 0).reshape(len(states), -1).sum(axis=1)
                found[name] = Scores.from_ranges(centres, variances, margin)
        return found

    def _with_parameters(
        self,
        released: Sequence[NoisyTable],
        counts: Sequence[np.ndarray],
        scored: Set[Hashable],
        generator: np.random.Generator,
    ) -> "BaseBayesNet":
        """Return a copy with parameters drawn given the true counts of the tables.

        `scored` are the columns with scores.
        """
        # The records of a person are alike to an unknown degree: see `NoisyTable.for_population`.
        unit = self.privacy_.unit.max_rows
        model = copy(self)
        model.__dict__.pop("model_", None)
        # Records follow the drawn tables alone, and not a separate model of the target.
        model.__dict__["_target_model_"] = None
        model._draws_evenly = False
        model.probabilities_ = {}
        for node, family in self._families.items():
            nodes = (*family.parents, node)
            if family.n_states == 1:
                model.probabilities_[node] = np.ones((family.n_rows, 1))
                continue
            i = next(i for i, table in enumerate(released) if set(nodes) <= set(table.axes))
            axes = released[i].axes
            kept = [axis for axis in axes if axis in nodes]
            table = counts[i].sum(axis=tuple(k for k, axis in enumerate(axes) if axis not in nodes))
            table = table.transpose([kept.index(name) for name in nodes])
            shapes = table.reshape(family.n_rows, -1) / unit
            # Pseudo-counts would change the moments of scores.
            if scored.isdisjoint(axes):
                shapes += min(_PSEUDO_COUNT, _PSEUDO_SHARE * table.sum() / table.size)
            shapes += _TINY
            drawn = generator.standard_gamma(shapes)
            # All gamma variables of a row without records may be 0.
            drawn = np.where(drawn.any(axis=1, keepdims=True), drawn, shapes)
            model.probabilities_[node] = drawn / drawn.sum(axis=1, keepdims=True)
        return model

    def _warn_of_noise(self, released: Sequence[NoisyTable], n_records: float) -> None:
        """Warn of tables with too much noise for inference, by public sizes and the release."""
        scopes = [set(table.axes) for table in released]
        noisy = [
            (n_records / (table.counts.size * np.sqrt(table.variance)), table)
            for table, scope in zip(released, scopes, strict=True)
            # A table within another one is not needed.
            if table.variance > 0 and not any(scope < other for other in scopes)
        ]
        found, table = min(noisy, key=lambda each: each[0], default=(np.inf, None))
        if found < _MIN_RECORDS_PER_CELL and table is not None:
            warn(
                f"the table of {', '.join(map(str, table.axes))} has {found:.2g} records for each "
                "cell and standard deviation of its noise; intervals from the synthetic tables "
                f"may be wrong below {_MIN_RECORDS_PER_CELL:g}. A larger epsilon, more records or "
                "fewer states help"
            )

    def _check_target(self) -> None:
        # A list, because an unhashable target cannot be looked up in a dict.
        if self.target is not None and self.target not in list(self.structure_):
            raise ValueError(f"target must be a node of the structure; got {self.target!r}")

    def _check_columns(self, names: Sequence[Hashable]) -> None:
        present = set(names)
        missing = [node for node in self.structure_ if node not in present]
        if missing:
            raise ValueError(
                f"X must have a column for each node of the structure; it lacks {missing}. The "
                "columns of an array are named by the parameter columns"
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


def _log(table: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(table)


def log_likelihood(families: Families, tables: Tables, codes: Codes) -> np.ndarray:
    """Return the log-likelihood of each record."""
    total: Any = 0.0
    for node, family in families.items():
        total = total + _log(tables[node])[family.row_numbers(codes), codes[node]]
    return total


def markov_blanket(families: Families, target: Hashable) -> list[Hashable]:
    """Return the parents and children of a node, and the other parents of its children."""
    members = dict.fromkeys(families[target].parents)
    for node, family in families.items():
        if target in family.parents:
            members.update(dict.fromkeys((node, *family.parents)))
    return [node for node in members if node != target]


def target_probabilities(
    families: Families, tables: Tables, codes: Codes, target: Hashable, n_records: int
) -> np.ndarray:
    """Return P(target | Markov blanket) of each record, of shape (n_records, n_states)."""
    joint = _target_log_joint(families, tables, codes, target, n_records)
    # Equal probabilities for records that no state makes possible.
    largest = joint.max(axis=1, keepdims=True)
    impossible = np.isneginf(largest)
    weights = np.exp(np.where(impossible, 0.0, joint) - np.where(impossible, 0.0, largest))
    return weights / weights.sum(axis=1, keepdims=True)


def _target_log_joint(
    families: Families, tables: Tables, codes: Codes, target: Hashable, n_records: int
) -> np.ndarray:
    """Return the log probability of the target and its children, for each state of the target."""
    family = families[target]
    states = np.arange(family.n_states)
    # With the target's own state set to 0, `stride` gives the rows of its other states.
    codes = {**codes, target: np.zeros(n_records, dtype=np.intp)}
    joint = _log(tables[target])[family.row_numbers(codes)]
    for node, child in families.items():
        if target in child.parents:
            rows = child.row_numbers(codes)[:, np.newaxis] + child.stride(target) * states
            joint += _log(tables[node])[rows, codes[node][:, np.newaxis]]
    return joint


def sample_codes(
    families: Families,
    tables: Tables,
    n_samples: int,
    generator: np.random.Generator,
    *,
    even: bool = False,
) -> dict[Hashable, np.ndarray]:
    """Draw the state codes of records, each node after its parents.

    With `even`, records in one row of a table are distributed over its states as evenly as
    whole numbers allow: each record is a draw from the network, but counts hardly vary.
    """
    codes: dict[Hashable, np.ndarray] = {}
    for node, family in families.items():
        codes[node] = np.zeros(n_samples, dtype=np.intp)
        if family.n_states > 1:
            rows = family.row_numbers(codes)
            if even:
                uniform = even_uniforms(rows, family.n_rows, generator)
            else:
                uniform = generator.random(n_samples)
            codes[node] = _select_states(tables[node], rows, uniform)
    return codes


def even_uniforms(rows: np.ndarray, n_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return uniform numbers that are evenly spaced within each row, in random order."""
    shuffled = generator.permutation(len(rows))
    order = shuffled[np.argsort(rows[shuffled], kind="stable")]
    sizes = np.bincount(rows, minlength=n_rows)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    within = np.arange(len(rows)) - starts + np.repeat(generator.random(n_rows), sizes)
    uniform = np.empty(len(rows))
    uniform[order] = within / np.repeat(sizes, sizes)
    return uniform


def _select_states(table: np.ndarray, rows: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return a state for each record by binary search in the cumulative sums of its row."""
    cumulated = np.cumsum(table, axis=1)
    # The last is exactly 1, so that a state of probability 0 is never drawn.
    cumulated /= cumulated[:, -1:]
    n_states = table.shape[1]
    flat, starts = cumulated.ravel(), rows * n_states
    states = np.zeros(len(rows), dtype=np.intp)
    step = 1 << ((n_states - 1).bit_length() - 1)
    while step:
        further = states + step
        # The index stays inside the row even if the step would leave it.
        beyond = flat[starts + np.minimum(further, n_states - 1) - 1] <= uniform
        states = np.where(beyond & (further < n_states), further, states)
        step >>= 1
    return states


def check_kept(n_kept: int, n_drawn: int) -> None:
    """Raise an error if too few drawn records are kept."""
    if n_drawn > 1000 * (n_kept + 100):
        raise ValueError(
            "`where` and the constraints of the schema must hold for at least one in a thousand "
            "records drawn from the network; they hold for fewer. Use `given` for conditions on "
            "single columns"
        )


def _draw_labels(probabilities: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw a state for each row, so that counts vary little among rows with similar probabilities.

    Each state is a draw from its row.
    """
    n_records = len(probabilities)
    order = np.lexsort((probabilities.max(axis=1), probabilities.argmax(axis=1)))
    blocks = np.empty(n_records, dtype=np.intp)
    blocks[order] = np.arange(n_records) // _LABEL_BLOCK
    uniform = even_uniforms(blocks, n_records // _LABEL_BLOCK + 1, generator)
    return _select_states(probabilities, np.arange(n_records), uniform)
