"""Counting, releasing and predicting: the part that is the same for all naive Bayes models."""

import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._contributions import Weights, check_given_counts, count_cells
from .._messages import errors_without_data
from .._persons import CountedRows, select_rows
from .._sklearn_compat import Interval, _check_sample_weight, _fit_context
from .._validation import (
    check_alpha,
    check_class_prior,
    check_classes,
    check_tables,
    encode_labels,
)
from ..base import CountingEstimator, Release, ReleaseContext, ReleasePlan
from ..engines import compute_dask, lazy_for_dask, open_batch, open_table
from ..mechanisms.splitting import relative_precision
from ..mechanisms.tables import ContributionBound, CountTable
from ..postprocessing import NoisyTable
from ..records import to_common_dtype
from .counting import NaiveBayesCounter
from .tally import Estimate, FeatureCounts, Tally, estimates_of, shares_of

# Fitted attributes that are known before anything is released.
_PUBLIC_FITTED = ("classes_", "n_features_in_", "feature_names_in_")


class _PrivateNaiveBayes(ClassifierMixin, CountingEstimator, metaclass=ABCMeta):
    """A naive Bayes model; a subclass says what is counted and how it scores."""

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

    #: Attributes that do not exist before the counts are released.
    _released_attributes: ClassVar[tuple[str, ...]] = (
        "alpha_",
        "class_count_",
        "class_log_prior_",
        "feature_log_prob_",
        "privacy_",
    )

    #: What `fit_counts` calls the counts of the features.
    _feature_table: ClassVar[str] = "feature_count"

    #: What it drops in for.
    _original: ClassVar[type]
    #: Whether the totals of its tables follow from the number of records.
    _counts_records: ClassVar[bool] = True

    alpha: Any
    force_alpha: bool
    fit_prior: bool
    class_prior: Any
    classes: Any
    max_weight: float | None
    postprocess: bool
    _tally_: Tally

    # Hooks of a subclass -----------------------------------------------------------

    @abstractmethod
    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's `validate_data`, with the checks that the features need."""

    @abstractmethod
    def _count(self, X: Any, codes: np.ndarray, weights: Weights) -> FeatureCounts:
        """Exact counts of a batch, by class and feature."""

    @abstractmethod
    def _count_frame(self, frame: Any) -> FeatureCounts:
        """The same counts of a frame that computes elsewhere."""

    @abstractmethod
    def _admit(self, table: Any, classes: np.ndarray, n_rows: int, weights: Weights) -> Any:
        """The counts of the features as they are given to `fit_counts`."""

    @abstractmethod
    def _read(
        self, classes: NoisyTable | None, features: list[NoisyTable], total: float | None
    ) -> tuple[np.ndarray | None, list[np.ndarray]]:
        """The class counts and the tables, read together; `total` records, if that is public.

        Tables come with two dimensions, as they were counted.
        """

    @abstractmethod
    def _keep(self, estimates: list[Estimate], extra: Any) -> None:
        """Set the attributes that are read from the released tables.

        `extra` is the smoothing by feature beyond the least, which the tables have already.
        """

    @property
    def _uses_prior(self) -> bool:
        """Whether the class prior has a part in the score of a class."""
        return True

    @abstractmethod
    def _log_likelihood(self, X: Any) -> np.ndarray:
        """log P(x | class) of validated X, of shape (n_samples, n_classes)."""

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and release it.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection or lazy frame}
            Non-negative features, of shape (n_samples, n_features). What is not in memory is
            counted where it is: docs/scale.md says which tables can be.
        y : array-like of shape (n_samples,), or str
            Class labels. Where X is a frame, the name of a column may be given instead, here
            and below.
        sample_weight : array-like of shape (n_samples,), or str, default=None
            Weights in [0, `max_weight`]. The weight of a record may depend on that record
            only: one that is computed from others, as class frequencies are, tells of them.
        groups : array-like of shape (n_samples,), or str, default=None
            The person that each record is of, by whole numbers or strings. Only the first
            `max_rows` records of each are counted. None if no person has more.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            table = open_table(X, y, sample_weight, groups)
            if table.in_memory:
                X, y, sample_weight, groups = table.part
                tally = self._tally(X, y, self.classes, sample_weight, groups)
            else:
                tally = self._tally_elsewhere(table)
            self._publish(tally, context)
        self.__dict__.pop("_release_lock", None)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None, groups=None):
        """Count a batch of records; nothing is released or charged yet.

        The first prediction or score, or `release`, releases the model, once. From then
        on it takes no more records.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that may occur; needed in the first call, here or in the
            constructor.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in [0, `max_weight`], as for `fit`.
        groups : array-like of shape (n_samples,), default=None
            As for `fit`, with every batch or with none. A person may have records in several
            batches: `max_rows` is for all of them together.

        Returns
        -------
        self
        """
        X, y, sample_weight, groups = open_batch(X, y, sample_weight, groups)
        with self.__dict__.setdefault("_release_lock", threading.RLock()):
            counted = vars(self).get("_tally_", self._exact_tally)
            if "privacy_" in vars(self) and counted is None:
                raise ValueError(
                    f"this {type(self).__name__} is released and takes no more records: the "
                    "noise is drawn once, for all of them. Call fit on all records to start again."
                )
            if classes is None:
                classes = self.classes
            if counted is not None:
                if classes is not None and not np.array_equal(
                    check_classes(classes), self.classes_
                ):
                    raise ValueError(
                        "`classes` is not the same as on last call to partial_fit, and must be"
                    )
                counted += self._tally(
                    X, y, classes, sample_weight, groups, before=counted.counted, first=False
                )
                self._check_alpha()
                self._forget_release()
                self._tally_ = counted
            elif classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            else:
                with self._fitting():
                    self._tally_ = self._tally(X, y, classes, sample_weight, groups)
                    self._check_alpha()
        return self

    @property
    def _exact_tally(self) -> Tally | None:
        """The counts of a model that was released without noise, to which more can be added."""
        return None if self._is_private else vars(self).get("_exact_tally_")

    def _forget_release(self) -> None:
        for name in (*type(self)._released_attributes, "_exact_tally_"):
            self.__dict__.pop(name, None)

    def _tally(
        self,
        X,
        y,
        classes,
        sample_weight,
        groups,
        *,
        before: CountedRows | None = None,
        first: bool = True,
        is_part: bool = False,
    ) -> Tally:
        """Exact counts of one batch, within the bounds that hold now.

        `first` if nothing is known of the classes and columns; of a part of a table they are.
        """
        first = first and not is_part
        X, y = self._validate(X, y, reset=first)
        if first and classes is None:
            with errors_without_data(y=y):
                y = to_common_dtype("y", y)
                if y.dtype.kind not in "biu":  # whole numbers are classes, whichever they are
                    check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = self._check_weight(sample_weight, X, is_part=is_part)
        counted = select_rows(groups, len(y), self.max_rows, before)
        X, y, sample_weight = (counted.take(values) for values in (X, y, sample_weight))
        # Without noise nothing needs a bound.
        weights = Weights.from_values(sample_weight, self.max_weight, exact=not self._is_private)
        leaks = ["classes"] if first and classes is None else []
        leaks += ["max_weight"] if weights.missing else []
        if first:
            if classes is None:
                with errors_without_data(y=y):
                    classes = np.unique(y)
            self.classes_ = check_classes(classes, self.class_prior)
        self._check_size(X.shape[1])
        codes = encode_labels(y, self.classes_)
        return self._tallied(counted, codes, weights, self._count(X, codes, weights), leaks)

    def _check_size(self, n_columns: int) -> None:
        """Refuse tables that would not fit into memory."""

    def _tallied(self, counted, codes, weights, features, leaks=()) -> Tally:
        return Tally(
            counted,
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

    # Tables that are not in memory -------------------------------------------------

    def _tally_elsewhere(self, table: Any) -> Tally:
        """Exact counts of a table, made where it is."""
        if "y" not in table.given:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        self._check_declared(table.kind, self._undeclared("sample_weight" in table.given))
        with errors_without_data(X=table.sample):
            validate_data(self, table.sample, skip_check_array=True)
        self.classes_ = check_classes(self.classes, self.class_prior)
        # What can fail without a look at the records does so before.
        self._check_size(self.n_features_in_)
        self._known_prior()
        self._check_alpha()
        tally = table.count(NaiveBayesCounter(self._for_workers()))
        if "sample_weight" in table.given and not tally.classes.any():
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return tally

    def _undeclared(self, weighted: bool) -> list[str]:
        """Public parameters that are not given, and would have to be looked for."""
        missing = [] if self.classes is not None else ["classes"]
        if weighted and self.max_weight is None and self._is_private:
            missing.append("max_weight")
        return missing

    def _tally_frame(self, frame: Any) -> Tally:
        """Exact counts of a frame, from what its engine brings together."""
        frame.set_weights(
            self.max_weight,
            lambda weight: self._check_weight(weight, weight[:, np.newaxis]),
            exact=not self._is_private,
        )
        found = frame.group([frame.label], len(self.classes_), self._codes_of_labels)
        counted = frame.counted(found.n_rows, self.max_rows)
        return self._tallied(counted, found.codes, found.weights, self._count_frame(frame))

    def _codes_of_labels(self, records: Any) -> np.ndarray:
        """The positions of labels that stand in a frame of one column."""
        return self._checked(np.zeros((len(records), 1)), records.iloc[:, 0])[1]

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Some columns and labels as they are counted, after the checks of records in memory."""
        probe = self._for_workers()  # which learns the names of these columns
        X, y = probe._validate(X, y, reset=True)
        return X, encode_labels(y, self.classes_)

    # Counts that are there already -------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables, *, n_samples):
        """Fit the model from counts that are there already, and release it.

        What a record added to them has to be within what is declared: `max_weight`, which is
        1 if it is not given, to `class_count`, and the bounds of the features to theirs.
        Nothing can check that here. All parameters that are public must be given.

        Parameters
        ----------
        tables : dict
            Exact counts under the names that scikit-learn has for them: "class_count", of
            shape (n_classes,), and "feature_count", of shape (n_classes, n_features), or
            "category_count", one table of shape (n_classes, n_categories) for each feature,
            in a list or by name. Whole numbers, in the order of the sorted classes.
        n_samples : int
            The number of records that were counted.

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
            self._check_declared("given as counts", self._undeclared(weighted=False))
            self.classes_ = check_classes(self.classes, self.class_prior)
            given = dict(check_tables(tables, ("class_count", self._feature_table)))
            counted = self._selected(n_samples)
            weights = Weights.from_values(None, self.max_weight, exact=not self._is_private)
            classes = check_given_counts(
                "class_count",
                given["class_count"],
                (len(self.classes_),),
                counted.n_rows,
                weights.bound,
            )
            features = self._admit(given[self._feature_table], classes, counted.n_rows, weights)
            bound = ContributionBound(weights.bound)
            tally = Tally(
                counted,
                classes,
                bound,
                features,
                (),
                bounded=not weights.exact,
                weighted=self.max_weight is not None,
            )
            self._publish(tally, context)
        self.__dict__.pop("_release_lock", None)
        return self

    def _name_features(self, names: Any, n_features: int) -> None:
        """Take the number of features, and their names where they have some."""
        self.n_features_in_ = n_features
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(list(names), dtype=object)

    # Releasing ---------------------------------------------------------------------

    def release(self):
        """Release what `partial_fit` has counted, and forget the counts.

        The accountant is charged, the noise drawn, and the fitted attributes set, once:
        further calls do nothing, from whichever thread they come. `predict`, `score` and
        their kin call this; looking at an attribute does not.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        lock = vars(self).get("_release_lock")
        if lock is not None:
            with lock:
                if "_tally_" in vars(self):
                    self._publish(self._tally_, self._release_context())
                    del self._tally_
            self.__dict__.pop("_release_lock", None)
        return self

    def _publish(self, tally: Tally, context: ReleaseContext) -> None:
        private = context.budget.is_private
        if private and not tally.bounded:
            raise ValueError(
                "epsilon must be finite when records are counted for a private release; it was "
                "infinite, and they were not held to any bounds. Call fit to start again"
            )
        known_prior = self._known_prior()
        n_samples, leaks = self._public_n_samples(tally.counted, context.budget)
        alpha = self._check_alpha()
        least = float(np.min(alpha))
        tables = tally.features.tables(n_samples, least)
        if known_prior is None:
            prior_table = self._prior_table(tally, tables, n_samples, context.budget)
            tables.insert(0, (prior_table, tally.classes))
        to_read = {
            table: replace(table, postprocess=self.postprocess)
            for table in {table for table, _ in tables}
        }
        tables = [(to_read[table], counts) for table, counts in tables]
        plan = ReleasePlan(self, context, tables, tally.counted, [*tally.leaks, *leaks])
        releases = context.release(plan)
        described = [table for table, _ in tables]
        if known_prior is None:
            classes, features = releases[0], releases[1:]
            described, counts = described[1:], [each for _, each in tables[1:]]
        else:
            classes, features = None, releases
            counts = [each for _, each in tables]
        prior: Any
        if private and self.postprocess:
            public = context.budget.publishes_size(tally.counted.unit) and not tally.weighted
            total = float(tally.counted.n_rows) if public else None
            read, estimates = self._best_reading(classes, features, described, total, least)
            prior = known_prior if classes is None else read
            self.alpha_ = alpha
        else:
            prior = known_prior if classes is None else classes.drawn
            shares = shares_of(prior)
            estimates = [
                Estimate.as_drawn(table, release.drawn, shares)
                if private
                else Estimate(exact, release.drawn, least)
                for table, exact, release in zip(described, counts, features, strict=True)
            ]
            drawn = [release.mechanism for release in features if release.mechanism is not None]
            self.alpha_ = drawn[-1].smoothing if drawn and private else alpha
        with np.errstate(divide="ignore"):
            self.class_log_prior_ = np.log(prior)
            self.class_count_ = n_samples * shares_of(prior) if private else tally.classes
            self._keep(estimates, alpha - least)
        if not private and not tally.counted.unit.by_ids:  # ids of persons are not kept
            self._exact_tally_ = tally

    def _best_reading(
        self,
        classes: Release | None,
        features: Sequence[Release],
        described: Sequence[CountTable],
        total: float | None,
        least: float,
    ) -> tuple[Any, list[Estimate]]:
        """The class prior, where it was released, and the tables; all from noisy counts alone."""
        noisy = None
        if classes is not None and classes.mechanism is not None:
            noisy = NoisyTable(classes.drawn, classes.mechanism.noise, ("class",))
        tables = [
            NoisyTable(release.drawn, release.mechanism.noise, ("row", "category"))
            for release in features
            if release.mechanism is not None
        ]
        prior, read = self._read(noisy, tables, total)
        waiting = iter(read)
        counts = [
            release.drawn if release.mechanism is None else next(waiting) for release in features
        ]
        totals = [table.n_samples for table in described] if self._counts_records else None
        estimates = estimates_of(counts, totals, least)
        if classes is None:
            return None, estimates
        return classes.drawn if prior is None else shares_of(prior), estimates

    def _check_alpha(self) -> Any:
        # Of no interest to a single number, which may be looked at before any data.
        n_features = vars(self).get("n_features_in_", 0)
        return check_alpha(self.alpha, n_features, self.force_alpha)

    def _known_prior(self) -> np.ndarray | None:
        """The class prior, where it is not learnt."""
        n_classes = len(self.classes_)
        if self.class_prior is None:
            return None if self.fit_prior else np.full(n_classes, 1 / n_classes)
        return check_class_prior(self.class_prior, n_classes)

    def _prior_table(self, tally: Tally, tables: Any, n_samples: float, budget: Any) -> CountTable:
        others = [table for table, _ in tables]
        precision = relative_precision(others, tally.contribution, budget.adjacency)
        return CountTable(
            n_samples, len(self.classes_), 1, tally.contribution, precision, min_smoothing=0.0
        )

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._released_attributes and "_tally_" in vars(self):
            if not self._is_private:  # there is nothing to spend, and nothing to hide
                return getattr(self.release(), name)
            raise AttributeError(
                f"{name} does not exist before the counts are released, which spends the budget: "
                "call release(), or predict"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self):
        if "_tally_" in vars(self):
            if self._is_private:
                raise TypeError(
                    f"this {type(self).__name__} still holds exact counts and is not pickled or "
                    "copied; call release() first"
                )
            self.release()
        state = super().__getstate__()
        state.pop("_release_lock", None)
        return state

    def _for_workers(self):
        twin = super()._for_workers()
        for name in ("_tally_", "_exact_tally_", "_release_lock"):
            twin.__dict__.pop(name, None)
        return twin

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    # Exporting ---------------------------------------------------------------------

    def to_sklearn(self):
        """The released model as scikit-learn's own, for those who have no skdirdp.

        It predicts the same, and holds what was released and nothing else. Its `partial_fit`
        would add exact counts to released ones: do not.

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
        for name, value in vars(self).items():
            if name in _PUBLIC_FITTED or name in type(self)._released_attributes:
                setattr(model, name, deepcopy(value))
        del model.privacy_, model.alpha_
        return model.set_params(alpha=self.alpha_)

    # Predicting --------------------------------------------------------------------

    @lazy_for_dask(lambda model: (len(model.classes_), np.empty((0, len(model.classes_)))))
    def predict_joint_log_proba(self, X):
        """Joint log probability of each record and class.

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
        scores = self._log_likelihood(X)
        return scores + self.class_log_prior_ if self._uses_prior else scores

    @lazy_for_dask(lambda model: (None, model.classes_[:0]))
    def predict(self, X):
        """The most probable class of each record.

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
    def predict_log_proba(self, X):
        """Log probability of each class given each record.

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
    def predict_proba(self, X):
        """Probability of each class given each record.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def score(self, X, y, sample_weight=None):
        """Accuracy on the given records.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        predicted, y, sample_weight = compute_dask(self.predict(X), y, sample_weight)
        with errors_without_data(y=y, sample_weight=sample_weight):
            return accuracy_score(y, predicted, sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags
