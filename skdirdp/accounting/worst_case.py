"""Worst cases of releases and guarantees, by direction, and how they combine.

Under replacement there is one direction: the pair read backwards is again a
replacement. Adding and removing a record are two, and they never mix: a
composition is all of one or all of the other.

Worst cases combine only under one and the same relation between neighbours. For
records the relation is named by "replace" or "add_remove", for persons with all their
records by "replace_person" or "add_remove_person". For vectors of
probabilities it depends on public numbers, and its name carries them all:
``replace_vector(protected=(0, 1), eta=0.05, eta_bar=0.05, b=1.0, n_vectors=100)``, as
`SimplexMechanism.adjacency` writes it. Equal names are equal relations.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._messages import plural
from .._validation import check_choice
from .pairs import DominatingPair, Floats

#: The directions of each kind of relation between neighbours.
DIRECTIONS = {
    "replace": ("replace",),
    "add_remove": ("add", "remove"),
    "replace_person": ("replace",),
    "add_remove_person": ("add", "remove"),
    "replace_vector": ("replace_vector",),
}
#: The relations between data sets of records.
ADJACENCIES = ("replace", "add_remove")
#: The same between data sets of persons, who have several records each.
OF_PERSONS = {adjacency: f"{adjacency}_person" for adjacency in ADJACENCIES}
#: All that a table of counts may be released under.
TABLE_RELATIONS = (*ADJACENCIES, *OF_PERSONS.values())
VECTORS = "replace_vector"
#: More records of one person than this nobody means.
MOST_ROWS = 10**9


def kind_of(adjacency: str) -> str:
    """The kind of a relation: its name without the numbers it depends on."""
    return VECTORS if adjacency.startswith(f"{VECTORS}(") else adjacency


def check_relation(adjacency: str) -> str:
    """The name of a relation, of records or of vectors, or an error that lists the names."""
    if isinstance(adjacency, str) and adjacency.startswith(f"{VECTORS}("):
        return adjacency
    return check_choice("adjacency", adjacency, TABLE_RELATIONS)


def replaces(adjacency: str) -> bool:
    """Whether neighbours differ by an exchange, of which both sides are to be hidden."""
    return adjacency.startswith("replace")


def directions_of(adjacency: str) -> tuple[str, ...]:
    return DIRECTIONS[kind_of(adjacency)]


@dataclass(frozen=True)
class Unit:
    """What a guarantee protects: a record, or a person with several of them.

    Parameters
    ----------
    max_rows : int, default=1
        The records that a person has at most, or that are counted of a person.
    by_ids : bool, default=False
        Whether `groups` said whose records are whose, and further ones were left out.
        Otherwise `max_rows` is a declaration, which nobody has checked.

    Examples
    --------
    >>> from skdirdp import DirichletHistogramTransformer
    >>> bins = DirichletHistogramTransformer(
    ...     bounds=(0, 1), max_rows=2, n_samples=3, adjacency="add_remove"
    ... )
    >>> bins.fit([[0.1], [0.2], [0.3], [0.9]], groups=[7, 7, 7, 8]).privacy_.unit
    Unit(max_rows=2, by_ids=True)
    >>> print(bins.privacy_.unit)
    one person, of whom up to 2 records are counted
    """

    max_rows: int = 1
    by_ids: bool = False

    @property
    def is_person(self) -> bool:
        """False for a single record."""
        return self.by_ids or self.max_rows > 1

    def __str__(self) -> str:
        return self.describe("person")

    def describe(self, name: str) -> str:
        """The unit in words, where persons are called by a name.

        Parameters
        ----------
        name : str
            A noun: "person", "patient".

        Returns
        -------
        str
        """
        if self.by_ids:
            are = "is" if self.max_rows == 1 else "are"
            return f"one {name}, of whom up to {plural(self.max_rows, 'record')} {are} counted"
        if self.is_person:
            return f"one {name} with up to {self.max_rows} records (declared, not checked)"
        return "one record"


RECORD = Unit()


def common_unit(units: Iterable[Unit]) -> Unit:
    """What several releases of one data set protect together.

    All of them must protect records, or all persons; composition refuses others. A person
    who has more records than some release was told of is not covered by that one.
    """
    units = set(units)
    declared = [unit for unit in units if not unit.by_ids]
    if declared:
        return min(declared, key=lambda unit: unit.max_rows)
    return max(units, key=lambda unit: unit.max_rows, default=RECORD)


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
        # No slope is none at an infinite order too, where the product would be nan.
        rise = self.slope * order if self.slope else np.zeros(order.shape)
        return np.where(order <= 1 + self.max_tilt, self.offset + rise, np.inf)


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

#: No release at all.
REVEALS_NOTHING = WorstCase(renyi=(), profile=())


def in_every_direction(adjacency: str, case: WorstCase) -> dict[str, WorstCase]:
    return dict.fromkeys(directions_of(adjacency), case)


def combine(cases: Iterable[tuple[WorstCase, int]]) -> WorstCase:
    """The worst case of independent releases, each repeated a number of times."""
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
        log_survival += times * (np.log1p(-case.failure) if case.failure < 1 else -np.inf)
    return WorstCase(
        renyi=tuple(renyi.items()),
        profile=None if profile is None else tuple(profile.items()),
        failure=float(-np.expm1(log_survival)),
    )
