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

__all__ = [
    "ApproximateDP",
    "Composition",
    "NoPrivacy",
    "ProfiledDP",
    "PureDP",
    "RenyiDP",
    "TruncatedConcentratedDP",
    "ZeroConcentratedDP",
]
