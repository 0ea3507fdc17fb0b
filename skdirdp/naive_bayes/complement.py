"""Complement naive Bayes."""

from typing import Any, ClassVar

import numpy as np
from sklearn.naive_bayes import ComplementNB

from ..mechanisms.base import smoothed_mean
from ..mechanisms.tables import CountTable
from ..postprocessing import NoisyTable, estimate_counts
from .numeric import FeatureSums, _NumericNaiveBayes


class ComplementSums(FeatureSums):
    """Sums of the features by class, as one row: shares of one class are those of all.

    What a class lacks is then a sum of released cells. Each cell gets its part of the
    smoothing, so that the complement of a class has as much as it should.
    """

    def tables(self, n_samples: float, alpha: float) -> list[tuple[CountTable, np.ndarray]]:
        counts, bound = self.sums.table, self.sums.bound
        assert bound.max_total is not None
        smoothing = alpha / max(len(counts) - 1, 1)
        total = n_samples * bound.max_total
        size = len(counts) * self.n_columns
        table = CountTable(total, size, 1, bound, min_smoothing=smoothing)
        return [(table, counts.reshape(1, -1))]


class DirichletComplementNB(_NumericNaiveBayes):
    """Private complement naive Bayes; drops in for `ComplementNB`.

    One table is released: the sums of each feature by class, as shares of their total. One
    record contributes to it by its whole row, which is therefore clipped: entries to
    `max_count`, then, where the total is larger, the row is scaled down to `max_total`.
    From the shares follow those of all other classes, which score a record.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        The smoothing, in counts, of all features or of each. Releases that are taken as drawn
        may need more: see `alpha_`.
    force_alpha : bool, default=True
        Whether an `alpha` below 1e-10 is taken as it is; else it is raised to that, with a
        warning.
    fit_prior : bool, default=True
        As in `ComplementNB`, of use only where there is a single class.
    class_prior : array-like of shape (n_classes,), default=None
        As in `ComplementNB`, not used in predictions.
    norm : bool, default=False
        Whether to divide the weights of each class by their sum.
    classes : array-like of shape (n_classes,), default=None
        All labels that may occur. Public: a label's presence is not protected.
    max_count : float, default=None
        A public bound on every entry of X.
    max_total : float or "auto", default=None
        A public bound on every row's total. More than `max_count` times the number of
        features, which no row can have, costs nothing more than that. "auto" takes what a
        private step before declares of its rows, or else `max_count` times the root of the
        number of features.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `ComplementNB`.
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
        The number of records of each class at infinite epsilon. With privacy, the public
        number of records times the class prior.
    class_log_prior_ : ndarray of shape (n_classes,)
        At infinite epsilon, that of the records. With privacy, as given, or uniform: it has
        no part in predictions, so that nothing is spent on it.
    feature_count_ : ndarray of shape (n_classes, n_features)
        The sum of each feature by class: exact at infinite epsilon, else the released shares
        times the public number of records and `max_total`, which is the total that a row may
        have: where most have less, these are as many times too large.
    feature_all_ : ndarray of shape (n_features,)
        The sum of `feature_count_` over the classes.
    feature_log_prob_ : ndarray of shape (n_classes, n_features)
        The weights, released.
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
    _sums = ComplementSums
    _released_attributes: ClassVar[tuple[str, ...]] = (
        *_NumericNaiveBayes._released_attributes,
        "feature_all_",
    )

    _original = ComplementNB

    def __init__(
        self,
        *,
        alpha=1.0,
        force_alpha=True,
        fit_prior=True,
        class_prior=None,
        norm=False,
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

    def _known_prior(self):
        prior = super()._known_prior()
        if prior is None and self._is_private:  # it would be paid for, and not be used
            prior = np.full(len(self.classes_), 1 / len(self.classes_))
        return prior

    def _read(self, classes, features, total):
        (table,) = features
        by_class = table.counts.reshape(len(self.classes_), -1)
        (read,) = estimate_counts([NoisyTable(by_class, table.noise, ("class", "feature"))])
        return None, [read.counts.reshape(1, -1)]

    def _keep(self, estimates, extra):
        (joint,) = estimates
        shape = (len(self.classes_), self.n_features_in_)
        self.feature_count_ = joint.counts.reshape(shape)
        self.feature_all_ = self.feature_count_.sum(axis=0)
        # A sum of the others rather than a difference, in which small shares would be lost.
        others = (1 - np.eye(len(self.classes_))) @ self.feature_count_
        logged = np.log(smoothed_mean(others, joint.smoothing + extra))
        if self.norm:
            self.feature_log_prob_ = logged / logged.sum(axis=1, keepdims=True)
        else:
            self.feature_log_prob_ = -logged

    @property
    def _uses_prior(self):
        return len(self.classes_) == 1
