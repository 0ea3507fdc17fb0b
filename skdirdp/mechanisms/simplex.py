"""Probability vectors, released through a Dirichlet distribution around them.

"The paper" here is "The Dirichlet Mechanism for Differential Privacy on the Unit
Simplex"; its letters k, W, eta, eta-bar, b, N and gamma are `k`, `protected`, `eta`,
`eta_bar`, `b`, `n_vectors` and `gamma`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln

from .._random import noise_generator
from .._validation import LARGEST, check_choice, check_integer, check_real, store_real
from ..accounting.composition import PrivacyCurves
from ..accounting.pairs import BetaPair
from ..accounting.worst_case import VECTORS, WorstCase, in_every_direction
from ..numerics.conservative import safe_root
from .dirichlet import DirichletMechanism, dirichlet_variance, draw_dirichlet
from .dirichlet_tail import probability_below
from .sampling import MAX_PLACES, check_platform

CLAIMS = ("exact", "paper", "union", "lemma5")
_SUM_TOLERANCE = 1e-9
# What rounding may take from an entry, or add to the sum of some, of a vector.
_ROUNDING = 2.0**-48
# Shapes of a release have at most this many bits.
_SHAPE_BITS = 61


@dataclass(frozen=True)
class SimplexMechanism(PrivacyCurves):
    """Release ``Y ~ Dirichlet(k p)`` for a probability vector p, or for a mean of several.

    Neighbours are two vectors that differ in two protected entries, by at most b in
    l1 norm; for a mean, one of its vectors is exchanged for such a neighbour. Protected
    entries are at least `eta` and leave at least `eta_bar` for the others; vectors
    outside these limits are refused. Proved in docs/theory.md, section 8.

    Parameters
    ----------
    k : float
        Concentration: the variance of an entry is ``p (1 - p) / (k + 1)``.
    protected : sequence of int
        The entries that are protected, at least two and not all. Changes of other
        entries are covered by no guarantee.
    eta, eta_bar : float in (0, 1)
    b : float in (0, 1], default=1.0
    n_vectors : int, default=1
        Vectors in the mean; 1 for a single vector.

    Notes
    -----
    The curves `rdp`, `delta` and `epsilon` are exact bounds by the lift of
    `DirichletMechanism` to gamma variables, with r = k b / (2 N) and alpha = k eta. The
    paper's own claims are available by name. The sum of two changed entries stays,
    so neither moves by more than b / 2.

    A data set is here the tuple of `n_vectors` vectors, and which tuples are neighbours
    depends on `protected`, `eta`, `eta_bar`, `b` and `n_vectors`, but not on `k`. So
    `adjacency` names the relation with these five numbers, and releases compose if their
    names are equal: all pairs then dominate the same neighbours, and their product
    dominates the releases together. Under different names there may be neighbours of
    one release that are none of the other, and no total covers them; likewise beside
    tables of counts, where a record is any other record's neighbour.

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
        store_real(self, "k", above=0, at_least=1 / LARGEST, at_most=LARGEST)
        protected = tuple(check_integer("protected", i, at_least=0) for i in self.protected)
        if len(set(protected)) != len(protected) or len(protected) < 2:
            raise ValueError(
                f"protected must be at least 2 distinct entries; got {self.protected!r}"
            )
        object.__setattr__(self, "protected", protected)
        store_real(self, "eta", above=0, at_least=1 / LARGEST, below=1)
        store_real(self, "eta_bar", above=0, below=1)
        if self._slack <= 0:
            raise ValueError(
                f"eta must be less than (1 - eta_bar) / {len(protected)}, or no vector is left; "
                f"got eta={self.eta}, eta_bar={self.eta_bar}"
            )
        store_real(self, "b", above=0)
        store_real(self, "b", at_most=1)
        n_vectors = check_integer("n_vectors", self.n_vectors, at_least=1, at_most=2**53)
        object.__setattr__(self, "n_vectors", n_vectors)

    @property
    def adjacency(self) -> str:
        """The relation between neighbours, with all the numbers it depends on."""
        return (
            f"{VECTORS}(protected={tuple(sorted(self.protected))}, eta={self.eta}, "
            f"eta_bar={self.eta_bar}, b={self.b}, n_vectors={self.n_vectors})"
        )

    @property
    def _slack(self) -> float:
        """How far a protected entry can be above eta."""
        return 1 - self.eta_bar - len(self.protected) * self.eta

    @property
    def _places(self) -> int:
        """Binary places of the shapes ``k p`` in a release."""
        return min(MAX_PLACES, _SHAPE_BITS - math.frexp(self.k)[1])

    @property
    def equivalent(self) -> DirichletMechanism:
        """The Dirichlet mechanism for counts that has the same worst case."""
        # Neighbours are made of floats, so their entries may differ by a little more, and
        # shapes are rounded up to a grid.
        change = min(self.b / 2, self._slack + _ROUNDING) / self.n_vectors + _ROUNDING
        change += 2.0**-self._places / self.k
        return DirichletMechanism(r=self.k * change, alpha=self.k * self.eta)

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        same = self.equivalent
        pairs = ((BetaPair(same.r, same.alpha), 1),)
        return in_every_direction(self.adjacency, WorstCase(renyi=pairs, profile=pairs))

    def paper_delta(self, gamma: float, *, union: bool = False) -> float:
        """Theorems 1 and 2: the delta that goes with ``paper_epsilon(gamma)``.

        The probability that some protected entry of the output is below gamma, for the
        worst vector.

        Parameters
        ----------
        gamma : float in (0, 1)
            The least value of protected entries outside the failure.
        union : bool, default=False
            The worst vector is a vertex of the allowed set if that probability is
            log-concave, which the paper argues for k eta and k eta_bar of at least 1, with
            a gap. True gives the union bound ``|W| I_gamma(k eta, k (1 - eta))``.

        Returns
        -------
        float
        """
        self._check_paper()
        gamma = check_real("gamma", gamma, above=0, below=1)
        return (_union_delta if union else _vertex_delta)(self._without_vectors(), gamma)

    def epsilon(self, delta: float, claim: str = "exact") -> float:
        """The epsilon at delta.

        Parameters
        ----------
        delta : float in (0, 1)
        claim : {"exact", "paper", "union", "lemma5"}, default="exact"
            "paper" is Theorem 1, or Theorem 2 for a mean, at the best gamma. (Theorem 2
            prints b / (2 n), n the dimension; its proof needs the number of vectors.)
            "union" is the same with the union bound on delta. "lemma5" puts the bounds
            of Lemma 5 for the beta functions, and is there to compare with.

        Returns
        -------
        float
        """
        check_choice("claim", claim, CLAIMS)
        if claim == "exact":
            return super().epsilon(delta)
        gamma = self.best_gamma(delta, union=claim == "union")
        return self.paper_epsilon(gamma, lemma5=claim == "lemma5")

    def paper_epsilon(self, gamma: float, *, lemma5: bool = False) -> float:
        """Theorems 1 and 2: the epsilon that goes with ``paper_delta(gamma)``.

        Parameters
        ----------
        gamma : float
            Positive, and less than 1 over the number of protected entries.
        lemma5 : bool, default=False
            Whether to put the bounds of Lemma 5 for the beta functions.

        Returns
        -------
        float
        """
        self._check_paper()
        gamma = check_real("gamma", gamma, above=0, below=1 / len(self.protected))
        change = self.b / (2 * self.n_vectors)
        a, rest = self.k * self.eta, self.k * (1 - self.eta_bar - self.eta)
        shift = self.k * change
        if rest <= shift:
            raise ValueError(
                "b / (2 n_vectors) must be less than 1 - eta_bar - eta for the paper's claim; "
                f"got {change}"
            )
        if lemma5:
            if min(a, rest) <= 1:
                raise ValueError(f"k * eta must be greater than 1 for Lemma 5; got {a}")
            upper = np.log(a + rest - 1) - np.log(2 * a - 1) - np.log(2 * rest - 1)
            log_ratio = upper - (2 - a - rest)
        else:
            log_ratio = betaln(a, rest) - betaln(a + shift, rest - shift)
        spread = np.log1p(-(len(self.protected) - 1) * gamma) - np.log(gamma)
        return float(log_ratio + shift * spread)

    def best_gamma(self, delta: float, *, union: bool = False) -> float:
        """The largest gamma, hence the least epsilon, at which the paper's delta is within delta.

        Problem (16), which asks for the least gamma; epsilon falls with gamma.

        Parameters
        ----------
        delta : float in (0, 1)
            The largest delta.
        union : bool, default=False
            Whether to take the union bound, as for `paper_delta`.

        Returns
        -------
        float
        """
        self._check_paper()
        delta = check_real("delta", delta, above=0, below=1)
        return _best_gamma(self._without_vectors(), delta, union)

    def claims(self, delta: float) -> dict[str, float]:
        """The epsilon at delta by each claim that applies, for the same noise.

        Parameters
        ----------
        delta : float in (0, 1)
            The probability that the loss may be larger.

        Returns
        -------
        dict of float
            By the name of the claim, as for `epsilon`.
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
        """Publish a probability vector.

        Parameters
        ----------
        p : array-like of shape (n,)
            It is divided by its sum, which is 1 but for rounding.
        random_state : None, int, Generator or RandomState
            None draws cryptographically secure noise.
        accountant : PrivacyAccountant, optional
            Charged for one release before any noise is drawn.
        label : str, optional

        Returns
        -------
        ndarray of shape (n,)
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
        """Publish the mean of probability vectors.

        Parameters
        ----------
        P : array-like of shape (n_vectors, n)
        random_state, accountant, label : as for `release`

        Returns
        -------
        ndarray of shape (n,)
        """
        P = self._check_vectors("P", P, ndim=2)
        if len(P) != self.n_vectors:
            raise ValueError(f"P must hold n_vectors={self.n_vectors} vectors; got {len(P)}")
        # Rounded once: roundings of every partial sum could carry a change further than one
        # vector's share of it.
        mean = np.array([math.fsum(column) / len(P) for column in P.T])
        return self._draw(mean, random_state, accountant, label)

    def variance(self, p: ArrayLike) -> np.ndarray:
        """The variance of each entry of the output: Proposition 1.

        Parameters
        ----------
        p : array-like of shape (n,)
            The vector released.

        Returns
        -------
        ndarray of shape (n,)
        """
        return dirichlet_variance(np.asarray(p, dtype=float), self.k)

    @staticmethod
    def k_for_variance(variance: float, p: ArrayLike | None = None) -> float:
        """The k at which no entry of the output has a larger variance than this.

        For entries p, (22) of the paper; without, (23), for the worst entry 1/2.

        Parameters
        ----------
        variance : float
            The largest variance.
        p : array-like, optional
            Entries of the vector.

        Returns
        -------
        float
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
        """The mechanism of largest k that is (epsilon, delta)-DP by the given claim.

        Parameters
        ----------
        epsilon, delta : float
            The budget of one release.
        protected, eta, eta_bar, b, n_vectors
            As for the mechanism.
        claim : {"exact", "paper", "union", "lemma5"}, default="exact"
            As for `epsilon`.

        Returns
        -------
        SimplexMechanism

        Examples
        --------
        >>> from skdirdp.mechanisms import SimplexMechanism
        >>> m = SimplexMechanism.calibrate(
        ...     epsilon=1.0, delta=1e-3, protected=(0, 1), eta=0.1, eta_bar=0.1, n_vectors=50
        ... )
        >>> round(m.k, 2), m.delta(1.0) <= 1e-3
        (69.2, True)
        """
        epsilon = check_real("epsilon", epsilon, above=0)
        delta = check_real("delta", delta, above=0, below=1)
        check_choice("claim", claim, CLAIMS)

        def at(log_k):
            return cls(float(np.exp(log_k)), tuple(protected), eta, eta_bar, b, n_vectors)

        if claim == "exact":
            low = -20.0

            def excess(log_k):
                return np.log(at(log_k).delta(epsilon) / delta)
        else:
            low = float(np.log(max(1 / eta, 1 / eta_bar)) + (1e-6 if claim == "lemma5" else 1e-12))

            def excess(log_k):
                return at(log_k).epsilon(delta, claim=claim) - epsilon

        if excess(low) > 0:
            raise ValueError(
                f"epsilon={epsilon} at delta={delta} is out of reach for every k: "
                "raise one of them, eta or n_vectors, or lower b"
            )
        # A hair below, so that epsilon, computed from delta, does not round past the budget.
        return at(safe_root(excess, low, 1.0, tolerance=1e-12, margin=1e-11))

    def _without_vectors(self) -> "SimplexMechanism":
        """The paper's delta does not depend on b or the number of vectors."""
        return SimplexMechanism(self.k, self.protected, self.eta, self.eta_bar)

    def _check_paper(self) -> None:
        for name, value in (("eta", self.eta), ("eta_bar", self.eta_bar)):
            if self.k * value < 1 - 1e-12:
                raise ValueError(
                    f"k * {name} must be at least 1 for the paper's claims, whose proof assumes "
                    f"it; got {self.k * value:g}. The exact curves need no such limit."
                )

    def _check_vectors(self, name: str, values: ArrayLike, ndim: int) -> np.ndarray:
        try:
            values = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be an array of numbers") from None
        if values.ndim != ndim or values.size == 0:
            raise ValueError(f"{name} must have {ndim} dimension(s); got shape {values.shape}")
        size = values.shape[-1]
        if max(self.protected) >= size or len(self.protected) >= size:
            raise ValueError(
                f"{name} must have entries beyond the protected {self.protected}; got {size}"
            )
        if not np.all(values > 0):
            raise ValueError(f"{name} must have positive entries only; some are not")
        total = values.sum(axis=-1, keepdims=True)
        if not np.all(np.abs(total - 1) <= _SUM_TOLERANCE):
            raise ValueError(f"{name} must sum to 1 along the last axis; it does not")
        # Neighbours have equal sums. What is released is therefore a vector whose sum
        # is 1, and not nearly so, with no protected entry below eta, not even by rounding.
        vectors = values / total
        protected = list(self.protected)
        chosen = vectors[..., protected]
        if np.any(chosen < self.eta - _ROUNDING):
            raise ValueError(f"{name} must have protected entries of at least eta={self.eta}")
        if np.any(chosen.sum(axis=-1) > 1 - self.eta_bar + _ROUNDING):
            raise ValueError(
                f"{name} must leave at least eta_bar={self.eta_bar} beside its protected entries"
            )
        vectors[..., protected] = np.maximum(chosen, self.eta)
        return vectors

    def _draw(self, p: np.ndarray, random_state, accountant, label) -> np.ndarray:
        if self._places < 0:
            raise ValueError(f"k must be less than 2^{_SHAPE_BITS} for a release; got {self.k}")
        check_platform()
        # Rounded up in exact arithmetic: no protected shape falls below k eta.
        unit = Fraction(self.k) * 2**self._places
        numerators = np.array([math.ceil(unit * Fraction(entry)) for entry in p.tolist()])
        generator = noise_generator(random_state)
        if accountant is not None:
            accountant.charge(self, releases=1, label=label)
        return draw_dirichlet(numerators[np.newaxis], self._places, generator)[0]


@lru_cache(maxsize=1024)
def _vertex_delta(mechanism: SimplexMechanism, gamma: float) -> float:
    """The larger of the two kinds of vertices: Lemmas 1 and 2.

    All protected entries are at eta, or one of them takes all that may be taken.
    """
    size, k = len(mechanism.protected), mechanism.k
    least = np.full(size, k * mechanism.eta)
    corner = least.copy()
    corner[-1] = k * (1 - mechanism.eta_bar - (size - 1) * mechanism.eta)
    return max(
        probability_below(least, k * (1 - size * mechanism.eta), gamma),
        probability_below(corner, k * mechanism.eta_bar, gamma),
    )


def _union_delta(mechanism: SimplexMechanism, gamma: float) -> float:
    # An entry is Beta(k p_i, k (1 - p_i)), and falls short most often at p_i = eta.
    k, eta = mechanism.k, mechanism.eta
    return min(len(mechanism.protected) * float(betainc(k * eta, k * (1 - eta), gamma)), 1.0)


@lru_cache(maxsize=256)
def _best_gamma(mechanism: SimplexMechanism, delta: float, union: bool) -> float:
    bound = _union_delta if union else _vertex_delta

    def excess(log_gamma):
        return np.log(max(bound(mechanism, float(np.exp(log_gamma))), 1e-300) / delta)

    high = -np.log(len(mechanism.protected)) - 1e-12
    if excess(high) <= 0:  # the bound does not reach delta below the largest gamma
        return float(np.exp(high))
    return float(np.exp(safe_root(excess, high, 1.0, tolerance=1e-13, limits=(-np.inf, high))))
