"""Bayesian network with learnt structure: one budget for structure and parameters."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from math import isqrt
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._docs import shared_docs
from .._messages import warn
from .._persons import CountedRows, select_persons, select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, _fit_context
from .._validation import check_integer
from ..accounting.worst_case import PERSON_RELATIONS
from ..base import Budget, CountingEstimator
from ..mechanisms.splitting import split_with_selection
from ..mechanisms.tables import ContributionBound
from ..schema import Constraint, Key, Records, Schema, as_records, narrow, text_column
from .base import (
    Codes,
    Family,
    Parents,
    StateColumn,
    TargetModel,
    check_kept,
    count_joint,
    log_likelihood,
    sample_codes,
)
from .clique_tree import (
    MAX_TOTAL_CELLS,
    Clique,
    CliqueTree,
    MarginErrors,
    Measurement,
    clipped_probabilities,
    clique_potentials,
    combine_measurements,
    eliminate_variables,
    fit_tables,
    ordered_marginal,
)
from .columns import (
    BinCells,
    Candidates,
    Moments,
    ReleasedColumn,
    Tail,
    as_mask,
    draw_values,
    extend_tails,
)
from .structure_learning import (
    MAX_COLUMNS,
    EncodedTable,
    ReleaseSchedule,
    StructureConstraints,
    dependence_scores,
    estimate_total,
    grouped_counts,
    learn_parents,
    pair_distances,
    parse_constraints,
    plan_refinements,
    schema_from_parameters,
)

# The constants below were tuned on the adult data set.
# Share of the budget used to find the states of columns without a public list.
_SELECTION_SHARE = 0.1
# Share of the model of the target, chosen on adult and six other tables of benchmarks/data.py: at
# epsilon = 1, shares of 0.1, 0.2, 0.3 and 0.45 had mean AUCs of .854, .870, .876 and .872.
_TARGET_SHARE = 0.3
# Cells whose count is below this many standard deviations of the noise are grouped.
_MIN_SIGNAL_TO_NOISE = 3.0
# Cost of a cell of a clique, as a fraction of the error that its noise is expected to add.
_SIZE_PENALTY = 0.5
# Smoothing in addition to alpha, in standard deviations of the noise.
_NOISE_SMOOTHING = 0.5
_MAX_FIT_STEPS = 150
# Records that are drawn to find weights, candidates for each record of a sample, and records that
# are drawn at least to select some of them.
_N_WEIGHTED, _N_DRAWN, _MIN_DRAWN = 20_000, 2, 1000


@shared_docs
class PrivateBayesNet(MarginErrors):
    """Bayesian network with learnt structure, for synthetic records.

    One budget covers all steps: the states of columns without a public list; the counts of each
    column; a dependence score of each pair of columns; the counts of small sets of columns, chosen
    by the scores; second moments of numbers; and a model of the target, if one is given. Each step
    may depend on the releases of earlier ones.

    Parameters
    ----------
    schema : Schema, or dict of column declarations, default=None
        Public description of the columns. Keys and ignored columns are not modelled. If it declares
        a person, person ids and `max_rows` are taken from the schema. If it declares constraints,
        all synthetic records satisfy them, at no privacy cost.
    states : dict of list, default=None
        Public values of categorical columns, if there is no schema. Other values raise an error.
    bounds : dict of (low, high), default=None
        Public ranges of numeric columns, if there is no schema; a pair of integers declares whole
        numbers. Values outside the bounds are clipped to them. For columns with neither states nor
        bounds, values that occur in enough records are found using part of the budget; all other
        values become "other".
    constraints : dict, default=None
        Public constraints on the structure: lists of edges (parent, child) as "required" and
        "forbidden", and a list of columns as "order", in which no column has a later one as a
        parent.
    max_parents : int, default=3
        Maximum number of parents of a column. Columns may have fewer if the noise is large.
    target : column, default=None
        Variable that `predict` and `predict_proba` predict. Its states become `classes_`, and its
        rare states are not grouped. If it is given, 30% of the budget is spent on an additive model
        of the target given all other columns, by the steps of `PrivateTableClassifier`. It predicts
        the target, and draws the target of synthetic records after the network has drawn all other
        columns. The attributes and `marginal` describe the network, which has all columns.
    alpha : float, default=1.0
        Additive smoothing: number of pseudo-records for each configuration of a column's parents,
        distributed like the column itself. Post-processing adds more smoothing.
    {columns}
    max_family_cells : int, default=10_000
        Maximum number of cells in the table of a column and its parents.
    {epsilon, delta, order, adjacency, max_rows}
    postprocess : bool, default=True
        Whether to post-process the noisy clique tables, at no privacy cost: they are made
        consistent with each other and with the column counts, and then smoothed. If False, each
        table is used as drawn, with negative counts set to 0.
    {accountant, label, random_state}

    Attributes
    ----------
    {model_}
    structure_ : dict of tuple
        Released parents of each column; each column is listed after its parents.
    states_ : dict of list
        Released states: values, tuples of rare values, ranges of numbers, "(missing)".
    probabilities_ : dict of ndarray of shape (n_configurations, n_states)
        Released P(column | parents). Configurations of the parents are in the order of
        `itertools.product` over their states.
    n_records_ : float
        Number of records: public if `adjacency="replace"`, otherwise estimated from the release.
    sigma_ : dict
        Standard deviation of the noise, with keys "columns", "pairs" and "cliques" (a dict with one
        value per clique). Columns of numbers and dates add "parts" (counts within bins) and, if
        they are released, "moments" and "tails" (mean products and squares).
    {classes_, privacy_}
    columns_ : list
        Modelled columns, in the order of X.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    PrivateBayesNetMLE : Private parameters for a network of given structure.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNet
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(18, 80, 20_000)
    >>> works = np.where(rng.random(20_000) < np.where(age < 65, 0.8, 0.1), "yes", "no")
    >>> X = pd.DataFrame({"age": age, "works": works})
    >>> model = PrivateBayesNet({"works": ["yes", "no"], "age": (18, 80)}).fit(X)
    >>> records = model.sample(1000)
    >>> records.dtypes["age"], set(records["works"]) == {"yes", "no"}
    (dtype('int64'), True)
    >>> old = model.sample(1000, given={"age": (70, 80)})
    >>> bool((old["works"] == "yes").mean() < 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: constraint
            for name, constraint in CountingEstimator._parameter_constraints.items()
            if name not in ("mechanism", "calibration", "n_samples")
        },
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "schema": [Schema, dict, None],
        "states": [dict, None],
        "bounds": [dict, None],
        "constraints": [dict, None],
        "max_parents": [Interval(Integral, 0, None, closed="left")],
        "target": [object],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "columns": ["array-like", None],
        "max_family_cells": [Interval(Integral, 16, MAX_TOTAL_CELLS, closed="both")],
        "postprocess": ["boolean"],
    }

    # Only the budget of a Gaussian mechanism can be split over steps without loss.
    mechanism: ClassVar[str] = "gaussian"  # type: ignore[misc]
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]
    n_samples: ClassVar[None] = None  # type: ignore[misc]

    sigma_: dict[str, Any]
    _moments_: Moments | None = None
    _constraints_: tuple[Constraint, ...] = ()
    _keys_: Mapping[Hashable, Key] = MappingProxyType({})

    def __init__(
        self,
        schema: Schema | Mapping[Any, Any] | None = None,
        *,
        states: Mapping[Any, Iterable[Any]] | None = None,
        bounds: Mapping[Any, tuple[float, float]] | None = None,
        constraints: Mapping[str, Any] | None = None,
        max_parents: int = 3,
        target: Hashable | None = None,
        alpha: float = 1.0,
        columns: Sequence[Hashable] | None = None,
        max_family_cells: int = 10_000,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        adjacency: str = "replace",
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.schema = schema
        self.states = states
        self.bounds = bounds
        self.constraints = constraints
        self.max_parents = max_parents
        self.target = target
        self.alpha = alpha
        self.columns = columns
        self.max_family_cells = max_family_cells
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "PrivateBayesNet":
        """Learn structure and parameters, and release them.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)
            All columns are modelled, except keys and ignored columns of a schema. With a schema, X
            may also be a Dask collection, a PyArrow dataset or a lazy frame, whose records are then
            read into memory.
        y : Ignored
        groups : array-like of shape (n_samples,), default=None
            Person of each record, as whole numbers or strings. Only the first `max_rows` records of
            each person are counted. If None, each person is assumed to have at most `max_rows`
            records.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            records, schema = self._read_records(X)
            kinds = schema.columns
            names = [name for name in records.columns if kinds[name].is_counted]
            if records.n_records == 0:
                raise ValueError("X must contain at least one record; got 0")
            if self.target is not None and self.target not in names:
                raise ValueError(f"target must be a column of X; got {self.target!r}")
            constraints = parse_constraints(self.constraints, names, int(self.max_parents))
            counted = select_persons(schema, records, groups, self.max_rows)
            table = EncodedTable.from_records(records, schema, counted.rows)
            table.check_sizes(constraints, int(self.max_family_cells))
            schedule = self._plan(
                context.budget, counted, len(names), len(table.unlisted), plan_refinements(schema)
            )
            n_records = counted.n_rows if context.budget.has_public_size(counted.unit) else None

            schedule.start(self._charge(*schedule.joint.as_charge(), counted.unit))
            self._encoding_: dict[str, Any] = {
                "missing_values": frozenset(schema.missing_values),
                "strict": schema.strict,
            }
            self._learn(table, schedule, n_records, constraints)
            self.columns_ = names
            self._constraints_ = schema._constraints
            self._order_ = list(records.columns)
            drawn = {name: kinds[name] for name in self._order_}
            self._keys_ = {name: kind for name, kind in drawn.items() if isinstance(kind, Key)}
            self._set_feature_names(names)
            report = self._report(context.budget, schedule.joint.parts, (), counted.unit, n_records)
            self.privacy_ = schedule.report_class(**vars(report))
        return self

    def _read_records(self, X: Any) -> tuple[Records, Schema]:
        """Return the columns of X with their schema."""
        if self.schema is None:
            records = as_records(X, self.columns)
            return records, schema_from_parameters(records, self.states or {}, self.bounds or {})
        if self.states is not None or self.bounds is not None:
            raise ValueError(
                "states and bounds must not be given with a schema, which already declares them"
            )
        schema = self.schema if isinstance(self.schema, Schema) else Schema(self.schema)
        return schema.records(X), schema

    def _plan(
        self,
        budget: Budget,
        counted: CountedRows,
        n_columns: int,
        n_unlisted: int,
        refinements: Sequence[int],
    ) -> ReleaseSchedule:
        """Calibrate the releases of all steps to the budget."""
        unit, relation = counted.unit, budget.adjacency
        bound = ContributionBound().for_person(unit.max_rows)
        relation = PERSON_RELATIONS[relation] if unit.is_person else relation
        gaussian, selections = split_with_selection(
            *budget[:3], relation, bound, n_unlisted, _SELECTION_SHARE
        )
        share = _TARGET_SHARE if self.target is not None and n_columns > 1 else 0.0
        max_cells = int(self.max_family_cells)
        return ReleaseSchedule(gaussian, selections, n_columns, max_cells, refinements, share)

    def _learn(
        self,
        table: EncodedTable,
        schedule: ReleaseSchedule,
        n_records: int | None,
        constraints: StructureConstraints,
    ) -> None:
        """Run all steps and set the fitted attributes. Exact counts are not kept."""
        table.add_states(schedule.select_states(table.unlisted))
        counts = table.count()
        noisy = schedule.release_columns(counts)
        total = estimate_total(noisy.values()) if n_records is None else float(n_records)
        self.n_records_ = total
        self._released_ = columns = self._group_cells(table.domains, noisy, schedule)
        tails = schedule.release_numbers(columns, table, total)
        codes = {name: column.groups[table.cells[name]] for name, column in columns.items()}
        self.structure_ = self._choose_parents(codes, schedule, constraints)
        sizes = {name: len(column.group_shares) for name, column in columns.items()}
        tree = CliqueTree.from_parents(self.structure_, sizes)
        cliques, again = schedule.release_cliques(
            tree.count(codes), grouped_counts(columns, counts)
        )
        for name, measurement in again.items():
            noisy[name] = better = noisy[name].combine(measurement)
            columns[name] = columns[name].update_shares(better.values, total, float(better.sigma))
        self.sigma_ = {
            "columns": schedule.column_sigma,
            "pairs": schedule.pair_sigma,
            "cliques": {clique: each.sigma for clique, each in cliques.items()},
            **schedule.number_sigmas,
        }
        self._set_probabilities(tree, cliques, noisy)
        self._moments_ = self._learn_moments(table, schedule, tails)
        self._learn_target(table, codes, schedule)

    def _learn_target(self, table: EncodedTable, codes: Codes, schedule: ReleaseSchedule) -> None:
        """Release an additive model of the target given all other columns."""
        self._target_model_ = None
        if schedule.target is None or self._released_[self.target].n_groups < 2:
            return
        target = self._released_[self.target]
        others = [
            StateColumn(name, column.n_groups, isinstance(column.domain, BinCells))
            for name, column in self._released_.items()
            if name != self.target
        ]
        if not target.can_draw[-1]:  # records without a label are not counted
            labelled = table.cells[self.target] < target.domain.n_cells - 1
            codes = {name: each[labelled] for name, each in codes.items()}
        model = TargetModel.learn(
            self.target, others, target.n_groups, codes, schedule.target, self.n_records_
        )
        self._target_model_ = model.match_shares(
            self._families, self.probabilities_, self._choose_by_moments
        )

    def _choose_by_moments(self, codes: Codes) -> Codes:
        """Return drawn records as `sample` selects them, by the released second moments."""
        if self._moments_ is None:
            return codes
        generator, columns = np.random.default_rng(0), self._released_
        cells = {n: columns[n].draw_cells(codes[n], None, generator) for n in self._moments_.values}
        chosen = self._moments_.choose(cells, len(codes[self.target]) // _N_DRAWN, generator)
        return {name: each[chosen] for name, each in codes.items()}

    def _learn_moments(
        self, table: EncodedTable, schedule: ReleaseSchedule, tails: dict[Hashable, Tail]
    ) -> Moments | None:
        """Release the second moments of numbers, and weight records to meet them."""
        sigma, total = self.sigma_.get("moments"), self.n_records_
        if sigma is None:
            return None
        families, tables, generator = self._families, self.probabilities_, np.random.default_rng(0)
        if self.postprocess:
            pool = sample_codes(families, tables, _N_WEIGHTED, generator, even=True)
            tails = extend_tails(self._released_, tails, pool)
        moments = Moments.from_columns(self._released_, tails)
        released = schedule.release_moments(moments, table.cells)
        if not self.postprocess:
            return None
        return moments.fit(self._released_, pool, released / total, sigma / total)

    def _group_cells(
        self, domains: Mapping, noisy: Mapping[Hashable, Measurement], schedule: ReleaseSchedule
    ) -> dict[Hashable, ReleasedColumn]:
        """Group the cells of each column by its noisy counts."""
        return {
            name: ReleasedColumn.from_counts(
                domain,
                noisy[name].values,
                self.n_records_,
                sigma=schedule.column_sigma,
                min_count=_MIN_SIGNAL_TO_NOISE * max(schedule.column_sigma, schedule.clique_sigma),
                max_groups=isqrt(int(self.max_family_cells)),
                keep_all=name == self.target,
            )
            for name, domain in domains.items()
        }

    def _choose_parents(
        self, codes: Codes, schedule: ReleaseSchedule, constraints: StructureConstraints
    ) -> Parents:
        """Release the dependence scores of all pairs, and learn the parents of each column."""
        shares = {name: column.group_shares for name, column in self._released_.items()}
        distances = schedule.release_distances(pair_distances(codes, shares, self.n_records_))
        return learn_parents(
            list(shares),
            {name: len(share) for name, share in shares.items()},
            dependence_scores(distances, shares, self.n_records_),
            _SIZE_PENALTY * np.sqrt(2 / np.pi) * schedule.clique_sigma,
            int(self.max_parents),
            int(self.max_family_cells),
            constraints,
        )

    def _set_probabilities(
        self,
        tree: CliqueTree,
        cliques: Mapping[Clique, Measurement],
        noisy: Mapping[Hashable, Measurement],
    ) -> None:
        """Set states and probabilities from the noisy clique tables and column counts."""
        columns, total = self._released_, self.n_records_
        self.states_ = {name: column.states for name, column in columns.items()}
        grouped = [
            Measurement((name,), *columns[name].sum_groups(each.values, float(each.sigma)))
            for name, each in noisy.items()
        ]
        # Several tables and expected errors are about the noisy counts before post-processing.
        raw = [
            Measurement((n,), *columns[n].add_groups(each.values, float(each.sigma)))
            for n, each in noisy.items()
        ]
        self._measurements_ = [*cliques.values(), *raw]
        self._column_counts_ = dict(noisy)
        if self.postprocess:
            measurements = combine_measurements(cliques, grouped, total)
            beliefs = fit_tables(tree, measurements, total, _MAX_FIT_STEPS)
        else:
            beliefs = [clipped_probabilities(cliques[clique].values) for clique in tree.cliques]
        self.probabilities_ = {
            node: self._smooth(tree, beliefs, family) for node, family in self._families.items()
        }

    def _smooth(self, tree: CliqueTree, beliefs: list[np.ndarray], family: Family) -> np.ndarray:
        """Return P(node | parents), smoothed with pseudo-records distributed like the column."""
        clique = tree.cliques[tree.get_clique((*family.parents, family.node))]
        noise = _NOISE_SMOOTHING * self.sigma_["cliques"][clique] if self.postprocess else 0.0
        # A row without any records has the distribution of the column.
        additional = max(float(self.alpha) + noise, 1e-9)
        shares = self._released_[family.node].group_shares
        weights = self.n_records_ * tree.family_marginal(beliefs, family) + additional * shares
        return weights / weights.sum(axis=1, keepdims=True)

    def _partial_codes(self, records: Records, node: Hashable) -> np.ndarray:
        column = self._released_[node]
        codes, cells = self._encode(records, node)
        if not column.can_draw[-1]:  # missing is not a separate state, so the value is unknown
            codes = np.where(cells == column.domain.n_cells - 1, -1, codes)
        return codes

    def _encode(self, records: Records, node: Hashable) -> tuple[np.ndarray, np.ndarray]:
        """Return the state and the cell of each value of a column."""
        column = self._released_[node]
        codes = column.domain.kind.encode(node, records.columns[node], **self._encoding_)
        return column.group(codes)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each record, as one that `sample` draws.

        A number is scored by the probability of its fine bin. Bins depend on the bounds alone, so
        models with the same bounds can be compared.

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
        codes, total = {}, np.zeros(records.n_records)
        for node in self.structure_:
            column = self._released_[node]
            codes[node], cells = self._encode(records, node)
            total = total + np.log(column.cell_shares[cells])
        score = log_likelihood if self._target_model_ is None else self._target_model_.score
        return score(self._families, self.probabilities_, codes) + total

    def marginal(self, columns: Any) -> pd.Series:
        """Return the joint distribution of some columns, computed exactly from the network.

        Records have the network's shares of the target, but their margins of the target and other
        columns are those of the target's own model.

        Parameters
        ----------
        columns : list
            A few columns: the result has an entry for each combination of their states.

        Returns
        -------
        Series
            Probabilities, indexed by the `states_` of the columns.
        """
        check_is_fitted(self)
        wanted = self._check_wanted(columns)
        tree, products = clique_potentials(self._families, self.probabilities_)
        if (i := tree.find_clique(wanted)) is not None:
            table = ordered_marginal(tree.calibrate(products)[i], tree.cliques[i], wanted)
        else:
            table = eliminate_variables(list(zip(tree.cliques, products, strict=True)), wanted)
        levels = [pd.Index(self.states_[n], tupleize_cols=False, name=n) for n in wanted]
        index = pd.MultiIndex.from_product(levels) if len(wanted) > 1 else levels[0]
        return pd.Series(table.ravel(), index, name="probability")

    def planned_sigma(self, n_columns: int, n_unlisted: int = 0) -> dict[str, float]:
        """Return the standard deviation of the noise of a fit, without using any data.

        Parameters
        ----------
        n_columns : int
            Number of columns of the table.
        n_unlisted : int, default=0
            Number of columns with neither states nor bounds.

        Returns
        -------
        dict of float
            Noise of the counts of "columns", the scores of "pairs" and the counts of "cliques", if
            cliques have equal shares, and second moments but no long tails are released. Divide by
            the number of records to obtain the noise of proportions.

        Examples
        --------
        >>> from skdirdp import PrivateBayesNet
        >>> planned = PrivateBayesNet(epsilon=1.0).planned_sigma(14)
        >>> {step: round(sigma) for step, sigma in planned.items()}
        {'columns': 39, 'pairs': 318, 'cliques': 23}
        """
        n_columns = check_integer("n_columns", n_columns, at_least=1, at_most=MAX_COLUMNS)
        n_unlisted = check_integer("n_unlisted", n_unlisted, at_least=0, at_most=n_columns)
        counted = select_rows(None, 1, self.max_rows)
        refinements = plan_refinements(self.schema or self.bounds or {})
        budget = Budget.from_estimator(self)
        schedule = self._plan(budget, counted, n_columns, n_unlisted, refinements)
        sigmas = schedule.column_sigma, schedule.pair_sigma, schedule.clique_sigma
        return dict(zip(("columns", "pairs", "cliques"), map(float, sigmas), strict=True))

    def empirical_marginals(
        self, X: Any, margins: Sequence[tuple[Hashable, ...]]
    ) -> dict[tuple[Hashable, ...], np.ndarray]:
        """Return the exact marginals of the given records, for comparison with `marginal`.

        Use it on public records only.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns)
        margins : list of tuples of columns

        Returns
        -------
        dict of ndarray
            For each margin, an array with one axis per column, in the order of its `states_`.
        """
        check_is_fitted(self)
        records = as_records(X, self.columns_)
        self._check_columns(records.names)
        names = dict.fromkeys(name for nodes in margins for name in self._check_wanted(nodes))
        codes = {name: self._encode(records, name)[0] for name in names}
        shares = {}
        for nodes in margins:
            shape = tuple(len(self.states_[name]) for name in nodes)
            shares[tuple(nodes)] = count_joint(nodes, shape, codes) / records.n_records
        return shares

    def _check_wanted(self, columns: Any) -> list[Hashable]:
        wanted = [columns] if isinstance(columns, str) else list(columns)
        if not wanted or any(name not in self.columns_ for name in wanted):
            raise ValueError(
                "columns must contain at least one column, and only columns seen during fit"
            )
        if len(set(wanted)) < len(wanted):
            raise ValueError("columns must be distinct; some are duplicates")
        return wanted

    def sample(
        self,
        n_samples: int = 1,
        random_state: Any = None,
        *,
        given: Mapping[Any, Any] | None = None,
        where: Callable[[pd.DataFrame], Any] | None = None,
    ) -> pd.DataFrame:
        """Draw synthetic records from the released network, at no privacy cost.

        The draws are stratified, so the counts over all drawn records vary less than with
        independent draws. If there are several columns of numbers or dates, records are weighted so
        that their second moments, and hence correlations and standard deviations, are close to the
        released ones. If a target was fitted, it is drawn last, by its own model.

        All records satisfy the constraints of the schema: records that violate one are rejected,
        and others are chosen by weights with which the columns in constraints keep the shares and
        correlations that they had before.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Seed for sampling; unrelated to the privacy noise.
        given : dict, default=None
            Conditions on columns: a state or a list of states of a categorical column, a
            number or a pair (low, high) for a numeric column, None for a missing value.
            Records are drawn from the conditional distribution, and with a condition on the
            target selected among five times as many.
        where : callable, default=None
            Public constraint: takes a DataFrame of records and returns a mask of those that
            are kept. Others, and those with a missing entry, are drawn again.

        Returns
        -------
        DataFrame
            Columns in the order in which they were fitted. Columns of whole numbers have an integer
            dtype; other numeric columns are floats, drawn from fine bins and frequent values. Keys
            are new, unique and numbered, in the form that the schema declares.

        Warns
        -----
        UserWarning
            If the constraints of the schema reject more than half of the drawn records.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=0)
        generator = sampling_generator(random_state)
        draw = self._sampler(dict(given or {}), generator)
        if where is None:
            return self._add_keys(draw(n_samples))
        parts: list[pd.DataFrame] = []
        n_kept, n_drawn = 0, 0
        while n_kept < n_samples or not parts:
            wanted = n_samples - n_kept
            size = max(_MIN_DRAWN, wanted)
            if n_drawn:  # a tenth more than expected, at most ten times as many
                size = max(size, min(10 * wanted, wanted * n_drawn * 11 // (10 * n_kept + 1)))
            drawn = draw(size)
            parts.append(drawn[as_mask(where(drawn))])
            n_kept, n_drawn = n_kept + len(parts[-1]), n_drawn + size
            check_kept(n_kept, n_drawn)
        return self._add_keys(narrow(pd.concat(parts, ignore_index=True).iloc[:n_samples]))

    def _add_keys(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """Return records with new keys, in the order of the columns of X."""
        if not self._keys_:
            return drawn
        found = {**drawn, **{n: text_column(k.draw(len(drawn))) for n, k in self._keys_.items()}}
        return pd.DataFrame({name: found[name] for name in self._order_ if name in found})

    def _sampler(
        self, given: dict[Hashable, Any], generator: np.random.Generator
    ) -> Callable[[int], pd.DataFrame]:
        """Return a function that draws records under conditions on columns."""
        unknown = [name for name in given if name not in self.columns_]
        if unknown:
            raise ValueError(f"keys of `given` must be columns seen during fit; got {unknown[0]!r}")
        columns = self._released_
        draw_cells = self._cell_sampler(given, generator)

        def draw(n_samples: int) -> pd.DataFrame:
            if not self._constraints_:
                return draw_values(columns, draw_cells(n_samples), given, generator)
            found = pool = self._draw_pool(n_samples, generator)
            for message in pool.warnings:
                warn(message)
            if given:
                sizes = max(n_samples, _MIN_DRAWN), _N_DRAWN * n_samples
                found = Candidates.draw(
                    columns, self._constraints_, draw_cells, *sizes, given, generator
                )
            raking = pool.rake(columns)
            chosen = raking.choose(found.cells, n_samples, generator, even=self._draws_evenly)
            known = found.values.iloc[chosen].reset_index(drop=True)
            cells = {n: each[chosen] for n, each in found.cells.items() if n not in known}
            drawn = draw_values(columns, cells, given, generator)
            return narrow(pd.concat([known, drawn], axis=1)[self.columns_])

        return draw

    def _draw_pool(self, n_samples: int, generator: np.random.Generator) -> Candidates:
        """Draw records without conditions, and enough of them for weights."""
        sizes = max(n_samples, _N_WEIGHTED), max(_N_DRAWN * n_samples, _MIN_DRAWN)
        draw_cells = self._cell_sampler({}, generator)
        return Candidates.draw(
            self._released_, self._constraints_, draw_cells, *sizes, {}, generator
        )

    def _weight_changes(self, pool: Candidates) -> tuple[Codes, np.ndarray]:
        """Return states of records of the network, and changes of their shares in samples."""
        network: Any = copy(self)
        network._moments_ = None
        found = network._draw_pool(0, np.random.default_rng(0))
        weights = pool.rake(self._released_).weights(found.first) * found.kept
        if self._moments_ is not None:
            weights *= self._moments_.weights(found.first)
        codes = {name: self._released_[name].groups[each] for name, each in found.first.items()}
        return codes, weights / max(float(weights.sum()), 1e-300) - 1 / len(weights)

    def _cell_sampler(
        self, given: dict[Hashable, Any], generator: np.random.Generator
    ) -> Callable[[int], dict[Hashable, np.ndarray]]:
        """Return a function that draws the cells of records, without the constraints."""
        columns = self._released_
        weights = {name: columns[name].condition_weights(name, given[name]) for name in given}
        tables = self._condition(weights) if given else self.probabilities_
        families, model, moments = self._families, self._target_model_, self._moments_
        meets = None
        if model is not None and model.target in given:
            meets = columns[model.target].group_weights(weights[model.target])

        def draw_cells(codes: Codes, name: Hashable) -> np.ndarray:
            return columns[name].draw_cells(codes[name], weights.get(name), generator)

        def draw(n_samples: int) -> dict[Hashable, np.ndarray]:
            n_drawn = n_samples if moments is None else _N_DRAWN * n_samples
            if model is None or meets is None:
                codes = sample_codes(families, tables, n_drawn, generator, even=self._draws_evenly)
            else:
                codes = model.draw_given(
                    families, self.probabilities_, tables, meets, n_drawn, generator
                )
            cells = {name: draw_cells(codes, name) for name in self.columns_}
            if moments is not None and n_samples:
                chosen = moments.choose(cells, n_samples, generator)
                codes = {name: each[chosen] for name, each in codes.items()}
                cells = {name: each[chosen] for name, each in cells.items()}
            if model is not None:  # the label of the chosen records
                codes[model.target] = model.draw_labels(codes, meets, generator)
                cells[model.target] = draw_cells(codes, model.target)
            return cells

        return draw

    def _condition(self, weights: Mapping[Hashable, np.ndarray]) -> dict[Hashable, np.ndarray]:
        """Return P(node | parents, conditions) of each node, given the weights of cells."""
        evidence = {name: self._released_[name].group_weights(w) for name, w in weights.items()}
        tree, products = clique_potentials(self._families, self.probabilities_, evidence)
        with np.errstate(invalid="ignore"):
            beliefs = tree.calibrate(products)
        if not np.isfinite(beliefs[0]).all():
            raise ValueError("the conditions in `given` have probability 0 in the network")
        tables = {}
        for node, family in self._families.items():
            table = tree.family_marginal(beliefs, family)
            sums = table.sum(axis=1, keepdims=True)
            # No record is drawn from a row of probability 0.
            tables[node] = np.divide(
                table, sums, out=np.full_like(table, 1 / family.n_states), where=sums > 0
            )
        return tables
