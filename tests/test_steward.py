"""Ledgers: statements, reports, exports, and merges."""

import csv
import json
import pickle
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest

from skdirdp import (
    BudgetExceededError,
    DirichletCategoricalNB,
    LedgerError,
    PrivacyAccountant,
)
from skdirdp.accountant import codec, limits, reports
from skdirdp.accountant.codec import encode
from skdirdp.accounting import ApproximateDP, Composition, NoPrivacy, PureDP, RenyiDP
from skdirdp.mechanisms import (
    DirichletMechanism,
    GaussianMechanism,
    JointMechanism,
    LaplaceMechanism,
    SimplexMechanism,
)

from .test_reporting import ATTACKS, Tags, assert_loads_nothing

MECHANISM = DirichletMechanism(r=0.05, alpha=20.0)
ADD_REMOVE = DirichletMechanism(r=0.05, alpha=20.0, adjacency="add_remove")
PERSONS = DirichletMechanism(r=0.05, alpha=20.0, adjacency="replace_person")


def plan(epsilon=None, **more):
    """An accountant whose budgets are fixed beforehand."""
    return PrivacyAccountant(epsilon, adaptive=False, **more)


def filled(**more):
    """A ledger with every kind of charge that goes together."""
    accountant = plan(name="Survey", unit="record", **more)
    accountant.charge(MECHANISM, releases=14, label="income")
    accountant.charge(JointMechanism(((MECHANISM, 2), (GaussianMechanism(sigma=50.0), 1))))
    accountant.charge(LaplaceMechanism(scale=100.0), label="Ünïcode 名前 \u202e <b>")
    accountant.charge(RenyiDP(4.0, 0.1 + 0.2), label="")
    accountant.charge(ApproximateDP(0.1, 1e-7), releases=2)
    rows = accountant.parallel("rows", split_by="position")
    rows["first half"].charge(MECHANISM, releases=3, label="half")
    rows["second half"].charge(PureDP(1 / 3), label="half")
    return accountant


def rows_of(accountant):
    return [dict(row) for row in accountant.history()]


# The history


def test_the_history_has_the_epsilon_of_each_charge_alone():
    accountant = filled()
    alone = [row["epsilon"] for row in accountant.history()]
    expected = [(MECHANISM, 14), None, (LaplaceMechanism(scale=100.0), 1)]
    for cost, charge in zip(alone, expected, strict=False):
        if charge is not None:
            assert cost == Composition([charge]).epsilon(1e-5)
    assert sum(alone) > accountant.total() > max(alone)


def test_the_epsilon_alone_is_in_the_terms_of_the_limit():
    accountant = PrivacyAccountant(2.0, order=8.0)
    accountant.charge(GaussianMechanism(sigma=10.0), releases=3)
    # Two cells move by one each: lambda * 2 / (2 sigma^2), three times.
    assert accountant.history()[0]["epsilon"] == pytest.approx(3 * 8 * 2 / (2 * 100), rel=1e-9)


def test_epsilons_are_composed_lazily_and_once_for_each_kind(monkeypatch):
    composed = []

    class Counting(Composition):
        def __init__(self, parts):
            composed.append(parts)
            super().__init__(parts)

    monkeypatch.setattr(limits, "Composition", Counting)
    reports._joint_epsilon.cache_clear()
    limits.compose.cache_clear()
    accountant = plan()
    for _ in range(30):
        accountant.charge(MECHANISM, label="a")
        accountant.charge(PureDP(0.25), label="b")
    rows = accountant.history()
    assert [row["label"] for row in rows[:2]] == ["a", "b"]
    assert composed == []
    assert len(pd.DataFrame(rows)["epsilon"].unique()) == 2
    assert len(composed) == 2


def test_the_printed_history_has_a_column_of_running_totals():
    accountant = plan()
    for epsilon in [0.25, 0.5]:
        accountant.charge(PureDP(epsilon))
    header, _, *lines = str(accountant.history()).splitlines()
    assert header.split()[-3:] == ["epsilon", "total", "label"]
    shown = [line.split()[-2:] for line in lines]
    assert [float(total) for _, total in shown] == pytest.approx([0.25, 0.75], abs=1e-4)
    assert all(float(shown[i][0]) >= row["epsilon"] for i, row in enumerate(rows_of(accountant)))


def test_the_used_share_of_a_limit_is_not_printed_as_a_total():
    accountant = PrivacyAccountant(epsilon=1.0)
    accountant.charge(PureDP(0.3))
    history = pickle.loads(pickle.dumps(accountant.history()))
    header, _, line = str(history).splitlines()
    assert header.split()[-3:] == ["epsilon", "used", "label"]
    used = line.split()[-1]
    assert used.endswith("%")
    assert float(used[:-1]) >= 100 * (1 - accountant.remaining())
    assert ">used<" in history._repr_html_()
    assert accountant.total() == 1.0


def test_a_history_can_be_pickled_and_compared():
    accountant = filled()
    again = pickle.loads(pickle.dumps(accountant.history()))
    assert again == accountant.history()
    assert str(again) == str(accountant.history())


# The statement


def claimed(sentence):
    """The epsilon that a sentence states."""
    return float(sentence.partition("(ε = ")[2].partition(",")[0])


@pytest.mark.parametrize("releases", [1, 3, 14, 200])
def test_the_stated_total_is_not_below_the_exact_one(releases):
    accountant = plan()
    accountant.charge(GaussianMechanism(sigma=30.0), releases=releases)
    # The analytic Gaussian mechanism, of sensitivity sqrt(2 * releases).
    with mpmath.workdps(40):
        mu = mpmath.sqrt(2 * releases) / 30

        def delta(e):
            a, b = mu / 2 - e / mu, -mu / 2 - e / mu
            return mpmath.ncdf(a) - mpmath.exp(e) * mpmath.ncdf(b)

        low, high = mpmath.mpf(0), mpmath.mpf(10)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if delta(middle) > mpmath.mpf("1e-5") else (low, middle)
        truth = high
    stated = claimed(accountant.statement())
    assert truth <= stated <= truth + 1.5e-4


def test_the_statement_of_an_adaptive_limit_is_the_limit():
    accountant = PrivacyAccountant(2.0, order=8.0, adaptive=True)
    accountant.charge(PureDP(0.1))
    assert "(λ = 8, ε = 2)-Rényi" in accountant.statement()


def test_an_empty_ledger_has_nothing_to_state():
    assert "nothing to state" in plan(1.0).statement()


def test_without_noise_there_is_nothing_to_claim():
    accountant = plan()
    accountant.charge(NoPrivacy())
    assert "no guarantee" in accountant.statement()


def test_the_statement_names_the_data_set_and_the_unit():
    sentence = filled().statement()
    assert "the data set “Survey”" in sentence
    assert "the replacement of one record by any other" in sentence


# The page


def page_of(accountant, tmp_path):
    accountant.report(tmp_path / "ledger.html")
    page = (tmp_path / "ledger.html").read_text(encoding="utf-8")
    assert_loads_nothing(page)
    return page


def test_the_page_has_statement_limit_charges_plots_and_exceptions(tmp_path):
    accountant = filled(epsilon=6.0)
    page = page_of(accountant, tmp_path)
    assert page.count("<svg") == 3
    for text in ["Survey", "income", "first half", "limit 6", "not covered", "7 charges"]:
        assert text in page
    assert page.count("prefers-color-scheme: dark") == 1
    assert "@media print" in page


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_labels_units_and_parts_cannot_break_a_page(attack, tmp_path):
    accountant = plan(1.0, name=attack)
    accountant.parallel(attack, split_by="position")[attack].charge(MECHANISM, label=attack)
    of_persons = plan(1.0, name=attack, unit=attack)
    of_persons.charge(PERSONS, label=attack)
    for each in (accountant, of_persons):
        for page in [
            page_of(each, tmp_path),
            each._repr_html_(),
            each.history()._repr_html_(),
        ]:
            assert not Tags(page).seen & {"script", "img", "b"}


def test_an_empty_ledger_and_one_without_noise_have_pages(tmp_path):
    assert "nothing to state" in page_of(plan(1.0), tmp_path)
    accountant = plan()
    accountant.charge(PureDP(0.5))
    accountant.charge(NoPrivacy())
    accountant.charge(PureDP(0.5))
    page = page_of(accountant, tmp_path)
    assert "infinite from here on" in page
    assert "something was released without noise" in page


def append(accountant, n_charges, kind):
    """Many charges at once, which one by one would wait for the disk each."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with accountant._ledger.writing() as transaction:
        for i in range(n_charges):
            time, label = start + timedelta(minutes=i), f"search {i % 7}"
            transaction.append(kind(i), 1, label, None, time=time, user=f"user {i % 3}")


def test_ten_thousand_charges_are_gathered_into_a_small_page(tmp_path):
    accountant = plan(1000.0, order=2.0)  # in terms that are quick
    specs = [encode(GaussianMechanism(sigma=1000.0)), encode(GaussianMechanism(sigma=2000.0))]
    append(accountant, 10_000, lambda i: specs[i % 2])
    page = page_of(accountant, tmp_path)
    assert "10000 charges" in page
    assert "9900 charges left out" in page
    assert len(page) < 100_000
    assert Tags(page).seen >= {"table", "svg"}


def test_many_kinds_and_labels_are_abbreviated(tmp_path):
    accountant = plan(1000.0, order=2.0)
    append(accountant, 120, lambda i: encode(GaussianMechanism(sigma=1000.0 + i)))
    accountant.charge(GaussianMechanism(sigma=900.0), label="x" * 5000)
    page = page_of(accountant, tmp_path)
    assert "x" * 200 not in page
    assert "21 charges left out" in page


# Notebooks


def test_a_notebook_shows_the_limit_and_the_used_share():
    shown = filled(epsilon=6.0)._repr_html_()
    assert "of ε = 6 at δ = 0.00001" in shown
    assert "7 charges" in shown
    assert "no limit" in plan()._repr_html_()


def test_a_notebook_shows_an_accountant_without_its_ledger(tmp_path):
    accountant = plan(1.0, path=tmp_path / "ledger.sqlite")
    for file in tmp_path.iterdir():
        file.unlink()
    assert "cannot be read" in accountant._repr_html_()


# Exports


def test_a_ledger_is_read_back_without_loss(tmp_path):
    accountant = filled(epsilon=6.0)
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json", tmp_path / "again.sqlite")
    assert rows_of(again) == rows_of(accountant)
    assert again.total() == accountant.total()
    assert again.running_total() == accountant.running_total()
    assert again.remaining() == accountant.remaining()
    assert again.statement() == accountant.statement()
    for name in ["epsilon", "delta", "order", "adaptive", "name", "adjacency", "unit"]:
        assert getattr(again, name) == getattr(accountant, name)
    again.export(tmp_path / "again.json")
    first, second = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("ledger", "again"))
    assert first["charges"] == second["charges"]


@pytest.mark.parametrize("limit", [{}, {"epsilon": 2.0, "order": 8.0}, {"epsilon": 1.0}])
def test_every_limit_is_read_back(limit, tmp_path):
    accountant = plan(**limit, adjacency="add_remove")
    accountant.charge(ADD_REMOVE)
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    assert (again.epsilon, again.order) == (accountant.epsilon, accountant.order)
    assert again.adjacency == "add_remove"
    assert again.total() == accountant.total()


def test_an_adaptive_limit_is_exported_and_read_back(tmp_path):
    accountant = PrivacyAccountant(2.0, order=8.0, adaptive=True)
    accountant.charge(PureDP(0.1))
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    assert again.statement() == accountant.statement()
    assert "(λ = 8, ε = 2)" in again.statement()


def test_an_export_without_adaptive_is_read_back_as_not_adaptive(tmp_path):
    path = tmp_path / "ledger.json"
    PrivacyAccountant(2.0).export(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content.pop("adaptive") is True
    content["sha256"] = codec._digest(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert PrivacyAccountant.from_export(path).adaptive is False


def test_own_charges_cannot_have_keys_of_merged_ones():
    accountant = PrivacyAccountant(2.0)
    for key in ["merged/2026/01/run 7", "copied/a/0/b"]:
        with pytest.raises(ValueError, match="key must not look like the key"):
            accountant.charge(PureDP(0.1), key=key)
    accountant.charge(PureDP(0.1), key="merged/run 7")
    assert len(accountant) == 1
    assert "(ε = 2, δ = 0.00001)" in accountant.statement()


DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", ["fixed-plan", "renyi", "without-noise", "vectors"])
def test_stored_ledgers_without_users_are_exported_and_merged(name, tmp_path):
    accountant = PrivacyAccountant(path=shutil.copy(DATA / f"ledger-{name}.sqlite", tmp_path))
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    assert rows_of(again) == rows_of(accountant)
    assert {row["user"] for row in again.history()} == {None}
    assert again.total() == accountant.total()
    together = plan()
    assert together.merge(accountant) == len(accountant)
    assert together.merge(again) == 0


def test_vectors_are_read_back(tmp_path):
    accountant = plan()
    accountant.charge(SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05))
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    assert rows_of(again) == rows_of(accountant)
    assert "the exchange of one vector" in again.statement()


def damaged(tmp_path, change):
    """Read an export after a change of its text."""
    accountant = filled()
    path = tmp_path / "ledger.json"
    accountant.export(path)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    return PrivacyAccountant.from_export(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"releases": 14', '"releases": 1', 1), "was changed"),
        (lambda text: text[: len(text) // 2], "not JSON, or is incomplete"),
        (lambda text: "[]", "not a ledger export"),
        (lambda text: "", "not JSON"),
        (lambda text: "[" * 100_000, "not JSON"),
        (lambda text: text.replace('"version": 1', '"version": 2', 1), "has version 2"),
    ],
)
def test_a_damaged_export_is_refused(change, message, tmp_path):
    with pytest.raises(LedgerError, match=message):
        damaged(tmp_path, change)


def test_no_flipped_byte_of_an_export_makes_a_smaller_total(tmp_path):
    accountant = filled()
    path = tmp_path / "ledger.json"
    accountant.export(path)
    whole, total = path.read_bytes(), accountant.total()
    rng = np.random.default_rng(0)
    for place, bit in zip(rng.integers(0, len(whole), 300), rng.integers(0, 8, 300), strict=True):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        path.write_bytes(bytes(flipped))
        try:
            again = PrivacyAccountant.from_export(path)
        except LedgerError:
            continue
        assert again.total() >= total


def forged(tmp_path, **changes):
    """An export in which a charge was changed, with a hash that fits."""
    from skdirdp.accountant.codec import _digest

    path = tmp_path / "ledger.json"
    filled().export(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["charges"][0] |= changes
    content["sha256"] = _digest(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "change",
    [
        {"releases": 0},
        {"releases": 1.5},
        {"releases": True},
        {"releases": 2**63},
        {"time": "yesterday"},
        {"time": "2026-01-01T00:00:00"},
        {"mechanism": {"kind": "Unknown"}},
        {"mechanism": {"kind": "PureDP", "epsilon": -1.0}},
        {"mechanism": 7},
        {"label": 7},
        {"split": {"identity": "x"}},
        {"origin": None},
    ],
)
def test_an_invalid_export_is_refused_in_one_line(change, tmp_path):
    with pytest.raises(LedgerError) as refusal:
        PrivacyAccountant.from_export(forged(tmp_path, **change))
    assert "\n" not in str(refusal.value)


def test_a_missing_export_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="No such file"):
        PrivacyAccountant.from_export(tmp_path / "ledger.json")


def test_an_accountant_does_not_write_over_its_own_ledger(tmp_path):
    accountant = PrivacyAccountant(epsilon=1.0, path=tmp_path / "ledger.json")
    accountant.charge(PureDP(0.1))
    model = DirichletCategoricalNB(
        epsilon=0.1, classes=[0, 1], n_categories=2, accountant=accountant
    )
    privacy = model.fit([[1, 0], [0, 1]], [0, 1]).privacy_
    for write in (accountant.report, accountant.export, privacy.report):
        for path in (accountant.path, Path(accountant.path)):
            with pytest.raises(ValueError, match="would overwrite a ledger"):
                write(path)
    assert accountant.verify() == 2


def test_an_export_is_json_or_csv(tmp_path):
    with pytest.raises(ValueError, match="must end in"):
        plan().export(tmp_path / "ledger.xlsx")


def test_a_csv_export_has_a_row_for_each_charge_and_no_formula(tmp_path):
    accountant = filled()
    for label in ["=1+1", "+1", "-1", "@x", "\ttab"]:
        accountant.charge(MECHANISM, label=label)
    accountant.export(tmp_path / "ledger.csv")
    with open(tmp_path / "ledger.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(accountant)
    assert [float(row["epsilon"]) for row in rows] == [r["epsilon"] for r in accountant.history()]
    assert all(row["label"][:1] not in set("=+-@\t") - {""} for row in rows)
    assert rows[0]["time"] == accountant.history()[0]["time"].isoformat()


# Merging


def test_separate_ledgers_are_merged():
    here, there, together = plan(), plan(), plan()
    for accountant, mechanism in [(here, MECHANISM), (there, PureDP(0.2)), (there, MECHANISM)]:
        accountant.charge(mechanism, releases=2)
        together.charge(mechanism, releases=2)
    assert here.merge(there) == 2
    assert here.total() == together.total()
    assert len(there) == 2
    assert [row["time"] for row in here.history()][1:] == [row["time"] for row in there.history()]


def test_the_same_ledger_counts_once_by_any_route(tmp_path):
    here, there = plan(), plan()
    here.charge(MECHANISM)
    there.charge(MECHANISM)
    there.export(tmp_path / "there.json")
    copy = PrivacyAccountant.from_export(tmp_path / "there.json")
    assert here.merge(there) == 1
    assert here.merge(there) == 0
    assert here.merge(copy) == 0
    assert here.merge(here) == 0
    assert there.merge(here) == 1
    assert here.merge(there) == 0
    assert copy.merge(there) == 1
    third = plan()
    assert [third.merge(each) for each in (copy, here, there)] == [2, 0, 0]
    assert third.total() == here.total() == there.total() == copy.total()
    there.charge(PureDP(0.1))
    assert here.merge(there) == 1


def test_diverged_copies_of_a_file_are_added_up(tmp_path):
    first = plan(path=tmp_path / "first.sqlite")
    first.charge(MECHANISM)
    shutil.copy(tmp_path / "first.sqlite", tmp_path / "second.sqlite")
    second = plan(path=tmp_path / "second.sqlite")
    first.charge(PureDP(0.25))
    second.charge(PureDP(0.25))
    assert first.merge(second) == 1
    expected = Composition([(MECHANISM, 1), (PureDP(0.25), 2)]).epsilon(1e-5)
    assert first.total() == expected


def test_charges_that_are_equal_in_all_but_their_ledger_both_count():
    here, there = plan(), plan()
    time = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for accountant in (here, there):
        with accountant._ledger.writing() as transaction:
            transaction.append(encode(MECHANISM), 1, None, None, key="1", time=time, user="ana")
    assert here.merge(there) == 1
    assert here.total() == Composition([(MECHANISM, 2)]).epsilon(1e-5)


def test_a_merge_beyond_the_limit_is_recorded_and_blocks_charges():
    here, there = plan(1.0), plan(1.0)
    here.charge(PureDP(0.7))
    there.charge(PureDP(0.6))
    assert here.merge(there) == 1
    assert here.total() == Composition([(PureDP(0.7), 1), (PureDP(0.6), 1)]).epsilon(1e-5) > 1.0
    assert here.remaining() == 0
    with pytest.raises(BudgetExceededError):
        here.charge(PureDP(1e-6))
    assert len(here) == 2


def test_a_page_says_that_the_limit_is_exceeded(tmp_path):
    here, there = plan(1.0), plan(1.0)
    here.charge(PureDP(0.7))
    there.charge(PureDP(0.6))
    here.merge(there)
    assert "The charges exceed the limit" in page_of(here, tmp_path)


def test_parts_stay_parts_and_splits_of_two_ledgers_add_up():
    here, there = plan(), plan()
    for accountant in (here, there):
        regions = accountant.parallel("region", split_by="values")
        for region in ["north", "south"]:
            regions[region].charge(ADD_REMOVE, releases=2)
    here.merge(there)
    # A record is in one part of each split: twice two releases, not eight.
    assert here.total() == Composition([(ADD_REMOVE, 4)]).epsilon(1e-5)


def test_one_split_in_two_copies_stays_one_split(tmp_path):
    first = plan()
    regions = first.parallel("region", split_by="values")
    regions["north"].charge(ADD_REMOVE)
    first.export(tmp_path / "ledger.json")
    second = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    regions["south"].charge(ADD_REMOVE)
    second.merge(first)
    assert len(second) == 2
    assert second.total() == Composition([(ADD_REMOVE, 1)]).epsilon(1e-5)


@pytest.mark.parametrize(
    ("here", "there", "charges", "message"),
    [
        ({}, {}, [MECHANISM, ADD_REMOVE], "adjacency must be the same"),
        ({"adjacency": "replace"}, {}, [MECHANISM, ADD_REMOVE], "adjacency must be the same"),
        ({"unit": "person"}, {"unit": "visit"}, [PERSONS] * 2, "unit must be the same"),
        ({"unit": "person"}, {}, [PERSONS] * 2, "unit must be the same"),
        ({"unit": "person"}, {}, [PERSONS, MECHANISM], "must be the same"),
        ({"unit": "record"}, {}, [MECHANISM, PERSONS], "adjacency must be the same"),
    ],
)
def test_ledgers_of_different_guarantees_are_not_merged(here, there, charges, message):
    here, there = plan(**here), plan(**there)
    here.charge(charges[0])
    there.charge(charges[1])
    with pytest.raises(ValueError, match=message):
        here.merge(there)
    assert len(here) == 1


def test_an_adaptive_limit_accepts_no_merged_charges():
    here, there = PrivacyAccountant(2.0, order=8.0, adaptive=True), plan()
    there.charge(MECHANISM)
    with pytest.raises(ValueError, match="does not hold for charges that it did not decide on"):
        here.merge(there)
    assert len(here) == 0
    there.merge(here)


def test_a_merge_that_fails_in_the_middle_changes_nothing(monkeypatch):
    here, there = plan(), plan()
    for _ in range(3):
        there.charge(MECHANISM)
    with here._ledger.reading() as transaction:
        kind = type(transaction)
    whole, calls = kind.append, []

    def failing(self, *args, **more):
        calls.append(args)
        if len(calls) == 3:
            raise OSError("no space left")
        return whole(self, *args, **more)

    monkeypatch.setattr(kind, "append", failing)
    with pytest.raises((OSError, LedgerError), match="no space left"):
        here.merge(there)
    assert len(here) == 0
    assert here.merge(there) == 3


def test_a_merge_that_has_no_total_is_refused():
    here = plan()
    for i in range(4):
        there = plan()
        parts = there.parallel("region", split_by="values")
        for part in range(3):
            parts[part].charge(PureDP(0.1 + part + 10 * i, "add_remove"))
            parts[part].charge(PureDP(9 - part + 10 * i, "add_remove"))
        if i < 3:
            assert here.merge(there) == 6
    with pytest.raises(ValueError, match=r"at most 64 can be compared.*Nothing was merged"):
        here.merge(there)
    assert len(here) == 18


def test_only_accountants_of_the_whole_are_merged():
    with pytest.raises(TypeError, match="other must be a PrivacyAccountant"):
        plan().merge("ledger.sqlite")
    part = plan().parallel("x", split_by="values")["north"]
    with pytest.raises(ValueError, match="a part cannot be merged into"):
        part.merge(plan())
