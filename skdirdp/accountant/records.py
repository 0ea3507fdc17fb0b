"""What a ledger holds, as values, and the one error for all that can be wrong with it."""

from dataclasses import dataclass
from datetime import datetime


class LedgerError(ValueError):
    """A ledger is missing, out of reach, not a ledger, damaged, or cannot be written.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from skdirdp import PrivacyAccountant
    >>> from skdirdp.accountant import LedgerError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("not a ledger")
    ...     try:
    ...         PrivacyAccountant(path=path)
    ...     except LedgerError:
    ...         print(path.read_text())
    not a ledger
    """


class UnusableError(LedgerError):
    """Why a ledger cannot be used. Whoever knows where it is makes the whole sentence of it."""


class ConnectionLostError(LedgerError):
    """A connection broke, and what was about to be written is not in the ledger.

    It may still be on its way to the server: who tries again does so with the same key.
    """


@dataclass(frozen=True)
class Limits:
    """What a ledger was created with; `epsilon` is None when there is no limit."""

    epsilon: float | None
    delta: float
    order: float | None
    adaptive: bool = False


@dataclass(frozen=True)
class Header:
    """All that stays the same in a ledger, from its creation on.

    `number` is that of the ledger in its database; a file has one. `origin` says of a
    ledger that was converted what it was before.
    """

    identity: str
    limits: Limits
    created: str
    name: str | None = None
    adjacency: str | None = None
    unit: str | None = None
    origin: str | None = None
    number: int = 1


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts that a data set is split into, and by what."""

    identity: str
    part: str
    name: str
    by: str


@dataclass(frozen=True)
class Charge:
    """One entry of the ledger; the first has the id 1."""

    id: int
    time: datetime
    user: str | None
    key: str
    spec: str
    releases: int
    label: str | None
    split: Split | None


# (identity of a split or "", name of a part or "", spec) -> number of releases
Sums = dict[tuple[str, str, str], int]

#: The kind of the first charge of a ledger, and its number of releases.
First = tuple[str, int]

#: The number and the hash of a charge: which it is, and that all before it are the same.
Position = tuple[int, str]
NOTHING: Position = (0, "")
