"""Clique trees: exact inference, and distributions fitted to noisy tables.

A family is a column and its parents, and cliques are the maximal families. The columns shared by
two adjacent cliques separate them, so sums are computed clique by clique (Lauritzen and
Spiegelhalter 1988). Tables are arrays with one axis for each column of their clique.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ..postprocessing.estimates import project_counts
from .base import Codes, Family, count_joint

Clique = tuple[Hashable, ...]
#: One table for each clique.
Tables = list[np.ndarray]
Factor = tuple[Sequence[Hashable], np.ndarray]

#: Limit on the cells of one table, and of the tables of all cliques, so that they fit in memory.
MAX_TOTAL_CELLS = 2 * 10**7

_MAX_HALVINGS = 40
_STEP_GROWTH = 1.2
_TOLERANCE = 1e-7  # relative decrease of the loss below which the descent stops


@dataclass(frozen=True)
class CliqueTree:
    """Tree of cliques.

    It has the index of each clique's parent (-1 for the root) and the number of states of each
    column. Each clique shares its separator with its parent, which precedes it in `cliques`.
    """

    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    sizes: Mapping[Hashable, int]

    @classmethod
    def from_parents(
        cls, parents: Mapping[Hashable, Sequence[Hashable]], sizes: Mapping[Hashable, int]
    ) -> "CliqueTree":
        """Build the tree from the parents of each column.

        Uses Prim's algorithm. If the parents of each column lie in the family of an earlier column,
        as `learn_parents` ensures, a spanning tree with the largest separators is a valid clique
        tree.
        """
        families = [frozenset((*own_parents, node)) for node, own_parents in parents.items()]
        distinct = list(dict.fromkeys(families))
        maximal = [each for each in distinct if not any(each < other for other in distinct)]
        position = {node: i for i, node in enumerate(parents)}
        order, parent_positions = [0], [-1]
        shared = [len(maximal[0] & family) for family in maximal]
        nearest = [0] * len(maximal)
        remaining = set(range(1, len(maximal)))
        while remaining:
            new = min(remaining, key=lambda i: (-shared[i], i))
            parent_positions.append(order.index(nearest[new]))
            order.append(new)
            remaining.remove(new)
            for i in remaining:
                common = len(maximal[new] & maximal[i])
                if common > shared[i]:
                    shared[i], nearest[i] = common, new
        cliques = tuple(tuple(sorted(maximal[i], key=position.__getitem__)) for i in order)
        return cls(cliques, tuple(parent_positions), dict(sizes))

    def shape(self, nodes: Sequence[Hashable]) -> tuple[int, ...]:
        return tuple(self.sizes[node] for node in nodes)

    def count(self, codes: Codes) -> dict[Clique, np.ndarray]:
        """Return the exact counts of each clique."""
        return {clique: count_joint(clique, self.shape(clique), codes) for clique in self.cliques}

    @cached_property
    def _cliques_with(self) -> dict[Hashable, set[int]]:
        """Positions of the cliques that contain each column."""
        positions: dict[Hashable, set[int]] = {node: set() for node in self.sizes}
        for i, clique in enumerate(self.cliques):
            for node in clique:
                positions[node].add(i)
        return positions

    def find_clique(self, nodes: Sequence[Hashable]) -> int | None:
        """Return the position of the smallest clique that contains all nodes, or None."""
        candidates = set.intersection(*(self._cliques_with[node] for node in nodes))
        size = {i: (prod(self.shape(self.cliques[i])), i) for i in candidates}
        return min(candidates, key=size.__getitem__, default=None)

    def get_clique(self, nodes: Sequence[Hashable]) -> int:
        """Return the index of the smallest clique that contains all nodes; there must be one."""
        index = self.find_clique(nodes)
        assert index is not None
        return index

    @cached_property
    def _separators(self) -> list[tuple["Projection", "Projection"]]:
        """Projections of each clique except the root, and of its parent, onto their separator."""
        projections = []
        for clique, parent_index in zip(self.cliques[1:], self.parents[1:], strict=True):
            parent = self.cliques[parent_index]
            separator = [node for node in clique if node in parent]
            projections.append((Projection(clique, separator), Projection(parent, separator)))
        return projections

    def calibrate(self, potentials: Tables) -> Tables:
        """Return the clique marginals of a distribution.

        The distribution is proportional to the product of the potentials. The marginals are NaN if
        this product is zero everywhere.
        """
        beliefs = [table / table.max() for table in potentials]
        for i in range(len(beliefs) - 1, 0, -1):
            parent_index, (own, parent) = self.parents[i], self._separators[i - 1]
            message = own.sum(beliefs[i])
            belief = beliefs[parent_index] * parent.expand(message / message.max())
            beliefs[parent_index] = belief / belief.max()
        beliefs[0] = beliefs[0] / beliefs[0].sum()
        for i in range(1, len(beliefs)):
            parent_index, (own, parent) = self.parents[i], self._separators[i - 1]
            target, current = parent.sum(beliefs[parent_index]), own.sum(beliefs[i])
            factor = np.divide(target, current, out=np.zeros(target.shape), where=current > 0)
            beliefs[i] = beliefs[i] * own.expand(factor)
        return beliefs

    def conditionals(self, tables: Tables) -> Tables:
        """Return potentials whose calibrated tables are the given ones if these are consistent."""
        result = [tables[0] / tables[0].sum()]
        for table, (own, _) in zip(tables[1:], self._separators, strict=True):
            sums = own.expand(own.sum(table))
            result.append(np.divide(table, sums, out=np.zeros(table.shape), where=sums > 0))
        return result

    def family_marginal(self, beliefs: Tables, family: Family) -> np.ndarray:
        """Return the joint probabilities of a family; rows are configurations of the parents."""
        nodes = (*family.parents, family.node)
        i = self.get_clique(nodes)
        table = ordered_marginal(beliefs[i], self.cliques[i], nodes)
        return table.reshape(family.n_rows, family.n_states)


class Projection:
    """Projection of a clique's table onto some of its columns, and the reverse broadcast.

    Axes are computed once, because fitting repeats the same few sums many times.
    """

    def __init__(self, clique: Sequence[Hashable], nodes: Sequence[Hashable]):
        self._summed = tuple(i for i, node in enumerate(clique) if node not in nodes)
        # Indexing with None adds an axis of length 1.
        self._axes = tuple(slice(None) if node in nodes else None for node in clique)

    def sum(self, table: np.ndarray) -> np.ndarray:
        return table.sum(axis=self._summed) if self._summed else table

    def expand(self, table: np.ndarray) -> np.ndarray:
        return table[self._axes] if self._summed else table


def ordered_marginal(
    table: np.ndarray, clique: Sequence[Hashable], nodes: Sequence[Hashable]
) -> np.ndarray:
    """Return the marginal of some columns, with axes in the order of `nodes`."""
    within = [node for node in clique if node in nodes]
    return np.transpose(Projection(clique, within).sum(table), [within.index(n) for n in nodes])


def _expand_to(
    table: np.ndarray, nodes: Sequence[Hashable], clique: Sequence[Hashable]
) -> np.ndarray:
    """Expand a table of some columns of a clique to one axis for each column of the clique."""
    within = [node for node in clique if node in nodes]
    return Projection(clique, within).expand(ordered_marginal(table, nodes, within))


def clique_potentials(
    families: Mapping[Hashable, Family],
    probabilities: Mapping[Hashable, np.ndarray],
    evidence: Mapping[Hashable, np.ndarray] | None = None,
) -> tuple[CliqueTree, Tables]:
    """Return the clique tree of a network, and the product of the factors of each clique.

    Factors are the conditional tables and, if given, the weights of the states of some columns.
    """
    tree = CliqueTree.from_parents(
        {node: family.parents for node, family in families.items()},
        {node: family.n_states for node, family in families.items()},
    )
    factors = [
        ((*family.parents, node), probabilities[node].reshape(*family.parent_states, -1))
        for node, family in families.items()
    ]
    factors += [((node,), weights) for node, weights in (evidence or {}).items()]
    products = [np.ones(tree.shape(clique)) for clique in tree.cliques]
    for nodes, table in factors:
        i = tree.get_clique(nodes)
        products[i] *= _expand_to(table, nodes, tree.cliques[i])
    return tree, products


def eliminate_variables(factors: Sequence[Factor], wanted: Sequence[Hashable]) -> np.ndarray:
    """Return the joint distribution of the wanted columns by variable elimination."""
    sizes = {n: s for nodes, table in factors for n, s in zip(nodes, table.shape, strict=True)}

    def joint_scope(name: Hashable) -> list[Hashable]:
        joined = [nodes for nodes, _ in factors if name in nodes]
        return list(dict.fromkeys(node for nodes in joined for node in nodes))

    remaining = [name for name in sizes if name not in wanted]
    while remaining:
        name = min(remaining, key=lambda each: prod(sizes[n] for n in joint_scope(each)))
        nodes = joint_scope(name)
        product = _multiply([each for each in factors if name in each[0]], nodes, sizes)
        kept = [node for node in nodes if node != name]
        factors = [each for each in factors if name not in each[0]]
        factors.append((kept, Projection(nodes, kept).sum(product)))
        remaining.remove(name)
    table = _multiply(factors, wanted, sizes)
    return table / table.sum()


def _multiply(
    factors: Sequence[Factor], nodes: Sequence[Hashable], sizes: Mapping[Hashable, int]
) -> np.ndarray:
    """Return the product of factors as a table of the given columns."""
    if prod(sizes[node] for node in nodes) > MAX_TOTAL_CELLS:
        raise ValueError(f"too many columns: a table would have more than {MAX_TOTAL_CELLS} cells")
    table = np.ones([sizes[node] for node in nodes])
    for each, factor in factors:
        table = table * _expand_to(factor, each, nodes)
    return table


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of some columns, with one standard deviation for all cells or one per cell."""

    nodes: Clique
    values: np.ndarray
    sigma: np.ndarray | float

    @property
    def is_exact(self) -> bool:
        return not np.any(self.sigma)

    def combine(self, other: "Measurement") -> "Measurement":
        """Return the inverse-variance average with a measurement of the same columns."""
        if self.is_exact or other.is_exact:
            return self if self.is_exact else other
        first, second = self.sigma**-2.0, other.sigma**-2.0
        values = (first * self.values + second * other.values) / (first + second)
        return Measurement(self.nodes, values, (first + second) ** -0.5)


def combine_measurements(
    cliques: Mapping[Clique, Measurement], columns: Sequence[Measurement], total: float
) -> list[Measurement]:
    """Combine measurements of cliques and columns, and shrink the column counts."""
    measured = dict(cliques)
    for column in columns:
        if column.nodes in cliques:
            column = column.combine(cliques[column.nodes])
        sigma = float(np.sqrt(np.mean(np.square(column.sigma))))
        values = shrink_counts(column.values, total, sigma)
        measured[column.nodes] = Measurement(column.nodes, values, column.sigma)
    return list(measured.values())


class _Loss:
    """Half the sum of squared errors, weighted by precision relative to the largest."""

    def __init__(self, tree: CliqueTree, measurements: Sequence[Measurement], total: float):
        noisy = [each for each in measurements if not each.is_exact]
        min_sigma = min((float(np.min(each.sigma)) for each in noisy), default=1.0)
        self._terms = []
        for each in measurements:
            i = tree.get_clique(each.nodes)
            # Exact measurements have the same weight as the least noisy ones.
            weight = 1.0 if each.is_exact else (min_sigma / each.sigma) ** 2
            projection = Projection(tree.cliques[i], each.nodes)
            self._terms.append((i, projection, each.values / total, weight))
        self.max_curvature = sum(float(np.max(weight)) for *_, weight in self._terms)

    def __call__(self, beliefs: Tables) -> tuple[float, Tables]:
        """Return the loss and its gradient."""
        loss, gradient = 0.0, [np.zeros(table.shape) for table in beliefs]
        for i, projection, values, weight in self._terms:
            error = projection.sum(beliefs[i]) - values
            scaled = weight * error
            loss += float(np.vdot(scaled, error)) / 2
            gradient[i] += projection.expand(scaled)
        return loss, gradient


def fit_tables(
    tree: CliqueTree, measurements: Sequence[Measurement], total: float, max_steps: int
) -> Tables:
    """Return the clique marginals of the distribution that fits measured counts best.

    Minimises the weighted squared error by mirror descent (McKenna, Sheldon and Miklau 2019), which
    keeps all tables positive and consistent. Every clique must be measured, and the columns of
    every other measurement must lie within one clique. `total` is the number of records.
    """
    loss = _Loss(tree, measurements, total)
    measured = {each.nodes: each for each in measurements}
    start = [_initial_table(measured[clique], total) for clique in tree.cliques]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        logs = [np.log(table) for table in tree.conditionals(start)]
        beliefs = tree.calibrate([np.exp(table) for table in logs])
        value, gradient = loss(beliefs)
        step = 1.0 / loss.max_curvature
        for _ in range(max_steps):
            for _ in range(_MAX_HALVINGS):
                moved = [table - step * slope for table, slope in zip(logs, gradient, strict=True)]
                candidate = tree.calibrate([np.exp(table - table.max()) for table in moved])
                new_value, new_gradient = loss(candidate)
                expected = sum(
                    float(np.vdot(slope, before - after))
                    for slope, before, after in zip(gradient, beliefs, candidate, strict=True)
                )
                if value - new_value >= expected / 2:  # also false for NaN
                    break
                step /= 2
            else:
                break
            decrease = value - new_value
            logs, beliefs, value, gradient = moved, candidate, new_value, new_gradient
            step *= _STEP_GROWTH
            if decrease <= _TOLERANCE * value:
                break
    return beliefs


def _initial_table(measurement: Measurement, total: float) -> np.ndarray:
    """Return a positive table with sum 1 near the measured one."""
    values = measurement.values
    near = project_counts(values.ravel(), total).reshape(values.shape)
    # Mirror descent never leaves zero, so no cell may start there.
    near += np.maximum(0.01 * measurement.sigma, 1e-6 * total / values.size)
    return near / near.sum()


def clipped_probabilities(values: np.ndarray) -> np.ndarray:
    """Return noisy counts as probabilities: negative counts become 0; uniform if all are 0."""
    positive = np.maximum(values, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(values.shape, 1 / values.size)


def shrink_counts(values: np.ndarray, total: float, sigma: float) -> np.ndarray:
    """Shrink noisy counts towards equal counts.

    A variant of the positive-part James-Stein estimator. The estimated signal is bounded by its
    largest possible value, which is attained if all records are in one cell.
    """
    n = len(values)
    noise = (n - 1) * sigma**2
    if noise == 0:
        return values
    excess = values - total / n
    signal = np.clip(excess @ excess - noise, 0.0, total**2 * (1 - 1 / n))
    return total / n + signal / (signal + noise) * excess
