"""Estimator that releases a Dirichlet posterior, with Laplace noise or by `hellinger`.

Labels are compared by `==` and `hash`, as the keys of a dict. Error messages never show a label.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from numbers import Complex, Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import betaincinv
from sklearn.utils.validation import check_is_fitted

from .._docs import shared_docs
from .._messages import errors_without_data, warn
from .._persons import MAX_ROWS_LIMIT, CountedRows, Unit, select_rows
from .._random import NoiseGenerator
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import check_integer, check_real, check_real_array
from ..accounting import NoPrivacy, PureDP
from ..accounting.composition import PrivacyCurves
from ..accounting.worst_case import PERSON_RELATIONS
from ..base import PrivacyReport, PrivateEstimator
from ..exceptions import PrivacyLeakWarning
from ..mechanisms.sampling.distributions import floored_laplace_cells
from ..numerics.conservative import quotient_up
from ..schema import as_labels, list_cells, plain_values
from . import hellinger

LAPLACE = ("lszhang", "lsdim", "lshist")
# With a larger prior, rounding of the parameter would distort the contribution of one record.
_LARGEST_PRIOR = 1e12
# The largest scale that is drawn exactly, far above the number of records of any data set.
_LARGEST_SCALE = 2.0**50
# Upper bound on the relative error of a computed loss.
_LOSS_ROUNDING = 1e-8
_CALIBRATION_TEXTS = {
    "exact": "the largest loss of all was computed",
    "bounded": "by a proven bound",
    "paper": "as in the paper",
}


@dataclass(frozen=True, kw_only=True)
class PosteriorPrivacy(PrivacyReport):
    """Privacy report of a released posterior.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered, unit, n_records
        As in `skdirdp.PrivacyReport`. `epsilon` is infinite if the release is not private.
    name : str
        Name of the mechanism; also called `mechanism`.
    calibration : {"exact", "bounded", "paper", "none"}
        "exact": the largest log-ratio over all neighbours was computed and equals epsilon.
        "bounded": a bound shows that no log-ratio exceeds epsilon.
    loss : float or None
        Largest log-ratio over all neighbours and outcomes, if known.
    exponent : float or None
        Factor of distance over sensitivity in an exponential mechanism.

    Examples
    --------
    >>> from skdirdp import PrivateDirichletPosterior
    >>> posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
    >>> posterior.privacy_.epsilon, posterior.privacy_.delta
    (1.0, 0.0)
    """

    name: str
    calibration: str
    loss: float | None
    exponent: float | None = None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        return self.name

    @property
    def is_private(self) -> bool:
        """Whether the release is private; false for "ehdl" and for an infinite epsilon."""
        return bool(np.isfinite(self.epsilon))

    def __str__(self) -> str:
        if not self.is_private:
            return f"no privacy: mechanism {self.name!r} at this epsilon guarantees nothing"
        return super().__str__()

    def _describe_releases(self) -> str:
        return f"by mechanism {self.name!r}, {_CALIBRATION_TEXTS[self.calibration]}"


@shared_docs
class PrivateDirichletPosterior(PrivateEstimator):
    """Posterior of a categorical distribution, released with epsilon-DP.

    The prior is ``Dir(prior)`` and the posterior is ``Dir(prior + counts)``. A parameter vector
    close to that of the posterior is released. Neighbouring data sets differ by the replacement
    of one record; the number of records is public.

    Parameters
    ----------
    prior : float or array-like of shape (n_categories,), default=1.0
        Positive. 1 is the uniform prior, 0.5 the Jeffreys prior.
    n_categories : int, default=None
        The data are codes 0, ..., n_categories - 1. If None, the length of `categories` or of
        `prior`, if one of them is given.
    categories : sequence, default=None
        The labels that may occur, instead of codes. If neither `categories`, `n_categories`
        nor a vector `prior` is given, the labels are taken from the data. This leaks them, and
        a warning is raised.
    gamma : float, default=1.0
        Smoothness parameter of the smooth sensitivity of "ehds".
    {epsilon}
    mechanism : {"ehds", "ehd", "lshist", "lsdim", "lszhang", "ehdl"}, default="ehds"
        The exponential mechanism scored by Hellinger distance, with smooth ("ehds")
        or global ("ehd") sensitivity; Laplace noise scaled to the sensitivity of a
        histogram ("lshist"), or to a larger sensitivity ("lsdim", "lszhang"). "ehdl" uses
        the local sensitivity and is **not private**; it is meant for comparison only.
    calibration : {"exact", "paper"}, default="exact"
        "paper" takes the exponent of "ehd" and "ehds" from the papers' proofs, which
        leaves a part of epsilon unused. "exact" uses the largest exponent within epsilon.
    {max_rows, accountant, label, random_state}

    Attributes
    ----------
    concentration_ : ndarray of shape (n_categories,)
        The parameters of the released posterior.
    mean_ : ndarray of shape (n_categories,)
        The mean of the released posterior.
    privacy_ : PosteriorPrivacy
        Privacy guarantee of the fit.
    categories_ : list
        Labels of the categories, in the order of `concentration_`.
    n_categories_ : int
        Number of categories.
    n_samples_ : int
        Number of records.

    Notes
    -----
    The exponential mechanisms choose among all posteriors of n records, at most half a million: n =
    499 999 for two categories, 998 for three, 142 for four. If there are too many pairs of
    neighbours (for "ehds" and equal prior entries, from n of about 2000, 70 and 25), the exponent
    is based on a bound. Laplace noise ("lshist") has no such limits, and its expected Hellinger
    distance is smaller except for very small data sets. With `max_rows` above 1, people who replace
    each other are assumed to have equally many records.

    Examples
    --------
    >>> from skdirdp.posterior import PrivateDirichletPosterior
    >>> posterior = PrivateDirichletPosterior(n_categories=3).fit([0, 2, 1, 1, 2, 2])
    >>> float(posterior.concentration_.sum())
    9.0
    >>> posterior.privacy_.epsilon, posterior.privacy_.calibration
    (1.0, 'exact')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "n_categories": [None, Interval(Integral, 2, None, closed="left")],
        "categories": [None, "array-like"],
        "mechanism": [StrOptions({*LAPLACE, *hellinger.EXPONENTIAL})],
        "calibration": [StrOptions({"exact", "paper"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "max_rows": [Interval(Integral, 1, MAX_ROWS_LIMIT, closed="both")],
    }

    def __init__(
        self,
        prior: float | ArrayLike = 1.0,
        *,
        n_categories: int | None = None,
        categories: Sequence[Any] | None = None,
        gamma: float = 1.0,
        epsilon: float = 1.0,
        mechanism: str = "ehds",
        calibration: str = "exact",
        max_rows: int = 1,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.prior = prior
        self.n_categories = n_categories
        self.categories = categories
        self.gamma = gamma
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.calibration = calibration
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
            self._release(self._count(x, groups))
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
            self._release(self._check_counts(counts))
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw distributions over the categories from the released posterior.

        This has no privacy cost, and a fixed seed is safe.

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
        own = self.concentration_[:, np.newaxis]
        tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
        return betaincinv(own, own.sum() - own, tails)

    def _public_labels(self) -> list | None:
        """Return the categories if a parameter gives them or their number, else None."""
        prior = check_prior(self.prior)
        labels = None if self.categories is None else check_labels(self.categories)
        sizes = {
            "n_categories": None if self.n_categories is None else int(self.n_categories),
            "categories": None if labels is None else len(labels),
            "prior": prior.size if prior.ndim else None,
        }
        given = {name: size for name, size in sizes.items() if size is not None}
        if len(set(given.values())) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in given.items())
            raise ValueError(f"the number of categories must be the same everywhere; got {listed}")
        return list(range(max(given.values()))) if labels is None and given else labels

    def _select(self, groups: ArrayLike | None, n_rows: int) -> CountedRows:
        selection = select_rows(groups, n_rows, self.max_rows)
        if selection.unit.by_ids and selection.unit.max_rows > 1:
            raise ValueError(
                "max_rows must be 1 if groups are given: otherwise the number of records, "
                "which the posterior reveals, depends on how many records each person has"
            )
        return selection

    def _count(self, x: Any, groups: Any) -> "CategoryCounts":
        labels, leaks = self._public_labels(), []
        with errors_without_data(x=x):
            label_counts, unit = count_labels(x, lambda n_rows: self._select(groups, n_rows))
            if labels is None:
                labels, leaks = observed_labels(label_counts), ["categories"]
            codes = f"codes from 0 to {len(labels) - 1}"
            wanted = codes if self.categories is None else "labels among `categories`"
            counts = category_counts(label_counts, labels, wanted)
        return CategoryCounts(counts, labels, unit, leaks)

    def _check_counts(self, counts: ArrayLike) -> "CategoryCounts":
        labels = self._public_labels()
        if labels is None:
            shape = check_real_array("counts", counts).shape
            if len(shape) != 1 or shape[0] < 2:
                raise ValueError(f"counts must be a vector of at least 2 cells; got shape {shape}")
            labels = list(range(shape[0]))
        unit = select_rows(None, 0, self.max_rows).unit
        return CategoryCounts(hellinger.check_count_vector(counts, len(labels)), labels, unit, [])

    def _release(self, counted: "CategoryCounts") -> None:
        """Check and calibrate, charge the accountant, then draw noisy counts."""
        self._warn_of_leak(counted.leaks)
        if self.mechanism == "ehdl":
            reason = "its noise depends on the data, and it is meant for comparison only"
            warn(f"mechanism='ehdl' is not private: {reason}", PrivacyLeakWarning)
        plan = PosteriorPlan(self, counted)  # calibrates and checks; nothing is drawn
        ((guarantee, releases),) = plan.privacy.mechanisms
        released = plan.draw(self._charge(guarantee, releases, counted.unit))
        self.concentration_ = plan.prior + released
        self.mean_ = self.concentration_ / self.concentration_.sum()
        self.privacy_ = plan.privacy
        self.categories_ = counted.categories
        self.n_categories_ = len(self.categories_)
        self.n_samples_ = plan.n_samples

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = True
        tags.non_deterministic = True
        return tags


class CategoryCounts(NamedTuple):
    """Number of records in each category, with the unit of privacy and leaked parameters."""

    counts: np.ndarray
    categories: list
    unit: Unit
    leaks: list[str]


class PosteriorPlan:
    """Calibrated release of a posterior; nothing is drawn before `draw`."""

    def __init__(self, estimator: PrivateDirichletPosterior, counted: CategoryCounts):
        mechanism, unit, epsilon = estimator.mechanism, counted.unit, float(estimator.epsilon)
        # Convert to Python numbers: NumPy scalars round and overflow differently.
        self.n_samples, gamma = int(counted.counts.sum()), float(estimator.gamma)
        self.prior = np.broadcast_to(check_prior(estimator.prior), counted.counts.shape)
        self._counts, self._mechanism = counted.counts, mechanism
        # Divided by the number of records that a person replaces, rounded down.
        share = epsilon / unit.max_rows
        if np.isfinite(share) and Fraction(share) * unit.max_rows > Fraction(epsilon):
            share = math.nextafter(share, 0.0)
        self._epsilon = share
        sizes = mechanism, tuple(self.prior.tolist()), self.n_samples
        exact = estimator.calibration == "exact" and mechanism != "ehdl"
        method, scale, loss = _calibrate(*sizes, self._epsilon, gamma, exact)
        if scale is not None:
            lattice = hellinger.posterior_lattice(*sizes[1:])
            logs = hellinger.log_weights(mechanism, counted.counts, lattice, scale, gamma)
            self._candidates = lattice.counts, logs
        if mechanism == "ehdl":
            epsilon = np.inf
        adjacency = PERSON_RELATIONS["replace"] if unit.is_person else "replace"
        guarantee: PrivacyCurves | None = None
        if np.isinf(epsilon):
            guarantee = NoPrivacy(adjacency)
        elif loss is not None and scale is not None and unit.max_rows == 1:
            bound = min(epsilon, loss * (1 + _LOSS_ROUNDING))
            guarantee = hellinger.enumerated_profile(*sizes, scale, gamma, bound, adjacency)
        mechanisms = ((guarantee or PureDP(epsilon, adjacency), 1),)
        facts = (mechanisms, estimator._not_covered(counted.leaks), unit, self.n_samples)
        release: dict[str, Any] = {"name": mechanism, "calibration": method, "exponent": scale}
        release["loss"] = loss if unit.max_rows == 1 else None
        self.privacy = PosteriorPrivacy(epsilon, 0.0, None, "replace", *facts, **release)

    def draw(self, generator: NoiseGenerator | None) -> np.ndarray:
        """Draw noisy counts, after they were charged; the exact counts without a generator."""
        if generator is None:
            return self._counts
        if self.privacy.exponent is None:
            return draw_laplace(self._mechanism, self._counts, self._epsilon, generator)
        return hellinger.draw_candidate(*self._candidates, generator)


def _calibrate(
    mechanism: str, prior: tuple, n_samples: int, epsilon: float, gamma: float, exact: bool
) -> tuple[str, float | None, float | None]:
    """Return the calibration method, the exponent of an exponential mechanism, and the loss."""
    if np.isinf(epsilon):
        return "none", None, np.inf
    if mechanism in LAPLACE:
        # The number of cells that a replacement changes, over the scale.
        changed = 1 if len(prior) == 2 and mechanism != "lszhang" else 2
        return "paper", None, changed / laplace_scale(mechanism, len(prior), epsilon)
    hellinger.check_candidates(mechanism, n_samples, len(prior))
    choose = hellinger.exact_exponent if exact else hellinger.paper_exponent
    exponent = choose(mechanism, prior, n_samples, epsilon, gamma)
    return "paper" if not exact else "bounded" if exponent.loss is None else "exact", *exponent


def laplace_scale(mechanism: str, n_categories: int, epsilon: float) -> float:
    """Scale of the noise in a cell: Algorithms 1, 2 and 3."""
    sensitivity = {
        "lszhang": 2 * n_categories,
        "lsdim": n_categories,
        "lshist": 1 if n_categories == 2 else 2,
    }[mechanism]
    if not sensitivity / epsilon <= _LARGEST_SCALE:
        raise ValueError(
            f"epsilon must be at least {sensitivity / _LARGEST_SCALE:.3g} for {mechanism!r}: "
            f"noise of a larger scale is not supported; got {epsilon}"
        )
    # A smaller scale would have a loss slightly above epsilon.
    return quotient_up(sensitivity, epsilon)


def draw_laplace(mechanism: str, counts: np.ndarray, epsilon: float, generator: Any) -> np.ndarray:
    """Draw noisy counts, floored and clamped; they need not sum to the number of records."""
    n, k = int(counts.sum()), counts.size
    scale = laplace_scale(mechanism, k, epsilon)
    cells = k if mechanism == "lszhang" else k - 1
    noise = floored_laplace_cells(scale, 1.0, cells, generator)
    # Clip the noise first, so that the sum cannot overflow.
    released = np.clip(counts[:cells] + np.clip(noise, -n - 1, n + 1), 0, n)
    if cells == k:
        return released
    return np.append(released, np.clip(n - released.sum(), 0, n))


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
    if isinstance(categories, (Mapping, Set)):  # they have no order
        raise TypeError(f"categories must be a sequence; got a {type(categories).__name__}")
    if getattr(categories, "ndim", 1) != 1:
        raise ValueError(f"categories must be a vector of labels; got shape {np.shape(categories)}")
    labels = plain_values(list_cells(categories))
    if not 2 <= len(labels) == len(_count_distinct("categories", labels)):
        raise ValueError("categories must be at least 2 distinct labels")
    return labels


def count_labels(x: Any, select: Callable[[int], CountedRows]) -> tuple[Counter[Hashable], Unit]:
    """Count the selected records of each label, and return the unit of privacy."""
    _check_shape(x)
    labels = as_labels(x).ravel().tolist()
    if not labels:
        raise ValueError("x must contain at least 1 record; got 0")
    selection = select(len(labels))
    if selection.rows is not None:
        labels = [labels[row] for row in selection.rows]
    return _count_distinct("x", labels), selection.unit


def _check_shape(x: Any) -> None:
    """Raise an error unless x is a dense vector or a single column."""
    is_array = hasattr(x, "__len__") or hasattr(x, "__array__")
    if not is_array or sparse.issparse(x) or isinstance(x, (str, bytes, Mapping, Set)):
        kind = type(x).__name__
        raise TypeError(f"x must be a dense array or a list, with a label per record; got a {kind}")
    wanted = "x must have shape (n_samples,) or (n_samples, 1)"
    # An object array: a string array would reserve the longest length for every element.
    shape = x.shape if hasattr(x, "shape") else np.array(x, dtype=object).shape
    if len(shape) == 1 and isinstance(x, (list, tuple)):
        lengths = {len(row) for row in x if isinstance(row, (list, np.ndarray)) and np.ndim(row)}
        if lengths - {1}:
            raise ValueError(f"{wanted}; got rows of different lengths")
    if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise ValueError(f"{wanted}; got {shape}")


def observed_labels(label_counts: Counter[Hashable]) -> list[Hashable]:
    try:
        labels = sorted(label_counts)  # type: ignore[type-var]
    except TypeError:
        raise TypeError("x must contain labels of one type, or `categories` be given") from None
    if len(labels) < 2:
        raise ValueError("categories must be given if x contains a single label")
    return labels


def category_counts(label_counts: Counter[Hashable], categories: list, wanted: str) -> np.ndarray:
    if not label_counts.keys() <= set(categories):
        raise ValueError(f"x must contain {wanted}; some records are outside that domain")
    return np.array([label_counts[label] for label in categories], dtype=np.int64)


def _count_distinct(name: str, labels: Iterable) -> Counter[Hashable]:
    """Count distinct labels; raise an error for labels that cannot be compared."""
    try:
        label_counts = Counter(labels)
    except TypeError:
        raise TypeError(f"{name} must contain hashable labels, such as strings") from None
    if any(map(_is_missing, label_counts)):
        raise ValueError(f"{name} must not contain missing values; make 'missing' a category")
    if any(isinstance(label, Complex) and not isinstance(label, Real) for label in label_counts):
        raise TypeError(f"{name} must not contain complex numbers")
    return label_counts


def _is_missing(label: Any) -> bool:
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # the truth value of pandas.NA is undefined
        return True
