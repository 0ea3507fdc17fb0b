"""The warning and the error that users of the library may want to catch."""


class PrivacyLeakWarning(UserWarning):
    """Something outside the guarantee depends on the data, or undoes the noise.

    Raised when a public parameter is missing and is taken from the data instead,
    and when noise is drawn from a seed that somebody may know.
    """


class BudgetExceededError(RuntimeError):
    """A charge would pass the accountant's limit; nothing was charged or released."""
