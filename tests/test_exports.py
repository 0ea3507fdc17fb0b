"""Released models in the files of others: skops, ONNX, BIF."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletNB,
    PrivacyAccountant,
    PrivateBayesNetMLE,
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
