"""Grid search and randomized search with private scores."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._docs import shared_docs
from .._messages import errors_without_data, warn
from .._random import noise_generator, sampling_generator
from .._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    _check_method_params,
    _num_samples,
    check_callbacks,
    take_records,
)
from ..accounting import NoPrivacy
from ..accounting.worst_case import ADJACENCIES, PERSON_RELATIONS, RECORD, Unit
from ..base import Budget, PrivateEstimator, ReleaseContext, charge
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.sampling import check_platform
from ..pipeline import PrivatePipeline
from ..pipeline.inputs import collect, labels_by_name, person_ids_from_schema
from ..pipeline.public_steps import reachable
from . import planning, runs
from .planning import ROUTES, Route, SearchPlan, SelectionReport
from .runs import Records, Run, SearchData, fit_candidate, make_candidate, needs_wrapping
from .scoring import (
    PrivateScorer,
    as_label_vector,
    estimate_score,
    get_scorer,
    private_score,
    scored_persons,
)

#: Expected number of runs of a search, if `n_runs` is None.
MEAN_RUNS = 10

#: Attributes of scikit-learn's searches that are not published, with the reason.
_WITHHELD = {
    "cv_results_": "it would contain the scores of all runs, and only the best run is charged",
    "best_score_": "it would be an exact score of private records; use `released_score_`, the "
    "score of the best run with noise",
    "n_runs_": "the number of runs reveals information on the other scores",
    "n_splits_": "there is one split",
    "refit_time_": "time is not covered by the guarantee",
    "multimetric_": "a search has one score",
}

Candidates = list[Mapping[str, Any]]
_Search = TypeVar("_Search", bound="_PrivateSearch")


def _estimator_has(method: str) -> Callable[[Any], bool]:
    """Return a check whether the best estimator, or the unfitted one, has a method."""

    def check(search: Any) -> bool:
        getattr(vars(search).get("best_estimator_", search.estimator), method)
        return True

    return check


def _method_of_best(name: str) -> Any:
    """Return a method that calls the same method of the best estimator, if it has one."""

    def method(self, X):
        return getattr(self._best(), name)(X)

    method.__name__ = name
    method.__doc__ = f"Call `{name}` of the best estimator."
    return available_if(_estimator_has(name))(method)


class _PrivateSearch(MetaEstimatorMixin, PrivateEstimator):
    """Base class of the searches; a subclass lists the candidates."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "estimator": [HasMethods(["fit", "get_params", "set_params"])],
        "scoring": [None, str, PrivateScorer, callable],
        "route": [StrOptions(set(ROUTES))],
        "n_runs": [None, Interval(Real, 1, None, closed="neither")],
        "refit": ["boolean", StrOptions({"all", "run"})],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
    }

    @abstractmethod
    def _candidates(self) -> Candidates:
        """Return the public list of candidates."""

    def fit(self: _Search, X: Any, y: Any = None, **params: Any) -> _Search:
        """Search, and publish the best run.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training records.
        y : array-like of shape (n_samples,), or str, default=None
            Labels, or the name of their column if the estimator is a pipeline whose first step has
            a schema. If the schema has a `person`, people are held out instead of records.
        **params : dict of str -> object
            Parameters of the `fit` of the estimator, split with the records.

        Returns
        -------
        self
        """
        if ReleaseContext.current() is not None:
            raise TypeError(
                f"{type(self).__name__} cannot be a step of a PrivatePipeline, because it has its "
                "own budget. Put the pipeline into the search instead"
            )
        with self._fitting():
            self._validate_params()
            self._fit(collect(self.estimator, X, y, *params.values()), y, params)
        return self

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        if any(name.split("__")[-1] == "groups" for name in params):
            raise ValueError(f"groups must not be given to a search: {runs.ROWS_ONLY}")
        if y is None and get_tags(self.estimator).target_tags.required:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        candidates = self._candidates()
        runs.check_candidates(candidates, self.estimator)
        scorer = get_scorer(self.scoring, self.estimator, y)
        if self._is_private:
            check_platform()
            generator = noise_generator(self.random_state)
        else:
            generator = sampling_generator(self.random_state)
        data = self._split(candidates, X, y, params, scorer, generator)
        leaks = self._warn_of_split()
        plan = self._plan(data, leaks)
        if scorer.sensitivity is not None:
            scorer._n_steps(self.adjacency)  # raises an error for an invalid range
        charge(self, plan.guarantee, 1, data.unit)
        best = self._best_run(data, plan, scorer, generator)
        if plan.route.refit:
            best = self._refit(best, data, plan, generator)
        self._set_fitted_attributes(best, data, plan, leaks)

    def _split(
        self, candidates: Candidates, X: Any, y: Any, params: dict, scorer: Any, generator: Any
    ) -> SearchData:
        labels_by_name(self.estimator, X, y)  # raises an error for a name that is not a label
        with errors_without_data(X=X, y=y):
            X, y = (X, y) if isinstance(y, str) else indexable(X, as_label_vector(y))
            n_records = _num_samples(X)
        ids = person_ids_from_schema(self.estimator, X, y)
        unit, is_public = RECORD, self.adjacency == "replace" and ids is None
        if ids is None:
            train, test = planning.split_records(n_records, self.cv, self.adjacency, generator)
        else:
            persons = scored_persons(self.estimator, X, y, scorer)
            assert persons is not None
            train, test = planning.split_persons(ids[0], persons, self.cv, generator)
            unit = persons.unit
        if is_public and not (train.size and test.size):
            raise ValueError(
                "cv must leave records to fit to and hold some out; it takes "
                f"{train.size} and {test.size} of n_samples={n_records}"
            )
        params = runs.candidate_params(self.estimator, params)
        fitted = Records(*_take(X, y, train), _check_method_params(X, params, indices=train))
        all_records = Records(X, y, _check_method_params(X, params))
        n_test = test.size if is_public and not isinstance(y, str) else None
        return SearchData(candidates, fitted, _take(X, y, test), all_records, n_test, unit)

    def _warn_of_split(self) -> list[str]:
        """Warn about an iterable of splits, and return its parameter; splitters get no records."""
        is_given = not isinstance(self.cv, Integral) and not hasattr(self.cv, "split")
        if not (self._is_private and is_given):
            return []
        warn(
            "cv: an iterable of splits may depend on the records, which the privacy guarantee does "
            "not cover. If it does not, pass a PredefinedSplit",
            PrivacyLeakWarning,
        )
        return ["cv"]

    @property
    def _refits(self) -> bool:
        return self.refit is True or self.refit == "all"

    def _plan(self, data: SearchData, leaks: list[str]) -> SearchPlan:
        """Calibrate the noise of all candidates by rehearsals; append their leaks to `leaks`."""
        budget = Budget(float(self.epsilon), float(self.delta), self.order, self.adjacency)
        wrapped = needs_wrapping(self.estimator)
        has_warned = False

        def rehearsals(inner: Budget, records: Records = data.train) -> list[JointMechanism]:
            nonlocal has_warned
            with runs.ignore_leak_warnings() if has_warned else runs.deduplicate_warnings():
                found = [
                    runs.rehearse(make_candidate(self.estimator, each, inner), records, wrapped)
                    for each in data.candidates
                ]
            has_warned = True
            leaks.extend(name for _, not_covered in found for name in not_covered)
            return [released for released, _ in found]

        if self._is_private:
            mean_runs = MEAN_RUNS if self.n_runs is None else float(self.n_runs)
            route = planning.choose_route(
                self.route, len(data.candidates), mean_runs, budget, self._refits
            )
            refits = partial(rehearsals, records=data.all_records)
            return planning.plan_search(route, budget, rehearsals, refits, data.unit)
        route = Route("composition", len(data.candidates), 0.5, self._refits, np.inf)
        rehearsals(budget)
        score = GaussianMechanism(0.0, adjacency=self.adjacency)
        relation = PERSON_RELATIONS[self.adjacency] if data.unit.is_person else self.adjacency
        return SearchPlan(route, budget, (), score, NoPrivacy(relation), budget, ())

    def _best_run(self, data: SearchData, plan: SearchPlan, scorer: Any, generator: Any) -> Run:
        drawn = runs.draw_candidates(plan.route, generator)
        # Without a seed, every run has its own secure generator.
        seeds: list[int | None] = [None] * len(drawn)
        if self.random_state is not None:
            seeds = generator.integers(2**31, size=len(drawn)).tolist()
        # Repetition is private only if the number of runs is not seen: shown only on demand.
        shown = self.verbose or len(vars(self).get("_skl_callbacks", ()))
        verbose = shown if plan.route.name == "composition" else shown or None
        pairs = list(zip(drawn, seeds, strict=True))
        done = runs.run_candidates(self.estimator, data, plan, scorer, pairs, self.n_jobs, verbose)
        best = runs.select_best(done, generator)
        if best.fitted is None:
            raise RuntimeError(
                "every run of the search failed, although every rehearsal succeeded. Nothing is "
                "published, and any charge remains in the ledger; errors are not shown, because "
                "they may contain data"
            )
        return best

    def _refit(self, best: Run, data: SearchData, plan: SearchPlan, generator: Any) -> Run:
        seed = None if self.random_state is None else int(generator.integers(2**31))
        parameters, wrapped = data.candidates[best.candidate_index], needs_wrapping(self.estimator)
        candidate = make_candidate(self.estimator, parameters, plan.refit_budget, seed)
        with runs.ignore_leak_warnings():
            fitted, report = fit_candidate(candidate, data.all_records, wrapped)
        if plan.refits and dict(report.mechanisms) != dict(plan.refits[best.candidate_index].parts):
            raise RuntimeError(
                "the noise of the last fit differs from the noise that was charged: its tables "
                "depend on more than public parameters. Nothing is published; the charge remains"
            )
        return best._replace(fitted=fitted)

    def _set_fitted_attributes(
        self, best: Run, data: SearchData, plan: SearchPlan, leaks: Sequence[str]
    ) -> None:
        assert best.scorer is not None
        assert best.noisy_table is not None
        self.best_index_ = best.candidate_index
        self.best_params_ = dict(data.candidates[best.candidate_index])
        self.candidates_ = [dict(each) for each in data.candidates]
        self.scorer_ = best.scorer
        self.released_score_ = estimate_score(
            best.scorer,
            best.noisy_table,
            plan.score,
            n_records=data.n_test,
            runs=plan.route.mean_runs,
        )
        self.privacy_ = self._make_report(plan, leaks, data.unit)
        # The report of a part would hold only if the model had not been selected.
        for part in reachable(best.fitted):
            if "privacy_" in vars(part):
                part.privacy_ = self.privacy_
        if not needs_wrapping(self.estimator):
            # The budget of the fitted pipeline was that of a run.
            owner = self.estimator if isinstance(self.estimator, PrivatePipeline) else self
            budget = {name: getattr(owner, name) for name in runs.BUDGET_PARAMETERS}
            best.fitted.set_params(**budget)
        if self.refit:
            self.best_estimator_ = best.fitted
            with suppress(AttributeError):
                self.feature_names_in_ = best.fitted.feature_names_in_

    def _make_report(self, plan: SearchPlan, leaks: Sequence[str], unit: Unit) -> SelectionReport:
        not_covered = [name for name in dict.fromkeys(leaks) if name != "random_state"]
        if self._is_private and (self.random_state is not None or "random_state" in leaks):
            not_covered.append("random_state")
        fit = plan.refit_budget if self._refits else plan.budget
        run = (plan.route.name, plan.route.n_candidates, plan.budget.epsilon, fit.epsilon)
        mechanisms = ((plan.guarantee, 1),) if self._is_private else ()
        budget = Budget.from_estimator(self).claimed()
        return SelectionReport(*budget, mechanisms, tuple(not_covered), unit, None, *run)

    def __getattr__(self, name: str) -> Any:
        if name in _WITHHELD:
            raise AttributeError(f"{name} does not exist after a private search: {_WITHHELD[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inside = get_tags(self.estimator)
        for kind in ("target", "input", "classifier", "regressor", "transformer"):
            setattr(tags, f"{kind}_tags", getattr(inside, f"{kind}_tags"))
        tags.estimator_type = inside.estimator_type
        tags.array_api_support = False
        tags.non_deterministic = True
        return tags

    def _best(self) -> Any:
        check_is_fitted(self, "privacy_")
        if "best_estimator_" not in vars(self):
            raise AttributeError(
                "the search was made with refit=False, which publishes best_params_ and no model; "
                "set refit=True, or fit a model with these parameters"
            )
        return self.best_estimator_

    @property
    def classes_(self) -> np.ndarray:
        """Class labels."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features seen during fit."""
        return self._best().n_features_in_

    @available_if(_estimator_has("score"))
    def score(self, X: Any, y: Any = None) -> float:
        """Return the exact score of the best estimator, by `scoring` if it is given.

        It must not be published if the records are private; `private_score` can be.
        """
        if self.scoring is None:
            return self._best().score(X) if y is None else self._best().score(X, y)
        options = {"epsilon": np.inf, "adjacency": self.adjacency, "population": False}
        return private_score(self._best(), X, y, scoring=self.scorer_, **options).value

    def set_callbacks(self: _Search, *callbacks: Any) -> _Search:
        """Set the callbacks of the fit, of which only `ProgressBar` is allowed.

        With a `ProgressBar` the progress of the runs is shown as with `verbose=1`. Other callbacks
        could store exact scores.

        Parameters
        ----------
        *callbacks : sklearn.callback.ProgressBar
            None removes them.

        Returns
        -------
        self
        """
        check_callbacks(callbacks)
        self._skl_callbacks = list(callbacks)
        return self

    predict = _method_of_best("predict")
    predict_proba = _method_of_best("predict_proba")
    predict_log_proba = _method_of_best("predict_log_proba")
    score_samples = _method_of_best("score_samples")
    transform = _method_of_best("transform")
    inverse_transform = _method_of_best("inverse_transform")

    @available_if(_estimator_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the output columns of `transform`."""
        return self._best().get_feature_names_out(input_features)

    @available_if(_estimator_has("set_output"))
    def set_output(self, *, transform: str | None = None) -> Any:
        """Set the container of the output of `transform`, such as "pandas"."""
        for inside in (self.estimator, vars(self).get("best_estimator_")):
            if inside is not None:
                inside.set_output(transform=transform)
        return self


def _take(X: Any, y: Any, positions: np.ndarray) -> tuple[Any, Any]:
    # The name of a column holds for any records.
    is_vector = not (y is None or isinstance(y, str))
    return take_records(X, positions), take_records(y, positions) if is_vector else y


@shared_docs
class PrivateGridSearchCV(_PrivateSearch):
    """Grid search whose parameters, model and score can be published together.

    Parameters
    ----------
    estimator : estimator
        Private estimator, or a `Pipeline` or `PrivatePipeline` with private steps. Its `epsilon`,
        `delta`, `order`, `adjacency` and `accountant` are replaced by the budget of the search.
    param_grid : dict or list of dict
        Candidates, as for `GridSearchCV`. They must not depend on the data.
    scoring : str or PrivateScorer, default=None
        "accuracy", "balanced_accuracy", "neg_log_loss", "log_likelihood", or a scorer made by
        `make_private_scorer`. If None, accuracy, or the log-likelihood if there are no labels.
    route : {"auto", "repetition", "composition"}, default="auto"
        "repetition" runs randomly drawn candidates, a random number of times, and charges only
        the best run. "composition" runs every candidate once and charges all runs. "auto"
        selects the route with the larger budget per fit, without using the data.
    n_runs : float, default=None
        Expected number of runs of a repetition, 10 if None. More runs leave less budget for each.
    cv : int, splitter or iterable of one split, default=5
        An integer holds out one record in `cv`, drawn at random. Under "replace" it may be a
        splitter by position with one split, such as ``ShuffleSplit(n_splits=1)``. An iterable
        may depend on the records, so `privacy_` lists it as not covered.
    refit : {True, "all", "run", False}, default=True
        Content of `best_estimator_`. True or "all": the best candidate, fitted again to all
        records with a part of the budget. "run": the model of the best run. False: no model is
        published; the budget is that of "run".
    n_jobs : int, default=None
        Number of parallel runs, as for `GridSearchCV`.
    verbose : int, default=0
        If positive, the progress is always shown. If 0, it is shown on terminals, except for
        repetition, whose guarantee requires that the number of runs is not seen.
    {epsilon, delta, order, adjacency, accountant, label, random_state}

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best candidate.
    best_estimator_ : estimator
        Published model, see `refit`. Its `privacy_` is that of the search.
    released_score_ : PrivateScore
        Noisy score of the best run on the held-out records. Its interval takes into account
        that it is the best.
    candidates_, best_index_ : list of dict, int
        Parameters of all candidates, and the position of the best.
    scorer_ : PrivateScorer
        Scorer of the search.
    privacy_ : SelectionReport
        Privacy guarantee of the fit.
    {classes_, n_features_in_, feature_names_in_}

    Notes
    -----
    There is no `cv_results_`, no exact `best_score_` and no number of runs, because they are not
    covered by the guarantee. Nor is time, which reveals approximately how many runs there were.
    Every candidate is rehearsed before the charge. A run that fails later counts as a run.

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
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_PrivateSearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scoring: str | PrivateScorer | None = None,
        route: str = "auto",
        n_runs: float | None = None,
        cv: Any = 5,
        refit: bool | str = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        adjacency: str = "replace",
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.route = route
        self.n_runs = n_runs
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _candidates(self) -> Candidates:
        return list(ParameterGrid(self.param_grid))


class PrivateRandomizedSearchCV(_PrivateSearch):
    """Randomized search whose parameters, model and score can be published together.

    Parameters
    ----------
    estimator : estimator
        As for `PrivateGridSearchCV`.
    param_distributions : dict or list of dict
        Lists, or distributions with a method `rvs`, as for `RandomizedSearchCV`.
    n_iter : int, default=20
        Number of candidates.
    scoring, route, n_runs, cv, refit, n_jobs, verbose
        As for `PrivateGridSearchCV`.
    epsilon, delta, order, adjacency, accountant, label, random_state
        As for `PrivateGridSearchCV`, and so are the attributes.

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
        estimator: Any,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_iter: int = 20,
        scoring: str | PrivateScorer | None = None,
        route: str = "auto",
        n_runs: float | None = None,
        cv: Any = 5,
        refit: bool | str = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        adjacency: str = "replace",
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.route = route
        self.n_runs = n_runs
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def _candidates(self) -> Candidates:
        # Candidates are public, so their seed need not be secret.
        seed = int(sampling_generator(self.random_state).integers(2**31))
        return list(ParameterSampler(self.param_distributions, self.n_iter, random_state=seed))
