"""Which steps of a pipeline are private, learn nothing from the data, or leak."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..base import PrivateEstimator
from .knowledge import META_ESTIMATORS, SAMPLERS, SEEN_BY_FIT, TRANSFORMERS, Rule, is_known

_LEARNERS: dict[str, Rule] = {**TRANSFORMERS, **SAMPLERS}

#: What users have said of their own classes.
_REGISTERED: dict[type, Rule] = {}


@dataclass(frozen=True)
class Finding:
    """What `check_pipeline` finds of one estimator.

    Parameters
    ----------
    step : str
        The name of the step; of an estimator inside another, as for `set_params`.
    estimator : str
        The name of its class.
    verdict : {"private", "learns nothing", "leaks"}
        What it does to the guarantee.
    reason : str
        What it learns, or why it is not known.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from skdirdp import check_pipeline
    >>> (finding,) = check_pipeline(make_pipeline(MinMaxScaler()))
    >>> print(finding)
    minmaxscaler (MinMaxScaler) leaks: learns the smallest and largest values
    """

    step: str
    estimator: str
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.step} ({self.estimator}) {self.verdict}{why}"


def register_step(estimator: type, rule: Rule) -> None:
    """Say what a class of your own learns from the data.

    Parameters
    ----------
    estimator : type
        Its instances, not those of subclasses.
    rule : None, str or callable
        None if it learns nothing from the data and treats every record by itself; what it
        learns otherwise. Or a function that gives either for an instance. A step that learns
        nothing is shown made-up records instead of yours in the fit of a `PrivatePipeline`,
        with the columns and dtypes of yours, and no labels.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdirdp import check_pipeline
    >>> from skdirdp.pipeline import register_step
    >>> class Lowercase(TransformerMixin, BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return [text.lower() for text in X]
    >>> print(*check_pipeline(make_pipeline(Lowercase())))
    lowercase (Lowercase) leaks: is not known to learn nothing from the data
    >>> register_step(Lowercase, None)
    >>> print(*check_pipeline(make_pipeline(Lowercase())))
    lowercase (Lowercase) learns nothing
    """
    if not isinstance(estimator, type):
        raise TypeError(f"estimator must be a class; got {estimator!r}")
    if not (rule is None or isinstance(rule, str) or callable(rule)):
        raise TypeError(f"rule must be None, a string or a function; got {rule!r}")
    _REGISTERED[estimator] = rule


def check_pipeline(pipe: Any) -> list[Finding]:
    """Which steps of a pipeline are private, learn nothing from the data, or leak.

    By the class and the parameters of each step; nothing is fitted. What is not known to
    learn nothing is said to leak. A `PrivatePipeline` shows steps that learn nothing no record;
    of any other pipeline it is said what their fit would tell. Beside that, a private step
    leaks the public parameters that it lacks, which its fit says.

    Parameters
    ----------
    pipe : Pipeline, PrivatePipeline or any other estimator
        Estimators inside others are looked at too.

    Returns
    -------
    list of Finding
        In the order of the steps.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdirdp import DirichletNB, check_pipeline
    >>> for finding in check_pipeline(make_pipeline(TfidfVectorizer(), DirichletNB())):
    ...     print(finding)
    tfidfvectorizer (TfidfVectorizer) leaks: learns the vocabulary
    dirichletnb (DirichletNB) private
    """
    if hasattr(pipe, "steps"):
        epsilon = _common_epsilon(pipe)
        return [finding for name, step in pipe.steps for finding in _check(name, step, epsilon)]
    return [*_check(type(pipe).__name__, pipe, None)]


def _common_epsilon(pipe: Any) -> float | None:
    """The epsilon that counts instead of those of the steps, where there is one."""
    return getattr(pipe, "epsilon", None)


def _check(name: str, step: Any, epsilon: float | None) -> Iterator[Finding]:
    if step is None or isinstance(step, str):
        yield Finding(name, str(step), "learns nothing")
        return
    kind = type(step).__name__
    if isinstance(step, PrivateEstimator):
        fault = _fault(step, epsilon)
        yield Finding(name, kind, "leaks" if fault else "private", fault)
        return
    if kind in META_ESTIMATORS and is_known(step):
        reason = _apply(META_ESTIMATORS[kind], step) or _chooses_columns(step)
        reason = reason or _seen_by_fit(step, epsilon)
        if reason:
            yield Finding(name, kind, "leaks", reason)
        inside = _common_epsilon(step) if epsilon is None else epsilon
        for inner, child in _children(step):
            yield from _check(f"{name}__{inner}", child, inside)
        return
    reason = _learns(step) or _seen_by_fit(step, epsilon)
    yield Finding(name, kind, "leaks" if reason else "learns nothing", reason or "")


def learns_nothing(step: Any) -> bool:
    """Whether an estimator that holds no other one learns nothing from the data."""
    return not isinstance(step, PrivateEstimator) and _learns(step) is None


def _seen_by_fit(step: Any, epsilon: float | None) -> str | None:
    """A description of the facts about the records that a fit to them would reveal."""
    if (epsilon is not None and np.isfinite(epsilon)) or not is_known(step):
        return None
    return _apply(SEEN_BY_FIT.get(type(step).__name__), step)


def _learns(step: Any) -> str | None:
    kind = type(step).__name__
    if type(step) in _REGISTERED:
        return _apply(_REGISTERED[type(step)], step)
    if kind in _LEARNERS and is_known(step):
        return _apply(_LEARNERS[kind], step)
    return "is not known to learn nothing from the data"


def _apply(rule: Rule, step: Any) -> str | None:
    return rule(step) if callable(rule) else rule


def _fault(step: PrivateEstimator, epsilon: float | None) -> str:
    """Why an estimator of this package is not private as it stands."""
    if getattr(step, "mechanism", None) == "ehdl":
        return "has a mechanism that is not private"
    if np.isinf(step.epsilon if epsilon is None else epsilon):
        return "has no noise: epsilon is infinite"
    return ""


def _chooses_columns(step: Any) -> str | None:
    """Columns of a ColumnTransformer may be chosen by a function, which sees the data."""
    for _, _, columns in getattr(step, "transformers", None) or ():
        by_dtype = type(columns).__name__ == "make_column_selector"
        if callable(columns) and not by_dtype:
            return "chooses columns by a function of the data"
    return None


def _children(step: Any) -> Iterator[tuple[str, Any]]:
    """Estimators inside another, by the names that `set_params` has for them."""
    named = [
        each
        for attribute in ("steps", "transformers", "transformer_list", "estimators")
        for each in getattr(step, attribute, None) or ()
        if isinstance(each, tuple)
    ]
    if named:
        yield from ((each[0], each[1]) for each in named)
        remainder = getattr(step, "remainder", None)
        if isinstance(remainder, BaseEstimator):
            yield "remainder", remainder
        return
    for name, value in step.get_params(deep=False).items():
        if isinstance(value, BaseEstimator):
            yield name, value
