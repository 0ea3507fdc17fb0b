"""DirichletHistogramTransformer: drop-in, private, and honest about its errors."""

import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.isotonic import isotonic_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdirdp import DirichletCategoricalNB, DirichletNB, PrivacyAccountant, PrivacyLeakWarning
from skdirdp._random import sampling_generator
from skdirdp.accounting import Composition
from skdirdp.histogram import DirichletHistogramTransformer
from skdirdp.histogram.histogram import (
    assign_bins,
    count_fine_bins,
    observed_bounds,
)
from skdirdp.mechanisms.base import Mechanism, Request
from skdirdp.mechanisms.calibration import calibrate_tables
from skdirdp.mechanisms.tables import CountTable
from skdirdp.postprocessing.estimates import project_counts
from skdirdp.schema import fine_grid, quantile_edges
from tests.probes import Recorder, drawn_tables

INF = float("inf")
DATA = Path(__file__).parents[2] / "shared" / "data"


def columns(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=n), rng.lognormal(1, 1, n), rng.integers(0, 30, n)])


def public(**parameters):
    """A transformer with every public parameter given, so that nothing leaks or warns."""
    return DirichletHistogramTransformer(
        **{"bounds": [(-6, 6), (0, 200), (0, 40)], "encode": "ordinal", **parameters}
    )


# scikit-learn's own checks ---------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore:feature . is constant")
@parametrize_with_checks(
    [
        DirichletHistogramTransformer(epsilon=epsilon, encode=encode)
        for epsilon, encode in ((INF, "onehot"), (INF, "cdf"), (1.0, "ordinal"))
    ]
)
def test_scikit_learn_accepts_the_transformer(estimator, check):
    check(estimator)


# Without noise ---------------------------------------------------------------------

QUANTILE_METHOD = (
    {"quantile_method": "averaged_inverted_cdf"}
    if "quantile_method" in KBinsDiscretizer().get_params()
    else {}
)


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [7, 60, [2, 3, 90]])
def test_infinite_epsilon_is_kbins_discretizer(encode, strategy, n_bins):
    X = columns()
    ours = DirichletHistogramTransformer(n_bins, encode=encode, strategy=strategy, epsilon=INF)
    if strategy == "quantile" and not QUANTILE_METHOD:
        pytest.skip("scikit-learn before 1.7 has another definition of a quantile only")
    theirs = KBinsDiscretizer(n_bins, encode=encode, strategy=strategy, **QUANTILE_METHOD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn.preprocessing._discretization.warnings.warn", lambda *_: None)
        theirs.fit(X)
    ours.fit(X)
    np.testing.assert_array_equal(ours.n_bins_, theirs.n_bins_)
    for mine, its in zip(ours.bin_edges_, theirs.bin_edges_, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    new = np.vstack([columns(seed=1), 5 * columns(50, seed=2)])
    mine, its = ours.transform(new), theirs.transform(new)
    assert type(mine) is type(its)
    assert mine.dtype == its.dtype
    back = ours.inverse_transform(mine), theirs.inverse_transform(its)
    if encode == "onehot":
        mine, its = mine.toarray(), its.toarray()
    np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(*back)


@pytest.mark.filterwarnings("ignore:Feature 0 is constant")
@pytest.mark.filterwarnings("ignore:Feature 0 is constant")
@pytest.mark.parametrize("bounds", [None, (0, 10)])
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
def test_a_constant_column_without_privacy_is_kbins_discretizers(bounds, encode):
    X = np.full((30, 1), 3.0)
    ours = DirichletHistogramTransformer(4, encode=encode, bounds=bounds, epsilon=INF).fit(X)
    theirs = KBinsDiscretizer(4, encode=encode, **QUANTILE_METHOD).fit(X)
    np.testing.assert_array_equal(ours.n_bins_, theirs.n_bins_)
    np.testing.assert_array_equal(ours.bin_edges_[0], theirs.bin_edges_[0])
    mine, its = ours.transform(X), theirs.transform(X)
    if encode == "onehot":
        mine, its = mine.toarray(), its.toarray()
    np.testing.assert_array_equal(mine, its)
    assert ours.set_params(encode="density").transform(X).tolist() == [[1.0]] * 30


def test_kbins_discretizer_with_noisy_edges_gives_the_same_bins():
    X = columns()
    ours = public().fit(X)
    theirs = KBinsDiscretizer(3, encode="ordinal", strategy="uniform").fit(X)
    theirs.bin_edges_, theirs.n_bins_ = ours.bin_edges_, ours.n_bins_
    np.testing.assert_array_equal(ours.transform(X), theirs.transform(X))


def test_names_and_frames_pass_through():
    frame = pd.DataFrame(columns(), columns=["a", "b", "c"])
    ours = public(encode="onehot-dense", n_bins=3).set_output(transform="pandas").fit(frame)
    out = ours.transform(frame)
    assert list(out.columns)[:4] == ["a_0.0", "a_1.0", "a_2.0", "b_0.0"]
    assert list(public().fit(frame).get_feature_names_out()) == ["a", "b", "c"]


# The guarantee ---------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace", "auto"])
@pytest.mark.parametrize("budget", [{"epsilon": 0.8}, {"epsilon": 0.3, "order": 4.0}])
def test_a_fit_stays_within_its_budget_and_uses_it(adjacency, mechanism, budget):
    model = public(adjacency=adjacency, mechanism=mechanism, n_samples=2000, **budget)
    model.fit(columns())
    total = Composition(model.privacy_.mechanisms)
    assert model.privacy_.releases == 3
    assert total.adjacency == adjacency
    if "order" in budget:
        assert 0.99 * 0.3 < total.rdp(4.0) <= 0.3
    else:
        assert 0.99 * 0.8 < total.epsilon(1e-5) <= 0.8


def test_a_record_moves_one_count_of_each_histogram():
    # Against every kind of value: inside, on a border, beyond the bounds.
    X = columns(50)
    limits = [(-6, 6), (0, 200), (0, 40)]
    grids = [fine_grid(*pair, 64, "mixed") for pair in limits]

    def count(X):
        return count_fine_bins(X, [0, 1, 2], grids)

    before = count(X)
    for value in (-1e300, -6, 0, 0.37, 6, 40, 199.999, 200, 1e300):
        other = X.copy()
        other[7] = value
        for old, new in zip(before, count(other), strict=True):
            assert old.sum() == new.sum() == 50
            assert np.abs(old - new).sum() in (0, 2)


def test_each_fit_is_one_charge_of_one_release_per_feature():
    recorder = Recorder()
    model = public(accountant=recorder).fit(columns())
    model.transform(columns())
    model.sample(10)
    model.cdf_error()
    ((_, releases, label),) = recorder.charges
    assert (releases, label) == (3, "DirichletHistogramTransformer")


def test_from_raw_numbers_to_predictions_with_one_accountant():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=4000)
    X = np.column_stack([rng.normal(y, 1.0), rng.lognormal(y, 1.0)])
    accountant = PrivacyAccountant(epsilon=4.0, delta=1e-5, adaptive=False)
    pipeline = make_pipeline(
        DirichletHistogramTransformer(
            5, bounds=[(-8, 8), (0, 500)], encode="ordinal", accountant=accountant
        ),
        DirichletCategoricalNB(classes=[0, 1], n_categories=5, accountant=accountant),
    )
    assert pipeline.fit(X, y).score(X, y) > 0.7
    assert len(accountant) == 2
    assert 1.0 < accountant.total(delta=1e-5) < 2.0


def test_a_fitted_transformer_contains_no_exact_count():
    X = np.concatenate([np.zeros(12347), np.full(23459, 5.0)])[:, np.newaxis]
    for mechanism, postprocess in product(("dirichlet", "gaussian", "laplace"), (True, False)):
        model = DirichletHistogramTransformer(
            bounds=(-1, 9), n_fine_bins=16, mechanism=mechanism, postprocess=postprocess
        )
        model.fit(X)
        kept = pickle.dumps(model) + repr(vars(model)).encode()
        for secret in (12347, 23459):
            for share in (secret, secret / len(X)):
                assert np.float64(share).tobytes() not in kept
            assert np.int64(secret).tobytes() not in kept
            assert str(secret).encode() not in kept
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(X).toarray(), model.transform(X).toarray())


def test_a_rejected_charge_or_bad_data_leaves_the_fit_as_it_was():
    class Bankrupt:
        def charge(self, mechanism, releases=1, label=None):
            raise RuntimeError("no budget left")

    X = columns()
    model = public().fit(X)
    before = model.transform(X)
    model.set_params(accountant=Bankrupt())
    with pytest.raises(RuntimeError, match="no budget left"):
        model.fit(X[:50])
    missing, infinite = X.copy(), X.copy()
    missing[3, 1], infinite[3, 1] = np.nan, np.inf
    for bad in (missing, infinite, X[:0]):
        with pytest.raises(ValueError, match=r"NaN|infinity|0 sample"):
            model.fit(bad)
    np.testing.assert_array_equal(model.transform(X), before)


# Quantiles -------------------------------------------------------------------------


def real_column(file, name, n=10_000, seed=0):
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{file} of the UCI repository is not there")
    values = pd.read_csv(path)[name].to_numpy(dtype=float)
    return np.random.default_rng(seed).choice(values, n, replace=False)[:, np.newaxis]


def badly_filled(x, edges):
    """Shares of bins outside 5% to 15% that ties do not force.

    A value of 10% of the rows or more fills a bin by itself; so its bin may be larger,
    and the adjacent bins smaller.
    """
    bins = np.searchsorted(edges[1:-1], x, side="right")
    shares = np.bincount(bins, minlength=len(edges) - 1) / len(x)
    values, counts = np.unique(x, return_counts=True)
    heavy = np.searchsorted(edges[1:-1], values[counts >= 0.1 * len(x)], side="right")
    excused = set(heavy)
    beside = {k + step for k in heavy for step in (-1, 1)}
    return [
        share
        for k, share in enumerate(shares)
        if not 0.05 <= share <= 0.15 and k not in excused and not (share < 0.05 and k in beside)
    ]


def divide_evenly_filled_bins(x, edges):
    """Whether some of the edges, or all, make evenly filled bins: the rest divides those further.

    A value that fills a bin by itself leaves edges over.
    """
    inner = edges[1:-1].tolist()
    return any(
        badly_filled(x, np.array([edges[0], *kept, edges[-1]])) == []
        for size in range(len(inner), -1, -1)
        for kept in combinations(inner, size)
    )


@pytest.mark.parametrize(
    ("file", "name", "bounds"),
    [
        ("adult.csv.gz", "capital-gain", (0, 99_999)),
        ("adult.csv.gz", "capital-gain", (0, 1_000_000)),
        ("adult.csv.gz", "hours-per-week", (1, 99)),
        ("adult.csv.gz", "hours-per-week", (0, 168)),
        ("credit_card.csv.gz", "BILL_AMT1", (-170_000, 965_000)),
        ("credit_card.csv.gz", "BILL_AMT1", (-1_000_000, 10_000_000)),
    ],
)
def test_ten_quantile_bins_of_skewed_columns_are_evenly_filled(file, name, bounds):
    X = real_column(file, name)
    for _ in range(20):
        model = DirichletHistogramTransformer(10, encode="ordinal", bounds=bounds).fit(X)
        assert model.n_bins_[0] == 10
        assert divide_evenly_filled_bins(X[:, 0], model.bin_edges_[0])
        if name == "BILL_AMT1":  # zero holds 7% of the rows: no tie fills a bin
            assert badly_filled(X[:, 0], model.bin_edges_[0]) == []


def test_the_check_of_evenly_filled_bins_can_fail():
    x = np.random.default_rng(0).normal(size=1000)
    assert badly_filled(x, np.quantile(x, np.linspace(0, 1, 11))) == []
    assert badly_filled(x, np.linspace(x.min(), x.max(), 11)) != []
    assert divide_evenly_filled_bins(x, np.quantile(x, [0, 0.1, 0.14, *np.arange(2, 11) / 10]))
    assert not divide_evenly_filled_bins(x, np.quantile(x, [0, 0.1, 0.3, 0.4, 0.5, 0.7, 0.9, 1]))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "auto"])
def test_other_mechanisms_give_quantiles_too(mechanism):
    X = np.random.default_rng(0).lognormal(3, 1.5, (10_000, 1))
    model = DirichletHistogramTransformer(
        10, encode="ordinal", bounds=(0, 1e5), mechanism=mechanism
    ).fit(X)
    assert badly_filled(X[:, 0], model.bin_edges_[0]) == []


def test_edges_are_fine_borders_so_that_shares_of_bins_are_released():
    X = columns()
    model = public(n_bins=6).fit(X)
    for edges, fine in zip(model.bin_edges_, model.fine_edges_, strict=True):
        assert set(edges) <= set(fine)


def test_edges_that_ties_do_not_use_divide_the_other_values():
    x = np.concatenate([np.zeros(9000), np.random.default_rng(0).uniform(1, 100, 1000)])
    largest = []
    for _ in range(10):
        model = DirichletHistogramTransformer(10, bounds=(0, 100), encode="ordinal")
        bins = model.fit_transform(x[:, np.newaxis])[:, 0]
        counts = np.bincount(bins.astype(int), minlength=10)
        assert len(counts) == model.n_bins_[0] == 10
        assert counts[0] >= 9000
        assert np.median(counts[1:]) >= 50
        largest.append(counts[1:].max())
    # 1000 records for nine bins; halving 1000 three times gives 125, and some twice more. Of
    # 60 fits a usual one had 200 in its largest bin, and the worst of all 327.
    assert max(largest) <= 400
    assert np.median(largest) <= 260


def test_quantile_borders_have_the_requested_number_and_are_nearest_if_possible():
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = int(rng.integers(2, 40))
        parts = rng.dirichlet(np.full(size, rng.choice([0.01, 0.1, 1.0, 10.0])))
        parts[rng.random(size) < rng.choice([0.0, 0.8])] = 0.0
        parts = parts / parts.sum() if parts.sum() > 0 else np.eye(size)[0]
        cdf = np.concatenate([[0.0], np.cumsum(parts)[:-1].clip(0, 1), [1.0]])
        for n_bins in range(1, size + 1):
            borders = quantile_edges(cdf, n_bins)
            assert len(borders) == n_bins + 1
            assert (borders[0], borders[-1]) == (0, size)
            assert np.all(np.diff(borders) > 0)
            # Where no two levels meet in one border and no bin is nearly empty, nothing moves.
            nearest = [int(np.argmin(np.abs(cdf - level / n_bins))) for level in range(1, n_bins)]
            wanted = np.array([0, *nearest, size])
            if np.all(np.diff(cdf[wanted]) >= 0.1 / n_bins + 1e-12):
                np.testing.assert_allclose(cdf[borders], cdf[wanted], atol=1e-12)


# As many columns as were asked for -------------------------------------------------


def pile(n=400):
    """Columns whose number of distinct quantiles varies between releases."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    heap = np.where(rng.random(n) < 0.6, 0, rng.lognormal(y, 1.0))
    return np.column_stack([rng.normal(y, 1.0), heap, np.full(n, 3.0)]), y


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal", "density", "cdf"])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_the_noise_of_a_next_step_does_not_follow_from_the_noise_of_this_one(strategy, encode):
    X, y = pile()
    model = make_pipeline(
        DirichletHistogramTransformer(
            6,
            encode=encode,
            strategy=strategy,
            bounds=[(-8, 8), (0, 500), (0, 10)],
            mechanism="auto",
        ),
        DirichletNB(classes=[0, 1], max_count=6, max_total=18, mechanism="auto"),
    )
    reports, totals, widths = set(), set(), set()
    for _ in range(30):
        accountant = PrivacyAccountant()
        for _, step in model.steps:
            step.set_params(accountant=accountant)
        model.fit(X, y)
        reports.add((model[0].privacy_, model[1].privacy_))
        totals.add(accountant.total(delta=1e-5))
        widths.add((model[1].n_features_in_, *model[0].n_bins_))
    assert len(reports) == len(totals) == len(widths) == 1
    assert widths == {(18 if "onehot" in encode else 3, 6, 6, 6)}


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("encode", ["onehot-dense", "ordinal", "density", "cdf"])
@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_every_data_set_gives_as_many_columns(epsilon, strategy, encode):
    rng = np.random.default_rng(0)
    columns = {
        "spread": rng.normal(size=40),
        "constant": np.full(40, 3.0),
        "zero": np.zeros(40),
        "huge": np.full(40, -1.7e308),
        "tiny": np.full(40, 5e-324),
        "neighbours": np.where(np.arange(40) % 2, 1.0, np.nextafter(1.0, 2.0)),
        "subnormal": np.linspace(0, 1e-310, 40),
        "two values": np.repeat([0.0, 1.0], [39, 1]),
    }
    X = np.column_stack(list(columns.values()))
    for bounds in (None, [(-9.0, 9.0)] * X.shape[1]):
        model = DirichletHistogramTransformer(
            [7, 2, 3, 4, 5, 6, 7, 8],
            encode=encode,
            strategy=strategy,
            bounds=bounds,
            epsilon=epsilon,
            n_fine_bins=64,
        )
        out = model.fit_transform(X)
        assert model.n_bins_.tolist() == [7, 2, 3, 4, 5, 6, 7, 8]
        assert out.shape[1] == (42 if encode == "onehot-dense" else 8)
        assert np.isfinite(out).all()
        assert [len(histogram) for histogram in model.histogram_] == [64] * 8
        for edges in model.bin_edges_:
            assert np.all(np.diff(edges) > 0)


def test_every_bin_has_a_centre_that_falls_into_it():
    X, _ = pile()
    for strategy in ("quantile", "uniform"):
        model = DirichletHistogramTransformer(
            8, encode="ordinal", strategy=strategy, bounds=[(-8, 8), (0, 500), (0, 10)]
        ).fit(X)
        bins = np.repeat(np.arange(8.0)[:, np.newaxis], 3, axis=1)
        centres = model.inverse_transform(bins)
        np.testing.assert_array_equal(model.transform(centres), bins)
        for encode in ("onehot", "onehot-dense"):
            model.set_params(encode=encode)
            np.testing.assert_array_equal(
                model.inverse_transform(model.transform(centres)), centres
            )


@pytest.mark.parametrize(
    ("low", "high"), [(3.0, 3.0), (0.0, 0.0), (1.0, 1.0 + 1e-15), (-1.7e308, -1.7e308), (0, 1e-312)]
)
def test_bounds_from_the_data_leave_room_for_the_bins(low, high):
    found = observed_bounds(np.array([low, high]), 100)
    assert found[0] < low <= high < found[1]
    assert fine_grid(*found, 100, "mixed").n_bins == 100
    assert observed_bounds(np.array([low, high])) == (low, high)


@pytest.mark.parametrize("n_fine_bins", [2, 3, 512, 65_536, 65_537, 100_000, 144_179])
def test_a_grid_has_the_requested_number_of_bins_if_floats_allow(n_fine_bins):
    for low, high in ((0.0, 1.1 * 2**17), (-1.0, 1.0), (1e15, 1e15 + 2**17), (-3e-300, 1e-299)):
        assert fine_grid(low, high, n_fine_bins, "mixed").n_bins == n_fine_bins
    few = fine_grid(1e15, 1e15 + 4, n_fine_bins, "linear")  # numbers of spacing 1/8 there
    assert few.n_bins == min(n_fine_bins, 32)


# Error bars ------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize(
    ("postprocess", "adjacency"), [(True, "replace"), (True, "add_remove"), (False, "replace")]
)
@pytest.mark.parametrize(
    ("shape", "mechanism"),
    [
        ("normal", "dirichlet"),
        ("ties", "dirichlet"),
        ("ties", "gaussian"),
        ("ties", "laplace"),
    ],
)
def test_error_bars_fail_no_more_often_than_stated(
    confidence, shape, mechanism, postprocess, adjacency
):
    rng = np.random.default_rng(3)
    x = rng.normal(size=500) if shape == "normal" else rng.choice([0.0, 1.0, 2.5], 500)
    model = DirichletHistogramTransformer(
        8,
        bounds=(-5, 5),
        n_fine_bins=8,
        fine_scale="linear",
        mechanism=mechanism,
        postprocess=postprocess,
        adjacency=adjacency,
        n_samples=600 if postprocess else 500,  # a wrong guess is of no account
    )
    trials, histogram_misses, cdf_misses = 150, 0, 0
    for _ in range(trials):
        model.fit(x[:, np.newaxis])
        truth = np.histogram(x, model.fine_edges_[0])[0] / len(x)
        far = np.abs(model.histogram_[0] - truth).max()
        histogram_misses += far > model.linf_error(confidence)[0]
        below = np.concatenate([[0], np.cumsum(truth)])
        far = np.abs(model._histograms_[0].cdf - below).max()
        cdf_misses += far > model.cdf_error(confidence)[0]
    # Two standard deviations of the count are allowed on top.
    allowed = (1 - confidence) * trials + 2 * np.sqrt(confidence * (1 - confidence) * trials)
    assert histogram_misses <= allowed
    assert cdf_misses <= allowed


def test_error_bars_shrink_with_confidence_and_vanish_without_noise():
    X = columns()
    model = public().fit(X)
    assert np.all(model.linf_error(0.5) < model.linf_error(0.99))
    assert np.all(model.cdf_error(0.5) < model.cdf_error(0.99))
    model.set_params(epsilon=INF).fit(X)
    np.testing.assert_array_equal(model.linf_error(), 0)
    np.testing.assert_array_equal(model.cdf_error(), 0)
    with pytest.raises(ValueError, match="confidence must be"):
        model.linf_error(1.0)


@pytest.mark.parametrize("starts", [None, [0, 5, 39]])
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace", "auto"])
def test_the_band_of_a_histogram_contains_the_true_shares(starts, mechanism):
    X = columns()
    model = public(n_fine_bins=64, n_categories=[None, None, 40], mechanism=mechanism).fit(X)
    edges = model.fine_edges_[2]
    truth = np.histogram(X[:, 2], edges)[0] / len(X)
    truth = truth if starts is None else np.add.reduceat(truth, starts)
    lower, upper = model.histogram_band(2, 0.999, starts)
    assert np.all(lower <= truth)
    assert np.all(truth <= upper)
    assert np.all(upper - lower < 0.5)
    alone = DirichletHistogramTransformer(n_categories=1).fit(np.zeros((9, 1)))
    assert alone.histogram_band(0) is None


# Density, CDF, samples, categories -------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_the_cdf_is_monotone_and_within_0_and_1(epsilon):
    X = columns()
    model = public(encode="cdf", epsilon=epsilon).fit(X)
    wide = np.sort(np.vstack([3 * X, -3 * X]), axis=0)
    out = model.transform(wide)
    assert np.all(np.diff(out, axis=0) >= 0)
    assert out.min() >= 0
    assert out.max() <= 1
    if epsilon == INF:
        ranks = np.argsort(np.argsort(X[:, 0])) / len(X)
        assert np.abs(model.transform(X)[:, 0] - ranks).max() < 0.02
        np.testing.assert_allclose(model.inverse_transform(model.transform(X))[:, 0], X[:, 0])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_the_density_integrates_to_one_and_follows_the_data(strategy, epsilon):
    X = columns(200_000)  # its noise is 3% of the density
    model = public(encode="density", strategy=strategy, epsilon=epsilon, n_bins=20).fit(X)
    for k, edges in enumerate(model.bin_edges_):
        points = np.zeros((len(edges) - 1, 3))
        points[:, k] = (edges[1:] + edges[:-1]) / 2
        assert model.transform(points)[:, k] @ np.diff(edges) == pytest.approx(1)
    middle = model.transform(np.array([[-1.0, 3, 3], [0.0, 3, 3], [1.0, 3, 3]]))[:, 0]
    np.testing.assert_allclose(middle, [0.242, 0.399, 0.242], rtol=0.25)
    with pytest.raises(ValueError, match="no inverse"):
        model.inverse_transform(points)


@pytest.mark.parametrize("postprocess", [True, False])
def test_histograms_are_distributions_and_samples_follow_them(postprocess):
    model = public(n_fine_bins=32, postprocess=postprocess).fit(columns())
    drawn = model.sample(20_000, random_state=0)
    for k, histogram in enumerate(model.histogram_):
        assert histogram.min() >= 0
        assert histogram.sum() == pytest.approx(1)
        assert postprocess or model.release_[k].min() > 0
        seen = np.histogram(drawn[:, k], model.fine_edges_[k])[0] / len(drawn)
        assert np.abs(seen - histogram).max() < 0.02


def test_categorical_columns_keep_their_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=5000), rng.choice(4, 5000, p=[0.5, 0.3, 0.2, 0.0])])
    model = DirichletHistogramTransformer(
        5, bounds=[(-5, 5), None], n_categories=[None, 4], encode="ordinal"
    ).fit(X)
    out = model.transform(X)
    np.testing.assert_array_equal(out[:, 1], X[:, 1])
    np.testing.assert_array_equal(model.inverse_transform(out)[:, 1], X[:, 1])
    assert list(model.n_bins_) == [5, 4]
    # Beside the noise, the sample's own deviation from its distribution.
    error = model.linf_error(1 - 1e-6)[1] + 5 * np.sqrt(0.25 / 5000)
    np.testing.assert_allclose(model.histogram_[1], [0.5, 0.3, 0.2, 0], rtol=0, atol=error)
    assert error < 0.15
    assert set(np.unique(model.sample(100, 0)[:, 1])) <= {0, 1, 2, 3}
    alone = DirichletHistogramTransformer(n_categories=1, encode="cdf").fit(np.zeros((9, 1)))
    assert alone.inverse_transform(alone.transform([[0.0]])).tolist() == [[0.0]]
    bad = X.copy()
    bad[3, 1] = 4
    for fails in (model.fit, model.transform):
        with pytest.raises(ValueError, match="from 0 to 3 in feature 1"):
            fails(bad)


def test_many_bins_use_memory_in_proportion_to_the_bins():
    import tracemalloc

    X = np.random.default_rng(0).integers(0, 200_000, (1000, 1))
    model = DirichletHistogramTransformer(n_categories=200_000, encode="ordinal")
    model.fit(X)  # exclude imports and calibration from the measurement
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 8 * 200_000
    assert model.histogram_[0].size == 200_000
    fine = DirichletHistogramTransformer(n_fine_bins=150_000, bounds=(0, 2e5)).fit(X)
    assert fine.histogram_[0].size == 150_000
    np.testing.assert_array_equal(model.transform(X), X)


# Estimates from the release -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skdirdp.exceptions.PrivacyLeakWarning")
def test_without_postprocessing_the_release_is_published():
    X = columns()
    plain = public(postprocess=False, mechanism="gaussian", random_state=7).fit(X)
    tables = [CountTable(len(X), 512, min_smoothing=0.0)] * 3
    mechanisms = calibrate_tables(
        tables,
        mechanism="gaussian",
        calibration="exact",
        epsilon=1.0,
        delta=1e-5,
        order=None,
        adjacency="replace",
    )
    counts = [np.histogram(X[:, k], edges)[0] for k, edges in enumerate(plain.fine_edges_)]
    requests = [
        Request(mechanism, each.astype(float), tables[0].contribution.grid)
        for mechanism, each in zip(mechanisms, counts, strict=True)
    ]
    released = Mechanism.draw_all(requests, sampling_generator(7))
    for k, (mechanism, drawn) in enumerate(zip(mechanisms, released, strict=True)):
        np.testing.assert_array_equal(plain.release_[k], drawn)
        unbiased = np.cumsum(mechanism.unbiased(drawn, len(X)))[:-1]
        cdf = isotonic_regression(unbiased, y_min=0.0, y_max=1.0)
        np.testing.assert_array_equal(plain._histograms_[k].cdf[1:-1], cdf)


@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian", "laplace"])
def test_postprocessing_publishes_noisy_counts_and_their_monotone_cdf(mechanism):
    X = columns()
    model = public(mechanism=mechanism).fit(X)
    for k, noisy in enumerate(model.release_):
        counts = np.histogram(X[:, k], model.fine_edges_[k])[0]
        variance = model.privacy_.mechanism.noise.variance_at(len(X) / 512)
        # 512 squares of noise, of which those of Laplace noise have a relative variance of 5
        assert np.mean((noisy - counts) ** 2) == pytest.approx(variance, rel=5 * np.sqrt(5 / 512))
        shares = (noisy + (len(X) - noisy.sum()) / 512) / len(X)
        cdf = isotonic_regression(np.cumsum(shares)[:-1], y_min=0.0, y_max=1.0)
        np.testing.assert_allclose(model._histograms_[k].cdf[1:-1], cdf, atol=1e-12)
        np.testing.assert_allclose(np.cumsum(model.histogram_[k])[:-1], cdf, atol=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_public_number_of_records_reduces_the_noise(ordered):
    kind = {"bounds": (0, 2), "n_fine_bins": 2, "fine_scale": "linear"}
    model = DirichletHistogramTransformer(
        2, mechanism="gaussian", **(kind if ordered else {"n_categories": 2})
    )
    fits = 400
    found = [model.fit_counts([[950, 50]], n_samples=1000).histogram_[0] for _ in range(fits)]
    # Half of the noise of either bin follows from their sum. Without it the noise of the small one
    # would count nearly in full, and the deviation would be 1.35 times as large.
    deviation = model.privacy_.mechanism.sigma / np.sqrt(2) / 1000
    assert np.std(found, axis=0)[1] == pytest.approx(deviation, rel=4 / np.sqrt(2 * fits))


@pytest.mark.parametrize(
    "change", [{"adjacency": "add_remove"}, {"max_rows": 2, "n_bins": 10}], ids=["records", "rows"]
)
def test_a_number_of_records_that_is_not_public_is_not_used(change):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 1))
    model = DirichletHistogramTransformer(bounds=(-6, 6), n_samples=10_000, **change).fit(X)
    assert model._histograms_[0].n_samples is None
    # Bins by a guess of half the records would have shares twice as far from equal ones.
    truth = np.searchsorted(np.sort(X[:, 0]), model.fine_edges_[0]) / len(X)
    assert np.abs(model._histograms_[0].cdf - truth).max() < 0.05
    assert np.abs(model._histograms_[0].cdf - truth).max() <= model.cdf_error(1 - 1e-6)[0]


def test_postprocessing_reduces_the_error():
    rng = np.random.default_rng(0)
    X = rng.lognormal(3, 1.5, (10_000, 1))
    codes = rng.choice(200, 10_000, p=np.repeat([0.02, 0.0], [50, 150]))
    X = np.column_stack([X, codes])
    errors = {}
    for postprocess in (True, False):
        model = DirichletHistogramTransformer(
            bounds=[(0, 1e5), None], n_categories=[None, 200], postprocess=postprocess
        )
        found = []
        for _ in range(20):
            model.fit(X)
            truth = np.searchsorted(np.sort(X[:, 0]), model.fine_edges_[0]) / len(X)
            shares = np.bincount(codes, minlength=200) / len(X)
            far = np.abs(model._histograms_[0].cdf[1:-1] - truth[1:-1]).max()
            found.append([far, np.abs(model.histogram_[1] - shares).sum()])
        errors[postprocess] = np.mean(found, axis=0)
    # About 0.5 and 0.4; a mean of 20 deviates by less than a tenth.
    assert np.all(errors[True] < 0.75 * errors[False])


def test_estimated_shares_of_categories_are_positive_and_small_if_unused():
    counts = np.repeat([500.0, 0.0], [20, 180])
    model = DirichletHistogramTransformer(n_categories=200)
    model.fit_counts([counts], n_samples=10_000)
    assert np.all(model.histogram_[0] > 0)
    # The deviation of the noise is 7 or so records; half of it would remain of a flat prior.
    deviation = np.sqrt(model.privacy_.mechanism.noise.variance_at(50)) / 10_000
    assert model.histogram_[0][20:].mean() < 0.25 * deviation


@pytest.mark.parametrize("calibration", ["algorithm1", "tcdp"])
def test_noise_of_the_papers_calibration_is_postprocessed(calibration):
    X = columns()
    model = public(calibration=calibration, epsilon=3.0, n_fine_bins=32).fit(X)
    assert model.privacy_.mechanism.claim is not None
    for k, edges in enumerate(model.fine_edges_):
        truth = np.searchsorted(np.sort(X[:, k]), edges) / len(X)
        far = np.abs(model._histograms_[k].cdf[1:-1] - truth[1:-1]).max()
        assert far <= model.cdf_error(1 - 1e-6)[k]


# The grid --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["linear", "mixed", "symlog"])
@pytest.mark.parametrize(
    "bounds",
    [
        (0, 1),
        (-170_000, 965_000),
        (1, 99),
        (1e15, 1e15 + 4),
        (-1e300, 1e300),
        (-1e308, 1.7e308),
        (0, 1e-300),
        (-3, -1),
        (0.1, 0.3),
    ],
)
def test_a_grid_counts_each_value_between_its_edges(scale, bounds):
    grid = fine_grid(*bounds, 200, scale)
    edges = grid.edges
    assert edges[0] == bounds[0]
    assert edges[-1] == bounds[1]
    assert np.all(np.diff(edges) > 0)
    rng = np.random.default_rng(0)
    weight = rng.random(500)
    inside = weight * bounds[0] + (1 - weight) * bounds[1]
    beside = np.concatenate([np.nextafter(edges, -INF), np.nextafter(edges, INF)])
    # Subnormal numbers may be 0 in units of a cell.
    beside = beside[(beside == 0) | (np.abs(beside) >= np.finfo(float).tiny)]
    values = np.concatenate([inside, edges, np.round(inside), beside, [-1e-18, 1e-18]])
    values = values.clip(*bounds)[:, np.newaxis]
    (counts,) = count_fine_bins(values, [0], [grid])
    bins = assign_bins(values, [edges[1:-1]], np.intp)[:, 0]
    np.testing.assert_array_equal(counts, np.bincount(bins, minlength=len(counts)))


def test_counting_in_blocks_and_by_column_is_counting():
    X = np.random.default_rng(0).normal(size=(30_000, 3)).astype(np.float32)
    grids = [fine_grid(-4, 4, 50, "mixed"), fine_grid(-1, 2, 20, "linear")]
    counts = count_fine_bins(X, [2, 0], grids)
    for found, grid, column in zip(counts, grids, (X[:, 2], X[:, 0]), strict=True):
        expected = np.histogram(column.astype(float).clip(grid.low, grid.high), grid.edges)[0]
        np.testing.assert_array_equal(found, expected)


def test_the_projection_is_the_nearest_distribution():
    shares = np.array([0.7, 0.5, -0.1, -0.1])
    np.testing.assert_allclose(project_counts(shares, 1.0), [0.6, 0.4, 0, 0])
    np.testing.assert_allclose(project_counts(np.array([0.2, 0.8]), 1.0), [0.2, 0.8])


# Compatibility with scikit-learn, missing and invalid parameters -----------------------


def test_it_works_inside_a_grid_search_and_a_column_transformer():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1500)
    X = pd.DataFrame({"a": rng.normal(y, 1.0), "b": rng.integers(0, 3, 1500)})
    binned = make_column_transformer(
        (DirichletHistogramTransformer(4, bounds=(-8, 8), encode="ordinal"), ["a"]),
        remainder="passthrough",
    )
    model = make_pipeline(binned, DirichletCategoricalNB(classes=[0, 1], n_categories=[8, 3]))
    name = "columntransformer__dirichlethistogramtransformer__n_bins"
    search = GridSearchCV(model, {name: [2, 4, 8]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.6
    assert clone(binned).fit_transform(X).shape == (1500, 2)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"bounds": None}, ["bounds"]),
        ({"bounds": [(-6, 6), None, (0, 40)]}, ["bounds"]),
        ({"adjacency": "add_remove"}, ["n_samples"]),
        ({"bounds": None, "adjacency": "add_remove"}, ["bounds", "n_samples"]),
    ],
)
def test_a_missing_public_parameter_warns_by_name(change, names):
    with pytest.warns(PrivacyLeakWarning) as caught:
        public(**change).fit(columns())
    assert len(caught) == 1
    assert str(caught[0].message).split(":")[0].split(", ") == names


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": (5, 1)}, "the lower one first"),
        ({"bounds": (1, 1)}, "the lower one first"),
        ({"bounds": (0, INF)}, "finite"),
        ({"bounds": [(0, 1)]}, "one pair per feature, 3; got 1"),
        ({"bounds": [(0, 1), (2, 3), (5, 4)]}, "feature 2"),
        ({"n_bins": 1}, "n_bins"),
        ({"n_bins": [2, 1, 2]}, "at least 2"),
        ({"n_bins": [2, 2]}, "There are 3 features; got list of length 2"),
        ({"n_bins": 2.5}, "n_bins"),
        ({"n_fine_bins": 1}, "n_fine_bins"),
        ({"n_fine_bins": 9}, "got 10 and 9 for feature 0, of n_fine_bins=9"),
        ({"n_bins": [2, 3, 600]}, "got 600 and 512 for feature 2"),
        ({"bounds": (1, 1 + 1e-15)}, "got 10 and 5 for feature 0"),
        ({"bounds": (1, 1 + 1e-15), "strategy": "uniform"}, "bounds must allow n_bins=10"),
        ({"bounds": (-1.7e308, 1.7e308), "strategy": "uniform"}, "bounds must allow"),
        ({"n_categories": [3, None]}, "one entry per feature, 3; got 2"),
        ({"n_categories": [0, None, None]}, "n_categories must be at least 1"),
        ({"encode": "dummy"}, "encode"),
        ({"strategy": "kmeans"}, "strategy"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"mechanism": "exponential"}, "mechanism"),
    ],
)
def test_a_bad_parameter_is_named_before_any_charge(change, message):
    recorder = Recorder()
    model = public(accountant=recorder, **change)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(columns())
    assert recorder.charges == []
    assert not hasattr(model, "bin_edges_")


def test_values_beyond_the_bounds_fall_into_the_end_bins():
    model = public(n_bins=4).fit(columns())
    far = np.array([[-1e9, -1e9, -1e9], [1e9, 1e9, 1e9]])
    np.testing.assert_array_equal(model.transform(far), [[0, 0, 0], model.n_bins_ - 1])


def test_constant_columns_have_a_documented_result():
    X = np.full((3000, 1), 3.0)
    public_bounds = DirichletHistogramTransformer(bounds=(0, 10), encode="ordinal").fit(X)
    assert len(np.unique(public_bounds.transform(X))) == 1
    recorder = Recorder()
    own_bounds = DirichletHistogramTransformer(encode="ordinal", accountant=recorder)
    with pytest.warns(PrivacyLeakWarning, match="bounds"):
        own_bounds.fit(X)
    # As for any other column: the charge does not reveal that it is constant.
    assert own_bounds.n_bins_.tolist() == [10]
    assert len(recorder.charges) == 1
    assert own_bounds.fine_edges_[0][[0, -1]].tolist() == [1.5, 4.5]
    assert len(np.unique(own_bounds.transform(X))) == 1
    np.testing.assert_allclose(own_bounds.sample(500, 0).mean(), 3.0, atol=0.1)
    with pytest.warns(UserWarning, match="Feature 0 is constant and will be replaced with 0"):
        without_privacy = clone(own_bounds).set_params(epsilon=INF).fit(X)
    assert without_privacy.n_bins_.tolist() == [1]
    assert np.isnan(without_privacy.sample(3)).all()


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_parameters_of_numpys_types_are_numbers(strategy):
    X = columns()[:, :2]
    exact = {"encode": "ordinal", "strategy": strategy}

    def fitted(**parameters):
        return DirichletHistogramTransformer(**exact, **parameters).fit(X)

    for n_bins in (np.uint8(255), np.int8(127), np.uint64(200)):
        model = fitted(n_bins=n_bins, bounds=(-6, 200))
        assert model.n_bins_.tolist() == [int(n_bins)] * 2
    many = fitted(n_bins=np.array([255, 3], dtype=np.uint8), bounds=(-6, 200))
    assert many.n_bins_.tolist() == [255, 3]
    for pair in (np.array([-6, 200], np.float16), [np.float16(-6), np.int16(200)]):
        edges = fitted(bounds=pair).fine_edges_[0]
        assert (float(edges[0]), float(edges[-1])) == (-6.0, 200.0)
    for n_fine_bins in (np.uint8(200), np.int8(100), np.int16(600), np.uint64(513)):
        model = fitted(n_fine_bins=n_fine_bins, bounds=(-6, 200))
        assert len(model.histogram_[0]) == int(n_fine_bins)
    codes = np.random.default_rng(0).integers(0, 200, (300, 2))
    for n_categories in (np.uint8(200), np.array([200, 250], np.uint8), [np.uint64(200), 200]):
        model = DirichletHistogramTransformer(n_categories=n_categories, encode="onehot")
        width = int(np.broadcast_to(n_categories, 2).astype(int).sum())
        assert model.fit_transform(codes).shape == (300, width)


def test_a_numpy_budget_is_spent_to_its_last_bit():
    for number in (np.float16(0.3), np.float32(0.3), np.int8(2)):
        model = public(epsilon=number, delta=np.float16(1e-3)).fit(columns())
        assert Fraction(model.privacy_.epsilon) == Fraction(float(number))
        spent = model.privacy_.composition().epsilon(float(np.float16(1e-3)))
        assert 0.999 * float(number) < spent <= float(number)


# Containers, and the order of calls ------------------------------------------------


def test_all_containers_give_the_same_bins():
    X = np.round(columns(), 3)
    names = ["a", "b", "c"]
    reference = public(epsilon=INF).fit(X)
    containers = [
        X.tolist(),
        np.asfortranarray(X),
        X[::-1][::-1],
        X.astype(object),
        X.astype(np.longdouble),
        pd.DataFrame(X, columns=names),
        pd.DataFrame(X, columns=names).astype("Float64"),
        np.ma.masked_array(X),
    ]
    for table in containers:
        model = public(epsilon=INF).fit(table)
        for mine, its in zip(model.histogram_, reference.histogram_, strict=True):
            np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(model.transform(table), reference.transform(X))
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({name: X[:, k].tolist() for k, name in enumerate(names)})
    np.testing.assert_array_equal(public(epsilon=INF).fit_transform(table), reference.transform(X))


def test_small_integers_are_counted_as_the_numbers_that_they_are():
    for dtype in (np.int8, np.uint8, np.int16, np.uint64, np.float16, bool):
        whole = np.random.default_rng(0).integers(0, 100, (500, 1)).astype(dtype)
        model = DirichletHistogramTransformer(4, bounds=(0, 128), n_fine_bins=128, epsilon=INF)
        expected = np.bincount(whole[:, 0].astype(int), minlength=128) / 500
        model.set_params(fine_scale="linear").fit(whole)
        np.testing.assert_allclose(model.histogram_[0], expected, atol=1e-15)


@pytest.mark.parametrize(
    "bad",
    [
        sparse.csr_array(np.full((20, 1), 7431.25)),
        [[7431.25, 1.0], [2.0]],
        [["7431.25 a secret"]] * 20,
        pd.DataFrame({"7431": pd.Categorical(["7431.25 a secret"] * 20)})[["7431"]].to_numpy(),
    ],
)
def test_values_that_cannot_be_binned_are_rejected_without_showing_them(bad):
    recorder = Recorder()
    model = DirichletHistogramTransformer(bounds=(0, 1), encode="ordinal", accountant=recorder)
    fitted = clone(model).set_params(accountant=None).fit([[0.5], [0.25]])
    for fails in (model.fit, fitted.transform, fitted.inverse_transform):
        with pytest.raises((TypeError, ValueError)) as raised:
            fails(bad)
        printed = "".join(traceback.format_exception(raised.value)).split("\n")
        assert "7431" not in "\n".join(line for line in printed if not line.startswith("  "))
    assert recorder.charges == []


def test_invalid_bins_have_no_inverse():
    model = public(n_bins=4).fit(columns())
    for bad in (-1.0, 4.0, 1e300, -1e300):
        with pytest.raises(ValueError, match="bins from 0 to n_bins_ - 1"):
            model.inverse_transform(np.full((2, 3), bad))
    model.set_params(encode="onehot")
    with pytest.raises(ValueError, match="one 1 per feature"):
        model.inverse_transform(sparse.csr_array((2, 12)))
    with pytest.raises(ValueError, match="must have 12 columns"):
        model.inverse_transform(np.zeros((2, 3)))


def test_parameters_set_after_a_fit_change_no_bins():
    X = columns()
    model = public(n_bins=5).fit(X)
    before, report = model.transform(X), model.privacy_
    model.set_params(n_bins=3, strategy="uniform", bounds=(0, 1), n_categories=2, epsilon=INF)
    np.testing.assert_array_equal(model.transform(X), before)
    model.set_params(encode="onehot")
    assert model.transform(X).shape == (len(X), 15)
    assert len(model.get_feature_names_out()) == 15
    assert model.privacy_ is report


def test_a_second_fit_replaces_the_first_and_a_failed_one_changes_nothing():
    frame = pd.DataFrame(columns(), columns=["a", "b", "c"])
    model = public().fit(frame)
    kept = vars(model).copy()
    for wrong in ({"bounds": (2, 1)}, {"n_fine_bins": 9}, {"n_categories": 3}):
        given = {name: model.get_params()[name] for name in wrong}
        with pytest.raises(ValueError, match=r"bounds|n_fine_bins|n_categories"):
            model.set_params(**wrong).fit(frame)
        model.set_params(**given)
        assert vars(model).keys() == kept.keys()
        assert all(vars(model)[name] is value for name, value in kept.items())
    model.fit(columns()[:, :3])
    assert not hasattr(model, "feature_names_in_")
    assert model.release_ is not kept["release_"]


def test_threads_may_share_a_fitted_transformer():
    X = columns(20_000)
    for encode in ("onehot-dense", "density", "cdf"):
        model = public(encode=encode).fit(X)
        alone = pickle.loads(pickle.dumps(model)).transform(X)
        with ThreadPoolExecutor(4) as pool:
            for out in pool.map(model.transform, [X] * 8):
                np.testing.assert_array_equal(out, alone)


def test_a_seed_warns_and_reproduces_the_noise_and_secure_noise_differs():
    X = columns()
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        first = public(random_state=3).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        second = public(random_state=3).fit(X)
    for one, other in zip(first.release_, second.release_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(public().fit(X).release_[0], public().fit(X).release_[0])


def test_inverse_transform_returns_values_near_the_records():
    rng = np.random.default_rng(0)
    X = rng.normal(50, 8, (20_000, 1))
    model = DirichletHistogramTransformer(5, encode="ordinal", bounds=(0, 100)).fit(X)
    bins = model.transform(X)
    values = model.inverse_transform(bins)
    for number in range(5):
        inside = bins[:, 0] == number
        assert abs(values[inside].mean() - X[inside].mean()) < 1.0
    np.testing.assert_array_equal(model.transform(values), bins)
    # By centres of the outer bins, half of the bounds away, it is more than twice as much.
    assert 0.8 * X.std() < values.std() <= X.std()


def test_a_missing_category_is_rejected_and_is_no_smallest_integer():
    codes = pd.Categorical([0, 1, 1, 0, None])
    X = pd.DataFrame({"a": codes, "b": 1})
    for parameters in ({"bounds": (0, 2)}, {"n_categories": 2}):
        transformer = DirichletHistogramTransformer(**parameters)
        with pytest.raises(ValueError, match="contains NaN"):
            transformer.fit(X)
        with pytest.raises(ValueError, match="contains NaN"):
            transformer.fit(X.iloc[:4]).transform(X)
    with drawn_tables() as tables:
        DirichletHistogramTransformer(n_categories=2).fit(X.iloc[:4])
    assert [counts.tolist() for _, counts in tables] == [[2, 2], [0, 4]]


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal", "density", "cdf"])
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [None, np.float32, np.float64])
def test_the_output_has_the_requested_type(encode, given, dtype):
    X = np.random.default_rng(0).random((200, 2)).astype(given)
    bins = DirichletHistogramTransformer(4, encode=encode, dtype=dtype, bounds=(0, 1))
    assert bins.fit_transform(X).dtype == (given if dtype is None else dtype)
