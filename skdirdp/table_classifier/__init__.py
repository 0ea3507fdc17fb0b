"""Private classifier for tables with columns of any kind."""

from .classifier import PrivateTableClassifier

__all__ = ["PrivateTableClassifier"]
