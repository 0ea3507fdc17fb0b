"""What a release, or a guarantee, hands to composition: its worst case per direction.

Under replacement there is one direction: the pair read backwards is again a
replacement. Adding and removing a record are two, and they never mix: a
composition is all of one or all of the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from .pairs import DominatingPair, Floats

DIRECTIONS = {"replace": ("replace",), "add_remove": ("add", "remove")}
ADJACENCIES = tuple(DIRECTIONS)


class RenyiCurve(Protocol):
    """Anything with a Renyi curve: a dominating pair, or a bound on one."""

    @property
    def max_tilt(self) -> float: ...

    def rdp(self, order: ArrayLike) -> Floats: ...


@dataclass(frozen=True)
class RenyiBound:
    """A Renyi divergence of at most ``offset + slope * order`` up to order 1 + max_tilt."""

    slope: float
    offset: float
    max_tilt: float

    def rdp(self, order: ArrayLike) -> Floats:
        order = np.asarray(order, dtype=float)
        return np.where(order <= 1 + self.max_tilt, self.offset + self.slope * order, np.inf)


@dataclass(frozen=True)
class WorstCase:
    """Curves that bound a release, each with the number of times it counts.

    Attributes
    ----------
    renyi : curves whose Renyi divergences, added, bound the release's.
    profile : pairs that together dominate the release, or None if none are known
        and only the Renyi curve can be used.
    failure : the probability with which everything is revealed.
    """

    renyi: tuple[tuple[RenyiCurve, int], ...]
    profile: tuple[tuple[DominatingPair, int], ...] | None
    failure: float = 0.0


#: A release that adds no noise.
REVEALS_ALL = WorstCase(renyi=((RenyiBound(0.0, np.inf, np.inf), 1),), profile=(), failure=1.0)


def in_every_direction(adjacency: str, case: WorstCase) -> dict[str, WorstCase]:
    return dict.fromkeys(DIRECTIONS[adjacency], case)


class Accountable(Protocol):
    """What can be composed: a mechanism or a guarantee."""

    @property
    def adjacency(self) -> str: ...

    def worst_cases(self) -> Mapping[str, WorstCase]: ...
