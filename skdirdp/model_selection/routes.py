"""Two ways to pay for a choice, and what each leaves to a single fit.

*Repetition*: a candidate is drawn, fitted and scored, again and again, until a coin says stop;
only the best run is published (`RepeatedSelection`). *Composition*: every candidate is fitted and
scored once, and all of it is paid for. In both, a record is either fitted to or held out, so that
it pays for fits or for scores (`OneOf`), and scores get noise of the same budget as fits.

What a fit may cost is found in two steps. With Gaussian noise in the place of the candidates'
own it follows from the budget and the numbers of candidates and runs alone; that decides between
the routes, before any data are seen. Then the candidates' own mechanisms are looked at, and the
budget of a fit is lowered until all of it is within the budget of the search.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..accounting import AllOf, OneOf, RepeatedSelection
from ..accounting.composition import PrivacyCurves
from ..base import Budget
from ..mechanisms import GaussianMechanism, JointMechanism
from .scores import score_mechanism

ROUTES = ("auto", "repetition", "composition")

# How far below the search's budget that of a fit is sought, and how finely.
_LEAST_LOG_SHARE = -9.0
_TOLERANCE = 1e-4
_ATTEMPTS = 12
# Of what is wanted of log delta, lest rounding undo the last step.
_MARGIN = 0.01
# What may be left unused, of the logarithm of a fit's epsilon.
_UNUSED = 0.02


#: Of the variance of the privacy loss, what a last fit to all records gets.
REFIT_SHARE = 0.7


class Route(NamedTuple):
    """A way to select, its number of runs, and what it leaves to a fit.

    Attributes
    ----------
    name : "repetition" or "composition".
    n_candidates : int
    gamma : the probability to stop after a run; of no meaning for a composition.
    refit : whether the chosen candidate is fitted again, to all records.
    log_epsilon : logarithm of the epsilon of one fit, minus infinity if none is left.
    """

    name: str
    n_candidates: int
    gamma: float
    refit: bool
    log_epsilon: float

    @property
    def mean_runs(self) -> float:
        return 1 / self.gamma if self.name == "repetition" else float(self.n_candidates)

    def guarantee(
        self,
        fits: Sequence[JointMechanism],
        score: GaussianMechanism,
        refits: Sequence[JointMechanism],
    ) -> PrivacyCurves:
        """What the whole selection guarantees.

        Parameters
        ----------
        fits : sequence of JointMechanism
            What the fit of each candidate releases in a run.
        score : GaussianMechanism
            The noise of a score.
        refits : sequence of JointMechanism
            What its fit to all records would release; none for no such fit.

        Returns
        -------
        OneOf, RepeatedSelection or AllOf
        """
        selection: PrivacyCurves
        if self.name == "repetition":
            selection = RepeatedSelection(OneOf((*fits, score)), self.gamma)
        else:
            parts: Counter = Counter()
            for fit in fits:
                for mechanism, count in fit.parts:
                    parts[mechanism] += count
            scores = JointMechanism(((score, self.n_candidates),))
            selection = OneOf((JointMechanism(tuple(parts.items())), scores))
        # Which candidate is fitted again follows from the selection: any of them may be.
        return AllOf((selection, OneOf(tuple(refits)))) if refits else selection


class Plan(NamedTuple):
    """What will be run and released, calibrated, before any of it is.

    Attributes
    ----------
    route : Route
    terms : those of the fit of a run.
    fits : what the fit of each candidate releases in a run.
    score : the noise of a score.
    guarantee : of the whole selection.
    refit_terms : those of the fit to all records.
    refits : what that releases, for each candidate.
    """

    route: Route
    terms: Budget
    fits: tuple[JointMechanism, ...]
    score: GaussianMechanism
    guarantee: PrivacyCurves
    refit_terms: Budget
    refits: tuple[JointMechanism, ...]


def choose_route(
    route: str, n_candidates: int, mean_runs: float, terms: Budget, refit: bool = False
) -> Route:
    """The route that is asked for, or the one that leaves more to a fit.

    Parameters
    ----------
    route : {"auto", "repetition", "composition"}
    n_candidates : int
    mean_runs : float
        The expected number of runs of a repetition.
    terms : Budget
        The budget of the search.
    refit : bool, default=False
        Whether a part of it is for a fit to all records.

    Returns
    -------
    Route
    """
    gamma = min(1 / mean_runs, 1 - 1e-9)
    names = ROUTES[1:] if route == "auto" else (route,)
    asked = [Route(name, n_candidates, gamma, refit, 0.0) for name in names]
    found = [each._replace(log_epsilon=_with_gaussian_noise(each, terms)) for each in asked]
    best = max(found, key=lambda each: (each.log_epsilon, each.name == "composition"))
    if np.isneginf(best.log_epsilon):
        raise ValueError(
            f"epsilon is too small for a search by {best.name}: no budget is left to a single "
            f"fit; got epsilon={terms.epsilon}. Search over fewer candidates, or with fewer runs"
        )
    return best


def refit_terms(terms: Budget) -> Budget:
    """What a last fit to all records may cost, beside the search for it."""
    return terms._replace(epsilon=_epsilon_of_share(terms, REFIT_SHARE))


def _epsilon_of_share(terms: Budget, share: float) -> float:
    """The epsilon of Gaussian noise with this share of the variance of the privacy loss."""
    if terms.order is not None:
        return terms.epsilon * share
    part = score_mechanism(**terms._asdict()).with_precision(float(np.sqrt(share)))
    return max(part.epsilon(terms.delta), terms.epsilon * share / 2)


def excess(guarantee: PrivacyCurves, terms: Budget) -> float:
    """Positive where a guarantee is not within the terms; continuous in the noise."""
    if terms.order is not None:
        return float(np.log(guarantee.rdp(terms.order)) - np.log(terms.epsilon))
    return float(guarantee.log_delta(terms.epsilon) - np.log(terms.delta))


@lru_cache(maxsize=128)
def _with_gaussian_noise(route: Route, terms: Budget) -> float:
    """What is left to a fit if it releases a single table with Gaussian noise."""
    last = [JointMechanism(((score_mechanism(**refit_terms(terms)._asdict()), 1),))]

    def over(log_epsilon: float, within: Budget, refit: bool) -> float:
        inner = terms._replace(epsilon=float(np.exp(log_epsilon)))
        score = score_mechanism(**inner._asdict())
        fits = [JointMechanism(((score, 1),))] * route.n_candidates
        return min(excess(route.guarantee(fits, score, last * refit), within), 1e3)

    # With a refit, first as if the rest of the budget were one of its own: that is quick,
    # and near enough to correct it in a few steps.
    alone = terms
    if route.refit:
        alone = terms._replace(epsilon=_epsilon_of_share(terms, 1 - REFIT_SHARE))
    most = float(np.log(alone.epsilon))
    least = most + _LEAST_LOG_SHARE
    if over(least, alone, False) > 0:
        return -np.inf
    found = most
    if over(most, alone, False) > 0:
        coarse = 0.02 if route.refit else _TOLERANCE
        found = float(brentq(over, least, most, args=(alone, False), xtol=coarse))
    descent = _Descent(route, terms)
    for _ in range(_ATTEMPTS):
        excessive = over(found, terms, route.refit)
        if -_UNUSED * descent.slope < excessive <= 0:
            return found
        found = descent.next(found, excessive)
    return -np.inf


class _Descent:
    """Steps of the logarithm of a fit's epsilon to where `excess` is just below 0."""

    def __init__(self, route: Route, terms: Budget):
        #: About how fast the excess grows.
        self.slope = 1.0 if terms.order is not None else 2 * np.log(1 / terms.delta)
        if route.refit:
            self.slope *= 1 - REFIT_SHARE
        self._last: tuple[float, float] | None = None

    def next(self, log_epsilon: float, excessive: float) -> float:
        if self._last is not None:
            x, before = self._last
            # As it was between the last two, unless that is no slope to go by.
            seen = (before - excessive) / (x - log_epsilon)
            self.slope = min(max(seen, self.slope / 4), self.slope)
        self._last = (log_epsilon, excessive)
        return log_epsilon - (min(excessive, 2 * self.slope) + _MARGIN) / self.slope


#: From the terms of one fit to what the fit of each candidate would release.
Rehearse = Callable[[Budget], Sequence[JointMechanism]]


def plan(route: Route, terms: Budget, rehearse: Rehearse, rehearse_refit: Rehearse) -> Plan:
    """The noise of all candidates, so that the selection is within the terms.

    Parameters
    ----------
    route : Route
    terms : Budget
        The budget of the search.
    rehearse : callable
        From the terms of one fit to what the fit of each candidate in a run would release.
    rehearse_refit : callable
        The same for the fit to all records.

    Returns
    -------
    Plan
    """
    last = refit_terms(terms)
    refits = tuple(rehearse_refit(last)) if route.refit else ()

    def attempt(log_epsilon: float) -> Plan:
        inner = terms._replace(epsilon=float(np.exp(log_epsilon)))
        score = score_mechanism(**inner._asdict())
        fits = tuple(rehearse(inner))
        guarantee = route.guarantee(fits, score, refits)
        return Plan(route, inner, fits, score, guarantee, last, refits)

    descent = _Descent(route, terms)
    log_epsilon = route.log_epsilon
    for _ in range(_ATTEMPTS):
        found = attempt(log_epsilon)
        over = excess(found.guarantee, terms)
        if over <= 0:
            return found
        log_epsilon = descent.next(log_epsilon, over)
    raise ValueError(
        "the noise of the candidates could not be brought within the budget of the search; "
        f"got epsilon={terms.epsilon}. Search over fewer candidates, or with fewer runs"
    )
