"""Products of many different pairs, without work for each of them.

Pairs that are small beside the whole are kept as the sum of their power series, in which one
more is a sum of vectors; the few that are not are evaluated one by one, at the nodes of a
contour that is kept while pairs are added. So what was computed for ten thousand pairs serves
for the next, whose own work is that of one.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from math import fsum

import numpy as np

from ..numerics.conservative import safe_root
from .condensed import NO_KINDS, SIGNS, Condensed, Kinds, condense, join, one_by_one
from .contour import Contour, new_contour, with_far
from .conversions import renyi_epsilon, renyi_log_delta
from .pairs import (
    RENYI_ROUNDING,
    BetaPair,
    Floats,
    GammaPair,
    GaussianPair,
    LaplacePair,
    PureDPPair,
)
from .worst_case import RenyiBound, RenyiCurve

# Parameters outside are left to the slower routes, which can do with any.
_LEAST, _LARGEST = 1e-60, 1e60
_MOST_RELEASES = 1e19

_GRID = 48
_ZOOMS = 4
_CONTOUR_ZOOMS = 2
_FOLLOWED = 3  # times that a contour follows the epsilon found on the last
_ROOM = 0.85  # of the scale that real tilts may take; the rest is for the contour
_MAX_DOUBLINGS = 40
_EPSILON_ROUNDING = 1e-13
_SUMS = 2  # that are added to: one for a limit on a divergence, one to decide quickly


class Many:
    """A product of pairs, and of bounds on Renyi divergences, in one direction.

    Made by `many`; `with_curves` gives the product with some more, and keeps what is known.
    """

    def __init__(self, kinds: Kinds, squares: float, bound: RenyiBound):
        self._kinds = kinds
        self._squares = squares
        self._bound = bound
        self._condensed: Condensed | None = None
        # A contour, with the kinds and the Gaussian part that were added since it was made.
        self._contour: tuple[Contour, Kinds, float] | None = None
        self._sums: dict[float, float] = {}
        self._order: float | None = None  # of the divergence that decided last
        self._beyond_renyi: dict[float, float] = {}  # log deltas that no divergence implied

    @property
    def size(self) -> int:
        """The number of different kinds, without Gaussian ones."""
        return sum(kinds.shape[1] for kinds in self._kinds.values())

    def with_curves(self, curves: Iterable[tuple[RenyiCurve, int]]) -> "Many | None":
        """The product with more curves; None where numbers are too odd for it."""
        found = _read(curves)
        if found is None:
            return None
        kinds, squares, bound = found
        whole = Many(
            join(self._kinds, kinds), self._squares + squares, _add_bounds(self._bound, bound)
        )
        # Each is read once, and complete in itself: other threads may put new ones in place.
        condensed, kept = self._condensed, self._contour
        if condensed is not None:
            whole._condensed = condensed.plus(kinds, squares)
        if kept is not None and whole.max_tilt > kept[0].tilt:
            contour, waiting, waiting_squares = kept
            whole._contour = contour, join(waiting, kinds), waiting_squares + squares
        whole._order = self._order
        whole._beyond_renyi = dict(self._beyond_renyi)
        for tilt, known in list(self._sums.items())[-_SUMS:]:
            whole._sums[tilt] = known + one_by_one(kinds, squares, tilt)
        return whole

    @cached_property
    def max_tilt(self) -> float:
        """The supremum of the tilts at which the divergence is finite."""
        return min(self._pole, self._bound.max_tilt)

    @cached_property
    def _pole(self) -> float:
        """The least tilt at which a cumulant is infinite; a bound holds at its own end still."""
        pole = np.inf
        for family in ("replace", "remove"):
            r, alpha, _ = self._kinds.get(family, NO_KINDS)
            pole = min(pole, float(np.min(alpha / r, initial=np.inf)))
        return pole

    @cached_property
    def max_loss(self) -> float:
        """The largest loss of all together."""
        if self._squares > 0 or not self._kinds.keys() <= {"laplace", "response"}:
            return np.inf
        losses = fsum(x for loss, _, counts in self._kinds.values() for x in loss * counts)
        return losses * (1 + 1e-15)

    @property
    def _is_empty(self) -> bool:
        return self.size == 0 and self._squares == 0

    # Renyi divergences

    def rdp_at(self, order: float) -> float:
        """The divergence of one order, rounded up; kept, and added to, as pairs are."""
        tilt = order - 1
        if tilt >= self._pole:
            return np.inf
        if tilt not in self._sums:
            self._sums[tilt] = one_by_one(self._kinds, self._squares, tilt)
        bound = float(self._bound.rdp(order))
        return (self._sums[tilt] / tilt + bound) * (1 + RENYI_ROUNDING)

    def rdp(self, order: Floats) -> Floats:
        """Divergences of several orders, rounded up."""
        tilt = order - 1
        divergence = np.full(order.shape, np.inf)
        divergence[np.isinf(tilt)] = self.max_loss
        finite = np.isfinite(tilt) & (tilt < self._pole)
        scales = 2.0 ** np.ceil(np.log2(np.where(finite, tilt, 1.0) + 1))
        for scale in np.unique(scales[finite]):
            at = finite & (scales == scale)
            if scale < _LARGEST:
                divergence[at] = condense(self._kinds, self._squares, scale).divergence(tilt[at])
        return divergence + self._bound.rdp(order) * (1 + RENYI_ROUNDING)

    def renyi_log_delta(self, epsilon: float) -> float:
        """The least log delta at epsilon that a Renyi divergence implies."""
        return self._renyi_log_delta(epsilon)[0]

    def _renyi_log_delta(self, epsilon: float) -> tuple[float, float | None]:
        """As above, and the order that implies it, if there is one."""
        start = max(epsilon / max(self._spread, 1e-300) - 0.5, 0.0) + self._spread**-0.5
        value, order = self._best(
            lambda order, divergence: renyi_log_delta(order, divergence, epsilon), start
        )
        return min(value, 0.0), order

    def renyi_epsilon(self, delta: float) -> float:
        """The least epsilon at delta that a Renyi divergence implies."""
        start = (-2 * np.log(delta) / max(self._spread, 1e-300)) ** 0.5 + 1
        value, _ = self._best(
            lambda order, divergence: renyi_epsilon(order, divergence, delta), start
        )
        return max(value, 0.0)

    def _best(
        self, convert: Callable[[Floats, Floats], Floats], start: float
    ) -> tuple[float, float | None]:
        """The least that a divergence is converted to, and its order."""
        if self._is_empty and self._bound.slope == self._bound.offset == 0:
            return -np.inf, None

        def objective(condensed: Condensed, tilt: Floats) -> Floats:
            order = 1 + tilt
            bound = self._bound.rdp(order) * (1 + RENYI_ROUNDING)
            return convert(order, condensed.divergence(order - 1) + bound)

        _, tilts, values = self._search(objective, start, _ZOOMS)
        best = int(np.argmin(values))
        return float(values[best]), 1 + float(tilts[best])

    # The profile

    def log_delta(self, epsilon: float) -> tuple[float, bool]:
        """Natural logarithm of the profile, rounded up, and whether that is tight."""
        if self._is_empty:
            return -np.inf, True
        if epsilon >= self.max_loss:
            return -np.inf, True
        contour = self._new_contour(epsilon)
        return (0.0, False) if contour is None else contour.log_delta(epsilon)

    def fits(self, epsilon: float, log_delta: float) -> bool:
        """Whether the profile is at most a delta, by what is at hand if that can tell.

        Far from it a divergence of one order tells, whose sum one more pair is quickly added to.
        """
        if self._is_empty or epsilon >= self.max_loss:
            return True
        if self._fits_by_renyi(epsilon, log_delta):
            return True
        contour = self._kept_contour()
        if contour is not None and contour.log_delta(epsilon)[0] <= log_delta:
            return True
        return self.log_delta(epsilon)[0] <= log_delta

    def _kept_contour(self) -> Contour | None:
        """The last contour, with all pairs that were added since."""
        kept = self._contour
        if kept is None:
            return None
        contour, kinds, squares = kept
        if kinds or squares:
            contour = contour.plus(kinds, squares)
            self._contour = contour, {}, 0.0
        return contour

    def _fits_by_renyi(self, epsilon: float, log_delta: float) -> bool:
        # What divergences of fewer pairs did not imply, those of more do not either.
        if log_delta <= self._beyond_renyi.get(epsilon, -np.inf):
            return False
        order = self._order
        if order is not None:
            known = renyi_log_delta(order, self.rdp_at(order), epsilon)
            if float(known) <= log_delta:
                return True
            self._sums.pop(order - 1, None)
        least, self._order = self._renyi_log_delta(epsilon)
        if least > log_delta:
            self._beyond_renyi[epsilon] = log_delta
        return least <= log_delta

    def epsilon(self, delta: float) -> tuple[float, bool]:
        """The least epsilon at delta, rounded up, and whether it is tight."""
        log_delta = np.log(delta)
        best = min(self.renyi_epsilon(delta), self.max_loss)
        tight, above = False, best
        # On one contour the bound is quick for every epsilon, and near that of its own it
        # is tight; so the contour follows the root.
        for _ in range(_FOLLOWED):
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

    # Where to look

    @cached_property
    def _spread(self) -> float:
        """Twice the leading coefficient of the cumulant: the variance of small losses."""
        total = self._squares + 2 * self._bound.slope
        for family, (step, prior, counts) in self._kinds.items():
            if family in SIGNS:
                centre = prior + step / 2
                each = (1 + centre) * (step / centre) ** 2  # at least that of the zeta function
                total += float(counts @ each) * (1 if SIGNS[family] else 2)
            else:
                total += float(counts @ step**2)
        return max(total, _LEAST)

    def _at_scale(self, scale: float) -> "Condensed":
        # What is at hand serves if it reaches as far as is asked, and not far beyond, where
        # fewer pairs would be small.
        known = self._condensed
        if known is None or not known.scale / 8 <= scale <= known.scale:
            known = condense(self._kinds, self._squares, 2.0 ** np.ceil(np.log2(scale)))
            self._condensed = known
        return known

    def _search(
        self, objective: "Callable[[Condensed, Floats], Floats]", start: float, zooms: int
    ) -> "tuple[Condensed, Floats, Floats]":
        """What was searched, tilts around the minimum of an objective, and its values there."""
        deviation = self._spread**-0.5
        scale = 1.2 * np.hypot(start + 0.5, 8.5 * deviation) / _ROOM + 1
        for _ in range(_MAX_DOUBLINGS):
            condensed = self._at_scale(float(scale))
            limit = min(self.max_tilt, _ROOM * condensed.scale)
            tilts, values = [], []
            low, high = -24.0, 24.0
            for _ in range(zooms):
                x = np.linspace(low, high, _GRID)
                tilt = limit / (1 + np.exp(-x))
                tilt = np.where(1 + tilt > 1, tilt, np.finfo(float).eps)
                value = objective(condensed, tilt)
                value = np.where(np.isnan(value), np.inf, value)
                tilts.append(tilt)
                values.append(value)
                best = int(np.argmin(value))
                low, high = x[max(best - 1, 0)], x[min(best + 1, _GRID - 1)]
            tilt, value = np.concatenate(tilts), np.concatenate(values)
            best = int(np.argmin(value))
            if limit == self.max_tilt or tilt[best] < 0.8 * limit or condensed.scale > _LARGEST:
                break
            scale = 4 * condensed.scale
        order = np.argsort(tilt)
        return condensed, tilt[order], value[order]

    def _new_contour(self, epsilon: float) -> "Contour | None":
        def action(condensed: Condensed, tilt: Floats) -> Floats:
            smooth, bounded = condensed.cumulants(tilt, rough=True)
            return smooth + bounded - tilt * epsilon - np.log(tilt) - np.log1p(tilt)

        start = max(epsilon / self._spread - 0.5, 0.0) + self._spread**-0.5
        for _ in range(_MAX_DOUBLINGS):
            condensed, grid, values = self._search(action, start, _CONTOUR_ZOOMS)
            contour, reached = new_contour(condensed, grid, values, epsilon)
            if reached or condensed.scale > _LARGEST:
                if contour is not None:
                    contour = with_far(self._kinds, contour)
                    self._contour = contour, {}, 0.0
                return contour
            # Twice as far, beyond what the search would ask for by itself.
            start = _ROOM * 1.1 * condensed.scale
        return None


def many(curves: Iterable[tuple[RenyiCurve, int]]) -> Many | None:
    """The product of curves; None where their numbers are too odd for it."""
    return Many({}, 0.0, RenyiBound(0.0, 0.0, np.inf)).with_curves(curves)


def _read(curves: Iterable[tuple[RenyiCurve, int]]) -> tuple[Kinds, float, RenyiBound] | None:
    columns: dict[str, list[tuple[float, float, float]]] = {}
    squares = 0.0
    bound = RenyiBound(0.0, 0.0, np.inf)
    for curve, count in curves:
        if isinstance(curve, RenyiBound):
            bound = _add_bounds(
                bound, RenyiBound(count * curve.slope, count * curve.offset, curve.max_tilt)
            )
        elif isinstance(curve, BetaPair):
            columns.setdefault("replace", []).append((*_rounded(curve.r, curve.alpha), count))
        elif isinstance(curve, GammaPair):
            columns.setdefault(curve.direction, []).append((*_rounded(curve.r, curve.alpha), count))
        elif isinstance(curve, GaussianPair):
            squares += count * curve.mu**2
        elif isinstance(curve, LaplacePair):
            columns.setdefault("laplace", []).append((*_rounded(curve.shift), count))
        elif isinstance(curve, PureDPPair):
            columns.setdefault("response", []).append((*_rounded(curve.epsilon), count))
        else:
            return None
    kinds = {family: np.array(rows, dtype=float).T for family, rows in columns.items()}
    for values in kinds.values():
        if not (
            np.all((values >= _LEAST) & (values <= _LARGEST)) and values[2].max() < _MOST_RELEASES
        ):
            return None
    if not (squares < _LARGEST and bound.slope < _LARGEST and bound.offset < _LARGEST):
        return None
    return kinds, squares, bound


def _rounded(step: float, prior: float = 1.0) -> tuple[float, float]:
    """Tiny steps, and huge priors, to what dominates them (docs/theory.md, 2.2)."""
    return max(step, _LEAST), min(prior, _LARGEST)


def _add_bounds(one: RenyiBound, other: RenyiBound) -> RenyiBound:
    return RenyiBound(
        one.slope + other.slope, one.offset + other.offset, min(one.max_tilt, other.max_tilt)
    )
