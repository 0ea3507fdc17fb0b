"""Private additive classifier for tables."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._contributions import Weights, check_given_counts
from .._messages import errors_without_data, warn_of_missing
from .._persons import CountedRows, Unit, check_person, select_rows
from .._sklearn_compat import Interval, _check_sample_weight, _fit_context
from .._validation import check_cells, check_classes, check_tables, encode_labels
from ..base import Budget, CountingEstimator, PrivacyReport
from ..engines import Part, lazy_for_dask, open_table
from ..mechanisms import CountTable
from ..mechanisms.splitting import split_with_selection
from ..mechanisms.tables import ContributionBound
from ..schema import (
    NO_PERSON,
    Names,
    Records,
    Schema,
    as_labels,
    as_numbers,
    check_row_order,
    columns_with_values,
    convert_ids,
    declared_labels,
    read_labels,
    table_blocks,
    to_common_dtype,
)
from .export import linear_pipeline
from .model import (
    AdditiveModel,
    ClassTables,
    Covariance,
    Estimate,
    LogitBins,
    MergedCells,
    calibrate,
)
from .releases import (
    NAMES_SHARE,
    SIZE_SHARE,
    Column,
    EncodedRecords,
    GivenCounts,
    Numbering,
    Plan,
    RecordCounts,
    Releases,
    encode_columns,
    sampled_share,
)

# Naive Bayes is corrected if its columns predict the class beyond this many standard deviations, or
# the signal is above a bound. With 4 standard deviations, the correction was worse than naive Bayes
# on several tables of the experiment `table-classifier`.
_MIN_EVIDENCE, _SURE_SIGNAL = 10.0, 50.0
# Cells of all columns after merging. The tables of pairs have at most half of its square.
_MAX_CELLS = 1500


class ClassifierReport(PrivacyReport):
    """Report of a classifier whose steps are charged as one Gaussian release."""

    def _describe_releases(self) -> str:
        *selections, gaussian = (mechanism for mechanism, _ in self.mechanisms)
        steps = "histograms, tables of classes and of pairs of columns, and residual sums"
        names = "".join(f", and names of categories by {mechanism}" for mechanism in selections)
        return f"{steps} released at the privacy cost of one table by {gaussian}{names}"


def _check_weight(weight: Any, n_records: int, *, is_part: bool = False) -> np.ndarray | None:
    if weight is None:
        return None
    rows = np.empty((n_records, 1))
    with errors_without_data(sample_weight=weight):
        return _check_sample_weight(
            weight, rows, is_part=is_part, dtype=np.float64, ensure_non_negative=True
        )


class PrivateTableClassifier(ClassifierMixin, CountingEstimator):
    """Private classifier for tables with columns of any kind.

    The model is additive, as a logistic regression on categories and bins: the score of a class
    is an intercept plus an effect of each column. One budget covers all steps: bins of numeric
    columns, tables of classes by columns, tables of pairs of columns, a calibration table, and a
    Newton step. Shares of the budget follow from the number of records; for few records, the
    model is a calibrated naive Bayes.

    Parameters
    ----------
    schema : Schema, default=None
        Public description of the columns. Names of columns without public values,
        `Schema.names()`, are found with a tenth of the budget, and `order` must be None. If the
        schema names a person, the ids of persons and `max_rows` are those of the schema. If None,
        X must be numeric, and bounds are taken from the data, with a warning.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur, if `y` is an array. Public: the presence of a label is not
        protected. The classes of a label column are those of the schema.
    epsilon : float, default=1.0
        Privacy budget of one fit. With `float("inf")` no noise is added.
    delta : float, default=1e-5
        The fit is (epsilon, delta)-differentially private.
    order : float, default=None
        If given, the fit satisfies (order, epsilon)-Renyi differential privacy instead, and
        `delta` is ignored.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether neighbouring data sets differ by replacing one record, or by adding or
        removing one.
    n_samples : float, default=None
        Public number of records, used to plan the steps. If None, the actual number is used
        if it is public. Otherwise it is released with one percent of the budget.
    max_weight : float, default=None
        Public bound on `sample_weight`. If None, the bound is 1 or the largest weight,
        whichever is larger; a weight above 1 causes a warning.
    max_rows : int, default=1
        Public bound on the number of records per person; a person's records are protected together.
        If `groups` is passed to `fit`, only the first `max_rows` records of each person are
        counted. Otherwise the bound is assumed to hold.
    accountant : PrivacyAccountant, default=None
        Accountant to which every fit is charged before noise is drawn.
    label : str, default=None
        Name of the fit in the accountant's history. If None, the name of the class.
    random_state : int, Generator, RandomState or None, default=None
        If None, the noise is cryptographically secure. Any other value makes the noise
        reproducible, and anyone who knows it can remove the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    intercept_ : ndarray of shape (n_classes,)
        Released scores of the classes of an average record.
    coef_ : dict of DataFrame
        Released effect of each category or bin of a column on the score of each class. The
        effects of a column have mean 0, and so have those of a category.
    coef_std_ : dict of DataFrame
        Approximate standard deviations of the effects that are due to the noise.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Mean absolute effect of each column, relative to the sum of all.
    n_records_ : float
        Number of records, estimated from the release.
    privacy_ : PrivacyReport
        Privacy guarantee of the fit.
    columns_ : list
        Columns that are used.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit, if all names are strings.

    See Also
    --------
    DirichletCategoricalNB : Naive Bayes, whose tables can be counted by a database.
    PrivateBayesNet : Model of the joint distribution, for synthetic records.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateTableClassifier, Schema
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(18, 90, 20_000)
    >>> ward = rng.choice(["A", "B"], 20_000)
    >>> risk = np.where(age > 60, 0.8, 0.2) + np.where(ward == "B", 0.1, -0.1)
    >>> visits = pd.DataFrame({"age": age, "ward": ward, "again": rng.random(20_000) < risk})
    >>> schema = Schema({"age": (18, 90), "ward": ["A", "B"], "again": bool})
    >>> model = PrivateTableClassifier(schema, epsilon=1.0).fit(visits, y="again")
    >>> new = pd.DataFrame({"age": [30, 80], "ward": ["A", "B"]})
    >>> model.predict(new)
    array([False,  True])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: constraint
            for name, constraint in CountingEstimator._parameter_constraints.items()
            if name not in ("mechanism", "calibration")
        },
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "schema": [Schema, None],
        "classes": ["array-like", None],
        "max_weight": [None, Interval(Real, 0, None, closed="neither")],
    }

    # Only Gaussian noise can be spent step by step without loss.
    mechanism: ClassVar[str] = "gaussian"  # type: ignore[misc]
    calibration: ClassVar[str] = "exact"  # type: ignore[misc]

    _schema_: Schema
    _columns_: list[Column]
    _bins_: list[np.ndarray]
    _model_: AdditiveModel

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        classes: ArrayLike | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_weight: float | None = None,
        max_rows: int = 1,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.schema = schema
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_weight = max_weight
        self.max_rows = max_rows
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> "PrivateTableClassifier":
        """Fit the model, and release it.

        Parameters
        ----------
        X : DataFrame, Arrow table, array, Dask DataFrame, PyArrow dataset or lazy frame
            Columns that the schema declares. Declared columns that X lacks are not used. A
            table that is not in memory is encoded block by block, and two bytes per cell are
            kept in memory until the fit ends.
        y : str, or array-like of shape (n_samples,)
            Name of a column with declared categories, or class labels. Records without a label
            are not counted.
        sample_weight : array-like of shape (n_samples,), or str, default=None
            Weights in [0, `max_weight`]. The weight of a record must depend only on that record.
            Weights computed from other records, such as class frequencies, reveal them.
        groups : array-like of shape (n_samples,), or str, default=None
            The person of each record, as integers or strings. Only the first `max_rows` records
            of each person are counted. Not given if the schema has a `person`.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            records, leaks = self._read(X, y, sample_weight, groups, context.is_private)
            unit, bound = records.counted.unit, ContributionBound(records.weights.bound)
            releases = self._plan(context.budget, unit, bound, len(records.unlisted))
            n_public = self._public_size(records.counted, context.budget)
            if not context.is_private and self.n_samples is None:
                n_public = records.total_weight  # a weight of 2 is then the same as two records
            self._warn_of_leak(leaks)

            releases.start(self._charge(*releases.joint.as_charge(), unit))
            for k, kind in records.select_names(releases).items():
                self._columns_[k] = replace(self._columns_[k], kind=kind)
            self._learn(RecordCounts(records), releases, n_public, len(records.labels))
            self._set_report(context.budget, releases, leaks, records.counted)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(
        self, tables: Mapping[str, Any], *, y: Any, n_samples: int
    ) -> "PrivateTableClassifier":
        """Fit the model to counts, and release it.

        Columns have the categories or the public bins of the schema, with missing values last, if
        they are allowed. Columns without public values are not used. Without records there are no
        calibration and no Newton step. Each record must have contributed at most `max_weight` (1
        if None) to one cell of each table. This cannot be checked.

        Parameters
        ----------
        tables : dict
            Exact counts, as whole numbers: under "class_count", by name of a column, a table of
            shape (n_classes, n_categories); under "pair_count", by pair of names, a table of shape
            (n_categories, n_categories) for each pair of columns in the order of the schema.
            Classes are sorted.
        y : str
            Name of the label column.
        n_samples : int
            Number of counted records.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import PrivateTableClassifier, Schema
        >>> yes_no = Schema.categories(["no", "yes"], missing=False)
        >>> schema = Schema({"smokes": yes_no, "drinks": yes_no, "ill": yes_no})
        >>> classes = {"smokes": [[500, 100], [150, 250]], "drinks": [[400, 200], [200, 200]]}
        >>> pairs = {("smokes", "drinks"): [[450, 200], [150, 200]]}
        >>> tables = {"class_count": classes, "pair_count": pairs}
        >>> model = PrivateTableClassifier(schema).fit_counts(tables, y="ill", n_samples=1000)
        >>> model.privacy_.n_records
        1000
        """
        with self._fitting() as context:
            if self.schema is None:
                raise ValueError("schema must be given with counts: it declares their categories")
            given = check_tables(tables, ("class_count", "pair_count"))
            self._schema_ = self.schema
            self.classes_ = check_classes(declared_labels(self.schema, y))
            self._set_columns([n for n in self.schema.features if n != y], has_public_bins=True)
            counted = self._selected(n_samples)
            weights = Weights.from_values(None, self.max_weight, exact=not context.is_private)
            counts = self._check_given(given, counted.n_rows, weights.bound)
            releases = self._plan(context.budget, counted.unit, ContributionBound(weights.bound))
            n_public = self._public_size(counted, context.budget)
            releases.start(self._charge(*releases.joint.as_charge(), counted.unit))
            self._learn(counts, releases, n_public, counted.n_rows)
            self._set_report(context.budget, releases, [], counted)
        return self

    def _check_given(self, given: Mapping[str, Any], n_rows: int, max_weight: float) -> GivenCounts:
        """Return the tables of `fit_counts` in the order of the columns."""
        names, sizes = [c.name for c in self._columns_], [c.n_codes for c in self._columns_]
        pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
        classes = check_tables(given["class_count"], names)
        joint = check_tables(given["pair_count"], [(names[i], names[j]) for i, j in pairs])
        n_classes = len(self.classes_)
        tables = [
            check_given_counts(
                f"class_count of {name!r}", classes[name], (n_classes, size), n_rows, max_weight
            )
            for name, size in zip(names, sizes, strict=True)
        ]
        found = {}
        for i, j in pairs:
            title = f"pair_count of {names[i]!r} and {names[j]!r}"
            table = joint[names[i], names[j]]
            found[i, j] = check_given_counts(title, table, (sizes[i], sizes[j]), n_rows, max_weight)
        return GivenCounts(tables, found)

    def _set_report(
        self, budget: Budget, releases: Releases, leaks: Sequence[str], counted: CountedRows
    ) -> None:
        is_public = budget.has_public_size(counted.unit) and not counted.by_schema
        n_records = counted.n_rows if is_public else None
        report = self._report(budget, releases.joint.parts, leaks, counted.unit, n_records)
        self.privacy_ = ClassifierReport(**vars(report))

    def _plan(
        self, budget: Budget, unit: Unit, bound: ContributionBound, n_unlisted: int = 0
    ) -> Releases:
        """Calibrate one Gaussian release, and selections of names, to the budget."""
        # A record counts once among the names of a column, whatever its weight is.
        tables = [CountTable(1.0, 2, contribution=each) for each in (bound, ContributionBound())]
        if unit.is_person:
            tables = [table.per_person(unit.max_rows) for table in tables]
        contribution, names = (table.contribution for table in tables)
        relation = tables[0].relation(budget.adjacency)
        whole, selections = split_with_selection(
            *budget[:3], relation, contribution, n_unlisted, NAMES_SHARE, names
        )
        return Releases(whole, bound, len(self._columns_), selections)

    def _public_size(self, counted: CountedRows, budget: Budget) -> float | None:
        """Return the public number of records, None if it is protected."""
        if self.n_samples is not None:
            return float(self.n_samples)
        is_public = budget.has_public_size(counted.unit) or not budget.is_private
        return float(counted.n_rows) if is_public else None

    def _learn(self, counts: Any, releases: Releases, n_public: float | None, n_rows: int) -> None:
        """Release all steps, and set the fitted attributes. Exact counts are not kept."""
        columns, n_classes = self._columns_, len(self.classes_)
        spent, sizes = self._release_size(releases, n_public, n_rows)
        plan, labels = self._release_labels(counts, releases, spent, sizes)
        self._bins_ = bins = self._release_bins(counts, releases, plan)
        exact = counts.count_classes(bins, n_classes)
        tables = ClassTables.from_noisy(*releases.release_tables(exact, plan.classes), labels)
        covariance, sampled = None, 1.0
        if isinstance(counts, RecordCounts):
            sampled = sampled_share(*sizes)
            counts.keep(releases.sample(n_rows, sampled))
        n_sampled = sampled * tables.n_records
        if plan.pairs > 0:
            ordered = [column.is_ordered for column in columns]
            cells = MergedCells.from_tables(tables, ordered, _MAX_CELLS)
            is_strong = plan.balanced_signal > _SURE_SIGNAL or tables.evidence() > _MIN_EVIDENCE
            if len(cells.columns) > 1 and is_strong:
                pairs = releases.release_pairs(counts.count_pairs(cells), cells, plan.pairs)
                covariance = Covariance.from_pairs(cells, *pairs, n_sampled)
            else:  # nothing to correct, so the class tables get the rest of the budget
                plan = plan.uncorrected()
                again = releases.release_tables(exact, plan.classes)
                tables = tables.combined(*again, labels)
        estimate = Estimate.from_tables(tables)
        if covariance is not None:
            estimate = estimate.correct(covariance)
        if plan.calibration > 0:
            shares = tables.class_shares
            spread = tables.spread(plan.slope) if covariance is None else None
            logits = LogitBins.from_shares(shares, spread)
            table = counts.calibration(estimate.model, logits, shares)
            (noisy,), sigma = releases.release_tables([table], plan.calibration)
            model = calibrate(estimate.model, noisy, sigma, logits, plan.slope, shares)
            estimate = replace(estimate, model=model)
        if covariance is not None and plan.residuals > 0:
            share, n_merged = plan.residuals / plan.n_steps, len(covariance.cells.columns)
            for _ in range(plan.n_steps):
                sums = counts.residuals(estimate.model, covariance.cells)
                found = releases.release_residuals(sums, n_merged, n_sampled, share)
                estimate = estimate.step(covariance, found)
        self._set_model(estimate.model, tables, estimate.variances)
        by_column = zip(columns, tables.cell_shares(), strict=True)
        warn_of_missing({c.name: share[-1] for c, share in by_column if c.has_missing})

    def _release_size(
        self, releases: Releases, n_public: float | None, n_rows: int
    ) -> tuple[float, tuple[float, float, int, int]]:
        """Release the number of records if it is protected. Return the share, and all sizes."""
        spent, size = 0.0, n_public
        if size is None:
            spent, size = SIZE_SHARE, max(releases.release_size(n_rows), 1.0)
        sigma = releases.whole.sigma / releases.whole.contribution.largest
        return spent, (size, sigma, len(self._columns_), len(self.classes_))

    def _release_labels(
        self,
        counts: Any,
        releases: Releases,
        spent: float,
        sizes: tuple[float, float, int, int],
    ) -> tuple[Plan, tuple[np.ndarray, float]]:
        """Release the class counts, and plan the other steps. Return their noise too."""
        plan = partial(
            Plan.from_sizes,
            *sizes,
            has_numbers=any(column.grid is not None for column in self._columns_),
            has_records=isinstance(counts, RecordCounts),
            spent=spent,
        )
        exact = counts.count_labels(len(self.classes_))
        (noisy,), sigma = releases.release_tables([exact], plan().labels)
        # A count below its noise may be anything up to the noise.
        positive = np.maximum(noisy, max(sigma, 1.0) / 2)
        return plan(class_shares=positive / positive.sum()), (noisy, sigma)

    def _release_bins(self, counts: Any, releases: Releases, plan: Plan) -> list[np.ndarray]:
        """Return the bin of each code, from released histograms of the numeric columns."""
        exact = [
            np.bincount(column.merge_fine_bins(plan.n_bins), counts.count_codes(k, column.n_codes))
            for k, column in enumerate(self._columns_)
            if column.grid is not None
        ]
        histograms = iter(releases.release_tables(exact, plan.bins)[0] if exact else ())
        return [
            np.arange(column.n_codes)
            if column.grid is None
            else column.bins_from_histogram(next(histograms), plan.n_bins)
            for column in self._columns_
        ]

    def _set_model(
        self, model: AdditiveModel, tables: ClassTables, variances: Sequence[np.ndarray]
    ) -> None:
        shares = tables.cell_shares()
        self._model_ = model = model.centred(shares)
        self.n_records_ = tables.n_records
        self.intercept_ = model.intercept
        names = self.columns_ = [column.name for column in self._columns_]
        index = [
            pd.Index(column.labels(bins), tupleize_cols=False, dtype=object)
            for column, bins in zip(self._columns_, self._bins_, strict=True)
        ]

        def frames(values: Sequence[np.ndarray]) -> dict[Hashable, pd.DataFrame]:
            return {
                name: pd.DataFrame(value, labels, self.classes_)
                for name, value, labels in zip(names, values, index, strict=True)
            }

        self.coef_ = frames(model.effects)
        self.coef_std_ = frames([np.sqrt(variance) for variance in variances])
        means = np.array(
            [share @ np.abs(e).mean(axis=1) for share, e in zip(shares, model.effects, strict=True)]
        )
        self.feature_importances_ = means / max(means.sum(), 1e-300)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, is_private: bool
    ) -> tuple[EncodedRecords, list[str]]:
        """Encode all records, and return the public parameters that were taken from the data."""
        check_row_order(True if groups is not None or self._has_person() else None, X)
        table = open_table(X, y, sample_weight, groups)
        if not table.in_memory:
            self._check_out_of_core(table.kind, y, sample_weight, is_private)
        leaks: list[str] = []
        parts: list[tuple[list[np.ndarray], np.ndarray, Any]] = []
        counted: CountedRows | None = None
        unlisted: dict[int, Numbering] = defaultdict(Numbering)
        for block in table_blocks(X):
            part = open_table(block, y, sample_weight, groups).part
            read = self._read_part if self.schema is not None else self._read_numbers
            records, labels, labelled, ids = read(
                part, y, leaks, unlisted, is_first=counted is None
            )
            weight = _check_weight(part.sample_weight, len(labels), is_part=not table.in_memory)
            rows = self._select(ids, labelled, len(labels), counted)
            codes = [column[rows.rows] if rows.rows is not None else column for column in records]
            parts.append((codes, rows.take(labels), rows.take(weight)))
            counted = rows if counted is None else counted + rows
        assert counted is not None
        columns = [np.concatenate([p[0][k] for p in parts]) for k in range(len(self._columns_))]
        labels = np.concatenate([p[1] for p in parts])
        given = None if sample_weight is None else np.concatenate([p[2] for p in parts])
        weights = Weights.from_values(given, self.max_weight, exact=not is_private)
        leaks += ["max_weight"] * weights.missing
        return EncodedRecords(columns, labels, weights, counted, unlisted), leaks

    def _check_out_of_core(self, kind: str, y: Any, sample_weight: Any, is_private: bool) -> None:
        """Raise an error if a table that is not in memory cannot be read block by block."""
        missing = ["schema"] if self.schema is None else []
        if sample_weight is not None and self.max_weight is None and is_private:
            missing.append("max_weight")
        self._check_declared(kind, missing)
        if not isinstance(y, str):
            raise ValueError(
                f"y must be the name of a column if X is {kind}; got {type(y).__name__}"
            )

    def _select(
        self, ids: Any, labelled: np.ndarray | None, n_rows: int, before: CountedRows | None
    ) -> CountedRows:
        """Select the counted records: with a label, and at most `max_rows` of each person."""
        person = self._has_person()
        max_rows = self._schema_.max_rows if person else int(self.max_rows)
        if ids is None and labelled is not None:
            rows = np.flatnonzero(labelled)
            return CountedRows(Unit(max_rows), n_rows, rows, by_schema=True)
        if ids is not None and labelled is not None:
            with errors_without_data(groups=ids):
                ids = np.array([*convert_ids(ids), None], dtype=object)[:-1]
            if len(ids) != n_rows:
                raise ValueError(f"groups must have one id per row of X ({n_rows}); got {len(ids)}")
            ids[~labelled] = NO_PERSON
        found = select_rows(ids, n_rows, max_rows, before)
        return replace(found, by_schema=labelled is not None or person)

    def _has_person(self) -> bool:
        return self.schema is not None and self.schema.person is not None

    def _read_part(
        self, part: Part, y: Any, leaks: list[str], unlisted: Mapping, *, is_first: bool
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray | None, Any]:
        """Return codes, label codes, a mask of records with a label, and ids, by the schema."""
        schema: Any = self.schema
        records = schema.records(part.X, optional=True)
        if records.n_records == 0 and is_first:
            raise ValueError("X must contain at least one record; got 0")
        if is_first:
            self._schema_ = schema
            target = y if isinstance(y, str) else None
            names = [n for n in schema.features if n in records.columns and n != target]
            self._set_columns(names)
        labelled = None
        if isinstance(y, str):
            if is_first:
                known = declared_labels(schema, y)
                if self.classes is not None and not np.array_equal(
                    check_classes(self.classes), check_classes(known)
                ):
                    raise ValueError(
                        "classes must be the declared values of the label column of the schema; "
                        "they are not. Leave classes out"
                    )
                self.classes_ = check_classes(known)
            column = part.y
            if isinstance(column, str):  # the columns of an array are those of the schema
                if y not in records.columns:
                    raise ValueError(f"y must be the name of a column of X; {y!r} is not one")
                column = records.columns[y]
            values, labelled = read_labels(schema, y, column)
            labels = encode_labels(values, self.classes_)
        else:
            labels = self._encode_given_labels(part.y, records.n_records, leaks)
        ids = part.groups
        if schema.person is not None:
            check_person(schema, ids, int(self.max_rows))
            ids = schema.person_ids(records)
        return self._encode(records, unlisted), labels, labelled, ids

    def _read_numbers(
        self, part: Part, y: Any, leaks: list[str], unlisted: Mapping, *, is_first: bool
    ) -> tuple[list[np.ndarray], np.ndarray, None, Any]:
        """Return the same for a numeric table without a schema, with bounds from the data."""
        with errors_without_data(X=part.X, y=part.y):
            X, labels = validate_data(
                self, as_numbers(part.X), as_labels(part.y), dtype=np.float64, reset=True
            )
        leaks.append("schema")
        bounds, weight = {}, _check_weight(part.sample_weight, len(X))
        for k, column in enumerate(X.T if weight is None else X[weight > 0].T):
            low, high = float(column.min()), float(column.max())
            with errors_without_data(X=column):
                room = max(1.0, abs(low)) / 2
                low, high = (low, high) if low < high else (low - room, low + room)
                bounds[k] = Schema.numbers(low, high, whole=False, missing=False)
        self._schema_ = Schema(bounds)
        self._columns_ = [Column(k, kind) for k, kind in self._schema_.columns.items()]
        codes = self._encode_given_labels(labels, len(X), leaks)
        records = Records(dict(enumerate(X.T)), len(X))
        return self._encode(records), codes, None, part.groups

    def _encode_given_labels(self, y: Any, n_records: int, leaks: list[str]) -> np.ndarray:
        """Return the codes of labels that are given as an array, and set the classes."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        with errors_without_data(y=y):
            labels = as_labels(y)
            if labels.ndim != 1 or len(labels) != n_records:
                raise ValueError("y must have one label for each row of X")
            classes = self.classes
            if classes is None:
                labels = to_common_dtype("y", labels)
                if labels.dtype.kind not in "biu":  # integers are always classes
                    check_classification_targets(labels)
                classes = np.unique(labels)
                leaks.append("classes")
        self.classes_ = check_classes(classes)
        if len(self.classes_) < 2:
            raise ValueError(f"classes must be two labels or more; got {len(self.classes_)} class")
        return encode_labels(labels, self.classes_)

    def _set_columns(self, names: list[Hashable], *, has_public_bins: bool = False) -> None:
        """Set the columns that are used."""
        schema = self._schema_
        if has_public_bins:
            names = columns_with_values(schema, names)
        if not names:
            raise ValueError("X must have at least one column with values; it has none")
        self._columns_ = [Column(name, schema[name], has_public_bins) for name in names]
        listed = [c for c in self._columns_ if not isinstance(c.kind, Names)]
        check_cells("the categories of the schema", sum(c.n_codes for c in listed))
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _encode(
        self, records: Records, unlisted: Mapping[int, Numbering] | None = None
    ) -> list[np.ndarray]:
        """Return the codes of all columns, those of names by their `unlisted` values."""
        lacking = [c.name for c in self._columns_ if c.name not in records.columns]
        if lacking:
            raise ValueError(f"X must have the columns that were fitted; it lacks {lacking}")
        return encode_columns(self._columns_, self._schema_, records, unlisted)

    # Predicting --------------------------------------------------------------------

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.schema is None:
            with errors_without_data(X=X):
                X = validate_data(self, as_numbers(X), dtype=np.float64, reset=False)
            records = Records(dict(enumerate(X.T)), len(X))
        else:
            records = self._schema_.records(X, optional=True)
        codes = self._encode(records)
        columns = [b[each] for b, each in zip(self._bins_, codes, strict=True)]
        return self._model_.scores(columns)

    @lazy_for_dask(lambda model: (model._n_scores(), np.empty((0, len(model.classes_)))))
    def decision_function(self, X: Any) -> Any:
        """Return the score of each class, or the log odds of the second of two classes.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _n_scores(self) -> int | None:
        return None if len(self.classes_) == 2 else len(self.classes_)

    @lazy_for_dask(lambda model: (None, model.classes_[:0]))
    def predict(self, X: Any) -> Any:
        """Return the most probable class of each record.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the log probability of each class given each record.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return log_softmax(self._scores(X), axis=1)

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class given each record.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)
            Missing values and unknown categories are allowed if the schema allows them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    # Exporting ---------------------------------------------------------------------

    def to_sklearn(self) -> Any:
        """Return the released model as a pipeline of scikit-learn.

        An encoder of categories and bins is followed by a `LogisticRegression`. It predicts the
        same for DataFrames with cells of the declared types: values of categories as they are
        declared, and numbers as floats, NaN if missing. In a column with a label for other values,
        missing values count as other values. Columns of dates are refused.

        Returns
        -------
        Pipeline
            Fitted.
        """
        check_is_fitted(self)
        return linear_pipeline(self._columns_, self._bins_, self._model_, self.classes_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.schema is not None:
            tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        tags.classifier_tags.poor_score = True
        return tags


def classifier_from_tables(
    schema: Schema,
    target: Hashable,
    noisy: GivenCounts,
    counts: Mapping[Hashable, np.ndarray],
    sigma: float,
    report: PrivacyReport,
) -> PrivateTableClassifier:
    """Return a classifier made of noisy tables that were released before.

    `counts` are estimates of the tables of classes by columns, with classes in the order of the
    schema, `sigma` is the deviation of the noise, and `report` the guarantee of the release.
    """
    model = PrivateTableClassifier(schema)
    known = declared_labels(schema, target)
    model._schema_, model.classes_ = schema, check_classes(known)
    order = [known.tolist().index(label) for label in model.classes_.tolist()]
    model._set_columns(list(counts), has_public_bins=True)
    model._bins_ = [np.arange(column.n_codes) for column in model._columns_]
    ordered = [column.is_ordered for column in model._columns_]
    tables, estimate = noisy.estimate([*counts.values()], order, sigma, ordered, _MAX_CELLS)
    model._set_model(estimate.model, tables, estimate.variances)
    model.privacy_ = report
    return model
