"""Where displays draw."""

from typing import Any


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "matplotlib is needed to plot; install it, for example by pip install matplotlib"
        ) from error
    return plt


def axes_for(display: Any, ax: Any, title: str, **figure_options: Any) -> Any:
    """The given axes, or new ones with room for all labels, which the display remembers.

    A title that axes have already is kept.
    """
    if ax is None:
        _, ax = pyplot().subplots(**{"layout": "constrained", **figure_options})
    if not ax.get_title():
        ax.set_title(title)
    display.ax_ = ax
    display.figure_ = ax.figure
    return ax
