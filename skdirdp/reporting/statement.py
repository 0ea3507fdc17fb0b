"""The sentence that states a guarantee, filled in: docs/statement.md."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._messages import plural
from ..accounting import RenyiDP
from ..accounting.worst_case import VECTORS, kind_of
from .text import factor_up, number, rounded_up, visible

#: For a Renyi guarantee, which names no delta, the meaning is told at this one.
EXAMPLE_DELTA = 1e-5
RECORD = "record"
#: For readers of an adaptive limit, beside the share of it that is spent.
ADAPTIVE_LIMIT = (
    "An adaptive limit is one guarantee for all charges together. Its ε holds from the first "
    "charge and is the total, regardless of how much of the limit is spent. The spent part is a "
    "share of what the limit admits, not the sum of the ε of the charges."
)
# A ledger knows what was charged, and not what a fit took from the data besides.
_EXCEPT_MODELS = (
    "Not covered: what a published model took from the data without noise, or drew from a given "
    "seed; its own statement says so."
)
_ROUNDING = 1e-12  # of floating point, on the safe side


@dataclass(frozen=True)
class Claim:
    """A guarantee, and what it protects against what.

    Parameters
    ----------
    epsilon : float
        Infinite if nothing is guaranteed.
    delta : float or None
        The claim is (epsilon, delta)-DP, unless `order` is given; 0 is pure DP.
    order : float or None
        Given, the claim is (order, epsilon)-RDP.
    adjacency : str
        The relation between neighbours.
    unit : str, or what reads as one, or None
        What is protected: "person", "one person with up to 3 records"; None is one record.
    chosen : bool, default=True
        Whether somebody chose epsilon. A computed one is shown in few digits, rounded up.
    """

    epsilon: float
    delta: float | None
    order: float | None
    adjacency: str
    unit: Any = None
    chosen: bool = True

    @property
    def holds(self) -> bool:
        """Whether anything is guaranteed."""
        return math.isfinite(self.epsilon)

    @property
    def kind(self) -> str:
        """The guarantee with its numbers."""
        epsilon = number(self.epsilon) if self.chosen else rounded_up(self.epsilon)
        if self.order is not None:
            return f"(λ = {number(self.order)}, ε = {epsilon})-Rényi differentially private"
        if not self.delta:
            return f"(ε = {epsilon})-differentially private"
        return f"(ε = {epsilon}, δ = {number(self.delta)})-differentially private"

    @property
    def protected(self) -> str:
        """What is protected, with its number."""
        if _is_of_vectors(self.adjacency):
            return "one vector"
        unit = "" if self.unit is None else visible(self.unit).removeprefix("one ")
        if unit in ("", RECORD):
            persons = self.adjacency.endswith("_person")
            return "the data of one person" if persons else "one record"
        return f"the data of one {unit}"

    @property
    def against(self) -> str:
        """The change that is hidden, as the guarantee names it."""
        if _is_of_vectors(self.adjacency):
            limits = visible(self.adjacency)
            return f"the exchange of one vector for another within its limits, {limits}"
        if self.adjacency.startswith("add_remove"):
            return f"adding or removing {self.protected}"
        return f"the replacement of {self.protected}{self._end} by any other"

    @property
    def _change(self) -> str:
        if _is_of_vectors(self.adjacency):
            return "exchanging one vector for another within these limits"
        if self.adjacency.startswith("add_remove"):
            return f"the presence or absence of {self.protected}"
        return f"exchanging {self.protected}{self._end} for any other"

    @property
    def _end(self) -> str:
        """A comma after a clause, which is not one in brackets."""
        return "," if "," in re.sub(r"\(.*?\)", "", self.protected) else ""

    @property
    def meaning(self) -> str:
        """What the guarantee means, as a sentence."""
        others = "vectors" if _is_of_vectors(self.adjacency) else "records"
        start = (
            f"whatever the other {others} are, and whatever a reader knows besides, "
            f"{self._change} changes the probability of every set of possible publications by a "
            "factor of at most"
        )
        if self.order is not None:
            delta = EXAMPLE_DELTA if self.delta is None else self.delta
            converted = RenyiDP(self.order, self.epsilon).to_approximate(delta).epsilon
            epsilon = converted * (1 + _ROUNDING)
            return (
                f"It follows, for example, that {start} {factor_up(epsilon)}, up to an additive "
                f"δ = {number(delta)} (ε = {rounded_up(epsilon)})."
            )
        up_to = f", up to an additive δ = {number(self.delta)}" if self.delta else ""
        return f"That is: {start} e^ε = {factor_up(self.epsilon)}{up_to}."


def _is_of_vectors(adjacency: str) -> bool:
    return kind_of(adjacency) == VECTORS


def exceptions_to(not_covered: Sequence[str]) -> list[str]:
    """What a guarantee does not hold for, as sentences."""
    sentences = []
    from_data = [visible(name) for name in not_covered if name != "random_state"]
    if from_data:
        verb = "was" if len(from_data) == 1 else "were"
        sentences.append(f"Not covered: {', '.join(from_data)}, which {verb} taken from the data.")
    if "random_state" in not_covered:
        sentences.append(
            "The noise was drawn from a given seed (random_state), and whoever knows it can "
            "remove the noise."
        )
    return sentences


def model_statement(claim: Claim, not_covered: Sequence[str], n_records: int | None = None) -> str:
    """The sentence for one published model; the number of records only where it is public."""
    records = "the records" if n_records is None else plural(n_records, "record")
    if not claim.holds:
        return (
            "The published model has no guarantee of differential privacy: epsilon is infinite, "
            f"and nothing limits what it tells about {claim.protected}."
        )
    sentence = (
        f"The published model was computed from {records} by a randomised procedure that is "
        f"{claim.kind} with respect to {claim.against}."
    )
    return " ".join([sentence, claim.meaning, *exceptions_to(not_covered)])


@dataclass(frozen=True)
class LedgerFacts:
    """What a statement needs to know of a ledger.

    Parameters
    ----------
    name : str or None
        What the data set is called.
    charges : int
        How many there are.
    limit : Claim or None
        What the ledger admits at most, if anything limits it.
    total : Claim
        What all charges cost together, with budgets that were fixed beforehand.
    adaptive : bool
        Whether budgets may be chosen by looking at what was released.
    admitted : bool, default=True
        Whether the limit decided on all charges of the ledger, and holds them. A ledger that
        others were merged into has charges that it never admitted.
    """

    name: str | None
    charges: int
    limit: Claim | None
    total: Claim
    adaptive: bool
    admitted: bool = True

    @property
    def claim(self) -> Claim:
        """What may be said: for budgets chosen on the way the limit, else the total."""
        if self.adaptive and self.limit is not None and self.admitted:
            return self.limit
        return self.total


def ledger_statement(facts: LedgerFacts) -> str:
    """The sentence for everything that was published from a data set."""
    data_set = f"the data set “{visible(facts.name)}”" if facts.name else "the data set"
    if facts.charges == 0:
        return (
            f"Nothing that was published from {data_set} is charged to its ledger: there is "
            "nothing to state."
        )
    subject = (
        f"All that was published from {data_set} and is charged to its ledger, in "
        f"{plural(facts.charges, 'charge')}, was computed by randomised procedures"
    )
    claim = facts.claim
    if not claim.holds:
        return (
            f"What was published from {data_set} has no guarantee of differential privacy: of "
            f"{plural(facts.charges, 'charge')} at least one was made without noise, or with too "
            "little for a finite epsilon."
        )
    sentence = f"{subject} that together are {claim.kind} with respect to {claim.against}."
    return " ".join([sentence, claim.meaning, _plan(facts), _EXCEPT_MODELS])


def _plan(facts: LedgerFacts) -> str:
    if facts.claim is facts.limit:
        return (
            "This is the limit that the ledger keeps. It holds however the budgets were chosen, "
            "also by looking at earlier publications, and is stated as a whole even if a part of "
            "it is not spent."
        )
    condition = (
        "This holds if every budget was fixed before the first publication, and is not "
        "guaranteed if one was chosen by looking at earlier ones."
    )
    if not facts.adaptive:
        return condition
    if facts.limit is None:
        why = "the ledger has no limit"
    else:
        why = "not all of its charges were admitted by its limit"
    return f"{condition} For budgets chosen on the way nothing can be stated, since {why}."


def terms(claim: Any) -> str:
    """Where an epsilon is told: at a delta, or at an order."""
    if claim.order is not None:
        return f"Rényi order {number(claim.order)}"
    return f"δ = {number(claim.delta)}" if claim.delta else "δ = 0"
