"""Many pairs at once: those that are small as power series, the others one by one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..numerics.log_gamma import gamma_add_cumulant, gamma_remove_cumulant
from .pairs import RENYI_ROUNDING, DominatingPair, Floats, LaplacePair, PureDPPair
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

#: By family: step, prior (or the largest loss, and 1) and number of releases, one column each.
Kinds = dict[str, Floats]
#: The families whose losses have densities, with the sign of odd terms of their series.
SIGNS = {"replace": 0, "add": -1, "remove": 1}
NO_KINDS = np.zeros((3, 0))

_SERIES_ROUNDING = 1e-14
_AT_A_TIME = 16  # kinds that are looked for one by one
_ELEMENTS = 1 << 18  # of an array in one step


@dataclass(frozen=True, eq=False)
class Condensed:
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
    apart: Kinds

    def plus(self, kinds: Kinds, squares: float) -> "Condensed":
        more = condense(kinds, squares, self.scale)
        return Condensed(
            self.scale,
            self.smooth + more.smooth,
            self.bounded + more.bounded,
            self.squares + more.squares,
            max(self.largest, more.largest),
            join(self.apart, more.apart),
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
        smooth, bounded = cumulants_of(self.apart, tilt, rough)
        return self.smooth(tilt) + smooth, self.bounded(tilt) + bounded


def join(kinds: Kinds, more: Kinds) -> Kinds:
    """Both, with equal kinds counted together."""
    joined = dict(kinds)
    for family, added in more.items():
        known = kinds.get(family, NO_KINDS)
        if added.shape[1] > _AT_A_TIME:
            both = np.concatenate([known, added], axis=1)
            distinct, which = np.unique(both[:2], axis=1, return_inverse=True)
            counts = np.bincount(which.ravel(), both[2])
            joined[family] = np.concatenate([distinct, counts[np.newaxis]])
            continue
        for column in added.T:
            (found,) = np.nonzero((known[0] == column[0]) & (known[1] == column[1]))
            if found.size:
                known = known.copy()
                known[2, found[0]] += column[2]
            else:
                known = np.concatenate([known, column[:, np.newaxis]], axis=1)
        joined[family] = known
    return joined


def condense(kinds: Kinds, squares: float, scale: float) -> Condensed:
    smooth, bounded = gaussian_series(squares, scale), Series.empty(scale)
    largest = 0.0
    apart = not_small(kinds, scale)
    for family, values in kinds.items():
        small = _is_small(family, values, scale)
        step, prior, counts = values[:, small]
        if family in SIGNS:
            smooth = smooth + gamma_series(step, prior, counts, scale, SIGNS[family])
            continue
        largest = max(largest, float(np.max(step, initial=0.0)))
        if family == "laplace":
            bounded = bounded + laplace_series(step, counts, scale)
        else:
            bounded = bounded + response_series(step, counts, scale)
    return Condensed(scale, smooth, bounded, squares, largest, apart)


def _is_small(family: str, values: Floats, scale: float) -> np.ndarray:
    step, prior, _ = values
    reach = gamma_reach(step, prior) if family in SIGNS else bounded_reach(step)
    return reach * scale <= CLOSE


def not_small(kinds: Kinds, scale: float) -> Kinds:
    found = {
        family: values[:, ~_is_small(family, values, scale)] for family, values in kinds.items()
    }
    return {family: values for family, values in found.items() if values.size}


def cumulants_of(kinds: Kinds, tilt: np.ndarray, rough: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sums over pairs that are evaluated one by one."""
    smooth, bounded = np.zeros_like(tilt), np.zeros_like(tilt)
    rows = max(1, _ELEMENTS // max(tilt.size, 1))
    for family, values in kinds.items():
        # Pairs with small and with large priors apart: a shortcut is for the former.
        order = np.argsort(values[0] + values[1]) if family in SIGNS else slice(None)
        values = values[:, order]
        for start in range(0, values.shape[1], rows):
            step, prior, counts = values[:, start : start + rows, np.newaxis]
            each = cumulant(family, step, prior, tilt.reshape(1, -1), rough)
            total = (counts * each).sum(axis=0).reshape(tilt.shape)
            if family in SIGNS:
                smooth = smooth + total
            else:
                bounded = bounded + total
    return smooth, bounded


def releases_of(kinds: Kinds) -> float:
    return sum(float(values[2].sum()) for values in kinds.values())


def cumulant(family: str, step: Floats, prior: Floats, tilt: np.ndarray, rough: bool) -> np.ndarray:
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


def one_by_one(kinds: Kinds, squares: float, tilt: float) -> float:
    smooth, bounded = cumulants_of(kinds, np.array([tilt]), rough=False)
    return float(smooth[0] + bounded[0]) + 0.5 * squares * tilt * (1 + tilt)
