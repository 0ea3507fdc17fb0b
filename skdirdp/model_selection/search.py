"""Searches whose winner may be published."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._messages import errors_without_data, warn
from .._random import noise_generator, sampling_generator
from .._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    _check_method_params,
    _num_samples,
    take_records,
)
from ..accounting import NoPrivacy
from ..accounting.worst_case import ADJACENCIES
from ..base import Budget, PrivateEstimator, ReleaseContext
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import GaussianMechanism
from ..mechanisms.sampling import check_platform
from .candidates import (
    BUDGET,
    ROW_BY_ROW,
    Records,
    check_candidates,
    each_warning_once,
    fit_candidate,
    give_back,
    is_wrapped,
    make_candidate,
    public_names,
    rehearse,
    seed_noise,
    set_report,
    without_leak_warnings,
)
from .report import SelectionReport
from .routes import ROUTES, Plan, Route, choose_route, plan
from .runs import Run, Task, best_of, draw_candidates, perform_all
from .scores import PrivateScorer, as_labels, scorer_of
from .splits import may_hold_data, split_once

#: The expected number of runs of a search, where it is not given.
MEAN_RUNS = 10

#: Attributes of scikit-learn's searches that are not published, and why.
_WITHHELD = {
    "cv_results_": "it would hold the scores of all runs, and only the best run is paid for",
    "best_score_": "it would be an exact score of private records; `released_score_` is the "
    "winner's score with noise, and may be published",
    "n_runs_": "the number of runs tells of the scores that were not the best",
    "n_splits_": "there is one split",
    "refit_time_": "time is not covered by the guarantee",
    "multimetric_": "a search has one score, which decides",
}


def _estimator_has(method: str):
    """Whether the estimator inside, fitted if it is, has a method."""

    def check(search: Any) -> bool:
        inside = vars(search).get("best_estimator_", search.estimator)
        getattr(inside, method)
        return True

    return check


class _PrivateSearch(MetaEstimatorMixin, PrivateEstimator):
    """What both searches share: all but the list of candidates."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "estimator": [HasMethods(["fit", "get_params", "set_params"])],
        "scoring": [None, str, PrivateScorer, callable],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "route": [StrOptions(set(ROUTES))],
        "n_runs": [None, Interval(Real, 1, None, closed="neither")],
        "n_jobs": [None, Integral],
        "refit": ["boolean", StrOptions({"all", "run"})],
        "verbose": ["verbose"],
    }

    estimator: Any
    scoring: Any
    delta: float
    order: float | None
    adjacency: str
    route: str
    n_runs: float | None
    cv: Any
    refit: bool | str
    n_jobs: int | None
    verbose: int

    @abstractmethod
    def _candidates(self) -> list[Mapping[str, Any]]:
        """The public list that candidates are drawn from."""

    def fit(self, X, y=None, **params):
        """Search, and publish the best run.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training records, as the estimator takes them.
        y : array-like of shape (n_samples,), default=None
            Labels.
        **params : dict of str -> object
            Passed to the `fit` of the estimator. What has an entry for each record is split
            with the records.

        Returns
        -------
        self
        """
        if ReleaseContext.current() is not None:
            raise TypeError(
                f"{type(self).__name__} cannot be a step of a PrivatePipeline: it has a budget of "
                "its own. Put the pipeline into the search instead"
            )
        with self._fitting():
            self._fit(X, y, params)
        return self

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        self._validate_params()
        if any(name.split("__")[-1] == "groups" for name in params):
            raise ValueError(f"groups must not be given to a search: {ROW_BY_ROW}")
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        candidates = self._candidates()
        check_candidates(candidates, self.estimator)
        scorer = scorer_of(self.scoring, self.estimator, y)
        terms = Budget(float(self.epsilon), float(self.delta), self.order, self.adjacency)
        generator = self._generator()
        with errors_without_data(X=X, y=y):
            X, y = indexable(X, as_labels(y))
            n_records = _num_samples(X)
        train, test = split_once(n_records, self.cv, self.adjacency, generator)
        if self.adjacency == "replace" and not (train.size and test.size):
            raise ValueError(
                "cv must leave records to fit to and hold some out; it takes "
                f"{train.size} and {test.size} of n_samples={n_records}"
            )
        everything = Records(X, y, _check_method_params(X, params))
        fitted_to = Records(
            *self._part(X, y, train), _check_method_params(X, params, indices=train)
        )
        held_out = self._part(X, y, test)
        wrapped = is_wrapped(self.estimator)

        leaks = self._warn_of_split()
        planned = self._plan(candidates, terms, fitted_to, everything, wrapped, leaks)
        self._check_score(scorer)
        if self.accountant is not None:
            label = type(self).__name__ if self.label is None else self.label
            self.accountant.charge(planned.guarantee, releases=1, label=label)

        drawn = draw_candidates(planned.route, generator)
        tasks = (
            Task(
                index,
                make_candidate(self.estimator, candidates[index], planned.terms),
                planned.fits[index] if planned.fits else None,
                wrapped,
            )
            for index in drawn
        )
        runs = perform_all(
            tasks,
            self._seeds(len(drawn), generator),
            self.n_jobs,
            # Repetition is private only as long as nobody sees how often: shown if asked for.
            self.verbose if planned.route.name == "composition" else self.verbose or None,
            train=fitted_to,
            test=held_out,
            scorer=scorer,
            score=planned.score,
        )
        best = best_of(runs, generator)
        if best.fitted is None:
            raise RuntimeError(
                "every run of the search failed, after all of them had been rehearsed without "
                "error. Nothing is published, and the charge stays; the errors are not shown "
                "because they may hold data"
            )
        if planned.route.refit:
            best = self._refitted(best, candidates, planned, everything, wrapped, generator)
        self._publish(best, candidates, planned, test.size, public_names(leaks, wrapped))

    @property
    def _refits(self) -> bool:
        return self.refit is True or self.refit == "all"

    def _refitted(
        self,
        best: Run,
        candidates: list[Mapping[str, Any]],
        planned: Plan,
        records: Records,
        wrapped: bool,
        generator: np.random.Generator,
    ) -> Run:
        """The best run, with the model of its candidate fitted to all records."""
        candidate = make_candidate(self.estimator, candidates[best.number], planned.refit_terms)
        if self.random_state is not None:
            candidate = seed_noise(candidate, int(generator.integers(2**31)))
        with without_leak_warnings():
            fitted, report = fit_candidate(candidate, records, wrapped)
        if planned.refits and dict(report.mechanisms) != dict(planned.refits[best.number].parts):
            raise RuntimeError(
                "the noise of the last fit is not what was paid for: the tables that it releases "
                "depend on more than public parameters. Nothing is published; the charge stays"
            )
        return best._replace(fitted=fitted)

    def _warn_of_split(self) -> list[str]:
        """Name a split that may have been made from the records."""
        if not (self._is_private and may_hold_data(self.cv)):
            return []
        warn(
            "cv: an iterable of splits may be made from the records, which the privacy guarantee "
            "does not cover. If it was fixed without looking at them, pass a PredefinedSplit",
            PrivacyLeakWarning,
        )
        return ["cv"]

    def _generator(self) -> np.random.Generator:
        if not self._is_private:
            return sampling_generator(self.random_state)
        check_platform()
        return noise_generator(self.random_state)

    def _seeds(self, number: int, generator: np.random.Generator) -> list[int | None]:
        """Nothing for secure noise, which every run draws by itself."""
        if self.random_state is None:
            return [None] * number
        return list(generator.integers(2**31, size=number).tolist())

    @staticmethod
    def _part(X: Any, y: Any, positions: np.ndarray) -> tuple[Any, Any]:
        return take_records(X, positions), None if y is None else take_records(y, positions)

    def _plan(
        self,
        candidates: list[Mapping[str, Any]],
        terms: Budget,
        fitted_to: Records,
        everything: Records,
        wrapped: bool,
        leaks: list[str],
    ) -> Plan:
        """The noise of every candidate, found by rehearsals; nothing is released.

        What is not covered of any candidate is added to `leaks`: all of them are charged for
        and compared, whichever is chosen.
        """
        said: list[bool] = []

        def rehearsals(inner: Budget, records: Records = fitted_to):
            with without_leak_warnings() if said else each_warning_once():
                found = [
                    rehearse(make_candidate(self.estimator, each, inner), records, wrapped)
                    for each in candidates
                ]
            said.append(True)
            leaks.extend(name for each in found for name in each.not_covered)
            return [each.released for each in found]

        if self._is_private:
            mean_runs = MEAN_RUNS if self.n_runs is None else float(self.n_runs)
            route = choose_route(self.route, len(candidates), mean_runs, terms, self._refits)
            return plan(route, terms, rehearsals, partial(rehearsals, records=everything))
        route = Route("composition", len(candidates), 0.5, self._refits, np.inf)
        rehearsals(terms)
        score = GaussianMechanism(0.0, adjacency=self.adjacency)
        return Plan(route, terms, (), score, NoPrivacy(self.adjacency), terms, ())

    def _check_score(self, scorer: PrivateScorer) -> None:
        """What can be refused of a scorer is refused before the charge."""
        if scorer.sensitivity is not None:
            scorer._steps(self.adjacency)

    def _publish(
        self,
        best: Run,
        candidates: list[Mapping[str, Any]],
        planned: Plan,
        n_held_out: int,
        not_covered: Sequence[str],
    ) -> None:
        assert best.scorer is not None
        assert best.noisy is not None
        self.best_index_ = best.number
        self.best_params_ = dict(candidates[best.number])
        self.candidates_ = [dict(each) for each in candidates]
        self.scorer_ = best.scorer
        self.released_score_ = best.scorer.read(
            best.noisy,
            sigma=planned.score.sigma,
            n_records=n_held_out if self.adjacency == "replace" else None,
            adjacency=self.adjacency,
            runs=planned.route.mean_runs,
        )
        private = self._is_private
        leaks = [name for name in not_covered if name != "random_state"]
        seeded = self.random_state is not None or "random_state" in not_covered
        self.privacy_ = SelectionReport(
            epsilon=float(self.epsilon),
            delta=float(self.delta) if self.order is None else None,
            order=None if self.order is None else float(self.order),
            adjacency=self.adjacency,
            mechanisms=((planned.guarantee, 1),) if private else (),
            not_covered=(*dict.fromkeys(leaks), *["random_state"] * (seeded and private)),
            route=planned.route.name,
            n_candidates=len(candidates),
            run_epsilon=planned.terms.epsilon,
            fit_epsilon=(planned.refit_terms if self._refits else planned.terms).epsilon,
        )
        set_report(best.fitted, self.privacy_)
        give_back(
            best.fitted, self.estimator, {name: getattr(self, name) for name in sorted(BUDGET)}
        )
        if self.refit:
            self.best_estimator_ = best.fitted
            with suppress(AttributeError):
                self.feature_names_in_ = best.fitted.feature_names_in_

    # What a fitted search has of its best estimator ------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in _WITHHELD:
            raise AttributeError(f"{name} does not exist after a private search: {_WITHHELD[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inside = get_tags(self.estimator)
        tags.estimator_type = inside.estimator_type
        tags.classifier_tags = inside.classifier_tags
        tags.regressor_tags = inside.regressor_tags
        tags.transformer_tags = inside.transformer_tags
        tags.target_tags = inside.target_tags
        tags.input_tags = inside.input_tags
        tags.array_api_support = False
        tags.non_deterministic = True
        return tags

    def _best(self) -> Any:
        check_is_fitted(self, "privacy_")
        if "best_estimator_" not in vars(self):
            raise AttributeError(
                "the search was made with refit=False, which publishes best_params_ and no model; "
                "set refit=True, which costs no more, or fit a model with these parameters"
            )
        return self.best_estimator_

    @property
    def classes_(self):
        """The labels of the best estimator."""
        return self._best().classes_

    @property
    def n_features_in_(self):
        """The number of columns that `fit` saw."""
        return self._best().n_features_in_

    @available_if(_estimator_has("score"))
    def score(self, X, y=None):
        """The best estimator's own score, exact: not to be published if the records are private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,), default=None
            Their labels.

        Returns
        -------
        float
            See `private_score` for one that may be published.
        """
        return self._best().score(X) if y is None else self._best().score(X, y)

    @available_if(_estimator_has("predict"))
    def predict(self, X):
        """Predictions of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._best().predict(X)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of each class by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._best().predict_proba(X)

    @available_if(_estimator_has("predict_log_proba"))
    def predict_log_proba(self, X):
        """Their logarithms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._best().predict_log_proba(X)

    @available_if(_estimator_has("score_samples"))
    def score_samples(self, X):
        """Log-likelihood of each record by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._best().score_samples(X)

    @available_if(_estimator_has("transform"))
    def transform(self, X):
        """Records as the best estimator transforms them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray or DataFrame
        """
        return self._best().transform(X)

    @available_if(_estimator_has("inverse_transform"))
    def inverse_transform(self, X):
        """Records back from what `transform` makes of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Transformed records.

        Returns
        -------
        ndarray
        """
        return self._best().inverse_transform(X)

    @available_if(_estimator_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array-like of str, default=None
            As for the estimator.

        Returns
        -------
        ndarray of str
        """
        return self._best().get_feature_names_out(input_features)

    @available_if(_estimator_has("set_output"))
    def set_output(self, *, transform=None):
        """Choose what `transform` gives, such as "pandas".

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            As for the estimator.

        Returns
        -------
        self
        """
        for inside in (self.estimator, vars(self).get("best_estimator_")):
            if inside is not None:
                inside.set_output(transform=transform)
        return self


class PrivateGridSearchCV(_PrivateSearch):
    """A grid search whose chosen parameters, model and score may be published together.

    scikit-learn's `GridSearchCV` chooses by exact scores of private records, so that what it
    chooses tells of them. Here every score has noise, only the best run is published, and one
    budget covers all of it: the parameters, the model, and its score.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a `Pipeline` or `PrivatePipeline` with private steps. Its own
        `epsilon`, `delta`, `order`, `adjacency` and `accountant` are not used: what one fit
        may cost follows from the budget of the search.
    param_grid : dict or list of dict
        As for `GridSearchCV`: the public list of candidates. It must not come from the data.
    scoring : str or PrivateScorer, default=None
        What decides: "accuracy", "balanced_accuracy", "neg_log_loss", "log_likelihood", or a
        score of one's own by `make_private_scorer`. By default accuracy, and the
        log-likelihood where there are no labels.
    epsilon : float, default=1.0
        The budget of the whole search. Infinite for an ordinary search without noise.
    delta : float, default=1e-5
        What the search publishes is (epsilon, delta)-differentially private.
    order : float, default=None
        Given, it is (order, epsilon)-RDP instead, and `delta` is not used.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    route : {"auto", "repetition", "composition"}, default="auto"
        "repetition" runs candidates drawn at random, as often as a coin says, and pays for
        the best alone; "composition" runs every candidate once and pays for all. "auto"
        takes the one that leaves more to a single fit; it looks at no data.
    n_runs : float, default=None
        The expected number of runs of a repetition; 10 by default. More runs find better
        candidates, and leave less to each fit.
    cv : int, splitter or iterable of one split, default=5
        Which records are held out: one in so many, drawn at random; or, under "replace", what
        a splitter by position says, such as ``ShuffleSplit(n_splits=1)``. There is one split.
        An iterable may be made from the records, so that `privacy_` names it as not covered; a
        `PredefinedSplit` declares that the split was fixed without looking at them.
    refit : {True, "all", "run", False}, default=True
        What `best_estimator_` is. True or "all": the chosen candidate, fitted again to all
        records with a part of the budget. "run": the model of the best run itself, as it was
        scored. False: there is none, and the budget is that of "run".
    n_jobs : int, default=None
        Runs in parallel, as for `GridSearchCV`.
    verbose : int, default=0
        Above 0 shows the progress also where there is no terminal. At 0 a terminal shows it,
        but not for repetition, whose guarantee rests on a number of runs that nobody knows.
    accountant : PrivacyAccountant, default=None
        Charged once, before the first run.
    label : str, default=None
        What the accountant's history calls the search; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None: everything is drawn securely. Given, the search can be repeated, and whoever
        knows the seed can take the noise off; a `PrivacyLeakWarning` says so.

    Attributes
    ----------
    best_params_ : dict
        The chosen parameters.
    best_estimator_ : estimator
        The model: see `refit`. Its `privacy_` is that of the search.
    released_score_ : PrivateScore
        The score of the best run on the held-out records, with noise, and an interval that
        takes into account that it is the best.
    best_index_ : int
        The place of the chosen parameters in `candidates_`.
    candidates_ : list of dict
        All candidates.
    scorer_ : PrivateScorer
        What decided.
    privacy_ : SelectionReport
        What was guaranteed, for all of this together.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    PrivateRandomizedSearchCV : candidates drawn from distributions.
    private_score : a score of a model on private records.

    Notes
    -----
    A record is either fitted to or held out in a run, so that it pays for the fit or for the
    score and not for both.

    There is no `cv_results_`, no exact `best_score_`, and no number of runs: they are not
    covered. Time is not covered either, as nowhere in this package, and tells about how many
    runs there were; so does the progress, which `verbose` shows.

    Every candidate is rehearsed before the charge, so that what can fail fails then. A run that
    fails later counts as a run.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB, PrivacyAccountant
    >>> from skdirdp.model_selection import PrivateGridSearchCV
    >>> X = np.random.default_rng(0).integers(4, size=(5000, 3))
    >>> y = X[:, 0] > 1
    >>> accountant = PrivacyAccountant()
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=4)
    >>> search = PrivateGridSearchCV(
    ...     model, {"mechanism": ["dirichlet", "gaussian"], "alpha": [0.1, 1.0]},
    ...     epsilon=1.0, accountant=accountant,
    ... ).fit(X, y)
    >>> bool(search.score(X, y) > 0.9), len(accountant)
    (True, 1)
    >>> bool(0.9 < search.privacy_.composition().epsilon(1e-5) <= 1.0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateSearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        adjacency="replace",
        route="auto",
        n_runs=None,
        cv=5,
        refit=True,
        n_jobs=None,
        verbose=0,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.route = route
        self.n_runs = n_runs
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _candidates(self) -> list[Mapping[str, Any]]:
        return list(ParameterGrid(self.param_grid))


class PrivateRandomizedSearchCV(_PrivateSearch):
    """A randomized search whose chosen parameters, model and score may be published together.

    As `PrivateGridSearchCV`, over candidates that are drawn from distributions before any
    data are seen.

    Parameters
    ----------
    estimator : estimator
        As for `PrivateGridSearchCV`.
    param_distributions : dict or list of dict
        As for `RandomizedSearchCV`: lists, or distributions with a method `rvs`.
    n_iter : int, default=20
        How many candidates are drawn.
    scoring, epsilon, delta, order, adjacency, route, n_runs, cv, refit, n_jobs, verbose
        As for `PrivateGridSearchCV`.
    accountant, label, random_state
        As for `PrivateGridSearchCV`.

    Attributes
    ----------
    best_params_ : dict
        The chosen parameters.
    best_estimator_ : estimator
        The model: see `refit`. Its `privacy_` is that of the search.
    released_score_ : PrivateScore
        The score of the best run on the held-out records, with noise, and an interval that
        takes into account that it is the best.
    best_index_ : int
        The place of the chosen parameters in `candidates_`.
    candidates_ : list of dict
        All candidates that were drawn.
    scorer_ : PrivateScorer
        What decided.
    privacy_ : SelectionReport
        What was guaranteed, for all of this together.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    PrivateGridSearchCV : all combinations of given values.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import loguniform
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import PrivateRandomizedSearchCV
    >>> X = np.random.default_rng(0).integers(4, size=(5000, 3))
    >>> model = DirichletCategoricalNB(
    ...     classes=[False, True], n_categories=4, mechanism="gaussian"
    ... )
    >>> search = PrivateRandomizedSearchCV(model, {"alpha": loguniform(0.01, 10)}, n_iter=8)
    >>> search.fit(X, X[:, 0] > 1).released_score_.name
    'accuracy'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateSearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=20,
        scoring=None,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        adjacency="replace",
        route="auto",
        n_runs=None,
        cv=5,
        refit=True,
        n_jobs=None,
        verbose=0,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.route = route
        self.n_runs = n_runs
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _candidates(self) -> list[Mapping[str, Any]]:
        # Candidates are public, so that their seed need not be secret.
        seed = int(sampling_generator(self.random_state).integers(2**31))
        return list(ParameterSampler(self.param_distributions, self.n_iter, random_state=seed))
