"""Categorical naive Bayes."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.naive_bayes import CategoricalNB
from sklearn.utils.validation import check_is_fitted, check_non_negative

from .._contributions import Weights, check_given_counts, count_categories
from .._sklearn_compat import Interval, StrOptions, validate_records
from .._validation import by_column, check_cells, check_sizes
from ..mechanisms.tables import ContributionBound, CountTable
from ..numerics.rows import row_blocks
from ..postprocessing import NoisyTable, estimate_counts
from .base import _PrivateNaiveBayes

# Records are scored in blocks of about this many entries, which stay in cache.
_BLOCK_ENTRIES = 1 << 19
# Categories beyond this are no small integers, and a table of so many would not be meant.
_LARGEST_OBSERVED = 1_000_000


@dataclass(frozen=True)
class CategoryCounts:
    """Counts of the categories of each feature, by class."""

    counts: list[np.ndarray]  # of shape (n_classes, n_categories of the feature)
    contribution: ContributionBound
    missing: tuple[str, ...]

    def __add__(self, other: "CategoryCounts") -> "CategoryCounts":
        return CategoryCounts(
            [_add_padded(a, b) for a, b in zip(self.counts, other.counts, strict=True)],
            self.contribution | other.contribution,
            tuple(dict.fromkeys((*self.missing, *other.missing))),
        )

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        # Features with equally many categories have the same description.
        described = {
            shape: CountTable(n_samples, shape[1], shape[0], self.contribution, min_smoothing=alpha)
            for shape in {counts.shape for counts in self.counts}
        }
        return [(described[counts.shape], counts) for counts in self.counts]


def _add_padded(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum of two tables, of which one may know more categories (columns)."""
    total = np.zeros((len(a), max(a.shape[1], b.shape[1])))
    for counts in (a, b):
        total[:, : counts.shape[1]] += counts
    return total


class DirichletCategoricalNB(_PrivateNaiveBayes):
    """Private naive Bayes for categorical features; drops in for `CategoricalNB`.

    One table is released for the class counts, and one per feature with the counts
    of its categories by class. A record moves one count in each.

    Parameters
    ----------
    alpha : float, default=1.0
        The smoothing, in counts. Releases that are taken as drawn may need more: see `alpha_`.
    fit_prior : bool, default=True
        Whether to learn class priors; if not, they are uniform.
    class_prior : array-like of shape (n_classes,), default=None
        Class priors, if they are known; they are not learnt then. In the order of
        `classes_`, which is sorted; `classes`, where given too, must be sorted as well.
    force_alpha : bool, default=True
        Whether an `alpha` below 1e-10 is taken as it is; else it is raised to that, with a
        warning.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur. Public: a label's presence is not protected.
    n_categories : int, array-like of shape (n_features,) or dict, default=None
        The number of categories of all features, or of each, in order or by name;
        categories are integers from 0. Public. All tables together may have 10 million cells,
        one for each category and class. Other numbers in X are cut towards zero, 1.7
        to 1, as `CategoricalNB` does; each by itself, so that the guarantee holds.
    min_categories : int or array-like of shape (n_features,), default=None
        The least number of categories of all features, or of each; `n_categories` is raised
        to it. Without `n_categories` it does not keep the number from being taken from the
        data, which may hold more.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do in a prediction with a category beyond `n_categories`: refuse, or
        leave that feature out of the record's score.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `CategoricalNB`.
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
    n_categories_ : ndarray of shape (n_features,)
    class_count_ : ndarray of shape (n_classes,)
        The number of records of each class: exact at infinite epsilon, else the released
        prior times the public number of records.
    class_log_prior_ : ndarray of shape (n_classes,)
        Released.
    category_count_ : list of ndarray of shape (n_classes, n_categories of the feature)
        The number of records by class and category: exact at infinite epsilon, else the
        released probabilities times `class_count_`.
    feature_log_prob_ : list of ndarray of shape (n_classes, n_categories of the feature)
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
        alpha=1.0,
        fit_prior=True,
        class_prior=None,
        *,
        force_alpha=True,
        classes=None,
        n_categories=None,
        min_categories=None,
        handle_unknown="error",
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
        self.fit_prior = fit_prior
        self.class_prior = class_prior
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

    def _count(self, X, codes, weights: Weights) -> CategoryCounts:
        # All records of a batch may be of persons who have had theirs counted.
        largest = X.max(axis=0, initial=0)
        least = self._least_sizes(X.shape[1])
        sizes = self._public_sizes(X.shape[1])
        missing = () if sizes is not None else ("n_categories",)
        if sizes is None:
            if np.any(largest >= _LARGEST_OBSERVED):
                raise ValueError(
                    f"n_categories must be given where X holds categories of {_LARGEST_OBSERVED} "
                    "or more; some are"
                )
            sizes = largest + 1
        sizes = self._check_cells(np.maximum(sizes, least))
        for feature in np.flatnonzero(largest >= sizes)[:1]:
            raise self._beyond(sizes[feature], feature)
        counts = count_categories(X, sizes, codes, len(self.classes_), weights)
        return CategoryCounts(counts, ContributionBound(weights.bound), missing)

    @staticmethod
    def _beyond(size: int, feature: int) -> ValueError:
        return ValueError(
            f"X must hold categories below n_categories, {size} for feature {feature}; some are not"
        )

    def _undeclared(self, weighted):
        missing = [] if self.n_categories is not None else ["n_categories"]
        return super()._undeclared(weighted) + missing

    def _count_frame(self, frame):
        n_classes = len(self.classes_)
        sizes = self._declared_sizes(self.n_features_in_)
        counts = []
        for feature, name in enumerate(frame.shown(frame.names)):
            size = sizes[feature : feature + 1]

            def encode(records, feature=feature, size=size):
                X, codes = self._checked(records.iloc[:, :1], records.iloc[:, 1])
                if X.max() >= size[0]:
                    raise self._beyond(size[0], feature)
                return X, codes

            found = frame.group([name, frame.label], int(size[0]) * n_classes, encode)
            X, codes = found.codes
            counts += count_categories(X, size, codes, n_classes, found.weights)
        return CategoryCounts(counts, ContributionBound(found.weights.bound), ())

    def _admit(self, table, classes, n_rows, weights):
        names = list(table) if isinstance(table, Mapping) else None
        tables = list(table.values()) if isinstance(table, Mapping) else list(table)
        self._name_features(names, len(tables))
        sizes = self._declared_sizes(len(tables))
        counts = []
        for feature, (given, size) in enumerate(zip(tables, sizes.tolist(), strict=True)):
            name, shape = f"category_count of feature {feature}", (len(classes), size)
            counts.append(check_given_counts(name, given, shape, n_rows, weights.bound))
            if not np.array_equal(counts[-1].sum(axis=1), classes):
                raise ValueError(
                    f"{name} must add up to class_count in each class, of which each record is in "
                    "one category; it does not"
                )
        return CategoryCounts(counts, ContributionBound(weights.bound), ())

    def _declared_sizes(self, n_features: int) -> np.ndarray:
        """The number of categories of each feature, which are given."""
        sizes = self._public_sizes(n_features)
        assert sizes is not None
        return self._check_cells(np.maximum(sizes, self._least_sizes(n_features)))

    def _check_cells(self, sizes: np.ndarray) -> np.ndarray:
        """The sizes, if tables of them fit into memory."""
        n_cells = int(sizes.sum()) * len(self.classes_)
        is_public = self.n_categories is not None and self.classes is not None
        check_cells("n_categories and classes", n_cells, is_public=is_public)
        return sizes

    def _least_sizes(self, n_features: int) -> np.ndarray:
        if self.min_categories is None:
            return np.ones(n_features, dtype=int)
        if np.shape(self.min_categories) not in ((), (n_features,)):
            raise ValueError(
                f"'min_categories' should have shape ({n_features},) when an array-like is "
                f"provided. Got {np.shape(self.min_categories)} instead."
            )
        return check_sizes("min_categories", self.min_categories, n_features, at_least=1)

    def _public_sizes(self, n_features: int) -> np.ndarray | None:
        n_categories = self._public("n_categories")
        if n_categories is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        n_categories = by_column("n_categories", n_categories, names, n_features)
        if np.ndim(n_categories) == 1 and any(size is None for size in n_categories):
            raise ValueError("n_categories must be given for every feature; some have none")
        return check_sizes("n_categories", n_categories, n_features, at_least=1)

    def _read(self, classes, features, total):
        # Each table holds the class counts, as the sums of its rows.
        tables = [] if classes is None else [classes]
        tables += [
            NoisyTable(table.counts, table.noise, ("class", k)) for k, table in enumerate(features)
        ]
        read = estimate_counts(tables, total)
        prior = None if classes is None else read.pop(0).counts
        self._readings_ = read
        return prior, [table.counts for table in read]

    def _keep(self, estimates, extra):
        self.category_count_ = [table.counts for table in estimates]
        self.feature_log_prob_ = [np.log(table.probabilities) for table in estimates]
        self.n_categories_ = np.array([table.counts.shape[1] for table in estimates])

    def probability_limits(self, confidence=0.95):
        """Limits for the shares that the counted records have, by the noise that was drawn.

        They do not depend on the post-processing, and hold whatever the data are: each with at
        least this probability, by itself. They are about the records that were counted, and not
        about a population that those are a sample of.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95

        Returns
        -------
        list of (lower, upper)
            Two ndarrays of shape (n_classes, n_categories of the feature) each.
        """
        check_is_fitted(self)
        self.release()
        if "_readings_" not in vars(self):
            raise ValueError(
                "limits need post-processed counts: postprocess must be True, and epsilon finite"
            )
        readings = iter(self._readings_)
        sure = np.ones((len(self.classes_), 1))
        return [
            next(readings).limits(confidence) if size > 1 else (sure, sure)
            for size in self.n_categories_
        ]

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
        for block in row_blocks(len(X), len(sizes), _BLOCK_ENTRIES):
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
