"""Release contexts of a pipeline fit: the rehearsal and the charged fit.

The sizes of all tables are public. A rehearsal fits copies of all steps with noise that is not
charged, and keeps only the descriptions of the tables. Then the noise of all tables is calibrated,
all releases are charged together, and the steps are fitted again. Tables that differ from the
rehearsed ones raise an error.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, ClassVar

import joblib
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._messages import is_own_error, known_message
from .._persons import SHARED_GROUPS
from .._random import noise_generator, sampling_generator
from ..accounting import Composition
from ..base import (
    Budget,
    CountingEstimator,
    PrivacyReport,
    PrivateEstimator,
    Release,
    ReleaseContext,
    ReleasePlan,
)
from ..mechanisms import DirichletMechanism, JointMechanism, Mechanism
from ..mechanisms.splitting import SELECTION_SHARE, calibrate_shares, preprocessing_share
from .check import ADAPTIVE, KEEP_ROWS, PARALLEL, is_known
from .inputs import FitInputs
from .public_steps import original_class

#: Public parameters that describe the labels, the weights and the number of records. No step
#: changes these, so values taken from the data are the same as in the rehearsal.
_INDEPENDENT_OF_X = frozenset({"classes", "max_weight", "n_samples"})

# Messages of exceptions of these types describe the environment, not records.
_HARMLESS = (Warning, ImportError, MemoryError)


class _PipelineContext(ReleaseContext):
    """Context of one pass over the steps of a pipeline."""

    in_pipeline = True
    #: Last sentence of the error message if the pass fails. It states whether anything was charged.
    outcome: ClassVar[str]

    def __init__(self, budget: Budget, inputs: FitInputs):
        super().__init__(budget)
        self.inputs = inputs
        self.step_name = ""
        self._estimator: Any = None  # estimator of the step
        self._previous: Any = None  # the previous step that was not skipped
        self._known_output: Mapping[str, Any] = {}

    def enter(self, name: str, step: Any) -> None:
        """Enter the next step. Its public sizes are those that the previous step declares."""
        previous = self._previous
        self.step_name, self._estimator = name, step
        if step is not None and not isinstance(step, str):
            self._previous = step
            self.known = dict(self._known_output)
            self._known_output = {}
            # An estimator inside a step may receive different columns or labels.
            if isinstance(step, PrivateEstimator):
                self.known |= self.inputs.known_after(previous)

    def _note_output(self, estimator: CountingEstimator) -> None:
        # A step may change the output of an estimator inside it.
        if estimator is self._estimator and self.is_private:
            self._known_output = estimator._public_output()

    @contextmanager
    def active(self) -> Iterator[None]:
        shared = SHARED_GROUPS.set(self.inputs.shared_groups())
        try:
            # Workers in other threads or processes would run outside the context.
            with joblib.parallel_config(backend="sequential"), super().active():
                yield
        except _HARMLESS:
            raise
        except Exception as error:
            if not self.is_private or not self.step_name or is_own_error(error):
                raise
            redacted = self._redacted(error)
            try:
                raise redacted from None
            finally:
                # `from None` only hides the original error. Its message could still be kept in a
                # log after the data are deleted.
                redacted.__context__ = None
        finally:
            SHARED_GROUPS.reset(shared)

    def _redacted(self, error: Exception) -> Exception:
        """Return an error without data, to replace one that another library raised in a step."""
        kind = TypeError if isinstance(error, TypeError) else ValueError
        name = f"step {self.step_name!r} ({original_class(self._estimator).__name__})"
        message = known_message(error)
        if message is not None:
            return kind(f"{name}: {message}")
        return kind(
            f"{name} failed with {type(error).__name__}, whose message is not shown because it "
            "may contain records. A fit without privacy shows it: "
            f"set_params(epsilon=float('inf'), accountant=None). {self.outcome}"
        )


class Rehearsal(_PipelineContext):
    """Context of the first pass, which finds the tables of all steps of a pipeline.

    The label of each private estimator is its path, and its accountant is a `RejectingAccountant`.
    """

    outcome = "Nothing was charged"

    def __init__(self, pipe: Pipeline, budget: Budget, inputs: FitInputs):
        super().__init__(budget, inputs)
        self.pipe = pipe
        self.accountant = RejectingAccountant()
        self.plans: list[tuple[str, ReleasePlan]] = []  # name of the step, plan

    def calibrate(self, plan: ReleasePlan) -> Sequence[Mechanism]:
        estimator = plan.estimator
        if estimator.accountant is not self.accountant:
            raise ValueError(
                f"step {self.step_name!r} uses a {type(estimator).__name__} that is not one of its "
                "parameters, or that is frozen and has not been released yet, so it cannot be "
                "charged together with the others. Nothing was charged"
            )
        path = str(estimator.label)
        self._check(plan, path)
        self._note_output(estimator)
        estimator._warn_of_leak([f"{path}__{name}" for name in plan.leaks])
        self.plans.append((self.step_name, plan))
        if not self.is_private:
            return plan.calibrated(self.budget)
        if plan.tables:
            # An invalid seed raises an error, and a valid one a warning, before the charge.
            noise_generator(estimator.random_state)
        return [
            DirichletMechanism(
                1.0,
                max(1.0, table.min_smoothing),
                adjacency=self.budget.adjacency,
                max_count=table.contribution.max_count,
                max_total=table.contribution.max_total,
            )
            for table in plan.tables
        ]

    def release(self, plan: ReleasePlan) -> list[Release]:
        plan.estimator.privacy_ = PrivacyReport(
            np.inf, None, None, self.budget.adjacency, (), plan.leaks
        )
        return plan.draw(noise_generator() if self.is_private else None)

    def _check(self, plan: ReleasePlan, path: str) -> None:
        estimator = plan.estimator
        name = f"{type(estimator).__name__} in step {path!r}"
        if estimator.calibration != "exact":
            raise ValueError(
                f"calibration must be 'exact' in a PrivatePipeline; got {estimator.calibration!r} "
                f"for {name}. The privacy bounds of 'algorithm1' and 'tcdp' cannot be composed "
                "exactly"
            )
        if not self.is_private:
            return
        plans = [earlier for _, earlier in self.plans]
        upstream = [other for other in plans if feeds(self.pipe, str(other.estimator.label), path)]
        knows_columns = estimator._takes_declared_columns and "n_columns" in self.known
        for other in upstream:
            if other.estimator._selects_names and other.tables and not knows_columns:
                raise ValueError(
                    f"{name} must directly follow {other.estimator.label!r} and accept count "
                    "features, as DirichletNB does; otherwise its number of columns is not known "
                    "before the words are released. Alternatively, pass a vocabulary, or set "
                    "max_features if it is None. Nothing was charged"
                )
        unknown = [leak for leak in plan.leaks if leak not in _INDEPENDENT_OF_X]
        if unknown and upstream:
            raise ValueError(
                f"{', '.join(unknown)} must be given for {name}: it follows a private step, so its "
                "noise is calibrated before its data are known"
            )


class JointPlan:
    """Calibrated release plans of all private estimators of a pipeline after a rehearsal."""

    def __init__(self, rehearsal: Rehearsal, shares: Any, last_step: str):
        self.budget = budget = rehearsal.budget
        self.plans = [plan for _, plan in rehearsal.plans]
        by_plan = _shares(rehearsal.plans, shares, last_step, budget)
        releasing = [pair for pair in zip(self.plans, by_plan, strict=True) if pair[0].tables]

        def calibrate_to(plan: ReleasePlan) -> Callable[[float], Any]:
            return lambda epsilon: plan.calibrated(budget._replace(epsilon=epsilon))

        calibration_requests = [
            (share, plan.tables, calibrate_to(plan)) for plan, share in releasing
        ]
        calibrated = calibrate_shares(calibration_requests, **budget._asdict())
        for (plan, _), mechanisms in zip(releasing, calibrated, strict=True):
            plan.set_mechanisms(mechanisms)
        mechanisms = [mechanism for plan in self.plans for mechanism in plan.mechanisms]
        #: All mechanisms as one charge; None if nothing is released.
        self.joint = JointMechanism.from_mechanisms(mechanisms) if mechanisms else None

    @property
    def not_covered(self) -> list[str]:
        """Missing public parameters, named as in `set_params`, and "random_state" if it is set."""
        if not self.budget.is_private:
            return []
        missing = [f"{plan.estimator.label}__{leak}" for plan in self.plans for leak in plan.leaks]
        seeded = any(plan.estimator.random_state is not None for plan in self.plans)
        return [*dict.fromkeys(missing), *["random_state"] * seeded]


def _shares(
    plans: Sequence[tuple[str, ReleasePlan]], shares: Any, last_step: str, budget: Budget
) -> list[float]:
    """Return the share of the budget of each plan.

    The share of a step is divided among its estimators in proportion to their numbers of tables.
    """
    n_tables: Counter[str] = Counter()
    for step, plan in plans:
        n_tables[step] += len(plan.tables)
    steps = [step for step, number in n_tables.items() if number]
    if shares is None:
        by_step = _default_shares(plans, n_tables, last_step, budget)
    else:
        if set(shares) != set(steps):
            raise ValueError(
                f"shares must name the private steps, {steps}, and no others; got {[*shares]}"
            )
        by_step = {step: float(share) for step, share in shares.items()}
        if not all(np.isfinite(share) and share > 0 for share in by_step.values()):
            raise ValueError(f"shares must be positive and finite; got {dict(shares)}")
    sizes = [(step, len(plan.tables)) for step, plan in plans]
    return [by_step[step] * size / n_tables[step] if size else 0.0 for step, size in sizes]


def _default_shares(
    plans: Sequence[tuple[str, ReleasePlan]], n_tables: Counter[str], last_step: str, budget: Budget
) -> dict[str, float]:
    # Plans of all steps before the last one, grouped by whether they select names.
    before: dict[bool, list[tuple[str, ReleasePlan]]] = {True: [], False: []}
    for step, plan in plans:
        if step != last_step and plan.tables:
            before[plan.estimator._selects_names].append((step, plan))
    if not n_tables[last_step] or not any(before.values()):
        return {step: float(number) for step, number in n_tables.items()}
    selection = SELECTION_SHARE if before[True] else 0.0
    tables = [table for _, plan in before[False] for table in plan.tables]
    preprocessing = (
        (1 - selection) * preprocessing_share(tables, **budget._asdict()) if tables else 0.0
    )
    by_step = dict.fromkeys(n_tables, 0.0)
    for selects, share in ((True, selection), (False, preprocessing)):
        n_tables_in_group = sum(len(plan.tables) for _, plan in before[selects])
        for step, plan in before[selects]:
            by_step[step] += share * len(plan.tables) / n_tables_in_group
    by_step[last_step] = 1 - selection - preprocessing
    return by_step


class ChargedFit(_PipelineContext):
    """Context of the second pass, which releases the tables that were charged."""

    outcome = "Any charge remains in the ledger"

    def __init__(self, plan: JointPlan, inputs: FitInputs):
        super().__init__(plan.budget, inputs)
        self._rehearsed = deque(plan.plans)
        self._unreleased: list[ReleasePlan] = []
        self.reports: list[tuple[str, PrivacyReport]] = []  # name of the step, report

    def calibrate(self, plan: ReleasePlan) -> Sequence[Mechanism]:
        # Each plan of the rehearsal is used once, even if another plan is created before it is
        # released.
        earlier = self._rehearsed.popleft() if self._rehearsed else None
        kind = type(plan.estimator)
        if earlier is None or (type(earlier.estimator), earlier.tables) != (kind, plan.tables):
            raise RuntimeError(
                f"the tables of {kind.__name__} in step {self.step_name!r} are not those of the "
                "rehearsal: their number or sizes depend on more than public parameters. They "
                "were not released; any charge for them remains in the ledger"
            )
        self._note_output(plan.estimator)
        self._unreleased.append(plan)
        return earlier.mechanisms

    def release(self, plan: ReleasePlan) -> list[Release]:
        if plan not in self._unreleased:
            raise RuntimeError(
                f"the tables of {type(plan.estimator).__name__} in step {self.step_name!r} were "
                "charged once and have already been released. They were not released again; any "
                "charge remains in the ledger"
            )
        self._unreleased.remove(plan)
        generator = None
        if self.is_private and plan.tables:
            seed = plan.estimator.random_state
            generator = noise_generator() if seed is None else sampling_generator(seed)
        releases = plan.draw(generator)
        plan.estimator.privacy_ = plan.report(self._budget_of(plan))
        self.reports.append((self.step_name, plan.estimator.privacy_))
        return releases

    def _budget_of(self, plan: ReleasePlan) -> Budget:
        """Return the budget that one estimator uses, at the delta or order of the whole fit."""
        budget = self.budget
        if not budget.is_private:
            return budget
        composition = Composition(() if plan.joint is None else plan.joint.parts)
        if budget.order is None:
            return budget._replace(epsilon=composition.epsilon(budget.delta))
        return budget._replace(epsilon=float(composition.rdp(budget.order)))


class RejectingAccountant:
    """Accountant of the estimators in a pipeline, which rejects every charge."""

    def __init__(self) -> None:
        self.charged_by: list[str] = []

    def charge(self, mechanism: Any, releases: int = 1, label: str = "", unit: Any = None) -> None:
        self.charged_by.append(label)
        self.check()

    def check(self) -> None:
        """Raise an error if a charge was attempted.

        The error that `charge` raised may be lost in a thread.
        """
        if self.charged_by:
            raise RuntimeError(
                f"the private estimator {self.charged_by[0]!r} was fitted in another thread or "
                "process, outside the budget of the PrivatePipeline. Nothing was charged"
            ) from None

    def __deepcopy__(self, memo: Any) -> "RejectingAccountant":
        return self  # clones share it, as they share any accountant


def private_estimators(step: Any) -> list[PrivateEstimator]:
    """Return the private estimators that are fitted when a step is fitted."""
    if isinstance(step, PrivateEstimator):
        return [step]
    children: Iterable[Any] = ()
    if isinstance(step, (list, tuple)):
        children = step
    elif hasattr(step, "get_params") and not isinstance(step, FrozenEstimator):
        children = step.get_params(deep=False).values()
    return [estimator for child in children for estimator in private_estimators(child)]


def label_by_path(pipe: Pipeline, original: Pipeline, accountant: RejectingAccountant) -> None:
    """Label each private estimator with its path in `set_params`, and set its accountant."""
    # Both are parameters, so clones made by steps have them too. Estimators that a copy shares
    # with the original pipeline are not changed.
    shared = {id(estimator) for _, estimator in _sub_estimators(original)}
    for path, estimator in _sub_estimators(pipe):
        if isinstance(estimator, PrivateEstimator) and id(estimator) not in shared:
            estimator.label, estimator.accountant = path, accountant


def check_not_adaptive(pipe: Pipeline) -> None:
    """Raise an error for a sub-estimator whose results determine what it fits, or how often."""
    for path, estimator in _sub_estimators(pipe):
        kind = type(estimator).__name__
        if kind in ADAPTIVE and is_known(estimator) and private_estimators(estimator):
            raise ValueError(
                f"{kind} in step {path!r} cannot contain private estimators in a PrivatePipeline: "
                "its results determine what it fits, or how often, so the noise cannot be "
                f"calibrated in advance. Nothing was charged. Put the PrivatePipeline into {kind} "
                "instead, where every fit has its own budget"
            )


def check_rows_are_kept(pipe: Pipeline) -> None:
    """Raise an error for a sub-estimator that may fit private estimators to other rows."""
    for path, estimator in _sub_estimators(pipe):
        kind = type(estimator).__name__
        keeps = kind in KEEP_ROWS and is_known(estimator) and getattr(estimator, "cv", None) is None
        if private_estimators(estimator) and not (keeps or isinstance(estimator, PrivateEstimator)):
            raise ValueError(
                f"groups must not be given if {kind} in step {path!r} contains a private "
                "estimator: it may fit that estimator to other rows, for which the person ids are "
                "not known. The same applies if a schema declares a person column, or if y is the "
                "name of a column that may have missing values. Nothing was charged"
            )


def _sub_estimators(pipe: Pipeline) -> list[tuple[str, Any]]:
    """Return all estimators that would be fitted, with their names in `set_params`."""
    # Private estimators in a list without names come first, under the name of the list, so that
    # a more specific name overrides it.
    parameters = pipe.get_params(deep=True)
    lists = [
        (path, value) for path, value in parameters.items() if isinstance(value, (list, tuple))
    ]
    unnamed = [
        (path, estimator) for path, value in lists for estimator in private_estimators(value)
    ]
    named = [(path, value) for path, value in parameters.items() if hasattr(value, "get_params")]
    named = [(path, value) for path, value in named if not isinstance(value, type)]
    frozen = [f"{path}__" for path, value in named if isinstance(value, FrozenEstimator)]
    return unnamed + [pair for pair in named if not pair[0].startswith(tuple(frozen))]


def feeds(pipe: Pipeline, earlier: str, later: str) -> bool:
    """Return whether the release at one path may affect the data at a later path."""
    # The paths are equal if an estimator is fitted repeatedly.
    container: Any = pipe
    for one, other in zip_longest(earlier.split("__"), later.split("__")):
        in_sequence = isinstance(container, Pipeline)
        kind = type(container).__name__
        is_dependent = kind == "ClassifierChain" and container.cv is not None
        in_parallel = kind in PARALLEL and is_known(container) and not is_dependent
        if not in_sequence and not in_parallel:
            return True
        params = container.get_params(deep=True)
        if one not in params or other not in params:
            return True
        if one != other:
            order = [name for name, _ in container.steps] if in_sequence else []
            return in_sequence and order.index(one) < order.index(other)
        container = params[one]
        if isinstance(container, PrivateEstimator):
            return False
    return True
