"""The warning and the error that users of the library may want to catch."""

__all__ = ["BudgetExceededError", "PrivacyLeakWarning"]


class PrivacyLeakWarning(UserWarning):
    """Something outside the guarantee depends on the data, or undoes the noise.

    Raised when a public parameter is missing and is taken from the data instead,
    and when noise is drawn from a seed that somebody may know.

    Examples
    --------
    A pipeline that must not leak turns it into an error:

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
    """A charge would pass the accountant's limit; nothing was charged or released.

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
