"""Reports on a ledger: history, statement, HTML page, exports and merged ledgers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from os import PathLike
from typing import Any

import numpy as np

from .._messages import plural
from ..reporting import pages
from ..reporting.exports import registry_entry
from ..reporting.pages import Markup, table, tag
from ..reporting.redact import without_password
from ..reporting.statements import (
    ADAPTIVE_ATTACKS,
    ADAPTIVE_LIMIT,
    Claim,
    LedgerFacts,
    ledger_statement,
    number,
    rounded_down,
    rounded_up,
    shortened,
    terms,
    visible,
)
from . import codec
from .codec import Entry, decode
from .limits import Limit, Spending, compose, in_percent
from .schema import (
    PERSON,
    RECORD,
    Charge,
    LedgerError,
    declared_unit,
    is_person_level,
    is_record,
    person_noun,
)

_ROWS = 100  # largest number of rows of a table on a page; an export has all
_TOTALS, _PROFILE_POINTS, _MIN_POINTS = 40, 60, 10
_MAX_WORK = 5_000  # points of a plot times kinds of charges
_MAX_KINDS = 64  # largest number of kinds of charges composed for a row of a table
_ROUNDING = 1e-12


class HistoryRow(Mapping[str, Any]):
    """Read-only mapping with one charge, whose epsilon is computed on first access."""

    __slots__ = ("_alone", "_stored")

    def __init__(self, stored: dict[str, Any], alone: Callable[[], float]):
        self._stored = {**stored, "epsilon": None}
        self._alone = alone

    def __getitem__(self, name: str) -> Any:
        if name == "epsilon" and self._stored[name] is None:
            self._stored[name] = self._alone()
        return self._stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return repr(dict(self))


class History(list[Mapping[str, Any]]):
    """List of charges that prints as a table; see `PrivacyAccountant.history`.

    The "epsilon" of a row is the cost of the charge alone, at the delta or order of the limit.

    Parameters
    ----------
    iterable : iterable of mappings
        Charges, oldest first, with the keys "time", "mechanism", "parameters", "adjacency",
        "user", "releases", "label", "split", "part" and "epsilon".
    running_total : callable, default=None
        `PrivacyAccountant.running_total`, for the printed table of a short history.
    limit : float, default=None
        Epsilon of an adaptive limit. If given, running totals are shown as shares of it.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.accounting import PureDP
    >>> accountant = PrivacyAccountant()
    >>> accountant.charge(PureDP(0.5), label="published last year")
    >>> history = accountant.history()
    >>> history[0]["mechanism"], history[0]["parameters"], round(history[0]["epsilon"], 3)
    ('PureDP', 'epsilon=0.5', 0.5)
    """

    _SHOWN = 20
    _OPTIONAL = ("user", "split", "part")
    _FIRST = ("time", "mechanism", "parameters", "adjacency")
    _COLUMNS = (*_FIRST, *_OPTIONAL, "releases", "epsilon", "total", "label")
    _NUMBERS = ("releases", "epsilon", "total", "used")

    def __init__(
        self,
        iterable: Iterable[Mapping[str, Any]] = (),
        running_total: Callable[..., list[float]] | None = None,
        limit: float | None = None,
    ):
        super().__init__(iterable)
        self._running_total = running_total
        self._limit = limit

    def _totals(self) -> list[float] | None:
        if self._running_total is not None and 0 < len(self) <= self._SHOWN:
            with suppress(ValueError):  # an unreachable ledger, or one without a total
                return self._running_total(after=range(1, len(self) + 1))
        return None

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return column names and cells; a long history shows both ends and no totals."""
        totals = self._totals()
        left_out = {name for name in self._OPTIONAL if all(row.get(name) is None for row in self)}
        if totals is None:
            left_out.add("total")
        columns = [name for name in self._COLUMNS if name not in left_out]
        rows = []
        for i, row in _both_ends(self, self._SHOWN):
            if row is None:
                rows.append(["..."] * len(columns))
                continue
            shown = row if totals is None else {**row, "total": totals[i - 1]}
            rows.append([self._cell(name, shown.get(name)) for name in columns])
        used = "total" if self._limit is None else "used"
        return [used if name == "total" else name for name in columns], rows

    def _cell(self, name: str, value: Any) -> str:
        if name == "total" and self._limit is not None:
            return in_percent(value / self._limit)[0]
        if value is None:
            return ""
        if hasattr(value, "strftime"):
            return value.strftime("%Y-%m-%d %H:%M:%S")
        if isinstance(value, float):
            return rounded_up(value)
        return visible(" ".join(str(value).split()))

    def __repr__(self) -> str:
        columns, rows = self._table()
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

        def line(cells: Iterable[str]) -> str:
            sides = [">" if name in self._NUMBERS else "<" for name in columns]
            each = zip(cells, sides, widths, strict=True)
            return "  ".join(f"{cell:{side}{width}}" for cell, side, width in each).rstrip()

        text = [line(columns), line("-" * width for width in widths), *map(line, rows)]
        if len(self) > self._SHOWN:
            text.append(f"{len(self)} charges")
        return "\n".join(text)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        caption = tag("div", plural(len(self), "charge"))
        return str(tag("div", caption, table(columns, rows, numbers=self._NUMBERS)))


def _both_ends(rows: Sequence[Any], most: int) -> list[tuple[int, Any]]:
    """Return numbered rows from 1; of more than `most`, both ends with None in between."""
    numbered: list[tuple[int, Any]] = list(enumerate(rows, 1))
    half = most // 2
    if len(numbered) > most:
        numbered[half:-half] = [(half + 1, None)]
    return numbered


def history_row(charge: Charge, limit: Limit) -> HistoryRow:
    mechanism = decode(charge.spec)
    stored = {
        "time": charge.time,
        "mechanism": type(mechanism).__name__,
        "parameters": codec.describe_parameters(mechanism),
        "adjacency": mechanism.adjacency,
        "user": charge.user or None,
        "releases": charge.releases * getattr(mechanism, "releases", 1),
        "label": charge.label,
        "split": charge.split.name if charge.split else None,
        "part": charge.split.part if charge.split else None,
    }
    kinds = ((charge.spec, charge.releases),)
    return HistoryRow(stored, partial(_joint_epsilon, kinds, limit.delta, limit.order))


@lru_cache(maxsize=1 << 14)
def _joint_epsilon(kinds: tuple[tuple[str, int], ...], delta: float, order: float | None) -> float:
    """Return the cost of charges alone, at a delta or order."""
    composition = compose(kinds)
    return composition.epsilon(delta) if order is None else float(composition.rdp(order))


class ReportsMixin:
    """Methods of `PrivacyAccountant` that report, export and merge a ledger."""

    def statement(self) -> str:
        """Return a sentence to publish about everything that was charged (docs/statement.md).

        With an adaptive limit it states the limit, otherwise the total, rounded up.

        Returns
        -------
        str
        """
        return ledger_statement(_facts(self))

    def registry_entry(self) -> dict[str, Any]:
        """Return an entry in the shape of the Differential Privacy Deployments Registry.

        Returns
        -------
        dict
            Values for JSON or YAML, with the claim of `statement`. Fields that only the curator
            knows are None.
        """
        facts = _facts(self)
        if facts.attacks is None:
            raise ValueError("the ledger must have at least 1 charge; got 0")
        kinds = Counter(row["mechanism"] for row in self.history())  # type: ignore[attr-defined]
        means = ", ".join(f"{plural(count, 'charge')} of {kind}" for kind, count in kinds.items())
        given: dict[str, Any] = {"mechanisms": means, "name": facts.name, "several": True}
        return registry_entry(facts.claim, attacks=facts.attacks, **given)

    def report(self, path: "str | PathLike[str]") -> str:
        """Write an HTML page with the limit, the statement, plots and tables of the charges.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced. Only its owner can read a new one.

        Returns
        -------
        str
            The path of the file.
        """
        return pages.write(path, _page(self))

    def export(self, path: "str | PathLike[str]") -> str:
        """Write the ledger to a JSON file, which can be read back, or to a CSV file.

        Parameters
        ----------
        path : str or path-like
            File to write, with the ending ``.json`` or ``.csv``. An existing file is replaced.
            Only its owner can read a new one.

        Returns
        -------
        str
            The path of the file.
        """
        return pages.write(path, codec.FORMATS[codec.export_format(path)](self))

    @classmethod
    def from_export(
        cls, export: "str | PathLike[str]", path: "str | PathLike[str] | None" = None
    ) -> Any:
        """Return an accountant with a new ledger from a JSON export.

        The limit, and every charge with its time and user, equal those of the exported ledger.
        If both ledgers are merged later, each charge counts once.

        Parameters
        ----------
        export : str or path-like
            File that `export` wrote.
        path : str or path-like, default=None
            Location of the new ledger, as for the accountant itself. An existing ledger with the
            same limit receives the charges that it lacks.

        Returns
        -------
        PrivacyAccountant
        """
        parameters, entries = codec.read_export(export)
        relations = [decode(entry.charge.spec).adjacency for entry in entries]
        if not is_record(parameters.get("unit")) and not all(map(is_person_level, relations)):
            parameters["unit"] = None  # written when the unit was only a name
        try:
            accountant = cls(**parameters, path=path)  # type: ignore[call-arg]
        except TypeError as error:
            raise LedgerError(f"the export {export} cannot be read: {error}") from None
        _append_entries(accountant, entries, copy=True)
        return accountant

    def merge(self, other: Any) -> int:
        """Add the charges of another ledger of the same data set.

        Each charge counts once, even if it is merged several times or by several routes. Charges
        are recorded even beyond the limit of this ledger, which then admits nothing more. All
        charges are added, or none.

        A limit with ``adaptive=True`` holds only for charges that it admitted itself, so nothing
        can be merged into such a ledger: create one with ``adaptive=False``, or without a limit,
        and merge both into it. Splits of two ledgers add up, even if they have the same name.

        Parameters
        ----------
        other : PrivacyAccountant
            Accountant under the same adjacency and with the same unit. It is not changed, and
            should not be charged any more.

        Returns
        -------
        int
            Number of new charges.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> here = PrivacyAccountant(epsilon=1.0, adaptive=False)
        >>> there = PrivacyAccountant(epsilon=1.0)
        >>> here.charge(PureDP(0.7))
        >>> there.charge(PureDP(0.5))
        >>> here.merge(there), here.merge(there)
        (1, 0)
        >>> round(here.total(), 4), here.affords(PureDP(0.001))
        (1.2, False)
        """
        accountant: Any = self
        if not isinstance(other, ReportsMixin):
            raise TypeError(f"other must be a PrivacyAccountant; got a {type(other).__name__}")
        if accountant._split is not None:
            raise ValueError("a part cannot be merged into; merge into the accountant of the whole")
        theirs: Any = other._ledger  # type: ignore[attr-defined]
        here, there = person_noun(accountant._ledger.header), person_noun(theirs.header)
        if here != there:
            raise ValueError(
                f"unit must be the same for ledgers that are merged; got {here!r} here and "
                f"{there!r} there. Nothing was merged"
            )
        # Read before anything is locked for writing: two ledgers may be merged into each other.
        charges = other._charges()  # type: ignore[attr-defined]
        return _append_entries(accountant, codec.to_entries(theirs.identity, charges))

    def _repr_html_(self) -> str:
        try:
            return str(_card(self))
        except ValueError:  # an unreachable ledger, or one without a total
            return str(tag("div", repr(self)))


def _append_entries(accountant: Any, entries: Iterable[Entry], *, copy: bool = False) -> int:
    """Append the entries that a ledger lacks, and return their number; an error undoes it."""
    # Releases that were made are recorded even beyond the limit. An adaptive limit, however, must
    # have admitted every charge, because the charges of two ledgers may exceed it together. With
    # `copy`, a ledger without charges becomes the copy of one with the same limit.
    with accountant._ledger.writing() as transaction:
        copy = copy and transaction.n_entries == 0
        new = transaction.append_new(entries, is_copy=copy)
        if new and not copy and accountant.epsilon is not None and accountant.adaptive:
            raise ValueError(
                "the limit of this ledger is adaptive, and does not hold for charges that it did "
                "not decide on. Nothing was merged; create a ledger with adaptive=False "
                "(--fixed-plan), or without a limit, and merge both into it"
            )
        spent = Spending().plus(transaction.sums())
        declared = accountant._ledger.header.adjacency
        refused = [each for each in spent.adjacencies if not codec.is_allowed(each, declared)]
        if refused or len(spent.adjacencies) > 1:
            found = " and ".join(map(repr, spent.adjacencies))
            wanted = f", declared for {declared!r}" if refused else ""
            raise ValueError(
                "adjacency must be the same for all charges of one ledger; got charges under "
                f"{found} in the merged ledger{wanted}. Nothing was merged"
            )
        try:
            spent.exposures()
        except ValueError as error:
            raise ValueError(f"{error}. Nothing was merged") from error
    return new


def _facts(accountant: Any) -> LedgerFacts:
    accountant._spent()  # raises for charges beyond the limit
    charges = accountant._charges()
    header = accountant._ledger.header
    declared = accountant.adjacency or codec.allowed_relations(header.adjacency or RECORD)[0]
    adjacency = decode(charges[0].spec).adjacency if charges else declared
    unit = codec.protected_unit(charges, adjacency, header)
    delta, adaptive = accountant.delta, accountant.adaptive
    admitted = not any(map(codec.is_merged, charges))
    # A ledger does not store whether a posterior made the numbers of records public.
    named: dict[str, Any] = {"noun": person_noun(header) or PERSON, "same_size": None}
    limit = None
    if accountant.epsilon is not None:
        limit = Claim(accountant.epsilon, delta, accountant.order, adjacency, unit, **named)
    total = limit
    if total is None or not (adaptive and admitted):
        costs = [each.epsilon(delta) for each in accountant.compositions()] if adaptive else []
        cost = max(costs) if costs else accountant.total()
        total = Claim(cost, delta, None, adjacency, unit, chosen=False, **named)
    attacks = accountant if charges else None
    return LedgerFacts(accountant.name, len(charges), limit, total, adaptive, admitted, attacks)


def limit_text(accountant: Any) -> str:
    limit = accountant.epsilon
    return "none" if limit is None else f"ε = {number(limit)} at {_terms(accountant)}"


def _terms(accountant: Any) -> str:
    return terms(Claim(0.0, accountant.delta, accountant.order, ""))


def plan_text(accountant: Any) -> str:
    """Describe whether budgets may be chosen adaptively."""
    return "chosen as results come in" if accountant.adaptive else "fixed before the first release"


def used_epsilon(accountant: Any) -> float:
    """Return the used part of the limit, as `running_total`; without a limit, the total."""
    n_charges = len(accountant)
    return accountant.running_total(after=[n_charges])[0] if n_charges else 0.0


def is_within_limit(accountant: Any, used: float) -> bool:
    return accountant.epsilon is None or used <= accountant.epsilon * (1 + _ROUNDING)


def spending_texts(accountant: Any) -> list[tuple[str, str]]:
    """Describe the total and the used and remaining parts of the limit, as names and strings."""
    used = used_epsilon(accountant)
    if accountant._limit.is_share:
        shares = zip(("used", "left"), in_percent(used / accountant.epsilon), strict=True)
        total = f"{limit_text(accountant)}, the limit" if len(accountant) else "ε = 0"
        texts = [("total", total), *((name, f"{share} of the limit") for name, share in shares)]
        name, left = texts.pop()
        return [*texts, (name, left + accountant._limit.exception(accountant._spent()))]
    texts = [("used", f"ε = {rounded_up(used)} at {_terms(accountant)}")]
    if accountant.epsilon is not None:
        difference = max(accountant.epsilon - used, 0.0) if math.isfinite(used) else 0.0
        texts.append(("left", f"ε = {rounded_down(difference)}"))
    return texts


def _strength_note(accountant: Any) -> str:
    """Explain what the numbers on the page of a ledger refer to."""
    note = "Only publications that are charged to this ledger are counted."
    if accountant._limit.is_share:
        spent, _ = in_percent(used_epsilon(accountant) / accountant.epsilon)
        note += (
            f" The numbers are for the whole limit, of which {spent} is used. Analysts may choose "
            "later publications after seeing earlier ones, and then a guarantee can be stated for "
            "the whole limit only."
        )
    if accountant.adaptive and accountant.epsilon is not None:
        note += f" {ADAPTIVE_ATTACKS}"
    return note


def _page(accountant: Any) -> str:
    charges, stated = accountant._charges(), _facts(accountant)
    facts = [("limit", limit_text(accountant)), *spending_texts(accountant)]
    facts.append(("charges", str(len(charges))))
    if charges:
        facts.append(("protected change", stated.total.against))
    if accountant.unit is not None:
        facts.append(("unit", shortened(declared_unit(accountant._ledger.header))))
    facts.append(("budgets", plan_text(accountant)))
    if charges:
        first, last = (f"{charges[i].time:%Y-%m-%d}" for i in (0, -1))
        facts.append(("first and last charge", first if first == last else f"{first} – {last}"))
    warnings = []
    if not is_within_limit(accountant, used_epsilon(accountant)):
        warnings.append("The charges exceed the limit. Nothing more can be charged.")
    if accountant.epsilon is None:
        warnings.append("The ledger has no limit: it records charges and rejects none.")
    body = [pages.not_covered(stated.claim, warnings), pages.statement(ledger_statement(stated))]
    body.append(pages.facts(facts))
    if charges:
        note, what = _strength_note(accountant), "what was published"
        body.insert(0, pages.in_plain_words(stated.claim, accountant, what=what, note=note))
        body += [
            pages.section("What was spent", _spending_plot(accountant, charges)),
            pages.section("The privacy profile", _profile_plot(accountant, charges)),
            pages.section("On what, and by whom", *_groups_table(accountant, charges)),
            pages.section("The charges", _charges_table(accountant)),
        ]
    command = tag("code", f"skdirdp ledger verify --expect {accountant.anchor()}")
    items = [
        ("Stored in ", tag("code", without_password(str(accountant.path))), "."),
        ("Its identity is ", tag("code", accountant._ledger.identity), "."),
        (f"Checked for this page: {plural(accountant.verify(), 'charge')}, all intact.",),
        (command, " checks later that no charge up to now is missing or was changed."),
    ]
    body.append(pages.section("The ledger", tag("ul", *(tag("li", *item) for item in items))))
    return pages.page(_title(accountant) or "Privacy budget of a data set", body)


def _title(accountant: Any) -> str | None:
    name = accountant.name
    return f"Privacy budget of “{shortened(name)}”" if name else None


def _n_points(charges: Sequence[Charge], most: int) -> int:
    kinds = len({charge.spec for charge in charges})
    return min(most, max(_MAX_WORK // kinds, _MIN_POINTS))


def _spending_plot(accountant: Any, charges: Sequence[Charge]) -> Markup:
    limit, scale = accountant.epsilon, 1.0
    measure = f"ε used, at {_terms(accountant)}"
    caption = "Used part of the limit after each charge."
    if accountant._limit.is_share:
        limit, scale = 100.0, 100 / limit
        measure = "% of the limit used"
        caption += f" {ADAPTIVE_LIMIT}"

    def used(numbers: Iterable[int]) -> list[float]:
        return [scale * total for total in accountant.running_total(after=numbers)]

    points = _n_points(charges, _TOTALS)
    return pages.ledger_figure(used, len(charges), points, limit, measure, caption)


def _profile_plot(accountant: Any, charges: Sequence[Charge]) -> Markup:
    has_point = accountant.epsilon is not None and accountant.order is None
    marked = (accountant.epsilon, accountant.delta) if has_point else None
    subject = "all charges together, for budgets that were fixed beforehand."
    if accountant._limit.is_share:
        subject = (
            "all charges that the limit admits, also adaptively chosen ones. It is an upper bound: "
            "a smaller δ may hold."
        )
    caption = f"For each ε, a δ that holds for {subject}"
    points = _n_points(charges, _PROFILE_POINTS)
    try:
        with np.errstate(all="ignore"):
            return pages.profile_figure(accountant.curves(), marked, "limit", caption, points)
    except ValueError:
        return tag("p", "There is no profile: something was released without noise.")
    except ArithmeticError:
        return tag("p", "There is no profile: the limit is too large to be drawn.")


def _groups_table(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    """Return a table of charges with the same label, by the same user, on the same split."""
    groups: dict[tuple[str, str, str, str], list[Charge]] = {}
    for charge in charges:
        where = (charge.split.name, charge.split.identity) if charge.split else ("", "")
        label = "(no label)" if charge.label is None else charge.label
        groups.setdefault((label, charge.user or "", *where), []).append(charge)
    shown = sorted(groups.items(), key=lambda item: -len(item[1]))
    columns = ["label", "by", "split", "charges", "releases", "first", "last", "ε together"]
    rows: list[tuple[Any, ...]] = []
    for (label, user, split, _), group in shown[:_ROWS]:
        counts = (len(group), _n_releases(group))
        dates = (f"{group[i].time:%Y-%m-%d}" for i in (0, -1))
        cost = _group_cost(group, accountant)
        rows.append((shortened(label), user, shortened(split), *counts, *dates, cost))
    if rest := [charge for _, group in shown[_ROWS:] for charge in group]:
        name = plural(len(shown) - _ROWS, "further label")
        rows.append((name, "", "", len(rest), _n_releases(rest), "", "", ""))
    note = f"At {_terms(accountant)}. The cost of several charges is less than their sum."
    return [_wide_table(columns, rows), tag("p", note, class_="soft small")]


def _n_releases(charges: Iterable[Charge]) -> int:
    return sum(each.releases * getattr(decode(each.spec), "releases", 1) for each in charges)


def _group_cost(charges: Sequence[Charge], accountant: Any) -> str:
    """Return the epsilon of charges on one split; empty if they are of too many kinds."""
    parts: dict[str, Counter[str]] = {}
    for charge in charges:
        part = charge.split.part if charge.split else ""
        parts.setdefault(part, Counter())[charge.spec] += charge.releases
    if sum(map(len, parts.values())) > _MAX_KINDS:
        return ""
    kinds = (tuple(sorted(part.items())) for part in parts.values())
    terms = (accountant.delta, accountant.order)
    return rounded_up(max(_joint_epsilon(each, *terms) for each in kinds))


def _charges_table(accountant: Any) -> Markup:
    history = accountant.history()
    rows: list[tuple[Any, ...]] = []
    for n, row in _both_ends(history, _ROWS):
        if row is None:
            gap = f"{plural(len(history) - _ROWS, 'charge')} left out; an export has all"
            rows.append(("…", "", "", gap, "", "", "", ""))
            continue
        part = "" if row["split"] is None else f"{row['split']}: {row['part']}"
        mechanism = shortened(f"{row['mechanism']}({row['parameters']})", 400)
        who = (row["user"] or "", shortened(row["label"] or ""), shortened(part))
        cost = rounded_up(row["epsilon"])
        rows.append((n, f"{row['time']:%Y-%m-%d %H:%M:%S}", *who, mechanism, row["releases"], cost))
    columns = ["number", "time (UTC)", "by", "label", "part", "mechanism", "releases", "ε alone"]
    return _wide_table(columns, rows)


def _wide_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    kept = [i for i in range(len(columns)) if any(row[i] != "" for row in rows)]
    shown = [tuple(row[i] for i in kept) for row in rows]
    numbers = ["charges", "releases", "ε together", "ε alone"]
    return pages.wide(table([columns[i] for i in kept], shown, numbers=numbers))


def _card(accountant: Any) -> Markup:
    """Return the limit, its used part and the number of charges, for a notebook."""
    texts = dict(spending_texts(accountant))
    lines = [plural(len(accountant), "charge")]
    parts = [tag("strong", _title(accountant) or "Privacy budget")]
    if accountant.epsilon is None:
        lines += [f"used: {texts['used']}", "no limit"]
    else:
        parts.append(pages.budget_bar(used_epsilon(accountant) / accountant.epsilon, texts["used"]))
        if not accountant._limit.is_share:
            texts["used"] += f" of {limit_text(accountant)}"
        lines += [f"{name}: {text}" for name, text in texts.items()]
    lines.append(f"budgets {plan_text(accountant)}")
    if split := accountant._split:
        lines.append(f"this is part {split.part!r} of {split.name!r}, within the whole")
    style = "overflow-wrap:anywhere;max-width:48em"
    return tag("div", *parts, tag("div", "; ".join(lines)), style=style)
