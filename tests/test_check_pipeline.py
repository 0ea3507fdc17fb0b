"""Rules of `check_pipeline`, compared with fits to two neighbouring data sets."""

import warnings

import joblib
import numpy as np
import pytest
from sklearn import (
    cluster,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    impute,
    kernel_approximation,
    manifold,
    neighbors,
    neural_network,
    preprocessing,
    random_projection,
)
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction import text
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.utils import all_estimators

from skdirdp import (
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateDirichletPosterior,
    PrivatePipeline,
    check_pipeline,
)
from skdirdp.pipeline import register_step
from skdirdp.pipeline.check import META_ESTIMATORS, TRANSFORMERS

N = 40
rng = np.random.default_rng(0)
NUMBERS = rng.gamma(2.0, size=(N, 4))
Y = rng.integers(3, size=N)
# Of the second column, 10 are 3 and 9 are 2, until the first record turns from 3 to 2.
CODES = np.column_stack([rng.integers(1, 4, size=N), np.repeat([3, 2, 1], [10, 9, N - 19])])
# Only the first record decides whether the second column has a gap, and the last anything else.
GAPS = np.where(NUMBERS > 3, np.nan, NUMBERS)
GAPS[:, 1] = NUMBERS[:, 1]
GAPS[1:, 3] = np.nan
GAPS[0, 3] = 1.0
WORDS = [" ".join(rng.choice(["a1", "b1", "c1"], size=4)) for _ in range(N)]
DICTS = [{"a": 1.0, "b": 2.0} for _ in range(N)]
SETS = [("a", "b") if k % 2 else ("a",) for k in range(N)]
TARGETS = Y.copy()
SQUARE = NUMBERS @ NUMBERS.T

#: The odd record that stands for the first one in a neighbour.
ODD = {
    "numbers": np.array([90.0, 0.01, 55.0, 7.0]),
    "codes": np.array([0, 2]),
    "gaps": np.array([500.0, np.nan, 2.0, np.nan]),
    "words": "secret secret a1",
    "dicts": {"secret": 1.0},
    "sets": ("secret",),
    "labels": 7,
}
DATA = {
    "numbers": NUMBERS,
    "codes": CODES,
    "gaps": GAPS,
    "words": WORDS,
    "dicts": DICTS,
    "sets": SETS,
    "labels": Y,
}

pp, fs, dc = preprocessing, feature_selection, decomposition
#: Transformers, the data they are fitted to, and whether they learn nothing.
CASES = [
    (kernel_approximation.AdditiveChi2Sampler(), "numbers", True),
    (pp.Binarizer(), "numbers", True),
    (feature_extraction.FeatureHasher(8), "dicts", True),
    (pp.FunctionTransformer(np.log1p), "numbers", True),
    (text.HashingVectorizer(n_features=16), "words", True),
    (pp.Normalizer(), "numbers", True),
    (kernel_approximation.PolynomialCountSketch(random_state=0), "numbers", True),
    (pp.PolynomialFeatures(), "numbers", True),
    (kernel_approximation.SkewedChi2Sampler(random_state=0), "numbers", True),
    (kernel_approximation.RBFSampler(gamma=1.0, random_state=0), "numbers", True),
    (kernel_approximation.RBFSampler(gamma="scale", random_state=0), "numbers", False),
    (text.CountVectorizer(vocabulary=["a1", "b1"]), "words", True),
    (text.CountVectorizer(), "words", False),
    (text.TfidfVectorizer(), "words", False),
    (text.TfidfVectorizer(vocabulary=["a1", "b1"]), "words", False),
    (text.TfidfVectorizer(vocabulary=["a1", "b1"], use_idf=False), "words", True),
    (text.TfidfTransformer(), "codes", False),
    (text.TfidfTransformer(use_idf=False), "codes", True),
    (pp.OneHotEncoder(), "codes", False),
    (pp.OneHotEncoder(categories=[range(4)] * 2), "codes", True),
    (pp.OneHotEncoder(categories=[range(4)] * 2, drop="first"), "codes", True),
    (pp.OneHotEncoder(categories=[range(4)] * 2, min_frequency=1), "codes", False),
    (pp.OneHotEncoder(categories=[range(4)] * 2, max_categories=3), "codes", False),
    (pp.OrdinalEncoder(), "codes", False),
    (pp.OrdinalEncoder(categories=[range(4)] * 2), "codes", True),
    (pp.OrdinalEncoder(categories=[range(4)] * 2, min_frequency=1), "codes", False),
    (pp.MultiLabelBinarizer(), "sets", False),
    (pp.MultiLabelBinarizer(classes=["a", "b", "secret"]), "sets", True),
    (random_projection.GaussianRandomProjection(2, random_state=0), "numbers", True),
    (random_projection.SparseRandomProjection(2, random_state=0), "numbers", True),
    (impute.SimpleImputer(), "gaps", False),
    (impute.SimpleImputer(strategy="median"), "gaps", False),
    (
        impute.SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
        "gaps",
        True,
    ),
    (
        impute.SimpleImputer(
            strategy="constant", fill_value=0.0, keep_empty_features=True, add_indicator=True
        ),
        "gaps",
        False,
    ),
    (impute.MissingIndicator(features="all"), "gaps", True),
    (impute.MissingIndicator(), "gaps", False),
    (impute.KNNImputer(), "gaps", False),
    (impute.IterativeImputer(max_iter=2, random_state=0), "gaps", False),
    (pp.SplineTransformer(knots=np.linspace([0] * 4, [99] * 4, 4)), "numbers", True),
    (pp.SplineTransformer(), "numbers", False),
    (pp.StandardScaler(), "numbers", False),
    (pp.StandardScaler(with_mean=False, with_std=False), "numbers", False),
    (pp.RobustScaler(), "numbers", False),
    (pp.RobustScaler(with_centering=False, with_scaling=False), "numbers", True),
    (pp.MinMaxScaler(), "numbers", False),
    (pp.MaxAbsScaler(), "numbers", False),
    (pp.KBinsDiscretizer(3), "numbers", False),
    (pp.KBinsDiscretizer(3, strategy="uniform"), "numbers", False),
    (pp.PowerTransformer(), "numbers", False),
    (pp.QuantileTransformer(n_quantiles=20), "numbers", False),
    (pp.TargetEncoder(random_state=0), "codes", False),
    (pp.LabelEncoder(), "labels", False),
    (pp.LabelBinarizer(), "labels", False),
    (pp.KernelCenterer(), "square", False),
    (feature_extraction.DictVectorizer(), "dicts", False),
    (fs.VarianceThreshold(), "numbers", False),
    (fs.SelectKBest(fs.f_classif, k=2), "numbers", False),
    (fs.SelectPercentile(fs.f_classif), "numbers", False),
    (fs.SelectFpr(), "numbers", False),
    (fs.SelectFdr(), "numbers", False),
    (fs.SelectFwe(), "numbers", False),
    (fs.GenericUnivariateSelect(), "numbers", False),
    (dc.PCA(2), "numbers", False),
    (dc.IncrementalPCA(2), "numbers", False),
    (dc.TruncatedSVD(2, random_state=0), "numbers", False),
    (dc.NMF(2, random_state=0, max_iter=500), "numbers", False),
    (dc.FastICA(2, random_state=0), "numbers", False),
    (dc.FactorAnalysis(2), "numbers", False),
    (dc.KernelPCA(2), "numbers", False),
    (dc.LatentDirichletAllocation(2, random_state=0), "numbers", False),
    (discriminant_analysis.LinearDiscriminantAnalysis(), "numbers", False),
    (kernel_approximation.Nystroem(n_components=30, random_state=0), "numbers", False),
    (cluster.KMeans(2, random_state=0), "numbers", False),
    (cluster.FeatureAgglomeration(2), "numbers", False),
    (cluster.Birch(n_clusters=2), "numbers", False),
    (neural_network.BernoulliRBM(2, random_state=0), "unit", False),
    (manifold.Isomap(n_neighbors=20), "numbers", False),
    (neighbors.KNeighborsTransformer(), "numbers", False),
    (neighbors.NeighborhoodComponentsAnalysis(random_state=0, max_iter=3), "numbers", False),
    (ensemble.RandomTreesEmbedding(3, random_state=0), "numbers", False),
    (cross_decomposition.PLSRegression(), "numbers", False),
    (FrozenEstimator(pp.StandardScaler().fit(NUMBERS)), "numbers", True),
]


ONLY_LABELS = (pp.LabelBinarizer, pp.LabelEncoder, pp.MultiLabelBinarizer)


def learnt(estimator, data, target):
    """A digest of everything that a fit keeps."""
    fitted = clone(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(estimator, ONLY_LABELS):
            fitted.fit(data)
        else:
            fitted.fit(data, target)
    return joblib.hash(vars(fitted))


def neighbours(kind):
    """The data, and others in which one record is replaced, or left out."""
    if kind == "square":
        other = np.vstack([ODD["numbers"], NUMBERS[1:]])
        return [(SQUARE, Y), (other @ other.T, Y)]
    if kind == "unit":
        return [(NUMBERS / 100, Y), (np.vstack([ODD["numbers"], NUMBERS[1:]]) / 100, Y)]
    data = DATA[kind]
    if isinstance(data, list):
        return [(data, Y), ([ODD[kind], *data[1:]], Y), (data[1:], Y[1:])]
    other = data.copy()
    other[0] = ODD[kind]
    return [(data, Y), (other, Y), (data[1:], Y[1:])]


@pytest.mark.parametrize(
    ("estimator", "kind", "learns_nothing"),
    CASES,
    ids=[f"{type(case[0]).__name__}-{number}" for number, case in enumerate(CASES)],
)
def test_steps_that_the_check_calls_leaking_depend_on_one_record(estimator, kind, learns_nothing):
    (finding,) = check_pipeline(Pipeline([("step", estimator)]))
    assert finding.verdict == ("learns nothing" if learns_nothing else "leaks")
    assert bool(finding.reason) is not learns_nothing
    first, *others = (learnt(estimator, *each) for each in neighbours(kind))
    assert all(other == first for other in others) is learns_nothing


@pytest.mark.filterwarnings("ignore")
def test_a_constant_imputer_may_drop_a_column_that_one_record_decides_on():
    """New versions of scikit-learn do so by default; the rule is the same for all versions."""
    imputer = impute.SimpleImputer(strategy="constant", fill_value=0.0)
    assert check_pipeline(make_pipeline(imputer))[0].verdict == "leaks"
    kept = clone(imputer).set_params(keep_empty_features=True)
    widths = {kept.fit_transform(data).shape[1] for data, _ in neighbours("gaps")}
    assert widths == {4}


def test_the_cases_are_many_and_of_both_kinds():
    classes = {type(estimator) for estimator, _, _ in CASES}
    assert len(classes) >= 60
    assert sum(learns_nothing for _, _, learns_nothing in CASES) >= 20


def test_every_transformer_of_scikit_learn_is_known():
    """A new transformer needs a rule before it counts as safe."""
    names = {name for name, _ in all_estimators(type_filter="transformer")}
    assert names - set(TRANSFORMERS) - set(META_ESTIMATORS) <= {
        # Counts as leaking, as all unknown classes.
        "IsotonicRegression",
        "PatchExtractor",
        "SelectFromModel",
        "SparseCoder",
        "StackingRegressor",
        "TSNE",
        "VotingRegressor",
    }


def test_unknown_steps_count_as_leaking():
    class Mine(TransformerMixin, BaseEstimator):
        pass

    class Subclass(pp.Normalizer):
        """May do anything."""

    class Normalizer(TransformerMixin, BaseEstimator):
        """Class with the name of a known one."""

    for step in (Mine(), Subclass(), Normalizer(), LogisticRegression()):
        (finding,) = check_pipeline(make_pipeline(step))
        assert finding.verdict == "leaks"
        assert finding.reason == "is not known to learn nothing from the data"


def test_users_can_register_their_classes():
    class Mine(TransformerMixin, BaseEstimator):
        def __init__(self, level=None):
            self.level = level

    register_step(Mine, lambda step: "learns a level" if step.level is None else None)
    assert check_pipeline(make_pipeline(Mine()))[0].reason == "learns a level"
    assert check_pipeline(make_pipeline(Mine(3)))[0].verdict == "learns nothing"
    register_step(Mine, "is out of date")
    assert check_pipeline(make_pipeline(Mine(3)))[0].verdict == "leaks"
    with pytest.raises(TypeError, match="estimator must be a class"):
        register_step(Mine(), None)
    with pytest.raises(TypeError, match="rule must be"):
        register_step(Mine, 3)


def test_private_steps_are_private_unless_they_have_no_noise():
    bins, model = DirichletHistogramTransformer(), DirichletNB()
    assert [finding.verdict for finding in check_pipeline(make_pipeline(bins, model))] == [
        "private"
    ] * 2
    without = DirichletNB(epsilon=np.inf)
    assert check_pipeline(make_pipeline(without))[0].verdict == "leaks"
    # In a private pipeline its own epsilon is not used.
    assert check_pipeline(PrivatePipeline([("model", without)]))[0].verdict == "private"
    nested = make_pipeline(PrivatePipeline([("model", DirichletNB())], epsilon=np.inf))
    for pipe in (nested, nested[0]):
        assert check_pipeline(pipe)[0].verdict == "leaks"
    within = PrivatePipeline([("inner", nested[0])], epsilon=1.0)
    assert check_pipeline(within)[0].verdict == "private"
    weak = PrivateDirichletPosterior(mechanism="ehdl")
    assert check_pipeline(weak)[0].verdict == "leaks"


def test_steps_inside_others_are_found_by_the_names_of_set_params():
    columns = ColumnTransformer(
        [
            ("bins", DirichletHistogramTransformer(), [0]),
            ("scale", pp.StandardScaler(), [1]),
            ("rest", "passthrough", [2]),
        ],
        remainder=pp.MinMaxScaler(),
        sparse_threshold=0,
    )
    union = FeatureUnion([("pca", dc.PCA()), ("inner", make_pipeline(pp.Normalizer()))])
    pipe = Pipeline([("columns", columns), ("union", union), ("last", None)])
    found = {finding.step: finding.verdict for finding in check_pipeline(pipe)}
    assert found == {
        "columns__bins": "private",
        "columns__scale": "leaks",
        "columns__rest": "learns nothing",
        "columns__remainder": "leaks",
        "union__pca": "leaks",
        "union__inner__normalizer": "learns nothing",
        "last": "learns nothing",
    }


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            ColumnTransformer([("a", pp.OneHotEncoder(categories=[[0]]), [0])]),
            "compares the density of the data with sparse_threshold",
        ),
        (
            pp.OneHotEncoder(categories=[[0]], handle_unknown="warn"),
            "warns about unknown categories",
        ),
        (
            pp.FunctionTransformer(np.sqrt, inverse_func=np.square),
            "checks on the data whether its functions are inverse",
        ),
        (
            impute.SimpleImputer(strategy="constant", keep_empty_features=True),
            "chooses the fill value by the types of the data",
        ),
    ],
    ids=["columns", "encoder", "function", "imputer"],
)
def test_leaks_of_a_fit_are_found_outside_of_private_pipelines(step, reason):
    assert check_pipeline(make_pipeline(step))[0].reason == reason
    assert {each.verdict for each in check_pipeline(PrivatePipeline([("step", step)]))} == {
        "learns nothing"
    }


def test_columns_chosen_by_a_function_leak_and_those_chosen_by_type_do_not():
    by_type = ColumnTransformer([("a", "passthrough", make_column_selector(dtype_include=float))])
    by_data = ColumnTransformer([("a", "passthrough", lambda X: [0])])
    assert {finding.verdict for finding in check_pipeline(make_pipeline(by_type))} == {
        "learns nothing"
    }
    assert check_pipeline(make_pipeline(by_data))[0].reason.startswith("chooses columns")


def test_meta_estimators_that_are_known_exist():
    names = {name for name, _ in all_estimators()} | {
        "HalvingGridSearchCV",
        "HalvingRandomSearchCV",
        "PrivatePipeline",
    }
    assert set(META_ESTIMATORS) <= names
    assert set(TRANSFORMERS) <= names | {"LabelBinarizer"}
