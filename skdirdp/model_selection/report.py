"""The report of what a search guarantees."""

from dataclasses import dataclass

from ..accounting import RepeatedSelection
from ..base import PrivacyReport


@dataclass(frozen=True)
class SelectionReport(PrivacyReport):
    """What a search guarantees: of the chosen parameters, the model and its score together.

    Parameters
    ----------
    epsilon, delta, order, adjacency, mechanisms, not_covered
        As for `PrivacyReport`, of the whole search.
    route : {"repetition", "composition"}, default="repetition"
        How the search was paid for.
    n_candidates : int, default=1
        How many candidates there were.
    fit_epsilon : float, default=inf
        What was left to a single fit: its noise is that of this epsilon, at the delta or the
        order of the search. It is no guarantee of anything that was published.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import PrivateGridSearchCV
    >>> X = np.random.default_rng(0).integers(3, size=(1000, 2))
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    >>> search = PrivateGridSearchCV(model, {"alpha": [0.5, 1, 2, 5]}).fit(X, X[:, 0] > 0)
    >>> search.privacy_.epsilon, search.privacy_.route
    (1.0, 'repetition')
    >>> bool(search.privacy_.fit_epsilon < 1.0)
    True
    """

    route: str = "repetition"
    n_candidates: int = 1
    fit_epsilon: float = float("inf")

    def _means(self) -> str:
        """How the choice was made."""
        selection = self.mechanisms[0][0] if self.mechanisms else None
        if isinstance(selection, RepeatedSelection):
            runs = f"the best of a random number of runs, {selection.mean:g} expected, each with"
        else:
            runs = "the best of all candidates, each fitted once with"
        return (
            f"{runs} the noise of epsilon {self.fit_epsilon:.4g}, of {self.n_candidates} candidates"
        )
