"""Private pipelines: refused steps, and errors without data."""

import re
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
)
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.semi_supervised import SelfTrainingClassifier

from skdirdp import (
    DirichletCategoricalNB,
    DirichletHistogramTransformer,
    PrivacyAccountant,
    PrivacyLeakWarning,
    PrivatePipeline,
    check_pipeline,
    make_private_pipeline,
)
from skdirdp.pipeline.check import ADAPTIVE
from skdirdp.pipeline.contexts import feeds

N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = (X[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)
SECRET = 271828.1828


def bins(n_bins=4, bounds=(-4, 4), **params):
    params = {"encode": "ordinal", "n_fine_bins": 16, **params}
    return DirichletHistogramTransformer(n_bins, bounds=bounds, **params)


def model(**params):
    return DirichletCategoricalNB(**{"classes": [0, 1], "n_categories": 4, **params})


# Missing parameters inside a step --------------------------------------------------


class Doubled(TransformerMixin, BaseEstimator):
    """Unknown class that fits two private estimators, one to the output of the other."""

    def __init__(self, first, second):
        self.first = first
        self.second = second

    def fit(self, X, y=None):
        self.second_ = clone(self.second).fit(clone(self.first).fit_transform(X))
        return self

    def transform(self, X):
        return X


@pytest.mark.filterwarnings("ignore:step 'inner':skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (
            make_pipeline(bins(), model(n_categories=None)),
            "n_categories must be given for .* in step 'inner__dirichletcategoricalnb'",
        ),
        (
            make_pipeline(FunctionTransformer(), make_pipeline(bins()), bins(bounds=None)),
            "bounds must be given",
        ),
        (
            ColumnTransformer([("a", make_pipeline(bins(), bins(bounds=None)), [0, 1])]),
            "bounds must be given for .* in step 'inner__a__dirichlethistogramtransformer-2'",
        ),
        (
            FeatureUnion([("b", PrivatePipeline([("c", bins()), ("d", bins(bounds=None))]))]),
            "bounds must be given for .* in step 'inner__b__d'",
        ),
        (
            MultiOutputClassifier(make_pipeline(bins(), model(n_categories=None))),
            "n_categories must be given",
        ),
        (Doubled(bins(), bins(bounds=None)), "bounds must be given"),
        (
            StackingClassifier([("a", make_pipeline(bins(), model()))], model(n_categories=None)),
            "n_categories must be given",
        ),
    ],
    ids=["pipeline", "deeper", "columns", "union", "outputs", "unknown", "stacked"],
)
def test_a_parameter_that_is_missing_inside_a_step_is_refused_before_the_charge(inner, message):
    accountant = PrivacyAccountant()
    target = np.column_stack([Y, Y]) if isinstance(inner, MultiOutputClassifier) else Y
    with pytest.raises(ValueError, match=message):
        PrivatePipeline([("inner", inner)], accountant=accountant).fit(X, target)
    assert len(accountant) == 0


@pytest.mark.parametrize(
    "inner",
    [
        ColumnTransformer([("a", bins(), [0]), ("b", bins(bounds=None), [1, 2])]),
        FeatureUnion([("a", make_pipeline(bins(), bins(bounds=(0, 4)))), ("b", bins(bounds=None))]),
    ],
    ids=["columns", "union"],
)
def test_non_private_steps_next_to_private_ones_leak_bounds(inner):
    """They are the same in the rehearsal and in the fit, and named as set_params names them."""
    accountant = PrivacyAccountant()
    with pytest.warns(PrivacyLeakWarning, match="inner__b__bounds: not given"):
        pipe = PrivatePipeline([("inner", inner)], accountant=accountant).fit(X, Y)
    assert pipe.privacy_.not_covered == ("inner__b__bounds",)
    assert len(accountant) == 1


def test_several_outputs_are_several_fits_side_by_side():
    inner = MultiOutputClassifier(model(classes=None))
    accountant = PrivacyAccountant()
    pipe = PrivatePipeline([("bins", bins()), ("model", inner)], accountant=accountant)
    with pytest.warns(PrivacyLeakWarning, match="model__estimator__classes"):
        pipe.fit(X, np.column_stack([Y, 1 - Y]))
    assert pipe.privacy_.releases == 3 + 2 * 4
    assert len(accountant) == 1


def test_which_estimators_feed_others():
    inner = make_pipeline(bins(), model())
    pipe = Pipeline(
        [
            ("union", FeatureUnion([("a", inner), ("b", bins())])),
            ("chain", ClassifierChain(clone(inner))),
            ("cross", ClassifierChain(clone(inner), cv=2)),
            ("vote", VotingClassifier([("a", model()), ("b", model())])),
        ]
    )
    first, last = "dirichlethistogramtransformer", "dirichletcategoricalnb"

    def feeds_(one, other):
        return feeds(pipe, one, other)

    assert feeds_(f"union__a__{first}", f"union__a__{last}")
    assert not feeds_(f"union__a__{last}", f"union__a__{first}")
    assert not feeds_(f"union__a__{last}", "union__b")
    assert feeds_("union__b", "vote__a")
    assert not feeds_("vote__a", "vote__b")
    for container, fed in (("chain", False), ("cross", True)):
        name = "base_estimator" if "chain__base_estimator" in pipe.get_params() else "estimator"
        if f"{container}__estimator__{first}" in pipe.get_params():
            name = "estimator"
        paths = [f"{container}__{name}__{inside}" for inside in (first, last)]
        assert feeds_(*paths)
        assert feeds_(*reversed(paths)) is fed
        assert feeds_(paths[0], paths[0]) is fed
    # Unknown classes may do anything.
    assert feeds_("vote__a", "vote__c")


def test_labels_of_the_estimators_that_were_given_stay():
    given, frozen = bins(label="mine"), bins(label="frozen").fit(X)
    pipe = PrivatePipeline(
        [("first", given), ("frozen", FrozenEstimator(frozen)), ("model", model())]
    ).fit(X, Y)
    assert given.label == pipe["first"].label == "mine"
    assert frozen.label == pipe["frozen"].estimator.label == "frozen"
    assert pipe["model"].label is None


class InAnotherThread(TransformerMixin, BaseEstimator):
    """Fits in another thread, outside of the context of the pipeline."""

    def __init__(self, inner, lost=False):
        self.inner = inner
        self.lost = lost

    def fit(self, X, y=None):
        self.inner_ = clone(self.inner)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.inner_.fit, X)
            if not self.lost:
                waiting.result()
        return self

    def transform(self, X):
        return np.zeros_like(X)


@pytest.mark.filterwarnings("ignore:step 'union__a'")
@pytest.mark.parametrize("lost", [False, True])
def test_one_of_several_estimators_that_escapes_is_refused_before_the_charge(lost):
    accountant, own = PrivacyAccountant(), PrivacyAccountant()
    union = FeatureUnion(
        [("a", InAnotherThread(bins(accountant=own), lost)), ("b", bins(accountant=own))]
    )
    pipe = PrivatePipeline([("union", union), ("model", model())], accountant=accountant)
    with pytest.raises(RuntimeError, match="'union__a__inner' was fitted in another thread"):
        pipe.fit(X, Y)
    assert len(accountant) == len(own) == 0


class MakesItsOwn(TransformerMixin, BaseEstimator):
    """Fits a private estimator that is not one of its parameters."""

    def fit(self, X, y=None):
        self.bins_ = bins().fit(X)
        return self

    def transform(self, X):
        return self.bins_.transform(X)


@pytest.mark.filterwarnings("ignore:step 'own'")
def test_a_private_estimator_created_by_a_step_is_refused():
    accountant = PrivacyAccountant()
    with pytest.raises(
        ValueError, match="'own' uses a DirichletHistogramTransformer that is not one"
    ):
        PrivatePipeline([("own", MakesItsOwn()), ("model", model())], accountant=accountant).fit(
            X, Y
        )
    assert len(accountant) == 0


class HoldsAList(TransformerMixin, BaseEstimator):
    """Holds estimators that have no names."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner_ = [clone(each).fit(X) for each in self.inner]
        return self

    def transform(self, X):
        return np.column_stack([each.transform(X) for each in self.inner_])


@pytest.mark.filterwarnings("ignore:step 'list'")
def test_estimators_without_names_are_charged_with_the_others():
    accountant = PrivacyAccountant()
    steps = [("list", HoldsAList([bins(label="mine"), bins()])), ("model", model())]
    pipe = PrivatePipeline(steps, accountant=accountant).fit(X, Y)
    assert pipe.privacy_.releases == 3 + 3 + 7
    assert 0.999 <= accountant.total(1e-5) <= 1.0
    assert [each.label for each in pipe["list"].inner_] == ["mine", None]
    with pytest.raises(ValueError, match=r"bounds must be given for .* in step 'list__inner'"):
        pipe.set_params(list__inner=[bins(), bins(bounds=None)]).fit(X, Y)


class SameWhenCloned(DirichletHistogramTransformer):
    """Is shared by a pipeline and its copies."""

    def __sklearn_clone__(self):
        return self


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_shared_estimators_are_neither_released_nor_changed(epsilon):
    """A frozen model with pending counts would be released without a charge."""
    codes = rng.integers(4, size=(N, 2))
    counting = model(accountant=PrivacyAccountant(), label="mine").partial_fit(codes, Y)
    stack = StackingClassifier([("frozen", FrozenEstimator(counting))], cv="prefit")
    beside = ColumnTransformer([("bins", bins(bounds=(0, 4)), [0, 1])])
    pipe = PrivatePipeline([("bins", beside), ("stack", stack)], epsilon=epsilon)
    with pytest.raises(ValueError, match="is frozen and has not been released yet"):
        pipe.fit(codes, Y)
    assert "_counts_" in vars(counting)
    assert len(counting.accountant) == 0
    shared = SameWhenCloned(4, encode="ordinal", bounds=(-4, 4), label="mine")
    with pytest.raises(ValueError, match="not one of its parameters"):
        make_private_pipeline(shared, model(), epsilon=epsilon).fit(X, Y)
    assert (shared.label, shared.accountant) == ("mine", None)
    assert not hasattr(shared, "release_")


# Steps that go by results ----------------------------------------------------------

GRID = {"alpha": [1.0, 2.0]}
GO_BY_RESULTS = [
    AdaBoostClassifier(model()),
    GridSearchCV(model(), GRID),
    HalvingGridSearchCV(model(), GRID),
    HalvingRandomSearchCV(model(), GRID),
    RFECV(model()),
    RandomizedSearchCV(model(), GRID),
    SelfTrainingClassifier(model()),
]


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize("step", GO_BY_RESULTS, ids=lambda step: type(step).__name__)
def test_an_adaptive_step_is_refused_before_the_charge(step):
    accountant = PrivacyAccountant()
    nested = make_pipeline(step)
    for last, path in ((step, "last"), (nested, f"last__{nested.steps[0][0]}")):
        pipe = PrivatePipeline([("bins", bins()), ("last", last)], accountant=accountant)
        with pytest.raises(ValueError, match=f"in step {path!r} cannot contain private estimators"):
            pipe.fit(X, Y)
        with pytest.raises(ValueError, match="Put the PrivatePipeline into"):
            pipe.rehearse(X, Y)
    assert len(accountant) == 0


def test_all_adaptive_steps_are_tested():
    assert {type(step).__name__ for step in GO_BY_RESULTS} == ADAPTIVE


# Errors -----------------------------------------------------------------------------


class Telling(TransformerMixin, BaseEstimator):
    """Fails with a record in its message, in the given one of its fits."""

    fits = 0

    def __init__(self, error=ValueError, fails_at=1):
        self.error = error
        self.fails_at = fails_at

    def fit(self, X, y=None):
        type(self).fits += 1
        if type(self).fits == self.fails_at:
            raise self.error(f"what is {SECRET}?")
        return self

    def transform(self, X):
        return X


def everything_told(error):
    """All that is printed of an error, and of those that it knows of."""
    captured = "".join(traceback.format_exception(error))
    assert error.__context__ is None
    assert error.__cause__ is None
    return captured + repr(error) + repr(vars(error))


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize(
    ("position", "fails_at", "outcome", "charges"),
    [
        (0, 1, "Nothing was charged", 0),
        (1, 1, "Nothing was charged", 0),
        (1, 2, "Any charge remains in the ledger", 1),
    ],
)
@pytest.mark.parametrize(
    ("error", "raised"),
    [(ValueError, ValueError), (KeyError, ValueError), (TypeError, TypeError)],
)
def test_errors_of_other_steps_are_reported_without_their_message(
    position, fails_at, outcome, charges, error, raised
):
    accountant = PrivacyAccountant()
    Telling.fits = 0
    steps = [("bins", bins()), ("model", model())]
    steps.insert(position, ("telling", Telling(error, fails_at)))
    pipe = PrivatePipeline(steps, accountant=accountant)
    with pytest.raises(raised) as caught:
        pipe.fit(X, Y)
    captured = everything_told(caught.value)
    assert "271828" not in captured
    assert f"step 'telling' (Telling) failed with {error.__name__}" in captured
    assert captured.count(outcome) >= 1
    assert len(accountant) == charges


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
def test_the_suggested_way_to_see_an_error_works_without_a_charge():
    Telling.fits = 0
    accountant = PrivacyAccountant()
    steps = [("telling", Telling(KeyError)), ("bins", bins()), ("model", model())]
    pipe = PrivatePipeline(steps, accountant=accountant)
    with pytest.raises(ValueError, match="failed with KeyError") as caught:
        pipe.fit(X, Y)
    (advice,) = re.findall(r"set_params\(.*\)", str(caught.value))
    Telling.fits = 0
    with pytest.raises(KeyError, match=str(SECRET)):
        eval(f"pipe.{advice}").fit(X, Y)
    assert len(accountant) == 0


@pytest.mark.filterwarnings("ignore::skdirdp.PrivacyLeakWarning")
@pytest.mark.parametrize("error", [MemoryError, ImportError, KeyboardInterrupt])
def test_errors_about_the_machine_pass(error):
    Telling.fits = 0
    with pytest.raises(error):
        make_private_pipeline(Telling(error), model()).fit(X, Y)


def test_an_unknown_category_is_not_shown():
    answers = np.array([["yes"], ["no"], ["secret illness"]] * 5)
    pipe = PrivatePipeline(
        [
            ("codes", OrdinalEncoder(categories=[["yes", "no"]])),
            ("model", model(n_categories=2)),
        ]
    )
    with pytest.raises(ValueError, match="unknown") as caught:
        pipe.fit(answers, np.resize(Y, 15))
    captured = everything_told(caught.value)
    assert "secret" not in captured
    assert (
        "step 'codes' (OrdinalEncoder): Found unknown categories in column 0 during transform; "
        "categories must contain all values that may occur"
    ) in captured


def test_the_error_names_a_column_that_does_not_exist():
    columns = ColumnTransformer([("a", bins(), ["a", "d"])])
    pipe = PrivatePipeline([("columns", columns), ("model", model())])
    with pytest.raises(ValueError, match=r"step 'columns' .*: (A given|Some) column"):
        pipe.fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)


def test_errors_that_no_step_raises_are_those_of_scikit_learn():
    with pytest.raises(ValueError, match=r"Pipeline\.fit does not accept the sample_weight"):
        make_private_pipeline(bins(), model()).fit(X, Y, sample_weight=np.ones(N))


def test_errors_of_private_steps_keep_their_message():
    with pytest.raises(ValueError, match=r"^y must contain only labels that are in classes"):
        make_private_pipeline(bins(), model()).fit(X, Y + 5)


def test_the_imputer_that_is_recommended_learns_nothing():
    gaps = np.where(X > 1, np.nan, X)
    with pytest.raises(ValueError, match="NaN") as caught:
        bins().fit(gaps)
    (advice,) = re.findall(r"SimpleImputer\([^)]*\)", str(caught.value))
    imputer = eval(advice, {"SimpleImputer": SimpleImputer})
    assert check_pipeline(make_pipeline(imputer))[0].verdict == "learns nothing"
    pipe = make_private_pipeline(imputer, bins(), model()).fit(gaps, Y)
    assert pipe.privacy_.not_covered == ()
