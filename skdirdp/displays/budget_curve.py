"""What a model is worth at each budget."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring

from .._validation import check_array, check_integer, check_real
from .axes import axes_for


class BudgetCurveDisplay:
    """A score, accuracy or loss, against the budget epsilon.

    Use `from_estimator` to fit and score, or `from_results` for scores that are known.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        The budgets.
    mean, spread : ndarray of shape (n_epsilons,)
        Of the scores at each budget; the spread is a standard deviation, or None.
    reference : float, default=None
        The score without privacy.
    score_name : str, default="score"
        What the vertical axis is called.
    name : str, default=None
        What the legend calls the curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was last drawn on.
    figure_ : matplotlib Figure
        What holds it.
    line_ : matplotlib Line2D
        The mean scores.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.displays import BudgetCurveDisplay
    >>> y = np.arange(1000) % 2
    >>> X = np.column_stack([y, 1 - y])
    >>> model = DirichletCategoricalNB(classes=[0, 1], n_categories=2)
    >>> display = BudgetCurveDisplay.from_estimator(
    ...     model, X[:800], y[:800], X_test=X[800:], y_test=y[800:],
    ...     epsilons=[0.5, 1, 2], n_repeats=2, reference=True,
    ... )
    >>> display.mean.shape, display.reference
    ((3,), 1.0)
    """

    def __init__(self, epsilons, mean, spread, reference=None, score_name="score", name=None):
        self.epsilons = epsilons
        self.mean = mean
        self.spread = spread
        self.reference = reference
        self.score_name = score_name
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        X_test,
        y_test=None,
        epsilons: ArrayLike = (0.1, 0.3, 1.0, 3.0, 10.0),
        scoring=None,
        n_repeats: int = 5,
        reference: float | bool | None = None,
        param_name: str = "epsilon",
        name: str | None = None,
        ax=None,
        **line_options,
    ) -> "BudgetCurveDisplay":
        """Fit at each budget, several times, and draw the scores on other records.

        Every fit is a release: ``n_epsilons * n_repeats`` of them are made, and each is
        charged to the estimator's accountant, if it has one. The scores themselves are
        **not private**: they depend on the test records without noise. Draw the curve
        where those are public, or keep it to yourself.

        Parameters
        ----------
        estimator : private estimator
            Cloned, not changed.
        X, y : array-like
            The records to fit. Leave `y` out for an estimator that has no target.
        X_test, y_test : array-like
            The records to score.
        epsilons : array-like of positive floats, default=(0.1, 0.3, 1, 3, 10)
            The budgets.
        scoring : str or callable, default=None
            As everywhere in scikit-learn; None is the estimator's own `score`.
        n_repeats : int, default=5
            Fits at each budget. They differ in their noise, also with a `random_state`.
        reference : True or float, default=None
            A score to compare with, drawn as a dashed line. True fits once more with an
            infinite epsilon; an accountant is charged for that too, and a limit refuses it.
        param_name : str, default="epsilon"
            The parameter that is the budget: in a pipeline, ``"step__epsilon"``.
        name : str, default=None
            For the legend; by default, the name of the estimator's class.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        BudgetCurveDisplay
            Drawn.
        """
        budgets = _checked_budgets(epsilons)
        n_repeats = check_integer("n_repeats", n_repeats, at_least=1)
        scorer = check_scoring(estimator, scoring)
        noise_name = param_name.removesuffix("epsilon") + "random_state"
        parameters = estimator.get_params()
        if param_name not in parameters:
            raise ValueError(
                "param_name must be the name of the estimator's budget, such as 'epsilon' or "
                f"'step__epsilon'; got {param_name!r}"
            )
        noise = parameters.get(noise_name)
        if isinstance(noise, Integral):
            # One stream for all fits: the same seed would give each the same noise.
            noise = np.random.default_rng(int(noise))

        def score(epsilon: float) -> float:
            model = clone(estimator).set_params(**{param_name: epsilon})
            if noise is not None:
                model.set_params(**{noise_name: noise})
            return float(scorer(model.fit(X, y), X_test, y_test))

        scores = [[score(epsilon) for _ in range(n_repeats)] for epsilon in budgets.tolist()]
        return cls.from_results(
            budgets,
            scores,
            reference=score(np.inf) if reference is True else reference,
            score_name=_score_name(estimator, scoring),
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **line_options,
        )

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
        ax=None,
        **line_options,
    ) -> "BudgetCurveDisplay":
        """Draw scores that were computed elsewhere.

        Parameters
        ----------
        epsilons : array-like of shape (n_epsilons,)
            The budgets.
        scores : array-like of shape (n_epsilons,) or (n_epsilons, n_repeats)
            Mean scores, or all of them.
        spread : array-like of shape (n_epsilons,), default=None
            Standard deviations of the scores; computed where all scores are given.
        reference : float, default=None
            The score without privacy.
        score_name : str, default="score"
            What the vertical axis is called.
        name : str, default=None
            What the legend calls the curve.
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        BudgetCurveDisplay
            Drawn.
        """
        budgets = _checked_budgets(epsilons)
        values = check_array("scores", scores)
        if values.ndim not in (1, 2) or len(values) != len(budgets):
            raise ValueError(
                f"scores must have a row for each of the {len(budgets)} epsilons; got shape "
                f"{values.shape}"
            )
        if values.ndim == 2:
            spread = values.std(axis=1) if spread is None else spread
            values = values.mean(axis=1)
        if spread is not None:
            spread = check_array("spread", spread, at_least=0)
            if spread.shape != budgets.shape:
                raise ValueError(f"spread must have shape {budgets.shape}; got {spread.shape}")
        if reference is not None:
            reference = check_real("reference", reference)
        order = np.argsort(budgets)
        display = cls(
            budgets[order],
            values[order],
            None if spread is None else spread[order],
            reference,
            score_name,
            name,
        )
        return display.plot(ax=ax, **line_options)

    def plot(self, ax=None, **line_options) -> "BudgetCurveDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure if None.
        **line_options
            Passed on to matplotlib's `plot`.

        Returns
        -------
        BudgetCurveDisplay
            This one.
        """
        ax = axes_for(self, ax, f"{self.score_name.capitalize()} by budget")
        options = {"marker": "o", "label": self.name, **line_options}
        (self.line_,) = ax.plot(self.epsilons, self.mean, **options)
        colour = self.line_.get_color()
        if self.spread is not None:
            low, high = self.mean - self.spread, self.mean + self.spread
            ax.fill_between(self.epsilons, low, high, color=colour, alpha=0.2, linewidth=0)
        if self.reference is not None:
            ax.axhline(self.reference, color=colour, linestyle="--", label="without privacy")
        ax.set_xscale("log")
        ax.set_xticks(self.epsilons, [f"{epsilon:g}" for epsilon in self.epsilons])
        ax.set_xticks([], minor=True)
        ax.set(xlabel=r"$\varepsilon$", ylabel=self.score_name)
        ax.grid(alpha=0.3)
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return self


def _checked_budgets(epsilons: ArrayLike) -> np.ndarray:
    budgets = check_array("epsilons", np.ravel(epsilons), above=0)
    if budgets.size == 0 or not np.isfinite(budgets).all():
        raise ValueError(f"epsilons must be finite, and at least 1 of them; got {epsilons!r}")
    return budgets


def _score_name(estimator: Any, scoring: Any) -> str:
    if isinstance(scoring, str):
        return scoring.replace("_", " ")
    if scoring is not None:
        return getattr(scoring, "__name__", "score")
    return "accuracy" if is_classifier(estimator) else "score"
