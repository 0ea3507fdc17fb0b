"""Reports on a ledger: history, statement, HTML page, exports and merged ledgers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from os import PathLike
from typing import Any

import numpy as np

from .._messages import plural
from ..accounting.worst_case import common_unit
from ..reporting.curves import profile_deltas, profile_epsilons
from ..reporting.markup import Markup, table, tag
from ..reporting.model import budget_bar
from ..reporting.page import (
    facts,
    figure,
    made_by,
    not_covered,
    page,
    section,
    statement,
    wide,
    write,
)
from ..reporting.places import without_password
from ..reporting.plots import ledger_plot, profile_plot, spread
from ..reporting.statement import ADAPTIVE_LIMIT, Claim, LedgerFacts, ledger_statement, terms
from ..reporting.text import number, rounded_down, rounded_up, shortened, visible
from .codec import (
    COPIED,
    FORMATS,
    MERGED,
    Entry,
    decode,
    describe_parameters,
    entries_of,
    export_format,
    is_merged,
    read_export,
    unit_of,
)
from .limits import Limit, Spending, compose, in_percent
from .schema import (
    PERSON,
    RECORD,
    Charge,
    LedgerError,
    allowed_relations,
    is_allowed,
    is_of_persons,
    is_record,
    person_noun,
    sums_key,
)

_ROWS = 100  # of a table on a page; an export has all
_TOTALS = 40
_PROFILE_POINTS = 60
# The work for a plot is proportional to its points times the kinds of charges.
_WORK = 5_000
_MIN_POINTS = 10
_MAX_KINDS = 64  # of charges that are composed for a row of a table
_ROUNDING = 1e-12
_NO_LABEL = "(no label)"


# History -----------------------------------------------------------------------------


class HistoryRow(Mapping[str, Any]):
    """Read-only mapping with one charge, whose epsilon is computed on first access.

    Parameters
    ----------
    stored : dict
        All values except the epsilon.
    alone : callable
        Function that computes the epsilon.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.accounting import PureDP
    >>> accountant = PrivacyAccountant()
    >>> accountant.charge(PureDP(0.5), releases=2)
    >>> row = accountant.history()[0]
    >>> row["mechanism"], row["releases"], round(row["epsilon"], 4)
    ('PureDP', 2, 1.0)
    """

    # Composition takes milliseconds for each kind of charge, and a ledger may have thousands.
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


class History(list):
    """List of charges that prints as a table; see `PrivacyAccountant.history`.

    Rows are mappings, and ``pandas.DataFrame(history)`` accepts them. The "epsilon" of a row is
    the cost of the charge alone, at the delta or order of the accountant's limit. It is computed
    on first access, once for each kind of charge.

    Parameters
    ----------
    iterable : iterable of mappings
        Charges, oldest first, with the keys "time", "mechanism", "parameters", "adjacency",
        "user", "releases", "label", "split", "part" and "epsilon".
    running_total : callable, default=None
        `PrivacyAccountant.running_total`, for the printed table of a short history.

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
    _COLUMNS = (
        *("time", "mechanism", "parameters", "adjacency", "user", "split", "part"),
        *("releases", "epsilon", "total", "label"),
    )
    _OPTIONAL = ("user", "split", "part")
    _NUMBERS = ("releases", "epsilon", "total", "used")
    # If set, totals are shown as shares of this epsilon, which must not look like an epsilon.
    _limit: float | None = None

    def __init__(
        self,
        iterable: Iterable[Mapping[str, Any]] = (),
        running_total: Callable[..., list[float]] | None = None,
    ):
        super().__init__(iterable)
        self._running_total = running_total

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return column names and cells; a long history shows both ends and no totals."""
        half = self._SHOWN // 2
        ends = [*self[:half], *self[-half:]] if len(self) > self._SHOWN else list(self)
        totals = self._totals()
        columns = [
            name
            for name in self._COLUMNS
            if (name not in self._OPTIONAL or any(row.get(name) is not None for row in self))
            and (name != "total" or totals is not None)
        ]
        rows = []
        for i, row in enumerate(ends):
            shown = row if totals is None else {**row, "total": totals[i]}
            rows.append([self._cell(name, shown.get(name)) for name in columns])
        if len(self) > self._SHOWN:
            rows.insert(half, ["..."] * len(columns))
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

    def _totals(self) -> list[float] | None:
        # Each total composes all charges before it.
        if self._running_total is None or not 0 < len(self) <= self._SHOWN:
            return None
        try:
            return self._running_total(after=range(1, len(self) + 1))
        except ValueError:  # a ledger without a total, or out of reach
            return None

    def __repr__(self) -> str:
        columns, rows = self._table()
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

        def line(cells: Iterable[str]) -> str:
            padded = [
                cell.rjust(width) if name in self._NUMBERS else cell.ljust(width)
                for name, cell, width in zip(columns, cells, widths, strict=True)
            ]
            return "  ".join(padded).rstrip()

        text = [line(columns), line("-" * width for width in widths), *map(line, rows)]
        if len(self) > self._SHOWN:
            text.append(f"{len(self)} charges")
        return "\n".join(text)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        caption = tag("div", plural(len(self), "charge"))
        return str(tag("div", caption, table(columns, rows, numbers=self._NUMBERS)))


def make_history(
    charges: Sequence[Charge], limit: Limit, running_total: Callable[..., list[float]]
) -> History:
    """Return the history of charges to a ledger."""
    history = History((_history_row(charge, limit) for charge in charges), running_total)
    if limit.is_share:
        history._limit = limit.epsilon
    return history


def _history_row(charge: Charge, limit: Limit) -> HistoryRow:
    mechanism = decode(charge.spec)
    stored = {
        "time": charge.time,
        "mechanism": type(mechanism).__name__,
        "parameters": describe_parameters(mechanism),
        "adjacency": mechanism.adjacency,
        "user": charge.user or None,
        "releases": charge.releases * getattr(mechanism, "releases", 1),
        "label": charge.label,
        "split": charge.split.name if charge.split else None,
        "part": charge.split.part if charge.split else None,
    }
    kinds = ((charge.spec, charge.releases),)
    return HistoryRow(stored, partial(_epsilon_together, kinds, limit.delta, limit.order))


@lru_cache(maxsize=1 << 14)
def _epsilon_together(
    kinds: tuple[tuple[str, int], ...], delta: float, order: float | None
) -> float:
    """Return the cost of charges without all others, at a delta or order."""
    composition = compose(kinds)
    return composition.epsilon(delta) if order is None else float(composition.rdp(order))


# Accountant --------------------------------------------------------------------------


class ReportsMixin:
    """Methods of `PrivacyAccountant` that report, export and merge a ledger."""

    def statement(self) -> str:
        """Return a sentence to publish about everything that was charged.

        The text follows docs/statement.md. With an adaptive limit it states the limit; otherwise
        it states the total, rounded up.

        Returns
        -------
        str

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant(epsilon=2.0, order=8.0, adaptive=True)
        >>> accountant.charge(PureDP(0.5), label="published last year")
        >>> print(accountant.statement())
        All that was published from the data set and is charged to its ledger, in 1 charge, was
        computed by randomised procedures that together are (λ = 8, ε = 2)-Rényi differentially
        private with respect to the replacement of one record by any other. ... however the
        budgets were chosen, also by looking at earlier publications, and is stated as a whole
        even if a part of it is not spent. Not covered: ...
        """
        return ledger_statement(_facts(self))

    def report(self, path: "str | PathLike[str]") -> str:
        """Write an HTML page about the charges: when, by whom and for what.

        The page is one file that loads nothing. It contains the limit, the statement, plots of
        the ledger and the privacy profile, tables of charges, and what is not covered.

        Parameters
        ----------
        path : str or path-like
            File to write. An existing file is replaced. Only its owner can read a new one.

        Returns
        -------
        str
            The path of the file.

        Examples
        --------
        >>> import pathlib
        >>> import tempfile
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant(epsilon=3.0)
        >>> accountant.charge(PureDP(0.5), label="published last year")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(accountant.report(pathlib.Path(folder, "budget.html")))
        ...     "published last year" in page.read_text(encoding="utf-8")
        True
        """
        return write(path, _page(self))

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
        return write(path, FORMATS[export_format(path)](self))

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

        Examples
        --------
        >>> import pathlib
        >>> import tempfile
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant(epsilon=3.0)
        >>> accountant.charge(PureDP(0.5), label="published last year")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = accountant.export(pathlib.Path(folder, "ledger.json"))
        ...     again = PrivacyAccountant.from_export(file)
        >>> again.epsilon, len(again), again.total() == accountant.total()
        (3.0, 1, True)
        """
        parameters, entries = read_export(export)
        relations = [decode(entry.spec).adjacency for entry in entries]
        if not is_record(parameters.get("unit")) and not all(map(is_of_persons, relations)):
            parameters["unit"] = None  # written when the unit was only a name
        try:
            accountant = cls(**parameters, path=path)  # type: ignore[call-arg]
        except TypeError as error:
            raise LedgerError(f"the export {export} cannot be read: {error}") from None
        _append_entries(accountant, entries, copy=True)
        return accountant

    def merge(self, other: Any) -> int:
        """Add the charges of another ledger of the same data set.

        Each charge counts once, even if it is merged several times or by several routes; merging
        the same ledger again adds new charges only. Charges are recorded even beyond the limit
        of this ledger, which then admits nothing more. All charges are added, or none.

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
        units = [person_noun(ledger.header) for ledger in (accountant._ledger, theirs)]
        if units[0] != units[1]:
            raise ValueError(
                f"unit must be the same for ledgers that are merged; got {units[0]!r} here and "
                f"{units[1]!r} there. Nothing was merged"
            )
        # Read before anything is locked for writing: two ledgers may be merged into each other.
        entries = entries_of(theirs.identity, other._charges())  # type: ignore[attr-defined]
        return _append_entries(accountant, entries)

    def _repr_html_(self) -> str:
        try:
            return str(_card(self))
        except ValueError:  # a ledger out of reach, or without a total
            return str(tag("div", repr(self)))


def _append_entries(accountant: Any, entries: Iterable[Entry], *, copy: bool = False) -> int:
    """Append the entries that a ledger lacks, and return their number.

    Made releases are recorded even beyond the limit. But an adaptive limit must have decided on
    all charges: of two separate ledgers, neither stopped charges that exceed the limit together
    with the other, and that they happen to be within it proves nothing. With `copy`, a ledger
    without charges becomes the copy of one with the same limit.
    """
    with accountant._ledger.writing() as transaction:
        charges = transaction.charges()
        copy = copy and not charges
        known = {entry.identity for entry in entries_of(accountant._ledger.identity, charges)}
        keys = {charge.key for charge in charges}
        new = {entry.identity: entry for entry in entries if entry.identity not in known}
        if new and not copy and accountant.epsilon is not None and accountant.adaptive:
            raise ValueError(
                "the limit of this ledger is adaptive, and does not hold for charges that it did "
                "not decide on. Nothing was merged; create a ledger with adaptive=False "
                "(--fixed-plan), or without a limit, and merge both into it"
            )
        _check_together(accountant._ledger.header.adjacency, transaction.sums(), [*new.values()])
        for entry in new.values():
            how = COPIED if copy and not entry.merged else MERGED
            again = 0
            while (key := f"{how}/{entry.origin}/{again}/{entry.key}") in keys:
                again += 1
            keys.add(key)
            what = (entry.spec, entry.releases, entry.label, entry.split)
            # An unknown user stays unknown, and is not replaced by the current one.
            transaction.append(*what, key=key, time=entry.time, user=entry.user or "")
    return len(new)


def _check_together(declared: str | None, sums: Mapping[Any, int], new: Sequence[Entry]) -> None:
    """Raise ValueError if new charges have no total with the existing ones."""
    found = {decode(spec).adjacency for _, _, spec in sums}
    for position, entry in enumerate(new, 1):
        adjacency = decode(entry.spec).adjacency
        others = [*sorted(found - {adjacency})]
        if not is_allowed(adjacency, declared):
            others += allowed_relations(declared)
        if others:
            raise ValueError(
                "adjacency must be the same for all charges of one ledger; "
                f"got {adjacency!r} in the {plural(len(new), 'charge')} to merge, number "
                f"{position}, and {' or '.join(map(repr, others))} here. Nothing was merged"
            )
        found.add(adjacency)
    after = Counter(sums)
    for entry in new:
        after[sums_key(entry.split, entry.spec)] += entry.releases
    try:
        Spending().plus(after).exposures()
    except LedgerError:
        raise
    except ValueError as error:
        raise ValueError(f"{error}. Nothing was merged") from error


# Facts -------------------------------------------------------------------------------


def _facts(accountant: Any) -> LedgerFacts:
    """Return the facts of the statement."""
    accountant._spent()  # raises for charges beyond the limit
    charges = accountant._charges()
    if charges:
        adjacency = decode(charges[0].spec).adjacency
    else:
        declared = accountant._ledger.header.adjacency or RECORD
        adjacency = accountant.adjacency or allowed_relations(declared)[0]
    unit = _unit_text(accountant, adjacency, charges)
    delta, adaptive = accountant.delta, accountant.adaptive
    admitted = not any(map(is_merged, charges))
    limit = None
    if accountant.epsilon is not None:
        limit = Claim(accountant.epsilon, delta, accountant.order, adjacency, unit)
    total = limit
    if total is None or not (adaptive and admitted):
        # The total of an accountant with an adaptive limit is the limit.
        costs = [each.epsilon(delta) for each in accountant.compositions()] if adaptive else []
        cost = max(costs) if costs else accountant.total()
        total = Claim(cost, delta, None, adjacency, unit, chosen=False)
    return LedgerFacts(accountant.name, len(charges), limit, total, adaptive, admitted)


def _unit_text(accountant: Any, adjacency: str, charges: Sequence[Charge]) -> str | None:
    """Describe the unit that all charges protect; None for single records, and vectors."""
    if not is_of_persons(adjacency):
        return None
    noun = person_noun(accountant._ledger.header) or PERSON
    units = [unit_of(charge.spec) for charge in charges]
    known = [unit for unit in units if unit is not None]
    if known and len(known) == len(units):
        return common_unit(known).describe(noun)
    return f"one {noun} with at most as many records as each charge allows for"


def declared_unit(accountant: Any) -> str:
    """Describe the declared unit of a ledger."""
    header = accountant._ledger.header
    if is_of_persons(header.adjacency):
        return f"{header.unit or PERSON}; every charge has to protect all records of each"
    if header.adjacency == RECORD or is_record(header.unit):
        return RECORD
    return f"{header.unit}, which is only a name: charges may protect single records"


def limit_text(accountant: Any) -> str:
    """Describe the limit."""
    if accountant.epsilon is None:
        return "none"
    return f"ε = {number(accountant.epsilon)} at {_terms(accountant)}"


def _terms(accountant: Any) -> str:
    return terms(Claim(0.0, accountant.delta, accountant.order, ""))


def plan_text(accountant: Any) -> str:
    """Describe whether budgets may be chosen adaptively."""
    adaptive = accountant.adaptive
    return "chosen as results come in" if adaptive else "fixed before the first release"


def used_epsilon(accountant: Any) -> float:
    """Return the used part of the limit, as `running_total`; without a limit, the total."""
    n_charges = len(accountant)
    return accountant.running_total(after=[n_charges])[0] if n_charges else 0.0


def is_within_limit(accountant: Any, used: float) -> bool:
    """Return whether the used part is within the limit."""
    # 3 * 0.1 exceeds 0.3 in floating point, and is admitted.
    return accountant.epsilon is None or used <= accountant.epsilon * (1 + _ROUNDING)


def spending_texts(accountant: Any) -> list[tuple[str, str]]:
    """Describe the total and the used and remaining parts of the limit, as names and texts."""
    used = used_epsilon(accountant)
    if accountant._limit.is_share:
        spent, left = in_percent(used / accountant.epsilon)
        return [
            ("total", f"{limit_text(accountant)}, the limit" if len(accountant) else "ε = 0"),
            ("used", f"{spent} of the limit"),
            ("left", f"{left} of the limit"),
        ]
    texts = [("used", f"ε = {rounded_up(used)} at {_terms(accountant)}")]
    if accountant.epsilon is not None:
        difference = max(accountant.epsilon - used, 0.0) if math.isfinite(used) else 0.0
        texts.append(("left", f"ε = {rounded_down(difference)}"))
    return texts


# Page --------------------------------------------------------------------------------


def _page(accountant: Any) -> str:
    """Return the HTML page of a ledger."""
    charges = accountant._charges()
    body = [statement(accountant.statement()), facts(_page_facts(accountant, charges))]
    if charges:
        body += [
            section("What was spent", _spending_plot(accountant, charges)),
            section("The privacy profile", _profile_plot(accountant, charges)),
            section("On what, and by whom", *_groups_table(accountant, charges)),
            section("The charges", _charges_table(accountant)),
        ]
    warnings = []
    if not is_within_limit(accountant, used_epsilon(accountant)):
        warnings.append(
            "The charges exceed the limit: they were merged from separate ledgers. "
            "Nothing more can be charged."
        )
    if accountant.epsilon is None:
        warnings.append("The ledger has no limit: it records, and refuses nothing.")
    body += [not_covered(warnings), section("The ledger", _ledger_list(accountant))]
    return page(_title(accountant) or "Privacy budget of a data set", made_by(), body)


def _title(accountant: Any) -> str | None:
    name = accountant.name
    return f"Privacy budget of “{shortened(name)}”" if name else None


def _page_facts(accountant: Any, charges: Sequence[Charge]) -> list[tuple[str, str]]:
    pairs = [("limit", limit_text(accountant)), *spending_texts(accountant)]
    pairs.append(("charges", str(len(charges))))
    if charges:
        pairs.append(("protected against", _facts(accountant).total.against))
    if accountant.unit is not None:
        pairs.append(("unit", shortened(declared_unit(accountant))))
    pairs.append(("budgets", plan_text(accountant)))
    if charges:
        first, last = (f"{charges[i].time:%Y-%m-%d}" for i in (0, -1))
        pairs.append(("first and last charge", first if first == last else f"{first} – {last}"))
    return pairs


def _n_points(charges: Sequence[Charge], most: int) -> int:
    kinds = len({charge.spec for charge in charges})
    return min(most, max(_WORK // kinds, _MIN_POINTS))


def _spending_plot(accountant: Any, charges: Sequence[Charge]) -> Markup:
    numbers = spread(len(charges), _n_points(charges, _TOTALS))
    totals, limit = accountant.running_total(after=numbers), accountant.epsilon
    measure = f"ε used, at {_terms(accountant)}"
    caption = "Used part of the limit after each charge."
    if accountant._limit.is_share:
        totals, limit = [100 * total / limit for total in totals], 100.0
        measure = "% of the limit used"
        caption += f" {ADAPTIVE_LIMIT}"
    plot = ledger_plot(numbers, totals, len(charges), limit, measure)
    if len(numbers) < len(charges):
        caption += f" {len(numbers)} totals are drawn; in between, the next larger one."
    return figure(plot, caption)


def _profile_plot(accountant: Any, charges: Sequence[Charge]) -> Markup:
    has_point = accountant.epsilon is not None and accountant.order is None
    marked = (accountant.epsilon, accountant.delta) if has_point else None
    points = _n_points(charges, _PROFILE_POINTS)
    limited = accountant._limit.is_share
    curves = accountant.curves() if limited else accountant.compositions()
    try:
        with np.errstate(all="ignore"):
            epsilons = profile_epsilons(curves, marked, points)
            deltas = profile_deltas(curves, epsilons)
    except ValueError:
        return tag("p", "There is no profile: something was released without noise.")
    except ArithmeticError:
        return tag("p", "There is no profile: the limit is too large to be drawn.")
    plot = profile_plot(epsilons.tolist(), deltas.tolist(), marked, "limit")
    what = "all charges that the limit admits, also adaptively chosen ones."
    if not limited:
        what = "all charges together, for budgets that were fixed beforehand."
    return figure(plot, f"For each ε, the smallest δ that holds for {what}")


@dataclass
class _Group:
    """Charges with the same label, by the same user, on the same split."""

    charges: int = 0
    releases: int = 0
    first: datetime | None = None
    last: datetime | None = None
    parts: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, charge: Charge) -> None:
        self.charges += 1
        self.releases += charge.releases * getattr(decode(charge.spec), "releases", 1)
        self.first = self.first or charge.time
        self.last = charge.time
        part = charge.split.part if charge.split else ""
        self.parts.setdefault(part, Counter())[charge.spec] += charge.releases

    def epsilon(self, delta: float, order: float | None) -> str:
        """Return the cost of the group; empty if it has too many kinds."""
        if sum(map(len, self.parts.values())) > _MAX_KINDS:
            return ""
        kinds = (tuple(sorted(part.items())) for part in self.parts.values())
        return rounded_up(max(_epsilon_together(each, delta, order) for each in kinds))


def _groups_table(accountant: Any, charges: Sequence[Charge]) -> list[Markup]:
    # Parts of two splits may overlap, even if the splits have the same name.
    groups: dict[tuple[str, str, str, str], _Group] = {}
    for charge in charges:
        where = (charge.split.name, charge.split.identity) if charge.split else ("", "")
        label = _NO_LABEL if charge.label is None else charge.label
        groups.setdefault((label, charge.user or "", *where), _Group()).add(charge)
    shown = sorted(groups.items(), key=lambda item: -item[1].charges)
    columns = ["label", "by", "split", "charges", "releases", "first", "last", "ε together"]
    rows: list[tuple[Any, ...]] = []
    for (label, user, split, _), group in shown[:_ROWS]:
        dates = (f"{group.first:%Y-%m-%d}", f"{group.last:%Y-%m-%d}")
        counts = (group.charges, group.releases)
        cost = group.epsilon(accountant.delta, accountant.order)
        rows.append((shortened(label), user, shortened(split), *counts, *dates, cost))
    rest = [group for _, group in shown[_ROWS:]]
    if rest:
        counts = sum(group.charges for group in rest), sum(group.releases for group in rest)
        rows.append((plural(len(rest), "further label"), "", "", *counts, "", "", ""))
    note = f"At {_terms(accountant)}. What several cost together is less than their sum" + (
        "; it is left out where charges are of many kinds." if len(charges) > _ROWS else "."
    )
    return [_wide_table(columns, rows), tag("p", note, class_="soft small")]


def _charges_table(accountant: Any) -> Markup:
    history = accountant.history()
    half = _ROWS // 2
    left_out = len(history) - _ROWS
    rows: list[tuple[Any, ...]] = []
    for n, row in enumerate(history, 1):
        if left_out > 0 and half < n <= len(history) - half:
            if n == half + 1:
                gap = f"{plural(left_out, 'charge')} left out; an export has all"
                rows.append(("…", "", "", gap, "", "", "", ""))
            continue
        part = "" if row["split"] is None else f"{row['split']}: {row['part']}"
        what = shortened(f"{row['mechanism']}({row['parameters']})", 400)
        who = (row["user"] or "", shortened(row["label"] or ""), shortened(part))
        cost = rounded_up(row["epsilon"])
        rows.append((n, f"{row['time']:%Y-%m-%d %H:%M:%S}", *who, what, row["releases"], cost))
    columns = ["number", "time (UTC)", "by", "label", "part", "mechanism", "releases", "ε alone"]
    return _wide_table(columns, rows)


def _wide_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Markup:
    """Return a table without empty columns."""
    kept = [i for i in range(len(columns)) if any(row[i] != "" for row in rows)]
    shown = [tuple(row[i] for i in kept) for row in rows]
    numbers = ["charges", "releases", "ε together", "ε alone"]
    return wide(table([columns[i] for i in kept], shown, numbers=numbers))


def _ledger_list(accountant: Any) -> Markup:
    checked = plural(accountant.verify(), "charge")
    command = f"skdirdp ledger verify --expect {accountant.anchor()}"
    later = " checks later that no charge up to now is missing or was changed."
    return tag(
        "ul",
        tag("li", "Stored in ", tag("code", without_password(str(accountant.path))), "."),
        tag("li", "Its identity is ", tag("code", accountant._ledger.identity), "."),
        tag("li", f"Checked for this page: {checked}, all intact."),
        tag("li", tag("code", command), later),
    )


def _card(accountant: Any) -> Markup:
    """Return the limit, its used part and the number of charges, for a notebook."""
    texts = dict(spending_texts(accountant))
    lines = [plural(len(accountant), "charge")]
    parts = [tag("strong", _title(accountant) or "Privacy budget")]
    if accountant.epsilon is None:
        lines += [f"used: {texts['used']}", "no limit"]
    else:
        parts.append(budget_bar(used_epsilon(accountant) / accountant.epsilon, texts["used"]))
        if not accountant._limit.is_share:
            texts["used"] += f" of {limit_text(accountant)}"
        lines += [f"{name}: {text}" for name, text in texts.items()]
    lines.append(f"budgets {plan_text(accountant)}")
    split = accountant._split
    if split is not None:
        lines.append(f"this is part {split.part!r} of {split.name!r}, within the whole")
    style = "overflow-wrap:anywhere;max-width:48em"
    return tag("div", *parts, tag("div", "; ".join(lines)), style=style)
