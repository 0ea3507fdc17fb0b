"""Base class of the naive Bayes models: counting, releasing, predicting and exporting."""

import threading
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._contributions import Weights, check_given_counts, count_cells
from .._messages import errors_without_data
from .._persons import CountedRows, select_rows
from .._sklearn_compat import Interval, _check_sample_weight, _fit_context
from .._validation import check_alpha, check_class_prior, check_classes, check_tables, encode_labels
from ..base import CountingEstimator, Release, ReleaseContext, ReleasePlan
from ..engines import Counter, Part, compute_dask, lazy_for_dask, open_batch, open_table
from ..mechanisms.additive import gaussian_mean
from ..mechanisms.base import smoothed_mean
from ..mechanisms.splitting import relative_precision
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.rows import stacks_by_shape
from ..postprocessing import NoisyTable
from ..schema import to_common_dtype

Model = TypeVar("Model", bound="_PrivateNaiveBayes")
#: Public description of a table, and its exact counts.
Table = tuple[CountTable, np.ndarray]


@dataclass(frozen=True)
class ClassCounts:
    """Exact counts of all batches, kept only until they are released."""

    rows: CountedRows  # number of counted records, and the unit of privacy
    classes: np.ndarray  # weight of each class
    contribution: ContributionBound  # contribution of a record to `classes`
    features: Any  # counts by feature and class, with `tables`, `missing` and addition
    leaks: tuple[str, ...]  # public parameters that were taken from the data
    bounded: bool  # whether all records were bounded, as privacy requires
    weighted: bool  # whether records have weights, whose sum is not public

    def __add__(self, other: "ClassCounts") -> "ClassCounts":
        return ClassCounts(
            self.rows + other.rows,
            self.classes + other.classes,
            self.contribution | other.contribution,
            self.features + other.features,
            tuple(dict.fromkeys((*self.leaks, *other.leaks))),
            self.bounded and other.bounded,
            self.weighted or other.weighted,
        )


class NaiveBayesPlan(ReleasePlan):
    """Release plan of a naive Bayes model: the class counts, unless known, and the features."""

    def __init__(self, model: Any, context: ReleaseContext, counts: ClassCounts):
        budget = context.budget
        self.is_private = context.is_private
        if self.is_private and not counts.bounded:
            raise ValueError(
                "epsilon must be finite when records are counted for a private release; it was "
                "infinite, and they were counted without bounds. Call fit to start again"
            )
        self.counts = counts
        self.known_prior = model._known_prior(self.is_private)
        self.n_samples, leaks = model._public_n_samples(counts.rows, budget)
        self.alpha = model._check_alpha()
        self.smoothing = float(np.min(self.alpha))
        postprocess = bool(model.postprocess)
        options: dict[str, Any] = {"min_smoothing": self.smoothing, "postprocess": postprocess}
        self.features = counts.features.tables(counts, self.n_samples, options)
        tables = self.features
        if self.known_prior is None:
            bound = counts.contribution
            precision = relative_precision([table for table, _ in tables], bound, budget.adjacency)
            options = {**options, "min_smoothing": 0.0, "precision": precision}
            prior = CountTable(self.n_samples, len(counts.classes), 1, bound, **options)
            tables = [(prior, counts.classes), *tables]
        super().__init__(model, context, tables, counts.rows, [*counts.leaks, *leaks])


class Estimate(NamedTuple):
    """Estimate of a table of counts after its release; exact without noise."""

    counts: np.ndarray  # shape (n_rows, n_categories)
    probabilities: np.ndarray  # the same shape, smoothed
    smoothing: float  # added to `counts` to get `probabilities`

    @classmethod
    def as_drawn(cls, table: CountTable, drawn: np.ndarray, shares: np.ndarray) -> "Estimate":
        """Return an estimate without post-processing, for classes with these shares."""
        totals = np.array([table.n_samples])
        if table.n_rows >= len(shares):  # each class has equally many rows, in class order
            totals *= len(shares) / table.n_rows
            totals = totals * np.repeat(shares, len(drawn) // len(shares))
        return cls(totals[:, np.newaxis] * drawn, drawn, 0.0)


def noisy_table(release: Release, axes: tuple[Any, ...]) -> NoisyTable:
    """Return a release with noise for post-processing; tables with a common axis agree on it."""
    assert release.mechanism is not None
    return NoisyTable(release.drawn, release.mechanism.noise, axes)


def estimate_classes(classes: Release | None, total: float | None) -> np.ndarray | None:
    """Estimate the class counts alone, None if they were not released."""
    if classes is None or classes.mechanism is None:
        return None
    # Normal noise, and a normal prior with equal means. Its variance is estimated from the noisy
    # counts and is at least that of a sample. Counts are positive.
    noisy = classes.drawn
    mean = float(noisy.mean()) if total is None else total / noisy.size
    noise_variance = classes.mechanism.noise.variance_at(max(mean, 0.0))
    # A mean below the standard deviation of its noise is replaced by it.
    mean = max(mean, np.sqrt(noise_variance / noisy.size))
    prior_variance = mean + max(np.mean((noisy - mean) ** 2) - noise_variance, 0.0)
    known = prior_variance / (prior_variance + noise_variance)
    deviation = np.sqrt(known * noise_variance)
    counts = deviation * gaussian_mean((mean + known * (noisy - mean)) / deviation)
    return counts if total is None else counts * (total / counts.sum())


@dataclass(frozen=True)
class _OutOfCoreCounter(Counter):
    """Counter of tables that are not in memory; `model` is a copy made by `_for_workers`."""

    model: Any
    max_rows: int

    def count_part(self, part: Part, previous: CountedRows | None) -> ClassCounts:
        # A copy: threads share the model, and checks of records set attributes.
        model = self.model._for_workers()
        counts = model._count_batch(part, None, model._is_private, previous, is_part=True)
        # `count_per_person` sends the counts of each person from part to part.
        return replace(counts, rows=replace(counts.rows, rows=None, kept={}))

    def count_frame(self, frame: Any) -> ClassCounts:
        return self.model._count_frame(frame)


class _PrivateNaiveBayes(ClassifierMixin, CountingEstimator):
    """Base class of the naive Bayes models.

    A subclass defines

    - `_validate(X, y, reset)`: scikit-learn's `validate_data` with further checks,
    - `_count_features(X, codes, weights)`, `_count_features_of_frame(frame)` and
      `_check_given_features(table, classes, n_rows, weights)`: exact counts, with addition,
      `missing` (parameters taken from the data) and `tables(counts, n_samples, options)`,
    - `_estimate_counts(classes, features, total)`: post-processed class counts and tables,
    - `_set_feature_attributes(estimates, extra, private)`, with `extra` smoothing,
    - `_log_likelihood(X)`: log P(x | class), of shape (n_samples, n_classes).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CountingEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "force_alpha": ["boolean"],
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
        "classes": ["array-like", None],
        "max_weight": [None, Interval(Real, 0, None, closed="neither")],
        "postprocess": ["boolean"],
    }

    #: Attributes that exist only after the counts are released.
    _released_attributes: ClassVar[tuple[str, ...]] = (
        "alpha_",
        "class_count_",
        "class_log_prior_",
        "feature_log_prob_",
        "privacy_",
    )
    #: Name of the feature counts in `fit_counts`.
    _feature_table: ClassVar[str] = "feature_count"
    #: The class of scikit-learn with the same model.
    _original: ClassVar[type]
    #: Whether the totals of the tables follow from the number of records.
    _counts_records: ClassVar[bool] = True

    def _check_size(self, n_columns: int) -> None:
        """Raise an error if tables would not fit into memory."""

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self: Model, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Model:
        """Fit the model, and release it.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection or lazy frame}
            Non-negative features, of shape (n_samples, n_features). Data out of memory are
            counted where they are: docs/scale.md lists the supported tables.
        y : array-like of shape (n_samples,), or str
            Class labels. If X is a frame, the name of a column may be given instead, here
            and below.
        sample_weight : array-like of shape (n_samples,), or str, default=None
            Weights in [0, `max_weight`]. The weight of a record must depend only on that record.
            Weights computed from other records, such as class frequencies, reveal them.
        groups : array-like of shape (n_samples,), or str, default=None
            The person of each record, as integers or strings. Only the first `max_rows` records
            of each person are counted.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            counts = self._count(X, y, sample_weight, groups, context.is_private)
            plan = NaiveBayesPlan(self, context, counts)
            noisy = context.release(plan)
            self._set_fitted_attributes(plan, noisy)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self: Model,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Model:
        """Count a batch of records; `release` or the first prediction releases the model once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that may occur. Needed in the first call, here or in the constructor.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in [0, `max_weight`], as for `fit`.
        groups : array-like of shape (n_samples,), default=None
            As for `fit`, with every batch or with none. A person may have records in several
            batches: `max_rows` bounds them all together.

        Returns
        -------
        self
        """
        part = Part(*open_batch(X, y, sample_weight, groups))
        with self.__dict__.setdefault("_release_lock", threading.RLock()):
            is_private = self._is_private
            counts = vars(self).get("_counts_")
            if counts is None and not is_private:
                # A model released without noise accepts more records.
                counts = vars(self).get("_exact_counts_")
            if "privacy_" in vars(self) and counts is None:
                raise ValueError(
                    f"this {type(self).__name__} is released and takes no more records: the "
                    "noise is drawn once, for all of them. Call fit on all records to start again."
                )
            if classes is None:
                classes = self.classes
            if counts is not None:
                if classes is not None and not np.array_equal(
                    check_classes(classes), self.classes_
                ):
                    raise ValueError(
                        "`classes` is not the same as on last call to partial_fit, and must be"
                    )
                counts += self._count_batch(part, classes, is_private, counts.rows)
                self._check_alpha()
                for name in (*type(self)._released_attributes, "_exact_counts_"):
                    self.__dict__.pop(name, None)
                self._counts_ = counts
            elif classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            else:
                with self._fitting():
                    self._counts_ = self._count_batch(part, classes, is_private)
                    self._check_alpha()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self: Model, tables: dict[str, Any], *, n_samples: int) -> Model:
        """Fit the model to counts, and release it.

        Each record must have contributed within the declared bounds: at most `max_weight` (1 if
        None) to `class_count`, and the bounds of the features to the other counts. This cannot
        be checked. All public parameters must be given.

        Parameters
        ----------
        tables : dict
            Exact counts under their names in scikit-learn: "class_count", of shape
            (n_classes,), and "feature_count", of shape (n_classes, n_features), or
            "category_count", one table of shape (n_classes, n_categories) for each feature,
            in a list or by name. Whole numbers, in the order of the sorted classes.
        n_samples : int
            Number of counted records.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import DirichletNB
        >>> model = DirichletNB(classes=["ham", "spam"], max_count=3, max_total=20)
        >>> tables = {"class_count": [700, 300], "feature_count": [[1500, 200], [300, 800]]}
        >>> model.fit_counts(tables, n_samples=1000).privacy_.n_records
        1000
        """
        with self._fitting() as context:
            counts = self._check_given_counts(tables, n_samples, context.is_private)
            plan = NaiveBayesPlan(self, context, counts)
            noisy = context.release(plan)
            self._set_fitted_attributes(plan, noisy)
        return self

    def release(self: Model) -> Model:
        """Release the counts of `partial_fit` once, and delete them.

        `predict`, `score` and related methods call this; access to an attribute does not.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        lock = vars(self).get("_release_lock")
        if lock is not None:
            with lock:
                if "_counts_" in vars(self):
                    context = self._release_context()
                    plan = NaiveBayesPlan(self, context, self._counts_)
                    self._set_fitted_attributes(plan, context.release(plan))
                    del self._counts_
            self.__dict__.pop("_release_lock", None)
        return self

    # Counting ----------------------------------------------------------------------

    def _count(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, is_private: bool
    ) -> ClassCounts:
        table = open_table(X, y, sample_weight, groups)
        if table.in_memory:
            return self._count_batch(table.part, self._public_classes(), is_private)
        return self._count_out_of_core(table)

    def _public_classes(self) -> Any:
        """Return the declared classes: those of the label column of a schema, if it is known."""
        known = self._declared("classes")
        if known is None or self.classes is None:
            return self._public("classes")
        if not np.array_equal(check_classes(self.classes), check_classes(known)):
            raise ValueError(
                "classes must be the declared values of the label column of the schema; they are "
                "not. Leave classes out"
            )
        return self.classes

    def _count_batch(
        self, part: Part, classes: Any, is_private: bool, before: Any = None, is_part: bool = False
    ) -> ClassCounts:
        """Count one batch of records, each within its bounds.

        `before` has the records of earlier batches. A part of a table out of core knows the
        classes and columns of the table.
        """
        checked = self._check_batch(part, classes, is_private, before, is_part)
        X, codes, weights, rows, leaks = checked
        features = self._count_features(X, codes, weights)
        return self._class_counts(rows, codes, weights, features, leaks)

    def _check_batch(
        self, part: Part, classes: Any, is_private: bool, before: Any, is_part: bool
    ) -> tuple[Any, np.ndarray, Weights, CountedRows, list[str]]:
        """Return the counted records, label codes, weights, selected rows and leaks."""
        is_first = before is None and not is_part
        X, y = self._validate_part(part, reset=is_first)
        find_classes = is_first and classes is None
        if find_classes:
            with errors_without_data(y=y):
                y = to_common_dtype("y", y)
                if y.dtype.kind not in "biu":  # integers are always classes
                    check_classification_targets(y)
        weight = part.sample_weight
        if weight is not None:
            weight = self._check_weight(weight, X, is_part=is_part)
        rows = select_rows(part.groups, len(y), self.max_rows, before)
        if rows.rows is not None:
            X, y, weight = (rows.take(values) for values in (X, y, weight))
        # Without noise no bounds are needed.
        weights = Weights.from_values(weight, self.max_weight, exact=not is_private)
        if find_classes:
            with errors_without_data(y=y):
                classes = np.unique(y)
        if is_first:
            self.classes_ = check_classes(classes, self.class_prior)
        self._check_size(X.shape[1])
        leaks = ["classes"] * find_classes + ["max_weight"] * weights.missing
        return X, encode_labels(y, self.classes_), weights, rows, leaks

    def _validate_part(self, part: Part, *, reset: bool) -> tuple[Any, np.ndarray]:
        return self._validate(part.X, part.y, reset=reset)

    def _class_counts(
        self, rows: CountedRows, codes: np.ndarray, weights: Weights, features: Any, leaks: Any = ()
    ) -> ClassCounts:
        return ClassCounts(
            rows,
            count_cells(codes, len(self.classes_), weights),
            ContributionBound(weights.bound),
            features,
            (*leaks, *features.missing),
            bounded=not weights.exact,
            weighted=weights.values is not None,
        )

    @staticmethod
    def _check_weight(sample_weight: Any, X: Any, *, is_part: bool = False) -> np.ndarray:
        with errors_without_data(sample_weight=sample_weight):
            return _check_sample_weight(
                sample_weight, X, is_part=is_part, dtype=np.float64, ensure_non_negative=True
            )

    def _count_out_of_core(self, table: Any) -> ClassCounts:
        if "y" not in table.given:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        self._check_declared(table.kind, self._undeclared("sample_weight" in table.given))
        with errors_without_data(X=table.empty):
            validate_data(self, table.empty, skip_check_array=True)
        self.classes_ = check_classes(self.classes, self.class_prior)
        # Checks that need no records come first.
        self._check_size(self.n_features_in_)
        self._known_prior(self._is_private)
        self._check_alpha()
        counts = table.count(_OutOfCoreCounter(self._for_workers(), self.max_rows))
        if "sample_weight" in table.given and not counts.classes.any():
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return counts

    def _undeclared(self, weighted: bool) -> list[str]:
        """Return the public parameters that are missing and would be taken from the data."""
        missing = [] if self.classes is not None else ["classes"]
        if weighted and self.max_weight is None and self._is_private:
            missing.append("max_weight")
        return missing

    def _count_frame(self, frame: Any) -> ClassCounts:
        """Count a frame with the groups that its engine returns."""
        frame.set_weights(
            self.max_weight,
            lambda weight: self._check_weight(weight, weight[:, np.newaxis]),
            exact=not self._is_private,
        )
        groups = frame.group([frame.label], len(self.classes_), self._encode_label_column)
        rows = frame.counted(groups.n_rows, self.max_rows)
        features = self._count_features_of_frame(frame)
        return self._class_counts(rows, groups.codes, groups.weights, features)

    def _encode_label_column(self, records: Any) -> np.ndarray:
        """Return the positions of the labels in a frame of one column."""
        return self._validate_some(np.zeros((len(records), 1)), records.iloc[:, 0])[1]

    def _validate_some(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        probe = self._for_workers()  # its feature names are set to those of these columns
        X, y = probe._validate(X, y, reset=True)
        return X, encode_labels(y, self.classes_)

    def _check_given_counts(self, tables: Any, n_samples: Any, is_private: bool) -> ClassCounts:
        self._check_declared("given as counts", self._undeclared(weighted=False))
        self.classes_ = check_classes(self.classes, self.class_prior)
        given = dict(check_tables(tables, ("class_count", self._feature_table)))
        rows = self._selected(n_samples)
        weights = Weights.from_values(None, self.max_weight, exact=not is_private)
        shape = (len(self.classes_),)
        classes = check_given_counts(
            "class_count", given["class_count"], shape, rows.n_rows, weights.bound
        )
        table = given[self._feature_table]
        features = self._check_given_features(table, classes, rows.n_rows, weights)
        return ClassCounts(
            rows,
            classes,
            ContributionBound(weights.bound),
            features,
            (),
            bounded=is_private,
            weighted=self.max_weight is not None,
        )

    # Releasing ---------------------------------------------------------------------

    def _check_alpha(self) -> Any:
        # A single number may be checked before the number of features is known.
        n_features = vars(self).get("n_features_in_", 0)
        return check_alpha(self.alpha, n_features, self.force_alpha)

    def _known_prior(self, is_private: bool) -> np.ndarray | None:
        """Return the class prior, None if it is learnt."""
        n_classes = len(self.classes_)
        if self.class_prior is None:
            return None if self.fit_prior else np.full(n_classes, 1 / n_classes)
        return check_class_prior(self.class_prior, n_classes)

    def _set_fitted_attributes(self, plan: NaiveBayesPlan, noisy: Sequence[Release]) -> None:
        classes = noisy[0] if plan.known_prior is None else None
        features = noisy if classes is None else noisy[1:]
        self.alpha_ = plan.alpha
        if plan.is_private and self.postprocess:
            prior, estimates = self._postprocess(plan, classes, features)
        else:
            prior = plan.known_prior if classes is None else classes.drawn
            estimates = [
                Estimate.as_drawn(table, release.drawn, prior / prior.sum())
                if plan.is_private
                else Estimate(counts, release.drawn, plan.smoothing)
                for (table, counts), release in zip(plan.features, features, strict=True)
            ]
            drawn = [release.mechanism for release in features if release.mechanism is not None]
            if plan.is_private and drawn:
                self.alpha_ = drawn[-1].smoothing
        with np.errstate(divide="ignore"):
            self.class_log_prior_ = np.log(prior)
            # One assignment: exact counts of a private model are never attributes.
            shares = prior / prior.sum()
            self.class_count_ = plan.n_samples * shares if plan.is_private else plan.counts.classes
            self._set_feature_attributes(estimates, plan.alpha - plan.smoothing, plan.is_private)
        if not plan.is_private and not plan.unit.by_ids:  # person ids are not kept
            self._exact_counts_ = plan.counts

    def _postprocess(
        self, plan: NaiveBayesPlan, classes: Release | None, features: Sequence[Release]
    ) -> tuple[Any, list[Estimate]]:
        """Return the class prior and the estimated tables, from noisy counts alone."""
        is_public = plan.n_records is not None and not plan.counts.weighted
        total = float(plan.counts.rows.n_rows) if is_public else None
        noisy = [release for release in features if release.mechanism is not None]
        # A table with a single class or category has no noise, and no mechanism.
        has_noise = classes is not None and classes.mechanism is not None
        class_counts, noisy_estimates = self._estimate_counts(
            classes if has_noise else None, noisy, total
        )
        estimated = iter(noisy_estimates)
        tables = [each.drawn if each.mechanism is None else next(estimated) for each in features]
        estimates = self._scale(plan, tables)
        if classes is None:
            return plan.known_prior, estimates
        if class_counts is None:
            return classes.drawn, estimates
        return class_counts / class_counts.sum(), estimates

    def _scale(self, plan: NaiveBayesPlan, tables: Sequence[np.ndarray]) -> list[Estimate]:
        """Return estimates from post-processed counts, scaled to their totals if public."""
        estimates: list[Any] = [None] * len(tables)
        for indices, counts in stacks_by_shape(tables):
            if self._counts_records:
                totals = np.array([plan.features[i][0].n_samples for i in indices])
                counts *= (totals / counts.sum(axis=(1, 2)))[:, np.newaxis, np.newaxis]
            shares = smoothed_mean(counts, plan.smoothing)
            for i, table, share in zip(indices, counts, shares, strict=True):
                estimates[i] = Estimate(table, share, plan.smoothing)
        return estimates

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._released_attributes and "_counts_" in vars(self):
            if not self._is_private:  # there is nothing to charge
                return getattr(self.release(), name)
            raise AttributeError(
                f"{name} does not exist before the counts are released, which spends the budget: "
                "call release(), or predict"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self):
        if "_counts_" in vars(self):
            if self._is_private:
                raise TypeError(
                    f"this {type(self).__name__} still contains exact counts and cannot be "
                    "pickled or copied; call release() first"
                )
            self.release()
        state = super().__getstate__()
        state.pop("_release_lock", None)
        return state

    def _for_workers(self):
        copy = super()._for_workers()
        for name in ("_counts_", "_exact_counts_", "_release_lock"):
            copy.__dict__.pop(name, None)
        return copy

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    # Exporting ---------------------------------------------------------------------

    def to_sklearn(self) -> Any:
        """Return the released model as an estimator of scikit-learn.

        It makes the same predictions and contains only what was released. Do not call its
        `partial_fit`, which would add exact counts to released ones.

        Returns
        -------
        estimator of `sklearn.naive_bayes`
            Fitted.
        """
        self.release()
        parameters = self.get_params(deep=False)
        original = type(self)._original
        model = original(
            **{name: parameters[name] for name in original().get_params() if name in parameters}
        )
        public = ("classes_", "n_features_in_", "feature_names_in_")
        for name, value in vars(self).items():
            if name in public or name in type(self)._released_attributes:
                setattr(model, name, deepcopy(value))
        del model.privacy_, model.alpha_
        return model.set_params(alpha=self.alpha_)

    # Predicting --------------------------------------------------------------------

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_joint_log_proba(self, X: Any) -> Any:
        """Return the joint log probability of each record and class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        self.release()
        return self._joint_log_likelihood(X)

    def _joint_log_likelihood(self, X: Any) -> np.ndarray:
        return self._log_likelihood(X) + self.class_log_prior_

    @lazy_for_dask(lambda model: (None, model.classes_[:0]))
    def predict(self, X: Any) -> Any:
        """Return the most probable class of each record.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        joint = self.predict_joint_log_proba(X)
        return self.classes_[np.argmax(joint, axis=1)]

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the log probability of each class given each record.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        joint = self.predict_joint_log_proba(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class given each record.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the given records.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
        """
        predicted, y, sample_weight = compute_dask(self.predict(X), y, sample_weight)
        with errors_without_data(y=y, sample_weight=sample_weight):
            return accuracy_score(y, predicted, sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags
