"""Networks learnt from tables: the guarantee, the schema, synthetic records, inference."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdirdp import PrivacyAccountant, PrivateBayesNet, Schema
from skdirdp.accounting import Composition
from skdirdp.bayes_net.columns import BinCells, CategoryCells, ReleasedColumn
from skdirdp.bayes_net.structure_learning import (
    ReleaseSchedule,
    UnlistedColumn,
    select_categories,
)
from skdirdp.exceptions import BudgetExceededError, PrivacyLeakWarning
from skdirdp.mechanisms import GaussianMechanism
from skdirdp.mechanisms.additive import SelectionMechanism
from skdirdp.schema import Categories, Numbers
from skdirdp.schema.bins import _N_PARTS

from .probes import Recorder, drawn_tables, encodings
from .transcripts import fit_beside, listening, squared_distance

CITIES = [f"city {i}" for i in range(40)]
STATES = {"sex": ["f", "m"], "works": [True, False], "city": CITIES}
BOUNDS = {"age": (18, 90), "income": (0.0, 9000.0)}


def people(n=8000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, n)
    works = rng.random(n) < np.where(age < 66, 0.8, 0.1)
    income = np.where(works, rng.gamma(4, 600, n).clip(0, 9000), 0.0)
    income[rng.random(n) < 0.1] = np.nan
    city = rng.choice(CITIES, n, p=np.array([0.5, *np.full(39, 0.5 / 39)]))
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "works": works,
            "income": income,
            "city": city,
        }
    )


def learner(**parameters):
    return PrivateBayesNet(states=STATES, bounds=BOUNDS, **{"epsilon": 2.0, **parameters})


@pytest.fixture(scope="module")
def fitted():
    return PrivateBayesNet(states=STATES, bounds=BOUNDS, target="works", epsilon=8.0).fit(people())


# The guarantee ---------------------------------------------------------------------

WORST = {
    # A record more, where all pairs of columns agree more often than independent ones would.
    "add_remove": (
        pd.DataFrame(np.repeat([[0] * 4, [1] * 4, [2] * 4], 30, axis=0)),
        pd.DataFrame([[0] * 4]),
        pd.DataFrame(columns=range(4)),
    ),
    # A record that alone disagrees becomes one of those that agree.
    "replace": (
        pd.DataFrame(np.repeat([[0] * 2, [1] * 2, [2] * 2], 30, axis=0)),
        pd.DataFrame([[0, 1]]),
        pd.DataFrame([[2, 2]]),
    ),
}


@pytest.mark.parametrize("adjacency", WORST)
def test_worst_neighbours_use_exactly_the_charge(adjacency):
    """Every step's exact change, given all answers before, in deviations of its noise.

    By Theorem 7 the sum is that of the one Gaussian release that was charged.
    A claim half as large would be exceeded.
    """
    others, first, second = WORST[adjacency]
    X, other = (pd.concat([others, one], ignore_index=True) for one in (first, second))
    states = {name: [0, 1, 2] for name in others}
    model = PrivateBayesNet(states=states, epsilon=50.0, adjacency=adjacency)
    _, _, steps, replayed = fit_beside(model, X, other.astype(int))
    ((charged, releases),) = model.privacy_.mechanisms
    allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
    assert releases == 1
    assert 0.999 * allowed < squared_distance(steps, replayed) <= allowed


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_no_neighbours_exceed_the_charge(adjacency):
    rng = np.random.default_rng(0)
    X = people(300)
    for _ in range(15):
        other = X.copy()
        row = rng.integers(len(X))
        if adjacency == "replace":
            other.iloc[row] = people(1, seed=rng.integers(1000)).iloc[0]
            other = other.astype(X.dtypes)
        else:
            other = other.drop(index=row)
        model = learner(adjacency=adjacency, epsilon=rng.choice([0.5, 5.0, 50.0]))
        _, _, steps, replayed = fit_beside(model, X, other)
        ((charged, _),) = model.privacy_.mechanisms
        allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
        assert squared_distance(steps, replayed) <= allowed


def test_a_person_with_several_records_is_within_the_charge():
    X = people(200)
    X = pd.concat([X, X.iloc[[0, 0, 0]]], ignore_index=True)
    groups = [*range(200), 0, 0, 0]
    model = learner(adjacency="add_remove", max_rows=3, epsilon=20.0)
    with_person = [i for i in range(203) if groups[i] != 0]
    with listening() as steps:
        model.fit(X, groups=groups)
    with listening([drawn for *_, drawn in steps]) as replayed:
        clone(model).fit(X.iloc[with_person], groups=[groups[i] for i in with_person])
    ((charged, _),) = model.privacy_.mechanisms
    assert charged.adjacency == "add_remove_person"
    allowed = charged.contribution.squared_norm(charged.adjacency) / charged.sigma**2
    assert allowed / 2 < squared_distance(steps, replayed) <= allowed


def test_the_model_depends_on_the_releases_alone():
    """Other data that give the same answers lead to the same model, to the last bit."""
    X, other = people(500), people(500, seed=1)
    one, two, _, _ = fit_beside(learner(epsilon=20.0), X, other)
    assert one.structure_ == two.structure_
    assert one.states_ == two.states_
    for node in one.structure_:
        np.testing.assert_array_equal(one.probabilities_[node], two.probabilities_[node])
    assert pickle.dumps(one._released_) == pickle.dumps(two._released_)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("listed", [True, False])
def test_all_that_a_fit_releases_is_one_charge_within_the_budget(adjacency, listed):
    recorder = Recorder()
    states = STATES if listed else None
    model = PrivateBayesNet(states=states, bounds=BOUNDS, adjacency=adjacency, accountant=recorder)
    model.fit(people(2000))
    ((charged, releases, label),) = recorder.charges
    assert label == "PrivateBayesNet"
    assert 0.99 < Composition([(charged, releases)]).epsilon(1e-5) <= 1.0
    assert 0.99 < model.privacy_.composition().epsilon(1e-5) <= 1.0
    assert model.privacy_.not_covered == ()
    assert "differentially private" in str(model.privacy_)
    assert (model.privacy_.n_records is None) == (adjacency == "add_remove")


def test_a_budget_in_renyi_dp_needs_states():
    model = learner(order=4.0, epsilon=0.5).fit(people(500))
    assert 0.49 < model.privacy_.composition().rdp(4.0) <= 0.5
    with pytest.raises(ValueError, match="order must be None"):
        PrivateBayesNet(bounds=BOUNDS, order=4.0).fit(people(500))


def test_a_refused_charge_releases_nothing_and_keeps_the_model():
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    model = learner(epsilon=0.9, accountant=accountant).fit(people(500))
    before = vars(model).copy()
    with pytest.raises(BudgetExceededError):
        model.fit(people(500, seed=1))
    assert vars(model) == before
    assert len(accountant) == 1


def test_no_step_is_released_before_it_is_charged():
    schedule = ReleaseSchedule(GaussianMechanism(3.0), [], 4, 100)
    for release in (
        schedule.release_distances,
        lambda counts: schedule.release_columns({"a": counts}),
        lambda counts: schedule.release_cliques({("a",): counts}, {}),
    ):
        with pytest.raises(AssertionError, match="before it was charged"):
            release(np.ones(3))


def test_secure_noise_differs_between_fits_and_a_seed_warns_and_repeats():
    X = people(500)
    one, two = (learner().fit(X)._released_["sex"].group_shares for _ in range(2))
    assert not np.array_equal(one, two)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        one, two = (learner(random_state=3).fit(X) for _ in range(2))
    for node in one.structure_:
        np.testing.assert_array_equal(one.probabilities_[node], two.probabilities_[node])
    assert one.privacy_.not_covered == ("random_state",)


def test_a_fitted_model_holds_no_exact_count():
    a = np.repeat([0, 1], [12347, 23459])
    X = pd.DataFrame({"a": a, "b": (np.arange(len(a)) < 15683).astype(int)})
    model = PrivateBayesNet({"a": [0, 1], "b": [0, 1]}, target="a", adjacency="add_remove").fit(X)
    assert model.model_.check_model()
    model.predict(X)
    model.sample(10)
    kept = pickle.dumps(model) + repr(vars(model)).encode() + model._repr_html_().encode()
    for secret in (12347, 23459, 15683, len(a) - 15683):
        assert not any(code in kept for code in encodings(secret))


# The schema ------------------------------------------------------------------------


def test_unlisted_values_are_found_if_many_records_hold_them():
    X = people(20_000)
    X.loc[7, "city"] = "atlantis"
    model = PrivateBayesNet(
        states={k: v for k, v in STATES.items() if k != "city"}, bounds=BOUNDS
    ).fit(X)
    found = model._released_["city"].domain.states
    assert found[0] == "city 0"
    assert found[-1] == "other"
    assert "atlantis" not in str(vars(model))
    records = model.sample(20_000)
    assert (records["city"] == "city 0").mean() == pytest.approx(0.5, abs=0.03)
    assert set(records["city"]) <= {*found}


def test_a_name_of_one_record_is_published_as_rarely_as_is_charged():
    """At a failure of a fifth it is, in about a fifth of the cases or fewer."""
    mechanism = SelectionMechanism(3.0, failure=0.2)
    column = UnlistedColumn(np.array([0, *[1] * 500]), ["jane", "many"], False)
    rng = np.random.default_rng(0)
    published = np.mean(
        [
            "jane" in select_categories(mechanism, column.codes, column.distinct, rng).states
            for _ in range(2000)
        ]
    )
    assert 0.1 < published < 0.2 + 4 * np.sqrt(0.16 / 2000)


def test_published_names_do_not_reveal_the_order_of_the_data():
    X = people(4000)
    two = {k: v for k, v in STATES.items() if k != "sex"}
    for table in (X, X.iloc[::-1]):
        found = PrivateBayesNet(states=two, bounds=BOUNDS, epsilon=5.0).fit(table)
        found = found._released_["sex"].domain
        assert found.states == ("f", "m", "other")


def test_samples_have_the_columns_and_types_of_the_schema(fitted):
    records = fitted.sample(2000, random_state=0)
    assert list(records) == list(people(1))
    assert records["age"].dtype == np.int64
    assert records["income"].dtype == np.float64
    assert records["works"].dtype == bool
    assert set(records["sex"]) == {"f", "m"}
    assert records["age"].between(18, 90).all()
    assert records["income"].dropna().between(0, 9000).all()
    assert records["age"].nunique() > 60  # spread within bins
    assert records["income"].isna().mean() == pytest.approx(0.1, abs=0.03)
    assert (records["income"] == 0).mean() == pytest.approx(
        (people()["income"] == 0).mean(), abs=0.03
    )
    assert not records.drop(columns="income").isna().any().any()
    X = people(500).astype({"sex": pd.CategoricalDtype(["f", "m"])})
    categorical = learner().fit(X).sample(5)["sex"].dtype
    assert categorical == pd.CategoricalDtype(["f", "m"])


def test_missing_whole_numbers_are_drawn_as_nullable_integers():
    X = pd.DataFrame({"a": [1.0, 2.0, np.nan, np.nan] * 500})
    records = PrivateBayesNet(bounds={"a": (1, 3)}, epsilon=20.0).fit(X).sample(400)
    assert records["a"].dtype == "Int64"
    assert records["a"].isna().mean() == pytest.approx(0.5, abs=0.05)
    assert set(records["a"].dropna()) <= {1, 2, 3}


def test_rare_states_are_grouped_in_the_network_and_drawn_separately(fitted):
    rare = [state for state in fitted.states_["city"] if isinstance(state, tuple)]
    assert len(fitted.states_["city"]) < 41
    X = people(600)
    model = learner(epsilon=3.0).fit(X)
    (together,) = [state for state in model.states_["city"] if isinstance(state, tuple)]
    assert len(together) > 20
    assert model.sample(5000)["city"].nunique() > 20
    assert len(rare) <= 1


@pytest.mark.parametrize("bounds", [(0, 5), (-3, 100_000), (-2.5, 7.0), (1.0, 1.5), (0.0, 1e9)])
def test_every_value_lies_in_the_cell_that_draws_it(bounds):
    domain = BinCells.from_kind(Numbers.from_bounds(*bounds))
    edges = np.array(domain.edges)
    assert (np.diff(edges) > 0).all()
    assert domain.kind.whole == isinstance(bounds[0], int)
    cells = np.repeat(np.arange(domain.n_cells - 1), 50)
    drawn = domain.draw(cells, None, np.random.default_rng(0))
    assert bounds[0] <= drawn.min()
    assert drawn.max() <= bounds[1]
    np.testing.assert_array_equal(domain.from_codes(domain.kind.encode("x", drawn)), cells)
    values = pd.Series([bounds[0] - 1e3, bounds[1] + 1e3, np.inf, np.nan])
    beyond = domain.from_codes(domain.kind.encode("x", values))
    last = domain.n_cells - 1
    assert beyond.tolist() == [0, last - 1, last - 1, last]


def test_groups_of_numbers_are_runs_of_about_equal_size():
    domain = BinCells.from_kind(Numbers.from_bounds(0, 99))
    counts = np.append(np.full(100, 10.0), 0.0)
    counts[40] = 600.0
    column = ReleasedColumn.from_counts(
        domain, counts, counts.sum(), sigma=0.0, min_count=30.0, max_groups=100
    )
    sums = np.bincount(column.groups, counts)
    assert (np.diff(column.groups[:-1]) >= 0).all()
    assert 40 in column.states
    assert sums.min() >= 30
    assert len(sums) <= 33
    np.testing.assert_allclose(column.group_shares, sums / sums.sum(), atol=1e-3)


def test_groups_of_a_category_do_not_exceed_the_limit():
    domain = CategoryCells(Categories(tuple(range(500))))
    column = ReleasedColumn.from_counts(
        domain, np.arange(501.0), 125_250.0, sigma=0.0, min_count=0.0, max_groups=100
    )
    assert column.n_groups <= 100
    assert len(set(map(str, column.states))) == column.n_groups


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"states": {"sex": ["f", "m"]}, "bounds": {"age": (18, 90)}}, "bounds must be given"),
        ({"states": {"moon": ["x"]}}, "states must name columns of X; 'moon'"),
        ({"bounds": {"moon": (0, 1)}}, "bounds must name columns of X; 'moon'"),
        ({"bounds": {"sex": (0, 1)}}, "both be given for 'sex'"),
        ({"bounds": {**BOUNDS, "age": (90, 18)}}, "low < high"),
        ({"bounds": {**BOUNDS, "age": 7}}, "pair"),
        ({"states": {**STATES, "sex": ["f"]}}, "only declared values; column 'sex'"),
        ({"states": {**STATES, "sex": ["f", "m", "(missing)"]}}, "stands for missing values"),
        ({"target": "moon"}, "target must be a column"),
        ({"max_family_cells": 10**8}, "max_family_cells"),
        ({"max_family_cells": 10**7}, "fit into memory"),
        (
            {
                "constraints": {"required": [("city", "age"), ("sex", "age")]},
                "max_family_cells": 400,
            },
            "may have",
        ),
        ({"constraints": {"order": ["moon"]}}, "'moon' is not one"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-9, "delta": 1e-9}, "scale must be"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_a_bad_parameter_is_named_before_any_charge(parameters, message):
    recorder = Recorder()
    model = PrivateBayesNet(**{"states": STATES, "bounds": BOUNDS, **parameters})
    with pytest.raises(ValueError, match=message):
        model.set_params(accountant=recorder).fit(people(200))
    assert recorder.charges == []


def test_records_and_a_single_description_of_the_columns_are_needed():
    recorder = Recorder()
    schema = Schema({"sex": Schema.categories(["f", "m"])})
    table = people(20)[["sex"]]
    with pytest.raises(ValueError, match="at least one record"):
        PrivateBayesNet(schema, accountant=recorder).fit(table.iloc[:0])
    keys = Schema({"sex": Schema.key()})
    with pytest.raises(ValueError, match="at least one column that is counted"):
        PrivateBayesNet(keys, accountant=recorder).fit(table)
    with pytest.raises(ValueError, match="must not be given with a schema"):
        PrivateBayesNet(schema, states={"sex": ["f", "m"]}, accountant=recorder).fit(table)
    assert recorder.charges == []


def test_columns_of_a_marginal_are_distinct(fitted):
    with pytest.raises(ValueError, match="distinct"):
        fitted.marginal(["sex", "sex"])


def test_too_many_columns_are_refused_before_any_charge():
    recorder = Recorder()
    X = pd.DataFrame(np.zeros((2, 1001), dtype=int))
    with pytest.raises(ValueError, match="at most 1000 columns"):
        PrivateBayesNet(states={i: [0, 1] for i in range(1001)}, accountant=recorder).fit(X)
    assert recorder.charges == []


def test_text_among_numbers_is_refused_without_showing_it():
    X = people(100).astype({"age": object})
    X.loc[3, "age"] = "secret"
    with pytest.raises(ValueError, match="age") as error:
        learner().fit(X)
    assert "secret" not in str(error.value)


# The network -----------------------------------------------------------------------


def test_without_noise_the_network_is_that_of_the_data():
    X = people()
    model = learner(epsilon=float("inf"), alpha=0.0).fit(X)
    for pair in (["sex", "works"], ["works", "sex"]):
        found = model.marginal(pair)
        for states, probability in found.items():
            held = (X[pair[0]] == states[0]) & (X[pair[1]] == states[1])
            assert probability == pytest.approx(held.mean(), abs=0.01)


def test_post_processing_uses_the_same_release_and_is_more_accurate():
    X = people()
    with pytest.warns(PrivacyLeakWarning):
        best, plain = (
            learner(epsilon=0.5, alpha=0.0, postprocess=postprocess, random_state=0).fit(X)
            for postprocess in (True, False)
        )
    assert plain.structure_ == best.structure_
    assert plain.sigma_ == best.sigma_
    assert plain.privacy_ == best.privacy_
    assert plain.model_.check_model()
    # Negative counts become 0 without post-processing, and are smoothed with it.
    assert min(table.min() for table in plain.probabilities_.values()) < 1e-9
    assert min(table.min() for table in best.probabilities_.values()) > 1e-6
    assert best.score(X) > plain.score(X)


def test_the_model_is_a_pgmpy_network_with_the_same_answers(fitted):
    from pgmpy.inference import VariableElimination

    assert fitted.model_.check_model()
    query = VariableElimination(fitted.model_).query(["works", "city"], show_progress=False)
    found = fitted.marginal(["works", "city"])
    assert found.sum() == pytest.approx(1)
    for states, probability in list(found.items())[:6]:
        place = {"works": states[0], "city": states[1]}
        assert query.get_value(**place) == pytest.approx(probability, abs=1e-9)


def test_dependences_are_found_and_predicted(fitted):
    X = people(2000, seed=5)
    accuracy = (fitted.predict(X) == X["works"]).mean()
    assert accuracy > 0.85
    assert list(fitted.classes_) == [True, False]
    partly = X.drop(columns="city")
    partly.loc[:20, "age"] = pd.NA
    assert fitted.predict_proba(partly.head(40)).shape == (40, 2)


def test_scores_are_probabilities_of_cells_and_better_with_more_budget(fitted):
    X = people(3000, seed=9)
    scores = [learner(epsilon=epsilon).fit(people()).score(X) for epsilon in (0.05, 1.0)]
    assert scores[0] < scores[1] < fitted.score(X) + 0.1
    assert np.isfinite(fitted.score_samples(X)).all()
    alone = PrivateBayesNet({"sex": ["f", "m"]}, epsilon=5.0).fit(X[["sex"]])
    probabilities = np.exp(alone.score_samples(pd.DataFrame({"sex": ["f", "m", None]})))
    assert probabilities.sum() == pytest.approx(1)


def test_margins_of_samples_are_those_of_the_model(fitted):
    records = fitted.sample(40_000, random_state=1)
    found = fitted.marginal(["sex", "works"])
    counted = records.groupby(["sex", "works"]).size() / len(records)
    for states, probability in found.items():
        assert counted[states] == pytest.approx(probability, abs=0.005)


def test_the_stated_noise_of_margins_agrees_with_simulation():
    """The deviation of many fits is close to the stated one if projections have little effect."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (3000, 2)), columns=["a", "b"])
    truth = ((X["a"] == 0) & (X["b"] == 0)).mean()
    states = {"a": [0, 1], "b": [0, 1]}
    known = {"required": [("a", "b")]}
    found, said = [], []
    for _ in range(150):
        model = PrivateBayesNet(states=states, constraints=known, epsilon=2.0, alpha=0.0).fit(X)
        found.append(model.marginal(["a", "b"])[0, 0] - truth)
        said.append(model.marginal_error(["a", "b"]))
    assert np.ptp(said) == 0
    # Margins of the columns, released too, and the public total take some of it away.
    assert 0.3 * said[0] < np.std(found) < 1.1 * said[0]


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_noise_is_known_before_any_data(adjacency):
    planned = learner(adjacency=adjacency, max_rows=2).planned_sigma(5)
    model = learner(adjacency=adjacency, max_rows=2).fit(people(300))
    assert planned["columns"] == model.sigma_["columns"]
    assert planned["pairs"] == model.sigma_["pairs"]
    unlisted = PrivateBayesNet(bounds=BOUNDS).fit(people(300))
    planned = PrivateBayesNet(bounds=BOUNDS).planned_sigma(5, 3)
    assert planned["columns"] == unlisted.sigma_["columns"]


def test_columns_without_a_common_table_have_no_error_bar(fitted):
    cliques = [set(clique) for clique in fitted.sigma_["cliques"]]
    apart = [
        (a, b) for a in STATES for b in BOUNDS if not any({a, b} <= clique for clique in cliques)
    ]
    for pair in apart:
        assert fitted.marginal_error(list(pair)) == np.inf
    with pytest.raises(ValueError, match="columns must contain at least one column"):
        fitted.marginal(["moon"])


def test_columns_with_pooled_categories_are_counted_once_more():
    X = people(2000)
    with listening() as steps:
        model = learner(epsilon=1.0).fit(X)
    assert len(model.states_["city"]) < len(CITIES)
    steps = [values for _, values, _ in steps if values.shape[-1] != _N_PARTS]
    sizes = [len(values) for values in steps]
    assert sizes.count(len(CITIES) + 1) == 2  # and a cell for missing values
    assert len(steps) == len(X.columns) + 1 + len(model.sigma_["cliques"]) + 1 + 1  # moments
    # Without noise all categories are separate states, so no column is counted again.
    with listening() as steps:
        model = learner(epsilon=float("inf"), max_parents=1).fit(X)
    steps = [values for _, values, _ in steps if values.shape[-1] != _N_PARTS]
    assert len(steps) == len(X.columns) + 1 + len(model.sigma_["cliques"]) + 1


def test_more_parents_than_columns_take_no_longer():
    X = people(200)
    model = learner(epsilon=1.0, max_parents=10**12).fit(X)
    assert max(map(len, model.structure_.values())) < len(X.columns)


def test_columns_that_are_counted_twice_are_more_accurate():
    """With one column there are no pairs, so three quarters of the budget are used for it again."""
    counts = np.repeat(np.arange(12), 100)
    X = pd.DataFrame({"a": counts})
    model = PrivateBayesNet(states={"a": list(range(12))}, epsilon=0.15)
    with listening() as steps:
        model.fit(X)
    first, *_, second = (mechanism.sigma for mechanism, *_ in steps)
    assert second < first
    assert len(model.states_["a"]) < 12


def test_constraints_on_the_structure_are_satisfied():
    known = {"required": [("sex", "age")], "forbidden": [("age", "works"), ("works", "age")]}
    model = learner(constraints=known).fit(people(1000))
    assert "sex" in model.structure_["age"]
    assert "age" not in model.structure_["works"]
    assert "works" not in model.structure_["age"]


# Conditions ------------------------------------------------------------------------


def test_samples_meet_their_conditions(fitted):
    records = fitted.sample(3000, random_state=0, given={"age": (70, 75), "sex": "f"})
    assert records["age"].between(70, 75).all()
    assert records["age"].nunique() == 6
    assert (records["sex"] == "f").all()
    assert records["works"].mean() < 0.25
    assert (fitted.sample(10, given={"age": 40})["age"] == 40).all()
    assert (fitted.sample(10, given={"income": 1234.5})["income"] == 1234.5).all()
    assert fitted.sample(10, given={"income": None})["income"].isna().all()
    some = fitted.sample(500, random_state=0, given={"city": ["city 0", "city 1"]})
    assert set(some["city"]) <= {"city 0", "city 1"}


def test_conditions_have_the_conditional_probabilities_of_the_network(fitted):
    joint = fitted.marginal(["works", "sex"])
    expected = joint[True, "f"] / (joint[True, "f"] + joint[True, "m"])
    records = fitted.sample(30_000, random_state=0, given={"works": True})
    assert (records["sex"] == "f").mean() == pytest.approx(expected, abs=0.01)


def test_public_constraints_are_met(fitted):
    records = fitted.sample(
        500, random_state=0, where=lambda r: ~((r["age"] > 60) & r["works"].astype(bool))
    )
    assert len(records) == 500
    assert not ((records["age"] > 60) & records["works"]).any()
    with pytest.raises(ValueError, match="one in a thousand"):
        fitted.sample(5, where=lambda r: np.zeros(len(r), dtype=bool))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"moon": 1}, "columns seen during fit; got 'moon'"),
        ({"sex": "x"}, "states of 'sex'"),
        ({"age": (200, 300)}, "beyond"),
        ({"age": (40, 30)}, "low <= high"),
        ({"age": (30, 40, 50)}, "a pair \\(low, high\\) for 'age'"),
        ({"age": "old"}, "given for 'age'"),
        ({"sex": None}, "leaves nothing"),
    ],
)
def test_a_bad_condition_is_named(fitted, given, message):
    with pytest.raises(ValueError, match=message):
        fitted.sample(3, given=given)


# A scikit-learn estimator ----------------------------------------------------------


def test_clones_have_the_same_parameters_and_no_fit():
    model = learner(epsilon=3.0).fit(people(300))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "structure_")


def test_a_model_survives_a_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    X = people(50, seed=3)
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
    pd.testing.assert_frame_equal(
        again.sample(20, random_state=0), fitted.sample(20, random_state=0)
    )
    assert again.privacy_ == fitted.privacy_


@pytest.mark.parametrize("kind", ["array", "polars", "pyarrow"])
def test_all_containers_give_the_same_model(kind):
    X = people(400)[["age", "sex"]]
    given = {"states": {"sex": ["f", "m"]}, "bounds": {"age": (18, 90)}, "epsilon": float("inf")}
    if kind == "array":
        table, more = X.to_numpy(dtype=object), {"columns": list(X)}
    else:
        pytest.importorskip(kind)
        table = pytest.importorskip("polars").from_pandas(X)
        table, more = (table.to_arrow() if kind == "pyarrow" else table), {}
    ours = PrivateBayesNet(**given).fit(X)
    theirs = PrivateBayesNet(**given, **more).fit(table)
    for node in ours.structure_:
        np.testing.assert_allclose(ours.probabilities_[node], theirs.probabilities_[node])


def test_a_single_column_and_a_constant_one_are_learnt():
    X = pd.DataFrame({"a": [1] * 50})
    assert PrivateBayesNet({"a": [1]}).fit(X).sample(3)["a"].tolist() == [1, 1, 1]
    both = PrivateBayesNet({"a": [1], "b": [1, 2]}).fit(X.assign(b=2))
    assert set(both.sample(20)["a"]) == {1}


def test_more_columns_without_information_than_arrays_have_axes_are_learnt():
    X = pd.DataFrame(1, index=range(30), columns=range(100))
    model = PrivateBayesNet({name: [1, 2] for name in X}, target=0).fit(X)
    assert model.sample(5).shape == (5, 100)
    assert model.predict(X).shape == (30,)


# Record-wise encoding ----------------------------------------------------------------


class Note(str):
    """A text that carries a document."""

    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.document = "patient 86753"
        return made


@pytest.mark.parametrize("categorical", [False, True])
def test_only_values_in_counted_rows_are_candidates(monkeypatch, categorical):
    """Without a threshold, half of all candidates that no record holds would be published."""
    monkeypatch.setattr(SelectionMechanism, "threshold", -np.inf)
    city = ["Aarhus"] * 50 + [f"secret {i}" for i in range(200)]
    X = pd.DataFrame({"city": city, "ward": 1})
    if categorical:
        X["city"] = pd.Categorical(city, categories=[*dict.fromkeys(city), "unused"])
    groups = [*range(50), *[7] * 200]
    for max_rows in (1, 3):
        model = PrivateBayesNet(max_rows=max_rows, adjacency="add_remove", epsilon=50.0)
        model.fit(X, groups=groups)
        counted = {"Aarhus", *(f"secret {i}" for i in range(max_rows - 1)), "other"}
        assert {"Aarhus", "other"} <= set(model._released_["city"].domain.states) <= counted
        kept = pickle.dumps(model)
        assert b"unused" not in kept
        assert b"secret 50" not in kept


def test_every_candidate_was_counted_once_at_least():
    column = pd.Series(pd.Categorical(["a", "b", None], categories=[*"edcba"]))
    X = pd.DataFrame({"city": column})
    with drawn_tables() as tables:
        PrivateBayesNet(epsilon=1.0).fit(X)
    ((_, counts),) = [(m, c) for m, c in tables if isinstance(m, SelectionMechanism)]
    assert counts.tolist() == [1.0, 1.0, 0.0]  # the last is of no name


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "arrow series", "nullable", "list"])
def test_a_missing_value_merges_no_large_integers(kind):
    big = 2**53
    values = [big, big + 1] * 50

    def table(cells):
        if kind == "polars":
            return pytest.importorskip("polars").DataFrame({"a": cells, "b": cells})
        if kind == "pyarrow":
            return pytest.importorskip("pyarrow").table({"a": cells, "b": cells})
        if kind == "list":
            return [[cell, cell] for cell in cells]
        dtype = "Int64" if kind == "nullable" else "int64[pyarrow]"
        return pd.DataFrame({"a": pd.Series(cells, dtype=dtype)}).assign(b=lambda X: X["a"])

    states = {"a": [big, big + 1]}
    for last in (big, None):
        model = PrivateBayesNet(states=states, columns=["a", "b"], epsilon=float("inf"))
        model.fit(table([*values, last]))
        shares = model.marginal(["a"])
        assert shares[big + 1] == pytest.approx(50 / 101, abs=0.01)
        assert {big, big + 1} <= set(model.states_["b"])


def test_one_large_integer_does_not_change_booleans():
    cells = [True, False] * 100
    for odd in (True, 10**30, 10**400, None, "1"):
        X = pd.DataFrame({"a": pd.Series([*cells, odd], dtype=object)})
        model = PrivateBayesNet(bounds={"a": (0, 1)}, epsilon=float("inf")).fit(X)
        shares = model.marginal(["a"])
        assert shares[0] == pytest.approx(100 / 201, abs=0.01)
        assert shares[1] >= 0.49


def test_published_names_are_not_objects_of_records():
    X = pd.DataFrame({"city": pd.Series([Note("Aarhus")] * 60 + ["Bergen"] * 60, dtype=object)})
    declared = {"city": [Note("Aarhus"), "Bergen"]}
    for states in (None, declared):
        model = PrivateBayesNet(states=states, epsilon=50.0).fit(X)
        assert model._released_["city"].domain.states[:2] == ("Aarhus", "Bergen")
        assert b"86753" not in pickle.dumps(model.set_params(states=None))
        assert {type(state) for state in model.states_["city"]} == {str}


def test_the_first_of_equal_objects_names_no_state():
    for first in (True, Decimal(1), 1.0, np.int64(1), 1):
        X = pd.DataFrame({"a": pd.Series([first, *[1, 2] * 100], dtype=object)})
        for epsilon in (50.0, float("inf")):
            states = PrivateBayesNet(epsilon=epsilon).fit(X)._released_["a"].domain.states
            assert [(type(state), state) for state in states[:2]] == [(int, 1), (int, 2)]
    names = PrivateBayesNet(epsilon=50.0).fit(pd.DataFrame({"a": [True, False] * 50}))
    assert [str(state) for state in names.states_["a"]] == ["False", "True"]


def test_a_lone_surrogate_is_never_merged_with_its_repr():
    lone = "\udc80"
    cells = [lone] * 60 + [repr(lone)] * 60
    for odd in ("Aarhus", 7, None):
        X = pd.DataFrame({"a": pd.Series([*cells, odd], dtype=object)})
        model = PrivateBayesNet(epsilon=float("inf")).fit(X)
        assert {lone, cells[-1]} <= set(model.states_["a"])


class Hostile:
    """A cell all of whose methods fail with data in the message."""

    def _fail(self, *args):
        raise RuntimeError("patient 86753")

    __hash__ = __eq__ = __lt__ = __repr__ = __str__ = _fail  # type: ignore[assignment]


def test_a_cell_that_cannot_be_hashed_or_compared_affects_only_its_record():
    cells = ["Aarhus"] * 60 + ["Bergen"] * 60
    for odd in (Hostile(), [1], {1: 2}, object()):
        X = pd.DataFrame({"city": pd.Series([*cells, None], dtype=object)})
        X.at[120, "city"] = odd
        model = PrivateBayesNet(epsilon=float("inf")).fit(X)
        assert model._released_["city"].domain.states == ("Aarhus", "Bergen", "other")
        assert model.marginal(["city"])["other"] == pytest.approx(1 / 121, abs=0.01)
        with pytest.raises(ValueError, match="only declared values; column 'city'") as error:
            PrivateBayesNet(states={"city": ["Aarhus", "Bergen"]}).fit(X)
        assert "86753" not in str(error.value)


@pytest.mark.parametrize("text", ["(missing)", "\ud800", "other"])
def test_reserved_texts_can_be_selected_and_drawn(text):
    X = pd.DataFrame({"a": pd.Series([text, "u"] * 500, dtype=object), "b": [0, 1] * 500})
    model = PrivateBayesNet(states={"b": [0, 1]}, epsilon=10.0).fit(X)
    assert set(model.sample(50)["a"]) <= {text, "u", "other", "(other)"}
