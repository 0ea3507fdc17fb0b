"""What the charges of a ledger add up to, and whether that is within a limit.

A record is exposed to the charges on the whole data set and, in every split into
disjoint parts, to those on the part it lies in.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from .._messages import plural
from ..accounting import Composition
from ..accounting.conversions import renyi_log_delta
from .codec import decode, describe
from .ledger import Charge, LedgerError, Limits, Split, Sums

_MAX_COMBINATIONS = 64
_ROUNDING = 1e-12
_QUICK_ORDERS = 1 + np.geomspace(1e-2, 1e4, 48)

# Kinds with their numbers of releases that one record may have been exposed to.
Exposure = tuple[tuple[str, int], ...]


def key(split: Split | None, spec: str) -> tuple[str, str, str]:
    return (split.identity, split.part, spec) if split else ("", "", spec)


def check_adjacency(adjacency: str, sums: Sums) -> None:
    charged = adjacency_of(sums)
    if charged not in (None, adjacency):
        raise ValueError(
            "adjacency must be the same for all charges of one accountant; "
            f"got {adjacency!r} after {charged!r}"
        )


def adjacency_of(sums: Sums) -> str | None:
    """The relation that all charges are under.

    Version 0.1 called the exchange of a vector "replace" too, and let a ledger hold it
    beside the replacement of records, or several of its kinds. No neighbours are
    covered by all such charges, so that such a ledger has no total.
    """
    found = {decode(spec).adjacency for _, _, spec in sums}
    if len(found) > 1:
        raise LedgerError(
            "the ledger holds charges under different adjacencies, "
            f"{' and '.join(map(repr, sorted(found)))}, which version 0.1 of skdirdp took for "
            "one. Their total would be too small for either, so none is given and nothing can "
            "be charged; history() lists the charges. Start one ledger for each adjacency, and "
            "charge to it what was released under it"
        )
    return next(iter(found), None)


def check_computable(spec: str, releases: int, limits: Limits) -> None:
    """Refuse a charge that would leave the ledger without a total, whatever else is in it."""
    exposure = ((spec, releases),)
    try:
        numbers = [_delta(exposure, 1.0), _epsilon(exposure, limits.delta)]
        numbers.append(np.max(compose(exposure).rdp(_QUICK_ORDERS)))
        computable = not np.isnan(numbers).any()
    except (ArithmeticError, MemoryError, RuntimeError):
        computable = False
    if not computable:
        raise ValueError(
            f"{plural(releases, 'release')} of {describe(decode(spec))} cannot be composed: what "
            "they cost is beyond floating-point numbers. Nothing was charged or released"
        )


def exposures_of(sums: Sums) -> list[Exposure]:
    """Charges that a record may be exposed to, for every choice of parts it can lie in."""
    adjacency_of(sums)
    whole: Counter[str] = Counter()
    splits: dict[str, dict[str, Counter[str]]] = {}
    for (split, part, spec), releases in sums.items():
        if split:
            splits.setdefault(split, {}).setdefault(part, Counter())[spec] += releases
        else:
            whole[spec] += releases
    choices = [_largest(list(parts.values())) for parts in splits.values()]
    combinations = math.prod(len(parts) for parts in choices)
    if combinations > _MAX_COMBINATIONS:
        raise ValueError(
            f"a record can be in {combinations} combinations of parts that were charged "
            f"differently, and at most {_MAX_COMBINATIONS} can be compared. Charge the parts of a "
            "split alike, or charge the whole data set"
        )
    exposures = (sum(parts, whole) for parts in product(*choices))
    return [tuple(sorted(exposure.items())) for exposure in exposures]


def _largest(parts: list[Counter[str]]) -> list[Counter[str]]:
    """The parts that no other part was charged at least as much as, kind by kind.

    A part charged less than another is a post-processing of it, and cannot be worse.
    """
    kept: list[Counter[str]] = []
    for part in sorted(parts, key=lambda part: -part.total()):
        if not any(part <= larger for larger in kept):
            kept.append(part)
    return kept


@lru_cache(maxsize=64)
def compose(exposure: Exposure) -> Composition:
    return Composition([(decode(spec), releases) for spec, releases in exposure])


class _Headroom:
    """Decides whether exposures fit a limit, most of them without composing anything.

    An exposure fits if it is contained in one that does. So a larger one is tried
    first, and while it holds, the charges that follow need no further look. The
    sizes tried shrink as the limit comes near.
    """

    _MARGINS = (8, 64, 512)
    _REMEMBERED = 16

    def __init__(self, limits: Limits):
        self._limits = limits
        self._fitting: tuple[dict[str, int], ...] = ()
        self._too_large: tuple[dict[str, int], ...] = ()

    def admits(self, exposure: Exposure) -> bool:
        counts = dict(exposure)
        if any(_contains(known, counts) for known in self._fitting):
            return True
        for margin in self._MARGINS:
            larger = {spec: count + count // margin for spec, count in exposure}
            if larger == counts:
                break
            # Only spares an attempt; a refusal always rests on the exposure itself.
            if any(_contains(larger, known) for known in self._too_large):
                continue
            if _fits(tuple(larger.items()), self._limits):
                self._fitting = (larger, *self._fitting[: self._REMEMBERED])
                return True
            self._too_large = (larger, *self._too_large[: self._REMEMBERED])
        return _fits(exposure, self._limits)


_headroom = lru_cache(maxsize=64)(_Headroom)


def _contains(larger: dict[str, int], smaller: dict[str, int]) -> bool:
    return all(larger.get(spec, 0) >= count for spec, count in smaller.items())


def admits(exposure: Exposure, limits: Limits) -> bool:
    return limits.epsilon is None or _headroom(limits).admits(exposure)


def _fits(exposure: Exposure, limits: Limits) -> bool:
    """Whether a limit holds, by one look at the composition."""
    assert limits.epsilon is not None
    if limits.order is not None:
        # Thrice 0.1 is above 0.3 in floating point.
        return _renyi(exposure, limits.order) <= limits.epsilon * (1 + _ROUNDING)
    # A Renyi bound is quick, and enough until the limit is near. Where it is not, one
    # point of the exact profile decides, which needs no search for epsilon.
    divergence = compose(exposure).rdp(_QUICK_ORDERS)
    bounds = renyi_log_delta(_QUICK_ORDERS, divergence, limits.epsilon)
    if np.min(bounds) <= math.log(limits.delta):
        return True
    return _delta(exposure, limits.epsilon) <= limits.delta


@lru_cache(maxsize=64)
def _delta(exposure: Exposure, epsilon: float) -> float:
    return float(compose(exposure).delta(epsilon))


@lru_cache(maxsize=64)
def _epsilon(exposure: Exposure, delta: float) -> float:
    return float(compose(exposure).epsilon(delta))


@lru_cache(maxsize=64)
def _renyi(exposure: Exposure, order: float) -> float:
    return float(compose(exposure).rdp(order))


def total_epsilon(sums: Sums, delta: float, limits: Limits) -> float:
    exposures = exposures_of(sums)
    total = max(_epsilon(exposure, delta) for exposure in exposures)
    if limits.epsilon is None or limits.order is not None or delta < limits.delta:
        return total
    # What was admitted is within the limit, by one point of the profile; the search
    # for epsilon rounds up and may stop a hair above.
    if total > limits.epsilon and all(admits(exposure, limits) for exposure in exposures):
        return limits.epsilon
    return total


def used(sums: Sums, limits: Limits) -> float:
    """The part of the limit that is used, in the limit's own terms."""
    if limits.order is None:
        return total_epsilon(sums, limits.delta, limits)
    return max(_renyi(exposure, limits.order) for exposure in exposures_of(sums))


def after_charges(
    measure: Callable[[Sums], float], charges: Sequence[Charge], numbers: Container[int]
) -> list[float]:
    """What a measure of the sums was after each of the numbered charges; the first is 1."""
    sums: Counter[tuple[str, str, str]] = Counter()
    values = []
    for number, charge in enumerate(charges, 1):
        sums[key(charge.split, charge.spec)] += charge.releases
        if number in numbers:
            values.append(measure(sums))
    return values


def remaining(sums: Sums, limits: Limits) -> float:
    if limits.epsilon is None:
        return math.inf
    return max(limits.epsilon - used(sums, limits), 0.0)
