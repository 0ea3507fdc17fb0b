"""Networks with a target: its released model, predictions, and the labels of records."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from skdirdp import DirichletCategoricalNB, PrivacyAccountant, PrivateBayesNet, Schema
from skdirdp.bayes_net.base import TargetModel
from skdirdp.bayes_net.structure_learning import ReleaseSchedule, _check_cost
from skdirdp.mechanisms.splitting import calibrate_gaussian, noise_for_share
from skdirdp.mechanisms.tables import ContributionBound
from skdirdp.schema import as_records

from .test_attacks import DELTA, EPSILON, best_accuracy, claim_holds
from .test_synthesis import BOUNDS, STATES, WORST, people
from .transcripts import fit_beside, listening, log_likelihood_ratio, squared_distance

SYMPTOMS = [f"symptom {i}" for i in range(12)]


def patients(n=6000, seed=0):
    """Twelve symptoms, each of which depends on the illness a little."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    chances = np.where(ill[:, np.newaxis], 0.6, 0.4)
    table = pd.DataFrame(rng.random((n, len(SYMPTOMS))) < chances, columns=SYMPTOMS)
    return table.assign(ill=ill)


DECLARED = Schema(
    dict.fromkeys([*SYMPTOMS, "ill"], Schema.categories([False, True], missing=False))
)


@pytest.fixture(scope="module")
def fitted():
    return PrivateBayesNet(DECLARED, target="ill", epsilon=3.0).fit(patients())


# The guarantee ---------------------------------------------------------------------


def neighbours(adjacency):
    others, first, second = WORST[adjacency]
    tables = [pd.concat([others, one], ignore_index=True).astype(int) for one in (first, second)]
    return tables, {name: [0, 1, 2] for name in others}


@pytest.mark.parametrize("adjacency", WORST)
def test_worst_neighbours_use_nearly_the_charge(adjacency):
    """The bound on residual sums is attained only by models that are confident and wrong."""
    (X, other), states = neighbours(adjacency)
    model = PrivateBayesNet(states=states, target=0, epsilon=50.0, adjacency=adjacency)
    _, _, steps, replayed = fit_beside(model, X, other)
    ((charged, releases),) = model.privacy_.mechanisms
    allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
    assert releases == 1
    assert 0.9 * allowed < squared_distance(steps, replayed) <= allowed


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("target", ["works", "income"])
def test_no_neighbours_exceed_the_charge(adjacency, target):
    rng = np.random.default_rng(0)
    X = people(300).astype({"works": object})
    X.loc[::7, "works"] = None
    for _ in range(4):
        other = X.copy()
        row = int(rng.choice([0, 3]))  # without and with a label
        if adjacency == "replace":
            other.iloc[row] = people(1, seed=rng.integers(1000)).iloc[0]
            other = other.astype(X.dtypes)
        else:
            other = other.drop(index=row)
        model = PrivateBayesNet(
            states=STATES,
            bounds=BOUNDS,
            target=target,
            adjacency=adjacency,
            epsilon=rng.choice([0.5, 5.0, 50.0]),
        )
        one, two, steps, replayed = fit_beside(model, X, other)
        ((charged, _),) = model.privacy_.mechanisms
        allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
        assert squared_distance(steps, replayed) <= allowed
        # The model depends on the releases alone.
        assert (one._target_model_ is None) == (two._target_model_ is None)
        if one._target_model_ is not None:
            for a, b in zip(
                one._target_model_.model.effects, two._target_model_.model.effects, strict=True
            ):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_person_with_several_records_is_within_the_charge(adjacency):
    X, groups = people(200), [*range(200), 0, 0, 0]
    X = pd.concat([X, X.iloc[[0, 0, 0]]], ignore_index=True)
    rows = [i for i in range(203) if groups[i] != 0]
    if adjacency == "replace":
        rows = [5 if groups[i] == 0 else i for i in range(203)]
    other = X.iloc[rows].reset_index(drop=True)
    others = groups if adjacency == "replace" else [groups[i] for i in rows]
    model = PrivateBayesNet(
        states=STATES,
        bounds=BOUNDS,
        target="works",
        adjacency=adjacency,
        max_rows=3,
        epsilon=20.0,
    )
    with listening() as steps:
        model.fit(X, groups=groups)
    with listening([drawn for *_, drawn in steps]) as replayed:
        PrivateBayesNet(**model.get_params()).fit(other, groups=others)
    ((charged, _),) = model.privacy_.mechanisms
    allowed = charged.contribution.squared_norm(charged.adjacency) / charged.sigma**2
    assert allowed / 4 < squared_distance(steps, replayed) <= allowed


NUMBERS = {"x": (0.0, 10.0), "y": (0.0, 10.0)}


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_second_moments_and_a_target_together_use_nearly_the_charge(adjacency):
    """Two columns of numbers and a target: all kinds of steps in one fit."""
    # The numbers of one record are far from all others, and at right angles to its replacement.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice([4.5, 5.0, 5.5], 60) for name in NUMBERS})
    X["label"] = rng.integers(0, 2, 60)
    X.loc[60] = [0.0, 5.0, 0]
    other = X.drop(index=60)
    if adjacency == "replace":
        other = X.copy()
        other.loc[60] = [5.0, 10.0, 1]
    X, other = X.astype({"label": int}), other.astype({"label": int})
    options = {"states": {"label": [0, 1]}, "bounds": NUMBERS, "target": "label"}
    model = PrivateBayesNet(**options, epsilon=50.0, adjacency=adjacency)
    one, two, steps, replayed = fit_beside(model, X, other)
    assert "moments" in one.sigma_
    assert one._target_model_ is not None
    ((charged, releases),) = one.privacy_.mechanisms
    allowed = charged.contribution.squared_norm(adjacency) / charged.sigma**2
    assert releases == 1
    ratio = squared_distance(steps, replayed) / allowed
    assert 0.8 < ratio <= 1
    np.testing.assert_array_equal(one._target_model_.shift, two._target_model_.shift)
    described = str(one.privacy_)
    assert "second moments of numbers, and tables and residual sums of the target" in described


def test_only_released_steps_are_stated():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(300), "y": rng.random(300), "a": rng.integers(0, 2, 300)})
    bounds, states = {"x": (0.0, 1.0), "y": (0.0, 1.0)}, {"a": [0, 1]}
    for columns in (["x", "y", "a"], ["x", "a"]):
        given = {name: bounds[name] for name in columns if name in bounds}
        for target in (None, "a"):
            options = {"bounds": given, "states": states, "target": target, "epsilon": 20.0}
            model = PrivateBayesNet(**options).fit(X[columns])
            stated = str(model.privacy_)
            assert ("second moments" in stated) == (len(given) == 2) == ("moments" in model.sigma_)
            assert ("target" in stated) == (target is not None)


def test_steps_that_cost_more_than_the_whole_are_refused():
    whole = calibrate_gaussian(1.0, 1e-5, None, "replace", ContributionBound())
    for refinements in ([], [1], [6, 6], [6] * 24, [0, 0]):
        for share in (0.0, 0.3):
            ReleaseSchedule(whole, [], 30, 1000, refinements, share)
    half = noise_for_share(whole, 0.5)
    _check_cost(whole, [(half, 1.0), (half, 1.0)])
    with pytest.raises(AssertionError, match="more than the whole"):
        _check_cost(whole, [(half, 1.0), (half, 1.001)])


def test_constraints_on_the_target_hold_with_weighted_records():
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, 10.0, 4000).clip(0, 100)
    X = pd.DataFrame({"x": x, "y": (x + rng.normal(0, 5, 4000)).clip(0, 100)})
    X["size"] = np.where(x > 25, "large", "small")
    kinds = {
        "x": Schema.numbers(0.0, 100.0),
        "y": Schema.numbers(0.0, 100.0),
        "size": Schema.categories(["large", "small"]),
    }
    schema = Schema(kinds, constraints=["x <= 20 implies size == 'small'"])
    model = PrivateBayesNet(schema, target="size", epsilon=10.0).fit(X)
    assert model._moments_ is not None
    for given in (None, {"size": "large"}, {"x": (0.0, 60.0)}):
        records = model.sample(5000, random_state=0, given=given)
        assert (records["size"][records["x"] <= 20] == "small").all()
    assert (model.sample(100, given={"size": "large"})["size"] == "large").all()
    records = model.sample(20_000, random_state=1)
    assert records["x"].corr(records["y"]) == pytest.approx(X["x"].corr(X["y"]), abs=0.05)
    assert (records["size"] == "large").mean() == pytest.approx(
        (X["size"] == "large").mean(), abs=0.05
    )


@pytest.mark.parametrize(
    "adjacency", ["add_remove", pytest.param("replace", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("factor", [1, 2])
def test_an_attack_on_all_steps_is_within_the_claim_and_no_smaller_one(
    adjacency, factor, monkeypatch
):
    monkeypatch.setattr(TargetModel, "match_shares", lambda self, *network: self)  # slow
    (X, other), states = neighbours(adjacency)

    def play(first):
        model = PrivateBayesNet(
            states, target=0, epsilon=factor * EPSILON, delta=DELTA, adjacency=adjacency
        )
        truth, lie = (X, other) if first else (other, X)
        _, _, steps, replayed = fit_beside(model, truth, lie)
        return (log_likelihood_ratio(steps, replayed) > 0) == first

    def claimed(epsilon):
        charged = calibrate_gaussian(epsilon, DELTA, None, adjacency, ContributionBound())
        return best_accuracy(float(charged.delta(0.0)))

    rng = np.random.default_rng(factor)
    holds = claim_holds(play, claimed(EPSILON), claimed(2 * EPSILON), rng)
    assert holds == (factor == 1)


def test_a_fit_is_charged_once_and_its_statement_names_the_target():
    accountant = PrivacyAccountant(epsilon=2.0, delta=1e-4)
    model = PrivateBayesNet(DECLARED, target="ill", accountant=accountant).fit(patients(500))
    assert len(accountant.history()) == 1
    assert "tables and residual sums of the target" in str(model.privacy_)
    plain = PrivateBayesNet(DECLARED).fit(patients(500))
    assert "target" not in str(plain.privacy_)


def test_the_target_takes_a_share_of_the_noise_of_the_network():
    plain, targeted = (PrivateBayesNet(target=target).planned_sigma(10) for target in (None, "ill"))
    ratios = [targeted[step] / plain[step] for step in plain]
    np.testing.assert_allclose(ratios, ratios[0])
    assert 1.1 < ratios[0] < 1.3


# Predictions -----------------------------------------------------------------------


def test_predictions_keep_up_with_naive_bayes():
    """A network without edges has the target's model all the same."""
    X, test = patients(), patients(seed=1)
    budget = {"epsilon": 1.0}
    model = PrivateBayesNet(DECLARED, target="ill", max_parents=0, **budget).fit(X)
    bayes = DirichletCategoricalNB(n_categories=2, classes=[False, True], **budget)
    bayes.fit(X[SYMPTOMS].astype(int), X["ill"])
    ours, theirs = (
        roc_auc_score(test["ill"], p[:, 1])
        for p in (model.predict_proba(test), bayes.predict_proba(test[SYMPTOMS].astype(int)))
    )
    assert ours > theirs - 0.02
    assert ours > 0.75


def test_another_target_after_the_fit_is_predicted_by_the_network():
    X = patients(50, seed=2)
    fitted = PrivateBayesNet(DECLARED, target="ill").fit(patients())
    fitted.set_params(target=SYMPTOMS[0])
    p = fitted.predict_proba(X)
    others = [name for name in X if name != SYMPTOMS[0]]
    np.testing.assert_array_equal(p, fitted._predict_by_network(as_records(X, None), others))
    assert len(fitted.sample(10)) == 10


def test_columns_that_are_left_out_are_unknown_to_the_network(fitted):
    X = patients(20, seed=2)[SYMPTOMS[:3]]
    p = fitted.predict_proba(X)
    np.testing.assert_array_equal(p, fitted._predict_by_network(as_records(X, None), SYMPTOMS[:3]))


def test_a_missing_value_that_is_not_a_state_has_the_mean_effect():
    kinds = dict.fromkeys([*SYMPTOMS, "ill"], Schema.categories([False, True]))
    X = patients().astype(object)
    model = PrivateBayesNet(Schema(kinds), target="ill", epsilon=3.0).fit(X)
    one = X.iloc[:1].copy()
    one[SYMPTOMS[0]] = None
    unknown = model.predict_proba(one)
    known = [model.predict_proba(one.assign(**{SYMPTOMS[0]: v})) for v in (False, True)]
    logits = np.log([p[0, 1] / p[0, 0] for p in (known[0], unknown, known[1])])
    assert logits[0] < logits[1] < logits[2]


# Records ---------------------------------------------------------------------------


def test_a_missing_answer_of_a_constraint_drops_the_record():
    """Comparisons of nullable numbers with a missing value are neither true nor false."""
    X = people(2000).astype({"age": "Int64"})
    X.loc[::4, "age"] = pd.NA
    kinds = {"age": Schema.numbers(18, 90), "works": Schema.categories([False, True])}
    model = PrivateBayesNet(Schema(kinds), target="works", epsilon=10.0).fit(X[[*kinds]])
    assert model.sample(1000, random_state=0)["age"].isna().any()
    records = model.sample(1000, random_state=0, where=lambda r: r["age"] < 60)
    assert len(records) == 1000
    assert (records["age"] < 60).all()


def test_labels_of_records_follow_the_model(fitted):
    records = fitted.sample(40_000, random_state=0)
    codes = {name: records[name].to_numpy().astype(int) for name in SYMPTOMS}
    p = fitted._target_model_.record_probabilities(codes)[:, 1]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 1.0)):
        inside = (p >= low) & (p < high)
        assert records["ill"][inside].mean() == pytest.approx(p[inside].mean(), abs=0.01)
    assert records["ill"].mean() == pytest.approx(fitted.marginal("ill")[True], abs=0.01)


def test_models_learn_from_records_as_much_as_the_network_knows(fitted):
    from sklearn.linear_model import LogisticRegression

    records, test = fitted.sample(6000, random_state=0), patients(seed=1)
    model = LogisticRegression().fit(records[SYMPTOMS].astype(int), records["ill"].astype(bool))
    learnt = roc_auc_score(test["ill"], model.predict_proba(test[SYMPTOMS].astype(int))[:, 1])
    own = roc_auc_score(test["ill"], fitted.predict_proba(test)[:, 1])
    assert learnt > own - 0.02


def test_a_condition_on_the_target_gives_the_records_of_that_state(fitted):
    records = fitted.sample(60_000, random_state=0)
    for state in (False, True):
        given = fitted.sample(20_000, random_state=1, given={"ill": state})
        assert (given["ill"] == state).all()
        expected = records.loc[records["ill"] == state, SYMPTOMS].mean()
        np.testing.assert_allclose(
            given[SYMPTOMS].mean().astype(float), expected.astype(float), atol=0.015
        )
    both = {"ill": True, SYMPTOMS[0]: True}
    assert fitted.sample(100, given=both)[SYMPTOMS[0]].all()
    assert len(fitted.sample(0, given=both)) == len(fitted.sample(0)) == 0
    assert len(fitted.sample(1, given=both)) == 1


def test_scores_are_log_probabilities_of_the_records():
    X = patients()[[*SYMPTOMS[:3], "ill"]]
    schema = DECLARED.select(*X)
    model = PrivateBayesNet(schema, target="ill").fit(X)
    cells = pd.DataFrame(list(product([False, True], repeat=4)), columns=list(X))
    probabilities = np.exp(model.score_samples(cells))
    # The rest is the probability of missing values, which are not drawn.
    assert 0.98 < probabilities.sum() <= 1
    records = model.sample(50_000, random_state=0)
    shares = records.value_counts(normalize=True).reindex(pd.MultiIndex.from_frame(cells))
    expected = probabilities / probabilities.sum()
    np.testing.assert_allclose(shares.fillna(0), expected, atol=0.005)


# Odd targets and parameters --------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": float("inf")},
        {"postprocess": False},
        {"max_parents": 0},
        {"constraints": {"required": [("works", "income")], "order": ["works", "age"]}},
        {"constraints": {"forbidden": [("works", "age"), ("age", "works")]}},
        {"order": 8.0},
        {"epsilon": 0.01},
        {"target": "income"},
        {"target": "city"},
        {"max_rows": 2},
        {"adjacency": "add_remove"},
    ],
    ids=str,
)
def test_other_parameters_work_with_a_target(options):
    X = people(600)
    parameters = {"target": "works", "epsilon": 5.0, **options}
    model = PrivateBayesNet(states=STATES, bounds=BOUNDS, **parameters).fit(X)
    p = model.predict_proba(X)
    assert p.shape == (600, len(model.classes_))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    records = model.sample(200)
    assert list(records) == list(X)
    assert np.isfinite(model.score(records))


def test_targets_without_public_states_and_with_missing_labels():
    X = people(6000).astype({"works": object})
    X["works"] = X["works"].map({True: "yes", False: "no"})
    X.loc[::3, "works"] = None
    states = {name: values for name, values in STATES.items() if name != "works"}
    model = PrivateBayesNet(states=states, bounds=BOUNDS, target="works", epsilon=20.0).fit(X)
    assert {"yes", "no", "(missing)"} <= set(model.classes_.tolist())
    records = model.sample(6000)
    assert records["works"].isna().mean() == pytest.approx(1 / 3, abs=0.05)


def test_records_without_a_label_do_not_change_the_model_if_they_are_few():
    """A missing label that is no state is not counted as one of the others."""
    X = patients(8000).astype({"ill": object})
    X.loc[:4, "ill"] = None
    kinds = {**DECLARED.columns, "ill": Schema.categories([False, True])}
    model = PrivateBayesNet(Schema(kinds), target="ill", epsilon=1.0).fit(X)
    assert set(model.classes_.tolist()) == {False, True}
    assert model.sample(1000)["ill"].notna().all()


def test_a_target_of_one_state_or_one_column_needs_no_model():
    X = pd.DataFrame({"a": [0] * 50, "b": [0, 1] * 25})
    single = PrivateBayesNet({"a": [0], "b": [0, 1]}, target="a").fit(X)
    np.testing.assert_array_equal(single.predict_proba(X), np.ones((50, 1)))
    alone = PrivateBayesNet({"b": [0, 1]}, target="b").fit(X[["b"]])
    assert "target" not in str(alone.privacy_)
    assert set(alone.sample(100)["b"]) == {0, 1}
