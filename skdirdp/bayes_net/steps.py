"""The steps of learning a network, as parts of one Gaussian release that was paid for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._contributions import count_cells
from ..mechanisms import GaussianMechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.splitting import noise_for_distances, split_gaussian
from ..records import sort_values
from .domains import NO_VALUE, OTHER, Categories

# Parts of the budget: for each column's own counts, for the scores of pairs, for the tables
# of cliques. Chosen on one data set (adult), as the next number.
_PARTS = (0.25, 0.05, 0.70)
# A clique's part grows with its cells to this power, at which errors in l1 norm add up to least.
_PART_PER_CELL = 2 / 3


Released = tuple[np.ndarray, float]


@dataclass(frozen=True)
class Unlisted:
    """A column of values that are not declared, in the rows that are counted. Exact.

    Attributes
    ----------
    codes : ndarray of int
    distinct : list
        The values, each of which occurs.
    is_categorical : bool
        Whether values come back as a pandas categorical.
    """

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
        columns, pairs, cliques = split_gaussian(whole, _PARTS)
        self.column = split_gaussian(columns, [1.0] * n_columns)[0]
        self.pair = noise_for_distances(pairs, max(1, n_columns * (n_columns - 1) // 2))
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
        parts = split_gaussian(self._cliques, weights)
        released = [
            (self._noisy(part, each), part.sigma) for part, each in zip(parts, counts, strict=True)
        ]
        return released[: len(cliques)], released[len(cliques) :]


def found_categories(
    mechanism: SelectionMechanism, column: Unlisted, generator: np.random.Generator | None
) -> Categories:
    """The names of a column that enough records hold, and one for all others."""
    named = column.codes[column.codes >= 0]
    counts = count_cells(named, len(column.distinct))
    # Noise on a count of 0 would publish a name that no counted record holds. Not an assert
    # statement, which `python -O` leaves out.
    if not counts.all():
        raise AssertionError("a name that no counted record holds was about to be published")
    # One count of no name, so that there is a table in any case.
    published = mechanism.draw(np.append(counts, 0.0), generator)[:-1]
    # In a fixed order: that of the data would tell of the data.
    found = [column.distinct[i] for i in np.flatnonzero(published > 0)]
    # A text that stands for missing values cannot be a state of its own.
    names = sort_values(name for name in found if name != NO_VALUE)
    other = OTHER
    while other in names:
        other = f"({other})"
    return Categories((*names, other), has_other=True, is_categorical=column.is_categorical)


def total_of(counts: Sequence[np.ndarray]) -> float:
    """The number of records, as all columns together tell it best: the fewer cells, the better."""
    weights = np.array([1 / len(each) for each in counts])
    return max(1.0, float(weights @ [each.sum() for each in counts] / weights.sum()))
