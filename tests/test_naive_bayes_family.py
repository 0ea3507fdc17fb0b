"""Naive Bayes models compared with scikit-learn: counts, further records, exports."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import learning_curve
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyLeakWarning,
    PrivateCountVectorizer,
    make_private_pipeline,
)
from skdirdp._contributions import RowSums
from skdirdp.mechanisms.tables import ContributionBound
from skdirdp.naive_bayes.bernoulli import Occurrences
from skdirdp.naive_bayes.multinomial import default_total
from tests.probes import Recorder

INF = float("inf")
PUBLIC = {
    DirichletNB: {"max_count": 5, "max_total": 20},
    DirichletComplementNB: {"max_count": 5, "max_total": 20},
    DirichletBernoulliNB: {},
    DirichletCategoricalNB: {"n_categories": 8},
}


def records(n=3000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return np.minimum(rng.poisson(rng.gamma(1.0, 1.0, size=(3, d))[y]), 7), y


def model_of(cls, **parameters):
    return cls(classes=[0, 1, 2], **PUBLIC[cls], **parameters)


@pytest.mark.parametrize("cls", PUBLIC)
def test_without_noise_more_records_may_follow_a_fit(cls):
    X, y = records()
    ours = model_of(cls, epsilon=INF).fit(X[:500], y[:500])
    ours = pickle.loads(pickle.dumps(ours.partial_fit(X[500:900], y[500:900])))
    ours.partial_fit(X[900:], y[900:])
    whole = model_of(cls, epsilon=INF).fit(X, y)
    np.testing.assert_array_equal(ours.class_count_, whole.class_count_)
    np.testing.assert_allclose(ours.predict_log_proba(X), whole.predict_log_proba(X), atol=1e-12)


@pytest.mark.parametrize("cls", PUBLIC)
def test_a_private_model_keeps_no_counts(cls):
    X, y = records()
    model = model_of(cls).fit(X, y)
    with pytest.raises(ValueError, match="is released and takes no more records"):
        model.partial_fit(X, y)
    # Nor does one whose noise is taken away by a parameter, or given by one.
    with pytest.raises(ValueError, match="is released and takes no more records"):
        model.set_params(epsilon=INF).partial_fit(X, y)
    exact = model_of(cls, epsilon=INF).fit(X, y)
    with pytest.raises(ValueError, match="is released and takes no more records"):
        exact.set_params(epsilon=1.0).partial_fit(X, y)


@pytest.mark.parametrize("cls", PUBLIC)
def test_exact_counts_are_not_pickled_for_an_epsilon_that_was_changed(cls):
    X, y = records()
    recorder = Recorder()
    model = model_of(cls, accountant=recorder).partial_fit(X, y)
    with pytest.raises(TypeError, match="still contains exact counts"):
        pickle.dumps(model)
    assert not recorder.charges
    pickle.dumps(model.set_params(epsilon=INF))
    assert [charge.epsilon(1e-5) for charge, *_ in recorder.charges] == [INF]


@pytest.mark.parametrize("cls", PUBLIC)
@pytest.mark.parametrize("mechanism", ["dirichlet", "gaussian"])
@pytest.mark.parametrize("postprocess", [False, True])
def test_counts_of_a_private_model_follow_from_its_probabilities(cls, mechanism, postprocess):
    X, y = records()
    model = model_of(cls, mechanism=mechanism, postprocess=postprocess, n_samples=2500).fit(X, y)
    classes = model.class_count_
    # Drawn probabilities include the smoothing.
    added = model.alpha_ if postprocess else 0.0
    np.testing.assert_allclose(classes.sum(), 2500)
    np.testing.assert_allclose(classes, 2500 * np.exp(model.class_log_prior_))
    if cls is DirichletCategoricalNB:
        assert model.n_categories_.tolist() == [8] * 6
        for counts, logs in zip(model.category_count_, model.feature_log_prob_, strict=True):
            np.testing.assert_allclose(
                counts + added,
                (classes[:, np.newaxis] + added * counts.shape[1]) * np.exp(logs),
                rtol=1e-6,
            )
        return
    assert np.all(model.feature_count_ >= 0)
    smooth = model.feature_count_ + added
    if cls is DirichletNB:
        shares = smooth / smooth.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, np.exp(model.feature_log_prob_))
        if not postprocess:
            np.testing.assert_allclose(model.feature_count_.sum(), 20 * 2500)
    if cls is DirichletBernoulliNB:
        np.testing.assert_allclose(
            smooth,
            (classes[:, np.newaxis] + 2 * added) * np.exp(model.feature_log_prob_),
        )
    if cls is DirichletComplementNB:
        np.testing.assert_allclose(model.feature_all_, model.feature_count_.sum(axis=0))
        others = model.feature_all_ - model.feature_count_ + added
        np.testing.assert_allclose(
            -np.log(others / others.sum(axis=1, keepdims=True)), model.feature_log_prob_
        )


def test_a_bernoulli_model_with_max_total_approximates_the_full_model():
    """With little noise both models agree up to the effect of scaling."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=20_000)
    X = rng.random((20_000, 30)) < np.where(y[:, np.newaxis] == 1, 0.05, 0.1)
    X[:, 0] = y  # and one feature that is sure
    keep = X.sum(axis=1) <= 12
    X, y = X[keep], y[keep]
    theirs = BernoulliNB().fit(X, y)
    ours = DirichletBernoulliNB(classes=[0, 1], max_total=12, epsilon=1e4, mechanism="gaussian")
    ours.fit(X, y)
    assert ours.privacy_.releases == 3
    np.testing.assert_allclose(
        np.exp(ours.feature_log_prob_), np.exp(theirs.feature_log_prob_), atol=2e-3
    )
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.999


def test_few_slots_need_less_noise_than_all_features():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    X = rng.random((2000, 500)) < 0.01
    sigma = [
        DirichletBernoulliNB(classes=[0, 1], mechanism="gaussian", **limit)
        .fit(X, y)
        .privacy_.mechanism.sigma
        for limit in ({"max_total": 10}, {})
    ]
    # A record moves 10 counts, or 500; a tenth goes to how full records are, or to classes.
    assert sigma[1] / sigma[0] > 0.9 * np.sqrt(500 / 10)


@pytest.mark.parametrize(
    ("cls", "theirs"),
    [
        (DirichletNB, MultinomialNB),
        (DirichletBernoulliNB, BernoulliNB),
        (DirichletComplementNB, ComplementNB),
    ],
)
def test_with_little_noise_the_model_is_close_to_scikit_learns(cls, theirs):
    X, y = records(30_000)
    X = np.minimum(X, 5)
    keep = X.sum(axis=1) <= 20
    X, y = X[keep], y[keep]
    ours = model_of(cls, epsilon=1e5, mechanism="gaussian").fit(X, y)
    np.testing.assert_allclose(
        ours.feature_log_prob_, theirs().fit(X, y).feature_log_prob_, atol=5e-3
    )


def test_smoothing_by_feature_affects_private_and_exact_models_alike():
    X, y = records(30_000)
    X = np.minimum(X, 5)
    keep = X.sum(axis=1) <= 20
    X, y = X[keep], y[keep]
    alpha = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 50_000.0])
    sizes = {"epsilon": 1e5, "mechanism": "gaussian"}
    ours = DirichletNB(alpha, classes=[0, 1, 2], max_count=5, max_total=20, **sizes).fit(X, y)
    plain = DirichletNB(1.0, classes=[0, 1, 2], max_count=5, max_total=20, **sizes).fit(X, y)
    smoothed = plain.feature_count_ + alpha - 1
    smoothed /= smoothed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(ours.feature_log_prob_), smoothed, atol=1e-3)


def test_nothing_is_spent_on_a_prior_that_no_prediction_uses():
    X, y = records()
    model = model_of(DirichletComplementNB).fit(X, y)
    assert model.privacy_.releases == 1
    np.testing.assert_allclose(np.exp(model.class_log_prior_), 1 / 3)


def test_the_error_for_signed_hashed_features_names_the_solution():
    X, y = records()
    for cls in (DirichletNB, DirichletComplementNB):
        with pytest.raises(ValueError, match="alternate_sign=False"):
            model_of(cls).fit(X - 1, y)


def test_a_model_without_noise_can_be_fitted_further():
    X, y = records(600)
    sizes, train, test = learning_curve(
        model_of(DirichletNB, epsilon=INF), X, y, exploit_incremental_learning=True, cv=3
    )
    _, plain, _ = learning_curve(clone(model_of(DirichletNB, epsilon=INF)), X, y, cv=3)
    np.testing.assert_allclose(train, plain)
    assert test.shape == (len(sizes), 3)


def test_min_categories_is_not_a_public_number_of_categories():
    X, y = records()
    with pytest.warns(PrivacyLeakWarning, match="n_categories"):
        DirichletCategoricalNB(classes=[0, 1, 2], min_categories=9).fit(X, y)
    model = DirichletCategoricalNB(classes=[0, 1, 2], n_categories=8, min_categories=9).fit(X, y)
    assert model.n_categories_.tolist() == [9] * 6


@pytest.mark.parametrize("cls", PUBLIC)
@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_the_exported_scikit_learn_model_predicts_the_same(cls, epsilon):
    X, y = records()
    ours = model_of(cls, epsilon=epsilon).fit(X, y)
    theirs = ours.to_sklearn()
    assert type(theirs).__module__ == "sklearn.naive_bayes"
    np.testing.assert_allclose(
        theirs.predict_joint_log_proba(X), ours.predict_joint_log_proba(X), rtol=1e-12
    )
    kept = vars(theirs)
    assert b"skdirdp" not in pickle.dumps(theirs)
    assert not any("privacy" in name or "tally" in name for name in kept)
    theirs.feature_log_prob_[0][:] = 0.0  # a copy
    assert np.any(ours.feature_log_prob_[0] != 0.0)


@pytest.mark.parametrize("cls", PUBLIC)
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize("mechanism", ["laplace", "auto"])
def test_laplace_noise_needs_no_delta(cls, adjacency, mechanism):
    X, y = records()
    given = {"adjacency": adjacency, "n_samples": 3000, "delta": 0, "epsilon": 0.7}
    model = model_of(cls, mechanism=mechanism, **given).fit(X, y)
    # A pure loss is the limit of the Renyi divergences.
    total = model.privacy_.composition().rdp(1e12)
    assert 0.999 * 0.7 < total <= 0.7
    assert model.privacy_.delta == 0
    assert str(model.privacy_).startswith("(0.7, 0)-differentially private")
    for name in ("dirichlet", "gaussian"):
        with pytest.raises(ValueError, match="delta must be positive for mechanism"):
            model_of(cls, mechanism=name, delta=0).fit(X, y)


# --- A bound on rows from public sizes -------------------------------------------


def bound_of(model):
    return max(mechanism.max_total or 0.0 for mechanism, _ in model.privacy_.mechanisms)


@pytest.mark.parametrize("d", [2, 30, 1000])
def test_the_default_bound_on_rows_has_the_least_regret(d):
    totals = np.arange(1.0, d + 1)

    def regret(bound):
        """Return the advantage of the best bound for the worst total."""
        return max(np.sqrt(totals) / (np.minimum(totals, bound) / np.sqrt(bound)))

    least = min(regret(bound) for bound in np.geomspace(1, d, 400))
    # Rounding the root up to a whole number costs a little where it is small.
    assert regret(default_total(1.0, d)) <= least * np.sqrt(np.ceil(d**0.5) / d**0.5) * (1 + 1e-9)
    assert least == pytest.approx(d**0.25, rel=0.01)


@pytest.mark.parametrize("cls", [DirichletNB, DirichletComplementNB])
def test_an_automatic_bound_on_rows_is_that_of_public_sizes(cls):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    for X in (np.zeros((400, 90)), rng.poisson(50, (400, 90)), rng.poisson(0.1, (400, 90))):
        model = cls(classes=[0, 1], max_count=3, max_total="auto").fit(X, y)
        assert bound_of(model) == 3 * 10
        assert model.privacy_.not_covered == ()
    with pytest.raises(ValueError, match="max_count must be given if max_total is 'auto'"):
        cls(classes=[0, 1], max_total="auto").fit(X, y)
    with pytest.raises(ValueError, match="max_total"):
        cls(classes=[0, 1], max_total="most").fit(X, y)


@pytest.mark.parametrize(
    ("cls", "theirs"), [(DirichletNB, MultinomialNB), (DirichletComplementNB, ComplementNB)]
)
def test_without_noise_an_automatic_bound_changes_nothing(cls, theirs):
    X, y = records()
    ours = cls(epsilon=float("inf"), max_total="auto").fit(X, y)
    assert np.allclose(ours.feature_log_prob_, theirs().fit(X, y).feature_log_prob_, rtol=1e-12)
    parts = cls(epsilon=float("inf"), max_total="auto")
    for part in (slice(None, 1000), slice(1000, None)):
        parts.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert np.allclose(parts.feature_log_prob_, ours.feature_log_prob_)


def test_an_automatic_bound_after_private_bins_is_one_for_each_column():
    X = np.random.default_rng(0).normal(size=(2000, 7))
    pipe = make_private_pipeline(
        DirichletHistogramTransformer(5, bounds=(-4, 4)),
        DirichletNB(classes=[0, 1], max_total="auto"),
        epsilon=1.0,
    ).fit(X, X[:, 0] > 0)
    assert bound_of(pipe[-1]) == 7


def test_an_automatic_bound_after_a_private_vocabulary_is_that_of_its_largest_size():
    texts = ["good film", "bad play"] * 2000
    pipe = make_private_pipeline(
        PrivateCountVectorizer(max_words=3, max_features=400),
        DirichletNB(classes=[0, 1], max_count=2, max_total="auto"),
        epsilon=1.0,
    ).fit(texts, np.arange(4000) % 2)
    assert len(pipe[0].vocabulary_) == 4
    assert bound_of(pipe[-1]) == 2 * 20
    assert pipe.predict(["good"]) == [0]


def test_slots_that_floats_cannot_count_on_the_grid_are_rejected():
    grid = 2.0**-20
    ones = RowSums(np.zeros((1, 8)), ContributionBound(1.0, 4.0, grid), ())
    for n_records, holds in ((2.0**31 - 1, True), (2.0**31, False)):
        features = Occurrences(ones, 4, 8)
        counts = SimpleNamespace(classes=np.array([n_records]), contribution=ContributionBound(1.0))
        if holds:
            assert (
                features.tables(counts, n_records, {"min_smoothing": 1.0})[0][1][0, 0]
                == 4 * n_records
            )
        else:
            with pytest.raises(ValueError, match="summed without rounding"):
                features.tables(counts, n_records, {"min_smoothing": 1.0})
