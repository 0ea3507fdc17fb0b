"""Candidates of a search, and their runs: a fit and a noisy score each.

A candidate is the estimator with one choice of parameters, as a `PrivatePipeline`: it can be
rehearsed, and its budget is a parameter.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from .._messages import is_error, warn
from .._persons import RECORD, Unit
from .._random import NoiseGenerator, noise_generator
from .._sklearn_compat import _routing_enabled
from ..base import Budget
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.sampling import bernoulli
from ..pipeline import PrivatePipeline
from ..pipeline.inputs import find_schema
from .planning import Route, SearchPlan
from .scoring import GRID, PrivateScorer, rank_table, score_table, set_range

#: Parameters of a candidate that follow from the search.
BUDGET_PARAMETERS = ("accountant", "adjacency", "delta", "epsilon", "order")
_STEP = "estimator"

#: Reason why a search cannot protect people with several rows.
ROWS_ONLY = (
    "a search splits and scores rows, and its noise is for one row, but a person with several rows "
    "could be fitted to and held out at once. Declare the person in a Schema, and begin the "
    "pipeline with schema.encoder(): then people are split and scored"
)


class Records(NamedTuple):
    """Records to fit to, with the parameters of the `fit` of a candidate."""

    X: Any
    y: Any
    params: dict[str, Any]


class SearchData(NamedTuple):
    """Candidates and records of a search."""

    candidates: Sequence[Mapping[str, Any]]
    train: Records
    test: tuple[Any, Any]  # X and y of the held-out records
    all_records: Records
    n_test: int | None  # None if it is not public
    unit: Unit = RECORD


def check_candidates(candidates: Sequence[Mapping[str, Any]], estimator: Any) -> None:
    schema = find_schema(estimator)
    max_rows = 1 if schema is None else schema.max_rows
    for name in dict.fromkeys(name for each in candidates for name in each):
        if name.split("__")[-1] in BUDGET_PARAMETERS:
            raise ValueError(f"{name} must not be searched over: the budget of the search sets it")
    for each in ({}, *candidates):
        for name, value in {**estimator.get_params(deep=True), **each}.items():
            if name.split("__")[-1] == "max_rows" and value not in (None, 1, max_rows):
                raise ValueError(f"{name} must be 1 inside a search: {ROWS_ONLY}")
        other = find_schema(clone(estimator).set_params(**each)) if each else schema
        names = ("person", "max_rows", "missing_values")
        if any(getattr(schema, name, None) != getattr(other, name, None) for name in names):
            raise ValueError(
                "the schemas of all candidates must have the same person, max_rows and "
                "missing_values, because all candidates protect the same people; some differ"
            )


def make_candidate(
    estimator: Any, parameters: Mapping[str, Any], budget: Budget, seed: int | None = None
) -> PrivatePipeline:
    """Return an unfitted copy with these parameters and this budget, without accountant."""
    # If `seed` is given, it seeds all parameters `random_state` that are None.
    copy = clone(estimator).set_params(
        **{name: clone(value, safe=False) for name, value in parameters.items()}
    )
    if is_wrapped(estimator):
        copy = PrivatePipeline([(_STEP, copy)])
    elif not isinstance(copy, PrivatePipeline):
        options = ("transform_input", "memory", "verbose")
        copy = PrivatePipeline(copy.steps, **{name: getattr(copy, name) for name in options})
    candidate = copy.set_params(**budget._asdict(), accountant=None)
    if seed is not None:
        given = candidate.get_params(deep=True).items()
        names = [n for n, v in given if n.split("__")[-1] == "random_state" and v is None]
        seeds = np.random.default_rng(seed).integers(2**31, size=len(names)).tolist()
        candidate.set_params(**dict(zip(names, seeds, strict=True)))
    return candidate


def is_wrapped(estimator: Any) -> bool:
    """Return whether the estimator is the only step of its candidates."""
    return not isinstance(estimator, Pipeline)


def candidate_params(estimator: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the `fit` of a candidate, from those of the estimator."""
    if not is_wrapped(estimator) or _routing_enabled():  # with routing, the step requests them
        return params
    return {f"{_STEP}__{name}": value for name, value in params.items()}


def rehearse(
    candidate: PrivatePipeline, records: Records, wrapped: bool
) -> tuple[JointMechanism, list[str]]:
    """Return the releases that a fit would make, and the parameters that are not covered."""
    leaking = candidate._warn_of_leaking_steps()
    planned = candidate._rehearsed(*records)
    if planned.joint is None:
        raise ValueError(
            "estimator must be private or have a private step, such as DirichletNB or "
            "DirichletCategoricalNB; otherwise no noise is added"
        )
    if any(isinstance(m, SelectionMechanism) and not m.is_exact for m, _ in planned.joint.parts):
        raise ValueError(
            "PrivateCountVectorizer must not learn its vocabulary inside a search: every run would "
            "use a part of delta. Fit it before, and pass its vocabulary_. Nothing was charged"
        )
    names = [*leaking, *planned.not_covered]
    return planned.joint, [n.removeprefix(f"{_STEP}__") if wrapped else n for n in names]


def fit_candidate(candidate: PrivatePipeline, records: Records, wrapped: bool) -> Any:
    """Fit a candidate; return the fitted estimator and its privacy report."""
    candidate.fit(records.X, records.y, **records.params)
    return (candidate.steps[0][1] if wrapped else candidate), candidate.privacy_


@contextmanager
def deduplicate_warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message, category in dict.fromkeys((str(each.message), each.category) for each in caught):
        warn(message.replace(f"{_STEP}__", ""), category)


@contextmanager
def ignore_leak_warnings() -> Iterator[None]:
    """Ignore warnings that the first rehearsal has issued."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield


class Run(NamedTuple):
    """Release of one run."""

    number: int  # of the candidate
    rank: float  # for the comparison of runs; minus infinity for a failed run
    fitted: Any = None  # estimator, None for a failed run
    scorer: PrivateScorer | None = None  # with its range
    noisy: np.ndarray | None = None  # gains and losses


def draw_candidates(route: Route, generator: NoiseGenerator) -> list[int]:
    if route.name == "composition":
        return list(range(route.n_candidates))
    drawn = []
    while True:
        drawn.append(int(generator.integers(route.n_candidates)))
        if bernoulli(route.gamma, 1, generator)[0]:
            return drawn


def perform(
    number: int,
    candidate: PrivatePipeline,
    expected: JointMechanism | None,  # releases of the fit that were charged
    seed: int | None,
    train: Records,
    test: tuple[Any, Any],
    scorer: PrivateScorer,
    score: GaussianMechanism,
    wrapped: bool,
) -> Run:
    """Fit a candidate to `train` and score it on `test`; a failure counts as a run, too."""
    try:
        # Warnings of other runs than the best, and their number, are not private.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted, report = fit_candidate(candidate, train, wrapped)
            if expected is not None and dict(report.mechanisms) != dict(expected.parts):
                raise RuntimeError("the noise of a fit differs from the noise that was charged")
            scorer = set_range(scorer, fitted)
            noisy = score_table(scorer, fitted, *test, score.adjacency)
            if not score.is_exact:
                generator = noise_generator(None if seed is None else seed + 1)
                noisy = score.noisy(noisy, generator, GRID)
            return Run(number, rank_table(scorer, noisy, score.sigma), fitted, scorer, noisy)
    except BaseException as error:
        if not is_error(error):
            raise
        # The error is dropped, because it may contain data.
        return Run(number, -np.inf)


def perform_all(
    estimator: Any,
    data: SearchData,
    plan: SearchPlan,
    scorer: PrivateScorer,
    seeds: Sequence[tuple[int, int | None]],
    n_jobs: int | None,
    verbose: int | None,
) -> Iterable[Run]:
    """Perform a run for each number and seed, with a progress bar unless `verbose` is None."""
    common = (data.train, data.test, scorer, plan.score, is_wrapped(estimator))

    def run(number: int, seed: int | None) -> Any:
        candidate = make_candidate(estimator, data.candidates[number], plan.budget, seed)
        expected = plan.fits[number] if plan.fits else None
        return delayed(perform)(number, candidate, expected, seed, *common)

    runs = Parallel(n_jobs=n_jobs, return_as="generator")(run(*each) for each in seeds)
    if verbose is not None:
        with suppress(ImportError):
            from tqdm.auto import tqdm

            hidden = False if verbose else None  # None shows the progress on terminals
            return tqdm(runs, total=len(seeds), desc="search", unit="run", disable=hidden)
    return runs


def select_best(runs: Iterable[Run], generator: NoiseGenerator) -> Run:
    """Return the run with the highest rank; ties are broken at random."""
    best: list[Run] = []
    for run in runs:
        if best and run.rank < best[0].rank:
            continue
        best = [*best, run] if best and run.rank == best[0].rank else [run]
    return best[int(generator.integers(len(best)))]
