"""Counting, releasing and predicting: the part that is the same for all naive Bayes models."""

import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._contributions import Weights, count_cells
from .._messages import errors_without_data
from .._persons import Selection, select_rows
from .._sklearn_compat import Interval, _check_sample_weight, _fit_context
from .._validation import check_class_prior, check_classes, encode_labels
from ..base import CountingEstimator
from ..mechanisms.contribution import ContributionBound
from ..mechanisms.split import precision_beside
from ..mechanisms.table import CountTable


class FeatureCounts(Protocol):
    """Exact counts of the features by class, as `_PrivateNaiveBayes._count` gives them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Public parameters that had to be taken from the data."""

    def __add__(self, other: Any) -> Any:
        """The counts of both batches."""

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        """Public descriptions of the tables, and their counts."""


@dataclass(frozen=True)
class Tally:
    """Exact counts of all batches so far, held only until they are released.

    Attributes
    ----------
    counted : how many records there are, and whose.
    classes : ndarray of shape (n_classes,), the weight of each class.
    contribution : what a record adds to `classes` at most.
    features : the counts of the features.
    leaks : public parameters that were taken from the data.
    bounded : whether all records were held to the bounds that privacy needs.
    """

    counted: Selection
    classes: np.ndarray
    contribution: ContributionBound
    features: FeatureCounts
    leaks: tuple[str, ...]
    bounded: bool

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.counted + other.counted,
            self.classes + other.classes,
            self.contribution | other.contribution,
            self.features + other.features,
            tuple(dict.fromkeys((*self.leaks, *other.leaks))),
            self.bounded and other.bounded,
        )


class _PrivateNaiveBayes(ClassifierMixin, CountingEstimator, metaclass=ABCMeta):
    """A naive Bayes model; a subclass says what is counted and how it scores."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CountingEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
        "classes": ["array-like", None],
        "max_weight": [None, Interval(Real, 0, None, closed="neither")],
    }

    #: Attributes that do not exist before the counts are released.
    _released_attributes: ClassVar[tuple[str, ...]] = (
        "alpha_",
        "class_log_prior_",
        "feature_log_prob_",
        "privacy_",
    )

    alpha: float
    fit_prior: bool
    class_prior: Any
    classes: Any
    max_weight: float | None
    _tally_: Tally

    # Hooks of a subclass -----------------------------------------------------------

    @abstractmethod
    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's `validate_data`, with the checks that the features need."""

    @abstractmethod
    def _count(self, X: Any, codes: np.ndarray, weights: Weights) -> FeatureCounts:
        """Exact counts of a batch, by class and feature."""

    @abstractmethod
    def _keep(self, probabilities: list[np.ndarray]) -> None:
        """Set the attributes that are read from the released tables."""

    @abstractmethod
    def _log_likelihood(self, X: Any) -> np.ndarray:
        """log P(x | class) of validated X, of shape (n_samples, n_classes)."""

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and release it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in [0, `max_weight`]. The weight of a record may depend on that record
            only: one that is computed from others, as class frequencies are, tells of them.
        groups : array-like of shape (n_samples,), default=None
            The person that each record is of, by whole numbers or strings. Only the first
            `max_rows` records of each are counted. None if no person has more.

        Returns
        -------
        self
        """
        with self._fitting():
            self._publish(self._tally(X, y, self.classes, sample_weight, groups))
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
        with self.__dict__.setdefault("_release_lock", threading.RLock()):
            if "privacy_" in vars(self):
                raise ValueError(
                    f"this {type(self).__name__} is released and takes no more records: the "
                    "noise is drawn once, for all of them. Call fit on all records to start again."
                )
            if classes is None:
                classes = self.classes
            if "_tally_" in vars(self):
                if classes is not None and not np.array_equal(
                    check_classes(classes), self.classes_
                ):
                    raise ValueError("classes must be the same as in the first call to partial_fit")
                self._tally_ += self._tally(X, y, classes, sample_weight, groups, self._tally_)
            elif classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            else:
                with self._fitting():
                    self._tally_ = self._tally(X, y, classes, sample_weight, groups)
        return self

    def _tally(self, X, y, classes, sample_weight, groups, before: Tally | None = None) -> Tally:
        """Exact counts of one batch, within the bounds that hold now."""
        first = before is None
        X, y = self._validate(X, y, reset=first)
        with errors_without_data(y=y):
            check_classification_targets(y)
        if sample_weight is not None:
            with errors_without_data(sample_weight=sample_weight):
                sample_weight = _check_sample_weight(
                    sample_weight, X, dtype=np.float64, ensure_non_negative=True
                )
        counted = select_rows(
            groups, len(y), self.max_rows, None if before is None else before.counted
        )
        X, y, sample_weight = (counted.of(values) for values in (X, y, sample_weight))
        # Without noise nothing needs a bound.
        weights = Weights.of(sample_weight, self.max_weight, exact=not self._is_private)
        leaks = ["classes"] if classes is None else []
        leaks += ["max_weight"] if weights.missing else []
        if first:
            if classes is None:
                with errors_without_data(y=y):
                    classes = np.unique(y)
            self.classes_ = check_classes(classes, self.class_prior)
        codes = encode_labels(y, self.classes_)
        features = self._count(X, codes, weights)
        return Tally(
            counted,
            count_cells(codes, len(self.classes_), weights),
            ContributionBound(weights.bound),
            features,
            (*leaks, *features.missing),
            bounded=not weights.exact,
        )

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
                    self._publish(self._tally_)
                    del self._tally_
            self.__dict__.pop("_release_lock", None)
        return self

    def _publish(self, tally: Tally) -> None:
        if self._is_private and not tally.bounded:
            raise ValueError(
                "epsilon must be finite when records are counted for a private release; it was "
                "infinite, and they were not held to any bounds. Call fit to start again"
            )
        known_prior = self._known_prior()
        n_samples, leaks = self._public_n_samples(tally.counted)
        tables = tally.features.tables(n_samples, float(self.alpha))
        if known_prior is None:
            tables.insert(0, (self._prior_table(tally, tables, n_samples), tally.classes))
        releases = self._release(tables, [*tally.leaks, *leaks], tally.counted)
        with np.errstate(divide="ignore"):
            prior = releases.pop(0).probabilities if known_prior is None else known_prior
            self.class_log_prior_ = np.log(prior)
            self._keep([release.probabilities for release in releases])
        drawn = [release.mechanism for release in releases if release.mechanism is not None]
        self.alpha_ = drawn[-1].smoothing if drawn else float(self.alpha)

    def _known_prior(self) -> np.ndarray | None:
        """The class prior, where it is not learnt."""
        n_classes = len(self.classes_)
        if self.class_prior is None:
            return None if self.fit_prior else np.full(n_classes, 1 / n_classes)
        return check_class_prior(self.class_prior, n_classes)

    def _prior_table(
        self, tally: Tally, tables: Sequence[tuple[CountTable, np.ndarray]], n_samples: float
    ) -> CountTable:
        precision = precision_beside(
            [table for table, _ in tables], tally.contribution, self._terms.adjacency
        )
        return CountTable(
            n_samples, len(self.classes_), 1, tally.contribution, precision, min_smoothing=0.0
        )

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._released_attributes and "_tally_" in vars(self):
            raise AttributeError(
                f"{name} does not exist before the counts are released, which spends the budget: "
                "call release(), or predict"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self):
        if "_tally_" in vars(self):
            raise TypeError(
                f"this {type(self).__name__} still holds exact counts and is not pickled or "
                "copied; call release() first"
            )
        state = super().__getstate__()
        state.pop("_release_lock", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    # Predicting --------------------------------------------------------------------

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
        return self._log_likelihood(X) + self.class_log_prior_

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
        predicted = self.predict(X)
        with errors_without_data(y=y, sample_weight=sample_weight):
            return accuracy_score(y, predicted, sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True
        return tags
