"""Private naive Bayes classifiers, drop-in replacements for those of scikit-learn."""

from typing import Any

from .bernoulli import DirichletBernoulliNB
from .categorical import DirichletCategoricalNB
from .multinomial import DirichletComplementNB, DirichletNB

__all__ = [
    "DirichletBernoulliNB",
    "DirichletCategoricalNB",
    "DirichletComplementNB",
    "DirichletNB",
    "register_onnx_converters",
]


def register_onnx_converters() -> None:
    """Let `skl2onnx` convert the naive Bayes models, alone and in pipelines.

    A model is converted as the estimator that `to_sklearn` returns, with its class prior. The
    converter of scikit-learn's class would lose the prior if it were registered for ours.

    Examples
    --------
    >>> from skdirdp.naive_bayes import register_onnx_converters
    >>> register_onnx_converters()  # doctest: +SKIP
    >>> from skl2onnx import to_onnx  # doctest: +SKIP
    >>> to_onnx(model, X[:1].astype("float32"))  # doctest: +SKIP
    """
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    # Options of skl2onnx's own classifiers.
    options = {
        "zipmap": [True, False, "columns"],
        "output_class_labels": [False, True],
        "nocl": [True, False],
    }
    shapes = calculate_linear_classifier_output_shapes
    for model in (DirichletNB, DirichletCategoricalNB, DirichletBernoulliNB, DirichletComplementNB):
        alias = f"Skdirdp{model.__name__}"
        update_registered_converter(model, alias, shapes, _convert, overwrite=True, options=options)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the operator of scikit-learn's model, with the outputs of the private model."""
    from skl2onnx import get_model_alias

    model = operator.raw_operator.to_sklearn()
    inner = scope.declare_local_operator(get_model_alias(type(model)), model)
    inner.inputs.append(operator.inputs[0])
    for name, output in zip(("label", "probabilities"), operator.outputs, strict=True):
        variable = scope.declare_local_variable(name, type(output.type)())
        inner.outputs.append(variable)
        container.add_node(
            "Identity",
            variable.full_name,
            output.full_name,
            name=scope.get_unique_operator_name("Identity"),
        )
