"""A candidate: the estimator with one choice of parameters, as a pipeline with one budget.

Whatever the estimator is, a single one, a `Pipeline` or a `PrivatePipeline`, it becomes a
`PrivatePipeline`, which can be rehearsed and whose budget is a plain parameter.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._messages import warn
from .._sklearn_compat import _routing_enabled
from ..base import Budget, PrivacyReport
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import JointMechanism
from ..mechanisms.additive import SelectionMechanism
from ..pipeline import PrivatePipeline
from ..pipeline.structure import reachable

#: Parameters that follow from the search's own.
BUDGET = frozenset({"epsilon", "delta", "order", "adjacency", "accountant"})
_STEP = "estimator"

#: The reason why searches do not protect persons with several rows.
ROW_BY_ROW = (
    "a search holds out rows and scores rows, and its noise is for one row, while a person with "
    "several could be fitted to and held out at once. Choose the parameters on public records, or "
    "on a table with one row for each person, and fit the model with groups and max_rows"
)


class Records(NamedTuple):
    """Data to fit to, with what `fit` takes beside them."""

    X: Any
    y: Any
    params: dict[str, Any]


def check_candidates(candidates: Sequence[Mapping[str, Any]], estimator: Any) -> None:
    """Refuse parameters that are not a candidate's to choose.

    Parameters
    ----------
    candidates : sequence of dict
    estimator : estimator
    """
    for name in dict.fromkeys(name for each in candidates for name in each):
        if name.split("__")[-1] in BUDGET:
            raise ValueError(
                f"{name} must not be searched over: it follows from the budget of the search"
            )
    for each in ({}, *candidates):
        known = {**estimator.get_params(deep=True), **each}
        rows = [name for name, value in known.items() if _is_of_persons(name, value)]
        if rows:
            raise ValueError(f"{rows[0]} must be 1 inside a search: {ROW_BY_ROW}")


def _is_of_persons(name: str, value: Any) -> bool:
    return name.split("__")[-1] == "max_rows" and not (value is None or value == 1)


def make_candidate(estimator: Any, parameters: Mapping[str, Any], terms: Budget) -> PrivatePipeline:
    """An unfitted copy with these parameters and this budget, charged to nobody.

    Parameters
    ----------
    estimator : estimator
    parameters : dict
        As for `estimator.set_params`.
    terms : Budget

    Returns
    -------
    PrivatePipeline
    """
    copy = clone(estimator).set_params(
        **{name: clone(value, safe=False) for name, value in parameters.items()}
    )
    budget = {**terms._asdict(), "accountant": None}
    if isinstance(copy, PrivatePipeline):
        return copy.set_params(**budget)
    if isinstance(copy, Pipeline):
        return PrivatePipeline(
            copy.steps,
            transform_input=copy.transform_input,
            memory=copy.memory,
            verbose=copy.verbose,
            **budget,
        )
    return PrivatePipeline([(_STEP, copy)], **budget)


def is_wrapped(estimator: Any) -> bool:
    """Whether a candidate has the estimator as its only step."""
    return not isinstance(estimator, Pipeline)


class Rehearsed(NamedTuple):
    """The public outcome of a rehearsal.

    Attributes
    ----------
    released : JointMechanism
        All that a fit would release.
    not_covered : tuple of str
        As `PrivacyReport.not_covered`.
    """

    released: JointMechanism
    not_covered: tuple[str, ...]


def rehearse(candidate: PrivatePipeline, records: Records, wrapped: bool) -> Rehearsed:
    """What fitting a candidate would release; nothing is released.

    Parameters
    ----------
    candidate : PrivatePipeline
    records : Records
    wrapped : bool
        As `is_wrapped` says of the estimator.

    Returns
    -------
    Rehearsed
    """
    leaking = candidate._warn_of_leaking_steps() if np.isfinite(candidate.epsilon) else []
    planned = candidate._rehearsed(records.X, records.y, _fit_params(records, wrapped))
    found = planned.joint
    if found is None:
        raise ValueError(
            "estimator must be private, or hold a step that is: nothing that it learns from the "
            "records would have noise. DirichletNB and DirichletCategoricalNB are such"
        )
    names = [each for each, _ in found.parts if isinstance(each, SelectionMechanism)]
    if any(not each.is_exact for each in names):
        raise ValueError(
            "PrivateCountVectorizer must not learn its vocabulary inside a search: every run would "
            "take its part of delta. Fit it before, and pass vocabulary=words.vocabulary_. "
            "Nothing was charged"
        )
    return Rehearsed(found, (*leaking, *planned.not_covered))


def fit_candidate(candidate: PrivatePipeline, records: Records, wrapped: bool) -> Any:
    """The estimator of a candidate, fitted, and what its fit released.

    Parameters
    ----------
    candidate : PrivatePipeline
    records : Records
    wrapped : bool

    Returns
    -------
    estimator, report : estimator, PrivacyReport
    """
    candidate.fit(records.X, records.y, **_fit_params(records, wrapped))
    return (candidate.steps[0][1] if wrapped else candidate), candidate.privacy_


def _fit_params(records: Records, wrapped: bool) -> dict[str, Any]:
    if not wrapped or _routing_enabled():  # then the step is asked what it takes
        return records.params
    return {f"{_STEP}__{name}": value for name, value in records.params.items()}


def give_back(fitted: Any, estimator: Any, own: Mapping[str, Any]) -> None:
    """Let a pipeline that is fitted again be paid for, as what it was made from would be.

    Parameters
    ----------
    fitted : estimator
        Changed in place if it is a pipeline, whose budget was that of a run.
    estimator : estimator
        What it was made from.
    own : dict
        The budget of the search, for a pipeline that had none.
    """
    if not is_wrapped(estimator):
        given = estimator if isinstance(estimator, PrivatePipeline) else None
        fitted.set_params(
            **{name: getattr(given, name) if given is not None else own[name] for name in own}
        )


def public_names(names: Sequence[str], wrapped: bool) -> tuple[str, ...]:
    """Names of parameters as the user of a search knows them."""
    prefix = f"{_STEP}__"
    return tuple(name.removeprefix(prefix) if wrapped else name for name in names)


def seed_noise(candidate: PrivatePipeline, seed: int) -> PrivatePipeline:
    """Make all noise of a candidate reproducible that is not so already.

    Parameters
    ----------
    candidate : PrivatePipeline
    seed : int

    Returns
    -------
    PrivatePipeline
        The same object.
    """
    names = [
        name
        for name, value in candidate.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    ]
    seeds = np.random.default_rng(seed).integers(2**31, size=len(names)).tolist()
    return candidate.set_params(**dict(zip(names, seeds, strict=True)))


def set_report(fitted: Any, report: PrivacyReport) -> None:
    """Let every part of a fitted model tell the guarantee of the search it was chosen by.

    What a part says of itself would hold only if it had not been chosen.

    Parameters
    ----------
    fitted : estimator
        Changed in place, with all that it holds.
    report : PrivacyReport
    """
    for found in reachable(fitted):
        if "privacy_" in vars(found):
            found.privacy_ = report


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Issue what many candidates warn of once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message, category in dict.fromkeys((str(each.message), each.category) for each in caught):
        warn(message.replace(f"{_STEP}__", ""), category)


@contextmanager
def without_leak_warnings() -> Iterator[None]:
    """For fits whose warnings the rehearsal has given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield
