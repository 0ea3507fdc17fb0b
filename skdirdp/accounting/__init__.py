"""Privacy guarantees, their composition, and the pairs they rest on.

Mechanisms describe themselves by worst cases (`worst_case`, `pairs`); `Composition`
composes those. Nothing here knows a mechanism.
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
