"""Trees of cliques against sums over all configurations."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import minimize

from skdirdp.bayes_net.base import Family, sample_codes
from skdirdp.bayes_net.clique_tree import (
    CliqueTree,
    Measurement,
    clip_counts,
    clique_potentials,
    eliminate_variables,
    fit_tables,
)
from skdirdp.bayes_net.structure_learning import (
    StructureConstraints,
    learn_parents,
    parse_constraints,
)
from skdirdp.postprocessing.estimates import project_counts

PARENTS = {
    "a": (),
    "b": ("a",),
    "c": ("a", "b"),
    "d": ("b", "c"),
    "e": ("a",),
    "f": (),
}
SIZES = dict(zip("abcdef", (2, 3, 2, 4, 3, 2), strict=True))


def network(seed=0):
    rng = np.random.default_rng(seed)
    families = {
        node: Family(node, parents, SIZES[node], tuple(SIZES[p] for p in parents))
        for node, parents in PARENTS.items()
    }
    tables = {n: rng.dirichlet(np.ones(f.n_states), f.n_rows) for n, f in families.items()}
    return families, tables


def joint(families, tables):
    """Probabilities of all configurations, one by one."""
    result = np.empty(tuple(SIZES.values()))
    for states in product(*(range(size) for size in SIZES.values())):
        codes = {node: np.array([state]) for node, state in zip(SIZES, states, strict=True)}
        result[states] = np.prod(
            [tables[n][f.row_numbers(codes)[0], codes[n][0]] for n, f in families.items()]
        )
    return result


def margin_of(whole, nodes):
    axes = [list(SIZES).index(node) for node in nodes]
    table = whole.sum(axis=tuple(i for i in range(whole.ndim) if i not in axes))
    return np.transpose(table, [sorted(axes).index(axis) for axis in axes])


def test_cliques_are_the_largest_families_and_share_separators():
    tree = CliqueTree.from_parents(PARENTS, SIZES)
    assert sorted(map(set, tree.cliques), key=sorted) == [
        {"a", "b", "c"},
        {"a", "e"},
        {"b", "c", "d"},
        {"f"},
    ]
    for node in SIZES:  # the cliques that contain a node are connected
        holding = [i for i, clique in enumerate(tree.cliques) if node in clique]
        assert sum(tree.parents[i] not in holding for i in holding) == 1


def test_calibrated_tables_are_margins_of_the_product():
    families, tables = network()
    tree, products = clique_potentials(families, tables)
    whole = joint(families, tables)
    for clique, belief in zip(tree.cliques, tree.calibrate(products), strict=True):
        np.testing.assert_allclose(belief, margin_of(whole, clique), rtol=1e-12)


def test_conditionals_are_potentials_of_the_same_distribution():
    tree, products = clique_potentials(*network())
    beliefs = tree.calibrate(products)
    again = tree.calibrate(tree.conditionals(beliefs))
    for old, new in zip(beliefs, again, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-12)


@pytest.mark.parametrize("wanted", [*combinations("abcdef", 2), "dea", "fdb"])
def test_margins_across_cliques_are_sums_over_all_else(wanted):
    families, tables = network()
    tree, products = clique_potentials(families, tables)
    found = eliminate_variables(list(zip(tree.cliques, products, strict=True)), list(wanted))
    np.testing.assert_allclose(found, margin_of(joint(families, tables), wanted), rtol=1e-12)


def test_without_noise_the_measured_tables_are_recovered():
    families, tables = network()
    tree, products = clique_potentials(families, tables)
    truth = tree.calibrate(products)
    measured = [Measurement(c, 1e4 * t, 0.0) for c, t in zip(tree.cliques, truth, strict=True)]
    for table, found in zip(truth, fit_tables(tree, measured, 1e4, 2000), strict=True):
        np.testing.assert_allclose(found, table, atol=1e-5)


def test_noisy_tables_become_the_nearest_consistent_ones():
    """Against a solver of quadratic programs over the whole joint distribution."""
    parents, sizes = {"a": (), "b": ("a",), "c": ("b",)}, {"a": 2, "b": 2, "c": 2}
    tree = CliqueTree.from_parents(parents, sizes)
    rng = np.random.default_rng(3)
    measured = [
        Measurement(clique, rng.normal(25, 25, (2, 2)), sigma)
        for clique, sigma in zip(tree.cliques, (3.0, 5.0), strict=True)
    ]
    found = fit_tables(tree, measured, 100.0, 5000)

    def loss(p):
        p = p.reshape(2, 2, 2)
        tables = {("a", "b"): p.sum(axis=2), ("b", "c"): p.sum(axis=0)}
        errors = [(100 * tables[m.nodes] - m.values) / m.sigma for m in measured]
        return sum((error**2).sum() for error in errors) / 2

    best = minimize(
        loss,
        np.full(8, 1 / 8),
        method="SLSQP",
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-12},
    )
    p = best.x.reshape(2, 2, 2)
    expected = {("a", "b"): p.sum(axis=2), ("b", "c"): p.sum(axis=0)}
    for clique, table in zip(tree.cliques, found, strict=True):
        np.testing.assert_allclose(table, expected[clique], atol=2e-3)
    np.testing.assert_allclose(found[0].sum(axis=0), found[1].sum(axis=1), rtol=1e-9)


def test_nearest_counts_keep_the_total_and_the_order():
    values = np.array([5.0, -3.0, 2.0, 0.5])
    found = project_counts(values, 6.0)
    np.testing.assert_allclose(found, [4.5, 0.0, 1.5, 0.0])


def test_even_draws_have_the_networks_law_and_hardly_vary():
    families, tables = network()
    rng = np.random.default_rng(0)
    whole = joint(families, tables)
    codes = sample_codes(families, tables, 20_000, rng, even=True)
    for node in ("a", "f"):  # of which all records share one row
        counts = np.bincount(codes[node], minlength=SIZES[node])
        assert np.abs(counts - 20_000 * tables[node][0]).max() < 1
    counts = np.zeros(whole.shape)
    np.add.at(counts, tuple(codes[node] for node in SIZES), 1)
    assert np.abs(counts / 20_000 - whole).sum() < 0.1
    # One record of many is a draw like any other.
    alone = np.mean(
        [sample_codes(families, tables, 2, rng, even=True)["b"][0] for _ in range(4000)]
    )
    expected = margin_of(whole, "b") @ np.arange(3)
    assert alone == pytest.approx(expected, abs=4 * 0.9 / np.sqrt(4000))


# The search ------------------------------------------------------------------------


def grown(scores, price=0.0, constraints=None, max_parents=3, max_cells=10**6, size=3):
    names = list("abcdefgh")[: len(scores)]
    known = parse_constraints(constraints, names, max_parents)
    sizes = dict.fromkeys(names, size)
    return learn_parents(names, sizes, scores, price, max_parents, max_cells, known)


def random_scores(seed, n=8):
    scores = np.random.default_rng(seed).random((n, n))
    return scores + scores.T


def edges(parents):
    return {(parent, node) for node, above in parents.items() for parent in above}


def test_one_parent_gives_a_tree_of_the_largest_scores():
    from scipy.sparse.csgraph import minimum_spanning_tree

    scores = random_scores(0)
    found = edges(grown(scores, max_parents=1))
    np.fill_diagonal(scores, 0)
    tree = minimum_spanning_tree(-scores).nonzero()
    assert {frozenset(edge) for edge in found} == {
        frozenset("abcdefgh"[i] for i in pair) for pair in zip(*tree, strict=True)
    }


@pytest.mark.parametrize("seed", range(5))
def test_parents_always_lie_in_an_earlier_family(seed):
    families = []
    for node, above in grown(random_scores(seed)).items():
        assert len(above) <= 3
        assert not above or any(set(above) <= family for family in families)
        families.append({*above, node})


def test_a_larger_cell_cost_gives_smaller_families():
    scores = random_scores(1)
    number = [
        sum(map(len, grown(scores, price=price).values())) for price in (0.0, 0.02, 0.1, 10.0)
    ]
    assert number == sorted(number, reverse=True)
    assert number[0] == 3 * 8 - 6
    assert number[-1] == 0


def test_no_table_is_larger_than_allowed():
    for above in grown(random_scores(2), max_cells=30).values():
        assert 3 ** (len(above) + 1) <= 30


@pytest.mark.parametrize("seed", range(5))
def test_constraints_on_a_structure_hold(seed):
    known = {
        "required": [("a", "c"), ("b", "c"), ("c", "h")],
        "forbidden": [("d", "e"), ("e", "d")],
        "order": ["h", "f", "g"],
    }
    found = grown(random_scores(seed), constraints=known)
    assert set(known["required"]) <= edges(found)
    assert not edges(found) & set(known["forbidden"])
    positions = {node: i for i, node in enumerate(found)}
    assert positions["h"] < positions["f"] < positions["g"]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"edges": []}, "constraints must be None or a dict"),
        ({"required": [("a",)]}, "pairs"),
        ({"required": ["ab"]}, "pairs"),
        ({"forbidden": [("a", "z")]}, "'z' is not one"),
        ({"order": ["a", "a"]}, "duplicates"),
        ({"required": [("a", "b"), ("b", "a")]}, "cycle"),
        ({"required": [("a", "b")], "order": ["b", "a"]}, "cycle"),
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "forbid"),
        ({"required": [(p, "e") for p in "abcd"]}, "max_parents=3"),
    ],
)
def test_knowledge_that_contradicts_itself_is_refused(known, message):
    with pytest.raises(ValueError, match=message):
        parse_constraints(known, list("abcde"), 3)


def test_no_constraints_are_no_restriction():
    assert parse_constraints(None, ["a"], 3) == StructureConstraints()


def test_clipped_counts_are_probabilities_even_if_all_are_negative():
    np.testing.assert_allclose(
        clip_counts(np.array([[-1.0, 3.0], [1.0, 0.0]])), [[0, 0.75], [0.25, 0]]
    )
    np.testing.assert_allclose(clip_counts(np.array([-1.0, 0.0, -2.0])), 1 / 3)
