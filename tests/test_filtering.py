"""Accountants with adaptive limits and with limits for fixed plans."""

import json
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skdirdp import BudgetExceededError, PrivacyAccountant
from skdirdp.accountant import LedgerError
from skdirdp.accountant.codec import encode
from skdirdp.accountant.limits import Spending, _filter_use, in_percent, limit_for
from skdirdp.accountant.schema import LimitParameters
from skdirdp.accounting import ApproximateDP, Composition, PureDP, ZeroConcentratedDP
from skdirdp.accounting.filters import PrivacyFilter
from skdirdp.command import main
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    SimplexMechanism,
    calibrate,
)
from skdirdp.mechanisms.additive import SelectionMechanism
from skdirdp.reporting.statements import ADAPTIVE_LIMIT

DATA = Path(__file__).parent / "data"
TABLE = DirichletMechanism(r=0.05, alpha=20.0)
NOISE = GaussianMechanism(sigma=60.0)
LIMIT = {"epsilon": 1.0, "delta": 1e-5}


def spent(accountant):
    return 1 - accountant.remaining() / accountant.epsilon


# Two promises, and the words for them ----------------------------------------------


def test_limits_are_adaptive_by_default():
    assert PrivacyAccountant(**LIMIT).adaptive
    assert PrivacyAccountant().adaptive
    assert not PrivacyAccountant(**LIMIT, adaptive=False).adaptive
    for bad in ("yes", 2, 0.5, []):
        with pytest.raises(ValueError, match="adaptive must be True or False"):
            PrivacyAccountant(**LIMIT, adaptive=bad)


def test_each_promise_has_its_own_numbers():
    adaptive, plan = PrivacyAccountant(**LIMIT), PrivacyAccountant(**LIMIT, adaptive=False)
    for accountant in (adaptive, plan):
        assert accountant.total() == 0.0
        assert accountant.remaining() == 1.0
        accountant.charge(TABLE, releases=50)
    exact = Composition([(TABLE, 50)]).epsilon(1e-5)
    assert plan.total() == exact == pytest.approx(1 - plan.remaining(), rel=1e-12)
    assert plan.running_total() == [exact]
    # The limit holds for all future charges, at its own delta and at others.
    assert adaptive.total() == 1.0
    assert adaptive.total(1e-6) > 1.0 > adaptive.total(1e-4) > exact
    holds = PrivacyFilter(TABLE, 50, 1.0, 1e-5)
    assert adaptive.total(1e-4) == holds.epsilon(1e-4)
    assert spent(adaptive) == pytest.approx(50 / holds.budgets["replace"][0].number, rel=1e-9)
    assert adaptive.running_total() == [pytest.approx(spent(adaptive), rel=1e-12)]
    assert adaptive.running_total(1e-5) == [1.0]


def test_repr_and_errors_state_the_kind_of_limit():
    adaptive, plan = PrivacyAccountant(**LIMIT), PrivacyAccountant(**LIMIT, adaptive=False)
    adaptive.charge(TABLE, releases=133)
    plan.charge(TABLE, releases=133)
    assert repr(adaptive) == (
        "PrivacyAccountant(epsilon=1.0, delta=1e-05): 1 charge, 49.82% of the limit spent, "
        "50.18% left; the limit is the total"
    )
    assert repr(plan).startswith("PrivacyAccountant(epsilon=1.0, delta=1e-05, adaptive=False): 1 ")
    assert "total epsilon" in repr(plan)
    with pytest.raises(BudgetExceededError) as refused:
        adaptive.charge(TABLE, releases=200)
    assert "of which 49.82% is spent" in str(refused.value)
    assert "adaptively chosen charges" in str(refused.value)
    with pytest.raises(BudgetExceededError, match="would increase the total epsilon to"):
        plan.charge(TABLE, releases=200)


def test_one_account_of_an_adaptive_limit_is_given_everywhere(tmp_path, capsys):
    accountant = PrivacyAccountant(epsilon=3.0, delta=1e-5, path=tmp_path / "ledger.sqlite")
    accountant.charge(PureDP(0.5), label="first")
    # Copies of the first kind that the limit admits, of which one was used.
    copies = _filter_use((encode(PureDP(0.5)), 1), accountant._ledger.header.limit).filter
    part = float(copies.share({PureDP(0.5): 1}))
    spent, left = in_percent(part)
    assert float(spent[:-1]) + float(left[:-1]) == 100
    assert (accountant.total(), accountant.remaining()) == (3.0, 3.0 - part * 3.0)
    page = Path(accountant.report(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert main(["ledger", "show", accountant.path]) == 0
    shown = capsys.readouterr().out
    for text in (page, shown, accountant._repr_html_(), repr(accountant)):
        assert spent in text
        assert left in text
    assert spent in str(accountant.history())
    for text in (page, " ".join(shown.split())):
        assert ADAPTIVE_LIMIT in text
        assert "ε = 3 at δ = 0.00001, the limit" in text
    assert "(ε = 3, δ = 0.00001)" in accountant.statement()
    # The share times epsilon is no epsilon of anything that was released.
    for text in (page, shown, accountant._repr_html_(), str(accountant.history())):
        assert f"{3.0 * part:.3f}" not in text
    assert main(["ledger", "show", accountant.path, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["share_used"] == pytest.approx(part)
    assert numbers["remaining"] == accountant.remaining()


def test_without_a_limit_the_total_is_that_of_a_plan():
    accountant = PrivacyAccountant()
    accountant.charge(TABLE, releases=50)
    assert accountant.total() == Composition([(TABLE, 50)]).epsilon(1e-5)
    assert accountant.remaining() == float("inf")


def test_a_limit_at_one_order_is_the_same_for_both_promises():
    for adaptive in (True, False):
        accountant = PrivacyAccountant(epsilon=0.2, order=5.0, adaptive=adaptive)
        accountant.charge(GaussianMechanism(sigma=10.0), releases=3)
        assert accountant.remaining() == pytest.approx(0.05)


def test_curves_are_those_of_the_promise():
    adaptive, plan = PrivacyAccountant(**LIMIT), PrivacyAccountant(**LIMIT, adaptive=False)
    assert adaptive.curves()[0].epsilon(1e-5) == 0.0
    for accountant in (adaptive, plan):
        accountant.charge(TABLE, releases=50)
    assert plan.curves()[0].epsilon(1e-5) == plan.total()
    assert adaptive.curves()[0].delta(1.0) == pytest.approx(1e-5, rel=1e-6)


# Admission --------------------------------------------------------------------------


def test_the_filter_of_the_first_charge_decides_on_later_ones():
    accountant = PrivacyAccountant(**LIMIT)
    spending = PrivacyFilter(NOISE, 2, 1.0, 1e-5)
    counts = {NOISE: 0, TABLE: 0, PureDP(0.02): 0, ZeroConcentratedDP(1e-4): 0}
    charges = [(NOISE, 2), *((kind, 7) for kind in counts), *((kind, 9) for kind in counts)] * 3
    refused = 0
    for kind, releases in charges:
        after = {**counts, kind: counts[kind] + releases}
        if spending.admits({kind: number for kind, number in after.items() if number}):
            assert accountant.affords(kind, releases)
            accountant.charge(kind, releases)
            counts = after
        else:
            assert not accountant.affords(kind, releases)
            with pytest.raises(BudgetExceededError):
                accountant.charge(kind, releases)
            refused += 1
    assert 0 < refused < len(charges)
    assert sum(counts.values()) == sum(row["releases"] for row in accountant.history())


def test_the_order_of_later_charges_does_not_matter():
    spends = []
    for order in ([TABLE, PureDP(0.01), NOISE], [NOISE, TABLE, PureDP(0.01)]):
        accountant = PrivacyAccountant(**LIMIT)
        accountant.charge(TABLE)
        for kind in order:
            accountant.charge(kind, releases=5)
        spends.append(accountant.remaining())
    assert spends[0] == spends[1]


def test_incremental_sums_equal_sums_from_scratch():
    limit = limit_for(LimitParameters(1.0, 1e-5, None, adaptive=True))
    kinds = [NOISE, TABLE, PureDP(0.02), ZeroConcentratedDP(1e-4), ApproximateDP(0.01, 1e-9)]
    first = (encode(NOISE), 2)
    spending = PrivacyFilter(NOISE, 2, 1.0, 1e-5)
    rng = np.random.default_rng(0)
    for _ in range(60):
        # Also fewer than before, as from one part of the data to the next.
        counts = {kind: int(n) for kind, n in zip(kinds, rng.integers(0, 12, 5), strict=True) if n}
        if rng.random() < 0.3:
            counts = {NOISE: int(rng.integers(1, 40))}
        sums = {("", "", encode(kind)): n for kind, n in counts.items()}
        spent = Spending().plus(sums, first=first)
        assert limit.share(spent) == float(spending.share(counts))
        assert limit.admits(spent) == spending.admits(counts)


def test_a_refused_first_charge_decides_nothing():
    accountant = PrivacyAccountant(**LIMIT)
    with pytest.raises(BudgetExceededError):
        accountant.charge(PureDP(1.5))
    accountant.charge(PureDP(1.0))
    assert accountant.remaining() == 0.0


def test_disjoint_parts_are_each_within_the_filter():
    table = DirichletMechanism(r=0.05, alpha=20.0, adjacency="add_remove")
    accountant = PrivacyAccountant(**LIMIT)
    most = PrivacyFilter(table, 10, 1.0, 1e-5).budgets["add"][0].number
    parts = accountant.parallel("region", split_by="values")
    parts["north"].charge(table, releases=10)
    parts["north"].charge(table, releases=most - 20)
    parts["south"].charge(table, releases=most - 10)
    accountant.charge(table, releases=10)
    for refusing in (parts["north"], parts["south"], accountant):
        with pytest.raises(BudgetExceededError):
            refusing.charge(table)
    parts["west"].charge(table, releases=most - 10)
    assert accountant.remaining() == pytest.approx(0.0, abs=1e-12)


def test_an_approximate_guarantee_that_is_the_limit_is_admitted_once():
    accountant = PrivacyAccountant(**LIMIT)
    accountant.charge(ApproximateDP(1.0, 1e-5))
    with pytest.raises(BudgetExceededError):
        accountant.charge(LaplaceMechanism(scale=1e6))


# Files -----------------------------------------------------------------------------


def test_a_file_remembers_its_promise(tmp_path):
    PrivacyAccountant(**LIMIT, path=tmp_path / "adaptive")
    PrivacyAccountant(**LIMIT, path=tmp_path / "plan", adaptive=False)
    assert PrivacyAccountant(path=tmp_path / "adaptive").adaptive
    assert not PrivacyAccountant(**LIMIT, path=tmp_path / "plan").adaptive
    for name, other in (("adaptive", False), ("plan", True)):
        for limits in (LIMIT, {}):
            with pytest.raises(ValueError, match="which cannot be changed; got"):
                PrivacyAccountant(**limits, path=tmp_path / name, adaptive=other)


@pytest.mark.parametrize("name", ["fixed-plan", "renyi"])
def test_stored_ledgers_for_fixed_plans_stay_so(tmp_path, name):
    path = shutil.copy(DATA / f"ledger-{name}.sqlite", tmp_path)
    accountant = PrivacyAccountant(path=path)
    assert not accountant.adaptive
    totals = [each.epsilon(accountant.delta) for each in accountant.compositions()]
    assert accountant.total() == max(totals)
    with pytest.raises(ValueError, match="adaptive=False, which cannot be changed"):
        PrivacyAccountant(path=path, adaptive=True)


def test_a_pickle_has_the_same_limit():
    for adaptive in (True, False):
        accountant = PrivacyAccountant(**LIMIT, adaptive=adaptive)
        assert pickle.loads(pickle.dumps(accountant)).adaptive is adaptive


def test_another_process_makes_the_same_decisions(tmp_path):
    path = tmp_path / "ledger"
    accountant = PrivacyAccountant(**LIMIT, path=path)
    accountant.charge(NOISE, releases=2)
    accountant.charge(TABLE, releases=30)
    code = (
        "from skdirdp import PrivacyAccountant; from skdirdp.mechanisms import DirichletMechanism;"
        f"a = PrivacyAccountant(path={str(path)!r});"
        "t = DirichletMechanism(r=0.05, alpha=20.0);"
        "print(a.remaining(), [n for n in range(1, 300, 60) if a.affords(t, n)][-1])"
    )
    root = Path(__file__).parent.parent
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    ).stdout.split()
    most = [n for n in range(1, 300, 60) if accountant.affords(TABLE, n)][-1]
    assert there == [str(accountant.remaining()), str(most)]


def test_a_ledger_without_a_total_has_no_filter_either(tmp_path):
    accountant = PrivacyAccountant(**LIMIT, path=tmp_path / "ledger")
    with accountant._ledger.writing() as transaction:
        transaction.append(encode(TABLE), 1, None, None)
        transaction.append(encode(PureDP(0.1, "add_remove")), 1, None, None)
    with pytest.raises(LedgerError, match="different adjacencies"):
        accountant.total()


# Fits that find names or words under an adaptive limit

WORDS = SelectionMechanism(sigma=24.0, max_total=20.0, failure=2.5e-6)
HASHED = calibrate("dirichlet", epsilon=0.2, n_samples=2000, n_categories=30)
NAMES_FIRST = "first charge the fits that discover names or words"


def refused(accountant, mechanism, releases=1):
    with pytest.raises(BudgetExceededError) as error:
        accountant.charge(mechanism, releases=releases)
    return str(error.value)


def test_a_refusal_of_words_names_changes_that_are_admitted():
    accountant = PrivacyAccountant(epsilon=4.0)
    accountant.charge(HASHED)
    for sigma in (24.0, 595.9, 1e6):
        message = refused(accountant, replace(WORDS, sigma=sigma))
        assert "No smaller epsilon of the same mechanisms would be admitted" in message
        assert NAMES_FIRST in message
        assert "adaptive=False" in message
        times = float(re.search(r"a delta of the fit that is (\d+) times smaller", message)[1])
        assert accountant.affords(replace(WORDS, failure=WORDS.failure / times))
        assert not accountant.affords(replace(WORDS, failure=WORDS.failure / times * 2))
    plan = PrivacyAccountant(epsilon=4.0, adaptive=False)
    plan.charge(HASHED)
    plan.charge(WORDS)


def test_a_refusal_after_words_recommends_gaussian_noise():
    accountant = PrivacyAccountant(epsilon=4.0)
    accountant.charge(WORDS)
    for epsilon in (1.0, 0.03):
        noise = {"epsilon": epsilon, "n_samples": 2000, "n_categories": 30}
        message = refused(accountant, calibrate("dirichlet", **noise))
        assert "No smaller epsilon of the same mechanisms would be admitted" in message
        assert "Gaussian noise (mechanism='gaussian') of the same epsilon" in message
        assert NAMES_FIRST not in message
        assert accountant.affords(calibrate("gaussian", **noise))
    assert not accountant.affords(PureDP(1e-9))


@pytest.mark.parametrize(
    "first", [WORDS, GaussianMechanism(sigma=10.0), DirichletMechanism(2, 900)]
)
def test_a_smaller_epsilon_is_recommended_only_if_it_is_admitted(first):
    accountant = PrivacyAccountant(epsilon=1.0)
    while accountant.affords(first):
        accountant.charge(first)
    message = refused(accountant, LaplaceMechanism(scale=1.0))
    admitted = accountant.affords(LaplaceMechanism(scale=1e7))
    assert ("with a smaller epsilon" in message) == admitted
    assert ("No smaller epsilon" in message) != admitted
    assert NAMES_FIRST not in message


def test_a_first_charge_above_the_limit_needs_a_smaller_epsilon():
    message = refused(PrivacyAccountant(epsilon=1.0), PureDP(2.0))
    assert "The charge would be admitted with a smaller epsilon." in message
    assert NAMES_FIRST not in message
    message = refused(PrivacyAccountant(epsilon=1.0), ApproximateDP(0.1, 1e-4))
    assert "No smaller epsilon" in message


def test_nothing_left_names_the_releases_that_are_still_admitted(tmp_path):
    accountant = PrivacyAccountant(epsilon=3.0)
    names = SelectionMechanism(sigma=16.97, failure=2.5e-6)
    accountant.charge(JointMechanism(((names, 1), (GaussianMechanism(sigma=5.657), 1))))
    half = calibrate("dirichlet", epsilon=0.5, n_samples=2000, n_categories=12)
    admitted = 0
    while accountant.affords(half):
        accountant.charge(half)
        admitted += 1
        assert accountant.remaining() < 1e-4 * accountant.epsilon
        assert "0.00% left in general, but " in repr(accountant)
        assert "% for noise of any kind that finds no names or words" in repr(accountant)
        assert not accountant.affords(replace(WORDS, sigma=1e6))
    assert admitted > 1
    assert "that finds no names or words" in accountant._repr_html_()
    assert "with a smaller epsilon" in refused(accountant, half)


def test_bounds_on_attacks_of_an_adaptive_limit_are_said_to_be_for_all_charges(tmp_path):
    pages = {}
    for limit in ({}, {"order": 8.0}, {"adaptive": False}):
        accountant = PrivacyAccountant(epsilon=3.0, **limit)
        accountant.charge(NOISE, releases=30)
        path = accountant.report(tmp_path / "page.html")
        pages[str(limit)] = page = Path(path).read_text(encoding="utf-8")
        adaptive = "adaptive" not in limit
        for text in (page, accountant.statement()):
            assert ("hold for all charges that the limit will ever admit" in text) == adaptive
        assert "the smallest δ" not in page
        # The bound of the limit is above that of the charges, if they were planned.
        planned = PrivacyAccountant(epsilon=3.0, adaptive=False)
        planned.charge(NOISE, releases=30)
        assert (accountant.advantage() > 1.1 * planned.advantage()) == adaptive
    assert "an upper bound: a smaller δ may hold" in pages["{}"]


@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_refusals_on_parts_and_persons_name_changes_too(unit, adjacency):
    split_by = "position" if adjacency == "replace" else "values"
    accountant = PrivacyAccountant(epsilon=2.0, unit=unit)
    relation = f"{adjacency}_person" if unit else adjacency
    accountant.charge(replace(NOISE, adjacency=relation))
    charged = accountant if unit else accountant.parallel("site", split_by=split_by)["north"]
    large = LaplaceMechanism(scale=0.5, adjacency=relation)
    message = refused(charged, large)
    assert "with a smaller epsilon" in message
    assert charged.affords(replace(large, scale=1e6))
    assert NAMES_FIRST not in message


def test_a_refusal_for_vectors_recommends_no_gaussian_noise():
    vectors = SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05)
    accountant = PrivacyAccountant(epsilon=200.0)
    accountant.charge(vectors)
    message = refused(accountant, vectors, releases=1000)
    assert "gaussian" not in message
    assert "admitted" in message
