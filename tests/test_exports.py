"""Released models in the files of others: skops, ONNX, BIF."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivacyAccountant,
    PrivateBayesNet,
    PrivateBayesNetMLE,
    PrivateCountVectorizer,
    make_private_pipeline,
)
from skdirdp.naive_bayes import register_onnx_converters

MODELS = [
    DirichletNB(classes=[0, 1, 2], max_count=3, max_total=8),
    DirichletComplementNB(classes=[0, 1, 2], max_count=3, max_total=8),
    DirichletBernoulliNB(classes=[0, 1, 2]),
    DirichletCategoricalNB(classes=[0, 1, 2], n_categories=4),
]


def records():
    rng = np.random.default_rng(0)
    y = rng.choice(3, size=900, p=[0.7, 0.2, 0.1])
    return np.minimum(rng.poisson(rng.gamma(1.0, 1.0, size=(3, 5))[y]), 3), y


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("labels", ["numbers", "words"])
def test_onnx_models_predict_the_same(model, labels):
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from skl2onnx import to_onnx

    register_onnx_converters()
    X, y = records()
    if labels == "words":
        names = np.array(["a", "b", "c"])
        model, y = type(model)(**{**model.get_params(), "classes": list(names)}), names[y]
    model.fit(X, y)
    kind = np.int64 if isinstance(model, DirichletCategoricalNB) else np.float32
    for estimator in (model, make_pipeline(FunctionTransformer(), model)):
        onnx = to_onnx(estimator, X[:1].astype(kind), options={"zipmap": False})
        session = onnxruntime.InferenceSession(
            onnx.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        predicted, probabilities = session.run(None, {"X": X.astype(kind)})
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
        # The prior is there: without it some records would get another class.
        np.testing.assert_array_equal(predicted, model.predict(X))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_skops_files_contain_only_public_types(model):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = records()
    model.set_params(accountant=PrivacyAccountant()).fit(X, y)
    file = skops.dumps(model)
    asked = skops.get_untrusted_types(data=file)
    assert all(name.startswith("skdirdp.") for name in asked)
    assert not any(part.startswith("_") for name in asked for part in name.split("."))
    loaded = skops.loads(file, trusted=asked)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.privacy_ == model.privacy_
    plain = skops.dumps(model.to_sklearn())
    assert skops.get_untrusted_types(data=plain) == []
    model.set_params(accountant=None)


@pytest.mark.parametrize("target", [None, "a"])
def test_skops_files_of_networks_contain_only_public_types(target):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(["x", "y"], 800), "b": rng.random(800)})
    X = X.assign(c=rng.integers(0, 50, 800), d=rng.choice(["u", "v", "w"], 800))
    bounds = {"b": (0.0, 1.0), "c": (0, 60)}
    model = PrivateBayesNet(
        states={"a": ["x", "y"]}, bounds=bounds, target=target, epsilon=5.0
    ).fit(X)
    file = skops.dumps(model)
    asked = skops.get_untrusted_types(data=file)
    others = {name for name in asked if not name.startswith("skdirdp.")}
    assert others <= {"builtins.frozenset", "pandas.Interval"}
    assert not any(part.startswith("_") for name in asked for part in name.split("."))
    loaded = skops.loads(file, trusted=asked)
    given = {"random_state": 0, "where": lambda records: records["b"] < 0.5}
    pd.testing.assert_frame_equal(loaded.sample(50, **given), model.sample(50, **given))
    assert loaded.sigma_ == model.sigma_
    assert str(loaded.privacy_) == str(model.privacy_)
    if target is not None:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def numbers():
    X = np.random.default_rng(0).normal(size=(600, 2)).clip(-3, 3).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


def run_onnx(exported, X):
    to_onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed").to_onnx
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    file = to_onnx(exported, X[:1]).SerializeToString()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X})[0]


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
def test_exported_bins_are_the_same_in_scikit_learn_and_onnx(encode):
    X, _ = numbers()
    bins = DirichletHistogramTransformer([3, 5], bounds=(-2, 2), encode=encode).fit(X)
    exported = bins.to_sklearn()
    expected = bins.transform(X)
    expected = expected.toarray() if encode == "onehot" else expected
    np.testing.assert_array_equal(exported.transform(X), expected)
    np.testing.assert_array_equal(exported.get_feature_names_out(), bins.get_feature_names_out())
    np.testing.assert_array_equal(run_onnx(exported, X), expected)


def test_exported_bins_have_the_names_of_the_features():
    X = pd.DataFrame(numbers()[0], columns=["a", "b"])
    exported = DirichletHistogramTransformer(4, bounds=(-2, 2)).fit(X).to_sklearn()
    assert exported.feature_names_in_.tolist() == ["a", "b"]


def test_bins_that_scikit_learn_lacks_are_not_exported():
    X, _ = numbers()
    bins = DirichletHistogramTransformer(4, bounds=(-2, 2), encode="cdf").fit(X)
    with pytest.raises(ValueError, match="must be called for numeric bins"):
        bins.to_sklearn()
    with pytest.raises(NotFittedError):
        DirichletHistogramTransformer().to_sklearn()


@pytest.mark.parametrize(
    "steps",
    [
        [
            DirichletHistogramTransformer(5, bounds=(-3, 3), encode="ordinal"),
            DirichletCategoricalNB(classes=[0, 1]),
        ],
        [DirichletHistogramTransformer(5, bounds=(-3, 3)), DirichletNB(classes=[0, 1])],
    ],
    ids=["ordinal", "onehot"],
)
def test_exported_pipelines_predict_the_same(steps):
    X, y = numbers()
    pipeline = make_private_pipeline(*steps).fit(X, y)
    exported = pipeline.to_sklearn()
    assert type(exported) is Pipeline
    np.testing.assert_allclose(exported.predict_proba(X), pipeline.predict_proba(X))
    np.testing.assert_array_equal(run_onnx(exported, X), pipeline.predict(X))
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    assert set(skops.get_untrusted_types(data=skops.dumps(exported))) <= {"numpy.dtype"}


def test_exported_text_pipelines_predict_the_same():
    texts, y = ["good film", "bad film"] * 1000, [1, 0] * 1000
    words = PrivateCountVectorizer(max_words=3, max_features=10)
    model = DirichletNB(classes=[0, 1], max_total=3, max_count=1)
    pipeline = make_private_pipeline(words, model).fit(texts, y)
    exported = pipeline.to_sklearn()
    assert exported[0].vocabulary_ == pipeline[0].vocabulary_
    new = ["a good film", "never seen", ""]
    np.testing.assert_allclose(exported.predict_proba(new), pipeline.predict_proba(new))


def test_a_pipeline_with_a_step_that_cannot_be_exported_says_so():
    X = pd.DataFrame(numbers()[0], columns=["a", "b"])
    bins = DirichletHistogramTransformer(3, bounds=(-3, 3), encode="ordinal").set_output(
        transform="pandas"
    )
    states = {"a": range(3), "b": range(3)}
    network = PrivateBayesNetMLE([("a", "b")], states={k: list(v) for k, v in states.items()})
    pipeline = make_private_pipeline(bins, network).fit(X)
    with pytest.raises(ValueError, match="steps must have a method to_sklearn; got privatebayes"):
        pipeline.to_sklearn()


def test_a_network_round_trips_through_bif(tmp_path):
    from pgmpy.readwrite import BIFReader, BIFWriter

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(2, size=500), "b": rng.integers(3, size=500)})
    network = PrivateBayesNetMLE([("a", "b")], states={"a": [0, 1], "b": [0, 1, 2]}).fit(table)
    path = tmp_path / "network.bif"
    BIFWriter(network.model_, round_values=17).write(str(path))
    back = BIFReader(str(path)).get_model()
    for node in ("a", "b"):
        mine, its = (m.get_cpds(node).get_values() for m in (network.model_, back))
        np.testing.assert_allclose(its, mine, atol=1e-12)
