"""Multinomial naive Bayes."""

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from .numeric import _NumericNaiveBayes


class DirichletNB(_NumericNaiveBayes):
    """Private naive Bayes for multinomial models; drops in for `MultinomialNB`.

    Two tables are released: the class counts, and the sums of each feature by class.
    One record contributes to the latter by its whole row, which is therefore clipped:
    entries to `max_count`, then, where the total is larger, the row is scaled down to
    `max_total`.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        The smoothing, in counts, of all features or of each. Releases that are taken as drawn
        may need more: see `alpha_`.
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
    max_count : float, default=None
        A public bound on every entry of X.
    max_total : float or "auto", default=None
        A public bound on every row's total. More than `max_count` times the number of
        features, which no row can have, costs nothing more than that. "auto" takes what a
        private step before declares of its rows, or else `max_count` times the root of the
        number of features.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the model is then that of
        `MultinomialNB`.
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
        The sum of each feature by class: exact at infinite epsilon, else as it was read.
        Where it is taken as drawn, the released probabilities times `class_count_` and
        `max_total`, which is the total that a row may have: where most have less, these are
        as many times too large.
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
        alpha=1.0,
        fit_prior=True,
        class_prior=None,
        *,
        force_alpha=True,
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

    def _keep(self, estimates, extra):
        (sums,) = estimates
        self.feature_count_ = sums.counts
        self.feature_log_prob_ = np.log(sums.smoothed(extra))
