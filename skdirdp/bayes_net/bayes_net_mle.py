"""Bayesian network with given structure: private parameters, for pgmpy."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._contributions import check_given_counts
from .._docs import shared_docs
from .._messages import errors_without_data
from .._persons import CountedRows, select_persons, select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import are_hashable, check_integer, check_tables
from ..base import (
    Budget,
    CountingEstimator,
    NoisyTablesMixin,
    PrivacyReport,
    ReleaseContext,
    ReleasePlan,
)
from ..engines import Counter, Part, TableCounts, lazy_for_dask, open_by_schema
from ..mechanisms import Mechanism
from ..mechanisms.base import smoothed_mean
from ..mechanisms.splitting import SPLITS, calibrate_split
from ..mechanisms.tables import CountTable
from ..postprocessing import NoisyTable, estimate_counts
from ..schema import (
    OUTSIDE,
    Categories,
    Kind,
    Names,
    Records,
    Schema,
    as_records,
    factorise,
    raise_if_errors,
    sort_values,
)
from .base import BaseBayesNet, Family, Parents, log_likelihood, sample_codes
from .structure_learning import kinds_from_states


@shared_docs
class PrivateBayesNetMLE(NoisyTablesMixin, BaseBayesNet):
    """Private parameters for a Bayesian network of given structure.

    One table is released for each node: the counts of its states by configuration of its
    parents. A record changes one count in each. The result is a pgmpy network.

    Parameters
    ----------
    structure : iterable of edges, dict, or pgmpy DAG or network
        Pairs ``(parent, child)``, with ``(node,)`` for a node without edges;
        ``{child: parents}``; or a graph with `nodes` and `edges`. Public: the guarantee does
        not cover a structure learnt from the same data.
    states : dict of list, default=None
        Public values of each variable; others are taken from the data, with a warning. The
        states of a pgmpy network are ``network.states``.
    schema : Schema, default=None
        Public description of the columns, instead of `states`. Numbers and dates are binned, and
        missing values are a state. If it declares a person, person ids and `max_rows` are taken
        from the schema.
    target : node, default=None
        Variable that `predict` and `predict_proba` predict. Its states become `classes_`.
    alpha : float, default=1.0
        Smoothing, in counts. Without post-processing, releases may need more: see `alpha_`.
        With 0 and no noise, the tables are maximum likelihood estimates.
    split : {"optimised", "even"}, default="optimised"
        How the budget is split over the nodes: to maximise the expected log-likelihood, or
        evenly, as the papers' calibrations always do.
    {columns}
    max_cells : int, default=10_000_000
        Largest table of a node with its parents. A larger one is an error.
    {epsilon, delta, order, mechanism, calibration, adjacency, n_samples, max_rows, postprocess}
    {accountant, label, random_state}

    Attributes
    ----------
    {model_}
    probabilities_ : dict of ndarray of shape (n_configurations, n_states)
        Released P(node | parents). Configurations of the parents are in the order of
        `itertools.product` over their states.
    structure_ : dict of tuple
        Parents of each node; nodes come after their parents.
    states_ : dict of list
        States of each node.
    {classes_}
    alpha_ : dict of float
        Smoothing of the table of each node, in counts.
    mechanisms_ : dict of Mechanism
        Mechanism that released the table of each node with more than one state.
    {privacy_}
    columns_ : list
        Columns of X. Columns that are not nodes are not used.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    PrivateBayesNet : Bayesian network with learnt structure.

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
        "structure": [object],  # parse_structure explains what is wrong
        "states": [dict, None],
        "schema": [Schema, None],
        "target": [object],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "split": [StrOptions(set(SPLITS))],
        "columns": ["array-like", None],
        "max_cells": [Interval(Integral, 1, None, closed="left")],
        "postprocess": ["boolean"],
    }

    def __init__(
        self,
        structure: Any,
        *,
        states: Mapping[Any, Iterable[Any]] | None = None,
        schema: Schema | None = None,
        target: Hashable | None = None,
        alpha: float = 1.0,
        split: str = "optimised",
        columns: Sequence[Hashable] | None = None,
        max_cells: int = 10_000_000,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        mechanism: str = "dirichlet",
        calibration: str = "exact",
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.structure = structure
        self.states = states
        self.schema = schema
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "PrivateBayesNetMLE":
        """Count the table of each node, and release the tables.

        Parameters
        ----------
        X : DataFrame, array of shape (n_samples, n_columns), Dask collection or lazy frame
            Has a column for each node; others are not used. Tables that are not in memory
            are counted by their own engine (docs/scale.md).
        y : Ignored
        groups : array-like of shape (n_samples,), or str, default=None
            Person of each record, as whole numbers or strings, or the name of the column that
            contains them. Only the first `max_rows` records of each person are counted. If None,
            each person is assumed to have at most `max_rows` records.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            self.structure_ = parse_structure(self.structure)
            self._check_target()
            table = open_by_schema(self.schema, X, groups, self.max_rows)
            count = self._count_in_memory if table.in_memory else self._count_out_of_core
            self._release_counts(context, *count(table))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables: Mapping[Any, Any], *, n_samples: int) -> "PrivateBayesNetMLE":
        """Release tables that are already counted.

        The caller ensures that each record, or each of the `max_rows` records of a person, is
        in one cell of each table. This cannot be checked.

        Parameters
        ----------
        tables : dict
            For each node an array of whole numbers, of shape (n_configurations, n_states).
            Configurations of the parents are in the order in which `itertools.product` lists
            their `states`.
        n_samples : int
            Number of records that were counted.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import PrivateBayesNetMLE
        >>> states = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
        >>> weather = PrivateBayesNetMLE({"wet": ["rain"]}, states=states)
        >>> tables = {"rain": [[700, 300]], "wet": [[650, 50], [10, 290]]}
        >>> weather.fit_counts(tables, n_samples=1000).probabilities_["wet"].shape
        (2, 2)
        """
        with self._fitting() as context:
            self.structure_ = parse_structure(self.structure)
            self._check_target()
            self._set_declared_states("given as counts")
            given = check_tables(tables, self.structure_)
            counted = self._selected(n_samples)
            counts = []
            for node, family in self._families.items():
                name, shape = f"the table of {node!r}", (family.n_rows, family.n_states)
                counts.append(check_given_counts(name, given[node], shape, counted.n_rows))
            self._release_counts(context, TableCounts(counted, counts), list(given), [])
        return self

    def _count_in_memory(self, table: Any) -> tuple[TableCounts, list[Hashable], list[str]]:
        """Return counts, column names, and the parameters that were taken from the data."""
        part: Part = table.part
        records = _open(part.X, self.columns, self.schema)
        self._check_columns(records.names)
        if records.n_records == 0:
            raise ValueError("X must contain at least one record; got 0")
        encoder = StateEncoder(self._declared_kinds(), self.schema)
        if self.schema is None:
            counted = select_rows(part.groups, records.n_records, self.max_rows)
        else:
            counted = select_persons(self.schema, records, part.groups, self.max_rows)
        missing = self._missing_states(encoder.kinds)
        for node in self.structure_:
            if node not in encoder.kinds:
                states = observed_states(node, records.columns[node], counted.rows)
                encoder.kinds[node] = Categories(tuple(states), missing=False)
        self._set_encoder(encoder)
        codes = {n: encoder.encode(n, records.columns[n], counted.rows) for n in self.structure_}
        tables = [family.count(codes) for family in self._families.values()]
        return TableCounts(counted, tables), records.names, missing

    def _count_out_of_core(self, table: Any) -> tuple[TableCounts, list[Hashable], list[str]]:
        """Return the same for a table that is not in memory; all states must be given."""
        names = _open(table.empty, self.columns, self.schema).names
        self._check_columns(names)
        self._set_declared_states(table.kind)
        counter = FamilyCounter(self._families, self._encoder_, self.columns, int(self.max_rows))
        return table.select_features(list(self.structure_)).count(counter), names, []

    def _declared_kinds(self) -> dict[Hashable, Kind]:
        """Return the kinds of the nodes whose values are public."""
        if self.schema is None:
            check_state_names(self.states or {}, self.structure_)
            given = {n: v for n, v in (self.states or {}).items() if n in self.structure_}
            return kinds_from_states(given, missing=False)
        if self.states is not None:
            raise ValueError("states must not be given with a schema, which already declares them")
        errors = {n: "is not declared" for n in self.structure_ if n not in self.schema}
        kinds = {node: self.schema[node] for node in self.structure_ if node in self.schema}
        for node, kind in kinds.items():
            if isinstance(kind, Names) or not kind.is_counted:
                errors[node] = f"has no public values ({kind.describe()})"
        raise_if_errors("nodes of the structure must have public values in the schema", errors)
        return kinds

    def _set_declared_states(self, kind: str) -> None:
        kinds = self._declared_kinds()
        self._check_declared(kind, self._missing_states(kinds))
        self._set_encoder(StateEncoder(kinds, self.schema))

    def _set_encoder(self, encoder: "StateEncoder") -> None:
        self._encoder_ = encoder
        self.states_ = {node: encoder.kinds[node].labels() for node in self.structure_}
        self._check_sizes()

    def _missing_states(self, given: Mapping[Hashable, Any]) -> list[str]:
        """Return the parameters that would have to be taken from the data."""
        missing = [f"states[{node!r}]" for node in self.structure_ if node not in given]
        return missing if self.states else ["states"] * bool(missing)

    def _check_sizes(self) -> None:
        for node, family in self._families.items():
            if family.n_cells > int(self.max_cells):
                raise ValueError(
                    f"max_cells={self.max_cells} must be at least the size of each table; that of "
                    f"{node!r} has {family.n_cells} cells, {family.n_states} states by "
                    f"{family.n_rows} configurations of its parents"
                )

    def _release_counts(
        self, context: ReleaseContext, counts: TableCounts, names: list[Hashable], leaks: list[str]
    ) -> None:
        """Release the tables of all families, and set the fitted attributes."""
        n_samples, size_leaks = self._public_n_samples(counts.counted, context.budget)
        options: dict[str, Any] = {
            "min_smoothing": float(self.alpha),
            "postprocess": self.postprocess,
        }
        tables = [
            CountTable(n_samples, family.n_states, family.n_rows, **options)
            for family in self._families.values()
        ]
        with_counts = list(zip(tables, counts.tables, strict=True))
        plan = ReleasePlan(self, context, with_counts, counts.counted, leaks + size_leaks)
        released = dict(zip(self.structure_, context.release(plan), strict=True))
        self.mechanisms_ = {n: r.mechanism for n, r in released.items() if r.mechanism is not None}
        self.probabilities_ = {node: release.drawn for node, release in released.items()}
        self.alpha_ = dict.fromkeys(released, float(self.alpha))
        if context.is_private and self.postprocess:
            total = None if plan.n_records is None else float(plan.n_records)
            self._keep_noisy_tables(released, total)
            self._postprocess(total)
        else:
            self._keep_noisy_tables({}, None)
            self.alpha_ |= {node: each.smoothing for node, each in self.mechanisms_.items()}
        self.columns_ = names
        self._set_feature_names(names)

    def _postprocess(self, total: float | None) -> None:
        """Replace the noisy counts in `probabilities_` by probabilities."""
        estimates = estimate_counts(self._tables_with_axes(), total)
        self._estimates_ = dict(zip(self.mechanisms_, estimates, strict=True))
        for node, table in self._estimates_.items():
            counts = table.counts.reshape(self._families[node].n_rows, -1)
            self.probabilities_[node] = smoothed_mean(counts, self.alpha_[node])

    def _calibrate(self, tables: Sequence[CountTable], budget: Budget) -> list[Mechanism]:
        if self.split == "even" or self.calibration != "exact" or not budget.is_private:
            return super()._calibrate(tables, budget)
        return calibrate_split(tables, partial(super()._calibrate, budget=budget))

    def probability_limits(
        self, confidence: float = 0.95
    ) -> dict[Hashable, tuple[np.ndarray, np.ndarray]]:
        """Return confidence limits on the shares among the counted records.

        Each holds with at least this probability over the noise, for any data. They do not
        cover sampling from a population.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95

        Returns
        -------
        dict of (lower, upper)
            Two arrays of the shape of `probabilities_` for each node with several states.
        """
        check_is_fitted(self)
        if "_estimates_" not in vars(self):
            raise ValueError(
                "limits need post-processed counts: postprocess must be True, and epsilon finite"
            )
        limits = {}
        for node, table in self._estimates_.items():
            lower, upper = table.limits(confidence)
            shape = self.probabilities_[node].shape
            limits[node] = lower.reshape(shape), upper.reshape(shape)
        return limits

    @lazy_for_dask(lambda model: (None, np.empty(0)))
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each record.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        records = as_records(X, self.columns_)
        self._check_columns(records.names)
        columns, encode = records.columns, self._encoder_.encode
        codes = {node: encode(node, columns[node]) for node in self.structure_}
        return log_likelihood(self._families, self.probabilities_, codes)

    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        return self._encoder_.encode(node, records.columns[node], allow_missing=True)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> pd.DataFrame:
        """Draw synthetic records from the released network, at no privacy cost.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Seed of the draws; not related to the noise.

        Returns
        -------
        DataFrame with a column for each node
            In the order of the columns that were fitted.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=0)
        generator = sampling_generator(random_state)
        codes = sample_codes(self._families, self.probabilities_, n_samples, generator)
        nodes = [name for name in self.columns_ if name in codes]
        drawn = {n: self._encoder_.kinds[n].draw_bins(codes[n], generator) for n in nodes}
        return pd.DataFrame(drawn, columns=nodes)

    def _tables_with_axes(self) -> list[NoisyTable]:
        """Return the noisy tables with one dimension for each parent, for post-processing."""
        families, released = self._families, self._noisy_tables_.items()
        return [
            NoisyTable(
                np.reshape(table.counts, (*families[node].parent_states, -1)),
                table.mechanism.noise,
                (*families[node].parents, node),
            )
            for node, table in released
        ]

    def _released_tables(self) -> tuple[list[NoisyTable], float | None]:
        self.noisy_tables()  # raises an error if there are none
        return self._tables_with_axes(), self.privacy_.n_records


def network_from_tables(
    structure: Parents,
    counts: Mapping[Hashable, np.ndarray],
    schema: Schema,
    privacy: PrivacyReport,
    target: Hashable | None = None,
) -> PrivateBayesNetMLE:
    """Return a network whose probabilities are computed from released counts of each node."""
    budget: dict[str, Any] = {
        "epsilon": privacy.epsilon,
        "order": privacy.order,
        "adjacency": privacy.adjacency,
    }
    if privacy.delta is not None:
        budget["delta"] = privacy.delta
    model = PrivateBayesNetMLE(structure, schema=schema, target=target, alpha=0.0, **budget)
    model.structure_ = dict(structure)
    model._set_encoder(StateEncoder({node: schema[node] for node in structure}, schema))
    model.probabilities_ = {
        node: smoothed_mean(np.maximum(counts[node], 0.0), 0.0) for node in structure
    }
    model.mechanisms_, model.alpha_ = {}, dict.fromkeys(structure, 0.0)
    model.columns_ = [name for name in schema if name in structure]
    model._set_feature_names(model.columns_)
    model.privacy_ = privacy
    return model


@dataclass(frozen=True)
class StateEncoder:
    """Codes of the states of each node, by its kind."""

    kinds: dict[Hashable, Kind]
    schema: Schema | None  # None if the kinds are those of given or observed states

    def encode(
        self,
        node: Hashable,
        values: Any,
        rows: np.ndarray | None = None,
        *,
        allow_missing: bool = False,
    ) -> np.ndarray:
        """Return the state of each value in the counted rows.

        Without a schema, other values raise an error, and so do missing values unless
        `allow_missing`: then they are negative.
        """
        kind = self.kinds[node]
        if self.schema is not None:
            absent, strict = frozenset(self.schema.missing_values), self.schema.strict
            codes = kind.encode(node, values, rows, missing_values=absent, strict=strict)
            return kind.bin(codes)
        if not allow_missing:
            return kind.encode(node, values, rows, strict=True)
        codes = replace(kind, missing=True).encode(node, values, rows, strict=True)
        return np.where(codes == kind.n_cells, -1, codes)


@dataclass(frozen=True)
class FamilyCounter(Counter):
    """Counts of all families in a table that is not in memory, part by part."""

    families: Mapping[Any, Family]
    encoder: StateEncoder
    columns: Sequence[Hashable] | None  # names of the columns of an array
    max_rows: int

    @property
    def schema(self) -> Schema | None:
        return self.encoder.schema

    def count_part(self, part: Part, previous: CountedRows | None) -> TableCounts:
        records = _open(part.X, self.columns, self.encoder.schema)
        counted = self.select_rows(part.groups, records.n_records, previous)
        codes = {
            node: self.encoder.encode(node, records.columns[node], counted.rows)
            for node in self.encoder.kinds
        }
        tables = [family.count(codes) for family in self.families.values()]
        return TableCounts(CountedRows(counted.unit, counted.n_rows), tables)

    def count_frame(self, frame: Any) -> TableCounts:
        tables = []
        for family in frame.with_progress(list(self.families.values())):
            found = frame.group([family.node, *family.parents], family.n_cells, self._encode)
            tables.append(family.count(found.codes, found.weights))
        return TableCounts(frame.counted(found.n_rows, self.max_rows), tables)

    def _encode(self, found: Any) -> dict[Hashable, Any]:
        records = as_records(found, None)
        return {n: self.encoder.encode(n, values) for n, values in records.columns.items()}


def _open(X: Any, columns: Sequence[Hashable] | None, schema: Schema | None) -> Records:
    """Return the columns of a table in memory."""
    return as_records(X, columns) if schema is None else schema.records(X, optional=True)


def observed_states(name: Hashable, values: Any, rows: np.ndarray | None) -> list:
    """Return the observed values of a column as sorted states."""
    with errors_without_data(**{f"column {name!r} of X": values}):
        codes, distinct = factorise(values, rows)
    if (codes == OUTSIDE).any():
        raise ValueError(
            f"X must contain values that can be states; column {name!r} has some that cannot be "
            "hashed or rebuilt"
        )
    return sort_values(distinct)


def check_state_names(states: Mapping, nodes: Iterable[Hashable]) -> None:
    """Raise an error if a name is not a node and a node has no states: probably a misspelling."""
    nodes = dict.fromkeys(nodes)
    lacking = [node for node in nodes if node not in states]
    unknown = [name for name in states if name not in nodes]
    if unknown and lacking:
        raise ValueError(
            f"states must name nodes of the structure; {unknown[0]!r} is not one, and "
            f"{lacking[0]!r} has no states"
        )


def parse_structure(structure: Any) -> Parents:
    """Return the parents of each node, in topological order.

    `structure` has one of the forms that `PrivateBayesNetMLE` accepts.
    """
    if isinstance(structure, Mapping):
        parents = _parents_from_edges(_edges_from_mapping(structure))
    elif hasattr(structure, "nodes") and hasattr(structure, "edges"):
        edges = [(edge[0], edge[1]) for edge in structure.edges]
        parents = _parents_from_edges([*((node,) for node in structure.nodes), *edges])
    elif isinstance(structure, Iterable) and not isinstance(structure, str | bytes):
        parents = _parents_from_edges(structure)
    else:
        raise TypeError(
            "structure must be edges (parent, child), a {child: parents} dict, or a pgmpy DAG or "
            f"network; got {type(structure).__name__}"
        )
    if not parents:
        raise ValueError("structure must have at least one node; got none")
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle = " -> ".join(str(node) for node in error.args[1])
        raise ValueError(f"structure must have no cycle; got {cycle}") from None
    return {node: tuple(parents[node]) for node in order}


def _edges_from_mapping(structure: Mapping) -> list[tuple]:
    """Return the children as nodes, then an edge for each of their parents."""
    for child, parents in structure.items():
        if isinstance(parents, str | bytes) or not isinstance(parents, Iterable):
            raise ValueError(
                f"structure must give the parents of each node as a list; for {child!r} it gives "
                f"{type(parents).__name__}"
            )
    edges = [(parent, child) for child, parents in structure.items() for parent in parents]
    return [*((child,) for child in structure), *edges]


def _parents_from_edges(edges: Iterable) -> dict[Hashable, list[Hashable]]:
    parents: dict[Hashable, list[Hashable]] = {}
    for edge in edges:
        # A string of two letters would unpack like an edge.
        is_tuple = isinstance(edge, Iterable) and not isinstance(edge, str | bytes)
        nodes = tuple(edge) if is_tuple else ()
        if len(nodes) not in (1, 2):
            raise ValueError(
                "structure must contain pairs (parent, child), or (node,) for a node without "
                f"edges; got {edge!r}"
            )
        if not are_hashable(nodes):
            raise TypeError("structure must have nodes that can be hashed; some cannot")
        for node in nodes:
            parents.setdefault(node, [])
        if len(nodes) == 2:
            if nodes[0] in parents[nodes[1]]:
                raise ValueError(f"structure must name each edge once; {nodes!r} is a duplicate")
            parents[nodes[1]].append(nodes[0])
    return parents
