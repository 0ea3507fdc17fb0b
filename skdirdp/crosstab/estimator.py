"""Private one-, two- and three-way tables of counts from one release.

A record is in one cell of each table, by its own cells and the schema alone, so each table has the
contribution bound of a single count. All tables are one charge: the mechanisms compose exactly
(docs/theory.md, section 18). Everything else is computed from the noisy tables.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod, sqrt
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.stats import entropy
from sklearn.utils.validation import check_is_fitted

from .._contributions import check_given_counts
from .._docs import shared_docs
from .._messages import warn_of_missing
from .._persons import check_person
from .._sklearn_compat import Interval, _fit_context
from .._validation import check_real, check_tables
from ..base import CountingEstimator, ReleaseContext, ReleasePlan
from ..bayes_net import PrivateBayesNetMLE
from ..bayes_net.base import Family, Parents
from ..bayes_net.bayes_net_mle import FamilyCounter, StateEncoder, network_from_tables
from ..bayes_net.clique_tree import clipped_probabilities
from ..engines import Part, TableCounts, open_by_schema
from ..inference import NoisyTable
from ..mechanisms import Mechanism
from ..mechanisms.tables import CountTable
from ..postprocessing import NoisyTable as NoisyCounts
from ..postprocessing import (
    TableEstimate,
    estimate_counts,
    low_rank_shares,
    make_consistent,
    reconcile_tables,
)
from ..schema import Categories, Names, Schema, columns_with_values, raise_if_errors
from ..table_classifier.classifier import PrivateTableClassifier, classifier_from_tables
from ..table_classifier.releases import GivenCounts
from .queries import Columns, TableQueries, combine_margins, margin

_MOST_COLUMNS = 3
# Label of the sums in a table, as in pandas.crosstab.
_MARGIN = "All"
_TINY = float(np.finfo(float).tiny)


@shared_docs
class PrivateCrosstab(TableQueries, CountingEstimator):
    """Private tables of counts, with estimates and tests that take the noise into account.

    Counts records by one, two or three columns. All tables are released together, for one budget
    and one charge. Numbers and dates are counted by the bins of the schema, and missing values are
    a category. Estimates for a population include the uncertainty of sampling and of the noise.

    Parameters
    ----------
    schema : Schema, or dict of column declarations
        Public description of the columns. Keys and ignored columns are not counted. If it names a
        person, the ids of persons and `max_rows` are those of the schema.
    tables : list, or dict of float, default=None
        Columns of each table: a column, or a tuple of up to three. A dict has the share of the
        budget of each table, up to a common factor: the variance of the noise is inversely
        proportional to it. If None, all pairs of columns.
    max_cells : int, default=10_000_000
        Largest number of cells of all tables together. More are an error.
    {epsilon, delta, order}
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}, default="auto"
        Noise distribution. "auto" selects Gaussian or Laplace noise, whichever has the smaller
        variance for the budget: Laplace noise for few tables. Dirichlet noise has the variance of
        Gaussian noise in empty cells, and more in others. "laplace" and "auto" allow `delta=0`.
    {adjacency}
    n_samples : float, default=None
        Expected number of records. Only `FederatedRound` needs it; the noise does not depend on it.
    {max_rows, postprocess, accountant, label, random_state}

    Attributes
    ----------
    tables_ : list of tuple
        Columns of each released table.
    categories_ : dict of list
        Categories of each column: values, bins, and "(missing)".
    noisy_counts_ : dict of ndarray
        Released counts of each table, with a dimension for each column. They are unbiased, and
        some may be negative.
    counts_ : dict of ndarray
        Estimated counts of each table. They are not negative, and all tables agree on the margins
        that they share. Without post-processing, the released counts.
    mechanisms_ : dict of Mechanism
        Mechanism that released each table.
    n_records_ : float
        Number of records: public under replacement, otherwise estimated from the release.
    {privacy_}
    schema_ : Schema
        Schema of the counted columns.
    {n_features_in_, feature_names_in_}

    See Also
    --------
    PrivateBayesNet : Bayesian network with learnt structure, for synthetic records.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateCrosstab, Schema
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 5000)
    >>> readmitted = rng.random(5000) < np.where(sex == "f", 0.2, 0.3)
    >>> visits = pd.DataFrame({"sex": sex, "readmitted": readmitted})
    >>> schema = Schema({"sex": ["f", "m"], "readmitted": bool})
    >>> tabs = PrivateCrosstab(schema, epsilon=1.0).fit(visits)
    >>> tabs.table("sex", "readmitted").shape
    (4, 4)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: constraint
            for name, constraint in CountingEstimator._parameter_constraints.items()
            if name != "calibration"
        },
        "schema": [Schema, dict],
        "tables": [None, list, tuple, dict],
        "max_cells": [Interval(Integral, 1, None, closed="left")],
        "postprocess": ["boolean"],
    }

    # The papers' calibrations are for tables of probabilities, not for counts.
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]

    tables_: list[Columns]
    categories_: dict[Hashable, list[Hashable]]
    noisy_counts_: dict[Columns, np.ndarray]
    counts_: dict[Columns, np.ndarray]
    mechanisms_: dict[Columns, Mechanism]
    n_records_: float
    schema_: Schema
    _declared_: Schema

    def __init__(
        self,
        schema: Schema | Mapping[Any, Any],
        tables: Any = None,
        *,
        max_cells: int = 10_000_000,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        mechanism: str = "auto",
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.schema = schema
        self.tables = tables
        self.max_cells = max_cells
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "PrivateCrosstab":
        """Count all tables, and release them.

        Parameters
        ----------
        X : DataFrame, array of shape (n_samples, n_columns), Dask collection or lazy frame
            Has all columns of the tables. The columns of an array are in the order of the schema.
            Tables that are not in memory are counted block by block (docs/scale.md).
        y : Ignored
        groups : array-like of shape (n_samples,), or str, default=None
            Person of each record, as whole numbers or strings, or the name of the column
            that holds them. Only the first `max_rows` records of each person are counted. If
            None, no person has more. Must be None if the schema has a `person`.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            schema, weights, counter = self._prepare()
            table = open_by_schema(schema, X, groups, self.max_rows)
            if table.in_memory:
                if schema.person is not None:
                    check_person(schema, groups, self.max_rows)
                counts = counter.count_part(_in_memory_part(schema, table.part), None)
            else:
                self._check_columns(schema, schema.records(table.empty, optional=True).columns)
                counts = table.select_features(list(counter.encoder.kinds)).count(counter)
            self._release_counts(context, schema, weights, counter, counts)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables: Mapping[Any, Any], *, n_samples: int) -> "PrivateCrosstab":
        """Release tables that are already counted.

        The caller ensures that each record, or each of the `max_rows` records of a person, is
        in one cell of each table. This cannot be checked.

        Parameters
        ----------
        tables : dict
            For each table, by its columns as in `tables_`, an array of whole numbers with a
            dimension for each column, in the order of the categories of the schema.
        n_samples : int
            Number of records that were counted.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import PrivateCrosstab, Schema
        >>> yes_no = Schema.categories(["no", "yes"], missing=False)
        >>> tabs = PrivateCrosstab(Schema({"rain": yes_no, "wet": yes_no}))
        >>> tabs.fit_counts({("rain", "wet"): [[650, 50], [10, 290]]}, n_samples=1000).tables_
        [('rain', 'wet')]
        """
        with self._fitting() as context:
            schema, weights, counter = self._prepare()
            given = _check_given(tables, list(weights))
            counted = self._selected(n_samples)
            counts = []
            for columns, family in counter.families.items():
                shape = (*family.parent_states, family.n_states)
                name = f"the table of {columns}"
                counts.append(check_given_counts(name, given[columns], shape, counted.n_rows))
            released = TableCounts(counted, counts)
            self._release_counts(context, schema, weights, counter, released)
        return self

    def _prepare(self) -> tuple[Schema, dict[Columns, float], FamilyCounter]:
        """Return the schema, the shares of the tables, and the counter of all of them."""
        if self._release_context().in_pipeline:
            raise TypeError(
                "PrivateCrosstab cannot be a step of a PrivatePipeline: it counts the columns of "
                "its schema. Fit it on its own"
            )
        schema = self.schema if isinstance(self.schema, Schema) else Schema(self.schema)
        weights = parse_tables(self.tables, schema)
        used = dict.fromkeys(name for columns in weights for name in columns)
        kinds = {name: schema[name] for name in used}
        sizes = {name: kind.n_cells for name, kind in kinds.items()}
        families = {
            columns: Family(
                columns[-1],
                columns[:-1],
                sizes[columns[-1]],
                tuple(sizes[name] for name in columns[:-1]),
            )
            for columns in weights
        }
        n_cells = sum(family.n_cells for family in families.values())
        if n_cells > int(self.max_cells):
            raise ValueError(
                f"max_cells={self.max_cells} must be at least the number of cells of all tables, "
                f"{n_cells}. Name fewer tables, or declare fewer bins. Nothing was charged"
            )
        encoder = StateEncoder(kinds, schema)
        return schema, weights, FamilyCounter(families, encoder, list(schema), int(self.max_rows))

    @staticmethod
    def _check_columns(schema: Schema, names: Any) -> None:
        lacking = [name for name in schema.features if name not in names]
        raise_if_errors(
            "the columns of X must be those of the schema",
            dict.fromkeys(lacking, "is not in the table"),
        )

    def _release_counts(
        self,
        context: ReleaseContext,
        schema: Schema,
        weights: Mapping[Columns, float],
        counter: FamilyCounter,
        counts: TableCounts,
    ) -> None:
        """Release the counts of all tables, and set the fitted attributes."""
        # The noise follows from the budget alone.
        n_samples = 1.0 if self.n_samples is None else float(self.n_samples)
        tables = [
            # The cells of a table are one row. Counts are drawn, and not smoothed.
            CountTable(
                n_samples,
                table.size,
                precision=sqrt(weight),
                min_smoothing=0.0,
                postprocess=True,
            )
            for weight, table in zip(weights.values(), counts.tables, strict=True)
        ]
        rows = [table.reshape(1, -1) for table in counts.tables]
        plan = ReleasePlan(self, context, list(zip(tables, rows, strict=True)), counts.counted)
        released = context.release(plan)
        families = counter.families
        shapes = [(*family.parent_states, family.n_states) for family in families.values()]
        # Without noise, a mechanism returns shares.
        drawn = [each.drawn for each in released] if context.is_private else rows
        self.tables_ = list(weights)
        self._declared_ = schema
        self.schema_ = schema.select(list(counter.encoder.kinds))
        self.categories_ = {name: kind.labels() for name, kind in counter.encoder.kinds.items()}
        self.noisy_counts_ = {
            columns: table.reshape(shape)
            for columns, table, shape in zip(weights, drawn, shapes, strict=True)
        }
        # Every table has several cells, and therefore a mechanism.
        mechanisms = [each.mechanism for each in released if each.mechanism is not None]
        self.mechanisms_ = dict(zip(weights, mechanisms, strict=True))
        self._set_estimates(context, plan.n_records)
        self._set_feature_names(list(self.categories_))
        self._warn_of_missing()

    def _warn_of_missing(self) -> None:
        shares = {}
        for columns, counts in self.counts_.items():
            for axis, name in enumerate(columns):
                if self.schema_[name].missing:
                    missing = np.take(counts, -1, axis).sum()
                    shares[name] = float(missing / max(counts.sum(), 1.0))
        warn_of_missing(shares)

    def _set_estimates(self, context: ReleaseContext, n_records: int | None) -> None:
        """Estimate the true counts from the released ones."""
        total = None if n_records is None else float(n_records)
        self.counts_ = self.noisy_counts_
        if context.is_private and self.postprocess:
            noisy = [
                NoisyCounts(counts, self.mechanisms_[columns].noise, columns)
                for columns, counts in self.noisy_counts_.items()
            ]
            # Estimates of small counts are too large on average. In the margins of a table these
            # errors add up, so columns are estimated by themselves too.
            columns = self._shared_columns()
            alone = estimate_counts(columns, total, exact_sums=True)
            joint = self._expected_shares(noisy, columns, alone, total)
            of_tables = estimate_counts(noisy, total, joint_shares=joint, exact_sums=True)
            estimates = [
                NoisyCounts(estimate.limited(), table.noise, table.axes)
                for estimate, table in zip([*of_tables, *alone], [*noisy, *columns], strict=True)
            ]
            found = reconcile_tables(estimates, total)[: len(noisy)]
            self.counts_ = dict(zip(self.tables_, found, strict=True))
        self.n_records_ = float(self.counts_[self.tables_[0]].sum()) if total is None else total

    @staticmethod
    def _expected_shares(
        noisy: Sequence[NoisyCounts],
        columns: Sequence[NoisyCounts],
        alone: Sequence[TableEstimate],
        total: float | None,
    ) -> list[np.ndarray] | None:
        """Return the shares of cells that the dependences of all columns suggest."""
        if not columns:
            return None
        consistent = make_consistent(noisy, total)
        agreed = [replace(each.table, counts=each.counts) for each in consistent]
        shares = {
            table.axes[0]: estimate.counts / estimate.counts.sum()
            for table, estimate in zip(columns, alone, strict=True)
        }
        n_records = float(agreed[0].counts.sum()) if total is None else total
        return low_rank_shares(agreed, shares, max(n_records, 1.0))

    def _shared_columns(self) -> list[NoisyCounts]:
        """Return the noisy counts of each column that several tables have."""
        found = []
        for name in self.categories_:
            tables = {
                columns: counts for columns, counts in self.noisy_counts_.items() if name in columns
            }
            if len(tables) > 1:
                table = combine_margins(tables, self.mechanisms_, (name,), None)
                found.append(NoisyCounts(table.counts, table.noise, (name,)))
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return "privacy_" in vars(self)

    # Tables -------------------------------------------------------------------------------

    def table(self, *columns: Hashable, margins: bool = True) -> pd.DataFrame:
        """Return the estimated counts of some columns.

        Parameters
        ----------
        *columns : columns
            One to three columns that a released table has.
        margins : bool, default=True
            Whether to add sums as a last row and a last column, "All".

        Returns
        -------
        DataFrame
            Rows are the categories of the first column, or combinations of the first two. Columns
            are the categories of the last one, or "count" if there is one column.
        """
        check_is_fitted(self)
        holder = self._find(columns)[0]
        counts = margin(self.counts_[holder], holder, columns)
        return self._as_frame(counts, columns, margins)

    def _find(self, columns: Sequence[Hashable]) -> list[Columns]:
        """Return the released tables that have some columns, those with fewest cells first."""
        unknown = [name for name in columns if name not in self.categories_]
        if unknown:
            raise ValueError(f"columns must be released; {unknown[0]!r} is not")
        if not columns or len(set(columns)) < len(columns):
            raise ValueError("columns must be one or more different columns of the tables")
        found = [table for table in self.tables_ if set(columns) <= set(table)]
        if not found:
            listed = ", ".join(map(repr, columns))
            raise ValueError(f"no released table has the columns {listed}; name it in tables")
        return sorted(found, key=lambda table: self.noisy_counts_[table].size)

    def _as_frame(self, counts: np.ndarray, columns: Columns, margins: bool) -> pd.DataFrame:
        labels = [self.categories_[name] for name in columns]
        rows = counts.reshape(-1, counts.shape[-1] if len(columns) > 1 else 1)
        if len(columns) == 1:
            index, header = _index(labels, columns, margins), pd.Index(["count"])
            values = np.vstack([rows, rows.sum(axis=0)]) if margins else rows
            return pd.DataFrame(values, index=index, columns=header)
        index, header = (
            _index(labels[:-1], columns[:-1], margins),
            _index(labels[-1:], columns[-1:], margins),
        )
        if margins:
            rows = np.vstack([rows, rows.sum(axis=0)])
            rows = np.column_stack([rows, rows.sum(axis=1)])
        return pd.DataFrame(rows, index=index, columns=header)

    def noisy_table(self, *columns: Hashable) -> NoisyTable:
        """Return the noisy counts of some columns with their noise, for other statistics.

        Parameters
        ----------
        *columns : columns
            One to three columns that a released table has.

        Returns
        -------
        inference.NoisyTable
            Unbiased counts, with a dimension for each column. If several released tables have all
            columns, the average of their margins, weighted by the precision of their noise.
        """
        check_is_fitted(self)
        found = {table: self.noisy_counts_[table] for table in self._find(columns)}
        return combine_margins(found, self.mechanisms_, columns, self.privacy_.n_records)

    # Models -------------------------------------------------------------------------------

    def network(self) -> PrivateBayesNetMLE:
        """Return a Bayesian network estimated from the released tables, at no privacy cost.

        Its structure is the tree of pairs of columns with the largest mutual information (Chow and
        Liu 1968), among the pairs that a released table has.

        Returns
        -------
        PrivateBayesNetMLE
            Fitted. Its `model_` is a pgmpy network.
        """
        check_is_fitted(self)
        structure = dependence_tree(list(self.categories_), self._pairs())
        counts = {node: self._conditional(node, above) for node, above in structure.items()}
        return network_from_tables(structure, counts, self.schema_, self.privacy_)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> pd.DataFrame:
        """Draw synthetic records from `network()`, at no privacy cost.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Seed of the draws; not related to the noise.

        Returns
        -------
        DataFrame
            Values in their declared types.
        """
        return self.network().sample(n_samples, random_state)

    def classifier(self, target: Hashable) -> PrivateTableClassifier | PrivateBayesNetMLE:
        """Return a classifier estimated from the released tables, at no privacy cost.

        If all pairs of columns were released, it is naive Bayes, corrected for the dependence of
        columns, as `PrivateTableClassifier.fit_counts` does. Otherwise, or if the target is not a
        column of categories, it is naive Bayes.

        Parameters
        ----------
        target : column
            Column to predict from all columns that a released table has with it.

        Returns
        -------
        PrivateTableClassifier or PrivateBayesNetMLE
            Fitted. `predict` and `predict_proba` take tables with the columns of the schema.
            Missing values of the target are not predicted.
        """
        check_is_fitted(self)
        self._find([target])
        features = [
            name for name in self.categories_ if name != target and self._has((name, target))
        ]
        if not features:
            raise ValueError(f"no released table has {target!r} and another column")
        kind = self.schema_[target]
        pairs: list[Columns] = list(combinations(features, 2))
        if isinstance(kind, Categories) and pairs and all(map(self._has, pairs)):
            return self._discriminant(target, features, pairs)
        return self._naive_bayes(target, features)

    def _has(self, columns: Columns) -> bool:
        return any(set(columns) <= set(table) for table in self.tables_)

    def _discriminant(
        self, target: Hashable, features: list[Hashable], pairs: Sequence[Columns]
    ) -> PrivateTableClassifier:
        n_classes = self.schema_[target].n_cells - self.schema_[target].missing
        classes = {name: self.noisy_table(target, name) for name in features}
        joint = {pair: self.noisy_table(*pair) for pair in pairs}
        # Records without a class are in tables of pairs only.
        noisy = [table.counts[:n_classes] for table in classes.values()]
        counts = {
            name: np.maximum(self._conditional(name, (target,))[:n_classes], 0.0)
            for name in features
        }
        total = float(np.mean([each.sum() for each in noisy]))
        scale = max(total, 1.0) / max(float(np.mean([t.counts.sum() for t in joint.values()])), 1.0)
        places = {name: k for k, name in enumerate(features)}
        given = GivenCounts(
            noisy,
            {(places[a], places[b]): scale * table.counts for (a, b), table in joint.items()},
        )
        every = [*classes.values(), *joint.values()]
        variances = [t.noise.variance_at(max(t.counts.mean(), 0.0)) for t in every]
        sigma = float(np.sqrt(max(variances)))
        # Tables to predict may have all declared columns.
        return classifier_from_tables(self._declared_, target, given, counts, sigma, self.privacy_)

    def _naive_bayes(self, target: Hashable, features: list[Hashable]) -> PrivateBayesNetMLE:
        kind = replace(self.schema_[target], missing=False)
        schema = self.schema_.replace(columns={**self.schema_.columns, target: kind})
        structure: Parents = {target: (), **dict.fromkeys(features, (target,))}
        counts = {node: self._conditional(node, above) for node, above in structure.items()}
        # Records without a class are left out.
        counts = {
            node: table[: kind.n_cells] if node in features else table[:, : kind.n_cells]
            for node, table in counts.items()
        }
        return network_from_tables(structure, counts, schema, self.privacy_, target)

    def _pairs(self) -> dict[Columns, np.ndarray]:
        """Return the estimated counts of all pairs of columns that a released table has."""
        found: dict[Columns, np.ndarray] = {}
        for pair in combinations(self.categories_, 2):
            holders = [table for table in self.tables_ if set(pair) <= set(table)]
            if holders:
                found[pair] = margin(self.counts_[holders[0]], holders[0], pair)
        return found

    def _conditional(self, node: Hashable, parents: Columns) -> np.ndarray:
        """Return estimated counts, with a row for each configuration of the parents."""
        columns = (*parents, node)
        holder = self._find(columns)[0]
        counts = margin(self.counts_[holder], holder, columns)
        return counts.reshape(-1, counts.shape[-1])


def dependence_tree(names: Sequence[Hashable], pairs: Mapping[Columns, np.ndarray]) -> Parents:
    """Return the parents of each column in the tree of largest mutual information."""
    weights = np.zeros((len(names), len(names)))
    for (first, second), counts in pairs.items():
        joint = clipped_probabilities(counts)
        information = entropy(joint.ravel(), np.outer(joint.sum(axis=1), joint.sum(axis=0)).ravel())
        # Pairs without dependence are edges too; 0 would mean that there is none.
        weights[names.index(first), names.index(second)] = -max(information, _TINY)
    tree = minimum_spanning_tree(weights)
    structure: Parents = {}
    for root in range(len(names)):
        if names[root] not in structure:
            order, above = breadth_first_order(tree, root, directed=False)
            structure |= {names[i]: (names[above[i]],) if i != root else () for i in order}
    return structure


def parse_tables(tables: Any, schema: Schema) -> dict[Columns, float]:
    """Return the share of the budget of each table, by its columns."""
    if tables is None:
        return _all_pairs(schema)
    if not tables:
        raise ValueError("tables must name at least one table; got none")
    shares = tables if isinstance(tables, Mapping) else dict.fromkeys(map(_hashable, tables), 1.0)
    if len(shares) < len(tables):
        raise ValueError("tables must be different; some are duplicates")
    found: dict[Columns, float] = {}
    errors: dict[Hashable, str] = {}
    for table, share in shares.items():
        # A tuple may be the name of a column.
        is_set = isinstance(table, tuple) and table not in schema
        columns: Columns = table if is_set else (table,)  # type: ignore[assignment]
        found[columns] = check_real(f"the share of {table!r} in tables", share, above=0)
        if not 1 <= len(columns) <= _MOST_COLUMNS or len(set(columns)) < len(columns):
            raise ValueError(f"tables must have one to three different columns each; got {table!r}")
        errors |= _column_errors(schema, columns)
    raise_if_errors("columns of tables must have public values", errors)
    if len({frozenset(columns) for columns in found}) < len(found):
        raise ValueError("tables must be different; some have the same columns")
    for columns in found:
        if prod(schema[name].n_cells for name in columns) == 1:
            raise ValueError(f"tables must have several cells; that of {columns} has one")
    return found


def _hashable(table: Any) -> Hashable:
    return tuple(table) if isinstance(table, list) else table


def _all_pairs(schema: Schema) -> dict[Columns, float]:
    names = columns_with_values(schema, schema.features)
    # A column with a single category has no information.
    names = [name for name in names if schema[name].n_cells > 1]
    if not names:
        raise ValueError("the schema must have a column with several categories; it has none")
    return dict.fromkeys(combinations(names, 2) if len(names) > 1 else [(names[0],)], 1.0)


def _column_errors(schema: Schema, columns: Sequence[Hashable]) -> dict[Hashable, str]:
    errors = {}
    for name in columns:
        if name not in schema:
            errors[name] = "is not declared in the schema"
        elif isinstance(schema[name], Names) or not schema[name].is_counted:
            errors[name] = f"has no public values ({schema[name].describe()})"
    return errors


def _check_given(tables: Any, expected: Sequence[Columns]) -> dict[Columns, Any]:
    """Return given counts by the columns of their table."""
    if not isinstance(tables, Mapping):
        raise TypeError(f"tables must be a dict of counts; got {type(tables).__name__}")
    given = {
        table if isinstance(table, tuple) else (table,): each for table, each in tables.items()
    }
    return dict(check_tables(given, expected))


def _in_memory_part(schema: Schema, part: Part) -> Part:
    """Return the columns of a table in memory, with the ids of persons if the schema has a key."""
    records = schema.records(part.X)
    if records.n_records == 0:
        raise ValueError("X must contain at least one record; got 0")
    if schema.person is None:
        return Part(records, groups=part.groups)
    if schema.person not in records.columns:
        raise ValueError(f"X must have the column {schema.person!r}, which identifies persons")
    return Part(records, groups=records.columns[schema.person])


def _index(labels: Sequence[list], names: Sequence[Hashable], margins: bool) -> pd.Index:
    """Return the index of all combinations of categories, with the label of sums as the last."""
    if len(labels) == 1:
        values = [*labels[0], *[_MARGIN] * margins]
        return pd.Index(values, dtype=object, name=names[0], tupleize_cols=False)
    values = list(product(*labels))
    if margins:
        values.append((_MARGIN,) + ("",) * (len(labels) - 1))
    return pd.MultiIndex.from_tuples(values, names=names)
