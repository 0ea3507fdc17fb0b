"""The steps of learning a network, as parts of one Gaussian release that was paid for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._contributions import count_cells
from ..mechanisms import GaussianMechanism
from ..mechanisms.division import divided, for_distances
from ..mechanisms.selection import SelectionMechanism
from .columns import observed_states
from .domains import OTHER, Categories

# Parts of the budget: for each column's own counts, for the scores of pairs, for the tables
# of cliques. Chosen on one data set (adult), as the next number.
_PARTS = (0.25, 0.05, 0.70)
# A clique's part grows with its cells to this power, at which errors in l1 norm add up to least.
_PART_PER_CELL = 2 / 3


Released = tuple[np.ndarray, float]


@dataclass(frozen=True)
class Unlisted:
    """A column of values that nobody could list, numbered. Exact."""

    codes: np.ndarray
    distinct: list
    is_categorical: bool


class Steps:
    """The releases of a fit, one after the other, as parts of one that is paid for before.

    Parameters
    ----------
    whole : GaussianMechanism
        What is charged.
    n_columns : int
    max_cells : int
        The cells of a clique at most.
    """

    def __init__(self, whole: GaussianMechanism, n_columns: int, max_cells: int):
        columns, pairs, cliques = divided(whole, _PARTS)
        self.column = divided(columns, [1.0] * n_columns)[0]
        self.pair = for_distances(pairs, max(1, n_columns * (n_columns - 1) // 2))
        self._cliques = cliques
        self._generator: np.random.Generator | None = None
        self._max_cells = max_cells
        # The least part that a clique can get, beside as many of the largest, and as many columns.
        least = replace(
            cliques, sigma=cliques.sigma * np.sqrt(1 + 2 * n_columns * max_cells**_PART_PER_CELL)
        )
        for mechanism in (self.column, self.pair, least):
            mechanism.check_table(np.zeros(1))  # noise that cannot be drawn is refused now
        #: About the noise that a clique's counts will have.
        self.clique_sigma = cliques.sigma * np.sqrt(max(1, n_columns - 1))

    def start(self, generator: np.random.Generator | None) -> None:
        """Draw from here on, by a generator that is handed over once all is paid for."""
        self._generator = generator

    def _noisy(self, mechanism: GaussianMechanism, values: np.ndarray) -> np.ndarray:
        if mechanism.is_exact:
            return values
        # Not an assert statement, which `python -O` leaves out.
        if self._generator is None:
            raise AssertionError("a step was taken before it was paid for")
        return mechanism.noisy(values, self._generator)

    def release_columns(self, counts: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [self._noisy(self.column, each) for each in counts]

    def release_scores(self, scores: np.ndarray) -> np.ndarray:
        return self._noisy(self.pair, scores)

    def release_cliques(
        self, cliques: Sequence[np.ndarray], columns: Sequence[np.ndarray] = ()
    ) -> tuple[list[Released], list[Released]]:
        """Counts of cliques, and once more of some columns, with the deviations of their noise."""
        counts = [*cliques, *columns]
        weights = [min(each.size, self._max_cells) ** _PART_PER_CELL for each in counts]
        parts = divided(self._cliques, weights)
        released = [
            (self._noisy(part, each), part.sigma) for part, each in zip(parts, counts, strict=True)
        ]
        return released[: len(cliques)], released[len(cliques) :]


def found_categories(
    mechanism: SelectionMechanism, column: Unlisted, generator: np.random.Generator | None
) -> Categories:
    """The names of a column that enough records hold, and one for all others."""
    occurring = column.codes[column.codes >= 0]
    # One count of a name that no record gave, so that there is a table in any case.
    counts = np.append(count_cells(occurring, len(column.distinct)), 0.0)
    published = mechanism.draw(counts, generator)[:-1]
    found = np.flatnonzero(published > 0)
    # In an order of their own: that of the data would tell of the data.
    names = observed_states(found, column.distinct)
    other = OTHER
    while other in names:
        other = f"({other})"
    return Categories((*names, other), has_other=True, is_categorical=column.is_categorical)


def total_of(counts: Sequence[np.ndarray]) -> float:
    """The number of records, as all columns together tell it best: the fewer cells, the better."""
    weights = np.array([1 / len(each) for each in counts])
    return max(1.0, float(weights @ [each.sum() for each in counts] / weights.sum()))
