"""Dirichlet mechanism for probability vectors.

"The paper" is "The Dirichlet Mechanism for Differential Privacy on the Unit Simplex". Its symbols
k, W, eta, eta-bar, b, N and gamma are `k`, `protected`, `eta`, `eta_bar`, `b`, `n_vectors` and
`gamma`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaln, expit, logit, xlogy

from .._random import noise_generator
from .._validation import (
    LARGEST,
    OPEN_UNIT_INTERVAL,
    check_choice,
    check_integer,
    check_real,
    check_real_array,
    store_reals,
)
from ..accounting.composition import PrivacyCurves
from ..accounting.pairs import BetaPair
from ..accounting.worst_case import VECTORS, WorstCase, in_every_direction
from ..numerics.conservative import safe_root
from .dirichlet import DirichletMechanism, dirichlet_variance, draw_dirichlet
from .sampling import check_platform
from .sampling.grids import MAX_PLACES

CLAIMS = ("exact", "paper", "union", "lemma5")
_SUM_TOLERANCE = 1e-9
# Bound on the rounding error of an entry of a vector, and of the sum of some entries.
_ROUNDING = 2.0**-48
# Largest number of bits of the shapes in a release.
_SHAPE_BITS = 61

# The tail probability is accurate to about 1e-13 in all tested cases, including |W| = 10.
_N_NODES = 96
_DEGREE = 64
_NEGLIGIBLE = 80.0  # densities below exp(-80) of their peak are ignored
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(_N_NODES)
_CHEBYSHEV = chebyshev.chebpts1(_DEGREE + 1)
_TINY = 1e-290


@dataclass(frozen=True)
class SimplexMechanism(PrivacyCurves):
    """Release ``Y ~ Dirichlet(k p)`` for a probability vector p, or for a mean of several vectors.

    Neighbours are two vectors that differ in two protected entries, by at most b in l1 norm. For a
    mean, one of its vectors is replaced by such a neighbour. The privacy curves are those of a
    `DirichletMechanism` with r = k b / (2 N) and alpha = k eta (docs/theory.md, section 8).

    Parameters
    ----------
    k : float
        Concentration: the variance of an entry is ``p (1 - p) / (k + 1)``.
    protected : sequence of int
        Indices of the protected entries, at least two and not all. Changes of other entries are
        not covered by the guarantee.
    eta, eta_bar : float in (0, 1)
        Lower bounds on a protected entry, and on the sum of all other entries. Vectors outside
        these bounds are rejected.
    b : float in (0, 1], default=1.0
        Bound on the l1 distance of neighbours.
    n_vectors : int, default=1
        Number of vectors in the mean, 1 for a single vector.

    Notes
    -----
    Which vectors are neighbours depends on all parameters except `k`. The name `adjacency`
    contains these parameters. Releases compose only if their names are equal.

    Examples
    --------
    >>> from skdirdp.mechanisms import SimplexMechanism
    >>> mechanism = SimplexMechanism(
    ...     k=24, protected=(0, 1), eta=0.05, eta_bar=0.05, n_vectors=100
    ... )
    >>> round(mechanism.epsilon(0.05), 4), round(mechanism.epsilon(0.05, claim="paper"), 4)
    (0.0508, 1.1223)
    """

    k: float
    protected: tuple[int, ...]
    eta: float
    eta_bar: float
    b: float = 1.0
    n_vectors: int = 1

    def __post_init__(self):
        store_reals(self, k={"above": 0, "at_least": 1 / LARGEST, "at_most": LARGEST})
        protected = tuple(check_integer("protected", i, at_least=0) for i in self.protected)
        if len(set(protected)) != len(protected) or len(protected) < 2:
            raise ValueError(
                f"protected must be at least 2 distinct entries; got {self.protected!r}"
            )
        object.__setattr__(self, "protected", protected)
        limits = {"above": 0, "at_least": 1 / LARGEST, "below": 1}
        store_reals(self, eta=limits, eta_bar=OPEN_UNIT_INTERVAL)
        if self._slack <= 0:
            raise ValueError(
                f"eta must be less than (1 - eta_bar) / {len(protected)}, otherwise no vector "
                f"satisfies the bounds; got eta={self.eta}, eta_bar={self.eta_bar}"
            )
        store_reals(self, b={"above": 0, "at_most": 1})
        n_vectors = check_integer("n_vectors", self.n_vectors, at_least=1, at_most=2**53)
        object.__setattr__(self, "n_vectors", n_vectors)

    @property
    def adjacency(self) -> str:
        """Name of the adjacency relation, with all its parameters."""
        return (
            f"{VECTORS}(protected={tuple(sorted(self.protected))}, eta={self.eta}, "
            f"eta_bar={self.eta_bar}, b={self.b}, n_vectors={self.n_vectors})"
        )

    @property
    def _slack(self) -> float:  # largest possible difference between a protected entry and eta
        return 1 - self.eta_bar - len(self.protected) * self.eta

    @property
    def _places(self) -> int:  # binary places of the shapes k p in a release
        return min(MAX_PLACES, _SHAPE_BITS - math.frexp(self.k)[1])

    @property
    def equivalent(self) -> DirichletMechanism:
        """Dirichlet mechanism for counts with the same worst case."""
        # Neighbours are floats, and shapes are rounded up: both can increase the change slightly.
        change = min(self.b / 2, self._slack + _ROUNDING) / self.n_vectors + _ROUNDING
        change += 2.0**-self._places / self.k
        return DirichletMechanism(r=self.k * change, alpha=self.k * self.eta)

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        case = WorstCase.from_pair(BetaPair(self.equivalent.r, self.equivalent.alpha))
        return in_every_direction(self.adjacency, case)

    def paper_delta(self, gamma: float, *, union: bool = False) -> float:
        """Return the delta of Theorems 1 and 2: P[some protected entry < gamma] at worst.

        Parameters
        ----------
        gamma : float in (0, 1)
            Lower bound on protected entries of the output, except with probability delta.
        union : bool, default=False
            Whether to use the union bound ``|W| I_gamma(k eta, k (1 - eta))``. Otherwise the worst
            vector is assumed to be a vertex of the allowed set; its proof in the paper has a gap.
        """
        self._check_paper()
        gamma = check_real("gamma", gamma, above=0, below=1)
        return _paper_delta(*self._paper_parameters, gamma, union)

    def epsilon(self, delta: float, claim: str = "exact") -> float:
        """Return the epsilon at delta.

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of (epsilon, delta)-differential privacy.
        claim : {"exact", "paper", "union", "lemma5"}, default="exact"
            "paper" is Theorem 1, or Theorem 2 for a mean, at the best gamma. "union" uses the union
            bound on delta, "lemma5" the bounds of Lemma 5 for the beta functions, for comparison.
        """
        check_choice("claim", claim, CLAIMS)
        if claim == "exact":
            return super().epsilon(delta)
        gamma = self.best_gamma(delta, union=claim == "union")
        return self.paper_epsilon(gamma, lemma5=claim == "lemma5")

    def paper_epsilon(self, gamma: float, *, lemma5: bool = False) -> float:
        """Return the epsilon of Theorems 1 and 2 that corresponds to ``paper_delta(gamma)``.

        Parameters
        ----------
        gamma : float
            Between 0 and 1 / (number of protected entries), exclusive.
        lemma5 : bool, default=False
            Whether to use the bounds of Lemma 5 for the beta functions.
        """
        self._check_paper()
        gamma = check_real("gamma", gamma, above=0, below=1 / len(self.protected))
        change = self.b / (2 * self.n_vectors)
        a, other = self.k * self.eta, self.k * (1 - self.eta_bar - self.eta)
        shift = self.k * change
        if other <= shift:
            raise ValueError(
                "b / (2 n_vectors) must be less than 1 - eta_bar - eta for the paper's claim; "
                f"got {change}"
            )
        if lemma5:
            if min(a, other) <= 1:
                raise ValueError(f"k * eta must be greater than 1 for Lemma 5; got {a}")
            upper = np.log(a + other - 1) - np.log(2 * a - 1) - np.log(2 * other - 1)
            log_ratio = upper - (2 - a - other)
        else:
            log_ratio = betaln(a, other) - betaln(a + shift, other - shift)
        log_odds = np.log1p(-(len(self.protected) - 1) * gamma) - np.log(gamma)
        return float(log_ratio + shift * log_odds)

    def best_gamma(self, delta: float, *, union: bool = False) -> float:
        """Return the largest gamma for which `paper_delta` is at most delta.

        Parameters
        ----------
        delta : float in (0, 1)
            Upper bound on `paper_delta`.
        union : bool, default=False
            As in `paper_delta`.
        """
        # Problem (16) of the paper asks for the smallest gamma, but epsilon decreases with gamma.
        self._check_paper()
        delta = check_real("delta", delta, above=0, below=1)
        return _best_gamma(*self._paper_parameters, delta, union)

    def claims(self, delta: float) -> dict[str, float]:
        """Return a dict that maps the name of each applicable claim to its epsilon at delta.

        Parameters
        ----------
        delta : float in (0, 1)
            The delta of (epsilon, delta)-differential privacy.
        """
        self._check_paper()
        names = [name for name in CLAIMS if name != "lemma5" or self.k * self.eta > 1]
        return {name: self.epsilon(delta, claim=name) for name in names}

    def release(
        self,
        p: ArrayLike,
        random_state: Any = None,
        *,
        accountant: Any = None,
        label: str | None = None,
    ) -> np.ndarray:
        """Release a probability vector with noise.

        Parameters
        ----------
        p : array-like of shape (n,)
            Probability vector. It must sum to 1 up to rounding errors, and is normalized.
        random_state : None, int, Generator or RandomState
            If None, the noise is cryptographically secure.
        accountant : PrivacyAccountant, optional
            Accountant that is charged for one release before noise is drawn.
        label : str, optional
            Name of the charge in the accountant's history.
        """
        if self.n_vectors != 1:
            raise ValueError(
                f"n_vectors must be 1 to release a single vector; got {self.n_vectors}. "
                "Use release_mean."
            )
        p = self._check_vectors("p", p, ndim=1)
        return self._draw(p, random_state, accountant, label)

    def release_mean(
        self,
        P: ArrayLike,
        random_state: Any = None,
        *,
        accountant: Any = None,
        label: str | None = None,
    ) -> np.ndarray:
        """Release the mean of probability vectors with noise.

        Parameters
        ----------
        P : array-like of shape (n_vectors, n)
            The vectors.
        random_state, accountant, label
            As in `release`.
        """
        P = self._check_vectors("P", P, ndim=2)
        if len(P) != self.n_vectors:
            raise ValueError(f"P must have n_vectors={self.n_vectors} vectors; got {len(P)}")
        # Round only once: errors of partial sums could exceed the change of one vector.
        mean = np.array([math.fsum(column) / len(P) for column in P.T])
        return self._draw(mean, random_state, accountant, label)

    def variance(self, p: ArrayLike) -> np.ndarray:
        """Return the variance of each entry of the output (Proposition 1).

        Parameters
        ----------
        p : array-like of shape (n,)
            The vector that is released.
        """
        return dirichlet_variance(np.asarray(p, dtype=float), self.k)

    @staticmethod
    def k_for_variance(variance: float, p: ArrayLike | None = None) -> float:
        """Return the smallest k at which no entry of the output has a variance above `variance`.

        Parameters
        ----------
        variance : float
            Upper bound on the variance.
        p : array-like, optional
            Entries of the vector, equation (22) of the paper. By default 1/2, equation (23).
        """
        variance = check_real("variance", variance, above=0)
        p = np.asarray(0.5 if p is None else p, dtype=float)
        if not np.all((p >= 0) & (p <= 1)):
            raise ValueError("p must be between 0 and 1; some entries are not")
        worst = float(np.max(p * (1 - p)))
        if variance >= worst:
            raise ValueError(f"variance must be less than {worst:g}; got {variance}")
        return worst / variance - 1

    @classmethod
    def calibrate(
        cls,
        *,
        epsilon: float,
        delta: float,
        protected: Sequence[int],
        eta: float,
        eta_bar: float,
        b: float = 1.0,
        n_vectors: int = 1,
        claim: str = "exact",
    ) -> "SimplexMechanism":
        """Return the mechanism with the largest k that is (epsilon, delta)-DP according to a claim.

        Parameters
        ----------
        epsilon, delta : float
            Budget of one release.
        protected, eta, eta_bar, b, n_vectors
            Parameters of the mechanism.
        claim : {"exact", "paper", "union", "lemma5"}, default="exact"
            As in `epsilon`.
        """
        epsilon = check_real("epsilon", epsilon, above=0)
        delta = check_real("delta", delta, above=0, below=1)
        check_choice("claim", claim, CLAIMS)

        def mechanism_at(log_k):
            return cls(float(np.exp(log_k)), tuple(protected), eta, eta_bar, b, n_vectors)

        def excess(log_k):
            if claim == "exact":
                return np.log(mechanism_at(log_k).delta(epsilon) / delta)
            return mechanism_at(log_k).epsilon(delta, claim=claim) - epsilon

        low = -20.0
        if claim != "exact":
            low = float(np.log(max(1 / eta, 1 / eta_bar)) + (1e-6 if claim == "lemma5" else 1e-12))
        if excess(low) > 0:
            raise ValueError(
                f"epsilon={epsilon} at delta={delta} cannot be reached with any k: "
                "increase epsilon, delta, eta or n_vectors, or decrease b"
            )
        # The margin keeps the epsilon at delta within the budget despite rounding errors.
        return mechanism_at(safe_root(excess, low, 1.0, tolerance=1e-12, margin=1e-11))

    @property
    def _paper_parameters(self) -> tuple[float, int, float, float]:
        return self.k, len(self.protected), self.eta, self.eta_bar

    def _check_paper(self) -> None:
        for name, value in (("eta", self.eta), ("eta_bar", self.eta_bar)):
            if self.k * value < 1 - 1e-12:
                raise ValueError(
                    f"k * {name} must be at least 1 for the paper's claims, whose proof assumes "
                    f"it; got {self.k * value:g}. The exact claim has no such limit."
                )

    def _check_vectors(self, name: str, values: ArrayLike, ndim: int) -> np.ndarray:
        values = check_real_array(name, values)
        if values.ndim != ndim or values.size == 0:
            raise ValueError(f"{name} must have {ndim} dimension(s); got shape {values.shape}")
        size = values.shape[-1]
        if max(self.protected) >= size or len(self.protected) >= size:
            raise ValueError(
                f"{name} must have entries besides those in protected={self.protected}; got {size}"
            )
        if not np.all(values > 0):
            raise ValueError(f"{name} must have only positive entries")
        total = values.sum(axis=-1, keepdims=True)
        if not np.all(np.abs(total - 1) <= _SUM_TOLERANCE):
            raise ValueError(f"{name} must sum to 1 along the last axis")
        # Normalize because neighbours must have equal sums, and clip below because no protected
        # entry may be less than eta, not even by rounding.
        vectors = values / total
        protected = list(self.protected)
        chosen = vectors[..., protected]
        if np.any(chosen < self.eta - _ROUNDING):
            raise ValueError(f"{name} must have protected entries of at least eta={self.eta}")
        if np.any(chosen.sum(axis=-1) > 1 - self.eta_bar + _ROUNDING):
            raise ValueError(
                f"{name} must have unprotected entries that sum to at least eta_bar={self.eta_bar}"
            )
        vectors[..., protected] = np.maximum(chosen, self.eta)
        return vectors

    def _draw(self, p: np.ndarray, random_state, accountant, label) -> np.ndarray:
        if self._places < 0:
            raise ValueError(f"k must be less than 2^{_SHAPE_BITS} for a release; got {self.k}")
        check_platform()
        # Round up in exact arithmetic, so that no protected shape falls below k eta.
        unit = Fraction(self.k) * 2**self._places
        numerators = np.array([math.ceil(unit * Fraction(entry)) for entry in p.tolist()])
        generator = noise_generator(random_state)
        if accountant is not None:
            accountant.charge(self, releases=1, label=label)
        return draw_dirichlet(numerators[np.newaxis], self._places, generator)[0]


@lru_cache(maxsize=1024)
def _paper_delta(k, size, eta, eta_bar, gamma, union) -> float:
    """Return the larger delta of the two kinds of vertices (Lemmas 1 and 2), or the union bound.

    At a vertex, all protected entries are eta, or all but one, which is as large as possible.
    """
    if union:
        # An entry is Beta(k p_i, k (1 - p_i)); P[entry < gamma] is largest at p_i = eta.
        return min(size * float(betainc(k * eta, k * (1 - eta), gamma)), 1.0)
    equal = np.full(size, k * eta)
    unequal = np.append(equal[1:], k * (1 - eta_bar - (size - 1) * eta))
    equal_delta = probability_below(equal, k * (1 - size * eta), gamma)
    return max(equal_delta, probability_below(unequal, k * eta_bar, gamma))


@lru_cache(maxsize=256)
def _best_gamma(k, size, eta, eta_bar, delta, union) -> float:
    def excess(log_gamma):
        bound = _paper_delta(k, size, eta, eta_bar, float(np.exp(log_gamma)), union)
        return np.log(max(bound, 1e-300) / delta)

    high = -np.log(size) - 1e-12
    if excess(high) <= 0:  # the bound does not reach delta below the largest gamma
        return float(np.exp(high))
    return float(np.exp(safe_root(excess, high, 1.0, tolerance=1e-13, limits=(-np.inf, high))))


def probability_below(shapes: np.ndarray, other_shapes: float, threshold: float) -> float:
    """Return P[some Y_i < threshold] for Dirichlet entries Y_i with the given shapes.

    `other_shapes` is the sum of the shapes of all other entries (Lemma 1 of the paper).

    Stick breaking: the first entry is a beta-distributed part u of the stick, and the others
    divide the remainder as a Dirichlet vector. The probability that an entry from the j-th on is
    too small, as a function of the length s of the remaining stick, is therefore an integral of
    the same function for j + 1. Each function is stored as a Chebyshev series of its logarithm in
    log s.
    """
    # The result does not depend on the order. With large entries last, integrands are smoothest.
    shapes = np.sort(np.asarray(shapes, dtype=float))
    size = shapes.size
    if threshold * size >= 1:
        return 1.0
    after = other_shapes + np.cumsum(shapes[::-1])[::-1] - shapes  # sum of the shapes after entry j
    logit_ranges = [_logit_range(a, b) for a, b in zip(shapes, after, strict=True)]

    # Range of the stick before entry j. A stick shorter than (size - j) thresholds is too short.
    ranges = [(1.0, 1.0)]
    for j in range(size - 1):
        shortest, longest = ranges[-1]
        low, high = expit(-logit_ranges[j][1]), expit(-logit_ranges[j][0])
        limit = (size - j - 1) * threshold
        ranges.append((max(shortest * low, limit), max(longest * high, limit)))

    def log_probability(length):
        return np.log(np.maximum(betainc(shapes[-1], after[-1], threshold / length), _TINY))

    for j in range(size - 2, -1, -1):
        shortest, longest = np.log(ranges[j])
        if j == 0 or longest - shortest < 1e-13:
            lengths = np.exp(np.array([longest]))
        else:
            lengths = np.exp(shortest + (longest - shortest) * (_CHEBYSHEV + 1) / 2)
        values = _integrate_entry(
            lengths, threshold, size - j - 1, shapes[j], after[j], logit_ranges[j], log_probability
        )
        log_probability = _interpolant(np.log(values), float(shortest), float(longest))
    return float(np.exp(log_probability(np.array([1.0]))[0]))


def _integrate_entry(lengths, threshold, n_others, a, b, logit_range, log_probability):
    """Return P[this entry or a later one is below the threshold], for each length of the stick."""
    taken, needed = threshold / lengths, np.minimum(n_others * threshold / lengths, 1.0)
    short = betainc(a, b, np.minimum(taken, 1.0))
    # 1 - needed is below `taken` only by rounding; the interval between them is then empty.
    short += betaincc(a, b, np.maximum(1 - needed, taken))
    with np.errstate(divide="ignore"):
        low = np.maximum(logit(taken), logit_range[0])
        high = np.minimum(-logit(needed), logit_range[1])
    half = np.maximum(high - low, 0)[:, np.newaxis] / 2
    low = np.where(np.isfinite(low), low, 0.0)[:, np.newaxis]
    point = low + half * (1 + _POINTS)
    # The density of logit(u), which is smooth and has a single peak.
    log_density = xlogy(a, expit(point)) + xlogy(b, expit(-point)) - betaln(a, b)
    remaining = np.maximum(lengths[:, np.newaxis] * expit(-point), n_others * threshold)
    integrand = np.exp(log_density + log_probability(remaining))
    return np.clip(short + (half * integrand) @ _WEIGHTS, _TINY, 1.0)


def _interpolant(log_values, shortest, longest):
    if log_values.size == 1:
        return lambda length: np.full(np.shape(length), log_values[0])
    series = chebyshev.chebfit(_CHEBYSHEV, log_values, _DEGREE)

    def evaluate(length):
        x = 2 * (np.log(length) - shortest) / (longest - shortest) - 1
        return np.minimum(chebyshev.chebval(np.clip(x, -1, 1), series), 0.0)

    return evaluate


def _logit_range(a: float, b: float) -> tuple[float, float]:
    """Return the interval outside which the density of the logit of Beta(a, b) is negligible."""
    mode = np.log(a / b)
    peak = xlogy(a, expit(mode)) + xlogy(b, expit(-mode))

    def drop(x):
        return peak + a * np.logaddexp(0, -x) + b * np.logaddexp(0, x) - _NEGLIGIBLE

    # The tails decrease like exp(a x) and exp(-b x).
    low = brentq(drop, mode - (_NEGLIGIBLE + 40) / a - 40, mode)
    high = brentq(drop, mode, mode + (_NEGLIGIBLE + 40) / b + 40)
    return float(low), float(high)
