"""Worst cases of releases and guarantees by direction, and their combination.

Adding and removing a record are two directions: in a composition the record is added in all
releases or removed in all. Worst cases combine only under the same adjacency relation. For vectors
the name of the relation contains its public parameters, as in `SimplexMechanism.adjacency`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._messages import plural
from .._validation import check_choice
from .pairs import DominatingPair, Floats, Pairs

#: The directions of each kind of adjacency relation.
DIRECTIONS = {
    "replace": ("replace",),
    "add_remove": ("add", "remove"),
    "replace_person": ("replace",),
    "add_remove_person": ("add", "remove"),
    "replace_vector": ("replace_vector",),
}
#: The relations between data sets of records, and those between data sets of people.
ADJACENCIES = ("replace", "add_remove")
PERSON_RELATIONS = {adjacency: f"{adjacency}_person" for adjacency in ADJACENCIES}
#: The relations under which a table of counts can be released.
TABLE_RELATIONS = (*ADJACENCIES, *PERSON_RELATIONS.values())
VECTORS = "replace_vector"
#: The largest accepted number of records per person.
MAX_ROWS_LIMIT = 10**9
# Relative amount by which sums are rounded up.
_SUM_ROUNDING = 1e-15


def relation_kind(adjacency: str) -> str:
    """Return the kind of a relation: its name without parameters."""
    return VECTORS if adjacency.startswith(f"{VECTORS}(") else adjacency


def check_relation(adjacency: str) -> str:
    """Return the name of a relation, or raise an error that lists the valid names."""
    if isinstance(adjacency, str) and adjacency.startswith(f"{VECTORS}("):
        return adjacency
    return check_choice("adjacency", adjacency, TABLE_RELATIONS)


def replaces(adjacency: str) -> bool:
    """Return whether neighbours differ by a replacement, so that two records must be hidden."""
    return adjacency.startswith("replace")


def directions_of(adjacency: str) -> tuple[str, ...]:
    return DIRECTIONS[relation_kind(adjacency)]


@dataclass(frozen=True)
class Unit:
    """Unit of privacy: one record, or one person with several records.

    If `by_ids`, `groups` assigned records to people, and further records of a person were dropped.
    Otherwise `max_rows` was declared and is not checked.

    >>> print(Unit(max_rows=2, by_ids=True))
    one person, of whom up to 2 records are counted
    """

    max_rows: int = 1  # the largest number of records of a person that are counted
    by_ids: bool = False

    @property
    def is_person(self) -> bool:
        """Whether the unit is a person rather than a single record."""
        return self.by_ids or self.max_rows > 1

    def __str__(self) -> str:
        return self.describe("person")

    def describe(self, name: str) -> str:
        """Describe the unit in words, with a noun for a person, such as "patient"."""
        if self.by_ids:
            are = "is" if self.max_rows == 1 else "are"
            return f"one {name}, of whom up to {plural(self.max_rows, 'record')} {are} counted"
        if self.is_person:
            return f"one {name} with up to {self.max_rows} records (declared, not checked)"
        return "one record"


RECORD = Unit()


def common_unit(units: Iterable[Unit]) -> Unit:
    """Return the unit that several releases of one data set protect together."""
    # A release does not cover people with more records than it assumed.
    units = set(units)
    declared = [unit for unit in units if not unit.by_ids]
    if declared:
        return min(declared, key=lambda unit: unit.max_rows)
    return max(units, key=lambda unit: unit.max_rows, default=RECORD)


@dataclass(frozen=True)
class RenyiBound:
    """Bound ``offset + slope * order`` on the Renyi divergence up to order 1 + max_tilt."""

    slope: float
    offset: float
    max_tilt: float

    def rdp(self, order: ArrayLike) -> Floats:
        order = np.asarray(order, dtype=float)
        # At an infinite order the product with a zero slope would be nan.
        rise = self.slope * order if self.slope else np.zeros(order.shape)
        return np.where(order <= 1 + self.max_tilt, self.offset + rise, np.inf)

    def plus(self, other: "RenyiBound", times: int = 1) -> "RenyiBound":
        """Return a bound on the sum of this divergence and another one, taken several times."""
        slope, offset = self.slope + times * other.slope, self.offset + times * other.offset
        return RenyiBound(slope, offset, min(self.max_tilt, other.max_tilt))


RenyiCurve = DominatingPair | RenyiBound
#: Curves with their multiplicities.
Curves = tuple[tuple[RenyiCurve, int], ...]


@dataclass(frozen=True)
class WorstCase:
    """Curves that bound a release, each with its multiplicity.

    The divergences of `renyi` add up to a bound. The product of the pairs in `profile` dominates
    the release; it is None if only the Renyi curve is known.
    """

    renyi: Curves
    profile: Pairs | None
    failure: float = 0.0  # probability that everything is revealed

    @classmethod
    def from_pair(cls, pair: DominatingPair) -> "WorstCase":
        return cls(renyi=((pair, 1),), profile=((pair, 1),))

    @classmethod
    def from_bound(cls, bound: RenyiBound) -> "WorstCase":
        return cls(renyi=((bound, 1),), profile=None)

    @property
    def log_survival(self) -> float:
        """Logarithm of the probability that not everything is revealed."""
        return float(np.log1p(-self.failure)) if self.failure < 1 else -np.inf


def renyi_epsilon(order: Floats | float, divergence: Floats | float, delta: float) -> Floats:
    """Compute the epsilon at delta: Canonne, Kamath and Steinke (2020), Proposition 12."""
    order = np.asarray(order, dtype=float)
    cost = np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
    # Rounded up by more than in `renyi_log_delta`, whose delta here is then at most the given one.
    return np.maximum(divergence + cost + 4 * _SUM_ROUNDING * (divergence + np.abs(cost)), 0.0)


def renyi_log_delta(order: Floats | float, divergence: Floats | float, epsilon: float) -> Floats:
    """Compute log delta at epsilon, the inverse of `renyi_epsilon`."""
    order = np.asarray(order, dtype=float)
    gain = (order - 1) * (divergence - epsilon + _SUM_ROUNDING * (divergence + epsilon))
    return gain + (order - 1) * np.log1p(-1 / order) - np.log(order)


#: A release that adds no noise.
REVEALS_ALL = WorstCase(renyi=((RenyiBound(0.0, np.inf, np.inf), 1),), profile=(), failure=1.0)


def in_every_direction(adjacency: str, case: WorstCase) -> dict[str, WorstCase]:
    return dict.fromkeys(directions_of(adjacency), case)


def combine(cases: Iterable[tuple[WorstCase, int]]) -> WorstCase:
    """Combine the worst cases of independent releases, each with its number of repetitions."""
    renyi: Counter[RenyiCurve] = Counter()
    profile: Counter[DominatingPair] | None = Counter()
    log_survival = 0.0
    for case, times in cases:
        for curve, count in case.renyi:
            renyi[curve] += count * times
        if case.profile is None or profile is None:
            profile = None
        else:
            for pair, count in case.profile:
                profile[pair] += count * times
        log_survival += times * case.log_survival
    pairs = None if profile is None else tuple(profile.items())
    return WorstCase(tuple(renyi.items()), pairs, float(-np.expm1(log_survival)))
