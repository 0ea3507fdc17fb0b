"""A network's structure, in any of the forms that users have it, as parents of each node."""

from collections.abc import Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from .._validation import are_hashable

#: The parents of each node; every node stands after its parents.
Parents = dict[Hashable, tuple[Hashable, ...]]


def parse_structure(structure: Any) -> Parents:
    """The parents of each node, in topological order.

    Parameters
    ----------
    structure : mapping, iterable of edges, or graph
        ``{child: parents}``; pairs ``(parent, child)`` and, for nodes without edges,
        ``(node,)``; or an object with `nodes` and `edges`, such as a pgmpy DAG.

    Returns
    -------
    dict from node to tuple of nodes

    Examples
    --------
    >>> from skdirdp.bayes_net.structure import parse_structure
    >>> parse_structure([("rain", "grass"), ("sprinkler", "grass"), ("moon",)])
    {'rain': (), 'sprinkler': (), 'moon': (), 'grass': ('rain', 'sprinkler')}
    """
    if isinstance(structure, Mapping):
        parents = _from_mapping(structure)
    elif hasattr(structure, "nodes") and hasattr(structure, "edges"):
        edges = [(edge[0], edge[1]) for edge in structure.edges]
        parents = _from_edges([*((node,) for node in structure.nodes), *edges])
    elif isinstance(structure, Iterable) and not isinstance(structure, str | bytes):
        parents = _from_edges(structure)
    else:
        raise TypeError(
            "structure must be edges (parent, child), a {child: parents} dict, or a pgmpy DAG or "
            f"network; got {type(structure).__name__}"
        )
    if not parents:
        raise ValueError("structure must have at least one node; got none")
    return _in_topological_order(parents)


def _from_mapping(structure: Mapping) -> dict[Hashable, list[Hashable]]:
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


def _from_edges(edges: Iterable) -> dict[Hashable, list[Hashable]]:
    parents: dict[Hashable, list[Hashable]] = {}
    for edge in edges:
        # A string of two letters would unpack like an edge.
        if isinstance(edge, str | bytes) or not isinstance(edge, Iterable):
            raise ValueError(
                "structure must hold pairs (parent, child), or (node,) for a node without edges; "
                f"got {edge!r}"
            )
        nodes = tuple(edge)
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


def _in_topological_order(parents: dict[Hashable, list[Hashable]]) -> Parents:
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle = " -> ".join(str(node) for node in error.args[1])
        raise ValueError(f"structure must have no cycle; got {cycle}") from None
    return {node: tuple(parents[node]) for node in order}
