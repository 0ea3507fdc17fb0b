"""Plots of privacy profiles and of the charges of an accountant."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._messages import format_exact, plural
from .._validation import check_array, check_choice, check_integer, check_real
from ..accounting import Composition
from ..accounting.composition import PrivacyCurves
from .base import Display

# A profile ends where delta falls to the smallest of these values that it reaches,
_END_DELTAS = 10.0 ** np.arange(-10, 0)
# or, if that is lower, this factor times the smallest marked delta.
_BELOW_MARKS = 1e-2
_MAX_LABELS = 9

Point = tuple[float, float]


@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(Display):
    """Privacy profile: for each epsilon, a delta that holds with it, as an upper bound.

    Use `from_estimator`, `from_accountant` or `from_mechanism` to create one.

    Parameters
    ----------
    epsilon, delta : ndarray of shape (n_points,)
        Points of the profile.
    budget, total : tuple of (epsilon, delta), default=None
        Budget or limit, and total of the charges, to mark.
    name, budget_name : str
        Names of the profile and of the budget in the legend.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Axes, figure and profile of the last plot.

    Examples
    --------
    >>> from skdirdp.displays import PrivacyProfileDisplay
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> mechanism = DirichletMechanism(r=0.05, alpha=2.0)
    >>> display = PrivacyProfileDisplay.from_mechanism(mechanism, releases=14)
    >>> display.ax_.get_yscale()
    'log'
    """

    epsilon: np.ndarray
    delta: np.ndarray
    budget: Point | None = None
    name: str | None = None
    budget_name: str = "budget"
    total: Point | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epsilons: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of one fit.

        An (epsilon, delta) budget is marked. For a `PrivateDirichletPosterior`, which is
        epsilon-DP, the profile is that of randomised response, an upper bound.

        Parameters
        ----------
        estimator : private estimator
            Fitted estimator with finite epsilon.
        epsilons : array-like of floats, default=None
            Where to compute the profile. If None, from 0 until delta is negligible.
        name : str, default=None
            Name in the legend. If None, the name of the estimator's class.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `plot`.
        """
        report = _fitted_report(estimator)
        if np.isinf(report.epsilon):
            raise ValueError("epsilon must be finite for a profile; got a fit with epsilon=inf")
        budget = None if report.delta is None else (report.epsilon, report.delta)
        name = type(estimator).__name__ if name is None else name
        points = profile_points([report.composition()], epsilons, [budget])
        return cls(*points, budget, name).plot(ax=ax, **line_options)

    @classmethod
    def from_accountant(
        cls,
        accountant: Any,
        *,
        epsilons: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of all charges, or of all that an adaptive limit can admit.

        Parameters
        ----------
        accountant : PrivacyAccountant
            Accountant with at least one charge. Its (epsilon, delta) limit is marked, and the
            total at the same delta.
        name : str, default=None
            Name in the legend. If None, the number of charges, or "all admitted charges".
        epsilons, ax, **line_options
            As for `from_estimator`.
        """
        has_budget = accountant.epsilon is not None and accountant.order is None
        budget = (accountant.epsilon, accountant.delta) if has_budget else None
        filtered = has_budget and accountant.adaptive and len(accountant) > 0
        if name is None:
            name = "all admitted charges" if filtered else plural(len(accountant), "charge")
        # The total of an adaptive limit is the limit itself, which is already marked.
        total = None
        if accountant.order is None and not filtered:
            total = (accountant.total(), accountant.delta)
        points = profile_points(accountant.curves(), epsilons, [budget, total])
        return cls(*points, budget, name, "limit", total).plot(ax=ax, **line_options)

    @classmethod
    def from_mechanism(
        cls,
        mechanism: PrivacyCurves,
        releases: int = 1,
        *,
        epsilons: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "PrivacyProfileDisplay":
        """Draw the profile of a number of releases.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            Mechanism of each release.
        releases : int, default=1
            Number of releases.
        name : str, default=None
            Name in the legend. If None, the mechanism and the number of releases.
        epsilons, ax, **line_options
            As for `from_estimator`.
        """
        composition, name = _repeated(mechanism, releases, name)
        points = profile_points([composition], epsilons)
        return cls(*points, name=name).plot(ax=ax, **line_options)

    def _draw(self, ax: Any, **line_options: Any) -> None:
        if np.any(self.delta > 0):
            # A logarithmic axis cannot show a delta of 0: the line is clipped at the bottom.
            ax.set_yscale("log", nonpositive="clip")
        (self.line_,) = ax.plot(self.epsilon, self.delta, **{"label": self.name, **line_options})
        colour = self.line_.get_color()
        if self.budget is not None:
            epsilon, delta = self.budget
            text = f"{self.budget_name} ({format_exact(epsilon)}, {format_exact(delta)})"
            if delta > 0:
                ax.plot([epsilon], [delta], "o", color=colour, label=text)
            else:
                ax.axvline(epsilon, linestyle=":", color=colour, label=text)
        if self.total is not None and np.isfinite(self.total[0]):
            epsilon, delta = self.total
            text = f"total ({epsilon:.3g}, {format_exact(delta)})"
            ax.plot([epsilon], [delta], "x", color=colour, label=text)
        ax.set(title="Privacy profile", xlabel=r"$\varepsilon$", ylabel=r"$\delta$")
        ax.set_xlim(left=0)
        ax.grid(alpha=0.3)


@dataclass(eq=False, repr=False)
class TradeOffDisplay(Display):
    """Largest true-positive rate of any attack, for each false-positive rate.

    Use `from_estimator`, `from_accountant` or `from_mechanism` to create one.

    Parameters
    ----------
    false_positive_rate, true_positive_rate : ndarray of shape (n_points,)
        Points of the curve.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Axes, figure and curve of the last plot.

    Examples
    --------
    >>> from skdirdp.displays import TradeOffDisplay
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> display = TradeOffDisplay.from_mechanism(DirichletMechanism(r=0.05, alpha=2.0))
    >>> bool((display.true_positive_rate >= display.false_positive_rate).all())
    True
    """

    false_positive_rate: np.ndarray
    true_positive_rate: np.ndarray
    name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **line_options: Any
    ) -> "TradeOffDisplay":
        """Draw the curve of one fit.

        Parameters
        ----------
        estimator : private estimator
            Fitted estimator.
        name : str, default=None
            Name in the legend. If None, the name of the estimator's class.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `plot`.
        """
        name = type(estimator).__name__ if name is None else name
        rates, bounds = _fitted_report(estimator).trade_off()
        return cls(rates, bounds, name).plot(ax=ax, **line_options)

    @classmethod
    def from_accountant(
        cls, accountant: Any, *, name: str | None = None, ax: Any = None, **line_options: Any
    ) -> "TradeOffDisplay":
        """Draw the curve of all charges, or of all that an adaptive limit can admit.

        Parameters
        ----------
        accountant : PrivacyAccountant
            Accountant whose guarantee is drawn.
        name : str, default=None
            Name in the legend. If None, the number of charges.
        ax, **line_options
            As for `from_estimator`.
        """
        name = plural(len(accountant), "charge") if name is None else name
        rates, bounds = accountant.trade_off()
        return cls(rates, bounds, name).plot(ax=ax, **line_options)

    @classmethod
    def from_mechanism(
        cls,
        mechanism: PrivacyCurves,
        releases: int = 1,
        *,
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "TradeOffDisplay":
        """Draw the curve of a number of releases.

        Parameters
        ----------
        mechanism : mechanism, or guarantee of `skdirdp.accounting`
            Mechanism of each release.
        releases : int, default=1
            Number of releases.
        name : str, default=None
            Name in the legend. If None, the mechanism and the number of releases.
        ax, **line_options
            As for `from_estimator`.
        """
        composition, name = _repeated(mechanism, releases, name)
        return cls(*composition.trade_off(), name).plot(ax=ax, **line_options)

    def _draw(self, ax: Any, **line_options: Any) -> None:
        _draw_trade_off(self, ax, "Attacks", **{"label": self.name, **line_options})
        ax.set(ylabel="detections (true-positive rate), at most", xlim=(0, 1), ylim=(0, 1))


@dataclass(eq=False, repr=False)
class AuditDisplay(Display):
    """Claimed trade-off curve, and the rates of an attack; see `skdirdp.audit`.

    Use `from_result` to create one. The claim is refuted if the attack is above the curve.

    Parameters
    ----------
    false_positive_rate, true_positive_rate : ndarray of shape (n_points,)
        Points of the curve that is claimed.
    attack : tuple of (float, float), default=None
        Limits of the false-positive and true-positive rate of the attack.
    text : str, default=""
        Title of the plot.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Axes, figure and curve of the last plot.

    Examples
    --------
    >>> from skdirdp.audit import audit, predefined_case
    >>> from skdirdp.displays import AuditDisplay
    >>> result = audit(predefined_case("DirichletNB"), n_runs=1000, random_state=0)
    >>> display = AuditDisplay.from_result(result)
    >>> display.attack == result.rates[:2]
    True
    """

    false_positive_rate: np.ndarray
    true_positive_rate: np.ndarray
    attack: Point | None = None
    text: str = ""

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **line_options: Any) -> "AuditDisplay":
        """Draw the result of an audit.

        Parameters
        ----------
        result : AuditResult
            Result of `skdirdp.audit.audit` or `audit_one_run`.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `plot`.
        """
        attack = None if result.rates is None else result.rates[:2]
        text = f"{result.verdict} ($\\varepsilon$ = {result.epsilon:.3g} is claimed)"
        rates, bounds = result.claim.trade_off()
        return cls(rates, bounds, attack, text).plot(ax=ax, **line_options)

    def _draw(self, ax: Any, **line_options: Any) -> None:
        _draw_trade_off(self, ax, self.text, **{"label": "claim", **line_options})
        if self.attack is not None:
            ax.plot(*[[rate] for rate in self.attack], "X", color="C3", label="attack, at least")
        # The margins show the mark of an attack at a corner in full.
        ax.set(ylabel="detections (true-positive rate)", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))


def _draw_trade_off(display: Any, ax: Any, title: str, **line_options: Any) -> None:
    """Draw a trade-off curve, and that of no release."""
    points = display.false_positive_rate, display.true_positive_rate
    (display.line_,) = ax.plot(*points, **line_options)
    ax.plot([0, 1], [0, 1], ":", color="k", label="no release")
    ax.set(title=title, xlabel="false alarms (false-positive rate)")
    ax.grid(alpha=0.3)


def _repeated(mechanism: PrivacyCurves, releases: int, name: str | None) -> tuple[Composition, str]:
    """Return the composition of several releases, and its name, by default a description."""
    releases = check_integer("releases", releases, at_least=1)
    text = f"{mechanism}" if releases == 1 else f"{releases} x {mechanism}"
    return Composition([(mechanism, releases)]), text if name is None else name


def _fitted_report(estimator: Any) -> Any:
    check_is_fitted(estimator)
    report = getattr(estimator, "privacy_", None)
    if report is None:
        kind = type(estimator).__name__
        raise TypeError(f"estimator must be a fitted private estimator; got a {kind}")
    return report


def profile_points(
    curves: Sequence[Any],
    epsilons: ArrayLike | None = None,
    marks: Sequence[Point | None] = (),
    n_points: int = 120,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute a delta that holds for all curves at each epsilon: the largest of theirs."""
    # By default, epsilon goes from 0 until delta is negligible, also compared with the marks.
    if epsilons is None:
        end = _profile_end(curves, [mark[1] for mark in marks if mark])
        if end == 0:
            if not marks or marks[0] is None:
                raise ValueError("a profile needs at least one release or charge; got none")
            end = marks[0][0]
        points = np.linspace(0.0, end, n_points)
    else:
        points = np.sort(check_array("epsilons", np.ravel(epsilons), at_least=0))
    return points, np.max([np.asarray(curve.delta(points)) for curve in curves], axis=0)


def _profile_end(curves: Sequence[Any], marked: Sequence[float]) -> float:
    """Find the epsilon at which the delta of all curves is negligible."""
    below = [_BELOW_MARKS * delta for delta in marked if 0 < _BELOW_MARKS * delta < _END_DELTAS[0]]
    for end_delta in [*below, *_END_DELTAS]:
        end = max(curve.epsilon(float(end_delta)) for curve in curves)
        if np.isfinite(end):
            return end
    raise ValueError(
        "a profile needs a delta below 0.1 at some epsilon; something was released without noise"
    )


@dataclass(eq=False, repr=False)
class LedgerDisplay(Display):
    """Total of an accountant after each charge, made by `from_accountant`.

    Each charge is a dot in the colour of its label. With too many charges to compose each total,
    the line has steps that never show less than was spent, and the charges are ticks.

    Parameters
    ----------
    positions, labels : sequence of int or datetime, sequence of str or None
        Position of each charge on the horizontal axis, and its label. If `labels` is None, no
        charges are drawn.
    shown : ndarray of int
        Indices of the charges that have a total, including the last charge.
    totals : ndarray of shape (len(shown),)
        Total of all charges up to each of these. With an adaptive limit, the share of the
        limit that they use, times its epsilon.
    limit : float, default=None
        Limit of the total.
    total_name, by : str
        Label of the vertical axis, and "charge" or "time", the horizontal axis.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Axes, figure and totals of the last plot.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.displays import LedgerDisplay
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> accountant = PrivacyAccountant(epsilon=1.0)
    >>> for label in ["survey", "survey", "report"]:
    ...     accountant.charge(DirichletMechanism(r=0.05, alpha=2.0), releases=4, label=label)
    >>> display = LedgerDisplay.from_accountant(accountant)
    >>> bool(display.totals[-1] == accountant.epsilon - accountant.remaining())
    True
    """

    positions: Sequence[Any]
    labels: Sequence[str] | None
    shown: np.ndarray
    totals: np.ndarray
    limit: float | None = None
    total_name: str = "total epsilon"
    by: str = "charge"
    _legend_beside = True

    @classmethod
    def from_accountant(
        cls,
        accountant: Any,
        *,
        delta: float | None = None,
        by: str = "charge",
        max_points: int = 50,
        ax: Any = None,
        **line_options: Any,
    ) -> "LedgerDisplay":
        """Draw the total after each charge.

        Parameters
        ----------
        accountant : PrivacyAccountant
            Accountant with at least one charge.
        delta : float in (0, 1), default=None
            If given, ``total(delta)`` is drawn. If None, the totals are in the terms of the
            limit: the share spent of an adaptive limit, or the total at the delta or the Renyi
            order of a fixed one.
        by : {"charge", "time"}, default="charge"
            Horizontal axis: the number of the charge, or its time (UTC).
        max_points : int, default=50
            Maximum number of totals. Each may take a tenth of a second to compute.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `plot`.
        """
        check_choice("by", by, ("charge", "time"))
        max_points = check_integer("max_points", max_points, at_least=1)
        charges = accountant.history()
        if not charges:
            raise ValueError("accountant must have at least 1 charge; got 0")
        limit, terms = accountant.epsilon, f"$\\delta$ = {format_exact(accountant.delta)}"
        quantity = "total $\\varepsilon$"
        if delta is not None:
            delta = check_real("delta", delta, above=0, below=1)
            if accountant.order is not None or delta != accountant.delta:
                limit = None
            terms = f"$\\delta$ = {format_exact(delta)}"
        elif accountant.order is None and accountant.adaptive and limit is not None:
            quantity = "spent of the limit, times its $\\varepsilon$,"
        elif accountant.order is not None:
            terms = f"Renyi order {format_exact(accountant.order)}"
        shown = evenly_spaced(len(charges), max_points)
        numbers = range(1, len(charges) + 1)
        positions = [row["time"] for row in charges] if by == "time" else numbers
        labels = ["no label" if row["label"] is None else row["label"] for row in charges]
        totals = np.array(accountant.running_total(delta, after=(shown + 1).tolist()))
        display = cls(positions, labels, shown, totals, limit, f"{quantity} at {terms}", by)
        return display.plot(ax=ax, **line_options)

    def figure_size(self) -> tuple[float, float]:
        """Return the width and height of a figure, in inches."""
        return 8.0, 4.8

    def _draw(self, ax: Any, **line_options: Any) -> None:
        x = np.asarray(self.positions)
        thinned = len(self.shown) < len(x)
        corners = np.append(x[:1] if self.by == "time" else [0], x[self.shown])
        # Totals only grow, so the next total bounds those between two points from above.
        style = "steps-pre" if thinned else "steps-post"
        options = {"color": "0.3", "drawstyle": style, "zorder": 2, **line_options}
        (self.line_,) = ax.plot(corners, np.append(0.0, self.totals), **options)
        self._draw_charges(ax, x, thinned)
        if self.limit is not None:
            ax.axhline(self.limit, color="k", ls="--", label=f"limit {format_exact(self.limit)}")
        if np.isinf(self.totals).any():
            first = np.argmax(np.isinf(self.totals)) + (not thinned)
            ax.axvline(corners[first], color="k", linestyle=":", label="infinite from here on")
        ax.set(title="Privacy spent", ylabel=self.total_name)
        ax.set_ylim(bottom=0)
        if self.by == "time":
            ax.set_xlabel("time (UTC)")
            ax.tick_params(axis="x", rotation=30)
        else:
            ax.set_xlabel("charge")
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(alpha=0.3)

    def _draw_charges(self, ax: Any, x: np.ndarray, thinned: bool) -> None:
        """Draw a mark for each charge, in the colour of its label."""
        given = self.labels or []
        named = [label for label, _ in Counter(given).most_common(_MAX_LABELS)]
        labels = np.array([label if label in named else "other labels" for label in given])
        for label in dict.fromkeys(labels.tolist()):
            mine = np.flatnonzero(labels == label)
            # Dollar signs would start a formula.
            text = f"{label} ({mine.size})".replace("$", r"\$")
            if thinned:
                foot = np.full(mine.size, 0.02)
                ticks = {"marker": "|", "markersize": 8, "markeredgewidth": 2, "linestyle": "none"}
                ax.plot(x[mine], foot, transform=ax.get_xaxis_transform(), label=text, **ticks)
            else:
                ax.plot(x[mine], self.totals[mine], "o", label=text, zorder=3)


def evenly_spaced(size: int, max_points: int) -> np.ndarray:
    """Return at most `max_points` indices below `size`, evenly spaced and including the last."""
    return np.unique(np.linspace(size - 1, 0, min(size, max_points)).round().astype(int))
