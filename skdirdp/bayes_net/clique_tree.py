"""Trees of cliques: distributions of all columns that are known by the tables of a few.

A family is a column with its parents, which all lie in the family of an earlier column. The
largest of these sets, the cliques, form a tree in which what two neighbours share separates
them, so that sums over all columns are sums over one clique after another (Lauritzen and
Spiegelhalter 1988). Tables are arrays with an axis for each column of their clique.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

Clique = tuple[Hashable, ...]
#: A table for each clique.
Tables = list[np.ndarray]

_HALVINGS = 40
_GROWTH = 1.2  # of a step that was taken
_SETTLED = 1e-7  # of the loss: what a step gains where it is not worth a further one


@dataclass(frozen=True)
class CliqueTree:
    """Cliques in an order in which each shares its separator with an earlier one.

    Attributes
    ----------
    cliques : tuple of cliques
    above : tuple of int
        The position of the clique that each hangs from; the first hangs from none.
    sizes : dict of int
        How many states each column has.
    """

    cliques: tuple[Clique, ...]
    above: tuple[int, ...]
    sizes: Mapping[Hashable, int]

    @classmethod
    def of(
        cls, parents: Mapping[Hashable, Sequence[Hashable]], sizes: Mapping[Hashable, int]
    ) -> "CliqueTree":
        """The tree of the families' largest sets, joined by as large separators as there are."""
        sets = [frozenset((*above, node)) for node, above in parents.items()]
        largest = [
            each
            for i, each in enumerate(sets)
            if not any(each < other for other in sets) and each not in sets[:i]
        ]
        position = {node: i for i, node in enumerate(parents)}
        cliques = [tuple(sorted(each, key=position.__getitem__)) for each in largest]
        # Prim's algorithm: of all spanning trees, one with the largest separators is valid.
        order, above = [0], [-1]
        shared = [len(largest[0] & each) for each in largest]
        nearest = [0] * len(largest)
        waiting = set(range(1, len(largest)))
        while waiting:
            new = min(waiting, key=lambda i: (-shared[i], i))
            above.append(order.index(nearest[new]))
            order.append(new)
            waiting.remove(new)
            for i in waiting:
                if len(largest[new] & largest[i]) > shared[i]:
                    shared[i], nearest[i] = len(largest[new] & largest[i]), new
        return cls(tuple(cliques[i] for i in order), tuple(above), dict(sizes))

    def shape(self, clique: Clique) -> tuple[int, ...]:
        return tuple(self.sizes[node] for node in clique)

    def n_cells(self, clique: Clique) -> int:
        return prod(self.shape(clique))

    def home(self, nodes: Sequence[Hashable]) -> int | None:
        """The smallest clique that holds all of the nodes, or None."""
        holding = [i for i, clique in enumerate(self.cliques) if set(nodes) <= set(clique)]
        return min(holding, key=lambda i: self.n_cells(self.cliques[i]), default=None)

    @cached_property
    def _separators(self) -> list[Clique]:
        return [
            tuple(node for node in clique if above >= 0 and node in self.cliques[above])
            for clique, above in zip(self.cliques, self.above, strict=True)
        ]

    def calibrate(self, potentials: Tables) -> Tables:
        """The tables of probabilities whose joint distribution is the potentials' product.

        Parameters
        ----------
        potentials : list of ndarray
            One for each clique, not negative.

        Returns
        -------
        list of ndarray
            Each adds up to 1; all to nan where the product is 0 everywhere.
        """
        beliefs = [table / table.max() for table in potentials]
        for i in range(len(beliefs) - 1, 0, -1):
            above, separator = self.above[i], self._separators[i]
            message = margin(beliefs[i], self.cliques[i], separator)
            beliefs[above] = beliefs[above] * spread(
                message / message.max(), separator, self.cliques[above]
            )
            beliefs[above] /= beliefs[above].max()
        beliefs[0] = beliefs[0] / beliefs[0].sum()
        for i in range(1, len(beliefs)):
            above, separator = self.above[i], self._separators[i]
            wanted = margin(beliefs[above], self.cliques[above], separator)
            own = margin(beliefs[i], self.cliques[i], separator)
            factor = np.divide(wanted, own, out=np.zeros_like(wanted), where=own > 0)
            beliefs[i] = beliefs[i] * spread(factor, separator, self.cliques[i])
        return beliefs

    def conditionals(self, tables: Tables) -> Tables:
        """Each table divided by its separator's margin: potentials, from which they come back."""
        result = []
        for table, clique, separator in zip(tables, self.cliques, self._separators, strict=True):
            sums = spread(margin(table, clique, separator), separator, clique)
            result.append(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0))
        return result


def margin(table: np.ndarray, clique: Clique, nodes: Sequence[Hashable]) -> np.ndarray:
    """The sums over all other columns; `nodes` are in the clique's order."""
    axes = tuple(i for i, node in enumerate(clique) if node not in nodes)
    return table.sum(axis=axes) if axes else table


def spread(table: np.ndarray, nodes: Sequence[Hashable], clique: Clique) -> np.ndarray:
    """A table of some columns with axes of length 1 for the others."""
    waiting = iter(table.shape)
    return table.reshape([next(waiting) if node in nodes else 1 for node in clique])


@dataclass(frozen=True)
class Measurement:
    """A noisy table of some columns, and the deviation of its noise, of all cells or of each."""

    nodes: Clique
    values: np.ndarray
    sigma: np.ndarray | float

    @property
    def is_exact(self) -> bool:
        return not np.any(self.sigma)

    def __and__(self, other: "Measurement") -> "Measurement":
        """Both of the same columns, as one."""
        if self.is_exact or other.is_exact:
            return self if self.is_exact else other
        first, second = self.sigma**-2.0, other.sigma**-2.0
        values = (first * self.values + second * other.values) / (first + second)
        return Measurement(self.nodes, values, (first + second) ** -0.5)

    def shrunk(self, total: float) -> "Measurement":
        """The same with its counts shrunk towards equal ones, as `shrunk` does."""
        sigma = float(np.sqrt(np.mean(np.square(self.sigma))))
        return Measurement(self.nodes, shrunk(self.values, total, sigma), self.sigma)


def with_columns(
    cliques: Mapping[Clique, Measurement], columns: Sequence[Measurement], total: float
) -> list[Measurement]:
    """What was measured of cliques, and of columns alone, whose counts are shrunk."""
    measured = dict(cliques)
    for alone in columns:
        both = alone & cliques[alone.nodes] if alone.nodes in cliques else alone
        measured[alone.nodes] = both.shrunk(total)
    return list(measured.values())


class _Loss:
    """Half the sum of squared errors in deviations, of tables within the cliques."""

    def __init__(self, tree: CliqueTree, measurements: Sequence[Measurement], total: float):
        self._tree, self._total = tree, total
        noisy = [each for each in measurements if not each.is_exact]
        least = min((float(np.min(each.sigma)) for each in noisy), default=1.0)
        self._terms = []
        for each in measurements:
            home = tree.home(each.nodes)
            assert home is not None
            # Without noise anywhere all count the same.
            weight = 1.0 if each.is_exact else (least / each.sigma) ** 2
            self._terms.append((home, each.nodes, each.values / total, weight))
        self.steepest = sum(float(np.max(weight)) for *_, weight in self._terms)

    def __call__(self, beliefs: Tables) -> tuple[float, Tables]:
        loss, gradient = 0.0, [np.zeros_like(table) for table in beliefs]
        for home, nodes, values, weight in self._terms:
            clique = self._tree.cliques[home]
            error = margin(beliefs[home], clique, nodes) - values
            loss += float(np.vdot(weight * error, error)) / 2
            gradient[home] += spread(weight * error, nodes, clique)
        return loss, gradient


def fit_tables(
    tree: CliqueTree, measurements: Sequence[Measurement], total: float, steps: int
) -> Tables:
    """The consistent distributions nearest to what was measured, in deviations of the noise.

    Every clique is to be measured, and other measurements to lie within one. By mirror
    descent (McKenna, Sheldon and Miklau 2019), which keeps all tables positive and
    consistent, from the tables made consistent one after the other.

    Parameters
    ----------
    tree : CliqueTree
    measurements : sequence of Measurement
        Of counts.
    total : float
        The number of records.
    steps : int
        At most.

    Returns
    -------
    list of ndarray
        Probabilities, one table for each clique.
    """
    loss = _Loss(tree, measurements, total)
    measured = {each.nodes: each for each in measurements}
    start = [_started(measured[clique], total) for clique in tree.cliques]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        logs = [np.log(table) for table in tree.conditionals(start)]
        beliefs = tree.calibrate([np.exp(table) for table in logs])
        value, gradient = loss(beliefs)
        step = 1.0 / loss.steepest
        for _ in range(steps):
            for _ in range(_HALVINGS):
                moved = [table - step * slope for table, slope in zip(logs, gradient, strict=True)]
                found = tree.calibrate([np.exp(table - table.max()) for table in moved])
                new_value, new_gradient = loss(found)
                expected = sum(
                    float(np.vdot(slope, before - after))
                    for slope, before, after in zip(gradient, beliefs, found, strict=True)
                )
                if value - new_value >= expected / 2:  # false for nan, too
                    break
                step /= 2
            else:
                break
            gain = value - new_value
            logs, beliefs, value, gradient = moved, found, new_value, new_gradient
            step *= _GROWTH
            if gain <= _SETTLED * value:
                break
    return beliefs


def clipped(values: np.ndarray) -> np.ndarray:
    """Noisy counts as probabilities, those below 0 as 0; equal ones where nothing is left."""
    positive = np.maximum(values, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(values.shape, 1 / values.size)


def _started(measurement: Measurement, total: float) -> np.ndarray:
    """A positive table near to the measured one, with its own total of 1."""
    values = measurement.values
    near = nearest_counts(values.ravel(), total).reshape(values.shape)
    # A little in every cell: what is 0 would stay so.
    near += np.maximum(0.01 * measurement.sigma, 1e-6 * total / values.size)
    return near / near.sum()


def shrunk(values: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Noisy counts, nearer to equal ones the less they differ from them by more than noise.

    The positive part of the estimator of James and Stein (1961), which knows that counts of a
    total cannot differ more from equal ones than if all were one. Where noise drowns all it
    gives equal counts, and where it does not, hardly changes anything.
    """
    n = len(values)
    noise = (n - 1) * sigma**2
    if noise == 0:
        return values
    excess = values - total / n
    signal = np.clip(excess @ excess - noise, 0.0, total**2 * (1 - 1 / n))
    return total / n + signal / (signal + noise) * excess


def nearest_counts(values: np.ndarray, total: float) -> np.ndarray:
    """The non-negative numbers of a total that are nearest to the given ones."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(values - excess[last], 0.0)
