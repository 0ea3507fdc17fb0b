"""What was charged, ready to be composed, and kept while more is charged.

A ledger only grows. So what was made of its charges serves for the next one, which is all
that is read and composed anew; the latest of each ledger stays in memory.
"""

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ..accounting import Composition
from ..accounting.products import FEW, LargeProduct
from ..accounting.worst_case import REVEALS_NOTHING, directions_of
from .codec import decode
from .ledger import Transaction
from .records import NOTHING, First, LedgerError, Position, Sums

_MAX_COMBINATIONS = 64
_REMEMBERED = 8  # ledgers


class Exposure:
    """Kinds with their numbers of releases that one record may have been exposed to.

    Parameters
    ----------
    counts : mapping of str to int
        The number of releases, by how the kind is stored.
    """

    def __init__(self, counts: Mapping[str, int]):
        self.counts = counts
        self._tallies: dict[str, LargeProduct] | None = None
        self._epsilons: dict[float, float] = {}

    def plus(self, added: Mapping[str, int], kinds: Mapping[str, Any] | None = None) -> "Exposure":
        """With more releases; what is known of these is kept.

        `kinds` may hold the mechanisms and guarantees that are added, if they are at hand.
        """
        if not added:
            return self
        counts = Counter(self.counts)
        counts.update(added)
        whole = Exposure(counts)
        if len(counts) > FEW:
            tallies = self._tallies
            if tallies is None:
                tallies, added = self._none(next(iter(counts))), counts
            whole._tallies = _plus(tallies, added, kinds or {})
        return whole

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """Kinds and numbers in one order, whichever they were charged in."""
        return tuple(sorted(self.counts.items()))

    @property
    def is_few(self) -> bool:
        """Whether it is composed as a whole, which is quick for a few kinds."""
        if len(self.counts) <= FEW:
            return True
        tallies = self._tallies or {}
        return not all(tally.is_many for tally in tallies.values())

    def composition(self) -> Composition:
        return compose(self.kinds)

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether the releases are known to be (epsilon, delta)-DP."""
        tallies = self._many()
        if tallies is None:
            return self.composition().holds(epsilon, delta)
        with np.errstate(all="ignore"):
            return all(tally.holds(epsilon, delta) for tally in tallies.values())

    def rdp(self, order: float) -> float:
        """The Renyi divergence of one order."""
        tallies = self._many()
        if tallies is None:
            return float(self.composition().rdp(order))
        with np.errstate(all="ignore"):
            return max(tally.rdp_at(order) for tally in tallies.values())

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon known to hold at delta; it is kept."""
        if delta not in self._epsilons:
            tallies = self._many()
            if tallies is None:
                self._epsilons[delta] = _epsilon(self.kinds, delta)
            else:
                with np.errstate(all="ignore"):
                    self._epsilons[delta] = max(t.epsilon(delta) for t in tallies.values())
        return self._epsilons[delta]

    def knows_epsilon(self, delta: float) -> bool:
        """Whether `epsilon` was computed before."""
        return delta in self._epsilons

    def _many(self) -> dict[str, LargeProduct] | None:
        """Tallies by direction; None for a few kinds, and where a tally cannot do it."""
        if self.is_few:
            return None
        # Without directions, where none could be made.
        return self._tallies or None

    def _none(self, spec: str) -> dict[str, LargeProduct]:
        nothing = LargeProduct.from_worst_case(REVEALS_NOTHING)
        assert nothing is not None
        return dict.fromkeys(directions_of(decode(spec).adjacency), nothing)


def _plus(
    tallies: Mapping[str, LargeProduct], added: Mapping[str, int], kinds: Mapping[str, Any]
) -> dict[str, LargeProduct]:
    cases = [
        ((kinds.get(spec) or decode(spec)).worst_cases(), releases)
        for spec, releases in added.items()
    ]
    whole = {}
    with np.errstate(all="ignore"):
        for direction, tally in tallies.items():
            more = tally.plus((case[direction], times) for case, times in cases)
            if more is None:
                return {}
            whole[direction] = more
    return whole


@lru_cache(maxsize=64)
def compose(kinds: tuple[tuple[str, int], ...]) -> Composition:
    return Composition([(decode(spec), releases) for spec, releases in kinds])


@lru_cache(maxsize=64)
def _epsilon(kinds: tuple[tuple[str, int], ...], delta: float) -> float:
    return compose(kinds).epsilon(delta)


class Spending:
    """All charges of a ledger up to one of them.

    Attributes
    ----------
    position : the last charge that is counted.
    whole : what every record was exposed to.
    parts : the numbers of releases on parts, by split and part.
    adjacencies : the relations that charges are under, in the order they came.
    first : the kind of the first charge and its number of releases, if there is one.
    is_checked : whether the limit of the ledger is known to have admitted these charges.
    """

    def __init__(
        self,
        position: Position,
        whole: Exposure,
        parts: dict[str, dict[str, Counter[str]]],
        adjacencies: tuple[str, ...],
        first: First | None,
    ):
        self.position = position
        self.whole = whole
        self.parts = parts
        self.adjacencies = adjacencies
        self.first = first
        self.is_checked = False
        self._exposures: list[Exposure] | None = None

    @classmethod
    def none(cls) -> "Spending":
        nothing = cls(NOTHING, Exposure({}), {}, (), None)
        nothing.is_checked = True
        return nothing

    def plus(
        self, added: Sums, position: Position | None = None, first: First | None = None
    ) -> "Spending":
        """With more charges, of which the last has a position; without one, if not yet made.

        `first` is the first of them, which counts if there was none before.
        """
        whole: Counter[str] = Counter()
        parts = self.parts
        adjacencies = list(self.adjacencies)
        kinds = {spec: decode(spec) for _, _, spec in added}
        for (split, part, spec), releases in added.items():
            adjacency = kinds[spec].adjacency
            if adjacency not in adjacencies:
                adjacencies.append(adjacency)
            if not split:
                whole[spec] += releases
                continue
            parts = parts | {split: dict(parts.get(split, {}))}
            parts[split][part] = parts[split].get(part, Counter()) + Counter({spec: releases})
        position = self.position if position is None else position
        # Under several relations there is nothing to compose.
        alone = len(adjacencies) == 1
        exposure = self.whole.plus(whole, kinds) if alone else self.whole
        return Spending(position, exposure, parts, tuple(adjacencies), self.first or first)

    def at(self, position: Position) -> "Spending":
        """The same, now that its last charge is in the ledger."""
        made = Spending(position, self.whole, self.parts, self.adjacencies, self.first)
        made._exposures, made.is_checked = self._exposures, self.is_checked
        return made

    def adjacency(self) -> str | None:
        """The relation that all charges are under.

        Version 0.1 called the exchange of a vector "replace" too, and let a ledger hold it
        beside the replacement of records, or several of its kinds. No neighbours are
        covered by all such charges, so that such a ledger has no total.
        """
        if len(self.adjacencies) > 1:
            raise LedgerError(
                "the ledger holds charges under different adjacencies, "
                f"{' and '.join(map(repr, sorted(self.adjacencies)))}, which version 0.1 of "
                "skdirdp took for one. Their total would be too small for either, so none is "
                "given and nothing can be charged; history() lists the charges. Start one ledger "
                "for each adjacency, and charge to it what was released under it"
            )
        return self.adjacencies[0] if self.adjacencies else None

    def exposures(self) -> list[Exposure]:
        """What a record may be exposed to, for every choice of parts it can lie in."""
        self.adjacency()
        if self._exposures is None:
            choices = [_largest(list(parts.values())) for parts in self.parts.values()]
            combinations = math.prod(len(parts) for parts in choices)
            if combinations > _MAX_COMBINATIONS:
                raise ValueError(
                    f"a record can be in {combinations} combinations of parts that were charged "
                    f"differently, and at most {_MAX_COMBINATIONS} can be compared. Charge the "
                    "parts of a split alike, or charge the whole data set"
                )
            empty: Counter[str] = Counter()
            self._exposures = [self.whole.plus(sum(parts, empty)) for parts in product(*choices)]
        return self._exposures


def _largest(parts: list[Counter[str]]) -> list[Counter[str]]:
    """The parts that no other part was charged at least as much as, kind by kind.

    A part charged less than another is a post-processing of it, and cannot be worse.
    """
    kept: list[Counter[str]] = []
    for part in sorted(parts, key=lambda part: -part.total()):
        if not any(part <= larger for larger in kept):
            kept.append(part)
    return kept


# The latest of the ledgers that were used last, by identity. Values are never changed but
# for what they keep of their own results, and are put in place as a whole.
_KNOWN: dict[str, Spending] = {}


def known_spending(identity: str) -> Spending:
    """What is remembered of a ledger's charges; none of them, if nothing is."""
    return _KNOWN.get(identity) or Spending.none()


def remember(identity: str, spent: Spending) -> Spending:
    """Keep it for the next charge."""
    global _KNOWN
    others = [item for item in list(_KNOWN.items()) if item[0] != identity]
    # Replaced at once: another thread sees the old or the new.
    _KNOWN = dict([*others[1 - _REMEMBERED :], (identity, spent)])
    return spent


def caught_up(transaction: Transaction, known: Spending) -> Spending:
    """All charges of a ledger; only those beyond what is known are read.

    All are, where the ledger does not hold what is known: a copy was put back in its place.
    """
    position = transaction.last()
    if position == known.position:
        return known
    added = transaction.sums_since(known.position) if known.position[0] else None
    if added is None:
        return Spending.none().plus(transaction.sums(), position, transaction.first())
    return known.plus(added, position)
