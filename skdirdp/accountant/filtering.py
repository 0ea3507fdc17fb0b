"""What a limit admits and what is left of it, for either promise that an accountant can make.

An (epsilon, delta) limit for adaptive spending is kept by a `PrivacyFilter` that the first
charge of the ledger decides; any other limit by composing what was charged (`admission`).
Every answer follows from the first charge and the sums, so that all processes agree.
"""

import math
from fractions import Fraction
from functools import lru_cache

from ..accounting.filters import PrivacyFilter, Tally
from . import admission
from .admission import Exposure, exposures_of
from .codec import decode
from .ledger import Limits, Sums

# Of a share that is told in floats.
_LARGEST = 1e300

#: The kind of the first charge of a ledger, and its number of releases.
First = tuple[str, int]


def is_filter(limits: Limits) -> bool:
    """Whether the limit is kept by a filter, and not by composition or at one Renyi order."""
    return limits.adaptive and limits.epsilon is not None and limits.order is None


@lru_cache(maxsize=64)
def filter_of(first: First, limits: Limits) -> PrivacyFilter:
    assert limits.epsilon is not None
    spec, releases = first
    return PrivacyFilter(decode(spec), releases, limits.epsilon, limits.delta)


def admits(sums: Sums, first: First | None, limits: Limits) -> bool:
    """Whether all these charges may be made."""
    exposures = exposures_of(sums)
    if not is_filter(limits) or first is None:
        return all(admission.admits(exposure, limits) for exposure in exposures)
    spent = _spending(first, limits)
    return all(spent.share(exposure) <= 1 for exposure in exposures)


def share(sums: Sums, first: First | None, limits: Limits) -> float:
    """The part of a filter's limit that is spent; above 1 if the charges are not admitted."""
    if first is None:
        return 0.0
    spent = _spending(first, limits)
    return min(float(max(spent.share(exposure) for exposure in exposures_of(sums))), _LARGEST)


def used(sums: Sums, first: First | None, limits: Limits) -> float:
    """How much of the limit's epsilon is used, in the limit's own terms."""
    if not is_filter(limits):
        return admission.used(sums, limits)
    assert limits.epsilon is not None
    return share(sums, first, limits) * limits.epsilon


def remaining(sums: Sums, first: First | None, limits: Limits) -> float:
    if limits.epsilon is None:
        return math.inf
    return max(limits.epsilon - used(sums, first, limits), 0.0)


def total_epsilon(sums: Sums, first: First | None, delta: float, limits: Limits) -> float:
    """The epsilon that holds at delta: of what was charged, or of what a filter ever admits."""
    if not is_filter(limits):
        return admission.total_epsilon(sums, delta, limits)
    if first is None:
        return 0.0
    assert limits.epsilon is not None
    exposures_of(sums)  # a ledger that has no total says so
    if delta == limits.delta:
        return limits.epsilon
    return filter_of(first, limits).epsilon(delta)


class _Spending:
    """What exposures take of a filter. From one to the next, only what differs is added up."""

    def __init__(self, spending: PrivacyFilter):
        self._filter = spending
        # Replaced as one, so that threads need no lock.
        self._last: tuple[dict[str, int], Tally] = {}, spending.nothing()

    def share(self, exposure: Exposure) -> Fraction:
        counts = dict(exposure)
        before, tally = self._last
        changed = [(spec, n) for spec, n in exposure if before.get(spec) != n]
        changed += [(spec, 0) for spec in before.keys() - counts.keys()]
        for spec, number in changed:
            tally = self._filter.add(tally, decode(spec), number - before.get(spec, 0))
        self._last = counts, tally
        return self._filter.share_of(tally)


@lru_cache(maxsize=64)
def _spending(first: First, limits: Limits) -> _Spending:
    return _Spending(filter_of(first, limits))
