"""Warnings and errors of the package."""

__all__ = [
    "BudgetExceededError",
    "ContractError",
    "DuplicateChargeError",
    "PrivacyLeakWarning",
]


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


class DuplicateChargeError(ValueError):
    """Error for a charge whose key belongs to another charge; nothing is charged.

    Examples
    --------
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.exceptions import DuplicateChargeError
    >>> from skdirdp.mechanisms import DirichletMechanism
    >>> accountant = PrivacyAccountant(epsilon=1.0)
    >>> accountant.charge(DirichletMechanism(0.1, 5.0), key="first table")
    >>> try:
    ...     accountant.charge(DirichletMechanism(0.2, 5.0), key="first table")
    ... except DuplicateChargeError:
    ...     print(len(accountant), "charge")
    1 charge
    """


class ContractError(ValueError):
    """Raised if a party or a message does not match the contract of a federated round.

    Examples
    --------
    >>> from skdirdp import DirichletCategoricalNB
    >>> from skdirdp.exceptions import ContractError
    >>> from skdirdp.federated import FederatedRound
    >>> def hospital(epsilon):
    ...     model = DirichletCategoricalNB(
    ...         classes=[0, 1], n_categories=2, n_samples=1000, epsilon=epsilon
    ...     )
    ...     return FederatedRound(model, {"X": [[0]], "y": [0]}, round_id="1", n_parties=2)
    >>> try:
    ...     hospital(1.0).check_offer(hospital(2.0).contract)
    ... except ContractError as error:
    ...     print("parameters.epsilon is 1.0 here and 2.0 on the other side" in str(error))
    True
    """
