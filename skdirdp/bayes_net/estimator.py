"""Parameters of a discrete Bayesian network, for pgmpy."""

from collections.abc import Hashable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._contributions import check_given_counts
from .._persons import CountedRows, select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import check_integer, check_tables
from ..base import Budget, CountingEstimator, ReleaseContext, ReleasePlan
from ..engines import Part, TableCounts, lazy_for_dask, open_table
from ..mechanisms import Mechanism
from ..mechanisms.base import smoothed_mean
from ..mechanisms.splitting import SPLITS, calibrate_split
from ..mechanisms.tables import CountTable
from ..postprocessing import NoisyTable, estimate_counts
from .columns import (
    Records,
    as_records,
    check_positions,
    check_states,
    encode,
    factorise,
    observed_states,
    positions,
)
from .counting import FamilyCounter
from .network import ReleasedNetwork
from .structure import parse_structure
from .tables import Family, draw_codes, log_likelihood


class PrivateBayesNetMLE(ReleasedNetwork):
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
    postprocess : bool, default=True
        Whether the noisy counts are post-processed, at no privacy cost: estimates borrow strength
        from similar rows and shared margins. False uses each cell as drawn. The noise is
        calibrated for the choice.
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
        "postprocess": ["boolean"],
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
        postprocess=True,
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
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Count the tables, and release them.

        Parameters
        ----------
        X : DataFrame, array of shape (n_records, n_columns), Dask collection or lazy frame
            A column for each node; others are not looked at. What is not in memory is counted
            where it is: docs/scale.md says which tables can be.
        y : ignored
        groups : array-like of shape (n_samples,), or str, default=None
            The person that each record is of, by whole numbers or strings, or the name of the
            column that says so. Only the first `max_rows` records of each are counted. None if
            no person has more.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            self.structure_ = parse_structure(self.structure)
            self._check_target()
            table = open_table(X, groups=groups)
            found = (
                self._count_here(table.part) if table.in_memory else self._count_elsewhere(table)
            )
            self._release_counts(context, *found)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables, *, n_samples):
        """Release tables that are counted already.

        That each record, or each of a person's `max_rows`, is in one cell of each table is
        what you say: nothing can check it here.

        Parameters
        ----------
        tables : dict
            For each node an array of whole numbers, of shape (n_configurations, n_states),
            where configurations of the parents are in the order in which `itertools.product`
            lists their `states`.
        n_samples : int
            The number of records that were counted.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import PrivateBayesNetMLE
        >>> weather = PrivateBayesNetMLE(
        ...     {"wet": ["rain"]}, states={"rain": ["no", "yes"], "wet": ["no", "yes"]}
        ... )
        >>> tables = {"rain": [[700, 300]], "wet": [[650, 50], [10, 290]]}
        >>> weather.fit_counts(tables, n_samples=1000).probabilities_["wet"].shape
        (2, 2)
        """
        with self._fitting() as context:
            self.structure_ = parse_structure(self.structure)
            self._check_target()
            self._declare_states("given as counts")
            given = check_tables(tables, self.structure_)
            counted = self._selected(n_samples)
            counts = [
                check_given_counts(
                    f"the table of {node!r}",
                    given[node],
                    (family.n_rows, family.n_states),
                    counted.n_rows,
                )
                for node, family in self._families.items()
            ]
            self._release_counts(context, TableCounts(counted, counts), list(given), [])
        return self

    def _release_counts(
        self,
        context: ReleaseContext,
        counts: TableCounts,
        names: list[Hashable],
        leaks: list[str],
    ) -> None:
        """Release the tables of all families, and keep what was drawn."""
        families = self._families
        n_samples, size_leaks = self._public_n_samples(counts.counted, context.budget)
        alpha = float(self.alpha)
        tables = [
            (
                CountTable(
                    n_samples,
                    family.n_states,
                    family.n_rows,
                    min_smoothing=alpha,
                    postprocess=self.postprocess,
                ),
                cells,
            )
            for family, cells in zip(families.values(), counts.tables, strict=True)
        ]
        plan = ReleasePlan(self, context, tables, counts.counted, leaks + size_leaks)
        releases = context.release(plan)

        released = dict(zip(families, releases, strict=True))
        self.mechanisms_ = {
            node: release.mechanism
            for node, release in released.items()
            if release.mechanism is not None
        }
        self.probabilities_ = {node: release.drawn for node, release in released.items()}
        self.alpha_ = dict.fromkeys(families, alpha)
        if context.budget.is_private and self.postprocess:
            self._read(families, None if plan.n_records is None else float(plan.n_records))
        else:
            for node, mechanism in self.mechanisms_.items():
                self.alpha_[node] = mechanism.smoothing
        self.columns_ = names
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _count_here(self, part: Part) -> tuple[TableCounts, list[Hashable], list[str]]:
        """Counts of records in memory, their columns, and what was taken from the data."""
        records = as_records(part.X, self.columns)
        self._check_columns(records.names)
        if records.n_records == 0:
            raise ValueError("X must hold at least one record; got 0")
        counted = select_rows(part.groups, records.n_records, self.max_rows)
        self.states_, codes, leaks = self._encode(records, counted)
        families = self._families
        self._check_sizes(families)
        tables = [family.count(codes) for family in families.values()]
        return TableCounts(counted, tables), records.names, leaks

    def _count_elsewhere(self, table: Any) -> tuple[TableCounts, list[Hashable], list[str]]:
        """The same of a table that is not in memory, from which nothing public is taken."""
        names = as_records(table.sample, self.columns).names
        self._check_columns(names)
        self._declare_states(table.kind)
        counter = FamilyCounter(self._families, self.states_, self.columns, int(self.max_rows))
        return table.select_features(list(self.structure_)).count(counter), names, []

    def _declare_states(self, kind: str) -> None:
        """Take the states as they are declared, all of them."""
        states = check_states(self.states or {}, self.structure_)
        missing = [f"states[{node!r}]" for node in self.structure_ if node not in states]
        self._check_declared(kind, missing if self.states else ["states"])
        self.states_ = {node: states[node] for node in self.structure_}
        self._check_sizes(self._families)

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
        read = estimate_counts(noisy, total)
        self._readings_ = dict(zip(self.mechanisms_, read, strict=True))
        for node, table in self._readings_.items():
            counts = table.counts.reshape(families[node].n_rows, -1)
            self.probabilities_[node] = smoothed_mean(counts, self.alpha_[node])

    def _encode(self, records: Records, counted: CountedRows):
        """The states of all variables, their numbers in the data, and what was not given."""
        states = check_states(self.states or {}, self.structure_)
        missing = [node for node in self.structure_ if node not in states]
        codes = {}
        for node in self.structure_:
            if node in states:
                codes[node] = encode(records, node, states[node], counted.rows)
                continue
            numbers, distinct = factorise(node, records.column(node), counted.rows)
            states[node] = observed_states(node, numbers, distinct)
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

    def _calibrate(self, tables: Sequence[CountTable], budget: Budget) -> list[Mechanism]:
        if self.split == "even" or self.calibration != "exact" or not budget.is_private:
            return super()._calibrate(tables, budget)
        return calibrate_split(tables, partial(super()._calibrate, budget=budget))

    def probability_limits(self, confidence=0.95):
        """Limits for the shares that the counted records have, by the noise that was drawn.

        They do not depend on the post-processing, and hold whatever the data are: each with at
        least this probability, by itself. They are about the records that were counted, and not
        about a population that those are a sample of.

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
                "limits need post-processed counts: postprocess must be True, and epsilon finite"
            )
        return {
            node: tuple(
                limit.reshape(self.probabilities_[node].shape) for limit in table.limits(confidence)
            )
            for node, table in self._readings_.items()
        }

    # Scoring ---------------------------------------------------------------------

    @lazy_for_dask(lambda model: (None, np.empty(0)))
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
        self._check_columns(records.names)
        codes = {node: encode(records, node, self.states_[node]) for node in self.structure_}
        return log_likelihood(self._families, self.probabilities_, codes)

    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        return encode(records, node, self.states_[node], allow_missing=True)

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
