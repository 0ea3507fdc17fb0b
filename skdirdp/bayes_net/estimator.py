"""Parameters of a discrete Bayesian network, for pgmpy."""

from collections.abc import Hashable, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from .._persons import Selection, select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import check_integer
from ..base import CountingEstimator
from ..mechanisms import Mechanism
from ..mechanisms.base import smoothed_mean
from ..mechanisms.split import SPLITS, calibrate_split
from ..mechanisms.table import READINGS, CountTable
from ..reading import NoisyTable, read_tables
from .columns import (
    Records,
    as_records,
    check_evidence,
    check_positions,
    check_states,
    encode,
    factorise,
    observed_states,
    positions,
)
from .structure import parse_structure
from .tables import (
    Family,
    blanket,
    draw_codes,
    log_likelihood,
    target_probabilities,
)


class PrivateBayesNetMLE(DensityMixin, CountingEstimator):
    """Private parameters for a Bayesian network of known structure.

    One table is released per node: the counts of its states by configuration of its
    parents. A record moves one count in each. What is fitted is a pgmpy network.

    Parameters
    ----------
    structure : iterable of edges, dict, or pgmpy DAG or network
        Pairs ``(parent, child)``, with ``(node,)`` for a node without edges;
        ``{child: parents}``; or a graph with `nodes` and `edges`, of which only those are
        used. Public: a structure learnt from the same data is not covered by the guarantee.
    states : dict of list, default=None
        The values that each variable can take. Public; what is missing is taken from the
        data, with a warning. The states of a pgmpy network are ``network.states``.
    target : node, default=None
        The variable that `predict` and `predict_proba` are about.
    alpha : float, default=1.0
        The smoothing, in counts. Releases that are taken as drawn may need more: see `alpha_`.
        With 0 and no noise, the tables are those of maximum likelihood.
    split : {"optimised", "even"}, default="optimised"
        How the budget is split over the nodes: evenly, or by what is expected to serve the
        log-likelihood best, given the public sizes of the tables. The papers' calibrations
        always split evenly.
    columns : array-like of column names, default=None
        The names of the columns of X when it is an array. None numbers them from 0.
    max_cells : int, default=10_000_000
        A node with a larger table is refused.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the tables are then those of pgmpy's
        estimators with `alpha` pseudo-counts.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private. Laplace noise takes 0.
    order : float, default=None
        Given, the fit is (order, epsilon)-RDP instead, and `delta` is not used.
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}, default="dirichlet"
        What draws the noise; "auto" takes the one of least expected KL divergence for
        the public sizes and the budget.
    calibration : {"exact", "algorithm1", "tcdp"}, default="exact"
        How the noise is chosen; the last two reproduce the papers.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    n_samples : float, default=None
        A public number of records, for which the noise is chosen. None takes the
        actual one, which is public under replacement only.
    max_rows : int, default=1
        A public bound on the records of one person, who is then protected with all of them.
        Given `groups`, `fit` counts no more; otherwise it is a declaration.
    reading : {"best", "plain"}, default="best"
        What is made of the noisy counts, at no cost of privacy: "best" lets rows borrow from
        each other and tables agree, as far as the counts themselves tell; "plain" takes what
        was drawn, cell by cell. The noise is chosen for it.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    model_ : pgmpy DiscreteBayesianNetwork
        Released. Built when first asked for.
    probabilities_ : dict of ndarray of shape (n_configurations, n_states)
        Released: P(node | parents). The configurations of a node's parents are in the order
        of `itertools.product` over their states.
    structure_ : dict of tuple
        The parents of each node; nodes stand after their parents.
    states_ : dict of list
        The states of each node.
    classes_ : ndarray
        The states of `target`.
    alpha_ : dict of float
        The smoothing of each node's table, in counts: `alpha`, or what the budget needs where
        releases are taken as drawn.
    mechanisms_ : dict of Mechanism
        What released each node's table. A node of one state has none.
    privacy_ : PrivacyReport
        What was guaranteed.
    columns_ : list
        The columns of X. Those that are no nodes are not looked at.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where all columns have names that are strings.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNetMLE
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(5000) < 0.3
    >>> wet = rng.random(5000) < np.where(rain, 0.9, 0.1)
    >>> X = pd.DataFrame({"rain": rain, "wet": wet})
    >>> yes_no = [False, True]
    >>> model = PrivateBayesNetMLE(
    ...     [("rain", "wet")], states={"rain": yes_no, "wet": yes_no}, target="rain"
    ... ).fit(X)
    >>> model.predict(X[["wet"]]).shape
    (5000,)
    >>> model.model_.check_model()
    True
    >>> model.privacy_.releases
    2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CountingEstimator._parameter_constraints,
        "structure": [object],  # parse_structure says more than a list of types would
        "states": [dict, None],
        "target": [object],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "split": [StrOptions(set(SPLITS))],
        "columns": ["array-like", None],
        "max_cells": [Interval(Integral, 1, None, closed="left")],
        "reading": [StrOptions(set(READINGS))],
    }

    def __init__(
        self,
        structure,
        *,
        states=None,
        target=None,
        alpha=1.0,
        split="optimised",
        columns=None,
        max_cells=10_000_000,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="dirichlet",
        calibration="exact",
        adjacency="replace",
        n_samples=None,
        max_rows=1,
        reading="best",
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.structure = structure
        self.states = states
        self.target = target
        self.alpha = alpha
        self.split = split
        self.columns = columns
        self.max_cells = max_cells
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_rows = max_rows
        self.reading = reading
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Count the tables, and release them.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)
            A column for each node; others are not looked at.
        y : ignored
        groups : array-like of shape (n_samples,), default=None
            The person that each record is of, by whole numbers or strings. Only the first
            `max_rows` records of each are counted. None if no person has more.

        Returns
        -------
        self
        """
        with self._fitting():
            self.structure_ = parse_structure(self.structure)
            self._check_target()
            records = as_records(X, self.columns)
            self._check_columns(records)
            if records.n_records == 0:
                raise ValueError("X must hold at least one record; got 0")
            counted = select_rows(groups, records.n_records, self.max_rows)
            self.states_, codes, leaks = self._encode(records, counted)
            families = self._families
            self._check_sizes(families)
            n_samples, size_leaks = self._public_n_samples(counted)
            alpha = float(self.alpha)
            tables = [
                (
                    CountTable(
                        n_samples,
                        family.n_states,
                        family.n_rows,
                        min_smoothing=alpha,
                        reading=self.reading,
                    ),
                    family.count(codes),
                )
                for family in families.values()
            ]
            releases = self._release(tables, leaks + size_leaks, counted)

            released = dict(zip(families, releases, strict=True))
            self.mechanisms_ = {
                node: release.mechanism
                for node, release in released.items()
                if release.mechanism is not None
            }
            self.probabilities_ = {node: release.drawn for node, release in released.items()}
            self.alpha_ = dict.fromkeys(families, alpha)
            if self._is_private and self.reading == "best":
                public = self._is_number_public(counted.unit)
                self._read(families, float(counted.n_rows) if public else None)
            else:
                for node, mechanism in self.mechanisms_.items():
                    self.alpha_[node] = mechanism.smoothing
            self.columns_ = records.names
            self.n_features_in_ = len(records.names)
            if all(isinstance(name, str) for name in records.names):
                self.feature_names_in_ = np.array(records.names, dtype=object)
        return self

    def _read(self, families: dict[Hashable, Family], total: float | None) -> None:
        """Turn the noisy counts in `probabilities_` into what they most likely were."""
        noisy = [
            NoisyTable(
                self.probabilities_[node].reshape(*families[node].parent_states, -1),
                mechanism.noise,
                (*families[node].parents, node),
            )
            for node, mechanism in self.mechanisms_.items()
        ]
        read = read_tables(noisy, total)
        self._readings_ = dict(zip(self.mechanisms_, read, strict=True))
        for node, table in self._readings_.items():
            counts = table.counts.reshape(families[node].n_rows, -1)
            self.probabilities_[node] = smoothed_mean(counts, self.alpha_[node])

    def _encode(self, records: Records, counted: Selection):
        """The states of all variables, their numbers in the data, and what was not given."""
        states = check_states(self.states or {}, self.structure_)
        missing = [node for node in self.structure_ if node not in states]
        codes = {}
        for node in self.structure_:
            numbers, distinct = factorise(node, records.column(node))
            numbers = counted.of(numbers)
            if node not in states:
                states[node] = observed_states(numbers, distinct)
            codes[node] = positions(numbers, distinct, states[node])
            check_positions(node, codes[node])
        leaks = (
            [f"states[{node!r}]" for node in missing] if self.states else ["states"] * bool(missing)
        )
        return {node: states[node] for node in self.structure_}, codes, leaks

    def _check_sizes(self, families: dict[Hashable, Family]) -> None:
        for node, family in families.items():
            if family.n_cells > int(self.max_cells):
                raise ValueError(
                    f"max_cells={self.max_cells} must be at least the size of each table; that of "
                    f"{node!r} has {family.n_cells} cells, {family.n_states} states by "
                    f"{family.n_rows} configurations of its parents"
                )

    def _check_target(self) -> None:
        # A list, in which a target that cannot be hashed is looked for as well.
        if self.target is not None and self.target not in list(self.structure_):
            raise ValueError(f"target must be a node of the structure; got {self.target!r}")

    def _check_columns(self, records: Records) -> None:
        present = set(records.names)
        missing = [node for node in self.structure_ if node not in present]
        if missing:
            raise ValueError(
                f"X must have a column for each node of the structure; it lacks {missing}. The "
                "columns of an array are named by the parameter columns"
            )

    def _calibrate(self, tables: Sequence[CountTable]) -> list[Mechanism]:
        if self.split == "even" or self.calibration != "exact" or not self._is_private:
            return super()._calibrate(tables)
        return calibrate_split(tables, super()._calibrate)

    def probability_limits(self, confidence=0.95):
        """Limits for the shares that the counted records have, by the noise that was drawn.

        They do not depend on the reading, and hold whatever the data are: each with at least
        this probability, by itself. They are about the records that were counted and not about
        a population that those are a sample of.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95

        Returns
        -------
        dict of (lower, upper)
            Two ndarrays of the shape of the node's `probabilities_` each. Nodes of one state
            are left out.
        """
        check_is_fitted(self)
        if "_readings_" not in vars(self):
            raise ValueError(
                "limits are of noise that was read: reading must be 'best', and epsilon finite"
            )
        return {
            node: tuple(
                limit.reshape(self.probabilities_[node].shape) for limit in table.limits(confidence)
            )
            for node, table in self._readings_.items()
        }

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

    def score_samples(self, X):
        """The log-likelihood of each record.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_records, n_columns)

        Returns
        -------
        ndarray of shape (n_records,)
        """
        check_is_fitted(self)
        records = as_records(X, self.columns_)
        self._check_columns(records)
        codes = {node: encode(records, node, self.states_[node]) for node in self.structure_}
        return log_likelihood(self._families, self.probabilities_, codes)

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

    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        return encode(records, node, self.states_[node], allow_missing=True)

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

    # Synthetic data ----------------------------------------------------------------

    def sample(self, n_samples=1, random_state=None):
        """Draw synthetic records from the released network, at no further cost.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int, Generator or RandomState, default=None
            Not the noise: a known seed gives nothing away.

        Returns
        -------
        DataFrame with a column for each node
            In the order of the columns that were fitted.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=0)
        generator = sampling_generator(random_state)
        codes = draw_codes(self._families, self.probabilities_, n_samples, generator)
        nodes = [name for name in self.columns_ if name in codes]
        drawn = {
            node: pd.Index(self.states_[node], tupleize_cols=False).take(codes[node])
            for node in nodes
        }
        return pd.DataFrame(drawn, columns=nodes)

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
