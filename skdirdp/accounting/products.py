"""Products of many different pairs, to which more pairs can be added quickly.

Small pairs are stored as the sum of their power series, the few others one by one at the nodes of a
contour. Both are reused, so adding one pair to ten thousand takes the work of one pair.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from math import fsum, isnan
from typing import Any

import numpy as np

from ..numerics.conservative import safe_root, zoomed_search
from .cumulants import (
    NO_KINDS,
    ODD_SIGNS,
    CondensedPairs,
    Contour,
    Kinds,
    condense,
    cumulant_at,
    merge_kinds,
    new_contour,
)
from .pairs import (
    RENYI_ROUNDING,
    BetaPair,
    Floats,
    GammaPair,
    GaussianPair,
    LaplacePair,
    PureDPPair,
    map_values,
)
from .worst_case import Curves, RenyiBound, RenyiCurve, WorstCase, renyi_epsilon, renyi_log_delta

# Parameters outside this range are handled by the slower methods, which accept any.
_MIN_PARAMETER, _MAX_PARAMETER = 1e-60, 1e60
_MAX_COUNT = 1e19  # of releases

_N_ZOOMS = 4
_N_CONTOUR_ZOOMS = 2
_MAX_CONTOUR_UPDATES = 3  # in the search for an epsilon
_REAL_SHARE = 0.85  # part of the scale used for real tilts; the remainder is for the contour
_MAX_DOUBLINGS = 40
_EPSILON_ROUNDING = 1e-13
# Number of sums that are updated when pairs are added: one for a limit on a divergence, one for
# quick decisions.
_N_UPDATED_SUMS = 2

_LOG_ROUNDING = 1e-12
_NO_BOUND = RenyiBound(0.0, 0.0, np.inf)
#: Up to this many kinds are composed by `composition`: by their cumulants if all losses have
#: densities, by loss distributions otherwise.
FEW = 4


class PairProduct:
    """Product of pairs, and of bounds on Renyi divergences, in one direction."""

    def __init__(self, kinds: Any = None, squares: float = 0.0, bound: RenyiBound = _NO_BOUND):
        self._kinds: Kinds = kinds or {}
        self._squares = squares
        self._bound = bound
        self._condensed: CondensedPairs | None = None
        # A contour, with the kinds and the Gaussian part added since it was created.
        self._contour: tuple[Contour, Kinds, float] | None = None
        self._sums: dict[float, float] = {}
        self._last_order: float | None = None  # order of the divergence used for the last decision
        self._not_implied_by_renyi: dict[float, float] = {}  # log delta, by epsilon

    @property
    def size(self) -> int:
        """Number of different kinds of pairs, except Gaussian pairs."""
        return sum(kinds.shape[1] for kinds in self._kinds.values())

    def with_curves(self, curves: Iterable[tuple[RenyiCurve, int]]) -> "PairProduct | None":
        """Return the product with more curves, or None if a parameter is out of range."""
        parsed_curves = _parse(curves)
        if parsed_curves is None:
            return None
        kinds, squares, bound = parsed_curves
        all_kinds, all_bounds = merge_kinds(self._kinds, kinds), self._bound.plus(bound)
        whole = PairProduct(all_kinds, self._squares + squares, all_bounds)
        # Read each attribute once: other threads may replace it. Each value is complete.
        condensed, kept = self._condensed, self._contour
        if condensed is not None:
            whole._condensed = condensed + condense(kinds, squares, condensed.scale)
        if kept is not None and whole.max_tilt > kept[0].tilt:
            contour, waiting, waiting_squares = kept
            whole._contour = contour, merge_kinds(waiting, kinds), waiting_squares + squares
        whole._last_order = self._last_order
        whole._not_implied_by_renyi = dict(self._not_implied_by_renyi)
        for tilt, known in list(self._sums.items())[-_N_UPDATED_SUMS:]:
            whole._sums[tilt] = known + cumulant_at(kinds, squares, tilt)
        return whole

    @cached_property
    def max_tilt(self) -> float:
        """Supremum of the tilts at which the divergence is finite."""
        return min(self._pole, self._bound.max_tilt)

    @cached_property
    def _pole(self) -> float:
        """Smallest tilt at which a cumulant is infinite (bounds hold at their max_tilt too)."""
        pole = np.inf
        for family in ("replace", "remove"):
            r, alpha, _ = self._kinds.get(family, NO_KINDS)
            pole = min(pole, float(np.min(alpha / r, initial=np.inf)))
        return pole

    @cached_property
    def max_loss(self) -> float:
        if self._squares > 0 or not self._kinds.keys() <= {"laplace", "response"}:
            return np.inf
        losses = fsum(x for loss, _, counts in self._kinds.values() for x in loss * counts)
        return losses * (1 + 1e-15)

    def rdp_at(self, order: float) -> float:
        """Divergence of one order, rounded up; its sum is kept and updated with new pairs."""
        tilt = order - 1
        if tilt >= self._pole:
            return np.inf
        if tilt not in self._sums:
            self._sums[tilt] = cumulant_at(self._kinds, self._squares, tilt)
        bound = float(self._bound.rdp(order))
        return (self._sums[tilt] / tilt + bound) * (1 + RENYI_ROUNDING)

    def rdp(self, order: Floats) -> Floats:
        """Renyi divergences of several orders, rounded up."""
        tilt = order - 1
        divergence = np.full(order.shape, np.inf)
        divergence[np.isinf(tilt)] = self.max_loss
        finite = np.isfinite(tilt) & (tilt < self._pole)
        scales = 2.0 ** np.ceil(np.log2(np.where(finite, tilt, 1.0) + 1))
        for scale in np.unique(scales[finite]):
            at = finite & (scales == scale)
            if scale < _MAX_PARAMETER:
                divergence[at] = condense(self._kinds, self._squares, scale).divergence(tilt[at])
        return divergence + self._bound.rdp(order) * (1 + RENYI_ROUNDING)

    def renyi_log_delta(self, epsilon: float) -> tuple[float, float | None]:
        """Smallest log delta implied by a Renyi divergence, and its order if there is one."""
        start = max(epsilon / max(self._spread, 1e-300) - 0.5, 0.0) + self._spread**-0.5
        value, order = self._best_order(renyi_log_delta, epsilon, start)
        return min(value, 0.0), order

    def renyi_epsilon(self, delta: float) -> float:
        """Smallest epsilon at delta implied by a Renyi divergence."""
        start = (-2 * np.log(delta) / max(self._spread, 1e-300)) ** 0.5 + 1
        return max(self._best_order(renyi_epsilon, delta, start)[0], 0.0)

    def _best_order(
        self, convert: Callable[[Floats, Floats, float], Floats], argument: float, start: float
    ) -> tuple[float, float | None]:
        """Smallest converted divergence over all orders, and the order that attains it."""
        if self.max_loss == 0 and self._bound.slope == self._bound.offset == 0:
            return -np.inf, None

        def objective(condensed: CondensedPairs, tilt: Floats) -> Floats:
            order = 1 + tilt
            bound = self._bound.rdp(order) * (1 + RENYI_ROUNDING)
            return convert(order, condensed.divergence(order - 1) + bound, argument)

        _, tilts, values = self._search(objective, start, _N_ZOOMS)
        best = int(np.argmin(values))
        return float(values[best]), 1 + float(tilts[best])

    def log_delta(self, epsilon: float) -> tuple[float, bool]:
        """Natural logarithm of the profile, rounded up, and whether the bound is tight."""
        if epsilon >= self.max_loss:
            return -np.inf, True
        contour = self._new_contour(epsilon)
        return (0.0, False) if contour is None else contour.log_delta(epsilon)

    def fits(self, epsilon: float, log_delta: float) -> bool:
        """Whether delta at epsilon is at most exp(log_delta), with a new contour only if needed."""
        if epsilon >= self.max_loss or self._fits_by_renyi(epsilon, log_delta):
            return True
        contour = self._updated_contour()
        if contour is not None and contour.log_delta(epsilon)[0] <= log_delta:
            return True
        return self.log_delta(epsilon)[0] <= log_delta

    def _updated_contour(self) -> Contour | None:
        """The last contour, with all pairs added since."""
        if self._contour is None:
            return None
        contour, kinds, squares = self._contour
        if kinds or squares:
            contour = contour.plus(kinds, squares)
            self._contour = contour, {}, 0.0
        return contour

    def _fits_by_renyi(self, epsilon: float, log_delta: float) -> bool:
        # If the divergences of fewer pairs did not imply it, those of more pairs do not either.
        if log_delta <= self._not_implied_by_renyi.get(epsilon, -np.inf):
            return False
        order = self._last_order
        if order is not None:
            known = renyi_log_delta(order, self.rdp_at(order), epsilon)
            if float(known) <= log_delta:
                return True
            self._sums.pop(order - 1, None)
        bound, self._last_order = self.renyi_log_delta(epsilon)
        if bound > log_delta:
            self._not_implied_by_renyi[epsilon] = log_delta
        return bound <= log_delta

    def epsilon(self, delta: float) -> tuple[float, bool]:
        """Smallest epsilon at delta, rounded up, and whether the bound is tight."""
        log_delta = np.log(delta)
        best = min(self.renyi_epsilon(delta), self.max_loss)
        tight, above = False, best
        # A contour is tight only near the epsilon it was made for, so it is updated to the root
        # found on the last one.
        for _ in range(_MAX_CONTOUR_UPDATES):
            if not 0 < above < np.inf:
                break
            found, tight = self._epsilon_near(above, best, float(log_delta))
            best = min(best, found)
            if abs(above - found) <= 1e-3 * found:
                break
            above = best
        return best, tight

    def _epsilon_near(self, epsilon: float, bound: float, log_delta: float) -> tuple[float, bool]:
        contour = self._new_contour(epsilon)
        if contour is None:
            return bound, False

        def excess(x: float) -> float:
            return max(contour.log_delta(x)[0] - log_delta, log_delta)

        if excess(0.0) <= 0:
            return 0.0, True
        if excess(bound) > 0:
            return bound, False
        tolerance = _EPSILON_ROUNDING * bound
        root = safe_root(excess, bound, -bound, tolerance=tolerance, limits=(0.0, bound))
        return root, contour.log_delta(root)[1]

    @cached_property
    def _spread(self) -> float:
        """Twice the leading coefficient of the cumulant (the variance, if losses are small)."""
        total = self._squares + 2 * self._bound.slope
        for family, (step, prior, counts) in self._kinds.items():
            if family in ODD_SIGNS:
                centre = prior + step / 2
                # At least the values of the zeta function.
                variances = (1 + centre) * (step / centre) ** 2
                total += float(counts @ variances) * (1 if ODD_SIGNS[family] else 2)
            else:
                total += float(counts @ step**2)
        return max(total, _MIN_PARAMETER)

    def _condensed_at(self, scale: float) -> CondensedPairs:
        # A scale that is much larger than needed leaves more residual pairs.
        known = self._condensed
        if known is None or not known.scale / 8 <= scale <= known.scale:
            known = condense(self._kinds, self._squares, 2.0 ** np.ceil(np.log2(scale)))
            self._condensed = known
        return known

    def _search(
        self, objective: Callable[[CondensedPairs, Floats], Floats], start: float, zooms: int
    ) -> tuple[CondensedPairs, Floats, Floats]:
        """Minimise an objective; return the condensed pairs, the tilts tried and the values."""
        deviation = self._spread**-0.5
        scale = 1.2 * np.hypot(start + 0.5, 8.5 * deviation) / _REAL_SHARE + 1
        for _ in range(_MAX_DOUBLINGS):
            condensed = self._condensed_at(float(scale))
            limit = min(self.max_tilt, _REAL_SHARE * condensed.scale)

            def evaluate(x, condensed=condensed, limit=limit):
                tilt = limit / (1 + np.exp(-x))
                tilt = np.where(1 + tilt > 1, tilt, np.finfo(float).eps)
                return tilt, objective(condensed, tilt)

            tilts, values = zoomed_search(evaluate, -24.0, 24.0, zooms)
            best = tilts[np.argmin(values)]
            if limit == self.max_tilt or best < 0.8 * limit or condensed.scale > _MAX_PARAMETER:
                break
            scale = 4 * condensed.scale
        return condensed, tilts, values

    def _new_contour(self, epsilon: float) -> Contour | None:
        def log_bound(condensed: CondensedPairs, tilt: Floats) -> Floats:
            smooth, bounded = condensed.cumulants(tilt, rough=True)
            return smooth + bounded - tilt * epsilon - np.log(tilt) - np.log1p(tilt)

        start = max(epsilon / self._spread - 0.5, 0.0) + self._spread**-0.5
        for _ in range(_MAX_DOUBLINGS):
            condensed, grid, values = self._search(log_bound, start, _N_CONTOUR_ZOOMS)
            contour, reached = new_contour(condensed, grid, values)
            if reached or condensed.scale > _MAX_PARAMETER:
                if contour is not None:
                    contour = contour.with_tail_bound(self._kinds)
                    self._contour = contour, {}, 0.0
                return contour
            # Start so far out that the search uses a scale at least twice as large.
            start = _REAL_SHARE * 1.1 * condensed.scale
        return None


def _parse(curves: Iterable[tuple[RenyiCurve, int]]) -> tuple[Kinds, float, RenyiBound] | None:
    """Return the kinds of pairs, the Gaussian part and the bound; None if out of range."""
    columns: dict[str, list[tuple[float, float, float]]] = {}
    squares, bound = 0.0, _NO_BOUND
    for curve, count in curves:
        if isinstance(curve, RenyiBound):
            bound = bound.plus(curve, count)
        elif isinstance(curve, GaussianPair):
            squares += count * curve.mu**2
        else:
            match curve:
                case BetaPair() | GammaPair():
                    family, step, prior = curve.direction, curve.r, curve.alpha
                case LaplacePair():
                    family, step, prior = "laplace", curve.shift, 1.0
                case PureDPPair():
                    family, step, prior = "response", curve.epsilon, 1.0
                case _:  # it has no power series
                    return None
            # Tiny steps and huge priors are replaced by dominating ones (docs/theory.md, 2.2).
            column = (max(step, _MIN_PARAMETER), min(prior, _MAX_PARAMETER), count)
            columns.setdefault(family, []).append(column)
    kinds = {family: np.array(rows, dtype=float).T for family, rows in columns.items()}
    for values in kinds.values():
        if (
            not np.all((values >= _MIN_PARAMETER) & (values <= _MAX_PARAMETER))
            or values[2].max() >= _MAX_COUNT
        ):
            return None
    if not (
        squares < _MAX_PARAMETER and bound.slope < _MAX_PARAMETER and bound.offset < _MAX_PARAMETER
    ):
        return None
    return kinds, squares, bound


class DirectionCurves(ABC):
    """Privacy curves of a composition in one direction: replace, add or remove."""

    failure: float  # probability that everything is revealed
    max_loss: float

    def rdp(self, order: Floats) -> Floats:
        """Renyi divergences; infinite if everything is revealed with positive probability."""
        return np.full(order.shape, np.inf) if self.failure > 0 else self._rdp(order)

    def log_delta(self, epsilon: Floats) -> Floats:
        finite = np.isfinite(epsilon)
        log_delta = np.full(epsilon.shape, -np.inf)
        if self.failure < 1:
            log_delta[finite] = self._log_delta(epsilon[finite]) + np.log1p(-self.failure)
        if self.failure > 0:
            log_delta = np.logaddexp(log_delta, np.log(self.failure)) + _LOG_ROUNDING
        return np.minimum(log_delta, 0.0)

    def epsilon(self, delta: float) -> float:
        if delta < self.failure or self.failure == 1:
            return np.inf
        delta = (delta - self.failure) / (1 - self.failure)
        return self.max_loss if delta == 0 else self._epsilon(delta)

    @abstractmethod
    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether (epsilon, delta)-DP is known to hold, from one evaluation of the profile."""

    @abstractmethod
    def _rdp(self, order: Floats) -> Floats: ...

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """Smallest bound on log delta of all methods, at finite epsilons."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float: ...


def _repeat(several: Iterable[tuple[Curves, int]]) -> Iterator[tuple[RenyiCurve, int]]:
    return ((curve, count * times) for curves, times in several for curve, count in curves)


class LargeProduct(DirectionCurves):
    """Curves of many kinds of releases, updated when releases are added.

    `profile` is None if only `renyi` is known, and the same object if both have the same curves.
    """

    def __init__(self, renyi: PairProduct, profile: PairProduct | None, log_survival: float):
        self._renyi = renyi
        self._profile = profile
        self._log_survival = log_survival
        self.failure = float(-np.expm1(log_survival))
        self.max_loss = np.inf if profile is None else profile.max_loss

    @classmethod
    def nothing(cls) -> "LargeProduct":
        product = PairProduct()
        return cls(product, product, 0.0)

    def plus(self, cases: Iterable[tuple[WorstCase, int]]) -> "LargeProduct | None":
        """Return the curves with more releases, or None if a parameter is out of range."""
        cases = list(cases)
        log_survival = self._log_survival
        for case, times in cases:
            log_survival += times * case.log_survival
        renyi = self._renyi.with_curves(_repeat((case.renyi, times) for case, times in cases))
        if renyi is None or isnan(log_survival):
            return None
        if self._profile is None or any(case.profile is None for case, _ in cases):
            return LargeProduct(renyi, None, log_survival)
        if self._profile is self._renyi and all(case.renyi == case.profile for case, _ in cases):
            return LargeProduct(renyi, renyi, log_survival)
        pairs = _repeat((case.profile or (), times) for case, times in cases)
        profile = self._profile.with_curves(pairs)
        return None if profile is None else LargeProduct(renyi, profile, log_survival)

    @property
    def is_many(self) -> bool:
        """Whether there are more than `FEW` kinds, or releases without a dominating pair."""
        return self._profile is None or self._profile.size > FEW

    def holds(self, epsilon: float, delta: float) -> bool:
        if delta < self.failure or self.failure == 1:
            return False
        delta = (delta - self.failure) / (1 - self.failure)
        if epsilon >= self.max_loss:
            return True
        if delta == 0:
            return False
        log_delta = np.log(delta) - (_LOG_ROUNDING if self.failure > 0 else 0.0)
        if self._profile is not None and self._profile.fits(epsilon, log_delta):
            return True
        renyi = self._renyi
        return self._profile is not renyi and renyi.renyi_log_delta(epsilon)[0] <= log_delta

    def rdp_at(self, order: float) -> float:
        return np.inf if self.failure > 0 else self._renyi.rdp_at(order)

    def _rdp(self, order: Floats) -> Floats:
        return self._renyi.rdp(order)

    def _log_delta(self, epsilon: Floats) -> Floats:
        return map_values(self._log_delta_at, epsilon)

    def _log_delta_at(self, epsilon: float) -> float:
        exact, tight = (0.0, False) if self._profile is None else self._profile.log_delta(epsilon)
        if tight and self._profile is self._renyi:
            return exact
        return min(exact, self._renyi.renyi_log_delta(epsilon)[0])

    def _epsilon(self, delta: float) -> float:
        exact, tight = (np.inf, False) if self._profile is None else self._profile.epsilon(delta)
        if tight and self._profile is self._renyi:
            return exact
        return min(exact, self._renyi.renyi_epsilon(delta))
