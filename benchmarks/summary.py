"""Figure of the main result: scores of private classifiers against epsilon."""

from pathlib import Path

import pandas as pd

from . import figures

NAME = "summary"
_NEEDED = "table-classifier"
#: Methods with the adjacency that they support, and their style.
_METHODS = {
    ("PrivateTableClassifier", "add_remove"): {"color": "#0b61a4", "marker": "o", "linewidth": 2.2},
    ("DirichletCategoricalNB", "add_remove"): {"color": "#6fb1e0", "marker": "o"},
    ("DP-EBM", "add_remove"): {"color": "#c1440e", "marker": "s"},
    ("diffprivlib LR", "replace"): {"color": "#8d6e63", "marker": "v"},
}
_WITHOUT_PRIVACY = {"LR, no privacy": "--", "boosting, no privacy": ":"}


def write_summary(out: Path, draw: bool = True) -> bool:
    """Draw the figure if the results exist; return whether they do."""
    if not (out / f"{_NEEDED}.csv").exists():
        return False
    if draw:
        results = pd.read_csv(out / f"{_NEEDED}.csv")
        means = _means(results)
        n_tables = results.loc[results["classes"] == 2, "data"].nunique()
        figure, axes = figures.panels(2, columns=2, width=4.6, height=3.6)
        _draw(axes[0], means["auc"], f"AUC, mean of {n_tables} tables")
        _draw(axes[1], means["log_loss"], f"log loss, mean of {n_tables} tables")
        axes[0].set_ylim(0.5, 0.86)
        axes[1].set_ylim(0.3, 0.75)  # the log loss of diffprivlib's model is above it up to ε = 3
        figures.legend_below(figure, axes, columns=3)
        figures.save(figure, out, NAME)
    return True


def _means(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over tables with two classes, of the means over splits."""
    binary = results[results["classes"] == 2].fillna({"adjacency": ""})
    keys = ["method", "adjacency", "epsilon"]
    splits = binary.groupby([*keys, "data"])[["auc", "log_loss"]].mean()
    return splits.groupby(keys).mean()


def _draw(axis, means: pd.Series, title: str) -> None:
    for (method, adjacency), style in _METHODS.items():
        if (method, adjacency) in means.index:
            line = means[method, adjacency]
            axis.plot(line.index, line, label=method, **{"markersize": 4, **style})
    for method, linestyle in _WITHOUT_PRIVACY.items():
        if method in means.index:
            score = means[method].iloc[0]
            axis.axhline(score, color="black", linestyle=linestyle, linewidth=1, label=method)
    axis.set(xscale="log", xlabel="ε at δ = 1e-5")
    axis.set_title(title, fontsize=11)
    axis.grid(alpha=0.3)
