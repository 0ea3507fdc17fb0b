"""Rules of `check_pipeline` for meta-estimators, compared with their fits.

Each is fitted around an estimator that keeps nothing of the data, on two neighbouring data
sets. Whatever differs between the two is what it adds by itself; and what it hands on has to
be neighbouring data again, or the guarantee of a private estimator inside is not one for the
records that went in.
"""

import warnings
from collections import Counter
from functools import wraps

import joblib
import numpy as np
import pytest
from sklearn import ensemble, feature_selection, model_selection, multiclass
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from skdirdp import DirichletCategoricalNB, PrivacyAccountant, PrivatePipeline, check_pipeline
from skdirdp.pipeline.check import META_ESTIMATORS, SAMPLERS

N = 36
rng = np.random.default_rng(0)
X = rng.integers(4, size=(N, 3))


class Public(TransformerMixin, ClassifierMixin, BaseEstimator):
    """A model that was known before, and a note of the records it is shown."""

    shown: list = []  # noqa: RUF012

    def __init__(self, classes=(0, 1, 2), level=1.0):
        self.classes = classes
        self.level = level

    def fit(self, X, y, sample_weight=None):
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        type(self).shown.append((np.asarray(X), np.asarray(y), weights))
        self.classes_ = np.array(self.classes)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X):
        weights = np.cos(np.arange(X.shape[1] * len(self.classes_)))
        scores = np.exp(self.level * np.asarray(X) @ weights.reshape(X.shape[1], -1))
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def transform(self, X):
        return self.predict_proba(X)


# Labels that the model knows something of, three times as often right as wrong.
_KNOWN = Public().fit(X, None).predict(X)
THREE = np.where(np.arange(N) % 4 == 0, rng.integers(3, size=N), _KNOWN)
TWO = np.minimum(THREE, 1)


def importances(model):
    """Released mean of each column."""
    if isinstance(model, Public):
        return np.arange(model.n_features_in_)
    return np.array([np.ptp(table, axis=0).sum() for table in model.feature_log_prob_])


def binary(inner):
    return clone(inner).set_params(classes=[0, 1])


def grid(inner):
    return {"level": [1.0, 2.0]} if isinstance(inner, Public) else {"alpha": [1.0, 2.0]}


def halves(inner, search, **options):
    return search(inner, grid(inner), cv=2, factor=2, random_state=0, **options)


TWO_OUTPUTS = "two outputs"
UNLABELLED = "unlabelled"
#: Each kind, how it is made around an estimator, the labels it is fitted to, and how many
#: fits of the estimator that is: a number, or a function of what was fitted.
CASES = {
    "ColumnTransformer": (lambda inner: ColumnTransformer([("a", inner, [0, 1])]), THREE, 1),
    "FeatureUnion": (lambda inner: FeatureUnion([("a", inner), ("b", clone(inner))]), THREE, 2),
    "Pipeline": (lambda inner: make_pipeline(FunctionTransformer(), inner), THREE, 1),
    "FixedThresholdClassifier": (
        lambda inner: model_selection.FixedThresholdClassifier(binary(inner), threshold=0.4),
        TWO,
        1,
    ),
    "MultiOutputClassifier": (lambda inner: MultiOutputClassifier(inner), TWO_OUTPUTS, 2),
    "ClassifierChain": (lambda inner: ClassifierChain(inner), TWO_OUTPUTS, 2),
    "ClassifierChain, cv": (lambda inner: ClassifierChain(inner, cv=2), TWO_OUTPUTS, 2 + 2),
    "RFE": (
        lambda inner: feature_selection.RFE(
            inner, n_features_to_select=1, importance_getter=importances
        ),
        THREE,
        3,
    ),
    "SelectFromModel": (
        lambda inner: feature_selection.SelectFromModel(inner, importance_getter=importances),
        THREE,
        1,
    ),
    "VotingClassifier": (
        lambda inner: ensemble.VotingClassifier([("a", inner), ("b", clone(inner))]),
        THREE,
        2,
    ),
    "OneVsRestClassifier": (
        lambda inner: multiclass.OneVsRestClassifier(binary(inner)),
        THREE,
        3,
    ),
    "OneVsOneClassifier": (lambda inner: multiclass.OneVsOneClassifier(binary(inner)), THREE, 3),
    "OutputCodeClassifier": (
        lambda inner: multiclass.OutputCodeClassifier(binary(inner), code_size=2, random_state=0),
        THREE,
        4,  # of the six columns of its code two are constant
    ),
    "BaggingClassifier": (
        lambda inner: ensemble.BaggingClassifier(inner, 3, random_state=0),
        THREE,
        3,
    ),
    "BaggingClassifier, without bootstrap": (
        lambda inner: ensemble.BaggingClassifier(inner, 3, bootstrap=False, random_state=0),
        THREE,
        3,
    ),
    "AdaBoostClassifier": (
        lambda inner: ensemble.AdaBoostClassifier(inner, n_estimators=3, random_state=0),
        THREE,
        # A last one that is no better than chance is fitted and forgotten.
        lambda fitted: {len(fitted.estimators_), len(fitted.estimators_) + 1},
    ),
    "CalibratedClassifierCV": (lambda inner: CalibratedClassifierCV(inner, cv=2), THREE, 2),
    "StackingClassifier": (
        lambda inner: ensemble.StackingClassifier([("a", inner)], cv=2),
        THREE,
        1 + 2,
    ),
    "SelfTrainingClassifier": (
        lambda inner: SelfTrainingClassifier(inner, threshold=0.5, max_iter=2),
        UNLABELLED,
        lambda fitted: {fitted.n_iter_, fitted.n_iter_ + 1},
    ),
    "TunedThresholdClassifierCV": (
        lambda inner: model_selection.TunedThresholdClassifierCV(binary(inner), cv=2),
        TWO,
        2 + 1,
    ),
    "GridSearchCV": (
        lambda inner: model_selection.GridSearchCV(inner, grid(inner), cv=2),
        THREE,
        2 * 2 + 1,
    ),
    "RandomizedSearchCV": (
        lambda inner: model_selection.RandomizedSearchCV(
            inner, grid(inner), n_iter=2, cv=2, random_state=0
        ),
        THREE,
        2 * 2 + 1,
    ),
    "HalvingGridSearchCV": (
        lambda inner: halves(inner, model_selection.HalvingGridSearchCV),
        THREE,
        lambda fitted: {2 * sum(fitted.n_candidates_) + 1},
    ),
    "HalvingRandomSearchCV": (
        lambda inner: halves(inner, model_selection.HalvingRandomSearchCV, n_candidates=2),
        THREE,
        lambda fitted: {2 * sum(fitted.n_candidates_) + 1},
    ),
    "RFECV": (
        lambda inner: feature_selection.RFECV(inner, cv=2, importance_getter=importances),
        THREE,
        # In two folds with three, two and one column; until the best number, and with that.
        lambda fitted: {2 * 3 + (4 - fitted.n_features_) + 1},
    ),
    "SequentialFeatureSelector": (
        lambda inner: feature_selection.SequentialFeatureSelector(
            inner, n_features_to_select=1, cv=2
        ),
        THREE,
        3 * 2,
    ),
}  # fmt: skip


def target_of(labels):
    if isinstance(labels, str) and labels == TWO_OUTPUTS:
        return np.column_stack([TWO, TWO[::-1]])
    if isinstance(labels, str):
        return np.where(np.arange(N) % 4 == 3, -1, THREE)
    return labels


def neighbours(labels):
    """Data, and others in which one record has another answer, another label, or a new one."""
    target = target_of(labels)
    yield X, target
    for record in range(0, N, 5):
        other = X.copy()
        other[record] = 3 - X[record]
        yield other, target
        moved = target.copy()
        moved[record] = 1 - np.minimum(moved[record], 1)
        yield X, moved
    if target.max() == 2:
        new = target.copy()
        new[0] = 7
        yield X, new


def can_be_folded(kind, target):
    """Whether there are two records of each label, for those that refuse fewer."""
    return kind != "CalibratedClassifierCV" or np.unique(target, return_counts=True)[1].min() > 1


def rows_of(shown):
    """The records of one fit, with how often each is there."""
    columns = (np.column_stack([X, y, weights]) for X, y, weights in [shown])
    return Counter(map(tuple, np.round(next(columns), 12).tolist()))


def are_neighbours(one, other):
    """Whether at most one record is replaced."""
    rows, others = rows_of(one), rows_of(other)
    return len(one[0]) == len(other[0]) and (rows - others).total() <= 1


def are_all_neighbours(shown, others):
    return len(shown) == len(others) and all(map(are_neighbours, shown, others))


def observed(meta, data, target):
    """Return the state of a fit without times, and the records that inner estimators receive."""
    Public.shown = []
    fitted = clone(meta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(data, target)
    kept = {name: value for name, value in vars(fitted).items() if "time" not in name}
    if "cv_results_" in kept:
        kept["cv_results_"] = [
            np.asarray(values)
            for name, values in kept["cv_results_"].items()
            if "score" in name and "time" not in name
        ]
    return joblib.hash(kept), [*Public.shown]


def says_that_it_keeps_the_guarantee(meta):
    return not any(
        finding.verdict == "leaks"
        for finding in check_pipeline(make_pipeline(meta))
        if finding.estimator != "Public"
    )


@pytest.mark.parametrize("kind", CASES)
def test_rules_of_meta_estimators_describe_their_fit(kind):
    make, labels, _ = CASES[kind]
    meta = make(Public())
    first, *rest = neighbours(labels)
    kept, shown = observed(meta, *first)
    assert observed(meta, *first)[0] == kept  # only the data differ

    def keeps(neighbour):
        other, records = observed(meta, *neighbour)
        return other == kept and are_all_neighbours(shown, records)

    found = all(keeps(each) for each in rest if can_be_folded(kind, each[1]))
    assert found is says_that_it_keeps_the_guarantee(meta)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", CASES)
def test_every_fit_inside_a_meta_estimator_is_charged(kind, monkeypatch):
    make, labels, expected = CASES[kind]
    fits = []
    fit = DirichletCategoricalNB.fit

    @wraps(fit)
    def noted(self, *args, **kwargs):
        fits.append(fit(self, *args, **kwargs))
        return fits[-1]

    monkeypatch.setattr(DirichletCategoricalNB, "fit", noted)
    # So that it can be part of a ColumnTransformer or a FeatureUnion.
    monkeypatch.setattr(
        DirichletCategoricalNB, "transform", lambda self, X: self.predict_proba(X), raising=False
    )
    accountant = PrivacyAccountant()
    # Hardly any noise: AdaBoost refuses a model that is worse than chance.
    inner = DirichletCategoricalNB(
        classes=[0, 1, 2],
        n_categories=4,
        accountant=accountant,
        epsilon=1e3,
        mechanism="gaussian",
        n_samples=N,
    )
    meta = make(inner).fit(X, target_of(labels))
    assert len(accountant) == len(fits)
    assert len(fits) in (expected(meta) if callable(expected) else {expected})


def test_all_meta_estimators_of_the_table_are_run():
    run = {kind.partition(",")[0] for kind in CASES}
    assert set(META_ESTIMATORS) - run == {
        "PrivatePipeline",  # tests/test_pipeline.py
        "TransformedTargetRegressor",  # below: no private estimator is a regressor
    }


def test_a_bootstrap_shows_a_record_several_times():
    make, _, _ = CASES["BaggingClassifier"]
    _, shown = observed(make(Public()), np.arange(N).reshape(-1, 1), THREE)
    # As rows, or by their weights.
    assert max(max(*rows_of(each).values(), each[2].max()) for each in shown) > 1
    (finding, *_) = check_pipeline(make_pipeline(make(Public())))
    assert "one counts as many" in finding.reason


def test_one_versus_one_reveals_label_counts():
    make, _, _ = CASES["OneVsOneClassifier"]
    sizes = []
    for labels in (THREE, np.where(np.arange(N) == 0, 1, THREE)):
        _, shown = observed(make(Public()), X, labels)
        sizes.append([len(each[0]) for each in shown])
    assert sizes[0] != sizes[1]


def test_transformed_targets_follow_the_rule_of_their_transformer():
    """Only values learnt from the target differ, and only if something is learnt."""
    for transformer, learns in ((None, False), (StandardScaler(), True)):
        meta = TransformedTargetRegressor(Public(), transformer=transformer)
        kept = {observed(meta, X, target)[0] for _, target in neighbours(THREE)}
        assert (len(kept) > 1) is learns
        assert says_that_it_keeps_the_guarantee(meta) is not learns


# Tools around scikit-learn ---------------------------------------------------------


def test_samplers_of_imbalanced_learn_show_a_record_several_times_or_move_others():
    pytest.importorskip("imblearn", reason="needs imbalanced-learn")
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from imblearn.pipeline import Pipeline as SamplingPipeline
    from imblearn.under_sampling import RandomUnderSampler

    uneven = np.repeat([0, 1], [N - 6, 6])
    changed = X.copy()
    changed[-1] = 3 - changed[-1]
    relabelled = np.where(np.arange(N) == 0, 1, uneven)
    for sampler in (
        RandomOverSampler(random_state=0),
        SMOTE(random_state=0, k_neighbors=3),
        RandomUnderSampler(random_state=0),
    ):
        pipe = SamplingPipeline([("sampler", sampler), ("model", Public())])
        (finding, _) = check_pipeline(pipe)
        assert finding.verdict == "leaks"
        assert finding.reason != "is not known to learn nothing from the data"
        shown = [observed(pipe, *each)[1][0] for each in ((X, uneven), (changed, uneven))]
        shown.append(observed(pipe, X, relabelled)[1][0])
        assert not all(are_neighbours(shown[0], other) for other in shown[1:])


def test_all_samplers_of_imbalanced_learn_are_known():
    pytest.importorskip("imblearn", reason="needs imbalanced-learn")
    from imblearn.utils.testing import all_estimators

    samplers = {name for name, _ in all_estimators(type_filter="sampler")}
    assert samplers == set(SAMPLERS)


def test_autolog_of_mlflow_writes_the_exact_score_of_a_private_model(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.sklearn.autolog(log_models=False, log_datasets=False)
    try:
        with mlflow.start_run() as run:
            model = DirichletCategoricalNB(classes=[0, 1, 2], n_categories=4)
            pipe = PrivatePipeline([("model", model)]).fit(X, THREE)
        logged = mlflow.get_run(run.info.run_id).data.metrics
    finally:
        mlflow.sklearn.autolog(disable=True)
    # Of the records themselves: no noise was added to it.
    assert pipe.score(X, THREE) in logged.values()
