"""The privacy accountant: what was released of one data set, and what that costs.

An entry of the ledger is a mechanism or a guarantee with all its parameters, so the
total is composed from worst cases and not added up from epsilons. Entries of the same
kind are summed in the ledger; ten thousand charges of three kinds compose as three, and ten
thousand kinds as the sum of their series. What was composed is kept, and a charge is composed
before others are made to wait: the ledger is locked only to see that it still fits, and to write.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from typing import Any, TypeVar
from uuid import uuid4

from .._messages import plural
from .._validation import check_choice, check_integer, check_real
from ..accounting import Composition
from ..accounting.composition import MAX_RELEASES, PrivacyCurves
from ..accounting.filters import PrivacyFilter
from ..accounting.worst_case import OF_PERSONS, Unit, kind_of
from ..exceptions import BudgetExceededError
from .admission import (
    after_charges,
    check_adjacency,
    check_computable,
    is_cheap,
    key,
)
from .codec import (
    check_charge,
    check_relation,
    encode,
    is_declared,
    other_relation,
)
from .filtering import (
    admits,
    filter_of,
    fits,
    in_percent,
    is_filter,
    refusal,
    remaining,
    share,
    total_epsilon,
    upwards,
    used,
)
from .history import History, history_of
from .ledger import Charge, Ledger, LedgerError, Split, parse_anchor
from .merging import check_key, is_merged
from .records import (
    DEFAULT_DELTA,
    SPLIT_BY,
    ConnectionLostError,
    check_declared,
    check_header,
    check_limits,
    check_same_declared,
    check_same_limits,
    check_text,
    is_of_persons,
    shown_adjacency,
    with_unit,
)
from .spending import Spending, caught_up, known_spending, remember
from .steward import StewardMixin

_CHEAP_TO_READ = 100  # charges
_ATTEMPTS = 3
_Measure = TypeVar("_Measure")


class PrivacyAccountant(StewardMixin):
    """The privacy budget of one data set.

    Every private `fit`, and every release of a mechanism, that is given the
    accountant charges it before noise is drawn. An accountant is one object however
    it travels: copies, `sklearn.clone`, pickles and worker processes all reach the
    same ledger, and together they cannot pass its limit.

    Parameters
    ----------
    epsilon : float, optional
        The limit of all charges together. Without it everything is admitted and
        only recorded.
    delta : float, default=1e-5
        The limit is (epsilon, delta)-DP; also the delta that `total` uses when it
        is given none.
    order : float, optional
        Given with `epsilon`, the limit is (order, epsilon)-RDP instead.
    adaptive : bool, default=None
        What the limit promises. True: whatever is charged under it is
        (epsilon, delta)-DP as a whole, also if each charge is chosen after looking at
        what the earlier ones released. False: that holds only for a plan that was fixed
        before the first release, a grid search say, and a little more is admitted. None
        is True, and for an existing ledger what it was made with.
    path : str or path-like, optional
        A file that outlives the process, or the address of a PostgreSQL database,
        ``"postgresql+psycopg://user@host/database"``. An existing ledger is continued: its
        limits are the stored ones, and giving others is an error. Without a path the ledger
        is a temporary file that ends with the process that made the accountant.
    name : str, optional
        What the budget is called. A database has many budgets, and this says which; without
        it, the one called "default".
    adjacency : str, optional
        The only relation under which a new ledger is to be charged, "replace" or
        "add_remove"; by default, that of its first charge.
    unit : str, optional
        What a new ledger protects. ``"record"`` is a single row. Any other noun, such as
        "patient" or "household", is a name for persons who may have several rows: the ledger
        then refuses charges that protect single rows, and its statement uses the name. By
        default the first charge decides.

    Notes
    -----
    All charges of one accountant are under the same adjacency. That of a
    `SimplexMechanism` is the exchange of a vector, and never that of tables of counts.

    With ``adaptive=True`` the limit is kept by a privacy filter (docs/theory.md, section
    13), which the first charge decides: repeating its kind is admitted to at least 95% of
    what exact composition admits, and fully if that is fewer than 20 charges. The promise is
    the limit itself, so `total` is the limit as soon as something was charged, however much of
    it is spent. What is spent is a share of what the limit admits, and `remaining` is the rest
    of it, times epsilon. After one of seven charges that fit under a limit of 3, `total` is 3.0,
    1/7 of the limit is spent, and `remaining` is 6/7 of 3. None of these is the epsilon of the
    charge alone, which `history` has.

    A limit with `order` holds for either way of spending: Renyi divergences of one order
    add up even then (Feldman and Zrnic 2021). Without a limit nothing is promised
    beforehand, and `total` is that of a plan fixed beforehand.

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
    >>> len(accountant)
    2

    A plan that was fixed beforehand, and what exactly it costs:

    >>> plan = PrivacyAccountant(epsilon=1.0, delta=1e-5, adaptive=False)
    >>> plan.charge(mechanism, releases=14)
    >>> plan
    PrivacyAccountant(epsilon=1.0, delta=1e-05, adaptive=False): 1 charge, total epsilon 0.7865
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = DEFAULT_DELTA,
        *,
        order: float | None = None,
        adaptive: bool | None = None,
        path: "str | PathLike[str] | None" = None,
        name: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
    ):
        if adaptive not in (None, True, False):
            raise ValueError(f"adaptive must be True or False; got {adaptive!r}")
        asked = check_limits(epsilon, delta, order, adaptive is None or bool(adaptive))
        asked_for = check_declared(name=name, adjacency=adjacency, unit=unit)
        declared = asked_for | {"adjacency": with_unit(adjacency, unit)}
        self._split: Split | None = None
        if path is None:
            self._ledger = Ledger.temporary(asked, **declared)
        else:
            self._ledger = Ledger.create_or_open(path, asked, **declared)
            check_header(self._ledger.header)
            check_same_limits(asked, adaptive is None, self._ledger)
            check_same_declared(asked_for, self._ledger)

    @classmethod
    def open(cls, path: "str | PathLike[str]", name: str | None = None) -> "PrivacyAccountant":
        """The accountant of a ledger that exists; none is made.

        Parameters
        ----------
        path : str or path-like
            A file, or the address of a PostgreSQL database.
        name : str, optional
            Which budget of a database.

        Returns
        -------
        PrivacyAccountant

        Raises
        ------
        LedgerError
            If there is no ledger, or it is damaged.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> accountant = PrivacyAccountant(epsilon=1.0)
        >>> PrivacyAccountant.open(accountant.path).epsilon
        1.0
        """
        accountant = cls.__new__(cls)
        accountant._ledger = Ledger.open(path, name)
        check_header(accountant._ledger.header)
        accountant._split = None
        check_same_declared({"name": name}, accountant._ledger)
        return accountant

    @property
    def epsilon(self) -> float | None:
        """The limit, or None."""
        return self._ledger.limits.epsilon

    @property
    def delta(self) -> float:
        """The delta of the limit, and of `total` by default."""
        return self._ledger.limits.delta

    @property
    def order(self) -> float | None:
        """The Renyi order of the limit, or None for an (epsilon, delta) limit."""
        return self._ledger.limits.order

    @property
    def adaptive(self) -> bool:
        """Whether the limit holds for charges that are chosen as one goes."""
        return self._ledger.limits.adaptive

    @property
    def path(self) -> str:
        """The file of the ledger, or the address of its database, without a password."""
        return self._ledger.path

    @property
    def name(self) -> str | None:
        """What the budget is called."""
        return self._ledger.header.name

    @property
    def adjacency(self) -> str | None:
        """The only relation that may be charged, of its unit, if the ledger was made for one."""
        return shown_adjacency(self._ledger.header)

    @property
    def unit(self) -> str | None:
        """The protected unit: "record", or the name of a person with several records."""
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
        """Record releases that are about to be made, if the limit admits them.

        When this returns, the charge is on disk. When it raises, for whatever
        reason, nothing may be released.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            A guarantee is for releases that were made with something else.
        releases : int, default=1
            How many tables are released with it.
        label : str, optional
            What the history calls the charge. It is stored as it is: no data in it.
        key : str, optional
            A name for this charge alone. A charge that is tried again with its key, after an
            error that left open whether it was recorded, counts once. It is for the charge
            and not for the release: what was released already needs another charge.
        unit : Unit, optional
            For a charge under an adjacency of persons, such as "replace_person": the number of
            records of a person that it allows for. The statement of the ledger says it.

        Raises
        ------
        BudgetExceededError
            If the limit does not admit the charge. The ledger is as it was.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(PureDP(0.5), label="published last year")
        >>> round(accountant.total(), 4)
        0.5
        """
        spec, releases = self._check_charge(mechanism, releases, unit)
        check_text("label", label)
        check_text("key", key)
        check_key(key)
        is_new = key is None
        key = uuid4().hex if key is None else key
        for _ in range(_ATTEMPTS - 1):
            # What is not in the ledger can be decided and written again; under the same key, so
            # that it counts once even if a connection that is lost to us brings it there later.
            with suppress(ConnectionLostError):
                return self._charge(mechanism, spec, releases, label, key, is_new)
            is_new = False
        return self._charge(mechanism, spec, releases, label, key, is_new)

    def _charge(
        self,
        mechanism: PrivacyCurves,
        spec: str,
        releases: int,
        label: str | None,
        key: str,
        is_new: bool,
    ) -> None:
        limits = self._ledger.limits
        # Composed before others are made to wait. What this process knows is often all there
        # is, and then it can be written at once.
        before = self._known()
        after = self._after(before, mechanism, spec, releases)
        if admits(after, limits):
            written = self._ledger.append_after(
                before.position, spec, releases, label, self._split, key=key, is_new=is_new
            )
            if written is not None:
                after.is_checked = before.is_checked
                remember(self._ledger.identity, after.at(written))
                return
        # Else the ledger is read, and what was added meanwhile is composed inside the lock.
        before = self._spent()
        after = self._after(before, mechanism, spec, releases)
        admitted = admits(after, limits)
        if admitted or not is_new:
            with self._ledger.writing() as transaction:
                if not is_new and (earlier := transaction.find(key)) is not None:
                    _check_same_charge(earlier, (spec, releases, label, self._split), key)
                    return
                latest = caught_up(transaction, before)
                if latest is not before:
                    before, after = latest, self._after(latest, mechanism, spec, releases)
                    admitted = admits(after, limits)
                if admitted:
                    transaction.append(spec, releases, label, self._split, key=key)
                    position = transaction.last()
        # The costly words come after the lock is given back.
        if not admitted:
            raise BudgetExceededError(refusal(spec, releases, label, before, after, limits))
        remember(self._ledger.identity, after.at(position))

    def affords(self, mechanism: PrivacyCurves, releases: int = 1) -> bool:
        """Whether the limit would admit a charge now; nothing is charged.

        Somebody else may charge the same ledger in between, so that only `charge` itself
        is a promise.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            What would be charged. ``ApproximateDP(epsilon, delta)`` stands for any fit
            within that budget, and costs at least as much as the fit will.
        releases : int, default=1
            How often.

        Returns
        -------
        bool

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
        >>> len(accountant)
        0
        """
        spec, releases = self._check_charge(mechanism, releases)
        after = self._after(self._spent(), mechanism, spec, releases)
        return admits(after, self._ledger.limits)

    def _check_charge(
        self, mechanism: PrivacyCurves, releases: int, unit: Unit | None = None
    ) -> tuple[str, int]:
        spec = encode(mechanism)
        if unit is not None:
            if not isinstance(unit, Unit):
                raise TypeError(f"unit must be a Unit; got one of type {type(unit).__name__}")
            if unit.is_person != is_of_persons(mechanism.adjacency):
                raise ValueError(f"unit must agree with {mechanism.adjacency!r}; got {unit}")
            spec = encode(mechanism, unit if unit.is_person else None)
        releases = check_integer("releases", releases, at_least=1, at_most=MAX_RELEASES)
        self._check_split(mechanism.adjacency)
        if not is_declared(mechanism.adjacency, self._ledger.header.adjacency):
            raise ValueError(other_relation(mechanism.adjacency, self._ledger.header))
        # Also without a limit, only what can be composed later is recorded now.
        check_computable(spec, releases, self._ledger.limits)
        return spec, releases

    def _after(
        self, spent: Spending, mechanism: PrivacyCurves, spec: str, releases: int
    ) -> Spending:
        """What is spent with one charge more."""
        check_adjacency(mechanism.adjacency, spent)
        return spent.plus({key(self._split, spec): releases}, first=(spec, releases))

    def total(self, delta: float | None = None) -> float:
        """An epsilon that holds at delta for all that was charged.

        Where an (epsilon, delta) limit is for adaptive spending, what holds is the limit, for
        all that was charged and will be: no smaller total is a guarantee once charges may
        depend on releases, also if little of the limit is spent. Else it is the smallest
        epsilon known to hold for what was charged, if all of it was fixed beforehand.

        Parameters
        ----------
        delta : float, optional
            By default, the accountant's.

        Returns
        -------
        float
            0 if nothing was charged; infinite if something was released without noise, and
            where an adaptive limit keeps more than delta for what may reveal everything.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import DirichletMechanism
        >>> accountant = PrivacyAccountant()
        >>> accountant.total()
        0.0
        >>> accountant.charge(DirichletMechanism(r=1.0, alpha=40.0), releases=14)
        >>> round(accountant.total(delta=1e-5), 4)
        3.5701
        """
        if delta is None:
            delta = self.delta
        delta = check_real("delta", delta, above=0, below=1)
        return self._measured(lambda spent: total_epsilon(spent, delta, self._ledger.limits))

    def remaining(self) -> float:
        """What can still be spent, as a part of the limit's epsilon; infinite without a limit.

        Where an (epsilon, delta) limit is for adaptive spending, the share of it that is not
        spent, times its epsilon. It is not the limit minus `total`, which is the limit itself.
        Else how far the limit is from the total, in epsilon at its delta, or at its order.
        Neither is a sum of epsilons, so a mechanism that costs more than this alone may still
        be admitted; `affords` tells.

        Returns
        -------
        float
            At least 0.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import GaussianMechanism
        >>> accountant = PrivacyAccountant(epsilon=1.0, order=5.0)
        >>> accountant.charge(GaussianMechanism(sigma=10.0), releases=4)
        >>> round(accountant.remaining(), 6)
        0.8
        """
        return self._measured(lambda spent: remaining(spent, self._ledger.limits))

    def running_total(
        self, delta: float | None = None, *, after: Iterable[int] | None = None
    ) -> list[float]:
        """What was used of the limit, or the total, as it was after each charge.

        Parameters
        ----------
        delta : float, optional
            Gives `total` at delta. By default, in the limit's own terms, as `remaining`:
            the share that is spent times its epsilon where it is for adaptive spending,
            else the total at its delta, or at its order.
        after : iterable of int, optional
            After how many charges; each from 1 to the number of charges. By default, after
            every one. Each may take a tenth of a second.

        Returns
        -------
        list of float
            In the order of the charges.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant(epsilon=1.0, adaptive=False)
        >>> for epsilon in [0.1, 0.2, 0.4]:
        ...     accountant.charge(PureDP(epsilon))
        >>> [round(total, 3) for total in accountant.running_total(after=[1, 3])]
        [0.1, 0.7]
        """
        limits = self._ledger.limits
        if delta is not None:
            delta = check_real("delta", delta, above=0, below=1)
        charges = self._charges()
        numbers = set(range(1, len(charges) + 1))
        if after is not None:
            chosen = {check_integer("after", number, at_least=1) for number in after}
            if not chosen <= numbers:
                raise ValueError(
                    f"after must be at most the number of charges, {len(charges)}; "
                    f"got {max(chosen)}"
                )
            numbers = chosen

        def measure(spent: Spending) -> float:
            return used(spent, limits) if delta is None else total_epsilon(spent, delta, limits)

        return self._measured(lambda _: after_charges(measure, charges, numbers))

    def compositions(self) -> list[Composition]:
        """Everything that was charged, as compositions of which the worst counts.

        They are for a plan fixed beforehand, whatever the limit promises; `curves` are
        what holds.

        Returns
        -------
        list of Composition
            One without `parallel` charges; with them, one for each choice of disjoint parts
            that a record can lie in.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import GaussianMechanism
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(GaussianMechanism(sigma=10.0), releases=4)
        >>> (everything,) = accountant.compositions()
        >>> everything.epsilon(1e-5) == accountant.total(1e-5)
        True
        """
        return self._measured(_compositions)

    def curves(self) -> list[Composition] | list[PrivacyFilter]:
        """What holds at every epsilon and delta, by curves of which the worst counts.

        Returns
        -------
        list
            With methods ``delta(epsilon)`` and ``epsilon(delta)``: a filter's, for whatever
            it ever admits, where an (epsilon, delta) limit is for adaptive spending and
            something was charged; else `compositions`, for a plan fixed beforehand.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import GaussianMechanism
        >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
        >>> accountant.charge(GaussianMechanism(sigma=10.0))
        >>> (holds,) = accountant.curves()
        >>> bool(holds.delta(1.0) <= 1e-5)
        True
        """
        limits = self._ledger.limits
        return self._measured(
            lambda spent: (
                [filter_of(spent.first, limits)]
                if spent.first is not None and is_filter(limits)
                else _compositions(spent)
            )
        )

    def history(self) -> History:
        """All charges, oldest first.

        Returns
        -------
        History
            A list of rows, which ``pandas.DataFrame`` takes as it is. It prints as
            a table in a terminal and in a notebook. Each has the epsilon of the charge
            alone; a printed table of at most 20 charges has `running_total` beside it.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.mechanisms import DirichletMechanism
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(DirichletMechanism(r=0.5, alpha=5.0), label="income")
        >>> accountant.history()
        time       mechanism           parameters      ...  releases  epsilon   total  label
        ---...     ------------------  --------------  ...  --------  -------  ------  ------
        ...        DirichletMechanism  r=0.5, alpha=5  ...         1   1.3864  1.3864  income
        >>> accountant.history()[0]["releases"]
        1
        """
        return history_of(self._charges(), self._ledger.limits, self.running_total)

    def parallel(self, name: str, *, split_by: str) -> "ParallelParts":
        """Accountants for disjoint parts of the data, of which the maximum counts.

        A record that lies in one part is exposed to the charges on that part and to
        those on the whole, not to those on the other parts. So the total is the
        largest that one part makes with everything else; with several splits, the
        largest over all choices of one part from each.

        That a record touches one part only is a property of how parts are chosen:

        - ``split_by="values"``: the part follows from the record's own values, by a
          rule fixed without looking at the data. Then a record that is added or
          removed changes one part: valid for ``adjacency="add_remove"``. A record
          that is replaced may leave one part and enter another, which both parts'
          releases show, so the maximum is not valid for "replace".
        - ``split_by="position"``: the part follows from the row number and the
          public number of rows. Then a record that is replaced stays where it was:
          valid for ``adjacency="replace"``, and for vectors that are exchanged one
          for one (`SimplexMechanism`). A record that is added or removed moves
          the rows behind it, and may change every part: not valid for "add_remove".

        A charge under the other adjacency is refused.

        Parameters
        ----------
        name : str
            What the history calls the split. Each call makes a new split, even with
            a name used before: parts of two calls may overlap, so those add up.
        split_by : {"values", "position"}
            What decides which part a record is in.

        Returns
        -------
        ParallelParts
            ``parts["north"]`` is an accountant for that part, with the limits and
            the total of the whole data set.

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
        check_choice("split_by", split_by, tuple(SPLIT_BY))
        if not isinstance(name, str):
            raise TypeError(f"name must be a string; got one of type {type(name).__name__}")
        if self._split is not None:
            raise ValueError(
                f"a part cannot be split again; got a split {name!r} of {self._split.part!r}. "
                "Name the smaller parts in one split of the whole data set"
            )
        return ParallelParts(self._ledger, Split(uuid4().hex, "", name, split_by))

    def verify(self, *, expect: str | None = None) -> int:
        """Check the whole ledger: its file, its limits and each charge.

        Every charge has a hash over itself and the hash before it, the first one over the
        limits. So a charge that was changed, removed, added or put elsewhere is found, and
        so are other limits, a last charge that is gone, and a trigger that was dropped. Every
        charge is decoded, and all of them together have to fit the limit. It cannot find out
        that somebody who may write everything made all hashes anew, for charges that fit, or
        restored a backup of a database, unless it is given an `anchor` that was kept elsewhere.

        Parameters
        ----------
        expect : str, optional
            An earlier `anchor`. The ledger must have the same limits and begin with the same
            charges.

        Returns
        -------
        int
            The number of charges that were checked.

        Raises
        ------
        LedgerError
            Naming the first damage.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(PureDP(0.5))
        >>> accountant.verify()
        1
        """
        with self._ledger.reading() as transaction:
            number = transaction.verify(None if expect is None else parse_anchor(expect))
            sums = transaction.sums()
        with self._explained():
            self._check(self._latest())
            for (_, _, spec), releases in sums.items():
                check_computable(spec, releases, self._ledger.limits)
        return number

    def anchor(self) -> str:
        """A short text that stands for the limits and all charges so far.

        Keep it where others cannot change it. `verify` takes it later, and finds out whether a
        charge that it stands for is missing or was changed.

        Returns
        -------
        str
            ``COUNT:HASH``, the number of charges and the hash of the last.

        Examples
        --------
        >>> from skdirdp import PrivacyAccountant
        >>> from skdirdp.accounting import PureDP
        >>> accountant = PrivacyAccountant()
        >>> accountant.charge(PureDP(0.5))
        >>> anchor = accountant.anchor()
        >>> anchor
        '1:...'
        >>> accountant.charge(PureDP(0.5))
        >>> accountant.verify(expect=anchor)
        2
        """
        with self._ledger.reading() as transaction:
            return "{}:{}".format(*transaction.anchor())

    def __len__(self) -> int:
        with self._ledger.reading() as transaction:
            return transaction.count()

    def __bool__(self) -> bool:
        # An accountant without charges is still one: `if accountant` must not skip it.
        return True

    def __repr__(self) -> str:
        limits = self._ledger.limits
        name = "PrivacyAccountant"
        if limits.epsilon is None:
            name += "(no limit)"
        elif limits.order is None:
            plan = "" if limits.adaptive else ", adaptive=False"
            name += f"(epsilon={limits.epsilon}, delta={limits.delta}{plan})"
        else:
            name += f"(epsilon={limits.epsilon}, order={limits.order})"
        if self._split is not None:
            name += f", part {self._split.part!r} of {self._split.name!r}"
        try:
            count = len(self)
        except LedgerError:
            return f"{name}: its ledger cannot be read"
        charges = plural(count, "charge")
        try:
            with self._explained():
                return f"{name}: {charges}{self._brief_account(count)}"
        except LedgerError:
            return f"{name}: {charges} that have no total"

    def _brief_account(self, count: int) -> str:
        """The end of the representation: how much is spent, if that does not take long."""
        limits = self._ledger.limits
        spent = self._cheaply(count)
        if is_filter(limits) and spent is not None:
            taken, left = in_percent(share(spent, limits))
            whole = "; the limit is the total" if count else ""
            return f", {taken} of the limit spent, {left} left{whole}"
        if spent is None or not is_cheap(spent, limits.delta):
            tells = "remaining() adds them up" if is_filter(limits) else "total() composes them"
            return f"; {tells}"
        total = total_epsilon(spent, limits.delta, limits)
        at = f" at delta {limits.delta}" if limits.epsilon is None or limits.order else ""
        return f", total epsilon {upwards(total)}{at}"

    def _cheaply(self, count: int) -> Spending | None:
        """The charges, if reading and checking them does not take long."""
        known = self._known()
        with self._ledger.reading() as transaction:
            is_known = transaction.last() == known.position
        return self._spent() if is_known or count <= _CHEAP_TO_READ else None

    # Copies in this process are the object itself; a pickle names the same file.
    def __copy__(self) -> "PrivacyAccountant":
        return self

    def __deepcopy__(self, memo: Any) -> "PrivacyAccountant":
        return self

    def __sklearn_clone__(self) -> "PrivacyAccountant":
        return self

    def _charges(self) -> list[Charge]:
        with self._ledger.reading() as transaction:
            charges = transaction.charges()
        for charge in charges:
            check_charge(charge, self._ledger.header)
        return charges

    def _known(self) -> Spending:
        """The charges that this process has seen, without a look at the ledger."""
        return known_spending(self._ledger.identity)

    def _latest(self) -> Spending:
        """All charges; only those that are new are read."""
        known = self._known()
        with self._ledger.reading() as transaction:
            return caught_up(transaction, known)

    def _spent(self) -> Spending:
        """All charges, which the limit has admitted."""
        with self._explained():
            spent = self._latest()
            if not spent.is_checked:
                self._check(spent)
                spent.is_checked = True
        return remember(self._ledger.identity, spent)

    def _check(self, spent: Spending) -> None:
        """Refuse charges that the ledger cannot have admitted: somebody else has written them.

        Charges that were merged into the ledger of a fixed plan are there whatever its limit
        is, and those of version 0.1 were admitted by other rules. No claim rests on the limit
        of such a ledger.
        """
        limits, header = self._ledger.limits, self._ledger.header
        for adjacency in spent.adjacencies:
            check_relation(adjacency, header)
        if spent.parts:
            self._charges()  # which say by what the data set is split
        if any(max(each.counts.values(), default=0) > MAX_RELEASES for each in spent.exposures()):
            raise ValueError("more releases of one kind than can be counted")
        if fits(spent, limits):
            return
        if not limits.adaptive:
            sums: Counter[tuple[str, str, str]] = Counter()
            for charge in self._charges():
                if not is_merged(charge):
                    sums[key(charge.split, charge.spec)] += charge.releases
            if header.origin is not None or fits(Spending.none().plus(sums), limits):
                return
        raise LedgerError(
            f"the ledger {self.path} cannot be used: its limit does not admit its charges, so that "
            "they were not made by charging it. Nothing is claimed of them; history() lists them"
        )

    def _measured(self, measure: Callable[[Spending], _Measure]) -> _Measure:
        """A measure of all charges; an error of the ledger where there is none."""
        with self._explained():
            value = measure(self._spent())
            if isinstance(value, float) and math.isnan(value):
                raise ValueError("what they cost is beyond floating-point numbers")
        return value

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever fails when charges are composed, as an error of the ledger."""
        try:
            yield
        except LedgerError:
            raise
        except Exception as error:
            reason = " ".join(f"{error}".split())[:300] or type(error).__name__
            raise LedgerError(
                f"the charges of the ledger {self.path} cannot be composed: {reason}"
            ) from error

    def _check_split(self, adjacency: str) -> None:
        if self._split is None or kind_of(adjacency) in SPLIT_BY[self._split.by]:
            return
        if adjacency in OF_PERSONS.values():
            why = "A person's records may lie in several parts. Charge the whole data set"
        elif self._split.by == "values":
            why = (
                "A record that is replaced may leave one part and enter another, and then two "
                "parts' releases change. Use adjacency='add_remove', or split by position"
            )
        else:
            why = (
                "A record that is added or removed moves the rows behind it into other parts. "
                "Use adjacency='replace', or split by values"
            )
        raise ValueError(
            f"adjacency must be {SPLIT_BY[self._split.by][0]!r} for charges on parts that are "
            f"split by {self._split.by}; got {adjacency!r}. {why}"
        )


class ParallelParts:
    """The accountants of disjoint parts, by name; made by `PrivacyAccountant.parallel`.

    Parameters
    ----------
    ledger : Ledger
        That of the whole data set.
    split : Split
        Which split the parts are of.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> PrivacyAccountant(epsilon=1.0).parallel("region", split_by="values")
    ParallelParts('region', split_by='values')
    """

    def __init__(self, ledger: Ledger, split: Split):
        self._ledger = ledger
        self._split = split

    def __getitem__(self, part: Any) -> PrivacyAccountant:
        """The accountant of one part; the same name is the same part."""
        accountant = PrivacyAccountant.__new__(PrivacyAccountant)
        accountant._ledger = self._ledger
        accountant._split = replace(self._split, part=str(part))
        return accountant

    def __repr__(self) -> str:
        return f"ParallelParts({self._split.name!r}, split_by={self._split.by!r})"


def _compositions(spent: Spending) -> list[Composition]:
    return [exposure.composition() for exposure in spent.exposures()]


def _check_same_charge(earlier: Charge, asked: tuple[Any, ...], key: str) -> None:
    if (earlier.spec, earlier.releases, earlier.label, earlier.split) != asked:
        raise ValueError(
            f"key must be another one for another charge; {key!r} was used for charge "
            f"{earlier.id} of the ledger, which is not this one. Nothing was charged"
        )
