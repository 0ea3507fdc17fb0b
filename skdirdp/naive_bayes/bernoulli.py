"""Bernoulli naive Bayes."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import binarize as above
from sklearn.utils.extmath import safe_sparse_dot

from .._contributions import RowSums, check_exact, count_cells, sum_rows
from .._messages import errors_without_data
from .._sklearn_compat import Interval
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.conservative import product_up
from ..postprocessing import NoisyTable, estimate_counts
from .numeric import _NumericNaiveBayes
from .tally import read_classes

# What the table of full and empty places costs beside that of the features, in squares.
_PART_OF_FILL = 0.1


@dataclass(frozen=True)
class Occurrences:
    """In how many records each feature occurs, by class.

    Attributes
    ----------
    ones : RowSums
    classes : ndarray of shape (n_classes,), the weight of each class.
    contribution : what a record adds to `classes` at most.
    limit : how many features of a record are counted; None if all.
    n_columns : the number of features that noise is chosen for.
    """

    ones: RowSums
    classes: np.ndarray
    contribution: ContributionBound
    limit: int | None
    n_columns: int

    @property
    def missing(self) -> tuple[str, ...]:
        return ()

    def __add__(self, other: "Occurrences") -> "Occurrences":
        limits = (self.limit, other.limit)
        return Occurrences(
            self.ones + other.ones,
            self.classes + other.classes,
            self.contribution | other.contribution,
            None if None in limits else max(limits),  # type: ignore[type-var]
            self.n_columns,
        )

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        if self.limit is None:
            return self._pairs(n_samples, alpha)
        return self._shares(n_samples, alpha, self.limit)

    def _pairs(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        """For each class and feature, the records without it and with it."""
        ones = self.ones.table
        pairs = np.stack([self.classes[:, np.newaxis] - ones, ones], axis=-1).reshape(-1, 2)
        weight, n_columns = self.contribution.max_count, self.n_columns
        bound = ContributionBound(weight, product_up(weight, n_columns), self.ones.bound.grid)
        n_rows = len(ones) * n_columns
        table = CountTable(n_samples * n_columns, 2, n_rows, bound, min_smoothing=alpha)
        return [(table, pairs)]

    def _shares(
        self, n_samples: float, alpha: float, limit: int
    ) -> list[tuple[CountTable, np.ndarray]]:
        """How full the records of a class are, of `limit` places each; and with what."""
        ones, weight = self.ones.table, self.contribution.max_count
        full, places = ones.sum(axis=1), limit * self.classes
        most, total, grid = product_up(weight, limit), n_samples * limit, self.ones.bound.grid
        fill = CountTable(
            total,
            2,
            len(ones),
            ContributionBound(most, most, grid),
            precision=math.sqrt(_PART_OF_FILL / limit),
            min_smoothing=0.0,
        )
        check_exact(places, grid)
        bound = ContributionBound(weight, most, grid)
        shares = CountTable(total, self.n_columns, len(ones), bound, min_smoothing=alpha)
        return [(fill, np.stack([places - full, full], axis=-1)), (shares, ones)]


class DirichletBernoulliNB(_NumericNaiveBayes):
    """Private naive Bayes for features that occur or not; drops in for `BernoulliNB`.

    The class counts are released and, for every class and feature, how many records have
    the feature and how many have not: a record moves one count for every feature. Where
    records have few of many features, as texts have words, `max_total` makes that cheaper:
    then shares of the features are released, and how many of `max_total` places are taken.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        The smoothing, in counts, of all features or of each. Releases that are taken as drawn
        may need more: see `alpha_`.
    force_alpha : bool, default=True
        Whether an `alpha` below 1e-10 is taken as it is; else it is raised to that, with a
        warning.
    binarize : float or None, default=0.0
        A feature occurs where its value is above this. None takes values in [0, 1] as they
        are, and larger ones as 1.
    fit_prior : bool, default=True
        Whether to learn class priors; if not, they are uniform.
    class_prior : array-like of shape (n_classes,), default=None
        Class priors, if they are known; they are not learnt then. In the order of
        `classes_`, which is sorted; `classes`, where given too, must be sorted as well.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur. Public: a label's presence is not protected.
    max_total : int, default=None
        How many features of a record are counted; of one that has more, each counts as much
        less. None counts all. Public; of use only where it is far below their number.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `BernoulliNB`.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private. Laplace noise takes 0.
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
        that is larger, with a warning. Without weights a record counts 1, and so does
        the bound if it is smaller.
    max_rows : int, default=1
        A public bound on the records of one person, who is then protected with all of them.
        Given `groups`, `fit` counts no more; otherwise it is a declaration.
    postprocess : bool, default=True
        Whether the noisy counts are post-processed, at no privacy cost: estimates borrow strength
        from similar rows and shared margins. False uses each cell as drawn. The noise is
        calibrated for the choice.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The number of records of each class: exact at infinite epsilon, else the released
        prior times the public number of records.
    class_log_prior_ : ndarray of shape (n_classes,)
        Released.
    feature_count_ : ndarray of shape (n_classes, n_features)
        The number of records with each feature by class: exact at infinite epsilon, else the
        released probabilities times `class_count_`.
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        Released.
    alpha_ : float or ndarray
        The smoothing, in counts: `alpha`, or what the budget needs where releases are taken as
        drawn (`postprocess=False`).
    privacy_ : PrivacyReport
        What was guaranteed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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
        alpha=1.0,
        force_alpha=True,
        binarize=0.0,
        fit_prior=True,
        class_prior=None,
        classes=None,
        max_total=None,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="dirichlet",
        calibration="exact",
        adjacency="replace",
        n_samples=None,
        max_weight=None,
        max_rows=1,
        postprocess=True,
        accountant=None,
        label=None,
        random_state=None,
    ):
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
            return above(X, threshold=self.binarize)

    def _count(self, X, codes, weights):
        n_classes = len(self.classes_)
        n_columns = self._declared_columns(X.shape[1])
        limit, total = self._limit(n_columns)
        return Occurrences(
            sum_rows(X, codes, n_classes, weights, 1.0, total, n_columns),
            count_cells(codes, n_classes, weights),
            ContributionBound(weights.bound),
            limit,
            n_columns,
        )

    def _count_frame(self, frame):
        n_columns = self.n_features_in_
        limit, total = self._limit(n_columns)
        labels = frame.group([frame.label], len(self.classes_), self._codes_of_labels)
        return Occurrences(
            self._sum_frame(frame, 1.0, total, self.binarize),
            count_cells(labels.codes, len(self.classes_), labels.weights),
            ContributionBound(labels.weights.bound),
            limit,
            n_columns,
        )

    def _admit(self, table, classes, n_rows, weights):
        n_columns = self._columns_of(table)
        limit, total = self._limit(n_columns)
        ones = self._admit_sums(table, n_rows, weights, 1.0, total)
        if np.any(ones.table > classes[:, np.newaxis]):
            raise ValueError(
                "feature_count must be at most class_count in each class, of whose records it "
                "counts those with a feature; some are not"
            )
        return Occurrences(ones, classes, ContributionBound(weights.bound), limit, n_columns)

    def _limit(self, n_columns: int) -> tuple[int | None, float]:
        """How many features of a record are counted, None if all, and as a bound."""
        given = self._public("max_total")
        limit = None if given is None or given >= n_columns else int(given)
        return limit, float(n_columns if limit is None else limit)

    def _read(self, classes, features, total):
        *fill, table = features
        if fill:
            return self._read_shares(classes, fill[0], table, total)
        # The records with a feature and without it are a table of their own, and all of these
        # hold the class counts.
        counts = table.counts.reshape(len(self.classes_), -1, 2)
        pairs = [
            NoisyTable(counts[:, feature], table.noise, ("class", feature))
            for feature in range(counts.shape[1])
        ]
        tables = ([] if classes is None else [classes]) + pairs
        read = estimate_counts(tables, total)
        prior = None if classes is None else read.pop(0).counts
        return prior, [np.stack([each.counts for each in read], axis=1).reshape(-1, 2)]

    def _read_shares(self, classes, fill, table, total):
        """Of the records, how full they are; of what fills them, which features."""
        prior = read_classes(classes, total)
        (places,) = estimate_counts([fill], row_shares=[prior])
        (shares,) = estimate_counts([table], row_shares=[places.counts[:, 1]])
        return prior, [places.counts, shares.counts]

    def _keep(self, estimates, extra):
        *fill, features = estimates
        shape = (len(self.classes_), self.n_features_in_)
        records = self.class_count_[:, np.newaxis]
        if not fill:
            counts = features.counts[:, 1].reshape(shape)
            if self._is_private:  # of those with the feature and without it
                counts = records * counts / features.counts.sum(axis=1).reshape(shape)
        elif self._is_private:
            # Of the places of a class, those that are taken, and of these, the feature's.
            places = fill[0].counts.sum() / self.class_count_.sum()
            taken = places * fill[0].probabilities[:, 1:]
            shares = features.counts / features.counts.sum(axis=1, keepdims=True)
            counts = records * np.minimum(taken * shares, 1 - 1 / (2 + records))
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
