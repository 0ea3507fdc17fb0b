"""Naive Bayes classifiers that drop in for scikit-learn's."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ._messages import errors_without_data
from ._sklearn_compat import Interval, StrOptions, _check_sample_weight, _fit_context
from ._validation import check_class_prior, check_classes, check_sizes, encode_labels
from .base import PrivateEstimator
from .mechanisms.contribution import ContributionBound
from .mechanisms.table import CountTable

# Rows are counted and scored in blocks of about this many entries, which stay in cache.
_BLOCK_ENTRIES = 1 << 19
# Sparse rows need larger ones: each block passes once over the whole table of sums.
_SPARSE_BLOCK_ENTRIES = 1 << 21

# Categories beyond this are no small integers, and a table of so many would not be meant.
_LARGEST_OBSERVED = 1_000_000

# The part of the squared sensitivity that the class prior gets beside a table of word
# counts. One record moves the latter by many counts and the former by one, so that at
# equal noise the prior would cost little and be worth little.
_PRIOR_SHARE = 0.1


@dataclass
class _Counts:
    """Exact counts, held only until they are released."""

    n_samples: int
    classes: np.ndarray  # shape (n_classes,)
    features: Any  # whatever the subclass counts
    largest_weight: float
    leaks: tuple[str, ...]  # public parameters that were taken from the data


class _PrivateNaiveBayes(ClassifierMixin, PrivateEstimator):
    """Counting, releasing and predicting; a subclass says which tables and how they score."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
        "classes": ["array-like", None],
        "max_weight": [None, Interval(Real, 0, None, closed="neither")],
    }

    #: Attributes that exist once counts are released; asking for one releases them.
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

    # What a subclass says ----------------------------------------------------------

    @abstractmethod
    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """scikit-learn's `validate_data`, with the checks that the features need."""

    @abstractmethod
    def _count_features(self, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> Any:
        """Exact counts of a batch, by class and feature."""

    @abstractmethod
    def _add_features(self, features: Any, more: Any) -> Any:
        """The counts of two batches together, as a new object."""

    @abstractmethod
    def _feature_tables(
        self, features: Any, n_samples: float, max_weight: float
    ) -> list[tuple[CountTable, np.ndarray]]:
        """Each table's public description, and its counts."""

    @abstractmethod
    def _missing_bounds(self) -> list[str]:
        """Public parameters that were not given, and are taken from the data."""

    @abstractmethod
    def _set_features(self, probabilities: list[np.ndarray]) -> None:
        """Keep the released tables."""

    @abstractmethod
    def _log_likelihood(self, X: Any) -> np.ndarray:
        """log P(x | class) of validated X, of shape (n_samples, n_classes)."""

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model, and release it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in [0, `max_weight`].

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            self._forget()
            self._accumulate(X, y, self.classes, sample_weight)
            self._publish()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Count a batch of records; nothing is released or charged yet.

        The first use of the model (a prediction, or an attribute that is released)
        releases it, once. From then on it takes no more records.

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
            Weights in [0, `max_weight`].

        Returns
        -------
        self
        """
        if "privacy_" in vars(self):
            raise ValueError(
                f"this {type(self).__name__} is released and takes no more records: the noise "
                "is drawn once, for all of them. Call fit on all records to start again."
            )
        if classes is None:
            classes = self.classes
        if "_pending" not in vars(self):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
        elif classes is not None and not np.array_equal(check_classes(classes), self.classes_):
            raise ValueError("classes must be the same as in the first call to partial_fit")
        with self._all_or_nothing():
            self._accumulate(X, y, classes, sample_weight)
        return self

    def _forget(self) -> None:
        parameters = self.get_params(deep=False)
        for name in [name for name in vars(self) if name not in parameters]:
            if name.endswith("_") or name == "_pending":
                delattr(self, name)

    def _accumulate(self, X, y, classes, sample_weight) -> None:
        first = "_pending" not in vars(self)
        X, y = self._validate(X, y, reset=first)
        with errors_without_data(y=y):
            check_classification_targets(y)
        weight = self._checked_weight(sample_weight, X)
        leaks: tuple[str, ...] = ()
        if first:
            if classes is None:
                leaks = ("classes",)
                with errors_without_data(y=y):
                    classes = np.unique(y)
            self.classes_ = check_classes(classes, self.class_prior)
            if self.class_prior is not None:
                check_class_prior(self.class_prior, len(self.classes_))
        codes = encode_labels(y, self.classes_)
        features = self._count_features(X, codes, weight)
        class_counts = np.bincount(codes, weight, minlength=len(self.classes_)).astype(float)
        largest = 1.0 if weight is None or not weight.size else float(weight.max())
        if first:
            self._pending = _Counts(len(codes), class_counts, features, largest, leaks)
        else:
            # A new object, so that a failure later on can bring the old one back.
            seen = self._pending
            self._pending = _Counts(
                seen.n_samples + len(codes),
                seen.classes + class_counts,
                self._add_features(seen.features, features),
                max(seen.largest_weight, largest),
                seen.leaks,
            )

    def _checked_weight(self, sample_weight, X) -> np.ndarray | None:
        if sample_weight is None:
            return None
        with errors_without_data(sample_weight=sample_weight):
            weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        if self.max_weight is not None and weight.max(initial=0.0) > self.max_weight:
            raise ValueError(
                f"sample_weight must be at most max_weight={self.max_weight}, on which the privacy "
                "guarantee rests; some weights are larger"
            )
        return weight

    # Releasing ---------------------------------------------------------------------

    def _publish(self) -> None:
        """Calibrate, charge and release all tables; then forget the counts."""
        counts = self._pending
        n_samples, size_leaks = self._public_n_samples(counts.n_samples)
        leaks = [*counts.leaks, *size_leaks]
        max_weight = self.max_weight
        if max_weight is None:
            max_weight = max(1.0, counts.largest_weight)
            if max_weight > 1:
                leaks.append("max_weight")
        tables = self._feature_tables(counts.features, n_samples, max_weight)
        leaks += self._missing_bounds()
        self._warn_of_leak(*leaks)

        wants_prior = self.class_prior is None and self.fit_prior and len(self.classes_) > 1
        if wants_prior:
            tables.insert(0, (self._prior_table(tables, n_samples, max_weight), counts.classes))
        # A row of one category is always (1,): it says nothing and is not released.
        told = [(table, cells) for table, cells in tables if table.n_categories > 1]
        mechanisms = self._calibrate([table for table, _ in told])
        released = iter(self._release(mechanisms, [cells for _, cells in told]))
        probabilities = [
            next(released) if table.n_categories > 1 else np.ones(cells.shape)
            for table, cells in tables
        ]
        del self._pending

        with np.errstate(divide="ignore"):
            if wants_prior:
                self.class_log_prior_ = np.log(probabilities.pop(0))
            elif self.class_prior is not None:
                self.class_log_prior_ = np.log(np.asarray(self.class_prior, dtype=float))
            else:
                self.class_log_prior_ = np.full(len(self.classes_), -np.log(len(self.classes_)))
            self._set_features(probabilities)
        self.alpha_ = mechanisms[-1].smoothing if mechanisms else float(self.alpha)
        self.privacy_ = self._report(mechanisms, leaks)

    def _prior_table(self, tables, n_samples, max_weight) -> CountTable:
        rows = ContributionBound(max_weight)
        others = sum(table.contribution.squared_norm(self.adjacency) for table, _ in tables)
        equal = rows.squared_norm(self.adjacency)
        # As much as any other table, or more where those have many counts per record.
        share = max(1.0, np.sqrt(_PRIOR_SHARE * others / len(tables) / equal)) if tables else 1.0
        return CountTable(n_samples, len(self.classes_), 1, rows, share, min_smoothing=0.0)

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._released_attributes and "_pending" in vars(self):
            with self._all_or_nothing():
                self._publish()
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self):
        if "_pending" in vars(self):
            raise TypeError(
                f"this {type(self).__name__} still holds exact counts and is not pickled or "
                "copied; use it once (predict, for example) to release it first"
            )
        return super().__getstate__()

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


@dataclass
class _RowSums:
    """Class sums of non-negative rows, and the largest entry and total of any row."""

    table: np.ndarray
    largest_entry: float
    largest_total: float


class DirichletNB(_PrivateNaiveBayes):
    """Private naive Bayes for multinomial models; drops in for `MultinomialNB`.

    Two tables are released: the class counts, and the sums of each feature by class.
    One record contributes to the latter by its whole row, which is therefore clipped:
    entries to `max_count`, then, where the total is larger, the row is scaled down to
    `max_total`.

    Parameters
    ----------
    alpha : float, default=1.0
        The least smoothing, in counts. The budget may need more: see `alpha_`.
    fit_prior : bool, default=True
        Whether to learn class priors; if not, they are uniform.
    class_prior : array-like of shape (n_classes,), default=None
        Class priors, if they are known; they are not learnt then. In the order of
        `classes_`, which are sorted.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur, in sorted order where `class_prior` is given. Public: a
        label's presence is not protected.
    max_count : float, default=None
        A public bound on every entry of X.
    max_total : float, default=None
        A public bound on every row's total.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `MultinomialNB`.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private.
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
    max_weight : float, default=None
        A public bound on `sample_weight`. None means 1, or the largest weight where
        that is larger, with a warning.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_log_prior_ : ndarray of shape (n_classes,)
        Released.
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        Released.
    alpha_ : float
        The smoothing of the feature table, in counts.
    privacy_ : PrivacyReport
        What was guaranteed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletNB
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=5000)
    >>> X = rng.poisson(np.where(y[:, None] == 1, [3, 1, 1], [1, 1, 3]))
    >>> model = DirichletNB(epsilon=1.0, classes=[0, 1], max_count=8, max_total=16).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> model.privacy_.epsilon, model.privacy_.releases
    (1.0, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateNaiveBayes._parameter_constraints,
        "max_count": [None, Interval(Real, 0, None, closed="neither")],
        "max_total": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        alpha=1.0,
        fit_prior=True,
        class_prior=None,
        *,
        classes=None,
        max_count=None,
        max_total=None,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="dirichlet",
        calibration="exact",
        adjacency="replace",
        n_samples=None,
        max_weight=None,
        accountant=None,
        random_state=None,
    ):
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.classes = classes
        self.max_count = max_count
        self.max_total = max_total
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_weight = max_weight
        self.accountant = accountant
        self.random_state = random_state

    def _validate(self, X, y="no_validation", *, reset):
        with errors_without_data(X=X, y=y):
            checked = validate_data(self, X, y, accept_sparse="csr", reset=reset)
            X, *labels = checked if isinstance(checked, tuple) else (checked,)
            if X.dtype.kind == "O":  # a list with a decimal or a large integer, for example
                X = X.astype(np.float64)
        # Counts must not be negative; a prediction, as in MultinomialNB, need not look.
        if labels:
            check_non_negative(X, f"{type(self).__name__} (input X)")
        return (X, *labels) if labels else X

    def _count_features(self, X, codes, weight):
        n_classes = len(self.classes_)
        if not self._is_private:  # nothing needs a bound
            return _RowSums(_sum_by_class(X, codes, weight, n_classes), 0.0, 0.0)
        largest_entry = float(X.data.max(initial=0.0) if sparse.issparse(X) else X.max())
        if self.max_count is not None and largest_entry > self.max_count:
            X = _clip_entries(X, self.max_count)
        totals = np.asarray(X.sum(axis=1), dtype=float).ravel()
        largest_total = float(totals.max())
        if self.max_total is not None and largest_total > self.max_total:
            # Rows are scaled by their weights, a hair below the bound for rounding's sake.
            scale = (1 - 1e-12) * self.max_total / np.maximum(totals, self.max_total)
            weight = scale if weight is None else weight * scale
        return _RowSums(_sum_by_class(X, codes, weight, n_classes), largest_entry, largest_total)

    def _add_features(self, features, more):
        return _RowSums(
            features.table + more.table,
            max(features.largest_entry, more.largest_entry),
            max(features.largest_total, more.largest_total),
        )

    def _feature_tables(self, features, n_samples, max_weight):
        # A bound of 0 would mean that no record can change anything; 1 is as good then.
        max_count = self.max_count or features.largest_entry or 1.0
        max_total = self.max_total or features.largest_total or 1.0
        table = CountTable(
            n_samples * max_total,
            features.table.shape[1],
            features.table.shape[0],
            ContributionBound(max_count * max_weight, max_total * max_weight),
            min_smoothing=float(self.alpha),
        )
        return [(table, features.table)]

    def _missing_bounds(self):
        return [name for name in ("max_count", "max_total") if getattr(self, name) is None]

    def _set_features(self, probabilities):
        self.feature_log_prob_ = np.log(probabilities[0])

    def _log_likelihood(self, X):
        return safe_sparse_dot(X, self.feature_log_prob_.T)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _clip_entries(X, bound: float):
    """A copy with no entry above the bound."""
    if sparse.issparse(X):
        return sparse.csr_array((np.minimum(X.data, bound), X.indices, X.indptr), shape=X.shape)
    return np.minimum(X, bound)


def _sum_by_class(X, codes, weight, n_classes: int) -> np.ndarray:
    """The sum of the rows of each class, of shape (n_classes, n_features)."""
    n_samples, n_features = X.shape
    if not sparse.issparse(X):
        weight = np.ones(n_samples) if weight is None else weight
        members = sparse.csr_array((weight, (codes, np.arange(n_samples))), (n_classes, n_samples))
        return members @ X
    sums = np.zeros(n_classes * n_features)
    per_row = np.diff(X.indptr)
    # Blocks of rows with about as many entries each, to bound the memory for cell numbers.
    blocks = max(1, X.nnz // _SPARSE_BLOCK_ENTRIES)
    edges = np.searchsorted(X.indptr, np.linspace(0, X.nnz, blocks + 1)).clip(0, n_samples)
    edges[0], edges[-1] = 0, n_samples
    for start, stop in pairwise(edges):
        entries = slice(X.indptr[start], X.indptr[stop])
        rows = np.repeat(codes[start:stop] * n_features, per_row[start:stop])
        values = X.data[entries]
        if weight is not None:
            values = values * np.repeat(weight[start:stop], per_row[start:stop])
        sums += np.bincount(rows + X.indices[entries], values, minlength=sums.size)
    return sums.reshape(n_classes, n_features)


class DirichletCategoricalNB(_PrivateNaiveBayes):
    """Private naive Bayes for categorical features; drops in for `CategoricalNB`.

    One table is released for the class counts, and one per feature with the counts
    of its categories by class. A record moves one count in each.

    Parameters
    ----------
    alpha : float, default=1.0
        The least smoothing, in counts. The budget may need more: see `alpha_`.
    fit_prior : bool, default=True
        Whether to learn class priors; if not, they are uniform.
    class_prior : array-like of shape (n_classes,), default=None
        Class priors, if they are known; they are not learnt then. In the order of
        `classes_`, which are sorted.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur, in sorted order where `class_prior` is given. Public: a
        label's presence is not protected.
    n_categories : int or array-like of shape (n_features,), default=None
        The number of categories of all features, or of each; categories are integers
        from 0. Public.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do in a prediction with a category beyond `n_categories`: refuse, or
        leave that feature out of the record's score.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `CategoricalNB`.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private.
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
    max_weight : float, default=None
        A public bound on `sample_weight`. None means 1, or the largest weight where
        that is larger, with a warning.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_categories_ : ndarray of shape (n_features,)
    class_log_prior_ : ndarray of shape (n_classes,)
        Released.
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories of the feature)
        Released.
    alpha_ : float
        The smoothing of the feature tables, in counts.
    privacy_ : PrivacyReport
        What was guaranteed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=5000)
    >>> X = np.column_stack([y ^ (rng.random(5000) < 0.2), rng.integers(4, size=5000)])
    >>> model = DirichletCategoricalNB(epsilon=1.0, classes=[0, 1], n_categories=[2, 4])
    >>> bool(model.fit(X, y).score(X, y) > 0.75)
    True
    >>> model.privacy_.releases
    3
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateNaiveBayes._parameter_constraints,
        "n_categories": [None, "array-like", Interval(Integral, 1, None, closed="left")],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }
    _released_attributes: ClassVar[tuple[str, ...]] = (
        *_PrivateNaiveBayes._released_attributes,
        "n_categories_",
    )

    def __init__(
        self,
        alpha=1.0,
        fit_prior=True,
        class_prior=None,
        *,
        classes=None,
        n_categories=None,
        handle_unknown="error",
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="dirichlet",
        calibration="exact",
        adjacency="replace",
        n_samples=None,
        max_weight=None,
        accountant=None,
        random_state=None,
    ):
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.classes = classes
        self.n_categories = n_categories
        self.handle_unknown = handle_unknown
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_weight = max_weight
        self.accountant = accountant
        self.random_state = random_state

    def _validate(self, X, y="no_validation", *, reset):
        with errors_without_data(X=X, y=y):
            checked = validate_data(self, X, y, dtype="int", ensure_all_finite=True, reset=reset)
        features = checked if isinstance(y, str) and y == "no_validation" else checked[0]
        check_non_negative(features, f"{type(self).__name__} (input X)")
        return checked

    def _count_features(self, X, codes, weight):
        largest = X.max(axis=0)
        sizes = self._public_sizes(X.shape[1])
        if sizes is None:
            if np.any(largest >= _LARGEST_OBSERVED):
                raise ValueError(
                    f"n_categories must be given where X holds categories of {_LARGEST_OBSERVED} "
                    "or more; some are"
                )
            sizes = largest + 1
        elif np.any(largest >= sizes):
            feature = int(np.argmax(largest >= sizes))
            raise ValueError(
                f"X must hold categories below n_categories, {sizes[feature]} for feature "
                f"{feature}; some are not"
            )
        n_classes = len(self.classes_)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        counts = np.zeros(starts[-1] * n_classes)
        for block in _row_blocks(X):
            cells = (X[block] + starts[:-1]) * n_classes + codes[block, np.newaxis]
            values = None if weight is None else np.repeat(weight[block], X.shape[1])
            counts += np.bincount(cells.ravel(), values, minlength=counts.size)
        return np.split(counts.reshape(-1, n_classes), starts[1:-1])

    def _public_sizes(self, n_features: int) -> np.ndarray | None:
        if self.n_categories is None:
            return None
        return check_sizes("n_categories", self.n_categories, n_features, at_least=1)

    def _add_features(self, features, more):
        return [_add_padded(old, new) for old, new in zip(features, more, strict=True)]

    def _feature_tables(self, features, n_samples, max_weight):
        rows = ContributionBound(max_weight)
        alpha = float(self.alpha)
        return [
            (
                CountTable(n_samples, len(counts), counts.shape[1], rows, min_smoothing=alpha),
                counts.T,
            )
            for counts in features
        ]

    def _missing_bounds(self):
        return ["n_categories"] if self.n_categories is None else []

    def _set_features(self, probabilities):
        self.feature_log_prob_ = [np.log(table) for table in probabilities]
        self.n_categories_ = np.array([table.shape[1] for table in probabilities])

    def _log_likelihood(self, X):
        sizes = self.n_categories_
        unknown = X.max(axis=0) >= sizes
        if unknown.any() and self.handle_unknown == "error":
            raise ValueError(
                f"X must hold categories below {sizes[np.argmax(unknown)]} for feature "
                f"{int(np.argmax(unknown))}, as in fit; handle_unknown='ignore' leaves others out"
            )
        starts = np.concatenate([[0], np.cumsum(sizes)])
        # One row per category of any feature, and one of zeros for what is not known.
        table = np.vstack([log_prob.T for log_prob in self.feature_log_prob_])
        table = np.vstack([table, np.zeros(table.shape[1])])
        scores = np.empty((X.shape[0], table.shape[1]))
        for block in _row_blocks(X):
            cells = X[block] + starts[:-1]
            if unknown.any():
                cells[X[block] >= sizes] = starts[-1]
            # A sparse product gathers and adds the rows of the table without a copy of them.
            ends = np.arange(0, cells.size + 1, X.shape[1])
            chosen = sparse.csr_array(
                (np.ones(cells.size), cells.ravel(), ends), (len(cells), len(table))
            )
            scores[block] = chosen @ table
        return scores

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def _row_blocks(X: np.ndarray) -> Iterator[slice]:
    rows = max(1, _BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], rows):
        yield slice(start, start + rows)


def _add_padded(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Sum of two tables of counts, of which one may know more categories (rows)."""
    longer, shorter = (old, new) if len(old) >= len(new) else (new, old)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
