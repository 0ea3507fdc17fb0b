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


def axes_for(display: Any, ax: Any, **figure_options: Any) -> Any:
    """The given axes, or new ones, which the display remembers."""
    if ax is None:
        _, ax = pyplot().subplots(**figure_options)
    display.ax_ = ax
    display.figure_ = ax.figure
    return ax
