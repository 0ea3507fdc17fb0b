"""The six mechanisms that release a posterior, as distributions over counts.

Three add Laplace noise to the counts (Algorithms 1 to 3 of "Differentially Private
Bayesian Inference"): floored and clamped, it is an integer, with a closed form.
Three are exponential mechanisms over all posteriors of n records (Algorithms 4 to 6):
for counts x they draw the candidate r with probability proportional to
``exp(-scale * steepness(x) * H(x, r))``, where the steepness is

- "ehd": one over the global sensitivity;
- "ehdl": one over the local sensitivity of x, which is not private;
- "ehds": one over the gamma-smooth sensitivity of x.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..mechanisms.sampling import choose, floored_laplace_cells
from ..numerics.conservative import quotient_up, safe_root
from .hellinger import global_sensitivity, local_sensitivity, smooth_sensitivity
from .lattice import PosteriorLattice, n_candidates, posterior_lattice

LAPLACE = ("lszhang", "lsdim", "lshist")
EXPONENTIAL = ("ehd", "ehdl", "ehds")
MECHANISMS = LAPLACE + EXPONENTIAL

#: Candidates beyond this many are not enumerated.
MAX_CANDIDATES = 500_000
# Pairs of neighbours beyond this many are not listed to calibrate the exponent, and
# pairs times candidates beyond this many are not all followed; then only so many are.
_MAX_WORK = 1 << 22
_PARTIAL_WORK = 1 << 21
# Far beyond the number of records of any data set, and the most that is drawn exactly.
_LARGEST_SCALE = 2.0**50
# The exponent is set a little low, so that rounding cannot lift a loss above epsilon.
_ROUNDING = 1e-9


def laplace_scale(mechanism: str, n_categories: int, epsilon: float) -> float:
    """The scale of the noise in a cell: Algorithms 1, 2 and 3."""
    sensitivity = {
        "lszhang": 2 * n_categories,
        "lsdim": n_categories,
        "lshist": 1 if n_categories == 2 else 2,
    }[mechanism]
    if not sensitivity / epsilon <= _LARGEST_SCALE:
        raise ValueError(
            f"epsilon must be at least {sensitivity / _LARGEST_SCALE:.3g} for {mechanism!r}: "
            f"noise of a larger scale is not drawn; got {epsilon}"
        )
    # A smaller scale would lose a little more than epsilon.
    return quotient_up(sensitivity, epsilon)


def laplace_loss(mechanism: str, n_categories: int, epsilon: float) -> float:
    """The true privacy of the noise: cells that a replacement changes, over the scale."""
    changed = 1 if n_categories == 2 and mechanism != "lszhang" else 2
    return changed / laplace_scale(mechanism, n_categories, epsilon)


def clamped_laplace_pmf(count: int, n_samples: int, scale: float) -> np.ndarray:
    """The distribution of a noisy count: floor, then clamp to [0, n_samples]."""
    shift = np.arange(n_samples + 1) - count
    # Floored noise is t or -t - 1, each with half the probability of a geometric t.
    distance = np.where(shift >= 0, shift, -shift - 1)
    pmf = 0.5 * np.exp(-distance / scale) * -np.expm1(-1 / scale)
    pmf[0] = 0.5 * np.exp(-(count - 1) / scale) if count else 1 - 0.5 * np.exp(-1 / scale)
    pmf[-1] = 0.5 * np.exp(-(n_samples - count) / scale)
    return pmf


def draw_laplace(
    mechanism: str, counts: np.ndarray, epsilon: float, generator: np.random.Generator
) -> np.ndarray:
    """Noisy counts; with "lszhang" they need not add up to the number of records.

    Where the noisy cells leave less than nothing for the last, its clamp does not
    restore the total either: the papers release what comes out, and so does this.
    """
    n, k = int(counts.sum()), counts.size
    scale = laplace_scale(mechanism, k, epsilon)
    cells = k if mechanism == "lszhang" else k - 1
    noise = floored_laplace_cells(scale, 1.0, cells, generator)
    # Beyond the number of records it is clamped away, before the sum could overflow.
    released = np.clip(counts[:cells] + np.clip(noise, -n - 1, n + 1), 0, n)
    if cells == k:
        return released
    return np.append(released, np.clip(n - released.sum(), 0, n))


@lru_cache(maxsize=64)
def _cached_global_sensitivity(prior: tuple[float, ...], n_samples: int) -> float:
    return global_sensitivity(prior, n_samples)


def steepness(mechanism: str, counts: np.ndarray, prior: np.ndarray, gamma: float) -> float:
    """One over the sensitivity that a mechanism uses at these counts."""
    if mechanism == "ehd":
        return 1 / _cached_global_sensitivity(tuple(prior.tolist()), int(counts.sum()))
    if mechanism == "ehdl":
        return 1 / local_sensitivity(counts, prior)
    return 1 / smooth_sensitivity(counts, prior, gamma)


def log_weights(
    mechanism: str, counts: np.ndarray, lattice: PosteriorLattice, scale: float, gamma: float
) -> np.ndarray:
    """Logarithms of the unnormalised probabilities of all candidates."""
    scores = steepness(mechanism, counts, lattice.prior, gamma) * lattice.distances(counts)
    return -scale * scores


def weigh_candidates(
    mechanism: str, counts: np.ndarray, prior: np.ndarray, scale: float, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """All candidates, and the logarithms of their unnormalised probabilities."""
    lattice = posterior_lattice(tuple(prior.tolist()), int(counts.sum()))
    return lattice.counts, log_weights(mechanism, counts, lattice, scale, gamma)


def draw_candidate(
    candidates: np.ndarray, logs: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """One of the candidates that `weigh_candidates` gives.

    The doubles are taken for the true logarithms, and drawn from exactly. They differ from
    the real ones by a part of 1e-12 or so, which the margin of the exponent covers.
    """
    (drawn,) = choose(logs, 0.0, None, 1, generator)
    return candidates[drawn]


def paper_scale(mechanism: str, epsilon: float, gamma: float) -> float:
    """Algorithms 4 to 6: twice the range of the score, and for "ehds" of its slope too."""
    return epsilon / (2 * (1 + gamma)) if mechanism == "ehds" else epsilon / 2


@dataclass(frozen=True)
class Exponent:
    """How sharply an exponential mechanism prefers near candidates.

    Attributes
    ----------
    scale : float
        The factor of ``steepness(x) * H(x, r)``.
    loss : float or None
        The largest log-ratio over all neighbours and candidates; None where there are
        too many to follow, and only a proof shows it to be at most epsilon.
    """

    scale: float
    loss: float | None


@lru_cache(maxsize=256)
def paper_exponent(
    mechanism: str, prior: tuple[float, ...], n_samples: int, epsilon: float, gamma: float
) -> Exponent:
    """The papers' exponent, and the loss it causes where that takes little work."""
    scale = paper_scale(mechanism, epsilon, gamma)
    neighbours = _neighbours(mechanism, prior, n_samples, gamma)
    if neighbours is None or not neighbours.complete:
        return Exponent(scale, None)
    return Exponent(scale, neighbours.loss(scale))


@lru_cache(maxsize=256)
def exact_exponent(
    mechanism: str, prior: tuple[float, ...], n_samples: int, epsilon: float, gamma: float
) -> Exponent:
    """The largest exponent whose losses are shown to be at most epsilon.

    The log-ratio of neighbours x and x' at r is ``scale * g(r)`` plus the logarithm of
    the ratio of their normalisers, with ``g(r) = c(x') H(x', r) - c(x) H(x, r)`` and
    c the steepness. That ratio lies between the extremes of ``scale * g``, so the loss
    is at most scale times the range of g, which `_range_bound` bounds: pairs for which
    this is within epsilon need no further look. The others are followed exactly as long
    as there are not too many, and the scale is the largest at which they are not.

    The loss need not grow with the scale; what is returned has been evaluated.
    """
    neighbours = _neighbours(mechanism, prior, n_samples, gamma)
    if neighbours is None:
        # In `_range_bound` c h is at most 1, and the two c differ by at most gamma
        # (Theorem 4.1), or not at all.
        change = gamma if mechanism == "ehds" else 0.0
        bound = 1 + min(1 + change, np.sqrt(1 + 2 * change**2))
        return Exponent(float(epsilon / bound * (1 - _ROUNDING)), None)
    target = epsilon * (1 - _ROUNDING)
    affordable = neighbours.affordable_scale(target)
    if np.isfinite(affordable) and neighbours.loss(affordable) <= target:
        return Exponent(affordable, None)
    low, high = neighbours.safe_scale(target), neighbours.hopeless_scale(target)
    high = min(high * (1 + _ROUNDING), affordable)
    tolerance = 1e-12 * high
    scale = low
    if 0 < tolerance < np.inf:  # not for an epsilon at the end of all floats
        scale = safe_root(
            lambda x: neighbours.loss(x) / target - 1,
            low,
            high - low,
            tolerance=tolerance,
            limits=(low, high),
        )
    # For an epsilon near rounding errors even the scale that is proved safe may look larger.
    scale = low if np.isnan(scale) else scale
    return Exponent(scale, min(neighbours.loss(scale), epsilon))


def _range_bound(rate: np.ndarray, other: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """A bound on the range over r of ``g(r) = c(x') H(x', r) - c(x) H(x, r)``, h = H(x, x').

    ``H = sqrt(2) sin(t / 2)`` with t the angle between square roots of densities, which
    is a metric and at most pi / 2. So g is at most the largest
    ``sqrt(2) (c(x') sin((t + t_h) / 2) - c(x) sin(t / 2))``, a sinusoid in t / 2, and
    -g the same with c(x) and c(x') exchanged.
    """
    half = np.arcsin(np.minimum(distance / np.sqrt(2), 1.0))  # t_h / 2

    def largest(up, down):
        cosine, sine = up * np.sin(half), up * np.cos(half) - down
        best = np.clip(np.arctan2(sine, cosine), 0, np.pi / 4 - half)
        return np.sqrt(2) * (cosine * np.cos(best) + sine * np.sin(best))

    return (largest(other, rate) + largest(rate, other)) * (1 + 1e-12)


def _neighbours(mechanism, prior, n_samples, gamma) -> "_Neighbours | None":
    k = len(prior)
    size = n_candidates(n_samples, k)
    if size > MAX_CANDIDATES or size * k * (k - 1) // 2 > _MAX_WORK:
        return None
    lattice = posterior_lattice(prior, n_samples)
    return _Neighbours(lattice, posterior_rates(mechanism, lattice, gamma))


def posterior_rates(mechanism: str, lattice: PosteriorLattice, gamma: float) -> np.ndarray:
    """The steepness at every candidate."""
    if mechanism == "ehd":
        sensitivity = _cached_global_sensitivity(tuple(lattice.prior.tolist()), lattice.n_samples)
        return np.full(len(lattice.counts), 1 / sensitivity)
    if mechanism == "ehdl":
        return lattice.inverse_local_sensitivities()
    return lattice.inverse_smooth_sensitivities(gamma)


class _Neighbours:
    """Pairs of neighbours, those that may lose most first, as far as they are followed."""

    def __init__(self, lattice: PosteriorLattice, rates: np.ndarray):
        edges = lattice.edges()
        first = np.concatenate([x for x, _ in edges])
        second = np.concatenate([x for _, x in edges])
        distance = lattice.edge_distances(edges)
        if lattice.symmetric:
            # Relabelling brings one end of any pair to counts in falling order.
            sorted_ = np.all(np.diff(lattice.counts, axis=1) <= 0, axis=1)
            kept = sorted_[first] | sorted_[second]
            first, second, distance = first[kept], second[kept], distance[kept]
        both = (rates[first] + rates[second]) * distance
        bound = _range_bound(rates[first], rates[second], distance)
        self._largest_bound = float(bound.max())
        self._largest_sum = float(both.max())
        # For r = x and for r = x' log-ratios add up to scale * (c(x) + c(x')) h, so some
        # loss is at least half of that; pairs whose bound is smaller are never the worst.
        eligible = np.flatnonzero(bound >= self._largest_sum / 2)
        order = eligible[np.argsort(-bound[eligible], kind="stable")]
        self.complete = order.size * len(lattice.counts) <= _MAX_WORK
        followed, self._next_bound = order, 0.0
        if not self.complete:
            followed = order[: max(1, _PARTIAL_WORK // len(lattice.counts))]
            self._next_bound = float(bound[order[followed.size]])

        ends, index = np.unique(
            np.concatenate([first[followed], second[followed]]), return_inverse=True
        )
        self._first, self._second = index[: followed.size], index[followed.size :]
        scores = np.empty((ends.size, len(lattice.counts)))
        for row, end in enumerate(ends):
            scores[row] = rates[end] * lattice.distances(lattice.counts[end])
        self._scores = scores
        self._highest = np.empty(followed.size)
        self._lowest = np.empty(followed.size)
        for pair, (x, y) in enumerate(zip(self._first, self._second, strict=True)):
            difference = scores[y] - scores[x]
            self._highest[pair], self._lowest[pair] = difference.max(), difference.min()

    def safe_scale(self, epsilon: float) -> float:
        """Up to this scale no loss exceeds epsilon."""
        return epsilon / self._largest_bound

    def hopeless_scale(self, epsilon: float) -> float:
        """Beyond this scale some loss exceeds epsilon."""
        return 2 * epsilon / self._largest_sum

    def affordable_scale(self, epsilon: float) -> float:
        """Up to this scale all pairs that are not followed lose at most epsilon."""
        return np.inf if self.complete else epsilon / self._next_bound

    def loss(self, scale: float) -> float:
        """The largest log-ratio among the pairs that are followed."""
        log_normaliser = np.log(np.exp(-scale * self._scores).sum(axis=1))
        change = log_normaliser[self._second] - log_normaliser[self._first]
        return float(
            max(
                np.max(scale * self._highest + change),
                np.max(-scale * self._lowest - change),
            )
        )
