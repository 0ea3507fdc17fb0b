"""Bounds on attacks that decide between two neighbouring data sets (docs/theory.md, section 1.1).

An attack says "yes" or "no" after it has seen a release. Its false-positive rate is the probability
of "yes" on one data set, its true-positive rate that on the neighbour. The privacy profiles of both
directions bound the true-positive rate by a line for every epsilon. Each line is a valid bound, so
the result of a search for the smallest one is valid wherever the search stops.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from .._validation import check_array, check_real
from ..numerics.conservative import zoomed_search
from .pairs import Floats

#: Natural logarithm of delta at an array of epsilons of at least 0, in one direction.
Profile = Callable[[Floats], Floats]

# Epsilons of the lines that are tried first; the search next to the best one is continuous. Slopes
# below exp(-40) change no bound by more than a rounding error, and slopes above exp(40) matter for
# false-positive rates below exp(-40) only.
_DISTANCES = np.concatenate([np.geomspace(1e-6, 0.05, 6), np.geomspace(0.1, 40.0, 24)])
_LOG_SLOPES = np.concatenate([-_DISTANCES[::-1], [0.0], _DISTANCES, [700.0]])
# Seven zooms divide an interval by a million, also where a profile has a kink. The quadrature of a
# profile is about as fast for 16 points as for one.
_N_ZOOMS, _N_ZOOM_POINTS = 7, 16
# Bounds the rounding errors of a line: a few units in the last place.
_ROUNDING = 16 * np.finfo(float).eps


class AttackBounds(ABC):
    """Bounds on the success of any attack on a release."""

    @abstractmethod
    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        """Profiles of a pair of neighbours and of the reversed pair, for every kind of pair."""

    def true_positive_rate(self, false_positive_rate: ArrayLike = 0.01) -> Floats | float:
        """Largest true-positive rate of any attack with a given false-positive rate.

        The attacker knows all records but one, and decides between two neighbouring data sets.
        Under "add_remove" the record is present or absent, and the larger rate of the two
        questions "is it present?" and "is it absent?" is returned. Under "replace" the record
        has one of two values.

        Parameters
        ----------
        false_positive_rate : float or array of floats in [0, 1], default=0.01
            Probability that the attack is positive on the other data set.

        Returns
        -------
        float or ndarray
            Rounded up. Without any release it equals the false-positive rate.
        """
        rates = check_array("false_positive_rate", false_positive_rate, at_least=0, at_most=1)
        pairs = self._profiles()
        bounds = [
            max((_smallest_rate(pair, rate) for pair in pairs), default=rate) for rate in rates.flat
        ]
        return bounds[0] if rates.ndim == 0 else np.reshape(bounds, rates.shape)

    def advantage(self) -> float:
        """Largest difference between the true-positive and the false-positive rate of an attack.

        This is the total variation distance of the releases of neighbours. If both data sets are
        equally likely, no guess is right with a probability above ``(1 + advantage) / 2``.

        Returns
        -------
        float
            From 0 to 1, rounded up.
        """
        return max(map(_advantage, self._profiles()), default=0.0)

    def posterior(self, prior: float, false_positive_rate: float = 0.01) -> float:
        """Largest probability that a positive attack is right, for an attack with a prior.

        This is the positive predictive value at a false-positive rate. Rarer alarms may be right
        more often: no bound below 1 holds for all releases, unless delta is 0.

        Parameters
        ----------
        prior : float in [0, 1]
            Probability, before the release, that the attack is right.
        false_positive_rate : float in [0, 1], default=0.01
            As in `true_positive_rate`.

        Returns
        -------
        float
            Rounded up.
        """
        prior = check_real("prior", prior, at_least=0, at_most=1)
        rate = check_real("false_positive_rate", false_positive_rate, at_least=0, at_most=1)
        right = prior * float(self.true_positive_rate(rate))
        wrong = (1 - prior) * rate
        if right + wrong == 0:
            return prior
        return float(min(right / (right + wrong) * (1 + _ROUNDING), 1.0))

    def trade_off(self, n_points: int = 201) -> tuple[Floats, Floats]:
        """Points of the curve of true-positive rates over false-positive rates, for a plot.

        Parameters
        ----------
        n_points : int, default=201
            Number of false-positive rates from 0 to 1.

        Returns
        -------
        false_positive_rate, true_positive_rate : ndarray of shape (n_points,)
            The second is an upper bound, a little less tight than `true_positive_rate`.
        """
        # Dense at both ends, where the curve is steep.
        rates = np.sin(np.linspace(0, np.pi / 2, n_points)) ** 4
        bounds = rates
        for pair in self._profiles():
            intercept, slope = _coarse_lines(pair)
            lines = intercept + slope * rates[:, np.newaxis]
            bounds = np.maximum(bounds, np.min(lines, axis=1))
        return rates, np.minimum(bounds, 1.0)


class WorstOf(AttackBounds):
    """Bounds that hold if one of several is true."""

    def __init__(self, alternatives: Sequence[AttackBounds]):
        self._alternatives = alternatives

    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        return [pair for bounds in self._alternatives for pair in bounds._profiles()]


def both_directions(profiles: Sequence[Profile]) -> list[tuple[Profile, Profile]]:
    """Return the pairs of profiles for one direction, which is its own reverse, or for two."""
    if len(profiles) < 2:
        return [(profile, profile) for profile in profiles]
    forward, backward = profiles
    return [(forward, backward), (backward, forward)]


def _lines(pair: tuple[Profile, Profile], log_slope: Floats) -> tuple[Floats, Floats]:
    """Return intercepts and slopes of lines that bound the true-positive rate, rounded up."""
    positive = log_slope >= 0
    log_delta = np.empty(log_slope.shape)
    with np.errstate(all="ignore"):
        log_delta[positive] = pair[0](log_slope[positive])
        log_delta[~positive] = pair[1](-log_slope[~positive])
    # A comparison with nan would make any bound valid.
    delta = np.where(np.isnan(log_delta), 1.0, np.exp(log_delta)) * (1 + _ROUNDING)
    slope = np.exp(log_slope)
    # True positives are at most delta + exp(epsilon) a, and true negatives 1 - a of the reversed
    # pair at most delta + exp(epsilon) (1 - the true-positive rate).
    intercept = np.where(positive, delta, 1 - slope * (1 - delta) + _ROUNDING)
    return intercept, slope * (1 + _ROUNDING)


@lru_cache(maxsize=64)
def _coarse_lines(pair: tuple[Profile, Profile]) -> tuple[Floats, Floats]:
    return _lines(pair, _LOG_SLOPES)


@lru_cache(maxsize=256)
def _smallest_rate(pair: tuple[Profile, Profile], rate: float) -> float:
    """Return the smallest bound on the true-positive rate at a false-positive rate."""

    def bound(log_slope: Floats) -> Floats:
        intercept, slope = _lines(pair, log_slope)
        return intercept + slope * rate

    intercepts, slopes = _coarse_lines(pair)
    return min(_minimum(bound, _LOG_SLOPES, intercepts + slopes * rate), 1.0)


@lru_cache(maxsize=256)
def _advantage(pair: tuple[Profile, Profile]) -> float:
    forward, backward = pair

    def bound(epsilon: Floats) -> Floats:
        delta, slope = _lines((forward, forward), epsilon)
        other = delta
        if backward is not forward:
            other, _ = _lines((backward, backward), epsilon)
        # The sum of the bounds on true positives and on true negatives. Without a loss the
        # advantage is the same in both directions.
        both = (slope - 1 + delta + other) / (slope + 1) * (1 + _ROUNDING)
        return np.where(epsilon == 0, np.minimum(delta, other), both)

    epsilons = np.append(0.0, _DISTANCES)
    return min(_minimum(bound, epsilons, bound(epsilons)), 1.0)


def _minimum(bound: Callable[[Floats], Floats], points: Floats, values: Floats) -> float:
    """Return the smallest value at the points or near the best of them."""
    best = int(np.argmin(values))
    low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    nearby = zoomed_search(lambda x: (x, bound(x)), low, high, _N_ZOOMS, _N_ZOOM_POINTS)[1]
    return float(min(values[best], np.min(nearby)))
