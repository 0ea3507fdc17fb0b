"""Several releases that are paid for together."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .._validation import check_integer
from ..accounting.composition import MAX_RELEASES, Composition, PrivacyCurves, same_adjacency
from ..accounting.worst_case import WorstCase
from .base import Mechanism


@dataclass(frozen=True)
class JointMechanism(PrivacyCurves):
    """Mechanisms whose releases are one charge: all of them happen, or none.

    Its pairs are the products of theirs (docs/theory.md, section 1).

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

    def __post_init__(self):
        parts = tuple(
            (mechanism, check_integer("releases", count, at_least=1, at_most=MAX_RELEASES))
            for mechanism, count in self.parts
        )
        object.__setattr__(self, "parts", parts)
        adjacency = None
        for mechanism, _ in parts:
            adjacency = same_adjacency(mechanism, adjacency)

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
        """The number of tables released."""
        return sum(count for _, count in self.parts)

    @property
    def is_exact(self) -> bool:
        """Whether some part adds no noise."""
        return any(mechanism.is_exact for mechanism, _ in self.parts)

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return Composition(self.parts).worst_cases()
