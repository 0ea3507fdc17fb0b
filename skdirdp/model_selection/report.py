"""The report of what a search guarantees."""

from dataclasses import dataclass

from ..accounting import AllOf, RepeatedSelection
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
    run_epsilon : float, default=inf
        What was left to the fit of a run: its noise is that of this epsilon, at the delta or
        the order of the search.
    fit_epsilon : float, default=inf
        The same of the model that was published. Neither is a guarantee of anything: the
        guarantee is that of the whole search.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.model_selection import PrivateGridSearchCV
    >>> X = np.random.default_rng(0).integers(3, size=(1000, 2))
    >>> model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    >>> search = PrivateGridSearchCV(model, {"alpha": [0.5, 1, 2, 5]}).fit(X, X[:, 0] > 0)
    >>> search.privacy_.epsilon, search.privacy_.route
    (1.0, 'composition')
    >>> bool(search.privacy_.fit_epsilon < 1.0)
    True
    """

    route: str = "repetition"
    n_candidates: int = 1
    run_epsilon: float = float("inf")
    fit_epsilon: float = float("inf")

    def _means(self) -> str:
        """How the choice was made."""
        first = self.mechanisms[0][0] if self.mechanisms else None
        selection = first.parts[0] if isinstance(first, AllOf) else first
        if isinstance(selection, RepeatedSelection):
            runs = f"the best of a random number of runs, {selection.mean:g} expected"
        else:
            runs = "the best of one run of each"
        told = f"chosen from {self.n_candidates} candidates by {runs}, each with the noise of "
        told += f"epsilon {self.run_epsilon:.4g}"
        if isinstance(first, AllOf):
            told += f"; fitted again to all records with that of epsilon {self.fit_epsilon:.4g}"
        return told
