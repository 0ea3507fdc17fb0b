"""z-scores of noisy sums of counts, accounting for both sampling error and noise.

Under the null hypothesis, each record belongs to cell group g with probability p_g. The statistic
is a sum ``L = sum_g c_g Y_g`` of the noisy counts of the groups. If the true counts of the groups
are x ~ Multinomial(m, p), the cumulant generating function of L has a closed form for all
mechanisms:

* Gaussian noise: ``m log sum_g p_g exp(s c_g) + s^2 sigma^2 sum_g k_g w_g^2 / 2``,
* Laplace noise: ``m log sum_g p_g exp(s c_g) - sum_g k_g log(1 - s^2 b^2 w_g^2)``,
* Dirichlet releases, in terms of gamma variables with shapes ``r x + k alpha``:
  ``m log sum_g p_g (1 - s c_g)^-r - alpha sum_g k_g log(1 - s c_g)``,

where group g has k_g cells. The weights w_g of the noise differ from c_g if the noisy counts
are corrected with the known total. Lugannani and Rice's approximation, in Barndorff-Nielsen's
form, converts the observed value of L into a z-score. docs/inference.md has the derivation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincc, gammaln, logsumexp, ndtr, ndtri, xlog1py, xlogy

from ..mechanisms.tables import Noise

# Maximum number of Newton steps, and tolerance for the mean of the tilted distribution in standard
# deviations. An error in the mean has only a second-order effect on the z-score.
_MAX_STEPS, _TOLERANCE = 25, 1e-6
# If the observed value is closer to the mean than this (in standard deviations), differences of
# cumulant generating functions suffer from cancellation. The correction of the z-score at this
# distance is then used instead.
_NEAR = 0.02
# If the counts vary little and the noise is too small to smooth over the gaps between integers,
# probabilities are summed over all counts. Otherwise, the discreteness of the counts changes tail
# probabilities by less than 0.006.
_MAX_COUNT_VARIANCE, _MAX_NOISE_STD = 36.0, 0.6
# If alpha is at least this large, gamma variables are treated as normal: their skewness is below
# 0.07.
_NORMAL_ALPHA = 1000.0
# Range of absolute z-scores for which the sum is computed. Outside this range, no p-value is close
# to a significance level.
_MIN_SUMMED_Z, _MAX_SUMMED_Z = 0.5, 5.0
# Largest absolute z-score: the normal quantile of the smallest positive float.
_MAX_Z = 37.0
# Largest tilt, for values scaled to at most 1 in absolute value: at this tilt, only one category
# has a non-negligible probability.
_MAX_TILT = 700.0


class Groups(NamedTuple):
    """Groups of cells along the last axis, and the total of their counts.

    `noisy` contains the noisy sums, `n_cells` the numbers of cells, and `n_records` the number of
    records in the groups. `n_outside` is the number of cells outside the groups if the total of the
    whole table is known and used, and None otherwise. If the total is used, counts with additive
    noise have been corrected with it, and gamma variables are divided by their sum.
    """

    noisy: np.ndarray
    n_cells: np.ndarray
    n_records: np.ndarray
    n_outside: np.ndarray | None


class NoiseDistribution(NamedTuple):
    """Parameters of the noise.

    Either `sigma`, `b`, or both `r` and `alpha` are non-zero; all are 0 if there is no noise.
    """

    sigma: float = 0.0
    b: float = 0.0
    r: float = 0.0
    alpha: float = 0.0

    @classmethod
    def from_noise(cls, noise: Noise) -> "NoiseDistribution":
        """Return the distribution of a mechanism's noise, given its variances."""
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
    def is_zero(self) -> bool:
        """Whether there is no noise."""
        return self.sigma == self.b == self.r == 0


@dataclass(frozen=True)
class _Sum:
    """Distribution of a sum of noisy counts, represented by its cumulant generating function."""

    noise: NoiseDistribution
    n_records: np.ndarray
    log_p: np.ndarray
    p: np.ndarray
    count_weights: np.ndarray
    noise_weights: np.ndarray
    n_cells: np.ndarray
    sampling: bool

    def cgf_derivatives(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the cumulant generating function at s, and its first two derivatives."""
        s = s[..., np.newaxis]
        is_dirichlet = self.noise.r > 0
        if is_dirichlet:
            rest = 1 - s * self.count_weights
            exponent, slope = -self.noise.r * np.log(rest), self.noise.r * self.count_weights / rest
        else:
            exponent, slope = s * self.count_weights, self.count_weights
        if self.sampling:
            value = logsumexp_weighted(exponent, self.log_p)
            tilted = np.exp(exponent + self.log_p - value[..., np.newaxis])
            first = np.sum(tilted * slope, axis=-1)
            second = np.sum(tilted * (slope - first[..., np.newaxis]) ** 2, axis=-1)
            if is_dirichlet:
                second = second + np.sum(tilted * slope**2, axis=-1) / self.noise.r
        else:
            value, first = np.sum(self.p * exponent, axis=-1), np.sum(self.p * slope, axis=-1)
            second = (
                np.sum(self.p * slope**2, axis=-1) / self.noise.r if is_dirichlet else 0.0 * first
            )
        terms = zip((value, first, second), self._noise_terms(s, slope), strict=True)
        return tuple(self.n_records * count + noise for count, noise in terms)

    def _noise_terms(self, s, slope):
        noise = self.noise
        if noise.r > 0:
            part = noise.alpha * self.n_cells
            rate = slope / noise.r
            log_rest = np.log(1 - s * self.count_weights)
            terms = (-part * log_rest, part * rate, part * rate**2)
        elif noise.b > 0:
            squared_scale = (noise.b * self.noise_weights) ** 2
            rest = 1 - s**2 * squared_scale
            terms = (
                -self.n_cells * np.log(rest),
                2 * self.n_cells * squared_scale * s / rest,
                2 * self.n_cells * squared_scale * (2 - rest) / rest**2,
            )
        else:
            variance = self.n_cells * (noise.sigma * self.noise_weights) ** 2
            terms = (s**2 * variance / 2, s * variance, variance + 0 * s)
        return tuple(np.sum(term, axis=-1) for term in terms)

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the endpoints of the interval on which the generating function is finite."""
        with np.errstate(divide="ignore"):
            if self.noise.r > 0:
                low = 1 / np.minimum(self.count_weights.min(axis=-1), -1e-300)
                return low, 1 / np.maximum(self.count_weights.max(axis=-1), 1e-300)
            largest = np.abs(self.noise_weights).max(axis=-1)
            high = (
                1 / (self.noise.b * largest) if self.noise.b > 0 else np.full(largest.shape, np.inf)
            )
            return -high, high

    def z_score(self, observed: np.ndarray) -> np.ndarray:
        """Return the normal quantile of the cumulative probability of an observed value."""
        zero = np.zeros(np.broadcast_shapes(observed.shape, self.n_records.shape))
        low, high = (np.broadcast_to(bound, zero.shape) for bound in self.domain())
        _, mean, variance = self.cgf_derivatives(zero)
        std = np.sqrt(np.maximum(variance, 1e-300))
        # If the domain is unbounded, the solution is at most this far from 0: the derivative of the
        # generating function grows at least as fast as that of the noise alone.
        reach = (np.abs(observed - mean) / std + 1) * 50 / std
        low, high = np.maximum(low * (1 - 1e-12), -reach), np.minimum(high * (1 - 1e-12), reach)
        s = np.clip((observed - mean) / std**2, 0.8 * low, 0.8 * high)
        for _ in range(_MAX_STEPS):
            _, first, second = self.cgf_derivatives(s)
            excess = first - observed
            converged = np.abs(excess) <= _TOLERANCE * std
            if converged.all():
                break
            high, low = np.where(excess > 0, s, high), np.where(excess > 0, low, s)
            step = s - excess / np.maximum(second, 1e-300)
            step = np.where((step > low) & (step < high), step, (low + high) / 2)
            s = np.where(converged, s, step)
        value, _, second = self.cgf_derivatives(s)
        signed_root = np.sign(s) * np.sqrt(np.maximum(2 * (s * observed - value), 0.0))
        near = np.abs(signed_root) < _NEAR
        s_eval = np.where(near, _NEAR / std, s)
        if near.any():
            value, first, second = self.cgf_derivatives(s_eval)
            root_eval = np.sign(s_eval) * np.sqrt(np.maximum(2 * (s_eval * first - value), 1e-300))
        else:
            root_eval = signed_root
        with np.errstate(divide="ignore", invalid="ignore"):
            correction = (
                np.log(np.maximum(s_eval * np.sqrt(second) / root_eval, 1e-300)) / root_eval
            )
        z = signed_root + np.where(np.isfinite(correction), correction, 0.0)
        return np.clip(z, -_MAX_Z, _MAX_Z)


def logsumexp_weighted(exponent: np.ndarray, log_p: np.ndarray) -> np.ndarray:
    """Return ``log sum_g p_g exp(exponent_g)`` along the last axis."""
    joint = exponent + log_p
    if joint.shape[-1] <= 3:
        value = joint[..., 0]
        for g in range(1, joint.shape[-1]):
            value = np.logaddexp(value, joint[..., g])
        return value
    return logsumexp(joint, axis=-1)


def mean_z_scores(
    noise: NoiseDistribution,
    groups: Groups,
    values: np.ndarray,
    mean: np.ndarray,
    p: np.ndarray,
    sampling: bool,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Return z-scores of noisy means under the hypothesis that the true mean is `mean`.

    Parameters
    ----------
    noise : NoiseDistribution
    groups : Groups
    values : ndarray of shape (..., n_groups)
        Value of each group.
    mean : ndarray
        Mean of the values under the hypothesis.
    p : ndarray of shape (..., n_groups)
        Probabilities of the groups under the hypothesis. The mean of `values` with these
        probabilities is `mean`.
    sampling : bool
        If True, the records are a sample from a population with probabilities `p`. If False, `p`
        contains the exact proportion of the records in each group.
    bounds : tuple of ndarray, optional
        Smallest and largest possible mean. Noisy means are clipped to this range.
    """
    # Under hypotheses far from the noisy mean, the estimated number of records in the groups is
    # small. The noisy sum is used if it is larger.
    larger_total = np.maximum(groups.n_records, groups.noisy.sum(axis=-1))
    noisy, n_cells, n_records, n_outside = groups
    if noise.r > 0:
        drawn = noise.r * noisy + noise.alpha * n_cells
        if n_outside is not None:
            # If the total is known, the weighted sum is divided by the sum of the gamma variables;
            # that sum itself carries no further information.
            observed = np.sum(values * drawn, axis=-1) / np.sum(drawn, axis=-1)
            if bounds is not None:
                # Expected ratio if the true mean is at one of the bounds.
                prior = noise.alpha * np.sum(n_cells * values, axis=-1)
                whole = noise.r * n_records + noise.alpha * np.sum(n_cells, axis=-1)
                low, high = ((noise.r * n_records * bound + prior) / whole for bound in bounds)
                observed = np.clip(observed, low, high)
            count_weights = values - observed[..., np.newaxis]
            target = np.zeros(observed.shape)
        else:
            # The mean of this sum does not depend on the total, which has to be estimated.
            count_weights = values - mean[..., np.newaxis]
            target = np.sum(count_weights * noisy, axis=-1)
            if bounds is not None:
                target = np.clip(target, *(larger_total * (bound - mean) for bound in bounds))
            target = noise.r * target + noise.alpha * np.sum(count_weights * n_cells, axis=-1)
        noise_weights = count_weights
    else:
        count_weights = values - mean[..., np.newaxis]
        target = np.sum(count_weights * noisy, axis=-1)
        if bounds is not None:
            target = np.clip(target, *(larger_total * (bound - mean) for bound in bounds))
        noise_weights = count_weights
        if n_outside is not None:
            mean_weight = np.sum(n_cells * count_weights, axis=-1) / (
                np.sum(n_cells, axis=-1) + n_outside
            )
            noise_weights = count_weights - mean_weight[..., np.newaxis]
            # The cells outside the groups form another group, which has no records.
            noise_weights = np.concatenate([noise_weights, -mean_weight[..., np.newaxis]], axis=-1)
            count_weights, p = (
                _with_zero(array) for array in np.broadcast_arrays(count_weights, p)
            )
            n_cells = np.concatenate(
                [
                    np.broadcast_to(n_cells, (*n_outside.shape, n_cells.shape[-1])),
                    n_outside[..., np.newaxis],
                ],
                axis=-1,
            )
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    shape = np.broadcast_shapes(target.shape, np.shape(n_records), p.shape[:-1])
    n_records, target = np.broadcast_to(n_records, shape), np.broadcast_to(target, shape)
    return _Sum(
        noise, n_records, log_p, p, count_weights, noise_weights, n_cells, sampling
    ).z_score(target)


def _with_zero(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1)


def share_z_scores(
    noise: NoiseDistribution, groups: Groups, share: np.ndarray, sampling: bool
) -> np.ndarray:
    """Return z-scores of the first of two noisy sums, given its true share under the hypothesis.

    The z-score increases with the noisy share and decreases with `share`. The first group's counts
    are binomial. If they vary little and there is little noise, tail probabilities are summed over
    all counts.
    """
    share = np.clip(share, 0.0, 1.0)
    p = np.stack([share, 1 - share], axis=-1)
    if noise.is_zero:
        return _exact_z_scores(groups, share, sampling)
    z = np.array(mean_z_scores(noise, groups, np.array([1.0, 0.0]), share, p, sampling))
    if not sampling:
        return z
    noisy, n_cells, n_records, n_outside = groups
    shape = z.shape
    count_variance = np.broadcast_to(n_records * share * (1 - share), shape)
    weights = np.stack([1 - share, -share], axis=-1)
    variance = noise_variance(noise, n_cells, weights, n_outside)
    if noise.r > 0:
        variance = variance + count_variance / noise.r
    std = np.broadcast_to(np.sqrt(variance), shape)
    coarse = (count_variance < _MAX_COUNT_VARIANCE) & (std < _MAX_NOISE_STD)
    coarse &= (np.abs(z) > _MIN_SUMMED_Z) & (np.abs(z) < _MAX_SUMMED_Z)
    if not coarse.any():
        return z

    def select_groups(array):
        return np.broadcast_to(array, (*shape, array.shape[-1]))[coarse]

    def select(array):
        return np.broadcast_to(array, shape)[coarse]

    selected = Groups(select_groups(noisy), select_groups(n_cells), select(n_records), None)
    z[coarse] = _z_scores_from_summed_tails(noise, selected, select(share), std[coarse])
    return z


def noise_variance(
    noise: NoiseDistribution, n_cells: np.ndarray, weights: np.ndarray, n_outside: np.ndarray | None
) -> np.ndarray:
    """Return the noise variance of weighted sums over groups of empty cells."""
    factor = np.sum(n_cells * weights**2, axis=-1)
    if n_outside is not None:
        factor = factor - np.sum(n_cells * weights, axis=-1) ** 2 / (
            n_cells.sum(axis=-1) + n_outside
        )
    return np.maximum(factor, 0.0) * noise.variance


def tilt_to_zero_mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return normalised ``weights exp(s values)``, with s chosen so that the mean value is 0."""
    scale = np.abs(values).max(axis=-1, keepdims=True)
    values = values / np.where(scale > 0, scale, 1.0)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    low = np.full((*np.broadcast_shapes(values.shape, weights.shape)[:-1], 1), -_MAX_TILT)
    high, s = -low, 0 * low
    for _ in range(_MAX_STEPS):
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


def _z_scores_from_summed_tails(noise, groups, share, std):
    """Return z-scores from tail probabilities, which are summed over the binomial counts."""
    noisy, n_cells, n_records, _ = groups
    n_records = np.rint(n_records)
    centre = n_records * share
    reach = 6 * np.sqrt(centre * (1 - share)) + 8
    n_nodes = int(2 * reach.max()) + 2
    start = np.floor(np.clip(centre - reach, 0.0, np.maximum(n_records - n_nodes + 1, 0.0)))
    x = start[:, np.newaxis] + np.arange(n_nodes)
    share, n_records = share[:, np.newaxis], n_records[:, np.newaxis]
    valid = x <= n_records
    x = np.minimum(x, n_records)
    log_weight = gammaln(n_records + 1) - gammaln(x + 1) - gammaln(n_records - x + 1)
    log_weight = log_weight + xlogy(x, share) + xlog1py(n_records - x, -share)
    weight = np.where(valid, np.exp(log_weight), 0.0)
    if noise.r > 0 and noise.alpha < _NORMAL_ALPHA:
        drawn = np.maximum(noise.r * noisy + noise.alpha * n_cells, 1e-300)
        q = (drawn[:, 0] / drawn.sum(axis=1))[:, np.newaxis]
        a = noise.r * x + noise.alpha * n_cells[:, :1]
        b = noise.r * (n_records - x) + noise.alpha * n_cells[:, 1:]
        below, above = betainc(a, b, q), betaincc(a, b, q)
    else:
        observed = (1 - share[:, 0]) * noisy[:, 0] - share[:, 0] * noisy[:, 1]
        z = (observed[:, np.newaxis] - x + share * n_records) / np.maximum(std, 1e-12)[:, None]
        below, above = (_laplace_cdf(z), _laplace_cdf(-z)) if noise.b > 0 else (ndtr(z), ndtr(-z))
    return _z_score_from_tails(np.sum(weight * below, axis=1), np.sum(weight * above, axis=1))


def _laplace_cdf(z: np.ndarray) -> np.ndarray:
    # Laplace distribution with variance 1. The noise is smaller than the gaps between counts here,
    # so its exact shape hardly matters: a sum of Laplace variables is treated as a single one.
    tail = np.exp(-np.sqrt(2) * np.abs(z)) / 2
    return np.where(z > 0, 1 - tail, tail)


def _z_score_from_tails(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the z-score for two tail probabilities, of which the smaller one is accurate."""
    tiny = np.finfo(float).tiny
    lower = ndtri(np.clip(below, tiny, 1.0))
    upper = -ndtri(np.clip(above, tiny, 1.0))
    return np.clip(np.where(below < above, lower, upper), -_MAX_Z, _MAX_Z)


def _exact_z_scores(groups, share, sampling):
    """Return z-scores of exact counts: Clopper-Pearson tails, with the observed count included."""
    x, n_records = groups.noisy[..., 0], groups.noisy.sum(axis=-1)
    observed = np.where(n_records > 0, x / np.maximum(n_records, 1e-300), share)
    if not sampling:
        return _MAX_Z * np.sign(np.where(np.isclose(observed, share), 0.0, observed - share))
    at_most = np.where(
        x < n_records, betaincc(x + 1, np.maximum(n_records - x, 1e-300), share), 1.0
    )
    at_least = np.where(x > 0, betainc(np.maximum(x, 1e-300), n_records - x + 1, share), 1.0)
    low, high = ndtri(at_most), -ndtri(at_least)
    z = np.where(observed > share, np.maximum(high, 0.0), np.minimum(low, 0.0))
    return np.clip(np.where(n_records > 0, z, 0.0), -_MAX_Z, _MAX_Z)
