import pickle
import threading
import warnings

import joblib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdirdp import (
    BudgetExceededError,
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateDirichletPosterior,
    PrivatePipeline,
    make_private_pipeline,
)
from skdirdp._persons import RECORD, CountedRows
from skdirdp.accounting import Composition
from skdirdp.base import CountingEstimator, ReleaseContext, ReleasePlan
from skdirdp.displays import BudgetCurveDisplay, PrivacyProfileDisplay
from skdirdp.mechanisms.base import Mechanism
from skdirdp.mechanisms.splitting import preprocessing_share
from skdirdp.mechanisms.tables import CountTable

N = 600
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = (X[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)


def bins(n_bins=4, bounds=(-4, 4), **params):
    params = {"encode": "ordinal", "n_samples": N, "n_fine_bins": 64, **params}
    return DirichletHistogramTransformer(n_bins, bounds=bounds, **params)


def model(**params):
    return DirichletCategoricalNB(
        **{"classes": [0, 1], "n_categories": 4, "n_samples": N, **params}
    )


def two_steps(mechanisms=("dirichlet", "dirichlet"), **params):
    first, last = mechanisms
    steps = [("bins", bins(mechanism=first)), ("model", model(mechanism=last))]
    return PrivatePipeline(steps, **params)


def three_steps(**params):
    columns = ColumnTransformer(
        [
            ("a", bins(encode="onehot-dense", mechanism="gaussian"), [0, 1]),
            ("b", bins(encode="onehot-dense"), [2]),
        ]
    )
    last = DirichletNB(classes=[0, 1], max_count=1, max_total=3, n_samples=N)
    return PrivatePipeline([("columns", columns), ("model", last)], **params)


def five_steps(**params):
    """Nested histogram steps and a step that learns nothing, before a model."""
    union = FeatureUnion(
        [("c", bins(bounds=(0, 4))), ("d", bins(bounds=(0, 4), mechanism="gaussian"))]
    )
    steps = [
        ("a", bins()),
        ("nothing", "passthrough"),
        ("b", bins(bounds=(0, 4))),
        ("scale", FunctionTransformer(np.asarray)),
        ("union", union),
        ("model", model(mechanism="laplace")),
    ]
    return PrivatePipeline(steps, **params)


class Drawn:
    """Return the mechanisms that drew noise, in order."""

    def __init__(self, monkeypatch):
        self.mechanisms = []
        draw_all = Mechanism.draw_all

        def recorded(requests, generator):
            self.mechanisms += [request.mechanism for request in requests]
            return draw_all(requests, generator)

        monkeypatch.setattr(Mechanism, "draw_all", recorded)

    def last(self, number):
        return Composition([(mechanism, 1) for mechanism in self.mechanisms[-number:]])


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


# One budget ------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize(
    ("make", "releases"), [(two_steps, 7), (three_steps, 5), (five_steps, 3 + 3 + 6 + 7)]
)
def test_releases_compose_to_the_budget_in_one_charge(make, releases, adjacency, drawn):
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    pipe = make(adjacency=adjacency, accountant=accountant, label="whole").fit(X, Y)
    total = drawn.last(releases).epsilon(1e-5)
    assert 0.999 <= total <= 1.0
    assert pipe.privacy_.releases == releases
    assert pipe.privacy_.composition().epsilon(1e-5) == pytest.approx(total, rel=1e-9)
    assert len(accountant) == 1
    assert accountant.history()[0]["label"] == "whole"
    (everything,) = accountant.compositions()
    assert everything.epsilon(1e-5) == pytest.approx(total, rel=1e-9)
    assert {mechanism.adjacency for mechanism in drawn.mechanisms[-releases:]} == {adjacency}


@pytest.mark.parametrize(
    "mechanisms", [("gaussian", "dirichlet"), ("laplace", "gaussian"), ("auto", "auto")]
)
def test_steps_of_different_mechanisms_compose_to_the_budget(mechanisms, drawn):
    two_steps(mechanisms, epsilon=0.7, delta=1e-6).fit(X, Y)
    assert 0.7 * 0.999 <= drawn.last(7).epsilon(1e-6) <= 0.7


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_renyi_budget_is_met_at_its_order(adjacency, drawn):
    pipe = two_steps(epsilon=0.3, order=6.0, adjacency=adjacency).fit(X, Y)
    assert 0.3 * 0.999 <= drawn.last(7).rdp(6.0) <= 0.3
    assert pipe.privacy_.delta is None
    assert pipe.privacy_.order == 6.0


@pytest.mark.parametrize("epsilon", [0.05, 20.0])
def test_small_and_large_budgets_are_met(epsilon, drawn):
    two_steps(epsilon=epsilon).fit(X, Y)
    assert epsilon * 0.999 <= drawn.last(7).epsilon(1e-5) <= epsilon


def test_a_single_private_step_has_the_noise_that_it_has_alone():
    pipe = make_private_pipeline(FunctionTransformer(), bins(), epsilon=0.8).fit(X)
    alone = bins(epsilon=0.8).fit(X)
    assert pipe.privacy_.mechanisms == alone.privacy_.mechanisms


def test_the_parameters_of_a_steps_own_budget_are_not_used(drawn):
    refusing = PrivacyAccountant(epsilon=1e-9)
    own = {"epsilon": np.inf, "delta": 0.5, "adjacency": "add_remove", "accountant": refusing}
    steps = [("bins", bins(**own)), ("model", model(**own, order=2.0))]
    pipe = PrivatePipeline(steps).fit(X, Y)
    assert 0.999 <= drawn.last(7).epsilon(1e-5) <= 1.0
    assert len(refusing) == 0
    assert pipe["bins"].get_params()["epsilon"] == np.inf
    assert pipe["bins"].privacy_.adjacency == "replace"


def test_a_step_with_infinite_epsilon_is_bounded_in_a_pipeline(monkeypatch):
    counts = np.full((N, 3), 50)
    last = DirichletNB(classes=[0, 1], max_count=1, max_total=2, epsilon=np.inf, n_samples=N)
    counted = []
    draw_all = Mechanism.draw_all

    def recorded(requests, generator):
        counted.extend(request.counts.sum() for request in requests)
        return draw_all(requests, generator)

    monkeypatch.setattr(Mechanism, "draw_all", recorded)
    make_private_pipeline(FunctionTransformer(), last).fit(counts, Y)
    # At most max_total for each record.
    assert max(counted) <= 2 * N


def test_shares_move_noise_between_steps_and_not_the_total(drawn):
    by_shares = {}
    for share in (0.01, 1.0, 100.0):
        pipe = two_steps(shares={"bins": share, "model": 1.0}).fit(X, Y)
        assert 0.999 <= drawn.last(7).epsilon(1e-5) <= 1.0
        by_shares[share] = dict(pipe.privacy_.steps)["bins"].epsilon
    assert by_shares[0.01] < by_shares[1.0] < by_shares[100.0] < 1.0


def test_by_default_steps_before_the_last_get_about_a_quarter_of_epsilon_for_many_records():
    steps = [("bins", bins(n_samples=1e5)), ("model", model(n_samples=1e5))]
    reports = dict(PrivatePipeline(steps).fit(X, Y).privacy_.steps)
    assert 0.24 < reports["bins"].epsilon < 0.26
    assert 0.9 < reports["model"].epsilon < 1.0


def test_by_default_preprocessing_gets_a_small_share_if_it_is_noisy():
    steps = [("bins", bins(n_samples=100)), ("model", model(n_samples=100))]
    reports = dict(PrivatePipeline(steps).fit(X, Y).privacy_.steps)
    assert reports["bins"].epsilon < 0.06
    assert reports["model"].epsilon > 0.98


def gaussian_mu(epsilon, delta):
    """Return mu of the noise that uses the whole budget, by the analytic Gaussian formula."""

    def excess(mu):
        tails = norm.cdf(mu / 2 - epsilon / mu), norm.cdf(-mu / 2 - epsilon / mu)
        return tails[0] - np.exp(epsilon) * tails[1] - delta

    return brentq(excess, 1e-3, 50.0, xtol=1e-12)


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
@pytest.mark.parametrize(("n_samples", "number"), [(2000, 3), (1500, 10), (10**6, 50)])
def test_the_default_part_is_that_of_the_theory(n_samples, number, adjacency):
    tables = [CountTable(n_samples, 512)] * number
    budget = {"delta": 1e-5, "order": None, "adjacency": adjacency}
    for epsilon in (0.5, 1.0, 4.0):
        changed = {"replace": 2, "add_remove": 1}[adjacency]  # cells of each table
        variance = number * changed / gaussian_mu(epsilon, 1e-5) ** 2
        expected = max(1 / 300, 1 / 12 - variance * 100 / n_samples**2)
        found = preprocessing_share(tables, epsilon=epsilon, **budget)
        assert found == pytest.approx(expected, rel=1e-6)


def test_the_default_part_is_least_without_records_and_most_without_noise():
    budget = {"delta": 1e-5, "order": None, "adjacency": "replace"}
    assert preprocessing_share([CountTable(0, 512)], epsilon=1.0, **budget) == 1 / 300
    assert preprocessing_share([CountTable(5, 512)], epsilon=np.inf, **budget) == 1 / 12
    by_order = [
        preprocessing_share([CountTable(400, 512)], epsilon=0.1, **(budget | {"order": order}))
        for order in (2.0, 8.0, 32.0)
    ]
    assert by_order == sorted(by_order, reverse=True)
    assert len(set(by_order)) == 3


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"bins": 1.0}, "shares must name the private steps"),
        ({"bins": 1.0, "model": 1.0, "other": 1.0}, "shares must name the private steps"),
        ({"bins": 0.0, "model": 1.0}, "positive"),
        ({"bins": np.nan, "model": 1.0}, "positive"),
    ],
)
def test_wrong_shares_are_refused_before_the_charge(shares, message):
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match=message):
        two_steps(shares=shares, accountant=accountant).fit(X, Y)
    assert len(accountant) == 0


def test_without_noise_the_pipeline_is_that_of_scikit_learn():
    steps = [("bins", bins(epsilon=np.inf)), ("model", model(epsilon=np.inf))]
    theirs = Pipeline(steps).fit(X, Y)
    ours = PrivatePipeline([("bins", bins()), ("model", model())], epsilon=np.inf).fit(X, Y)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    assert str(ours.privacy_) == "no privacy: epsilon is infinite"


def test_without_noise_a_charge_is_infinite_and_refused_by_a_limit():
    accountant = PrivacyAccountant(epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        two_steps(epsilon=np.inf, accountant=accountant).fit(X, Y)
    assert len(accountant) == 0


# Public sizes ----------------------------------------------------------------------


def test_neighbours_have_the_same_mechanisms():
    """The noise is chosen before the data: one record, however odd, does not change it."""
    other, labels = X.copy(), Y.copy()
    other[0] = 1e9
    labels[0] = 1 - labels[0]
    for make in (two_steps, three_steps):
        one, two = make().fit(X, Y), make().fit(other, labels)
        assert one.privacy_.mechanisms == two.privacy_.mechanisms


def counts_model(**params):
    return DirichletNB(classes=[0, 1], n_samples=N, **params)


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ([bins(), FunctionTransformer(), model(n_categories=None)], "n_categories"),
        ([bins(encode="density"), counts_model(max_total=3)], "max_count"),
        ([bins(), counts_model(max_count=3)], "max_total"),
        ([make_pipeline(bins(encode="onehot")), counts_model(max_count=1)], "max_total"),
        ([bins(), bins(bounds=None)], "bounds"),
    ],
)
def test_a_step_after_a_private_one_needs_its_public_parameters(steps, missing):
    accountant = PrivacyAccountant()
    names = ["first", "second", "third"][: len(steps)]
    pipe = PrivatePipeline([*zip(names, steps, strict=True)], accountant=accountant)
    message = f"^{missing} must be given for .* in step {names[-1]!r}"
    with pytest.raises(ValueError, match=message):
        pipe.fit(X, Y)
    assert len(accountant) == 0


@pytest.mark.parametrize(
    ("first", "last", "known"),
    [
        (bins(), model(n_categories=None), {"n_categories": 4}),
        (bins([3, 4, 5]), model(n_categories=None), {"n_categories": [3, 4, 5]}),
        (bins(encode="onehot"), counts_model(), {"max_count": 1, "max_total": 3}),
        (bins(encode="cdf"), counts_model(), {"max_count": 1, "max_total": 3}),
        (bins(encode="cdf"), counts_model(max_total=2), {"max_count": 1}),
    ],
)
def test_sizes_after_a_histogram_follow_from_its_declarations(first, last, known):
    """The noise is that of a last step that is given them, and nothing is taken from the data."""
    reports = []
    for model_ in (last, clone(last).set_params(**known)):
        steps = [("first", first), ("nothing", "passthrough"), ("last", model_)]
        reports.append(PrivatePipeline(steps).fit(X, Y).privacy_)
    assert reports[0].mechanisms == reports[1].mechanisms
    assert reports[0].not_covered == reports[1].not_covered == ()


def test_labels_may_be_missing_after_a_private_step_and_are_named():
    with pytest.warns(PrivacyLeakWarning, match="model__classes"):
        pipe = PrivatePipeline([("bins", bins()), ("model", model(classes=None))]).fit(X, Y)
    assert pipe.privacy_.not_covered == ("model__classes",)
    assert "not covered: model__classes" in str(pipe.privacy_)


class OneColumnMore(TransformerMixin, BaseEstimator):
    """Changes its number of columns from fit to fit, as no step may."""

    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        return self

    def transform(self, X):
        return np.column_stack([X] * (1 + type(self).fits % 2))


def test_tables_other_than_declared_are_not_released(drawn):
    accountant = PrivacyAccountant()
    steps = [("bins", bins()), ("odd", OneColumnMore()), ("model", model())]
    pipe = PrivatePipeline(steps, accountant=accountant)
    with (
        pytest.warns(PrivacyLeakWarning, match="OneColumnMore"),
        pytest.raises(RuntimeError, match="step 'model' are not those"),
    ):
        pipe.fit(X, Y)
    # Rehearsed with the prior and three or six columns; released: the bins alone.
    assert len(drawn.mechanisms) in (3 + 4 + 3, 3 + 7 + 3)
    assert len(accountant) == 1
    with pytest.raises(NotFittedError):
        check_is_fitted(pipe)


def test_the_papers_calibrations_are_refused():
    steps = [("bins", bins(calibration="algorithm1")), ("model", model())]
    with pytest.raises(ValueError, match="calibration must be 'exact'"):
        PrivatePipeline(steps).fit(X, Y)


def test_a_posterior_is_no_step():
    accountant = PrivacyAccountant()
    with pytest.raises(TypeError, match="cannot be a step of a PrivatePipeline"):
        make_private_pipeline(
            FunctionTransformer(), PrivateDirichletPosterior(n_categories=2), accountant=accountant
        ).fit(Y.reshape(-1, 1))
    assert len(accountant) == 0


# All or nothing --------------------------------------------------------------------


def test_a_refused_budget_releases_nothing(drawn):
    accountant = PrivacyAccountant(epsilon=0.9)
    pipe = two_steps(accountant=accountant)
    with pytest.raises(BudgetExceededError):
        pipe.fit(X, Y)
    assert len(accountant) == 0
    assert len(drawn.mechanisms) == 7  # those of the rehearsal, which is thrown away
    for step in (pipe, pipe["bins"], pipe["model"]):
        with pytest.raises(NotFittedError):
            check_is_fitted(step)


class Failing(TransformerMixin, BaseEstimator):
    """Fails in the given one of its fits."""

    fits = 0

    def __init__(self, fails_at=1):
        self.fails_at = fails_at

    def fit(self, X, y=None):
        type(self).fits += 1
        if type(self).fits == self.fails_at:
            raise KeyboardInterrupt("stopped")
        return self

    def transform(self, X):
        return X


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("position", "fails_at", "charges"),
    # Before the first private step there is one fit; after it, a rehearsal and a fit.
    [(0, 1, 0), (1, 1, 0), (1, 2, 1)],
    ids=["before the charge", "in the rehearsal", "between charge and last release"],
)
def test_a_failure_leaves_the_pipeline_as_it_was_and_the_charge_in_the_ledger(
    position, fails_at, charges
):
    accountant = PrivacyAccountant()
    steps = [("bins", bins()), ("model", model())]
    steps.insert(position, ("failing", Failing(fails_at)))
    Failing.fits = 0
    pipe = PrivatePipeline(steps, accountant=accountant)
    with pytest.raises(KeyboardInterrupt):
        pipe.fit(X, Y)
    assert len(accountant) == charges
    with pytest.raises(NotFittedError):
        check_is_fitted(pipe)
    assert not hasattr(pipe, "privacy_")
    assert pipe.steps == steps
    assert not hasattr(pipe["bins"], "privacy_")
    assert ReleaseContext.current() is None


@pytest.mark.parametrize("moment", [0, 1])
def test_a_failure_while_drawing_noise_keeps_the_last_fit(moment, monkeypatch):
    """The tables of the two steps are drawn in the rehearsal and then for good."""
    accountant = PrivacyAccountant()
    pipe = two_steps(accountant=accountant).fit(X, Y)
    before, predicted = pipe.privacy_, pipe.predict_proba(X)
    calls = 0
    draw_all = Mechanism.draw_all

    def failing(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == 2 + moment + 1:
            raise MemoryError
        return draw_all(*args, **kwargs)

    monkeypatch.setattr(Mechanism, "draw_all", failing)
    with pytest.raises(MemoryError):
        pipe.fit(X, Y)
    assert len(accountant) == 2
    assert pipe.privacy_ is before
    np.testing.assert_array_equal(pipe.predict_proba(X), predicted)
    assert ReleaseContext.current() is None


def test_data_that_the_last_step_refuses_are_refused_before_the_charge():
    accountant = PrivacyAccountant()
    with pytest.raises(ValueError, match="labels that are in classes"):
        two_steps(accountant=accountant).fit(X, Y + 1)
    with pytest.raises(ValueError, match="NaN"):
        two_steps(accountant=accountant).fit(np.where(X > 3, np.nan, X * np.inf), Y)
    assert len(accountant) == 0


def test_a_leak_that_is_an_error_is_raised_before_the_charge():
    accountant = PrivacyAccountant()
    for steps in (
        [("scale", MinMaxScaler()), ("bins", bins()), ("model", model())],
        [("bins", bins(bounds=None)), ("model", model())],
        [("bins", bins()), ("model", model(random_state=0))],
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyLeakWarning)
            with pytest.raises(PrivacyLeakWarning):
                PrivatePipeline(steps, accountant=accountant).fit(X, Y)
    assert len(accountant) == 0


def test_leaking_steps_and_seeds_are_named_in_the_report():
    steps = [("scale", StandardScaler()), ("bins", bins(random_state=0)), ("model", model())]
    with (
        pytest.warns(PrivacyLeakWarning, match="step 'scale': StandardScaler learns means"),
        pytest.warns(PrivacyLeakWarning, match="random_state"),
    ):
        pipe = PrivatePipeline(steps).fit(X, Y)
    assert pipe.privacy_.not_covered == ("scale (StandardScaler)", "random_state")
    assert "anyone who knows it can remove the noise" in str(pipe.privacy_)


# Searches and copies ---------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_charges_once_per_fit(n_jobs):
    accountant = PrivacyAccountant()
    pipe = two_steps(accountant=accountant, order=4.0)
    grid = {"epsilon": [0.5, 1.0], "model__alpha": [1.0, 2.0]}
    search = GridSearchCV(pipe, grid, cv=2, n_jobs=n_jobs, error_score="raise").fit(X, Y)
    assert len(accountant) == 4 * 2 + 1
    assert {row["label"] for row in accountant.history()} == {"PrivatePipeline"}
    spent = sum(float(each) for each in search.cv_results_["param_epsilon"]) * 2
    spent += search.best_params_["epsilon"]
    (total,) = accountant.compositions()
    assert 0.999 * spent <= total.rdp(4.0) <= spent * (1 + 1e-9)


def test_the_cost_of_a_search_is_known_before_it_starts():
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    pipe = two_steps(accountant=accountant, epsilon=0.2)
    one_fit = pipe.rehearse(X, Y)
    assert accountant.affords(one_fit, releases=9)
    assert not accountant.affords(one_fit, releases=40)
    assert len(accountant) == 0
    with pytest.raises(NotFittedError):
        check_is_fitted(pipe)
    pipe.fit(X, Y)
    assert accountant.history()[0]["releases"] == one_fit.releases
    assert pipe.privacy_.mechanisms == one_fit.parts


def test_affords_agrees_with_charge():
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    mechanism = two_steps(epsilon=0.35).rehearse(X, Y)
    for _ in range(20):
        afforded = accountant.affords(mechanism)
        number = len(accountant)
        try:
            accountant.charge(mechanism)
        except BudgetExceededError:
            break
        assert afforded
        assert len(accountant) == number + 1
    assert not afforded
    assert 2 < len(accountant) < 20


def test_clones_and_pickles_keep_the_budget_and_no_exact_data():
    accountant = PrivacyAccountant()
    pipe = two_steps(epsilon=0.5, shares={"bins": 1.0, "model": 3.0}, accountant=accountant)
    pipe.fit(X, Y)
    copy = clone(pipe)
    assert not hasattr(copy, "privacy_")
    assert copy.accountant is accountant
    assert copy.shares == pipe.shares
    loaded = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(loaded.predict_proba(X), pipe.predict_proba(X))
    assert loaded.privacy_ == pipe.privacy_
    assert len(accountant) == 1


def test_no_trace_of_the_joint_fit_stays_in_a_fitted_pipeline():
    pipe = two_steps().fit(X, Y)
    assert set(vars(pipe)) == {*pipe.get_params(deep=False), "privacy_"}
    assert b"Rehearsal" not in pickle.dumps(pipe)
    assert b"ChargedFit" not in pickle.dumps(pipe)


def test_a_step_that_is_fitted_separately_is_charged_separately():
    accountant = PrivacyAccountant()
    pipe = PrivatePipeline([("bins", bins(accountant=accountant, label="alone"))]).fit(X)
    assert len(accountant) == 0
    pipe["bins"].fit(X)
    assert len(accountant) == 1
    assert accountant.history()[0]["label"] == "alone"


@pytest.mark.parametrize(
    "estimator",
    [
        bins(),
        model(),
        DirichletNB(classes=[0, 1], max_count=3, max_total=9),
        PrivateBayesNetMLE([("0", "1")], columns=["0", "1"], states={"0": [0, 1], "1": [0, 1]}),
        PrivateDirichletPosterior(n_categories=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_ledger_calls_a_fit_by_its_label_or_its_class(estimator):
    accountant = PrivacyAccountant()
    data = {1: Y, 2: np.column_stack([Y, Y])}[1 if "Posterior" in str(estimator) else 2]
    for label in (None, "the first"):
        clone(estimator).set_params(accountant=accountant, label=label).fit(data, Y)
    labels = [row["label"] for row in accountant.history()]
    assert labels == [type(estimator).__name__, "the first"]


# Everything else is as in Pipeline -------------------------------------------------


def test_a_pipeline_in_a_pipeline_joins_its_budget(drawn):
    inner = Pipeline([("bins", bins()), ("again", bins(bounds=(0, 4)))])
    for within in (inner, PrivatePipeline(inner.steps, epsilon=9.0)):
        accountant = PrivacyAccountant()
        pipe = PrivatePipeline([("inner", within), ("model", model())], accountant=accountant)
        pipe.fit(X, Y)
        assert 0.999 <= drawn.last(10).epsilon(1e-5) <= 1.0
        assert [name for name, _ in pipe.privacy_.steps] == ["inner", "inner", "model"]
        assert len(accountant) == 1


def test_the_same_step_may_occur_twice(drawn):
    once = bins(bounds=(-4, 4))
    pipe = PrivatePipeline([("first", once), ("second", once), ("model", model())]).fit(X, Y)
    assert pipe["first"] is not pipe["second"]
    assert 0.999 <= drawn.last(10).epsilon(1e-5) <= 1.0
    assert not hasattr(once, "privacy_")


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_parallel_containers_stay_within_the_budget(n_jobs, drawn):
    own = PrivacyAccountant()
    pipe = three_steps()
    pipe["columns"].set_params(n_jobs=n_jobs, a__accountant=own, b__accountant=own)
    pipe.fit(X, Y)
    assert 0.999 <= drawn.last(5).epsilon(1e-5) <= 1.0
    with joblib.parallel_config("loky", n_jobs=2):
        three_steps().fit(X, Y)
    assert 0.999 <= drawn.last(5).epsilon(1e-5) <= 1.0
    assert len(own) == 0


class InAnotherThread(TransformerMixin, BaseEstimator):
    """Fits in another thread, outside of the context of the pipeline."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        thread = threading.Thread(target=lambda: setattr(self, "inner_", clone(self.inner).fit(X)))
        thread.start()
        thread.join()
        return self

    def transform(self, X):
        return self.inner_.transform(X)


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_step_that_escapes_the_joint_fit_is_refused_before_the_charge():
    accountant = PrivacyAccountant()
    steps = [("escapes", InAnotherThread(bins())), ("model", model())]
    with pytest.raises(RuntimeError, match="'escapes__inner' was fitted in another"):
        PrivatePipeline(steps, accountant=accountant).fit(X, Y)
    assert len(accountant) == 0


def test_pipelines_in_threads_do_not_meet():
    accountant = PrivacyAccountant()
    pipes = [two_steps(epsilon=epsilon, accountant=accountant) for epsilon in (0.3, 0.6, 0.9)]
    alone = bins(epsilon=0.2, accountant=accountant)
    threads = [threading.Thread(target=pipe.fit, args=(X, Y)) for pipe in pipes]
    threads.append(threading.Thread(target=alone.fit, args=(X,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accountant) == 4
    for each in (*pipes, alone):
        total = each.privacy_.composition().epsilon(1e-5)
        assert each.epsilon * 0.999 <= total <= each.epsilon


def test_steps_before_the_first_private_one_are_fitted_once(tmp_path):
    seen = []

    def noted(values):
        seen.append(1)
        return values

    steps = [("note", FunctionTransformer(noted)), ("bins", bins()), ("model", model())]
    PrivatePipeline(steps).fit(X, Y)
    assert len(seen) == 1


def test_memory_does_not_cache_releases(tmp_path):
    memory = joblib.Memory(tmp_path, verbose=0)
    steps = [("same", FunctionTransformer()), ("bins", bins()), ("model", model())]
    pipe = PrivatePipeline(steps, memory=memory).fit(X, Y)
    first, budget = pipe["bins"].release_, pipe.privacy_.mechanisms
    pipe.set_params(epsilon=0.1).fit(X, Y)
    assert pipe.privacy_.mechanisms != budget
    assert not np.array_equal(pipe["bins"].release_[0], first[0])
    assert pipe.memory is memory
    stored = list(tmp_path.rglob("output.pkl"))
    assert len(stored) == 1  # the step before the bins


def test_a_fitted_private_step_may_be_frozen(drawn):
    frozen = FrozenEstimator(bins().fit(X))
    number = len(drawn.mechanisms)
    pipe = PrivatePipeline([("bins", frozen), ("model", model())]).fit(X, Y)
    assert len(drawn.mechanisms) == number + 8  # the model's, rehearsed and released
    assert pipe.privacy_.releases == 4
    assert pipe.privacy_.not_covered == ()


def test_frames_names_and_pandas_output_pass_through():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipe = three_steps()
    pipe["columns"].set_params(a=pipe["columns"].transformers[0][1])
    columns = ColumnTransformer([("a", bins(), ["a", "b"]), ("b", bins(), ["c"])])
    pipe = PrivatePipeline([("columns", columns), ("model", model())]).fit(frame, Y)
    assert list(pipe.feature_names_in_) == ["a", "b", "c"]
    only = PrivatePipeline([("columns", columns)]).set_output(transform="pandas")
    binned = only.fit_transform(frame)
    assert list(binned.columns) == ["a__a", "a__b", "b__c"]
    assert only.privacy_.releases == 3


def test_slices_are_pipelines_with_the_same_budget_and_fitted_steps():
    pipe = two_steps(epsilon=0.5, shares={"bins": 1.0, "model": 3.0}).fit(X, Y)
    part = pipe[:1]
    assert type(part) is PrivatePipeline
    assert part.epsilon == 0.5
    assert part.shares == {"bins": 1.0}
    np.testing.assert_array_equal(part.transform(X), pipe["bins"].transform(X))


def test_fit_transform_and_fit_predict_charge_once():
    accountant = PrivacyAccountant()
    pipe = PrivatePipeline([("a", bins()), ("b", bins(bounds=(0, 4)))], accountant=accountant)
    transformed = pipe.fit_transform(X)
    np.testing.assert_array_equal(transformed, pipe.transform(X))
    assert len(accountant) == 1
    assert not hasattr(pipe, "fit_predict")
    assert not hasattr(two_steps(), "fit_transform")


def test_parameters_of_fit_reach_their_step():
    pipe = PrivatePipeline([("bins", bins()), ("model", model(max_weight=1.0))])
    pipe.fit(X, Y, model__sample_weight=np.full(N, 0.5))
    with pytest.raises(ValueError, match="sample_weight must be at most max_weight"):
        pipe.fit(X, Y, model__sample_weight=np.full(N, 2.0))


def test_parameters_may_change_between_fits(drawn):
    pipe = two_steps().fit(X, Y)
    pipe.set_params(bins__n_bins=3, model__n_categories=3, epsilon=2.0, model__mechanism="gaussian")
    pipe.fit(X, Y)
    assert 2 * 0.999 <= drawn.last(7).epsilon(1e-5) <= 2.0
    pipe.set_params(bins=bins(3, mechanism="gaussian")).fit(X, Y)
    assert 2 * 0.999 <= drawn.last(7).epsilon(1e-5) <= 2.0


def test_an_encoder_with_public_categories_may_be_between_private_steps():
    between = OneHotEncoder(categories=[range(4)] * 3, sparse_output=False)
    last = DirichletNB(classes=[0, 1], max_count=1, max_total=3)
    pipe = make_private_pipeline(bins(), between, last, epsilon=3.0).fit(X, Y)
    assert pipe.score(X, Y) > 0.75  # 0.84 on average, with a standard deviation of 0.01
    assert pipe.privacy_.not_covered == ()


def test_a_pipeline_without_private_steps_reports_leaks():
    with pytest.warns(PrivacyLeakWarning, match="StandardScaler"):
        pipe = make_private_pipeline(StandardScaler()).fit(X)
    assert pipe.privacy_.releases == 0
    assert pipe.privacy_.not_covered == ("standardscaler (StandardScaler)",)


def test_a_pipeline_prints_and_draws():
    pipe = two_steps()
    assert "PrivatePipeline" in pipe._repr_html_()
    assert "epsilon=0.5" in repr(pipe.set_params(epsilon=0.5))
    pipe.fit(X, Y)
    assert "PrivatePipeline" in pipe._repr_html_()
    captured = str(pipe.privacy_)
    assert captured.startswith(
        "(0.5, 1e-05)-differentially private against replacing one record; 7 "
    )
    assert "'bins' alone (0." in captured
    assert "'model' alone (0." in captured


def test_displays_accept_pipelines():
    pipe = two_steps().fit(X, Y)
    profile = PrivacyProfileDisplay.from_estimator(pipe, epsilons=[0.5, 1.0])
    assert profile.budget == (1.0, 1e-5)
    assert profile.delta[1] == pytest.approx(1e-5, rel=1e-3)
    assert profile.delta[1] <= 1e-5
    curve = BudgetCurveDisplay.from_estimator(
        two_steps(), X, Y, X_test=X, y_test=Y, epsilons=[0.5, 5.0], n_repeats=1
    )
    assert curve.mean.shape == (2,)
    matplotlib.pyplot.close("all")


def test_a_shared_generator_advances_and_noise_is_not_repeated():
    generator = np.random.default_rng(0)
    steps = [("bins", bins(random_state=generator))]
    releases = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="random_state"):
            releases.append(PrivatePipeline(steps).fit(X)["bins"].release_[0])
    assert not np.array_equal(*releases)


def test_a_seed_makes_a_fit_reproducible():
    steps = [("bins", bins(random_state=1)), ("model", model(random_state=2))]
    with pytest.warns(PrivacyLeakWarning):
        one, two = (PrivatePipeline(steps).fit(X, Y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_a_fit_that_releases_nothing_is_not_charged():
    accountant = PrivacyAccountant(epsilon=1e-3)
    constant = model(n_categories=1, fit_prior=False)
    alone = clone(constant).set_params(accountant=accountant).fit(np.zeros((N, 2)), Y)
    pipe = make_private_pipeline(constant, accountant=accountant).fit(np.zeros((N, 2)), Y)
    for fitted in (alone, pipe):
        assert fitted.privacy_.releases == 0
        assert "nothing was released" in str(fitted.privacy_)
    assert pipe.rehearse(np.zeros((N, 2)), Y) is None
    assert len(accountant) == 0


def test_a_search_in_threads_charges_once_per_fit():
    accountant = PrivacyAccountant()
    pipe = two_steps(accountant=accountant, order=4.0)
    with joblib.parallel_config("threading", n_jobs=3):
        GridSearchCV(pipe, {"epsilon": [0.5, 1.0]}, cv=2, error_score="raise").fit(X, Y)
    assert len(accountant) == 5
    assert {row["releases"] for row in accountant.history()} == {7}


def test_metadata_are_routed():
    with config_context(enable_metadata_routing=True):
        last = model(max_weight=1.0).set_fit_request(sample_weight=True)
        pipe = PrivatePipeline([("bins", bins()), ("model", last)])
        pipe.fit(X, Y, sample_weight=np.full(N, 0.25))
        with pytest.raises(ValueError, match="sample_weight must be at most max_weight"):
            pipe.fit(X, Y, sample_weight=np.full(N, 2.0))


def test_a_network_is_calibrated_by_its_own_split(drawn):
    states = {name: list(range(4)) for name in "abc"}
    network = PrivateBayesNetMLE(
        [("a", "b"), ("b", "c")], states=states, columns=["a", "b", "c"], target="a"
    )
    pipe = make_private_pipeline(bins(), network).fit(X)
    assert 0.999 <= drawn.last(6).epsilon(1e-5) <= 1.0
    assert pipe.privacy_.not_covered == ()
    assert len(set(pipe[-1].mechanisms_.values())) > 1  # nodes of different sizes


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
def test_every_fit_of_a_meta_estimator_counts(drawn):
    """The whole is reported as not private; the private steps are within the budget."""
    accountant = PrivacyAccountant()
    vote = VotingClassifier([("a", model()), ("b", model(mechanism="gaussian"))])
    pipe = make_private_pipeline(bins(), vote, accountant=accountant).fit(X, Y)
    assert 0.999 <= drawn.last(3 + 4 + 4).epsilon(1e-5) <= 1.0
    assert pipe.privacy_.not_covered == ("votingclassifier (VotingClassifier)",)
    assert len(accountant) == 1


def test_pipelines_of_scikit_learn_are_as_before():
    accountant = PrivacyAccountant()
    make_pipeline(bins(accountant=accountant), model(accountant=accountant)).fit(X, Y)
    assert len(accountant) == 2


class ManyReleases(CountingEstimator):
    """An estimator that releases more in the second pass of a pipeline than in the rehearsal."""

    passes = 0

    def __init__(
        self,
        one_plan=True,
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="gaussian",
        calibration="exact",
        adjacency="replace",
        max_rows=1,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.one_plan = one_plan
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.adjacency = adjacency
        self.max_rows = max_rows
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    def fit(self, X, y=None):
        type(self).passes += 1
        number = 1 if self.passes == 1 else 3
        tables = [(CountTable(float(len(X)), 2), np.array([[30.0, 70.0]]))]
        rows = CountedRows(RECORD, len(X))
        with self._fitting() as context:
            plans = [ReleasePlan(self, context, tables, rows)]
            if self.one_plan:
                plans *= number
            else:
                plans += [ReleasePlan(self, context, tables, rows) for _ in range(number - 1)]
            self.releases_ = [context.release(plan) for plan in plans]
        return self


@pytest.mark.parametrize("one_plan", [True, False])
def test_tables_that_were_charged_once_are_released_once(one_plan, monkeypatch):
    monkeypatch.setattr(ManyReleases, "passes", 0)
    drawn = []
    draw = ReleasePlan.draw

    def counting(plan, generator):
        drawn.append(plan)
        return draw(plan, generator)

    monkeypatch.setattr(ReleasePlan, "draw", counting)
    accountant = PrivacyAccountant()
    model = PrivatePipeline([("step", ManyReleases(one_plan))], accountant=accountant)
    with pytest.raises(RuntimeError, match="any charge"):
        model.fit(np.zeros((100, 1)))
    assert len(accountant) == 1
    assert len(drawn) <= 2  # in the rehearsal, and the one that was charged
