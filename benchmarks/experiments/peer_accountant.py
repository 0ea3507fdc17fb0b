"""Totals of accountants after a grid search."""

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV

from skdirdp import DirichletCategoricalNB, PrivacyAccountant

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..peers.environment import ask, environment
from ..problems import linear, problem
from .end_to_end import DELTA, N_BINS, PEER

GRID = (0.1, 0.3, 1.0)
FOLDS = 5


def our_accountant(X: np.ndarray, y: np.ndarray) -> list[Row]:
    """Return the totals of our accountant after a grid search, and after the same fits."""
    search_accountant, fits_accountant = PrivacyAccountant(), PrivacyAccountant()
    model = DirichletCategoricalNB(
        classes=range(2), n_categories=N_BINS, random_state=0, accountant=search_accountant
    )
    # The public number of records, so that a fit costs the same on a fold as on the whole.
    model.set_params(n_samples=len(X))
    search = GridSearchCV(model, {"epsilon": GRID}, cv=FOLDS).fit(X, y)
    for epsilon in (*GRID * FOLDS, search.best_params_["epsilon"]):
        model.set_params(epsilon=epsilon, accountant=fits_accountant).fit(X, y)
    return [
        {"way": way, "fits": len(each), "epsilon": each.total(DELTA)}
        for way, each in (("GridSearchCV", search_accountant), ("one by one", fits_accountant))
    ]


class PeerAccountant(Experiment):
    name = "peer-accountant"
    title = "Totals of accountants after a grid search"
    reproduces = "sixteen private fits by GridSearchCV, and the same fits one by one"

    def tasks(self, settings: Settings) -> list[Row]:
        with_peer = environment(create=not settings.quick) is not None
        return [{"library": name} for name in ("skdirdp", *([PEER] if with_peer else []))]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        whole = problem("breast_cancer", None)
        X = linear(whole)
        if task["library"] == "skdirdp":
            return our_accountant((N_BINS * X).astype(int).clip(0, N_BINS - 1), whole.y)
        folder = environment(create=False)
        return ask(folder, "accountant", X=X, y=whole.y, epsilons=GRID, folds=FOLDS, delta=DELTA)

    def figure(self, results: pd.DataFrame):
        figure, (axis,) = figures.panels(1, width=6.5, height=2.6)
        shown = results.iloc[::-1]
        colours = shown["way"].map({"GridSearchCV": "#0b61a4", "one by one": "0.7"})
        labels = shown["library"] + ", " + shown["way"]
        bars = axis.barh(labels, shown["epsilon"], color=colours)
        axis.bar_label(bars, fmt="%.3g", padding=3)
        axis.margins(x=0.12)
        axis.set_xlabel(f"ε that the accountant reports, δ = {DELTA:g}")
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        return results.rename(columns={"way": "fits made by", "epsilon": "ε reported"})

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            f"Budgets {', '.join(map(str, GRID))} with {FOLDS} folds, and the best once more on "
            "all records. `GridSearchCV` clones the model with its accountant; clones of our "
            "accountant use the same ledger. diffprivlib's totals use its advanced composition."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        totals = results.set_index(["library", "way"])["epsilon"]
        fits = results.set_index(["library", "way"])["fits"]
        claims = [
            Claim(
                "skdirdp",
                "A grid search is charged as the same fits one by one",
                bool(np.isclose(*totals["skdirdp"])) and fits["skdirdp"].nunique() == 1,
                f"{totals['skdirdp', 'GridSearchCV']:.4f} and "
                f"{totals['skdirdp', 'one by one']:.4f}, {fits['skdirdp', 'GridSearchCV']} fits",
            )
        ]
        if PEER in totals:
            claims.append(
                Claim(
                    "skdirdp",
                    "diffprivlib's BudgetAccountant reports 0 after a GridSearchCV of private fits",
                    bool(totals[PEER, "GridSearchCV"] == 0),
                    f"{totals[PEER, 'GridSearchCV']:g} after {fits[PEER, 'GridSearchCV']} fits; "
                    f"one by one it reports {totals[PEER, 'one by one']:.3g}",
                )
            )
        return claims
