"""Cumulants of many dominating pairs: power series, and numerical inversion of their sum.

The cumulant generating function is analytic around ``t = -1/2``, so a few dozen coefficients
represent any number of pairs (docs/theory.md, "Compositions of many kinds of releases"). With
``q = MAX_RADIUS_FRACTION``, a series is used if ``|t + 1/2|`` is at most q times its radius of
convergence. Its even and odd terms then decrease by a factor of ``q^2`` or faster, so the omitted
terms sum to less than the last term kept. Other pairs are evaluated one by one.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import zeta

from ..numerics import conservative
from .pairs import RENYI_ROUNDING, Floats, LaplacePair, PureDPPair, dirichlet_cumulant

#: Fraction of the radius of convergence up to which a series is used.
MAX_RADIUS_FRACTION = 0.7
N_TERMS = 52  # MAX_RADIUS_FRACTION ** (2 * 52) is 1e-16
# (fraction of the radius, number of terms): a series used near its centre needs fewer terms.
_TERMS_BY_FRACTION = ((0.1, 10), (0.35, 20), (MAX_RADIUS_FRACTION, N_TERMS))
_BLOCK = 1 << 12
# Above this argument, the asymptotic expansion of zeta has double precision for all powers used
# here. SciPy's zeta loses precision for much larger arguments.
_LARGE = 64.0
# B_2j / (2j)! of the Euler-Maclaurin formula
_EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
_POWERS = np.arange(1, N_TERMS + 1)
_ZERO = np.zeros(N_TERMS)

#: Maps each family to an array with one column per kind of pair and the rows step, prior and
#: number of releases. For bounded losses the step is the largest loss and the prior is 1.
Kinds = dict[str, Floats]
#: Families whose losses have densities, with the sign of the odd terms of their series.
ODD_SIGNS = {"replace": 0, "add": -1, "remove": 1}
NO_KINDS = np.zeros((3, 0))

_SERIES_ROUNDING = 1e-14
_FEW_COLUMNS = 16  # up to this many kinds are merged one by one
_MAX_ELEMENTS = 1 << 18  # largest size of a temporary array

# Contours
_TAIL_TRUNCATION = 1e-9
_MAX_NODES = 1 << 12
_N_FIRST_NODES = 48  # number of nodes in the first block
_N_TAIL_NODES = 1 << 12
_MAX_TAIL_KINDS = 48


@dataclass(frozen=True, eq=False)
class Series:
    """Power series of a cumulant around ``t = -1/2``.

    ``K(t) = sum of (even_k + odd_k s / scale) ((s / scale)^2k - (1 / (2 scale))^2k)`` over
    k = 1, ..., `N_TERMS`, with ``s = t + 1/2``.
    """

    scale: float  # largest modulus of s at which the series may be used
    even: Floats = field(default_factory=lambda: _ZERO)
    odd: Floats = field(default_factory=lambda: _ZERO)
    error: float = 0.0  # bound on the sum of the omitted terms, for every s within the scale

    def __add__(self, other: "Series") -> "Series":
        assert self.scale == other.scale
        even, odd = self.even + other.even, self.odd + other.odd
        return Series(self.scale, even, odd, self.error + other.error)

    def __call__(self, tilt: np.ndarray) -> np.ndarray:
        """Evaluate the cumulant; the relative error is small even for small real tilts."""
        s = (tilt + 0.5) / self.scale
        w, v = s * s, 0.25 / self.scale**2
        # w^k - v^k is w - v times a polynomial with positive terms, and
        # w - v = t (1 + t) / scale^2. Evaluate both sums by Horner's rule.
        even, odd = np.zeros_like(w), np.zeros_like(w)
        even_tail = odd_tail = 0.0
        with_odd = self.odd.any()
        for k in range(N_TERMS - 1, -1, -1):
            even_tail = self.even[k] + v * even_tail
            even = even * w + even_tail
            if with_odd:
                odd_tail = self.odd[k] + v * odd_tail
                odd = odd * w + odd_tail
        return tilt * (1 + tilt) / self.scale**2 * (even + s * odd)

    def curvature(self, tilt: float) -> float:
        """Return the second derivative at a real tilt: the variance of the tilted loss."""
        s = (tilt + 0.5) / self.scale
        powers = s ** (2 * _POWERS - 2.0)
        even = self.even * (2 * _POWERS) * (2 * _POWERS - 1) * powers
        odd = self.odd * (2 * _POWERS + 1) * (2 * _POWERS) * powers * s
        return float((even.sum() + odd.sum()) / self.scale**2)


def family_series(family: str, values: Floats, scale: float) -> Series:
    """Series of the pairs of one family, given as a value of `Kinds`."""
    total = Series(scale)
    ratio = _inverse_radius(family, values) * scale
    assert np.all(ratio <= MAX_RADIUS_FRACTION)
    lower = -1.0
    for upper, terms in _TERMS_BY_FRACTION:
        (chosen,) = np.nonzero((ratio > lower) & (ratio <= upper))
        for start in range(0, chosen.size, _BLOCK):
            block = chosen[start : start + _BLOCK]
            total = total + _block_series(family, scale, terms, values[:, block], ratio[block])
        lower = upper
    return total


def _inverse_radius(family: str, values: Floats) -> Floats:
    """Inverse radius of convergence, set by the nearest pole of the gamma function or zero."""
    step, prior, _ = values
    return step / (prior + step / 2) if family in ODD_SIGNS else step / (np.pi / 2)


def _block_series(family: str, scale: float, terms: int, values: Floats, ratio: Floats) -> Series:
    """Series of pairs that need equally many terms."""
    step, prior, counts = values
    even, odd = np.zeros(N_TERMS), np.zeros(N_TERMS)
    k = _POWERS[:terms, np.newaxis]
    x = (ratio if family in ODD_SIGNS else step * scale) ** 2
    if family == "response":
        # ln cosh x = sum over n of ln(1 + (x / (pi (n - 1/2)))^2); the zeros are i pi (n - 1/2).
        signs = (-1.0) ** (_POWERS + 1)
        coefficients = signs * zeta(2.0 * _POWERS, 0.5) / (np.pi ** (2.0 * _POWERS))
        even[:terms] = (counts * x**k).sum(axis=1) * (coefficients / _POWERS)[:terms]
    elif family == "laplace":
        even[:terms] = _laplace_terms(step, x, counts, terms)
    else:
        sign, centre = ODD_SIGNS[family], prior + step / 2
        weights = counts * (2.0 if sign == 0 else 1.0)
        even[:terms] = (weights * x**k * _scaled_zeta(2 * k, centre) / (2 * k)).sum(axis=1)
        if sign:
            each = weights * x**k * ratio * _scaled_zeta(2 * k + 1, centre) / (2 * k + 1)
            odd[:terms] = sign * each.sum(axis=1)
    return Series(scale, even, odd, 2 * abs(even[terms - 1]) + 2 * abs(odd[terms - 1]))


def _laplace_terms(shift: Floats, x: Floats, counts: Floats, terms: int) -> list[float]:
    """Even coefficients of the series of Laplace noise.

    All zeros of cosh(x) + shift sinh(x) / (2 x) are imaginary with modulus above pi / 2: they
    are the eigenvalues of a string with an elastic end.
    """
    # Power series of the argument, with leading coefficient 1, and of its logarithm.
    argument, power = [np.ones_like(shift)], np.ones_like(shift)
    logarithm = [np.zeros_like(shift)]
    for k in range(1, terms + 1):
        power = power * x / ((2 * k) * (2 * k - 1))
        argument.append(power * (1 + shift / (2 * (2 * k + 1))) / (1 + shift / 2))
        inner = sum((j * logarithm[j] * argument[k - j] for j in range(1, k)), np.zeros(()))
        logarithm.append(argument[k] - inner / k)
    return [float(counts @ each) for each in logarithm[1:]]


def _scaled_zeta(power: np.ndarray, m: Floats) -> np.ndarray:
    """Scaled Hurwitz zeta function ``m^power zeta(power, m)``, for positive m."""
    # It is at least 1, at most ``1 + m / (power - 1)``, and decreases in the power.
    small, large = m < 1, m > _LARGE
    middle = np.where(small | large, 1.0, m)
    values = middle**power * zeta(power.astype(float), middle)
    if small.any():
        tiny = m[small]
        values[:, small] = 1 + tiny**power * zeta(power.astype(float), 1 + tiny)
    if large.any():
        x = m[large]
        rising = power / x
        series = x / (power - 1) + 0.5
        for j, coefficient in enumerate(_EULER_MACLAURIN, 1):
            series = series + coefficient * rising
            rising = rising * ((power + 2 * j - 1) / x) * ((power + 2 * j) / x)
        values[:, large] = series
    return values


@dataclass(frozen=True, eq=False)
class CondensedPairs:
    """Pairs represented by power series up to a scale, and residual pairs."""

    scale: float  # largest modulus of t + 1/2 at which the series may be used
    smooth: Series  # series of pairs whose losses have densities
    bounded: Series  # series of the other pairs
    squares: float  # Gaussian part of the smooth series
    largest: float  # largest loss of a pair in the bounded series
    residual_pairs: Kinds  # pairs in neither series, evaluated one by one

    def __add__(self, more: "CondensedPairs") -> "CondensedPairs":
        sums = self.smooth + more.smooth, self.bounded + more.bounded, self.squares + more.squares
        residual = merge_kinds(self.residual_pairs, more.residual_pairs)
        return CondensedPairs(self.scale, *sums, max(self.largest, more.largest), residual)

    @cached_property
    def error(self) -> float:
        """Bound on the error of the series anywhere within the scale."""
        both = (self.smooth, self.bounded)
        size = sum(float(np.abs(each.even).sum() + np.abs(each.odd).sum()) for each in both)
        return self.smooth.error + self.bounded.error + _SERIES_ROUNDING * size

    def divergence(self, tilt: Floats) -> Floats:
        """Renyi divergence of order 1 + tilt, rounded up."""
        smooth, bounded = self.cumulants(tilt, rough=False)
        # (w^k - v^k) / (w - v) is at most k, for all powers omitted from the series.
        truncation_error = 2 * N_TERMS * (self.smooth.error + self.bounded.error) / self.scale**2
        return ((smooth + bounded) / tilt + truncation_error * (1 + tilt)) * (1 + RENYI_ROUNDING)

    def cumulants(self, tilt: np.ndarray, rough: bool) -> tuple[np.ndarray, np.ndarray]:
        """Cumulants of the smooth pairs and of the pairs with bounded losses."""
        smooth, bounded = sum_cumulants(self.residual_pairs, tilt, rough)
        return self.smooth(tilt) + smooth, self.bounded(tilt) + bounded


def merge_kinds(kinds: Kinds, more: Kinds) -> Kinds:
    """Add kinds of pairs; the counts of equal kinds are summed."""
    joined = dict(kinds)
    for family, added in more.items():
        known = kinds.get(family, NO_KINDS)
        if added.shape[1] > _FEW_COLUMNS:
            both = np.concatenate([known, added], axis=1)
            distinct, which = np.unique(both[:2], axis=1, return_inverse=True)
            counts = np.bincount(which.ravel(), both[2])
            joined[family] = np.concatenate([distinct, counts[np.newaxis]])
            continue
        for column in added.T:
            (index,) = np.nonzero((known[0] == column[0]) & (known[1] == column[1]))
            if index.size:
                known = known.copy()
                known[2, index[0]] += column[2]
            else:
                known = np.concatenate([known, column[:, np.newaxis]], axis=1)
        joined[family] = known
    return joined


def condense(kinds: Kinds, squares: float, scale: float) -> CondensedPairs:
    gaussian = np.zeros(N_TERMS)
    gaussian[0] = squares * scale**2 / 2
    smooth, bounded, largest = Series(scale, gaussian), Series(scale), 0.0
    residual = {}
    for family, values in kinds.items():
        within_radius = _inverse_radius(family, values) * scale <= MAX_RADIUS_FRACTION
        inside = values[:, within_radius]
        if inside.shape < values.shape:
            residual[family] = values[:, ~within_radius]
        series = family_series(family, inside, scale)
        if family in ODD_SIGNS:
            smooth = smooth + series
        else:
            bounded = bounded + series
            largest = float(np.max(inside[0], initial=largest))
    return CondensedPairs(scale, smooth, bounded, squares, largest, residual)


def sum_cumulants(kinds: Kinds, tilt: np.ndarray, rough: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sum the cumulants of smooth and of bounded pairs, evaluating the pairs one by one."""
    smooth, bounded = np.zeros_like(tilt), np.zeros_like(tilt)
    rows = max(1, _MAX_ELEMENTS // max(tilt.size, 1))
    for family, values in kinds.items():
        # Sort the pairs: the cumulants of a block of small priors are computed faster.
        order = np.argsort(values[0] + values[1]) if family in ODD_SIGNS else slice(None)
        values = values[:, order]
        for start in range(0, values.shape[1], rows):
            step, prior, counts = values[:, start : start + rows, np.newaxis]
            each = cumulant(family, step, prior, tilt.reshape(1, -1), rough)
            total = (counts * each).sum(axis=0).reshape(tilt.shape)
            if family in ODD_SIGNS:
                smooth = smooth + total
            else:
                bounded = bounded + total
    return smooth, bounded


def count_releases(kinds: Kinds) -> float:
    return sum(float(values[2].sum()) for values in kinds.values())


def cumulant(family: str, step: Floats, prior: Floats, tilt: np.ndarray, rough: bool) -> np.ndarray:
    if family in ODD_SIGNS:
        return dirichlet_cumulant(family, tilt, step, prior, rough)
    if not np.iscomplexobj(tilt):
        pair: type = LaplacePair if family == "laplace" else PureDPPair
        return pair(step).cumulant(tilt)
    back = np.exp(-(1 + 2 * tilt) * step)
    if family == "laplace":
        return tilt * step + np.log((1 + back) / 2 + (1 - back) / (2 + 4 * tilt))
    return tilt * step + np.log((1 + back) / (1 + np.exp(-step)))


def cumulant_at(kinds: Kinds, squares: float, tilt: float) -> float:
    smooth, bounded = sum_cumulants(kinds, np.array([tilt]), rough=False)
    return float(smooth[0] + bounded[0]) + 0.5 * squares * tilt * (1 + tilt)


@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes ``tilt + i u`` with the cumulants of the residual pairs; more pairs can be added."""

    condensed: CondensedPairs
    tilt: float
    u: Floats
    releases: float  # releases of the residual pairs
    smooth: np.ndarray  # values at the tilt and at the nodes, like `bounded`
    bounded: np.ndarray
    # Further nodes, bounds on the logarithm of the modulus there, and squared mu of an added pair
    tail: tuple[Floats, Floats, float] | None = None

    @cached_property
    def nodes(self) -> np.ndarray:
        return self.tilt + 1j * np.append(0.0, self.u)

    def plus(self, kinds: Kinds, squares: float) -> "Contour":
        more = condense(kinds, squares, self.condensed.scale)
        smooth, bounded = sum_cumulants(more.residual_pairs, self.nodes, rough=False)
        return replace(
            self,
            condensed=self.condensed + more,
            smooth=self.smooth + smooth,
            bounded=self.bounded + bounded,
            releases=self.releases + count_releases(more.residual_pairs),
        )

    def log_delta(self, epsilon: float) -> tuple[float, bool]:
        """Return an upper bound on log delta, and whether the bound is tight."""
        condensed = self.condensed
        c, t, u, step = self.tilt, self.nodes, self.u, self.u[0]
        smooth = condensed.smooth(t) + self.smooth
        bounded = condensed.bounded(t) + self.bounded
        if self.tail is not None:
            smooth = smooth + 0.5 * self.tail[2] * t * (1 + t)
        cumulant = smooth + bounded
        growth = float(cumulant[0].real) - c * epsilon
        # If the growth is large, cancellation makes the result inaccurate.
        if not (abs(growth) < np.inf and growth < conservative.ALIASING):
            return 0.0, False
        allowance = conservative.INVERSION_ROUNDING + 1e-14 * (abs(growth) + c * abs(epsilon))
        # The phase of a pair with atoms grows with its loss times the node.
        allowance += condensed.error + 1e-15 * (self.releases + float(np.abs(self.bounded).max()))
        chernoff = conservative.chernoff_bound(growth, c) + allowance
        if allowance > 1:
            return float(min(chernoff, 0.0)), False
        values = np.exp(cumulant[1:] - t[1:] * epsilon - growth) / (t[1:] * (1 + t[1:]))
        total = 0.5 / (c * (1 + c)) + float(values.real.sum())
        magnitude = 0.5 / (c * (1 + c)) + float(np.abs(values).sum())
        # The modulus of the smooth part decreases along the line; the bounded part's is at most 1.
        last = float((smooth[-1] - smooth[0]).real)
        if self.tail is None:
            has_atoms = condensed.largest > 0 or bool(self.bounded.any())
            modulus = last if has_atoms else float((cumulant[-1] - cumulant[0]).real)
            remainder = float(np.exp(modulus) / (u[-1] * step))
        else:
            remainder = self._tail_sum(last, *self.tail)
        total += remainder + 1e-15 * magnitude
        if not 0 < total < np.inf:  # rounding errors dominate
            return float(min(chernoff, 0.0)), False
        inverted = growth + np.log(step / np.pi * total) + allowance
        return float(min(inverted, chernoff, 0.0)), remainder < conservative.TIGHT * total

    def with_tail_bound(self, kinds: Kinds) -> "Contour":
        """Add bounds for the nodes beyond the last one if losses with atoms require them."""
        # Their characteristic functions do not decrease, but Poisson's formula needs only the
        # moduli at the nodes, each at most the product of some of its factors. Beyond all nodes,
        # the bound comes from an added Gaussian pair, which is valid: a product dominates its
        # factors.
        atoms = {family: values for family, values in kinds.items() if family not in ODD_SIGNS}
        condensed, c, end, step = self.condensed, self.tilt, self.u[-1], self.u[0]
        smooth = condensed.smooth(self.nodes[[0, -1]]) + self.smooth[[0, -1]]
        last = float((smooth[1] - smooth[0]).real)
        # Logarithm of the largest allowed tail, relative to the term of the first node.
        goal = np.log(_TAIL_TRUNCATION / (2 * c * (1 + c)))
        if not atoms or last - np.log(end * step) < goal:
            return self
        u = end + step * np.arange(1, _N_TAIL_NODES + 1)
        log_modulus = np.zeros(u.size)
        for family, values in atoms.items():
            order = np.argsort(-values[2] * values[0] ** 2)[:_MAX_TAIL_KINDS]
            for loss, _, count in values[:, order].T:
                at = cumulant(family, loss, np.ones(()), c + 1j * np.append(0.0, u), False).real
                log_modulus += count * np.minimum(at[1:] - at[0], 0.0)
        fall = last - np.log(u[-1] * step) - 0.5 * condensed.squares * (u[-1] ** 2 - end**2) - goal
        return replace(self, tail=(u, log_modulus, max(2 * fall / u[-1] ** 2, 0.0)))

    def _tail_sum(self, last: float, u: Floats, log_modulus: Floats, squares: float) -> float:
        condensed, end = self.condensed, self.u[-1]
        smooth = last - 0.5 * (condensed.squares + squares) * (u**2 - end**2)
        # For losses in [-a, a] and 2 a u <= pi, |E exp(iuL)|^2 <= 1 - (4 / pi^2) u^2 Var L.
        variance = condensed.bounded.curvature(self.tilt)
        near = 2 * u * condensed.largest <= np.pi
        modulus = np.where(near, -2 / np.pi**2 * variance * u**2, 0.0)
        modulus = smooth + np.minimum(modulus, log_modulus)
        beyond = float(np.exp(smooth[-1]) / (u[-1] * self.u[0]))
        return float((np.exp(modulus) / u**2).sum()) + beyond


def new_contour(pairs: CondensedPairs, grid: Floats, bound: Floats) -> tuple[Contour | None, bool]:
    """Create the contour through the best tilt, and return whether the scale was large enough."""
    best = int(np.argmin(bound))
    c = float(grid[best])
    if not np.isfinite(bound[best]):
        return None, True
    step = conservative.bromwich_step(grid, bound)
    end = np.sqrt(max(pairs.scale**2 - (c + 0.5) ** 2, 0.0))
    n_nodes = int(min(end / step, _MAX_NODES))
    if n_nodes < 1:
        return None, False
    releases = count_releases(pairs.residual_pairs)
    rough = releases * (1 + c) < conservative.ROUGH_TILT
    parts, start, done = [], 0, False
    while not done and start <= n_nodes:
        j = np.arange(start, min(start + _N_FIRST_NODES + start // 2, n_nodes + 1))
        t = c + 1j * step * j
        parts.append(sum_cumulants(pairs.residual_pairs, t, rough))
        modulus = (pairs.smooth(t) + pairs.bounded(t) + sum(parts[-1])).real
        if start == 0:
            largest = modulus[0]
        start += j.size
        last = modulus[-1] - largest + np.log(c * (1 + c)) - np.log(step * step * j[-1])
        done = bool(j[-1] > 0 and last < np.log(conservative.TRUNCATION))
    u: Floats = step * np.arange(1.0, start)
    smooth, bounded = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Contour(pairs, c, u, releases, smooth, bounded), done or n_nodes == _MAX_NODES
