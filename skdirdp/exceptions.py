"""Warnings and errors of the package."""

__all__ = ["BudgetExceededError", "PrivacyLeakWarning"]


class PrivacyLeakWarning(UserWarning):
    """Warning about a result that the privacy guarantee does not cover.

    It is issued if a public parameter is missing and is taken from the data instead, or if the
    noise is seeded with `random_state`.

    Examples
    --------
    The warning can be turned into an error:

    >>> import warnings
    >>> from skdirdp import PrivacyLeakWarning
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyLeakWarning)
    ...     DirichletMechanism(r=0.5, alpha=5.0).release([12, 0, 5], random_state=0)
    Traceback (most recent call last):
        ...
    skdirdp.exceptions.PrivacyLeakWarning: random_state is given: ...
    """


class BudgetExceededError(RuntimeError):
    """Raised if a charge would exceed the accountant's limit; nothing is charged or released.

    Examples
    --------
    >>> from skdirdp import BudgetExceededError, PrivacyAccountant
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> accountant = PrivacyAccountant(epsilon=0.1)
    >>> try:
    ...     DirichletMechanism(r=0.5, alpha=5.0).release([12, 0, 5], accountant=accountant)
    ... except BudgetExceededError:
    ...     print(len(accountant), "charges")
    0 charges
    """
