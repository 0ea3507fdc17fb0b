"""Where the nodes of a directed acyclic graph stand when it is drawn in layers.

Sugiyama's method: nodes stand below their parents; edges that pass a layer hold a place
in it; places are ordered by the mean position of their neighbours, which untangles
edges, and then spread out as far as they must.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

Parents = Mapping[Hashable, Sequence[Hashable]]
Place = Hashable  # a node, or (parent, child, layer) where an edge passes

_SWEEPS = 24
_GAP = 0.35  # an edge needs less room beside a node than another node does


def layered(parents: Parents) -> tuple[dict[Hashable, tuple[float, int]], list[list[Place]]]:
    """A place (x, layer) for each node and each bend, and the places that each edge joins.

    Nodes must stand after their parents. Nodes are 1 apart at least; layer 0 is on top.
    """
    layer = _layers(parents)
    edges = [_path(parent, child, layer) for child in parents for parent in parents[child]]
    rows = _rows(layer, edges)
    above: dict[Place, list[Place]] = {}
    below: dict[Place, list[Place]] = {}
    for path in edges:
        for first, second in pairwise(path):
            above.setdefault(second, []).append(first)
            below.setdefault(first, []).append(second)
    x = {place: float(i) for row in rows for i, place in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            wanted = [fmean(x[near] for near in neighbours.get(place, [place])) for place in row]
            # Ordered while it is still coarse; later sweeps only move places.
            if sweep < _SWEEPS // 2:
                ranks = np.argsort(wanted, kind="stable")
                row[:] = [row[rank] for rank in ranks]
                wanted = [wanted[rank] for rank in ranks]
            widths = [1.0 if place in parents else _GAP for place in row]
            x.update(zip(row, _spread(wanted, widths), strict=True))
    depth = {place: number for number, row in enumerate(rows) for place in row}
    return {place: (x[place], depth[place]) for place in x}, edges


def _layers(parents: Parents) -> dict[Hashable, int]:
    """One below the lowest parent; what has none stands right above its highest child."""
    layer: dict[Hashable, int] = {}
    for node, above in parents.items():
        layer[node] = 1 + max((layer[parent] for parent in above), default=-1)
    for node, above in parents.items():
        children = [layer[child] for child in parents if node in parents[child]]
        if not above and children:
            layer[node] = min(children) - 1
    return layer


def _path(parent: Hashable, child: Hashable, layer: dict[Hashable, int]) -> list[Place]:
    bends = [(parent, child, level) for level in range(layer[parent] + 1, layer[child])]
    return [parent, *bends, child]


def _rows(layer: dict[Hashable, int], edges: list[list[Place]]) -> list[list[Place]]:
    rows: list[list[Place]] = [[] for _ in range(max(layer.values()) + 1)]
    for node, level in layer.items():
        rows[level].append(node)
    for path in edges:
        for level, bend in enumerate(path[1:-1], layer[path[0]] + 1):
            rows[level].append(bend)
    return rows


def _spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The positions nearest to those wanted, in that order, that leave each its width.

    Least squares: without the widths in front of it, a place must not stand left of the
    one before; pooling adjacent violators makes it so.
    """
    half = np.asarray(widths) / 2
    offset = np.concatenate([[0.0], np.cumsum(half[:-1] + half[1:])])
    blocks: list[tuple[float, int]] = []  # the mean of a block, and its size
    for value in np.asarray(wanted) - offset:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean = (mean * size + other * count) / (size + count)
            size += count
        blocks.append((mean, size))
    free = np.concatenate([np.full(size, mean) for mean, size in blocks])
    return (free + offset).tolist()
