"""Pipeline with one privacy budget for all of its steps."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_memory

from .._docs import shared_docs
from .._messages import format_exact, suppress_external_warnings, warn
from .._persons import SharedGroups, common_unit
from .._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    _name_estimators,
    check_callbacks,
    take_records,
)
from ..accounting.worst_case import ADJACENCIES
from ..base import Budget, PrivacyReport, ReleaseContext, charge
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import JointMechanism
from ..schema import record_wise
from . import contexts
from .check import check_pipeline
from .inputs import FitInputs, labelled_records, read_inputs
from .public_steps import reachable, restore_classes, takes_table, use_made_up_records


@dataclass(frozen=True)
class PipelineReport(PrivacyReport):
    """Privacy guarantee of the fit of a pipeline, with a report for each private step.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered, unit, n_records
        As for `PrivacyReport`, of all steps together. `not_covered` names parameters as in
        `set_params`, and steps that learn from the data without noise.
    steps : tuple of (str, PrivacyReport), default=()
        Report of each private estimator, by the name of its step. Each epsilon is that of the
        estimator alone. They add up to more than the epsilon of the pipeline.

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

    def _describe_releases(self) -> str:
        means = super()._describe_releases()
        for name, report in self.steps:
            # Rounded up, because a reader may quote it as a guarantee.
            epsilon = f"{math.ceil(report.epsilon * 1e4) / 1e4:.4f}"
            guarantee = ""
            if report.order is not None:
                guarantee = f"({format_exact(report.order)}, {epsilon})"
            elif report.delta is not None:
                guarantee = f"({epsilon}, {format_exact(report.delta)})"
            means += f"; {name!r} alone {guarantee}: {report._describe_releases()}"
        return means


def _on_converted_records(name: str) -> Any:
    """Return a method of `Pipeline` that first converts the table record by record."""
    inherited = vars(Pipeline)[name]

    @wraps(inherited.fn)
    def method(self, X, *args, **params):
        return inherited.fn(self, self._converted(X), *args, **params)

    method.__doc__ = f"""Apply `Pipeline.{name}` to records that are converted cell by cell.

    Parameters
    ----------
    X : array-like
        Records.

    Returns
    -------
    object
        Result of `Pipeline.{name}`.
    """
    return available_if(inherited.check)(method)


@shared_docs
class PrivatePipeline(Pipeline):
    """scikit-learn's `Pipeline`, with one privacy budget for the whole fit.

    The private steps, including those inside a `ColumnTransformer` or a `FeatureUnion`, are
    calibrated together, so that their releases compose to the budget. They are charged together
    before the first release. Their own `epsilon`, `delta`, `order`, `adjacency` and
    `accountant` are ignored; `mechanism`, `n_samples`, `random_state` and all bounds are used.

    Parameters
    ----------
    steps : list of (str, estimator) tuples
        As for `Pipeline`.
    {epsilon, delta, order, adjacency}
    shares : dict of {str: float}, default=None
        Shares of the budget for the private steps, by name: positive numbers; only their
        ratios matter. Variances of the privacy loss add up to the budget, so a share of
        1/12 is about a quarter of epsilon. If None and the last step is private, the steps
        before it get 1/12, or less, down to 1/300, if the noise would be large for their public
        sizes. Otherwise, and for several estimators in one step, shares are proportional to the
        number of tables.
    {accountant, label}
    transform_input : list of str, default=None
        As for `Pipeline`.
    memory : str or object with the joblib.Memory interface, default=None
        As for `Pipeline`. Only steps before the first private one are cached, because later
        ones depend on the noise.
    verbose : bool, default=False
        As for `Pipeline`.

    Attributes
    ----------
    privacy_ : PipelineReport
        Privacy guarantee of the fit, for all steps together and for each alone.
    named_steps : Bunch
        Fitted copies of the steps.
    {classes_, n_features_in_, feature_names_in_}

    Notes
    -----
    A rehearsal finds the tables of all steps before the first release: it fits copies of the
    steps with other noise and discards them. So a step after a private one needs its public
    parameters (bounds and numbers of categories right after a histogram are known), and a step
    that fails on the data fails before the charge. If a fit fails after the charge, the charge
    remains in the ledger, and the pipeline is restored.

    Errors of steps of other libraries may quote records. A private fit shows only the step and
    the type of the error. A `PrivacyLeakWarning` and `privacy_` name the steps that learn from
    the data without noise; see `check_pipeline`.

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
        steps: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        adjacency: str = "replace",
        shares: dict[str, float] | None = None,
        accountant: Any = None,
        label: str | None = None,
        transform_input: list[str] | None = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.adjacency = adjacency
        self.shares = shares
        self.accountant = accountant
        self.label = label

    def fit(self, X: Any, y: Any = None, **params: Any) -> "PrivatePipeline":
        """Fit all steps, and release the private ones.

        Parameters
        ----------
        X : iterable
            Training data for the first step.
        y : iterable or str, default=None
            Training targets. If the first step has a schema, the name of a column of
            categories may be given: it is taken out of X, its declared values are the classes,
            and a record without a declared label is not counted.
        **params : dict of str -> object
            As for `Pipeline.fit`. `groups`, the person of each record, is passed to every
            private step, including those inside others. A schema with a `person` replaces it.

        Returns
        -------
        self
        """
        self._fit_privately(Pipeline.fit, X, y, params)
        return self

    @available_if(Pipeline._can_fit_transform)
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps, and transform the data with them.

        Parameters
        ----------
        X, y, **params
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_transformed_features)
            The transformed records, which are not private.
        """
        return self._fit_privately(Pipeline.fit_transform, X, y, params)

    @available_if(vars(Pipeline)["fit_predict"].check)
    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps, and predict for the same data with the last step.

        Parameters
        ----------
        X, y, **params
            As for `fit`.

        Returns
        -------
        ndarray
            Predictions of the last step.
        """
        return self._fit_privately(Pipeline.fit_predict, X, y, params)

    @available_if(lambda self: hasattr(Pipeline, "set_callbacks"))
    def set_callbacks(self, *callbacks: Any) -> "PrivatePipeline":
        """Set the callbacks of the fit, of which only `ProgressBar` is allowed.

        Other callbacks could store exact scores of the steps. Needs scikit-learn 1.9.

        Parameters
        ----------
        *callbacks : sklearn.callback.ProgressBar

        Returns
        -------
        self
        """
        check_callbacks(callbacks)
        return super().set_callbacks(*callbacks)

    def to_sklearn(self) -> Pipeline:
        """Return the fitted steps as a `Pipeline` of scikit-learn, such as for ONNX.

        Returns
        -------
        Pipeline
            Fitted. Private steps are replaced by the result of their `to_sklearn`.
        """
        check_is_fitted(self)
        plain = {
            n: step.to_sklearn() if hasattr(step, "to_sklearn") else step for n, step in self.steps
        }
        private = [n for n, s in plain.items() if any("privacy_" in vars(e) for e in reachable(s))]
        if private:
            raise ValueError(f"steps must have a method to_sklearn; got {', '.join(private)}")
        return Pipeline(list(plain.items()), transform_input=self.transform_input)

    predict: Any = _on_converted_records("predict")
    predict_proba: Any = _on_converted_records("predict_proba")
    predict_log_proba: Any = _on_converted_records("predict_log_proba")
    decision_function: Any = _on_converted_records("decision_function")
    score_samples: Any = _on_converted_records("score_samples")
    transform: Any = _on_converted_records("transform")

    @available_if(vars(Pipeline)["score"].check)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> float:
        """Return the score of the last step, which is exact and not private.

        Parameters
        ----------
        X : iterable
            Records.
        y : iterable or str, default=None
            Targets. If the first step has a schema, the name of a column may be given;
            records without a declared label are left out.
        sample_weight : array-like, default=None
            Weights of the records.
        **params : dict of str -> object
            As for `Pipeline.score`.
        """
        if isinstance(y, str):
            X, y, rows = labelled_records(self, X, y)
            sample_weight = None if sample_weight is None else take_records(sample_weight, rows)
        score = vars(Pipeline)["score"].fn
        return score(self, self._converted(X), y, sample_weight=sample_weight, **params)

    def _converted(self, X: Any) -> Any:
        """Convert a table record by record, if the first step needs it."""
        is_private = isinstance(self.epsilon, Real) and self.epsilon < np.inf
        return record_wise(X) if is_private and takes_table(self) else X

    def rehearse(self, X: Any, y: Any = None, **params: Any) -> JointMechanism | None:
        """Return the charge of a fit to these data; nothing is charged or released.

        Parameters
        ----------
        X, y, **params
            As for `fit`.

        Returns
        -------
        JointMechanism or None
            It depends only on public sizes and parameters. None if nothing would be released.

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
        return self._rehearsed(X, y, params).joint if self._has_private_steps() else None

    def _rehearsed(self, X: Any, y: Any, params: dict) -> contexts.JointPlan:
        with suppress_external_warnings(bool(np.isfinite(self.epsilon))):
            return self._plan(Pipeline.fit, self._open(X, y, params))[0]

    def _fit_privately(self, fit: Callable[..., Any], X: Any, y: Any, params: dict) -> Any:
        if ReleaseContext.current() is not None:
            # A step of another private pipeline, which has the budget.
            return fit(self, X, y, **params)
        self._validate_params()
        self._validate_steps()
        is_private = bool(np.isfinite(self.epsilon))
        with suppress_external_warnings(is_private):
            leaking = self._warn_of_leaking_steps()
            if self._has_private_steps():
                return self._fit_jointly(fit, X, y, params, leaking)
            try:
                if is_private:
                    use_made_up_records(self)
                inputs = self._open(X, y, params)
                result = fit(self, inputs.X, inputs.y, **inputs.params)
            finally:
                restore_classes(self)
            self.privacy_ = self._report((), leaking, ())
            return result

    def _fit_jointly(self, fit: Callable, X: Any, y: Any, params: dict, leaking: list[str]) -> Any:
        inputs = self._open(X, y, params)
        plan, prefix = self._plan(fit, inputs)
        charged = contexts.ChargedFit(plan, inputs)
        copy = self._copy(charged, _Prefix(prefix.memory, prefix.fitted))
        # Copies share generators: two fits must not draw the same noise.
        for name, value in self.get_params(deep=True).items():
            if isinstance(value, (np.random.Generator, np.random.RandomState)):
                copy.set_params(**{name: value})
        mechanisms = () if plan.joint is None else plan.joint.parts
        if plan.joint is not None:
            charge(self, *plan.joint.as_charge(), common_unit(each.unit for each in plan.plans))
        with charged.active():
            result = fit(copy, inputs.X, inputs.y, **inputs.params)
        restore_classes(copy)
        report = self._report(mechanisms, [*leaking, *plan.not_covered], tuple(charged.reports))
        # Both are set at once, so that other threads see a report that matches the steps.
        self.__dict__.update(steps=copy.steps, privacy_=report)
        return result

    def _shared_groups(self, params: dict) -> tuple[dict, Any]:
        """Return the parameters of `fit` without person ids, and the common ids."""
        private = {name for name, step in self.steps if contexts.private_estimators(step)}
        names = {"groups"} | {
            name for name in params if name.endswith("__groups") and name.split("__")[0] in private
        }
        others = {name: value for name, value in params.items() if name not in names}
        given = [params[name] for name in params if name in names and params[name] is not None]
        for groups in given[1:]:
            SharedGroups(given[0]).take(groups)
        return others, given[0] if given else None

    def _open(self, X: Any, y: Any, params: dict) -> FitInputs:
        """Return the records, labels and ids of a fit, as the schema of the first step states."""
        inputs = read_inputs(self, X, y, *self._shared_groups(params))
        if inputs.groups is not None or inputs.labelled is not None:
            contexts.check_rows_are_kept(self)
        return inputs

    def _plan(self, fit: Callable, inputs: FitInputs) -> "tuple[contexts.JointPlan, _Prefix]":
        """Return the calibrated plan, and the fitted steps before the first private one."""
        if np.isfinite(self.epsilon):
            contexts.check_not_adaptive(self)
        rehearsal = contexts.Rehearsal(self, Budget.from_estimator(self), inputs)
        prefix = _Prefix(check_memory(self.memory))
        copy = self._copy(rehearsal, prefix)
        copy.verbose = False
        copy.__dict__.pop("_skl_callbacks", None)
        contexts.label_by_path(copy, self, rehearsal.accountant)
        try:
            with rehearsal.active():
                fit(copy, inputs.X, inputs.y, **inputs.params)
        finally:
            rehearsal.accountant.check()
        released = {step for step, _ in rehearsal.plans}
        for _, name, step in self._iter():
            if name not in released and contexts.private_estimators(step):
                raise RuntimeError(
                    f"step {name!r} contains a private estimator that was not fitted with the "
                    "others: it has no columns, or it was fitted in another thread or process, "
                    "outside the budget. Nothing was charged"
                )
        return contexts.JointPlan(rehearsal, self.shares, self.steps[-1][0]), prefix

    def _has_private_steps(self) -> bool:
        return any(contexts.private_estimators(step) for _, _, step in self._iter())

    def _copy(self, stage: ReleaseContext, prefix: "_Prefix") -> "PrivatePipeline":
        copy = clone(self)
        if np.isfinite(self.epsilon):
            use_made_up_records(copy, reachable(self))
        copy.memory = prefix
        copy._stage = stage
        return copy

    def _log_message(self, step_idx):
        # Called for every step right before it is fitted.
        stage = vars(self).get("_stage")
        if stage is not None:
            stage.enter(*self.steps[step_idx])
        return super()._log_message(step_idx)

    def _warn_of_leaking_steps(self) -> list[str]:
        """Warn about steps that learn from the data without noise, and return their names."""
        if np.isinf(self.epsilon):
            return []
        leaking = [finding for finding in check_pipeline(self) if finding.verdict == "leaks"]
        for finding in leaking:
            found = f"step {finding.step!r}: {finding.estimator} {finding.reason}"
            warn(f"{found}, which the privacy guarantee does not cover", PrivacyLeakWarning)
        return [f"{finding.step} ({finding.estimator})" for finding in leaking]

    def _report(self, mechanisms, leaks, steps) -> PipelineReport:
        not_covered = tuple(dict.fromkeys(leaks))
        unit = common_unit(report.unit for _, report in steps)
        n_records = next((report.n_records for _, report in steps), None)
        budget = Budget.from_estimator(self).claimed()
        return PipelineReport(*budget, mechanisms, not_covered, unit, n_records, steps)

    def __getitem__(self, ind):
        """Return a step by number or name, or a pipeline of the steps in a slice."""
        result = super().__getitem__(ind)
        if not isinstance(ind, slice):
            return result
        parameters = {**self.get_params(deep=False), "steps": result.steps}
        if isinstance(self.shares, Mapping):
            shares = {name: self.shares[name] for name, _ in result.steps if name in self.shares}
            parameters["shares"] = shares or None
        return type(self)(**parameters)


class _Prefix:
    """Memory of one fit, in which steps before the first private one are fitted once."""

    #: Without a location Pipeline fits its steps and not copies of them.
    location = None

    def __init__(self, memory: Any, known: Sequence[Any] = ()):
        self.memory = memory
        self.fitted: list[Any] = []
        self._known = iter(known)
        self._ended = False

    def cache(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        cached = self.memory.cache(function, **options)

        def fit_transform(transformer, *args, **kwargs):
            self._ended = self._ended or bool(contexts.private_estimators(transformer))
            if self._ended:  # later steps depend on the noise
                return function(transformer, *args, **kwargs)
            result = next(self._known, None)
            if result is None:
                result = cached(transformer, *args, **kwargs)
                self.fitted.append(result)
            return result

        return fit_transform


def make_private_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    order: float | None = None,
    adjacency: str = "replace",
    shares: dict[str, float] | None = None,
    accountant: Any = None,
    label: str | None = None,
    transform_input: list[str] | None = None,
    memory: Any = None,
    verbose: bool = False,
) -> PrivatePipeline:
    """Return a `PrivatePipeline` whose steps are named after their classes.

    Parameters
    ----------
    *steps : estimators
        Steps in order.
    epsilon, delta, order, adjacency, shares, accountant, label
        As for `PrivatePipeline`. `shares` has the names of the classes in lower case.
    transform_input, memory, verbose
        As for `Pipeline`.

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
