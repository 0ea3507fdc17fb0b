"""Bromwich's integral for many pairs, on a contour that is kept while pairs are added.

As in `inversion`, the sum over the nodes of any contour is an upper bound, if what lies
beyond the last node is bounded and added. Losses with atoms (Laplace noise, randomised
response) have no characteristic function that falls. It is enough to bound its modulus at the
nodes further out, since the sum over nodes is all that Poisson's formula speaks of: by some
of the factors, each of which is at most 1, or for losses within [-a, a] and ``2 a u <= pi`` by

    |E exp(iuL)|^2 = E cos(u (L - L')) <= 1 - (4 / pi^2) u^2 Var L.

Beyond all nodes a Gaussian pair takes over that is added for the purpose, and is so small
that it hardly changes anything: a product dominates each of its factors.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .condensed import SIGNS, Condensed, Kinds, cumulant, cumulants_of, not_small, releases_of
from .pairs import Floats

_ALIASING = 32.0  # other terms of Poisson's sum are below exp(-32) of the wanted one
_ROUNDING = 1e-9
_ROUGH_TILT = 3000.0
_TRUNCATION = 1e-12
_FAR_TRUNCATION = 1e-9
_TIGHT = 1e-6
_MAX_NODES = 1 << 12
_NODES = 48  # evaluated at once, at first
_FAR_NODES = 1 << 12
_FAR_KINDS = 48


@dataclass(frozen=True, eq=False)
class _Far:
    """Bounds on the modulus at nodes beyond the contour's last, by some pairs."""

    u: Floats
    log_modulus: Floats
    squares: float  # of the Gaussian pair that is added


@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes ``tilt + i u`` with what the pairs that are not small have for cumulants there.

    It stays valid when pairs are added, whatever they are.
    """

    condensed: Condensed
    tilt: float
    u: Floats
    releases: float  # of the pairs apart
    smooth: np.ndarray  # at the tilt itself, and at the nodes
    bounded: np.ndarray
    far: _Far | None = None

    @cached_property
    def nodes(self) -> np.ndarray:
        return self.tilt + 1j * np.append(0.0, self.u)

    def plus(self, kinds: Kinds, squares: float) -> "Contour":
        """With more pairs."""
        whole = replace(self, condensed=self.condensed.plus(kinds, squares))
        apart = not_small(kinds, self.condensed.scale)
        if not apart:
            return whole
        smooth, bounded = cumulants_of(apart, self.nodes, rough=False)
        return replace(
            whole,
            smooth=self.smooth + smooth,
            bounded=self.bounded + bounded,
            releases=self.releases + releases_of(apart),
        )

    def log_delta(self, epsilon: float) -> tuple[float, bool]:
        """An upper bound on log delta, and whether what was left out of it is small."""
        condensed = self.condensed
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
        # Phases of pairs with atoms are as large as their losses times the nodes.
        allowance += condensed.error + 1e-15 * (self.releases + float(np.abs(self.bounded).max()))
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
            rest = self._far_rest(last)
        total += rest + 1e-15 * magnitude
        if not 0 < total < np.inf:  # lost to rounding
            return float(min(chernoff, 0.0)), False
        inverted = growth + np.log(step / np.pi * total) + allowance
        return float(min(inverted, chernoff, 0.0)), rest < _TIGHT * total

    def _far_rest(self, last: float) -> float:
        assert self.far is not None
        condensed = self.condensed
        far, end = self.far, self.u[-1]
        squares = condensed.squares + far.squares
        smooth = last - 0.5 * squares * (far.u**2 - end**2)
        variance = condensed.bounded.curvature(self.tilt)
        near = 2 * far.u * condensed.largest <= np.pi
        modulus = np.where(near, -2 / np.pi**2 * variance * far.u**2, 0.0)
        modulus = smooth + np.minimum(modulus, far.log_modulus)
        beyond = float(np.exp(smooth[-1]) / (far.u[-1] * self.u[0]))
        return float((np.exp(modulus) / far.u**2).sum()) + beyond


def new_contour(
    condensed: Condensed, grid: Floats, action: Floats, epsilon: float
) -> tuple[Contour | None, bool]:
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
    step = float(2 * np.pi / period)
    end = np.sqrt(max(condensed.scale**2 - (c + 0.5) ** 2, 0.0))
    most = int(min(end / step, _MAX_NODES))
    if most < 1:
        return None, False
    releases = releases_of(condensed.apart)
    rough = releases * (1 + c) < _ROUGH_TILT
    smooth, bounded, start, done = [], [], 0, False
    while not done and start <= most:
        j = np.arange(start, min(start + _NODES + start // 2, most + 1))
        t = c + 1j * step * j
        apart = cumulants_of(condensed.apart, t, rough)
        smooth.append(apart[0])
        bounded.append(apart[1])
        modulus = (condensed.smooth(t) + condensed.bounded(t) + apart[0] + apart[1]).real
        if start == 0:
            largest = modulus[0]
        start += j.size
        last = modulus[-1] - largest + np.log(c * (1 + c)) - np.log(step * step * j[-1])
        done = bool(j[-1] > 0 and last < np.log(_TRUNCATION))
    u: Floats = step * np.arange(1.0, start)
    contour = Contour(
        condensed,
        c,
        u,
        releases,
        np.concatenate(smooth),
        np.concatenate(bounded),
    )
    return contour, done or most == _MAX_NODES


def with_far(kinds: Kinds, contour: Contour) -> Contour:
    """With bounds for nodes further out, where losses with atoms need them."""
    atoms = {family: values for family, values in kinds.items() if family not in SIGNS}
    if not atoms:
        return contour
    condensed, c, end, step = contour.condensed, contour.tilt, contour.u[-1], contour.u[0]
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
            at = cumulant(family, loss, np.ones(()), c + 1j * np.append(0.0, u), False).real
            log_modulus += count * np.minimum(at[1:] - at[0], 0.0)
    fall = last - np.log(u[-1] * step) - 0.5 * condensed.squares * (u[-1] ** 2 - end**2) - goal
    return replace(contour, far=_Far(u, log_modulus, max(2 * fall / u[-1] ** 2, 0.0)))
