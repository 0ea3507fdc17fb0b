"""Plots of a released histogram, of effects on a class, and of scores by budget."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from .._validation import check_array, check_integer, check_real
from .base import Display, new_axes
from .tables import category_texts, wrap_label

# Sizes in inches: width of a panel of effects, its title and axis, and a line of its labels.
_PANEL_WIDTH, _PANEL_MARGIN, _LINE_HEIGHT = 4.2, 0.9, 0.13


@dataclass(eq=False, repr=False)
class HistogramDisplay(Display):
    """Released histogram with its confidence band, made by `from_estimator`.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins.
    density : ndarray of shape (n_bins,)
        Released probability per unit of the feature. Missing values are not drawn.
    lower, upper : ndarray of shape (n_bins,), or None
        Bounds on the true density of all bins simultaneously. If None, no band is drawn.
    confidence : float
        Probability that the bounds hold.
    name : str
        Label of the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

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

    edges: np.ndarray
    density: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    confidence: float
    name: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        feature: int | str = 0,
        *,
        confidence: float = 0.95,
        max_bins: int = 60,
        ax: Any = None,
        **line_options: Any,
    ) -> "HistogramDisplay":
        """Draw the histogram of one feature of a `DirichletHistogramTransformer`.

        Parameters
        ----------
        estimator : DirichletHistogramTransformer
            Fitted transformer.
        feature : int or str, default=0
            Position or name of the feature.
        confidence : float in (0, 1), default=0.95
            Confidence level of the band.
        max_bins : int, default=60
            Maximum number of bins, to which adjacent fine bins are merged.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `stairs`.
        """
        check_is_fitted(estimator)
        check_real("confidence", confidence, above=0, below=1)
        position, name = _find_feature(estimator, feature)
        shares, fine_edges = estimator.histogram_[position], estimator.fine_edges_[position]
        if len(shares) == 1:
            raise ValueError(f"feature {name} is constant: no histogram of it was released")
        max_bins = check_integer("max_bins", max_bins, at_least=1)
        has_missing = np.isinf(fine_edges[-1])  # the last bin, which is not drawn
        n_bins, last = len(shares) - has_missing, fine_edges[-1 - has_missing]
        starts = np.arange(n_bins)
        if n_bins > max_bins:  # merge fine bins to bins of about equal widths
            wanted = np.linspace(fine_edges[0], last, max_bins + 1)[:-1]
            starts = np.unique(np.searchsorted(fine_edges[:n_bins], wanted).clip(0, n_bins - 1))
        edges = np.append(fine_edges[starts], last)
        widths = np.diff(edges)
        density = np.add.reduceat(shares[:n_bins], starts) / widths
        runs = np.append(starts, n_bins) if has_missing else starts
        band = estimator.histogram_band(position, confidence=confidence, starts=runs)
        limits = (None, None) if band is None else (each[: len(widths)] / widths for each in band)
        lower, upper = limits
        return cls(edges, density, lower, upper, confidence, name).plot(ax=ax, **line_options)

    def _draw(self, ax: Any, **line_options: Any) -> None:
        line = ax.stairs(self.density, self.edges, **{"label": "released", **line_options})
        if self.lower is not None:
            band = {"color": line.get_edgecolor(), "alpha": 0.25, "fill": True}
            text = f"{self.confidence:.0%} for all bins"
            ax.stairs(self.upper, self.edges, baseline=self.lower, label=text, **band)
        ax.set(title=f"Released histogram of {self.name}", xlabel=self.name, ylabel="density")


@dataclass(eq=False, repr=False)
class EffectsDisplay(Display):
    """Released effects of columns on a class, made by `from_estimator`: one panel per column.

    A bar is an effect, and its error bar is two standard deviations of the noise to either side.

    Parameters
    ----------
    effects : dict of Series
        Effects of the categories or bins of each column.
    deviations : dict of Series
        Standard deviations of the effects that are due to the noise.
    class_label : object
        Class whose score the effects increase.
    max_categories : int, default=15
        Maximum number of categories of a panel: those with the largest absolute effects. All bins
        of numbers and dates are drawn.

    Attributes
    ----------
    axes_, figure_ : ndarray of matplotlib Axes, and Figure
        Axes and figure of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateTableClassifier, Schema
    >>> from skdirdp.displays import EffectsDisplay
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"dose": rng.random(2000), "sex": rng.choice(["f", "m"], 2000)})
    >>> table["ill"] = (rng.random(2000) < table["dose"]).astype(int)
    >>> schema = Schema({"dose": (0.0, 1.0), "sex": ["f", "m"], "ill": [0, 1]})
    >>> model = PrivateTableClassifier(schema).fit(table, y="ill")
    >>> display = EffectsDisplay.from_estimator(model)
    >>> len(display.axes_), int(display.class_label)
    (2, 1)
    """

    effects: dict[Any, Any]
    deviations: dict[Any, Any]
    class_label: Any
    max_categories: int = 15

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        columns: Any = None,
        *,
        class_label: Any = None,
        n_columns: int = 12,
        max_categories: int = 15,
        **options: Any,
    ) -> "EffectsDisplay":
        """Draw the effects of columns of a `PrivateTableClassifier`.

        Parameters
        ----------
        estimator : PrivateTableClassifier
            Fitted classifier.
        columns : list, default=None
            Columns to draw. If None, the most important ones.
        class_label : object, default=None
            A class. If None, the last one.
        n_columns : int, default=12
            Number of columns if `columns` is None.
        max_categories : int, default=15
            Maximum number of categories of a panel: those with the largest absolute effects.
        **options
            Options of matplotlib's `barh`.
        """
        check_is_fitted(estimator)
        max_categories = check_integer("max_categories", max_categories, at_least=1)
        label = estimator.classes_[-1] if class_label is None else class_label
        if label not in list(estimator.classes_):
            raise ValueError(f"class_label must be one of the classes; got {class_label!r}")
        if columns is None:
            order = np.argsort(-estimator.feature_importances_)[:n_columns]
            columns = [estimator.columns_[k] for k in order]
        unknown = [name for name in columns if name not in estimator.coef_]
        if unknown:
            raise ValueError(f"columns must be columns of the model; {unknown[0]!r} is not one")
        effects = {name: estimator.coef_[name][label] for name in columns}
        deviations = {name: estimator.coef_std_[name][label] for name in columns}
        return cls(effects, deviations, label, max_categories).plot(**options)

    def plot(self, ax: Any = None, **options: Any) -> "EffectsDisplay":
        """Draw the effects.

        Parameters
        ----------
        ax : array of matplotlib Axes, default=None
            One for each column. If None, a new figure is created.
        **options
            Options of matplotlib's `barh`.

        Returns
        -------
        display : the same object
        """
        shown = {name: self._shown(name) for name in self.effects}
        n_columns = min(len(shown), 3)
        panels = [list(shown.values())[i : i + n_columns] for i in range(0, len(shown), n_columns)]
        n_bars = [max(map(len, row)) for row in panels]
        if ax is None:
            lines = [
                max(text.count("\n") for each in row for text in each["text"]) + 1 for row in panels
            ]
            # The gap between two labels is half a line.
            heights = np.multiply(n_bars, np.add(lines, 0.5)) * _LINE_HEIGHT
            size = n_columns * _PANEL_WIDTH, heights.sum() + _PANEL_MARGIN * len(panels)
            ratios = {"height_ratios": heights}
            ax = new_axes(len(panels), n_columns, figsize=size, sharex=True, gridspec_kw=ratios)
        axes = np.ravel(ax)
        for k, (axis, (name, bars)) in enumerate(zip(axes, shown.items(), strict=False)):
            # Bars of the panels in a row have the same height.
            self._draw_panel(axis, name, bars, n_bars[k // n_columns], options)
        for axis in axes[len(shown) :]:
            axis.set_visible(False)
        self.axes_, self.figure_ = axes[: len(shown)], axes[0].figure
        return self

    def _shown(self, name: Any) -> pd.DataFrame:
        """Return effect, error and label of the bars of a column, from top to bottom."""
        effects = self.effects[name]
        texts = list(map(wrap_label, category_texts(effects.index, digits=3)))
        bars = pd.DataFrame({"effect": effects, "error": 2 * self.deviations[name], "text": texts})
        are_bins = any(isinstance(label, pd.Interval) for label in effects.index)
        if are_bins or len(bars) <= self.max_categories:
            return bars
        largest = np.argsort(-bars["effect"].abs(), kind="stable")[: self.max_categories]
        return bars.iloc[largest].sort_values("effect", ascending=False, kind="stable")

    def _draw_panel(
        self, axis: Any, name: Any, bars: pd.DataFrame, n_bars: int, options: dict[str, Any]
    ) -> None:
        places = np.arange(len(bars))
        style = {"capsize": 2, "alpha": 0.6, "ecolor": "0.2", **options}
        axis.barh(places, bars["effect"], xerr=bars["error"], **style)
        axis.axvline(0.0, color="0.5", linewidth=0.5)
        axis.set_yticks(places, bars["text"], size=7, parse_math=False)
        axis.set_ylim(n_bars - 0.5, -0.5)
        axis.tick_params(axis="x", labelbottom=True)
        title, n_left_out = wrap_label(str(name)), len(self.effects[name]) - len(bars)
        if n_left_out:
            title += f"\n({n_left_out} smaller effects are left out)"
        axis.set_title(title, size=10, parse_math=False)
        axis.set_xlabel(f"effect on {self.class_label}")


def _find_feature(estimator: Any, feature: int | str) -> tuple[int, str]:
    known = list(getattr(estimator, "feature_names_in_", []))
    n_features = estimator.n_features_in_
    if isinstance(feature, str):
        if feature not in known:
            raise ValueError(f"feature must be a name seen during fit; got {feature!r}")
        feature = known.index(feature)
    if not 0 <= feature < n_features:
        raise ValueError(f"feature must be from 0 to {n_features - 1}; got {feature}")
    return int(feature), str(known[feature]) if known else f"x{feature}"


@dataclass(eq=False, repr=False)
class BudgetCurveDisplay(Display):
    """Score against the budget epsilon, made by `from_estimator` or `from_results`.

    Parameters
    ----------
    epsilons, mean : ndarray of shape (n_epsilons,)
        Budgets, and the mean score at each.
    spread : ndarray of shape (n_epsilons,), or None
        Standard deviation of the scores at each budget.
    reference : float, default=None
        Score without privacy.
    score_name, name : str
        Label of the vertical axis, and of the curve in the legend.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib Axes, Figure and Line2D
        Axes, figure and mean scores of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.displays import BudgetCurveDisplay
    >>> y = np.arange(1000) % 2
    >>> X = np.column_stack([y, 1 - y])
    >>> model = DirichletCategoricalNB(classes=[0, 1], n_categories=2)
    >>> display = BudgetCurveDisplay.from_estimator(
    ...     model, X[:800], y[:800], X_test=X[800:], y_test=y[800:], epsilons=[0.5, 1, 2]
    ... )
    >>> display.mean.shape
    (3,)
    """

    epsilons: np.ndarray
    mean: np.ndarray
    spread: np.ndarray | None
    reference: float | None = None
    score_name: str = "score"
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        X_test: Any,
        y_test: Any = None,
        epsilons: ArrayLike = (0.1, 0.3, 1.0, 3.0, 10.0),
        scoring: Any = None,
        n_repeats: int = 5,
        reference: float | bool | None = None,
        param_name: str = "epsilon",
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "BudgetCurveDisplay":
        """Fit several times at each budget, and draw the scores on test records.

        Every fit is charged to the estimator's accountant, if it has one. The scores are **not
        private**: publish the curve only if the test records are public.

        Parameters
        ----------
        estimator : private estimator
            Estimator to clone and fit.
        X, y, X_test, y_test : array-like
            Records to fit, and records to score.
        epsilons : array-like of positive floats, default=(0.1, 0.3, 1, 3, 10)
            Budgets.
        scoring : str or callable, default=None
            As in scikit-learn. If None, the estimator's `score`.
        n_repeats : int, default=5
            Number of fits at each budget, with different noise even with a `random_state`.
        reference : True or float, default=None
            Score without privacy, drawn as a dashed line. If True, it is computed by a fit
            with infinite epsilon, which is charged too; an accountant with a limit refuses it.
        param_name : str, default="epsilon"
            Name of the budget's parameter, such as ``"step__epsilon"`` in a pipeline.
        name : str, default=None
            Name in the legend. If None, the name of the estimator's class.
        ax, **line_options
            Axes, None for a new figure, and options of matplotlib's `plot`.
        """
        budgets = _check_budgets(epsilons)
        n_repeats = check_integer("n_repeats", n_repeats, at_least=1)
        scorer = check_scoring(estimator, scoring)
        noise_name = param_name.removesuffix("epsilon") + "random_state"
        parameters = estimator.get_params()
        if param_name not in parameters:
            wanted = "the name of the estimator's budget, such as 'epsilon' or 'step__epsilon'"
            raise ValueError(f"param_name must be {wanted}; got {param_name!r}")
        noise = parameters.get(noise_name)
        if isinstance(noise, Integral):
            # All fits share one stream: with the same seed, each would draw the same noise.
            noise = np.random.default_rng(int(noise))

        def score(epsilon: float) -> float:
            model = clone(estimator).set_params(**{param_name: epsilon})
            if noise is not None:
                model.set_params(**{noise_name: noise})
            return float(scorer(model.fit(X, y), X_test, y_test))

        if scoring is None:
            score_name = "accuracy" if is_classifier(estimator) else "score"
        elif isinstance(scoring, str):
            score_name = scoring.replace("_", " ")
        else:
            score_name = getattr(scoring, "__name__", "score")
        scores = [[score(epsilon) for _ in range(n_repeats)] for epsilon in budgets.tolist()]
        reference = score(np.inf) if reference is True else reference
        name = type(estimator).__name__ if name is None else name
        options = {"score_name": score_name, "name": name, "ax": ax, **line_options}
        return cls.from_results(budgets, scores, reference=reference, **options)

    @classmethod
    def from_results(
        cls,
        epsilons: ArrayLike,
        scores: ArrayLike,
        spread: ArrayLike | None = None,
        *,
        reference: float | None = None,
        score_name: str = "score",
        name: str | None = None,
        ax: Any = None,
        **line_options: Any,
    ) -> "BudgetCurveDisplay":
        """Draw known scores.

        Parameters
        ----------
        epsilons : array-like of shape (n_epsilons,)
            Budgets.
        scores : array-like of shape (n_epsilons,) or (n_epsilons, n_repeats)
            Mean scores, or all scores.
        spread : array-like of shape (n_epsilons,), default=None
            Standard deviations. If None, computed from all scores.
        reference, score_name, name, ax, **line_options
            As for the class and for `from_estimator`.
        """
        budgets = _check_budgets(epsilons)
        values = check_array("scores", scores)
        if values.ndim not in (1, 2) or len(values) != len(budgets):
            wanted = f"a row for each of the {len(budgets)} epsilons"
            raise ValueError(f"scores must have {wanted}; got shape {values.shape}")
        if values.ndim == 2:
            spread = values.std(axis=1) if spread is None else spread
            values = values.mean(axis=1)
        order = np.argsort(budgets)
        if spread is not None:
            spread = check_array("spread", spread, at_least=0)
            if spread.shape != budgets.shape:
                raise ValueError(f"spread must have shape {budgets.shape}; got {spread.shape}")
            spread = spread[order]
        if reference is not None:
            reference = check_real("reference", reference)
        display = cls(budgets[order], values[order], spread, reference, score_name, name)
        return display.plot(ax=ax, **line_options)

    def _draw(self, ax: Any, **line_options: Any) -> None:
        options = {"marker": "o", "label": self.name, **line_options}
        (self.line_,) = ax.plot(self.epsilons, self.mean, **options)
        colour = self.line_.get_color()
        if self.spread is not None:
            limits = np.array([self.mean - self.spread, self.mean + self.spread])
            if "accuracy" in self.score_name:
                limits = np.clip(limits, 0, 1)
            ax.fill_between(self.epsilons, *limits, color=colour, alpha=0.2, linewidth=0)
        if self.reference is not None:
            ax.axhline(self.reference, color=colour, linestyle="--", label="without privacy")
        ax.set_xscale("log")
        ax.set_xticks(self.epsilons, [f"{epsilon:g}" for epsilon in self.epsilons])
        ax.set_xticks([], minor=True)
        ax.set(title=f"{self.score_name.capitalize()} by budget", ylabel=self.score_name)
        ax.set_xlabel(r"$\varepsilon$")
        ax.grid(alpha=0.3)


def _check_budgets(epsilons: ArrayLike) -> np.ndarray:
    budgets = check_array("epsilons", np.ravel(epsilons), above=0)
    if budgets.size == 0 or not np.isfinite(budgets).all():
        raise ValueError(f"epsilons must be one or more finite numbers; got {epsilons!r}")
    return budgets
