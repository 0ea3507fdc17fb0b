"""Contributions of records stay within the bounds that are charged.

Every test compares the tables that are released, with and without a record, with the bounds of
the mechanisms that were charged for them.
"""

import threading
import warnings
from contextlib import suppress
from fractions import Fraction
from itertools import count
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
)
from skdirdp import _contributions as contributions
from skdirdp._contributions import (
    UNWEIGHTED,
    ContributionError,
    count_categories,
    count_cells,
    sum_rows,
)
from skdirdp._validation import largest_count
from skdirdp.naive_bayes import categorical, multinomial
from skdirdp.numerics import rows as rows_module
from skdirdp.numerics.rows import DenseRows, GroupSums
from tests.probes import Recorder, drawn_tables

BOTH = [DirichletNB, DirichletCategoricalNB]


@pytest.fixture
def drawn():
    """Collect all mechanisms with their exact tables."""
    with drawn_tables() as tables:
        yield tables


def entries(table):
    return [Fraction(float(value)) for value in np.ravel(table)]


def assert_within(mechanism, table):
    """The table of a single record is within the bounds of its mechanism, exactly."""
    assert max(entries(table)) <= Fraction(mechanism.max_count)
    total = mechanism.max_count if mechanism.max_total is None else mechanism.max_total
    assert sum(entries(table)) <= Fraction(total)


def fitted(cls=DirichletNB, X=None, y=(0,), weight=None, **parameters):
    public = {"classes": [0, 1]}
    if cls is DirichletNB:
        public |= {"max_count": 1, "max_total": 3}
    else:
        public |= {"n_categories": 3}
    model = cls(**(public | parameters))
    X = [[1, 0, 2]] if X is None else X
    return model.fit(X, list(y), sample_weight=weight)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("max_weight", [0.01, 0.5, 1, 3])
def test_without_weights_a_record_counts_one_for_any_max_weight(cls, max_weight, drawn):
    fitted(cls, max_weight=max_weight)
    assert drawn
    for mechanism, table in drawn:
        assert_within(mechanism, table)
        assert mechanism.max_count >= max(1, max_weight)


@pytest.mark.parametrize("cls", BOTH)
def test_a_batch_without_weights_raises_the_bound_of_one_with_small_weights(cls, drawn):
    model = fitted(cls).set_params(max_weight=0.01)
    model = type(model)(**model.get_params())
    model.partial_fit([[1, 0, 2]], [0], sample_weight=[0.01])
    model.partial_fit([[1, 0, 2]], [1]).release()
    assert all(mechanism.max_count >= 1 for mechanism, _ in drawn)


DUPLICATES = (np.ones(22), np.array([0] * 20 + [1, 2]), np.array([0, 20, 22]))


@pytest.mark.parametrize(
    "container",
    [
        sparse.csr_array,
        sparse.csr_matrix,
        sparse.csc_array,
        sparse.coo_array,
        lambda X: sparse.bsr_array(X, blocksize=(1, 1)),
    ],
    ids=["csr_array", "csr_matrix", "csc", "coo", "bsr"],
)
@pytest.mark.parametrize("dtype", [np.float64, np.int8, bool])
@pytest.mark.parametrize("stale", [False, True])
def test_entries_of_one_cell_are_added_before_they_are_clipped(container, dtype, stale, drawn):
    ones, columns, ends = DUPLICATES
    raw = sparse.csr_array((ones.astype(dtype), columns, ends), shape=(2, 3))
    if container is sparse.csc_array:
        rows = np.repeat([0, 1], [20, 2])
        raw = sparse.csc_array((raw.data, rows, np.array([0, 20, 21, 22])), shape=(2, 3))
    X = container(raw)
    if stale and hasattr(X, "has_canonical_format"):
        X.has_canonical_format = True
    fitted(X=X, y=[0, 0], max_count=1, max_total=20, fit_prior=False)
    ((mechanism, table),) = drawn
    assert mechanism.max_count == 1
    np.testing.assert_array_equal(table[0], [1, 1, 1])
    # The records are not changed in place.
    assert X.nnz == 22 or container is not sparse.csr_array


@pytest.mark.parametrize("cls", BOTH)
def test_the_bounds_of_the_counting_are_charged_not_those_of_the_release(cls, drawn):
    model = fitted(cls)
    model = type(model)(**model.get_params())
    model.partial_fit([[1, 0, 2]], [0])
    if cls is DirichletNB:
        model.set_params(max_count=0.05, max_total=0.05)
    model.set_params(max_weight=0.01).predict([[1, 0, 2]])
    for mechanism, table in drawn:
        assert_within(mechanism, table)


def test_several_batches_are_charged_the_largest_of_their_bounds(drawn):
    model = DirichletNB(classes=[0, 1], max_count=1, max_total=2, fit_prior=False)
    model.partial_fit([[5, 5, 5]], [0])
    model.set_params(max_count=4, max_total=5, max_weight=2)
    model.partial_fit([[5, 5, 5]], [0], sample_weight=[2.0])
    model.set_params(max_count=1, max_total=1, max_weight=None).partial_fit([[5, 5, 5]], [1])
    model.release()
    ((mechanism, table),) = drawn
    assert (mechanism.max_count, mechanism.max_total) == (8, 10)
    assert table.sum() == pytest.approx(2 + 10 + 1, rel=1e-5)  # on a grid


@pytest.mark.parametrize("cls", BOTH)
def test_counts_without_bounds_are_never_released_as_private(cls):
    recorder = Recorder()
    model = fitted(cls, epsilon=float("inf"))
    model = type(model)(**model.get_params()).set_params(accountant=recorder)
    model.partial_fit([[1, 0, 2]], [0]).set_params(epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon must be finite when records are counted"):
        model.release()
    assert recorder.charges == []


@pytest.mark.parametrize("cls", BOTH)
def test_access_to_attributes_does_not_spend_the_budget(cls):
    accountant = PrivacyAccountant()
    model = fitted(cls)
    model = type(model)(**model.get_params()).set_params(accountant=accountant)
    model.partial_fit([[1, 0, 2]], [0])
    check_is_fitted(model)
    for name in ("privacy_", "alpha_", "class_log_prior_", "feature_log_prob_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=r"call release\(\)"):
            getattr(model, name)
    repr(model), dir(model), vars(model).keys()
    assert len(accountant) == 0
    assert model.release() is model
    assert len(accountant) == 1
    assert model.privacy_.epsilon == 1.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_no_rounding_passes_a_bound(dtype, make, drawn):
    rng = np.random.default_rng(0)
    if make is sparse.csr_array and dtype in (np.float16, np.longdouble):
        pytest.skip("scipy has no sparse arrays of this type")
    for trial in range(40):
        X = rng.gamma(0.5, 1.0, size=(1, 60)).astype(dtype)
        max_count = float(rng.choice([0.1, 0.3, 1 / 3, 1.1]))
        max_total = float(rng.choice([0.7, 1.0, 3.3]))
        weight = None if trial % 2 else [float(rng.choice([0.1, 0.7, 1 / 3]))]
        bounds = {"max_count": max_count, "max_total": max_total}
        fitted(X=make(X), y=[0], weight=weight, mechanism="gaussian", **bounds)
        for mechanism, table in drawn:
            assert_within(mechanism, table)
        assert drawn[-1][0].max_total <= max_total * (1 + 1e-15)
        drawn.clear()


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_bounds_from_the_data_hold_in_exact_arithmetic_too(drawn):
    rng = np.random.default_rng(0)
    for _ in range(40):
        X = rng.random((1, 300))
        unbounded = {"max_count": None, "max_total": None, "mechanism": "gaussian"}
        fitted(X=X, y=[0], weight=[rng.random()], **unbounded)
        for mechanism, table in drawn:
            assert_within(mechanism, table)
        drawn.clear()


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_count": np.uint8(16), "max_weight": np.uint8(20), "max_total": 30},
        {"max_count": np.int8(16), "max_weight": 20, "max_total": np.int8(100)},
        {"max_count": np.float16(2047), "max_weight": np.float16(50), "max_total": 60000},
    ],
)
def test_numpy_scalars_do_not_overflow_in_the_sensitivity(parameters, drawn):
    fitted(X=[[1000, 1000, 1000]], weight=[20.0], **parameters)
    for mechanism, table in drawn:
        assert_within(mechanism, table)
    plain = {name: float(value) for name, value in parameters.items()}
    mechanism = drawn[-1][0]
    assert mechanism.max_count == plain["max_count"] * plain["max_weight"]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_row_totals_do_not_wrap(dtype, make, drawn):
    largest = np.iinfo(dtype).max
    X = np.full((1, 8), largest, dtype=dtype)
    fitted(X=make(X), max_count=float(largest), max_total=10, fit_prior=False)
    ((mechanism, table),) = drawn
    assert_within(mechanism, table)
    assert table.sum() == pytest.approx(10, rel=1e-4)  # on a grid


def test_a_record_does_not_change_contributions_of_others(drawn):
    # Rows at their limit beside one of fractions, and one of many entries: what the others
    # contribute is the same to the last bit, so the difference is the record's alone.
    rng = np.random.default_rng(0)
    X = rng.multinomial(7, np.full(40, 1 / 40), size=300).astype(float)
    X[:100] *= rng.random((100, 1))
    bounds = {"max_count": 3, "max_total": 5.3, "max_weight": 0.7, "mechanism": "gaussian"}
    weight = rng.random(300) * 0.7
    tables = []
    for record in ([0] * 40, [0.1] * 40, [1e9] * 40, [0, 0, 7] + [0] * 37):
        X[150] = record
        fitted(X=sparse.csr_array(X), y=np.arange(300) % 2, weight=weight, **bounds)
        tables.append(drawn[-1])
    nothing = entries(tables[0][1])
    for mechanism, table in tables[1:]:
        change = [a - b for a, b in zip(entries(table), nothing, strict=True)]
        assert min(change) >= 0
        assert max(change) <= Fraction(mechanism.max_count)
        assert sum(change) <= Fraction(mechanism.max_total)


def test_row_totals_are_bit_identical_for_any_storage():
    # A total that another order of addition rounds differently moves what the row adds by
    # a step of the grid, and all rows of a block at once. A record that is clipped changes
    # the layout of its block, and one that is removed the places of those that follow.
    rng = np.random.default_rng(0)
    for n_columns in (1, 2, 3, 24, 101):
        row = rng.random(n_columns)
        apart = np.empty((13, 2 * n_columns))
        apart[:, ::2] = row
        layouts = [np.tile(row, (n_rows, 1)) for n_rows in range(1, 14)]
        layouts += [np.asfortranarray(layouts[-1]), apart[:, ::2], np.minimum(apart[:, ::2], 2)]
        totals = np.concatenate([DenseRows(layout).totals() for layout in layouts])
        assert len(set(totals.tolist())) == 1
        exact = sum(entries(row))
        assert abs(Fraction(totals[0]) - exact) <= exact * n_columns * Fraction(2) ** -53


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("size", [7.8125e104, 7.8125e-104])
@pytest.mark.parametrize("given", [{}, {"max_count": 1.0}, {"max_total": 1.0}])
def test_a_bound_that_is_taken_from_the_data_is_not_shown_in_the_error(size, given):
    unbounded = {"max_count": None, "max_total": None, "fit_prior": False}
    for X, weight in ([[[size, 0, 0]], None], [[[1, 0, 0]], [size]]):
        message = ""
        try:
            fitted(X=X, weight=weight, **(unbounded | given))
        except ValueError as error:
            message = str(error)
        assert "7.8" not in message


def test_batches_that_cannot_be_added_exactly_are_rejected():
    # The small record of the second batch would vanish beside the large one of the first.
    model = DirichletNB(classes=[0, 1], max_count=2.0**40, max_total=2.0**40)
    model.partial_fit([[2.0**40, 0, 0]], [0])
    model.set_params(max_count=2.0**-14, max_total=2.0**-14)
    with pytest.raises(ValueError, match="summed without rounding"):
        model.partial_fit([[2.0**-14, 0, 0]], [0])


@pytest.mark.parametrize("index", [-1, 3])
def test_a_sparse_matrix_with_an_index_outside_its_columns_is_rejected(index, drawn):
    X = sparse.csr_array([[1.0, 1, 0], [0, 1, 1]])
    X.indices[1] = index
    with pytest.raises(ValueError, match="ind"):
        fitted(X=X, y=(0, 1))
    assert not drawn


@pytest.mark.parametrize("mechanism", ["dirichlet", "laplace", "gaussian"])
def test_durations_are_rejected_since_a_missing_one_is_a_large_negative_number(mechanism, drawn):
    X = np.ones((2, 3)).astype("timedelta64[s]")
    X[1, 1] = np.timedelta64("NaT")
    with pytest.raises(TypeError, match="X must contain numbers; got dtype timedelta64"):
        fitted(X=X, y=(0, 1), mechanism=mechanism)
    assert not drawn


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_negative_entry_is_rejected_when_it_is_summed(make):
    X = make(np.array([[1.0, -5.0, 2.0]]))
    with pytest.raises(ContributionError):
        sum_rows(X, np.zeros(1, int), 1, UNWEIGHTED, 3.0, 6.0)


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_more_than_can_be_added_exactly_is_rejected():
    with pytest.raises(ValueError, match="summed without rounding"):
        fitted(X=[[2.0**53, 2.0**53, 1]], max_count=None, max_total=None)


@pytest.mark.parametrize("cls", BOTH)
def test_a_pending_model_is_released_once_by_several_threads(cls):
    for trial in range(5):
        recorder = Recorder()
        model = fitted(cls)
        model = type(model)(**model.get_params()).set_params(accountant=recorder)
        model.partial_fit([[1, 0, 2]] * 50, [0, 1] * 25)
        barrier, answers, failures = threading.Barrier(8), [], []

        def use(barrier=barrier, model=model, answers=answers, failures=failures, trial=trial):
            barrier.wait()
            try:
                answers.append(model.predict_proba([[1, 0, 2]])[0, 0])
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(recorder.charges) == 1
        assert len(set(answers)) == 1
        assert "_counts_" not in vars(model)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("prior", [{}, {"fit_prior": False}, {"class_prior": [1.0]}])
def test_one_class_and_one_category_or_feature_is_a_model(cls, prior):
    model = fitted(
        cls,
        X=[[0], [0]],
        y=[0, 0],
        classes=[0],
        **prior,
        **({} if cls is DirichletNB else {"n_categories": 1}),
    )
    assert model.predict([[0]]).tolist() == [0]
    assert model.privacy_.releases == 0
    assert "nothing was released" in str(model.privacy_)


def test_longdouble_is_counted_like_any_number(drawn):
    recorder = Recorder()
    X = np.array([[1, 0, 2]], dtype=np.longdouble)
    fitted(X=X, max_count=5, max_total=5, accountant=recorder)
    np.testing.assert_array_equal(drawn[-1][1][0], [1, 0, 2])
    assert len(recorder.charges) == 1


def test_a_max_total_above_the_sum_of_bounds_has_no_further_cost():
    X = np.random.default_rng(0).integers(2, size=(200, 64))
    y = np.arange(200) % 2
    loose, tight = (fitted(X=X, y=y, max_count=1, max_total=total).privacy_ for total in (1000, 64))
    assert loose == tight


@pytest.mark.parametrize("cls", BOTH)
def test_a_weight_beyond_its_bound_is_rejected_without_being_shown(cls):
    with pytest.raises(ValueError, match="at most max_weight=2") as caught:
        fitted(cls, weight=[918273.5], max_weight=2)
    assert "918273" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_entries_too_large_to_square_are_rejected_without_being_shown(epsilon):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(ValueError, match="must have finite row totals, and entries") as caught:
            fitted(X=[[1.7e308, 1.7e308, 0]], max_count=None, max_total=None, epsilon=epsilon)
    assert "308" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "ends"),
    [
        ([0, 3, 1, 2], [0, 2, 4]),  # beyond the columns, at the end of an ordered row
        ([0, 1, -1, 2], [0, 2, 4]),  # below them, at its start
        ([3, 0, 1, 2], [0, 2, 4]),  # in a row without order
        ([0, 1, 2, 7], [0, 0, 4]),  # after an empty row
        ([0, 1, 2, 0], [0, 3, 1, 4]),  # rows that do not follow each other
    ],
)
def test_entries_outside_the_table_are_rejected(columns, ends):
    n_rows = len(ends) - 1
    X = sparse.csr_array((n_rows, 3))
    X.data, X.indices, X.indptr = np.ones(4), np.array(columns), np.array(ends)
    groups = np.arange(n_rows) % 2
    with pytest.raises(ValueError, match=r"indices must|indptr must"):
        sum_rows(X, groups, 2, UNWEIGHTED, 1, 3)


@pytest.mark.parametrize("max_total", [3, 50, None])
def test_sums_of_many_blocks_are_those_of_single_rows(max_total):
    # Rows of all lengths, empty ones first and last, whole numbers beside fractions.
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, size=(900, 400)) * (rng.random((900, 1)) < 0.9)
    X = np.where(rng.random((900, 1)) < 0.5, X, X * 0.37)
    X[[0, 1, -1]] = 0
    groups = rng.integers(0, 3, 900)
    expected = np.zeros((3, 400), dtype=object)
    for row, group in zip(X, groups, strict=True):
        alone = sum_rows(row[np.newaxis], np.array([0]), 1, UNWEIGHTED, 2, max_total or 800)
        expected[group] += [Fraction(value) for value in alone.table[0]]
    for container in (np.asarray, sparse.csr_array):
        with patch.multiple(rows_module, _ENTRIES=500):
            found = sum_rows(container(X), groups, 3, UNWEIGHTED, 2, max_total or 800)
        assert (found.table == expected).all()


@pytest.mark.parametrize("without", [False, True], ids=["scipy's kernel", "numpy alone"])
@pytest.mark.parametrize("ends_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float32, np.float64])
def test_sums_of_sparse_rows_are_those_of_dense_ones(dtype, ends_type, without, monkeypatch):
    if without:
        monkeypatch.setattr(rows_module, "coo_todense", None)
        monkeypatch.setattr(rows_module, "csc_matvecs", None)
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, size=(300, 70)).astype(dtype)
    groups = rng.integers(0, 4, 300)
    stored = sparse.csr_array(X)
    stored.data = np.repeat(stored.data, 2)[::2]  # apart from each other
    stored.indices, stored.indptr = (
        stored.indices.astype(ends_type),
        stored.indptr.astype(ends_type),
    )
    for max_total in (8, 60):
        dense = sum_rows(X, groups, 4, UNWEIGHTED, 2, max_total)
        found = sum_rows(stored, groups, 4, UNWEIGHTED, 2, max_total)
        np.testing.assert_array_equal(found.table, dense.table)


@pytest.mark.parametrize("group", [-1, 2])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_group_that_does_not_exist_is_rejected(make, group):
    with pytest.raises(ContributionError):
        sum_rows(make(np.ones((2, 3))), np.array([0, group]), 2, UNWEIGHTED, 1, 3)


@pytest.mark.parametrize("n_groups", [1, 3])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_rows_without_a_group_of_their_own_are_rejected(make, n_groups):
    with pytest.raises(ContributionError):
        sum_rows(make(np.ones((2, 3))), np.zeros(n_groups, int), 2, UNWEIGHTED, 1, 3)


@pytest.mark.parametrize("wrong", [-1.0, -5e-324, np.nan, -np.nan, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_entries_that_are_not_counts_are_rejected_when_they_are_summed(make, wrong):
    X = np.ones((4, 3))
    X[2, 1] = wrong
    for max_total in (1, 3, 30):
        with pytest.raises(ContributionError):
            sum_rows(make(X), np.zeros(4, dtype=int), 1, UNWEIGHTED, 2, max_total)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float64, ">f8", "<f8"])
def test_the_largest_count_is_found_for_any_dtype(dtype):
    values = np.array([[0, 1, 3], [2, 0, 1]]).astype(dtype)
    for layout in (values, values.T, np.asfortranarray(values), values[:, ::2], values[:0]):
        assert largest_count(layout) == layout.max(initial=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8"])
@pytest.mark.parametrize("wrong", [-1.0, np.nan, -np.nan, np.inf, -np.inf])
def test_the_largest_count_is_nan_for_invalid_numbers(dtype, wrong):
    for place in (0, 3, 6):
        values = np.ones(7, dtype=dtype)
        values[place] = wrong
        assert np.isnan(largest_count(values))
    assert np.isnan(largest_count(np.array([1, -1])))


def test_zeros_with_a_sign_and_the_ends_of_doubles_are_counts():
    least, most = 5e-324, np.finfo(float).max
    assert largest_count(np.array([-0.0, 0.0])) == 0
    assert largest_count(np.array([-0.0, 2.5, 1.0])) == 2.5
    assert largest_count(np.array([0.0, least])) == least
    assert largest_count(np.array([least, most, 1.0])) == most


def test_whole_numbers_are_moved_before_single_precision_would_round_them(monkeypatch):
    # Sums beyond what floats of 24 bits hold, in blocks some of which hold fractions too.
    monkeypatch.setattr(rows_module, "_ENTRIES", 20)
    moves = []
    move = GroupSums._move
    monkeypatch.setattr(GroupSums, "_move", lambda self: moves.append(self._max_sum) or move(self))
    rng = np.random.default_rng(0)
    X = rng.integers(2**21, 2**22, size=(400, 3)).astype(float)
    X[rng.random(400) < 0.02] += 0.5
    groups = rng.integers(0, 2, 400)
    for bounds in ((2**22, 2**24), (2**21 + 12345, 2**23)):
        dense = sum_rows(X, groups, 2, UNWEIGHTED, *bounds)
        found = sum_rows(sparse.csr_array(X), groups, 2, UNWEIGHTED, *bounds)
        assert (found.table == dense.table).all()
    assert len(moves) > 10
    assert max(moves) < 2**24


@pytest.mark.parametrize("largest", [2.0**24, 2.0**24 + 1, 2.0**30 + 1, 2.0**50 + 1])
def test_entries_that_single_precision_would_round_are_added_as_they_are(largest):
    X = np.array([[largest, 1], [1, 0], [0, 1]])
    found = sum_rows(sparse.csr_array(X), np.zeros(3, int), 1, UNWEIGHTED, largest, 2 * largest)
    assert (found.table == [[largest + 1, 2]]).all()


# Records that another process changes while they are counted


def changing(monkeypatch, owner, name, *changes, calls=1):
    """Change the records after a number of calls of a function have returned."""
    function = getattr(owner, name)
    returned = count(1)

    def and_then_change(*arguments, **options):
        result = function(*arguments, **options)
        if next(returned) >= calls:
            for array, value in changes:
                array[...] = value
        return result

    monkeypatch.setattr(owner, name, and_then_change)


@pytest.mark.parametrize("step", ["apply", "check"])
@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("max_total", [1, 3])
def test_rows_are_counted_as_they_were_checked(make, step, max_total, monkeypatch):
    X = make(np.ones((4, 3)))
    entries = X.data if sparse.issparse(X) else X
    changing(monkeypatch, contributions.RowBounds, step, (entries, 1e7))
    found = sum_rows(X, np.zeros(4, dtype=int), 1, UNWEIGHTED, 1, max_total)
    assert entries.max() == 1e7
    assert found.table.max() <= 4


@pytest.mark.parametrize("step", ["apply", "check"])
def test_sparse_rows_keep_the_columns_and_the_lengths_that_were_checked(step, monkeypatch):
    X = sparse.csr_array(np.ones((4, 3)))
    groups = np.array([0, 1, 0, 1])
    changes = (X.indices, 0), (X.indptr, [0, 12, 12, 12, 12])
    changing(monkeypatch, contributions.RowBounds, step, *changes)
    found = sum_rows(X, groups, 2, UNWEIGHTED, 1, 3)
    assert (found.table == 2).all()


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_are_added_to_groups_that_were_checked(make, calls, monkeypatch):
    groups = np.array([0, 1, 0, 1])
    seen = []
    add = GroupSums.add
    monkeypatch.setattr(
        GroupSums, "add", lambda *given, **more: seen.append(given[2]) or add(*given, **more)
    )
    changing(monkeypatch, contributions, "_check", (groups, 0), calls=calls)
    found = sum_rows(make(np.ones((4, 3))), groups, 2, UNWEIGHTED, 1, 3)
    assert (found.table.sum(axis=0) == 4).all()
    assert seen
    assert not any(np.shares_memory(own, groups) for own in seen)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_categories_are_counted_as_they_were_checked(calls, monkeypatch):
    X, groups = np.zeros((4, 2), dtype=int), np.array([0, 1, 0, 1])
    # A third category of the first column would be counted in the table of the second.
    changing(monkeypatch, contributions, "_check", (X, 2), calls=calls)
    with suppress(ContributionError):
        first, second = count_categories(X, np.array([2, 3]), groups, 2, UNWEIGHTED)
        assert first.tolist() == [[2, 0], [2, 0]]
        assert second.tolist() == [[2, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("group", [-1, 2])
def test_categories_of_a_group_that_does_not_exist_are_rejected(group):
    with pytest.raises(ContributionError):
        count_categories(
            np.ones((2, 2), dtype=int), np.array([2, 2]), np.array([0, group]), 2, UNWEIGHTED
        )


@pytest.mark.parametrize("n_records", [8191, 8192, 32767, 70001])
@pytest.mark.parametrize("n_cells", [1, 2, 7, 64, 65])
def test_many_records_are_counted_one_by_one(n_cells, n_records):
    cells = np.random.default_rng(0).integers(0, n_cells, n_records)
    expected = [int((cells == cell).sum()) for cell in range(n_cells)]
    assert count_cells(cells, n_cells).tolist() == expected


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("cell", [-1, 3])
def test_a_cell_that_does_not_exist_is_rejected_among_many_records(cell, place):
    cells = np.ones(10_000, dtype=int)
    cells[place] = cell
    with pytest.raises(ContributionError):
        count_cells(cells, 3)


def test_cells_are_counted_in_a_private_copy(monkeypatch):
    # numpy looks for the largest cell first, and then counts without a check.
    cells = np.array([0, 1, 1])
    bincount = np.bincount
    seen = []
    monkeypatch.setattr(
        np, "bincount", lambda x, *more, **o: seen.append(x) or bincount(x, *more, **o)
    )
    assert count_cells(cells, 2).tolist() == [1, 2]
    assert seen
    assert not any(np.shares_memory(x, cells) for x in seen)


@pytest.mark.parametrize(
    ("model", "module", "counts"),
    [
        (DirichletNB(classes=[0, 1], max_count=1, max_total=3), multinomial, "sum_rows"),
        (DirichletCategoricalNB(classes=[0, 1], n_categories=2), categorical, "count_categories"),
        (DirichletBernoulliNB(classes=[0, 1]), multinomial, "sum_rows"),
    ],
)
def test_a_record_has_one_class_in_all_tables(model, module, counts, drawn, monkeypatch):
    y = np.array([0, 1] * 10)
    changing(monkeypatch, module, counts, (y, 0))
    model.fit(np.ones((20, 3), dtype=int), y)
    assert y.max() == 0
    assert len(drawn) > 1
    assert {*np.concatenate([np.ravel(table) for _, table in drawn])} <= {0, 10}


def test_duplicates_in_a_row_are_added_independently_of_other_rows():
    # scipy sorts all rows if one is unsorted, which can exchange entries of one cell.
    rng = np.random.default_rng(10)
    columns, entries = np.sort(rng.integers(0, 2, 60)), rng.choice([0.1, 0.2, 0.3, 0.7, 1.1], 60)
    tables = []
    for other in ([0, 1, 2], [2, 1, 0]):
        X = sparse.csr_array((2, 3))
        X.data = np.concatenate([entries, np.ones(3)])
        X.indices = np.concatenate([columns, other])
        X.indptr = np.array([0, 60, 63])
        tables.append(sum_rows(X, np.array([0, 1]), 2, UNWEIGHTED, 100, 200).table)
    np.testing.assert_array_equal(*tables)


def test_duplicates_whose_sum_overflows_are_clipped_to_the_bound():
    X = sparse.csr_array((1, 2))
    X.data, X.indices, X.indptr = np.full(20, 1e307), np.zeros(20, dtype=int), np.array([0, 20])
    np.testing.assert_array_equal(
        sum_rows(X, np.array([0]), 1, UNWEIGHTED, 3.0, 5.0).table, [[3.0, 0.0]]
    )
