"""A fit of several private steps as one: rehearsed, paid for, and performed.

What a private step releases decides on the data of the next one, but not on the tables that
it counts: their sizes are public. So the tables of all steps can be known before the first
is released. They are found by a rehearsal: the whole pipeline is fitted once to the data
with noise that is not paid for, in copies that are thrown away, of which nothing is kept
but the public descriptions of the tables. Whatever can fail in any step fails here, before
anything is charged. Then all tables are calibrated together and charged together, and the
pipeline is fitted with the noise that was paid for; a step whose tables are not those that
were declared is refused.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import joblib
import numpy as np

from .._persons import SHARED_GROUPS, SharedGroups
from .._random import noise_generator, sampling_generator
from ..accounting import Composition
from ..base import JOINT_FIT, CountingEstimator, PrivacyReport, Release, Terms, draw_tables
from ..mechanisms import DirichletMechanism, JointMechanism, Mechanism
from ..mechanisms.shares import PART_OF_SELECTION, calibrate_shares, part_before
from ..mechanisms.table import CountTable
from .errors import errors_of_steps_without_data
from .public_steps import original_class
from .structure import Outside

#: Public parameters about labels, weights and the number of records: no step changes these,
#: so that they are what they were in the rehearsal also where they are taken from the data.
_NOT_OF_X = frozenset({"classes", "max_weight", "n_samples"})


@dataclass(frozen=True)
class Declaration:
    """The public description of what one private estimator releases in a fit.

    Attributes
    ----------
    step : the step of the pipeline that it is, or is in.
    path : where it is, in the names of `set_params`.
    estimator : the estimator as it was rehearsed, for its parameters.
    tables : the tables that have more than one category.
    counts : the exact counts of the rehearsal, for checks that are made before the charge.
    leaks : public parameters that were taken from the data.
    """

    step: str
    path: str
    estimator: CountingEstimator
    tables: tuple[CountTable, ...]
    counts: tuple[np.ndarray, ...]
    leaks: tuple[str, ...]


@dataclass
class _Stage:
    """Either pass of a fit: which step is under way, on what terms, and what is known of it."""

    #: What a failure means for the budget.
    outcome: ClassVar[str] = ""

    terms: Terms
    #: Ids of persons for every private estimator, or None.
    groups: Any = field(default=None, kw_only=True)
    step: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    _fitting: Any = None
    _known_of_output: dict[str, Any] = field(default_factory=dict)

    @property
    def estimator(self) -> str:
        """The name of the class of the step that is under way."""
        return original_class(self._fitting).__name__

    def enter(self, name: str, step: Any) -> None:
        """Go on to the next step, which takes its sizes from what was declared before it."""
        self.step, self._fitting = name, step
        if step is not None and not isinstance(step, str):
            self.known, self._known_of_output = self._known_of_output, {}

    def _look_ahead(self, estimator: CountingEstimator) -> None:
        # Of an estimator inside a step it is not known what the step makes of its output.
        if estimator is self._fitting and np.isfinite(self.terms.epsilon):
            self._known_of_output = estimator._public_output()

    def under_way(self) -> AbstractContextManager[None]:
        return _under_way(self)


@contextmanager
def _under_way(stage: Any):
    """Let private estimators that are fitted inside release through this stage."""
    with ExitStack() as stack:
        # Workers in other threads or processes would not know of the joint fit.
        stack.enter_context(joblib.parallel_config(backend="sequential"))
        token = JOINT_FIT.set(stage)
        stack.callback(JOINT_FIT.reset, token)
        shared = SHARED_GROUPS.set(SharedGroups(stage.groups))
        stack.callback(SHARED_GROUPS.reset, shared)
        stack.enter_context(errors_of_steps_without_data(stage))
        yield


@dataclass
class Rehearsal(_Stage):
    """The first pass: it finds the tables, and nothing of it is kept but them.

    Estimators have their paths as labels, and `outside` as accountant. `feeds` tells of two
    paths whether what the first releases may decide on the data of the second.
    """

    outcome: ClassVar[str] = "Nothing was charged"

    feeds: Callable[[str, str], bool] = field(kw_only=True)
    outside: Outside = field(default_factory=Outside, kw_only=True)
    declared: list[Declaration] = field(default_factory=list)

    def release(
        self,
        estimator: CountingEstimator,
        tables: Sequence[tuple[CountTable, np.ndarray]],
        leaks: Sequence[str],
    ) -> list[Release]:
        if estimator.accountant is not self.outside:
            raise ValueError(
                f"step {self.step!r} uses a {type(estimator).__name__} that is none of its "
                "parameters, or is frozen and was not released yet: it cannot be paid for with "
                "the others. Nothing was charged"
            )
        path = str(estimator.label)
        self._check(estimator, path, leaks)
        self._look_ahead(estimator)
        estimator._warn_of_leak([f"{path}__{name}" for name in leaks])
        informative = _informative(tables)
        counts = tuple(counts for table, counts in tables if table.n_categories > 1)
        self.declared.append(
            Declaration(self.step, path, estimator, informative, counts, tuple(leaks))
        )
        estimator.privacy_ = PrivacyReport(
            np.inf, None, None, self.terms.adjacency, (), tuple(leaks)
        )
        if not np.isfinite(self.terms.epsilon):
            return draw_tables(tables, estimator._calibrate(informative), None)
        if informative:
            # So that a wrong seed is refused, and a given one warned of, before the charge.
            noise_generator(estimator.random_state)
        return draw_tables(
            tables, [_stand_in(table, self.terms) for table in informative], noise_generator()
        )

    def _check(self, estimator: CountingEstimator, path: str, leaks: Sequence[str]) -> None:
        name = f"{type(estimator).__name__} in step {path!r}"
        if estimator.calibration != "exact":
            raise ValueError(
                f"calibration must be 'exact' in a PrivatePipeline; got {estimator.calibration!r} "
                f"for {name}. The papers' bounds do not compose exactly"
            )
        if not np.isfinite(self.terms.epsilon):
            return
        before = [each for each in self.declared if self.feeds(each.path, path)]
        self._check_columns(estimator, name, before)
        unknown = [leak for leak in leaks if leak not in _NOT_OF_X]
        if unknown and before:
            raise ValueError(
                f"{', '.join(unknown)} must be given for {name}: it follows a private step, so "
                "that its noise has to be chosen before its data are known"
            )

    def _check_columns(
        self, estimator: CountingEstimator, name: str, before: Sequence[Declaration]
    ) -> None:
        """Refuse tables whose sizes would follow from names that are yet to be released."""
        if estimator._takes_declared_columns and "n_columns" in self.known:
            return
        for each in before:
            if each.estimator._releases_columns and each.tables:
                raise ValueError(
                    f"{name} must be the step right after that of {each.path!r}, and count numbers "
                    "as DirichletNB does: else it is not known before the words are released how "
                    "many columns its noise is for. Nothing was charged. Or give a vocabulary"
                )


def _stand_in(table: CountTable, terms: Terms) -> Mechanism:
    """Some noise, for a release that is thrown away."""
    contribution = table.contribution
    return DirichletMechanism(
        1.0,
        max(1.0, table.min_smoothing),
        adjacency=terms.adjacency,
        max_count=contribution.max_count,
        max_total=contribution.max_total,
    )


@dataclass(frozen=True)
class Plan:
    """What a pipeline will release, calibrated, before any of it is.

    Attributes
    ----------
    terms : what all of it together guarantees.
    declared : what each private estimator releases, in order.
    mechanisms : those of each estimator.
    """

    terms: Terms
    declared: tuple[Declaration, ...]
    mechanisms: tuple[tuple[Mechanism, ...], ...]

    @classmethod
    def of(cls, rehearsal: Rehearsal, shares: Any, last_step: str) -> "Plan":
        """The noise of all that was rehearsed, within the terms of the rehearsal."""
        terms, declared = rehearsal.terms, tuple(rehearsal.declared)
        parts = _shares(declared, shares, last_step, terms)
        calibrated = calibrate_shares(
            [
                (share, each.tables, _Calibrate(each, terms))
                for each, share in zip(declared, parts, strict=True)
                if each.tables
            ],
            **terms._asdict(),
        )
        waiting = iter(calibrated)
        plan = cls(
            terms, declared, tuple(tuple(next(waiting)) if each.tables else () for each in declared)
        )
        for each, mechanisms in zip(declared, plan.mechanisms, strict=True):
            for mechanism, table, counts in zip(mechanisms, each.tables, each.counts, strict=True):
                mechanism.check_table(counts, table.contribution.grid)
        return plan

    @property
    def not_covered(self) -> list[str]:
        """Public parameters that were missing, in the names of `set_params`, and seeds."""
        if not np.isfinite(self.terms.epsilon):
            return []
        missing = [f"{each.path}__{name}" for each in self.declared for name in each.leaks]
        seeded = any(each.estimator.random_state is not None for each in self.declared)
        return [*dict.fromkeys(missing), *["random_state"] * seeded]

    @property
    def joint(self) -> JointMechanism | None:
        """All mechanisms, as one charge; None if there are none."""
        mechanisms = [mechanism for each in self.mechanisms for mechanism in each]
        return JointMechanism.of(mechanisms) if mechanisms else None


@dataclass(frozen=True)
class _Calibrate:
    """The calibration of one estimator's tables, by itself, within a part of the budget."""

    declaration: Declaration
    terms: Terms

    def __call__(self, epsilon: float) -> Sequence[Mechanism]:
        with _Stage(self.terms._replace(epsilon=epsilon)).under_way():
            return self.declaration.estimator._calibrate(self.declaration.tables)


def _shares(
    declared: Sequence[Declaration], shares: Any, last_step: str, terms: Terms
) -> list[float]:
    """The share of the budget of each estimator; those of one step by their tables."""
    n_tables: Counter[str] = Counter()
    for each in declared:
        n_tables[each.step] += len(each.tables)
    steps = [step for step, number in n_tables.items() if number]
    if shares is None:
        by_step = _default_shares(declared, n_tables, last_step, terms)
    else:
        if set(shares) != set(steps):
            raise ValueError(
                f"shares must name the private steps, {steps}, and no others; got {[*shares]}"
            )
        by_step = {step: float(share) for step, share in shares.items()}
        if not all(np.isfinite(share) and share > 0 for share in by_step.values()):
            raise ValueError(f"shares must be positive and finite; got {dict(shares)}")
    return [
        by_step[each.step] * len(each.tables) / n_tables[each.step] if each.tables else 0.0
        for each in declared
    ]


def _default_shares(
    declared: Sequence[Declaration], n_tables: Counter[str], last_step: str, terms: Terms
) -> dict[str, float]:
    before = [each for each in declared if each.step != last_step and each.tables]
    if not n_tables[last_step] or not before:
        return {step: float(number) for step, number in n_tables.items()}
    selecting = [each for each in before if each.estimator._selects_names]
    others = [each for each in before if not each.estimator._selects_names]
    part_of_names = PART_OF_SELECTION if selecting else 0.0
    tables = [table for each in others for table in each.tables]
    part_of_others = (1 - part_of_names) * part_before(tables, **terms._asdict()) if tables else 0.0
    by_step = dict.fromkeys(n_tables, 0.0)
    for part, group in ((part_of_names, selecting), (part_of_others, others)):
        for each in group:
            by_step[each.step] += part * len(each.tables) / sum(len(one.tables) for one in group)
    by_step[last_step] = 1 - part_of_names - part_of_others
    return by_step


@dataclass
class Performance(_Stage):
    """The second pass: it releases what was declared, by mechanisms that were paid for."""

    outcome: ClassVar[str] = "The charge stays"

    plan: Plan = field(kw_only=True)
    reports: list[tuple[str, PrivacyReport]] = field(default_factory=list)

    def release(
        self,
        estimator: CountingEstimator,
        tables: Sequence[tuple[CountTable, np.ndarray]],
        leaks: Sequence[str],
    ) -> list[Release]:
        number = len(self.reports)
        informative = _informative(tables)
        declared = self.plan.declared[number] if number < len(self.plan.declared) else None
        if (
            declared is None
            or type(declared.estimator) is not type(estimator)
            or declared.tables != informative
        ):
            raise RuntimeError(
                f"the tables of {type(estimator).__name__} in step {self.step!r} are not those "
                "that the noise was chosen for: their number or sizes depend on more than public "
                "parameters. They were not released; the charge for them stays"
            )
        self._look_ahead(estimator)
        mechanisms = self.plan.mechanisms[number]
        waiting = iter(mechanisms)
        for table, counts in tables:
            if table.n_categories > 1:
                next(waiting).check_table(counts, table.contribution.grid)
        generator = None
        if np.isfinite(self.terms.epsilon) and mechanisms:
            seed = estimator.random_state
            generator = noise_generator() if seed is None else sampling_generator(seed)
        releases = draw_tables(tables, mechanisms, generator)
        parts = JointMechanism.of(mechanisms).parts if mechanisms else ()
        estimator.privacy_ = self._report(estimator, parts, leaks)
        self.reports.append((self.step, estimator.privacy_))
        return releases

    def _report(self, estimator: CountingEstimator, parts: Any, leaks: Sequence[str]):
        """What an estimator's own releases guarantee, at the delta or the order of all."""
        terms = self.terms
        if np.isfinite(terms.epsilon):
            alone = Composition(parts)
            if not parts:
                epsilon = 0.0
            elif terms.order is None:
                epsilon = alone.epsilon(terms.delta)
            else:
                epsilon = float(alone.rdp(terms.order))
            terms = terms._replace(epsilon=epsilon)
        return estimator._report(terms, parts, leaks)


def _informative(tables: Sequence[tuple[CountTable, np.ndarray]]) -> tuple[CountTable, ...]:
    return tuple(table for table, _ in tables if table.n_categories > 1)
