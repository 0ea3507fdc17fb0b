"""The unit of a ledger determines which charges are allowed, and is stated."""

import html
import json
import re
import sqlite3
import warnings
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    LedgerError,
    PrivacyAccountant,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivateCrosstab,
    PrivateDirichletPosterior,
    Schema,
    make_private_pipeline,
)
from skdirdp._persons import Unit
from skdirdp.accountant.codec import decode, decode_unit, encode
from skdirdp.accountant.schema import SQLITE_TRIGGERS, header_hash
from skdirdp.accounting import ApproximateDP, PureDP
from skdirdp.command import main
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, SimplexMechanism
from skdirdp.model_selection import PrivateGridSearchCV, private_score
from skdirdp.reporting.statements import Claim, model_statement

from .test_forged_charges import forge, not_refused

N = 60
X = np.random.default_rng(0).integers(0, 2, (N, 3))
Y = np.arange(N) % 2
IDS = np.arange(N) // 3
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
TEXTS = ["one two", "two three"] * (N // 2)
CATEGORICAL = {"classes": [0, 1], "n_categories": 2}
NUMERIC = {"classes": [0, 1], "max_count": 1, "max_total": 3}
STATES = {name: [0, 1] for name in TABLE.columns}

# Estimators by name, with their data.
FITS = {
    "multinomial": (DirichletNB(**NUMERIC, n_samples=N), (X, Y)),
    "complement": (DirichletComplementNB(**NUMERIC, n_samples=N), (X, Y)),
    "bernoulli": (DirichletBernoulliNB(classes=[0, 1], n_samples=N), (X, Y)),
    "categorical": (DirichletCategoricalNB(**CATEGORICAL, n_samples=N), (X, Y)),
    "histogram": (DirichletHistogramTransformer(4, bounds=(0, 1), n_samples=N), (X,)),
    "network": (PrivateBayesNetMLE([("a", "b")], states=STATES, n_samples=N), (TABLE,)),
    "learnt network": (PrivateBayesNet(states=STATES), (TABLE,)),
    "posterior": (PrivateDirichletPosterior(n_categories=2), (X[:, 0],)),
    "words": (PrivateCountVectorizer(max_words=2), (TEXTS,)),
}


def fit(name, accountant, groups=None, **more):
    estimator, data = FITS[name]
    estimator = type(estimator)(**{**estimator.get_params(), "accountant": accountant, **more})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*data, **({} if groups is None else {"groups": groups}))


def patients(**more):
    return PrivacyAccountant(epsilon=3.0, unit="patient", **more)


@pytest.fixture
def no_noise(monkeypatch):
    """Noise that fails where it is drawn."""

    def fail(*args, **more):
        raise AssertionError("noise was drawn")

    for path in [
        "skdirdp.base.ReleasePlan.draw",
        "skdirdp.posterior.estimator.draw_laplace",
        "skdirdp.posterior.hellinger.draw_candidate",
        "skdirdp.bayes_net.structure_learning.select_categories",
        "skdirdp.mechanisms.base.Mechanism.draw_all",
    ]:
        monkeypatch.setattr(path, fail)


# Charging


@pytest.mark.parametrize("name", FITS)
def test_a_ledger_of_persons_refuses_a_fit_for_single_records_before_noise_is_drawn(name, no_noise):
    accountant = patients()
    with pytest.raises(ValueError, match="protects all records of each patient"):
        fit(name, accountant)
    assert len(accountant) == 0


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("by_ids", [True, False])
def test_a_ledger_of_persons_accepts_fits_for_persons_and_states_max_rows(name, by_ids):
    if name == "posterior" and by_ids:
        pytest.skip("a posterior knows persons with one record each, by their ids")
    accountant = patients()
    model = fit(name, accountant, groups=IDS if by_ids else None, max_rows=2)
    (charge,) = accountant._charges()
    assert decode_unit(charge.spec) == model.privacy_.unit == Unit(2, by_ids)
    whom = (
        "one patient, of whom up to 2 records are counted,"
        if by_ids
        else "one patient with up to 2 records (declared, not checked)"
    )
    assert f"the replacement of the data of {whom} by any other" in accountant.statement()
    assert accountant.verify() == 1


def test_searches_scores_and_mechanisms_for_records_are_rejected_too(no_noise):
    accountant = patients()
    counts = [[3.0, 4.0]]
    vectors = SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05)
    for release in [
        lambda: private_score(FittedModel(), X, Y, accountant=accountant),
        lambda: GaussianMechanism(sigma=1.0).release(counts, accountant=accountant),
        lambda: accountant.charge(ApproximateDP(0.1, 1e-7)),
        lambda: accountant.affords(PureDP(0.1)),
        lambda: accountant.charge(vectors),
    ]:
        with pytest.raises(ValueError, match="protects all records of each patient"):
            release()
    assert len(accountant) == 0


class FittedModel:
    """Something that predicts."""

    classes_ = np.array([0, 1])

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def test_a_search_for_records_is_rejected_before_it_draws_candidates(monkeypatch):
    accountant = patients()
    drawn = []
    monkeypatch.setattr("skdirdp.model_selection.runs.draw_candidates", drawn.append)
    model = DirichletCategoricalNB(**CATEGORICAL)
    with pytest.raises(ValueError, match="protects all records of each patient"):
        PrivateGridSearchCV(model, {"alpha": [1, 2]}, accountant=accountant).fit(X, Y)
    assert (len(accountant), drawn) == (0, [])


def test_a_pipeline_for_records_is_rejected_before_it_is_fitted():
    accountant = patients()
    pipe = make_private_pipeline(DirichletCategoricalNB(**CATEGORICAL), accountant=accountant)
    with pytest.raises(ValueError, match="protects all records of each patient"):
        pipe.fit(X, Y)
    assert len(accountant) == 0
    assert not hasattr(pipe, "privacy_")
    assert not hasattr(pipe[-1], "feature_log_prob_")


def test_a_pipeline_of_persons_is_charged_with_their_records():
    accountant = patients()
    pipe = make_private_pipeline(
        DirichletHistogramTransformer(2, encode="ordinal", bounds=(0, 1), max_rows=3, n_samples=N),
        DirichletCategoricalNB(**CATEGORICAL, max_rows=3, n_samples=N),
        accountant=accountant,
    )
    pipe.fit(X, Y)
    assert "one patient with up to 3 records (declared, not checked)" in accountant.statement()


@pytest.mark.parametrize(
    ("unit", "adjacency"),
    [
        ("patient", None),
        ("Patient", "replace"),
        ("a household", "replace_person"),
        ("one person with up to 3 records", None),
        ("visit", "replace"),
    ],
)
def test_every_unit_but_a_record_is_one_of_persons(unit, adjacency):
    accountant = PrivacyAccountant(unit=unit, adjacency=adjacency)
    with pytest.raises(ValueError, match="Nothing was charged or released"):
        accountant.charge(PureDP(0.1))
    accountant.charge(PureDP(0.1, "replace_person"))
    assert accountant.unit == unit


@pytest.mark.parametrize("unit", ["record", "Record", "a record", "row", "one row"])
def test_a_ledger_of_records_refuses_charges_for_persons_and_states_records(unit):
    accountant = PrivacyAccountant(epsilon=1.0, unit=unit)
    with pytest.raises(ValueError, match="adjacency must be 'replace' or 'add_remove'"):
        accountant.charge(PureDP(0.1, "replace_person"))
    accountant.charge(PureDP(0.1))
    assert "the replacement of one record by any other" in accountant.statement()
    assert "person" not in accountant.statement()


@pytest.mark.parametrize(
    ("unit", "adjacency"),
    [
        ("record", "replace_person"),
        ("patient", "replace_vector(b=1.0)"),
    ],
)
def test_a_unit_that_contradicts_the_adjacency_is_rejected(unit, adjacency):
    with pytest.raises(ValueError, match="unit must agree with adjacency"):
        PrivacyAccountant(unit=unit, adjacency=adjacency)


@pytest.mark.parametrize("unit", ["", " ", "a", "the "])
def test_a_unit_without_a_name_is_rejected(unit):
    with pytest.raises(ValueError, match="unit must be a noun"):
        PrivacyAccountant(unit=unit)


def test_the_unit_of_a_charge_has_to_be_that_of_its_mechanism():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="unit must agree with adjacency='replace'"):
        accountant.charge(PureDP(0.1), unit=Unit(3))
    with pytest.raises(ValueError, match="unit must agree with adjacency='replace_person'"):
        accountant.charge(PureDP(0.1, "replace_person"), unit=Unit())
    with pytest.raises(TypeError, match="unit must be a Unit"):
        accountant.charge(PureDP(0.1, "replace_person"), unit="patient")
    accountant.charge(PureDP(0.1), unit=Unit())
    assert "one record" in accountant.statement()


def test_the_same_mechanism_with_another_unit_composes_as_one_kind():
    apart, together = patients(), patients()
    kind = DirichletMechanism(r=0.05, alpha=20.0, adjacency="replace_person")
    for unit in [Unit(2), Unit(3), Unit(3, by_ids=True), None]:
        apart.charge(kind, releases=5, unit=unit)
        together.charge(kind, releases=5)
    assert apart.remaining() == together.remaining()
    (one,), (other,) = apart.compositions(), together.compositions()
    assert one.epsilon(1e-5) == other.epsilon(1e-5)


# Statements


def stated(*units, unit="patient"):
    accountant = PrivacyAccountant(epsilon=3.0, unit=unit)
    for each in units:
        accountant.charge(PureDP(0.1, "add_remove_person"), unit=each)
    return accountant.statement()


@pytest.mark.parametrize(
    ("units", "whom"),
    [
        ([Unit(3)], "one patient with up to 3 records (declared, not checked)"),
        ([Unit(3), Unit(5)], "one patient with up to 3 records (declared, not checked)"),
        ([Unit(3, by_ids=True)], "one patient, of whom up to 3 records are counted"),
        ([Unit(1, by_ids=True)], "one patient, of whom up to 1 record is counted"),
        (
            [Unit(3, by_ids=True), Unit(5, by_ids=True)],
            "one patient, of whom up to 5 records are counted",
        ),
        (
            [Unit(5), Unit(3, by_ids=True)],
            "one patient with up to 5 records (declared, not checked)",
        ),
        ([None], "one patient with at most as many records as each charge allows"),
        ([Unit(3), None], "one patient with at most as many records as each charge allows"),
    ],
)
def test_the_statement_has_the_number_of_records_of_a_person(units, whom):
    assert f"adding or removing the data of {whom}" in stated(*units)


@pytest.mark.parametrize(
    ("unit", "noun"),
    [
        ("patient", "patient"),
        ("a patient", "patient"),
        ("Member of staff", "Member of staff"),
        ("co-author", "co-author"),
        ("Betriebsangehörige", "Betriebsangehörige"),
        ("person with up to 1000 records", "person"),
        ("person, or any group of them", "person"),
        ("person) and all others", "person"),
        ("patient <b>", "person"),
        ("patients in all of the hospitals", "person"),
        ("x" * 1000, "person"),
        ("7", "person"),
    ],
)
def test_only_a_noun_becomes_part_of_a_statement(unit, noun):
    assert f"the data of one {noun} with up to 3 records (declared" in stated(Unit(3), unit=unit)


def test_the_page_names_the_protected_unit(tmp_path):
    accountant = patients()
    assert "protected change" not in report(accountant, tmp_path)
    accountant.charge(PureDP(0.1, "replace_person"), unit=Unit(4, by_ids=True))
    page = report(accountant, tmp_path)
    assert "one patient, of whom up to 4 records are counted" in page
    assert "every charge has to protect all records of each" in page


def report(accountant, tmp_path):
    with open(accountant.report(tmp_path / "page.html"), encoding="utf-8") as file:
        return file.read()


# The command


def test_the_command_makes_a_ledger_of_persons(tmp_path, capsys):
    path = tmp_path / "ledger.sqlite"
    assert main(["ledger", "create", str(path), "--unit", "patient", "--epsilon", "3"]) == 0
    assert "unit:       patient; every charge has to protect all" in capsys.readouterr().out
    accountant = PrivacyAccountant(path=path, unit="patient")
    with pytest.raises(ValueError, match="protects all records of each patient"):
        fit("categorical", accountant)
    fit("categorical", accountant, groups=IDS)
    assert main(["ledger", "show", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["unit"], shown["adjacency"], shown["charges"]) == ("patient", None, 1)


def test_synthetic_records_for_rows_are_not_charged_to_a_ledger_of_persons(tmp_path, capsys):
    TABLE.replace({0: "no", 1: "yes"}).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "book.toml").write_text(
        "".join(f"[columns.{name}]\ncategories = ['no', 'yes']\n" for name in TABLE.columns)
    )
    path = tmp_path / "ledger.sqlite"
    PrivacyAccountant(epsilon=3.0, unit="patient", path=path)
    arguments = [str(tmp_path / name) for name in ("table.csv", "out.csv")]
    options = ["--schema", str(tmp_path / "book.toml"), "--ledger", str(path), "--epsilon", "1"]
    assert main(["synthesize", *arguments, *options]) != 0
    assert "protects all records of each patient" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    assert len(PrivacyAccountant(path=path)) == 0


# Files


def test_a_ledger_of_persons_is_read_back_and_merged(tmp_path):
    accountant = PrivacyAccountant(unit="patient", adjacency="replace", adaptive=False)
    accountant.charge(PureDP(0.1, "replace_person"), unit=Unit(3, by_ids=True))
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json", tmp_path / "again.sqlite")
    assert again.statement() == accountant.statement()
    assert (again.unit, again.adjacency) == (accountant.unit, accountant.adjacency)
    with pytest.raises(ValueError, match="protects all records of each patient"):
        again.charge(PureDP(0.1))
    assert again.merge(accountant) == 0
    # All of these are the same declaration.
    for adjacency in (None, "replace", "replace_person"):
        PrivacyAccountant(path=tmp_path / "again.sqlite", unit="patient", adjacency=adjacency)
    with pytest.raises(ValueError, match="was created with adjacency='replace'"):
        PrivacyAccountant(path=tmp_path / "again.sqlite", adjacency="add_remove")


def test_charges_for_records_are_not_merged_into_a_ledger_of_persons():
    here = PrivacyAccountant(unit="patient", adaptive=False)
    there = PrivacyAccountant(unit="patient", adaptive=False)
    there.charge(PureDP(0.1, "replace_person"), unit=Unit(3))
    records = PrivacyAccountant()
    records.charge(PureDP(0.1))
    assert here.merge(there) == 1
    with pytest.raises(ValueError, match="Nothing was merged"):
        here.merge(records)
    assert "one patient with up to 3 records" in here.statement()


def test_a_charge_for_records_that_was_written_into_a_ledger_of_persons_is_rejected(tmp_path):
    path = tmp_path / "ledger.sqlite"
    accountant = patients(path=path)
    forge(path, encode(PureDP(0.001)))
    assert not_refused(accountant, tmp_path, PureDP(0.001, "replace_person")) == {}


def as_named(path, unit):
    """Ledger of an earlier version, in which a unit was only a name."""
    header = PrivacyAccountant(epsilon=1.0, path=path)._ledger.header
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TRIGGER ledgers_do_not_change")
        connection.execute("DROP TRIGGER heads_follow_charges")
        connection.execute("UPDATE ledgers SET unit = ?", (unit,))
        connection.execute("UPDATE heads SET hash = ?", (header_hash(replace(header, unit=unit)),))
        for trigger in SQLITE_TRIGGERS:
            if "ledgers_do_not_change" in trigger or "heads_follow_charges" in trigger:
                connection.execute(trigger)
        connection.commit()
    return path.rename(path.with_suffix(".old"))


def test_a_ledger_with_a_named_unit_and_charges_for_records_states_records(tmp_path):
    path = as_named(tmp_path / "ledger.sqlite", "patient")
    forge(path, encode(PureDP(0.1)), 3)
    accountant = PrivacyAccountant(path=path, unit="patient")
    assert accountant.total() == 1.0
    assert accountant.verify() == 1
    assert "the replacement of one record by any other" in accountant.statement()
    assert "patient" not in accountant.statement()
    assert "only a name" in report(accountant, tmp_path)
    accountant.export(tmp_path / "ledger.json")
    again = PrivacyAccountant.from_export(tmp_path / "ledger.json")
    assert again.total() == 1.0
    assert again.statement() == accountant.statement()
    assert again.merge(accountant) == 0


def test_a_ledger_of_persons_without_stored_units_does_not_claim_all_records(tmp_path):
    path = as_named(tmp_path / "ledger.sqlite", "patient")
    forge(path, encode(PureDP(0.1, "replace_person")), 3)
    accountant = PrivacyAccountant(path=path)
    assert "with at most as many records as each charge allows" in accountant.statement()


def test_a_unit_is_stored_with_its_mechanism_and_read_back():
    kind = DirichletMechanism(r=0.05, alpha=20.0, adjacency="add_remove_person")
    for unit in [None, Unit(1, by_ids=True), Unit(7), Unit(10**9, by_ids=True)]:
        spec = encode(kind, unit)
        assert (decode(spec), decode_unit(spec)) == (kind, unit)
    with pytest.raises((LedgerError, TypeError)):
        encode(PureDP(0.1), Unit(3))


# Sentences on the unit in statements, pages and exports

ROW = "each row is protected by itself"
UNPROMISED = "Nothing is promised about"
RECORD_NUMBER = "how many records there are"
PUBLIC_RECORDS = "The number of records is public too."
HOW_MANY = "Their number is protected too"
# Declared bound or counted by ids: (max_rows, groups).
MODEL_UNITS = [(1, None), (1, IDS), (2, None), (3, IDS)]


def page_of(reported, tmp_path):
    reported.report(tmp_path / "page.html")
    text = re.sub(r"<[^>]*>", " ", (tmp_path / "page.html").read_text(encoding="utf-8"))
    return " ".join(html.unescape(text).replace("\xa0", " ").split())


def model_exports(privacy):
    """Return all short texts on a model."""
    entry = privacy.registry_entry()["deployment"]["privacy_loss"]
    texts = [str(privacy.card_sections()), str(privacy.sacro_fields()), privacy.statement()]
    return entry["privacy_unit"], [entry["privacy_unit_details"], privacy._repr_html_(), *texts]


def assert_describes_persons(page, adjacency, noun, hedged):
    assert ROW not in page
    assert RECORD_NUMBER not in page
    assert PUBLIC_RECORDS not in page
    assert f"All counted records of one {noun} are protected together. {HOW_MANY}" in page
    replaces = adjacency == "replace"
    assert (f"{HOW_MANY}, unless" in page) == (replaces and hedged)
    unpromised = f"{UNPROMISED} whether a given {noun} is in the data, nor about how many of them"
    assert (unpromised in page) == replaces
    assert (f"The number of protected units, each one {noun}, is public too." in page) == replaces
    assert ("and whether they were used at all" in page) != replaces


def assert_describes_records(page, adjacency):
    assert ROW in page
    assert HOW_MANY not in page
    replaces = adjacency == "replace"
    unpromised = f"{UNPROMISED} who is in the data, nor about {RECORD_NUMBER}."
    assert (unpromised in page) == (PUBLIC_RECORDS in page) == replaces
    assert (UNPROMISED in page) == replaces
    assert ("and whether it was used at all" in page) != replaces


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize(("max_rows", "groups"), MODEL_UNITS)
def test_a_model_describes_its_unit(max_rows, groups, adjacency, tmp_path):
    privacy = fit("bernoulli", None, groups, max_rows=max_rows, adjacency=adjacency).privacy_
    page = page_of(privacy, tmp_path)
    level, texts = model_exports(privacy)
    if privacy.unit.is_person:
        assert level == "User-level"
        assert_describes_persons(page, adjacency, "person", hedged=False)
        assert ("A person with more records is protected less." in page) == (groups is None)
        assert all(str(privacy.unit).removeprefix("one ") in text for text in texts)
    else:
        assert level == "Record-level"
        assert_describes_records(page, adjacency)
        assert not any("person" in text for text in texts)
    assert not any(RECORD_NUMBER in text or PUBLIC_RECORDS in text for text in texts)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_schema_with_a_person_describes_it(max_rows, tmp_path):
    kinds = {"id": Schema.key(), "a": [0, 1], "b": [0, 1], "c": [0, 1]}
    schema = Schema(kinds, person="id", max_rows=max_rows)
    model = PrivateCrosstab(schema, n_samples=N).fit(TABLE.assign(id=IDS))
    assert_describes_persons(page_of(model.privacy_, tmp_path), "replace", "person", hedged=False)


def test_a_posterior_of_persons_states_that_their_numbers_of_records_are_public(tmp_path):
    privacy = fit("posterior", None, max_rows=2).privacy_
    page, (_, texts) = page_of(privacy, tmp_path), model_exports(privacy)
    assert HOW_MANY not in page
    assert "Their number is public." in page
    assert "and so is the number of records of each." in page
    assert all("by any other with as many records" in text for text in texts)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", ["woman", None])
@pytest.mark.parametrize(("max_rows", "groups"), [(1, IDS), (3, None)])
def test_a_ledger_of_persons_describes_them(max_rows, groups, unit, adjacency, tmp_path):
    accountant = PrivacyAccountant(epsilon=3.0, unit=unit)
    fit("bernoulli", accountant, groups, max_rows=max_rows, adjacency=adjacency)
    noun = unit or "person"
    page, entry = page_of(accountant, tmp_path), accountant.registry_entry()["deployment"]
    assert_describes_persons(page, adjacency, noun, hedged=True)
    assert entry["privacy_loss"]["privacy_unit"] == "User-level"
    for text in (entry["privacy_loss"]["privacy_unit_details"], accountant.statement()):
        assert f"the data of one {noun}" in text
        assert RECORD_NUMBER not in text


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", ["record", None])
def test_a_ledger_of_records_describes_them(unit, adjacency, tmp_path):
    accountant = PrivacyAccountant(epsilon=3.0, unit=unit, adjacency=adjacency)
    empty = page_of(accountant, tmp_path)
    assert (PUBLIC_RECORDS in empty) == (adjacency == "replace")
    fit("bernoulli", accountant, adjacency=adjacency)
    entry = accountant.registry_entry()["deployment"]["privacy_loss"]
    assert_describes_records(page_of(accountant, tmp_path), adjacency)
    assert entry["privacy_unit"] == "Record-level"
    assert "one record" in entry["privacy_unit_details"]
    assert "one record" in accountant.statement()


def test_a_ledger_of_vectors_claims_nothing_about_records_or_persons(tmp_path):
    accountant = PrivacyAccountant(epsilon=300.0)
    accountant.charge(SimplexMechanism(k=24.0, protected=(0, 1), eta=0.05, eta_bar=0.05))
    page = page_of(accountant, tmp_path)
    assert ROW not in page
    assert HOW_MANY not in page
    assert "The number of vectors is public too." in page
    assert f"{UNPROMISED} who is in the data, nor about how many vectors there are." in page
    entry = accountant.registry_entry()["deployment"]["privacy_loss"]
    assert entry["privacy_unit"] == "Record-level"


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_unit_with_a_relative_clause_is_between_commas(adjacency):
    unit = "one person, of whom up to 2 records are counted"
    claim = Claim(1.0, 1e-5, None, adjacency, unit)
    sentence = model_statement(claim, [], attacks=PureDP(1.0))
    ends = re.findall(r"are counted(.)", sentence)
    assert len(ends) == 3
    assert set(ends) <= {",", "."}
