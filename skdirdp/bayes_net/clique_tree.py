"""Clique trees: exact inference, and distributions fitted to noisy tables.

A family is a column and its parents, and cliques are the maximal families. The columns shared by
two adjacent cliques separate them, so sums are computed clique by clique (Lauritzen and
Spiegelhalter 1988). Tables are arrays with one axis for each column of their clique.
"""

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb, prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._messages import plural, suppress_external_warnings, warn
from .._persons import select_persons
from .._validation import check_integer, check_real
from ..accounting.worst_case import PERSON_RELATIONS
from ..base import Budget, PrivacyReport
from ..mechanisms import JointMechanism
from ..mechanisms.splitting import calibrate_gaussian, noise_for_distances, split_gaussian
from ..mechanisms.tables import ContributionBound
from ..postprocessing import Noise, NoisyTable
from ..postprocessing.estimates import Scores, draw_counts, project_counts
from ..reporting.exports import QualityReport
from ..schema import Names, Records, Schema
from .base import MIN_SCORES, BaseBayesNet, Codes, Family, count_joint

Clique = tuple[Hashable, ...]
#: One table for each clique.
Tables = list[np.ndarray]
Factor = tuple[Sequence[Hashable], np.ndarray]

#: Limit on the cells of one table, and of the tables of all cliques, so that they fit in memory.
MAX_TOTAL_CELLS = 2 * 10**7

# Margins of each number of columns whose errors are reported.
_MAX_MARGINS = 500
# Records for each cell and standard deviation of its noise that a cell needs to stand out.
_MIN_RECORDS = 3.0
# Share of other or missing values above which a column has little information.
_MOST = 0.5
# Share of one state above which a column has no information.
_NEARLY_ALL = 0.99
# Variance of numbers relative to that of the means of merged ones, above which intervals may be
# wrong. In 25 fits of 1000 records at epsilon = 0.2 and of 4000 at 0.05, it was 1.1 to 1.5 for each
# of two columns, and intervals for a slope covered in 17 and 20.
_MAX_INFLATION = 1.1
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


# Errors of margins ---------------------------------------------------------------------


def noise_deviations(
    measurements: Sequence[Measurement], nodes: Sequence[Hashable]
) -> np.ndarray | None:
    """Return the standard deviation of the noise of each cell of a margin.

    It is that of the average of all measurements of the margin. None if there is no measurement.
    """
    wanted = set(nodes)
    variances = [
        ordered_marginal(
            np.broadcast_to(np.square(each.sigma), each.values.shape), each.nodes, nodes
        )
        for each in measurements
        if wanted <= set(each.nodes)
    ]
    if not variances:
        return None
    with np.errstate(divide="ignore"):
        return np.sqrt(1 / sum(1 / variance for variance in variances))


def expected_distance(deviations: np.ndarray, n_records: float) -> float:
    """Return the expected total variation distance between a table and its noisy counts."""
    return min(1.0, float(np.sqrt(2 / np.pi) * np.sum(deviations) / (2 * n_records)))


def choose_margins(
    sizes: Mapping[Hashable, int], ways: int, max_margins: int, max_cells: int
) -> list[Clique]:
    """Return sets of columns by public sizes: all of them, or some if there are many."""
    names = list(sizes)
    if comb(len(names), ways) <= max_margins:
        chosen = list(combinations(range(len(names)), ways))
    else:
        generator = np.random.default_rng(0)
        draws = (generator.choice(len(names), ways, replace=False) for _ in range(max_margins))
        chosen = sorted({tuple(sorted(draw.tolist())) for draw in draws})
    margins = [tuple(names[i] for i in each) for each in chosen]
    return [nodes for nodes in margins if prod(sizes[name] for name in nodes) <= max_cells]


class MarginErrors(BaseBayesNet):
    """Base class of a network that reports the errors of its margins."""

    # Parameters, and attributes that `fit` sets.
    schema: Any
    states: Any
    bounds: Any
    max_family_cells: int
    max_rows: int
    n_records_: float
    sigma_: dict[str, Any]
    _released_: dict[Hashable, Any]
    _measurements_: list[Measurement]
    _column_counts_: dict[Hashable, Measurement]
    _constraints_: Sequence[Any] = ()

    @abstractmethod
    def _draw_pool(self, n_samples: int, generator: np.random.Generator) -> Any:
        """Draw records without conditions."""

    @abstractmethod
    def _weight_changes(self, pool: Any) -> tuple[Codes, np.ndarray]:
        """Return states of drawn records, and changes of their shares by weights."""

    @abstractmethod
    def marginal(self, columns: Any) -> Any:
        """Return the joint distribution of some columns."""

    @abstractmethod
    def planned_sigma(self, n_columns: int, n_unlisted: int = 0) -> dict[str, float]:
        """Return the standard deviation of the noise of a fit."""

    @abstractmethod
    def _read_records(self, X: Any) -> tuple[Records, Schema]:
        """Return the columns of X with their schema."""

    @abstractmethod
    def _encode(self, records: Records, node: Hashable) -> tuple[np.ndarray, np.ndarray]:
        """Return the state and the cell of each value of a column."""

    def marginal_error(self, columns: Any) -> float:
        """Return the standard deviation of the noise in a cell of a marginal, as a probability.

        Post-processing usually reduces the error. If no released table contains all the columns,
        the independence that the network assumes adds an unknown error.

        Parameters
        ----------
        columns : list

        Returns
        -------
        float
            Infinite if no released table has all columns.
        """
        check_is_fitted(self)
        wanted = self._check_wanted(columns)
        sizes = {name: len(states) for name, states in self.states_.items()}
        cells = np.prod([sizes[name] for name in wanted])
        errors = [
            sigma * np.sqrt(np.prod([sizes[name] for name in clique]) / cells)
            for clique, sigma in self.sigma_["cliques"].items()
            if set(wanted) <= set(clique)
        ]
        return float(min(errors, default=np.inf) / self.n_records_)

    def planned_quality(self, n_records: int) -> QualityReport:
        """Return the errors that a fit would have from noise alone, without using any data.

        Parameters
        ----------
        n_records : int
            Number of records of the table.

        Returns
        -------
        QualityReport
            For the schema, `states` and `bounds` of the estimator. Numbers and dates are assumed to
            be in bins with equally many records, and each margin to have a table of its own.

        Examples
        --------
        >>> from skdirdp import PrivateBayesNet
        >>> model = PrivateBayesNet({"sex": ["f", "m"], "age": (18, 90)}, epsilon=1.0)
        >>> model.planned_quality(1000).summary.loc[1, "expected"].round(3)
        np.float64(0.036)
        """
        n_records = check_integer("n_records", n_records, at_least=1)
        kinds, unlisted = self._declared_kinds()
        sigma = self.planned_sigma(len(kinds) + len(unlisted), len(unlisted))
        smallest = _MIN_RECORDS * max(sigma["columns"], sigma["cliques"])
        sizes = {
            name: max(1, min(n_cells, int(n_records / smallest) if smallest else n_cells))
            for name, n_cells in kinds.items()
        }
        rows = []
        for ways, step in ((1, "columns"), (2, "cliques"), (3, "cliques")):
            for nodes in self._margins(sizes, ways):
                n_cells = prod(sizes[name] for name in nodes)
                expected = expected_distance(np.full(n_cells, sigma[step]), n_records)
                rows.append((nodes, ways, n_cells, expected, np.nan, np.nan))
        found = _budget_warnings(sigma, n_records)
        found += [
            f"The values of {name!r} are found privately; how many are found, and the error of "
            "the column, is not known in advance."
            for name in unlisted
        ]
        found += [
            f"{name!r} has {kinds[name]} values or bins, and the noise leaves about {size} of them."
            for name, size in sizes.items()
            if size < kinds[name]
        ]
        return QualityReport(rows, tuple(found), n_records, sigma)

    def quality(
        self, X: Any = None, *, groups: Any = None, measure_epsilon: float | None = None
    ) -> QualityReport:
        """Return the errors of the margins of one, two and three columns of the network.

        Errors expected from noise alone need no data. With `measure_epsilon`, the distances between
        the network, under the constraints of the schema, and the records are released with noise.

        Parameters
        ----------
        X : DataFrame, or array of shape (n_samples, n_columns), default=None
            The records of the fit, or others with the same columns. Needed to measure errors.
        groups : array-like of shape (n_samples,), default=None
            As in `fit`.
        measure_epsilon : float, default=None
            Budget of the measured errors, in addition to that of the fit: a second charge to
            `accountant`, with the `delta`, `order`, `adjacency` and `max_rows` of the estimator.

        Returns
        -------
        QualityReport
        """
        check_is_fitted(self)
        if (X is None) != (measure_epsilon is None):
            raise ValueError("X and measure_epsilon must be given together, or neither of them")
        sizes = {name: len(states) for name, states in self.states_.items()}
        margins = [self._margins(sizes, ways) for ways in (1, 2, 3)]
        measured: dict[Clique, tuple[float, float]] = {}
        privacy = None
        # Post-processing, with a public seed.
        pool = self._draw_pool(0, np.random.default_rng(0)) if self._constraints_ else None
        if measure_epsilon is not None:
            change = None if pool is None else self._weight_changes(pool)
            measured, privacy = self._measure(X, groups, margins, measure_epsilon, change)
        rows = []
        for nodes in chain.from_iterable(margins):
            deviations = noise_deviations(self._measurements_, nodes)
            expected = np.nan
            if deviations is not None:
                expected = expected_distance(deviations, self.n_records_)
            n_cells = prod(sizes[name] for name in nodes)
            rows.append((nodes, len(nodes), n_cells, expected, *measured.get(nodes, (np.nan,) * 2)))
        sigma = {**self.sigma_, "cliques": max(self.sigma_["cliques"].values(), default=0.0)}
        found = _budget_warnings(sigma, self.n_records_) + self._column_warnings()
        found += [] if pool is None else pool.warnings
        rejected = 0.0 if pool is None else pool.rejected
        reports = self.privacy_, privacy
        return QualityReport(rows, tuple(found), self.n_records_, sigma, *reports, rejected)

    def _margins(self, sizes: Mapping[Hashable, int], ways: int) -> list[Clique]:
        return choose_margins(sizes, ways, _MAX_MARGINS, int(self.max_family_cells))

    def _declared_kinds(self) -> tuple[dict[Hashable, int], list[Hashable]]:
        """Return the numbers of values or bins, and the columns without public values."""
        if self.schema is None and not self.states and not self.bounds:
            raise ValueError("schema, or states and bounds, must be given to plan without data")
        given = self.schema
        if given is None:
            given = {**(self.states or {}), **(self.bounds or {})}
        schema = given if isinstance(given, Schema) else Schema(given)
        counted = {name: kind for name, kind in schema.columns.items() if kind.is_counted}
        unlisted = [name for name, kind in counted.items() if isinstance(kind, Names)]
        sizes = {
            name: max(1, kind.n_cells - kind.missing)
            for name, kind in counted.items()
            if name not in unlisted
        }
        return sizes, unlisted

    def _measure(
        self, X: Any, groups: Any, margins: Sequence[Sequence[Clique]], epsilon: float, change: Any
    ) -> tuple[dict[Clique, tuple[float, float]], PrivacyReport]:
        """Release the distance of each margin of the network from the records.

        A distance is that between counts and whole expected counts, which are released, so it is
        whole and changes by at most the change of the counts: docs/theory.md, section 17.
        """
        check_real("measure_epsilon", epsilon, above=0, allow_infinite=True)
        meter: Any = copy(self)
        meter.epsilon = epsilon
        # The seed of the fit would repeat its noise, and differences of the releases would lose it.
        meter.random_state = None
        meter.label = f"{self.label or type(self).__name__}, quality"
        budget = Budget.from_estimator(meter)
        with suppress_external_warnings(meter.epsilon != np.inf):
            records, schema = self._read_records(X)
            self._check_columns(records.names)
            if records.n_records == 0:
                raise ValueError("X must contain at least one record; got 0")
            counted = select_persons(schema, records, groups, self.max_rows)
            rows = slice(None) if counted.rows is None else counted.rows
            codes = {name: self._encode(records, name)[0][rows] for name in self.columns_}
            bound = ContributionBound().for_person(counted.unit.max_rows)
            relation = budget.adjacency
            relation = PERSON_RELATIONS[relation] if counted.unit.is_person else relation
            whole = calibrate_gaussian(budget.epsilon, budget.delta, budget.order, relation, bound)
            asked = [nodes for nodes in margins if nodes]
            parts = [
                noise_for_distances(part, len(nodes))
                for part, nodes in zip(
                    split_gaussian(whole, [1.0] * len(asked)), asked, strict=True
                )
            ]
            joint = JointMechanism.from_mechanisms([whole])
            generator = meter._charge(*joint.as_charge(), counted.unit)
            is_public = budget.has_public_size(counted.unit)
            n_records = counted.n_rows if is_public else self.n_records_
            measured = {}
            for part, group in zip(parts, asked, strict=True):
                distances = np.array([self._distance(n, codes, n_records, change) for n in group])
                if not part.is_exact:
                    distances = part.noisy(distances, generator)
                for nodes, distance in zip(group, distances.tolist(), strict=True):
                    measured[nodes] = distance / (2 * n_records), part.sigma / (2 * n_records)
            report = meter._report(
                budget, joint.parts, (), counted.unit, counted.n_rows if is_public else None
            )
        return measured, report

    def _distance(self, nodes: Clique, codes: Codes, n_records: float, change: Any = None) -> float:
        """Return the exact l1 distance between counts and rounded expected counts."""
        shape = tuple(len(self.states_[name]) for name in nodes)
        shares = self.marginal(list(nodes)).to_numpy()
        if change is not None:  # of the shares of drawn records by constraints
            drawn, weights = change
            places = np.ravel_multi_index([drawn[name] for name in nodes], shape)
            shares = shares + np.bincount(places, weights, minlength=len(shares))
        expected = np.rint(n_records * np.maximum(shares, 0.0))
        return float(np.abs(count_joint(nodes, shape, codes).ravel() - expected).sum())

    def _released_tables(self) -> tuple[list[NoisyTable], float | None]:
        # Tables without noise are weighted equally.
        variances = [
            max(float(np.mean(np.square(each.sigma))), 1e-12) for each in self._measurements_
        ]
        tables = [
            NoisyTable(each.values, Noise(variance), each.nodes)
            for each, variance in zip(self._measurements_, variances, strict=True)
        ]
        return tables, self.privacy_.n_records

    def _scores(self, released: Sequence[NoisyTable]) -> dict[Hashable, Scores]:
        found = {}
        for name, column in self._released_.items():
            means, variances = column.group_numbers()
            has_scores = np.isfinite(column.domain.numbers).sum() >= MIN_SCORES
            if has_scores and np.isfinite(means).any():
                found[name] = Scores.from_ranges(means, variances, column.group_shares)
        return found

    def _with_parameters(
        self,
        released: Sequence[NoisyTable],
        counts: Sequence[np.ndarray],
        scored: Set[Hashable],
        generator: np.random.Generator,
    ) -> "MarginErrors":
        model: Any = super()._with_parameters(released, counts, scored, generator)
        # Weights would change how much the tables vary.
        model._moments_ = None
        model._released_ = dict(self._released_)
        for name, column in self._released_.items():
            # Bins of numbers keep their shares: without shrinkage the noise would spread them.
            if column.has_grouped_categories:
                noisy = self._column_counts_[name]
                table = NoisyTable(noisy.values, Noise(float(noisy.sigma) ** 2), (name,))
                (drawn,) = draw_counts([table], self.n_records_, 1, generator)
                model._released_[name] = column.draw_shares(
                    drawn[0] / self.privacy_.unit.max_rows, generator
                )
        return model

    def _warn_of_noise(self, released: Sequence[NoisyTable], n_records: float) -> None:
        super()._warn_of_noise(released, n_records)
        scores = self._scores(released)
        merged = [
            name
            for name, column in self._released_.items()
            if column.merges_values or (name in scores and scores[name].inflation > _MAX_INFLATION)
        ]
        if merged:
            warn(
                f"the network merges many values of {', '.join(map(repr, merged))}, because few "
                "records have them or the noise hides them. Synthetic tables lack their "
                "associations with other columns, and intervals may be wrong. A larger epsilon, "
                "more records or fewer values help"
            )
        tables = [set(table.axes) for table in released]
        pairs = combinations(self.columns_, 2)
        absent = [pair for pair in pairs if not any(set(pair) <= axes for axes in tables)]
        if absent:
            first, second = absent[0]
            warn(
                f"the structure has no table of {plural(len(absent), 'pair')} of columns, such as "
                f"{first!r} and {second!r}. Intervals from the synthetic tables assume that they "
                "are independent given the columns between them, and may be wrong for their "
                "association. Require the edges that an analysis needs with constraints"
            )

    def _column_warnings(self) -> list[str]:
        """Return warnings of columns without information, from the release."""
        found = []
        children = {parent for parents in self.structure_.values() for parent in parents}
        for name, column in self._released_.items():
            shares = column.drawn_shares * column.group_shares[column.groups]
            kind = column.domain.kind
            other = len(kind.states) - 1 if getattr(kind, "other", None) is not None else None
            if other is not None and shares[other] > _MOST:
                found.append(
                    f"Most values of {name!r} are {kind.other!r} ({shares[other]:.0%}): few of its "
                    "values occur in enough records. Declare its values, or leave the column out."
                )
            elif shares[-1] > _MOST and column.can_draw[-1]:
                found.append(
                    f"Most values of {name!r} are missing ({shares[-1]:.0%}). If you did not "
                    "expect that, compare the schema with the code book."
                )
            elif len(self.states_[name]) == 1 or column.group_shares.max() > _NEARLY_ALL:
                found.append(
                    f"{name!r} carries nothing: nearly all records are in one state of the "
                    "network, because their values are equal or the noise hides the others."
                )
            elif not self.structure_[name] and name not in children and len(self.columns_) > 1:
                found.append(
                    f"{name!r} is independent of all other columns in the network: there is no "
                    "dependence, or the noise hides it."
                )
        return found


def _budget_warnings(sigma: Mapping[str, float], n_records: float) -> list[str]:
    """Return warnings of a budget that is too small, from the noise of counts."""
    if sigma["columns"] and n_records / (2 * sigma["columns"]) < _MIN_RECORDS:
        return [
            "The budget is too small to say anything: the noise hides even the shares of a column "
            "with two values. More records or a larger epsilon are needed."
        ]
    if sigma["cliques"] and n_records / (4 * sigma["cliques"]) < _MIN_RECORDS:
        return [
            "The budget is too small to say anything about dependences: the noise hides even that "
            "of two columns with two values each."
        ]
    return []
