"""Differentially private estimators for scikit-learn on the Dirichlet mechanism.

Data flows one way: an estimator counts, a mechanism turns counts into
probabilities, and only those stay. Privacy flows the other: a mechanism describes
itself by its worst case, composition adds worst cases up, and the accountant keeps
them. See ``docs/layout.md``.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

# Where each public name lives; a module is imported when a name of it is first used.
_HOMES = {
    "BudgetExceededError": "exceptions",
    "DirichletCategoricalNB": "naive_bayes",
    "DirichletHistogramTransformer": "histogram",
    "DirichletNB": "naive_bayes",
    "PrivacyAccountant": "accountant",
    "PrivacyLeakWarning": "exceptions",
    "PrivateBayesNetMLE": "bayes_net",
    "PrivateDirichletPosterior": "posterior",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
