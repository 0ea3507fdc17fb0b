"""Estimator that releases a Dirichlet posterior under differential privacy.

Labels are compared by `==` and `hash`, as the keys of a dict. Error messages never show a label.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from numbers import Complex, Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import betaincinv
from sklearn.utils.validation import check_is_fitted

from .._messages import errors_without_data, warn
from .._persons import MOST_ROWS, CountedRows, Unit, select_rows
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import check_integer, check_real, check_real_array
from ..base import PrivateEstimator
from ..exceptions import PrivacyLeakWarning
from ..records import as_labels, list_cells, plain_values
from .hellinger import check_count_vector
from .mechanisms import MECHANISMS, draw_candidate, draw_laplace, weigh_candidates
from .report import per_record_epsilon, posterior_privacy

# With a larger prior, rounding of the parameter would distort the contribution of one record.
_LARGEST_PRIOR = 1e12


class PrivateDirichletPosterior(PrivateEstimator):
    """Posterior of a categorical distribution, released with epsilon-DP.

    The prior is ``Dir(prior)`` and the posterior is ``Dir(prior + counts)``. A parameter vector
    close to that of the posterior is released. Neighbouring data sets differ by the replacement
    of one record; the number of records is public.

    Parameters
    ----------
    prior : float or array-like of shape (n_categories,), default=1.0
        Positive. 1 is the uniform prior, 0.5 the Jeffreys prior.
    n_categories : int, optional
        The data are codes 0, ..., n_categories - 1. By default, the length of `categories` or
        of `prior`, if one of them is given.
    categories : sequence, optional
        The labels that may occur, instead of codes. If neither `categories`, `n_categories`
        nor a vector `prior` is given, the labels are taken from the data. This leaks them, and
        a warning is raised.
    mechanism : {"ehds", "ehd", "lshist", "lsdim", "lszhang", "ehdl"}, default="ehds"
        The exponential mechanism scored by Hellinger distance, with smooth ("ehds")
        or global ("ehd") sensitivity; Laplace noise scaled to the sensitivity of a
        histogram ("lshist"), or to a larger sensitivity ("lsdim", "lszhang"). "ehdl" uses
        the local sensitivity and is **not private**; it is meant for comparison only.
    epsilon : float, default=1.0
        Infinite for the exact posterior.
    calibration : {"exact", "paper"}, default="exact"
        "paper" takes the exponent of "ehd" and "ehds" from the papers' proofs, which
        leaves a part of epsilon unused. "exact" uses the largest exponent within epsilon.
    gamma : float, default=1.0
        Smoothness parameter of the smooth sensitivity of "ehds".
    max_rows : int, default=1
        A public bound on the number of records per person. All records of a person are
        protected together. The number of records is public, so a value above 1 declares that
        persons who replace each other have equally many records.
    accountant : PrivacyAccountant, optional
        Charged before noise is drawn.
    label : str, optional
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState
        None draws cryptographically secure noise.

    Attributes
    ----------
    concentration_ : ndarray of shape (n_categories,)
        The parameters of the released posterior.
    mean_ : ndarray of shape (n_categories,)
        The mean of the released posterior.
    privacy_ : PosteriorPrivacy
    categories_ : list
    n_categories_ : int
    n_samples_ : int

    Notes
    -----
    The exponential mechanisms choose among all posteriors of n records, at most half a
    million: n = 499 999 for two categories, 998 for three, 142 for four. The loss of "ehd" and
    "ehds" is computed for all pairs of neighbours if there are few enough (for "ehds" and equal
    prior entries, up to n of about 2000, 70 and 25). Otherwise the exponent is smaller and
    based on a bound, and ``privacy_.calibration`` is "bounded". Laplace noise ("lshist") has no
    such limits, and its expected Hellinger distance is smaller except for very small data sets.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "n_categories": [None, Interval(Integral, 2, None, closed="left")],
        "categories": [None, "array-like"],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "calibration": [StrOptions({"exact", "paper"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "max_rows": [Interval(Integral, 1, MOST_ROWS, closed="both")],
    }

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
        max_rows=1,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.prior = prior
        self.n_categories = n_categories
        self.categories = categories
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.calibration = calibration
        self.gamma = gamma
        self.max_rows = max_rows
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, x: ArrayLike, y: Any = None, groups: ArrayLike | None = None
    ) -> "PrivateDirichletPosterior":
        """Release the posterior given the records.

        Parameters
        ----------
        x : array-like of shape (n_samples,) or (n_samples, 1)
            One label or code per record.
        y : ignored
        groups : array-like of shape (n_samples,), default=None
            The person of each record, as integers or strings. Only the first record of each
            person is counted. Not allowed with `max_rows` above 1, because the number of
            records would reveal how many records a person has.

        Returns
        -------
        self
        """
        with self._fitting():
            labels, leaks = self._public_labels(), []
            with errors_without_data(x=x):
                label_counts, unit = count_labels(x, lambda n_rows: self._select(groups, n_rows))
                if labels is None:
                    labels, leaks = observed_labels(label_counts), ["categories"]
                wanted = f"codes from 0 to {len(labels) - 1}"
                if self.categories is not None:
                    wanted = "labels among `categories`"
                counts = category_counts(label_counts, labels, wanted)
            self._release(counts, labels, leaks, unit)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, counts: ArrayLike) -> "PrivateDirichletPosterior":
        """Release the posterior given the number of records in each category.

        Parameters
        ----------
        counts : array-like of shape (n_categories,)
            Integers. If no parameter gives the number of categories, it is their length.

        Returns
        -------
        self
        """
        with self._fitting():
            labels = self._public_labels()
            if labels is None:
                shape = check_real_array("counts", counts).shape
                if len(shape) != 1 or shape[0] < 2:
                    raise ValueError(
                        f"counts must be a vector of at least 2 cells; got shape {shape}"
                    )
                labels = list(range(shape[0]))
            unit = select_rows(None, 0, self.max_rows).unit
            self._release(check_count_vector(counts, len(labels)), labels, [], unit)
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw distributions over the categories from the released posterior.

        This is post-processing of the released posterior. It has no privacy cost, and a fixed
        seed is safe.

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

    def credible_interval(self, confidence: float = 0.95) -> np.ndarray:
        """Equal-tailed intervals for the probability of each category.

        The intervals of the released posterior do not account for the noise of the release.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            The probability of each interval.

        Returns
        -------
        ndarray of shape (n_categories, 2)
        """
        check_is_fitted(self)
        confidence = check_real("confidence", confidence, above=0, below=1)
        others = self.concentration_.sum() - self.concentration_
        tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
        return betaincinv(self.concentration_[:, np.newaxis], others[:, np.newaxis], tails)

    def _public_labels(self) -> list | None:
        """Return the categories if a parameter gives them or their number, else None."""
        prior = check_prior(self.prior)
        labels = None if self.categories is None else check_labels(self.categories)
        size = common_size(
            n_categories=None if self.n_categories is None else int(self.n_categories),
            categories=None if labels is None else len(labels),
            prior=prior.size if prior.ndim else None,
        )
        return list(range(size)) if labels is None and size is not None else labels

    def _select(self, groups: ArrayLike | None, n_rows: int) -> CountedRows:
        selection = select_rows(groups, n_rows, self.max_rows)
        if selection.unit.by_ids and selection.unit.max_rows > 1:
            raise ValueError(
                "max_rows must be 1 if groups are given: otherwise the number of records, "
                "which the posterior reveals, depends on how many records each person has"
            )
        return selection

    def _release(
        self, counts: np.ndarray, categories: list, leaks: Sequence[str], unit: Unit
    ) -> None:
        self._warn_of_leak(leaks)
        if self.mechanism == "ehdl":
            warn(
                "mechanism='ehdl' is not private: its noise depends on the data. "
                "It is meant for comparison only.",
                PrivacyLeakWarning,
            )
        # Convert to Python numbers: NumPy scalars round and overflow differently.
        epsilon, gamma, n_samples = float(self.epsilon), float(self.gamma), int(counts.sum())
        prior = np.broadcast_to(check_prior(self.prior), counts.shape)
        privacy = posterior_privacy(
            self.mechanism,
            self.calibration,
            tuple(prior.tolist()),
            n_samples,
            epsilon,
            gamma,
            self._not_covered(leaks),
            unit,
        )
        exponent = privacy.exponent
        if exponent is not None:
            candidates = weigh_candidates(self.mechanism, counts, prior, exponent, gamma)
        ((guarantee, releases),) = privacy.mechanisms
        generator = self._charge(guarantee, releases, unit)
        if generator is None:
            released = counts
        elif exponent is None:
            share = per_record_epsilon(epsilon, unit)
            released = draw_laplace(self.mechanism, counts, share, generator)
        else:
            released = draw_candidate(*candidates, generator)
        self.concentration_ = prior + released
        self.mean_ = self.concentration_ / self.concentration_.sum()
        self.privacy_ = privacy
        self.categories_ = categories
        self.n_categories_ = len(categories)
        self.n_samples_ = n_samples

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = True
        tags.non_deterministic = True
        return tags


def check_prior(prior: Any) -> np.ndarray:
    """Return the prior as a float array with no axis or one axis."""
    try:
        values = np.asarray(prior)
        if values.dtype.kind not in "iufO":
            raise TypeError
        values = values.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"prior must be a number or a vector of numbers; got {prior!r}") from None
    if values.ndim > 1 or values.size < 1 + values.ndim:
        raise ValueError(
            f"prior must be a number, or a vector of length at least 2; got shape {values.shape}"
        )
    if not np.all((values > 0) & (values <= _LARGEST_PRIOR)):
        raise ValueError(
            f"prior must be greater than 0 and at most {_LARGEST_PRIOR:g}; got {prior!r}"
        )
    return values


def check_labels(categories: Any) -> list[Hashable]:
    """Return the labels that may occur, in the given order."""
    if isinstance(categories, (Mapping, Set)):
        # The released parameters have the order of the categories, and a set has no order.
        raise TypeError(
            f"categories must be a sequence; got an object of type {type(categories).__name__}"
        )
    if getattr(categories, "ndim", 1) != 1:
        raise ValueError(f"categories must be a vector of labels; got shape {np.shape(categories)}")
    labels = plain_values(list_cells(categories))
    distinct = _count_distinct("categories", labels)
    if len(distinct) != len(labels) or len(labels) < 2:
        raise ValueError("categories must be at least 2 distinct labels")
    return labels


def common_size(**sizes: int | None) -> int | None:
    """Return the number of categories given by the parameters, or None if none gives it."""
    given = {name: size for name, size in sizes.items() if size is not None}
    if len(set(given.values())) > 1:
        found = ", ".join(f"{name}: {size}" for name, size in given.items())
        raise ValueError(f"the number of categories must be the same everywhere; got {found}")
    return next(iter(given.values()), None)


def count_labels(x: Any, select: Callable[[int], CountedRows]) -> tuple[Counter[Hashable], Unit]:
    """Count the selected records of each label, and return the unit of privacy."""
    is_array = hasattr(x, "__len__") or hasattr(x, "__array__")
    if not is_array or sparse.issparse(x) or isinstance(x, (str, bytes, Mapping, Set)):
        raise TypeError(
            "x must be a dense array or a list, with a label per record; got an object of type "
            f"{type(x).__name__}"
        )
    wanted = "x must have shape (n_samples,) or (n_samples, 1)"
    # An object array: a string array would reserve the longest length for every element.
    shape = x.shape if hasattr(x, "shape") else np.array(x, dtype=object).shape
    if len(shape) == 1 and isinstance(x, (list, tuple)):
        lengths = {len(row) for row in x if isinstance(row, (list, np.ndarray)) and np.ndim(row)}
        if lengths - {1}:
            raise ValueError(f"{wanted}; got rows of different lengths")
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise ValueError(f"{wanted}; got {shape}")
    labels = as_labels(x).ravel().tolist()
    if not labels:
        raise ValueError("x must contain at least 1 record; got 0")
    selection = select(len(labels))
    if selection.rows is not None:
        labels = [labels[row] for row in selection.rows]
    return _count_distinct("x", labels), selection.unit


def observed_labels(label_counts: Counter[Hashable]) -> list[Hashable]:
    """Return the labels that occur in the data, sorted."""
    try:
        labels = sorted(label_counts)  # type: ignore[type-var]
    except TypeError:
        raise TypeError("x must contain labels of one type, or `categories` be given") from None
    if len(labels) < 2:
        raise ValueError("categories must be given if x contains a single label")
    return labels


def category_counts(label_counts: Counter[Hashable], categories: list, wanted: str) -> np.ndarray:
    """Return the number of records in each category."""
    position = {category: i for i, category in enumerate(categories)}
    if not label_counts.keys() <= position.keys():
        raise ValueError(f"x must contain {wanted}; some records are outside that domain")
    counts = np.zeros(len(categories), dtype=np.int64)
    for label, count in label_counts.items():
        counts[position[label]] = count
    return counts


def _count_distinct(name: str, labels: Iterable) -> Counter[Hashable]:
    """Count distinct labels; raise an error for labels that cannot be compared."""
    try:
        label_counts = Counter(labels)
    except TypeError:
        raise TypeError(
            f"{name} must contain hashable labels, such as numbers and strings"
        ) from None
    if any(_is_missing(label) for label in label_counts):
        raise ValueError(f"{name} must not contain missing values; make 'missing' a category")
    if any(isinstance(label, Complex) and not isinstance(label, Real) for label in label_counts):
        raise TypeError(f"{name} must not contain complex numbers")
    return label_counts


def _is_missing(label: Any) -> bool:
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # the truth value of pandas.NA is undefined
        return True
