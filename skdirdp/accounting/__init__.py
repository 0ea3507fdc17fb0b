"""Privacy guarantees and their exact composition.

Each mechanism describes its worst cases by dominating pairs (`worst_case`, `pairs`), and
`Composition` composes them. This package does not depend on any mechanism.
"""

from .composition import Composition
from .guarantees import (
    ApproximateDP,
    NoPrivacy,
    ProfiledDP,
    PureDP,
    RenyiDP,
    TruncatedConcentratedDP,
    ZeroConcentratedDP,
)
from .selection import AllOf, OneOf, RepeatedSelection

__all__ = [
    "AllOf",
    "ApproximateDP",
    "Composition",
    "NoPrivacy",
    "OneOf",
    "ProfiledDP",
    "PureDP",
    "RenyiDP",
    "RepeatedSelection",
    "TruncatedConcentratedDP",
    "ZeroConcentratedDP",
]
