"""Spending of a ledger, and the limits that decide which charges are admitted.

A record is exposed to the charges on the whole data set and, in every split into disjoint parts, to
the charges on its part. A ledger only grows, so its spending stays in memory and is extended. All
answers follow from the first charge and the sums of releases, so that all processes agree.
"""

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from .._messages import plural
from ..accounting import ApproximateDP, Composition, PureDP, RenyiDP
from ..accounting.attacks import AttackBounds
from ..accounting.composition import PrivacyCurves
from ..accounting.filters import PrivacyFilter, Usage
from ..accounting.pairs import BetaPair, GammaPair, GaussianPair, LaplacePair, PureDPPair
from ..accounting.products import FEW, LargeProduct
from ..accounting.worst_case import TABLE_RELATIONS, directions_of
from ..mechanisms import GaussianMechanism
from ..mechanisms.additive import SelectionMechanism
from .codec import decode, describe, encode
from .ledger import Transaction
from .schema import NOTHING, Charge, First, LedgerError, LimitParameters, Position, Split, Sums

_MAX_COMBINATIONS = 64
_MAX_LEDGERS = 8  # whose spending is kept in memory
_ROUNDING = 1e-12
# Charges that one machine admitted may cost slightly more with the arithmetic of another.
_SLACK = 1e-9
_MAX_SHARE = 1e300
# Ordinary sizes of parameters and numbers of releases.
_MIN_SIZE, _MAX_SIZE = 1e-9, 1e9
_MAX_ORDINARY_RELEASES = 1e12
_CHEAP_KINDS = 4
_MARGINS = (8, 64, 512)
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 48)
_NOTHING_LEFT = "0.00%"
#: Releases that may be admitted while a resource of the filter is left.
_RESOURCES = {
    "divergence": "noise of any kind that finds no names or words",
    "variance": "Gaussian noise that finds no names or words",
    "copies": "noise as in the first charge",
    "failure": "failures alone",
}
_SMALLER = 1e6  # factor between an epsilon and the small one that is tried instead
_SMALL_EPSILON = "a smaller epsilon"


class Exposure:
    """Numbers of releases by kind that one record may be exposed to.

    For many kinds, a `LargeProduct` per direction is extended by every charge.
    """

    def __init__(self, counts: Mapping[str, int]):
        self.counts = counts
        self._products: dict[str, LargeProduct] | None = None
        self._epsilons: dict[float, float] = {}

    def plus(self, added: Mapping[str, int]) -> "Exposure":
        """Return the exposure with more releases, reusing earlier results."""
        if not added:
            return self
        whole = Exposure(Counter(self.counts) + Counter(added))
        if len(whole.counts) > FEW:
            products = self._products
            if products is None:
                adjacency = decode(next(iter(whole.counts))).adjacency
                products = dict.fromkeys(directions_of(adjacency), LargeProduct.nothing())
                added = whole.counts
            cases = [(decode(spec).worst_cases(), releases) for spec, releases in added.items()]
            with np.errstate(all="ignore"):
                more = {
                    direction: known.plus((case[direction], times) for case, times in cases)
                    for direction, known in products.items()
                }
            whole._products = {name: known for name, known in more.items() if known is not None}
            if len(whole._products) < len(more):  # a parameter is out of range
                whole._products = {}
        return whole

    def composition(self) -> Composition:
        # Sorted, so that the result does not depend on the order of the charges.
        return compose(tuple(sorted(self.counts.items())))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Return whether the releases are known to be (epsilon, delta)-DP."""
        with np.errstate(all="ignore"):
            return all(curve.holds(epsilon, delta) for curve in self.curves())

    def rdp(self, order: float) -> float:
        products = self.large_products()
        if not products:
            return float(self.composition().rdp(order))
        with np.errstate(all="ignore"):
            return max(product.rdp_at(order) for product in products)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon known to hold at delta, and keep it."""
        if delta not in self._epsilons:
            with np.errstate(all="ignore"):
                self._epsilons[delta] = max(curve.epsilon(delta) for curve in self.curves())
        return self._epsilons[delta]

    def is_cheap(self, delta: float) -> bool:
        """Return whether `epsilon` is known already, or composes a few kinds only."""
        return delta in self._epsilons or len(self.counts) <= _CHEAP_KINDS

    def curves(self) -> "list[LargeProduct] | list[Composition]":
        return self.large_products() or [self.composition()]

    def large_products(self) -> list[LargeProduct]:
        """Return products by direction; empty if the kinds are composed exactly."""
        products = [*(self._products or {}).values()]
        return products if all(product.is_many for product in products) else []


@lru_cache(maxsize=64)
def compose(kinds: tuple[tuple[str, int], ...]) -> Composition:
    return Composition([(decode(spec), releases) for spec, releases in kinds])


@dataclass(eq=False)
class Spending:
    """All charges of a ledger up to a position."""

    position: Position = NOTHING
    whole: Exposure = field(default_factory=lambda: Exposure({}))
    # Numbers of releases on parts, by split and part.
    parts: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    adjacencies: tuple[str, ...] = ()  # distinct adjacencies, in the order of the charges
    first: First | None = None
    is_checked: bool = True  # whether the limit is known to have admitted these charges
    _exposures: list[Exposure] | None = None

    def plus(
        self, added: Sums, position: Position | None = None, first: First | None = None
    ) -> "Spending":
        """Return the spending with more charges; `first` is the first of them."""
        whole: Counter[str] = Counter()
        parts = self.parts
        adjacencies = dict.fromkeys(self.adjacencies)
        for (split, part, spec), releases in added.items():
            adjacencies[decode(spec).adjacency] = None
            if not split:
                whole[spec] += releases
                continue
            parts = parts | {split: dict(parts.get(split, {}))}
            parts[split][part] = parts[split].get(part, Counter()) + Counter({spec: releases})
        # Charges under several relations cannot be composed.
        exposure = self.whole.plus(whole) if len(adjacencies) == 1 else self.whole
        position = self.position if position is None else position
        return Spending(position, exposure, parts, tuple(adjacencies), self.first or first, False)

    def with_charge(self, spec: str, releases: int, split: Split | None) -> "Spending":
        """Return the spending with one more charge, which must be under the same relation."""
        self.check_adjacency()
        after = self.plus({sums_key(split, spec): releases}, first=(spec, releases))
        if len(after.adjacencies) > 1:
            charged, asked = after.adjacencies
            raise ValueError(
                "adjacency must be the same for all charges of one accountant; "
                f"got {asked!r} after {charged!r}"
            )
        return after

    def check_adjacency(self) -> None:
        """Raise LedgerError if the charges are under several relations."""
        if len(self.adjacencies) > 1:
            raise LedgerError(
                "the ledger contains charges under different adjacencies, "
                f"{' and '.join(map(repr, sorted(self.adjacencies)))}. They have no total, and "
                "nothing can be charged; history() lists the charges. Create one ledger for each "
                "adjacency"
            )

    def exposures(self) -> list[Exposure]:
        """Return the exposures of a record for every choice of parts it can be in."""
        self.check_adjacency()
        if self._exposures is None:
            choices = [_largest(list(parts.values())) for parts in self.parts.values()]
            combinations = math.prod(len(parts) for parts in choices)
            if combinations > _MAX_COMBINATIONS:
                raise ValueError(
                    f"a record can be in {combinations} combinations of parts with different "
                    f"charges, and at most {_MAX_COMBINATIONS} can be compared. Charge the parts "
                    "of a split alike, or charge the whole data set"
                )
            empty: Counter[str] = Counter()
            self._exposures = [self.whole.plus(sum(parts, empty)) for parts in product(*choices)]
        return self._exposures


def _largest(parts: list[Counter[str]]) -> list[Counter[str]]:
    """Return the parts that are not charged at most as much as another part, kind by kind."""
    kept: list[Counter[str]] = []
    for part in sorted(parts, key=lambda part: -part.total()):
        if not any(part <= larger for larger in kept):
            kept.append(part)
    return kept


def sums_key(split: Split | None, spec: str) -> tuple[str, str, str]:
    return (split.identity, split.part, spec) if split else ("", "", spec)


def spending_after(charges: Sequence[Charge], numbers: Container[int]) -> Iterator[Spending]:
    """Yield the spending after each of the numbered charges; the first charge is 1."""
    spent = Spending()
    added: Counter[tuple[str, str, str]] = Counter()
    for number, charge in enumerate(charges, 1):
        added[sums_key(charge.split, charge.spec)] += charge.releases
        if number in numbers:
            spent = spent.plus(added, first=(charges[0].spec, charges[0].releases))
            added.clear()
            yield spent


# Spending of the most recently used ledgers, by identity. It is replaced as a whole, so that
# other threads see the old or the new one.
_KNOWN: dict[str, Spending] = {}


def known_spending(identity: str) -> Spending:
    """Return the spending of a ledger that this process has read."""
    return _KNOWN.get(identity) or Spending()


def remember(identity: str, spent: Spending) -> Spending:
    """Keep the spending of a ledger for the next charge."""
    global _KNOWN
    others = [item for item in list(_KNOWN.items()) if item[0] != identity]
    _KNOWN = dict([*others[1 - _MAX_LEDGERS :], (identity, spent)])
    return spent


def current_spending(transaction: Transaction, known: Spending) -> Spending:
    """Return the spending of a ledger, and read only charges beyond the known spending."""
    # All charges are read if the ledger does not contain the known ones: it is a restored copy.
    position = transaction.last_position()
    if position == known.position:
        return known
    added = transaction.sums_since(known.position) if known.position[0] else None
    if added is None:
        return Spending().plus(transaction.sums(), position, transaction.first_kind())
    return known.plus(added, position)


@lru_cache(maxsize=1024)
def check_computable(spec: str, releases: int, limit: LimitParameters) -> None:
    """Raise ValueError if a charge would leave the ledger without a total."""
    mechanism = decode(spec)
    with suppress(ArithmeticError, MemoryError, RuntimeError):
        if _is_ordinary(mechanism, releases) or _is_computable(mechanism, releases, limit):
            return
    raise ValueError(
        f"{plural(releases, 'release')} of {describe(mechanism)} cannot be composed: their cost "
        "exceeds the range of floating-point numbers. Nothing was charged or released"
    )


def _is_ordinary(mechanism: Any, releases: int) -> bool:
    """Return whether all numbers have sizes for which every composition works."""
    known = BetaPair | GammaPair | GaussianPair | LaplacePair | PureDPPair
    for case in mechanism.worst_cases().values():
        for curve, count in {*case.renyi, *(case.profile or ())}:
            sizes = [size for size in vars(curve).values() if not isinstance(size, str)]
            if not (
                isinstance(curve, known)
                and count * releases < _MAX_ORDINARY_RELEASES
                and all(_MIN_SIZE < size < _MAX_SIZE for size in sizes)
                and curve.max_tilt > _MIN_SIZE
                and np.all(curve.rdp(np.array([2.0])) > 0)  # not nan
            ):
                return False
    return True


def _is_computable(mechanism: Any, releases: int, limit: LimitParameters) -> bool:
    composition = Composition([(mechanism, releases)])
    with np.errstate(all="ignore"):
        numbers: list[Any] = [composition.delta(1.0), composition.epsilon(limit.delta)]
        numbers.append(np.max(composition.rdp(_ORDERS)))
        return not any(map(math.isnan, numbers))


class Limit:
    """Limit for charges that are composed: a fixed plan, a Renyi limit, or no limit."""

    #: Whether `used` is a share of the limit, and not the epsilon of the charges.
    is_share = False
    # The last larger exposures that were tried; a refusal never relies on them.
    _admitted: Counter[str] | None = None
    _refused: Counter[str] | None = None

    def __init__(self, parameters: LimitParameters):
        self.parameters = parameters
        # Infinite without a limit, which admits everything.
        self.epsilon = math.inf if parameters.epsilon is None else parameters.epsilon
        self.delta = parameters.delta
        self.order = parameters.order

    def __reduce__(self) -> tuple[Any, ...]:
        return limit_for, (self.parameters,)

    def curves(self, spent: Spending) -> list[Composition] | list[PrivacyFilter]:
        """Return the curves whose worst is guaranteed."""
        return [exposure.composition() for exposure in spent.exposures()]

    def claimed(self, spent: Spending) -> Sequence[AttackBounds]:
        """Return bounds on attacks on the charges; the worst one counts."""
        # Under an adaptive limit they hold for adaptively chosen charges, and bound all that the
        # limit admits. Without a limit they hold for charges that were fixed beforehand.
        adaptive = self.parameters.adaptive and self.epsilon < math.inf
        if adaptive and self.order is not None and spent.adjacencies:
            spent.check_adjacency()
            return [RenyiDP(self.order, self.epsilon, spent.adjacencies[0])]
        return self.curves(spent)

    def remaining(self, spent: Spending) -> float:
        return math.inf if self.epsilon == math.inf else max(self.epsilon - self.used(spent), 0.0)

    def may_have_admitted(self, spent: Spending) -> bool:
        """Return whether the charges may have been admitted, here or on another machine."""
        if self.epsilon == math.inf or self.admits(spent):
            return True
        epsilon, delta = (1 + _SLACK) * self.epsilon, min((1 + _SLACK) * self.delta, 1 - _SLACK)
        return limit_for(replace(self.parameters, epsilon=epsilon, delta=delta)).admits(spent)

    def refusal(
        self, spec: str, releases: int, label: str | None, before: Spending, split: Split | None
    ) -> str:
        name = repr(label) if label else "this charge"
        return (
            f"{name} {self._reason(spec, releases, before, split)}. Nothing was charged or "
            f"released. Requested: {plural(releases, 'release')} of {describe(decode(spec))}"
        )

    def admits(self, spent: Spending) -> bool:
        exposures = spent.exposures()  # raises if the ledger has no total
        return self.epsilon == math.inf or all(map(self._admits, exposures))

    def _admits(self, exposure: Exposure) -> bool:
        """Return whether one exposure is within the limit."""
        # Larger exposures are tried first, so that the next charges need no composition. The
        # margins shrink as the spending approaches the limit.
        counts = Counter(exposure.counts)
        if self._admitted is not None and counts <= self._admitted:
            return True
        for margin in () if exposure.large_products() else _MARGINS:
            larger = Counter({spec: n + n // margin for spec, n in counts.items()})
            if larger == counts:
                break
            if self._refused is not None and self._refused <= larger:
                continue
            if self._holds(Exposure(larger)):
                self._admitted = larger
                return True
            self._refused = larger
        return self._holds(exposure)

    def _holds(self, exposure: Exposure) -> bool:
        if self.order is not None:
            # 3 * 0.1 exceeds 0.3 in floating point.
            return exposure.rdp(self.order) <= self.epsilon * (1 + _ROUNDING)
        # One point of the profile is enough, without a search for epsilon.
        return exposure.holds(self.epsilon, self.delta)

    def used(self, spent: Spending) -> float:
        """Return how much of the limit's epsilon is used, at its delta or order."""
        if self.order is None:
            return self.total(spent, self.delta)
        return max(exposure.rdp(self.order) for exposure in spent.exposures())

    def total(self, spent: Spending, delta: float) -> float:
        total = max(exposure.epsilon(delta) for exposure in spent.exposures())
        if self.order is not None or delta < self.delta:
            return total
        # Admitted charges are within the limit by one point of the profile; the search for
        # epsilon rounds up and may end slightly above.
        return self.epsilon if total > self.epsilon and self.admits(spent) else total

    def summary(self, spent: Spending | None) -> str:
        """Describe the spending briefly; None if it is not known without much work."""
        if spent is None or not all(each.is_cheap(self.delta) for each in spent.exposures()):
            return "; total() composes them"
        at = f" at delta {self.delta}" if self.epsilon == math.inf or self.order else ""
        return f", total epsilon {ceil_text(self.total(spent, self.delta))}{at}"

    def _reason(self, spec: str, releases: int, before: Spending, split: Split | None) -> str:
        after = before.with_charge(spec, releases, split)
        at = f"delta {self.delta}" if self.order is None else f"Renyi order {self.order}"
        return (
            f"would increase the total epsilon to {ceil_text(self.used(after))} at {at}, and the "
            f"limit is {self.epsilon}. {ceil_text(self.used(before))} is used and "
            f"{math.floor(self.remaining(before) * 1e4) / 1e4:.4f} is left, as a difference. "
            "Charges are composed and not summed, so a little more may still be admitted; use a "
            "smaller epsilon or fewer releases"
        )


class AdaptiveLimit(Limit):
    """Privacy filter: an (epsilon, delta) limit for adaptively chosen charges."""

    is_share = True

    def admits(self, spent: Spending) -> bool:
        exposures = spent.exposures()
        if spent.first is None:
            return not spent.adjacencies
        use = _filter_use(spent.first, self.parameters)
        return all(use.share(exposure) <= 1 for exposure in exposures)

    def share(self, spent: Spending) -> float:
        """Return the share of the limit that is spent; above 1 if it was never admitted."""
        if spent.first is None:
            return 0.0
        use = _filter_use(spent.first, self.parameters)
        share = min(float(max(map(use.share, spent.exposures()))), _MAX_SHARE)
        return 1.0 if share > 1 and self.may_have_admitted(spent) else share

    def used(self, spent: Spending) -> float:
        return self.share(spent) * self.epsilon

    def total(self, spent: Spending, delta: float) -> float:
        if spent.first is None:
            return 0.0
        spent.exposures()  # raises if the ledger has no total
        if delta == self.delta:
            return self.epsilon
        return _filter_use(spent.first, self.parameters).filter.epsilon(delta)

    def curves(self, spent: Spending) -> list[Composition] | list[PrivacyFilter]:
        if spent.first is None:
            return super().curves(spent)
        return [_filter_use(spent.first, self.parameters).filter]

    def summary(self, spent: Spending | None) -> str:
        if spent is None:
            return "; remaining() adds them up"
        used, left = in_percent(self.share(spent))
        end = "" if spent.first is None else "; the limit is the total"
        return f", {used} of the limit spent, {left} left{self.exception(spent)}{end}"

    def exception(self, spent: Spending) -> str:
        """Describe the releases that may still be admitted if nothing else is left."""
        if spent.first is None or in_percent(self.share(spent))[1] != _NOTHING_LEFT:
            return ""
        use = _filter_use(spent.first, self.parameters)
        rooms = [use.room(exposure) for exposure in spent.exposures()]
        left = {name: min(float(room.get(name, 0)) for room in rooms) for name in _RESOURCES}
        shares = {name: in_percent(1 - room)[1] for name, room in left.items() if room > 0}
        large = {name: share for name, share in shares.items() if share != _NOTHING_LEFT}
        shown = large or dict.fromkeys(shares, "less than 0.01%")
        texts = [f"{share} for {_RESOURCES[name]}" for name, share in shown.items()]
        return f" in general, but {' and '.join(texts)}" if texts else ""

    def _reason(self, spec: str, releases: int, before: Spending, split: Split | None) -> str:
        alone = compose(((spec, releases),)).epsilon(self.delta)
        start = (
            f"does not fit into the limit of epsilon {self.epsilon} at delta {self.delta}, of "
            f"which {in_percent(self.share(before))[0]} is spent; alone it would cost epsilon "
            f"{ceil_text(alone)}. The limit holds for adaptively chosen charges"
        )
        return ". ".join([start, *_Advice(self, spec, releases, before, split).sentences(alone)])


@dataclass
class _Advice:
    """Charges that an adaptive limit would admit in place of a refused one; each is tried."""

    limit: AdaptiveLimit
    spec: str
    releases: int
    before: Spending
    split: Split | None

    def sentences(self, alone: float) -> list[str]:
        # The epsilon of large noise is 0 at a positive delta.
        alone = max(alone, self.limit.epsilon / _SMALLER)
        small = min(alone, self.limit.epsilon) / _SMALLER
        ways = self._ways(alone, small)
        texts = []
        if _SMALL_EPSILON not in ways:
            texts.append("No smaller epsilon of the same mechanisms would be admitted")
        plan = limit_for(replace(self.limit.parameters, adaptive=False))
        if plan.admits(self.before.with_charge(self.spec, self.releases, self.split)):
            ways.append(
                "a new ledger with adaptive=False (--fixed-plan), if all charges are planned "
                "before the first release"
            )
        if ways:
            texts.append(f"The charge would be admitted with {', or with '.join(ways)}")
        first = self.before.first
        if first is not None and _failure(self.spec) and not _failure(first[0]):
            texts.append(
                "In a new ledger, first charge the fits that discover names or words, and then "
                "use Gaussian noise"
            )
        return texts

    def _ways(self, alone: float, small: float) -> list[str]:
        failure = _failure(self.spec, self.releases)
        if self.before.first is None:
            return [_SMALL_EPSILON] if failure < self.limit.delta else []
        is_gaussian = _is_gaussian(self.spec)
        ways = []
        if self._fits(small, failure, is_gaussian):
            ways.append(_SMALL_EPSILON)
        if self.releases > 1 and self._admits(self.spec, 1):
            ways.append("fewer releases")
        for epsilon, size in ((alone, "the same"), (small, "a smaller")):
            if not is_gaussian and self._fits(epsilon, failure, True):
                ways.append(f"Gaussian noise (mechanism='gaussian') of {size} epsilon")
                break
        return ways or self._smaller_delta(alone, small, failure, is_gaussian)

    def _smaller_delta(
        self, alone: float, small: float, failure: float, is_gaussian: bool
    ) -> list[str]:
        """Describe the least reduction of the delta of a fit, by powers of two, that helps."""
        for power in range(1, 11) if failure else ():
            for epsilon, also in ((alone, ""), (small, " and a smaller epsilon")):
                if self._fits(epsilon, failure / 2**power, is_gaussian):
                    return [f"a delta of the fit that is {2**power} times smaller{also}"]
        return []

    def _fits(self, epsilon: float, failure: float, gaussian: bool) -> bool:
        """Return whether a release of about an epsilon and with a failure would be admitted."""
        adjacency = decode(self.spec).adjacency
        if not (0 < epsilon < math.inf and failure < self.limit.delta):
            return False
        if gaussian and adjacency not in TABLE_RELATIONS:
            return False
        release = _similar(adjacency, epsilon, self.limit.delta, failure, gaussian)
        return self._admits(encode(release), 1)

    def _admits(self, spec: str, releases: int) -> bool:
        with suppress(ValueError):  # too many combinations of parts
            return self.limit.admits(self.before.with_charge(spec, releases, self.split))
        return False


def _similar(
    adjacency: str, epsilon: float, delta: float, failure: float, gaussian: bool
) -> PrivacyCurves:
    """Return a release of about an epsilon, with a failure probability."""
    if not gaussian:
        # Pure DP has a larger divergence than noise of the same epsilon at a positive delta.
        if failure:
            return ApproximateDP(epsilon, failure, adjacency)
        return PureDP(epsilon, adjacency)
    low, high = 1e-9, 1e9
    for _ in range(40):
        sigma = math.sqrt(low * high)
        enough = Composition([(GaussianMechanism(sigma, adjacency=adjacency), 1)])
        low, high = (low, sigma) if enough.epsilon(delta) <= epsilon else (sigma, high)
    if failure:
        return SelectionMechanism(high, adjacency=adjacency, failure=failure)
    return GaussianMechanism(high, adjacency=adjacency)


def _failure(spec: str, releases: int = 1) -> float:
    """Return the probability that any of the releases reveals everything."""
    log_survivals = [case.log_survival for case in decode(spec).worst_cases().values()]
    return float(-np.expm1(releases * min(log_survivals)))


def _is_gaussian(spec: str) -> bool:
    profiles = [case.profile for case in decode(spec).worst_cases().values()]
    return all(
        profile is not None and all(isinstance(pair, GaussianPair) for pair, _ in profile)
        for profile in profiles
    )


@lru_cache(maxsize=64)
def limit_for(parameters: LimitParameters) -> Limit:
    # Renyi divergences of one order add up adaptively too, without a filter: Feldman and Zrnic
    # (2021).
    is_filter = parameters.adaptive and parameters.epsilon is not None and parameters.order is None
    return AdaptiveLimit(parameters) if is_filter else Limit(parameters)


class _FilterUse:
    """Filter and the share of it that exposures use; successive calls add only differences."""

    def __init__(self, first: First, limit: LimitParameters):
        assert limit.epsilon is not None
        spec, releases = first
        self.filter = PrivacyFilter(decode(spec), releases, limit.epsilon, limit.delta)
        # Replaced as one, so that threads need no lock.
        self._last: tuple[Mapping[str, int], Usage] = {}, self.filter.nothing()

    def room(self, exposure: Exposure) -> dict[str, Fraction]:
        self.share(exposure)
        return self.filter.room(self._last[1])

    def share(self, exposure: Exposure) -> Fraction:
        counts = exposure.counts
        before, usage = self._last
        changed = [(spec, n) for spec, n in counts.items() if before.get(spec) != n]
        changed += [(spec, 0) for spec in before.keys() - counts.keys()]
        for spec, number in changed:
            usage = self.filter.add(usage, decode(spec), number - before.get(spec, 0))
        self._last = counts, usage
        return self.filter.share_of(usage)


_filter_use = lru_cache(maxsize=64)(_FilterUse)


def in_percent(share: float) -> tuple[str, str]:
    """Return the used and remaining percentages, rounded up and down, that sum to 100."""
    used = ceil_text(100 * share, 2)
    return f"{used}%", f"{max(100 - float(used), 0):.2f}%"


def ceil_text(value: float, decimals: int = 4) -> str:
    """Return a number with a few decimals, rounded up, because readers may claim it."""
    if math.isinf(value):
        return "infinite"
    # Divergences are already rounded up by a relative 1e-12, which should not add a decimal.
    unit = 10.0**decimals
    return f"{math.ceil(value * unit / (1 + 1e-12)) / unit:.{decimals}f}"
