"""What the charges of a ledger add up to, and whether that is within a limit.

A record is exposed to the charges on the whole data set and, in every split into
disjoint parts, to those on the part it lies in.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._messages import plural
from ..accounting import Composition
from ..accounting.pairs import BetaPair, GammaPair, GaussianPair, LaplacePair, PureDPPair
from ..accounting.worst_case import RenyiCurve
from .codec import decode, describe
from .ledger import Charge, Limits, Split
from .spending import Exposure, Spending

_ROUNDING = 1e-12
_QUICK_ORDERS = 1 + np.geomspace(1e-2, 1e4, 48)
# Sizes of parameters and numbers of releases that are ordinary.
_LEAST, _LARGEST = 1e-9, 1e9
_MOST_RELEASES = 1e12
_CHEAP_KINDS = 4
_ANY_ORDER = np.array([2.0])


def key(split: Split | None, spec: str) -> tuple[str, str, str]:
    return (split.identity, split.part, spec) if split else ("", "", spec)


def check_adjacency(adjacency: str, spent: Spending) -> None:
    charged = spent.adjacency()
    if charged not in (None, adjacency):
        raise ValueError(
            "adjacency must be the same for all charges of one accountant; "
            f"got {adjacency!r} after {charged!r}"
        )


def check_computable(spec: str, releases: int, limits: Limits) -> None:
    """Refuse a charge that would leave the ledger without a total, whatever else is in it."""
    if not _has_total(spec, releases, limits):
        raise ValueError(
            f"{plural(releases, 'release')} of {describe(decode(spec))} cannot be composed: what "
            "they cost is beyond floating-point numbers. Nothing was charged or released"
        )


# The same kind is charged again and again.
@lru_cache(maxsize=1024)
def _has_total(spec: str, releases: int, limits: Limits) -> bool:
    mechanism = decode(spec)
    try:
        return _is_ordinary(mechanism, releases) or _is_computable(mechanism, releases, limits)
    except (ArithmeticError, MemoryError, RuntimeError):
        return False


def _is_ordinary(mechanism: Any, releases: int) -> bool:
    """Whether its numbers are of sizes with which every composition was tried."""
    for case in mechanism.worst_cases().values():
        for curve, count in {*case.renyi, *(case.profile or ())}:
            if not (
                count * releases < _MOST_RELEASES
                and all(_LEAST < size < _LARGEST for size in _sizes(curve))
                and curve.max_tilt > _LEAST
                and np.all(curve.rdp(_ANY_ORDER) > 0)  # not nan
            ):
                return False
    return True


def _sizes(curve: RenyiCurve) -> tuple[float, ...]:
    match curve:
        case BetaPair() | GammaPair():
            return curve.r, curve.alpha
        case GaussianPair():
            return (curve.mu,)
        case LaplacePair() | PureDPPair():
            return (curve.max_loss,)
    return (np.inf,)


def _is_computable(mechanism: Any, releases: int, limits: Limits) -> bool:
    composition = Composition([(mechanism, releases)])
    with np.errstate(all="ignore"):
        numbers = (
            float(composition.delta(1.0)),
            composition.epsilon(limits.delta),
            float(np.max(composition.rdp(_QUICK_ORDERS))),
        )
    return not any(map(math.isnan, numbers))


class _Headroom:
    """Decides whether exposures to a few kinds fit a limit, most without composing anything.

    An exposure fits if it is contained in one that does. So a larger one is tried
    first, and while it holds, the charges that follow need no further look. The
    sizes tried shrink as the limit comes near.
    """

    _MARGINS = (8, 64, 512)
    _REMEMBERED = 16

    def __init__(self, limits: Limits):
        self._limits = limits
        self._fitting: tuple[Mapping[str, int], ...] = ()
        self._too_large: tuple[Mapping[str, int], ...] = ()

    def admits(self, exposure: Exposure) -> bool:
        counts = exposure.counts
        if any(_contains(known, counts) for known in self._fitting):
            return True
        for margin in self._MARGINS:
            larger = {spec: count + count // margin for spec, count in counts.items()}
            if larger == counts:
                break
            # Only spares an attempt; a refusal always rests on the exposure itself.
            if any(_contains(larger, known) for known in self._too_large):
                continue
            if _fits(Exposure(larger), self._limits):
                self._fitting = (larger, *self._fitting[: self._REMEMBERED])
                return True
            self._too_large = (larger, *self._too_large[: self._REMEMBERED])
        return _fits(exposure, self._limits)


_headroom = lru_cache(maxsize=64)(_Headroom)


def _contains(larger: Mapping[str, int], smaller: Mapping[str, int]) -> bool:
    return all(larger.get(spec, 0) >= count for spec, count in smaller.items())


def admits(spent: Spending, limits: Limits) -> bool:
    """Whether what was spent is within the limits, for every record."""
    exposures = spent.exposures()
    return limits.epsilon is None or all(_admits(exposure, limits) for exposure in exposures)


def _admits(exposure: Exposure, limits: Limits) -> bool:
    return _headroom(limits).admits(exposure) if exposure.is_few else _fits(exposure, limits)


def _fits(exposure: Exposure, limits: Limits) -> bool:
    """Whether a limit holds, by one look at the composition."""
    assert limits.epsilon is not None
    if limits.order is not None:
        # Thrice 0.1 is above 0.3 in floating point.
        return exposure.rdp(limits.order) <= limits.epsilon * (1 + _ROUNDING)
    # One point of the profile decides, which needs no search for epsilon.
    return exposure.holds(limits.epsilon, limits.delta)


def total_epsilon(spent: Spending, delta: float, limits: Limits) -> float:
    total = max(exposure.epsilon(delta) for exposure in spent.exposures())
    if limits.epsilon is None or limits.order is not None or delta < limits.delta:
        return total
    # What was admitted is within the limit, by one point of the profile; the search
    # for epsilon rounds up and may stop a hair above.
    return limits.epsilon if total > limits.epsilon and admits(spent, limits) else total


def is_cheap(spent: Spending, delta: float) -> bool:
    """Whether `total_epsilon` is known already, or takes a few kinds only."""
    return all(
        exposure.knows_epsilon(delta) or len(exposure.counts) <= _CHEAP_KINDS
        for exposure in spent.exposures()
    )


def used(spent: Spending, limits: Limits) -> float:
    """The part of the limit that is used, in the limit's own terms."""
    if limits.order is None:
        return total_epsilon(spent, limits.delta, limits)
    return max(exposure.rdp(limits.order) for exposure in spent.exposures())


def after_charges(
    measure: Callable[[Spending], float], charges: Sequence[Charge], numbers: Container[int]
) -> list[float]:
    """What a measure was after each of the numbered charges; the first is 1."""
    spent = Spending.none()
    pending: Counter[tuple[str, str, str]] = Counter()
    first = (charges[0].spec, charges[0].releases) if charges else None
    values = []
    for number, charge in enumerate(charges, 1):
        pending[key(charge.split, charge.spec)] += charge.releases
        if number in numbers:
            spent, pending = spent.plus(pending, first=first), Counter()
            values.append(measure(spent))
    return values


def remaining(spent: Spending, limits: Limits) -> float:
    if limits.epsilon is None:
        return math.inf
    return max(limits.epsilon - used(spent, limits), 0.0)
