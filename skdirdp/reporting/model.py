"""The page, the notebook's view and the sentence of one fitted model."""

import math
from collections.abc import Sequence
from typing import Any

from ..accounting import Composition
from ..accounting.composition import PrivacyCurves
from .curves import profile_deltas, profile_epsilons
from .markup import Markup, table, tag
from .page import facts, figure, made_by, not_covered, page, section, statement, wide
from .plots import profile_plot
from .statement import EXAMPLE_DELTA, Claim, exceptions_to
from .text import number, rounded_up

_POINTS = 80
Mechanisms = Sequence[tuple[PrivacyCurves, int]]


def epsilon_of(parts: Mechanisms, claim: Claim) -> float:
    """What releases cost together, in the terms of a claim."""
    composed = Composition(parts)
    if claim.order is not None:
        return float(composed.rdp(claim.order))
    # Only a delta above 0 has a finite epsilon for every mechanism.
    return composed.epsilon(claim.delta or EXAMPLE_DELTA)


def model_page(
    sentence: str,
    claim: Claim,
    mechanisms: Mechanisms,
    leaks: Sequence[str],
    steps: Sequence[tuple[str, Claim, Mechanisms]],
) -> str:
    """What one fit guarantees, by what means, and what it does not cover."""
    body = [
        statement(sentence),
        facts(_short_answers(claim, mechanisms)),
        section("What was released", *_released(claim, mechanisms, steps)),
        section("The privacy profile", *_profile(claim, mechanisms)),
        not_covered(exceptions_to(leaks)),
    ]
    return page("Privacy of a model", made_by(), body)


def _short_answers(claim: Claim, mechanisms: Mechanisms) -> list[tuple[str, str]]:
    answers = [("budget, ε", number(claim.epsilon))]
    if claim.order is not None:
        answers.append(("Rényi order, λ", number(claim.order)))
    elif claim.delta is not None:
        answers.append(("δ", number(claim.delta)))
    answers.append(("protected against", claim.against))
    answers.append(("tables released", str(sum(count for _, count in mechanisms))))
    return answers


def _released(
    claim: Claim, mechanisms: Mechanisms, steps: Sequence[tuple[str, Claim, Mechanisms]]
) -> list[Markup]:
    if not mechanisms:
        return [tag("p", "Nothing was released.")]
    alone = f"ε alone, {_terms(claim)}"
    columns = ["mechanism", "releases", alone]
    rows: list[tuple[Any, ...]]
    rows = [(str(each), count, _alone(each, count, claim)) for each, count in mechanisms]
    if steps:
        columns.insert(0, "step")
        rows = [
            (name, str(each), count, _alone(each, count, claim))
            for name, _, several in steps
            for each, count in several
        ]
    note = "Releases are composed exactly; their epsilons alone add up to more than the whole."
    return [
        wide(table(columns, rows, numbers=["releases", alone])),
        tag("p", note, class_="soft small"),
    ]


def _alone(mechanism: PrivacyCurves, count: int, claim: Claim) -> str:
    return rounded_up(epsilon_of([(mechanism, count)], claim))


def _terms(claim: Claim) -> str:
    if claim.order is not None:
        return f"at order {number(claim.order)}"
    return f"at δ = {number(claim.delta or EXAMPLE_DELTA)}"


def _profile(claim: Claim, mechanisms: Mechanisms) -> list[Markup]:
    marked = (claim.epsilon, claim.delta) if claim.delta is not None and claim.holds else None
    try:
        composition = [Composition(mechanisms)]
        epsilons = profile_epsilons(composition, marked, _POINTS)
    except ValueError:
        why = "There is no profile: nothing was released, or something without noise."
        return [tag("p", why)]
    deltas = profile_deltas(composition, epsilons)
    plot = profile_plot(epsilons.tolist(), deltas.tolist(), marked, "budget")
    caption = "For each ε, the smallest δ that holds with it: smaller is more private."
    return [figure(plot, caption)]


def model_card(claim: Claim, mechanisms: Mechanisms, leaks: Sequence[str]) -> Markup:
    """The same in short, for a notebook."""
    guarantee = "no privacy: ε is infinite"
    if claim.holds:
        guarantee = f"{claim.kind} with respect to {claim.against}"
    rows = [(str(mechanism), str(count)) for mechanism, count in mechanisms]
    warnings = [tag("div", sentence, style="color:#d9534f") for sentence in exceptions_to(leaks)]
    released = (
        table(["mechanism", "releases"], rows) if rows else tag("div", "nothing was released")
    )
    return tag("div", tag("div", tag("strong", guarantee)), *warnings, released)


def budget_bar(share: float, text: str) -> Markup:
    """The part of a limit that is used, as a bar in the colour of the text."""
    share = min(share, 1.0)
    style = "height:.5em;background:currentColor;border-radius:.25em;opacity:.7"
    inner = tag("div", style=f"width:{math.ceil(1000 * share) / 10}%;{style}")
    outer = "max-width:24em;border:1px solid currentColor;border-radius:.25em;margin:.3em 0"
    return tag("div", inner, style=outer, title=text)
