"""Base classes of the private estimators, and the report of what a fit guarantees.

An estimator counts; its base class turns the counts into probabilities. It calibrates,
charges the accountant, and only then draws noise. No estimator does privacy
arithmetic of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from ._messages import beyond_the_guarantee, exactly, only_own_warnings, plural, warn
from ._persons import MOST_ROWS, RECORD, Selection, Unit
from ._random import noise_generator
from ._sklearn_compat import HasMethods, Interval, StrOptions
from ._validation import check_integer, check_real
from .accounting import Composition
from .accounting.composition import PrivacyCurves
from .accounting.worst_case import ADJACENCIES
from .exceptions import PrivacyLeakWarning
from .mechanisms import JointMechanism, Mechanism
from .mechanisms.base import Request
from .mechanisms.calibration import CALIBRATIONS, MECHANISMS, calibrate_tables
from .mechanisms.sampling import check_platform
from .mechanisms.table import CountTable
from .reporting.pages import model_card, model_page, write
from .reporting.statements import Claim, model_statement

# Files of fitted models name it by where it is public.
Unit.__module__ = __name__


@dataclass(frozen=True)
class PrivacyReport:
    """What a fit guarantees, and by what means.

    Every private estimator has one after `fit`, as `privacy_`.

    Parameters
    ----------
    epsilon : float
        The budget of the whole fit; infinite if nothing is guaranteed.
    delta : float or None
        The fit is (epsilon, delta)-DP, unless `order` is given.
    order : float or None
        Given, the fit is (order, epsilon)-RDP.
    adjacency : {"replace", "add_remove"}
        What the protection is against.
    mechanisms : tuple of (mechanism or guarantee, number of releases)
        All that was released, with its parameters.
    not_covered : tuple of str, default=()
        Parameters that were missing and taken from the data, and "random_state" where it
        was given: the guarantee does not hold for what they tell.
    unit : Unit, default=Unit()
        What is protected: a record, or a person with several. It says whether the number
        of a person's records was checked.
    n_records : int or None, default=None
        How many records are counted; None where that is protected.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletNB
    >>> X, y = np.repeat([[3, 0], [0, 2]], 50, axis=0), np.repeat([0, 1], 50)
    >>> model = DirichletNB(classes=[0, 1], max_count=3, max_total=3, epsilon=2.0).fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.delta, model.privacy_.adjacency
    (2.0, 1e-05, 'replace')
    >>> bool(model.privacy_.composition().epsilon(1e-5) <= 2.0)
    True
    """

    epsilon: float
    delta: float | None
    order: float | None
    adjacency: str
    mechanisms: tuple[tuple[PrivacyCurves, int], ...]
    not_covered: tuple[str, ...] = ()
    unit: Unit = RECORD
    n_records: int | None = None

    @property
    def releases(self) -> int:
        """How many tables were released."""
        return sum(count for _, count in self.mechanisms)

    @property
    def mechanism(self) -> Any:
        """The mechanism of the model's main tables."""
        return self.mechanisms[-1][0] if self.mechanisms else None

    def composition(self) -> Composition:
        """All that was released, composed.

        Returns
        -------
        Composition
            Its `epsilon` and `delta` are those of the whole fit.
        """
        return Composition(self.mechanisms)

    def statement(self) -> str:
        """The guarantee as a sentence to publish beside the model.

        That of docs/statement.md, filled in. Numbers that are shortened are rounded up.

        Returns
        -------
        str

        Examples
        --------
        >>> from skdirdp import PrivateDirichletPosterior
        >>> posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
        >>> print(posterior.privacy_.statement())
        The published model was computed from 10 records by a randomised procedure that is
        (ε = 1)-differentially private with respect to the replacement of one record by any other.
        That is: ... by a factor of at most e^ε = 2.72.
        """
        n_records = getattr(self, "n_records", None)
        return model_statement(self._claim(), self.not_covered, n_records)

    def report(self, path: "str | PathLike[str]") -> str:
        """Write a page that says what the fit guarantees, for those who must answer for it.

        One HTML file that loads nothing: the statement, what was released by which noise,
        the privacy profile as a plot, and what is not covered.

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
        >>> from skdirdp import PrivateDirichletPosterior
        >>> posterior = PrivateDirichletPosterior(mechanism="lshist").fit_counts([7, 2, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = posterior.privacy_.report(pathlib.Path(folder, "privacy.html"))
        ...     "differentially private" in pathlib.Path(path).read_text(encoding="utf-8")
        True
        """
        steps = [(name, step.mechanisms) for name, step in self._steps()]
        page = model_page(self.statement(), self._claim(), self.mechanisms, self.not_covered, steps)
        return write(path, page)

    def _claim(self) -> Claim:
        unit = getattr(self, "unit", None)
        return Claim(self.epsilon, self.delta, self.order, self.adjacency, unit)

    def _steps(self) -> Sequence[tuple[str, "PrivacyReport"]]:
        """The reports that this one is made of, by name."""
        return ()

    def _repr_html_(self) -> str:
        return str(model_card(self._claim(), self.mechanisms, self.not_covered))

    def __str__(self) -> str:
        if np.isinf(self.epsilon):
            return "no privacy: epsilon is infinite"
        change = {"replace": "replacing", "add_remove": "adding or removing"}[self.adjacency]
        terms: tuple[Any, Any] = (self.epsilon, self.delta)
        kind = "differentially private"
        if self.order is not None:
            terms, kind = (self.order, self.epsilon), "Renyi differentially private"
        guarantee = f"({', '.join(map(exactly, terms))})-{kind}"
        statement = f"{guarantee} against {change} {self.unit}; {self._means()}"
        return statement + beyond_the_guarantee(self.not_covered)

    def _means(self) -> str:
        """What was released and by what, for the sentence that states the guarantee."""
        if not self.mechanisms:
            return "nothing was released"
        means = " and ".join(f"{count} by {mechanism}" for mechanism, count in self.mechanisms)
        return f"{plural(self.releases, 'table')} released, {means}"


class PrivateEstimator(BaseEstimator):
    """Base class of all private estimators.

    It owns the order of events that every guarantee rests on: whatever can fail does so
    before the accountant is charged, the charge comes before any noise, and a fit that
    fails leaves the estimator as it was.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "accountant": [None, HasMethods("charge")],
        "label": [None, str],
        "random_state": ["random_state", np.random.Generator],
    }

    epsilon: float
    accountant: Any
    label: str | None
    random_state: Any

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Those of scikit-learn, which reads the signature anew for every fit."""
        return super()._get_param_names()

    @property
    def _is_private(self) -> bool:
        epsilon = check_real("epsilon", self.epsilon, above=0, allow_infinite=True)
        return bool(np.isfinite(epsilon))

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Forget the last fit, and bring it back if this one fails.

        Fitted state is what ends in an underscore, as everywhere in scikit-learn. Warnings
        of other libraries are dropped, unless the fit is not private.
        """
        before = vars(self).copy()
        parameters = _parameters(type(self).__init__)
        for name in before:
            if name.endswith("_") and name not in parameters:
                delattr(self, name)
        try:
            with only_own_warnings(self.epsilon != np.inf):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _warn_of_leak(self, parameters: Sequence[str]) -> None:
        """Name the public parameters that were missing and are taken from the data."""
        if parameters and self._is_private:
            warn(
                f"{', '.join(parameters)}: not given, so taken from the data, which the privacy "
                "guarantee does not cover. Pass what is publicly known to the constructor.",
                PrivacyLeakWarning,
            )

    def _pay(
        self, spent: PrivacyCurves, releases: int = 1, unit: Unit = RECORD
    ) -> np.random.Generator | None:
        """Charge for releases, and give the generator to draw them with.

        None where there is no noise to draw.
        """
        if JOINT_FIT.get() is not None:
            raise TypeError(
                f"{type(self).__name__} cannot be a step of a PrivatePipeline: its noise is not "
                "calibrated together with that of others. Fit it by itself"
            )
        # A platform that cannot draw exactly, or a wrong seed, is refused before the charge.
        if self._is_private:
            check_platform()
        generator = noise_generator(self.random_state) if self._is_private else None
        if self.accountant is not None:
            label = type(self).__name__ if self.label is None else self.label
            of_persons = {"unit": unit} if unit.is_person else {}
            self.accountant.charge(spent, releases=releases, label=label, **of_persons)
        return generator

    def _not_covered(self, leaks: Sequence[str]) -> tuple[str, ...]:
        """What the report names as outside the guarantee."""
        if not self._is_private:
            return ()
        seed = () if self.random_state is None else ("random_state",)
        return (*dict.fromkeys(leaks), *seed)


@cache
def _parameters(constructor: Callable[..., None]) -> frozenset[str]:
    """Names of the parameters, which scikit-learn looks up anew each time."""
    return frozenset(signature(constructor).parameters)


class Terms(NamedTuple):
    """The terms of a guarantee: a budget, and what it protects against."""

    epsilon: float
    delta: float
    order: float | None
    adjacency: str


class Release(NamedTuple):
    """What became of one table, and the mechanism that drew it.

    Attributes
    ----------
    drawn : ndarray
        Probabilities; or noisy counts, of a table that is yet to be read.
    mechanism : Mechanism or None
        None where a table has a single category: its rows are all (1,), say nothing, and are
        not drawn.
    """

    drawn: np.ndarray
    mechanism: Mechanism | None


class JointFit(Protocol):
    """A fit of several estimators within one budget, which is paid for as a whole.

    Attributes
    ----------
    terms : Terms
        What counts instead of an estimator's own `epsilon`, `delta`, `order` and `adjacency`.
    known : dict
        Public parameters that follow from what was declared of the step before.
    """

    terms: Terms
    known: dict[str, Any]

    def release(
        self,
        estimator: "CountingEstimator",
        tables: Sequence[tuple[CountTable, np.ndarray]],
        leaks: Sequence[str],
    ) -> list[Release]:
        """The release of an estimator's tables, instead of `CountingEstimator._release`."""


#: The joint fit that is under way. It is no attribute of an estimator, so that clones that
#: are made during the fit are within it, and neither a pickle nor a later fit is.
JOINT_FIT: ContextVar[JointFit | None] = ContextVar("JOINT_FIT", default=None)


class CountingEstimator(PrivateEstimator):
    """Base class of the estimators that release tables of counts.

    A subclass counts in its `fit` and hands the tables to `_release`; how the budget is
    divided over them is the hook `_calibrate`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "calibration": [StrOptions(set(CALIBRATIONS))],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "n_samples": [None, Interval(Real, 0, None, closed="neither")],
        "max_rows": [Interval(Integral, 1, MOST_ROWS, closed="both")],
    }

    #: Whether a fit finds names that nobody could list: a pipeline gives that a larger share.
    _selects_names: ClassVar[bool] = False

    delta: float
    order: float | None
    mechanism: str
    calibration: str
    adjacency: str
    n_samples: float | None
    max_rows: int
    #: Whether the number of columns that it gives is told by what it releases.
    _releases_columns: ClassVar[bool] = False
    #: Whether its tables are those of a declared number of columns, if X has fewer.
    _takes_declared_columns: ClassVar[bool] = False
    #: Of the fit under way, or the last one.
    _unit_: Unit = RECORD
    _n_records_: int | None = None

    @property
    def _terms(self) -> Terms:
        """The terms that hold now: the estimator's own, or those of a joint fit."""
        joint = JOINT_FIT.get()
        if joint is not None:
            return joint.terms
        return Terms(self.epsilon, self.delta, self.order, self.adjacency)

    @property
    def _is_private(self) -> bool:
        epsilon = check_real("epsilon", self._terms.epsilon, above=0, allow_infinite=True)
        return bool(np.isfinite(epsilon))

    def _public(self, parameter: str) -> Any:
        """A public parameter; where it is not given, what a joint fit knows in its place."""
        value, joint = getattr(self, parameter), JOINT_FIT.get()
        return joint.known.get(parameter) if value is None and joint is not None else value

    def _declared(self, name: str) -> Any:
        """What the step before declares of its output in a joint fit, or None."""
        joint = JOINT_FIT.get()
        return None if joint is None else joint.known.get(name)

    def _declared_columns(self, found: int) -> int:
        """The number of columns that noise is for: as declared of the step before, or as found."""
        declared = self._declared("n_columns")
        if declared is None:
            return found
        if found > declared:  # something in between has changed it, and bounds rest on it
            raise ValueError(
                f"{type(self).__name__} is given more columns than the step before declares: what "
                "stands between them must not add any"
            )
        return declared

    def _for_workers(self) -> Any:
        """A copy that counts, or scores: what pays, and what draws noise, stays here."""
        twin = object.__new__(type(self))
        twin.__dict__.update(vars(self), accountant=None, random_state=None)
        return twin

    def _check_declared(self, kind: str, missing: Sequence[str]) -> None:
        """Refuse a table that is not in memory if public parameters would be taken from it."""
        if JOINT_FIT.get() is not None:
            raise TypeError(
                f"X must be in memory in a PrivatePipeline, whose steps see it in turn; got {kind}"
            )
        if missing:
            raise ValueError(
                f"{', '.join(missing)} must be given where X is {kind}: what is public is not "
                "looked for in it"
            )

    def _selected(self, n_samples: Any) -> Selection:
        """How many records are in tables that are counted already, and whose they may be."""
        n_rows = check_integer("n_samples", n_samples, at_least=1)
        return Selection(Unit(int(self.max_rows)), n_rows)

    def _public_output(self) -> dict[str, Any]:
        """Parameters of a next step that hold for what a transformer gives it, data aside."""
        return {}

    def _public_n_samples(self, counted: Selection) -> tuple[float, list[str]]:
        """The number of records that noise is chosen for, and what taking it leaks."""
        if self.n_samples is not None:
            return float(self.n_samples), []
        return float(counted.n_rows), [] if self._is_number_public(counted.unit) else ["n_samples"]

    def _is_number_public(self, unit: Unit) -> bool:
        """Whether all neighbours have as many records.

        So it is under replacement, if each person has one. One who has several may be replaced
        by one who has fewer.
        """
        return self._terms.adjacency == "replace" and unit.max_rows == 1

    def _calibrate(self, tables: Sequence[CountTable]) -> list[Mechanism]:
        """A mechanism for each table, all within the estimator's budget."""
        return calibrate_tables(
            tables,
            mechanism=self.mechanism,
            calibration=self.calibration,
            **self._terms._asdict(),
        )

    def _release(
        self,
        tables: Sequence[tuple[CountTable, np.ndarray]],
        leaks: Sequence[str],
        counted: Selection,
    ) -> list[Release]:
        """The one way by which counts leave an estimator: paid for, and with noise.

        Sets `privacy_`.

        Parameters
        ----------
        tables : sequence of (CountTable, ndarray of shape (n_rows, n_categories))
            Public descriptions, by the bounds of one record, and exact counts.
        leaks : sequence of str
            Public parameters that were taken from the data.
        counted : Selection
            How many records were counted, and whose they may be.
        """
        self._unit_ = counted.unit
        self._n_records_ = counted.n_rows if self._is_number_public(counted.unit) else None
        if counted.unit.is_person:
            rows = counted.unit.max_rows
            tables = [(table.per_person(rows), counts) for table, counts in tables]
        joint_fit = JOINT_FIT.get()
        if joint_fit is not None:
            return joint_fit.release(self, tables, leaks)
        self._warn_of_leak(leaks)
        informative = [(table, counts) for table, counts in tables if table.n_categories > 1]
        mechanisms = self._calibrate([table for table, _ in informative]) if informative else []
        Mechanism.check_all(_requests(informative, mechanisms))
        joint = JointMechanism.of(mechanisms) if mechanisms else None
        generator = None if joint is None else self._pay(*joint.as_charge(), counted.unit)
        releases = draw_tables(tables, mechanisms, generator)
        parts = () if joint is None else joint.parts
        self.privacy_ = self._report(self._terms, parts, leaks)
        return releases

    def _report(
        self,
        terms: Terms,
        mechanisms: tuple[tuple[Mechanism, int], ...],
        leaks: Sequence[str],
    ) -> PrivacyReport:
        return PrivacyReport(
            epsilon=float(terms.epsilon),
            delta=float(terms.delta) if terms.order is None else None,
            order=None if terms.order is None else float(terms.order),
            adjacency=terms.adjacency,
            mechanisms=mechanisms,
            not_covered=self._not_covered(leaks),
            unit=self._unit_,
            n_records=self._n_records_,
        )


def _requests(
    tables: Sequence[tuple[CountTable, np.ndarray]], mechanisms: Sequence[Mechanism]
) -> list[Request]:
    return [
        Request(mechanism, counts, table.contribution.grid, table.postprocess)
        for mechanism, (table, counts) in zip(mechanisms, tables, strict=True)
    ]


def draw_tables(
    tables: Sequence[tuple[CountTable, np.ndarray]],
    mechanisms: Sequence[Mechanism],
    generator: np.random.Generator | None,
) -> list[Release]:
    """Releases of tables that were paid for; a table of one category takes no mechanism."""
    requests = _requests(
        [(table, counts) for table, counts in tables if table.n_categories > 1], mechanisms
    )
    drawn = zip(requests, Mechanism.draw_all(requests, generator), strict=True)
    releases = []
    for table, counts in tables:
        if table.n_categories > 1:
            request, values = next(drawn)
            releases.append(Release(values, request.mechanism))
        else:
            releases.append(Release(np.ones(counts.shape), None))
    return releases
