"""Guarantees of alternatives, and of the best of a random number of private runs.

Section 14 of docs/theory.md proves the bound: with w(u) and v(u) the densities of the published run
on two neighbours, where u is the probability that a run scores better, delta is at most a sum of
profiles of one run over the edges of the concave hull of the points (v(u), w(u)). All steps round
up: each point combines the w of one end of an interval of u with the v of the other, and profiles,
which are convex in exp(epsilon), are interpolated by chords.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._validation import store_reals
from .composition import Composition, PrivacyCurves
from .guarantees import Guarantee, lower_hull
from .pairs import DominatingPair, Floats, map_values
from .worst_case import WorstCase

_N_NODES = 64  # nodes of the table of a profile, for each of two spacings
_MIN_LOG_DELTA = -38.0  # smallest log delta in a table
_MAX_EPSILON = 256.0
_N_LEVELS = 8192  # grid size for the probability that a run scores better
_ROUNDING = 1e-9
_MAX_TEXTS = 4  # maximum number of alternatives that are described
_MAX_EXACT_EPSILONS = 32  # more epsilons than this are interpolated in a table
# Every order gives a valid bound; the best need not be among these.
_ORDERS = 1 + np.geomspace(1e-3, 1e5, 513)


@dataclass(frozen=True)
class OneOf(Guarantee):
    """One of several alternative releases (docs/theory.md, section 14).

    The guarantee is that of the worst alternative. It holds for separate releases of parts that
    are split by position or at random, and for a random choice that is independent of the data.
    """

    alternatives: tuple[PrivacyCurves, ...]

    def __post_init__(self):
        alternatives = tuple(dict.fromkeys(self.alternatives))
        object.__setattr__(self, "alternatives", alternatives)
        adjacencies = dict.fromkeys(each.adjacency for each in alternatives)
        if not adjacencies:
            raise ValueError("alternatives must contain at least one release; got none")
        if len(adjacencies) > 1:
            raise ValueError(
                f"adjacency must be the same for all alternatives; got {', '.join(adjacencies)}"
            )

    def __str__(self) -> str:
        texts = list(dict.fromkeys(map(str, self.alternatives)))
        if len(texts) > _MAX_TEXTS:
            texts = [*texts[: _MAX_TEXTS - 1], f"one of {len(texts) - _MAX_TEXTS + 1} others"]
        return texts[0] if len(texts) == 1 else f"either {' or '.join(texts)}"

    @property
    def adjacency(self) -> str:
        """Adjacency of all alternatives."""
        return self.alternatives[0].adjacency

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        if len(self.alternatives) == 1:
            return self.alternatives[0].worst_cases()
        return super()._worst_cases()

    def _worst_case(self) -> WorstCase:
        return WorstCase.from_pair(_WorstOfPair(self.alternatives))


@dataclass(frozen=True)
class AllOf(PrivacyCurves):
    """Several releases of the same records, as one charge (docs/theory.md, section 14).

    A release may depend on earlier ones, as long as it satisfies the guarantee of its part.
    """

    parts: tuple[PrivacyCurves, ...]

    def __post_init__(self):
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ValueError("parts must contain at least one release; got none")
        self._worst_cases()  # raises an error for different adjacencies

    def __str__(self) -> str:
        return ", then ".join(map(str, self.parts))

    @property
    def adjacency(self) -> str:
        """Adjacency of all parts."""
        return self.parts[0].adjacency

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return Composition((part, 1) for part in self.parts).worst_cases()


@dataclass(frozen=True)
class RepeatedSelection(Guarantee):
    """The best of a random number of private runs (docs/theory.md, section 14).

    The number of runs K has the truncated negative binomial distribution of Papernot and
    Steinke (2022), ``P(K = k)`` proportional to ``(1 - gamma)^k Gamma(k + shape) / k!`` for
    k = 1, 2, ... Each run is independent of the others and of K. Only the output of the run
    with the best score is published, which includes its score. Ties are broken at random.

    Parameters
    ----------
    run : mechanism or guarantee
        The release of one run, including its score.
    gamma : float in (0, 1)
        Smaller values give more runs. For shape 1 it is the probability of stopping after each
        run.
    shape : float, default=1.0
        Greater than -1. At 1 the number of runs is geometric, at 0 logarithmic.

    Examples
    --------
    >>> from skdirdp.accounting import RepeatedSelection
    >>> from skdirdp.mechanisms import calibrate
    >>> run = calibrate("gaussian", epsilon=1.0, delta=1e-5)
    >>> best = RepeatedSelection.with_mean(run, 30, shape=0)
    >>> round(best.mean, 6), round(best.epsilon(1e-5), 2)
    (30.0, 1.63)
    """

    run: PrivacyCurves
    gamma: float
    shape: float = 1.0

    def __post_init__(self):
        limits = {"above": -1, "at_most": 100}
        store_reals(self, gamma={"at_least": 1e-12, "below": 1}, shape=limits)

    def __str__(self) -> str:
        return f"the best of {self.mean:.3g} runs on average, each {self.run}"

    @classmethod
    def with_mean(cls, run: PrivacyCurves, mean: float, shape: float = 1.0) -> "RepeatedSelection":
        """Create the selection with a given expected number of runs.

        Parameters
        ----------
        run, shape
            As for the class.
        mean : float
            Greater than 1.
        """
        low, high = np.log(1e-12), 0.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_runs(np.exp(middle), shape) > mean else (low, middle)
        return cls(run, float(np.exp(high)), shape)

    @property
    def adjacency(self) -> str:
        """Adjacency of a run."""
        return self.run.adjacency

    @property
    def mean(self) -> float:
        """Expected number of runs."""
        return mean_runs(self.gamma, self.shape)

    def _worst_case(self) -> WorstCase:
        return WorstCase.from_pair(_SelectionPair(self))


def mean_runs(gamma: float, shape: float) -> float:
    """Mean of the truncated negative binomial distribution."""
    log_gamma = np.log(gamma)
    if abs(shape * log_gamma) < 1e-9:  # the limit of the quotient below
        return float((1 - gamma) / gamma / -log_gamma)
    return float(shape * (1 - gamma) / gamma / -np.expm1(shape * log_gamma))


class _CurvesPair(DominatingPair):
    """Pair described by bounds on its curves, which hold for the reversed pair too."""

    smooth = False

    def cumulant(self, tilt, rough=False):
        tilt = np.asarray(tilt, dtype=float)
        return tilt * self.rdp(1 + tilt)


@dataclass(frozen=True)
class _WorstOfPair(_CurvesPair):
    """Pair that dominates each of several releases."""

    alternatives: tuple[PrivacyCurves, ...]

    @property
    def max_loss(self) -> float:
        return float(self.rdp(np.inf))

    @property
    def max_tilt(self) -> float:
        return _max_tilt(self.alternatives)

    def rdp(self, order):
        return np.max([np.asarray(each.rdp(order)) for each in self.alternatives], axis=0)

    def log_delta(self, epsilon):
        epsilon = np.asarray(epsilon, dtype=float)
        if epsilon.size > _MAX_EXACT_EPSILONS:
            with np.errstate(divide="ignore"):
                delta = _delta_at(_max_profile_table(self.alternatives), epsilon)
                return np.minimum(np.log(delta) + _ROUNDING, 0.0)
        log_deltas = [np.asarray(each.log_delta(np.abs(epsilon))) for each in self.alternatives]
        forward = np.max(log_deltas, axis=0)
        with np.errstate(divide="ignore"):
            backward = np.log1p(np.exp(-np.abs(epsilon)) * np.expm1(np.minimum(forward, 0.0)))
        return np.minimum(np.where(epsilon < 0, backward, forward) + _ROUNDING, 0.0)


@dataclass(frozen=True)
class _SelectionPair(_CurvesPair):
    """Pair of the published runs on two neighbouring data sets."""

    selection: RepeatedSelection

    @property
    def max_loss(self) -> float:
        return _hull(self.selection).max_loss

    @property
    def max_tilt(self) -> float:
        return _max_tilt((self.selection.run,))

    def rdp(self, order):
        """Bound the divergence: Papernot and Steinke (2022), Theorem 2."""
        order = np.asarray(order, dtype=float)
        flat = order.reshape(-1)
        orders, bounds, second_order = _repeated_divergence(self.selection)
        # Divergences increase in the order, so the bound of any larger order holds too.
        later = np.minimum.accumulate(bounds[::-1])[::-1]
        known = np.append(later, np.inf)[np.searchsorted(orders, flat)]
        here = _divergences(self.selection.run, np.where(np.isinf(flat), orders[-1], flat))
        own = here + np.log(self.selection.mean) / (flat - 1)
        own = np.where(np.isinf(flat), np.inf, own + second_order)
        bound = np.minimum(known, own * (1 + _ROUNDING))
        return np.minimum(bound, self.max_loss).reshape(order.shape)

    def log_delta(self, epsilon):
        epsilon = np.asarray(epsilon, dtype=float)
        if epsilon.size <= _MAX_EXACT_EPSILONS and np.all(epsilon >= 0):
            delta = map_values(_hull(self.selection).delta, epsilon)
        else:
            delta = _selection_table(self.selection).delta(epsilon)
        with np.errstate(divide="ignore"):
            return np.minimum(np.log(delta) + _ROUNDING, 0.0)


def _max_tilt(curves: tuple[PrivacyCurves, ...]) -> float:
    """Supremum of the tilts at which all curves are finite."""
    cases = (case for each in curves for case in each.worst_cases().values())
    return float(min((curve.max_tilt for case in cases for curve, _ in case.renyi), default=np.inf))


@lru_cache(maxsize=64)
def _repeated_divergence(selection: RepeatedSelection) -> tuple[Floats, Floats, float]:
    """Orders, bounds at these orders, and the smallest second-order term of the theorem."""
    orders, limit = _ORDERS, _max_tilt((selection.run,))
    if np.isfinite(limit):  # dense near the largest order with a finite divergence
        near_the_end = 1 + limit * (1 - np.geomspace(1e-6, 1, 64, endpoint=False))
        orders = np.unique(np.append(_ORDERS[1 + limit > _ORDERS], near_the_end))
    all_orders = np.append(orders, np.inf)
    with np.errstate(invalid="ignore"):
        divergence = _divergences(selection.run, all_orders)
        terms = (1 - 1 / all_orders) * divergence - np.log(selection.gamma) / all_orders
    second_order = float((1 + selection.shape) * np.min(np.where(np.isnan(terms), np.inf, terms)))
    bound = divergence[:-1] + np.log(selection.mean) / (orders - 1)
    return orders, (bound + second_order) * (1 + _ROUNDING), second_order


def _divergences(run: PrivacyCurves, orders: Floats) -> Floats:
    divergence = np.asarray(run.rdp(np.maximum(orders, 1 + 1e-12)))
    return np.where(np.isnan(divergence), np.inf, divergence)


class ProfileTable(NamedTuple):
    """Upper bound on a profile: deltas at increasing epsilons, interpolated by chords."""

    epsilon: Floats
    values: Floats

    def delta(self, epsilon: Floats) -> Floats:
        """Interpolate linearly in exp(epsilon); beyond the last point, use the last value."""
        right = np.clip(np.searchsorted(self.epsilon, epsilon), 1, len(self.epsilon) - 1)
        start, stop = self.epsilon[right - 1], self.epsilon[right]
        with np.errstate(over="ignore"):
            part = np.expm1(epsilon - start) / np.expm1(stop - start)
        low, high = self.values[right - 1], self.values[right]
        inside = low + (high - low) * np.clip(part, 0.0, 1.0)
        # Below the first point: the chord from (exp(epsilon), delta) = (0, 1).
        first = 1 - np.exp(np.minimum(epsilon - self.epsilon[0], 0)) * (1 - self.values[0])
        return np.where(epsilon < self.epsilon[0], first, inside)


@lru_cache(maxsize=256)
def _profile_table(curves: PrivacyCurves) -> ProfileTable:
    """Tabulate the profile of one release, from 0 to where it is negligible."""
    # Approximate epsilon at which log delta is negligible or no longer decreases.
    min_log_delta = max(_MIN_LOG_DELTA, float(curves.log_delta(_MAX_EPSILON)) + 1e-6)
    high = 2.0**-20
    while high < _MAX_EPSILON and curves.log_delta(high) > min_log_delta:
        high *= 2
    low = high / 2
    for _ in range(4):
        middle = (low + high) / 2
        low, high = (middle, high) if curves.log_delta(middle) > min_log_delta else (low, middle)
    last = min(high, float(np.max(curves.rdp(np.inf))))
    even = np.linspace(0, 1, _N_NODES)
    # Equal steps of epsilon, and approximately equal steps of log delta.
    epsilon = last * np.unique(np.concatenate([even, np.sqrt(even)]))
    # `delta` is not used, because it is a parameter of some guarantees.
    log_delta = np.asarray(curves.log_delta(epsilon))
    smallest = np.where(np.isneginf(log_delta), 0.0, np.finfo(float).tiny)
    return ProfileTable(epsilon, np.maximum(np.exp(log_delta) * (1 + _ROUNDING), smallest))


@lru_cache(maxsize=64)
def _max_profile_table(alternatives: tuple[PrivacyCurves, ...]) -> ProfileTable:
    """Tabulate the maximum of several profiles; a `OneOf` counts as its alternatives."""
    groups = (each.alternatives if isinstance(each, OneOf) else (each,) for each in alternatives)
    tables = [_profile_table(curves) for group in groups for curves in group]
    epsilon = np.unique(np.concatenate([table.epsilon for table in tables]))
    return ProfileTable(epsilon, np.max([table.delta(epsilon) for table in tables], axis=0))


class Hull(NamedTuple):
    """Edges of the concave hull of the points (v, w)."""

    run: ProfileTable
    weights: Floats  # dw of each edge, scaled to sum to the expected number of runs
    shifts: Floats  # log(dv / dw) of each edge
    max_loss: float  # largest loss of the selection

    def delta(self, epsilon: float) -> float:
        """Bound on delta at one epsilon; it may exceed 1."""
        return float(self.weights @ _delta_at(self.run, epsilon + self.shifts))


@lru_cache(maxsize=64)
def _hull(selection: RepeatedSelection) -> Hull:
    gamma, power = selection.gamma, selection.shape + 1
    table = _max_profile_table((selection.run,))
    # Grid of u on which gamma + (1 - gamma) u increases by equal factors.
    log_base = np.linspace(np.log(gamma), 0.0, _N_LEVELS)
    u = np.clip(-np.expm1(log_base - np.log(gamma)) * -gamma / (1 - gamma), 0.0, 1.0)
    u[0], u[-1] = 0.0, 1.0
    # The largest probability on a neighbour of an event of probability u: the minimum of lines
    # of slopes exp(e) and exp(-e).
    slopes = np.concatenate([np.exp(table.epsilon), np.exp(-table.epsilon)])
    mirrored = -np.expm1(-table.epsilon) + np.exp(-table.epsilon) * table.values
    reach = np.ones(u.shape)
    for slope, height in zip(slopes, [*table.values, *mirrored], strict=True):
        np.minimum(reach, slope * u + height, out=reach)
    reach = np.minimum(reach * (1 + _ROUNDING), 1.0)
    # Both are in units of f'(1), a common factor.
    w = np.exp(-power * (np.log(gamma + (1 - gamma) * u) - np.log(gamma)))
    v = np.exp(-power * (np.log(gamma + (1 - gamma) * reach) - np.log(gamma)))
    corners = _upper_hull(v[1:] * (1 - _ROUNDING), w[:-1])
    dv, dw = np.diff(corners, axis=0).T
    shifts = np.log(dv / dw) - _ROUNDING
    loss = float(np.max(selection.run.rdp(np.inf)))
    weights = dw * selection.mean * (1 + _ROUNDING)
    max_loss = loss - float(shifts.min()) if np.isfinite(loss) else np.inf
    return Hull(table, weights, shifts, max_loss)


def _upper_hull(v: Floats, w: Floats) -> Floats:
    """Vertices of the concave hull of the origin and the points, in increasing order of w."""
    # No point beyond the steepest one, seen from the origin, is on the hull. Both coordinates
    # decrease in u, up to rounding, so the points are visited in decreasing order of u.
    steepest = int(np.argmax(w / v))
    v, w = (np.maximum.accumulate(np.append(0.0, values[steepest::-1])) for values in (v, w))
    rises = np.append(True, np.diff(w) > 0)
    points = np.stack([v[rises], w[rises]], axis=1)
    return points[lower_hull(points[:, 0], -points[:, 1])]


@lru_cache(maxsize=64)
def _selection_table(selection: RepeatedSelection) -> ProfileTable:
    hull = _hull(selection)
    last = float(hull.run.epsilon[-1] - hull.shifts.min())
    even = np.linspace(0, 1, 2 * _N_NODES)
    epsilon = last * np.unique(np.concatenate([even, np.sqrt(even)]))
    values = map_values(hull.delta, epsilon)
    # The profile is convex in exp(epsilon) and 1 at 0, and the bound holds for the reversed pair
    # too. So the profile lies below the convex hull of all of these points.
    mirrored = -np.expm1(-epsilon[:0:-1]) + np.exp(-epsilon[:0:-1]) * values[:0:-1]
    points = np.concatenate([[0.0], np.exp(-epsilon[:0:-1]), np.exp(epsilon)])
    heights = np.concatenate([[1.0], np.minimum(mirrored, 1.0), np.minimum(values, 1.0)])
    # Without the first vertex: `ProfileTable.delta` adds the chord to (0, 1).
    kept = lower_hull(points, heights)[1:]
    with np.errstate(divide="ignore"):
        return ProfileTable(np.log(points[kept]), heights[kept] * (1 + _ROUNDING))


def _delta_at(table: ProfileTable, epsilon: Floats) -> Floats:
    """Profile at any epsilon, by delta(-e) = 1 - exp(-e) (1 - delta(e)) of the reversed pair."""
    forward = table.delta(np.abs(epsilon))
    return np.where(epsilon < 0, 1 - np.exp(-np.abs(epsilon)) * (1 - forward), forward)
