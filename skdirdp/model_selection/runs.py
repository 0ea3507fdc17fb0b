"""Runs of a search: a fit and a noisy score each, of which one is published."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from .._messages import is_error
from .._random import noise_generator
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.sampling import bernoulli
from ..pipeline import PrivatePipeline
from .candidates import Records, fit_candidate, seed_noise
from .routes import Route
from .scores import GRID, PrivateScorer, with_range


class Run(NamedTuple):
    """What one run releases.

    Attributes
    ----------
    number : that of the candidate.
    rank : what runs are compared by; minus infinity for a run that failed.
    fitted : the estimator, or None for a run that failed.
    scorer : with its range.
    noisy : gains and losses with noise, or None for a run that failed.
    """

    number: int
    rank: float
    fitted: Any = None
    scorer: PrivateScorer | None = None
    noisy: np.ndarray | None = None


class Task(NamedTuple):
    """What every run of a candidate needs, and nothing that a run changes.

    Attributes
    ----------
    number : that of the candidate.
    candidate : unfitted.
    expected : what the charge was for.
    wrapped : whether the estimator is the only step of the candidate.
    """

    number: int
    candidate: PrivatePipeline
    expected: JointMechanism | None
    wrapped: bool


def draw_candidates(route: Route, generator: np.random.Generator) -> list[int]:
    """The numbers of the candidates to run, one for each run.

    Parameters
    ----------
    route : Route
    generator : numpy.random.Generator

    Returns
    -------
    list of int
    """
    if route.name == "composition":
        return list(range(route.n_candidates))
    drawn = []
    while True:
        drawn.append(int(generator.integers(route.n_candidates)))
        if bernoulli(route.gamma, 1, generator)[0]:
            return drawn


def perform(
    task: Task,
    train: Records,
    test: tuple[Any, Any],
    scorer: PrivateScorer,
    score: GaussianMechanism,
    seed: int | None,
) -> Run:
    """One run; whatever fails in it, it counts as a run.

    Parameters
    ----------
    task : Task
    train : Records
        Records to fit to.
    test : tuple of (X, y)
        Held-out records.
    scorer : PrivateScorer
    score : GaussianMechanism
        The noise of the score.
    seed : int or None
        None for noise that cannot be drawn again.

    Returns
    -------
    Run
    """
    candidate = task.candidate if seed is None else seed_noise(task.candidate, seed)
    try:
        # Warnings of a run that is not the best would tell of it, as would their number.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _scored(task, candidate, train, test, scorer, score, seed)
    except BaseException as error:
        if not is_error(error):
            raise
        # Neither the error nor its words: they may hold data.
        return Run(task.number, -np.inf)


def _scored(
    task: Task,
    candidate: PrivatePipeline,
    train: Records,
    test: tuple[Any, Any],
    scorer: PrivateScorer,
    score: GaussianMechanism,
    seed: int | None,
) -> Run:
    """A run that does not fail; see `perform`."""
    fitted, report = fit_candidate(candidate, train, task.wrapped)
    if task.expected is not None and dict(report.mechanisms) != dict(task.expected.parts):
        raise RuntimeError("the noise of a fit is not what was paid for")
    scorer = with_range(scorer, fitted)
    noisy = scorer.table(fitted, *test, score.adjacency)
    if not score.is_exact:
        generator = noise_generator(None if seed is None else seed + 1)
        noisy = score.noisy(noisy, generator, GRID)
    rank = scorer.rank(noisy, score.sigma)
    return Run(task.number, rank, fitted, scorer, noisy)


def perform_all(
    tasks: Iterable[Task],
    seeds: Sequence[int | None],
    n_jobs: int | None,
    verbose: int | None,
    **common: Any,
) -> Iterator[Run]:
    """Runs as they are done, in their order.

    Parameters
    ----------
    tasks : iterable of Task
    seeds : sequence of int or None
        One for each run.
    n_jobs : int or None
    verbose : int or None
        Above 0 shows the progress also where no terminal is; None shows it nowhere.
    **common
        The other parameters of `perform`.

    Returns
    -------
    iterator of Run
    """
    waiting = (
        delayed(perform)(task, seed=seed, **common) for task, seed in zip(tasks, seeds, strict=True)
    )
    done = Parallel(n_jobs=n_jobs, return_as="generator")(waiting)
    return iter(done if verbose is None else _with_progress(done, len(seeds), verbose))


def _with_progress(runs: Iterable[Run], number: int, verbose: int) -> Iterable[Run]:
    """Shown where a person watches: on a terminal, and only if the package for it is there."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return runs
    return tqdm(
        runs, total=number, desc="search", unit="run", disable=None if not verbose else False
    )


def best_of(runs: Iterable[Run], generator: np.random.Generator) -> Run:
    """The run with the best score; of several, any with the same probability.

    Parameters
    ----------
    runs : iterable of Run
    generator : numpy.random.Generator

    Returns
    -------
    Run
    """
    best: list[Run] = []
    for run in runs:
        if best and run.rank < best[0].rank:
            continue
        best = [*best, run] if best and run.rank == best[0].rank else [run]
    return best[int(generator.integers(len(best)))]
