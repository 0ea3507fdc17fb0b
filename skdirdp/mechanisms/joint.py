"""Several releases that are paid for together."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..accounting.worst_case import DIRECTIONS, WorstCase, combine
from .base import Mechanism


@dataclass(frozen=True)
class JointMechanism:
    """Mechanisms whose releases are one charge: all of them happen, or none.

    Parameters
    ----------
    parts : tuple of (mechanism, number of releases)
        All under the same adjacency.

    Examples
    --------
    >>> from skdirdp.mechanisms import DirichletMechanism, JointMechanism
    >>> prior, features = DirichletMechanism(0.1, 4.0), DirichletMechanism(0.05, 4.0)
    >>> JointMechanism(((prior, 1), (features, 13))).releases
    14
    """

    parts: tuple[tuple[Mechanism, int], ...]

    @classmethod
    def of(cls, mechanisms: Iterable[Mechanism]) -> "JointMechanism":
        """One release by each of the mechanisms; equal ones are counted.

        Parameters
        ----------
        mechanisms : iterable of Mechanism
            In any order.

        Returns
        -------
        JointMechanism
        """
        return cls(tuple(Counter(mechanisms).items()))

    def as_charge(self) -> "tuple[Mechanism | JointMechanism, int]":
        """What an accountant is charged: a mechanism with its releases, or all parts as one.

        Returns
        -------
        tuple of (mechanism, number of releases)
        """
        return self.parts[0] if len(self.parts) == 1 else (self, 1)

    @property
    def adjacency(self) -> str:
        """That of all parts."""
        return self.parts[0][0].adjacency

    @property
    def releases(self) -> int:
        """How many tables are released."""
        return sum(count for _, count in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether some part adds no noise."""
        return any(mechanism.is_exact for mechanism, _ in self.parts)

    def worst_cases(self) -> Mapping[str, WorstCase]:
        """The pairs that bound all parts together, for composition.

        Returns
        -------
        dict of WorstCase
            By direction: "replace", or "add" and "remove".
        """
        directions = DIRECTIONS[self.adjacency]
        each = [(mechanism.worst_cases(), count) for mechanism, count in self.parts]
        return {
            direction: combine((cases[direction], count) for cases, count in each)
            for direction in directions
        }
