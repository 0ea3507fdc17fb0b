"""The ledger of an accountant, as it grew."""

from collections import Counter
from typing import Any

import numpy as np

from .._messages import format_exact
from .._validation import check_choice, check_integer, check_real
from .axes import axes_for

_MOST_LABELS = 9
_NO_LABEL = "no label"
_OTHERS = "other labels"


class LedgerDisplay:
    """The total of an accountant, as it grew with every charge.

    Use `from_accountant` to make one. A charge is a dot on the line, of the colour of
    its label. Where there are too many to compose them one by one, the line is drawn
    through some of the totals, in steps that never show less than was spent, and the
    charges stand as ticks at the foot.

    Parameters
    ----------
    positions : sequence of int or datetime
        Where each charge stands on the horizontal axis.
    labels : sequence of str
        What each charge is called.
    shown : ndarray of int
        Which of the charges have a total, by index; the last one does.
    totals : ndarray of shape (len(shown),)
        The exact composition of all charges up to each of those; under a limit for adaptive
        spending, the share of it that they took, times its epsilon.
    limit : float, default=None
        What the total may not pass.
    total_name : str, default="total epsilon"
        What the vertical axis is called.
    by : {"charge", "time"}, default="charge"
        What the horizontal axis is.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was last drawn on.
    figure_ : matplotlib Figure
        What holds it.
    line_ : matplotlib Line2D
        The totals.

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

    def __init__(
        self,
        positions,
        labels,
        shown,
        totals,
        limit=None,
        total_name="total epsilon",
        by="charge",
    ):
        self.positions = positions
        self.labels = labels
        self.shown = shown
        self.totals = totals
        self.limit = limit
        self.total_name = total_name
        self.by = by

    @classmethod
    def from_accountant(
        cls,
        accountant,
        *,
        delta: float | None = None,
        by: str = "charge",
        max_points: int = 50,
        ax=None,
        **line_options,
    ) -> "LedgerDisplay":
        """Draw the total after each charge.

        Parameters
        ----------
        accountant : PrivacyAccountant
            With at least one charge.
        delta : float in (0, 1), default=None
            Draws ``total(delta)``. None is the limit's own terms: the share that is spent,
            if it is for adaptive spending, else the total at its delta, or its Renyi order.
        by : {"charge", "time"}, default="charge"
            What the horizontal axis is: the number of the charge, or its time (UTC).
        max_points : int, default=50
            The most totals that are composed, evenly spaced and always the last. Each may
            take a tenth of a second.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        LedgerDisplay
            Drawn.
        """
        check_choice("by", by, ("charge", "time"))
        max_points = check_integer("max_points", max_points, at_least=1)
        charges = accountant.history()
        if not charges:
            raise ValueError("accountant must have at least 1 charge; got 0")
        limit, terms = accountant.epsilon, f"$\\delta$ = {format_exact(accountant.delta)}"
        what = "total $\\varepsilon$"
        if delta is not None:
            delta = check_real("delta", delta, above=0, below=1)
            if accountant.order is not None or delta != accountant.delta:
                limit = None
            terms = f"$\\delta$ = {format_exact(delta)}"
        elif accountant.order is None and accountant.adaptive and limit is not None:
            what = "spent of the limit, times its $\\varepsilon$,"
        elif accountant.order is not None:
            terms = f"Renyi order {format_exact(accountant.order)}"
        shown = _evenly(len(charges), max_points)
        display = cls(
            [row["time"] for row in charges] if by == "time" else range(1, len(charges) + 1),
            [_NO_LABEL if row["label"] is None else row["label"] for row in charges],
            shown,
            np.array(accountant.running_total(delta, after=(shown + 1).tolist())),
            limit,
            f"{what} at {terms}",
            by,
        )
        return display.plot(ax=ax, **line_options)

    def plot(self, ax=None, **line_options) -> "LedgerDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        LedgerDisplay
            This one.
        """
        # On axes of others there may be no room beside them.
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if ax is None else {}
        ax = axes_for(self, ax, "Privacy spent", figsize=(8.0, 4.8))
        x = np.asarray(self.positions)
        thinned = len(self.shown) < len(x)
        start = x[:1] if self.by == "time" else [0]
        # Between totals the truth is between them too; the larger one is on the safe side.
        options = {"color": "0.3", "drawstyle": "steps-pre" if thinned else "steps-post"}
        (self.line_,) = ax.plot(
            np.append(start, x[self.shown]),
            np.append(0.0, self.totals),
            **{"zorder": 2, **options, **line_options},
        )
        self._draw_charges(ax, x, thinned)
        if self.limit is not None:
            ax.axhline(
                self.limit, color="k", linestyle="--", label=f"limit {format_exact(self.limit)}"
            )
        if np.isinf(self.totals).any():
            first = x[self.shown[np.argmax(np.isinf(self.totals))]]
            ax.axvline(first, color="k", linestyle=":", label="infinite from here on")
        ax.set(xlabel="time (UTC)" if self.by == "time" else "charge", ylabel=self.total_name)
        ax.set_ylim(bottom=0)
        if self.by == "time":
            ax.tick_params(axis="x", rotation=30)
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(alpha=0.3)
        ax.legend(**beside)
        return self

    def _draw_charges(self, ax: Any, x: np.ndarray, thinned: bool) -> None:
        counts = Counter(self.labels)
        named = [label for label, _ in counts.most_common(_MOST_LABELS)]
        labels = np.array([label if label in named else _OTHERS for label in self.labels])
        for label in dict.fromkeys(labels.tolist()):
            mine = np.flatnonzero(labels == label)
            text = f"{label} ({mine.size})"
            if thinned:
                foot = np.full(mine.size, 0.02)
                ticks = {"marker": "|", "markersize": 8, "markeredgewidth": 2, "linestyle": "none"}
                ax.plot(x[mine], foot, transform=ax.get_xaxis_transform(), label=text, **ticks)
            else:
                ax.plot(x[mine], self.totals[mine], "o", label=text, zorder=3)


def _evenly(size: int, most: int) -> np.ndarray:
    """At most that many of the indices, evenly spaced and with the last."""
    return np.unique(np.linspace(size - 1, 0, min(size, most)).round().astype(int))
