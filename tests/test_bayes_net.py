"""PrivateBayesNetMLE: agreement with pgmpy, privacy, and no exact counts after fit."""

import pickle
import warnings
from decimal import Decimal
from enum import Enum
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from skdirdp import PrivacyLeakWarning
from skdirdp.accounting import Composition
from skdirdp.base import Budget, ReleaseContext
from skdirdp.bayes_net import PrivateBayesNetMLE
from skdirdp.bayes_net.bayes_net_mle import parse_structure
from skdirdp.mechanisms import JointMechanism
from skdirdp.mechanisms.splitting import expected_divergence
from skdirdp.mechanisms.tables import CountTable
from tests.probes import Recorder, drawn_tables, encodings

INF = float("inf")

WEATHER = {"rain": [], "season": [], "sprinkler": ["season"], "wet": ["rain", "sprinkler"]}
STATES = {
    "rain": ["no", "yes"],
    "season": ["winter", "spring", "summer", "autumn"],
    "sprinkler": ["off", "on"],
    "wet": ["dry", "damp", "wet"],
}


def weather(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    rain, season = rng.integers(2, size=n), rng.integers(4, size=n)
    sprinkler = (rng.random(n) < season / 5).astype(int)
    wet = np.minimum(rng.integers(2, size=n) + rain + sprinkler, 2)
    codes = {"rain": rain, "season": season, "sprinkler": sprinkler, "wet": wet}
    return pd.DataFrame({name: np.array(STATES[name])[codes[name]] for name in WEATHER})


def public(**parameters):
    """An estimator with every public parameter given, so that nothing leaks or warns."""
    return PrivateBayesNetMLE(WEATHER, **{"states": STATES, "target": "rain", **parameters})


# Networks that come with pgmpy -----------------------------------------------------


@pytest.fixture(scope="module", params=["asia", "alarm", "insurance"])
def bundled(request):
    """A network, and records drawn from it."""
    from pgmpy.utils import get_example_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of one that downloads
        network = get_example_model(request.param)
    states = network.states
    tables = {}
    for node, parents in parse_structure(network).items():
        cpd = network.get_cpds(node)
        axes = [cpd.variables.index(name) for name in (*parents, node)]
        tables[node] = cpd.values.transpose(axes).reshape(-1, len(states[node]))
    model = PrivateBayesNetMLE(network, states=states, epsilon=INF)
    model.fit(pd.DataFrame({node: [states[node][0]] for node in network.nodes()}))
    model.probabilities_ = tables  # sampling is checked by itself below
    return network, model.sample(2000, random_state=1)


def values_like(cpd, other):
    """The values of a CPD with the axes of another of the same variables."""
    assert set(cpd.variables) == set(other.variables)
    for name in cpd.variables:
        assert list(cpd.state_names[name]) == list(other.state_names[name])
    return cpd.values.transpose([cpd.variables.index(name) for name in other.variables])


@pytest.mark.parametrize("kind", ["str", "category"])
def test_infinite_epsilon_is_pgmpys_estimate(bundled, kind):
    from pgmpy.parameter_estimator import DiscreteBayesianEstimator, DiscreteMLE

    network, X = bundled
    X = X.astype(kind)
    likelihood = DiscreteMLE(state_names=network.states)
    smoothed = DiscreteBayesianEstimator(
        state_names=network.states, prior_type="dirichlet", pseudo_counts=0.7
    )
    for alpha, theirs in ((0.0, likelihood), (0.7, smoothed)):
        ours = PrivateBayesNetMLE(network, states=network.states, epsilon=INF, alpha=alpha).fit(X)
        assert ours.model_.check_model()
        assert set(ours.model_.edges()) == set(network.edges())
        for cpd in theirs.fit(network, X).parameters_:
            mine = values_like(ours.model_.get_cpds(cpd.variable), cpd)
            np.testing.assert_allclose(mine, cpd.values, rtol=0, atol=1e-12)


def random_records(states, n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.choice(values, n) for name, values in states.items()})


def test_predictions_are_those_of_variable_elimination(bundled):
    from pgmpy.inference import VariableElimination

    network, X = bundled
    records = random_records(network.states, 200)
    # One in the middle of the network: with parents and children.
    target = max(network.nodes(), key=lambda node: len(network.get_markov_blanket(node)))
    model = PrivateBayesNetMLE(network, states=network.states, target=target, epsilon=10.0).fit(X)
    ours = model.predict_proba(records)
    engine = VariableElimination(model.model_)
    others = records.drop(columns=target)
    for probabilities, evidence in zip(ours, others.to_dict("records"), strict=True):
        theirs = engine.query([target], evidence, show_progress=False)
        assert theirs.state_names[target] == list(model.classes_)
        np.testing.assert_allclose(probabilities, theirs.values, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(others), model.classes_[ours.argmax(axis=1)])


def goodness_of_fit(drawn, model):
    """The chi-squared p-value of records under a model's tables, rows of few counts apart."""
    statistic = degrees = 0
    for node, parents in model.structure_.items():
        names = (*parents, node)
        sizes = [len(model.states_[name]) for name in names]
        codes = [pd.Categorical(drawn[name], model.states_[name]).codes for name in names]
        cells = np.bincount(np.ravel_multi_index(codes, sizes), minlength=np.prod(sizes))
        observed = cells.reshape(-1, sizes[-1])
        expected = observed.sum(axis=1, keepdims=True) * model.probabilities_[node]
        enough = expected.min(axis=1) >= 5
        statistic += np.sum((observed - expected)[enough] ** 2 / expected[enough])
        degrees += enough.sum() * (sizes[-1] - 1)
    return chi2.sf(statistic, degrees)


def test_samples_follow_the_fitted_tables(bundled):
    network, X = bundled
    model = PrivateBayesNetMLE(network, states=network.states, epsilon=10.0).fit(X)
    drawn = model.sample(20_000, random_state=5)
    assert list(drawn.columns) == list(X.columns)
    assert 1e-4 < goodness_of_fit(drawn, model) < 1 - 1e-4
    # The same test rejects samples of another fit.
    assert goodness_of_fit(drawn, model.fit(X)) < 1e-4


def test_scores_are_pgmpys_probabilities(bundled):
    network, X = bundled
    model = PrivateBayesNetMLE(network, states=network.states).fit(X)
    few = X.iloc[:2]
    theirs = [model.model_.get_state_probability(row) for row in few.to_dict("records")]
    np.testing.assert_allclose(model.score_samples(few), np.log(theirs), rtol=1e-9)
    assert model.score(few) == pytest.approx(np.mean(np.log(theirs)), rel=1e-9)


def test_pgmpy_simulates_infers_and_writes_the_network(tmp_path):
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader, BIFWriter

    network = public().fit(weather()).model_
    assert network.check_model()
    assert network.states == STATES
    assert len(network.simulate(50, seed=0, show_progress=False)) == 50
    answer = VariableElimination(network).query(["wet"], {"rain": "yes"}, show_progress=False)
    assert answer.values.sum() == pytest.approx(1.0)
    path = str(tmp_path / "network.bif")
    BIFWriter(network).write(path)
    again = BIFReader(path).get_model()
    for node in WEATHER:
        ours, theirs = network.get_cpds(node), again.get_cpds(node)
        order = [list(theirs.state_names[node]).index(state) for state in STATES[node]]
        assert theirs.values.shape == ours.values.shape
        if not WEATHER[node]:
            np.testing.assert_allclose(theirs.values[order], ours.values, atol=1e-6)


# Structures ------------------------------------------------------------------------


def test_all_forms_of_a_structure_agree():
    from pgmpy.base import DAG
    from pgmpy.models import DiscreteBayesianNetwork

    edges = [("season", "sprinkler"), ("rain", "wet"), ("sprinkler", "wet"), ("moon",)]
    mapping = {"moon": [], "sprinkler": ["season"], "wet": ("rain", "sprinkler")}
    graphs = [DAG(), DiscreteBayesianNetwork()]
    for graph in graphs:
        graph.add_nodes_from(["moon"])
        graph.add_edges_from(edges[:3])
    expected = {**WEATHER, "moon": []}
    for structure in (edges, iter(edges), mapping, *graphs):
        parsed = parse_structure(structure)
        assert {node: sorted(parents) for node, parents in parsed.items()} == expected
        order = list(parsed)
        assert all(
            order.index(parent) < order.index(node) for node in order for parent in parsed[node]
        )


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], "no cycle"),
        ([("a", "a")], "no cycle"),
        ([(["a"], "b")], "nodes that can be hashed"),
        ({"a": [["b"]]}, "nodes that can be hashed"),
        ({"a": ["b"], "b": ["a"]}, "no cycle"),
        ([("a", "b"), ("a", "b")], "duplicate"),
        ({"a": ["b", "b"]}, "each edge once"),
        ({"a": "b"}, "as a list"),
        ({"a": 3}, "as a list"),
        (["ab"], "pairs"),
        ([("a", "b", "c")], "pairs"),
        ([3], "pairs"),
        ([], "at least one node"),
        ({}, "at least one node"),
        (3, "structure must be edges"),
        ("ab", "structure must be edges"),
    ],
)
def test_a_bad_structure_is_rejected(structure, message):
    X = pd.DataFrame({name: [0, 1] for name in "abc"})
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateBayesNetMLE(structure, states={"a": [0, 1]}).fit(X)


def test_a_node_without_edges_is_independent():
    X = weather()
    model = PrivateBayesNetMLE(
        {"rain": [], "wet": []}, states={name: STATES[name] for name in ("rain", "wet")}
    ).fit(X)
    assert list(model.sample(5).columns) == ["rain", "wet"]
    assert model.model_.check_model()
    model.set_params(target="wet")
    # No column of X is informative.
    np.testing.assert_allclose(
        model.predict_proba(X), np.broadcast_to(model.probabilities_["wet"], (len(X), 3))
    )


# Containers ------------------------------------------------------------------------


def as_array(X, dtype=object):
    return X.to_numpy(dtype=dtype)


def test_all_containers_give_the_same_tables():
    X = weather()
    exact = public(epsilon=INF)
    expected = exact.fit(X).probabilities_
    names = list(X.columns)
    integers = X.apply(lambda column: pd.Categorical(column, STATES[column.name]).codes)
    numbered = {name: range(len(values)) for name, values in STATES.items()}
    kinds = [
        (X.astype("category"), {}),
        (X.astype(object), {}),
        (X[["wet", "season", "rain", "sprinkler"]].assign(other=1.5), {}),
        (X.set_index(np.arange(len(X)) % 7), {}),
        (as_array(X), {"columns": names}),
        (as_array(X, str), {"columns": names}),
        (as_array(X).tolist(), {"columns": names}),
        (integers, {"states": numbered}),
        (integers.astype("Int64"), {"states": numbered}),
        (integers.astype(float), {"states": numbered}),
        (integers.to_numpy(), {"states": numbered, "columns": names}),
    ]
    for table, parameters in kinds:
        found = clone(exact).set_params(**parameters).fit(table).probabilities_
        for node in WEATHER:
            np.testing.assert_array_equal(found[node], expected[node])


def test_polars_gives_the_same_tables():
    polars = pytest.importorskip("polars")
    X = weather()
    frame = polars.DataFrame({name: X[name].tolist() for name in X})
    model, expected = public(epsilon=INF).fit(frame), public(epsilon=INF).fit(X)
    for node in WEATHER:
        np.testing.assert_array_equal(model.probabilities_[node], expected.probabilities_[node])
    np.testing.assert_array_equal(model.predict(frame.drop("rain")), expected.predict(X))
    categories = frame.with_columns(polars.col("wet").cast(polars.Categorical))
    np.testing.assert_array_equal(model.score_samples(categories), expected.score_samples(X))
    missing = frame.with_columns(polars.lit(None).alias("wet"))
    with pytest.raises(ValueError, match="missing values; column 'wet'"):
        model.fit(missing)


def test_columns_of_an_array_may_be_numbers():
    X = np.random.default_rng(0).integers(2, size=(500, 3))
    states = {column: [0, 1] for column in range(3)}
    model = PrivateBayesNetMLE([(0, 1), (1, 2)], states=states, target=1).fit(X)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
    # The target's column may be left out, wherever it stands.
    np.testing.assert_array_equal(model.predict(X[:, [0, 2]]), model.predict(X))
    with pytest.raises(ValueError, match="must have 3 columns; got 5"):
        model.predict(np.zeros((4, 5)))


def test_states_of_mixed_types_keep_their_types():
    values = [0, "none", 2.5, True]
    X = pd.DataFrame({"a": [0, "none", 2.5, 0], "b": [(1, 2), (3, 4), (1, 2), (1, 2)]})
    states = {"a": values[:3], "b": [(1, 2), (3, 4)]}
    model = PrivateBayesNetMLE([("a", "b")], states=states, target="b", epsilon=INF).fit(X)
    assert model.predict(X).tolist() == X["b"].tolist()
    drawn = model.sample(200, random_state=0)
    assert set(drawn["b"]) == {(1, 2), (3, 4)}
    assert set(drawn["a"]) == {0, "none", 2.5}


def test_labels_of_predictions_have_the_type_of_the_states():
    X = pd.DataFrame({"a": [True, False, True], "b": [1, 2, 2]})
    states = {"a": [False, True], "b": [1, 2]}
    model = PrivateBayesNetMLE([("a", "b")], states=states, target="a").fit(X)
    assert model.predict(X).dtype == bool
    assert model.set_params(target="b").predict(X).dtype.kind == "i"
    assert public().fit(weather()).predict(weather()).dtype.kind == "U"


# Unobserved rows --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, INF])
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_unobserved_configurations_have_a_valid_row(epsilon, mechanism):
    X = weather().query("rain == 'no' and season == 'winter'")
    model = public(epsilon=epsilon, mechanism=mechanism, alpha=0.0).fit(X)
    for table in model.probabilities_.values():
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        assert (table >= 0).all() if np.isinf(epsilon) else (table > 0).all()
    if np.isinf(epsilon):
        # rain = yes, as pgmpy's maximum likelihood has it
        np.testing.assert_allclose(model.probabilities_["wet"][2:], 1 / 3)


def test_impossible_evidence_gives_equal_probabilities():
    X = pd.DataFrame({"a": [0, 0, 1], "b": [0, 0, 0], "c": [1, 0, 1]})
    states = {name: [0, 1] for name in "abc"}
    model = PrivateBayesNetMLE(
        {"b": ["a"], "c": ["b"]}, states=states, target="a", epsilon=INF, alpha=0.0
    ).fit(X)
    assert model.score_samples(X.assign(b=1))[0] == -INF
    np.testing.assert_array_equal(model.predict_proba(X.assign(b=1)), 0.5)
    # b = 1 is impossible for every a: pgmpy has no answer
    model.set_params(target="c")
    np.testing.assert_array_equal(model.predict_proba(X[["b"]].assign(b=1)), 0.5)
    model.set_params(target="a")
    partial = model.predict_proba(pd.DataFrame({"c": [0, 1]}))
    np.testing.assert_allclose(partial, [[2 / 3, 1 / 3]] * 2)


# Partial evidence ------------------------------------------------------------------


def by_enumeration(model, evidence):
    """P(target | evidence) by summing over all records."""
    records = pd.DataFrame(list(product(*STATES.values())), columns=list(STATES))
    weights = np.exp(model.score_samples(records))
    for name, value in evidence.items():
        weights = weights * (records[name] == value)
    sums = [weights[records["rain"] == state].sum() for state in STATES["rain"]]
    return np.array(sums) / np.sum(sums)


def test_partial_evidence_is_exact():
    X = weather(n=60)
    model = public().fit(X)
    cases = [[], ["season"], ["wet"], ["season", "wet"]]
    for columns in cases:
        found = model.predict_proba(X[columns])
        assert len(found) == len(X)
        for k, probabilities in enumerate(found):
            evidence = X[columns].iloc[k].to_dict()
            np.testing.assert_allclose(
                probabilities, by_enumeration(model, evidence), rtol=0, atol=1e-9
            )


def test_a_missing_value_is_partial_evidence_of_its_record():
    X = weather(n=40)
    model = public().fit(X)
    holes = X.astype(object)
    holes.loc[::3, "sprinkler"] = None
    holes.loc[::4, "wet"] = np.nan
    found = model.predict_proba(holes)
    for probabilities, (_, row) in zip(found, holes.iterrows(), strict=True):
        evidence = row.drop("rain").dropna().to_dict()
        np.testing.assert_allclose(
            probabilities, by_enumeration(model, evidence), rtol=0, atol=1e-9
        )


def test_only_the_blanket_is_needed():
    X = weather()
    model = public().fit(X)
    # Given sprinkler, rain is independent of the season; pgmpy is not called.
    near = model.predict_proba(X[["sprinkler", "wet"]])
    np.testing.assert_array_equal(near, model.predict_proba(X))
    assert "model_" not in vars(model)


def test_the_error_for_a_renamed_column_names_the_missing_one():
    X = weather(n=40)
    model = public().fit(X.assign(id=range(40)))
    renamed = X.rename(columns={"wet": "Wet", "season": "time"})
    missing = r"it lacks \['season', 'wet'\] and has \['time', 'Wet'\]"
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=missing):
            ask(renamed)
        with pytest.raises(ValueError, match=r"it lacks \['season', 'sprinkler', 'wet'\] and has"):
            ask(X.rename(columns=str.upper))
    # Nothing is missing, or nothing is unknown: a column more, a column less, one not used.
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X.assign(new=1)), expected)
    np.testing.assert_array_equal(model.predict_proba(X.drop(columns="rain")), expected)
    assert model.predict_proba(X[["wet"]].assign(id=0)).shape == (40, 2)


def test_a_table_without_evidence_warns():
    X = weather(n=40)
    model = public().fit(X.assign(id=range(40)))
    with pytest.warns(UserWarning, match="all records get the same prediction"):
        found = model.predict_proba(X[["rain"]].assign(id=0))
    np.testing.assert_allclose(found, np.tile(model.probabilities_["rain"], (40, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateBayesNetMLE([("rain",)], states={"rain": STATES["rain"]}, target="rain").fit(
            X[["rain"]]
        ).predict(X[["rain"]])
        np.testing.assert_allclose(model.predict_proba(X[[]]), found)


def test_the_target_may_change_after_fitting():
    X = weather()
    model = public(target=None).fit(X)
    assert not hasattr(model, "classes_")
    for method in ("predict", "predict_proba"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match=f"no attribute '{method}'") as caught:
            getattr(model, method)
        assert str(caught.value.__cause__) == "target must be given to predict; got None"
    for target in WEATHER:
        model.set_params(target=target)
        assert model.predict_proba(X).shape == (len(X), len(STATES[target]))
        assert list(model.classes_) == STATES[target]
    with pytest.raises(ValueError, match="target must be a node"):
        model.set_params(target="moon").predict(X)


# The guarantee ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "adjacency"),
    [("even", "replace"), ("optimised", "replace"), ("optimised", "add_remove")],
)
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace", "auto"])
@pytest.mark.parametrize("budget", [{"epsilon": 0.8}, {"epsilon": 0.3, "order": 4.0}])
def test_all_that_a_fit_releases_stays_within_its_budget(split, adjacency, mechanism, budget):
    recorder = Recorder()
    model = public(
        split=split,
        adjacency=adjacency,
        mechanism=mechanism,
        n_samples=2000,
        accountant=recorder,
        **budget,
    ).fit(weather())
    total = Composition(model.privacy_.mechanisms)
    assert model.privacy_.releases == 4
    assert model.privacy_.adjacency == total.adjacency == adjacency
    if "order" in budget:
        assert model.privacy_.delta is None
        assert 0.99 * 0.3 < total.rdp(4.0) <= 0.3
    else:
        assert 0.99 * 0.8 < total.epsilon(1e-5) <= 0.8
    # The charged mechanisms are the released ones.
    ((charged, releases, label),) = recorder.charges
    assert label == "PrivateBayesNetMLE"
    parts = charged.parts if isinstance(charged, JointMechanism) else ((charged, releases),)
    assert parts == model.privacy_.mechanisms
    assert Composition([(charged, releases)]).rdp(3.0) == pytest.approx(total.rdp(3.0))


@pytest.mark.parametrize("calibration", ["algorithm1", "tcdp"])
def test_the_papers_calibrations_split_evenly_and_cost_less(calibration):
    model = public(calibration=calibration).fit(weather())
    ((_, releases),) = model.privacy_.mechanisms
    assert releases == 4
    assert Composition(model.privacy_.mechanisms).epsilon(1e-5) < 1.0


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace", "auto"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_optimised_split_is_not_expected_to_be_worse(mechanism, epsilon):
    sizes = [len(STATES[node]) for node in WEATHER]
    rows = [1, 1, 4, 4]
    tables = [CountTable(500, size, row) for size, row in zip(sizes, rows, strict=True)]

    def divergence(split):
        model = public(mechanism=mechanism, epsilon=epsilon, order=3.0, split=split)
        return expected_divergence(tables, model._calibrate(tables, Budget.from_estimator(model)))

    assert divergence("optimised") <= divergence("even")


def test_a_replaced_record_moves_one_count_per_table(monkeypatch):
    released = ReleaseContext.release
    X = weather(n=50)
    rng = np.random.default_rng(0)

    def exact_tables(X):
        seen = []

        def release(context, plan):
            seen.extend(counts for _, counts in plan._tables)
            return released(context, plan)

        monkeypatch.setattr(ReleaseContext, "release", release)
        public().fit(X)
        return seen

    before = exact_tables(X)
    for row in range(len(X)):
        other = X.copy()
        other.iloc[row] = [rng.choice(STATES[name]) for name in X]
        for old, new in zip(before, exact_tables(other), strict=True):
            assert np.abs(new - old).sum() <= 2
            assert np.abs(new - old).max() <= 1


def test_a_node_of_one_state_costs_nothing():
    X = weather().assign(planet="earth")
    structure = {**WEATHER, "planet": ["rain"]}
    model = PrivateBayesNetMLE(structure, states={**STATES, "planet": ["earth"]}).fit(X)
    assert model.privacy_.releases == 4
    np.testing.assert_array_equal(model.probabilities_["planet"], [[1.0], [1.0]])
    assert model.model_.check_model()
    alone = PrivateBayesNetMLE({"planet": []}, states={"planet": ["earth"]}).fit(X)
    assert alone.privacy_.releases == 0
    assert alone.sample(3)["planet"].tolist() == ["earth"] * 3
    assert alone.score(X) == 0.0


def test_secure_noise_differs_between_fits_and_a_seed_warns_and_repeats():
    X = weather()
    model = public()
    first = model.fit(X).score_samples(X)
    assert not np.array_equal(first, model.fit(X).score_samples(X))
    seeded = public(random_state=3)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        first = seeded.fit(X).score_samples(X)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        np.testing.assert_array_equal(first, seeded.fit(X).score_samples(X))


def test_alpha_is_the_least_smoothing():
    X = weather()
    for alpha in (0.0, 1.0, 300.0):
        model = public(alpha=alpha, epsilon=5.0, order=3.0).fit(X)
        assert list(model.alpha_) == list(model.structure_)
        assert min(model.alpha_.values()) >= alpha * (1 - 1e-9)


# Nothing exact is kept -------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_a_fitted_model_stores_no_exact_count(mechanism):
    a = np.repeat([0, 1], [12347, 23459])
    b = (np.arange(len(a)) < 5683).astype(int)
    X = pd.DataFrame({"a": a, "b": b})
    states = {"a": [0, 1], "b": [0, 1]}
    model = PrivateBayesNetMLE([("a", "b")], states=states, mechanism=mechanism, target="a").fit(X)
    assert model.model_.check_model()
    model.predict(X)
    kept = pickle.dumps(model) + repr(vars(model)).encode() + repr(model).encode()
    kept += model._repr_html_().encode() + str(model.privacy_).encode()
    for secret in (12347, 23459, 5683, 12347 - 5683, len(a) - 5683):
        assert not any(code in kept for code in encodings(secret))


def test_a_model_survives_a_pickle():
    X = weather()
    model = public().fit(X)
    for state in ("fresh", "with its network"):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.model_.check_model(), state
        assert model.model_ is model.model_
        assert again.privacy_ == model.privacy_


# A scikit-learn estimator ----------------------------------------------------------


def test_clones_have_the_same_parameters_and_no_fit():
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork([("rain", "wet")])
    model = PrivateBayesNetMLE(network, states={k: STATES[k] for k in ("rain", "wet")}, alpha=0.3)
    copy = clone(model.fit(weather()))
    assert copy.get_params()["alpha"] == 0.3
    assert list(copy.structure.edges()) == list(network.edges())
    with pytest.raises(NotFittedError):
        copy.score(weather())
    with pytest.raises(NotFittedError):
        copy.sample(3)
    assert not hasattr(copy, "model_")
    assert copy.fit(weather()).score(weather()) < 0


def test_a_grid_search_uses_its_own_score():
    recorder = Recorder()
    grid = {"alpha": [0.5, 50.0], "mechanism": ["dirichlet", "auto"]}
    model = public(accountant=recorder, epsilon=5.0, order=3.0)
    search = GridSearchCV(model, grid, cv=3).fit(weather())
    assert len(recorder.charges) == 2 * 2 * 3 + 1
    assert search.best_score_ < 0
    assert search.best_estimator_.sample(3).shape == (3, 4)
    assert search.score(weather()) == search.best_estimator_.score(weather())


def test_a_pipeline_may_end_in_it():
    X = weather()
    names = list(X.columns)
    encoder = OrdinalEncoder(categories=[STATES[name] for name in names], dtype=int)
    states = {name: range(len(STATES[name])) for name in names}
    model = PrivateBayesNetMLE(WEATHER, states=states, columns=names, target="rain")
    pipeline = make_pipeline(encoder, model).fit(X)
    assert set(pipeline.predict(X)) <= {0, 1}
    assert pipeline.score(X) < 0
    assert make_pipeline(FunctionTransformer(), public()).fit(X).predict_proba(X).shape == (2000, 2)


def test_fitted_attributes_describe_the_columns():
    X = weather().assign(other=3)
    model = public().fit(X)
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(X.columns) == model.columns_
    assert model.structure_ == {name: tuple(parents) for name, parents in WEATHER.items()}
    assert model.states_ == STATES
    assert "4 tables released" in str(model.privacy_)


# Missing and invalid parameters ------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"states": None}, ["states"]),
        ({"states": {k: STATES[k] for k in ("rain", "season", "wet")}}, ["states['sprinkler']"]),
        ({"adjacency": "add_remove"}, ["n_samples"]),
        ({"adjacency": "add_remove", "states": None}, ["states", "n_samples"]),
    ],
)
def test_a_missing_public_parameter_warns_by_name(parameters, names):
    with pytest.warns(PrivacyLeakWarning) as caught:
        model = public(**parameters).fit(weather())
    assert len(caught) == 1
    assert str(caught[0].message).split(":")[0].split(", ") == names
    assert {name: sorted(values) for name, values in model.states_.items()} == {
        name: sorted(values) for name, values in STATES.items()
    }


def test_states_from_the_data_are_those_that_occur():
    X = weather().astype("category").query("season != 'winter'")
    assert public(states=None, epsilon=INF).fit(X).states_["season"] == [
        "autumn",
        "spring",
        "summer",
    ]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"states": {"moon": [1]}}, "states must name nodes"),
        ({"states": {**STATES, "rain": []}}, "'rain': values must have at least one entry"),
        ({"states": {**STATES, "rain": "no"}}, "must be a list"),
        ({"states": {**STATES, "rain": 2}}, "must be a list"),
        ({"states": {**STATES, "rain": ["no", "no", "yes"]}}, "'rain': values must be distinct"),
        ({"states": {**STATES, "rain": ["no", None, "yes"]}}, "'rain': values must not be missing"),
        ({"states": {**STATES, "rain": [["no"], ["yes"]]}}, "'rain': values must be hashable"),
        ({"states": [1, 2]}, "states"),
        ({"target": "moon"}, "target must be a node"),
        ({"target": ["rain"]}, "target must be a node"),
        ({"alpha": -1.0}, "alpha"),
        ({"split": "unfair"}, "split"),
        ({"max_cells": 0}, "max_cells"),
        ({"max_cells": 11}, "max_cells=11 .* 'wet' has 12 cells"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"order": 1.0}, "order"),
        ({"mechanism": "exponential"}, "mechanism"),
        ({"calibration": "loose"}, "calibration"),
        ({"calibration": "tcdp", "mechanism": "gaussian"}, "calibration"),
        ({"adjacency": "both"}, "adjacency"),
        ({"n_samples": 0}, "n_samples"),
        ({"accountant": "a file"}, "accountant"),
        ({"epsilon": 1e-320, "delta": 1e-300}, "epsilon"),
    ],
)
def test_a_bad_parameter_is_named_before_any_charge(parameters, message):
    recorder = Recorder()
    model = public(**{"accountant": recorder, **parameters})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(weather())
    assert recorder.charges == []
    assert not hasattr(model, "privacy_")


def test_bad_data_is_rejected_before_any_charge_and_the_model_stays():
    recorder = Recorder()
    X = weather()
    model = public(accountant=recorder).fit(X)
    before, kept = model.predict_proba(X), vars(model).copy()
    strange, missing = X.copy(), X.astype(object)
    strange.loc[17, "wet"] = "soaked86753"
    missing.loc[17, "season"] = None
    twice = pd.concat([X, X[["rain"]]], axis=1)
    bad = [
        (X.drop(columns=["rain", "wet"]), r"lacks \['rain', 'wet'\]"),
        (strange, "only declared values; column 'wet'"),
        (strange.astype("category"), "only declared values; column 'wet'"),
        (missing, "no missing values; column 'season'"),
        (missing.astype("category"), "no missing values; column 'season'"),
        (X.iloc[:0], "at least one record"),
        (twice, "duplicates"),
        (X.to_numpy(), "named by the parameter columns"),
        (X["rain"].to_numpy(), "two dimensions"),
        (X.assign(rain=[[1]] * len(X)), "only declared values"),
    ]
    for table, message in bad:
        with pytest.raises(ValueError, match=message) as caught:
            model.fit(table)
        assert "86753" not in str(caught.value)
    assert len(recorder.charges) == 1
    assert all(vars(model)[name] is value for name, value in kept.items())
    np.testing.assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="column 'wet'"):
        model.predict(strange)
    with pytest.raises(ValueError, match="column 'season'"):
        model.score(missing)
    with pytest.raises(ValueError, match="lacks"):
        model.score(X[["rain"]])


def test_a_second_fit_replaces_the_network_and_a_failed_one_keeps_it():
    X = weather()
    model = public().fit(X)
    first, scores = model.model_, model.score_samples(X)
    with pytest.raises(ValueError, match="lacks"):
        model.fit(X[["rain"]])
    assert model.model_ is first
    model.set_params(structure=[("rain", "wet")], states={k: STATES[k] for k in ("rain", "wet")})
    np.testing.assert_array_equal(model.score_samples(X), scores)
    model.fit(X)
    assert model.model_ is not first
    assert set(model.model_.nodes()) == {"rain", "wet"}


def test_a_rejected_charge_releases_nothing():
    class Bankrupt:
        def charge(self, mechanism, releases=1, label=None):
            raise RuntimeError("no budget left")

    model = public(accountant=Bankrupt())
    with pytest.raises(RuntimeError, match="no budget left"):
        model.fit(weather())
    assert not hasattr(model, "probabilities_")


@pytest.mark.parametrize("number", [-1, 2.5, "3", True])
def test_a_bad_number_of_samples_is_rejected(number):
    with pytest.raises((TypeError, ValueError), match="n_samples must be"):
        public().fit(weather()).sample(n_samples=number)


def test_samples_repeat_with_a_seed_of_any_kind():
    model = public().fit(weather())
    pd.testing.assert_frame_equal(model.sample(20, random_state=1), model.sample(20, 1))
    generator, state = np.random.default_rng(1), np.random.RandomState(1)
    assert model.sample(20, generator).shape == model.sample(20, state).shape == (20, 4)
    assert model.sample(0).shape == (0, 4)
    assert not model.sample(100).equals(model.sample(100))


# Record-wise encoding ----------------------------------------------------------------


def counted_tables(X, **parameters):
    """The exact tables of a fit, by node."""
    fit = {"groups": parameters.pop("groups", None)}
    model = PrivateBayesNetMLE([("a", "b")], n_samples=100, **parameters)
    with warnings.catch_warnings(), drawn_tables() as tables:
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model.fit(X, **fit)
    return model, [counts for _, counts in tables]


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "nullable", "object"])
def test_a_missing_value_that_is_not_counted_changes_no_table(kind):
    big = 2**53
    states = {"a": [big, big + 1], "b": [big, big + 1]}
    cells, groups = [big, big + 1] * 40, [*range(80), 0]

    def table(values):
        if kind == "polars":
            return pytest.importorskip("polars").DataFrame({"a": values, "b": values})
        if kind == "pyarrow":
            return pytest.importorskip("pyarrow").table({"a": values, "b": values})
        column = pd.Series(values, dtype="Int64" if kind == "nullable" else object)
        return pd.DataFrame({"a": column, "b": column})

    for odd in (big, None):
        _, tables = counted_tables(table([*cells, odd]), states=states, groups=groups)
        assert [each.tolist() for each in tables] == [[[40, 40]], [[40, 0], [0, 40]]]


def test_a_lone_surrogate_is_never_merged_with_its_repr():
    lone = "\udc80"
    states = {name: [lone, repr(lone), "c", 7] for name in "ab"}
    for odd, last in (("c", [1, 0]), (7, [0, 1])):
        cells = [lone] * 50 + [repr(lone)] * 50 + [odd]
        X = pd.DataFrame({name: pd.Series(cells, dtype=object) for name in "ab"})
        _, tables = counted_tables(X, states=states)
        assert tables[0].tolist() == [[50, 50, *last]]


def test_the_first_of_equal_objects_names_no_state():
    for first in (True, Decimal(1), 1.0, np.int64(1), 1):
        cells = [first, *[1, 2] * 100]
        X = pd.DataFrame({name: pd.Series(cells, dtype=object) for name in "ab"})
        model, tables = counted_tables(X, target="b")
        assert [(type(state), state) for state in model.states_["a"]] == [(int, 1), (int, 2)]
        assert tables[0].tolist() == [[101, 100]]
        assert model.classes_.dtype.kind == "i"
    truths = pd.DataFrame({"a": [True, False] * 9, "b": [False, True] * 9})
    assert [str(state) for state in counted_tables(truths)[0].states_["a"]] == ["False", "True"]


def test_states_are_not_objects_of_records():
    class Note(str):
        document = "patient 86753"

    X = pd.DataFrame(
        {name: pd.Series([Note("x"), np.str_("y")] * 9, dtype=object) for name in "ab"}
    )
    for states in (None, {"a": [Note("x"), "y"], "b": ("x", Note("y"))}):
        model, _ = counted_tables(X, states=states, target="a")
        for values in (*model.states_.values(), model.classes_.tolist()):
            assert {type(value) for value in values} == {str}
            assert values == ["x", "y"]


def test_objects_may_be_declared_states():
    class Colour(Enum):
        RED = 1
        BLUE = 2

    X = pd.DataFrame({"a": [*Colour] * 9, "b": [*Colour] * 9})
    _, tables = counted_tables(X, states={"a": list(Colour), "b": list(Colour)})
    assert tables[0].tolist() == [[9, 9]]
    with pytest.raises(ValueError, match="column 'a' has some that cannot be hashed or rebuilt"):
        counted_tables(X)


def test_the_index_of_a_table_that_pandas_wrote_is_no_column():
    pyarrow = pytest.importorskip("pyarrow")
    X = weather(50).set_index(np.arange(50) % 7)
    found = public(epsilon=INF).fit(pyarrow.Table.from_pandas(X))
    assert found.columns_ == list(X.columns)


def test_cells_of_a_list_are_not_converted():
    rows = [["x", "y"], ["y", "y"]] * 9
    states = {"a": ["x", "y"], "b": ["x", "y"]}
    _, tables = counted_tables(rows, states=states, columns=["a", "b"])
    for odd in (np.array(["x", "x"]), ("x", "x"), pd.Series(["x", "x"])):
        _, others = counted_tables([*rows, odd], states=states, columns=["a", "b"])
        assert (others[0] - tables[0]).tolist() == [[1, 0]]
    for odd, message in (("xx", "two dimensions"), (["x"], "same length"), ([["x"], "x"], "'a'")):
        with pytest.raises(ValueError, match=message):
            counted_tables([*rows, odd], states=states, columns=["a", "b"])
