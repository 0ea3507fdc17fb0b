"""Base class of the displays, and SVG output."""

import io
from typing import Any, TypeVar

import numpy as np

_SVG_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "skdirdp", "legend.frameon": False}

Self = TypeVar("Self", bound="Display")


class Display:
    """Base class: `plot` prepares the axes, and `_draw` of a subclass draws on them."""

    ax_: Any
    figure_: Any
    _legend_beside = False

    def plot(self: Self, ax: Any = None, **options: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            If None, a new figure is created. A title that the axes have is kept.
        **options
            Passed to matplotlib.

        Returns
        -------
        display : the same object
        """
        legend = {}
        if ax is None:
            ax = new_axes(figsize=self.figure_size())
            if self._legend_beside:
                legend = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        self.ax_, self.figure_ = ax, ax.figure
        title = ax.get_title()
        self._draw(ax, **options)
        if title:
            ax.set_title(title)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(**legend)
        return self

    def figure_size(self) -> Any:
        """Return width and height of a new figure in inches; None is matplotlib's default."""

    def _draw(self, ax: Any, **options: Any) -> None:
        raise NotImplementedError


def new_axes(*shape: int, **options: Any) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("matplotlib is needed: pip install matplotlib") from error
    return plt.subplots(*shape, layout="constrained", **options)[1]


def to_svg(display: Display, prefix: str, **options: Any) -> str | None:
    """Draw a display as an SVG element, or return None if matplotlib is not installed."""
    # The result depends on the display alone, not on the user's style or the time. Black becomes
    # the colour of the text around it. Ids start with `prefix`, so that they are unique in a page.
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        return None
    file = io.StringIO()
    with style.context(["default", _SVG_STYLE]), np.errstate(all="ignore"):
        figure = Figure(figsize=display.figure_size() or (7.2, 3.4), layout="constrained")
        display.plot(ax=figure.add_subplot(), **options).ax_.set_title("")
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    head, _, tail = file.getvalue().partition("<metadata>")
    svg = head[head.index("<svg") :] + tail.partition("</metadata>")[2]
    for reference in (' id="', 'href="#', "url(#"):
        svg = svg.replace(reference, f"{reference}{prefix}-")
    return svg.replace("#000000", "currentColor").strip()
