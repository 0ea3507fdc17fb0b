"""Private searches and scores: results, charges, and errors."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdirdp import (
    BudgetExceededError,
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    PrivatePipeline,
    make_private_pipeline,
)
from skdirdp.accounting import AllOf, OneOf, RepeatedSelection
from skdirdp.base import Budget
from skdirdp.mechanisms import JointMechanism
from skdirdp.model_selection import (
    PrivateGridSearchCV,
    PrivateRandomizedSearchCV,
    make_private_scorer,
    private_score,
    runs,
)
from skdirdp.model_selection import (
    search as search_module,
)
from skdirdp.model_selection.planning import Route, choose_route, split_records
from skdirdp.model_selection.scoring import GRID, SCORERS, score_table

from .probes import Recorder, drawn_tables

GRID_OF_TWO = {"alpha": [0.5, 5.0]}
GRID_OF_EIGHT = {"alpha": [0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 9.0]}


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(400, 2))
    return X, np.where(rng.random(400) < 0.9, X[:, 0] > 0, X[:, 0] == 0).astype(int)


def model(**parameters):
    given = {"classes": [0, 1], "n_categories": 3, "mechanism": "gaussian", **parameters}
    return DirichletCategoricalNB(**given)


def fixed(search_class=PrivateGridSearchCV, grid=GRID_OF_TWO, **parameters):
    return search_class(model(), grid, random_state=0, **parameters)


pytestmark = pytest.mark.filterwarnings("ignore:random_state is given")


# Charges and releases -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "refit", "adjacency"),
    [
        (GRID_OF_TWO, "all", "replace"),
        (GRID_OF_EIGHT, "all", "replace"),
        (GRID_OF_EIGHT, "run", "add_remove"),
    ],
    ids=["two", "eight", "eight, of the run"],
)
def test_everything_is_one_charge_within_the_budget(records, refit, adjacency, grid):
    accountant = PrivacyAccountant(epsilon=1.0, delta=1e-5)
    estimator = model(n_samples=400)
    search = PrivateGridSearchCV(
        estimator, grid, refit=refit, adjacency=adjacency, accountant=accountant
    ).fit(*records)
    assert len(accountant) == 1
    assert 0.9 < accountant.total(1e-5) <= 1.0
    assert search.privacy_.epsilon == 1.0
    assert search.privacy_.composition().delta(1.0) <= 1e-5
    assert search.best_params_ in list(search.candidates_)
    assert search.released_score_.low <= search.released_score_.value <= search.released_score_.high
    # With a fit to all records each run has little, so that few candidates are cheaper paid all.
    assert search.privacy_.route == ("composition" if len(grid["alpha"]) == 2 else "repetition")


def test_only_charged_noise_is_drawn(records):
    recorder = Recorder()
    with drawn_tables() as drawn:
        fixed(accountant=recorder, refit="run", route="repetition").fit(*records)
    ((charge, releases, label),) = recorder.charges
    assert releases == 1
    assert label == "PrivateGridSearchCV"
    assert isinstance(charge, RepeatedSelection)
    paid = {
        mechanism
        for each in charge.run.alternatives
        if isinstance(each, JointMechanism)
        for mechanism, _ in each.parts
    }
    # Rehearsals draw as well, with noise that is thrown away with all they learn.
    assert {mechanism for mechanism, _ in drawn} & paid
    assert all(mechanism in paid or mechanism.name == "dirichlet" for mechanism, _ in drawn)


def test_the_charge_is_made_before_the_first_run(records, monkeypatch):
    recorder, order = Recorder(), []
    monkeypatch.setattr(recorder, "charge", lambda *args, **kwargs: order.append("charge"))
    run_candidate = runs.run_candidate

    def performed(*args, **kwargs):
        order.append("run")
        return run_candidate(*args, **kwargs)

    monkeypatch.setattr(runs, "run_candidate", performed)
    fixed(accountant=recorder).fit(*records)
    assert order[0] == "charge"
    assert order.count("charge") == 1
    assert order.count("run") == 2


def test_a_limit_is_checked_before_the_first_run(records, monkeypatch):
    monkeypatch.setattr(runs, "run_candidate", None)
    accountant = PrivacyAccountant(epsilon=0.5, delta=1e-5)
    search = fixed(accountant=accountant)
    with pytest.raises(BudgetExceededError):
        search.fit(*records)
    assert len(accountant) == 0
    assert not hasattr(search, "best_params_")


def test_a_failed_run_counts_as_a_run_and_reveals_nothing(records, monkeypatch):
    fit_candidate = runs.fit_candidate
    fits = []

    def failing(candidate, *args):
        fits.append(candidate.steps[0][1].alpha)
        if candidate.steps[0][1].alpha == 0.5:
            raise ValueError("record 17 is strange: [2, 1]")
        return fit_candidate(candidate, *args)

    monkeypatch.setattr(runs, "fit_candidate", failing)
    assert fixed().fit(*records).best_params_ == {"alpha": 5.0}
    assert sorted(fits) == [0.5, 5.0]

    def broken(candidate, *args):
        raise ValueError("record 17 is strange: [2, 1]")

    monkeypatch.setattr(runs, "fit_candidate", broken)
    accountant = PrivacyAccountant()
    with pytest.raises(RuntimeError, match="every run of the search failed") as caught:
        fixed(accountant=accountant).fit(*records)
    assert "strange" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert len(accountant) == 1


def test_an_interrupted_search_is_charged_and_restores_its_state(records, monkeypatch):
    accountant = PrivacyAccountant()
    search = fixed(accountant=accountant).fit(*records)
    before = search.best_params_

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fit_candidate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*records)
    assert len(accountant) == 2
    assert search.best_params_ == before


def test_noise_that_was_not_charged_is_not_published(records, monkeypatch):
    fit_candidate = search_module.fit_candidate

    def other(candidate, *args):
        return fit_candidate(candidate.set_params(epsilon=50.0), *args)

    monkeypatch.setattr(runs, "fit_candidate", other)
    with pytest.raises(RuntimeError, match="every run"):
        fixed().fit(*records)
    monkeypatch.undo()
    monkeypatch.setattr(search_module, "fit_candidate", other)
    with pytest.raises(RuntimeError, match="differs from the noise that was charged"):
        fixed().fit(*records)


def test_the_model_has_the_report_of_the_search(records):
    X, y = records
    bins = DirichletHistogramTransformer(3, encode="ordinal", bounds=(0, 2), n_fine_bins=8)
    pipeline = make_private_pipeline(bins, DirichletCategoricalNB(classes=[0, 1]))
    found = PrivateGridSearchCV(
        pipeline, {"dirichletcategoricalnb__alpha": [0.5, 5.0]}, random_state=0
    ).fit(X.astype(float), y)
    assert isinstance(found.best_estimator_, PrivatePipeline)
    assert found.best_estimator_.privacy_ is found.privacy_
    for _, step in found.best_estimator_.steps:
        assert step.privacy_ is found.privacy_
    statement = str(found.privacy_)
    assert "(1, 1e-05)-differentially private against replacing one record" in statement
    assert "chosen from 2 candidates" in statement
    assert isinstance(found.privacy_.mechanism, AllOf)


def test_a_pipeline_that_was_chosen_is_charged_when_it_is_fitted_again(records):
    X, y = records
    accountant = PrivacyAccountant()
    for pipeline in (
        make_pipeline(FunctionTransformer(), model()),
        make_private_pipeline(FunctionTransformer(), model(), accountant=accountant),
    ):
        grid = {"dirichletcategoricalnb__alpha": [0.5, 5.0]}
        search = PrivateGridSearchCV(pipeline, grid, accountant=accountant, random_state=0)
        found = search.fit(X, y)
        charges = len(accountant)
        found.best_estimator_.fit(X, y)
        assert len(accountant) == charges + 1


def test_a_step_that_leaks_is_warned_of_and_reported(records):
    pipeline = make_pipeline(
        DirichletHistogramTransformer(3, encode="ordinal", bounds=(0, 2), n_fine_bins=8),
        LogisticRegression(),
    )
    search = PrivateGridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]})
    with pytest.warns(PrivacyLeakWarning, match="LogisticRegression"):
        found = search.fit(records[0].astype(float), records[1])
    assert "logisticregression (LogisticRegression)" in found.privacy_.not_covered


@pytest.mark.parametrize("name", ["cv_results_", "best_score_", "n_runs_", "n_splits_"])
def test_errors_for_withheld_attributes_give_the_reason(records, name):
    found = fixed().fit(*records)
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"{name} does not exist after a private search"):
        getattr(found, name)


def test_a_pickle_of_a_search_predicts_and_holds_no_exact_score(records):
    X, y = records
    found = fixed().fit(X, y)
    loaded = pickle.loads(pickle.dumps(found))
    assert np.array_equal(loaded.predict(X), found.predict(X))
    assert loaded.privacy_ == found.privacy_
    kept = {name for name in vars(found) if name.endswith("_")}
    assert kept == {
        "best_index_", "best_params_", "candidates_", "scorer_", "released_score_", "privacy_",
        "best_estimator_",
    }  # fmt: skip


# The number of runs, and the choice among them -------------------------------------------


def test_the_number_of_runs_and_the_candidates_have_the_stated_laws():
    route = Route("repetition", 4, 0.2, False, 0.0)
    rng = np.random.default_rng(1)
    drawn = [runs.draw_candidates(route, rng) for _ in range(4000)]
    lengths = np.array([len(each) for each in drawn])
    for k in (1, 2, 5):
        share = 0.2 * 0.8 ** (k - 1)
        assert abs(np.mean(lengths == k) - share) < 5 * np.sqrt(share / 4000)
    chosen = np.bincount(np.concatenate(drawn), minlength=4) / lengths.sum()
    assert np.all(np.abs(chosen - 0.25) < 5 * np.sqrt(0.25 * 0.75 / lengths.sum()))
    assert runs.draw_candidates(route._replace(name="composition"), rng) == [0, 1, 2, 3]


def test_the_best_run_is_published_with_the_proved_probability():
    # Runs of two outputs for each score, on two levels: probabilities have a closed form.
    gamma, rng = 0.3, np.random.default_rng(2)
    route = Route("repetition", 4, gamma, False, 0.0)
    rank = [0.0, 0.0, 1.0, 1.0]
    published = np.zeros(4)
    for _ in range(6000):
        several = [runs.Run(number, rank[number]) for number in runs.draw_candidates(route, rng)]
        published[runs.select_best(several, rng).candidate_index] += 1 / 6000
    low = gamma * 0.5 / (1 - (1 - gamma) * 0.5)  # the generating function at 1/2
    expected = np.array([low, low, 1 - low, 1 - low]) / 2
    assert np.all(np.abs(published - expected) < 5 * np.sqrt(expected / 6000))


def test_the_route_is_the_one_that_leaves_more_to_a_fit():
    terms = Budget(1.0, 1e-5, None, "replace")
    for n_candidates, cheaper in ((2, "composition"), (8, "repetition")):
        both = {
            name: choose_route(name, n_candidates, 10, terms).log_epsilon
            for name in ("composition", "repetition")
        }
        assert choose_route("auto", n_candidates, 10, terms).name == cheaper
        assert max(both, key=lambda name: both[name]) == cheaper


def test_a_renyi_budget_is_not_exceeded(records):
    accountant = PrivacyAccountant(epsilon=1.0, order=8.0)
    found = fixed(order=8.0, accountant=accountant, refit="run").fit(*records)
    assert 0.9 < found.privacy_.composition().rdp(8.0) <= 1.0 + 1e-9
    assert found.privacy_.delta is None


def test_a_budget_that_no_run_fits_into_is_refused_before_the_charge(records):
    accountant = PrivacyAccountant()
    search = fixed(order=2.0, epsilon=1e-6, route="repetition", accountant=accountant)
    with pytest.raises(ValueError, match="epsilon is too small for a search by repetition"):
        search.fit(*records)
    assert len(accountant) == 0


# Splits ----------------------------------------------------------------------------------


def test_a_split_follows_from_positions_alone():
    train, test = split_records(103, 5, "replace", np.random.default_rng(0))
    assert test.size == 21
    assert sorted([*train, *test]) == list(range(103))
    again = split_records(103, 5, "replace", np.random.default_rng(0))
    assert np.array_equal(again[1], test)


def test_records_are_held_out_independently_if_positions_shift():
    shares = [
        split_records(500, 4, "add_remove", np.random.default_rng(seed))[1].size
        for seed in range(200)
    ]
    assert abs(np.mean(shares) - 125) < 5 * np.sqrt(500 * 3 / 16 / 200)
    assert np.std(shares) > 5  # the number that is held out is random


def released(data, coins, noise=0.7):
    """A toy search under given coins: a noisy sum of one part, a noisy sum of the other."""

    def response(total):
        weights = np.exp(-noise * np.abs(np.arange(5) - total))
        return weights / weights.sum()

    parts = [sum(x for x, c in zip(data, coins, strict=True) if c == part) for part in (0, 1)]
    return np.outer(response(parts[0]), response(parts[1]))


def test_an_added_record_is_in_one_part():
    """Enumerate data, coins and outputs: the worst part alone bounds the whole."""
    held_out = 0.25
    response = [released((x,), (0,))[:, 0] / released((x,), (0,))[:, 0].sum() for x in range(5)]
    for data in itertools.product((0, 1, 2), repeat=2):
        laws = []
        for records_ in (data, (*data, 2)):
            law = np.zeros((5, 5))
            for coins in itertools.product((0, 1), repeat=len(records_)):
                chance = np.prod([held_out if coin else 1 - held_out for coin in coins])
                law += chance * released(records_, coins)
            laws.append(law.ravel())
        for epsilon in (0.2, 0.7, 1.2):
            truth = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in (laws, laws[::-1]))
            alone = max(
                np.maximum(a - np.exp(epsilon) * b, 0).sum()
                for low in range(3)
                for a, b in itertools.permutations((response[low], response[low + 2]))
            )
            assert truth <= alone + 1e-12


@pytest.mark.parametrize("cv", [StratifiedKFold(5), StratifiedShuffleSplit(1)])
def test_a_stratified_splitter_is_refused_with_the_reason(records, cv):
    with pytest.raises(ValueError, match="replacing one record would move others"):
        fixed(cv=cv).fit(*records)


def test_a_splitter_receives_no_record(records):
    class Curious:
        def split(self, X, y=None, groups=None):
            assert np.all(X == 0)
            assert y is None
            yield np.arange(50, 400), np.arange(50)

    assert fixed(cv=Curious()).fit(*records).released_score_.value > 0.5


def test_any_single_split_by_position_is_accepted(records):
    fold = np.repeat([0, -1, -1, -1], 100)
    for cv in (ShuffleSplit(1, random_state=0), PredefinedSplit(fold)):
        found = fixed(cv=cv).fit(*records)
        assert found.best_params_["alpha"] in (0.5, 5.0)
        assert found.privacy_.not_covered == ("random_state",)


def test_a_split_that_may_depend_on_labels_warns_and_is_reported(records):
    X, y = records
    by_label = [next(StratifiedKFold(4).split(X, y))]
    with pytest.warns(PrivacyLeakWarning, match="cv: an iterable of splits may depend on"):
        found = PrivateGridSearchCV(model(), GRID_OF_TWO, cv=by_label).fit(X, y)
    assert found.privacy_.not_covered == ("cv",)
    assert "not covered: cv" in str(found.privacy_)
    accountant = PrivacyAccountant()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match="cv"):
            PrivateGridSearchCV(model(), GRID_OF_TWO, cv=by_label, accountant=accountant).fit(X, y)
    assert len(accountant) == 0


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (KFold(5), "one split, .*; got 5"),
        (1, "at least 2"),
        ([(np.arange(9), np.arange(9))], "in both parts"),
        ([(np.arange(9), np.arange(9, 999))], "positions of records"),
        ([(np.arange(9), np.array([10, 10]))], "each position once"),
    ],
)
def test_splits_that_would_not_hold_are_refused(records, cv, message):
    with pytest.raises(ValueError, match=message):
        fixed(cv=cv).fit(*records)


def test_invalid_splits_are_refused(records):
    with pytest.raises(TypeError, match="cv must be"):
        fixed(cv="five").fit(*records)
    with pytest.raises(ValueError, match="if adjacency is 'add_remove'"):
        fixed(cv=ShuffleSplit(1), adjacency="add_remove").fit(*records)


# Scores ----------------------------------------------------------------------------------


class Told:
    """A fitted classifier whose predictions and probabilities are the record's own columns."""

    classes_ = np.array([0, 1, 2])

    def predict(self, X):
        if np.any(X[:, 0] == 9):
            raise ValueError("no such category")
        return X[:, 0]

    def predict_proba(self, X):
        return np.column_stack([X[:, 1], (1 - X[:, 1]) / 2, (1 - X[:, 1]) / 2])


def scorers():
    yield from (SCORERS[name] for name in ("accuracy", "balanced_accuracy", "neg_log_loss"))
    yield make_private_scorer(lambda model, X, y: X[:, 1] * 3 - 1, low=-1, high=1)
    yield make_private_scorer(lambda model, X, y: 1.7, low=0, high=2, sensitivity=0.1)


@pytest.mark.parametrize("scorer", [*scorers()], ids=lambda scorer: scorer.name)
def test_no_record_moves_a_score_further_than_its_noise_is_for(scorer):
    rng = np.random.default_rng(4)
    some = [(9.0, 0.5, 0), (0.0, 1.0, 0), (1.0, 0.0, 0), (2.0, 0.3, 5), (1.0, np.nan, 1)]
    for _ in range(20):
        rest = np.column_stack([rng.integers(3, size=6), rng.random(6), rng.integers(3, size=6)])

        def table(*extra, adjacency, rest=rest):
            data = np.vstack([rest, *extra]) if extra else rest
            return score_table(scorer, Told(), data[:, :2], data[:, 2], adjacency)

        for a, b in itertools.combinations(some, 2):
            moved = table(a, adjacency="replace") - table(b, adjacency="replace")
            assert np.sum(moved**2) <= 2
        for a in some:
            moved = table(a, adjacency="add_remove") - table(adjacency="add_remove")
            assert np.sum(moved**2) <= 1
        found = table(adjacency="replace")
        assert np.array_equal(found / GRID, np.rint(found / GRID))


@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_a_declared_sensitivity_is_used_and_not_exceeded(adjacency):
    numbers = iter([0.3, 0.4])
    scorer = make_private_scorer(lambda model, X, y: next(numbers), low=-2, high=2, sensitivity=0.1)
    X, y = np.zeros((5, 1)), np.zeros(5)
    first, second = (score_table(scorer, None, X, y, adjacency) for _ in range(2))
    moved = float(np.sum((first - second) ** 2))
    limit = 2 if adjacency == "replace" else 1
    assert limit * 0.999 < moved <= limit


def test_without_noise_scores_are_those_of_scikit_learn(records):
    X, y = records
    fitted = model(epsilon=float("inf")).fit(X[:300], y[:300])
    X, y = X[300:], y[300:]
    budget = {"epsilon": float("inf")}
    predicted = fitted.predict(X)
    assert private_score(fitted, X, y, **budget).value == pytest.approx(
        accuracy_score(y, predicted)
    )
    balanced = private_score(fitted, X, y, scoring="balanced_accuracy", **budget)
    assert balanced.value == pytest.approx(balanced_accuracy_score(y, predicted))
    chances = fitted.predict_proba(X)[np.arange(len(y)), y]
    loss = private_score(fitted, X, y, scoring="neg_log_loss", **budget)
    assert loss.value == pytest.approx(np.mean(np.log(np.maximum(chances, 0.01))), abs=1e-5)
    mean = make_private_scorer(lambda model, X, y: 0.37, low=0, high=1, sensitivity=0.01)
    assert private_score(fitted, X, y, scoring=mean, **budget).value == pytest.approx(
        0.37, abs=1e-6
    )


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_intervals_cover_the_exact_score_at_the_stated_rate(records, scoring, adjacency):
    X, y = records
    fitted = model(epsilon=float("inf")).fit(X, y)
    exact = private_score(fitted, X, y, scoring=scoring, epsilon=float("inf")).value
    given = {
        "scoring": scoring, "adjacency": adjacency, "confidence": 0.8, "population": False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        found = [private_score(fitted, X, y, random_state=k, **given) for k in range(150)]
    covered = np.mean([each.low <= exact <= each.high for each in found])
    assert covered > 0.8 - 3 * np.sqrt(0.8 * 0.2 / 150)
    assert np.mean([each.high - each.low for each in found]) < 0.35 * (
        1 if "log" not in scoring else 4.6
    )
    if (scoring, adjacency) == ("accuracy", "replace"):
        assert covered < 0.8 + 3 * np.sqrt(0.8 * 0.2 / 150)


class Guess:
    """A model that predicts what it is given, to score labels of a known distribution."""

    def __init__(self):
        self.classes_ = np.array([0, 1])

    def predict(self, X):
        return X[:, 0]


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy"])
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_intervals_cover_the_score_of_the_population_at_the_stated_rate(scoring, adjacency):
    rng = np.random.default_rng(3)
    given = {"scoring": scoring, "adjacency": adjacency, "epsilon": 3.0, "confidence": 0.8}
    covered, narrow = [], []
    for k in range(150):
        y = rng.integers(2, size=400)
        X = np.where(rng.random(400) < 0.7, y, 1 - y)[:, np.newaxis]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            found = private_score(Guess(), X, y, random_state=k, **given)
            exact = private_score(Guess(), X, y, random_state=k, **given, population=False)
        covered.append(found.low <= 0.7 <= found.high)
        narrow.append(exact.low <= 0.7 <= exact.high)
    slack = 3 * np.sqrt(0.8 * 0.2 / 150)
    assert np.mean(covered) > 0.8 - slack > np.mean(narrow)


def test_a_search_scores_by_the_given_scoring(records):
    X, y = records
    y = np.where(np.arange(len(y)) % 3, 0, y)
    for scoring, expected in (
        ("balanced_accuracy", balanced_accuracy_score),
        (None, accuracy_score),
    ):
        search = PrivateGridSearchCV(model(), GRID_OF_TWO, scoring=scoring).fit(X, y)
        assert search.score(X, y) == pytest.approx(expected(y, search.predict(X)))


def test_a_score_is_charged_before_noise_is_drawn(records):
    X, y = records
    fitted = model().fit(X[:200], y[:200])
    accountant = PrivacyAccountant(adaptive=False, epsilon=1.0)
    score = private_score(fitted, X[200:], y[200:], epsilon=0.6, accountant=accountant)
    assert 0.59 < accountant.total(1e-5) <= 0.6
    assert accountant.history()[0]["label"] == "private_score"
    assert score.privacy.epsilon == 0.6
    assert score.privacy.not_covered == ()
    with pytest.raises(BudgetExceededError):
        private_score(fitted, X[200:], y[200:], epsilon=0.9, accountant=accountant)


def test_records_and_labels_of_different_numbers_are_refused(records):
    X, y = records
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        private_score(model().fit(X, y), X, y[:-1])


def test_a_record_that_cannot_be_scored_gets_the_lowest_score():
    X = np.array([[0, 0.5], [9, 0.5], [1, 0.5], [2, 0.5]])
    y = np.array([0, 0, 1, 0])
    assert score_table(SCORERS["accuracy"], Told(), X, y, "replace").tolist() == [[2.0, 2.0]]


def test_a_scorer_may_squeeze_the_value_of_a_single_record():
    # Records are scored one by one if some cannot be scored: an error would reveal them.
    class Fails(Guess):
        def predict(self, X):
            if (X > 1).any():
                raise ValueError
            return super().predict(X)

    scorer = make_private_scorer(
        lambda model, X, y: np.squeeze(model.predict(X) == y), low=0, high=1
    )
    X, y = np.zeros((5, 1)), np.zeros(5)
    for odd, expected in ((0, [5.0, 0.0]), (2, [4.0, 1.0])):
        X[3] = odd
        np.testing.assert_array_equal(score_table(scorer, Fails(), X, y, "replace"), [expected])


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        ("roc_auc", ValueError, "scoring must be one of 'accuracy'"),
        (accuracy_score, TypeError, "declare its range"),
        ("log_likelihood", TypeError, "score_samples"),
    ],
)
def test_scores_without_a_known_sensitivity_are_refused(records, scoring, error, message):
    accountant = PrivacyAccountant()
    with pytest.raises(error, match=message):
        fixed(scoring=scoring, accountant=accountant).fit(*records)
    with pytest.raises(error, match=message):
        private_score(model().fit(*records), *records, scoring=scoring, accountant=accountant)
    assert len(accountant) == 0


def test_networks_are_chosen_by_their_likelihood():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(2, size=600)})
    X["b"] = np.where(rng.random(600) < 0.95, X["a"], 1 - X["a"])
    states = {"a": [0, 1], "b": [0, 1]}
    network = PrivateBayesNetMLE([("a", "b")], states=states, mechanism="gaussian")
    grid = {"structure": [[("a", "b")], {"a": [], "b": []}]}
    found = PrivateGridSearchCV(network, grid, random_state=0).fit(X)
    assert found.best_params_["structure"] == [("a", "b")]
    assert -2 * 2 * np.log(2) <= found.released_score_.value <= 0
    exact = found.score_samples(X).mean()
    assert exact == pytest.approx(found.score(X))


# As in scikit-learn ----------------------------------------------------------------------


def expected_failures(search):
    if np.isinf(search.epsilon):
        return {}
    return {
        "check_classifiers_one_label_sample_weights": "wants a class whose records weigh nothing "
        "never to be predicted; with noise it is, from ten records",
    }


@parametrize_with_checks(
    [
        # A seed with which the expected failure occurs: it depends on the noise.
        PrivateGridSearchCV(
            DirichletNB(mechanism="gaussian"), GRID_OF_TWO, epsilon=10.0, random_state=0
        ),
        PrivateRandomizedSearchCV(
            DirichletNB(mechanism="gaussian"), GRID_OF_TWO, n_iter=2, epsilon=float("inf")
        ),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore")
def test_a_search_passes_scikit_learns_estimator_checks(estimator, check):
    check(estimator)


def test_without_noise_it_chooses_as_scikit_learn_does(records):
    X, y = records
    train, test = np.arange(100, 400), np.arange(100)
    grid = {"alpha": [0.01, 1.0, 300.0], "fit_prior": [True, False]}
    ours = PrivateGridSearchCV(
        model(), grid, epsilon=float("inf"), cv=[(train, test)], random_state=0
    ).fit(X, y)
    theirs = GridSearchCV(model(epsilon=float("inf")), grid, cv=[(train, test)]).fit(X, y)
    scores = dict(
        zip(
            map(str, theirs.cv_results_["params"]),
            theirs.cv_results_["mean_test_score"],
            strict=True,
        )
    )
    assert scores[str(ours.best_params_)] == theirs.best_score_
    assert ours.released_score_.value == pytest.approx(theirs.best_score_)
    assert "no privacy" in str(ours.privacy_)
    same = clone(theirs.estimator).set_params(**ours.best_params_).fit(X, y)
    assert np.array_equal(ours.predict_proba(X), same.predict_proba(X))
    accountant = PrivacyAccountant()
    ours.set_params(accountant=accountant).fit(X, y)
    assert accountant.total() == float("inf")


def test_a_search_has_the_methods_of_its_estimator(records):
    X, y = records
    frame = pd.DataFrame(X, columns=["a", "b"])
    found = fixed().fit(frame, y)
    assert found.classes_.tolist() == [0, 1]
    assert found.n_features_in_ == 2
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert found.predict_proba(frame).shape == (400, 2)
    assert np.array_equal(np.exp(found.predict_log_proba(frame)), found.predict_proba(frame))
    assert found.score(frame, y) == found.best_estimator_.score(frame, y)
    assert not hasattr(found, "transform")
    copy = clone(found)
    assert not hasattr(copy, "best_params_")
    assert make_pipeline(FunctionTransformer(), fixed()).fit(frame, y).predict(frame).shape == (
        400,
    )


def test_a_transformer_can_be_chosen_and_gives_frames(records):
    X, _ = records
    bins = DirichletHistogramTransformer(
        3, encode="ordinal", bounds=(0, 2), n_fine_bins=8, mechanism="gaussian"
    )
    near = make_private_scorer(
        lambda model, X, y: -np.abs(model.inverse_transform(model.transform(X)) - X).mean(axis=1),
        low=-2, high=0,
    )  # fmt: skip
    search = PrivateGridSearchCV(bins, {"n_bins": [2, 3]}, scoring=near, random_state=0)
    found = search.set_output(transform="pandas").fit(X.astype(float))
    assert isinstance(found.transform(X.astype(float)), pd.DataFrame)
    assert found.get_feature_names_out().tolist() == ["x0", "x1"]
    assert found.inverse_transform(found.transform(X.astype(float))).shape == X.shape


def test_without_refit_there_are_parameters_and_no_model(records):
    found = fixed(refit=False).fit(*records)
    assert found.best_params_["alpha"] in (0.5, 5.0)
    with pytest.raises(AttributeError, match="refit=False"):
        found.predict(records[0])


def test_candidates_are_drawn_from_distributions(records):
    grid = {"alpha": [0.1, 0.5, 1.0, 5.0]}
    found = fixed(PrivateRandomizedSearchCV, grid, n_iter=2).fit(*records)
    assert len(found.candidates_) == 2
    assert found.best_params_ == found.candidates_[found.best_index_]
    again = fixed(PrivateRandomizedSearchCV, grid, n_iter=2).fit(*records)
    assert again.candidates_ == found.candidates_
    assert again.released_score_ == found.released_score_
    assert np.array_equal(again.predict_proba(records[0]), found.predict_proba(records[0]))


def test_secure_noise_differs_from_search_to_search(records):
    scores = {
        PrivateGridSearchCV(model(), GRID_OF_TWO).fit(*records).released_score_.value
        for _ in range(3)
    }
    assert len(scores) == 3


def test_parallel_processes_give_the_same_search(records):
    one, two = (fixed(n_jobs=n_jobs).fit(*records) for n_jobs in (None, 2))
    assert one.released_score_ == two.released_score_
    assert one.best_params_ == two.best_params_


def test_weights_are_split_with_the_records(records):
    X, y = records
    weight = np.where(y == 1, 1.0, 0.25)
    search = PrivateGridSearchCV(model(max_weight=1.0), GRID_OF_TWO, random_state=0)
    found = search.fit(X, y, sample_weight=weight)
    plain = search.fit(X, y)
    assert found.released_score_ is not None
    assert plain.privacy_.mechanism == found.privacy_.mechanism


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"epsilon": [0.1, 1.0]}, "epsilon must not be searched over"),
        ({"accountant": [None]}, "accountant must not be searched over"),
    ],
)
def test_the_budget_is_no_candidate(records, grid, message):
    with pytest.raises(ValueError, match=message):
        fixed(grid=grid).fit(*records)


def test_an_estimator_without_noise_is_refused(records):
    accountant = PrivacyAccountant()
    search = PrivateGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, accountant=accountant)
    with pytest.raises(ValueError, match="estimator must be private"):
        search.fit(*records)
    assert len(accountant) == 0


def test_rows_of_a_person_are_not_torn_apart(records):
    with pytest.raises(ValueError, match=r"groups must not be given .* splits and scores rows"):
        fixed().fit(*records, groups=np.arange(400))


def test_a_search_is_no_step_of_a_private_pipeline(records):
    with pytest.raises(TypeError, match="Put the pipeline into the search"):
        PrivatePipeline([("search", fixed())]).fit(*records)


def test_each_missing_parameter_is_warned_of_once_and_reported(records):
    search = PrivateGridSearchCV(
        DirichletCategoricalNB(n_categories=3, mechanism="gaussian"), GRID_OF_TWO
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search.fit(*records)
    leaks = [str(each.message) for each in caught if each.category is PrivacyLeakWarning]
    assert len(leaks) == 1
    assert leaks[0].startswith("classes: not given")
    assert found.privacy_.not_covered == ("classes",)


@pytest.mark.parametrize("route", ["repetition", "composition"])
def test_leaks_of_any_candidate_are_reported(records, route):
    """The noise of a losing candidate is in the charge too."""
    _, y = records
    grid = [{"max_total": [None], "alpha": [1e6]}, {"max_total": [4], "alpha": [1.0]}]
    estimator = DirichletNB(classes=[0, 1], max_count=2, mechanism="gaussian")
    search = PrivateGridSearchCV(estimator, grid, epsilon=20.0, route=route)
    with pytest.warns(PrivacyLeakWarning, match="max_total"):
        search.fit(np.column_stack([2 * y, 2 - 2 * y]), y)
    assert search.best_params_["max_total"] == 4
    assert search.privacy_.not_covered == ("max_total",)
    assert search.best_estimator_.privacy_.not_covered == ("max_total",)
    assert "max_total" in search.privacy_.statement()


def test_a_search_warns_of_nothing_that_one_record_decides(records):
    X, _ = records
    labels = [f"{number:03}" for number in range(210)] + ["000"] * 190
    step = FunctionTransformer(np.sqrt, inverse_func=np.sqrt)
    search = PrivateGridSearchCV(
        make_pipeline(step, DirichletNB(classes=sorted(set(labels)), max_count=2, max_total=4)),
        {"dirichletnb__alpha": [0.5, 5.0]},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, labels)


def test_a_grid_is_charged_for_its_worst_candidate(records):
    grid = {"mechanism": ["gaussian", "laplace"], "alpha": [0.5, 5.0]}
    found = fixed(grid=grid, refit="run", route="repetition", n_runs=3).fit(*records)
    selection = found.privacy_.mechanism
    assert isinstance(selection, RepeatedSelection)
    assert isinstance(selection.run, OneOf)
    assert selection.mean == pytest.approx(3)
    kinds = {
        type(part).__name__
        for each in selection.run.alternatives
        if isinstance(each, JointMechanism)
        for part, _ in each.parts
    }
    assert kinds == {"GaussianMechanism", "LaplaceMechanism"}
    assert found.privacy_.composition().delta(1.0) <= 1e-5


# Errors for all records -----------------------------------------------------------------


def test_a_model_that_is_not_fitted_is_refused_and_not_scored_as_bad(records):
    recorder = Recorder()
    with pytest.raises(NotFittedError):
        private_score(model(), *records, accountant=recorder)
    assert recorder.charges == []


def test_records_with_other_columns_are_refused(records):
    X, y = records
    recorder = Recorder()
    fitted = model(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 1 features"):
        private_score(fitted, X[:, :1], y, accountant=recorder)
    assert recorder.charges == []


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
@pytest.mark.parametrize(
    "as_column", [lambda y: y.reshape(-1, 1), lambda y: pd.DataFrame({"y": y})]
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_in_a_column_are_scored_as_labels(records, scoring, as_column):
    X, y = records
    fitted = model(random_state=0, epsilon=50.0).fit(X, y)
    exact = {"epsilon": np.inf, "scoring": scoring}
    column = as_column(y)
    assert float(private_score(fitted, X, column, **exact)) == float(
        private_score(fitted, X, y, **exact)
    )
    search = fixed(epsilon=20.0, scoring=scoring)
    assert search.fit(X, column).released_score_.value == search.fit(X, y).released_score_.value


class Warns(FunctionTransformer):
    """A step that warns whenever it is fitted."""

    def fit(self, X, y=None):
        warnings.warn("fitted", UserWarning, stacklevel=1)
        return super().fit(X, y)


def test_warnings_do_not_reveal_the_number_of_runs(records):
    pipe = make_private_pipeline(Warns(), model())
    numbers = set()
    for seed in range(6):
        search = PrivateGridSearchCV(
            pipe,
            {"dirichletcategoricalnb__alpha": [1.0, 2.0]},
            route="repetition",
            epsilon=9.0,
            refit="run",
            random_state=seed,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(*records)
        numbers.add(sum(str(each.message) == "fitted" for each in caught))
    assert numbers == {0}


def test_a_vocabulary_is_not_learnt_inside_a_search():
    recorder = Recorder()
    texts, y = ["good film", "bad film"] * 100, [0, 1] * 100
    pipe = make_private_pipeline(
        PrivateCountVectorizer(), DirichletNB(classes=[0, 1], max_count=1, max_total=2)
    )
    grid = {"dirichletnb__alpha": [1.0, 2.0]}
    with pytest.raises(ValueError, match="must not learn its vocabulary inside a search"):
        PrivateGridSearchCV(pipe, grid, accountant=recorder).fit(texts, y)
    assert recorder.charges == []
    given = clone(pipe).set_params(privatecountvectorizer__vocabulary=["good", "bad", "film"])
    assert PrivateGridSearchCV(given, grid, epsilon=9.0).fit(texts, y).score(texts, y) == 1.0


def test_rows_of_persons_are_refused_under_any_name(records):
    with pytest.raises(ValueError, match="groups must not be given to a search"):
        PrivateGridSearchCV(PrivatePipeline([("nb", model())]), {"nb__alpha": [1.0, 2.0]}).fit(
            *records, nb__groups=np.arange(400) // 2
        )


def test_weights_are_routed_as_in_scikit_learn(records):
    with config_context(enable_metadata_routing=True):
        asks = model().set_fit_request(sample_weight=True)
        search = PrivateGridSearchCV(asks, GRID_OF_TWO, epsilon=9.0, random_state=0)
        routed = search.fit(*records, sample_weight=np.full(400, 0.5))
    prefixed = fixed(epsilon=9.0).fit(*records, sample_weight=np.full(400, 0.5))
    assert routed.released_score_.value == prefixed.released_score_.value


@pytest.mark.parametrize(
    ("route", "verbose", "shown"),
    [("repetition", 0, []), ("repetition", 1, [False]), ("composition", 0, [None])],
)
def test_progress_shows_the_number_of_runs_only_if_it_is_public_or_requested(
    records, monkeypatch, route, verbose, shown
):
    asked = []
    monkeypatch.setattr("tqdm.auto.tqdm", lambda done, disable, **_: asked.append(disable) or done)
    fixed(epsilon=9.0, refit="run", verbose=verbose, route=route).fit(*records)
    assert asked == shown


def test_a_scorer_that_returns_one_number_is_refused(records):
    recorder = Recorder()
    fitted = model(random_state=0).fit(*records)
    scorer = make_private_scorer(lambda model, X, y: model.score(X, y), low=0, high=1)
    with pytest.raises(TypeError, match="a value for each record; got one number"):
        private_score(fitted, *records, scoring=scorer, accountant=recorder)
    assert recorder.charges == []


# Callbacks ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", ["search", "pipeline"])
def test_callbacks_that_could_see_exact_scores_are_refused(wrapper, capfd):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(200, 2))
    model = DirichletCategoricalNB(classes=[False, True], n_categories=3)
    if wrapper == "search":
        model = PrivateGridSearchCV(model, {"alpha": [0.1, 1.0]}, route="composition")
    else:
        model = make_private_pipeline(FunctionTransformer(), model)
    with pytest.raises(TypeError, match=r"must be instances of ProgressBar.*ScoringMonitor"):
        model.set_callbacks(callback.ScoringMonitor(scoring="accuracy"))
    with pytest.raises(TypeError, match="must be instances of ProgressBar"):
        model.set_callbacks(callback.ProgressBar(), callback.ScoringMonitor(scoring="accuracy"))
    model.set_callbacks(callback.ProgressBar()).fit(X, X[:, 0] > 1)
    assert "100%" in "".join(capfd.readouterr())
