"""Margins of a released network beside those of public records."""

from collections.abc import Hashable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..bayes_net import PrivateBayesNet
from .axes import axes_for

_ROOM = 0.55  # inches for each column
_LEAST = (4.5, 3.8)
_MOST_NUMBERS = 12  # with more columns there is no room to write a distance into its cell


class MarginsDisplay:
    """How far margins of a released network are from those of public records.

    Use `from_estimator` to make one. A cell is the total variation distance of the joint
    distribution of two columns; on the diagonal stands that of one. The records that are
    compared with are exact, so that only public ones should be: the picture is as public as
    they are.

    Parameters
    ----------
    columns : list
        The columns, in the order of rows.
    distances : ndarray of shape (n_columns, n_columns)
        Symmetric, between 0 and 1.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was last drawn on.
    figure_ : matplotlib Figure
        What holds it.
    image_ : matplotlib AxesImage
        The cells.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNet
    >>> from skdirdp.displays import MarginsDisplay
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 4000)
    >>> X = pd.DataFrame({"a": a, "b": (a + (rng.random(4000) < 0.1)) % 2})
    >>> model = PrivateBayesNet({"a": [0, 1], "b": [0, 1]}).fit(X[:2000])
    >>> display = MarginsDisplay.from_estimator(model, X[2000:])  # were these public
    >>> bool(display.distances.max() < 0.2)
    True
    """

    def __init__(self, columns, distances):
        self.columns = columns
        self.distances = distances

    @classmethod
    def from_estimator(
        cls, estimator, X: Any, *, columns: Iterable[Hashable] | None = None, ax=None
    ) -> "MarginsDisplay":
        """Compare a network with public records.

        Parameters
        ----------
        estimator : PrivateBayesNet
            Fitted.
        X : DataFrame, or array of shape (n_records, n_columns)
            Public records, with the columns that were fitted.
        columns : iterable of columns, default=None
            Those to compare; None compares all.
        ax : matplotlib Axes, default=None
            A new figure, large enough, if None.

        Returns
        -------
        MarginsDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        if not isinstance(estimator, PrivateBayesNet):
            raise TypeError(
                f"estimator must be a PrivateBayesNet; got a {type(estimator).__name__}"
            )
        wanted = list(estimator.columns_ if columns is None else columns)
        shares = estimator.count_margins(X, [(name,) for name in wanted])
        shares |= estimator.count_margins(X, list(combinations(wanted, 2)))
        distances = np.empty((len(wanted), len(wanted)))
        for nodes, public in shares.items():
            released = estimator.marginal(list(nodes)).to_numpy()
            places = [wanted.index(node) for node in nodes]
            distance = np.abs(released - public.ravel()).sum() / 2
            distances[places[0], places[-1]] = distances[places[-1], places[0]] = distance
        return cls(wanted, distances).plot(ax=ax)

    def plot(self, ax=None, *, cmap="viridis") -> "MarginsDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure, large enough, if None.
        cmap : str or matplotlib Colormap, default="viridis"
            The colours of the distances, from 0 to the largest.

        Returns
        -------
        MarginsDisplay
            This one.
        """
        size = np.maximum(_LEAST, _ROOM * len(self.columns) + np.array([2.0, 1.4]))
        ax = axes_for(self, ax, "Distance from public records", figsize=size)
        largest = max(float(self.distances.max()), 1e-9)
        self.image_ = ax.imshow(self.distances, vmin=0, vmax=largest, cmap=cmap)
        names = [str(name) for name in self.columns]
        ax.set_xticks(range(len(names)), names, rotation=60, ha="right")
        ax.set_yticks(range(len(names)), names)
        if len(names) <= _MOST_NUMBERS:
            for (row, column), value in np.ndenumerate(self.distances):
                colour = "w" if value < 0.6 * largest else "k"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", size=7, color=colour)
        ax.figure.colorbar(self.image_, ax=ax, label="total variation distance", shrink=0.8)
        return self
