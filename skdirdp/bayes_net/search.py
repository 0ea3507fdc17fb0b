"""A network from scores of how much pairs of columns depend on each other.

Everything here is done with what was released, and with what is public.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from .._validation import are_hashable
from .structure import Parents

_KEYS = ("required", "forbidden", "order")


@dataclass(frozen=True)
class Knowledge:
    """What is publicly known of a structure.

    Attributes
    ----------
    required : dict of frozenset
        What each column must have as parents: edges that were asked for, and those that
        make the parents of one column parents of each other, in `order`.
    forbidden : set of (parent, child)
    order : tuple
        Columns of which each is added after those before it.
    """

    required: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    forbidden: frozenset[tuple[Hashable, Hashable]] = frozenset()
    order: tuple[Hashable, ...] = ()


def parse_knowledge(given: Any, columns: Sequence[Hashable], max_parents: int) -> Knowledge:
    """What is known of the structure, checked against the columns and against itself.

    Parameters
    ----------
    given : dict or None
        Under "required" and "forbidden" edges (parent, child), under "order" columns.
    columns : sequence
        All columns.
    max_parents : int

    Returns
    -------
    Knowledge
    """
    if given is None:
        return Knowledge()
    if not isinstance(given, Mapping) or not set(given) <= set(_KEYS):
        raise ValueError(
            "structure must be None or a dict with edges (parent, child) under 'required' and "
            "'forbidden', and columns under 'order'"
        )
    edges = {key: _edges(key, given.get(key, ()), columns) for key in _KEYS[:2]}
    order = list(given.get("order", ()))
    _check_known("order", order, columns)
    if len(set(order)) < len(order):
        raise ValueError("structure['order'] must name each column once; some are duplicates")
    before: dict[Hashable, set[Hashable]] = {}
    for parent, child in (*edges["required"], *pairwise(order)):
        before.setdefault(parent, set())
        before.setdefault(child, set()).add(parent)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        raise ValueError(
            "structure must have no cycle in what is required and the order; it has one"
        ) from None
    required = _filled(edges["required"], order)
    forbidden = frozenset(edges["forbidden"])
    for child, parents in required.items():
        if len(parents) > max_parents:
            raise ValueError(
                f"max_parents={max_parents} must be at least the number of parents that the "
                f"required edges give {child!r}, {len(parents)} with those that join the parents "
                "of one column"
            )
        clash = [parent for parent in parents if (parent, child) in forbidden]
        if clash:
            raise ValueError(
                f"structure forbids {(clash[0], child)!r}, which the required edges need"
            )
    return Knowledge(required, forbidden, tuple(order))


def _edges(key: str, given: Any, columns: Sequence[Hashable]) -> list[tuple[Hashable, Hashable]]:
    edges = [tuple(edge) if not isinstance(edge, str | bytes) else () for edge in given]
    if any(len(edge) != 2 for edge in edges):
        raise ValueError(f"structure[{key!r}] must hold pairs (parent, child)")
    _check_known(key, [node for edge in edges for node in edge], columns)
    return [(edge[0], edge[1]) for edge in edges]


def _check_known(key: str, nodes: Sequence[Any], columns: Sequence[Hashable]) -> None:
    known = set(columns)
    if not are_hashable(nodes) or not set(nodes) <= known:
        unknown = next(node for node in nodes if not are_hashable([node]) or node not in known)
        raise ValueError(f"structure[{key!r}] must name columns of X; {unknown!r} is none")


def _filled(
    edges: Sequence[tuple[Hashable, Hashable]], order: Sequence[Hashable]
) -> dict[Hashable, frozenset[Hashable]]:
    """The required parents of each, so that those of one column are joined with each other.

    From the last to the first: of two parents of a column the later gets the earlier.
    """
    position = {node: i for i, node in enumerate(order)}
    parents: dict[Hashable, set[Hashable]] = {node: set() for node in order}
    for parent, child in edges:
        parents[child].add(parent)
    for node in reversed(order):
        for first, second in combinations(sorted(parents[node], key=position.__getitem__), 2):
            parents[second].add(first)
    return {node: frozenset(found) for node, found in parents.items() if found}


def grow_families(
    columns: Sequence[Hashable],
    sizes: Mapping[Hashable, int],
    scores: np.ndarray,
    price: float,
    max_parents: int,
    max_cells: int,
    knowledge: Knowledge,
) -> Parents:
    """Families of columns, one column after another, each where it gains the most.

    A column may have as parents any columns that all are in one family already. It gains the
    sum of its scores with them, and pays for each cell of the table. So tables are small where
    noise is large, down to columns without parents.

    Parameters
    ----------
    columns : sequence
    sizes : dict of int
        How many states each has.
    scores : ndarray of shape (n_columns, n_columns)
        Symmetric.
    price : float
        Of a cell, in units of the scores.
    max_parents, max_cells : int
        Of a family. What is required may have more cells.
    knowledge : Knowledge

    Returns
    -------
    dict from column to tuple of columns
        Each stands after its parents.
    """
    number = {node: i for i, node in enumerate(columns)}
    states = np.array([sizes[node] for node in columns], dtype=float)
    allowed = np.ones((len(columns), len(columns)), dtype=bool)  # parent, child
    for parent, child in knowledge.forbidden:
        allowed[number[parent], number[child]] = False
    required = {number[child]: {number[p] for p in of} for child, of in knowledge.required.items()}
    waiting_for = {later: earlier for earlier, later in pairwise(knowledge.order)}
    gain_with = np.where(allowed, scores, -np.inf)

    candidates: dict[frozenset[int], np.ndarray] = {frozenset(): -price * states}
    families: dict[int, tuple[int, ...]] = {}
    left = set(range(len(columns)))
    while left:
        free = np.array(sorted(i for i in left if columns[i] not in waiting_for))
        best, chosen, parents = -np.inf, int(free[0]), None
        for found, gains in candidates.items():
            able = np.array([required.get(i, set()) <= found for i in free]) if required else True
            worth = np.where(able, gains[free], -np.inf)
            if worth.max() > best:
                best, chosen, parents = worth.max(), int(free[worth.argmax()]), found
        if not families:  # the first is one of the two that depend most on each other
            off_diagonal = np.where(np.eye(len(columns), dtype=bool), -np.inf, scores)
            chosen = int(free[off_diagonal[free].max(axis=1).argmax()])
            parents = frozenset()
        if parents is None:  # what is required alone has too many cells, and is taken all the same
            parents = frozenset(required[chosen])
        families[chosen] = tuple(sorted(parents, key=list(families).index))
        left.remove(chosen)
        for node in [node for node, other in waiting_for.items() if other == columns[chosen]]:
            del waiting_for[node]
        family = [*families[chosen], chosen]
        for size in range(1, min(max_parents, len(family)) + 1):
            for subset in combinations(family, size):
                key = frozenset(subset)
                if key not in candidates:
                    cells = prod(states[list(subset)]) * states
                    gains = gain_with[list(subset)].sum(axis=0) - price * cells
                    candidates[key] = np.where(cells <= max_cells, gains, -np.inf)
    return {
        columns[i]: tuple(columns[parent] for parent in parents) for i, parents in families.items()
    }
