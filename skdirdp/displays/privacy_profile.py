"""The privacy profile: the smallest delta at each epsilon."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._messages import format_exact, plural
from .._validation import check_array, check_integer
from ..accounting import Composition
from ..accounting.composition import PrivacyCurves
from ..accounting.filters import PrivacyFilter
from ..reporting.curves import profile_deltas, profile_epsilons
from .axes import axes_for

_POINTS = 120


class PrivacyProfileDisplay:
    """The privacy profile: for each epsilon, the smallest delta that holds with it.

    Use `from_estimator`, `from_accountant` or `from_mechanism` to make one. All three
    draw the exact `skdirdp.accounting.Composition` of what was released; for an accountant
    whose limit is for adaptive spending, what its filter promises instead.

    Parameters
    ----------
    epsilon, delta : ndarray of shape (n_points,)
        The points of the profile.
    budget : tuple of (epsilon, delta), default=None
        What was claimed or allowed, to be marked.
    total : tuple of (epsilon, delta), default=None
        The point of the profile that was spent, to be marked.
    name : str, default=None
        What the legend calls the profile.
    budget_name : str, default="budget"
        What the legend calls the mark.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was last drawn on.
    figure_ : matplotlib Figure
        What holds it.
    line_ : matplotlib Line2D
        The profile.

    Examples
    --------
    >>> from skdirdp.displays import PrivacyProfileDisplay
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> mechanism = DirichletMechanism(r=0.05, alpha=2.0)
    >>> display = PrivacyProfileDisplay.from_mechanism(mechanism, releases=14)
    >>> display.ax_.get_yscale()
    'log'
    >>> other = DirichletMechanism(r=0.1, alpha=4.0)
    >>> both = PrivacyProfileDisplay.from_mechanism(other, releases=14, ax=display.ax_)
    """

    def __init__(self, epsilon, delta, budget=None, name=None, budget_name="budget", total=None):
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.total = total
        self.name = name
        self.budget_name = budget_name

    @classmethod
    def from_estimator(
        cls, estimator, *, epsilons: ArrayLike | None = None, name=None, ax=None, **line_options
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of one fit.

        A fit within an (epsilon, delta) budget has it marked; an RDP budget is not a
        point of the profile, and the profile is drawn without one. Of a
        `PrivateDirichletPosterior` only epsilon-DP is known: the profile is that of the
        claim, randomised response, and not of the mechanism, which may do better.

        Parameters
        ----------
        estimator : private estimator
            Fitted, with a finite epsilon.
        epsilons : array-like of floats, default=None
            Where to compute the profile. None goes from 0 until delta is negligible.
        name : str, default=None
            For the legend; by default, the name of the estimator's class.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        PrivacyProfileDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        report = getattr(estimator, "privacy_", None)
        if report is None:
            raise TypeError(
                "estimator must be a private estimator, which has privacy_ after fit; got a "
                f"{type(estimator).__name__}"
            )
        if np.isinf(report.epsilon):
            raise ValueError(
                "epsilon must be finite for a profile; got a fit with epsilon=inf, whose delta "
                "is 1 at every epsilon"
            )
        budget = None if report.delta is None else (report.epsilon, report.delta)
        name = type(estimator).__name__ if name is None else name
        return cls._of(
            [report.composition()], epsilons, budget, name, "budget", ax=ax, **line_options
        )

    @classmethod
    def from_accountant(
        cls, accountant, *, epsilons: ArrayLike | None = None, name=None, ax=None, **line_options
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of everything that was charged.

        Under a limit for adaptive spending, that is the profile of whatever the limit will
        ever admit; else that of the charges, if they were fixed beforehand.

        Parameters
        ----------
        accountant : PrivacyAccountant
            With at least one charge. An (epsilon, delta) limit is marked, and the total at
            its delta.
        epsilons : array-like of floats, default=None
            Where to compute the profile. None goes from 0 until delta is negligible.
        name : str, default=None
            For the legend; by default, the number of charges, or "whatever is admitted".
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        PrivacyProfileDisplay
            Drawn.
        """
        has_budget = accountant.epsilon is not None and accountant.order is None
        budget = (accountant.epsilon, accountant.delta) if has_budget else None
        filtered = has_budget and accountant.adaptive and len(accountant) > 0
        if name is None:
            name = "whatever is admitted" if filtered else plural(len(accountant), "charge")
        # What an adaptive limit promises is the limit, which is marked already.
        total = None
        if accountant.order is None and not filtered:
            total = (accountant.total(), accountant.delta)
        return cls._of(
            accountant.curves(), epsilons, budget, name, "limit", total, ax=ax, **line_options
        )

    @classmethod
    def from_mechanism(
        cls,
        mechanism: PrivacyCurves,
        releases: int = 1,
        *,
        epsilons: ArrayLike | None = None,
        name=None,
        ax=None,
        **line_options,
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of a number of releases.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            What is released.
        releases : int, default=1
            How often.
        epsilons : array-like of floats, default=None
            Where to compute the profile. None goes from 0 until delta is negligible.
        name : str, default=None
            For the legend; by default, the mechanism and the number of releases.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        PrivacyProfileDisplay
            Drawn.
        """
        releases = check_integer("releases", releases, at_least=1)
        if name is None:
            name = f"{mechanism}" if releases == 1 else f"{releases} x {mechanism}"
        composition = Composition([(mechanism, releases)])
        return cls._of([composition], epsilons, None, name, "budget", ax=ax, **line_options)

    @classmethod
    def _of(
        cls,
        compositions: Sequence[Composition] | Sequence[PrivacyFilter],
        epsilons: ArrayLike | None,
        budget: tuple[float, float] | None,
        name: str,
        budget_name: str,
        total: tuple[float, float] | None = None,
        **plot_options: Any,
    ) -> "PrivacyProfileDisplay":
        if epsilons is None:
            points = profile_epsilons(compositions, budget, _POINTS, total)
        else:
            points = np.sort(check_array("epsilons", np.ravel(epsilons), at_least=0))
        delta = profile_deltas(compositions, points)
        return cls(points, delta, budget, name, budget_name, total).plot(**plot_options)

    def plot(self, ax=None, **line_options) -> "PrivacyProfileDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        PrivacyProfileDisplay
            This one.
        """
        ax = axes_for(self, ax, "Privacy profile")
        # A delta of 0 lies below every logarithmic axis: the line leaves it downwards.
        ax.set_yscale("log", nonpositive="clip")
        (self.line_,) = ax.plot(self.epsilon, self.delta, **{"label": self.name, **line_options})
        if self.budget is not None:
            epsilon, delta = self.budget
            mark = {
                "color": self.line_.get_color(),
                "label": f"{self.budget_name} ({format_exact(epsilon)}, {format_exact(delta)})",
            }
            if delta > 0:
                ax.plot([epsilon], [delta], linestyle="none", marker="o", **mark)
            else:
                ax.axvline(epsilon, linestyle=":", **mark)
        if self.total is not None and np.isfinite(self.total[0]):
            epsilon, delta = self.total
            ax.plot(
                [epsilon],
                [delta],
                linestyle="none",
                marker="x",
                color=self.line_.get_color(),
                label=f"total ({epsilon:.3g}, {format_exact(delta)})",
            )
        ax.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$")
        ax.grid(alpha=0.3)
        ax.legend()
        return self
