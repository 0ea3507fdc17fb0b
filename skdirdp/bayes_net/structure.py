"""Structures of networks: given, constrained, or learnt from released scores."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from .._contributions import UNWEIGHTED, Weights, count_cells
from .._validation import are_hashable

#: Parents of each node; every node stands after its parents.
Parents = dict[Hashable, tuple[Hashable, ...]]
#: State codes of each column.
Codes = Mapping[Hashable, np.ndarray]


@dataclass(frozen=True)
class Family:
    """A node and its parents: a table with one row for each configuration of the parents.

    Rows are in the order in which `itertools.product` lists the parents' states.
    """

    node: Hashable
    parents: tuple[Hashable, ...]
    n_states: int
    parent_states: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return prod(self.parent_states)

    @property
    def n_cells(self) -> int:
        return self.n_rows * self.n_states

    def row_numbers(self, codes: Codes) -> np.ndarray:
        """Return the row of the table of each record."""
        if not self.parents:
            return np.zeros(len(codes[self.node]), dtype=np.intp)
        rows = codes[self.parents[0]]
        for parent, size in zip(self.parents[1:], self.parent_states[1:], strict=True):
            rows = rows * size + codes[parent]
        return rows

    def count(self, codes: Codes, weights: Weights = UNWEIGHTED) -> np.ndarray:
        """Return the number of records in each cell; each record is in one."""
        cells = codes[self.node]
        if self.parents:
            cells = self.row_numbers(codes) * self.n_states + cells
        return count_cells(cells, self.n_cells, weights).reshape(self.n_rows, self.n_states)

    def stride(self, parent: Hashable) -> int:
        """Return the distance between the rows of successive states of a parent."""
        return prod(self.parent_states[self.parents.index(parent) + 1 :])


# Given structures ------------------------------------------------------------------------


def parse_structure(structure: Any) -> Parents:
    """Return the parents of each node, in topological order.

    `structure` is a mapping ``{child: parents}``; an iterable of pairs ``(parent, child)``
    and, for nodes without edges, ``(node,)``; or an object with `nodes` and `edges`, such as
    a pgmpy DAG.

    Examples
    --------
    >>> from skdirdp.bayes_net.structure import parse_structure
    >>> parse_structure([("rain", "grass"), ("sprinkler", "grass"), ("moon",)])
    {'rain': (), 'sprinkler': (), 'moon': (), 'grass': ('rain', 'sprinkler')}
    """
    if isinstance(structure, Mapping):
        parents = _parents_from_mapping(structure)
    elif hasattr(structure, "nodes") and hasattr(structure, "edges"):
        edges = [(edge[0], edge[1]) for edge in structure.edges]
        parents = _parents_from_edges([*((node,) for node in structure.nodes), *edges])
    elif isinstance(structure, Iterable) and not isinstance(structure, str | bytes):
        parents = _parents_from_edges(structure)
    else:
        raise TypeError(
            "structure must be edges (parent, child), a {child: parents} dict, or a pgmpy DAG or "
            f"network; got {type(structure).__name__}"
        )
    if not parents:
        raise ValueError("structure must have at least one node; got none")
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle = " -> ".join(str(node) for node in error.args[1])
        raise ValueError(f"structure must have no cycle; got {cycle}") from None
    return {node: tuple(parents[node]) for node in order}


def _parents_from_mapping(structure: Mapping) -> dict[Hashable, list[Hashable]]:
    parents: dict[Hashable, list[Hashable]] = {}
    for child, given in structure.items():
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise ValueError(
                f"structure must give the parents of each node as a list; for {child!r} it gives "
                f"{type(given).__name__}"
            )
        parents[child] = list(given)
        _check_hashable(parents[child])
        if len(set(parents[child])) < len(parents[child]):
            raise ValueError(
                f"structure must name each parent of a node once; {child!r} has duplicates"
            )
    # A parent without an entry of its own has no parents.
    for given in list(parents.values()):
        for parent in given:
            parents.setdefault(parent, [])
    return parents


def _parents_from_edges(edges: Iterable) -> dict[Hashable, list[Hashable]]:
    parents: dict[Hashable, list[Hashable]] = {}
    for edge in edges:
        # A string of two letters would unpack like an edge.
        is_tuple = isinstance(edge, Iterable) and not isinstance(edge, str | bytes)
        nodes = tuple(edge) if is_tuple else ()
        if len(nodes) not in (1, 2):
            raise ValueError(
                "structure must hold pairs (parent, child), or (node,) for a node without edges; "
                f"got {edge!r}"
            )
        _check_hashable(nodes)
        for node in nodes:
            parents.setdefault(node, [])
        if len(nodes) == 2:
            if nodes[0] in parents[nodes[1]]:
                raise ValueError(f"structure must name each edge once; {nodes!r} is a duplicate")
            parents[nodes[1]].append(nodes[0])
    return parents


def _check_hashable(nodes: Iterable) -> None:
    if not are_hashable(nodes):
        raise TypeError(
            "structure must have nodes that can be hashed, such as strings; some cannot"
        )


# Constraints -----------------------------------------------------------------------------


@dataclass(frozen=True)
class StructureConstraints:
    """Public constraints on a structure that is learnt.

    Attributes
    ----------
    required : dict of frozenset
        Required parents of each column: the given edges, and edges that connect all required
        parents of one column with each other.
    forbidden : set of (parent, child)
    order : tuple
        Columns in the order in which they are added.
    """

    required: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    forbidden: frozenset[tuple[Hashable, Hashable]] = frozenset()
    order: tuple[Hashable, ...] = ()


def parse_constraints(
    given: Any, columns: Sequence[Hashable], max_parents: int
) -> StructureConstraints:
    """Check constraints against the columns and against each other.

    `given` is None, or a dict with edges (parent, child) under "required" and "forbidden",
    and columns under "order".
    """
    if given is None:
        return StructureConstraints()
    if not isinstance(given, Mapping) or not set(given) <= {"required", "forbidden", "order"}:
        raise ValueError(
            "constraints must be None or a dict with edges (parent, child) under 'required' and "
            "'forbidden', and columns under 'order'"
        )
    required_edges = _check_edges("required", given, columns)
    forbidden = frozenset(_check_edges("forbidden", given, columns))
    order = list(given.get("order", ()))
    _check_known("order", order, columns)
    if len(set(order)) < len(order):
        raise ValueError("constraints['order'] must name each column once; some are duplicates")
    before: dict[Hashable, set[Hashable]] = {}
    for parent, child in (*required_edges, *pairwise(order)):
        before.setdefault(parent, set())
        before.setdefault(child, set()).add(parent)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        raise ValueError(
            "constraints must have no cycle in the required edges and the order; they have one"
        ) from None
    required = _connect_parents(required_edges, order)
    for child, parents in required.items():
        if len(parents) > max_parents:
            raise ValueError(
                f"max_parents={max_parents} must be at least the number of parents that the "
                f"required edges give {child!r}, {len(parents)} with those that connect the "
                "parents of one column"
            )
        clash = [parent for parent in parents if (parent, child) in forbidden]
        if clash:
            raise ValueError(
                f"constraints forbid {(clash[0], child)!r}, which the required edges need"
            )
    return StructureConstraints(required, forbidden, tuple(order))


def _check_edges(
    key: str, given: Mapping, columns: Sequence[Hashable]
) -> list[tuple[Hashable, Hashable]]:
    edges = [() if isinstance(edge, str | bytes) else tuple(edge) for edge in given.get(key, ())]
    if any(len(edge) != 2 for edge in edges):
        raise ValueError(f"constraints[{key!r}] must hold pairs (parent, child)")
    _check_known(key, [node for edge in edges for node in edge], columns)
    return [(edge[0], edge[1]) for edge in edges]


def _check_known(key: str, nodes: Sequence[Any], columns: Sequence[Hashable]) -> None:
    known = set(columns)
    for node in nodes:
        if not are_hashable([node]) or node not in known:
            raise ValueError(f"constraints[{key!r}] must name columns of X; {node!r} is none")


def _connect_parents(
    edges: Sequence[tuple[Hashable, Hashable]], order: Sequence[Hashable]
) -> dict[Hashable, frozenset[Hashable]]:
    """Return the required parents of each column, with all parents of one connected.

    From the last column to the first: of two parents of a column, the later gets the earlier.
    """
    position = {node: i for i, node in enumerate(order)}
    parents: dict[Hashable, set[Hashable]] = {node: set() for node in order}
    for parent, child in edges:
        parents[child].add(parent)
    for node in reversed(order):
        for first, second in combinations(sorted(parents[node], key=position.__getitem__), 2):
            parents[second].add(first)
    return {node: frozenset(found) for node, found in parents.items() if found}


# Learnt structures -----------------------------------------------------------------------


def pair_distances(codes: Codes, shares: Mapping[Hashable, np.ndarray], total: float) -> np.ndarray:
    """Return the exact l1 distance of each pair's counts from those of independent columns.

    `shares` and `total` are released. Expected counts are rounded to whole numbers, so that
    distances are whole, exact, and change by no more than the counts do: docs/theory.md,
    section 17.
    """
    found = []
    for first, second in combinations(codes, 2):
        expected = np.rint(total * np.outer(shares[first], shares[second])).ravel()
        cells = codes[first] * np.int64(len(shares[second])) + codes[second]
        found.append(np.abs(count_cells(cells, expected.size) - expected).sum())
    return np.array(found)


def dependence_scores(
    noisy: np.ndarray, shares: Mapping[Hashable, np.ndarray], total: float
) -> np.ndarray:
    """Return a symmetric matrix of released distances minus those expected by chance.

    The mean of |x - m| is about sqrt(2 m / pi) for a count x with mean m.
    """
    scores = np.zeros((len(shares), len(shares)))
    chance = [
        np.sqrt(2 / np.pi * (total * np.outer(first, second))).sum()
        for first, second in combinations(shares.values(), 2)
    ]
    scores[np.triu_indices(len(shares), 1)] = noisy - chance
    return scores + scores.T


def learn_parents(
    columns: Sequence[Hashable],
    sizes: Mapping[Hashable, int],
    scores: np.ndarray,
    cell_cost: float,
    max_parents: int,
    max_cells: int,
    constraints: StructureConstraints,
) -> Parents:
    """Add one column after another, always the one with the largest gain.

    The parents of a column all lie in the family of an earlier one. Its gain is the sum of its
    scores with them, minus `cell_cost` for each cell of its table. So tables are small if noise
    is large, down to columns without parents. A family has at most `max_cells` cells, unless
    it is required.
    """
    search = _Search(columns, sizes, scores, cell_cost, max_cells, constraints)
    search.offer(())
    while search.remaining.any():
        family = search.add_best()
        for size in range(1, min(max_parents, len(family)) + 1):
            for subset in combinations(family, size):
                search.offer(subset)
    return {
        columns[i]: tuple(columns[parent] for parent in parents)
        for i, parents in search.families.items()
    }


class _Search:
    """Families so far, and the best parents that were offered to each remaining column.

    Columns are numbers here. Of equal gains, the parents that were offered first win.
    """

    def __init__(self, columns, sizes, scores, cell_cost, max_cells, constraints):
        number = {node: i for i, node in enumerate(columns)}
        self._scores = scores
        self._states = np.array([sizes[node] for node in columns], dtype=float)
        self._cell_cost, self._max_cells = cell_cost, max_cells
        self._allowed_scores = scores.copy()  # of parent, child
        for parent, child in constraints.forbidden:
            self._allowed_scores[number[parent], number[child]] = -np.inf
        self._required = {
            number[child]: {number[parent] for parent in parents}
            for child, parents in constraints.required.items()
        }
        self._predecessor = {
            number[later]: number[earlier] for earlier, later in pairwise(constraints.order)
        }
        self._offers: dict[frozenset[int], int] = {}
        self._best_gain = np.full(len(columns), -np.inf)
        self._best_offer = np.zeros(len(columns), dtype=int)
        self.families: dict[int, tuple[int, ...]] = {}
        self.remaining = np.ones(len(columns), dtype=bool)

    def offer(self, parents: tuple[int, ...]) -> None:
        """Offer parents to all columns."""
        key = frozenset(parents)
        if key in self._offers:
            return
        self._offers[key] = len(self._offers)
        cells = prod(self._states[list(parents)]) * self._states
        gains = self._allowed_scores[list(parents)].sum(axis=0) - self._cell_cost * cells
        if parents:
            gains[cells > self._max_cells] = -np.inf
        for child, required in self._required.items():
            if not required <= key:
                gains[child] = -np.inf
        better = gains > self._best_gain
        self._best_gain[better] = gains[better]
        self._best_offer[better] = self._offers[key]

    def add_best(self) -> list[int]:
        """Add the remaining column with the largest gain, and return its family."""
        ready = self.remaining.copy()
        for later, earlier in self._predecessor.items():
            ready[later] &= not self.remaining[earlier]
        free = np.flatnonzero(ready)
        best = self._best_gain[free].max()
        if not self.families:  # start with one of the two columns that depend most on each other
            off_diagonal = np.where(np.eye(len(ready), dtype=bool), -np.inf, self._scores)
            chosen, parents = int(free[off_diagonal[free].max(axis=1).argmax()]), set()
        elif np.isneginf(best):  # only required parents remain, and their tables are too large
            chosen = int(free[0])
            parents = self._required[chosen]
        else:
            ties = free[self._best_gain[free] == best]
            chosen = int(ties[self._best_offer[ties].argmin()])
            parents = set(list(self._offers)[self._best_offer[chosen]])
        self.remaining[chosen] = False
        self.families[chosen] = tuple(sorted(parents, key=list(self.families).index))
        return [*self.families[chosen], chosen]
