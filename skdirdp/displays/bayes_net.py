"""A released Bayesian network, drawn with its tables."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._validation import check_integer
from .axes import axes_for
from .layers import layered

_BOX = (0.86, 0.62)  # of the room that a node has in its layer, in width and height
_NAME = 0.15  # of that room, for the name of the node
_STATES = 0.12  # and for the names of its states
_ROOM = (1.7, 1.45)  # inches for each node and layer of a new figure
_MOST_ROWS = 64
_ROWS_TO_READ = 4  # with more, there is no room to write a probability into its cell
_LEAST_FIGURE = (6.0, 3.5)


class BayesNetDisplay:
    """A released Bayesian network with its conditional probabilities.

    Use `from_estimator` to make one. A node is a box below those of its parents, with a
    picture of its table: a column for each state, a row for each configuration of its
    parents, in the order of `itertools.product` over their states; the darker, the more
    probable. Where there is room, the probabilities are written. Only what was released is
    shown.

    Parameters
    ----------
    parents : dict of tuple
        The parents of each node; nodes stand after their parents.
    tables : dict of ndarray of shape (n_rows, n_columns)
        What is drawn in the box of each node.
    states : dict of list of str
        What the columns of each table are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was last drawn on.
    figure_ : matplotlib Figure
        What holds it.
    boxes_ : dict of matplotlib Rectangle
        The box of each node.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdirdp import PrivateBayesNetMLE
    >>> from skdirdp.displays import BayesNetDisplay
    >>> X = pd.DataFrame({"rain": np.arange(900) % 3 == 0, "wet": np.arange(900) % 2 == 0})
    >>> yes_no = [False, True]
    >>> states = {"rain": yes_no, "wet": yes_no}
    >>> model = PrivateBayesNetMLE([("rain", "wet")], states=states).fit(X)
    >>> display = BayesNetDisplay.from_estimator(model)
    >>> list(display.boxes_)
    ['rain', 'wet']
    """

    def __init__(self, parents, tables, states):
        self.parents = parents
        self.tables = tables
        self.states = states

    @classmethod
    def from_estimator(
        cls, estimator, *, nodes: Iterable[Hashable] | None = None, max_states: int = 8, ax=None
    ) -> "BayesNetDisplay":
        """Draw the network that was released.

        Parameters
        ----------
        estimator : PrivateBayesNet or PrivateBayesNetMLE
            Fitted.
        nodes : iterable of nodes, default=None
            Those to draw, with the edges between them. None draws all.
        max_states : int, default=8
            Of a variable with more, the least probable ones are drawn together, as the
            last column. (Of more than 64 configurations of the parents, neighbouring rows
            are averaged.)
        ax : matplotlib Axes, default=None
            A new figure, large enough, if None.

        Returns
        -------
        BayesNetDisplay
            Drawn.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "probabilities_"):
            raise TypeError(
                "estimator must be a PrivateBayesNet or PrivateBayesNetMLE; got a "
                f"{type(estimator).__name__}"
            )
        max_states = check_integer("max_states", max_states, at_least=2)
        wanted = _checked_nodes(nodes, estimator.structure_)
        parents, tables, states = {}, {}, {}
        for node in wanted:
            parents[node] = tuple(p for p in estimator.structure_[node] if p in wanted)
            names = [_shown(state) for state in estimator.states_[node]]
            merged = _merge_states(estimator.probabilities_[node], names, max_states)
            tables[node], states[node] = _average_rows(merged[0]), merged[1]
        return cls(parents, tables, states).plot(ax=ax)

    def plot(self, ax=None, *, cmap="Blues") -> "BayesNetDisplay":
        """Draw on the given axes, or on new ones.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            A new figure, large enough, if None.
        cmap : str or matplotlib Colormap, default="Blues"
            The colours of the probabilities from 0 to 1.

        Returns
        -------
        BayesNetDisplay
            This one.
        """
        places, edges = layered(self.parents)
        x = np.array([position for position, _ in places.values()])
        depth = np.array([level for _, level in places.values()])
        spans = x.max() - x.min() + 1, depth.max() + 1
        size = np.maximum(_LEAST_FIGURE, np.multiply(spans, _ROOM))
        ax = axes_for(self, ax, "Released network", figsize=size)
        ax.set(xlim=(x.min() - 0.5, x.max() + 0.5), ylim=(-depth.max() - 0.5, 0.5))
        ax.set_axis_off()
        font = _Font(ax, spans[0])
        self.boxes_: dict[Hashable, Any] = {}
        for node in self.parents:
            position, level = places[node]
            mesh = self._draw_node(ax, node, position, -level, font, cmap)
        for path in edges:
            _draw_edge(ax, [(places[place][0], -places[place][1]) for place in path])
        ax.figure.colorbar(
            mesh, ax=ax, fraction=0.04, pad=0.01, shrink=0.5, label="released probability"
        )
        return self

    def _draw_node(self, ax: Any, node, x: float, y: float, font: "_Font", cmap: Any) -> Any:
        from matplotlib.patches import Rectangle

        width, height = _BOX
        left, top = x - width / 2, y + height / 2
        box = Rectangle((left, y - height / 2), width, height, facecolor="w", edgecolor="0.4")
        self.boxes_[node] = ax.add_patch(box)
        box.set_zorder(3)
        name = font.fit(str(node), width, largest=10)
        ax.text(x, top - _NAME / 2, zorder=5, ha="center", va="center", **name)
        table = self.tables[node]
        margin = 0.04
        columns = np.linspace(left + margin, left + width - margin, table.shape[1] + 1)
        rows = np.linspace(top - _NAME, y - height / 2 + _STATES, table.shape[0] + 1)
        mesh = ax.pcolormesh(columns, rows, table, vmin=0, vmax=1, cmap=cmap, zorder=4)
        if len(table) <= _ROWS_TO_READ:
            _write_cells(ax, table, columns, rows, font)
        for state, start, stop in zip(self.states[node], columns[:-1], columns[1:], strict=True):
            text = font.fit(state, 0.95 * (stop - start), largest=7)
            bottom = y - height / 2 + _STATES / 2
            ax.text((start + stop) / 2, bottom, zorder=5, ha="center", va="center", **text)
        return mesh


def _write_cells(ax: Any, table: np.ndarray, columns, rows, font: "_Font") -> None:
    x, y = (columns[1:] + columns[:-1]) / 2, (rows[1:] + rows[:-1]) / 2
    for (i, j), probability in np.ndenumerate(table):
        text = font.fit(f"{probability:.2f}", 0.9 * (columns[1] - columns[0]), largest=7)
        if text["s"].endswith("…"):
            return
        colour = "w" if probability > 0.6 else "0.2"
        ax.text(x[j], y[i], color=colour, zorder=5, ha="center", va="center", **text)


class _Font:
    """How large a text may be, and how much of it there may be, to fit a width."""

    _LEAST = 5.0
    _ASPECT = 0.68  # a letter's width over the font size

    def __init__(self, ax: Any, width: float):
        inches = ax.get_window_extent().width / ax.figure.dpi
        self._points = 72 * inches / width

    def fit(self, text: str, width: float, largest: float) -> dict[str, Any]:
        room = width * self._points / self._ASPECT
        size = min(largest, room / max(len(text), 1))
        if size < self._LEAST:
            size, letters = self._LEAST, int(room / self._LEAST)
            text = text[: letters - 1] + "…" if letters > 1 else ""
        return {"s": text, "fontsize": size}


def _draw_edge(ax: Any, points: list[tuple[float, float]]) -> None:
    """From the foot of the first box over the bends to the head of the last."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    half = _BOX[1] / 2
    # Straight down past the boxes of a layer, and curved between layers only.
    heads = [(x, y + half) for x, y in points[1:]]
    feet = [(x, y - half) for x, y in points[:-1]]
    vertices, codes = [feet[0]], [Path.MOVETO]
    for (x, foot), (next_x, head) in zip(feet, heads, strict=True):
        middle = (foot + head) / 2
        vertices += [(x, foot), (x, middle), (next_x, middle), (next_x, head)]
        codes += [Path.LINETO] + [Path.CURVE4] * 3
    ax.add_patch(
        FancyArrowPatch(
            path=Path(vertices, codes),
            arrowstyle="-|>",
            mutation_scale=9,
            color="0.45",
            linewidth=0.9,
            zorder=2,
        )
    )


def _shown(state: Hashable) -> str:
    """A state in few letters: of rare ones that are counted together, their number."""
    return f"{len(state)} rare" if isinstance(state, tuple) else str(state)


def _checked_nodes(nodes: Iterable[Hashable] | None, structure: dict) -> list[Hashable]:
    if nodes is None:
        return list(structure)
    wanted = set(nodes)
    unknown = [node for node in wanted if node not in structure]
    if unknown or not wanted:
        raise ValueError(
            f"nodes must be at least 1 node of the structure; got {unknown[0]!r}"
            if unknown
            else "nodes must be at least 1 node of the structure; got 0"
        )
    return [node for node in structure if node in wanted]


def _merge_states(table: np.ndarray, names: list[str], most: int) -> tuple[np.ndarray, list[str]]:
    """The most probable states over all rows, in their order, and the rest as one."""
    if len(names) <= most:
        return table, names
    kept = np.sort(np.argsort(-table.mean(axis=0), kind="stable")[: most - 1])
    rest = 1 - table[:, kept].sum(axis=1, keepdims=True)
    merged = np.hstack([table[:, kept], np.clip(rest, 0, 1)])
    return merged, [names[column] for column in kept] + [f"+{len(names) - most + 1}"]


def _average_rows(table: np.ndarray) -> np.ndarray:
    if len(table) <= _MOST_ROWS:
        return table
    starts = np.linspace(0, len(table), _MOST_ROWS, endpoint=False).astype(int)
    sizes = np.diff(starts, append=len(table))
    return np.add.reduceat(table, starts) / sizes[:, np.newaxis]
