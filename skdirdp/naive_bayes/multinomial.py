"""Naive Bayes models of non-negative numbers: base class, multinomial and complement."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.utils import assert_all_finite
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_non_negative

from .._contributions import ContributionError, RowBounds, RowSums, check_given_counts, sum_rows
from .._docs import shared_docs
from .._messages import errors_without_data
from .._sklearn_compat import Interval, StrOptions, validate_records
from .._validation import LARGEST, MOST_SUMS, check_cells, largest_count
from ..mechanisms.base import smoothed_mean
from ..mechanisms.tables import CountTable
from ..postprocessing import estimate_counts
from .base import Table, _PrivateNaiveBayes, estimate_classes, noisy_table


def default_total(max_count: float, n_columns: int) -> float:
    """Return a bound on the totals of rows that depends on public sizes alone."""
    # The geometric mean of the smallest and the largest total of a row with entries of
    # `max_count`. For any true total the signal-to-noise ratio is at least n_columns ** -0.25 of
    # the best, and no other bound guarantees as much (docs/theory.md, section 15). A whole
    # multiple of `max_count` is faster to calibrate.
    return max_count * math.ceil(math.sqrt(n_columns))


@dataclass(frozen=True)
class FeatureSums:
    """Sums of the features by class, released with a row for each class, or as one row."""

    sums: RowSums
    n_columns: int  # as declared, or that of the table; used to calibrate the noise
    one_row: bool  # then the complement of a class is a sum of released cells

    @property
    def missing(self) -> tuple[str, ...]:
        return self.sums.missing

    def __add__(self, other: "FeatureSums") -> "FeatureSums":
        return replace(self, sums=self.sums + other.sums)

    def tables(self, counts: Any, n_samples: float, options: Any) -> list[Table]:
        sums, bound = self.sums.table, self.sums.bound
        assert bound.max_total is not None
        total = n_samples * bound.max_total
        if not self.one_row:
            return [(CountTable(total, self.n_columns, len(sums), bound, **options), sums)]
        # The smoothing of each cell is a part of `alpha`, that of the complement of a class.
        options = {**options, "min_smoothing": options["min_smoothing"] / max(len(sums) - 1, 1)}
        size = len(sums) * self.n_columns
        return [(CountTable(total, size, 1, bound, **options), sums.reshape(1, -1))]


class _NumericNaiveBayes(_PrivateNaiveBayes):
    """Base class of the models of non-negative numbers, with public bounds for each row."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateNaiveBayes._parameter_constraints,
        "max_count": [None, Interval(Real, 0, None, closed="neither")],
        "max_total": [None, Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    _released_attributes: ClassVar[tuple[str, ...]] = (
        *_PrivateNaiveBayes._released_attributes,
        "feature_count_",
    )

    _takes_declared_columns = True
    #: Public bounds of rows, needed to count a table out of memory.
    _row_parameters: ClassVar[tuple[str, ...]] = ("max_count", "max_total")
    _counts_records = False
    #: Whether the sums of all classes are released as one row.
    _one_row: ClassVar[bool] = False

    def _validate_part(self, part, *, reset):
        # Entries are checked when they are counted, unless only some records are counted.
        is_checked = part.groups is None and type(self)._prepare is _NumericNaiveBayes._prepare
        return self._validate(part.X, part.y, reset=reset, check_entries=not is_checked)

    def _validate(self, X, y="no_validation", *, reset, check_entries=True):
        checked = validate_records(
            self,
            X,
            y,
            reset=reset,
            unchecked_dtypes=[float, int],
            accept_sparse="csr",
            ensure_all_finite=False,
        )
        with errors_without_data(X=X, y=y):
            X, *labels = checked if isinstance(checked, tuple) else (checked,)
            if X.dtype.kind == "O":  # a list with a decimal, a large integer or None, for example
                X = X.astype(np.float64)
            if X.dtype.kind not in "biuf":  # a missing duration is a negative number as a float
                raise TypeError(f"X must contain numbers; got dtype {X.dtype.name}")
        if check_entries:
            self._check_entries(X, is_fit=bool(labels))
        X = self._prepare(X)
        return (X, *labels) if labels else X

    def _check_entries(self, X: Any, *, is_fit: bool) -> None:
        """Raise an error for entries that are not finite or, in a fit, negative."""
        # One pass finds most tables to be valid counts. Others are checked step by step.
        if not math.isnan(largest_count(X.data if sparse.issparse(X) else X)):
            return
        with errors_without_data(X=X):
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        if is_fit:  # only fit needs non-negative numbers, as in scikit-learn
            try:
                check_non_negative(self._prepare(X), f"{type(self).__name__} (input X)")
            except ValueError as error:
                raise ValueError(
                    f"{str(error).rstrip('.')}. If X comes from a HashingVectorizer, set its "
                    "alternate_sign=False"
                ) from None

    def _prepare(self, X: Any) -> Any:
        """Return the numbers that are counted or scored."""
        return X

    def _check_size(self, n_columns):
        n_cells = n_columns * len(self.classes_)
        is_public = self.classes is not None
        check_cells("the columns of X and classes", n_cells, MOST_SUMS, is_public=is_public)

    def _row_bounds(self, n_columns: int, exact: bool) -> tuple[float | None, float | None]:
        """Return the public bounds on entries and totals of rows, None if there is none."""
        max_count, max_total = self._public("max_count"), self._public("max_total")
        if max_total != "auto":
            return max_count, max_total
        if max_count is None and not exact:
            raise ValueError("max_count must be given if max_total is 'auto'; got None")
        known = self._declared("max_total")
        return max_count, known or default_total(max_count or 1.0, n_columns)

    def _features(self, sums: RowSums, n_columns: int) -> Any:
        return FeatureSums(sums, n_columns, self._one_row)

    def _count_features(self, X, codes, weights):
        n_columns = self._declared_columns(X.shape[1])
        bounds = self._row_bounds(n_columns, weights.exact)
        try:
            sums = sum_rows(X, codes, len(self.classes_), weights, *bounds, n_columns)
        except ContributionError:
            self._check_entries(X, is_fit=True)  # raises an error that users understand
            raise
        return self._features(sums, n_columns)

    def _undeclared(self, weighted):
        missing = super()._undeclared(weighted)
        if self._is_private:
            missing += [name for name in self._row_parameters if getattr(self, name) is None]
        return missing

    def _count_features_of_frame(self, frame):
        n_columns = self.n_features_in_
        bounds = self._row_bounds(n_columns, not self._is_private)

        def row_bounds(weights, largest):
            return RowBounds.from_limits(weights, n_columns, *bounds, largest)

        def check(made_up):
            self._validate_some(made_up, np.resize(self.classes_, len(made_up)))

        def encode(labels):
            return self._encode_label_column(labels.to_frame())

        numbers = frame.numbers(getattr(self, "binarize", None))
        sums = frame.sum_rows(numbers, row_bounds, check, len(self.classes_), encode)
        return self._features(sums, n_columns)

    def _check_given_features(self, table, classes, n_rows, weights):
        if np.ndim(table) != 2:
            raise ValueError("feature_count must be of shape (n_classes, n_features)")
        n_columns = np.shape(table)[1]
        self._set_feature_names(getattr(table, "columns", range(n_columns)))
        bounds = self._row_bounds(n_columns, weights.exact)
        row_bounds = RowBounds.from_limits(weights, n_columns, *bounds, largest=1.0)
        most = LARGEST if weights.exact else row_bounds.total_bound
        shape = (len(classes), n_columns)
        sums = check_given_counts("feature_count", table, shape, n_rows, most, one_cell=False)
        return self._features(row_bounds.check_sums(sums, largest_total=1.0), n_columns)

    def _estimate_counts(self, classes, features, total):
        # Class counts serve as the prior for row totals.
        prior = estimate_classes(classes, total)
        # A single column is not released: there may be no table.
        tables = [noisy_table(release, ("row", "category")) for release in features]
        estimates = estimate_counts(tables, row_shares=[prior] * len(tables))
        return prior, [table.counts for table in estimates]

    def _log_likelihood(self, X):
        return safe_sparse_dot(X, self.feature_log_prob_.T)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@shared_docs
class DirichletNB(_NumericNaiveBayes):
    """Private multinomial naive Bayes, a drop-in replacement for `MultinomialNB`.

    Two tables are released: the class counts, and the sums of each feature by class. Entries are
    clipped to `max_count`, and a row with a larger total is scaled down to `max_total`. With
    infinite `epsilon`, the model is identical to that of `MultinomialNB`.

    Parameters
    ----------
    {alpha, fit_prior, class_prior, force_alpha, classes, max_count, max_total, epsilon, delta}
    {order, mechanism, calibration, adjacency, n_samples, max_weight, max_rows, postprocess}
    {accountant, label, random_state}

    Attributes
    ----------
    {classes_, class_count_, class_log_prior_}
    feature_count_ : ndarray of shape (n_classes, n_features)
        Sum of each feature by class: exact if no noise is added, otherwise estimated. Without
        post-processing it is the released probabilities times `class_count_` and `max_total`, which
        is too large if most rows have smaller totals.
    {feature_log_prob_, alpha_, privacy_, n_features_in_, feature_names_in_}

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

    _original = MultinomialNB

    def __init__(
        self,
        alpha: Any = 1.0,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        *,
        force_alpha: bool = True,
        classes: ArrayLike | None = None,
        max_count: float | None = None,
        max_total: float | str | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        mechanism: str = "dirichlet",
        calibration: str = "exact",
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_weight: float | None = None,
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.force_alpha = force_alpha
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
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _set_feature_attributes(self, estimates, extra, private):
        (sums,) = estimates
        self.feature_count_ = sums.counts
        shares = sums.probabilities
        if np.any(extra):
            shares = smoothed_mean(sums.counts, sums.smoothing + extra)
        self.feature_log_prob_ = np.log(shares, out=shares)


@shared_docs
class DirichletComplementNB(_NumericNaiveBayes):
    """Private complement naive Bayes, a drop-in replacement for `ComplementNB`.

    One table is released: the sums of each feature by class, as shares of their total. Entries are
    clipped to `max_count`, and a row with a larger total is scaled down to `max_total`. With
    infinite `epsilon`, the model is identical to that of `ComplementNB`.

    Parameters
    ----------
    {alpha, force_alpha}
    fit_prior : bool, default=True
        As in `ComplementNB`, used only if there is a single class.
    class_prior : array-like of shape (n_classes,), default=None
        As in `ComplementNB`, not used in predictions.
    norm : bool, default=False
        Whether to divide the weights of each class by their sum.
    {classes, max_count, max_total, epsilon, delta, order, mechanism, calibration, adjacency}
    {n_samples, max_weight, max_rows, postprocess, accountant, label, random_state}

    Attributes
    ----------
    {classes_}
    class_count_ : ndarray of shape (n_classes,)
        Number of records of each class without noise. With noise, the public number of
        records times the class prior.
    class_log_prior_ : ndarray of shape (n_classes,)
        Without noise, that of the records. With noise, as given or uniform: predictions do
        not use it, so no budget is spent on it.
    feature_count_ : ndarray of shape (n_classes, n_features)
        Sum of each feature by class: exact if no noise is added, otherwise the released shares
        times the public number of records and `max_total`, which is too large if most rows have
        smaller totals.
    feature_all_ : ndarray of shape (n_features,)
        Sum of `feature_count_` over the classes.
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        Released weights.
    {alpha_, privacy_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletComplementNB
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=5000)
    >>> X = rng.poisson(np.where(y[:, None] == 1, [3, 1, 1], [1, 1, 3]))
    >>> model = DirichletComplementNB(epsilon=1.0, classes=[0, 1], max_count=8, max_total=16)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    >>> model.privacy_.releases
    1
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_NumericNaiveBayes._parameter_constraints,
        "norm": ["boolean"],
    }
    _one_row = True
    _released_attributes: ClassVar[tuple[str, ...]] = (
        *_NumericNaiveBayes._released_attributes,
        "feature_all_",
    )
    _original = ComplementNB

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        norm: bool = False,
        classes: ArrayLike | None = None,
        max_count: float | None = None,
        max_total: float | str | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        mechanism: str = "dirichlet",
        calibration: str = "exact",
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_weight: float | None = None,
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.norm = norm
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
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _known_prior(self, is_private):
        prior = super()._known_prior(is_private)
        if prior is None and is_private:  # it would be charged, and not be used
            prior = np.full(len(self.classes_), 1 / len(self.classes_))
        return prior

    def _estimate_counts(self, classes, features, total):
        (release,) = features
        by_class = release._replace(drawn=release.drawn.reshape(len(self.classes_), -1))
        (estimate,) = estimate_counts([noisy_table(by_class, ("class", "feature"))])
        return None, [estimate.counts.reshape(1, -1)]

    def _set_feature_attributes(self, estimates, extra, private):
        (joint,) = estimates
        shape = (len(self.classes_), self.n_features_in_)
        self.feature_count_ = joint.counts.reshape(shape)
        self.feature_all_ = self.feature_count_.sum(axis=0)
        # A sum of the others, because small shares would be lost in a difference.
        others = (1 - np.eye(len(self.classes_))) @ self.feature_count_
        logged = np.log(smoothed_mean(others, joint.smoothing + extra))
        if self.norm:
            self.feature_log_prob_ = logged / logged.sum(axis=1, keepdims=True)
        else:
            self.feature_log_prob_ = -logged

    def _joint_log_likelihood(self, X):
        scores = self._log_likelihood(X)
        return scores + self.class_log_prior_ if len(self.classes_) == 1 else scores
