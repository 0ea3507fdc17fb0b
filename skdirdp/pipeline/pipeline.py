"""A pipeline with one budget for all of its steps."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_memory

from .._messages import format_exact, suppress_other_warnings, warn
from .._persons import SharedGroups, common_unit
from .._sklearn_compat import HasMethods, Interval, StrOptions, _name_estimators
from ..accounting.worst_case import ADJACENCIES
from ..base import Budget, PrivacyReport, ReleaseContext, charge
from ..exceptions import PrivacyLeakWarning
from .check import check_pipeline, learns_nothing
from .contexts import (
    JointPlan,
    PaidFit,
    Rehearsal,
    feeds,
    find_adaptive,
    find_row_change,
    label_by_path,
    private_estimators,
)
from .public_steps import hide_records, reachable, record_wise, show_classes, takes_table


@dataclass(frozen=True)
class PipelineReport(PrivacyReport):
    """What the fit of a pipeline guarantees, and by what means.

    A `PrivacyReport` of all steps together, with one of each private step.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered, unit, n_records
        As for `PrivacyReport`, of all steps together. `not_covered` names parameters as
        the pipeline does, ``bins__bounds``, and steps that learn from the data without noise.
    steps : tuple of (str, PrivacyReport), default=()
        What each private estimator releases, by the name of its step: a step that holds
        several has several. Their epsilons are those of each alone, and add up to more
        than that of the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB, DirichletHistogramTransformer
    >>> from skdirdp import make_private_pipeline
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> pipe = make_private_pipeline(
    ...     DirichletHistogramTransformer(4, encode="ordinal", bounds=(-3, 3)),
    ...     DirichletCategoricalNB(n_categories=4, classes=[False, True]),
    ... ).fit(X, X[:, 0] > 0)
    >>> [(name, report.releases) for name, report in pipe.privacy_.steps]
    [('dirichlethistogramtransformer', 2), ('dirichletcategoricalnb', 3)]
    """

    steps: tuple[tuple[str, PrivacyReport], ...] = ()

    def _steps(self) -> tuple[tuple[str, PrivacyReport], ...]:
        return self.steps

    def _means(self) -> str:
        """All means together, and then a clause for each private step."""
        told = super()._means()
        for name, report in self.steps:
            epsilon = _rounded_up(report.epsilon)
            terms = f"({epsilon}, {format_exact(report.delta)})" if report.delta is not None else ""
            if report.order is not None:
                terms = f"({format_exact(report.order)}, {epsilon})"
            told += f"; {name!r} alone {terms}: {report._means()}"
        return told


def _rounded_up(epsilon: float) -> str:
    """In four decimals, and not less than it is: a reader may repeat it as a claim."""
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}"


def _can_fit_predict(pipe: "PrivatePipeline") -> bool:
    # The error of the last step says best what it lacks.
    getattr(pipe._final_estimator, "fit_predict")  # noqa: B009
    return True


def _converted_before(name: str) -> Any:
    """A method of `Pipeline` that reads a table record by record, as `fit` does."""
    inherited = vars(Pipeline)[name]

    @wraps(inherited.fn)
    def method(self, X, *args, **params):
        return inherited.fn(self, self._converted(X), *args, **params)

    method.__doc__ = f"""`Pipeline.{name}` of scikit-learn, on records converted cell by cell.

    Parameters
    ----------
    X : array-like
        Records.

    Returns
    -------
    object
        The result of `Pipeline.{name}`.
    """
    return available_if(inherited.check)(method)


class PrivatePipeline(Pipeline):
    """scikit-learn's `Pipeline`, with one privacy budget for the whole fit.

    The private steps, also those inside a `ColumnTransformer` or a `FeatureUnion`, are
    calibrated together so that all they release composes to the budget, and are paid for in
    one charge before the first of them releases anything. Their own `epsilon`, `delta`,
    `order`, `adjacency` and `accountant` are not used; `mechanism`, `n_samples`,
    `random_state` and all bounds are.

    Parameters
    ----------
    steps : list of (str, estimator) tuples
        As for `Pipeline`.
    epsilon : float, default=1.0
        The budget of one `fit` of all steps together. Infinite for no noise.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private.
    order : float, default=None
        Given, the fit is (order, epsilon)-RDP instead, and `delta` is not used.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    shares : dict of {str: float}, default=None
        How the budget is divided over the private steps, by their names: positive numbers,
        of which only the ratios count. Variances of the privacy loss add up to the budget,
        so that a share of 1/12 is about a quarter of epsilon. By default the steps before
        a last one that is private get 1/12; or less, down to 1/300, where by public sizes
        they would drown in noise. Several estimators in one step, and steps where the last
        is not private, get shares by their numbers of tables.
    accountant : PrivacyAccountant, default=None
        Charged once by every fit, before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    transform_input : list of str, default=None
        As for `Pipeline`.
    memory : str or object with the joblib.Memory interface, default=None
        As for `Pipeline`. Only steps before the first private one are cached: what follows
        depends on the noise.
    verbose : bool, default=False
        As for `Pipeline`.

    Attributes
    ----------
    privacy_ : PipelineReport
        What was guaranteed, for all steps together and for each alone.
    named_steps : Bunch
        The steps, fitted. They are copies of those that were given.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    The tables of all steps have to be known before the first is released. They are found by
    fitting the steps from the first private one on twice: the first time with other noise, in
    copies that are thrown away. So a step that follows a private one needs its public
    parameters (bounds and numbers of categories right after a histogram are known, and may be
    left out), and a step that fails on the data fails before anything is charged. If a fit
    fails after the charge (it was interrupted, say), the charge stays, and the
    pipeline is as it was before the fit.

    Errors of steps of other libraries may quote records. In a private fit they are told by
    the step and the type of the error; without privacy, at infinite `epsilon`, they pass.

    Steps that learn from the data without noise are named by a `PrivacyLeakWarning` and in
    `privacy_`; see `check_pipeline`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import (
    ...     DirichletCategoricalNB, DirichletHistogramTransformer, PrivatePipeline
    ... )
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> y = X[:, 0] > 0
    >>> bins = DirichletHistogramTransformer(6, encode="ordinal", bounds=(-4, 4))
    >>> model = DirichletCategoricalNB(n_categories=6, classes=[False, True])
    >>> pipe = PrivatePipeline([("bins", bins), ("model", model)], epsilon=1.0).fit(X, y)
    >>> bool(pipe.score(X, y) > 0.8)
    True
    >>> pipe.privacy_.epsilon, pipe.privacy_.releases
    (1.0, 7)
    >>> bool(0.999 < pipe.privacy_.composition().epsilon(1e-5) <= 1.0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Pipeline._parameter_constraints,
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "shares": [None, dict],
        "accountant": [None, HasMethods("charge")],
        "label": [None, str],
    }

    steps: Any
    privacy_: PipelineReport

    def __init__(
        self,
        steps,
        *,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        adjacency="replace",
        shares=None,
        accountant=None,
        label=None,
        transform_input=None,
        memory=None,
        verbose=False,
    ):
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.shares = shares
        self.accountant = accountant
        self.label = label

    def fit(self, X, y=None, **params):
        """Fit all steps, and release what the private ones learn.

        Parameters
        ----------
        X : iterable
            Training data, as the first step takes them.
        y : iterable, default=None
            Training targets.
        **params : dict of str -> object
            As for `Pipeline.fit`. `groups`, an id of a person for each record, reaches every
            private step, also inside others.

        Returns
        -------
        self
        """
        self._fit_privately(Pipeline.fit, X, y, params)
        return self

    @available_if(Pipeline._can_fit_transform)
    def fit_transform(self, X, y=None, **params):
        """Fit all steps, and transform the data with them.

        Parameters
        ----------
        X : iterable
            Training data, as the first step takes them.
        y : iterable, default=None
            Training targets.
        **params : dict of str -> object
            As for `Pipeline.fit_transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_transformed_features)
            The records themselves, transformed: they are not private.
        """
        return self._fit_privately(Pipeline.fit_transform, X, y, params)

    @available_if(_can_fit_predict)
    def fit_predict(self, X, y=None, **params):
        """Fit all steps, and predict for the same data with the last.

        Parameters
        ----------
        X : iterable
            Training data, as the first step takes them.
        y : iterable, default=None
            Training targets.
        **params : dict of str -> object
            As for `Pipeline.fit_predict`.

        Returns
        -------
        ndarray
        """
        return self._fit_privately(Pipeline.fit_predict, X, y, params)

    predict = _converted_before("predict")
    predict_proba = _converted_before("predict_proba")
    predict_log_proba = _converted_before("predict_log_proba")
    decision_function = _converted_before("decision_function")
    score_samples = _converted_before("score_samples")
    score = _converted_before("score")
    transform = _converted_before("transform")

    def _converted(self, X: Any) -> Any:
        """The table with dtypes that do not depend on single records, if a step needs it."""
        is_private = isinstance(self.epsilon, Real) and self.epsilon < np.inf
        return record_wise(X) if is_private and takes_table(self) else X

    def rehearse(self, X, y=None, **params):
        """What a fit to these data would be charged; nothing is charged or released.

        It depends on public sizes and parameters alone. Ask an accountant with it whether
        it affords a search: ``accountant.affords(pipe.rehearse(X, y), releases=n_fits)``.

        Parameters
        ----------
        X, y, **params
            As for `fit`.

        Returns
        -------
        JointMechanism or None
            None if nothing would be released.

        Examples
        --------
        >>> from skdirdp import DirichletNB, PrivacyAccountant, make_private_pipeline
        >>> accountant = PrivacyAccountant(epsilon=1.0)
        >>> pipe = make_private_pipeline(
        ...     DirichletNB(classes=[0, 1], max_count=3, max_total=3), epsilon=0.4
        ... )
        >>> mechanism = pipe.rehearse([[1, 2], [3, 0]], [0, 1])
        >>> accountant.affords(mechanism, releases=2), accountant.affords(mechanism, releases=9)
        (True, False)
        """
        self._validate_params()
        self._validate_steps()
        if not self._holds_private_steps():
            return None
        return self._rehearsed(X, y, params).joint

    def _rehearsed(self, X: Any, y: Any, params: dict) -> JointPlan:
        """Describe the releases, the charge and the gaps of a fit, without fitting."""
        with suppress_other_warnings(bool(np.isfinite(self.epsilon))):
            params, groups = self._shared_groups(params)
            return self._plan(Pipeline.fit, X, y, params, groups)[0]

    def _fit_privately(self, fit: Callable[..., Any], X: Any, y: Any, params: dict) -> Any:
        if ReleaseContext.current() is not None:
            # A step of another private pipeline, whose budget counts.
            return fit(self, X, y, **params)
        self._validate_params()
        self._validate_steps()
        is_private = bool(np.isfinite(self.epsilon))
        with suppress_other_warnings(is_private):
            leaking = self._warn_of_leaking_steps() if is_private else []
            if self._holds_private_steps():
                return self._fit_jointly(fit, X, y, params, leaking)
            try:
                if is_private:
                    hide_records(self, (), learns_nothing)
                result = fit(self, X, y, **params)
            finally:
                show_classes(self)
            self.privacy_ = self._report((), leaking, ())
            return result

    def _fit_jointly(
        self, fit: Callable[..., Any], X: Any, y: Any, params: dict, leaking: list[str]
    ) -> Any:
        """Fit copies of the steps, whose private ones release what is paid for."""
        params, groups = self._shared_groups(params)
        plan, prefix = self._plan(fit, X, y, params, groups)
        paid = PaidFit(plan, groups)
        copy = self._copy(paid, prefix.again())
        # Generators are one object, as in Pipeline: two fits must not draw the same noise.
        for name, value in self.get_params(deep=True).items():
            if isinstance(value, (np.random.Generator, np.random.RandomState)):
                copy.set_params(**{name: value})
        joint = plan.joint
        if joint is not None:
            charge(self, *joint.as_charge(), common_unit(each.unit for each in plan.plans))
        with paid.active():
            result = fit(copy, X, y, **params)
        show_classes(copy)
        report = self._report(
            () if joint is None else joint.parts,
            [*leaking, *plan.not_covered],
            tuple(paid.reports),
        )
        # Together, so that whoever reads meanwhile has a report of the steps that are there.
        self.__dict__.update(steps=copy.steps, privacy_=report)
        return result

    def _shared_groups(self, params: dict) -> tuple[dict, Any]:
        """Parameters of `fit` without ids of persons, and the ids that all steps count by."""
        names = [
            name
            for name in params
            if name == "groups"
            or (name.endswith("__groups") and self._is_private_step(name.partition("__")[0]))
        ]
        given = [params[name] for name in names if params[name] is not None]
        if not given:
            return {name: value for name, value in params.items() if name not in names}, None
        shared = SharedGroups(given[0])
        for groups in given[1:]:
            shared.take(groups)
        moved = find_row_change(self)
        if moved is not None:
            raise ValueError(
                f"groups must not be given where {type(moved[1]).__name__} in step {moved[0]!r} "
                "holds a private estimator: it may fit that to other rows, whose persons would "
                "not be known. Nothing was charged"
            )
        return {name: value for name, value in params.items() if name not in names}, given[0]

    def _is_private_step(self, name: str) -> bool:
        return any(name == each and private_estimators(step) for each, step in self.steps)

    def _plan(
        self, fit: Callable[..., Any], X: Any, y: Any, params: dict, groups: Any
    ) -> "tuple[JointPlan, _Prefix]":
        """The noise of all steps, and the steps before the first private one, fitted."""
        self._check_not_adaptive()
        rehearsal = Rehearsal(Budget.from_estimator(self), groups, partial(feeds, self))
        prefix = _Prefix(check_memory(self.memory))
        copy = self._copy(rehearsal, prefix)
        copy.verbose = False
        copy.__dict__.pop("_skl_callbacks", None)
        label_by_path(copy, self, rehearsal.accountant)
        try:
            with rehearsal.active():
                fit(copy, X, y, **params)
        finally:
            rehearsal.accountant.check()
        self._check_all_released(rehearsal)
        return JointPlan(rehearsal, self.shares, self.steps[-1][0]), prefix

    def _holds_private_steps(self) -> bool:
        return any(private_estimators(step) for _, _, step in self._iter())

    def _copy(self, stage: Rehearsal | PaidFit, prefix: "_Prefix") -> "PrivatePipeline":
        copy = clone(self)
        if np.isfinite(self.epsilon):
            hide_records(copy, reachable(self), learns_nothing)
        copy.memory = prefix
        copy._stage = stage
        return copy

    def _log_message(self, step_idx):
        # Called for every step right before it is fitted.
        stage = vars(self).get("_stage")
        if stage is not None:
            stage.enter(*self.steps[step_idx])
        return super()._log_message(step_idx)

    def _check_not_adaptive(self) -> None:
        found = find_adaptive(self)
        if found is not None and np.isfinite(self.epsilon):
            path, part = found
            raise ValueError(
                f"{type(part).__name__} in step {path!r} cannot hold private estimators in a "
                "PrivatePipeline: it chooses by results what it fits, or how often, so that the "
                "noise cannot be chosen before. Nothing was charged. Put the PrivatePipeline "
                f"into {type(part).__name__} instead, where every fit has its own budget"
            )

    def _check_all_released(self, rehearsal: Rehearsal) -> None:
        heard = {step for step, _ in rehearsal.plans}
        for _, name, step in self._iter():
            if name not in heard and private_estimators(step):
                raise RuntimeError(
                    f"step {name!r} holds a private estimator that was not fitted with the "
                    "others: it has no columns, or it was fitted in another thread or process, "
                    "which knows nothing of the budget. Nothing was charged"
                )

    def _warn_of_leaking_steps(self) -> list[str]:
        leaking = [finding for finding in check_pipeline(self) if finding.verdict == "leaks"]
        for finding in leaking:
            warn(
                f"step {finding.step!r}: {finding.estimator} {finding.reason}, which the privacy "
                "guarantee does not cover",
                PrivacyLeakWarning,
            )
        return [f"{finding.step} ({finding.estimator})" for finding in leaking]

    def _report(self, mechanisms, leaks, steps) -> PipelineReport:
        return PipelineReport(
            epsilon=float(self.epsilon),
            delta=float(self.delta) if self.order is None else None,
            order=None if self.order is None else float(self.order),
            adjacency=self.adjacency,
            mechanisms=mechanisms,
            not_covered=tuple(dict.fromkeys(leaks)),
            unit=common_unit(report.unit for _, report in steps),
            n_records=next((report.n_records for _, report in steps), None),
            steps=steps,
        )

    def __getitem__(self, ind):
        """A step by number or name; or with a slice, a pipeline of these steps."""
        if not isinstance(ind, slice):
            return super().__getitem__(ind)
        if ind.step not in (1, None):
            raise ValueError("Pipeline slicing only supports a step of 1")
        parameters = self.get_params(deep=False)
        parameters["steps"] = steps = self.steps[ind]
        if isinstance(self.shares, Mapping):
            names = {name for name, _ in steps}
            parameters["shares"] = {
                name: share for name, share in self.shares.items() if name in names
            } or None
        return type(self)(**parameters)


class _Prefix:
    """The memory of one fit: steps before the first private one are fitted once.

    It has the interface of `joblib.Memory`, as `Pipeline` uses it. What follows a private
    step is never remembered, for it depends on the noise.
    """

    #: So that Pipeline fits its steps and not further copies of them.
    location = None

    def __init__(self, memory: Any, fitted: "list[Any] | None" = None):
        self._memory = memory
        self._fitted: list[Any] = []
        self._known = iter(fitted or ())
        self._ended = False

    def again(self) -> "_Prefix":
        """The same for a second pass over the same steps, which finds them fitted."""
        return _Prefix(self._memory, self._fitted)

    def cache(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        cached = self._memory.cache(function, **options)

        def fit_transform(transformer, *args, **kwargs):
            self._ended = self._ended or bool(private_estimators(transformer))
            if self._ended:
                return function(transformer, *args, **kwargs)
            found = next(self._known, None)
            if found is None:
                found = cached(transformer, *args, **kwargs)
                self._fitted.append(found)
            return found

        return fit_transform


def make_private_pipeline(
    *steps,
    epsilon=1.0,
    delta=1e-5,
    order=None,
    adjacency="replace",
    shares=None,
    accountant=None,
    label=None,
    transform_input=None,
    memory=None,
    verbose=False,
) -> PrivatePipeline:
    """A `PrivatePipeline` whose steps are named after their classes.

    Parameters
    ----------
    *steps : estimators
        The steps, in order.
    epsilon, delta, order, adjacency, shares, accountant, label
        As for `PrivatePipeline`. The names in `shares` are those of the classes in lower case.
    transform_input, memory, verbose
        As for `Pipeline`.

    Returns
    -------
    PrivatePipeline

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from skdirdp import DirichletNB, make_private_pipeline
    >>> make_private_pipeline(
    ...     CountVectorizer(vocabulary=["good", "bad"]),
    ...     DirichletNB(classes=[0, 1], max_count=3, max_total=5),
    ...     epsilon=0.5,
    ... ).epsilon
    0.5
    """
    return PrivatePipeline(
        _name_estimators(steps),
        epsilon=epsilon,
        delta=delta,
        order=order,
        adjacency=adjacency,
        shares=shares,
        accountant=accountant,
        label=label,
        transform_input=transform_input,
        memory=memory,
        verbose=verbose,
    )
