"""Plots of a released Bayesian network, and of its distance from public records."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .._validation import check_integer
from .base import Display
from .tables import category_texts

_BOX_WIDTH = 0.86  # in units of the distance between two nodes
_EDGE_WIDTH = 0.35  # width of the space for an edge that passes a layer, in the same units
# Inches of a new figure: width of a node and of a column of its table; heights of a layer, of its
# box, and of the lines of the name and of the states in it.
_NODE_INCHES, _COLUMN_INCHES = 1.7, 0.13
_LAYER_INCHES, _BOX_INCHES, _NAME_INCHES, _STATES_INCHES = 1.45, 0.9, 0.22, 0.17
_MIN_INCHES = (6.0, 3.5)
_MAX_ROWS = 64
_MAX_ROWS_WITH_NUMBERS = 4
_MIN_FONT, _MAX_FONT, _FONT_ASPECT = 5.0, 7.0, 0.68  # points; width of a letter over the size
_MAX_COLUMNS_WITH_NUMBERS = 12


@dataclass(eq=False, repr=False)
class BayesNetDisplay(Display):
    """Released Bayesian network with its conditional probabilities, made by `from_estimator`.

    Each node is a box below its parents that shows the node's table: a column for each state
    and a row for each configuration of the parents, in the order of `itertools.product`. Names of
    states that are wider than their column are vertical.

    Parameters
    ----------
    parents : dict of tuple
        Parents of each node. Parents come before their children.
    tables, states : dict of ndarray, dict of list of str
        Table of each node, and the names of its columns.

    Attributes
    ----------
    ax_, figure_, boxes_ : matplotlib Axes, Figure and dict of Rectangle
        Axes, figure and box of each node of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNetMLE
    >>> from skdirdp.displays import BayesNetDisplay
    >>> X = pd.DataFrame({"rain": np.arange(900) % 3 == 0, "wet": np.arange(900) % 2 == 0})
    >>> states = {"rain": [False, True], "wet": [False, True]}
    >>> model = PrivateBayesNetMLE([("rain", "wet")], states=states).fit(X)
    >>> display = BayesNetDisplay.from_estimator(model)
    >>> list(display.boxes_)
    ['rain', 'wet']
    """

    parents: dict[Hashable, tuple[Hashable, ...]]
    tables: dict[Hashable, np.ndarray]
    states: dict[Hashable, list[str]]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        nodes: Iterable[Hashable] | None = None,
        max_states: int = 8,
        ax: Any = None,
        **options: Any,
    ) -> "BayesNetDisplay":
        """Draw the released network.

        Parameters
        ----------
        estimator : PrivateBayesNet or PrivateBayesNetMLE
            Fitted network.
        nodes : iterable of nodes, default=None
            Nodes to draw, with the edges between them. If None, all nodes are drawn.
        max_states : int, default=8
            Maximum number of columns. The least probable states are merged into the last
            column. (With more than 64 rows, adjacent rows are averaged.)
        ax, **options
            Axes, None for a new figure, and options of matplotlib's `pcolormesh`.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "probabilities_"):
            kind = type(estimator).__name__
            raise TypeError(f"estimator must be a private Bayesian network; got a {kind}")
        max_states = check_integer("max_states", max_states, at_least=2)
        structure = estimator.structure_
        chosen = set(structure if nodes is None else nodes)
        unknown = [node for node in chosen if node not in structure]
        if unknown or not chosen:
            got = repr(unknown[0]) if unknown else "0"
            raise ValueError(f"nodes must be at least 1 node of the structure; got {got}")
        wanted = [node for node in structure if node in chosen]
        parents, tables, states = {}, {}, {}
        for node in wanted:
            parents[node] = tuple(p for p in structure[node] if p in chosen)
            names = _state_texts(estimator.states_[node])
            table, states[node] = _merge_states(estimator.probabilities_[node], names, max_states)
            tables[node] = _average_rows(table)
        return cls(parents, tables, states).plot(ax=ax, **options)

    def figure_size(self) -> np.ndarray:
        """Return the width and height of a figure, in inches."""
        positions = np.array([*layered(self.parents)[0].values()])
        sizes = self._node_inches(), _LAYER_INCHES + self._extra_inches()
        return np.maximum(_MIN_INCHES, np.multiply(np.ptp(positions, axis=0) + 1, sizes))

    def _node_inches(self) -> float:
        widest = max(map(len, self.states.values()))
        return max(_NODE_INCHES, widest * _COLUMN_INCHES / _BOX_WIDTH)

    def _names_inches(self, node: Hashable) -> float:
        """Return the height of the names of states beyond that of a line: 0 if side by side."""
        longest = max(map(len, self.states[node])) * _FONT_ASPECT * _MAX_FONT / 72
        column = self._node_inches() * _BOX_WIDTH / len(self.states[node])
        return longest if longest > column else 0.0

    def _extra_inches(self) -> float:
        return max(map(self._names_inches, self.states))

    def _draw(self, ax: Any, **options: Any) -> None:
        places, edges = layered(self.parents)
        positions = np.array([*places.values()])
        (left, low), (right, high) = positions.min(axis=0) - 0.5, positions.max(axis=0) + 0.5
        ax.set(title="Released network", xlim=(left, right), ylim=(low, high))
        ax.set_axis_off()
        extent = ax.get_window_extent()
        points = 72 / ax.figure.dpi * extent.size / (right - left, high - low)  # per unit
        self.boxes_: dict[Hashable, Any] = {}
        for node in self.parents:
            mesh = self._draw_node(ax, node, *places[node], points, {"cmap": "Blues", **options})
        for path in edges:
            _draw_edge(ax, [places[place] for place in path], self._box_height())
        size = {"fraction": 0.04, "pad": 0.01, "shrink": 0.5}
        ax.figure.colorbar(mesh, ax=ax, label="released probability", **size)

    def _box_height(self) -> float:
        return (_BOX_INCHES + self._extra_inches()) / (_LAYER_INCHES + self._extra_inches())

    def _draw_node(
        self, ax: Any, node: Hashable, x: float, y: float, points: Any, options: dict[str, Any]
    ) -> Any:
        """Draw the box of a node, and return the colours of its table."""
        from matplotlib.patches import Rectangle

        height, layer = self._box_height(), _LAYER_INCHES + self._extra_inches()
        left, bottom, top = x - _BOX_WIDTH / 2, y - height / 2, y + height / 2
        box = Rectangle((left, bottom), _BOX_WIDTH, height, fc="w", ec="0.4", zorder=3)
        self.boxes_[node] = ax.add_patch(box)
        names = self._names_inches(node)
        first, last = top - _NAME_INCHES / layer, bottom + (_STATES_INCHES + names) / layer
        _write(ax, x, (top + first) / 2, str(node), _BOX_WIDTH * points[0], largest=10)
        table = self.tables[node]
        columns = np.linspace(left + 0.04, left + _BOX_WIDTH - 0.04, table.shape[1] + 1)
        rows = np.linspace(first, last, table.shape[0] + 1)
        mesh = ax.pcolormesh(columns, rows, table, vmin=0, vmax=1, zorder=4, **options)
        centres, middles = (columns[1:] + columns[:-1]) / 2, (rows[1:] + rows[:-1]) / 2
        width = 0.95 * (columns[1] - columns[0]) * points[0]
        space = 0.95 * (last - bottom) * points[1] if names else width
        for centre, state in zip(centres, self.states[node], strict=True):
            _write(ax, centre, (last + bottom) / 2, state, space, rotation=90 if names else 0)
        if len(table) <= _MAX_ROWS_WITH_NUMBERS and width > 4 * _MIN_FONT * _FONT_ASPECT:
            for (i, j), probability in np.ndenumerate(table):
                colour = "w" if probability > 0.6 else "0.2"
                _write(ax, centres[j], middles[i], f"{probability:.2f}", width, color=colour)
        return mesh


def _write(
    ax: Any,
    x: float,
    y: float,
    text: str,
    points: float,
    largest: float = _MAX_FONT,
    **options: Any,
) -> None:
    """Draw a string in the given width, with a smaller font or an ellipsis if necessary."""
    size = min(largest, points / _FONT_ASPECT / max(len(text), 1))
    if size < _MIN_FONT:
        size, letters = _MIN_FONT, int(points / _FONT_ASPECT / _MIN_FONT)
        text = text[: letters - 1] + "…" if letters > 1 else ""
    style = {"zorder": 5, "ha": "center", "va": "center", "parse_math": False, **options}
    ax.text(x, y, text, fontsize=size, **style)


def _state_texts(states: Sequence[Hashable]) -> list[str]:
    """Return states as texts that fit into narrow cells; bins by their ends."""
    texts = category_texts(states, digits=3)
    for k, state in enumerate(states):
        if isinstance(state, tuple):  # rare states that are counted together
            texts[k] = f"{len(state)} rare"
        elif isinstance(state, pd.Interval) and not isinstance(state.left, pd.Timestamp):
            texts[k] = texts[k].replace(" to below ", "–").replace(" to ", "–")
    return texts


def _draw_edge(ax: Any, points: list[tuple[float, float]], height: float) -> None:
    """Draw an arrow from the bottom of the first box to the top of the last."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    # The arrow is vertical next to the boxes of a layer, and curved only between layers.
    tops = [(x, y + height / 2) for x, y in points[1:]]
    bottoms = [(x, y - height / 2) for x, y in points[:-1]]
    vertices, codes = [bottoms[0]], [Path.MOVETO]
    for (x, start), (next_x, end) in zip(bottoms, tops, strict=True):
        middle = (start + end) / 2
        vertices += [(x, start), (x, middle), (next_x, middle), (next_x, end)]
        codes += [Path.LINETO] + [Path.CURVE4] * 3
    arrow = FancyArrowPatch(path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=9)
    arrow.set(color="0.45", linewidth=0.9, zorder=2)
    ax.add_patch(arrow)


def layered(
    parents: Mapping[Hashable, Sequence[Hashable]],
) -> tuple[dict[Hashable, tuple[float, float]], list[list[Hashable]]]:
    """Return a position (x, y) of each node and bend, and the places that each edge joins."""
    # Children are below their parents. An edge has a bend in each layer that it passes. Nodes of a
    # layer are ordered by the mean position of their parents.
    import networkx as nx

    graph = nx.DiGraph((parent, child) for child in parents for parent in parents[child])
    graph.add_nodes_from(parents)
    layers = enumerate(nx.topological_generations(graph))
    layer = {node: number for number, nodes in layers for node in nodes}
    edges: list[list[Hashable]] = [
        [parent, *((parent, child, i) for i in range(layer[parent] + 1, layer[child])), child]
        for parent, child in graph.edges
    ]
    bent = nx.DiGraph()
    bent.add_nodes_from(parents)
    for path in edges:
        nx.add_path(bent, path)
    places: dict[Hashable, tuple[float, float]] = {}
    for number, row in enumerate(nx.topological_generations(bent)):
        row.sort(key=lambda place: fmean([places[p][0] for p in bent.predecessors(place)] or [0]))
        widths = np.array([1.0 if place in parents else _EDGE_WIDTH for place in row])
        x = np.cumsum(widths) - widths / 2 - widths.sum() / 2
        places.update((place, (float(x[i]), -number)) for i, place in enumerate(row))
    return places, edges


def _merge_states(
    table: np.ndarray, names: list[str], max_states: int
) -> tuple[np.ndarray, list[str]]:
    """Keep the states that are most probable on average, and merge the others."""
    if len(names) <= max_states:
        return table, names
    kept = np.sort(np.argsort(-table.mean(axis=0), kind="stable")[: max_states - 1])
    merged_probability = 1 - table[:, kept].sum(axis=1, keepdims=True)
    merged = np.hstack([table[:, kept], np.clip(merged_probability, 0, 1)])
    return merged, [names[column] for column in kept] + [f"+{len(names) - max_states + 1}"]


def _average_rows(table: np.ndarray) -> np.ndarray:
    if len(table) <= _MAX_ROWS:
        return table
    starts = np.linspace(0, len(table), _MAX_ROWS, endpoint=False).astype(int)
    return np.add.reduceat(table, starts) / np.diff(starts, append=len(table))[:, np.newaxis]


@dataclass(eq=False, repr=False)
class MarginsDisplay(Display):
    """Distance between a released network and public records, made by `from_estimator`.

    A cell is the total variation distance between the joint distributions of two columns; the
    diagonal has single columns. Publish the plot only if the records are public.

    Parameters
    ----------
    columns, distances : list, ndarray of shape (n_columns, n_columns)
        Columns, and the symmetric matrix of distances between 0 and 1.

    Attributes
    ----------
    ax_, figure_, image_ : matplotlib Axes, Figure and AxesImage
        Axes, figure and cells of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNet
    >>> from skdirdp.displays import MarginsDisplay
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 2, 4000)
    >>> X = pd.DataFrame({"a": a, "b": (a + (rng.random(4000) < 0.1)) % 2})
    >>> model = PrivateBayesNet({"a": [0, 1], "b": [0, 1]}).fit(X[:2000])
    >>> display = MarginsDisplay.from_estimator(model, X[2000:])  # assumed to be public
    >>> bool(display.distances.max() < 0.2)
    True
    """

    columns: list[Hashable]
    distances: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        columns: Iterable[Hashable] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> "MarginsDisplay":
        """Compare a network with public records.

        Parameters
        ----------
        estimator : PrivateBayesNet
            Fitted network.
        X : DataFrame, or array of shape (n_records, n_columns)
            Public records with the columns seen during fit.
        columns : iterable of columns, default=None
            Columns to compare. If None, all columns.
        ax, **options
            Axes, None for a new figure, and options of matplotlib's `imshow`.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "empirical_marginals"):
            kind = type(estimator).__name__
            raise TypeError(f"estimator must be a PrivateBayesNet; got a {kind}")
        wanted = list(estimator.columns_ if columns is None else columns)
        shares = estimator.empirical_marginals(X, [(name,) for name in wanted])
        shares |= estimator.empirical_marginals(X, list(combinations(wanted, 2)))
        distances = np.empty((len(wanted), len(wanted)))
        for nodes, public in shares.items():
            released = estimator.marginal(list(nodes)).to_numpy()
            i, j = wanted.index(nodes[0]), wanted.index(nodes[-1])
            distances[i, j] = distances[j, i] = np.abs(released - public.ravel()).sum() / 2
        return cls(wanted, distances).plot(ax=ax, **options)

    def figure_size(self) -> np.ndarray:
        """Return the width and height of a figure, in inches."""
        return np.maximum((4.5, 3.8), 0.55 * len(self.columns) + np.array([2.0, 1.4]))

    def _draw(self, ax: Any, **options: Any) -> None:
        largest = max(float(self.distances.max()), 1e-9)
        colours = {"vmin": 0, "vmax": largest, "cmap": "viridis", **options}
        self.image_ = ax.imshow(self.distances, **colours)
        names = [str(name) for name in self.columns]
        ax.set_title("Distance from public records")
        ax.set_xticks(range(len(names)), names, rotation=60, ha="right")
        ax.set_yticks(range(len(names)), names)
        if len(names) <= _MAX_COLUMNS_WITH_NUMBERS:
            for (row, column), value in np.ndenumerate(self.distances):
                colour = "w" if value < 0.6 * largest else "k"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", size=7, color=colour)
        ax.figure.colorbar(self.image_, ax=ax, label="total variation distance", shrink=0.8)
