"""Bernoulli naive Bayes."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import binarize
from sklearn.utils.extmath import safe_sparse_dot

from .._contributions import RowSums, check_exact
from .._docs import shared_docs
from .._messages import errors_without_data
from .._sklearn_compat import Interval
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.conservative import product_up
from ..postprocessing import estimate_counts
from .base import Table, estimate_classes, noisy_table
from .multinomial import _NumericNaiveBayes

# Privacy cost of the table of filled slots, relative to that of the feature table.
_RELATIVE_FILL_COST = 0.1


@dataclass(frozen=True)
class Occurrences:
    """Number of records with each feature, by class."""

    ones: RowSums
    limit: int | None  # maximum number of features counted per record; None for no limit
    n_columns: int  # public number of features, used to calibrate the noise
    missing: ClassVar[tuple[str, ...]] = ()

    def __add__(self, other: "Occurrences") -> "Occurrences":
        limits = (self.limit, other.limit)
        limit = None if None in limits else max(limits)  # type: ignore[type-var]
        return Occurrences(self.ones + other.ones, limit, self.n_columns)

    def tables(self, counts: Any, n_samples: float, options: Any) -> list[Table]:
        weight, grid = counts.contribution.max_count, self.ones.bound.grid
        ones, n_columns = self.ones.table, self.n_columns
        if self.limit is None:
            # For each class and feature, the numbers of records without and with the feature.
            bound = ContributionBound(weight, product_up(weight, n_columns), grid)
            pairs = np.stack([counts.classes[:, np.newaxis] - ones, ones], axis=-1).reshape(-1, 2)
            n_rows = len(ones) * n_columns
            return [(CountTable(n_samples * n_columns, 2, n_rows, bound, **options), pairs)]
        # How many of the `limit` slots per record are filled, and by which features.
        max_filled, total = product_up(weight, self.limit), n_samples * self.limit
        filled, slots = ones.sum(axis=1), self.limit * counts.classes
        check_exact(slots, grid)
        precision = math.sqrt(_RELATIVE_FILL_COST / self.limit)
        fill_options = {**options, "min_smoothing": 0.0, "precision": precision}
        fill = CountTable(
            total, 2, len(ones), ContributionBound(max_filled, max_filled, grid), **fill_options
        )
        bound = ContributionBound(weight, max_filled, grid)
        shares = CountTable(total, n_columns, len(ones), bound, **options)
        return [(fill, np.stack([slots - filled, filled], axis=-1)), (shares, ones)]


@shared_docs
class DirichletBernoulliNB(_NumericNaiveBayes):
    """Private Bernoulli naive Bayes, a drop-in replacement for `BernoulliNB`.

    A fit releases the class counts and, for every class and feature, the numbers of records with
    and without the feature. Each record contributes to one count per feature. If each record has
    only a few of many features, such as words in a text, `max_total` reduces the noise. A fit
    then releases the share of each feature and how many of the `max_total` slots per record are
    filled. With infinite `epsilon`, the model is identical to that of `BernoulliNB`.

    Parameters
    ----------
    {alpha, force_alpha}
    binarize : float or None, default=0.0
        A feature is present if its value is above this threshold. If None, values in [0, 1] are
        used unchanged, and larger ones are clipped to 1.
    {fit_prior, class_prior, classes}
    max_total : int, default=None
        Public maximum number of features that are counted per record. If a record has more, each
        counts proportionally less. If None, all features are counted. A bound is useful only if it
        is much smaller than the number of features.
    {epsilon, delta, order, mechanism, calibration, adjacency, n_samples, max_weight, max_rows}
    {postprocess, accountant, label, random_state}

    Attributes
    ----------
    {classes_, class_count_, class_log_prior_}
    feature_count_ : ndarray of shape (n_classes, n_features)
        Number of records with each feature by class: exact if no noise is added, otherwise the
        released probabilities times `class_count_`.
    {feature_log_prob_, alpha_, privacy_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletBernoulliNB
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=5000)
    >>> X = rng.random((5000, 3)) < np.where(y[:, None] == 1, [0.8, 0.5, 0.2], [0.2, 0.5, 0.8])
    >>> model = DirichletBernoulliNB(epsilon=1.0, classes=[0, 1]).fit(X, y)
    >>> bool(model.score(X, y) > 0.75)
    True
    >>> model.privacy_.releases
    2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_NumericNaiveBayes._parameter_constraints,
        "binarize": [None, Interval(Real, None, None, closed="neither")],
        "max_total": [None, Interval(Integral, 1, None, closed="left")],
    }
    _parameter_constraints.pop("max_count")

    _row_parameters = ()
    _original = BernoulliNB
    _counts_records = True

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        max_total: int | None = None,
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
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.classes = classes
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

    def _prepare(self, X):
        if self.binarize is None:
            return X
        with errors_without_data(X=X):
            return binarize(X, threshold=self.binarize)

    def _limit(self, n_columns: int) -> int | None:
        """Return the maximum number of features counted per record, or None for no limit."""
        given = self._public("max_total")
        return None if given is None or given >= n_columns else int(given)

    def _row_bounds(self, n_columns, exact):
        limit = self._limit(n_columns)
        return 1.0, float(n_columns if limit is None else limit)

    def _features(self, sums, n_columns):
        return Occurrences(sums, self._limit(n_columns), n_columns)

    def _check_given_features(self, table, classes, n_rows, weights):
        features = super()._check_given_features(table, classes, n_rows, weights)
        if np.any(features.ones.table > classes[:, np.newaxis]):
            raise ValueError(
                "feature_count must be at most class_count in each class, because each record "
                "counts at most once per feature; some counts are larger"
            )
        return features

    def _estimate_counts(self, classes, features, total):
        if len(features) == 2:  # filled slots given the class, and features given the filled slots
            axes = ("row", "category")
            fill, table = (noisy_table(release, axes) for release in features)
            prior = estimate_classes(classes, total)
            (slots,) = estimate_counts([fill], row_shares=[prior])
            (shares,) = estimate_counts([table], row_shares=[slots.counts[:, 1]])
            return prior, [slots.counts, shares.counts]
        # Each feature has its own table, and the row sums of every table are the class counts.
        (release,) = features
        drawn = release.drawn.reshape(len(self.classes_), -1, 2)
        tables = [] if classes is None else [noisy_table(classes, ("class",))]
        tables += [
            noisy_table(release._replace(drawn=drawn[:, feature]), ("class", feature))
            for feature in range(drawn.shape[1])
        ]
        estimates = estimate_counts(tables, total)
        prior = None if classes is None else estimates.pop(0).counts
        return prior, [np.stack([each.counts for each in estimates], axis=1).reshape(-1, 2)]

    def _set_feature_attributes(self, estimates, extra, private):
        *fill, features = estimates
        shape = (len(self.classes_), self.n_features_in_)
        records = self.class_count_[:, np.newaxis]
        if not fill:
            counts = features.counts[:, 1].reshape(shape)
            if private:  # the share of the records with the feature
                counts = records * counts / features.counts.sum(axis=1).reshape(shape)
        elif private:
            # Share of filled slots in a class, times the share of the feature.
            slots = fill[0].counts.sum() / self.class_count_.sum()
            filled = slots * fill[0].probabilities[:, 1:]
            shares = features.counts / features.counts.sum(axis=1, keepdims=True)
            counts = records * np.minimum(filled * shares, 1 - 1 / (2 + records))
        else:
            counts = features.counts
        smoothing = features.smoothing + extra
        self.feature_count_ = counts
        self.feature_log_prob_ = np.log(counts + smoothing) - np.log(records + 2 * smoothing)

    def _log_likelihood(self, X):
        absent = np.log1p(-np.exp(self.feature_log_prob_))
        scores = safe_sparse_dot(X, (self.feature_log_prob_ - absent).T)
        return scores + absent.sum(axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.binarize is None
        return tags
