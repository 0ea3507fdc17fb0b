"""The privacy accountant: what was released of one data set, and what that costs.

An entry of the ledger is a mechanism or a guarantee with all its parameters, so the
total is composed from worst cases and not added up from epsilons. Entries of the same
kind are summed in the ledger; ten thousand charges of three kinds compose as three.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from typing import Any
from uuid import uuid4

from .._messages import plural
from .._validation import check_choice, check_integer, check_real
from ..accounting import Composition
from ..accounting.composition import MAX_RELEASES, PrivacyCurves
from ..accounting.worst_case import VECTORS, kind_of
from ..exceptions import BudgetExceededError
from .admission import (
    admits,
    after_charges,
    check_adjacency,
    check_computable,
    compose,
    exposures_of,
    key,
    remaining,
    total_epsilon,
    used,
)
from .codec import describe, encode
from .history import History, history_of
from .ledger import Charge, Ledger, LedgerError, Limits, Split, Sums
from .steward import StewardMixin

_DEFAULT_DELTA = 1e-5
# Relations between neighbours under which a record or vector stays in its part.
_SPLIT_BY = {"values": ("add_remove",), "position": ("replace", VECTORS)}


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
    path : str or path-like, optional
        A file that outlives the process. An existing ledger is continued: its limits
        are the stored ones, and giving others is an error. Without a path the ledger
        is a temporary file that ends with the process that made the accountant.

    Notes
    -----
    All charges of one accountant are under the same adjacency. That of a
    `SimplexMechanism` is the exchange of a vector, and never that of tables of counts.

    The total holds for mechanisms whose parameters do not depend on what earlier
    ones released. Where they do, as when the next budget is chosen after looking at
    the last result, use a limit with `order`: Renyi divergences of one order add up
    even then (Feldman and Zrnic 2021).

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    >>> mechanism = DirichletMechanism(r=0.05, alpha=2.0)
    >>> probabilities = mechanism.release([12, 0, 5], accountant=accountant, label="colours")
    >>> accountant.charge(mechanism, releases=13, label="sizes")
    >>> accountant
    PrivacyAccountant(epsilon=1.0, delta=1e-05): 2 charges, total epsilon 0.7865
    >>> accountant.charge(mechanism, releases=100)
    Traceback (most recent call last):
        ...
    skdirdp.exceptions.BudgetExceededError: ...
    >>> len(accountant)
    2
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = _DEFAULT_DELTA,
        order: float | None = None,
        path: "str | PathLike[str] | None" = None,
    ):
        asked = _check_limits(epsilon, delta, order)
        self._split: Split | None = None
        if path is None:
            self._ledger = Ledger.temporary(asked)
        else:
            self._ledger = Ledger.create_or_open(path, asked)
            _check_same_limits(asked, self._ledger)

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
    def path(self) -> str:
        """The file of the ledger."""
        return self._ledger.path

    def charge(self, mechanism: PrivacyCurves, releases: int = 1, label: str | None = None) -> None:
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
        spec, releases = self._check_charge(mechanism, releases)
        if label is not None and not isinstance(label, str):
            raise TypeError(f"label must be a string; got one of type {type(label).__name__}")
        limits = self._ledger.limits
        with self._ledger.writing() as transaction:
            before = transaction.sums()
            after = self._after(before, mechanism, spec, releases)
            admitted = all(admits(exposure, limits) for exposure in exposures_of(after))
            if admitted:
                transaction.append(spec, releases, label, self._split)
        # The costly words come after the lock is given back.
        if not admitted:
            raise BudgetExceededError(
                _refusal(describe(mechanism), releases, label, before, after, limits)
            )

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
        after = self._after(self._sums(), mechanism, spec, releases)
        return all(admits(exposure, self._ledger.limits) for exposure in exposures_of(after))

    def _check_charge(self, mechanism: PrivacyCurves, releases: int) -> tuple[str, int]:
        spec = encode(mechanism)
        releases = check_integer("releases", releases, at_least=1, at_most=MAX_RELEASES)
        self._check_split(mechanism.adjacency)
        # Also without a limit, only what can be composed later is recorded now.
        check_computable(spec, releases, self._ledger.limits)
        return spec, releases

    def _after(self, sums: Sums, mechanism: PrivacyCurves, spec: str, releases: int) -> Sums:
        """The sums of the ledger with one charge more."""
        check_adjacency(mechanism.adjacency, sums)
        after = Counter(sums)
        after[key(self._split, spec)] += releases
        return after

    def total(self, delta: float | None = None) -> float:
        """The smallest epsilon known to hold at delta for all that was charged.

        Parameters
        ----------
        delta : float, optional
            By default, the accountant's.

        Returns
        -------
        float
            Infinite if something was released without noise.

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
        return total_epsilon(self._sums(), delta, self._ledger.limits)

    def remaining(self) -> float:
        """How far the limit is from the total; infinite without a limit.

        In epsilon at the limit's delta, or at its order. Exact composition is seldom
        a sum, so a mechanism that costs more than this alone may still be admitted.

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
        return remaining(self._sums(), self._ledger.limits)

    def running_total(
        self, delta: float | None = None, *, after: Iterable[int] | None = None
    ) -> list[float]:
        """The total as it was after each charge.

        Parameters
        ----------
        delta : float, optional
            By default, in the limit's own terms, as `remaining`: at its delta, or at its
            order.
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
        >>> accountant = PrivacyAccountant(epsilon=1.0)
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

        def measure(sums: Sums) -> float:
            return used(sums, limits) if delta is None else total_epsilon(sums, delta, limits)

        return after_charges(measure, charges, numbers)

    def compositions(self) -> list[Composition]:
        """Everything that was charged, as compositions of which the worst counts.

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
        return [compose(exposure) for exposure in exposures_of(self._sums())]

    def history(self) -> History:
        """All charges, oldest first.

        Returns
        -------
        History
            A list of rows, which ``pandas.DataFrame`` takes as it is. It prints as
            a table in a terminal and in a notebook. Each has the epsilon of the charge
            alone; a printed table of at most 20 charges has the running total beside it.

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
        check_choice("split_by", split_by, tuple(_SPLIT_BY))
        if not isinstance(name, str):
            raise TypeError(f"name must be a string; got one of type {type(name).__name__}")
        if self._split is not None:
            raise ValueError(
                f"a part cannot be split again; got a split {name!r} of {self._split.part!r}. "
                "Name the smaller parts in one split of the whole data set"
            )
        return ParallelParts(self._ledger, Split(uuid4().hex, "", name, split_by))

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
            name += f"(epsilon={limits.epsilon}, delta={limits.delta})"
        else:
            name += f"(epsilon={limits.epsilon}, order={limits.order})"
        if self._split is not None:
            name += f", part {self._split.part!r} of {self._split.name!r}"
        try:
            count = len(self)
        except LedgerError:
            return f"{name}: its ledger cannot be read"
        try:
            total = self.total()
        except LedgerError:
            return f"{name}: {plural(count, 'charge')} that have no total"
        at = f" at delta {limits.delta}" if limits.epsilon is None or limits.order else ""
        return f"{name}: {plural(count, 'charge')}, total epsilon {_upwards(total)}{at}"

    # Copies in this process are the object itself; a pickle names the same file.
    def __copy__(self) -> "PrivacyAccountant":
        return self

    def __deepcopy__(self, memo: Any) -> "PrivacyAccountant":
        return self

    def __sklearn_clone__(self) -> "PrivacyAccountant":
        return self

    def _charges(self) -> list[Charge]:
        with self._ledger.reading() as transaction:
            return transaction.charges()

    def _sums(self) -> Sums:
        with self._ledger.reading() as transaction:
            return transaction.sums()

    def _check_split(self, adjacency: str) -> None:
        if self._split is None or kind_of(adjacency) in _SPLIT_BY[self._split.by]:
            return
        if self._split.by == "values":
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
            f"adjacency must be {_SPLIT_BY[self._split.by][0]!r} for charges on parts that are "
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


def _refusal(
    what: str, releases: int, label: str | None, before: Sums, after: Sums, limits: Limits
) -> str:
    name = repr(label) if label else "this charge"
    terms = f"delta {limits.delta}" if limits.order is None else f"Renyi order {limits.order}"
    asked = f"{plural(releases, 'release')} of {what}"
    spent, left = _upwards(used(before, limits)), _downwards(remaining(before, limits))
    return (
        f"{name} would bring the total epsilon to {_upwards(used(after, limits))} at {terms}, and "
        f"the limit is {limits.epsilon}. {spent} is used and {left} is left, as a difference: "
        "charges are composed and not summed, so that a little more than this may still be "
        "admitted. Nothing was charged or released; ask for less (a smaller epsilon, fewer fits), "
        f"or stop here. Asked for: {asked}"
    )


def _upwards(spent: float) -> str:
    """In four decimals, and not less than it is: a reader may repeat it as a claim."""
    # Divergences are rounded up by a part in 1e12 already, which should not fill a decimal.
    return "infinite" if math.isinf(spent) else f"{math.ceil(spent * 1e4 / (1 + 1e-12)) / 1e4:.4f}"


def _downwards(left: float) -> str:
    return "infinite" if math.isinf(left) else f"{math.floor(left * 1e4) / 1e4:.4f}"


def _check_limits(epsilon: Any, delta: Any, order: Any) -> Limits:
    if epsilon is not None:
        epsilon = check_real("epsilon", epsilon, above=0, allow_infinite=True)
    delta = check_real("delta", delta, above=0, below=1)
    if order is not None:
        order = check_real("order", order, above=1)
        if epsilon is None:
            raise ValueError(f"epsilon must be given with order; got order={order} alone")
    limits = Limits(epsilon, delta, order)
    # An infinite limit is none.
    return replace(limits, epsilon=None, order=None) if epsilon == math.inf else limits


def _check_same_limits(asked: Limits, ledger: Ledger) -> None:
    """The limits of a file are those it was made with; not asking for any is fine."""
    stored = ledger.limits
    if asked in (stored, Limits(None, _DEFAULT_DELTA, None)):
        return
    raise ValueError(
        f"the ledger {ledger.path} was made with epsilon={stored.epsilon}, delta={stored.delta}, "
        f"order={stored.order}, and these limits stay; got epsilon={asked.epsilon}, "
        f"delta={asked.delta}, order={asked.order}. Leave them out to continue with the stored ones"
    )
