"""What those ask of an accountant who answer for a budget: statements, pages, files, merging."""

from os import PathLike
from typing import Any

from ..reporting.pages import tag, write
from .codec import decode
from .exports import FORMATS, format_of, read_export
from .merging import bring_in, entries_of, identity_of
from .records import LedgerError, is_of_persons, is_record, persons_of
from .summary import ledger_card, ledger_page, ledger_statement_of


class StewardMixin:
    """The part of `PrivacyAccountant` that reads a ledger for people, and moves it about."""

    def statement(self) -> str:
        """What may be said of everything that was charged, as a sentence to publish.

        That of docs/statement.md, filled in. For budgets that may be chosen on the way it
        states the limit; for budgets that were fixed beforehand the total, rounded up.

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
        return ledger_statement_of(self)

    def report(self, path: "str | PathLike[str]") -> str:
        """Write a page on what was spent, when, by whom and on what.

        One HTML file that loads nothing: the limit, the statement, the ledger and the
        privacy profile as plots, tables of charges, and what is not covered.

        Parameters
        ----------
        path : str or path-like
            Where to. An existing file is replaced. Only its owner can read a new one.

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
        return write(path, ledger_page(self))

    def export(self, path: "str | PathLike[str]") -> str:
        """Write the ledger into a file: JSON to read back, or CSV to look at.

        Parameters
        ----------
        path : str or path-like
            Where to; the name ends in ``.json`` or ``.csv``. An existing file is replaced.
            Only its owner can read a new one.

        Returns
        -------
        str
            The path of the file.
        """
        return write(path, FORMATS[format_of(path)](self))

    @classmethod
    def from_export(
        cls, export: "str | PathLike[str]", path: "str | PathLike[str] | None" = None
    ) -> Any:
        """An accountant of a new ledger with all that a JSON export holds.

        The limits, and every charge with its time and its user, are those of the exported
        ledger. Merged with that ledger again, each charge counts once.

        Parameters
        ----------
        export : str or path-like
            A file that `export` wrote.
        path : str or path-like, optional
            Where the new ledger is kept, as for the accountant itself. A ledger that is
            there already, with the same limits, gets the charges that it lacks.

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
        made_with, entries = read_export(export)
        relations = [decode(entry.spec).adjacency for entry in entries]
        unit = made_with.get("unit")
        if not is_record(unit) and not all(map(is_of_persons, relations)):
            # Of a version in which the unit was a name, and did not decide on charges.
            made_with["unit"] = None
        try:
            accountant = cls(**made_with, path=path)  # type: ignore[call-arg]
        except TypeError as error:
            raise LedgerError(f"the export {export} cannot be read: {error}") from None
        bring_in(accountant, entries, copy=True)
        return accountant

    def merge(self, other: Any) -> int:
        """Take over the charges of another ledger of the same data set.

        For ledgers that were kept apart, on two machines say. Each charge counts once,
        however often and on whatever way it comes: merging the same ledger again adds what
        is new. What was released is recorded even beyond the limit of this ledger, which
        then admits nothing more. All charges are taken over, or none.

        A limit for budgets that are chosen on the way (``adaptive=True``) holds only for what
        it has decided on itself. So nothing is merged into such a ledger: make one with
        ``adaptive=False``, or without a limit, and merge both into that.

        Disjoint parts of a `parallel` split stay those of that split; splits of two ledgers
        add up, even under one name.

        Parameters
        ----------
        other : PrivacyAccountant
            Under the same adjacency, and for the same unit. It stays as it is, and should
            not be charged any more.

        Returns
        -------
        int
            How many charges were new.

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
        if not isinstance(other, StewardMixin):
            raise TypeError(f"other must be a PrivacyAccountant; got a {type(other).__name__}")
        if getattr(self, "_split", None) is not None:
            raise ValueError("a part cannot be merged into; merge into the accountant of the whole")
        units = [persons_of(each._ledger.header) for each in (self, other)]  # type: ignore[attr-defined]
        if units[0] != units[1]:
            raise ValueError(
                f"unit must be the same for ledgers that are merged; got {units[0]!r} here and "
                f"{units[1]!r} there. Nothing was merged"
            )
        # Read before anything is locked for writing: two may merge into each other.
        identity = identity_of(other)
        entries = entries_of(identity, other._charges())  # type: ignore[attr-defined]
        return bring_in(self, entries)

    def _repr_html_(self) -> str:
        try:
            return str(ledger_card(self))
        except ValueError:  # a ledger out of reach, or without a total
            return str(tag("div", repr(self)))
