"""Naive Bayes models of numbers, dense or sparse, that are summed by class."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_non_negative

from .._contributions import RowBounds, RowSums, check_given_counts, sum_rows
from .._messages import errors_without_data
from .._sklearn_compat import Interval, StrOptions, validate_records
from .._validation import LARGEST, MOST_SUMS, check_cells, largest_count
from ..mechanisms.tables import CountTable
from ..postprocessing import estimate_counts
from .base import _PrivateNaiveBayes
from .tally import read_classes


def default_total(max_count: float, n_columns: int) -> float:
    """A bound on the total of rows, from public sizes alone.

    The geometric mean of the least and the largest total that a row with something in it is
    taken to have, `max_count` once and in every column. Whatever the true total is, the signal
    over the noise is at least ``n_columns ** -0.25`` of the best, and no other bound promises
    as much (docs/theory.md, section 15).
    """
    # A whole multiple of max_count is faster to calibrate.
    return max_count * math.ceil(math.sqrt(n_columns))


@dataclass(frozen=True)
class FeatureSums:
    """Sums of the features by class, as one table with a row for each class.

    `n_columns` is the number of features that noise is chosen for: that of the table, or one
    that was declared of it.
    """

    sums: RowSums
    n_columns: int

    @property
    def missing(self) -> tuple[str, ...]:
        return self.sums.missing

    def __add__(self, other: Any) -> Any:
        return type(self)(self.sums + other.sums, self.n_columns)

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        counts, bound = self.sums.table, self.sums.bound
        assert bound.max_total is not None
        total = n_samples * bound.max_total
        table = CountTable(total, self.n_columns, len(counts), bound, min_smoothing=alpha)
        return [(table, counts)]


class _NumericNaiveBayes(_PrivateNaiveBayes):
    """A naive Bayes model of non-negative numbers, each row within public bounds."""

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
    #: Public bounds of rows, without which a table elsewhere is not counted.
    _row_parameters: ClassVar[tuple[str, ...]] = ("max_count", "max_total")
    _counts_records = False
    #: How the sums become tables.
    _sums: ClassVar[type[FeatureSums]] = FeatureSums

    max_count: float | None
    max_total: float | str | None

    def _validate(self, X, y="no_validation", *, reset):
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
                raise TypeError(f"X must hold numbers; got dtype {X.dtype.name}")
            # Only where one look at all entries does not find them to be counts.
            if is_unclear := math.isnan(largest_count(X.data if sparse.issparse(X) else X)):
                assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        X = self._prepare(X)
        # Counts must not be negative; a prediction, as in scikit-learn, need not look.
        if labels and is_unclear:
            self._check_non_negative(X)
        return (X, *labels) if labels else X

    def _prepare(self, X: Any) -> Any:
        """What is counted of validated X, or scored."""
        return X

    def _check_size(self, n_columns):
        n_cells = n_columns * len(self.classes_)
        is_public = self.classes is not None
        check_cells("the columns of X and classes", n_cells, MOST_SUMS, is_public=is_public)

    def _check_non_negative(self, X: Any) -> None:
        try:
            check_non_negative(X, f"{type(self).__name__} (input X)")
        except ValueError as error:
            raise ValueError(
                f"{str(error).rstrip('.')}. Where they come from a HashingVectorizer, it takes "
                "alternate_sign=False: signs are drawn for features that are not counts"
            ) from None

    def _count(self, X, codes, weights):
        n_columns = self._declared_columns(X.shape[1])
        bounds = self._row_bounds(n_columns)
        sums = sum_rows(X, codes, len(self.classes_), weights, *bounds, n_columns)
        return self._sums(sums, n_columns)

    def _undeclared(self, weighted):
        missing = super()._undeclared(weighted)
        if self._is_private:
            missing += [name for name in self._row_parameters if getattr(self, name) is None]
        return missing

    def _count_frame(self, frame):
        n_columns = self.n_features_in_
        return self._sums(self._sum_frame(frame, *self._row_bounds(n_columns)), n_columns)

    def _sum_frame(self, frame: Any, max_count, max_total, threshold=None) -> RowSums:
        """Sums of the rows of a frame by class, held to the bounds in its engine."""
        n_columns = self.n_features_in_

        def rule(weights, largest):
            return RowBounds.from_limits(weights, n_columns, max_count, max_total, largest)

        def check(made_up):
            self._checked(made_up, np.resize(self.classes_, len(made_up)))

        return frame.sum_rows(
            frame.numbers(threshold),
            rule,
            check,
            len(self.classes_),
            lambda labels: self._codes_of_labels(labels.to_frame()),
        )

    def _admit(self, table, classes, n_rows, weights):
        n_columns = self._columns_of(table)
        sums = self._admit_sums(table, n_rows, weights, *self._row_bounds(n_columns))
        return self._sums(sums, n_columns)

    def _columns_of(self, table: Any) -> int:
        """The number of features of a table of counts, whose names are kept."""
        if np.ndim(table) != 2:
            raise ValueError("feature_count must be of shape (n_classes, n_features)")
        n_columns = np.shape(table)[1]
        self._name_features(getattr(table, "columns", None), n_columns)
        return n_columns

    def _admit_sums(self, table: Any, n_rows: int, weights, max_count, max_total) -> RowSums:
        """Sums that were made elsewhere, of rows that are declared to keep to the bounds."""
        n_columns = self.n_features_in_
        # Without noise no bound is of interest.
        rule = RowBounds.from_limits(weights, n_columns, max_count, max_total, largest=1.0)
        most = LARGEST if weights.exact else rule.total_bound
        shape = (len(self.classes_), n_columns)
        sums = check_given_counts("feature_count", table, shape, n_rows, most, one_cell=False)
        return rule.check_sums(sums, largest_total=1.0)

    def _read(self, classes, features, total):
        # Classes hold about as many words as records: what is known of those tells of these.
        prior = read_classes(classes, total)
        # A single column is not released, and leaves nothing to read.
        read = estimate_counts(features, row_shares=[prior] * len(features))
        return prior, [table.counts for table in read]

    def _row_bounds(self, n_columns: int) -> tuple[float | None, float | None]:
        """The public bounds on entries and totals of rows; None where there is none."""
        max_count, max_total = self._public("max_count"), self._public("max_total")
        if max_total != "auto":
            return max_count, max_total
        if max_count is None and self._is_private:
            raise ValueError("max_count must be given where max_total is 'auto'; got None")
        known = self._declared("max_total")
        return max_count, known or default_total(max_count or 1.0, n_columns)

    def _log_likelihood(self, X):
        return safe_sparse_dot(X, self.feature_log_prob_.T)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
