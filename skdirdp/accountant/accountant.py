"""Privacy accountant: enforces the budget of one data set.

The ledger stores mechanisms and guarantees with all their parameters, so the total is composed from
worst cases and not summed from epsilons. A charge is composed before the ledger is locked.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeVar
from uuid import uuid4

from .._messages import plural
from .._validation import check_choice, check_integer, check_real
from ..accounting import Composition
from ..accounting.attacks import AttackBounds, Profile, WorstOf
from ..accounting.composition import MAX_RELEASES, PrivacyCurves
from ..accounting.filters import PrivacyFilter
from ..accounting.worst_case import Unit
from ..exceptions import BudgetExceededError, DuplicateChargeError
from . import codec, limits, schema
from .ledger import Ledger, parse_anchor
from .reports import History, ReportsMixin, history_row

_DEFAULT_DELTA = 1e-5
_CHEAP_CHARGES = 100  # largest number of charges that are read for a representation
_ATTEMPTS = 3
_Result = TypeVar("_Result")


class PrivacyAccountant(ReportsMixin, AttackBounds):
    """Privacy budget of one data set, shared by all fits.

    An accountant enforces one privacy budget for all fits on a data set, across processes and
    machines. The guarantee holds even if you choose each fit after seeing the results of earlier
    ones. Every private `fit`, and every release of a mechanism, charges its accountant before
    noise is drawn. Copies, `sklearn.clone`, pickles and worker processes use the same ledger.

    Parameters
    ----------
    epsilon : float, default=None
        Limit of all charges together. If None, all charges are recorded and none is rejected.
    delta : float, default=1e-5
        The limit is (epsilon, delta)-differential privacy. Also the default delta of `total`.
    order : float, default=None
        If given, the limit is (order, epsilon)-Renyi differential privacy instead.
    adaptive : bool, default=None
        If True, all charges together are (epsilon, delta)-DP even if each charge is chosen after
        seeing earlier releases. If False, this holds only for a plan that is fixed before the
        first release, such as a grid search, and the limit admits slightly more. None means
        True for a new ledger, and the stored value for an existing one.
    path : str or path-like, default=None
        File, or URL of a PostgreSQL database,
        ``"postgresql+psycopg://user@host/database"``. An existing ledger is continued with its
        stored limit; passing another limit is an error. If None, the ledger is a temporary file
        that is removed when the process ends.
    name : str, default=None
        Name of the budget, which selects one in a database; if None, "default".
    adjacency : str, default=None
        Relation under which a new ledger may be charged, "replace" or "add_remove". If None,
        the first charge decides.
    unit : str, default=None
        Unit that a new ledger protects. ``"record"`` is a single row. Any other value is
        a singular noun for a person with several rows, such as "patient"; the ledger then rejects
        charges that protect single rows, and its statement inserts the noun after "one". If
        None, the first charge decides.

    Notes
    -----
    All charges of one accountant must be under the same adjacency.

    With ``adaptive=True`` the limit is a privacy filter (docs/theory.md, section 13) that the
    first charge determines. It admits at least 95% of the charges of one kind that exact
    composition admits, and all of them if these are fewer than 20. The limit itself is guaranteed,
    so `total` equals the limit after the first charge. `remaining` is the unspent share of the
    limit, times epsilon: after one of seven equal charges that fit under a limit of 3, `total` is
    3.0 and `remaining` is 6/7 of 3.

    A limit with `order` holds for fixed and adaptive plans: Renyi divergences of one order
    add up in both cases (Feldman and Zrnic 2021). Without a limit, `total` is the guarantee for
    a plan that was fixed beforehand.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> mechanism = DirichletMechanism(r=0.05, alpha=2.0)
    >>> probabilities = mechanism.release([12, 0, 5], accountant=accountant, label="colours")
    >>> accountant.charge(mechanism, releases=13, label="sizes")
    >>> accountant
    PrivacyAccountant(epsilon=1.0, delta=1e-05): 2 charges, 66.67% of the limit spent, 33.33% left;
    the limit is the total
    >>> accountant.charge(mechanism, releases=100)
    Traceback (most recent call last):
        ...
    skdirdp.exceptions.BudgetExceededError: ...
    """

    _ledger: Ledger
    _split: schema.Split | None
    _limit: limits.Limit

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = _DEFAULT_DELTA,
        *,
        order: float | None = None,
        adaptive: bool | None = None,
        path: "str | PathLike[str] | None" = None,
        name: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ):
        limit = schema.check_limit(epsilon, delta, order, adaptive)
        _check_texts(name=name, adjacency=adjacency, unit=unit)
        declared = schema.header_adjacency(adjacency, unit)
        ledger = Ledger.create_or_open(path, limit, name=name, adjacency=declared, unit=unit)
        if path is not None:
            schema.check_stored_limit(ledger.header)
            stored = ledger.header.limit
            asked = replace(limit, adaptive=stored.adaptive) if adaptive is None else limit
            omitted = schema.LimitParameters(None, _DEFAULT_DELTA, None, stored.adaptive)
            if asked not in (stored, omitted):
                raise ValueError(
                    f"the ledger {ledger.path} was created with {_limit_text(stored)}, which "
                    f"cannot be changed; got {_limit_text(asked)}. Omit them to continue"
                )
            _check_same_declared(ledger, name=name, adjacency=adjacency, unit=unit)
        self._set_ledger(ledger)

    @classmethod
    def open(cls, path: "str | PathLike[str]", name: str | None = None) -> "PrivacyAccountant":
        """Return the accountant of an existing ledger, without creating one.

        Parameters
        ----------
        path : str or path-like
            File, or URL of a PostgreSQL database.
        name : str, default=None
            Name of the budget in a database.

        Raises
        ------
        LedgerError
            If there is no ledger, or it is damaged.
        """
        ledger = Ledger.open(path, name)
        schema.check_stored_limit(ledger.header)
        _check_same_declared(ledger, name=name)
        return cls._from_ledger(ledger)

    @classmethod
    def _from_ledger(cls, ledger: Ledger, split: schema.Split | None = None) -> "PrivacyAccountant":
        accountant = cls.__new__(cls)
        accountant._set_ledger(ledger, split)
        return accountant

    def _set_ledger(self, ledger: Ledger, split: schema.Split | None = None) -> None:
        self._ledger = ledger
        self._split = split
        self._limit = limits.limit_for(ledger.header.limit)

    @property
    def epsilon(self) -> float | None:
        """Epsilon of the limit, or None without a limit."""
        return self._limit.parameters.epsilon

    @property
    def delta(self) -> float:
        """Delta of the limit, and the default delta of `total`."""
        return self._limit.parameters.delta

    @property
    def order(self) -> float | None:
        """Renyi order of the limit, or None for an (epsilon, delta) limit."""
        return self._limit.parameters.order

    @property
    def adaptive(self) -> bool:
        """Whether the limit holds for adaptively chosen charges."""
        return self._limit.parameters.adaptive

    @property
    def path(self) -> str:
        """File of the ledger, or URL of its database without a password."""
        return self._ledger.path

    @property
    def name(self) -> str | None:
        """Name of the budget."""
        return self._ledger.header.name

    @property
    def adjacency(self) -> str | None:
        """Relation that may be charged, if the ledger was created for one."""
        return schema.declared_adjacency(self._ledger.header)

    @property
    def unit(self) -> str | None:
        """Protected unit: "record", or the name of a person with several records."""
        return self._ledger.header.unit

    def charge(
        self,
        mechanism: PrivacyCurves,
        releases: int = 1,
        label: str | None = None,
        *,
        key: str | None = None,
        unit: Unit | None = None,
    ) -> None:
        """Record releases before they are made, if the limit admits them.

        The charge is on disk when this method returns. After an error, nothing may be released.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            Charge a guarantee for releases that are made with something else.
        releases : int, default=1
            Number of tables that are released with it.
        label : str, default=None
            Name of the charge in the history. It is stored as given and must not contain data.
        key : str, default=None
            Unique name of this charge. If an error leaves open whether a charge was recorded,
            repeating it with the same key counts once. A second release needs another charge.
        unit : Unit, default=None
            Number of records per person, for a charge under an adjacency such as
            "replace_person". It appears in the statement of the ledger.

        Raises
        ------
        BudgetExceededError
            If the limit does not admit the charge. The ledger is unchanged.
        """
        spec, releases = self._check_charge(mechanism, releases, unit)
        _check_texts(label=label, key=key)
        is_new = key is None
        key = uuid4().hex if key is None else codec.check_key(key)
        self._charge_with_retries(spec, releases, label, key, is_new)

    def _charge_with_retries(
        self, spec: str, releases: int, label: str | None, key: str, is_new: bool
    ) -> None:
        """Charge with one key, which counts once even if a lost connection delivers it later."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(schema.ConnectionLostError):
                return self._charge(spec, releases, label, key, is_new)
            is_new = False
        return self._charge(spec, releases, label, key, is_new)

    def _charge(self, spec: str, releases: int, label: str | None, key: str, is_new: bool) -> None:
        """Write a charge, composed before the ledger is locked and again if others charged."""
        before = self._spent()
        after = before.with_charge(spec, releases, self._split)
        admitted = self._limit.admits(after)
        if admitted or not is_new:
            with self._ledger.writing() as transaction:
                if not is_new and (earlier := transaction.find(key)) is not None:
                    original = (earlier.spec, earlier.releases, earlier.label, earlier.split)
                    if original == (spec, releases, label, self._split):
                        return
                    raise DuplicateChargeError(
                        f"key must be unique; {key!r} was used for charge {earlier.id} of the "
                        "ledger, which is another charge. Nothing was charged"
                    )
                latest = limits.current_spending(transaction, before)
                if latest is not before:
                    before, after = latest, latest.with_charge(spec, releases, self._split)
                    admitted = self._limit.admits(after)
                if admitted:
                    after.position = transaction.append(spec, releases, label, self._split, key=key)
                    after.is_checked = before.is_checked
        if not admitted:
            raise BudgetExceededError(
                self._limit.refusal(spec, releases, label, before, self._split)
            )
        limits.remember(self._ledger.identity, after)

    def affords(self, mechanism: PrivacyCurves, releases: int = 1) -> bool:
        """Return whether the limit would admit a charge now, without charging.

        Other processes may charge the same ledger afterwards, so only `charge` is binding.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            The charge. ``ApproximateDP(epsilon, delta)`` represents any fit with that budget,
            and costs at least as much as the fit will.
        releases : int, default=1
            Number of releases.

        Examples
        --------
        Before a search with 3 candidates, 5 folds and a refit, each with epsilon 0.1:

        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import ApproximateDP
        >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
        >>> accountant.affords(ApproximateDP(0.1, 1e-7), releases=3 * 5 + 1)
        False
        >>> accountant.affords(ApproximateDP(0.05, 1e-7), releases=3 * 5 + 1)
        True
        """
        spec, releases = self._check_charge(mechanism, releases)
        return self._limit.admits(self._spent().with_charge(spec, releases, self._split))

    def _check_charge(
        self, mechanism: PrivacyCurves, releases: int, unit: Unit | None = None
    ) -> tuple[str, int]:
        spec = codec.encode_charge(mechanism, unit, self._split, self._ledger.header)
        releases = check_integer("releases", releases, at_least=1, at_most=MAX_RELEASES)
        # Charges that cannot be composed later raise an error now, even without a limit.
        limits.check_computable(spec, releases, self._limit.parameters)
        return spec, releases

    def total(self, delta: float | None = None) -> float:
        """Return an epsilon that is guaranteed at delta for all charges.

        With an adaptive (epsilon, delta) limit this is the limit, for all charges so far and in
        the future. Otherwise it is the smallest epsilon known to hold for the charges, if all of
        them were fixed beforehand.

        Parameters
        ----------
        delta : float, default=None
            If None, the delta of the accountant.

        Returns
        -------
        float
            0 without charges; infinite if something was released without noise, or if an
            adaptive limit allows more than delta for releases that may reveal everything.
        """
        delta = check_real("delta", self.delta if delta is None else delta, above=0, below=1)
        return self._measured(lambda spent: self._limit.total(spent, delta))

    def remaining(self) -> float:
        """Return the unspent part of the limit, as an epsilon.

        With an adaptive (epsilon, delta) limit this is the unspent share of the limit times its
        epsilon; if it is 0, some kinds of charges may still be admitted: ``print`` lists them.
        Otherwise it is the difference of the limit and the total, at its delta or order.
        Charges are not summed, so one that costs more alone may still be admitted: see `affords`.

        Returns
        -------
        float
            At least 0; infinite without a limit.
        """
        return self._measured(self._limit.remaining)

    def running_total(
        self, delta: float | None = None, *, after: Iterable[int] | None = None
    ) -> list[float]:
        """Return the used part of the limit, or the total, after each charge.

        Parameters
        ----------
        delta : float, default=None
            If given, return `total` at delta. If None, return the used part as in `remaining`.
        after : iterable of int, default=None
            Numbers of charges, each from 1 to the number of all charges. If None, after every
            charge. Each may take a tenth of a second.

        Returns
        -------
        list of float
            In the order of the charges.
        """
        if delta is not None:
            delta = check_real("delta", delta, above=0, below=1)
        charges = self._charges()
        numbers = set(range(1, len(charges) + 1))
        if after is not None:
            numbers = {check_integer("after", number, at_least=1) for number in after}
            if max(numbers, default=0) > len(charges):
                raise ValueError(
                    f"after must be at most the number of charges, {len(charges)}; "
                    f"got {max(numbers)}"
                )
        measure = self._limit.used if delta is None else partial(self._limit.total, delta=delta)
        return self._measured(lambda _: [*map(measure, limits.spending_after(charges, numbers))])

    def compositions(self) -> list[Composition]:
        """Return the composition of all charges, for a plan that was fixed beforehand.

        Returns
        -------
        list of Composition
            One for each choice of disjoint parts that a record can be in; the worst one counts.
        """
        return self._measured(lambda spent: [each.composition() for each in spent.exposures()])

    def curves(self) -> list[Composition] | list[PrivacyFilter]:
        """Return the privacy curves that are guaranteed; the worst one counts.

        Returns
        -------
        list
            Objects with methods ``delta(epsilon)`` and ``epsilon(delta)``: a privacy filter if an
            adaptive (epsilon, delta) limit was charged, otherwise `compositions`.
        """
        return self._measured(self._limit.curves)

    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        # Merged charges were not admitted by the limit of this ledger.
        merged = any(map(codec.is_merged, self._charges()))
        bounds = self.compositions() if merged else self._measured(self._limit.claimed)
        return WorstOf(bounds)._profiles()

    def history(self) -> History:
        """Return all charges, oldest first.

        Returns
        -------
        History
            Rows that print as a table and that ``pandas.DataFrame`` accepts. Each has the epsilon
            of the charge alone; the table of at most 20 charges also has `running_total`.
        """
        rows = [history_row(charge, self._limit) for charge in self._charges()]
        return History(rows, self.running_total, self.epsilon if self._limit.is_share else None)

    def parallel(self, name: str, *, split_by: str) -> "ParallelParts":
        """Return accountants for disjoint parts of the data; only the maximum counts.

        A record in one part is exposed to the charges on that part and on the whole data set, but
        not to those on other parts. So the total is the largest total of one part and the whole
        together; with several splits, the largest over all choices of one part from each.

        This needs an adjacency under which a record stays in its part; others raise an error.

        - ``split_by="values"``: the part depends on the record's own values, by a rule fixed
          without looking at the data. Valid for ``adjacency="add_remove"``; a replaced record may
          move from one part to another.
        - ``split_by="position"``: the part depends on the row number and the public number of
          rows. Valid for ``adjacency="replace"`` and for `SimplexMechanism`; an added or removed
          record shifts the rows after it.

        Parameters
        ----------
        name : str
            Name of the split in the history. Each call makes a new split, even with the same
            name, and the charges of two splits add up.
        split_by : {"values", "position"}
            What determines the part of a record.

        Returns
        -------
        ParallelParts
            ``parts["north"]`` is an accountant for that part, with the limit and the total of
            the whole data set.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import DirichletMechanism
        >>> accountant = PrivacyAccountant()
        >>> mechanism = DirichletMechanism(r=0.5, alpha=5.0, adjacency="add_remove")
        >>> regions = accountant.parallel("region", split_by="values")
        >>> for region in ["north", "south", "west"]:
        ...     regions[region].charge(mechanism)
        >>> accountant.total() == mechanism.epsilon(1e-5)
        True
        """
        check_choice("split_by", split_by, tuple(schema.SPLIT_BY))
        if not isinstance(name, str):
            raise TypeError(f"name must be a string; got {type(name).__name__}")
        if self._split is not None:
            raise ValueError(
                f"a part cannot be split again; got a split {name!r} of {self._split.part!r}. "
                "Name the smaller parts in one split of the whole data set"
            )
        return ParallelParts(self._ledger, schema.Split(uuid4().hex, "", name, split_by))

    def verify(self, *, expect: str | None = None) -> int:
        """Check the whole ledger: its storage, its limit and each charge.

        Hashes find charges that were changed, removed, inserted or moved, and a changed limit.
        Every charge is decoded, and all of them together must be within the limit. A person who
        can write the ledger can recompute all hashes, or restore a backup of a database: only an
        `anchor` that was kept elsewhere finds this.

        Parameters
        ----------
        expect : str, default=None
            An earlier `anchor`. The ledger must have the same limit and begin with the same
            charges.

        Returns
        -------
        int
            Number of checked charges.

        Raises
        ------
        LedgerError
            If the ledger is damaged.
        """
        with self._ledger.reading() as transaction:
            number = transaction.verify(None if expect is None else parse_anchor(expect))
            sums = transaction.sums()
        with self._ledger_errors():
            self._check(self._latest())
            for (_, _, spec), releases in sums.items():
                limits.check_computable(spec, releases, self._limit.parameters)
        return number

    def anchor(self) -> str:
        """Return a short text that identifies the limit and all charges so far.

        Keep it where others cannot change it. `verify` then finds missing or changed charges.

        Returns
        -------
        str
            ``COUNT:HASH``, the number of charges and the hash of the last.
        """
        with self._ledger.reading() as transaction:
            return f"{transaction.n_entries}:{transaction.hash}"

    def __len__(self) -> int:
        with self._ledger.reading() as transaction:
            return transaction.n_entries

    def __bool__(self) -> bool:
        return True  # even without charges, so that `if accountant` does not skip it

    def __repr__(self) -> str:
        terms = "no limit"
        if self.order is not None:
            terms = f"epsilon={self.epsilon}, order={self.order}"
        elif self.epsilon is not None:
            plan = "" if self.adaptive else ", adaptive=False"
            terms = f"epsilon={self.epsilon}, delta={self.delta}{plan}"
        name = f"PrivacyAccountant({terms})"
        if self._split is not None:
            name += f", part {self._split.part!r} of {self._split.name!r}"
        try:
            with self._ledger.reading() as transaction:
                count, last = transaction.n_entries, transaction.last_position()
        except schema.LedgerError:
            return f"{name}: its ledger cannot be read"
        charges = plural(count, "charge")
        is_known = last == limits.known_spending(self._ledger.identity).position
        try:
            with self._ledger_errors():
                spent = self._spent() if is_known or count <= _CHEAP_CHARGES else None
                return f"{name}: {charges}{self._limit.summary(spent)}"
        except schema.LedgerError:
            return f"{name}: {charges} that have no total"

    # Copies in this process are the object itself; a pickle refers to the same ledger.
    def __copy__(self, memo: Any = None) -> "PrivacyAccountant":
        return self

    __deepcopy__ = __sklearn_clone__ = __copy__

    def _charges(self) -> list[schema.Charge]:
        """Return all charges after decoding and checking each."""
        with self._ledger.reading() as transaction:
            charges = transaction.charges()
        for charge in charges:
            codec.check_stored_charge(charge, self._ledger.header)
        return charges

    def _latest(self) -> limits.Spending:
        """Return all charges, and keep them in memory."""
        known = limits.known_spending(self._ledger.identity)
        with self._ledger.reading() as transaction:
            spent = limits.current_spending(transaction, known)
        return spent if spent is known else limits.remember(self._ledger.identity, spent)

    def _spent(self) -> limits.Spending:
        """Return all charges after checking that the limit can have admitted them."""
        with self._ledger_errors():
            spent = self._latest()
            if not spent.is_checked:
                self._check(spent)
                spent.is_checked = True
        return spent

    def _check(self, spent: limits.Spending) -> None:
        """Raise LedgerError if the limit cannot have admitted the charges that were not merged."""
        for adjacency in spent.adjacencies:
            codec.check_stored_relation(adjacency, self._ledger.header)
        if spent.parts:
            self._charges()  # checks the splits
        if any(max(each.counts.values(), default=0) > MAX_RELEASES for each in spent.exposures()):
            raise ValueError("more releases of one kind than can be counted")
        if self._limit.may_have_admitted(spent):
            return
        if not self.adaptive:
            own = [charge for charge in self._charges() if not codec.is_merged(charge)]
            spent = next(limits.spending_after(own, [len(own)]), limits.Spending())
            if self._limit.may_have_admitted(spent):
                return
        raise schema.LedgerError(
            f"the ledger {self.path} cannot be used: its limit does not admit its charges, so they "
            "were not made by charging it. Nothing is guaranteed for them; history() lists them"
        )

    def _measured(self, measure: Callable[[limits.Spending], _Result]) -> _Result:
        """Return a measure of all charges, or raise LedgerError if there is none."""
        with self._ledger_errors():
            value = measure(self._spent())
            if isinstance(value, float) and math.isnan(value):
                raise ValueError("their cost exceeds the range of floating-point numbers")
        return value

    @contextmanager
    def _ledger_errors(self) -> Iterator[None]:
        """Turn every error of a composition into a LedgerError."""
        try:
            yield
        except schema.LedgerError:
            raise
        except Exception as error:
            reason = " ".join(f"{error}".split())[:300] or type(error).__name__
            raise schema.LedgerError(
                f"the charges of the ledger {self.path} cannot be composed: {reason}"
            ) from error


class ParallelParts:
    """Accountants of disjoint parts, by name; see `PrivacyAccountant.parallel`.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the whole data set.
    split : Split
        The split of the parts.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> PrivacyAccountant(epsilon=1.0).parallel("region", split_by="values")
    ParallelParts('region', split_by='values')
    """

    def __init__(self, ledger: Ledger, split: schema.Split):
        self._ledger = ledger
        self._split = split

    def __getitem__(self, part: Any) -> PrivacyAccountant:
        """Return the accountant of one part; equal names are the same part."""
        return PrivacyAccountant._from_ledger(self._ledger, replace(self._split, part=str(part)))

    def __repr__(self) -> str:
        return f"ParallelParts({self._split.name!r}, split_by={self._split.by!r})"


def _check_texts(**texts: Any) -> None:
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a string; got {type(value).__name__}")


def _limit_text(limit: schema.LimitParameters) -> str:
    return ", ".join(f"{name}={value}" for name, value in vars(limit).items())


def _check_same_declared(ledger: Ledger, **asked: str | None) -> None:
    """Raise ValueError if a declared value differs from the stored one."""
    for name, value in asked.items():
        stored = getattr(ledger.header, name)
        accepted = [None, stored]
        if name == "adjacency":
            stored = schema.declared_adjacency(ledger.header)
            accepted.append(stored)
        if value not in accepted:
            raise ValueError(
                f"the ledger {ledger.path} was created with {name}={stored!r}, which cannot be "
                f"changed; got {value!r}. Omit it to continue"
            )
