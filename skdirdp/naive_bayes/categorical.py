"""Categorical naive Bayes."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.naive_bayes import CategoricalNB
from sklearn.utils.validation import check_is_fitted, check_non_negative

from .._contributions import Weights, check_given_counts, count_categories
from .._docs import shared_docs
from .._sklearn_compat import Interval, StrOptions, validate_records
from .._validation import by_column, check_cells, check_sizes
from ..base import NoisyTablesMixin, Release
from ..mechanisms.tables import CountTable
from ..numerics.rows import row_blocks
from ..postprocessing import estimate_counts
from .base import Table, _PrivateNaiveBayes, noisy_table

# Records are scored in blocks of about this many entries, which fit into the cache.
_BLOCK_ENTRIES = 1 << 19
# Larger numbers in X are probably not category codes, and must be declared by n_categories.
_LARGEST_OBSERVED = 1_000_000


@dataclass(frozen=True)
class CategoryCounts:
    """Counts of the categories of each feature, by class."""

    counts: list[np.ndarray]  # shape (n_classes, n_categories of the feature)
    missing: tuple[str, ...]

    def __add__(self, other: "CategoryCounts") -> "CategoryCounts":
        pairs = zip(self.counts, other.counts, strict=True)
        return CategoryCounts([_add_padded(a, b) for a, b in pairs], self.missing)

    def tables(self, counts: Any, n_samples: float, options: Any) -> list[Table]:
        # Features with equally many categories share one description.
        described = {
            shape: CountTable(n_samples, shape[1], shape[0], counts.contribution, **options)
            for shape in {cells.shape for cells in self.counts}
        }
        return [(described[cells.shape], cells) for cells in self.counts]


def _add_padded(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the sum of two tables, one of which may have more categories (columns)."""
    total = np.zeros((len(a), max(a.shape[1], b.shape[1])))
    for counts in (a, b):
        total[:, : counts.shape[1]] += counts
    return total


def _check_categories(largest: np.ndarray, sizes: np.ndarray, first: int = 0) -> None:
    for feature in np.flatnonzero(largest >= sizes)[:1]:
        raise ValueError(
            f"X must contain categories below n_categories, {sizes[feature]} for feature "
            f"{first + feature}; some are not"
        )


@shared_docs
class DirichletCategoricalNB(NoisyTablesMixin, _PrivateNaiveBayes):
    """Private categorical naive Bayes, a drop-in replacement for `CategoricalNB`.

    A fit releases a table of the class counts and, for each feature, a table of its categories by
    class. A record changes one count in each table. With infinite `epsilon`, the model is identical
    to that of `CategoricalNB`.

    Parameters
    ----------
    alpha : float, default=1.0
        Additive smoothing, in counts. Without post-processing, the budget may require more
        smoothing; see `alpha_`.
    {fit_prior, class_prior, force_alpha, classes}
    n_categories : int, array-like of shape (n_features,) or dict, default=None
        Public number of categories of all features, or of each, in order or by name.
        Categories are integers from 0. All tables together may have 10 million cells, one for
        each category and class. Other numbers in X are truncated towards zero, as in
        `CategoricalNB`.
    min_categories : int or array-like of shape (n_features,), default=None
        Minimum number of categories of all features, or of each; `n_categories` is raised to
        it. Without `n_categories`, numbers are still taken from the data.
    handle_unknown : {"error", "ignore"}, default="error"
        Whether a prediction raises an error for a category beyond `n_categories`, or ignores
        that feature of the record.
    {epsilon, delta, order, mechanism, calibration, adjacency, n_samples, max_weight, max_rows}
    {postprocess, accountant, label, random_state}

    Attributes
    ----------
    {classes_}
    n_categories_ : ndarray of shape (n_features,)
        Number of categories of each feature.
    {class_count_, class_log_prior_}
    category_count_ : list of ndarray of shape (n_classes, n_categories of the feature)
        Number of records by class and category: exact if no noise is added, otherwise the released
        probabilities times `class_count_`.
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories of the feature)
        Released log probability of each category given a class.
    {alpha_, privacy_, n_features_in_, feature_names_in_}

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
        "n_categories": [None, "array-like", dict, Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "min_categories": [None, "array-like", Interval(Integral, 1, None, closed="left")],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }
    _released_attributes: ClassVar[tuple[str, ...]] = (
        *_PrivateNaiveBayes._released_attributes,
        "category_count_",
        "n_categories_",
    )

    _feature_table = "category_count"
    _original = CategoricalNB

    def __init__(
        self,
        alpha: Any = 1.0,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        *,
        force_alpha: bool = True,
        classes: ArrayLike | None = None,
        n_categories: Any = None,
        min_categories: ArrayLike | None = None,
        handle_unknown: str = "error",
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
        self.n_categories = n_categories
        self.min_categories = min_categories
        self.handle_unknown = handle_unknown
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

    def _validate(self, X, y="no_validation", *, reset):
        checked = validate_records(
            self, X, y, reset=reset, unchecked_dtypes=[int], dtype="int", ensure_all_finite=True
        )
        features = checked if isinstance(y, str) and y == "no_validation" else checked[0]
        check_non_negative(features, f"{type(self).__name__} (input X)")
        return checked

    def _count_features(self, X, codes, weights: Weights) -> CategoryCounts:
        # A batch may have no record to count, because the people in it may have reached max_rows.
        largest = X.max(axis=0, initial=0)
        sizes = self._sizes(X.shape[1], largest)
        _check_categories(largest, sizes)
        counts = count_categories(X, sizes, codes, len(self.classes_), weights)
        is_declared = self._public("n_categories") is not None
        return CategoryCounts(counts, () if is_declared else ("n_categories",))

    def _undeclared(self, weighted):
        missing = [] if self.n_categories is not None else ["n_categories"]
        return super()._undeclared(weighted) + missing

    def _count_features_of_frame(self, frame):
        n_classes = len(self.classes_)
        sizes = self._sizes(self.n_features_in_)
        counts = []
        for feature, name in enumerate(frame.with_progress(frame.names)):
            size = sizes[feature : feature + 1]

            def encode(records, feature=feature, size=size):
                X, codes = self._validate_some(records.iloc[:, :1], records.iloc[:, 1])
                _check_categories(X.max(axis=0), size, feature)
                return X, codes

            found = frame.group([name, frame.label], int(size[0]) * n_classes, encode)
            X, codes = found.codes
            counts += count_categories(X, size, codes, n_classes, found.weights)
        return CategoryCounts(counts, ())

    def _check_given_features(self, table, classes, n_rows, weights):
        is_named = isinstance(table, Mapping)
        tables = list(table.values() if is_named else table)
        self._set_feature_names(list(table) if is_named else range(len(tables)))
        sizes = self._sizes(len(tables))
        counts = []
        for feature, (given, size) in enumerate(zip(tables, sizes.tolist(), strict=True)):
            name, shape = f"category_count of feature {feature}", (len(classes), size)
            counts.append(check_given_counts(name, given, shape, n_rows, weights.bound))
            if not np.array_equal(counts[-1].sum(axis=1), classes):
                raise ValueError(
                    f"{name} must add up to class_count in each class, because each record has one "
                    "category; it does not"
                )
        return CategoryCounts(counts, ())

    def _sizes(self, n_features: int, largest: np.ndarray | None = None) -> np.ndarray:
        """Return the number of categories of each feature: as declared, or as observed."""
        n_categories = self._public("n_categories")
        if n_categories is None:
            assert largest is not None
            if np.any(largest >= _LARGEST_OBSERVED):
                raise ValueError(
                    f"n_categories must be given if X contains categories of {_LARGEST_OBSERVED} "
                    "or more; some are"
                )
            sizes = largest + 1
        else:
            names = getattr(self, "feature_names_in_", None)
            n_categories = by_column("n_categories", n_categories, names, n_features)
            if np.ndim(n_categories) == 1 and any(size is None for size in n_categories):
                raise ValueError("n_categories must be given for every feature; some have none")
            sizes = check_sizes("n_categories", n_categories, n_features, at_least=1)
        if self.min_categories is not None:
            if np.shape(self.min_categories) not in ((), (n_features,)):
                raise ValueError(
                    f"'min_categories' should have shape ({n_features},) when an array-like is "
                    f"provided. Got {np.shape(self.min_categories)} instead."
                )
            least = check_sizes("min_categories", self.min_categories, n_features, at_least=1)
            sizes = np.maximum(sizes, least)
        is_public = self.n_categories is not None and self.classes is not None
        n_cells = int(sizes.sum()) * len(self.classes_)
        check_cells("n_categories and classes", n_cells, is_public=is_public)
        return sizes

    def _postprocess(self, plan, classes, features):
        releases: dict[Hashable, Release] = dict(enumerate(features))
        if classes is not None:
            releases = {"class": classes, **releases}
        public = plan.n_records is not None
        n_records = float(plan.counts.rows.n_rows) if public else None
        self._keep_noisy_tables({} if plan.counts.weighted else releases, n_records)
        return super()._postprocess(plan, classes, features)

    def noisy_tables(self):
        """Return the released tables with their noise, for `skdirdp.inference`.

        Returns
        -------
        dict of NoisyTable
            The class counts as "class", and a table of classes by categories for the number of
            each feature.

        Examples
        --------
        >>> import numpy as np
        >>> from skdirdp import DirichletCategoricalNB
        >>> from skdirdp.inference import share
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(2, size=5000)
        >>> X = np.column_stack([y ^ (rng.random(5000) < 0.2), rng.integers(4, size=5000)])
        >>> model = DirichletCategoricalNB(epsilon=1.0, classes=[0, 1], n_categories=[2, 4])
        >>> tables = model.fit(X, y).noisy_tables()
        >>> prior = share(tables["class"])
        >>> bool((prior.low < prior.high).all())
        True
        >>> share(tables[1], axis=0).value.shape  # each category, given the class
        (2, 4)
        """
        check_is_fitted(self)
        self.release()
        return super().noisy_tables()

    def _estimate_counts(self, classes, features, total):
        # The row sums of each table are the class counts.
        tables = [] if classes is None else [noisy_table(classes, ("class",))]
        tables += [noisy_table(release, ("class", k)) for k, release in enumerate(features)]
        estimates = estimate_counts(tables, total)
        prior = None if classes is None else estimates.pop(0).counts
        self._estimates_ = estimates
        return prior, [table.counts for table in estimates]

    def _set_feature_attributes(self, estimates, extra, private):
        self.category_count_ = [table.counts for table in estimates]
        self.feature_log_prob_ = [np.log(table.probabilities) for table in estimates]
        self.n_categories_ = np.array([table.counts.shape[1] for table in estimates])

    def probability_limits(self, confidence: float = 0.95) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return confidence limits for the shares of the counted records.

        Each pair of limits holds with at least this probability for any data, independently of
        the post-processing. The limits account for the noise, and not for the sampling of the
        records from a population.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Probability of each pair of limits.

        Returns
        -------
        list of (lower, upper)
            Two ndarrays of shape (n_classes, n_categories of the feature) each.
        """
        check_is_fitted(self)
        self.release()
        if "_estimates_" not in vars(self):
            raise ValueError(
                "probability_limits needs post-processed counts: set postprocess=True and a "
                "finite epsilon"
            )
        estimates = iter(self._estimates_)
        sure = np.ones((len(self.classes_), 1))
        return [
            next(estimates).limits(confidence) if size > 1 else (sure, sure)
            for size in self.n_categories_
        ]

    def _log_likelihood(self, X):
        sizes = self.n_categories_
        unknown = X.max(axis=0) >= sizes
        if unknown.any() and self.handle_unknown == "error":
            raise ValueError(
                f"X must contain categories below {sizes[np.argmax(unknown)]} for feature "
                f"{int(np.argmax(unknown))}, as in fit; handle_unknown='ignore' leaves others out"
            )
        starts = np.concatenate([[0], np.cumsum(sizes)])
        # One row for each category of each feature, and a row of zeros for unknown ones.
        table = np.vstack([log_prob.T for log_prob in self.feature_log_prob_])
        table = np.vstack([table, np.zeros(table.shape[1])])
        scores = np.empty((X.shape[0], table.shape[1]))
        for block in row_blocks(len(X), len(sizes), _BLOCK_ENTRIES):
            cells = X[block] + starts[:-1]
            if unknown.any():
                cells[X[block] >= sizes] = starts[-1]
            # A sparse product adds the rows of the table without copying them.
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
