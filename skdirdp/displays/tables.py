"""Plots of released tables with their intervals, and of differences between groups."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._validation import check_choice
from .base import Display

# Cells of larger tables have no labels: they would not fit.
_MAX_TEXTS = 200
# Cells with a wider interval have no colour: it would show noise.
_MAX_INTERVAL = 0.5
# Longest line of a label, in letters.
_LABEL_WIDTH = 32
# Digits of numbers: of those that are not rounded, and enough to tell any two floats apart.
_MIN_DIGITS, _MAX_DIGITS = 6, 17


@dataclass(eq=False, repr=False)
class TableDisplay(Display):
    """Heat map of a released table with the interval of each cell, made by `from_estimator`.

    Parameters
    ----------
    value, low, high : ndarray of shape (n_rows, n_columns)
        Estimated shares, and the limits of their intervals.
    rows, columns : list
        Categories.
    names : tuple of column names
        Column of the rows, and column of the columns.
    confidence : float
        Confidence level of the interval of one cell.
    title : str
        Meaning of the shares.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateCrosstab
    >>> from skdirdp.displays import TableDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"ward": rng.choice(["a", "b"], 2000), "ill": rng.integers(0, 2, 2000)})
    >>> tabs = PrivateCrosstab({"ward": ["a", "b"], "ill": [0, 1]}).fit(X)
    >>> display = TableDisplay.from_estimator(tabs, "ward", "ill")
    >>> display.value.shape, display.title
    ((3, 3), 'share in each row')
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: list[Hashable]
    columns: list[Hashable]
    names: tuple[Hashable, Hashable]
    confidence: float
    title: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        row: Hashable,
        column: Hashable,
        *,
        normalize: str = "index",
        confidence: float = 0.95,
        population: bool = True,
        ax: Any = None,
        **options: Any,
    ) -> "TableDisplay":
        """Draw a table of two columns of a `PrivateCrosstab`.

        Parameters
        ----------
        estimator : PrivateCrosstab
            Fitted.
        row, column : columns
            Columns whose categories are the rows and the columns of the table.
        normalize : {"index", "all"}, default="index"
            Whether shares are among the records of their row, or among all records.
        confidence : float in (0, 1), default=0.95
            Confidence level of the interval of one cell.
        population : bool, default=True
            Whether intervals are for the population, or for the counted records.
        ax, **options
            Axes, None for a new figure, and options of matplotlib's `pcolormesh`.
        """
        check_is_fitted(estimator)
        check_choice("normalize", normalize, ("index", "all"))
        level = {"confidence": confidence, "population": population}
        if normalize == "index":
            estimate, title = estimator.share(column, row, **level), "share in each row"
        else:
            estimate, title = estimator.share((row, column), **level), "share of all records"
        labels = estimator.categories_
        names = (row, column)
        shares = (estimate.value, estimate.low, estimate.high)
        display = cls(*shares, labels[row], labels[column], names, confidence, title)
        return display.plot(ax=ax, **options)

    def figure_size(self) -> Any:
        """Return the width and height of a figure, in inches."""
        n_rows, n_columns = self.value.shape
        return float(np.clip(2.5 + 1.1 * n_columns, 7.2, 16)), min(1.2 + 0.35 * n_rows, 12)

    def _draw(self, ax: Any, **options: Any) -> None:
        n_rows, n_columns = self.value.shape
        known = self.high - self.low <= _MAX_INTERVAL
        largest = float(self.value[known].max(initial=1e-9))
        # A mesh, because pages allow no images.
        style = {"cmap": "Blues", "vmin": 0.0, "vmax": largest, **options}
        edges = np.arange(n_columns + 1) - 0.5, np.arange(n_rows + 1) - 0.5
        mesh = ax.pcolormesh(*edges, np.ma.masked_where(~known, self.value), **style)
        ax.set_ylim(n_rows - 0.5, -0.5)
        ax.set_xticks(range(n_columns), category_texts(self.columns), rotation=30, ha="right")
        ax.set_yticks(range(n_rows), category_texts(self.rows))
        if self.value.size <= _MAX_TEXTS:
            for (i, j), value in np.ndenumerate(self.value):
                text = f"{value:.1%}\n{self.low[i, j]:.1%} to {self.high[i, j]:.1%}"
                # Choose a text colour that is readable on the colour of the cell.
                colour = "white" if value > 0.6 * largest else "#222222"
                colour = colour if known[i, j] else "black"
                ax.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        else:
            ax.figure.colorbar(mesh, ax=ax, label=self.title).solids.set_rasterized(False)
        title = f"{self.title.capitalize()} with {self.confidence:.0%} intervals"
        ax.set(title=title, xlabel=str(self.names[1]), ylabel=str(self.names[0]))


@dataclass(eq=False, repr=False)
class ForestDisplay(Display):
    """Estimates with their intervals, one line each, made by `from_estimator`.

    Parameters
    ----------
    value, low, high : ndarray of shape (n_estimates,)
        Estimates, and the limits of their intervals.
    labels : list
        Name of each estimate.
    confidence : float
        Confidence level of one interval.
    reference : float or None
        Value without a difference, drawn as a line.
    name : str
        Label of the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    Examples
    --------
    >>> from skdirdp.displays import ForestDisplay
    >>> from skdirdp.inference import Estimate
    >>> found = Estimate([0.1, -0.2], [0.0, -0.3], [0.2, -0.1], 0.95)
    >>> display = ForestDisplay.from_estimates(found, ["ward b", "ward c"], reference=0.0)
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['ward b', 'ward c']
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    labels: Sequence[Hashable]
    confidence: float
    reference: float | None = None
    name: str = "estimate"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        event: Any,
        column: Hashable,
        *,
        confidence: float = 0.95,
        population: bool = True,
        ax: Any = None,
        **options: Any,
    ) -> "ForestDisplay":
        """Draw the differences of a share between the categories of a column and its first one.

        Parameters
        ----------
        estimator : PrivateCrosstab
            Fitted.
        event : dict
            Categories whose share is compared, as for `PrivateCrosstab.share`.
        column : column
            Column of the groups.
        confidence : float in (0, 1), default=0.95
            Confidence level of one interval.
        population : bool, default=True
            Whether intervals are for the population, or for the counted records.
        ax, **options
            Axes, None for a new figure, and options of matplotlib's `errorbar`.
        """
        check_is_fitted(estimator)
        level = {"confidence": confidence, "population": population}
        estimate = estimator.difference(event, column, **level)
        first, *others = estimator.schema_[column].labels()[: 1 + np.size(estimate.value)]
        labels = [f"{text} - {first}" for text in category_texts([first, *others])[1:]]
        wanted = ", ".join(f"{name} = {value}" for name, value in event.items())
        name = f"difference of the share of {wanted}, by {column}"
        return cls.from_estimates(estimate, labels, reference=0.0, name=name, ax=ax, **options)

    @classmethod
    def from_estimates(
        cls,
        estimates: Any,
        labels: Sequence[Hashable],
        *,
        reference: float | None = None,
        name: str = "estimate",
        ax: Any = None,
        **options: Any,
    ) -> "ForestDisplay":
        """Draw estimates.

        Parameters
        ----------
        estimates : inference.Estimate
            Estimates of one dimension.
        labels : sequence
            Name of each estimate.
        reference, name, ax, **options
            As for the class and for `from_estimator`.
        """
        value, low, high = (
            np.atleast_1d(values) for values in (estimates.value, estimates.low, estimates.high)
        )
        if len(labels) != len(value):
            raise ValueError(
                f"labels must have one entry per estimate ({len(value)}); got {len(labels)}"
            )
        display = cls(value, low, high, labels, estimates.confidence, reference, name)
        return display.plot(ax=ax, **options)

    def figure_size(self) -> Any:
        """Return the width and height of a figure, in inches."""
        n_lines = sum(wrap_label(label).count("\n") + 1 for label in category_texts(self.labels))
        return 6.4, min(1.4 + 0.2 * n_lines + 0.15 * len(self.value), 12)

    def _draw(self, ax: Any, **options: Any) -> None:
        positions = np.arange(len(self.value))
        # An estimate may lie at the end of its range, and rounding beyond its interval.
        widths = np.maximum([self.value - self.low, self.high - self.value], 0.0)
        style = {"fmt": "o", "capsize": 3, **options}
        ax.errorbar(self.value, positions, xerr=widths, **style)
        if self.reference is not None:
            ax.axvline(self.reference, color="0.5", linewidth=1, linestyle="--")
        ax.set_yticks(positions, [wrap_label(label) for label in category_texts(self.labels)])
        ax.set_ylim(len(positions) - 0.5, -0.5)
        ax.set(title=f"{self.confidence:.0%} intervals", xlabel=wrap_label(self.name))
        ax.locator_params(axis="x", nbins=5)
        ax.grid(alpha=0.3, axis="x")


def wrap_label(text: str) -> str:
    """Wrap a label to lines of at most about half the width of a figure."""
    return "\n".join(wrap(text, _LABEL_WIDTH))


def category_texts(labels: Sequence[Hashable], digits: int = 6) -> list[str]:
    """Return categories as short strings, bins by their ends.

    Ends that are not whole are rounded to some digits, or to more if ends would not differ.
    """
    bins = [label for label in labels if isinstance(label, pd.Interval)]
    ends = {end for each in bins for end in (each.left, each.right)}
    while digits < _MAX_DIGITS and len({_end(end, digits) for end in ends}) < len(ends):
        digits += 1
    return [category_text(label, digits) for label in labels]


def category_text(label: Hashable, digits: int = 6) -> str:
    """Return a category as a short text; a bin by its ends."""
    if not isinstance(label, pd.Interval):
        return _end(label, _MIN_DIGITS)
    # Bins of numbers that are not whole end before the next one.
    word = "to below" if label.closed == "left" else "to"
    return f"{_end(label.left, digits)} {word} {_end(label.right, digits)}"


def _end(value: Any, digits: int) -> str:
    if isinstance(value, pd.Timestamp):
        return value.isoformat().removesuffix("T00:00:00")
    if not isinstance(value, float):
        return str(value)
    # Round first: fewer digits in the format itself would write 1230 as 1.23e+03.
    return f"{float(f'{value:.{digits}g}'):.{max(digits, _MIN_DIGITS)}g}"
