"""Persons: at most `max_rows` records of each are counted, and all of them are protected.

The brute force goes over all small data sets of a few persons, adds or replaces one person
with all records of that person, and compares the exact tables that noise is added to with
the bounds of the mechanisms that are charged for them.
"""

import itertools
import pickle
import warnings
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
    PrivatePipeline,
)
from skdirdp._persons import RECORD, Unit, common_unit, select_rows
from skdirdp.accounting import Composition, PureDP
from skdirdp.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism
from skdirdp.mechanisms.tables import ContributionBound
from tests.probes import Recorder, drawn_tables, outside_bounds
from tests.test_bounds import Batch, Record


class Arrow:
    """As an array of pyarrow is: a list by its own method, and floats for numpy."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=float)

    def to_pylist(self):
        return self.values


CLASSES = [0, 1]
ESTIMATORS = {
    "multinomial": lambda **p: DirichletNB(classes=CLASSES, max_count=2, max_total=3, **p),
    "categorical": lambda **p: DirichletCategoricalNB(classes=CLASSES, n_categories=3, **p),
    "histogram": lambda **p: DirichletHistogramTransformer(
        2, bounds=[(0, 3), None], n_categories=[None, 3], n_fine_bins=3, **p
    ),
    "network": lambda **p: PrivateBayesNetMLE(
        [("a", "b")], states={"a": [0, 1, 2], "b": [0, 1, 2]}, columns=["a", "b"], **p
    ),
}
NAIVE_BAYES = ("multinomial", "categorical")
PUBLIC = {"adjacency": "add_remove", "n_samples": 10}

#: Records: features, a label, and a weight.
RECORDS = [((0, 0), 0, 1.0), ((2, 2), 1, 0.3), ((2, 0), 0, 2.0)]


def fit(model, records, groups=None, *, weighted=False, container=np.array):
    """Fit a model to records, of which some are those of one person."""
    X = container([values for values, _, _ in records])
    keywords = {} if groups is None else {"groups": groups}
    if weighted:
        keywords["sample_weight"] = [weight for _, _, weight in records]
    if isinstance(model, (DirichletNB, DirichletCategoricalNB)):
        return model.fit(X, [label for _, label, _ in records], **keywords)
    if isinstance(model, PrivateDirichletPosterior):
        return model.fit(np.asarray(X)[:, 0], **keywords)
    return model.fit(X, **keywords)


def make(name, **parameters):
    """A new model, also one of a posterior."""
    if name == "posterior":
        return PrivateDirichletPosterior(n_categories=3, **parameters)
    return ESTIMATORS[name](**PUBLIC, **parameters)


def tables_of(name, records, groups, **how):
    recorder = Recorder()
    parameters = {**PUBLIC, **how.pop("parameters", {})}
    model = ESTIMATORS[name](accountant=recorder, **parameters)
    with drawn_tables() as drawn:
        fit(model, records, groups, **how)
    return drawn, model.privacy_


def assert_within(after, before):
    """Tables with one more person change within the bound of a person."""
    assert len(after) == len(before) > 0
    for (mechanism, cells), (other, others) in zip(after, before, strict=True):
        assert mechanism == other
        change = cells - others
        assert change.min() >= 0
        assert outside_bounds(change, mechanism, 0.0) is None
        # To the last bit: sums are exact, and so are the bounds.
        total = sum(Fraction(float(value)) for value in change.ravel())
        assert total <= Fraction(mechanism.max_total or mechanism.max_count)


@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_person_changes_the_counts_by_more_than_the_bound(name, max_rows):
    others = [(0, "other"), (1, "other"), (1, "third"), (2, "other")]
    parameters = {"max_rows": max_rows}
    if name in NAIVE_BAYES:
        parameters["max_weight"] = 2.0
    how = {"parameters": parameters, "weighted": name in NAIVE_BAYES}
    before, _ = tables_of(name, [RECORDS[row] for row, _ in others], [i for _, i in others], **how)
    for n_rows in (1, 2, 3):
        for rows in itertools.combinations_with_replacement(range(3), n_rows):
            # Before all others, among them, and behind them.
            for at in (0, 2, 4):
                everybody = list(others)
                everybody[at:at] = [(row, "person") for row in rows]
                records, ids = [RECORDS[row] for row, _ in everybody], [i for _, i in everybody]
                after, _ = tables_of(name, records, ids, **how)
                assert_within(after, before)
                assert sum(cells.sum() for _, cells in after) > sum(c.sum() for _, c in before)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_person_at_the_bound_is_within_the_charge(name):
    # Three records alike, of which two are counted: the largest entry is as large as claimed.
    record = ((2, 0), 0, 1.0)
    one, two = (
        tables_of(name, [record] * 3 + RECORDS[:1], [7, 7, 7, 8], parameters={"max_rows": m})[0]
        for m in (1, 2)
    )
    none, _ = tables_of(name, RECORDS[:1], [8])
    for (single, first), (double, both), (_, others) in zip(one, two, none, strict=True):
        assert double.max_count == 2 * single.max_count
        assert double.max_total == 2 * (single.max_total or single.max_count)
        np.testing.assert_array_equal(both - others, 2 * (first - others))
        assert (both - others).max() == double.max_count


@pytest.mark.parametrize(
    "container",
    [np.array, sparse.csr_array, sparse.coo_matrix, pd.DataFrame, lambda X: np.array(X) * 0.3],
    ids=["array", "csr", "coo", "frame", "floats"],
)
def test_counts_do_not_depend_on_the_container(container):
    # Frames drop the records with their index, sparse rows by their pointers.
    records = [((2, 1), 0, 1.0), ((0, 2), 1, 1.0), ((1, 1), 0, 1.0), ((2, 2), 1, 1.0)]
    kept = [records[0], records[1], records[3]]
    both = [
        tables_of("multinomial", data, groups, container=container)[0]
        for data, groups in ((records, ["a", "b", "a", "c"]), (kept, ["a", "b", "c"]))
    ]
    for (_, cells), (_, expected) in zip(*both, strict=True):
        np.testing.assert_array_equal(cells, expected)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_counted_records_of_a_person_do_not_depend_on_others(name):
    mine = [RECORDS[0], RECORDS[1], RECORDS[2]]
    others = [((1, 1), 1, 1.0)] * 4
    alone = tables_of(name, others, list("wxyz"))[0]
    changes = []
    for shuffled in ([0, 1, 2, 3, 4, 5, 6], [3, 0, 4, 5, 1, 6, 2], [3, 4, 5, 6, 0, 1, 2]):
        for me in ("a", "zz"):
            records = [(mine + others)[k] for k in shuffled]
            groups = [([me] * 3 + list("wxyz"))[k] for k in shuffled]
            drawn, _ = tables_of(name, records, groups, parameters={"max_rows": 2})
            changes.append(
                [cells - before for (_, cells), (_, before) in zip(drawn, alone, strict=True)]
            )
    for change in changes[1:]:
        for cells, expected in zip(change, changes[0], strict=True):
            np.testing.assert_array_equal(cells, expected)


# --- Batches --------------------------------------------------------------------


@pytest.mark.parametrize("name", NAIVE_BAYES)
def test_a_person_in_several_batches_is_counted_as_often_as_in_one(name):
    records = [RECORDS[k] for k in (0, 1, 2, 0, 1, 2)]
    groups = ["a", "b", "a", "a", "c", "b"]
    whole, _ = tables_of(name, records, groups, parameters={"max_rows": 2})
    for cut in range(1, 6):
        model = ESTIMATORS[name](max_rows=2, **PUBLIC)
        with drawn_tables() as drawn:
            for rows in (slice(cut), slice(cut, None)):
                X, y, _ = zip(*records[rows], strict=True)
                model.partial_fit(X, y, groups=groups[rows])
            model.release()
        for (mechanism, cells), (expected, counted) in zip(drawn, whole, strict=True):
            assert mechanism == expected
            np.testing.assert_array_equal(cells, counted)
        assert not any("tally" in key for key in vars(model))
        assert b"'a'" not in pickle.dumps(model)


@pytest.mark.parametrize("name", NAIVE_BAYES)
@pytest.mark.parametrize("given", [True, False])
def test_the_bound_of_the_counting_is_charged_and_not_that_of_the_release(name, given):
    model = ESTIMATORS[name](max_rows=3, **PUBLIC)
    groups = {"groups": [7, 7, 7]} if given else {}
    model.partial_fit([[2, 0]] * 3, [0] * 3, **groups)
    model.set_params(max_rows=1)
    model.partial_fit([[2, 0]], [0], **({"groups": [7]} if given else {}))
    with drawn_tables() as drawn:
        model.release()
    assert model.privacy_.unit == Unit(3, given)
    for mechanism, cells in drawn:
        assert mechanism.max_count >= 3
        if given:  # the fourth record of the person is one too many
            assert cells.sum() <= mechanism.max_total


@pytest.mark.parametrize("name", NAIVE_BAYES)
def test_ids_in_some_batches_only_are_rejected_and_nothing_is_counted(name):
    for first, second in (({"groups": [1]}, {}), ({}, {"groups": [1]})):
        model = ESTIMATORS[name](max_rows=2, **PUBLIC)
        model.partial_fit([[1, 1]], [0], **first)
        with pytest.raises(ValueError, match="every batch or with none"):
            model.partial_fit([[1, 1]], [0], **second)
        with drawn_tables() as drawn:
            model.release()
        assert drawn[0][1].sum() == 1


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_that_cannot_distinguish_ids_are_rejected(kind):
    first = 2.0 ** (np.finfo(kind).nmant + 1)
    assert select_rows(np.array([first - 1, first - 2], dtype=kind), 2, 1).n_rows == 2
    with pytest.raises(ValueError, match="too large to be exact floats"):
        select_rows(np.array([first, first + 1], dtype=kind), 2, 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_names_of_the_columns_of_a_frame_are_no_ids(frame):
    with pytest.raises(ValueError, match="an id for each row; got"):
        select_rows(frame({"a": [7, 7], "b": [7, 7]}), 2, 1)


def test_one_person_is_one_person_in_all_types_of_ids():
    kept = None
    same = [[7, 8], [7.0], np.array([7], np.int8), np.array([7], np.uint64), pd.Series([7])]
    same += [np.array([7], np.float16), [np.int32(7)], Arrow([7]), pd.Series([7], dtype="Int64")]
    for ids in same:
        kept = select_rows(ids, len(ids), 1, kept)
        assert kept.n_rows == (2 if kept.kept.keys() == {7, 8} and ids is same[0] else 0)
    for ids in (["7"], np.array(["7"]), pd.Categorical(["7"]), pl.Series(["7"])):
        kept = select_rows(ids, 1, 1, kept)
    assert kept.kept == {7: 1, 8: 1}
    # A text that spells a number is that number; nothing else makes two ids one.
    assert select_rows([1, "1", "01"], 3, 1).n_rows == 2
    assert select_rows([2**53, 2**53 + 1, "x"], 3, 1).n_rows == 3
    assert select_rows(["a\0b", "a\0c", "a"], 3, 1).n_rows == 3
    assert select_rows([0.0, -0.0, 0], 3, 1).n_rows == 1


CONTAINERS = {
    "multinomial": [
        ("C", "float64"),
        ("F", "float32"),
        ("list", "object"),
        ("frame", "float64"),
        ("nullable frame", "int64"),
        ("sparse frame", "float64"),
        ("polars", "float32"),
        ("csr_array", "float64"),
        ("csr_matrix", "uint8"),
        ("coo_array", "float32"),
        ("bsr_matrix", "float64"),
        ("csc_array", "longdouble"),
    ],
    "categorical": [("C", "int8"), ("list", "object"), ("frame", "uint16"), ("polars", "int64")],
}


@pytest.mark.filterwarnings("ignore:X (has|does not have):UserWarning")
@pytest.mark.parametrize("seed", range(48))
def test_no_person_in_any_containers_types_and_batches_changes_more_than_is_charged(seed):
    rng = np.random.default_rng(seed)
    name = NAIVE_BAYES[seed % 2]
    weighted = bool(rng.random() < 0.5)
    bounds = {"max_count": float(rng.choice([0.3, 1, 2.5])), "max_total": 3.3}
    parameters = {**PUBLIC, "max_weight": float(rng.choice([0.3, 2.0]))}
    values = {"multinomial": (0, 1, 2, 7, 0.3), "categorical": (0, 1, 2)}[name]
    batches = []
    for _ in range(rng.integers(1, 4)):
        container, dtype = CONTAINERS[name][rng.integers(len(CONTAINERS[name]))]
        rows = []
        for _ in range(rng.integers(1, 9)):
            row = tuple(
                v if np.dtype(dtype).kind in "fO" else int(v) for v in rng.choice(values, 3)
            )
            weight = float(rng.choice([0.01, 0.25, 0.3]))
            # Half of the records are of the person in question.
            person = "me" if rng.random() < 0.5 else str(rng.integers(3))
            repeats = int(rng.integers(1, 3)) if name == "multinomial" else 1
            rows.append((Record(row, int(rng.integers(2)), weight, repeats), person))
        rows.append((Record((0, 1, 2), 0, 0.3), "other"))
        changes = {"max_rows": int(rng.integers(1, 4))}
        if name == "multinomial":
            changes |= {"max_count": bounds["max_count"] * int(rng.integers(1, 3))}
        unsorted, stale = (bool(rng.random() < 0.5) for _ in range(2))
        batches.append((rows, container, dtype, changes, unsorted, stale))

    def tables(with_me):
        model = ESTIMATORS[name](**parameters)
        model.set_params(**(bounds if name == "multinomial" else {}))
        if name == "categorical":
            model.set_params(n_categories=3)
        with drawn_tables() as drawn:
            for rows, container, dtype, changes, unsorted, stale in batches:
                kept = [(record, person) for record, person in rows if with_me or person != "me"]
                records, persons = zip(*kept, strict=True)
                weights = "float64" if weighted else None
                batch = Batch(records, container, dtype, weights, unsorted, stale)
                model.set_params(**changes)
                model.partial_fit(
                    batch.data(),
                    batch.labels(),
                    sample_weight=batch.sample_weight(),
                    groups=list(persons),
                )
            model.release()
        return drawn

    after, before = tables(True), tables(False)
    assert_within(after, before)
    largest = max(changes["max_rows"] for *_, changes, _, _ in batches)
    for mechanism, _ in after:
        assert mechanism.max_count >= largest * (0.3 if weighted else 1) * 0.3 * (1 - 1e-9)


# --- Ids that are none ----------------------------------------------------------

SECRET = "secret-4711"
BAD_IDS = {
    "nan": [4711.0, np.nan, 1.0],
    "None": [SECRET, None, "b"],
    "NA": pd.array([4711, None, 1], dtype="Int64"),
    "NaT": [SECRET, pd.NaT, "b"],
    "null": Arrow([4711, None, 1]),
    "missing category": pd.Categorical([SECRET, None, "b"]),
    "polars null": pl.Series([4711, None, 1]),
    "masked": np.ma.array([4711, 1, 2], mask=[0, 1, 0]),
    "broken number": [4711.5, 1.0, 2.0],
    "infinite": [4711.0, np.inf, 1.0],
    "large float": [2.0**53, 1.0, 2.0],
    "too few": [4711, 1],
    "too many": [4711, 1, 2, 3],
    "two axes": np.array([[4711], [1], [2]]),
    "frame": pd.DataFrame({"id": [4711, 1, 2]}),
    "list of lists": [[4711], [1], [2]],
    "scalar": 4711,
    "string": "abc",
    "bytes": [b"4711", b"1", b"2"],
    "dict": {4711: 0, 1: 1, 2: 2},
    "set": {4711, 1, 2},
    "generator": (k for k in (4711, 1, 2)),
    "sparse": sparse.csr_array([[4711, 1, 2]]),
    "truth values": [True, False, True],
    "truth array": np.array([True, False, True]),
    "dates": np.array(["2026-04-07"] * 3, dtype="datetime64[D]"),
    "date": [datetime(2026, 4, 7)] * 3,
    "decimal": [Decimal("4711.5"), Decimal(1), Decimal(2)],
    "tuples": [(4711, 1), (1, 1), (2, 1)],
    "complex": np.array([4711, 1, 2], dtype=complex),
    "objects": [object(), object(), object()],
    "unhashable": [SECRET, {}, []],
}


@pytest.mark.parametrize("name", [*ESTIMATORS, "posterior"])
@pytest.mark.parametrize("ids", BAD_IDS.values(), ids=BAD_IDS)
def test_ids_that_are_none_are_rejected_uncharged_and_unseen(name, ids):
    recorder = Recorder()
    with pytest.raises((TypeError, ValueError), match=r"^groups ") as refusal:
        fit(make(name, accountant=recorder), RECORDS, ids)
    assert recorder.charges == []
    for error in (refusal.value, refusal.value.__cause__, refusal.value.__context__):
        assert "4711" not in str(error)


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, None, "2", 10**10, np.nan])
@pytest.mark.parametrize("name", [*ESTIMATORS, "posterior"])
def test_a_bound_that_is_none_is_rejected(name, max_rows):
    with pytest.raises(ValueError, match="max_rows"):
        fit(make(name, max_rows=max_rows), RECORDS)


def test_true_is_no_number_of_rows():
    with pytest.raises((TypeError, ValueError), match="max_rows"):
        fit(ESTIMATORS["histogram"](max_rows=True, **PUBLIC), RECORDS)


# --- Reports --------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_report_names_the_unit_and_whether_it_was_checked(name):
    _, record = tables_of(name, RECORDS, None)
    assert record.unit == RECORD
    assert "one record;" in str(record)
    _, declared = tables_of(name, RECORDS, None, parameters={"max_rows": 3})
    assert "one person with up to 3 records (declared, not checked);" in str(declared)
    _, checked = tables_of(name, RECORDS, [1, 1, 2], parameters={"max_rows": 3})
    assert "adding or removing one person, of whom up to 3 records are counted;" in str(checked)
    assert "declared" not in str(checked)
    # The number of records is protected.
    assert {report.n_records for report in (record, declared, checked)} == {None}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_number_of_records_is_reported_only_if_all_neighbours_have_it(name):
    replace = {"adjacency": "replace", "n_samples": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tables_of(name, RECORDS, None, parameters=replace)[1].n_records == 3
    # With ids, a person may be replaced by one without a counted record.
    for groups, max_rows in ((None, 2), ([5, 6, 5], 2), ([5, 6, 5], 1)):
        several = {**replace, "max_rows": max_rows}
        with pytest.warns(PrivacyLeakWarning, match="n_samples"):
            report = tables_of(name, RECORDS, groups, parameters=several)[1]
        assert (report.n_records, report.not_covered) == (None, ("n_samples",))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            public = {**several, "n_samples": 10}
            report = tables_of(name, RECORDS, groups, parameters=public)[1]
        assert (report.n_records, report.not_covered) == (None, ())


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace", "auto"])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("multinomial", {}),
        ("multinomial", {"order": 4.0}),
        ("categorical", {"order": 4.0}),
        ("histogram", {}),
        ("network", {"order": 4.0}),
    ],
)
def test_every_mechanism_hides_all_records_of_a_person_within_the_budget(
    name, mechanism, adjacency, terms
):
    parameters = {"max_rows": 3, "mechanism": mechanism, "adjacency": adjacency, **terms}
    drawn, report = tables_of(name, RECORDS, [1, 1, 2], parameters=parameters)
    parts = []
    for noise, _ in drawn:
        assert noise.adjacency == f"{adjacency}_person"
        # The claim of noise for a record of three times the size, by another way.
        record = {"multinomial": (2, 3), "categorical": (1, None)}.get(name, (1, None))
        bounds = {"max_count": 3 * record[0], "max_total": 3 * (record[1] or record[0])}
        if name == "multinomial" and noise is drawn[0][0]:
            bounds = {"max_count": 3, "max_total": 3}
        assert {"max_count": noise.max_count, "max_total": noise.max_total} == bounds
        if isinstance(noise, DirichletMechanism):
            bare = DirichletMechanism(noise.r, noise.alpha, adjacency=adjacency, **bounds)
        elif isinstance(noise, GaussianMechanism):
            bare = GaussianMechanism(noise.sigma, adjacency=adjacency, **bounds)
        else:
            bare = LaplaceMechanism(noise.scale, adjacency=adjacency, **bounds)
        parts.append((bare, 1))
    total = Composition(parts)
    if terms:
        assert 0.9 <= total.rdp(4.0) <= 1.0 + 1e-9
    else:
        assert 0.9 <= total.epsilon(1e-5) <= 1.0 + 1e-9
    assert report.composition().epsilon(1e-5) == pytest.approx(total.epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("calibration", ["algorithm1", "tcdp"])
def test_the_papers_calibrations_hide_all_records_of_a_person(calibration):
    parameters = {"max_rows": 3, "calibration": calibration}
    _, report = tables_of("categorical", RECORDS, [1, 1, 2], parameters=parameters)
    assert report.composition().epsilon(1e-5) <= 1.0
    assert all(noise.max_count == noise.max_total == 3 for noise, _ in report.mechanisms)
    assert all(noise.claim.adjacency == "add_remove_person" for noise, _ in report.mechanisms)


@pytest.mark.parametrize(("max_count", "max_total"), [(1.0, None), (0.1, 0.3), (1 / 3, 7.7)])
@pytest.mark.parametrize("max_rows", [1, 3, 10, 10**9])
def test_the_bound_of_several_records_is_so_many_times_theirs_and_not_less(
    max_count, max_total, max_rows
):
    record = ContributionBound(max_count, max_total)
    person = record.for_person(max_rows)
    assert person.grid == record.grid
    assert 0 <= Fraction(person.max_count) / Fraction(max_count) / max_rows - 1 < 1e-15
    if max_rows > 1:
        total = Fraction(max_total or max_count) * max_rows
        assert 0 <= Fraction(person.max_total) / total - 1 < 1e-15


def test_bounds_that_are_too_large_for_several_records_are_rejected_uncharged():
    recorder = Recorder()
    model = DirichletNB(classes=CLASSES, max_count=7e99, max_total=7e99, max_rows=2, **PUBLIC)
    with pytest.raises(ValueError, match="max_rows times max_count and max_total must be"):
        model.set_params(accountant=recorder).fit([[1, 0], [0, 1]], [0, 1])
    assert recorder.charges == []


def test_no_total_mixes_records_and_persons():
    accountant = PrivacyAccountant()
    fit(ESTIMATORS["histogram"](max_rows=2, accountant=accountant, **PUBLIC), RECORDS)
    with pytest.raises(ValueError, match="adjacency"):
        fit(ESTIMATORS["histogram"](accountant=accountant, **PUBLIC), RECORDS)
    assert len(accountant) == 1
    # Another number of records is the same relation between persons.
    fit(ESTIMATORS["histogram"](max_rows=4, accountant=accountant, **PUBLIC), RECORDS, [1, 1, 2])
    accountant.charge(PureDP(0.1, adjacency="add_remove_person"))
    assert len(accountant) == 3
    assert 1.0 < accountant.total(1e-5) < 2.1


def test_a_person_is_in_no_part_of_a_split():
    accountant = PrivacyAccountant(epsilon=10.0)
    model = ESTIMATORS["histogram"](max_rows=2, **PUBLIC)
    for by in ("values", "position"):
        parts = accountant.parallel(by, split_by=by)
        with pytest.raises(ValueError, match="several parts"):
            fit(model.set_params(accountant=parts["first"]), RECORDS)


# --- Posteriors -----------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["ehds", "ehd", "lshist", "lsdim", "lszhang"])
def test_a_posterior_hides_all_records_of_a_person_by_as_many_replacements(mechanism):
    parameters = {"n_categories": 3, "mechanism": mechanism}
    person = PrivateDirichletPosterior(epsilon=1.5, max_rows=3, **parameters).fit([0, 1, 2, 1])
    record = PrivateDirichletPosterior(epsilon=0.5, **parameters).fit([0, 1, 2, 1])
    assert person.privacy_.exponent == record.privacy_.exponent
    ((claim, _),) = person.privacy_.mechanisms
    assert claim == PureDP(1.5, "replace_person")
    assert "one person with up to 3 records (declared, not checked);" in str(person.privacy_)


def test_a_posterior_accepts_ids_only_if_max_rows_is_1():
    model = PrivateDirichletPosterior(n_categories=3).fit([0, 1, 2, 1], groups=[1, 2, 1, 3])
    assert model.n_samples_ == 3
    assert model.privacy_.unit == Unit(1, by_ids=True)
    assert model.privacy_.mechanisms[0][0].adjacency == "replace_person"
    with pytest.raises(ValueError, match="max_rows must be 1 if groups are given"):
        model.set_params(max_rows=2).fit([0, 1, 2, 1], groups=[1, 2, 1, 3])


# --- Routing --------------------------------------------------------------------

X_ROUTED = np.random.default_rng(0).integers(3, size=(40, 2))
Y_ROUTED = np.arange(40) % 2
IDS = np.repeat(np.arange(10), 4)


@pytest.mark.parametrize("name", NAIVE_BAYES)
def test_cross_validation_hands_the_ids_of_the_training_records_on(name):
    model = ESTIMATORS[name](max_rows=2, **{**PUBLIC, "n_samples": 20})
    with sklearn.config_context(enable_metadata_routing=True), drawn_tables() as drawn:
        model.set_fit_request(groups=True)
        found = cross_validate(
            model,
            X_ROUTED,
            Y_ROUTED,
            params={"groups": IDS},
            cv=GroupKFold(5),
            return_estimator=True,
            error_score="raise",
        )
        assert all(each.privacy_.unit == Unit(2, True) for each in found["estimator"])
    # Two of the four records of each of eight persons.
    assert all(cells.sum() == 16 for mechanism, cells in drawn if mechanism.max_count == 2)


def test_pipelines_hand_ids_on_by_the_names_of_steps_and_by_routing():
    same = FunctionTransformer()
    model = ESTIMATORS["categorical"](max_rows=2, **PUBLIC)
    pipe = make_pipeline(same, model).fit(X_ROUTED, Y_ROUTED, dirichletcategoricalnb__groups=IDS)
    assert pipe[-1].privacy_.unit == Unit(2, True)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(same, clone(model).set_fit_request(groups=True))
        assert pipe.fit(X_ROUTED, Y_ROUTED, groups=IDS)[-1].privacy_.unit == Unit(2, True)


def private_pipeline(*max_rows):
    bins = DirichletHistogramTransformer(
        3, encode="ordinal", bounds=(0, 3), n_samples=20, max_rows=max_rows[0]
    )
    model = DirichletCategoricalNB(
        classes=CLASSES, n_categories=3, n_samples=20, max_rows=max_rows[1]
    )
    return PrivatePipeline([("bins", bins), ("model", model)])


def test_a_private_pipeline_protects_the_persons_of_its_steps():
    both = {"bins__groups": IDS, "model__groups": IDS}
    accountant = PrivacyAccountant()
    pipe = private_pipeline(2, 3).set_params(accountant=accountant).fit(X_ROUTED, Y_ROUTED, **both)
    assert pipe.privacy_.unit == Unit(3, True)
    assert [report.unit.max_rows for _, report in pipe.privacy_.steps] == [2, 3]
    assert pipe.privacy_.composition().adjacency == "replace_person"
    assert "one person, of whom" in str(pipe.privacy_)
    assert 0.99 < accountant.total(1e-5) <= 1.0


def test_a_private_pipeline_of_persons_and_records_is_rejected_before_the_charge():
    accountant = PrivacyAccountant()
    pipe = private_pipeline(2, 1).set_params(accountant=accountant)
    with pytest.raises(ValueError, match="adjacency must be the same"):
        pipe.fit(X_ROUTED, Y_ROUTED)
    assert len(accountant) == 0


@pytest.mark.parametrize("name", ["groups", "bins__groups", "model__groups"])
def test_ids_reach_every_private_step_of_a_pipeline(name):
    pipe = private_pipeline(2, 3).fit(X_ROUTED, Y_ROUTED, **{name: IDS})
    assert [report.unit for _, report in pipe.privacy_.steps] == [Unit(2, True), Unit(3, True)]
    mechanism = private_pipeline(2, 3).rehearse(X_ROUTED, Y_ROUTED, **{name: IDS})
    assert mechanism.adjacency == "replace_person"


def test_ids_reach_private_steps_inside_others():
    bins = private_pipeline(2, 2)["bins"]
    columns = ColumnTransformer(
        [("a", clone(bins), [0]), ("b", FeatureUnion([("c", make_pipeline(bins))]), [1])]
    )
    inner = PrivatePipeline([("model", private_pipeline(2, 2)["model"])])
    pipe = PrivatePipeline([("columns", columns), ("inner", inner)])
    with drawn_tables() as tables:
        pipe.fit(X_ROUTED, Y_ROUTED, groups=np.zeros(len(Y_ROUTED), dtype=int))
    assert [report.unit for _, report in pipe.privacy_.steps] == [Unit(2, True)] * 3
    # One person, of whom two records are counted in every table.
    assert {counts.sum() for _, counts in tables} == {2}


def test_steps_do_not_count_by_different_ids():
    accountant = PrivacyAccountant()
    pipe = private_pipeline(2, 2).set_params(accountant=accountant)
    other = np.arange(len(IDS))
    for groups in (
        {"bins__groups": IDS, "model__groups": other},
        {"groups": IDS, "model__groups": other},
    ):
        with pytest.raises(ValueError, match="groups must be the same for every private step"):
            pipe.fit(X_ROUTED, Y_ROUTED, **groups)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe.named_steps["bins"].set_fit_request(groups="one")
        pipe.named_steps["model"].set_fit_request(groups="two")
        with pytest.raises(ValueError, match="groups must be the same for every private step"):
            pipe.fit(X_ROUTED, Y_ROUTED, one=IDS, two=other)
        with pytest.raises(ValueError, match="groups must be given to every private step"):
            pipe.fit(X_ROUTED, Y_ROUTED, one=IDS)
        assert pipe.fit(X_ROUTED, Y_ROUTED, one=IDS, two=list(IDS)).privacy_.unit.by_ids
    assert len(accountant) == 1


def test_ids_are_rejected_if_a_step_may_fit_to_other_rows():
    model = private_pipeline(1, 1)["model"].set_params(n_samples=None)
    pipe = PrivatePipeline([("bag", BaggingClassifier(model, n_estimators=2))])
    warned = pytest.warns(PrivacyLeakWarning, match="repeats records")
    with (
        warned,
        pytest.raises(ValueError, match="must not be given if BaggingClassifier"),
    ):
        pipe.fit(np.abs(X_ROUTED), Y_ROUTED, groups=IDS)


def test_ids_of_another_number_than_rows_are_rejected():
    with pytest.raises(ValueError, match="groups must have one id per row"):
        private_pipeline(2, 2).fit(X_ROUTED, Y_ROUTED, groups=IDS[:-1])


def test_several_releases_protect_their_common_unit():
    assert common_unit([]) == RECORD
    assert common_unit([Unit(2, True), Unit(5, True)]) == Unit(5, True)
    assert common_unit([Unit(2), Unit(5)]) == Unit(2)
    assert common_unit([Unit(2, True), Unit(5)]) == Unit(5)
