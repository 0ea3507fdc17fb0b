"""Audits of privacy claims by attacks on real runs (docs/theory.md, section 1.2).

An attack gives a score to every output. Half of the runs choose a threshold, the other half count
how often the score exceeds it on each of two neighbouring data sets. Clopper-Pearson limits of the
two rates bound epsilon from below, and are compared with the trade-off curve that is claimed. The
bound holds for every attack and threshold, but bad ones give a small bound.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import binom
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._messages import format_exact
from .._random import sampling_generator
from .._validation import check_integer, check_real, check_real_array
from ..accounting import ApproximateDP, Composition, PureDP
from ..accounting.attacks import AttackBounds
from ..base import CountingEstimator
from ..reporting.statements import rounded_down, rounded_up
from .releases import FitReleases, batch_scores, log_likelihood_ratio, observe_fit

# Thresholds that are compared on the first half of the runs.
_THRESHOLDS = 200
_MAX_EPSILON = 500.0


@dataclass(frozen=True)
class AuditResult:
    """Result of an audit.

    With probability at least `confidence` over the runs, all statements of one result hold, for
    every attack.

    Parameters
    ----------
    epsilon_lower : float
        Lower bound on the true epsilon at `delta`.
    delta : float
        The delta of the bound and of `epsilon`.
    epsilon : float
        The epsilon that is claimed at `delta`.
    confidence : float
        Probability that the bounds hold.
    violated : bool
        Whether the claim is refuted: the lower bound exceeds the claim, or an attack detects more
        than the claimed trade-off curve allows, which is sharper if delta is small.
    rates : tuple of (float, float, float) or None
        Upper limit of the attack's false-positive rate, lower limit of its true-positive rate,
        and the largest true-positive rate that the claim allows; None for an audit of one run.
    n_runs : int
        Number of runs on each data set, or of canaries in one run.
    method : str
        Kind of the audit.
    claim : AttackBounds
        The claim: a mechanism, a guarantee or a report.

    Examples
    --------
    >>> from skdirdp.audit import audit, predefined_case
    >>> result = audit(predefined_case("DirichletNB", epsilon=1.0), n_runs=2000, random_state=0)
    >>> result.violated
    False
    """

    epsilon_lower: float
    delta: float
    epsilon: float
    confidence: float
    violated: bool
    rates: tuple[float, float, float] | None
    n_runs: int
    method: str
    claim: AttackBounds

    @property
    def verdict(self) -> str:
        """The result in words."""
        return "the claim is wrong" if self.violated else "no violation was found"

    def __str__(self) -> str:
        delta = f"at delta {format_exact(self.delta)}"
        text = (
            f"{self.verdict} ({self.n_runs} {self.method}, confidence {100 * self.confidence:g}%): "
            f"epsilon {format_exact(self.epsilon)} {delta} is claimed."
        )
        if self.rates is not None:
            false, true, allowed = self.rates
            text += (
                f" An attack with at most {rounded_up(false)} false positives has at least "
                f"{rounded_down(true)} true positives, and the claim allows {rounded_up(allowed)}."
            )
        return f"{text} Epsilon is at least {rounded_down(self.epsilon_lower)} {delta}"

    __repr__ = __str__


def audit(
    run: Any,
    first: Any = None,
    second: Any = None,
    *,
    claim: Any = None,
    score: Callable[[Any], float] | None = None,
    n_runs: int = 4000,
    delta: float | None = None,
    confidence: float = 0.99,
    batch: bool = True,
    random_state: Any = None,
) -> AuditResult:
    """Bound the true epsilon of an estimator or a function from below, by many runs.

    Parameters
    ----------
    run : estimator, callable or Case
        An estimator is cloned and fitted to each data set. A callable is called with a data set
        and returns an output. A `predefined_case` contains the data sets too.
    first, second : tuple or object
        Two neighbouring data sets. A tuple has the arguments of `fit`.
    claim : float, tuple, mechanism, guarantee or report, default=None
        The claim: epsilon, (epsilon, delta), or an object with a trade-off curve, which is tested
        as a whole. If None, `privacy_` of a fit to the first data set.
    score : callable, default=None
        Number for each output, large where the first data set is likely. If None, the
        log-likelihood ratio of the released tables for estimators of this library that release
        tables of counts. Otherwise a linear score is learnt from the numbers in the outputs, or
        from the fitted attributes of an estimator.
    n_runs : int, default=4000
        Number of runs on each data set. Half of them choose the attack.
    delta : float in [0, 1), default=None
        The delta of the bound. If None, that of the claim, and 0 without one.
    confidence : float in (0, 1), default=0.99
        Probability that the result is right.
    batch : bool, default=True
        Whether to draw the releases of one fit many times, if `score` is None and the estimator
        releases tables of counts. This is faster than fitting, and leaves out only what happens
        after the release.
    random_state : None, int or Generator, default=None
        Seed of the audit, and of the noise if `batch`. A seed of an estimator is removed.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.audit import audit
    >>> noise = np.random.default_rng(0)
    >>> def wrong_scale(x):  # for epsilon 1 the scale must be 1
    ...     return np.sum(x) + noise.laplace(scale=0.5)
    >>> audit(wrong_scale, [1], [0], claim=1.0, random_state=0).violated
    True
    """
    if hasattr(run, "estimator"):  # a Case
        run, first, second, score = run.estimator, run.first, run.second, run.score
    n_runs = check_integer("n_runs", n_runs, at_least=20)
    confidence = check_real("confidence", confidence, above=0, below=1)
    data = [each if isinstance(each, tuple) else (each,) for each in (first, second)]
    is_estimator = hasattr(run, "fit")
    if is_estimator:
        run = _without_seed(run)
    if claim is None:
        if not is_estimator or not hasattr(fitted := clone(run).fit(*data[0]), "privacy_"):
            raise TypeError("claim must be given for a function or an estimator without privacy_")
        claim = fitted.privacy_
    claimed, default_delta = _parse_claim(claim)
    delta = default_delta if delta is None else check_real("delta", delta, at_least=0, below=1)
    scores = _run_scores(run, data, score, n_runs, batch, sampling_generator(random_state))
    return audit_scores(*scores, claim=claimed, delta=delta, confidence=confidence)


def audit_scores(
    first: ArrayLike,
    second: ArrayLike,
    *,
    claim: Any,
    delta: float | None = None,
    confidence: float = 0.99,
) -> AuditResult:
    """Bound the true epsilon from below by the scores of runs that were made elsewhere.

    Parameters
    ----------
    first, second : array-like of shape (n_runs,)
        Scores of independent runs on each of two neighbouring data sets.
    claim, delta, confidence
        As in `audit`.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.audit import audit_scores
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(2.0, size=2000), rng.normal(size=2000)
    >>> audit_scores(first, second, claim=(1.0, 1e-5)).violated
    True
    """
    confidence = check_real("confidence", confidence, above=0, below=1)
    claimed, default_delta = _parse_claim(claim)
    delta = default_delta if delta is None else check_real("delta", delta, at_least=0, below=1)
    scores = [check_real_array(name, each) for name, each in (("first", first), ("second", second))]
    n_runs = check_integer("n_runs", min(map(len, scores)), at_least=20)
    rates, lower, violated = _decide(scores, claimed, delta, 1 - confidence)
    epsilon = _epsilon_at(claimed, delta)
    violated = violated or lower > epsilon
    return AuditResult(
        lower, delta, epsilon, confidence, violated, rates, n_runs, "runs on each", claimed
    )


def audit_one_run(
    run: Callable[[np.ndarray], ArrayLike],
    n_canaries: int,
    *,
    claim: Any,
    n_guesses: int | None = None,
    delta: float | None = None,
    confidence: float = 0.99,
    random_state: Any = None,
) -> AuditResult:
    """Bound the true epsilon from below by one run with many canaries.

    Each canary is included or not by a fair coin, all independently. The attack guesses those of
    the largest scores as included and those of the smallest as not: Steinke, Nasr and Jagielski
    (2023), Theorem 5.2. For an audit of "replace", a canary that is not included is replaced by
    another record.

    Parameters
    ----------
    run : callable
        Called once with an array of truth values, which canaries to include. It returns a score
        for each canary, large where it seems to be included.
    n_canaries : int
        Number of canaries. Each is one record, or one person.
    claim : float, tuple, mechanism, guarantee or report
        As in `audit`. Only its epsilon at `delta` is tested.
    n_guesses : int, default=None
        Number of canaries that are guessed. If None, a tenth of them.
    delta, confidence, random_state
        As in `audit`; the seed is that of the coins.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.audit import audit_one_run
    >>> noise = np.random.default_rng(0)
    >>> audit_one_run(
    ...     lambda included: included + noise.laplace(scale=0.2, size=included.size),
    ...     1000, claim=1.0, random_state=0,
    ... ).violated
    True
    """
    n_canaries = check_integer("n_canaries", n_canaries, at_least=10)
    n_guesses = max(n_canaries // 10, 10) if n_guesses is None else n_guesses
    n_guesses = check_integer("n_guesses", n_guesses, at_least=2, at_most=n_canaries)
    confidence = check_real("confidence", confidence, above=0, below=1)
    claimed, default_delta = _parse_claim(claim)
    delta = default_delta if delta is None else check_real("delta", delta, at_least=0, below=1)
    included = sampling_generator(random_state).random(n_canaries) < 0.5
    scores = np.asarray(run(included.copy()), dtype=float)
    if scores.shape != included.shape:
        raise ValueError(f"run must return {n_canaries} scores; got shape {scores.shape}")
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[: n_guesses // 2], order[len(order) - (n_guesses - n_guesses // 2) :]
    right = int(np.sum(~included[lowest]) + np.sum(included[highest]))
    lower = _one_run_epsilon(n_canaries, n_guesses, right, delta, 1 - confidence)
    epsilon = _epsilon_at(claimed, delta)
    return AuditResult(
        lower, delta, epsilon, confidence, lower > epsilon, None, n_canaries, "canaries", claimed
    )


def _run_scores(
    run: Any,
    data: Sequence[tuple[Any, ...]],
    score: Callable[[Any], float] | None,
    n_runs: int,
    batch: bool,
    generator: np.random.Generator,
) -> list[np.ndarray]:
    """Return the scores of runs on each data set."""
    known: list[FitReleases] = []
    if score is None and isinstance(run, CountingEstimator):
        # An estimator that releases its tables one after the other refuses another context.
        with suppress(TypeError):
            known = [observe_fit(run, each) for each in data]
    if known:
        if batch:
            return [batch_scores(each, known, n_runs, generator) for each in known]
        return [
            np.array([log_likelihood_ratio(observe_fit(run, each), known) for _ in range(n_runs)])
            for each in data
        ]
    call = partial(_fit, run) if hasattr(run, "fit") else run
    outputs = [[call(*each) for _ in range(n_runs)] for each in data]
    if score is None:
        return _learnt_scores([np.array([*map(_numbers, each)]) for each in outputs])
    return [np.array([*map(float, map(score, several))]) for several in outputs]


def one_run_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Bound the probability of v right guesses of r, with m canaries, under (epsilon, delta)-DP."""
    chance = 1 / (1 + np.exp(-epsilon))
    tail = float(binom.sf(v - 1, r, chance))
    # P[v > B >= v - i] / i is largest for some i.
    below = np.cumsum(binom.pmf(v - np.arange(1, v + 1), r, chance))
    alpha = float(np.max(below / np.arange(1, v + 1), initial=0.0))
    return min(tail + 2 * alpha * m * delta, 1.0)


def _one_run_epsilon(m: int, r: int, v: int, delta: float, risk: float) -> float:
    """Return the largest epsilon that is refuted at a risk, 0 if none is."""

    def excess(epsilon: float) -> float:
        return one_run_p_value(m, r, v, epsilon, delta) - risk

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0 and high < _MAX_EPSILON:
        high *= 2
    if excess(high) < 0:
        return high
    return max(float(brentq(excess, 0.0, high, xtol=1e-9)) - 1e-8, 0.0)


def _parse_claim(claim: Any) -> tuple[AttackBounds, float]:
    """Return a claim as bounds on attacks, and its delta."""
    if isinstance(claim, AttackBounds):
        delta = getattr(claim, "delta", None)
        return claim, float(delta) if isinstance(delta, float) else 0.0
    epsilon, delta = claim if isinstance(claim, tuple) else (claim, 0.0)
    delta = check_real("delta", delta, at_least=0, below=1)
    if delta == 0:
        return PureDP(epsilon), 0.0
    return ApproximateDP(epsilon, delta), delta


def _epsilon_at(claim: Any, delta: float) -> float:
    """Return the epsilon that a claim implies at delta."""
    if claim.advantage() <= delta:
        return 0.0
    if hasattr(claim, "total"):  # an accountant
        return float(claim.total(delta)) if delta > 0 else np.inf
    if hasattr(claim, "composition"):
        if isinstance(claim.delta, float) and claim.delta == delta:
            return float(claim.epsilon)  # as stated, and not as computed from the mechanisms
        claim = claim.composition()
    curves: Any = Composition([(claim, 1)]) if hasattr(claim, "worst_cases") else claim
    if delta > 0:
        return float(curves.epsilon(delta))
    return float(curves.rdp(np.inf))


def _decide(
    scores: Sequence[np.ndarray], claim: AttackBounds, delta: float, risk: float
) -> tuple[tuple[float, float, float], float, bool]:
    """Return rates of the best attack, a lower bound on epsilon, and whether the claim fails."""
    chosen, counted = zip(*((each[::2], each[1::2]) for each in scores), strict=True)
    # A score that is larger on the second data set is used the other way round.
    sign = 1.0 if np.mean(_ranks(chosen[0], chosen[1])) >= 0.5 else -1.0
    chosen, counted = ([sign * each for each in several] for several in (chosen, counted))
    candidates = np.unique(np.quantile(np.concatenate(chosen), np.linspace(0, 1, _THRESHOLDS)))
    # Two thresholds with two rates each.
    limits = partial(_limits, risk=risk / 4)
    curve = claim.trade_off()
    tried = [limits(chosen, threshold) for threshold in candidates]
    shares = [[np.mean(each > threshold) for each in chosen] for threshold in candidates]
    # The excess over the claim, in units of the widths of the limits.
    excess = [
        (true - np.interp(false, *curve))
        / (true - low + np.interp(high, *curve) - np.interp(false, *curve))
        for (true, false), (high, low) in zip(shares, tried, strict=True)
    ]
    by_curve = int(np.argmax(excess))
    by_bound = int(np.argmax([_epsilon_bound(*each, delta) for each in tried]))
    false, true = limits(counted, candidates[by_curve])
    allowed = float(claim.true_positive_rate(false))
    lower = _epsilon_bound(*limits(counted, candidates[by_bound]), delta)
    lower = max(lower, _epsilon_bound(false, true, delta), 0.0)
    return (false, true, allowed), lower, true > allowed


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return, for each score of the first, the share of the second that is smaller."""
    ordered = np.sort(second)
    below, up_to = (np.searchsorted(ordered, first, side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(second))


def _limits(scores: Sequence[np.ndarray], threshold: float, risk: float) -> tuple[float, float]:
    """Return limits of the false-positive rate, from above, and the true-positive rate."""
    first, second = (int(np.sum(each > threshold)) for each in scores)
    n_first, n_second = map(len, scores)
    # Clopper and Pearson (1934).
    true = betaincinv(first, n_first - first + 1, risk) if first else 0.0
    false = 1.0
    if second < n_second:
        false = betaincinv(second + 1, n_second - second, 1 - risk)
    return float(false), float(true)


def _epsilon_bound(false: float, true: float, delta: float) -> float:
    """Return the smallest epsilon that allows two rates at delta."""
    with np.errstate(divide="ignore"):
        found = [
            np.log(max(true - delta, 0.0)) - np.log(false),
            np.log(max(1 - false - delta, 0.0)) - np.log(1 - true),
        ]
    return float(max(*found, 0.0))


def _without_seed(estimator: Any) -> Any:
    """Return a copy without a seed, which would repeat the noise, and without an accountant."""
    reset = {"random_state": None, "accountant": None}
    known = estimator.get_params(deep=False)
    return clone(estimator).set_params(**{name: None for name in reset if name in known})


def _fit(estimator: Any, *data: Any) -> Any:
    return clone(estimator).fit(*data)


def _numbers(output: Any) -> np.ndarray:
    """Return the numbers of an output: an array, or the fitted attributes of an estimator."""
    values = [output]
    if hasattr(output, "fit"):
        names = (name for name in sorted(vars(output)) if name.endswith("_") and name[0] != "_")
        values = [getattr(output, name) for name in names]
    found = []
    for value in values:
        try:
            found.append(np.ravel(np.asarray(value, dtype=float)))
        except (TypeError, ValueError):
            continue
    if not found:
        raise TypeError("score must be given: an output has no numbers to learn one from")
    return np.nan_to_num(np.concatenate(found), posinf=1e300, neginf=-1e300)


def _learnt_scores(outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return scores by a linear classifier, which is fitted to a quarter of the outputs."""
    train = [each[::4] for each in outputs]
    labels = np.repeat([1, 0], [len(each) for each in train])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(np.clip(np.concatenate(train), -1e150, 1e150), labels)
    return [model.decision_function(np.clip(each, -1e150, 1e150)) for each in outputs]
