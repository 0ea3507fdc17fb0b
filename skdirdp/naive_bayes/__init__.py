"""Private naive Bayes classifiers that drop in for scikit-learn's."""

from .categorical import DirichletCategoricalNB
from .multinomial import DirichletNB

__all__ = ["DirichletCategoricalNB", "DirichletNB"]
