"""What the estimators of scikit-learn learn from data.

A rule is what an estimator learns, as the end of the sentence "it ...", or None if it learns
nothing; or a function of the estimator that says either, where that depends on parameters.
"""

from collections.abc import Callable
from typing import Any

Rule = str | None | Callable[[Any], str | None]


# Classes of the same name elsewhere may do something else, and so may subclasses.
_PACKAGES = frozenset({"sklearn", "imblearn", __name__.partition(".")[0]})


def is_known(step: Any) -> bool:
    """Whether it is an estimator of a package that the names here are of."""
    return type(step).__module__.partition(".")[0] in _PACKAGES


def _unless_given(parameter: str, learns: str) -> Rule:
    return lambda step: learns if getattr(step, parameter, None) is None else None


def _count_vectorizer(step: Any) -> str | None:
    return "learns the vocabulary" if step.vocabulary is None else None


def _tfidf_vectorizer(step: Any) -> str | None:
    return _count_vectorizer(step) or _tfidf(step)


def _tfidf(step: Any) -> str | None:
    return "learns document frequencies" if step.use_idf else None


def _encoder(step: Any) -> str | None:
    if isinstance(step.categories, str):
        return "learns the categories"
    if step.min_frequency is not None or step.max_categories is not None:
        return "learns which categories are rare"
    return None


def _standard_scaler(step: Any) -> str | None:
    if step.with_mean or step.with_std:
        return "learns means and deviations"
    return "keeps the number of records"


def _robust_scaler(step: Any) -> str | None:
    return "learns quantiles" if step.with_centering or step.with_scaling else None


def _spline_transformer(step: Any) -> str | None:
    return "learns the knots" if isinstance(step.knots, str) else None


def _simple_imputer(step: Any) -> str | None:
    if step.strategy != "constant":
        return f"learns the {step.strategy} of each column"
    if step.add_indicator:
        return "learns which columns have missing values"
    if not step.keep_empty_features:
        return "drops columns in which every value is missing"
    return None


def _missing_indicator(step: Any) -> str | None:
    return None if step.features == "all" else "learns which columns have missing values"


def _rbf_sampler(step: Any) -> str | None:
    return "learns the variance of the data" if isinstance(step.gamma, str) else None


def _random_projection(step: Any) -> str | None:
    return "takes its size from the number of records" if step.n_components == "auto" else None


def _bagging(step: Any) -> str | None:
    if step.bootstrap:
        return _REPEATS
    return _LABELS


_REPEATS = "repeats records or makes new ones of several, by which one counts as many"
_LEAVES_OUT = "leaves out records by what others are"
_SELECTS = "chooses columns by the data"
_PROJECTS = "learns directions of the data"
_KEEPS_RECORDS = "keeps the records themselves"
_CLUSTERS = "learns clusters"
_LABELS = "takes the labels from the data"
_EXACT_ROWS = "fits or chooses on exact records beside the private model"

#: Transformers by the name of their class.
TRANSFORMERS: dict[str, Rule] = {
    "AdditiveChi2Sampler": None,
    "Binarizer": None,
    "FeatureHasher": None,
    "FrozenEstimator": None,
    "FunctionTransformer": None,
    "HashingVectorizer": None,
    "Normalizer": None,
    "PolynomialCountSketch": None,
    "PolynomialFeatures": None,
    "SkewedChi2Sampler": None,
    "CountVectorizer": _count_vectorizer,
    "GaussianRandomProjection": _random_projection,
    "MissingIndicator": _missing_indicator,
    "MultiLabelBinarizer": _unless_given("classes", "learns the labels"),
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "RBFSampler": _rbf_sampler,
    "RobustScaler": _robust_scaler,
    "SimpleImputer": _simple_imputer,
    "SparseRandomProjection": _random_projection,
    "SplineTransformer": _spline_transformer,
    "StandardScaler": _standard_scaler,
    "TfidfTransformer": _tfidf,
    "TfidfVectorizer": _tfidf_vectorizer,
    "BernoulliRBM": "learns weights",
    "Birch": _CLUSTERS,
    "BisectingKMeans": _CLUSTERS,
    "CCA": _PROJECTS,
    "DictVectorizer": "learns the names of the features",
    "DictionaryLearning": "learns a dictionary",
    "FactorAnalysis": _PROJECTS,
    "FastICA": _PROJECTS,
    "FeatureAgglomeration": _CLUSTERS,
    "GenericUnivariateSelect": _SELECTS,
    "IncrementalPCA": _PROJECTS,
    "Isomap": _KEEPS_RECORDS,
    "IterativeImputer": "learns a model of each column",
    "KBinsDiscretizer": "learns the bounds or quantiles of each column",
    "KMeans": _CLUSTERS,
    "KNNImputer": _KEEPS_RECORDS,
    "KNeighborsTransformer": _KEEPS_RECORDS,
    "KernelCenterer": "learns means",
    "KernelPCA": _KEEPS_RECORDS,
    "LabelBinarizer": "learns the labels",
    "LabelEncoder": "learns the labels",
    "LatentDirichletAllocation": "learns topics",
    "LinearDiscriminantAnalysis": _PROJECTS,
    "LocallyLinearEmbedding": _KEEPS_RECORDS,
    "MaxAbsScaler": "learns the largest values",
    "MinMaxScaler": "learns the smallest and largest values",
    "MiniBatchDictionaryLearning": "learns a dictionary",
    "MiniBatchKMeans": _CLUSTERS,
    "MiniBatchNMF": "learns components",
    "MiniBatchSparsePCA": _PROJECTS,
    "NMF": "learns components",
    "NeighborhoodComponentsAnalysis": _PROJECTS,
    "Nystroem": _KEEPS_RECORDS,
    "PCA": _PROJECTS,
    "PLSCanonical": _PROJECTS,
    "PLSRegression": _PROJECTS,
    "PLSSVD": _PROJECTS,
    "PowerTransformer": "learns exponents and means",
    "QuantileTransformer": "learns quantiles",
    "RadiusNeighborsTransformer": _KEEPS_RECORDS,
    "RandomTreesEmbedding": "learns trees",
    "SelectFdr": _SELECTS,
    "SelectFpr": _SELECTS,
    "SelectFwe": _SELECTS,
    "SelectKBest": _SELECTS,
    "SelectPercentile": _SELECTS,
    "SparsePCA": _PROJECTS,
    "TargetEncoder": "learns means of the target",
    "TruncatedSVD": _PROJECTS,
    "VarianceThreshold": _SELECTS,
}

#: Samplers of imbalanced-learn.
SAMPLERS: dict[str, Rule] = {
    "ADASYN": _REPEATS,
    "AllKNN": _LEAVES_OUT,
    "BorderlineSMOTE": _REPEATS,
    "ClusterCentroids": _CLUSTERS,
    "CondensedNearestNeighbour": _LEAVES_OUT,
    "EditedNearestNeighbours": _LEAVES_OUT,
    "FunctionSampler": "makes records by a function of all of them",
    "InstanceHardnessThreshold": _LEAVES_OUT,
    "KMeansSMOTE": _REPEATS,
    "NearMiss": _LEAVES_OUT,
    "NeighbourhoodCleaningRule": _LEAVES_OUT,
    "OneSidedSelection": _LEAVES_OUT,
    "RandomOverSampler": _REPEATS,
    "RandomUnderSampler": _LEAVES_OUT,
    "RepeatedEditedNearestNeighbours": _LEAVES_OUT,
    "SMOTE": _REPEATS,
    "SMOTEENN": _REPEATS,
    "SMOTEN": _REPEATS,
    "SMOTENC": _REPEATS,
    "SMOTETomek": _REPEATS,
    "SVMSMOTE": _REPEATS,
    "TomekLinks": _LEAVES_OUT,
}

#: Estimators that hold others, by the name of their class: what they do with the data beside
#: fitting those. None: a private estimator inside keeps its guarantee, once for each time
#: that it is fitted.
META_ESTIMATORS: dict[str, Rule] = {
    "ClassifierChain": lambda step: _EXACT_ROWS if step.cv is not None else None,
    "ColumnTransformer": None,
    "FeatureUnion": None,
    "FixedThresholdClassifier": None,
    "MultiOutputClassifier": None,
    "OneVsRestClassifier": _LABELS,
    "OutputCodeClassifier": _LABELS,
    "Pipeline": None,
    "PrivatePipeline": None,
    "RFE": None,
    "SelectFromModel": None,
    "TransformedTargetRegressor": None,
    "VotingClassifier": _LABELS,
    "AdaBoostClassifier": "keeps exact errors and weighs each record by those of all others",
    "BaggingClassifier": _bagging,
    "CalibratedClassifierCV": "fits the calibration on exact records",
    "GridSearchCV": "keeps exact scores, and chooses by them",
    "HalvingGridSearchCV": "keeps exact scores, and chooses by them",
    "HalvingRandomSearchCV": "keeps exact scores, and chooses by them",
    "OneVsOneClassifier": "fits on the records of two labels, whose number the labels tell",
    "RFECV": "chooses columns by exact scores",
    "RandomizedSearchCV": "keeps exact scores, and chooses by them",
    "SelfTrainingClassifier": "keeps the labels and the turn of each record",
    "SequentialFeatureSelector": "chooses columns by exact scores",
    "StackingClassifier": "fits its last estimator on predictions for exact records",
    "TunedThresholdClassifierCV": "chooses the threshold on exact records",
}


def _may_be_sparse(step: Any) -> bool:
    if any(getattr(step, name, False) is True for name in ("sparse_output", "sparse")):
        return True
    if getattr(step, "encode", None) == "onehot" or type(step).__name__ in _SPARSE:
        return True
    inside = getattr(step, "steps", None) or getattr(step, "transformer_list", None)
    inside = inside or getattr(step, "transformers", None) or ()
    return any(_may_be_sparse(each[1]) for each in inside)


_SPARSE = frozenset(
    {
        "CountVectorizer",
        "FeatureHasher",
        "HashingVectorizer",
        "PrivateCountVectorizer",
        "TfidfTransformer",
        "TfidfVectorizer",
    }
)


def _seen_by_column_transformer(step: Any) -> str | None:
    if step.sparse_threshold > 0 and _may_be_sparse(step):
        return "compares the density of the data with sparse_threshold"
    return None


def _seen_by_function_transformer(step: Any) -> str | None:
    if step.check_inverse and step.func is not None and step.inverse_func is not None:
        return "tries on the data whether its functions are inverse"
    return None


def _seen_by_imputer(step: Any) -> str | None:
    if step.strategy == "constant" and step.fill_value is None:
        return "chooses the value that it fills in by the types of the data"
    return None


def _seen_by_encoder(step: Any) -> str | None:
    return "warns of unknown categories" if step.handle_unknown == "warn" else None


#: What steps that learn nothing tell of the data all the same where scikit-learn fits them
#: to the records. A `PrivatePipeline` fits them to made-up ones.
SEEN_BY_FIT: dict[str, Rule] = {
    "ColumnTransformer": _seen_by_column_transformer,
    "FunctionTransformer": _seen_by_function_transformer,
    "OneHotEncoder": _seen_by_encoder,
    "SimpleImputer": _seen_by_imputer,
}

#: Of those, the ones that fit what is inside side by side: nothing that one releases decides
#: on the data of another.
SIDE_BY_SIDE: dict[str, bool | Callable[[Any], bool]] = {
    "BaggingClassifier": True,
    "CalibratedClassifierCV": True,
    "ClassifierChain": lambda step: step.cv is None,
    "ColumnTransformer": True,
    "FeatureUnion": True,
    "FixedThresholdClassifier": True,
    "MultiOutputClassifier": True,
    "OneVsOneClassifier": True,
    "OneVsRestClassifier": True,
    "OutputCodeClassifier": True,
    "VotingClassifier": True,
}

#: The ones that fit what is inside to all rows, in their order: ids of persons hold inside.
KEEP_ROWS = frozenset(
    {
        "ClassifierChain",
        "ColumnTransformer",
        "FeatureUnion",
        "FixedThresholdClassifier",
        "MultiOutputClassifier",
        "OneVsRestClassifier",
        "OutputCodeClassifier",
        "Pipeline",
        "PrivatePipeline",
        "RFE",
        "SelectFromModel",
        "TransformedTargetRegressor",
        "VotingClassifier",
    }
)

#: And the ones that choose by results what they fit next, or how often.
ADAPTIVE = frozenset(
    {
        "AdaBoostClassifier",
        "GridSearchCV",
        "HalvingGridSearchCV",
        "HalvingRandomSearchCV",
        "RFECV",
        "RandomizedSearchCV",
        "SelfTrainingClassifier",
    }
)
