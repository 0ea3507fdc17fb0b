"""What every private estimator shares: the budget's parameters, and the one way to release.

An estimator counts; this module turns its counts into probabilities. It calibrates,
charges the accountant, and only then draws noise. No estimator does privacy
arithmetic of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ._messages import beyond_the_guarantee, exactly, plural, warn
from ._random import noise_generator
from ._sklearn_compat import HasMethods, Interval, StrOptions
from .accounting import Composition
from .accounting.worst_case import ADJACENCIES
from .exceptions import PrivacyLeakWarning
from .mechanisms import JointMechanism, Mechanism
from .mechanisms.calibration import CALIBRATIONS, MECHANISMS, calibrate_tables
from .mechanisms.table import CountTable


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
        What a record's protection is against.
    mechanisms : tuple of (mechanism, number of releases)
        All that was released, with its parameters.
    not_covered : tuple of str, default=()
        Parameters that were missing and taken from the data, and "random_state" where it
        was given: the guarantee does not hold for what they tell.

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
    mechanisms: tuple[tuple[Mechanism, int], ...]
    not_covered: tuple[str, ...] = ()

    @property
    def releases(self) -> int:
        """How many tables were released."""
        return sum(count for _, count in self.mechanisms)

    @property
    def mechanism(self) -> Mechanism | None:
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

    def __str__(self) -> str:
        if np.isinf(self.epsilon):
            return "no privacy: epsilon is infinite"
        change = {"replace": "replacing", "add_remove": "adding or removing"}[self.adjacency]
        terms: tuple[Any, Any] = (self.epsilon, self.delta)
        kind = "differentially private"
        if self.order is not None:
            terms, kind = (self.order, self.epsilon), "Renyi differentially private"
        guarantee = f"({', '.join(map(exactly, terms))})-{kind}"
        means = " and ".join(f"{count} by {mechanism}" for mechanism, count in self.mechanisms)
        tables = plural(self.releases, "table")
        told = f"{guarantee} against {change} one record; {tables} released, {means}"
        return told + beyond_the_guarantee(self.not_covered)


class PrivateEstimator(BaseEstimator):
    """Base class of the private estimators."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "order": [None, Interval(Real, 1, None, closed="neither")],
        "mechanism": [StrOptions(set(MECHANISMS))],
        "calibration": [StrOptions(set(CALIBRATIONS))],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "n_samples": [None, Interval(Real, 0, None, closed="neither")],
        "accountant": [None, HasMethods("charge")],
        "random_state": ["random_state", np.random.Generator],
    }

    epsilon: float
    delta: float
    order: float | None
    mechanism: str
    calibration: str
    adjacency: str
    n_samples: float | None
    accountant: Any
    random_state: Any

    @property
    def _is_private(self) -> bool:
        return bool(np.isfinite(self.epsilon))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Bring the fitted state back if anything fails."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _public_n_samples(self, n_records: int) -> tuple[float, list[str]]:
        """The number of records that noise is chosen for, and what taking it leaks.

        How many there are is public under replacement, and protected otherwise.
        """
        if self.n_samples is not None:
            return float(self.n_samples), []
        return float(n_records), ["n_samples"] if self.adjacency == "add_remove" else []

    def _warn_of_leak(self, *parameters: str) -> None:
        """Say which public parameters were missing and are taken from the data."""
        if parameters and self._is_private:
            warn(
                f"{', '.join(parameters)}: not given, so taken from the data, which the privacy "
                "guarantee does not cover. Pass what is publicly known to the constructor.",
                PrivacyLeakWarning,
            )

    def _calibrate(self, tables: Sequence[CountTable]) -> list[Mechanism]:
        """The mechanism for each table, all within the estimator's budget."""
        return calibrate_tables(
            tables,
            mechanism=self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            adjacency=self.adjacency,
            calibration=self.calibration,
        )

    def _release(
        self, mechanisms: Sequence[Mechanism], counts: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Charge for all tables at once, then release each."""
        # Anything that can fail does so before the charge, and the charge before any noise.
        generator = noise_generator(self.random_state) if self._is_private else None
        if self.accountant is not None and mechanisms:
            joint = JointMechanism.of(mechanisms)
            label = type(self).__name__
            if len(joint.parts) == 1:
                ((mechanism, releases),) = joint.parts
                self.accountant.charge(mechanism, releases=releases, label=label)
            else:
                self.accountant.charge(joint, releases=1, label=label)
        return [
            mechanism.draw(table, generator)
            for mechanism, table in zip(mechanisms, counts, strict=True)
        ]

    def _report(self, mechanisms: Sequence[Mechanism], leaks: Sequence[str]) -> PrivacyReport:
        seed = () if self.random_state is None else ("random_state",)
        return PrivacyReport(
            epsilon=float(self.epsilon),
            delta=float(self.delta) if self.order is None else None,
            order=None if self.order is None else float(self.order),
            adjacency=self.adjacency,
            mechanisms=JointMechanism.of(mechanisms).parts,
            not_covered=(*dict.fromkeys(leaks), *seed) if self._is_private else (),
        )
