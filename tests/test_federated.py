"""Rounds of several data owners: contract, charges, failures, models equal to central ones."""

import json
import multiprocessing
import os
import pickle
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivateCrosstab,
    PrivateTableClassifier,
    Schema,
)
from skdirdp.exceptions import BudgetExceededError, ContractError, DuplicateChargeError
from skdirdp.federated import Aggregator, FederatedRound, Share
from skdirdp.mechanisms import DirichletMechanism

pytestmark = pytest.mark.filterwarnings("ignore:random_state is given")

MODEL = DirichletCategoricalNB(classes=[0, 1], n_categories=[2, 4], n_samples=600)
EXAMPLE = {"X": [[0, 0]], "y": [0]}
YES_NO = [False, True]


def make_round(model=MODEL, example=EXAMPLE, **options):
    return FederatedRound(model, example, **{"round_id": "r1", "n_parties": 3, **options})


def records(seed=0, size=200):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=size)
    flipped = y ^ (rng.random(size) < 0.2)
    return {"X": np.column_stack([flipped, rng.integers(4, size=size)]), "y": y}


class Unlimited:
    """Accountant that stores nothing, which is faster."""

    def charge(self, *args, **options):
        pass


def run(fit, parts, seed=None):
    aggregator = Aggregator(fit)
    for party, part in enumerate(parts):
        state = None if seed is None else 1000 * seed + party
        share = fit.draw_share(part, accountant=Unlimited(), random_state=state)
        aggregator.add(party, share)
    return fit.fit(*aggregator.total())


# Models -----------------------------------------------------------------------------


def counts_of(rng):
    y = rng.integers(2, size=500)
    return {"X": rng.poisson(np.where(y[:, np.newaxis] == 1, [3, 1, 1], [1, 1, 3])), "y": y}


def weather(rng):
    rain = rng.random(500) < 0.3
    wet = rng.random(500) < np.where(rain, 0.9, 0.1)
    return {"X": pd.DataFrame({"rain": rain, "wet": wet})}


COUNTS = {"classes": [0, 1], "max_count": 8, "max_total": 16, "n_samples": 1500, "epsilon": 3.0}
NETWORK = PrivateBayesNetMLE(
    [("rain", "wet")], states={"rain": YES_NO, "wet": YES_NO}, n_samples=1500
)
CASES = {
    "categorical": (MODEL, EXAMPLE, lambda rng: records(rng)),
    "multinomial": (DirichletNB(**COUNTS), {"X": [[0, 0, 0]], "y": [0]}, counts_of),
    "multinomial, as drawn": (
        DirichletNB(**COUNTS, postprocess=False),
        {"X": [[0, 0, 0]], "y": [0]},
        counts_of,
    ),
    "bernoulli": (
        DirichletBernoulliNB(classes=[0, 1], binarize=1, max_total=3, n_samples=1500),
        {"X": [[0, 0, 0]], "y": [0]},
        counts_of,
    ),
    "crosstab": (
        PrivateCrosstab(Schema({"rain": bool, "wet": bool}), n_samples=1500, mechanism="dirichlet"),
        {"X": pd.DataFrame({"rain": [True], "wet": [True]})},
        weather,
    ),
    "network": (NETWORK, {"X": pd.DataFrame({"rain": [True], "wet": [True]})}, weather),
    "histogram": (
        DirichletHistogramTransformer(4, bounds=(0, 100), n_samples=1500),
        {"X": [[5.0]]},
        lambda rng: {"X": rng.normal(50, 10, (500, 1))},
    ),
}


def released(model):
    """All released numbers of a fitted model, one after the other."""
    if hasattr(model, "counts_"):
        return np.concatenate([table.ravel() / table.sum() for table in model.counts_.values()])
    for name in ("feature_log_prob_", "probabilities_", "histogram_"):
        if hasattr(model, name):
            values = getattr(model, name)
            values = values.values() if isinstance(values, dict) else values
            return np.exp(np.concatenate([np.ravel(each) for each in values]))
    raise AssertionError


@pytest.mark.parametrize("kind", CASES)
def test_a_model_of_three_parties_is_close_to_the_model_without_noise(kind):
    model, example, draw = CASES[kind]
    parts = [draw(np.random.default_rng(party)) for party in range(3)]
    fit = make_round(model, example)
    federated = run(fit, parts)
    pooled = {
        name: pd.concat([part[name] for part in parts], ignore_index=True)
        if isinstance(parts[0][name], pd.DataFrame)
        else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }
    if kind == "histogram":
        exact = np.histogram(pooled["X"], model.fine_bins(1)[0])[0] / 1500
        np.testing.assert_allclose(np.cumsum(federated.histogram_[0]), np.cumsum(exact), atol=0.1)
    else:
        without = model.__class__(**{**model.get_params(), "epsilon": float("inf")})
        without.fit(**pooled)
        tolerance = 0.2 if kind.endswith("drawn") else 0.1
        np.testing.assert_allclose(released(federated), released(without), atol=tolerance)
    assert federated.privacy_.epsilon == model.epsilon
    assert federated.privacy_.n_records is None
    assert federated.accountant is None
    pickle.loads(pickle.dumps(federated))


def test_a_federated_model_has_the_law_of_the_central_model():
    # Estimates of one category, over many rounds, against those of the central estimator.
    parts = [records(party) for party in range(3)]
    pooled = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    central_model = DirichletCategoricalNB(
        classes=[0, 1], n_categories=[2, 4], n_samples=600, adjacency="add_remove"
    )
    fit = make_round(central_model)
    federated, central = [], []
    for seed in range(200):
        federated.append(released(run(fit, parts, seed)))
        model = DirichletCategoricalNB(**{**central_model.get_params(), "random_state": seed})
        central.append(released(model.fit(**pooled)))
    for cell in range(len(central[0])):
        pair = np.array(federated)[:, cell], np.array(central)[:, cell]
        assert stats.ks_2samp(*pair).pvalue > 1e-4


def test_nothing_of_the_records_is_left_in_the_round():
    fit, part = make_round(), records()
    fit.draw_share(part, accountant=PrivacyAccountant())
    reachable = pickle.dumps(vars(fit))
    other = make_round()
    assert reachable == pickle.dumps(vars(other))


def test_a_schema_encodes_the_records_and_names_the_labels():
    schema = Schema(
        {
            "age": Schema.numbers(0, 100, bins=[30, 60]),
            "ill": Schema.categories(["no", "yes"]),
            "sex": ["f", "m"],
        }
    )
    model = DirichletCategoricalNB(n_samples=3000)
    example = {"X": pd.DataFrame({"age": [1], "ill": ["no"], "sex": ["f"]}), "y": "ill"}
    fit = make_round(model, example, schema=schema)

    def part(seed):
        rng = np.random.default_rng(seed)
        ill = rng.random(1000) < 0.4
        labels = np.where(rng.random(1000) < 0.05, None, np.where(ill, "yes", "no"))
        age = np.where(ill, 70, 20) + rng.integers(-10, 10, 1000)
        # One odd record among many is counted as missing, and changes no other one.
        X = pd.DataFrame({"age": age.astype(object), "ill": labels, "sex": "f"})
        X.iloc[0, 0] = "unknown"
        return {"X": X, "y": "ill"}

    # A party may have no record with a label, and takes part like all others.
    unlabelled = part(3)
    unlabelled["X"]["ill"] = None
    fit.draw_share(unlabelled, accountant=Unlimited())
    fitted = run(fit, [part(seed) for seed in range(3)])
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert np.exp(fitted.feature_log_prob_[0][1, 2]) > 0.9
    assert '"age" = { numbers = [0, 100]' in fit.contract["schema"]["schema"]
    assert fit.contract["columns"] == ["age", "sex"]


def test_persons_of_a_schema_are_bounded_in_each_party():
    schema = Schema(
        {"id": Schema.key(), "ill": Schema.categories(["no", "yes"]), "sex": ["f", "m"]},
        person="id",
        max_rows=2,
    )
    X = pd.DataFrame({"id": np.repeat([1, 2], 100), "ill": ["no", "yes"] * 100, "sex": "f"})
    model = DirichletCategoricalNB(n_samples=4, epsilon=50.0)
    fit = make_round(model, {"X": X[:1], "y": "ill"}, schema=schema, n_parties=1)
    assert fit.contract["unit"] == [2, True]
    fitted = run(fit, [{"X": X, "y": "ill"}])
    # Two persons with two records each, and not 200 records.
    drawn = fit.distributed(fitted.privacy_.mechanism)
    share = fit.draw_share({"X": X, "y": "ill"}, accountant=Unlimited())
    noisy = drawn.noisy_counts(share.values[:2], 1, 2.0**-20)
    deviation = np.sqrt(drawn.as_drawn(1, 2.0**-20).noise.variance_at(2.0))
    assert np.abs(noisy - 2).max() < 6 * deviation < 50


def test_persons_in_several_parties_count_their_records_in_all_of_them():
    example = {**EXAMPLE, "groups": [1]}
    model = DirichletCategoricalNB(classes=[0, 1], n_categories=[2, 4], n_samples=600, max_rows=2)
    one, two = (make_round(model, example, person_parties=h) for h in (1, 2))
    accountants = [PrivacyAccountant(), PrivacyAccountant()]
    part = {**records(), "groups": np.arange(200) // 3}
    for fit, accountant in zip((one, two), accountants, strict=True):
        fit.draw_share(part, accountant=accountant)
    assert one.contract["unit"] == [2, True]
    assert two.contract["unit"] == [4, True]
    # The budget is the same and the bound twice as large, so a count weighs half as much.
    (_, _, _, r, alpha), (_, _, _, smaller, other) = (
        fit.contract["tables"][0] for fit in (one, two)
    )
    assert smaller / other**0.5 == pytest.approx(r / alpha**0.5 / 2, rel=0.01)
    for accountant in accountants:
        assert 0.9 < accountant.total(1e-5) <= 1.0 + 1e-9


# Contract ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": {"epsilon": 2.0}}, "parameters.epsilon is 1.0 here and 2.0"),
        ({"model": {"delta": 1e-6}}, "parameters.delta"),
        ({"model": {"adjacency": "add_remove"}}, "parameters.adjacency"),
        ({"model": {"n_categories": [2, 5]}}, "parameters.n_categories"),
        ({"model": {"classes": [0, 2]}}, "parameters.classes"),
        ({"model": {"max_rows": 2}}, "parameters.max_rows"),
        ({"n_parties": 4}, "n_parties is 3 here and 4"),
        ({"max_dropouts": 1}, "max_dropouts"),
        ({"max_colluders": 1}, "max_colluders"),
        ({"ratio": 512}, "ratio"),
        ({"bits": 40}, "bits"),
        ({"round_id": "r2"}, 'round_id is "r1" here and "r2"'),
        ({"person_parties": 2}, "person_parties"),
    ],
)
def test_a_party_that_disagrees_is_refused_before_it_is_charged(change, field):
    change = dict(change)
    changed = DirichletCategoricalNB(**{**MODEL.get_params(), **change.pop("model", {})})
    other, fit, accountant = make_round(changed, **change), make_round(), PrivacyAccountant()
    assert other.digest != fit.digest
    offer = json.loads(json.dumps(other.contract))
    with pytest.raises(ContractError, match=field):
        fit.draw_share(records(), accountant=accountant, offer=offer)
    with pytest.raises(ContractError, match="a different contract"):
        fit.draw_share(records(), accountant=accountant, offer=other.digest)
    assert len(accountant) == 0
    fit.check_offer(json.loads(json.dumps(fit.contract)))
    fit.check_offer(fit.digest)


def test_parts_that_belong_to_one_party_are_not_in_the_contract():
    own = {"accountant": PrivacyAccountant(), "label": "a", "random_state": 3}
    model = DirichletCategoricalNB(**{**MODEL.get_params(), **own})
    assert make_round(model).digest == make_round().digest


def test_columns_must_have_the_names_of_the_example():
    model = DirichletNB(**COUNTS)
    fit = make_round(model, {"X": pd.DataFrame({"a": [0], "b": [0]}), "y": [0]})
    accountant = PrivacyAccountant()
    for names in (["b", "a"], ["a", "c"], ["a"]):
        part = {"X": pd.DataFrame(np.zeros((5, len(names))), columns=names), "y": [0] * 5}
        with pytest.raises(ContractError, match="columns"):
            fit.draw_share(part, accountant=accountant)
    assert len(accountant) == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DirichletCategoricalNB(classes=[0, 1], n_categories=2), "n_samples must be given"),
        (DirichletCategoricalNB(n_categories=2, n_samples=9), "classes must be given"),
        (DirichletCategoricalNB(classes=[0, 1], n_samples=9), "n_categories must be given"),
        (
            DirichletCategoricalNB(
                classes=[0, 1], n_categories=2, n_samples=9, mechanism="gaussian"
            ),
            "mechanism must be 'dirichlet'",
        ),
        (
            DirichletCategoricalNB(
                classes=[0, 1], n_categories=2, n_samples=9, epsilon=float("inf")
            ),
            "finite",
        ),
        (PrivateCountVectorizer(), "such as DirichletNB"),
        (PrivateBayesNet(), "such as DirichletNB"),
        (DirichletMechanism(1.0, 1.0), "such as DirichletNB"),
    ],
)
def test_an_estimator_that_cannot_be_fitted_in_a_round_is_refused(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make_round(model)


def test_an_estimator_that_releases_tables_one_after_the_other_is_refused():
    schema = Schema({"age": Schema.numbers(0, 100), "ill": Schema.categories(["no", "yes"])})
    example = {"X": pd.DataFrame({"age": [1, 2], "ill": ["no", "yes"]}), "y": "ill"}
    with pytest.raises(TypeError, match="cannot be fitted in a federated round"):
        make_round(PrivateTableClassifier(schema, n_samples=100), example)


def test_sums_that_may_not_fit_the_modulus_are_refused_before_any_charge():
    with pytest.raises(ValueError, match=r"bits must be at least 3\d"):
        make_round(bits=20)
    fit = make_round(bits=36)
    largest = 0
    for party in range(3):
        share = fit.draw_share(records(party), accountant=PrivacyAccountant())
        largest += share.values.max()
    assert largest < 2**36


def test_parameters_that_parties_cannot_compare_are_refused():
    network = PrivateBayesNetMLE({object(): []}, states={"rain": YES_NO}, n_samples=10)
    with pytest.raises((TypeError, ValueError)):
        make_round(network, {"X": pd.DataFrame({"rain": [True]})})


# Charges and failures ---------------------------------------------------------------


def test_each_party_charges_its_own_accountant_once_and_within_its_limit(tmp_path):
    fit = make_round()
    path = tmp_path / "hospital.db"
    accountant = PrivacyAccountant(1.0, 1e-5, path=path)
    fit.draw_share(records(), accountant=accountant)
    assert len(accountant) == 1
    assert accountant.total() <= 1.0
    # The same round again, in this process or after a restart: neither a share nor a charge.
    for again in (accountant, PrivacyAccountant.open(path)):
        with pytest.raises(ContractError, match="round 'r1' is already charged"):
            fit.draw_share(records(), accountant=again)
        with pytest.raises(ContractError, match="already charged"):
            make_round(max_dropouts=1).draw_share(records(), accountant=again)
    assert len(PrivacyAccountant.open(path)) == 1
    with pytest.raises(BudgetExceededError):
        make_round(round_id="r2").draw_share(records(), accountant=accountant)
    assert len(accountant) == 1


def test_a_party_without_an_accountant_is_refused():
    with pytest.raises(TypeError, match="accountant"):
        make_round().draw_share(records(), accountant=None)


def test_an_invalid_seed_or_invalid_records_are_refused_before_the_charge():
    fit, accountant = make_round(), PrivacyAccountant()
    with pytest.raises(ValueError, match="random_state"):
        fit.draw_share(records(), accountant=accountant, random_state=-1)
    with pytest.raises(ContractError, match="arguments of the example"):
        fit.draw_share({"X": records()["X"]}, accountant=accountant)
    for X, y in (([[0, 9]], [0]), ([[0, 0]], [7]), ([[0, -1]], [0])):
        with pytest.raises(ValueError):  # noqa: PT011
            fit.draw_share({"X": X, "y": y}, accountant=accountant)
    assert len(accountant) == 0


def killed_party(path, moment, queue):
    """Take part in a round in a process that kills itself before or after the charge."""
    from skdirdp.federated import rounds

    def kill(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "before the charge":
        rounds._PartyContext._charge = kill
    else:
        rounds.DistributedDirichletMechanism.draw = kill
    queue.put(make_round().draw_share(records(), accountant=PrivacyAccountant.open(path)))


@pytest.mark.parametrize("moment", ["before the charge", "after the charge"])
def test_a_killed_party_neither_sends_without_a_charge_nor_twice(tmp_path, moment):
    path = tmp_path / "ledger.db"
    PrivacyAccountant(2.0, 1e-4, path=path)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=killed_party, args=(path, moment, queue))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert queue.empty()
    restarted = PrivacyAccountant.open(path)
    if moment == "before the charge":
        assert len(restarted) == 0
        make_round().draw_share(records(), accountant=restarted)
    else:
        assert len(restarted) == 1
        with pytest.raises(ContractError, match="already charged"):
            make_round().draw_share(records(), accountant=restarted)
        make_round(round_id="r2").draw_share(records(), accountant=restarted)
        assert len(restarted) == 2


@pytest.fixture(scope="module")
def shares():
    fit = make_round(max_dropouts=1)
    drawn = [fit.draw_share(records(p), accountant=PrivacyAccountant()) for p in range(3)]
    return fit, drawn


def test_a_message_that_is_repeated_changed_or_of_another_round_is_refused(shares):
    fit, drawn = shares
    aggregator = Aggregator(fit)
    aggregator.add("a", drawn[0])
    with pytest.raises(ContractError, match="'a' has already sent"):
        aggregator.add("a", drawn[0])
    one_off = drawn[1].values.copy()
    one_off[0] ^= 1
    changed = {
        "modified in transit": replace(drawn[1], values=one_off),
        "another contract": Share.from_values("0" * 64, drawn[1].values),
        "whole numbers": Share.from_values(fit.digest, drawn[1].values[:-1]),
        "below 2": Share.from_values(fit.digest, drawn[1].values + 2**48),
    }
    for message, share in changed.items():
        with pytest.raises(ContractError, match=message):
            aggregator.add("b", share)
    with pytest.raises(ContractError, match="whole numbers"):
        aggregator.add("b", Share.from_values(fit.digest, drawn[1].values.astype(float)))
    # Refused messages leave the sum as it was.
    aggregator.add("b", drawn[1])
    aggregator.add("c", drawn[2])
    with pytest.raises(ContractError, match="all have sent"):
        aggregator.add("d", drawn[2])
    sums, n_present = aggregator.total()
    assert n_present == 3
    np.testing.assert_array_equal(sums, sum(share.values for share in drawn))
    with pytest.raises(ContractError, match="already returned"):
        aggregator.total()
    with pytest.raises(ContractError, match="already returned"):
        aggregator.add("d", drawn[2])


def test_dropouts_up_to_the_limit_are_allowed_and_more_are_refused(shares):
    fit, drawn = shares
    aggregator = Aggregator(fit)
    aggregator.add("a", drawn[0])
    with pytest.raises(ContractError, match=r"1 of 3 parties .* at least 2"):
        aggregator.total()
    aggregator.add("b", drawn[1])
    sums, n_present = aggregator.total()
    model = fit.fit(sums, n_present)
    assert model.privacy_.epsilon == 1.0
    # The prior of two parties is that of the central mechanism: no accuracy is lost.
    charged = model.privacy_.mechanism
    _, alpha = fit.distributed(charged).parameters(2.0**-20)
    assert charged.alpha <= 2 * alpha <= charged.alpha * (1 + 2**-10)
    with pytest.raises(ValueError, match="n_present must be at least 2"):
        fit.fit(sums, 1)


def test_a_restarted_server_has_no_model_without_new_shares(shares):
    fit, _ = shares
    with pytest.raises(ContractError, match="0 of 3 parties"):
        Aggregator(fit).total()


def test_colluders_and_dropouts_both_enlarge_the_prior():
    plain, robust = (
        make_round(n_parties=5),
        make_round(n_parties=5, max_dropouts=1, max_colluders=2),
    )
    (*_, alpha), (*_, larger) = plain.contract["tables"][0], robust.contract["tables"][0]
    assert larger == pytest.approx(alpha * 5 / 2, rel=1e-3)
    with pytest.raises(ValueError, match="less than n_parties"):
        make_round(n_parties=3, max_dropouts=1, max_colluders=2)


def test_a_key_that_was_used_for_another_charge_raises_its_own_error():
    accountant = PrivacyAccountant()
    accountant.charge(DirichletMechanism(0.1, 5.0), key="k", label="a")
    accountant.charge(DirichletMechanism(0.1, 5.0), key="k", label="a")
    with pytest.raises(DuplicateChargeError, match="key must be unique"):
        accountant.charge(DirichletMechanism(0.1, 5.0), key="k", label="b")
    assert len(accountant) == 1


def test_a_share_is_not_shown():
    share = Share.from_values("ab", np.array([123456789]))
    assert "123456789" not in repr(share)
