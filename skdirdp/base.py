"""Base classes for private estimators, the release process, and the report of a fit.

An estimator computes counts, a `ReleasePlan` calibrates noise for them, and a `ReleaseContext`
charges the accountant and draws the noise. Estimators do not compute privacy costs themselves.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._contributions import count_cells
from ._messages import describe_not_covered, format_exact, plural, suppress_external_warnings, warn
from ._persons import MAX_ROWS_LIMIT, RECORD, CountedRows, Unit, check_person
from ._random import NoiseGenerator, noise_generator
from ._sklearn_compat import HasMethods, Interval, StrOptions
from ._validation import check_integer, check_real
from .accounting import Composition, NoPrivacy
from .accounting.attacks import AttackBounds, Profile
from .accounting.composition import PrivacyCurves
from .accounting.worst_case import ADJACENCIES
from .exceptions import PrivacyLeakWarning
from .inference import NoisyTable
from .mechanisms import JointMechanism, Mechanism
from .mechanisms.additive import SelectionMechanism
from .mechanisms.base import Request, check_requests
from .mechanisms.calibration import CALIBRATIONS, MECHANISMS, calibrate_tables
from .mechanisms.sampling import check_platform
from .mechanisms.tables import CountTable
from .reporting.exports import card_sections, registry_entry, sacro_fields
from .reporting.pages import model_card, model_page, write
from .reporting.statements import Claim, model_statement
from .schema import MISSING_STATE, Categories, sort_values

# Pickles of fitted models refer to Unit through this public module.
Unit.__module__ = __name__
# State that stands for all values that occur in too few records.
_OTHER_STATE = "other"


@dataclass(frozen=True)
class PrivacyReport(AttackBounds):
    """Privacy guarantee of a fit, and the mechanisms that provide it.

    Every private estimator stores it in the attribute `privacy_` after `fit`.

    Parameters
    ----------
    epsilon : float
        Budget of the fit; infinite if there is no guarantee.
    delta : float or None
        The fit is (epsilon, delta)-differentially private, unless `order` is given.
    order : float or None
        If given, the fit satisfies (order, epsilon)-Renyi differential privacy.
    adjacency : {"replace", "add_remove"}
        Whether neighbouring data sets differ by replacing one record, or by adding or
        removing one.
    mechanisms : tuple of (mechanism or guarantee, number of releases)
        All releases with their parameters.
    not_covered : tuple of str, default=()
        Public parameters that were taken from the data, and "random_state" if it was given:
        the guarantee does not cover what they reveal.
    unit : Unit, default=Unit()
        Unit of privacy: a record, or a person with several records. It also states whether
        the number of records per person was checked.
    n_records : int or None, default=None
        Number of counted records; None if it is protected.

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
    >>> bool(model.privacy_.true_positive_rate(0.01) < 0.04)
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
        """Number of released tables."""
        return sum(count for _, count in self.mechanisms)

    @property
    def mechanism(self) -> Any:
        """Mechanism of the model's main tables."""
        return self.mechanisms[-1][0] if self.mechanisms else None

    def composition(self) -> Composition:
        """Return the composition of all releases."""
        return Composition(self.mechanisms)

    def _profiles(self) -> Sequence[tuple[Profile, Profile]]:
        released = self.composition() if np.isfinite(self.epsilon) else NoPrivacy()
        return released._profiles()

    def statement(self) -> str:
        """Return the guarantee as a string to publish with the model (docs/statement.md)."""
        return model_statement(self._claim(), self.not_covered, self.n_records, self)

    def report(self, path: "str | PathLike[str]") -> str:
        """Write a report on the privacy guarantee of the fit, as a single HTML file.

        Parameters
        ----------
        path : str or path-like
            An existing file is overwritten. A new file can be read only by its owner.

        Returns
        -------
        str
            The path of the file.
        """
        # The report of a pipeline contains the reports of its steps.
        steps = [(name, step.mechanisms) for name, step in getattr(self, "steps", ())]
        page = model_page(self, self._claim(), steps)
        return write(path, page)

    def registry_entry(self, name: str | None = None) -> dict[str, Any]:
        """Return an entry in the format of the Differential Privacy Deployments Registry.

        Parameters
        ----------
        name : str, default=None
            Name of the published product.

        Returns
        -------
        dict
            Values for JSON or YAML. Fields whose values only the curator knows are None.
        """
        used = self._describe_releases()
        claim, leaks = self._claim(), self.not_covered
        return registry_entry(claim, mechanisms=used, attacks=self, name=name, not_covered=leaks)

    def card_sections(self) -> dict[str, str]:
        """Return sections for a model card, to be passed to ``skops.card.Card.add``.

        Returns
        -------
        dict of str
            Markdown text, keyed by section title.
        """
        return card_sections(self._claim(), self.statement(), self, self.not_covered)

    def sacro_fields(self) -> dict[str, list[dict[str, Any]]]:
        """Return fields for ``sacroml.attacks.target.Target``, as keyword arguments.

        SACRO-ML stores them with the model, so that output checkers can read them along with the
        results of its own attacks.

        Returns
        -------
        dict
            The field "safemodel", a list with one check. It recommends against release if there is
            no guarantee or the guarantee does not cover everything, and in favour of it otherwise.
        """
        return sacro_fields(self._claim(), self.statement(), self, self.not_covered)

    def _claim(self) -> Claim:
        # Only a posterior publishes the number of records of persons with several of them.
        same_size = self.unit.max_rows > 1 and self.n_records is not None
        claimed = (self.epsilon, self.delta, self.order, self.adjacency, self.unit)
        return Claim(*claimed, same_size=same_size)

    def _repr_html_(self) -> str:
        return str(model_card(self._claim(), self.mechanisms, self.not_covered))

    def __str__(self) -> str:
        if np.isinf(self.epsilon):
            return "no privacy: epsilon is infinite"
        change = {"replace": "replacing", "add_remove": "adding or removing"}[self.adjacency]
        terms: tuple[Any, Any] = (self.epsilon, self.delta)
        kind = "differentially private"
        if self.order is not None:
            terms, kind = (self.order, self.epsilon), f"Renyi {kind}"
        guarantee = f"({', '.join(map(format_exact, terms))})-{kind}"
        statement = f"{guarantee} against {change} {self.unit}; {self._describe_releases()}"
        return statement + describe_not_covered(self.not_covered)

    def _describe_releases(self) -> str:
        """Return the releases and their mechanisms as text."""
        if not self.mechanisms:
            return "nothing was released"
        counts = " and ".join(f"{count} by {mechanism}" for mechanism, count in self.mechanisms)
        return f"{plural(self.releases, 'table')} released, {counts}"


class PrivateEstimator(BaseEstimator):
    """Base class for all private estimators.

    The guarantee of a fit depends on the order of its steps: everything that can fail is checked
    before the accountant is charged, the accountant is charged before noise is drawn, and a failed
    fit restores the previous state of the estimator.
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
        """Cache the parameter names: scikit-learn inspects the signature on every fit."""
        return super()._get_param_names()

    def _release_context(self) -> "ReleaseContext":
        """Return the active context, or a new context for a plain fit."""
        return ReleaseContext.current() or ReleaseContext(Budget.from_estimator(self))

    @property
    def _is_private(self) -> bool:
        return self._release_context().is_private

    @contextmanager
    def _fitting(self) -> Iterator["ReleaseContext"]:
        """Yield the context of a fit; remove the fitted attributes, and restore them on failure."""
        before = vars(self).copy()
        for name in before:
            if name.endswith("_") and name not in self._get_param_names():
                delattr(self, name)
        try:
            with suppress_external_warnings(self.epsilon != np.inf):
                yield self._release_context()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _warn_of_leak(self, parameters: Sequence[str]) -> None:
        """Warn about public parameters that were not given and are taken from the data."""
        if parameters and self._is_private:
            warn(
                f"{', '.join(parameters)}: not given, so taken from the data. The privacy "
                "guarantee does not cover this. Pass publicly known values to the constructor.",
                PrivacyLeakWarning,
            )

    def _charge(
        self, spent: PrivacyCurves, releases: int = 1, unit: Unit = RECORD
    ) -> NoiseGenerator | None:
        """Charge the accountant, and return the noise generator, or None if no noise is added."""
        context = ReleaseContext.current()
        if context is not None:
            raise TypeError(
                f"{type(self).__name__} cannot be {context.role}: its noise cannot be calibrated "
                "jointly with the noise of other steps or parties. Fit it on its own"
            )
        # An unsupported platform or an invalid seed raises an error before the charge.
        generator = None
        if self._is_private:
            check_platform()
            generator = noise_generator(self.random_state)
        charge(self, spent, releases, unit)
        return generator

    def _not_covered(self, leaks: Sequence[str]) -> tuple[str, ...]:
        """Return the names that the report lists as not covered by the guarantee."""
        if not self._is_private:
            return ()
        seed = () if self.random_state is None else ("random_state",)
        return (*dict.fromkeys(leaks), *seed)


def charge(estimator: Any, spent: PrivacyCurves, releases: int, unit: Unit) -> None:
    """Charge the accountant of an estimator or a pipeline, if it has one."""
    if estimator.accountant is not None:
        label = type(estimator).__name__ if estimator.label is None else estimator.label
        persons = {"unit": unit} if unit.is_person else {}
        estimator.accountant.charge(spent, releases=releases, label=label, **persons)


class Budget(NamedTuple):
    """Privacy budget of a fit, and its adjacency."""

    epsilon: float
    delta: float
    order: float | None
    adjacency: str

    @classmethod
    def from_estimator(cls, estimator: Any) -> "Budget":
        return cls(
            check_real("epsilon", estimator.epsilon, above=0, allow_infinite=True),
            getattr(estimator, "delta", 0.0),
            getattr(estimator, "order", None),
            getattr(estimator, "adjacency", "replace"),
        )

    @property
    def is_private(self) -> bool:
        return self.epsilon < np.inf

    def claimed(self) -> tuple[float, float | None, float | None, str]:
        """Return epsilon, delta, order and adjacency to report; either delta or order is None."""
        if self.order is None:
            return float(self.epsilon), float(self.delta), None, self.adjacency
        return float(self.epsilon), None, float(self.order), self.adjacency

    def has_public_size(self, unit: Unit) -> bool:
        """Return whether all neighbouring data sets have the same number of records."""
        # A person may be replaced by one with fewer counted records, or by one without an id,
        # whose records are not counted.
        return self.adjacency == "replace" and not unit.is_person


class Release(NamedTuple):
    """Released table and the mechanism that drew it, or None if the table has one category."""

    drawn: np.ndarray  # probabilities, or noisy counts if the table is post-processed
    mechanism: Mechanism | None


class ReleasePlan:
    """Tables that a fit is about to release, each with a calibrated mechanism.

    Creating a plan calibrates the noise and checks that every table can be released. It does not
    charge the accountant or draw noise. `tables` are pairs of a public description and exact counts
    of shape (n_rows, n_categories). `leaks` names the public parameters that were taken from the
    data.
    """

    def __init__(
        self,
        estimator: "CountingEstimator",
        context: "ReleaseContext",
        tables: Sequence[tuple[CountTable, np.ndarray]],
        rows: CountedRows,
        leaks: Sequence[str] = (),
    ):
        self.estimator = estimator
        self.unit = context.protected_unit(rows.unit)
        is_public = context.has_public_size(self.unit) and not rows.by_schema
        self.n_records = rows.n_rows if is_public else None
        self.leaks = tuple(leaks)
        if self.unit.is_person:
            max_rows = self.unit.max_rows
            tables = [(table.per_person(max_rows), counts) for table, counts in tables]
        self._tables = tables
        # Tables with a single category need no noise.
        self._noisy = [(table, counts) for table, counts in tables if table.n_categories > 1]
        #: Descriptions of the tables with noise.
        self.tables = tuple(table for table, _ in self._noisy)
        self.set_mechanisms(context.calibrate(self))

    def set_mechanisms(self, mechanisms: Sequence[Mechanism]) -> None:
        """Set the mechanisms of the tables, and check that each mechanism can release its table."""
        #: Counts and mechanisms of the tables with noise.
        self.requests = [
            Request(mechanism, counts, table.contribution.grid, table.postprocess)
            for mechanism, (table, counts) in zip(mechanisms, self._noisy, strict=True)
        ]
        check_requests(self.requests)
        self.mechanisms = tuple(mechanisms)
        #: All mechanisms as one charge; None if nothing is released.
        self.joint = JointMechanism.from_mechanisms(mechanisms) if mechanisms else None

    def calibrated(self, budget: Budget) -> Sequence[Mechanism]:
        """Return a mechanism for each of `tables`, all within a budget."""
        return self.estimator._calibrate(self.tables, budget) if self.tables else ()

    def draw(self, generator: NoiseGenerator | None) -> list[Release]:
        """Draw the tables. The accountant must already have been charged for them."""
        return self.as_releases(Mechanism.draw_all(self.requests, generator), self.mechanisms)

    def as_releases(
        self, drawn: Sequence[np.ndarray], mechanisms: Sequence[Mechanism]
    ) -> list[Release]:
        """Return all tables as releases, given the noisy tables that the mechanisms drew."""
        releases = map(Release, drawn, mechanisms)
        return [
            next(releases) if table.n_categories > 1 else Release(np.ones(counts.shape), None)
            for table, counts in self._tables
        ]

    def report(self, budget: Budget) -> PrivacyReport:
        parts = () if self.joint is None else self.joint.parts
        return self.estimator._report(budget, parts, self.leaks, self.unit, self.n_records)


class ReleaseContext:
    """Context in which a fit releases its tables; this base class represents a plain fit.

    A plain fit calibrates its tables to the estimator's own budget and charges its accountant.
    `skdirdp.pipeline` defines contexts for the two passes of a pipeline, and `skdirdp.federated`
    defines contexts for a party and for the server.
    """

    #: Whether estimators are fitted as steps of a pipeline, and therefore more than once.
    in_pipeline: ClassVar[bool] = False
    #: Role of an estimator in this context, for error messages.
    role: ClassVar[str] = "a step of a PrivatePipeline"

    def __init__(self, budget: Budget):
        self.budget = budget
        self.is_private = budget.is_private
        #: Public parameters that the previous step of a pipeline declares for its output.
        self.known: dict[str, Any] = {}

    @staticmethod
    def current() -> "ReleaseContext | None":
        """Return the active context, or None if there is none."""
        return _CURRENT.get()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the context of all private estimators that are fitted in the `with` block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def protected_unit(self, unit: Unit) -> Unit:
        """Return the unit of privacy, given the unit of the counted rows."""
        return unit

    def has_public_size(self, unit: Unit) -> bool:
        """Return whether the number of records is public."""
        return self.budget.has_public_size(unit)

    def calibrate(self, plan: ReleasePlan) -> Sequence[Mechanism]:
        """Return a mechanism for each of `plan.tables`."""
        plan.estimator._warn_of_leak(plan.leaks)
        return plan.calibrated(self.budget)

    def release(self, plan: ReleasePlan) -> list[Release]:
        """Charge the accountant, draw the tables, and set `privacy_` on the estimator."""
        generator = None
        if plan.joint is not None:
            generator = plan.estimator._charge(*plan.joint.as_charge(), plan.unit)
        releases = plan.draw(generator)
        plan.estimator.privacy_ = plan.report(self.budget)
        return releases


#: Active context. It is not an attribute of an estimator: it also applies to clones that are made
#: during the fit, and it must not be pickled or affect later fits.
_CURRENT: ContextVar[ReleaseContext | None] = ContextVar("_CURRENT", default=None)


class CountingEstimator(PrivateEstimator):
    """Base class for estimators that release tables of counts."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateEstimator._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "calibration": [StrOptions(set(CALIBRATIONS))],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "n_samples": [None, Interval(Real, 0, None, closed="neither")],
        "max_rows": [Interval(Integral, 1, MAX_ROWS_LIMIT, closed="both")],
    }

    #: Whether a fit selects names that are not public. A pipeline gives such a step a larger share
    #: of the budget, and the number of its output columns depends on the release.
    _selects_names: ClassVar[bool] = False
    #: Whether the tables have the declared number of columns even if X has fewer.
    _takes_declared_columns: ClassVar[bool] = False

    delta: float
    order: float | None
    mechanism: str
    calibration: str
    adjacency: str
    n_samples: float | None
    max_rows: int
    privacy_: PrivacyReport

    def _public(self, parameter: str) -> Any:
        """Return a public parameter, or the value that the previous pipeline step declares."""
        value = getattr(self, parameter)
        return self._declared(parameter) if value is None else value

    def _declared(self, name: str) -> Any:
        """Return a value that the previous pipeline step declares for its output, or None."""
        return self._release_context().known.get(name)

    def _declared_columns(self, found: int) -> int:
        """Return the number of columns for calibration: the declared number, otherwise `found`."""
        declared = self._declared("n_columns")
        if declared is None:
            return found
        if found > declared:  # a step in between has added columns, and the bounds do not hold
            raise ValueError(
                f"{type(self).__name__} received more columns than the previous private step "
                "declares: steps between them must not add columns"
            )
        return declared

    def _set_feature_names(self, names: Sequence[Any]) -> None:
        """Set the number of features, and their names if all are strings."""
        self.n_features_in_ = len(names)
        if self.n_features_in_ and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(list(names), dtype=object)

    def _for_workers(self) -> Any:
        """Return a copy for counting or scoring on workers, without the accountant or the seed."""
        copy = object.__new__(type(self))
        copy.__dict__.update(vars(self), accountant=None, random_state=None)
        return copy

    def _check_declared(self, kind: str, missing: Sequence[str]) -> None:
        """Raise an error if public parameters would be taken from a table that is not in memory."""
        if self._release_context().in_pipeline:
            raise TypeError(
                f"X must be in memory in a PrivatePipeline, which fits its steps twice; got {kind}"
            )
        if missing:
            raise ValueError(
                f"{', '.join(missing)} must be given if X is {kind}: public parameters are not "
                "taken from such data"
            )

    def _selected(self, n_samples: Any) -> CountedRows:
        """Return the `CountedRows` for counts that the user has computed."""
        n_rows = check_integer("n_samples", n_samples, at_least=1)
        max_rows, schema = int(self.max_rows), getattr(self, "schema", None)
        if schema is not None and schema.person is not None:
            check_person(schema, None, max_rows)
            max_rows = schema.max_rows
        return CountedRows(Unit(max_rows), n_rows)

    def _public_output(self) -> dict[str, Any]:
        """Return the public parameters of the output for the next step; they hold for any data."""
        return {}

    def _public_n_samples(self, selection: CountedRows, budget: Budget) -> tuple[float, list[str]]:
        """Return the number of records for calibration, and the names of leaked parameters."""
        if self.n_samples is not None:
            return float(self.n_samples), []
        # With a schema, records without a person id are not counted.
        is_public = not (selection.by_schema and selection.unit.by_ids)
        is_public = is_public and budget.has_public_size(selection.unit)
        return float(selection.n_rows), [] if is_public else ["n_samples"]

    def _calibrate(self, tables: Sequence[CountTable], budget: Budget) -> list[Mechanism]:
        """Return a mechanism for each table, all within the budget."""
        return calibrate_tables(
            tables, mechanism=self.mechanism, calibration=self.calibration, **budget._asdict()
        )

    def _report(
        self, budget: Budget, mechanisms: Any, leaks: Sequence[str], unit: Unit, n_records: Any
    ) -> PrivacyReport:
        not_covered = self._not_covered(leaks)
        return PrivacyReport(*budget.claimed(), mechanisms, not_covered, unit, n_records)


class NoisyTablesMixin:
    """Mixin that provides the released tables of a model, for statistical inference."""

    _noisy_tables_: dict[Hashable, NoisyTable]

    def _keep_noisy_tables(
        self, releases: Mapping[Hashable, Release], n_records: float | None
    ) -> None:
        """Store the noisy counts of unweighted records as released, before post-processing."""
        self._noisy_tables_ = {
            name: NoisyTable(release.drawn.copy(), release.mechanism, n_records)
            for name, release in releases.items()
            if release.mechanism is not None
        }

    def noisy_tables(self) -> dict[Hashable, NoisyTable]:
        """Return the released tables with their noise, for `skdirdp.inference`.

        Returns
        -------
        dict of NoisyTable
            Noisy counts by feature or variable. The rows of a two-dimensional table are
            classes, or combinations of states of the parents; the last axis indexes categories.
        """
        check_is_fitted(self)
        if not getattr(self, "_noisy_tables_", None):
            raise ValueError(
                "noisy tables are available only with postprocess=True, a finite epsilon and "
                "records without weights"
            )
        return dict(self._noisy_tables_)


# Columns without public values ------------------------------------------------------------


def select_categories(
    mechanism: SelectionMechanism,
    codes: np.ndarray,
    distinct: Sequence[Any],
    generator: NoiseGenerator | None,
) -> Categories:
    """Release the values that occur in enough records as states, and one state for all others.

    `codes` contains, for each counted record, the position of its value in `distinct`, or a
    negative number if it has no value. Each value in `distinct` must occur.
    """
    counts = count_cells(codes[codes >= 0], len(distinct))
    # Noise added to a count of 0 could reveal a name that occurs in no counted record.
    if not counts.all():
        raise AssertionError("a name that occurs in no counted record was about to be published")
    # An additional count without a name, so that the table is never empty.
    published = mechanism.draw(np.append(counts, 0.0), generator)[:-1]
    found = [distinct[i] for i in np.flatnonzero(published > 0).tolist()]
    # The names are sorted, because their order in the data could reveal information. The text
    # that stands for missing values cannot be a state.
    names = sort_values(name for name in found if name != MISSING_STATE)
    other = _OTHER_STATE
    while other in names:
        other = f"({other})"
    return Categories(tuple(names), other)
