"""Scores on private records that may be published: sums that every record adds one to.

A held-out record earns a value from 0 (the lowest score) to 1 (the highest), and adds it to the
*gain* and what is lacking to 1 to the *loss*. A record that is replaced moves at most 1 from one
to the other, one that is added adds 1 to their sum: a table of counts with two cells, which
Gaussian noise hides as it hides any other. Where scores are averaged by class, each class has two
cells of its own. All that is made of the noisy table is post-processing.

A record that cannot be scored earns 0: an error would tell that it is there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from .._messages import errors_without_data, format_exact, is_error, suppress_other_warnings, warn
from .._random import noise_generator
from .._sklearn_compat import take_records
from .._validation import check_choice, check_real
from ..base import PrivacyReport
from ..mechanisms import GaussianMechanism, calibrate
from ..mechanisms.sampling import check_platform
from ..records import as_labels as cell_labels
from ..records import as_table, label_codes, missing_cells, without_dictionaries

#: Values are rounded down to multiples of this, so that sums are exact.
GRID = 2.0**-20
#: Probabilities below this count as this in the log loss.
LEAST_PROBABILITY = 0.01

Values = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class PrivateScorer:
    """A score with its public range, so that one record's part in it is bounded.

    Made by `make_private_scorer`, or named: "accuracy", "balanced_accuracy", "neg_log_loss",
    "log_likelihood".

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` gives a value for each record; or, where `sensitivity` is
        given, one number.
    low, high : float
        The range of the values; what is outside is cut.
    sensitivity : float, default=None
        How far one record can move the number that the function gives.
    by_class : bool, default=False
        Whether the mean of each class counts the same, however rare the class.
    name : str, default="score"
        What it is called.

    Examples
    --------
    >>> from skdirdp.model_selection import PrivateScorer
    >>> PrivateScorer(lambda model, X, y: model.predict(X) == y, 0.0, 1.0).name
    'score'
    """

    function: Values
    low: float
    high: float
    sensitivity: float | None = None
    by_class: bool = False
    name: str = "score"

    def __post_init__(self):
        check_real("low", self.low)
        check_real("high", self.high, above=self.low)
        if self.sensitivity is not None:
            check_real("sensitivity", self.sensitivity, above=0)
            if self.by_class:
                raise ValueError("sensitivity must be None where scores are averaged by class")

    def table(self, estimator: Any, X: Any, y: Any, adjacency: str) -> np.ndarray:
        """Exact gains and losses, of all records or of each class.

        Parameters
        ----------
        estimator : fitted estimator
        X, y : array-like
            Held-out records.
        adjacency : {"replace", "add_remove"}

        Returns
        -------
        ndarray of shape (n_classes or 1, 2)
            Multiples of `GRID`. Neighbours' tables differ by at most 1 in both cells of
            one row, or in one cell each of two rows, or by one record's 1.
        """
        if self.sensitivity is not None:
            gain = math.floor((self._number(estimator, X, y) - self.low) / self._unit(adjacency))
            most = self._steps(adjacency)
            return np.array([[gain, most - gain]], dtype=float) * GRID
        values = _each_record(self.function, estimator, X, y)
        share = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        share = np.floor(np.where(np.isnan(share), 0.0, share) / GRID) * GRID
        if not self.by_class:
            return np.array([[share.sum(), (1 - share).sum()]])
        codes, n_classes = _codes(estimator, y), len(estimator.classes_)
        rows = [codes == code for code in range(n_classes)]  # no row has an unknown label
        return np.array([[share[row].sum(), (1 - share[row]).sum()] for row in rows])

    def _number(self, estimator: Any, X: Any, y: Any) -> float:
        try:
            labels = _labels_of_one_type(estimator, y, n_records=0)[1]
            number = float(self.function(estimator, as_table(X), labels))
        except Exception:
            number = np.nan
        return self.low if np.isnan(number) else min(max(number, self.low), self.high)

    def _unit(self, adjacency: str) -> float:
        """What a step of the grid stands for, of a number whose sensitivity is declared.

        Both cells move by the whole sensitivity: for Gaussian noise that is as far as two
        records' 1 if one is replaced, and has to be made as small as one record's otherwise.
        A step is left for rounding.
        """
        assert self.sensitivity is not None
        distance = self.sensitivity if adjacency == "replace" else self.sensitivity * math.sqrt(2)
        return distance / (1 / GRID - 2)

    def _steps(self, adjacency: str) -> int:
        """The range of a number whose sensitivity is declared, in steps of the grid."""
        steps = math.ceil((self.high - self.low) / self._unit(adjacency))
        if steps >= 2**50:
            raise ValueError(
                "sensitivity must be at least 2^-30 of the range from low to high; "
                f"got sensitivity={self.sensitivity}, low={self.low} and high={self.high}"
            )
        return steps

    def read(
        self,
        noisy: np.ndarray,
        *,
        sigma: float,
        n_records: int | None,
        adjacency: str,
        runs: float = 1.0,
        confidence: float = 0.95,
    ) -> "PrivateScore":
        """The score that a noisy table tells, with an interval for the exact one.

        Parameters
        ----------
        noisy : ndarray of shape (n_classes or 1, 2)
        sigma : float
            Deviation of the noise on each cell.
        n_records : int or None
            The public number of records; None where it is not public.
        adjacency : {"replace", "add_remove"}
        runs : float, default=1.0
            The expected number of tables of which this is the best.
        confidence : float, default=0.95

        Returns
        -------
        PrivateScore
        """
        unit = self.high - self.low
        doubt = (1 - confidence) / runs
        gain, loss = noisy.T
        if self.sensitivity is not None or (n_records is not None and not self.by_class):
            if self.sensitivity is not None:
                step = self._unit(adjacency) / GRID
                total = self._steps(adjacency) * GRID
            else:
                assert n_records is not None
                total, step = float(n_records), unit / max(n_records, 1)
            value = self.low + step * (total + float(gain[0] - loss[0])) / 2
            width = step * (_quantile(doubt / 2) * sigma / math.sqrt(2) + 2 * GRID)
            low, high = value - width, value + width
        else:
            # Each cell is within this of the exact one, all of them at once.
            width = _quantile(doubt / (2 * noisy.size)) * sigma + GRID * (sigma > 0)
            worst = _share(gain - width, loss + width, of_none=0.0 if sigma else 0.5)
            best = _share(gain + width, loss - width, of_none=1.0 if sigma else 0.5)
            value = self.low + unit * float(np.mean(_smooth_share(gain, loss, sigma)))
            low, high = (self.low + unit * float(np.mean(each)) for each in (worst, best))
        low, high = (min(max(each, self.low), self.high) for each in (low, high))
        return PrivateScore(min(max(value, low), high), low, high, confidence, self.name)

    def rank(self, noisy: np.ndarray, sigma: float) -> float:
        """What runs are compared by; the larger, the better."""
        gain, loss = noisy.T
        # The number of records is the same in all runs, so the difference tells most.
        return float(
            np.mean(_smooth_share(gain, loss, sigma)) if self.by_class else gain[0] - loss[0]
        )


@dataclass(frozen=True)
class PrivateScore:
    """A score that may be published.

    Parameters
    ----------
    value : float
        The score, with noise.
    low, high : float
        An interval that holds the exact score of these records; not that of other records.
    confidence : float
        The probability with which it does, at least.
    name : str
        What the score is called.
    privacy : PrivacyReport, default=None
        What was guaranteed, where the score was released by itself.

    Examples
    --------
    >>> from skdirdp.model_selection import PrivateScore
    >>> print(PrivateScore(0.8123, 0.8051, 0.8195, 0.95, "accuracy"))
    accuracy 0.8123, from 0.8051 to 0.8195 with confidence 0.95
    """

    value: float
    low: float
    high: float
    confidence: float
    name: str
    privacy: PrivacyReport | None = None

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return (
            f"{self.name} {self.value:.4f}, from {self.low:.4f} to {self.high:.4f} with "
            f"confidence {format_exact(self.confidence)}"
        )


def _quantile(tail: float) -> float:
    return float(-ndtri(min(max(tail, 1e-300), 0.5)))


def _share(gain: np.ndarray, loss: np.ndarray, of_none: float) -> np.ndarray:
    """gain / (gain + loss); what is negative is none."""
    gain, loss = np.maximum(gain, 0.0), np.maximum(loss, 0.0)
    total = gain + loss
    return np.divide(gain, total, out=np.full(gain.shape, of_none), where=total > 0)


def _smooth_share(gain: np.ndarray, loss: np.ndarray, sigma: float) -> np.ndarray:
    """The same of noisy numbers; where noise could be all of it, it is drawn to one half."""
    lacking = np.maximum(4 * sigma - (gain + loss), 0.0)
    return _share(gain + lacking / 2, loss + lacking / 2, of_none=0.5)


def _each_record(function: Values, estimator: Any, X: Any, y: Any) -> np.ndarray:
    """A value for each record, NaN for those that the function fails on."""
    n_records = len(y) if y is not None else X.shape[0] if hasattr(X, "shape") else len(X)
    values = np.full(n_records, np.nan)
    X = without_dictionaries(X)
    rows, y = _labels_of_one_type(estimator, y, n_records)
    waiting = _with_the_same_cells(X, rows)
    while waiting:
        part = waiting.pop()
        if part.size == 0:
            continue
        records = X if part.size == n_records else take_records(X, part)
        labels = None if y is None else y[part]
        try:
            found = np.asarray(function(estimator, as_table(records), labels), dtype=float)
        except BaseException as error:
            if not is_error(error):
                raise
            found = np.empty((0, 0))
        if found.ndim == 0:  # so it is for all records, and tells of none
            raise TypeError(
                "a scorer must give a value for each record; got one number, whose sensitivity has "
                "to be declared: make_private_scorer(..., sensitivity=...)"
            )
        if found.shape == part.shape:
            values[part] = found
        elif part.size > 1:
            waiting += np.array_split(part, 2)
    return values


def _with_the_same_cells(X: Any, rows: np.ndarray) -> list[np.ndarray]:
    """Parts of the rows, in each of which the same cells are missing.

    A step of another library turns a column of integers into floats where one record lacks a
    value. In a part, a column has a value in every record or in none.
    """
    missing = missing_cells(X)
    if missing is None:
        return [rows]
    _, part = np.unique(missing[rows], axis=0, return_inverse=True)
    order = np.argsort(part.ravel(), kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(part.ravel()))[:-1])


def _labels_of_one_type(estimator: Any, y: Any, n_records: int) -> tuple[np.ndarray, Any]:
    """The records that can be scored, and the labels of all in one type.

    Labels from a container without a dtype get that of the estimator's classes, or are numbers
    where it has no classes. A label that is neither cannot be scored, and becomes the last class
    or 0.
    """
    everywhere = np.arange(n_records)
    if y is None:
        return everywhere, None
    y = cell_labels(y)
    if y.dtype.kind != "O":
        return everywhere, y
    if hasattr(estimator, "classes_"):
        codes = _codes(estimator, y)
        return np.flatnonzero(codes >= 0), np.asarray(estimator.classes_)[codes]
    numbers = np.array([_float(label) for label in y])
    return np.flatnonzero(~np.isnan(numbers)), np.where(np.isnan(numbers), 0.0, numbers)


def _float(label: Any) -> float:
    try:
        return float(label)
    except Exception:
        return math.nan


def _codes(estimator: Any, labels: Any) -> np.ndarray:
    """The position of each label among the classes, and -1 for others."""
    return label_codes(cell_labels(labels), np.asarray(estimator.classes_))


def make_private_scorer(
    function: Values,
    *,
    low: float,
    high: float,
    sensitivity: float | None = None,
    name: str = "score",
) -> PrivateScorer:
    """A scorer of one's own, with its range and what one record can do to it.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)``. It gives a value for each record, which must follow
        from that record and the estimator alone; the score is their mean. With a
        `sensitivity` it gives one number instead.
    low, high : float
        The range; what is outside is cut, and what fails is `low`.
    sensitivity : float, default=None
        How far the number can move when one record is replaced, or added or removed. It is
        taken on trust: too small a number breaks the guarantee.
    name : str, default="score"
        What it is called.

    Returns
    -------
    PrivateScorer

    Examples
    --------
    The share of records that are predicted within one step of the truth:

    >>> import numpy as np
    >>> from skdirdp.model_selection import make_private_scorer
    >>> near = make_private_scorer(
    ...     lambda model, X, y: np.abs(model.predict(X) - y) <= 1, low=0, high=1
    ... )
    """
    return PrivateScorer(function, float(low), float(high), sensitivity, name=name)


def _correct(estimator: Any, X: Any, y: Any) -> np.ndarray:
    predicted = estimator.predict(X)
    if not hasattr(estimator, "classes_"):
        return np.asarray(predicted) == y
    codes = _codes(estimator, y)
    return (codes >= 0) & (codes == _codes(estimator, predicted))


def _log_probability(estimator: Any, X: Any, y: Any) -> np.ndarray:
    probabilities = np.asarray(estimator.predict_proba(X))
    codes = _codes(estimator, y)
    of_label = np.where(codes >= 0, probabilities[np.arange(len(codes)), codes], 0.0)
    return np.log(np.maximum(of_label, LEAST_PROBABILITY))


def _log_likelihood(estimator: Any, X: Any, y: Any) -> np.ndarray:
    return estimator.score_samples(X)


SCORERS = {
    "accuracy": PrivateScorer(_correct, 0.0, 1.0, name="accuracy"),
    "balanced_accuracy": PrivateScorer(_correct, 0.0, 1.0, by_class=True, name="balanced_accuracy"),
    "neg_log_loss": PrivateScorer(
        _log_probability, math.log(LEAST_PROBABILITY), 0.0, name="neg_log_loss"
    ),
    # The range follows from the estimator's states: see `scorer_of`.
    "log_likelihood": PrivateScorer(_log_likelihood, -1.0, 0.0, name="log_likelihood"),
}
_METHODS = {
    "accuracy": "predict",
    "balanced_accuracy": "predict",
    "neg_log_loss": "predict_proba",
    "log_likelihood": "score_samples",
}


def scorer_of(scoring: Any, estimator: Any, y: Any) -> PrivateScorer:
    """The scorer that is meant, for an estimator that need not be fitted.

    Parameters
    ----------
    scoring : None, str or PrivateScorer
        None for accuracy where there are labels, and the log-likelihood where there are none.
    estimator : estimator
    y : array-like or None

    Returns
    -------
    PrivateScorer
    """
    if isinstance(scoring, PrivateScorer):
        return scoring
    if callable(scoring):
        raise TypeError(
            "scoring must declare its range and sensitivity: wrap the function by "
            "make_private_scorer(function, low=..., high=...)"
        )
    if scoring is None:
        scoring = "log_likelihood" if y is None else "accuracy"
    check_choice("scoring", scoring, tuple(SCORERS))
    if not hasattr(estimator, _METHODS[scoring]):
        raise TypeError(
            f"scoring {scoring!r} needs an estimator with {_METHODS[scoring]}; "
            f"got a {type(estimator).__name__}"
        )
    if y is None and scoring != "log_likelihood":
        raise ValueError(f"scoring {scoring!r} needs labels; got y=None")
    return SCORERS[scoring]


def with_range(scorer: PrivateScorer, estimator: Any) -> PrivateScorer:
    """The scorer with its range, where that follows from public sizes of a fitted estimator.

    A log-likelihood is cut at twice that of the uniform distribution over all states.
    """
    if scorer is not SCORERS["log_likelihood"]:
        return scorer
    states = getattr(estimator, "states_", None)
    if states is None:
        raise TypeError(
            "scoring 'log_likelihood' takes its range from the states of a Bayesian network; "
            f"got a {type(estimator).__name__}. Declare one: make_private_scorer(lambda model, "
            "X, y: model.score_samples(X), low=..., high=...)"
        )
    sizes = [len(each) for each in (states.values() if isinstance(states, dict) else states)]
    return replace(scorer, low=-2 * math.fsum(math.log(size) for size in sizes if size) or -1.0)


def score_mechanism(**budget: Any) -> GaussianMechanism:
    """Gaussian noise on gains and losses, within a budget.

    Parameters
    ----------
    **budget
        epsilon, delta, order and adjacency, as for `skdirdp.mechanisms.calibrate`.

    Returns
    -------
    GaussianMechanism
    """
    found = calibrate("gaussian", min_smoothing=0.0, max_count=1.0, max_total=1.0, **budget)
    assert isinstance(found, GaussianMechanism)
    return found


def as_labels(y: Any) -> Any:
    """Labels as one column, as classifiers take them that are given an array of one column.

    Compared as they are with predictions, they would all be wrong.
    """
    labels = cell_labels(y)
    if getattr(labels, "ndim", 1) != 2 or labels.shape[1] != 1:
        return labels
    warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning)
    return labels.ravel()


def _check_columns(estimator: Any, X: Any) -> None:
    """Refuse records of which none can be scored, as that is no secret of any of them."""
    expected = getattr(estimator, "n_features_in_", None)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if expected is not None and len(shape) == 2 and shape[1] != expected:
        raise ValueError(
            f"X has {shape[1]} features, but {type(estimator).__name__} is expecting {expected} "
            "features as input"
        )


def private_score(
    estimator,
    X,
    y=None,
    *,
    scoring=None,
    epsilon=1.0,
    delta=1e-5,
    order=None,
    adjacency="replace",
    accountant=None,
    label=None,
    confidence=0.95,
    random_state=None,
) -> PrivateScore:
    """A score on private held-out records that may be published, with an interval.

    Parameters
    ----------
    estimator : fitted estimator
        It must be private, or not have seen these records.
    X : array-like of shape (n_samples, n_features)
        Records that it was not fitted to.
    y : array-like of shape (n_samples,), default=None
        Their labels.
    scoring : str or PrivateScorer, default=None
        "accuracy", "balanced_accuracy", "neg_log_loss" (probabilities below 0.01 count as
        that), "log_likelihood" (of a Bayesian network, cut at twice that of the uniform
        distribution), or one made by `make_private_scorer`. By default accuracy, or the
        log-likelihood where there is no `y`.
    epsilon : float, default=1.0
        The budget; infinite for no noise.
    delta : float, default=1e-5
        The score is (epsilon, delta)-differentially private.
    order : float, default=None
        Given, it is (order, epsilon)-RDP instead.
    adjacency : {"replace", "add_remove"}, default="replace"
        Under "replace" the number of records is public.
    accountant : PrivacyAccountant, default=None
        Charged before noise is drawn. A score of records that were fitted to, too, adds to
        what the fit cost.
    label : str, default=None
        What the accountant's history calls the score.
    confidence : float, default=0.95
        Of the interval.
    random_state : None, int, Generator or RandomState
        None draws cryptographically secure noise.

    Returns
    -------
    PrivateScore

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import private_score
    >>> X = np.random.default_rng(0).integers(3, size=(4000, 2))
    >>> y = X[:, 0] > 0
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    >>> score = private_score(model.fit(X[:3000], y[:3000]), X[3000:], y[3000:])
    >>> bool(score.low <= model.score(X[3000:], y[3000:]) <= score.high)
    True
    """
    epsilon = check_real("epsilon", epsilon, above=0, allow_infinite=True)
    confidence = check_real("confidence", confidence, above=0, below=1)
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)  # else no record could be scored, and all would count as lost
    scorer = with_range(scorer_of(scoring, estimator, y), estimator)
    mechanism = score_mechanism(epsilon=epsilon, delta=delta, order=order, adjacency=adjacency)
    with errors_without_data(X=X, y=y):
        X, y = indexable(X, as_labels(y))
        _check_columns(estimator, X)
        with suppress_other_warnings(math.isfinite(epsilon)):
            table = scorer.table(estimator, X, y, adjacency)
    mechanism.check_table(table, GRID)
    generator = None
    if not mechanism.is_exact:
        check_platform()
        generator = noise_generator(random_state)
    if accountant is not None:
        accountant.charge(mechanism, releases=1, label="private_score" if label is None else label)
    noisy = table if generator is None else mechanism.noisy(table, generator, GRID)
    public = round(float(table.sum())) if adjacency == "replace" else None
    found = scorer.read(
        noisy, sigma=mechanism.sigma, n_records=public, adjacency=adjacency, confidence=confidence
    )
    seed = ("random_state",) if random_state is not None and generator is not None else ()
    report = PrivacyReport(
        epsilon=epsilon,
        delta=None if order is not None else float(delta),
        order=None if order is None else float(order),
        adjacency=adjacency,
        mechanisms=((mechanism, 1),),
        not_covered=seed,
    )
    return replace(found, privacy=report)
