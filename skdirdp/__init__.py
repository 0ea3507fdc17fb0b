"""Differentially private estimators for scikit-learn, based on the Dirichlet mechanism.

An estimator counts, a mechanism turns counts into probabilities, and only the probabilities are
kept. A mechanism describes its privacy loss, compositions add privacy losses up, and the
accountant records them. See ``docs/layout.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0.dev0"

# Module of each public name. A module is imported when one of its names is first used.
_HOMES = {
    "BudgetExceededError": "exceptions",
    "DirichletBernoulliNB": "naive_bayes",
    "DirichletCategoricalNB": "naive_bayes",
    "DirichletComplementNB": "naive_bayes",
    "DirichletHistogramTransformer": "histogram",
    "DirichletNB": "naive_bayes",
    "LedgerError": "accountant",
    "PrivacyAccountant": "accountant",
    "PrivacyLeakWarning": "exceptions",
    "PrivacyReport": "base",
    "PrivateBayesNet": "bayes_net",
    "PrivateBayesNetMLE": "bayes_net",
    "PrivateCountVectorizer": "text",
    "PrivateCrosstab": "crosstab",
    "PrivateDirichletPosterior": "posterior",
    "PrivatePipeline": "pipeline",
    "PrivateTableClassifier": "table_classifier",
    "Schema": "schema",
    "check_pipeline": "pipeline",
    "make_private_pipeline": "pipeline",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    # The same names for type checkers, which do not run `__getattr__`.
    from .accountant import LedgerError as LedgerError
    from .accountant import PrivacyAccountant as PrivacyAccountant
    from .base import PrivacyReport as PrivacyReport
    from .bayes_net import PrivateBayesNet as PrivateBayesNet
    from .bayes_net import PrivateBayesNetMLE as PrivateBayesNetMLE
    from .crosstab import PrivateCrosstab as PrivateCrosstab
    from .exceptions import BudgetExceededError as BudgetExceededError
    from .exceptions import PrivacyLeakWarning as PrivacyLeakWarning
    from .histogram import DirichletHistogramTransformer as DirichletHistogramTransformer
    from .naive_bayes import DirichletBernoulliNB as DirichletBernoulliNB
    from .naive_bayes import DirichletCategoricalNB as DirichletCategoricalNB
    from .naive_bayes import DirichletComplementNB as DirichletComplementNB
    from .naive_bayes import DirichletNB as DirichletNB
    from .pipeline import PrivatePipeline as PrivatePipeline
    from .pipeline import check_pipeline as check_pipeline
    from .pipeline import make_private_pipeline as make_private_pipeline
    from .posterior import PrivateDirichletPosterior as PrivateDirichletPosterior
    from .schema import Schema as Schema
    from .table_classifier import PrivateTableClassifier as PrivateTableClassifier
    from .text import PrivateCountVectorizer as PrivateCountVectorizer
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f".{_HOMES[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
