"""Private naive Bayes classifiers that drop in for scikit-learn's."""

from .bernoulli import DirichletBernoulliNB
from .categorical import DirichletCategoricalNB
from .complement import DirichletComplementNB
from .multinomial import DirichletNB
from .onnx import register_onnx_converters

__all__ = [
    "DirichletBernoulliNB",
    "DirichletCategoricalNB",
    "DirichletComplementNB",
    "DirichletNB",
    "register_onnx_converters",
]
