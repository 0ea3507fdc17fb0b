"""Private scores on held-out records, computed from noisy sums.

Each held-out record gets a value from 0 (the lowest score) to 1. A record that cannot be scored
gets 0, because an error would reveal it. The value is added to the *gain*, and 1 minus the value
to the *loss*. So gain and loss are a table of counts, to which each record adds 1. Scores that are
averaged by class have two cells for each class. Records without a label in the column that names
the labels are left out.
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

from .. import _messages, schema
from .._persons import RECORD, CountedRows, Unit, select_rows
from .._random import noise_generator
from .._sklearn_compat import take_records
from .._validation import check_choice, check_real
from ..base import Budget, PrivacyReport
from ..inference import NoisyTable, share
from ..mechanisms import GaussianMechanism
from ..mechanisms.calibration import calibrate_tables
from ..mechanisms.sampling import check_platform
from ..mechanisms.tables import ContributionBound, CountTable
from ..pipeline.inputs import collect, find_schema, labels_by_name, person_ids_from_schema

#: Values are rounded down to multiples of this, so that sums are exact.
GRID = 2.0**-20
#: Smaller probabilities are raised to this in the log loss.
LEAST_PROBABILITY = 0.01


@dataclass(frozen=True)
class PrivateScorer:
    """Score with a public range, made by `make_private_scorer`.

    Parameters
    ----------
    function, low, high, sensitivity, name
        As for `make_private_scorer`.
    by_class : bool, default=False
        Whether the score is the average of the means of the classes.

    Examples
    --------
    >>> from skdirdp.model_selection import PrivateScorer
    >>> PrivateScorer(lambda model, X, y: model.predict(X) == y, 0.0, 1.0).name
    'score'
    """

    function: Callable[[Any, Any, Any], Any]
    low: float
    high: float
    sensitivity: float | None = None
    by_class: bool = False
    name: str = "score"

    def __post_init__(self) -> None:
        check_real("low", self.low)
        check_real("high", self.high, above=self.low)
        if self.sensitivity is not None:
            check_real("sensitivity", self.sensitivity, above=0)
            if self.by_class:
                raise ValueError("sensitivity must be None if scores are averaged by class")

    def _step(self, adjacency: str) -> float:
        """Return the value of one step of the grid, if the sensitivity is declared."""
        # Both cells change by the whole sensitivity. For Gaussian noise this equals the distance
        # of one replaced record; for one added record it is scaled by the square root of 2. Two
        # steps are reserved for rounding.
        assert self.sensitivity is not None
        distance = self.sensitivity if adjacency == "replace" else self.sensitivity * math.sqrt(2)
        return distance / (1 / GRID - 2)

    def _n_steps(self, adjacency: str) -> int:
        """Return the range in steps of the grid, if the sensitivity is declared."""
        steps = math.ceil((self.high - self.low) / self._step(adjacency))
        if steps >= 2**50:
            raise ValueError(
                "sensitivity must be at least 2^-30 of the range from low to high; "
                f"got sensitivity={self.sensitivity}, low={self.low} and high={self.high}"
            )
        return steps


@dataclass(frozen=True)
class PrivateScore:
    """Score with noise, which can be published.

    Parameters
    ----------
    value : float
        Score, with noise.
    low, high, confidence : float
        Confidence interval of the score, and its level.
    name : str
        Name of the score.
    privacy : PrivacyReport, default=None
        Privacy guarantee, if the score was released by `private_score`.

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
        interval = f"from {self.low:.4f} to {self.high:.4f}"
        level = _messages.format_exact(self.confidence)
        return f"{self.name} {self.value:.4f}, {interval} with confidence {level}"


def score_table(scorer: PrivateScorer, model: Any, X: Any, y: Any, adjacency: str) -> np.ndarray:
    """Return exact gains and losses, of shape (n_classes or 1, 2), as multiples of `GRID`."""
    # If one record is replaced, both cells of one row change by at most 1, or one cell of each of
    # two rows. If one is added, the total changes by 1.
    is_name, y = isinstance(y, str), labels_by_name(model, X, y)
    if is_name and scorer.sensitivity is None:  # declared for the replacement of a record
        labelled = np.flatnonzero([label is not None for label in y])
        X, y = take_records(X, labelled), y[labelled]
    if scorer.sensitivity is not None:
        try:
            labels = _to_common_labels(model, y, n_records=0)[1]
            number = float(scorer.function(model, schema.as_table(X), labels))
        except Exception:
            number = np.nan
        number = scorer.low if np.isnan(number) else min(max(number, scorer.low), scorer.high)
        gain = math.floor((number - scorer.low) / scorer._step(adjacency))
        return np.array([[gain, scorer._n_steps(adjacency) - gain]], dtype=float) * GRID
    values = _score_records(scorer.function, model, X, y)
    share = (np.clip(values, scorer.low, scorer.high) - scorer.low) / (scorer.high - scorer.low)
    share = np.floor(np.where(np.isnan(share), 0.0, share) / GRID) * GRID
    if not scorer.by_class:
        return np.array([[share.sum(), (1 - share).sum()]])
    codes, n_classes = _codes(model, y), len(model.classes_)
    rows = [codes == code for code in range(n_classes)]  # unknown labels are in no row
    return np.array([[share[row].sum(), (1 - share[row]).sum()] for row in rows])


def estimate_score(
    scorer: PrivateScorer,
    noisy: np.ndarray,
    mechanism: GaussianMechanism,
    *,
    n_records: int | None,
    runs: float = 1.0,
    confidence: float = 0.95,
    population: bool = True,
) -> PrivateScore:
    """Estimate the score from the best of several noisy tables, with an interval."""
    # `n_records` is None if it is not public, and `runs` is the expected number of tables.
    tail = (1 - confidence) / runs
    if scorer.sensitivity is not None:
        step = scorer._step(mechanism.adjacency) / GRID
        difference = float(noisy[0, 0] - noisy[0, 1])
        value = scorer.low + step * (scorer._n_steps(mechanism.adjacency) * GRID + difference) / 2
        quantile = float(-ndtri(min(max(tail / 2, 1e-300), 0.5)))
        width = step * (quantile * mechanism.sigma / math.sqrt(2) + 2 * GRID)
        low, high = value - width, value + width
    else:
        # Among values from 0 to 1 with the same mean, 0 and 1 have the largest variance. So the
        # intervals of shares are conservative for other values.
        table = NoisyTable(noisy, mechanism, None if scorer.by_class else n_records, batch_dims=1)
        level = 1 - tail / len(noisy)  # the intervals of all classes hold simultaneously
        found = share(table, [True, False], confidence=level, population=population)
        gain, loss = noisy.T
        is_public = table.n_records is not None
        best = found.value if is_public else _shrunk_share(gain, loss, mechanism.sigma)
        value, low, high = (
            scorer.low + (scorer.high - scorer.low) * float(np.mean(each))
            for each in (best, found.low - 2 * GRID, found.high + 2 * GRID)
        )
    low, high = (min(max(each, scorer.low), scorer.high) for each in (low, high))
    return PrivateScore(min(max(value, low), high), low, high, confidence, scorer.name)


def rank_table(scorer: PrivateScorer, noisy: np.ndarray, sigma: float) -> float:
    """Return the number by which runs are compared; larger is better."""
    gain, loss = noisy.T
    if scorer.by_class:
        return float(np.mean(_shrunk_share(gain, loss, sigma)))
    # All runs have the same number of records, so the difference has the least noise.
    return float(gain[0] - loss[0])


def _shrunk_share(gain: np.ndarray, loss: np.ndarray, sigma: float) -> np.ndarray:
    """Return the share of the gain, shrunk to one half if the total is within the noise."""
    lacking = np.maximum(4 * sigma - (gain + loss), 0.0)
    gain, loss = np.maximum(gain + lacking / 2, 0.0), np.maximum(loss + lacking / 2, 0.0)
    total = gain + loss
    return np.divide(gain, total, out=np.full(gain.shape, 0.5), where=total > 0)


def _score_records(function: Callable, estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return a value for each record, NaN for records on which the function fails."""
    n_records = len(y) if y is not None else X.shape[0] if hasattr(X, "shape") else len(X)
    values = np.full(n_records, np.nan)
    X = schema.without_dictionaries(X)
    rows, y = _to_common_labels(estimator, y, n_records)
    waiting = _split_by_missing_cells(X, rows)
    while waiting:
        part = waiting.pop()
        if part.size == 0:
            continue
        records = X if part.size == n_records else take_records(X, part)
        labels = None if y is None else y[part]
        try:
            found = np.asarray(function(estimator, schema.as_table(records), labels), dtype=float)
        except BaseException as error:
            if not _messages.is_error(error):
                raise
            found = np.empty((0, 0))
        if found.ndim == 0 and part.size > 1:  # for any records, so this error reveals nothing
            raise TypeError(
                "a scorer must return a value for each record; got one number. Declare its "
                "sensitivity: make_private_scorer(..., sensitivity=...)"
            )
        if found.shape == part.shape or found.ndim == 0:  # a scalar for a single record
            values[part] = found
        elif part.size > 1:
            waiting += np.array_split(part, 2)
    return values


def _split_by_missing_cells(X: Any, rows: np.ndarray) -> list[np.ndarray]:
    # Other libraries convert a column of integers to floats if one value is missing.
    missing = schema.missing_cells(X)
    if missing is None:
        return [rows]
    _, part = np.unique(missing[rows], axis=0, return_inverse=True)
    order = np.argsort(part.ravel(), kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(part.ravel()))[:-1])


def _to_common_labels(estimator: Any, y: Any, n_records: int) -> tuple[np.ndarray, Any]:
    """Return the records that can be scored, and the labels of all records in one dtype."""
    # Labels of a container without a dtype get the dtype of the classes, or become floats if the
    # estimator has no classes. Invalid labels cannot be scored; they become the last class or 0.
    all_records = np.arange(n_records)
    if y is None:
        return all_records, None
    y = schema.as_labels(y)
    if y.dtype.kind != "O":
        return all_records, y
    if hasattr(estimator, "classes_"):
        codes = _codes(estimator, y)
        return np.flatnonzero(codes >= 0), np.asarray(estimator.classes_)[codes]
    numbers = schema.label_numbers(y)
    return np.flatnonzero(~np.isnan(numbers)), np.where(np.isnan(numbers), 0.0, numbers)


def _codes(estimator: Any, labels: Any) -> np.ndarray:
    """Return the position of each label among the classes, -1 for other labels."""
    return schema.label_codes(schema.as_labels(labels), np.asarray(estimator.classes_))


def make_private_scorer(
    function: Callable[[Any, Any, Any], Any],
    *,
    low: float,
    high: float,
    sensitivity: float | None = None,
    name: str = "score",
) -> PrivateScorer:
    """Make a scorer from a function, its range, and its sensitivity.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` returns a value for each record, which must depend only on
        that record and the estimator; the score is the mean. With a `sensitivity` it returns one
        number instead.
    low, high : float
        Range of the values. Other values are clipped, and failures count as `low`.
    sensitivity : float, default=None
        Largest change of the number when one record is replaced, or added or removed. It is not
        checked: too small a value breaks the guarantee.
    name : str, default="score"
        Name of the score.

    Examples
    --------
    The share of records that are predicted within 1 of the true value:

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
    # `set_range` sets the range from the states of the estimator.
    "log_likelihood": PrivateScorer(_log_likelihood, -1.0, 0.0, name="log_likelihood"),
}
_METHODS = {"neg_log_loss": "predict_proba", "log_likelihood": "score_samples"}


def get_scorer(scoring: Any, estimator: Any, y: Any) -> PrivateScorer:
    """Return the scorer of the parameter `scoring`; the estimator need not be fitted."""
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
    method = _METHODS.get(scoring, "predict")
    if not hasattr(estimator, method):
        kind = type(estimator).__name__
        raise TypeError(f"scoring {scoring!r} needs an estimator with {method}; got a {kind}")
    if y is None and scoring != "log_likelihood":
        raise ValueError(f"scoring {scoring!r} needs labels; got y=None")
    return SCORERS[scoring]


def set_range(scorer: PrivateScorer, estimator: Any) -> PrivateScorer:
    """Return the scorer with the range that follows from public sizes of a fitted estimator."""
    # A log-likelihood is clipped at twice that of the uniform distribution over all states.
    if scorer is not SCORERS["log_likelihood"]:
        return scorer
    states = getattr(estimator, "states_", None)
    if states is None:
        raise TypeError(
            "scoring 'log_likelihood' needs the states of a Bayesian network for its range; got a "
            f"{type(estimator).__name__}. Declare the range: make_private_scorer(lambda model, "
            "X, y: model.score_samples(X), low=..., high=...)"
        )
    sizes = [len(each) for each in (states.values() if isinstance(states, dict) else states)]
    return replace(scorer, low=-2 * math.fsum(math.log(size) for size in sizes if size) or -1.0)


def score_mechanism(unit: Unit = RECORD, **budget: Any) -> GaussianMechanism:
    """Return Gaussian noise for gains and losses, calibrated to a budget."""
    # A person with m scored records adds a vector with entries of at least 0 and total at most m,
    # so its norm is at most m. Two such vectors differ by at most m times the square root of 2. So
    # the noise for a person is m times that for a record (docs/theory.md, section 14).
    table = CountTable(1.0, 2, 1, ContributionBound(1.0, 1.0), min_smoothing=0.0)
    if unit.is_person:
        table = table.per_person(unit.max_rows)
    (found,) = calibrate_tables([table], mechanism="gaussian", calibration="exact", **budget)
    assert isinstance(found, GaussianMechanism)
    return found


def scored_persons(estimator: Any, X: Any, y: Any, scorer: PrivateScorer) -> CountedRows | None:
    """Return the records to score if the schema of an estimator names a person, else None."""
    found = person_ids_from_schema(estimator, X, y)
    if found is None:
        return None
    if scorer.sensitivity is not None:
        raise ValueError(
            "scoring must give a value for each record if the schema has a person: a declared "
            "sensitivity is for one record, and a person may have several"
        )
    ids, max_rows = found
    return select_rows(ids, len(ids), max_rows)


def as_label_vector(y: Any) -> Any:
    """Return labels as a vector; a single column is flattened, as classifiers do."""
    labels = schema.as_labels(y)
    if getattr(labels, "ndim", 1) != 2 or labels.shape[1] != 1:
        return labels
    text = "A column-vector y was passed when a 1d array was expected"
    _messages.warn(text, DataConversionWarning)
    return labels.ravel()


def _check_n_features(estimator: Any, X: Any) -> None:
    """Raise an error if X has a different number of columns than in fit, except with a schema."""
    expected = getattr(estimator, "n_features_in_", None)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if find_schema(estimator) is None and len(shape) == 2 and expected not in (None, shape[1]):
        raise ValueError(
            f"X has {shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input"
        )


def _release(
    mechanism: GaussianMechanism,
    table: np.ndarray,
    unit: Unit,
    accountant: Any,
    label: str,
    random_state: Any,
) -> np.ndarray:
    """Charge the accountant, and return gains and losses with noise."""
    mechanism.check_table(table, GRID)
    generator = None
    if not mechanism.is_exact:
        check_platform()
        generator = noise_generator(random_state)
    if accountant is not None:
        person = {"unit": unit} if unit.is_person else {}
        accountant.charge(mechanism, releases=1, label=label, **person)
    return table if generator is None else mechanism.noisy(table, generator, GRID)


def private_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    scoring: str | PrivateScorer | None = None,
    confidence: float = 0.95,
    population: bool = True,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    order: float | None = None,
    adjacency: str = "replace",
    accountant: Any = None,
    label: str | None = None,
    random_state: Any = None,
) -> PrivateScore:
    """Compute a private score of a fitted model on held-out records, with an interval.

    Parameters
    ----------
    estimator : fitted estimator
        It must be private, or not fitted to these records.
    X : array-like of shape (n_samples, n_features)
        Records that were not used for the fit.
    y : array-like of shape (n_samples,), or str, default=None
        Labels, or the name of their column if the model has a schema, or is a pipeline whose first
        step has one. Records without a label in that column are not scored. A label in an array
        that is not a class has the lowest score. If the schema has a `person`, the first `max_rows`
        records of each person are scored, and records without an id are not.
    scoring : str or PrivateScorer, default=None
        As for `PrivateGridSearchCV`. Probabilities below 0.01 are raised to it in the log loss.
        The log-likelihood is clipped at twice that of the uniform distribution.
    confidence : float, default=0.95
        Confidence level of the interval.
    population : bool, default=True
        Whether the interval is for the population that the records were drawn from, or for these
        records only. A score with a declared `sensitivity` has an interval for these records.
    epsilon, delta, order, adjacency, random_state
        As for `PrivateGridSearchCV`.
    accountant : PrivacyAccountant, default=None
        Accountant that is charged before noise is drawn.
    label : str, default=None
        Name of the score in the accountant's history. If None, "private_score".

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import private_score
    >>> X = np.random.default_rng(0).integers(3, size=(4000, 2))
    >>> y = X[:, 0] > 0
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    >>> score = private_score(model.fit(X[:3000], y[:3000]), X[3000:], y[3000:])
    >>> bool(0.95 < score.value <= score.high <= 1)  # all predictions are correct
    True
    """
    epsilon = check_real("epsilon", epsilon, above=0, allow_infinite=True)
    confidence = check_real("confidence", confidence, above=0, below=1)
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)  # otherwise all records would fail and count as lost
    scorer = set_range(get_scorer(scoring, estimator, y), estimator)
    X = collect(estimator, X, y)
    persons = scored_persons(estimator, X, y, scorer)
    unit = RECORD if persons is None else persons.unit
    budget = Budget(epsilon, delta, order, adjacency)
    mechanism = score_mechanism(unit, **budget._asdict())
    labels_by_name(estimator, X, y)  # raises an error for a name that is not a label
    with _messages.errors_without_data(X=X, y=y):
        X, y = (X, y) if isinstance(y, str) else indexable(X, as_label_vector(y))
        if persons is not None and persons.rows is not None:
            X, y = take_records(X, persons.rows), y if isinstance(y, str) else persons.take(y)
        _check_n_features(estimator, X)
        with _messages.suppress_external_warnings(math.isfinite(epsilon)):
            table = score_table(scorer, estimator, X, y, adjacency)
    name = "private_score" if label is None else label
    noisy = _release(mechanism, table, unit, accountant, name, random_state)
    is_public = adjacency == "replace" and persons is None and not isinstance(y, str)
    n_records = round(float(table.sum())) if is_public else None
    score = estimate_score(
        scorer,
        noisy,
        mechanism,
        n_records=n_records,
        confidence=confidence,
        population=population,
    )
    is_seeded = random_state is not None and not mechanism.is_exact
    not_covered = ("random_state",) if is_seeded else ()
    report = PrivacyReport(*budget.claimed(), ((mechanism, 1),), not_covered, unit)
    return replace(score, privacy=report)
