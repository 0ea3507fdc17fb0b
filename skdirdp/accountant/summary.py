"""A ledger for people: the facts, the statement, the page and the notebook's view."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from .._messages import plural
from ..accounting import Composition
from ..accounting.worst_case import common_unit
from ..reporting.pages import (
    Markup,
    budget_bar,
    facts,
    ledger_figure,
    not_covered,
    page,
    profile_figure,
    section,
    statement,
    table,
    tag,
    wide,
)
from ..reporting.redact import without_password
from ..reporting.statements import (
    ADAPTIVE_LIMIT,
    Claim,
    LedgerFacts,
    ledger_statement,
    number,
    rounded_down,
    rounded_up,
    shortened,
    terms,
)
from .codec import decode, relations_of, unit_of
from .filtering import in_percent, is_filter
from .history import epsilon_alone
from .ledger import Charge
from .merging import identity_of, is_merged
from .records import PERSON, RECORD, is_of_persons, is_record, persons_of

_ROWS = 100  # of a table on a page; an export has them all
_TOTALS = 40
_PROFILE_POINTS = 60
# The work of a plot is about its points times the kinds of charges.
_WORK = 5_000
_FEWEST = 10
_MOST_KINDS = 64  # of charges of which one sum of many is composed
_ROUNDING = 1e-12
_NO_LABEL = "(no label)"


def facts_of(accountant: Any) -> LedgerFacts:
    """What a statement needs to know."""
    accountant._spent()  # charges beyond the limit are an error, and no statement
    charges = accountant._charges()
    adjacency = _charged_under(accountant, charges)
    unit, name = _unit_of(accountant, adjacency, charges), getattr(accountant, "name", None)
    delta, order, adaptive = accountant.delta, accountant.order, is_adaptive(accountant)
    admitted = not any(map(is_merged, charges))
    limit = None
    if accountant.epsilon is not None:
        limit = Claim(accountant.epsilon, delta, order, adjacency, unit)
    total = limit
    if limit is None or not (adaptive and admitted):
        # An accountant with a limit for budgets chosen on the way calls that its total.
        costs = [each.epsilon(delta) for each in accountant.compositions()] if adaptive else []
        cost = max(costs) if costs else accountant.total()
        total = Claim(cost, delta, None, adjacency, unit, chosen=False)
    assert total is not None
    return LedgerFacts(name, len(charges), limit, total, adaptive, admitted)


def is_adaptive(accountant: Any) -> bool:
    """Whether budgets may be chosen by looking at what was released."""
    # Before ledgers knew, a Renyi limit was the one for that.
    return getattr(accountant, "adaptive", accountant.order is not None)


def _charged_under(accountant: Any, charges: Sequence[Charge]) -> str:
    if charges:
        return decode(charges[0].spec).adjacency
    return accountant.adjacency or relations_of(accountant._ledger.header.adjacency or RECORD)[0]


def _unit_of(accountant: Any, adjacency: str, charges: Sequence[Charge]) -> str | None:
    """Whom all charges protect together, in words; None for single records, and vectors."""
    if not is_of_persons(adjacency):
        return None
    noun = persons_of(accountant._ledger.header) or PERSON
    units = [unit_of(charge.spec) for charge in charges]
    known = [unit for unit in units if unit is not None]
    if known and len(known) == len(units):
        return common_unit(known).describe(noun)
    return f"one {noun} with at most as many records as each charge allows for"


def declared_unit(accountant: Any) -> str:
    """The unit that a ledger was made with, and what it means for charges."""
    header = accountant._ledger.header
    if is_of_persons(header.adjacency):
        name = header.unit or PERSON
        return f"{name}; every charge has to protect all records of each"
    if header.adjacency == RECORD or is_record(header.unit):
        return RECORD
    return f"{header.unit}, which is only a name: charges may protect single records"


def terms_of(accountant: Any) -> str:
    """The terms of the limit: a delta, or an order."""
    return terms(Claim(0.0, accountant.delta, accountant.order, ""))


def limit_of(accountant: Any) -> str:
    """The limit in words."""
    if accountant.epsilon is None:
        return "none"
    return f"ε = {number(accountant.epsilon)} at {terms_of(accountant)}"


def plan_of(accountant: Any) -> str:
    """Whether budgets may be chosen on the way."""
    adaptive = is_adaptive(accountant)
    return "chosen as results come in" if adaptive else "fixed before the first release"


def used_of(accountant: Any) -> float:
    """What is used of the limit, in its own terms; without a limit, the total."""
    n_charges = len(accountant)
    return accountant.running_total(after=[n_charges])[0] if n_charges else 0.0


def is_within(accountant: Any, used: float) -> bool:
    """Whether the limit holds what is used of it."""
    # Thrice 0.1 is above 0.3 in floating point, and admitted.
    return accountant.epsilon is None or used <= accountant.epsilon * (1 + _ROUNDING)


def account_of(accountant: Any) -> list[tuple[str, str]]:
    """The total, and what is used and left of the limit: names and texts, the same everywhere."""
    used = used_of(accountant)
    if accountant.epsilon is None:
        return [("used", f"ε = {rounded_up(used)} at {terms_of(accountant)}")]
    if not is_filter(accountant._ledger.limits):
        left = max(accountant.epsilon - used, 0.0) if math.isfinite(used) else 0.0
        return [
            ("used", f"ε = {rounded_up(used)} at {terms_of(accountant)}"),
            ("left", f"ε = {rounded_down(left)}"),
        ]
    spent, left = in_percent(used / accountant.epsilon)
    return [
        ("total", f"{limit_of(accountant)}, the limit" if len(accountant) else "ε = 0"),
        ("used", f"{spent} of the limit"),
        ("left", f"{left} of the limit"),
    ]


def explanation_of(accountant: Any) -> str | None:
    """A sentence that an account needs to be understood."""
    return ADAPTIVE_LIMIT if is_filter(accountant._ledger.limits) else None


# The page ----------------------------------------------------------------------------


def ledger_page(accountant: Any) -> str:
    """What was spent of a data set's budget, when, by whom and on what."""
    charges = accountant._charges()
    body = [
        statement(ledger_statement(facts_of(accountant))),
        facts(_short_answers(accountant, charges)),
    ]
    if charges:
        body += [
            section("What was spent", *_spending(accountant, charges)),
            section("The privacy profile", *_profile(accountant, charges)),
            section("On what, and by whom", *_groups(accountant, charges)),
            section("The charges", *_charges(accountant, charges)),
        ]
    body += [not_covered(_warnings(accountant)), section("The ledger", *_ledger(accountant))]
    name = getattr(accountant, "name", None)
    title = f"Privacy budget of “{shortened(name)}”" if name else "Privacy budget of a data set"
    return page(title, body)


def _short_answers(accountant: Any, charges: Sequence[Charge]) -> list[tuple[str, str]]:
    answers = [("limit", limit_of(accountant)), *account_of(accountant)]
    answers.append(("charges", str(len(charges))))
    if charges:
        answers.append(("protected against", facts_of(accountant).total.against))
    if accountant.unit is not None:
        answers.append(("unit", shortened(declared_unit(accountant))))
    answers.append(("budgets", plan_of(accountant)))
    if charges:
        first, last = (f"{charges[i].time:%Y-%m-%d}" for i in (0, -1))
        answers.append(("first and last charge", first if first == last else f"{first} – {last}"))
    return answers


def _warnings(accountant: Any) -> list[str]:
    warnings = []
    if not is_within(accountant, used_of(accountant)):
        warnings.append(
            "The charges exceed the limit: they were merged from ledgers that were kept apart. "
            "Nothing more can be charged."
        )
    if accountant.epsilon is None:
        warnings.append("The ledger has no limit: it records, and refuses nothing.")
    return warnings


def _spending(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    kinds = len({charge.spec for charge in charges})
    points = min(_TOTALS, max(_WORK // kinds, _FEWEST))
    limit, scale = accountant.epsilon, 1.0
    measure = f"ε used, at {terms_of(accountant)}"
    caption = "What all charges up to each use together, in the terms of the limit."
    if is_filter(accountant._ledger.limits):
        limit, scale = 100.0, 100 / limit
        measure = "% of the limit used"
        caption = f"The part of the limit that all charges up to each use. {ADAPTIVE_LIMIT}"

    def totals_after(numbers: list[int]) -> list[float]:
        return [scale * total for total in accountant.running_total(after=numbers)]

    return [ledger_figure(totals_after, len(charges), points, limit, measure, caption)]


def _profile(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    has_point = accountant.epsilon is not None and accountant.order is None
    marked = (accountant.epsilon, accountant.delta) if has_point else None
    kinds = len({charge.spec for charge in charges})
    points = min(_PROFILE_POINTS, max(_WORK // kinds, _FEWEST))
    limited = is_adaptive(accountant) and has_point and hasattr(accountant, "curves")
    curves = accountant.curves() if limited else accountant.compositions()
    whom = (
        "whatever the limit admits, however the budgets are chosen."
        if limited
        else "all charges together, for budgets that were fixed beforehand."
    )
    caption = f"For each ε, the smallest δ that holds with it for {whom}"
    try:
        with np.errstate(all="ignore"):
            return [profile_figure(curves, marked, "limit", caption, points)]
    except ValueError:
        return [tag("p", "There is no profile: something was released without noise.")]
    except ArithmeticError:
        return [tag("p", "There is no profile: the limit is too large to be drawn.")]


@dataclass
class _Group:
    """Charges with the same label, by the same user, on the same split."""

    charges: int = 0
    releases: int = 0
    first: datetime | None = None
    last: datetime | None = None
    parts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, charge: Charge) -> None:
        self.charges += 1
        self.releases += charge.releases * getattr(decode(charge.spec), "releases", 1)
        self.first = self.first or charge.time
        self.last = charge.time
        kinds = self.parts.setdefault(charge.split.part if charge.split else "", {})
        kinds[charge.spec] = kinds.get(charge.spec, 0) + charge.releases

    def epsilon(self, delta: float, order: float | None) -> float | None:
        """What they cost together; None where there are too many kinds."""
        if sum(map(len, self.parts.values())) > _MOST_KINDS:
            return None
        costs = []
        for kinds in self.parts.values():
            if len(kinds) == 1:
                ((spec, releases),) = kinds.items()
                costs.append(epsilon_alone(spec, releases, delta, order))
            else:
                parts = [(decode(spec), releases) for spec, releases in kinds.items()]
                together = Composition(parts)
                costs.append(
                    together.epsilon(delta) if order is None else float(together.rdp(order))
                )
        return max(costs)


def _groups(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    # Parts of two splits may overlap, even if the splits have one name.
    groups: dict[tuple[str, str, str, str], _Group] = {}
    for charge in charges:
        where = (charge.split.name, charge.split.identity) if charge.split else ("", "")
        user = getattr(charge, "user", None) or ""
        label = _NO_LABEL if charge.label is None else charge.label
        groups.setdefault((label, user, *where), _Group()).add(charge)
    shown = sorted(groups.items(), key=lambda item: -item[1].charges)
    rest = [group for _, group in shown[_ROWS:]]
    delta, order = accountant.delta, accountant.order
    columns = ["label", "by", "split", "charges", "releases", "first", "last", "ε together"]
    rows = []
    for (label, user, split, _), group in shown[:_ROWS]:
        together = group.epsilon(delta, order)
        cost = "" if together is None else rounded_up(together)
        dates = (_date(group.first), _date(group.last))
        rows.append(
            (shortened(label), user, shortened(split), group.charges, group.releases, *dates, cost)
        )
    if rest:
        text = plural(len(rest), "further label")
        sums = sum(group.charges for group in rest), sum(group.releases for group in rest)
        rows.append((text, "", "", *sums, "", "", ""))
    columns, rows = _without_empty(columns, rows)
    note = f"At {terms_of(accountant)}. What several cost together is less than their sum" + (
        "; it is left out where charges are of many kinds." if len(charges) > _ROWS else "."
    )
    return [
        wide(table(columns, rows, numbers=["charges", "releases", "ε together"])),
        tag("p", note, class_="soft small"),
    ]


def _charges(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    history = accountant.history()
    numbered = list(enumerate(history, 1))
    half = _ROWS // 2
    left_out = len(history) - _ROWS
    if left_out > 0:
        numbered = [*numbered[:half], *numbered[-half:]]
    rows: list[tuple[Any, ...]] = []
    for n, row in numbered:
        if left_out > 0 and n == len(history) - half + 1:
            gap = f"{plural(left_out, 'charge')} left out; an export has all"
            rows.append(("…", "", "", gap, "", "", "", ""))
        part = "" if row["split"] is None else f"{row['split']}: {row['part']}"
        rows.append(
            (
                n,
                f"{row['time']:%Y-%m-%d %H:%M:%S}",
                row["user"] or "",
                shortened(row["label"] or ""),
                shortened(part),
                shortened(f"{row['mechanism']}({row['parameters']})", 400),
                row["releases"],
                rounded_up(row["epsilon"]),
            )
        )
    names = ["number", "time (UTC)", "by", "label", "part", "mechanism", "releases", "ε alone"]
    columns, rows = _without_empty(names, rows)
    return [wide(table(columns, rows, numbers=["releases", "ε alone"]))]


def _without_empty(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """A table without the columns in which nothing stands."""
    kept = [i for i in range(len(columns)) if any(row[i] != "" for row in rows)]
    return [columns[i] for i in kept], [tuple(row[i] for i in kept) for row in rows]


def _date(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d}"


def _ledger(accountant: Any) -> list[Markup]:
    place = without_password(str(accountant.path))
    items = [tag("li", "Kept in ", tag("code", place), ".")]
    items.append(tag("li", "Its identity is ", tag("code", identity_of(accountant)), "."))
    if hasattr(accountant, "verify"):
        entries = accountant.verify()
        items.append(tag("li", f"Checked for this page: {plural(entries, 'charge')}, all intact."))
    if hasattr(accountant, "anchor"):
        how = " checks later that no charge up to now is missing or was changed."
        command = f"skdirdp ledger verify --expect {accountant.anchor()}"
        items.append(tag("li", tag("code", command), how))
    return [tag("ul", *items)]


# A notebook --------------------------------------------------------------------------


def ledger_card(accountant: Any) -> Markup:
    """The limit, what is used of it, and by how many charges."""
    name = getattr(accountant, "name", None)
    title = tag("strong", f"Privacy budget of “{shortened(name)}”" if name else "Privacy budget")
    account = dict(account_of(accountant))
    lines = [plural(len(accountant), "charge")]
    parts = [title]
    if accountant.epsilon is None:
        lines += [f"used: {account['used']}", "no limit"]
    else:
        bar = budget_bar(used_of(accountant) / accountant.epsilon, account["used"])
        parts.append(bar)
        lines.append(f"used: {account['used']} of {limit_of(accountant)}")
        lines.append(f"left: {account['left']}")
        if "total" in account:
            lines[-2:] = [f"{name}: {text}" for name, text in account.items()]
    lines.append(f"budgets {plan_of(accountant)}")
    split = accountant._split
    if split is not None:
        lines.append(f"this is part {split.part!r} of {split.name!r}, within the whole")
    style = "overflow-wrap:anywhere;max-width:48em"
    return tag("div", *parts, tag("div", "; ".join(lines)), style=style)


def ledger_statement_of(accountant: Any) -> str:
    """The sentence to state the guarantee."""
    return ledger_statement(facts_of(accountant))
