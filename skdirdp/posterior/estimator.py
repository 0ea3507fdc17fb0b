"""A whole Dirichlet posterior, released under differential privacy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._messages import errors_without_data, warn
from .._random import noise_generator
from .._validation import (
    check_accountant,
    check_choice,
    check_integer,
    check_labels,
    check_real,
    real_array,
)
from ..accounting import PureDP
from ..exceptions import PrivacyLeakWarning
from ..mechanisms import DirichletMechanism
from .hellinger import check_count_vector
from .mechanisms import MECHANISMS, draw_exponential, draw_laplace
from .report import posterior_privacy

# Beyond this a record would be lost in the rounding of the parameter it adds to.
_LARGEST_PRIOR = 1e12


class PrivateDirichletPosterior(BaseEstimator):
    """The posterior of a categorical distribution, released with epsilon-DP.

    The prior is ``Dir(prior)``, the posterior ``Dir(prior + counts)``, and what is
    released is a parameter vector near it. A record may be replaced by any other; the
    number of records is public.

    Parameters
    ----------
    prior : float or array-like of shape (n_categories,), default=1.0
        Positive. 1 is the uniform prior, 0.5 that of Jeffreys.
    n_categories : int, optional
        The data are codes 0, ..., n_categories - 1. Taken from `categories`, or from
        the length of `prior`, where that is given.
    categories : sequence, optional
        The labels that may occur, instead of codes. Without any of the three the
        labels are taken from the data, which leaks them, and a warning says so.
    mechanism : {"ehds", "ehd", "lshist", "lsdim", "lszhang", "ehdl"}, default="ehds"
        The exponential mechanism scored by Hellinger distance, with smooth ("ehds")
        or global ("ehd") sensitivity; Laplace noise scaled to the sensitivity of a
        histogram ("lshist"), or to more than that ("lsdim", "lszhang"). "ehdl" uses
        the local sensitivity and is **not private**; it is there to compare with.
    epsilon : float, default=1.0
        Infinite for the exact posterior.
    calibration : {"exact", "paper"}, default="exact"
        "paper" takes the exponent of "ehd" and "ehds" from the papers' proofs, which
        leaves a part of epsilon unused; "exact" raises it until none is left.
    gamma : float, default=1.0
        How fast the smooth sensitivity of "ehds" may change.
    accountant : PrivacyAccountant, optional
        Charged before noise is drawn.
    random_state : None, int, Generator or RandomState
        None draws cryptographically secure noise.

    Attributes
    ----------
    concentration_ : ndarray of shape (n_categories,)
        The parameters of the released posterior.
    mean_ : ndarray of shape (n_categories,)
        Its mean.
    privacy_ : PosteriorPrivacy
    categories_ : list
    n_categories_ : int
    n_samples_ : int

    Notes
    -----
    The exponential mechanisms choose among all posteriors of n records, of which there
    may be at most half a million: n = 499 999 for two categories, 998 for three, 142 for
    four. The loss of "ehd" and "ehds" is computed for all neighbours as long as they are
    few enough (for "ehds" and equal prior entries, n of about 2000, 70 and 25); past that
    the exponent rests on a bound, is smaller, and `privacy_` says "bounded". Laplace
    noise ("lshist") has no such limits, and its expected Hellinger distance is smaller
    for all but very small data sets.

    Examples
    --------
    >>> from skdirdp.posterior import PrivateDirichletPosterior
    >>> posterior = PrivateDirichletPosterior(n_categories=3).fit([0, 2, 1, 1, 2, 2])
    >>> float(posterior.concentration_.sum())
    9.0
    >>> posterior.credible_interval(0.9).shape
    (3, 2)
    >>> posterior.privacy_.epsilon, posterior.privacy_.calibration
    (1.0, 'exact')
    """

    def __init__(
        self,
        prior=1.0,
        *,
        n_categories=None,
        categories=None,
        mechanism="ehds",
        epsilon=1.0,
        calibration="exact",
        gamma=1.0,
        accountant=None,
        random_state=None,
    ):
        self.prior = prior
        self.n_categories = n_categories
        self.categories = categories
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.calibration = calibration
        self.gamma = gamma
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, x: Iterable, y: Any = None) -> "PrivateDirichletPosterior":
        """Release the posterior given the records.

        Parameters
        ----------
        x : array-like of shape (n_samples,) or (n_samples, 1)
            One label or code per record.
        y : ignored

        Returns
        -------
        self
        """
        self._check_settings()
        with errors_without_data(x=x):
            tally = Counter(_records(x))
        if not tally:
            raise ValueError("x must hold at least 1 record; got 0")
        categories = self._domain(tally)
        known = {category: position for position, category in enumerate(categories)}
        if not tally.keys() <= known.keys():
            wanted = (
                f"codes from 0 to {len(categories) - 1}"
                if self.categories is None
                else "labels among `categories`"
            )
            raise ValueError(f"x must hold {wanted}; some records are outside that domain")
        counts = np.zeros(len(categories), dtype=np.int64)
        for category, count in tally.items():
            counts[known[category]] = count
        leaks = ["categories"] if self._public_size() is None else []
        return self._release(counts, categories, leaks)

    def fit_counts(self, counts: ArrayLike) -> "PrivateDirichletPosterior":
        """Release the posterior given the number of records in each category.

        Parameters
        ----------
        counts : array-like of shape (n_categories,)
            Whole numbers. Their number is the size of the domain, if no parameter says.

        Returns
        -------
        self
        """
        self._check_settings()
        size = self._public_size()
        if size is None:
            shape = real_array("counts", counts).shape
            if len(shape) != 1 or shape[0] < 2:
                raise ValueError(f"counts must be a vector of at least 2 cells; got shape {shape}")
            size = shape[0]
        return self._release(check_count_vector(counts, size), self._labels(size), [])

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw distributions over the categories from the released posterior.

        This uses nothing but what was released: it costs no privacy, and a seed is safe.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int or Generator

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=1)
        return np.random.default_rng(random_state).dirichlet(self.concentration_, n_samples)

    def credible_interval(self, level: float = 0.95) -> np.ndarray:
        """Equal-tailed intervals for the probability of each category.

        They are those of the released posterior, and do not account for its noise.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        ndarray of shape (n_categories, 2)
        """
        check_is_fitted(self)
        level = check_real("level", level, above=0, below=1)
        others = self.concentration_.sum() - self.concentration_
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        return betaincinv(self.concentration_[:, np.newaxis], others[:, np.newaxis], tails)

    def _check_settings(self) -> None:
        check_choice("mechanism", self.mechanism, MECHANISMS)
        check_choice("calibration", self.calibration, ("exact", "paper"))
        check_real("epsilon", self.epsilon, above=0, allow_infinite=True)
        check_real("gamma", self.gamma, above=0)
        check_accountant(self.accountant)
        self._public_size()

    def _public_size(self) -> int | None:
        """The number of categories, if a parameter gives it."""
        sizes = {}
        if self.n_categories is not None:
            sizes["n_categories"] = check_integer("n_categories", self.n_categories, at_least=2)
        if self.categories is not None:
            sizes["categories"] = len(check_labels("categories", self.categories, at_least=2))
        try:
            prior = np.asarray(self.prior, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"prior must be a number or a vector; got {self.prior!r}") from None
        if prior.ndim > 1:
            raise ValueError(f"prior must be a number or a vector; got shape {prior.shape}")
        if not np.all((prior > 0) & (prior <= _LARGEST_PRIOR)):
            raise ValueError(
                f"prior must be greater than 0 and at most {_LARGEST_PRIOR:g}; got {self.prior!r}"
            )
        if prior.ndim == 1:
            sizes["prior"] = check_integer("the length of prior", prior.size, at_least=2)
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            raise ValueError(f"the number of categories must be the same everywhere; got {found}")
        return next(iter(sizes.values()), None)

    def _labels(self, size: int) -> list:
        return list(range(size)) if self.categories is None else list(self.categories)

    def _domain(self, tally: Counter) -> list:
        size = self._public_size()
        if size is not None:
            return self._labels(size)
        if any(label != label for label in tally):
            raise ValueError("x must hold no missing values, or `categories` be given")
        try:
            categories = sorted(tally)
        except TypeError:
            raise TypeError("x must hold labels of one kind, or `categories` be given") from None
        if len(categories) < 2:
            raise ValueError("categories must be given where x holds a single label")
        warn(
            "categories is taken from the data, which reveals which labels occur. "
            "Give `categories` or `n_categories`.",
            PrivacyLeakWarning,
        )
        return categories

    def _release(
        self, counts: np.ndarray, categories: list, leaks: list[str]
    ) -> "PrivateDirichletPosterior":
        prior = np.broadcast_to(np.asarray(self.prior, dtype=float), counts.shape)
        n_samples = int(counts.sum())
        privacy = posterior_privacy(
            self.mechanism,
            self.calibration,
            tuple(prior.tolist()),
            n_samples,
            float(self.epsilon),
            float(self.gamma),
        )
        if self.mechanism == "ehdl":
            warn(
                "mechanism='ehdl' is not private: its noise depends on the data. "
                "It is meant for comparison only.",
                PrivacyLeakWarning,
            )
        exact = np.isinf(self.epsilon)
        generator = None if exact else noise_generator(self.random_state)
        if self.accountant is not None:
            spent = (
                PureDP(float(self.epsilon))
                if privacy.is_private
                else DirichletMechanism(r=np.inf, alpha=np.inf)
            )
            self.accountant.charge(spent, releases=1, label=type(self).__name__)
        if generator is None:
            released = counts
        elif privacy.exponent is None:
            released = draw_laplace(self.mechanism, counts, self.epsilon, generator)
        else:
            released = draw_exponential(
                self.mechanism, counts, prior, privacy.exponent, float(self.gamma), generator
            )
        self.concentration_ = prior + released
        self.mean_ = self.concentration_ / self.concentration_.sum()
        seed = [] if self.random_state is None else ["random_state"]
        self.privacy_ = replace(privacy, not_covered=() if exact else (*leaks, *seed))
        self.categories_ = categories
        self.n_categories_ = len(categories)
        self.n_samples_ = n_samples
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = True
        tags.non_deterministic = True
        return tags


def _records(x: Any) -> list:
    """One plain, hashable value per record."""
    shape = np.shape(x)
    if len(shape) == 2 and shape[1] == 1:
        x = np.asarray(x).ravel()
    elif len(shape) != 1:
        raise ValueError(f"x must have shape (n_samples,) or (n_samples, 1); got {shape}")
    # tolist turns numpy scalars into Python's, which hash as labels do.
    return x.tolist() if hasattr(x, "tolist") else list(x)
