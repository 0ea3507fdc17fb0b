"""Products of many different pairs, without work for each of them.

Pairs that are small beside the whole are kept as the sum of their power series (see
`series`), in which one more is a sum of vectors; the few that are not are evaluated one by
one, at the nodes of a contour that is kept while pairs are added. So what was computed for
ten thousand pairs serves for the next, whose own work is that of one.

The profile is Bromwich's integral, as in `inversion`, and any contour gives a valid upper
bound. Losses with atoms (Laplace noise, randomised response) have no characteristic function
that falls. It is enough to bound its modulus at the nodes far out, since the sum over nodes
is all that Poisson's formula speaks of: by some of the factors, each of which is at most 1,
or for losses within [-a, a] and ``2 a u <= pi`` by

    |E exp(iuL)|^2 = E cos(u (L - L')) <= 1 - (4 / pi^2) u^2 Var L.

Beyond all nodes a Gaussian pair takes over that is added for the purpose, and is so small
that it changes nothing: a product dominates each of its factors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum

import numpy as np

from ..numerics.log_gamma import gamma_add_cumulant, gamma_remove_cumulant
from ..numerics.roots import safe_root
from .conversions import renyi_epsilon, renyi_log_delta
from .pairs import (
    RENYI_ROUNDING,
    BetaPair,
    DominatingPair,
    Floats,
    GammaPair,
    GaussianPair,
    LaplacePair,
    PureDPPair,
)
from .series import (
    CLOSE,
    TERMS,
    Series,
    bounded_reach,
    gamma_reach,
    gamma_series,
    gaussian_series,
    laplace_series,
    response_series,
)
from .worst_case import RenyiBound, RenyiCurve

# Parameters outside are left to the slower routes, which can do with any.
_LEAST, _LARGEST = 1e-60, 1e60
_MOST_RELEASES = 1e15

_GRID = 48
_ZOOMS = 4
_CONTOUR_ZOOMS = 2
_FOLLOWED = 3  # times that a contour follows the epsilon found on the last
_ROOM = 0.85  # of the scale that real tilts may take; the rest is for the contour
_MAX_DOUBLINGS = 40
_ALIASING = 32.0
_ROUNDING = 1e-9
_SERIES_ROUNDING = 1e-14
_ROUGH_TILT = 3000.0
_TRUNCATION = 1e-12
_FAR_TRUNCATION = 1e-9
_TIGHT = 1e-6
_MAX_NODES = 1 << 12
_NODES = 48  # evaluated at once, at first
_FAR_NODES = 1 << 13
_FAR_KINDS = 96
_ELEMENTS = 1 << 18  # of an array in one step
_EPSILON_ROUNDING = 1e-13

# By family: step, prior (or the largest loss, and 0) and number of releases, one column each.
_Kinds = dict[str, Floats]
_SIGNS = {"replace": 0, "add": -1, "remove": 1}
_NO_KINDS = np.zeros((3, 0))


class Many:
    """A product of pairs, and of bounds on Renyi divergences, in one direction.

    Made by `many`; `with_curves` gives the product with some more, and keeps what is known.
    """

    def __init__(self, kinds: _Kinds, squares: float, bound: RenyiBound):
        self._kinds = kinds
        self._squares = squares
        self._bound = bound
        self._condensed: _Condensed | None = None
        self._contour: _Contour | None = None
        self._sums: dict[float, float] = {}

    @property
    def size(self) -> int:
        """The number of kinds, equal ones counted as often as they were added."""
        return sum(kinds.shape[1] for kinds in self._kinds.values())

    def with_curves(self, curves: Iterable[tuple[RenyiCurve, int]]) -> "Many | None":
        """The product with more curves; None where numbers are too odd for it."""
        found = _read(curves)
        if found is None:
            return None
        kinds, squares, bound = found
        joined = {
            family: np.concatenate([self._kinds[family], more], axis=1)
            if family in self._kinds
            else more
            for family, more in kinds.items()
        }
        whole = Many(self._kinds | joined, self._squares + squares, _add_bounds(self._bound, bound))
        if self._condensed is not None:
            whole._condensed = self._condensed.plus(kinds, squares)
        if self._contour is not None and whole.max_tilt > self._contour.tilt:
            whole._contour = self._contour.plus(_apart(kinds, self._contour.scale))
        for tilt, known in self._sums.items():
            whole._sums[tilt] = known + _one_by_one(kinds, squares, tilt)
        return whole

    @cached_property
    def max_tilt(self) -> float:
        """The supremum of the tilts at which the cumulant is finite."""
        limit = self._bound.max_tilt
        for family in ("replace", "remove"):
            r, alpha, _ = self._kinds.get(family, _NO_KINDS)
            limit = min(limit, float(np.min(alpha / r, initial=np.inf)))
        return limit

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
        if tilt >= self.max_tilt:
            return np.inf
        if tilt not in self._sums:
            self._sums[tilt] = _one_by_one(self._kinds, self._squares, tilt)
        bound = float(self._bound.rdp(order))
        return (self._sums[tilt] / tilt + bound) * (1 + RENYI_ROUNDING)

    def rdp(self, order: Floats) -> Floats:
        """Divergences of several orders, rounded up."""
        tilt = order - 1
        divergence = np.full(order.shape, np.inf)
        divergence[np.isinf(tilt)] = self.max_loss
        finite = np.isfinite(tilt) & (tilt < self.max_tilt)
        scales = 2.0 ** np.ceil(np.log2(np.where(finite, tilt, 1.0) + 1))
        for scale in np.unique(scales[finite]):
            at = finite & (scales == scale)
            if scale < _LARGEST:
                divergence[at] = _condense(self._kinds, self._squares, scale).divergence(tilt[at])
        return divergence + self._bound.rdp(order) * (1 + RENYI_ROUNDING)

    def renyi_log_delta(self, epsilon: float) -> float:
        """The least log delta at epsilon that a Renyi divergence implies."""
        start = max(epsilon / max(self._spread, 1e-300) - 0.5, 0.0) + self._spread**-0.5
        return min(self._best(lambda *known: renyi_log_delta(*known, epsilon), start), 0.0)

    def renyi_epsilon(self, delta: float) -> float:
        """The least epsilon at delta that a Renyi divergence implies."""
        start = (-2 * np.log(delta) / max(self._spread, 1e-300)) ** 0.5 + 1
        return max(self._best(lambda *known: renyi_epsilon(*known, delta), start), 0.0)

    def _best(self, convert: Callable[[Floats, Floats], Floats], start: float) -> float:
        if self._is_empty and self._bound.slope == self._bound.offset == 0:
            return -np.inf

        def objective(condensed: _Condensed, tilt: Floats) -> Floats:
            order = 1 + tilt
            bound = self._bound.rdp(order) * (1 + RENYI_ROUNDING)
            return convert(order, condensed.divergence(order - 1) + bound)

        return float(np.min(self._search(objective, start, _ZOOMS)[1]))

    # The profile

    def log_delta(self, epsilon: float) -> tuple[float, bool]:
        """Natural logarithm of the profile, rounded up, and whether that is tight."""
        if self._is_empty:
            return -np.inf, True
        if epsilon >= self.max_loss:
            return -np.inf, True
        self._contour = self._new_contour(epsilon)
        return (0.0, False) if self._contour is None else self._on_contour(epsilon)

    def fits(self, epsilon: float, log_delta: float) -> bool:
        """Whether the profile is at most a delta, by the contour that is at hand if it can."""
        if self._is_empty or epsilon >= self.max_loss:
            return True
        if self._contour is not None and self._on_contour(epsilon)[0] <= log_delta:
            return True
        return self.log_delta(epsilon)[0] <= log_delta

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
        self._contour = self._new_contour(epsilon)
        if self._contour is None:
            return bound, False

        def excess(x: float) -> float:
            return max(self._on_contour(x)[0] - log_delta, log_delta)

        if excess(0.0) <= 0:
            return 0.0, True
        if excess(bound) > 0:
            return bound, False
        tolerance = _EPSILON_ROUNDING * bound
        root = safe_root(excess, bound, -bound, tolerance=tolerance, limits=(0.0, bound))
        return root, self._on_contour(root)[1]

    def _on_contour(self, epsilon: float) -> tuple[float, bool]:
        assert self._contour is not None and self._condensed is not None
        return self._contour.log_delta(self._condensed, epsilon)

    # Where to look

    @cached_property
    def _spread(self) -> float:
        """Twice the leading coefficient of the cumulant: the variance of small losses."""
        total = self._squares + 2 * self._bound.slope
        for family, (step, prior, counts) in self._kinds.items():
            if family in _SIGNS:
                centre = prior + step / 2
                each = (1 + centre) * (step / centre) ** 2  # at least that of the zeta function
                total += float(counts @ each) * (1 if _SIGNS[family] else 2)
            else:
                total += float(counts @ step**2)
        return max(total, _LEAST)

    def _at_scale(self, scale: float) -> "_Condensed":
        # What is at hand serves if it reaches as far as is asked, and not far beyond, where
        # fewer pairs would be small.
        known = self._condensed
        if known is None or not known.scale / 8 <= scale <= known.scale:
            self._condensed = known = _condense(
                self._kinds, self._squares, 2.0 ** np.ceil(np.log2(scale))
            )
            self._contour = None
        return known

    def _search(
        self, objective: "Callable[[_Condensed, Floats], Floats]", start: float, zooms: int
    ) -> tuple[Floats, Floats]:
        """Tilts around the minimum of an objective, and its values there."""
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
        return tilt[order], value[order]

    def _new_contour(self, epsilon: float) -> "_Contour | None":
        def action(condensed: _Condensed, tilt: Floats) -> Floats:
            smooth, bounded = condensed.cumulants(tilt, rough=True)
            return smooth + bounded - tilt * epsilon - np.log(tilt) - np.log1p(tilt)

        start = max(epsilon / self._spread - 0.5, 0.0) + self._spread**-0.5
        for _ in range(_MAX_DOUBLINGS):
            grid, values = self._search(action, start, _CONTOUR_ZOOMS)
            condensed = self._condensed
            assert condensed is not None
            contour, reached = _contour(condensed, grid, values, epsilon)
            if reached or condensed.scale > _LARGEST:
                return None if contour is None else _with_far(self._kinds, condensed, contour)
            # Twice as far, beyond what the search would ask for by itself.
            self._condensed = _condense(self._kinds, self._squares, 2 * condensed.scale)
            start = _ROOM * 0.6 * 2 * condensed.scale
        return None


def many(curves: Iterable[tuple[RenyiCurve, int]]) -> Many | None:
    """The product of curves; None where their numbers are too odd for it."""
    return Many({}, 0.0, RenyiBound(0.0, 0.0, np.inf)).with_curves(curves)


def _read(curves: Iterable[tuple[RenyiCurve, int]]) -> tuple[_Kinds, float, RenyiBound] | None:
    columns: dict[str, list[tuple[float, float, float]]] = {}
    squares = 0.0
    bound = RenyiBound(0.0, 0.0, np.inf)
    for curve, count in curves:
        if isinstance(curve, RenyiBound):
            bound = _add_bounds(
                bound, RenyiBound(count * curve.slope, count * curve.offset, curve.max_tilt)
            )
        elif isinstance(curve, BetaPair):
            columns.setdefault("replace", []).append((curve.r, curve.alpha, count))
        elif isinstance(curve, GammaPair):
            columns.setdefault(curve.direction, []).append((curve.r, curve.alpha, count))
        elif isinstance(curve, GaussianPair):
            squares += count * curve.mu**2
        elif isinstance(curve, LaplacePair):
            columns.setdefault("laplace", []).append((curve.shift, 1.0, count))
        elif isinstance(curve, PureDPPair):
            columns.setdefault("response", []).append((curve.epsilon, 1.0, count))
        else:
            return None
    kinds = {family: np.array(rows, dtype=float).T for family, rows in columns.items()}
    for values in kinds.values():
        if not (
            np.all((values > _LEAST) & (values < _LARGEST)) and values[2].max() < _MOST_RELEASES
        ):
            return None
    if not (squares < _LARGEST and bound.slope < _LARGEST and bound.offset < _LARGEST):
        return None
    return kinds, squares, bound


def _add_bounds(one: RenyiBound, other: RenyiBound) -> RenyiBound:
    return RenyiBound(
        one.slope + other.slope, one.offset + other.offset, min(one.max_tilt, other.max_tilt)
    )


@dataclass(frozen=True, eq=False)
class _Condensed:
    """Pairs that are small at a scale as series, and the others one by one.

    Attributes
    ----------
    smooth, bounded : series of pairs whose losses have densities, and of the others.
    squares : the Gaussian part of the smooth series.
    largest : the largest loss of a pair in the bounded series.
    apart : the pairs that are in neither.
    """

    scale: float
    smooth: Series
    bounded: Series
    squares: float
    largest: float
    apart: _Kinds

    def plus(self, kinds: _Kinds, squares: float) -> "_Condensed":
        more = _condense(kinds, squares, self.scale)
        apart = dict(self.apart)
        for family, values in more.apart.items():
            apart[family] = np.concatenate([apart.get(family, _NO_KINDS), values], axis=1)
        return _Condensed(
            self.scale,
            self.smooth + more.smooth,
            self.bounded + more.bounded,
            self.squares + more.squares,
            max(self.largest, more.largest),
            apart,
        )

    @cached_property
    def error(self) -> float:
        """A bound on the error of the series anywhere within the scale."""
        size = sum(
            float(np.abs(series.even).sum() + np.abs(series.odd).sum())
            for series in (self.smooth, self.bounded)
        )
        return self.smooth.error + self.bounded.error + _SERIES_ROUNDING * size

    def divergence(self, tilt: Floats) -> Floats:
        """The Renyi divergence of order 1 + tilt, rounded up."""
        smooth, bounded = self.cumulants(tilt, rough=False)
        # (w^k - v^k) / (w - v) is at most k, for all powers that were left out of the series.
        left_out = 2 * TERMS * (self.smooth.error + self.bounded.error) / self.scale**2
        return ((smooth + bounded) / tilt + left_out * (1 + tilt)) * (1 + RENYI_ROUNDING)

    def cumulants(self, tilt: np.ndarray, rough: bool) -> tuple[np.ndarray, np.ndarray]:
        """Of the smooth pairs, and of those with bounded losses."""
        smooth, bounded = _apart_cumulants(self.apart, tilt, rough)
        return self.smooth(tilt) + smooth, self.bounded(tilt) + bounded


def _condense(kinds: _Kinds, squares: float, scale: float) -> _Condensed:
    smooth, bounded = gaussian_series(squares, scale), Series.empty(scale)
    largest = 0.0
    apart = _apart(kinds, scale)
    for family, values in kinds.items():
        small = _is_small(family, values, scale)
        step, prior, counts = values[:, small]
        if family in _SIGNS:
            smooth = smooth + gamma_series(step, prior, counts, scale, _SIGNS[family])
            continue
        largest = max(largest, float(np.max(step, initial=0.0)))
        if family == "laplace":
            bounded = bounded + laplace_series(step, counts, scale)
        else:
            bounded = bounded + response_series(step, counts, scale)
    return _Condensed(scale, smooth, bounded, squares, largest, apart)


def _is_small(family: str, values: Floats, scale: float) -> np.ndarray:
    step, prior, _ = values
    reach = gamma_reach(step, prior) if family in _SIGNS else bounded_reach(step)
    return reach * scale <= CLOSE


def _apart(kinds: _Kinds, scale: float) -> _Kinds:
    found = {
        family: values[:, ~_is_small(family, values, scale)] for family, values in kinds.items()
    }
    return {family: values for family, values in found.items() if values.size}


def _apart_cumulants(
    kinds: _Kinds, tilt: np.ndarray, rough: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over pairs that are evaluated one by one."""
    smooth, bounded = np.zeros_like(tilt), np.zeros_like(tilt)
    rows = max(1, _ELEMENTS // max(tilt.size, 1))
    for family, values in kinds.items():
        # Pairs with small and with large priors apart: a shortcut is for the former.
        order = np.argsort(values[0] + values[1]) if family in _SIGNS else slice(None)
        values = values[:, order]
        for start in range(0, values.shape[1], rows):
            step, prior, counts = values[:, start : start + rows, np.newaxis]
            each = _cumulant(family, step, prior, tilt.reshape(1, -1), rough)
            total = (counts * each).sum(axis=0).reshape(tilt.shape)
            if family in _SIGNS:
                smooth = smooth + total
            else:
                bounded = bounded + total
    return smooth, bounded


def _cumulant(
    family: str, step: Floats, prior: Floats, tilt: np.ndarray, rough: bool
) -> np.ndarray:
    match family:
        case "add":
            return gamma_add_cumulant(tilt, step, prior, rough)
        case "remove":
            return gamma_remove_cumulant(tilt, step, prior, rough)
        case "replace":
            gain = gamma_add_cumulant(tilt, step, prior, rough)
            return gain + gamma_remove_cumulant(tilt, step, prior, rough)
    if not np.iscomplexobj(tilt):
        pair: DominatingPair = LaplacePair(step) if family == "laplace" else PureDPPair(step)  # type: ignore[arg-type]
        return pair.cumulant(tilt)
    back = np.exp(-(1 + 2 * tilt) * step)
    if family == "laplace":
        return tilt * step + np.log((1 + back) / 2 + (1 - back) / (2 + 4 * tilt))
    return tilt * step + np.log((1 + back) / (1 + np.exp(-step)))


def _one_by_one(kinds: _Kinds, squares: float, tilt: float) -> float:
    smooth, bounded = _apart_cumulants(kinds, np.array([tilt]), rough=False)
    return float(smooth[0] + bounded[0]) + 0.5 * squares * tilt * (1 + tilt)


@dataclass(frozen=True, eq=False)
class _Far:
    """Bounds on the modulus at nodes beyond the contour's last, by some pairs."""

    u: Floats
    log_modulus: Floats
    squares: float  # of the Gaussian pair that is added


@dataclass(frozen=True, eq=False)
class _Contour:
    """Nodes ``tilt + i u`` with what the pairs that are not small have for cumulants there.

    It stays valid when pairs are added, whatever they are.
    """

    scale: float
    tilt: float
    u: Floats
    releases: float  # of the pairs apart
    smooth: np.ndarray  # at the tilt itself, and at the nodes
    bounded: np.ndarray
    far: _Far | None = None

    @cached_property
    def nodes(self) -> np.ndarray:
        return self.tilt + 1j * np.append(0.0, self.u)

    def plus(self, apart: _Kinds) -> "_Contour":
        if not apart:
            return self
        smooth, bounded = _apart_cumulants(apart, self.nodes, rough=False)
        releases = self.releases + sum(float(values[2].sum()) for values in apart.values())
        return replace(
            self,
            smooth=self.smooth + smooth,
            bounded=self.bounded + bounded,
            releases=releases,
        )

    def log_delta(self, condensed: _Condensed, epsilon: float) -> tuple[float, bool]:
        """An upper bound on log delta, and whether it is tight but for what adds aliases."""
        assert condensed.scale == self.scale
        c, t, u, step = self.tilt, self.nodes, self.u, self.u[0]
        smooth = condensed.smooth(t) + self.smooth
        bounded = condensed.bounded(t) + self.bounded
        if self.far is not None:
            smooth = smooth + 0.5 * self.far.squares * t * (1 + t)
        cumulant = smooth + bounded
        growth = float(cumulant[0].real) - c * epsilon
        # Far above 1 the integrand would have to cancel.
        if not (abs(growth) < np.inf and growth < _ALIASING):
            return 0.0, False
        allowance = _ROUNDING + 1e-14 * (abs(growth) + c * abs(epsilon))
        allowance += condensed.error + 1e-15 * self.releases
        chernoff = growth + c * np.log(c) - (1 + c) * np.log1p(c) + allowance
        if allowance > 1:
            return float(min(chernoff, 0.0)), False
        values = np.exp(cumulant[1:] - t[1:] * epsilon - growth) / (t[1:] * (1 + t[1:]))
        total = 0.5 / (c * (1 + c)) + float(values.real.sum())
        magnitude = 0.5 / (c * (1 + c)) + float(np.abs(values).sum())
        # The smooth part's modulus falls along the line, the other's is at most 1.
        last = float((smooth[-1] - smooth[0]).real)
        if self.far is None:
            has_atoms = condensed.largest > 0 or bool(self.bounded.any())
            modulus = last if has_atoms else float((cumulant[-1] - cumulant[0]).real)
            rest = float(np.exp(modulus) / (u[-1] * step))
        else:
            rest = self._far_rest(condensed, last)
        total += rest + 1e-15 * magnitude
        if not 0 < total < np.inf:  # lost to rounding
            return float(min(chernoff, 0.0)), False
        inverted = growth + np.log(step / np.pi * total) + allowance
        return float(min(inverted, chernoff, 0.0)), rest < _TIGHT * total

    def _far_rest(self, condensed: _Condensed, last: float) -> float:
        assert self.far is not None
        far, end = self.far, self.u[-1]
        squares = condensed.squares + far.squares
        smooth = last - 0.5 * squares * (far.u**2 - end**2)
        variance = condensed.bounded.curvature(self.tilt)
        near = 2 * far.u * condensed.largest <= np.pi
        modulus = np.where(near, -2 / np.pi**2 * variance * far.u**2, 0.0)
        modulus = smooth + np.minimum(modulus, far.log_modulus)
        beyond = float(np.exp(smooth[-1]) / (far.u[-1] * self.u[0]))
        return float((np.exp(modulus) / far.u**2).sum()) + beyond


def _contour(
    condensed: _Condensed, grid: Floats, action: Floats, epsilon: float
) -> tuple[_Contour | None, bool]:
    """The contour through the best tilt, and whether the scale was large enough for it."""
    best = int(np.argmin(action))
    c = float(grid[best])
    if not np.isfinite(action[best]):
        return None, True
    # Aliases m < 0 are at most exp(-c T), and those m > 0 obey Chernoff's bound at any tilt
    # above c; the period T makes both small beside the wanted term.
    wanted = min(float(action[best]), 0.0) - _ALIASING
    period = -wanted / c
    above = grid > c * (1 + 1e-6)
    if above.any():
        bound = action[above] + np.log(grid[above]) + np.log1p(grid[above]) - wanted
        period = max(period, float(np.min(bound / (grid[above] - c))))
    step = 2 * np.pi / period
    end = np.sqrt(max(condensed.scale**2 - (c + 0.5) ** 2, 0.0))
    most = int(min(end / step, _MAX_NODES))
    if most < 1:
        return None, False
    releases = sum(float(values[2].sum()) for values in condensed.apart.values())
    rough = releases * (1 + c) < _ROUGH_TILT
    smooth, bounded, start, done = [], [], 0, False
    while not done and start <= most:
        j = np.arange(start, min(start + _NODES + start // 2, most + 1))
        t = c + 1j * step * j
        apart = _apart_cumulants(condensed.apart, t, rough)
        smooth.append(apart[0])
        bounded.append(apart[1])
        modulus = (condensed.smooth(t) + condensed.bounded(t) + apart[0] + apart[1]).real
        if start == 0:
            largest = modulus[0]
        start += j.size
        last = modulus[-1] - largest + np.log(c * (1 + c)) - np.log(step * step * j[-1])
        done = bool(j[-1] > 0 and last < np.log(_TRUNCATION))
    contour = _Contour(
        condensed.scale,
        c,
        step * np.arange(1, start),
        releases,
        np.concatenate(smooth),
        np.concatenate(bounded),
    )
    return contour, done or most == _MAX_NODES


def _with_far(kinds: _Kinds, condensed: _Condensed, contour: _Contour) -> _Contour:
    """With bounds for nodes further out, where losses with atoms need them."""
    atoms = {family: values for family, values in kinds.items() if family not in _SIGNS}
    if not atoms:
        return contour
    c, end, step = contour.tilt, contour.u[-1], contour.u[0]
    t = contour.nodes[[0, -1]]
    smooth = condensed.smooth(t) + contour.smooth[[0, -1]]
    last = float((smooth[1] - smooth[0]).real)
    # How much smaller than the first node's all that is left out shall be.
    goal = np.log(_FAR_TRUNCATION / (2 * c * (1 + c)))
    if last - np.log(end * step) < goal:
        return contour
    u = end + step * np.arange(1, _FAR_NODES + 1)
    log_modulus = np.zeros(u.size)
    for family, values in atoms.items():
        order = np.argsort(-values[2] * values[0] ** 2)[:_FAR_KINDS]
        for loss, _, count in values[:, order].T:
            at = _cumulant(family, loss, 1.0, c + 1j * np.append(0.0, u), False).real
            log_modulus += count * np.minimum(at[1:] - at[0], 0.0)
    fall = last - np.log(u[-1] * step) - 0.5 * condensed.squares * (u[-1] ** 2 - end**2) - goal
    return replace(contour, far=_Far(u, log_modulus, max(2 * fall / u[-1] ** 2, 0.0)))
