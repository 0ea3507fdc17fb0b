"""What released networks of all kinds can do: a pgmpy model, scores and predictions."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..base import CountingEstimator
from ..engines import lazy_for_dask
from .columns import Records, as_records, check_evidence
from .structure import Parents
from .tables import Family, blanket, target_probabilities


class ReleasedNetwork(DensityMixin, CountingEstimator):
    """Base class of the estimators that release a discrete Bayesian network.

    A subclass sets `structure_`, `states_`, `probabilities_` and `columns_` in its `fit`, and
    says how values become numbers of states.
    """

    target: Any
    structure_: Parents
    states_: dict[Hashable, list]
    probabilities_: dict[Hashable, np.ndarray]
    columns_: list[Hashable]

    @abstractmethod
    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        """State numbers of a column, negative where nothing is known."""

    @abstractmethod
    def score_samples(self, X):
        """The log-likelihood of each record."""

    # The network -------------------------------------------------------------------

    @cached_property
    def model_(self):
        """The released pgmpy network."""
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
    def classes_(self):
        """The states of the target."""
        check_is_fitted(self)
        if self.target is None:
            raise AttributeError("classes_ are the states of target, which is not given")
        return _as_labels(self.states_[self.target])

    @property
    def _families(self) -> dict[Hashable, Family]:
        sizes = {node: len(states) for node, states in self.states_.items()}
        return {
            node: Family(node, parents, sizes[node], tuple(sizes[parent] for parent in parents))
            for node, parents in self.structure_.items()
        }

    def __sklearn_is_fitted__(self) -> bool:
        return "privacy_" in vars(self)

    # Scoring -----------------------------------------------------------------------

    def score(self, X, y=None):
        """The mean log-likelihood per record.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
        y : ignored

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_proba(self, X):
        """Probabilities of the target's states given the other columns.

        Only the columns of the target's Markov blanket matter: its parents, its children
        and their other parents. Where one of them is not in X, or missing in a record (nan
        or None), pgmpy's exact inference is asked instead, with all that is known: once for
        each distinct record.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
            The target's own column is not looked at, and may be left out; so may others. A
            column that `fit` did not see is refused where one of a node is missing: it may
            be that one under another name.

        Returns
        -------
        ndarray of shape (n_records, n_states)
            In the order of `classes_`. Equal probabilities where the model holds what is
            known of a record to be impossible, which noise rules out.
        """
        check_is_fitted(self)
        if self.target is None:
            raise ValueError("target must be given to predict; got None")
        self._check_target()
        records = as_records(X, self.columns_, optional=self.target)
        others = [node for node in self.structure_ if node != self.target]
        check_evidence(records, self.columns_, others)
        families, present = self._families, set(records.names)
        near = blanket(families, self.target)
        codes = {node: self._partial_codes(records, node) for node in near if node in present}
        complete = np.full(records.n_records, len(codes) == len(near))
        for found in codes.values():
            complete &= found >= 0
        if complete.all():
            return target_probabilities(
                families, self.probabilities_, codes, self.target, records.n_records
            )
        result = np.empty((records.n_records, families[self.target].n_states))
        if complete.any():
            known = {node: found[complete] for node, found in codes.items()}
            result[complete] = target_probabilities(
                families, self.probabilities_, known, self.target, int(complete.sum())
            )
        for node in families:
            if node in present and node != self.target and node not in codes:
                codes[node] = self._partial_codes(records, node)
        partial = {node: found[~complete] for node, found in codes.items()}
        result[~complete] = self._infer(partial, int((~complete).sum()))
        return result

    def _infer(self, codes, n_records: int) -> np.ndarray:
        """Exact inference from whatever is known of each record."""
        from pgmpy.inference import VariableElimination

        engine = VariableElimination(self.model_)
        known = np.empty((n_records, len(codes)), dtype=np.intp)
        for column, found in enumerate(codes.values()):
            known[:, column] = found
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
        impossible = np.isnan(answers).any(axis=1)
        answers[impossible] = 1 / answers.shape[1]
        return answers[which.ravel()]

    @lazy_for_dask(lambda model: (None, model.classes_[:0]))
    def predict(self, X):
        """The most probable state of the target given the other columns.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_records,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _check_target(self) -> None:
        # A list, in which a target that cannot be hashed is looked for as well.
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


def _as_labels(states: list) -> np.ndarray:
    labels = np.empty(len(states), dtype=object)
    labels[:] = states
    # Of one type they become an array of it; mixed, numpy would make strings of them.
    simple = {type(state) for state in states} in ({str}, {int}, {float}, {bool})
    return np.array(states) if simple else labels
