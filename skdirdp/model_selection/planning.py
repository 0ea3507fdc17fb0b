"""Split of the records, and noise of all fits and scores of a search.

*Repetition* draws, fits and scores candidates a random number of times, and publishes only the best
run (`RepeatedSelection`). *Composition* fits and scores every candidate once, and charges all. In
both, a record affects fits or scores but not both (`OneOf`). The route is selected as if each fit
released one table with Gaussian noise. Then the candidates are calibrated, and the budget of a fit
is lowered until the search is within its budget.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn import model_selection

from .._messages import describe
from .._persons import RECORD, CountedRows, Unit, number_persons
from .._random import NoiseGenerator
from ..accounting import AllOf, OneOf, RepeatedSelection
from ..accounting.composition import PrivacyCurves
from ..base import Budget, PrivacyReport
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.sampling import bernoulli
from ..schema import convert_ids
from .scoring import score_mechanism

ROUTES = ("auto", "repetition", "composition")

#: Share of the variance of the privacy loss for the last fit to all records.
REFIT_SHARE = 0.7
# Search range of the logarithm of a fit's share of epsilon, and its tolerance.
_LEAST_LOG_SHARE = -9.0
_TOLERANCE = 1e-4
_ATTEMPTS = 12
# Margin in log delta, so that rounding does not undo the last step.
_MARGIN = 0.01
# Acceptable unused part of the logarithm of a fit's epsilon.
_UNUSED = 0.02

# Splitters that depend on labels or groups, and so on the records.
_NAMES = [name for name in model_selection.__all__ if "Stratified" in name or "Group" in name]
_DEPENDENT_SPLITTERS = tuple(getattr(model_selection, name) for name in _NAMES)


#: Releases of the fit of each candidate.
Releases = Sequence[JointMechanism]


class Route(NamedTuple):
    """Selection procedure with its number of runs."""

    name: str  # "repetition" or "composition"
    n_candidates: int
    gamma: float  # probability to stop after a run, in a repetition
    refit: bool  # whether the best candidate is fitted again, to all records
    log_epsilon: float  # of one fit; minus infinity if nothing is left

    @property
    def mean_runs(self) -> float:
        return 1 / self.gamma if self.name == "repetition" else float(self.n_candidates)

    def guarantee(
        self, fits: Releases, score: GaussianMechanism, refits: Releases
    ) -> PrivacyCurves:
        """Return the guarantee of the search, from the releases of each candidate."""
        selection: PrivacyCurves
        if self.name == "repetition":
            selection = RepeatedSelection(OneOf((*fits, score)), self.gamma)
        else:
            parts: Counter = Counter()
            for mechanism, count in chain.from_iterable(fit.parts for fit in fits):
                parts[mechanism] += count
            scores = JointMechanism(((score, self.n_candidates),))
            selection = OneOf((JointMechanism(tuple(parts.items())), scores))
        # Any candidate may be selected and fitted again.
        return AllOf((selection, OneOf(tuple(refits)))) if refits else selection


class SearchPlan(NamedTuple):
    """Calibrated releases of a search."""

    route: Route
    budget: Budget  # of the fit of a run
    fits: tuple[JointMechanism, ...]  # releases of the fit of each candidate in a run
    score: GaussianMechanism  # noise of a score
    guarantee: PrivacyCurves  # of the whole search
    refit_budget: Budget  # of the fit to all records
    refits: tuple[JointMechanism, ...]  # releases of that fit, for each candidate


@dataclass(frozen=True)
class SelectionReport(PrivacyReport):
    """Privacy guarantee of a search: of the parameters, the model and the score together.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered
        As for `PrivacyReport`, of the whole search.
    route : {"repetition", "composition"}, default="repetition"
        Selection procedure.
    n_candidates : int, default=1
        Number of candidates.
    run_epsilon, fit_epsilon : float, default=inf
        Epsilon to which the fit of a run, and the published model, were calibrated; no guarantees.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import PrivateGridSearchCV
    >>> X = np.random.default_rng(0).integers(3, size=(1000, 2))
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    >>> search = PrivateGridSearchCV(model, {"alpha": [0.5, 1, 2, 5]}).fit(X, X[:, 0] > 0)
    >>> search.privacy_.epsilon, search.privacy_.route
    (1.0, 'composition')
    """

    route: str = "repetition"
    n_candidates: int = 1
    run_epsilon: float = float("inf")
    fit_epsilon: float = float("inf")

    def _describe_releases(self) -> str:
        first = self.mechanisms[0][0] if self.mechanisms else None
        selection = first.parts[0] if isinstance(first, AllOf) else first
        if isinstance(selection, RepeatedSelection):
            runs = f"the best of a random number of runs, {selection.mean:g} expected"
        else:
            runs = "the best of one run of each"
        text = f"chosen from {self.n_candidates} candidates by {runs}, each with the noise of "
        text += f"epsilon {self.run_epsilon:.4g}"
        if isinstance(first, AllOf):
            text += f"; fitted again to all records with that of epsilon {self.fit_epsilon:.4g}"
        return text


def choose_route(
    route: str, n_candidates: int, mean_runs: float, budget: Budget, refit: bool = False
) -> Route:
    """Return the given route, or for "auto" the one with the larger budget per fit."""
    gamma = min(1 / mean_runs, 1 - 1e-9)
    names = ROUTES[1:] if route == "auto" else (route,)
    routes = [Route(name, n_candidates, gamma, refit, 0.0) for name in names]
    routes = [each._replace(log_epsilon=_gaussian_log_epsilon(each, budget)) for each in routes]
    best = max(routes, key=lambda each: (each.log_epsilon, each.name == "composition"))
    if np.isneginf(best.log_epsilon):
        raise ValueError(
            f"epsilon is too small for a search by {best.name}: no budget is left for a single "
            f"fit; got epsilon={budget.epsilon}. Search over fewer candidates, or with fewer runs"
        )
    return best


def _share_of_budget(budget: Budget, share: float) -> Budget:
    """Return the budget of Gaussian noise with this share of the variance of the privacy loss."""
    if budget.order is not None:
        return budget._replace(epsilon=budget.epsilon * share)
    part = score_mechanism(**budget._asdict()).with_precision(float(np.sqrt(share)))
    return budget._replace(epsilon=max(part.epsilon(budget.delta), budget.epsilon * share / 2))


def _excess(guarantee: PrivacyCurves, budget: Budget) -> float:
    """Return a number that is positive if a guarantee exceeds the budget, on a log scale."""
    if budget.order is not None:
        return float(np.log(guarantee.rdp(budget.order)) - np.log(budget.epsilon))
    return float(guarantee.log_delta(budget.epsilon) - np.log(budget.delta))


@lru_cache(maxsize=128)
def _gaussian_log_epsilon(route: Route, budget: Budget) -> float:
    """Return the log epsilon of a fit that releases a single table with Gaussian noise."""
    last = score_mechanism(**_share_of_budget(budget, REFIT_SHARE)._asdict())
    refits = [JointMechanism(((last, 1),))]

    def excess(log_epsilon: float, limit: Budget, refit: bool) -> float:
        score = score_mechanism(**budget._replace(epsilon=float(np.exp(log_epsilon)))._asdict())
        fits = [JointMechanism(((score, 1),))] * route.n_candidates
        return min(_excess(route.guarantee(fits, score, refits * refit), limit), 1e3)

    # With a refit, start as if the rest of the budget were separate. This is fast, and close
    # enough to be corrected in a few steps.
    separate = _share_of_budget(budget, 1 - REFIT_SHARE) if route.refit else budget
    most = float(np.log(separate.epsilon))
    least = most + _LEAST_LOG_SHARE
    if excess(least, separate, False) > 0:
        return -np.inf
    found = most
    if excess(most, separate, False) > 0:
        xtol = 0.02 if route.refit else _TOLERANCE
        found = float(brentq(excess, least, most, args=(separate, False), xtol=xtol))
    descent = _Descent(route, budget)
    for _ in range(_ATTEMPTS):
        over = excess(found, budget, route.refit)
        if -_UNUSED * descent.slope < over <= 0:
            return found
        found = descent.next(found, over)
    return -np.inf


class _Descent:
    """Secant steps of the log epsilon of a fit towards an excess just below 0."""

    def __init__(self, route: Route, budget: Budget):
        #: Approximate slope of the excess.
        self.slope = 1.0 if budget.order is not None else 2 * np.log(1 / budget.delta)
        if route.refit:
            self.slope *= 1 - REFIT_SHARE
        self._last: tuple[float, float] | None = None

    def next(self, log_epsilon: float, over: float) -> float:
        if self._last is not None:
            x, before = self._last
            slope = (before - over) / (x - log_epsilon)
            self.slope = min(max(slope, self.slope / 4), self.slope)
        self._last = (log_epsilon, over)
        return log_epsilon - (min(over, 2 * self.slope) + _MARGIN) / self.slope


def plan_search(
    route: Route,
    budget: Budget,
    rehearse: Callable[[Budget], Releases],
    rehearse_refit: Callable[[Budget], Releases],
    unit: Unit = RECORD,
) -> SearchPlan:
    """Calibrate the releases of all candidates, in runs and refits, to the budget."""
    refit_budget = _share_of_budget(budget, REFIT_SHARE)
    refits = tuple(rehearse_refit(refit_budget)) if route.refit else ()
    descent = _Descent(route, budget)
    log_epsilon = route.log_epsilon
    for _ in range(_ATTEMPTS):
        run_budget = budget._replace(epsilon=float(np.exp(log_epsilon)))
        score = score_mechanism(unit, **run_budget._asdict())
        fits = tuple(rehearse(run_budget))
        guarantee = route.guarantee(fits, score, refits)
        over = _excess(guarantee, budget)
        if over <= 0:
            return SearchPlan(route, run_budget, fits, score, guarantee, refit_budget, refits)
        log_epsilon = descent.next(log_epsilon, over)
    raise ValueError(
        "the noise of the candidates could not be calibrated to the budget of the search; "
        f"got epsilon={budget.epsilon}. Search over fewer candidates, or with fewer runs"
    )


def split_persons(
    ids: Any, persons: CountedRows, cv: Any, generator: NoiseGenerator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the counted records to fit to, and of those to hold out."""
    # Each person is held out, with all records, by an independent coin, under both adjacencies.
    # Couple the coins of the people in both data sets, and those of a person and the replacement.
    # Given the coins, the data sets differ in the records of one person in one part, so the
    # guarantee of a run is that of its fit or of its score (docs/theory.md, section 14).
    if isinstance(cv, bool) or not isinstance(cv, Integral) or cv < 2:
        raise ValueError(
            "cv must be an integer of at least 2 if the schema has a person, because each person "
            f"is held out at random with all records; got {describe(cv)}"
        )
    codes, numbered = number_persons(convert_ids(ids))
    held_out = bernoulli(1 / int(cv), len(numbered), generator)[codes]
    rows = np.arange(len(codes)) if persons.rows is None else persons.rows
    return rows[~held_out[rows]], rows[held_out[rows]]


def split_records(
    n_records: int, cv: Any, adjacency: str, generator: NoiseGenerator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the records to fit to, and of the held-out records."""
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, to hold out one record in cv; got {cv}")
        # Under replacement a record stays in its part. Under "add_remove" positions shift, so
        # each record is held out independently (docs/theory.md, section 14).
        if adjacency == "add_remove":
            held_out = bernoulli(1 / int(cv), n_records, generator)
        else:
            held_out = np.zeros(n_records, dtype=bool)
            held_out[generator.permutation(n_records)[: -(-n_records // int(cv))]] = True
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)
    if isinstance(cv, _DEPENDENT_SPLITTERS):
        raise ValueError(
            f"cv must not depend on the records; got a {type(cv).__name__}, which splits by labels "
            "or groups: replacing one record would move others between the parts. Pass an integer, "
            "or a splitter by position, such as ShuffleSplit(n_splits=1)"
        )
    if adjacency == "add_remove":
        raise ValueError(
            "cv must be an integer if adjacency is 'add_remove', because adding a record shifts "
            f"the positions of others, so each is held out at random; got {describe(cv)}"
        )
    if isinstance(cv, (str, bytes)) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise TypeError(
            f"cv must be an integer, a splitter or an iterable of one split; got {describe(cv)}"
        )
    # A splitter gets the number of records, but no record.
    splits = list(cv.split(np.zeros((n_records, 1))) if hasattr(cv, "split") else cv)
    if len(splits) != 1:
        raise ValueError(
            f"cv must give one split, because each split is another private fit in every run; got "
            f"{len(splits)}. Pass an integer, or a splitter such as ShuffleSplit(n_splits=1)"
        )
    train, test = (_check_positions(part, n_records) for part in splits[0])
    if np.intersect1d(train, test).size:
        raise ValueError("cv must hold out records that are not fitted to; some are in both parts")
    return train, test


def _check_positions(part: Any, n_records: int) -> np.ndarray:
    positions = np.asarray(part)
    if positions.dtype == bool:
        positions = np.flatnonzero(positions)
    within = np.all((positions >= 0) & (positions < n_records))
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not within:
        raise ValueError("cv must give positions of records, from 0 to n_samples - 1")
    if np.unique(positions).size != positions.size:
        raise ValueError("cv must give each position once; some are given twice")
    return positions
