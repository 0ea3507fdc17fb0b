"""Exact inference in a network whose families form a tree of cliques."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from .clique_tree import CliqueTree, Tables, margin, spread
from .tables import Family

#: More cells, in one table or in those of all cliques, take too much memory.
MOST_CELLS = 2 * 10**7

Families = Mapping[Hashable, Family]


def potentials(
    families: Families, probabilities: Mapping[Hashable, np.ndarray]
) -> tuple[CliqueTree, Tables]:
    """The tree of cliques, and for each the product of the conditional tables within it."""
    tree = CliqueTree.of(
        {node: family.parents for node, family in families.items()},
        {node: family.n_states for node, family in families.items()},
    )
    products = [np.ones(tree.shape(clique)) for clique in tree.cliques]
    for node, family in families.items():
        nodes = (*family.parents, node)
        home = tree.home(nodes)
        assert home is not None
        table = probabilities[node].reshape(*family.parent_states, family.n_states)
        clique = tree.cliques[home]
        within = [each for each in clique if each in nodes]
        products[home] *= spread(in_order(table, nodes, within), within, clique)
    return tree, products


def family_table(tree: CliqueTree, beliefs: Tables, family: Family) -> np.ndarray:
    """The joint probabilities of a family: rows are configurations of the parents."""
    nodes = (*family.parents, family.node)
    home = tree.home(nodes)
    assert home is not None
    table = in_order(beliefs[home], tree.cliques[home], nodes)
    return table.reshape(family.n_rows, family.n_states)


def in_order(
    table: np.ndarray, clique: Sequence[Hashable], nodes: Sequence[Hashable]
) -> np.ndarray:
    """The margin of some columns, with its axes in their order."""
    within = [node for node in clique if node in nodes]
    return np.transpose(margin(table, tuple(clique), within), [within.index(n) for n in nodes])


def eliminated(
    factors: list[tuple[tuple[Hashable, ...], np.ndarray]], wanted: Sequence[Hashable]
) -> np.ndarray:
    """The sum of a product of tables over all columns but the wanted ones, column by column."""
    sizes = {n: s for nodes, table in factors for n, s in zip(nodes, table.shape, strict=True)}

    def joined(name: Hashable) -> list[Hashable]:
        near = [nodes for nodes, _ in factors if name in nodes]
        return list(dict.fromkeys(node for nodes in near for node in nodes))

    left = [name for name in sizes if name not in wanted]
    while left:
        name = min(left, key=lambda each: np.prod([float(sizes[n]) for n in joined(each)]))
        factors = _product(factors, joined(name), sizes, name)
        left.remove(name)
    ((nodes, table),) = _product(factors, list(wanted), sizes, None)
    table = np.transpose(table, [nodes.index(name) for name in wanted])
    return table / table.sum()


def _product(factors, nodes: list[Hashable], sizes: Mapping[Hashable, int], without: Hashable):
    """The factors with those of `without`, or all, multiplied into one, which is summed over it."""
    if np.prod([float(sizes[node]) for node in nodes]) > MOST_CELLS:
        raise ValueError(
            f"columns must be fewer: the marginal needs a table of more than {MOST_CELLS} cells"
        )
    table = np.ones([sizes[node] for node in nodes])
    rest = []
    for each, factor in factors:
        if without is not None and without not in each:
            rest.append((each, factor))
            continue
        within = [node for node in nodes if node in each]
        table = table * spread(in_order(factor, each, within), within, tuple(nodes))
    if without is None:
        return [(tuple(nodes), table)]
    kept = tuple(node for node in nodes if node != without)
    return [*rest, (kept, margin(table, tuple(nodes), kept))]
