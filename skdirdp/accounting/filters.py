"""Privacy filters: limits for releases that are chosen after seeing earlier results.

All admitted releases together are private, even if each is chosen after seeing the results of
earlier ones (docs/theory.md, section 13). A filter has a budget for the kind of the first release,
with most of the delta of the limit, and a Renyi budget with the rest. Sums are exact fractions, so
every process decides in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import chain
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from ..numerics.conservative import safe_root
from .attacks import AttackBounds, Profile, both_directions
from .composition import MAX_RELEASES, PrivacyCurves, direction_curves
from .pairs import Floats, GaussianPair, map_values
from .worst_case import WorstCase, combine, renyi_log_delta

#: Number of releases of each kind.
Counts = Mapping[PrivacyCurves, int]
#: Amounts by resource; a dominating pair is a resource too.
Amounts = dict[Hashable, Fraction]
#: Used amounts of every budget of a filter.
Usage = tuple[Amounts, ...]

#: The resource for which a budget has no capacity.
OTHER = "other"
#: Share of the releases of the first kind that exact composition admits: 95% and a tolerance.
FIRST_KIND_SHARE = Fraction(9501, 10_000)
# Share of the remaining delta for releases that may reveal everything.
_FAILURE_SHARE = 0.1
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 512)
# Relative amount by which shares of delta and budgets are rounded down.
_ROUNDING = 1e-12
_MAX_EPSILON_FACTOR, _EPSILON_TOLERANCE = 2.0**20, 1e-9  # multiples of the limit
_COPIES_TOLERANCE = 2.0**-14  # relative tolerance of the number of copies
_SAME_DELTA = 1e-6  # relative difference up to which the deltas of two methods count as equal
_EXCEEDED = Fraction(1 << 1100)


class Budget(ABC):
    """Budget that can be used adaptively; a release uses some of the capacity of each resource."""

    @property
    @abstractmethod
    def capacity(self) -> Amounts: ...

    @abstractmethod
    def uses(self, kind: PrivacyCurves) -> Amounts:
        """Amounts used by one release; `OTHER` for resources without capacity."""

    @abstractmethod
    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of the delta of all releases within the budget, rounded up."""

    def add(self, used: Amounts, kind: PrivacyCurves, number: int) -> Amounts:
        """Return the used amounts after a number of further releases."""
        after = dict(used)
        for name, amount in self.uses(kind).items():
            after[name] = after.get(name, Fraction(0)) + number * amount
        return after

    def share_of(self, used: Amounts) -> Fraction:
        """Share of the budget that is used; above 1 if it is exceeded."""
        needed = ((amount, self.capacity.get(name)) for name, amount in used.items() if amount)
        shares = (amount / available if available else _EXCEEDED for amount, available in needed)
        return max(shares, default=Fraction(0))


@dataclass(frozen=True)
class Copies(Budget):
    """Budget of a number of releases of one kind, in one direction."""

    kind: PrivacyCurves
    direction: str
    number: int

    @cached_property
    def capacity(self) -> Amounts:
        return {self.kind: Fraction(self.number)}

    def uses(self, kind: PrivacyCurves) -> Amounts:
        return {kind if kind == self.kind else OTHER: Fraction(1)}

    def log_delta(self, epsilon: float) -> float:
        return _log_delta(self._combined(), epsilon)

    def _combined(self) -> WorstCase:
        return combine([(_case(self.kind, self.direction), self.number)])


@dataclass(frozen=True)
class Pool(Copies):
    """Budget of dominating pairs with their multiplicities, in one direction.

    Gaussian pairs share a variance, of which each uses ``mu**2``. Failures share the rate of an
    exponential clock, of which each uses ``-log(1 - failure)``.
    """

    @cached_property
    def capacity(self) -> Amounts:
        amounts = _pair_amounts(_case(self.kind, self.direction))
        return {name: self.number * amount for name, amount in amounts.items()}

    def uses(self, kind: PrivacyCurves) -> Amounts:
        uses = _pair_amounts(_case(kind, self.direction))
        if any(amount and name not in self.capacity for name, amount in uses.items()):
            return {OTHER: Fraction(1)}
        return uses

    def log_delta(self, epsilon: float) -> float:
        # The bound implied by the pairs alone, without the Renyi curve of the kind.
        case = self._combined()
        pairs = case.profile or ()
        return _log_delta(WorstCase(pairs, pairs, case.failure), epsilon)


@dataclass(frozen=True)
class RenyiBudget(Budget):
    """Budget of a Renyi divergence of one order and of a failure probability."""

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


class PrivacyFilter(AttackBounds):
    """Filter that admits releases while all of them together are (epsilon, delta)-DP.

    It is created for the kind of the first release, and the number of releases in its charge.
    """

    def __init__(self, first: PrivacyCurves, releases: int, epsilon: float, delta: float):
        self.limit = (epsilon, delta)
        copies = _copies_within(first, releases, epsilon, delta)
        # Budgets by direction; releases must stay within one of them.
        self.budgets: dict[str, tuple[Budget, ...]] = {
            direction: _budgets(first, direction, releases, copies, epsilon, delta)
            for direction in first.worst_cases()
        }

    def nothing(self) -> Usage:
        return tuple({} for budgets in self.budgets.values() for _ in budgets)

    def add(self, usage: Usage, kind: PrivacyCurves, number: int) -> Usage:
        """Return the usage after a number of releases is added, or removed if negative."""
        pairs = zip(chain.from_iterable(self.budgets.values()), usage, strict=True)
        return tuple(budget.add(used, kind, number) for budget, used in pairs)

    def share_of(self, usage: Usage) -> Fraction:
        """Smallest share over the budgets in the worst direction; above 1 if not admitted."""
        used = iter(usage)
        return max(
            min((budget.share_of(next(used)) for budget in budgets), default=_EXCEEDED)
            for budgets in self.budgets.values()
        )

    def room(self, usage: Usage) -> dict[str, Fraction]:
        """Share of each resource that is left in the worst direction; pairs count as "copies".

        A release that uses a resource without room is not admitted. Others may be.
        """
        used = iter(usage)
        rooms: list[dict[str, Fraction]] = []
        for budgets in self.budgets.values():
            left: dict[str, Fraction] = {}
            for budget in budgets:
                amounts = next(used)
                if budget.share_of(amounts) > 1:
                    continue
                for name, capacity in budget.capacity.items():
                    rest = 1 - amounts.get(name, Fraction(0)) / capacity if capacity else 0
                    label = name if isinstance(name, str) else "copies"
                    left[label] = max(left.get(label, Fraction(0)), Fraction(rest))
            rooms.append(left)
        return {name: min(left.get(name, Fraction(0)) for left in rooms) for name in rooms[0]}

    def share(self, counts: Counts) -> Fraction:
        usage = self.nothing()
        for kind, number in counts.items():
            usage = self.add(usage, kind, number)
        return self.share_of(usage)

    def admits(self, counts: Counts) -> bool:
        """Whether all these releases are admitted, in any order and chosen adaptively."""
        return self.share(counts) <= 1

    def log_delta(self, epsilon: float) -> float:
        """Natural logarithm of the delta at epsilon of all releases ever admitted."""
        return max(_sum_of_deltas(budgets, epsilon) for budgets in self.budgets.values())

    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        # The deltas of the budgets of a direction add up at every epsilon (docs/theory.md, 13.4).
        sums = (partial(_sum_of_deltas, budgets) for budgets in self.budgets.values())
        return both_directions([partial(map_values, log_delta) for log_delta in sums])

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Delta at each epsilon of all releases ever admitted."""
        epsilon = np.asarray(epsilon, dtype=float)
        return map_values(lambda x: np.exp(self.log_delta(x)), epsilon)

    def epsilon(self, delta: float) -> float:
        """Epsilon at delta of all releases ever admitted."""
        target, limit = float(np.log(delta)), self.limit[0]

        def excess(epsilon: float) -> float:
            return max(self.log_delta(epsilon) - target, -1e3)

        highest = _MAX_EPSILON_FACTOR * limit
        if excess(highest) > 0:  # delta is below the share reserved for failures
            return np.inf
        tolerance = _EPSILON_TOLERANCE * limit
        root = safe_root(excess, limit, -limit / 4, tolerance=tolerance, limits=(0.0, highest))
        # The search rounds up and may stop slightly above the limit, which holds.
        return min(root, limit) if delta >= self.limit[1] else root


def _sum_of_deltas(budgets: Sequence[Budget], epsilon: float) -> float:
    """Natural logarithm of the sum of the deltas of budgets."""
    # Without a budget nothing is admitted, and the bound is trivial.
    log_deltas = [budget.log_delta(epsilon) for budget in budgets] or [0.0]
    return min(float(np.logaddexp.reduce(log_deltas)), 0.0)


def _copies_within(kind: PrivacyCurves, releases: int, epsilon: float, delta: float) -> int:
    """Number of releases of a kind that exact composition admits, rounded down."""

    def fits(number: int) -> bool:
        cases = kind.worst_cases().values()
        deltas = [_log_delta(combine([(case, number)]), epsilon) for case in cases]
        return np.exp(max(deltas)) <= delta

    if not fits(releases):
        # A failure of delta itself is within the limit, but its logarithm is rounded up.
        cases = (combine([(case, releases)]) for case in kind.worst_cases().values())
        with np.errstate(all="ignore"):
            exact = all(direction_curves(case).epsilon(delta) <= epsilon for case in cases)
        return releases if exact else 0
    # Start from the number that the best Renyi order admits, approximately.
    admitted = np.inf
    for case in kind.worst_cases().values():
        with np.errstate(all="ignore"):
            each = sum(count * curve.rdp(_ORDERS) for curve, count in case.renyi)
            number = np.nanmax(_allowed_divergence(epsilon, delta) / each)
        admitted = min(admitted, number) if case.failure == 0 else 0.0
    low = min(max(releases, int(min(max(admitted, 0.0), 2.0**62))), MAX_RELEASES)
    if not fits(low):
        low = releases
    high = min(2 * low, MAX_RELEASES)
    while low < high and fits(high):
        low, high = high, min(2 * high, MAX_RELEASES)
    while high - low > 1 + int(_COPIES_TOLERANCE * low):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _allowed_divergence(epsilon: float, delta: float) -> Floats:
    """Largest divergence of each order within a limit."""
    tilt = _ORDERS - 1
    cost = (np.log(delta) - tilt * np.log1p(-1 / _ORDERS) + np.log(_ORDERS)) / tilt
    return epsilon + cost - 4 * _ROUNDING * (epsilon + np.abs(cost))


def _budgets(
    kind: PrivacyCurves, direction: str, releases: int, copies: int, epsilon: float, delta: float
) -> tuple[Budget, ...]:
    if copies == 0:
        return ()
    # If few charges fit, reserve a whole number of charges of the size of the first one.
    whole_charges = releases * ceil(FIRST_KIND_SHARE * (copies // releases))
    number = min(max(whole_charges, ceil(FIRST_KIND_SHARE * copies)), copies)
    main: Budget = Copies(kind, direction, number)
    used = np.exp(main.log_delta(epsilon))
    if _case(kind, direction).profile is not None:
        # A pool admits more kinds, but ignores a Renyi curve that is tighter than the pairs.
        pool = Pool(kind, direction, number)
        by_pairs = np.exp(pool.log_delta(epsilon))
        if by_pairs <= min(used * (1 + _SAME_DELTA), delta):
            main, used = pool, by_pairs
    remaining_delta = (delta - used) * (1 - _ROUNDING)
    other = _renyi_budget(kind, direction, releases, epsilon, remaining_delta)
    return (main,) if other is None else (main, other)


def _renyi_budget(
    kind: PrivacyCurves, direction: str, releases: int, epsilon: float, delta: float
) -> RenyiBudget | None:
    """Choose the order that admits the most Gaussian releases after the first ones."""
    first = _case(kind, direction)
    spent = releases * first.failure
    failure = spent + _FAILURE_SHARE * (delta - spent)
    if not spent < failure < delta:
        return None
    divergence = _allowed_divergence(epsilon, delta - failure)
    with np.errstate(all="ignore"):
        used = sum(releases * count * curve.rdp(_ORDERS) for curve, count in first.renyi)
        remaining = (divergence - used) / _ORDERS
    best = int(np.argmax(np.where(np.isfinite(remaining), remaining, -np.inf)))
    if not remaining[best] > 0:
        return None
    order, best_divergence = float(_ORDERS[best]), Fraction(float(divergence[best]))
    return RenyiBudget(direction, order, best_divergence, Fraction(failure))


@lru_cache(maxsize=4096)
def _case(kind: PrivacyCurves, direction: str) -> WorstCase:
    return kind.worst_cases()[direction]


@lru_cache(maxsize=4096)
def _pair_amounts(case: WorstCase) -> Amounts:
    """Amounts that a worst case uses of a pool."""
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
    """Renyi divergence of a worst case; None if it is infinite or cannot be computed."""
    total = Fraction(0)
    for curve, count in case.renyi:
        with np.errstate(all="ignore"):
            divergence = float(curve.rdp(np.asarray(order)))
        if not np.isfinite(divergence):
            return None
        total += count * Fraction(max(divergence, 0.0))
    return total


@lru_cache(maxsize=1024)
def _log_delta(case: WorstCase, epsilon: float) -> float:
    with np.errstate(all="ignore"):
        return float(direction_curves(case).log_delta(np.array([epsilon]))[0])
