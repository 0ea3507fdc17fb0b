"""A released histogram."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._validation import check_integer, check_real
from .axes import axes_for


class HistogramDisplay:
    """A released histogram, drawn with its error band.

    Use `from_estimator` to make one.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Of the bins as drawn.
    density : ndarray of shape (n_bins,)
        Released probability per unit of the feature.
    lower, upper : ndarray of shape (n_bins,), or None
        Limits that hold for the true density of all bins at once; None for no band.
    confidence : float
        The probability that they hold.
    name : str
        The label of the horizontal axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that were drawn on last.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletHistogramTransformer
    >>> from skdirdp.displays import HistogramDisplay
    >>> X = np.random.default_rng(0).normal(size=(5000, 1))
    >>> model = DirichletHistogramTransformer(bounds=(-5, 5), n_fine_bins=40).fit(X)
    >>> display = HistogramDisplay.from_estimator(model, confidence=0.9)
    >>> display.ax_.get_xlabel(), len(display.density)
    ('x0', 40)
    """

    def __init__(self, edges, density, lower, upper, confidence, name):
        self.edges = edges
        self.density = density
        self.lower = lower
        self.upper = upper
        self.confidence = confidence
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        feature: int | str = 0,
        *,
        confidence: float = 0.95,
        max_bins: int = 60,
        ax=None,
        **line_options,
    ) -> "HistogramDisplay":
        """Draw the histogram of one feature of a `DirichletHistogramTransformer`.

        Parameters
        ----------
        estimator : DirichletHistogramTransformer
            Fitted.
        feature : int or str, default=0
            The position of the feature, or its name.
        confidence : float in (0, 1), default=0.95
            Of the band.
        max_bins : int, default=60
            Fine bins are drawn together, as long as there are more than this. Their
            limits are those of the sum.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `stairs`.

        Returns
        -------
        HistogramDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        check_real("confidence", confidence, above=0, below=1)
        position, name = _find(estimator, feature)
        shares, fine_edges = estimator.histogram_[position], estimator.fine_edges_[position]
        if len(shares) == 1:
            raise ValueError(f"feature {name} is constant: no histogram of it was released")
        starts = _runs(fine_edges, check_integer("max_bins", max_bins, at_least=1))
        edges = np.append(fine_edges[starts], fine_edges[-1])
        widths = np.diff(edges)
        density = np.add.reduceat(shares, starts) / widths
        band = estimator.histogram_band(position, confidence=confidence, starts=starts)
        lower, upper = (None, None) if band is None else (limit / widths for limit in band)
        display = cls(edges, density, lower, upper, confidence, name)
        return display.plot(ax=ax, **line_options)

    def plot(self, ax=None, **line_options) -> "HistogramDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `stairs`.

        Returns
        -------
        HistogramDisplay
        """
        ax = axes_for(self, ax, f"Released histogram of {self.name}")
        line = ax.stairs(self.density, self.edges, **{"label": "released", **line_options})
        if self.lower is not None:
            ax.stairs(
                self.upper,
                self.edges,
                baseline=self.lower,
                fill=True,
                color=line.get_edgecolor(),
                alpha=0.25,
                label=f"{self.confidence:.0%} for all bins",
            )
        ax.set(xlabel=self.name, ylabel="density")
        ax.legend()
        return self


def _runs(edges: np.ndarray, most: int) -> np.ndarray:
    """The first bins of runs, each about as wide as the others."""
    if len(edges) - 1 <= most:
        return np.arange(len(edges) - 1)
    wanted = np.linspace(edges[0], edges[-1], most + 1)[:-1]
    return np.unique(np.searchsorted(edges[:-1], wanted).clip(0, len(edges) - 2))


def _find(estimator, feature: int | str) -> tuple[int, str]:
    known = list(getattr(estimator, "feature_names_in_", []))
    n_features = estimator.n_features_in_
    if isinstance(feature, str):
        if feature not in known:
            raise ValueError(f"feature must be a name that fit has seen; got {feature!r}")
        return known.index(feature), feature
    if not 0 <= feature < n_features:
        raise ValueError(f"feature must be from 0 to {n_features - 1}; got {feature}")
    return int(feature), str(known[feature]) if known else f"x{feature}"
