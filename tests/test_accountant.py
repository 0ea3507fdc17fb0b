"""PrivacyAccountant: totals, limits, and ledgers shared by clones, threads and processes."""

import copy
import multiprocessing
import os
import pickle
import random
import re
import shutil
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline

from skdirdp import BudgetExceededError
from skdirdp.accountant import LedgerError, PrivacyAccountant
from skdirdp.accountant.codec import CHARGEABLE, decode, encode
from skdirdp.accountant.schema import Split
from skdirdp.accounting import (
    AllOf,
    ApproximateDP,
    Composition,
    NoPrivacy,
    OneOf,
    ProfiledDP,
    PureDP,
    RenyiDP,
    RepeatedSelection,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from skdirdp.accounting.pairs import GaussianPair
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    SimplexMechanism,
)
from skdirdp.mechanisms.additive import SelectionMechanism

DELTA = 1e-5
MECHANISM = DirichletMechanism(r=0.05, alpha=20.0)


def limit_that_admits(releases, mechanism=MECHANISM):
    """Return an epsilon between the costs of `releases` releases and of one more."""
    enough = Composition([(mechanism, releases)]).epsilon(DELTA)
    one_more = Composition([(mechanism, releases + 1)]).epsilon(DELTA)
    assert one_more > enough * (1 + 1e-5)
    return (enough + one_more) / 2


def charge_often(accountant, times):
    """Return the number of admitted charges."""
    admitted = 0
    for _ in range(times):
        try:
            accountant.charge(MECHANISM)
            admitted += 1
        except BudgetExceededError:
            pass
    return admitted


class ClassFrequencies(ClassifierMixin, BaseEstimator):
    """Predicts the class whose released frequency is the largest."""

    def __init__(self, alpha=5.0, accountant=None):
        self.alpha = alpha
        self.accountant = accountant

    def fit(self, X, y):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.frequencies_ = DirichletMechanism(r=0.5, alpha=self.alpha).release(
            np.bincount(codes), accountant=self.accountant, label="class frequencies"
        )
        return self

    def predict(self, X):
        return np.repeat(self.classes_[self.frequencies_.argmax()], len(X))


class PrivateScaler(TransformerMixin, BaseEstimator):
    """Transformer that releases a table and returns the data unchanged."""

    def __init__(self, accountant=None):
        self.accountant = accountant

    def fit(self, X, y=None):
        GaussianMechanism(sigma=20.0).release(
            np.ones(4), accountant=self.accountant, label="scaler"
        )
        return self

    def transform(self, X):
        return X


@pytest.fixture
def data():
    generator = np.random.default_rng(0)
    return generator.integers(0, 3, (60, 2)), np.arange(60) % 3


# Totals


def test_an_empty_accountant_has_spent_nothing():
    accountant = PrivacyAccountant(epsilon=2.0)
    assert len(accountant) == 0
    assert accountant  # although it has no charges yet
    assert accountant.total() == 0.0
    assert accountant.remaining() == 2.0


def test_the_total_is_the_composition_of_all_charges():
    accountant = PrivacyAccountant()
    parts = [(MECHANISM, 14), (GaussianMechanism(sigma=30.0), 2), (PureDP(0.1), 1)]
    for mechanism, releases in parts:
        accountant.charge(mechanism, releases=releases)
    expected = Composition(parts)
    assert accountant.total(1e-6) == pytest.approx(expected.epsilon(1e-6), rel=1e-9)
    assert accountant.total() == pytest.approx(expected.epsilon(DELTA), rel=1e-9)
    assert accountant.total() < sum(m.epsilon(DELTA) for m in (MECHANISM,)) * 14


def test_the_cost_of_fourteen_releases_agrees_with_dp_accounting():
    # 0.7865: k = 14, r = 0.05, alpha = 2, composed with dp-accounting.
    accountant = PrivacyAccountant()
    for _ in range(14):
        accountant.charge(DirichletMechanism(r=0.05, alpha=2.0))
    assert accountant.total(1e-5) == pytest.approx(0.7865, abs=1e-4)


def test_the_total_does_not_depend_on_how_releases_are_grouped_into_charges():
    one, many = PrivacyAccountant(), PrivacyAccountant()
    one.charge(MECHANISM, releases=12)
    for releases in (1, 2, 4, 5):
        many.charge(MECHANISM, releases=releases)
    assert one.total() == many.total()
    assert (len(one), len(many)) == (1, 4)


def test_a_release_without_noise_makes_the_total_infinite():
    exact = DirichletMechanism(r=np.inf, alpha=np.inf)
    accountant = PrivacyAccountant()
    accountant.charge(exact)
    assert accountant.total() == np.inf
    for limits in ({"epsilon": 100.0}, {"epsilon": 100.0, "order": 2.0}):
        with pytest.raises(BudgetExceededError, match="infinite"):
            PrivacyAccountant(**limits).charge(exact)


def test_one_ledger_has_one_adjacency():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM)
    with pytest.raises(ValueError, match="'add_remove' after 'replace'"):
        accountant.charge(DirichletMechanism(r=0.05, alpha=20.0, adjacency="add_remove"))
    assert len(accountant) == 1


# LimitParameters


VECTORS = SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05, n_vectors=100)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (VECTORS, PureDP(0.1)),
        (MECHANISM, VECTORS),
        (VECTORS, replace(VECTORS, b=0.5)),
        (VECTORS, replace(VECTORS, n_vectors=50)),
    ],
)
def test_a_ledger_of_vectors_is_for_one_exchange_of_them(first, second):
    accountant = PrivacyAccountant()
    accountant.charge(first)
    with pytest.raises(ValueError, match="adjacency must be the same for all charges"):
        accountant.charge(second)
    accountant.charge(replace(VECTORS, k=96.0) if first is VECTORS else MECHANISM)
    assert len(accountant) == 2


def test_the_error_of_a_refused_charge_shows_the_request_and_the_remaining_budget():
    accountant = PrivacyAccountant(epsilon=limit_that_admits(10), delta=DELTA, adaptive=False)
    accountant.charge(MECHANISM, releases=9)
    history, total = accountant.history(), accountant.total()
    with pytest.raises(BudgetExceededError) as raised:
        accountant.charge(MECHANISM, releases=2, label="one too many")
    message = str(raised.value)
    would_be = Composition([(MECHANISM, 11)]).epsilon(DELTA)
    left = accountant.epsilon - total
    assert message.startswith("'one too many' would increase the total epsilon to")
    assert message.endswith("Requested: 2 releases of DirichletMechanism(r=0.05, alpha=20)")
    for number in (would_be, accountant.epsilon, total, left):
        assert f"{number:.4f}"[:-1] in message
    # Spent amounts are rounded up, and remaining ones down.
    assert float(re.search(r"total epsilon to (\S+) at", message)[1]) >= would_be * (1 - 2e-12)
    assert float(re.search(r"(\S+) is used", message)[1]) >= total * (1 - 2e-12)
    assert float(re.search(r"(\S+) is left", message)[1]) <= left
    assert accountant.history() == history
    assert accountant.total() == total
    accountant.charge(MECHANISM)


def test_a_renyi_limit_counts_divergences_of_its_order():
    # Gaussian noise of deviation 10 under replacement: order * 2 / (2 * 100).
    accountant = PrivacyAccountant(epsilon=0.2, order=5.0)
    for _ in range(4):
        accountant.charge(GaussianMechanism(sigma=10.0))
    assert accountant.remaining() == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(BudgetExceededError, match=r"0\.2500 at Renyi order 5"):
        accountant.charge(GaussianMechanism(sigma=10.0))
    assert len(accountant) == 4


def test_a_limit_of_0_3_admits_three_charges_of_0_1():
    accountant = PrivacyAccountant(epsilon=0.3, order=5.0)
    for _ in range(3):
        accountant.charge(RenyiDP(5.0, 0.1))
    assert accountant.remaining() == 0.0


def test_a_renyi_limit_admits_many_guarantees_of_its_order():
    accountant = PrivacyAccountant(epsilon=1.0, order=4.0)
    for i in range(1, 9):
        accountant.charge(RenyiDP(4.0, 0.01 * i))
    assert accountant.remaining() == pytest.approx(1 - 0.36, rel=1e-9)
    with pytest.raises(BudgetExceededError):
        accountant.charge(RenyiDP(4.0, 0.65))


@pytest.mark.parametrize("kind", [DirichletMechanism, GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("budget", [{"delta": DELTA}, {"order": 5.0}])
def test_a_mechanism_calibrated_to_the_limit_is_admitted(kind, budget):
    mechanism = kind.calibrate(
        epsilon=1.0, releases=3, n_samples=1000, n_categories=4, n_rows=2, **budget
    )
    accountant = PrivacyAccountant(epsilon=1.0, **budget)
    accountant.charge(mechanism, releases=3)
    assert accountant.remaining() < 1e-3
    if "delta" in budget:
        assert 0.999 < accountant.total() <= 1.0


@pytest.mark.parametrize("mechanism", [LaplaceMechanism(scale=40.0), PureDP(0.05)])
def test_losses_with_atoms_are_admitted_up_to_the_limit(mechanism):
    accountant = PrivacyAccountant(
        epsilon=limit_that_admits(40, mechanism), delta=DELTA, adaptive=False
    )
    for _ in range(40):
        accountant.charge(mechanism)
    with pytest.raises(BudgetExceededError):
        accountant.charge(mechanism)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.integers(1, 30)), max_size=25))
def test_charges_are_admitted_if_and_only_if_the_composition_is_within_the_limit(charges):
    kinds = (MECHANISM, DirichletMechanism(r=0.1, alpha=30.0), GaussianMechanism(sigma=60.0))
    limit = 0.6
    accountant = PrivacyAccountant(epsilon=limit, delta=DELTA, adaptive=False)
    admitted = [0, 0, 0]
    for kind, releases in charges:
        asked = list(admitted)
        asked[kind] += releases
        parts = [(kinds[i], count) for i, count in enumerate(asked) if count]
        if Composition(parts).delta(limit) <= DELTA:
            accountant.charge(kinds[kind], releases=releases)
            admitted = asked
        else:
            with pytest.raises(BudgetExceededError):
                accountant.charge(kinds[kind], releases=releases)
    assert accountant.total() <= limit


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be greater than 0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta must be greater than 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "less than 1"),
        ({"epsilon": 1.0, "order": 1.0}, "order must be greater than 1"),
        ({"order": 2.0}, "epsilon must be given with order"),
    ],
)
def test_impossible_limits_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        PrivacyAccountant(**limits)


def test_an_infinite_limit_admits_everything():
    accountant = PrivacyAccountant(epsilon=np.inf)
    accountant.charge(GaussianMechanism(sigma=0.0))
    assert accountant.remaining() == np.inf


@pytest.mark.parametrize("releases", [0, -1, 1.5, True, "2", None])
def test_the_number_of_releases_is_a_positive_integer(releases):
    accountant = PrivacyAccountant()
    with pytest.raises((TypeError, ValueError), match="releases"):
        accountant.charge(MECHANISM, releases=releases)
    assert len(accountant) == 0


def test_releases_and_labels_may_come_from_numpy():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM, releases=np.int64(3), label=np.str_("colours"))
    (row,) = accountant.history()
    assert (row["releases"], row["label"]) == (3, "colours")
    with pytest.raises(TypeError, match="label must be a string"):
        accountant.charge(MECHANISM, label=np.arange(3))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_releases_from_numpy_do_not_overflow(kind):
    accountant = PrivacyAccountant()
    for _ in range(3):
        accountant.charge(MECHANISM, releases=kind(100))
    assert accountant.total() == Composition([(MECHANISM, 300)]).epsilon(DELTA) > 0


def test_no_privacy_can_be_charged_and_leaves_nothing():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM)
    accountant.charge(NoPrivacy(), label="published by mistake")
    assert accountant.total() == np.inf
    limited = PrivacyAccountant(epsilon=100.0)
    with pytest.raises(BudgetExceededError):
        limited.charge(NoPrivacy())


@pytest.mark.parametrize(
    "extreme",
    [
        DirichletMechanism(r=947, alpha=5e-15, adjacency="add_remove", max_count=10.3),
        ApproximateDP(1e-20, 1e-7, "add_remove"),
        LaplaceMechanism(scale=1e-3, max_count=1e-9, max_total=1e4, adjacency="add_remove"),
    ],
)
@pytest.mark.parametrize("releases", [100, 2**62])
def test_an_extreme_charge_leaves_the_ledger_usable(extreme, releases):
    accountant = PrivacyAccountant()
    accountant.charge(replace(MECHANISM, adjacency="add_remove"))
    accountant.charge(extreme, releases=releases)
    for delta in (1e-5, 1e-3, 0.5):
        assert accountant.total(delta) >= Composition([(extreme, 1)]).epsilon(delta) * (1 - 1e-9)
    assert "total epsilon" in repr(accountant)


@pytest.mark.parametrize(
    "error", [FloatingPointError, ZeroDivisionError, MemoryError, OverflowError]
)
def test_a_charge_that_cannot_be_composed_is_refused(error, monkeypatch):
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM)

    def fail(self, tilt, rough=False):
        raise error

    monkeypatch.setattr(GaussianPair, "cumulant", fail)
    with pytest.raises(ValueError, match=r"cannot be composed.*Nothing was charged"):
        accountant.charge(GaussianMechanism(sigma=17.25), releases=3)
    assert len(accountant) == 1


def test_more_releases_than_the_ledger_can_sum_are_refused():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM, releases=2**63 - 1)
    with pytest.raises(LedgerError, match=r"the ledger .* cannot be used"):
        accountant.charge(MECHANISM)
    with pytest.raises(ValueError, match="releases must be at most"):
        accountant.charge(MECHANISM, releases=2**63)
    assert len(accountant) == 1
    assert accountant.total() > 0


# Storage

EVERY_KIND = [
    AllOf((PureDP(0.1), GaussianMechanism(sigma=3.0))),
    ApproximateDP(0.1, 1e-7),
    DirichletMechanism(r=0.1 + 0.2, alpha=1 / 3, max_count=3.0, max_total=7.0, floor=0.5),
    DirichletMechanism(r=np.inf, alpha=np.inf, exact_smoothing=1.0),
    DirichletMechanism(r=0.5, alpha=5.0, claim=RenyiDP(5.0, 0.1)),
    DirichletMechanism(r=0.5, alpha=5.0, claim=TruncatedConcentratedDP(0.01, np.inf)),
    DirichletMechanism(r=np.float64(0.7), alpha=np.float32(5.1), adjacency="add_remove"),
    GaussianMechanism(sigma=0.1 + 0.2, smoothing=1.0),
    JointMechanism(((MECHANISM, 13), (GaussianMechanism(sigma=3.0), 1))),
    LaplaceMechanism(scale=1 / 3),
    NoPrivacy("add_remove"),
    OneOf((MECHANISM, JointMechanism(((MECHANISM, 2),)))),
    PureDP(0.1),
    RenyiDP(2.0, 0.1, "add_remove"),
    RepeatedSelection(OneOf((MECHANISM, PureDP(0.1))), 1 / 3, 0.5),
    PureDP(0.1, "replace_vector(protected=(0, 1), eta=0.05, eta_bar=0.05, b=1.0, n_vectors=1)"),
    SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05),
    TruncatedConcentratedDP(0.01, 20.0),
    ZeroConcentratedDP(0.02),
    ProfiledDP((0.0, 0.1, 1 / 3), (0.25, 0.5, 0.25), "add_remove_person"),
    DirichletMechanism(0.1, 2.0, max_count=3.0, max_total=3.0, adjacency="replace_person"),
    SelectionMechanism(30.0, failure=1e-7, max_total=20.0),
]


def test_every_kind_is_covered_here():
    assert {type(charged).__name__ for charged in EVERY_KIND} == set(CHARGEABLE)


@pytest.mark.parametrize("charged", EVERY_KIND, ids=lambda charged: type(charged).__name__)
def test_a_stored_charge_is_rebuilt_exactly(charged, tmp_path):
    assert decode(encode(charged)) == charged
    PrivacyAccountant(path=tmp_path / "ledger").charge(charged)
    again = PrivacyAccountant(path=tmp_path / "ledger")
    assert again.total(0.5) == Composition([(charged, 1)]).epsilon(0.5)
    assert type(charged).__name__ in repr(again.history())


@settings(deadline=None)
@given(st.floats(min_value=5e-324, max_value=1e100), st.floats(min_value=5e-324, max_value=1e100))
def test_floats_survive_to_the_last_bit(r, alpha):
    assert decode(encode(DirichletMechanism(r=r, alpha=alpha))) == DirichletMechanism(r, alpha)


@pytest.mark.parametrize("charged", [1.0, "laplace", None, object(), Composition([])])
def test_only_mechanisms_and_guarantees_can_be_charged(charged):
    with pytest.raises(TypeError, match="mechanism must be one of"):
        PrivacyAccountant().charge(charged)


def test_a_subclass_of_a_known_mechanism_is_refused():
    @dataclass(frozen=True)
    class Weaker(DirichletMechanism):
        pass

    Weaker.__name__ = "DirichletMechanism"
    accountant = PrivacyAccountant()
    with pytest.raises(TypeError):
        accountant.charge(Weaker(r=0.5, alpha=5.0))
    assert len(accountant) == 0


def test_an_unknown_kind_in_a_file_stops_everything(tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger")
    with accountant._ledger.writing() as transaction:
        transaction.append('{"kind":"QuantumMechanism","adjacency":"replace"}', 1, None, None)
    for use in (accountant.total, accountant.history, lambda: accountant.charge(MECHANISM)):
        with pytest.raises(LedgerError, match="QuantumMechanism"):
            use()
    assert len(accountant) == 1


# Files


DATA = Path(__file__).parent / "data"


def opened(name, folder):
    """An accountant on a copy of a stored ledger."""
    return PrivacyAccountant(path=shutil.copy(DATA / f"ledger-{name}.sqlite", folder))


@pytest.mark.parametrize(
    ("name", "limits", "charges", "totals", "remaining"),
    [
        (
            "fixed-plan",
            (20.0, 1e-5, None),
            13,
            {1e-5: 15.793023753683007, 1e-3: 12.549835511778104, 0.1: 7.816533478365058},
            4.206976246316993,
        ),
        (
            "renyi",
            (3.0, 1e-5, 5.0),
            4,
            {1e-5: 3.1365670860374117, 1e-3: 2.2868485413233515, 0.1: 0.9510163852647101},
            1.782716059553262,
        ),
        ("without-noise", (None, 1e-5, None), 2, {0.5: np.inf}, np.inf),
        (
            "vectors",
            (5.0, 1e-5, None),
            2,
            {1e-5: 2.886838896867511, 1e-3: 1.9537955127073776, 0.1: 0.5355593774402962},
            2.113161103132489,
        ),
    ],
)
def test_stored_ledgers_open_and_total_the_same(name, limits, charges, totals, remaining, tmp_path):
    # The numbers were computed by the version that made the charges. Together the files have
    # both kinds of limit and both kinds of split. The best order of Renyi divergences is
    # searched on a grid, which may change the ninth digit.
    accountant = opened(name, tmp_path)
    assert (accountant.epsilon, accountant.delta, accountant.order) == limits
    assert len(accountant) == len(accountant.history()) == charges
    for delta, total in totals.items():
        assert accountant.total(delta) == pytest.approx(total, rel=1e-7)
    assert accountant.remaining() == pytest.approx(remaining, rel=1e-7)


def test_the_stored_ledgers_have_every_basic_kind(tmp_path):
    names = [path.stem.removeprefix("ledger-") for path in DATA.glob("ledger-*.sqlite")]
    charged = {row["mechanism"] for name in names for row in opened(name, tmp_path).history()}
    later = {"AllOf", "NoPrivacy", "OneOf", "ProfiledDP", "RepeatedSelection"}
    assert charged == set(CHARGEABLE) - later - {"SelectionMechanism"}


def test_a_stored_ledger_of_vectors_can_be_charged_again(tmp_path):
    accountant = opened("vectors", tmp_path)
    before = accountant.total()
    accountant.charge(VECTORS)
    assert before < accountant.total() <= 5.0
    with pytest.raises(ValueError, match="adjacency must be the same"):
        accountant.charge(MECHANISM)


@pytest.mark.parametrize("how", ["records", "exchanges", "parts"])
def test_a_ledger_with_mixed_relations_opens_and_has_no_total(how, tmp_path):
    accountant = PrivacyAccountant(path=tmp_path / "ledger")
    splits = [None, None]
    if how == "parts":  # of which no record can be in both
        splits = [Split("s", part, "halves", "position") for part in "ab"]
    other = MECHANISM if how == "records" else replace(VECTORS, b=0.1)
    with accountant._ledger.writing() as transaction:
        transaction.append(encode(VECTORS), 1, None, splits[0])
        transaction.append(encode(other), 1, None, splits[1])
    assert len(accountant.history()) == len(accountant) == 2
    assert "2 charges that have no total" in repr(accountant)
    for call in (accountant.total, lambda: accountant.charge(VECTORS)):
        with pytest.raises(LedgerError, match=r"different adjacencies.*have no total"):
            call()
    assert len(accountant) == 2


def test_a_file_is_continued(tmp_path):
    path = tmp_path / "ledger"
    first = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=path)
    first.charge(MECHANISM, label="first")
    second = PrivacyAccountant(epsilon=1.0, delta=1e-6, path=path)
    second.charge(MECHANISM, label="second")
    third = PrivacyAccountant(path=str(path))
    assert [row["label"] for row in third.history()] == ["first", "second"]
    assert (third.epsilon, third.delta, third.order) == (1.0, 1e-6, None)


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 2.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "order": 5.0},
        {"delta": 1e-6},
    ],
)
def test_other_limits_than_the_files_are_an_error(tmp_path, other):
    PrivacyAccountant(epsilon=1.0, delta=1e-5, path=tmp_path / "ledger")
    with pytest.raises(ValueError, match=r"was created with epsilon=1\.0, delta=1e-05"):
        PrivacyAccountant(**other, path=tmp_path / "ledger")


def test_a_limit_cannot_be_put_on_a_file_that_has_none(tmp_path):
    PrivacyAccountant(path=tmp_path / "ledger")
    with pytest.raises(ValueError, match="was created with epsilon=None"):
        PrivacyAccountant(epsilon=1.0, path=tmp_path / "ledger")


def test_a_missing_file_is_an_error_and_not_replaced(tmp_path):
    path = tmp_path / "ledger"
    accountant = PrivacyAccountant(epsilon=1.0, path=path)
    pickled = pickle.dumps(accountant)
    path.unlink()
    for lost in (accountant, pickle.loads(pickled)):
        for use in (
            lambda lost=lost: lost.charge(MECHANISM),
            lost.total,
            lost.remaining,
            lost.history,
            lost.__len__,
        ):
            with pytest.raises(LedgerError, match="does not exist"):
                use()
        assert repr(lost) == (
            "PrivacyAccountant(epsilon=1.0, delta=1e-05): its ledger cannot be read"
        )
    assert not path.exists()


def test_no_release_follows_a_failed_charge(tmp_path, monkeypatch):
    accountant = PrivacyAccountant(path=tmp_path / "ledger")
    (tmp_path / "ledger").unlink()
    monkeypatch.setattr(DirichletMechanism, "_draw", lambda *args: pytest.fail("noise was drawn"))
    with pytest.raises(LedgerError):
        MECHANISM.release([1, 2, 3], accountant=accountant)


# Copies


def through_joblib(accountant, folder):
    joblib.dump(accountant, folder / "accountant.joblib")
    return joblib.load(folder / "accountant.joblib")


@pytest.mark.parametrize(
    "travel",
    [
        lambda accountant, _: copy.copy(accountant),
        lambda accountant, _: copy.deepcopy(accountant),
        lambda accountant, _: copy.deepcopy({"nested": [accountant]})["nested"][0],
        lambda accountant, _: clone(accountant, safe=False),
        lambda accountant, _: clone(ClassFrequencies(accountant=accountant)).accountant,
        lambda accountant, _: pickle.loads(pickle.dumps(accountant)),
        through_joblib,
    ],
    ids=["copy", "deepcopy", "nested", "clone", "estimator", "pickle", "joblib"],
)
def test_a_copy_reaches_the_same_ledger(travel, tmp_path):
    accountant = PrivacyAccountant(epsilon=limit_that_admits(3), delta=DELTA)
    other = travel(accountant, tmp_path)
    other.charge(MECHANISM, label="by the copy")
    accountant.charge(MECHANISM, releases=2)
    assert len(other) == len(accountant) == 2
    assert other.total() == accountant.total()
    for either in (accountant, other):
        with pytest.raises(BudgetExceededError):
            either.charge(MECHANISM)


def test_a_copy_keeps_a_temporary_ledger_alive():
    accountant = PrivacyAccountant()
    other = pickle.loads(pickle.dumps(accountant))
    del accountant
    other.charge(MECHANISM)
    assert len(other) == 1


# scikit-learn


@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("loky", 1), ("loky", 2), ("threading", 2), ("multiprocessing", 2)]
)
def test_a_grid_search_charges_every_fit(data, backend, n_jobs):
    accountant = PrivacyAccountant()
    search = GridSearchCV(
        ClassFrequencies(accountant=accountant),
        {"alpha": [5.0, 10.0, 20.0]},
        cv=KFold(5),
        scoring=no_preference,
        error_score="raise",
    )
    with joblib.parallel_config(backend, n_jobs=n_jobs):
        search.fit(*data)
    assert len(accountant) == 16
    expected = Composition(
        [
            (DirichletMechanism(r=0.5, alpha=5.0), 6),
            (DirichletMechanism(r=0.5, alpha=10.0), 5),
            (DirichletMechanism(r=0.5, alpha=20.0), 5),
        ]
    )
    assert accountant.total() == pytest.approx(expected.epsilon(DELTA), rel=1e-9)
    assert search.best_estimator_.accountant.total() == accountant.total()


def no_preference(estimator, X, y):
    """Score that always prefers the first candidate."""
    estimator.predict(X)
    return 0.0


def test_a_grid_search_stops_at_the_limit(data):
    accountant = PrivacyAccountant(
        epsilon=limit_that_admits(7, DirichletMechanism(r=0.5, alpha=5.0)), delta=DELTA
    )
    search = GridSearchCV(
        ClassFrequencies(accountant=accountant), {"alpha": [5.0]}, cv=KFold(10), error_score="raise"
    )
    with pytest.raises(BudgetExceededError):
        search.fit(*data)
    assert len(accountant) == 7


def test_a_pipeline_charges_each_of_its_steps(data):
    accountant = PrivacyAccountant()
    pipeline = Pipeline(
        [("scale", PrivateScaler(accountant)), ("classify", ClassFrequencies(3.0, accountant))]
    )
    clone(pipeline).fit(*data)
    assert [row["label"] for row in accountant.history()] == ["scaler", "class frequencies"]
    parts = [(GaussianMechanism(sigma=20.0), 1), (DirichletMechanism(r=0.5, alpha=3.0), 1)]
    assert accountant.total() == pytest.approx(Composition(parts).epsilon(DELTA), rel=1e-9)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation_charges_every_fold(data, n_jobs):
    accountant = PrivacyAccountant()
    cross_val_score(ClassFrequencies(accountant=accountant), *data, cv=KFold(4), n_jobs=n_jobs)
    assert len(accountant) == 4


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bagging_charges_every_member(data, n_jobs):
    accountant = PrivacyAccountant()
    members = ClassFrequencies(accountant=accountant)
    BaggingClassifier(members, n_estimators=6, bootstrap=False, n_jobs=n_jobs).fit(*data)
    assert len(accountant) == 6


def test_a_clone_charges_the_original(data):
    accountant = PrivacyAccountant()
    estimator = ClassFrequencies(accountant=accountant)
    clone(clone(estimator)).fit(*data)
    assert len(accountant) == 1
    assert "1 charge," in repr(estimator)


# Threads and processes


def test_threads_cannot_overspend_together():
    accountant = PrivacyAccountant(epsilon=limit_that_admits(45), delta=DELTA, adaptive=False)
    with ThreadPoolExecutor(6) as pool:
        admitted = list(pool.map(charge_often, [accountant] * 6, [12] * 6))
    assert sum(admitted) == len(accountant) == 45


def test_eight_processes_are_admitted_exactly_as_often_as_one():
    accountant = PrivacyAccountant(epsilon=limit_that_admits(700), delta=DELTA, adaptive=False)
    context = multiprocessing.get_context("fork")
    with context.Pool(8) as pool:
        admitted = pool.starmap(charge_often, [(accountant, 200)] * 8, chunksize=1)
    assert sum(admitted) == len(accountant) == 700
    alone = PrivacyAccountant()
    alone.charge(MECHANISM, releases=700)
    assert accountant.total() == alone.total() <= accountant.epsilon


def test_a_spawned_process_reaches_the_same_ledger():
    accountant = PrivacyAccountant(epsilon=limit_that_admits(15), delta=DELTA)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply_async(charge_often, (accountant, 10))
        here = charge_often(accountant, 10)
        assert here + there.get() == len(accountant) == 15


def release_for_ever(accountant, releases_made):
    file = os.open(releases_made, os.O_WRONLY | os.O_APPEND)
    while True:
        MECHANISM.release(np.ones(3), accountant=accountant)
        os.write(file, b".")


def test_killed_workers_leave_a_ledger_with_no_release_missing(tmp_path):
    path, releases_made = tmp_path / "ledger", tmp_path / "releases"
    releases_made.touch()
    context = multiprocessing.get_context("fork")
    rng = random.Random(5)
    for _ in range(4):
        accountant = PrivacyAccountant(path=path)
        before = releases_made.stat().st_size
        workers = [
            context.Process(target=release_for_ever, args=(accountant, releases_made))
            for _ in range(3)
        ]
        for worker in workers:
            worker.start()
        give_up = time.monotonic() + 20
        while releases_made.stat().st_size < before + 5 and time.monotonic() < give_up:
            time.sleep(0.01)
        for worker in workers:
            time.sleep(rng.uniform(0, 0.1))
            worker.kill()
        for worker in workers:
            worker.join()
            assert worker.exitcode == -signal.SIGKILL
        charges = len(PrivacyAccountant(path=path))
        releases = releases_made.stat().st_size
        # A worker can die between its charge and its release, once.
        assert before + 5 <= releases <= charges <= releases + 12
    survivor = PrivacyAccountant(path=path)
    survivor.charge(MECHANISM)
    assert survivor.total() == Composition([(MECHANISM, charges + 1)]).epsilon(DELTA)


# Disjoint parts

ADD_REMOVE = DirichletMechanism(r=0.5, alpha=5.0, adjacency="add_remove")


def test_of_disjoint_parts_the_maximum_counts():
    accountant = PrivacyAccountant()
    regions = accountant.parallel("region", split_by="values")
    for region, releases in {"north": 2, "south": 5, "west": 3}.items():
        regions[region].charge(ADD_REMOVE, releases=releases)
    accountant.charge(ADD_REMOVE, releases=4, label="everyone")
    assert accountant.total() == Composition([(ADD_REMOVE, 9)]).epsilon(DELTA)
    assert len(accountant) == 4


def test_parts_whose_profiles_cross_are_compared_at_each_delta():
    pure = PureDP(0.6, "add_remove")
    gaussian = GaussianMechanism(sigma=4.0, adjacency="add_remove")
    shared = DirichletMechanism(r=0.05, alpha=20.0, adjacency="add_remove")
    accountant = PrivacyAccountant()
    parts = accountant.parallel("half", split_by="values")
    parts["left"].charge(pure)
    parts["right"].charge(gaussian)
    accountant.charge(shared)
    left, right = Composition([(pure, 1), (shared, 1)]), Composition([(gaussian, 1), (shared, 1)])
    worse = set()
    for delta in (1e-2, 1e-9):
        both = {"left": left.epsilon(delta), "right": right.epsilon(delta)}
        assert accountant.total(delta) == pytest.approx(max(both.values()), rel=1e-9)
        worse.add(max(both, key=both.get))
    assert worse == {"left", "right"}


def test_a_record_may_be_in_the_worst_part_of_every_split():
    accountant = PrivacyAccountant()
    for name in ("region", "age"):
        parts = accountant.parallel(name, split_by="values")
        parts["a"].charge(ADD_REMOVE, releases=3)
        parts["b"].charge(GaussianMechanism(sigma=9.0, adjacency="add_remove"))
    gaussian = GaussianMechanism(sigma=9.0, adjacency="add_remove")
    expected = max(
        Composition(parts).epsilon(DELTA)
        for parts in (
            [(ADD_REMOVE, 6)],
            [(ADD_REMOVE, 3), (gaussian, 1)],
            [(gaussian, 2)],
        )
    )
    assert accountant.total() == pytest.approx(expected, rel=1e-9)


def test_splits_with_the_same_name_are_different():
    accountant = PrivacyAccountant()
    accountant.parallel("region", split_by="values")["north"].charge(ADD_REMOVE)
    accountant.parallel("region", split_by="values")["south"].charge(ADD_REMOVE)
    assert accountant.total() == Composition([(ADD_REMOVE, 2)]).epsilon(DELTA)


def test_parts_split_by_values_are_refused_under_replacement():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="move from one part to another"):
        accountant.parallel("region", split_by="values")["north"].charge(MECHANISM)
    assert len(accountant) == 0


def test_parts_split_by_position_are_refused_when_records_are_added():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="shifts the rows after it"):
        accountant.parallel("fold", split_by="position")[0].charge(ADD_REMOVE)
    assert len(accountant) == 0


def test_parts_split_by_position_count_once_under_replacement():
    accountant = PrivacyAccountant()
    folds = accountant.parallel("fold", split_by="position")
    for fold in range(5):
        folds[fold].charge(MECHANISM)
    assert accountant.total() == MECHANISM.epsilon(DELTA)


def test_vectors_in_parts_by_position_count_once_and_by_values_are_refused():
    accountant = PrivacyAccountant()
    halves = accountant.parallel("halves", split_by="position")
    halves["a"].charge(VECTORS)
    halves["b"].charge(VECTORS)
    assert accountant.total() == VECTORS.epsilon(DELTA)
    with pytest.raises(ValueError, match="adjacency must be the same"):
        halves["c"].charge(MECHANISM)
    # A vector that is exchanged for another may belong to another part.
    with pytest.raises(ValueError, match=r"adjacency must be 'add_remove'.*split by values"):
        PrivacyAccountant().parallel("likes", split_by="values")["a"].charge(VECTORS)


def test_the_limit_holds_for_the_worst_part():
    accountant = PrivacyAccountant(epsilon=limit_that_admits(3), delta=DELTA)
    folds = accountant.parallel("fold", split_by="position")
    for fold in range(4):
        folds[fold].charge(MECHANISM, releases=2)
    accountant.charge(MECHANISM)
    with pytest.raises(BudgetExceededError):
        folds[0].charge(MECHANISM)
    with pytest.raises(BudgetExceededError):
        accountant.charge(MECHANISM)
    folds["new"].charge(MECHANISM, releases=2)


def test_an_accountant_of_a_part_can_be_pickled(data):
    accountant = PrivacyAccountant()
    folds = accountant.parallel("fold", split_by="position")
    for fold in range(2):
        part = pickle.loads(pickle.dumps(folds[fold]))
        clone(ClassFrequencies(accountant=part)).fit(*data)
    assert accountant.total() == DirichletMechanism(r=0.5, alpha=5.0).epsilon(DELTA)
    assert {row["part"] for row in accountant.history()} == {"0", "1"}
    assert repr(folds[1]).startswith("PrivacyAccountant(no limit), part '1' of 'fold': 2 charges")


def test_a_part_cannot_be_split_again():
    parts = PrivacyAccountant().parallel("region", split_by="values")
    with pytest.raises(ValueError, match="cannot be split again"):
        parts["north"].parallel("age", split_by="values")


def test_too_many_combinations_of_unlike_parts_are_refused():
    accountant = PrivacyAccountant()
    parts = accountant.parallel("region", split_by="values")
    for part in range(64):
        parts[part].charge(ApproximateDP(0.1 + part / 100, 1e-9, "add_remove"))
    with pytest.raises(ValueError, match="65 combinations"):
        parts["one more"].charge(ApproximateDP(0.05, 1e-9, "add_remove"))
    assert len(accountant) == 64


def test_split_by_must_be_given():
    with pytest.raises(TypeError):
        PrivacyAccountant().parallel("region")
    with pytest.raises(ValueError, match="split_by must be one of 'values', 'position'"):
        PrivacyAccountant().parallel("region", split_by="region")


# History and representation


def test_the_summary_is_one_line():
    accountant = PrivacyAccountant(epsilon=1.0, order=5.0)
    accountant.charge(MECHANISM)
    expected = f"{np.ceil(1e4 * MECHANISM.epsilon(DELTA)) / 1e4:.4f}"
    assert repr(accountant) == (
        f"PrivacyAccountant(epsilon=1.0, order=5.0): 1 charge, total epsilon {expected} "
        "at delta 1e-05"
    )
    assert repr(PrivacyAccountant()) == (
        "PrivacyAccountant(no limit): 0 charges, total epsilon 0.0000 at delta 1e-05"
    )


def test_the_history_is_rows_for_pandas():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM, releases=3, label="colours")
    accountant.charge(JointMechanism(((MECHANISM, 2), (GaussianMechanism(sigma=5.0), 1))))
    frame = pd.DataFrame(accountant.history())
    assert list(frame["mechanism"]) == ["DirichletMechanism", "JointMechanism"]
    assert list(frame["releases"]) == [3, 3]
    assert frame["time"].dt.tz is not None
    assert abs(pd.Timestamp.now(tz="UTC") - frame["time"].iloc[0]).total_seconds() < 60
    assert frame["parameters"].iloc[1] == (
        "2 x DirichletMechanism(r=0.05, alpha=20), 1 x GaussianMechanism(sigma=5)"
    )


def test_the_history_prints_as_a_table():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM, releases=3, label="colours")
    header, rule, row = str(accountant.history()).splitlines()
    columns = "time mechanism parameters adjacency user releases epsilon total label"
    assert header.split() == columns.split()
    assert set(rule) == {"-", " "}
    assert "DirichletMechanism  r=0.05, alpha=20  replace " in row
    assert row.endswith("  3  0.08446  0.08446  colours")
    assert len(str(PrivacyAccountant().history()).splitlines()) == 2


def test_a_long_history_prints_its_ends():
    accountant = PrivacyAccountant()
    for i in range(50):
        accountant.charge(MECHANISM, label=f"charge {i}")
    text = str(accountant.history())
    assert len(text.splitlines()) == 2 + 20 + 1 + 1
    assert "charge 0" in text
    assert "charge 49" in text
    assert text.endswith("50 charges")


def test_labels_cannot_break_the_table_or_the_page():
    accountant = PrivacyAccountant()
    accountant.charge(MECHANISM, label="<script>alert(1)</script>\nnext line")
    history = accountant.history()
    assert len(str(history).splitlines()) == 3
    page = history._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == 2


def test_the_history_shows_parts_if_there_are_any():
    accountant = PrivacyAccountant()
    accountant.parallel("region", split_by="values")["north"].charge(ADD_REMOVE)
    accountant.charge(ADD_REMOVE)
    text = str(accountant.history())
    assert "split" in text.splitlines()[0]
    assert "north" in text


# The page of the documentation


def test_the_examples_in_the_documentation_run(tmp_path, monkeypatch):
    import skdirdp

    if not hasattr(skdirdp, "DirichletCategoricalNB"):
        pytest.skip("the examples use an estimator that is not there")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parent.parent / "docs" / "accountant.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(block, names)


def test_a_row_of_the_history_is_a_mapping_and_shows_its_values():
    accountant = PrivacyAccountant()
    accountant.charge(PureDP(0.5), label="ages")
    (row,) = accountant.history()
    assert len(row) == len(dict(row))
    assert repr(row) == repr(dict(row))
    assert 0.4999 < row["epsilon"] <= 0.5  # at the default delta


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="name must be a string"):
        PrivacyAccountant(name=3)
