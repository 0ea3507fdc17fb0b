"""Conversion of released models to ONNX, by way of scikit-learn's own classes."""

from typing import Any

from .bernoulli import DirichletBernoulliNB
from .categorical import DirichletCategoricalNB
from .complement import DirichletComplementNB
from .multinomial import DirichletNB

_MODELS = (DirichletNB, DirichletCategoricalNB, DirichletBernoulliNB, DirichletComplementNB)
# Those of skl2onnx's own classifiers.
_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [True, False],
}


def register_onnx_converters() -> None:
    """Let `skl2onnx` convert the naive Bayes models, alone and in pipelines.

    A model becomes what `to_sklearn` gives, with its class prior, which the converter of
    scikit-learn's class would lose if it were registered for ours by hand.

    Examples
    --------
    >>> from skdirdp.naive_bayes import register_onnx_converters
    >>> register_onnx_converters()  # doctest: +SKIP
    >>> from skl2onnx import to_onnx  # doctest: +SKIP
    >>> to_onnx(model, X[:1].astype("float32"))  # doctest: +SKIP
    """
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    for model in _MODELS:
        update_registered_converter(
            model,
            f"Skdirdp{model.__name__}",
            calculate_linear_classifier_output_shapes,
            _convert,
            options=_OPTIONS,
            overwrite=True,
        )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The operator of scikit-learn's model, whose outputs are the model's own."""
    from skl2onnx import get_model_alias

    model = operator.raw_operator.to_sklearn()
    inner = scope.declare_local_operator(get_model_alias(type(model)), model)
    inner.inputs.append(operator.inputs[0])
    for name, output in zip(("label", "probabilities"), operator.outputs, strict=True):
        found = scope.declare_local_variable(name, type(output.type)())
        inner.outputs.append(found)
        container.add_node(
            "Identity",
            found.full_name,
            output.full_name,
            name=scope.get_unique_operator_name("Identity"),
        )
