"""Ledgers with many kinds of charges: spending in memory agrees with the file."""

import multiprocessing
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdirdp import BudgetExceededError
from skdirdp.accountant import PrivacyAccountant, limits
from skdirdp.accountant.ledger import Transaction
from skdirdp.accountant.limits import Limit, _is_computable, _is_ordinary
from skdirdp.accountant.schema import LimitParameters
from skdirdp.accounting import ApproximateDP, Composition, PureDP, ZeroConcentratedDP
from skdirdp.accounting.products import LargeProduct
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
)

DELTA = 1e-5


def different(n, adjacency="replace", scale=1.0, seed=0):
    """Return a number of different mechanisms and guarantees."""
    generator = np.random.default_rng(seed)
    shared = {"adjacency": adjacency}
    kinds = []
    for i in range(n):
        size = float(generator.uniform(0.5, 1.5)) * scale
        dirichlet = DirichletMechanism(r=0.02 * size, alpha=1 + i / n, **shared)
        gaussian = GaussianMechanism(sigma=60 / size, **shared)
        kinds.append(
            (
                dirichlet,
                gaussian,
                LaplaceMechanism(scale=80 / size, **shared),
                PureDP(0.01 * size, **shared),
                ApproximateDP(0.01 * size, 1e-8 * size, **shared),
                JointMechanism(((dirichlet, 2), (gaussian, 1))),
            )[i % 6]
        )
    return kinds


def forget():
    """Clear the memory, as in a new process."""
    limits._KNOWN = {}


def cold(accountant):
    forget()
    return accountant.total()


def test_different_charges_are_admitted_exactly_while_their_composition_holds():
    kinds = different(30)
    limit = Composition([(kind, 1) for kind in kinds[:21]]).epsilon(DELTA)
    accountant = PrivacyAccountant(epsilon=limit, delta=DELTA, adaptive=False)
    admitted = []
    for kind in kinds:
        asked = [*admitted, kind]
        if Composition([(kind, 1) for kind in asked]).delta(limit) <= DELTA * (1 - 1e-8):
            accountant.charge(kind)
            admitted = asked
        else:
            with pytest.raises(BudgetExceededError):
                accountant.charge(kind)
    assert 20 <= len(admitted) < 30
    assert len(accountant) == len(admitted)
    assert limit * 0.97 < accountant.total() <= limit
    assert cold(accountant) == pytest.approx(accountant.total(), rel=1e-9)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_spending_in_memory_equals_the_sums_of_the_file(adjacency):
    accountant = PrivacyAccountant()
    kinds = different(24, adjacency)
    for kind in kinds:
        accountant.charge(kind, releases=2)
    accountant.charge(kinds[3], releases=5)
    counts = [(kind, 7 if kind is kinds[3] else 2) for kind in kinds]
    expected = Composition(counts).epsilon(DELTA)
    assert accountant.total() == pytest.approx(expected, rel=1e-9)
    assert cold(accountant) == pytest.approx(expected, rel=1e-9)
    (whole,) = accountant.compositions()
    assert whole.epsilon(DELTA) == pytest.approx(expected, rel=1e-9)


def test_a_limit_at_a_renyi_order_holds_for_many_kinds():
    kinds = [kind for kind in different(60) if not isinstance(kind, ApproximateDP)]
    costs = [float(Composition([(kind, 1)]).rdp(6.0)) for kind in kinds]
    accountant = PrivacyAccountant(epsilon=sum(costs[:40]) + costs[40] / 2, order=6.0)
    for kind in kinds[:40]:
        accountant.charge(kind)
    assert accountant.remaining() == pytest.approx(costs[40] / 2, rel=1e-9)
    with pytest.raises(BudgetExceededError, match="Renyi order"):
        accountant.charge(kinds[40])


def test_charges_of_other_processes_are_read(tmp_path):
    ours = PrivacyAccountant(path=tmp_path / "ledger")
    kinds = different(30)
    for kind in kinds[:20]:
        ours.charge(kind)
    remembered = limits._KNOWN
    forget()
    theirs = PrivacyAccountant(path=tmp_path / "ledger")
    for kind in kinds[20:]:
        theirs.charge(kind)
    total = cold(theirs)
    limits._KNOWN = remembered
    assert ours.total() == pytest.approx(total, rel=1e-9)
    assert limits.known_spending(ours._ledger.identity).position[0] == 30


@pytest.mark.parametrize("more", [0, 5, 9])
def test_diverging_copies_of_a_ledger_are_distinguished(more, tmp_path):
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    accountant = PrivacyAccountant(path=path)
    kinds = different(40)
    for kind in kinds[:20]:
        accountant.charge(kind)
    shutil.copy(path, copy)
    for kind in kinds[20:25]:
        accountant.charge(kind)
    accountant.total()
    other = PrivacyAccountant(path=copy)
    for kind in kinds[25 : 25 + more]:
        other.charge(kind)
    for each, made in [
        (other, [*kinds[:20], *kinds[25 : 25 + more]]),
        (accountant, kinds[:25]),
    ]:
        expected = Composition([(kind, 1) for kind in made]).epsilon(DELTA)
        assert each.total() == pytest.approx(expected, rel=1e-9)


def test_the_ledger_is_not_locked_while_a_charge_is_composed(monkeypatch, tmp_path):
    path = tmp_path / "ledger"
    accountant = PrivacyAccountant(epsilon=10.0, path=path, adaptive=False)
    looked = []

    def write_meanwhile(limit, spent):
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.close()
        looked.append(spent)
        return True

    monkeypatch.setattr(Limit, "admits", write_meanwhile)
    accountant.charge(PureDP(0.1))
    assert len(looked) == 1
    assert len(accountant) == 1


def test_concurrent_charges_count(monkeypatch, tmp_path):
    kinds = different(30)
    limit = Composition([(kind, 1) for kind in kinds[:20]]).epsilon(DELTA) * (1 + 1e-6)
    accountant = PrivacyAccountant(
        epsilon=limit, delta=DELTA, adaptive=False, path=tmp_path / "ledger"
    )
    for kind in kinds[:19]:
        accountant.charge(kind)
    admits, faster = Limit.admits, [kinds[19]]

    def somebody_is_faster(limit, spent):
        admitted = admits(limit, spent)
        while faster:
            PrivacyAccountant(path=tmp_path / "ledger").charge(faster.pop())
        return admitted

    monkeypatch.setattr(Limit, "admits", somebody_is_faster)
    with pytest.raises(BudgetExceededError):
        accountant.charge(kinds[20])
    assert len(accountant) == 20
    assert accountant.total() <= limit


def test_a_commit_that_fails_is_not_remembered(monkeypatch):
    accountant = PrivacyAccountant()
    for kind in different(20):
        accountant.charge(kind)
    before = accountant.total()
    with monkeypatch.context() as patch:
        patch.setattr(
            Transaction, "append", lambda *_, **__: (_ for _ in ()).throw(OSError("disk"))
        )
        with pytest.raises(OSError, match="disk"):
            accountant.charge(PureDP(0.2))
    assert accountant.total() == before
    assert len(accountant) == 20


def test_a_summary_composes_only_a_few_kinds(monkeypatch):
    accountant = PrivacyAccountant(epsilon=5.0, adaptive=False)
    for kind in different(20):
        accountant.charge(kind)
    with monkeypatch.context() as patch:
        patch.setattr(LargeProduct, "epsilon", lambda *_: pytest.fail("composed"))
        expected = (
            "PrivacyAccountant(epsilon=5.0, delta=1e-05, adaptive=False): 20 charges; "
            "total() composes them"
        )
        assert repr(accountant) == expected
        forget()
        assert repr(accountant) == expected
    total = accountant.total()
    assert repr(accountant).endswith(f"20 charges, total epsilon {np.ceil(total * 1e4) / 1e4:.4f}")
    accountant.charge(PureDP(0.2))
    assert repr(accountant).endswith("21 charges; total() composes them")


def test_a_summary_of_many_charges_does_not_read_them(monkeypatch):
    accountant = PrivacyAccountant()
    with accountant._ledger.writing() as transaction:
        for i in range(200):
            transaction.append(f'{{"kind":"Unknown{i}"}}', 1, None, None)
    assert repr(accountant).endswith("200 charges; total() composes them")


def test_parts_of_many_kinds_cost_as_much_as_the_worst():
    accountant = PrivacyAccountant()
    everywhere = different(20, "add_remove")
    parts = accountant.parallel("region", split_by="values")
    north, south = different(20, "add_remove", 2.0, 1), different(20, "add_remove", 1.0, 2)
    for kind in everywhere:
        accountant.charge(kind)
    for kind in north:
        parts["north"].charge(kind)
    for kind in south:
        parts["south"].charge(kind)
    expected = max(
        Composition([(kind, 1) for kind in everywhere + part]).epsilon(DELTA)
        for part in (north, south)
    )
    assert accountant.total() == pytest.approx(expected, rel=1e-9)
    assert cold(accountant) == pytest.approx(expected, rel=1e-9)


def test_running_totals_of_many_kinds_are_those_of_their_beginnings():
    accountant = PrivacyAccountant()
    kinds = [*different(25), ZeroConcentratedDP(1e-4)]
    for kind in kinds:
        accountant.charge(kind)
    numbers = [3, 16, 17, 25, 26]
    expected = [Composition([(k, 1) for k in kinds[:n]]).epsilon(DELTA) for n in numbers]
    assert accountant.running_total(DELTA, after=numbers) == pytest.approx(expected, rel=1e-6)


def charge_all(accountant, seed):
    admitted = []
    for i, kind in enumerate(different(24, scale=1.5, seed=seed)):
        try:
            accountant.charge(kind, label=f"{seed} {i}")
            admitted.append((seed, i))
        except BudgetExceededError:
            pass
    return admitted


def within_the_limit(accountant, admitted, seeds):
    """Check that the file has the admitted charges, and that no other would be admitted."""
    assert sorted(row["label"] for row in accountant.history()) == sorted(
        f"{seed} {i}" for seed, i in admitted
    )
    made = [different(24, scale=1.5, seed=seed)[i] for seed, i in admitted]
    whole = Composition([(kind, 1) for kind in made])
    assert whole.delta(accountant.epsilon) <= accountant.delta
    assert cold(accountant) <= accountant.epsilon
    # How many fit depends on whose come first: 24, if all of one process do.
    assert 16 < len(made) < 24 * len(seeds)


def test_threads_with_different_charges_cannot_overspend_together():
    accountant = PrivacyAccountant(epsilon=0.8, delta=DELTA, adaptive=False)
    seeds = range(4)
    with ThreadPoolExecutor(4) as pool:
        admitted = list(chain(*pool.map(charge_all, [accountant] * 4, seeds)))
    within_the_limit(accountant, admitted, seeds)


def test_processes_with_different_charges_cannot_overspend_together():
    accountant = PrivacyAccountant(epsilon=0.8, delta=DELTA, adaptive=False)
    seeds = range(4)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        admitted = list(chain(*pool.starmap(charge_all, [(accountant, s) for s in seeds])))
    within_the_limit(accountant, admitted, seeds)


ordinary = st.floats(-9, 9).map(lambda x: 10.0**x)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(ordinary, ordinary, st.sampled_from([1, 3, 10**11]), st.sampled_from(range(4)))
def test_charges_of_ordinary_size_can_be_composed(one, other, releases, kind):
    mechanism = (
        DirichletMechanism(r=one, alpha=other),
        GaussianMechanism(sigma=one),
        LaplaceMechanism(scale=one, adjacency="add_remove"),
        PureDP(one),
    )[kind]
    if _is_ordinary(mechanism, releases):
        assert _is_computable(mechanism, releases, LimitParameters(1.0, DELTA, None))
