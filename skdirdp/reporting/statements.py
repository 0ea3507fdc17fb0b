"""Sentences that state a guarantee (docs/statement.md), and the numbers and strings in them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from .._messages import format_exact, plural
from ..accounting import RenyiDP
from ..accounting.attacks import AttackBounds
from ..accounting.worst_case import VECTORS, relation_kind

#: Delta at which a Renyi guarantee, which has no delta, is explained.
EXAMPLE_DELTA = 1e-5
#: False-positive rate at which attacks are explained.
EXAMPLE_RATE = 0.01
RECORD = "record"
#: Explanation of an adaptive limit, next to the share of it that is spent.
ADAPTIVE_LIMIT = (
    "An adaptive limit is one guarantee for all charges together. From the first charge on, the "
    "total is the ε of the limit, regardless of how much of the limit is spent. The amount spent "
    "is a share of what the limit admits, not the sum of the epsilons of the charges."
)
#: Explanation of bounds on attacks under an adaptive limit.
ADAPTIVE_ATTACKS = (
    "The bounds on answers and guesses hold for all charges that the limit will ever admit, and "
    "are usually looser than those of a plan that was fixed beforehand."
)
# A ledger contains the charges, but not which parameters a fit took from the data.
_EXCEPT_MODELS = (
    "Not covered: what a published result took from the data without noise, or drew from a given "
    "seed; its own statement says so."
)
_ROUNDING = 1e-12  # bound on the rounding error of a conversion

# Every float is a finite decimal of fewer digits, so that nothing is rounded before it is shown.
_EXACT = Context(prec=1200, Emax=10**9, Emin=-(10**9))
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGEST_EXPONENT = 1e6  # largest exponent of e for a factor that is written out
_POSITIONAL = range(-7, 7)  # powers of ten that are written out
# Invisible but harmless: some languages need them, and they keep numbers together.
_JOINERS = "\u200c\u200d\u00a0\u2009"


@dataclass(frozen=True)
class Claim:
    """Privacy guarantee: (epsilon, delta)-DP, or (order, epsilon)-RDP if `order` is given."""

    epsilon: float
    delta: float | None
    order: float | None
    adjacency: str
    unit: Any = None  # protected unit, such as "one person with up to 3 records"
    chosen: bool = True  # whether epsilon was chosen; a computed epsilon is rounded up
    noun: str = "person"  # name of the unit if it may have several records
    # Whether only persons with equally many records replace each other, so that these numbers are
    # public. None if this depends on the publication.
    same_size: bool | None = False

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
        """The protected unit, with its number."""
        if self._is_of_vectors:
            return "one vector"
        if not self.is_of_persons:
            return "one record"
        return f"the data of one {self._unit or self.noun}"

    @property
    def against(self) -> str:
        """The change of the data that the guarantee hides."""
        if self._is_of_vectors:
            limits = visible(self.adjacency)
            return f"the exchange of one vector for another within its limits, {limits}"
        if not self._replaces:
            return f"adding or removing {self.protected}"
        return f"the replacement of {self.protected}{self._comma} by {self._replacement}"

    @property
    def meaning(self) -> str:
        """A sentence that explains the guarantee."""
        others, change = "records", f"exchanging {self.protected}{self._comma}"
        change += f" for {self._replacement}{self._comma}"
        if self._is_of_vectors:
            others, change = "vectors", "exchanging one vector for another within these limits"
        elif not self._replaces:
            change = f"the presence or absence of {self.protected}{self._comma}"
        start = (
            f"whatever the other {others} are, and whatever else a reader knows, {change} "
            "changes the probability of every set of possible publications by a factor of at most"
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

    @property
    def question(self) -> str:
        """The question that an attack tries to answer."""
        if self._is_of_vectors:
            return "which of two vectors within these limits was used"
        if not self._replaces:
            return f"whether {self.protected}{self._comma} was used or not"
        return f"which of two versions of {self.protected}{self._comma} was used"

    @property
    def explanation(self) -> str:
        """Sentences on what is protected, and what is not promised about the number of units."""
        start, end = f"The content of {self.protected}", ", whichever it is."
        if self.is_of_persons:
            start = f"T{self.protected[1:]}"
        if not self._replaces:
            were = "they were" if self.is_of_persons else "it was"
            end = f", and whether {were} used at all{end}"
        sentences = [start + end, *self._unit_sentences]
        if self._replaces:
            who, what = "who", f"how many {'vectors' if self._is_of_vectors else 'records'}"
            if self.is_of_persons:
                who, what = f"whether a given {self.noun}", "how many of them"
            sentences.append(
                f"Nothing is promised about {who} is in the data, nor about {what} there are."
            )
        return " ".join(sentences)

    @property
    def _unit_sentences(self) -> list[str]:
        if self._is_of_vectors:
            return []
        if not self.is_of_persons:
            return [
                "A record is one row of the data. If a person has several rows, each row is "
                "protected by itself, and the person is protected less."
            ]
        number = "Their number is protected too."
        if self._replaces and self.same_size is None:
            number = f"{number[:-1]}, unless the statement of a publication says otherwise."
        elif self._replaces and self.same_size:
            number = "Their number is public."
        sentences = [f"All counted records of one {self.noun} are protected together. {number}"]
        if re.search(r" with (up to|at most) ", self._unit):
            sentences.append(f"A {self.noun} with more records is protected less.")
        return sentences

    @property
    def public_number(self) -> str:
        """Sentence on the number that all neighbours share; empty if there is none."""
        if not self._replaces:
            return ""
        if not self.is_of_persons:
            return f"The number of {'vectors' if self._is_of_vectors else 'records'} is public too."
        also = ", and so is the number of records of each" if self.same_size else ""
        return f"The number of protected units, each one {self.noun}, is public too{also}."

    @property
    def is_of_persons(self) -> bool:
        """Whether all records of a person, or of a group such as a household, are protected."""
        return self.adjacency.endswith("_person") or bool(self._unit)

    @property
    def _unit(self) -> str:
        """The unit without its number; empty for records, vectors and undescribed persons."""
        unit = "" if self.unit is None else visible(self.unit).removeprefix("one ")
        return "" if unit == RECORD or self._is_of_vectors else unit

    @property
    def _replacement(self) -> str:
        return "any other with as many records" if self.same_size else "any other"

    @property
    def _replaces(self) -> bool:
        return self.adjacency.startswith("replace")

    @property
    def _is_of_vectors(self) -> bool:
        return relation_kind(self.adjacency) == VECTORS

    @property
    def _comma(self) -> str:
        """A comma if the protected unit ends with a clause outside brackets."""
        return "," if "," in re.sub(r"\(.*?\)", "", self.protected) else ""


def exceptions_to(not_covered: Sequence[str]) -> list[str]:
    """Return sentences about the parts of a model that the guarantee does not cover."""
    sentences = []
    from_data = [visible(name) for name in not_covered if name != "random_state"]
    if from_data:
        verb = "was" if len(from_data) == 1 else "were"
        sentences.append(f"Not covered: {', '.join(from_data)}, which {verb} taken from the data.")
    if "random_state" in not_covered:
        seed = "The noise was drawn from a given seed (random_state)"
        sentences.append(f"{seed}, and anyone who knows it can remove the noise.")
    return sentences


def attack_sentences(claim: Claim, attacks: AttackBounds) -> str:
    rate, few = float(attacks.true_positive_rate(EXAMPLE_RATE)), percent_up(EXAMPLE_RATE)
    return (
        "Suppose that somebody knows everything else, and tries to find out "
        f"{claim.question}. With false alarms in {few} of cases, the answer is found in at most "
        f"{percent_up(rate)} of cases; blind guessing finds it in {few}. If both answers are "
        "equally likely beforehand, a guess is right with a probability of at most "
        f"{percent_up(attacks.advantage() / 2, 50)}; without the publication it is 50%."
    )


def model_statement(
    claim: Claim, not_covered: Sequence[str], n_records: int | None = None, attacks: Any = None
) -> str:
    """Return the statement for one model; pass the number of records only if it is public."""
    records = "the records" if n_records is None else plural(n_records, "record")
    if not claim.holds:
        return (
            "The published results have no guarantee of differential privacy: epsilon is infinite, "
            f"and nothing limits what they reveal about {claim.protected}."
        )
    sentence = (
        f"The published results were computed from {records} by a randomised procedure that is "
        f"{claim.kind} with respect to {claim.against}."
    )
    return " ".join([sentence, *_meaning(claim, attacks), *exceptions_to(not_covered)])


def _meaning(claim: Claim, attacks: AttackBounds | None) -> list[str]:
    return [claim.meaning, *([] if attacks is None else [attack_sentences(claim, attacks)])]


@dataclass(frozen=True)
class LedgerFacts:
    """Facts about a ledger that its statement needs."""

    name: str | None
    charges: int
    limit: Claim | None
    total: Claim  # claim for all charges, if their budgets were fixed in advance
    adaptive: bool
    admitted: bool = True  # whether the limit admitted all charges; merged charges were not
    attacks: AttackBounds | None = None  # bounds that hold together with the claim

    @property
    def claim(self) -> Claim:
        """The guarantee to state: the limit for adaptive budgets, the total otherwise."""
        if self.adaptive and self.limit is not None and self.admitted:
            return self.limit
        return self.total


def ledger_statement(facts: LedgerFacts) -> str:
    """Return the statement for everything that was published from a data set."""
    data_set = f"the data set “{visible(facts.name)}”" if facts.name else "the data set"
    if facts.charges == 0:
        start = f"Nothing that was published from {data_set} is charged to its ledger"
        return f"{start}: there is nothing to state."
    charges, claim = plural(facts.charges, "charge"), facts.claim
    if not claim.holds:
        return (
            f"What was published from {data_set} has no guarantee of differential privacy: of "
            f"{charges} at least one was made without noise, or with too little for a finite "
            "epsilon."
        )
    sentence = (
        f"All that was published from {data_set} and is charged to its ledger, in {charges}, was "
        f"computed by randomised procedures that together are {claim.kind} with respect to "
        f"{claim.against}."
    )
    condition = (
        "This holds if every budget was fixed before the first publication, and is not "
        "guaranteed if one was chosen by looking at earlier ones."
    )
    if claim is facts.limit:
        condition = (
            "This is the limit that the ledger keeps. It holds however the budgets were chosen, "
            "also by looking at earlier publications, and is stated as a whole even if a part of "
            "it is not spent."
        )
        if facts.attacks is not None:
            condition += f" {ADAPTIVE_ATTACKS}"
    elif facts.adaptive:
        why = "not all of its charges were admitted by its limit"
        if facts.limit is None:
            why = "the ledger has no limit"
        condition += f" Nothing can be stated for adaptively chosen budgets, since {why}."
    return " ".join([sentence, *_meaning(claim, facts.attacks), condition, _EXCEPT_MODELS])


def terms(claim: Claim) -> str:
    """Return the delta or the order at which an epsilon holds, in words."""
    order, delta = claim.order, claim.delta
    return f"δ = {number(delta or 0)}" if order is None else f"Rényi order {number(order)}"


def rounded_up(value: float) -> str:
    """Return a number in few digits, never too small, because a reader may repeat it."""
    return _rounded(value, ROUND_CEILING)


def rounded_down(value: float) -> str:
    """Return a remaining budget in few digits, never too large."""
    return _rounded(value, ROUND_FLOOR)


def percent_up(share: float, plus: int = 0) -> str:
    """Return a share in percent with two decimals, rounded up, at most 100%."""
    percent = plus + 100 * Decimal(share)
    # The decimal expansion of 0.01 as a float is above 1%.
    percent = min(percent - abs(percent) * Decimal("1e-15"), Decimal(100))
    return f"{_to_text(percent, -2, ROUND_CEILING)}%"


def _rounded(value: float, rounding: str) -> str:
    if math.isinf(value):
        return "infinite"
    exact = Decimal(value)
    # Four decimals, or four digits below 0.1.
    return _to_text(exact, min(exact.adjusted() + 1, 0) - 4, rounding)


def factor_up(epsilon: float) -> str:
    """Return ``e ** epsilon`` in three digits, rounded up."""
    if math.isinf(epsilon):
        return "infinite"
    if epsilon > _LARGEST_EXPONENT:
        return f"e^({rounded_up(epsilon)})"
    wide = Context(prec=40, Emax=10**12, Emin=-(10**12))
    factor = Decimal(epsilon).exp(wide)  # rounded to the nearest
    factor = factor if epsilon == 0 else factor.next_plus(wide)
    return _to_text(factor, factor.adjusted() - 2, ROUND_CEILING)


def _to_text(exact: Decimal, last: int, rounding: str) -> str:
    """Round a number to a power of ten; write large and small numbers with an exponent."""
    if exact == 0:
        return "0"
    shown = exact.quantize(Decimal(1).scaleb(last, _EXACT), rounding, _EXACT)
    if shown == 0 or shown.adjusted() in _POSITIONAL:
        text = f"{shown:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    size = shown.adjusted()
    leading = shown.scaleb(-size, _EXACT).quantize(Decimal("0.001"), rounding, _EXACT)
    power = f"10{str(size).translate(_SUPERSCRIPTS)}"
    return power if leading == 1 else f"{leading.normalize(_EXACT):f} × {power}"


def number(value: float) -> str:
    """Return a number that somebody chose, with all its digits."""
    if math.isinf(value):
        return "infinite"
    chosen = Decimal(repr(float(value)))
    if chosen == 0 or chosen.adjusted() in _POSITIONAL:
        return f"{chosen:f}".removesuffix(".0")
    return format_exact(value)


def visible(text: object) -> str:
    """Escape invisible characters, which can rewrite a terminal or reorder a line."""
    text = str(text)
    if text.isprintable():
        return text

    def escaped(character: str) -> str:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")

    return "".join(c if c.isprintable() or c in _JOINERS else escaped(c) for c in text)


def shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
