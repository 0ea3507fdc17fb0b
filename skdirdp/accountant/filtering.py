"""What a limit admits and what is left of it, for either promise that an accountant can make.

An (epsilon, delta) limit for adaptive spending is kept by a `PrivacyFilter` that the first
charge of the ledger decides; any other limit by composing what was charged (`admission`).
Every answer follows from the first charge and the sums, so that all processes agree.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from .._messages import plural
from ..accounting.filters import PrivacyFilter, Usage
from . import admission
from .codec import decode, describe
from .records import First, Limits
from .spending import Exposure, Spending, compose

# Of a share that is told in floats.
_LARGEST = 1e300
# Charges that one machine admitted may cost a little more by the arithmetic of another.
_SLACK = 1e-9


def is_filter(limits: Limits) -> bool:
    """Whether the limit is kept by a filter, and not by composition or at one Renyi order."""
    return limits.adaptive and limits.epsilon is not None and limits.order is None


@lru_cache(maxsize=64)
def filter_of(first: First, limits: Limits) -> PrivacyFilter:
    assert limits.epsilon is not None
    spec, releases = first
    return PrivacyFilter(decode(spec), releases, limits.epsilon, limits.delta)


def admits(spent: Spending, limits: Limits) -> bool:
    """Whether all these charges may be made."""
    if spent.first is None or not is_filter(limits):
        return admission.admits(spent, limits)
    taken = _taken(spent.first, limits)
    return all(taken.share(exposure) <= 1 for exposure in spent.exposures())


def fits(spent: Spending, limits: Limits) -> bool:
    """Whether the limit can have admitted all these charges, here or on another machine."""
    if limits.epsilon is None or admits(spent, limits):
        return True
    epsilon, delta = (1 + _SLACK) * limits.epsilon, min((1 + _SLACK) * limits.delta, 1 - _SLACK)
    return admits(spent, replace(limits, epsilon=epsilon, delta=delta))


def share(spent: Spending, limits: Limits) -> float:
    """The part of a filter's limit that is spent; above 1 if the charges are not admitted."""
    if spent.first is None:
        return 0.0
    taken = _taken(spent.first, limits)
    found = min(float(max(taken.share(exposure) for exposure in spent.exposures())), _LARGEST)
    return 1.0 if found > 1 and fits(spent, limits) else found


def in_percent(part: float) -> tuple[str, str]:
    """The parts of a limit that are spent and left; rounded up and down, and 100 together."""
    spent = upwards(100 * part, 2)
    return f"{spent}%", f"{max(100 - float(spent), 0):.2f}%"


def used(spent: Spending, limits: Limits) -> float:
    """How much of the limit's epsilon is used, in the limit's own terms."""
    if not is_filter(limits):
        return admission.used(spent, limits)
    assert limits.epsilon is not None
    return share(spent, limits) * limits.epsilon


def remaining(spent: Spending, limits: Limits) -> float:
    if limits.epsilon is None:
        return math.inf
    return max(limits.epsilon - used(spent, limits), 0.0)


def total_epsilon(spent: Spending, delta: float, limits: Limits) -> float:
    """The epsilon that holds at delta: of what was charged, or of what a filter ever admits."""
    if not is_filter(limits):
        return admission.total_epsilon(spent, delta, limits)
    if spent.first is None:
        return 0.0
    assert limits.epsilon is not None
    spent.exposures()  # a ledger that has no total says so
    if delta == limits.delta:
        return limits.epsilon
    return filter_of(spent.first, limits).epsilon(delta)


class _Taken:
    """What exposures take of a filter. From one to the next, only what differs is added up."""

    def __init__(self, spending: PrivacyFilter):
        self._filter = spending
        # Replaced as one, so that threads need no lock.
        self._last: tuple[Mapping[str, int], Usage] = {}, spending.nothing()

    def share(self, exposure: Exposure) -> Fraction:
        counts = exposure.counts
        before, tally = self._last
        changed = [(spec, n) for spec, n in counts.items() if before.get(spec) != n]
        changed += [(spec, 0) for spec in before.keys() - counts.keys()]
        for spec, number in changed:
            tally = self._filter.add(tally, decode(spec), number - before.get(spec, 0))
        self._last = counts, tally
        return self._filter.share_of(tally)


@lru_cache(maxsize=64)
def _taken(first: First, limits: Limits) -> _Taken:
    return _Taken(filter_of(first, limits))


def refusal(
    spec: str,
    releases: int,
    label: str | None,
    before: Spending,
    after: Spending,
    limits: Limits,
) -> str:
    """Why a charge is not admitted, in words."""
    name = repr(label) if label else "this charge"
    asked = f"{plural(releases, 'release')} of {describe(decode(spec))}"
    advice = (
        "Nothing was charged or released; ask for less (a smaller epsilon, fewer fits), "
        f"or stop here. Asked for: {asked}"
    )
    if is_filter(limits):
        spent, _ = in_percent(share(before, limits))
        alone = compose(((spec, releases),)).epsilon(limits.delta)
        return (
            f"{name} does not fit into the limit of epsilon {limits.epsilon} at delta "
            f"{limits.delta}, of which {spent} is spent; alone it would cost epsilon "
            f"{upwards(alone)}. The limit holds for charges chosen as "
            "you go; for a plan that was fixed before the first release, adaptive=False admits "
            f"a little more. {advice}"
        )
    terms = f"delta {limits.delta}" if limits.order is None else f"Renyi order {limits.order}"
    spent = upwards(used(before, limits))
    left = downwards(remaining(before, limits))
    return (
        f"{name} would bring the total epsilon to {upwards(used(after, limits))} at "
        f"{terms}, and the limit is {limits.epsilon}. {spent} is used and {left} is left, as a "
        "difference: charges are composed and not summed, so that a little more than this may "
        f"still be admitted. {advice}"
    )


def upwards(spent: float, decimals: int = 4) -> str:
    """In a few decimals, and not less than it is: a reader may repeat it as a claim."""
    if math.isinf(spent):
        return "infinite"
    # Divergences are rounded up by a part in 1e12 already, which should not fill a decimal.
    unit = 10.0**decimals
    return f"{math.ceil(spent * unit / (1 + 1e-12)) / unit:.{decimals}f}"


def downwards(left: float) -> str:
    return "infinite" if math.isinf(left) else f"{math.floor(left * 1e4) / 1e4:.4f}"
