"""Candidates of a search, and their runs. A run is one fit and its noisy score.

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

#: Parameters of a candidate that the search sets.
BUDGET_PARAMETERS = ("accountant", "adjacency", "delta", "epsilon", "order")
_STEP = "estimator"

#: Reason why a search cannot protect people with several rows.
ROWS_ONLY = (
    "a search splits and scores rows, and its noise protects one row, but a person with several "
    "rows could be in both the training rows and the held-out rows. Declare a person column in a "
    "Schema, and make schema.encoder() the first step of the pipeline; the search then splits and "
    "scores people instead of rows"
)


class Records(NamedTuple):
    """Training records, with the `fit` parameters of a candidate."""

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
    """Raise an error if a candidate has parameters that a search does not support."""
    schema = find_schema(estimator)
    max_rows = 1 if schema is None else schema.max_rows
    for name in dict.fromkeys(name for parameters in candidates for name in parameters):
        if name.split("__")[-1] in BUDGET_PARAMETERS:
            raise ValueError(f"{name} must not be searched over: it is set by the search")
    for parameters in ({}, *candidates):
        for name, value in {**estimator.get_params(deep=True), **parameters}.items():
            if name.split("__")[-1] == "max_rows" and value not in (None, 1, max_rows):
                raise ValueError(f"{name} must be 1 inside a search: {ROWS_ONLY}")
        other = find_schema(clone(estimator).set_params(**parameters)) if parameters else schema
        names = ("person", "max_rows", "missing_values")
        if any(getattr(schema, name, None) != getattr(other, name, None) for name in names):
            raise ValueError(
                "the schemas of all candidates must have the same person, max_rows and "
                "missing_values, because all candidates protect the same people; some differ"
            )


def make_candidate(
    estimator: Any, parameters: Mapping[str, Any], budget: Budget, seed: int | None = None
) -> PrivatePipeline:
    """Return an unfitted copy with these parameters and this budget, without an accountant.

    If `seed` is given, it seeds every `random_state` parameter that is None.
    """
    copy = clone(estimator).set_params(
        **{name: clone(value, safe=False) for name, value in parameters.items()}
    )
    if needs_wrapping(estimator):
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


def needs_wrapping(estimator: Any) -> bool:
    """Return whether the estimator must be wrapped in a one-step pipeline."""
    return not isinstance(estimator, Pipeline)


def candidate_params(estimator: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return the `fit` parameters of a candidate, given those of the estimator."""
    if not needs_wrapping(estimator) or _routing_enabled():  # with routing, the step requests them
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
            "use part of delta. Fit it beforehand, and pass its vocabulary_. Nothing was charged"
        )
    names = [*leaking, *planned.not_covered]
    return planned.joint, [n.removeprefix(f"{_STEP}__") if wrapped else n for n in names]


def fit_candidate(candidate: PrivatePipeline, records: Records, wrapped: bool) -> Any:
    """Fit a candidate; return the fitted estimator and its privacy report."""
    candidate.fit(records.X, records.y, **records.params)
    return (candidate.steps[0][1] if wrapped else candidate), candidate.privacy_


@contextmanager
def deduplicate_warnings() -> Iterator[None]:
    """Issue each warning only once, even if several candidates cause it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message, category in dict.fromkeys((str(w.message), w.category) for w in caught):
        warn(message.replace(f"{_STEP}__", ""), category)


@contextmanager
def ignore_leak_warnings() -> Iterator[None]:
    """Ignore leak warnings, which the first rehearsal has already issued."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield


class Run(NamedTuple):
    """Result of one run."""

    candidate_index: int
    selection_score: float  # the highest one is selected; minus infinity for a failed run
    fitted: Any = None  # estimator, None for a failed run
    scorer: PrivateScorer | None = None  # with its range set
    noisy_table: np.ndarray | None = None  # noisy gains and losses


def draw_candidates(route: Route, generator: NoiseGenerator) -> list[int]:
    """Return the indices of the candidates to run."""
    if route.name == "composition":
        return list(range(route.n_candidates))
    drawn = []
    while True:
        drawn.append(int(generator.integers(route.n_candidates)))
        if bernoulli(route.gamma, 1, generator)[0]:
            return drawn


def run_candidate(
    candidate_index: int,
    candidate: PrivatePipeline,
    expected: JointMechanism | None,  # releases of the fit that were charged
    seed: int | None,
    train: Records,
    test: tuple[Any, Any],
    scorer: PrivateScorer,
    score_mechanism: GaussianMechanism,
    wrapped: bool,
) -> Run:
    """Fit a candidate to `train` and score it on `test`. A failure also counts as a run."""
    try:
        # Warnings of runs other than the best one, and the number of warnings, are not covered by
        # the guarantee, so they are suppressed.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted, report = fit_candidate(candidate, train, wrapped)
            if expected is not None and dict(report.mechanisms) != dict(expected.parts):
                raise RuntimeError("the noise of a fit differs from the noise that was charged")
            scorer = set_range(scorer, fitted)
            table = score_table(scorer, fitted, *test, score_mechanism.adjacency)
            if not score_mechanism.is_exact:
                generator = noise_generator(None if seed is None else seed + 1)
                table = score_mechanism.noisy(table, generator, GRID)
            selection_score = rank_table(scorer, table, score_mechanism.sigma)
            return Run(candidate_index, selection_score, fitted, scorer, table)
    except BaseException as error:
        if not is_error(error):
            raise
        # The error is dropped, because it may contain data.
        return Run(candidate_index, -np.inf)


def run_candidates(
    estimator: Any,
    data: SearchData,
    plan: SearchPlan,
    scorer: PrivateScorer,
    index_seed_pairs: Sequence[tuple[int, int | None]],
    n_jobs: int | None,
    verbose: int | None,
) -> Iterable[Run]:
    """Run the candidate of each pair, with a progress bar unless `verbose` is None."""
    common = (data.train, data.test, scorer, plan.score, needs_wrapping(estimator))

    def run(candidate_index: int, seed: int | None) -> Any:
        candidate = make_candidate(estimator, data.candidates[candidate_index], plan.budget, seed)
        expected = plan.fits[candidate_index] if plan.fits else None
        return delayed(run_candidate)(candidate_index, candidate, expected, seed, *common)

    runs = Parallel(n_jobs=n_jobs, return_as="generator")(run(*pair) for pair in index_seed_pairs)
    if verbose is not None:
        with suppress(ImportError):
            from tqdm.auto import tqdm

            hidden = False if verbose else None  # None shows the progress on terminals
            return tqdm(
                runs, total=len(index_seed_pairs), desc="search", unit="run", disable=hidden
            )
    return runs


def select_best(runs: Iterable[Run], generator: NoiseGenerator) -> Run:
    """Return the run with the highest selection score; ties are broken at random."""
    best: list[Run] = []
    for run in runs:
        if best and run.selection_score < best[0].selection_score:
            continue
        is_tied = bool(best) and run.selection_score == best[0].selection_score
        best = [*best, run] if is_tied else [run]
    return best[int(generator.integers(len(best)))]
