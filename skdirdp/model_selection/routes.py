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

from ..accounting import OneOf, RepeatedSelection
from ..accounting.composition import PrivacyCurves
from ..base import Terms
from ..mechanisms import GaussianMechanism, JointMechanism
from .scores import score_mechanism

ROUTES = ("auto", "repetition", "composition")

# How far below the search's budget that of a fit is sought, and how finely.
_LEAST_LOG_SHARE = -9.0
_TOLERANCE = 1e-4
_ATTEMPTS = 12
# Of what is wanted of log delta, lest rounding undo the last step.
_MARGIN = 0.01


class Route(NamedTuple):
    """A way to select, its number of runs, and what it leaves to a fit.

    Attributes
    ----------
    name : "repetition" or "composition".
    n_candidates : int
    gamma : the probability to stop after a run; of no meaning for a composition.
    log_epsilon : logarithm of the epsilon of one fit, minus infinity if none is left.
    """

    name: str
    n_candidates: int
    gamma: float
    log_epsilon: float

    @property
    def mean_runs(self) -> float:
        return 1 / self.gamma if self.name == "repetition" else float(self.n_candidates)

    def guarantee(self, fits: Sequence[JointMechanism], score: GaussianMechanism) -> PrivacyCurves:
        """What the whole selection guarantees.

        Parameters
        ----------
        fits : sequence of JointMechanism
            What the fit of each candidate releases.
        score : GaussianMechanism
            The noise of a score.

        Returns
        -------
        OneOf or RepeatedSelection
        """
        if self.name == "repetition":
            return RepeatedSelection(OneOf((*fits, score)), self.gamma)
        parts: Counter = Counter()
        for fit in fits:
            for mechanism, count in fit.parts:
                parts[mechanism] += count
        scores = JointMechanism(((score, self.n_candidates),))
        return OneOf((JointMechanism(tuple(parts.items())), scores))


class Plan(NamedTuple):
    """What will be run and released, calibrated, before any of it is.

    Attributes
    ----------
    route : Route
    terms : those of one fit.
    fits : what the fit of each candidate releases.
    score : the noise of a score.
    guarantee : of the whole selection.
    """

    route: Route
    terms: Terms
    fits: tuple[JointMechanism, ...]
    score: GaussianMechanism
    guarantee: PrivacyCurves


def choose_route(route: str, n_candidates: int, mean_runs: float, terms: Terms) -> Route:
    """The route that is asked for, or the one that leaves more to a fit.

    Parameters
    ----------
    route : {"auto", "repetition", "composition"}
    n_candidates : int
    mean_runs : float
        The expected number of runs of a repetition.
    terms : Terms
        The budget of the search.

    Returns
    -------
    Route
    """
    gamma = min(1 / mean_runs, 1 - 1e-9)
    names = ROUTES[1:] if route == "auto" else (route,)
    found = [
        Route(name, n_candidates, gamma, _with_gaussian_noise(name, n_candidates, gamma, terms))
        for name in names
    ]
    best = max(found, key=lambda each: (each.log_epsilon, each.name == "composition"))
    if np.isneginf(best.log_epsilon):
        raise ValueError(
            f"epsilon is too small for a search by {best.name}: no budget is left to a single "
            f"fit; got epsilon={terms.epsilon}. Search over fewer candidates, or with fewer runs"
        )
    return best


def excess(guarantee: PrivacyCurves, terms: Terms) -> float:
    """Positive where a guarantee is not within the terms; continuous in the noise."""
    if terms.order is not None:
        return float(np.log(guarantee.rdp(terms.order)) - np.log(terms.epsilon))
    return float(guarantee.log_delta(terms.epsilon) - np.log(terms.delta))


@lru_cache(maxsize=128)
def _with_gaussian_noise(name: str, n_candidates: int, gamma: float, terms: Terms) -> float:
    """What is left to a fit if it releases a single table with Gaussian noise."""
    route = Route(name, n_candidates, gamma, 0.0)

    def over(log_epsilon: float) -> float:
        score = _score_within(terms, log_epsilon)
        fits = [JointMechanism(((score, 1),))] * n_candidates
        return min(excess(route.guarantee(fits, score), terms), 1e3)

    most = float(np.log(terms.epsilon))
    least = most + _LEAST_LOG_SHARE
    if over(most) <= 0:
        return most
    if over(least) > 0:
        return -np.inf
    found = float(brentq(over, least, most, xtol=_TOLERANCE))
    while over(found) > 0:
        found -= _TOLERANCE
    return found


def _score_within(terms: Terms, log_epsilon: float) -> GaussianMechanism:
    inner = terms._replace(epsilon=float(np.exp(log_epsilon)))
    return score_mechanism(**inner._asdict())


def plan(route: Route, terms: Terms, rehearse: Callable[[Terms], Sequence[JointMechanism]]) -> Plan:
    """The noise of all candidates, so that the selection is within the terms.

    Parameters
    ----------
    route : Route
    terms : Terms
        The budget of the search.
    rehearse : callable
        From the terms of one fit to what the fit of each candidate would release.

    Returns
    -------
    Plan
    """

    def attempt(log_epsilon: float) -> Plan:
        inner = terms._replace(epsilon=float(np.exp(log_epsilon)))
        score = score_mechanism(**inner._asdict())
        fits = tuple(rehearse(inner))
        return Plan(route, inner, fits, score, route.guarantee(fits, score))

    # About how fast the excess grows with the logarithm of a fit's epsilon.
    slope = 1.0 if terms.order is not None else 2 * np.log(1 / terms.delta)
    log_epsilon = route.log_epsilon
    for _ in range(_ATTEMPTS):
        found = attempt(log_epsilon)
        over = excess(found.guarantee, terms)
        if over <= 0:
            return found
        log_epsilon -= (min(over, slope) + _MARGIN) / slope
        slope *= 0.8  # so that the steps grow where this was too hopeful
    raise ValueError(
        "the noise of the candidates could not be brought within the budget of the search; "
        f"got epsilon={terms.epsilon}. Search over fewer candidates, or with fewer runs"
    )
