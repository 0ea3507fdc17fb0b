"""DirichletHistogramTransformer: drop-in, private, and honest about its errors."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdirdp import DirichletCategoricalNB, PrivacyAccountant, PrivacyLeakWarning
from skdirdp.accounting import Composition
from skdirdp.histogram import DirichletHistogramTransformer
from skdirdp.histogram.grid import assign_bins, count_fine_bins, fine_grid
from skdirdp.histogram.released import project_to_simplex
from tests.probes import Recorder

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


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [7, 60, [2, 3, 90]])
def test_infinite_epsilon_is_kbins_discretizer(encode, strategy, n_bins):
    X = columns()
    ours = DirichletHistogramTransformer(n_bins, encode=encode, strategy=strategy, epsilon=INF)
    theirs = KBinsDiscretizer(n_bins, encode=encode, strategy=strategy)
    if strategy == "quantile":
        if "quantile_method" not in theirs.get_params():
            pytest.skip("scikit-learn before 1.7 has another definition of a quantile only")
        theirs.set_params(quantile_method="averaged_inverted_cdf")
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


def test_noisy_edges_given_to_kbins_discretizer_bin_alike():
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
    accountant = PrivacyAccountant(epsilon=4.0, delta=1e-5)
    pipeline = make_pipeline(
        DirichletHistogramTransformer(
            5, bounds=[(-8, 8), (0, 500)], encode="ordinal", accountant=accountant
        ),
        DirichletCategoricalNB(classes=[0, 1], n_categories=5, accountant=accountant),
    )
    assert pipeline.fit(X, y).score(X, y) > 0.7
    assert len(accountant) == 2
    assert 1.0 < accountant.total(delta=1e-5) < 2.0


def test_a_fitted_transformer_holds_no_exact_count():
    X = np.concatenate([np.zeros(12347), np.full(23459, 5.0)])[:, np.newaxis]
    for mechanism in ("dirichlet", "gaussian", "laplace"):
        model = DirichletHistogramTransformer(bounds=(-1, 9), n_fine_bins=16, mechanism=mechanism)
        model.fit(X)
        kept = pickle.dumps(model) + repr(vars(model)).encode()
        for secret in (12347, 23459):
            for share in (secret, secret / len(X)):
                assert np.float64(share).tobytes() not in kept
            assert np.int64(secret).tobytes() not in kept
            assert str(secret).encode() not in kept
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(X).toarray(), model.transform(X).toarray())


def test_a_refused_charge_or_bad_data_leaves_the_fit_as_it_was():
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
    and the bins beside it smaller.
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
        assert badly_filled(X[:, 0], model.bin_edges_[0]) == []
    if name == "BILL_AMT1":  # zero holds 7% of the rows: no tie fills a bin
        assert model.n_bins_[0] == 10


def test_the_check_of_evenly_filled_bins_can_fail():
    x = np.random.default_rng(0).normal(size=1000)
    assert badly_filled(x, np.quantile(x, np.linspace(0, 1, 11))) == []
    assert badly_filled(x, np.linspace(x.min(), x.max(), 11)) != []


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "auto"])
def test_other_mechanisms_give_quantiles_too(mechanism):
    X = np.random.default_rng(0).lognormal(3, 1.5, (10_000, 1))
    model = DirichletHistogramTransformer(
        10, encode="ordinal", bounds=(0, 1e5), mechanism=mechanism
    ).fit(X)
    assert badly_filled(X[:, 0], model.bin_edges_[0]) == []


def test_edges_lie_on_fine_borders_so_that_bins_hold_what_was_released():
    X = columns()
    model = public(n_bins=6).fit(X)
    for edges, fine in zip(model.bin_edges_, model.fine_edges_, strict=True):
        assert set(edges) <= set(fine)


def test_bins_that_ties_leave_nearly_empty_are_merged():
    x = np.concatenate([np.zeros(9000), np.random.default_rng(0).uniform(1, 100, 1000)])
    for _ in range(10):
        model = DirichletHistogramTransformer(10, bounds=(0, 100), encode="ordinal")
        bins = model.fit_transform(x[:, np.newaxis])[:, 0]
        shares = np.bincount(bins.astype(int)) / len(x)
        assert len(shares) == model.n_bins_[0] <= 4
        assert shares[0] >= 0.9


# Error bars ------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("shape", ["normal", "ties"])
def test_error_bars_fail_no_more_often_than_stated(confidence, shape):
    rng = np.random.default_rng(3)
    x = rng.normal(size=500) if shape == "normal" else rng.choice([0.0, 1.0, 2.5], 500)
    model = DirichletHistogramTransformer(bounds=(-5, 5), n_fine_bins=8, fine_scale="linear")
    trials, histogram_misses, cdf_misses = 150, 0, 0
    for _ in range(trials):
        model.fit(x[:, np.newaxis])
        truth = np.histogram(x, model.fine_edges_[0])[0] / len(x)
        far = np.abs(model.histogram_[0] - truth).max()
        histogram_misses += far > model.linf_error(confidence)[0]
        below = np.concatenate([[0], np.cumsum(truth)])
        far = np.abs(model._histograms[0].cdf - below).max()
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
    with pytest.raises(ValueError, match="'dirichlet' only"):
        public(mechanism="laplace").fit(X).linf_error()


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
    X = columns(20_000)
    model = public(encode="density", strategy=strategy, epsilon=epsilon, n_bins=20).fit(X)
    for k, edges in enumerate(model.bin_edges_):
        points = np.zeros((len(edges) - 1, 3))
        points[:, k] = (edges[1:] + edges[:-1]) / 2
        assert model.transform(points)[:, k] @ np.diff(edges) == pytest.approx(1)
    middle = model.transform(np.array([[-1.0, 3, 3], [0.0, 3, 3], [1.0, 3, 3]]))[:, 0]
    np.testing.assert_allclose(middle, [0.242, 0.399, 0.242], rtol=0.25)
    with pytest.raises(ValueError, match="no inverse"):
        model.inverse_transform(points)


def test_histograms_are_distributions_and_samples_follow_them():
    model = public(n_fine_bins=32).fit(columns())
    drawn = model.sample(20_000, random_state=0)
    for k, histogram in enumerate(model.histogram_):
        assert histogram.min() >= 0
        assert histogram.sum() == pytest.approx(1)
        assert model.release_[k].min() > 0
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
    np.testing.assert_allclose(model.histogram_[1], [0.5, 0.3, 0.2, 0], atol=0.03)
    assert set(np.unique(model.sample(100, 0)[:, 1])) <= {0, 1, 2, 3}
    bad = X.copy()
    bad[3, 1] = 4
    for refuse in (model.fit, model.transform):
        with pytest.raises(ValueError, match="from 0 to 3 in feature 1"):
            refuse(bad)


def test_far_more_bins_than_rows_take_the_memory_of_the_bins():
    import tracemalloc

    X = np.random.default_rng(0).integers(0, 200_000, (1000, 1))
    model = DirichletHistogramTransformer(n_categories=200_000, encode="ordinal")
    model.fit(X)  # imports and calibration are not what is measured
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 8 * 200_000
    assert model.histogram_[0].size == 200_000
    fine = DirichletHistogramTransformer(n_fine_bins=150_000, bounds=(0, 2e5)).fit(X)
    assert fine.histogram_[0].size == 150_000
    np.testing.assert_array_equal(model.transform(X), X)


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
def test_a_grid_counts_each_value_where_its_edges_say(scale, bounds):
    grid = fine_grid(*bounds, 200, scale)
    edges = grid.edges
    assert edges[0] == bounds[0]
    assert edges[-1] == bounds[1]
    assert np.all(np.diff(edges) > 0)
    rng = np.random.default_rng(0)
    weight = rng.random(500)
    inside = weight * bounds[0] + (1 - weight) * bounds[1]
    values = np.concatenate([inside, edges, np.round(inside)]).clip(*bounds)[:, np.newaxis]
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
    np.testing.assert_allclose(project_to_simplex(shares), [0.6, 0.4, 0, 0])
    np.testing.assert_allclose(project_to_simplex(np.array([0.2, 0.8])), [0.2, 0.8])


# In the company of scikit-learn, and what is missing or wrong ----------------------


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
        ({"n_bins": [2, 2]}, "one entry per feature, 3"),
        ({"n_bins": 2.5}, "n_bins"),
        ({"n_fine_bins": 1}, "n_fine_bins"),
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
    X = np.full((300, 1), 3.0)
    public_bounds = DirichletHistogramTransformer(bounds=(0, 10), encode="ordinal").fit(X)
    assert len(np.unique(public_bounds.transform(X))) == 1
    recorder = Recorder()
    own_bounds = DirichletHistogramTransformer(encode="ordinal", accountant=recorder)
    with pytest.warns() as caught:
        own_bounds.fit(X)
    assert any("constant" in str(w.message) for w in caught)
    assert list(own_bounds.n_bins_) == [1]
    assert recorder.charges == []
    np.testing.assert_array_equal(own_bounds.transform(X), 0)


def test_a_seed_warns_and_repeats_and_secure_noise_differs():
    X = columns()
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        first = public(random_state=3).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        second = public(random_state=3).fit(X)
    for one, other in zip(first.release_, second.release_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(public().fit(X).release_[0], public().fit(X).release_[0])
