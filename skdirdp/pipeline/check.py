"""Check which steps of a pipeline are private, learn nothing from the data, or leak.

A rule says what an estimator learns, as the end of the sentence "it ...", or None if it learns
nothing. A rule that depends on parameters is a function of the estimator.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..base import PrivateEstimator
from ..schema import SchemaEncoder

Rule = str | None | Callable[[Any], str | None]

# Classes with the same name in other packages, and subclasses, may do something else.
_PACKAGES = frozenset({"sklearn", "imblearn", __name__.partition(".")[0]})


def is_known(step: Any) -> bool:
    """Return whether the class of an estimator belongs to a package that the rules cover."""
    return type(step).__module__.partition(".")[0] in _PACKAGES


_LABELS = "takes the labels from the data"
_CLUSTERS = "learns clusters"
_REPEATS = "repeats records or combines several into new ones, so that one counts as many"


def _names(classes: str) -> frozenset[str]:
    return frozenset(classes.split())


def _rules(names: dict[str | None, str]) -> dict[str, Rule]:
    """Return the rule of each class, from the names of the classes with the same rule."""
    return {name: rule for rule, classes in names.items() for name in classes.split()}


def _if(condition: Callable[[Any], Any], learns: str) -> Rule:
    """Return the rule of an estimator that learns something if its parameters say so."""
    return lambda step: learns if condition(step) else None


def _tfidf_vectorizer(step: Any) -> str | None:
    if step.vocabulary is None:
        return "learns the vocabulary"
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


def _simple_imputer(step: Any) -> str | None:
    if step.strategy != "constant":
        return f"learns the {step.strategy} of each column"
    if step.add_indicator:
        return "learns which columns have missing values"
    if not step.keep_empty_features:
        return "drops columns in which every value is missing"
    return None


_RANDOM_PROJECTION = _if(
    lambda step: step.n_components == "auto", "takes its size from the number of records"
)

#: Rules of transformers, by the name of their class.
TRANSFORMERS: dict[str, Rule] = {
    **_rules(
        {
            None: "AdditiveChi2Sampler Binarizer FeatureHasher FrozenEstimator FunctionTransformer "
            "HashingVectorizer Normalizer PolynomialCountSketch PolynomialFeatures "
            "SkewedChi2Sampler",
            _CLUSTERS: "Birch BisectingKMeans FeatureAgglomeration KMeans MiniBatchKMeans",
            "chooses columns by the data": "GenericUnivariateSelect SelectFdr SelectFpr SelectFwe "
            "SelectKBest SelectPercentile VarianceThreshold",
            "keeps the records themselves": "Isomap KNNImputer KNeighborsTransformer KernelPCA "
            "LocallyLinearEmbedding Nystroem RadiusNeighborsTransformer",
            "learns a dictionary": "DictionaryLearning MiniBatchDictionaryLearning",
            "learns a model of each column": "IterativeImputer",
            "learns components": "MiniBatchNMF NMF",
            "learns directions of the data": "CCA FactorAnalysis FastICA IncrementalPCA "
            "LinearDiscriminantAnalysis MiniBatchSparsePCA NeighborhoodComponentsAnalysis PCA "
            "PLSCanonical PLSRegression PLSSVD SparsePCA TruncatedSVD",
            "learns exponents and means": "PowerTransformer",
            "learns means": "KernelCenterer",
            "learns means of the target": "TargetEncoder",
            "learns quantiles": "QuantileTransformer",
            "learns the bounds or quantiles of each column": "KBinsDiscretizer",
            "learns the labels": "LabelBinarizer LabelEncoder",
            "learns the largest values": "MaxAbsScaler",
            "learns the names of the features": "DictVectorizer",
            "learns the smallest and largest values": "MinMaxScaler",
            "learns topics": "LatentDirichletAllocation",
            "learns trees": "RandomTreesEmbedding",
            "learns weights": "BernoulliRBM",
        }
    ),
    "CountVectorizer": _if(lambda step: step.vocabulary is None, "learns the vocabulary"),
    "GaussianRandomProjection": _RANDOM_PROJECTION,
    "MissingIndicator": _if(
        lambda step: step.features != "all", "learns which columns have missing values"
    ),
    "MultiLabelBinarizer": _if(lambda step: step.classes is None, "learns the labels"),
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "RBFSampler": _if(lambda step: isinstance(step.gamma, str), "learns the variance of the data"),
    "RobustScaler": _if(lambda step: step.with_centering or step.with_scaling, "learns quantiles"),
    "SimpleImputer": _simple_imputer,
    "SparseRandomProjection": _RANDOM_PROJECTION,
    "SplineTransformer": _if(lambda step: isinstance(step.knots, str), "learns the knots"),
    "StandardScaler": _standard_scaler,
    "TfidfTransformer": _if(lambda step: step.use_idf, "learns document frequencies"),
    "TfidfVectorizer": _tfidf_vectorizer,
}

#: Rules of the samplers of imbalanced-learn.
SAMPLERS = _rules(
    {
        _CLUSTERS: "ClusterCentroids",
        _REPEATS: "ADASYN BorderlineSMOTE KMeansSMOTE RandomOverSampler SMOTE SMOTEENN SMOTEN "
        "SMOTENC SMOTETomek SVMSMOTE",
        "leaves out records depending on others": "AllKNN CondensedNearestNeighbour "
        "EditedNearestNeighbours InstanceHardnessThreshold NearMiss NeighbourhoodCleaningRule "
        "OneSidedSelection RandomUnderSampler RepeatedEditedNearestNeighbours TomekLinks",
        "makes records by a function of all of them": "FunctionSampler",
    }
)

#: Rules of estimators that contain others, apart from fitting those. None: a private estimator
#: inside keeps its guarantee, once for each time that it is fitted.
META_ESTIMATORS: dict[str, Rule] = {
    **_rules(
        {
            None: "ColumnTransformer FeatureUnion FixedThresholdClassifier MultiOutputClassifier "
            "Pipeline PrivatePipeline RFE SelectFromModel TransformedTargetRegressor",
            _LABELS: "OneVsRestClassifier OutputCodeClassifier VotingClassifier",
            "chooses columns by exact scores": "RFECV SequentialFeatureSelector",
            "chooses the threshold on exact records": "TunedThresholdClassifierCV",
            "fits its last estimator on predictions for exact records": "StackingClassifier",
            "fits on the records of two labels, whose number depends on the labels": (
                "OneVsOneClassifier"
            ),
            "fits the calibration on exact records": "CalibratedClassifierCV",
            "keeps exact errors and weights each record by those of all others": (
                "AdaBoostClassifier"
            ),
            "keeps exact scores, and chooses by them": "GridSearchCV HalvingGridSearchCV "
            "HalvingRandomSearchCV RandomizedSearchCV",
            "keeps the labels and the iteration of each record": "SelfTrainingClassifier",
        }
    ),
    "BaggingClassifier": lambda step: _REPEATS if step.bootstrap else _LABELS,
    "ClassifierChain": _if(
        lambda step: step.cv is not None,
        "fits or chooses on exact records beside the private model",
    ),
}

#: Meta-estimators whose inner estimators do not affect each other's data. A `ClassifierChain`
#: does not either, unless it has `cv`.
PARALLEL = _names(
    "BaggingClassifier CalibratedClassifierCV ClassifierChain ColumnTransformer FeatureUnion "
    "FixedThresholdClassifier MultiOutputClassifier OneVsOneClassifier OneVsRestClassifier "
    "OutputCodeClassifier VotingClassifier"
)
#: Meta-estimators that fit inner estimators to all rows in order, so that person ids stay valid.
KEEP_ROWS = _names(
    "ClassifierChain ColumnTransformer FeatureUnion FixedThresholdClassifier "
    "MultiOutputClassifier OneVsRestClassifier OutputCodeClassifier Pipeline PrivatePipeline RFE "
    "SelectFromModel TransformedTargetRegressor VotingClassifier"
)
#: Meta-estimators whose results determine what they fit next, or how often.
ADAPTIVE = _names(
    "AdaBoostClassifier GridSearchCV HalvingGridSearchCV HalvingRandomSearchCV RFECV "
    "RandomizedSearchCV SelfTrainingClassifier"
)
_SPARSE = _names(
    "CountVectorizer FeatureHasher HashingVectorizer PrivateCountVectorizer TfidfTransformer "
    "TfidfVectorizer"
)


def _may_be_sparse(step: Any) -> bool:
    if any(getattr(step, name, False) is True for name in ("sparse_output", "sparse")):
        return True
    if getattr(step, "encode", None) == "onehot" or type(step).__name__ in _SPARSE:
        return True
    inside = getattr(step, "steps", None) or getattr(step, "transformer_list", None)
    inside = inside or getattr(step, "transformers", None) or ()
    return any(_may_be_sparse(each[1]) for each in inside)


#: What steps that learn nothing still reveal if scikit-learn fits them to the records. A
#: `PrivatePipeline` fits them to made-up records.
_REVEALED_BY_FIT: dict[str, Rule] = {
    "ColumnTransformer": _if(
        lambda step: step.sparse_threshold > 0 and _may_be_sparse(step),
        "compares the density of the data with sparse_threshold",
    ),
    "FunctionTransformer": _if(
        lambda step: step.check_inverse and step.func is not None and step.inverse_func is not None,
        "checks on the data whether its functions are inverse",
    ),
    "OneHotEncoder": _if(
        lambda step: step.handle_unknown == "warn", "warns about unknown categories"
    ),
    "SimpleImputer": _if(
        lambda step: step.strategy == "constant" and step.fill_value is None,
        "chooses the fill value by the types of the data",
    ),
}

#: Rules of classes: of the encoder of a schema, and of those that users registered.
_REGISTERED: dict[type, Rule] = {SchemaEncoder: None}


@dataclass(frozen=True)
class Finding:
    """Result of `check_pipeline` for one estimator.

    Parameters
    ----------
    step : str
        Name of the step; for an estimator inside another, as in `set_params`.
    estimator : str
        Name of its class.
    verdict : {"private", "learns nothing", "leaks"}
        Effect on the guarantee.
    reason : str
        What it learns, or why that is not known.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from skdirdp import check_pipeline
    >>> (finding,) = check_pipeline(make_pipeline(MinMaxScaler()))
    >>> print(finding)
    minmaxscaler (MinMaxScaler) leaks: learns the smallest and largest values
    """

    step: str
    estimator: str
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.step} ({self.estimator}) {self.verdict}{why}"


def register_step(estimator: type, rule: Rule) -> None:
    """Register what a class of your own learns from the data.

    Parameters
    ----------
    estimator : type
        The rule holds for its instances, not for those of subclasses.
    rule : None, str or callable
        None if it learns nothing from the data and transforms every record by itself, otherwise
        what it learns. Or a function that returns either for an instance. A `PrivatePipeline`
        fits a step that learns nothing to made-up records with the same columns and dtypes.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdirdp import check_pipeline
    >>> from skdirdp.pipeline import register_step
    >>> class Lowercase(TransformerMixin, BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return [text.lower() for text in X]
    >>> print(*check_pipeline(make_pipeline(Lowercase())))
    lowercase (Lowercase) leaks: is not known to learn nothing from the data
    >>> register_step(Lowercase, None)
    >>> print(*check_pipeline(make_pipeline(Lowercase())))
    lowercase (Lowercase) learns nothing
    """
    if not isinstance(estimator, type):
        raise TypeError(f"estimator must be a class; got {estimator!r}")
    if not (rule is None or isinstance(rule, str) or callable(rule)):
        raise TypeError(f"rule must be None, a string or a function; got {rule!r}")
    _REGISTERED[estimator] = rule


def check_pipeline(pipe: Any) -> list[Finding]:
    """Return which steps of a pipeline are private, learn nothing from the data, or leak.

    The check uses the class and the parameters of each step; nothing is fitted. A step that is
    not known to learn nothing counts as leaking. If the pipeline is not a `PrivatePipeline`, the
    findings include what the fit of steps that learn nothing reveals.

    Parameters
    ----------
    pipe : Pipeline, PrivatePipeline or any other estimator
        Estimators inside others are checked too.

    Returns
    -------
    list of Finding
        In the order of the steps.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdirdp import DirichletNB, check_pipeline
    >>> for finding in check_pipeline(make_pipeline(TfidfVectorizer(), DirichletNB())):
    ...     print(finding)
    tfidfvectorizer (TfidfVectorizer) leaks: learns the vocabulary
    dirichletnb (DirichletNB) private
    """
    if not hasattr(pipe, "steps"):
        return [*_check(type(pipe).__name__, pipe, None)]
    epsilon = getattr(pipe, "epsilon", None)
    return [finding for name, step in pipe.steps for finding in _check(name, step, epsilon)]


def _check(name: str, step: Any, epsilon: float | None) -> Iterator[Finding]:
    """Yield the findings of a step; `epsilon` replaces those of private estimators, if given."""
    kind = type(step).__name__
    if step is None or isinstance(step, str):
        yield Finding(name, str(step), "learns nothing")
    elif isinstance(step, PrivateEstimator):
        fault = _fault(step, epsilon)
        yield Finding(name, kind, "leaks" if fault else "private", fault)
    elif kind in META_ESTIMATORS and is_known(step):
        reason = _apply(META_ESTIMATORS[kind], step) or _chooses_columns(step)
        reason = reason or _revealed_by_fit(step, epsilon)
        if reason:
            yield Finding(name, kind, "leaks", reason)
        inside = getattr(step, "epsilon", None) if epsilon is None else epsilon
        for inner, child in _children(step):
            yield from _check(f"{name}__{inner}", child, inside)
    else:
        reason = _learns(step) or _revealed_by_fit(step, epsilon)
        yield Finding(name, kind, "leaks" if reason else "learns nothing", reason or "")


def learns_nothing(step: Any) -> bool:
    """Return whether an estimator without inner estimators learns nothing from the data."""
    return not isinstance(step, PrivateEstimator) and _learns(step) is None


def _revealed_by_fit(step: Any, epsilon: float | None) -> str | None:
    if (epsilon is not None and np.isfinite(epsilon)) or not is_known(step):
        return None
    return _apply(_REVEALED_BY_FIT.get(type(step).__name__), step)


def _learns(step: Any) -> str | None:
    if type(step) in _REGISTERED:
        return _apply(_REGISTERED[type(step)], step)
    rules, unknown = TRANSFORMERS | SAMPLERS, "is not known to learn nothing from the data"
    return _apply(rules.get(type(step).__name__, unknown), step) if is_known(step) else unknown


def _apply(rule: Rule, step: Any) -> str | None:
    return rule(step) if callable(rule) else rule


def _fault(step: PrivateEstimator, epsilon: float | None) -> str:
    """Return why an estimator of this package is not private, "" if it is."""
    if getattr(step, "mechanism", None) == "ehdl":
        return "has a mechanism that is not private"
    is_private = np.isfinite(step.epsilon if epsilon is None else epsilon)
    return "" if is_private else "has no noise: epsilon is infinite"


def _chooses_columns(step: Any) -> str | None:
    """Return a reason if a ColumnTransformer selects columns by a function of the data."""
    columns = [each[2] for each in getattr(step, "transformers", None) or ()]
    free = any(callable(each) and type(each).__name__ != "make_column_selector" for each in columns)
    return "chooses columns by a function of the data" if free else None


def _children(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimators inside another, by their names in `set_params`."""
    lists = ("steps", "transformers", "transformer_list", "estimators")
    parts = [each for name in lists for each in getattr(step, name, None) or ()]
    named = [each[:2] for each in parts if isinstance(each, tuple)]
    yield from named
    for name, value in step.get_params(deep=False).items():
        if isinstance(value, BaseEstimator) and (not named or name == "remainder"):
            yield name, value
