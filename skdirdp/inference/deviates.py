"""Normal deviates of noisy sums of counts: sampling and noise in one distribution.

A hypothesis gives every record the probability p_g of group g of cells. The statistic is a sum
``L = sum_g c_g Y_g`` of the noisy counts of the groups. With x ~ Multinomial(m, p) its cumulant
generating function is closed for all mechanisms:

* Gaussian noise: ``m log sum_g p_g exp(s c_g) + s^2 sigma^2 sum_g k_g w_g^2 / 2``,
* Laplace noise: ``m log sum_g p_g exp(s c_g) - sum_g k_g log(1 - s^2 b^2 w_g^2)``,
* Dirichlet releases, in gamma variables of shapes ``r x + k alpha``:
  ``m log sum_g p_g (1 - s c_g)^-r - alpha sum_g k_g log(1 - s c_g)``,

where group g has k_g cells. The weights w_g of the noise differ from c_g if the known total
corrects the noisy counts. Lugannani and Rice's approximation, in Barndorff-Nielsen's form, turns
it into a normal deviate. docs/inference.md has the derivation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincc, gammaln, logsumexp, ndtr, ndtri, xlog1py, xlogy

from ..mechanisms.tables import Noise

# Newton steps from the normal approximation, and the largest error of the mean of the tilted
# distribution, in deviations. The deviate depends on that error to the second order only.
_STEPS, _TOLERANCE = 25, 1e-6
# Within this distance of the mean, differences of cumulants lose their digits. The correction
# of the deviate is then that at this distance.
_NEAR = 0.02
# Counts are summed one by one where the sum is coarse: few counts, and noise that does not fill
# the gaps between whole numbers. Beyond, the lattice changes tails by less than 0.006.
_MAX_COUNT_VARIANCE, _MAX_NOISE_DEVIATION = 36.0, 0.6
# From this prior on, gamma variables are normal for this purpose: their skewness is below 0.07.
_NORMAL_PRIOR = 1000.0
# Deviates for which the sum is computed: beyond, no test is close to its level.
_MIN_SUMMED, _MAX_SUMMED = 0.5, 5.0
# Normal deviates are at most this large; it is the deviate of the smallest positive float.
_LARGEST = 37.0
# Largest tilt of a distribution, relative to its largest value: all but one category vanish.
_MAX_TILT = 700.0


class Groups(NamedTuple):
    """Groups of cells along the last axis, and the total of their counts.

    `noisy` are noisy sums, `cells` numbers of cells, `total` the number of records in the groups.
    `outside` is the number of cells outside of the groups if the total of the whole table is known
    and used: noisy counts with additive noise were corrected by it, and gamma variables are
    compared with their sum. None if it is not.
    """

    noisy: np.ndarray
    cells: np.ndarray
    total: np.ndarray
    outside: np.ndarray | None


class NoiseLaw(NamedTuple):
    """Parameters of the noise: one of sigma, b, or r with alpha; all 0 without noise."""

    sigma: float = 0.0
    b: float = 0.0
    r: float = 0.0
    alpha: float = 0.0

    @classmethod
    def from_noise(cls, noise: Noise) -> "NoiseLaw":
        """Return the law of a mechanism's noise, which its variances determine."""
        if noise.per_count > 0:
            r = 1 / noise.per_count
            return cls(r=r, alpha=noise.variance * r**2)
        if noise.is_laplace:
            return cls(b=float(np.sqrt(noise.variance / 2)))
        return cls(sigma=float(np.sqrt(noise.variance)))

    @property
    def variance(self) -> float:
        """Variance of the noise in an empty cell."""
        if self.r > 0:
            return self.alpha / self.r**2
        return self.sigma**2 + 2 * self.b**2

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise."""
        return self.sigma == self.b == self.r == 0


@dataclass(frozen=True)
class _Sum:
    """Distribution of a sum of noisy counts, by its cumulant generating function."""

    law: NoiseLaw
    total: np.ndarray
    log_p: np.ndarray
    p: np.ndarray
    counts: np.ndarray  # coefficients of the counts
    weights: np.ndarray  # coefficients of the noise
    cells: np.ndarray
    sampling: bool

    def cumulants(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the cumulant generating function at s, and its first two derivatives."""
        s = s[..., np.newaxis]
        gamma = self.law.r > 0
        if gamma:
            rest = 1 - s * self.counts
            exponent, slope = -self.law.r * np.log(rest), self.law.r * self.counts / rest
        else:
            exponent, slope = s * self.counts, self.counts
        if self.sampling:
            value = logsumexp_weighted(exponent, self.log_p)
            tilted = np.exp(exponent + self.log_p - value[..., np.newaxis])
            first = np.sum(tilted * slope, axis=-1)
            second = np.sum(tilted * (slope - first[..., np.newaxis]) ** 2, axis=-1)
            if gamma:
                second = second + np.sum(tilted * slope**2, axis=-1) / self.law.r
        else:
            value, first = np.sum(self.p * exponent, axis=-1), np.sum(self.p * slope, axis=-1)
            second = np.sum(self.p * slope**2, axis=-1) / self.law.r if gamma else 0.0 * first
        noise = self._noise(s, slope)
        return tuple(self.total * a + b for a, b in zip((value, first, second), noise, strict=True))

    def _noise(self, s, slope):
        law = self.law
        if law.r > 0:
            part = law.alpha * self.cells
            rate = slope / law.r
            log_rest = np.log(1 - s * self.counts)
            terms = (-part * log_rest, part * rate, part * rate**2)
        elif law.b > 0:
            scale = (law.b * self.weights) ** 2
            rest = 1 - s**2 * scale
            terms = (
                -self.cells * np.log(rest),
                2 * self.cells * scale * s / rest,
                2 * self.cells * scale * (2 - rest) / rest**2,
            )
        else:
            scale = self.cells * (law.sigma * self.weights) ** 2
            terms = (s**2 * scale / 2, s * scale, scale + 0 * s)
        return tuple(np.sum(term, axis=-1) for term in terms)

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the interval on which the function is finite."""
        with np.errstate(divide="ignore"):
            if self.law.r > 0:
                low = 1 / np.minimum(self.counts.min(axis=-1), -1e-300)
                return low, 1 / np.maximum(self.counts.max(axis=-1), 1e-300)
            largest = np.abs(self.weights).max(axis=-1)
            high = 1 / (self.law.b * largest) if self.law.b > 0 else np.full(largest.shape, np.inf)
            return -high, high

    def deviate(self, observed: np.ndarray) -> np.ndarray:
        """Return the normal deviate of the probability of at most the observed value."""
        zero = np.zeros(np.broadcast_shapes(observed.shape, self.total.shape))
        low, high = (np.broadcast_to(end, zero.shape) for end in self.domain())
        _, mean, variance = self.cumulants(zero)
        deviation = np.sqrt(np.maximum(variance, 1e-300))
        # Without a bound the solution is at most this far: K' grows at least as the noise does.
        reach = (np.abs(observed - mean) / deviation + 1) * 50 / deviation
        low, high = np.maximum(low * (1 - 1e-12), -reach), np.minimum(high * (1 - 1e-12), reach)
        s = np.clip((observed - mean) / deviation**2, 0.8 * low, 0.8 * high)
        for _ in range(_STEPS):
            _, first, second = self.cumulants(s)
            excess = first - observed
            found = np.abs(excess) <= _TOLERANCE * deviation
            if found.all():
                break
            high, low = np.where(excess > 0, s, high), np.where(excess > 0, low, s)
            step = s - excess / np.maximum(second, 1e-300)
            step = np.where((step > low) & (step < high), step, (low + high) / 2)
            s = np.where(found, s, step)
        value, _, second = self.cumulants(s)
        root = np.sign(s) * np.sqrt(np.maximum(2 * (s * observed - value), 0.0))
        near = np.abs(root) < _NEAR
        at = np.where(near, _NEAR / deviation, s)
        if near.any():
            value, first, second = self.cumulants(at)
            other = np.sign(at) * np.sqrt(np.maximum(2 * (at * first - value), 1e-300))
        else:
            other = root
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.log(np.maximum(at * np.sqrt(second) / other, 1e-300)) / other
        found = root + np.where(np.isfinite(change), change, 0.0)
        return np.clip(found, -_LARGEST, _LARGEST)


def logsumexp_weighted(exponent: np.ndarray, log_p: np.ndarray) -> np.ndarray:
    """Return ``log sum_g p_g exp(exponent_g)`` along the last axis."""
    joint = exponent + log_p
    if joint.shape[-1] <= 3:
        value = joint[..., 0]
        for g in range(1, joint.shape[-1]):
            value = np.logaddexp(value, joint[..., g])
        return value
    return logsumexp(joint, axis=-1)


def mean_deviates(
    law: NoiseLaw,
    groups: Groups,
    values: np.ndarray,
    mean: np.ndarray,
    p: np.ndarray,
    sampling: bool,
    ends: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Return normal deviates of noisy means of values, if the true mean is a given one.

    Parameters
    ----------
    law : NoiseLaw
    groups : Groups
    values : ndarray of shape (..., n_groups)
        Value of each group.
    mean : ndarray
        Mean of the values under the hypothesis.
    p : ndarray of shape (..., n_groups)
        Probabilities of the groups under the hypothesis; their mean value is `mean`.
    sampling : bool
        Whether the records are a sample, or the shares of the records themselves are `p`.
    ends : tuple of ndarray, optional
        Smallest and largest possible mean. A noisy mean beyond counts as the nearest of them.
    """
    # Hypotheses far from the noisy mean leave few records in the groups.
    most = np.maximum(groups.total, groups.noisy.sum(axis=-1))
    noisy, cells, total, outside = groups
    if law.r > 0:
        drawn = law.r * noisy + law.alpha * cells
        if outside is not None:
            # With a known total the ratio to the sum is best, and the sum adds nothing to it.
            observed = np.sum(values * drawn, axis=-1) / np.sum(drawn, axis=-1)
            if ends is not None:
                # The ratio that possible counts would have on average, at the ends.
                prior = law.alpha * np.sum(cells * values, axis=-1)
                whole = law.r * total + law.alpha * np.sum(cells, axis=-1)
                low, high = ((law.r * total * end + prior) / whole for end in ends)
                observed = np.clip(observed, low, high)
            counts = values - observed[..., np.newaxis]
            target = np.zeros(observed.shape)
        else:
            # The mean of this sum does not depend on the total, which has to be estimated.
            counts = values - mean[..., np.newaxis]
            target = np.sum(counts * noisy, axis=-1)
            if ends is not None:
                target = np.clip(target, *(most * (end - mean) for end in ends))
            target = law.r * target + law.alpha * np.sum(counts * cells, axis=-1)
        weights = counts
    else:
        counts = values - mean[..., np.newaxis]
        target = np.sum(counts * noisy, axis=-1)
        if ends is not None:
            target = np.clip(target, *(most * (end - mean) for end in ends))
        weights = counts
        if outside is not None:
            share = np.sum(cells * counts, axis=-1) / (np.sum(cells, axis=-1) + outside)
            weights = counts - share[..., np.newaxis]
            # The other cells are a group without records.
            weights = np.concatenate([weights, -share[..., np.newaxis]], axis=-1)
            counts, p = (_with_zero(each) for each in np.broadcast_arrays(counts, p))
            cells = np.concatenate(
                [
                    np.broadcast_to(cells, (*outside.shape, cells.shape[-1])),
                    outside[..., np.newaxis],
                ],
                axis=-1,
            )
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    shape = np.broadcast_shapes(target.shape, np.shape(total), p.shape[:-1])
    total, target = np.broadcast_to(total, shape), np.broadcast_to(target, shape)
    return _Sum(law, total, log_p, p, counts, weights, cells, sampling).deviate(target)


def _with_zero(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1)


def share_deviates(law: NoiseLaw, groups: Groups, share: np.ndarray, sampling: bool) -> np.ndarray:
    """Return normal deviates of the first of two noisy sums, if its true share is a given one.

    The deviate increases with the noisy share, and decreases with the given one. The first
    group's counts are binomial. Few counts with little noise are summed exactly.
    """
    share = np.clip(share, 0.0, 1.0)
    p = np.stack([share, 1 - share], axis=-1)
    if law.is_exact:
        return _exact_deviates(groups, share, sampling)
    found = np.array(mean_deviates(law, groups, np.array([1.0, 0.0]), share, p, sampling))
    if not sampling:
        return found
    noisy, cells, total, outside = groups
    shape = found.shape
    count_variance = np.broadcast_to(total * share * (1 - share), shape)
    weights = np.stack([1 - share, -share], axis=-1)
    variance = noise_variance(law, cells, weights, outside)
    if law.r > 0:
        variance = variance + count_variance / law.r
    deviation = np.broadcast_to(np.sqrt(variance), shape)
    coarse = (count_variance < _MAX_COUNT_VARIANCE) & (deviation < _MAX_NOISE_DEVIATION)
    coarse &= (np.abs(found) > _MIN_SUMMED) & (np.abs(found) < _MAX_SUMMED)
    if not coarse.any():
        return found

    def pick(array):
        return np.broadcast_to(array, (*shape, array.shape[-1]))[coarse]

    def flat(array):
        return np.broadcast_to(array, shape)[coarse]

    few = Groups(pick(noisy), pick(cells), flat(total), None)
    found[coarse] = _summed_deviates(law, few, flat(share), deviation[coarse])
    return found


def noise_variance(
    law: NoiseLaw, cells: np.ndarray, weights: np.ndarray, outside: np.ndarray | None
) -> np.ndarray:
    """Return the variance of weighted sums of the noise of groups of empty cells."""
    size = np.sum(cells * weights**2, axis=-1)
    if outside is not None:
        size = size - np.sum(cells * weights, axis=-1) ** 2 / (cells.sum(axis=-1) + outside)
    return np.maximum(size, 0.0) * law.variance


def tilted(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``weights exp(s values)``, normalised, with the s for which the mean value is 0."""
    scale = np.abs(values).max(axis=-1, keepdims=True)
    values = values / np.where(scale > 0, scale, 1.0)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    low = np.full((*np.broadcast_shapes(values.shape, weights.shape)[:-1], 1), -_MAX_TILT)
    high, s = -low, 0 * low
    for _ in range(_STEPS):
        exponent = log_weights + s * values
        p = np.exp(exponent - exponent.max(axis=-1, keepdims=True))
        p = p / p.sum(axis=-1, keepdims=True)
        mean = np.sum(p * values, axis=-1, keepdims=True)
        if np.all(np.abs(mean) < _TOLERANCE):
            break
        high, low = np.where(mean > 0, s, high), np.where(mean > 0, low, s)
        second = np.sum(p * values**2, axis=-1, keepdims=True) - mean**2
        step = s - mean / np.maximum(second, 1e-300)
        s = np.where((step > low) & (step < high), step, (low + high) / 2)
    return p


def _summed_deviates(law, groups, share, deviation):
    """Sum the probabilities of the noisy share over the binomial counts."""
    noisy, cells, total, _ = groups
    total = np.rint(total)
    centre = total * share
    reach = 6 * np.sqrt(centre * (1 - share)) + 8
    n_nodes = int(2 * reach.max()) + 2
    start = np.floor(np.clip(centre - reach, 0.0, np.maximum(total - n_nodes + 1, 0.0)))
    x = start[:, np.newaxis] + np.arange(n_nodes)
    share, total = share[:, np.newaxis], total[:, np.newaxis]
    valid = x <= total
    x = np.minimum(x, total)
    log_weight = gammaln(total + 1) - gammaln(x + 1) - gammaln(total - x + 1)
    log_weight = log_weight + xlogy(x, share) + xlog1py(total - x, -share)
    weight = np.where(valid, np.exp(log_weight), 0.0)
    if law.r > 0 and law.alpha < _NORMAL_PRIOR:
        drawn = np.maximum(law.r * noisy + law.alpha * cells, 1e-300)
        q = (drawn[:, 0] / drawn.sum(axis=1))[:, np.newaxis]
        a = law.r * x + law.alpha * cells[:, :1]
        b = law.r * (total - x) + law.alpha * cells[:, 1:]
        below, above = betainc(a, b, q), betaincc(a, b, q)
    else:
        observed = (1 - share[:, 0]) * noisy[:, 0] - share[:, 0] * noisy[:, 1]
        z = (observed[:, np.newaxis] - x + share * total) / np.maximum(deviation, 1e-12)[:, None]
        below, above = (_laplace_cdf(z), _laplace_cdf(-z)) if law.b > 0 else (ndtr(z), ndtr(-z))
    return _deviate_of(np.sum(weight * below, axis=1), np.sum(weight * above, axis=1))


def _laplace_cdf(z: np.ndarray) -> np.ndarray:
    # Of variance 1. The noise is smaller than the gaps between counts here, so its exact shape
    # hardly matters: a sum of Laplace variables is treated as a single one.
    tail = np.exp(-np.sqrt(2) * np.abs(z)) / 2
    return np.where(z > 0, 1 - tail, tail)


def _deviate_of(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the normal deviate from both tails, the smaller of which is precise."""
    tiny = np.finfo(float).tiny
    lower = ndtri(np.clip(below, tiny, 1.0))
    upper = -ndtri(np.clip(above, tiny, 1.0))
    return np.clip(np.where(below < above, lower, upper), -_LARGEST, _LARGEST)


def _exact_deviates(groups, share, sampling):
    """Return deviates without noise: Clopper and Pearson's tails, which include the count."""
    x, total = groups.noisy[..., 0], groups.noisy.sum(axis=-1)
    observed = np.where(total > 0, x / np.maximum(total, 1e-300), share)
    if not sampling:
        return _LARGEST * np.sign(np.where(np.isclose(observed, share), 0.0, observed - share))
    at_most = np.where(x < total, betaincc(x + 1, np.maximum(total - x, 1e-300), share), 1.0)
    at_least = np.where(x > 0, betainc(np.maximum(x, 1e-300), total - x + 1, share), 1.0)
    low, high = ndtri(at_most), -ndtri(at_least)
    found = np.where(observed > share, np.maximum(high, 0.0), np.minimum(low, 0.0))
    return np.clip(np.where(total > 0, found, 0.0), -_LARGEST, _LARGEST)
