"""The charges of an accountant, as a table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from .._messages import plural
from ..accounting import Composition
from ..reporting.pages import table, tag
from ..reporting.statements import rounded_up, visible
from .codec import decode, describe_parameters
from .filtering import in_percent, is_filter
from .ledger import Charge, Limits


class HistoryRow(Mapping[str, Any]):
    """One charge: what is stored of it, and what it costs alone, once that is asked for.

    A mapping like a dict, which cannot be changed.

    Parameters
    ----------
    stored : dict
        All but the epsilon.
    alone : callable
        Gives the epsilon.

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

    # Composition takes milliseconds for each kind of charge, and a ledger may hold thousands.
    _COMPUTED = "epsilon"
    __slots__ = ("_alone", "_stored")

    def __init__(self, stored: dict[str, Any], alone: Callable[[], float]):
        self._stored = {**stored, self._COMPUTED: None}
        self._alone = alone

    def __getitem__(self, name: str) -> Any:
        if name == self._COMPUTED and self._stored[name] is None:
            self._stored[name] = self._alone()
        return self._stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return repr(dict(self))


class History(list):
    """Charges as a list of rows that prints as a table; made by `PrivacyAccountant.history`.

    A row is a mapping, and ``pandas.DataFrame(history)`` takes them all. Its "epsilon" is
    what the charge costs alone, in the terms of the accountant's limit: at its delta, or at
    its order. It is computed when it is first looked at, once for each kind of charge.

    Parameters
    ----------
    iterable : iterable of mappings
        The charges, oldest first. All have the same keys: "time", "mechanism",
        "parameters", "adjacency", "user", "releases", "label", "split", "part" and "epsilon".
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
        "time",
        "mechanism",
        "parameters",
        "adjacency",
        "user",
        "split",
        "part",
        "releases",
        "epsilon",
        "total",
        "label",
    )
    _WHERE_GIVEN = ("user", "split", "part")
    _NUMBERS = ("releases", "epsilon", "total", "used")
    # The part of an adaptive limit that is used is no total, and must not read as an epsilon.
    _limit: float | None = None

    def __init__(
        self,
        iterable: Iterable[Mapping[str, Any]] = (),
        running_total: Callable[..., list[float]] | None = None,
    ):
        super().__init__(iterable)
        self._running_total = running_total

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and cells; a long history shows its ends, and no running total."""
        half = self._SHOWN // 2
        ends = [*self[:half], *self[-half:]] if len(self) > self._SHOWN else list(self)
        totals = self._totals()
        columns = [
            name
            for name in self._COLUMNS
            if (name not in self._WHERE_GIVEN or any(row.get(name) is not None for row in self))
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
        return _cell(value)

    def _totals(self) -> list[float] | None:
        # Each takes a composition of all charges before it.
        if self._running_total is None or not 0 < len(self) <= self._SHOWN:
            return None
        try:
            return self._running_total(after=range(1, len(self) + 1))
        except ValueError:  # a ledger that has no total, or is out of reach by now
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


def history_of(
    charges: Sequence[Charge], limits: Limits, running_total: Callable[..., list[float]]
) -> History:
    """The charges of a ledger, each with what it costs alone."""
    history = History((_row_of(charge, limits) for charge in charges), running_total)
    if is_filter(limits):
        history._limit = limits.epsilon
    return history


def _row_of(charge: Charge, limits: Limits) -> HistoryRow:
    mechanism = decode(charge.spec)
    stored = {
        "time": charge.time,
        "mechanism": type(mechanism).__name__,
        "parameters": describe_parameters(mechanism),
        "adjacency": mechanism.adjacency,
        "user": getattr(charge, "user", None) or None,
        "releases": charge.releases * getattr(mechanism, "releases", 1),
        "label": charge.label,
        "split": charge.split.name if charge.split else None,
        "part": charge.split.part if charge.split else None,
    }
    alone = partial(epsilon_alone, charge.spec, charge.releases, limits.delta, limits.order)
    return HistoryRow(stored, alone)


@lru_cache(maxsize=1 << 14)
def epsilon_alone(spec: str, releases: int, delta: float, order: float | None) -> float:
    """What one charge costs by itself, at a delta or at an order."""
    composition = Composition([(decode(spec), releases)])
    return composition.epsilon(delta) if order is None else float(composition.rdp(order))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return rounded_up(value)
    return visible(" ".join(str(value).split()))
