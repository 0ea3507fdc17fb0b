"""Privacy filters: what may be spent when each step is chosen after looking at the last.

An exact composition is a guarantee for steps that were fixed beforehand. A *filter* decides
about each step as it comes, so that whatever it lets through is private as a whole, whoever
chose the steps and by whatever they saw. Three kinds of budgets can be spent so without a
look at what was released (docs/theory.md, section 13):

- `Copies`: a number of releases of one and the same kind;
- `Pool`: dominating pairs, each as often as it is there, and a variance of Gaussian noise.
  The copies that are not used are filled up in the proof, so nothing is lost;
- `RenyiBudget`: a divergence of one Renyi order, from which everything can be paid.

A `PrivacyFilter` holds a pool for the kind that was released first, with nearly all of the
limit's delta, and a Renyi budget with the rest. What stays within one of the two is admitted,
and their deltas add up. Sums are exact fractions, so that every process decides alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ..numerics.conservative import safe_root
from .composition import MAX_RELEASES, PrivacyCurves
from .conversions import renyi_log_delta
from .pairs import Floats, GaussianPair
from .worst_case import WorstCase, combine

#: Kinds of releases, each with the number of them.
Counts = Mapping[PrivacyCurves, int]
#: How much of each thing, by name; a dominating pair is a name too.
Amounts = dict[Hashable, Fraction]
#: What is used of every budget of a filter.
Tally = tuple[Amounts, ...]

#: The name of what a budget has no capacity for.
OTHER = "other"

#: Of the releases that exact composition admits, if only the first kind is ever released: 95%,
#: and the part to which their number is found.
FIRST_KIND = Fraction(9501, 10_000)
# Of the rest of delta, for steps that may reveal everything with a small probability.
_FAILURES = 0.1
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 512)
# Of shares of delta and of budgets, downwards: far above the rounding of their few operations.
_ROUNDING = 1e-12
# No epsilon beyond so many limits is looked at, and those below are found to this part of it.
_MOST_LIMITS = 2.0**20
_FOUND = 1e-9
# A larger number of copies is found to this part of it.
_COPIES_FOUND = 2.0**-14
# Deltas this close are taken for the same: those of two routes that lead to one pair.
_SAME = 1e-6
_TOO_MUCH = Fraction(1 << 1100)


class Budget(ABC):
    """Something that can be spent adaptively, and the profile of all that it pays for.

    It has a capacity for each of several things, and a release takes something of each.
    What it has no capacity for goes by the name `OTHER`.
    """

    @property
    @abstractmethod
    def capacity(self) -> Amounts: ...

    @abstractmethod
    def uses(self, kind: PrivacyCurves) -> Amounts:
        """What one release takes."""

    @abstractmethod
    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of the delta of whatever fits into it, never too small."""

    def add(self, used: Amounts, kind: PrivacyCurves, number: int) -> Amounts:
        """What was used, and a number of releases more."""
        after = dict(used)
        for name, amount in self.uses(kind).items():
            after[name] = after.get(name, Fraction(0)) + number * amount
        return after

    def share_of(self, used: Amounts) -> Fraction:
        capacity = self.capacity
        shares = (_part(amount, capacity.get(name)) for name, amount in used.items())
        return max(shares, default=Fraction(0))

    def share(self, counts: Counts) -> Fraction:
        """The part of it that releases take; above 1 where they do not fit into it."""
        used: Amounts = {}
        for kind, number in counts.items():
            used = self.add(used, kind, number)
        return self.share_of(used)


@dataclass(frozen=True)
class Copies(Budget):
    """Releases of one kind, in one direction."""

    kind: PrivacyCurves
    direction: str
    number: int

    @cached_property
    def capacity(self) -> Amounts:
        return {self.kind: Fraction(self.number)}

    def uses(self, kind: PrivacyCurves) -> Amounts:
        return {kind if kind == self.kind else OTHER: Fraction(1)}

    def log_delta(self, epsilon: float) -> float:
        return _log_delta(combine([(_case(self.kind, self.direction), self.number)]), epsilon)


@dataclass(frozen=True)
class Pool(Budget):
    """Dominating pairs, each as often as it may be used, in one direction.

    Gaussian pairs are one variance, of which each takes ``mu**2``; failures are one
    exponential clock, of which each takes ``-log(1 - failure)``.
    """

    kind: PrivacyCurves
    direction: str
    number: int

    @cached_property
    def capacity(self) -> Amounts:
        each = _in_pairs(_case(self.kind, self.direction))
        return {name: self.number * amount for name, amount in each.items()}

    def uses(self, kind: PrivacyCurves) -> Amounts:
        uses = _in_pairs(_case(kind, self.direction))
        if any(amount and name not in self.capacity for name, amount in uses.items()):
            return {OTHER: Fraction(1)}
        return uses

    def log_delta(self, epsilon: float) -> float:
        # What the pairs alone imply, without what else is known of the kind.
        case = combine([(_case(self.kind, self.direction), self.number)])
        pairs = case.profile or ()
        return _log_delta(WorstCase(pairs, pairs, case.failure), epsilon)


@dataclass(frozen=True)
class RenyiBudget(Budget):
    """A Renyi divergence of one order, and a probability that everything is revealed."""

    direction: str
    order: float
    divergence: Fraction
    failure: Fraction

    @cached_property
    def capacity(self) -> Amounts:
        return {"divergence": self.divergence, "failure": self.failure}

    def uses(self, kind: PrivacyCurves) -> Amounts:
        case = _case(kind, self.direction)
        divergence = _divergence(case, self.order)
        if divergence is None:
            return {OTHER: Fraction(1)}
        return {"divergence": divergence, "failure": Fraction(case.failure)}

    def log_delta(self, epsilon: float) -> float:
        divergence = float(self.divergence) * (1 + _ROUNDING)
        log_delta = float(renyi_log_delta(self.order, divergence, epsilon)) + _ROUNDING
        if self.failure:
            log_delta = float(np.logaddexp(log_delta, np.log(float(self.failure)))) + _ROUNDING
        return min(log_delta, 0.0)


class PrivacyFilter:
    """Admits releases, one after the other, within (epsilon, delta) as a whole.

    Parameters
    ----------
    first : mechanism or guarantee
        The kind of the first release.
    releases : int
        How many of it are made at once.
    epsilon, delta : float
        The limit.

    Examples
    --------
    >>> from skdirdp.accounting import PureDP
    >>> from skdirdp.accounting.filters import PrivacyFilter
    >>> spending = PrivacyFilter(PureDP(0.5), 1, epsilon=2.0, delta=1e-5)
    >>> spending.admits({PureDP(0.5): 4}), spending.admits({PureDP(0.5): 5})
    (True, False)
    """

    def __init__(self, first: PrivacyCurves, releases: int, epsilon: float, delta: float):
        self.limit = (epsilon, delta)
        copies = _copies_within(first, releases, epsilon, delta)
        #: For each direction, budgets of which one must be kept to.
        self.budgets: dict[str, tuple[Budget, ...]] = {
            direction: _budgets(first, direction, releases, copies, epsilon, delta)
            for direction in first.worst_cases()
        }

    def nothing(self) -> Tally:
        """What is used before the first release, of every budget."""
        return tuple({} for budgets in self.budgets.values() for _ in budgets)

    def add(self, tally: Tally, kind: PrivacyCurves, number: int) -> Tally:
        """What is used after a number of releases more, or fewer."""
        every = [budget for budgets in self.budgets.values() for budget in budgets]
        pairs = zip(every, tally, strict=True)
        return tuple(budget.add(used, kind, number) for budget, used in pairs)

    def share_of(self, tally: Tally) -> Fraction:
        """The part of the limit that is used; above 1 if that is not admitted.

        Of the budget that the smaller part is used of, in the worse direction.
        """
        used = iter(tally)
        return max(
            min((budget.share_of(next(used)) for budget in budgets), default=_TOO_MUCH)
            for budgets in self.budgets.values()
        )

    def share(self, counts: Counts) -> Fraction:
        """The part of the limit that releases take up."""
        tally = self.nothing()
        for kind, number in counts.items():
            tally = self.add(tally, kind, number)
        return self.share_of(tally)

    def admits(self, counts: Counts) -> bool:
        """Whether all these releases may be made, in any order and however chosen."""
        return self.share(counts) <= 1

    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of the delta of whatever is ever admitted, at any epsilon."""
        return max(
            # Without a budget nothing is admitted, and nothing is promised.
            min(float(np.logaddexp.reduce([b.log_delta(epsilon) for b in budgets] or [0.0])), 0.0)
            for budgets in self.budgets.values()
        )

    def delta(self, epsilon: ArrayLike) -> Floats:
        """The delta that holds at each epsilon for whatever is ever admitted."""
        epsilon = np.asarray(epsilon, dtype=float)
        flat = [np.exp(self.log_delta(float(each))) for each in epsilon.ravel()]
        return np.array(flat).reshape(epsilon.shape)

    def epsilon(self, delta: float) -> float:
        """The epsilon that holds at delta for whatever is ever admitted."""
        target, limit = float(np.log(delta)), self.limit[0]

        def excess(epsilon: float) -> float:
            return max(self.log_delta(epsilon) - target, -1e3)

        highest = _MOST_LIMITS * limit
        if excess(highest) > 0:  # delta is below what is kept for failures
            return np.inf
        found = safe_root(
            excess, limit, -limit / 4, tolerance=_FOUND * limit, limits=(0.0, highest)
        )
        if delta >= self.limit[1]:
            # The search rounds up and may stop a hair above the limit, which holds.
            return min(float(found), limit)
        return float(found)


def _copies_within(kind: PrivacyCurves, releases: int, epsilon: float, delta: float) -> int:
    """How many releases of a kind exact composition admits, up to rounding down."""

    def fits(number: int) -> bool:
        cases = kind.worst_cases().values()
        deltas = [_log_delta(combine([(case, number)]), epsilon) for case in cases]
        return np.exp(max(deltas)) <= delta

    if not fits(releases):
        # A failure of delta itself is within the limit, but its logarithm is rounded up.
        whole = [_OneCase(combine([(case, releases)])) for case in kind.worst_cases().values()]
        return releases if all(case.epsilon(delta) <= epsilon for case in whole) else 0
    low = min(max(releases, _renyi_copies(kind, epsilon, delta)), MAX_RELEASES)
    if not fits(low):
        low = releases
    high = min(2 * low, MAX_RELEASES)
    while low < high and fits(high):
        low, high = high, min(2 * high, MAX_RELEASES)
    while high - low > 1 + int(_COPIES_FOUND * low):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _renyi_copies(kind: PrivacyCurves, epsilon: float, delta: float) -> int:
    """About how many the best Renyi order admits: where a search may well begin."""
    found = np.inf
    for case in kind.worst_cases().values():
        with np.errstate(all="ignore"):
            each = sum(count * curve.rdp(_ORDERS) for curve, count in case.renyi)
            number = np.nanmax(_renyi_room(epsilon, delta) / each)
        found = min(found, number) if case.failure == 0 else 0.0
    return int(min(max(found, 0.0), 2.0**62))


def _renyi_room(epsilon: float, delta: float) -> Floats:
    """The divergence of each order that is within a limit."""
    tilt = _ORDERS - 1
    cost = (np.log(delta) - tilt * np.log1p(-1 / _ORDERS) + np.log(_ORDERS)) / tilt
    return epsilon + cost - 4 * _ROUNDING * (epsilon + np.abs(cost))


def _budgets(
    kind: PrivacyCurves, direction: str, releases: int, copies: int, epsilon: float, delta: float
) -> tuple[Budget, ...]:
    if copies == 0:
        return ()
    # A whole number of the charges that the first one is, where they are few: none is lost.
    charges = copies // releases
    number = min(max(releases * _ceil(FIRST_KIND * charges), _ceil(FIRST_KIND * copies)), copies)
    main: Budget = Copies(kind, direction, number)
    used = np.exp(main.log_delta(epsilon))
    if _case(kind, direction).profile is not None:
        # The pool admits more, but has no use for a Renyi curve that is better than its pairs.
        pool = Pool(kind, direction, number)
        by_pairs = np.exp(pool.log_delta(epsilon))
        if by_pairs <= min(used * (1 + _SAME), delta):
            main, used = pool, by_pairs
    rest = (delta - used) * (1 - _ROUNDING)
    other = _renyi_budget(_case(kind, direction), releases, epsilon, rest) if rest > 0 else None
    if other is None:
        return (main,)
    return main, RenyiBudget(direction, *other)


def _renyi_budget(
    first: WorstCase, releases: int, epsilon: float, delta: float
) -> tuple[float, Fraction, Fraction] | None:
    """An order with its divergence, and a probability of failure, that delta pays for.

    The order is the one at which most Gaussian noise may follow the first releases.
    """
    spent = releases * first.failure
    failure = spent + _FAILURES * (delta - spent)
    if not spent < failure < delta:
        return None
    divergence = _renyi_room(epsilon, delta - failure)
    with np.errstate(all="ignore"):
        taken = sum(releases * count * curve.rdp(_ORDERS) for curve, count in first.renyi)
        room = (divergence - taken) / _ORDERS
    best = int(np.argmax(np.where(np.isfinite(room), room, -np.inf)))
    if not room[best] > 0:
        return None
    return float(_ORDERS[best]), Fraction(float(divergence[best])), Fraction(failure)


@lru_cache(maxsize=4096)
def _case(kind: PrivacyCurves, direction: str) -> WorstCase:
    return kind.worst_cases()[direction]


@lru_cache(maxsize=4096)
def _in_pairs(case: WorstCase) -> Amounts:
    """What a worst case takes from a pool."""
    if case.profile is None or case.failure == 1:
        return {OTHER: Fraction(1)}
    uses: Amounts = {"variance": Fraction(0), "failure": Fraction(-float(np.log1p(-case.failure)))}
    for pair, count in case.profile:
        if isinstance(pair, GaussianPair):
            uses["variance"] += count * Fraction(pair.mu) ** 2
        else:
            uses[pair] = uses.get(pair, Fraction(0)) + count
    return uses


@lru_cache(maxsize=4096)
def _divergence(case: WorstCase, order: float) -> Fraction | None:
    """None where it is infinite, or cannot be computed."""
    total = Fraction(0)
    for curve, count in case.renyi:
        with np.errstate(all="ignore"):
            each = float(curve.rdp(np.asarray(order)))
        if not np.isfinite(each):
            return None
        total += count * Fraction(max(each, 0.0))
    return total


class _OneCase(PrivacyCurves):
    """The curves of a worst case in one direction."""

    adjacency = ""

    def __init__(self, case: WorstCase):
        self._case = case

    def _worst_cases(self) -> dict[str, WorstCase]:
        return {"": self._case}


@lru_cache(maxsize=1024)
def _log_delta(case: WorstCase, epsilon: float) -> float:
    return float(_OneCase(case).log_delta(epsilon))


def _part(used: Fraction, available: Fraction | None) -> Fraction:
    if not used:
        return Fraction(0)
    return used / available if available else _TOO_MUCH


def _ceil(number: Fraction) -> int:
    return -int(-number // 1)
